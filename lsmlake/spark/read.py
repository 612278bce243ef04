"""A plan as a Spark DataFrame, evaluated lazily. Two strategies, the same rows.

Native: Catalyst reads the Parquet files itself - generated code, column pruning, `PushedFilters` - and dead rows are masked by a
left join with a broadcast table of bitmap chunks:

1. `_metadata` says which row of which file this is; `chunk = row_index >> 16`;
2. the file's number beside the chunk, one long, finds the dense bitmap of those 65,536 rows, 1,024 longs, or null if none of them
   is dead. (A join on a long needs no row made of its key.) Files go by their size in bytes, which costs no hash of a name a row;
   where two are of one size by a hash of the name, salted so that it tells the files of the plan apart;
3. the row stays unless its bit is set. What finds nothing is in no file that the plan knows: an error.

Files without a vector go through a plain scan, unless they are few: a second scan costs more than it saves.
In buckets with rows waiting at level 0, the older rows are anti-joined with the waiting keys, and the row that stands for every
waiting key is added. Without deletion vectors tasks merge the files that overlap.

Arrow: Python tasks read whole splits as the embedded path does. For stores and sizes the first cannot do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import count
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.errors import InvalidQuery
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.files import Bucket, DataFile
from lsmlake.lsm.bucket_hash import spark_hash
from lsmlake.lsm.merge.engine import Old
from lsmlake.lsm.merge.engines import engine_of
from lsmlake.ops.changes import Piece, changes_schema, read_piece
from lsmlake.ops.plan import Plan, Split
from lsmlake.ops.read import read_split
from lsmlake.spark import tasks
from lsmlake.spark.types import quoted, to_spark
from lsmlake.store.metadata import Metadata

NATIVE, ARROW, AUTO = "native", "arrow", "auto"
_PLACE, _ROW, _CHUNK = "_lsmlake_place", "_lsmlake_row", "_lsmlake_chunk"
_KNOWN, _BITS = "_lsmlake_known", "_lsmlake_bits"
_BITMAPS = pa.schema([(_KNOWN, pa.int64()), (_BITS, pa.list_(pa.int64()))])
_CHUNKS = 22  # bits of a chunk's number: files of 2**38 rows and of 2**41 bytes
_FEW_CLEAN_ROWS = 1 << 20  # so many rows without a vector are scanned along with the others: a second scan costs more
_FEW_CLEAN = 0.25  # or so many of the rows in files with one
_BROADCAST_ROWS = 4_000_000  # keys waiting at level 0 that still fit a broadcast


def frame(spark, meta: Metadata, plan: Plan, where: str | None, strategy: str):
    """The rows of `plan`. Raises InvalidQuery for an unknown strategy."""
    if strategy not in (NATIVE, ARROW, AUTO):
        raise InvalidQuery("unknown strategy", expected="'auto', 'native' or 'arrow'", found=repr(strategy), cure="leave it out")
    if not plan.files:
        return spark.createDataFrame([], to_spark(_fields(plan, plan.columns)))
    chosen = choose(plan) if strategy == AUTO else strategy
    return _native(spark, meta, plan, where) if chosen == NATIVE else _arrow(spark, meta, plan, plan.splits, where)


def choose(plan: Plan) -> str:
    """Native unless the bitmaps of the files with dead rows could pass the broadcast limit."""
    masked = [file.rows for split in plan.splits for file in split.files if file.name in split.vectors]
    chunks = [ref.cardinality for split in plan.splits for ref in split.vectors.values()]
    bytes_ = min(sum(-(-rows // 65_536) for rows in masked), sum(chunks)) * 8_192
    return NATIVE if bytes_ <= plan.schema.parsed_options.vector_broadcast_bytes else ARROW


def _needed(plan: Plan, where: str | None) -> tuple[str, ...]:
    """What tasks must read: all columns if only Spark understands the filter."""
    return plan.needed if plan.predicate is not None or where is None else tuple(plan.schema.columns.names)


def _fields(plan: Plan, names: Sequence[str]) -> pa.Schema:
    return pa.schema([plan.schema.row_columns.field(name) for name in names])


# -- native -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Native:
    spark: object
    meta: Metadata
    plan: Plan
    where: str | None

    def paths(self, files: Sequence[tuple[Bucket, DataFile]]) -> list[str]:
        return [self.meta.paths.data(file) for _, file in files]

    def scan(self, paths: Sequence[str]):
        """Plain Parquet, all columns; Catalyst takes those it needs."""
        names = [field.name for field in self.plan.schema.columns]
        reader = self.spark.read.schema(to_spark(_fields(self.plan, names))).option("recursiveFileLookup", "true")
        return reader.parquet(*map(self.meta.env.storage.uri, paths))

    def filtered(self, rows):
        return rows if self.where is None else rows.filter(self.where)

    def clean(self, paths: Sequence[str]):
        return self.filtered(self.scan(paths))

    def masked(self, paths: Sequence[str], mask: _Mask):
        """Every operation is analysed by Spark on its own, some 3 ms each, so there are few; and all is SQL text, since a Column
        object takes many calls into the JVM."""
        rows, place = self.scan(paths), "_metadata"
        if any(name.lower() == place for name in self.plan.schema.columns.names):
            rows, place = rows.select("*", rows.metadataColumn("_metadata").alias(_PLACE)), _PLACE
        row, number = f"{place}.row_index", mask.number.format(place=place)
        chunk = f"shiftleft(bigint({number}), {_CHUNKS}) + shiftright({row}, 16)"
        rows = self.filtered(rows.selectExpr("*", f"{row} as {_ROW}", f"{chunk} as {_CHUNK}"))
        bitmaps = F.broadcast(self.spark.createDataFrame(mask.bitmaps))
        joined = rows.join(bitmaps, F.expr(f"{_CHUNK} = {_KNOWN}"), "left")
        bit = f"getbit({_BITS}[int(({_ROW} & 65535) >> 6)], int({_ROW} & 63))"
        unknown = f"raise_error('{self.meta.paths.root}: a data file is not as its snapshot says; verify() tells which')"
        living = joined.filter(f"if({_KNOWN} is null, {unknown}, {_BITS} is null or {bit} = 0)")
        if self.plan.columns != tuple(self.plan.schema.columns.names):
            return living  # of which the columns are taken in any case
        made = [_ROW, _CHUNK, _KNOWN, _BITS, *([place] if place == _PLACE else [])]
        return living.selectExpr(f"* except ({', '.join(made)})")


class _Mask(NamedTuple):
    """`number`: SQL, which file a row is in, given the `{place}` of the metadata. `bitmaps`: of every chunk of these files."""

    number: str
    bitmaps: pa.Table


def _native(spark, meta: Metadata, plan: Plan, where: str | None):
    native = _Native(spark, meta, plan, where)
    settled = [split for split in plan.splits if not split.level0]
    waiting = [split for split in plan.splits if split.level0]
    merged = [split for split in plan.splits if split.merged]
    parts = _raw(native, settled)
    if merged:
        parts.append(native.filtered(_tasks(spark, meta, plan, merged, _needed(plan, where))))
    if waiting:
        keys = _waiting_keys(native, waiting)
        parts += [_without(part, keys, plan) for part in _raw(native, waiting)]
        parts.append(_newest(native, waiting))
    return _united(plan, parts)


def _united(plan: Plan, parts: Sequence):
    """The columns of the plan, of all parts. Not named where they are all of the table's: a name costs up to 0.1 ms."""
    if plan.columns != tuple(plan.schema.columns.names):
        parts = [part.selectExpr(*map(quoted, plan.columns)) for part in parts]
    return reduce(lambda left, right: left.unionByName(right), parts)


