"""Translates one expression of Spark SQL to DuckDB, with its type.

Every node is typed by Spark's rules (ANSI mode), and operands are cast to the types that Spark would convert them to. So
DuckDB never chooses a conversion itself. What has no equal translation is refused with its place in the text. A name means a
column, a field of a STRUCT, or an alias of SELECT.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect import arithmetic, calls, comparisons, existence, interval_functions, patterns, pipes, times
from lsmlake.dialect.aggregates import AGGREGATES
from lsmlake.dialect.context import CURRENT, Context, Subquery, drawing_calls, is_drawn, once, refuse_query, variable
from lsmlake.dialect.literals import decimal_text, has_suffix, literal_number
from lsmlake.dialect.registry import function
from lsmlake.dialect.scope import INT64_DIGITS, Narrow, Scope, Typed
from lsmlake.dialect.sql_text import Text, operands, peek
from lsmlake.dialect.sql_types import BINARY, BOOLEAN, NULL, STRING, TINYINT, text
from lsmlake.errors import InvalidSchema, Wording
from lsmlake.types.ddl import type_of
from lsmlake.types.type_text import format_type

_VALUE = Wording(
    "write the value; lake.sql takes it in args",
    command="write the value; `lsmlake sql` takes it by --arg",
    sql="write the value, or pass it beside the statement",
)


@dataclass(frozen=True)
class Translator(Context):
    """A place of a text that translates each kind of node."""

    @staticmethod
    def at(text: Text, scope: Scope, now: str | None, subquery: Subquery | None = None) -> Translator:
        """A translator for a statement at the time `now`, such as '2026-01-31 12:00:00+00:00'."""
        return Translator(text, scope, subquery, now=None if now is None else "'" + now.replace("'", "''") + "'")

    def typed(self, node: exp.Expression) -> Typed:
        if self.groups is not None and not self._names_output(node) and (known := self.groups.found(node)) is not None:
            return known
        if (known := self.drawn.get(id(node))) is not None:
            return known
        drawn = _drawn_operands(node) if self.draws else []
        return self._once(node, drawn) if drawn else self._translated(node)

    def _once(self, node: exp.Expression, drawn: list[exp.Expression]) -> Typed:
        """A node whose operands draw values, each of which is drawn once, however often the translation needs it."""
        names: dict[int, Typed] = {}
        values: list[tuple[str, str]] = []
        for operand in drawn:
            value = self.typed(operand)
            if is_drawn(value.sql):  # otherwise it is the column of a group
                name = variable(len(self.drawn) + len(names) + 1)
                names[id(operand)] = value._replace(sql=name)
                values.append((name, value.sql))
        made = replace(self, drawn={**self.drawn, **names})._translated(node)
        for name, value in reversed(values):
            if (sql := once(value, name, made.sql)) is None:
                self.text.refuse(node, "a value that is drawn each time cannot stand here", cure="compute it in a subquery")
            made = made._replace(sql=sql)
        return made

    def _translated(self, node: exp.Expression) -> Typed:
        match node:
            case exp.Paren():
                inner = self.typed(node.this)
                return inner.written(f"({inner.sql})")
            case exp.Alias():
                return self.typed(node.this)
            case exp.Column() | exp.Dot() | exp.Identifier():
                return named(self, node)
            case exp.And() | exp.Or():
                word = " AND " if isinstance(node, exp.And) else " OR "
                return Typed(f"({word.join(self.operand(part, BOOLEAN) for part in operands(node, type(node)))})", BOOLEAN)
            case exp.Not():
                inner = node.this.unnest()
                if isinstance(inner, exp.In) and peek(inner, "query"):
                    return comparisons.member(self, inner, negated=True)
                return Typed(f"(NOT {self.operand(node.this, BOOLEAN)})", BOOLEAN)
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.NullSafeEQ() | exp.NullSafeNEQ():
                return comparisons.compared(self, node)
            case exp.Between():
                return comparisons.between(self, node)
            case exp.In():
                return comparisons.member(self, node)
            case exp.Is():
                return comparisons.tested(self, node)
            case exp.Like() | exp.ILike() | exp.Escape() | exp.RegexpLike():
                return patterns.like(self, node)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod() | exp.IntDiv():
                return arithmetic.computed(self, node)
            case exp.Neg():
                return arithmetic.negated(self, node)
            case exp.DPipe():
                arithmetic.unmixed(self, node)
                return function(self, node, "concat", [node.this, node.expression])
            case exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseXor() | exp.BitwiseNot():
                return arithmetic.bits(self, node)
            case exp.Tuple():
                return function(self, node, "struct", node.expressions)
            case exp.Case() | exp.If():
                return _case(self, node)
            case exp.Cast():
                return _cast(self, node)
            case exp.Extract():
                return times.extracted(self, node, node.this.name.upper(), node.expression)
            case exp.Trim():
                return _trim(self, node)
            case exp.Bracket():
                return _element(self, node)
            case exp.Window():
                return calls.windowed(self, node)
            case exp.Anonymous(this=pipes.INPUT_COLUMN):
                return numbered(self, node)
            case exp.Filter() | exp.Anonymous() | exp.WithinGroup() | exp.IgnoreNulls() | exp.RespectNulls():
                return calls.call(self, node)
            case exp.Transform():
                return function(self, node, "transform", [node.this, node.expression])
            case exp.Exists() if isinstance(node.args.get("expression"), exp.Lambda):
                return function(self, node, "exists", [node.this, node.expression])
            case exp.Subquery() | exp.Exists():
                return _subquery(self, node)
            case exp.Query():
                refuse_query(self.text, node)
        return _literal(self, node)

    def _names_output(self, node: exp.Expression) -> bool:
        """Whether an expression of ORDER BY names a column of the output."""
        return bool(self.first) and any(one.parts[0].name.lower() in self.first for one in node.find_all(exp.Column))


def _drawn_operands(node: exp.Expression) -> list[exp.Expression]:
    """The operands of a node that draw values, if its translation may need them more than once. CASE compares a value anew with
    each WHEN, in Spark as here."""
    match node:
        case exp.Anonymous() if node.name.lower() not in AGGREGATES:
            operands_ = peek(node, "expressions") or []
        case exp.And() | exp.Or() | exp.Dot():
            operands_ = []
        case exp.Binary() | exp.Between() | exp.In() | exp.Unary() | exp.Cast() | exp.Bracket() | exp.Extract() | exp.Trim():
            operands_ = [*node.iter_expressions()]
        case exp.Transform() | exp.Exists():
            operands_ = [peek(node, "this")]
        case _:
            operands_ = []
    return [one for one in operands_ if not isinstance(one, _NO_OPERANDS) and next(drawing_calls(one), None) is not None]


_NO_OPERANDS = exp.Lambda, exp.Distinct, exp.Query, exp.Subquery, exp.DataType, exp.PropertyEQ


def _literal(context: Context, node: exp.Expression) -> Typed:
    match node:
        case exp.Null():
            return Typed("NULL", NULL)
        case exp.Boolean():
            return Typed("true" if node.this else "false", BOOLEAN)
        case exp.Literal() if not node.is_string:
            return literal_number(context.text, node, node.this)
        case exp.Literal() | exp.RawString():
            return Typed(text(node.this), STRING)
        case exp.Concat() if all(isinstance(part, exp.Literal) and part.is_string for part in node.expressions):
            return Typed(text("".join(part.this for part in node.expressions)), STRING)
        case exp.HexString():
            return Typed(f"unhex('{'0' * (len(node.this) % 2) + node.this}')", BINARY)
        case exp.Placeholder():
            context.text.refuse(node, "a parameter has no value", cure=_VALUE)
        case exp.Interval():
            return interval_functions.literal(context, node)
        case exp.Array():
            context.text.refuse(
                node, "an index after a call is not supported", cure="put the call in parentheses, or use element_at"
            )
    context.text.refuse(node, "this is not supported", cure="write it otherwise, or attach Spark")


def _case(context: Context, node: exp.Case | exp.If) -> Typed:
    branches = [node] if isinstance(node, exp.If) else node.args.get("ifs")
    default = node.args.get("false" if isinstance(node, exp.If) else "default") or exp.Null()
    operand = node.this if isinstance(node, exp.Case) else None
    tests = [branch.this for branch in branches]
    if operand is None:
        conditions = [context.operand(test, BOOLEAN) for test in tests]
    else:
        conditions = [
            comparisons.compared(context, comparisons.within(exp.EQ(this=operand, expression=test), node)).sql for test in tests
        ]
    results = [*(branch.args.get("true") for branch in branches), default]
    made = [context.typed(result) for result in results]
    sqls, kind = context.unified(results, made)
    sql = _when(conditions, sqls)
    narrow = cache(partial(_narrow_case, sql, kind, conditions, made)) if pa.types.is_decimal(kind) else None
    return Typed(sql, kind, narrow=narrow)


def _when(conditions: Sequence[str], values: Sequence[str]) -> str:
    """CASE with a value for each condition, and the last one for none."""
    whens = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(conditions, values[:-1], strict=True))
    return f"CASE {whens} ELSE {values[-1]} END"


def _narrow_case(sql: str, kind: pa.DataType, conditions: Sequence[str], values: Sequence[Typed]) -> Narrow | None:
    """CASE of numbers of few digits in 64 bits. `sql`: the expression. `kind`: its type, which may round a value."""
    results = [None if one.type == NULL else one.in_64_bits for one in values]
    parts = [one for one in results if one is not None]
    if not parts or len(parts) < sum(one.type != NULL for one in values):
        return None
    scale = max(one.scale for one in parts)
    digits = max(one.digits - one.scale for one in parts) + scale
    if max(digits, scale) > INT64_DIGITS or scale > kind.scale:
        return None
    wanted = f"DECIMAL({INT64_DIGITS},{scale})"
    casts = [f"CAST({'NULL' if one is None else one.sql} AS {wanted})" for one in results]
    return Narrow(sql, _when(conditions, casts), INT64_DIGITS, digits, scale)


def _cast(context: Context, node: exp.Cast) -> Typed:
    try:
        kind = type_of(node.to, intervals=True)
    except InvalidSchema as error:
        context.text.refuse(node, "unknown type", expected=error.expected, found=error.found, cure=error.cure)
    given = node.this
    if isinstance(given, exp.Literal) and given.is_string and pa.types.is_decimal(kind) and (exact := decimal_text(given.this)):
        given = exp.Literal.string(exact)
    made, safe = context.typed(given), bool(node.args.get("safe"))
    sql = context.converted(node, made, kind, safe=safe, explicit=True)
    suffixed = has_suffix(node.this) and kind != TINYINT  # decimal arithmetic takes 1S and 1L as digits, but 1Y as a TINYINT
    return Typed(sql, kind, made.constant if suffixed and pa.types.is_integer(kind) else None)


def _trim(context: Context, node: exp.Trim) -> Typed:
    position = context.text.word(node, "position", "LEADING", "TRAILING", "BOTH")
    call = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(position, "trim")
    characters = node.args.get("expression")
    what = context.operand(characters, STRING) if characters is not None else "' '"
    return Typed(f"{call}({context.operand(node.this, STRING)}, {what})", STRING)


def _element(context: Context, node: exp.Bracket) -> Typed:
    made = context.typed(node.this)
    if pa.types.is_list(made.type) and len(node.expressions) == 1:
        index = context.typed(node.expressions[0])
        if pa.types.is_integer(index.type):
            return Typed(f"spark_element({made.sql}, {index.sql})", made.type.value_type)
    if pa.types.is_map(made.type) and len(node.expressions) == 1:
        key = context.converted(node, context.typed(node.expressions[0]), made.type.key_type)
        return Typed(f"{made.sql}[{key}]", made.type.item_type)
    context.text.refuse(
        node,
        "only an ARRAY with an integer, or a MAP with a key, has elements",
        found=format_type(made.type),
        cure="take an element of an ARRAY or a MAP",
    )


def _subquery(context: Context, node: exp.Subquery | exp.Exists) -> Typed:
    inner = context.inner(node, node.this)
    sql, types = inner.sql, inner.types
    if isinstance(node, exp.Exists):
        alike = isinstance(node.this, exp.Select) and context.filters and existence.null_is_false(node)
        as_member = inner.member() if alike and inner.member is not None else None
        return Typed(as_member or f"EXISTS ({sql})", BOOLEAN)
    if len(types) != 1:
        context.text.refuse(
            node, "a query used as a value must give one column", found=f"{len(types)} columns", cure="select one column"
        )
    return Typed(f"({sql})", types[0])


# -- names ------------------------------------------------------------------------------------------------------------


def named(context: Context, node: exp.Expression) -> Typed:
    """The meaning of a dotted name in this place. Refuses a name that is unknown or ambiguous."""
    if isinstance(node, exp.Dot) and not _is_name(node.this) and isinstance(node.expression, exp.Identifier):
        return _field(context, node, context.typed(node.this), node.expression.name)
    parts = _parts(node)
    if not all(isinstance(part, exp.Identifier) for part in parts):
        context.text.refuse(node, "this is not supported here", cure="leave it out, or attach Spark")
    path = [part.name for part in parts]
    if path[0].lower() in context.first and isinstance(node, (exp.Column, exp.Dot, exp.Identifier)):
        return _fields(context, node, context.first[path[0].lower()], path[1:])
    matches = context.scope.found(path)
    if len(path) == 1 and path[0].lower() in CURRENT and not parts[0].quoted and not context.scope.own(path):
        matches = []  # the function comes before a column of the query around
    if len(matches) > 1:
        cure = "write the name of the table before the column"
        context.text.refuse(node, f"the name {'.'.join(path)} can mean several columns", cure=cure)
    if not matches:
        return _fields(context, node, _alias(context, node, path), path[1:])
    column, used = matches[0]
    return _fields(context, node, column.typed, path[used:])


def numbered(context: Context, node: exp.Anonymous) -> Typed:
    """The column of the rows with this number, from 1."""
    columns, (number,) = context.scope.columns(), node.expressions
    if not (number.this.isdecimal() and 1 <= int(number.this) <= len(columns)):
        context.text.refuse(number, "there is no such column", expected=f"1 to {len(columns)}", cure="correct the number")
    return columns[int(number.this) - 1].typed


def _alias(context: Context, node: exp.Expression, path: list[str]) -> Typed:
    """The meaning of a name that no column has. Refuses an unknown name."""
    known = path[0].lower() in context.aliases
    if context.groups is not None and not (known and context.late) and context.groups.before.scope.found(path):
        what = f"the column {'.'.join(path)} is neither in GROUP BY nor in an aggregate function"
        cure = f"add it to GROUP BY, or write any_value({'.'.join(path)})"
        context.text.refuse(node, what, cure=cure)
    if known and context.aliases[path[0].lower()] is None:
        context.text.refuse(node, f"the name {path[0]} can mean several columns", cure="give each expression another name")
    if not known and path[0].lower() in CURRENT and len(path) == 1:
        return context.typed(exp.Anonymous(this=path[0]))
    if known and is_drawn(context.aliases[path[0].lower()].sql):
        context.text.refuse(node, f"{path[0]} is drawn each time it is used", cure="compute it in a subquery")
    if not known:
        names = context.scope.names()
        whole = {name.lower(): name for name in names}
        last = {name.rpartition(".")[2].lower(): name for name in reversed(names)}
        wanted = ".".join(path).lower()
        matches = difflib.get_close_matches
        near = [*map(whole.get, matches(wanted, whole, 1)), *map(last.get, matches(path[-1].lower(), last, 1))]
        shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        cure = f"did you mean {near[0]}?" if near else "text is written in 'quotes'"
        context.text.wrong(node, f"unknown column {'.'.join(path)}", expected=f"one of {shown}" if shown else "", cure=cure)
    return context.aliases[path[0].lower()]


def _fields(context: Context, node: exp.Expression, made: Typed, names: list[str]) -> Typed:
    for name in names:
        made = _field(context, node, made, name)
    return made


def _field(context: Context, node: exp.Expression, made: Typed, name: str) -> Typed:
    fields = {field.name.lower(): field for field in made.type} if pa.types.is_struct(made.type) else {}
    if name.lower() not in fields:
        expected = f"one of {', '.join(field.name for field in fields.values())}" if fields else "a STRUCT"
        near = difflib.get_close_matches(name.lower(), fields, 1)
        cure = f"did you mean {fields[near[0]].name}?" if near else "correct the name" if fields else "name a STRUCT"
        context.text.wrong(node, f"there is no field {name}", expected=expected, found=format_type(made.type), cure=cure)
    field = fields[name.lower()]
    return Typed(f"struct_extract({made.sql}, {text(field.name)})", field.type)


def _parts(node: exp.Expression) -> list[exp.Expression]:
    """The parts of a dotted name."""
    if isinstance(node, exp.Dot):
        return [*_parts(node.this), node.expression]
    return [node] if isinstance(node, exp.Identifier) else node.parts


def _is_name(node: exp.Expression) -> bool:
    """Whether a node is a dotted name, and not a value of which a field is read."""
    return isinstance(node, (exp.Column, exp.Identifier)) or (isinstance(node, exp.Dot) and _is_name(node.this))
