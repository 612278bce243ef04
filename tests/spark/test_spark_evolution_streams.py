"""Streams in and out of a table that is altered while they run: they go on, or stop with the cure and continue from there."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from spark_support import same

import lsmlake
from lsmlake.api.table import Table
from lsmlake.errors import CommitConflict, InvalidQuery
from lsmlake.spark import frame_writer

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]

DDL = "id BIGINT, a INT, b INT"
AVAILABLE = {"availableNow": True}


def put(table: Table, **row: object) -> None:
    table.upsert(pa.Table.from_pylist([row], table.schema))


def finish(query) -> None:
    """Waits for the end of a query. Raises its error."""
    query.awaitTermination(120)
    if failure := query.exception():
        raise failure


def wait(query, happened) -> None:
    """Waits for a query that runs until it is stopped. Raises its error."""
    end = time.monotonic() + 60
    while not happened():
        if failure := query.exception():  # on Connect it may come a moment after the query is inactive
            raise failure
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


class Received:
    """The rows that a stream has delivered, as pairs of names and values, with one file per micro-batch."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.checkpoint = str(folder / "received"), str(folder / "checkpoint")
        Path(self.folder).mkdir()

    def start(self, stream, **trigger: object):
        folder = self.folder

        def store(df, batch_id: int) -> None:
            Path(f"{folder}/{batch_id}").write_text(json.dumps([row.asDict() for row in df.collect()]))

        writer = stream.writeStream.foreachBatch(store).option("checkpointLocation", self.checkpoint)
        return writer.trigger(**trigger or {"processingTime": "200 milliseconds"}).start()

    def rows(self) -> list[dict]:
        files = sorted(Path(self.folder).iterdir(), key=lambda path: int(path.name))
        return [row for path in files for row in json.loads(path.read_text() or "[]")]

    def of(self, number: int) -> list[dict]:
        return [row for row in self.rows() if row["id"] == number]


def plus(**row: object) -> list[dict]:
    return [{"_row_kind": "+I", **row}]


def test_a_stream_of_changes_goes_on_or_stops_with_the_cure_and_continues(lake, spark_lake, tmp_path):
    table, on_spark, received = lake.create_table("d.t", DDL, primary_key=["id"]), spark_lake.table("d.t"), Received(tmp_path)
    put(table, id=1, a=1, b=1)
    before = on_spark.read_stream()
    running = received.start(before)
    wait(running, lambda: received.of(1))
    table.alter(lsmlake.add_column("n", "INT", default=7), lsmlake.rename_column("a", "c"), lsmlake.rename_column("b", "a"))
    table.alter(lsmlake.move_column("n", first=True), lsmlake.set_not_null("a"))
    put(table, id=2, c=2, a=20, n=200)
    wait(running, lambda: received.of(2))
    assert received.of(2) == plus(id=2, a=2, b=20), "the columns that it began with, by field id"
    table.alter(lsmlake.change_type("c", "BIGINT"))
    put(table, id=3, c=1 << 40, a=30, n=300)
    with pytest.raises(PySparkException, match=r"column 'a' changed from INT to BIGINT; make the stream again"):
        wait(running, lambda: received.of(3))
    finish(received.start(on_spark.read_stream(), **AVAILABLE))
    assert received.of(3) == plus(id=3, c=1 << 40, a=30, n=300)
    assert [row["id"] for row in received.rows()] == [1, 2, 3]
    put(table, id=4, c=4, a=40, n=400)
    with pytest.raises(PySparkException, match="make the stream again"):
        finish(received.start(before, **AVAILABLE))


def test_a_stream_by_format_keeps_the_columns_that_it_was_loaded_with(spark, lake, tmp_path):
    """A classic DataFrame; Spark Connect loads again whenever a query starts."""
    table, received = lake.create_table("d.t", DDL, primary_key=["id"]), Received(tmp_path)
    put(table, id=1, a=1, b=1)
    lsmlake.register(spark)
    folder = table.meta.env.storage.place(table.path)
    stream = spark.readStream.format("lsmlake").load(folder)
    table.alter(lsmlake.add_column("n", "INT"))
    running = received.start(stream)
    wait(running, lambda: received.of(1))
    assert received.rows() == [{"id": 1, "a": 1, "b": 1}]
    table.alter(lsmlake.drop_column("a"))
    with pytest.raises(PySparkException, match=r"column 'a' was dropped; make the stream again"):
        wait(running, lambda: False)
    with pytest.raises(PySparkException, match=r"does not have the columns that Spark asks for; .*load the stream again"):
        finish(received.start(stream, **AVAILABLE))


