"""The values of rows as JSON texts for change events: the inverse of `cdc.event_values`, of which it uses the encodings.

`WrittenColumn.of` says how a format writes the values of a column, `texts` writes them. Where the format leaves a choice, the
arguments of `ChangeFormat` decide as they do for events that are read. Without them a value is a text that means one thing only;
events that describe their values have the encodings that Debezium chooses by default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc import extended_json
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cdc.event_rows import marked
from lsmlake.cdc.event_values import CONNECT, DEBEZIUM, UNITS, Encoding
from lsmlake.errors import InvalidData, InvalidQuery, Wording
from lsmlake.kernels import encoded_bytes, nested, text_format
from lsmlake.kernels.text_format import TEXT, joined, quoted
from lsmlake.types.column_types import any_inside, inner_fields
from lsmlake.types.type_table import is_bytes, is_text
from lsmlake.types.type_text import format_type_of

_AS_TEXT = Encoding("text")
_PLAIN_TYPES = {"bool": "boolean", "float": "float", "double": "double", "string": "string", "binary": "bytes"} | {
    f"int{bits}": f"int{bits}" for bits in (8, 16, 32, 64)
}
"""Arrow's name of a type -> that of Kafka Connect."""
_TIMES = {"millis": "Time", "micros": "MicroTime", "nanos": "NanoTime"}
_TIMESTAMPS = {"millis": "Timestamp", "micros": "MicroTimestamp", "nanos": "NanoTimestamp"}


