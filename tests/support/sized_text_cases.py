"""What Spark answers to queries over VARCHAR(n) and CHAR(n). The tests in process and on Spark share it."""

from __future__ import annotations

TABLES = {
    "t": "id INT, v VARCHAR(3), c CHAR(3), a ARRAY<VARCHAR(2)>, st STRUCT<x: CHAR(2), y: STRING>, m MAP<VARCHAR(2), CHAR(2)>",
    "u": "c2 CHAR(5), s STRING, id INT",
}
ROWS = {
    "t": (
        "(1, 'abc  ', 'a', array('x '), named_struct('x', 'z', 'y', 'q'), map('k', 'v'))",
        "(2, 'ab ', 'ab ', NULL, NULL, NULL)",
        "(3, 'ab    ', 'abc   ', array('xy  ', NULL), NULL, NULL)",
        "(4, 'äöü', '日本', NULL, NULL, NULL)",
        "(5, '', NULL, array(), named_struct('x', NULL, 'y', NULL), NULL)",
    ),
    "u": ("('a', 'a', 1)", "('abc', 'abc', 2)"),
}
STORED = [
    (1, "abc", "a  ", ["x "], {"x": "z ", "y": "q"}, {"k": "v "}),
    (2, "ab ", "ab ", None, None, None),
    (3, "ab ", "abc", ["xy", None], None, None),
    (4, "äöü", "日本 ", None, None, None),
    (5, "", None, [], {"x": None, "y": None}, None),
]
TOO_LONG = (
    "(9, 'abcd', 'a', NULL, NULL, NULL)",
    "(9, 'a', 'abcd', NULL, NULL, NULL)",
    "(9, 'a', 'a', array('abc'), NULL, NULL)",
    "(9, 'a', 'a', NULL, named_struct('x', 'abc', 'y', 'q'), NULL)",
    "(9, 'a', 'a', NULL, NULL, map('abc', 'v'))",
    "(9, 'a', 'a', NULL, NULL, map('k', 'abc'))",
)
CONDITIONS = {
    "c = 'a'": [1],
    "c = 'a      '": [1],
    "'a' = c": [1],
    "c <=> 'a'": [1],
    "c IN ('a', 'ab')": [1, 2],
    "c IN ('a', 'abcd')": [1],
    "c IN ('a', NULL)": [],
    "c NOT IN ('a')": [2, 3, 4],
    "c <> 'a'": [2, 3, 4],
    "c > 'a'": [2, 3, 4],
    "c >= 'a'": [1, 2, 3, 4],
    "c > 'a  x'": [2, 3, 4],
    "c >= 'a  \t'": [1, 2, 3, 4],
    "c < 'a  x'": [1],
    "c <= 'a  \t'": [],
    "c <> 'abcd'": [1, 2, 3, 4],
    "c = 'abcd'": [],
    "c BETWEEN 'a' AND 'a'": [],
    "c BETWEEN 'a  ' AND 'ab'": [1],
    "c LIKE 'a'": [],
    "c LIKE 'a%'": [1, 2, 3],
    "c = concat('a', '')": [1],
    "c = lower('ABCDE')": [],
    "c IN (lower('A'), 'ab')": [1, 2],
    "c = v": [2],
    "c = CAST('a' AS STRING)": [1],
    "st.x = 'z'": [],
    "st.x = 'z '": [1],
    "get(a, 0) = 'x'": [],
    "v = 'ab'": [],
    "v = 'ab '": [2, 3],
    "v = 'abc  '": [],
    "upper(c) = 'A'": [],
    "trim(c) = 'a'": [1],
    "c || '' = 'a'": [],
    "coalesce(c, 'a') = 'a'": [5],
    "if(true, c, c) = 'a'": [],
    "nullif(c, 'a') IS NULL": [5],
    "(c, id) IN (('a', 1))": [],
    "c IN (SELECT s FROM u)": [3],
    "c IN (SELECT c2 FROM u)": [],
    "EXISTS (SELECT 1 FROM u WHERE c2 = c)": [1, 3],
    "EXISTS (SELECT 1 FROM u WHERE s = c)": [3],
    "CASE c WHEN 'a' THEN true END": [1],
    "(c = 'a') IS TRUE": [1],
    "exists(array('a'), x -> x = c)": [],
}
"""A condition on `t` -> the ids for which it is true."""
QUERIES = {
    "SELECT t.id FROM t JOIN u ON c = c2": [(1,), (3,)],
    "SELECT t.id FROM t JOIN u ON c = s": [(3,)],
    "SELECT id FROM (SELECT id, c AS d FROM t) WHERE d = 'a'": [(1,)],
    "WITH x AS (SELECT c AS d, id FROM t) SELECT id FROM x WHERE d = 'a'": [(1,)],
    "SELECT a.id FROM t AS a JOIN (SELECT c2 AS c FROM u) AS b USING (c)": [(1,), (3,)],
    "SELECT id FROM (SELECT id, c FROM t UNION ALL SELECT id, 'q' FROM t) WHERE c = 'a'": [(1,)],
    "SELECT id FROM (SELECT id, 'q' AS c FROM t UNION ALL SELECT id, c FROM t) WHERE c = 'a'": [],
    "SELECT id FROM (SELECT DISTINCT id, c FROM t) WHERE c = 'a'": [(1,)],
    "SELECT id FROM (SELECT id, c FROM t ORDER BY id LIMIT 2) WHERE c = 'a'": [(1,)],
    "SELECT id FROM (SELECT id, any_value(c) AS c FROM t GROUP BY id) WHERE c = 'a'": [],
    "SELECT count(*) FROM t GROUP BY c HAVING c = 'a'": [(1,)],
    "SELECT count(*) FROM t GROUP BY c HAVING max(c) = 'a'": [],
    "SELECT sum(CASE c WHEN 'a' THEN 1 ELSE 0 END) FILTER (WHERE c = 'a') FROM t": [(1,)],
    "SELECT id FROM t QUALIFY row_number() OVER (ORDER BY c DESC) = 4 AND c = 'a'": [(1,)],
    "SELECT id FROM t LATERAL VIEW explode(array(c)) AS e WHERE e = 'a'": [],
    "SELECT * FROM (SELECT id, c FROM t) PIVOT (max(id) FOR c IN ('a', 'ab'))": [(None, None)],
    "FROM t |> EXTEND c AS e |> WHERE e = 'a' |> SELECT id": [(1,)],
    "WITH RECURSIVE r AS (SELECT id, c FROM t UNION ALL SELECT id + 10, c FROM r WHERE id < 10) SELECT id FROM r WHERE c = 'a'": [
        (1,),
        (11,),
    ],
    "SELECT CAST('abcd' AS VARCHAR(3)), length(CAST('a' AS CHAR(3)))": [("abcd", 1)],
    "SELECT length(v), length(c), length(st.x), length(m['k']) FROM t WHERE id = 1": [(3, 3, 2, 2)],
}
KEPT = (
    "SELECT id, v, c, c AS d, a, st, m, upper(c) AS u, v || '' AS w, CAST(v AS VARCHAR(2)) AS x, st.x AS y, get(a, 0) AS z, "
    "max(c) OVER () AS o FROM t",
    {
        "id": "INT",
        "v": "VARCHAR(3)",
        "c": "CHAR(3)",
        "d": "CHAR(3)",
        "a": "ARRAY<VARCHAR(2)>",
        "st": "STRUCT<x: CHAR(2), y: STRING>",
        "m": "MAP<VARCHAR(2), CHAR(2)>",
    }
    | dict.fromkeys("uwxyzo", "STRING"),
)
"""A query, and the types of the columns that CREATE TABLE AS and CREATE VIEW give its result."""
