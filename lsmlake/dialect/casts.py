"""Spark's casts (ANSI mode) in DuckDB: explicit ones, and the assignment of a value to a column.

To Spark, a literal that is certainly no value of the type is an error of the whole text, even without rows. An uncertain literal
(a zone of a form that only the engine knows, a year beyond 9999) is left to the conversion.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect import interval_forms
from lsmlake.dialect.failures import refused
from lsmlake.dialect.sql_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    as_decimal,
    duck_name,
    is_dated,
    is_number,
    quoted,
    text,
)
from lsmlake.dialect.time_text import DATE_FORM, TIMESTAMP_FORM
from lsmlake.types.intervals import is_interval
from lsmlake.types.literal import cast as value_of
from lsmlake.types.literal import is_usual_time, number

_SHORT = 100
_USUAL = re.compile(r"'(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?'", re.ASCII)


def cast(sql: str, kind: pa.DataType, wanted: pa.DataType, safe: bool = False) -> str | None:
    """`CAST(sql AS wanted)`, or with `safe` TRY_CAST; None if Spark refuses it or DuckDB has no equal conversion."""
    t = pa.types
    name = duck_name(wanted)
    word = "TRY_CAST" if safe else "CAST"
    plain = f"{word}({sql} AS {name})"
    if kind == wanted or t.is_null(kind):
        return sql if kind == wanted else plain
    if is_interval(kind) or is_interval(wanted):
        return interval_forms.cast(sql, kind, wanted, safe)
    if t.is_string(kind):
        return _from_text(sql, wanted, word, "spark_try" if safe else "spark")
    if t.is_string(wanted):
        if t.is_nested(kind):
            return _nested_text(sql, kind)
        if t.is_decimal(kind):
            return f"regexp_replace({plain}, '^(-?)\\.', '\\10.')"  # DuckDB writes .5 where Spark writes 0.5
        if t.is_integer(kind) or t.is_boolean(kind) or t.is_date(kind) or kind in (TIMESTAMP_NTZ, TIME):
            return plain
        if kind in (DOUBLE, FLOAT):
            return f"spark_{'float' if kind == FLOAT else 'double'}_text({sql})"
        if kind == BINARY:
            return f"spark_text({sql})"
        return f"CAST(CAST({sql} AS TIMESTAMP) AS VARCHAR)" if kind == TIMESTAMP else None
    if is_number(kind) and is_number(wanted):
        return _number(sql, kind, wanted, word)
    if t.is_boolean(kind) and is_number(wanted) and not t.is_decimal(wanted):
        return plain
    if wanted == BOOLEAN and is_number(kind):
        return f"({sql} <> 0)"
    if is_dated(kind) and is_dated(wanted):
        instant = f"list_transform([CAST({sql} AS TIMESTAMP)], lambda l: spark_instant(l))[1]"  # the macro repeats its argument
        return plain if wanted != TIMESTAMP else instant if len(sql) > _SHORT else f"spark_instant(CAST({sql} AS TIMESTAMP))"
    if t.is_timestamp(kind) and wanted == TIME:
        return f"CAST(CAST({sql} AS TIMESTAMP) AS TIME)"
    if kind == TIMESTAMP and is_number(wanted):
        return _from_moment(sql, wanted, word)
    if wanted == TIMESTAMP and is_number(kind):
        return _moment(sql, kind, safe)
    if t.is_list(kind) and t.is_list(wanted):
        if _widens(kind.value_type, wanted.value_type):
            return plain
        element = f"e{_depth(kind)}"
        made = cast(element, kind.value_type, wanted.value_type, safe)
        return made and f"list_transform({sql}, lambda {element}: {made})"
    return plain if _widens(kind, wanted) else None


def _nested_text(sql: str, kind: pa.DataType) -> str | None:
    """A nested value as Spark writes it: [1, null], {1 -> a}, {1, a}."""
    t = pa.types
    value = f"e{_depth(kind)}"

    def part(of: str, kind: pa.DataType) -> str | None:
        made = cast(of, kind, STRING)
        return made and f"coalesce({made}, 'null')"

    if t.is_struct(kind):
        parts = [part(f"struct_extract_at({value}, {place})", field.type) for place, field in enumerate(kind, 1)]
        if None in parts:
            return None
        written = "'{' || " + " || ', ' || ".join(parts) + " || '}'"
        return f"list_transform([{sql}], lambda {value}: CASE WHEN {value} IS NOT NULL THEN {written} END)[1]"
    if t.is_map(kind):
        key, item = part(f"struct_extract_at({value}, 1)", kind.key_type), part(f"struct_extract_at({value}, 2)", kind.item_type)
        items, written, signs = f"map_entries({sql})", None if None in (key, item) else f"{key} || ' -> ' || {item}", "{}"
    else:
        items, written, signs = sql, part(value, kind.value_type), "[]"
    if written is None:
        return None
    joined = f"coalesce(array_to_string(list_transform({items}, lambda {value}: {written}), ', '), '')"
    return f"CASE WHEN ({sql}) IS NOT NULL THEN '{signs[0]}' || {joined} || '{signs[1]}' END"


def _depth(kind: pa.DataType) -> int:
    """The number of levels of nesting of a type; it numbers the variables of lambdas inside of each other."""
    inner = [kind.field(place).type for place in range(kind.num_fields)]
    return 1 + max(map(_depth, inner), default=0)


def _widens(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of a type inside a nested type is one of `wanted`, which DuckDB then casts as Spark does."""
    t = pa.types
    if t.is_null(kind) or kind == wanted:
        return True
    if t.is_list(kind) and t.is_list(wanted):
        return _widens(kind.value_type, wanted.value_type)
    if t.is_struct(kind) and t.is_struct(wanted) and [f.name for f in kind] == [f.name for f in wanted]:
        return all(_widens(f.type, wanted.field(f.name).type) for f in kind)
    if t.is_map(kind) and t.is_map(wanted):
        return _widens(kind.key_type, wanted.key_type) and _widens(kind.item_type, wanted.item_type)
    if t.is_integer(kind) and t.is_integer(wanted):
        return kind.bit_width <= wanted.bit_width
    if is_interval(kind) and is_interval(wanted):
        return kind.with_(wanted) == wanted
    if t.is_decimal(wanted) and (t.is_integer(kind) or t.is_decimal(kind)):
        exact = as_decimal(kind)
        return exact.scale <= wanted.scale and exact.precision - exact.scale <= wanted.precision - wanted.scale
    return (t.is_integer(kind) and t.is_floating(wanted)) or (kind == FLOAT and wanted == DOUBLE)


