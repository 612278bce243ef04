"""LIKE with any pattern, and regular expressions with literal patterns that mean the same to Java and to RE2."""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted, literal_text, text_argument
from lsmlake.dialect.context import Context
from lsmlake.dialect.failures import refused
from lsmlake.dialect.regex import Regex, RegexRefused, regex
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import BOOLEAN, INT, STRING, array_of, duck_name, text

_LAST_LINE_END = text(r"(\r\n|[\n\r\x{0085}\x{2028}\x{2029}])\z")


def like(context: Context, node: exp.Expression) -> Typed:
    """LIKE and ILIKE, also with ANY and ALL, and RLIKE with a literal pattern."""
    escape = "\\"
    if isinstance(node, exp.Escape):
        escape = literal_text(context, node.expression, "the escape character")
        if len(escape) != 1:
            context.text.refuse(node, "the escape of LIKE must be one character", found=escape, cure="write ESCAPE '!'")
        node = node.this
    value = text_argument(context, node.this)
    if isinstance(node, exp.RegexpLike):
        if isinstance(node.expression, exp.Null):
            return Typed("CAST(NULL AS BOOLEAN)", BOOLEAN)
        return Typed(f"regexp_matches({value}, {text(_regex(context, node.expression).re2)})", BOOLEAN)
    negated, pattern = bool(node.args.get("negate")), node.expression
    if isinstance(pattern, (exp.Any, exp.All)):
        several = pattern.this.expressions if isinstance(pattern.this, exp.Tuple) else [pattern.this.unnest()]
        word = " OR " if isinstance(pattern, exp.Any) else " AND "
        return Typed(f"({word.join(_matched(context, node, value, one, escape, negated) for one in several)})", BOOLEAN)
    return Typed(_matched(context, node, value, pattern, escape, negated), BOOLEAN)


def _matched(context: Context, node: exp.Expression, value: str, pattern: exp.Expression, escape: str, negated: bool) -> str:
    """Whether a text is like one pattern."""
    after = re.escape(escape)
    wrong = f"in LIKE the escape {escape!r} must be followed by %, _ or itself"
    suffix = f" ESCAPE {text(escape)}"
    if isinstance(pattern, exp.RawString) or (isinstance(pattern, exp.Literal) and pattern.is_string):
        sql = text(pattern.this)
        if escape not in pattern.this:  # without ESCAPE, DuckDB searches for the parts of the pattern, in half of the time
            suffix = ""
        if re.search(f"{after}(?![%_{after}])", pattern.this.replace(escape * 2, "")):
            context.text.refuse(node, wrong, found=pattern.this)
    else:
        given = text_argument(context, pattern)
        fits = f"regexp_full_match({given}, {text(f'(?s)(?:[^{after}]|{after}[%_{after}])*')})"
        sql = f"CASE WHEN ({given}) IS NULL OR {fits} THEN {given} ELSE {refused(text(wrong + '; correct the pattern'))} END"
    test = f"({value} {'ILIKE' if isinstance(node, exp.ILike) else 'LIKE'} {sql}{suffix})"
    return f"(NOT {test})" if negated else test


def _like_call(kind: type[exp.Binary]) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        counted(context, node, arguments, 2, 3)
        comparison = kind(this=arguments[0], expression=arguments[1])
        return like(context, comparison if len(arguments) == 2 else exp.Escape(this=comparison, expression=arguments[2]))

    return made


