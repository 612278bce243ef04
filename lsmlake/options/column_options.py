"""The options of single columns, `fields.<columns>.<last part>`, names and values as in Apache Paimon.

fields.<column>.aggregate-function, .ignore-retract, and the settings of that function
fields.<column[,column]>.sequence-group   the columns that follow these sequence columns
fields.default-aggregate-function
fields.<column>.stats-mode                what manifests keep of the column
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

from lsmlake.errors import InvalidOption
from lsmlake.options.merge_options import AGGREGATION, PARTIAL_UPDATE
from lsmlake.options.option import Change, Option, When, option, options_of
from lsmlake.options.option_types import any_text, boolean, column, integer, names, one_of, stats_mode, text

PREFIX = "fields."
FUNCTION, SEQUENCE_GROUP, DEFAULT_FUNCTION = "aggregate-function", "sequence-group", "default-aggregate-function"
STATS = "stats-mode"
MERGE, IGNORE, ERROR, NULL = "merge", "ignore", "error", "null"


@dataclass(frozen=True)
class FieldSettings:
    """The settings of the aggregate function of a column."""

    ignore_retract: bool = option("ignore-retract", boolean, False, "-U and -D rows do not change the column")
    list_agg_delimiter: str = option("list-agg-delimiter", any_text, ",", "listagg: the text between two values")
    distinct: bool = option("distinct", boolean, False, "listagg, collect: leave out values that are there already")
    nested_key: tuple[str, ...] = option("nested-key", names, (), "nested_update, nested_partial_update: the key of the structs")
    nested_key_null_strategy: str = option(
        "nested-key-null-strategy",
        one_of(MERGE, IGNORE, ERROR),
        MERGE,
        "nested_update, nested_partial_update: a struct with a null in its key is merged, ignored or refused",
    )
    nested_sequence_field: tuple[str, ...] = option(
        "nested-sequence-field", names, (), "nested_update: the fields that order structs of one key"
    )
    count_limit: int | None = option("count-limit", integer(1), None, "nested_update: most structs that are taken; default: all")
    ts_field: str | None = option(
        "ts-field", column, None, "merge_map_with_keytime: the field of a value that orders it; default: the last field"
    )
    overflow: str = option(
        "overflow",
        one_of(ERROR, NULL),
        ERROR,
        "a result beyond the type of the column is refused, or becomes null row by row",
        own=True,
    )

    def given(self) -> tuple[str, ...]:
        """The names of the settings that are not at their default."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) != field.default)


SETTINGS: Mapping[str, Option] = {attribute: setting for attribute, setting in options_of(FieldSettings)}
"""Attribute of `FieldSettings` -> the option by the last part of its name."""

_ONLY = ((When("merge-engine", (PARTIAL_UPDATE, AGGREGATION)),),)
_MERGING = (
    Option(FUNCTION, text, None, "the aggregate function of the column"),
    Option(SEQUENCE_GROUP, names, (), "partial-update: the columns that follow these sequence columns"),
    *SETTINGS.values(),
)
_KINDS: Mapping[str, Option] = {
    **{each.name: replace(each, only=_ONLY, change=Change.REWRITES) for each in _MERGING},
    STATS: Option(STATS, stats_mode, None, "metadata.stats-mode for the column"),
}
_ATTRIBUTES = {setting.name: attribute for attribute, setting in SETTINGS.items()}
_DEFAULT = Option(
    PREFIX + DEFAULT_FUNCTION,
    text,
    None,
    "the aggregate function of columns without one of their own",
    only=_ONLY,
    change=Change.REWRITES,
)
TEMPLATES = (
    _DEFAULT.name,
    *(f"{PREFIX}<column{',...' if kind == SEQUENCE_GROUP else ''}>.{kind}" for kind in _KINDS),
)
"""The names of these options, with a place for the columns."""


class ColumnOption(NamedTuple):
    """`name`: the full name of the option. `columns`: the columns it applies to; empty: all columns without their own
    function."""

    name: str
    columns: tuple[str, ...]
    kind: str
    value: Any


