from lsmlake import errors as errors
from lsmlake.api.changes import Changes as Changes
from lsmlake.api.following import ChangeBatch as ChangeBatch
from lsmlake.api.lake import Lake as Lake
from lsmlake.api.scan import Scan as Scan
from lsmlake.api.table import Table as Table
from lsmlake.compact.job import CompactionReport as CompactionReport
from lsmlake.maintain.alter import set_option as set_option
from lsmlake.maintain.alter import unset_option as unset_option
from lsmlake.warehouse import connect as connect
from lsmlake.warehouse import register as register
from lsmlake.warehouse import ship as ship

__version__: str
