"""The manifests of a table, their lists and the index of its vectors: the files of each snapshot, as entries."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.format import deletion_vector, manifest
from lsmlake.format.data_files import Bucket, BucketState
from lsmlake.format.deletion_vector import IndexManifest, VectorIndex
from lsmlake.format.manifest import ManifestMeta, in_groups
from lsmlake.format.manifest_codec import Content, content, decode_under, encode
from lsmlake.format.snapshot import NamedFile, Snapshot
from lsmlake.lsm.cover import Cover, Covers, Share
from lsmlake.schema.schema import Schema
from lsmlake.storage.concurrency import ahead, side_by_side
from lsmlake.tables import live as live_set
from lsmlake.tables.live import Index, Live, Selection
from lsmlake.tables.table_files import TableFiles


@dataclass(frozen=True)
class Manifests:
    files: TableFiles

    def metas(self, snapshot: Snapshot) -> tuple[ManifestMeta, ...]:
        """All manifests of the snapshot, in commit order."""
        named = snapshot.base_manifest_list, snapshot.delta_manifest_list
        metas = side_by_side([partial(self.listed, one) for one in named], self.files.env.storage.at_once)
        return tuple(chain.from_iterable(metas))

    def listed(self, named: NamedFile | None) -> tuple[ManifestMeta, ...]:
        """The manifests of a manifest list."""
        if named is None:
            return ()
        path = self.files.paths.manifest(named.name)
        return self.files.cache.get(path, lambda: manifest.decode_list(self.files.read(path, named.bytes), path))

    def entries(self, meta: ManifestMeta, schema: Schema) -> pa.Table:
        """The entries of a manifest, with inherited sequences and the columns of `schema`. A manifest is checked once, then
        cached for all schemas with the same columns."""
        return next(self.entries_of([meta], schema))

    def entries_of(self, metas: Iterable[ManifestMeta], schema: Schema) -> Iterator[pa.Table]:
        """Yields the entries of each manifest. Small manifests are decoded together, while the next ones are read."""
        metas = list(metas)
        known = [self.files.cache.known(self._key(meta.name, schema)) for meta in metas]
        missing = [meta for meta, table in zip(metas, known, strict=True) if table is None]
        if not missing:
            yield from map(live_set.inherit, known, (meta.sequence for meta in metas))
            return
        workers = max(self.files.env.workers, self.files.env.storage.at_once)
        with closing(ahead(map(self._content, missing), workers)) as contents:
            for group in in_groups(metas, _TOGETHER):
                tables, known = known[: len(group)], known[len(group) :]
                places = [place for place, table in enumerate(tables) if table is None]
                for place, table in zip(places, decode_under(list(islice(contents, len(places))), schema), strict=True):
                    tables[place] = table
                    self.files.cache.put(self._key(group[place].name, schema), table)
                yield from map(live_set.inherit, tables, (meta.sequence for meta in group))
                tables.clear()  # the caller may need none of them any more

    def _key(self, name: str, schema: Schema) -> tuple[object, ...]:
        return self.files.paths.manifest(name), schema.types_by_id

    def _content(self, meta: ManifestMeta) -> Generator[Content]:
        path = self.files.paths.manifest(meta.name)
        yield content(self.files.read(path, meta.bytes), path)

    def delta(self, snapshot: Snapshot, schema: Schema) -> pa.Table:
        """The entries that the snapshot itself added, in order."""
        return manifest.concat(self.entries_of(self.listed(snapshot.delta_manifest_list), schema), schema)

    def changelog(self, snapshot: Snapshot, schema: Schema) -> pa.Table:
        """The entries of the snapshot's own changelog files."""
        return manifest.concat(self.entries_of(self.listed(snapshot.changelog_manifest_list), schema), schema)

    def live(self, snapshot: Snapshot, schema: Schema, selection: Selection | None = None) -> pa.Table:
        """The live files of the snapshot, as entries of `format.manifest`; with a selection, only the files that it needs.

        A selection opens only the manifests that can hold its files, unless all files of the snapshot are in memory. All live
        files of the newest snapshot are kept, and a later snapshot adds its new entries to them; the live files of older
        snapshots are cached.
        """
        cache = self.files.cache
        if self.files.env.storage.at_once > 1:
            self.load(snapshot)
        if cache.newest is not None and snapshot.id < cache.newest.number:
            key = self.files.paths.manifest(snapshot.delta_manifest_list.name), "live", schema.types_by_id
            known: pa.Table | None = cache.known(key)
            if known is None and (pruned := self._pruned(snapshot, schema, selection)) is not None:
                return pruned
            known = cache.get(key, lambda: live_set.fold(self.entries_of(self.metas(snapshot), schema), schema))
            return known if selection is None else selection.of(known)
        live = self._continued(snapshot, schema)
        if live is None:
            if (pruned := self._pruned(snapshot, schema, selection)) is not None:
                return pruned
            metas = self.metas(snapshot)
            live = Live(snapshot.id, schema.types_by_id, metas, live_set.fold(self.entries_of(metas, schema), schema))
        if selection is None:
            live = live.all(schema)
        cache.newest = live
        return live.files if selection is None else live.select(selection, schema)

    def load(self, snapshot: Snapshot) -> None:
        """Reads the manifest lists and the index of vectors at once; both are cached."""
        index = [] if snapshot.index_manifest is None else [partial(self.index, snapshot.index_manifest)]
        side_by_side([partial(self.metas, snapshot), *index], self.files.env.storage.at_once)

    def _continued(self, snapshot: Snapshot, schema: Schema) -> Live | None:
        """The live files of the newest snapshot, computed from the live files in memory and later entries. None if entries
        between them are unknown."""
        newest = self.files.cache.newest
        if newest is None or newest.types_by_id != schema.types_by_id:
            return None
        if newest.number == snapshot.id:
            return newest
        metas = self.metas(snapshot)
        if newest.number == snapshot.id - 1 and snapshot.restores is None:  # older manifests may be merged, but mean the same
            added: Sequence[ManifestMeta] = self.listed(snapshot.delta_manifest_list)
        elif newest.metas == metas[: len(newest.metas)]:
            added = metas[len(newest.metas) :]
        else:
            return None
        return newest.after(snapshot.id, metas, list(self.entries_of(added, schema)), schema)

    def _pruned(self, snapshot: Snapshot, schema: Schema, selection: Selection | None) -> pa.Table | None:
        """The files of a selection, from some of the manifests. None if it needs all of them."""
        opened = self.opened(snapshot, selection)
        if selection is None or len(opened) == len(self.metas(snapshot)):
            return None
        return live_set.fold(map(selection.of, self.entries_of(opened, schema)), schema)

    def opened(self, snapshot: Snapshot, selection: Selection | None) -> list[ManifestMeta]:
        """The manifests that may have entries of a selection."""
        metas = self.metas(snapshot)
        if selection is None:
            return list(metas)
        opened = selection.manifests(metas, self.files.paths.manifest(snapshot.base_manifest_list.name))
        return [meta for meta, kept in zip(metas, opened, strict=True) if kept]

    def holds(self, snapshot: Snapshot, schema: Schema) -> bool:
        """Whether the live files of the snapshot are in memory."""
        newest = self.files.cache.newest
        return newest is not None and newest.number == snapshot.id and newest.types_by_id == schema.types_by_id

    def states(
        self, snapshot: Snapshot, schema: Schema, buckets: Iterable[Bucket] | None = None, *, statistics: bool = True
    ) -> dict[Bucket, BucketState]:
        """The states of the `buckets` (default: all) that have files in the snapshot."""
        wanted = None if buckets is None else set(buckets)
        table = self.live(snapshot, schema, None if wanted is None else _of_buckets(wanted, schema))
        states = manifest.states(table, self.vector_refs(snapshot), schema, statistics=statistics)
        return states if wanted is None else {bucket: state for bucket, state in states.items() if bucket in wanted}

    def covers(self, snapshot: Snapshot | None, schema: Schema) -> Covers:
        """The buckets of each partition; cached. Reads only the manifest lists if all files have the bucket total of new
        partitions."""
        first = schema.parsed_options.layout.first_buckets
        if snapshot is None or not schema.bucket_key or all(meta.total_buckets == first for meta in self.metas(snapshot)):
            return _equal_covers(first)
        where = self.files.paths.manifest(snapshot.delta_manifest_list.name)
        return self.files.cache.get(
            (where, "covers", schema.types_by_id, first),
            lambda: Covers(first, _covers_of(self.live(snapshot, schema), schema, first, where)),
            lambda covers: sum(_COVER_BYTES + 4 * cover.slots for cover in covers.by_partition.values()),
        )

    def put(self, table: pa.Table, schema: Schema, sequence: int) -> ManifestMeta:
        """Writes a manifest. `table`: its entries, with the columns of `schema`."""
        data = encode(table)
        name = self.files.write_new("manifest", data).name
        self.files.cache.put(self._key(name, schema), table)
        return manifest.describe(name, data, table, schema, sequence)

    def put_list(self, metas: Sequence[ManifestMeta]) -> NamedFile:
        named = self.files.write_new("manifest-list", manifest.encode_list(metas))
        self.files.cache.put(self.files.paths.manifest(named.name), tuple(metas))
        return named

    # -- vectors ------------------------------------------------------------------------------------------------------

    def vector_refs(self, snapshot: Snapshot) -> VectorIndex:
        """Data file name -> location of its vector, for all live files that have one. The index of the newest snapshot that was
        asked for is kept, and shares its older parts with the one before."""
        named, cache = snapshot.index_manifest, self.files.cache
        if named is None:
            return VectorIndex(())
        index = cache.index
        if index is None or index.name != named.name:
            parts = [*((part.name, part.bytes) for part in self.index(named).parts), (named.name, named.bytes)]
            known = {} if index is None else index.layers
            missing = [NamedFile(name, size) for name, size in parts if name not in known]
            read = side_by_side([partial(self.index, part) for part in missing], self.files.env.storage.at_once)
            known = {**known, **{part.name: index_part.changes for part, index_part in zip(missing, read, strict=True)}}
            layers = {name: known[name] for name, _ in parts}
            cache.index = index = Index(named.name, layers, VectorIndex(list(layers.values())))
        return index.vectors

    def index(self, named: NamedFile) -> IndexManifest:
        """One index manifest, without the index manifests that it continues."""
        path = self.files.paths.manifest(named.name)
        return self.files.cache.get(
            path, lambda: deletion_vector.decode_index(self.files.read(path, named.bytes), path), _index_bytes
        )

    def put_index(self, index: IndexManifest) -> NamedFile:
        named = self.files.write_new("index-manifest", deletion_vector.encode_index(index))
        self.files.cache.put(self.files.paths.manifest(named.name), index, _index_bytes)
        return named


