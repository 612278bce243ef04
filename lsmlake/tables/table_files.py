"""The metadata files of one table as bytes: written under new names, read with their length checked, deleted.

`format` encodes and decodes them; `tables.version`, `tables.snapshots` and `tables.manifests` know each kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lsmlake import undo
from lsmlake.errors import Corrupt, TableNotFound, Wording
from lsmlake.format.branch import BranchInfo
from lsmlake.format.data_files import CommitMessage
from lsmlake.format.paths import Branch, TablePaths
from lsmlake.format.snapshot import NamedFile, Snapshot
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import Env
from lsmlake.storage.storage import delete_quietly, read_bytes, storage_errors
from lsmlake.tables.live import Cache

LIST_BRANCHES = Wording(
    "branches() lists the branches", command="`lsmlake branch TABLE` lists the branches", sql="table$branches lists the branches"
)
RESTORE = "restore it from a copy, or roll back to a snapshot that does not use it"

_Decoded = TypeVar("_Decoded", Schema, Snapshot)


@dataclass(frozen=True)
class TableFiles:
    """The files of the table with uuid `paths.table_uuid`; never of a later table with the same name."""

    env: Env
    paths: TablePaths
    cache: Cache = field(compare=False)
    gathered: dict[str, bytes] | None = field(default=None, compare=False)
    """Path -> content of the files to be written together; None: each file is written immediately."""

    def first_schema(self) -> Schema:
        """Reads schema 0 from the storage, which proves that the table still exists under its name. Raises TableNotFound, with
        the reason, if the table was dropped or renamed, or if another table has its name."""
        path = self.paths.schema(0)
        try:
            data = read_bytes(self.env.storage, path)
        except FileNotFoundError:
            raise TableNotFound(
                "the table was dropped or renamed",
                where=self.paths.root,
                expected=f"schema file {path}",
                cure=Wording(
                    "open it by the name it has now; tables() lists the tables there are",
                    command="use the name it has now; `lsmlake ls` lists the tables there are",
                ),
            ) from None
        schema = self.cache.get(data, lambda: Schema.decode(data, path))
        if schema.table_uuid != self.paths.table_uuid:
            raise TableNotFound(
                "the table was dropped and another one was created under its name",
                where=self.paths.root,
                expected=f"table_uuid {self.paths.table_uuid}",
                found=schema.table_uuid,
                cure=Wording("open the new table with lake.table(...)", command="run the command again"),
            )
        if self.paths.branch is not None:
            self._check_branch(self.paths.branch)
        return schema

    def _check_branch(self, branch: Branch) -> None:
        """Raises TableNotFound if the branch was deleted or renamed, or if another branch has its name."""
        path = self.paths.branch_file(branch.name)
        try:
            data = read_bytes(self.env.storage, path)
        except FileNotFoundError:
            raise TableNotFound(
                f"the branch {branch.name!r} was deleted or renamed",
                where=self.paths.root,
                expected=f"file {path}",
                cure=LIST_BRANCHES,
            ) from None
        stored = self.cache.get(data, lambda: BranchInfo.decode(data, path))
        if stored.uuid != branch.uuid:
            raise TableNotFound(
                f"the branch {branch.name!r} was deleted and another one was created under its name",
                where=self.paths.root,
                expected=f"uuid {branch.uuid}",
                found=stored.uuid,
                cure=Wording("open the new branch with branch(...)", command="run the command again"),
            )

    def own(self, content: _Decoded, number: int, path: str) -> _Decoded:
        """Returns `content` itself. Raises Corrupt if its number differs from the file's name, or it belongs to another table, as
        after copying the file."""
        if content.id != number:
            raise Corrupt("file holds another number than its name", where=path, expected=number, found=content.id, cure=RESTORE)
        if content.table_uuid != self.paths.table_uuid:
            expected = f"table_uuid {self.paths.table_uuid}"
            raise Corrupt("file of another table", where=path, expected=expected, found=content.table_uuid, cure=RESTORE)
        return content

    def read(self, path: str, length: int | None) -> bytes:
        """The content of a file. `length`: the recorded length; None if unknown. Raises Corrupt, TableNotFound."""
        try:
            with self.env.storage.read(path) as source, storage_errors("read", path):
                size = source.size()
                if length is None or size == length:
                    return source.read()
        except FileNotFoundError as missing:
            self.first_schema()
            raise Corrupt("metadata file is missing", where=path, cure=RESTORE) from missing
        raise Corrupt("metadata file has another length", where=path, expected=f"{length} bytes", found=size, cure=RESTORE)

    def gathering(self) -> TableFiles:
        """The same files, but written only by `write_gathered`."""
        return replace(self, gathered={})

    def write_gathered(self) -> None:
        gathered = dict(self.gathered)
        self.gathered.clear()
        undo.made(self.env.storage.delete_all, gathered)
        try:
            self.env.storage.write_all(gathered)
        except BaseException:  # some files may exist
            self.delete_quietly(gathered)
            raise

    def write(self, path: str, data: bytes) -> None:
        """Writes a file. After an error the file does not exist."""
        try:
            with self.env.storage.write(path) as sink:
                sink.write(data)
        except BaseException:  # the file may exist nevertheless
            self.delete_quietly([path])
            raise

    def write_unnamed(self, path: str, data: bytes) -> None:
        """Writes a file under a new name, which a snapshot will name. It is removed if the public call fails before."""
        if self.gathered is not None:
            self.gathered[path] = data
            return
        undo.made(self.env.storage.delete_all, [path])
        self.write(path, data)

    def write_new(self, prefix: str, data: bytes) -> NamedFile:
        """`write_unnamed` of a file beside the manifests."""
        named = NamedFile(f"{prefix}-{self.env.ids()}", len(data))
        self.write_unnamed(self.paths.manifest(named.name), data)
        return named

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """Deletes unreferenced files; storage errors are ignored, since a file that stays is a harmless orphan."""
        delete_quietly(self.env.storage, paths)

    def discard(self, messages: Iterable[CommitMessage]) -> None:
        """Deletes the files written for messages that will not be committed; storage errors are ignored."""
        self.delete_quietly(path for message in messages for path in message.written)
