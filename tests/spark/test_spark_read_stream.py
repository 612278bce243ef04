"""Streaming reads of a table: every change once across restarts, ordered within a key, within the limits of a micro-batch."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from spark_support import rows, same

import lsmlake
from lsmlake.errors import InvalidQuery
from lsmlake.spark.datasource.readers import ReadAllAvailable

pytestmark = pytest.mark.spark

AVAILABLE = {"availableNow": True}
COLUMNS = (
    "id BIGINT NOT NULL, amount DECIMAL(10,2), tags ARRAY<STRUCT<x: INT, y: STRING>>, counts MAP<STRING, INT>, "
    "seen TIMESTAMP, day DATE, data BINARY"
)
LIMITS = ReadAllAvailable is not None


@pytest.fixture
def table(spark_lake) -> lsmlake.Table:
    return made(spark_lake, "d.t", {"changelog-producer": "lookup"})


def made(lake, name: str, options: dict[str, object]) -> lsmlake.Table:
    return lake.create_table(name, COLUMNS, primary_key=["id"], options={"bucket": 2, **options})


def put(spark, table, version: int, kinds: dict[int, str]) -> None:
    """Rows that tell their version, in their kinds."""
    changes = spark.createDataFrame(pa.table({"id": list(kinds), "op": list(kinds.values())}))
    values = [
        f"cast({version} as decimal(10,2)) as amount",
        f"array(struct({version} as x, string(id) as y)) as tags",
        f"map('v', {version}) as counts",
        "timestamp'2026-01-01 12:00:00' as seen",
        "if(id % 2 = 0, date'2026-01-01', null) as day",
        "cast('x' as binary) as data",
    ]
    table.upsert(changes.selectExpr("id", *values, "op"), row_kind="op")


def history(spark, table) -> None:
    put(spark, table, 1, {1: "+I", 2: "+I", 3: "+I", 4: "+I"})
    put(spark, table, 2, {1: "+U", 2: "-D", 5: "+I"})
    put(spark, table, 3, {2: "+I", 3: "-D", 1: "+U"})


class Collected:
    """What the micro-batches of a stream held, a file for each."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder / "collected")
        Path(self.folder).mkdir()

    def __call__(self, df, batch_id: int) -> None:
        found = [[row["_row_kind"], row["id"], None if row["amount"] is None else int(row["amount"])] for row in df.collect()]
        path = Path(f"{self.folder}/{batch_id}")
        assert not path.exists() or json.loads(path.read_text()) == found, "a batch read again is another"
        path.write_text(json.dumps(found))

    def batches(self) -> list[list[list]]:
        return [json.loads(path.read_text()) for path in sorted(Path(self.folder).iterdir(), key=lambda path: int(path.name))]

    def all(self) -> list[tuple]:
        return sorted((tuple(row) for batch in self.batches() for row in batch), key=repr)


def run(stream, to, checkpoint: Path) -> None:
    finish(stream.writeStream.foreachBatch(to).option("checkpointLocation", str(checkpoint)).trigger(**AVAILABLE).start())


def finish(query) -> None:
    query.awaitTermination(120)
    query.stop()
    if failure := query.exception():
        raise AssertionError(str(failure))


def test_a_copy_follows_its_table(spark, spark_lake, table, tmp_path):
    copy = made(spark_lake, "d.copy", {"bucket": 3})

    def catch_up() -> None:
        stream = table.read_stream(max_rows=3, consumer="copy")
        finish(copy.write_stream(stream, checkpoint=str(tmp_path / "checkpoint"), trigger=AVAILABLE, row_kind="_row_kind"))
        same(copy.df(), rows(table.df()))

    history(spark, table)
    catch_up()
    commits = copy.snapshots().num_rows
    assert commits > 1 or not LIMITS
    catch_up()
    assert copy.snapshots().num_rows == commits, "nothing new, nothing written"
    put(spark, table, 4, {1: "-D", 9: "+I", 5: "+U"})
    table.compact(full=True)
    put(spark, table, 5, {9: "-D", 5: "+U"})
    catch_up()
    assert copy.verify() == []


