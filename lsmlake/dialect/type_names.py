"""Functions that Spark names after a type: `int(x)` is CAST(x AS INT)."""

from __future__ import annotations

from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted
from lsmlake.dialect.comparisons import within
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import CALLED_AS_CASTS


def _cast_to(kind: str) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        counted(context, node, arguments, 1)
        return context.typed(within(exp.cast(arguments[0], kind, dialect="spark"), node))

    return made


FUNCTIONS: dict[str, Function] = {name: _cast_to(name) for name in CALLED_AS_CASTS}
