"""Change events of other systems: golden events of each format, the order of events, values that have not changed, truncates,
rejected events; and the words of AUTO CDC. Random histories are compared with a model that applies one event after the other."""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
import threading
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from effort import scaled
from strategies import new_lake

import lsmlake
from lsmlake import Lake, Table
from lsmlake.cdc import ChangeFormat
from lsmlake.errors import InvalidData, InvalidQuery, LakeError
from lsmlake.read import point

GOLDEN = Path(__file__).parents[1] / "golden" / "change_events"
UNAVAILABLE = "__debezium_unavailable_value"
NOON = dt.datetime(2023, 11, 14, 22, 13, 20)
UTC = dt.timezone.utc


def made(columns: str = "id BIGINT NOT NULL, name STRING, n INT", key: str = "id", **options: object) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return new_lake().create_table("d.t", columns, primary_key=[key], options=named)


def rows_of(table: Table) -> list[dict[str, object]]:
    """The rows, by their first column."""
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: str(next(iter(row.values()))))


def event(op: str, after: dict | None, lsn: int, before: dict | None = None) -> str:
    return json.dumps({"before": before, "after": after, "source": {"lsn": lsn}, "op": op, "ts_ms": 1})


def row(number: int, name: str | None = "a", n: int | None = 1) -> dict[str, object]:
    return {"id": number, "name": name, "n": n}


# -- golden events ----------------------------------------------------------------------------------------------------


def test_events_of_postgres_without_a_schema():
    columns = """order_id BIGINT NOT NULL, status STRING, amount DECIMAL(10,2), placed DATE, opened TIME, at TIMESTAMP_NTZ,
        zoned TIMESTAMP, payload STRING, blob BINARY, tags ARRAY<STRING>, paid BOOLEAN NOT NULL, weight DOUBLE"""
    table = made(columns, "order_id")
    events = ChangeFormat("debezium-json", decimals="bytes", times="micros", timestamps="micros")
    table.upsert(GOLDEN / "debezium_postgres.jsonl", format=events)
    one, twenty = rows_of(table)
    assert one == {
        "order_id": 1,
        "status": "paid",
        "amount": Decimal("60.00"),
        "placed": dt.date(2023, 11, 14),
        "opened": dt.time(10),
        "at": NOON,
        "zoned": NOON.replace(microsecond=123456, tzinfo=UTC),
        "payload": '{"a": 1}',
        "blob": b"\x00\xff",
        "tags": ["x", "y"],
        "paid": False,
        "weight": 1.5,
    }
    assert (twenty["order_id"], twenty["amount"], twenty["placed"]) == (20, Decimal("-0.01"), dt.date(1969, 12, 31))


def test_events_of_mysql_that_describe_their_values():
    columns = """id BIGINT NOT NULL, price DECIMAL(12,2), day DATE, clock TIME, made TIMESTAMP_NTZ, seen TIMESTAMP, kind STRING,
        doc STRING, any DECIMAL(10,3), bits BINARY, y INT"""
    table = made(columns)
    table.upsert(GOLDEN / "debezium_mysql_schema.jsonl", format="debezium-json")
    one, two = rows_of(table)
    assert one == {
        "id": 1,
        "price": Decimal("512.00"),  # the event of the later file: 10 is after 9
        "day": dt.date(2023, 11, 14),
        "clock": dt.time(1),
        "made": NOON.replace(microsecond=123000),
        "seen": NOON.replace(tzinfo=UTC),
        "kind": "a",
        "doc": '{"k":[1]}',
        "any": Decimal("-1.000"),
        "bits": b"\x07",
        "y": 2023,
    }
    assert (two["id"], two["price"], two["any"]) == (2, None, Decimal("1.234"))


ITEMS = "id BIGINT NOT NULL, name STRING, price DECIMAL(16,2), at TIMESTAMP, blob BINARY"


def test_events_of_canal_change_several_rows_each():
    table = made(ITEMS)
    table.upsert(GOLDEN / "canal.jsonl", format="canal-json")
    moment = NOON.replace(tzinfo=UTC)
    assert rows_of(table) == [{"id": 1, "name": "z", "price": Decimal("1.50"), "at": moment, "blob": b"\xff\x00"}]


def test_events_of_maxwell():
    table = made(ITEMS)
    table.upsert(GOLDEN / "maxwell.jsonl", format="maxwell-json")
    assert rows_of(table) == [{"id": 4, "name": "c", "price": Decimal("1.50"), "at": None, "blob": None}]
    first = lsmlake.cdc.decode(GOLDEN / "maxwell.jsonl", "maxwell-json", ITEMS).to_pylist()[0]
    assert (first["price"], first["blob"], first["_row_kind"]) == (Decimal("12345678901234.56"), b"\x00\xff", "+I")


