"""A table with a key may hold files that another system wrote: rows in any order, key ranges that overlap, dead rows with keys
that live elsewhere. Random histories (`history`) in which compacted buckets are replaced by such files again and again.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from effort import examples
from history import RARE, REPLACING, VERBS, Step, histories, play
from hypothesis import given
from hypothesis import strategies as st
from lasting import LASTING, LastingPlayer
from merge_setups import INTS, SETUPS
from unsorted import shuffle

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.spill import in_key_order
from lsmlake.format.data_files import BucketEdit, CommitMessage
from lsmlake.lsm.merge.rule import OldRow
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.tables.version import Version

RULES = [rule for rule in SETUPS if rule.startswith(("deduplicate", "first-row"))]
MODES = ["vectors", "vectors, lazy", "vectors, few levels", "vectors, universal", "vectors, gentle", "write-only"]


class ShufflingPlayer(LastingPlayer):
    def _shuffle(self, step: Step) -> None:
        rule = rule_of(Version.latest(self.table.meta).schema)
        if not self.world.vectors or rule.old_row is OldRow.MERGED:
            return
        shuffle(self.table, random.Random(step.number), 1 + step.number % 4)
        self._noted()


@pytest.mark.parametrize("rule", RULES)
def test_a_table_with_files_that_are_not_sorted_is_its_model(rule):
    @examples(4)
    @given(st.data())
    def check(data):
        mode = data.draw(st.sampled_from(MODES))
        rare = RARE if SETUPS[rule].columns == INTS else RARE[:3]
        verbs = (*VERBS, *REPLACING, *rare, *LASTING, *["shuffle"] * 4)
        plan = data.draw(histories(rule, verbs=verbs, inner=(*VERBS, *REPLACING), mode=mode, loaded=True))
        first = Step("shuffle", b"", None, data.draw(st.integers(0, 255)))
        play(plan._replace(steps=(first, *plan.steps)), data.draw, ShufflingPlayer)

    check()


@pytest.fixture
def lake(tmp_path) -> Lake:
    made = lsmlake.connect(tmp_path)
    made.create_database("d")
    table = made.create_table("d.t", "k INT NOT NULL, v STRING", primary_key=["k"], options={"bucket": 1})
    table.upsert({"k": list(range(2000)), "v": [f"v{k}" for k in range(2000)]})
    assert shuffle(table, random.Random(1))
    return made


@pytest.fixture
def table(lake) -> Table:
    return lake.table("d.t")


def sources(table: Table) -> list[str]:
    return table.files()["file_source"].to_pylist()


def test_files_that_are_not_sorted_are_left_to_compaction_jobs(table):
    """A writer marks the rows that it supersedes; a compaction brings all rows in key order."""
    assert sources(table) == ["IMPORT"] * 3
    table.upsert({"k": [5, 2000], "v": ["new", "new"]})
    assert sources(table).count("IMPORT") == 3
    assert table.scan().count() == 2001
    assert table.get({"k": 5}) == {"k": 5, "v": "new"}
    assert table.compact().snapshot_id is not None
    assert "IMPORT" not in sources(table)
    assert table.verify() == []
    assert table.scan(where="k < 7").to_arrow().sort_by("k")["v"].to_pylist() == ["v0", "v1", "v2", "v3", "v4", "new", "v6"]


@pytest.mark.parametrize(("order", "first"), [("ASC", [0, 1, 2]), ("DESC", [1999, 1998, 1997])])
def test_first_rows_by_key_come_from_all_of_a_file(lake, order, first):
    assert lake.sql(f"SELECT k FROM d.t ORDER BY k {order} LIMIT 3").to_arrow()["k"].to_pylist() == first


def test_files_without_live_rows_are_dropped_by_writers(table):
    names = table.files()["file_path"].to_pylist()
    version = Version.latest(table.meta)
    (state,) = version.states().values()
    with BucketFiles.of(version, state.bucket).open(state.files[0]) as reader:
        keys = reader.read(range(reader.groups), ["k"])
    table.delete_keys(keys)
    left = table.files()["file_path"].to_pylist()
    assert len(set(names) - set(left)) == 1
    assert sources(table).count("IMPORT") == 2


def test_rows_are_sorted_in_bounded_memory():
    """Beyond the buffer, sorted runs are spilled and merged."""
    chance = random.Random(3)
    keys = [chance.randrange(10**6) for _ in range(5000)]
    tables = [pa.table({"k": keys[start : start + 100], "v": range(start, start + 100)}) for start in range(0, 5000, 100)]
    for buffer_bytes in (1, 20_000, 1 << 30):
        found = pa.concat_tables(in_key_order(iter(tables), ["k"], buffer_bytes, 4_000)).to_pylist()
        assert [(row["k"], row["v"]) for row in found] == sorted(zip(keys, range(5000), strict=True))


def test_verify_finds_wrong_key_bounds_and_keys_that_live_twice(table):
    version = Version.latest(table.meta)
    (state,) = version.states().values()
    first, *others = state.files
    twin = first._replace(name=f"data-{'0' * 32}.parquet", min_key=(-1,))
    storage, paths = table.meta.env.storage, table.meta.paths
    with storage.read(paths.data(first)) as source, storage.write(paths.data(twin)) as sink:
        sink.write(source.read())
    edit = BucketEdit(state.bucket, state.total_buckets, (twin,), tuple(others[:1]), dict(state.vectors), state)
    commit(version, Request(Identity("test"), [CommitMessage(state.bucket, compact=edit)]))
    found = [finding.what for finding in table.verify()]
    assert any("the first key differs" in what for what in found)
    assert not any("ascending" in what for what in found)
    edit = replace(edit, added=(twin._replace(min_key=first.min_key, name=twin.name),), removed=(twin,), base=None, vectors={})
    state = next(iter(Version.latest(table.meta).states().values()))
    message = CommitMessage(state.bucket, compact=replace(edit, base=state))
    commit(Version.latest(table.meta), Request(Identity("test-2"), [message]))
    assert any("live in more than one file" in finding.what for finding in table.verify())
