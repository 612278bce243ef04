"""The cache of a table handle: an old handle sees the same as a new one, with few storage calls and bounded memory."""

from __future__ import annotations

import pyarrow as pa
from effort import examples
from faults import FaultStorage
from history import Player, histories, played
from hypothesis import given
from hypothesis import strategies as st
from merge_setups import SETUPS
from strategies import lake_on, new_lake

from lsmlake import set_option
from lsmlake.api.following import Following
from lsmlake.api.table import Table
from lsmlake.cdc.follow import Offset
from lsmlake.format.snapshot import Snapshot
from lsmlake.schema.alterations.altered import altered
from lsmlake.storage.memory import MemoryStorage
from lsmlake.tables.version import Metadata


def made(storage: MemoryStorage | None = None) -> Table:
    return new_lake(storage).create_table("d.t", "k INT NOT NULL, v INT", primary_key=["k"], options={"bucket": "1"})


def write(table: Table, key: int) -> Snapshot:
    return table.upsert({"k": [key], "v": [0]}, compact=False)


# -- the same as a new handle -----------------------------------------------------------------------------------------


def described(table: pa.Table) -> str:
    return f"{table.schema.to_string(show_schema_metadata=True)} {table.to_pydict()}"


def metadata(meta: Metadata, number: int) -> list[str]:
    """All that a snapshot says of the table, with types."""
    snapshot = meta.snapshots.get(number)
    schema, manifests = meta.schemas.of(snapshot), meta.manifests
    metas = manifests.metas(snapshot)
    states = sorted(
        (str(bucket), state.total_buckets, sorted(map(repr, state.files)), sorted(state.vectors.items()))
        for bucket, state in manifests.states(snapshot, schema).items()
    )
    tables = [manifests.live(snapshot, schema).sort_by("name"), *(manifests.entries(one, schema) for one in metas)]
    return [*map(described, tables), repr(metas), repr(sorted(manifests.vector_refs(snapshot).items())), repr(states)]


@examples(12)
@given(data=st.data())
def test_a_handle_that_wrote_the_metadata_reads_what_a_new_one_reads(data):
    """Its cache holds what it has written itself, and the live files continued commit by commit."""

    def same(player: Player) -> None:
        if last := player.table.meta.snapshots.latest_id():
            for number in (last, data.draw(st.integers(1, last))):
                assert metadata(player.table.meta, number) == metadata(player.table.meta.with_empty_cache(), number)

    played(data.draw(histories(data.draw(st.sampled_from(list(SETUPS))))), same)


class BetweenSizes(MemoryStorage):
    """Calls `then` right after the size of `path` was asked for, once."""

    path, then = "", None

    def size(self, path: str) -> int | None:
        found = super().size(path)
        if path == self.path and self.then:
            then, self.then = self.then, None
            then()
        return found


def test_a_snapshot_that_is_followed_while_it_is_looked_up_has_not_expired():
    storage = BetweenSizes()
    table = made(storage)
    write(table, 1)
    other = lake_on(storage, "other-").table("d.t")
    storage.path, storage.then = table.meta.paths.snapshot(2), lambda: write(other, 2)
    for _ in range(2):
        assert table.scan(snapshot=1).count() == 1
    assert storage.then is None


def test_a_schema_that_lost_its_race_is_not_remembered():
    storage = MemoryStorage()
    table = made(storage)
    write(table, 1)
    lost = altered(table.version.schema, [set_option("write-only", "true")], 1, 0, "d.t")
    assert table.meta.schemas.put(lost)
    assert table.schemas()["schema_id"].to_pylist() == [0, 1]
    storage.delete(table.meta.paths.schema(1))
    lake_on(storage, "other-").table("d.t").alter(set_option("target-file-size", "64 mb"))
    assert dict(table.options) == {"bucket": "1", "target-file-size": "64 mb"}


# -- few calls --------------------------------------------------------------------------------------------------------


def test_a_handle_that_slept_for_long_finds_the_newest_snapshot_by_the_hint():
    storage = FaultStorage(MemoryStorage())
    table, other = made(storage), lake_on(storage, "other-").table("d.t")
    write(table, 0)
    for number in range(203):
        write(other, number)
    storage.calls = []
    assert table.meta.snapshots.latest_id() == 204
    assert len(storage.calls) <= 40


def test_the_live_files_of_an_older_snapshot_are_folded_once():
    table = made()
    first = write(table, 1)
    write(table, 2)
    schema = table.version.schema
    table.scan().count()
    assert table.meta.manifests.live(first, schema) is table.meta.manifests.live(first, schema)


# -- bounded memory ---------------------------------------------------------------------------------------------------


def test_a_follower_counts_every_file_that_its_plans_describe():
    """A difference holds both states of a bucket: of 40 files here, however few of them changed."""
    table = made()
    for key in range(60):
        write(table, key)
    follower = Following("from-snapshot", 41, mode="diff").follower(table.meta, "UTC")
    assert len(list(follower.pieces(Offset(41), follower.end()))) == 20
    assert follower.known.bytes > 20 * 2 * 40 * 500
