"""Finds the metadata file of an Iceberg table, and reads it; and reads the manifests that it names, of any writer, format
versions 1 to 3.

- If the user or a catalog names the file, that file is the table.
- A folder names its file only in `version-hint.text`, which tables without a catalog have. There the file of the next number is
  the next commit: writers create it if it is absent, and update the hint afterwards, or die before they do.
- In a folder of a catalog's table, any file may be one that a writer prepared and the catalog never took. The folder does not
  show which file is the table, and the newest file is taken only on request.

The fields of manifests are found by their ids, because writers may name them otherwise; a record has them under the names of the
specification (`iceberg.avro`).

Source: the specification of Apache Iceberg, "File System Tables", "Metastore Tables", "Manifests" and "Manifest Lists".
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lsmlake.errors import Corrupt, InvalidQuery, UnsupportedFormat, Wording
from lsmlake.extras import need
from lsmlake.iceberg.avro import NAMES
from lsmlake.iceberg.catalog import metadata_file
from lsmlake.storage.location import Outside, joined
from lsmlake.storage.storage import Entry
from lsmlake.types.type_table import TABLE

_FILE = re.compile(r".*\.metadata\.json(\.gz)?")
_NUMBER = re.compile(r"v?([0-9]{1,18})[.-]")
_OF_COMMIT = re.compile(r"v([0-9]{1,18})(\.gz)?\.metadata\.json(\.gz)?")
_IDENTIFIER = re.compile(r"[\w-]+(\.[\w-]+){2,}")
_HINT = "version-hint.text"
_NEWEST_VERSION = 3
_FORMS = "the path or address of a *.metadata.json file or of a table folder, or catalog.namespace.table"
_NAME_IT = "name the table as catalog.namespace.table, or the metadata file that its catalog names"
_CURE = Wording(
    f"{_NAME_IT}; newest=True takes the newest file, whether a catalog has it or not",
    command=f"{_NAME_IT}; --newest takes the newest file, whether a catalog has it or not",
    sql=f"{_NAME_IT}; newest => true takes the newest file, whether a catalog has it or not",
)
_LEAVE_OUT = Wording("leave newest=True out", command="leave --newest out", sql="leave newest out")


def metadata_of(outside: Outside, table: str, newest: bool) -> tuple[str, dict]:
    """The address and the content of the metadata file of a table. `table`, `newest`: as in `Lake.import_iceberg`.

    Raises:
        InvalidQuery: there is no such table, or the folder does not tell which file is its metadata.
        Corrupt, UnsupportedFormat: the metadata is damaged, or newer.
        MissingDependency, StorageFailed: the catalog cannot be asked, or the file not be read.
    """
    uri = _place(outside, table, newest)
    return uri, _read(outside, uri)


def _place(outside: Outside, table: str, newest: bool) -> str:
    folder = joined(table, "metadata")
    listed = [] if _FILE.fullmatch(table) else [entry for entry in outside.list(folder) if _FILE.fullmatch(entry.path)]
    if listed:
        names = [entry.path for entry in listed]
        return joined(folder, _newest(listed) if newest else _hinted(outside, table, names, _newest(listed)))
    if not _FILE.fullmatch(table) and not _IDENTIFIER.fullmatch(table):
        raise InvalidQuery("no Iceberg metadata found", where=table, expected=_FORMS, cure="correct the path")
    if newest:
        what = "the newest metadata file is chosen in the folder of a table only"
        raise InvalidQuery(what, where=table, expected="a folder with metadata files", cure=_LEAVE_OUT)
    return table if _FILE.fullmatch(table) else _in_catalog(table)


def _newest(listed: list[Entry]) -> str:
    return max(listed, key=lambda entry: (_number(entry.path), entry.modified_ms)).path


def _number(name: str) -> int:
    match = _NUMBER.match(name)
    return int(match[1]) if match else 0


def _hinted(outside: Outside, table: str, names: list[str], newest: str) -> str:
    """The file that the hint names, or that of a later commit. `newest`: for messages."""
    try:
        hint = outside.read(joined(table, f"metadata/{_HINT}")).decode(errors="replace").strip()
    except FileNotFoundError as missing:
        raise InvalidQuery(
            "the folder does not tell which of its metadata files is the table",
            where=table,
            expected=f"metadata/{_HINT}, which tables without a catalog have",
            found=f"{len(names):,} metadata files, the newest of them {newest}",
            cure=_CURE,
        ) from missing
    commits = {int(match[1]): name for name in names if (match := _OF_COMMIT.fullmatch(name))}
    if hint.isascii() and hint.isdigit() and (number := int(hint)) in commits:
        while number + 1 in commits:
            number += 1
        return commits[number]
    for name in names:
        if hint and name.removesuffix(".gz").removesuffix(".metadata.json").removesuffix(".gz") in (hint, f"v{hint}"):
            return name
    raise InvalidQuery(
        f"{_HINT} names no metadata file of the folder",
        where=table,
        expected=f"such as {newest}",
        found=hint[:80],
        cure=_CURE,
    )


def _in_catalog(table: str) -> str:
    """The metadata file of catalog.namespace.table, by the configuration of PyIceberg."""
    catalog, _, name = table.partition(".")
    uri = metadata_file(catalog, name)
    if uri is None:
        raise InvalidQuery("the catalog has no such table", where=table, expected=_FORMS, cure="correct the name")
    return uri


def _read(outside: Outside, uri: str) -> dict:
    try:
        data = outside.read(uri)
    except FileNotFoundError as missing:
        raise InvalidQuery("no Iceberg metadata found", where=uri, expected=_FORMS, cure="correct the path") from missing
    try:
        content = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        version = content["format-version"]
    except (ValueError, OSError, EOFError, KeyError, TypeError) as broken:
        raise Corrupt(
            "Iceberg metadata cannot be read",
            where=uri,
            expected="a metadata file of Iceberg in JSON",
            found=repr(broken)[:200],
            cure="name another metadata file of the table",
        ) from broken
    if version not in range(1, _NEWEST_VERSION + 1):
        raise UnsupportedFormat(
            "the table has another format version of Iceberg",
            where=uri,
            expected=f"1 to {_NEWEST_VERSION}",
            found=version,
            cure="upgrade lsmlake",
        )
    return content


# -- manifests --------------------------------------------------------------------------------------------------------


Record = dict[Any, Any]
"""Name -> value; of a record of partition values, field id -> value. A field that the writer left out is missing. Dates and times
are numbers, as stored."""
_TIMES = {row.avro["logicalType"] for row in TABLE if row.iso is not None} | {"local-timestamp-micros"}
"""Logical types, some values of which Python lacks."""

_PARTITION = "partition"
"""The record of partition values, whose fields are those of a partition spec."""
_HEADER = {
    "type": "record",
    "name": "header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
}
"""The beginning of an Avro file, by its specification."""
_DAMAGED = "the file is damaged: restore it, or choose another snapshot of the table"


def records(data: bytes, where: str) -> Iterator[Record]:
    """The records of a manifest or manifest list. Raises Corrupt naming `where`."""
    fastavro = need("fastavro", "import_iceberg")
    try:
        file = io.BytesIO(data)
        header = fastavro.schemaless_reader(file, _HEADER, None)
        schema = json.loads(header["meta"]["avro.schema"])
        types: dict[str, dict] = {}
        _collect(schema, types)
        header["meta"]["avro.schema"] = json.dumps(schema).encode()
        whole = io.BytesIO()
        fastavro.schemaless_writer(whole, _HEADER, header)
        whole.write(file.read())
        whole.seek(0)
        yield from map(_reader(schema, types), fastavro.reader(whole))
    except Exception as broken:  # of many kinds
        raise Corrupt("a manifest of Iceberg cannot be read", where=where, found=repr(broken), cure=_DAMAGED) from broken


def _collect(schema: object, types: dict[str, dict]) -> None:
    """Collects the types with names, which Avro repeats by name, and makes numbers of dates and times.

    PyIceberg defines some names again, such as `decimal_9_2` for each partition column of this type, which Avro forbids: these
    types get names of their own."""
    if isinstance(schema, list):
        for one in schema:
            _collect(one, types)
    elif isinstance(schema, dict):
        if "name" in schema and "type" in schema and schema["type"] in ("record", "fixed", "enum"):
            if schema["name"] in types:
                schema["name"] += f"_{len(types)}"
            types[schema["name"]] = schema
        if schema.get("logicalType") in _TIMES:
            del schema["logicalType"]
        for one in schema.get("fields", ()):
            _collect(one["type"], types)
        for inner in ("items", "values"):
            _collect(schema.get(inner), types)
        if isinstance(schema.get("type"), (dict, list)):
            _collect(schema["type"], types)


def _reader(schema: object, types: Mapping[str, Mapping], *, named: bool = True) -> Callable[[Any], Any]:
    """A function that gives the records in a value the names of the specification or, unless `named`, field ids as keys. Fields
    that this release does not know are left out."""
    if isinstance(schema, str):
        schema = types.get(schema, schema)
    if isinstance(schema, list):
        return _reader(next(one for one in schema if one != "null"), types, named=named)
    if isinstance(schema, Mapping) and schema["type"] == "record":
        fields = [(field, field["field-id"]) for field in schema["fields"] if "field-id" in field]
        known = [(field, NAMES[id] if named else id) for field, id in fields if not named or id in NAMES]
        parts = [(field["name"], key, _reader(field["type"], types, named=named and key != _PARTITION)) for field, key in known]
        return lambda record: record and {key: read(record[name]) for name, key, read in parts}
    if isinstance(schema, Mapping) and schema["type"] == "array":
        inner = _reader(schema["items"], types, named=named)
        return lambda values: values and list(map(inner, values))
    return lambda value: value
