"""Writes rows of changes in this process: also those that remove all rows before them, and those that keep old values.

Most changes are an upsert. Two kinds need more:

- A *truncate* removes all rows, those of the batch before it included: the rest of the batch overwrites the table.
- An update without some values *keeps* them: they come from the row before it in the batch or from the table. The commit then
  requires that no other commit has changed these rows; if one has, the values are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.event_rows import KEPT, PLACE, POSITION, REASON, ROW_KIND, TEXT, TRUNCATED, empty, keeps
from lsmlake.commit.commit import again
from lsmlake.commit.request import replayed
from lsmlake.errors import InvalidData, few
from lsmlake.format.snapshot import Snapshot
from lsmlake.kernels import nested
from lsmlake.kernels.groups import group
from lsmlake.kernels.keys import comparable
from lsmlake.options.merge_options import AGGREGATION, PARTIAL_UPDATE
from lsmlake.read.point import matches, rows_of_keys
from lsmlake.schema.defaults import WRITE, default_of
from lsmlake.schema.omitted import may_be_omitted
from lsmlake.schema.rowkind import Source, kinds_of, retractions
from lsmlake.schema.schema import Schema
from lsmlake.statements.attempts import OVERTAKEN
from lsmlake.tables.version import Version
from lsmlake.write.order import Arrival
from lsmlake.write.prepare import order_of, prepare
from lsmlake.write.read_set import KeysUnchanged
from lsmlake.write.replace import Replacement
from lsmlake.write.write import Part, picker, publish, write_parts, write_tables
from lsmlake.write.write_request import WriteRequest

Read = Callable[[], Iterator[pa.Table]]
"""Reads the rows of changes, perhaps with `ROW_KIND` and `KEPT`."""


class Lost(NamedTuple):
    """Takes the rows whose unchanged values are neither in the batch nor in the table.

    Attributes:
        record: called with such rows and the reasons, once for each row, by the first attempt that finds it.
        recorded: the numbers of the rows of a batch that attempts of a process which has died have recorded.
    """

    record: Callable[[pa.Table, Sequence[str]], None]
    recorded: Callable[[pa.Table], Collection[int]]


def write_changes(
    version: Version, read: Read, request: WriteRequest, *, ignore_nulls: bool, once: bool, lost: Lost | None = None
) -> Snapshot | None:
    """Writes rows of changes as one commit. Rows that are an upsert are written while they are read. Others must be together in
    memory, so they are read again.

    Args:
        version: the version to begin with.
        read: reads the rows.
        request: the parameters of the write.
        ignore_nulls: a null in an insert or update leaves the old value; so does a column that all rows lack and may lack.
        once: the rows can be read only once.
        lost: takes the rows that lack a value, which are then left out; None: such a row is an error.

    Returns:
        The new snapshot; None if there was nothing to commit.
    """
    if done := replayed(version, request.identity):
        return done
    if ignore_nulls:
        read = partial(_with_omitted, read, version.schema)
    if not once:
        try:
            return write_tables(version, _upserts(read(), version.schema, request, ignore_nulls), request)
        except _NoUpsert:
            pass
    tables = list(read())
    if not any(_is_special(table, version.schema, ignore_nulls) for table in tables):
        return write_tables(version, _upserts(iter(tables), version.schema, request, ignore_nulls), request)
    rows = pa.concat_tables(tables, promote_options="default")
    refused = LostRows(rows, lost, set() if lost is None else set(lost.recorded(rows)))
    return again(version, lambda now: _resolved(now, rows, request, ignore_nulls, refused), *OVERTAKEN)


def _with_omitted(read: Read, schema: Schema) -> Iterator[pa.Table]:
    for rows in read():
        lacking = Lacking.of(rows.column_names, schema)
        if not _flags(rows, "-D").all():
            lacking.check()
        for field in lacking.nulls:
            rows = rows.append_column(field, nested.nulls(rows.num_rows, field.type))
        yield rows


class Lacking(NamedTuple):
    """The columns that rows lack and may lack.

    Attributes:
        nulls: those whose default is null; the rows have nulls there if nulls of updates are ignored.
        with_default: the names of the others.
    """

    nulls: Sequence[pa.Field]
    with_default: Sequence[str]

    @staticmethod
    def of(names: Collection[str], schema: Schema) -> Lacking:
        """`names`: the columns that the rows have."""
        lacking = [field for field in schema.columns if field.name not in names and may_be_omitted(field)]
        with_default = [field.name for field in lacking if default_of(field, WRITE).is_valid]
        others = [field.name for field in lacking if field.name not in with_default]
        return Lacking([schema.plain_columns.field(name).with_nullable(True) for name in others], with_default)

    def check(self) -> None:
        """Raises InvalidData if a default would replace the value of an old row. Deletes may lack all columns but the key."""
        if self.with_default:
            raise InvalidData(
                "rows lack columns with a default, and nulls of updates are ignored",
                expected="all columns that have a default other than null: it would replace the values of old rows",
                found=f"no {few(self.with_default)}",
                cure="add them to the data, null where the old value stays, and to columns= if it is given; or leave "
                "ignore_null_updates out",
            )


class _NoUpsert(InvalidData):
    """Some rows are no upsert."""


def _upserts(tables: Iterator[pa.Table], schema: Schema, request: WriteRequest, ignore_nulls: bool) -> Iterator[pa.Table]:
    """The rows for an upsert. Raises _NoUpsert."""
    for table in tables:
        if _is_special(table, schema, ignore_nulls):
            raise _NoUpsert("some rows are no upsert")
        yield _without_own(_filled(table, schema, _flags(table, "-D")), request)


def _is_special(table: pa.Table, schema: Schema, ignore_nulls: bool) -> bool:
    """Whether some rows are truncates or keep values."""
    if _flags(table, TRUNCATED).any() or (KEPT in table.column_names and table[KEPT].null_count < table.num_rows):
        return True
    values = [name for name in table.column_names if name in schema.columns.names and name not in schema.primary_key]
    holed = [name for name in values if table[name].null_count] if ignore_nulls else ()
    written = ~_flags(table, "-D") if holed else None  # the nulls of deletes keep nothing
    return any((np.asarray(table[name].is_null()) & written).any() for name in holed)


def _without_own(table: pa.Table, request: WriteRequest) -> pa.Table:
    """The rows without the columns that only say what becomes of an event."""
    return table.drop_columns([name for name in (KEPT, TEXT, *unordered(request)) if name in table.column_names])


def unordered(request: WriteRequest) -> tuple[str, ...]:
    """The columns of decoded rows that no order reads: under `order_by=ANY` those of the positions."""
    return (POSITION, PLACE) if request.order_by is not None and request.order_by.any else ()


def check_rows(schema: Schema, computed: Sequence[str], rows: pa.Table) -> None:
    """Raises InvalidData for decoded rows that a table cannot hold. `computed`: columns that they have, or get later."""
    for field in schema.row_columns:
        if field.name in computed and field.name not in rows.column_names:
            rows = rows.append_column(field.name, nested.nulls(rows.num_rows, field.type))
        elif field.name in computed and not schema.columns.field(field.name).nullable:
            written = ~_flags(rows, "-D") & ~_flags(rows, TRUNCATED) & ~keeps(rows, rows.column_names.index(field.name))
            if (np.asarray(rows[field.name].is_null()) & written).any():
                raise InvalidData(f"column {field.name!r} is NOT NULL, and the value computed for it is null")
    filled = _filled(rows, schema, np.ones(rows.num_rows, bool))  # nulls were refused when the events were decoded
    whole = _with_kinds(filled, _flags(rows, TRUNCATED)).drop_columns([KEPT, TEXT, REASON, POSITION, PLACE])
    prepare(whole, schema, WriteRequest(row_kind=Source(ROW_KIND)), None)


def _flags(rows: pa.Table, kind: str) -> np.ndarray:
    """Flags the rows of a kind."""
    if ROW_KIND not in rows.column_names:
        return np.zeros(rows.num_rows, bool)
    return np.asarray(pc.fill_null(pc.equal(rows[ROW_KIND], kind), False))


@dataclass
class LostRows:
    """The rows that lack a value, over all attempts of a commit, also those of a process that has died: a row that one of them
    refuses is written by none.

    Attributes:
        rows: the rows of the batch.
        lost: see `write_changes`.
        numbers: of the refused rows.
    """

    rows: pa.Table
    lost: Lost | None
    numbers: set[int]

    def of(self, wrong: Mapping[int, str], numbers: np.ndarray) -> np.ndarray:
        """Flags the refused rows of some rows of the batch, which have these `numbers`. `wrong`: those that this attempt
        refuses, and why."""
        new = {int(numbers[row]): reason for row, reason in sorted(wrong.items()) if numbers[row] not in self.numbers}
        if new:
            self.lost.record(self.rows.take(pa.array(list(new))), list(new.values()))
            self.numbers.update(new)
        return np.isin(numbers, list(self.numbers))


def _resolved(version: Version, rows: pa.Table, request: WriteRequest, ignore_nulls: bool, refused: LostRows) -> Snapshot | None:
    """Writes rows that may be truncates, or keep old values, on a version. Raises Overtaken."""
    if done := replayed(version, request.identity):
        return done
    schema, truncates = version.schema, _flags(rows, TRUNCATED)
    kept = Kept.of(rows, schema, ignore_nulls)
    filled = _filled(rows, schema, truncates | kept.any | _flags(rows, "-D"))
    whole = _with_kinds(_without_own(filled, request), truncates)
    order = order_of(whole.schema, schema, request)
    prepared, numbers = prepare(order.without_own(whole), schema, request)
    numbers = np.arange(rows.num_rows) if numbers is None else numbers
    arrival = Arrival(numbers, order.values(whole, prepared, None if len(numbers) == rows.num_rows else numbers), request.ordered)
    truncates, kept = truncates[numbers], kept.take(numbers)
    if truncates.any():
        ranks = arrival.ranks()
        ranks = np.arange(len(numbers)) if ranks is None else ranks
        left = np.flatnonzero((ranks > ranks[truncates].max()) & ~truncates)
        prepared, arrival, kept = prepared.take(pa.array(left)), arrival.take(left), kept.take(left)
        numbers = numbers[left]
        request = replace(request, replaces=Replacement(everything=True), compact=False)
    if kept.any.any():
        old = None if truncates.any() else version
        gone = np.zeros(len(numbers), bool)
        if refused.lost is not None:
            gone = refused.of(kept.lost(prepared, arrival, schema, old), numbers)
        prepared = kept.filled(prepared, arrival, schema, old, gone)
        if gone.any():
            left = np.flatnonzero(~gone)
            prepared, arrival = prepared.take(pa.array(left)), arrival.take(left)
        request = request if old is None else replace(request, requires=(KeysUnchanged(version, None),))
    if not prepared.num_rows:
        return publish(version, [], request)
    return write_parts(version, [Part(prepared, arrival)], request, picker(version, request.compact))


def _with_kinds(rows: pa.Table, truncates: np.ndarray) -> pa.Table:
    """The rows, in which a truncate looks like an insert."""
    if not truncates.any():
        return rows
    kinds = pc.if_else(pa.array(truncates), "+I", rows[ROW_KIND].combine_chunks())
    return rows.set_column(rows.column_names.index(ROW_KIND), ROW_KIND, kinds)


def _filled(rows: pa.Table, schema: Schema, chosen: np.ndarray) -> pa.Table:
    """The rows, with some value in the NOT NULL columns of the `chosen` ones, so that they can be prepared."""
    if not chosen.any():
        return rows
    for field in schema.plain_columns:
        if field.name in rows.column_names and (not field.nullable or field.name in schema.primary_key):
            column = rows[field.name].combine_chunks()
            lacks = pa.array(np.asarray(column.is_null()) & chosen)
            if pc.any(lacks).as_py():
                column = column.cast(field.type) if pa.types.is_null(column.type) else column
                made = pc.if_else(lacks, empty(column.type), column)
                rows = rows.set_column(rows.column_names.index(field.name), field.name, made)
    return rows


@dataclass(frozen=True)
class Kept:
    """The values that rows keep.

    Attributes:
        strict: column -> the rows that have no value for it because it has not changed.
        null: column -> the rows whose null leaves the old value, if there is one.
        any: flags the rows that keep a value.
    """

    strict: Mapping[str, np.ndarray]
    null: Mapping[str, np.ndarray]
    any: np.ndarray

    @staticmethod
    def of(rows: pa.Table, schema: Schema, ignore_nulls: bool) -> Kept:
        """The values that rows of changes keep. Raises InvalidData if the merge engine needs them."""
        strict, null, engine = {}, {}, schema.parsed_options.merge.engine
        if KEPT in rows.column_names and rows[KEPT].null_count < rows.num_rows and engine != PARTIAL_UPDATE:
            if engine == AGGREGATION:
                raise needs_all(engine)
            strict = {name: keeps(rows, number) for number, name in enumerate(rows.column_names) if name in schema.columns.names}
        deletes = _flags(rows, "-D") | _flags(rows, TRUNCATED)
        for name in schema.columns.names if ignore_nulls else ():
            if name in rows.column_names and name not in schema.primary_key:
                flags = np.asarray(rows[name].is_null()) & ~deletes
                null[name] = flags & ~strict[name] if name in strict else flags
        flags = [one for one in (*strict.values(), *null.values()) if one.any()]
        return Kept(strict, null, np.logical_or.reduce(flags) if flags else np.zeros(rows.num_rows, bool))

    def take(self, rows: np.ndarray) -> Kept:
        """The values that some of the rows keep."""
        strict, null = ({name: flags[rows] for name, flags in one.items()} for one in (self.strict, self.null))
        return Kept(strict, null, self.any[rows])

    def filled(self, rows: pa.Table, arrival: Arrival, schema: Schema, version: Version | None, gone: np.ndarray) -> pa.Table:
        """The rows with the values that they keep: of the row of the key before them or, for the first one, of the table at
        `version` (None: the table has no rows). Raises InvalidData for a value that nothing has. `gone`: flags rows that may lack
        values, since they are not written."""
        places = _KeptPlaces.of(self, rows, arrival, schema, version)
        for name in dict.fromkeys((*self.strict, *self.null)):
            lacks, strict = self._lacks(name, places)
            if lacks.any():
                rows = _column(rows, name, places, lacks, strict & ~gone[places.order], gone[places.order], schema)
        return rows

    def lost(self, rows: pa.Table, arrival: Arrival, schema: Schema, version: Version | None) -> dict[int, str]:
        """The rows whose unchanged values are neither in the batch nor in the table, and why. Arguments as for `filled`."""
        places, found = _KeptPlaces.of(self, rows, arrival, schema, version), {}
        for name in self.strict:
            lacks, strict = self._lacks(name, places)
            _, unknown, numbers = places.sources(lacks)
            missing = unknown & (numbers < 0) & strict
            if not schema.plain_columns.field(name).nullable and strict.any():
                values = _values(rows, name, places, lacks)
                missing |= np.asarray(values.is_null()) & strict
            for row in places.order[missing].tolist():
                found.setdefault(row, str(_no_value(rows, row, name, schema)))
        return found

    def _lacks(self, name: str, places: _KeptPlaces) -> tuple[np.ndarray, np.ndarray]:
        """Flags the rows that lack a value of the column, and those where null must not replace it; in the order of the keys."""
        nothing = np.zeros(len(places.order), bool)
        strict = self.strict.get(name, nothing)[places.order]
        return strict | self.null.get(name, nothing)[places.order], strict


@dataclass(frozen=True)
class _KeptPlaces:
    """Where rows find the values that they keep.

    Attributes:
        order: the rows by key and age; the other arrays are in this order.
        begins: flags the rows that have no row before them in the batch.
        old: the number of the row of the table that is before a row; -1: none, or another row is before it.
        table: these rows of the table.
    """

    order: np.ndarray
    begins: np.ndarray
    old: np.ndarray
    table: pa.Table

    @staticmethod
    def of(kept: Kept, rows: pa.Table, arrival: Arrival, schema: Schema, version: Version | None) -> _KeptPlaces:
        groups = group(comparable([rows.select(list(schema.key))])[0], arrival.order())
        first = np.zeros(rows.num_rows, bool)
        first[groups.starts] = True
        kinds = kinds_of(rows)
        removes = np.zeros(rows.num_rows, bool) if kinds is None else retractions(kinds)[groups.rows]
        begins = first.copy()
        begins[1:] |= removes[:-1]  # the row after a delete has no row before it
        from_table = np.flatnonzero(first & kept.any[groups.rows])
        found = _OldRows.of(rows, groups.rows[from_table], schema, version)
        old = np.full(rows.num_rows, -1)
        old[from_table] = found.numbers
        return _KeptPlaces(groups.rows, begins, old, found.rows)

    def sources(self, lacks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where the values of a column come from, if the flagged rows lack them. For each row: the row of the batch that has the
        value, whether the batch lacks it so that the table must have it, and the row of the table; -1: there is none."""
        source = np.maximum.accumulate(np.where(~lacks | self.begins, np.arange(len(self.order)), 0))
        unknown = lacks & lacks[source]
        return source, unknown, np.where(unknown, self.old[source], -1)


