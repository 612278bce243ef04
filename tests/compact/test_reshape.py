"""Buckets split, merge and are rescaled: no row, change or delete is lost, whoever writes, reads or compacts meanwhile."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import SCALE
from history import Meanwhile
from naive import naive
from strategies import Names, Ticks, lake_on

import lsmlake
from lsmlake import connect, set_option
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.cdc.change_reader import by_bucket
from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.errors import InvalidOption, InvalidQuery
from lsmlake.format.data_files import CommitMessage
from lsmlake.lsm.cover import Share
from lsmlake.write.write import write_tables
from lsmlake.write.write_request import WriteRequest

KEYS, OTHERS = 400, count()


def table_of(storage: Meanwhile | None = None, ddl: str = "k BIGINT, v BIGINT", partition_by: tuple = (), **options) -> Table:
    lake = lake_on(storage or Meanwhile(Ticks()))
    lake.create_database("d")
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    key = ["k", *partition_by]
    return lake.create_table("d.t", ddl, primary_key=key, partition_by=list(partition_by), options=named)


def beside(table: Table, name: str = "d.t") -> Table:
    """The handle of another program."""
    return Lake(replace(table.meta.env, ids=Names(f"o{next(OTHERS)}-")), Runtime()).table(name)


def rows(first: int, last: int, value: int) -> pa.Table:
    return pa.table({"k": np.arange(first, last), "v": np.full(last - first, value)})


def values(table: Table, **how) -> dict[int, int]:
    found = table.scan(**how).to_arrow()
    assert found.num_rows == len(set(found["k"].to_pylist()))
    return dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


def shares(table: Table) -> set[Share]:
    """The buckets with files."""
    return {Share(bucket.number, state.total_buckets) for bucket, state in table.states().items()}


def mixed(table: Table) -> None:
    """Splits the rows of one bucket until totals differ."""
    table.rescale(2)
    found = table.version.covers()
    assert found.of((0, ())).slots == 2
    split_bucket(table, Share(1, 2))


def split_bucket(table: Table, share: Share, parts: int = 2) -> None:
    from lsmlake.compact.reshape import reshape
    from lsmlake.lsm.pick.reshaping import Reshaping

    steps = [Reshaping((share,), share.parts(parts))]
    reshape(table.version, lambda cover, states: steps if cover.has(share) else [], lambda bucket: True)


ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")


@pytest.mark.parametrize(
    ("engine", "vectors"),
    [
        (engine, vectors)
        for (number, engine), (turn, vectors) in product(enumerate(ENGINES), enumerate(("true", "false")))
        if SCALE >= 1 or (number + turn) % 2 == 0
    ],
)
def test_any_number_to_any_number(engine, vectors):
    """Level 0, deeper levels, vectors and deletes are divided and merged; changes over all of it are none."""
    table = table_of(bucket=3, merge_engine=engine, deletion_vectors__enabled=vectors)
    for turn in range(4):
        table.upsert(rows(40 * turn, 40 * turn + 200, turn), compact=turn != 2)
    if engine == "deduplicate":
        table.delete_keys(pa.table({"k": np.arange(0, 60)}), compact=False)
    expected, before = values(table), table.version.number
    for number in (4, 3, 16, 2, 1, 6, "auto"):
        report = table.rescale(number)
        assert report.snapshot_id == before + 1 if number != "auto" else report.snapshot_id
        assert values(table) == expected
        assert table.verify() == []
        assert {total for _, total in shares(table)} == {1 if number == "auto" else number}
        assert table.changes(before, table.version.number, mode="diff").to_arrow().num_rows == 0
        assert table.get({"k": 150})["v"] == expected[150]
        before = table.version.number
    assert table.rescale("auto").snapshot_id is None
    table.compact(full=True)
    assert values(table) == expected


def test_a_cover_with_several_totals_reads_and_writes():
    table = table_of(bucket=1)
    table.upsert(rows(0, KEYS, 1))
    mixed(table)
    assert shares(table) == {Share(0, 2), Share(1, 4), Share(3, 4)}
    table.upsert(rows(100, KEYS + 100, 2))
    assert table.verify() == []
    assert values(table) == {k: 1 + (k >= 100) for k in range(KEYS + 100)}
    assert {k: table.get({"k": k})["v"] for k in range(90, 110)} == {k: 1 + (k >= 100) for k in range(90, 110)}
    for k in (5, 6, 7, 8):
        assert table.scan(where=f"k = {k}").plan().files <= 2, "one bucket has the key"
        assert values(table, where=f"k = {k}") == {k: 1}
    listed = table.partitions()
    assert listed["total_buckets"].to_pylist() == [4]


def test_a_bucket_without_files_still_has_its_keys():
    table = table_of(bucket=1)
    table.upsert(rows(0, KEYS, 1))
    mixed(table)
    number = {key: next(b.number for b, _, keys in held(table) if key in keys) for key in range(KEYS)}
    gone = [key for key in range(KEYS) if number[key] == 3]
    table.delete_keys(pa.table({"k": gone}))
    table.compact(full=True)
    assert shares(table) == {Share(0, 2), Share(1, 4)}
    table.upsert(pa.table({"k": gone, "v": [7] * len(gone)}))
    assert shares(table) == {Share(0, 2), Share(1, 4), Share(3, 4)}
    assert values(table) == {k: 7 if k in set(gone) else 1 for k in range(KEYS)}


def held(table: Table):
    """(bucket, state, keys) of each bucket."""
    from lsmlake.files.bucket_files import BucketFiles

    for bucket, state in table.states().items():
        found: set[int] = set()
        for file in state.files:
            with BucketFiles.of(table.version, bucket).open(file) as reader:
                found |= set(reader.read(range(reader.groups), ["k"])["k"].to_pylist())
        yield bucket, state, found


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1), (3, 4), (2, 8)])
def test_a_writer_that_has_read_the_buckets_before_they_were_split(before, after, producer, compact):
    """Its level-0 file, and its changelog, are divided or merged for the buckets that there are when it commits."""
    table = table_of(bucket=before, changelog_producer=producer)
    table.upsert(rows(0, KEYS, 1))
    late = table.version
    table.rescale(after)
    start = table.version.number
    snapshot = write_tables(late, [rows(200, KEYS + 50, 2)], WriteRequest(Identity("w", 1), compact=compact))
    assert snapshot.id == start + 1
    assert snapshot.delta_rows == KEYS - 150
    assert values(table) == {k: 1 + (k >= 200) for k in range(KEYS + 50)}
    assert table.verify() == []
    assert {total for _, total in shares(table)} == {after}
    table.compact()
    assert table.verify() == []
    changes = table.changes(start, table.version.number, mode="changelog" if producer != "none" else "diff").to_arrow()
    if producer == "input":
        assert changes.num_rows == KEYS - 150
    else:
        assert sorted(changes["_row_kind"].to_pylist()) == sorted(["-U", "+U"] * 200 + ["+I"] * 50)
    delta = table.changes(start, start + 1, mode="delta").to_arrow()
    assert sorted(delta["k"].to_pylist()) == list(range(200, KEYS + 50))
    again = write_tables(late, [rows(200, 201, 9)], WriteRequest(Identity("w", 1)))
    assert again.id == snapshot.id


def test_what_a_writer_wrote_for_a_bucket_that_was_split_is_removed():
    storage = Meanwhile(Ticks())
    table = table_of(storage, bucket=1)
    table.upsert(rows(0, KEYS, 1))
    late = table.version
    table.rescale(4)
    write_tables(late, [rows(0, 50, 2)], WriteRequest(Identity("w")))
    assert naive(table).unreferenced() == []


@pytest.mark.parametrize("number", [1, 3, 8])
def test_rows_that_come_while_buckets_are_rescaled(number):
    storage = Meanwhile(Ticks())
    table = table_of(storage, bucket=2, write_only="true")
    table.upsert(rows(0, KEYS, 1))
    other = beside(table)
    storage.before_publish = lambda: other.upsert(rows(100, 150, 2)) and other.delete_keys(pa.table({"k": [0, 399]}))
    table.rescale(number)
    expected = {k: 2 if 100 <= k < 150 else 1 for k in range(1, KEYS - 1)}
    assert values(table) == expected
    assert {total for _, total in shares(table)} == {number}
    assert table.verify() == []
    assert [snapshot["commit_kind"] for snapshot in table.snapshots().to_pylist()] == ["APPEND", "APPEND", "APPEND", "COMPACT"]
    table.compact(full=True)
    assert values(table) == expected
    assert naive(table).unreferenced() == []


@pytest.mark.parametrize("strategy", [{}, {"compaction__strategy": "universal", "lookup_compact": "gentle"}])
def test_level_0_stays_newer_than_what_it_is_merged_with(strategy):
    """Rows of one bucket wait, and later ones of the other do not: they must not become older than those by their sequence."""
    table = table_of(bucket=2, **strategy)
    table.upsert(rows(0, KEYS, 1))
    number = {key: bucket.number for bucket, _, keys in held(table) for key in keys}
    first, second = ([key for key in range(KEYS) if number[key] == n][:20] for n in (0, 1))
    table.upsert(pa.table({"k": first, "v": [2] * 20}), compact=False)
    table.upsert(pa.table({"k": second, "v": [3] * 20}))
    table.compact(full=True, buckets=[1])
    table.rescale(1)
    for state in table.states().values():
        waiting = [file.sequence for file in state.files if not file.level]
        assert not waiting or min(waiting) > max(file.sequence for file in state.files if file.level)
    assert shares(table) == {Share(0, 1)}
    assert values(table) == {k: 2 if k in first else 3 if k in second else 1 for k in range(KEYS)}


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_split_joins_deeper_levels_if_no_key_is_in_two(vectors):
    """They are one run at the deepest level; without vectors each stays, since a key may be in several."""
    table, noise = (
        table_of(bucket=1, deletion_vectors__enabled=vectors, num_sorted_run__compaction_trigger=3),
        np.random.default_rng(1),
    )
    for size, runs in ((20_000, 3), (2_000, 2), (100, 1)):
        for _ in range(runs):  # whose bytes are as their rows, so a compaction joins runs of one size
            table.upsert(pa.table({"k": np.arange(size), "v": noise.integers(0, 1 << 60, size)}))
    table.upsert(rows(0, 20, 3), compact=False)
    (before,) = table.states().values()
    levels = {file.level for file in before.files}
    assert len(levels) > 2 and 0 in levels
    expected = values(table)
    split_bucket(table, Share(0, 1))
    assert shares(table) == {Share(0, 2), Share(1, 2)}
    for state in table.states().values():
        deeper = [file for file in state.files if file.level]
        assert {file.level for file in deeper} == ({max(levels)} if vectors == "true" else levels - {0})
        assert min(file.sequence for file in state.files if not file.level) > max(file.sequence for file in deeper)
        assert vectors == "false" or not state.vectors
    assert values(table) == expected
    assert table.verify() == []
    table.compact()
    assert values(table) == expected


def test_published_for_iceberg_before_and_after(tmp_path):
    table = lsmlake.connect(tmp_path)
    table.create_database("d")
    table = table.create_table("d.t", "k BIGINT, v BIGINT", primary_key=["k"], options={"bucket": 3, "metadata.iceberg": True})
    for turn in range(3):
        table.upsert(rows(50 * turn, 50 * turn + 200, turn), compact=turn < 2)
    table.delete_keys(pa.table({"k": np.arange(30)}), compact=False)
    for number in (2, 8, 1, 6):
        table.rescale(number)
        table.upsert(rows(300, 310, number), compact=False)
        assert table.verify() == [], "which reads the metadata of Iceberg"


def test_files_that_another_system_wrote_are_divided(tmp_path):
    order = np.random.default_rng(0).permutation(KEYS)
    pq.write_table(pa.table({"k": order, "v": order * 2}), tmp_path / "in.parquet")
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("d")
    table = lake.import_parquet(str(tmp_path / "in.parquet"), "d.t", primary_key=["k"])
    table = lake.table("d.t")
    table.upsert(rows(0, 10, 7))
    expected = {k: 7 if k < 10 else 2 * k for k in range(KEYS)}
    for number in (3, 4, 1):
        table.rescale(number)
        assert values(table) == expected
        assert table.verify() == []


def test_the_size_of_buckets_is_refused_where_no_key_could_split_them(tmp_path):
    lake = connect(tmp_path)
    lake.create_database("d")
    with pytest.raises(InvalidOption, match=r"bucket\.target-size.* has no effect.*set bucket-key, or leave the option out"):
        lake.create_table("d.t", "k INT", options={"bucket.target-size": "1 mb"})
    lake.create_table("d.t", "k INT", options={"bucket.target-size": "1 mb", "bucket-key": "k"})


def test_a_compaction_that_comes_first_lets_the_split_begin_again():
    storage = Meanwhile(Ticks())
    table = table_of(storage, bucket=2)
    table.upsert(rows(0, KEYS, 1))
    table.upsert(rows(0, 100, 2), compact=False)
    other = beside(table)
    storage.before_publish = lambda: other.compact(full=True)
    table.rescale(4)
    assert values(table) == {k: 1 + (k < 100) for k in range(KEYS)}
    assert {total for _, total in shares(table)} == {4}
    assert naive(table).unreferenced() == []


def test_a_compaction_of_a_bucket_that_was_split_is_dropped_and_picked_again():
    storage = Meanwhile(Ticks())
    table = table_of(storage, bucket=1)
    table.upsert(rows(0, KEYS, 1))
    table.upsert(rows(0, 100, 2), compact=False)
    other = beside(table)
    storage.before_publish = lambda: other.rescale(4)
    table.compact(full=True)
    assert values(table) == {k: 1 + (k < 100) for k in range(KEYS)}
    assert all(file.level > 0 for state in table.states().values() for file in state.files)
    assert shares(table) == {Share(number, 4) for number in range(4)}


def test_an_insert_that_met_a_split_is_evaluated_again():
    """The other row of the key lies in a bucket that the statement has not read."""
    storage = Meanwhile(Ticks())
    table = table_of(storage, bucket=1)
    table.upsert(rows(0, 10, 1))
    other = beside(table)
    storage.before_publish = lambda: other.rescale(8) and other.upsert(rows(50, 80, 5))
    source = rows(50, 80, 9)
    table.merge(source, on="t.k = s.k").when_not_matched_insert_all().execute()
    assert values(table) == {**dict.fromkeys(range(10), 1), **dict.fromkeys(range(50, 80), 5)}


def test_update_and_delete_beside_a_split():
    storage = Meanwhile(Ticks())
    table = table_of(storage, bucket=1)
    table.upsert(rows(0, KEYS, 1))
    other = beside(table)
    storage.before_publish = lambda: other.rescale(4)
    table.update({"v": "v + 10"}, where="k < 50")
    storage.before_publish = lambda: other.rescale(3)
    table.delete(where="k >= 300")
    assert values(table) == {k: 11 if k < 50 else 1 for k in range(300)}
    assert table.verify() == []


def test_retained_deletes_go_with_their_keys():
    table = table_of(ddl="k BIGINT, v BIGINT, at BIGINT", bucket=2, sequence__field="at")
    at = lambda data, time: data.append_column("at", pa.array(np.full(data.num_rows, time)))  # noqa: E731
    table.upsert(at(rows(0, KEYS, 1), 1))
    table.delete_keys(pa.table({"k": np.arange(100), "at": np.full(100, 5)}))
    table.compact(full=True)
    for number in (6, 1, 4):
        table.rescale(number)
        table.upsert(at(rows(0, 50, number), 3))
        assert values(table) == dict.fromkeys(range(100, KEYS), 1), "rows older than the delete stay out"
        assert table.verify() == []
    table.upsert(at(rows(0, 50, 9), 7))
    assert values(table) == {**dict.fromkeys(range(50), 9), **dict.fromkeys(range(100, KEYS), 1)}


def test_changes_of_a_key_stay_in_order_across_a_split():
    table = table_of(bucket=1, changelog_producer="lookup")
    table.upsert(rows(0, KEYS, 0))
    start = table.version.number
    for turn, number in enumerate((2, 4, 3, 8, 1), 1):
        table.upsert(rows(0, KEYS, turn))
        table.rescale(number)
    table.delete_keys(pa.table({"k": np.arange(100)}))
    found = table.changes(start, table.version.number, mode="changelog").to_arrow().to_pylist()
    by_key: dict[int, list] = {}
    for change in found:
        by_key.setdefault(change["k"], []).append((change["_row_kind"], change["v"]))
    steps = [step for turn in range(5) for step in (("-U", turn), ("+U", turn + 1))]
    assert by_key == {k: steps + ([("-D", 5)] if k < 100 else []) for k in range(KEYS)}


def test_pieces_of_several_commits_have_all_changes_of_a_key():
    table = table_of(bucket=1, changelog_producer="input")
    for number in (4, 2, 3):
        table.upsert(rows(0, KEYS, number))
        table.rescale(number)
    from lsmlake.cdc.change_reader import snapshot_pieces
    from lsmlake.cdc.commits import Feed

    version = table.version
    like = Feed.of(version.schema, None, None)
    pieces = by_bucket(piece for n in range(1, version.number + 1) for piece in snapshot_pieces(table.meta, like, n, "changelog"))
    assert len(pieces) == 1, "1, 4 and 2 buckets have one bucket in common"
    assert len(pieces[0].steps) == 1 + 4 + 2


def test_partitions_have_covers_of_their_own():
    table = table_of(ddl="k BIGINT, v BIGINT, p STRING", partition_by=("p",), bucket=2)
    data = lambda value, *names: pa.concat_tables(  # noqa: E731
        [rows(0, 100, value).append_column("p", pa.array([name] * 100, pa.string())) for name in names]
    )
    table.upsert(data(1, "a", "b", "c"))
    table.rescale(5, where="p = 'b'")
    assert {b.partition[0]: s.total_buckets for b, s in table.states().items()} == {"a": 2, "b": 5, "c": 2}
    table.upsert(data(2, "b", "c", "d"))
    table.alter(set_option("bucket", 3))
    table.upsert(data(2, "e", "b"))
    assert {b.partition[0]: s.total_buckets for b, s in table.states().items()} == {"a": 2, "b": 5, "c": 2, "d": 2, "e": 3}
    assert table.partitions()["total_buckets"].to_pylist() == [2, 5, 2, 2, 3]
    assert table.count() == 500
    assert sum(row["v"] for row in table.scan(where="p = 'b'").to_pylist()) == 200
    assert table.get({"k": 7, "p": "b"})["v"] == 2
    assert table.verify() == []
    table.overwrite(data(9, "a"))
    assert {b.partition[0]: s.total_buckets for b, s in table.states().items()}["a"] == 3, "as a new partition"
    assert table.scan(where="p = 'a'").to_arrow()["v"].unique().to_pylist() == [9]


def test_an_auto_table_grows_and_shrinks():
    table = table_of(bucket__target_size="40 kb")
    chance = np.random.default_rng(0)

    def batch(first: int, last: int) -> pa.Table:
        return pa.table({"k": np.arange(first, last), "v": chance.integers(0, 1 << 60, last - first)})

    table.upsert(batch(0, 1_000))
    assert shares(table) == {Share(0, 1)}
    for turn in range(1, 30):
        table.upsert(batch(1_000 * turn, 1_000 * (turn + 1)))
    split = {total for _, total in shares(table)}
    assert max(split) >= 4, "writers split small buckets"
    report = table.compact()
    assert table.compact().snapshot_id is None
    assert report is not None
    assert table.count() == 30_000
    assert all(sum(f.bytes for f in state.files) <= 60_000 for state in table.states().values())
    assert table.verify() == []
    table.delete_keys(pa.table({"k": np.arange(50, 30_000)}))
    table.compact(full=True)
    assert shares(table) == {Share(0, 1)}
    assert table.count() == 50
    assert table.verify() == []


def test_a_fixed_number_stays():
    table = table_of(bucket=2)
    for turn in range(5):
        table.upsert(rows(100 * turn, 100 * (turn + 1), 1))
    table.compact(full=True)
    assert shares(table) == {Share(0, 2), Share(1, 2)}


@pytest.mark.parametrize("given", ["auto", -1, -2, "AUTO"])
def test_the_words_of_auto(given):
    table = table_of(bucket=given)
    assert table.version.options.layout.buckets == "auto"
    table.upsert(rows(0, 10, 1))
    assert shares(table) == {Share(0, 1)}


def test_append_only_tables_with_a_bucket_key_are_rescaled():
    lake = lsmlake.connect("memory://rescaled-appends")
    lake.create_database("d", if_not_exists=True)
    table = lake.create_table("d.t", "k BIGINT, v BIGINT", options={"bucket": 2, "bucket-key": "k"})
    for turn in range(3):
        table.append(rows(0, 100, turn))
    table.delete(where="k < 10 AND v = 1")
    for number in (5, 1, 4):
        table.rescale(number)
        assert table.count() == 290
        assert table.verify() == []
        assert {total for _, total in shares(table)} == {number}
    table.append(rows(0, 100, 3))
    assert table.scan(where="k = 20").count() == 4
    assert {total for _, total in shares(table)} == {4}


def test_a_branch_and_its_table_meet_again():
    table = table_of(bucket=1)
    table.upsert(rows(0, KEYS, 1))
    table.create_tag("begin")
    table.create_branch("b1", tag="begin")
    branch = beside(table, "d.t$branch_b1")
    branch.rescale(4)
    branch.upsert(rows(0, 50, 2))
    assert shares(table) == {Share(0, 1)}
    late = table.version
    table.fast_forward("b1")
    assert {total for _, total in shares(table)} == {4}
    write_tables(late, [rows(50, 60, 3)], WriteRequest(Identity("w")))
    assert values(table) == {k: 2 if k < 50 else 3 if k < 60 else 1 for k in range(KEYS)}
    table.rollback(tag="begin")
    table.upsert(rows(0, 5, 9))
    assert values(table) == {k: 9 if k < 5 else 1 for k in range(KEYS)}
    assert table.verify() == []


def test_an_alteration_says_what_a_rescale_would_do():
    table = table_of(bucket=2)
    assert table.alter(set_option("bucket", 3)).properties == {}
    table.upsert(rows(0, KEYS, 1))
    altered = table.alter(set_option("bucket", 5))
    assert altered.properties == {"rescale": f"1 partition keeps its buckets; a rescale to 5 would write {KEYS} rows again"}
    assert table.alter(set_option("bucket", "auto")).properties == {}
    table.upsert(rows(0, KEYS, 2))
    assert {total for _, total in shares(table)} == {3}
    assert table.alter(set_option("bucket", 3)).properties == {}


@pytest.mark.parametrize("number", [0, 32_769, -3, "many", 1.5, None])
def test_numbers_that_are_none(number):
    table = table_of()
    with pytest.raises(InvalidQuery):
        table.rescale(number)


def test_a_table_without_a_key_has_no_buckets_to_rescale():
    lake = lsmlake.connect("memory://rescaled-none")
    lake.create_database("d", if_not_exists=True)
    with pytest.raises(InvalidQuery, match="no primary key"):
        lake.create_table("d.t", "k BIGINT").rescale(4)


def test_two_buckets_with_keys_in_common_are_never_published():
    """A broken edit: the bucket keeps its total, and one with half of its keys comes."""
    table = table_of(bucket=1)
    table.upsert(rows(0, KEYS, 1))
    (state,) = table.states().values()
    wrong = replace(table_edit(state), total_buckets=2)
    with pytest.raises(lsmlake.errors.Corrupt, match="I9"):
        commit(table.version, Request(Identity("w"), [CommitMessage(state.bucket, compact=wrong)]))


def table_edit(state):
    from lsmlake.format.data_files import BucketEdit

    file = state.files[0]._replace(name=state.files[0].name.replace("data-", "data-f"))
    return BucketEdit(state.bucket, state.total_buckets, added=(file.at_level(0),), base=state)
