"""Functions of Spark SQL whose result or translation depends on the types or values of their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.cast import cast
from lsmlake.dialect.functions import DATE_UNITS, UNITS
from lsmlake.dialect.scope import Scope, Typed
from lsmlake.dialect.text import Text
from lsmlake.dialect.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    array_of,
    duck_name,
    is_number,
    quoted,
    text,
)
from lsmlake.schema.type_text import format_type


class Context(Protocol):
    """What a function needs of the translator."""

    @property
    def text(self) -> Text: ...
    @property
    def scope(self) -> Scope: ...
    def inside(self, scope: Scope) -> Context: ...
    def typed(self, node: exp.Expression) -> Typed: ...
    def converted(self, node: exp.Expression, made: Typed, wanted: pa.DataType, *, safe: bool = False) -> str: ...
    def unified(self, nodes: Sequence[exp.Expression], typed: Sequence[Typed]) -> tuple[list[str], pa.DataType]: ...


Arguments = list[exp.Expression]
_REGEX_REFUSED = re.compile(r"\(\?|\\(?![.dDwW\\|()\[\]{}*+?^$/-])|&&|[*+?}]\+|\[[^\]]*\[|(?<!\\)\$")
"""Parts of a regular expression whose meaning to Java and RE2 differs, or that RE2 lacks."""
_ROUND_DIGITS_MAX = 10
_JSON_PATH = re.compile(r"\$(\.[A-Za-z_][A-Za-z0-9_]*|\[\d+\])*")
_LINE_ENDS = r"[^\n\r\x{0085}\x{2028}\x{2029}]"


def counted(context: Context, node: exp.Expression, arguments: Arguments, *counts: int) -> list[Typed]:
    """The translated arguments; another number of them is refused."""
    if len(arguments) not in counts:
        expected = " or ".join(map(str, counts))
        context.text.refuse(node, "the number of arguments does not fit", expected=expected, found=len(arguments))
    return [context.typed(argument) for argument in arguments]


def _coalesce(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, *range(1, 100))
    sqls, kind = context.unified(arguments, typed)
    return Typed(f"coalesce({', '.join(sqls)})", kind)


def _extreme(call: str) -> Callable[[Context, exp.Expression, Arguments], Typed]:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        typed = counted(context, node, arguments, *range(2, 100))
        sqls, kind = context.unified(arguments, typed)
        if pa.types.is_nested(kind):
            context.text.refuse(node, f"{call} is not supported for {format_type(kind)}")
        return Typed(f"{call}({', '.join(sqls)})", kind)

    return made


def _nullif(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 2)
    (left, right), _ = context.unified(arguments, typed)
    return Typed(f"CASE WHEN {left} = {right} THEN NULL ELSE {typed[0].sql} END", typed[0].type)


def _nvl2(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 3)
    (some, none), kind = context.unified(arguments[1:], typed[1:])
    return Typed(f"CASE WHEN {typed[0].sql} IS NOT NULL THEN {some} ELSE {none} END", kind)


def _null_test(word: str) -> Callable[[Context, exp.Expression, Arguments], Typed]:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        return Typed(f"({counted(context, node, arguments, 1)[0].sql} IS {word})", BOOLEAN)

    return made


def _number(context: Context, node: exp.Expression, made: Typed) -> Typed:
    if made.type == NULL:
        return Typed("CAST(NULL AS DOUBLE)", DOUBLE)
    if not is_number(made.type):
        context.text.refuse(node, "expected a number", found=format_type(made.type))
    return made


def _abs(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made = _number(context, node, counted(context, node, arguments, 1)[0])
    return Typed(f"CAST(abs({made.sql}) AS {duck_name(made.type)})", made.type)


def _to_whole(call: str) -> Callable[[Context, exp.Expression, Arguments], Typed]:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        value = _number(context, node, counted(context, node, arguments, 1)[0])
        if pa.types.is_integer(value.type):
            return Typed(f"CAST({value.sql} AS BIGINT)", BIGINT)
        if pa.types.is_decimal(value.type):
            kind = pa.decimal128(max(1, min(38, value.type.precision - value.type.scale + 1)), 0)
            return Typed(f"CAST({call}({value.sql}) AS {duck_name(kind)})", kind)
        return Typed(f"CAST({call}({value.sql}) AS BIGINT)", BIGINT)

    return made


def _round(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 1, 2)
    value = _number(context, node, typed[0])
    digits = typed[1].constant if len(typed) > 1 else 0
    if digits is None or not 0 <= digits <= _ROUND_DIGITS_MAX:
        context.text.refuse(node, "round takes a literal number of digits", expected=f"0 to {_ROUND_DIGITS_MAX}")
    if pa.types.is_integer(value.type):
        return Typed(value.sql, value.type)
    if pa.types.is_decimal(value.type):
        scale = min(digits, value.type.scale)
        kind = pa.decimal128(min(38, max(1, value.type.precision - value.type.scale + 1 + scale)), scale)
        return Typed(f"CAST({value.sql} AS {duck_name(kind)})", kind)
    return Typed(f"CAST(spark_round({value.sql}, {digits}) AS {duck_name(value.type)})", value.type)


def _mod(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    return context.typed(exp.Mod(this=exp.Paren(this=arguments[0]), expression=exp.Paren(this=arguments[1])))


def _pmod(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 2)
    (left, right), kind = context.unified(arguments, typed)
    if not pa.types.is_integer(kind):
        context.text.refuse(node, "pmod is supported for integers only", found=format_type(kind))
    rest = f"spark_mod({left}, {right})"
    return Typed(f"CASE WHEN {rest} < 0 THEN ({rest} + {right}) % {right} ELSE {rest} END", kind)


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


def literal_text(context: Context, node: exp.Expression, what: str) -> str:
    """The text of a literal; other expressions are refused."""
    if not (isinstance(node, exp.RawString) or (isinstance(node, exp.Literal) and node.is_string)):
        context.text.refuse(node, f"{what} must be a literal")
    return node.this


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


def like(context: Context, node: exp.Expression) -> Typed:
    """LIKE, ILIKE and RLIKE with a literal pattern."""
    escape = "\\"
    if isinstance(node, exp.Escape):
        escape = literal_text(context, node.expression, "the escape character")
        node = node.this
    context.text.only(node, "this", "expression", "negate")
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


def _regexp_like(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    return like(context, exp.RegexpLike(this=arguments[0], expression=arguments[1]))


def _position(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """position(part, text), position(part IN text)"""
    if len(arguments) == 1 and isinstance(arguments[0], exp.In) and arguments[0].args.get("field") is not None:
        arguments = [arguments[0].this, arguments[0].args["field"]]
    counted(context, node, arguments, 2)
    part, value = (_text_argument(context, one) for one in arguments)
    return Typed(f"CAST(instr({value}, {part}) AS INTEGER)", INT)


def _like_call(kind: type[exp.Binary]) -> Callable[[Context, exp.Expression, Arguments], Typed]:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        counted(context, node, arguments, 2)
        return like(context, kind(this=arguments[0], expression=arguments[1]))

    return made


def _text_argument(context: Context, node: exp.Expression) -> str:
    made = context.typed(node)
    if made.type not in (STRING, NULL):
        context.text.refuse(node, "expected STRING", found=format_type(made.type), cure="write CAST(... AS STRING)")
    return cast(made.sql, made.type, STRING)


def _regexp_replace(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 3)
    value, pattern = _text_argument(context, arguments[0]), _regex(context, arguments[1])
    by = literal_text(context, arguments[2], "the replacement")
    if re.search(r"\\|\$(?!\d)|\$\d\d", by) or re.fullmatch(pattern.replace(_LINE_ENDS, "."), ""):
        context.text.refuse(node, "this replacement may mean something else here", cure="use $1 to $9 and plain text")
    by = re.sub(r"\$(\d)", r"\\\1", by)
    return Typed(f"regexp_replace({value}, {text(pattern)}, {text(by)}, 'g')", STRING)


def _regexp_extract_all(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    return Typed(f"regexp_extract_all({_value_pattern_group(context, node, arguments)})", array_of(STRING))


def _regexp_count(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    value, pattern = _text_argument(context, arguments[0]), _regex(context, arguments[1])
    return Typed(f"CAST(len(regexp_extract_all({value}, {text(pattern)})) AS INTEGER)", INT)


def _regexp_substr(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    value, pattern = _text_argument(context, arguments[0]), _regex(context, arguments[1])
    return Typed(f"regexp_extract_all({value}, {text(pattern)})[1]", STRING)


def _regexp_extract(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    return Typed(f"regexp_extract({_value_pattern_group(context, node, arguments)})", STRING)


def _value_pattern_group(context: Context, node: exp.Expression, arguments: Arguments) -> str:
    """The arguments of a call of DuckDB. Refuses a group that the pattern does not have."""
    typed = counted(context, node, arguments, 2, 3)
    value, pattern = _text_argument(context, arguments[0]), _regex(context, arguments[1])
    group, groups = typed[2].constant if len(typed) > 2 else 1, re.compile(pattern.replace(_LINE_ENDS, ".")).groups
    if group is None or group > groups:
        found = "no literal" if group is None else group
        context.text.refuse(node, "the pattern has no such group", expected=f"a literal number from 0 to {groups}", found=found)
    return f"{value}, {text(pattern)}, {group}"


def _split(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    value, pattern = _text_argument(context, arguments[0]), _regex(context, arguments[1])
    if re.search(pattern.replace(_LINE_ENDS, "."), ""):
        context.text.refuse(node, "split needs an expression that never matches the empty text")
    return Typed(f"string_split_regex({value}, {text(pattern)})", array_of(STRING))


def _size(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made = counted(context, node, arguments, 1)[0]
    t = pa.types
    if made.type == NULL:
        return Typed("CAST(NULL AS INTEGER)", INT)
    if not (t.is_list(made.type) or t.is_map(made.type)):
        context.text.refuse(node, "expected an ARRAY or a MAP", found=format_type(made.type))
    call = "len" if t.is_list(made.type) else "cardinality"
    return Typed(f"CAST({call}({made.sql}) AS INTEGER)", INT)


def _array(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, *range(1, 1000))
    sqls, kind = context.unified(arguments, typed)
    return Typed(f"[{', '.join(sqls)}]", array_of(kind))


def _list(context: Context, node: exp.Expression, made: Typed) -> Typed:
    if not pa.types.is_list(made.type):
        context.text.refuse(node, "expected an ARRAY", found=format_type(made.type))
    return made


def _element_at(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made, index = counted(context, node, arguments, 2)
    if pa.types.is_map(made.type):
        return Typed(f"{made.sql}[{context.converted(node, index, made.type.key_type)}]", made.type.item_type)
    made = _list(context, node, made)
    if not index.constant:
        context.text.refuse(node, "element_at takes a literal index other than 0", cure="write array[index], which counts from 0")
    if index.constant < 0:
        return Typed(f"spark_element({made.sql}, len({made.sql}) + {index.constant})", made.type.value_type)
    return Typed(f"spark_element({made.sql}, {index.constant - 1})", made.type.value_type)


def _get(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made, index = counted(context, node, arguments, 2)
    made, index_sql = _list(context, node, made), context.converted(node, index, INT)
    return Typed(f"CASE WHEN {index_sql} >= 0 THEN {made.sql}[{index_sql} + 1] END", made.type.value_type)


def _array_contains(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made, value = counted(context, node, arguments, 2)
    made = _list(context, node, made)
    wanted = context.converted(node, value, made.type.value_type)
    has_null = f"len({made.sql}) > list_aggregate({made.sql}, 'count')"
    found = f"CASE WHEN {made.sql} IS NULL OR {wanted} IS NULL THEN NULL WHEN list_contains({made.sql}, {wanted}) THEN true"
    return Typed(f"{found} WHEN {has_null} THEN NULL ELSE false END", BOOLEAN)


def _json(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    value, path = _text_argument(context, arguments[0]), literal_text(context, arguments[1], "the path")
    if not _JSON_PATH.fullmatch(path):
        context.text.refuse(arguments[1], "this path is not supported", expected="$.name and [index], such as $.items[0].id")
    return Typed(f"CASE WHEN json_valid({value}) THEN json_extract_string({value}, {text(path)}) END", STRING)


def _if(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    condition, *_ = counted(context, node, arguments, 3)
    if condition.type not in (BOOLEAN, NULL):
        context.text.refuse(arguments[0], "this is not a condition", expected="BOOLEAN", found=format_type(condition.type))
    (yes, no), kind = context.unified(arguments[1:], [context.typed(one) for one in arguments[1:]])
    return Typed(f"CASE WHEN {cast(condition.sql, condition.type, BOOLEAN)} THEN {yes} ELSE {no} END", kind)


def _tried(operator: type[exp.Binary]) -> Callable[[Context, exp.Expression, Arguments], Typed]:
    """Arithmetic with NULL instead of an overflow."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        typed = counted(context, node, arguments, 2)
        if not all(is_number(one.type) for one in typed):
            context.text.refuse(node, "arithmetic needs numbers", found=", ".join(format_type(one.type) for one in typed))
        if operator in (exp.Div, exp.Mod):
            divisor = exp.Anonymous(this="nullif", expressions=[arguments[1], exp.Literal.number(0)])
            return context.typed(operator(this=exp.Paren(this=arguments[0]), expression=divisor))
        found = context.typed(operator(this=exp.Paren(this=arguments[0]), expression=exp.Paren(this=arguments[1])))
        return Typed(f"TRY({found.sql})", found.type)

    return made


