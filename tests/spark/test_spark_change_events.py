"""Change events and the words of AUTO CDC on Spark: the same rows as in one process, exactly once."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import event_values
import pyarrow as pa
import pytest

import lsmlake
from lsmlake.cdc import ChangeFormat
from lsmlake.cdc.change_input import ChangeArguments, ChangeInput
from lsmlake.cdc.event_rows import EventReader
from lsmlake.errors import InvalidData, InvalidQuery, LakeError
from lsmlake.spark import change_frames
from lsmlake.spark.change_frames import ChangeFrame, decoded_frame, events_of
from lsmlake.spark.learned import Learned

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[1] / "golden" / "change_events"
UNAVAILABLE = "__debezium_unavailable_value"


def event(op: str, after: dict | None, lsn: int, before: dict | None = None) -> str:
    return json.dumps({"before": before, "after": after, "source": {"lsn": lsn}, "op": op, "ts_ms": 1})


def row(number: int | str, name: str | None = "a", n: int | None = 1) -> dict[str, object]:
    return {"id": number, "name": name, "n": n}


def rows_of(table: lsmlake.Table) -> list[dict[str, object]]:
    return table.to_arrow().sort_by(table.primary_key[0]).to_pylist()


def frame(spark, events: list[str], parts: int = 3):
    return spark.createDataFrame([(one,) for one in events], "value STRING").repartition(parts)


@pytest.mark.connect(short="classic")
def test_batches_of_events_are_applied_in_the_order_of_their_source(spark, spark_lake):
    """Plain changes; then a batch that keeps values and one with a truncate, which need more than an upsert."""
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT NOT NULL", primary_key=["id"])
    first = frame(spark, [event("c", row(number), number) for number in range(5)])
    written = [table.upsert(first, format="debezium-json", writer_id="w", commit_id=1).id for _ in range(2)]
    changes = [event("u", row(3, "late"), 20), event("u", row(3, "early"), 19), event("d", None, 21, {"id": 1})]
    changes += [event("u", row(40), 23, {"id": 4})]
    table.upsert(frame(spark, changes), format="debezium-json")
    assert written == [1, 1] and rows_of(table) == [row(0), row(2), row(3, "late"), row(40)]
    kept = [event("u", row(3, UNAVAILABLE, 5), 31), event("u", row(3, UNAVAILABLE, 6), 32)]
    kept += [event("c", row(50, "b"), 33), event("u", row(50, UNAVAILABLE, 7), 34), event("d", None, 35, {"id": 0})]
    table.upsert(frame(spark, kept), format="debezium-json")
    assert rows_of(table) == [row(2), row(3, "late", 6), row(40), row(50, "b", 7)]
    with pytest.raises(InvalidData, match=r"'id': 99.*lacks a value that has not changed"):
        table.upsert(frame(spark, [event("u", row(99, UNAVAILABLE), 36)]), format="debezium-json")
    lost = frame(spark, [event("u", row(99, UNAVAILABLE), 36), event("u", row(3, UNAVAILABLE, 6), 37)])
    for _ in range(2):
        table.upsert(lost, format="debezium-json", on_error="reject", writer_id="w", commit_id=2)
    (found,) = spark_lake.table("d.t_rejected").to_arrow().to_pylist()
    assert (found["position"], found["event"]) == (f"{36:020d}", event("u", row(99, UNAVAILABLE), 36))
    truncated = [
        event("u", row(3, "x"), 41),
        event("t", None, 42),
        event("c", row(7), 43),
        event("u", row(7, UNAVAILABLE, 8), 44),
    ]
    table.upsert(frame(spark, truncated), format="debezium-json")
    assert rows_of(table) == [row(7, n=8)]


@pytest.mark.parametrize("identity", [{}, {"writer_id": "w", "commit_id": 7}], ids=str)
def test_an_event_that_only_a_later_attempt_rejects_is_recorded(
    spark, spark_lake, identity: dict, monkeypatch: pytest.MonkeyPatch
):
    """Another commit deletes one row and makes another meanwhile. An event that an attempt has rejected is not applied then."""
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, name STRING", primary_key=["id"])
    table.upsert([{"id": number, "name": "old"} for number in (1, 2, 3)])
    events = [event("u", {"id": number, "name": UNAVAILABLE}, number) for number in (1, 2, 3, 9)]
    plain, meanwhile = ChangeFrame.plain, [{"id": 9, "name": "new"}]

    def overtaken(self: ChangeFrame) -> object:
        if meanwhile:
            spark_lake.table("d.t").delete_keys([{"id": 2}])
            spark_lake.table("d.t").upsert([meanwhile.pop()])
        return plain(self)

    monkeypatch.setattr(ChangeFrame, "plain", overtaken)
    for _ in range(2 if identity else 1):
        table.upsert(frame(spark, events), format="debezium-json", on_error="reject", **identity)
    assert rows_of(table) == [{"id": 1, "name": "old"}, {"id": 3, "name": "old"}, {"id": 9, "name": "new"}]
    found = spark_lake.table("d.t_rejected").to_arrow()["position"].to_pylist()
    assert sorted(map(int, found)) == [2, 9]


def test_an_event_that_a_dead_process_has_rejected_is_not_applied(spark, spark_lake, monkeypatch: pytest.MonkeyPatch):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT", primary_key=["id"])
    events = frame(spark, [event("u", row(number, UNAVAILABLE, 5), number) for number in (8, 9)] + [event("c", row(1), 10)])
    given = {"format": "debezium-json", "on_error": "reject", "writer_id": "w", "commit_id": 7}

    with_old_values, upsert = ChangeFrame._with_old_values, change_frames.frame_writer.upsert

    def die(self: ChangeFrame, *given: object) -> None:
        with monkeypatch.context() as patched:
            patched.setattr("lsmlake.spark.frame_writer.upsert", dying)
            with_old_values(self, *given)

    def dying(version: object, *given: object, **named: object) -> object:
        if version.meta.paths.table_name == "d.t":
            raise KeyboardInterrupt
        return upsert(version, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(ChangeFrame, "_with_old_values", die)
        with pytest.raises(KeyboardInterrupt):
            table.upsert(events, **given)
    table.upsert([row(9, "new", 0)], cast=True)
    for _ in range(2):
        table.upsert(events, **given)
    assert rows_of(table) == [row(1), row(9, "new", 0)]
    assert sorted(map(int, spark_lake.table("d.t_rejected").to_arrow()["position"].to_pylist())) == [8, 9]


def test_a_stream_of_events_rejects_those_that_cannot_be_read(spark, spark_lake, tmp_path: Path):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT", primary_key=["id"])
    folder = tmp_path / "in"
    frame(spark, [event("c", row(1), 1), "{", event("c", row(2, n="x"), 2), event("c", row(3), 3)], 1).write.text(str(folder))
    stream = spark.readStream.schema("value STRING").text(str(folder))
    words = {"format": "debezium-json", "on_error": "reject", "apply_as_deletes": "id = 3"}
    for _ in range(2):
        query = table.write_stream(stream, checkpoint=tmp_path / "c", trigger={"availableNow": True}, **words)
        query.awaitTermination(120)
        assert query.exception() is None
    rejected = spark_lake.table("d.t_rejected").to_arrow().to_pylist()
    assert rows_of(table) == [row(1)] and [one["event"] for one in rejected] == ["{", event("c", row(2, n="x"), 2)]
    for bad, words in (("{", "no object with the field"), (event("c", row(9) | {"x": 1}, 9), "no column for the field 'x'")):
        with pytest.raises(InvalidData, match=words):
            table.upsert(frame(spark, [bad]), format="debezium-json")


def test_executors_without_duckdb_read_what_spark_has_parsed(spark, spark_lake, monkeypatch: pytest.MonkeyPatch):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT", primary_key=["id"])
    seen: set[object] = {spark}
    monkeypatch.setattr("lsmlake.spark.change_frames._WITHOUT_DUCKDB", seen)
    table.upsert(frame(spark, [event("c", row(1), 1), event("u", row(1, "b"), 2)]), format="debezium-json")
    with pytest.raises(InvalidData, match="no column for the field 'x'"):
        table.upsert(frame(spark, [event("c", row(2) | {"x": 1}, 3)]), format="debezium-json")
    assert rows_of(table) == [row(1, "b")]


@pytest.mark.parametrize("with_duckdb", [True, False])
def test_texts_of_events_arrive_as_in_process(
    spark, spark_lake, tmp_path: Path, with_duckdb: bool, monkeypatch: pytest.MonkeyPatch
):
    """Lines, byte order marks, bytes that are not UTF-8, two objects in a text, values that do not fit, canal's old rows."""
    if not with_duckdb:
        seen: set[object] = {spark}
        monkeypatch.setattr("lsmlake.spark.change_frames._WITHOUT_DUCKDB", seen)
    texts = ["\ufeff" + event("c", row("1", "a?"), 1).replace("?", "\u2028\u0085"), event("c", row("2"), 2)]
    texts += [event("c", row("3"), 3) + event("c", row("4"), 4), event("c", row("5", "long"), 5)]
    lines = [text.encode() for text in texts] + [event("c", row("6", "?"), 7).encode().replace(b"?", b"\xe9")]
    (tmp_path / "lines").write_bytes(b"\r\n".join(lines))
    canal = {"type": "UPDATE", "data": [row("7"), row("8")], "old": [{"id": "9"}]}
    found = []
    for name, frames in (
        ("frame", [spark.read.text(str(tmp_path / "lines")), frame(spark, [json.dumps(canal)])]),
        ("list", [lines, [json.dumps(canal)]]),
    ):
        table = spark_lake.create_table(f"d.{name}", "id CHAR(3) NOT NULL, name VARCHAR(3), n INT", primary_key=["id"])
        for data, format in zip(frames, ("debezium-json", "canal-json"), strict=True):
            table.upsert(data, format=format, on_error="reject")
        kept = [event("u", row("2", UNAVAILABLE, 5), 8)]
        table.upsert(frame(spark, kept) if name == "frame" else kept, format="debezium-json")
        rejected = spark_lake.table(f"d.{name}_rejected").to_arrow().to_pylist()
        found.append((rows_of(table), sorted(one["event"] for one in rejected)))
        reasons = " ".join(one["reason"] for one in rejected)
        assert all(words in reasons for words in ("not text in UTF-8", "no object", "4 characters", "1 in 'old', 2 in 'data'"))
    assert found[0] == found[1]
    assert found[0][0] == [row("1  ", "a\u2028\u0085"), row("2  ", n=5)] and len(found[0][1]) == 4


