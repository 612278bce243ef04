"""Reads the manifest lists, manifests and vectors of Iceberg metadata for `iceberg.check`, each file once, and checks each file
by itself: its length, the numbers and bounds in the manifest list, the content of its entries."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from lsmlake.errors import Corrupt, LakeError
from lsmlake.format import puffin
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.iceberg import avro
from lsmlake.iceberg.avro import ADDED, CURE, DATA, DELETED, EXISTING
from lsmlake.iceberg.entries import Entry, decode, key_of
from lsmlake.iceberg.published import decoding, path_of
from lsmlake.storage.storage import read_bytes
from lsmlake.tables.finding import Finding, finding
from lsmlake.tables.version import Metadata
from lsmlake.types.type_table import number_of

_STATUSES = {"added_files_count": ADDED, "existing_files_count": EXISTING, "deleted_files_count": DELETED}


_HEADER = "content", "partition-spec-id", "format-version"


class PlacedFile(NamedTuple):
    """An entry, the id of its partition spec, and the path of its manifest."""

    entry: Entry
    spec: int
    path: str


class PublishedFiles:
    """The manifest lists and manifests of published metadata. Calls `progress` with each file that it reads."""

    def __init__(self, meta: Metadata, progress: Callable[[str], None]) -> None:
        self.meta, self.progress = meta, progress
        self.lists: dict[str, list[Mapping]] = {}
        self.manifests: dict[str, tuple[list[PlacedFile], list[Finding]]] = {}

    def listed(self, uri: str) -> list[Mapping]:
        """The records of a manifest list. Raises Corrupt."""
        if uri not in self.lists:
            path = path_of(self.meta, uri)
            self.progress(path)
            with decoding(path):
                records, header = avro.read(content_of(self.meta, path), path)
                _check_fields(header, path)
                self.lists[uri] = records
        return self.lists[uri]

    def manifest(self, record: Mapping) -> tuple[list[PlacedFile], list[Finding]]:
        """The live entries of a manifest, and the findings about it."""
        uri = record["manifest_path"]
        if uri not in self.manifests:
            path = path_of(self.meta, uri)
            self.progress(path)
            placed: list[PlacedFile] = []
            self.manifests[uri] = placed, [*guarded(path, partial(self._read, record, path, placed))]
        return self.manifests[uri]

    def _read(self, record: Mapping, path: str, placed: list[PlacedFile]) -> Iterator[Finding]:
        data = content_of(self.meta, path)
        if len(data) != record["manifest_length"]:
            yield damage(path, "a manifest has another length", record["manifest_length"], len(data))
            return
        every, spec, header = decode(data, path), record["partition_spec_id"], avro.header_of(data)
        _check_fields(header, path)
        expected = ("deletes" if record["content"] else "data", str(spec), avro.VERSION)
        if (actual := tuple(header[name] for name in _HEADER)) != expected:
            yield damage(path, "the header of a manifest is wrong", expected, actual)
        placed += [PlacedFile(entry, spec, path) for entry in every if entry["status"] != DELETED]
        counted = {name: sum(one["status"] == status for one in every) for name, status in _STATUSES.items()}
        if counted != (listed := {name: record[name] for name in _STATUSES}):
            yield damage(path, "the manifest list has other numbers of files", listed, counted)
        least = min((one.entry["sequence_number"] for one in placed), default=record["min_sequence_number"])
        if record["min_sequence_number"] > least:
            yield damage(path, "the least sequence number of a manifest is wrong", record["min_sequence_number"], least)
        if wrong := [one for one in every if (one["data_file"]["content"] != DATA) != bool(record["content"])]:
            yield damage(path, "a manifest has entries of another content", record["content"], key_of(wrong[0]))
        partitions = [tuple(map(number_of, one["data_file"]["partition"].values())) for one in every]
        for place, summary in enumerate(record["partitions"] or ()):
            values = {values[place] for values in partitions}
            if outside := [value for value in values if not _covers(summary, value)]:
                yield damage(path, "the manifest list gives a partition field other bounds", f"{outside[0]!r} within", summary)


def _check_fields(header: Mapping[str, str], path: str) -> None:
    """Raises Corrupt if a field has a wrong id: readers find fields by id."""
    if unknown := avro.unknown_fields(header):
        raise Corrupt("Iceberg metadata has a field with another id", where=path, found=unknown[0], cure=CURE)


def guarded(where: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a check; an error is one, too. `where`: the file, if the error names none."""
    try:
        with decoding(where):
            yield from check()
    except LakeError as broken:
        yield finding(where, broken)


def read_vectors(meta: Metadata, path: str) -> tuple[bytes, Mapping[str, puffin.Blob], Mapping[str, DeletionVector]]:
    """A Puffin file: its bytes, its footer, and its vectors by the URI of the data file."""
    data = content_of(meta, path)
    try:
        return data, puffin.decode_footer(data, path), puffin.decode(data, path)
    except Corrupt as broken:
        raise Corrupt(broken.what, where=path, expected=broken.expected, found=broken.found, cure=CURE) from broken


def content_of(meta: Metadata, path: str) -> bytes:
    """The content of a file. Raises Corrupt if it is missing."""
    try:
        return read_bytes(meta.env.storage, path)
    except FileNotFoundError as missing:
        raise Corrupt("Iceberg metadata is missing", where=path, expected="a file", found="none", cure=CURE) from missing


def damage(where: str, what: str, expected: object, found: object) -> Finding:
    """A finding about a file, with the cure. Not an error, so that the check can continue."""
    return finding(where, Corrupt(what, where=where, expected=expected, found=found, cure=CURE))


def _covers(summary: Mapping, value: object) -> bool:
    """Whether a summary of a partition field has a value."""
    if value is None:
        return summary["contains_null"]
    low, high = summary["lower_bound"], summary["upper_bound"]
    return low is not None and high is not None and _decoded(low, value) <= value <= _decoded(high, value)


def _decoded(bound: bytes, like: object) -> object:
    """Decodes a bound as a value of the type of `like`."""
    if isinstance(like, Decimal):
        return Decimal(int.from_bytes(bound, "big", signed=True)).scaleb(like.as_tuple().exponent)
    if isinstance(like, float):
        return struct.unpack("<f" if len(bound) == 4 else "<d", bound)[0]
    if isinstance(like, int):  # or a boolean
        return int.from_bytes(bound, "little", signed=True)
    return bound.decode() if isinstance(like, str) else bound
