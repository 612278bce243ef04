"""Functions that join, search and hash text."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, constant_text, counted, text_argument
from lsmlake.dialect.context import Context
from lsmlake.dialect.failures import refused
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import BINARY, INT, NULL, STRING, array_of


def _concat(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, *range(1, 100))
    if any(pa.types.is_list(made.type) for made in typed):
        if NULL in [made.type for made in typed]:
            context.text.refuse(node, "an ARRAY cannot be joined with NULL", cure="cast NULL to the type of the ARRAY")
        sqls, kind = context.unified(arguments, typed)
        given = " AND ".join(f"({sql}) IS NOT NULL" for sql in sqls)
        return Typed(f"CASE WHEN {given} THEN {' || '.join(f'({sql})' for sql in sqls)} END", kind)
    kind = BINARY if {made.type for made in typed} == {BINARY} else STRING
    parts = [context.converted(node, made, kind) for node, made in zip(arguments, typed, strict=True)]
    return Typed(f"({' || '.join(parts)})", kind)


def _concat_ws(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """The texts that are not null, and the elements of arrays of text, with a separator between them."""
    by, *typed = counted(context, node, arguments, *range(1, 100))
    separator = context.converted(arguments[0], by, STRING)
    several = any(pa.types.is_list(made.type) for made in typed)
    parts = []
    for one, made in zip(arguments[1:], typed, strict=True):
        if pa.types.is_list(made.type):
            parts.append(f"coalesce({context.converted(one, made, array_of(STRING))}, [])")
        else:
            part = context.converted(one, made, STRING)
            parts.append(f"[{part}]" if several else part)
    if several:
        kept = f"list_filter(flatten([{', '.join(parts)}]), lambda e: e IS NOT NULL)"
        return Typed(f"CASE WHEN {separator} IS NOT NULL THEN coalesce(array_to_string({kept}, {separator}), '') END", STRING)
    nothing = f"CASE WHEN {separator} IS NOT NULL THEN '' END"
    return Typed(f"concat_ws({separator}, {', '.join(parts)})" if parts else nothing, STRING)


def _elt(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """The text at a place among the others."""
    place, *texts = counted(context, node, arguments, *range(2, 100))
    at = context.converted(arguments[0], place, INT)
    kind = BINARY if {made.type for made in texts} == {BINARY} else STRING
    sqls = [context.converted(one, made, kind) for one, made in zip(arguments[1:], texts, strict=True)]
    branches = " ".join(f"WHEN {number} THEN {sql}" for number, sql in enumerate(sqls, 1))
    outside = refused(f"concat('the index ', {at}, ' of elt is not between 1 and {len(sqls)}; correct it')")
    return Typed(f"CASE WHEN ({at}) IS NULL THEN NULL ELSE CASE {at} {branches} ELSE {outside} END END", kind)


def _reverse(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    (made,) = counted(context, node, arguments, 1)
    if pa.types.is_list(made.type):
        return Typed(f"list_reverse({made.sql})", made.type)
    if made.type == BINARY:
        return Typed(f"spark_bytes_reversed({made.sql})", BINARY)
    return Typed(f"reverse({context.converted(node, made, STRING)})", STRING)


def _position(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """position(part, text), position(part IN text)"""
    if len(arguments) == 1 and isinstance(arguments[0], exp.In) and arguments[0].args.get("field") is not None:
        arguments = [arguments[0].this, arguments[0].args.get("field")]
    counted(context, node, arguments, 2)
    part, value = (text_argument(context, one) for one in arguments)
    return Typed(f"CAST(instr({value}, {part}) AS INTEGER)", INT)


def _sha2(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    value, bits = counted(context, node, arguments, 2)
    if bits.constant not in (0, 256):
        context.text.refuse(node, "sha2 is supported for 256 bits", found=arguments[1].sql(), cure="write sha2(value, 256)")
    return Typed(f"sha256({context.converted(arguments[0], value, BINARY)})", STRING)


def _mask(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 1, 2, 3, 4, 5)
    value, *given = (text_argument(context, one, strict=True) for one in arguments)
    for one in arguments[1:]:
        constant_text(context, one)
        if isinstance(one, exp.Literal) and len(one.this) != 1:
            context.text.refuse(one, "mask takes single characters", found=one.this, cure="write one character")
    masks = ", ".join([*given, *("'X'", "'x'", "'n'", "CAST(NULL AS VARCHAR)")[len(given) :]])
    return Typed(f"spark_mask({value}, {masks})", STRING)


FUNCTIONS: dict[str, Function] = {
    "concat": _concat,
    "concat_ws": _concat_ws,
    "elt": _elt,
    "reverse": _reverse,
    "position": _position,
    "mask": _mask,
    "sha2": _sha2,
}
