"""Writes rows in this process: prepares them, collects them, writes each bucket and commits once.

Tasks of Spark use `Intake`, `bucket_messages` and `append_files`, and the driver commits with `publish`.

An `Intake` collects the rows of a large write: in memory up to `write-buffer-size`, then in sorted spill files. Rows carry their
`Arrival`, which gives the order of the rows of a key after any shuffle. A spill keeps all rows of a key if the changelog needs
them, or if the rule cannot combine them while rows that arrived between them may be in another spill.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.beside import Threads
from lsmlake.commit.commit import again, commit
from lsmlake.commit.request import Request, replayed
from lsmlake.commit.requirements import Fits
from lsmlake.compact.bucket_compaction import Picker
from lsmlake.compact.reshape import as_needed as as_needed_buckets
from lsmlake.compact.reshape import reshape
from lsmlake.errors import InvalidData, LakeError, SnapshotNotFound
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_writer import Opened
from lsmlake.files.divide import Divide, divide
from lsmlake.files.spill import Spill
from lsmlake.format.data_files import Bucket, BucketState, CommitMessage
from lsmlake.format.snapshot import Snapshot
from lsmlake.kernels.groups import Groups, gather, group
from lsmlake.kernels.keys import comparable, in_one_chunk
from lsmlake.lsm.cover import Covers
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.merge.merge_windows import RunReader, merge_windows, whole_keys
from lsmlake.lsm.merge.rule import MergeRule, OldRow
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.pick.reshaping import parts_of
from lsmlake.lsm.pick.strategy import as_needed
from lsmlake.options.changelog_options import INPUT
from lsmlake.options.option_types import AUTO
from lsmlake.schema.rowkind import INSERT, UPDATE_BEFORE, kinds_of, with_kind, with_kinds
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.storage.concurrency import prefetched, together
from lsmlake.storage.write_group import WriteGroup
from lsmlake.tables.version import Metadata, Version
from lsmlake.write.append import append_files
from lsmlake.write.bucket_writer import (
    WrittenRun,
    base_states,
    compacted_alone,
    compacted_onto,
    fold,
    in_replay_order,
    split,
    split_in_order,
    split_input,
    split_unfolded,
    write_level0,
)
from lsmlake.write.contended import compact_apart, note
from lsmlake.write.key_places import CHANGE, KeyPlaces, reports
from lsmlake.write.order import Arrival, Order, Ordered
from lsmlake.write.prepare import order_of, prepare, with_input_kinds, without_input_kinds
from lsmlake.write.read_set import PlacesUnchanged
from lsmlake.write.replace import Overwrite, Replacement
from lsmlake.write.write_request import WriteRequest

_log = logging.getLogger("lsmlake.write")
_SPLIT_INLINE_BYTES = 8 << 20  # rewritten in 0.3 seconds


class Part(NamedTuple):
    """Prepared rows and their order."""

    rows: pa.Table
    arrival: Arrival

    @staticmethod
    def of(rows: pa.Table, first: int = 0) -> Part:
        """Rows in the order of `rows`, numbered from `first` on."""
        return Part(rows, Arrival(first + np.arange(rows.num_rows)))


def write_tables(version: Version, tables: Iterable[pa.Table], request: WriteRequest) -> Snapshot | None:
    """Writes all tables in one commit: rows of users, in memory up to `write-buffer-size`. Tables without rows are ignored,
    whatever their columns.

    Returns:
        The new snapshot, None if there are no rows, or the earlier snapshot if `request.identity` has committed before; in this
        case `tables` is not read.

    Raises:
        InvalidData: A row is invalid; row numbers count through all tables. Nothing is committed.
    """
    if done := replayed(version, request.identity):
        return done
    parts = _prepared(tables, version.schema, request)
    pick = picker(version, request.compact, reclaims=request.reclaims)
    if version.schema.moves_keys:
        return _write_moving(version, parts, request, pick)
    decided = pick is None or request.compact is not None or request.replaces is not None
    apart = None if decided else version.meta.files.cache.contention
    messages = _written(version, parts, request, None if apart else pick)
    snapshot = publish(version, messages, request)
    if apart and snapshot is not None:
        compact_apart(version, snapshot, [message.bucket for message in messages], apart)
    return snapshot


def write_parts(version: Version, parts: Iterable[Part], request: WriteRequest, pick: Picker | None = None) -> Snapshot | None:
    """Writes prepared rows in one commit. An error removes the written files and leaves the table unchanged. `pick`: picks the
    inline compactions; an overwrite does not use it."""
    if version.schema.moves_keys:
        return _write_moving(version, parts, request, pick)
    return publish(version, _written(version, parts, request, pick), request)


def new_files(version: Version, tables: Iterable[pa.Table], ordered: Ordered = Ordered.ALL) -> list[CommitMessage]:
    """Writes the rows of a new table to files, under a key at the last level; returns one message per bucket. An error removes
    the written files. `ordered`: see `WriteRequest`."""
    request = WriteRequest(ordered=ordered, replaces=Replacement(everything=True))
    return _written(version, _prepared(tables, version.schema, request), request, None)


def picker(version: Version, compact: bool | None, *, reclaims: bool = True) -> Picker | None:
    """Returns the picker for inline compaction, None for no compaction. `compact`: True or False; None: as `write-only` says.
    `reclaims`: see `WriteRequest`."""
    compacts = not version.options.write.write_only if compact is None else compact
    return inline_picker(version, reclaims=reclaims) if compacts else None


def inline_picker(version: Version, *, reclaims: bool) -> Picker:
    """Returns the picker for inline compaction. `reclaims`: see `WriteRequest`."""
    options = version.options.compaction
    return as_needed(options if reclaims else options.reclaiming_later, version.meta.env.clock())


def _prepared(tables: Iterable[pa.Table], schema: Schema, request: WriteRequest) -> Iterator[Part]:
    first, order = 0, None
    for table in tables:
        if table.num_rows:
            order = order or (Order() if schema.append_only else order_of(table.schema, schema, request))
            rows, kept = prepare(order.without_own(table), schema, request, first)
            places = first + (np.arange(rows.num_rows) if kept is None else kept)
            yield Part(rows, Arrival(places, order.values(table, rows, kept), request.ordered))
        first += table.num_rows


def covers_for(version: Version, request: WriteRequest) -> Covers:
    """The buckets for the rows of a write: the buckets of `version` or, if the write replaces partitions, those of new
    partitions. If the version has expired, the commit divides files written for buckets that no longer exist."""
    first = version.options.layout.first_buckets
    if _begins_anew(version, request):
        return Covers(first)
    try:
        with version.unless_expired():
            return version.covers()
    except SnapshotNotFound:
        return Covers(first)


def known_partitions(version: Version, request: WriteRequest) -> Callable[[], Collection[tuple]] | None:
    """Returns a function that finds the partitions whose buckets the write may not choose; None if it chooses no buckets."""
    if version.options.layout.buckets != AUTO:
        return None
    return frozenset if _begins_anew(version, request) else version.partitions


def _begins_anew(version: Version, request: WriteRequest) -> bool:
    """Whether all rows go to partitions that are replaced. Keys that move also leave partitions that stay."""
    replaces = request.replaces
    return replaces is not None and (replaces.everything or not version.schema.moves_keys)


def _written(version: Version, parts: Iterable[Part], request: WriteRequest, pick: Picker | None) -> list[CommitMessage]:
    covers = covers_for(version, request)
    if version.schema.append_only:
        return append_files(version, (part.rows for part in parts), covers)
    workers = version.meta.env.workers
    if version.schema.moves_keys:
        with key_intake(version.schema, request, prepared=True) as given:
            given.add_all(parts)
            return placed_messages(version, given, request, pick, workers)
    with Intake(version.schema, covers, request, prepared=True, known=known_partitions(version, request)) as intake:
        intake.add_all(parts)
        return bucket_messages(version, intake, pick, workers)


# -- keys that move ---------------------------------------------------------------------------------------------------


def _write_moving(version: Version, parts: Iterable[Part], request: WriteRequest, pick: Picker | None) -> Snapshot | None:
    """As `write_parts`, for a table whose keys can move: if another commit has written some of the keys, the rows are placed and
    written again, unless it is a statement, which is evaluated again."""
    with key_intake(version.schema, request, prepared=True) as given:
        given.add_all(parts)
        return write_placed(version, given, request, pick)


def write_placed(version: Version, given: Intake, request: WriteRequest, pick: Picker | None) -> Snapshot | None:
    """Writes the rows of `key_intake` and commits them."""

    def write(now: Version, wanted: WriteRequest) -> Snapshot | None:
        messages = placed_messages(now, given, wanted, pick, now.meta.env.workers)
        return publish(now, messages, wanted if messages else request)

    return until_placed(version, request, write)


def until_placed(
    version: Version, request: WriteRequest, write: Callable[[Version, WriteRequest], Snapshot | None]
) -> Snapshot | None:
    """Writes rows placed at `version` and, as long as other commits have written some of their keys, at the newest one."""
    if request.requires is not None or (request.replaces is not None and request.replaces.everything):
        return write(version, request)

    def attempt(now: Version) -> Snapshot | None:
        if done := replayed(now, request.identity):
            return done
        now = replace(now, schema=version.schema)
        return write(now, replace(request, requires=(Fits(version.schema), PlacesUnchanged(now))))

    return again(version, attempt, "other commits wrote the same keys on every attempt", "run it again, or use fewer writers")


def key_intake(schema: Schema, request: WriteRequest, *, prepared: bool = False) -> Intake:
    """Collects the rows of a write by key, each key in one bucket of one partition by `Schema.of_keys`. Rows that are merged with
    the row of the table stay uncombined until they have their place."""
    return Intake(schema.of_keys, Covers(1), request, prepared=prepared, folds=rule_of(schema).old_row is not OldRow.MERGED)


def placed_messages(
    version: Version, given: Intake, request: WriteRequest, pick: Picker | None, workers: int = 1
) -> list[CommitMessage]:
    """Gives the rows of `key_intake` their places at a version and writes them; as `bucket_messages`. Can be repeated."""
    covers, known = covers_for(version, request), known_partitions(version, request)
    with Intake(version.schema, covers, request, prepared=True, known=known) as intake:
        intake.add_all(placed_parts(version, given, request))
        return bucket_messages(version, intake, pick, workers)


def placed_parts(version: Version, given: Intake, request: WriteRequest) -> Iterator[Part]:
    """The rows of `key_intake` with their places at a version."""
    places, first = KeyPlaces(version, request.replaces), 0
    for bucket in given.kept():
        for rows in bucket.rows:
            if rows.num_rows:
                part = Part.of(places.placed(rows), first)
                first += part.rows.num_rows
                yield part


# -- files and messages -----------------------------------------------------------------------------------------------


def bucket_messages(version: Version, intake: Intake, pick: Picker | None, workers: int = 1) -> list[CommitMessage]:
    """Writes the rows of an intake, bucket by bucket; returns one message per bucket. An error removes the written files.
    `workers`: how many buckets are written at once; the runs of small buckets in memory are written together.
    Raises InvalidData if the rows must be `distinct` and are not."""
    storage, discard = version.meta.env.storage, version.meta.files.discard
    if intake.in_memory:
        parts = list(intake.sorted())
        overwrites = intake.request.replaces is not None
        states = base_states(version, [part.bucket for part in parts]) if pick and not overwrites else {}
        size = intake.bytes + sum(file.bytes for state in states.values() for file in state.files)
        writes = _BucketWrites(version, intake, pick, states, max(1, workers // max(1, len(parts))))
        if len(parts) > 1 and WriteGroup.suits(storage, len(parts), size):
            at_once = workers if storage.at_once == 1 else storage.writes_at_once  # small compactions are mostly Python
            messages = writes.together(_released(parts), at_once)
        else:
            messages = together(writes.message, _released(parts), workers, discard)
    else:
        writes = _BucketWrites(version, intake, pick, None, 1)
        messages = together(writes.message if workers == 1 else writes.merged_ahead, intake.sorted(), workers, discard)
    if intake.request.distinct and sum(message.rows for message in messages) < intake.rows:
        discard(messages)
        raise InvalidData("several rows have one key", cure="write one row for each key")
    return messages


@dataclass(frozen=True)
class _BucketWrites:
    """Writes the buckets of an intake. `states`: the buckets at the version, as far as `pick` needs them; None: they are read one
    by one. `threads`: how many files of one bucket are encoded at once."""

    version: Version
    intake: Intake
    pick: Picker | None
    states: Mapping[Bucket, BucketState] | None
    threads: int

    def message(self, part: BucketRows) -> CommitMessage | None:
        """Writes and compacts a bucket; None if it has no row."""
        run = self._run(part)
        if run is None:
            return None
        try:
            return self._compacted(run)
        except BaseException:
            self.version.meta.files.discard([run.message])
            raise

    def merged_ahead(self, part: BucketRows) -> CommitMessage | None:
        """As `message`; another thread merges the next spilled rows while this one encodes."""
        with Threads(1) as threads:
            return self.message(part._replace(rows=prefetched(part.rows, threads)))

    def together(self, parts: Iterable[BucketRows], workers: int) -> list[CommitMessage]:
        """Writes the runs of small buckets as one group, and then compacts those that are due, `workers` at once."""
        runs = []
        with WriteGroup.of(self.version.meta.env.storage) as group:
            for part in parts:
                if (run := self._run(part, group.write)) is not None:
                    runs.append(run if self._overwrites else run.if_due(self._state(part.bucket), self.pick))
        try:
            return together(self._compacted, runs, workers, lambda done: None)
        except BaseException:
            self.version.meta.files.discard([run.message for run in runs])
            raise

    @property
    def _overwrites(self) -> bool:
        return self.intake.request.replaces is not None

    def _run(self, part: BucketRows, opened: Opened | None = None) -> WrittenRun | None:
        files = BucketFiles.of(self.version, part.bucket, opened)
        if not self._overwrites:
            compacts = self.pick is not None
            return write_level0(files, part.total, part.rows, part.changelog, compacts=compacts, threads=self.threads)
        stays = self.version.schema.moves_keys and part.bucket not in self.intake.named
        return write_level0(files, part.total, part.rows, compacts=not stays, reports=False, threads=self.threads)

    def _compacted(self, run: WrittenRun) -> CommitMessage:
        if run.cached_rows is None:
            return run.message
        if self._overwrites:
            return compacted_alone(self.version, run)
        return compacted_onto(self.version, run, self._state(run.message.bucket), self.pick)

    def _state(self, bucket: Bucket) -> BucketState | None:
        known = base_states(self.version, [bucket]) if self.states is None and self.pick else self.states or {}
        return known.get(bucket)


def _released(parts: list[BucketRows]) -> Iterator[BucketRows]:
    """Yields the parts and removes each from the list, so its memory is freed early."""
    while parts:
        yield parts.pop(0)


def publish(
    version: Version, messages: Sequence[CommitMessage], request: WriteRequest, divide: Divide = divide
) -> Snapshot | None:
    """Commits the messages of a write. Returns None if there was nothing to commit. `divide`: see `Request`."""
    replaces = request.replaces
    if not messages and request.advance is None and (replaces is None or request.requires is not None):
        return None
    restate = None if replaces is None else Overwrite.of(replaces, version.schema, messages).restate
    remade, properties = replaces is not None, request.properties()
    given = request.identity, messages, request.requires, restate, remade, properties
    changes = Request(*given, divide=divide, advance=request.advance)
    committed = commit(version, changes)
    snapshot = committed.snapshot
    if snapshot is not None:
        inline = {message.bucket for message in messages if message.compact is not None and message.append is not None}
        lost = any(edit.base is None for edit in committed.edits if edit.bucket in inline)
        if lost or version.meta.files.cache.contention is not None:
            note(version, snapshot, lost=lost)
        _split_small(version, snapshot, messages)
        if _log.isEnabledFor(logging.INFO):
            _tell(version.meta, snapshot, messages)
    return snapshot


def _split_small(version: Version, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> None:
    """After a write with compaction under `bucket = auto`, splits the buckets that have grown too large, if that is quick. Errors
    are logged, not raised, since the write has succeeded."""
    layout = version.options.layout
    if layout.buckets != AUTO or not version.schema.bucket_key:
        return
    large = {message.bucket for message in messages if layout.target_bytes < _bytes_after(message) <= _SPLIT_INLINE_BYTES}
    if not large:
        return
    try:
        now = Version.at(version.meta, snapshot)
        partitions = dict.fromkeys(bucket.partition_key for bucket in large)
        reshape(now, as_needed_buckets(now, _SPLIT_INLINE_BYTES), large.__contains__, partitions=partitions)
    except LakeError as error:
        _log.warning("%s: large buckets were not split after snapshot %d: %s", version.meta.paths.root, snapshot.id, error)


def _bytes_after(message: CommitMessage) -> int:
    """The bytes of a bucket after its inline compaction; 0 if there was none."""
    edit = message.compact
    if edit is None or edit.base is None:
        return 0
    gone = sum(file.bytes for file in edit.removed)
    return sum(file.bytes for file in (*edit.base.files, *edit.added)) - gone


def _tell(meta: Metadata, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> None:
    """Logs the state of the buckets after a write. Reads these buckets' metadata."""
    compact_ms = [message.compact_ms for message in messages if message.compact is not None]
    told = meta.paths.root, snapshot.id, snapshot.delta_rows, len(messages), len(compact_ms)
    try:
        states = Version.at(meta, snapshot).states([message.bucket for message in messages])
    except LakeError as error:  # the write has succeeded; such as a snapshot that has expired already
        _log.info("%s: snapshot %d, %d rows, %d buckets, %d of them compacted; their runs are not known: %s", *told, error)
        return
    runs = max((len(Levels.of(state.files).level0_runs) for state in states.values()), default=0)
    line = "%s: snapshot %d, %d rows, %d buckets, %d of them compacted in %.2f s, at most %d runs at level 0"
    _log.info(line, *told, sum(compact_ms) / 1000, runs)