def _values(rows: pa.Table, name: str, places: _KeptPlaces, lacks: np.ndarray) -> pa.Array:
    """The values of a column with those that are kept, in the order of the keys."""
    source, unknown, numbers = places.sources(lacks)
    column = rows[name].combine_chunks()
    of_batch = column.take(pa.array(places.order[source]))
    of_table = places.table[name].combine_chunks().take(pa.array(np.where(numbers < 0, 0, numbers), mask=numbers < 0))
    return pc.if_else(pa.array(unknown), of_table.cast(column.type), of_batch)


def _column(
    rows: pa.Table, name: str, places: _KeptPlaces, lacks: np.ndarray, strict: np.ndarray, gone: np.ndarray, schema: Schema
) -> pa.Table:
    """The rows with one column filled. `gone`: flags those that may lack a value."""
    _, unknown, numbers = places.sources(lacks)
    if (missing := np.flatnonzero(unknown & (numbers < 0) & strict)).size:
        raise _no_value(rows, int(places.order[missing[0]]), name, schema)
    made = _values(rows, name, places, lacks)
    nullable = schema.plain_columns.field(name).nullable
    if not nullable and (nulls := np.flatnonzero(np.asarray(made.is_null()) & ~gone)).size:
        raise _no_value(rows, int(places.order[nulls[0]]), name, schema)
    back = np.empty(len(places.order), np.int64)
    back[places.order] = np.arange(len(places.order))
    return rows.set_column(rows.column_names.index(name), rows.schema.field(name), made.take(pa.array(back)))


