"""The schemas of a table: one file per number. The one in effect is the one that the newest snapshot names."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.format.paths import first_schema, numbered
from lsmlake.format.snapshot import Snapshot
from lsmlake.schema.schema import Schema
from lsmlake.store.env import Env
from lsmlake.store.storage import read_bytes
from lsmlake.store.table_files import TableFiles


def read_first_schema(env: Env, root: str) -> Schema | None:
    """Schema 0 of the table in folder `root`; None if there is no table. Raises Corrupt, UnsupportedFormat."""
    path = first_schema(root)
    try:
        return Schema.decode(read_bytes(env.storage, path), path)
    except FileNotFoundError:
        return None


@dataclass(frozen=True)
class Schemas:
    files: TableFiles

    def get(self, number: int) -> Schema:
        files, path = self.files, self.files.paths.schema(number)
        if number == 0:
            return files.cache.get((path, files.paths.table_uuid), files.first_schema)
        return files.cache.get(path, lambda: files.own(Schema.decode(files.read(path, None), path), number, path))

    def of(self, snapshot: Snapshot | None) -> Schema:
        """The schema in effect at a snapshot; schema 0 for None, before the first snapshot. Raises TableNotFound."""
        return self.files.first_schema() if snapshot is None else self.get(snapshot.schema_id)

    def ids(self) -> list[int]:
        """The numbers of all schemas, ascending; those after the one in effect are not published."""
        folder = self.files.paths.schemas
        return sorted({0, *numbered((entry.path for entry in self.files.env.storage.list(folder)), folder, "schema")})

    def put(self, schema: Schema) -> bool:
        """Store a schema; returns False if its number is taken."""
        return self.files.env.storage.put_if_absent(self.files.paths.schema(schema.id), schema.encode())
