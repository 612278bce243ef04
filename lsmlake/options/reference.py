"""The reference of all table options, one row per option, generated from the declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lsmlake.options import columns
from lsmlake.options.option import Change, Only, Option
from lsmlake.options.table_options import OPTIONS, group_of

PAIMON, OWN = "Paimon", "lsmlake"
COLUMNS = "columns"
"""The group of the options of single columns."""


class OptionFacts(NamedTuple):
    """`default`: text as in SQL; None if the option is off. `only_with`: the conditions under which the option has an effect."""

    name: str
    group: str
    type: str
    takes: str
    default: str | None
    description: str
    only_with: str | None
    origin: str
    change: str


def reference() -> Iterator[OptionFacts]:
    """All options, by group; options of single columns, with a placeholder for the column, come last."""
    for name, option in OPTIONS.items():
        yield _facts(name, group_of(name), option, option.only, option.change)
    for name in columns.TEMPLATES:
        yield column_facts(name)


def column_facts(name: str) -> OptionFacts:
    """The row of an option of single columns; `name` contains the columns or a placeholder."""
    return _facts(name, COLUMNS, columns.described(name), columns.ONLY, columns.CHANGE)


def _facts(name: str, group: str, option: Option, only: tuple[Only, ...], change: Change) -> OptionFacts:
    needed = ", ".join(" or ".join(map(str, alternatives)) for alternatives in only) or None
    kind, default, origin = option.type, option.type.text(option.default), OWN if option.own else PAIMON
    return OptionFacts(name, group, kind.name, kind.takes, default, option.meaning, needed, origin, change.value)
