"""A server of PostgreSQL with logical decoding in a folder of its own, and statements for it by psql."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from pipelines.databases import Missing, home, until_ready

_SETTINGS = {
    "wal_level": "logical",
    "listen_addresses": "127.0.0.1",
    "fsync": "off",  # the server is not what is killed
    "timezone": "UTC",
    "max_wal_senders": "4",
    "max_replication_slots": "4",
}
_TABLES = """
CREATE TABLE accounts (id int PRIMARY KEY, owner varchar(40) NOT NULL, balance numeric(12,2) NOT NULL, visits smallint, note text,
    opened date, seen timestamptz);
CREATE TABLE transfers (id bigint PRIMARY KEY, source int NOT NULL, target int NOT NULL, amount numeric(10,2), at timestamp);
CREATE TABLE entries (transfer bigint, line smallint, word text, PRIMARY KEY (transfer, line));
CREATE TABLE marks (id int PRIMARY KEY, at timestamptz);
CREATE TABLE types (id int PRIMARY KEY, small smallint, whole int, big bigint, exact numeric(20,6), free numeric, single real,
    double double precision, yes boolean, fixed char(5), sized varchar(9), words text, bytes bytea, day date, clock time,
    local timestamp, moment timestamptz, doc json, docs jsonb, ident uuid, numbers int[], texts text[], span interval, net inet,
    bits bit(8), pounds money);
"""
_TYPES = {
    "id": "int32",
    "small": "int16",
    "whole": "int32",
    "big": "int64",
    "exact": "decimal128(20, 6)",
    "free": "string",
    "single": "float",
    "double": "double",
    "yes": "bool",
    "fixed": "string",
    "sized": "string",
    "words": "string",
    "bytes": "binary",
    "day": "date32[day]",
    "clock": "time64[us]",
    "local": "timestamp[us]",
    "moment": "timestamp[us, tz=UTC]",
    "doc": "string",
    "docs": "string",
    "ident": "string",
    "numbers": "list<element: int32>",
    "texts": "list<element: string>",
}
"""The columns of the table `types` that are compared, and their types in the lake. Of the others, Debezium's form is not that of
the database: an interval in microseconds, bits as bytes, an amount of money as a number."""
_AS_TEXT = {
    "fixed": "rpad(fixed, 5)",  # as text it loses its blanks
    "bytes": "encode(bytes, 'hex')",
    **{name: f"to_jsonb({name})" for name in ("numbers", "texts")},
}
"""The columns of `types` whose text is not that which `compare` reads."""


def programs() -> Path:
    """The folder with the programs of the newest PostgreSQL."""
    on_path = shutil.which("initdb")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if on_path is None and not found:
        raise Missing("PostgreSQL is not installed")
    return found[-1].parent if found else Path(on_path).resolve().parent


@dataclass(frozen=True)
class Postgres:
    """A running server."""

    bin: Path
    port: int
    database: str = "postgres"

    tables: ClassVar[str] = _TABLES
    types: ClassVar[Mapping[str, str]] = MappingProxyType(_TYPES)
    changes: ClassVar[str] = r"postgres\.public\..*"
    place: ClassVar[str] = ""

    def script(self, text: str) -> None:
        self._psql([], text)

    def columns(self, table: str) -> list[str]:
        query = f"SELECT column_name FROM information_schema.columns WHERE table_name = '{table}' ORDER BY ordinal_position"
        return self._psql(["-c", query]).split()

    def texts(self, table: str, columns: Sequence[str]) -> list[dict[str, str | None]]:
        fields = ", ".join(f'{self._text(table, name)} AS "{name}"' for name in columns)
        text = self._psql(["-c", f"SELECT row_to_json(r) FROM (SELECT {fields} FROM {table}) r"])
        return [json.loads(line) for line in text.splitlines() if line]

    def series(self, first: int, last: int) -> str:
        return f"generate_series({first}, {last}) n"

    def row_of_types(self, number: int, n: int) -> str:
        return (
            f"{number}, {n}, {n * 1000}, {n} * 1000000000::bigint, {n}.123456, {n}.5, {n}.25, {n}e10, {n > 0}, 'ab', 'sized', "
            f"'wörds \\ \" {n}', decode('00ff{abs(n) % 90 + 10}', 'hex'), '2020-02-{abs(n) % 28 + 1}', '12:34:56.{abs(n)}', "
            f"'1969-12-31 23:59:59.5', '2024-03-31 01:30:00+02', '{{\"a\": {n}}}', '{{\"b\": [1, null]}}', gen_random_uuid(), "
            f"ARRAY[{n}, NULL, 1], ARRAY['a', NULL, 'ü'], '1 day', '10.0.0.1', B'10101010', 1.5"
        )

    def widened(self, table: str, column: str) -> str:
        return f"ALTER TABLE {table} ALTER COLUMN {column} TYPE int;"

    def connector(self, folder: Path) -> dict[str, object]:
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.user": "postgres",
            "database.dbname": self.database,
            "plugin.name": "pgoutput",
            "publication.autocreate.mode": "all_tables",
            "slot.drop.on.stop": "false",
            "status.update.interval.ms": 500,
        }

    def _text(self, table: str, column: str) -> str:
        return (_AS_TEXT.get(column) if table == "types" else None) or f'"{column}"::text'

    def _psql(self, arguments: Sequence[str], text: str | None = None) -> str:
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", self.database]
        command = [str(self.bin / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *where, *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"psql failed: {done.stderr}")
        return done.stdout


@contextmanager
def server(folder: Path) -> Iterator[Postgres]:
    """A server with its data in `folder`, as long as the context lasts."""
    bin, (place, port) = programs(), home(folder, "postgres")
    as_user = _other_user(folder, place)
    data, log = place / "data", (folder / "postgres.log").open("w")
    with log:
        subprocess.run(
            [*as_user, bin / "initdb", "-D", data, "-U", "postgres", "-A", "trust"], check=True, stdout=log, stderr=log
        )
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        command = [*as_user, bin / "postgres", "-D", data, "-p", str(port), "-k", str(place), *settings]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            made = Postgres(bin, port)
            until_ready(partial(made.script, "SELECT 1;"))
            yield made
        finally:
            process.terminate()
            process.wait()


def _other_user(folder: Path, place: Path) -> list[str]:
    """The words before a command: the server refuses to run as root."""
    if os.getuid():
        return []
    user = pwd.getpwnam("postgres")
    folder.chmod(0o755)
    os.chown(place, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
