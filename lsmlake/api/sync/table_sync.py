"""One table of the lake in one batch of events: it is made or altered, and gets the events by one commit.

1. If the table has the commit of this batch, nothing is left to do. So each table gets each batch once.
2. Events that declare types in the same way are looked at together. The table is made, or its columns are added and widened; an
   alteration that the table already has changes nothing, so a batch can be applied again. Events whose columns the
   table cannot have are refused.
3. The others are applied by one commit, which has the number of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, takewhile
from typing import Protocol

import pyarrow as pa

from lsmlake.api.change_writes import upsert_changes
from lsmlake.api.lake_verbs.administration import CatalogVerbs
from lsmlake.api.sync.sync_report import SyncedTable, of_table
from lsmlake.api.sync.sync_rules import SyncRules
from lsmlake.api.table_verbs.handle import check_keyed
from lsmlake.cdc import rejected_events
from lsmlake.cdc.change_input import ChangeInput
from lsmlake.cdc.computed_columns import ComputedColumn, in_key, typed
from lsmlake.cdc.decoding import decoded_tables
from lsmlake.cdc.event_queries import VALUE
from lsmlake.cdc.event_rows import ROW_KIND, EventReader, refusal
from lsmlake.cdc.given_events import EventTables
from lsmlake.cdc.source_tables import SourceTable, check_described
from lsmlake.commit.request import Identity, replayed
from lsmlake.errors import InvalidData, InvalidOption, InvalidQuery, InvalidSchema, LakeError, TableNotFound, Wording
from lsmlake.format.paths import is_name
from lsmlake.maintain.alter import alter
from lsmlake.schema.alterations.draft import Alteration
from lsmlake.schema.alterations.of_columns import AddColumn
from lsmlake.schema.schema import Schema
from lsmlake.schema.source_columns import growth
from lsmlake.storage.env import Env
from lsmlake.tables.databases import metadata_of
from lsmlake.tables.version import Version
from lsmlake.types import column_types
from lsmlake.write.write_request import WriteRequest

REFUSALS = InvalidData, InvalidSchema, InvalidOption, InvalidQuery
"""Errors that events or their tables cause. After any other error, such as one of the storage, the batch is applied again."""

_UNKNOWN_KEY = "(unknown)"
"""The name of the key column of a table whose key nothing says, in the reasons of rejected events."""
_WRITES = {"+I", "+U"}


class Routed(Protocol):
    """Events of many tables, told apart by their tables. Data is what `Table.upsert` takes, with a column of events."""

    tables: Sequence[SourceTable]

    def of(self, tables: Sequence[SourceTable]) -> object:
        """The events of some tables."""

    @property
    def nameless(self) -> object | None:
        """The events that name no table; None: there are none."""

    def reject(self, env: Env, table: str, data: object, reason: str, identity: Identity) -> None:
        """Writes events to a table for rejected events."""

    def in_process(self, data: object) -> pa.Table:
        """Events, which are the result of another method, in this process."""


@dataclass
class TableSync:
    """One table in one batch.

    Attributes:
        lake: the lake.
        rules: what becomes of the events.
        routed: the events of the batch.
        target: the name of the table, without the database.
        writer, number: the writer of the commits, and the number of the batch.
        done: what was done.
    """

    lake: CatalogVerbs
    rules: SyncRules
    routed: Routed
    target: str
    writer: str
    number: int
    done: SyncedTable = field(init=False)

    def __post_init__(self) -> None:
        self.done = SyncedTable(self.name)

    @property
    def name(self) -> str:
        """The name of the table, with the database."""
        return f"{self.rules.database}.{self.target}"

    def apply(self, sources: Sequence[SourceTable]) -> SyncedTable:
        """Applies the events of some tables at the source. Raises a LakeError; the call can be repeated."""
        names = tuple(dict.fromkeys(one.name for one in sources))
        self.done = replace(self.done, sources=names)
        writer = self.writer if self.rules.merges else f"{self.writer}/{names[0]}"
        try:
            self._apply(sources, writer)
        except REFUSALS as refused:
            if not self.rules.rejects:
                raise
            self._reject(sources, refused, f"{writer}/table")
        return self.done

    def _apply(self, sources: Sequence[SourceTable], writer: str) -> None:
        cure = Wording("give the table another name by table_mapping", command="add --table-mapping REGEX=NAME")
        if not is_name(self.target):
            raise InvalidQuery("no table can have this name", where=sources[0].name, found=repr(self.target), cure=cure)
        version, identity = self._existing(), Identity(writer, self.number)
        if version is not None:
            check_keyed(version.schema, self.name, "sync", cure)
            if replayed(version, identity):
                return
            self._check_single(version, writer)
        good, bad = [], []
        for source in sources:
            try:
                version = self._prepared(version, source)
                good.append(source)
            except REFUSALS as refused:
                if not self.rules.rejects:
                    raise
                bad.append((source, refused))
        for number, (source, refused) in enumerate(bad):
            self._reject([source], refused, f"{writer}/refused-{number}")
        if good and version is not None:
            self._write(version, good, identity)
        elif good:
            self._check_columnless(good, writer)

    def _existing(self) -> Version | None:
        try:
            return Version.latest(metadata_of(self.lake.env, self.name))
        except TableNotFound:
            return None

    def _check_single(self, version: Version, writer: str) -> None:
        """Raises InvalidQuery if the table already has the rows of another table at the source."""
        if self.rules.merges or version.snapshot is None:
            return
        own = f"{self.writer}/"
        if others := [one.removeprefix(own) for one in version.snapshot.writers if one.startswith(own) and one != writer]:
            raise InvalidQuery(
                "two tables at the source have one table in the lake",
                where=self.name,
                expected=f"only {others[0]}",
                found=writer.removeprefix(own),
                cure=Wording(
                    "if they are shards of one table, pass merge_shards; otherwise give them names by table_mapping",
                    command="if they are shards of one table, add --merge-shards; otherwise --table-mapping REGEX=NAME",
                ),
            )

    # -- the table ----------------------------------------------------------------------------------------------------

    def _prepared(self, version: Version | None, source: SourceTable) -> Version | None:
        """The table with the columns for the events; None: there is no table, and the events describe no columns. Raises a
        LakeError if the table cannot have the columns."""
        check_described(source)
        columns = self._columns(source)
        if version is None:
            return self._created(columns, source) if columns else None
        self._check_key(version.schema, source)

        def wanted(schema: Schema) -> list[Alteration]:
            computed = {one.name: one.type for one in self._computed(schema, columns) if one.name not in schema.columns.names}
            grows = {**columns, **computed}
            return growth(grows, schema, self.rules.evolve, declared=source.declared, where=self.name)

        alterations = wanted(version.schema)
        if not alterations:
            return version
        alter(version.meta, self.name, (), partial(self.lake.runtime.compactions, version.meta), wanted)
        added = tuple(one.path[0] for one in alterations if isinstance(one, AddColumn))
        widened = tuple(one.path[0] for one in alterations if not isinstance(one, AddColumn))
        self.done = of_table(self.done, SyncedTable(self.name, columns_added=added, columns_widened=widened))
        return Version.latest(version.meta)

    def _columns(self, source: SourceTable) -> dict[str, pa.DataType]:
        """The columns that events have, with their types as a table has them. The type of the key of documents says which kind
        of ids it has, so it always is that of the ids; of ObjectIds, where events have parts of documents only."""
        types = {name: column_types.canonical(type_, name) for name, type_ in source.columns.items() if type_ is not None}
        ids = {name: types.get(name, pa.string()) for name in source.key} if self.rules.format.events.document else {}
        if source.declared or self.rules.infers:
            return ids | types if types else types
        return ids | {name: pa.string() for name in source.columns if name not in ids}

    def _created(self, columns: dict[str, pa.DataType], source: SourceTable) -> Version:
        key = self.rules.key_of(self.target) or source.key
        if not key:
            raise InvalidSchema(
                "nothing says the primary key of a table",
                where=source.name,
                expected="events with the key of their table",
                cure=Wording(
                    f"pass the key of the table {self.target} in primary_keys",
                    command=f"add --primary-key {self.target}=NAMES",
                ),
            )
        if missing := [name for name in key if name not in columns]:
            cure = Wording("correct primary_keys, or the source", command="correct --primary-key, or the source")
            raise InvalidSchema(
                f"the events lack key columns {missing}", where=source.name, expected=list(key), found=list(columns), cure=cure
            )
        if not source.declared and (rounded := [name for name in key if pa.types.is_floating(columns[name])]):
            cure = "create the table with a type for the column, such as DECIMAL(20,2)"
            raise InvalidSchema(
                "the numbers of a key column have fractions, and rounding could make two keys equal",
                where=source.name,
                found=rounded,
                cure=cure,
            )
        computed = {one.name: one.type for one in typed(self.rules.computed_of(self.target), columns, self.name)}
        if both := [name for name in key if name in computed]:
            raise in_key(both, self.name)
        table = self.lake.create_table(
            self.name,
            pa.schema(list({**columns, **computed}.items())),
            primary_key=key,
            partition_by=self.rules.partitions_of(self.target),
            options=self.rules.options,
            if_not_exists=True,
        )
        self.done = replace(self.done, created=True)
        return table.version

    def _check_key(self, schema: Schema, source: SourceTable) -> None:
        """Raises InvalidSchema if the table has another key than the user says or, if the user says none, than the source has."""
        given = self.rules.key_of(self.target)
        other = set(given) != set(schema.primary_key) if given else not set(source.key) <= set(schema.primary_key)
        if other:
            raise InvalidSchema(
                "the table has another primary key than its source",
                where=self.name,
                expected=list(schema.primary_key),
                found=list(given or source.key),
                cure=Wording(
                    "say the key of the table by primary_keys if it is right; otherwise make the table anew",
                    command=f"add --primary-key {self.target}=NAMES if the key is right; otherwise make the table anew",
                ),
            )

    def _computed(self, schema: Schema, columns: dict[str, pa.DataType]) -> tuple[ComputedColumn, ...]:
        """The computed columns of a table that gets the rows with these columns."""
        expressions = self.rules.computed_of(self.target)
        own = {one.name: column_types.plain(one.type) for one in schema.columns if one.name not in expressions}
        return typed(expressions, {**columns, **own}, self.name)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _write(self, version: Version, sources: Sequence[SourceTable], identity: Identity) -> None:
        known = set(version.schema.columns.names)
        left_out = dict.fromkeys(name for one in sources for name in one.columns if name not in known)
        types = {one.name: column_types.plain(one.type) for one in version.schema.columns}
        computed = (one._replace(type=types[one.name]) for one in self._computed(version.schema, {}) if one.name in types)
        changes = ChangeInput(
            self.rules.format,
            VALUE,
            self.rules.rejects,
            left_out=tuple(left_out),
            computed=tuple(computed),
            truncates_apply=not self.rules.merges,
            may_lack=True,
        )
        data, request = self.routed.of(sources), WriteRequest(identity)
        snapshot = upsert_changes(version, self.lake.runtime, self.name, data, request, changes)
        rows, commits = (0, 0) if snapshot is None else (snapshot.delta_rows, 1)
        home = self.rules.rejects_of(self.target)
        lost = (self._rejected(home, rejected_events.of_lost(identity, number)) for number in count(1))
        rejected = self._rejected(home, identity) + sum(takewhile(bool, lost))
        self.done = of_table(
            self.done,
            SyncedTable(
                self.name, commits=commits, rows=rows, rejected=rejected, snapshot_id=None if snapshot is None else snapshot.id
            ),
        )

    def _check_columnless(self, sources: Sequence[SourceTable], writer: str) -> None:
        """Rejects the events that cannot be applied, of a table that does not exist because no event describes its columns.
        Truncates, deletes and control records have nothing to do. Raises InvalidData, InvalidSchema."""
        home = self.rules.rejects_of(self.target)
        for number, source in enumerate(sources):
            own = Identity(f"{writer}/columnless-{number}", self.number)
            key = self.rules.key_of(self.target) or source.key or (_UNKNOWN_KEY,)
            columns = pa.schema([(name, pa.string()) for name in key])
            reader = EventReader(self.rules.format, columns, tuple(key), may_lack=True)
            data = self.routed.in_process(self.routed.of([source]))
            events = EventTables(data, VALUE, of_bytes=self.rules.format.events.avro, rejects=self.rules.rejects)
            good, bad = rejected_events.apart(pa.concat_tables([reader.fields.empty_table(), *decoded_tables(events, reader)]))
            if bad.num_rows and not self.rules.rejects:
                raise refusal(bad, self.name)
            if set(good[ROW_KIND].unique().to_pylist()) & _WRITES:
                refused = InvalidSchema(
                    "the events describe no columns, so no table can be made",
                    where=source.name,
                    expected="events with the types or the values of their fields",
                    found=source.types or "",
                    cure="correct the source of the events, or create the table before",
                )
                if not self.rules.rejects:
                    raise refused
                self._reject([source], refused, own.writer_id)
            elif bad.num_rows:
                rejected_events.keep(self.lake.env, home, bad, own)
                self.done = of_table(self.done, SyncedTable(self.name, rejected=self._rejected(home, own)))

    def _reject(self, sources: Sequence[SourceTable], refused: LakeError, writer: str) -> None:
        """Writes the events of some tables at the source to the table of rejected events."""
        identity, reason = Identity(writer, self.number), " ".join(str(refused).split())
        home = self.rules.rejects_of(self.target)
        self.routed.reject(self.lake.env, home, self.routed.of(sources), reason, identity)
        rejected = self._rejected(home, identity)
        self.done = of_table(self.done, SyncedTable(self.name, rejected=rejected, reasons=(reason,)))

    def _rejected(self, home: str, identity: Identity) -> int:
        """How many events a commit has brought to a table of rejected events."""
        return count_of(self.lake.env, home, identity)


def count_of(env: Env, table: str, identity: Identity) -> int:
    """How many rows a commit has brought to a table; 0 if there is no table or no such commit."""
    try:
        snapshot = replayed(Version.latest(metadata_of(env, table)), identity)
    except TableNotFound:
        return 0
    return 0 if snapshot is None or snapshot.commit_id != identity.commit_id else snapshot.delta_rows
