"""The index of a data file: Bloom filters and value indexes of columns, by field id.

The bytes are {"bloom_filters": [{id, family, probes, bits}], "values": [{id, kind, family, values, lengths, nulls, numbers}]},
packed by `schema.envelope`; they are in the manifest entry of the file or in a file beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lsmlake.format import bloom_filter, value_index
from lsmlake.format.bloom_filter import BloomFilter
from lsmlake.format.value_index import ValueIndex
from lsmlake.schema.envelope import pack, unpack
from lsmlake.types.json_shape import JsonKind, check, integer, listing

KIND = "FIDX"
_RATIO_MAX = 1 << 15  # consecutive values nearly vanish; zstd does not reach more
_OBJECTS = listing(JsonKind("an object", lambda value: isinstance(value, dict)))


class FileIndex(NamedTuple):
    """What is known of the values in a data file, by the field ids of columns."""

    filters: Mapping[int, BloomFilter]
    values: Mapping[int, ValueIndex]

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        return sum(len(one.bits) for one in self.filters.values()) + sum(one.bytes for one in self.values.values())


NOTHING = FileIndex({}, {})


def encode(index: FileIndex) -> bytes:
    filters = [{"id": number, **one._asdict()} for number, one in index.filters.items()]
    return pack(KIND, {"bloom_filters": filters, "values": [{"id": n, **one.fields()} for n, one in index.values.items()]})


def decode(data: bytes, rows: int, where: str) -> FileIndex:
    """`rows`: of the data file. Raises Corrupt or UnsupportedFormat naming `where`."""
    found = unpack(KIND, data, where, _RATIO_MAX)
    check("file index", found, {"bloom_filters": _OBJECTS, "values": _OBJECTS}, where)
    for one in found["bloom_filters"]:
        check("Bloom filter", one, {"id": integer(), **bloom_filter.FIELDS}, where)
    for one in found["values"]:
        check("value index", one, {"id": integer(), **value_index.FIELDS}, where)
    filters = {one.pop("id"): BloomFilter(**one) for one in found["bloom_filters"]}
    return FileIndex(filters, {one.pop("id"): ValueIndex.of_fields(one, rows, where) for one in found["values"]})
