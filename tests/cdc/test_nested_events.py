"""Values inside of nested ones in change events: bytes of decimals, numbers of dates and times, as schemas of the events say."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import new_lake

import lsmlake
from lsmlake.cdc import ChangeFormat, decode
from lsmlake.cdc.declared_types import of_avro, of_connect
from lsmlake.cdc.inner_names import fields_beside, unknown_inside
from lsmlake.errors import InvalidData, LakeError
from lsmlake.kernels.avro_columns import AvroReader

CONNECT, DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium."
UTC = dt.timezone.utc
DAY, NOON = dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 12, 0, 0, 5)
COLUMNS = (
    "id BIGINT NOT NULL, prices ARRAY<DECIMAL(10,2)>, days ARRAY<DATE>, moments ARRAY<TIMESTAMP_NTZ>, zoned ARRAY<TIMESTAMP>, "
    "free ARRAY<DECIMAL(20,4)>, part STRUCT<price: DECIMAL(10,2), clock: TIME, raw: BINARY, name: STRING>, "
    "weeks ARRAY<ARRAY<DATE>>"
)
VALUES = {
    "prices": [Decimal("1.50"), None, Decimal("-2.25")],
    "days": [DAY, None],
    "moments": [NOON],
    "zoned": [NOON.replace(tzinfo=UTC)],
    "free": [Decimal("1.5000"), Decimal("-7.0000")],
    "part": {"price": Decimal("0.01"), "clock": NOON.time(), "raw": b"\x00\xff", "name": "é"},
    "weeks": [[DAY], None, []],
}
NUMBER, MICROS = (DAY - dt.date(1970, 1, 1)).days, 43_200_000_005
MOMENT = NUMBER * 86_400_000_000 + MICROS


def connect(kind: str, name: str | None = None, **others: object) -> dict[str, object]:
    return {"type": kind, "optional": True, **({"name": name} if name else {}), **others}


def array(items: dict[str, object]) -> dict[str, object]:
    return connect("array", items=items)


def struct(name: str | None = None, /, **fields: dict[str, object]) -> dict[str, object]:
    return connect("struct", name, fields=[{**one, "field": field} for field, one in fields.items()])


DECIMAL = connect("bytes", f"{CONNECT}Decimal", parameters={"scale": "2", "connect.decimal.precision": "10"})
DATE = connect("int32", f"{DEBEZIUM}time.Date")
ROW = struct(
    id=connect("int64"),
    prices=array(DECIMAL),
    days=array(DATE),
    moments=array(connect("int64", f"{DEBEZIUM}time.MicroTimestamp")),
    zoned=array(connect("string", f"{DEBEZIUM}time.ZonedTimestamp")),
    free=array(struct(f"{DEBEZIUM}data.VariableScaleDecimal", scale=connect("int32"), value=connect("bytes"))),
    part=struct(price=DECIMAL, clock=connect("int64", f"{DEBEZIUM}time.MicroTime"), raw=connect("bytes"), name=connect("string")),
    weeks=array(array(DATE)),
)


def written(number: int, of_bytes) -> dict[str, object]:
    """The row as the converters of Kafka Connect write it. `of_bytes`: how they write bytes."""
    return {
        "id": number,
        "prices": [of_bytes(b"\x00\x96"), None, of_bytes(b"\xff\x1f")],
        "days": [NUMBER, None],
        "moments": [MOMENT],
        "zoned": ["2026-01-31T12:00:00.000005Z"],
        "free": [{"scale": 1, "value": of_bytes(b"\x0f")}, {"scale": 0, "value": of_bytes(b"\xf9")}],
        "part": {"price": of_bytes(b"\x01"), "clock": MICROS, "raw": of_bytes(b"\x00\xff"), "name": "é"},
        "weeks": [[NUMBER], None, []],
    }


def in_json(number: int, **others: object) -> str:
    after = {**written(number, lambda data: base64.b64encode(data).decode()), **others}
    schema = struct(after={**ROW, "field": "after"}, op=connect("string"))
    return json.dumps({"schema": schema, "payload": {"after": after, "before": None, "op": "c", "source": {"lsn": number}}})


AVRO = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {
            "name": "after",
            "type": {
                "type": "record",
                "name": "Value",
                "fields": [
                    {"name": "id", "type": "long"},
                    {
                        "name": "prices",
                        "type": {
                            "type": "array",
                            "items": [
                                "null",
                                {
                                    "type": "bytes",
                                    "logicalType": "decimal",
                                    "precision": 10,
                                    "scale": 2,
                                    "connect.name": f"{CONNECT}Decimal",
                                },
                            ],
                        },
                    },
                    {
                        "name": "days",
                        "type": {"type": "array", "items": ["null", {"type": "int", "connect.name": f"{DEBEZIUM}time.Date"}]},
                    },
                    {
                        "name": "moments",
                        "type": {"type": "array", "items": {"type": "long", "connect.name": f"{DEBEZIUM}time.MicroTimestamp"}},
                    },
                    {
                        "name": "zoned",
                        "type": {"type": "array", "items": {"type": "string", "connect.name": f"{DEBEZIUM}time.ZonedTimestamp"}},
                    },
                    {
                        "name": "free",
                        "type": {
                            "type": "array",
                            "items": {
                                "type": "record",
                                "name": "VariableScaleDecimal",
                                "namespace": f"{DEBEZIUM}data",
                                "connect.name": f"{DEBEZIUM}data.VariableScaleDecimal",
                                "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
                            },
                        },
                    },
                    {
                        "name": "part",
                        "type": {
                            "type": "record",
                            "name": "Part",
                            "fields": [
                                {
                                    "name": "price",
                                    "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
                                },
                                {"name": "clock", "type": {"type": "long", "connect.name": f"{DEBEZIUM}time.MicroTime"}},
                                {"name": "raw", "type": "bytes"},
                                {"name": "name", "type": "string"},
                            ],
                        },
                    },
                    {
                        "name": "weeks",
                        "type": {
                            "type": "array",
                            "items": [
                                "null",
                                {"type": "array", "items": {"type": "int", "connect.name": f"{DEBEZIUM}time.Date"}},
                            ],
                        },
                    },
                    {"name": "by_name", "type": {"type": "map", "values": {"type": "int", "logicalType": "date"}}},
                    {
                        "name": "by_day",
                        "type": {
                            "type": "array",
                            "items": {
                                "type": "record",
                                "name": "Entry",
                                "fields": [
                                    {"name": "key", "type": {"type": "int", "logicalType": "date"}},
                                    {
                                        "name": "value",
                                        "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1},
                                    },
                                ],
                            },
                        },
                    },
                ],
            },
        },
        {"name": "op", "type": "string"},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": "long"}]}},
    ],
}


def in_avro(number: int) -> bytes:
    stream = io.BytesIO()
    stream.write(b"\0\0\0\0\7")
    maps = {"by_name": {"k": DAY}, "by_day": [{"key": DAY, "value": Decimal("2.5")}]}
    after = {**written(number, bytes), **maps, "prices": VALUES["prices"]}
    after["part"] = {**after["part"], "price": VALUES["part"]["price"]}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO), {"after": after, "op": "c", "source": {"lsn": number}})
    return stream.getvalue()


def test_json_with_a_schema_says_what_is_inside():
    (row, _) = decode([in_json(1), in_json(2)], ChangeFormat("debezium-json"), COLUMNS).to_pylist()
    assert {name: row[name] for name in VALUES} == VALUES


def test_avro_says_what_is_inside():
    columns = f"{COLUMNS}, by_name MAP<STRING, DATE>, by_day MAP<DATE, DECIMAL(5,1)>"
    format = ChangeFormat("debezium-avro", registry={7: AVRO})
    (row, _) = decode([in_avro(1), in_avro(2)], format, columns).to_pylist()
    assert {name: row[name] for name in VALUES} == VALUES
    assert (row["by_name"], row["by_day"]) == ([("k", DAY)], [(DAY, Decimal("2.5"))])


def test_columns_are_declared_with_what_is_inside():
    date, decimal = pa.date32(), pa.decimal128(10, 2)
    expected = {
        "prices": pa.list_(decimal),
        "days": pa.list_(date),
        "moments": pa.list_(pa.timestamp("us")),
        "zoned": pa.list_(pa.timestamp("us", "UTC")),
        "free": pa.list_(pa.string()),  # numbers of any scale
    }
    from_json = of_connect(json.dumps(struct(after={**ROW, "field": "after"})))
    from_avro = of_avro(AvroReader(AVRO))
    assert {name: from_json[name] for name in expected} == {name: from_avro[name] for name in expected} == expected
    text = decode([in_json(1)], ChangeFormat("debezium-json"), "id BIGINT NOT NULL, free ARRAY<STRING>").to_pylist()
    assert text[0]["free"] == ["1.5", "-7"]


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"prices": ["AAE="] * 2 + ["f////////////w=="]}, "column 'prices'"),
        ({"part": {"price": None, "clock": 86_400_000_000, "raw": None, "name": None}}, "the time lies outside of a day"),
        ({"days": ["x"]}, "column 'days'"),
    ],
)
def test_what_does_not_fit_inside_is_refused_with_its_column(others, words):
    with pytest.raises(InvalidData, match=words):
        decode([in_json(1), in_json(2, **others)], ChangeFormat("debezium-json"), COLUMNS)


# -- fields inside of nested values that the column lacks -------------------------------------------------------------

ADDRESS = {"city": "Rome", "lines": [{"text": "a"}, {"text": "b"}], "by": [{"key": "k", "value": {"n": 1}}]}
NESTED = "id BIGINT NOT NULL, address STRUCT<city: STRING, lines: ARRAY<STRUCT<text: STRING>>, by: MAP<STRING, STRUCT<n: INT>>>"
FIELDS = {
    "address.zip": {**ADDRESS, "zip": 5},
    "address.lines.element.size": {**ADDRESS, "lines": [{"text": "a"}, {"text": "b", "size": [1, "x"]}]},
    "address.by.value.m": {**ADDRESS, "by": [{"key": "k", "value": {"n": 1, "m": None}}]},
    "address.Zip.code": {**ADDRESS, "Zip.code": {"deep": [[[{"a": 1}]]]}},
}


def changed(number: int, address: object, op: str = "c") -> str:
    row = {"id": number, "address": address}
    event = {"before": None, "after": row} if op != "d" else {"before": row, "after": None}
    return json.dumps({**event, "op": op, "source": {"lsn": number}})


@pytest.fixture
def addresses() -> lsmlake.Table:
    return new_lake().create_table("d.addresses", NESTED, primary_key=["id"])


def addresses_of(table: lsmlake.Table) -> dict[int, object]:
    found = table.to_arrow().to_pylist()
    for row in found:
        by = row["address"]["by"]
        row["address"]["by"] = [{"key": key, "value": value} for key, value in by]
    return {row["id"]: row["address"] for row in found}


@pytest.mark.parametrize("path", FIELDS)
def test_a_field_inside_of_a_value_that_the_column_lacks_is_refused_by_its_path(addresses, path: str):
    events = [changed(1, ADDRESS), changed(2, FIELDS[path]), changed(3, None)]
    with pytest.raises(InvalidData, match=f"has no field '{path}'.*except_columns"):
        addresses.upsert(events[:2], format="debezium-json")
    assert addresses.snapshots().num_rows == 0
    addresses.upsert(events[:2], format="debezium-json", on_error="reject")
    assert addresses_of(addresses) == {1: ADDRESS}
    addresses.upsert(events[:2], format="debezium-json", except_columns=[path])
    assert addresses_of(addresses) == {1: ADDRESS, 2: ADDRESS}


@pytest.mark.parametrize("path", FIELDS)
def test_a_path_goes_with_the_columns_to_read(addresses, path: str):
    addresses.upsert([changed(2, FIELDS[path])], format="debezium-json", columns=["id", "address"], except_columns=[path])
    assert addresses_of(addresses) == {2: ADDRESS}


def test_a_path_that_no_event_has_is_told(addresses, caplog: pytest.LogCaptureFixture):
    events = [changed(1, ADDRESS), *(changed(2, one) for one in FIELDS.values())]
    addresses.upsert(events, format="debezium-json", except_columns=[*FIELDS])
    assert not caplog.records
    addresses.upsert(events, format="debezium-json", except_columns=[*FIELDS, "address.zpi"])
    addresses.upsert(events[:1], format="debezium-json", columns=["id", "address"], except_columns=["address.zip"])
    told = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert told == ["address.zpi", "address.zip"]


def test_each_event_is_judged_alone(addresses):
    """Fields that are left out have values of several kinds, other fields are refused, and other values do not fit."""
    zips = [5, "x", {"a": 1}, [1], None, True]
    events = [changed(number, {**ADDRESS, "zip": one}) for number, one in enumerate(zips)]
    events += [changed(10, {**ADDRESS, "other": 1}), changed(11, {**ADDRESS, "city": [7]}), changed(12, {**ADDRESS, "city": {}})]
    events += [changed(13, {**ADDRESS, "zip": 1, "lines": [{"other": 1}]}), changed(14, ADDRESS)]
    addresses.upsert(events, format="debezium-json", on_error="reject", except_columns=["address.zip"])
    assert addresses_of(addresses) == dict.fromkeys([*range(len(zips)), 14], ADDRESS)


def test_a_delete_needs_no_more_than_its_key(addresses):
    addresses.upsert([changed(1, ADDRESS), changed(2, ADDRESS)], format="debezium-json")
    addresses.upsert([changed(2, FIELDS["address.zip"], "d")], format="debezium-json")
    assert addresses_of(addresses) == {1: ADDRESS}


@pytest.mark.parametrize("name", ["address.city", "address.lines.element.text", "address.by.value", "address.by.key"])
def test_a_part_of_a_value_that_the_column_has_cannot_be_left_out(addresses, name: str):
    with pytest.raises(LakeError, match=f"a value is written whole.*{name}"):
        addresses.upsert([changed(1, ADDRESS)], format="debezium-json", except_columns=[name])


def test_columns_and_other_columns_still_contradict(addresses):
    with pytest.raises(LakeError, match="both choose columns"):
        addresses.upsert([changed(1, ADDRESS)], format="debezium-json", columns=["id"], except_columns=["address", "address.zip"])


@pytest.mark.parametrize(
    "words", [{"columns": ["id"], "except_columns": ["address.zip"]}, {"except_columns": ["address", "address.zip"]}]
)
def test_a_path_into_a_column_that_is_not_written_is_refused(addresses, words: dict[str, list[str]]):
    with pytest.raises(LakeError, match=r"column that is not written.*address\.zip"):
        addresses.upsert([changed(1, ADDRESS)], format="debezium-json", **words)


def test_decode_reads_what_its_schema_names():
    (row,) = decode([changed(1, FIELDS["address.zip"])], "debezium-json", "id BIGINT, address STRUCT<city: STRING>").to_pylist()
    assert row["address"] == {"city": "Rome"}


def test_avro_with_a_further_field_is_refused_by_its_path():
    table = new_lake().create_table("d.t", "id BIGINT NOT NULL, address STRUCT<city: STRING>", primary_key=["id"])
    inner = {"type": "record", "name": "A", "fields": [{"name": "city", "type": "string"}, {"name": "zip", "type": "int"}]}
    fields = [{"name": "id", "type": "long"}, {"name": "address", "type": ["null", inner]}]
    row = {"type": "record", "name": "R", "fields": fields}
    schema = {"type": "record", "name": "E", "fields": [{"name": "after", "type": row}, {"name": "op", "type": "string"}]}
    stream = io.BytesIO()
    stream.write(b"\0\0\0\0\7")
    given = {"after": {"id": 1, "address": {"city": "Rome", "zip": 5}}, "op": "c"}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), given)
    format, events = ChangeFormat("debezium-avro", registry={7: schema}), [stream.getvalue()]
    with pytest.raises(InvalidData, match=r"has no field 'address\.zip'"):
        table.upsert(events, format=format)
    table.upsert(events, format=format, except_columns=["address.zip"])
    assert table.to_arrow().to_pylist() == [{"id": 1, "address": {"city": "Rome"}}]


def names_inside(value: object) -> object:
    """The shape of a value, by a recursion over it."""
    if isinstance(value, dict):
        return {name: names_inside(inner) for name, inner in value.items()}
    return [inner for inner in map(names_inside, value) if inner is not None] if isinstance(value, list) else None


WORDS = st.text(st.sampled_from('ab"\\{}[]:, .\n\té0'), max_size=5)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS
NESTED_VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8
)


@given(NESTED_VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_the_names_in_a_text_are_those_of_its_value(value: object, plain: bool, indent: int | None):
    column = pa.struct([("a", pa.struct([("b", pa.list_(pa.struct([("a", pa.int64())])))]))])
    text = json.dumps(value, ensure_ascii=plain, indent=indent)
    names = list(fields_beside(names_inside(value), column, "c"))
    found = unknown_inside(pa.array([text, None, text]), column, "c", (), set())
    assert found == ({0: names[0], 2: names[0]} if names else {})
    assert unknown_inside(pa.array([text]), column, "c", names, set()) == {}
