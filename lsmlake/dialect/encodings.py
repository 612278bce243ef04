"""Functions that turn text into bytes and bytes into text."""

from __future__ import annotations

from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, constant_text, counted
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import BINARY, BOOLEAN, STRING


def _to_binary(macro: str) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        value, *_ = counted(context, node, arguments, 1, 2)
        kind = constant_text(context, arguments[1]) if len(arguments) > 1 else "'hex'"
        return Typed(f"{macro}({context.converted(arguments[0], value, STRING)}, {kind})", BINARY)

    return made


def _encode(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    value, charset = counted(context, node, arguments, 2)
    text, name = (context.converted(one, made, STRING) for one, made in zip(arguments, (value, charset), strict=True))
    return Typed(f"unhex(spark_encode({text}, {name}))", BINARY)


def _decode(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """`decode(bytes, charset)`, or `decode(value, search, result, ..., default)`."""
    if len(arguments) > 2:
        value, *rest = arguments
        pairs = [(rest[i], rest[i + 1]) for i in range(0, len(rest) - 1, 2)]
        branches = [exp.If(this=exp.NullSafeEQ(this=value, expression=search), true=result) for search, result in pairs]
        return context.typed(exp.Case(ifs=branches, default=rest[-1] if len(rest) % 2 else exp.Null()))
    value, charset = counted(context, node, arguments, 2)
    bytes_, name = context.converted(arguments[0], value, BINARY), context.converted(arguments[1], charset, STRING)
    return Typed(f"spark_decode({bytes_}, {name})", STRING)


def _utf8(text: str, of_bytes: str, kind: type) -> Function:
    """A test or a check of UTF-8. `text`: of a STRING, which always is UTF-8 here."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        (value,) = counted(context, node, arguments, 1)
        if value.type == BINARY:
            return Typed(of_bytes.format(value.sql), kind)
        return Typed(text.format(context.converted(arguments[0], value, STRING)), kind)

    return made


_VALID = "CASE WHEN spark_is_utf8({0}) THEN decode({0}) END"

FUNCTIONS: dict[str, Function] = {
    "to_binary": _to_binary("spark_to_binary"),
    "try_to_binary": _to_binary("spark_try_to_binary"),
    "encode": _encode,
    "decode": _decode,
    "is_valid_utf8": _utf8("CASE WHEN ({0}) IS NOT NULL THEN true END", "spark_is_utf8({0})", BOOLEAN),
    "make_valid_utf8": _utf8("{0}", "spark_text({0})", STRING),
    "validate_utf8": _utf8("{0}", "spark_text({0})", STRING),
    "try_validate_utf8": _utf8("{0}", _VALID, STRING),
}
