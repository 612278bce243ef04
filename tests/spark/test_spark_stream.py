"""Micro-batches are applied once each, even if Spark repeats them."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from pathlib import Path

import pytest
from naive import unreferenced
from pyspark.errors import PySparkException
from spark_support import configured, on_connect, same

import lsmlake
from lsmlake.errors import InvalidData, InvalidOption
from lsmlake.storage.local import LocalStorage

pytestmark = pytest.mark.spark

AVAILABLE = {"availableNow": True}
FILES, STEP, WIDTH = 3, 50, 100


@pytest.fixture
def table(spark_lake) -> lsmlake.Table:
    return spark_lake.create_table("d.t", "id BIGINT NOT NULL, v BIGINT", primary_key=["id"], options={"bucket": 2})


@pytest.fixture
def source(spark, tmp_path: Path):
    """A stream of three files, one a micro-batch; each file overwrites half of the file before."""
    folder = tmp_path / "in"
    for number in range(FILES):
        add_file(spark, folder, number)
    return stream_of(spark, folder)


def add_file(spark, folder: Path, number: int) -> None:
    write(spark.range(number * STEP, number * STEP + WIDTH, 1, 1).selectExpr("id", f"{number}L AS v"), folder)


def write(frame, folder: Path) -> None:
    frame.write.mode("append").parquet(str(folder))
    time.sleep(0.02)  # files are taken in the order of their times


def stream_of(spark, folder: Path):
    return spark.readStream.schema("id BIGINT, v BIGINT").option("maxFilesPerTrigger", 1).parquet(str(folder))


def expected(files: int = FILES) -> list[tuple]:
    """The last file that has a key wins."""
    return sorted(((i, min(i // STEP, files - 1)) for i in range((files - 1) * STEP + WIDTH)), key=repr)


def run(query) -> None:
    query.awaitTermination(120)
    query.stop()
    if failure := query.exception():
        raise AssertionError(str(failure))


def metrics(progress):
    """The values of our metrics in a progress of a query."""
    row = progress.observedMetrics["lsmlake"]
    return row.values if on_connect() else row  # PySpark 4.3's Row of a Connect query has the fields values and schema


def started(writer, folder: Path):
    return writer.option("checkpointLocation", str(folder / "c")).trigger(**AVAILABLE).start()


def commits(table: lsmlake.Table) -> list[tuple]:
    found = table.snapshots().select(["writer_id", "commit_id", "delta_record_count"])
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def check(table: lsmlake.Table, files: int = FILES) -> None:
    same(table.scan().to_arrow(), expected(files))
    same(table.df(), expected(files))
    assert table.verify() == [] and unreferenced(table) == []


# --- the ways to start one ---


def test_a_stream_is_applied_batch_by_batch(table, source, tmp_path):
    query = table.write_stream(source, checkpoint=str(tmp_path / "checkpoint"), trigger=AVAILABLE)
    run(query)
    check(table)
    assert [list(metrics(progress)) for progress in query.recentProgress] == [[WIDTH]] * FILES
    writers, numbers, rows = zip(*commits(table), strict=True)
    assert (len(set(writers)), numbers, rows) == (1, tuple(range(FILES)), (WIDTH,) * FILES)


def test_a_stream_resumes_where_it_stopped(spark, table, tmp_path):
    folder, checkpoint = tmp_path / "in", tmp_path / "check [x]*{y}?point"
    for number in range(3):
        add_file(spark, folder, number)
        if number:
            run(table.write_stream(stream_of(spark, folder), checkpoint=checkpoint, trigger=AVAILABLE))
            check(table, number + 1)
    assert [number for _, number, _ in commits(table)] == [0, 1, 2]


def test_a_stream_runs_until_it_is_stopped(spark, table, tmp_path):
    folder = tmp_path / "in"
    add_file(spark, folder, 0)
    trigger = {"processingTime": "50 milliseconds"}
    query = table.write_stream(stream_of(spark, folder), checkpoint=str(tmp_path / "c"), trigger=trigger)
    try:
        for number in range(1, FILES):
            wait_for(lambda seen=number: table.snapshots().num_rows == seen, query)
            add_file(spark, folder, number)
        wait_for(lambda: table.snapshots().num_rows == FILES, query)
    finally:
        query.stop()
    check(table)


def wait_for(happened, query, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert query.isActive, query.exception()
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@pytest.mark.connect
def test_a_sink_is_a_function_for_foreach_batch(table, source, tmp_path, caplog):
    caplog.set_level(logging.INFO, "lsmlake")
    if on_connect():
        with pytest.raises(InvalidOption, match="a sink cannot see which query calls it"):
            table.sink()
        sink = table.sink(checkpoint=str(tmp_path / "c"))
    else:
        sink = table.sink()
        for outside in (sink, table.sink(writer_id="orders")):
            with pytest.raises(InvalidData, match="called outside of a streaming query"):
                outside(source.sparkSession.range(1).selectExpr("id", "id AS v"), 0)
    query = started(source.writeStream.foreachBatch(sink), tmp_path)
    run(query)
    check(table)
    assert commits(table) == [(query.id, number, WIDTH) for number in range(FILES)]
    if not on_connect():  # there another process logs
        told = [line.rpartition(", ")[0] for line in caplog.messages if ": batch " in line]
        assert told == [f"d.t: batch {number} is in snapshot {number + 1}, {WIDTH} rows written" for number in range(FILES)]


def test_a_sink_may_have_a_name(table, source, tmp_path):
    """The name goes with one checkpoint: over restarts, and until another query is said to take its place."""

    def stream(checkpoint: str, **how: str):
        query = started(source.writeStream.foreachBatch(table.sink(writer_id="orders", **how)), tmp_path / checkpoint)
        run(query)
        return query

    first = stream("a")
    forget(tmp_path / "a" / "c", FILES - 1)
    assert stream("a").id == first.id
    check(table)
    assert commits(table) == [("orders", number, WIDTH) for number in range(FILES)]
    assert table.meta.snapshots.latest().queries == {"orders": first.id}
    with pytest.raises(PySparkException, match=rf"another streaming query.*expected query {first.id}, found query .*replaces = "):
        stream("b")
    check(table)
    second = stream("b", replaces=first.id)
    assert commits(table)[FILES:] == [("orders", number, WIDTH) for number in range(FILES)]
    assert table.meta.snapshots.latest().queries == {"orders": second.id}


@pytest.mark.parametrize(
    "names", [("one", "two"), ("one", "one"), pytest.param((None, None), marks=pytest.mark.connect(short="connect"))], ids=str
)
def test_two_sinks_of_one_function_need_two_names(table, source, tmp_path, names):
    """Their rows are others, but the batch is the same."""
    if on_connect() and names[0] is None:
        sinks = [table.sink(checkpoint=str(tmp_path / "c")) for _ in names]
    else:
        sinks = [table.sink(writer_id=name) for name in names]

    def both(df, batch_id: int) -> None:
        sinks[0](df.where("id % 2 = 0"), batch_id)
        sinks[1](df.where("id % 2 = 1"), batch_id)

    if len(set(names)) == 2:
        run(started(source.writeStream.foreachBatch(both), tmp_path))
        check(table)
        return
    for _ in range(2):  # the first half of the batch is there; when the query is started again it is not written again
        with pytest.raises(PySparkException, match=r"already written batch 0 with the writer_id .*pass a different writer_id"):
            run(started(source.writeStream.foreachBatch(both), tmp_path))
        assert [(number, rows) for _, number, rows in commits(table)] == [(0, WIDTH // 2)]


# --- run again ---


def forget(checkpoint: Path, batch: int) -> None:
    """What the checkpoint is if the driver dies between our commit of the batch and Spark's."""
    for path in (checkpoint / "commits").iterdir():
        if path.name.strip(".").split(".")[0] == str(batch):
            path.unlink()


