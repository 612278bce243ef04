"""Change events out: what a format writes, `lsmlake.cdc.decode` reads as the same rows, in the same order, for every column type.

Random tables with random histories are the proof; single cases show the form of each format, tombstones, and what is refused.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import re
from dataclasses import replace
from decimal import Context, Decimal
from itertools import pairwise

import pyarrow as pa
import pytest
from effort import scaled
from schema_registries import shared_registry
from strategies import new_lake, seen

import lsmlake
from lsmlake import Table
from lsmlake.cdc import ChangeFormat, encoding, event_formats
from lsmlake.cdc.envelopes import ENVELOPES
from lsmlake.errors import InvalidData, InvalidOption, InvalidQuery, LakeError

UTC = dt.timezone.utc
FORMATS = {
    "debezium-json": ChangeFormat("debezium-json"),
    "debezium with schema": ChangeFormat("debezium-json", schema=True),
    "debezium with numbers": ChangeFormat("debezium-json", decimals="bytes", times="micros", timestamps="micros", binary="hex"),
    "schema and texts": ChangeFormat("debezium-json", schema=True, decimals="text", times="nanos", tombstones=False),
    "canal-json": ChangeFormat("canal-json"),
    "maxwell-json": ChangeFormat("maxwell-json", times="nanos", timestamps="micros"),
    "ogg-json": ChangeFormat("ogg-json", binary="latin-1"),
    "aws-dms": ChangeFormat("aws-dms", binary="base64"),
    "mongodb": ChangeFormat("mongodb"),
    "debezium-avro": ChangeFormat("debezium-avro", registry={}),  # the tests have its registry
}
IN_ONLY: frozenset[str] = frozenset()
"""The formats of events in that cannot be written."""


def chosen(name: str) -> ChangeFormat:
    format = FORMATS[name]
    return replace(format, registry=shared_registry().address) if format.events.avro else format


def test_every_format_of_events_in_is_one_of_events_out():
    assert set(event_formats.FORMATS) == set(ENVELOPES) | IN_ONLY and not IN_ONLY & set(ENVELOPES)
    assert {*(format.name for format in FORMATS.values()), "plain"} == set(ENVELOPES)


# -- random tables ------------------------------------------------------------------------------------------------------

_LETTERS = ["a", "B", " ", '"', "\\", "\n", "\t", "\x00", "\x1f", "ü", "😀", "/", "{", "null", "1", "."]


def _text(chance: random.Random) -> str:
    return "".join(chance.choices(_LETTERS, k=chance.randrange(5)))


def _float(chance: random.Random) -> float:
    return chance.choice([0.0, 1.5, -0.1, 1e300, 5e-324, math.nan, math.inf, -math.inf, 1 / 3, 2.0**60, 1e21])


def _single(chance: random.Random) -> float:
    import numpy as np

    return float(np.float32(chance.choice([0.0, 1.5, 0.1, 1e30, math.nan, math.inf, 1 / 3])))


def _decimal(digits: int, scale: int):
    def drawn(chance: random.Random) -> Decimal:
        return Decimal(chance.choice([-1, 1]) * chance.randrange(10 ** chance.randrange(1, digits + 1))).scaleb(
            -scale, Context(prec=40)
        )

    return drawn


def _moment(chance: random.Random) -> dt.datetime:
    first, last = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)
    ends = [first, last, dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)]
    return chance.choice([*ends, first + chance.random() * (last - first)])


SINGLE = {
    "BOOLEAN": lambda chance: chance.random() < 0.5,
    "TINYINT": lambda chance: chance.randrange(-128, 128),
    "SMALLINT": lambda chance: chance.randrange(-(2**15), 2**15),
    "INT": lambda chance: chance.randrange(-(2**31), 2**31),
    "BIGINT": lambda chance: chance.choice([2**63 - 1, -(2**63), 0, 2**53 + 1]),
    "FLOAT": _single,
    "DOUBLE": _float,
    "STRING": _text,
    "BINARY": lambda chance: chance.randbytes(chance.randrange(5)),
    "DATE": lambda chance: _moment(chance).date(),
    "TIMESTAMP": lambda chance: _moment(chance).replace(tzinfo=UTC),
    "TIMESTAMP_NTZ": _moment,
    "TIME": lambda chance: _moment(chance).time(),
    "DECIMAL(38,10)": _decimal(38, 10),
    "DECIMAL(38,0)": _decimal(38, 0),
    "DECIMAL(4,4)": _decimal(4, 4),
}
KEYS = ["INT", "STRING", "DATE", "TIMESTAMP", "DECIMAL(38,0)", "BIGINT", "BINARY", "TIME"]
NAMES = ["name", "_x1", "a.b", "ü x", 'q"x', "after", "op", "key", "value", "`", "it's", "back\\slash", "data", "schema"]


def _named(names: list[str], pattern: str) -> list[str]:
    return [name for name in names if not pattern or re.fullmatch(pattern, name)]


def _type(chance: random.Random, pattern: str, depth: int = 2) -> tuple[str, object]:
    """The DDL of a type, whose names match a pattern, and a function that draws a value."""
    kind = chance.random()
    if depth and kind < 0.15:
        ddl, inner = _inside(chance, pattern, depth)
        return f"ARRAY<{ddl}>", lambda chance: [inner(chance) for _ in range(chance.randrange(3))]
    if depth and kind < 0.3:
        names = chance.sample(_named(["x", "y_1", "y z", 'q"'], pattern), k=chance.randrange(1, 3))
        fields = {name: _inside(chance, pattern, depth) for name in names}
        ddl = ", ".join(f"`{name}`: {its}" for name, (its, _) in fields.items())
        return f"STRUCT<{ddl}>", lambda chance: {name: drawn(chance) for name, (_, drawn) in fields.items()}
    if depth and kind < 0.4:
        key = chance.choice(["STRING", "INT", "DATE", "BINARY"])
        ddl, inner = _inside(chance, pattern, depth)

        def entries(chance: random.Random) -> list[tuple[object, object]]:
            return list({SINGLE[key](chance): inner(chance) for _ in range(chance.randrange(3))}.items())

        return f"MAP<{key}, {ddl}>", entries
    ddl = chance.choice(list(SINGLE))
    return ddl, SINGLE[ddl]


def _inside(chance: random.Random, pattern: str, depth: int) -> tuple[str, object]:
    ddl, drawn = _type(chance, pattern, depth - 1)

    def value(chance: random.Random) -> object:
        made = None if chance.random() < 0.2 else drawn(chance)
        return 1.25 if isinstance(made, float) and not math.isfinite(made) else made  # JSON lacks these inside of nested values

    return ddl, value


class Drawn:
    """A table of random columns, and what fills it."""

    def __init__(self, chance: random.Random, options: dict[str, object], format: ChangeFormat) -> None:
        self.chance = chance
        key = chance.choice(KEYS)
        pattern = format.events.names
        names = chance.sample(_named(NAMES, pattern), k=4)
        self.columns = {"id": (key, SINGLE[key])} | {name: _type(chance, pattern) for name in names}
        quoted = [f"`{name.replace('`', '``')}` {ddl}" for name, (ddl, _) in self.columns.items()]
        quoted[0] += " NOT NULL"
        self.ddl = ", ".join(quoted)
        self.table = new_lake().create_table("d.t", self.ddl, primary_key=["id"], options={"bucket": 2, **options})
        self.keys = [SINGLE[key](chance) for _ in range(6)]

    def row(self) -> dict[str, object]:
        made = {name: None if self.chance.random() < 0.2 else drawn(self.chance) for name, (_, drawn) in self.columns.items()}
        return {**made, "id": self.chance.choice(self.keys)}

    def play(self, commits: int) -> None:
        schema = self.table.schema
        for _ in range(commits):
            if self.chance.random() < 0.25:
                keys = [{"id": key} for key in {repr(key): key for key in self.chance.choices(self.keys, k=2)}.values()]
                self.table.delete_keys(pa.Table.from_pylist(keys, schema.field(0) and pa.schema([schema.field(0)])))
            else:
                rows = [self.row() for _ in range(self.chance.randrange(1, 6))]
                self.table.upsert(pa.Table.from_pylist(rows, schema), compact=self.chance.choice([None, True]))


def values(rows: list[dict[str, object]], names: list[str]) -> list[list[object]]:
    return [[seen(row[name]) for name in names] for row in rows]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("seed", range(scaled(8)))
def test_events_of_random_tables_are_read_as_the_same_changes(name, seed):
    chance, format = random.Random(f"{name} {seed}"), chosen(name)
    producer = chance.choice(["none", "lookup", "input"])
    drawn = Drawn(chance, {"changelog-producer": producer}, format)
    drawn.play(5)
    table, names = drawn.table, list(drawn.columns)
    start = chance.choice([{"snapshot": 1}, {}])
    messages = [one for batch in table.follow(format=format, **start) for one in batch.to_pylist()]
    events = [one["value"] for one in messages if one["value"] is not None]
    chance.shuffle(events)
    decoded = lsmlake.cdc.decode(events, format, drawn.ddl, primary_key=["id"]).sort_by("_event_position").to_pylist()
    changes = [row for batch in table.follow(commit_columns=True, **start) for row in batch.to_pylist()]
    changes.sort(key=lambda row: (row["_commit_snapshot_id"], row["_change_ordinal"]))
    paired = [one["_row_kind"] == "-U" and two["_row_kind"] == "+U" for one, two in pairwise([*changes, {"_row_kind": ""}])]
    expected = [row for row, old in zip(changes, paired, strict=True) if not old]
    if name in ("canal-json", "mongodb"):  # whose positions order the changes of a key, and not those of other buckets
        expected, decoded = (sorted(rows, key=lambda row: repr(row["id"])) for rows in (expected, decoded))
    assert values(decoded, names) == values(expected, names)
    kinds = {"-U": "-D"}
    assert [row["_row_kind"] for row in decoded] == [kinds.get(row["_row_kind"], row["_row_kind"]) for row in expected]
    tombstones = [one["key"] for one in messages if one["value"] is None]
    deletes = [row for row in expected if row["_row_kind"] in ("-D", "-U")]
    assert len(tombstones) == (len(deletes) if "tombstones" in format.events.arguments and format.tombstones else 0)


@pytest.mark.parametrize("name", [name for name, format in FORMATS.items() if format.name == "debezium-json"])
@pytest.mark.parametrize("seed", range(scaled(3)))
def test_the_rows_before_updates_are_those_of_the_changes(name, seed):
    chance, format = random.Random(f"before {name} {seed}"), FORMATS[name]
    drawn = Drawn(chance, {}, format)
    drawn.play(5)
    messages = [one["value"] for batch in drawn.table.follow(snapshot=1, format=format) for one in batch.to_pylist()]
    turned = []
    for message in filter(None, messages):
        event = json.loads(message)
        inside = event["payload"] if format.schema else event
        if inside["op"] == "u":
            inside.update(op="c", after=inside["before"], before=None)
            turned.append(json.dumps(event))
    decoded = lsmlake.cdc.decode(turned, format, drawn.ddl, primary_key=["id"]).to_pylist()
    changes = [row for batch in drawn.table.follow(snapshot=1) for row in batch.to_pylist()]
    names = list(drawn.columns)
    assert values(decoded, names) == values([row for row in changes if row["_row_kind"] == "-U"], names)


@pytest.mark.parametrize("name", ["canal-json", "maxwell-json"])
def test_the_old_values_of_an_update_are_those_that_it_changes(name):
    table = _items()
    table.upsert([{"id": 1, "name": "pen", "price": Decimal("1.50")}])
    table.upsert([{"id": 1, "name": None, "price": Decimal("1.50")}])
    (event,) = [json.loads(one) for one in _values(table, name, snapshot=2)]
    old = event["old"][0] if name == "canal-json" else event["old"]
    assert old == {"name": "pen"}


def test_a_pair_is_one_event_also_at_the_border_of_two_chunks():
    from strategies import tiny_units

    with tiny_units(rows=3):
        table = _items(**{"changelog-producer": "lookup", "bucket": 1})
        for price in ("1.50", "2.50"):
            table.upsert([{"id": number, "name": "x", "price": Decimal(price)} for number in range(20)], compact=True)
        operations = [json.loads(one)["op"] for one in _values(table, "debezium-json", snapshot=2)]
    assert operations == ["u"] * 20


def test_events_are_written_in_parts_of_bounded_size(monkeypatch):
    """An array of Arrow holds 2 GiB of text, and the names and the schema of each event are a part of it."""
    table = _items(bucket=1)
    table.upsert([{"id": number, "name": "x", "price": None} for number in range(1000)])
    sizes = {}
    for schema in (False, True):
        monkeypatch.setattr(encoding, "_BYTES", 30_000)
        (batch,) = table.follow(format=ChangeFormat("debezium-json", schema=schema))
        batches = list(batch.to_batches())
        sizes[schema] = max(map(len, batches))
        assert sum(map(len, batches)) == 1000
    assert sizes[True] < 100 < sizes[False] < 1000


# -- forms --------------------------------------------------------------------------------------------------------------


def _items(**options: object) -> Table:
    ddl = "id BIGINT NOT NULL, name STRING, price DECIMAL(10,2)"
    return new_lake().create_table("d.items", ddl, primary_key=["id"], options=options)


def _values(table: Table, format: str | ChangeFormat, **how: object) -> list[str | None]:
    return [one["value"] for batch in table.follow(format=format, **how) for one in batch.to_pylist()]


def _changed() -> Table:
    table = _items()
    table.upsert([{"id": 1, "name": "pen", "price": Decimal("1.50")}])
    table.upsert([{"id": 1, "name": "ink", "price": None}])
    table.delete_keys([{"id": 1}])
    return table


def test_an_event_of_debezium_has_its_place_in_the_commits():
    first, second, third, stone = _values(_changed(), "debezium-json", snapshot=1)
    assert (json.loads(first)["op"], json.loads(first)["before"]) == ("c", None)
    update = json.loads(second)
    assert update["before"] == {"id": 1, "name": "pen", "price": "1.50"} and update["after"]["name"] == "ink"
    assert (update["source"]["file"], update["source"]["table"], update["op"]) == ("snapshot-2", "items", "u")
    assert json.loads(third)["after"] is None and stone is None


def test_the_rows_of_a_snapshot_are_reads():
    table = _items()
    table.upsert([{"id": 1, "name": "pen", "price": None}])
    (event,) = map(json.loads, _values(table, "debezium-json"))
    assert (event["op"], event["source"]["snapshot"]) == ("r", "true")
    (load,) = map(json.loads, _values(table, "aws-dms"))
    assert load["metadata"]["operation"] == "load"


def test_a_plain_tombstone_is_refused_because_it_says_no_row():
    lake = new_lake()
    table = lake.create_table("d.copy", "id BIGINT NOT NULL, v STRING", primary_key=["id"])
    events = pa.table({"key": ['{"id":1}', '{"id":1}'], "value": ['{"id":1,"v":"a"}', None]})
    with pytest.raises(InvalidData, match="has no value"):
        table.upsert(events, format="plain", column="value")
    assert table.count() == 0
    table.upsert(events, format="plain", column="value", on_error="reject")
    assert table.count() == 1 and lake.table("d.copy_rejected").count() == 1


def test_plain_rows_have_tombstones_for_deletes():
    values = _values(_changed(), "plain", snapshot=1)
    assert [one and json.loads(one)["name"] for one in values] == ["pen", "ink", None]


def test_keys_are_objects_of_the_key_columns():
    table = _changed()
    keys = {name: next(iter(table.follow(format=name, snapshot=1))).to_pylist()[0]["key"] for name in ("plain", "maxwell-json")}
    assert json.loads(keys["plain"]) == {"id": 1}
    assert json.loads(keys["maxwell-json"]) == {"database": "d", "table": "items", "pk.id": 1}


def test_a_table_without_a_key_has_messages_without_keys():
    events = new_lake().create_table("d.log", "at BIGINT, text STRING")
    events.append([{"at": 1, "text": "a"}])
    events.delete(where="at = 1")
    rows = [one for batch in events.follow(format="debezium-json", snapshot=1) for one in batch.to_pylist()]
    assert [one["key"] for one in rows] == [None, None]
    assert [json.loads(one["value"])["op"] for one in rows] == ["c", "d"]


def test_a_second_table_follows_by_events():
    table, other = _changed(), _items()
    table.upsert([{"id": 2, "name": "nib", "price": Decimal("0.25")}, {"id": 3, "name": None, "price": None}])
    for batch in table.follow(format="canal-json", snapshot=1):
        other.upsert(batch, format="canal-json")
    assert other.to_arrow().sort_by("id") == table.to_arrow().sort_by("id")


def test_changes_of_an_interval_are_events_too():
    table = _changed()
    events = table.changes(1, 2, format="debezium-json")
    assert [json.loads(one["value"])["op"] for one in events.to_pylist()] == ["u"]
    assert events.to_arrow().column_names == ["key", "value"] and events.count() == 1
    assert "debezium-json" in repr(events)


def test_a_row_that_leaves_the_condition_of_a_changelog_is_deleted():
    table = _items(**{"changelog-producer": "lookup"})
    table.upsert([{"id": 1, "name": "pen", "price": None}], compact=True)
    table.upsert([{"id": 1, "name": "ink", "price": None}], compact=True)
    events = table.changes(1, mode="changelog", where="name = 'pen'", format="debezium-json").to_pylist()
    assert [one["value"] and json.loads(one["value"])["op"] for one in events] == ["d", None]


# -- refused ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "how", "words"),
    [
        (ChangeFormat("debezium-avro", registry={}), {}, "the address of a registry"),
        ("avro", {}, "unknown format"),
        ("debezium-json", {"columns": ["name"]}, "change events need the key"),
        ("debezium-json", {"commit_columns": True}, "leave one of them out"),
    ],
)
def test_what_events_cannot_say_is_refused_before_anything_is_read(format, how, words):
    with pytest.raises(InvalidQuery, match=words):
        _items().follow(format=format, consumer="bus", **how)
    assert _items().system_table("consumers").num_rows == 0


def test_bytes_of_dms_need_an_encoding():
    table = new_lake().create_table("d.t", "id INT NOT NULL, data ARRAY<BINARY>", primary_key=["id"])
    with pytest.raises(InvalidQuery, match="nothing tells how aws-dms writes the bytes"):
        table.follow(format="aws-dms")


@pytest.mark.parametrize(
    ("ddl", "value", "format", "words"),
    [
        ("STRING", "__debezium_unavailable_value", ChangeFormat("debezium-json"), "has not changed"),
        ("ARRAY<STRING>", ["__debezium_unavailable_value"], ChangeFormat("debezium-json"), "has not changed"),
        ("ARRAY<DOUBLE>", [math.nan], ChangeFormat("canal-json"), "no NaN"),
        ("BINARY", b"\xff", ChangeFormat("maxwell-json", binary="text"), "cannot be written as maxwell-json"),
        (
            "TIMESTAMP",
            dt.datetime(2026, 1, 1, 0, 0, 0, 1, UTC),
            ChangeFormat("ogg-json", timestamps="millis"),
            "cannot be written",
        ),
        ("TIMESTAMP", dt.datetime(9999, 1, 1, tzinfo=UTC), ChangeFormat("ogg-json", timestamps="nanos"), "cannot be written"),
        ("TIME", dt.time(1, 2, 3, 4), ChangeFormat("canal-json", times="millis"), "cannot be written"),
    ],
)
def test_a_value_that_events_cannot_say_is_refused_and_named(ddl, value, format, words):
    table = new_lake().create_table("d.t", f"id INT NOT NULL, v {ddl}", primary_key=["id"])
    table.upsert(pa.Table.from_pylist([{"id": 1, "v": value}], table.schema))
    with pytest.raises(InvalidData, match=words) as refused:
        _values(table, format)
    assert "'v'" in str(refused.value)


def test_another_mark_of_unchanged_values_lets_the_text_pass():
    table = _items()
    table.upsert([{"id": 1, "name": "__debezium_unavailable_value", "price": None}])
    format = ChangeFormat("debezium-json", unavailable="?")
    (row,) = lsmlake.cdc.decode(_values(table, format), format, "id BIGINT, name STRING", primary_key=["id"]).to_pylist()
    assert row["name"] == "__debezium_unavailable_value"


@pytest.mark.parametrize(
    "words",
    [
        {"name": "canal-json", "schema": True},
        {"name": "plain", "tombstones": False},
        {"name": "x"},
        {"name": "mongodb", "topic": "t"},
        {"name": "debezium-avro", "registry": "http://x", "topic": ""},
        {"name": "debezium-avro", "registry": "http://x", "topic": "a/b"},
        {"name": "debezium-avro", "registry": "http://x", "topic": "a" * 250},
    ],
)
def test_arguments_that_a_format_lacks_are_refused(words):
    with pytest.raises(InvalidQuery):
        ChangeFormat(**words)
    with pytest.raises(InvalidQuery, match="is a flag"):
        ChangeFormat("debezium-json", schema=1)


# -- decimals, maps and bytes that are read -----------------------------------------------------------------------------


def test_decimals_in_text_keep_all_digits():
    """Both images of the update round to the same DOUBLE."""
    texts = ["1234567890123456789012345678.0123456789", "1234567890123456789012345678.0123456788"]
    event = {"op": "u", "before": {"id": 1, "v": texts[0]}, "after": {"id": 1, "v": texts[1]}, "source": {"lsn": 1}}
    rows = lsmlake.cdc.decode([json.dumps(event)], "debezium-json", "id INT, v DECIMAL(38,10)", primary_key=["id"])
    assert str(rows["v"][0].as_py()) == texts[1]


def test_a_map_is_a_list_of_entries():
    ddl = "id INT, v MAP<STRING, ARRAY<BINARY>>"
    event = {"op": "c", "after": {"id": 1, "v": [{"key": "a", "value": ["AP8="]}]}, "source": {"lsn": 1}}
    assert lsmlake.cdc.decode([json.dumps(event)], "debezium-json", ddl)["v"].to_pylist() == [[("a", [b"\x00\xff"])]]
    event["after"]["v"] = {"a": []}
    with pytest.raises(LakeError, match="an object of JSON is no MAP"):
        lsmlake.cdc.decode([json.dumps(event)], "debezium-json", ddl)


# -- Spark --------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_a_stream_of_events_on_spark(spark, spark_lake, tmp_path):
    table = spark_lake.create_table("d.items", "id BIGINT NOT NULL, name STRING", primary_key=["id"], options={"bucket": 2})
    table.upsert([{"id": number, "name": "pen"} for number in range(5)])

    def read(**how: object) -> list[tuple[str, str | None]]:
        stream = table.read_stream(format=ChangeFormat("debezium-json", **how))
        assert stream.columns == ["key", "value"]
        out = stream.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        out.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start().awaitTermination()
        return [tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).collect()]

    assert sorted(json.loads(value)["op"] for _, value in read()) == ["r"] * 5
    table.upsert([{"id": 1, "name": "ink"}])
    table.delete_keys([{"id": 2}])
    rows = read()
    found = [(json.loads(key)["id"], value and json.loads(value)["op"]) for key, value in rows]
    assert sorted(found[:], key=str) == sorted([*((number, "r") for number in range(5)), (1, "u"), (2, "d"), (2, None)], key=str)
    events = [value for _, value in rows if value is not None]
    decoded = lsmlake.cdc.decode(events, "debezium-json", "id BIGINT, name STRING", primary_key=["id"]).sort_by("_event_position")
    other = spark_lake.create_table("d.other", "id BIGINT NOT NULL, name STRING", primary_key=["id"])
    other.upsert(events, format="debezium-json")
    assert decoded.num_rows == 7 and other.to_arrow().sort_by("id") == table.to_arrow().sort_by("id")
    frame = table.changes(1, format="canal-json").to_spark()
    assert sorted(json.loads(row.value)["type"] for row in frame.collect()) == ["DELETE", "UPDATE"]
    with pytest.raises(InvalidQuery, match="leave one of them out"):
        table.read_stream(format="debezium-json", commit_columns=True)
    lsmlake.register(spark)
    place = table.meta.env.storage.place(table.path)
    reader = spark.readStream.format("lsmlake").option("changes.format", '{"name": "debezium-json", "schema": true}')
    assert reader.load(place).columns == ["key", "value"]
    with pytest.raises(Exception, match="contradict each other") as refused:
        reader.option("read.changelog", "false").load(place)
    assert InvalidOption.__name__ in str(refused.value)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["debezium-avro", "mongodb"])
def test_messages_of_avro_and_mongodb_on_spark(spark, spark_lake, tmp_path, name):
    """They are those of one process, as a stream and as a batch, and the tasks of Spark read them."""
    format, bytes_or_text = chosen(name), "binary" if name == "debezium-avro" else "string"
    ddl = "id BIGINT NOT NULL, region STRING NOT NULL, price DECIMAL(10,2), at TIMESTAMP, days MAP<STRING, DATE>, data BINARY"
    key = ["region", "id"]
    table, copy, copied = (spark_lake.create_table(f"d.{one}", ddl, primary_key=key) for one in ("items", "copy", "copied"))
    moment = dt.datetime(2026, 1, 31, 12, 0, 0, 500_000, UTC)
    row = {"region": "eu", "price": Decimal("-1.50"), "at": moment, "days": [("k", moment.date())], "data": b"\x00\xff"}
    rows = [{**dict.fromkeys(row), "id": 0, "region": "us"}, *({**row, "id": number} for number in range(1, 5))]
    table.upsert(pa.Table.from_pylist(rows, table.schema))
    table.upsert(pa.Table.from_pylist([{**row, "id": 1, "at": None}], table.schema))
    table.delete_keys([{"id": 2, "region": "eu"}])
    expected = sorted((one for batch in table.follow(format=format, snapshot=1) for one in batch.to_pylist()), key=repr)

    batch = table.changes(0, mode="delta", format=format).to_spark()
    assert [(one.name, one.dataType.simpleString()) for one in batch.schema] == [("key", bytes_or_text), ("value", bytes_or_text)]
    lsmlake.register(spark)
    reader = spark.readStream.format("lsmlake").option("changes.format", json.dumps(format.words))
    source = reader.load(table.meta.env.storage.place(table.path))
    stream = table.read_stream(format=format, snapshot=1)
    assert stream.schema == source.schema == batch.schema
    out = stream.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    out.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start().awaitTermination()
    written = spark.read.parquet(str(tmp_path / "out"))
    found = [
        {name: bytes(its) if isinstance(its, bytearray) else its for name, its in one.asDict().items()}
        for one in written.collect()
    ]
    assert sorted(found, key=repr) == expected

    copy.upsert(written, format=format)
    assert copy.to_arrow().sort_by("id") == table.to_arrow().sort_by("id")
    values = written.where("value IS NOT NULL").select("value")
    copied.upsert(values, format=format)
    assert copied.to_arrow().sort_by("id") == table.to_arrow().sort_by("id")