def _or_zero(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 1)
    return _coalesce(context, node, [arguments[0], exp.Literal.number(0)])


def _null_if_zero(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 1)
    return _nullif(context, node, [arguments[0], exp.Literal.number(0)])


def _equal_null(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    return context.typed(exp.NullSafeEQ(this=arguments[0], expression=arguments[1]))


def _sha2(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    value, bits = counted(context, node, arguments, 2)
    if bits.constant not in (0, 256):
        context.text.refuse(node, "sha2 is supported for 256 bits", found=arguments[1].sql())
    return Typed(f"sha256({context.converted(arguments[0], value, BINARY)})", STRING)


def _struct(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, *range(1, 1000))
    names = [
        argument.alias if isinstance(argument, exp.Alias) else argument.name if isinstance(argument, exp.Column) else f"col{i}"
        for i, argument in enumerate(arguments, 1)
    ]
    return _packed(names, typed)


def _named_struct(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) % 2 or not arguments:
        context.text.refuse(node, "named_struct takes pairs of a name and a value")
    names = [literal_text(context, name, "the name of a field") for name in arguments[::2]]
    return _packed(names, [context.typed(value) for value in arguments[1::2]])


def _packed(names: list[str], typed: list[Typed]) -> Typed:
    packed = ", ".join(f"{quoted(name)} := {made.sql}" for name, made in zip(names, typed, strict=True))
    return Typed(
        f"struct_pack({packed})", pa.struct([pa.field(name, made.type) for name, made in zip(names, typed, strict=True)])
    )


def _unit(context: Context, node: exp.Expression) -> str:
    name = literal_text(context, node, "the unit").upper()
    if name not in UNITS:
        context.text.refuse(node, "unknown unit", expected=f"one of {', '.join(UNITS)}")
    return UNITS[name]


def _date_trunc(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) != 2:
        context.text.refuse(node, "date_trunc takes a unit and a timestamp")
    made = context.typed(arguments[1])
    if made.type not in (DATE, TIMESTAMP, pa.timestamp("us")):
        context.text.refuse(node, "date_trunc needs a timestamp", found=format_type(made.type))
    value = context.converted(node, made, TIMESTAMP)
    unit = _unit(context, arguments[0])
    return Typed(f"{'date_trunc' if unit in (*DATE_UNITS, 'day') else 'spark_time_trunc'}('{unit}', {value})", TIMESTAMP)


def _trunc(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) != 2:
        context.text.refuse(node, "trunc takes a date and a unit")
    made, unit = context.typed(arguments[0]), _unit(context, arguments[1])
    if made.type != DATE or unit not in DATE_UNITS:
        context.text.refuse(node, "trunc needs a DATE and a unit of", expected=", ".join(DATE_UNITS))
    return Typed(f"CAST(date_trunc('{unit}', {made.sql}) AS DATE)", DATE)


def _cast_to(kind: str) -> Callable[[Context, exp.Expression, Arguments], Typed]:
    """The function that Spark names after a type."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        counted(context, node, arguments, 1)
        return context.typed(exp.cast(arguments[0], kind, dialect="spark"))

    return made


_TYPE_NAMES = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp")

FUNCTIONS: dict[str, Callable[[Context, exp.Expression, Arguments], Typed]] = {
    "coalesce": _coalesce,
    "ifnull": _coalesce,
    "nvl": _coalesce,
    "nvl2": _nvl2,
    "nullif": _nullif,
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "isnull": _null_test("NULL"),
    "isnotnull": _null_test("NOT NULL"),
    "abs": _abs,
    "ceil": _to_whole("ceil"),
    "ceiling": _to_whole("ceil"),
    "floor": _to_whole("floor"),
    "round": _round,
    "mod": _mod,
    "pmod": _pmod,
    "concat": _concat,
    "concat_ws": _concat_ws,
    "regexp": _regexp_like,
    "regexp_like": _regexp_like,
    "rlike": _regexp_like,
    "regexp_replace": _regexp_replace,
    "regexp_extract": _regexp_extract,
    "regexp_extract_all": _regexp_extract_all,
    "regexp_count": _regexp_count,
    "regexp_substr": _regexp_substr,
    "reverse": _reverse,
    "position": _position,
    "like": _like_call(exp.Like),
    "ilike": _like_call(exp.ILike),
    "get_json_object": _json,
    "if": _if,
    "iff": _if,
    "try_add": _tried(exp.Add),
    "try_subtract": _tried(exp.Sub),
    "try_multiply": _tried(exp.Mul),
    "try_divide": _tried(exp.Div),
    "try_mod": _tried(exp.Mod),
    "zeroifnull": _or_zero,
    "nullifzero": _null_if_zero,
    "equal_null": _equal_null,
    "sha2": _sha2,
    "split": _split,
    "size": _size,
    "cardinality": _size,
    "array": _array,
    "array_size": _size,
    "element_at": _element_at,
    "get": _get,
    "array_contains": _array_contains,
    "struct": _struct,
    "named_struct": _named_struct,
    "date_trunc": _date_trunc,
    "trunc": _trunc,
    **{name: _cast_to(name) for name in _TYPE_NAMES},
}
