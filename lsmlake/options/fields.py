"""The options of single columns: `fields.<columns>.<what>`, names and values as in Apache Paimon.

fields.<column>.aggregate-function, .ignore-retract, and the settings of that function
fields.<column[,column]>.sequence-group   the columns that follow these sequence columns
fields.default-aggregate-function
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from lsmlake.errors import InvalidOption
from lsmlake.options.types import boolean, integer, names, one_of, parsed, text

PREFIX = "fields."
AGGREGATE, SEQUENCE_GROUP, DEFAULT_AGGREGATE = "aggregate-function", "sequence-group", "default-aggregate-function"


def _delimiter(value: object) -> str:
    return str(value)


_delimiter.expected = "any text"

_WHAT: Mapping[str, Callable[[object], object]] = {
    AGGREGATE: text,
    SEQUENCE_GROUP: names,
    "ignore-retract": boolean,
    "list-agg-delimiter": _delimiter,
    "distinct": boolean,
    "nested-key": names,
    "nested-key-null-strategy": one_of("merge", "ignore", "error"),
    "nested-sequence-field": names,
    "count-limit": integer(1),
    "ts-field": text,
    "overflow": one_of("error", "null"),
}


class FieldOption(NamedTuple):
    """`columns`: whom it concerns, none = all that have no function of their own. `name`: the option in full."""

    name: str
    columns: tuple[str, ...]
    what: str
    value: object


def parse_field_option(name: str, value: object, where: str) -> FieldOption:
    """The option `fields. ...` of that name. Raises InvalidOption."""
    if name == PREFIX + DEFAULT_AGGREGATE:
        return FieldOption(name, (), AGGREGATE, parsed(name, text, value, where))
    columns, _, what = name.removeprefix(PREFIX).rpartition(".")
    if what not in _WHAT or not columns:
        near = difflib.get_close_matches(what, _WHAT, n=1, cutoff=0.6)
        raise InvalidOption(
            f"unknown option {name!r}",
            where=where,
            expected="fields.<column>." + " or .".join(_WHAT),
            cure=f"did you mean .{near[0]}?" if near else "correct the name",
        )
    named = tuple(column.strip() for column in columns.split(","))
    if what != SEQUENCE_GROUP and len(named) > 1:
        raise InvalidOption(
            f"option {name!r} names several columns", where=where, expected="one", found=list(named), cure="one option a column"
        )
    return FieldOption(name, named, what, parsed(name, _WHAT[what], value, where))
