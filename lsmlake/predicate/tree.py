"""The predicate tree: frozen nodes that are TRUE, FALSE or NULL (unknown) for a row, as in SQL; and the form in which Arrow
compares values as Spark does.

Invariant: a literal is a plain Python value of its column's type, so only the parser converts or rounds. Other SQL constructs
are expressed by these nodes: BETWEEN by two comparisons, `a <=> b` by `a = b IS TRUE OR both null`, a comparison that no
value of the type can satisfy (`tinyint = 300`) by `NULL if the column is null else FALSE`.

Arrow's comparisons follow IEEE 754; in Spark NaN equals NaN and is greater than all other numbers. So a float is converted to
a 64-bit integer with the same order: the bits of the double, all but the sign flipped if it is negative (the IEEE total
order), with one NaN and one zero. Other values are compared unchanged, after both sides have the same type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """A top-level column, or a field inside a struct column; `type` is canonical."""

    path: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True)
class Literal:
    """A value that is not null: bool, int, float (never -0.0), Decimal of the column's scale, str, bytes, date or datetime (for a
    timestamp with zone aware, in UTC)."""

    value: object


class Predicate:
    """A condition on one row. Its nodes are the classes below; all pickle, compare and hash."""

    @property
    def columns(self) -> frozenset[str]:
        """The top-level columns that the evaluation needs."""
        return frozenset(column.path[0] for column in columns_of(self))


@dataclass(frozen=True)
class Constant(Predicate):
    """TRUE, FALSE or NULL (None) for every row."""

    value: bool | None


@dataclass(frozen=True)
class Compare(Predicate):
    """`left op right`, op is one of = != < <= > >=; NULL if a side is null. Two columns have a `common_type`."""

    op: str
    left: Column
    right: Column | Literal


@dataclass(frozen=True)
class In(Predicate):
    """The column is one of `values` (not null, at least one); NULL if the column is null."""

    column: Column
    values: tuple

    @cached_property
    def literals(self) -> pa.Array:
        """The values in the form of `ordered`. They may be many, so they are converted once."""
        return literals(self.values, self.column.type)


@dataclass(frozen=True)
class Like(Predicate):
    """The text column begins with `prefix` and the remainder matches `rest`, which begins with a wildcard: `%` any text, `_` one
    character; a backslash escapes. NULL if the column is null."""

    column: Column
    prefix: str
    rest: str


@dataclass(frozen=True)
class IsNull(Predicate):
    """The column is null; never NULL itself."""

    column: Column


@dataclass(frozen=True)
class Is(Predicate):
    """The child's outcome is exactly `value` (None: NULL); never NULL itself."""

    child: Predicate
    value: bool | None


@dataclass(frozen=True)
class Not(Predicate):
    child: Predicate


@dataclass(frozen=True)
class And(Predicate):
    children: tuple[Predicate, ...]


@dataclass(frozen=True)
class Or(Predicate):
    children: tuple[Predicate, ...]


class Evaluator(Protocol):
    """Evaluates a condition on rows: true, false or null for each."""

    def over(self, rows: pa.Table) -> pa.ChunkedArray: ...


@dataclass(frozen=True, eq=False)
class Computed(Predicate):
    """A condition that the other nodes cannot express. `reads`: its columns; their bounds do not decide it."""

    evaluator: Evaluator
    reads: tuple[Column, ...]


NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def and_(*predicates: Predicate) -> Predicate:
    """Returns the conjunction; TRUE without predicates."""
    return _joined(And, True, predicates)


def or_(*predicates: Predicate) -> Predicate:
    """Returns the disjunction; FALSE without predicates."""
    return _joined(Or, False, predicates)


def not_(predicate: Predicate) -> Predicate:
    match predicate:
        case Not(child):
            return child
        case Compare(op, left, right):
            return Compare(NEGATED[op], left, right)
        case Constant(value):
            return Constant(None if value is None else not value)
    return Not(predicate)


def never(column: Column) -> Predicate:
    """FALSE, but NULL if the column is null: a comparison that no value satisfies."""
    return And((IsNull(column), Constant(None)))


