"""The verbs that change rows by condition, and the builder of a MERGE: what `Table.merge` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from lsmlake.api.public_types import (
    Data,
    Isolation,
)
from lsmlake.api.scan import Scan
from lsmlake.api.table_verbs.handle import writable
from lsmlake.api.table_verbs.reading import Reading
from lsmlake.api.table_verbs.writing import Writing
from lsmlake.border import public, verbs_of
from lsmlake.commit.commit import again
from lsmlake.errors import InvalidQuery
from lsmlake.notebook import offered
from lsmlake.read.travel import Moment
from lsmlake.statements.attempts import OVERTAKEN, DmlReport, check_isolation
from lsmlake.statements.clause import BY_SOURCE, DELETE, INSERT, MATCHED, NOT_MATCHED, UPDATE, Clause
from lsmlake.storage.env import moment_of
from lsmlake.tables.version import Version


@public
@dataclass(frozen=True, repr=False)
class Merge:
    """A merge that is being described. Each method returns a new value; nothing is read until `execute`.

    In all expressions `t` is the target and `s` the source. Of the clauses for a row, the first one whose condition is true
    counts; without one, the row stays as it is.
    """

    run: Callable[[tuple[Clause[str], ...]], DmlReport]
    clauses: tuple[Clause[str], ...] = ()

    def __repr__(self) -> str:
        return f"<lsmlake merge, clauses: {', '.join(clause.action for clause in self.clauses) or 'none'}>"

    def __dir__(self) -> list[str]:
        return offered(super().__dir__())

    def __reduce__(self) -> tuple:
        what, cure = "a merge that is being described cannot be pickled", "pickle the table, and describe the merge there"
        raise InvalidQuery(what, where="merge()", cure=cure)

    def when_matched_update(self, values: Mapping[str, str], condition: str | None = None) -> Merge:
        """Update a target row that matches a source row. `values`: column -> expression; "st.a" is a field of a struct."""
        return self._with(Clause(MATCHED, UPDATE, values, condition))

    def when_matched_update_all(self, condition: str | None = None) -> Merge:
        """Update all columns of a target row from the source columns of the same names."""
        return self._with(Clause(MATCHED, UPDATE, None, condition))

    def when_matched_delete(self, condition: str | None = None) -> Merge:
        """Delete a target row that matches a source row."""
        return self._with(Clause(MATCHED, DELETE, None, condition))

    def when_not_matched_insert(self, values: Mapping[str, str], condition: str | None = None) -> Merge:
        """Insert a source row without a target row. Columns that `values` lacks get their default.

        Under a primary key this is an upsert: a row whose key is in the table, because `on` does not compare all of the key, goes
        through the merge engine, and so do several source rows of one key.
        """
        return self._with(Clause(NOT_MATCHED, INSERT, values, condition))

    def when_not_matched_insert_all(self, condition: str | None = None) -> Merge:
        """Insert a source row without a target row: all columns, by name."""
        return self._with(Clause(NOT_MATCHED, INSERT, None, condition))

    def when_not_matched_by_source_update(self, values: Mapping[str, str], condition: str | None = None) -> Merge:
        """Update a target row without a source row. `values`: column -> expression over `t`. Reads the whole target."""
        return self._with(Clause(BY_SOURCE, UPDATE, values, condition))

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> Merge:
        """Delete a target row without a source row. Reads the whole target."""
        return self._with(Clause(BY_SOURCE, DELETE, None, condition))

    def execute(self) -> DmlReport:
        """Execute the merge, as one commit.

        Raises:
            InvalidQuery: an expression is invalid, a clause can never apply, or the merge engine cannot update rows.
            InvalidData: several source rows match one target row (unless a delete without a condition is the only clause for
                matched rows), or a new row does not fit the table. Nothing was committed.
            CommitConflict: other commits changed the rows of the statement on every attempt. Nothing was committed.
            MissingDependency: DuckDB is not installed.
        """
        return self.run(self.clauses)

    def _with(self, clause: Clause[str]) -> Merge:
        if clause.values is not None and not clause.values:
            raise InvalidQuery(
                f"a clause to {clause.action} has no values", where="merge()", found="{}", cure="name at least one column"
            )
        return replace(self, clauses=(*self.clauses, clause))


@verbs_of("Table")
class Statements(Writing, Reading):
    """The verbs that change rows by condition."""

    def delete(self, where: str | None = None, *, isolation: Isolation | None = None) -> DmlReport:
        """Delete the rows that satisfy a condition, as one commit.

        Reads only the columns of `where`, and of a table with a primary key the key. An append-only table marks the rows in
        deletion vectors or, with `deletion-vectors.enabled = false`, rewrites the files that hold them; files whose rows are all
        deleted are removed without being read, if the condition is on partition columns. Under a primary key a row is deleted by
        its key, through the merge engine.

        Statements that change different rows do not disturb each other, also if the rows lie in one file. A statement whose rows
        another commit has changed is evaluated again.

        Args:
            where: a condition in Spark SQL. One that is no predicate, such as "upper(name) = 'X'", needs the extra `duckdb`.
                Default: all rows.
            isolation: 'serializable' also evaluates the statement again if other commits added rows that satisfy `where`;
                'snapshot' leaves such rows in the table. Default: `write.delete.isolation-level` of the table.

        Raises:
            InvalidQuery: `where` is no condition on columns of the table.
            InvalidData: the merge engine cannot delete by key with the options of the table. Nothing was committed.
            CommitConflict: other commits changed the rows of the statement on every attempt. Nothing was committed.

        Example:
            >>> orders.delete("dt < '2026-01-01'").deleted
            17
        """
        check_isolation(isolation)
        from lsmlake.statements.statement import deletion  # loads sqlglot

        version = writable(self)
        with deletion(where, moment_of(self.meta.env), isolation) as statement:
            evaluate = self.runtime.changing(version, statement)
        return again(version, evaluate, *OVERTAKEN)

    def update(self, values: Mapping[str, str], where: str | None = None, *, isolation: Isolation | None = None) -> DmlReport:
        """Give the rows that satisfy a condition new values, as one commit. Needs the extra `duckdb`.

        With Spark attached, Spark evaluates `values`, and a `where` that is no predicate, unless they consist of operators and
        the rows fit the driver (`write.driver-statement-size`).

        Concurrent statements and isolation are as in `delete`: `update({"v": "v + 1"})` by many writers loses no update.

        Args:
            values: column -> an expression in Spark SQL over the old row, such as {"amount": "amount * 2", "status": "'paid'"}.
                "st.a" is a field of a struct; the other fields keep their values. Key columns cannot be updated. A value that
                the column cannot hold without loss is refused.
            where: as in `delete`.
            isolation: as in `delete`. Default: `write.update.isolation-level`.

        Raises:
            InvalidQuery: an expression is invalid, or the merge engine is not deduplicate or partial-update, or an expression
                fails for a row, such as a division by zero. Nothing was committed.
            InvalidData: a new value is null in a column that cannot be null, or makes a row older by `sequence.field`, so that
                the merge engine would keep the old row. Nothing was committed.
            CommitConflict: other commits changed the rows of the statement on every attempt. Nothing was committed.
            MissingDependency: DuckDB is not installed.

        Example:
            >>> orders.update({"status": "'closed'"}, where="order_id = 7").updated
            1
        """
        check_isolation(isolation)
        from lsmlake.statements.statement import assignment  # loads sqlglot

        version = writable(self)
        with assignment(values, where, moment_of(self.meta.env), isolation) as statement:
            evaluate = self.runtime.changing(version, statement)
        return again(version, evaluate, *OVERTAKEN)

    def merge(self, source: Data | Reading, on: str, *, isolation: Isolation | None = None, evolve: bool = False) -> Merge:
        """Describe a MERGE: rows of a source update, delete or add rows of this table. Needs the extra `duckdb`.

        The source is read once; one that is this table itself is read at the version that the merge changes. Where `on` requires
        columns to be equal, only the files that can hold the values of the source are read, and of them the columns that the
        clauses name. A join beyond `write-buffer-size` is done on local disk.
        Concurrent statements and isolation are as in `delete`.

        Args:
            source: any data that `upsert` takes, or a table, as it is now. With a Spark DataFrame that is not small, or if the
                files of this table are not small and Spark is attached, Spark joins and the tasks write; other data must then fit
                the driver. A DataFrame whose values limit the files to read is kept by the executors meanwhile
                (`localCheckpoint`).
                Columns of CSV files that have the name of a column of the table get its type, without loss; others are text.
            on: the condition on a target row `t` and a source row `s`, such as "t.order_id = s.order_id".
            isolation: as in `delete`. Default: `write.merge.isolation-level`.
            evolve: first add the columns of the source that the table lacks, as in `upsert`.

        Example:
            >>> merge = orders.merge(batch, "t.order_id = s.order_id")
            >>> merge.when_matched_update_all("s.op = 'U'").when_matched_delete().when_not_matched_insert_all().execute()
        """
        check_isolation(isolation)
        once, read = hasattr(source, "__next__"), False

        def run(clauses: tuple[Clause[str], ...]) -> DmlReport:
            from lsmlake.api.merging import Merging, OwnRows  # loads sqlglot
            from lsmlake.statements.statement import given

            nonlocal read
            if once and read:
                raise InvalidQuery(
                    "the source of the merge was read before, and gives its rows once",
                    where=self.name,
                    found=type(source).__name__,
                    cure="pass a table, or describe the merge again with a new iterator",
                )
            read = True
            data: object = source.scan() if isinstance(source, Reading) else source
            if isinstance(data, Scan) and data.meta.paths == self.meta.paths and data.moment == Moment():
                data = OwnRows(partial(_read_at, data))
            with given(clauses, on, moment_of(self.meta.env), isolation, ("t",), ("s",)) as statement:
                act = Merging(statement, self.runtime, self.name, evolve).read(writable(self), data)
            return act()

        return Merge(run)


def _read_at(scan: Scan, version: Version) -> Scan:
    """The same scan, pinned to a version of its table."""
    return replace(scan, moment=Moment(snapshot=version.number or None))
