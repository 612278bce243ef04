"""A whole database in step by `Lake.sync` on Spark: a stream of many tables' events, and the same rows as in one process."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import source_database as source
from source_database import SourceDatabase, SourceTable
from strategies import new_lake

import lsmlake
from lsmlake.cdc import ChangeFormat
from lsmlake.cdc.inferred_types import of_spark
from lsmlake.errors import InvalidOption, InvalidQuery

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]


def event(op: str, table: str, after: dict | None, lsn: int, before: dict | None = None) -> str:
    source = {"db": "shop", "table": table, "lsn": lsn}
    return json.dumps({"before": before, "after": after, "source": source, "op": op, "ts_ms": 1})


def rows_of(lake: lsmlake.Lake, name: str) -> list[dict[str, object]]:
    return lake.table(name).to_arrow().sort_by(lake.table(name).primary_key[0]).to_pylist()


def frame(spark, events: list[str | None]):
    return spark.createDataFrame([(one,) for one in events], "value STRING")


@pytest.mark.connect(short="classic")
def test_a_stream_keeps_a_database_in_step_exactly_once(spark, spark_lake, tmp_path: Path):
    """Two micro-batches; the second one adds a column, is partly unreadable, and is applied again after its end was forgotten."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    stream = spark.readStream.schema("value STRING").text(str(folder))
    given = {"format": "debezium-json", "database": "shop", "tables": r"shop\..*", "primary_keys": ["id"]}
    given |= {"computed_columns": {"a": {"twice": "n * 2"}}, "excluding_tables": ".*other"}
    given |= {"checkpoint": checkpoint, "trigger": {"availableNow": True}}
    first = [event("c", "a", {"id": 1, "n": 1}, 1), event("c", "b", {"id": 1, "s": "x"}, 2), event("c", "other", {"id": 1}, 3)]
    second = [event("u", "a", {"id": 1, "n": 2, "new": "y"}, 11), "{", event("c", "a", {"id": 2, "n": "z"}, 12)]
    second += [event("d", "b", None, 13, {"id": 1}), event("c", "b", {"id": 7, "s": "w"}, 14)]
    for batch in (first, second):
        frame(spark, batch).coalesce(1).write.mode("append").text(str(folder))
        query = spark_lake.sync(stream, **given)
        query.awaitTermination(240)
        assert query.exception() is None
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink()
    query = spark_lake.sync(stream, **given)
    query.awaitTermination(240)
    assert query.exception() is None
    assert rows_of(spark_lake, "shop.a") == [{"id": 1, "n": 2, "twice": 4, "new": "y"}]
    assert rows_of(spark_lake, "shop.b") == [{"id": 7, "s": "w"}]
    for name in ("a", "b"):
        snapshots = spark_lake.table(f"shop.{name}").snapshots().to_pylist()
        assert [one["commit_id"] for one in snapshots if one["commit_id"] is not None] == [0, 1]
    rejected = [spark_lake.table(f"shop.{name}").to_arrow()["event"].to_pylist() for name in ("a_rejected", "rejected_events")]
    assert rejected == [[second[2]], ["{"]] and "other" not in spark_lake.tables("shop")


def test_an_event_of_which_nothing_can_be_computed_is_rejected_alone(spark, spark_lake):
    mark = "__debezium_unavailable_value"
    spark_lake.create_table("d.a", "id BIGINT NOT NULL, n STRING, s STRING, m INT, both VARCHAR(3)", primary_key=["id"])
    rows = [("1", "a"), ("x", "a"), ("1", mark), ("1", "abc"), ("2", "b")]
    events = [event("c", "a", {"id": id, "n": n, "s": s}, id) for id, (n, s) in enumerate(rows)]
    computed = {"a": {"m": "CAST(n AS INT)", "both": "concat(n, s)"}}
    report = spark_lake.sync(frame(spark, events), format="debezium-json", database="d", computed_columns=computed)
    assert (report["a"].rejected, report["a"].reasons) == (3, ())
    assert [(row["m"], row["both"]) for row in rows_of(spark_lake, "d.a")] == [(1, "1a"), (2, "2b")]
    found = spark_lake.table("d.a_rejected").to_arrow().sort_by("position").to_pylist()
    words = ["'m'", "lacks unchanged values that the computed column 'both'", "has 4 characters"]
    assert [word in one["reason"] for one, word in zip(found, words, strict=True)] == [True] * 3


def test_a_frame_gives_the_same_tables_as_one_process(spark, spark_lake):
    tables = [
        SourceTable("shop", "orders", {"id": "int", "name": "varchar(20)", "n": "smallint", "price": "decimal(8,2)"}),
        SourceTable("shop", "items", {"sku": "bigint", "weight": "float", "label": "varchar(9)"}),
    ]
    database, here = SourceDatabase(random.Random(5), tables), new_lake()
    for writer, format in ((source.debezium, "debezium-json"), (source.canal, "canal-json")):
        changes = list(source.changes(database, 60))
        messages = [(writer(one), source.key_of(one)) for one in changes]
        given = {"format": format, "database": "shop"}
        report = spark_lake.sync(spark.createDataFrame(messages, "value STRING, key STRING"), **given)
        assert here.sync([{"value": text, "key": key} for text, key in messages], **given).to_arrow()["rows"].to_pylist() == [
            one.rows for one in report.tables
        ]
        for name in ("orders", "items"):
            there = spark_lake.table(f"shop.{name}")
            assert there.schema == here.table(f"shop.{name}").schema
            assert rows_of(spark_lake, f"shop.{name}") == rows_of(here, f"shop.{name}")