@pytest.mark.connect(short="classic")
def test_a_batch_that_spark_runs_again_is_applied_once(spark, table, tmp_path):
    folder, checkpoint = tmp_path / "in", tmp_path / "check [x]*{y}?point"
    for number in range(2):
        add_file(spark, folder, number)
        for _ in range(2):
            run(table.write_stream(stream_of(spark, folder), checkpoint=checkpoint, trigger=AVAILABLE))
            check(table, number + 1)
            forget(checkpoint, number)
    assert [number for _, number, _ in commits(table)] == [0, 1]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_batch_leaves_nothing_and_comes_again(table, source, tmp_path, monkeypatch, kind):
    """A sink ends the query, for which Spark would wait for ever. In a function of the user the call raises the interruption."""
    error, caught, put = kind("in the second batch"), [], LocalStorage.put_if_absent

    def interrupted(storage: LocalStorage, path: str, data: bytes) -> bool:
        if path.endswith("snapshot-2"):
            raise error
        return put(storage, path, data)

    def each(df, batch_id: int) -> None:
        try:
            table.upsert(df, writer_id="each", commit_id=batch_id)
        except BaseException as found:
            caught.append(found)
            raise ValueError from None

    function = each if kind is SystemExit else table.sink()
    with monkeypatch.context() as patch, pytest.raises(PySparkException, match=r"batch 1 was interrupted|ValueError"):
        patch.setattr(LocalStorage, "put_if_absent", interrupted)
        started(source.writeStream.foreachBatch(function), tmp_path).awaitTermination(120)
    assert caught == ([error] if function is each else [])
    assert (table.version.number, unreferenced(table)) == (1, [])
    run(started(source.writeStream.foreachBatch(function), tmp_path))
    check(table)


