"""Puffin files: the deletion vectors that one commit changed in one bucket, readable by Iceberg engines.

    magic  blob 1 ... blob n  |  magic  JSON payload  payload bytes (int32 LE)  flags (4 bytes, 0)  magic
           vectors            |  footer

The payload describes each blob: type `deletion-vector-v1`, offset and length in the file, and in its properties its data file and
cardinality. The snapshot of a vector is unknown when the file is written, so snapshot id and sequence number are -1; `fields`
names Iceberg's row-position column. Invariant: one blob per data file. Source: Iceberg's Puffin specification, version 1.

lsmlake reads a blob by the offset and length in the index manifest; the footer serves other engines and verification. The footer
has no checksum: damage that leaves it well-formed is only detected by comparison with the index manifest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from lsmlake.errors import Corrupt
from lsmlake.format.deletion_vector import CURE, DeletionVector, demand

_MAGIC = b"PFA1"
_BLOB_TYPE = "deletion-vector-v1"
_ROW_POSITION_FIELD = 2147483645  # Iceberg's reserved id of the metadata column `_pos`
_DIGITS = re.compile("[0-9]{1,18}")
_TAIL_BYTES = 4 + 4 + len(_MAGIC)  # payload size, flags, magic


class Blob(NamedTuple):
    """The vector at bytes [offset, offset + length) of the file, with `cardinality` deleted rows."""

    offset: int
    length: int
    cardinality: int


def encode(vectors: Mapping[str, DeletionVector]) -> tuple[bytes, dict[str, Blob]]:
    """Encodes vectors (by data file name) as a Puffin file. Returns its bytes and the location of each vector, in input order."""
    blobs, placed, offset = [], {}, len(_MAGIC)
    for name, vector in vectors.items():
        blobs.append(vector.encode())
        placed[name] = Blob(offset, len(blobs[-1]), vector.cardinality)
        offset += len(blobs[-1])
    payload = _encode_payload(placed)
    tail = len(payload).to_bytes(4, "little", signed=True) + bytes(4) + _MAGIC
    return b"".join([_MAGIC, *blobs, _MAGIC, payload, tail]), placed


def decode(data: bytes, where: str) -> dict[str, DeletionVector]:
    """Decodes a Puffin file from `encode` into vectors by data file name. Raises Corrupt naming `where` if it is damaged."""
    vectors = {}
    for name, blob in decode_footer(data, where).items():
        place = f"{where}, vector of {name}"
        vector = DeletionVector.decode(memoryview(data)[blob.offset : blob.offset + blob.length], place)
        demand(len(vector) == blob.cardinality, "wrong cardinality", place, blob.cardinality, len(vector))
        vectors[name] = vector
    return vectors


def decode_footer(data: bytes, where: str) -> dict[str, Blob]:
    """Returns the location of the vector of each data file in the Puffin file `data`. Raises Corrupt."""
    size_min = 2 * len(_MAGIC) + _TAIL_BYTES
    demand(len(data) >= size_min, "Puffin file is truncated", where, f"at least {size_min} bytes", len(data))
    tail = data[-_TAIL_BYTES:]
    payload_size = int.from_bytes(tail[:4], "little", signed=True)
    payload_start = len(data) - _TAIL_BYTES - payload_size
    blobs_end = payload_start - len(_MAGIC)
    demand(data[:4] == _MAGIC, "not a Puffin file (bad magic at its start)", where, _MAGIC, data[:4])
    demand(tail[8:] == _MAGIC, "not a Puffin file (bad magic at its end)", where, _MAGIC, tail[8:])
    demand(tail[4:8] == bytes(4), "Puffin footer has unknown flags", where, bytes(4).hex(), tail[4:8].hex())
    demand(
        0 <= payload_size <= len(data) - size_min,
        "Puffin footer has an invalid size",
        where,
        f"0 to {len(data) - size_min} bytes",
        payload_size,
    )
    magic = data[blobs_end:payload_start]
    demand(magic == _MAGIC, "Puffin footer does not start at the expected position (bad magic)", where, _MAGIC, magic)

    placed = _decode_payload(data[payload_start:-_TAIL_BYTES], where)
    for name, blob in placed.items():
        inside = len(_MAGIC) <= blob.offset and 0 <= blob.length <= blobs_end - blob.offset
        demand(
            inside,
            f"the vector of {name} is outside the blobs",
            where,
            f"bytes {len(_MAGIC)} to {blobs_end}",
            f"{blob.length} bytes at {blob.offset}",
        )
    return placed


def _encode_payload(placed: Mapping[str, Blob]) -> bytes:
    described = [
        {
            "type": _BLOB_TYPE,
            "fields": [_ROW_POSITION_FIELD],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": blob.offset,
            "length": blob.length,
            "properties": {"referenced-data-file": name, "cardinality": str(blob.cardinality)},
        }
        for name, blob in placed.items()
    ]
    payload = {"blobs": described, "properties": {"created-by": "lsmlake"}}
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def _decode_payload(payload: bytes, where: str) -> dict[str, Blob]:
    try:
        pairs = [_decode_blob(described) for described in json.loads(payload.decode())["blobs"]]
        placed = dict(pairs)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise Corrupt("Puffin footer cannot be read", where=where, found=repr(error), cure=CURE) from error
    demand(len(placed) == len(pairs), "Puffin file holds two vectors of one data file", where, len(placed), len(pairs))
    return placed


def _decode_blob(described: dict) -> tuple[str, Blob]:
    if described["type"] != _BLOB_TYPE or "compression-codec" in described:
        raise ValueError(f"not an uncompressed {_BLOB_TYPE} blob: {described}")
    properties = described["properties"]
    name, cardinality = properties["referenced-data-file"], properties["cardinality"]
    if type(name) is not str or type(cardinality) is not str or not _DIGITS.fullmatch(cardinality):
        raise ValueError(f"invalid properties: {properties}")
    if type(described["offset"]) is not int or type(described["length"]) is not int:  # excludes bool
        raise ValueError(f"offset or length is not an integer: {described}")
    return name, Blob(described["offset"], described["length"], int(cardinality))
