"""Change events out in Avro: their bytes as fastavro reads them, their schemas in a registry, what is refused."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from schema_registries import SchemaRegistry, schema_registry
from strategies import new_lake

import lsmlake
from lsmlake import Table
from lsmlake.cdc import ChangeFormat
from lsmlake.errors import InvalidData, InvalidQuery, StorageFailed

UTC = dt.timezone.utc
NOON = dt.datetime(2026, 1, 31, 12, 0, 0, 5)
DDL = (
    "id BIGINT NOT NULL, name STRING, price DECIMAL(10,2), day DATE, at TIMESTAMP, seen TIMESTAMP_NTZ, clock TIME, data BINARY, "
    "small TINYINT, weight FLOAT, ok BOOLEAN, tags ARRAY<STRING>, parts ARRAY<STRUCT<x: INT, y: DECIMAL(5,1)>>, "
    "days MAP<STRING, DATE>"
)
ROW = {
    "id": 1,
    "name": "é",
    "price": Decimal("-1.50"),
    "day": NOON.date(),
    "at": NOON.replace(tzinfo=UTC),
    "seen": NOON,
    "clock": NOON.time(),
    "data": b"\x00\xff",
    "small": -3,
    "weight": 1.5,
    "ok": True,
    "tags": ["a", None],
    "parts": [{"x": 1, "y": Decimal("2.5")}, None],
    "days": [("k", NOON.date())],
}
IN_AVRO = {
    **ROW,
    "day": 20484,
    "at": "2026-01-31T12:00:00.000005Z",
    "seen": 1769860800000005,
    "clock": 43200000005,
    "parts": [{"x": 1, "y": "2.5"}, None],
    "days": [{"key": "k", "value": "2026-01-31"}],
}
"""The row as Debezium's types have it: those that no type of Avro is for are numbers and texts."""
NOTHING = dict.fromkeys(ROW)


def filled(rows: list[dict[str, object]], ddl: str = DDL, **options: object) -> Table:
    table = new_lake().create_table("d.items", ddl, primary_key=["id"], options=options)
    table.upsert(pa.Table.from_pylist(rows, table.schema))
    return table


def written_to(registry: SchemaRegistry, **how: object) -> ChangeFormat:
    return ChangeFormat("debezium-avro", registry=registry.address, **how)


def messages(table: Table, format: ChangeFormat, **how: object) -> list[dict[str, bytes | None]]:
    return [one for batch in table.follow(format=format, **how) for one in batch.to_pylist()]


def read(registry: SchemaRegistry, message: bytes, size: int = 4) -> dict:
    """A message as fastavro reads it."""
    assert message[0] == 0
    schema = fastavro.parse_schema(registry.schema(int.from_bytes(message[1 : 1 + size], "big")))
    stream = io.BytesIO(message[1 + size :])
    record = fastavro.schemaless_reader(stream, schema)
    assert not stream.read()
    return record


def test_fastavro_reads_the_values_of_the_types_of_debezium():
    table = filled([ROW, {**NOTHING, "id": 2}])
    table.upsert(pa.Table.from_pylist([{**ROW, "name": "x"}], table.schema))
    table.delete_keys([{"id": 2}])
    with schema_registry() as registry:
        found = messages(table, written_to(registry), snapshot=1)
        events = [one["value"] and read(registry, one["value"]) for one in found]
        assert [read(registry, one["key"]) for one in found] == [{"id": number} for number in (1, 2, 1, 2, 2)]
    assert [one and one["op"] for one in events] == ["c", "c", "u", "d", None]
    assert (events[0]["before"], events[0]["after"]) == (None, IN_AVRO)
    assert (events[2]["before"], events[2]["after"]) == (IN_AVRO, {**IN_AVRO, "name": "x"})
    assert (events[3]["before"], events[3]["after"]) == ({**NOTHING, "id": 2}, None)
    source = events[2]["source"]
    assert {name: source[name] for name in ("db", "table", "file", "snapshot")} == {
        "db": "d",
        "table": "items",
        "file": "snapshot-2",
        "snapshot": "false",
    }
    assert events[2]["ts_ms"] == source["ts_ms"] > 0


