"""The lake handle: all verbs of a lake, from the files of `api.lake_verbs`; and opening a table by its folder."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.api.lake_verbs.histories import Histories
from lsmlake.api.lake_verbs.imports import Imports
from lsmlake.api.lake_verbs.loading import Loading
from lsmlake.api.lake_verbs.maintaining import Maintaining
from lsmlake.api.lake_verbs.sql_verbs import Sql
from lsmlake.api.lake_verbs.syncing import Syncing
from lsmlake.api.lake_verbs.view_tables import ViewTables
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.border import public
from lsmlake.errors import InvalidQuery
from lsmlake.maintain.followers import FOLLOWERS
from lsmlake.storage.env import Env
from lsmlake.storage.location import storage_at


@public
@dataclass(frozen=True, repr=False)
class Lake(Loading, Imports, Syncing, Histories, ViewTables, Maintaining, Sql):
    """The databases and tables of one warehouse: `lsmlake.connect`."""


def table_at(path: str, env: Env | None = None) -> Table:
    """The table in folder `<warehouse>/<database>.db/<table>` of a store, without a runtime. `env`: the Env of the warehouse, for
    a store that needs more than its address. Raises TableNotFound, InvalidQuery."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    env or storage_at(path)  # refuses text that is neither a path nor an address
    home, _, name = path.rstrip("/").rpartition("/")
    warehouse, folder = home[: home.rfind("/") + 1], home.rpartition("/")[2]
    database, dot, suffix = folder.rpartition(".")
    if (dot, suffix) != (".", "db"):
        raise InvalidQuery(
            "not the folder of a table", where=path, expected="<warehouse>/<database>.db/<table>", cure="correct the path"
        )
    return Lake(env or Env(storage_at(warehouse or "."), followers=FOLLOWERS), Runtime()).table(f"{database}.{name}")
