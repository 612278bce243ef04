"""Dates and times outside the years 1 to 9999 are refused at every way into a table, at any depth; others are kept."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from iceberg_writer import COLUMNS, IcebergWriter

import lsmlake
from lsmlake.errors import InvalidData, InvalidQuery, InvalidSchema
from lsmlake.schema.years import check_years, has_outside

FIRST, LAST, DAY = -719_162, 2_932_896, 86_400_000_000
TYPES = {
    "date": (pa.date32(), FIRST, LAST),
    "timestamp": (pa.timestamp("us", "UTC"), FIRST * DAY, (LAST + 1) * DAY - 1),
    "timestamp_ntz": (pa.timestamp("us"), FIRST * DAY, (LAST + 1) * DAY - 1),
}
OFFSETS = pa.array([0, 1, 2, 3], pa.int32())
SHAPES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "flat": lambda values: values,
    "struct": lambda values: pa.StructArray.from_arrays([pa.array([1, 2, 3]), values], ["a", "b"]),
    "list": lambda values: pa.ListArray.from_arrays(OFFSETS, values),
    "map": lambda values: pa.MapArray.from_arrays(OFFSETS, pa.array(["a", "b", "c"]), values),
    "key of a map": lambda values: pa.MapArray.from_arrays(OFFSETS, values, pa.array(["a", "b", "c"])),
    "deep": lambda values: SHAPES["list"](SHAPES["struct"](SHAPES["map"](values))),
}
WAYS = [("date", "flat"), ("timestamp", "struct"), ("timestamp_ntz", "map"), ("date", "deep")]


def rows_with(type_: pa.DataType, shape: str, numbers: list[int]) -> pa.Table:
    made = pa.array(numbers, pa.int32() if pa.types.is_date(type_) else pa.int64()).cast(type_)
    return pa.table({"id": [1, 2, 3], "v": SHAPES[shape](made)})


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> lsmlake.Lake:
    found = lsmlake.connect(tmp_path_factory.mktemp("lake"))
    found.create_database("d")
    return found


def doors(lake: lsmlake.Lake, rows: pa.Table, path: Path) -> dict[str, Callable[[str], object]]:
    """Every way to bring rows into a new table of this name."""
    pq.write_table(rows, path / "rows.parquet")
    (path / "bare").mkdir()
    pq.write_table(rows, path / "bare" / "rows.parquet", write_statistics=False)
    pq.write_table(rows, path / "odd.parquet", compression="brotli")  # written anew

    def made(name: str, key: tuple = ()) -> lsmlake.Table:
        return lake.create_table(name, rows.schema, primary_key=key)

    def inserted(name: str) -> object:
        made(name)
        return lake.sql(f"INSERT INTO {name} SELECT * FROM parquet.`{path}/rows.parquet`")

    return {
        "upsert": lambda name: made(name, ("id",)).upsert(rows),
        "append": lambda name: made(name).append(rows),
        "file": lambda name: made(name).append(path / "rows.parquet"),
        "overwrite": lambda name: made(name).overwrite(rows),
        "load": lambda name: lake.create_table_from(name, rows),
        "import": lambda name: lake.import_parquet(path / "rows.parquet", name),
        "import without statistics": lambda name: lake.import_parquet(path / "bare", name),
        "import anew": lambda name: lake.import_parquet(path / "odd.parquet", name),
        "import with a key": lambda name: lake.import_parquet(path / "rows.parquet", name, ["id"]),
        "sql": inserted,
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("type_", TYPES)
def test_the_years_at_any_depth(type_, shape):
    kind, first, last = TYPES[type_]
    check_years(rows_with(kind, shape, [first, 0, last])["v"], "here")
    for bad in (first - 1, last + 1):
        rows = rows_with(kind, shape, [0, bad, 0])
        assert has_outside(rows["v"]) and not has_outside(rows["v"].slice(2))


@pytest.mark.parametrize(("type_", "shape"), WAYS)
def test_all_ways_in_have_the_same_years(lake, tmp_path, type_, shape):
    kind, first, last = TYPES[type_]
    name = f"{type_}_{shape.replace(' ', '_')}"
    ways = doors(lake, rows_with(kind, shape, [first, 0, last]), tmp_path)
    for number, way in enumerate(ways.values()):
        way(f"d.{name}_{number}")
        assert len(lake.table(f"d.{name}_{number}").scan().to_arrow()["v"].to_pylist()) == 3
    assert lake.import_parquet(tmp_path / "rows.parquet", f"d.{name}").rewritten == {}
    for side, bad in (("low", first - 1), ("high", last + 1)):
        (tmp_path / side).mkdir()
        ways = doors(lake, rows_with(kind, shape, [0, bad, 0]), tmp_path / side)
        for number, (label, way) in enumerate(ways.items()):
            table = f"d.{name}_{side}{number}"
            with pytest.raises(InvalidData, match=f"column 'v'.*outside the supported years.*0001 to 9999.*{bad}"):
                way(table)
            assert f"{table}" not in lake.tables() or lake.table(table).scan().count() == 0, label


def test_what_a_null_hides_is_not_looked_at():
    """The fields of a null struct, and the elements of a null list, may be anything."""
    beyond = pa.array([LAST + 1], pa.int32()).cast(pa.date32())
    struct = pa.StructArray.from_arrays([beyond], ["a"], mask=pa.array([True]))
    listed = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), beyond, mask=pa.array([True]))
    cut = pa.ListArray.from_arrays(pa.array([0, 1, 1], pa.int32()), beyond).slice(1)
    for hidden in (struct, listed, cut, pa.nulls(2, pa.date32()), pa.array([], pa.date32())):
        check_years(pa.chunked_array([hidden]), "here")
        assert not has_outside(hidden)


def test_a_deleted_row_may_have_any_date(lake, tmp_path):
    """Its file is written anew, with a key, too."""
    rows = rows_with(pa.date32(), "flat", [0, LAST + 1, 1])
    deltalake.write_deltalake(tmp_path / "delta", rows)
    with pytest.raises(InvalidData, match=r"part-.*parquet, column 'v'.*outside the supported years"):
        lake.import_delta(tmp_path / "delta", "d.alive")
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=False)
    with patch.dict(COLUMNS, part=(3, pa.date32(), "date")):
        file = writer.data([{"id": 1, "part": None}, {"id": 2, "part": None}], None)
        path = Path(file.removeprefix("file:"))
        beyond = pq.read_table(path).set_column(2, pq.read_schema(path).field("part"), rows["v"].slice(0, 2))
        pq.write_table(beyond, path)
        writer.pending[0] = writer.pending[0]._replace(bytes=path.stat().st_size)
        writer.positions([(file, 1)], None)
        metadata = writer.commit()
    why = {"column 'part' has a date or time outside the years 1 to 9999": 1}
    for name, key in (("plain", []), ("keyed", ["id"]), ("dated", ["id", "part"])):
        report = lake.import_iceberg(metadata, f"d.dead_{name}", key)
        assert (report.rows, report.deleted_rows, report.rewritten) == (1, 1, why)
        assert lake.table(f"d.dead_{name}").scan().to_arrow()["id"].to_pylist() == [1]


def test_values_of_partitions(lake, tmp_path):
    rows = rows_with(pa.date32(), "flat", [0, LAST + 1, 1])
    deltalake.write_deltalake(tmp_path / "delta", rows, partition_by=["v"])
    with pytest.raises(InvalidData, match=r"values of partitions.*2932897 days"):
        lake.import_delta(tmp_path / "delta", "d.by_delta")
    for number, folder in enumerate(("v=2026-01-01", "v=0000-01-01")):
        (tmp_path / "hive" / folder).mkdir(parents=True)
        part = {"id": [number]} if number else {"id": [0], "v": rows["v"].slice(0, 1)}
        pq.write_table(pa.table(part), tmp_path / "hive" / folder / "x.parquet")
    with pytest.raises(InvalidData, match="a folder names no value of the column 'v'"):
        lake.import_parquet(tmp_path / "hive", "d.by_hive")
    days = {"type": "int", "logicalType": "date"}
    for name, number in (("good", 20_000), ("bad", LAST + 1)):
        writer = IcebergWriter(tmp_path / name, partitioned=True)
        with patch.dict(COLUMNS, part=(3, pa.date32(), days)):
            writer.data([{"id": 1, "part": dt.date(2024, 10, 4)}], number)
            metadata = writer.commit()
        metadata.write_text(metadata.read_text().replace(json.dumps(days), '"date"'))
        if name == "good":
            lake.import_iceberg(metadata, "d.by_iceberg")
            assert lake.table("d.by_iceberg").scan(where="part = '2024-10-04'").count() == 1
            continue
        with pytest.raises(InvalidData, match=r"0\.parquet, a partition value.*2932897 days"):
            lake.import_iceberg(metadata, "d.by_iceberg_bad")


def test_defaults(lake):
    table = lake.create_table("d.defaults", "id INT")
    for value in ("0000-01-01", pa.scalar(LAST + 1, pa.int32()).cast(pa.date32())):
        with pytest.raises(InvalidSchema, match="the default does not fit the type"):
            table.alter(lsmlake.add_column("day", "DATE", default=value))
    with pytest.raises(InvalidQuery, match="outside the years of tables"):
        lake.sql("ALTER TABLE d.defaults ADD COLUMN day DATE DEFAULT DATE'9999-12-31' + 1")


@pytest.mark.parametrize("value", ["DATE'9999-12-31' + 1", "array(DATE'9999-12-31' + 1)"])
def test_python_has_no_such_values(lake, value):
    """A query can compute them: Arrow and text hold them."""
    found = lake.sql(f"SELECT {value} AS v")
    assert found.to_arrow().num_rows == 1
    assert "10000-01-01" in repr(found)
    for read in (found.fetchall, found.to_pandas):
        with pytest.raises(InvalidQuery, match=r"column 'v': Python has no dates and times outside the years 1 to 9999"):
            read()
