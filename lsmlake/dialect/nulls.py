"""Functions that choose between values by a condition, most often by whether one is null."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted
from lsmlake.dialect.casts import cast
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import BOOLEAN, NULL
from lsmlake.types.intervals import is_calendar
from lsmlake.types.type_text import format_type


def _coalesce(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, *range(1, 100))
    sqls, kind = context.unified(arguments, typed)
    return Typed(f"coalesce({', '.join(sqls)})", kind)


def _nullif(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 2)
    (left, right), kind = context.unified(arguments, typed)
    if is_calendar(kind):
        context.text.refuse(
            node, f"values of type {format_type(kind)} cannot be compared so", cure="compare fields or elements of them"
        )
    return Typed(f"CASE WHEN {left} = {right} THEN NULL ELSE {typed[0].sql} END", typed[0].type)


def _nvl2(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 3)
    (some, none), kind = context.unified(arguments[1:], typed[1:])
    return Typed(f"CASE WHEN {typed[0].sql} IS NOT NULL THEN {some} ELSE {none} END", kind)


def _null_test(word: str) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        return Typed(f"({counted(context, node, arguments, 1)[0].sql} IS {word})", BOOLEAN)

    return made


def _if(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    condition, *_ = counted(context, node, arguments, 3)
    if condition.type not in (BOOLEAN, NULL):
        context.text.refuse(
            arguments[0],
            "this is not a condition",
            expected="BOOLEAN",
            found=format_type(condition.type),
            cure="write a comparison",
        )
    (yes, no), kind = context.unified(arguments[1:], [context.typed(one) for one in arguments[1:]])
    return Typed(f"CASE WHEN {cast(condition.sql, condition.type, BOOLEAN)} THEN {yes} ELSE {no} END", kind)


def _or_zero(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 1)
    return _coalesce(context, node, [arguments[0], exp.Literal.number(0)])


def _null_if_zero(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 1)
    return _nullif(context, node, [arguments[0], exp.Literal.number(0)])


def _equal_null(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    return context.typed(exp.NullSafeEQ(this=arguments[0], expression=arguments[1]))


def _extreme(call: str) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        typed = counted(context, node, arguments, *range(2, 100))
        sqls, kind = context.unified(arguments, typed)
        if pa.types.is_nested(kind) or is_calendar(kind):
            context.text.refuse(node, f"{call} is not supported for {format_type(kind)}", cure="cast the value, or attach Spark")
        return Typed(f"{call}({', '.join(sqls)})", kind)

    return made


FUNCTIONS: dict[str, Function] = {
    "coalesce": _coalesce,
    "ifnull": _coalesce,
    "nvl": _coalesce,
    "nvl2": _nvl2,
    "nullif": _nullif,
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "isnull": _null_test("NULL"),
    "isnotnull": _null_test("NOT NULL"),
    "if": _if,
    "iff": _if,
    "zeroifnull": _or_zero,
    "nullifzero": _null_if_zero,
    "equal_null": _equal_null,
}
