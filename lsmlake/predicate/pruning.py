"""Prunes by metadata: finds the files that may hold a matching row, and the keys that a matching row must have.

Invariant (soundness): `may_match` is False only if no row of the file can make the predicate TRUE. Bounds may be loose (a
truncated maximum is rounded up) and counts unknown; both only keep more files.

1. Each node is evaluated, for all files at once, to the set of outcomes {TRUE, FALSE, NULL} that some row *may* have.
2. A comparison may be TRUE if the bounds allow it, FALSE if they allow its negation, NULL if a side may be null. In a file of
   nulls only it is neither TRUE nor FALSE. An unknown bound allows everything.
3. AND, OR and NOT combine the sets by SQL's truth tables, as if the children were independent. NOT swaps TRUE and FALSE, so all
   three outcomes are tracked: "cannot be TRUE" alone says nothing about the negation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.predicate.tree import (
    NEGATED,
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
    common_type,
    literals,
    ordered,
)
from lsmlake.types.type_table import as_integers


class ColumnBounds(NamedTuple):
    """One column in N files (or row groups, or partitions: then min is max).

    `min`, `max`: arrays of the column's type, inclusive; null = unknown. Bounds must be null if the column may have a NaN
    (greater than all numbers) that they exclude. `nulls`: the number of null rows; null = unknown.
    """

    min: pa.Array
    max: pa.Array
    nulls: pa.Array | np.ndarray


class _May(NamedTuple):
    """For each file, whether some row may have this outcome. Each is computed when it is first asked for: most callers need only
    one, and a call of Arrow costs more than the files of a small table."""

    true: Callable[[], np.ndarray]
    false: Callable[[], np.ndarray]
    null: Callable[[], np.ndarray]


def _outcomes(true: Callable[[], np.ndarray], false: Callable[[], np.ndarray], null: Callable[[], np.ndarray]) -> _May:
    return _May(cache(true), cache(false), cache(null))


class _FileRange(NamedTuple):
    """For each file, bounds in the form of `ordered` (null = unknown), and whether it may have values and nulls."""

    low: pa.Array | pa.Scalar
    high: pa.Array | pa.Scalar
    value: np.ndarray
    null: np.ndarray


class _FileFacts(NamedTuple):
    stats: Mapping[str, ColumnBounds]
    rows: np.ndarray


def may_match(predicate: Predicate, stats: Mapping[str, ColumnBounds], rows: np.ndarray) -> np.ndarray:
    """Returns one bool for each of N files with `rows` rows: False if no row of the file makes the predicate TRUE.

    The bounds of a column that `stats` lacks are unknown. O(N x nodes); an IN list costs one binary search per file.
    """
    return _may(predicate, _FileFacts(stats, np.asarray(rows))).true()


def reach(column: Column, values: pa.Array, bounds: ColumnBounds) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each file the half-open range of `values`, ascending in the form of `ordered`, that lie within its bounds."""
    return _reach(_range(column, column.type, _FileFacts({column.path[0]: bounds}, np.zeros(len(bounds.min)))), values)


def must_match(predicate: Predicate, stats: Mapping[str, ColumnBounds], rows: np.ndarray) -> np.ndarray:
    """Returns one bool for each of N files: True only if every row of the file makes the predicate TRUE."""
    may = _may(predicate, _FileFacts(stats, np.asarray(rows)))
    return ~(may.false() | may.null())


def key_values(predicate: Predicate, columns: Sequence[str]) -> dict[str, list] | None:
    """Returns for each of `columns` the sorted values, without null, that a matching row may have.

    They are derived from = and IN, through AND and OR. Returns None if a column is not restricted to a finite set; this includes
    floats, because NaN and 0.0 have several bit patterns. An empty list means that no row can match. None without columns: a
    table without a key is not restricted.
    """
    if not columns:
        return None
    bound = _bound(predicate)
    if bound is None:
        return {name: [] for name in columns}
    return {name: sorted(bound[name]) for name in columns} if bound.keys() >= set(columns) else None


def _may(predicate: Predicate, files: _FileFacts) -> _May:
    match predicate:
        case Constant(value):
            return _May(*(partial(np.full, len(files.rows), value is outcome) for outcome in (True, False, None)))
        case Compare(op, left, right):
            return _compare(op, left, right, files)
        case In(column):
            return _in(_range(column, column.type, files), predicate.literals)
        case Like(column, prefix, rest):
            return _like(_range(column, column.type, files), prefix, rest)
        case IsNull(column):
            bounds = _range(column, column.type, files)
            return _May(lambda: bounds.null, lambda: bounds.value, lambda: np.zeros_like(bounds.null))
        case Computed():
            return _May(*(partial(np.ones, len(files.rows), bool) for _ in range(3)))
        case Is(child, value):
            others = dict(zip((True, False, None), _may(child, files), strict=True))
            wanted = others.pop(value)
            return _outcomes(wanted, lambda: np.logical_or(*(may() for may in others.values())), lambda: np.zeros_like(wanted()))
        case Not(child):
            may = _may(child, files)
            return _May(may.false, may.true, may.null)
        case And(children):
            return reduce(_and, map(partial(_may, files=files), children))
        case Or(children):
            return reduce(_or, map(partial(_may, files=files), children))
    raise AssertionError(predicate)


