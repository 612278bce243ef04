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

from lsmlake.cdc import ChangeFormat, decode
from lsmlake.cdc.declared_types import of_avro, of_connect
from lsmlake.errors import InvalidData
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
    part=struct(
        price=DECIMAL, clock=connect("int64", f"{DEBEZIUM}time.MicroTime"), raw=connect("bytes"), name=connect("string")
    ),
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
