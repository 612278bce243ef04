"""Reads values of MongoDB's extended JSON: canonical, relaxed, and the strict form of Debezium. Vectorised, pure.

    {"$oid": "5f.."}  {"$numberLong": "7"}  {"$date": ..}  {"$binary": ..}  {"$uuid": ".."}  {"$symbol": ".."}

1. Objects of these forms become numbers, or texts that begin with a mark and the letter of their kind, also inside of other
   values. An object that only resembles one of them stays as it is.
2. The type of a column says which kinds it takes: BINARY bytes, TIMESTAMP dates. STRING takes all: the text of a single value,
   the JSON of any other, so nothing is lost. A value of another kind raises pa.ArrowInvalid, which names it.
3. No two ids become equal. A STRING column of the key takes texts, ObjectIds and documents, and `as_ids` tells an ObjectId from a
   text with the same digits. Other kinds of ids need a column of their own type, such as BIGINT, which takes no texts.

`cdc.extended_json` writes these values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from lsmlake.cdc.event_digits import MARK
from lsmlake.kernels import encoded_bytes
from lsmlake.kernels.decimals import check
from lsmlake.kernels.search import contains
from lsmlake.types.type_table import is_bytes, is_text

DECIMAL_DIGITS_MAX = 34
"""The digits of a number of MongoDB; more are a text."""
FIRST_MILLIS, LAST_MILLIS = -62_135_596_800_000, 253_402_300_799_999
"""Of the years 1 to 9999, which times have."""
OBJECT_ID = "[0-9a-f]{24}"
_BEGINS_SO = rf'"(?:{MARK}|\\u[fF][dD][dD]0)'
_PLAIN, _TEXT, _OBJECT, _ID, _SYMBOL, _UUID, _DATE, _MILLIS, _BYTES = "ptjosudnb"
_TOLD = {_PLAIN: "a number or BOOLEAN", _TEXT: "a text", _OBJECT: "an array or document", _ID: "$oid", _SYMBOL: "$symbol"}
_TOLD |= {_UUID: "$uuid", _DATE: "$date", _MILLIS: "$date", _BYTES: "$binary"}
"""The letters of kinds, and their names."""
_WRAPPER = r'^\{\s*"\$'
_NAME = re.compile(r'\{\s*"(\$[^"\\]*)"')
_YEAR = "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_ISO = rf"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}T[0-9:.]+(?:Z|[+-][0-9:]+)"
_UUIDS = "[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}"
_COLON, _COMMA = r"\s*:\s*", r"\s*,\s*"
_BASE64, _SUBTYPE = '"([A-Za-z0-9+/=]*)"', '"([0-9a-fA-F]{1,2})"'


def _object(*fields: str) -> str:
    inner = _COMMA.join(_COLON.join((f'"{name}"', value)) for name, value in zip(fields[::2], fields[1::2], strict=True))
    return rf"\{{\s*{inner}\s*\}}"


def _written(letter: str, value: str = r"\1") -> str:
    return f'"{MARK}{letter}{value}"'


_NUMBER = _object(r"\$number(?:Int|Long|Double|Decimal)", r'"(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"')
_NOT_FINITE = _object(r"\$number(?:Double|Decimal)", '"(NaN|-?Infinity)"')
_FORMS = (
    (_object(r"\$oid", '"([0-9a-fA-F]{24})"'), _written(_ID)),
    (_object(r"\$date", rf'"({_ISO})"'), _written(_DATE)),
    (_object(r"\$date", "(-?[0-9]{1,19})"), _written(_MILLIS)),
    (_object(r"\$binary", _object("base64", _BASE64, "subType", _SUBTYPE)), _written(_BYTES, r"\2:\1")),
    (_object(r"\$binary", _object("subType", _SUBTYPE, "base64", _BASE64)), _written(_BYTES, r"\1:\2")),
    (_object(r"\$binary", _BASE64, r"\$type", _SUBTYPE), _written(_BYTES, r"\2:\1")),
    (_object(r"\$type", _SUBTYPE, r"\$binary", _BASE64), _written(_BYTES, r"\1:\2")),
    (_object(r"\$uuid", rf'"(?:urn:uuid:)?({_UUIDS})"'), _written(_UUID)),
    (_object(r"\$symbol", r'"((?:[^"\\]|\\.)*)"'), _written(_SYMBOL)),
)
"""The patterns of forms in JSON, and what stands for them. Inside of a string all quotes are escaped, so none matches there."""


def marked(texts: pa.Array) -> pa.Array:
    """JSON with plain numbers and marked texts for the objects that are values of MongoDB."""
    for pattern, form in ((_NUMBER, r"\1"), *_FORMS):
        texts = pc.replace_substring_regex(texts, pattern, form)
    return texts


def check_unmarked(texts: pa.Array) -> None:
    """Raises pa.ArrowInvalid for JSON with a text that begins with the mark itself."""
    check(pc.invert(pc.match_substring_regex(texts, _BEGINS_SO)), "a text begins with U+FDD0, which is no character")


def column_values(texts: pa.Array, wanted: pa.DataType, *, is_key: bool) -> pa.Array:
    """The values of a column that is not nested: bytes, or texts that `schema.lossless` converts.

    Args:
        texts: their JSON.
        wanted: the type of the column.
        is_key: the column belongs to the key.

    Raises:
        pa.ArrowInvalid: a value has a kind that the column does not take.
    """
    check_unmarked(texts)
    given = texts
    wrapped = pc.fill_null(pc.match_substring_regex(texts, _WRAPPER), False)
    if pc.any(wrapped).as_py():
        objects = texts.filter(wrapped)
        values = pc.replace_substring_regex(marked(objects), rf"^{_NOT_FINITE}$", r"\1")
        texts = pc.replace_with_mask(texts, wrapped, pc.if_else(pc.starts_with(values, "{"), objects, values))
    strings = pc.fill_null(pc.starts_with(texts, '"'), False)
    if pc.any(strings).as_py():
        texts = pc.replace_with_mask(texts, strings, _unquoted(texts.filter(strings)))
    others = pc.if_else(pc.match_substring_regex(texts, r"^[{\[]"), _OBJECT, _PLAIN)
    letters = pc.if_else(strings, _letters(texts), others)
    _check_kinds(letters, wanted, is_key=is_key, given=given)
    if is_key and pa.types.is_timestamp(wanted):
        finer = pc.match_substring_regex(texts, r"\.[0-9]{3}[0-9]*[1-9]")
        check(pc.or_(pc.not_equal(letters, _TEXT), finer), "a text could not be told from a $date, which ids of this type are")
    if is_key and is_text(wanted):
        like = pc.and_(pc.equal(letters, _TEXT), pc.starts_with(texts, "{"))
        check(pc.invert(like), "a text that begins with { could not be told from a document, which an id may be")
        return as_ids(_of_marks(texts, letters, wanted), pc.not_equal(letters, _TEXT))
    return _of_marks(texts, letters, wanted)


def values_inside(texts: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same for the texts inside of a nested value whose JSON was `marked`."""
    letters = _letters(texts)
    _check_kinds(letters, wanted, is_key=False, given=None)
    return _of_marks(texts, letters, wanted)


