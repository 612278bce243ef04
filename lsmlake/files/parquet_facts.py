"""The facts in the footer of a Parquet file of any writer that decide whether readers can use the file unchanged."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lsmlake.errors import Corrupt, InvalidData, LakeError
from lsmlake.files.checksum import TAIL_BYTES, footer_in
from lsmlake.format.data_files import ColumnStats
from lsmlake.kernels.bounds import bounds
from lsmlake.storage.location import OutsideFile

_LENGTH_AND_MAGIC = 8
_ENCRYPTED = b"PARE"
_SIGNATURE_BYTES = 28
"""After a footer in plain text of a file with encrypted columns: a nonce and a tag."""
_INTEGERS = ("INT32", "INT64")
_ARROW_SCHEMA = b"ARROW:schema"
RESTORE = "restore it there, or import without it: other files, or another snapshot of the table"


class ValueRange(NamedTuple):
    """The least and the greatest value; 0 and 0 if there is no value."""

    low: int
    high: int


class ParquetLeaf(NamedTuple):
    """A physical column. `path`: the names from the root. `logical`: the name of its logical type in Parquet, or NONE. `bounded`:
    a row group has a least and a greatest value of it. `range`: the least and greatest value of the file, for integers as stored,
    such as dates; None: not known."""

    path: str
    physical: str
    logical: str
    bounded: bool
    range: ValueRange | None


class ParquetFacts(NamedTuple):
    """`columns`: Arrow fields, with field ids if the file has them. `declared`: the fields of the Arrow schema in the file, in
    the same order; only Polars uses some of them; empty if the file has no such schema. `leaves`: the leaves of all columns, in
    file order. `has_own_ids`: no reader confuses the ids in the file with other ids."""

    rows: int
    columns: pa.Schema
    declared: tuple[pa.Field, ...]
    leaves: tuple[ParquetLeaf, ...]
    codecs: frozenset[str]
    footer_bytes: int
    footer_checksum: int
    has_own_ids: bool = True


def read_footer(place: OutsideFile, size: int, where: str) -> tuple[bytes, pq.FileMetaData]:
    """The footer of a file of `size` bytes, as bytes and parsed.

    Raises Corrupt naming `where` if it is missing or damaged, and InvalidData if it is encrypted or signed."""
    try:
        with place.storage.read_from_end(place.path, size, min(size, TAIL_BYTES)) as source:
            actual = source.size()
            if actual == size:
                footer = _ending(source, size)
                if footer.endswith(_ENCRYPTED):
                    raise _encrypted(where)
                parsed = pq.ParquetFile(pa.BufferReader(footer)).metadata
                if len(footer) - _LENGTH_AND_MAGIC - parsed.serialized_size == _SIGNATURE_BYTES:
                    raise _encrypted(where)  # PyArrow ends the process when it is asked about an encrypted column
                _check_total(parsed, where)
                return footer, parsed
    except FileNotFoundError as missing:
        raise Corrupt("a data file is missing", where=where, cure=RESTORE) from missing
    except (pa.ArrowException, OSError, ValueError) as broken:
        if isinstance(broken, LakeError):
            raise
        raise Corrupt(
            "a data file cannot be read", where=where, expected="a whole Parquet file", found=broken, cure=RESTORE
        ) from broken
    raise Corrupt("a data file has another length", where=where, expected=f"{size} bytes", found=f"{actual} bytes", cure=RESTORE)


def _encrypted(where: str) -> InvalidData:
    return InvalidData(
        "a data file is encrypted", where=where, expected="files without encryption", cure="decrypt the file there"
    )


def _check_total(parsed: pq.FileMetaData, where: str) -> None:
    """Raises Corrupt if the total number of rows differs from the sum of the row groups: some readers use the total, others the
    row groups, and they would see different rows."""
    counted = sum(parsed.row_group(i).num_rows for i in range(parsed.num_row_groups))
    if parsed.num_rows != counted:
        raise Corrupt(
            "the footer of a data file contradicts itself",
            where=where,
            expected=f"a total of {counted} rows, as the row groups have",
            found=f"a total of {parsed.num_rows}",
            cure="write the file anew",
        )


def _ending(source: pa.NativeFile, size: int) -> bytes:
    source.seek(max(0, size - TAIL_BYTES))
    ending = source.read()
    footer = footer_in(ending)
    stated = int.from_bytes(ending[-_LENGTH_AND_MAGIC:-4], "little") + _LENGTH_AND_MAGIC
    if len(footer) < stated <= size:
        source.seek(size - stated)
        footer = source.read()
    return footer


def facts_of(footer: bytes, parsed: pq.FileMetaData) -> ParquetFacts:
    groups = [parsed.row_group(i) for i in range(parsed.num_row_groups)]
    chunks = [[group.column(leaf) for group in groups] for leaf in range(parsed.num_columns)]
    described = [parsed.schema.column(leaf) for leaf in range(parsed.num_columns)]
    return ParquetFacts(
        parsed.num_rows,
        parsed.schema.to_arrow_schema(),
        _declared(parsed),
        tuple(
            ParquetLeaf(one.path, one.physical_type, _logical(one), any(map(_is_bounded, of)), _range(of))
            for one, of in zip(described, chunks, strict=True)
        ),
        frozenset(chunk.compression for of in chunks for chunk in of),
        len(footer),
        zlib.crc32(footer),
    )


def _logical(column: pq.ColumnSchema) -> str:
    """The name of a logical type. A TIME adjusted to UTC has its own name: Arrow does not report it, and DuckDB gives it a
    zone."""
    name = column.logical_type.type
    return f"{name} in UTC" if name == "TIME" and json.loads(column.logical_type.to_json())["isAdjustedToUTC"] else name


def _is_bounded(chunk: pq.ColumnChunkMetaData) -> bool:
    return chunk.statistics is not None and chunk.statistics.has_min_max


def _range(chunks: Sequence[pq.ColumnChunkMetaData]) -> ValueRange | None:
    if any(chunk.physical_type not in _INTEGERS or chunk.statistics is None for chunk in chunks):
        return None
    known = [chunk.statistics for chunk in chunks if chunk.statistics.num_values]
    if not all(one.has_min_max for one in known):
        return None
    return ValueRange(min((one.min_raw for one in known), default=0), max((one.max_raw for one in known), default=0))


def _declared(parsed: pq.FileMetaData) -> tuple[pa.Field, ...]:
    encoded = (parsed.metadata or {}).get(_ARROW_SCHEMA)
    return () if encoded is None else tuple(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded))))


def stats_of(parsed: pq.FileMetaData, leaf_of: Mapping[int, int], length_of: Mapping[int, int]) -> dict[int, ColumnStats]:
    """The statistics of columns for a manifest, by field id; without columns that have none in the footer.

    Args:
        parsed: the footer.
        leaf_of: the leaf of each column, by field id.
        length_of: where bounds of text are cut, by field id; 0: there are no bounds. Other columns have no statistics.
    """
    groups = [parsed.row_group(i) for i in range(parsed.num_row_groups)]
    stats_by_id: dict[int, ColumnStats] = {}
    for id, length in length_of.items():
        leaf = leaf_of[id]
        chunks = [group.column(leaf).statistics for group in groups]
        if any(one is None or not one.has_null_count for one in chunks):
            continue
        low, high = bounds(*bounds_of(chunks), length) if length else (None, None)
        stats_by_id[id] = ColumnStats(sum(one.null_count for one in chunks), low, high)
    return stats_by_id


def bounds_of(groups: Sequence[pq.Statistics]) -> tuple[object, object]:
    """The least and the greatest value of a column by the statistics of its row groups. None and None if they are unknown, if
    there is no value, or if one of them is a date or time that Python cannot represent."""
    try:
        known = [(one.min, one.max) for one in groups if one.has_min_max]
    except OverflowError:
        return None, None
    if not known or len(known) != sum(one.num_values > 0 for one in groups):
        return None, None
    return min(low for low, _ in known), max(high for _, high in known)