def _raw(native: _Native, splits: Sequence[Split]) -> list:
    """The rows above level 0: files without dead rows plainly, the others masked."""
    files = [(split.bucket, file) for split in splits for file in split.files]
    dead = {name for split in splits for name in split.vectors}
    masked = [(bucket, file) for bucket, file in files if file.name in dead]
    clean = [(bucket, file) for bucket, file in files if file.name not in dead]
    few = max(_FEW_CLEAN_ROWS, _FEW_CLEAN * sum(file.rows for _, file in masked))
    if masked and sum(file.rows for _, file in clean) <= few:
        masked, clean = files, []
    parts = [native.clean(native.paths(clean))] if clean else []
    return [*parts, native.masked(native.paths(masked), _mask(native.meta, splits, masked))] if masked else parts


def _mask(meta: Metadata, splits: Sequence[Split], masked: Sequence[tuple[Bucket, DataFile]]) -> _Mask:
    files = [file for _, file in masked]
    if len({file.bytes for file in files}) == len(files):
        number, numbers = "{place}.file_size", np.array([file.bytes for file in files], np.int64)
    else:
        names = [file.name for file in files]
        salt = next(salt for salt in count() if len(np.unique(_hashed(names, salt))) == len(names))
        number, numbers = f"hash({salt}, {{place}}.file_name)", _hashed(names, salt).astype(np.int64)
    return _Mask(number, _bitmaps(_vectors(meta, splits), files, numbers))


def _hashed(names: Sequence[str], salt: int) -> np.ndarray:
    """Spark's `hash(salt, name)`."""
    return spark_hash([pa.array(np.full(len(names), salt, np.int32)), pa.array(names, pa.string())])


def _vectors(meta: Metadata, splits: Sequence[Split]) -> dict[str, DeletionVector]:
    """Those of the files that are read, by name."""
    found = {}
    for split in splits:
        read = {file.name for file in split.files}
        found |= meta.vectors(split.vectors, [name for name in split.vectors if name in read])
    return found