def as_ids(texts: pa.Array, are_ids: pa.Array) -> pa.Array:
    """Texts of ids, of which no two are equal: an ObjectId is its digits, and a text that has the form of one is in quotes, also
    one that has quotes itself. `are_ids`: flags the ObjectIds; other flags do not matter for other texts."""
    ambiguous = pc.and_(_like_ids(texts), pc.invert(are_ids))
    if not pc.any(ambiguous).as_py():
        return texts
    return pc.if_else(ambiguous, _joined('"', texts, '"'), texts)


def _like_ids(texts: pa.Array) -> pa.Array:
    """Flags the digits of an ObjectId, with as many quotes before as after them."""
    before, after = (pc.binary_length(trim(texts, '"')) for trim in (pc.ascii_ltrim, pc.ascii_rtrim))
    return pc.and_(pc.match_substring_regex(texts, f'^"*{OBJECT_ID}"*$'), pc.equal(before, after))


def of_ids(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The texts of which `as_ids` has made these, and flags of those that are ObjectIds."""
    like, are_ids = _like_ids(texts), pc.match_substring_regex(texts, f"^{OBJECT_ID}$")
    return pc.if_else(pc.and_(like, pc.invert(are_ids)), pc.utf8_slice_codeunits(texts, 1, -1), texts), are_ids


def why_not(value: str, refused: pa.ArrowInvalid) -> pa.ArrowInvalid:
    """The error for a nested value that cannot be read: names the kind inside that no type has. `value`: its JSON, `marked`."""
    if (found := _NAME.search(value)) is None:
        return refused
    cure = "use a STRING column, which gets the JSON"
    return pa.ArrowInvalid(f"{found[1]} inside of the value has no type here: {cure} ({refused})")


def _unquoted(strings: pa.Array) -> pa.Array:
    """The texts of strings of JSON."""
    if not pc.any(contains(strings, "\\")).as_py():
        return pc.utf8_slice_codeunits(strings, 1, -1)
    lines = pc.binary_join_element_wise('{"v":', strings, "}\n", "")
    data = lines.buffers()[2].slice(0, pc.sum(pc.binary_length(lines)).as_py())
    options = pa_json.ParseOptions(pa.schema([("v", strings.type)]))
    return pa_json.read_json(pa.BufferReader(data), pa_json.ReadOptions(block_size=len(data) + 1), options)["v"].combine_chunks()


# -- kinds ------------------------------------------------------------------------------------------------------------


def _letters(texts: pa.Array) -> pa.Array:
    """The letter of the kind of each text; null for null."""
    has_mark = pc.starts_with(texts, MARK)
    return pc.if_else(has_mark, pc.utf8_slice_codeunits(texts, 1, 2), _TEXT)


def _taken(wanted: pa.DataType, *, is_key: bool) -> str:
    """The letters of the kinds that a column takes."""
    if is_text(wanted):
        return _TEXT + _ID + _OBJECT if is_key else "".join(_TOLD)
    if is_bytes(wanted):
        return _BYTES + _UUID
    if pa.types.is_time(wanted):
        return _TEXT
    if pa.types.is_date(wanted) or pa.types.is_timestamp(wanted):
        return _DATE + _MILLIS + ("" if is_key and pa.types.is_date(wanted) else _TEXT)
    is_long = pa.types.is_decimal(wanted) and wanted.precision > DECIMAL_DIGITS_MAX
    return _PLAIN + (_TEXT if is_long or not is_key else "")


def _check_kinds(letters: pa.Array, wanted: pa.DataType, *, is_key: bool, given: pa.Array | None) -> None:
    """Raises pa.ArrowInvalid, which names the first kind that the column does not take. `given`: the JSON of the values."""
    taken = pc.or_(pc.is_in(letters, pa.array(list(_taken(wanted, is_key=is_key)))), letters.is_null())
    if pc.all(taken).as_py() is not False:
        return
    row = pc.index(taken, False).as_py()
    letter = letters[row].as_py()
    name = _NAME.match(given[row].as_py()) if given is not None else None
    told = name[1] if name else _TOLD[letter]
    if is_key:
        cure = "create the table with the type of its ids as that of the key, such as BIGINT"
        raise pa.ArrowInvalid(f"{told} is no id of this type, and could become equal to another id: {cure}")
    raise pa.ArrowInvalid(f"{told} is no value of this type: use a STRING column, which gets its text or its JSON")


def _of_marks(texts: pa.Array, letters: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The values of marked texts."""
    if is_bytes(wanted):
        return _bytes(texts, letters)
    if not pc.any(pc.starts_with(texts, MARK)).as_py():
        return texts
    made, rest = texts, pc.utf8_slice_codeunits(texts, 2)
    for letter, form in _TEXTS.items():
        if pc.any(own := pc.equal(letters, letter)).as_py():
            own = pc.fill_null(own, False)
            made = pc.replace_with_mask(made, own, form(rest.filter(own), wanted))
    return made


def _bytes(texts: pa.Array, letters: pa.Array) -> pa.Array:
    data = pc.struct_field(pc.extract_regex(texts, rf"^{MARK}{_BYTES}[0-9a-fA-F]+:(?P<data>.*)$"), "data")
    digits = pc.struct_field(pc.extract_regex(texts, rf"^{MARK}{_UUID}(?P<digits>.*)$"), "digits")
    return pc.coalesce(encoded_bytes.from_base64(data), encoded_bytes.from_hex(pc.replace_substring(digits, "-", "")))


def _of_millis(texts: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Milliseconds since 1970 in UTC, as times in text. Times have the years 1 to 9999 only; other dates are JSON."""
    millis = texts.cast(pa.int64())
    fits = pc.and_(pc.greater_equal(millis, FIRST_MILLIS), pc.less_equal(millis, LAST_MILLIS))
    if not is_text(wanted):
        check(fits, "a $date is outside of the years 1 to 9999: use a STRING column, which gets its JSON")
    moments = pc.strftime(pc.if_else(fits, millis, 0).cast(pa.timestamp("ms")), "%Y-%m-%dT%H:%M:%SZ")
    moments = pc.replace_substring(moments, ".000Z", "Z")
    return pc.if_else(fits, moments, _joined('{"$date":{"$numberLong":"', texts, '"}}'))


def _json_of_bytes(texts: pa.Array, wanted: pa.DataType) -> pa.Array:
    parts = pc.extract_regex(texts, "^(?P<kind>[^:]*):(?P<data>.*)$")
    kind, data = (pc.struct_field(parts, name) for name in ("kind", "data"))
    return _joined('{"$binary":{"base64":"', data, '","subType":"', kind, '"}}')


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


_TEXTS: Mapping[str, object] = {
    _ID: lambda texts, wanted: pc.ascii_lower(texts),
    _SYMBOL: lambda texts, wanted: texts,
    _UUID: lambda texts, wanted: texts,
    _DATE: lambda texts, wanted: texts,
    _MILLIS: _of_millis,
    _BYTES: _json_of_bytes,
}
"""The text of each kind."""
