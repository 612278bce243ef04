"""Delta tables become tables of lsmlake: their rows are those that Spark or deltalake sees."""

from __future__ import annotations

import datetime as dt
import json
import math
import zipfile
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from strategies import multiset
from test_import_iceberg import check_readers, rows_of

import lsmlake
from lsmlake.errors import InvalidQuery, InvalidSchema, LakeError, SnapshotNotFound, StorageFailed, UnsupportedFormat

GOLDEN = Path(__file__).parent / "golden" / "delta-tables.zip"


@pytest.fixture
def lake(tmp_path: Path) -> lsmlake.Lake:
    made = lsmlake.connect(tmp_path / "warehouse")
    made.create_database("d")
    return made


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    with zipfile.ZipFile(GOLDEN) as packed:
        packed.extractall(folder)
    return folder


def told(golden: Path, name: str) -> list[dict]:
    """The rows that Spark saw."""
    rows = json.loads((golden / f"{name}.json").read_text())
    for row in rows:
        if row.get("ts"):
            row["ts"] = dt.datetime.fromisoformat(row["ts"]).replace(tzinfo=dt.timezone.utc)
        if row.get("d"):
            row["d"] = dt.date.fromisoformat(row["d"])
        if row.get("amount"):
            row["amount"] = Decimal(row["amount"])
    return rows


def seen(table: lsmlake.Table, key: str) -> list[dict]:
    rows = table.scan().to_arrow().sort_by(key).to_pylist()
    return [{name: dict(value) if name == "m" and value is not None else value for name, value in row.items()} for row in rows]


def test_a_table_of_spark_with_a_column_mapping(lake, golden):
    """Its files name columns otherwise, and hold times in INT96, so they are written anew."""
    report = lake.import_delta(str(golden / "mapped"), "d.t")
    table = lake.table("d.t")
    assert seen(table, "k") == told(golden, "mapped")
    assert (report.rows, report.adopted) == (len(told(golden, "mapped")), 0)
    assert table.schema.field("k").nullable is False
    assert table.partition_by == ("p",)
    check_readers(table)


def test_deletion_vectors_of_a_table_with_a_widened_column(lake, golden):
    """deltalake does not read them."""
    with pytest.raises(UnsupportedFormat, match="both; drop one of them"):
        lake.import_delta(golden / "plain", "d.t")
    assert lake.tables("d") == []


def test_a_widened_column(lake, tmp_path):
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": pa.array([1, 2], pa.int32())}))
    log = tmp_path / "t" / "_delta_log"
    first = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    (metadata,) = [one["metaData"] for one in first if "metaData" in one]
    widened = metadata["schemaString"].replace('"integer"', '"long"')
    assert widened != metadata["schemaString"]
    features = ["typeWidening"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    changed = [{"protocol": protocol}, {"metaData": metadata | {"schemaString": widened}}]
    (log / f"{1:020}.json").write_text("\n".join(map(json.dumps, changed)))
    assert lake.import_delta(tmp_path / "t", "d.t").adopted == 1
    table = lake.table("d.t")
    table.append({"k": [5_000_000_000]})
    assert table.schema.field("k").type == pa.int64()
    assert table.scan().to_arrow()["k"].to_pylist() == [1, 2, 5_000_000_000]
    check_readers(table)


VALUES = {
    "p": ["b c", "a/b", "é", "50%", None, "a/b"],
    "k": [1, 2, 3, 4, 5, 6],
    "t": pa.array([dt.datetime(2026, 1, 1, 0, 0, 0, number) for number in range(6)], pa.timestamp("us", "UTC")),
    "n": pa.array([dt.datetime(2026, 1, 1)] * 6, pa.timestamp("us")),
    "x": pa.array([Decimal("1.50"), None, Decimal("-2.25")] * 2, pa.decimal128(10, 2)),
    "s": [{"a": 1, "b": [1, None]}, None, {"a": None, "b": None}] * 2,
    "m": pa.array([[("x", 1)], None, []] * 2, pa.map_(pa.string(), pa.int64())),
    "f": [math.nan, 1.0, None] * 2,
    "b": [b"\0", b"", None] * 2,
    "e": [True, False, None] * 2,
}


def test_partition_values_of_every_sort_and_files_as_they_are(lake, tmp_path):
    deltalake.write_deltalake(tmp_path / "t", pa.table(VALUES), partition_by=["p"])
    for name, how in (("d.kept", {}), ("d.flat", {"partition_by": []})):
        report = lake.import_delta(str(tmp_path / "t"), name, **how)
        assert report.rows == 6
        table = lake.table(name)
        assert table.partition_by == (() if how else ("p",))
        assert table.scan(where="p = 'a/b'").to_arrow()["k"].to_pylist() in ([2, 6], [6, 2])
        check_readers(table)
    assert rows_of(lake.table("d.kept")) == rows_of(lake.table("d.flat"))


def test_files_without_partitions_are_adopted(lake, tmp_path):
    rows = pa.table({name: values for name, values in VALUES.items() if name not in ("f", "p")})
    deltalake.write_deltalake(tmp_path / "t", rows)
    deltalake.write_deltalake(tmp_path / "t", rows.slice(0, 1), mode="append")
    report = lake.import_delta(str(tmp_path / "t"), "d.t")
    assert (report.adopted, report.rewritten) == (2, {})
    table = lake.table("d.t")
    check_readers(table)
    links = [path.stat().st_nlink for path in (tmp_path / "warehouse").rglob("*.parquet")]
    assert links == [2, 2]
    (tmp_path / "t" / "_delta_log").rename(tmp_path / "log")
    table.append(rows.slice(1, 1))
    assert table.scan().count() == 8


def test_versions(lake, tmp_path):
    for number in range(3):
        deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [number]}), mode="append")
    assert lake.import_delta(str(tmp_path / "t"), "d.t", version=1).rows == 2
    assert lake.import_delta(str(tmp_path / "t"), "d.now").rows == 3
    for version in (3, -1):
        with pytest.raises(SnapshotNotFound, match="at most 2"):
            lake.import_delta(str(tmp_path / "t"), "d.none", version=version)


