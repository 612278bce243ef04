"""How bytes become the texts of change events: lines, byte order marks, and bytes that are not UTF-8. Arrow in, Arrow out; pure.

A line ends at \\n or \\r\\n, as in JSON Lines; no other character ends one. Texts of events may hold bytes that are not UTF-8
until `readable` has replaced them: Spark hands over such texts, too.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from lsmlake.cdc.event_digits import MARK
from lsmlake.cdc.event_queries import EVENT, KEY, WRONG
from lsmlake.errors import InvalidData
from lsmlake.kernels.search import contains

BYTE_ORDER_MARK = "\ufeff"
"""The byte order mark. It is no part of the event that it begins."""
NOT_UTF_8 = "the event is not text in UTF-8: in its text here, \ufffd stands for the bytes that are not"
RESERVED = "the event has U+FDD0, which is no character: leave it out at the source"
_ESCAPED = r"(?:^|[^\\])(?:\\\\)*\\u(?i:fdd0)"
_TOO_GREAT = "Number too big"  # PyArrow's words
_BLANK = r"^[ \t\r]*$"


def lines(text: bytes) -> pa.Array:
    """The lines of a text that are not blank, as bytes."""
    characters = np.frombuffer(text.removeprefix(codecs.BOM_UTF8) + b"\n", np.uint8)
    ends = np.flatnonzero(characters == ord("\n"))
    offsets = pa.array(np.append(0, ends + 1), pa.int32())
    whole = pa.Array.from_buffers(pa.binary(), len(ends), [None, offsets.buffers()[1], pa.py_buffer(characters)])
    made = pc.ascii_rtrim(unchecked(whole), characters="\r\n").cast(pa.binary())
    return made.filter(pc.invert(pc.match_substring_regex(made, _BLANK)))


def unchecked(data: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Bytes as texts, also those that are not UTF-8."""
    return data.cast(pa.binary()).cast(pa.string(), safe=False)


def readable(events: pa.Table) -> pa.Table:
    """Events in JSON with texts that can be read: without byte order marks, and in UTF-8. If some were not, the column `WRONG`
    has the reason to reject them. The key of a message that is not UTF-8 is no JSON, so it is null."""
    texts, place = events[EVENT].cast(pa.string()).combine_chunks(), events.column_names.index(EVENT)
    texts, broken = in_utf_8(texts)
    reserved = has_reserved(texts)
    if broken.any() or reserved.any():
        reasons = np.where(broken, NOT_UTF_8, np.where(reserved, RESERVED, None))
        events = events.append_column(WRONG, pa.array(reasons, pa.string()))
    marked = pc.starts_with(texts, BYTE_ORDER_MARK)
    if pc.any(marked).as_py():
        texts = pc.if_else(marked, pc.utf8_slice_codeunits(texts, 1), texts)
    events = events.set_column(place, EVENT, texts)
    if KEY not in events.column_names:
        return events
    keys, unread = in_utf_8(events[KEY].cast(pa.string()).combine_chunks())
    keys = pc.if_else(pa.array(unread), pa.scalar(None, pa.string()), keys)
    return events.set_column(events.column_names.index(KEY), KEY, keys)


def has_reserved(texts: pa.Array) -> np.ndarray:
    """Flags JSON with the character that marks numbers, see `cdc.event_digits`."""
    found = contains(texts, MARK)
    if pc.any(contains(texts, "\\u")).as_py():
        found = pc.or_(found, pc.match_substring_regex(texts, _ESCAPED))
    return np.asarray(pc.fill_null(found, False))


def check_whole(texts: pa.Array) -> None:
    """Raises pa.ArrowInvalid unless each text is one object of JSON and no more. Spark reads no further than one object."""
    data = pc.binary_join(pa.scalar(texts, pa.list_(pa.string())), "\n").as_buffer()
    schema = pa.schema([(BYTE_ORDER_MARK, pa.null())])  # a field that no event has
    options = pa_json.ParseOptions(schema, newlines_in_values=True, unexpected_field_behavior="ignore")
    try:
        rows = (
            pa_json.read_json(data, pa_json.ReadOptions(block_size=max(1, data.size + 1)), options).num_rows if len(texts) else 0
        )
    except pa.ArrowInvalid as refused:
        if len(texts) > 1 or _TOO_GREAT not in str(refused):
            raise
        rows = _objects(texts[0].as_py())  # a number beyond DOUBLE is JSON
    if rows != len(texts):
        raise pa.ArrowInvalid("more than one object of JSON")


def _objects(text: str) -> int:
    """How many objects a text of JSON has. Raises pa.ArrowInvalid if it is none."""
    try:
        _, end = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError as broken:
        raise pa.ArrowInvalid(str(broken)) from broken
    return 1 if not text.lstrip()[end:].strip() else 2


def in_utf_8(texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Texts in which U+FFFD stands for bytes that are not UTF-8, and flags those that had such bytes."""
    broken = np.zeros(len(texts), bool)
    data = texts.cast(pa.binary())
    try:
        return data.cast(pa.string()), broken
    except pa.ArrowInvalid:
        broken[list(unreadable(data, lambda some: some.cast(pa.string())))] = True
    given = data.filter(pa.array(broken)).to_pylist()
    made = pa.array([one.decode(errors="replace") for one in given], pa.string())
    return pc.replace_with_mask(texts, pa.array(broken), made), broken


def unreadable(texts: pa.Array | pa.Table, make: Callable[[pa.Array | pa.Table], object]) -> dict[int, str]:
    """The rows that `make` refuses, each with the reason. Halves the array or table as long as one is in it."""
    wrong: dict[int, str] = {}
    waiting = [(0, len(texts))]
    while waiting:
        start, stop = waiting.pop()
        try:
            make(texts.slice(start, stop - start))
        except (pa.ArrowException, InvalidData) as refused:
            if stop - start == 1:
                wrong[start] = str(refused)
            else:
                middle = (start + stop) // 2
                waiting += [(start, middle), (middle, stop)]
    return wrong
