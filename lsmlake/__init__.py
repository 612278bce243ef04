"""lsmlake: primary-key tables on the data lake for PySpark and for no engine at all. Start with `connect`."""

from lsmlake import errors
from lsmlake.changes import Changes
from lsmlake.connect import connect, register
from lsmlake.following import ChangeBatch
from lsmlake.lake import Lake
from lsmlake.ops.alter import set_option, unset_option
from lsmlake.ops.compaction import CompactionReport
from lsmlake.scan import Scan
from lsmlake.table import Table

__all__ = [
    "ChangeBatch",
    "Changes",
    "CompactionReport",
    "Lake",
    "Scan",
    "Table",
    "connect",
    "errors",
    "register",
    "set_option",
    "unset_option",
]
