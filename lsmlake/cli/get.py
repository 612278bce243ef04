"""The command that prints the row of a key. It loads no verbs, so that a look into a table takes no longer than a listing."""

from __future__ import annotations

import json

import pyarrow as pa

from lsmlake.cli.argument_reading import pairs
from lsmlake.cli.command_maker import CommandResult
from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.read.fallback import with_fallback
from lsmlake.read.point import rows_of_keys
from lsmlake.report.rows import Rows
from lsmlake.schema.conform import Cast, conform
from lsmlake.schema.schema import Schema
from lsmlake.schema.values import json_rows, row_text
from lsmlake.tables.version import Metadata, Version
from lsmlake.types.type_text import format_type_of


def get(table: Metadata, key: list[str]) -> CommandResult:
    """Print the row of a key.

    The exit code is 1 if there is none. Times without a zone are in UTC.

    Args:
        key (KEY): COLUMN=VALUE for each column of the primary key, or all of it as JSON: '{"id": 7}'.
    """
    version = with_fallback(Version.latest(table))
    if version.schema.append_only:
        cure = "use `lsmlake head TABLE --where CONDITION`"
        raise InvalidQuery("the table has no primary key", where=table.paths.root, cure=cure)
    keys = _key(key, version.schema)
    rows = rows_of_keys(version, keys)
    if not rows.num_rows:
        return CommandResult(None, (), [f"{table.paths.root} has no row {row_text(keys)}"])
    return CommandResult(next(json_rows(rows)), Rows(rows))


def _key(written: list[str], schema: Schema) -> pa.Table:
    """The key as a table of one row, in the types of its columns. Raises InvalidQuery."""
    types = ", ".join(f"{name} {format_type_of(schema.columns.field(name))}" for name in schema.primary_key)
    form = " ".join(f"{name}=..." for name in schema.primary_key)
    is_json = len(written) == 1 and written[0].lstrip().startswith("{")
    values = _object(written[0]) if is_json else pairs(written, "COLUMN=VALUE", as_written=True)
    names = [name for name, _ in values]
    if sorted(names) != sorted(schema.primary_key):
        raise InvalidQuery("not a key of this table", expected=types, found=" ".join(written), cure=f"write {form}")
    try:
        texts = pa.table([pa.array([value], pa.string()) for _, value in values], names)
        return conform(texts, schema, schema.primary_key, cast=Cast("UTC"))
    except InvalidData as unfit:
        column = unfit.where.partition(",")[0]  # without the number of the row
        raise InvalidQuery(unfit.what, where=column, expected=types, found=unfit.found, cure=f"write {form}") from unfit
    except pa.ArrowTypeError as nested:
        what = "a value is neither a text nor a number"
        raise InvalidQuery(what, expected=types, found=" ".join(written), cure=f"write {form}") from nested


def _object(text: str) -> list[tuple[str, str]]:
    """The members of a JSON object, numbers as they are written."""
    try:
        return json.loads(text, object_pairs_hook=list, parse_int=str, parse_float=str, parse_constant=str)
    except ValueError as broken:
        cure = "put names and texts in double quotes, and the whole in single quotes for the shell"
        raise InvalidQuery("the key is not JSON", expected='{"COLUMN": VALUE}', found=f"{text} ({broken})", cure=cure) from broken
