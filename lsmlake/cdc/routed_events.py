"""A batch of change events of many tables in this process, told apart by their tables.

DuckDB reads where an event says its table (`cdc.route_queries`); of Avro, the records are read together by schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc import avro_sources, rejected_events
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cdc.event_lines import readable
from lsmlake.cdc.event_queries import EVENT, KEY, OFFSET, ROW, VALUE
from lsmlake.cdc.inferred_types import of_duckdb
from lsmlake.cdc.route_queries import CONTENT, KEYS, NO_CHANGE, SOURCE, TYPES, RouteQuery
from lsmlake.cdc.source_tables import SourceTable, described
from lsmlake.commit.request import Identity
from lsmlake.dialect.connection import connected, translated_errors
from lsmlake.storage.env import Env

_RELATION, _ROUTED = "lsmlake_events", "lsmlake_routed"
_FACTS = f"""
    SELECT {SOURCE}, {TYPES}, list(DISTINCT {KEYS}) AS keys, json_group_structure(TRY_CAST({CONTENT} AS JSON)) AS kinds,
        min({ROW}) AS first
    FROM {_ROUTED} WHERE {SOURCE} <> '{NO_CHANGE}' GROUP BY {SOURCE}, {TYPES} ORDER BY first
"""


@dataclass(frozen=True)
class RoutedEvents:
    """Events, and the tables that they are for.

    Attributes:
        events: with the columns `EVENT`, `SOURCE` and `TYPES`, and perhaps `KEY` and `OFFSET`.
        tables: the tables as the events describe them, in the order of their first events.
    """

    events: pa.Table
    tables: tuple[SourceTable, ...]

    def of(self, tables: Sequence[SourceTable]) -> pa.Table:
        """The events of some tables, as data with a column of events."""
        return self._data(self.events.filter(reduce(pc.or_, [self._flags(one) for one in tables])))

    @property
    def nameless(self) -> pa.Table | None:
        """The events that name no table; None if all do."""
        flags = self.events[SOURCE].is_null()
        return self._data(self.events.filter(flags)) if pc.any(flags).as_py() else None

    def reject(self, env: Env, table: str, data: pa.Table, reason: str, identity: Identity) -> None:
        """Writes events, which are the result of another method, to a table for rejected events."""
        rejected_events.keep(env, table, rejected_events.refused(data, reason), identity)

    def in_process(self, data: pa.Table) -> pa.Table:
        """The events as they are: they are in this process."""
        return data

    def _flags(self, table: SourceTable) -> pa.ChunkedArray:
        own = pc.equal(self.events[SOURCE], table.name)
        types = self.events[TYPES]
        same = types.is_null() if table.types is None else pc.fill_null(pc.equal(types, table.types), False)
        return pc.and_(pc.fill_null(own, False), same)

    def _data(self, events: pa.Table) -> pa.Table:
        others = [name for name in (KEY, OFFSET) if name in events.column_names]
        return events.select([EVENT, *others]).rename_columns([VALUE, *others])


def routed(events: pa.Table, format: ChangeFormat) -> RoutedEvents:
    """Tells events apart by their tables. `events`: with `EVENT`, and perhaps `KEY` and `OFFSET`."""
    if format.events.avro:
        sources, types = avro_sources.routes(events, format)
        routes = events.append_column(SOURCE, sources).append_column(TYPES, types)
        known = routes.select([SOURCE, TYPES]).group_by([SOURCE, TYPES], use_threads=False).aggregate([]).to_pylist()
        tables = (avro_sources.described(format, one[SOURCE], one[TYPES]) for one in known if one[SOURCE])
        return RoutedEvents(routes, tuple(tables))
    keyed = events if KEY in events.column_names else events.append_column(KEY, pa.nulls(events.num_rows, pa.string()))
    given = readable(keyed).append_column(ROW, pa.array(np.arange(events.num_rows)))
    with connected("UTC", "change events of several tables") as connection, translated_errors("events"):

        def told() -> tuple[pa.Table, pa.Table]:
            connection.register(_RELATION, given)
            found = connection.sql(RouteQuery(format.events).in_duckdb(_RELATION, [ROW])).to_arrow_table()
            connection.register(_ROUTED, found)
            return found.sort_by(ROW), connection.sql(_FACTS).to_arrow_table()

        found, facts = connection.wait_for(told)
    routes = events.append_column(SOURCE, found[SOURCE]).append_column(TYPES, found[TYPES])
    return RoutedEvents(routes, tuple(_described(format, row) for row in facts.to_pylist()))


def _described(format: ChangeFormat, row: Mapping[str, object]) -> SourceTable:
    keys = [text for text in row["keys"] or () if text is not None]
    return described(format, row[SOURCE], row[TYPES], keys, of_duckdb(row["kinds"]))