@dataclass(frozen=True)
class _OldRows:
    """Rows of the table. `numbers`: the row of each key that was asked for, -1 if there is none."""

    rows: pa.Table
    numbers: np.ndarray

    @staticmethod
    def of(rows: pa.Table, chosen: np.ndarray, schema: Schema, version: Version | None) -> _OldRows:
        """The rows of the table with the keys of the `chosen` rows, one for each key."""
        keys = rows.select(list(schema.primary_key)).take(pa.array(chosen))
        if version is None or not len(chosen):
            return _OldRows(rows.slice(0, 0).select(schema.columns.names), np.full(len(chosen), -1))
        found = rows_of_keys(version, keys)
        numbers = matches(keys, found.select(keys.column_names)) if found.num_rows else np.full(len(chosen), -1)
        return _OldRows(found, numbers)


def _no_value(rows: pa.Table, row: int, name: str, schema: Schema) -> InvalidData:
    return missing_value(rows.select(list(schema.primary_key)).slice(row, 1).to_pylist()[0], name)


def missing_value(key: Mapping[str, object], column: str = "") -> InvalidData:
    """The error for an update whose unchanged value nothing has."""
    return InvalidData(
        "an update lacks a value that has not changed, and the table has no row with it",
        where=(f"column {column!r}, " if column else "") + f"key {dict(key)}",
        expected="a row of this key in the table, or before the update",
        cure="load a snapshot of the source first, or let the source send whole rows, such as by REPLICA IDENTITY FULL",
    )


def needs_all(engine: str) -> InvalidData:
    """The error for updates without some values under a merge engine that needs all of them."""
    return InvalidData(
        f"an update lacks values that have not changed, which merge-engine = {engine} needs",
        expected="events with all values",
        cure="let the source send whole rows, such as by REPLICA IDENTITY FULL",
    )
