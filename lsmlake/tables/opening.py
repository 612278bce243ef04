"""Opens a table by its name."""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial

from lsmlake.errors import TableNotFound, Wording
from lsmlake.format.paths import split_branch, split_name, table_dir
from lsmlake.storage.concurrency import side_by_side
from lsmlake.storage.env import Env
from lsmlake.tables.databases import Databases
from lsmlake.tables.metadata import Metadata

_NO_TABLE = Wording(
    "create_table creates it; tables() lists the tables",
    command="`lsmlake ls` lists the tables; `lsmlake load TABLE FILES --create` creates one from files",
    sql="CREATE TABLE creates it; SHOW TABLES lists the tables",
)


def metadata_of(env: Env, name: str) -> Metadata:
    """The metadata of a table, "database.table", or of a branch of it, "database.table$branch_NAME". Raises TableNotFound."""
    whole, branch = split_branch(name)
    database, table = split_name(whole)
    databases, root = Databases(env.storage), table_dir(whole)
    _, meta = side_by_side([partial(databases.need, database), partial(Metadata.opened, env, root)], env.storage.at_once)
    if meta is None:
        near = get_close_matches(table, databases.tables(database), n=1)
        cure = f"did you mean {database}.{near[0]}?" if near else _NO_TABLE
        raise TableNotFound(f"there is no table {whole!r}", expected=f"a schema file in {root}/schema", cure=cure)
    return meta if branch is None else meta.on(meta.branches.place(branch))
