"""The functions of one row, by name: those with fixed types, and those whose result depends on the types of the arguments."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect import (
    arrays,
    buckets,
    encodings,
    interval_functions,
    json_reading,
    json_writing,
    lambdas,
    maps,
    nulls,
    numbers,
    patterns,
    reflection,
    strings,
    times,
    vectors,
)
from lsmlake.dialect.aggregates import AGGREGATES
from lsmlake.dialect.context import Context
from lsmlake.dialect.functions import FUNCTIONS, SqlFunction
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import BINARY, BOOLEAN, DATE, NULL, STRING, TIMESTAMP, is_dated, is_number
from lsmlake.types.type_text import format_type

_BY_TYPES = {
    **nulls.FUNCTIONS,
    **numbers.FUNCTIONS,
    **strings.FUNCTIONS,
    **json_reading.FUNCTIONS,
    **json_writing.FUNCTIONS,
    **patterns.FUNCTIONS,
    **encodings.FUNCTIONS,
    **maps.FUNCTIONS,
    **arrays.FUNCTIONS,
    **vectors.FUNCTIONS,
    **lambdas.FUNCTIONS,
    **times.FUNCTIONS,
    **interval_functions.FUNCTIONS,
    **buckets.FUNCTIONS,
    **reflection.FUNCTIONS,
}
"""Functions whose result depends on the types of the arguments."""


def is_known(name: str) -> bool:
    """Whether there is a function of one row of a name, in lower case."""
    return name in _BY_TYPES or name in FUNCTIONS


def near(name: str) -> str:
    """The beginning of a cure that names the function which an unknown one may mean; "" if there is none."""
    found = difflib.get_close_matches(name, [*FUNCTIONS, *_BY_TYPES, *AGGREGATES], 1)
    return f"did you mean {found[0]}? " if found else ""


def function(context: Context, node: exp.Expression, name: str, arguments: Sequence[exp.Expression]) -> Typed:
    """A function of one row. `name`: in lower case."""
    if any(isinstance(one, exp.Lambda) for one in arguments) and any(one.find(exp.Query) for one in arguments):
        context.text.refuse(node, f"{name} with a lambda takes no queries", cure="join the query in FROM")
    if name in _BY_TYPES:
        return _BY_TYPES[name](context, node, list(arguments))
    if not is_known(name):
        cure = f"{near(name)}attach Spark to use all its functions"
        context.text.refuse(node, f"the function {name} is not supported in process", cure=cure)
    typed = [context.typed(argument) for argument in arguments]
    costs = [(cost, place) for place, one in enumerate(FUNCTIONS[name]) if (cost := _cost(typed, one)) is not None]
    if costs:
        chosen = FUNCTIONS[name][min(costs)[1]]
        converted = [context.converted(*three) for three in zip(arguments, typed, chosen.takes, strict=True)]
        return Typed(f"({chosen.template.format(*converted)})", chosen.gives)
    takes = " or ".join(f"{name}({', '.join(map(format_type, function.takes))})" for function in FUNCTIONS[name])
    types = ", ".join(format_type(made.type) for made in typed) or "no arguments"
    context.text.refuse(
        node, f"the arguments of {name} do not fit", expected=takes, found=types, cure="cast the arguments, or attach Spark"
    )


def _cost(typed: Sequence[Typed], function: SqlFunction) -> int | None:
    """How many arguments Spark converts to call the function; None if it cannot."""
    if len(typed) != len(function.takes):
        return None
    pairs = [(made.type, wanted) for made, wanted in zip(typed, function.takes, strict=True)]
    if not all(_widens(*pair) if function.strict else _fits(*pair) for pair in pairs):
        return None
    return sum(kind not in (wanted, NULL) for kind, wanted in pairs)


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark converts an argument of a function from `kind` to `wanted`. Text of another form then raises an error."""
    t = pa.types
    if kind in (wanted, NULL):
        return True
    if is_number(wanted):
        return is_number(kind) or kind == STRING
    if wanted == STRING:
        return not t.is_nested(kind)
    if kind == STRING:
        return wanted in (BINARY, DATE, TIMESTAMP, BOOLEAN)
    return wanted in (DATE, TIMESTAMP) and is_dated(kind)


def _widens(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of the type `kind` is a value of `wanted`."""
    t = pa.types
    both = t.is_integer(kind) and t.is_integer(wanted)
    return kind in (wanted, NULL) or (both and kind.bit_width <= wanted.bit_width) or (is_dated(kind) and wanted == TIMESTAMP)
