"""A table option as data: name, type, default, meaning, origin, the options it needs, and when it can be changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, NamedTuple

from lsmlake.options.option_types import OptionType

Values = Mapping[str, Any]
"""Option name -> its value in effect, of all options of a table."""


class Change(Enum):
    """When an option of a table can be changed."""

    ANY_TIME = "any time"
    REWRITES = "rewrites"
    """The value decides which rows the files represent, so `alter` compacts every bucket in full."""
    WHILE_EMPTY = "while empty"


class Tables(Enum):
    """The tables that have an option."""

    ALL = "all tables"
    KEYED = "tables with a primary key"
    APPEND_ONLY = "append-only tables"

    def include(self, keyed: bool) -> bool:
        return self is Tables.ALL or (self is Tables.KEYED) == keyed


@dataclass(frozen=True)
class When:
    """A condition: the option has one of `values`; without `values`, the option is set."""

    option: str
    values: tuple[object, ...] = ()

    def holds(self, values: Values) -> bool:
        value = values[self.option]
        return value in self.values if self.values else is_set(value)

    def __str__(self) -> str:
        values = [str(value).lower() if isinstance(value, bool) else str(value) for value in self.values]
        return f"{self.option} = {' or '.join(values)}" if values else self.option


Only = tuple[When, ...]
"""A list of conditions of which at least one must hold."""


@dataclass(frozen=True)
class Option:
    """The declaration of an option.

    Args:
        default: the value if the option is not set; None or (): off.
        own: Apache Paimon does not have the option.
        only: conditions that must all hold; otherwise the option has no effect and is refused.
        tables: the tables that have the option. Others refuse it.
        derived: computes the default from the other values, if it depends on them.
        matters: returns the part of the value that decides which rows the files represent; None: the whole value.
    """

    name: str
    type: OptionType[Any]
    default: Any
    meaning: str
    own: bool = False
    change: Change = Change.ANY_TIME
    only: tuple[Only, ...] = ()
    derived: Callable[[Values], Any] | None = None
    matters: Callable[[Values], Any] | None = None
    tables: Tables = Tables.ALL


def option(
    name: str,
    type: OptionType[Any],
    default: Any,
    meaning: str,
    *,
    own: bool = False,
    change: Change = Change.ANY_TIME,
    only: tuple[Only, ...] = (),
    derived: Callable[[Values], Any] | None = None,
    matters: Callable[[Values], Any] | None = None,
    tables: Tables = Tables.ALL,
) -> Any:
    """A dataclass field that holds the value of an `Option`."""
    described = Option(name, type, default, meaning, own, change, only, derived, matters, tables)
    return field(default=default, metadata={"option": described})


class Declared(NamedTuple):
    attribute: str
    option: Option


def options_of(group: type) -> Iterator[Declared]:
    """The options that a dataclass declares as fields. Its `TABLES`, if any, applies to options without `tables`."""
    tables = getattr(group, "TABLES", Tables.ALL)
    for each in fields(group):
        if (option := each.metadata.get("option")) is not None:
            yield Declared(each.name, replace(option, tables=tables) if option.tables is Tables.ALL else option)


def is_set(value: object) -> bool:
    return not (value is None or value is False or value == ())
