"""Change events in Avro: records written by fastavro, schemas from a registry over HTTP, both kinds of numbers of schemas."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import fastavro
import pyarrow as pa
import pytest
from effort import scaled
from strategies import new_lake

import lsmlake
from lsmlake.cdc import ChangeFormat
from lsmlake.errors import InvalidData, InvalidQuery, StorageFailed
from lsmlake.kernels.avro_columns import AvroReader

UNAVAILABLE = "__debezium_unavailable_value"


def connect(kind: str, name: str, **others: object) -> dict[str, object]:
    return {"type": kind, "connect.version": 1, "connect.name": name, **others}


DECIMAL = {"logicalType": "decimal", "precision": 10, "scale": 2, "connect.parameters": {"scale": "2"}}
VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "price", "type": ["null", connect("bytes", "org.apache.kafka.connect.data.Decimal", **DECIMAL)]},
        {"name": "day", "type": ["null", connect("int", "io.debezium.time.Date")]},
        {"name": "at", "type": ["null", connect("long", "io.debezium.time.MicroTimestamp")]},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
        {"name": "blob", "type": ["null", "bytes"]},
        {"name": "weight", "type": ["null", "double"]},
    ],
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [{"name": "db", "type": "string"}, {"name": "lsn", "type": ["null", "long"]}],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.items",
    "fields": [
        {"name": "before", "type": ["null", VALUE]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
    ],
}
COLUMNS = (
    "id BIGINT NOT NULL, name STRING, price DECIMAL(10,2), day DATE, at TIMESTAMP, tags ARRAY<STRING>, blob BINARY, weight DOUBLE"
)
PARSED = fastavro.parse_schema(json.loads(json.dumps(ENVELOPE)))


def row(number: int, **others: object) -> dict[str, object]:
    moment = dt.datetime(2023, 11, 14, 22, 13, 20, 5, dt.timezone.utc)
    values = {
        "name": "a",
        "price": Decimal("1.50"),
        "day": dt.date(2023, 11, 14),
        "at": moment,
        "tags": ["x", None],
        "blob": b"\0\xff",
    }
    return {"id": number, **values, "weight": 1.5, **others}


def message(op: str, after: dict | None, lsn: int, before: dict | None = None, head: bytes = b"\0\0\0\0\7") -> bytes:
    def encoded(values: dict | None) -> dict | None:
        """Logical types that only Kafka Connect knows, as fastavro takes them."""
        if values is None:
            return None
        day, at = values["day"], values["at"]
        numbers = {"day": day and (day - dt.date(1970, 1, 1)).days, "at": at and int(at.timestamp()) * 1_000_000 + at.microsecond}
        return {**values, **numbers}

    record = {"before": encoded(before), "after": encoded(after), "source": {"db": "shop", "lsn": lsn}, "op": op, "ts_ms": 1}
    stream = io.BytesIO()
    stream.write(head)
    fastavro.schemaless_writer(stream, PARSED, record)
    return stream.getvalue()


def test_a_database_follows_messages_in_avro():
    """The key comes from the schema of the keys; a message that cannot be read names no table."""
    names = [{"name": name, "type": ["null", "string"], "default": None} for name in ("db", "schema", "table")]
    rest = [one for one in ENVELOPE["fields"] if one["name"] != "source"]
    envelope = {**ENVELOPE, "fields": [*rest, {"name": "source", "type": {**SOURCE, "fields": [*names, SOURCE["fields"][1]]}}]}
    parsed, key = (
        fastavro.parse_schema(json.loads(json.dumps(envelope))),
        {"type": "record", "name": "K", "fields": VALUE["fields"][:1]},
    )

    def sent(table: str, number: int, lsn: int) -> dict[str, bytes]:
        after = {**row(number), "day": 1, "at": 5, "price": Decimal("1.50")}
        source = {"db": "shop", "schema": None, "table": table, "lsn": lsn}
        stream = io.BytesIO(b"\0\0\0\0\7")
        stream.seek(5)
        fastavro.schemaless_writer(stream, parsed, {"after": after, "before": None, "source": source, "op": "c", "ts_ms": 1})
        return {"value": stream.getvalue(), "key": b"\0\0\0\0\x08" + bytes([number * 2])}

    lake, format = new_lake(), ChangeFormat("debezium-avro", registry={7: envelope, 8: key})
    messages = [sent("items", 1, 1), sent("people", 2, 2), {"value": b"\0\0\0\0\7\xff", "key": b"\xff\xfe"}]
    report = lake.sync(messages, format=format, database="shop")
    assert (report["items"].rows, report["people"].rows, report.rejected) == (1, 1, 1)
    types = {field.name: str(field.type) for field in lake.table("shop.items").schema}
    assert types["price"] == "decimal128(10, 2)" and types["at"] == "timestamp[us]" and types["tags"].startswith("list<")
    assert lake.table("shop.items").primary_key == ("id",) and lake.table("shop.people").get({"id": 2})["price"] == Decimal(
        "1.50"
    )


@contextmanager
def registry(answers: dict[str, object]) -> Iterator[str]:
    """A registry over HTTP: path -> answer; others are not there."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path in answers and self.headers.get("Authorization") == "Basic " + base64.b64encode(b"me:a b").decode()
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(json.dumps(answers.get(self.path)).encode())

        def log_message(self, *given: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://me:a%20b@127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


FORMAT = ChangeFormat("debezium-avro", registry={7: ENVELOPE})


def test_events_are_applied_as_those_of_json_are():
    table = new_lake().create_table("d.t", COLUMNS, primary_key=["id"])
    events = [message("c", row(1), 1), message("r", row(2, name=None, price=None, tags=None), 1), message("c", row(3), 2)]
    heartbeat = {"type": "record", "name": "Heartbeat", "fields": [{"name": "ts_ms", "type": "long"}]}
    events.append(b"\0\0\0\0\x08\x02")
    table.upsert(events, format=ChangeFormat("debezium-avro", registry={7: json.dumps(ENVELOPE), 8: heartbeat}))
    assert table.to_arrow().sort_by("id").to_pylist() == [row(1), row(2, name=None, price=None, tags=None), row(3)]
    changes = [message("u", row(1, name="late"), 9), message("u", row(1, name="early"), 8), message("d", None, 10, row(2)), None]
    changes += [
        message("u", row(4), 11, row(3)),
        message("u", row(1, name=UNAVAILABLE, tags=[UNAVAILABLE], blob=UNAVAILABLE.encode()), 12),
    ]
    table.upsert(pa.table({"value": pa.array(changes, pa.binary())}), format=FORMAT)
    assert table.to_arrow().sort_by("id").to_pylist() == [row(1, name="late"), row(4)]


def test_a_registry_is_asked_by_its_own_protocol():
    event = {
        4: message("c", row(1), 1, head=b"\0" + (11).to_bytes(4, "big")),
        8: message("c", row(1), 1, head=b"\0" + (11).to_bytes(8, "big")),
    }
    answers = {
        "/schemas/ids/11": {"schema": json.dumps(ENVELOPE)},
        "/apis/registry/v2/ids/globalIds/11": ENVELOPE,
        "/apis/registry/v3/ids/contentIds/11": ENVELOPE,
    }
    with registry(answers) as address:
        for path, size in (("", 4), ("/apis/registry/v2", 8), ("/apis/registry/v3", 4)):
            format = ChangeFormat("debezium-avro", registry=address + path)
            assert "a b" not in repr(format) and "127" not in repr(format)
            (made,) = lsmlake.cdc.decode([event[size]], format, COLUMNS).to_pylist()
            assert made["price"] == Decimal("1.50")
        with pytest.raises(InvalidData, match="no schema 7"):
            lsmlake.cdc.decode([message("c", row(1), 1)], ChangeFormat("debezium-avro", registry=address), COLUMNS)
    with pytest.raises(StorageFailed, match="does not answer"):
        lsmlake.cdc.decode([message("c", row(1), 1)], ChangeFormat("debezium-avro", registry=address), COLUMNS)


def test_a_field_that_the_table_lacks_is_refused_unless_it_is_left_out():
    table = new_lake().create_table("d.t", "id BIGINT NOT NULL", primary_key=["id"])
    with pytest.raises(InvalidData, match="no column for the field"):
        table.upsert([message("c", row(1), 1)], format=FORMAT)
    table.upsert([message("c", row(1), 1)], format=FORMAT, except_columns=[name for name in row(1) if name != "id"])
    assert table.to_arrow().to_pylist() == [{"id": 1}]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"{}", "does not begin with a schema number"),
        (message("c", row(1), 1)[:-1], "end inside of a record: schema 7"),
        (message("c", row(1), 1) + b"x", "do not end where a record"),
        (message("q", row(1), 1), "unknown operation 'q'"),
    ],
)
def test_messages_that_cannot_be_read_are_rejected_one_by_one(bad: bytes, words: str):
    lake = new_lake()
    table = lake.create_table("d.t", COLUMNS, primary_key=["id"])
    with pytest.raises(InvalidData, match=words):
        table.upsert([message("c", row(1), 1), bad], format=FORMAT)
    table.upsert([message("c", row(1), 1), bad, message("c", row(2), 2)], format=FORMAT, on_error="reject")
    (rejected,) = lake.table("d.t_rejected").to_arrow().to_pylist()
    assert table.count() == 2 and base64.b64decode(rejected["event"]) == bad