def test_an_update_of_goldengate_keeps_what_it_does_not_name():
    table = made("ID INT NOT NULL, NAME STRING, PRICE DECIMAL(10,2), AT DATE", "ID")
    table.upsert(GOLDEN / "ogg.jsonl", format="ogg-json")
    assert rows_of(table) == [{"ID": 1, "NAME": "z", "PRICE": None, "AT": dt.date(2023, 11, 14)}]


def test_events_of_dms_apply_by_their_times():
    table = made("id INT NOT NULL, name STRING, at TIMESTAMP_NTZ")
    table.upsert(GOLDEN / "dms.jsonl", format="aws-dms")
    assert rows_of(table) == [{"id": 1, "name": "z", "at": NOON}]


def test_rows_of_dms_in_parquet(tmp_path: Path):
    import pyarrow.parquet as pq

    table = made()
    loads = pa.table({"id": pa.array([1, 2, 3]), "name": ["a", "b", "c"], "n": pa.array([1, 2, 3], pa.int32())})
    pq.write_table(loads, tmp_path / "load.parquet")
    changes = loads.set_column(1, "name", pa.array(["x", "y", "z"])).append_column("Op", pa.array(["U", "D", "I"]))
    pq.write_table(changes, tmp_path / "changes.parquet")
    for name in ("load", "changes"):
        table.upsert(tmp_path / f"{name}.parquet", format="aws-dms")
    assert [one["name"] for one in rows_of(table)] == ["x", "z"]
    together = made()
    together.upsert([tmp_path / "load.parquet", tmp_path / "changes.parquet"], format="aws-dms")
    assert rows_of(together) == rows_of(table)


DOCUMENTS = "_id STRING NOT NULL, name STRING, n BIGINT, at TIMESTAMP, price DECIMAL(10,2), data BINARY"


def test_change_streams_of_mongodb():
    table = made(DOCUMENTS, "_id")
    table.upsert(GOLDEN / "mongodb_change_stream.jsonl", format="mongodb")
    moment = NOON.replace(tzinfo=UTC)
    assert rows_of(table) == [{"_id": f"64f{'0' * 19}aa", "name": "z", "n": 7, "at": moment, "price": None, "data": b"\x00\xff"}]


def test_events_of_debezium_for_mongodb_have_their_key_beside_them():
    table = made(DOCUMENTS, "_id")
    messages = [json.loads(line) for line in (GOLDEN / "mongodb_debezium.jsonl").read_text().splitlines()]
    table.upsert(messages, format="mongodb")
    (left,) = rows_of(table)
    assert (left["_id"][-2:], left["name"], left["n"], left["at"]) == ("aa", "z", None, NOON.replace(tzinfo=UTC))


def test_an_update_of_a_part_of_a_document_is_refused():
    table = made(DOCUMENTS, "_id")
    change = {"updatedFields": {"name.first": "x"}, "removedFields": []}
    place = {"_id": {"_data": "1"}, "documentKey": {"_id": "1"}}
    text = json.dumps({**place, "operationType": "update", "updateDescription": change})
    with pytest.raises(InvalidData, match="changes a part of 'name'"):
        table.upsert([text], format="mongodb")


def test_a_field_to_leave_out_that_no_event_has_is_told(caplog: pytest.LogCaptureFixture):
    table = made()
    for names in (["note"], ["note", "noet"]):
        table.upsert([event("c", {**row(1), "note": 1}, 1)], format="debezium-json", except_columns=names)
    table.upsert([event("d", None, 2, {"id": 1})], format="debezium-json", except_columns=["note"])  # no row, so no field
    (record,) = caplog.records
    assert record.getMessage() == f"{table.name}: except_columns names what no event of the batch and no column has: noet"
    with pytest.raises(InvalidQuery, match=r"unknown columns.*found \['noet'\]"):  # rows have all of their columns
        table.upsert([row(1)], except_columns=["noet"])


# -- what data can be -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["list", "bytes", "text", "iterator", "file", "column", "other column", "dicts"])
def test_events_come_in_many_forms(shape, tmp_path: Path):
    table, events = made(), [event("c", row(1), 1), event("c", row(2), 2)]
    (tmp_path / "events.log").write_text("\n".join(events))
    data = {
        "list": events,
        "bytes": [one.encode() for one in events],
        "text": "\n".join(events),
        "iterator": iter(events),
        "file": tmp_path / "events.log",
        "column": pa.table({"value": [one.encode() for one in events], "topic": ["x", "y"]}),
        "other column": pa.table({"body": events}),
        "dicts": [{"value": one} for one in events],
    }[shape]
    table.upsert(data, format="debezium-json", column="body" if shape == "other column" else None)
    assert rows_of(table) == [row(1), row(2)]


