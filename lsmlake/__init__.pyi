from lsmlake import errors as errors
from lsmlake.changes import Changes as Changes
from lsmlake.following import ChangeBatch as ChangeBatch
from lsmlake.lake import Lake as Lake
from lsmlake.ops.alter import set_option as set_option
from lsmlake.ops.alter import unset_option as unset_option
from lsmlake.ops.compaction import CompactionReport as CompactionReport
from lsmlake.scan import Scan as Scan
from lsmlake.table import Table as Table
from lsmlake.warehouse import connect as connect
from lsmlake.warehouse import register as register
from lsmlake.warehouse import ship as ship

__version__: str
