"""The rows of a plan as a relation of DuckDB, which reads the Parquet files itself.

The files with the same fields become one `read_parquet` call. DuckDB numbers files and rows. Per file one bitmap says which rows
are dead, and `get_bit` leaves them out. Files without dead rows have a bitmap of zeros, because DuckDB plans joins of one scan
better than those of a UNION; very many rows without dead ones are a scan of their own.

A relation is made of relations and never of names, so that nothing appears in the catalog of a user's connection.

A predicate is a condition of DuckDB, and a value one of its literals: both order NaN as Spark does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial, reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.dialect.sql_types import duck_name, quoted, text
from lsmlake.extras import need
from lsmlake.interruption import exported
from lsmlake.predicate.arrow_expression import matching, needed_columns
from lsmlake.predicate.tree import (
    And,
    Column,
    Compare,
    Computed,
    Constant,
    In,
    Is,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    is_ordered,
)
from lsmlake.read.arrow_scan import output_schema
from lsmlake.read.native import Direct, NativeSource, Stored, Stream
from lsmlake.schema.adapt import is_evolved
from lsmlake.schema.defaults import INITIAL, default_of
from lsmlake.types.column_types import plain
from lsmlake.types.type_table import as_integers

_ZERO_ROWS_MAX = 1 << 28
"""Rows whose bitmaps of zeros are 32 MB."""


def relation(connection, source: NativeSource, rows_of=None):  # the types belong to an optional package
    """A relation with the columns of the plan, of a connection of DuckDB or of the module's default connection.

    Args:
        connection: the connection, or the module.
        source: the rows of a plan.
        rows_of: makes an Arrow object of rows that PyArrow reads. Default: all columns are read.
    """
    if (rows := select(source)) is not None:
        return connection.sql(rows)
    parts = []
    for stored, files in source.by_fields().items():
        parts += _scans(connection, source, stored, files)
    if source.level0:
        parts.append(connection.from_arrow(pa.concat_tables(source.level0)))
    if source.streamed.splits:
        stream = Stream.of(source.streamed)
        parts.append(connection.from_arrow(stream if rows_of is None else rows_of(stream)))
    if not parts:
        parts.append(connection.from_arrow(output_schema(source.plan).empty_table()))
    return reduce(lambda all_, part: all_.union(part), parts)


def select(source: NativeSource) -> str | None:
    """A query for the rows, which DuckDB binds once; None if it needs bitmaps of dead rows or rows in memory."""
    if not source.direct or source.level0 or source.streamed.splits or any(file.dead for file in source.direct):
        return None
    return " UNION ALL ".join(_query(source, *part) for part in source.by_fields().items())


def named_select(source: NativeSource, name: str) -> tuple[str, dict[str, pa.Table]] | None:
    """A query for the rows, and the bitmaps of dead rows, which it finds under names that begin with `name`; None if it needs
    rows in memory. DuckDB binds it in a tenth of the time that `relation` takes, which binds all of it at each step."""
    if not source.direct or source.level0 or source.streamed.splits:
        return None
    parts, bitmaps, columns = [], {}, ", ".join(map(quoted, source.plan.columns))
    for stored, files in source.by_fields().items():
        masked, clean = _masked(files)
        if clean:
            parts.append(_query(source, stored, clean))
        if masked:
            dead = f"{name}_dead_{len(bitmaps)}"
            bitmaps[dead] = _bitmaps_of(source, stored, masked)
            mask = _Mask.of(source.plan.columns)
            rows, flags = _query(source, stored, masked, mask.places), f"SELECT {mask.dead} FROM {quoted(dead)}"
            parts.append(f"SELECT {columns} FROM ({rows}), ({flags}) WHERE {mask.live}")
    return " UNION ALL ".join(parts), bitmaps


def dataset(stream: Stream):
    """Rows that PyArrow reads, as a dataset: DuckDB asks it for the columns and rows that a query needs.

    DuckDB 1 leaves the filter `x > 1` to a dataset, whose NaN is not greater than 1, so it reads all columns of a stream.
    """
    major = int(need("duckdb", "to_duckdb()").__version__.partition(".")[0])
    return _dataset_class()(stream) if major > 1 else stream


@cache
def _dataset_class():
    datasets = need("pyarrow.dataset", "to_duckdb()")  # its import takes 0.3 s, most of them for pandas

    class Rows(datasets.Dataset):
        """A subclass of `pyarrow.dataset.Dataset`, because DuckDB asks only such a class for the columns and rows that it
        needs."""

        def __init__(self, stream: Stream) -> None:
            self.stream = stream

        @property
        def schema(self) -> pa.Schema:
            return self.stream.schema

        def scanner(self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: object) -> _Scanner:
            return _Scanner(self.stream, columns, filter)

    return Rows


class _Scanner(NamedTuple):
    stream: Stream
    columns: list[str] | None
    filter: pc.Expression | None

    def to_reader(self) -> pa.RecordBatchReader:
        return exported(self._reader())

    def _reader(self) -> pa.RecordBatchReader:
        if self.filter is None:
            return self.stream.to_batches(self.columns)
        schema, columns = self.stream.schema, self.columns
        batches = self.stream.to_batches(needed_columns(self.filter, schema, columns))
        tables = matching((pa.Table.from_batches([batch]) for batch in batches), self.filter, columns)
        fields = [schema.field(name) for name in (schema.names if columns is None else columns)]
        return pa.RecordBatchReader.from_batches(pa.schema(fields), (part for rows in tables for part in rows.to_batches()))


def _scans(connection, source: NativeSource, stored: Stored, files: Sequence[Direct]) -> list:
    """Relations over the live rows of files with the same fields."""
    masked, clean = _masked(files)
    parts = [connection.sql(_query(source, stored, clean))] if clean else []
    if masked:
        mask = _Mask.of(source.plan.columns)
        dead = connection.from_arrow(_bitmaps_of(source, stored, masked)).project(mask.dead)
        rows = connection.sql(_query(source, stored, masked, mask.places))
        parts.append(rows.cross(dead).filter(mask.live).project(", ".join(map(quoted, source.plan.columns))))
    return parts


def _masked(files: Sequence[Direct]) -> tuple[list[Direct], list[Direct]]:
    """The files to scan with bitmaps, and those without."""
    masked, clean = [file for file in files if file.dead], [file for file in files if not file.dead]
    return (list(files), []) if masked and sum(file.rows for file in clean) <= _ZERO_ROWS_MAX else (masked, clean)


class _Mask(NamedTuple):
    """How rows are masked. `dead`: the bitmaps as a SELECT list; `places`: more of the SELECT list of the rows; `live`: the
    condition on both."""

    dead: str
    places: str
    live: str

    @staticmethod
    def of(columns: Sequence[str]) -> _Mask:
        mark = "#" * max(map(len, columns))  # begins the name of no column that is longer
        return _Mask(
            f'CAST(dead AS BIT[]) AS "{mark}dead"',
            f', file_index AS "{mark}file", file_row_number AS "{mark}row"',
            f'get_bit("{mark}dead"[CAST("{mark}file" AS BIGINT) + 1], CAST("{mark}row" AS INTEGER)) = 0',
        )


def _bitmaps_of(source: NativeSource, stored: Stored, files: Sequence[Direct]) -> pa.Table:
    row_bytes = sum(file.rows for file in files) / 8 / sum(file.dead.cardinality for file in files)
    return source.kept(("bitmaps", stored), partial(_bitmaps, files), row_bytes)


def _query(source: NativeSource, stored: Stored, files: Sequence[Direct], places: str = "") -> str:
    """A query for all rows of files with these fields. `places`: more of its SELECT list."""
    paths = ", ".join(text(file.path) for file in files)
    live = sum(file.rows - file.dead.cardinality for file in files)
    options = f"hive_partitioning = false, explicit_cardinality = {live}"  # or DuckDB takes all files for as long as the first
    return f"SELECT {_selected(source, stored)}{places} FROM read_parquet([{paths}], {options})"


def _bitmaps(files: Sequence[Direct]) -> pa.Table:
    """One row with the bitmaps of the files, in their order."""
    return pa.table({"dead": pa.array([list(map(_bitmap, files))], pa.list_(pa.binary()))})


def _bitmap(file: Direct) -> bytes:
    """The dead rows of a file as the bytes of a BIT: the first byte counts unused bits, here none, so casts from BLOB omit it."""
    return np.packbits(file.dead.dead_mask(0, file.rows)).tobytes()


def _selected(source: NativeSource, stored: Stored) -> str:
    """The SELECT list for files with these fields."""
    fields = map(source.plan.schema.columns.field, source.plan.columns)
    return ", ".join(f"{_item(old, field)} AS {quoted(field.name)}" for old, field in zip(stored, fields, strict=True))


def _item(old: pa.Field | None, field: pa.Field) -> str:
    if old is None:
        default = default_of(field, INITIAL)
        return value(pa.scalar(None, plain(field.type)) if default is None else default)
    return f"CAST({quoted(old.name)} AS {duck_name(plain(field.type))})" if is_evolved(old.type, field.type) else quoted(old.name)


# -- conditions and values --------------------------------------------------------------------------------------------

_ESCAPE, _ESCAPED = "\\", " ESCAPE '\\'"
"""What LIKE takes as it is, and the clause for it. Without the clause, DuckDB searches for the parts of a pattern."""
_LIKE_SPECIAL = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


def value(scalar: pa.Scalar) -> str:
    """A value, or null, as a literal of DuckDB."""
    name, kind = duck_name(scalar.type), scalar.type
    if not scalar.is_valid:
        return f"CAST(NULL AS {name})"
    if pa.types.is_timestamp(kind):
        return f"{'make_timestamptz' if kind.tz else 'make_timestamp'}({as_integers(scalar).as_py()})"
    python_value = scalar.as_py()
    return f"unhex('{python_value.hex()}')" if isinstance(python_value, bytes) else f"CAST({text(str(python_value))} AS {name})"


def condition(predicate: Predicate) -> str | None:
    """The predicate as a condition of DuckDB; None if it compares columns of different types."""
    match predicate:
        case Constant(constant):
            return {True: "TRUE", False: "FALSE", None: "CAST(NULL AS BOOLEAN)"}[constant]
        case Compare(op, left, Literal(literal)):
            return f"({_column(left)} {op} {_literal(literal, left.type)})"
        case Compare(op, left, Column() as right):
            return f"({_column(left)} {op} {_column(right)})" if left.type == right.type and is_ordered(left.type) else None
        case In(column, values):
            return f"({_column(column)} IN ({', '.join(_literal(one, column.type) for one in values)}))"
        case Like(column, prefix, rest):
            pattern = prefix.translate(_LIKE_SPECIAL) + rest
            return f"({_column(column)} LIKE {text(pattern)}{_ESCAPED if _ESCAPE in pattern else ''})"
        case Computed():
            return None
        case IsNull(column):
            return f"({_column(column)} IS NULL)"
        case Is(child, outcome):
            inner = condition(child)
            name = {True: "TRUE", False: "FALSE", None: "NULL"}[outcome]
            return None if inner is None else f"({inner} IS {name})"
        case Not(child):
            inner = condition(child)
            return None if inner is None else f"(NOT {inner})"
        case And(children) | Or(children):
            inner = [condition(child) for child in children]
            return None if None in inner else f"({f' {type(predicate).__name__.upper()} '.join(inner)})"
    raise AssertionError(predicate)


def _column(column: Column) -> str:
    name = quoted(column.path[0])
    for field in column.path[1:]:
        name = f"struct_extract({name}, {text(field)})"
    return f"CAST({name} AS DOUBLE)" if pa.types.is_floating(column.type) else name


def _literal(literal: object, kind: pa.DataType) -> str:
    return value(pa.array([literal], pa.float64() if pa.types.is_floating(kind) else kind)[0])