def _and(a: _May, b: _May) -> _May:
    return _outcomes(
        lambda: a.true() & b.true(),
        lambda: a.false() | b.false(),
        lambda: (a.null() & (b.null() | b.true())) | (b.null() & a.true()),
    )


def _or(a: _May, b: _May) -> _May:
    return _outcomes(
        lambda: a.true() | b.true(),
        lambda: a.false() & b.false(),
        lambda: (a.null() & (b.null() | b.false())) | (b.null() & a.false()),
    )


def _range(column: Column, kind: pa.DataType, files: _FileFacts) -> _FileRange:
    bounds = files.stats.get(column.path[0]) if len(column.path) == 1 else None
    count = len(files.rows)
    if bounds is None:
        unknown = pa.nulls(count, literals([], kind).type)
        return _FileRange(unknown, unknown, np.ones(count, bool), np.ones(count, bool))
    counts = bounds.nulls
    if isinstance(counts, pa.Array):
        counts = (counts.cast(pa.int64()).fill_null(-1) if counts.null_count else counts).to_numpy(zero_copy_only=False)
    return _FileRange(ordered(bounds.min, kind), ordered(bounds.max, kind), counts < files.rows, counts != 0)


def _compare(op: str, left: Column, right: Column | Literal, files: _FileFacts) -> _May:
    if isinstance(right, Literal):
        a, value = _range(left, left.type, files), literals([right.value], left.type)[0]
        b = _FileRange(value, value, np.True_, np.False_)
    else:
        kind = common_type(left.type, right.type)
        a, b = _range(left, kind, files), _range(right, kind, files)
    value = a.value & b.value
    return _outcomes(
        lambda: value & _room(op, a, b), lambda: value & _room(NEGATED[op], a, b), lambda: np.asarray(a.null | b.null)
    )


def _room(op: str, a: _FileRange, b: _FileRange) -> np.ndarray:
    """Flags files whose bounds allow the comparison `a op b` to be true."""
    match op:
        case "<":
            return _unless_known(pc.less(a.low, b.high))
        case "<=":
            return _unless_known(pc.less_equal(a.low, b.high))
        case ">" | ">=":
            return _room("<" if op == ">" else "<=", b, a)
        case "=":
            return _room("<=", a, b) & _room("<=", b, a)
    single = pc.and_kleene(pc.equal(a.low, a.high), pc.equal(b.low, b.high))
    return _unless_known(pc.invert(pc.and_kleene(single, pc.equal(a.low, b.low))))


def _unless_known(possible: pa.Array) -> np.ndarray:
    known = possible.fill_null(True) if possible.null_count else possible  # to fill takes longer than to ask
    return known.to_numpy(zero_copy_only=False)


def _in(bounds: _FileRange, values: pa.Array) -> _May:
    def inside() -> np.ndarray:
        first, end = _reach(bounds, values.take(pc.sort_indices(values)))
        return bounds.value & (first < end)

    def outside() -> np.ndarray:
        same = pc.and_kleene(pc.equal(bounds.low, bounds.high), pc.is_in(bounds.low, value_set=values))
        return bounds.value & _unless_known(pc.invert(same))

    return _outcomes(inside, outside, lambda: bounds.null)


def _reach(bounds: _FileRange, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    low, high = bounds.low.fill_null(values[0]), bounds.high.fill_null(values[-1])
    steps = _sortable(values)
    return np.searchsorted(steps, _sortable(low), "left"), np.searchsorted(steps, _sortable(high), "right")


def _sortable(values: pa.Array) -> np.ndarray:
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return as_integers(values).to_numpy(zero_copy_only=False)


def _like(bounds: _FileRange, prefix: str, rest: str) -> _May:
    def some() -> np.ndarray:
        starts = pc.less_equal(pc.utf8_slice_codeunits(bounds.low, 0, len(prefix)), prefix)
        return bounds.value & _unless_known(starts) & _unless_known(pc.greater_equal(bounds.high, prefix))

    def fails() -> np.ndarray:
        if rest != "%":
            return bounds.value
        both = pc.and_kleene(pc.starts_with(bounds.low, prefix), pc.starts_with(bounds.high, prefix))
        return bounds.value & _unless_known(pc.invert(both))

    return _outcomes(some, fails, lambda: bounds.null)


def _bound(predicate: Predicate) -> dict[str, frozenset] | None:
    """Returns the columns restricted to a finite set of values if the predicate is TRUE; None if it is never TRUE."""
    match predicate:
        case Constant(value):
            return {} if value else None
        case Compare("=", Column((name,), kind), Literal(value)) if not pa.types.is_floating(kind):
            return {name: frozenset((value,))}
        case In(Column((name,), kind), values) if not pa.types.is_floating(kind):
            return {name: frozenset(values)}
        case Is(child, True):
            return _bound(child)
        case And(children):
            bounds = [_bound(child) for child in children]
            return None if None in bounds else reduce(_both, bounds)
        case Or(children):
            bounds = [bound for bound in map(_bound, children) if bound is not None]
            return reduce(_either, bounds) if bounds else None
    return {}


def _both(a: dict[str, frozenset], b: dict[str, frozenset]) -> dict[str, frozenset]:
    return {**a, **b, **{name: a[name] & b[name] for name in a.keys() & b.keys()}}


def _either(a: dict[str, frozenset], b: dict[str, frozenset]) -> dict[str, frozenset]:
    return {name: a[name] | b[name] for name in a.keys() & b.keys()}
