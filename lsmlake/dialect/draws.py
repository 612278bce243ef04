"""Functions that draw a value: each evaluation gives another one. Statements that change rows cannot use them."""

from __future__ import annotations

from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import DOUBLE, STRING

_CALLS = ("random()", "gen_random_uuid()")
_NORMAL = "sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random())"


def is_drawn(sql: str) -> bool:
    """Whether an expression draws a value, so that it must not stand twice for one value of the text."""
    return any(call in sql for call in _CALLS)


def _draw(made: Typed) -> Function:
    def drawn(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        if not context.draws:
            what = f"{node.name.lower()} gives another value each time, which a statement that changes rows cannot use"
            context.text.refuse(node, what, cure="compute it in the program, and pass it in args")
        if arguments:
            cure = "leave the seed out, or attach Spark"
            context.text.refuse(node, f"{node.name.lower()} with a seed would give other values than Spark's", cure=cure)
        return made

    return drawn


FUNCTIONS: dict[str, Function] = {
    "rand": _draw(Typed("random()", DOUBLE)),
    "random": _draw(Typed("random()", DOUBLE)),
    "randn": _draw(Typed(f"({_NORMAL})", DOUBLE)),
    "uuid": _draw(Typed("CAST(gen_random_uuid() AS VARCHAR)", STRING)),
}