# -- collecting rows --------------------------------------------------------------------------------------------------


_FINER, _FINER_PARTITIONS = 64, 8
"""Parts that the rows of a new partition are spilled in; of a table with partitions fewer, as there may be many partitions."""
_EXPANSION = 4  # bytes in memory per byte of a Parquet file
Numbers = "pa.ChunkedArray | np.ndarray"


class BucketRows(NamedTuple):
    """The combined `rows` of a bucket, ascending by key: a list if they are in memory, else an iterator. `total`: the total of
    the bucket. `changelog`: all rows with their input kinds, if the input is the changelog."""

    bucket: Bucket
    total: int
    rows: list[pa.Table] | Iterator[pa.Table]
    changelog: Iterable[pa.Table]


class Intake:
    """Collects tables with `add`, then yields the rows of each bucket, sorted and combined. A context manager: it removes its
    spills at the end.

    `covers`: the buckets of each partition. `request`: how to prepare the rows when they are sorted, unless they are `prepared`.
    `known`: finds the partitions that have files; under `bucket = auto`, other partitions get as many buckets as their rows need,
    if rows are spilled. `folds`: combine the rows of a key.

    Placed rows (`write.key_places`) may have the column `CHANGE`, which tells the rows of the changelog.
    """

    def __init__(
        self,
        schema: Schema,
        covers: Covers,
        request: WriteRequest,
        *,
        prepared: bool = False,
        known: Callable[[], Collection[tuple]] | None = None,
        folds: bool = True,
    ) -> None:
        self.schema, self.covers, self.request, self.prepared, self.folds = schema, covers, request, prepared, folds
        self.tables: list[tuple[pa.Table, Arrival, Numbers | None]] = []
        self.bytes = 0
        self.rows = 0  # prepared so far, before rows of a key are combined
        self.ordered = Ordered.ALL
        self.spill: Spill | None = None
        self.known, self.sizes = known, Counter[Bucket]()
        self.kinds = False  # whether any spilled row is not +I
        self.writes_changelog = schema.parsed_options.changelog.producer == INPUT and request.replaces is None
        self.flagged = schema.moves_keys and reports(schema, request.replaces)
        self.named: set[Bucket] = set()  # with rows that are not only removed, because their keys have moved
        self._sorted: list[BucketRows] | None = None

    @property
    def in_memory(self) -> bool:
        """Whether no row was spilled."""
        return self.spill is None

    def __enter__(self) -> Intake:
        return self

    def __exit__(self, *_: object) -> None:
        if self.spill is not None:
            self.spill.close()

    def add(self, rows: pa.Table, arrival: Arrival, numbers: Numbers | None = None) -> None:
        """Adds rows. `numbers`: the bucket numbers of the rows, if known. Invalid rows raise InvalidData here or in `sorted`."""
        self.tables.append((rows, arrival, numbers))
        self.ordered = arrival.ordered
        self.bytes += rows.get_total_buffer_size()  # nbytes reads offsets that Spark 4.1 leaves out of empty nested columns
        several = len(self.tables) > 1 or self.spill is not None  # a single table is in memory already
        if several and self.bytes >= self.schema.parsed_options.write.buffer_bytes:
            self.spill = self.spill or self._begun_spill()
            self.spill.write(self._unmerged())

    def add_all(self, parts: Iterable[Part]) -> None:
        """Adds prepared rows."""
        for part in parts:
            if part.rows.num_rows:
                self.add(part.rows, part.arrival)

    def kept(self) -> Iterable[BucketRows]:
        """As `sorted`, and can be repeated: rows in memory stay there."""
        if self.in_memory and self._sorted is None:
            self._sorted = list(self.sorted())
        return self.sorted() if self._sorted is None else self._sorted

    def sorted(self) -> Iterator[BucketRows]:
        """Yields the rows bucket by bucket."""
        covers = self.covers
        if self.spill is None:
            if not self.tables:
                return
            rows, numbers, arrival = self._prepared()
            changelog: dict[Bucket, pa.Table] = {}
            if self.flagged:
                changes, rows, numbers, arrival = _apart(rows, numbers, arrival)
                changelog = dict(split_unfolded(changes.rows, self.schema, covers, changes.numbers, changes.arrival))
            elif self.writes_changelog:
                changelog = dict(split_input(rows, self.schema, covers, numbers, arrival))
            combined = split if self.folds else split_in_order
            for bucket, part in combined(rows, self.schema, covers, numbers, arrival):
                self._note(bucket, part)
                given = [self._emitted(changelog.pop(bucket))] if bucket in changelog else ()
                yield BucketRows(bucket, covers.total(bucket), [part], given)
            return
        if self.tables:
            self.spill.write(self._unmerged())
        parts: dict[tuple[Bucket, int], list[Bucket]] = {}
        for bucket in sorted(self.spill.keys(), key=str):
            parts.setdefault(self._grown(bucket), []).append(bucket)
        for (bucket, total), spilled in parts.items():
            has_changelog = self.writes_changelog or self.flagged
            yield BucketRows(bucket, total, self._merged(spilled), self._changelog(spilled) if has_changelog else ())

    def _begun_spill(self) -> Spill:
        if self.known is not None:
            finer = _FINER if not self.schema.partition_columns else _FINER_PARTITIONS
            self.covers = replace(self.covers, finer=finer, known=self.known())
        return Spill()

    @cached_property
    def _first_sizes(self) -> Counter[Bucket]:
        """Estimated stored bytes of the first buckets of new partitions."""
        sizes_by_bucket: Counter[Bucket] = Counter()
        for bucket, size in self.sizes.items():
            sizes_by_bucket[self._first(bucket)] += size // _EXPANSION
        return sizes_by_bucket

    def _grown(self, bucket: Bucket) -> tuple[Bucket, int]:
        """The bucket, and its total, to which the rows of a spilled bucket go."""
        covers = self.covers
        if covers.finer == 1 or not covers.is_new(bucket.partition_key):
            return bucket, covers.total(bucket)
        size, first = self._first_sizes[self._first(bucket)], covers.first_of(bucket.partition_key)
        total = first * min(covers.finer, parts_of(size, self.schema.parsed_options.layout.target_bytes))
        return bucket._replace(number=bucket.number % total), total

    def _first(self, bucket: Bucket) -> Bucket:
        """The bucket of a new partition of which a spilled bucket is a part."""
        return bucket._replace(number=bucket.number % self.covers.first_of(bucket.partition_key))

    def _prepared(self) -> tuple[pa.Table, np.ndarray | None, Arrival]:
        """Returns the rows in memory, prepared, with their bucket numbers, if known, and arrival. Empties the buffer."""
        buffered, self.tables, self.bytes = self.tables, [], 0
        tables, arrivals, known = zip(*buffered, strict=True)
        del buffered
        data = pa.concat_tables(with_kinds(list(tables)) if self.prepared else tables)
        numbers = None if known[0] is None else np.concatenate([np.asarray(one) for one in known])
        arrival = Arrival.joined(arrivals)
        rows, kept = (data, None) if self.prepared else prepare(data, self.schema, self.request, None)
        self.rows += rows.num_rows
        if len(tables) > 1:  # no more than the buffer: joined once, not for each bucket
            rows = in_one_chunk(rows)
        if kept is None:
            return rows, numbers, arrival
        return rows, None if numbers is None else numbers[kept], arrival.take(kept)

    def _unmerged(self) -> Iterator[tuple[Bucket, pa.Table]]:
        """Yields the rows in memory by bucket, for a spill."""
        rows, numbers, arrival = self._prepared()
        self.kinds |= ROW_KIND in rows.column_names and bool(kinds_of(rows).any())
        rows = _uniform(rows)
        for name, column in arrival.columns().items():
            rows = rows.append_column(name, column)
        unfolded = self.writes_changelog or self.flagged or rule_of(self.schema).repeats_keys
        parts = split_unfolded if unfolded else split
        for bucket, part in parts(rows, self.schema, self.covers, None if self.covers.finer > 1 else numbers, arrival):
            self.sizes[bucket] += part.nbytes
            self._note(bucket, part)
            yield bucket, part

    def _note(self, bucket: Bucket, rows: pa.Table) -> None:
        if self.schema.moves_keys and self.request.replaces is not None:
            kinds = kinds_of(rows)
            if kinds is None or (kinds != UPDATE_BEFORE).any():
                self.named.add(bucket)

    def _merged(self, buckets: Sequence[Bucket]) -> Iterator[pa.Table]:
        key = self.schema.key
        rule = rule_of(self.schema)
        kinds = self.kinds or rule.repeats_keys
        merge = partial(_folded if self.folds else _in_order, key=key, rule=rule, ordered=self.ordered)
        for table in merge_windows(self._runs(buckets, changes=False), key, merge):
            yield _uniform(table) if kinds else table.select(self.schema.columns.names)

    def _changelog(self, buckets: Sequence[Bucket]) -> Iterator[pa.Table]:
        key, rule = self.schema.key, rule_of(self.schema)
        merge = partial(_ordered, key=key, rule=rule)
        if self.flagged:
            merge = partial(_in_order, key=key, rule=rule, ordered=Ordered.ALL)
        yield from map(self._emitted, merge_windows(self._runs(buckets, changes=True), key, merge))

    def _emitted(self, rows: pa.Table) -> pa.Table:
        """The rows of a changelog with their kinds."""
        return rows if self.flagged else with_input_kinds(rows)

    def _runs(self, buckets: Sequence[Bucket], *, changes: bool) -> list[RunReader]:
        """The runs of the spills of a bucket, oldest first: the rows, or those of the changelog."""
        runs = [run for bucket in buckets for run in self.spill.runs(bucket)]
        if self.flagged:
            runs = [((_part_of(table, changes) for table in tables), rows) for tables, rows in runs]
        return [RunReader(whole_keys(tables, self.schema.key), rows) for tables, rows in runs]


