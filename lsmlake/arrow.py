"""Whatever users bring as data, as an Arrow table."""

from __future__ import annotations

import pyarrow as pa

from lsmlake.errors import InvalidData, Wording


def as_table(data: object) -> pa.Table:
    """`data` with the Arrow stream interface (PyArrow, pandas, Polars, DuckDB), a mapping of columns or a list of mappings.

    Zero-copy where the source is Arrow. Raises InvalidData.
    """
    if type(data).__module__.startswith("pyspark."):
        raise InvalidData(
            "a Spark DataFrame needs Spark attached",
            found=type(data).__name__,
            cure=Wording('use lsmlake.connect("...", spark=spark)', command="use a Python program with a Spark session"),
        )
    try:
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data])
        if isinstance(data, list):
            return pa.Table.from_pylist(data)
        if isinstance(data, (pa.Table, dict)) or hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
            return pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as broken:
        raise InvalidData("the data cannot be turned into an Arrow table", found=broken, cure="bring a pyarrow.Table") from broken
    raise InvalidData(
        "the data has no Arrow stream interface",
        expected="pyarrow, pandas, Polars or DuckDB data, a dict of columns or a list of dicts",
        found=type(data).__name__,
        cure="convert it to a pyarrow.Table",
    )
