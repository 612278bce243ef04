"""The tags of a table, which are named copies of snapshots; and pins.

A pin keeps the files of a snapshot while a tag, a branch or a rollback of it is being published. Files that a tag or a pin needs
are not deleted; `refs.pinned` says why none is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from lsmlake.errors import Corrupt, LakeError, SnapshotNotFound, StorageFailed, UnsupportedFormat, Wording
from lsmlake.format.snapshot import Snapshot
from lsmlake.format.tag import REPLACE, Tag
from lsmlake.storage.concurrency import attempts
from lsmlake.storage.storage import Entry, read_bytes
from lsmlake.tables.table_files import TableFiles

LIST_TAGS = Wording("tags() lists the tags", command="`lsmlake tag TABLE` lists the tags", sql="table$tags lists the tags")
_LOOKS = 10
_SETTLED_MS = 600_000  # far more than the clocks of storages differ and than modification times are rounded


class Holder(NamedTuple):
    """A reason for which the files of a snapshot stay, such as "tag 'eod'"."""

    reason: str
    snapshot: Snapshot


def reason_of(name: str) -> str:
    """The `reason` of a holder that is a tag."""
    return f"tag {name!r}"


def _reason(tag: Tag) -> tuple[str, Snapshot]:
    return reason_of(tag.name) if tag.name else "a tag that is being created", tag.snapshot


@dataclass(frozen=True)
class Tags:
    files: TableFiles

    def read(self, name: str) -> Tag | None:
        """A tag; None if no tag has that name. Raises Corrupt, InvalidQuery."""
        path = self.files.paths.tag(name)
        try:
            return self._named(self._decode(path), name, path)
        except FileNotFoundError:
            return None

    def get(self, name: str) -> Tag:
        """A tag. Raises SnapshotNotFound, which names similar tags; Corrupt; InvalidQuery; TableNotFound."""
        tag = self.read(name)
        if tag is None:
            self.files.first_schema()
            raise self.missing(name)
        return tag

    def missing(self, name: str) -> SnapshotNotFound:
        near = get_close_matches(name, self.names(), n=3)
        cure = f"did you mean {' or '.join(map(repr, near))}?" if near else LIST_TAGS
        return SnapshotNotFound(f"there is no tag {name!r}", where=self.files.paths.root, cure=cure)

    def names(self) -> list[str]:
        """The names of all tags, ascending. One listing."""
        return sorted(name for entry in self._listed() if (name := self.files.paths.tag_name(entry.path)) is not None)

    def all(self) -> list[Tag]:
        """All tags, ordered by snapshot, then by name. Raises Corrupt, TableNotFound."""
        self.files.first_schema()
        tags = []
        for _, tag, error in self.listed():
            if error is not None:
                raise error
            tags.append(tag)
        return sorted(tags, key=lambda tag: (tag.snapshot.id, tag.name))

    def readable(self) -> list[Tag]:
        """All tags that can be read, by name."""
        return [tag for _, tag, _ in self.listed() if tag is not None]

    def listed(self) -> Iterator[tuple[str, Tag | None, LakeError | None]]:
        """The names of all tags, ascending, each with its tag, or with the reason why it cannot be read."""
        read = self._settled()
        for entry in self._listed():
            name = self.files.paths.tag_name(entry.path)
            if name is None:
                continue
            try:
                tag, error = self._named(read(entry), name, entry.path), None
            except FileNotFoundError:
                continue
            except (Corrupt, UnsupportedFormat) as broken:
                tag, error = None, broken
            yield name, tag, error

    def of_snapshot(self, number: int) -> list[Tag]:
        """The tags of a snapshot, by name; without damaged ones."""
        return [tag for tag in self.readable() if tag.snapshot.id == number]

    def put(self, tag: Tag) -> bool:
        """Stores a new tag; returns False if its name is taken."""
        return self.files.env.storage.put_if_absent(self.files.paths.tag(tag.name), tag.encode())

    def replace(self, tag: Tag) -> None:
        with self.files.env.storage.write(self.files.paths.tag(tag.name)) as sink:  # not `files.write`, which deletes the file
            sink.write(tag.encode())

    def exists(self, name: str) -> bool:
        """Whether there is a tag of that name; its file may be damaged."""
        return self.files.env.storage.size(self.files.paths.tag(name)) is not None

    def remove(self, name: str) -> None:
        self.files.env.storage.delete(self.files.paths.tag(name))

    # -- pins ---------------------------------------------------------------------------------------------------------

    def pin(self, snapshot: Snapshot) -> str:
        """Keeps the files of a snapshot until the pin, whose path this returns, is deleted."""
        path = self.files.paths.pin(self.files.env.ids())
        self.files.write(path, Tag("", snapshot, self.files.env.clock()).encode())
        return path

    def read_pin(self, path: str) -> Snapshot | None:
        """The pinned snapshot; None if there is no such pin. Raises Corrupt."""
        try:
            return self._decode(path).snapshot
        except FileNotFoundError:
            return None

    def is_pinned(self, path: str) -> bool:
        return self.files.env.storage.size(path) is not None

    def unpin(self, path: str) -> None:
        self.files.delete_quietly([path])

    def pins(self) -> list[Entry]:
        return [entry for entry in self._listed() if self.files.paths.is_pin(entry.path)]

    # -- both ---------------------------------------------------------------------------------------------------------

    def holders(self) -> list[Holder]:
        """All tags and pins, ordered by snapshot.

        They are listed until two listings in a row agree, because a listing may miss a tag that is renamed meanwhile. Raises
        Corrupt if one of them is damaged; StorageFailed if they change all the time.
        """
        listed = self._listed()
        failed, cure = "the tags changed while they were read, on every attempt", "change tags less often"
        for _ in attempts(_LOOKS, failed, self.files.paths.tags, cure, kind=StorageFailed):
            holders = self._read(listed)
            before, listed = listed, self._listed()
            if holders is not None and listed == before:
                return sorted(holders, key=lambda holder: holder.snapshot.id)

    def _read(self, entries: Iterable[Entry]) -> list[Holder] | None:
        """Reads the files of tags and pins; returns None if one of them was deleted."""
        try:
            return [Holder(*_reason(tag)) for tag in map(self._settled(), entries)]
        except FileNotFoundError:
            return None

    def _settled(self) -> Callable[[Entry], Tag]:
        """Returns a function that decodes a listed file, or finds it in the cache. A replaced file has another modification time,
        unless it was replaced at once, so the cache holds only files that were not written lately."""
        before_ms = self.files.env.clock() - _SETTLED_MS

        def read(entry: Entry) -> Tag:
            if entry.modified_ms > before_ms:
                return self._decode(entry.path)
            return self.files.cache.get(entry, lambda: self._decode(entry.path))

        return read

    def _named(self, tag: Tag, name: str, path: str) -> Tag:
        if tag.name != name:
            raise Corrupt("tag file holds another name", where=path, expected=name, found=tag.name, cure=REPLACE)
        return tag

    def _decode(self, path: str) -> Tag:
        data = read_bytes(self.files.env.storage, path)
        try:
            tag = Tag.decode(data, path)
        except Corrupt as damaged:  # no snapshot uses the file, so the cure is to replace it, not to restore it
            details = {"where": damaged.where, "expected": damaged.expected, "found": damaged.found}
            raise Corrupt(damaged.what, **details, cure=REPLACE) from damaged
        self.files.own(tag.snapshot, tag.snapshot.id, path)
        return tag

    def _listed(self) -> list[Entry]:
        """The files of tags and pins; other files do not count."""
        paths = self.files.paths
        entries = self.files.env.storage.list(paths.tags)
        return [entry for entry in entries if paths.tag_name(entry.path) is not None or paths.is_pin(entry.path)]
