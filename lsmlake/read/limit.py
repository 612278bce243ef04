"""The first rows of a read: in any order, or in the order of the primary key.

In any order, files that a limit does not need are dropped from the plan, and the read stops after enough rows. In the order
of the key:

1. The rows of a file lie between its first and its last key. If some files surely hold enough rows, the first rows lie before the
   last of their keys, and files that begin later are left out. This reads metadata only.
2. The other files are read in the order of their first keys, until the next file begins after the last row found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidQuery
from lsmlake.format.data_files import Bucket
from lsmlake.read.aggregate_pushdown import decided_files
from lsmlake.read.arrow_scan import output_schema, read_split
from lsmlake.read.plan import Plan, Split


def limited(plan: Plan, limit: int) -> Plan:
    """Returns the plan with the first splits that certainly hold `limit` rows. With a predicate all splits are kept."""
    if plan.predicate is not None:
        return plan
    kept, rows = [], 0
    for split in plan.splits:
        if rows >= limit:
            break
        split = _first_files(split, limit - rows) if not split.level0 and not split.merged else split
        rows += _rows_at_least(split)
        kept.append(split)
    remaining = replace(plan, splits=tuple(kept))
    return replace(remaining, pruned=(*plan.pruned, (f"limit {limit}", remaining.files)))


def first_rows(tables: Iterator[pa.Table], limit: int) -> Iterator[pa.Table]:
    """Yields the first `limit` rows, then stops reading."""
    for table in tables:
        if limit <= 0:
            return
        yield table.slice(0, min(limit, table.num_rows))  # Arrow rejects lengths of more than 64 bits
        limit -= table.num_rows
        if limit <= 0:
            return


def _first_files(split: Split, rows: int) -> Split:
    kept = []
    for file in split.files:
        if rows <= 0:
            break
        kept.append(file)
        rows -= file.rows - _dead(split, file.name)
    names = {file.name for file in kept}
    return replace(split, files=tuple(kept), vectors={name: ref for name, ref in split.vectors.items() if name in names})


def _rows_at_least(split: Split) -> int:
    """A lower bound without reading: each level-0 row supersedes at most one row of the files."""
    live = sum(file.rows - _dead(split, file.name) for file in split.files)
    return max(0, live - sum(file.rows for file in split.level0))


def _dead(split: Split, name: str) -> int:
    return split.vectors[name].cardinality if name in split.vectors else 0


# -- in the order of the key ------------------------------------------------------------------------------------------

KeyOrder = Literal["asc", "desc"]
"""The order of keys: nulls of partition columns come first in ascending order, as in Spark."""


class _Descending(tuple):
    """A tuple with inverted comparison, for a descending order."""

    __lt__, __le__, __gt__, __ge__ = tuple.__gt__, tuple.__ge__, tuple.__lt__, tuple.__le__


class _ReadUnit(NamedTuple):
    """Files that are read together: one file, or the files of a split that must be merged. In the order asked for, their rows lie
    between `first` and `last`; they hold at least `rows` rows."""

    split: Split
    first: tuple
    last: tuple
    rows: int


def check_has_key(plan: Plan) -> None:
    """Raises InvalidQuery if the table has no key to order rows by."""
    if plan.schema.append_only:
        raise InvalidQuery(
            "order_by_key needs a primary key",
            where=plan.version.meta.paths.root,
            found="an append-only table",
            cure="read the rows without an order and sort them",
        )


def files_of_first_rows(plan: Plan, limit: int, order: KeyOrder) -> Plan:
    """Returns the plan with the files that may hold the first `limit` rows, by their first keys. Reads metadata only. Raises
    InvalidQuery if the table has no key."""
    check_has_key(plan)
    decided = None if plan.predicate is None else decided_files(plan)
    units, rows, edge = list(_units(plan, order, decided)), 0, None
    for unit in sorted(units, key=lambda unit: unit.last):
        rows += unit.rows
        if rows >= limit:
            edge = unit.last
            break
    kept = [unit for unit in units if edge is None or unit.first <= edge]
    kept.sort(key=lambda unit: unit.first)
    remaining = replace(plan, splits=tuple(unit.split for unit in kept))
    return replace(remaining, pruned=(*plan.pruned, (f"first {limit} by key", remaining.files)))


def first_rows_by_key(plan: Plan, limit: int, order: KeyOrder) -> pa.Table:
    """Reads the first `limit` rows, in order. Memory: these rows, and a row group or the rows of a split that must be merged.
    Raises InvalidQuery if the table has no key."""
    check_has_key(plan)
    key = plan.schema.primary_key
    wide = replace(plan, columns=(*plan.columns, *(name for name in key if name not in plan.columns)))
    best, last = output_schema(wide).empty_table(), None
    for unit in sorted(_units(plan, order, frozenset()), key=lambda unit: unit.first):
        if last is not None and last <= unit.first:
            break
        for part in _first_of(wide, unit.split, limit, order):
            rows = pa.concat_tables([best, part])
            best = rows.take(_sorted(rows, key, order)[:limit])
        if best.num_rows == limit > 0:
            last = _rank(best.select(key).slice(limit - 1).to_pylist()[0].values(), order)
    return best.select(list(plan.columns))


def _first_of(plan: Plan, split: Split, limit: int, order: KeyOrder) -> Iterator[pa.Table]:
    """Yields the rows of a unit. A sorted file is stored in key order, so its read stops after `limit` rows."""
    rows, in_order = 0, not split.level0 and not split.merged and all(file.sorted for file in split.files)
    for table in read_split(plan, split, backwards=order == "desc"):
        yield table
        rows += table.num_rows
        if rows >= limit and in_order:
            return


def _units(plan: Plan, order: KeyOrder, decided: Collection[str] | None) -> Iterator[_ReadUnit]:
    """Yields the read units of a plan. `decided`: the files whose rows all match the predicate; None: all files."""
    for split in plan.splits:
        if split.level0 or split.merged:  # how many rows a merge leaves is not known
            files = (*split.files, *split.level0, *split.merged)
            ends = [_key(plan, split.bucket, key, order) for file in files for key in (file.min_key, file.max_key)]
            yield _ReadUnit(split, min(ends), max(ends), 0)
            continue
        for file in split.files:
            vectors = {file.name: split.vectors[file.name]} if file.name in split.vectors else {}
            ends = [_key(plan, split.bucket, key, order) for key in (file.min_key, file.max_key)]
            rows = file.rows - sum(ref.cardinality for ref in vectors.values())
            sure = decided is None or file.name in decided
            yield _ReadUnit(replace(split, files=(file,), vectors=vectors), min(ends), max(ends), rows if sure else 0)


def _key(plan: Plan, bucket: Bucket, key: tuple, order: KeyOrder) -> tuple:
    """The primary key of a row, from its partition and its key in the bucket, in a form that sorts in the order asked for."""
    schema = plan.schema
    fields = zip(schema.partition_columns_of(bucket.spec), bucket.partition, strict=True)
    values = {field.column: value for field, value in fields} | dict(zip(schema.key, key, strict=True))
    return _rank([values[name] for name in schema.primary_key], order)


def _rank(values: Iterable[object], order: KeyOrder) -> tuple:
    ranked = ((value is not None, value) for value in values)
    return tuple(ranked) if order == "asc" else _Descending(ranked)


def _sorted(rows: pa.Table, key: tuple[str, ...], order: KeyOrder) -> pa.Array:
    direction = "ascending" if order == "asc" else "descending"
    # PyArrow's place for nulls is an option that changed its form, so a column says where they are
    validity = {f"_{i}": rows[name].is_valid() for i, name in enumerate(key)}
    columns = {f"{i}": rows[name] for i, name in enumerate(key)} | validity
    return pc.sort_indices(
        pa.table(columns), sort_keys=[(f"{sign}{i}", direction) for i in range(len(key)) for sign in ("_", "")]
    )
