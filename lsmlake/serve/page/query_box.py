"""Runs the statements of the page: queries only, unless the server lets clients change the lake; the first rows of the result; a
limit of time; and cancelling by the id that the page gave the statement. The id is random, so only this page knows it.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from threading import BoundedSemaphore
from typing import Any

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.beside import Signal
from lsmlake.errors import EngineFailed, InvalidQuery
from lsmlake.read.limit import first_rows
from lsmlake.serve.page.commit_timeline import ROWS_MAX, cells
from lsmlake.serve.page.funnel import funnels
from lsmlake.sql.execution import execute
from lsmlake.sql.run_query import Prepared
from lsmlake.sql.streamed_rows import Streamed, StreamLimits, streamed

SECONDS = 30
RUNNING_MAX = 8
"""Most statements that run at once: each takes a thread of the server, which needs others for all other requests."""
ID_MIN = 16
"""Fewest characters of an id: a shorter one could be guessed, or chosen by two pages."""
_OTHER_ID = "choose another id, such as one of 32 random hexadecimal digits"
_READS_ONLY = "this server, which was started without --write,"


class _Deadline:
    """The end of a statement: when its time is over, or when it is cancelled."""

    def __init__(self, lake: Lake, seconds: float) -> None:
        self._clock, self._seconds = lake.env.clock, seconds
        self._until_ms = self._clock() + seconds * 1000
        self.cancelled = Signal()

    def check(self) -> None:
        """Raises InvalidQuery at the end."""
        if self.cancelled.given:
            raise InvalidQuery("the statement was cancelled", cure="run it again")
        if self._clock() >= self._until_ms:
            cure = "read fewer rows, for example by a condition on the key or a partition, or use `lsmlake sql`"
            raise InvalidQuery(f"the query took longer than {self._seconds:g} seconds", cure=cure)


@dataclass
class QueryBox:
    """The statements of all pages of a server.

    Args:
        of: the lake. Statements have a session of their own: they change no view or database of others, and read no files of the
            machine.
        writes: whether statements may change the lake.
        seconds: how long a query may take.
        memory: how much a query may use, in bytes; None: most of the memory of the machine.
        at_once: how many statements may run at once.
    """

    of: Lake
    writes: bool = False
    seconds: float = SECONDS
    memory: int | None = None
    at_once: int = RUNNING_MAX
    _lake: Lake = field(init=False)
    _free: BoundedSemaphore = field(init=False)
    _running: dict[str, _Deadline] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lake = Lake(self.of.env, self.of.runtime)
        self._lake.session.served = True
        self._free = BoundedSemaphore(self.at_once)

    def run(self, text: str, id: str = "") -> dict[str, Any]:
        """The columns and the first rows of a statement, the funnels of its tables, and times.

        Args:
            text: one statement of SQL.
            id: what `cancel` needs to know, at least `ID_MIN` random characters; "": the statement cannot be cancelled.

        Raises:
            LakeError: the statement or its id is not valid, is refused, took too long or was cancelled; or too many others run.
        """
        if id and len(id) < ID_MIN:
            expected = f"no characters, or at least {ID_MIN} random ones"
            raise InvalidQuery("others could guess the id of the statement", expected=expected, found=repr(id), cure=_OTHER_ID)
        deadline = _Deadline(self._lake, self.seconds)
        if not self._free.acquire(blocking=False):
            cure = "wait until one has ended, or cancel one"
            raise EngineFailed("too many statements run on the page", expected=f"at most {self.at_once}", cure=cure)
        try:
            if id and self._running.setdefault(id, deadline) is not deadline:
                raise InvalidQuery("another statement that runs has this id", cure=_OTHER_ID)
            try:
                return self._run(text, StreamLimits(self.memory, deadline.check))
            finally:
                self._running.pop(id, None)
        finally:
            self._free.release()

    def _run(self, text: str, limits: StreamLimits) -> dict[str, Any]:
        clock = self._lake.env.clock
        found: list[dict[str, Any]] = []

        def evaluate(prepared: Prepared) -> tuple[Streamed, int]:
            planned = clock()
            found.extend(funnels(prepared))
            return streamed(limits, prepared), planned

        began = clock()
        result = execute(self._lake, text, None, {}, evaluate=evaluate, query_for="" if self.writes else _READS_ONLY)
        if isinstance(result, tuple):
            (rows_of, planned), starts = result, clock()
            rows = _first(rows_of)
            executed = clock() - starts
        else:
            rows, planned, executed = result, clock(), 0
        return {
            **cells(rows.slice(0, ROWS_MAX)),
            "more": rows.num_rows > ROWS_MAX,
            "funnels": found,
            "planned_ms": planned - began,
            "executed_ms": executed,
        }

    def cancel(self, id: str) -> bool:
        """Cancels a query; False: it does not run, or has ended. A statement that changes a table runs to its end."""
        deadline = self._running.get(id)
        if deadline is not None:
            deadline.cancelled.give()
        return deadline is not None


def _first(result: Streamed) -> pa.Table:
    """One row more than is shown, if there are so many."""
    with closing(result.batches):
        tables = (pa.Table.from_batches([batch]) for batch in result.batches)
        return pa.concat_tables([result.schema.empty_table(), *first_rows(tables, ROWS_MAX + 1)])
