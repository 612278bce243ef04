"""Divides the files of old buckets of a partition among new buckets, when buckets are split or merged.

Rows keep their order in time and their kinds; rows that vectors mark are left out. So the table has the same rows and changes
before and after:

1. The files of one commit at level 0 become one run of each new bucket. So do the files of all deeper levels, in a table with
   deletion vectors: no key is in two of them, and one run saves later compactions. It lies at the deepest of these levels.
   Otherwise the files of each deeper level become a run of this level.
2. Runs of several old buckets are merged by key; no key is in two buckets.
3. Files of retained deletes, and changelog files, are divided one by one.
4. Files keep their sequences.

The rows are read once for every `AT_ONCE` new buckets; each of these new buckets holds the rows of one row group in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_reader import live_rows
from lsmlake.files.data_writer import CHANGELOG, DATA, Origin, nan_columns_of
from lsmlake.files.retained import Retained
from lsmlake.files.spill import in_key_order
from lsmlake.format.data_files import COMPACT, IMPORT, Bucket, BucketState, DataFile
from lsmlake.format.deletion_vector import EMPTY
from lsmlake.kernels.bucket_hash import spark_hash
from lsmlake.kernels.groups import gather
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.cover import Share
from lsmlake.lsm.levels import Levels, recency
from lsmlake.lsm.merge.merge_windows import RunReader, merge_windows, whole_keys
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.pick.picked import last_level_of
from lsmlake.schema.rowkind import with_kinds
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.storage.concurrency import together
from lsmlake.tables.version import Metadata

AT_ONCE = 8
"""New buckets that are written at the same time."""


@dataclass(frozen=True)
class OldBucket:
    """The files of a bucket that are divided. `state`: its files, vectors and retained deletes. `changelog`: files of changes."""

    state: BucketState
    changelog: tuple[DataFile, ...] = ()


@dataclass
class NewBucket:
    """The files of a new bucket. `added`: files of rows and of retained deletes."""

    bucket: Bucket
    total: int
    added: list[DataFile] = field(default_factory=list)
    changelog: list[DataFile] = field(default_factory=list)

    @property
    def files(self) -> tuple[DataFile, ...]:
        return *self.added, *self.changelog


class Division(NamedTuple):
    """Old buckets of a partition, and the new buckets that take their rows. Rows that belong to no new bucket are left out."""

    given: Sequence[OldBucket]
    shares: Sequence[Share]

    def parts(self) -> list[Division]:
        """The division in parts, each of which reads all rows."""
        return [Division(self.given, self.shares[first : first + AT_ONCE]) for first in range(0, len(self.shares), AT_ONCE)]

    @property
    def bytes(self) -> int:
        """The number of bytes to read."""
        return sum(file.bytes for one in self.given for file in (*one.state.all_files, *one.changelog))


Divide = Callable[[Metadata, Schema, Sequence[Division]], "list[NewBucket]"]
"""`divide`, or a function that spreads it over the tasks of an engine."""


def divide(meta: Metadata, schema: Schema, works: Sequence[Division]) -> list[NewBucket]:
    """Writes the rows of old buckets to files of new buckets. After an error no new file is left."""
    parts = [part for work in works for part in work.parts()]

    def undo(done: Iterable[list[NewBucket]]) -> None:
        discard(meta, chain.from_iterable(done))

    return list(chain.from_iterable(together(partial(divide_part, meta, schema), parts, meta.env.workers, undo)))


def divide_part(meta: Metadata, schema: Schema, part: Division) -> list[NewBucket]:
    """Writes one part of a division. After an error no new file is left."""
    return _NewBuckets(meta, schema, part.given, part.shares).made()


def discard(meta: Metadata, made: Iterable[NewBucket]) -> None:
    """Deletes files that no snapshot references."""
    meta.files.delete_quietly(path for one in made for file in one.files for path in meta.paths.with_index(file))


class _NewBuckets:
    """The new buckets that are written at the same time."""

    def __init__(self, meta: Metadata, schema: Schema, given: Sequence[OldBucket], shares: Sequence[Share]) -> None:
        self.meta, self.schema, self.given, self.shares = meta, schema, given, shares
        partition, _, spec = given[0].state.bucket
        self.new_buckets = [NewBucket(Bucket(partition, share.number, spec), share.total) for share in shares]
        self.targets = [BucketFiles(meta, schema, one.bucket) for one in self.new_buckets]
        self.vectors = schema.parsed_options.layout.deletion_vectors

    def made(self) -> list[NewBucket]:
        try:
            for files in self._groups():
                self._write(files, self._rows(files), _origin(files), DATA)
            for one in self.given:
                retained = Retained.of(self._files_of(one), (), rule_of(self.schema))
                for file in one.state.retained:
                    rows = retained.rows_of(file)
                    places = self._places(rows)
                    for place, target in enumerate(self.targets):
                        own = rows.filter(pa.array(places == place))
                        self.new_buckets[place].added += retained.written_to(target, own, file)
            self._write_changelog()
        except BaseException:
            discard(self.meta, self.new_buckets)
            raise
        return self.new_buckets

    def _groups(self) -> Iterator[list[tuple[OldBucket, DataFile]]]:
        """Groups of files that become one run of each new bucket; the files of a bucket are in key order. In an append-only table
        each file is a group."""
        placed = [(one, file) for one in self.given for file in one.state.files]
        if not self.schema.key:
            yield from ([place] for place in placed)
            return
        placed = [(one, file.at_level(self._level(one, file))) for one, file in placed]

        def age(place: tuple[OldBucket, DataFile]) -> tuple:
            level = place[1].level
            return recency(place[1]) if not level else () if self.vectors else (level,)

        for _, group in groupby(sorted(placed, key=age), key=age):
            yield list(group)

    def _level(self, one: OldBucket, file: DataFile) -> int:
        """The level of the rows of a file in the new buckets. Rows at the last level of a bucket go to the last level."""
        if len(self.given) == 1 or not file.level:
            return file.level
        options = self.schema.parsed_options.compaction
        last = {id(each): last_level_of(options, Levels.of(each.state.files)) for each in self.given}
        return max(last.values()) if file.level == last[id(one)] else file.level

    def _rows(self, files: Sequence[tuple[OldBucket, DataFile]]) -> Iterator[pa.Table]:
        """The live rows of files that are one run, in key order."""
        marked = any(file.delete_rows for _, file in files) and not (self.vectors and files[0][1].level)
        runs = []
        for one in self.given:
            own = [file for each, file in files if each is one]
            in_runs = sorted(own, key=lambda file: (file.level, file.sorted, file.min_key))
            for (_, in_order), run in groupby(in_runs, key=lambda file: (file.level, file.sorted)):
                run = list(run)
                rows = self._live(one, run, kinds=marked)
                if self.schema.key and not in_order:
                    buffer, window = self.schema.parsed_options.write.buffer_bytes, self.meta.env.limits.window_bytes
                    rows = in_key_order(rows, self.schema.key, buffer, window)
                runs.append(RunReader(whole_keys(rows, self.schema.key) if marked else rows, sum(file.rows for file in run)))
        if len(runs) == 1:
            yield from runs[0].chunks
        else:
            yield from merge_windows(runs, self.schema.key, self._merged, self.meta.env.limits.window_bytes)

    def _live(self, one: OldBucket, files: Sequence[DataFile], *, kinds: bool) -> Iterator[pa.Table]:
        names, vectors = self.schema.columns.names, self.meta.vectors.read(one.state.vectors, files)
        for file in files:
            with self._files_of(one).open(file) as reader:
                for chunk in reader.stream([*names, *([ROW_KIND] if kinds and file.delete_rows else [])]):
                    rows = live_rows(chunk, vectors.get(file.name, EMPTY))
                    yield from with_kinds([rows], always=kinds)

    def _merged(self, pieces: list[pa.Table]) -> pa.Table:
        keys = np.concatenate(comparable([piece.select(self.schema.key) for piece in pieces]))
        return gather(pa.concat_tables(pieces), np.argsort(keys, kind="stable"))

    def _write(self, files: Sequence[tuple[OldBucket, DataFile]], rows: Iterable[pa.Table], origin: Origin, prefix: str) -> None:
        nan_columns = nan_columns_of((file for _, file in files), self.schema)
        with ExitStack() as stack:
            writers = [stack.enter_context(target.run_writer(origin, nan_columns, prefix)) for target in self.targets]
            for table in rows:
                places = self._places(table)
                for place, writer in enumerate(writers):
                    own = places == place
                    writer.add(table if own.all() else table.filter(pa.array(own)))
            written = [writer.finish() for writer in writers]
        created_ms = None if origin.level and prefix == DATA else max(file.created_ms for _, file in files)
        for target, run in zip(self.new_buckets, written, strict=True):
            kept = (file if created_ms is None else file._replace(created_ms=created_ms) for file in run)
            (target.added if prefix == DATA else target.changelog).extend(kept)

    def _write_changelog(self) -> None:
        """Divides the changelog files: all rows with their kinds; the rows of a key stay in order."""
        files = [(one, file) for one in self.given for file in one.changelog]
        if not files:
            return
        runs = []
        for one in self.given:
            rows = whole_keys(self._live(one, one.changelog, kinds=True), self.schema.key)
            runs.append(RunReader(rows, sum(file.rows for file in one.changelog)))
        merged = merge_windows(runs, self.schema.key, self._merged, self.meta.env.limits.window_bytes)
        self._write(files, merged, Origin(0, files[0][1].source), CHANGELOG)

    def _places(self, rows: pa.Table) -> np.ndarray:
        """The position in `shares` of the bucket of each row; -1 for rows outside."""
        hashes = spark_hash([rows[name] for name in self.schema.bucket_key])
        places = np.full(rows.num_rows, -1)
        for place, (number, total) in enumerate(self.shares):
            places[np.mod(hashes, np.int32(total)) == number] = place
        return places

    def _files_of(self, one: OldBucket) -> BucketFiles:
        return BucketFiles(self.meta, self.schema, one.state.bucket)


def _origin(files: Sequence[tuple[OldBucket, DataFile]]) -> Origin:
    """The properties that the files of a run keep. A file without a sequence belongs to the commit being built."""
    own = [file for _, file in files]
    newest, oldest = [file.sequence for file in own], [file.min_sequence for file in own if file.min_sequence is not None]
    source = own[0].source if own[0].level == 0 or (len(own) == 1 and own[0].source != IMPORT) else COMPACT
    return Origin(max(file.level for file in own), source, None if None in newest else max(newest), min(oldest, default=None))