def _from_text(sql: str, wanted: pa.DataType, word: str, macro: str) -> str | None:
    t = pa.types
    name = duck_name(wanted)
    if is_dated(wanted) and (moment := _written(sql)) is not None:
        return cast(f"CAST('{moment}' AS TIMESTAMP)", TIMESTAMP_NTZ, wanted)
    if t.is_integer(wanted):
        return f"{word}({macro}_integer_text({sql}) AS {name})"
    if t.is_floating(wanted):
        return f"{word}({macro}_number_text({sql}) AS {name})"
    if t.is_decimal(wanted):
        return f"{word}({macro}_decimal_text({sql}) AS {name})"
    if t.is_boolean(wanted):
        return f"{macro}_boolean({sql})"
    if t.is_binary(wanted):
        return f"encode({sql})"
    if wanted == DATE:
        return f"{macro}_date_text({sql})"
    if wanted == TIMESTAMP:
        return f"{macro}_instant_text({sql})"
    if wanted == TIME:
        return f"{macro}_clock_text({sql})"
    return f"{macro}_time_text({sql})" if wanted == TIMESTAMP_NTZ else None


def _written(sql: str) -> datetime | None:
    """The time in a literal of the usual form, without a zone; None for other texts, whose regular expressions DuckDB plans in
    20 ms."""
    if (match := _USUAL.fullmatch(sql)) is None:
        return None
    year, month, day, hour, minute, second, fraction = (
        int(part or 0) for part in (*match.groups()[:6], (match[7] or "").ljust(6, "0"))
    )
    try:
        return datetime(year, month, day, hour, minute, second, fraction)
    except ValueError:
        return None


