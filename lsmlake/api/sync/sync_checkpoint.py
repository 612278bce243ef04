"""The memory of a sync in this process: which batches were begun and which are done, in small files of a folder.

    sync.json           the id, from which the writer id of all commits is made, and what the sync is of
    batch-<n>.json      what batch n reads, written before the batch begins
    done-<n>            batch n is done
    known-<n>.json      what all batches up to n have read; the files of these batches are then removed

A batch that was begun and is not done is applied again: it reads the same data and has the same number, so tables that already
have it skip it. All files are created if absent and never changed, so several processes may share a checkpoint: they apply the
same batches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lsmlake.errors import Corrupt, InvalidQuery
from lsmlake.storage.env import Env
from lsmlake.storage.storage import Storage, delete_quietly, read_bytes
from lsmlake.types.json_shape import RESTORE

_KNOWN_EVERY = 100
_NAME = re.compile(r"(batch|done|known)-(\d{20})(\.json)?")


@dataclass
class SyncProgress:
    """The state of a sync.

    Attributes:
        known: what the batches so far have read: the name of each thing -> by what it is recognised.
        last: the number of the last batch; -1: there was none.
        open: what the last batch reads, if it is not done.
    """

    known: dict[str, object] = field(default_factory=dict)
    last: int = -1
    open: Mapping[str, object] | None = None


@dataclass(frozen=True)
class SyncCheckpoint:
    """A folder with the memory of a sync. `folder`: its path in the storage; "": the storage itself."""

    storage: Storage
    folder: str = ""

    def writer(self, env: Env, database: str, format: str) -> str:
        """The writer of all commits of this sync. Raises InvalidQuery if the checkpoint is that of another database or format."""
        path, wanted = self._path("sync.json"), {"database": database, "format": format}
        self.storage.put_if_absent(path, json.dumps({"id": env.ids(), **wanted}).encode())
        known = self._read(path)
        if (own := {name: known.get(name) for name in wanted}) != wanted:
            cure = "use another checkpoint, or the same database and format"
            raise InvalidQuery("the checkpoint belongs to another sync", where=path, expected=own, found=wanted, cure=cure)
        return f"sync-{known.get('id')}"

    def progress(self) -> SyncProgress:
        """What has been done so far. Raises Corrupt."""
        numbers: dict[str, list[int]] = {"batch": [], "done": [], "known": []}
        for entry in self.storage.list(self.folder):
            if match := _NAME.fullmatch(entry.path.rpartition("/")[2]):
                numbers[match[1]].append(int(match[2]))
        base = max(numbers["known"], default=-1)
        made = SyncProgress(last=base)
        if base >= 0:
            made.known.update(self._read(self._numbered("known", base)))
        for number in sorted(number for number in numbers["batch"] if number > base):
            reads = self._read(self._numbered("batch", number))
            made.known.update(reads)
            made.last, made.open = number, None if number in numbers["done"] else reads
        return made

    def begin(self, number: int, reads: Mapping[str, object]) -> bool:
        """Records what a batch reads; returns False if another process has begun a batch of this number."""
        return self.storage.put_if_absent(self._numbered("batch", number), json.dumps(reads).encode())

    def finish(self, number: int, known: Mapping[str, object]) -> None:
        """Records that a batch is done. `known`: what all batches up to it have read."""
        self.storage.put_if_absent(self._numbered("done", number), b"")
        if number % _KNOWN_EVERY == _KNOWN_EVERY - 1:
            self.storage.put_if_absent(self._numbered("known", number), json.dumps(known).encode())
            older = [entry.path for entry in self.storage.list(self.folder) if self._is_older(entry.path, number)]
            delete_quietly(self.storage, older)

    def _is_older(self, path: str, number: int) -> bool:
        match = _NAME.fullmatch(path.rpartition("/")[2])
        if match is None:
            return False
        return int(match[2]) < number if match[1] == "known" else int(match[2]) <= number

    def _numbered(self, kind: str, number: int) -> str:
        return self._path(f"{kind}-{number:020d}" + ("" if kind == "done" else ".json"))

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name

    def _read(self, path: str) -> dict[str, object]:
        try:
            found = json.loads(read_bytes(self.storage, path))
        except (FileNotFoundError, ValueError) as broken:
            raise Corrupt("a file of a checkpoint cannot be read", where=path, found=broken, cure=RESTORE) from broken
        if not isinstance(found, dict):
            raise Corrupt("a file of a checkpoint is no object", where=path, found=found, cure=RESTORE)
        return found
