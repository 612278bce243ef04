"""Which rows of the target a MERGE can match, by the values of its source. Limits the files to read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from lsmlake.predicate import Predicate, and_
from lsmlake.predicate.tree import Column, Compare, Constant, In, Literal

_LISTED_VALUES = 10_000


class Values(Protocol):
    """The source. `columns`: its columns."""

    columns: pa.Schema

    def distinct(self, column: str, most: int) -> pa.ChunkedArray | None:
        """The values of a column, without null; None if they are more than `most`."""

    def bounds(self, column: str) -> tuple[object, object]:
        """The least and the greatest value of a column; None without values."""


def candidates(target: pa.Schema, equal: Iterable[tuple[str, str]], source: Values) -> Predicate | None:
    """What a target row satisfies that matches a source row; None if nothing is known. `equal`: pairs of a target and a source
    column that must be equal; those whose values compare otherwise than they are say nothing."""
    found = [_equal_to_source(target.field(own).type, own, other, source) for own, other in equal]
    known = [one for one in found if one is not None]
    return and_(*known) if known else None


def _equal_to_source(kind: pa.DataType, target: str, source: str, values: Values) -> Predicate | None:
    given = values.columns.field(source).type
    integers = pa.types.is_integer(kind) and pa.types.is_integer(given)
    if not integers and (kind != given or pa.types.is_nested(kind) or pa.types.is_floating(kind)):
        return None
    column, listed = Column((target,), kind), values.distinct(source, _LISTED_VALUES)
    if listed is not None:
        found = [value for value in listed.to_pylist() if not integers or _holds(kind, value)]
        return In(column, tuple(found)) if found else Constant(False)
    low, high = values.bounds(source)
    if integers and not (_holds(kind, low) and _holds(kind, high)):
        return None
    return and_(Compare(">=", column, Literal(low)), Compare("<=", column, Literal(high)))


def _holds(kind: pa.DataType, value: int) -> bool:
    """Whether an integer type has the value."""
    return -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1
