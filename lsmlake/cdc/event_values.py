"""What the texts of values in change events mean: a table of encodings, and the encoding of each column.

An encoding turns texts into values of its natural type; `schema.lossless` converts these to the type of the table's column, so a
pair of types that loses something is refused in one place. Events with a schema name the encoding of each field; for others the
format and the arguments of `ChangeFormat` decide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from lsmlake.cdc import document_values
from lsmlake.cdc.event_digits import DIGITS_OF_BOTH, MARK, marked, unmarked
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.kernels import encoded_bytes, nested
from lsmlake.kernels.decimals import check
from lsmlake.schema import lossless
from lsmlake.schema.lossless import Unfit
from lsmlake.schema.years import has_outside
from lsmlake.types.column_types import any_inside, has_map, inner_fields, with_inner_fields
from lsmlake.types.type_table import is_bytes, is_text, is_time

UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
_PER_SECOND = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}
_NOTHING = pa.nulls(1, pa.string())[0]  # pa.scalar would import pandas
_INTEGER = r"^-?[0-9]+$"
_NUMBER = r"^[+-]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?$"
_ZEROS = r"(\.[0-9]{6})0+"
_UTC = r"(?:Z|[+-]00:?00)$"
_SCALED = r'^\s*\{\s*"scale"\s*:\s*(?P<scale>-?[0-9]+)\s*,\s*"value"\s*:\s*"(?P<value>[^"]*)"\s*\}\s*$'
_SCHEMA = re.compile(r'\s*\{\s*"schema"\s*:\s*')


class Encoding(NamedTuple):
    """How the values of a column are written.

    Attributes:
        name: which of `_DECODERS` reads them. Of nested values: of the bytes inside, and of texts inside of extended JSON.
        unit: of numbers that are times; None: unknown.
        scale: of decimals in bytes.
        inside: of the values inside of nested ones, where the events describe them: of `element`, of `key` and `value`, or of the
            fields of a struct, by their names.
    """

    name: str
    unit: str | None = None
    scale: int = 0
    inside: tuple[tuple[str, Encoding], ...] = ()

    def of(self, part: str) -> Encoding:
        """The encoding of a part of nested values."""
        return dict(self.inside).get(part) or Encoding(self.name)

    @property
    def of_entries(self) -> Encoding:
        """That of the entries of a map, which may be a list of them."""
        return dict(self.inside).get("element", self)


_TEXT = Encoding("text")


def decoded(texts: pa.Array, encoding: Encoding, wanted: pa.DataType, zone: str, *, strict: bool = False) -> pa.Array:
    """The values of texts as a column of a type.

    Args:
        texts: texts, or values of Arrow.
        encoding: how they are written.
        wanted: the type.
        zone: of times without a zone.
        strict: a field inside of a nested value that the type lacks is refused.

    Raises:
        pa.ArrowInvalid, Unfit: a value cannot be read.
    """
    values = _decoded(texts, encoding, wanted, zone, strict)
    if has_outside(values):
        raise pa.ArrowInvalid("a date or time outside of the years 0001 to 9999")
    return values


def _decoded(texts: pa.Array, encoding: Encoding, wanted: pa.DataType, zone: str, strict: bool) -> pa.Array:
    if not pa.types.is_nested(wanted):
        return lossless.convert(_DECODERS[encoding.name](texts, wanted, encoding), wanted, zone)
    if pa.types.is_nested(texts.type):
        return lossless.convert(_inner(texts, wanted, encoding, zone, strict), wanted, zone)
    if encoding.name in _DOCUMENT:
        values, mark = _in_document(texts, wanted, encoding, strict)
        return lossless.convert(_inner(values, wanted, encoding, zone, strict, mark), wanted, zone)
    if not _rounds_inside(texts, wanted):
        with suppress(pa.ArrowInvalid, Unfit):  # numbers may be texts, and texts numbers
            values = _parsed(texts, wanted, _readable(wanted, encoding), strict)
            return lossless.convert(_inner(values, wanted, encoding, zone, strict), wanted, zone)
    texts, mark = marked(texts)
    values = _parsed(texts, wanted, _readable(wanted, encoding, as_texts=True), strict)
    return lossless.convert(_inner(values, wanted, encoding, zone, strict, mark), wanted, zone)


# -- the encoding of a column -----------------------------------------------------------------------------------------


def encoding_in(field: pa.Field, format: ChangeFormat, *, is_key: bool = False) -> Encoding:
    """The encoding of a column of the table in events that do not describe their values. `is_key`: it belongs to the key."""
    given, type_ = format.events, field.type
    if given.document:
        return Encoding("document key" if is_key else "document")
    if is_bytes(type_) or pa.types.is_nested(type_):  # inside of a nested value, only bytes are encoded
        return Encoding(format.binary or given.bytes_as or "unknown bytes")
    if pa.types.is_decimal(type_) and given.typed:
        names = {None: "decimal or text", "bytes": "decimal bytes", "text": "text"}
        return Encoding(names[format.decimals], scale=type_.scale)
    if pa.types.is_date(type_):
        return Encoding("days or text")
    if pa.types.is_time(type_):
        return Encoding("clock or text", format.times)
    return Encoding("epoch or text", format.timestamps) if pa.types.is_timestamp(type_) else _TEXT


CONNECT, DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium."
_NAMED: Mapping[str, Encoding] = {
    f"{DEBEZIUM}time.Date": Encoding("days"),
    f"{CONNECT}Date": Encoding("days"),
    f"{DEBEZIUM}time.Time": Encoding("clock", "millis"),
    f"{CONNECT}Time": Encoding("clock", "millis"),
    f"{DEBEZIUM}time.MicroTime": Encoding("clock", "micros"),
    f"{DEBEZIUM}time.NanoTime": Encoding("clock", "nanos"),
    f"{DEBEZIUM}time.Timestamp": Encoding("epoch", "millis"),
    f"{CONNECT}Timestamp": Encoding("epoch", "millis"),
    f"{DEBEZIUM}time.MicroTimestamp": Encoding("epoch", "micros"),
    f"{DEBEZIUM}time.NanoTimestamp": Encoding("epoch", "nanos"),
    **{f"{DEBEZIUM}time.{name}": Encoding("iso") for name in ("ZonedTime", "IsoDate", "IsoTime", "IsoTimestamp")},
    f"{DEBEZIUM}data.VariableScaleDecimal": Encoding("scaled decimal"),
}
"""The name of a type in a schema of Kafka Connect -> its encoding; those that are not listed are texts or bytes."""


_WITH_BYTES = "bytes", "array", "map", "struct"
"""The types of Kafka Connect that are bytes, or may have bytes inside."""
_PARTS = {"array": {"element": "items"}, "map": {"key": "keys", "value": "values"}}
"""The parts of these types of Kafka Connect, and the words that describe them."""


def encodings_of(schema: object) -> dict[str, Encoding]:
    """The encodings of the fields of a row, as the field `schema` of an event describes them."""
    return {field["field"]: encoding_of(field) for field in row_fields(schema)}


def row_fields(schema: object) -> list[dict]:
    """The fields of a row in the field `schema` of an event."""
    fields = {field.get("field"): field for field in _fields(schema)}
    return _fields(fields.get("after") or fields.get("before"))


def _fields(schema: object) -> list[dict]:
    return schema.get("fields") or [] if isinstance(schema, dict) else []


def encoding_of(field: Mapping[str, object]) -> Encoding:
    """The encoding of a field of Kafka Connect: its `name`, `type` and `parameters`."""
    name, kind = (str(field.get(word)) for word in ("name", "type"))
    if name == f"{CONNECT}Decimal":
        return Encoding("decimal bytes", scale=int((field.get("parameters") or {}).get("scale", 0)))
    if name in _NAMED:
        return _NAMED[name]
    inside = {part: field.get(word) for part, word in _PARTS.get(kind, {}).items()}
    if kind == "struct":
        inside = {one.get("field"): one for one in _fields(field)}
    encodings = ((str(part), encoding_of(one)) for part, one in inside.items() if isinstance(one, dict))
    return Encoding("base64", inside=tuple(encodings)) if kind in _WITH_BYTES else _TEXT


# -- encodings --------------------------------------------------------------------------------------------------------

Decoder = Callable[[pa.Array, pa.DataType, Encoding], pa.Array]
"""Turns texts into values: the texts, the type of the column, the encoding."""


def _as_it_is(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
    return unmarked(texts) if pa.types.is_decimal(wanted) and is_text(texts.type) else texts


def _of_clock(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
    """Times as text; a time of UTC also is that of a clock."""
    if not is_time(wanted):
        return texts
    texts = pc.replace_substring_regex(texts, _ZEROS, r"\1")
    return texts if pa.types.is_timestamp(wanted) and wanted.tz else pc.replace_substring_regex(texts, _UTC, "")


def _days(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
    return texts.cast(pa.int32()).cast(pa.date32())


def _epoch(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
    """Numbers since 1970: instants, or times of a clock as if it were in UTC."""
    _check_unit(encoding, "timestamps")
    zone = wanted.tz if pa.types.is_timestamp(wanted) else None
    return texts.cast(pa.int64()).cast(pa.timestamp(UNITS[encoding.unit], zone))


def _clock(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
    """Numbers since midnight."""
    _check_unit(encoding, "times")
    per_second, numbers = _PER_SECOND[encoding.unit], texts.cast(pa.int64())
    check(pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, 86_400 * per_second)), "the time lies outside of a day")
    return pc.multiply(numbers, 10**9 // per_second).cast(pa.time64("ns"))


def _check_unit(encoding: Encoding, argument: str) -> None:
    if encoding.unit is None:
        units = " or ".join(map(repr, UNITS))
        raise pa.ArrowInvalid(f"nothing tells the unit of the number: say {argument}={units} in lsmlake.cdc.ChangeFormat")


def _check_no_number(texts: pa.Array) -> None:
    cure = "let the source send text, or give the table a column of the type of the value"
    check(pc.invert(pc.starts_with(texts, MARK)), f"a number or truth value of JSON is no bytes: {cure}")


def _unknown_bytes(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
    _check_no_number(texts)
    check(texts.is_null(), "nothing tells how the bytes are written: say binary='base64' or 'hex' in lsmlake.cdc.ChangeFormat")
    return pa.nulls(len(texts), wanted)


def _of_bytes(made: Callable[[pa.Array], pa.Array]) -> Decoder:
    """Bytes; a column of text gets the text itself."""

    def decoder(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
        if not (is_bytes(wanted) and is_text(texts.type)):
            return texts
        _check_no_number(texts)
        return made(texts)

    return decoder


def _decimal_bytes(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
    data = texts if is_bytes(texts.type) else encoded_bytes.from_base64(texts)
    return encoded_bytes.to_decimals(data, encoding.scale)


def _decimal_bytes_or_text(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
    return _decimal_bytes(texts, wanted, encoding) if is_bytes(texts.type) else _BYTES_OR_NUMBER(texts, wanted, encoding)


def _number(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
    """Numbers of JSON; a text with a point is one, too."""
    return pc.replace_substring(texts, MARK, "")


def _decimal(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
    """Numbers. Digits that may also be bytes in base64 are refused."""
    both = pc.match_substring_regex(texts, DIGITS_OF_BOTH)
    check(pc.invert(both), "the digits are a number, or the bytes of another one: say decimals='text' or 'bytes' in ChangeFormat")
    return texts


def _scaled_decimal(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
    """Decimals that have a scale each: {"scale": 2, "value": "AQ=="}."""
    parts = texts if pa.types.is_struct(texts.type) else pc.extract_regex(texts, _SCALED)
    check(pc.or_(texts.is_null(), parts.is_valid()), "not a scale and a value")
    scales, values = pc.struct_field(parts, "scale"), pc.struct_field(parts, "value")
    made = pa.nulls(len(texts), wanted)
    for scale in scales.unique().drop_null().to_pylist():
        own = pc.if_else(pc.equal(scales, scale), values, pa.nulls(1, values.type)[0])
        made = pc.coalesce(made, lossless.convert(_decimal_bytes(own, wanted, Encoding("", scale=int(scale))), wanted, "UTC"))
    return made


def _document(*, is_key: bool = False) -> Decoder:
    """Values of documents of MongoDB, in JSON."""

    def decoder(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
        return _of_clock(document_values.column_values(texts, wanted, is_key=is_key), wanted, encoding)

    return decoder


def _either(pattern: str, matching: Decoder, other: Decoder) -> Decoder:
    """Decodes texts that match a pattern in one way, and the others in another."""

    def decoder(texts: pa.Array, wanted: pa.DataType, encoding: Encoding) -> pa.Array:
        matches = pc.match_substring_regex(texts, pattern)
        if pc.all(matches).as_py() is not False:
            return matching(texts, wanted, encoding)
        if pc.any(matches).as_py() is not True:
            return other(texts, wanted, encoding)
        first = matching(pc.if_else(matches, texts, _NOTHING), wanted, encoding)
        second = other(pc.if_else(matches, _NOTHING, texts), wanted, encoding)
        return pc.coalesce(lossless.convert(first, wanted, "UTC"), lossless.convert(second, wanted, "UTC"))

    return decoder


_BYTES_OR_NUMBER = _either(rf"^[^.{MARK}]*$", _decimal_bytes, _number)
_DECODERS: Mapping[str, Decoder] = {
    "text": _as_it_is,
    "iso": _of_clock,
    "days": _days,
    "epoch": _epoch,
    "clock": _clock,
    "days or text": _either(_INTEGER, _days, _of_clock),
    "epoch or text": _either(_INTEGER, _epoch, _of_clock),
    "clock or text": _either(_INTEGER, _clock, _of_clock),
    "base64": _of_bytes(encoded_bytes.from_base64),
    "hex": _of_bytes(encoded_bytes.from_hex),
    "latin-1": _of_bytes(encoded_bytes.from_latin_1),
    "unknown bytes": _unknown_bytes,
    "decimal bytes": _decimal_bytes_or_text,
    "decimal or text": _either(rf"^{MARK}", _number, _either(_NUMBER, _decimal, _decimal_bytes)),
    "scaled decimal": _scaled_decimal,
    "document": _document(),
    "document key": _document(is_key=True),
}


_BYTES = "base64", "hex", "latin-1", "unknown bytes"
"""Encodings of bytes in text."""
_DOCUMENT = "document", "document key"


# -- nested values ----------------------------------------------------------------------------------------------------


def plain_json(texts: pa.Array, encoding: Encoding) -> pa.Array:
    """Nested values as JSON without the words of an encoding."""
    is_document = encoding.name in _DOCUMENT and not pa.types.is_nested(texts.type)
    return document_values.marked(texts) if is_document else texts


def _in_document(texts: pa.Array, wanted: pa.DataType, encoding: Encoding, strict: bool) -> tuple[pa.Array, str | None]:
    """Values of documents as those of a type that `lossless` converts to the nested type `wanted`. Where the parser may round a
    float, numbers are texts with a mark, which is returned, too. Raises pa.ArrowInvalid."""
    document_values.check_unmarked(texts)
    texts = plain_json(texts, encoding)
    try:
        values = _parsed(texts, wanted, _readable(wanted, encoding), strict)  # also tells a number where a text must be
        if not _rounds_inside(texts, wanted):
            return values, None
        texts, mark = marked(texts)
        return _parsed(texts, wanted, _readable(wanted, encoding, as_texts=True), strict), mark
    except pa.ArrowInvalid as refused:
        if len(texts) == 1 and not has_map(wanted):
            raise document_values.why_not(texts[0].as_py(), refused) from refused
        raise


def _rounds_inside(texts: pa.Array, wanted: pa.DataType) -> bool:
    """Whether the parser may round a float inside of nested values of the type `wanted`."""
    digits = [_EXACT_DIGITS[one] for one in _EXACT_DIGITS if any_inside(wanted, one.equals)]
    return bool(digits) and pc.any(pc.match_substring_regex(texts, rf"[0-9.]{{{min(digits)},}}|[0-9][eE]")).as_py() is True


def _parsed(texts: pa.Array, wanted: pa.DataType, read_as: pa.DataType, strict: bool) -> pa.Array:
    """JSON texts as values of the type `read_as`, which `lossless` converts to the nested type `wanted`. `strict`: fields that it
    lacks are refused; otherwise they are not read. Raises pa.ArrowInvalid."""
    lines = pc.binary_join_element_wise('{"v":', pc.fill_null(texts, "null"), "}\n", "")
    data = lines.buffers()[2].slice(0, pc.sum(pc.binary_length(lines)).as_py() or 0)
    schema, others = pa.schema([("v", read_as)]), "error" if strict else "ignore"
    options = pa_json.ParseOptions(schema, unexpected_field_behavior=others)
    try:
        rows = pa_json.read_json(pa.BufferReader(data), pa_json.ReadOptions(block_size=len(data) + 1), options)
    except pa.ArrowInvalid as refused:
        if has_map(wanted):
            what = 'an object of JSON is no MAP, which is a list of {"key": ..., "value": ...}: use a STRUCT or a STRING column'
            raise pa.ArrowInvalid(f"{what} ({refused})") from refused
        raise
    if rows.num_rows != len(texts):
        raise pa.ArrowInvalid("more than one value of JSON")
    return pa.concat_arrays(rows["v"].chunks)


def _inner(
    values: pa.Array, wanted: pa.DataType, encoding: Encoding, zone: str, strict: bool, mark: str | None = None
) -> pa.Array:
    """Nested values with what their encoding says inside, and with maps for lists of entries. What is no value of the type
    `wanted` stays as it is, for `lossless` to refuse; so do fields that it lacks, if `strict`. `mark`: of numbers, which then are
    texts. Raises pa.ArrowInvalid, Unfit."""
    kind, t = values.type, pa.types
    within = partial(_inner, zone=zone, strict=strict, mark=mark)
    if not t.is_nested(wanted):
        return _inmost(values if mark is None else _unmarked(values, mark, keep=is_bytes(wanted)), wanted, encoding, zone)
    if t.is_struct(wanted) and t.is_struct(kind):
        inner = {field.name: field.type for field in wanted}
        parts = {
            field.name: within(its, inner[field.name], encoding.of(field.name)) if field.name in inner else its
            for field, its in zip(kind, values.flatten(), strict=True)
            if strict or field.name in inner
        }
        return pa.StructArray.from_arrays(list(parts.values()), names=list(parts), mask=values.is_null())
    if t.is_list(wanted) and t.is_list(kind):
        lengths, items = nested.list_parts(values)
        made = within(items, wanted.value_type, encoding.of("element"))
        return pa.ListArray.from_arrays(nested.offsets(lengths), made, mask=values.is_null())
    if not t.is_map(wanted):
        return values
    if t.is_map(kind):
        lengths, *both = nested.map_parts(values)
    elif t.is_list(kind) and t.is_struct(kind.value_type) and [field.name for field in kind.value_type] == ["key", "value"]:
        lengths, items = nested.list_parts(values)
        both, encoding = items.flatten(), encoding.of_entries
        check(pc.and_(items.is_valid(), both[0].is_valid()), "an entry of a MAP has no key")
    else:
        return values
    types = wanted.key_type, wanted.item_type
    entries = (within(*one, encoding.of(part)) for *one, part in zip(both, types, ("key", "value"), strict=True))
    return pa.MapArray.from_arrays(nested.offsets(lengths), *entries, mask=values.is_null())


def _unmarked(values: pa.Array, mark: str, *, keep: bool) -> pa.Array:
    """Texts, or the texts of a scaled decimal, without the marks of numbers. `keep`: see `event_digits.unmarked`."""
    if not pa.types.is_struct(values.type):
        return unmarked(values, mark, keep=keep)
    parts = [unmarked(one, mark) for one in values.flatten()]
    return pa.StructArray.from_arrays(parts, names=[field.name for field in values.type], mask=values.is_null())


def _inmost(values: pa.Array, wanted: pa.DataType, encoding: Encoding, zone: str) -> pa.Array:
    """Values inside of nested ones that are not nested themselves."""
    if encoding.name in _DOCUMENT:
        if not is_text(values.type):
            return values
        return _of_clock(document_values.values_inside(values, wanted), wanted, encoding)
    if encoding.name in _BYTES:
        return _DECODERS[encoding.name](values, wanted, encoding) if is_bytes(wanted) else values
    return lossless.convert(_DECODERS[encoding.name](values, wanted, encoding), wanted, zone)


_READ_AS: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("days", "epoch", "clock"), pa.int64()),
    "decimal bytes": pa.string(),
    "scaled decimal": pa.struct([("scale", pa.int32()), ("value", pa.string())]),
}
_SCALED_TEXTS = pa.struct([("scale", pa.string()), ("value", pa.string())])
_EXACT_DIGITS = {pa.float32(): 7, pa.float64(): 16}
"""Numbers with fewer characters are read as this type without a loss."""


def _readable(wanted: pa.DataType, encoding: Encoding, *, as_texts: bool = False) -> pa.DataType:
    """The type in which PyArrow reads the JSON of a value exactly. `as_texts`: what is not nested is a text."""
    if pa.types.is_map(wanted):
        own, types = encoding.of_entries, {"key": wanted.key_type, "value": wanted.item_type}
        return pa.list_(pa.struct([(part, _readable(one, own.of(part), as_texts=as_texts)) for part, one in types.items()]))
    if pa.types.is_nested(wanted):
        parts = ["element"] if pa.types.is_list(wanted) else [field.name for field in wanted]
        fields = (
            field.with_type(_readable(field.type, encoding.of(part), as_texts=as_texts)).with_nullable(True)
            for field, part in zip(inner_fields(wanted), parts, strict=True)
        )
        return with_inner_fields(wanted, list(fields))
    if as_texts:
        return _SCALED_TEXTS if encoding.name == "scaled decimal" else pa.string()
    if encoding.name in _READ_AS:
        return _READ_AS[encoding.name]
    if pa.types.is_integer(wanted):
        return pa.int64()
    if is_time(wanted) or is_bytes(wanted) or is_text(wanted):
        return pa.string()
    return pa.decimal256(76, 38) if pa.types.is_decimal(wanted) else wanted


def schema_in(event: str) -> tuple[object, str]:
    """The field `schema` at the beginning of an event, and the text up to its end; (None, "") if the event does not begin so."""
    start = _SCHEMA.match(event)
    if start is None:
        return None, ""
    try:
        schema, end = json.JSONDecoder().raw_decode(event, start.end())
    except ValueError:  # the event is no JSON: its own error says so
        return None, ""
    return schema, event[:end]