def test_a_table_that_cannot_hold_rejected_events_is_refused_before_a_stream_starts(spark, spark_lake, tmp_path: Path):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT", primary_key=["id"])
    spark_lake.create_table("d.other", "a INT")
    words = {"format": "debezium-json", "on_error": "reject", "rejected": "d.other"}
    stream = spark.readStream.schema("value STRING").text(str(tmp_path))
    for call in (
        lambda: table.write_stream(stream, checkpoint=tmp_path / "c", **words),
        lambda: table.sink(**words),
        lambda: table.upsert(frame(spark, [event("c", row(1), 1)]), **words),
    ):
        with pytest.raises(InvalidData, match="the table for rejected events has other columns"):
            call()
    assert rows_of(table) == [] and not (tmp_path / "c").exists()


def test_documents_have_the_same_values_whatever_parses_them(spark):
    oid = {"$oid": "57e193d7a9cc81b4027498b5"}
    texts = ["7", '{"$oid": "57e193d7a9cc81b4027498b5"}', 'a "b"\\é\n', "57e193d7a9cc81b4027498b5", "", "null", "true"]
    values = [*texts, oid, {"b": 1, "a": "x"}, [1, "1"], 7, True, {"$minKey": 1}, {"$date": -1}, {"$symbol": 'a"b'}, None]
    ids = [oid, *texts[2:5], {"b": 1, "a": "x"}, 'a "b"']
    made = [{"_id": ids[n % len(ids)], "v": value, "s": {"v": oid}} for n, value in enumerate(values)]
    events = [json.dumps({"op": "c", "after": json.dumps(one), "source": {"ts_ms": 1, "ord": n}}) for n, one in enumerate(made)]
    columns = pa.schema([("_id", pa.string()), ("v", pa.string()), ("s", pa.struct([("v", pa.string())]))])
    reader = EventReader(ChangeFormat("mongodb"), columns, ("_id",))
    here = lsmlake.cdc.decode(events, "mongodb", columns, primary_key=["_id"]).to_pylist()
    for by_spark in (True, False):
        assert decoded_frame(frame(spark, events, 1), reader, None, by_spark=by_spark).toArrow().to_pylist() == here


