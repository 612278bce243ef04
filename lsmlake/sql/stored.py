"""The columns of a table as DuckDB selects them from files that were written under an older schema."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lsmlake.dialect.types import duck_name, quoted, text
from lsmlake.schema.adapt import is_evolved
from lsmlake.schema.defaults import INITIAL, default_of
from lsmlake.schema.schema import Schema
from lsmlake.schema.types import field_id, plain


def selection(stored: Schema, wanted: Schema, columns: Sequence[str]) -> tuple[str, ...] | None:
    """What to select from a file written under `stored`, one item for each of `columns` of `wanted`; None if a nested column has
    changed. Columns are matched by field id."""
    ours = {field_id(field): field for field in stored.columns}
    items = []
    for name in columns:
        field = wanted.columns.field(name)
        old = ours.get(field_id(field))
        if old is None:
            made = constant(field)
        elif not is_evolved(old.type, field.type):
            made = quoted(old.name)
        elif pa.types.is_nested(field.type):
            return None
        else:
            made = f"CAST({quoted(old.name)} AS {duck_name(plain(field.type))})"  # types only widen
        items.append(f"{made} AS {quoted(field.name)}")
    return tuple(items)


def constant(field: pa.Field) -> str:
    """The value of a column that a file lacks: its initial default, or null."""
    default, name = default_of(field, INITIAL), duck_name(plain(field.type))
    if default is None or not default.is_valid:
        return f"CAST(NULL AS {name})"
    if pa.types.is_timestamp(field.type):
        call = "make_timestamptz" if field.type.tz else "make_timestamp"
        return f"{call}({default.cast(pa.int64()).as_py()})"
    value = default.as_py()
    if isinstance(value, bytes):
        return f"unhex('{value.hex()}')"
    return f"CAST({text(str(value))} AS {name})"
