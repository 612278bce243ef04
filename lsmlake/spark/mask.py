"""Masks deleted rows in a Catalyst scan with SQL over `_metadata`, without Python or a JVM extension.

`_metadata` gives the file and position of each row. A file is identified by its size in bytes or, if two files of the plan have
the same size, by a hash of its name. (Spark's Parquet reader also fills a column `_tmp_metadata_row_index`. A mask over it takes
up to a sixth less time, but it is not documented.) A mask has one of two forms:

- Words: one array of 64-bit words, the value of a scalar subquery: a hash table of the files, then the bitmaps of all rows. It
  needs no join and no broadcast, so `limit` and `count` start at once. The SQL text names no file: Spark compiles it once for
  nearly all versions of a table, while text with the sizes of the files would be compiled again after each commit. The array is a
  column of its own, which the filter uses three times: Spark plans each mention of a subquery, but only once if it is a column.
- Chunks: a broadcast join with a table of bitmaps, for many files or rows. A chunk without deleted rows has no bitmap. The chunk
  size minimises the table: large chunks for dense vectors, small chunks for sparse ones.

A row of an unknown file fails the query: the data file is not the one that the snapshot names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.format.data_files import DataFile
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.kernels.bucket_hash import spark_hash
from lsmlake.storage.env import Limits

PLACE = "_lsmlake_place"
_CHUNK, _KNOWN, _BITS, _ARRAY = "_lsmlake_chunk", "_lsmlake_known", "_lsmlake_bits", "_lsmlake_words"
_BITMAPS = pa.schema([(_KNOWN, pa.int64()), (_BITS, pa.list_(pa.field("element", pa.int64(), False)))])
_WORDS = pa.schema([("words", pa.list_(pa.field("element", pa.int64(), False)))])

_SLOT_BITS = 10, 12, 14  # sizes of the hash table of files, as powers of two: one size has room for most tables
_FACTORS = 2_654_435, 3_266_489, 1_640_531, 2_246_822  # below 2**22: a size below 2**41 times a factor fits a long
_HASH_SHIFT = 20

_CHUNK_NUMBERS = 22  # bits of a chunk's number: files of at most 2**32 rows with the smallest chunks, and of 2**41 bytes
_ENTRY_BYTES = 48  # of a chunk in the broadcast, whether or not it has a bitmap


class FileNumbers(NamedTuple):
    """Numbers that identify files. `sql`: the number of a row's file, `{place}` is its metadata column. `of`: one per file."""

    sql: str
    of: np.ndarray


def numbered(files: Sequence[DataFile]) -> FileNumbers:
    """Numbers files by their sizes, or by a salted hash of their names if two have the same size."""
    if len({file.bytes for file in files}) == len(files):
        return FileNumbers("{place}.file_size", np.array([file.bytes for file in files], np.int64))
    names = [file.name for file in files]
    salt = next(salt for salt in count() if len(np.unique(_hashed(names, salt))) == len(names))
    return FileNumbers(f"bigint(hash({salt}, {{place}}.file_name))", _hashed(names, salt).astype(np.int64))


def _hashed(names: Sequence[str], salt: int) -> np.ndarray:
    """Spark's `hash(salt, name)`."""
    return spark_hash([pa.array(np.full(len(names), salt, np.int32)), pa.array(names, pa.string())])


class Marks(NamedTuple):
    """SQL expressions for a mask. `row`: the position of a row in its file. `file`: the number of its file. `unknown`: fails the
    query."""

    row: str
    file: str
    unknown: str


def marks(number: FileNumbers, place: str, unknown: str) -> Marks:
    """Builds the SQL expressions. `place`: the column with Spark's metadata. `unknown`: the message for a row of an unknown
    file."""
    failure = f"bigint(raise_error(string(X'{unknown.encode().hex()}')))"  # independent of the session's quoting settings
    return Marks(f"{place}.row_index", number.sql.format(place=place), failure)


class Masked(NamedTuple):
    """Files with deleted rows: their vectors by name, and their numbers, as in `Marks.file`, in the order of `files`."""

    files: Sequence[DataFile]
    vectors: Mapping[str, DeletionVector]
    numbers: np.ndarray


Keep = Callable[[Callable[[], object], Callable[[object], int]], object]
"""Makes a value, or returns the one that was made for the same files and vectors in the same session. The second function: its
bytes."""


def _made(make: Callable[[], object], bytes_of: Callable[[object], int]) -> object:
    return make()


def live_rows(spark, rows, masked: Masked, marks: Marks, limits: Limits, keep: Keep = _made, where: str | None = None):
    """Returns the rows of the masked files that are not deleted, and the names of the columns added to `rows`. `keep`: keeps what
    was sent to Spark for the next call with the same `masked`. `where`: a condition that Spark must not evaluate for a deleted
    row, since it may fail."""
    if _words_bytes(masked.files) <= limits.mask_bytes:
        sent = keep(lambda: _sent(spark, _words(masked)), lambda sent: sent.bytes)
        if sent.array is not None:
            live = _by_words(rows, sent, marks)
            return live if where is None else live.where(where), (_ARRAY,)  # Spark evaluates filters in order
    return _by_chunks(spark, rows, masked, marks, limits, where), (_CHUNK, _KNOWN, _BITS)


# -- words ------------------------------------------------------------------------------------------------------------


class _MaskWords(NamedTuple):
    """`values`: the numbers of the files by slot, then the index of each file's first word by slot, then the words. `slots`: the
    number of slots. `factor`: of the hash."""

    values: np.ndarray
    slots: int
    factor: int


def _words_bytes(files: Sequence[DataFile]) -> int:
    return sum(-(-file.rows >> 6) * 8 for file in files)


