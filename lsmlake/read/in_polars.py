"""The rows of a plan as a LazyFrame of Polars, which reads the Parquet files itself.

Files with the same fields and without dead rows become one `scan_parquet`. Polars numbers the rows of a scan, and files with
dead rows are scanned with a filter `~is_in` of the numbers of dead rows. Polars makes a hash set of them for every batch, so
a scan takes files until they hold many. The frame consists of expressions only, so the optimizer pushes projections, filters and
slices into the scans.

Measured with a tenth of 4,000,000 rows dead, the aggregate took x 1.08 of a scan without a filter, with an anti join x 1.4,
with a Python function as the filter x 1.1 to 1.5, and with a column of flags beside the scan x 1.2.

A predicate becomes an expression of Polars, which compares as Spark does: NaN equals NaN and is greater than all other
numbers. In `pl.col` and `select`, Polars treats `*`, and a name that begins with `^` and ends with `$`, as a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import accumulate
from operator import and_, eq, ge, gt, le, lt, ne, or_

import numpy as np
import pyarrow as pa

from lsmlake.extras import need
from lsmlake.predicate.evaluate import like_pattern
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
    columns_of,
    is_ordered,
)
from lsmlake.read.arrow_scan import output_schema
from lsmlake.read.native import Direct, NativeSource, Stored, Stream
from lsmlake.schema.adapt import constant, is_evolved

_DEAD_ROWS_MAX = 1 << 18
"""Dead rows of one scan, unless one file has more."""


def lazy_frame(source: NativeSource, limit: int | None = None):  # the type belongs to an optional package
    """A LazyFrame with the columns of the plan. `limit`: the number of rows that suffice; the frame may have more."""
    return source.kept(("polars", limit), lambda: _made(source, limit), dead_row_bytes=4)


def _made(source: NativeSource, limit: int | None):
    pl = need("polars", "to_polars()")
    empty = pl.from_arrow(output_schema(source.plan).empty_table())
    parts = [part for stored, files in source.by_fields().items() for part in _scans(source, stored, files, limit)]
    parts += [pl.from_arrow(table).lazy() for table in source.level0]
    if source.streamed.splits:
        parts.append(streamed(Stream.of(source.streamed)))
    return pl.concat(parts) if parts else empty.lazy()


def streamed(stream: Stream):
    """A LazyFrame over rows that PyArrow reads. Each query reads them again, with only the columns that it needs."""
    pl = need("polars", "to_polars()")
    plugins = need("polars.io.plugins", "to_polars()")

    def batches(columns: list[str] | None, predicate: object, limit: int | None, _: int | None) -> Iterator[object]:
        for batch in stream.to_batches(columns or None):
            frame = pl.from_arrow(batch)
            frame = frame if columns is None else frame.select(by_name(*columns))
            frame = frame if predicate is None else frame.filter(predicate)
            yield frame if limit is None else frame.head(limit)
            limit = None if limit is None else limit - min(limit, frame.height)
            if limit == 0:
                return

    return plugins.register_io_source(batches, schema=pl.from_arrow(stream.schema.empty_table()).schema)


def _scans(source: NativeSource, stored: Stored, files: Sequence[Direct], limit: int | None) -> Iterator[object]:
    pl = need("polars", "to_polars()")
    items = _items(source, stored)
    number = "#" * (1 + max((len(field.name) for field in stored if field is not None), default=0))
    clean = [file for file in files if not file.dead]
    if clean:
        yield _parquet(clean, n_rows=limit).with_columns(items).select(by_name(*source.plan.columns))
    for group in _groups([file for file in files if file.dead]):
        dead = _dead_rows(group)
        numbered = _parquet(group, n_rows=None if limit is None else limit + len(dead), row_index_name=number)
        live = numbered.filter(~pl.col(number).is_in(dead.implode()))
        yield live.with_columns(items).select(by_name(*source.plan.columns))


def _dead_rows(files: Sequence[Direct]):
    """The numbers of the dead rows in a scan of the files."""
    pl = need("polars", "to_polars()")
    starts = accumulate((file.rows for file in files), initial=0)
    numbers = np.concatenate([file.dead.positions() + start for file, start in zip(files, starts, strict=False)])
    return pl.Series(numbers).cast(pl.get_index_type())


def _groups(files: Sequence[Direct]) -> Iterator[list[Direct]]:
    group, dead = [], 0
    for file in files:
        if group and dead + file.dead.cardinality > _DEAD_ROWS_MAX:
            yield group
            group, dead = [], 0
        group.append(file)
        dead += file.dead.cardinality
    if group:
        yield group


def _parquet(files: Sequence[Direct], **settings: object):
    pl = need("polars", "to_polars()")
    paths = [file.path for file in files]  # the files may differ in columns that the plan does not name
    others = {"missing_columns": "insert", "extra_columns": "ignore"}
    return pl.scan_parquet(paths, hive_partitioning=False, glob=False, **others, **settings)


def _items(source: NativeSource, stored: Stored) -> list[object]:
    """The expressions for columns of the plan that files with these fields do not store under the same name and type."""
    pl = need("polars", "to_polars()")
    items = []
    for old, field in zip(stored, map(source.plan.schema.columns.field, source.plan.columns), strict=True):
        one = pl.from_arrow(constant(field, 1))
        if old is None:
            item = pl.lit(one.item(), one.dtype)
        else:
            stored_column = by_name(old.name).as_expr()
            item = stored_column.cast(one.dtype) if is_evolved(old.type, field.type) else stored_column
        if old is None or old.name != field.name or is_evolved(old.type, field.type):
            items.append(item.alias(field.name))
    return items


# -- expressions ------------------------------------------------------------------------------------------------------

_PATTERN = re.compile(r"\*|\^.*\$", re.DOTALL)
_OPERATORS = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def by_name(*names: str):  # the type belongs to an optional package
    """The columns of these names, in this order."""
    return need("polars.selectors", "to_polars()").by_name(*names)


def expression(predicate: Predicate):  # the type belongs to an optional package
    """The predicate as an expression of Polars; None if it compares columns of different types, or has a field whose name Polars
    takes for a pattern."""
    names = (name for column in columns_of(predicate) for name in column.path[1:])
    return None if any(map(_PATTERN.fullmatch, names)) else _expression(predicate)


def _expression(predicate: Predicate):
    pl = need("polars", "to_polars()")
    match predicate:
        case Constant(constant):
            return pl.lit(constant, pl.Boolean)
        case Compare(op, left, Literal(literal)):
            return _OPERATORS[op](_column(left), _literal(literal, left.type))
        case Compare(op, left, Column() as right):
            return _OPERATORS[op](_column(left), _column(right)) if left.type == right.type and is_ordered(left.type) else None
        case In(column, values):
            return _column(column).is_in(_series(values, column.type).implode())
        case Like(column, prefix, rest) if rest == "%":
            return _column(column).str.starts_with(prefix)
        case Like(column, prefix, rest):
            return _column(column).str.contains(like_pattern(prefix, rest))
        case Computed():
            return None
        case IsNull(column):
            return _column(column).is_null()
        case Is(child, outcome):
            inner = _expression(child)
            return None if inner is None else inner.is_null() if outcome is None else inner.eq_missing(outcome)
        case Not(child):
            inner = _expression(child)
            return None if inner is None else ~inner
        case And(children) | Or(children):
            inner = [_expression(child) for child in children]
            joined = and_ if isinstance(predicate, And) else or_
            return None if any(one is None for one in inner) else reduce(joined, inner)
    raise AssertionError(predicate)


def _column(column: Column):
    pl = need("polars", "to_polars()")
    expression = reduce(lambda outer, name: outer.struct.field(name), column.path[1:], by_name(column.path[0]).as_expr())
    return expression.cast(pl.Float64) if column.type == pa.float32() else expression


def _literal(value: object, kind: pa.DataType):
    pl = need("polars", "to_polars()")
    series = _series([value], kind)
    return pl.lit(series.item(), series.dtype)


def _series(values: Sequence[object], kind: pa.DataType):
    """Literals for a column, floats as doubles."""
    pl = need("polars", "to_polars()")
    return pl.from_arrow(pa.array(values, pa.float64() if pa.types.is_floating(kind) else kind))
