"""Decodes change events in this process: DuckDB parses their JSON, `cdc.event_rows` interprets it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.avro_events import decoded_avro
from lsmlake.cdc.event_digits import in_doubt, marked, unmarked
from lsmlake.cdc.event_fields import known_names
from lsmlake.cdc.event_lines import readable
from lsmlake.cdc.event_queries import EVENT, NAMES, OFFSET, ROW, WRONG, EventQuery
from lsmlake.cdc.event_rows import REASON, REJECTED, ROW_KIND, TEXT, EventReader, refusal
from lsmlake.cdc.event_values import schema_in
from lsmlake.cdc.given_events import EventTables
from lsmlake.dialect.connection import PatientConnection, connected, translated_errors
from lsmlake.kernels.keys import joined
from lsmlake.types.type_table import is_bytes

_BATCH_ROWS, _BATCH_BYTES = 1 << 16, 64 << 20
_CORE_ROWS = 1 << 14
_RELATION = "lsmlake_events"
_ENVELOPE = r'^\s*\{\s*"(schema|payload)"\s*:'
_LOOKS = 100


def decoded_tables(events: Iterable[pa.Table], reader: EventReader, threads: int | None = None) -> Iterator[pa.Table]:
    """Decodes tables of events: `EVENT`, and perhaps `KEY` and `OFFSET`. Yields decoded rows (`EventReader.fields`).
    `threads`: of DuckDB; None: its default."""
    if reader.format.events.avro:
        yield from (decoded_avro(table, reader) for table in chain.from_iterable(map(_in_batches, events)))
        return
    with connected(reader.zone, "a format of change events") as connection:
        if threads is not None:
            connection.execute(f"SET threads = {threads}")
        for table in map(readable, chain.from_iterable(map(_in_batches, events))):
            inside = pc.fill_null(pc.match_substring_regex(table[EVENT], _ENVELOPE), False)
            within = reader.format.events.enveloped and pc.any(inside).as_py()
            parsed = partial(_parsed, table, reader, connection)
            if not within or pc.all(inside).as_py():
                texts = parsed(within)
            else:
                flags = ((inside, True), (pc.invert(inside), False))
                parts = [parsed(one, rows) for rows, one in flags]
                parts = [one.set_column(one.column_names.index(NAMES), NAMES, one[NAMES].cast(pa.string())) for one in parts]
                texts = pa.concat_tables(parts, promote_options="default").sort_by(ROW)
            yield reader.rows(texts, described=bool(within))


def _parsed(
    table: pa.Table,
    reader: EventReader,
    connection: PatientConnection,
    within: bool,
    rows: pa.ChunkedArray | None = None,
) -> pa.Table:
    """The texts of some of the events, with `EVENT`, `OFFSET`, `WRONG` and `ROW`. `within`: as in `EventQuery`. `rows`: flags
    them."""
    query = replace(reader.query, within=within)
    given = table.append_column(ROW, pa.array(np.arange(table.num_rows)))
    given = given if rows is None else given.filter(rows)
    events = joined(given[EVENT])
    events = _without_schema(events) if within else events
    relation = given.set_column(0, EVENT, events)
    made = _with_names(query, relation, connection)
    made = _with_digits(made, query, relation, reader, connection)
    for name in (EVENT, OFFSET, WRONG):
        if name in table.column_names:
            column = given[name] if made.num_rows == given.num_rows else table[name].take(made[ROW])
            made = made.append_column(name, column)
    return made


def _with_names(query: EventQuery, relation: pa.Table, connection: PatientConnection) -> pa.Table:
    """The texts of events, with the names of their fields. The parser reads the names that nothing else tells."""
    if query.row_path is None:
        return _run(query, relation, connection)
    names = known_names(joined(relation[EVENT]), query.row_path, many=query.format.many)
    known = np.asarray(names.is_valid())
    if not known.any():
        return _run(query, relation, connection)
    some = pa.array(np.flatnonzero(known))
    made = _run(replace(query, names_known=True), relation.take(some) if len(some) < len(known) else relation, connection)
    place = np.searchsorted(np.asarray(relation[ROW]), np.asarray(made[ROW]))
    own = names.take(pa.array(place, mask=~np.asarray(made[NAMES])))
    made = made.set_column(made.column_names.index(NAMES), NAMES, own)
    if len(some) == len(known):
        return made
    others = _run(query, relation.take(pa.array(np.flatnonzero(~known))), connection)
    both = pa.concat_tables([made.set_column(made.column_names.index(NAMES), NAMES, own.cast(pa.string())), others])
    return both.take(pa.array(np.argsort(np.asarray(both[ROW]), kind="stable")))


def _run(query: EventQuery, relation: pa.Table, connection: PatientConnection) -> pa.Table:
    batches = pa.Table.from_batches(relation.to_batches(max_chunksize=_CORE_ROWS), relation.schema)  # a core takes one

    def parsed() -> pa.Table:
        from duckdb import InvalidInputException

        connection.register(_RELATION, batches)
        try:
            return connection.sql(query.in_duckdb(_RELATION)).to_arrow_table()
        except (InvalidInputException, UnicodeDecodeError):  # a text is no JSON; DuckDB's error may cut a character of it
            return connection.sql(query.in_duckdb(_RELATION, tries=True)).to_arrow_table()

    with translated_errors("events"):
        return connection.wait_for(parsed)


def _with_digits(
    made: pa.Table, query: EventQuery, relation: pa.Table, reader: EventReader, connection: PatientConnection
) -> pa.Table:
    """The texts with numbers as the events write them, see `cdc.event_digits`. `relation`: the events; `made`: their texts."""
    places = np.searchsorted(np.asarray(relation[ROW]), np.asarray(made[ROW]))
    events = joined(relation[EVENT])
    events = events if len(places) == len(events) else events.take(pa.array(places))
    doubts = {}
    for column, name, keep in reader.text_columns(made.column_names):
        flags = in_doubt(joined(made[name]).cast(pa.string()), events, column.type, decimals=keep and not is_bytes(column.type))
        if flags is not None:
            doubts[name] = flags, keep
    if not doubts:
        return made
    some = np.unique(places[np.logical_or.reduce([flags for flags, _ in doubts.values()])])
    chosen = relation.take(pa.array(some))
    with_marks, mark = marked(joined(chosen[EVENT]))
    query = replace(query, names_known=True, mark=mark if query.format.document else "")
    again = _run(query, chosen.set_column(0, EVENT, with_marks), connection)
    back = np.cumsum(np.isin(places, some)) - 1
    for name, (flags, keep) in doubts.items():
        texts = unmarked(joined(again[name]).take(pa.array(back[flags])), mark, keep=keep)
        made = made.set_column(
            made.column_names.index(name), name, pc.replace_with_mask(joined(made[name]), pa.array(flags), texts)
        )
    return made


def _without_schema(events: pa.Array) -> pa.Array:
    """The events without the field `schema` at their beginnings, if all have the same; otherwise the events."""
    first = next((one.as_py() for one in events[:_LOOKS] if one.is_valid), "")
    _, prefix = schema_in(first)
    comma = re.match(r"\s*,", first[len(prefix) :])
    if not prefix or comma is None:
        return events
    prefix += comma.group()
    if pc.all(pc.starts_with(events, prefix)).as_py() is False:
        return events
    return pc.binary_replace_slice(events.cast(pa.binary()), 0, len(prefix.encode()), b"{").cast(pa.string())


def decoded(data: object, reader: EventReader, column: str | None) -> pa.Table:
    """The rows of all events in data of this process, for `lsmlake.cdc.decode`. Raises InvalidData for a rejected event."""
    made = [reader.fields.empty_table()]
    events = EventTables(data, column, of_bytes=reader.format.events.avro)
    with events.placed():
        for rows in decoded_tables(events, reader):
            if pc.any(pc.equal(rows[ROW_KIND], REJECTED)).as_py():
                raise refusal(rows)
            made.append(rows)
    return pa.concat_tables(made).drop_columns([TEXT, REASON])


def _in_batches(table: pa.Table) -> Iterator[pa.Table]:
    """Tables of a size that a batch of columns of text may have."""
    rows = max(1, min(_BATCH_ROWS, table.num_rows * _BATCH_BYTES // max(1, table.nbytes)))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)
