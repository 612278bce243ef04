"""Translates SQL text to predicates: sqlglot parses Spark's grammar, this module translates the supported part.

Nothing is ignored: an unknown node, or an unknown argument of a node, is refused with its position. So a new version of sqlglot
with another representation cannot change the meaning of a query silently.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from datetime import timezone, tzinfo
from decimal import Decimal

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from lsmlake.errors import InvalidQuery, InvalidSchema
from lsmlake.predicate.comparison import compare, compare_padded, fold, is_in, like
from lsmlake.predicate.order import common_type
from lsmlake.predicate.tree import Column, Compare, Constant, Is, IsNull, Literal, Predicate, Unsupported, and_, never, not_, or_
from lsmlake.types import types
from lsmlake.types.ddl import requoted, type_of
from lsmlake.types.literal import cast, number, show, zone_named
from lsmlake.types.sized_text import char_length
from lsmlake.types.spark_types import SparkTypes
from lsmlake.types.spelling import spelled
from lsmlake.types.type_text import format_type

SUPPORTED = (
    "AND, OR, NOT, IS [NOT] NULL|TRUE|FALSE, [NOT] IN (literals), [NOT] BETWEEN, [NOT] LIKE, and = <> < <= > >= <=> between a "
    "column and a literal or two columns"
)
_OPS = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERANDS = exp.Column, exp.Dot, exp.Literal, exp.Null, exp.Neg, exp.Cast, exp.RawString, exp.HexString
_COLUMNS_SHOWN_MAX = 20
_TEXT_SHOWN_MAX = 200


def read(text: str, schema: pa.Schema, zone: str) -> Predicate:
    """Implements `parse`."""
    where = _shown(text)
    try:
        text = requoted(text)
        found = sqlglot.parse(text, dialect=SparkTypes)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        where = f"line {first.get('line', 1)}, character {first.get('col', 0)} of {where}"
        found = repr(first.get("highlight", ""))
        raise InvalidQuery("the predicate is not SQL", where=where, expected=SUPPORTED, found=found) from error
    except (SqlglotError, RecursionError) as error:
        raise InvalidQuery("the predicate is not SQL", where=where, expected=SUPPORTED) from error
    if len(found) != 1 or found[0] is None or isinstance(found[0], exp.Block):
        raise InvalidQuery("expected exactly one predicate", where=where, expected=SUPPORTED)
    return from_sqlglot(found[0], schema, text, zone=zone)


def from_sqlglot(
    node: exp.Expression, schema: pa.Schema, text: str, *, zone: str = "UTC", names: Sequence[str] = ()
) -> Predicate:
    """As `read`, for an expression parsed by sqlglot, such as the WHERE of the (`requoted`) statement `text`. `names`: what can
    stand before a column."""
    assert requoted(text) == text, "sqlglot would read 'it''s' as its"
    try:
        session = zone_named(zone)
    except ValueError as error:
        raise Unsupported("unknown time zone", expected="a name such as Europe/Berlin or +01:00", found=zone) from error
    try:
        return _Binder(schema, session, text, names).predicate(node)
    except RecursionError as error:
        raise InvalidQuery("the predicate is nested too deeply", where=_shown(text), cure="use fewer parentheses") from error


def _shown(text: str) -> str:
    return repr(text if len(text) <= _TEXT_SHOWN_MAX else text[:_TEXT_SHOWN_MAX] + "...")


class _Binder:
    def __init__(self, schema: pa.Schema, zone: tzinfo, text: str, names: Sequence[str]) -> None:
        self.schema, self.zone, self.text = schema, zone, text
        self.names, self.columns = {name.lower() for name in names}, {name.lower() for name in schema.names}

    def predicate(self, node: exp.Expression) -> Predicate:
        match node:
            case exp.Paren():
                return self.predicate(self._one(node))
            case exp.And() | exp.Or():
                children = [self.predicate(child) for child in node.flatten(unnest=False)]
                return and_(*children) if isinstance(node, exp.And) else or_(*children)
            case exp.Not():
                return not_(self.predicate(self._one(node)))
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                left, right = self._two(node)
                return self._comparison(node, _OPS[type(node)], left, right)
            case exp.NullSafeEQ():
                return self._null_safe(node)
            case exp.NullSafeNEQ():
                return not_(self._null_safe(node))
            case exp.Is():
                return self._is(node)
            case exp.In():
                return self._in(node)
            case exp.Between():
                return self._between(node)
            case exp.Like() | exp.Escape():
                return self._like(node)
            case exp.Boolean() | exp.Null():
                return Constant(self._literal(node))
            case exp.Column() | exp.Dot():
                return self._flag(node, self._column(node))
        raise self._unsupported(node)

    def _flag(self, node: exp.Expression, column: Column) -> Predicate:
        if not pa.types.is_boolean(column.type):
            found = f"{spelled(node)}, which is {format_type(column.type)}"
            raise self._error(node, "only a BOOLEAN column is a condition by itself", expected="a comparison", found=found)
        return Compare("=", column, Literal(True))

    def _comparison(
        self, node: exp.Expression, op: str, left: exp.Expression, right: exp.Expression, *, pads: bool = True
    ) -> Predicate:
        """`pads`: a CHAR(n) is compared as one."""
        a, b = self._operand(left), self._operand(right)
        if isinstance(a, Column) and isinstance(b, Column):
            zoned = _is_local(a.type) != _is_local(b.type)  # depends on the session's time zone
            found = f"{format_type(a.type)} and {format_type(b.type)}"
            if common_type(a.type, b.type) is None:
                raise self._error(node, "columns of these types cannot be compared", found=found)
            if pads and None not in (lengths := {self._char_length(a), self._char_length(b)}) and len(lengths) > 1:
                found = " and ".join(f"CHAR({length})" for length in sorted(lengths))
                raise Unsupported("columns of different lengths are not compared here", where=self._place(node), found=found)
            if zoned and self.zone is not timezone.utc:
                what = "columns of these types are compared here in time zone UTC only"
                raise Unsupported(what, where=self._place(node), found=f"{found} in {self.zone}")
            return Compare(op, a, b)
        if isinstance(a, Column):
            return self._tried(node, lambda: self._compare(op, a, b, pads))
        if isinstance(b, Column):
            return self._tried(node, lambda: self._compare(_MIRRORED[op], b, a, pads))
        return self._folded(node, lambda: fold(op, a, b))

    def _compare(self, op: str, column: Column, value: object, pads: bool) -> Predicate:
        length = self._char_length(column) if pads and isinstance(value, str) else None
        return compare(op, column, value, self.zone) if length is None else compare_padded(op, column, length, value)

    def _char_length(self, column: Column) -> int | None:
        """The length of a column of CHAR(n). Fields of structs have none to Spark."""
        return char_length(self.schema.field(column.path[0])) if len(column.path) == 1 else None

    def _null_safe(self, node: exp.Expression) -> Predicate:
        left, right = self._two(node)
        nulls = [self._null_test(self._operand(side)) for side in (left, right)]
        return or_(Is(self._comparison(node, "=", left, right), True), and_(*nulls))

    def _null_test(self, operand: object) -> Predicate:
        return IsNull(operand) if isinstance(operand, Column) else Constant(operand is None)

    def _is(self, node: exp.Is) -> Predicate:
        child, wanted = self._two(node)
        if not isinstance(wanted, exp.Null | exp.Boolean):
            raise self._unsupported(node)
        child, value = child.unnest(), self._literal(wanted)
        if value is None and self._is_operand(child):
            return self._null_test(self._operand(child))
        return Is(self.predicate(child), value)

    def _in(self, node: exp.In) -> Predicate:
        self._check(node, "this", "expressions")
        operand, values = self._operand(node.this), [self._value(value) for value in node.expressions]
        if not values:
            raise self._unsupported(node)
        if isinstance(operand, Column):
            length = self._char_length(operand)
            if length is not None and all(isinstance(value, str) for value in values):
                values = [value[:length].ljust(length) for value in values if not value[length:].strip(" ")]
                if not values:
                    return never(operand)
            return self._tried(node, lambda: is_in(operand, values, self.zone))
        return self._folded(node, lambda: or_(*(fold("=", operand, value) for value in values)))

    def _between(self, node: exp.Between) -> Predicate:
        self._check(node, "this", "low", "high")
        low, high = node.args.get("low"), node.args.get("high")
        parts = ((">=", low), ("<=", high))
        return and_(*(self._comparison(node, op, node.this, side, pads=False) for op, side in parts))  # as Spark does

    def _like(self, node: exp.Like | exp.Escape) -> Predicate:
        escape = "\\"
        if isinstance(node, exp.Escape):
            node, character = self._two(node)
            escape = self._value(character)
            if not isinstance(node, exp.Like) or not isinstance(escape, str) or len(escape) != 1:
                raise self._error(character, "ESCAPE takes one character", found=spelled(character))
        self._check(node, "this", "expression", "negate")
        column, pattern = self._operand(node.this), self._value(node.expression)
        if not isinstance(column, Column) or not isinstance(pattern, str | None):
            raise self._unsupported(node)
        found = self._tried(node, lambda: like(column, pattern, escape))
        return not_(found) if node.args.get("negate") else found

    # --- columns and literals ---

    def _is_operand(self, node: exp.Expression) -> bool:
        return isinstance(node.unnest(), _OPERANDS)

    def _operand(self, node: exp.Expression) -> object:
        """A Column or the value of a literal."""
        node = node.unnest()
        return self._column(node) if isinstance(node, exp.Column | exp.Dot) else self._literal(node)

    def _value(self, node: exp.Expression) -> object:
        value = self._operand(node)
        if isinstance(value, Column):
            raise self._error(node, "a column is not allowed here", expected="a literal", found=spelled(node))
        return value

    def _literal(self, node: exp.Expression) -> object:
        node = node.unnest()
        match node:
            case exp.Null():
                return None
            case exp.Boolean():
                return bool(node.this)
            case exp.Literal() | exp.RawString():
                if isinstance(node, exp.RawString) or node.is_string:
                    return node.this
                return self._tried(node, lambda: number(node.this))
            case exp.HexString():
                return self._tried(node, lambda: bytes.fromhex("0" * (len(node.this) % 2) + node.this))
            case exp.Concat() if all(isinstance(part, exp.Literal) and part.is_string for part in node.expressions):
                return "".join(part.this for part in node.expressions)  # 'a' 'b' is one literal to Spark
            case exp.Neg(this=exp.Cast(this=exp.Literal(is_string=False)) as cast):  # -128Y: 128 is no TINYINT
                self._check(cast, "this", "to", "safe", "requires_string")
                return self._cast(cast, self._negated(node, self._literal(cast.this)))
            case exp.Neg():
                return self._negated(node, self._literal(self._one(node)))
            case exp.Cast():  # also DATE '...', 1L and TryCast, which is how sqlglot reads Spark's CAST
                self._check(node, "this", "to", "safe", "requires_string")
                return self._cast(node, self._literal(node.this))
        raise self._unsupported(node)

    def _negated(self, node: exp.Expression, value: object) -> object:
        if type(value) not in (int, float, Decimal):
            raise self._error(node, "only a number has a sign", found=show(value))
        return value.copy_negate() if isinstance(value, Decimal) else -value

    def _cast(self, node: exp.Cast, value: object) -> object:
        try:
            kind = type_of(node.to)
        except InvalidSchema as error:
            raise self._error(node, "unknown type", expected=error.expected, found=spelled(node.args.get("to"))) from error
        return self._tried(node, lambda: cast(value, kind, self.zone))

    def _column(self, node: exp.Column | exp.Dot) -> Column:
        self._check(node, "this", "table", "db", "catalog", "expression")
        names = [part.name for part in node.parts if isinstance(part, exp.Identifier)]
        if len(names) != len(node.parts):
            raise self._unsupported(node)
        for length in range(len(names) - 1, 0, -1):  # the name of the table comes before a column that is a struct
            if ".".join(names[:length]).lower() in self.names and names[length].lower() in self.columns:
                names = names[length:]
                break
        path, fields, kind = [], list(self.schema), None
        for name in names:
            field = self._field(node, name, fields, path)
            path, kind = [*path, field.name], types.canonical(field.type, field.name)
            fields = list(kind) if pa.types.is_struct(kind) else []
        return Column(tuple(path), kind)

    def _field(self, node: exp.Expression, name: str, fields: list[pa.Field], path: list[str]) -> pa.Field:
        known = {field.name.lower(): field for field in fields}
        if name.lower() in known:
            return known[name.lower()]
        what = f"{'.'.join(path)} has no field {name}" if path else f"unknown column {name}"
        if not known:
            raise self._error(node, what, cure="only a STRUCT has fields" if path else "")
        names = [field.name for field in fields]
        shown = ", ".join(names[:_COLUMNS_SHOWN_MAX]) + (", ..." if len(names) > _COLUMNS_SHOWN_MAX else "")
        nearest = difflib.get_close_matches(name.lower(), known, 1)
        cure = f"did you mean {known[nearest[0]].name}?" if nearest else "text is written in 'quotes'"
        raise self._error(node, what, expected=f"one of {shown}", cure=cure)

    # --- what may not be ignored ---

    def _check(self, node: exp.Expression, *known: str) -> None:
        if any(value and name not in known for name, value in node.args.items()):
            raise self._unsupported(node)

    def _one(self, node: exp.Expression) -> exp.Expression:
        self._check(node, "this")
        return node.this

    def _two(self, node: exp.Expression) -> tuple[exp.Expression, exp.Expression]:
        self._check(node, "this", "expression")
        return node.this, node.expression

    def _tried(self, node: exp.Expression, read: Callable[[], object]) -> object:
        try:
            return read()
        except (ValueError, OverflowError) as error:
            raise self._error(node, str(error)) from error

    def _folded(self, node: exp.Expression, read: Callable[[], Predicate]) -> Predicate:
        """A comparison of literals; those of different types are not compared here."""
        try:
            return read()
        except ValueError as error:
            raise Unsupported(str(error), where=self._place(node), expected=SUPPORTED) from error

    def _unsupported(self, node: exp.Expression) -> Unsupported:
        what = "this is not supported in a predicate"
        return Unsupported(what, where=self._place(node), expected=SUPPORTED, found=spelled(node))

    def _error(self, node: exp.Expression, what: str, **named: object) -> InvalidQuery:
        return InvalidQuery(what, where=self._place(node), **named)

    def _place(self, node: exp.Expression) -> str:
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        return f"character {min(starts) + 1} of {_shown(self.text)}" if starts else _shown(self.text)


def _is_local(kind: pa.DataType) -> bool:
    return pa.types.is_date(kind) or kind == pa.timestamp("us")
