"""Trino with its connector for Iceberg; the arguments begin with its jars and the home of a JDK.

Trino has no tables by path: each metadata file is registered as a table of its own.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable, Mapping

import pyarrow as pa
from answering import Answer, answer_all
from questions import COUNT, FILES, RANGES, REFS, ROW_IDS, SNAPSHOTS, Filter, Question, ranges
from trino.dbapi import Connection
from trino.exceptions import TrinoQueryError
from trino_server import LOCAL, served

_METADATA = {
    SNAPSHOTS: 'SELECT snapshot_id, operation FROM "{}$snapshots"',
    REFS: 'SELECT name, type, snapshot_id FROM "{}$refs"',
    FILES: 'SELECT content, file_path, record_count FROM "{}$files"',
    ROW_IDS: 'SELECT count(*), count("$row_id"), count(DISTINCT "$row_id") FROM "{}"',
}
_TYPES: Mapping[str, Callable[..., pa.DataType]] = {
    "boolean": pa.bool_,
    "integer": pa.int32,
    "bigint": pa.int64,
    "real": pa.float32,
    "double": pa.float64,
    "varchar": lambda *_: pa.string(),
    "varbinary": pa.binary,
    "date": pa.date32,
    "decimal": pa.decimal128,
    "timestamp": lambda _: pa.timestamp("us"),
    "timestamp with time zone": lambda _: pa.timestamp("us", "UTC"),
    "array": pa.list_,
    "map": pa.map_,
    "row": lambda *fields: pa.struct(fields),
}


def type_of(signature: Mapping) -> pa.DataType:
    """`signature`: of a type, as Trino sends it."""
    return _TYPES[signature["rawType"]](*map(_argument, signature["arguments"]))


def _argument(one: Mapping) -> object:
    if one["kind"] == "NAMED_TYPE":
        return pa.field(one["value"]["fieldName"]["name"], type_of(one["value"]["typeSignature"]))
    return type_of(one["value"]) if one["kind"] == "TYPE" else one["value"]


def condition(one: Filter) -> str:
    text = str(one._replace(column=f'"{one.column}"'))
    return text.replace("+00:00'", " UTC'").replace("TIMESTAMP_NTZ '", "TIMESTAMP '")


def opened(connection: Connection) -> Answer:
    numbers, names = itertools.count(), {}

    def table_of(question: Question) -> str:
        """A folder is registered anew each time, with its newest metadata."""
        location, _, file = question.metadata.partition("/metadata/")
        if not file or question.metadata not in names:
            names[question.metadata] = f"t{next(numbers)}"
            arguments = ["d", names[question.metadata], location, *([file] if file else [])]
            run(f"CALL lake.system.register_table({', '.join(map(repr, arguments))})")
        return names[question.metadata]

    def run(query: str) -> pa.Table:
        cursor = connection.cursor()
        try:
            rows = cursor.execute(query).fetchall()
        except TrinoQueryError as error:  # its text has the number of the query
            raise RuntimeError(f"{error.error_name}: {error.message}") from error
        fields = [pa.field(column["name"], type_of(column["typeSignature"])) for column in cursor._query.columns or ()]
        columns = zip(*rows, strict=True) if rows else [()] * len(fields)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=False)]
        return pa.Table.from_arrays(arrays, names=[field.name for field in fields])

    def answer(question: Question) -> pa.Table:
        table = table_of(question)
        if question.what in _METADATA:
            return run(_METADATA[question.what].format(table))
        version = f"BIGINT '{question.snapshot}'" if question.tag is None else f"'{question.tag}'"
        of = "" if question.tag is question.snapshot is None else f"FOR VERSION AS OF {version}"
        where = " AND ".join(map(condition, question.where)) or "true"
        wanted = {COUNT: "count(*) AS count", RANGES: ranges(question.columns, '"')}.get(question.what, "*")
        return run(f"SELECT {wanted} FROM {table} {of} WHERE {where}")

    run("CREATE SCHEMA IF NOT EXISTS lake.d")
    connection._client_session.schema = "d"
    return answer


if __name__ == "__main__":
    jars, java, *arguments = sys.argv[1:]
    scratch = tempfile.mkdtemp(prefix="lsmlake-readers-trino-")
    metastore = {
        "iceberg.catalog.type": "TESTING_FILE_METASTORE",
        "hive.metastore.catalog.dir": f"local://{scratch}",
        "iceberg.register-table-procedure.enabled": "true",
    }
    with served(jars, java, metastore | LOCAL) as connection:
        answer_all(lambda warehouse: opened(connection), arguments)
