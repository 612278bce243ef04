"""Delta tables become tables of lsmlake: their rows are those that Spark or deltalake sees."""

from __future__ import annotations

import datetime as dt
import json
import math
import shutil
import traceback
import zipfile
from decimal import Decimal
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_servers import SECRET, Server
from strategies import multiset
from test_import_iceberg import check_readers, rows_of

import lsmlake
from lsmlake.errors import (
    Corrupt,
    InvalidData,
    InvalidOption,
    InvalidQuery,
    InvalidSchema,
    LakeError,
    SnapshotNotFound,
    StorageFailed,
    UnsupportedFormat,
)
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.imports import delta
from lsmlake.storage.location import Outside, OutsideFile

GOLDEN = Path(__file__).parents[1] / "golden" / "delta-tables.zip"


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


def test_a_column_mapping_by_id(lake, golden, tmp_path):
    shutil.copytree(golden / "mapped", tmp_path / "t")
    for log in (tmp_path / "t" / "_delta_log").glob("*.json"):
        log.write_text(log.read_text().replace('"delta.columnMapping.mode":"name"', '"delta.columnMapping.mode":"id"'))
    with pytest.raises(UnsupportedFormat, match="found id; write its rows"):
        lake.import_delta(tmp_path / "t", "d.t")


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


def test_settings_of_a_store_are_refused_for_local_files(lake, tmp_path):
    deltalake.write_deltalake(str(tmp_path / "delta"), pa.table({"k": [1]}))
    pq.write_table(pa.table({"k": [1]}), tmp_path / "k.parquet")
    lake.import_delta(str(tmp_path / "delta"), "d.t")
    sources = {
        lake.import_delta: tmp_path / "delta",
        lake.import_parquet: tmp_path / "k.parquet",
        lake.import_iceberg: lake.table("d.t").publish_iceberg(),
    }
    for verb, source in sources.items():
        with pytest.raises(InvalidOption, match="storage_options are settings of object stores"):
            verb(source, "d.refused", storage_options={"region": "x"})
    assert lake.tables("d") == ["t"]


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
    with pytest.raises(UnsupportedFormat, match="found catalogManaged"):
        lake.import_delta(str(tmp_path / "u"), "d.t")
    assert lake.tables("d") == []


def test_columns_without_values_are_left_out(lake, tmp_path):
    """As in imports of Parquet files and of Iceberg tables."""
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [1]}))
    (log,) = (tmp_path / "t" / "_delta_log").glob("*.json")
    void = {"name": "nothing", "type": "void", "nullable": True, "metadata": {}}

    def with_void(line: str) -> str:
        action = json.loads(line)
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            action["metaData"]["schemaString"] = json.dumps(schema | {"fields": [*schema["fields"], void]})
        return json.dumps(action)

    log.write_text("\n".join(map(with_void, log.read_text().splitlines())))
    lake.import_delta(tmp_path / "t", "d.t")
    assert lake.table("d.t").scan().to_arrow().to_pylist() == [{"k": 1}]


def test_a_missing_data_file_leaves_no_table(lake, tmp_path):
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [1]}))
    next((tmp_path / "t").glob("*.parquet")).unlink()
    with pytest.raises(LakeError, match="missing"):
        lake.import_delta(str(tmp_path / "t"), "d.t")
    assert lake.tables("d") == []
    assert not list((tmp_path / "warehouse").rglob("*.parquet"))


