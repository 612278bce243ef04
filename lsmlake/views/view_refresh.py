"""Refreshes a view table: brings its rows to the newest state of the tables that its query reads, by one commit.

1. Open the query: each table at its newest snapshot. Together these are the position that the rows will have.
2. Choose the way (`view_shape`). The query is evaluated as a whole at the first refresh, and if a table was altered or made anew,
   or has expired the snapshot that the rows come from.
3. Compute the rows to write and the keys to delete.
4. Commit them together with the position. The commit requires that the position is still the one of step 1 of the last refresh
   (`commit.request.Advance`): each change counts once, also if a refresh is killed, or two run at a time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.commit.commit import again
from lsmlake.commit.request import Advance, Identity, Position
from lsmlake.errors import InvalidQuery, SnapshotNotFound, TableNotFound
from lsmlake.format.snapshot import SourcePosition
from lsmlake.maintain.refresh_report import NOTHING, RefreshReport
from lsmlake.read.arrow_scan import output_schema, read_plan
from lsmlake.read.plan import plan
from lsmlake.read.point import rows_of_keys
from lsmlake.schema.rowkind import Source
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import Env
from lsmlake.tables.databases import metadata_of
from lsmlake.tables.version import Version
from lsmlake.views.view_changes import WEIGHT, TableChanges, least_reading
from lsmlake.views.view_costs import ReadingCost, WholeCost, changes_cost_more
from lsmlake.views.view_queries import ViewQueries, columns_needed, columns_read
from lsmlake.views.view_shape import CHANGES, KEY, ROWS, WHOLE, ViewShape, key, shape_of
from lsmlake.views.view_sources import OpenedQuery, check_columns, open_query
from lsmlake.views.view_state import AGAIN, added, arguments, net, state_aggregates, state_fields, valued, with_key
from lsmlake.write.replace import Replacement
from lsmlake.write.write import write_tables
from lsmlake.write.write_request import WriteRequest

_KIND = "_lsmlake_kind"
_FEW_KEYS = 100
"""For so many keys the query is always evaluated alone."""
_SCANNED = 10
"""So many stored groups are read in the time in which one is looked up."""
_OVERTAKEN = "other refreshes came first on every attempt", "run one refresh at a time"
_ANEW = "write CREATE OR REPLACE MATERIALIZED VIEW, or drop the view table and create it with another query"


def refresh(env: Env, name: str, *, full: bool = False) -> RefreshReport:
    """See `Lake.refresh`."""
    version = Version.latest(metadata_of(env, name))
    if version.schema.view is None:
        raise InvalidQuery("this is no view table", where=name, found="a table without a query", cure="name a view table")
    if version.meta.paths.branch is not None:
        raise InvalidQuery("a branch of a view table is not refreshed", where=name, cure="name the view table itself")
    return again(version, partial(_refreshed, env, name, full), *_OVERTAKEN)


def _refreshed(env: Env, name: str, full: bool, version: Version) -> RefreshReport:
    opened, shape = fitting_query(env, version.schema, name)
    before = version.snapshot.position if version.snapshot else None
    return Refresh(version, opened, shape, before, name).run(full=full)


def fitting_query(env: Env, schema: Schema, name: str) -> tuple[OpenedQuery, ViewShape]:
    """The query of a view table, opened, and its form. Raises InvalidQuery if it no longer fits its tables."""
    where = f"view table {name}"
    try:
        opened = open_query(env, schema.view)
    except (InvalidQuery, TableNotFound) as broken:
        raise type(broken)(
            f"the query of the view table no longer fits its tables: {broken.what}",
            where=where,
            expected=broken.expected,
            found=broken.found,
            cure=f"restore what it names, or {_ANEW}",
        ) from broken
    shown = [schema.plain_columns.field(one) for one in schema.shown]
    check_columns(opened, pa.schema(shown), where)
    shape = shape_of(opened)
    hidden = [name for name in schema.columns.names if name not in schema.shown]
    if hidden != (wanted := [one.name for one in hidden_fields(shape)]) or schema.append_only == shape.keyed:
        raise InvalidQuery(
            "the view table has another form than its query needs now: its tables were altered",
            where=where,
            expected=", ".join(wanted) or "no hidden columns",
            found=", ".join(hidden) or "no hidden columns",
            cure=_ANEW,
        )
    return opened, shape


def hidden_fields(shape: ViewShape) -> list[pa.Field]:
    """The hidden columns of a view table."""
    own = [] if shape.key_columns or not shape.keyed else [pa.field(KEY, pa.string(), nullable=False)]
    return [*own, *(state_fields(shape) if shape.way == CHANGES else [])]


class _Dearer(Exception):
    """Why it costs less to evaluate the query for all rows. Never leaves the library."""


@dataclass(frozen=True)
class _Rows:
    """What a refresh writes. `rows`: all columns of the view table; `gone`: the keys to delete; None: all rows are replaced."""

    rows: pa.Table
    gone: pa.Table | None = None
    changes: int = 0


@dataclass(frozen=True)
class Refresh:
    """One attempt to refresh a view table. `before`: the position of its rows; None: it has none yet."""

    version: Version
    opened: OpenedQuery
    shape: ViewShape
    before: Position | None
    name: str

    @property
    def queries(self) -> ViewQueries:
        return ViewQueries(self.opened, self.shape)

    @property
    def zone(self) -> str:
        return self.opened.catalog.lake.runtime.zone

    def run(self, *, full: bool = False) -> RefreshReport:
        """Computes the rows and commits them. Raises Overtaken if another refresh came first."""
        after = self.opened.position
        if self.before == after and not full and self.opened.varies is None:
            return RefreshReport(None, NOTHING)
        reason = "it was asked for" if full else self._whole_because(after)
        if reason is None:
            try:
                return self._published(self._narrow(), self.shape.way, self.shape.reason, after)
            except SnapshotNotFound as expired:
                reason = f"a snapshot has expired: {expired.what}"
            except _Dearer as dearer:
                reason = str(dearer)
        return self._published(self._whole(), WHOLE, reason, after)

    def _whole_because(self, after: Position) -> str | None:
        """Why the query must be evaluated for all rows; None if it need not."""
        if self.before is None:
            return "it is the first refresh"
        if self.shape.way == WHOLE:
            return self.shape.reason
        if self.before.keys() != after.keys():
            return "the query reads other tables"
        return next(filter(None, (_broken(name, old, after[name]) for name, old in self.before.items())), None)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def all_rows(self) -> pa.Table:
        """All rows of the view table, by the query."""
        return self._whole().rows

    def _whole(self) -> _Rows:
        """All rows."""
        if self.shape.way == WHOLE:
            return _Rows(self._as_stored(self.queries.whole()))
        if self.shape.way == CHANGES:
            return _Rows(self._of_groups(self._groups()))
        return _Rows(self._of_result(self.queries.result(self.queries.newest)))

    def _narrow(self) -> _Rows:
        if self.shape.way == CHANGES:
            return self._by_changes()
        return self._by_keys()

    def _changed(self) -> list[pa.Table]:
        """The changes of each table in FROM. Raises _Dearer if evaluating the query costs less than reading them."""
        named = [(self._name_of(one.version), tuple(columns_needed(self.shape, one))) for one in self.shape.tables]
        versions = (one.version for one in self.shape.tables)
        tables = {key: (version, self.before[key[0]].snapshot, key[1]) for key, version in zip(named, versions, strict=True)}
        self._check_cost([least_reading(*one) for one in tables.values()])
        planned = {key: TableChanges.of(*one) for key, one in tables.items()}
        if not all(changes.few for changes in planned.values()):
            raise _Dearer("the changes of a table are more than half of its rows and 100,000")
        self._check_cost([one.reading for one in planned.values()])
        read = {key: one.rows() if one.net else net(one.rows(), self.zone) for key, one in planned.items()}
        return [read[key] for key in named]

    def _check_cost(self, readings: Collection[ReadingCost]) -> None:
        """Raises _Dearer if refreshing by the changes costs more than a whole refresh."""
        shape, sources = self.shape, [one for one in self.shape.tables if one.version.snapshot is not None]
        rows = [one.version.snapshot.total_rows for one in sources]
        values = sum(number * len(columns_read(shape, one)) for number, one in zip(rows, sources, strict=True))
        extremes = any(one.is_extreme for one in shape.measures)
        stored, columns = self.version.snapshot.total_rows, len(self.version.schema.columns)
        if changes_cost_more(readings, WholeCost(sum(rows), values, stored, columns, extremes)):
            raise _Dearer("reading the changes, and the row groups in which their old rows lie, costs more than the query")

    def _name_of(self, version: Version) -> str:
        return next(name for name, one in self.opened.sources.items() if one is version)

    def _earlier(self) -> list[Version]:
        """Each table in FROM as the rows show it."""
        return [_at(table.version, self.before[self._name_of(table.version)].snapshot) for table in self.shape.tables]

    def _by_changes(self) -> _Rows:
        changed, zone = self._changed(), self.zone
        rows = self.queries.changes(arguments(self.shape), self._earlier(), changed)
        number = sum(one.num_rows for one in changed)
        if not rows.num_rows:
            return _Rows(self._empty(), self._gone(None), number)
        rows = with_key(rows, zone)
        touched = _distinct(rows.select([KEY, *_key_names(rows)]))
        altered = added(self.shape, rows, self._stored(touched), zone)  # without groups whose changes cancel each other
        doubtful = altered.filter(altered[AGAIN])
        groups = altered.filter(pc.invert(altered[AGAIN])).drop_columns([AGAIN])
        if doubtful.num_rows:
            anew = self._groups(doubtful)
            groups = pa.concat_tables([groups, anew.select(groups.column_names).cast(groups.schema)])
        kept = groups if self.shape.grand else groups.filter(pc.greater(groups[ROWS], 0))
        return _Rows(self._of_groups(kept), self._gone(_without(altered, kept)), number)

    def _by_keys(self) -> _Rows:
        changed = self._changed()
        number = sum(one.num_rows for one in changed)
        found = self.queries.changes({}, self._earlier(), changed)
        if not found.num_rows:
            return _Rows(self._empty(), self._gone(None), number)
        touched = _distinct(with_key(found.drop_columns([WEIGHT]), self.zone))
        if self.shape.grouped or len(changed) > 1:
            result = with_key(self.queries.result(self.queries.newest, self._restriction(touched)), self.zone)
            result = _among(result, touched)
        else:  # the changes of a table have the whole rows of their keys
            came = changed[0].filter(pc.greater(changed[0][WEIGHT], 0))
            result = with_key(self.queries.result([came.drop_columns([WEIGHT])]), self.zone)
        return _Rows(self._of_result(result), self._gone(_without(touched, result)), number)

    def _groups(self, keys: pa.Table | None = None) -> pa.Table:
        """The groups with their states and values, computed from the rows. `keys`: only these."""
        restriction = None if keys is None else self._restriction(keys)
        groups = self.queries.groups(state_aggregates(self.shape), self.queries.newest, restriction)
        return _among(valued(self.shape, groups, self.zone), keys)

    def _restriction(self, keys: pa.Table) -> pa.Table | None:
        """The keys for which to evaluate the query; None: for all, which is cheaper if they are most of them."""
        most = max(_FEW_KEYS, self.version.snapshot.total_rows // 2)
        return keys.select(_key_names(keys)) if keys.num_rows <= most else None

    def _stored(self, keys: pa.Table) -> pa.Table:
        """The stored states of groups, perhaps of others, too: `KEY` and the state. `keys`: `KEY` and `key(i)`."""
        names = [one.name for one in state_fields(self.shape)]
        schema = self.version.schema
        columns = [name for name in schema.columns.names if name in {*schema.primary_key, *names}]
        if keys.num_rows * _SCANNED < self.version.snapshot.total_rows:
            rows = rows_of_keys(self.version, self._primary_keys(keys), columns)
        else:
            planned = plan(self.version, None, columns)
            with self.version.unless_expired():
                rows = pa.concat_tables([output_schema(planned).empty_table(), *read_plan(planned)])
        if KEY not in rows.column_names:
            own = {key(number): rows[name] for number, name in enumerate(self.shape.key_columns)}
            rows = with_key(pa.table({**own, **{name: rows[name] for name in names}}), self.zone)
        return rows.select([KEY, *names])

    def _primary_keys(self, keys: pa.Table) -> pa.Table:
        """The primary keys of rows with `KEY` and `key(i)`."""
        schema, columns = self.version.schema, {}
        for name in schema.primary_key:
            given = keys[KEY if name == KEY else key(self.shape.key_outputs[name])]
            columns[name] = given.cast(schema.plain_columns.field(name).type)
        return pa.table(columns)

    # -- rows as the view table stores them ---------------------------------------------------------------------------

    def _of_groups(self, groups: pa.Table) -> pa.Table:
        """The rows of groups with their states and values."""
        items = {f"_lsmlake_o{number}": one for number, one in enumerate(self.shape.items)}
        return self._as_stored(self.queries.over(items, groups, [one.name for one in hidden_fields(self.shape)]))

    def _of_result(self, result: pa.Table) -> pa.Table:
        """The rows of the query with the columns of its key behind."""
        keyed = result if KEY in result.column_names else with_key(result, self.zone)
        shown = keyed.select(range(len(self.version.schema.shown)))
        return self._as_stored(shown if self.shape.key_columns else shown.append_column(KEY, keyed[KEY]))

    def _as_stored(self, rows: pa.Table) -> pa.Table:
        schema = self.version.schema
        return rows.rename_columns(schema.columns.names).cast(schema.row_columns)

    def _empty(self) -> pa.Table:
        return self.version.schema.row_columns.empty_table()

    def _gone(self, keys: pa.Table | None) -> pa.Table:
        """The primary keys, among those of `keys`, that the view table has."""
        if keys is None or not keys.num_rows:
            return self._empty().select(list(self.version.schema.primary_key))
        return rows_of_keys(self.version, self._primary_keys(keys), list(_in_order(self.version.schema)))

    # -- the commit ---------------------------------------------------------------------------------------------------

    def _published(self, made: _Rows, way: str, reason: str, after: Position) -> RefreshReport:
        identity, advance = Identity(self.version.meta.env.ids()), Advance(self.before, after)
        if made.gone is None:
            request = WriteRequest(identity, replaces=Replacement(everything=True), advance=advance)
            tables = [made.rows]
        else:
            request = WriteRequest(identity, Source(_KIND), advance=advance)
            tables = [_with_kind(made.rows, "+U"), _with_kind(self._completed(made.gone), "-D")]
        snapshot = write_tables(self.version, tables, request)
        covered = {
            name: (self.before[name].snapshot if self.before and name in self.before else 0, now.snapshot)
            for name, now in after.items()
        }
        deleted = None if made.gone is None else made.gone.num_rows
        return RefreshReport(snapshot, way, reason, made.changes, made.rows.num_rows, deleted, covered)

    def _completed(self, keys: pa.Table) -> pa.Table:
        """Rows of keys, with nulls in the other columns."""
        fields = self.version.schema.row_columns
        return pa.table(
            [keys[one.name] if one.name in keys.column_names else pa.nulls(keys.num_rows, one.type) for one in fields],
            schema=fields,
        )


def _with_kind(rows: pa.Table, kind: str) -> pa.Table:
    return rows.append_column(_KIND, pa.repeat(pa.scalar(kind), rows.num_rows))


def _broken(name: str, old: SourcePosition, new: SourcePosition) -> str | None:
    """Why the changes between two states of a table cannot be read; None if they can."""
    if old.table_uuid != new.table_uuid:
        return f"{name} was dropped and made anew"
    if old.schema_id != new.schema_id:
        return f"{name} was altered"
    return f"{name} was rolled back" if new.snapshot < old.snapshot else None


def _at(version: Version, number: int) -> Version:
    """A table at an earlier snapshot of the same schema; 0: before the first one. Raises SnapshotNotFound."""
    return Version(version.meta, version.meta.snapshots.get(number) if number else None, version.schema)


def _in_order(schema: Schema) -> list[str]:
    return [name for name in schema.columns.names if name in schema.primary_key]


def _key_names(rows: pa.Table) -> list[str]:
    """The columns `key(i)`."""
    return [name for name in rows.column_names if name.startswith(key(0)[:-1])]


def _among(rows: pa.Table, keys: pa.Table | None) -> pa.Table:
    """The rows that have one of the keys; None: all."""
    return rows if keys is None else rows.filter(pc.is_in(rows[KEY], value_set=keys[KEY].combine_chunks()))


def _without(keys: pa.Table, rows: pa.Table) -> pa.Table:
    """The keys that none of the rows has."""
    return keys.filter(pc.invert(pc.is_in(keys[KEY], value_set=rows[KEY].combine_chunks())))


def _distinct(rows: pa.Table) -> pa.Table:
    """One row for each `KEY`."""
    codes = rows[KEY].combine_chunks().dictionary_encode().indices
    _, places = np.unique(codes.to_numpy(), return_index=True)
    return rows.take(pa.array(places))
