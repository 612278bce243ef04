"""Options of merging: how the rows of one key become one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lsmlake.options.option import Change, Tables, Values, When, option
from lsmlake.options.option_types import boolean, duration, names, one_of

DEDUPLICATE, FIRST_ROW, PARTIAL_UPDATE, AGGREGATION = ENGINES = "deduplicate", "first-row", "partial-update", "aggregation"
_PARTIAL_UPDATE = (When("merge-engine", (PARTIAL_UPDATE,)),)
_AGGREGATION = (When("merge-engine", (AGGREGATION,)),)
_DELETES_RETAINED_MS = 2 * 86_400_000


def _delete_retained(values: Values) -> int:
    return _DELETES_RETAINED_MS if values["merge-engine"] == DEDUPLICATE and values["sequence.field"] else 0


@dataclass(frozen=True)
class MergeOptions:
    TABLES: ClassVar = Tables.KEYED

    engine: str = option(
        "merge-engine", one_of(*ENGINES), DEDUPLICATE, "how the rows of one key become one row", change=Change.REWRITES
    )
    sequence_field: tuple[str, ...] = option(
        "sequence.field",
        names,
        (),
        "columns that order the rows of a key; equal rows, and rows of a table without these columns, are in order of arrival",
        change=Change.REWRITES,
        only=((When("merge-engine", (DEDUPLICATE, PARTIAL_UPDATE, AGGREGATION)),),),
    )
    sequence_sort_order: str = option(
        "sequence.field.sort-order",
        one_of("ascending", "descending"),
        "ascending",
        "whether the row with the greater or the smaller sequence is newer",
        change=Change.REWRITES,
        only=((When("sequence.field"),),),
    )
    delete_retained_ms: int = option(
        "sequence.delete-retained",
        duration,
        0,
        "how long a delete keeps its sequence: a row with a smaller one that is written within this time does not come back;"
        " 0: a delete forgets its sequence; default with deduplicate and sequence.field: 2 d, otherwise 0",
        own=True,
        change=Change.REWRITES,
        only=((When("merge-engine", (DEDUPLICATE,)),), (When("sequence.field"),)),
        derived=_delete_retained,
    )
    remove_on_delete: bool = option(
        "partial-update.remove-record-on-delete",
        boolean,
        False,
        "a -D row removes the whole row; -U rows change nothing and are dropped before they are written, to a changelog too",
        change=Change.REWRITES,
        only=(_PARTIAL_UPDATE,),
    )
    remove_on_sequence_group: tuple[str, ...] = option(
        "partial-update.remove-record-on-sequence-group",
        names,
        (),
        "a -D row that is not late for the group of these sequence columns removes the whole row",
        change=Change.REWRITES,
        only=(_PARTIAL_UPDATE,),
    )
    aggregation_remove_on_delete: bool = option(
        "aggregation.remove-record-on-delete",
        boolean,
        False,
        "a -D row removes the whole row",
        change=Change.REWRITES,
        only=(_AGGREGATION,),
    )
