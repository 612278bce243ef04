"""Functions that join, search and hash text."""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted, literal_text, text_argument
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import BINARY, INT, STRING, text

_JSON_PATH = re.compile(r"\$(\.[A-Za-z_][A-Za-z0-9_]*|\[\d+\])*")


def _concat(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, *range(1, 100))
    if any(pa.types.is_list(made.type) for made in typed):
        sqls, kind = context.unified(arguments, typed)
        given = " AND ".join(f"({sql}) IS NOT NULL" for sql in sqls)
        return Typed(f"CASE WHEN {given} THEN {' || '.join(f'({sql})' for sql in sqls)} END", kind)
    parts = [context.converted(node, made, STRING) for node, made in zip(arguments, typed, strict=True)]
    return Typed(f"({' || '.join(parts)})", STRING)


def _concat_ws(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, *range(1, 100))
    separator, *parts = (context.converted(node, made, STRING) for node, made in zip(arguments, typed, strict=True))
    return Typed(
        f"concat_ws({separator}, {', '.join(parts)})" if parts else f"CASE WHEN {separator} IS NOT NULL THEN '' END", STRING
    )


def _reverse(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    (made,) = counted(context, node, arguments, 1)
    if pa.types.is_list(made.type):
        return Typed(f"list_reverse({made.sql})", made.type)
    return Typed(f"reverse({context.converted(node, made, STRING)})", STRING)


def _position(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """position(part, text), position(part IN text)"""
    if len(arguments) == 1 and isinstance(arguments[0], exp.In) and arguments[0].args.get("field") is not None:
        arguments = [arguments[0].this, arguments[0].args.get("field")]
    counted(context, node, arguments, 2)
    part, value = (text_argument(context, one) for one in arguments)
    return Typed(f"CAST(instr({value}, {part}) AS INTEGER)", INT)


def _json(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    value, path = text_argument(context, arguments[0]), literal_text(context, arguments[1], "the path")
    if not _JSON_PATH.fullmatch(path):
        context.text.refuse(arguments[1], "this path is not supported", expected="$.name and [index], such as $.items[0].id")
    return Typed(f"CASE WHEN json_valid({value}) THEN json_extract_string({value}, {text(path)}) END", STRING)


def _sha2(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    value, bits = counted(context, node, arguments, 2)
    if bits.constant not in (0, 256):
        context.text.refuse(node, "sha2 is supported for 256 bits", found=arguments[1].sql())
    return Typed(f"sha256({context.converted(arguments[0], value, BINARY)})", STRING)


FUNCTIONS: dict[str, Function] = {
    "concat": _concat,
    "concat_ws": _concat_ws,
    "reverse": _reverse,
    "position": _position,
    "get_json_object": _json,
    "sha2": _sha2,
}
