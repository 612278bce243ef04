"""The verbs that change rows by condition."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from lsmlake.api.inputs import as_input
from lsmlake.api.merge import Merge
from lsmlake.api.types import (
    Data,
    Isolation,
)
from lsmlake.api.verbs.reading import Reading
from lsmlake.api.verbs.writing import Writing
from lsmlake.border import verbs_of
from lsmlake.errors import InvalidData
from lsmlake.store.version import Version
from lsmlake.write.clause import Clause
from lsmlake.write.prepare import Request
from lsmlake.write.statement import DmlReport, check_isolation, evaluated, moment_of


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

        def evaluate(version: Version) -> DmlReport:
            return self.runtime.delete(version, where, isolation or version.options.isolation.delete)

        return evaluated(self.meta, evaluate)

    def update(self, values: Mapping[str, str], where: str | None = None, *, isolation: Isolation | None = None) -> DmlReport:
        """Give the rows that satisfy a condition new values, as one commit. Needs the extra `duckdb`.

        With Spark attached, Spark evaluates `where` and `values` if the files to read are not small or if only Spark knows the
        expressions.

        Concurrent statements and isolation are as in `delete`: `update({"v": "v + 1"})` by many writers loses no update.

        Args:
            values: column -> an expression in Spark SQL over the old row, such as {"amount": "amount * 2", "status": "'paid'"}.
                Key columns cannot be updated. A value that the column cannot hold without loss is refused.
            where: as in `delete`.
            isolation: as in `delete`. Default: `write.update.isolation-level`.

        Raises:
            InvalidQuery: an expression is invalid, or the merge engine is not deduplicate or partial-update, or an expression
                fails for a row, such as a division by zero. Nothing was committed.
            InvalidData: a new value is null in a column that cannot be null. Nothing was committed.
            CommitConflict: other commits changed the rows of the statement on every attempt. Nothing was committed.
            MissingDependency: DuckDB is not installed.

        Example:
            >>> orders.update({"status": "'closed'"}, where="order_id = 7").updated
            1
        """
        check_isolation(isolation)
        now = moment_of(self.meta.env)

        def evaluate(version: Version) -> DmlReport:
            return self.runtime.update(version, values, where, isolation or version.options.isolation.update, now)

        return evaluated(self.meta, evaluate)

    def merge(self, source: Data | Reading, on: str, *, isolation: Isolation | None = None, evolve: bool = False) -> Merge:
        """Describe a MERGE: rows of a source update, delete or add rows of this table. Needs the extra `duckdb`.

        The source is read once. Where `on` requires columns to be equal, only the files that can hold the values of the source
        are read, and of them the columns that the clauses name. A join beyond `write-buffer-size` is done on local disk.
        Concurrent statements and isolation are as in `delete`.

        Args:
            source: any data that `upsert` takes, or a table, as it is now. With a Spark DataFrame, or if the files of this table
                are not small and Spark is attached, Spark joins and the tasks write; other data must then fit the driver. A
                DataFrame whose values limit the files to read is kept by the executors meanwhile (`localCheckpoint`).
            on: the condition on a target row `t` and a source row `s`, such as "t.order_id = s.order_id".
            isolation: as in `delete`. Default: `write.merge.isolation-level`.
            evolve: first add the columns of the source that the table lacks, as in `upsert`.

        Example:
            >>> merge = orders.merge(batch, "t.order_id = s.order_id")
            >>> merge.when_matched_update_all("s.op = 'U'").when_matched_delete().when_not_matched_insert_all().execute()
        """
        check_isolation(isolation)
        zone = self.runtime.zone

        def level(version: Version) -> str:
            return isolation or version.options.isolation.merge

        def run(clauses: tuple[Clause, ...]) -> DmlReport:
            data = source.scan() if isinstance(source, Reading) else source
            spread = self.runtime.source(self.version, data)
            if spread is not None:
                if evolve:
                    self._evolved(self.version, self.runtime.columns_of(spread.schema), Request())
                return evaluated(self.meta, lambda version: self.runtime.merge(version, spread, on, clauses, level(version)))
            from lsmlake.write.merge import merge  # loads sqlglot
            from lsmlake.write.merge_clauses import checked, schema_of_source
            from lsmlake.write.merge_join import Join

            tables = as_input(data).tables
            first = next(tables, None)
            if first is None:
                raise InvalidData("the source of the merge has no columns", where=self.name, cure="pass data with columns")
            columns, now = schema_of_source(first.schema, self.current.plain_columns), moment_of(self.meta.env)
            if evolve:
                self._evolved(self.version, columns, Request())
            schema = self.current
            statement = checked(schema, columns, on, clauses, zone, now)
            with Join(statement, chain([first], tables), columns, zone, schema.parsed_options.write.buffer_bytes) as join:

                def evaluate(version: Version) -> DmlReport:
                    if version.schema.id != schema.id:
                        join.restate(checked(version.schema, columns, on, clauses, zone, now))
                    return merge(version, join, level(version))

                return evaluated(self.meta, evaluate)

        return Merge(run)
