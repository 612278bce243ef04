"""Finds the metadata file of an Iceberg table, and reads it.

- The file is named itself, or a catalog names it: that is the table.
- A folder tells it only by `version-hint.text`, which tables without a catalog have. There the file of the next number is the
  next commit: writers create it if it is absent, and update the hint afterwards, or die before they do.
- In a folder of a catalog's table, any file may be one that a writer prepared and the catalog never took. Which one is the table
  is not to be seen, and the newest file is taken only on request.

Source: the specification of Apache Iceberg, "File System Tables" and "Metastore Tables".
"""

from __future__ import annotations

import gzip
import json
import re

from lsmlake.errors import Corrupt, InvalidQuery, UnsupportedFormat, Wording
from lsmlake.iceberg.catalog import metadata_file
from lsmlake.storage.location import Outside, joined
from lsmlake.storage.storage import Entry

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
    found = _NUMBER.match(name)
    return int(found[1]) if found else 0


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
    commits = {int(found[1]): name for name in names if (found := _OF_COMMIT.fullmatch(name))}
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
    found = metadata_file(catalog, name)
    if found is None:
        raise InvalidQuery("the catalog has no such table", where=table, expected=_FORMS, cure="correct the name")
    return found


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
