"""Columns of intervals as text, vectorised, as Spark casts them to STRING: INTERVAL '1 02:03:04.5' DAY TO SECOND."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels.text_format import TEXT, joined
from lsmlake.types.intervals import SIZES, Interval, has_result_interval, interval_of

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
_LAYOUT = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])


def with_texts(rows: Rows) -> Rows:
    """The rows with text instead of intervals, also inside of arrays, structs and maps."""
    if not any(map(has_result_interval, rows.schema)):
        return rows
    columns = [_all_texts(column, field) for column, field in zip(rows.columns, rows.schema, strict=True)]
    return type(rows).from_arrays(columns, names=rows.schema.names)


def parts(column: pa.Array) -> np.ndarray:
    """The months, days and nanoseconds of intervals, where they are not null."""
    held = column.buffers()[1]
    return np.frombuffer(held if held is not None else b"", _LAYOUT)[column.offset :][: len(column)]


def _all_texts(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if not has_result_interval(field):
        return column
    if isinstance(column, pa.Array):
        return _texts(column, field)
    chunks = [_texts(chunk, field) for chunk in column.chunks]
    return pa.chunked_array(chunks, None if chunks else _texts(pa.array([], field.type), field).type)


def _texts(column: pa.Array, field: pa.Field) -> pa.Array:
    kind = interval_of(field)
    if kind is not None:
        text = _calendar(column) if kind.is_calendar else _months(column, kind) if kind.is_months else _times(column, kind)
        return pc.if_else(column.is_valid(), text, pa.scalar(None, TEXT)).cast(pa.string())
    if not has_result_interval(field):
        return column
    mask = column.is_null()
    if pa.types.is_struct(field.type):
        inner = [_texts(one, of) for one, of in zip(column.flatten(), field.type, strict=True)]
        return pa.StructArray.from_arrays(inner, [of.name for of in field.type], mask=mask)
    offsets = pa.array(_offsets(column), pa.int32())
    if pa.types.is_map(field.type):
        entries = column.offsets[0].as_py(), column.offsets[-1].as_py()
        keys, items = (one.slice(entries[0], entries[1] - entries[0]) for one in (column.keys, column.items))
        return pa.MapArray.from_arrays(
            offsets, _texts(keys, field.type.key_field), _texts(items, field.type.item_field), mask=mask
        )
    return pa.ListArray.from_arrays(offsets, _texts(column.flatten(), field.type.value_field), mask=mask)


def _offsets(column: pa.Array) -> np.ndarray:
    """The index at which the items of each list begin, counted over the items of all lists that are not null."""
    places = column.offsets.to_numpy()
    lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), np.diff(places), 0)
    return places - places[0] if pa.types.is_map(column.type) else np.concatenate(([0], np.cumsum(lengths)))


def _months(column: pa.Array, kind: Interval) -> pa.Array:
    months = parts(column)["months"].astype(np.int64)
    size = np.abs(months)
    if kind.first == kind.last:
        return _around(months, _text(size // (12 if kind.last == "YEAR" else 1)), kind)
    return _around(months, joined(_text(size // 12), "-", _text(size % 12)), kind)


def _times(column: pa.Array, kind: Interval) -> pa.Array:
    micros = column.cast(pa.duration("us")).cast(pa.int64()).fill_null(0).to_numpy()
    rest = np.abs(micros).astype(np.uint64)  # the least int64 stays negative, and is right as uint64
    parts: list[pa.Array | str] = []
    for field in kind.fields:
        amount, rest = np.divmod(rest, np.uint64(SIZES[field]))
        parts += [" " if field == "HOUR" else ":"] if parts else []
        parts.append(_text(amount) if field == "DAY" else _padded(amount, 2))
    if kind.last == "SECOND":
        parts.append(_fraction(rest))
    return _around(micros, joined(*parts), kind)


def _calendar(column: pa.Array) -> pa.Array:
    """Formats calendar intervals as `1 years 2 months`, without amounts that are 0."""
    held = parts(column)
    micros = held["nanoseconds"] // 1000
    size, sign = np.abs(micros), np.where(micros < 0, -1, 1)
    months, signs = np.abs(held["months"].astype(np.int64)), np.where(held["months"] < 0, -1, 1)
    seconds = size % SIZES["MINUTE"]
    amounts = {
        "years": _text(months // 12 * signs),
        "months": _text(months % 12 * signs),
        "days": _text(held["days"]),
        "hours": _text(size // SIZES["HOUR"] * sign),
        "minutes": _text(size // SIZES["MINUTE"] % 60 * sign),
        "seconds": joined(_minus((micros < 0) & (seconds > 0)), _text(seconds // 1_000_000), _fraction(seconds % 1_000_000)),
    }
    words = [pc.if_else(pc.equal(text, "0"), "", joined(text, f" {unit} ")) for unit, text in amounts.items()]
    text = pc.utf8_rtrim_whitespace(joined(*words))
    return pc.if_else(pc.equal(text, ""), "0 seconds", text)


def _around(numbers: np.ndarray, text: pa.Array, kind: Interval) -> pa.Array:
    return joined("INTERVAL '", _minus(numbers < 0), text, f"' {str(kind).removeprefix('INTERVAL ')}")


def _minus(negative: np.ndarray) -> pa.Array:
    return pc.if_else(pa.array(negative), pa.scalar("-", TEXT), pa.scalar("", TEXT))


def _text(numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers).cast(TEXT)


def _padded(numbers: np.ndarray, width: int) -> pa.Array:
    return pc.utf8_lpad(_text(numbers), width, "0")


def _fraction(micros: np.ndarray) -> pa.Array:
    digits = pc.utf8_rtrim(_padded(micros, 6), "0")
    return pc.if_else(pa.array(micros == 0), pa.scalar("", TEXT), joined(".", digits))