def test_kinds_of_values_are_those_of_one_process(spark, spark_lake):
    row = {
        "id": 1,
        "whole": 7,
        "part": 1.5,
        "tiny": 1e-9,
        "yes": True,
        "text": "a",
        "list": [1],
        "o b": {"x": {"y": 1}},
        "none": None,
    }
    more = {
        "id": 2,
        "whole": 2**62,
        "part": 2,
        "tiny": 1,
        "yes": None,
        "text": 5,
        "list": [],
        "o b": None,
        "none": None,
        "big": 2**70,
    }
    events = [event("c", "t", one, number) for number, one in enumerate((row, more))]
    given, here = {"format": "debezium-json", "database": "shop", "primary_keys": ["id"]}, new_lake()
    spark_lake.sync(frame(spark, events), **given)
    here.sync(events, **given)
    assert spark_lake.table("shop.t").schema == here.table("shop.t").schema
    assert rows_of(spark_lake, "shop.t") == rows_of(here, "shop.t")
    assert of_spark("OBJECT<`a``,b`: OBJECT<x: DECIMAL(3,1)>, c: DECIMAL(5,0), d: VOID>") == of_spark(
        "ARRAY<OBJECT<`a``,b`: OBJECT<x: DECIMAL(3,1)>, c: DECIMAL(5,0), d: VOID>>"
    )


def test_a_table_that_is_refused_does_not_stop_the_others(spark, spark_lake):
    given = {"format": "debezium-json", "database": "shop", "primary_keys": {"b": ["id"]}}
    report = spark_lake.sync(frame(spark, [event("c", "a", {"id": 1}, 1), event("c", "b", {"id": 1}, 2)]), **given)
    assert (report["a"].rejected, report["b"].rows) == (1, 1) and "primary key" in report["a"].reasons[0]
    assert spark_lake.table("shop.a_rejected").count() == 1
    wrong = {"checkpoint": "x"}, {"every": "1 s"}, {"trigger": {"once": True}}
    for words in wrong:
        with pytest.raises(InvalidQuery):
            spark_lake.sync(frame(spark, []), **given, **words)
    with pytest.raises(InvalidOption, match="needs a checkpoint"):
        spark_lake.sync(spark.readStream.format("rate").load().selectExpr("'' AS value"), **given)
    document = {"_id": {"_data": "1"}, "operationType": "insert", "ns": {"db": "m", "coll": "t"}, "documentKey": {"_id": 1}}
    text = json.dumps({**document, "fullDocument": {"_id": 1, "n": {"$numberLong": "7"}}})
    spark_lake.sync(frame(spark, [text]), format="mongodb", database="shop")
    assert rows_of(spark_lake, "shop.t") == [{"_id": 1, "n": 7}]


def test_a_bad_event_of_a_table_that_is_not_there_is_rejected(spark, spark_lake):
    source = {"db": "shop", "table": "absent_table"}
    bad = [{"op": "X", "source": source}, {"op": "c", "after": None, "source": source}, {"op": "t", "source": source}]
    df = spark.createDataFrame([(json.dumps(one),) for one in bad], "value string")
    report = spark_lake.sync(df, format="debezium-json", database="absent", primary_keys=["id"])
    assert report["absent_table"].rejected == 2 and spark_lake.tables("absent") == ["absent_table_rejected"]


def test_messages_in_avro_are_routed_by_tasks(spark, spark_lake):
    names = [{"name": name, "type": ["null", "string"]} for name in ("db", "schema", "table")]
    value = {"type": "record", "name": "V", "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": "int"}]}
    parts = [("after", ["null", value]), ("source", {"type": "record", "name": "S", "fields": names}), ("op", "string")]
    schema = {"type": "record", "name": "E", "fields": [{"name": name, "type": type_} for name, type_ in parts]}
    key = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "long"}]}
    head = bytes([0, 0, 0, 0, 7])

    def text(word: str) -> bytes:
        return bytes([2, len(word) * 2]) + word.encode()

    message = head + bytes([2, 14, 10]) + text("shop") + bytes([0]) + text("items") + bytes([2]) + b"c"
    messages = spark.createDataFrame([(message, bytes([0, 0, 0, 0, 8, 14]))], "value BINARY, key BINARY")
    spark_lake.sync(messages, format=ChangeFormat("debezium-avro", registry={7: schema, 8: key}), database="shop")
    assert rows_of(spark_lake, "shop.items") == [{"id": 7, "n": 5}] and spark_lake.table("shop.items").primary_key == ("id",)
