"""The aggregate function of a column, with the settings that the options give it, and what it takes by the order of rows."""

from __future__ import annotations

from lsmlake.lsm.aggregate import Function, function
from lsmlake.lsm.aggregate.first_last import Last
from lsmlake.lsm.merge.contested import Contest, Decisive
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.schema.schema import Schema

LAST_NON_NULL = "last_non_null_value"


def function_for(column: str, name: str, schema: Schema, where: str) -> Function:
    """The function of that name for the column. Raises InvalidOption."""
    settings = schema.parsed_options.columns.settings(column)
    place = f"{where}, column {column!r}" if where else f"column {column!r}"
    return function(name, schema.typed_columns.field(column).with_nullable(True), settings, place)


def contests_of(column: str, function: Function, sequence: SequenceFields) -> list[Contest]:
    """What the value of the column takes from some rows by their order; see `MergeRule.contests`."""
    if function.commutative_adds:
        return []
    decisive = Decisive.NEWEST if isinstance(function, Last) else Decisive.ALL
    taken = Contest((column,), sequence, decisive, skips_nulls=function.skips_nulls)
    return [taken, Contest((), sequence)] if function.retracts else [taken]
