"""Reads the published metadata: the newest metadata file of a table, and the manifest lists, manifests and vectors that it
names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from lsmlake.errors import Corrupt, LakeError
from lsmlake.iceberg import entries
from lsmlake.iceberg.avro import CURE, DELETED, POSITION_DELETES
from lsmlake.iceberg.entries import Entry, Point
from lsmlake.iceberg.iceberg_manifests import Manifest, SnapshotManifests
from lsmlake.iceberg.table_metadata import KEPT, Metadata, ours
from lsmlake.storage.storage import read_bytes
from lsmlake.tables.version import Metadata as TableMetadata

HINT = "version-hint.text"
_FILE = re.compile(r"v([1-9][0-9]{0,17})\.metadata\.json")
_OWN = re.compile(r"version-hint\.text|v\d+\.metadata\.json|(snap-\d+|manifest)-[^-/]+\.avro|dv-\d+-[^-/]+\.puffin")
"""The names of the files that publications write."""


class Newest(NamedTuple):
    """The number of the newest metadata file, and the number in the hint; None if there is no hint or it is not a number."""

    number: int
    hint: int | None


class Current(NamedTuple):
    """The newest metadata file."""

    number: int
    content: Metadata


def is_published(meta: TableMetadata) -> bool:
    """Whether the table has Iceberg metadata, or a first publication has begun. One request."""
    return next(iter(meta.env.storage.list(meta.paths.iceberg("")[:-1])), None) is not None


def newest(meta: TableMetadata) -> Newest | None:
    """The number of the newest metadata file, and the hint; None if there is no metadata file."""
    storage, hinted = meta.env.storage, hint(meta)
    number = hinted
    if number is None or storage.size(meta.paths.iceberg(name_of(number))) is None:
        number = max(numbers(meta), default=None)
        if number is None:
            return None
    while storage.size(meta.paths.iceberg(name_of(number + 1))) is not None:
        number += 1
    return Newest(number, hinted)


def current(meta: TableMetadata) -> Current | None:
    """The newest Iceberg metadata; None if the table has none. Raises Corrupt."""
    hint = newest(meta)
    return None if hint is None else Current(hint.number, content(meta, hint.number))


def name_of(number: int) -> str:
    """The name of a metadata file."""
    return f"v{number}.metadata.json"


def numbers(meta: TableMetadata) -> list[int]:
    """The numbers of the metadata files. One listing."""
    listed = (_FILE.fullmatch(entry.path.rpartition("/")[2]) for entry in meta.env.storage.list(meta.paths.iceberg("")[:-1]))
    return sorted(int(match[1]) for match in listed if match)


def content(meta: TableMetadata, number: int) -> Metadata:
    """A metadata file. Raises Corrupt."""
    path = meta.paths.iceberg(name_of(number))
    with decoding(path):
        return dict(json.loads(_read(meta, path)))


def delete_unreadable(meta: TableMetadata) -> None:
    """Deletes the metadata files that cannot be read."""
    for number in numbers(meta):
        try:
            content(meta, number)
        except Corrupt:
            meta.files.delete_quietly([meta.paths.iceberg(name_of(number))])


@contextmanager
def decoding(where: str) -> Iterator[None]:
    """Turns the errors of a malformed file into Corrupt."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as broken:
        if isinstance(broken, LakeError):
            raise
        raise Corrupt("Iceberg metadata is malformed", where=where, found=repr(broken), cure=CURE) from broken


def uri_of(meta: TableMetadata, path: str) -> str:
    """The address of a file in Iceberg metadata."""
    return meta.env.storage.url(path)


def path_of(meta: TableMetadata, uri: str) -> str:
    """The path of a file of the metadata."""
    return meta.paths.iceberg(uri.rpartition("/")[2])


def is_of(meta: TableMetadata, path: str) -> bool:
    """Whether this is the path of a file of the metadata."""
    return path.startswith(meta.paths.iceberg(""))


