"""Functions that Spark names after a type: `int(x)` is CAST(x AS INT)."""

from __future__ import annotations

from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed

_TYPE_NAMES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "decimal", "float", "double", "string", "binary", "date", "timestamp",
)  # fmt: skip


def _cast_to(kind: str) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        counted(context, node, arguments, 1)
        return context.typed(exp.cast(arguments[0], kind, dialect="spark"))

    return made


FUNCTIONS: dict[str, Function] = {name: _cast_to(name) for name in _TYPE_NAMES}
