"""Bytes in text (base64, hexadecimal, Latin-1), and decimals whose digits are a big-endian integer in bytes. Vectorised, pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels import nested
from lsmlake.kernels.decimals import check

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BITS = np.full(256, 255, np.uint8)
_BITS[list(_ALPHABET)] = range(64)
_BITS[ord("=")] = 0
_NIBBLES = np.full(256, 255, np.uint8)
_NIBBLES[list(b"0123456789abcdef")] = range(16)
_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_HEX = r"^(?:[0-9a-f]{2})*$"
_DECIMAL_BYTES = 16
_CHARACTERS = np.frombuffer(_ALPHABET, np.uint8)


def from_base64(texts: pa.Array) -> pa.Array:
    """The bytes of base64 texts. Raises pa.ArrowInvalid for other text."""
    check(pc.match_substring_regex(texts, _BASE64), "the text is not base64")
    characters, lengths = _characters(texts)
    bits = _BITS[characters].reshape(-1, 4).astype(np.uint32)
    joined = bits[:, 0] << 18 | bits[:, 1] << 12 | bits[:, 2] << 6 | bits[:, 3]
    data = np.stack([joined >> 16, joined >> 8, joined], axis=1).astype(np.uint8).ravel()
    padding = characters.reshape(-1, 4) == ord("=")
    kept = np.ones(len(data), bool)
    kept[1::3], kept[2::3] = ~padding[:, 2], ~padding[:, 3]
    ends = np.append(0, np.cumsum(kept))[np.append(0, np.cumsum(lengths // 4 * 3))]
    return _binary(data[kept], np.diff(ends), texts)


def from_hex(texts: pa.Array) -> pa.Array:
    """The bytes of hexadecimal texts. Raises pa.ArrowInvalid for other text."""
    texts = pc.ascii_lower(texts)
    check(pc.match_substring_regex(texts, _HEX), "the text is not hexadecimal")
    characters, lengths = _characters(texts)
    pairs = _NIBBLES[characters].reshape(-1, 2)
    return _binary(pairs[:, 0] << 4 | pairs[:, 1], lengths // 2, texts)


def from_latin_1(texts: pa.Array) -> pa.Array:
    """The bytes of texts in which each character has the number of its byte. Raises pa.ArrowInvalid for other characters."""
    characters, _ = _characters(texts)
    try:
        data = characters.tobytes().decode().encode("latin-1")
    except UnicodeEncodeError as other:
        raise pa.ArrowInvalid("the text has characters that stand for no byte") from other
    return _binary(np.frombuffer(data, np.uint8), np.asarray(pc.fill_null(pc.utf8_length(texts), 0)), texts)


def to_base64(values: pa.Array) -> pa.Array:
    """The base64 texts of bytes, with padding."""
    data, lengths = _characters(values)
    groups = -(-lengths // 3)
    padded = np.zeros(int(groups.sum()) * 3, np.uint8)
    begins = np.cumsum(groups * 3) - groups * 3
    padded[np.arange(len(data)) + np.repeat(begins - (np.cumsum(lengths) - lengths), lengths)] = data
    bits = padded.reshape(-1, 3).astype(np.uint32)
    joined = bits[:, 0] << 16 | bits[:, 1] << 8 | bits[:, 2]
    made = _CHARACTERS[np.stack([joined >> 18, joined >> 12 & 63, joined >> 6 & 63, joined & 63], axis=1).ravel()]
    ends = np.cumsum(groups * 4)
    made[ends[lengths % 3 > 0] - 1] = made[ends[lengths % 3 == 1] - 2] = ord("=")
    return _text(made, groups * 4, values)


def to_latin_1(values: pa.Array) -> pa.Array:
    """Texts in which each character has the number of its byte."""
    data, lengths = _characters(values)
    sizes = 1 + (data >= 128)  # in UTF-8
    ends = np.append(0, np.cumsum(sizes))
    made = np.empty(ends[-1], np.uint8)
    made[ends[1:] - 1] = np.where(data < 128, data, 128 | data & 63)
    made[ends[:-1][data >= 128]] = 192 | data[data >= 128] >> 6
    return _text(made, np.diff(ends[np.append(0, np.cumsum(lengths))]), values)


def of_decimals(values: pa.Decimal128Array) -> pa.Array:
    """The unscaled integers of decimals as the fewest bytes, big-endian in two's complement: the inverse of `to_decimals`."""
    values = values.fill_null(0) if values.null_count else values
    start = values.offset * _DECIMAL_BYTES
    data = np.frombuffer(values.buffers()[1], np.uint8)[start : start + len(values) * _DECIMAL_BYTES]
    digits = data.reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    signs = np.where(digits[:, :1] >= 128, 255, 0)
    spare = (digits[:, :-1] == signs) & ((digits[:, 1:] >= 128) == (signs == 255))
    first = np.logical_and.accumulate(spare, axis=1).sum(axis=1)
    kept = np.arange(_DECIMAL_BYTES) >= first[:, None]
    offsets = nested.offsets(_DECIMAL_BYTES - first)
    return pa.Array.from_buffers(pa.binary(), len(values), [None, offsets.buffers()[1], pa.py_buffer(digits[kept])])


