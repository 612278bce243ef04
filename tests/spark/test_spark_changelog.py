"""Changelog files read by Spark itself: the changes that the embedded reader finds, of every schema, without Python tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from spark_support import plan_of, same
from test_spark_evolution import ALTERATIONS, made

import lsmlake
from lsmlake.spark import connector

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]

PRODUCERS = ("input", "lookup")


@pytest.fixture
def python_tasks(capsys: pytest.CaptureFixture) -> Callable[[object], bool]:
    """Whether Python tasks read a DataFrame."""
    return lambda frame: "MapInArrow" in plan_of(frame, capsys)


@pytest.mark.connect(short="classic")
@pytest.mark.parametrize("producer", PRODUCERS)
def test_changes_of_all_kinds_without_python_tasks(lake, spark_lake, python_tasks, producer):
    table = made(lake, **{"changelog-producer": producer})
    table.delete_keys([{"id": 1, "day": "d1"}, {"id": 8, "day": "d0"}])
    table.compact(full=True)
    expected = table.changes(0, mode="changelog").to_arrow()
    assert {"+I", "-D"} <= {*expected["_row_kind"].to_pylist()}
    spark = spark_lake.table("d.t")
    found = spark.changes(0, mode="changelog").to_spark()
    same(found, expected)
    assert not python_tasks(found)
    assert found.schema.fields[1:] == spark.changes(0, mode="changelog", where="true").to_spark().schema.fields[1:]
    same(spark.changes(0, mode="changelog", columns=["text", "id"]).to_spark(), expected.select(["_row_kind", "text", "id"]))
    assert found.where("_row_kind = '-D' AND id = 1").count() == 1
    assert spark.changes(table.snapshots().num_rows, mode="changelog").to_spark().count() == 0


@pytest.mark.parametrize("name", ALTERATIONS)
def test_changelog_files_of_an_older_schema(lake, spark_lake, python_tasks, name):
    table = made(lake, **{"changelog-producer": "lookup"})
    table.alter(*ALTERATIONS[name])
    table.upsert(table.scan(limit=2).to_arrow())
    table.delete_keys(one_key(table))
    found = spark_lake.table("d.t").changes(0, mode="changelog").to_spark()
    same(found, table.changes(0, mode="changelog").to_arrow())
    assert not python_tasks(found)


def one_key(table: lsmlake.Table) -> pa.Table:
    key = list(table.version.schema.primary_key)
    return table.scan(limit=1, columns=key).to_arrow().select(key)


def test_what_needs_more_than_the_files_is_read_by_tasks_in_order(lake, spark_lake, python_tasks, monkeypatch):
    table = made(lake, **{"changelog-producer": "lookup"})
    spark = spark_lake.table("d.t")
    expected = table.changes(0, mode="changelog").to_arrow()
    for how in ({"where": "id >= 0"}, {"commit_columns": True}):
        frame = spark.changes(0, mode="changelog", **how).to_spark()
        assert python_tasks(frame), how
        same(frame.select(*expected.column_names), expected)
    monkeypatch.setattr(connector, "refuses", lambda *_: "it is out of reach")
    frame = spark.changes(0, mode="changelog").to_spark()
    assert python_tasks(frame)
    same(frame, expected)


def test_a_changelog_file_that_is_gone_fails_the_query(lake, spark_lake):
    table = made(lake, **{"changelog-producer": "input"})
    frame = spark_lake.table("d.t").changes(0, mode="changelog").to_spark()
    assert frame.count() == table.changes(0, mode="changelog").count()
    for path in Path(lake.env.storage.root).rglob("changelog-*.parquet"):
        path.unlink()
    with pytest.raises(Exception, match=r"FAILED_READ_FILE|does not exist|FileNotFound|PATH_NOT_FOUND"):
        spark_lake.table("d.t").changes(0, mode="changelog").to_spark().collect()
