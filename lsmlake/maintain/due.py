"""What is due in a table, why, and at which benefit and cost. Pure: it reads no file and no clock.

Benefit and cost are estimates in bytes, so that works of all kinds and tables can be compared:

- A compaction costs what it reads and writes. It saves every fresh read the merge of the rows at level 0, every read the dead
  rows, and the opening of files that it merges.
- A work that only removes metadata costs about a request for each object.
- The rank of a work is its benefit per byte of cost. A fixed cost per work keeps many tiny works behind few useful ones.

The compactions are those that the table's own strategy picks; splits and merges of buckets those of `bucket = auto`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lsmlake.compact.appends import pick_appends
from lsmlake.compact.reshape import as_needed as reshaping_as_needed
from lsmlake.compact.retain import has_expired
from lsmlake.format.data_files import Bucket, BucketState, DataFile
from lsmlake.lsm.cover import Share
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick.strategy import as_needed, with_imports
from lsmlake.lsm.pick.task import SMALL_PERCENT
from lsmlake.maintain.table_facts import TableFacts, UnmarkedPartition
from lsmlake.retention.partition_expiry import due as due_buckets

COMPACT, SPLIT, ANALYZE = "compact", "split", "analyze"
EXPIRE_PARTITIONS, EXPIRE_TAGS, EXPIRE_SNAPSHOTS = "expire_partitions", "expire_tags", "expire_snapshots"
PUBLISH, MERGE_MANIFESTS, REMOVE_ORPHANS = "publish_iceberg", "merge_manifests", "remove_orphan_files"
MARK_DONE, REFRESH = "mark_partitions_done", "refresh"
KINDS = (
    *(EXPIRE_PARTITIONS, REFRESH, SPLIT, COMPACT, EXPIRE_TAGS, EXPIRE_SNAPSHOTS, PUBLISH, MARK_DONE, MERGE_MANIFESTS, ANALYZE),
    REMOVE_ORPHANS,
)
"""The kinds of work. A maintainer does equal ranks of one table in this order."""
HEAVY = frozenset((COMPACT, SPLIT, ANALYZE, REMOVE_ORPHANS))
"""The kinds that `maintain.window` and budgets restrain."""

MERGED_WEIGHT = 4
"""How much dearer a byte at level 0 is to a fresh read than a byte that it scans."""
OPEN_BYTES = 1 << 20
"""The bytes that a read could scan in the time in which it opens a file."""
REQUEST_BYTES = 1 << 16
"""The bytes that could be read in the time of a request."""
CHUNK_BYTES = 1 << 30
"""A compaction of more bytes becomes several works, so that other tables get their turn."""
_FIXED_BYTES = 1 << 20
_AT_ONCE, _QUIET_MS = 10, 600_000
"""Snapshots expire so many at a time, as on commits; the last few once a table had no commit for so long."""
_MANIFESTS_MAX = 8
"""A quiet table with more manifests gets them merged."""
_MEMORY_BYTES, _LEAST_MEMORY_BYTES = 640 << 20, 64 << 20


@dataclass(frozen=True)
class Due:
    """A piece of work that is due.

    Attributes:
        table: the table or branch.
        kind: one of `KINDS`.
        reason: why it is due, for people.
        benefit: bytes that it saves a read, or frees.
        cost: bytes that it reads and writes.
        buckets: the buckets to compact or to split.
        memory: an estimate of the memory that it needs.
    """

    table: str
    kind: str
    reason: str
    benefit: int
    cost: int
    buckets: frozenset[Bucket] = frozenset()
    memory: int = _LEAST_MEMORY_BYTES

    @property
    def rank(self) -> float:
        """The benefit per byte of cost."""
        return self.benefit / (self.cost + _FIXED_BYTES)


def due(facts: TableFacts, done_ms: Mapping[str, int]) -> list[Due]:
    """The works that are due in a table, the most useful first.

    Args:
        facts: the table.
        done_ms: kind of work -> when a maintainer did it last.
    """
    if not facts.maintain.enabled:
        return []
    found = [one for rule in _RULES for one in rule(facts, done_ms)]
    return sorted(found, key=lambda one: (-one.rank, KINDS.index(one.kind)))


# -- compaction -------------------------------------------------------------------------------------------------------


class _Picked(NamedTuple):
    bucket: Bucket
    reason: str
    level0_rows: int
    level0_bytes: int
    dead_bytes: int
    files: int
    bytes: int

    @property
    def benefit(self) -> int:
        return MERGED_WEIGHT * self.level0_bytes + self.dead_bytes + OPEN_BYTES * (self.files - 1)


def _compactions(facts: TableFacts, done_ms: Mapping[str, int]) -> Iterator[Due]:
    pick = _append_picker(facts) if facts.version.schema.append_only else _keyed_picker(facts)
    picked = sorted(
        (one for state in facts.states.values() if (one := pick(state)) is not None),
        key=lambda one: one.benefit / (one.bytes + 1),
        reverse=True,
    )
    chunk: list[_Picked] = []
    held = 0
    for one in picked:
        if chunk and held + one.bytes > CHUNK_BYTES:
            yield _compaction(facts, chunk)
            chunk, held = [], 0
        chunk.append(one)
        held += one.bytes
    if chunk:
        yield _compaction(facts, chunk)


def _compaction(facts: TableFacts, picked: list[_Picked]) -> Due:
    waiting = sum(one.level0_rows for one in picked)
    reasons = [*dict.fromkeys(one.reason for one in picked), *([f"{waiting:,} rows at level 0"] if waiting else [])]
    count = f"{len(picked):,} of {len(facts.states):,} buckets"
    largest = max(one.bytes for one in picked)
    return Due(
        facts.name,
        COMPACT,
        f"{count}: {', '.join(filter(None, reasons))}",
        sum(one.benefit for one in picked),
        2 * sum(one.bytes for one in picked),
        frozenset(one.bucket for one in picked),
        min(_MEMORY_BYTES, _LEAST_MEMORY_BYTES + 4 * largest),
    )


def _keyed_picker(facts: TableFacts) -> Callable[[BucketState], _Picked | None]:
    schema, now_ms = facts.version.schema, facts.now_ms
    options = schema.parsed_options.compaction
    choose = with_imports(as_needed(options, now_ms), options)

    def pick(state: BucketState) -> _Picked | None:
        levels = facts.trees[state.bucket]
        chosen = choose(levels)
        if chosen is not None:
            return _of_files(state.bucket, "" if chosen.reason == "level 0" else chosen.reason, chosen.inputs, levels)
        if any(has_expired(file, schema, now_ms) for file in state.retained):
            return _Picked(state.bucket, "retained deletes have expired", 0, 0, sum(f.bytes for f in state.retained), 1, 0)
        return None

    return pick


def _append_picker(facts: TableFacts) -> Callable[[BucketState], _Picked | None]:
    options = facts.version.options

    def pick(state: BucketState) -> _Picked | None:
        dead, indexed = state.dead, bool(options.index.columns)
        chosen = pick_appends(state.files, dead, options.appends, options.files.target_bytes, full=False, indexed=indexed)
        return _of_files(state.bucket, "small files or dead rows", chosen, facts.trees[state.bucket]) if chosen else None

    return pick


def _of_files(bucket: Bucket, reason: str, files: Sequence[DataFile], levels: Levels) -> _Picked:
    level0 = [file for file in files if file.level == 0 and file.max_key]  # files of append-only tables have no keys
    dead = sum(file.bytes * levels.dead.get(file.name, 0) // max(1, file.rows) for file in files)
    waiting = sum(file.rows for file in level0), sum(file.bytes for file in level0)
    return _Picked(bucket, reason, *waiting, dead, len(files), sum(file.bytes for file in files))


def _splits(facts: TableFacts, done_ms: Mapping[str, int]) -> Iterator[Due]:
    version = facts.version
    choose = reshaping_as_needed(version)
    for (spec, values), cover in facts.covers.items():
        buckets = [Bucket(values, share.number, spec) for share in cover.shares]
        states = {Share(one.number, facts.states[one].total_buckets): facts.states[one] for one in buckets if one in facts.states}
        steps = choose(cover, states)
        sources = [share for step in steps for share in step.sources if share in states]
        if not sources:
            continue
        size = sum(file.bytes for share in sources for file in states[share].files)
        targets = sum(len(step.targets) for step in steps)
        text = version.schema.partition_text(spec, values)
        where = f" of partition {text}" if text else ""
        yield Due(
            facts.name,
            SPLIT,
            f"{len(sources):,} buckets{where} become {targets:,}",
            size // 4 + OPEN_BYTES,
            2 * size,
            frozenset(Bucket(values, share.number, spec) for step in steps for share in step.sources),
            _MEMORY_BYTES,
        )


# -- expiry -----------------------------------------------------------------------------------------------------------


def _partitions(facts: TableFacts, done_ms: Mapping[str, int]) -> Iterator[Due]:
    schema = facts.version.schema
    if schema.parsed_options.partitions.expiration_ms is None:
        return
    if buckets := due_buckets(schema, facts.now_ms, facts.states):
        size = sum(file.bytes for bucket in buckets for file in facts.states[bucket].all_files)
        count = len({bucket.partition_key for bucket in buckets})
        reason = f"{count:,} partitions are older than partition.expiration-time"
        yield Due(facts.name, EXPIRE_PARTITIONS, reason, size, REQUEST_BYTES * count)


def _tags(facts: TableFacts, done_ms: Mapping[str, int]) -> Iterator[Due]:
    if over := [tag for tag in facts.tags if tag.expire_time_ms is not None and tag.expire_time_ms < facts.now_ms]:
        yield Due(
            facts.name,
            EXPIRE_TAGS,
            f"{len(over):,} tags are past their time",
            8 * OPEN_BYTES * len(over),
            4 * REQUEST_BYTES * len(over),
        )


def _snapshots(facts: TableFacts, done_ms: Mapping[str, int]) -> Iterator[Due]:
    due = facts.expiry
    counts = {"snapshots": due.snapshots, "changelogs": due.changelogs, "consumers": due.consumers, "pins": due.pins}
    number = sum(counts.values())
    if number >= _AT_ONCE or due.pins or due.consumers or (number and facts.quiet_ms > _QUIET_MS):
        listed = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        yield Due(facts.name, EXPIRE_SNAPSHOTS, f"{listed} to expire", OPEN_BYTES * number, 4 * REQUEST_BYTES * number)


def _orphans(facts: TableFacts, done_ms: Mapping[str, int]) -> Iterator[Due]:
    interval = facts.maintain.orphans_ms
    since = max(done_ms.get(REMOVE_ORPHANS, 0), facts.version.schema.time_ms)
    if facts.version.meta.paths.branch is not None or not interval or facts.now_ms - since < interval:
        return
    files = sum(len(state.files) for state in facts.states.values())
    late = (facts.now_ms - since) // interval
    reason = f"the last look for orphan files was {(facts.now_ms - since) // 86_400_000} days ago"
    yield Due(facts.name, REMOVE_ORPHANS, reason, OPEN_BYTES * late, REQUEST_BYTES * (1 + files // 100))


# -- view tables ------------------------------------------------------------------------------------------------------


def _refreshes(facts: TableFacts, done_ms: Mapping[str, int]) -> Iterator[Due]:
    if facts.stale:
        yield Due(facts.name, REFRESH, facts.stale, 64 * OPEN_BYTES, OPEN_BYTES, memory=_MEMORY_BYTES)


# -- metadata ---------------------------------------------------------------------------------------------------------


def _publication(facts: TableFacts, done_ms: Mapping[str, int]) -> Iterator[Due]:
    if facts.published is not None and (lag := facts.version.number - facts.published) > 0:
        reason = f"Iceberg metadata is {lag:,} snapshots behind"
        yield Due(facts.name, PUBLISH, reason, 4 * OPEN_BYTES * lag, 4 * REQUEST_BYTES * lag)


def done_partitions(facts: TableFacts) -> list[UnmarkedPartition]:
    """The partitions to mark as done."""
    idle_ms = facts.version.options.callbacks.idle_ms
    if idle_ms is None:
        return []
    return [one for one in facts.unmarked if one.since_ms is not None and facts.now_ms - one.since_ms > idle_ms]


def _marks(facts: TableFacts, done_ms: Mapping[str, int]) -> Iterator[Due]:
    if over := done_partitions(facts):
        reason = f"{len(over):,} partitions have had no new rows for partition.idle-time-to-done"
        yield Due(facts.name, MARK_DONE, reason, 64 * OPEN_BYTES * len(over), REQUEST_BYTES * len(over))


def _manifests(facts: TableFacts, done_ms: Mapping[str, int]) -> Iterator[Due]:
    commits = {meta.sequence for meta in facts.manifests}
    if len(commits) > _MANIFESTS_MAX and facts.quiet_ms > _QUIET_MS:
        reason = f"no commit for {facts.quiet_ms // 60_000:,} min, and a read opens {len(facts.manifests):,} manifests"
        size = sum(meta.bytes for meta in facts.manifests)
        yield Due(facts.name, MERGE_MANIFESTS, reason, REQUEST_BYTES * len(commits), 2 * size)


def _statistics(facts: TableFacts, done_ms: Mapping[str, int]) -> Iterator[Due]:
    share, known = facts.maintain.analyze_share, facts.statistics
    if share is None or known is None:
        return
    files = [file for state in facts.states.values() for file in state.files]
    newer = sum(file.rows for file in files if (file.min_sequence or 0) > known.snapshot_id)
    rows = sum(file.rows for file in files)
    changed = max(newer, abs(facts.version.snapshot.total_rows - known.rows))
    if changed and changed >= share * rows:
        size = sum(file.bytes for file in files)
        reason = f"{changed:,} of {rows:,} rows are newer than the statistics"
        yield Due(facts.name, ANALYZE, reason, size // 100, size, memory=_MEMORY_BYTES)


_RULES = (
    *(_refreshes, _partitions, _splits, _compactions, _tags, _snapshots, _publication, _marks, _manifests, _statistics),
    _orphans,
)


def small_files(facts: TableFacts) -> int:
    """The number of files that a compaction could merge with others: all small ones of a bucket but one."""
    least = facts.version.options.files.target_bytes * SMALL_PERCENT // 100
    return sum(max(0, sum(file.bytes < least for file in state.files) - 1) for state in facts.states.values())
