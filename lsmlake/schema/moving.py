"""The options of a table whose keys can move between partitions, because its primary key lacks a partition column.

Rules as in Apache Paimon: under `deduplicate` a new row with another partition moves the key; under `partial-update` and
`aggregation` the row is updated where it lies, whatever partition its new rows name; under `first-row` the first row stays.
`write.key_places` applies them.
"""

from __future__ import annotations

from collections.abc import Sequence

from lsmlake.errors import InvalidOption
from lsmlake.options.changelog_options import LOOKUP, NONE
from lsmlake.options.column_options import SEQUENCE_GROUP
from lsmlake.options.table_options import Options

_KEY = "or add the partition columns to the primary key"


def check_moving(moving: Sequence[str], options: Options, where: str) -> None:
    """Raises InvalidOption for an option that needs all rows of a key in one partition. `moving`: the partition columns that are
    not in the primary key."""
    merge, outside = options.merge, f"partition columns {list(moving)} outside of the primary key"
    if merge.sequence_field:
        raise InvalidOption(
            "sequence.field needs all rows of a key in one partition",
            where=where,
            found=outside,
            cure=f"leave it out, and order the rows of a batch by the argument order_by of a write; {_KEY}",
        )
    if options.changelog.producer not in (NONE, LOOKUP):
        raise InvalidOption(
            f"changelog-producer = {options.changelog.producer} needs all rows of a key in one partition",
            where=where,
            found=outside,
            cure=f"use {LOOKUP}, with which each write emits its exact changes; {_KEY}",
        )
    if merge.remove_on_sequence_group:
        raise InvalidOption(
            "partial-update.remove-record-on-sequence-group needs all rows of a key in one partition",
            where=where,
            found=outside,
            cure=f"use partial-update.remove-record-on-delete; {_KEY}",
        )
    for each in options.columns.merging.given:
        named = (*each.columns, *each.value) if each.kind == SEQUENCE_GROUP else each.columns
        if not {*named}.isdisjoint(moving):
            raise InvalidOption(
                f"option {each.name!r} names a partition column",
                where=where,
                found=outside,
                cure=f"name other columns: a row is updated in the partition in which it lies; {_KEY}",
            )
