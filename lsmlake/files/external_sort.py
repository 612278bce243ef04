"""Sorts rows that may not fit into memory. DuckDB sorts, and spills to local disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lsmlake.dialect.connection import connected, memory_limit, registered
from lsmlake.dialect.types import quoted

_BATCH_ROWS = 1 << 16


def sorted_rows(
    tables: Iterable[pa.Table], schema: pa.Schema, by: Sequence[str], memory_bytes: int, what: str
) -> Iterator[pa.Table]:
    """Yields all rows in ascending order of the columns `by`; nulls come first and NaN is the greatest float, as in Spark.

    Args:
        tables: The rows, all with the columns of `schema`.
        schema: The columns.
        by: The columns to sort by, the most significant first.
        memory_bytes: The memory that the sort may use; it spills beyond that.
        what: The feature that sorts, for the error if DuckDB is missing.

    Raises:
        MissingDependency: DuckDB is not installed.
        EngineFailed: The memory or the local disk does not suffice.
    """
    batches = (batch for table in tables for batch in table.to_batches())
    with connected("UTC", what) as connection, registered(connection, "rows", schema, batches):
        connection.execute(f"SET memory_limit = '{memory_limit(memory_bytes)}'; SET preserve_insertion_order = false")
        order = ", ".join(f"{quoted(name)} ASC NULLS FIRST" for name in by)
        held: list[pa.RecordBatch] = []
        for batch in connection.sql(f"SELECT * FROM rows ORDER BY {order}").to_arrow_reader():
            held.append(batch)
            if sum(each.num_rows for each in held) >= _BATCH_ROWS:
                yield pa.Table.from_batches(held).cast(schema)
                held = []
        if held:
            yield pa.Table.from_batches(held).cast(schema)
