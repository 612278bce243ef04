"""The types of Spark SQL as Arrow types: names in DuckDB, the common type of two, the type of arithmetic on decimals; and values
that DuckDB holds in another form than Arrow: intervals in columns of results, and in rows that the caller gives.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidQuery
from lsmlake.kernels.interval_text import parts
from lsmlake.types import column_types
from lsmlake.types.intervals import DURATION, Interval, has_interval, interval_of, is_interval
from lsmlake.types.type_table import DECIMAL_DIGITS_MAX as DIGITS_MAX
from lsmlake.types.type_table import column_type, is_dated

BOOLEAN, STRING, BINARY, DATE = pa.bool_(), pa.string(), pa.binary(), pa.date32()
TINYINT, SMALLINT, INT, BIGINT = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE, NULL = pa.float32(), pa.float64(), pa.null()
TIMESTAMP, TIMESTAMP_NTZ, TIME = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.time64("us")
_INTEGER_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}
_ADJUSTED_SCALE_MIN = 6
CALLED_AS_CASTS = (
    "boolean", "tinyint", "smallint", "int", "bigint", "decimal", "float", "double", "string", "binary", "date", "timestamp",
)  # fmt: skip
"""Functions that Spark names after a type: `int(x)` is CAST(x AS INT)."""


def duck_name(kind: pa.DataType) -> str:
    """The name of a type in DuckDB. An INTERVAL is the number of its months or microseconds, so that DuckDB compares it as Spark
    does."""
    if is_interval(kind):
        return duck_name(kind.storage_type)
    if pa.types.is_list(kind):
        return f"{duck_name(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP({duck_name(kind.key_type)}, {duck_name(kind.item_type)})"
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{quoted(field.name)} {duck_name(field.type)}' for field in kind)})"
    return "INTEGER" if kind == NULL else column_type(kind).duckdb


def of_column(field: pa.Field) -> pa.DataType:
    """The type of a column of a source. A column of nulls only may have no type, as NULL has none. Raises InvalidSchema."""
    return (
        NULL if field.type == NULL else interval_of(field) or column_types.plain(column_types.canonical(field.type, field.name))
    )


def array_of(kind: pa.DataType) -> pa.DataType:
    """The type of an array."""
    return pa.list_(pa.field("element", kind))


def holds(kind: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type, or a type inside of its arrays and structs, passes a test."""
    if pa.types.is_list(kind):
        return holds(kind.value_type, test)
    return any(holds(field.type, test) for field in kind) if pa.types.is_struct(kind) else test(kind)


def without_null(kind: pa.DataType) -> pa.DataType:
    """A type with INT for NULL, also inside of it: what a column of nulls is in a result."""
    t = pa.types
    if t.is_null(kind):
        return INT
    if t.is_list(kind):
        return array_of(without_null(kind.value_type))
    if t.is_map(kind):
        return pa.map_(without_null(kind.key_type), without_null(kind.item_type))
    if t.is_struct(kind):
        return pa.struct([field.with_type(without_null(field.type)) for field in kind])
    return kind


def quoted(name: str) -> str:
    """A name as an identifier of DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A string as a literal of DuckDB."""
    if "\0" in value:
        return "concat(" + ", chr(0), ".join(text(part) for part in value.split("\0")) + ")"
    return "'" + value.replace("'", "''") + "'"


def is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def as_decimal(kind: pa.DataType) -> pa.DataType:
    """The decimal type that holds all values of an integer or decimal type."""
    return kind if pa.types.is_decimal(kind) else pa.decimal128(_INTEGER_DIGITS[kind], 0)


