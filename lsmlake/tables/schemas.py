"""The schemas of a table: one file per number. The one in effect is the one that the newest snapshot names."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from lsmlake import undo
from lsmlake.format.paths import numbered
from lsmlake.format.snapshot import Snapshot
from lsmlake.schema.schema import Schema
from lsmlake.storage.storage import Storage, read_bytes
from lsmlake.tables.table_files import TableFiles


@dataclass(frozen=True)
class Schemas:
    files: TableFiles

    def get(self, number: int) -> Schema:
        files, path = self.files, self.files.paths.schema(number)
        read = files.first_schema if number == 0 else lambda: files.own(Schema.decode(files.read(path, None), path), number, path)
        return files.cache.get(self._key(number), read)

    def known(self, number: int) -> Schema | None:
        """The schema if this handle has read it."""
        return self.files.cache.known(self._key(number))

    def keep(self, schema: Schema) -> None:
        """Cache a schema that was read from the table."""
        self.files.cache.put(self._key(schema.id), schema)

    def _key(self, number: int) -> tuple[str, str]:
        return self.files.paths.schema(number), self.files.paths.table_uuid

    def of(self, snapshot: Snapshot | None) -> Schema:
        """The schema in effect at a snapshot; schema 0 for None, before the first snapshot. Raises TableNotFound."""
        return self.files.first_schema() if snapshot is None else self.get(snapshot.schema_id)

    def ids(self) -> list[int]:
        """The numbers of all schemas, ascending; those after the one in effect are not published."""
        folder = self.files.paths.schemas
        return sorted({0, *numbered((entry.path for entry in self.files.env.storage.list(folder)), folder, "schema")})

    def begin(self, schema: Schema) -> bool:
        """As `put`, for schema 0, which makes a table. The table goes if the public call fails before it has a snapshot."""
        path = self.files.paths.schema(schema.id)
        unmade = _Unmade(self.files.env.storage, self.files.paths.snapshots, schema.encode())
        undo.made(unmade, [path])
        created = self.put(schema)
        if not created:
            undo.kept(unmade, [path])
        return created

    def put(self, schema: Schema) -> bool:
        """Store a schema; returns False if its number is taken. It stays if the public call fails: another one may have found it
        and may name it in a snapshot."""
        return self.files.env.storage.put_if_absent(self.files.paths.schema(schema.id), schema.encode())


@dataclass(frozen=True)
class _Unmade:
    """Deletes schema 0 of a table if this process has created it, which its content tells, and nobody has committed."""

    storage: Storage
    snapshots: str
    data: bytes

    def __call__(self, paths: list[str]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):
                committed = next(iter(self.storage.list(self.snapshots)), None) is not None
                if not committed and read_bytes(self.storage, path) == self.data:
                    self.storage.delete(path)
