"""Functions that draw a value: each evaluation gives another one. See `drawn`."""

from __future__ import annotations

from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function
from lsmlake.dialect.context import Context
from lsmlake.dialect.drawn import CHOOSES_NO_ROWS, CURE
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import DOUBLE, STRING

_NORMAL = "sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random())"


def _draw(made: Typed) -> Function:
    def drawn(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        name = node.name.lower()
        if not context.draws:
            context.text.refuse(node, f"{name} {CHOOSES_NO_ROWS}", cure=CURE)
        if arguments:
            cure = "leave the seed out, or attach Spark"
            context.text.refuse(node, f"{name} with a seed would give other values than Spark's", cure=cure)
        return made

    return drawn


FUNCTIONS: dict[str, Function] = {
    "rand": _draw(Typed("random()", DOUBLE)),
    "random": _draw(Typed("random()", DOUBLE)),
    "randn": _draw(Typed(f"({_NORMAL})", DOUBLE)),
    "uuid": _draw(Typed("CAST(gen_random_uuid() AS VARCHAR)", STRING)),
}
