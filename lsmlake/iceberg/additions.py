"""The snapshots that a publication adds, line by line, the oldest first. Each follows the newest one before it on its line; the
first one of a branch follows that of the table at which the branch begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lsmlake.errors import Corrupt, InvalidOption, InvalidSchema
from lsmlake.format.snapshot import Snapshot
from lsmlake.iceberg import metadata
from lsmlake.iceberg.changes import IcebergView
from lsmlake.iceberg.entries import SnapshotNumbers
from lsmlake.iceberg.lineage import Line
from lsmlake.iceberg.published import is_of
from lsmlake.iceberg.snapshot_writer import Step
from lsmlake.tables.metadata import Metadata
from lsmlake.tables.version import Version


@dataclass
class Additions:
    """`content`: the metadata, which gets the schemas of the snapshots. `put`: writes a file of the metadata; returns its URI.
    `whole`: whether the newest snapshot of the table must be there. `made`: the new snapshots."""

    meta: Metadata
    content: metadata.Metadata
    put: Callable[[str, bytes], str]
    whole: bool
    made: list[dict] = field(default_factory=list)

    def add(self, lines: Sequence[Line]) -> None:
        """Add what the metadata lacks. What Iceberg cannot express is left out, and so are damaged snapshots.

        Raises:
            InvalidSchema: with `whole`, the newest snapshot of the table has files of a type that Iceberg does not widen.
            Corrupt: with `whole`, the newest snapshot of the table is damaged; or the metadata is.
        """
        known = metadata.published(self.content)
        read = [(line, one) for line in lines for _, one in sorted(line.kept.items()) if one is not None]
        todo = [(line, one) for line, one in read if known.get(line.id_of(one.id)) != metadata.identity_of(one)]
        new = {line.id_of(one.id) for line, one in todo}
        there = {one["snapshot-id"]: one for one in self.content["snapshots"] if one["snapshot-id"] not in new}
        files = self.meta if len(todo) <= 1 else self.meta.with_empty_cache()
        newest = max((one.id for line, one in todo if line is lines[0]), default=None)
        for line, snapshot in todo:
            try:
                made = self._sound(files, lines[0], line, snapshot, there)
            except InvalidOption:
                continue
            except (InvalidSchema, Corrupt) as failed:  # no reader of Iceberg could read it
                if is_of(self.meta, failed.where) or (self.whole and line is lines[0] and snapshot.id == newest):
                    raise
                continue
            there[made["snapshot-id"]] = made
            self.made.append(made)

    def _sound(self, files: Metadata, main: Line, line: Line, snapshot: Snapshot, there: Mapping[int, Mapping]) -> dict:
        try:
            return self._made(files, main, line, snapshot, there)
        except Corrupt as damaged:
            if is_of(self.meta, damaged.where):
                raise
            return self._made(files, main, line, snapshot, {})  # the snapshot before it may be the damaged one

    def _made(self, files: Metadata, main: Line, line: Line, snapshot: Snapshot, there: Mapping[int, Mapping]) -> dict:
        view, schema_id = IcebergView.of(Version.at(files if line is main else line.meta, snapshot)), snapshot.schema_id
        before, parent = None, None
        if (base := _before(main, line, snapshot.id, there)) is not None:
            of, last = base
            before = IcebergView.of(Version.at(files if of is main else of.meta, of.kept[last] or of.meta.snapshots.get(last)))
            parent = there[of.id_of(last)]
        if line is main:
            content, order = metadata.with_schema(self.content, view.version.schema)
        else:
            content, schema_id, order = metadata.with_branch_schema(self.content, view.version.schema, line.common)
        number = SnapshotNumbers(line.id_of(snapshot.id), max(snapshot.id, self._last_sequence() + 1))
        with line.meta.snapshots.unless_expired(snapshot):
            made = Step(files, self.put, view, before, parent, number, schema_id, order, self.next_row).snapshot()
        self.content = content
        return made

    @property
    def next_row(self) -> int:
        """The first row id that no row has yet."""
        last = self.made[-1] if self.made else None
        return self.content["next-row-id"] if last is None else last["first-row-id"] + last["added-rows"]

    def _last_sequence(self) -> int:
        return self.made[-1]["sequence-number"] if self.made else self.content["last-sequence-number"]


def _before(main: Line, line: Line, number: int, there: Mapping[int, Mapping]) -> tuple[Line, int] | None:
    """The newest snapshot in the metadata before this one: of its line, or of those of the table that the line begins with."""
    for of, last in ((line, number - 1), (main, line.begins)):
        found = max((one for one in of.kept if one <= last and of.id_of(one) in there), default=None)
        if found is not None:
            return of, found
    return None
