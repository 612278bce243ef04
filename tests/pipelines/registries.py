"""Events in Avro beside Apicurio's registry, a server of its own, which also speaks the protocol of Confluent's.

    python -m tests.pipelines --registry

Each protocol registers the schemas of a table and gives them back: every message is read by fastavro with the schema that the
server has for its number, and by `lsmlake.cdc.decode`. With `confluent-kafka` installed, the deserializer of Confluent's own
client reads the messages of that protocol, too. A new column becomes a second version of a subject; a change that the rules of
the registry forbid is refused before the first event.
"""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fastavro

import lsmlake
from lsmlake import Table
from lsmlake.cdc import ChangeFormat
from lsmlake.errors import StorageFailed
from pipelines.databases import Missing, home, until_ready

_SERVER = "io.apicurio:apicurio-registry-app:3.0.9:tar.gz:all"
"""The last one that Java 17 runs."""
_PROTOCOLS = {"/apis/ccompat/v7": 4, "/apis/registry/v2": 8, "/apis/registry/v3": 4}
"""The path of each protocol -> the bytes of its numbers of schemas."""
_BY_NUMBER = {
    "/apis/ccompat/v7": "schemas/ids/{}",
    "/apis/registry/v2": "ids/globalIds/{}",
    "/apis/registry/v3": "ids/contentIds/{}",
}
_COLUMNS = "id BIGINT NOT NULL, name STRING, price DECIMAL(10,2), day DATE, at TIMESTAMP, data BINARY, tags ARRAY<STRING>"
_TIMES = {"day": "2026-01-31", "at": "2026-01-31 12:00:00"}
_ROW = {"id": 1, "name": "é", "price": "1.50", **_TIMES, "data": b"\xff", "tags": ["a", None]}


def prove(folder: Path) -> str:
    """What was seen. Raises AssertionError, and Missing without Java or the server."""
    told = []
    with _registry(folder) as address:
        lake = lsmlake.connect(folder / "lake")
        lake.create_database("d")
        for number, (path, size) in enumerate(_PROTOCOLS.items()):
            table = lake.create_table(f"d.t{number}", _COLUMNS, primary_key=["id"])
            told.append(f"{path}: {_proved(table, address, path, size)}")
    return "\n".join(told)


def _proved(table: Table, address: str, path: str, size: int) -> str:
    format = ChangeFormat("debezium-avro", registry=f"{address}{path}")
    table.upsert([_ROW], cast=True)
    table.upsert([{**_ROW, "name": None, "tags": None}], cast=True)
    table.delete_keys([{"id": 1}])
    found = _read(table, format, address, path, size)
    assert [one and one["op"] for one in found] == ["c", "u", "d", None], found
    assert (found[1]["before"]["name"], found[1]["after"]["name"]) == ("é", None)
    table.alter(lsmlake.add_column("note", "STRING"))
    table.upsert([{**_ROW, "note": "new"}], cast=True)
    (*_, last) = _read(table, format, address, path, size)
    assert last["after"]["note"] == "new"
    versions = _asked(f"{address}/apis/registry/v3/groups/default/artifacts/{table.name}-value/versions")["count"]
    rule = {"ruleType": "COMPATIBILITY", "config": "BACKWARD"}
    _asked(f"{address}/apis/registry/v3/groups/default/artifacts/{table.name}-value/rules", rule)
    table.alter(lsmlake.drop_column("note"), lsmlake.drop_column("name"), lsmlake.add_column("name", "BIGINT"))
    try:
        _read(table, format, address, path, size)
    except StorageFailed as refused:
        assert "refuses the schema" in str(refused), refused
    else:
        raise AssertionError("the registry took a schema that breaks its rule")
    return f"{len(found) + 1} messages, {versions} versions of the schema, a change of a type was refused"


def _read(table: Table, format: ChangeFormat, address: str, path: str, size: int) -> list[dict | None]:
    """The events of a table, which all readers see alike."""
    messages = [one["value"] for batch in table.follow(format=format, snapshot=1) for one in batch.to_pylist()]
    found = [message and _of_fastavro(message, address, path, size) for message in messages]
    if path == "/apis/ccompat/v7" and importlib.util.find_spec("confluent_kafka"):
        assert _of_confluent(messages, f"{address}{path}") == found
    rows = lsmlake.cdc.decode(messages, format, table.schema)
    assert rows.num_rows == len([one for one in found if one])
    newest = [one["after"] or one["before"] for one in found if one][-1]
    assert rows.to_pylist()[-1]["price"] == newest["price"]
    return found


def _of_fastavro(message: bytes, address: str, path: str, size: int) -> dict:
    number = int.from_bytes(message[1 : 1 + size], "big")
    schema = _asked(f"{address}{path}/{_BY_NUMBER[path].format(number)}")
    schema = json.loads(schema["schema"]) if "schema" in schema else schema
    return fastavro.schemaless_reader(io.BytesIO(message[1 + size :]), fastavro.parse_schema(schema))


def _of_confluent(messages: list[bytes | None], address: str) -> list[dict | None]:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    read = AvroDeserializer(SchemaRegistryClient({"url": address}))
    return [read(message, SerializationContext("t", MessageField.VALUE)) for message in messages]


# -- the server ---------------------------------------------------------------------------------------------------------


@contextmanager
def _registry(folder: Path) -> Iterator[str]:
    """The address of a registry in memory. Raises Missing."""
    copy = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={_SERVER}", f"-DoutputDirectory={folder / 'got'}"]
    if subprocess.run(copy, capture_output=True).returncode:
        raise Missing(f"{_SERVER} is not there")
    (archive,) = (folder / "got").iterdir()
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "server", filter="data")
    place = home(folder, "registry")
    settings = {"quarkus.http.port": place.port, "quarkus.http.host": "127.0.0.1"}
    java = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *(f"-D{name}={value}" for name, value in settings.items())]
    with (folder / "registry.log").open("w") as log:
        (program,) = (folder / "server").glob("*-runner.jar")
        process = subprocess.Popen([*java, "-jar", str(program)], stdout=log, stderr=log)
        address = f"http://127.0.0.1:{place.port}"
        try:
            until_ready(lambda: _ready(address))
            yield address
        finally:
            process.kill()
            process.wait()


def _ready(address: str) -> None:
    """Raises RuntimeError while the server does not answer."""
    try:
        _asked(f"{address}/apis/registry/v3/system/info")
    except OSError as early:
        raise RuntimeError("the registry does not answer") from early


def _asked(address: str, body: object = None) -> dict:
    """The answer to GET, or to POST with a body."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data, {"Content-Type": "application/json"})) as answer:
        text = answer.read()
        return json.loads(text) if text else {}