def test_changes_are_delivered_once_across_a_restart(spark, table, tmp_path):
    history(spark, table)
    emitted, checkpoint = Collected(tmp_path), tmp_path / "checkpoint"

    def dies(df, batch_id: int) -> None:
        emitted(df, batch_id)
        raise RuntimeError("killed after the work, before Spark knows of it")

    stream = table.read_stream(snapshot=2, max_rows=1)
    with pytest.raises(PySparkException, match="killed after the work"):
        run(stream, dies, checkpoint)
    assert len(emitted.batches()) == 1
    put(spark, table, 4, {4: "+U"})
    for _ in range(1 if LIMITS else 2):  # on Spark 4.1 availableNow runs one micro-batch, even if it only repeats one
        run(table.read_stream(snapshot=2, max_rows=1), emitted, checkpoint)
    expected = [("-U", 1, 1), ("+U", 1, 2), ("-D", 2, 1), ("+I", 5, 2)]
    expected += [("-U", 1, 2), ("+U", 1, 3), ("+I", 2, 3), ("-D", 3, 1), ("-U", 4, 1), ("+U", 4, 4)]
    assert emitted.all() == sorted(expected, key=repr)
    of_one = [(kind, amount) for batch in emitted.batches() for kind, key, amount in batch if key == 1]
    assert of_one == [("-U", 1), ("+U", 2), ("-U", 2), ("+U", 3)], "in order"
    if LIMITS:
        assert len(emitted.batches()) > 3


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, [("+I", 1, 3), ("+I", 2, 3), ("+I", 4, 1), ("+I", 5, 2)]),
        ({"snapshot": 3, "mode": "delta"}, [("+I", 1, 3), ("+I", 2, 3), ("-D", 3, 1)]),
        ({"snapshot": 3, "columns": ["id", "amount"], "mode": "diff"}, [("-U", 1, 2), ("+U", 1, 3), ("+I", 2, 3), ("-D", 3, 1)]),
        ({"timestamp": "2020-01-01 00:00:00", "where": "id = 2"}, [("+I", 2, 1), ("-D", 2, 1), ("+I", 2, 3)]),
    ],
)
def test_where_to_start_and_what_to_read(spark, table, tmp_path, how, expected):
    history(spark, table)
    emitted = Collected(tmp_path)
    run(table.read_stream(**how), emitted, tmp_path / "checkpoint")
    assert emitted.all() == sorted(expected, key=repr)


def test_a_consumer_outlives_its_checkpoint_and_protects_unread_snapshots(spark, table, tmp_path):
    history(spark, table)
    emitted = Collected(tmp_path)
    run(table.read_stream(consumer="job", snapshot=1), emitted, tmp_path / "one")
    put(spark, table, 4, {4: "+U"})
    put(spark, table, 5, {4: "+U"})
    table.expire_snapshots(retain_max=1)
    assert table.snapshots().num_rows > 1
    (tmp_path / "again").mkdir()
    again = Collected(tmp_path / "again")
    run(table.read_stream(consumer="job"), again, tmp_path / "two")
    assert {("-U", 4, 1), ("+U", 4, 4), ("-U", 4, 4), ("+U", 4, 5)} <= set(again.all())
    assert table.consumers()["next_snapshot_id"].to_pylist()[0] >= (6 if LIMITS else 1)


def test_a_table_without_a_changelog_is_followed_by_comparing(spark, spark_lake, tmp_path):
    table = made(spark_lake, "d.plain", {})
    history(spark, table)
    emitted = Collected(tmp_path)
    run(table.read_stream(snapshot=2), emitted, tmp_path / "checkpoint")
    expected = [("-U", 1, 1), ("+U", 1, 2), ("-D", 2, 1), ("+I", 5, 2), ("-U", 1, 2), ("+U", 1, 3), ("+I", 2, 3), ("-D", 3, 1)]
    assert emitted.all() == sorted(expected, key=repr)


@pytest.mark.connect(short="classic")
def test_by_format(spark, table, tmp_path):
    history(spark, table)
    folder = table.meta.env.storage.place(table.path)
    lsmlake.register(spark)
    reader = spark.read.format("lsmlake")
    same(reader.load(folder), rows(table.df()))
    same(
        reader.option("where", "id > 1").option("columns", "id, tags").load(folder),
        rows(table.df(where="id > 1").select("id", "tags")),
    )
    same(spark.read.format("lsmlake").option("scan.snapshot-id", 1).load(folder), rows(table.df(snapshot=1)))
    table.create_tag("first", 1)
    same(spark.read.format("lsmlake").option("scan.tag-name", "first").load(folder), rows(table.df(tag="first")))
    stream = spark.readStream.format("lsmlake").option("scan.mode", "from-snapshot").option("scan.snapshot-id", 3).load(folder)
    assert stream.columns == table.schema.names
    query = stream.writeStream.format("memory").queryName("by_format").option("checkpointLocation", str(tmp_path / "c"))
    finish(query.trigger(**AVAILABLE).start())
    same(spark.table("by_format").selectExpr("id", "int(amount) as amount"), [(1, 3), (2, 3)])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scan.snapshot": "1"}, "did you mean 'scan.snapshot-id'"),
        ({"read.stream.maxRowsPerTrigger": "many"}, "is a number"),
        ({"scan.tag-name": "a"}, "not for streams"),
    ],
)
def test_wrong_options_are_reported(spark, table, tmp_path, options, words):
    history(spark, table)
    lsmlake.register(spark)
    with pytest.raises((PySparkException, AssertionError), match=words):
        stream = spark.readStream.format("lsmlake").options(**options).load(table.meta.env.storage.place(table.path))
        run(stream, Collected(tmp_path), tmp_path / "checkpoint")


@pytest.mark.connect
@pytest.mark.parametrize(
    ("how", "words"),
    [({"max_rows": 0}, "max_rows"), ({"start": "now"}, "latest-full")],
)
def test_nonsense_is_refused_before_a_query_starts(table, how, words):
    with pytest.raises(InvalidQuery, match=words):
        table.read_stream(**how)


@pytest.mark.connect
def test_a_folder_that_is_not_a_table_is_refused_by_the_format(spark, tmp_path):
    lsmlake.register(spark)
    with pytest.raises(PySparkException, match="not the folder of a table"):
        spark.read.format("lsmlake").load(str(tmp_path)).count()