def test_events_with_and_without_a_schema_mix():
    field = {"type": "int32", "name": "io.debezium.time.Date", "field": "day"}
    schema = {"fields": [{"field": "after", "fields": [{"type": "int64", "field": "id"}, field]}]}
    payload = {"op": "c", "after": {"id": 1, "day": 1}, "source": {"lsn": 1}}
    plain = {**payload, "after": {"id": 2, "day": "1970-01-03"}}
    table = made("id BIGINT NOT NULL, day DATE")
    table.upsert(map(json.dumps, [{"schema": schema, "payload": payload}, plain]), format="debezium-json")
    assert [one["day"] for one in rows_of(table)] == [dt.date(1970, 1, 2), dt.date(1970, 1, 3)]


def test_values_that_could_mean_two_things_are_refused_until_an_argument_says_which():
    table = made("id BIGINT NOT NULL, price DECIMAL(10,0), at TIMESTAMP")
    with pytest.raises(InvalidData, match="decimals='text' or 'bytes'"):
        table.upsert([event("c", {"id": 1, "price": "1234", "at": None}, 1)], format="debezium-json")
    with pytest.raises(InvalidData, match="timestamps='millis'"):
        table.upsert([event("c", {"id": 1, "price": None, "at": 1}, 1)], format="debezium-json")
    said = ChangeFormat("debezium-json", decimals="text", timestamps="millis")
    table.upsert([event("c", {"id": 1, "price": "1234", "at": 1500}, 1)], format=said)
    assert rows_of(table)[0]["price"] == 1234 and rows_of(table)[0]["at"].microsecond == 500_000


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("canal-json", {"decimals": "bytes"}),
        ("maxwell-json", {"unavailable": "?"}),
        ("mongodb", {"times": "millis", "binary": "hex"}),
        ("debezium-avro", {"registry": {7: {}}, "timestamps": "micros"}),
    ],
)
def test_an_argument_that_says_nothing_of_a_format_is_refused(name, arguments):
    said = ", ".join(one for one in arguments if one != "registry")
    with pytest.raises(InvalidQuery, match=f"{name} has no use for {said}"):
        ChangeFormat(name, **arguments)


def test_words_about_events_are_refused_for_rows():
    told = ChangeFormat("aws-dms", times="micros")
    for words in ({"format": "plain", "on_error": "reject"}, {"format": told}):
        _refused_for_rows(words)


def _refused_for_rows(words: dict[str, object]) -> None:
    with pytest.raises(InvalidQuery, match="says something of events, and the data has rows"):
        made().upsert([row(1)], **words)


def test_numbers_keep_their_digits():
    table = made("id BIGINT NOT NULL, price DECIMAL(38,10)")
    text = '{"op":"c","after":{"id":%d,"price":%s},"source":{"lsn":1}}'
    table.upsert([text % (1, "12345678901234567890.0123456789"), text % (2, "-0.1")], format="debezium-json")
    assert [str(one["price"]) for one in rows_of(table)] == ["12345678901234567890.0123456789", "-0.1000000000"]
    two = '{"op":"u","before":{"id":1,"price":9007199254740993.1},"after":{"id":1,"price":9007199254740993.2},"source":{"lsn":2}}'
    table.upsert([two], format="debezium-json")
    assert [str(one["price"]) for one in rows_of(table)] == ["9007199254740993.2000000000", "-0.1000000000"]


# -- order, keys, unchanged values, truncates ---------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
@pytest.mark.parametrize("seed", range(scaled(6)))
def test_random_histories_equal_a_model_that_applies_one_event_after_the_other(seed, engine):
    """The events of a batch arrive in any order. Some updates move a key, lack a text that has not changed, or come from a
    truncate; batches are committed one after the other."""
    chance = random.Random(f"{seed} {engine}")
    table = made(merge_engine=engine, **({"partial-update.remove-record-on-delete": True} if engine != "deduplicate" else {}))
    model: dict[int, dict[str, object]] = {}
    lsn = 0
    for _ in range(5):
        events = []
        for _ in range(chance.randrange(1, 40)):
            lsn += 1
            key = chance.randrange(12)
            old, new = model.get(key), row(key, chance.choice(["a", "b", None]), chance.randrange(9))
            if engine == "partial-update":  # under which a null leaves the old value
                new["name"] = new["name"] or "c"
            what = chance.random()
            if old is None:
                model[key] = new
                events.append(event("c", new, lsn))
            elif what < 0.2:
                del model[key]
                events.append(event("d", None, lsn, chance.choice([old, {"id": key}])))
            elif what < 0.3 and (free := chance.randrange(12)) not in model:
                del model[key]
                model[free] = {**new, "id": free}
                events.append(event("u", model[free], lsn, old))
            elif what < 0.6:
                model[key] = {**new, "name": old["name"]}
                events.append(event("u", {**new, "name": UNAVAILABLE}, lsn, chance.choice([None, {"id": key}])))
            elif what < 0.63 and engine == "deduplicate":
                model.clear()
                events.append(event("t", None, lsn))
            else:
                model[key] = new
                events.append(event("u", new, lsn))
        chance.shuffle(events)
        table.upsert(events, format="debezium-json", compact=chance.choice([None, False]))
        assert rows_of(table) == sorted(model.values(), key=lambda one: str(one["id"]))


