"""Iceberg's own Java code as a reader: its generic reader, in a JVM without a Spark session. The jar is that of the benchmark."""

from __future__ import annotations

import datetime as dt
import os
from functools import cache
from pathlib import Path

import pyspark
import pytest
from py4j.java_collections import JavaList, JavaMap
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject, launch_gateway

from bench.peers.roster import PEERS
from bench.peers.setup import HOME, jars_of, provide

_NEEDED = ("hadoop-client", "slf4j", "log4j", "snappy", "zstd", "py4j")
_UNREACHABLE = ("Unknown host", "Could not transfer", "Connection refused", "timed out", "No plugin found", "offline")
"""What Maven says if it reaches no repository."""


def java_rows(metadata_file: str, snapshot: int | None = None, where: tuple[str, str, object] | None = None) -> list[dict]:
    """The rows of a published table, sorted as those of the other readers. `where`: a method of Expressions and its arguments."""
    table, expressions = java_table(metadata_file)
    scan = _java().org.apache.iceberg.data.IcebergGenerics.read(table)
    if snapshot is not None:
        scan = scan.useSnapshot(snapshot)
    if where is not None:
        method, *arguments = where
        scan = scan.where(getattr(expressions, method)(*arguments))
    schema = table.schema() if snapshot is None else table.schemas()[table.snapshot(snapshot).schemaId()]
    names = [field.name() for field in schema.columns()]  # a record may have more: what is needed to apply deletes
    found, rows = scan.build(), []
    iterator = found.iterator()
    while iterator.hasNext():
        record = iterator.next()
        rows.append({name: _plain(record.getField(name)) for name in names})
    found.close()
    return sorted(rows, key=repr)


def java_table(metadata_file: str) -> tuple[JavaObject, object]:
    """The table as Iceberg's Java code has it, found by its folder; and the class Expressions."""
    java = _java()
    tables = java.org.apache.iceberg.hadoop.HadoopTables(java.org.apache.hadoop.conf.Configuration())
    return tables.load(metadata_file.rpartition("/metadata/")[0]), java.org.apache.iceberg.expressions.Expressions


def _plain(value: object) -> object:
    """A value of Iceberg's generic records as PyArrow would give it."""
    if isinstance(value, JavaList):
        return [_plain(one) for one in value]
    if isinstance(value, JavaMap):
        return [(_plain(key), _plain(one)) for key, one in value.items()]
    if not isinstance(value, JavaObject):
        return value
    kind = value.getClass().getSimpleName()
    if kind == "GenericRecord":
        names = [field.name() for field in value.struct().fields()]
        return {name: _plain(value.get(place)) for place, name in enumerate(names)}
    if kind == "HeapByteBuffer":
        return bytes(value.array())
    if kind == "LocalDate":
        return dt.date.fromisoformat(value.toString())
    if kind == "LocalDateTime":
        return dt.datetime(*_moment(value))
    assert kind == "OffsetDateTime" and value.getOffset().getTotalSeconds() == 0, kind
    return dt.datetime(*_moment(value), dt.timezone.utc)


def _moment(value: JavaObject) -> tuple[int, ...]:
    day = (value.getYear(), value.getMonthValue(), value.getDayOfMonth())
    return *day, value.getHour(), value.getMinute(), value.getSecond(), value.getNano() // 1000


@cache
def _java() -> object:
    """The classes of a JVM that ends with this process."""
    jars = [jar for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar") if any(name in jar.name for name in _NEEDED)]
    (py4j,) = (jar for jar in jars if jar.name.startswith("py4j"))
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    path = ":".join(map(str, [*_iceberg_jars(), *jars]))
    port = launch_gateway(jarpath=str(py4j), classpath=path, javaopts=quick, die_on_exit=True)
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True)).jvm


def _iceberg_jars() -> list[Path]:
    """The test is skipped only if Maven's repository cannot be reached, or where Spark's tests may be skipped."""
    jars = PEERS["iceberg"].jars
    for why in provide(HOME, [], [jars]).values():
        unreachable = any(words in why for words in _UNREACHABLE)
        if unreachable or os.environ.get("LSMLAKE_REQUIRE_SPARK") != "1":
            pytest.skip(f"Iceberg's jar cannot be had: {why}")
        pytest.fail(f"Iceberg's jar cannot be had: {why}", pytrace=False)
    return jars_of(HOME, jars)
