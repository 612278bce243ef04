"""Renames columns in options: options name columns by their current names, so renaming a column changes them, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from lsmlake.options.column_options import PREFIX, SEQUENCE_GROUP, SETTINGS, parse_column_option
from lsmlake.options.option_types import column, names
from lsmlake.options.partition_options import pattern, renamed_pattern
from lsmlake.options.table_options import OPTIONS, check_name


class Renaming(NamedTuple):
    """`columns` returns the new name of a column. `inner` returns the new name of a field inside a column, given both names."""

    columns: Callable[[str], str]
    inner: Callable[[str, str], str]


def renamed(options: Mapping[str, str], renaming: Renaming) -> dict[str, str]:
    """Returns valid `options` with renamed columns."""
    return dict(_renamed(name, value, renaming) for name, value in options.items())


def columns_in(name: str, value: object) -> frozenset[str]:
    """Returns the columns in the name or in the value of an option."""
    columns: set[str] = set()
    _renamed(name, value, Renaming(lambda one: columns.add(one) or one, lambda _, inner: inner))
    return frozenset(columns)


def _renamed(name: str, value: object, renaming: Renaming) -> tuple[str, object]:
    if not name.startswith(PREFIX):
        check_name(name, "table options")
        option = OPTIONS.get(name)
        if option is not None and option.type is pattern:
            return name, renamed_pattern(str(value), renaming.columns)
        if option is None or option.type not in (names, column):
            return name, value
        return name, _text(map(renaming.columns, _listed(option.type.parse(name, value, "table options"))))
    given = parse_column_option(name, value, "table options")
    if not given.columns:
        return name, value
    renamed_name = f"{PREFIX}{','.join(map(renaming.columns, given.columns))}.{given.kind}"
    if given.kind == SEQUENCE_GROUP:
        return renamed_name, _text(map(renaming.columns, given.value))
    if any(each.name == given.kind and each.type in (names, column) for each in SETTINGS.values()):
        return renamed_name, _text(renaming.inner(given.columns[0], one) for one in _listed(given.value))
    return renamed_name, value


def _listed(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,)


def _text(names) -> str:
    return ",".join(names)
