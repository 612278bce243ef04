"""The table of events that cannot be read: their texts, with the reasons. It is made when the first event is rejected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.event_queries import OFFSET, VALUE
from lsmlake.cdc.event_rows import PLACE, POSITION, REASON, REJECTED, ROW_KIND, TEXT, shown_events
from lsmlake.commit.request import Identity, replayed
from lsmlake.errors import InvalidData, TableExists, Wording
from lsmlake.format.paths import TablePaths, table_dir
from lsmlake.format.snapshot import Snapshot
from lsmlake.read.arrow_scan import read_plan
from lsmlake.read.plan import plan
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import Env
from lsmlake.tables.databases import Databases, metadata_of
from lsmlake.tables.version import Metadata, Version
from lsmlake.tables.views import Views
from lsmlake.types.type_text import format_type_of
from lsmlake.write.write import write_tables
from lsmlake.write.write_request import WriteRequest

REJECTED_AT = "rejected_at"
_COLUMNS = pa.schema(
    [
        (REJECTED_AT, pa.timestamp("us", "UTC")),
        ("reason", pa.string()),
        ("event", pa.string()),
        ("position", pa.string()),
        ("event_offset", pa.int64()),
    ]
)
PLACES = {"event": TEXT, "position": POSITION, "event_offset": PLACE}
"""The columns that tell an event from others, and those of decoded rows that they are."""
SOURCES = {"reason": REASON, **PLACES}


def keep(env: Env, name: str, rows: pa.Table, identity: Identity) -> Snapshot | None:
    """Writes rejected events, as one commit with the identity of the commit of the others, so a replay changes nothing.

    Args:
        env: the warehouse.
        name: the table for rejected events.
        rows: decoded rows, all rejected.
        identity: of the commit.
    """
    if not rows.num_rows:
        return None
    columns = {new: rows[old] for new, old in SOURCES.items()}
    moment = pa.scalar(env.clock() * 1000, _COLUMNS.field(REJECTED_AT).type)
    made = pa.table({REJECTED_AT: pa.repeat(moment, rows.num_rows), **columns})
    return write_tables(opened(env, name), [made.cast(_COLUMNS)], WriteRequest(identity, compact=False))


def home(version: Version, given: str | None) -> str:
    """The name of the table for rejected events of a table, which can hold them if it is there. `given`: see `name_for`. Raises
    InvalidData, TableExists, TableNotFound."""
    name = name_for(version.meta.paths.table_name, given)
    Databases(version.meta.env.storage).root(name)
    check(version.meta.env, name)
    return name


def check(env: Env, name: str) -> None:
    """Raises InvalidData if the table of a name is there and cannot hold rejected events, TableExists for the name of a view."""
    if Databases(env.storage).is_table(table_dir(name)):
        _check_columns(Version.latest(metadata_of(env, name)), name)
    elif Views(env.storage).is_there(name):
        cure = "choose another name for the table of rejected events, or drop the view"
        raise TableExists(f"a view has the name {name!r}", expected="a table for rejected events, or none", cure=cure)


def name_for(table: str, given: str | None = None) -> str:
    """The name of the table for rejected events of a table. `given`: the name that the user says."""
    return f"{table}_rejected" if given is None else given


def opened(env: Env, name: str) -> Version:
    """The table for rejected events, made if there is none. Raises InvalidData for other columns."""
    table = Version.latest(_made(env, name))
    _check_columns(table, name)
    return table


def _check_columns(table: Version, name: str) -> None:
    columns = table.schema.plain_columns
    if columns.remove_metadata() != _COLUMNS or not table.schema.append_only:
        raise InvalidData(
            "the table for rejected events has other columns",
            where=name,
            expected=f"{_shown(_COLUMNS)}, and no primary key",
            found=_shown(columns) + (f", primary key {list(table.schema.primary_key)}" if table.schema.primary_key else ""),
            cure=Wording(
                "give this table another name by rename_table: a new one is made when it is needed; or, if one table takes the "
                "events, pass rejected='database.table'",
                command="give this table another name: a new one is made when it is needed",
            ),
        )


def _shown(columns: pa.Schema) -> str:
    return ", ".join(f"{field.name} {format_type_of(field)}" for field in columns)


def refused(events: pa.Table, reason: str) -> pa.Table:
    """Rows of events that are all rejected for one reason. `events`: data with a column of events."""
    count = events.num_rows
    texts, nothing = shown_events(events[VALUE].combine_chunks()), pa.nulls(count, pa.string())
    place = events[OFFSET] if OFFSET in events.column_names else pa.nulls(count, pa.int64())
    return pa.table({REASON: pa.repeat(reason, count), TEXT: texts, POSITION: nothing, PLACE: place})


def keep_lost(env: Env, name: str, rows: pa.Table, identity: Identity) -> Snapshot | None:
    """As `keep`, for `lost` events. Later attempts of a commit, and a replay after it has failed, may find others: these are
    written by commits of their own."""
    table = opened(env, name)
    own = next_of_lost(table, identity)
    if own != of_lost(identity):
        rows = rows.filter(pc.invert(_are_recorded(table, rows)))
    return keep(env, name, rows, own)


def recorded_lost(env: Env, name: str, rows: pa.Table, identity: Identity) -> list[int]:
    """The numbers of the decoded rows that a process recorded as `lost` before it died without its commit."""
    if not Databases(env.storage).is_table(table_dir(name)):
        return []
    table = Version.latest(metadata_of(env, name))
    if next_of_lost(table, identity) == of_lost(identity):
        return []
    return np.flatnonzero(np.asarray(_are_recorded(table, rows))).tolist()


def _are_recorded(table: Version, rows: pa.Table) -> pa.ChunkedArray:
    recorded = [_marks(part, PLACES) for part in read_plan(plan(table, None, list(PLACES)))]
    return pc.is_in(_marks(rows, PLACES.values()), pa.chunked_array(recorded, pa.string()))


def of_lost(identity: Identity, number: int = 1) -> Identity:
    """The identity of a commit with events that lack a value. The others are rejected by a commit before. `number`: of the
    commits for one batch."""
    return replace(identity, writer_id=f"{identity.writer_id}/lost" + (f"-{number}" if number > 1 else ""))


def next_of_lost(table: Version, identity: Identity) -> Identity:
    """The identity for the next commit with events that lack a value: the first one that the table does not have."""
    return next(one for one in (of_lost(identity, number) for number in count(1)) if replayed(table, one) is None)


def _marks(rows: pa.Table, names: Iterable[str]) -> pa.ChunkedArray:
    """A text for each event, by which it is told from others."""
    parts = [pc.fill_null(rows[name].cast(pa.string()), "") for name in names]
    return pc.binary_join_element_wise(*parts, "\x1f")


def lost(rows: pa.Table, reasons: Sequence[str]) -> pa.Table:
    """Decoded rows of events whose unchanged values were not found, with the reasons."""
    return rows.select([TEXT, POSITION, PLACE]).append_column(REASON, pa.array(reasons, pa.string()))


def _made(env: Env, name: str) -> Metadata:
    """The table of a name; a new one if there is none."""
    databases = Databases(env.storage)
    root, uuid = databases.root(name), env.ids()
    created = Schema.create(_COLUMNS, (), (), {}, "events that could not be read", env.clock(), uuid, name)
    databases.clear(root)
    Metadata.of(env, TablePaths(root, uuid)).schemas.begin(created)  # does nothing if the table exists
    return metadata_of(env, name)


def apart(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Decoded rows without the rejected events, and these."""
    bad = pc.equal(rows[ROW_KIND], REJECTED)
    return rows.filter(pc.invert(bad)), rows.filter(bad)
