"""A server of MariaDB with a binary log of rows in a folder of its own, and statements for it by its client."""

from __future__ import annotations

import json
import os
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
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "max-binlog-size": "256K",  # so positions lie in many files
    "server-id": "1",
    "bind-address": "127.0.0.1",
    "default-time-zone": "+00:00",
    "character-set-server": "utf8mb4",
    "sql-mode": "STRICT_TRANS_TABLES",  # dates of zeros are allowed
    "innodb-flush-log-at-trx-commit": "0",  # the server is not what is killed
    "innodb-buffer-pool-size": "64M",
}
_OPENED = "CREATE DATABASE bank; CREATE USER bank@'%' IDENTIFIED BY 'bank'; GRANT ALL ON *.* TO bank@'%';"
_PROGRAMS = "mariadbd", "mariadb", "mariadb-install-db"
_TABLES = """
CREATE TABLE accounts (id int PRIMARY KEY, owner varchar(40) NOT NULL, balance numeric(12,2) NOT NULL, visits smallint,
    note text, opened date, seen timestamp(6) NULL);
CREATE TABLE transfers (id bigint PRIMARY KEY, source int NOT NULL, target int NOT NULL, amount numeric(10,2), at datetime(6));
CREATE TABLE entries (transfer bigint, line smallint, word text, PRIMARY KEY (transfer, line));
CREATE TABLE marks (id int PRIMARY KEY, at timestamp(6));
CREATE TABLE types (id int unsigned PRIMARY KEY, flag tinyint(1), tiny tinyint, tiny_u tinyint unsigned, small smallint,
    small_u smallint unsigned, medium mediumint, medium_u mediumint unsigned, whole int, whole_u int unsigned, big bigint,
    big_u bigint unsigned, exact decimal(20,6), exact_u decimal(10,2) unsigned, longest decimal(65,30), single float,
    twice double, one_bit bit(1), bits bit(16), fixed char(5), sized varchar(9), latin varchar(9) CHARACTER SET latin1,
    words longtext, fixed_bytes binary(4), sized_bytes varbinary(9), bytes blob, day date, no_day date, year year,
    clock time, clock_3 time(3), clock_6 time(6), local datetime, local_3 datetime(3), local_6 datetime(6),
    moment timestamp NULL, moment_6 timestamp(6) NULL, choice enum('red', 'green', 'dark blue'), choices set('a', 'b', 'c'),
    doc json, ident uuid, place geometry, made int AS (whole * 2) STORED);
"""
_TYPES = {
    "id": "int64",
    "flag": "int16",
    "tiny": "int16",
    "tiny_u": "int16",
    "small": "int16",
    "small_u": "int32",
    "medium": "int32",
    "medium_u": "int32",
    "whole": "int32",
    "whole_u": "int64",
    "big": "int64",
    "big_u": "decimal128(20, 0)",
    "exact": "decimal128(20, 6)",
    "exact_u": "decimal128(10, 2)",
    "longest": "string",
    "single": "float",
    "twice": "double",
    "one_bit": "bool",
    "bits": "binary",
    "fixed": "string",
    "sized": "string",
    "latin": "string",
    "words": "string",
    "fixed_bytes": "binary",
    "sized_bytes": "binary",
    "bytes": "binary",
    "day": "date32[day]",
    "no_day": "date32[day]",
    "year": "int32",
    "clock": "time64[us]",
    "clock_3": "time64[us]",
    "clock_6": "time64[us]",
    "local": "timestamp[us]",
    "local_3": "timestamp[us]",
    "local_6": "timestamp[us]",
    "moment": "timestamp[us, tz=UTC]",
    "moment_6": "timestamp[us, tz=UTC]",
    "choice": "string",
    "choices": "string",
    "doc": "string",
    "ident": "string",
    "place": "string",
    "made": "int32",
}
_AS_TEXT = {
    "one_bit": "CASE one_bit WHEN 1 THEN 'true' WHEN 0 THEN 'false' END",
    # Debezium sends bits as bytes whose last one is the first here
    "bits": "CONCAT(LPAD(HEX(bits & 255), 2, '0'), LPAD(HEX(bits >> 8), 2, '0'))",
    **{name: f"HEX({name})" for name in ("fixed_bytes", "sized_bytes", "bytes")},
    "no_day": "NULL",  # 0000-00-00, which Debezium sends as null
    "place": """CONCAT('{"wkb":"', TO_BASE64(ST_AsBinary(place)), '","srid":null}')""",
}
"""The columns of `types` whose text is not that which `compare` reads."""
_ZONED = "seen", "at", "moment", "moment_6"
"""The columns of the type TIMESTAMP, but `at` of `transfers`."""

