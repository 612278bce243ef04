"""The deletion vectors of a table, in Puffin files. A vector never changes: a new one has a new place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lsmlake.errors import Corrupt
from lsmlake.format import puffin
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.files import DataFile, VectorRef
from lsmlake.storage.concurrency import side_by_side
from lsmlake.tables.table_files import RESTORE, TableFiles

_KEPT_BYTES = 1 << 20


@dataclass(frozen=True)
class Vectors:
    files: TableFiles

    def get(self, ref: VectorRef, file: DataFile) -> DeletionVector:
        """Read the vector of `file`, in one ranged read. Raises Corrupt if it is damaged or marks a row that does not exist."""
        return self._decoded(self._read(ref.puffin, ref.offset, ref.offset + ref.length), ref, file)

    def read_together(self, refs: Mapping[str, VectorRef], files: Iterable[DataFile]) -> dict[str, DeletionVector]:
        """As `read`, with one read of each Puffin file, from the first to the last of its vectors."""
        by_puffin: dict[str, list[DataFile]] = {}
        for file in files:
            if file.name in refs:
                by_puffin.setdefault(refs[file.name].puffin, []).append(file)

        def read(name: str, group: Sequence[DataFile]) -> dict[str, DeletionVector]:
            own = [refs[file.name] for file in group]
            start, stop = min(ref.offset for ref in own), max(ref.offset + ref.length for ref in own)
            data = self._read(name, start, stop)
            return {
                file.name: self._decoded(data[ref.offset - start : ref.offset - start + ref.length], ref, file)
                for ref, file in zip(own, group, strict=True)
            }

        found = side_by_side([partial(read, name, group) for name, group in by_puffin.items()], self.files.env.storage.at_once)
        return {name: vector for some in found for name, vector in some.items()}

    def _read(self, name: str, start: int, stop: int) -> bytes:
        path = self.files.paths.puffin(name)
        written: bytes | None = self.files.cache.known(path)
        if written is not None:
            return written[start:stop]
        try:
            return self.files.env.storage.read_range(path, start, stop)
        except FileNotFoundError as missing:
            self.files.first_schema()
            raise Corrupt("deletion vector file is missing", where=path, cure=RESTORE) from missing

    def _decoded(self, data: bytes, ref: VectorRef, file: DataFile) -> DeletionVector:
        path = self.files.paths.puffin(ref.puffin)
        vector = DeletionVector.decode(data, f"{path}, vector of {file.name}", file.rows)
        if len(vector) != ref.cardinality:
            what, found = "deletion vector marks another number of rows", len(vector)
            raise Corrupt(what, where=path, expected=ref.cardinality, found=found, cure=RESTORE)
        return vector

    def read(self, refs: Mapping[str, VectorRef], files: Iterable[DataFile]) -> dict[str, DeletionVector]:
        """Data file name -> vector, for those of `files` that have one."""
        if self.files.env.storage.at_once > 1:
            return self.read_together(refs, files)
        return {file.name: self.get(refs[file.name], file) for file in files if file.name in refs}

    def put(self, vectors: Mapping[str, DeletionVector]) -> dict[str, VectorRef]:
        """Write `vectors` to one new Puffin file; writes nothing if there are none."""
        if not vectors:
            return {}
        name = f"dv-{self.files.env.ids()}.puffin"
        data, places = puffin.encode(vectors)
        path = self.files.paths.puffin(name)
        self.files.write_unnamed(path, data)
        if self.files.env.storage.at_once > 1 and len(data) <= _KEPT_BYTES:
            self.files.cache.put(path, data, len)  # the next compaction of the bucket adds to these vectors
        return {file: VectorRef(name, *place) for file, place in places.items()}