@dataclass(frozen=True)
class WrittenColumn:
    """A column as events have it.

    Attributes:
        field: its name and type.
        format: the format of the events.
        encoding: how its values are written, see `cdc.event_values`.
        is_key: it belongs to the key.
    """

    field: pa.Field
    format: ChangeFormat
    encoding: Encoding
    is_key: bool = False

    @staticmethod
    def of(field: pa.Field, format: ChangeFormat, where: str, *, is_key: bool = False) -> WrittenColumn:
        """A column in events of this format. Raises InvalidQuery, which names `where`, if nothing says how bytes are written, and
        for a name that no field of the format can have."""
        if format.events.names:
            _check_name(field, format, where)
        if any_inside(field.type, is_bytes) and (format.binary or format.events.bytes_as) is None:
            raise InvalidQuery(
                f"nothing tells how {format.name} writes the bytes of a BINARY column",
                where=f"{where}, column {field.name!r}",
                expected="the argument binary: base64 or hex",
                found="no binary",
                cure=Wording(
                    f'say it: lsmlake.cdc.ChangeFormat("{format.name}", binary="base64"), or leave the column out: columns=[...]',
                    command=f"""say it: --format '{{"name": "{format.name}", "binary": "base64"}}', or leave the column out""",
                ),
            )
        return WrittenColumn(field, format, _encoding(field.type, format), is_key)

    def texts(self, values: pa.Array) -> pa.Array:
        """The values as JSON; null as null. Raises InvalidData for a value that the events cannot say."""
        with self.refusing():
            made, is_string = self._texts(values)
        self.refuse_mark(made.cast(pa.string()))
        made = quoted(made) if is_string else made.cast(TEXT)
        return pc.if_else(values.is_valid(), made, pa.scalar("null", TEXT)) if values.null_count else made

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Raises InvalidData for a pa.ArrowInvalid."""
        try:
            yield
        except pa.ArrowInvalid as refused:
            raise InvalidData(
                f"a value cannot be written as {self.format.name}: {refused}",
                where=f"column {self.field.name!r}",
                expected=format_type_of(self.field),
                cure=Wording(
                    "say another encoding in lsmlake.cdc.ChangeFormat, or leave the column out: columns=[...]",
                    command="say another encoding in the JSON object of --format, or leave the column out by --columns",
                ),
            ) from refused

    def _texts(self, values: pa.Array) -> tuple[pa.Array, bool]:
        """The values as texts, and whether JSON has them as strings; those of nulls count for nothing. Raises pa.ArrowInvalid."""
        kind, given = values.type, self.format.events
        if given.document:
            return extended_json.of_ids(values) if self.is_key and is_text(kind) else extended_json.extended(values), False
        if pa.types.is_nested(kind):
            return text_format.json(_inner(values, self.encoding)), given.strings
        made, is_string = _ENCODERS[self.encoding.name](values, self.encoding)
        if pa.types.is_timestamp(kind) and given.blank and is_string:
            made = pc.replace_substring(made, "T", " ", max_replacements=1)
        if pa.types.is_floating(kind) and not is_string:
            is_string = pc.all(pc.is_finite(values)).as_py() is False
            if is_string and not given.strings:
                return pc.if_else(pc.is_finite(values), made, quoted(made)), False
        if self.encoding is _WHOLE_DECIMAL:
            made = joined(made.cast(TEXT), ".0")
        return made, is_string or given.strings

    def refuse_mark(self, values: pa.Array) -> None:
        """Raises InvalidData for a value that readers would take for the mark of a value that has not changed. `values`: as the
        events have them."""
        kind = self.field.type
        if not self.format.events.typed or not (is_text(kind) or is_bytes(kind) or pa.types.is_nested(kind)):
            return
        if marked(values, self.format.unavailable).any():
            raise InvalidData(
                "a value is the text that stands for a value that has not changed",
                where=f"column {self.field.name!r}",
                found=repr(self.format.unavailable),
                cure=Wording(
                    "choose another text for it, here and where the events are read: "
                    f'lsmlake.cdc.ChangeFormat("{self.format.name}", unavailable="...")',
                    command="choose another text for it, as unavailable in the JSON object of --format",
                ),
            )

    def described(self) -> dict[str, object]:
        """The column as a field of a schema of Kafka Connect."""
        return {**_described(self.field, self.encoding), "field": self.field.name}


def _check_name(field: pa.Field, format: ChangeFormat, where: str) -> None:
    """Raises InvalidQuery for the name of a field, or of one inside of it, that the format cannot have. With other characters for
    those names could be equal, and a reader would look for other columns."""
    if not re.fullmatch(format.events.names, field.name):
        raise InvalidQuery(
            f"a field of {format.name} cannot have the name of the column",
            where=where,
            expected=f"a name that matches {format.events.names}",
            found=repr(field.name),
            cure=Wording(
                'rename it, leave the column out: columns=[...], or write "debezium-json"',
                command="rename it, leave the column out by --columns, or write --format debezium-json",
            ),
        )
    for one in inner_fields(field.type):
        inside = one if pa.types.is_struct(field.type) else one.with_name(field.name)
        _check_name(inside, format, f"{where}, column {field.name!r}")


# -- encodings --------------------------------------------------------------------------------------------------------

_WHOLE_DECIMAL = Encoding("text", "point")
"""Of decimals without a fraction: "7.0", since readers cannot tell if "1234" is a number or bytes."""


def _encoding(type_: pa.DataType, format: ChangeFormat) -> Encoding:
    given = format.events
    if is_bytes(type_) or pa.types.is_nested(type_):
        return Encoding(format.binary or given.bytes_as or "base64")
    if pa.types.is_decimal(type_) and given.typed:
        if format.decimals == "bytes" or (format.described and format.decimals is None):
            return Encoding("decimal bytes", scale=type_.scale)
        return _WHOLE_DECIMAL if format.decimals is None and not type_.scale else _AS_TEXT
    if pa.types.is_date(type_):
        return Encoding("days") if format.described else _AS_TEXT
    if pa.types.is_time(type_):
        unit = format.times or ("micros" if format.described else None)
        return _AS_TEXT if unit is None else Encoding("clock", unit)
    if pa.types.is_timestamp(type_):
        unit = format.timestamps or ("micros" if format.described and not type_.tz else None)
        return _AS_TEXT if unit is None else Encoding("epoch", unit)
    return _AS_TEXT


def _as_it_is(values: pa.Array, encoding: Encoding) -> tuple[pa.Array, bool]:
    kind = values.type
    if is_text(kind):
        return values.cast(TEXT), True
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return text_format.unquoted(values), not is_number


def _days(values: pa.Array, encoding: Encoding) -> tuple[pa.Array, bool]:
    return values.cast(pa.int32()).cast(TEXT), False


def _number(values: pa.Array, encoding: Encoding) -> tuple[pa.Array, bool]:
    return times(values, encoding).cast(TEXT), False


def times(values: pa.Array, encoding: Encoding) -> pa.Array:
    """Times as numbers. Raises pa.ArrowInvalid for values with more digits than the unit has, and outside of 64 bits."""
    zone = values.type.tz if pa.types.is_timestamp(values.type) else None
    unit = UNITS[encoding.unit]
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp(unit, zone)).cast(pa.int64())
    return values.cast(pa.time32("ms")).cast(pa.int32()) if unit == "ms" else values.cast(pa.time64(unit)).cast(pa.int64())


def _bytes_as(made: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array, Encoding], tuple[pa.Array, bool]]:
    return lambda values, encoding: (made(values), True)


def _decimal_bytes(values: pa.Array, encoding: Encoding) -> tuple[pa.Array, bool]:
    return encoded_bytes.to_base64(encoded_bytes.of_decimals(values)), True


def _as_text(values: pa.Array) -> pa.Array:
    """Bytes as the texts that they are in UTF-8. Raises pa.ArrowInvalid."""
    return values.cast(pa.large_binary()).cast(TEXT)


_OF_BYTES: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "base64": encoded_bytes.to_base64,
    "hex": text_format.hexadecimal,
    "latin-1": encoded_bytes.to_latin_1,
    "text": _as_text,
}
_ENCODERS: Mapping[str, Callable[[pa.Array, Encoding], tuple[pa.Array, bool]]] = {
    **{name: _bytes_as(made) for name, made in _OF_BYTES.items() if name != "text"},
    "text": lambda values, encoding: (_as_text(values), True) if is_bytes(values.type) else _as_it_is(values, encoding),
    "days": _days,
    "epoch": _number,
    "clock": _number,
    "decimal bytes": _decimal_bytes,
}


def _inner(values: pa.Array, encoding: Encoding) -> pa.Array:
    """A nested value with texts for bytes and, for maps, lists of entries. Raises pa.ArrowInvalid for numbers that JSON lacks."""
    kind, t = values.type, pa.types
    if is_bytes(kind):
        return _OF_BYTES[encoding.name](values)
    if t.is_floating(kind) and pc.all(pc.is_finite(values)).as_py() is False:
        raise pa.ArrowInvalid("JSON has no NaN and no infinity, and inside of a nested value nothing tells a text from them")
    if t.is_struct(kind):
        parts = [_inner(one, encoding) for one in values.flatten()]
        return pa.StructArray.from_arrays(parts, names=[field.name for field in kind], mask=values.is_null())
    if not t.is_nested(kind):
        return values
    if t.is_map(kind):
        lengths, keys, items = nested.map_parts(values)
        inner = pa.StructArray.from_arrays([_inner(keys, encoding), _inner(items, encoding)], names=["key", "value"])
    else:
        lengths, items = nested.list_parts(values)
        inner = _inner(items, encoding)
    return pa.ListArray.from_arrays(nested.offsets(lengths), inner, mask=values.is_null())


# -- schemas of Kafka Connect -----------------------------------------------------------------------------------------


def _described(field: pa.Field, encoding: Encoding) -> dict[str, object]:
    return {**_type_of(field.type, encoding), "optional": field.nullable}


def _type_of(type_: pa.DataType, encoding: Encoding) -> dict[str, object]:
    t = pa.types
    if t.is_map(type_):
        fields = [field.with_name(name) for field, name in zip(inner_fields(type_), ("key", "value"), strict=True)]
        return {"type": "array", "items": {**_type_of(pa.struct(fields), encoding), "optional": False}}
    if t.is_struct(type_):
        return {"type": "struct", "fields": [{**_described_inside(one, encoding), "field": one.name} for one in type_]}
    if t.is_list(type_):
        return {"type": "array", "items": _described_inside(type_.value_field, encoding)}
    if encoding.name == "decimal bytes":
        precision = {"scale": str(type_.scale), "connect.decimal.precision": str(type_.precision)}
        return {"type": "bytes", "name": f"{CONNECT}Decimal", "version": 1, "parameters": precision}
    if t.is_date(type_):
        return _named("int32", "Date") if encoding.name == "days" else _named("string", "IsoDate")
    if t.is_time(type_):
        if encoding.name == "clock":
            return _named("int32" if encoding.unit == "millis" else "int64", _TIMES[encoding.unit])
        return _named("string", "IsoTime")
    if t.is_timestamp(type_):
        if encoding.name == "epoch":
            return _named("int64", _TIMESTAMPS[encoding.unit])
        return _named("string", "ZonedTimestamp" if type_.tz else "IsoTimestamp")
    return {"type": "string" if t.is_decimal(type_) else _PLAIN_TYPES[str(type_)]}


def _described_inside(field: pa.Field, encoding: Encoding) -> dict[str, object]:
    """A field inside of a nested value, where only bytes are encoded."""
    return _described(field, encoding if pa.types.is_nested(field.type) else _AS_TEXT)


def _named(type_: str, name: str) -> dict[str, object]:
    return {"type": type_, "name": f"{DEBEZIUM}time.{name}", "version": 1}