def _regexp_like(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    return like(context, exp.RegexpLike(this=arguments[0], expression=arguments[1]))


def _regexp_replace(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 3, 4)
    value, pattern = text_argument(context, arguments[0]), _in_all(context, arguments[1])
    first = typed[3].constant if len(typed) > 3 else 1
    if first is None or first < 1:
        context.text.refuse(
            node, "regexp_replace takes a literal position", expected="1 or more", cure="write a literal number of 1 or more"
        )
    if re.fullmatch(pattern.python, ""):
        context.text.refuse(node, "the expression to replace may match the empty text", cure="write + in the place of *")
    by = _replacement(context, arguments[2], pattern)
    if first == 1:
        return Typed(f"regexp_replace({value}, {text(pattern.re2)}, {text(by)}, 'g')", STRING)
    rest = f"regexp_replace(substr({value}, {first}), {text(pattern.re2)}, {text(by)}, 'g')"
    return Typed(f"(left({value}, {first - 1}) || {rest})", STRING)


def _replacement(context: Context, node: exp.Expression, pattern: Regex) -> str:
    """A literal replacement of Java as one of RE2, which puts back the line end that `$` has taken."""
    made, given = "", literal_text(context, node, "the replacement")
    for part in re.finditer(r"\\(.?)|\$(\d+)|(\$)|([^\\$]+)", given, re.DOTALL):
        if part[3] or (part[0][0] == "\\" and not part[1]):
            context.text.refuse(
                node,
                "this replacement is not supported",
                expected="$1 to $9 and plain text",
                found=given,
                cure="write plain text, and $1 to $9 for groups",
            )
        if part[2] is None:
            made += (part[1] or part[4]).replace("\\", "\\\\")
            continue
        digits = part[2]
        while len(digits) > 1 and int(digits) > pattern.groups:
            digits = digits[:-1]
        if (
            pattern.grouped
            or int(digits) > pattern.groups
            or _group(pattern, int(digits)) > 9
            or (int(digits) == 0 and pattern.ends)
        ):
            context.text.refuse(
                node,
                "the pattern has no such group",
                expected=f"$0 to ${min(pattern.groups, 9)}",
                found=given,
                cure="name a group of the pattern",
            )
        made += f"\\{_group(pattern, int(digits))}{part[2][len(digits) :]}"
    return made + "".join(f"\\{end}" for end in pattern.ends)


def _group(pattern: Regex, number: int) -> int:
    """The number that a group of the text has in RE2."""
    for end in pattern.ends:
        number += end <= number
    return number


def _regexp_extract(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    value, pattern, group = _value_pattern_group(context, node, arguments, _regex(context, arguments[1]))
    sql = f"regexp_extract({value}, {text(pattern.re2)}, {_group(pattern, group)})"
    if group == 0 and pattern.ends:
        ends = " || ".join(f"regexp_extract({value}, {text(pattern.re2)}, {end})" for end in pattern.ends)
        sql = f"left({sql}, length({sql}) - length({ends}))"
    return Typed(sql, STRING)


def _regexp_extract_all(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    value, pattern, group = _value_pattern_group(context, node, arguments, _in_all(context, arguments[1]))
    sql = f"regexp_extract_all({value}, {text(pattern.re2)}, {_group(pattern, group)})"
    one = f"regexp_replace(e, {_LAST_LINE_END}, '')" if group == 0 and pattern.ends else "e"
    return Typed(f"list_transform({sql}, lambda e: coalesce({one}, ''))", array_of(STRING))


def _regexp_count(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    value, pattern = text_argument(context, arguments[0]), _in_all(context, arguments[1])
    return Typed(f"CAST(len(regexp_extract_all({value}, {text(pattern.re2)})) AS INTEGER)", INT)


def _regexp_substr(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    extracted = _regexp_extract(context, node, [*arguments, exp.Literal.number(0)])
    return Typed(f"nullif({extracted.sql}, '')", STRING)


def _regexp_instr(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    value, pattern = text_argument(context, arguments[0]), _regex(context, arguments[1])
    before = f"length(regexp_extract({value}, {text(f'(?s)^(.*?)(?:{pattern.re2})')}, 1)) + 1"
    sql = f"CASE WHEN ({value}) IS NULL THEN NULL WHEN regexp_matches({value}, {text(pattern.re2)}) THEN {before} ELSE 0 END"
    return Typed(f"CAST({sql} AS INTEGER)", INT)


_CHARACTERS = "CASE WHEN s = '' THEN [''] ELSE string_split(s, '') END"
"""The parts that split gives for an empty pattern; DuckDB gives none for an empty text."""


def _split(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 2, 3)
    limit = typed[2].constant if len(typed) > 2 else -1
    if limit is None:
        context.text.refuse(node, "split takes a literal limit", cure="use substring_index")
    value, pattern = text_argument(context, arguments[0]), _regex(context, arguments[1])
    if pattern.ends or (pattern.re2 and re.search(pattern.python, "")):
        context.text.refuse(
            node,
            "split needs an expression without $ that never matches the empty text",
            cure="write an expression without $ that matches at least one character",
        )
    between = f"regexp_extract_all(s, {text(pattern.re2)})" if pattern.re2 else "CAST([] AS VARCHAR[])"
    parts = f"string_split_regex(s, {text(pattern.re2)})" if pattern.re2 else _CHARACTERS
    if not pattern.re2 and limit <= 0:
        return Typed(f"list_transform([{value}], lambda s: {parts})[1]", array_of(STRING))
    if limit <= 0:
        return Typed(parts.replace("(s,", f"({value},", 1), array_of(STRING))
    cut = f"spark_limited(o['s'], o['p'], o['b'], {limit})"
    bound = f"list_transform([{value}], lambda s: {{'s': s, 'p': {parts}, 'b': {between}}})"
    return Typed(f"list_transform({bound}, lambda o: {cut})[1]", array_of(STRING))


def _or_null(made: Function, kind: pa.DataType) -> Function:
    """A function whose result is null if the pattern, or an argument behind it, is NULL."""

    def nullable(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        if any(isinstance(one, exp.Null) for one in arguments[1:]):
            counted(context, node, arguments, 2, 3, 4)
            return Typed(f"CAST(NULL AS {duck_name(kind)})", kind)
        return made(context, node, arguments)

    return nullable


def _value_pattern_group(context: Context, node: exp.Expression, arguments: Arguments, pattern: Regex) -> tuple[str, Regex, int]:
    """The text, the pattern and the literal group of a call. Refuses a group that the pattern does not have."""
    typed = counted(context, node, arguments, 2, 3)
    group = typed[2].constant if len(typed) > 2 else 1
    if group is None or not 0 <= group <= pattern.groups:
        shown = "no literal" if group is None else group
        expected = f"a literal number from 0 to {pattern.groups}"
        context.text.refuse(
            node, "the pattern has no such group", expected=expected, found=shown, cure="name a group of the pattern"
        )
    if group and pattern.grouped:
        context.text.refuse(node, "a group with $ in it is not supported here", cure="write $ after the group")
    return text_argument(context, arguments[0]), pattern, group


def _regex(context: Context, node: exp.Expression) -> Regex:
    """A literal pattern of Java that means the same to RE2. Refuses other patterns."""
    try:
        return regex(literal_text(context, node, "the regular expression"))
    except RegexRefused as refusal:
        cure = "use simpler expressions: groups, classes, * + ? {n} |"
        context.text.refuse(node, "this regular expression may mean something else here", found=str(refusal), cure=cure)


def _in_all(context: Context, node: exp.Expression) -> Regex:
    """As `_regex`, for all matches in a text. Refuses `$` if the rest of the pattern may match a line end."""
    pattern = _regex(context, node)
    if pattern.ends and pattern.breaks:
        cure = "write [^,\\n\\r] for [^,]"
        context.text.refuse(node, "an expression with $ must not match line ends here", cure=cure)
    return pattern


FUNCTIONS: dict[str, Function] = {
    "regexp": _regexp_like,
    "regexp_like": _regexp_like,
    "rlike": _regexp_like,
    "regexp_replace": _or_null(_regexp_replace, STRING),
    "regexp_extract": _or_null(_regexp_extract, STRING),
    "regexp_extract_all": _or_null(_regexp_extract_all, array_of(STRING)),
    "regexp_count": _or_null(_regexp_count, INT),
    "regexp_instr": _or_null(_regexp_instr, INT),
    "regexp_substr": _or_null(_regexp_substr, STRING),
    "like": _like_call(exp.Like),
    "ilike": _like_call(exp.ILike),
    "split": _or_null(_split, array_of(STRING)),
}
