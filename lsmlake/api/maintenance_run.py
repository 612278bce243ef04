"""Makes a maintainer of what users pass: for `Lake.maintain` and the command `maintain`."""

from __future__ import annotations

import platform
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from lsmlake.api.runtime import Runtime
from lsmlake.api.upkeep_works import workman
from lsmlake.beside import Signal
from lsmlake.errors import InvalidQuery, Wording, with_arguments
from lsmlake.maintain.maintainer import Maintainer, MaintenanceSession, StoppableIds, WorkLimits
from lsmlake.maintain.work_history import WorkRecord
from lsmlake.options.option_types import OptionType, duration, positive_size
from lsmlake.storage.env import Env

_EVERY_MS = 30_000
_MEMORY = 4 << 30
_WORKERS = Wording("correct workers", command="correct --workers")
_PLAN = Wording("leave out plan=True or the others", command="leave out --plan or the others")
_ONE_OF_BOTH = Wording("pass once=True, or every='30 s'", command="write --once, or --every 30s")


class MaintenanceOrder(NamedTuple):
    """The arguments of `Lake.maintain`, as given."""

    once: bool | None = None
    every: str | int | None = None
    tables: Collection[str] | None = None
    workers: int | None = None
    memory: str | int | None = None
    bytes_per_second: str | int | None = None

    def every_ms(self) -> int | None:
        """The time between two rounds; None: work once. Raises InvalidQuery, InvalidOption."""
        if self.every is None:
            return None if self.once in (None, True) else _EVERY_MS
        if self.once:
            raise InvalidQuery(with_arguments("{} and {} exclude each other", "once", "every"), cure=_ONE_OF_BOTH)
        return _parsed(duration, "every", self.every)

    def check_plan(self) -> None:
        """Raises InvalidQuery if arguments are given that a plan does not obey: it neither waits nor works."""
        given = self._asdict()
        given.pop("tables")
        if unheard := [name for name, value in given.items() if value is not None]:
            raise InvalidQuery(
                "a plan does no work", found=with_arguments(", ".join(["{}"] * len(unheard)), *unheard), cure=_PLAN
            )

    def maintainer(self, env: Env, runtime: Runtime, stop: Signal) -> Maintainer:
        """Raises InvalidQuery, InvalidOption, TableNotFound."""
        workers = env.workers if self.workers is None else self.workers
        if workers < 1:
            raise InvalidQuery("not a number of workers", expected="1 or more", found=workers, cure=_WORKERS)
        rate = None if self.bytes_per_second is None else _parsed(positive_size, "bytes_per_second", self.bytes_per_second)
        memory = _MEMORY if self.memory is None else _parsed(positive_size, "memory", self.memory)
        number = env.ids()
        who = f"{platform.node()} {number[:8]}".strip()
        stoppable = replace(env, ids=StoppableIds(env.ids, stop), workers=1)
        limits = WorkLimits(workers, memory, rate)
        made = Maintainer(stoppable, workman(runtime, stop, who), limits, stop, number, who, self.tables)
        if self.tables is not None:
            made.looks.names(self.tables)
        return made


def _parsed(kind: OptionType[int], name: str, value: str | int) -> int:
    return kind.argument(name, value, "maintain", "correct the value, or leave it out")


def told(session: MaintenanceSession, now_ms: int) -> list[WorkRecord]:
    """What a session did, with a record of the table itself if it cannot be read."""
    if session.error is None or any(record.error for record in session.records):
        return list(session.records)
    return [*session.records, WorkRecord(session.table, "look", None, None, now_ms, error=str(session.error))]


def plan_of(maintainer: Maintainer) -> pa.Table:
    """What is due: one row per work, the most useful first, then the tables that cannot be read."""
    planned, broken = maintainer.plan()
    works = [one.work for one in planned]
    errors = [None] * len(works) + [str(error) for error in broken.values()]
    blank = [None] * len(broken)
    return pa.table(
        {
            "table_name": pa.array([*(work.table for work in works), *broken], pa.string()),
            "kind": pa.array([*(work.kind for work in works), *blank], pa.string()),
            "reason": pa.array([*(work.reason for work in works), *blank], pa.string()),
            "benefit_in_bytes": pa.array([*(work.benefit for work in works), *blank], pa.int64()),
            "cost_in_bytes": pa.array([*(work.cost for work in works), *blank], pa.int64()),
            "rank": pa.array([*(work.rank for work in works), *blank], pa.float64()),
            "waits": pa.array([*(one.waits for one in planned), *blank], pa.string()),
            "error": pa.array(errors, pa.string()),
        }
    )