def test_types_are_those_of_the_converter_of_kafka_connect():
    with schema_registry() as registry:
        messages(filled([ROW]), written_to(registry))
        key, value = (registry.schema(registry.subjects[f"d.items-{name}"][0]) for name in ("key", "value"))
    assert (key["namespace"], key["name"], key["fields"]) == ("d.items", "Key", [{"name": "id", "type": "long"}])
    assert (value["namespace"], value["name"], value["connect.name"]) == ("d.items", "Envelope", "d.items.Envelope")
    before, after = (next(one for one in value["fields"] if one["name"] == name) for name in ("before", "after"))
    assert after == {"name": "after", "type": ["null", "d.items.Value"], "default": None}
    fields = {one["name"]: one for one in before["type"][1]["fields"]}
    assert fields["name"] == {"name": "name", "type": ["null", "string"], "default": None}
    decimal = fields["price"]["type"][1]
    assert {name: decimal[name] for name in ("type", "logicalType", "precision", "scale", "connect.name")} == {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": 10,
        "scale": 2,
        "connect.name": "org.apache.kafka.connect.data.Decimal",
    }
    names = {"day": "Date", "at": "ZonedTimestamp", "seen": "MicroTimestamp", "clock": "MicroTime"}
    assert {name: fields[name]["type"][1]["connect.name"] for name in names} == {
        name: f"io.debezium.time.{its}" for name, its in names.items()
    }
    assert fields["small"]["type"][1] == {"type": "int", "connect.type": "int8"}


@pytest.mark.parametrize(
    ("path", "size", "first"),
    [("", 4, 7), ("/apis/ccompat/v7", 4, 7), ("/apis/registry/v2", 8, 2**40), ("/apis/registry/v3", 4, 2**31)],
)
def test_each_protocol_of_registries_gives_numbers_that_its_readers_find(path: str, size: int, first: int):
    table = filled([ROW])
    with schema_registry(first) as registry:
        registry.prefix = "" if "registry" in path else path
        format = ChangeFormat("debezium-avro", registry=registry.address + path)
        (message,) = messages(table, format)
        assert read(registry, message["value"], size)["after"] == IN_AVRO
        assert len(registry.calls) == 2 and sorted(registry.subjects) == ["d.items-key", "d.items-value"]
        (row,) = lsmlake.cdc.decode([message["value"]], format, DDL).to_pylist()
        assert {name: row[name] for name in ROW} == ROW


def test_a_table_is_copied_by_its_messages_and_a_database_by_sync():
    table, lake = filled([ROW, {**NOTHING, "id": 2}]), new_lake()
    copy = lake.create_table("d.copy", DDL, primary_key=["id"])
    with schema_registry() as registry:
        format = written_to(registry)
        table.delete_keys([{"id": 2}])
        for batch in table.follow(format=format, snapshot=1):
            copy.upsert(batch, format=format)
            lake.sync(batch, format=format, database="synced")
    assert copy.to_arrow() == table.to_arrow()
    made = lake.table("synced.items")
    (row,) = made.to_arrow().to_pylist()
    assert made.primary_key == ("id",) and {name: row[name] for name in row if row[name] != ROW[name]} == {
        "parts": IN_AVRO["parts"],
        "days": [{"key": "k", "value": NOON.date()}],
    }
    assert str(made.schema.field("small").type) == "int8"


# -- schemas ------------------------------------------------------------------------------------------------------------


def test_a_schema_is_registered_once_and_another_one_for_other_columns():
    table = filled([{"id": 1}], "id BIGINT NOT NULL")
    with schema_registry() as registry:
        for _ in range(2):
            messages(table, written_to(registry))
        assert len(registry.calls) == 2
        table.alter(lsmlake.add_column("name", "STRING"))
        table.upsert([{"id": 2, "name": "a"}])
        rows = [read(registry, one["value"])["after"] for one in messages(table, written_to(registry))]
        first, second = sorted(rows, key=lambda row: row["id"])
        assert (first, second) == ({"id": 1, "name": None}, {"id": 2, "name": "a"})
        assert {subject: len(versions) for subject, versions in registry.subjects.items()} == {
            "d.items-key": 1,
            "d.items-value": 2,
        }
        added = registry.schema(registry.subjects["d.items-value"][1])["fields"][0]["type"][1]["fields"][1]
        assert added == {"name": "name", "type": ["null", "string"], "default": None}  # which a registry calls compatible