def test_a_stream_without_its_checkpoint_begins_anew(spark, table, source, tmp_path):
    """Batches are numbered from 0 again, and are others: none of them may be taken for one that was applied."""
    checkpoint = tmp_path / "checkpoint"
    run(table.write_stream(source, checkpoint=checkpoint, trigger=AVAILABLE))
    table.delete_keys(spark.range(10_000))
    assert table.scan().count() == 0
    shutil.rmtree(checkpoint)
    run(table.write_stream(source, checkpoint=checkpoint, trigger=AVAILABLE))
    check(table)
    assert len({writer for writer, number, _ in commits(table) if number is not None}) == 2


# --- what comes in ---


def test_a_stream_may_carry_deletes(spark, spark_lake, tmp_path):
    options = {"bucket": 2, "rowkind.field": "op"}
    table = spark_lake.create_table("d.c", "id BIGINT NOT NULL, op STRING", primary_key=["id"], options=options)
    for first, op in ((0, "+I"), (5, "-D")):
        write(spark.range(first, 10, 1, 1).selectExpr("id", f"'{op}' AS op"), tmp_path / "in")
    stream = spark.readStream.schema("id BIGINT, op STRING").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    run(table.write_stream(stream, checkpoint=str(tmp_path / "c"), trigger=AVAILABLE))
    same(table.scan(columns=["id"]).to_arrow(), [(i,) for i in range(5)])


@pytest.mark.connect(short="connect")
def test_a_bad_batch_stops_the_stream_and_leaves_the_table_as_it_was(spark, table, tmp_path):
    folder = tmp_path / "in"
    add_file(spark, folder, 0)
    run(table.write_stream(stream_of(spark, folder), checkpoint=str(tmp_path / "c"), trigger=AVAILABLE))
    write(spark.range(1).selectExpr("CAST(NULL AS BIGINT) AS id", "0L AS v"), folder)
    with pytest.raises(Exception, match="column 'id': a null in a NOT NULL column"):
        run(table.write_stream(stream_of(spark, folder), checkpoint=str(tmp_path / "c"), trigger=AVAILABLE))
    check(table, 1)


def test_an_aggregation_keeps_its_newest_result_by_key(spark, table, tmp_path, source):
    """Update mode: an upsert is what it asks for."""
    with configured(spark, spark__sql__shuffle__partitions=2):
        counts = source.groupBy("id").count().selectExpr("id", "`count` AS v")
        writer = counts.writeStream.outputMode("update").foreachBatch(table.sink(writer_id="counts"))
        run(started(writer, tmp_path))
    last = FILES * STEP
    same(table.df(), sorted(((i, 2 if STEP <= i < last else 1) for i in range(last + STEP)), key=repr))


def test_streams_and_compaction_share_a_table(spark, spark_lake, tmp_path):
    """Two streams write halves of the keys while a thread compacts all the time."""
    table = spark_lake.create_table("d.s", "half INT NOT NULL, id BIGINT NOT NULL, v BIGINT", primary_key=["half", "id"],
                                    options={"bucket": 2, "commit.max-retries": 50})  # fmt: skip
    for number in range(FILES):
        add_file(spark, tmp_path / "in", number)
    stop, failures = threading.Event(), []

    def compacting() -> None:
        rounds = 0
        try:
            while not stop.is_set():
                table.compact(full=(rounds := rounds + 1) % 2 == 0)
        except Exception as failure:
            failures.append(failure)

    compactor = threading.Thread(target=compacting)
    compactor.start()
    try:
        queries = [
            table.write_stream(
                stream_of(spark, tmp_path / "in").selectExpr(f"{half} AS half", "id", "v"),
                checkpoint=str(tmp_path / f"c{half}"),
                trigger=AVAILABLE,
            )
            for half in range(2)
        ]
        for query in queries:
            run(query)
    finally:
        stop.set()
        compactor.join()
    assert failures == []
    same(table.df(), sorted(((half, *row) for half in range(2) for row in expected()), key=repr))
    of_streams = [(writer, number) for writer, number, _ in commits(table) if number is not None]
    assert len(set(of_streams)) == len(of_streams) == 2 * FILES
    assert table.verify() == [] and unreferenced(table) == []
