from lsmlake import errors as errors
from lsmlake.api.alterations import add_column as add_column
from lsmlake.api.alterations import change_type as change_type
from lsmlake.api.alterations import drop_column as drop_column
from lsmlake.api.alterations import drop_default as drop_default
from lsmlake.api.alterations import drop_not_null as drop_not_null
from lsmlake.api.alterations import move_column as move_column
from lsmlake.api.alterations import rename_column as rename_column
from lsmlake.api.alterations import set_comment as set_comment
from lsmlake.api.alterations import set_default as set_default
from lsmlake.api.alterations import set_not_null as set_not_null
from lsmlake.api.alterations import set_option as set_option
from lsmlake.api.alterations import unset_option as unset_option
from lsmlake.api.changes import Changes as Changes
from lsmlake.api.following import ChangeBatch as ChangeBatch
from lsmlake.api.lake import Lake as Lake
from lsmlake.api.merge import Merge as Merge
from lsmlake.api.result import Result as Result
from lsmlake.api.scan import Scan as Scan
from lsmlake.api.table import Table as Table
from lsmlake.compact.job import CompactionReport as CompactionReport
from lsmlake.warehouse import connect as connect
from lsmlake.warehouse import register as register
from lsmlake.warehouse import ship as ship
from lsmlake.write.statement import DmlReport as DmlReport

__version__: str
