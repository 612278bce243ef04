"""The table of column types: one row per type, with its names and with the form in which its values are stored.

    column_type(pa.date32()).iceberg          # "date"
    named("DECIMAL(10,2)").arrow              # decimal128(10, 2)
    as_integers(column)                       # dates and times as the integers that are stored

Nested types are made of these; `column_types` converts them. Lookups take canonical Arrow types.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple, TypeVar

import pyarrow as pa

Values = TypeVar("Values", pa.Array, pa.ChunkedArray, pa.Scalar)
DECIMAL_DIGITS_MAX = 38
_DAY = 86_400_000_000  # microseconds
_EPOCH, _MICRO = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, in days since 1970
_DAYS, _MOMENTS = (_FIRST_DAY, _LAST_DAY), (_FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1)


class ColumnType(NamedTuple):
    """A row of the table.

    Attributes:
        name: Its name in Spark's SQL, schema files, manifests and messages.
        arrow: Its canonical Arrow type.
        ddl: Its words in column definitions, by the token that sqlglot makes of them.
        spark: The class in `pyspark.sql.types`.
        duckdb, iceberg: Its names in DuckDB and Iceberg. Iceberg has `int` for short integers.
        delta: Its name in Delta Lake; None: there is none.
        avro: Its type in the Avro files of Iceberg.
        family: The types whose equal values have the same words in file indexes (`kernels.value_hash`), the widest one last.
        stored: The type of its values in metadata files: integers for dates and times, text for decimals.
        python: The classes of literals with which conditions compare it.
        bound: The format of a bound in Iceberg, for `struct`; None: `iceberg.schemas` says it.
        limits: The least and the greatest integer of a date or time that a table takes.
        units: The units of time by which Iceberg partitions it.
        truncates, hashes: Whether Iceberg partitions it by parts and by hashes of its values.
        directory: Whether Spark reads it from the name of a partition's directory as it was written.
        holds: Tells whether an Arrow type has its values in another layout or unit; None: only `arrow` has them.
        parquet: Its logical type in Parquet files; NONE: the physical type says it.
        iso: The class of Python for its values, if these have a text in ISO 8601.
        digits: The parameter that its name has in Spark.
        task: The Arrow type in which Spark takes its values from tasks; None: `arrow`.
        setting: The setting of a Spark session that must be true; None: every session has the type.
        version: The first version of schema files that may have it.
    """

    name: str
    arrow: pa.DataType
    ddl: dict[str, set[str]]
    spark: str
    duckdb: str
    iceberg: str
    delta: str | None
    avro: object
    family: str
    stored: pa.DataType
    python: tuple[type, ...]
    bound: str | None = None
    limits: tuple[int, int] | None = None
    units: tuple[str, ...] = ()
    truncates: bool = False
    hashes: bool = False
    directory: bool = False
    holds: Callable[[pa.DataType], bool] | None = None
    parquet: str = "NONE"
    iso: type[datetime.date] | type[datetime.time] | None = None
    digits: int | None = None
    task: pa.DataType | None = None
    setting: str | None = None
    version: int = 1


def is_text(type_: pa.DataType) -> bool:
    """Whether the type is a string in any Arrow layout except dictionaries."""
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)


def is_bytes(type_: pa.DataType) -> bool:
    """Whether the type is a byte string in any Arrow layout except dictionaries."""
    t = pa.types
    others = t.is_binary_view(type_) or t.is_fixed_size_binary(type_) or isinstance(type_, pa.UuidType)
    return t.is_binary(type_) or t.is_large_binary(type_) or others


def _is_instant(type_: pa.DataType) -> bool:
    return pa.types.is_timestamp(type_) and type_.tz is not None


def _is_local(type_: pa.DataType) -> bool:
    return pa.types.is_timestamp(type_) and type_.tz is None


BYTES = "bytes"
"""The family of STRING and BINARY."""
_AVRO_TIME = {"type": "long", "logicalType": "timestamp-micros"}
_UTC = pa.timestamp("us", "UTC")
_DATED, _TIMED = ("year", "month", "day"), ("year", "month", "day", "hour")
_NUMBER, _DATES = (int, float, Decimal), (datetime.date, datetime.datetime)
_BOTH = {"truncates": True, "hashes": True}
_STAMP = {"parquet": "TIMESTAMP", "iso": datetime.datetime}
# fmt: off
# name, arrow, ddl, spark, duckdb, iceberg, delta; avro, family, stored, python, bound, limits, units
TABLE = (
    ColumnType("BOOLEAN", pa.bool_(), {"BOOLEAN": {"BOOLEAN"}}, "BooleanType", "BOOLEAN", "boolean", "boolean",
               "boolean", "boolean", pa.bool_(), (bool,), "?", directory=True),
    ColumnType("TINYINT", pa.int8(), {"TINYINT": {"TINYINT", "BYTE"}}, "ByteType", "TINYINT", "int", "byte",
               "int", "integer", pa.int8(), _NUMBER, "<i", **_BOTH, parquet="INT"),
    ColumnType("SMALLINT", pa.int16(), {"SMALLINT": {"SMALLINT", "SHORT"}}, "ShortType", "SMALLINT", "int", "short",
               "int", "integer", pa.int16(), _NUMBER, "<i", **_BOTH, parquet="INT"),
    ColumnType("INT", pa.int32(), {"INT": {"INT", "INTEGER"}}, "IntegerType", "INTEGER", "int", "integer",
               "int", "integer", pa.int32(), _NUMBER, "<i", **_BOTH, directory=True),
    ColumnType("BIGINT", pa.int64(), {"BIGINT": {"BIGINT", "LONG"}}, "LongType", "BIGINT", "long", "long",
               "long", "integer", pa.int64(), _NUMBER, "<q", **_BOTH, directory=True),
    ColumnType("FLOAT", pa.float32(), {"FLOAT": {"FLOAT", "REAL"}}, "FloatType", "FLOAT", "float", "float",
               "float", "float", pa.float32(), _NUMBER, "<f"),
    ColumnType("DOUBLE", pa.float64(), {"DOUBLE": {"DOUBLE"}}, "DoubleType", "DOUBLE", "double", "double",
               "double", "float", pa.float64(), _NUMBER, "<d"),
    ColumnType("STRING", pa.string(), {"TEXT": {"STRING"}}, "StringType", "VARCHAR", "string", "string",
               "string", BYTES, pa.string(), (str,), **_BOTH, directory=True, holds=is_text, parquet="STRING"),
    ColumnType("BINARY", pa.binary(), {"BINARY": {"BINARY"}}, "BinaryType", "BLOB", "binary", "binary",
               "bytes", BYTES, pa.binary(), (bytes,), **_BOTH, holds=is_bytes),
    ColumnType("DATE", pa.date32(), {"DATE": {"DATE"}}, "DateType", "DATE", "date", "date",
               {"type": "int", "logicalType": "date"}, "date", pa.int32(), _DATES, "<i", _DAYS, _DATED,
               hashes=True, directory=True, holds=pa.types.is_date, parquet="DATE", iso=datetime.date),
    ColumnType("TIMESTAMP", _UTC, {"TIMESTAMPTZ": {"TIMESTAMP"}, "TIMESTAMPLTZ": {"TIMESTAMP_LTZ"}},
               "TimestampType", "TIMESTAMP WITH TIME ZONE", "timestamptz", "timestamp",
               {**_AVRO_TIME, "adjust-to-utc": True}, "timestamp", pa.int64(), _DATES, "<q", _MOMENTS, _TIMED, hashes=True,
               holds=_is_instant, **_STAMP),
    ColumnType("TIMESTAMP_NTZ", pa.timestamp("us"), {"TIMESTAMPNTZ": {"TIMESTAMP_NTZ"}},
               "TimestampNTZType", "TIMESTAMP", "timestamp", "timestamp_ntz",
               {**_AVRO_TIME, "adjust-to-utc": False}, "timestamp_ntz", pa.int64(), _DATES, "<q", _MOMENTS, _TIMED, hashes=True,
               holds=_is_local, **_STAMP),
    ColumnType("TIME", pa.time64("us"), {"TIME": {"TIME"}}, "TimeType", "TIME", "time", None,
               {"type": "long", "logicalType": "time-micros"}, "time", pa.int64(), (datetime.time,), "<q", (0, _DAY - 1),
               hashes=True, holds=pa.types.is_time, parquet="TIME", iso=datetime.time, digits=6, task=pa.time64("ns"),
               setting="spark.sql.timeType.enabled", version=3),
)
# fmt: on
"""All types but decimals, which have parameters, and nested types."""
_BY_ARROW = {row.arrow: row for row in TABLE}
BY_NAME = {row.name: row for row in TABLE}
BY_ICEBERG = {row.iceberg: row for row in TABLE}  # INT for int
BY_ICEBERG |= dict.fromkeys(("uuid", "fixed"), BY_NAME["BINARY"])
BY_DELTA = {row.delta: row for row in TABLE if row.delta}
_FIXED = re.compile(r"fixed\[ *[0-9]+ *\]")
_DECIMAL = re.compile(r"(?:DECIMAL|decimal)\( *([0-9]{1,2}) *, *([0-9]{1,2}) *\)")


def column_type(type_: pa.DataType) -> ColumnType | None:
    """The row of a canonical type that is not nested; None for another type."""
    return _BY_ARROW.get(type_) or (_decimal(type_) if pa.types.is_decimal128(type_) else None)


def holding(type_: pa.DataType) -> ColumnType | None:
    """The row of the type that holds all values of an Arrow type that is not nested; None: there is none."""
    if pa.types.is_decimal(type_) and type_.precision <= DECIMAL_DIGITS_MAX and 0 <= type_.scale <= type_.precision:
        return _decimal(pa.decimal128(type_.precision, type_.scale))
    return _BY_ARROW.get(type_) or next((row for row in TABLE if row.holds is not None and row.holds(type_)), None)


def of_value(value: object) -> ColumnType | None:
    """The row of a date or time of Python, TIMESTAMP for a date and time; None for another value, and for a time with a zone."""
    if isinstance(value, datetime.datetime):
        return BY_NAME["TIMESTAMP"]
    if isinstance(value, datetime.time) and value.tzinfo is not None:
        return None
    return next((row for row in TABLE if row.iso is not None and isinstance(value, row.iso)), None)


def named(name: str, known: Mapping[str, ColumnType] = BY_NAME) -> ColumnType | None:
    """The row of this name, such as DECIMAL(10,2); None: there is none. `known`: the names of a system."""
    if (row := known.get(name)) is not None:
        return row
    if (match := _DECIMAL.fullmatch(name)) is None:
        return known.get(_FIXED.sub("fixed", name))
    precision, scale = int(match[1]), int(match[2])
    return _decimal(pa.decimal128(precision, scale)) if 0 < precision <= DECIMAL_DIGITS_MAX and scale <= precision else None


@lru_cache(maxsize=256)
def _decimal(type_: pa.DataType) -> ColumnType:
    digits, scale = type_.precision, type_.scale
    size = (10**digits - 1).bit_length() // 8 + 1  # the fewest bytes that hold any number of so many digits
    avro = {"type": "fixed", "size": size, "logicalType": "decimal", "precision": digits, "scale": scale}
    name = f"DECIMAL({digits},{scale})"
    return ColumnType(
        *(name, type_, {}, "DecimalType", name, f"decimal({digits}, {scale})"),
        *(f"decimal({digits},{scale})", avro, f"decimal({scale})", pa.string(), _NUMBER),
        **_BOTH,
        directory=True,
        parquet="DECIMAL",
    )


DECIMAL = _decimal(pa.decimal128(10, 0))
"""The DECIMAL without parameters."""


def is_dated(type_: pa.DataType) -> bool:
    """Whether values of the Arrow type are dates or timestamps."""
    return pa.types.is_date(type_) or pa.types.is_timestamp(type_)


def is_time(type_: pa.DataType) -> bool:
    """Whether values of the Arrow type are dates or times, which are stored as integers."""
    return is_dated(type_) or pa.types.is_time(type_)


def as_integers(values: Values) -> Values:
    """Dates and times as the integers that are stored; other values as they are."""
    return values.cast(_integer(values.type)) if is_time(values.type) else values


def of_integers(values: Values, type_: pa.DataType) -> Values:
    """The inverse of `as_integers`."""
    return (values.cast(_integer(type_)) if is_time(type_) else values).cast(type_)


def number_of(value: object) -> object:
    """A date or time of Python as the integer that is stored; another value as it is."""
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - _EPOCH) // _MICRO  # those with a zone are in UTC
    if isinstance(value, datetime.time):
        return (datetime.datetime.combine(_EPOCH, value) - _EPOCH) // _MICRO
    return (value - _EPOCH.date()).days if isinstance(value, datetime.date) else value


def iso_text(value: pa.Scalar) -> str:
    """The text of a date or time in ISO 8601, with all digits of a microsecond."""
    made = value.as_py()
    return made.isoformat() if column_type(value.type).iso is datetime.date else made.isoformat(timespec="microseconds")


def _integer(type_: pa.DataType) -> pa.DataType:
    return pa.int32() if type_.bit_width == 32 else pa.int64()