def to_decimals(data: pa.Array, scale: int) -> pa.Array:
    """Reads bytes as big-endian two's complement integers, the unscaled values of decimals. The type has 76 digits if one of the
    integers has 16 bytes or more. Raises pa.ArrowInvalid for integers of no bytes or of more than 76 digits."""
    characters, lengths = _characters(data)
    fits = (lengths > 0) & (lengths <= 2 * _DECIMAL_BYTES)
    check(pc.or_(data.is_null(), pa.array(fits)), "the bytes are no integer of at most 76 digits")
    wide = lengths.max(initial=0) >= _DECIMAL_BYTES  # sixteen bytes may have 39 digits
    width, type_ = (2 * _DECIMAL_BYTES, pa.decimal256(76, scale)) if wide else (_DECIMAL_BYTES, pa.decimal128(38, scale))
    ends = np.cumsum(lengths)
    made = np.zeros((len(data), width), np.uint8)
    for place in range(int(lengths.max(initial=0))):  # from the least significant byte on
        rows = np.flatnonzero(lengths > place)
        made[rows, place] = characters[ends[rows] - 1 - place]
    negative = np.zeros(len(data), bool)
    held = np.flatnonzero(lengths > 0)
    negative[held] = characters[ends[held] - lengths[held]] >= 128
    made[negative[:, None] & (np.arange(width) >= lengths[:, None])] = 255
    array = pa.Array.from_buffers(type_, len(data), [None, pa.py_buffer(made)])
    array.validate(full=True)
    return pc.if_else(data.is_valid(), array, pa.scalar(None, type_))


def _characters(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of all values, one after the other, and the length of each value, 0 for a null."""
    lengths = np.asarray(pc.fill_null(pc.binary_length(array), 0)).astype(np.int64)
    plain = array.cast(pa.large_binary()).drop_null()
    if not len(plain):
        return np.empty(0, np.uint8), lengths
    offsets = np.frombuffer(plain.buffers()[1], np.int64)[plain.offset : plain.offset + len(plain) + 1]
    return np.frombuffer(plain.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]], lengths


def _text(data: np.ndarray, lengths: np.ndarray, values: pa.Array) -> pa.Array:
    """Texts of these lengths in bytes; null where `values` is."""
    offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int64())
    made = pa.Array.from_buffers(pa.large_string(), len(lengths), [None, offsets.buffers()[1], pa.py_buffer(data)])
    return pc.if_else(values.is_valid(), made, pa.scalar(None, pa.large_string())) if values.null_count else made


def _binary(data: np.ndarray, lengths: np.ndarray, texts: pa.Array) -> pa.Array:
    """Values of these lengths; null where `texts` is."""
    offsets = nested.offsets(lengths)
    made = pa.Array.from_buffers(
        pa.binary(), len(lengths), [None, offsets.buffers()[1], pa.py_buffer(np.ascontiguousarray(data))]
    )
    return pc.if_else(texts.is_valid(), made, pa.scalar(None, pa.binary()))
