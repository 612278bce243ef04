"""Finds the parts of a parsed condition that are predicates: comparisons of columns with literals and with each other, IN,
BETWEEN, LIKE and IS.

The dialect decides whether a text is a condition, and says what is wrong with it. This module only looks for the part that Arrow
evaluates and that statistics decide. It takes only nodes all of whose arguments it knows, so a node of another form, as of a new
version of the parser, is at worst left to DuckDB. It reads the tree by `peek`, which notes no argument as read.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timezone, tzinfo
from decimal import Decimal
from functools import partial
from itertools import chain

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.scope import Scope
from lsmlake.dialect.sql_text import Text, peek, said
from lsmlake.dialect.sql_types import CALLED_AS_CASTS
from lsmlake.errors import InvalidSchema
from lsmlake.predicate.comparison import compare, compare_padded, fold, is_in, like
from lsmlake.predicate.tree import Column, Compare, Constant, Is, IsNull, Literal, Predicate, and_, common_type, never, not_, or_
from lsmlake.types.column_types import char_length
from lsmlake.types.ddl import type_of
from lsmlake.types.literal import cast, number, zone_named

_OPS = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERANDS = exp.Column, exp.Dot, exp.Literal, exp.Null, exp.Neg, exp.Cast, exp.RawString, exp.HexString, exp.Concat, exp.Anonymous


class _Beyond(Exception):
    """Predicates cannot express the condition."""


_BEYOND = _Beyond, ValueError, OverflowError, InvalidSchema, RecursionError
"""The errors that mean so, also of literals that are no value of a type, and of types that no column has."""


def bound(node: exp.Expression, scope: Scope, zone: str) -> Predicate | None:
    """The predicate that a condition is to Spark (ANSI mode); None if it is beyond predicates.

    Args:
        node: the condition.
        scope: the columns of one table; the predicate has their names.
        zone: the session's time zone, for times that name none.
    """
    try:
        return _Binder(scope, zone_named(zone)).predicate(node)
    except _BEYOND:
        return None


def bound_text(where: str, columns: pa.Schema, zone: str) -> tuple[Text, exp.Expression, Predicate | None]:
    """A text, its tree, and its predicate; None if the condition is beyond predicates, or the text is no condition. Raises
    InvalidQuery for a text that is not SQL."""
    text = Text(where)
    node = text.expression()
    return text, node, bound(node, Scope.of(columns), zone)


def implied(node: exp.Expression, scope: Scope, zone: str) -> Predicate | None:
    """A predicate that a condition implies, as strong as possible; None if no predicate is implied."""
    try:
        return _Binder(scope, zone_named(zone)).implied(node)
    except _BEYOND:
        return None


class _Binder:
    def __init__(self, scope: Scope, zone: tzinfo) -> None:
        self.scope, self.zone = scope, zone

    def implied(self, node: exp.Expression) -> Predicate | None:
        node = _plain(node)
        if isinstance(node, exp.And):
            known = [one for part in _chain(node) if (one := self.implied(part)) is not None]
            return and_(*known) if known else None
        if isinstance(node, exp.Or):
            parts = [self.implied(part) for part in _chain(node)]
            return None if None in parts else or_(*parts)
        try:
            return self.predicate(node)
        except _BEYOND:
            return None

    def predicate(self, node: exp.Expression) -> Predicate:
        match node:
            case exp.Paren():
                return self.predicate(*_parts(node, "this"))
            case exp.And() | exp.Or():
                children = map(self.predicate, _chain(node))
                return and_(*children) if isinstance(node, exp.And) else or_(*children)
            case exp.Not():
                return not_(self.predicate(*_parts(node, "this")))
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                left, right = _parts(node, "this", "expression")
                return self._comparison(_OPS[type(node)], left, right)
            case exp.NullSafeEQ():
                return self._null_safe(node)
            case exp.NullSafeNEQ():
                return not_(self._null_safe(node))
            case exp.Is():
                return self._is(node)
            case exp.In():
                return self._in(node)
            case exp.Between():
                operand, low, high = _parts(node, "this", "low", "high")  # Spark pads no CHAR(n) here
                sides = ((">=", low), ("<=", high))
                return and_(*(self._comparison(op, operand, side, pads=False) for op, side in sides))
            case exp.Like() | exp.Escape():
                return self._like(node)
            case exp.Boolean() | exp.Null():
                return Constant(self._literal(node))
            case exp.Column() | exp.Dot():
                column = self._column(node)
                if not pa.types.is_boolean(column.type):
                    raise _Beyond
                return Compare("=", column, Literal(True))
        raise _Beyond

    def _comparison(self, op: str, left: exp.Expression, right: exp.Expression, *, pads: bool = True) -> Predicate:
        """A comparison of two operands. `pads`: the shorter text of a CHAR(n) is padded."""
        a, b = self._operand(left), self._operand(right)
        if isinstance(a, Column) and isinstance(b, Column):
            zoned = _is_local(a.type) != _is_local(b.type) and self.zone is not timezone.utc  # depends on the session's time zone
            lengths = {self._char_length(a), self._char_length(b)} if pads else {None}
            if zoned or common_type(a.type, b.type) is None or (None not in lengths and len(lengths) > 1):
                raise _Beyond
            return Compare(op, a, b)
        if isinstance(a, Column):
            return self._compare(op, a, b, pads)
        return self._compare(_MIRRORED[op], b, a, pads) if isinstance(b, Column) else fold(op, a, b)

    def _compare(self, op: str, column: Column, value: object, pads: bool) -> Predicate:
        length = self._char_length(column) if pads and isinstance(value, str) else None
        return compare(op, column, value, self.zone) if length is None else compare_padded(op, column, length, value)

    def _char_length(self, column: Column) -> int | None:
        """The length of a column of CHAR(n). Fields of structs have none to Spark."""
        return char_length(self.scope.found(column.path)[0][0].known.declared) if len(column.path) == 1 else None

    def _null_safe(self, node: exp.Expression) -> Predicate:
        left, right = _parts(node, "this", "expression")
        nulls = [self._null_test(self._operand(side)) for side in (left, right)]
        return or_(Is(self._comparison("=", left, right), True), and_(*nulls))

    def _null_test(self, operand: object) -> Predicate:
        return IsNull(operand) if isinstance(operand, Column) else Constant(operand is None)

    def _is(self, node: exp.Is) -> Predicate:
        child, wanted = _parts(node, "this", "expression")
        if not isinstance(wanted, exp.Null | exp.Boolean):
            raise _Beyond
        child, value = _plain(child), self._literal(wanted)
        if value is None and isinstance(child, _OPERANDS):
            return self._null_test(self._operand(child))
        return Is(self.predicate(child), value)

    def _in(self, node: exp.In) -> Predicate:
        operand, listed = _parts(node, "this", "expressions")
        operand, values = self._operand(operand), [self._value(value) for value in listed or ()]
        if not values:
            raise _Beyond
        if not isinstance(operand, Column):
            return or_(*(fold("=", operand, value) for value in values))
        length = self._char_length(operand)
        if length is not None and all(isinstance(value, str) for value in values):
            values = [value[:length].ljust(length) for value in values if not value[length:].strip(" ")]
            if not values:
                return never(operand)
        return is_in(operand, values, self.zone)

    def _like(self, node: exp.Like | exp.Escape) -> Predicate:
        escape = "\\"
        if isinstance(node, exp.Escape):
            node, character = _parts(node, "this", "expression")
            escape = self._value(character)
        if not isinstance(node, exp.Like) or not isinstance(escape, str) or len(escape) != 1:
            raise _Beyond
        left, right, negated = _parts(node, "this", "expression", "negate")
        column, pattern = self._operand(left), self._value(right)
        if not isinstance(column, Column) or not isinstance(pattern, str | None):
            raise _Beyond
        predicate = like(column, pattern, escape)
        return not_(predicate) if negated else predicate

    # --- columns and literals ---

    def _operand(self, node: exp.Expression) -> object:
        """A Column or the value of a literal."""
        node = _plain(node)
        return self._column(node) if isinstance(node, exp.Column | exp.Dot) else self._literal(node)

    def _value(self, node: exp.Expression) -> object:
        value = self._operand(node)
        if isinstance(value, Column):
            raise _Beyond
        return value

    def _literal(self, node: exp.Expression) -> object:
        node = _plain(node)
        match node:
            case exp.Null():
                _parts(node)
                return None
            case exp.Boolean() | exp.RawString():
                return _parts(node, "this")[0]
            case exp.Literal():
                value, is_text = _parts(node, "this", "is_string")
                return value if is_text else number(value)
            case exp.HexString():
                (digits,) = _parts(node, "this")
                return bytes.fromhex("0" * (len(digits) % 2) + digits)
            case exp.Concat():  # 'a' 'b' is one literal to Spark
                texts = [self._literal(part) for part in _parts(node, "expressions")[0]]
                if not all(isinstance(text, str) for text in texts):
                    raise _Beyond
                return "".join(texts)
            case exp.Neg():
                inner = _parts(node, "this")[0]
                if isinstance(inner, exp.Cast):  # -128Y: 128 is no TINYINT
                    return self._cast(inner, _negated)
                return _negated(self._literal(inner))
            case exp.Cast():  # also DATE '...', 1L and TryCast, which is how sqlglot reads Spark's CAST
                return self._cast(node)
            case exp.Anonymous():
                return self._called(node)
        raise _Beyond

    def _cast(self, node: exp.Cast, made: Callable[[object], object] = lambda value: value) -> object:
        """A literal as a value of another type. `made`: changes the literal before it is cast."""
        given, kind, _ = _parts(node, "this", "to", "safe")
        return self._converted(made(self._literal(given)), kind)

    def _converted(self, value: object, kind: exp.DataType) -> object:
        if value is None:  # it would lose its type, which decides what is compared
            raise _Beyond
        return cast(value, type_of(kind), self.zone)

    def _called(self, node: exp.Anonymous) -> object:
        """`+1`, and calls that are casts, such as double('NaN')."""
        name, arguments = _parts(node, "this", "expressions")
        if len(arguments) != 1:
            raise _Beyond
        value = self._literal(arguments[0])
        if name.lower() == "positive":
            return _negated(_negated(value))
        if name.lower() not in CALLED_AS_CASTS:
            raise _Beyond
        return self._converted(value, exp.DataType.build(name, dialect="spark"))

    def _column(self, node: exp.Column | exp.Dot) -> Column:
        parts = _names(node)
        matches = self.scope.found(parts)
        if len(matches) != 1:
            raise _Beyond
        column, used = matches[0]
        path, kind = [column.name], column.type
        for name in parts[used:]:
            same = [one for one in kind if one.name.lower() == name.lower()] if pa.types.is_struct(kind) else []
            if len(same) != 1:
                raise _Beyond
            path, kind = [*path, same[0].name], same[0].type
        return Column(tuple(path), kind)


def _names(node: exp.Expression) -> list[str]:
    """The names of a dotted name."""
    match node:
        case exp.Dot():
            before, last = _parts(node, "this", "expression")
            return [*_names(before), *_names(last)]
        case exp.Column():
            parts = _parts(node, "catalog", "db", "table", "this")
            return [*chain.from_iterable(map(_names, filter(None, parts)))]
        case exp.Identifier():
            return [_parts(node, "this")[0]]
    raise _Beyond


def _plain(node: exp.Expression) -> exp.Expression:
    """The node without parentheses around it."""
    while isinstance(node, exp.Paren):
        (node,) = _parts(node, "this")
    return node


def _chain(node: exp.And | exp.Or) -> list[exp.Expression]:
    """The operands of a chain of one operator, such as `a AND b AND c`, in the order of the text."""
    operands, waiting = [], [node]
    while waiting:
        one = waiting.pop()
        if type(one) is type(node):
            waiting += reversed(_parts(one, "this", "expression"))
        else:
            operands.append(one)
    return operands


def _parts(node: exp.Expression, *known: str) -> tuple:
    """These arguments of a node. Raises _Beyond if it has others."""
    for name, _ in said(node):
        if name not in known:
            raise _Beyond
    return tuple(map(partial(peek, node), known))


def _negated(value: object) -> object:
    if type(value) not in (int, float, Decimal):
        raise _Beyond
    return value.copy_negate() if isinstance(value, Decimal) else -value


def _is_local(kind: pa.DataType) -> bool:
    return pa.types.is_date(kind) or kind == pa.timestamp("us")