_TOGETHER = 1 << 12  # entries of manifests that are decoded together
_equal_covers = lru_cache(maxsize=64)(Covers)
"""The covers of tables whose partitions have equal numbers of buckets."""
_COVER_BYTES = 512  # of a cover, with its partition
_VECTOR_BYTES = 512  # of a vector in an index, with its names


def _covers_of(table: pa.Table, schema: Schema, first: int, where: str) -> dict[tuple, Cover]:
    """The covers of the partitions whose number of buckets is not `first`."""
    if not table.num_rows:
        return {}
    codes = manifest.partition_codes(table, schema)
    totals, numbers = table["total_buckets"].to_numpy(), table["bucket"].to_numpy()
    count = int(codes.max()) + 1
    least, most = np.full(count, np.iinfo(np.int32).max), np.zeros(count, np.int64)
    np.minimum.at(least, codes, totals)
    np.maximum.at(most, codes, totals)
    one_of = np.empty(count, np.int64)
    one_of[codes] = np.arange(len(codes))
    other = np.flatnonzero((least != first) | (most != first))
    partitions = manifest.partitions_of(table.take(pa.array(one_of[other])), schema)
    shares: dict[int, set[Share]] = {}
    mixed = (least != most)[codes]
    for code, number, total in np.unique(np.stack([codes, numbers, totals])[:, mixed], axis=1).T.tolist():
        shares.setdefault(code, set()).add(Share(number, total))
    uniform: dict[int, Cover] = {}
    covers = {}
    for code, partition in zip(other.tolist(), partitions, strict=True):
        total = int(most[code])
        covers[partition] = Cover.of(shares[code], where) if code in shares else uniform.setdefault(total, Cover(total))
    return covers


