"""Change events out as documents of MongoDB: the texts of its specification of extended JSON, keys as `_id`, what is refused."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from strategies import new_lake, seen

import lsmlake
from lsmlake import Table
from lsmlake.cdc import ChangeFormat
from lsmlake.errors import InvalidData, InvalidQuery

UTC = dt.timezone.utc


def filled(ddl: str, rows: list[dict[str, object]], key: tuple[str, ...] = ("_id",)) -> Table:
    table = new_lake().create_table("d.items", ddl, primary_key=list(key))
    table.upsert(pa.Table.from_pylist(rows, table.schema))
    return table


def messages(table: Table, **how: object) -> list[dict[str, str | None]]:
    return [one for batch in table.follow(format="mongodb", **how) for one in batch.to_pylist()]


def documents(table: Table, **how: object) -> list[dict[str, object]]:
    return [json.loads(json.loads(one["value"])["after"]) for one in messages(table, **how)]


CASES = [
    ("BIGINT", 2**63 - 1, {"$numberLong": "9223372036854775807"}),
    ("BIGINT", -(2**63), {"$numberLong": "-9223372036854775808"}),
    ("INT", -(2**31), -2147483648),
    ("SMALLINT", 7, 7),
    ("BOOLEAN", True, True),
    ("DOUBLE", 1.0, 1.0),
    ("DOUBLE", 1.2345678921232e18, 1.2345678921232e18),
    ("DOUBLE", math.nan, {"$numberDouble": "NaN"}),
    ("DOUBLE", -math.inf, {"$numberDouble": "-Infinity"}),
    ("FLOAT", math.inf, {"$numberDouble": "Infinity"}),
    ("FLOAT", 0.5, 0.5),
    ("STRING", 'é "\\\n$', 'é "\\\n$'),
    ("STRING", "", ""),
    ("STRING", '{"$numberLong":\n"7"}', '{"$numberLong":\n"7"}'),  # a text that looks like another type
    ("STRING", None, None),
    ("DECIMAL(10,2)", Decimal("-1.50"), {"$numberDecimal": "-1.50"}),
    ("DECIMAL(34,0)", Decimal(10**34 - 1), {"$numberDecimal": "9" * 34}),
    ("DECIMAL(35,1)", Decimal("0.1"), "0.1"),  # more digits than decimal128 has
    ("DATE", dt.date(2012, 12, 24), {"$date": "2012-12-24T00:00:00Z"}),
    ("DATE", dt.date(1960, 12, 24), {"$date": {"$numberLong": "-284688000000"}}),
    ("TIMESTAMP", dt.datetime(1970, 1, 1, tzinfo=UTC), {"$date": "1970-01-01T00:00:00Z"}),
    ("TIMESTAMP", dt.datetime(2012, 12, 24, 12, 15, 30, 501000, UTC), {"$date": "2012-12-24T12:15:30.501Z"}),
    ("TIMESTAMP", dt.datetime(2012, 12, 24, 12, 15, 30, 10000, UTC), {"$date": "2012-12-24T12:15:30.010Z"}),
    ("TIMESTAMP", dt.datetime(1960, 12, 24, 12, 15, 30, 499000, UTC), {"$date": {"$numberLong": "-284643869501"}}),
    ("TIMESTAMP", dt.datetime(9999, 12, 31, 23, 59, 59, 999000, UTC), {"$date": "9999-12-31T23:59:59.999Z"}),
    ("TIMESTAMP", dt.datetime(2012, 12, 24, 12, 15, 30, 501001, UTC), "2012-12-24T12:15:30.501001Z"),  # dates have milliseconds
    ("TIMESTAMP", dt.datetime(1960, 12, 24, 12, 15, 30, 1, UTC), "1960-12-24T12:15:30.000001Z"),
    ("TIMESTAMP_NTZ", dt.datetime(2012, 12, 24, 12, 15, 30), {"$date": "2012-12-24T12:15:30Z"}),
    ("TIMESTAMP_NTZ", dt.datetime(2012, 12, 24, 12, 15, 30, 1), "2012-12-24T12:15:30.000001"),
    ("TIME", dt.time(12, 15, 30, 5), "12:15:30.000005"),
    ("BINARY", b"\xff\xff", {"$binary": {"base64": "//8=", "subType": "00"}}),
    ("BINARY", b"", {"$binary": {"base64": "", "subType": "00"}}),
    ("ARRAY<BIGINT>", [1, None], [{"$numberLong": "1"}, None]),
    ("ARRAY<STRING>", ["{", '{"$oid": "65"}'], ["{", '{"$oid": "65"}']),
    ("ARRAY<DATE>", [dt.date(1960, 12, 24)], [{"$date": {"$numberLong": "-284688000000"}}]),
    ("ARRAY<DOUBLE>", [], []),
    ("STRUCT<a: DECIMAL(3,1), b: BINARY>", {"a": Decimal("1.5"), "b": None}, {"a": {"$numberDecimal": "1.5"}, "b": None}),
    ("STRUCT<a: ARRAY<TIME>>", {"a": [dt.time(1, 2, 3)]}, {"a": ["01:02:03.000000"]}),
    ("MAP<STRING, BINARY>", [("k", b"\xff")], [{"key": "k", "value": {"$binary": {"base64": "/w==", "subType": "00"}}}]),
]
"""The type of a column, a value, and the value in extended JSON: the relaxed form, but for integers of 64 bits."""


@pytest.mark.parametrize(("ddl", "value", "expected"), CASES, ids=[f"{ddl} {value}" for ddl, value, _ in CASES])
def test_values_are_extended_json_that_is_read_back(ddl: str, value: object, expected: object):
    columns = f"_id INT NOT NULL, v {ddl}"
    table = filled(columns, [{"_id": 1, "v": value}, {"_id": 2, "v": None}])
    found = {one["_id"]: one["v"] for one in documents(table)}
    assert seen([found[1]]) == seen([expected]) and found[2] is None
    texts = [one["value"] for one in messages(table)]
    rows = lsmlake.cdc.decode(texts, "mongodb", columns, primary_key=["_id"]).to_pylist()
    assert [seen(row["v"]) for row in sorted(rows, key=lambda row: row["_id"])] == [seen(value), None]


def test_an_event_has_the_form_of_debeziums_connector():
    table = filled("_id BIGINT NOT NULL, name STRING", [{"_id": 1, "name": "a"}])
    table.upsert([{"_id": 1, "name": None}])
    table.delete_keys([{"_id": 1}])
    first, second, third, stone = messages(table, snapshot=1)
    assert {one["key"] for one in (first, second, third, stone)} == {r'{"id":"{\"$numberLong\":\"1\"}"}'}
    event = json.loads(second["value"])
    assert (
        event["before"] == '{"_id":{"$numberLong":"1"},"name":"a"}'
        and event["after"] == '{"_id":{"$numberLong":"1"},"name":null}'
    )
    assert (event["op"], event["updateDescription"]) == ("u", None)
    assert (event["source"]["db"], event["source"]["collection"], event["source"]["snapshot"]) == ("d", "items", "false")
    assert [json.loads(one["value"])["op"] for one in (first, second, third)] == ["c", "u", "d"]
    assert json.loads(third["value"])["after"] is None and stone["value"] is None
    (batch,) = table.follow(format=ChangeFormat("mongodb", tombstones=False), snapshot=3)
    assert [one["value"] for one in batch.to_pylist()] == [third["value"]]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (("_id",), "7"),
        (("region",), '"eu"'),
        (("day", "region"), '{"day":{"$date":"2026-01-31T00:00:00Z"},"region":"eu"}'),
    ],
)
def test_the_key_is_the_field_id_and_a_copy_has_the_same_rows(key: tuple[str, ...], expected: str):
    first = "_id" if key == ("_id",) else "number"
    ddl = f"{first} INT NOT NULL, region STRING NOT NULL, day DATE NOT NULL, v BIGINT"
    row = {first: 7, "region": "eu", "day": dt.date(2026, 1, 31), "v": 1}
    table = filled(ddl, [row, {**row, first: 8, "region": "us"}], key)
    copy, plain = (new_lake().create_table("d.copy", ddl, primary_key=list(key)) for _ in range(2))
    table.upsert(pa.Table.from_pylist([{**row, "v": None}], table.schema))
    gone = {**row, first: 8, "region": "us"}
    table.delete_keys(pa.Table.from_pylist([{name: gone[name] for name in key}], pa.schema([table.schema.field(n) for n in key])))
    found = messages(table, snapshot=1)
    assert expected in {json.loads(one["key"])["id"] for one in found}
    (document,) = (one for one in documents(table))
    assert json.dumps(document["_id"], separators=(",", ":")) == expected and not {*key} - {"_id"} & {*document}
    for batch in table.follow(format="mongodb", snapshot=1):
        copy.upsert(batch, format="mongodb")
    plain.upsert([one["value"] for one in found if one["value"]], format="mongodb")
    assert copy.to_arrow() == plain.to_arrow() == table.to_arrow() and table.count() == 1


def test_a_field_of_other_documents_is_the_key_as_before():
    """The field `_id` is the key only if the document itself has no such field, and if its fields are not chosen."""
    event = {"op": "c", "after": json.dumps({"_id": {"$oid": "65"}, "id": "7", "name": "a"}), "source": {"ts_ms": 1, "ord": 1}}
    read = lsmlake.cdc.decode([json.dumps(event)], "mongodb", "id STRING, name STRING", primary_key=["id"])
    assert read["id"].to_pylist() == ["7"]
    delete = {"op": "d", "before": None, "after": None, "source": {"ts_ms": 2, "ord": 1}}
    batch = [{"key": '{"id":"{\\"$oid\\":\\"65\\"}"}', "value": json.dumps(delete)}]
    for how in ({"except_columns": ["_id"]}, {"columns": ["id", "name"]}):
        table = filled("id STRING NOT NULL, name STRING", [{"id": "65", "name": "b"}], ("id",))
        table.upsert([json.dumps(event)], format="mongodb", **how)
        with pytest.raises(InvalidData, match="no value for the key column 'id'"):
            table.upsert(batch, format="mongodb", **how)
        assert {row["id"]: row["name"] for row in table.to_arrow().to_pylist()} == {"65": "b", "7": "a"}


def test_documents_of_a_table_without_a_key_have_no_id():
    table = new_lake().create_table("d.log", "at BIGINT, line STRING")
    table.append([{"at": 1, "line": "a"}])
    (message,) = messages(table)
    assert message["key"] is None and documents(table) == [{"at": {"$numberLong": "1"}, "line": "a"}]


def test_a_column_that_no_document_has_a_value_for_is_null():
    table = filled("_id INT NOT NULL, name STRING", [{"_id": 1, "name": None}])
    copy = filled("_id INT NOT NULL, name STRING", [])
    copy.upsert([one["value"] for one in messages(table)], format="mongodb")
    assert copy.to_arrow() == table.to_arrow()


def test_bytes_in_the_strict_form_of_debezium_are_read():
    text = json.dumps({"_id": 1, "v": {"$binary": "AP8=", "$type": "00"}})
    event = json.dumps({"op": "c", "after": text, "source": {"ts_ms": 1, "ord": 1}})
    assert lsmlake.cdc.decode([event], "mongodb", "_id INT, v BINARY", primary_key=["_id"])["v"].to_pylist() == [b"\x00\xff"]


def test_other_forms_inside_of_nested_values_are_read():
    oid = {"$oid": "57e193d7a9cc81b4027498b5"}
    inside = {"n": {"$numberInt": "3"}, "o": oid, "at": [{"$date": 1500}, {"$date": "2026-01-31T00:00:00Z"}]}
    event = json.dumps({"op": "c", "after": json.dumps({"_id": 1, "v": inside}), "source": {"ts_ms": 1, "ord": 1}})
    ddl = "_id INT, v STRUCT<n: BIGINT, o: STRING, at: ARRAY<TIMESTAMP>>"
    (row,) = lsmlake.cdc.decode([event], "mongodb", ddl, primary_key=["_id"]).to_pylist()
    moments = [dt.datetime(1970, 1, 1, 0, 0, 1, 500000, UTC), dt.datetime(2026, 1, 31, tzinfo=UTC)]
    assert row["v"] == {"n": 3, "o": oid["$oid"], "at": moments}


# -- refused ------------------------------------------------------------------------------------------------------------


def test_a_value_that_cannot_be_read_back_is_refused():
    with pytest.raises(InvalidData, match="cannot be read back") as refused:
        messages(filled("_id INT NOT NULL, v ARRAY<DOUBLE>", [{"_id": 1, "v": [math.nan]}]))
    assert "'v'" in str(refused.value)


@pytest.mark.parametrize("column", ["`a.b` INT", "`$a` INT", "s STRUCT<`a.b`: INT>"])
def test_a_name_that_documents_cannot_have_is_refused(column: str):
    with pytest.raises(InvalidQuery, match="a field of mongodb cannot have the name"):
        messages(filled(f"_id INT NOT NULL, {column}", [{"_id": 1}]))


def test_a_column_id_that_is_not_the_key_is_refused():
    table = filled("id INT NOT NULL, _id INT", [{"id": 1, "_id": 2}], ("id",))
    with pytest.raises(InvalidQuery, match="rename the column"):
        messages(table)
    assert documents(table, columns=["id"]) == [{"_id": 1}]
