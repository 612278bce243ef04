"""From the options `fields.*` of a table to what each column does when rows meet. Raises InvalidOption for what cannot be."""

from __future__ import annotations

import difflib

import pyarrow as pa

from lsmlake.errors import InvalidOption
from lsmlake.lsm.aggregate import FieldSettings, Function, function
from lsmlake.options.fields import AGGREGATE, SEQUENCE_GROUP, FieldOption
from lsmlake.schema.schema import Schema

LAST_NON_NULL = "last_non_null_value"


def aggregates(schema: Schema, where: str) -> dict[str, str]:
    """Column -> the name of its function, of the columns that are given one; key columns are refused."""
    return {
        _column(option, option.columns[0], schema, where): option.value
        for option in schema.parsed_options.fields
        if option.what == AGGREGATE and option.columns
    }


def default_aggregate(schema: Schema) -> str | None:
    return next((o.value for o in schema.parsed_options.fields if o.what == AGGREGATE and not o.columns), None)


def sequence_groups(schema: Schema, where: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Sequence columns -> the columns that follow them. No column is in two groups, none is a key column."""
    groups: dict[tuple[str, ...], tuple[str, ...]] = {}
    owner: dict[str, str] = {}
    for option in schema.parsed_options.fields:
        if option.what != SEQUENCE_GROUP:
            continue
        for name in (*option.columns, *option.value):
            _column(option, name, schema, where)
            if name in owner:
                raise InvalidOption(
                    f"column {name!r} is in two sequence groups, or twice in one",
                    where=where,
                    found=f"{owner[name]} and {option.name}",
                    cure="a column follows one group",
                )
            owner[name] = option.name
        groups[option.columns] = option.value
    return groups


def make(name: str, column: str, schema: Schema, where: str) -> Function:
    """The aggregate function of that name for the column, with the settings the options give it."""
    given = {
        option.what.replace("-", "_"): option.value
        for option in schema.parsed_options.fields
        if option.columns == (column,) and option.what not in (AGGREGATE, SEQUENCE_GROUP)
    }
    field: pa.Field = schema.row_columns.field(column)
    return function(name, field, FieldSettings(**given), f"{where}, column {column!r}" if where else f"column {column!r}")


def check_settings(schema: Schema, functions: set[str], where: str) -> None:
    """Settings of columns without a function would be ignored: refused."""
    for option in schema.parsed_options.fields:
        if option.what in (AGGREGATE, SEQUENCE_GROUP):
            continue
        name = _column(option, option.columns[0], schema, where)
        if name not in functions:
            raise InvalidOption(
                f"option {option.name!r} is for a column with an aggregate function",
                where=where,
                expected=f"fields.{name}.{AGGREGATE}",
                found="none",
                cure="name the function, or leave the option out",
            )


def _column(option: FieldOption, name: str, schema: Schema, where: str) -> str:
    names = schema.plain_columns.names
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        raise InvalidOption(
            f"option {option.name!r} names no column",
            where=where,
            expected=f"some of {names}",
            found=repr(name),
            cure=f"did you mean {near[0]!r}?" if near else "correct the name",
        )
    if name in schema.primary_key:
        raise InvalidOption(
            f"option {option.name!r} names a key column",
            where=where,
            found=repr(name),
            cure="the key is the same in all rows that meet: name columns outside of it",
        )
    return name