def test_an_offset_orders_events_without_a_position():
    table = made()
    texts = [json.dumps({"op": "u", "after": row(1, name), "ts_ms": 1}) for name in ("late", "early")]
    table.upsert(pa.table({"value": texts, "offset": [7, 6]}), format="debezium-json")
    assert rows_of(table) == [row(1, "late")]


def test_an_unchanged_value_is_never_written_as_null():
    table = made("id BIGINT NOT NULL, name STRING, body STRING NOT NULL")
    update = event("u", {"id": 1, "name": UNAVAILABLE, "body": UNAVAILABLE}, 2)
    with pytest.raises(InvalidData, match="lacks a value that has not changed"):
        table.upsert([update], format="debezium-json")
    with pytest.raises(InvalidData, match="lacks a value that has not changed"):
        table.upsert([event("d", None, 1, {"id": 1}), update], format="debezium-json")
    table.upsert([{"id": 1, "name": "a", "body": "b"}])
    table.upsert([update], format="debezium-json")
    assert rows_of(table) == [{"id": 1, "name": "a", "body": "b"}]
    summed = made("id BIGINT NOT NULL, name STRING", merge_engine="aggregation")
    with pytest.raises(InvalidData, match="aggregation needs"):
        summed.upsert([event("u", {"id": 1, "name": UNAVAILABLE}, 2, {"id": 1, "name": "a"})], format="debezium-json")


def test_a_commit_of_another_writer_is_seen_by_an_update_that_keeps_values(monkeypatch: pytest.MonkeyPatch):
    """Another writer changes the row between the lookup of the old value and the commit."""
    table, looked = made(), threading.Event()
    table.upsert([row(1, "old")])
    lookup = point.rows_of_keys

    def overtaken(*given, **named):
        found = lookup(*given, **named)
        if not looked.is_set():
            looked.set()
            table.upsert([row(1, "new")])
        return found

    monkeypatch.setattr("lsmlake.cdc.change_rows.rows_of_keys", overtaken)
    table.upsert([event("u", row(1, UNAVAILABLE, 5), 9)], format="debezium-json")
    assert looked.is_set() and rows_of(table) == [row(1, "new", 5)]


def test_a_delete_needs_the_sequence_of_the_table():
    table = made(sequence__field="n")
    table.upsert([event("c", row(1, n=5), 1), event("c", row(2, n=5), 1)], format="debezium-json")
    table.upsert([event("d", None, 2, row(1, n=5)), event("u", row(2, "stale", n=4), 3)], format="debezium-json")
    assert rows_of(table) == [row(2, n=5)]
    with pytest.raises(InvalidData, match=r"sequence.field of the table, so it would delete nothing"):
        table.upsert([event("d", None, 4, {"id": 2})], format="debezium-json")


def test_keys_move_between_partitions_with_their_events():
    table = new_lake().create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT", primary_key=["id"], partition_by=["name"])
    table.upsert([event("c", row(1, "a"), 1), event("c", row(2, "a"), 2)], format="debezium-json")
    events = [event("u", row(1, "b", 7), 3), event("d", None, 4, {"id": 2}), event("u", row(1, UNAVAILABLE, 8), 5)]
    table.upsert(events, format="debezium-json")
    table.upsert([event("u", row(1, UNAVAILABLE, 9), 6)], format="debezium-json")
    assert rows_of(table) == [row(1, "b", 9)]


def test_an_aggregation_takes_back_the_row_before_an_update():
    table = new_lake().create_table(
        "d.t",
        "id BIGINT NOT NULL, total BIGINT",
        primary_key=["id"],
        options={"merge-engine": "aggregation", "fields.total.aggregate-function": "sum"},
    )
    old, new = {"id": 1, "total": 5}, {"id": 1, "total": 7}
    table.upsert([event("c", old, 1), event("u", new, 2, old)], format="debezium-json")
    assert rows_of(table) == [new]
    with pytest.raises(InvalidQuery, match="take back"):
        table.upsert([], format="canal-json")


def test_a_truncate_after_the_last_row_leaves_nothing_and_is_replayed_once():
    table = made()
    table.upsert([row(1), row(2)])
    events = [event("c", row(3), 1), event("t", None, 2)]
    first = table.upsert(events, format="debezium-json", writer_id="w", commit_id=1)
    assert rows_of(table) == [] and first is not None
    table.upsert([row(5)])
    table.upsert(events, format="debezium-json", writer_id="w", commit_id=1)
    assert rows_of(table) == [row(5)]