def common(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type to which Spark (ANSI mode) converts two values that are compared or stand in one column; None if there is none."""
    t = pa.types
    if a == b or t.is_null(b):
        return a
    if t.is_null(a):
        return b
    if is_interval(a) or is_interval(b):
        return a.with_(b) if is_interval(a) and is_interval(b) else None
    if is_number(a) and is_number(b):
        return _common_number(a, b)
    if t.is_string(a) or t.is_string(b):
        other = b if t.is_string(a) else a
        if is_number(other):
            return BIGINT if t.is_integer(other) else DOUBLE
        return None if t.is_nested(other) else other
    if is_dated(a) and is_dated(b):
        return TIMESTAMP if TIMESTAMP in (a, b) else TIMESTAMP_NTZ
    if t.is_list(a) and t.is_list(b):
        inner = common(a.value_type, b.value_type)
        return None if inner is None else array_of(inner)
    if t.is_struct(a) and t.is_struct(b) and [field.name for field in a] == [field.name for field in b]:
        inner = [common(one.type, b.field(one.name).type) for one in a]
        return None if None in inner else pa.struct([(one.name, kind) for one, kind in zip(a, inner, strict=True)])
    return None


def _common_number(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    t = pa.types
    if t.is_integer(a) and t.is_integer(b):
        return a if a.bit_width >= b.bit_width else b
    if t.is_floating(a) or t.is_floating(b):
        return DOUBLE  # also an integer and a FLOAT
    x, y = as_decimal(a), as_decimal(b)
    digits = max(x.precision - x.scale, y.precision - y.scale)
    scale = min(max(x.scale, y.scale), DIGITS_MAX - digits)  # Spark keeps the digits before the point
    return pa.decimal128(digits + scale, scale)


def _exact(precision: int, scale: int) -> pa.DataType | None:
    """Spark's type for a result of this precision and scale; None if Spark would round the result."""
    if precision <= DIGITS_MAX:
        return pa.decimal128(precision, scale)
    kept = max(DIGITS_MAX - (precision - scale), min(scale, _ADJUSTED_SCALE_MIN))
    return pa.decimal128(DIGITS_MAX, scale) if kept == scale else None


def arithmetic(op: str, a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The decimal type of `a op b`, for '+', '-', '*', '/' and '%'; None if Spark would round what is exact in DuckDB."""
    digits = max(a.precision - a.scale, b.precision - b.scale)
    scale = max(a.scale, b.scale)
    match op:
        case "+" | "-":
            return _exact(digits + scale + 1, scale)
        case "*":
            return _exact(a.precision + b.precision + 1, a.scale + b.scale)
        case "%":
            return _exact(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)
    scale = max(_ADJUSTED_SCALE_MIN, a.scale + b.precision + 1)
    digits = a.precision - a.scale + b.scale
    if digits + scale > DIGITS_MAX:  # Spark rounds the quotient to fewer digits
        scale = max(DIGITS_MAX - digits, _ADJUSTED_SCALE_MIN)
    return pa.decimal128(min(digits + scale, DIGITS_MAX), scale)  # a quotient with more digits is an error of its value


# -- values -----------------------------------------------------------------------------------------------------------


def result_sql(sql: str, kind: pa.DataType, level: int = 0) -> str:
    """An expression of DuckDB as it comes out in a result: Arrow casts a number of microseconds to a duration itself."""
    if not has_interval(kind):
        return f"CAST({sql} AS {duck_name(kind)})"
    t, inner = pa.types, f"e{level}"
    if is_interval(kind):
        if kind.is_calendar:
            return f"spark_calendar_result({sql})"
        return f"to_months(CAST({sql} AS INTEGER))" if kind.is_months else f"CAST({sql} AS BIGINT)"
    if t.is_list(kind):
        return f"list_transform({sql}, lambda {inner}: {result_sql(inner, kind.value_type, level + 1)})"
    if t.is_map(kind):
        parts = (("key", kind.key_type), ("value", kind.item_type))
        made = _packed(inner, parts, level + 1)
        return f"map_from_entries(list_transform(map_entries({sql}), lambda {inner}: {made}))"
    made = _packed(inner, [(field.name, field.type) for field in kind], level + 1)
    return f"list_transform([{sql}], lambda {inner}: CASE WHEN {inner} IS NOT NULL THEN {made} END)[1]"


def _packed(struct: str, parts: object, level: int) -> str:
    fields = (f"{quoted(name)} := {result_sql(f'struct_extract({struct}, {text(name)})', kind, level)}" for name, kind in parts)
    return f"struct_pack({', '.join(fields)})"


def stored(rows: pa.Table) -> pa.Table:
    """Rows for DuckDB, with intervals as numbers or as structs. Raises InvalidQuery for one that does not fit its column."""
    columns = [_stored(column, field) for column, field in zip(rows.columns, rows.schema, strict=True)]
    return rows if all(map(lambda a, b: a is b, columns, rows.columns)) else pa.table(columns, names=rows.column_names)


def _stored(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    kind = interval_of(field)
    if kind is None:
        return column
    if kind.arrow == DURATION:
        return column.cast(DURATION).cast(pa.int64())
    return pa.chunked_array([_numbers(chunk, field, kind) for chunk in column.chunks], kind.storage_type)


def _numbers(chunk: pa.Array, field: pa.Field, kind: Interval) -> pa.Array:
    """The months of intervals, or structs of their parts."""
    values = parts(chunk)
    nulls = chunk.is_null().to_numpy(zero_copy_only=False)
    microseconds, rest = np.divmod(values["nanoseconds"], 1000)
    wrong = rest != 0 if kind.is_calendar else (values["days"] != 0) | (values["nanoseconds"] != 0)
    if (wrong & ~nulls).any():
        expected = "whole microseconds" if kind.is_calendar else "months"
        value = chunk[int(np.flatnonzero(wrong & ~nulls)[0])]
        raise InvalidQuery(f"a value is no {kind}", where=f"column {field.name!r}", expected=expected, found=value)
    if kind.is_months:
        return pa.array(values["months"].copy(), mask=nulls)
    columns = (values["months"].copy(), values["days"].copy(), microseconds)
    return pa.StructArray.from_arrays([pa.array(one) for one in columns], fields=list(kind.storage_type), mask=pa.array(nulls))


def one_zero(sql: str, kind: pa.DataType, depth: int = 0) -> str:
    """An expression of DuckDB with 0.0 for -0.0, also inside of arrays and structs. `depth`: how many of these are around it.

    Spark compares both as equal, and gives 0.0 where it makes one value of equal ones: in groups, DISTINCT, set operations, sets
    and the keys of maps.
    """
    if pa.types.is_floating(kind):
        return f"({sql} + CAST(0 AS {duck_name(kind)}))"
    if not holds(kind, pa.types.is_floating):
        return sql
    inside = f"z{depth}"
    if pa.types.is_list(kind):
        return f"list_transform({sql}, lambda {inside}: {one_zero(inside, kind.value_type, depth + 1)})"
    fields = (
        f"{quoted(one.name)} := {one_zero(f'struct_extract({inside}, {text(one.name)})', one.type, depth + 1)}" for one in kind
    )
    made = f"CASE WHEN {inside} IS NOT NULL THEN struct_pack({', '.join(fields)}) END"
    return f"list_transform([{sql}], lambda {inside}: {made})[1]"
