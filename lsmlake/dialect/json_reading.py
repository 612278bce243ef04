"""Functions that read JSON text: `from_json` and `schema_of_json`, and those that take one value out of a text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted, literal_options, literal_text, text_argument
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DIGITS_MAX,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    array_of,
    duck_name,
    quoted,
    text,
)
from lsmlake.dialect.time_patterns import PatternRefused, read
from lsmlake.errors import InvalidSchema
from lsmlake.types.ddl import parse_columns
from lsmlake.types.type_text import backticked, format_type

_PATH = re.compile(r"\$(\.[A-Za-z_][A-Za-z0-9_]*|\[\d+\])*")
_OPTIONS = {TIMESTAMP: "timestampformat", TIMESTAMP_NTZ: "timestampntzformat", DATE: "dateformat"}
_TIMES = {TIMESTAMP: "spark_try_instant_text", TIMESTAMP_NTZ: "spark_try_time_text", DATE: "spark_try_date_text"}
_BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_DIGITS_KEPT = 15


def _get_json_object(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    value, path = text_argument(context, arguments[0], strict=True), literal_text(context, arguments[1], "the path")
    if not _PATH.fullmatch(path):
        context.text.refuse(
            arguments[1],
            "this path is not supported",
            expected="$.name and [index], such as $.items[0].id",
            cure="write a path of names and numbers, such as $.items[0].id",
        )
    extracted = f"json_extract(spark_json({value}), {text(path)})"
    return Typed(f"list_transform([{extracted}], lambda j: spark_json_text(j))[1]", STRING)


def _of_text(macro: str, gives: pa.DataType) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        counted(context, node, arguments, 1)
        return Typed(f"{macro}({text_argument(context, arguments[0], strict=True)})", gives)

    return made


def _schema_of_json(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    return Typed(text(written(_inferred(context, node, arguments))), STRING)


def _inferred(context: Context, node: exp.Expression, arguments: Arguments) -> pa.DataType:
    """The type that a literal JSON text has."""
    counted(context, node, arguments, 1)
    try:
        return schema_of(literal_text(context, arguments[0], "the JSON text"))
    except ValueError as error:
        context.text.refuse(arguments[0], str(error), cure="write the type, such as 'a INT, b STRING'")


def _from_json(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) not in (2, 3):
        context.text.refuse(
            node, "the number of arguments does not fit", expected="2 or 3", found=len(arguments), cure="pass as many arguments"
        )
    value, kind = text_argument(context, arguments[0], strict=True), _wanted(context, arguments[1])
    options = literal_options(context, arguments[2], *_OPTIONS.values(), "mode") if len(arguments) > 2 else {}
    if options.get("mode", "permissive").lower() != "permissive":
        context.text.refuse(arguments[2], "from_json has the mode PERMISSIVE only here", cure="leave the mode out")
    reader = _JsonReader(context, node, options)
    made = reader.value("j", kind, 0)
    if pa.types.is_struct(kind):
        nothing = f"struct_pack({', '.join(f'{quoted(f.name)} := CAST(NULL AS {duck_name(f.type)})' for f in kind)})"
        made = f"coalesce({made}, {nothing})"
    elif pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        made = f"CASE WHEN json_type(j) = 'OBJECT' THEN [{reader.value('j', kind.value_type, 0)}] ELSE {made} END"
    given = f"CASE WHEN trim({value}) <> '' THEN {{'j': spark_json_with_nan({value})}} END"
    read_ = f"list_transform([struct_extract(t, 'j')], lambda j: {made})[1]"
    return Typed(f"list_transform([{given}], lambda t: CASE WHEN t IS NOT NULL THEN {read_} END)[1]", kind)


def _wanted(context: Context, node: exp.Expression) -> pa.DataType:
    """The type that the second argument of from_json names."""
    if isinstance(node, exp.Anonymous) and node.name.lower() == "schema_of_json":
        kind = _inferred(context, node, node.expressions)
    else:
        given = literal_text(context, node, "the schema")
        try:
            kind = parse_columns(f"`x` {given}")[0].type if re.match(r"\s*(struct|array|map)\s*<", given, re.I) else None
            kind = pa.struct(list(parse_columns(given))) if kind is None else kind
        except InvalidSchema as error:
            cure = error.cure or "write it in the expected form"
            context.text.refuse(node, "this is no schema", expected=error.expected, found=error.found, cure=cure)
    if not pa.types.is_nested(kind) or (pa.types.is_map(kind) and kind.key_type != STRING):
        context.text.refuse(
            node,
            "from_json gives a STRUCT, an ARRAY, or a MAP with keys of STRING",
            found=format_type(kind),
            cure="give a schema of one of these types",
        )
    if pa.types.is_struct(kind) and "_corrupt_record" in [field.name for field in kind]:
        context.text.refuse(node, "the column _corrupt_record is not supported", cure="leave it out")
    return kind


class _JsonReader:
    """Reads values of all types. A value that does not fit its type is null. `options`: those of from_json, in lower case."""

    def __init__(self, context: Context, node: exp.Expression, options: Mapping[str, str]) -> None:
        self._context, self._node, self._options = context, node, options

    def value(self, sql: str, kind: pa.DataType, level: int) -> str:
        """A JSON value as a value of a type."""
        t, inner = pa.types, f"v{level}"
        if t.is_struct(kind):
            values = (self.value(f"{inner}[{text(field.name)}]", field.type, level + 1) for field in kind)
            packed = ", ".join(f"{quoted(field.name)} := {value}" for field, value in zip(kind, values, strict=True))
            made = f"list_transform([CAST({sql} AS MAP(VARCHAR, JSON))], lambda {inner}: struct_pack({packed}))[1]"
            return f"CASE WHEN json_type({sql}) = 'OBJECT' THEN {made} END"
        if t.is_list(kind):
            one = self.value(inner, kind.value_type, level + 1)
            return self._whole(sql, "ARRAY", f"CAST({sql} AS JSON[])", inner, one, "{0}")
        if t.is_map(kind):
            one = self.value(inner, kind.item_type, level + 1)
            keys = f"map(map_keys(CAST({sql} AS MAP(VARCHAR, JSON))), {{0}})"
            return self._whole(sql, "OBJECT", f"map_values(CAST({sql} AS MAP(VARCHAR, JSON)))", inner, one, keys)
        return self._scalar(sql, kind)

    def _whole(self, sql: str, token: str, items: str, inner: str, one: str, made: str) -> str:
        """An array or a map, which is null if one of its values does not fit."""
        values = f"list_transform({items}, lambda {inner}: {one})"
        fits = f"list_bool_and(list_transform({items}, lambda {inner}: {inner} IS NULL OR ({one}) IS NOT NULL))"
        return f"CASE WHEN json_type({sql}) = '{token}' AND coalesce({fits}, true) THEN {made.format(values)} END"

    def _scalar(self, sql: str, kind: pa.DataType) -> str:
        t, name = pa.types, duck_name(kind)
        if t.is_null(kind):
            return "CAST(NULL AS INTEGER)"
        if t.is_integer(kind):
            return f"TRY_CAST(spark_json_whole({sql}) AS {name})"
        if t.is_floating(kind):
            return f"CAST(spark_json_double({sql}) AS {name})"
        if t.is_decimal(kind):
            return f"TRY_CAST(spark_json_decimal({sql}, {_DIGITS_KEPT}) AS {name})"
        if kind == BOOLEAN:
            return f"CASE WHEN json_type({sql}) = 'BOOLEAN' THEN CAST(CAST({sql} AS VARCHAR) AS BOOLEAN) END"
        if kind == STRING:
            return f"spark_json_text({sql})"
        if kind == BINARY:
            bound = f"list_transform([spark_json_string({sql})], lambda b: "
            return f"{bound}CASE WHEN regexp_full_match(b, '{_BASE64}') THEN from_base64(b) END)[1]"
        if kind not in _TIMES:
            self._context.text.refuse(
                self._node,
                f"a value of type {format_type(kind)} cannot be read from JSON here",
                cure="read it as STRING, and cast it",
            )
        return self._time(f"spark_json_string({sql})", sql, kind)

    def _time(self, string: str, sql: str, kind: pa.DataType) -> str:
        pattern = self._options.get(_OPTIONS[kind])
        try:
            made = f"{_TIMES[kind]}({string})" if pattern is None else f"CAST({read(string, pattern)} AS {duck_name(kind)})"
        except PatternRefused as refusal:
            self._context.text.refuse(self._node, str(refusal))
        if kind != TIMESTAMP:
            return made
        seconds = f"TRY(make_timestamptz(CAST(spark_json_whole({sql}) AS BIGINT) * 1000000))"
        return f"CASE WHEN json_type({sql}) = 'VARCHAR' THEN {made} ELSE {seconds} END"


FUNCTIONS: dict[str, Function] = {
    "from_json": _from_json,
    "get_json_object": _get_json_object,
    "json_array_length": _of_text("spark_json_array_length", INT),
    "json_object_keys": _of_text("spark_json_object_keys", array_of(STRING)),
    "schema_of_json": _schema_of_json,
}


_LONG_MAX = 2**63 - 1


def schema_of(given: str) -> pa.DataType:
    """The type of a JSON text. Raises ValueError for other text."""
    try:
        value = json.loads(given, parse_float=Decimal, parse_constant=_refused)
    except ValueError as error:
        raise ValueError(f"the text is no JSON: {error}") from error
    kind = _inferred_type(value)
    empty = array_of(pa.struct([])) if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) else STRING
    return _shown(kind) or (pa.struct([]) if pa.types.is_struct(kind) else empty)


def written(kind: pa.DataType) -> str:
    """A type as Spark writes it in SQL. Only a name with other characters than letters and digits has backticks."""
    t = pa.types
    if t.is_list(kind):
        return f"ARRAY<{written(kind.value_type)}>"
    if not t.is_struct(kind):
        return format_type(kind)
    names = (name if re.fullmatch(r"(?!\d+$)\w+", name, re.ASCII) else backticked(name) for name in kind.names)
    fields = ", ".join(f"{name}: {written(field.type)}" for name, field in zip(names, kind, strict=True))
    return f"STRUCT<{fields}>"


def _refused(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _inferred_type(value: object) -> pa.DataType:
    match value:
        case None | "":
            return NULL if value is None else STRING
        case bool():
            return BOOLEAN
        case int():
            digits = len(str(abs(value)))
            return BIGINT if -_LONG_MAX - 1 <= value <= _LONG_MAX else pa.decimal128(digits) if digits <= DIGITS_MAX else DOUBLE
        case Decimal():
            return DOUBLE
        case str():
            return STRING
        case list():
            return array_of(reduce(_common, map(_inferred_type, value), NULL))
    return pa.struct([pa.field(name, _inferred_type(one)) for name, one in sorted(value.items())])


def _common(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type of values of both types."""
    t = pa.types
    if a == b or t.is_null(b):
        return a
    if t.is_null(a):
        return b
    if t.is_list(a) and t.is_list(b):
        return array_of(_common(a.value_type, b.value_type))
    if t.is_struct(a) and t.is_struct(b):
        fields = {field.name: field.type for field in a}
        for field in b:
            fields[field.name] = _common(fields.get(field.name, NULL), field.type)
        return pa.struct([pa.field(name, kind) for name, kind in sorted(fields.items())])
    numbers = all(t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind) for kind in (a, b))
    if numbers:
        return DOUBLE if DOUBLE in (a, b) else a if t.is_decimal(a) and (not t.is_decimal(b) or a.precision >= b.precision) else b
    return STRING


def _shown(kind: pa.DataType) -> pa.DataType | None:
    """An inferred type as Spark gives it: STRING where all values are null, without unnamed fields and empty structs; None if
    nothing is left."""
    t = pa.types
    if t.is_null(kind):
        return STRING
    if t.is_list(kind):
        element = _shown(kind.value_type)
        return element and array_of(element)
    if t.is_struct(kind):
        shown = [(field.name, _shown(field.type)) for field in kind if field.name]
        fields = [pa.field(name, type_) for name, type_ in shown if type_ is not None]
        return pa.struct(fields) if fields else None
    return kind
