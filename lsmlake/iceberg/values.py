"""Single values in Iceberg's encodings: binary for bounds, JSON for defaults, and for the partition values of Avro files.

Source: the specification of Apache Iceberg, "Appendix D: Single-value serialization".
"""

from __future__ import annotations

import struct
from decimal import Context, Decimal

import pyarrow as pa

from lsmlake.schema.defaults import encoded
from lsmlake.types.table import column_type, iso_text, number_of

_EXACT = Context(prec=60)


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
    if (row := column_type(type_)) is not None and row.iso is not None:
        return iso_text(value)
    return value.as_py() if pa.types.is_floating(type_) else encoded(value)
