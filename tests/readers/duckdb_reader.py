"""DuckDB with its extension for Iceberg, from wheels."""

from __future__ import annotations

import sys

import duckdb
import duckdb_extensions
import pyarrow as pa
from answering import Answer, NotAsked, answer_all
from questions import COUNT, RANGES, ROWS, SNAPSHOTS, Filter, Question, ranges


def condition(one: Filter) -> str:
    name = f'"{one.column}"'
    return str(one._replace(column=name)).replace("TIMESTAMP '", "TIMESTAMPTZ '").replace("TIMESTAMP_NTZ '", "TIMESTAMP '")


def connected(*more: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 2})
    for name in ("avro", "iceberg", *more):
        duckdb_extensions.import_extension(name, con=connection)
        connection.execute(f"LOAD {name}")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def opened(warehouse: str) -> Answer:
    connections = [connected()]

    def answer(question: Question) -> pa.Table:
        if question.what == SNAPSHOTS:
            return connections[-1].sql(f"SELECT snapshot_id FROM iceberg_snapshots('{question.metadata}')").to_arrow_table()
        if question.what not in (ROWS, COUNT, RANGES) or question.tag:
            raise NotAsked
        version = "" if question.snapshot is None else f", snapshot_from_id = {question.snapshot}"
        where = " AND ".join(map(condition, question.where)) or "true"
        wanted = {COUNT: "count(*) AS count", ROWS: "*", RANGES: ranges(question.columns, '"')}[question.what]
        query = f"SELECT {wanted} FROM iceberg_scan('{question.metadata}'{version}) WHERE {where}"
        try:
            return connections[-1].sql(query).to_arrow_table()
        except (duckdb.InternalException, duckdb.FatalException):  # no later query works in this database
            connections.append(connected())
            raise

    return answer


if __name__ == "__main__":
    answer_all(opened, sys.argv[1:])
