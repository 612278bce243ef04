"""The list of tables: one row per table or branch, with its size, what waits, what is due and what is wrong; and the plan and the
log of maintenance, which come from the same looks at the tables.

A look at a table that has not changed costs a few small reads. One round of looks serves all pages: it is kept for a short time,
longer if it took long. The first round of a large warehouse takes seconds, so its answer comes early, with the tables found so
far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from lsmlake.api.lake import Lake
from lsmlake.api.maintenance_run import MaintenanceOrder
from lsmlake.beside import Signal, Work, begin
from lsmlake.errors import LakeError
from lsmlake.format.paths import split_branch
from lsmlake.maintain.due import Due
from lsmlake.maintain.health import TableHealth, Thresholds, health
from lsmlake.maintain.maintainer import Maintainer, Planned
from lsmlake.maintain.table_facts import Looks, TableFacts
from lsmlake.serve.page.works_done import record_row

_KEPT_MS, _TIMES = 1_500, 10
"""A round is kept for so long, and at least for so many times the time that it took."""
_PATIENCE_S = 0.6
_LOG_MAX = 300


@dataclass
class _RoundLooks(Looks):
    """Looks once at each table in a round."""

    _round: dict[str, TableFacts] = field(default_factory=dict)

    def begin(self) -> None:
        """Begins a round."""
        self._round.clear()

    def look(self, name: str) -> TableFacts:
        """See `Looks.look`."""
        if name not in self._round:
            self._round[name] = super().look(name)
        return self._round[name]


@dataclass
class Overview:
    """The tables of a lake, looked at again and again. Threads can share it."""

    lake: Lake
    _looks: _RoundLooks = field(init=False)
    _maintainer: Maintainer = field(init=False)
    _until_ms: int = 0
    _value: dict[str, Any] | None = None
    _early: list[dict[str, Any]] = field(default_factory=list)
    _expected: int = 0
    _round: Work | None = None
    _error: LakeError | None = None
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._looks = _RoundLooks(self.lake.env)
        self._maintainer = MaintenanceOrder().maintainer(self.lake.env, self.lake.runtime, Signal())
        self._maintainer.looks = self._looks

    def value(self, patience: float = _PATIENCE_S) -> dict[str, Any]:
        """The rows of all tables, the works that are due, and what maintainers did last.

        Args:
            patience: for how many seconds to wait for a round. After that the answer is that of the round before or, in the first
                one, the rows found so far; `reading` then says of how many.
        """
        with self._lock:
            if self._round is None and not self._is_fresh():
                self._round = begin(self._looked)
            running = self._round
        if running is not None and running.ended.wait(patience):
            running.result()
        with self._lock:
            if self._value is not None:
                return self._value
            if self._error is not None:
                raise self._error
            return {**self._frame(), "tables": list(self._early), "plan": [], "log": [], "logged": 0, "reading": self._expected}

    def _is_fresh(self) -> bool:
        now_ms = self.lake.env.clock()
        return self._value is not None and now_ms < self._until_ms <= now_ms + 3_600_000

    def _frame(self) -> dict[str, Any]:
        return {"warehouse": str(self.lake.env.storage.root), "databases": self.lake.databases()}

    def _looked(self) -> None:
        """A round. Its error, such as that of a store that does not answer, is raised for those who wait for it, and before the
        first round that succeeds also for others."""
        try:
            began = self.lake.env.clock()
            value = self._read()
            ended = self.lake.env.clock()
            with self._lock:
                self._value, self._until_ms = value, ended + max(_KEPT_MS, _TIMES * (ended - began))
        except LakeError as error:
            self._error = error
            raise
        else:
            self._error = None
        finally:
            with self._lock:
                self._round = None

    def _read(self) -> dict[str, Any]:
        self._looks.begin()
        names = self._looks.names()
        self._early, self._expected = [], len(names)
        for name in names:
            if row := _row(self._looks, name):
                self._early.append(row)
        planned, _ = self._maintainer.plan()
        works: dict[str, list[Planned]] = {}
        for one in planned:
            works.setdefault(one.work.table, []).append(one)
        history = self._maintainer.history.all()
        records = sorted((one for some in history.values() for one in some), key=lambda one: one.end_ms, reverse=True)
        return {
            **self._frame(),
            "tables": [{**row, "due": [_due(one.work) for one in works.get(row["name"], ())]} for row in self._early],
            "plan": [_planned(one) for one in planned],
            "log": [record_row(one) for one in records[:_LOG_MAX]],
            "logged": len(records),
            "reading": None,
        }


def _row(looks: Looks, name: str) -> dict[str, Any] | None:
    """The row of a table, without what is due; None: the table was dropped meanwhile."""
    rows = health(looks, [name], Thresholds(), lambda facts: ())
    return {**_health_row(rows[0]), "due": []} if rows else None


def _health_row(row: TableHealth) -> dict[str, Any]:
    whole, branch = split_branch(row.table_name)
    return {
        "name": row.table_name,
        "table": whole,
        "branch": branch,
        "problems": list(row.problems),
        "snapshot": row.snapshot_id,
        "commit_ms": row.commit_time,
        "rows": row.record_count,
        "files": row.file_count,
        "bytes": row.file_size_in_bytes,
        "buckets": row.bucket_count,
        "level0_runs": row.level0_runs,
        "level0_rows": row.level0_rows,
        "level0_bytes": row.level0_bytes,
        "unmerged_ms": row.oldest_unmerged_time,
        "dead_rows": row.dead_rows,
        "dead_share": row.dead_share,
        "small_files": row.small_files,
        "snapshots": row.snapshot_count,
        "held": dict(row.snapshots_held),
        "consumer_lag": dict(row.consumer_lag),
        "publication_lag": row.publication_lag,
        "error": row.error,
    }


def _due(work: Due) -> dict[str, Any]:
    return {"kind": work.kind, "reason": work.reason}


def _planned(one: Planned) -> dict[str, Any]:
    work = one.work
    return {
        "table": work.table,
        "kind": work.kind,
        "reason": work.reason,
        "benefit": work.benefit,
        "cost": work.cost,
        "rank": work.rank,
        "waits": one.waits,
    }
