"""The change events in data of this process, as tables with a row per event: texts, files of lines, and columns of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import PurePath

import pyarrow as pa

from lsmlake.cdc.event_lines import BYTE_ORDER_MARK, in_utf_8, lines, unchecked
from lsmlake.cdc.event_queries import EVENT, KEY, OFFSET, VALUE
from lsmlake.errors import InvalidData, InvalidQuery, Wording
from lsmlake.inputs import input_files, text_files
from lsmlake.inputs.data import Input, as_input
from lsmlake.inputs.text_files import FileOptions
from lsmlake.types.type_table import is_bytes

Column = pa.Array | pa.ChunkedArray
_Where = Callable[[int], str]
"""Names the place of a value by its number."""
_AsEvents = Callable[[Column, _Where], Column]
_BATCH_ROWS = 1 << 16
_CHUNK = 16 << 20
_NAME_IT = Wording("name the column of the events: column=...", command="name the column of the events: --column NAME")
_SHOWN = 60


class EventTables:
    """The events in data of this process, as tables with `EVENT`, and `KEY` and `OFFSET` if the data has them. It knows which
    file is being read.

    Args:
        data: texts or bytes with one event each, one by one or in a list; one text with an event per line; the paths of files
            with an event per line; or data with a column of events, see `inputs.data`. Blank lines are no events.
        column: the column of the events; None: `VALUE`.
        options: how text files are read.
        of_bytes: the events are bytes, not text: each from an iterator or a list, or of a column.
        rejects: texts that are not UTF-8 are kept, for `event_lines.readable`; otherwise they are an error.
    """

    def __init__(
        self,
        data: object,
        column: str | None,
        options: FileOptions = FileOptions(),
        *,
        of_bytes: bool = False,
        rejects: bool = False,
    ) -> None:
        self._data, self._column, self._options = data, column, options
        self._of_bytes, self._rejects = of_bytes, rejects
        self._path = ""  # of the file of the last table

    def __iter__(self) -> Iterator[pa.Table]:
        """Raises InvalidData if the data has no such column, or cannot be read."""
        column, options, data, of_bytes = self._column, self._options, self._data, self._of_bytes
        as_events = _as_bytes if of_bytes else partial(_as_text, rejects=self._rejects)
        texts, data = (iter([data]), data) if of_bytes and isinstance(data, bytes) else texts_in(data)
        if texts is not None:
            options.check((), "", "events that are texts")
            _check_columnless(column, "texts")
            yield from (_events(as_events(values, _numbered("event", first + 1))) for first, values in _arrays(texts))
            return
        if not (paths := paths_in(data)):
            yield from _of_columns(as_input(data, options=options), column, as_events)
            return
        for path in (path for name in paths for path in input_files.find_any(name)):
            self._path = path
            if of_bytes and not input_files.has_columns(path):
                raise InvalidData("a file of lines has no events in bytes", where=path, expected="Parquet", cure="pass a column")
            given = as_input(path, options=options) if of_bytes else None
            if given is None:
                yield from _of_file(path, column, options, self._rejects)
            else:
                yield from _of_columns(given, column, as_events)

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Names the file, if there is one, in an error of the events that are read meanwhile."""
        try:
            yield
        except (InvalidData, InvalidQuery) as error:
            if not self._path or self._path in error.where:
                raise
            raise error.changed(where=", ".join(filter(None, (self._path, str(error.where))))) from error.__cause__


def _check_columnless(column: str | None, where: str) -> None:
    """Raises InvalidData for the name of a column of data that has none."""
    if column not in (None, VALUE):
        cure = "leave column out, or pass data with this column"
        raise InvalidData("the events have no columns", where=where, found=f"column {column!r}", cure=cure)


def texts_in(data: object) -> tuple[Iterator[str | bytes] | None, object]:
    """The events in data that is text; None if it is other data. Also the data, as it must be read from now on."""
    if isinstance(data, (str, bytes)) and _is_event(data):
        text = data if isinstance(data, bytes) else data.encode(errors="surrogatepass")
        return iter(lines(text).to_pylist()), data
    if isinstance(data, (list, tuple)):
        first = next((one for one in data if one is not None), None)
        are_texts = isinstance(first, (str, bytes)) or (first is None and bool(data))
        return (iter(data), data) if are_texts and not paths_in(data) else (None, data)
    if not hasattr(data, "__next__"):
        return None, data
    begin = []
    for one in data:
        begin.append(one)
        if one is not None:  # else it is a tombstone
            break
    data = chain(begin, data)
    return (data, data) if not begin or isinstance(begin[-1], (str, bytes, type(None))) else (None, data)


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
    if isinstance(text, (bytes, PurePath)):
        return isinstance(text, bytes)
    return text.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(("{", "[")) or "\n" in text


