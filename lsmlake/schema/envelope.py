"""The envelope of all metadata files: kind, format version and checksum; and the packed content of binary ones.

Binary (manifests): magic `LSMK` | kind, 4 ASCII bytes | version, uint16 | payload | CRC-32 of the preceding bytes, uint32; all
big-endian. The payload is a length and zstd of a msgpack object (`pack`), in which dates are stored as days, timestamps as
microseconds, decimals as text. JSON (schemas, snapshots): the object has the fields "format", "version" and "checksum", the
CRC-32 (hex) of the object without "checksum", serialised with sorted keys and no blanks.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping

import msgpack
import pyarrow as pa

from lsmlake.errors import Corrupt, UnsupportedFormat
from lsmlake.types.json_shape import RESTORE, shown
from lsmlake.types.type_table import TABLE, column_type, named

VERSION = 1
VIEW_TABLES = max(row.version for row in TABLE) + 1
"""The version of the schema of a view table."""
_NEWEST = {"schema": VIEW_TABLES}
"""The newest version of a kind of file, if it is not 1. A file states the oldest version that has all features of the file."""
_MAGIC = b"LSMK"
_HEAD = struct.Struct(">4s4sH")
_TAIL = struct.Struct(">I")
_RESTORE = "the file is damaged; restore it from a copy, or roll back to a snapshot that does not use it"


def wrap(kind: str, payload: bytes) -> bytes:
    head = _HEAD.pack(_MAGIC, kind.encode("ascii"), VERSION)
    return head + payload + _TAIL.pack(zlib.crc32(payload, zlib.crc32(head)))


def unwrap(kind: str, data: bytes, where: str) -> bytes:
    """Returns the payload. Raises Corrupt or UnsupportedFormat naming `where`."""
    if len(data) < _HEAD.size + _TAIL.size:
        raise Corrupt(
            "file is truncated", where=where, expected=f"{_HEAD.size + _TAIL.size} bytes or more", found=len(data), cure=_RESTORE
        )
    magic, found_kind, version = _HEAD.unpack_from(data)
    if magic != _MAGIC or found_kind != kind.encode("ascii"):
        raise Corrupt(
            "file does not begin with the expected magic",
            where=where,
            expected=_MAGIC + kind.encode(),
            found=magic + found_kind,
            cure=_RESTORE,
        )
    checksum, actual = _TAIL.unpack_from(data, len(data) - _TAIL.size)[0], zlib.crc32(memoryview(data)[: -_TAIL.size])
    _check_version(version, where, VERSION)
    if checksum != actual:
        raise Corrupt(
            "checksum does not match", where=where, expected=f"{checksum:#010x}", found=f"{actual:#010x}", cure=_RESTORE
        )
    return data[_HEAD.size : -_TAIL.size]


def wrap_json(kind: str, content: Mapping[str, object], version: int = VERSION, indent: int | None = 2) -> bytes:
    """`indent`: None makes it shorter, and in much less time, for content that people read as a table."""
    content = {"format": f"lsmlake-{kind}", "version": version, **content}
    return json.dumps({**content, "checksum": _json_checksum(content)}, indent=indent, ensure_ascii=False).encode()


def unwrap_json(kind: str, data: bytes, where: str) -> dict:
    """Returns the object without the fields of the envelope. Raises Corrupt or UnsupportedFormat naming `where`."""
    try:
        content = json.loads(data)
        if not isinstance(content, dict):
            raise ValueError
    except (ValueError, RecursionError):
        raise Corrupt(
            "file is not a JSON object", where=where, expected=f"lsmlake-{kind}", found=f"{len(data)} bytes", cure=_RESTORE
        ) from None
    if content.get("format") != f"lsmlake-{kind}":
        raise Corrupt(
            "file is of another kind", where=where, expected=f"lsmlake-{kind}", found=content.get("format"), cure=_RESTORE
        )
    _check_version(content.get("version"), where, _NEWEST.get(kind, VERSION))
    checksum = content.pop("checksum", None)
    try:
        actual = _json_checksum(content)
    except RecursionError:
        raise Corrupt("file is nested too deeply", where=where, expected=f"lsmlake-{kind}", cure=_RESTORE) from None
    if checksum != actual:
        raise Corrupt("checksum does not match", where=where, expected=checksum, found=actual, cure=_RESTORE)
    del content["format"], content["version"]
    return content


def _json_checksum(content: Mapping[str, object]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"  # a damaged file may hold surrogates


def _check_version(version: object, where: str, newest: int) -> None:
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise Corrupt("file has no valid format version", where=where, expected=f"1 to {newest}", found=version, cure=_RESTORE)
    if version > newest:
        raise UnsupportedFormat(
            "file has a newer format version",
            where=where,
            expected=f"version {newest} or older",
            found=f"version {version}",
            cure="upgrade lsmlake",
        )


# -- binary files: zstd of msgpack ------------------------------------------------------------------------------------


_CODEC = pa.Codec("zstd", 3)
_CONTENT_BYTES_MAX = 1 << 30
_CONTENT_RATIO_MAX, _CONTENT_SLACK = 1 << 10, 1 << 24
"""Limits of the decompressed size: a multiple of the file's size plus a constant."""


def pack(kind: str, content: dict) -> bytes:
    raw = msgpack.packb(content)
    return wrap(kind, len(raw).to_bytes(8, "big") + _CODEC.compress(raw, asbytes=True))


def unpack(kind: str, data: bytes, where: str, ratio_max: int = _CONTENT_RATIO_MAX) -> dict:
    """Returns the object in a file. `ratio_max`: the greatest ratio of its size to the size of the payload, aside from a
    constant. Raises Corrupt or UnsupportedFormat naming `where`."""
    payload = unwrap(kind, data, where)
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
    """Converts values to values that msgpack can store."""
    type_ = column_type(values.type).stored
    plain = values if values.type == type_ else values.cast(type_)
    return plain.as_py() if isinstance(plain, pa.Scalar) else plain.to_pylist()


def loaded(values: list, name: str) -> pa.Array:
    """The inverse of `stored`, for values of the type with this name. Raises what pyarrow raises for other values."""
    row = named(name)
    array = pa.array(values, row.stored)
    return array if row.stored == row.arrow else array.cast(row.arrow)