# -- rejected events --------------------------------------------------------------------------------------------------

BAD = {
    "{": "no object with the field",
    event("x", None, 1): "unknown operation 'x'",
    event("c", row(1, n="seven"), 2): "column 'n': expected INT, found 'seven'",
    event("c", {"name": "a", "n": 1}, 3): "no value for the key column 'id'",
}


@pytest.mark.parametrize("text", BAD)
def test_an_event_that_cannot_be_read_stops_the_write_or_is_rejected(text: str):
    lake: Lake = new_lake()
    table = lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT", primary_key=["id"])
    given = pa.table({"value": [event("c", row(7), 1), text], "offset": [41, 42]})
    with pytest.raises(InvalidData, match=BAD[text]) as refused:
        table.upsert(given, format="debezium-json")
    assert "offset 42" in str(refused.value) and text[:20] in str(refused.value) and "on_error='reject'" in str(refused.value)
    assert lake.tables("d") == ["t"] and table.count() == 0
    for _ in range(2):  # a replay writes nothing
        table.upsert(given, format="debezium-json", on_error="reject", writer_id="w", commit_id=3)
    (rejected,) = lake.table("d.t_rejected").to_arrow().to_pylist()
    assert BAD[text] in rejected["reason"] and rejected["event"] == text and rejected["event_offset"] == 42
    table.upsert(["{"], format="debezium-json", on_error="reject", rejected="d.others")
    assert lake.table("d.others").count() == 1 and rows_of(table) == [row(7)]


def test_a_row_without_an_envelope_is_no_heartbeat():
    """Fields of a row may have the names of a heartbeat's or a transaction's."""
    table = made()
    for text in ({"id": 1, "status": "END", "ts_ms": 5}, {"id": 1, "ddl": "x"}, {"ts_ms": 5, "id": 1}):
        with pytest.raises(InvalidData, match="no object with the field 'op'"):
            table.upsert([json.dumps(text)], format="debezium-json")
    change = {"source": {}, "ts_ms": 1, "databaseName": "shop", "schemaName": None, "ddl": "CREATE TABLE t", "tableChanges": []}
    enveloped = [json.dumps({"schema": {"fields": []}, "payload": one}) for one in ({"ts_ms": 1}, change)]
    assert table.upsert([json.dumps(change), '{"ts_ms": 5, "ts_us": 5000}', *enveloped], format="debezium-json") is None


def test_updates_that_lack_a_value_are_rejected_one_by_one():
    """They may be sent twice by their source, after their row was deleted."""
    lake = new_lake()
    table = lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT", primary_key=["id"])
    table.upsert([row(1, "a")])
    events = [event("u", row(1, UNAVAILABLE, 5), 1), event("u", row(2, UNAVAILABLE, 5), 2), event("u", row(2, UNAVAILABLE, 6), 3)]
    events += [
        event("c", row(3), 4),
        event("d", None, 5, {"id": 3}),
        event("u", row(3, UNAVAILABLE), 6),
        event("c", row(2, "b"), 7),
    ]
    for _ in range(2):
        table.upsert(events, format="debezium-json", on_error="reject", writer_id="w", commit_id=1)
    assert rows_of(table) == [row(1, "a", 5), row(2, "b")]
    rejected = lake.table("d.t_rejected").to_arrow()
    assert sorted(rejected["position"].to_pylist()) == [f"{place:020d}" for place in (2, 3, 6)]
    assert "key {'id': 2}" in rejected["reason"][0].as_py() or "key {'id': 3}" in rejected["reason"][0].as_py()


def test_many_bad_events_are_all_found():
    lake = new_lake()
    table = lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT", primary_key=["id"])
    events = [event("c", row(number, n="x" if number % 3 else number), number) for number in range(300)]
    table.upsert(events, format="debezium-json", on_error="reject")
    assert table.count() == 100 and lake.table("d.t_rejected").count() == 200


# -- the words of AUTO CDC --------------------------------------------------------------------------------------------


def test_conditions_and_columns():
    table = made("id BIGINT NOT NULL, name STRING, n INT NOT NULL")
    table.upsert([row(1), row(2)])
    data = {"id": [2, 3, 1], "name": ["b", None, None], "n": [5, 6, None], "op": ["u", "c", "d"], "at": [1, 1, 1]}
    table.upsert(data, cast=True, apply_as_deletes="op = 'd'", except_columns=["op"], order_by="at")
    assert rows_of(table) == [row(2, "b", 5), row(3, None, 6)]
    table.upsert({"id": [2, 4], "name": [None, "d"], "n": [7, 8]}, cast=True, ignore_null_updates=True)
    assert rows_of(table) == [row(2, "b", 7), row(3, None, 6), row(4, "d", 8)]
    rows = {"id": [5, 6, 7], "name": ["x"] * 3, "n": [1, 1, 1], "op": ["t", "u", "u"], "at": [2, 1, 3]}
    table.upsert(rows, cast=True, apply_as_truncates="op = 't'", columns=["id", "name", "n"], order_by="at")
    assert rows_of(table) == [row(7, "x")]


