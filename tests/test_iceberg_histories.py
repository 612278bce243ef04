"""The Iceberg metadata of a table under random histories, as a reader that is written from the specification (`iceberg_reader`)
sees it: after every step the rows of every published snapshot are those of lsmlake, and no file is named that is missing.

`LSMLAKE_EXAMPLES=20 pytest tests/test_iceberg_histories.py` runs more of them.
"""

from __future__ import annotations

import json
from unittest.mock import patch

import pytest
from effort import examples
from history import Player, histories, played
from hypothesis import given
from hypothesis import strategies as st
from iceberg_reader import IcebergReader
from lasting import LastingPlayer, lasting_histories
from merge_setups import SETUPS
from strategies import multiset

from lsmlake.api.table import Table
from lsmlake.format.snapshot import Snapshot
from lsmlake.interop.iceberg import mirror
from lsmlake.interop.iceberg.changes import shows_level0
from lsmlake.maintain.iceberg_check import iceberg_findings
from lsmlake.store.memory import MemoryStorage
from lsmlake.store.storage import read_bytes

ROOT = "memory://warehouse/"
VECTORS = ["vectors", "vectors, lazy", "vectors, few levels", "vectors, universal", "write-only"]
addressed = patch.object(MemoryStorage, "place", lambda self, path: f"{ROOT}{path}")


def reader_of(player: Player) -> IcebergReader:
    storage = player.table.meta.env.storage

    def read(uri: str) -> bytes:
        return read_bytes(storage, uri.removeprefix(ROOT))

    found = mirror.publish(player.table.meta)
    return IcebergReader(json.loads(read(found.metadata_file)), read)


def snapshot_of(table: Table, number: int) -> Snapshot:
    """A snapshot, or a tagged one that has expired."""
    tagged = {tag.snapshot.id: tag.snapshot for tag in table.meta.tags.readable()}
    return tagged[number] if number in tagged else table.meta.snapshots.get(number)


def hashable(value: object) -> object:
    if isinstance(value, dict):
        return tuple((name, hashable(of)) for name, of in sorted(value.items()))
    if isinstance(value, float) and value != value:
        return "NaN"
    return tuple(map(hashable, value)) if isinstance(value, list) else value


def check(player: Player) -> None:
    table = player.table
    if table.version.snapshot is None or table.current.merges_at_read:
        return
    found = reader_of(player)
    every = set(table.meta.snapshots.ids()) | {tag.snapshot.id for tag in table.meta.tags.readable()}
    kept = {number for number in every if not table.meta.schemas.of(snapshot_of(table, number)).merges_at_read}
    assert set(found.snapshots) == kept
    for number in sorted(kept)[-3:]:
        schema = table.meta.schemas.of(snapshot_of(table, number))
        mode = "fresh" if shows_level0(schema) or schema.append_only else "raw"
        rows = table.scan(snapshot=number, mode=mode).to_arrow().to_pylist()
        assert multiset(map(hashable, found.rows(number))) == multiset(map(hashable, rows)), number
    storage = table.meta.env.storage
    assert all(storage.size(uri.removeprefix(ROOT)) is not None for uri in found.named())
    assert iceberg_findings(table.meta, lambda what: None) == []
    tags = {tag.name: tag.snapshot.id for tag in table.meta.tags.readable()}
    published = {name: number for name, number in tags.items() if number in kept}
    assert {name: ref["snapshot-id"] for name, ref in found.metadata["refs"].items() if ref["type"] == "tag"} == published


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
