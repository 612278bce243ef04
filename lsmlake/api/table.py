"""The table handle: all verbs of a table, from the files of `api.table_verbs`."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.api.table_verbs.expiry import Expiry
from lsmlake.api.table_verbs.history import History
from lsmlake.api.table_verbs.listings import Listings
from lsmlake.api.table_verbs.repairs import Repairs
from lsmlake.api.table_verbs.sharing import Sharing
from lsmlake.api.table_verbs.statements import Statements
from lsmlake.api.table_verbs.upkeep import Upkeep
from lsmlake.border import public


@public
@dataclass(frozen=True, repr=False)
class Table(Statements, History, Upkeep, Expiry, Repairs, Sharing, Listings):
    """A table, with a primary key or append-only. The handle holds no state of the table: every method reads the latest snapshot
    and its schema.

    Attributes:
        name: "database.table".
    """
