"""The published lines of snapshots: the line of the table, and the lines of its branches.

Each line continues the numbers, so a snapshot of a branch and one of the table can have the same number. Therefore snapshots of
branches have other ids: 2^62 plus 62 bits of a hash of the branch's uuid and the number. Snapshots up to the one that a branch
begins at are snapshots of the table.

Readers such as Spark read a branch with the columns and specs that the table has now, by their ids. A column that was added on a
branch may have the id of another column that was added to the table. Such a branch is not published: see `fits`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from lsmlake.errors import Corrupt, InvalidSchema, SnapshotNotFound, TableNotFound
from lsmlake.format.paths import MAIN
from lsmlake.format.snapshot import Snapshot
from lsmlake.iceberg.schemas import check_promotions, spec_json
from lsmlake.iceberg.table_metadata import OF_BRANCHES, identity_of
from lsmlake.schema.schema import Schema
from lsmlake.tables.branches import BranchState
from lsmlake.tables.version import Metadata


class Line(NamedTuple):
    """A line of snapshots.

    Attributes:
        meta: the table, or the branch.
        name: the name of its reference.
        begins: snapshots up to this number are snapshots of the table; 0: none.
        common: the newest schema that the branch has from the table.
        kept: number -> snapshot to publish; None: the metadata already has the snapshot, and it was not read.
        tags: name of the reference -> number of the snapshot.
    """

    meta: Metadata
    name: str
    begins: int
    common: int
    kept: Mapping[int, Snapshot | None]
    tags: Mapping[str, int]

    def id_of(self, number: int) -> int:
        """The id of the snapshot of this number; up to `begins`, the id of the snapshot of the table."""
        return number if number <= self.begins else id_on(self.meta, number)


def id_on(meta: Metadata, number: int) -> int:
    """The id of a snapshot of a table, or of a branch after the snapshot that it begins at."""
    if meta.paths.branch is None:
        return number
    digest = hashlib.sha256(f"{meta.paths.branch.uuid}/{number}".encode()).digest()
    return OF_BRANCHES | int.from_bytes(digest[:8], "big") >> 2


def lines_of(meta: Metadata, table: Schema, known: Mapping[int, str]) -> list[Line]:
    """The line of a table, then the lines of its branches by name; without branches that cannot be read or published.

    Args:
        meta: the table.
        table: its newest schema.
        known: the snapshots that the metadata has, by id, with their identities.
    """
    branches = branches_of(meta)
    bases = [state.base for _, state in branches if state.base is not None]
    tags = tags_of(meta)
    kept = _kept(meta, 0, [*bases, *tags.values()], known)
    named = {name: snapshot.id for name, snapshot in tags.items() if kept[snapshot.id] == snapshot}
    lines = [Line(meta, MAIN, 0, table.id, kept, named)]
    for on, state in branches:
        with suppress(TableNotFound, Corrupt):  # deleted meanwhile, or damaged
            if line := _branch(on, state, table, known):
                lines.append(line)
    meta.files.first_schema()
    return lines


def branches_of(meta: Metadata) -> list[tuple[Metadata, BranchState]]:
    """The branches by name, except those that cannot be read, each with its state."""
    branches = []
    for name in meta.branches.names():
        with suppress(Corrupt):
            info = meta.branches.read(name)
            if info is not None:
                branches.append((meta.on(info.named(name)), meta.branches.state(info)))
    return branches


def tags_of(meta: Metadata) -> dict[str, Snapshot]:
    """The tags of a table or of a branch by name, except those that cannot be read."""
    return {tag.name: tag.snapshot for tag in meta.tags.readable()}


def refs_of(meta: Metadata) -> dict[str, int]:
    """The references of a table but the main branch: name -> id of the snapshot that it should name in the metadata."""
    refs: dict[str, int] = {}
    for on, state in branches_of(meta):
        name, begins = on.paths.branch.name, 0 if state.base is None else state.base.id
        with suppress(TableNotFound, Corrupt):  # deleted meanwhile, or damaged
            numbers = {name: on.snapshots.latest_id(), **{tag_on(name, tag): one.id for tag, one in tags_of(on).items()}}
            refs |= {ref: n if n <= begins else id_on(on, n) for ref, n in numbers.items() if n}
    return refs | {name: snapshot.id for name, snapshot in tags_of(meta).items() if name != MAIN}


def tag_on(branch: str, tag: str) -> str:
    """The name of the reference of a tag of a branch. No other name of a tag or branch has a '/'."""
    return f"{branch}/{tag}"


def fits(branch: Schema, table: Schema, common: Schema) -> bool:
    """Whether readers can read a branch with the columns and specs of the table. Each partition spec of the branch must be a spec
    of the table. Only one of the two lines may have given ids to columns since `common`: otherwise one id could mean two columns.
    Files of the branch must not have a wider type than the column has in the table.
    """
    before = common.highest_field_id
    specs = list(map(spec_json, table.partitioning.specs))
    if branch.highest_field_id > before < table.highest_field_id:
        return False
    try:
        check_promotions(branch, table, "")
    except InvalidSchema:
        return False
    return all(spec_json(spec) in specs for spec in branch.partitioning.specs)


def _branch(on: Metadata, state: BranchState, table: Schema, known: Mapping[int, str]) -> Line | None:
    """The line of a branch; None if it cannot be published."""
    begins, common = (0, 0) if state.base is None else (state.base.id, state.base.schema_id)
    if not fits(on.schemas.of(on.snapshots.latest()), table, on.schemas.get(common)):
        return None
    tags, name = tags_of(on), on.paths.branch.name
    kept = _kept(on, begins, tags.values(), known)
    named = {tag_on(name, tag): snapshot.id for tag, snapshot in tags.items() if kept.get(snapshot.id, state.base) == snapshot}
    return Line(on, name, begins, common, kept, named)


def _kept(meta: Metadata, after: int, tagged: Iterable[Snapshot], known: Mapping[int, str]) -> dict[int, Snapshot | None]:
    """The readable snapshots after number `after` that are retained or tagged. If a snapshot in the metadata is unchanged, all
    older ones in the metadata are unchanged, too, so they are not read."""
    proven = False
    kept: dict[int, Snapshot | None] = {snapshot.id: snapshot for snapshot in tagged if snapshot.id > after}
    for number in reversed([number for number in meta.snapshots.ids() if number > after]):
        identity = known.get(id_on(meta, number))
        if proven and identity is not None:
            named = kept.get(number)
            kept[number] = named if named and identity_of(named) == identity else None
            continue
        with suppress(SnapshotNotFound, Corrupt):  # it has expired since it was listed, or it is damaged
            retained = kept[number] = meta.snapshots.get(number)
            proven = proven or identity == identity_of(retained)
    return kept
