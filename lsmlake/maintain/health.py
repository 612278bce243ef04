"""The health of tables: one row per table or branch, with what exceeds the thresholds of its options `maintain.alert.*`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import LakeError, SnapshotNotFound, TableNotFound
from lsmlake.maintain.due import small_files
from lsmlake.maintain.table_facts import Looks, TableFacts
from lsmlake.options.maintain_options import MaintainOptions
from lsmlake.options.option_types import duration

_TIME = pa.timestamp("ms", "UTC")
_COUNTS, _TIMES = pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), _TIME)
_WRITERS_SNAPSHOTS = 50  # the newest, among which the last commit of each writer is looked for


@dataclass(frozen=True)
class TableHealth:
    """The health of a table or branch.

    Attributes:
        table_name: "database.table", or "database.table$branch_NAME".
        problems: what exceeds a threshold, as sentences; empty: nothing does.
        snapshot_id: the newest snapshot.
        commit_time: when it was published.
        record_count: rows, as `snapshots` counts them.
        file_count: live data files.
        file_size_in_bytes: their size.
        bucket_count: buckets with files.
        level0_runs: the most sorted runs that wait at level 0 of one bucket.
        level0_rows: the rows that wait at level 0, which a fresh read must merge.
        level0_bytes: the bytes of these rows' files.
        oldest_unmerged_time: when the oldest file at level 0 was written.
        dead_rows: rows that deletion vectors mark.
        dead_share: their share of all rows.
        small_files: files that a compaction could merge with others.
        snapshot_count: retained snapshots.
        snapshots_held: reason -> how many snapshots it keeps although they are due to expire; also the tags, which keep files.
        consumer_lag: consumer -> how many snapshots it is behind.
        last_commits: writer with a writer_id of its own -> its last commit; null if it is not among the newest snapshots.
        publication_lag: how many snapshots Iceberg metadata is behind; null if commits do not publish.
        due: the kinds of work that are due.
        error: why the table cannot be read.
    """

    table_name: str
    problems: tuple[str, ...] = ()
    snapshot_id: int | None = None
    commit_time: int | None = None
    record_count: int = 0
    file_count: int = 0
    file_size_in_bytes: int = 0
    bucket_count: int = 0
    level0_runs: int = 0
    level0_rows: int = 0
    level0_bytes: int = 0
    oldest_unmerged_time: int | None = None
    dead_rows: int = 0
    dead_share: float = 0.0
    small_files: int = 0
    snapshot_count: int = 0
    snapshots_held: Mapping[str, int] = field(default_factory=dict)
    consumer_lag: Mapping[str, int] = field(default_factory=dict)
    last_commits: Mapping[str, int | None] = field(default_factory=dict)
    publication_lag: int | None = None
    due: tuple[str, ...] = ()
    error: str | None = None


_TYPES: Mapping[str, pa.DataType] = {
    "table_name": pa.string(),
    "problems": pa.list_(pa.string()),
    "snapshot_id": pa.int64(),
    "commit_time": _TIME,
    **dict.fromkeys(("record_count", "file_count", "file_size_in_bytes", "bucket_count"), pa.int64()),
    **dict.fromkeys(("level0_runs", "level0_rows", "level0_bytes"), pa.int64()),
    "oldest_unmerged_time": _TIME,
    "dead_rows": pa.int64(),
    "dead_share": pa.float64(),
    **dict.fromkeys(("small_files", "snapshot_count"), pa.int64()),
    "snapshots_held": _COUNTS,
    "consumer_lag": _COUNTS,
    "last_commits": _TIMES,
    "publication_lag": pa.int64(),
    "due": pa.list_(pa.string()),
    "error": pa.string(),
}


def listing(rows: Iterable[TableHealth]) -> pa.Table:
    """One row per table, in the order given."""
    rows = list(rows)

    def value(row: TableHealth, name: str) -> object:
        one = getattr(row, name)
        return list(one.items()) if isinstance(one, Mapping) else one

    return pa.table({name: pa.array([value(row, name) for row in rows], kind) for name, kind in _TYPES.items()})


class Thresholds(NamedTuple):
    """Thresholds that replace those of the options; None: the option's."""

    level0_runs: int | None = None
    unmerged_ms: int | None = None
    dead_share: float | None = None
    consumer_lag: int | None = None
    publication_lag: int | None = None
    commit_ms: int | None = None

    def over(self, options: MaintainOptions) -> MaintainOptions:
        given = {
            "alert_runs": self.level0_runs,
            "alert_unmerged_ms": self.unmerged_ms,
            "alert_dead_share": self.dead_share,
            "alert_consumer_lag": self.consumer_lag,
            "alert_publication_lag": self.publication_lag,
            "alert_commit_ms": self.commit_ms,
        }
        return replace(options, **{name: value for name, value in given.items() if value is not None})


