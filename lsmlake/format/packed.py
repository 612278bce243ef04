"""The content of binary metadata files: zstd of a msgpack object in the common envelope, and values as msgpack stores them.

Dates are stored as days, timestamps as microseconds, decimals as text.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgpack
import pyarrow as pa

from lsmlake.errors import Corrupt
from lsmlake.schema import envelope
from lsmlake.types.json_shape import RESTORE, shown
from lsmlake.types.table import column_type, named

_CODEC = pa.Codec("zstd", 3)
_CONTENT_BYTES_MAX = 1 << 30
_CONTENT_RATIO_MAX, _CONTENT_SLACK = 1 << 10, 1 << 24
"""Limits of the decompressed size: a multiple of the file's size plus a constant."""


def pack(kind: str, content: dict) -> bytes:
    raw = msgpack.packb(content)
    return envelope.wrap(kind, len(raw).to_bytes(8, "big") + _CODEC.compress(raw, asbytes=True))


def unpack(kind: str, data: bytes, where: str, ratio_max: int = _CONTENT_RATIO_MAX) -> dict:
    """Returns the object in a file. `ratio_max`: of its size to that of the payload, aside from a constant. Raises Corrupt or
    UnsupportedFormat naming `where`."""
    payload = envelope.unwrap(kind, data, where)
    size, most = int.from_bytes(payload[:8], "big"), min(_CONTENT_BYTES_MAX, ratio_max * len(payload) + _CONTENT_SLACK)
    if size > most:
        raise Corrupt("content is too large", where=where, expected=f"at most {most} bytes", found=size, cure=RESTORE)
    try:
        raw = _CODEC.decompress(payload[8:], size, asbytes=True)
        return msgpack.unpackb(raw)
    except (pa.ArrowException, OSError, ValueError, msgpack.UnpackException) as broken:
        raise Corrupt("content cannot be unpacked", where=where, found=shown(str(broken)), cure=RESTORE) from broken


def check_lengths(what: str, columns: Iterable[list], where: str) -> None:
    """Raises Corrupt unless the columns have the same length."""
    if len(lengths := sorted(set(map(len, columns)))) > 1:
        raise Corrupt(f"{what} has columns of different lengths", where=where, expected="one length", found=lengths, cure=RESTORE)


def stored(values: pa.ChunkedArray | pa.Scalar) -> list | object:
    """Converts values to what msgpack stores."""
    plain = values.cast(column_type(values.type).stored)
    return plain.as_py() if isinstance(plain, pa.Scalar) else plain.to_pylist()


def loaded(values: list, name: str) -> pa.Array:
    """The inverse of `stored`, for values of the type with this name. Raises what pyarrow raises for other values."""
    row = named(name)
    return pa.array(values, row.stored).cast(row.arrow)
