"""Prototype of runs that hold only some columns ("patches"), compared with the same read without patches.

An update of a few of many columns could be stored as a patch: the position of each row and its new values, in a file of its own.
A reader of a patched column joins the patch by position. lsmlake has no such files; this is what their readers would pay: DuckDB
and Spark by a left join on file and position, as both offer positions of Parquet rows only as a column, and PyArrow by putting
the values into the decoded arrays. Columns without a patch are read as they are. The answers are compared with the patched rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession, functions

from bench.result import Measure, Report
from bench.session import session
from bench.timing import compared, take_turns

_FILES = 4
_PATCHED = ("c0", "c1", "c2")
_TARGET = 1.3
_TARGET_WRITTEN = 6
QUERIES: dict[str, tuple[str, ...]] = {
    "one patched column": ("c0",),
    "three patched columns": _PATCHED,
    "one patched column and eight others": ("c0", *(f"c{number}" for number in range(3, 11))),
}
"""Sums of these columns."""

Sums = tuple[int, ...]
Sides = Mapping[str, Callable[[], Sums]]


def run(folder: Path, rows: int = 2_000_000, columns: int = 40, rounds: int = 5) -> Report:
    """`rows` of `columns` BIGINT columns in four files; in two runs 1 and 10 of 100 rows have new values in three columns."""
    base, per_file = folder / "base", rows // _FILES
    base.mkdir(parents=True)
    chance = np.random.default_rng(1)
    for number in range(_FILES):
        values = {f"c{column}": chance.integers(0, 100_000, per_file) for column in range(columns)}
        pq.write_table(pa.table(values), base / f"{number}.parquet", compression="zstd", data_page_size=1 << 16)
    measures: list[Measure] = []
    with session(folder) as spark:
        for share in (1, 10):
            patches = [_patch(chance, per_file, share) for _ in range(_FILES)]
            measures.append(_written(folder / f"patch{share}", patches, share))
            for name, names in QUERIES.items():
                ways = {
                    "PyArrow": _in_arrow(base, patches, names),
                    "DuckDB": _in_duckdb(base, folder / f"patch{share}", names),
                    "Spark": _on_spark(spark, base, folder / f"patch{share}", names),
                }
                expected = ways["PyArrow"]["patched"]()
                for engine, sides in ways.items():
                    assert sides["patched"]() == expected, (engine, name)
                    spent = take_turns({side: lambda _, work=work: work for side, work in sides.items()}, rounds)
                    measures += compared(f"{engine}, {share} % patched: {name}", spent["patched"], spent["plain"], _TARGET)
    return Report(
        "patched_columns",
        f"best of {rounds} in turns, after one that does not count",
        {"rows": f"{rows:,} x {columns} columns in {_FILES} files; 1 and 10 of 100 rows patched in {len(_PATCHED)} columns"},
        "the same sums by all three engines",
        tuple(measures),
        ("A prototype: no table has such files.",),
    )


def _patch(chance: np.random.Generator, rows: int, share: int) -> pa.Table:
    """The positions of the rows of one file, ascending, and their new values."""
    positions = np.sort(chance.choice(rows, max(1, rows * share // 100), replace=False))
    return pa.table({"position": positions, **{name: chance.integers(0, 100_000, len(positions)) for name in _PATCHED}})


def _written(folder: Path, patches: list[pa.Table], share: int) -> Measure:
    """Writes the patches, one file for each file of rows; returns bytes written per byte of new values."""
    folder.mkdir()
    for number, patch in enumerate(patches):
        pq.write_table(patch, folder / f"{number}.parquet", compression="zstd")
    stored = sum(path.stat().st_size for path in folder.iterdir())
    given = sum(patch.select(_PATCHED).nbytes for patch in patches)
    return Measure(f"{share} % patched: bytes written / bytes of new values", stored, given, "B", _TARGET_WRITTEN)


def _in_arrow(base: Path, patches: list[pa.Table], names: tuple[str, ...]) -> Sides:
    def read(number: int) -> pa.Table:
        return pq.read_table(base / f"{number}.parquet", columns=list(names))

    def patched(number: int) -> pa.Table:
        table, patch = read(number), patches[number]
        for name in set(names) & set(_PATCHED):
            values = table[name].to_numpy().copy()
            values[patch["position"].to_numpy()] = patch[name].to_numpy()
            table = table.set_column(table.column_names.index(name), name, pa.array(values))
        return table

    def sums(file: Callable[[int], pa.Table]) -> Sums:
        tables = [file(number) for number in range(_FILES)]
        return tuple(sum(pc.sum(table[name]).as_py() for table in tables) for name in names)

    return {"patched": partial(sums, patched), "plain": partial(sums, read)}


def _in_duckdb(base: Path, patch: Path, names: tuple[str, ...]) -> Sides:
    connection = duckdb.connect()
    connection.execute(
        f"CREATE TABLE patch AS SELECT parse_filename(filename) AS file, * FROM read_parquet('{patch}/*', filename = true)"
    )
    rows = f"read_parquet('{base}/*', filename = true, file_row_number = true)"
    joined = f"{rows} AS b LEFT JOIN patch AS p ON b.file_row_number = p.position AND parse_filename(b.filename) = p.file"

    def value(name: str) -> str:
        return f"CASE WHEN p.position IS NULL THEN b.{name} ELSE p.{name} END" if name in _PATCHED else f"b.{name}"

    def sums(source: str, values: list[str]) -> Sums:
        return tuple(
            map(int, connection.execute(f"SELECT {', '.join(f'sum({each})' for each in values)} FROM {source}").fetchone())
        )

    return {"patched": partial(sums, joined, [*map(value, names)]), "plain": partial(sums, f"read_parquet('{base}/*')", [*names])}


def _on_spark(spark: SparkSession, base: Path, patch: Path, names: tuple[str, ...]) -> Sides:
    plain = spark.read.parquet(str(base))
    rows = plain.select("*", plain["_metadata.file_name"].alias("file"), plain["_metadata.row_index"].alias("row"))
    read = spark.read.parquet(str(patch))
    values = [read[name].alias(f"new_{name}") for name in _PATCHED]
    patches = read.select(read["_metadata.file_name"].alias("in_file"), "position", *values)
    joined = rows.join(functions.broadcast(patches), (rows.file == patches.in_file) & (rows.row == patches.position), "left")

    def value(name: str) -> Column:
        new = functions.when(functions.col("position").isNull(), functions.col(name)).otherwise(functions.col(f"new_{name}"))
        return new if name in _PATCHED else functions.col(name)

    def sums(source: DataFrame, columns: list[Column]) -> Sums:
        return tuple(source.agg(*map(functions.sum, columns)).first())

    return {
        "patched": partial(sums, joined, [*map(value, names)]),
        "plain": partial(sums, plain, [functions.col(name) for name in names]),
    }