def test_a_schema_without_a_column_of_the_table_is_refused_and_no_other_format_has_a_registry():
    with pytest.raises(InvalidData, match="no field for the column 'other'"):
        lsmlake.cdc.decode([message("c", row(1), 1)], FORMAT, "id BIGINT, other STRING")
    for name, known in (("debezium-avro", None), ("debezium-json", {})):
        with pytest.raises(InvalidQuery, match="needs registry"):
            ChangeFormat(name, registry=known)


def test_random_records_equal_those_of_fastavro():
    inner = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "string"]}]}
    kinds = {"e": {"type": "enum", "name": "En", "symbols": ["A", "B"]}, "f": {"type": "fixed", "name": "Fx", "size": 3}}
    types = ["long", "float", "double", "boolean", "bytes", ["null", "string"], inner, ["null", "In"], *kinds.values()]
    types += [
        {"type": "array", "items": ["null", "int"]},
        {"type": "map", "values": "string"},
        ["null", {"type": "array", "items": "In"}],
    ]
    schema = {"type": "record", "name": "R", "fields": [{"name": f"c{i}", "type": kind} for i, kind in enumerate(types)]}
    parsed, chance = fastavro.parse_schema(schema), random.Random(1)

    def within() -> dict[str, object]:
        return {"x": chance.randrange(-(2**31), 2**31), "y": chance.choice([None, "", "é" * 9])}

    def record() -> dict[str, object]:
        plain = [
            chance.randrange(-(2**63), 2**63),
            0.5,
            chance.random(),
            chance.random() < 0.5,
            chance.randbytes(chance.randrange(4)),
        ]
        plain += [
            chance.choice([None, "", "text"]),
            within(),
            chance.choice([None, within()]),
            chance.choice("AB"),
            chance.randbytes(3),
        ]
        lists = [[chance.choice([None, chance.randrange(-9, 999)]) for _ in range(chance.randrange(4))]]
        lists += [{str(i): "v" * i for i in range(chance.randrange(3))}, chance.choice([None, [within()] * chance.randrange(3)])]
        return {f"c{i}": value for i, value in enumerate(plain + lists)}

    records, streams = [record() for _ in range(scaled(300))], []
    for one in records:
        streams.append(stream := io.BytesIO())
        fastavro.schemaless_writer(stream, parsed, one)
    found = AvroReader(schema).read(pa.array([stream.getvalue() for stream in streams]), 0, None).to_pylist()
    assert [{**one, "c11": dict(one["c11"])} for one in found] == records
