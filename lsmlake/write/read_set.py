"""The rows that a statement would have read, and the requirement that no other commit changed any of them.

The requirement of a statement on a table with a primary key:

1. Commits that only compacted changed no row.
2. A statement writes every row that it changes, so its own files name their keys. Such a key, and the key of a row that the
   statement would have read, may have been changed by another commit if it lies in a file that came or went since the statement
   read, or whose vector changed. The check reads the key columns of these files only.
3. The check compares the rows of the remaining keys before and after. So a compaction that moved a row, or a commit that wrote
   the same values, disturbs no statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from lsmlake.commit.requirements import Overtaken, Requirement
from lsmlake.errors import SnapshotNotFound
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format.data_files import BucketState, CommitMessage, DataFile
from lsmlake.format.snapshot import APPEND, COMPACT
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.merge.rule import OldRow
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.predicate import Predicate, evaluate
from lsmlake.read.plan import plan
from lsmlake.read.point import rows_of_keys
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Version


@dataclass(frozen=True)
class ReadSet:
    """A read set: the rows that meet all of these conditions.

    Attributes:
        predicate: true of the rows of the set; None: true of all rows.
        columns: the columns that `among` reads.
        among: flags the rows that belong to the set; None: all rows belong to it.
        everything: the statement depends on all rows of the table, so any change overtakes it.
    """

    predicate: Predicate | None = None
    columns: tuple[str, ...] = ()
    among: Callable[[pa.Table], np.ndarray] | None = None
    everything: bool = False

    @property
    def all_rows(self) -> bool:
        return self.predicate is None and self.among is None

    @property
    def needs(self) -> list[str]:
        """The columns that decide whether a row belongs to the set."""
        return sorted({*self.columns, *(self.predicate.columns if self.predicate else ())})

    def of(self, rows: pa.Table) -> pa.Table:
        """Filters rows to the read set."""
        if self.predicate is not None:
            rows = rows.filter(pa.array(np.asarray(evaluate(self.predicate, rows))))
        if self.among is not None and rows.num_rows:
            rows = rows.filter(pa.array(self.among(rows)))
        return rows


# -- what other commits changed ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeysUnchanged(Requirement):
    """Requires that the rows a statement depends on are unchanged. `base`: the version that it read. `wanted`: new rows in this
    set overtake it; None: no new row does."""

    base: Version
    wanted: ReadSet | None

    def check(self, now: Version, messages: Sequence[CommitMessage]) -> None:
        """Raises Overtaken if the rows that the statement depends on are not the same at `now`. `messages`: the messages of the
        statement."""
        if not _changed_rows(self.base, now):
            return
        if self.wanted is not None and self.wanted.everything:
            raise Overtaken
        try:
            with self.base.unless_expired():
                self._check_written(now, messages)
                if self.wanted is not None:
                    self._check_new(now, self.wanted)
        except SnapshotNotFound as expired:
            raise Overtaken from expired

    def _check_written(self, now: Version, messages: Sequence[CommitMessage]) -> None:
        base, schema = self.base, self.base.schema
        buckets, covers = {message.bucket for message in messages}, now.covers()
        anywhere = schema.moves_keys  # a key may have come to a partition that the statement knows nothing of
        if not anywhere and not all(covers.has(message.bucket, message.append.total_buckets) for message in messages):
            raise Overtaken
        before, after = (version.states(None if anywhere else buckets, statistics=False) for version in (base, now))
        by_bucket = {bucket: _touched(before.get(bucket), after.get(bucket)) for bucket in {*before, *after}}
        for message in messages:
            touched = list(chain.from_iterable(by_bucket.values())) if anywhere else by_bucket.get(message.bucket, [])
            files = BucketFiles.of(base, message.bucket)
            for file in (message.append or message.compact).added if touched else ():
                with files.open(file) as reader:
                    for chunk in reader.chunks(schema.primary_key):
                        keys = _distinct(chunk.table, schema)
                        hits = files.find(keys.select(list(schema.key)), touched, repeats=True).values()
                        places = pa.chunked_array([pa.array(one.keys) for one in hits], pa.int64()).unique()
                        self._check_same(now, keys.take(places), None)

    def _check_new(self, now: Version, wanted: ReadSet) -> None:
        """Raises Overtaken if new files hold wanted rows. Rows that are merged with older rows can match in parts, so all of them
        count as wanted."""
        base, schema = self.base, self.base.schema
        combined = rule_of(schema).old_row is not OldRow.REPLACED
        splits = plan(now, wanted.predicate).splits
        before = base.states([split.bucket for split in splits], statistics=False)
        needed = [name for name in schema.columns.names if name in {*wanted.needs, *schema.primary_key}]
        for split in splits:
            known = {file.name for file in before[split.bucket].files} if split.bucket in before else set()
            for file in (*split.files, *split.level0, *split.merged):
                if file.name in known or file.sequence <= base.number:
                    continue
                if wanted.all_rows:
                    raise Overtaken
                with BucketFiles.of(now, split.bucket).open(file) as reader:
                    for chunk in reader.chunks(needed):
                        rows = chunk.table if combined else wanted.of(chunk.table)
                        self._check_same(now, _distinct(rows, schema), wanted)

    def _check_same(self, now: Version, keys: pa.Table, wanted: ReadSet | None) -> None:
        """Raises Overtaken unless the rows of the keys, or those of them that are wanted now, are unchanged."""
        if not keys.num_rows:
            return
        rows = rows_of_keys(now, keys)
        if wanted is not None:
            rows = wanted.of(rows)
            keys = rows.select(keys.column_names)
        if not rows_of_keys(self.base, keys).equals(rows):
            raise Overtaken


@dataclass(frozen=True)
class PlacesUnchanged(Requirement):
    """Requires that no other commit has changed the rows of the keys that were placed at version `base` (`write.key_places`).
    Commits may have altered the schema: another requirement checks that."""

    base: Version

    def check(self, now: Version, messages: Sequence[CommitMessage]) -> None:
        KeysUnchanged(self.base, None).check(replace(now, schema=self.base.schema), messages)


def _touched(before: BucketState | None, after: BucketState | None) -> list[DataFile]:
    """The files of a bucket that were added or removed, or whose vectors changed."""

    def marked(state: BucketState | None) -> Iterator[tuple[tuple, DataFile]]:
        for file in state.files if state else ():
            yield (file.name, state.vectors.get(file.name)), file

    old, new = dict(marked(before)), dict(marked(after))
    files = {file.name: file for marks in (old, new) for mark, file in marks.items() if mark not in old or mark not in new}
    return list(files.values())


def _distinct(rows: pa.Table, schema: Schema) -> pa.Table:
    """The primary keys of rows of a bucket, each once. Rows of one key are neighbours."""
    own = comparable([rows.select(list(schema.key))])[0]
    first = np.ones(len(own), bool)
    first[1:] = own[1:] != own[:-1]
    return rows.select(list(schema.primary_key)).filter(pa.array(first))


def _changed_rows(base: Version, now: Version) -> bool:
    """Whether commits after `base` changed rows by key. Raises Overtaken if they changed rows in another way, or the schema."""
    if now.schema.id != base.schema.id:
        raise Overtaken
    kinds = base.kinds_until(now)
    if kinds - {COMPACT, APPEND}:
        raise Overtaken
    return APPEND in kinds
