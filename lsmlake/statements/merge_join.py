"""The join of a MERGE, by DuckDB: the target and source rows on which each clause acts, and their new values.

The source is read once and kept, on local disk beyond the memory limit. The target streams through the join.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain

import numpy as np
import pyarrow as pa

from lsmlake.dialect.connection import memory_limit, registered, translated_errors
from lsmlake.dialect.macros import spark_connected
from lsmlake.dialect.row_evaluation import as_schema
from lsmlake.dialect.sql_types import quoted
from lsmlake.errors import CommitConflict, InvalidData
from lsmlake.read.positions import FILE, POSITION
from lsmlake.statements.attempts import TooManyChanges
from lsmlake.statements.bound import Bound, Checked
from lsmlake.statements.clause import ACTION, BY_SOURCE, DELETE, MATCHED, NOT_MATCHED, UPDATE
from lsmlake.statements.statement import SOURCE, TARGET, Load
from lsmlake.write.order import Ordered

_ROW = "_row"
_BATCH_ROWS = 1 << 16


class Join:
    """One MERGE statement. A context manager: its data is removed at the end. Errors of DuckDB inside are translated."""

    def __init__(
        self,
        statement: Bound,
        source: Iterable[pa.Table],
        columns: pa.Schema,
        zone: str,
        memory_bytes: int,
        ordered: Ordered,
        changes_max: int | None = None,
    ) -> None:
        """`columns`: the columns of the source. `ordered`: which source rows have a defined order. `changes_max`: the most rows
        of the target that may join; None: any number."""
        self.statement, self.columns = statement, columns
        self._source, self._zone, self._memory_bytes = source, zone, memory_bytes
        self._names, self._ordered, self._changes_max = statement.needs(SOURCE), ordered, changes_max

    def __enter__(self) -> Join:
        with ExitStack() as exits:
            exits.enter_context(translated_errors())
            self._connection = exits.enter_context(spark_connected(self._zone, "merge"))
            self._connection.execute(f"SET memory_limit = '{memory_limit(self._memory_bytes)}'")
            self._load(self._source)
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._exits.__exit__(*error)

    def state(self, statement: Bound, load: Load | None) -> None:
        """Sets the statement to evaluate: the same statement, perhaps checked against a newer schema of the target. `load`:
        creates the tables of queries in its expressions. Raises CommitConflict if the statement now needs source columns that
        were not loaded: the source is read once."""
        with translated_errors():
            if load is None:  # the source is the build side
                self._connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
            else:
                load(self._connection)
        if missing := sorted({*statement.needs(SOURCE)} - {*self._names}):
            raise CommitConflict(
                "the table was altered while the merge was prepared",
                found=f"the merge now needs the source columns {missing}",
                cure="run it again",
            )
        self.statement = statement

    def _load(self, source: Iterable[pa.Table]) -> None:
        names = self._names
        schema = pa.schema([pa.field(_ROW, pa.int64()), *(self.columns.field(name).with_name(SOURCE + name) for name in names)])

        def batches() -> Iterator[pa.RecordBatch]:
            first = 0
            for table in source:
                rows = pa.array(np.arange(first, first + table.num_rows))
                first += table.num_rows
                columns = [rows, *(_as_first(table, self.columns.field(name)) for name in names)]
                yield from pa.table(columns, schema=schema).to_batches()

        self._create("s", "SELECT * FROM given", "given", schema, batches())

    def _create(self, name: str, query: str, given: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        """Creates a temporary table from a query that reads the batches under the name `given`. Raises an error of the batches
        unchanged."""
        with registered(self._connection, given, schema, batches):
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")

    def distinct(self, column: str, most: int) -> pa.ChunkedArray | None:
        """The distinct values of a source column, without null; None if there are more than `most`."""
        name = quoted(SOURCE + column)
        query = f"SELECT DISTINCT {name} FROM s WHERE {name} IS NOT NULL LIMIT {most + 1}"
        values = self._connection.sql(query).to_arrow_table().column(0)
        return None if len(values) > most else values.cast(self.columns.field(column).type)

    def bounds(self, column: str) -> tuple[object, object]:
        """The least and the greatest value of a source column; None if it has no value."""
        name = quoted(SOURCE + column)
        extremes = self._connection.sql(f"SELECT min({name}) AS low, max({name}) AS high FROM s").to_arrow_table()
        kind = self.columns.field(column).type
        return extremes["low"].cast(kind)[0].as_py(), extremes["high"].cast(kind)[0].as_py()

    def run(self, target: Iterable[pa.Table], kept: Sequence[str]) -> None:
        """Joins the target. Its rows have `FILE`, `POSITION`, and columns with the prefix `TARGET`; `kept`: the columns that
        `updates` and `deletes` return, too.

        Raises:
            InvalidData: Several source rows match one target row.
            TooManyChanges: More than `changes_max` rows join.
        """
        tables = iter(target)
        first = next(tables, None)
        statement, matched, alone = self.statement, self.statement.of(MATCHED), self.statement.of(BY_SOURCE)
        if first is None:
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE m AS SELECT {_ROW}, 0 AS {ACTION} FROM s WHERE false")
            self._empty = True
            return
        self._empty = False
        batches = (batch for table in chain([first], tables) for batch in table.to_batches())
        sides = {*(TARGET + name for name in statement.needs(TARGET)), *(SOURCE + name for name in statement.needs(SOURCE))}
        columns = ", ".join(map(quoted, [FILE, POSITION, _ROW, *sorted({*sides, *kept})]))
        action = f"CASE WHEN {_ROW} IS NOT NULL THEN {_choice(matched, 1)} ELSE {_choice(alone, 1 + len(matched))} END"
        join = "LEFT JOIN" if alone else "JOIN"
        query = f"SELECT {columns}, {action} AS {ACTION} FROM t {join} s ON {statement.on.columns.sql['condition']}"
        self._create("m", f"SELECT * FROM ({query}) WHERE {_ROW} IS NOT NULL OR {ACTION} > 0", "t", first.schema, batches)
        if self._changes_max is not None:
            ((count,),) = self._connection.execute("SELECT count(*) FROM m").fetchall()
            if count > self._changes_max:
                raise TooManyChanges
        if not statement.repeats_allowed:
            self._check_repeats()

    def matching(self, target: pa.Table) -> np.ndarray:
        """Flags the target rows that match a source row. `target`: as in `run`, with the positions 0, 1, ..."""
        flags = np.zeros(target.num_rows, bool)
        query = f"SELECT DISTINCT {POSITION} FROM n JOIN s ON {self.statement.on.columns.sql['condition']}"
        with registered(self._connection, "n", target.schema, iter(target.to_batches())), translated_errors():
            flags[self._connection.sql(query).to_arrow_table().column(0).to_numpy()] = True
        return flags

    def _check_repeats(self) -> None:
        repeats = f"SELECT 1 FROM m WHERE {_ROW} IS NOT NULL GROUP BY {FILE}, {POSITION} HAVING count(*) > 1 LIMIT 1"
        if self._connection.sql(repeats).fetchall():
            raise repeated()

    @property
    def _changing(self) -> list[Checked]:
        """The clauses that update or delete target rows, in the order of their numbers."""
        return [*self.statement.of(MATCHED), *self.statement.of(BY_SOURCE)]

    def updates(self, kept: Sequence[str]) -> Iterator[pa.Table]:
        """Yields `FILE`, `POSITION`, `ACTION` and `kept` of the rows to update, in the order of their places, and the values of
        each update clause: the column `<number of the clause>.<name>`, null where another clause acts on the row."""
        numbers = [number for number, clause in enumerate(self._changing, 1) if clause.action == UPDATE]
        if self._empty or not numbers:
            return
        fields, values = [], []
        for number in numbers:
            computed = self._changing[number - 1].values
            for field in computed.schema:
                values.append(
                    f"CASE WHEN {ACTION} = {number} THEN {computed.sql[field.name]} END AS {quoted(f'{number}.{field.name}')}"
                )
                fields.append(field.with_name(f"{number}.{field.name}").with_nullable(True))
        yield from self._places(numbers, kept, values, fields)

    def deletes(self, kept: Sequence[str]) -> Iterator[pa.Table]:
        """Yields `FILE`, `POSITION`, `ACTION` and `kept` of the rows to delete, each once, in the order of their places."""
        numbers = [number for number, clause in enumerate(self._changing, 1) if clause.action == DELETE]
        if not self._empty and numbers:
            yield from self._places(numbers, kept, [], [], "DISTINCT ")

    def _places(
        self, numbers: Sequence[int], kept: Sequence[str], values: Sequence[str], fields: Sequence[pa.Field], prefix: str = ""
    ) -> Iterator[pa.Table]:
        columns = ", ".join([*map(quoted, [FILE, POSITION, ACTION, *kept]), *values])
        among = ", ".join(map(str, numbers))
        query = f"SELECT {prefix}{columns} FROM m WHERE {ACTION} IN ({among}) ORDER BY {FILE}, {POSITION}"
        yield from self._rows(query, fields)

    @property
    def ordered(self) -> Ordered:
        """Which rows of `inserts` have a defined order, that of the source."""
        return self._ordered if len(self.statement.of(NOT_MATCHED)) < 2 else Ordered.QUERY

    def inserts(self) -> Iterator[pa.Table]:
        """Yields the rows to insert: for each insert clause, tables with its columns."""
        if not self.statement.of(NOT_MATCHED):
            return
        with translated_errors():
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE u AS SELECT s.* FROM s ANTI JOIN m USING ({_ROW})")
        earlier: list[str] = []
        for clause in self.statement.of(NOT_MATCHED):
            condition = clause.condition.columns.sql["condition"] if clause.condition else "true"
            where = " AND ".join([f"({condition})", *(f"NOT coalesce(({other}), false)" for other in earlier)])
            earlier.append(condition)
            values = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in clause.values.sql.items())
            yield from self._rows(f"SELECT {values} FROM u WHERE {where} ORDER BY {_ROW}", list(clause.values.schema))

    def _rows(self, query: str, fields: Sequence[pa.Field]) -> Iterator[pa.Table]:
        """Yields the result, with `fields` as the types of its last columns."""
        with translated_errors():
            reader = self._connection.sql(query).to_arrow_reader()
            own = list(reader.schema)[: len(reader.schema) - len(fields)]
            wanted = pa.schema([*own, *fields])
            held: list[pa.RecordBatch] = []
            for batch in reader:
                held.append(batch)
                if sum(one.num_rows for one in held) >= _BATCH_ROWS:
                    yield as_schema(pa.Table.from_batches(held), wanted)
                    held = []
        if held:
            yield as_schema(pa.Table.from_batches(held), wanted)


def repeated() -> InvalidData:
    """The error for a target row that several source rows match."""
    return InvalidData(
        "several source rows match one row of the table",
        expected="at most one, or a delete without a condition as the only clause for matched rows",
        cure="aggregate the source, or make the condition of the merge stricter",
    )


def _as_first(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """A column of a table of the source, cast to its type in the first table of the source. Raises InvalidData."""
    if field.name not in table.column_names:
        raise InvalidData(
            "a part of the source lacks a column of the first part",
            where=f"column {field.name!r}",
            expected=field.name,
            found=table.column_names,
            cure="pass parts with the same columns",
        )
    try:
        return table[field.name].cast(field.type)
    except pa.ArrowException as broken:
        raise InvalidData(
            "a part of the source has another type than the first part",
            where=f"column {field.name!r}",
            expected=field.type,
            found=broken,
            cure="pass parts with the same types",
        ) from broken


def _choice(clauses: Sequence[Checked], first: int) -> str:
    """The number of the first clause whose condition is true; 0 if none is."""
    whens = [
        f"WHEN {clause.condition.columns.sql['condition'] if clause.condition else 'true'} THEN {number}"
        for number, clause in enumerate(clauses, first)
    ]
    return f"CASE {' '.join(whens)} ELSE 0 END" if whens else "0"
