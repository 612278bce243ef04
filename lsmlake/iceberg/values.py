"""Single values in Iceberg's encodings: binary for bounds, JSON for defaults, and for the partition values of Avro files.

Source: the specification of Apache Iceberg, "Appendix D: Single-value serialization".
"""

from __future__ import annotations

import datetime
import struct
from decimal import Context, Decimal

import pyarrow as pa

from lsmlake.schema.defaults import encoded
from lsmlake.types.table import column_type

_EPOCH = datetime.datetime(1970, 1, 1)
_DAY = datetime.date(1970, 1, 1)
_MICRO = datetime.timedelta(microseconds=1)
_EXACT = Context(prec=60)


def number_of(value: object) -> object:
    """Dates as days and timestamps as microseconds since 1970; other values as they are."""
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - _EPOCH) // _MICRO  # those with a zone are in UTC
    return (value - _DAY).days if isinstance(value, datetime.date) else value


def unscaled(value: Decimal) -> int:
    """The digits of a decimal, as an integer."""
    return int(value.scaleb(-value.as_tuple().exponent, _EXACT))


def binary(value: object, type_: pa.DataType) -> bytes:
    """The encoding of a bound. `value`: as manifests of lsmlake hold it."""
    if pa.types.is_decimal(type_):
        number = unscaled(value.quantize(Decimal((0, (1,), -type_.scale)), context=_EXACT))
        return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
    if (form := column_type(type_).bound) is not None:
        return struct.pack(form, number_of(value))
    return value.encode() if isinstance(value, str) else value


def default_json(value: pa.Scalar) -> object:
    """The JSON value of a default."""
    type_ = value.type
    if not value.is_valid:
        return None
    if pa.types.is_date32(type_):
        return value.as_py().isoformat()
    if pa.types.is_timestamp(type_):
        text = value.as_py().replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}+00:00" if type_.tz else text
    return value.as_py() if pa.types.is_floating(type_) else encoded(value)
