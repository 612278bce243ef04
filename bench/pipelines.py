"""Change events into a table: how many a second and core are decoded, by format and engine, and what they add to an upsert.

1. In this process each format decodes events of the same rows; of Debezium with and without a schema in each event.
2. An upsert of events takes turns with an upsert of the rows that were decoded before.
3. On Spark, tasks decode events of Debezium, as writes do, beside the way for executors without DuckDB, and beside a hand-written
   `from_json` with typed columns, which handles no deletes, no order and no value that needs more than a cast. All write nowhere.

What events cost that other systems write into their tables is in `event_merges`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import lsmlake
from bench import checksum
from bench.debezium_events import by_hand, payload, row_of
from bench.result import Measure, Report
from bench.session import session
from bench.timing import Spent, take_turns
from lsmlake.cdc import ChangeFormat, decode
from lsmlake.cdc.event_rows import EventReader
from lsmlake.spark.change_frames import decoded_frame
from lsmlake.types.ddl import parse_columns

COLUMNS = "id BIGINT NOT NULL, status STRING, amount DECIMAL(10,2), day DATE, at TIMESTAMP, note STRING"
_TARGET, _TARGET_ON_SPARK = 300_000, 200_000
DEBEZIUM = ChangeFormat("debezium-json", decimals="text", timestamps="micros")
_NUMBERED = ("string", "string", "int32", "int64", "string")
_NAMES = {"day": "io.debezium.time.Date", "at": "io.debezium.time.MicroTimestamp"}


def run(folder: Path, events: int = 1_000_000, rounds: int = 3) -> Report:
    """`events`: of each format; a third of them are updates of keys before, a tenth deletes."""
    made = {name: pa.table({"value": [event(number) for number in range(events)]}) for name, (_, event) in FORMATS.items()}
    spent = take_turns({name: partial(_decoding, made[name], FORMATS[name][0]) for name in FORMATS}, rounds)
    measures = [
        Measure(
            f"{name}, {made[name].nbytes // events} bytes each: decoded", events / one.cpu, None, "/s", _TARGET, at_least=True
        )
        for name, one in spent.items()
    ]
    upserts, answer = _upserts(folder, made["debezium-json"], rounds)
    measures.append(Measure("debezium-json: upsert beside one of decoded rows, CPU", upserts["events"].cpu, upserts["rows"].cpu))
    with session(folder) as spark:
        pq.write_table(made["debezium-json"], folder / "events.parquet", row_group_size=max(1, events // 8))
        on_spark = _on_spark(spark, folder / "events.parquet", rounds)
    ours, others, by_hand = (events / on_spark[side].cpu for side in ("tasks", "Spark", "from_json"))
    measures.append(Measure("debezium-json on Spark: decoded", ours, None, "/s", _TARGET_ON_SPARK, at_least=True))
    measures.append(Measure("debezium-json on Spark: beside executors without DuckDB", ours, others, "/s"))
    measures.append(Measure("debezium-json on Spark: beside from_json by hand", ours, by_hand, "/s"))
    return Report(
        "pipelines",
        f"{rounds} rounds in turns, best of them; events a second of CPU",
        {"events": f"{events:,} of each format, 6 columns"},
        answer,
        tuple(measures),
    )


def _decoding(events: pa.Table, format: str | ChangeFormat, _: int) -> Callable[[], object]:
    return partial(decode, events, format, COLUMNS, primary_key=["id"])


def _upserts(folder: Path, events: pa.Table, rounds: int) -> tuple[dict[str, Spent], str]:
    rows = decode(events, DEBEZIUM, COLUMNS, primary_key=["id"]).drop_columns(["_event_kept", "_event_offset"])
    answers: dict[str, str] = {}

    def side(name: str, number: int) -> Callable[[], object]:
        lake = lsmlake.connect(folder / f"{name}-{number}")
        lake.create_database("b")
        table = lake.create_table("b.t", COLUMNS, primary_key=["id"], options={"bucket": 4})

        def upsert() -> None:
            if name == "events":
                table.upsert(events, format=DEBEZIUM, compact=False)
            else:
                table.upsert(rows, row_kind="_row_kind", order_by="_event_position", compact=False)
            answers[name] = checksum.of_table(table.to_arrow())

        return upsert

    spent = take_turns({name: partial(side, name) for name in ("events", "rows")}, rounds)
    return spent, checksum.same(**answers)


def _on_spark(spark: SparkSession, path: Path, rounds: int) -> dict[str, Spent]:
    def nowhere(made: Callable[[DataFrame], DataFrame], _: int) -> Callable[[], object]:
        return lambda: made(spark.read.parquet(str(path))).write.format("noop").mode("overwrite").save()

    reader = EventReader(DEBEZIUM, parse_columns(COLUMNS), ("id",))
    ways = {"tasks": False, "Spark": True}
    sides = {name: partial(decoded_frame, reader=reader, column=None, by_spark=way) for name, way in ways.items()}
    sides["from_json"] = by_hand
    return take_turns({name: partial(nowhere, made) for name, made in sides.items()}, rounds)


# -- events -----------------------------------------------------------------------------------------------------------


def _debezium(number: int) -> str:
    return json.dumps(payload(number))


_DESCRIBED = [{"type": "int64", "optional": False, "field": "id"}] + [
    {"type": kind, "optional": True, "field": name, **({"name": _NAMES[name], "version": 1} if name in _NAMES else {})}
    for kind, name in zip(_NUMBERED, ("status", "amount", "day", "at", "note"), strict=True)
]
_SCHEMA = {
    "type": "struct",
    "fields": [{"type": "struct", "fields": _DESCRIBED, "optional": True, "field": name} for name in ("before", "after")],
}


def _with_schema(number: int) -> str:
    return json.dumps({"schema": _SCHEMA, "payload": payload(number)})


def _texts(number: int) -> dict[str, object]:
    row = row_of(number)
    return {**row, "day": "2023-11-14", "at": "2023-11-14 22:13:20.123456"}


def _maxwell(number: int) -> str:
    kind = "delete" if number % 10 == 9 else "update" if number % 3 == 2 else "insert"
    head = {"database": "shop", "table": "orders", "type": kind, "ts": 1_700_000_000 + number, "xid": number, "commit": True}
    return json.dumps({**head, "data": _texts(number)})


def _canal(number: int) -> str:
    kind = "DELETE" if number % 10 == 9 else "UPDATE" if number % 3 == 2 else "INSERT"
    data = [{name: str(value) for name, value in _texts(number).items()}]
    head = {"data": data, "database": "shop", "table": "orders", "es": 1_700_000_000_000 + number, "id": number, "isDdl": False}
    return json.dumps({**head, "old": None, "pkNames": ["id"], "sql": "", "ts": 1_700_000_000_100, "type": kind})


_FIELDS_IN_AVRO = [
    {"name": "id", "type": "long"},
    {"name": "status", "type": ["null", "string"]},
    {"name": "amount", "type": ["null", "string"]},
    {"name": "day", "type": ["null", {"type": "int", "connect.name": _NAMES["day"]}]},
    {"name": "at", "type": ["null", {"type": "long", "connect.name": _NAMES["at"]}]},
    {"name": "note", "type": ["null", "string"]},
]
_TEXTS_OF_SOURCE = ("version", "connector", "name", "snapshot", "db", "sequence", "schema", "table")
_SOURCE_IN_AVRO = [
    *({"name": name, "type": ["null", "string"]} for name in _TEXTS_OF_SOURCE),
    *({"name": name, "type": ["null", "long"]} for name in ("ts_ms", "txId", "lsn", "xmin")),
]
_IN_AVRO = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", {"type": "record", "name": "Value", "fields": _FIELDS_IN_AVRO}]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": _SOURCE_IN_AVRO}},
        {"name": "transaction", "type": "null"},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
    ],
}
_PARSED = fastavro.parse_schema(json.loads(json.dumps(_IN_AVRO)))


def _avro(number: int) -> bytes:
    stream = io.BytesIO()
    stream.write(b"\0\0\0\0\1")
    fastavro.schemaless_writer(stream, _PARSED, payload(number))
    return stream.getvalue()


FORMATS: dict[str, tuple[str | ChangeFormat, Callable[[int], str | bytes]]] = {
    "debezium-json": (DEBEZIUM, _debezium),
    "debezium-json with a schema": (DEBEZIUM, _with_schema),
    "debezium-avro": (ChangeFormat("debezium-avro", registry={1: _IN_AVRO}), _avro),
    "maxwell-json": ("maxwell-json", _maxwell),
    "canal-json": ("canal-json", _canal),
}
"""Name -> the format as users name it, and the event of a number."""