def _number(sql: str, kind: pa.DataType, wanted: pa.DataType, word: str) -> str:
    """A number as another type: Spark truncates to integers, rounds half up to decimals, and reads a double as it is printed."""
    t = pa.types
    name, macro = duck_name(wanted), "spark_try" if word == "TRY_CAST" else "spark"
    if wanted == BIGINT and t.is_floating(kind):
        return f"{macro}_long(CAST({sql} AS DOUBLE))"
    if t.is_integer(wanted) and not t.is_integer(kind):
        return f"{word}(trunc({sql}) AS {name})"
    if t.is_decimal(wanted) and t.is_floating(kind):
        return f"CASE WHEN isfinite({sql}) THEN {word}({macro}_decimal_text(CAST({sql} AS VARCHAR)) AS {name}) END"
    if wanted == FLOAT and t.is_decimal(kind):
        return f"CAST(CAST({sql} AS DOUBLE) AS FLOAT)"
    return f"{word}({sql} AS {name})"


def _from_moment(sql: str, wanted: pa.DataType, word: str) -> str:
    """The seconds since 1970 of a timestamp: with their fraction, or rounded down."""
    if pa.types.is_floating(wanted):
        return f"CAST(CAST(epoch_us({sql}) AS DOUBLE) / 1000000 AS {duck_name(wanted)})"
    if pa.types.is_decimal(wanted):
        return f"{word}(CAST(epoch_us({sql}) AS DECIMAL(25,0)) * CAST('0.000001' AS DECIMAL(7,6)) AS {duck_name(wanted)})"
    return f"{word}(spark_floor_div(epoch_us({sql}), 1000000) AS {duck_name(wanted)})"


def _moment(sql: str, kind: pa.DataType, safe: bool) -> str:
    """The timestamp `sql` seconds after 1970; parts of a microsecond are cut off."""
    if pa.types.is_floating(kind):
        return f"spark_{'try_' if safe else ''}moment(CAST({sql} AS DOUBLE))"
    micros = f"trunc(CAST({sql} AS DECIMAL(38,{kind.scale if pa.types.is_decimal(kind) else 0})) * 1000000)"
    return f"make_timestamptz({'TRY_CAST' if safe else 'CAST'}({micros} AS BIGINT))"


def assign(sql: str, kind: pa.DataType, wanted: pa.DataType) -> str | None:
    """`sql` as the value of a column of type `wanted`, by the rules of an INSERT; None if the types do not fit.

    Numbers fit numbers, times fit times, every value but BINARY and nested ones fits STRING. A value that does not
    fit without loss raises an error when it is computed; Spark would round or truncate it.
    """
    t = pa.types
    if kind == wanted or t.is_null(kind):
        return cast(sql, kind, wanted)
    both = (is_number(kind) and is_number(wanted)) or (is_dated(kind) and is_dated(wanted))
    if both:
        return _lossless(sql, kind, wanted)
    if wanted == STRING and not (t.is_binary(kind) or t.is_nested(kind)):
        return cast(sql, kind, wanted)
    return _assign_nested(sql, kind, wanted) if t.is_nested(kind) and t.is_nested(wanted) else None


