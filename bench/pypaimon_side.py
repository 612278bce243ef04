"""The pypaimon side of `embedded_upsert`, run by the Python of pypaimon's own environment, without lsmlake.

python pypaimon_side.py FOLDER SOURCE KEY BUCKETS: upsert the Parquet file SOURCE into a new table below FOLDER; prints a line of
JSON {seconds, rows, versions}, `rows` being a Parquet file of the table as pypaimon reads it back.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from importlib.metadata import version

import pyarrow as pa
import pyarrow.parquet as pq
from pypaimon import CatalogFactory, Schema


def main(folder: str, source: str, key: str, buckets: str) -> None:
    rows = pq.read_table(source)
    options = {"bucket": buckets, "file.format": "parquet", "file.compression": "zstd"}
    catalog = CatalogFactory.create({"warehouse": folder})
    catalog.create_database("bench", False)
    schema = Schema.from_pyarrow_schema(rows.schema, primary_keys=[key], options=options)
    catalog.create_table("bench.orders", schema, False)
    table = catalog.get_table("bench.orders")
    start = time.perf_counter()
    upsert(table, rows)
    seconds = time.perf_counter() - start
    kept = f"{folder}/rows.parquet"
    pq.write_table(read(table).cast(rows.schema), kept)
    versions = f"pypaimon {version('pypaimon')}, pyarrow {pa.__version__}, python {platform.python_version()}"
    print(json.dumps({"seconds": seconds, "rows": kept, "versions": versions}))


def upsert(table, rows: pa.Table) -> None:
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(rows)
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


def read(table) -> pa.Table:
    builder = table.new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


if __name__ == "__main__":
    main(*sys.argv[1:])
