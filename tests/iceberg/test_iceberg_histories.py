"""The Iceberg metadata of a table under random histories, as a reader that is written from the specification (`iceberg_reader`)
sees it: after every step the rows of every published snapshot are those of lsmlake, and no file is named that is missing.

`LSMLAKE_EXAMPLES=20 pytest tests/iceberg/test_iceberg_histories.py` runs more of them.
"""

from __future__ import annotations

import json

import pytest
from effort import examples
from history import Player, histories, played
from hypothesis import given
from hypothesis import strategies as st
from iceberg_reader import IcebergReader
from iceberg_tables import ROOT, VECTORS, addressed, hashable
from lasting import LastingPlayer, lasting_histories
from merge_setups import SETUPS
from strategies import multiset

from lsmlake.api.table import Table
from lsmlake.errors import SnapshotNotFound
from lsmlake.format.snapshot import Snapshot
from lsmlake.iceberg import mirror
from lsmlake.iceberg.check import iceberg_findings
from lsmlake.iceberg.iceberg_view import shows_level0
from lsmlake.iceberg.lineage import id_on
from lsmlake.storage.storage import read_bytes


def reader_of(player: Player) -> IcebergReader:
    storage = player.table.meta.env.storage

    def read(uri: str) -> bytes:
        return read_bytes(storage, uri.removeprefix(ROOT))

    found = mirror.publish(player.table.meta)
    return IcebergReader(json.loads(read(found.metadata_file)), read)


def snapshots_of(table: Table) -> dict[int, Snapshot]:
    """The snapshots that are retained, tagged, or begin a branch, by number."""
    meta = table.meta
    found = {holder.snapshot.id: holder.snapshot for holder in meta.branches.holders()} if meta.paths.branch is None else {}
    found |= {tag.snapshot.id: tag.snapshot for tag in meta.tags.readable()}
    return found | {number: meta.snapshots.get(number) for number in meta.snapshots.ids()}


def check_rows(found: IcebergReader, table: Table, snapshot: Snapshot, id: int) -> None:
    schema = table.meta.schemas.of(snapshot)
    mode = "fresh" if shows_level0(schema) or schema.append_only else "raw"
    try:
        rows = table.scan(snapshot=snapshot.id, mode=mode).to_arrow().to_pylist()
    except SnapshotNotFound:  # it has expired; a branch begins at it
        return
    assert multiset(map(hashable, found.rows(id))) == multiset(map(hashable, rows)), snapshot.id


def check_branch(found: IcebergReader, branch: Table, name: str) -> set[int]:
    """The ids of its snapshots. A branch with columns or partitions of its own may be left out."""
    meta = branch.meta
    begins = meta.branches.state(meta.branches.get(name)).base
    every = snapshots_of(branch)
    ids = {number: id_on(meta, number) for number in every if begins is None or number > begins.id}
    ref = found.metadata["refs"].get(name)
    if ref is None:
        assert begins is None or not ids.values() & found.snapshots.keys()
        return set()
    for number, id in sorted(ids.items())[-2:]:
        if id in found.snapshots:
            check_rows(found, branch, every[number], id)
    published = [number for number, id in ids.items() if id in found.snapshots]
    assert ref == {"snapshot-id": ids[max(published)] if published else begins.id, "type": "branch"}
    return set(ids.values())


def check(player: Player) -> None:
    table = player.table
    if table.version.snapshot is None or table.version.schema.merges_at_read:
        return
    found = reader_of(player)
    every = snapshots_of(table)
    kept = {number for number, one in every.items() if not table.meta.schemas.of(one).merges_at_read}
    of_branches = {number for number in found.snapshots if number >= 1 << 62}
    assert set(found.snapshots) - of_branches == kept
    for number in sorted(kept)[-3:]:
        check_rows(found, table, every[number], number)
    for name in table.branches()["branch_name"].to_pylist():
        of_branches -= check_branch(found, table.branch(name), name)
    assert not of_branches, "snapshots that no branch has"
    storage = table.meta.env.storage
    assert all(storage.size(uri.removeprefix(ROOT)) is not None for uri in found.named())
    assert iceberg_findings(table.meta, lambda what: None) == []
    tags = {tag.name: tag.snapshot.id for tag in table.meta.tags.readable()}
    published = {name: number for name, number in tags.items() if number in kept}
    refs = {name: ref["snapshot-id"] for name, ref in found.metadata["refs"].items() if ref["type"] == "tag"}
    prefixes = tuple(f"{name}/" for name in table.branches()["branch_name"].to_pylist())
    assert {name: id for name, id in refs.items() if not name.startswith(prefixes)} == published


@pytest.mark.parametrize("rule", SETUPS)
def test_every_snapshot_is_one_of_iceberg(rule):
    @examples(3)
    @given(st.data())
    def run(data):
        with addressed:
            plan = data.draw(histories(rule, mode=data.draw(st.sampled_from(VECTORS)), alters=False))
            played(plan, check)

    run()


@examples(4)
@given(st.data())
def test_a_table_that_lives_long_is_one_of_iceberg(data):
    with addressed:
        mode = data.draw(st.sampled_from(VECTORS))
        played(data.draw(lasting_histories("deduplicate", mode=mode)), check, LastingPlayer)
