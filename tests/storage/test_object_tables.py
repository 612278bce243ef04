"""Tables in object stores: every kind of verb, and random histories."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from effort import examples
from history import Player, Publishing, histories, play
from hypothesis import given
from hypothesis import strategies as st
from merge_setups import SETUPS
from object_servers import Server
from strategies import rows_of

import lsmlake
from lsmlake.api.lake import Lake, table_at
from lsmlake.errors import InvalidQuery, TableNotFound
from lsmlake.storage.address import address_of
from lsmlake.storage.objects import ObjectStorage

MANY = 3_000


@pytest.fixture(params=["s3", "memory", "file"])
def lake(request, tmp_path) -> Lake:
    if request.param == "s3":
        server: Server = request.getfixturevalue("s3")
        return lsmlake.connect(server.warehouse(), storage_options=server.options)
    return lsmlake.connect(f"file://{tmp_path}" if request.param == "file" else f"memory://{tmp_path.name}")


def rows(first: int, stop: int, value: int) -> pa.Table:
    return pa.table({"k": range(first, stop), "v": [value] * (stop - first)})


def test_the_life_of_a_table(lake: Lake):
    lake.create_database("d")
    table = lake.create_table(
        "d.t", "k BIGINT, v BIGINT", primary_key=["k"], options={"bucket": 2, "changelog-producer": "lookup"}
    )
    table.upsert(rows(0, MANY, 0))
    table.upsert(rows(10, 20, 1))
    table.create_tag("old")
    table.upsert(rows(15, 30, 2), compact=False)
    table.delete_keys({"k": [0, 29]})
    expected = {k: 2 if 15 <= k < 29 else 1 if 10 <= k < 15 else 0 for k in range(1, MANY) if k != 29}

    def stored() -> dict[int, int]:
        return dict(rows_of(table.scan().to_arrow()))

    assert stored() == expected
    assert table.scan(where="v = 2").count() == 14
    assert table.get({"k": 12}) == {"k": 12, "v": 1} and table.get({"k": 29}) is None
    assert lake.sql("SELECT v, count(*) FROM d.t GROUP BY v ORDER BY v").fetchall() == [(0, MANY - 21), (1, 5), (2, 14)]
    lake.sql("UPDATE d.t SET v = 7 WHERE k = 5")
    expected[5] = 7
    table.compact(full=True)
    assert stored() == expected
    assert [row["v"] for row in pa.table(table.changes(1, 2)).to_pylist()].count(1) == 10
    assert dict(rows_of(table.scan(tag="old").to_arrow())) == {k: int(10 <= k < 20) for k in range(MANY)}

    table.create_branch("b")
    branch = lake.table("d.t$branch_b")
    branch.upsert(rows(5, 6, 8))
    assert (branch.get({"k": 5})["v"], table.get({"k": 5})["v"]) == (8, 7)
    table.fast_forward("b")
    expected[5] = 8
    table.delete_branch("b")
    table.alter(lsmlake.add_column("note", "STRING"))
    table.alter(lsmlake.drop_column("note"))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    stray = f"{table.path}/bucket-0/data-stray.parquet"
    with lake.env.storage.write(stray) as sink:
        sink.write(b"stray")
    while stray not in table.remove_orphan_files(older_than="2100-01-01").paths:
        time.sleep(0.1)  # stores date objects in seconds, and one of this second is not yet older than now
    assert list(table.verify()) == []
    assert stored() == expected
    assert dict(rows_of(table.scan(tag="old").to_arrow())) == {k: int(10 <= k < 20) for k in range(MANY)}

    assert (lake.databases(), lake.tables()) == (["d"], ["d.t"])
    lake.drop_table("d.t")
    with pytest.raises(TableNotFound):
        lake.table("d.t")
    assert [entry.path for entry in lake.env.storage.list("")] == ["d.db/database.json"]
    again = lake.create_table("d.t", "k BIGINT, w STRING", primary_key=["k"])
    with pytest.raises(TableNotFound):
        table.upsert(rows(0, 1, 0))
    again.upsert({"k": [1], "w": ["x"]})
    assert lake.table("d.t").scan().to_arrow().to_pylist() == [{"k": 1, "w": "x"}]
    lake.drop_database("d", cascade=True)
    assert list(lake.env.storage.list("")) == []


def test_a_table_in_an_object_store_is_not_renamed(s3: Server):
    lake = lsmlake.connect(s3.warehouse(), storage_options=s3.options)
    lake.create_database("d")
    lake.create_table("d.t", "k BIGINT", primary_key=["k"])
    with pytest.raises(InvalidQuery, match="cannot rename a table"):
        lake.rename_table("d.t", "d.u")
    assert lake.tables() == ["d.t"]


def test_connections_to_one_name_in_memory_share_it():
    lake = lsmlake.connect("memory://shared")
    lake.create_database("d")
    assert lsmlake.connect("memory://shared").databases() == ["d"]
    assert lsmlake.connect("memory://other").databases() == []
    with pytest.raises(InvalidQuery, match="no other process"):
        lsmlake.connect("memory://shared", spark=object())


def test_a_table_is_opened_by_its_address(s3: Server, monkeypatch: pytest.MonkeyPatch):
    """As `spark.read.format("lsmlake")` does, with credentials of the environment."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, str(s3.options[{"url": "endpoint"}.get(name.rpartition("_")[2].lower(), name[4:].lower())]))
    lake = lsmlake.connect(s3.warehouse())
    lake.create_database("d")
    lake.create_table("d.t", "k BIGINT", primary_key=["k"]).upsert({"k": [1]})
    assert table_at(lake.env.storage.place("d.db/t")).scan().count() == 1


class Objects(Publishing, ObjectStorage):
    """In an object store."""


class ObjectPlayer(Player):
    server: Server

    def made_storage(self) -> Publishing:
        return Objects(address_of(self.server.warehouse()), self.server.options)


def test_a_table_in_an_object_store_is_its_model_after_every_step(s3: Server):
    class Here(ObjectPlayer):
        server = s3

    @examples(2)
    @given(st.data())
    def check(data):
        play(data.draw(histories(data.draw(st.sampled_from(list(SETUPS))))), data.draw, Here)

    check()
