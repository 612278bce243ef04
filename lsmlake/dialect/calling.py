"""Shared parts of the translations of functions: their form, and checks of the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    SMALLINT,
    STRING,
    TINYINT,
    array_of,
    common,
    is_dated,
    is_number,
)
from lsmlake.types.type_text import format_type

Arguments = list[exp.Expression]
Function = Callable[[Context, exp.Expression, Arguments], Typed]
"""Translates a call. Its parameters: the place in the text, the call (for errors), and the arguments of the call."""


def counted(context: Context, node: exp.Expression, arguments: Arguments, *counts: int) -> list[Typed]:
    """The translated arguments. Refuses a call with another number of arguments."""
    if len(arguments) not in counts:
        expected = " or ".join(map(str, counts)) if len(counts) < 4 else f"{counts[0]} or more"
        context.text.refuse(
            node, "the number of arguments does not fit", expected=expected, found=len(arguments), cure="pass as many arguments"
        )
    return [context.typed(argument) for argument in arguments]


def literal_text(context: Context, node: exp.Expression, what: str) -> str:
    """The text of a literal; other expressions are refused."""
    if not (isinstance(node, exp.RawString) or (isinstance(node, exp.Literal) and node.is_string)):
        context.text.refuse(node, f"{what} must be a literal", cure="write a literal")
    return node.this


def literal_options(context: Context, node: exp.Expression, *known: str) -> dict[str, str]:
    """The options of a call, which must be a literal MAP of texts, with their names in lower case. Refuses unknown options."""
    if not (isinstance(node, exp.Anonymous) and node.name.lower() == "map" and len(node.expressions) % 2 == 0):
        context.text.refuse(
            node, "the options must be a literal MAP", expected="map('name', 'value')", cure="write map('name', 'value')"
        )
    parts = [literal_text(context, one, "an option") for one in node.expressions]
    options = {name.lower(): value for name, value in zip(parts[::2], parts[1::2], strict=True)}
    if unknown := [name for name in options if name not in known]:
        context.text.refuse(
            node, f"the option {unknown[0]} is not supported", expected=f"one of {', '.join(known)}", cure="leave it out"
        )
    return options


def constant_text(context: Context, node: exp.Expression) -> str:
    """An argument as text. Refuses an argument that depends on the row, as Spark does."""
    if node.find(exp.Column, exp.Query) is not None:
        context.text.refuse(node, "this argument must be the same for all rows", cure="write a literal")
    return context.converted(node, context.typed(node), STRING)


def text_argument(context: Context, node: exp.Expression, strict: bool = False) -> str:
    """An argument as text. `strict`: it must be a STRING; else Spark makes text of numbers and the like."""
    made = context.typed(node)
    if (strict and made.type not in (STRING, NULL)) or pa.types.is_nested(made.type):
        context.text.refuse(node, "expected STRING", found=format_type(made.type), cure="write CAST(... AS STRING)")
    return context.converted(node, made, STRING)


def number_argument(context: Context, node: exp.Expression, made: Typed) -> Typed:
    """A translated argument that must be a number. Text becomes a DOUBLE, as in Spark."""
    if made.type in (NULL, STRING):
        return Typed(context.converted(node, made, DOUBLE), DOUBLE)
    if not is_number(made.type):
        context.text.refuse(node, "expected a number", found=format_type(made.type), cure="write CAST(... AS INT), or a number")
    return made


def array_argument(context: Context, node: exp.Expression, made: Typed) -> Typed:
    """A translated argument that must be an ARRAY."""
    if not pa.types.is_list(made.type):
        context.text.refuse(node, "expected an ARRAY", found=format_type(made.type), cure="pass an ARRAY")
    return made


def map_argument(context: Context, node: exp.Expression, made: Typed) -> Typed:
    """A translated argument that must be a MAP."""
    if not pa.types.is_map(made.type):
        context.text.refuse(node, "expected a MAP", found=format_type(made.type), cure="pass a MAP")
    return made


def map_key(context: Context, node: exp.Expression, key: Typed, kind: pa.DataType) -> str:
    """A value as a key of a map of the type `kind`. Refuses a value whose type does not fit that of the keys."""
    if tightest(kind.key_type, key.type) is None:
        context.text.refuse(
            node,
            "this is no key of the map",
            expected=format_type(kind.key_type),
            found=format_type(key.type),
            cure="cast it to the type of the keys",
        )
    return context.converted(node, key, kind.key_type, safe=pa.types.is_integer(key.type))


_WIDTHS = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE)


def tightest(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type in which an element of an ARRAY or a MAP is compared with a value, so that no digits are lost and text is no
    number; None if there is no such type."""
    if a in _WIDTHS and b in _WIDTHS:
        return max(a, b, key=_WIDTHS.index)
    if a == b or NULL in (a, b) or (is_dated(a) and is_dated(b)) or (pa.types.is_nested(a) and pa.types.is_nested(b)):
        return common(a, b)
    return None


def entries(kind: pa.DataType) -> pa.DataType:
    """The type of the array of entries of a map."""
    return array_of(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