def is_of_others(meta: TableMetadata, path: str) -> bool:
    """Whether another program has written this file into the folder of the metadata."""
    return is_of(meta, path) and _OWN.fullmatch(path.removeprefix(meta.paths.iceberg(""))) is None


def manifests_of(meta: TableMetadata, snapshot: Mapping) -> SnapshotManifests:
    """The manifests of a snapshot of the metadata. Raises Corrupt."""
    path = path_of(meta, snapshot["manifest-list"])
    return meta.files.cache.get(path, lambda: SnapshotManifests.decode(_read(meta, path), path), list_bytes)


def entries_of(meta: TableMetadata, uri: str) -> list[Entry]:
    """The entries of a manifest. Raises Corrupt."""
    path = path_of(meta, uri)
    return meta.files.cache.get(path, lambda: entries.decode(_read(meta, path), path), manifest_bytes)


def manifests_by_uri(meta: TableMetadata, snapshots: Iterable[Mapping]) -> dict[str, Manifest]:
    """URI -> manifest of each of the snapshots."""
    return {one.record["manifest_path"]: one for each in snapshots for one in manifests_of(meta, each).listed}


def vectors_of(meta: TableMetadata, manifest: Manifest) -> list[tuple[str, Point]]:
    """The URI of the data file and the point of each live vector of a manifest."""
    entries = entries_of(meta, manifest.record["manifest_path"]) if manifest.has_deletes else []
    return [
        (entry["data_file"]["file_path"], entry["point"])
        for entry in entries
        if entry["status"] != DELETED and entry["data_file"]["content"] == POSITION_DELETES
    ]


class KeptMetadata:
    """The files of the folder `metadata` that stay: the newest metadata files, and the files that they name. Reads each file
    once."""

    def __init__(self, meta: TableMetadata) -> None:
        self.meta = meta
        self._read: set[str] = set()

    def new(self) -> list[str]:
        """The paths of the files found since the last call. Older metadata may be damaged, and files that only it names may be
        missing. Raises Corrupt."""
        last = current(self.meta)
        if last is None or not self._is_new(name_of(last.number)):
            return []
        paths = [self.meta.paths.iceberg(name_of(last.number))]
        with decoding(paths[0]):
            for snapshot in ours(last.content):
                paths += self._of_snapshot(snapshot)
        for number in numbers(self.meta):
            if last.number - KEPT < number < last.number and self._is_new(name_of(number)):
                paths += self._of_older(number)
        return paths

    def _of_older(self, number: int) -> list[str]:
        paths = [self.meta.paths.iceberg(name_of(number))]
        with suppress(Corrupt), decoding(paths[0]):
            for snapshot in ours(content(self.meta, number)):
                with suppress(Corrupt):
                    paths += self._of_snapshot(snapshot)
        return paths

    def _of_snapshot(self, snapshot: Mapping) -> Iterator[str]:
        if not self._is_new(snapshot["manifest-list"]):
            return
        yield path_of(self.meta, snapshot["manifest-list"])
        for one in manifests_of(self.meta, snapshot).listed:
            if self._is_new(one.record["manifest_path"]):
                yield path_of(self.meta, one.record["manifest_path"])
                yield from (path_of(self.meta, uri) for uri, _ in vectors_of(self.meta, one))

    def _is_new(self, name: str) -> bool:
        if name in self._read:
            return False
        self._read.add(name)
        return True


def hint(meta: TableMetadata) -> int | None:
    """The number in the hint; None if there is no hint or it is not a number."""
    try:
        text = read_bytes(meta.env.storage, meta.paths.iceberg(HINT))
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() and len(text) < 19 else None


def _read(meta: TableMetadata, path: str) -> bytes:
    try:
        return read_bytes(meta.env.storage, path)
    except FileNotFoundError as missing:
        raise Corrupt("Iceberg metadata is missing", where=path, cure=CURE) from missing


def list_bytes(manifests: SnapshotManifests) -> int:
    return 2048 * (1 + len(manifests.listed))


def manifest_bytes(entries: list[Entry]) -> int:
    return 4096 * (1 + len(entries))