def health(
    looks: Looks, names: Iterable[str], thresholds: Thresholds, kinds_due: Callable[[TableFacts], Iterable[str]]
) -> list[TableHealth]:
    """The health of tables; a table that is dropped meanwhile is left out. `kinds_due`: the kinds of work that are due."""
    rows = []
    for name in names:
        try:
            facts = looks.look(name)
            rows.append(_of(replace(facts, maintain=thresholds.over(facts.maintain)), tuple(dict.fromkeys(kinds_due(facts)))))
        except TableNotFound:
            continue
        except LakeError as broken:
            rows.append(TableHealth(name, ("the table cannot be read",), error=str(broken)))
    return rows


def _of(facts: TableFacts, kinds: tuple[str, ...]) -> TableHealth:
    trees, snapshot = facts.trees.values(), facts.version.snapshot
    files = [file for state in facts.states.values() for file in state.files]
    level0 = [file for file in files if file.level == 0]
    dead, rows = sum(tree.dead_rows for tree in trees), sum(file.rows for file in files)
    keyed = not facts.version.schema.append_only
    level0 = level0 if keyed else []
    row = TableHealth(
        facts.name,
        (),
        facts.version.number or None,
        snapshot and snapshot.time_ms,
        snapshot.total_rows if snapshot else 0,
        len(files),
        sum(file.bytes for file in files),
        len(facts.states),
        max((len(tree.level0_runs) for tree in trees), default=0) if keyed else 0,
        sum(file.rows for file in level0),
        sum(file.bytes for file in level0),
        min((file.created_ms for file in level0), default=None),
        dead,
        dead / rows if rows else 0.0,
        small_files(facts),
        facts.expiry.retained,
        {**facts.expiry.held, **({"tags": len(facts.tags)} if facts.tags else {})},
        {one.name: max(0, facts.version.number + 1 - one.progress.next_snapshot) for one in facts.consumers},
        _last_commits(facts),
        None if facts.published is None else max(0, facts.version.number - facts.published),
        kinds,
    )
    return replace(row, problems=tuple(_problems(row, facts)))


def _problems(row: TableHealth, facts: TableFacts) -> Iterable[str]:
    options, now_ms = facts.maintain, facts.now_ms
    if options.alert_runs is not None and row.level0_runs > options.alert_runs:
        yield f"{row.level0_runs} runs wait at level 0 of a bucket, more than {options.alert_runs}"
    if row.oldest_unmerged_time is not None and _exceeds(now_ms - row.oldest_unmerged_time, options.alert_unmerged_ms):
        waited, limit = _spell(now_ms - row.oldest_unmerged_time), duration.text(options.alert_unmerged_ms)
        yield f"a row has waited at level 0 for {waited}, more than {limit}"
    if options.alert_dead_share is not None and row.dead_share > options.alert_dead_share:
        yield f"{row.dead_share:.0%} of the rows are dead, more than {options.alert_dead_share:.0%}"
    for consumer, lag in row.consumer_lag.items():
        if _exceeds(lag, options.alert_consumer_lag):
            yield f"consumer {consumer!r} is {lag:,} snapshots behind, more than {options.alert_consumer_lag:,}"
    if row.publication_lag is not None and _exceeds(row.publication_lag, options.alert_publication_lag):
        yield f"Iceberg metadata is {row.publication_lag:,} snapshots behind, more than {options.alert_publication_lag:,}"
    if row.commit_time is not None and _exceeds(now_ms - row.commit_time, options.alert_commit_ms):
        limit = duration.text(options.alert_commit_ms)
        yield f"the last commit was {_spell(now_ms - row.commit_time)} ago, more than {limit}"


def _exceeds(value: int, limit: int | None) -> bool:
    return limit is not None and value > limit


def _spell(milliseconds: int) -> str:
    """A duration in its largest whole unit."""
    unit = next((unit for unit, factor in duration.units.items() if milliseconds >= factor), "ms")
    return f"{milliseconds // duration.units[unit]} {unit}"


def _last_commits(facts: TableFacts) -> dict[str, int | None]:
    """The time of the last commit of each writer that numbers its commits."""
    snapshot, snapshots = facts.version.snapshot, facts.version.meta.snapshots
    if snapshot is None or not snapshot.writers:
        return {}
    times: dict[str, int | None] = dict.fromkeys(snapshot.writers)
    number, looked = snapshot.id, 0
    while number > 0 and looked < _WRITERS_SNAPSHOTS and None in times.values():
        try:
            one = snapshot if number == snapshot.id else snapshots.get(number)
        except SnapshotNotFound:
            break
        if one.writer_id in times and times[one.writer_id] is None:
            times[one.writer_id] = one.time_ms
        number, looked = number - 1, looked + 1
    return times
