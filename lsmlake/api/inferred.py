"""The columns of a new table, inferred from the data that is to be loaded into it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pyarrow as pa

from lsmlake.api.runtime import Runtime
from lsmlake.api.types import Data
from lsmlake.errors import InvalidData, InvalidSchema, Wording
from lsmlake.inputs.data import Input, as_input
from lsmlake.inputs.text_files import FileOptions
from lsmlake.schema import rowkind
from lsmlake.schema.from_data import schema_from


def with_columns(
    runtime: Runtime, data: Data | Input, primary_key: Sequence[str], kinds: rowkind.Source | None, options: FileOptions
) -> tuple[pa.Schema, Data | Input]:
    """The columns of a table for `data`, and the data to load. `options`: how text files are read."""
    if runtime.owns(data):
        options.check((), "", "a DataFrame")
        return schema_from(_without(runtime.columns_of(data.schema), kinds)), data
    given = as_input(data, inferred=True, options=options)
    first = next(given.tables, None)
    if first is None or not first.num_columns:
        raise InvalidData(
            "the data has no columns",
            expected="data with the columns of the table",
            cure="create the table with a schema",
        )
    columns = schema_from(_without(first.schema, kinds))
    if given.guessed:
        _check_guessed_key(columns, primary_key)
    return columns, given._replace(tables=chain([first], given.tables))


def _without(columns: pa.Schema, kinds: rowkind.Source | None) -> pa.Schema:
    return pa.schema([field for field in columns if kinds is None or field.name != kinds.column])


def _check_guessed_key(columns: pa.Schema, primary_key: Sequence[str]) -> None:
    """Raises InvalidSchema for a key column whose texts look like DOUBLE: rounding could make two keys equal."""
    for column in columns:
        if column.name in primary_key and pa.types.is_floating(column.type):
            raise InvalidSchema(
                "the numbers of a key column have fractions or exponents",
                where=f"column {column.name!r}",
                expected="integers or text: the values look like DOUBLE, and rounding could make two keys equal",
                cure=Wording(
                    "create the table with a schema, such as DECIMAL(20,2) or STRING for the column, then upsert the files",
                    command="create the table in a program with a schema, then load without --create",
                ),
            )
