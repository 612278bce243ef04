"""Queries by `Lake.sql` in process, compared with DuckDB over the same data files without deletion vectors, and with `to_arrow`.

A tenth of the rows is dead. DuckDB alone returns dead rows, too; it is the limit. Both sides read the files in one process, in
turns. The answers of `Lake.sql` are checked against DuckDB over the rows that `to_arrow` returns.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

import lsmlake
from bench import checksum, tables
from bench.result import Measure, Report
from bench.timing import compared, take_turns

_TARGET, _TARGET_ARROW = 1.6, 1.0
QUERIES = {
    "grouped aggregate": "SELECT city, sum(quantity) q, avg(weight) w, max(`at`) m, sum(amount) s FROM {} GROUP BY city",
    "value filter": "SELECT count(*) AS n, sum(customer) AS c FROM {} WHERE price >= 9900",
    "three columns": "SELECT customer, `at`, product FROM {}",
}


def run(folder: Path, rows: int = 4_000_000, rounds: int = 5) -> Report:
    """`rows` of 12 columns in 4 buckets, compacted; a tenth replaced since, and compacted into a level of its own."""
    table = tables.with_dead_rows(folder, rows)
    lake = lsmlake.connect(folder)
    files = tables.paths(folder, table)
    listed = "read_parquet([" + ", ".join(f"'{path}'" for path in files) + "])"
    measures: list[Measure] = []
    for name, query in QUERIES.items():
        plain = query.replace("`", '"').format(listed)
        ours = query.format(tables.NAME)

        def duck(text: str = plain) -> object:
            with duckdb.connect() as connection:
                return connection.sql(text).to_arrow_table()

        def sql(text: str = ours) -> object:
            return lake.sql(text).to_arrow()

        sides = {"lsmlake": lambda _, work=sql: work, "duckdb": lambda _, work=duck: work}
        if name == "three columns":
            scan = lake.table(tables.NAME).scan(columns=["customer", "at", "product"])
            sides["to_arrow"] = lambda _, work=scan.to_arrow: work
        spent = take_turns(sides, rounds)
        measures += compared(name, spent["lsmlake"], spent["duckdb"], _TARGET)
        if "to_arrow" in spent:
            measures += compared(f"{name} / to_arrow", spent["lsmlake"], spent["to_arrow"], _TARGET_ARROW)
    return Report(
        "sql",
        f"best of {rounds} in turns, after one that does not count",
        {"rows": f"{rows:,} x 12 columns in {len(files)} files", "dead": f"{rows // 10:,} rows"},
        _same(lake, rows),
        tuple(measures),
        ("The other side is DuckDB over the same files, dead rows included.",),
    )


def _same(lake: lsmlake.Lake, rows: int) -> str:
    """Rows and hash of the filtered rows, which DuckDB finds in the rows of a scan, too."""
    condition = "price >= 9900"
    found = lake.sql(f"SELECT * FROM {tables.NAME} WHERE {condition}").to_arrow()
    scan = lake.table(tables.NAME).scan().to_arrow()
    expected = duckdb.sql(f"SELECT * FROM scan WHERE {condition}").to_arrow_table().cast(found.schema)
    assert checksum.of_table(found) == checksum.of_table(expected)
    assert lake.sql(f"SELECT count(*) AS n FROM {tables.NAME}").fetchall() == [(rows,)] == [(scan.num_rows,)]
    return checksum.of_table(found)
