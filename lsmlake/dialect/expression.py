"""Translates one expression of Spark SQL to DuckDB, with its type.

Every node is typed by Spark's rules (ANSI mode), and operands are cast to the types that Spark would convert them to. So DuckDB
never chooses a conversion itself. What has no equal translation is refused with its place in the text.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect import collections, polymorphic, times
from lsmlake.dialect.aggregates import AGGREGATES, RANKS, SHIFTS, aggregate, unit
from lsmlake.dialect.cast import cast
from lsmlake.dialect.functions import EXTRACTS, FUNCTIONS, INTERVALS, SECONDS, SECONDS_OF_A_DAY, Function
from lsmlake.dialect.literals import decimal_of, literal_number
from lsmlake.dialect.scope import Scope, Typed
from lsmlake.dialect.text import Text
from lsmlake.dialect.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TINYINT,
    arithmetic,
    common,
    duck_name,
    is_number,
    is_time,
    text,
)
from lsmlake.errors import InvalidSchema
from lsmlake.schema.ddl import type_of
from lsmlake.schema.type_text import format_type

_COMPARISONS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_BITS = {exp.BitwiseAnd: "({} & {})", exp.BitwiseOr: "({} | {})", exp.BitwiseXor: "xor({}, {})"}
_MIXED = (*_BITS, exp.DPipe)
_INT64_DIGITS = 18
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_BY_TYPE = {**polymorphic.FUNCTIONS, **collections.FUNCTIONS, **times.FUNCTIONS}
_NULLSAFE = {exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM"}

Subquery = Callable[[exp.Expression, Scope], tuple[str, list[pa.DataType]]]


@dataclass(frozen=True)
class Translator:
    """Translates expressions of one text.

    Attributes:
        text: The text, for errors.
        scope: The columns that the expression can name.
        subquery: Translates a query inside the expression. None: it is refused.
        aggregates: Whether aggregate functions are allowed here.
        windows: Whether window functions are allowed here.
        now: The time of the statement as a literal of DuckDB; None: current_timestamp is refused.
        aliases: Names that SELECT gives to expressions, in lower case; a column of that name comes first.
        named_windows: The windows of the clause WINDOW, by name in lower case.
        sets: The expressions of GROUP BY with several grouping sets.
    """

    text: Text
    scope: Scope
    subquery: Subquery | None = None
    aggregates: bool = False
    windows: bool = False
    now: str | None = None
    aliases: Mapping[str, Typed] = field(default_factory=dict)
    named_windows: Mapping[str, exp.Window] = field(default_factory=dict)
    sets: tuple[exp.Expression, ...] = ()

    @staticmethod
    def at(text: Text, scope: Scope, now: str | None, subquery: Subquery | None = None) -> Translator:
        """A translator for a statement at the time `now`, such as '2026-01-31 12:00:00+00:00'."""
        return Translator(text, scope, subquery, now=None if now is None else "'" + now.replace("'", "''") + "'")

    def typed(self, node: exp.Expression) -> Typed:
        """The translation of a node."""
        match node:
            case exp.Paren():
                self.text.only(node, "this")
                inner = self.typed(node.this)
                return inner._replace(sql=f"({inner.sql})")
            case exp.Alias():
                return self.typed(node.this)
            case exp.Column() | exp.Dot() | exp.Identifier():
                return self._column(node)
            case exp.And() | exp.Or():
                word = " AND " if isinstance(node, exp.And) else " OR "
                return Typed(f"({word.join(self._as(part, BOOLEAN) for part in node.flatten(unnest=False))})", BOOLEAN)
            case exp.Not():
                return Typed(f"(NOT {self._as(node.this, BOOLEAN)})", BOOLEAN)
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                return self._comparison(node, _COMPARISONS[type(node)])
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return self._comparison(node, _NULLSAFE[type(node)])
            case exp.Between():
                return self._between(node)
            case exp.In():
                return self._in(node)
            case exp.Is():
                return self._is(node)
            case exp.Like() | exp.ILike() | exp.Escape() | exp.RegexpLike():
                return polymorphic.like(self, node)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod() | exp.IntDiv():
                return self._arithmetic(node)
            case exp.Neg():
                return self._negated(node)
            case exp.DPipe():
                self._unmixed(node)
                return Typed(f"({self._as(node.this, STRING, True)} || {self._as(node.expression, STRING, True)})", STRING)
            case exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseXor() | exp.BitwiseNot():
                return self._bits(node)
            case exp.Case() | exp.If():
                return self._case(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Extract():
                return self._extract(node)
            case exp.Trim():
                return self._trim(node)
            case exp.Bracket():
                return self._element(node)
            case exp.Window():
                return self._window(node)
            case exp.Filter() | exp.Anonymous() | exp.WithinGroup() | exp.IgnoreNulls() | exp.RespectNulls():
                return self._call(node)
            case exp.Transform():
                return self._function(node, "transform", [node.this, node.expression])
            case exp.Exists() if isinstance(node.args.get("expression"), exp.Lambda):
                return self._function(node, "exists", [node.this, node.expression])
            case exp.Subquery() | exp.Exists():
                return self._subquery(node)
            case exp.CurrentDate() | exp.CurrentTimestamp():
                return self._now(node, isinstance(node, exp.CurrentDate))
        return self._literal(node)

    # -- names and literals -------------------------------------------------------------------------------------------

    def _column(self, node: exp.Expression) -> Typed:
        self.text.only(node, "this", "table", "db", "catalog", "expression", "quoted")
        if isinstance(node, exp.Dot) and not _is_name(node.this) and isinstance(node.expression, exp.Identifier):
            return self._field(node, self.typed(node.this), node.expression.name)
        parts = _parts(node)
        if not all(isinstance(part, exp.Identifier) for part in parts):
            self.text.refuse(node, "this is not supported here")
        path = [part.name for part in parts]
        found = self.scope.found(path)
        if len(found) > 1:
            cure = "write the name of the table before the column"
            self.text.refuse(node, f"the name {'.'.join(path)} can mean several columns", cure=cure)
        if not found and path[0].lower() in self.aliases:
            made = self.aliases[path[0].lower()]
            for name in path[1:]:
                made = self._field(node, made, name)
            return made
        if not found:
            names = self.scope.names()
            whole = {name.lower(): name for name in names}
            last = {name.rpartition(".")[2].lower(): name for name in reversed(names)}
            wanted = ".".join(path).lower()
            matches = difflib.get_close_matches
            near = [*map(whole.get, matches(wanted, whole, 1)), *map(last.get, matches(path[-1].lower(), last, 1))]
            shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
            cure = f"did you mean {near[0]}?" if near else "text is written in 'quotes'"
            self.text.refuse(node, f"unknown column {'.'.join(path)}", expected=f"one of {shown}" if shown else "", cure=cure)
        column, used = found[0]
        made = Typed(column.sql, column.type)
        for name in path[used:]:
            made = self._field(node, made, name)
        return made

    def _field(self, node: exp.Expression, made: Typed, name: str) -> Typed:
        fields = {field.name.lower(): field for field in made.type} if pa.types.is_struct(made.type) else {}
        if name.lower() not in fields:
            expected = f"one of {', '.join(field.name for field in fields.values())}" if fields else "a STRUCT"
            self.text.refuse(node, f"there is no field {name}", expected=expected, found=format_type(made.type))
        field = fields[name.lower()]
        return Typed(f"struct_extract({made.sql}, {text(field.name)})", field.type)

    def _literal(self, node: exp.Expression) -> Typed:
        match node:
            case exp.Null():
                return Typed("NULL", NULL)
            case exp.Boolean():
                return Typed("true" if node.this else "false", BOOLEAN)
            case exp.Literal() if not node.is_string:
                return literal_number(self.text, node, node.this)
            case exp.Literal() | exp.RawString():
                return Typed(text(node.this), STRING)
            case exp.Concat() if all(isinstance(part, exp.Literal) and part.is_string for part in node.expressions):
                return Typed(text("".join(part.this for part in node.expressions)), STRING)
            case exp.HexString():
                return Typed(f"unhex('{'0' * (len(node.this) % 2) + node.this}')", BINARY)
            case exp.Placeholder():
                self.text.refuse(node, "a parameter has no value", cure="pass its value in args")
            case exp.Interval():
                self.text.refuse(node, "an INTERVAL stands only after + or - of a date or a timestamp")
            case exp.Array():
                self.text.refuse(
                    node, "an index after a call is not supported", cure="put the call in parentheses, or use element_at"
                )
        self.text.refuse(node, "this is not supported")

    def _now(self, node: exp.Expression, date: bool) -> Typed:
        if self.now is None:
            self.text.refuse(node, "the current time is not supported here", cure="write the time as a literal")
        moment = f"CAST({self.now} AS TIMESTAMP WITH TIME ZONE)"
        return Typed(f"CAST({moment} AS DATE)", DATE) if date else Typed(moment, TIMESTAMP)

    # -- conversions --------------------------------------------------------------------------------------------------

    def _as(self, node: exp.Expression, wanted: pa.DataType, any_text: bool = False) -> str:
        """The node as an operand of exactly this type. `any_text`: Spark makes text of other types here."""
        made = self.typed(node)
        if wanted == STRING and any_text and made.type != STRING:
            converted = self.converted(node, made, STRING)
        elif made.type == wanted or made.type == NULL:
            converted = cast(made.sql, made.type, wanted)
        else:
            self.text.refuse(node, f"expected {format_type(wanted)}", found=format_type(made.type), cure=self._cure(wanted))
        return converted

    @staticmethod
    def _cure(wanted: pa.DataType) -> str:
        return "write a comparison" if wanted == BOOLEAN else f"write CAST(... AS {format_type(wanted)})"

    def converted(self, node: exp.Expression, made: Typed, wanted: pa.DataType, *, safe: bool = False) -> str:
        """An expression cast to another type; with `safe` null where Spark would raise an error. Refuses casts that are not
        supported."""
        literal = _date_literal(node) if made.type == STRING and wanted == DATE else None
        sql = literal or cast(made.sql, made.type, wanted, safe)
        if sql is None:
            what = f"a value of type {format_type(made.type)} cannot become {format_type(wanted)} here"
            double = pa.types.is_floating(made.type) and wanted == STRING
            cure = "cast it to DECIMAL first: Java and DuckDB write a DOUBLE differently" if double else "cast it otherwise"
            self.text.refuse(node, what, cure=cure)
        return sql

    def unified(self, nodes: Sequence[exp.Expression], typed: Sequence[Typed]) -> tuple[list[str], pa.DataType]:
        """Expressions cast to their common type. Refuses types that have none."""
        kind: pa.DataType | None = NULL
        for node, made in zip(nodes, typed, strict=True):
            kind, before = common(kind, made.type), kind
            if kind is None:
                found = f"{format_type(before)} and {format_type(made.type)}"
                self.text.refuse(node, "the types do not fit together", found=found, cure="cast one of them")
        return [self.converted(node, made, kind) for node, made in zip(nodes, typed, strict=True)], kind

    # -- operators ----------------------------------------------------------------------------------------------------

    def _comparison(self, node: exp.Expression, op: str) -> Typed:
        sides = [node.this, node.expression]
        if isinstance(sides[1], (exp.Any, exp.All)):
            self.text.refuse(node, "ANY and ALL are not supported", cure="write IN, or OR and AND")
        (left, right), kind = self.unified(sides, [self.typed(side) for side in sides])
        if pa.types.is_map(kind) or (pa.types.is_nested(kind) and op in ("<", "<=", ">", ">=")):
            self.text.refuse(node, f"values of type {format_type(kind)} cannot be compared so")
        return Typed(f"({left} {op} {right})", BOOLEAN)

    def _between(self, node: exp.Between) -> Typed:
        self.text.only(node, "this", "low", "high")
        low, high = node.args["low"], node.args["high"]
        parts = [
            self._comparison(exp.GTE(this=node.this, expression=low), ">="),
            self._comparison(exp.LTE(this=node.this, expression=high), "<="),
        ]
        return Typed(f"({parts[0].sql} AND {parts[1].sql})", BOOLEAN)

    def _in(self, node: exp.In) -> Typed:
        if query := node.args.get("query"):
            return self._in_query(node, query)
        self.text.only(node, "this", "expressions")
        nodes = [node.this, *node.expressions]
        (operand, *values), _ = self.unified(nodes, [self.typed(part) for part in nodes])
        return Typed(f"({operand} IN ({', '.join(values)}))", BOOLEAN)

    def _in_query(self, node: exp.In, query: exp.Expression) -> Typed:
        """Membership in a query, of a value or of several: `(a, b) IN (SELECT ...)`."""
        nodes = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        made = [self.typed(one) for one in nodes]
        sql, types = self._query(node, query)
        kinds = [common(one.type, kind) for one, kind in zip(made, types, strict=False)]
        if len(types) != len(made) or None in kinds:
            found = ", ".join(map(format_type, types))
            self.text.refuse(node, "the query of IN must give as many columns, of types that fit", found=found)
        names = [f"x{number}" for number in range(len(made))]
        left = [self.converted(node, one, kind) for one, kind in zip(made, kinds, strict=True)]
        inner = [self.converted(node, Typed(*three[:2]), three[2]) for three in zip(names, types, kinds, strict=True)]
        if len(made) == 1:
            return Typed(f"({left[0]} IN (SELECT {inner[0]} FROM ({sql}) AS q({names[0]})))", BOOLEAN)
        rows = f"SELECT row({', '.join(inner)}) FROM ({sql}) AS q({', '.join(names)})"
        return Typed(f"(row({', '.join(left)}) IN ({rows}))", BOOLEAN)

    def _is(self, node: exp.Is) -> Typed:
        self.text.only(node, "this", "expression")
        wanted = node.expression
        if isinstance(wanted, exp.Null):
            return Typed(f"({self.typed(node.this).sql} IS NULL)", BOOLEAN)
        if isinstance(wanted, exp.Boolean):
            word = "true" if wanted.this else "false"
            return Typed(f"({self._as(node.this, BOOLEAN)} IS NOT DISTINCT FROM {word})", BOOLEAN)
        self.text.refuse(node, "IS takes NULL, TRUE or FALSE")

    def _unmixed(self, node: exp.Expression) -> None:
        """Refuses operators whose precedence Spark and sqlglot may see differently."""
        for side in (node.this, node.expression):
            if isinstance(side, (*_ARITHMETIC, *_MIXED, exp.IntDiv)) and type(side) is not type(node):
                self.text.refuse(node, "put the operators || & | ^ and their operands in parentheses")

    def _arithmetic(self, node: exp.Expression) -> Typed:
        for side in (node.this, node.expression):
            if isinstance(side, _MIXED):
                self.text.refuse(node, "put the operators || & | ^ and their operands in parentheses")
        if isinstance(node.expression, exp.Interval) and isinstance(node, (exp.Add, exp.Sub)):
            return self._shifted(node, node.this, node.expression)
        if isinstance(node.this, exp.Interval) and isinstance(node, exp.Add):
            return self._shifted(node, node.expression, node.this)
        left, right = self.typed(node.this), self.typed(node.expression)
        if pa.types.is_date(left.type) and isinstance(node, (exp.Add, exp.Sub)):
            if pa.types.is_integer(right.type) and right.type != BIGINT:
                return Typed(f"({left.sql} {_ARITHMETIC[type(node)]} CAST({right.sql} AS INTEGER))", DATE)
            self.text.refuse(node, "this arithmetic on dates is not supported", cure="use date_add, date_sub or datediff")
        if pa.types.is_string(left.type) and is_number(right.type):
            left = self._number_of(node.this, left, right.type)
        elif pa.types.is_string(right.type) and is_number(left.type):
            right = self._number_of(node.expression, right, left.type)
        left = left._replace(type=right.type, sql=f"CAST(NULL AS {duck_name(right.type)})") if left.type == NULL else left
        right = right._replace(type=left.type, sql=f"CAST(NULL AS {duck_name(left.type)})") if right.type == NULL else right
        if not (is_number(left.type) and is_number(right.type)):
            found = f"{format_type(left.type)} and {format_type(right.type)}"
            self.text.refuse(node, "arithmetic needs numbers", found=found)
        return self._integer_division(left, right) if isinstance(node, exp.IntDiv) else self._computed(node, left, right)

    def _number_of(self, node: exp.Expression, made: Typed, other: pa.DataType) -> Typed:
        kind = BIGINT if pa.types.is_integer(other) else DOUBLE
        return Typed(self.converted(node, made, kind), kind)

    def _integer_division(self, left: Typed, right: Typed) -> Typed:
        if not (pa.types.is_integer(left.type) and pa.types.is_integer(right.type)):
            sides = [cast(side.sql, side.type, DOUBLE) for side in (left, right)]
            return Typed(f"CAST(trunc(spark_divide({sides[0]}, {sides[1]})) AS BIGINT)", BIGINT)
        return Typed(f"spark_div(CAST({left.sql} AS BIGINT), CAST({right.sql} AS BIGINT))", BIGINT)

    def _computed(self, node: exp.Expression, left: Typed, right: Typed) -> Typed:
        op, t = _ARITHMETIC[type(node)], pa.types
        if (t.is_decimal(left.type) or t.is_decimal(right.type)) and not (t.is_floating(left.type) or t.is_floating(right.type)):
            return self._decimals(node, op, decimal_of(left), decimal_of(right))
        kind = DOUBLE if op == "/" else common(left.type, right.type)
        a, b = (cast(side.sql, side.type, kind) for side in (left, right))
        if op in "/%":
            return Typed(f"spark_{'divide' if op == '/' else 'mod'}({a}, {b})", kind)
        return Typed(f"CAST({a} {op} {b} AS {duck_name(kind)})", kind)

    def _decimals(self, node: exp.Expression, op: str, left: Typed, right: Typed) -> Typed:
        kind = arithmetic(op, left.type, right.type)
        if kind is None:
            found = f"{format_type(left.type)} {op} {format_type(right.type)}"
            what = "the exact result of this arithmetic may have more than 38 digits"
            self.text.refuse(node, what, found=found, cure="cast an operand to a DECIMAL with fewer digits, or to DOUBLE")
        if op == "/":
            return self._decimal_quotient(left, right, kind, _may_be_zero(node.expression))
        if op == "%":
            return Typed(f"CAST(spark_mod({left.sql}, {right.sql}) AS {duck_name(kind)})", kind)
        if op in "+-":
            digits = kind.precision if kind.precision <= _INT64_DIGITS else 38
            left, right = (side._replace(sql=f"CAST({side.sql} AS DECIMAL({digits},{kind.scale}))") for side in (left, right))
        elif left.type.precision + right.type.precision > _INT64_DIGITS:  # DuckDB would compute 64 bits and raise an error
            digits = max(left.type.precision, _INT64_DIGITS + 1)
            digits = digits if digits + right.type.precision <= 38 else 38
            left = left._replace(sql=f"CAST({left.sql} AS DECIMAL({digits},{left.type.scale}))")
        return Typed(f"CAST({left.sql} {op} {right.sql} AS {duck_name(kind)})", kind)

    @staticmethod
    def _decimal_quotient(left: Typed, right: Typed, kind: pa.DataType, checked: bool) -> Typed:
        """`checked`: the divisor may be 0."""

        def unscaled(side: Typed) -> str:
            return f"CAST(replace(CAST(CAST({side.sql} AS {duck_name(side.type)}) AS VARCHAR), '.', '') AS HUGEINT)"

        zeros = kind.scale + right.type.scale - left.type.scale
        numerator = f"{unscaled(left)} * CAST('1{'0' * zeros}' AS HUGEINT)"
        quotient = f"spark_{'' if checked else 'whole_'}quotient({numerator}, {unscaled(right)})"
        return Typed(f"CAST(CAST({quotient} AS DECIMAL(38,0)) * {unit(kind.scale)} AS {duck_name(kind)})", kind)

    def _shifted(self, node: exp.Expression, operand: exp.Expression, interval: exp.Interval) -> Typed:
        """A date or timestamp and an interval."""
        made, unit_node, amount = self.typed(operand), interval.args.get("unit"), interval.this
        name = unit_node.name.upper().removesuffix("S") if isinstance(unit_node, exp.Var) else ""
        if name not in INTERVALS or not isinstance(amount, (exp.Literal, exp.Neg)) or not is_time(made.type):
            expected = f"a date or timestamp, and INTERVAL number {'|'.join(INTERVALS)}"
            self.text.refuse(node, "this arithmetic is not supported", expected=expected)
        number = amount.sql("spark").strip("'").replace("'", "")
        if not number.lstrip("+-").isdecimal():
            self.text.refuse(interval, "the number of an INTERVAL must be an integer")
        kind = made.type
        if pa.types.is_date(kind) and INTERVALS[name] == "time":
            made, kind = Typed(cast(made.sql, kind, TIMESTAMP), TIMESTAMP), TIMESTAMP
        signed = int(number) if isinstance(node, exp.Add) else -int(number)
        step = f"to_{name.lower()}s(CAST({signed} AS INTEGER))"
        if name in SECONDS:  # whole days of it are days of the calendar, which may have 23 or 25 hours
            days, seconds = divmod(abs(signed) * SECONDS[name], SECONDS_OF_A_DAY)
            sign = "-" if signed < 0 else ""
            step = f"to_days({sign}{days}) + to_seconds({sign}{seconds})"
        return Typed(f"CAST({made.sql} + {step} AS {duck_name(kind)})", kind)

    def _negated(self, node: exp.Neg) -> Typed:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return literal_number(self.text, node, f"-{node.this.this}")
        if isinstance(node.this, exp.Cast) and isinstance(node.this.this, exp.Literal) and not node.this.this.is_string:
            signed = exp.Neg(this=node.this.this)  # -128Y: 128 is no TINYINT
            return self.typed(exp.Cast(this=signed, to=node.this.args["to"]))
        made = self.typed(node.this)
        if not is_number(made.type):
            self.text.refuse(node, "only a number has a sign", found=format_type(made.type))
        return Typed(f"CAST(-({made.sql}) AS {duck_name(made.type)})", made.type)

    def _bits(self, node: exp.Expression) -> Typed:
        if not isinstance(node, exp.BitwiseNot):
            self._unmixed(node)
        sides = [side for side in (node.this, node.args.get("expression")) if side is not None]
        typed = [self.typed(side) for side in sides]
        if not all(pa.types.is_integer(made.type) for made in typed):
            self.text.refuse(node, "bitwise operators need integers")
        sqls, kind = self.unified(sides, typed)
        return Typed(f"(~{sqls[0]})" if isinstance(node, exp.BitwiseNot) else _BITS[type(node)].format(*sqls), kind)

    def _case(self, node: exp.Case | exp.If) -> Typed:
        branches = [node] if isinstance(node, exp.If) else node.args["ifs"]
        default = node.args.get("false" if isinstance(node, exp.If) else "default") or exp.Null()
        operand = node.this if isinstance(node, exp.Case) else None
        conditions = [
            self._comparison(exp.EQ(this=operand, expression=branch.this), "=").sql if operand else self._as(branch.this, BOOLEAN)
            for branch in branches
        ]
        results = [*(branch.args["true"] for branch in branches), default]
        sqls, kind = self.unified(results, [self.typed(result) for result in results])
        whens = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(conditions, sqls[:-1], strict=True))
        return Typed(f"CASE {whens} ELSE {sqls[-1]} END", kind)

    def _cast(self, node: exp.Cast) -> Typed:
        try:
            kind = type_of(node.to)
        except InvalidSchema as error:
            self.text.refuse(node, "unknown type", expected=error.expected, found=node.to.sql("spark"), cure=error.cure)
        made, safe = self.typed(node.this), bool(node.args.get("safe"))
        sql = self.converted(node, made, kind, safe=safe)
        constant = made.constant if pa.types.is_integer(kind) else None
        return Typed(sql, kind, None if safe else constant)

    # -- calls --------------------------------------------------------------------------------------------------------

    def _extract(self, node: exp.Extract) -> Typed:
        field = node.this.name.upper()
        if field not in EXTRACTS:
            self.text.refuse(node, "this field is not supported", expected=f"one of {', '.join(EXTRACTS)}", found=field)
        return self._function(node, EXTRACTS[field], [node.expression])

    def _trim(self, node: exp.Trim) -> Typed:
        self.text.only(node, "this", "expression", "position")
        call = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
        characters = node.args.get("expression")
        what = self._as(characters, STRING) if characters is not None else "' '"
        return Typed(f"{call}({self._as(node.this, STRING)}, {what})", STRING)

    def _element(self, node: exp.Bracket) -> Typed:
        made = self.typed(node.this)
        if pa.types.is_list(made.type) and len(node.expressions) == 1:
            index = self.typed(node.expressions[0])
            if pa.types.is_integer(index.type):
                return Typed(f"spark_element({made.sql}, {index.sql})", made.type.value_type)
        if pa.types.is_map(made.type) and len(node.expressions) == 1:
            key = self.converted(node, self.typed(node.expressions[0]), made.type.key_type)
            return Typed(f"{made.sql}[{key}]", made.type.item_type)
        self.text.refuse(node, "only an ARRAY with an integer, or a MAP with a key, has elements", found=format_type(made.type))

    def _subquery(self, node: exp.Subquery | exp.Exists) -> Typed:
        sql, types = self._query(node, node.this)
        if isinstance(node, exp.Exists):
            return Typed(f"EXISTS ({sql})", BOOLEAN)
        if len(types) != 1:
            self.text.refuse(node, "a query used as a value must give one column", found=f"{len(types)} columns")
        return Typed(f"({sql})", types[0])

    def _query(self, node: exp.Expression, query: exp.Expression) -> tuple[str, list[pa.DataType]]:
        if self.subquery is None:
            self.text.refuse(
                node, "a query is not supported here", cure="join it: in a MERGE, make it part of the source after USING"
            )
        return self.subquery(query.this if isinstance(query, exp.Subquery) else query, self.scope)

    def _window(self, node: exp.Window) -> Typed:
        self.text.only(node, "this", "partition_by", "order", "spec", "over", "alias")
        if not self.windows:
            self.text.refuse(node, "a window function is not allowed here", cure="compute it in a subquery")
        call = node.this
        if name := node.args.get("alias"):
            if any(node.args.get(one) for one in ("partition_by", "order", "spec")):
                self.text.refuse(node, "a named window stands alone after OVER", cure="write the whole window")
            if name.name.lower() not in self.named_windows:
                self.text.refuse(
                    node, f"there is no window {name.name}", cure=f"write WINDOW {name.name} AS (...) after the query"
                )
            node = self.named_windows[name.name.lower()]
        inner = replace(self, windows=False)
        parts = []
        if partition := node.args.get("partition_by"):
            parts.append("PARTITION BY " + ", ".join(inner.typed(part).sql for part in partition))
        if order := node.args.get("order"):
            parts.append("ORDER BY " + ", ".join(inner.ordered(item) for item in order.expressions))
        if spec := node.args.get("spec"):
            parts.append(self._frame(node, spec))
        over = f" OVER ({' '.join(parts)})"
        return inner._call(call, over)

    def _frame(self, node: exp.Expression, spec: exp.WindowSpec) -> str:
        def bound(value: object, side: str | None) -> str:
            if isinstance(value, str):
                return f"{value} {side or ''}".strip()
            if not (isinstance(value, exp.Literal) and not value.is_string):
                self.text.refuse(node, "a window frame takes numbers, UNBOUNDED and CURRENT ROW")
            return f"{int(value.this)} {side}"

        start = bound(spec.args.get("start"), spec.args.get("start_side"))
        end = bound(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"))
        return f"{spec.args.get('kind', 'ROWS')} BETWEEN {start} AND {end}"

    def ordered(self, item: exp.Expression, sql: str | None = None) -> str:
        """An item of ORDER BY, with the place of nulls: first if ascending, as in Spark."""
        if not isinstance(item, exp.Ordered):
            item = exp.Ordered(this=item, nulls_first=True)
        made = sql or self.typed(item.this).sql
        descending, first = bool(item.args.get("desc")), bool(item.args.get("nulls_first"))
        return f"{made} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"

    def _call(self, node: exp.Expression, over: str = "") -> Typed:
        condition, ignores, order = "", False, None
        while isinstance(node, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
            if isinstance(node, exp.Filter):
                condition = Translator.without(self)._as(node.expression.this, BOOLEAN)
            elif isinstance(node, exp.WithinGroup):
                order = node.expression
            ignores = ignores or isinstance(node, exp.IgnoreNulls)
            node = node.this
        if not isinstance(node, exp.Anonymous):
            self.text.refuse(node, "this is not a function that lsmlake knows")
        name = node.name.lower()
        if name in ("grouping", "grouping_id"):
            return self._grouping(node, name)
        if name in AGGREGATES and (self.aggregates or over):
            return self._aggregate(node, name, condition, over, ignores, order)
        if over and not condition:
            return self._window_function(node, name, over, ignores)
        if name in AGGREGATES:
            self.text.refuse(node, "an aggregate function is not allowed here", cure="compute it in a subquery")
        if condition or ignores or over or order:
            self.text.refuse(node, "only an aggregate function takes this")
        return self._function(node, name, node.expressions)

    def _grouping(self, node: exp.Anonymous, name: str) -> Typed:
        if not self.sets:
            self.text.refuse(node, f"{name} needs GROUPING SETS, ROLLUP or CUBE")
        nodes = node.expressions or self.sets
        if name == "grouping" and len(node.expressions) != 1:
            self.text.refuse(node, "grouping takes one column")
        if name == "grouping_id" and [one.sql() for one in nodes] != [one.sql() for one in self.sets]:
            self.text.refuse(node, "grouping_id takes all columns of GROUP BY in their order, or none")
        kind = TINYINT if name == "grouping" else BIGINT
        return Typed(f"CAST(grouping_id({', '.join(self.without().typed(one).sql for one in nodes)}) AS {duck_name(kind)})", kind)

    def inside(self, scope: Scope) -> Translator:
        """A translator for the body of a lambda."""
        return replace(self, scope=scope, subquery=None, aggregates=False, windows=False)

    def without(self) -> Translator:
        """A translator that refuses aggregates and windows."""
        return replace(self, aggregates=False, windows=False)

    def _aggregate(
        self, node: exp.Anonymous, name: str, condition: str, over: str, ignores: bool, order: exp.Order | None
    ) -> Typed:
        arguments, distinct = list(node.expressions), False
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            arguments, distinct = list(arguments[0].expressions), True
        inner = replace(self, aggregates=bool(over) and self.aggregates, windows=False)
        if name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
            return Typed(f"count(*){_filter(condition)}{over}", BIGINT)
        if name in _ENDS and len(arguments) == 2 and isinstance(arguments[1], exp.Boolean):
            ignores = ignores or bool(arguments.pop().this)
        sorting = "" if order is None else self._within(node, name, order, arguments, inner)
        typed = [(made.sql, made.type) for made in map(inner.typed, arguments)]
        if ignores and name not in _ENDS:
            self.text.refuse(node, "IGNORE NULLS is not supported here", cure="use FILTER (WHERE ... IS NOT NULL)")
        if ignores and not over:
            condition = " AND ".join([*([f"({condition})"] if condition else []), f"({typed[0][0]}) IS NOT NULL"])
        nulls = " IGNORE NULLS" if ignores and over else ""

        def wrapped(call: str) -> str:
            if over and name in _ENDS:
                call = f"{'last_value' if name.startswith('last') else 'first_value'}({call.partition('(')[2][:-1]}{nulls})"
            return f"{call[:-1]}{sorting})" + _filter(condition) + over

        found = aggregate(name, typed, distinct, wrapped)
        if found is None:
            kinds = ", ".join(format_type(kind) for _, kind in typed)
            self.text.refuse(node, f"{name} is not supported for these arguments", found=kinds or "none")
        return Typed(*found)

    def _within(
        self, node: exp.Anonymous, name: str, order: exp.Order, arguments: list[exp.Expression], inner: Translator
    ) -> str:
        """WITHIN GROUP (ORDER BY ...): the value of a percentile, which joins `arguments`, or the order of a list as SQL."""
        items = order.expressions
        if name in ("listagg", "string_agg"):
            return f" ORDER BY {', '.join(map(inner.ordered, items))}"
        if name not in ("percentile_cont", "percentile_disc") or len(items) != 1 or items[0].args.get("desc"):
            self.text.refuse(node, "this WITHIN GROUP is not supported", expected="percentile_cont, percentile_disc or listagg")
        arguments.insert(0, items[0].this)
        return ""

    def _window_function(self, node: exp.Anonymous, name: str, over: str, ignores: bool) -> Typed:
        inner, arguments = self.without(), node.expressions
        if name in RANKS and not arguments:
            return Typed(f"CAST({name}(){over} AS {duck_name(RANKS[name])})", RANKS[name])
        if name == "ntile" and len(arguments) == 1:
            return Typed(f"CAST(ntile({inner._as(arguments[0], INT)}){over} AS INTEGER)", INT)
        nulls = " IGNORE NULLS" if ignores else ""
        if name == "nth_value" and len(arguments) == 2:
            made = inner.typed(arguments[0])
            return Typed(f"nth_value({made.sql}, {inner._as(arguments[1], INT)}{nulls}){over}", made.type)
        if name in SHIFTS and 1 <= len(arguments) <= 3:
            made = inner.typed(arguments[0])
            offset = inner._as(arguments[1], INT) if len(arguments) > 1 else "1"
            if len(arguments) < 3:
                return Typed(f"{name}({made.sql}, {offset}{nulls}){over}", made.type)
            default = inner.converted(arguments[2], inner.typed(arguments[2]), made.type)
            return Typed(f"{name}({made.sql}, {offset}, {default}{nulls}){over}", made.type)
        self.text.refuse(node, f"{name} is not a window function that lsmlake knows in process", cure="attach Spark")

    def _function(self, node: exp.Expression, name: str, arguments: Sequence[exp.Expression]) -> Typed:
        if name in _BY_TYPE:
            return _BY_TYPE[name](self, node, list(arguments))
        if name in ("current_date", "curdate", "current_timestamp", "now") and not arguments:
            return self._now(node, name in ("current_date", "curdate"))
        if name not in FUNCTIONS:
            known = [*FUNCTIONS, *_BY_TYPE, *AGGREGATES]
            near = difflib.get_close_matches(name, known, 1)
            cure = f"did you mean {near[0]}? " if near else ""
            self.text.refuse(
                node, f"the function {name} is not supported in process", cure=f"{cure}attach Spark to use all its functions"
            )
        typed = [self.typed(argument) for argument in arguments]
        for function in FUNCTIONS[name]:
            converted = self._arguments(arguments, typed, function)
            if converted is not None:
                return Typed(f"({function.template.format(*converted)})", function.gives)
        takes = " or ".join(f"{name}({', '.join(map(format_type, function.takes))})" for function in FUNCTIONS[name])
        found = ", ".join(format_type(made.type) for made in typed) or "no arguments"
        self.text.refuse(node, f"the arguments of {name} do not fit", expected=takes, found=found)

    def _arguments(self, nodes: Sequence[exp.Expression], typed: Sequence[Typed], function: Function) -> list[str] | None:
        if len(typed) != len(function.takes):
            return None
        fits = all(_widens(made.type, wanted) for made, wanted in zip(typed, function.takes, strict=True))
        if not fits:
            return None
        return [self.converted(*three) for three in zip(nodes, typed, function.takes, strict=True)]


def _date_literal(node: exp.Expression) -> str | None:
    """A literal like '1994-01-01', or a cast of it, as a constant DATE; None for other text. DuckDB does not prune row groups by
    a conversion that may raise an error()."""
    literal = node.this if isinstance(node, exp.Cast) else node
    if not (isinstance(literal, exp.Literal) and literal.is_string and _ISO_DATE.fullmatch(literal.this)):
        return None
    try:
        return f"CAST('{dt.date.fromisoformat(literal.this)}' AS DATE)"
    except ValueError:
        return None


def _may_be_zero(node: exp.Expression) -> bool:
    """Whether a divisor may be 0. Only a literal other than 0 cannot be."""
    return not (isinstance(node, exp.Literal) and not node.is_string and any(digit in "123456789" for digit in node.this))


def _parts(node: exp.Expression) -> list[exp.Expression]:
    """The parts of a dotted name."""
    if isinstance(node, exp.Dot):
        return [*_parts(node.this), node.expression]
    return [node] if isinstance(node, exp.Identifier) else node.parts


_ENDS = ("first", "first_value", "last", "last_value", "any_value")


def _filter(condition: str) -> str:
    return f" FILTER (WHERE {condition})" if condition else ""


def _is_name(node: exp.Expression) -> bool:
    """Whether a node is a dotted name, and not a value of which a field is read."""
    return isinstance(node, (exp.Column, exp.Identifier)) or (isinstance(node, exp.Dot) and _is_name(node.this))


def _widens(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark converts an argument of a function from `found` to `wanted`. Text that is not a time then raises an error."""
    t = pa.types
    if found in (wanted, NULL):
        return True
    if wanted == DOUBLE:
        return is_number(found)
    if t.is_integer(wanted):
        return t.is_integer(found) and found.bit_width <= wanted.bit_width
    if found == STRING:
        return wanted in (BINARY, DATE, TIMESTAMP)
    return wanted in (DATE, TIMESTAMP) and is_time(found)
