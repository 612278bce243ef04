"""Decodes change events in this process: DuckDB parses their JSON, `cdc.event_rows` interprets it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import PurePath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.avro_events import decoded_avro
from lsmlake.cdc.event_queries import EVENT, KEY, OFFSET, ROW, VALUE, EventQuery
from lsmlake.cdc.event_rows import REASON, REJECTED, ROW_KIND, TEXT, EventReader, refusal
from lsmlake.cdc.event_values import schema_in
from lsmlake.dialect.connection import PatientConnection, connected, translated_errors
from lsmlake.errors import InvalidData
from lsmlake.inputs import input_files, text_files
from lsmlake.inputs.data import Input, as_input
from lsmlake.inputs.text_files import FileOptions
from lsmlake.types.type_table import is_bytes

Column = pa.Array | pa.ChunkedArray
_BATCH_ROWS, _BATCH_BYTES = 1 << 16, 64 << 20
_RELATION = "lsmlake_events"
_ENVELOPE = r'^\s*\{\s*"(schema|payload)"\s*:'
_CHUNK = 16 << 20
_LOOKS = 100


def decoded_tables(events: Iterable[pa.Table], reader: EventReader, threads: int | None = None) -> Iterator[pa.Table]:
    """Decodes tables of events: `EVENT`, and perhaps `KEY` and `OFFSET`. Yields decoded rows (`EventReader.fields`).
    `threads`: of DuckDB; None: its default."""
    if reader.format.events.avro:
        yield from (decoded_avro(table, reader) for table in chain.from_iterable(map(_in_batches, events)))
        return
    with connected(reader.zone, "a format of change events") as connection:
        if threads is not None:
            connection.execute(f"SET threads = {threads}")
        for table in chain.from_iterable(map(_in_batches, events)):
            inside = pc.fill_null(pc.match_substring_regex(table[EVENT], _ENVELOPE), False)
            within = reader.format.events.enveloped and pc.any(inside).as_py()
            if not within or pc.all(inside).as_py():
                texts = _parsed(table, replace(reader.query, within=within), connection)
            else:
                flags = ((inside, True), (pc.invert(inside), False))
                parts = [_parsed(table, replace(reader.query, within=one), connection, rows) for rows, one in flags]
                texts = pa.concat_tables(parts, promote_options="default").sort_by(ROW)
            yield reader.rows(texts)


def _parsed(table: pa.Table, query: EventQuery, connection: PatientConnection, rows: pa.ChunkedArray | None = None) -> pa.Table:
    """The texts of some of the events, with `EVENT`, `OFFSET` and `ROW`. `rows`: flags these events."""
    given = table.append_column(ROW, pa.array(np.arange(table.num_rows)))
    given = given if rows is None else given.filter(rows)
    texts = _without_schema(given[EVENT].combine_chunks()) if query.within else given[EVENT]

    def parsed() -> pa.Table:
        connection.register(_RELATION, given.set_column(0, EVENT, texts))
        return connection.sql(query.in_duckdb(_RELATION)).to_arrow_table()

    with translated_errors("events"):
        made = connection.wait_for(parsed)
    for name in (EVENT, OFFSET):
        if name in table.column_names:
            column = given[name] if made.num_rows == given.num_rows else table[name].take(made[ROW])
            made = made.append_column(name, column)
    return made


def _without_schema(events: pa.Array) -> pa.Array:
    """The events without the field `schema` at their beginnings, if all have the same; otherwise the events."""
    first = next((one.as_py() for one in events[:_LOOKS] if one.is_valid), "")
    _, prefix = schema_in(first)
    comma = re.match(r"\s*,", first[len(prefix) :])
    if not prefix or comma is None:
        return events
    prefix += comma.group()
    if pc.all(pc.starts_with(events, prefix)).as_py() is False:
        return events
    return pc.binary_replace_slice(events.cast(pa.binary()), 0, len(prefix.encode()), b"{").cast(pa.string())


def decoded(data: object, reader: EventReader, column: str | None) -> pa.Table:
    """The rows of all events in data of this process, for `lsmlake.cdc.decode`. Raises InvalidData for a rejected event."""
    made = [reader.fields.empty_table()]
    events = event_tables(data, column, of_bytes=reader.format.events.avro)
    for rows in decoded_tables(events, reader):
        if pc.any(pc.equal(rows[ROW_KIND], REJECTED)).as_py():
            raise refusal(rows)
        made.append(rows)
    return pa.concat_tables(made).drop_columns([TEXT, REASON])


def _in_batches(table: pa.Table) -> Iterator[pa.Table]:
    """Tables of a size that a batch of columns of text may have."""
    rows = max(1, min(_BATCH_ROWS, table.num_rows * _BATCH_BYTES // max(1, table.nbytes)))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


# -- events -----------------------------------------------------------------------------------------------------------


def event_tables(
    data: object, column: str | None, options: FileOptions = FileOptions(), *, of_bytes: bool = False
) -> Iterator[pa.Table]:
    """The events in data of this process, as tables with `EVENT`, and `KEY` and `OFFSET` if the data has them.

    Args:
        data: texts or bytes with one event each, one by one or in a list; one text with an event per line; the paths of files
            with an event per line; or data with a column of events, see `inputs.data`.
        column: the column of the events; None: `VALUE`.
        options: how text files are read.
        of_bytes: the events are bytes, not text: each from an iterator or a list, or of a column.

    Raises:
        InvalidData: the data has no such column, or cannot be read.
    """
    as_events = _as_bytes if of_bytes else _as_text
    texts, data = (iter([data]), data) if of_bytes and isinstance(data, bytes) else texts_in(data)
    if texts is not None:
        options.check((), "", "events that are texts")
        _check_columnless(column, "texts")
        yield from (_events(as_events(pa.array(some))) for some in in_lists(texts))
        return
    if paths := paths_in(data):
        for path in (path for name in paths for path in input_files.find_any(name)):
            if of_bytes and not input_files.has_columns(path):
                raise InvalidData("a file of lines has no events in bytes", where=path, expected="Parquet", cure="pass a column")
            given = as_input(path, options=options) if of_bytes else None
            yield from _of_file(path, column, options) if given is None else _of_columns(given, column, as_events)
        return
    yield from _of_columns(as_input(data, options=options), column, as_events)


def _check_columnless(column: str | None, where: str) -> None:
    """Raises InvalidData for the name of a column of data that has none."""
    if column not in (None, VALUE):
        cure = "leave column out, or pass data with this column"
        raise InvalidData("the events have no columns", where=where, found=f"column {column!r}", cure=cure)


def texts_in(data: object) -> tuple[Iterator[str | bytes] | None, object]:
    """The events in data that is text; None if it is other data. Also the data, as it must be read from now on."""
    if isinstance(data, (str, bytes)) and _is_event(data):
        return iter(data.splitlines()), data
    if isinstance(data, (list, tuple)):
        return (iter(data), data) if data and isinstance(data[0], (str, bytes)) and not paths_in(data) else (None, data)
    if not hasattr(data, "__next__"):
        return None, data
    first = next(data, None)
    data = chain([] if first is None else [first], data)
    return (data, data) if first is None or isinstance(first, (str, bytes)) else (None, data)


def has_event_column(data: object) -> bool:
    """Whether data that is no text has a column of events, or is files of them, and not the columns of rows."""
    if paths := paths_in(data):
        return not all(input_files.has_columns(file) for name in paths for file in input_files.find_any(name))
    if isinstance(data, (list, tuple)):
        data = data[0] if data else {}
    names = data.keys() if isinstance(data, Mapping) else getattr(getattr(data, "schema", None), "names", ())
    return VALUE in list(names)


def paths_in(data: object) -> list[str]:
    """The names of files in data, if it is one name or a list of names."""
    names = data if isinstance(data, (list, tuple)) else [data]
    are_names = names and all(isinstance(one, (str, PurePath)) and not _is_event(one) for one in names)
    return list(map(str, names)) if are_names else []


def _is_event(text: object) -> bool:
    """Whether a text is an event and no path."""
    return not isinstance(text, PurePath) and (isinstance(text, bytes) or text.lstrip().startswith(("{", "[")) or "\n" in text)


def in_lists(texts: Iterator[str | bytes]) -> Iterator[list[str | bytes]]:
    while some := list(islice(texts, _BATCH_ROWS)):
        yield some


def _of_file(path: str, column: str | None, options: FileOptions) -> Iterator[pa.Table]:
    """The events of a file: of its column, or one in each line."""
    if input_files.has_columns(path):
        yield from _of_columns(as_input(path, options=options), column, _as_text)
        return
    _check_columnless(column, path)
    with text_files.opened(path, options.encoding).open() as stream:
        rest = b""
        while chunk := stream.read(_CHUNK):
            text, end, rest = (rest + chunk).rpartition(b"\n")
            if end:
                yield _events(_lines(text))
        if rest:
            yield _events(_lines(rest))


def _lines(text: bytes) -> pa.Array:
    """The lines of a text; null for empty ones."""
    characters = np.frombuffer(text + b"\n", np.uint8)
    ends = np.flatnonzero(characters == ord("\n"))
    starts = np.append(0, ends[:-1] + 1)
    offsets = pa.array(np.append(starts, len(characters)), pa.int32())
    lines = pa.Array.from_buffers(pa.binary(), len(ends), [None, offsets.buffers()[1], pa.py_buffer(characters)])
    lines = pc.utf8_rtrim_whitespace(_as_text(lines))
    return pc.if_else(pc.equal(lines, ""), pa.scalar(None, pa.string()), lines)


def _of_columns(given: Input, column: str | None, as_events: Callable[[Column], Column]) -> Iterator[pa.Table]:
    wanted = column or VALUE
    for table in given.tables:
        if not table.num_columns:
            continue
        check_column(wanted, table.column_names)
        key = _key_of(table, as_events is _as_bytes) if KEY in table.column_names and wanted != KEY else None
        yield _events(as_events(table[wanted]), key, _offset_of(table) if wanted != OFFSET else None)


def _offset_of(table: pa.Table) -> Column | None:
    """The offsets of the messages, which order events. Raises InvalidData."""
    given = table[OFFSET] if OFFSET in table.column_names else None
    if given is None or pa.types.is_null(given.type):
        return None
    what, cure = "the column offset orders the events, and is no BIGINT", "cast the column, or give it another name"
    refused = partial(InvalidData, what, where=f"column {OFFSET!r}", expected="BIGINT", cure=cure)
    if not pa.types.is_integer(given.type):
        raise refused(found=given.type)
    try:
        return given.cast(pa.int64())
    except pa.ArrowInvalid as too_great:
        raise refused(found=too_great) from too_great


def _key_of(table: pa.Table, in_bytes: bool) -> Column | None:
    """The keys of the messages: text or, of events in bytes, bytes."""
    return _as_text(table[KEY]) if not in_bytes else table[KEY].cast(pa.binary()) if is_bytes(table[KEY].type) else None


def check_column(name: str, names: Sequence[str]) -> None:
    """Raises InvalidData if data with columns of these `names` has no column of events of this `name`."""
    if name not in names:
        cure = "name the column of the events: column=..."
        raise InvalidData("the data has no such column of events", where=f"column {name!r}", expected=list(names), cure=cure)


def _events(texts: Column, key: Column | None = None, offset: Column | None = None) -> pa.Table:
    """Events as a table."""
    made = pa.table({EVENT: texts, KEY: pa.nulls(len(texts), pa.string()) if key is None else key})
    return made if offset is None else made.append_column(OFFSET, offset)


def _as_bytes(values: Column) -> Column:
    """Bytes. Raises InvalidData for other values."""
    if not is_bytes(values.type) and not pa.types.is_null(values.type):
        cure = "pass the values as Kafka has them, or name their column"
        raise InvalidData("the events are no bytes", where="events", expected="bytes", found=values.type, cure=cure)
    return values.cast(pa.binary())


def _as_text(values: Column) -> Column:
    """Texts, or bytes that are texts in UTF-8. Raises InvalidData."""
    try:
        return values.cast(pa.string())
    except pa.ArrowException as broken:
        raise InvalidData(
            "the events are not text in UTF-8",
            where="events",
            expected="text or bytes with JSON",
            found=f"{values.type}: {broken}",
            cure="name the column of the events: column=...",
        ) from broken
