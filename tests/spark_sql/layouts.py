"""Writes given rows as a table whose files have a past, which a seed decides: several snapshots, rows that were deleted or
replaced, level 0, columns that were renamed and dropped, partitions."""

from __future__ import annotations

import random
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

import lsmlake
from lsmlake import Lake, Table

_GONE = "gone_"
"""A column that marks rows which are deleted; then it is dropped."""
_PARTITIONS_MAX = 8
_PARTITION_TYPES = (pa.int32(), pa.int64(), pa.string(), pa.date32(), pa.bool_())


def write(lake: Lake, name: str, rows: pa.Table, seed: int) -> Table:
    """A new table of these rows. Raises LakeError for columns that no table can have."""
    dice = random.Random(crc32(f"{seed} {name}".encode()))
    key = _key(rows, dice)
    partitions = _partitions(rows, key, dice)
    renamed = {one: f"{one}_old" for one in rows.column_names if one not in (*key, *partitions) and dice.random() < 0.3}
    columns = pa.schema([pa.field(renamed.get(one.name, one.name), one.type, one.name not in key) for one in rows.schema])
    columns = columns.append(pa.field(_GONE, pa.int32()))
    options = {"bucket": dice.choice((1, 2, 4))} if key else {}
    table = lake.create_table(name, columns, primary_key=key, partition_by=partitions, options=options)
    first, rest = rows.slice(0, rows.num_rows // 2), rows.slice(rows.num_rows // 2)
    if dice.random() < 0.7:
        _put(table, _marked(rows, renamed, 1), bool(key))  # under a key these rows are replaced, unless they are deleted before
        if dice.random() < 0.5 or not key:
            table.delete(f"{_GONE} = 1")
    _put(table, _marked(first, renamed, 0), bool(key))
    table.alter(*(lsmlake.rename_column(old, new) for new, old in renamed.items()), lsmlake.drop_column(_GONE))
    _put(table, rest, bool(key), compact=dice.random() < 0.5)
    return table


def _key(rows: pa.Table, dice: random.Random) -> tuple[str, ...]:
    """The first column if it can be a key, else none: a table of appended rows."""
    if not rows.num_columns or not rows.num_rows or dice.random() < 0.2:
        return ()
    column = rows.column(0)
    plain = pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_date(column.type)
    unique = plain and not column.null_count and pc.count_distinct(column).as_py() == rows.num_rows
    return (rows.column_names[0],) if unique else ()


def _partitions(rows: pa.Table, key: tuple[str, ...], dice: random.Random) -> tuple[str, ...]:
    few = [
        one
        for one, column in zip(rows.column_names, rows.columns, strict=True)
        if column.type in _PARTITION_TYPES and pc.count_distinct(column).as_py() <= _PARTITIONS_MAX
    ]
    return (dice.choice(few),) if few and not key and rows.num_columns > 1 and dice.random() < 0.4 else ()


def _marked(rows: pa.Table, renamed: dict[str, str], gone: int) -> pa.Table:
    marks = pa.array([gone] * rows.num_rows, pa.int32())
    return rows.rename_columns([renamed.get(one, one) for one in rows.column_names]).append_column(_GONE, marks)


def _put(table: Table, rows: pa.Table, keyed: bool, compact: bool = True) -> None:
    if keyed:
        table.upsert(rows, compact=compact)
    else:
        table.append(rows)
