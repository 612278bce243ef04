"""Publishes a table as an Iceberg table of format version 3, which names the data files of the table where they lie.

    metadata/v<k>.metadata.json     created if absent: this publishes. The newest KEPT files stay
    metadata/version-hint.text      a number as text: where to begin the search for the newest one
    metadata/snap-<n>-<id>.avro     the manifest list of snapshot n
    metadata/manifest-<id>.avro     a manifest, written once (`manifests`)
    metadata/dv-<n>-<id>.puffin     a deletion vector that snapshot n changed

1. Find the newest metadata file, the snapshots of the table that it lacks, and its snapshots that the table has no more. The
   first publication creates the hint before this step: from then on every deletion of files calls `bring_up_to_date` first, so no
   file is deleted that the publication is about to name. 2. For each new snapshot, oldest first, write its changes
   (`iceberg_view`) as vectors, entries and manifests. 3. Create the next metadata file. If another publisher came first, delete
   the written files and begin again. 4. Bring the catalog up to date, if the options of the table name one. 5. Delete the
   metadata files of snapshots that the metadata does not name any more. The table deletes data files after this.

If a file of the metadata is damaged or missing, all metadata is made anew, as the next metadata file. Files that only the damaged
metadata named are then orphans. A publication notices only damage in files that it reads; `iceberg.check` reads all files.

A vector of Iceberg names its data file by the full URI, and some readers take all vectors of a Puffin file, or the wrong one. So
the vectors of the table are copied, each to its own file, together with the delete rows of level 0.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from lsmlake.errors import Corrupt
from lsmlake.extras import need
from lsmlake.iceberg import published, table_metadata
from lsmlake.iceberg.catalog import register
from lsmlake.iceberg.catalog_backoff import waiting_for
from lsmlake.iceberg.entries import Point
from lsmlake.iceberg.iceberg_manifests import Manifest
from lsmlake.iceberg.iceberg_view import IcebergView
from lsmlake.iceberg.lineage import Line, lines_of
from lsmlake.iceberg.published import Newest, name_of, path_of, uri_of
from lsmlake.iceberg.snapshot_writer import Additions
from lsmlake.options.iceberg_options import IcebergOptions
from lsmlake.storage.concurrency import attempts
from lsmlake.tables.version import Metadata, Version

_log = logging.getLogger("lsmlake.iceberg")

_ATTEMPTS = 20


class Published(NamedTuple):
    """The result of a publication. `metadata_file`: the URI of the newest metadata file. `content`: its content. `snapshots`: how
    many snapshots this publication added."""

    metadata_file: str
    content: table_metadata.Metadata
    snapshots: int


def publish(meta: Metadata, *, whole: bool = True, asked: bool = False, anew: bool = False) -> Published:
    """Brings the Iceberg metadata up to date: all retained or tagged snapshots, and no others. Older snapshots that Iceberg
    cannot express are left out. Then brings the catalog in the table's options up to date; if that fails, the metadata stays
    published, and files that the catalog may name are not deleted.

    Args:
        meta: the table.
        whole: whether the newest snapshot must be published; False: it may be left out, too.
        asked: whether a user made the call; if so, the catalog may take longer, and is asked even if it failed lately.
        anew: makes all metadata anew, as if it were damaged.

    Raises:
        InvalidOption: the table has no deletion vectors.
        InvalidSchema: a column was widened in a way that Iceberg does not know, and files have its old type.
        MissingDependency: fastavro is not installed.
        CommitConflict: other publishers came first on every attempt.
        Corrupt, StorageFailed: metadata of the table is damaged, or cannot be read or written.
        As `catalog.register`: the catalog was not brought up to date.
    """
    failed = "other publishers of Iceberg metadata came first on every attempt"
    for _ in attempts(_ATTEMPTS, failed, meta.paths.iceberg(""), "run it again"):
        attempt = _Attempt(meta, whole, anew)
        try:
            publication = attempt.run()
        except Corrupt as failed:
            meta.files.delete_quietly(attempt.written)
            if anew or not published.is_of(meta, failed.where):
                raise
            anew = attempt.is_newest()  # otherwise another publisher has deleted the file
            if anew:
                _log.warning("%s: its Iceberg metadata is damaged, so all of it is made anew: %s", meta.paths.root, failed)
            continue
        except BaseException:
            meta.files.delete_quietly(attempt.written)
            raise
        if publication is not None:
            if attempt.options.catalog is not None:
                name = name_in_catalog(meta, attempt.options)
                with waiting_for(attempt.options.catalog, meta.env.clock, asked=asked) as seconds:
                    register(publication.metadata_file, publication.content, attempt.options.catalog, name, seconds)
            meta.files.delete_quietly(attempt.gone)
            if anew:
                published.delete_unreadable(meta)
            return publication
        meta.files.delete_quietly(attempt.written)


def bring_up_to_date(meta: Metadata) -> None:
    """Publishes, if the table was ever published; otherwise one request. Call this after snapshots or tags are removed and before
    their data files are deleted, so that readers of Iceberg miss no file. Raises as `publish`."""
    if published.is_published(meta):
        publish(meta.on(None), whole=False)


def name_in_catalog(meta: Metadata, options: IcebergOptions) -> str:
    """Namespace and name of a table in the catalog that its options name."""
    return options.table or meta.paths.table_name


@dataclass
class _Attempt:
    """One attempt to publish; `whole` and `anew` as in `publish`. `before`: the newest metadata file. `written`: the paths of the
    files that it wrote. `gone`: the paths of files that the newest metadata no longer needs. `options`: the options of the
    table."""

    meta: Metadata
    whole: bool
    anew: bool
    before: Newest | None = None
    written: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    options: IcebergOptions = field(default_factory=IcebergOptions)

    def run(self) -> Published | None:
        """Makes the attempt. Returns None if another publisher came first."""
        self.before = published.newest(self.meta)
        if self.before is None or self.anew:
            return self._run(None)
        with published.decoding(self.meta.paths.iceberg(name_of(self.before.number))):
            return self._run(published.content(self.meta, self.before.number))

    def is_newest(self) -> bool:
        """Whether the metadata that this attempt has found is still the newest."""
        newest = published.newest(self.meta)
        return newest is not None and self.before is not None and newest.number == self.before.number

    def _run(self, before: table_metadata.Metadata | None) -> Published | None:
        meta, old = self.meta, before
        version = Version.latest(meta)  # not before: the metadata must not go back to an older snapshot
        self.options = version.options.iceberg
        if self.whole:
            IcebergView.of(version)
        location = uri_of(meta, meta.paths.root)
        if self.before is None:
            need("fastavro", "Iceberg metadata")
            meta.env.storage.put_if_absent(meta.paths.iceberg(published.HINT), b"1")
        if old is None or old["location"] != location or not table_metadata.is_ours(old):  # renamed, moved, or changed by others
            old = table_metadata.first(meta.paths.table_uuid, location, meta.schemas.get(0), self.options.first_row_id)
        lines = lines_of(meta, version.schema, table_metadata.published(old))
        added = Additions(meta, old, self.put, self.whole)
        added.add(lines)
        content, made = added.content, added.made
        kept = {line.id_of(number) for line in lines for number in line.kept}
        ids = kept & {one["snapshot-id"] for one in (*content["snapshots"], *made)}
        if self.whole or version.number in ids:
            content, _ = table_metadata.with_schema(content, version.schema)
        if named := list(takewhile(lambda schema: schema.by_name, map(meta.schemas.get, range(version.schema.id + 1)))):
            content = table_metadata.with_names(content, named)
        current_id = max((number for number in ids if number <= version.number), default=None)
        content = table_metadata.with_snapshots(content, made, ids, current_id, added.next_row)
        tags = {name: id for line in lines for name, number in line.tags.items() if (id := line.id_of(number)) in ids}
        content = table_metadata.with_refs(content, tags, {line.name: id for line in lines[1:] if (id := _newest(line, ids))})
        if self.before is not None and content == before:
            if self.before.hint != self.before.number:
                self._write_hint(self.before.number)
            return self._published(self.before.number, content, 0)
        number = 1 if self.before is None else self.before.number + 1
        written = self._put(before, number, content)
        return None if written is None else self._published(number, written, len(made))

    def _published(self, number: int, content: table_metadata.Metadata, made: int) -> Published:
        return Published(uri_of(self.meta, self.meta.paths.iceberg(name_of(number))), content, made)

    def _put(
        self, before: table_metadata.Metadata | None, number: int, content: table_metadata.Metadata
    ) -> table_metadata.Metadata | None:
        """Creates a metadata file after `before`; returns its content, or None if another publisher came first."""
        meta = self.meta
        last = "" if before is None else uri_of(meta, meta.paths.iceberg(name_of(number - 1)))
        last_ms = 0 if before is None else before["last-updated-ms"]
        newest = max([last_ms, meta.env.clock(), *(one["timestamp-ms"] for one in content["snapshots"])])
        content = table_metadata.logged(content, last, last_ms, newest)
        gone = [] if before is None else self._unnamed(before, content)
        if number > table_metadata.KEPT:
            gone.append(meta.paths.iceberg(name_of(number - table_metadata.KEPT)))
        path = meta.paths.iceberg(name_of(number))
        written, self.written = self.written, []  # after a failure the metadata file may be there and name them
        if not meta.env.storage.put_if_absent(path, json.dumps(content).encode()):
            self.written = written
            return None
        self._write_hint(number)
        self.gone = gone
        return content

    def _write_hint(self, number: int) -> None:
        with self.meta.env.storage.write(self.meta.paths.iceberg(published.HINT)) as sink:
            sink.write(str(number).encode())

    def _unnamed(self, before: table_metadata.Metadata, after: table_metadata.Metadata) -> list[str]:
        """The paths of the files that only snapshots no longer in the metadata need."""
        stay = {one["manifest-list"] for one in after["snapshots"]}
        gone = [one for one in table_metadata.ours(before) if one["manifest-list"] not in stay]
        if not gone:
            return []
        kept = published.manifests_by_uri(self.meta, after["snapshots"])
        lost: dict[str, Manifest] = {}
        vectors: dict[str, Point] = {}
        for one in gone:
            with suppress(Corrupt):  # what it names is orphans
                manifests = published.manifests_by_uri(self.meta, [one])
                lost |= {uri: manifest for uri, manifest in manifests.items() if uri not in kept}
        for manifest in lost.values():
            with suppress(Corrupt):
                vectors |= published.vectors_of(self.meta, manifest)
        for manifest in kept.values():
            if any(manifest.span.has(point) for point in vectors.values()):
                for uri, _ in published.vectors_of(self.meta, manifest):
                    vectors.pop(uri, None)
        return [path_of(self.meta, uri) for uri in (*(one["manifest-list"] for one in gone), *lost, *vectors)]

    def put(self, name: str, data: bytes) -> str:
        """Writes a file of the metadata; returns its URI."""
        path = self.meta.paths.iceberg(name)
        self.written.append(path)
        self.meta.files.write(path, data)
        return uri_of(self.meta, path)


def _newest(line: Line, ids: Collection[int]) -> int | None:
    """The id of the newest snapshot of a branch in the metadata; None if the metadata has none."""
    numbers = [number for number in line.kept if line.id_of(number) in ids]
    return line.id_of(max(numbers)) if numbers else line.begins if line.begins in ids else None
