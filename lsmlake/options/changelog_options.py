"""Options of the changelog: its producer, and the changes that it omits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lsmlake.options.option import Change, Tables, Values, When, option
from lsmlake.options.option_types import boolean, names, one_of, size

NONE, INPUT, LOOKUP, FULL_COMPACTION = PRODUCERS = "none", "input", "lookup", "full-compaction"
_COMPARING = (When("changelog-producer", (LOOKUP, FULL_COMPACTION)),)


def _reported_at(values: Values) -> str:
    """When changes are reported. Under `input`, and without a changelog producer, a change is reported when it is written."""
    producer = values["changelog-producer"]
    return INPUT if producer == NONE else producer


@dataclass(frozen=True)
class ChangelogOptions:
    TABLES: ClassVar = Tables.KEYED

    producer: str = option(
        "changelog-producer",
        one_of(*PRODUCERS),
        NONE,
        "what writes a changelog: nothing, writers (the rows as given), every compaction (lookup), or full compactions only;"
        " a change between none and input rewrites nothing",
        change=Change.REWRITES,
        matters=_reported_at,
    )
    deduplicate: bool = option(
        "changelog-producer.row-deduplicate",
        boolean,
        False,
        "leave out updates that change nothing",
        only=(_COMPARING,),
    )
    ignored_columns: tuple[str, ...] = option(
        "changelog-producer.row-deduplicate-ignore-fields",
        names,
        (),
        "columns that do not count as a change",
        only=(_COMPARING, (When("changelog-producer.row-deduplicate", (True,)),)),
    )
    lookup_bytes: int = option(
        "lookup.cache-max-memory-size",
        size,
        256 << 20,
        "memory of a connection for rows of files that compactions have decoded to find old rows of a changelog, of all its"
        " tables together; 0 keeps none",
        only=(_COMPARING,),
    )
