"""Functions that make a STRUCT."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted, literal_text
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import quoted

_NAMED = (exp.Alias, exp.Column, exp.Dot, exp.Identifier)


def _struct(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, *range(1, 1000))
    names = [argument.alias_or_name if isinstance(argument, _NAMED) else f"col{i}" for i, argument in enumerate(arguments, 1)]
    return _packed(names, typed)


def _named_struct(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) % 2 or not arguments:
        context.text.refuse(node, "named_struct takes pairs of a name and a value", cure="write named_struct('name', value, ...)")
    names = [literal_text(context, name, "the name of a field") for name in arguments[::2]]
    return _packed(names, [context.typed(value) for value in arguments[1::2]])


def _packed(names: list[str], typed: list[Typed]) -> Typed:
    packed = ", ".join(f"{quoted(name)} := {made.sql}" for name, made in zip(names, typed, strict=True))
    return Typed(
        f"struct_pack({packed})", pa.struct([pa.field(name, made.type) for name, made in zip(names, typed, strict=True)])
    )


def renamed(made: Typed, wanted: pa.DataType) -> Typed:
    """A STRUCT with the names of another one whose fields have the same types; other values as they are."""
    t = pa.types
    if not (t.is_struct(made.type) and t.is_struct(wanted)) or [f.type for f in made.type] != [f.type for f in wanted]:
        return made
    packed = ", ".join(f"{quoted(field.name)} := struct_extract_at(s, {place})" for place, field in enumerate(wanted, 1))
    return Typed(f"list_transform([{made.sql}], lambda s: CASE WHEN s IS NOT NULL THEN struct_pack({packed}) END)[1]", wanted)


FUNCTIONS: dict[str, Function] = {
    "struct": _struct,
    "named_struct": _named_struct,
}
