"""Reads many small files in Python tasks, several files together.

Spark takes 0.3 to 0.5 ms to open a Parquet file, more than to read a thousand rows. A task decodes a small file of a few columns
in 0.1 ms, and masks, converts and sends the rows of many files at once (`read.arrow_scan.read_joined`).

The DataFrame begins with a row for each partition: the values of the partition columns, and the files. A function makes the rows
of a partition from its files. So Spark's filters on partition columns leave partitions out before their files are read, as they
leave out directories in a scan of Catalyst. Other filters are applied to all rows, and all columns are decoded. A task holds all
of its rows in memory. That, and Spark's estimate of the size of the DataFrame, which counts a row for each partition, hardly
matter while the files are as small, in bytes and in rows, as `chosen` demands.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as st

from lsmlake.format.data_files import DataFile
from lsmlake.read.arrow_scan import read_joined
from lsmlake.read.plan import AllSplits, Plan, Split
from lsmlake.schema.schema import RESERVED
from lsmlake.spark import task_reads
from lsmlake.spark.frame_types import lengths, of_tasks, to_spark
from lsmlake.types.type_table import column_type
from lsmlake.types.type_text import backticked

_MANY = 1000  # files: with fewer, the time that workers of Python take to start would not be gained back
_SMALL_BYTES = 1 << 14  # of a file, on average
_ALL_BYTES = 1 << 24  # of all files
_SMALL_ROWS = 1 << 12  # of a file, on average: Parquet may store a million equal rows in a thousand bytes
_ALL_ROWS = 1 << 22  # of all files
_FILES_AT_ONCE = 64  # of one row of the DataFrame
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_FILES, _ROWS = f"{RESERVED}files", f"{RESERVED}rows"


def chosen(spark, splits: Sequence[Split]) -> tuple[Sequence[Split], Sequence[Split]]:
    """Returns the splits that `rows` reads sooner than Catalyst does, and the others."""
    small = [split for split in splits if not split.level0 and not split.merged]
    files = [file for split in small for file in split.files]
    all_bytes, all_rows = sum(file.bytes for file in files), sum(file.rows for file in files)
    most_bytes, most_rows = min(_ALL_BYTES, _SMALL_BYTES * len(files)), min(_ALL_ROWS, _SMALL_ROWS * len(files))
    if len(files) < _MANY or all_bytes > most_bytes or all_rows > most_rows:
        return (), splits
    if int(spark.conf.get(_BATCH_ROWS)) <= 0:  # without a limit PySpark makes no DataFrame of an Arrow table
        return (), splits
    if len(small) == len(splits):
        return splits, ()
    return small, [split for split in splits if split.level0 or split.merged]


def rows(spark, plan: Plan, splits: Sequence[Split], names: Sequence[str]):
    """Returns a DataFrame with the columns `names` of splits without level-0 files and files to merge."""
    first = given(plan, splits, names)
    schema = pa.schema([plan.schema.row_columns.field(name) for name in names if name not in first])
    lean, taken = replace(plan, columns=tuple(schema.names), predicate=None, splits=(), pruned=()), of_tasks(schema)

    def read(files: pa.Array) -> pa.Array:
        return _read(lean, taken, files)

    made = F.arrow_udf(read, st.ArrayType(to_spark(schema), containsNull=False))
    columns = [backticked(name) for name in first]
    parts = spark.createDataFrame(_parts(plan, splits, first)).select(*columns, made(_FILES).alias(_ROWS))
    # Spark would evaluate the function twice for `inline`, to leave out empty arrays: there are none
    found = parts.selectExpr(*columns, f"inline_outer({_ROWS})")
    fields = task_reads.fields(plan, names)
    if any(map(lengths, fields)):
        return found.select(*map(_sized, fields))
    return found.selectExpr(*map(backticked, names))


def _sized(field: pa.Field):
    """A column with the lengths of its texts. Spark 4.1 fails if the type of a function has them."""
    column, sized = F.col(backticked(field.name)), lengths(field)
    return column.alias(field.name, metadata=sized) if sized else column


def given(plan: Plan, splits: Sequence[Split], names: Sequence[str]) -> list[str]:
    """Returns the partition columns among `names` whose filters leave files out; none if all are, as rows need a column that is
    read."""
    if any(split.bucket.spec != plan.schema.spec_id for split in splits):
        return []
    columns = [one for one in plan.schema.partition_columns if one.transform.is_identity and one.name == one.column]
    found = [one.name for one in columns if one.name in names and column_type(one.type).directory]
    return found if len(found) < len(names) else []


def _parts(plan: Plan, splits: Sequence[Split], first: Sequence[str]) -> pa.Table:
    """The first DataFrame: the values of the partition columns `first` and some splits, as a pickle. Those of a whole snapshot
    are kept with the table handle."""

    def make() -> pa.Table:
        places = {one.name: number for number, one in enumerate(plan.schema.partition_columns)}
        values: dict[str, list[object]] = {name: [] for name in first}
        files = []
        for some in _groups(splits):
            for name in first:
                values[name].append(some[0].bucket.partition[places[name]])
            files.append(pickle.dumps(some))
        columns = {name: pa.array(values[name], plan.schema.typed_columns.field(name).type) for name in first}
        return pa.table({**columns, _FILES: pa.array(files, pa.binary())})

    if not isinstance(splits, AllSplits) or splits.identity is None:
        return make()
    identity = "small files", splits.identity, tuple(first)
    return plan.version.meta.files.cache.get(identity, make, lambda table: table.nbytes)


def _groups(splits: Sequence[Split]) -> Iterator[list[Split]]:
    """The files of each partition, some at a time, as splits with what a read needs of them; not files without a live row."""
    by_partition: dict[tuple[int, tuple], list[tuple[Split, DataFile]]] = {}
    for split in splits:
        live = [(split, file) for file in split.files if _live_rows(split, file)]
        by_partition.setdefault(split.bucket.partition_key, []).extend(live)
    for places in by_partition.values():
        for start in range(0, len(places), _FILES_AT_ONCE):
            some = places[start : start + _FILES_AT_ONCE]
            by_split = groupby(some, lambda place: id(place[0]))
            yield [_lean(own) for _, own in by_split]


def _live_rows(split: Split, file: DataFile) -> int:
    return file.rows - (split.vectors[file.name].cardinality if file.name in split.vectors else 0)


def _lean(places: Iterable[tuple[Split, DataFile]]) -> Split:
    """The split with only some of its files, without their statistics and indexes."""
    (split, *_), files = zip(*places, strict=True)
    vectors = {file.name: split.vectors[file.name] for file in files if file.name in split.vectors}
    lean = tuple(file._replace(stats={}, index=None, min_key=(), max_key=()) for file in files)
    return replace(split, files=lean, vectors=vectors)


def _read(plan: Plan, schema: pa.Schema, parts: pa.Array) -> pa.Array:
    """Returns the rows of each pickled part, with the columns of `schema`, as an array of structs."""
    splits, counts = [], [0]
    for part in parts:
        of_part = pickle.loads(part.as_py())
        splits += of_part
        counts.append(sum(_live_rows(split, file) for split in of_part for file in split.files))
    (batch,) = read_joined(plan, splits).cast(schema).combine_chunks().to_batches()
    ends = np.cumsum(counts)
    assert ends[-1] == batch.num_rows, "a file has other rows than its vector says"
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), batch.to_struct_array())