_CHOICES, _SETS = ("NULL", "'dark blue'", "'red'"), ("''", "'a,c'")


@dataclass(frozen=True)
class MariaDb:
    """A running server."""

    port: int
    socket: Path

    tables: ClassVar[str] = _TABLES
    types: ClassVar[Mapping[str, str]] = MappingProxyType(_TYPES)
    changes: ClassVar[str] = r"bank\..*"
    place: ClassVar[str] = " AFTER source"

    def script(self, text: str, database: str = "bank") -> None:
        self._client(text, database)

    def columns(self, table: str) -> list[str]:
        where = f"table_schema = 'bank' AND table_name = '{table}'"
        query = f"SELECT column_name FROM information_schema.columns WHERE {where} ORDER BY ordinal_position;"
        return self._client(query).split()

    def texts(self, table: str, columns: Sequence[str]) -> list[dict[str, str | None]]:
        fields = ", ".join(f"'{name}', {self._text(table, name)}" for name in columns)
        return [json.loads(line) for line in self._client(f"SELECT JSON_OBJECT({fields}) FROM `{table}`;").splitlines()]

    def series(self, first: int, last: int) -> str:
        return f"(SELECT seq AS n FROM seq_{first}_to_{last}) AS numbers"

    def row_of_types(self, number: int, n: int) -> str:
        size = abs(n)
        return ", ".join((
            f"{number}, {n % 2}, {n % 128}, {255 - size % 10}, {n}, {65535 - size}, {n * 8000}, {16777215 - size}",
            f"{n * 1000}, {4294967295 - size}, {n * 10**15}, {18446744073709551615 - size}",
            f"{n}.123456, {size}.25, {n}{'7' * 30}.{'3' * 29}1, {n}.25, {n}e10, {n % 2}, {size}",
            f"'ab', 'sized', 'é{n}', 'wörds \\\\ \" \\n 😀 {n}', x'7800', x'00ff{size % 90 + 10}', x'00ff00'",
            f"'2020-02-{size % 28 + 1}', '0000-00-00', {1901 + size % 200}, '23:59:59', '12:34:56.{size % 1000:03}'",
            f"'00:00:00.{size:06}', '1969-12-31 23:59:59', '1000-01-01 00:00:00.{size % 1000:03}', '9999-12-31 23:59:59.999999'",
            f"'2024-03-31 01:30:00', '1970-01-01 00:00:01.{size:06}', {_CHOICES[n % 3]}",
            f"{_SETS[n % 2]}, '{{\"a\": [{n}, null, \"ü\"]}}', uuid(), POINT({n}, 0.5), DEFAULT",
        ))  # fmt: skip

    def widened(self, table: str, column: str) -> str:
        return f"ALTER TABLE {table} MODIFY {column} int;"

    def connector(self, folder: Path) -> dict[str, object]:
        return {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.user": "bank",
            "database.password": "bank",
            "database.server.id": 5401,
            "database.include.list": "bank",
            "database.ssl.mode": "disable",
            "bigint.unsigned.handling.mode": "precise",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": folder / "schemas",
        }

    def _text(self, table: str, column: str) -> str:
        if column in _ZONED and table != "transfers":
            return f"CONCAT({column}, '+00')"
        return (_AS_TEXT.get(column) if table == "types" else None) or f"CAST({column} AS CHAR)"

    def _client(self, text: str, database: str = "bank") -> str:
        command = [
            "mariadb",
            "--no-defaults",
            "-u",
            "root",
            "-S",
            self.socket,
            "--default-character-set=utf8mb4",
            "-N",
            "-B",
            "-r",
        ]
        done = subprocess.run([*map(str, command), database], input=text, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"mariadb failed: {done.stderr}")
        return done.stdout


@contextmanager
def server(folder: Path) -> Iterator[MariaDb]:
    """A server with its data in `folder`, as long as the context lasts."""
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        raise Missing(f"MariaDB is not installed: there is no {missing[0]}")
    place = home(folder, "mariadb")
    user = [] if os.getuid() else ["--user=root"]
    data, made = place.folder / "data", MariaDb(place.port, place.folder / "socket")
    with (folder / "mariadb.log").open("w") as log:
        how = {"stdout": log, "stderr": log}
        install = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
        subprocess.run([*install, "--skip-test-db", *user], check=True, **how)
        settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        where = [f"--datadir={data}", f"--port={made.port}", f"--socket={made.socket}"]
        process = subprocess.Popen(["mariadbd", "--no-defaults", *where, *settings, *user], **how)
        try:
            until_ready(partial(made.script, "SELECT 1;", database="mysql"))
            made.script(_OPENED, database="mysql")
            yield made
        finally:
            process.terminate()
            process.wait()