def source(spark, folder: Path, columns: str):
    return spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(folder))


def add_file(folder: Path, **row: object) -> None:
    folder.mkdir(exist_ok=True)
    table = pa.Table.from_pylist([row], pa.schema([(name, pa.int64() if name == "id" else pa.int32()) for name in row]))
    pa.parquet.write_table(table, folder / f"{row['id']}.parquet")
    time.sleep(0.02)  # files are taken in the order of their times


def test_a_stream_of_upserts_goes_on_while_rows_fit_and_continues_with_new_columns(spark, lake, spark_lake, tmp_path):
    table, folder = lake.create_table("d.t", DDL, primary_key=["id"], options={"bucket": 2}), tmp_path / "in"
    on_spark, checkpoint = spark_lake.table("d.t"), str(tmp_path / "checkpoint")

    def started(columns: str, **trigger: object):
        how = trigger or {"processingTime": "200 milliseconds"}
        return on_spark.write_stream(source(spark, folder, columns), checkpoint=checkpoint, trigger=how)

    def there(number: int) -> bool:
        return table.get({"id": number}) is not None

    add_file(folder, id=1, a=1, b=1)
    running = started(DDL)
    wait(running, lambda: there(1))
    table.alter(
        lsmlake.add_column("n", "INT", default=7), lsmlake.change_type("b", "BIGINT"), lsmlake.move_column("b", first=True)
    )
    add_file(folder, id=2, a=2, b=2)
    wait(running, lambda: there(2))
    table.alter(lsmlake.rename_column("a", "c"))
    add_file(folder, id=3, c=3, b=3, more=3)
    with pytest.raises(PySparkException, match=r"lacks the columns \['c'\] and has extra columns \['a'\]"):
        wait(running, lambda: there(3))
    table.alter(lsmlake.set_option("write.merge-schema", "true"))
    finish(started("id BIGINT, c INT, b INT, more INT", **AVAILABLE))
    expected = [(1, 1, 1, 7, None), (2, 2, 2, 7, None), (3, 3, 3, 7, 3)]
    same(table.scan(columns=["id", "c", "b", "n", "more"]).to_arrow(), expected)
    assert table.schema.names == ["b", "id", "c", "n", "more"]
    table.alter(lsmlake.rename_column("more", "note"))
    for path in Path(checkpoint, "commits").iterdir():  # as if the driver had died after the last commit
        if path.name.strip(".").split(".")[0] == "2":
            path.unlink()
    finish(started("id BIGINT, c INT, b INT, more INT", **AVAILABLE))
    assert table.schema.names == ["b", "id", "c", "n", "note"], "a batch that was applied before adds no column"
    assert table.scan().count() == 3 and table.verify() == []


@pytest.mark.parametrize("alteration, fits", [(lsmlake.add_column("n", "INT"), True), (lsmlake.set_not_null("a"), False)])
def test_a_write_that_began_before_an_alteration_fits_or_is_refused_whole(spark, lake, spark_lake, monkeypatch, alteration, fits):
    table = lake.create_table("d.t", DDL, primary_key=["id"], options={"bucket": 2, "write.collect-rows": 0})
    put(table, id=1, a=1, b=1)
    publish = frame_writer.publish

    def altered_first(*arguments: object):
        table.alter(alteration)
        return publish(*arguments)

    monkeypatch.setattr(frame_writer, "publish", altered_first)
    frame = spark.range(2, 4).selectExpr("id", "1 as a", "1 as b")
    if fits:
        spark_lake.table("d.t").upsert(frame)
    else:
        with pytest.raises(CommitConflict, match="altered"):
            spark_lake.table("d.t").upsert(frame)
    assert table.scan().count() == (3 if fits else 1) and table.verify() == []


@pytest.mark.connect
def test_arguments_that_name_a_dropped_column_are_refused_at_once(lake, spark_lake):
    table = lake.create_table("d.t", DDL, primary_key=["id"])
    put(table, id=1, a=1, b=1)
    table.alter(lsmlake.drop_column("a"))
    for how in ({"columns": ["id", "a"]}, {"where": "a = 1"}):
        with pytest.raises(InvalidQuery, match=r"unknown column.* expected .*id.*b"):
            spark_lake.table("d.t").read_stream(**how)
