"""How many digits the numbers of a column have at most, as the statistics of its files say.

DuckDB computes a DECIMAL in 64 or in 128 bits by its type alone, and Spark's types of products and sums have many more digits
than the values. Where the statistics show that a result has few digits, `dialect.arithmetic` computes it in 64 bits.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.options.merge_options import DEDUPLICATE, FIRST_ROW
from lsmlake.read.prune import file_bounds
from lsmlake.tables.version import Version


def most_digits(version: Version, name: str) -> int | None:
    """The digits that a value of a column of integers or decimals has at most, those after the point included; None for other
    columns, if a file has no statistics of it, or if a read computes values, as merge engines that combine rows do."""
    schema = version.schema
    kind, engine = schema.plain_columns.field(name).type, version.options.merge.engine
    if not (pa.types.is_decimal(kind) or pa.types.is_integer(kind)):
        return None
    if version.fallback is not None or not (schema.append_only or engine in (DEDUPLICATE, FIRST_ROW)):
        return None
    bounds = file_bounds(version.entries(), schema, [name]).get(name)
    if bounds is None or not len(bounds.min) or bounds.min.type != kind or bounds.min.null_count or bounds.max.null_count:
        return None
    return max(map(_digits, (pc.min(bounds.min), pc.max(bounds.max))))


def _digits(value: pa.Scalar) -> int:
    number = Decimal(value.as_py())
    return len(number.as_tuple().digits)
