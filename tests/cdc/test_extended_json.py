"""What the values of MongoDB's extended JSON become in a column: the forms of its specification, those of Debezium's connector,
and objects that only look like them. Which ids are one row, and which are two."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import pytest
from strategies import new_lake, seen

import lsmlake
from lsmlake.errors import InvalidData

UTC = dt.timezone.utc
OID, UUID = "57e193d7a9cc81b4027498b5", "c8edabc3-f738-4ca3-b68d-ab92a91478a3"
BYTES = {"$binary": {"base64": "yO2rw/c4TKO2jauSqRR4ow==", "subType": "04"}}
OF_UUID = bytes.fromhex(UUID.replace("-", ""))


def event(document: dict[str, object], operation: str = "c", **others: object) -> str:
    return json.dumps({"op": operation, "after": json.dumps(document), "source": {"ts_ms": 1, "ord": 1}} | others)


def read(type_: str, value: object) -> object:
    """A value as a column, and as a field of a struct and an item of an array, which must be the same."""
    ddl = f"_id INT, v {type_}, s STRUCT<v: {type_}>, a ARRAY<{type_}>"
    made = event({"_id": 1, "v": value, "s": {"v": value}, "a": [value]})
    (row,) = lsmlake.cdc.decode([made], "mongodb", ddl, primary_key=["_id"]).to_pylist()
    assert seen(row["v"]) == seen(row["s"]["v"]) == seen(row["a"][0])
    return row["v"]


def alone(type_: str, value: object) -> object:
    """A value as a column."""
    rows = lsmlake.cdc.decode([event({"_id": 1, "v": value})], "mongodb", f"_id INT, v {type_}", primary_key=["_id"])
    return rows["v"][0].as_py()


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("STRING", {"$oid": OID.upper()}, OID),
        ("STRING", {"$symbol": 'a "b"\n{é'}, 'a "b"\n{é'),
        ("STRING", {"$uuid": UUID}, UUID),
        ("STRING", {"$date": "2012-12-24T12:15:30.501Z"}, "2012-12-24T12:15:30.501Z"),
        ("STRING", {"$date": {"$numberLong": "1356351330501"}}, "2012-12-24T12:15:30.501Z"),
        ("STRING", {"$date": {"$numberLong": "253402300800000"}}, '{"$date":{"$numberLong":"253402300800000"}}'),
        ("STRING", BYTES, json.dumps(BYTES, separators=(",", ":"))),
        ("STRING", '{"$oid": "57e193d7a9cc81b4027498b5"}', '{"$oid": "57e193d7a9cc81b4027498b5"}'),
        ("STRING", '\\ud83d "$date" \u2028', '\\ud83d "$date" \u2028'),
        ("BINARY", BYTES, OF_UUID),
        ("BINARY", {"$binary": {"subType": "4", "base64": "yO2rw/c4TKO2jauSqRR4ow=="}}, OF_UUID),
        ("BINARY", {"$binary": "", "$type": "00"}, b""),
        ("BINARY", {"$type": "00", "$binary": "AP8="}, b"\x00\xff"),
        ("BINARY", {"$uuid": UUID.replace("-", "")}, OF_UUID),
        ("TIMESTAMP", {"$date": {"$numberLong": "-284643869501"}}, dt.datetime(1960, 12, 24, 12, 15, 30, 499000, UTC)),
        ("TIMESTAMP", {"$date": -1}, dt.datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
        ("TIMESTAMP_NTZ", {"$date": "2012-12-24T12:15:30Z"}, dt.datetime(2012, 12, 24, 12, 15, 30)),
        ("DATE", {"$date": {"$numberLong": "-62135596800000"}}, dt.date(1, 1, 1)),
        ("TIMESTAMP", {"$date": 253402300799999}, dt.datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)),
        ("INT", {"$numberInt": "-2147483648"}, -(2**31)),
        ("BIGINT", {"$numberLong": "9223372036854775807"}, 2**63 - 1),
        ("DOUBLE", {"$numberDouble": "-0.0"}, -0.0),
        ("DOUBLE", {"$numberDouble": "1.2345678921232E+18"}, 1.2345678921232e18),
        ("DECIMAL(38,4)", {"$numberDecimal": "9.999E+3"}, Decimal("9999.0000")),
        ("DECIMAL(38,10)", {"$numberDecimal": "1E-10"}, Decimal("0.0000000001")),
    ],
    ids=str,
)
def test_a_value_is_the_same_wherever_it_stands(type_: str, value: object, expected: object):
    found = read(type_, value)
    assert seen(found) == seen(expected) and str(found).startswith("-") == str(expected).startswith("-")


@pytest.mark.parametrize(
    "value",
    [
        {"$minKey": 1},
        {"$maxKey": 1},
        {"$undefined": True},
        {"$timestamp": {"t": 42, "i": 1}},
        {"$regularExpression": {"pattern": 'a"\\d', "options": "im"}},
        {"$code": "function() { return {}; }"},
        {"$code": "f", "$scope": {"x": {"$numberLong": "1"}}},
        {"$dbPointer": {"$ref": "db.c", "$id": {"$oid": OID}}},
        {"$ref": "c", "$id": {"$oid": OID}, "$db": "d", "extra": 1},
        {"$price": 5},
        {"$price": {"$numberLong": "5"}},
        {"$oid": "65"},
        {"$oid": OID, "extra": 1},
        {"$oid": 7},
        {"$uuid": "65"},
        {"$numberLong": 7},
        {"$numberInt": "seven"},
        {"$date": "yesterday"},
        {"$binary": {"base64": "A", "subType": 0}},
        {},
    ],
    ids=str,
)
def test_an_object_of_another_kind_is_its_json_and_fits_no_other_type(value: object):
    assert json.loads(alone("STRING", value)) == value
    name = next(iter(value), "an array or document")
    for type_ in ("BIGINT", "DOUBLE", "DECIMAL(9,2)", "BOOLEAN", "TIMESTAMP", "DATE", "TIME", "BINARY"):
        with pytest.raises(InvalidData) as refused:
            alone(type_, value)
        assert f"{name} is no value of this type: use a STRING column" in str(refused.value)
    if value:
        with pytest.raises(InvalidData) as refused:
            alone("STRUCT<a: BIGINT>", {"a": value})
        assert f"{name} inside of the value has no type here: use a STRING column" in str(refused.value)


@pytest.mark.parametrize(
    ("type_", "value", "name"),
    [
        ("BINARY", {"$oid": OID}, "$oid"),
        ("BINARY", "abcd", "a text"),
        ("BOOLEAN", {"$oid": OID}, "$oid"),
        ("TIMESTAMP", {"$symbol": "2012-12-24T12:15:30Z"}, "$symbol"),
        ("DATE", BYTES, "$binary"),
        ("TIMESTAMP", {"$date": {"$numberLong": "9223372036854775807"}}, "outside of the years 1 to 9999"),
        ("DATE", {"$date": -62135596800001}, "outside of the years 1 to 9999"),
        ("STRING", "\ufdd0o" + OID, "a text begins with U+FDD0"),
    ],
)
def test_a_value_of_one_kind_is_none_of_another(type_: str, value: object, name: str):
    for ddl, given in ((type_, value), (f"STRUCT<v: {type_}>", {"v": value})):
        with pytest.raises(InvalidData) as refused:
            alone(ddl, given)
        assert name in str(refused.value)


def test_numbers_that_are_not_finite():
    assert math.isnan(alone("DOUBLE", {"$numberDouble": "NaN"})) and alone("DOUBLE", {"$numberDouble": "-Infinity"}) == -math.inf
    assert alone("STRING", {"$numberDecimal": "NaN"}) == "NaN"
    for ddl, value in (("DECIMAL(9,2)", {"$numberDecimal": "Infinity"}), ("ARRAY<DOUBLE>", [{"$numberDouble": "NaN"}])):
        with pytest.raises(InvalidData, match=r"\$number"):
            alone(ddl, value)


def test_fields_of_a_document_may_begin_with_a_dollar():
    ddl = "_id INT, `$a` INT, s STRUCT<`$ref`: STRING, `$id`: STRING>"
    document = {"_id": 1, "$a": 7, "s": {"$ref": "c", "$id": {"$oid": OID}}}
    (row,) = lsmlake.cdc.decode([event(document)], "mongodb", ddl, primary_key=["_id"]).to_pylist()
    assert (row["$a"], row["s"]) == (7, {"$ref": "c", "$id": OID})
    table = new_lake().create_table("d.t", "_id INT NOT NULL, s STRUCT<a: INT>", primary_key=["_id"])
    with pytest.raises(InvalidData, match=r"no field 's\.\$b'"):
        table.upsert([event({"_id": 1, "s": {"a": 1, "$b": 2}})], format="mongodb")
    with pytest.raises(InvalidData, match=r"no column for the field 's\.a'"):  # of a whole document: no part of s
        table.upsert([event({"_id": 1, "s.a": 2})], format="mongodb")


# -- ids ----------------------------------------------------------------------------------------------------------------


def insert(number: int, id_: object) -> str:
    document = {"_id": id_, "n": number}
    place = {"_id": {"_data": f"{number:08}"}, "ns": {"db": "shop", "coll": "t"}, "documentKey": {"_id": id_}}
    return json.dumps({**place, "operationType": "insert", "fullDocument": document})


def delete(number: int, id_: object) -> str:
    place = {"_id": {"_data": f"{number:08}"}, "ns": {"db": "shop", "coll": "t"}, "documentKey": {"_id": id_}}
    return json.dumps({**place, "operationType": "delete"})


IDS = [{"$oid": OID}, OID, f'"{OID}"', f'""{OID}""', f'"{OID}', "7", OID.upper(), {"$oid": "0" * 24}, {"a": 1, "b": "x"}]


def test_ids_of_different_kinds_are_different_rows():
    lake = new_lake()
    report = lake.sync([insert(number, id_) for number, id_ in enumerate(IDS)], format="mongodb", database="m")
    table = lake.table("m.t")
    assert (report["t"].rows, report["t"].rejected, table.count()) == (len(IDS), 0, len(IDS))
    assert {row["_id"]: row["n"] for row in table.to_arrow().to_pylist() if row["n"] in (0, 1, 5)} == {
        OID: 0,
        f'"{OID}"': 1,
        "7": 5,
    }
    lake.sync([delete(100, OID)], format="mongodb", database="m")
    assert table.get({"_id": OID})["n"] == 0 and table.get({"_id": f'"{OID}"'}) is None


def test_ids_go_out_as_they_came_in_and_a_copy_has_the_same():
    lake = new_lake()
    lake.sync([insert(number, id_) for number, id_ in enumerate(IDS[:-1])], format="mongodb", database="m")
    table = lake.table("m.t")
    messages = [one for batch in table.follow(format="mongodb") for one in batch.to_pylist()]
    documents = [json.loads(json.loads(one["value"])["after"]) for one in messages]
    given = [{"$oid": id_["$oid"]} if isinstance(id_, dict) else id_ for id_ in IDS[:-1]]
    assert [one["_id"] for one in sorted(documents, key=lambda one: int(one["n"]["$numberLong"]))] == given
    copy = lake.create_table("d.copy", table.schema, primary_key=["_id"])
    copy.upsert(messages, format="mongodb")
    assert copy.to_arrow().sort_by("n") == table.to_arrow().sort_by("n")


@pytest.mark.parametrize(
    ("id_", "type_", "others"),
    [
        (1, "int64", ["1", {"$oid": OID}]),
        ({"$numberLong": "1"}, "int64", ["1"]),
        ({"$date": 0}, "timestamp[us, tz=UTC]", ["1970-01-01T00:00:00Z", 0]),
        ({"$uuid": UUID}, "binary", [UUID, "yO2rw/c4TKO2jauSqRR4ow=="]),
        ("1", "string", [1, True, {"$date": 0}, {"$uuid": UUID}, {"$symbol": "1"}, '{"a":1}']),
    ],
    ids=str,
)
def test_the_key_has_the_type_of_its_ids_and_takes_no_others(id_: object, type_: str, others: list[object]):
    for how in ({}, {"infer_types": False}):
        lake = new_lake()
        lake.sync([insert(1, id_)], format="mongodb", database="m", **how)
        table = lake.table("m.t")
        assert str(table.schema.field("_id").type).removeprefix("large_") == type_
        report = lake.sync([insert(2 + n, other) for n, other in enumerate(others)], format="mongodb", database="m", **how)
        assert (report["t"].rejected, table.count()) == (len(others), 1)
        reasons = lake.table("m.t_rejected").to_arrow()["reason"].to_pylist()
        assert all("could" in reason and "column '_id'" in reason for reason in reasons)
        with pytest.raises(InvalidData, match="column '_id'"):
            table.upsert([insert(9, others[0])], format="mongodb")


def test_whole_numbers_in_both_forms_are_one_column():
    lake = new_lake()
    both = [insert(1, 1), insert(2, {"$numberLong": "5000000000"})]
    assert lake.sync(both, format="mongodb", database="m")["t"].rows == 2
    assert sorted(lake.table("m.t").to_arrow()["_id"].to_pylist()) == [1, 5000000000]


def test_a_table_begins_with_parts_of_documents():
    update = {"operationType": "update", "ns": {"db": "m", "coll": "t"}, "documentKey": {"_id": {"$oid": OID}}}
    update["updateDescription"] = {"updatedFields": {"status": "x"}}
    for how in ({}, {"infer_types": False}):
        lake = new_lake()
        report = lake.sync([json.dumps(update)], format="mongodb", database="m", **how)
        assert not report["t"].reasons and str(lake.table("m.t").schema.field("_id").type) == "string"
        whole = {"operationType": "insert", "ns": update["ns"], "documentKey": update["documentKey"]}
        lake.sync(
            [json.dumps(whole | {"fullDocument": {"_id": {"$oid": OID}, "status": "y"}})], format="mongodb", database="m", **how
        )
        assert lake.table("m.t").to_arrow().to_pylist() == [{"_id": OID, "status": "y"}]
