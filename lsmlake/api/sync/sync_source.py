"""The batches of events that `Lake.sync` reads in this process: files, or batches that the caller gives."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.api.sync.sync_checkpoint import SyncProgress
from lsmlake.cdc.event_queries import EVENT, KEY, OFFSET
from lsmlake.cdc.given_events import EventTables, in_lists, paths_in, texts_in
from lsmlake.errors import InvalidData, InvalidOption, InvalidQuery, Wording, few, with_arguments
from lsmlake.inputs import input_files
from lsmlake.inputs.text_files import FileOptions
from lsmlake.options.option_types import duration

_BATCH_BYTES, _BATCH_FILES = 64 << 20, 1000


class EventBatch(NamedTuple):
    """A batch to apply. `reads`: what it reads, for the checkpoint; `number`: None: the next one."""

    reads: Mapping[str, object]
    events: pa.Table
    number: int | None = None


@dataclass(frozen=True)
class EventInput:
    """How events are read from data: the column, how text files are read, whether events are bytes, and whether those that cannot
    be read are rejected."""

    column: str | None
    files: FileOptions
    of_bytes: bool
    rejects: bool

    def table(self, data: object) -> pa.Table:
        """The events of data, as one table. Raises InvalidData."""
        empty = pa.table({EVENT: pa.nulls(0, pa.binary() if self.of_bytes else pa.string())})
        events = EventTables(data, self.column, self.files, of_bytes=self.of_bytes, rejects=self.rejects)
        with events.placed():
            tables = list(events)
        return pa.concat_tables(map(_plain, tables or [empty]), promote_options="default")


def _plain(events: pa.Table) -> pa.Table:
    """Events whose columns have the same types, whatever data they come from."""
    keyless = KEY not in events.column_names or events[KEY].null_count == events.num_rows
    columns = {EVENT: events[EVENT]} | ({} if keyless else {KEY: events[KEY]})
    return pa.table(columns | ({OFFSET: events[OFFSET].cast(pa.int64())} if OFFSET in events.column_names else {}))


@dataclass(frozen=True)
class FileSource:
    """Files of events: paths, folders and globs. A file is read once, and must not change once it is there."""

    names: Sequence[str]
    given: EventInput

    def again(self, reads: Mapping[str, object]) -> pa.Table:
        """The events of a batch that was begun before."""
        return self._events(list(reads))

    def place(self, reads: Mapping[str, object]) -> str:
        """Where the events of a batch are from, for errors."""
        return next(iter(reads)) if len(reads) == 1 else f"one of {few(list(reads))}"

    def batches(self, progress: SyncProgress) -> Iterator[EventBatch]:
        """The batches of the files that no batch has read. Raises InvalidData if a file has changed that one has read."""
        files: dict[str, int] = {}
        for path, size in self._found():
            if path not in progress.known:
                files[path] = size
            elif progress.known[path] != size:
                raise InvalidData(
                    "a file of events has changed after it was read",
                    where=path,
                    expected=f"{progress.known[path]} bytes",
                    found=f"{size} bytes",
                    cure="write new events to new files; move a file into the folder when it is complete",
                )
        for reads in _in_batches(files):
            yield EventBatch(reads, self._events(list(reads)))

    def _found(self) -> list[tuple[str, int]]:
        found: dict[str, None] = {}
        for name in self.names:
            found |= dict.fromkeys(str(Path(path).absolute()) for path in input_files.find_any(name, empty=True))
        return [(path, Path(path).stat().st_size) for path in found]

    def _events(self, paths: list[str]) -> pa.Table:
        return pa.concat_tables([self.given.table(path) for path in paths], promote_options="default")


def _in_batches(files: Mapping[str, int]) -> Iterator[dict[str, object]]:
    """Files, as many as fit a batch."""
    reads: dict[str, object] = {}
    held = 0
    for path, size in files.items():
        if reads and (held + size > _BATCH_BYTES or len(reads) >= _BATCH_FILES):
            yield reads
            reads, held = {}, 0
        reads[path] = size
        held += size
    if reads:
        yield reads


@dataclass(frozen=True)
class GivenBatches:
    """Batches that the caller gives, numbered from 0, or each with its number. The caller gives the same batches again after it
    was restarted; those that are done are compared with what was read then, and skipped."""

    data: Iterator[object]
    given: EventInput

    def again(self, reads: Mapping[str, object]) -> pa.Table | None:
        """The events of a batch that was begun before: None, because the caller gives them again."""
        return None

    def place(self, reads: Mapping[str, object]) -> str:
        """Where the events of a batch are from, for errors: "", because the caller knows it."""
        return ""

    def batches(self, progress: SyncProgress) -> Iterator[EventBatch]:
        """The batches that are not done. Raises InvalidData for one that differs from what was read under its number."""
        number = -1
        for item in self.data:
            paired = isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], int) and not isinstance(item[0], bool)
            following, data = item if paired else (number + 1, item)
            if following <= number:
                raise InvalidData(
                    "the numbers of batches do not grow", expected=f"more than {number}", found=following, cure="correct them"
                )
            number = following
            events = self.given.table(data)
            digest = _digest(events)
            known = progress.known.get(str(number))
            if known is not None and known != digest:
                raise InvalidData(
                    "a batch differs from the one that was read under its number",
                    where=f"batch {number}",
                    cure="give the same batches again, or (number, batch) with new numbers, or use another checkpoint",
                )
            is_open = progress.open is not None and str(number) in progress.open
            if known is None and number <= progress.last:
                raise InvalidData(
                    "a batch comes after batches with greater numbers",
                    where=f"batch {number}",
                    expected=f"more than {progress.last}",
                    cure="number the batches in their order",
                )
            if known is None or is_open:
                yield EventBatch({str(number): digest}, events, number)


def _digest(events: pa.Table) -> str:
    """A text by which the events of a batch are recognised."""
    made = hashlib.sha256()
    for name, column in zip(events.column_names, events.columns, strict=True):
        is_number = pa.types.is_integer(column.type)
        numbers = pc.fill_null(column if is_number else pc.binary_length(column), -1)
        made.update(name.encode() + np.asarray(numbers).astype(np.int64).tobytes())
        if not is_number:
            values = column.combine_chunks().cast(pa.large_binary()).drop_null()
            ends = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
            made.update(memoryview(values.buffers()[2] or b"")[ends[0] : ends[-1]] if len(ends) else b"")
    return made.hexdigest()


Source = FileSource | GivenBatches


def source_of(data: object, given: EventInput) -> Source:
    """The batches in what a caller gives. Raises InvalidQuery for data that has no events."""
    if names := paths_in(data):
        return FileSource(names, given)
    if isinstance(data, (str, bytes, PurePath)) or not hasattr(data, "__next__"):
        return GivenBatches(iter([data]), given)
    texts, rest = texts_in(data)
    return GivenBatches(rest if texts is None else in_lists(texts), given)


def pause_ms(every: str | int, cure: str | Wording) -> int:
    """The time between two looks for new files. Raises InvalidOption for what is no time, and for none."""
    wait_ms = duration.argument("every", every, "sync", cure)
    if wait_ms <= 0:
        what = with_arguments("{} is no time to wait", "every")
        raise InvalidOption(what, where="sync", expected="more than 0 ms", found=every, cure=cure)
    return wait_ms


def check_files(source: Source, every: object, checkpoint: object) -> None:
    """Raises InvalidQuery if `every` is given for a source without files, or without a checkpoint that remembers the files."""
    if every is None:
        return
    if not isinstance(source, FileSource):
        cure = Wording("leave every out: an iterator may wait for its next batch", command="leave --every out")
        raise InvalidQuery("every looks for new files, and the source has none", where="every", found="batches", cure=cure)
    if checkpoint is None:
        cure = Wording("pass checkpoint, too", command="add --checkpoint DIR")
        raise InvalidQuery("every needs a checkpoint, which remembers the files that were read", where="every", cure=cure)
