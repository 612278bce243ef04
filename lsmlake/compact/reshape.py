"""Splits and merges buckets: replaces some buckets of a partition by others, in one commit, beside running writers.

1. Write the files of the new buckets (`files.divide`). No row changes, so there is no changelog.
2. Commit: the new files replace the old ones. The commit requires that the old buckets are unchanged, apart from newer level-0
   files, which it divides. If another compaction was committed first, begin again.

Files at level 0 have a greater sequence than all other files of their bucket, which readers of Iceberg rely on. Before buckets
merge, their level 0 is compacted if the merge would break this rule.

`lsm.pick.reshaping` chooses. Under `bucket = auto` a compaction does what is due before it compacts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lsmlake.commit.commit import commit
from lsmlake.commit.request import Committed, Identity, Request
from lsmlake.commit.requirements import BucketAsRead, Overtaken
from lsmlake.errors import CommitConflict, SnapshotNotFound
from lsmlake.files.divide import Divide, Division, NewBucket, OldBucket, discard, divide
from lsmlake.format import manifest
from lsmlake.format.data_files import Bucket, BucketEdit, BucketState, CommitMessage
from lsmlake.lsm.cover import Cover, Share
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick.reshaping import Reshaping, parts_of, pick_reshapings, to_cover
from lsmlake.options.option_types import AUTO
from lsmlake.tables.version import Version

_ROUNDS = 10

States = Mapping[Share, BucketState]
Choose = Callable[[Cover, States], "list[Reshaping]"]
"""(cover of a partition, its buckets with files) -> what to do."""


@dataclass
class Reshape:
    """The splits and merges of one partition, computed for `base`. Restates the messages of a commit for each attempt."""

    base: Version
    partition: tuple
    steps: Sequence[Reshaping]
    states: States
    made: list[NewBucket] = field(default_factory=list)
    later: dict[frozenset[str], list[NewBucket]] = field(default_factory=dict)  # of newer level-0 files, by their names

    def write(self, run: Divide) -> None:
        """Writes the new files. An error removes them."""
        works = []
        for step in self.steps:
            given = [OldBucket(self.states[share]) for share in step.sources if share in self.states]
            if given:
                works.append(Division(given, step.targets))
        self.made = run(self.base.meta, self.base.schema, works)

    def first(self) -> list[CommitMessage]:
        """The messages with the files written so far, which the commit deletes if it fails."""
        return [self._message(one.bucket, one.files) for one in self.made]

    def restate(self, now: Version) -> Sequence[CommitMessage]:
        """The messages for a version. Raises Overtaken if another compaction, or an alteration, was committed first."""
        cover = now.covers().of(self.partition)
        sources = [share for step in self.steps for share in step.sources]
        if now.schema.id != self.base.schema.id or not all(map(cover.has, sources)):
            raise Overtaken
        targets = [share for step in self.steps for share in step.targets]
        states = now.states([self._bucket(share) for share in {*sources, *targets}])
        divided = list(self.made)
        try:
            for step in self.steps:
                divided += self._divided_later(step, states)
        except BaseException:
            for some in self.later.values():
                discard(self.base.meta, some)
            raise
        added: dict[Bucket, NewBucket] = {}
        for one in divided:
            new_bucket = added.setdefault(one.bucket, NewBucket(one.bucket, one.total))
            new_bucket.added += one.added
        edits = []
        for bucket in dict.fromkeys([*map(self._bucket, sources), *added]):
            new = added.get(bucket)
            before = states.get(bucket)
            if before is None and (new is None or not new.added):
                continue
            total = new.total if new is not None else before.total_buckets
            base = before or BucketState(bucket, total)
            edits.append(BucketEdit(bucket, total, tuple(new.added) if new else (), base.all_files, base=base))
        written = self.first() + [self._message(one.bucket, one.files) for some in self.later.values() for one in some]
        paths = tuple(path for message in written for path in message.written)
        return [CommitMessage(edit.bucket, compact=edit, written=paths if edit is edits[0] else ()) for edit in edits]

    def _divided_later(self, step: Reshaping, states: Mapping[Bucket, BucketState]) -> list[NewBucket]:
        """The level-0 files that other commits added to the old buckets after `base`, divided. Raises Overtaken."""
        given = []
        for share in step.sources:
            base = self.states.get(share) or BucketState(self._bucket(share), share.total)
            now = states.get(base.bucket) or BucketState(base.bucket, share.total)
            if not BucketAsRead(base, alone=False).met(now):
                raise Overtaken
            known = {file.name for file in base.files}
            later = tuple(file for file in now.files if file.name not in known)
            if later:
                given.append(OldBucket(BucketState(base.bucket, share.total, later)))
        names = frozenset(file.name for one in given for file in one.state.files)
        if names and names not in self.later:
            self.later[names] = divide(self.base.meta, self.base.schema, [Division(given, step.targets)])
        return self.later[names] if names else []

    def _bucket(self, share: Share) -> Bucket:
        spec, values = self.partition
        return Bucket(values, share.number, spec)

    def _message(self, bucket: Bucket, files: Iterable) -> CommitMessage:
        paths = self.base.meta.paths
        return CommitMessage(bucket, written=tuple(path for file in files for path in paths.with_index(file)))


Settle = Callable[[Version, Collection[Bucket], bool], object]
"""Compacts level 0 of buckets of a version; in full, if the last argument says so."""


def reshape(
    version: Version,
    choose: Choose,
    wanted: Callable[[Bucket], bool],
    run: Divide = divide,
    partitions: Iterable[tuple] = (),
    settle: Settle | None = None,
) -> list[Committed]:
    """Splits and merges what `choose` picks among the buckets for which `wanted` is true; one commit for each partition.

    Args:
        partitions: the partitions to look at (`Bucket.partition_key`); empty: all.
        settle: compacts buckets that must be compacted before they merge; None: such buckets are not merged.

    Raises:
        CommitConflict: Other commits changed the buckets in each attempt.
    """
    commits = []
    for partition in partitions or version.partitions():
        commits += _reshaped(version, partition, choose, wanted, run, settle)
    return commits


def due_partitions(version: Version) -> list[tuple]:
    """The partitions in which something may be due under `bucket = auto`: those with a large bucket, or with several buckets."""
    layout, schema = version.options.layout, version.schema
    if layout.buckets != AUTO or not schema.bucket_key or version.snapshot is None:
        return []
    own, entries = version.covers().by_partition, version.entries()
    codes = manifest.partition_codes(entries, schema)
    partition, first, of_row = np.unique(codes, return_index=True, return_inverse=True)
    sizes = np.bincount(of_row, entries["bytes"].to_numpy(), len(partition))
    large = np.flatnonzero(sizes > layout.target_bytes)
    return list(dict.fromkeys([*own, *manifest.partitions_of(entries.take(pa.array(first[large])), schema)]))


def _reshaped(
    version: Version,
    partition: tuple,
    choose: Choose,
    wanted: Callable[[Bucket], bool],
    run: Divide,
    settle: Settle | None,
) -> list[Committed]:
    meta, (spec, values), settled = version.meta, partition, 0
    for attempt in range(_ROUNDS):
        if attempt:
            version = Version.latest(meta)
        try:
            with version.unless_expired():
                cover = version.covers().of(partition)
                stored = version.states([Bucket(values, share.number, spec) for share in cover.shares])
                states = {Share(bucket.number, state.total_buckets): state for bucket, state in stored.items()}
                steps = [
                    step
                    for step in choose(cover, states)
                    if all(wanted(Bucket(values, share.number, spec)) for share in step.sources)
                ]
                unsettled = [step for step in steps if not _is_settled(version, step, states)]
                if unsettled and settle is not None:
                    sources = {share for step in unsettled for share in step.sources if share in states}
                    settle(version, {states[share].bucket for share in sources}, settled > 0)
                    settled += 1
                    continue
                steps = [step for step in steps if step not in unsettled]
                if not steps:
                    return []
                work = Reshape(version, partition, steps, states)
                work.write(run)
            return [commit(version, Request(Identity(meta.env.ids()), work.first(), restate=work.restate))]
        except (Overtaken, SnapshotNotFound):
            continue
    raise CommitConflict(
        "other commits changed the buckets in each attempt",
        where=meta.paths.root,
        found=f"partition {values} not split or merged after {_ROUNDS} attempts",
        cure="run one compaction at a time",
    )


def _is_settled(version: Version, step: Reshaping, states: States) -> bool:
    """Whether all rows at level 0 of the old buckets are newer than all their rows at deeper levels."""
    if len(step.sources) == 1 or not version.options.layout.deletion_vectors:
        return True
    files = [file for share in step.sources if share in states for file in states[share].files]
    waiting = [file.sequence for file in files if not file.level]
    return not waiting or min(waiting) > max((file.sequence for file in files if file.level), default=0)


def buckets_now(version: Version, totals: Mapping[Bucket, int]) -> list[Bucket]:
    """The buckets of a version that hold keys of the given buckets, which may have been split or merged meanwhile."""
    covers = version.covers()
    buckets = (
        Bucket(bucket.partition, share.number, bucket.spec)
        for bucket, total in totals.items()
        for share in covers.of(bucket.partition_key).meeting(Share(bucket.number, total))
    )
    return list(dict.fromkeys(buckets))


def live_bytes(state: BucketState) -> int:
    """Estimated bytes of a bucket after a full compaction, without the footers, which grow with the number of files."""
    files = [file._replace(bytes=max(0, file.bytes - (file.footer_bytes or 0))) for file in state.files]
    return sum(run.live_bytes for run in Levels.of(files, state.dead).runs)


def _live_rows(state: BucketState) -> int:
    return sum(file.rows for file in state.files) - sum(state.dead.values())


def as_needed(version: Version, most_bytes: int | None = None) -> Choose:
    """Returns a function that chooses the splits and merges that `bucket = auto` asks for. `most_bytes`: only of buckets of at
    most this size."""
    layout = version.options.layout

    def choose(cover: Cover, states: States) -> list[Reshaping]:
        sizes = {share: live_bytes(state) for share, state in states.items()}
        rows = {share: _live_rows(state) for share, state in states.items()}
        steps = pick_reshapings(cover, sizes, layout.target_bytes, rows)
        return [step for step in steps if most_bytes is None or sum(sizes.get(one, 0) for one in step.sources) <= most_bytes]

    return choose


def reshaped_as_needed(
    version: Version, wanted: Callable[[Bucket], bool], run: Divide = divide, most_bytes: int | None = None
) -> list[Committed]:
    """Splits and merges buckets as `bucket = auto` asks for. `most_bytes`: see `as_needed`."""
    due, choose = due_partitions(version), as_needed(version, most_bytes)
    return reshape(version, choose, wanted, run, due) if due else []


def to_number(version: Version, buckets: int | str) -> Choose:
    """Brings each partition to a number of buckets, or, with `auto`, to the number that suits its size."""

    def choose(cover: Cover, states: States) -> list[Reshaping]:
        if not states:
            return []
        size = sum(map(live_bytes, states.values()))
        suiting = parts_of(size, version.options.layout.target_bytes)
        return to_cover(cover, Cover(suiting if buckets == AUTO else buckets))

    return choose
