"""Sorts rows that may not fit into memory. DuckDB sorts, and spills to local disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lsmlake.dialect.connection import memory_limit, registered
from lsmlake.dialect.types import quoted
from lsmlake.extras import need
from lsmlake.store.scratch import scratch_folder

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
    duckdb = need("duckdb", what)
    batches = (batch for table in tables for batch in table.to_batches())
    with scratch_folder() as folder:
        config = {"memory_limit": memory_limit(memory_bytes), "temp_directory": folder, "preserve_insertion_order": "false"}
        with duckdb.connect(":memory:", config=config) as connection, registered(connection, "rows", schema, batches):
            order = ", ".join(f"{quoted(name)} ASC NULLS FIRST" for name in by)
            found = pa.RecordBatchReader.from_stream(connection.sql(f"SELECT * FROM rows ORDER BY {order}"))
            held: list[pa.RecordBatch] = []
            for batch in found:
                held.append(batch)
                if sum(each.num_rows for each in held) >= _BATCH_ROWS:
                    yield pa.Table.from_batches(held).cast(schema)
                    held = []
            if held:
                yield pa.Table.from_batches(held).cast(schema)