@pytest.mark.parametrize("documents", [False, True])
def test_values_of_events_are_those_of_one_process_where_spark_parses_them(spark, documents: bool):
    cases = event_values.cases_in_documents() if documents else event_values.cases()
    reader = event_values.reader_of_documents() if documents else event_values.reader()
    events = frame(spark, [event for event, *_ in cases], 1)
    given = ChangeInput(reader.format, None, rejects=True)
    found = change_frames._decoded(events, reader, given, strict=False, by_spark=True)
    event_values.check(found.toArrow(), cases)


def test_a_field_to_leave_out_that_no_event_has_is_told(spark, spark_lake, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """As in one process. A field that was met once is not looked for again."""
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT, s STRUCT<x: INT>", primary_key=["id"])
    rows = [{**row(1), "s": {"x": 1}, "note": 1}, {**row(2), "s": {"x": 1, "y": 2}}, {**row(3), "s": None}]
    given = [event("c", one, one["id"]) for one in rows]
    for names in (["note", "s.y"], ["note", "s.y", "noet", "s.z"]):
        table.upsert(frame(spark, given), format="debezium-json", except_columns=names)
    deletes = frame(spark, [event("d", None, 9, {"id": 1})])
    table.upsert(deletes, format="debezium-json", except_columns=["other"])  # no row, so no field
    told = f"{table.name}: except_columns names what no event of the batch and no column has: "
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [f"{told}noet, s.z"]
    words = ChangeArguments("debezium-json", except_columns=["note", "nope"])
    changes, learned = ChangeInput.of(table.version.schema, words, row_kind=False, evolve=False), Learned()
    events, reader = events_of(frame(spark, given), changes.format, None), changes.reader(table.version.schema, "UTC")
    change_frames._tell_unmet(table.version, events, changes, learned, reader, by_spark=True)
    assert {name for _, name in learned.met} == {"note"} and caplog.records[-1].getMessage() == f"{told}nope"


def test_the_words_of_auto_cdc(spark, spark_lake):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT NOT NULL", primary_key=["id"])
    table.upsert([row(1), row(2)])
    rows = spark.sql("SELECT * FROM VALUES (1L, 'b', NULL, 'd'), (3L, NULL, 6, 'u') AS v(id, name, n, op)")
    table.upsert(rows, apply_as_deletes="op = 'd'", except_columns=["op"])
    assert rows_of(table) == [row(2), row(3, None, 6)]
    rows = spark.sql("SELECT * FROM VALUES (2L, NULL, CAST(NULL AS INT)), (4L, 'new', 1) AS v(id, name, n)")
    table.upsert(rows, ignore_null_updates=True)
    assert rows_of(table) == [row(2), row(3, None, 6), row(4, "new")]
    table.alter(lsmlake.add_column("note", "STRING"))
    table.upsert([{"id": 4, "name": "new", "n": 1, "note": "kept"}], cast=True)
    table.upsert(spark.sql("SELECT 4L AS id, 'newer' AS name, CAST(NULL AS INT) AS n"), ignore_null_updates=True)
    assert table.get({"id": 4}) == {"id": 4, "name": "newer", "n": 1, "note": "kept"}, "an omitted column is no null"
    table.alter(lsmlake.drop_column("note"), lsmlake.add_column("level", "INT", default=3))
    words = {"apply_as_deletes": "op = 'd'", "except_columns": ["op"], "ignore_null_updates": True}
    table.upsert(spark.sql("SELECT 4L AS id, CAST(NULL AS STRING) AS name, CAST(NULL AS INT) AS n, 'd' AS op"), **words)
    assert table.get({"id": 4}) is None, "a delete needs its key only"
    with pytest.raises(InvalidData, match=r"no \['level'\]"):
        table.upsert(spark.sql("SELECT 4L AS id, 'a' AS name, 1 AS n, 'u' AS op"), **words)
    table.alter(lsmlake.drop_column("level"))
    rows = spark.sql(
        "SELECT * FROM VALUES (5L, 'a', 1, 't', 2), (6L, 'b', 1, 'u', 1), (7L, 'c', 1, 'u', 3) AS v(id, name, n, k, at)"
    )
    table.upsert(rows, apply_as_truncates="k = 't'", columns=["id", "name", "n"], order_by="at")
    assert rows_of(table) == [row(7, "c")]
    with pytest.raises(InvalidQuery, match="nope"):
        table.upsert(rows, apply_as_deletes="nope = 1", columns=["id", "name", "n"])
    with pytest.raises(InvalidData, match="nothing tells which rows come before"):
        table.upsert(rows, apply_as_truncates="k = 't'", columns=["id", "name", "n"])


@pytest.mark.parametrize(("word", "left"), [("apply_as_deletes", [1, 5]), ("apply_as_truncates", [5])])
def test_an_event_of_which_a_condition_cannot_be_evaluated_is_rejected_alone(spark, spark_lake, word: str, left: list[int]):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT", primary_key=["id"])
    condition = "CAST(name AS INT) = 5 OR 10 / (n - 7) > 100"
    given = [row(1, "1"), row(2, "x"), row(3, "1", 7), row(4, "5"), row(5, None), row(6, UNAVAILABLE)]
    events = frame(spark, [event("u", one, one["id"]) for one in given])
    with pytest.raises(InvalidData, match=rf"{word} 'CAST.* cannot be evaluated|that a condition reads"):
        table.upsert(events, format="debezium-json", **{word: condition})
    assert table.snapshots().num_rows == 0
    table.upsert(events, format="debezium-json", on_error="reject", **{word: condition})
    assert [one["id"] for one in rows_of(table)] == left
    rejected = spark_lake.table("d.t_rejected").to_arrow().sort_by("position").to_pylist()
    words = [f"{word} {condition!r} cannot be evaluated", "division by zero", "unchanged values that a condition reads"]
    assert [word in one["reason"] for one, word in zip(rejected, words, strict=True)] == [True] * 3
    unordered = frame(spark, [event("u", one, 10 + one["id"]) for one in (row(5, "7"), row(5, "x"), row(5, "6"))])
    table.upsert(unordered, format="debezium-json", on_error="reject", order_by="CAST(name AS INT)")
    assert table.get({"id": 5}) == row(5, "7") and spark_lake.table("d.t_rejected").count() == 4


@pytest.mark.parametrize("with_duckdb", [True, False])
def test_conditions_say_nothing_of_rejected_events_and_of_truncates(
    spark, spark_lake, with_duckdb: bool, monkeypatch: pytest.MonkeyPatch
):
    """Their values are null. A condition that only Spark knows sees no null for a value that has not changed, either."""
    if not with_duckdb:
        seen: set[object] = {spark}
        monkeypatch.setattr("lsmlake.spark.change_frames._WITHOUT_DUCKDB", seen)
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT", primary_key=["id"])
    events = [event("c", row(1), 1), "{", event("c", row(2, n="x"), 2), event("t", None, 3), event("c", row(3), 4)]
    words = {"format": "debezium-json", "apply_as_deletes": "name IS NULL"}
    table.upsert(frame(spark, events, 1), on_error="reject", **words)
    assert rows_of(table) == [row(3)] and spark_lake.table("d.t_rejected").count() == 2
    kept = frame(spark, [event("u", row(3, UNAVAILABLE, 5), 5)])
    for condition in ("name IS NULL", "try_variant_get(try_parse_json(name), '$', 'string') IS NULL"):
        with pytest.raises(LakeError, match="an update lacks unchanged values that a condition reads"):
            table.upsert(kept, format="debezium-json", apply_as_deletes=condition)
    assert rows_of(table) == [row(3)]


def assert_avro_is_read_in_tasks(spark) -> None:
    schema = {"type": "record", "name": "E", "fields": [{"name": "op", "type": "string"}, {"name": "after", "type": ROW_IN_AVRO}]}
    message = bytes([0, 0, 0, 0, 7, 2]) + b"c" + bytes([14])  # the number of the schema, the text of one byte, the number 7
    messages = spark.createDataFrame([(message,)], "value BINARY")
    read = lsmlake.cdc.decode(messages, ChangeFormat("debezium-avro", registry={7: schema}), "id BIGINT")
    assert [(one["id"], one["_row_kind"]) for one in read.collect()] == [(7, "+I")]


ROW_IN_AVRO = {"type": "record", "name": "V", "fields": [{"name": "id", "type": "long"}]}


def test_golden_events_give_the_same_rows_as_in_one_process(spark):
    cases = {
        "canal": ("canal-json", "id BIGINT, name STRING, price DECIMAL(16,2), at TIMESTAMP, blob BINARY", "id"),
        "maxwell": ("maxwell-json", "id BIGINT, name STRING, price DECIMAL(16,2), at TIMESTAMP, blob BINARY", "id"),
        "ogg": ("ogg-json", "ID INT, NAME STRING, PRICE DECIMAL(10,2), AT DATE", "ID"),
        "debezium_mysql_schema": ("debezium-json", "id BIGINT, price DECIMAL(12,2), day DATE, seen TIMESTAMP, bits BINARY", "id"),
        "mongodb_change_stream": ("mongodb", "_id STRING, name STRING, n BIGINT, price DECIMAL(10,2), data BINARY", "_id"),
    }
    for name, (format, columns, key) in cases.items():
        path = GOLDEN / f"{name}.jsonl"
        here = lsmlake.cdc.decode(path, format, columns, primary_key=[key])
        there = lsmlake.cdc.decode(spark.read.text(str(path)), format, columns, primary_key=[key]).toArrow()
        assert there.to_pylist() == here.to_pylist(), name
    assert_avro_is_read_in_tasks(spark)
    numbers = frame(spark, ['{"op_type":"I","after":{"id":1,"a":12345678901234567890.0123456789}}'], 1)
    exact = lsmlake.cdc.decode(numbers, "ogg-json", "id INT, a DECIMAL(30,10)").collect()
    assert exact[0]["a"] == Decimal("12345678901234567890.0123456789")