@dataclass(frozen=True)
class ColumnOptions:
    """The options of single columns, in the order given."""

    given: tuple[ColumnOption, ...] = ()

    @cached_property
    def merging(self) -> ColumnOptions:
        """Those that decide how rows of a key are merged."""
        return ColumnOptions(tuple(each for each in self.given if each.kind != STATS))

    @cached_property
    def stats_modes(self) -> dict[str, str]:
        """Column -> its own mode of statistics."""
        return {each.columns[0]: each.value for each in self.given if each.kind == STATS}

    @cached_property
    def functions(self) -> dict[str, str]:
        """Column -> the name of its aggregate function, for columns with a function of their own."""
        return {each.columns[0]: each.value for each in self.given if each.kind == FUNCTION and each.columns}

    @cached_property
    def default_function(self) -> str | None:
        return next((each.value for each in self.given if each.kind == FUNCTION and not each.columns), None)

    @cached_property
    def sequence_groups(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        """Sequence columns -> the columns that follow them."""
        return {each.columns: each.value for each in self.given if each.kind == SEQUENCE_GROUP}

    def settings(self, column: str) -> FieldSettings:
        own = {each.kind: each.value for each in self.given if each.columns == (column,)}
        return FieldSettings(**{_ATTRIBUTES[kind]: value for kind, value in own.items() if kind in _ATTRIBUTES})

    def check_columns(self, columns: Sequence[str], primary_key: Sequence[str], where: str) -> None:
        """Checks that the columns exist, and are not key columns and in at most one sequence group if they have options about
        merging. Raises InvalidOption."""
        owner: dict[str, str] = {}
        for each in self.given:
            grouped = each.kind == SEQUENCE_GROUP
            for name in (*each.columns, *each.value) if grouped else each.columns:
                _check_column(each, name, columns, primary_key, where)
                if grouped and name in owner:
                    raise InvalidOption(
                        f"column {name!r} is in two sequence groups, or twice in one",
                        where=where,
                        found=f"{owner[name]} and {each.name}",
                        cure="name each column in one group, once",
                    )
                if grouped:
                    owner[name] = each.name

    def check_settings(self, functions: Collection[str], where: str) -> None:
        """Checks that columns with settings have an aggregate function. Raises InvalidOption."""
        for each in self.given:
            if each.kind in _ATTRIBUTES and each.columns[0] not in functions:
                raise InvalidOption(
                    f"option {each.name!r} is for a column with an aggregate function",
                    where=where,
                    expected=f"{PREFIX}{each.columns[0]}.{FUNCTION}",
                    found="none",
                    cure="name the function, or leave the option out",
                )


def _check_column(given: ColumnOption, name: str, columns: Sequence[str], primary_key: Sequence[str], where: str) -> None:
    if name not in columns:
        near = difflib.get_close_matches(name, columns, n=1)
        raise InvalidOption(
            f"option {given.name!r} names no column",
            where=where,
            expected=f"some of {list(columns)}",
            found=repr(name),
            cure=f"did you mean {near[0]!r}?" if near else "correct the name",
        )
    if name in primary_key and given.kind != STATS:
        raise InvalidOption(
            f"option {given.name!r} names a key column",
            where=where,
            found=repr(name),
            cure="name columns outside of the key: the rows of one key have the same key columns",
        )


def described(name: str) -> Option:
    """The option of this name, regardless of the columns in it."""
    return _DEFAULT if name == _DEFAULT.name else _KINDS[name.rpartition(".")[2]]


def is_about_merging(name: str) -> bool:
    """Whether a name is that of an option of single columns which only tables with a primary key can have."""
    return name.startswith(PREFIX) and not name.endswith(f".{STATS}")


def parse_column_option(name: str, value: object, where: str) -> ColumnOption:
    """Parses an option whose name begins with `fields.`. Raises InvalidOption."""
    if name == _DEFAULT.name:
        return ColumnOption(name, (), FUNCTION, _DEFAULT.type.parse(name, value, where))
    columns, _, kind = name.removeprefix(PREFIX).rpartition(".")
    if kind not in _KINDS or not columns:
        near = difflib.get_close_matches(kind, _KINDS, n=1, cutoff=0.6)
        raise InvalidOption(
            f"unknown option {name!r}",
            where=where,
            expected="fields.<column>." + " or .".join(_KINDS),
            cure=f"did you mean .{near[0]}?" if near else "correct the name",
        )
    named = tuple(column.strip() for column in columns.split(","))
    if kind != SEQUENCE_GROUP and len(named) > 1:
        raise InvalidOption(
            f"option {name!r} names several columns",
            where=where,
            expected="one",
            found=list(named),
            cure="set the option once for each column",
        )
    return ColumnOption(name, named, kind, _KINDS[kind].type.parse(name, value, where))