class _Changes(NamedTuple):
    """Rows of the changelog, as `Intake.add` takes them."""

    rows: pa.Table
    numbers: np.ndarray | None
    arrival: Arrival


def _apart(rows: pa.Table, numbers: np.ndarray | None, arrival: Arrival) -> tuple[_Changes, pa.Table, np.ndarray | None, Arrival]:
    """Takes the rows of the changelog out of placed rows."""
    of_changelog = np.asarray(rows[CHANGE])
    both = []
    for chosen in (np.flatnonzero(of_changelog), np.flatnonzero(~of_changelog)):
        some = gather(rows.drop_columns([CHANGE]), chosen)
        some = some if kinds_of(some).any() else some.drop_columns([ROW_KIND])
        both.append(_Changes(some, None if numbers is None else numbers[chosen], arrival.take(chosen)))
    return both[0], *both[1]


def _part_of(rows: pa.Table, changes: bool) -> pa.Table:
    """The rows of the changelog of placed rows, or the others."""
    return rows.filter(pa.array(np.asarray(rows[CHANGE]) == changes)).drop_columns([CHANGE])


def _uniform(rows: pa.Table) -> pa.Table:
    """Adds `_row_kind` if it is missing: the spills of a bucket and the tables of a run need the same columns."""
    return rows if ROW_KIND in rows.column_names else with_kind(rows, INSERT)


def _folded(pieces: list[pa.Table], key: tuple[str, ...], rule: MergeRule, ordered: Ordered) -> pa.Table:
    joined, groups, arrival = _grouped(pieces, key, ordered)
    rows = without_input_kinds(joined)
    arrival.check(rows, groups, rule, key)
    return fold(rows, groups, rule, key, None)


def _in_order(pieces: list[pa.Table], key: tuple[str, ...], rule: MergeRule, ordered: Ordered) -> pa.Table:
    joined, groups, arrival = _grouped(pieces, key, ordered)
    arrival.check(joined, groups, rule, key)
    return gather(joined, groups.rows)


def _ordered(pieces: list[pa.Table], key: tuple[str, ...], rule: MergeRule) -> pa.Table:
    joined, groups, _ = _grouped(pieces, key, Ordered.ALL)
    return in_replay_order(joined, groups, rule, None)


def _grouped(pieces: list[pa.Table], key: tuple[str, ...], ordered: Ordered) -> tuple[pa.Table, Groups, Arrival]:
    joined, arrival = Arrival.taken_from(pa.concat_tables(pieces), ordered)
    keys = np.concatenate(comparable([piece.select(key) for piece in pieces]))
    return joined, group(keys, arrival.order()), arrival
