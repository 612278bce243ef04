"""Change events out: how many a second and core are written, by format, of 8 columns, in this process.

A table is filled, then each of its rows is updated with a changelog, so an event of the second commit has both rows. `follow`
reads the files of the table and writes the messages. The events of the second commit, decoded, are the rows of the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lsmlake
from bench import checksum
from bench.result import Measure, Report
from bench.timing import take_turns
from lsmlake import Table
from lsmlake.cdc import ChangeFormat, decode

COLUMNS = (
    "id BIGINT NOT NULL, status STRING, quantity INT, amount DECIMAL(10,2), weight DOUBLE, day DATE, at TIMESTAMP_NTZ, "
    "paid BOOLEAN"
)
_TARGET = 200_000
_COMMITS = {"inserts": 1, "updates": 2}


def run(folder: Path, rows: int = 200_000, rounds: int = 3) -> Report:
    """`rows`: of the table, and so of each commit."""
    table = _table(folder, rows)
    with _registry() as address:
        formats = {
            "debezium-json": ChangeFormat("debezium-json"),
            "debezium-json with a schema": ChangeFormat("debezium-json", schema=True),
            "debezium-avro": ChangeFormat("debezium-avro", registry=address),
            "mongodb": ChangeFormat("mongodb"),
        }
        sides = {(name, what): (format, number) for name, format in formats.items() for what, number in _COMMITS.items()}
        spent = take_turns({side: partial(_writing, table, *how) for side, how in sides.items()}, rounds)
        answer = checksum.same(
            table=checksum.of_table(table.to_arrow()), **{name: _decoded(table, format) for name, format in formats.items()}
        )
    measures = (
        Measure(f"{name}, {what}", rows / one.cpu, None, "/s", _TARGET if name == "debezium-avro" else None, at_least=True)
        for (name, what), one in spent.items()
    )
    return Report(
        "events_out",
        f"{rounds} rounds in turns, best of them; events a second of CPU",
        {"table": f"{rows:,} rows x 8 columns in 4 buckets"},
        answer,
        tuple(measures),
    )


def _table(folder: Path, rows: int) -> Table:
    lake = lsmlake.connect(folder)
    lake.create_database("b")
    table = lake.create_table("b.t", COLUMNS, primary_key=["id"], options={"bucket": 4, "changelog-producer": "lookup"})
    for number in _COMMITS.values():
        chance = np.random.default_rng(number)
        cents = pa.array(chance.integers(0, 10**6, rows)).cast(pa.decimal128(21, 2))
        table.upsert(
            pa.table(
                {
                    "id": np.arange(rows),
                    "status": pc.binary_join_element_wise("at ", pa.array(chance.integers(0, 99, rows)).cast(pa.string()), ""),
                    "quantity": chance.integers(0, 1000, rows).astype(np.int32),
                    "amount": cents.cast(pa.decimal128(10, 2)),
                    "weight": chance.random(rows),
                    "day": pa.array(chance.integers(0, 20_000, rows).astype(np.int32)).cast(pa.date32()),
                    "at": pa.array(chance.integers(0, 2 * 10**15, rows)).cast(pa.timestamp("us")),
                    "paid": chance.random(rows) < 0.5,
                }
            ),
            compact=True,
        )
    return table


def _messages(table: Table, format: ChangeFormat, number: int) -> pa.Table:
    return next(iter(table.follow(snapshot=number, format=format))).to_arrow()


def _writing(table: Table, format: ChangeFormat, number: int, _: int) -> Callable[[], object]:
    return partial(_messages, table, format, number)


def _decoded(table: Table, format: ChangeFormat) -> str:
    rows = decode(_messages(table, format, 2).select(["value"]), format, COLUMNS, primary_key=["id"])
    return checksum.of_table(rows.select(table.schema.names))


@contextmanager
def _registry() -> Iterator[str]:
    """A registry of schemas over HTTP."""
    schemas: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({"schema": schemas[int(self.path.rpartition("/")[2])]})

        def do_POST(self) -> None:
            schemas.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"])
            self._answer({"id": len(schemas) - 1})

        def _answer(self, given: object) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(given).encode())

        def log_message(self, *given: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