@pytest.mark.parametrize(
    ("file", "format", "key", "other"),
    [
        ("debezium_postgres.jsonl", ChangeFormat("debezium-json"), "order_id BIGINT", "status"),
        ("debezium_mysql_schema.jsonl", "debezium-json", "id BIGINT", "price"),
        ("canal.jsonl", "canal-json", "id BIGINT", "name"),
        ("maxwell.jsonl", "maxwell-json", "id BIGINT", "name"),
        ("ogg.jsonl", "ogg-json", "ID INT", "NAME"),
        ("dms.jsonl", "aws-dms", "id INT", "name"),
        ("mongodb_change_stream.jsonl", "mongodb", "_id STRING", "name"),
    ],
)
def test_a_field_that_the_table_lacks_is_refused_unless_it_is_left_out(file, format, key, other):
    name = key.partition(" ")[0]
    table = made(f"{key} NOT NULL", name)
    with pytest.raises(InvalidData, match=f"no column for the field '{other}'"):
        table.upsert(GOLDEN / file, format=format)
    assert table.count() == 0
    table.upsert(GOLDEN / file, format=format, columns=[name])
    keys = rows_of(table)
    events = [json.loads(line) for line in (GOLDEN / file).read_text().splitlines() if line.strip()]
    fields = {name for event in events for name in _names_in(event)}
    other_table = made(f"{key} NOT NULL", name)
    other_table.upsert(GOLDEN / file, format=format, except_columns=sorted(fields - {name}))
    assert rows_of(other_table) == keys and keys


def _names_in(value: object) -> set[str]:
    """The names of all fields in an event, at any depth."""
    if isinstance(value, dict):
        return set(value).union(*map(_names_in, value.values()))
    return set().union(*map(_names_in, value)) if isinstance(value, list) else set()


def test_a_new_field_of_the_source_rejects_its_events_only():
    table = made()
    events = [event("c", row(1), 1), event("c", row(2) | {"new": 5}, 2)]
    table.upsert(events, format="debezium-json", on_error="reject")
    assert rows_of(table) == [row(1)]


def test_conditions_read_the_rows_of_events():
    table = made()
    table.alter(lsmlake.set_default("n", 5))
    events = [event("c", row(1, "gone"), 1), event("c", row(2), 2)]
    table.upsert(events, format="debezium-json", apply_as_deletes="name = 'gone'", except_columns=["n"])
    assert rows_of(table) == [row(2, n=5)]


@pytest.mark.parametrize(("word", "left"), [("apply_as_deletes", [1, 5]), ("apply_as_truncates", [5])])
def test_an_event_of_which_a_condition_cannot_be_evaluated_is_rejected_alone(word: str, left: list[int]):
    """By a cast, by a division, and because the event lacks an unchanged value that the condition reads."""
    lake = new_lake()
    table = lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT", primary_key=["id"])
    condition = "CAST(name AS INT) = 5 OR 10 / (n - 7) > 100"
    given = [row(1, "1"), row(2, "x"), row(3, "1", 7), row(4, "5"), row(5, None), row(6, UNAVAILABLE)]
    events = [event("u", one, one["id"]) for one in given]
    with pytest.raises(InvalidData, match=rf"position 0*2: .*{word} 'CAST.*'x' is not an integer.*\"id\": 2"):
        table.upsert(events, format="debezium-json", **{word: condition})
    assert table.snapshots().num_rows == 0
    table.upsert(events, format="debezium-json", on_error="reject", **{word: condition})
    assert [one["id"] for one in rows_of(table)] == left
    rejected = lake.table("d.t_rejected").to_arrow().sort_by("position").to_pylist()
    reasons = {json.loads(one["event"])["after"]["id"]: one["reason"] for one in rejected}
    assert list(reasons) == [2, 3, 6] and all(one in reasons[2] for one in (word, condition, "'x'"))
    assert "division by zero" in reasons[3] and "lacks unchanged values that a condition reads" in reasons[6]


