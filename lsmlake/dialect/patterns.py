"""LIKE, and regular expressions, with literal patterns that mean the same to Java and to RE2."""

from __future__ import annotations

import re

from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted, literal_text, text_argument
from lsmlake.dialect.cast import cast
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import BOOLEAN, INT, NULL, STRING, array_of, text
from lsmlake.schema.type_text import format_type

_REGEX_REFUSED = re.compile(r"\(\?|\\(?![.dDwW\\|()\[\]{}*+?^$/-])|&&|[*+?}]\+|\[[^\]]*\[|(?<!\\)\$")
"""Parts of a regular expression whose meaning to Java and RE2 differs, or that RE2 lacks."""
_LINE_ENDS = r"[^\n\r\x{0085}\x{2028}\x{2029}]"


def like(context: Context, node: exp.Expression) -> Typed:
    """LIKE, ILIKE and RLIKE with a literal pattern."""
    escape = "\\"
    if isinstance(node, exp.Escape):
        escape = literal_text(context, node.expression, "the escape character")
        node = node.this
    made = context.typed(node.this)
    value = cast(made.sql, made.type, STRING) if made.type in (STRING, NULL) else None
    if value is None:
        context.text.refuse(node, "LIKE needs a STRING", found=format_type(made.type), cure="write CAST(... AS STRING)")
    if isinstance(node, exp.RegexpLike):
        return Typed(f"regexp_matches({value}, {text(_regex(context, node.expression))})", BOOLEAN)
    if isinstance(node.expression, exp.Null):
        return Typed("CAST(NULL AS BOOLEAN)", BOOLEAN)
    pattern = literal_text(context, node.expression, "the pattern of LIKE")
    if len(escape) != 1 or re.search(f"{re.escape(escape)}(?![%_{re.escape(escape)}])", pattern.replace(escape * 2, "")):
        context.text.refuse(node, f"in LIKE {pattern!r} the escape {escape!r} must be followed by %, _ or itself")
    word = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    found = f"({value} {word} {text(pattern)} ESCAPE {text(escape)})"
    return Typed(f"(NOT {found})" if node.args.get("negate") else found, BOOLEAN)


def _like_call(kind: type[exp.Binary]) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        counted(context, node, arguments, 2)
        return like(context, kind(this=arguments[0], expression=arguments[1]))

    return made


def _regexp_like(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    return like(context, exp.RegexpLike(this=arguments[0], expression=arguments[1]))


def _regexp_replace(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 3)
    value, pattern = text_argument(context, arguments[0]), _regex(context, arguments[1])
    by = literal_text(context, arguments[2], "the replacement")
    if re.search(r"\\|\$(?!\d)|\$\d\d", by) or re.fullmatch(pattern.replace(_LINE_ENDS, "."), ""):
        context.text.refuse(node, "this replacement may mean something else here", cure="use $1 to $9 and plain text")
    by = re.sub(r"\$(\d)", r"\\\1", by)
    return Typed(f"regexp_replace({value}, {text(pattern)}, {text(by)}, 'g')", STRING)


def _regexp_extract(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    return Typed(f"regexp_extract({_value_pattern_group(context, node, arguments)})", STRING)


def _regexp_extract_all(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    found = f"regexp_extract_all({_value_pattern_group(context, node, arguments)})"
    return Typed(f"list_transform({found}, lambda e: coalesce(e, ''))", array_of(STRING))


def _regexp_count(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    value, pattern = text_argument(context, arguments[0]), _regex(context, arguments[1])
    return Typed(f"CAST(len(regexp_extract_all({value}, {text(pattern)})) AS INTEGER)", INT)


def _regexp_substr(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    value, pattern = text_argument(context, arguments[0]), _regex(context, arguments[1])
    return Typed(f"regexp_extract_all({value}, {text(pattern)})[1]", STRING)


def _split(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    value, pattern = text_argument(context, arguments[0]), _regex(context, arguments[1])
    if re.search(pattern.replace(_LINE_ENDS, "."), ""):
        context.text.refuse(node, "split needs an expression that never matches the empty text")
    return Typed(f"string_split_regex({value}, {text(pattern)})", array_of(STRING))


def _value_pattern_group(context: Context, node: exp.Expression, arguments: Arguments) -> str:
    """The arguments of a call of DuckDB. Refuses a group that the pattern does not have."""
    typed = counted(context, node, arguments, 2, 3)
    value, pattern = text_argument(context, arguments[0]), _regex(context, arguments[1])
    group, groups = typed[2].constant if len(typed) > 2 else 1, re.compile(pattern.replace(_LINE_ENDS, ".")).groups
    if group is None or not 0 <= group <= groups:
        found = "no literal" if group is None else group
        context.text.refuse(node, "the pattern has no such group", expected=f"a literal number from 0 to {groups}", found=found)
    return f"{value}, {text(pattern)}, {group}"


def _regex(context: Context, node: exp.Expression) -> str:
    """A pattern of Java that means the same to RE2. Refuses others."""
    pattern = literal_text(context, node, "the regular expression")
    if found := _REGEX_REFUSED.search(pattern):
        cure = "use simpler expressions: groups, classes, * + ? {n} |"
        context.text.refuse(node, "this regular expression may mean something else here", found=found[0], cure=cure)
    try:
        re.compile(pattern)
    except re.error as error:
        context.text.refuse(node, f"not a regular expression: {error}")
    return _without_dots(pattern)


def _without_dots(pattern: str) -> str:
    """Java's dot matches no line end of Unicode."""
    made, position, inside = "", 0, False
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            made, position = made + pattern[position : position + 2], position + 2
            continue
        inside = (inside or char == "[") and char != "]"
        made, position = made + (_LINE_ENDS if char == "." and not inside else char), position + 1
    return made


FUNCTIONS: dict[str, Function] = {
    "regexp": _regexp_like,
    "regexp_like": _regexp_like,
    "rlike": _regexp_like,
    "regexp_replace": _regexp_replace,
    "regexp_extract": _regexp_extract,
    "regexp_extract_all": _regexp_extract_all,
    "regexp_count": _regexp_count,
    "regexp_substr": _regexp_substr,
    "like": _like_call(exp.Like),
    "ilike": _like_call(exp.ILike),
    "split": _split,
}