def test_the_topic_names_the_subjects_and_the_records():
    with schema_registry() as registry:
        messages(filled([{"id": 1}], "id BIGINT NOT NULL"), written_to(registry, topic="eu-1.shop.items-x"))
        assert sorted(registry.subjects) == ["eu-1.shop.items-x-key", "eu-1.shop.items-x-value"]
        schema = registry.schema(2)
        assert (schema["namespace"], schema["connect.name"]) == ("eu_1.shop.items_x", "eu-1.shop.items-x.Envelope")


def test_the_topic_of_a_branch_has_no_character_that_topics_lack():
    table = filled([{"id": 1}], "id BIGINT NOT NULL")
    table.create_branch("dev")
    with schema_registry() as registry:
        messages(table.branch("dev"), written_to(registry))
        assert sorted(registry.subjects) == ["d.items_branch_dev-key", "d.items_branch_dev-value"]


def test_a_table_without_a_key_has_no_schema_of_keys():
    table = new_lake().create_table("d.log", "at BIGINT, `text` STRING")
    table.append([{"at": 1, "text": "a"}])
    with schema_registry() as registry:
        (message,) = messages(table, written_to(registry))
        assert message["key"] is None and list(registry.subjects) == ["d.log-value"]
        assert read(registry, message["value"])["after"] == {"at": 1, "text": "a"}


def test_the_schemas_are_registered_before_the_first_batch_and_changes_without_rows_have_the_columns():
    table = filled([ROW])
    with schema_registry() as registry:
        table.follow(format=written_to(registry), consumer="bus")
        assert len(registry.calls) == 2
        empty = table.changes(1, 1, format=written_to(registry)).to_arrow()
        assert empty.schema == pa.schema([("key", pa.binary()), ("value", pa.binary())]) and empty.num_rows == 0


# -- refused ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (409, "refuses the schema of 'd.items-key'.*relax the compatibility"),
        (422, "refuses the schema"),
        (401, "refuses the call.*the user and the password"),
        (500, "refuses the call.*code 500"),
    ],
)
def test_a_registry_that_refuses_is_an_error_before_any_event(code: int, words: str):
    table = filled([ROW])
    with schema_registry() as registry:
        registry.answer = code
        with pytest.raises(StorageFailed, match=words) as refused:
            table.follow(format=written_to(registry), consumer="bus")
        assert "a%20b" not in str(refused.value) and "a b" not in str(refused.value)
        registry.answer = None
        assert len(messages(table, written_to(registry))) == 1  # a refusal is not remembered
    with pytest.raises(StorageFailed, match="does not answer"):
        filled([ROW]).follow(format=written_to(registry, topic="other"))


def test_an_answer_without_a_number_is_refused():
    with schema_registry() as registry:
        registry.posted = lambda path, headers, text: {"wrong": 1}
        with pytest.raises(StorageFailed, match="gives no number"):
            filled([ROW]).follow(format=written_to(registry))


@pytest.mark.parametrize(
    "column", ["`ü x` INT", "`1a` INT", "parts ARRAY<STRUCT<`y z`: INT>>", "days MAP<STRING, STRUCT<`a.b`: INT>>"]
)
def test_a_name_that_avro_cannot_have_is_refused_unless_its_column_is_left_out(column: str):
    table = filled([{"id": 1}], f"id BIGINT NOT NULL, {column}")
    with schema_registry() as registry:
        with pytest.raises(InvalidQuery, match="a field of debezium-avro cannot have the name"):
            table.follow(format=written_to(registry))
        assert not registry.calls
        (message,) = messages(table, written_to(registry), columns=["id"])
        assert read(registry, message["value"])["after"] == {"id": 1}


@pytest.mark.parametrize("column", [("data", b"?"), ("name", "?"), ("tags", ["?"])])
def test_the_mark_of_unchanged_values_is_refused(column: tuple[str, object]):
    with schema_registry() as registry, pytest.raises(InvalidData, match="has not changed"):
        messages(filled([{**ROW, **dict([column])}]), written_to(registry, unavailable="?"))


def test_tombstones_can_be_left_out():
    table = filled([ROW])
    table.delete_keys([{"id": 1}])
    with schema_registry() as registry:
        assert [one["value"] is None for one in messages(table, written_to(registry), snapshot=1)] == [False, False, True]
        assert len(messages(table, written_to(registry, tombstones=False), snapshot=1)) == 2
        assert json.loads(registry.schemas[0])["name"] == "Key"
