"""Functions about types and the query rather than values: casts that Spark names after a type, such as `int(x)` for CAST(x AS
INT); the type of an expression; assertions; values that are drawn.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted
from lsmlake.dialect.comparisons import within
from lsmlake.dialect.context import CHOOSES_NO_ROWS, COMPUTED_FIRST, Context
from lsmlake.dialect.failures import refused
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import BOOLEAN, CALLED_AS_CASTS, DOUBLE, NULL, STRING, text
from lsmlake.types.spelling import spelled
from lsmlake.types.type_table import column_type
from lsmlake.types.type_text import format_type


def _cast_to(kind: str) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        counted(context, node, arguments, 1)
        return context.typed(within(exp.cast(arguments[0], kind, dialect="spark"), node))

    return made


def _type_name(kind: pa.DataType) -> str:
    """As Spark's `typeof` writes it: in lower case without spaces, but for the names of fields."""
    t = pa.types
    if t.is_null(kind):
        return "void"
    if t.is_list(kind):
        return f"array<{_type_name(kind.value_type)}>"
    if t.is_map(kind):
        return f"map<{_type_name(kind.key_type)},{_type_name(kind.item_type)}>"
    if t.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{_type_name(field.type)}' for field in kind)}>"
    row = column_type(kind)
    return (format_type(kind) if row is None or row.digits is None else f"{row.name}({row.digits})").lower()


def _typeof(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    (made,) = counted(context, node, arguments, 1)
    return Typed(text(_type_name(made.type)), STRING)


def _assert_true(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made, *message = counted(context, node, arguments, 1, 2)
    condition = context.converted(arguments[0], made, BOOLEAN)
    shown = context.converted(arguments[1], message[0], STRING) if message else text(f"'{spelled(arguments[0])}' is not true!")
    failed = refused(f"coalesce({shown}, '') || '; correct the values'")
    return Typed(f"CASE WHEN {condition} THEN CAST(NULL AS INTEGER) ELSE {failed} END", NULL)


_NORMAL = "sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random())"


def _draw(made: Typed) -> Function:
    def drawn(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        name = node.name.lower()
        if not context.draws:
            context.text.refuse(node, f"{name} {CHOOSES_NO_ROWS}", cure=COMPUTED_FIRST)
        if arguments:
            cure = "leave the seed out, or attach Spark"
            context.text.refuse(node, f"{name} with a seed would give other values than Spark's", cure=cure)
        return made

    return drawn


FUNCTIONS: dict[str, Function] = {
    **{name: _cast_to(name) for name in CALLED_AS_CASTS},
    "assert_true": _assert_true,
    "typeof": _typeof,
    "rand": _draw(Typed("random()", DOUBLE)),
    "random": _draw(Typed("random()", DOUBLE)),
    "randn": _draw(Typed(f"({_NORMAL})", DOUBLE)),
    "uuid": _draw(Typed("CAST(gen_random_uuid() AS VARCHAR)", STRING)),
}
