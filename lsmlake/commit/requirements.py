"""The conditions of a commit: its requirements on the version it follows, and the invariants of the buckets it edits.

A requirement is a value that every attempt can check again. A requirement of the whole commit (`Requirement`) raises if it is not
met: CommitConflict if no retry can meet it, Overtaken if the statement must be evaluated again. A requirement of an edit
(`BucketAsRead`, `FilesAsRead`) decides in `rebase`, which chooses the edits, computed from one snapshot, that can be published on
top of another: a compaction whose requirement is not met falls back to the append of the same message, or is dropped. An append
never conflicts, nor does an overwrite: it replaces the content that the buckets have when it is published (`replacing`).

The invariants are named predicates on the metadata of one bucket. They are checked on every publish, including appends, and by
`verify`. I1: key ranges within a run are disjoint. I3: a vector belongs to a live file and marks at most its rows. I5: a commit
adds at most one run to level 0 of a bucket. I6: a file is live once. I9: a bucket changes its total only when all of its files
go.

Checked elsewhere: `maintain.verify` reads rows for I2 (at deeper levels a key is live in one file only) and snapshots for I4
(contiguous numbers) and I8 (no missing files); `commit.request` ensures I7 (a commit is applied once).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lsmlake.errors import CommitConflict, Corrupt
from lsmlake.format.data_files import DELETES, Bucket, BucketEdit, BucketState, CommitMessage
from lsmlake.lsm.levels import Levels
from lsmlake.schema.evolution import unfit
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Version


class Overtaken(Exception):
    """Another commit changed what a statement depends on: the statement must be evaluated again. Never leaves the library."""


class Requirement(ABC):
    """A requirement of the whole commit."""

    @abstractmethod
    def check(self, now: Version, messages: Sequence[CommitMessage]) -> None:
        """Raises CommitConflict or Overtaken if `now`, the version to follow, does not meet the requirement. `messages`: the
        messages of the commit."""


@dataclass(frozen=True)
class Follows(Requirement):
    """The commit directly follows snapshot `number`; 0: it is the first."""

    number: int

    def check(self, now: Version, messages: Sequence[CommitMessage]) -> None:
        if now.number != self.number:
            where = now.meta.paths.root
            raise CommitConflict("another commit came first", where=where, cure="alter the table again, or pause its writers")


@dataclass(frozen=True)
class Fits(Requirement):
    """Rows written under `schema` can be read under the schema in effect: its options give them the same meaning and its columns
    hold their values."""

    schema: Schema

    def check(self, now: Version, messages: Sequence[CommitMessage]) -> None:
        if now.schema.id != self.schema.id and (reason := unfit(self.schema, now.schema)) is not None:
            raise CommitConflict(
                "the table was altered while the commit was prepared",
                where=now.meta.paths.root,
                expected=f"schema {self.schema.id}",
                found=f"schema {now.schema.id}, {reason}",
                cure="run it again",
            )


@dataclass(frozen=True)
class FilesAsRead:
    """A requirement of an edit of an append-only bucket: the files of `base` are still live, with the same vectors."""

    base: BucketState

    def met(self, now: BucketState) -> bool:
        live = {file.name for file in now.files}
        return all(
            file.name in live and self.base.vectors.get(file.name) == now.vectors.get(file.name) for file in self.base.files
        )


@dataclass(frozen=True)
class BucketAsRead:
    """A requirement of one compaction: files and vectors of `base` are still live, and no other compaction changed the bucket.

    Newer level-0 files are allowed unless `alone`. `alone`: the compaction moved rows of its own commit to a deeper level, so
    level-0 rows of commits before it would wrongly count as newer.
    """

    base: BucketState
    alone: bool

    def met(self, now: BucketState) -> bool:
        before = {(file.name, file.level) for file in self.base.files}
        after = {(file.name, file.level) for file in now.files}
        if dict(self.base.vectors) != dict(now.vectors) or not before <= after or _retained(self.base) != _retained(now):
            return False
        return not (after - before) if self.alone else all(level == 0 for _, level in after - before)


def _retained(state: BucketState) -> set[str]:
    return {file.name for file in state.retained}


@dataclass(frozen=True)
class Rebased:
    """The edits that can be published, and the buckets whose compaction was overtaken and has no append to fall back to."""

    edits: tuple[BucketEdit, ...]
    overtaken: tuple[Bucket, ...]


def rebase(messages: Sequence[CommitMessage], latest: Mapping[Bucket, BucketState]) -> Rebased:
    """Chooses one edit per message.

    Args:
        latest: the state, as of the snapshot to build on, of every bucket that a message compacts; absent: the bucket is empty.
    """
    edits, overtaken = [], []
    for message in messages:
        edit = _valid_edit(message, latest)
        if edit is None:
            overtaken.append(message.bucket)
        elif not edit.empty:
            edits.append(edit)
    return Rebased(tuple(edits), tuple(overtaken))


def replacing(messages: Sequence[CommitMessage], latest: Mapping[Bucket, BucketState]) -> tuple[CommitMessage, ...]:
    """The messages of an overwrite: they replace the content of every bucket of `latest` by the files of `messages`.

    Args:
        messages: one per bucket with new rows; written as if the bucket was empty.
        latest: the state, as of the snapshot to build on, of every bucket to replace.
    """
    written = {message.bucket: message for message in messages}
    return tuple(_replacing(written.get(bucket), latest.get(bucket)) for bucket in dict.fromkeys([*latest, *written]))


def _replacing(message: CommitMessage | None, state: BucketState | None) -> CommitMessage:
    if message is None:
        edit = BucketEdit(state.bucket, state.total_buckets, removed=state.all_files, base=state)
        return CommitMessage(state.bucket, compact=edit)
    new = message.compact or message.append
    state = state or BucketState(message.bucket, new.total_buckets)
    edit = BucketEdit(message.bucket, new.total_buckets, new.added, state.all_files, new.vectors, state)
    return replace(message, append=None, compact=edit)


def _valid_edit(message: CommitMessage, latest: Mapping[Bucket, BucketState]) -> BucketEdit | None:
    if message.compact is None:
        return message.append
    base = message.compact.base
    now = latest.get(message.bucket) or BucketState(message.bucket, base.total_buckets)
    needed = FilesAsRead(base) if message.compact.only_files else BucketAsRead(base, alone=message.append is not None)
    return message.compact if needed.met(now) else message.append


# -- invariants -------------------------------------------------------------------------------------------------------


Invariant = Callable[[BucketState], Iterator[str]]


def apply(state: BucketState, edit: BucketEdit) -> BucketState:
    """The bucket after `edit`."""
    removed = {file.name for file in edit.removed}
    live = tuple(file for file in state.all_files if file.name not in removed) + edit.added
    files = tuple(file for file in live if file.source != DELETES)
    names = {file.name for file in files}
    vectors = {name: ref for name, ref in {**state.vectors, **edit.vectors}.items() if name in names}
    return BucketState(state.bucket, edit.total_buckets, files, vectors, tuple(file for file in live if file.source == DELETES))


def _runs_are_disjoint(state: BucketState) -> Iterator[str]:
    dead = state.dead
    yield from Levels.of(state.files, dead).check()


def _vectors_fit_live_files(state: BucketState) -> Iterator[str]:
    rows = {file.name: file.rows for file in state.files}
    for name, ref in state.vectors.items():
        if name not in rows:
            yield f"a vector names {name}, which is not live"
        elif ref.cardinality > rows[name]:
            yield f"the vector of {name} marks {ref.cardinality} of {rows[name]} rows"


def _files_are_live_once(state: BucketState) -> Iterator[str]:
    if len({file.name for file in state.all_files}) != len(state.all_files):
        yield "a file is live twice"


INVARIANTS: tuple[tuple[str, Invariant], ...] = (
    ("I1", _runs_are_disjoint),
    ("I3", _vectors_fit_live_files),
    ("I6", _files_are_live_once),
)


def violations(state: BucketState) -> list[str]:
    """Every violation as a sentence; empty if the bucket is sound."""
    where = f"partition {state.bucket.partition} bucket {state.bucket.number}"
    texts = []
    for name, holds in INVARIANTS:
        texts += [f"{name}: {where}: {text}" for text in holds(state)]
    return texts


def check_edits(edits: Sequence[tuple[BucketEdit, BucketState | None]], where: str) -> None:
    """Checks each edit applied to the current state of its bucket. None as a state: the bucket is empty, or the edit only adds
    files, which are checked against each other. Raises Corrupt."""
    counts = Counter(edit.bucket for edit, _ in edits)
    broken = [f"I5: two edits of {bucket}" for bucket, count in counts.items() if count > 1]
    for edit, before in edits:
        if before is not None and edit.total_buckets != before.total_buckets and edit.added:
            left = {file.name for file in before.all_files} - {file.name for file in edit.removed}
            totals = f"{edit.total_buckets} as its total, not {before.total_buckets}"
            broken += [f"I9: {edit.bucket} gets {totals}, and keeps {name}" for name in sorted(left)]
        broken += violations(apply(before or BucketState(edit.bucket, edit.total_buckets), edit))
    if broken:
        raise Corrupt(
            "the commit violates invariants of the table and was not published",
            where=where,
            found="; ".join(broken),
            cure="run `lsmlake verify`, and report this",
        )
