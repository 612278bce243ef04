"""What a predicate says of rows that nobody has read: which files may hold a match, which keys a match must have.

Invariant (soundness): `may_match` is False only where no row of the file can make the predicate TRUE. Bounds may be loose (a cut
maximum is rounded up), counts may be unknown; both only keep more files.

1. Each node is given, for every file at once, the set of outcomes {TRUE, FALSE, NULL} that some row *may* have.
2. A comparison may be TRUE if the bounds leave room for it, FALSE if they leave room for its negation, NULL if a side may be
   null; a file with nothing but nulls has neither of the first two. An unknown bound leaves room for everything.
3. AND, OR, NOT combine the sets by SQL's truth tables, as if the children were independent. NOT merely swaps TRUE and FALSE,
   which is why all three are carried: "cannot be TRUE" alone would say nothing about the negation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.predicate.order import common_type, literals, ordered
from lsmlake.predicate.tree import NEGATED, And, Column, Compare, Constant, In, Is, IsNull, Like, Literal, Not, Or, Predicate


class ColumnBounds(NamedTuple):
    """One column in N files (or row groups, or partitions: then min is max).

    `min`, `max`: arrays of the column's type, inclusive; null = unknown, which they must be where they would leave a NaN out (it
    is above all numbers). `nulls`: the number of null rows; null = unknown.
    """

    min: pa.Array
    max: pa.Array
    nulls: pa.Array | np.ndarray


class _May(NamedTuple):
    """For each file, whether some row may have this outcome."""

    true: np.ndarray
    false: np.ndarray
    null: np.ndarray


class _Range(NamedTuple):
    """For each file, bounds in the form of `ordered` (null = unknown), and whether there may be values, and nulls."""

    low: pa.Array | pa.Scalar
    high: pa.Array | pa.Scalar
    value: np.ndarray
    null: np.ndarray


class _Files(NamedTuple):
    stats: Mapping[str, ColumnBounds]
    rows: np.ndarray


def may_match(predicate: Predicate, stats: Mapping[str, ColumnBounds], rows: np.ndarray) -> np.ndarray:
    """A bool for each of N files of `rows` rows: False if certainly none of its rows makes the predicate TRUE.

    A column that `stats` lacks is unknown. O(N x nodes); an IN list costs a binary search per file.
    """
    return _may(predicate, _Files(stats, np.asarray(rows))).true


def key_values(predicate: Predicate, columns: Sequence[str]) -> dict[str, list] | None:
    """For each of `columns`, the finitely many values a row needs to make the predicate TRUE, sorted, without null.

    They come from = and IN, through AND and OR. None if any column is free; floats always are, for their NaN and -0.0 have more
    than one pattern of bits. An empty list says that no row can match.
    """
    bound = _bound(predicate)
    if bound is None:
        return {name: [] for name in columns}
    return {name: sorted(bound[name]) for name in columns} if bound.keys() >= set(columns) else None


def _may(predicate: Predicate, files: _Files) -> _May:
    match predicate:
        case Constant(value):
            return _May(*(np.full(len(files.rows), value is outcome) for outcome in (True, False, None)))
        case Compare(op, left, right):
            return _compare(op, left, right, files)
        case In(column, values):
            return _in(_range(column, column.type, files), literals(values, column.type))
        case Like(column, prefix, rest):
            return _like(_range(column, column.type, files), prefix, rest)
        case IsNull(column):
            found = _range(column, column.type, files)
            return _May(found.null, found.value, np.zeros_like(found.null))
        case Is(child, value):
            others = dict(zip((True, False, None), _may(child, files), strict=True))
            wanted = others.pop(value)
            return _May(wanted, np.logical_or(*others.values()), np.zeros_like(wanted))
        case Not(child):
            may = _may(child, files)
            return _May(may.false, may.true, may.null)
        case And(children):
            return reduce(_and, (_may(child, files) for child in children))
        case Or(children):
            return reduce(_or, (_may(child, files) for child in children))
    raise AssertionError(predicate)


def _and(a: _May, b: _May) -> _May:
    return _May(a.true & b.true, a.false | b.false, (a.null & (b.null | b.true)) | (b.null & a.true))


def _or(a: _May, b: _May) -> _May:
    return _May(a.true | b.true, a.false & b.false, (a.null & (b.null | b.false)) | (b.null & a.false))


def _range(column: Column, kind: pa.DataType, files: _Files) -> _Range:
    bounds = files.stats.get(column.path[0]) if len(column.path) == 1 else None
    count = len(files.rows)
    if bounds is None:
        unknown = pa.nulls(count, literals([], kind).type)
        return _Range(unknown, unknown, np.ones(count, bool), np.ones(count, bool))
    nulls = pa.array(bounds.nulls) if isinstance(bounds.nulls, np.ndarray) else bounds.nulls
    counts = nulls.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    low, high = (ordered(side, kind) for side in (bounds.min, bounds.max))
    return _Range(low, high, counts < files.rows, counts != 0)


def _compare(op: str, left: Column, right: Column | Literal, files: _Files) -> _May:
    if isinstance(right, Literal):
        a, value = _range(left, left.type, files), literals([right.value], left.type)[0]
        b = _Range(value, value, np.True_, np.False_)
    else:
        kind = common_type(left.type, right.type)
        a, b = _range(left, kind, files), _range(right, kind, files)
    value = a.value & b.value
    return _May(value & _room(op, a, b), value & _room(NEGATED[op], a, b), a.null | b.null)


def _room(op: str, a: _Range, b: _Range) -> np.ndarray:
    """Whether values within the bounds can compare so."""
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
    return possible.fill_null(True).to_numpy(zero_copy_only=False)


def _in(found: _Range, values: pa.Array) -> _May:
    values = values.take(pc.sort_indices(values))
    low, high = found.low.fill_null(values[0]), found.high.fill_null(values[-1])
    steps = _sortable(values)
    some = np.searchsorted(steps, _sortable(low), "left") < np.searchsorted(steps, _sortable(high), "right")
    same = pc.and_kleene(pc.equal(found.low, found.high), pc.is_in(found.low, value_set=values))
    return _May(found.value & some, found.value & _unless_known(pc.invert(same)), found.null)


def _sortable(values: pa.Array) -> np.ndarray:
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    elif pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    return values.to_numpy(zero_copy_only=False)


def _like(found: _Range, prefix: str, rest: str) -> _May:
    starts = pc.less_equal(pc.utf8_slice_codeunits(found.low, 0, len(prefix)), prefix)
    some = _unless_known(starts) & _unless_known(pc.greater_equal(found.high, prefix))
    fails = np.ones(len(some), bool)
    if rest == "%":
        fails = _unless_known(pc.invert(pc.and_kleene(pc.starts_with(found.low, prefix), pc.starts_with(found.high, prefix))))
    return _May(found.value & some, found.value & fails, found.null)


def _bound(predicate: Predicate) -> dict[str, frozenset] | None:
    """The columns that have only finitely many values where the predicate is TRUE; None if it never is."""
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
