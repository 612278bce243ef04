"""`to_json`: structs, arrays and maps as JSON text, as Jackson writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted, literal_options
from lsmlake.dialect.casts import cast
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import BINARY, BOOLEAN, DATE, NULL, STRING, TIMESTAMP, TIMESTAMP_NTZ, text
from lsmlake.dialect.time_patterns import PatternRefused, written
from lsmlake.types.type_text import format_type

_PATTERNS = {TIMESTAMP: "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", TIMESTAMP_NTZ: "yyyy-MM-dd'T'HH:mm:ss.SSS", DATE: "yyyy-MM-dd"}
_OPTIONS = {TIMESTAMP: "timestampformat", TIMESTAMP_NTZ: "timestampntzformat", DATE: "dateformat"}
_KEEPS_NULLS = "ignorenullfields"


def _to_json(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    value, *_ = counted(context, node, arguments, 1, 2)
    known = (*_OPTIONS.values(), _KEEPS_NULLS)
    options = literal_options(context, arguments[1], *known) if len(arguments) > 1 else {}
    if value.type == NULL:
        return Typed("CAST(NULL AS VARCHAR)", STRING)
    if not pa.types.is_nested(value.type):
        context.text.refuse(
            arguments[0],
            "expected a STRUCT, an ARRAY or a MAP",
            found=format_type(value.type),
            cure="pass a STRUCT, an ARRAY or a MAP",
        )
    return Typed(_JsonWriter(context, node, options).written(value.sql, value.type, 0), STRING)


class _JsonWriter:
    """Writes values of all types. `options`: those of to_json, in lower case."""

    def __init__(self, context: Context, node: exp.Expression, options: Mapping[str, str]) -> None:
        self._context, self._node, self._options = context, node, options
        self._keeps_nulls = options.get(_KEEPS_NULLS, "true").lower() == "false"

    def written(self, sql: str, kind: pa.DataType, level: int) -> str:
        """The JSON of a value; null for null."""
        t, inner = pa.types, f"e{level}"
        if t.is_struct(kind):
            parts = [self._field(inner, field, level + 1) for field in kind]
            body = f"list_filter([{', '.join(parts)}], lambda p: p IS NOT NULL)" if parts else "[]"
            packed = f"'{{' || coalesce(array_to_string({body}, ','), '') || '}}'"
            return f"list_transform([{sql}], lambda {inner}: CASE WHEN {inner} IS NOT NULL THEN {packed} END)[1]"
        if t.is_list(kind):
            one = f"coalesce({self.written(inner, kind.value_type, level + 1)}, 'null')"
            items = f"coalesce(array_to_string(list_transform({sql}, lambda {inner}: {one}), ','), '')"
            return f"CASE WHEN ({sql}) IS NOT NULL THEN '[' || {items} || ']' END"
        if t.is_map(kind):
            key = self._key(f"struct_extract_at({inner}, 1)", kind.key_type)
            value = self.written(f"struct_extract_at({inner}, 2)", kind.item_type, level + 1)
            pairs = f"list_transform(map_entries({sql}), lambda {inner}: {key} || ':' || coalesce({value}, 'null'))"
            return f"CASE WHEN ({sql}) IS NOT NULL THEN '{{' || coalesce(array_to_string({pairs}, ','), '') || '}}' END"
        return self._scalar(sql, kind)

    def _field(self, struct: str, field: pa.Field, level: int) -> str:
        value = self.written(f"struct_extract({struct}, {text(field.name)})", field.type, level)
        value = f"coalesce({value}, 'null')" if self._keeps_nulls else value
        return f"{text(json.dumps(field.name, ensure_ascii=False) + ':')} || {value}"

    def _scalar(self, sql: str, kind: pa.DataType) -> str:
        t = pa.types
        if t.is_null(kind):
            return "CAST(NULL AS VARCHAR)"
        if t.is_decimal(kind) and kind.scale > 6:
            digits = f"CAST(CAST(replace(CAST(abs({sql}) AS VARCHAR), '.', '') AS HUGEINT) AS VARCHAR)"
            return f"CASE WHEN {sql} < 0 THEN '-' ELSE '' END || spark_big_decimal({digits}, {kind.scale})"
        if t.is_integer(kind) or t.is_decimal(kind) or kind == BOOLEAN:
            return cast(sql, kind, STRING)
        if t.is_floating(kind):
            made = cast(sql, kind, STRING)
            return f"CASE WHEN isfinite({sql}) THEN {made} ELSE '\"' || {made} || '\"' END"
        if kind == BINARY:
            return f"'\"' || base64({sql}) || '\"'"
        return f"CAST(to_json({self._text(sql, kind)}) AS VARCHAR)"

    def _text(self, sql: str, kind: pa.DataType) -> str:
        """The text of a value that stands between quotation marks."""
        if kind in _PATTERNS:
            moment = sql if kind == TIMESTAMP else cast(sql, kind, TIMESTAMP)
            try:
                return written(moment, self._options.get(_OPTIONS[kind], _PATTERNS[kind]))
            except PatternRefused as refusal:
                self._context.text.refuse(self._node, str(refusal))
        made = cast(sql, kind, STRING)
        if made is None:
            self._context.text.refuse(
                self._node, f"a value of type {format_type(kind)} cannot become JSON here", cure="cast it to STRING"
            )
        return made

    def _key(self, sql: str, kind: pa.DataType) -> str:
        plain = kind in (STRING, BOOLEAN) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if not (plain or (pa.types.is_decimal(kind) and kind.scale <= 6)):
            what = f"a MAP with keys of type {format_type(kind)} cannot become JSON here"
            self._context.text.refuse(self._node, what, cure="cast the keys to STRING")
        return f"CAST(to_json({cast(sql, kind, STRING)}) AS VARCHAR)"


FUNCTIONS: dict[str, Function] = {"to_json": _to_json}