def in_lists(texts: Iterator[str | bytes]) -> Iterator[list[str | bytes]]:
    while some := list(islice(texts, _BATCH_ROWS)):
        yield some


def _arrays(texts: Iterator[str | bytes | None]) -> Iterator[tuple[int, pa.Array]]:
    """The texts as arrays, each with the number of its first one."""
    first = 0
    for some in in_lists(texts):
        try:
            made = pa.array(some)
        except UnicodeEncodeError:  # halves of surrogate pairs, which UTF-8 lacks
            made = pa.array([one.encode(errors="surrogatepass") if isinstance(one, str) else one for one in some])
        except (pa.ArrowTypeError, pa.ArrowInvalid) as mixed:
            raise InvalidData(
                "the events cannot be read together",
                where="events",
                expected="texts alone, or batches alone, such as lists of texts",
                found=str(mixed).partition("\n")[0],
                cure="pass an iterator of texts or an iterator of batches, and only texts in a list",
            ) from mixed
        yield first, made
        first += len(some)


def _numbered(what: str, first: int) -> _Where:
    return lambda row: f"{what} {first + row}"


def _of_file(path: str, column: str | None, options: FileOptions, rejects: bool) -> Iterator[pa.Table]:
    """The events of a file: of its column, or one in each line. Raises InvalidData that names the line of bytes that are not of
    the encoding; if `rejects`, only for other encodings than UTF-8, in which they may hide the end of a line."""
    if input_files.has_columns(path):
        yield from _of_columns(as_input(path, options=options), column, partial(_as_text, rejects=rejects))
        return
    _check_columnless(column, path)
    with input_files.readable(path):
        text = text_files.opened(path, options.encoding)
        with text.open() as stream:
            rest = b""
            try:
                while chunk := stream.read(_CHUNK):
                    whole, end, rest = (rest + chunk).rpartition(b"\n")
                    if end:
                        yield _events(_as_text(lines(whole), lambda row: path, rejects=rejects))
                yield _events(_as_text(lines(rest), lambda row: path, rejects=rejects))
            except (UnicodeDecodeError, InvalidData) as broken:
                raise text.unreadable() or broken from broken


def _of_columns(given: Input, column: str | None, as_events: _AsEvents) -> Iterator[pa.Table]:
    wanted, first = column or VALUE, 0
    for table in given.tables:
        if not table.num_columns:
            continue
        check_column(wanted, table.column_names)
        key = _key_of(table, as_events is _as_bytes) if KEY in table.column_names and wanted != KEY else None
        texts = as_events(table[wanted], _numbered(f"column {wanted!r}, row", first))
        yield _events(texts, key, _offset_of(table) if wanted != OFFSET else None)
        first += table.num_rows


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
        raise InvalidData("the data has no such column of events", where=f"column {name!r}", expected=list(names), cure=_NAME_IT)


def _events(texts: Column, key: Column | None = None, offset: Column | None = None) -> pa.Table:
    """Events as a table."""
    made = pa.table({EVENT: texts, KEY: pa.nulls(len(texts), pa.string()) if key is None else key})
    return made if offset is None else made.append_column(OFFSET, offset)


def _as_bytes(values: Column, where: _Where) -> Column:
    """Bytes. Raises InvalidData for other values."""
    if not is_bytes(values.type) and not pa.types.is_null(values.type):
        cure = "pass the values as Kafka has them, or name their column"
        raise InvalidData("the events are no bytes", where="events", expected="bytes", found=values.type, cure=cure)
    return values.cast(pa.binary())


def _as_text(values: Column, where: _Where | None = None, *, rejects: bool = True) -> Column:
    """Texts, or bytes that are texts in UTF-8. Raises InvalidData for other values and, unless `rejects`, for bytes that are not
    UTF-8. `where`: names the place of a value."""
    try:
        return values.cast(pa.string())
    except pa.ArrowException as broken:
        if not is_bytes(values.type):
            raise InvalidData(
                "the events are not text",
                where="events",
                expected="text or bytes with JSON",
                found=f"{values.type}: {broken}",
                cure=_NAME_IT,
            ) from broken
    texts = unchecked(values)
    if rejects:
        return texts
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    row = int(in_utf_8(texts)[1].argmax())
    raise InvalidData(
        "an event is not text in UTF-8",
        where="" if where is None else where(row),
        expected="text in UTF-8",
        found=repr(values[row].as_py()[:_SHOWN]),
        cure=Wording(
            "correct the event; or pass on_error='reject', which writes such events to a table of their own; or name the column "
            "of the events: column=...",
            command="correct the event; or pass --reject (sync: --on-error reject), which writes such events to a table of "
            "their own",
        ),
    )
