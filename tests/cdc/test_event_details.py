"""Events that lack parts, say something twice, or have it in an unusual place: each is read as it says, or refused."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from strategies import new_lake

import lsmlake
from lsmlake.errors import InvalidData, LakeError

NAMED = "id BIGINT NOT NULL, name STRING"
DOCUMENT = "_id STRING NOT NULL, name STRING, n BIGINT, addr STRUCT<name: STRING, zip: STRING>"
SUMS = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "fields.m.aggregate-function": "sum"}
OLD = {"_id": "1", "name": "old", "n": 5, "addr": {"name": "a", "zip": "z"}}


def made(columns: str = NAMED, key: str = "id", before: list[dict[str, object]] | None = None, **options: str) -> lsmlake.Table:
    table = new_lake().create_table("d.t", columns, primary_key=[key], options=options)
    if before:
        table.upsert(before, cast=True)
    return table


def rows_of(table: lsmlake.Table) -> list[dict[str, object]]:
    return table.scan().to_arrow().sort_by(table.schema.names[0]).to_pylist()


def event(op: str, after: object = None, before: object = None) -> str:
    return json.dumps({"op": op, "before": before, "after": after})


def update(**description: object) -> str:
    return json.dumps({"operationType": "update", "documentKey": {"_id": "1"}, "updateDescription": description})


# -- rows before a change ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["debezium-json", "ogg-json"])
def test_an_aggregation_takes_back_a_row_with_nulls(format: str):
    words = {"debezium-json": ("op", "c", "u", "d"), "ogg-json": ("op_type", "I", "U", "D")}[format]
    table = made("id BIGINT NOT NULL, n BIGINT, m BIGINT", **SUMS)

    def written(op: int, after: object, before: object) -> str:
        return json.dumps({words[0]: words[op], "before": before, "after": after})

    first, second = {"id": 1, "n": 5, "m": None}, {"id": 1, "n": 7, "m": 3}
    table.upsert([written(1, first, None), written(2, second, first)], format=format)
    assert rows_of(table) == [second]
    for op, after, before in ((2, first, None), (2, first, {"id": 1}), (3, None, {"id": 1}), (2, {**first, "id": 2}, {"id": 1})):
        with pytest.raises(InvalidData, match="an aggregation must take that row back"):
            table.upsert([written(op, after, before)], format=format)
    assert rows_of(table) == [second]


@pytest.mark.parametrize(
    ("before", "options"), [({"id": "x", "n": 5}, {}), ({"id": 1, "n": "x", "m": 1}, SUMS), ({"id": "x", "n": 1, "m": 1}, SUMS)]
)
def test_a_row_before_a_change_that_cannot_be_read_rejects_the_event(before: dict[str, object], options: dict[str, str]):
    table = made("id BIGINT NOT NULL, n BIGINT, m BIGINT", **options)
    good = event("c", {"id": 9, "n": 1, "m": 1})
    table.upsert([good, event("u", {"id": 1, "n": 7, "m": 1}, before)], format="debezium-json", on_error="reject")
    assert [row["id"] for row in rows_of(table)] == [9]


# -- fields that events lack ------------------------------------------------------------------------------------------


def test_an_event_without_a_field_is_judged_alone():
    table = made(before=[{"id": 2, "name": "old"}])
    lacking, whole = event("u", {"id": 2}), event("c", {"id": 1, "name": "a"})
    for events in ([lacking], [whole, lacking], [lacking, event("c", {"id": 3, "name": "name"})]):
        with pytest.raises(InvalidData, match="no field for the column 'name'"):
            table.upsert(events, format="debezium-json")
    assert rows_of(table) == [{"id": 2, "name": "old"}]


@pytest.mark.parametrize("name", ["note", "ü"])
def test_each_event_without_a_field_gets_the_default(name: str):
    table = made()
    table.alter(lsmlake.add_column(name, "STRING", default="none"))
    events = [
        event("c", {"id": 1, "name": name, name: "x"}),
        event("c", {"id": 2, "name": name}),
        event("c", {"id": 3, "name": "a", name: None}),
    ]
    table.upsert(events, format="debezium-json")
    assert [row[name] for row in rows_of(table)] == ["x", "none", None]
    table.upsert([event("c", {"id": 4, "name": "b"})], format="debezium-json")
    assert rows_of(table)[-1][name] == "none"


def test_rows_of_sources_that_leave_out_nulls_may_lack_fields():
    table = made()
    records = [{"data": {"id": n}, "metadata": {"operation": "insert"}} for n in (1, 2)]
    records[0]["data"]["name"] = "a"
    table.upsert([json.dumps(one) for one in records], format="aws-dms")
    assert rows_of(table) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


# -- documents --------------------------------------------------------------------------------------------------------


def test_a_null_inside_of_a_document_is_no_null_of_the_document():
    table = made(DOCUMENT, "_id", [OLD])
    table.upsert([update(updatedFields={"addr": {"name": None, "zip": "q"}}, removedFields=[])], format="mongodb")
    assert rows_of(table) == [{**OLD, "addr": {"name": None, "zip": "q"}}]
    table = made(f"{NAMED}, addr STRUCT<name: STRING>", before=[{"id": 1, "name": "old", "addr": None}])
    table.upsert(['{"op_type":"U","after":{"id":1,"addr":{"name":null}}}'], format="ogg-json")
    assert rows_of(table) == [{"id": 1, "name": "old", "addr": {"name": None}}]


@pytest.mark.parametrize(
    "text",
    [
        '{"operationType":"update","documentKey":{"_id":"1"}}',
        '{"operationType":"insert","documentKey":{"_id":"1"}}',
        update(updatedFields=None, removedFields=["name"]),
    ],
)
def test_a_change_without_a_document_is_refused(text: str):
    table = made(DOCUMENT, "_id", [OLD])
    full = json.dumps({"operationType": "insert", "fullDocument": {"_id": "9", "name": "x", "n": 1}})
    for events in ([text], [full, text]):
        with pytest.raises(InvalidData, match="has no document"):
            table.upsert(events, format="mongodb")
    assert rows_of(table) == [OLD]


def test_a_removed_part_of_a_field_is_refused_as_a_changed_one():
    table = made(DOCUMENT, "_id", [OLD])
    for described in ({"removedFields": ["addr.zip"]}, {"updatedFields": {"addr.zip": "1"}}):
        with pytest.raises(InvalidData, match="changes a part of 'addr'"):
            table.upsert([update(**{"updatedFields": {"name": "new"}, "removedFields": [], **described})], format="mongodb")
    table.upsert([update(updatedFields={"name": "new"}, removedFields=["n"])], format="mongodb")
    assert rows_of(table) == [{**OLD, "name": "new", "n": None}]


# -- events that are no change, or look so ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"op":"c","after":{"id":1,"databaseName":"a","ddl":"b"}',
        '{"oops":"c","after":{"id":1},"databaseName":"a","ddl":"b"}',
        '{"status":"BEGIN","before":null,"data_collections":null}',
    ],
)
def test_a_broken_change_is_no_control_record(text: str):
    table = made("id BIGINT NOT NULL, databaseName STRING, ddl STRING")
    with pytest.raises(InvalidData, match="cannot be read"):
        table.upsert([text], format="debezium-json")


def test_control_records_are_skipped():
    table = made()
    events = [
        '{"ts_ms":5}',
        '{"status":"END","id":"1","data_collections":null}',
        '{"databaseName":"s","ddl":"CREATE TABLE t (a INT)"}',
    ]
    table.upsert([*events, event("c", {"id": 1, "name": "a"})], format="debezium-json")
    assert rows_of(table) == [{"id": 1, "name": "a"}]


# -- conditions, names and numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [{"apply_as_deletes": "name IS NULL"}, {"apply_as_truncates": "coalesce(name, 'x') = 'x'"}])
def test_a_condition_does_not_see_null_for_a_value_that_has_not_changed(words: dict[str, str]):
    table = made(before=[{"id": 1, "name": "old"}])
    with pytest.raises(InvalidData, match="lacks unchanged values that a condition reads"):
        table.upsert([event("u", {"id": 1, "name": "__debezium_unavailable_value"})], format="debezium-json", **words)
    assert rows_of(table) == [{"id": 1, "name": "old"}]


def test_whole_numbers_with_a_fraction_or_an_exponent_keep_their_digits():
    table = made("id BIGINT NOT NULL, n BIGINT")
    texts = ["9007199254740993.0", "9007199254740992.00", "9007199254740995e0", "-9007199254740997.", "12e2"]
    events = [f'{{"op":"c","after":{{"id":{text},"n":{text}}}}}' for text in texts if not text.endswith(".")]
    table.upsert(events, format="debezium-json")
    assert [row["id"] for row in rows_of(table)] == [1200, 9007199254740992, 9007199254740993, 9007199254740995]
    assert all(row["id"] == row["n"] for row in rows_of(table))


SCHEMA = {
    "type": "struct",
    "fields": [
        {
            "field": "after",
            "type": "struct",
            "fields": [
                {"field": "id", "type": "int64"},
                {
                    "field": "n",
                    "type": "bytes",
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "parameters": {"scale": "2"},
                },
            ],
        }
    ],
}
PAYLOAD = {"op": "c", "after": {"id": 1, "n": "AfQ="}}


def test_a_schema_after_the_payload_is_refused():
    table = made("id BIGINT NOT NULL, n DECIMAL(10,4)")
    with pytest.raises(InvalidData, match="schema comes after the field payload"):
        table.upsert([json.dumps({"payload": PAYLOAD, "schema": SCHEMA})], format="debezium-json")
    table.upsert([json.dumps({"schema": SCHEMA, "payload": PAYLOAD})], format="debezium-json")
    assert [str(row["n"]) for row in rows_of(table)] == ["5.0000"]


@pytest.mark.parametrize(
    "fields", [5, [5], [{"type": "int64"}], [{"field": "after", "type": "struct", "fields": [{"type": "int32"}]}]], ids=str
)
def test_a_schema_that_cannot_be_read_rejects_its_events_only(fields: object):
    table = made()
    broken = json.dumps({"schema": {"fields": fields}, "payload": {"op": "c", "after": {"id": 2, "name": "b"}}})
    table.upsert([event("c", {"id": 1, "name": "a"}), broken], format="debezium-json", on_error="reject")
    assert rows_of(table)[0] == {"id": 1, "name": "a"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"op":"c","after":{"id":1,"name":"a","name":"b"}}', "'name' twice"),
        (json.dumps({"schema": SCHEMA, "payload": {"op": "c", "after": {"id": 1, "n": "AfQ=", "extra": 5}}}), "'extra'"),
        (json.dumps({"op": "c", "after": {"id\nname": 1, "id": 1, "name": "a"}}), "no column for the field"),
    ],
)
def test_no_field_is_lost(text: str, words: str):
    table = made("id BIGINT NOT NULL, name STRING, n DECIMAL(10,2)")
    table.alter(lsmlake.set_default("n", None), lsmlake.set_default("name", None))
    with pytest.raises(InvalidData, match=words):
        table.upsert([text], format="debezium-json")


def test_each_row_of_an_event_is_looked_at():
    table = made()
    rows = [{"id": "1", "name": "a"}, {"id": "2", "name": "b", "extra": "c"}]
    with pytest.raises(InvalidData, match="no column for the field 'extra'"):
        table.upsert([json.dumps({"type": "INSERT", "data": rows})], format="canal-json")
    rows[1] = {"id": "2"}
    with pytest.raises(InvalidData, match="no field for the column 'name'"):
        table.upsert([json.dumps({"type": "INSERT", "data": rows})], format="canal-json")


@pytest.mark.parametrize("words", [{"ignore_null_updates": True}, {"columns": ["id", "name"]}, {"format": "plain"}])
@pytest.mark.parametrize(("name", "value"), [("_row_kind", "-D"), ("_event_kept", ",1,")])
def test_columns_of_the_librarys_own_are_refused_in_data(name: str, value: str, words: dict[str, object]):
    table = made(before=[{"id": 1, "name": "old"}])
    with pytest.raises(LakeError, match=name):
        table.upsert(pa.table({"id": [1], "name": ["a"], name: [value]}), **words)
    assert rows_of(table) == [{"id": 1, "name": "old"}]


@pytest.mark.parametrize("offsets", [["5", "3"], [5.0, 3.0], pa.array([2**63, 1], pa.uint64())], ids=["text", "double", "uint64"])
def test_offsets_that_are_no_bigint_are_refused(offsets: object):
    table, events = made(), [event("c", {"id": 1, "name": "late"}), event("c", {"id": 1, "name": "early"})]
    with pytest.raises(InvalidData, match="column offset orders the events"):
        table.upsert(pa.table({"value": events, "offset": offsets}), format="debezium-json")
    for offset in (pa.nulls(2), pa.array([5, 3], pa.int32())):
        table.upsert(pa.table({"value": events, "offset": offset}), format="debezium-json")
    assert rows_of(table) == [{"id": 1, "name": "late"}]


def test_a_condition_reads_a_column_that_is_null_in_all_rows():
    table = made()
    rows = pa.table({"id": [1, 2], "name": ["a", "b"], "op": pa.nulls(2)})
    table.upsert(rows, apply_as_deletes="op = 'd'", except_columns=["op"])
    assert [row["id"] for row in rows_of(table)] == [1, 2]