def _bitmaps(vectors: Mapping[str, DeletionVector], files: Sequence[DataFile], numbers: np.ndarray) -> pa.Table:
    counts = np.array([-(-file.rows >> 16) for file in files])
    starts = np.cumsum(counts) - counts
    places = np.repeat((numbers << _CHUNKS) - starts, counts) + np.arange(counts.sum())
    found = [
        (start + chunk, bits)
        for file, start in zip(files, starts, strict=True)
        if file.name in vectors
        for chunk, bits in vectors[file.name].chunks()
    ]
    dead = np.zeros(len(places), bool)
    dead[[place for place, _ in found]] = True
    values = np.concatenate([bits for _, bits in found]) if found else np.zeros(0, np.int64)
    offsets = pa.array(np.concatenate([[0], np.cumsum(dead * 1024)]), pa.int32())
    bits = pa.ListArray.from_arrays(offsets, values, mask=pa.array(~dead))
    return pa.table([pa.array(places), bits], schema=_BITMAPS)


def _waiting_keys(native: _Native, splits: Sequence[Split]):
    """The keys at level 0, deletes included, repeats as they are."""
    files = [(split.bucket, f) for split in splits for f in split.level0]
    keys = native.scan(native.paths(files))
    keys = keys.selectExpr(*[f"{quoted(name)} as _lsmlake_key_{i}" for i, name in enumerate(native.plan.schema.primary_key)])
    return F.broadcast(keys) if sum(f.rows for _, f in files) <= _BROADCAST_ROWS else keys


def _without(rows, keys, plan: Plan):
    same = " and ".join(f"{quoted(name)} <=> _lsmlake_key_{i}" for i, name in enumerate(plan.schema.primary_key))
    return rows.join(keys, F.expr(same), "left_anti")


def _newest(native: _Native, splits: Sequence[Split]):
    """The row of every waiting key. One run without deletes, that meets nothing, is that already; otherwise tasks merge a bucket
    each."""
    dies = engine_of(native.plan.schema).old is Old.DIES
    single = [split for split in splits if dies and _is_newest(split.level0)]
    rest = [split for split in splits if split not in single]
    parts = []
    if single:
        parts.append(native.clean(native.paths([(split.bucket, f) for split in single for f in split.level0])))
    if rest:
        waiting = [replace(split, files=(), met=() if dies else (*split.files, *split.met)) for split in rest]
        merged = _tasks(native.spark, native.meta, native.plan, waiting, _needed(native.plan, native.where))
        parts.append(native.filtered(merged))
    return _united(native.plan, parts)


def _is_newest(level0: Sequence[DataFile]) -> bool:
    return len({file.sequence for file in level0}) == 1 and not any(file.delete_rows for file in level0)


# -- arrow ------------------------------------------------------------------------------------------------------------


def _arrow(spark, meta: Metadata, plan: Plan, splits: Sequence[Split], where: str | None):
    """A split without level 0 can be read a file a task."""
    pieces = [replace(split, files=(file,)) for split in splits if not split.level0 for file in split.files]
    pieces += [split for split in splits if split.level0 or split.merged]
    rows = _tasks(spark, meta, plan, pieces, _needed(plan, where))
    return (rows if where is None else rows.filter(where)).selectExpr(*map(quoted, plan.columns))


def _tasks(spark, meta: Metadata, plan: Plan, splits: Sequence[Split], names: Sequence[str]):
    schema = _fields(plan, names)
    lean = replace(plan, columns=tuple(names), splits=(), pruned=())
    return tasks.payloads(spark, splits).mapInArrow(partial(_read_task, meta, lean, schema), to_spark(schema))


def _read_task(meta: Metadata, plan: Plan, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for split in tasks.unpacked(batches):
        for table in read_split(meta, plan, split):
            yield from table.cast(schema).to_batches(max_chunksize=1 << 16)


# -- changes ----------------------------------------------------------------------------------------------------------


def changes(spark, meta: Metadata, like: Plan, pieces: Sequence[Piece]):
    """The changes of each of `pieces`, a task each."""
    schema = changes_fields(like)
    if not pieces:
        return spark.createDataFrame([], to_spark(schema))
    return tasks.payloads(spark, pieces).mapInArrow(partial(_changes_task, meta, like, schema), to_spark(schema))


def changes_fields(like: Plan) -> pa.Schema:
    """Changes as Spark gets them: nullable."""
    return pa.schema([field.with_nullable(True) for field in changes_schema(like)])


def _changes_task(meta: Metadata, like: Plan, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for piece in tasks.unpacked(batches):
        for table in read_piece(meta, like, piece):
            yield from table.cast(schema).to_batches(max_chunksize=1 << 16)
