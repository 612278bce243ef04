"""Executes a MERGE: opens its source, reads the statement, and evaluates it on a version of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain

import pyarrow as pa

from lsmlake.api.public_types import MergeSource
from lsmlake.api.runtime import Runtime
from lsmlake.api.scan import Scan
from lsmlake.commit.commit import again
from lsmlake.commit.request import Identity
from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.inputs.data import Input, as_input, typed
from lsmlake.maintain.alter import becoming, evolve
from lsmlake.schema.conform import Cast
from lsmlake.statements.attempts import OVERTAKEN, DmlReport
from lsmlake.statements.bound import assigned, bound, equal_columns, schema_of_source
from lsmlake.statements.clause import MATCHED
from lsmlake.statements.explained import merge_lines
from lsmlake.statements.merge import merge
from lsmlake.statements.merge_join import Join
from lsmlake.statements.statement import Statement
from lsmlake.tables.version import Version
from lsmlake.write.order import Ordered

Evaluate = Callable[[Version], DmlReport]


@dataclass(frozen=True)
class SourceRows:
    """A source in this process. `tables`: reads the source, once. `ordered`: which of its rows have a defined order."""

    columns: pa.Schema
    tables: Callable[[], Iterable[pa.Table]]
    ordered: Ordered = Ordered.ALL


@dataclass(frozen=True)
class OwnRows:
    """A source computed from rows of the table that the merge changes. Computed anew for each version that the merge tries."""

    at: Callable[[Version], object]


@dataclass(frozen=True)
class Merging:
    """A MERGE. `name`: the table, for errors. `evolves`: whether to add new columns of the source to the table first. `identity`:
    of the commit in this process, which is applied once; None: a repetition is not recognised."""

    statement: Statement
    runtime: Runtime
    name: str
    evolves: bool = False
    identity: Identity | None = None

    def read(self, version: Version, source: object) -> Callable[[], DmlReport]:
        """Reads the statement for a version, and returns a function that executes it. `source`: data, a scan, `SourceRows` or
        `OwnRows`."""
        if not isinstance(source, OwnRows):
            return self._action(version, self._opened(version, source))

        def action(now: Version) -> Callable[[], DmlReport]:
            return self._action(now, self._opened(now, source.at(now)), own=True)

        first = action(version)
        return lambda: again(version, lambda now: (first if now is version else action(now))(), *OVERTAKEN)

    def explained(self, version: Version, source: object, mode: str) -> Iterator[str]:
        """The lines of EXPLAIN for the statement and its target. Reads no rows of a source that is a query."""
        given = self._opened(version, source.at(version) if isinstance(source, OwnRows) else source)
        read_on, columns = self._read_on(version, given)
        statement, zone = self.statement, self.runtime.zone
        if not isinstance(given, SourceRows):
            yield from self.runtime.on_spark("merge of a DataFrame").explained_merge(read_on, given, statement, self.name, mode)
            return
        made = bound(statement, read_on, columns, zone)
        common = equal_columns(statement.on.node, statement.joined(read_on.schema.typed_columns, columns)[MATCHED], nulls=True)
        clauses = ((one, assigned(statement, one, read_on.schema, columns, common)) for one in statement.clauses)
        yield from merge_lines(self.name, read_on, statement.on, made.equal, clauses, "DuckDB", mode)
        yield from made.reader.explained(zone, mode)

    def _read_on(self, version: Version, source: SourceRows | MergeSource) -> tuple[Version, pa.Schema]:
        """The version, with the columns that the statement adds, and the columns of the source."""
        columns = source.columns if isinstance(source, SourceRows) else self.runtime.columns_of(source.schema)
        return becoming(version, self.name, columns) if self.evolves else version, columns

    def _opened(self, version: Version, data: object) -> SourceRows | MergeSource:
        """The source, for this process or for the runtime."""
        if isinstance(data, SourceRows):
            return data
        if not isinstance(data, Scan) and not self.runtime.owns(data):
            data = self._input(version, data)
        spread = self.runtime.source(version, data)
        if spread is not None:
            return spread
        tables = as_input(data).tables
        first = next(tables, None)
        if first is None:
            raise InvalidData("the source of the merge has no columns", where=self.name, cure="pass data with columns")
        return SourceRows(schema_of_source(first.schema, version.schema.plain_columns), lambda: chain([first], tables))

    def _input(self, version: Version, data: object) -> Input:
        """Data in this process. Columns of files without types get the type of the table's column of the same name."""
        given = as_input(data)
        if not given.text:
            return given
        fields = {field.name.lower(): field for field in version.schema.typed_columns}
        return Input(typed(given, fields, Cast(self.runtime.zone)))

    def _action(self, version: Version, source: SourceRows | MergeSource, own: bool = False) -> Callable[[], DmlReport]:
        """Reads the statement for a version; returns a function that executes it. `own`: the source reads rows of this version,
        so the caller, not this function, repeats the statement if it is overtaken."""
        read_on, columns = self._read_on(version, source)
        evaluation = self._evaluation(read_on, source)

        def act() -> DmlReport:
            now = version if read_on is version else self._evolved(version, columns)
            with evaluation(own) as evaluate:
                return evaluate(now) if own else again(now, evaluate, *OVERTAKEN)

        return act

    def _evolved(self, version: Version, columns: pa.Schema) -> Version:
        return evolve(version, self.name, columns, (), partial(self.runtime.compactions, version.meta))

    def _evaluation(
        self, read_on: Version, source: SourceRows | MergeSource
    ) -> Callable[[bool], AbstractContextManager[Evaluate]]:
        """Chooses the evaluation. If this process cannot evaluate the statement, tries the runtime, even if files are small."""
        if not isinstance(source, SourceRows):
            return self._spread(read_on, source)
        try:
            return self._here(read_on, source)
        except InvalidQuery:
            spread = self.runtime.spread(read_on, source.tables)
            if spread is None:
                raise
            return self._spread(read_on, spread)

    def _spread(self, read_on: Version, source: MergeSource) -> Callable[[bool], AbstractContextManager[Evaluate]]:
        read = self.runtime.on_spark("merge of a DataFrame").merging(read_on, source, self.statement)
        return lambda own: nullcontext(partial(read, own=own))

    def _here(self, read_on: Version, source: SourceRows) -> Callable[[bool], AbstractContextManager[Evaluate]]:
        statement, zone = self.statement, self.runtime.zone
        made = partial(bound, statement, source=source.columns, zone=zone)
        first = made(read_on)

        @contextmanager
        def evaluation(own: bool) -> Iterator[Evaluate]:
            memory_bytes = read_on.options.write.buffer_bytes
            with Join(first, source.tables(), source.columns, zone, memory_bytes, source.ordered) as join:

                def evaluate(version: Version) -> DmlReport:
                    current = first if version is read_on else made(version)
                    with current.reader.loading() as load:
                        join.state(current, load)
                        return merge(version, join, statement.level(version), own, self.identity)

                yield evaluate

        return evaluation
