"""Masks deleted rows in a Catalyst scan with SQL over the addresses of the rows, without Python or a JVM extension.

An address is the number of a file times 2^32, plus the position of the row in it. Files store it in a column if the option
`file.row-addresses` says so: Spark reads the column in a tenth of the time that `_metadata` takes, a struct that it makes for
each row. Where a file does not have the column, all addresses of a scan are made of `_metadata`; a file is then numbered by its
size in bytes or, if two files of the plan have the same size, by a hash of its name.

A mask has one of two forms:

- Words: one array of 64-bit words, the value of a scalar subquery: a hash table of the files, then the bitmaps of all rows. It
  needs no join and no broadcast, so `limit` and `count` start at once. The SQL text names no file: Spark compiles it once for
  nearly all versions of a table, while text with the numbers of the files would be compiled again after each commit. The array is
  a column of its own, which the filter uses twice: Spark plans each mention of a subquery, but only once if it is a column.
- Chunks: a broadcast join with a table of bitmaps, for many files or rows. A chunk without deleted rows has no bitmap. The chunk
  size minimises the table: large chunks for dense vectors, small chunks for sparse ones.

The bits of a word are in reverse order: a word shifted left by the position of a row, of which Spark uses the last six bits, is
negative if the row is deleted.

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
from lsmlake.schema.schema import POSITION_BITS, RESERVED, ROW_ADDRESS
from lsmlake.storage.env import Limits

PLACE = f"{RESERVED}place"
"""The column with Spark's metadata of a row."""
_CHUNK, _KNOWN, _BITS, _ARRAY = "_lsmlake_chunk", "_lsmlake_known", "_lsmlake_bits", "_lsmlake_words"
_BITMAPS = pa.schema([(_KNOWN, pa.int64()), (_BITS, pa.list_(pa.field("element", pa.int64(), False)))])
_WORDS = pa.schema([("words", pa.list_(pa.field("element", pa.int64(), False)))])

_SLOT_BITS = 10, 12, 14  # sizes of the hash table of files, as powers of two: one size has room for most tables
_FACTORS = 2_654_435, 3_266_489, 1_640_531, 2_246_822  # below 2**22: a number times a factor fits a long
_HASH_SHIFT = 20
_NUMBER_MAX = (1 << 31) - 1
_WORD_BITS = POSITION_BITS - 6  # of an address / 64: those of the position

_ENTRY_BYTES = 48  # of a chunk in the broadcast, whether or not it has a bitmap


class Addresses(NamedTuple):
    """Addresses of rows. `sql`: the address of a row. `column`: what a scan must add to the table's columns, `ROW_ADDRESS` or
    `PLACE`. `numbers`: of the files."""

    sql: str
    column: str
    numbers: np.ndarray


def addresses(files: Sequence[DataFile]) -> Addresses:
    """The addresses of the rows of `files`: those in the files if all have them and no two have the same number."""
    numbers = [file.number for file in files]
    if None not in numbers and len(set(numbers)) == len(numbers):
        return Addresses(ROW_ADDRESS, ROW_ADDRESS, np.array(numbers, np.int64))
    sql = f"(shiftleft({{number}} & {_NUMBER_MAX}L, {POSITION_BITS}) | {PLACE}.row_index)"
    sizes = np.array([file.bytes & _NUMBER_MAX for file in files], np.int64)
    if len(np.unique(sizes)) == len(sizes):
        return Addresses(sql.format(number=f"{PLACE}.file_size"), PLACE, sizes)
    names = [file.name for file in files]
    salt = next(salt for salt in count() if len(np.unique(_hashed(names, salt))) == len(names))
    return Addresses(sql.format(number=f"bigint(hash({salt}, {PLACE}.file_name))"), PLACE, _hashed(names, salt))


def _hashed(names: Sequence[str], salt: int) -> np.ndarray:
    """The last 31 bits of Spark's `hash(salt, name)`."""
    hashes = spark_hash([pa.array(np.full(len(names), salt, np.int32)), pa.array(names, pa.string())])
    return hashes.astype(np.int64) & _NUMBER_MAX


def number_sql(address: str) -> str:
    """The number of a row's file, as SQL."""
    return f"shiftright({address}, {POSITION_BITS})"


def position_sql(address: str) -> str:
    """The position of a row in its file, as SQL."""
    return f"({address} & {(1 << POSITION_BITS) - 1}L)"


class Masked(NamedTuple):
    """Files with deleted rows: their vectors by name, and their numbers in `Addresses`, in the order of `files`."""

    files: Sequence[DataFile]
    vectors: Mapping[str, DeletionVector]
    numbers: np.ndarray


Keep = Callable[[Callable[[], object], Callable[[object], int]], object]
"""Makes a value, or returns the one that was made for the same files and vectors in the same session. The second function: its
bytes."""