def test_an_event_of_which_the_order_cannot_be_evaluated_is_rejected_alone():
    lake = new_lake()
    table = lake.create_table("d.t", "id BIGINT NOT NULL, name STRING, n INT", primary_key=["id"])
    events = [event("u", row(1, "10"), 1), event("u", row(1, "9"), 2), event("u", row(1, "x"), 3), event("d", None, 4, {"id": 2})]
    words = {"format": "debezium-json", "order_by": "CAST(name AS INT)"}
    with pytest.raises(InvalidData, match=r"position 0*3: .*order_by 'CAST.*' cannot be evaluated.*'x' is not an integer"):
        table.upsert(events, **words)
    table.upsert(events, on_error="reject", **words)
    assert rows_of(table) == [row(1, "10")] and lake.table("d.t_rejected").count() == 1
    with pytest.raises(InvalidData, match=r"order_by cannot be evaluated.*'x' is not an integer"):
        table.upsert([row(1, "1"), row(1, "x")], cast=True, order_by="CAST(name AS INT)")


def test_a_condition_that_refuses_hundreds_of_values_is_refused_by_its_name():
    table = made()
    events = [event("c", row(number, f"x{number}"), number) for number in range(200)]
    with pytest.raises(InvalidQuery, match=r"apply_as_deletes 'CAST.*for many values of a batch.*not an integer"):
        table.upsert(events, format="debezium-json", on_error="reject", apply_as_deletes="CAST(name AS INT) = 5")
    assert table.snapshots().num_rows == 0


def test_the_error_of_a_condition_names_the_row(tmp_path: Path):
    table, file = made(), tmp_path / "rows.csv"
    rows = [row(number, str(number)) for number in range(1000)]
    rows[700]["name"] = "x"
    file.write_text("id,name,n\n" + "".join(f"{one['id']},{one['name']},{one['n']}\n" for one in rows))
    words = r"row 700: apply_as_deletes 'CAST\(name AS INT\) = 5' cannot be evaluated.*'x' is not an integer"
    for data, place in ((rows, ""), (iter([rows[:600], rows[600:]]), ""), (file, r"rows\.csv, line 702, ")):
        with pytest.raises(InvalidData, match=place + words):
            table.upsert(data, cast=True, apply_as_deletes="CAST(name AS INT) = 5")


