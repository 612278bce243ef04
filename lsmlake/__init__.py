"""lsmlake: primary-key tables on the data lake for PySpark and for no engine at all. Start with `connect`."""

from lsmlake import errors
from lsmlake.changes import Changes
from lsmlake.connect import connect
from lsmlake.lake import Lake
from lsmlake.ops.alter import set_option, unset_option
from lsmlake.ops.compaction import CompactionReport
from lsmlake.scan import Scan
from lsmlake.table import Table

__all__ = ["Changes", "CompactionReport", "Lake", "Scan", "Table", "connect", "errors", "set_option", "unset_option"]