def _made(make: Callable[[], object], bytes_of: Callable[[object], int]) -> object:
    return make()


def live_rows(
    spark, rows, masked: Masked, address: str, unknown: str, limits: Limits, keep: Keep = _made, where: str | None = None
):
    """Returns the rows of the masked files that are not deleted, and the names of the columns added to `rows`.

    Args:
        address: `Addresses.sql`.
        unknown: the message for a row of an unknown file.
        keep: keeps what was sent to Spark for the next call with the same `masked`.
        where: a condition that Spark must not evaluate for a deleted row, since it may fail.
    """
    failure = f"boolean(raise_error(string(X'{unknown.encode().hex()}')))"  # independent of the session's quoting settings
    if _words_bytes(masked.files) <= limits.mask_bytes:
        sent = keep(lambda: _sent(spark, _words(masked)), lambda sent: sent.bytes)
        if sent.array is not None:
            live = _by_words(rows, sent, address, failure)
            return live if where is None else live.where(where), (_ARRAY,)  # Spark evaluates filters in order
    return _by_chunks(spark, rows, masked, address, failure, limits, where), (_CHUNK, _KNOWN, _BITS)


def _is_live(word: str, address: str) -> str:
    return f"shiftleft({word}, int({address} & 63)) >= 0"


def _reversed(words: np.ndarray) -> np.ndarray:
    """The words with their bits in reverse order."""
    bits = words.view(np.uint64)
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        bits = ((bits >> np.uint64(shift)) & np.uint64(mask)) | ((bits & np.uint64(mask)) << np.uint64(shift))
    return bits.byteswap().view(np.int64)


# -- words ------------------------------------------------------------------------------------------------------------


class _MaskWords(NamedTuple):
    """`values`: for each slot, the index of the first word of its file less the number of the file times 2^26; then the words. So
    the index of the word of a row is the value of its slot plus its address / 64. Of a row of an unknown file, it is outside of
    `values`. `slots`: the number of slots. `factor`: of the hash."""

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
    starts = slots + np.cumsum(counts) - counts
    values = np.zeros(slots + counts.sum(), np.int64)
    values[:slots] = -(1 << 62)  # plus any address / 64, negative
    values[places] = starts - (numbers << _WORD_BITS)
    for file, start in zip(files, starts.tolist(), strict=True):
        if file.name in vectors:
            words, dead = vectors[file.name].words()
            values[start + words] = _reversed(dead)
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


def _by_words(rows, sent: _SentWords, address: str, failure: str):
    slot = f"int(shiftright({number_sql(address)} * {sent.factor}L, {_HASH_SHIFT}) & {sent.slots - 1})"
    index = f"get({_ARRAY}, {slot}) + shiftright({address}, 6)"
    word = f"get({_ARRAY}, try_cast({index} as int))"
    return rows.withColumn(_ARRAY, sent.array).where(f"coalesce({_is_live(word, address)}, {failure})")


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


def _by_chunks(spark, rows, masked: Masked, address: str, failure: str, limits: Limits, where: str | None):
    dead = [len(masked.vectors[file.name]) if file.name in masked.vectors else 0 for file in masked.files]
    bits, _ = chunk_bytes([file.rows for file in masked.files], dead, limits)
    bitmaps = F.broadcast(spark.createDataFrame(_bitmaps(masked, bits)))
    chunked = rows.selectExpr("*", f"shiftright({address}, {bits}) as {_CHUNK}")
    joined = chunked.join(bitmaps, F.expr(f"{_CHUNK} = {_KNOWN}"), "left")
    word = f"get({_BITS}, int(shiftright({address}, 6) & {(1 << bits - 6) - 1}))"
    live = f"if({_KNOWN} is null, {failure}, {_BITS} is null or {_is_live(word, address)})"
    return joined.filter(live if where is None else f"if({live}, ({where}\n), false)")  # another filter would pass the join


def _bitmaps(masked: Masked, bits: int) -> pa.Table:
    """Returns one row per chunk: its number and its bitmap, null if no row is deleted."""
    files, vectors, numbers = masked
    counts = np.array([-(-file.rows >> bits) for file in files])
    starts = np.cumsum(counts) - counts
    chunks = np.repeat((numbers << POSITION_BITS - bits) - starts, counts) + np.arange(counts.sum())
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
    values[(np.cumsum(dirty) - 1)[words // per_chunk] * per_chunk + words % per_chunk] = _reversed(dead)
    offsets = pa.array(np.concatenate([[0], np.cumsum(dirty * per_chunk)]), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array(values), type=_BITMAPS.field(_BITS).type, mask=pa.array(~dirty))
    return pa.table([pa.array(chunks), lists], schema=_BITMAPS)