def _words(masked: Masked) -> _MaskWords | None:
    """Builds the words; None if no hash is free of collisions."""
    files, vectors, numbers = masked
    hashes = ((bits, factor, _slots(numbers, factor, bits)) for bits in _SLOT_BITS for factor in _FACTORS)
    chosen = next((one for one in hashes if len(np.unique(one[2])) == len(numbers)), None)
    if chosen is None:
        return None
    bits, factor, places = chosen
    slots = 1 << bits
    counts = np.array([-(-file.rows >> 6) for file in files])
    starts = 2 * slots + np.cumsum(counts) - counts
    values = np.zeros(2 * slots + counts.sum(), np.int64)
    values[:slots] = -(1 << 62)  # no file has this number
    values[places], values[slots + places] = numbers, starts
    for file, start in zip(files, starts.tolist(), strict=True):
        if file.name in vectors:
            words, dead = vectors[file.name].words()
            values[start + words] = dead
    return _MaskWords(values, slots, factor)


def _slots(numbers: np.ndarray, factor: int, bits: int) -> np.ndarray:
    return (numbers * factor >> _HASH_SHIFT) & ((1 << bits) - 1)


class _SentWords(NamedTuple):
    """Words in Spark. `array`: a scalar subquery; None if each hash has collisions. `slots`, `factor`: as in `_MaskWords`."""

    array: object
    slots: int = 0
    factor: int = 0
    bytes: int = 0


def _sent(spark, words: _MaskWords | None) -> _SentWords:
    if words is None:
        return _SentWords(None)
    values = pa.ListArray.from_arrays(pa.array([0, len(words.values)], pa.int32()), words.values, type=_WORDS.field(0).type)
    array = spark.createDataFrame(pa.table([values], schema=_WORDS)).scalar()
    return _SentWords(array, words.slots, words.factor, words.values.nbytes)


def _by_words(rows, sent: _SentWords, marks: Marks):
    slot = f"int(shiftright({marks.file} * {sent.factor}L, {_HASH_SHIFT}) & {sent.slots - 1})"
    known = f"get({_ARRAY}, {slot}) = {marks.file}"
    start = f"int(if({known}, get({_ARRAY}, {slot} + {sent.slots}), {marks.unknown}))"
    word = f"get({_ARRAY}, {start} + int(shiftright({marks.row}, 6)))"
    return rows.withColumn(_ARRAY, sent.array).where(f"getbit({word}, int({marks.row} & 63)) = 0")


# -- chunks -----------------------------------------------------------------------------------------------------------


def chunk_bytes(rows: Sequence[int], dead: Sequence[int], limits: Limits) -> tuple[int, np.ndarray]:
    """Returns the chunk size, as a power of two, that minimises the broadcast, and an upper bound of the bytes per file. `rows`
    and `dead`: the number of rows and of deleted rows per file."""
    rows, dead = np.asarray(rows, np.int64), np.asarray(dead, np.int64)
    sizes = {bits: _chunk_bytes(rows, dead, bits) for bits in limits.mask_chunk_bits}
    best = min(sizes, key=lambda bits: sizes[bits].sum())
    return best, sizes[best]


def _chunk_bytes(rows: np.ndarray, dead: np.ndarray, bits: int) -> np.ndarray:
    chunks = -(-rows >> bits)
    return chunks * _ENTRY_BYTES + np.minimum(chunks, dead) * (1 << bits - 3)


def _by_chunks(spark, rows, masked: Masked, marks: Marks, limits: Limits, where: str | None):
    dead = [len(masked.vectors[file.name]) if file.name in masked.vectors else 0 for file in masked.files]
    bits, _ = chunk_bytes([file.rows for file in masked.files], dead, limits)
    bitmaps = F.broadcast(spark.createDataFrame(_bitmaps(masked, bits)))
    chunk = f"shiftleft({marks.file}, {_CHUNK_NUMBERS}) + shiftright({marks.row}, {bits})"
    joined = rows.selectExpr("*", f"{chunk} as {_CHUNK}").join(bitmaps, F.expr(f"{_CHUNK} = {_KNOWN}"), "left")
    bit = f"getbit({_BITS}[int(({marks.row} & {(1 << bits) - 1}) >> 6)], int({marks.row} & 63))"
    live = f"if({_KNOWN} is null, boolean({marks.unknown}), {_BITS} is null or {bit} = 0)"
    return joined.filter(live if where is None else f"if({live}, ({where}\n), false)")  # another filter would pass the join


def _bitmaps(masked: Masked, bits: int) -> pa.Table:
    """Returns one row per chunk: its number and its bitmap, null if no row is deleted."""
    files, vectors, numbers = masked
    counts = np.array([-(-file.rows >> bits) for file in files])
    starts = np.cumsum(counts) - counts
    chunks = np.repeat((numbers << _CHUNK_NUMBERS) - starts, counts) + np.arange(counts.sum())
    per_chunk, vector_words = 1 << bits - 6, []
    for file, start in zip(files, starts.tolist(), strict=True):
        if file.name in vectors:
            words, dead = vectors[file.name].words()
            vector_words.append((start * per_chunk + words, dead))
    words, dead = (
        (np.concatenate(parts) for parts in zip(*vector_words, strict=True)) if vector_words else (np.zeros(0, np.int64),) * 2
    )
    dirty = np.zeros(len(chunks), bool)
    dirty[words // per_chunk] = True
    values = np.zeros(dirty.sum() * per_chunk, np.int64)
    values[(np.cumsum(dirty) - 1)[words // per_chunk] * per_chunk + words % per_chunk] = dead
    offsets = pa.array(np.concatenate([[0], np.cumsum(dirty * per_chunk)]), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array(values), type=_BITMAPS.field(_BITS).type, mask=pa.array(~dirty))
    return pa.table([pa.array(chunks), lists], schema=_BITMAPS)
