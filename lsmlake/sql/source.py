"""The rows of a plan as a view of DuckDB, which reads the Parquet files itself.

1. The level-0 rows of each bucket are merged in memory (`read.scan.freshen`). They are an Arrow table; the older rows that they
   supersede join the vectors of their files.
2. The files of one schema become one `read_parquet` call (`sql.stored` has the columns). DuckDB numbers files and rows. Per file
   one bitmap says which rows are dead, and `get_bit` leaves them out. Files without dead rows have a bitmap of zeros, because
   DuckDB plans joins of one scan better than those of a UNION; very many rows without dead ones are a scan of their own.
3. Files with other nested columns, sections that must be merged and storages that are not local are read by `read.scan` as a
   stream.

DuckDB applies the filters of the statement to all three. It does not check the checksums of data files.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.api.readable import Readable
from lsmlake.dialect.types import quoted, text
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.files import DataFile
from lsmlake.read.plan import Plan, Split
from lsmlake.read.scan import Fresh, finished, freshen, output_schema, read_plan
from lsmlake.sql.stored import selection
from lsmlake.store.local import LocalStorage
from lsmlake.store.together import ahead

_ZERO_ROWS_MAX = 1 << 28
"""Rows whose bitmaps of zeros are 32 MB."""
_PATTERN_CHARACTERS = frozenset("*?[]{}\\")


class Direct(NamedTuple):
    """A file that DuckDB reads, its dead rows, and what to select from it for each column of the plan."""

    path: str
    rows: int
    dead: DeletionVector
    select: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """How the rows of a plan are read: `direct` by DuckDB, `level0` from memory, and `streamed` by PyArrow."""

    plan: Plan
    direct: tuple[Direct, ...]
    level0: tuple[pa.Table, ...]
    streamed: Plan

    def describe(self) -> list[str]:
        """What EXPLAIN says about it."""
        masked = [file for file in self.direct if file.dead]
        dead = sum(file.dead.cardinality for file in masked)
        lines = [f"duckdb    {len(self.direct)} files, {dead:,} dead rows left out in {len(masked)} of them"]
        if self.streamed.files:
            lines.append(f"arrow     {self.streamed.files} files")
        if self.level0:
            lines.append(f"level 0   {sum(table.num_rows for table in self.level0):,} rows, merged in memory")
        return lines


class _Stream(Readable):
    """The rows that PyArrow reads, again for each scan of the view."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def to_batches(self) -> pa.RecordBatchReader:
        batches = (batch for table in read_plan(self.plan) for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(output_schema(self.plan), batches)


def source_of(plan: Plan) -> Source:
    """Finds the dead rows of all files, and merges the rows at level 0."""
    version = plan.version
    direct: list[Direct] = []
    level0: list[pa.Table] = []
    streamed: list[Split] = []
    with version.unless_expired():
        schemas = {file.schema_id for split in plan.splits for file in split.files}
        selections = {number: selection(version.meta.schemas.get(number), plan.schema, plan.columns) for number in schemas}
        chosen = {number: _readable(plan, split, selections) for number, split in enumerate(plan.splits)}
        taken = (_freshened(plan, number) for number, files in chosen.items() if files is not None)
        fresh_of = dict(ahead(taken, version.meta.env.workers))
    for number, split in enumerate(plan.splits):
        files, fresh = chosen[number], fresh_of.get(number)
        if files is None or fresh is None:
            streamed.append(split)
            continue
        root = version.meta.env.storage.root
        paths = map(version.meta.paths.data, files)
        direct += [
            Direct(f"{root}/{path}", file.rows, fresh.dead[file.name], selections[file.schema_id])
            for path, file in zip(paths, files, strict=True)
        ]
        if fresh.rows is not None and fresh.rows.num_rows:
            level0.append(finished(fresh.rows, plan))
        if len(files) < len(split.files):
            names = {file.name for file in files}
            streamed.append(replace(split, files=tuple(file for file in split.files if file.name not in names)))
    return Source(plan, tuple(direct), tuple(level0), replace(plan, splits=tuple(streamed)))


def _freshened(plan: Plan, number: int) -> Generator[tuple[int, Fresh]]:
    split = plan.splits[number]
    yield number, freshen(plan.version.files(split.bucket), plan, split, plan.needed)


def _readable(plan: Plan, split: Split, selections: Mapping[int, tuple[str, ...] | None]) -> tuple[DataFile, ...] | None:
    """The files of a split that DuckDB reads; None if PyArrow reads the whole split."""
    meta = plan.version.meta
    if split.merged or not isinstance(meta.env.storage, LocalStorage):
        return None
    root = set(meta.env.storage.root + meta.paths.root)
    found = tuple(
        file
        for file in split.files
        if selections[file.schema_id] is not None
        and not file.delete_rows
        and not _PATTERN_CHARACTERS & {*root, *file.directory, *file.name}
    )
    return None if split.level0 and len(found) < len(split.files) else found  # the stream would merge level 0 once more


def create_view(connection, name: str, source: Source) -> None:
    """Makes the view `name` with the columns of the plan."""
    columns = ", ".join(map(quoted, source.plan.columns))
    parts = []
    by_schema: dict[tuple[str, ...], list[Direct]] = {}
    for file in source.direct:
        by_schema.setdefault(file.select, []).append(file)
    for number, (select, files) in enumerate(by_schema.items()):
        parts += _scans(connection, f"{name}_{number}", columns, ", ".join(select), files)
    if source.level0:
        connection.register(f"{name}_level0", pa.concat_tables(source.level0))
        parts.append(f"SELECT {columns} FROM {name}_level0")
    if source.streamed.splits:
        connection.register(f"{name}_stream", _Stream(source.streamed))
        parts.append(f"SELECT {columns} FROM {name}_stream")
    if not parts:
        connection.register(f"{name}_none", output_schema(source.plan).empty_table())
        parts.append(f"SELECT {columns} FROM {name}_none")
    connection.execute(f"CREATE TEMP VIEW {name} AS {' UNION ALL '.join(parts)}")


def _scans(connection, name: str, columns: str, select: str, files: Sequence[Direct]) -> list[str]:
    """Queries over the live rows of files of one schema."""
    masked, clean = [file for file in files if file.dead], [file for file in files if not file.dead]
    if masked and sum(file.rows for file in clean) <= _ZERO_ROWS_MAX:
        masked, clean = list(files), []
    parts = [f"SELECT {select} FROM {_parquet(clean)}"] if clean else []
    if masked:
        bitmaps = pa.table(
            {"file": pa.array(range(len(masked)), pa.int64()), "dead": pa.array(map(_bitmap, masked), pa.binary())}
        )
        connection.register(f"{name}_bitmaps", bitmaps)
        connection.execute(
            f"CREATE TEMP TABLE {name}_dead AS SELECT list(CAST(dead AS BIT) ORDER BY file) AS files FROM {name}_bitmaps"
        )
        rows = f'(SELECT {select}, file_index AS "#file", file_row_number AS "#row" FROM {_parquet(masked)})'
        live = 'get_bit(dead.files[CAST("#file" AS BIGINT) + 1], CAST("#row" AS INTEGER)) = 0'
        parts.append(f"SELECT {columns} FROM {rows}, {name}_dead AS dead WHERE {live}")
    return parts


def _parquet(files: Sequence[Direct]) -> str:
    return f"read_parquet([{', '.join(text(file.path) for file in files)}], hive_partitioning = false)"


def _bitmap(file: Direct) -> bytes:
    """The dead rows of a file as the bytes of a BIT: the first byte counts unused bits, here none, so casts from BLOB omit it."""
    return np.packbits(file.dead.dead_mask(0, file.rows)).tobytes()
