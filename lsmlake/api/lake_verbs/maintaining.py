"""The verbs of maintenance: do what is due in all tables, and show their health and what was done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import pyarrow as pa

from lsmlake.api.lake_verbs.administration import CatalogVerbs
from lsmlake.api.maintenance_run import MaintenanceOrder, plan_of, told
from lsmlake.beside import Signal
from lsmlake.border import verbs_of
from lsmlake.errors import InvalidQuery, LakeError, Wording, with_arguments
from lsmlake.maintain import health as table_health
from lsmlake.maintain import work_history
from lsmlake.maintain.due import due
from lsmlake.maintain.health import Thresholds
from lsmlake.maintain.table_facts import Looks, TableFacts
from lsmlake.maintain.work_history import WorkHistory, WorkRecord, WorkSummary, of_commits
from lsmlake.options.option_types import duration, fraction

_RECORDS_MAX = 10_000
_CORRECT = Wording("correct the threshold, or leave it out", command="correct the option, or leave it out")


@verbs_of("Lake")
class Maintaining(CatalogVerbs):
    """The verbs of maintenance: do what is due in all tables, and show their health and what was done."""

    def maintain(
        self,
        once: bool | None = None,
        *,
        every: str | int | None = None,
        plan: bool = False,
        tables: Collection[str] | None = None,
        workers: int | None = None,
        memory: str | int | None = None,
        bytes_per_second: str | int | None = None,
    ) -> pa.Table:
        """Do what is due in all tables and branches, the most useful first. With Spark attached, Spark compacts.

        Due are: refreshes of view tables and histories whose tables have newer snapshots; compactions that the strategy of the
        table picks; splits and merges of buckets; expiry of snapshots, changelogs, tags, partitions and consumers; Iceberg
        metadata that lags behind; many small manifests; statistics that are old; and, once a week, orphan files. The options
        `maintain.*` of a table, or properties of its database, say when and how much.

        Several maintainers share the work, on one or many machines. A table that fails is reported and waits; the others go on.

        Args:
            once: return when nothing is due any more. Default: True unless `every` is given.
            every: look again and again, with this time from the beginning of one look to that of the next, such as '30 s', until
                the call is interrupted.
            plan: do nothing, list what is due, why, and its cost. Of the other arguments only `tables` may be given.
            tables: only these tables with their branches, as "database.table", or a branch. Default: all.
            workers: how many tables to work on at once. Default: the cores of this machine, at most 4.
            memory: the memory that all work may need at once, as estimated. Default: 4 gb.
            bytes_per_second: how much to read and write, on average, such as '50 mb'. Default: no limit.

        Returns:
            What was done, as `maintenance` shows it, the newest 10,000 works; or the plan: one row per work, the most useful
            first, and in `waits` why it would not be done now.

        Raises:
            InvalidQuery: arguments contradict each other, or are out of range.
            InvalidOption: a duration or a size is not valid.
            TableNotFound: one of `tables` does not exist.

        Example:
            >>> lake.maintain(plan=True).to_pandas()
            >>> lake.maintain(once=True)
        """
        stop, order = Signal(), MaintenanceOrder(once, every, tables, workers, memory, bytes_per_second)
        if plan:
            order.check_plan()
        every_ms, maintainer = order.every_ms(), order.maintainer(self.env, self.runtime, stop)
        if plan:
            return plan_of(maintainer)
        records: deque[WorkRecord] = deque(maxlen=_RECORDS_MAX)
        for session in maintainer.once() if every_ms is None else maintainer.every(every_ms / 1000):
            records.extend(told(session, self.env.clock()))
        return work_history.listing(records)

    def maintenance(self, tables: Sequence[str] | None = None) -> pa.Table:
        """What was done to the tables, oldest first: one row per compaction, split, expiry and other work.

        Maintainers record all that they do, 200 works per table or branch. The compactions of writers, and other commits that
        removed files, are read from the retained snapshots, and are gone when these expire.

        Args:
            tables: only these tables with their branches, as "database.table", or a branch. Default: all.

        Raises:
            TableNotFound: one of `tables` does not exist.
        """
        looks, history, records = Looks(self.env), WorkHistory(self.env).all(), []
        for name in looks.names(tables):
            try:
                meta = looks.metadata(name)
                known = history.get(meta.paths.line, [])
                records += [*known, *of_commits(meta, name, known)]
            except LakeError as broken:
                records.append(WorkRecord(name, "look", None, None, self.env.clock(), error=str(broken)))
        return work_history.listing(records)

    def health(
        self,
        tables: Collection[str] | None = None,
        *,
        level0_runs: int | None = None,
        unmerged_time: str | int | None = None,
        dead_share: float | None = None,
        consumer_lag: int | None = None,
        publication_lag: int | None = None,
        commit_time: str | int | None = None,
    ) -> pa.Table:
        """The health of tables and branches, one row each: what waits to be merged, dead rows, small files, snapshots that are
        kept and why, lags of consumers and of Iceberg metadata, the last commit of each writer, and what is due.

        `problems` says what exceeds a threshold. Thresholds are the options `maintain.alert.*` of the table, or properties of its
        database. A table that cannot be read is a row with the reason in `error`. `SELECT * FROM sys.health` gives the same.

        Args:
            tables: only these tables with their branches, as "database.table", or a branch. Default: all.
            level0_runs: the most sorted runs at level 0 of a bucket.
            unmerged_time: the longest time that a row may wait at level 0, such as '1 h'.
            dead_share: the greatest share of dead rows, greater than 0, at most 1.
            consumer_lag: how many snapshots a consumer may be behind.
            publication_lag: how many snapshots Iceberg metadata may be behind.
            commit_time: the longest time without a commit.

        Raises:
            InvalidQuery: a number is out of range.
            InvalidOption: a duration or a share is not valid.
            TableNotFound: one of `tables` does not exist.

        Example:
            >>> lake.health(level0_runs=8).select(["table_name", "problems"]).to_pylist()
        """
        numbers = {"level0_runs": level0_runs, "consumer_lag": consumer_lag, "publication_lag": publication_lag}
        for name, number in numbers.items():
            if number is not None and number < 0:
                raise InvalidQuery(with_arguments("{} is negative", name), expected="0 or more", found=number, cure=_CORRECT)
        parsed = {name: duration.argument(name, given, "health", _CORRECT) if given is not None else None
                  for name, given in (("unmerged_time", unmerged_time), ("commit_time", commit_time))}  # fmt: skip
        share = None if dead_share is None else fraction.argument("dead_share", dead_share, "health", _CORRECT)
        thresholds = Thresholds(level0_runs, parsed["unmerged_time"], share, consumer_lag, publication_lag, parsed["commit_time"])
        looks, done = Looks(self.env), WorkHistory(self.env).summaries()
        rows = table_health.health(looks, looks.names(tables), thresholds, _kinds_due(done))
        return table_health.listing(rows)


def _kinds_due(done: Mapping[str, WorkSummary]) -> Callable[[TableFacts], Iterable[str]]:
    def kinds(facts: TableFacts) -> Iterable[str]:
        summary = done.get(facts.version.meta.paths.line, WorkSummary())
        return (work.kind for work in due(facts, summary.last_ms))

    return kinds
