"""The aggregate functions of the merge rules: they reduce the values of a column to one value per key. Arrow in, Arrow out."""

from lsmlake.lsm.aggregate.function import Function, IgnoreRetract, NoRetract
from lsmlake.lsm.aggregate.functions_by_name import GROUP, NAMES, function, register
from lsmlake.options.column_options import FieldSettings

__all__ = ["GROUP", "NAMES", "FieldSettings", "Function", "IgnoreRetract", "NoRetract", "function", "register"]