def test_columns_that_were_added_later_are_null_in_older_files(lake, tmp_path):
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [1]}))
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [2], "v": ["x"]}), mode="append", schema_mode="merge")
    report = lake.import_delta(str(tmp_path / "t"), "d.t")
    table = lake.table("d.t")
    assert multiset(map(tuple, (row.values() for row in table.scan().to_arrow().to_pylist()))) == multiset([(1, None), (2, "x")])
    assert (report.adopted, report.rewritten) == (2, {})
    check_readers(table)


def test_a_table_without_rows(lake, tmp_path):
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": pa.array([], pa.int32())}))
    report = lake.import_delta(str(tmp_path / "t"), "d.t")
    assert (report.snapshot, report.rows) == (None, 0)
    assert lake.table("d.t").schema.names == ["k"]


def test_what_is_no_delta_table(lake, tmp_path):
    with pytest.raises(InvalidQuery, match="no Delta table found"):
        lake.import_delta(str(tmp_path / "none"), "d.t")
    (tmp_path / "broken" / "_delta_log").mkdir(parents=True)
    (tmp_path / "broken" / "_delta_log" / f"{0:020}.json").write_text("{")
    with pytest.raises((InvalidQuery, StorageFailed), match="Delta table") as caught:
        lake.import_delta(str(tmp_path / "broken"), "d.t")
    assert "\x1b" not in str(caught.value)
    assert lake.tables("d") == []


def altered_log(folder: Path, old: str, new: str) -> None:
    log = folder / "_delta_log" / f"{0:020}.json"
    text = log.read_text()
    assert old in text
    log.write_text(text.replace(old, new))


def test_features_and_types_that_are_not_read(lake, tmp_path):
    """Before anything is written."""
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [1], "v": ["x"]}))
    altered_log(tmp_path / "t", '\\"string\\"', '\\"interval day\\"')
    with pytest.raises((InvalidSchema, StorageFailed)):
        lake.import_delta(str(tmp_path / "t"), "d.t")
    deltalake.write_deltalake(tmp_path / "u", pa.table({"k": [1]}))
    altered_log(
        tmp_path / "u",
        '"minReaderVersion":1,"minWriterVersion":2',
        '"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["catalogManaged"],"writerFeatures":["catalogManaged"]',
    )
    with pytest.raises((UnsupportedFormat, StorageFailed)):
        lake.import_delta(str(tmp_path / "u"), "d.t")
    assert lake.tables("d") == []


def test_a_missing_data_file_leaves_no_table(lake, tmp_path):
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [1]}))
    next((tmp_path / "t").glob("*.parquet")).unlink()
    with pytest.raises(LakeError, match="missing"):
        lake.import_delta(str(tmp_path / "t"), "d.t")
    assert lake.tables("d") == []
    assert not list((tmp_path / "warehouse").rglob("*.parquet"))
