r"""JSON text as Spark reads it, as macros of DuckDB.

DuckDB takes some text that is no JSON (a comma before ] or }, NaN), and refuses some that Spark takes: single quotes, and text
behind the end of the first value. `spark_json(s)` is the part of s that Spark reads; null if s is no JSON to Spark. Single
quotes fail.
"""

from __future__ import annotations

from lsmlake.dialect.failures import refused

_STRINGS = r'"(?:[^"\\]|\\.)*"'
_NOT_JSON = r",\s*[\]}]|(?i:nan|inf)"
_UNSURE = refused(
    "concat('''', left(s, 100), ''' is no strict JSON text, and Spark may read it; write double quotes, and characters as such')"
)
_OTHERWISE_WRITTEN = r"[0-9][eE]|[0-9]{8,}\.|(^|[^0-9])0\.000"
"""Numbers that Java writes in another form than DuckDB, in JSON without strings."""
_REWRITTEN = refused(
    "concat('the number in ', left(CAST(j AS VARCHAR), 100), ' would be written otherwise; select the number itself')"
)
_INFINITIES = "WHEN 'NaN' THEN 'NaN' " + " ".join(
    f"WHEN '{sign}{word}' THEN '{sign.strip('+')}Infinity'" for sign in ("", "+", "-") for word in ("INF", "Infinity")
)

MACROS = {
    "spark_json_bare(s)": f"regexp_replace(s, '{_STRINGS}', '\"\"', 'g')",
    "spark_is_json(s)": f"(json_valid(s) AND NOT regexp_matches(spark_json_bare(s), '{_NOT_JSON}'))",
    "spark_json_first(s)": "list_filter(list_transform(range(1, length(s) + 1), "
    "lambda i: CASE WHEN s[i] IN (']', '}') AND spark_is_json(left(s, i)) THEN left(s, i) END), lambda p: p IS NOT NULL)[1]",
    "spark_json(s)": "CASE WHEN spark_is_json(s) THEN CAST(s AS JSON) "
    rf"WHEN regexp_matches(s, '''|\\u[dD][89a-fA-F]') THEN {_UNSURE} "
    r"WHEN regexp_matches(s, '^\s*[\[{]') THEN CAST(spark_json_first(s) AS JSON) END",
    # for readers that know NaN
    "spark_json_with_nan(s)": "CASE WHEN NOT spark_is_json(s) AND regexp_matches(spark_json_bare(s), 'NaN|INF|Infinity') "
    f"THEN {_UNSURE} ELSE spark_json(s) END",
    # the text of a value: of a string its characters, of others compact JSON
    "spark_json_number(j)": "CASE WHEN regexp_matches(CAST(j AS VARCHAR), '[.eE]') "
    "THEN spark_double_text(CAST(CAST(j AS VARCHAR) AS DOUBLE)) ELSE CAST(j AS VARCHAR) END",
    "spark_json_nested(j)": f"CASE WHEN regexp_matches(spark_json_bare(CAST(j AS VARCHAR)), '{_OTHERWISE_WRITTEN}') "
    f"THEN {_REWRITTEN} ELSE CAST(json(j) AS VARCHAR) END",
    "spark_json_text(j)": "CASE json_type(j) WHEN 'VARCHAR' THEN json_extract_string(j, '$') WHEN 'NULL' THEN NULL "
    "WHEN 'DOUBLE' THEN spark_json_number(j) WHEN 'OBJECT' THEN spark_json_nested(j) WHEN 'ARRAY' THEN spark_json_nested(j) "
    "ELSE CAST(j AS VARCHAR) END",
    "spark_json_double(j)": "CASE WHEN json_type(j) IN ('UBIGINT', 'BIGINT', 'DOUBLE') THEN CAST(j AS VARCHAR) "
    f"WHEN json_type(j) = 'VARCHAR' THEN CASE json_extract_string(j, '$') {_INFINITIES} END END",
    "spark_json_string(j)": "CASE WHEN json_type(j) = 'VARCHAR' THEN json_extract_string(j, '$') END",
    "spark_json_whole(j)": "CASE WHEN json_type(j) IN ('UBIGINT', 'BIGINT') THEN CAST(j AS VARCHAR) END",
    # a number of JSON has the digits of a DOUBLE here: more than n of them would not be those of the text
    "spark_json_decimal(j, n)": "CASE WHEN json_type(j) = 'VARCHAR' THEN spark_try_decimal_text(json_extract_string(j, '$')) "
    "WHEN json_type(j) IN ('UBIGINT', 'BIGINT') THEN CAST(j AS VARCHAR) WHEN json_type(j) <> 'DOUBLE' THEN NULL "
    "WHEN length(regexp_replace(CAST(j AS VARCHAR), '[-.]|^0\\.0*|[eE].*', '', 'g')) <= n THEN CAST(j AS VARCHAR) ELSE "
    "spark_refuse('a number with so many digits cannot be read as DECIMAL here; write it as a string') END",
    "spark_json_array_length(s)": "list_transform([spark_json(s)], "
    "lambda j: CASE WHEN json_type(j) = 'ARRAY' THEN CAST(json_array_length(j) AS INTEGER) END)[1]",
    "spark_json_object_keys(s)": "list_transform([spark_json(s)], "
    "lambda j: CASE WHEN json_type(j) = 'OBJECT' THEN json_keys(j) END)[1]",
    "spark_json_field(s, k)": "list_transform([spark_json(s)], "
    "lambda j: CASE WHEN json_type(j) = 'OBJECT' THEN spark_json_text(CAST(j AS MAP(VARCHAR, JSON))[k]) END)[1]",
    # a DECIMAL as Java's BigDecimal writes it: with a power of ten if it is small. d: its digits without the point, n: its scale
    "spark_big_decimal(d, n)": "CASE WHEN length(d) - 1 - n >= -6 THEN "
    "CASE WHEN n = 0 THEN d WHEN length(d) > n THEN left(d, length(d) - n) || '.' || right(d, n) "
    "ELSE '0.' || lpad(d, n, '0') END ELSE left(d, 1) || CASE WHEN length(d) > 1 THEN '.' || substr(d, 2) ELSE '' END "
    "|| 'E' || (length(d) - 1 - n) END",
}
"""Head -> body. `j` is JSON."""
