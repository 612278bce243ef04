"""Removes rows of an append-only table by position, and adds others, in one commit.

With deletion vectors the rows are marked as deleted; without, their files are rewritten. Rows that other statements marked
meanwhile stay marked: the vectors are united. The edit depends on the rows it removes: if another commit removed one of them or
rewrote its file, the statement that made the edit must be evaluated again (`Overtaken`). A serializable statement must also be
evaluated again if another commit added rows that it would have read (`wanted`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.commit.requirements import Overtaken, Requirement
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_reader import live_rows
from lsmlake.files.data_writer import Origin, nan_columns_of
from lsmlake.format.data_files import COMPACT, Bucket, BucketEdit, BucketState, CommitMessage, DataFile, VectorRef
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.format.snapshot import COMPACT as SNAPSHOT_OF_COMPACTION
from lsmlake.format.snapshot import Snapshot
from lsmlake.read.plan import plan
from lsmlake.read.positions import Matched, matched, rows_at
from lsmlake.storage.concurrency import together
from lsmlake.tables.version import Version
from lsmlake.write.read_set import ReadSet


class Rewritten(NamedTuple):
    """A file without the removed rows: the files that replace it, none if no row is left."""

    of: Matched
    files: tuple[DataFile, ...]


@dataclass
class RowEdit(Requirement):
    """Requires that the rows to remove are live, and restates the messages: the vectors of other commits are united with those of
    the edit.

    Args:
        base: The version that the statement read.
        removed: The rows to remove, at most one item per file.
        rewritten: Without vectors: the files that replace those of `removed`.
        added: The new rows: appends, one message per bucket.
        wanted: New rows in this set overtake the statement; None: no new row does.
    """

    base: Version
    removed: Sequence[Matched]
    rewritten: Sequence[Rewritten] | None
    added: Sequence[CommitMessage]
    wanted: ReadSet | None
    _made: list[CommitMessage] = field(default_factory=list)
    _made_for: Mapping[str, VectorRef | None] | None = None

    def first(self) -> list[CommitMessage]:
        """The messages with the files written so far, which the commit deletes if it fails."""
        kept = [
            CommitMessage(one.of.bucket, written=BucketFiles.of(self.base, one.of.bucket).paths(one.files))
            for one in self.rewritten or ()
        ]
        return [*self.added, *kept]

    def check(self, now: Version, messages: Sequence[CommitMessage]) -> None:
        if now.schema.id != self.base.schema.id:
            raise Overtaken
        if now.number != self.base.number and self.wanted is not None:
            check_no_new_rows(self.base, now, self.wanted)

    def restate(self, now: Version) -> Sequence[CommitMessage]:
        """The messages for a version. Raises Overtaken if one of the rows to remove is no longer live, or a bucket of the new
        rows was split."""
        covers = now.covers()
        if not all(covers.has(message.bucket, message.append.total_buckets) for message in self.added):
            raise Overtaken
        buckets = {one.bucket for one in self.removed}
        states = now.states(buckets, statistics=False) if buckets else {}
        for one in self.removed:
            _check_live(one, states)
        refs = {one.file.name: states[one.bucket].vectors.get(one.file.name) for one in self.removed}
        if self._made_for != refs:  # otherwise the vectors of the last attempt still fit
            self._made_for, self._made = refs, self._all_messages(now, states, refs)
        return self._made

    def _all_messages(
        self, now: Version, states: Mapping[Bucket, BucketState], refs: Mapping[str, VectorRef | None]
    ) -> list[CommitMessage]:
        """The messages for a version. An error removes the vectors that were written."""
        made: list[CommitMessage] = []
        try:
            made.extend(self._messages(now, states, refs))
        except BaseException:
            vectors = {ref.puffin for message in made if message.compact for ref in message.compact.vectors.values()}
            now.meta.files.delete_quietly(map(now.meta.paths.puffin, vectors))
            raise
        return made

    def _messages(
        self, now: Version, states: Mapping[Bucket, BucketState], refs: Mapping[str, VectorRef | None]
    ) -> Iterator[CommitMessage]:
        added = {message.bucket: message for message in self.added}
        replaced = {one.of.file.name: one.files for one in self.rewritten or ()}
        by_bucket: dict[Bucket, list[Matched]] = {}
        for one in self.removed:
            by_bucket.setdefault(one.bucket, []).append(one)
        for bucket in dict.fromkeys([*by_bucket, *added]):
            state, append = states.get(bucket), added.get(bucket)
            if bucket not in by_bucket:
                yield append
                continue
            gone, vectors, files = [], {}, list(append.append.added if append else ())
            for one in by_bucket[bucket]:
                vector = self._vector(now, one, refs[one.file.name])
                if self.rewritten is not None:
                    gone.append(one.file.name)
                    files += replaced[one.file.name]
                elif len(vector) == one.file.rows:
                    gone.append(one.file.name)
                else:
                    vectors[one.file.name] = vector
            written = now.meta.vectors.put(dict(sorted(vectors.items())))
            edit = BucketEdit(
                bucket,
                state.total_buckets,
                added=tuple(files),
                removed=tuple(file for file in state.files if file.name in gone),
                vectors=written,
                base=_touched(state, {one.file.name for one in by_bucket[bucket]}),
                only_files=True,
            )
            paths = (*BucketFiles.of(now, bucket).paths(files), *{now.meta.paths.puffin(ref.puffin) for ref in written.values()})
            yield CommitMessage(bucket, compact=edit, rows=append.rows if append else 0, written=paths)

    def _vector(self, now: Version, one: Matched, ref: VectorRef | None) -> DeletionVector:
        """The dead rows of a file after the edit. Raises Overtaken if another commit removed one of the rows."""
        known = one.vector
        if ref != one.ref:
            if self.rewritten is not None:
                raise Overtaken
            known = EMPTY if ref is None else now.meta.vectors.get(ref, one.file)
            others = known - one.vector
            if len(others) and (one.positions is None or not others.live_mask(one.positions).all()):
                raise Overtaken
        return known | DeletionVector.of(np.arange(one.file.rows) if one.positions is None else one.positions)


def _check_live(one: Matched, states: Mapping[Bucket, BucketState]) -> None:
    state = states.get(one.bucket)
    if state is None or all(file.name != one.file.name for file in state.files):
        raise Overtaken


def _touched(state: BucketState, names: set[str]) -> BucketState:
    vectors = {name: ref for name, ref in state.vectors.items() if name in names}
    return BucketState(state.bucket, state.total_buckets, tuple(file for file in state.files if file.name in names), vectors)


def check_no_new_rows(base: Version, now: Version, wanted: ReadSet) -> None:
    """Raises Overtaken if files that were added after `base` hold wanted rows, and after a rollback, which makes old files live
    again. Reads the columns of `wanted` in the new files whose statistics allow a match."""
    if (now.snapshot.newest_rollback or 0) > base.number:
        raise Overtaken
    if wanted.everything and base.kinds_until(now) - {SNAPSHOT_OF_COMPACTION}:
        raise Overtaken
    planned = plan(now, wanted.predicate)
    splits = (
        replace(split, files=tuple(file for file in split.files if file.sequence > base.number)) for split in planned.splits
    )
    for one in matched(replace(planned, splits=tuple(splits))):
        if wanted.among is None or any(wanted.among(rows).any() for rows in rows_at(now, one, wanted.columns)):
            raise Overtaken


Rewrite = Callable[[Version, Sequence[Matched]], list[Rewritten]]
"""Writes the live rows of each file, without the removed ones, to new files. An error removes what was written."""


def replace_rows(
    version: Version,
    removed: Sequence[Matched],
    added: Sequence[CommitMessage],
    wanted: ReadSet | None,
    rewrite: Rewrite,
    identity: Identity | None = None,
) -> Snapshot | None:
    """Commits a `RowEdit`; `rewrite` makes its files if the table has no deletion vectors. An error removes what was written.
    `identity`: of the commit; None: a repetition is not recognised. Raises Overtaken."""
    if not removed and not added:
        return None
    try:
        files = None if version.options.layout.deletion_vectors else rewrite(version, removed)
    except BaseException:
        version.meta.files.discard(added)
        raise
    edit = RowEdit(version, removed, files, added, wanted)
    by = identity or Identity(version.meta.env.ids())
    request = Request(by, edit.first(), (edit,), edit.restate, remade=True)
    return commit(version, request).snapshot


def rewritten(version: Version, removed: Sequence[Matched]) -> list[Rewritten]:
    """A `Rewrite` in this process."""

    return together(partial(rewritten_file, version), removed, version.meta.env.workers, partial(discard_rewritten, version))


def discard_rewritten(version: Version, done: Iterable[Rewritten]) -> None:
    """Deletes the files that a `Rewrite` wrote."""
    for one in done:
        BucketFiles.of(version, one.of.bucket).delete(one.files)


def rewritten_file(version: Version, one: Matched) -> Rewritten:
    """Writes the live rows of a file, without the removed ones, to new files."""
    if one.positions is None:
        return Rewritten(one, ())
    files, file = BucketFiles.of(version, one.bucket), one.file
    dead = one.vector | DeletionVector.of(one.positions)
    origin = Origin(file.level, COMPACT, file.sequence, file.min_sequence)

    def rows() -> Iterator[pa.Table]:
        with files.open(file) as reader:
            for chunk in reader.stream(version.schema.columns.names):
                yield live_rows(chunk, dead)

    kept = (table for table in rows() if table.num_rows)
    return Rewritten(one, files.write(kept, origin, nan_columns_of([file], version.schema)))
