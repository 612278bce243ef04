"""Evaluates predicates with Arrow's three-valued kernels, without a Python loop over rows."""

from __future__ import annotations

import math
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    and_,
    common_type,
    literals,
    may_fail,
    ordered,
)

_KERNELS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_TOKEN = re.compile(r"\\?.", re.DOTALL)
_WILDCARDS = {"%": ".*", "_": "."}
_UNKNOWN = pa.nulls(1, pa.bool_())[0]  # pa.scalar would import pandas
Outcome = pa.Array | pa.ChunkedArray | pa.Scalar


def evaluate(predicate: Predicate, table: pa.Table | pa.RecordBatch) -> np.ndarray:
    """Returns one bool per row: True if the predicate is TRUE, False if it is FALSE or NULL.

    `table` needs `predicate.columns`; a column with another layout or a narrower type is cast. O(rows x nodes). For a dictionary
    column only the distinct values are compared with literals.
    """
    if isinstance(predicate, And) and (computed := [one for one in predicate.children if isinstance(one, Computed)]):
        return _computed_last(predicate, computed, table)
    outcome = _outcome(predicate, table)
    if isinstance(outcome, pa.Scalar):
        return np.full(table.num_rows, outcome.as_py() is True)
    return outcome.fill_null(False).to_numpy(zero_copy_only=False).astype(bool, copy=False)


def evaluate_live(predicate: Predicate, table: pa.Table | pa.RecordBatch, live: np.ndarray) -> np.ndarray:
    """Returns one bool per row: True if it is `live` and the predicate is TRUE. A row that is not live causes no error."""
    if live.all() or not may_fail(predicate):
        return evaluate(predicate, table) & live
    matches = live.copy()
    matches[live] = evaluate(predicate, table.filter(pa.array(live)))
    return matches


def _computed_last(predicate: And, computed: list[Computed], table: pa.Table | pa.RecordBatch) -> np.ndarray:
    """Gives the slower evaluators only rows that satisfy the rest of the conjunction."""
    matches = evaluate(and_(*(one for one in predicate.children if one not in computed)), table).copy()
    if matches.any():
        kept = table.filter(pa.array(matches))
        matches[matches] = np.logical_and.reduce([evaluate(one, kept) for one in computed])
    return matches


def _outcome(predicate: Predicate, table: pa.Table | pa.RecordBatch) -> Outcome:
    match predicate:
        case Compare(_, Column((name,)), Literal()) | In(Column((name,))) | Like(Column((name,))) if _encoded(name, table):
            return _by_value(predicate, name, table.column(name))
        case Constant(value):
            return pa.scalar(value, pa.bool_())
        case Compare(op, left, Literal(float(value))) if not math.isnan(value):
            return _compare_floats(op, _values(left, table).cast(pa.float64()), value)
        case Compare(op, left, Literal(value)):
            return _KERNELS[op](ordered(_values(left, table), left.type), literals([value], left.type)[0])
        case Compare(op, left, right):
            kind = common_type(left.type, right.type)
            return _KERNELS[op](ordered(_values(left, table), kind), ordered(_values(right, table), kind))
        case In(column):
            values = ordered(_values(column, table), column.type)
            return pc.if_else(values.is_valid(), pc.is_in(values, value_set=predicate.literals), _UNKNOWN)
        case Like(column, prefix, rest):
            return _like(_values(column, table).cast(column.type), prefix, rest)
        case IsNull(column):
            return _values(column, table).is_null()
        case Computed(evaluator, reads):
            plain = {column.path[0]: _values(column, table).cast(column.type) for column in reads}
            return evaluator.over(pa.table(plain or {"_": pa.nulls(table.num_rows, pa.int8())}))
        case Is(child, None):
            return pc.is_null(_outcome(child, table))
        case Is(child, value):
            return pc.equal(pc.coalesce(_outcome(child, table), not value), value)
        case Not(child):
            return pc.invert(_outcome(child, table))
        case And(children):
            return _fold(pc.and_kleene, children, table)
        case Or(children):
            return _fold(pc.or_kleene, children, table)
    raise AssertionError(predicate)


def _encoded(name: str, table: pa.Table | pa.RecordBatch) -> bool:
    return pa.types.is_dictionary(table.column(name).type)


def _by_value(leaf: Predicate, name: str, column: pa.Array | pa.ChunkedArray) -> Outcome:
    """Evaluates a leaf on the dictionary of a column; null for a null row."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    outcomes = [_array(_outcome(leaf, pa.table({name: chunk.dictionary}))).take(chunk.indices) for chunk in chunks]
    return pa.chunked_array(outcomes, pa.bool_())


def _array(outcome: pa.Array | pa.ChunkedArray) -> pa.Array:
    return outcome.combine_chunks() if isinstance(outcome, pa.ChunkedArray) else outcome


def _compare_floats(op: str, values: pa.Array | pa.ChunkedArray, value: float) -> Outcome:
    """Compares with a number: Arrow's order then differs from Spark's for NaN only. Many times faster than `ordered`."""
    outcome = _KERNELS[op](values, value)
    return pc.or_(outcome, pc.is_nan(values)) if op in (">", ">=") else outcome


def _fold(kernel, children: tuple[Predicate, ...], table: pa.Table | pa.RecordBatch) -> Outcome:
    outcome = _outcome(children[0], table)
    for child in children[1:]:
        outcome = kernel(outcome, _outcome(child, table))
    return outcome


def _values(column: Column, table: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
    values = table.column(column.path[0])
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    for name in column.path[1:]:  # by position: Arrow reads a name that begins with "." or "[" as a path
        values = pc.struct_field(values, [values.type.get_field_index(name)])  # null where the struct is null
    return values


def _like(texts: pa.Array | pa.ChunkedArray, prefix: str, rest: str) -> Outcome:
    """Matches by regular expression: Arrow's `match_like` is wrong for an escaped backslash next to a wildcard."""
    if rest == "%":
        return pc.starts_with(texts, prefix)
    return pc.match_substring_regex(texts, like_pattern(prefix, rest))


def like_pattern(prefix: str, rest: str) -> str:
    """The regular expression of a `Like`."""
    tokens = (_WILDCARDS.get(token) or re.escape(token[-1]) for token in _TOKEN.findall(rest))
    return f"(?s)^{re.escape(prefix)}{''.join(tokens)}$"
