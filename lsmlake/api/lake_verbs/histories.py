"""The verb `history_of`: keeps all versions of the rows of a table in another table. `api.history_runs` does the work."""

from __future__ import annotations

from collections.abc import Sequence

from lsmlake.api.history_runs import HistoryRun
from lsmlake.api.history_terms import HistoryTerms
from lsmlake.api.lake_verbs.administration import CatalogVerbs
from lsmlake.api.public_types import HistoryStart
from lsmlake.api.table import Table
from lsmlake.border import verbs_of
from lsmlake.errors import InvalidQuery, TableExists, TableNotFound


@verbs_of("Lake")
class Histories(CatalogVerbs):
    """The verb that keeps a history of a table."""

    def history_of(
        self,
        source: Table | str,
        name: str,
        *,
        track: Sequence[str] | None = None,
        track_except: Sequence[str] | None = None,
        sequence_by: str | None = None,
        start: HistoryStart | None = None,
    ) -> Table:
        """Bring the history of a table up to date (a slowly changing dimension of type 2), and return it.

        The history is a table with the columns of the source, `valid_from` and `valid_to`, and one row per version of a key; its
        primary key is that of the source and `valid_from`. A version is valid from `valid_from` (inclusive) to `valid_to`
        (exclusive); if `valid_to` is null, it is still valid. A delete ends a version. The first call creates the table; each
        call adds the changes since the last one, each exactly once, also if calls fail in between, and `maintain` does the same.
        Arguments that a later call leaves out are those of the first one; others are refused. A consumer of the source,
        `history-<database>-<table>`, keeps the snapshots that the history has not read; remove it if the history is dropped.
        Columns that the source gets later are added, and those that are renamed or widened there are altered. The work is
        done in this process, also with Spark attached.

        Args:
            source: the table, or its name. It has a primary key.
            name: the name of the history, "database.table".
            track: only a change of these columns begins a version; a change of others alters the version that is valid.
                `track_history_column_list` in AUTO CDC of Spark's pipelines. Default: all columns.
            track_except: all columns but these are tracked. Neither takes columns of the primary key.
            sequence_by: the column that says from when a row is valid, or "_commit_time": from its commit. Default: the
                `sequence.field` of the source if it is one TIMESTAMP column, or one column of any type and the source has
                `changelog-producer` = input; otherwise the commits. With `input` and the merge engine deduplicate, late changes
                are put between older versions; otherwise the history has what became visible in the source, in the order of the
                commits, and a delete ends a version at the time of its commit.
            start: where the first call begins. "latest-full", the default: with the rows that the source has now.
                "earliest-full": with the oldest snapshot that is kept, or the first change if all are kept.

        Raises:
            InvalidQuery: the source has no primary key, the arguments contradict it or each other, or the table `name` is
                something else, or a history with other arguments.
            InvalidSchema: the source has a column `valid_from` or `valid_to`, or one of another type than in the history; or one
                got a name under which the history keeps an older column.
            SnapshotNotFound: snapshots that the history has not read have expired, since its consumer was removed.

        Example:
            >>> history = lake.history_of(orders, "sales.orders_history")
            >>> history.scan(where="order_id = 7 AND valid_to IS NULL").to_arrow()
        """
        if isinstance(source, str):
            source = self.table(source)
        elif not isinstance(source, Table):
            cure, found = "pass lake.table(...), or the name of the table", type(source).__name__
            raise InvalidQuery("not a table", where="history_of()", expected="a Table, or its name", found=found, cure=cure)
        given = HistoryTerms.given(track, track_except, sequence_by, start, source.name)
        try:
            history = self.table(name)
        except TableNotFound:
            history = self._made(HistoryRun.of(source, name, given, None))
        HistoryRun.of(source, name, given, history).run(history)
        return history

    def _made(self, run: HistoryRun) -> Table:
        run.forget()
        comment = f"history of {run.source.name}"
        try:
            return self.create_table(run.name, run.columns(), primary_key=run.primary_key, options=run.options, comment=comment)
        except TableExists:  # another run has made it meanwhile
            return self.table(run.name)