def _index_bytes(index: IndexManifest) -> int:
    return _VECTOR_BYTES * (1 + len(index.changes) + len(index.parts))


def _of_buckets(buckets: Collection[Bucket], schema: Schema) -> Selection:
    """A selection of the files of some buckets; it may include other files."""
    numbers = np.array(sorted({bucket.number for bucket in buckets}), np.int32)
    specs = {bucket.spec for bucket in buckets}
    places = ((field, schema.partition_places(field)) for field in schema.all_partition_columns)
    columns = [
        (field, pa.array([bucket.partition[place[bucket.spec]] for bucket in buckets], field.type).unique())
        for field, place in places
        if specs <= place.keys()
    ]

    def manifests(metas: Sequence[ManifestMeta], where: str) -> np.ndarray:
        first = np.searchsorted(numbers, [meta.bucket_min for meta in metas], "left")
        opened = first < np.searchsorted(numbers, [meta.bucket_max for meta in metas], "right")
        for field, values in columns:
            if values.null_count or not len(values):
                continue  # bounds ignore nulls
            span = pc.min_max(values)
            low, high = manifest.partition_bounds(metas, schema, field, where)
            inside = pc.and_kleene(pc.less_equal(low, span["max"]), pc.greater_equal(high, span["min"]))
            opened &= inside.fill_null(True).to_numpy(zero_copy_only=False)
        return opened

    def entries(table: pa.Table) -> np.ndarray:
        kept = np.isin(table["bucket"].to_numpy(), numbers) & np.isin(table["spec"].to_numpy(), list(specs))
        for field, values in columns:
            kept &= pc.is_in(table[f"p:{field.number}"], value_set=values).to_numpy()
        return kept

    return Selection(manifests, entries)
