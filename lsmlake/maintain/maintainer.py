"""A maintainer: looks at all tables, ranks what is due, and does it, within its limits, table by table.

1. A round looks at every table and branch, and orders the tables by the rank of their most useful work (`maintain.due`).
2. A session takes the lease of one table, looks again, because another maintainer may have done the work meanwhile, and does its
   works in order of rank until it has moved about `due.CHUNK_BYTES`. Sessions of several tables run side by side.
3. Before a session begins, the limits must allow it: the number of workers, the memory of all sessions, and the bytes per second
   of all that was done so far.
4. A table whose work fails waits before it is tried again, twice as long each time, at most an hour. Other tables go on. So does
   one that was named and does not exist any more.
5. What was done is added to the history, once per session.

`stop` ends it within seconds: no session begins, and running ones end at the next file that they would write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple

from lsmlake.beside import Signal, Work, begin
from lsmlake.errors import CommitConflict, LakeError, SnapshotNotFound, StorageFailed, TableNotFound, foreign
from lsmlake.maintain.due import CHUNK_BYTES, HEAVY, REMOVE_ORPHANS, Due, due
from lsmlake.maintain.leases import TIME_MS, Leases
from lsmlake.maintain.table_facts import Looks, TableFacts
from lsmlake.maintain.work_history import WorkHistory, WorkRecord, WorkSummary
from lsmlake.storage.env import Env
from lsmlake.undo import pass_interruption

_log = logging.getLogger("lsmlake.maintain")

_STEP_S = 0.2  # between two looks at `stop`
_GRACE_STEPS = 50  # for running sessions after a stop
_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 60_000, 3_600_000
_SESSIONS_MAX = 20  # of one table in a run that works once


class WorkLimits(NamedTuple):
    """`workers`: sessions at once. `memory`: bytes of all sessions. `bytes_per_second`: read and written; None: no limit."""

    workers: int = 1
    memory: int = 4 << 30
    bytes_per_second: int | None = None


class Stopped(Exception):
    """The maintainer was told to stop. Undoes the work in progress, as any error does."""


@dataclass(frozen=True)
class StoppableIds:
    """The ids of an environment, until `stop` is given. Each new file needs one, so work in progress ends there. Pickles as the
    ids alone, since no other process sees the signal."""

    ids: Callable[[], str]
    stop: Signal

    def __call__(self) -> str:
        if self.stop.given:
            raise Stopped
        return self.ids()

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _itself, (self.ids,)


def _itself(value: object) -> object:
    return value


class Backoff(NamedTuple):
    """How often a table failed in a row, and when it is tried again."""

    failures: int
    until_ms: int

    def again(self, now_ms: int) -> Backoff:
        wait_ms = min(_FIRST_WAIT_MS << min(self.failures, 16), _LONGEST_WAIT_MS)
        return Backoff(self.failures + 1, now_ms + wait_ms)


class Planned(NamedTuple):
    """A work that is due. `waits`: why it is not done now; None: it would be."""

    work: Due
    waits: str | None


class MaintenanceSession(NamedTuple):
    """What one session did. `moved`: bytes read and written, as estimated; `error`: why it ended early."""

    table: str
    records: Sequence[WorkRecord]
    moved: int = 0
    error: LakeError | None = None


Do = Callable[[TableFacts, Due], WorkRecord]
"""Does a work; returns what it did."""


@dataclass
class Maintainer:
    """See the module.

    Args:
        env: the warehouse, with stoppable ids.
        do: does a work.
        tables: only these tables; None: all.
        id: a name for its leases, unique.
        who: what the history says of it.
        lease_ms: how long a dead maintainer keeps tables from others.
    """

    env: Env
    do: Do
    limits: WorkLimits
    stop: Signal
    id: str
    who: str
    tables: Collection[str] | None = None
    lease_ms: int = TIME_MS
    looks: Looks = field(init=False)
    leases: Leases = field(init=False)
    history: WorkHistory = field(init=False)
    _failed: dict[str, Backoff] = field(default_factory=dict)
    _debt: float = 0.0  # bytes moved beyond those that `bytes_per_second` allows
    _paid_ms: int = 0

    def __post_init__(self) -> None:
        self.looks, self.history = Looks(self.env), WorkHistory(self.env)
        self.leases = Leases(self.env, self.id, self.who, self.lease_ms)

    # -- what is due --------------------------------------------------------------------------------------------------

    def plan(self) -> tuple[list[Planned], dict[str, LakeError]]:
        """What is due, the most useful first, and the tables that cannot be read. Writes nothing."""
        holders, planned, broken = self.leases.holders(), [], {}
        for name, works in self._looked(broken):
            for work in works:
                holder = holders.get(self.looks.metadata(name).paths.line)
                waits = f"maintainer {holder} works on the table" if holder else self._waits(work)
                planned.append(Planned(work, waits))
        return sorted(planned, key=lambda one: -one.work.rank), broken

    def _looked(self, broken: dict[str, LakeError]) -> Iterator[tuple[str, list[Due]]]:
        """Each table with what is due; puts those that cannot be read into `broken`."""
        names, done = self.looks.names(self.tables, broken), self.history.summaries()
        self.looks.forget(names)
        for name in names:
            if self.stop.given:
                return
            try:
                facts = self.looks.look(name)
                summary = done.get(facts.version.meta.paths.line, WorkSummary())
                self._budgets[name] = _Budget.of(facts, summary)
                works = due(facts, summary.last_ms)
            except (TableNotFound, SnapshotNotFound):  # dropped or renamed meanwhile; or many commits came during the look
                continue
            except LakeError as error:
                broken[name] = error
                continue
            yield name, works

    _budgets: dict[str, _Budget] = field(default_factory=dict)

    def _waits(self, work: Due) -> str | None:
        """Why a work is not done now; None: it is."""
        backoff, now_ms = self._failed.get(work.table), self.env.clock()
        if backoff is not None and now_ms < backoff.until_ms:
            return f"failed {backoff.failures} times, is tried again in {(backoff.until_ms - now_ms) // 1000} s"
        return self._budgets[work.table].refuses(work, now_ms) if work.kind in HEAVY else None

    # -- rounds -------------------------------------------------------------------------------------------------------

    def once(self) -> Iterator[MaintenanceSession]:
        """Does what is due until nothing is, and yields each session when it ends."""
        counts: dict[str, int] = {}
        try:
            while not self.stop.given:
                useful = False
                for session in self._round(lambda name: counts.get(name, 0) < _SESSIONS_MAX):
                    changed = session.error is None and any(record.changed for record in session.records)
                    counts[session.table] = counts.get(session.table, 0) + 1 if changed else _SESSIONS_MAX
                    useful |= changed
                    yield session
                if not useful:
                    return
        finally:
            self._end()

    def every(self, seconds: float) -> Iterator[MaintenanceSession]:
        """Does what is due, round after round, at least `seconds` from the beginning of one to that of the next, until it is
        stopped. Yields each session when it ends."""
        try:
            while not self.stop.given:
                next_ms = self.env.clock() + int(seconds * 1000)
                try:
                    yield from self._round(lambda name: True)
                except StorageFailed as failed:  # such as a store that does not answer for a while
                    _log.warning("maintenance pauses: %s", failed)
                while not self.stop.given and self.env.clock() < next_ms:
                    with suppress(StorageFailed):
                        self.leases.beat()
                    self.env.sleep(_STEP_S)
        finally:
            self._end()

    def _end(self) -> None:
        with suppress(StorageFailed):
            self.leases.leave()

    def _round(self, allowed: Callable[[str], bool]) -> Iterator[MaintenanceSession]:
        self.leases.beat()
        broken: dict[str, LakeError] = {}
        ranked: list[tuple[float, str, int]] = []
        for name, works in self._looked(broken):
            self.leases.beat()
            now = [work for work in works if self._waits(work) is None]
            if now and allowed(name):
                ranked.append((-now[0].rank, name, max(work.memory for work in now)))
        for name, error in broken.items():
            if allowed(name) and self._is_ready(name):
                yield self._noted(MaintenanceSession(name, (), error=error))
        yield from self._sessions(sorted(ranked))
        if not self.stop.given:
            self.leases.sweep()
            if self.tables is None:
                self.history.forget(self.looks.metadata(name).paths.line for name in self.looks.names())

    def _is_ready(self, name: str) -> bool:
        backoff = self._failed.get(name)
        return backoff is None or self.env.clock() >= backoff.until_ms

    def _sessions(self, ranked: Sequence[tuple[float, str, int]]) -> Iterator[MaintenanceSession]:
        """Runs a session for each table, side by side within the limits."""
        ended: SimpleQueue[Work[MaintenanceSession]] = SimpleQueue()
        running: dict[Work[MaintenanceSession], int] = {}
        waiting = list(reversed(ranked))
        try:
            while (waiting or running) and not self.stop.given:
                while waiting and self._may_begin(waiting[-1][2], running.values()):
                    _, name, memory = waiting.pop()
                    running[begin(partial(Context().run, self._session, name), ended.put)] = memory
                if not running:
                    self.env.sleep(_STEP_S)  # `bytes_per_second` makes it wait
                else:
                    with suppress(Empty):
                        work = ended.get(timeout=_STEP_S)
                        running.pop(work)
                        session = self._noted(work.result())
                        self._debt += session.moved
                        yield session
                self.leases.beat()
        finally:
            if running:
                self.stop.give()
                for _ in range(_GRACE_STEPS):
                    if (work := next((one for one in running if not one.ended.given), None)) is None:
                        break
                    work.ended.wait(_STEP_S)

    def _may_begin(self, memory: int, running: Iterable[int]) -> bool:
        running = list(running)
        if running and (len(running) >= self.limits.workers or sum(running) + memory > self.limits.memory):
            return False
        rate, now_ms = self.limits.bytes_per_second, self.env.clock()
        if rate is None:
            return True
        self._debt = max(0.0, self._debt - rate * (now_ms - self._paid_ms) / 1000)
        self._paid_ms = now_ms
        return not self._debt

    def _noted(self, session: MaintenanceSession) -> MaintenanceSession:
        """Logs a session, and makes a table that failed wait."""
        for record in session.records:
            numbers = f"{record.files_in or 0} files of {record.bytes_in or 0:,} bytes became {record.files_out or 0}"
            took = record.end_ms - (record.start_ms or record.end_ms)
            if record.error is None:
                _log.info("%s: %s (%s), %s, %d ms", record.table, record.kind, record.reason, numbers, took)
        if session.error is None:
            self._failed.pop(session.table, None)
        else:
            now_ms = self.env.clock()
            self._failed[session.table] = backoff = self._failed.get(session.table, Backoff(0, 0)).again(now_ms)
            wait_s = (backoff.until_ms - now_ms) // 1000
            _log.warning("%s: maintenance failed, is tried again in %d s: %s", session.table, wait_s, session.error)
        return session

    # -- a session ----------------------------------------------------------------------------------------------------

    def _session(self, name: str) -> MaintenanceSession:
        """Runs in a thread of its own. Never raises an Exception."""
        records: list[WorkRecord] = []
        session = MaintenanceSession(name, records)
        try:
            line = self.looks.metadata(name).paths.line
            lease = self.leases.take(line)
            if lease is None:
                return session
            try:
                session = self._worked(name, session, records)
            finally:
                with suppress(LakeError):  # what was done stands without its record
                    if records:
                        self.history.add(line, records)
                with suppress(StorageFailed):
                    self.leases.release(lease)
        except (TableNotFound, SnapshotNotFound, Stopped):
            return session
        except LakeError as error:
            return session._replace(error=error)
        except Exception as error:
            pass_interruption(error)
            return session._replace(error=foreign(error, f"maintenance of {name}"))
        return session

    def _worked(self, name: str, session: MaintenanceSession, records: list[WorkRecord]) -> MaintenanceSession:
        facts = self.looks.look(name)
        summary = self.history.summary(facts.version.meta.paths.line)
        works = [work for work in due(facts, summary.last_ms) if not self._waits(work)]
        moved = 0
        for work in works:
            if self.stop.given or (moved and moved + work.cost > CHUNK_BYTES):
                break
            start_ms = self.env.clock()
            try:
                record = self.do(facts, work)
            except (CommitConflict, TableNotFound, SnapshotNotFound) as overtaken:  # the next round sees what is left
                _log.info("%s: other commits overtook %s: %s", name, work.kind, overtaken)
                continue
            except LakeError as error:
                if self.stop.given:
                    return session._replace(moved=moved)
                told = WorkRecord(name, work.kind, work.reason, start_ms, self.env.clock(), who=self.who, error=error.what)
                records.append(told)
                return session._replace(moved=moved, error=error)
            if record.changed or work.kind == REMOVE_ORPHANS:
                records.append(record)
            moved += work.cost
        return session._replace(moved=moved)


class _Budget(NamedTuple):
    """What the policy of a table allows now. `spent`: the bytes of heavy work in the last 24 hours."""

    window: tuple[int, int] | None
    day_bytes: int | None
    spent: int

    @staticmethod
    def of(facts: TableFacts, summary: WorkSummary) -> _Budget:
        return _Budget(facts.maintain.window, facts.maintain.day_bytes, summary.spent(HEAVY, facts.now_ms))

    def refuses(self, work: Due, now_ms: int) -> str | None:
        if self.window is not None:
            (start, end), hour = self.window, now_ms // 3_600_000 % 24
            if not (start <= hour < end if start < end else hour >= start or hour < end):
                return f"outside of maintain.window = {start}-{end}"
        if self.day_bytes is not None and self.spent and self.spent + work.cost > self.day_bytes:
            return f"maintain.bytes-per-day: {self.spent:,} bytes in the last 24 hours"
        return None
