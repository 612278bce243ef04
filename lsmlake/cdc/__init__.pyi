from lsmlake.cdc.event_formats import ChangeFormat as ChangeFormat
from lsmlake.warehouse import decode as decode
