"""`sys`: how the lake is doing, as tables of SQL: `sys.health` and `sys.maintenance`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.errors import TableNotFound
from lsmlake.tables.databases import Databases

NAME = "sys"
_TABLES: Mapping[str, Callable[[Lake], pa.Table]] = {
    "health": lambda lake: lake.health(),
    "maintenance": lambda lake: lake.maintenance(),
}


def table(lake: Lake, name: str) -> pa.Table | None:
    """The table `sys.name`; None for a name in another database, or if the lake has a database `sys` of its own. Raises
    TableNotFound."""
    database, _, own = name.partition(".")
    if database.lower() != NAME or NAME in Databases(lake.env.storage).names():
        return None
    if own.lower() not in _TABLES:
        raise TableNotFound(f"there is no table {name!r}", expected=f"one of {', '.join(_TABLES)}", cure="correct the name")
    return _TABLES[own.lower()](lake)