def test_names_with_a_blank_or_a_percent_sign(lake, tmp_path, monkeypatch):
    """As a path, a relative path or a URI, whose percent signs stand for themselves."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("a b", "50%", "é#?")):
        deltalake.write_deltalake((tmp_path / name).as_uri(), pa.table({"k": [number]}))
        for form, address in (("path", tmp_path / name), ("near", name), ("uri", f"file://{tmp_path}/{name}")):
            lake.import_delta(address, f"d.{form}{number}")
            assert lake.table(f"d.{form}{number}").scan().to_arrow()["k"].to_pylist() == [number]
    (tmp_path / "a b").rename(tmp_path / "a%20b")
    deltalake.write_deltalake(tmp_path / "a b", pa.table({"k": [7]}))
    with pytest.raises(InvalidQuery, match="rename the folder"):
        lake.import_delta(tmp_path / "a%20b", "d.t")


def test_partitions_of_every_type(lake, tmp_path):
    rows = {
        "day": [dt.date(2026, 1, 2), None],
        "small": pa.array([-3, None], pa.int8()),
        "large": [1 << 40, None],
        "x": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "t": pa.array([dt.datetime(2026, 1, 1, 2, 3, 4, 5), None], pa.timestamp("us", "UTC")),
        "n": pa.array([dt.datetime(1969, 1, 1, 2, 3, 4), None], pa.timestamp("us")),
        "flag": [True, None],
    }
    table = pa.table({"k": [1, 2], **rows})
    deltalake.write_deltalake(tmp_path / "t", table, partition_by=list(rows))
    assert lake.import_delta(tmp_path / "t", "d.t").adopted == 0
    made = lake.table("d.t")
    assert made.partition_by == tuple(rows)
    assert made.scan().to_arrow().sort_by("k").select(table.column_names).to_pylist() == table.to_pylist()
    check_readers(made)


def test_a_primary_key(lake, tmp_path):
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [1, 2], "v": ["a", "b"]}))
    lake.import_delta(tmp_path / "t", "d.t", ["k"])
    table = lake.table("d.t")
    table.upsert({"k": [2], "v": ["c"]})
    assert table.scan().to_arrow().sort_by("k").to_pylist() == [{"k": 1, "v": "a"}, {"k": 2, "v": "c"}]
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [1], "v": ["d"]}), mode="append")
    with pytest.raises(InvalidData, match="rows too many"):
        lake.import_delta(tmp_path / "t", "d.u", ["k"])


def test_a_vector_beyond_the_end_of_its_file(lake, tmp_path, monkeypatch):
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [1, 2]}))
    (file,) = (path.name for path in (tmp_path / "t").glob("*.parquet"))
    monkeypatch.setattr(delta, "_features", lambda table: {"deletionVectors"})
    for dead, message in ((1, None), (2, "positions below 2, found 2")):
        monkeypatch.setattr(delta, "_vectors", lambda table, dead=dead: {file: DeletionVector.of(np.array([dead]))})
        if message is None:
            assert lake.import_delta(tmp_path / "t", "d.t").deleted_rows == 1
            assert lake.table("d.t").scan().to_arrow()["k"].to_pylist() == [1]
            check_readers(lake.table("d.t"))
        else:
            with pytest.raises(Corrupt, match=message):
                lake.import_delta(tmp_path / "t", "d.u")


def test_a_table_in_an_object_store(s3):
    """deltalake gets the settings of our client. No error shows a secret."""
    url = f"{s3.url}/delta lake/ta=ble"
    address, settings = Outside(s3.options).foreign(url)
    deltalake.write_deltalake(address, pa.table(VALUES), partition_by=["p"], storage_options=settings)
    made = lsmlake.connect(s3.warehouse(), storage_options=s3.options)
    made.create_database("d")
    assert made.import_delta(url, "d.t", storage_options=s3.options).rows == 6
    check_readers(made.table("d.t"))
    with pytest.raises(InvalidQuery, match="no Delta table found"):
        made.import_delta(f"{s3.url}/nothing", "d.u", storage_options=s3.options)
    for wrong in ({"endpoint": "http://127.0.0.1:1", "max_retries": 0}, {"nonsense": SECRET}):
        with pytest.raises(LakeError) as caught:
            made.import_delta(url, "d.u", storage_options={**s3.options, **wrong})
        assert SECRET not in "".join(traceback.format_exception(caught.value))
    log = placed(s3, "broken/_delta_log/00000000000000000000.json")
    with log.storage.write(log.path) as sink:
        sink.write(b"{" + SECRET.encode())
    with pytest.raises(StorageFailed, match="the Delta table cannot be read") as caught:
        made.import_delta(f"{s3.url}/broken", "d.u", storage_options=s3.options)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def placed(server: Server, path: str) -> OutsideFile:
    return Outside(server.options).place(f"{server.url}/{path}")