def always(column: Column) -> Predicate:
    """TRUE, but NULL if the column is null."""
    return Or((Not(IsNull(column)), Constant(None)))


def _joined(kind: type[And] | type[Or], neutral: bool, predicates: tuple[Predicate, ...]) -> Predicate:
    children: list[Predicate] = []
    for predicate in predicates:
        children += predicate.children if isinstance(predicate, kind) else (predicate,)
    if Constant(not neutral) in children:
        return Constant(not neutral)
    children = [child for child in children if child != Constant(neutral)]
    if len(children) < 2:
        return children[0] if children else Constant(neutral)
    return kind(tuple(children))


def may_fail(predicate: Predicate) -> bool:
    """Whether the evaluation can raise an error for a row, such as a division by zero."""
    match predicate:
        case Computed():
            return True
        case Is(child, _) | Not(child):
            return may_fail(child)
        case And(children) | Or(children):
            return any(map(may_fail, children))
    return False


def columns_of(predicate: Predicate) -> Iterator[Column]:
    """The columns and fields that are compared, some of them several times."""
    match predicate:
        case Compare(_, left, Column() as right):
            yield left
            yield right
        case Compare(_, column, _) | In(column, _) | Like(column, _, _) | IsNull(column):
            yield column
        case Computed(_, reads):
            yield from reads
        case Is(child, _) | Not(child):
            yield from columns_of(child)
        case And(children) | Or(children):
            for child in children:
                yield from columns_of(child)


# -- values as Arrow compares them ------------------------------------------------------------------------------------

Values = pa.Array | pa.ChunkedArray
_BELOW_SIGN = np.int64(np.iinfo(np.int64).max)
_DECIMAL_DIGITS_MAX = 76


def is_exact(kind: pa.DataType) -> bool:
    """Whether the type is an integer or a decimal."""
    return pa.types.is_integer(kind) or pa.types.is_decimal(kind)


def is_ordered(kind: pa.DataType) -> bool:
    """Whether the canonical type is sortable."""
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Returns the type in which two columns are compared; rounds only where Spark does (to double). None if not comparable."""
    if left == right:
        return left if is_ordered(left) else None
    if is_exact(left) and is_exact(right):
        return _exact_type(left, right)
    if all(is_exact(kind) or pa.types.is_floating(kind) for kind in (left, right)):
        return pa.float64()
    if all(pa.types.is_date(kind) or pa.types.is_timestamp(kind) for kind in (left, right)):
        zone = "UTC" if "UTC" in (getattr(left, "tz", None), getattr(right, "tz", None)) else None
        return pa.timestamp("us", zone)
    return None


def _exact_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return pa.int64()
    digits = [(kind.precision, kind.scale) if pa.types.is_decimal(kind) else (19, 0) for kind in (left, right)]
    scale = max(scale for _, scale in digits)
    whole = max(precision - scale for precision, scale in digits)
    assert whole + scale <= _DECIMAL_DIGITS_MAX
    return pa.decimal256(whole + scale, scale)


def ordered(values: Values, kind: pa.DataType) -> Values:
    """Converts `values` to `kind`, floats to integers with Spark's order of floats."""
    if not pa.types.is_floating(kind):
        return values if values.type == kind else values.cast(kind)
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([ordered(chunk, kind) for chunk in values.chunks], pa.int64())
    return _float_ranks(_doubles(values))


def literals(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """Converts literals for a column of type `kind` to the form of `ordered`."""
    return _float_ranks(pa.array(values, pa.float64())) if pa.types.is_floating(kind) else pa.array(values, kind)


def _doubles(values: pa.Array) -> pa.Array:
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())  # a direct cast does not always return the nearest double
    return values.cast(pa.float64(), safe=False)


def _float_ranks(values: pa.Array) -> pa.Array:
    floats = (values.fill_null(0.0) if values.null_count else values).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(floats), np.nan, floats + 0.0).view(np.int64)
    ranks = bits ^ ((bits >> 63) & _BELOW_SIGN)
    return pa.array(ranks, mask=values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None)
