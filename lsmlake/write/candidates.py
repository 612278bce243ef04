"""Which rows of the target a MERGE can match, by the values of its source. Limits the files to read.

More values than `_LISTED` are listed only for the indexes of files, and rows are compared with their bounds, because the join
decides anyway. The limits are measured, on 200 files of 50,000 rows that are on a local disk, with a Bloom filter of a rate of
1e-6: the filters of all files answer for 10,000 values in 0.2 s and for 100,000 in 0.9 s; to read the column takes 1 s. More
values would need a rate for which a filter is no smaller than the column.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.predicate import Predicate, and_
from lsmlake.predicate.tree import And, Column, Compare, Constant, In, Literal
from lsmlake.schema.schema import Schema

_LISTED, _LISTED_FOR_INDEX = 10_000, 100_000


class SourceValues(Protocol):
    """The source. `columns`: its columns."""

    columns: pa.Schema

    def distinct(self, column: str, most: int) -> pa.ChunkedArray | None:
        """The values of a column, without null; None if they are more than `most`."""

    def bounds(self, column: str) -> tuple[object, object]:
        """The least and the greatest value of a column; None without values."""


def candidates(schema: Schema, equal: Iterable[tuple[str, str]], source: SourceValues) -> Predicate | None:
    """What a target row satisfies that matches a source row; None if nothing is known. `equal`: pairs of a target and a source
    column that must be equal; those whose values compare otherwise than they are say nothing."""
    indexed = schema.parsed_options.index.columns
    found = [
        _equal_to_source(
            Column((own,), schema.plain_columns.field(own).type), other, source, _LISTED_FOR_INDEX if own in indexed else _LISTED
        )
        for own, other in equal
    ]
    known = [one for one in found if one is not None]
    return and_(*known) if known else None


def of_rows(predicate: Predicate | None) -> Predicate | None:
    """What `candidates` returned, or less, in a form that takes little time to evaluate on rows."""
    match predicate:
        case And(children):
            return and_(*map(of_rows, children))
        case In(column, values) if len(values) > _LISTED:
            low, high = pc.min_max(pa.array(values, column.type)).as_py().values()
            return _within(column, low, high)
    return predicate


def _equal_to_source(column: Column, source: str, values: SourceValues, most: int) -> Predicate | None:
    kind, given = column.type, values.columns.field(source).type
    integers = pa.types.is_integer(kind) and pa.types.is_integer(given)
    if not integers and (kind != given or pa.types.is_nested(kind) or pa.types.is_floating(kind)):
        return None
    listed = values.distinct(source, most)
    if listed is not None:
        found = [value for value in listed.to_pylist() if not integers or _holds(kind, value)]
        return In(column, tuple(found)) if found else Constant(False)
    low, high = values.bounds(source)
    if integers and not (_holds(kind, low) and _holds(kind, high)):
        return None
    return _within(column, low, high)


def _within(column: Column, low: object, high: object) -> Predicate:
    return and_(Compare(">=", column, Literal(low)), Compare("<=", column, Literal(high)))


def _holds(kind: pa.DataType, value: int) -> bool:
    """Whether an integer type has the value."""
    return -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1