def test_conditions_say_nothing_of_an_event_that_removes_all_rows():
    table = made()
    table.upsert([row(1), row(2)])
    words = {"apply_as_deletes": "name IS NULL", "apply_as_truncates": "CAST(coalesce(name, 'x') AS INT) = 5"}
    table.upsert([event("t", None, 10), event("c", row(3, "1"), 11)], format="debezium-json", **words)
    assert rows_of(table) == [row(3, "1")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"column": "v"}, "column needs format"),
        ({"on_error": "reject"}, "needs format"),
        ({"rejected": "d.x"}, "needs on_error"),
        ({"on_error": "skip"}, "unknown on_error"),
        ({"format": "xml"}, "unknown format"),
        ({"format": "debezium-json", "row_kind": "op"}, "contradict"),
        ({"row_kind": "op", "apply_as_deletes": "true"}, "contradict"),
        ({"columns": ["id"], "except_columns": ["n"]}, "contradict"),
        ({"format": "debezium-json", "evolve": True}, "contradict"),
        ({"evolve": True, "apply_as_deletes": "true"}, "contradict"),
        ({"except_columns": ["nope"]}, "unknown columns"),
        ({"format": "debezium-json", "columns": ["n"]}, "lack a part of the key"),
        ({"format": "plain", "on_error": "reject", "rejected": ""}, "not a table name"),
        ({"columns": ["id", "id"]}, "columns names a column twice.*id"),
        ({"except_columns": ["n", "name", "n"]}, "except_columns names a column twice.*n"),
        ({"apply_as_deletes": " "}, "apply_as_deletes is empty"),
        ({"apply_as_truncates": ""}, "apply_as_truncates is empty"),
        ({"apply_as_deletes": "name"}, "not a condition"),
        ({"apply_as_deletes": "nope = 1"}, "nope"),
        ({"except_columns": ["n"], "order_by": "n"}, "leaves out"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(arguments: dict[str, object], words: str):
    table = made()
    data = [event("c", row(1), 1)] if "format" in arguments else [row(1)]
    with pytest.raises(LakeError, match=words):
        table.upsert(data, **arguments)
    assert table.snapshots().num_rows == 0


def test_any_order_will_do_and_no_events_are_none():
    table = made()
    assert table.upsert([], format="debezium-json") is None
    table.upsert([event("c", row(1), 1)], format="debezium-json", order_by=lsmlake.ANY)
    assert rows_of(table) == [row(1)]


def test_a_nested_value_may_lack_fields_of_its_column():
    table = made("id BIGINT NOT NULL, s STRUCT<a: DECIMAL(10,2), d: DATE>, l ARRAY<STRUCT<x: INT>>")
    values = {"id": 1, "s": {"a": 1.5, "other": 5}, "l": [{"x": 1, "y": 2}, None]}
    table.upsert([event("c", values, 1)], format="debezium-json", except_columns=["s.other", "l.element.y"])
    assert rows_of(table) == [{"id": 1, "s": {"a": Decimal("1.50"), "d": None}, "l": [{"x": 1}, None]}]


def test_columns_that_decoded_rows_have_are_refused():
    with pytest.raises(InvalidQuery, match="columns with these names"):
        made("id BIGINT NOT NULL, _event_text STRING").upsert([event("c", row(1), 1)], format="debezium-json")


def test_nulls_are_ignored_by_engines_that_can():
    with pytest.raises(InvalidQuery, match="cannot ignore nulls"):
        made(merge_engine="aggregation").upsert([row(1)], ignore_null_updates=True)
    table = made(merge_engine="partial-update")
    table.upsert([row(1)])
    table.upsert([{"id": 1, "name": None, "n": 2}], cast=True, ignore_null_updates=True)
    assert rows_of(table) == [row(1, n=2)]


def test_nulls_of_a_sequence_group_are_not_said_to_be_ignored():
    """The group takes the nulls of a row with a newer sequence."""
    table = made("id BIGINT NOT NULL, name STRING, n INT", merge_engine="partial-update", fields__n__sequence_group="name")
    table.upsert([row(1)], cast=True)
    with pytest.raises(InvalidQuery, match=r"sequence groups of \[\['n'\]\]"):
        table.upsert([row(1, None, 2)], cast=True, ignore_null_updates=True)
    assert rows_of(table) == [row(1)]


def test_deletes_need_only_their_keys_where_nulls_are_ignored():
    table = made()
    table.upsert([row(1), row(2)], cast=True)
    table.alter(lsmlake.add_column("level", "INT", default=3))
    nulls = {"name": pa.array([None], pa.string()), "n": pa.array([None], pa.int32())}
    deletes = pa.table({"id": [1], **nulls, "op": ["d"]})
    table.upsert(deletes, apply_as_deletes="op = 'd'", except_columns=["op"], ignore_null_updates=True)
    assert [one["id"] for one in rows_of(table)] == [2]


def test_columns_that_are_not_written_keep_their_values_where_nulls_are_ignored():
    table = made()
    table.upsert([row(1), row(2)], cast=True)
    table.alter(lsmlake.add_column("note", "STRING"))
    table.upsert([{**row(1), "note": "kept"}, {**row(2), "note": "kept"}], cast=True)
    table.upsert([row(1, "b", None), row(3)], cast=True, ignore_null_updates=True)
    table.upsert([{**row(2, None), "note": "no"}], cast=True, ignore_null_updates=True, except_columns=["note"])
    table.upsert([event("u", row(2, "c", None), 1)], format="debezium-json", except_columns=["note"], ignore_null_updates=True)
    assert rows_of(table) == [
        {**row(1, "b"), "note": "kept"},
        {**row(2, "c"), "note": "kept"},
        {**row(3), "note": None},
    ]
    table.alter(lsmlake.add_column("level", "INT", default=7))
    with pytest.raises(InvalidData, match=r"no .*level"):
        table.upsert([row(1)], cast=True, ignore_null_updates=True)
    with pytest.raises(InvalidQuery, match="evolve and ignore_null_updates"):
        table.upsert([row(1)], cast=True, ignore_null_updates=True, evolve=True)


def test_bytes_are_decoded_as_said():
    data = b"\x00\xff"
    texts = {"base64": base64.b64encode(data).decode(), "hex": data.hex(), "latin-1": data.decode("latin-1"), "text": "ab"}
    for binary, text in texts.items():
        (one,) = lsmlake.cdc.decode(
            [json.dumps({"metadata": {"operation": "insert"}, "data": {"id": 1, "b": text}})],
            ChangeFormat("aws-dms", binary=binary),
            "id INT, b BINARY",
        ).to_pylist()
        assert one["b"] == (b"ab" if binary == "text" else data)


@pytest.mark.parametrize(("argument", "value"), [("encoding", "latin-1"), ("column", "payload")])
def test_what_only_files_or_columns_have_is_refused_for_texts(argument: str, value: str, tmp_path):
    lake = new_lake()
    table = lake.create_table("d.t", "id BIGINT NOT NULL", primary_key=["id"])
    event = '{"op": "c", "after": {"id": 1}, "source": {"db": "shop", "table": "t"}}'
    given = {argument: value}
    for data in (lambda: event, lambda: [event], lambda: iter([event])):
        with pytest.raises(InvalidData, match=argument):
            table.upsert(data(), format="debezium-json", **given)
        with pytest.raises(InvalidData, match=argument):
            lake.sync(data(), format="debezium-json", database="d", primary_keys=["id"], **given)
    if argument == "column":
        (tmp_path / "events.jsonl").write_text(event)
        with pytest.raises(InvalidData, match=r"events\.jsonl.*column"):
            table.upsert(str(tmp_path / "events.jsonl"), format="debezium-json", **given)
    assert table.count() == 0
