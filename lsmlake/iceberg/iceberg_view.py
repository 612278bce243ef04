"""The files and deletes of a table that a reader of Iceberg sees, and their changes between two snapshots.

The files at level 1 and deeper are visible, without the rows that their vectors mark. Rows at level 0 supersede older rows; if
the newest row of a key wins, an equality delete of Iceberg has the same effect, and level 0 is visible, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidOption
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format import manifest
from lsmlake.format.data_files import Bucket, DataFile, VectorRef
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.manifest import ADD, DELETE
from lsmlake.options.merge_options import DEDUPLICATE
from lsmlake.schema.rowkind import INSERT, UPDATE_AFTER
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.tables import live as live_set
from lsmlake.tables.live import Selection
from lsmlake.tables.version import Version


def shows_level0(schema: Schema) -> bool:
    """Whether rows at level 0 are visible."""
    options = schema.parsed_options
    newest = options.merge.engine == DEDUPLICATE and not options.merge.sequence_field
    floats = any(pa.types.is_floating(schema.columns.field(name).type) for name in schema.key)
    return options.iceberg.level0 and newest and not floats  # Iceberg has no equality deletes by numbers with fractions


class IcebergView(NamedTuple):
    """A version as a reader of Iceberg sees it."""

    version: Version
    level0: bool

    @staticmethod
    def of(version: Version) -> IcebergView:
        """Returns the view of a version. Raises InvalidOption if reads of the table merge rows: readers of Iceberg cannot."""
        if version.schema.merges_at_read:
            raise InvalidOption(
                "a table without deletion vectors has no Iceberg metadata: its readers merge files",
                where=version.meta.paths.root,
                cure="set deletion-vectors.enabled = true",
            )
        return IcebergView(version, shows_level0(version.schema))

    def shows(self, file: DataFile | None) -> bool:
        return file is not None and (file.level > 0 or self.level0 or self.version.schema.append_only)

    def deletes_older(self, file: DataFile | None) -> bool:
        """Whether the file deletes the older rows of its keys."""
        return file is not None and file.level == 0 and self.level0 and not self.version.schema.append_only

    def hides_deletes(self, file: DataFile | None) -> bool:
        """Whether the file holds delete rows that no vector of the table marks, so that the published vector must hide them."""
        return self.deletes_older(file) and file.delete_rows > 0

    def vectors(self, files: Iterable[tuple[Bucket, DataFile]], refs: Mapping[str, VectorRef]) -> dict[str, DeletionVector]:
        """File name -> the rows that no reader sees, for the files that have such rows."""
        files = list(files)
        vectors = self.version.meta.vectors.read(refs, [file for _, file in files])
        for bucket, file in files:
            if self.hides_deletes(file):
                marked = self._deletes(bucket, file)
                vectors[file.name] = vectors[file.name] | marked if file.name in vectors else marked
        return {name: vector for name, vector in vectors.items() if vector}

    def _deletes(self, bucket: Bucket, file: DataFile) -> DeletionVector:
        with BucketFiles.of(self.version, bucket).open(file) as reader:
            if not reader.has_row_kind:
                return DeletionVector.of([])
            chunks = [chunk.table[ROW_KIND] for chunk in reader.stream([ROW_KIND])]
        kinds = pa.chunked_array([part for chunk in chunks for part in chunk.chunks], pa.int8())
        kept = pc.is_in(kinds, value_set=pa.array([INSERT, UPDATE_AFTER, None], pa.int8()))
        return DeletionVector.of(pc.indices_nonzero(pc.invert(kept)).to_numpy())


class Touched(NamedTuple):
    """A file that a snapshot adds, removes or changes: its state before and after; None: not live."""

    bucket: Bucket
    before: DataFile | None
    after: DataFile | None

    @property
    def file(self) -> DataFile:
        return self.after or self.before


def touched(before: IcebergView | None, after: IcebergView) -> list[Touched]:
    """The files in which two versions differ. If the second snapshot directly follows the first, its own manifests list them."""
    version = after.version
    meta, schema, snapshot = version.meta, version.schema, version.snapshot
    if before is None:
        return [Touched(bucket, None, file) for bucket, _, file in manifest.files_of(version.live(), schema)]
    follows = before.version.number == snapshot.id - 1 and snapshot.restores is None and before.level0 == after.level0
    if not follows:
        return _differing(before, after)
    delta = meta.manifests.delta(snapshot, schema)
    gone = {file.name: (bucket, file) for bucket, _, file in _files(delta, DELETE, schema)}
    added = {file.name: (bucket, file) for bucket, _, file in _files(live_set.fold([delta], schema), ADD, schema)}
    touched = {name: Touched(bucket, file, None) for name, (bucket, file) in gone.items()}
    for name, (bucket, file) in added.items():
        touched[name] = Touched(bucket, gone[name][1] if name in gone else None, file)
    changed = pa.array([name for name in _changed_vectors(before, after) if name not in touched], pa.string())
    if len(changed):
        for bucket, _, file in manifest.files_of(version.live(_named(changed)), schema):
            touched[file.name] = Touched(bucket, file, file)
    return list(touched.values())


def _named(names: pa.Array) -> Selection:
    """A selection of the files with these names, so that no other file is folded."""
    return Selection(
        manifests=lambda metas, _: np.ones(len(metas), bool),
        entries=lambda table: pc.is_in(table["name"], value_set=names).to_numpy(),
    )


def _files(table: pa.Table, kind: int, schema: Schema) -> list[tuple[Bucket, int, DataFile]]:
    return manifest.files_of(manifest.with_rows(table.filter(pc.equal(table["kind"], kind))), schema)


def _changed_vectors(before: IcebergView, after: IcebergView) -> Iterable[str]:
    """The names of files whose vectors may have changed."""
    old, new = before.version.snapshot.index_manifest, after.version.snapshot.index_manifest
    if old == new or new is None:
        return ()
    index = after.version.meta.manifests.index(new)
    return index.changes if index.follows == (None if old is None else old.name) else after.version.vector_refs()


def _differing(before: IcebergView, after: IcebergView) -> list[Touched]:
    old_table, old_refs = before.version.live(), before.version.vector_refs()
    old = {file.name: (bucket, file) for bucket, _, file in manifest.files_of(old_table, before.version.schema)}
    new_table, new_refs = after.version.live(), after.version.vector_refs()
    new = {file.name: (bucket, file) for bucket, _, file in manifest.files_of(new_table, after.version.schema)}
    touched = [Touched(bucket, file, None) for name, (bucket, file) in old.items() if name not in new]
    for name, (bucket, file) in new.items():
        _, was = old.get(name, (bucket, None))
        same_level = was is not None and was.level == file.level and before.level0 == after.level0
        if not same_level or old_refs.get(name) != new_refs.get(name):
            touched.append(Touched(bucket, was, file))
    return touched