def _assign_nested(sql: str, kind: pa.DataType, wanted: pa.DataType) -> str | None:
    """As `assign`, for each field of a struct and each element of an array."""
    t = pa.types
    if _widens(kind, wanted):
        return cast(sql, kind, wanted)
    value = f"e{_depth(kind)}"
    if t.is_list(kind) and t.is_list(wanted):
        element = assign(value, kind.value_type, wanted.value_type)
        return element and f"list_transform({sql}, lambda {value}: {element})"
    if not (t.is_struct(kind) and t.is_struct(wanted)) or [f.name for f in kind] != [f.name for f in wanted]:
        return None
    fields = [(f.name, assign(f"struct_extract({value}, {text(f.name)})", f.type, wanted.field(f.name).type)) for f in kind]
    if any(made is None for _, made in fields):
        return None
    packed = ", ".join(f"{quoted(name)} := CAST({made} AS {duck_name(wanted.field(name).type)})" for name, made in fields)
    return f"list_transform([{sql}], lambda {value}: CASE WHEN {value} IS NOT NULL THEN struct_pack({packed}) END)[1]"


def _lossless(sql: str, kind: pa.DataType, wanted: pa.DataType) -> str:
    made, name = cast(sql, kind, wanted), duck_name(wanted)
    back = "TIMESTAMP" if pa.types.is_timestamp(kind) and pa.types.is_date(wanted) else None
    if is_number(kind) and not (pa.types.is_floating(wanted)):
        exact = (
            pa.types.is_decimal(wanted)
            and not pa.types.is_floating(kind)
            and (pa.types.is_integer(kind) or kind.scale <= wanted.scale)
        )
        narrow = pa.types.is_integer(kind) and pa.types.is_integer(wanted)
        back = None if exact or narrow else duck_name(kind)
    if back is None:
        return made
    message = f"' does not fit {name.replace('INTEGER', 'INT')} without loss; round or cast the value'"
    kept = f"CAST({made} AS {back}) = CAST({sql} AS {back}) OR {sql} IS NULL"
    return f"CASE WHEN {kept} THEN {made} ELSE {refused(f'CAST({sql} AS VARCHAR) || {message}')} END"


# -- literals that fit no type ----------------------------------------------------------------------------------------

_DATE, _TIMESTAMP = (re.compile(form, re.ASCII | re.DOTALL) for form in (DATE_FORM, TIMESTAMP_FORM))
_CLOCK_ALONE = re.compile(r"T\d|\d{1,2}:", re.ASCII)
_LATER = exp.Case, exp.If, exp.Anonymous
"""Inside of these Spark converts a literal only when it computes a row, since a row may not need the value."""


def unfit(node: exp.Expression, wanted: pa.DataType) -> str | None:
    """Why a literal, or a literal in a cast, cannot become a value of a type; None if it can or might."""
    literal = (node.this if isinstance(node, exp.Cast) else node).unnest()
    if not isinstance(literal, exp.Literal):
        return None
    try:
        _check(literal, wanted)
    except ValueError as error:
        return None if node.find_ancestor(*_LATER) else str(error)
    except OverflowError:  # a time that exists in another zone only
        return None
    return None


def _check(literal: exp.Literal, wanted: pa.DataType) -> None:
    """Raises ValueError for a literal that is no value of the type."""
    text = literal.this
    if not literal.is_string:
        if pa.types.is_integer(wanted) or pa.types.is_decimal(wanted):
            value_of(number(text), wanted, timezone.utc)
    elif is_number(wanted) or pa.types.is_boolean(wanted) or (is_dated(wanted) and _is_known(text.strip(), wanted)):
        value_of(text, TIMESTAMP if is_dated(wanted) and wanted != DATE else wanted, timezone.utc)  # NTZ cuts a zone off
    elif pa.types.is_time(wanted):
        value_of(text, wanted, timezone.utc)


def _is_known(text: str, kind: pa.DataType) -> bool:
    """Whether a text is certainly a time, or certainly none."""
    if (_DATE if kind == DATE else _TIMESTAMP).match(text) is None:
        return kind == DATE or not _CLOCK_ALONE.match(text)
    return is_usual_time(text, kind) and not text.startswith("0000")
