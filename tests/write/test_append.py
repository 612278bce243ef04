"""Append-only tables: rows are added, removed by condition and never merged. The model is a list of rows."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pyarrow as pa
import pytest
from append_support import KINDS, SMALL, bag, batch, create
from effort import examples, one_in
from faults import every_fault, interleavings
from hypothesis import given
from hypothesis import strategies as st
from naive import naive, unreferenced
from strategies import (
    Names,
    Shape,
    conditions,
    contents,
    copied,
    encoded_rows,
    fake_env,
    lake_on,
    new_lake,
    rows_of,
    seen,
    tiny_units,
)

from lsmlake import set_option
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.compact.appends import pick_appends
from lsmlake.compact.clustering import sorted_rows
from lsmlake.errors import Corrupt, InvalidData, InvalidOption, InvalidQuery, InvalidSchema
from lsmlake.format.data_files import ColumnStats, DataFile
from lsmlake.lsm.difference import bag_difference
from lsmlake.options.table_options import Options
from lsmlake.schema.rowkind import DELETE
from lsmlake.storage.memory import MemoryStorage

SHAPE = Shape.of("bigint")
STEPS = ("append", "append", "delete", "compact", "full", "overwrite", "reopen")


# --- a table is its model ---


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_its_model_after_every_step(kind):
    @examples(10)
    @given(st.data())
    def check(data):
        shape = Shape.of("int", data.draw(st.sampled_from(["none", "string", "date"])))
        with tiny_units(rows=3):
            _play(data, shape, kind)

    check()


def _play(data: st.DataObject, shape: Shape, kind: str) -> None:
    storage = MemoryStorage()
    lake, prefixes = new_lake(storage), Names("o")
    table = create(lake, shape, **SMALL, **KINDS[kind])
    rows: list[tuple] = []
    states: dict[int, list[tuple]] = {0: []}
    for stamp, verb in enumerate(data.draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=8))):
        if verb == "append":
            given_ = batch(shape, table, data.draw(encoded_rows(12)), stamp % 2)
            table.append(given_)
            rows = rows + _tuples(given_)
        elif verb == "delete":
            where = data.draw(conditions(shape))
            kept = [row for row in rows if where.holds(dict(zip(shape.names, row, strict=True))) is not True]
            report = table.delete(where.sql)
            assert (report.deleted, report.snapshot is None) == (len(rows) - len(kept), len(rows) == len(kept))
            rows = kept
        elif verb == "overwrite":
            given_ = batch(shape, table, data.draw(encoded_rows(6)), stamp % 2)
            table.overwrite(given_)
            named = {seen(row["p"]) for row in given_.to_pylist()} if shape.partition else None
            at = shape.names.index("p") if shape.partition else 0
            rows = [row for row in rows if named is not None and seen(row[at]) not in named] + _tuples(given_)
        elif verb == "reopen":
            table = Lake(fake_env(storage, prefixes()), Runtime()).table("d.t")
        else:
            table.compact(full=verb == "full")
            assert table.compact(full=verb == "full").snapshot_id is None, "a compacted table is compacted again"
        latest = max(table.snapshots()["snapshot_id"].to_pylist(), default=0)
        states[latest] = rows
        assert rows_of_scan(table) == bag(rows)
        assert table.scan().count() == len(rows)
        assert _naive_rows(table) == bag(rows)
    _check_history(data, shape, table, states)


def _check_history(data: st.DataObject, shape: Shape, table: Table, states: dict[int, list[tuple]]) -> None:
    assert table.verify() == []
    assert unreferenced(table) == []
    known = sorted(states)
    for number in known[1:]:
        assert rows_of_scan(table, snapshot=number) == bag(states[number])
    where = data.draw(conditions(shape))
    expected = [row for row in states[known[-1]] if where.holds(dict(zip(shape.names, row, strict=True))) is True]
    assert rows_of_scan(table, where=where.sql) == bag(expected)
    if len(known) == 1:
        return
    start, end = sorted([data.draw(st.sampled_from(known)), data.draw(st.sampled_from(known[1:]))])
    for mode in ("diff", "delta"):
        found = table.changes(start, end, mode=mode).to_arrow().to_pylist()
        gone, come = (Counter(_row(shape, change) for change in found if change["_row_kind"] == kind) for kind in ("-D", "+I"))
        assert len(found) == gone.total() + come.total()
        assert mode == "delta" or not gone & come, "a row that moved to another file is reported"
        before = Counter(bag(states[start]))
        assert gone <= before + come
        assert before + come - gone == Counter(bag(states[end]))


def rows_of_scan(table: Table, **how: object) -> list[tuple]:
    return sorted(rows_of(table.scan(**how).to_arrow()), key=repr)


def _tuples(given_: pa.Table) -> list[tuple]:
    return list(zip(*given_.to_pydict().values(), strict=True))


def _row(shape: Shape, change: dict) -> tuple:
    return tuple(seen(change[name]) for name in shape.names)


def _naive_rows(table: Table) -> list[tuple]:
    """What a second reader finds in the files."""
    reader = naive(table)
    published = reader.snapshots()
    files = reader.files(published[max(published)]) if published else []
    assert all(file.level == 1 for file in files)
    return sorted((row for file in files for row in rows_of(reader.living(file))), key=repr)


# --- failures and races ---


@cache
def _world(kind: str) -> MemoryStorage:
    storage = MemoryStorage()
    table = create(new_lake(storage), SHAPE, **SMALL, **KINDS[kind])
    for number in range(3):
        table.append(batch(SHAPE, table, [(code, code) for code in range(6)], number))
    table.delete("k0 = 3")
    return storage


VERBS = {
    "append": lambda table: table.append(batch(SHAPE, table, [(9, 9)])),
    "delete": lambda table: table.delete("k0 = 1 OR n IS NULL"),
    "compact": lambda table: table.compact(full=True),
    "overwrite": lambda table: table.overwrite(batch(SHAPE, table, [(9, 9)])),
}


@pytest.mark.parametrize("mode", ["crash", "error"])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", ["vectors", "copy on write"])
def test_a_failure_leaves_the_old_rows_or_the_new(kind, verb, mode):
    with tiny_units(rows=3):
        before = rows_of_scan(lake_on(copied(_world(kind))).table("d.t"))
        done = copied(_world(kind))
        VERBS[verb](lake_on(done, "a-").table("d.t"))
        after = rows_of_scan(lake_on(done, "look-").table("d.t"))
        faults = every_fault(
            lambda s: VERBS[verb](lake_on(s, "a-").table("d.t")), lambda: copied(_world(kind)), mode, one_in=one_in(4)
        )
        for faulted in faults:
            table = lake_on(faulted.world, "b-").table("d.t")
            found = rows_of_scan(table)
            assert found in (before, after), faulted.call
            assert table.verify() == []
            if mode == "error":
                assert unreferenced(table) == [], faulted.call
            if found == before:
                VERBS[verb](table)
                assert rows_of_scan(table) == after


def test_vectors_of_one_bucket_do_not_stay_if_those_of_another_cannot_be_written():
    shape = Shape.of("bigint", "boolean")
    storage = MemoryStorage()
    table = create(new_lake(storage), shape, **SMALL)
    table.append(batch(shape, table, [(code, code) for code in range(40)]))
    faults = every_fault(lambda s: lake_on(s, "a-").table("d.t").delete("n >= 0"), lambda: copied(storage), "error")
    met = [faulted for faulted in faults if faulted.call[1].endswith(".puffin")]
    assert len({faulted.call[1] for faulted in met}) > 1
    for faulted in met:
        table = lake_on(faulted.world, "b-").table("d.t")
        assert table.snapshots().num_rows == 1 and unreferenced(table) == [], faulted.call


RACES = {
    "appends": (VERBS["append"], VERBS["append"]),
    "append, compaction": (VERBS["append"], VERBS["compact"]),
    "delete, compaction": (lambda t: t.delete("k0 = 1", isolation="snapshot"), VERBS["compact"]),
    "deletes of other rows": (lambda t: t.delete("k0 = 1"), lambda t: t.delete("k0 = 2")),
    "deletes of the same rows": (lambda t: t.delete("k0 < 2"), lambda t: t.delete("k0 > 0")),
    "delete, append": (lambda t: t.delete("k0 = 9"), lambda t: t.append(batch(SHAPE, t, [(9, 9), (1, 1)]))),
}


@pytest.mark.parametrize(
    "kind, name", [("vectors", name) for name in RACES] + [("copy on write", name) for name in RACES if "del" in name]
)
def test_two_at_a_time_are_one_after_the_other(kind, name):
    world, programs = _world(kind), RACES[name]
    serial = []
    for order in (programs, programs[::-1]):
        one = copied(world)
        for number, program in enumerate(order):
            program(lake_on(one, f"{number}-").table("d.t"))
        serial.append(rows_of_scan(lake_on(one, "look-").table("d.t")))
    runs = [lambda s, p=p, n=n: repr(p(lake_on(s, f"{n}-").table("d.t"))) and None for n, p in enumerate(programs)]
    seen_ends = set()
    for done in interleavings(*runs, lambda: copied(world), 2000, switches_max=1, one_in=one_in(3)):
        if (end := frozenset(contents(done.world).items())) in seen_ends:
            continue
        seen_ends.add(end)
        table = lake_on(done.world, "look-").table("d.t")
        assert rows_of_scan(table) in serial
        assert table.verify() == []
        assert unreferenced(table) == []


def test_statements_on_rows_of_one_file_all_take_place(lake):
    """Ten at a time: each reads before the others commit."""
    table = lake.create_table("d.t", "id BIGINT, v INT")
    table.append({"id": list(range(10)), "v": [0] * 10})
    handles = [lake.table("d.t") for _ in range(10)]
    assert [handle.delete(f"id = {number}").deleted for number, handle in enumerate(handles)] == [1] * 10
    assert table.scan().count() == 0 == table.files().num_rows


# --- which files a compaction rewrites ---


def _file(name: str, bytes_: int, rows: int = 100, source: str = "APPEND") -> DataFile:
    return DataFile(name, "bucket-0", bytes_, rows, 0, (), (), 1, 0, source, 0, 1, 1, {1: ColumnStats(0, None, None)})


@pytest.mark.parametrize(
    "files, dead, options, full, expected",
    [
        ("aaaa", {}, {}, False, ""),  # four small files: one fewer than compaction.min.file-num
        ("aaaaa", {}, {}, False, "01234"),
        ("aaAaa", {}, {"compaction.min.file-num": 4}, False, "0134"),  # a full file stays
        ("AA", {1: 20}, {}, False, ""),  # a fifth is not more than a fifth
        ("AA", {1: 21}, {}, False, "1"),
        ("AA", {1: 1}, {}, True, "1"),
        ("Aa", {}, {}, True, ""),  # nothing to merge a small file with
        ("aaA", {}, {}, True, "01"),
        ("AAAA", {0: 40}, {"compaction.delete-ratio-threshold": 0.5}, False, ""),
        ("AA", {}, {"clustering.columns": "x"}, True, "01"),
        ("AA", {}, {"clustering.columns": "x"}, False, ""),
    ],
)
def test_the_files_of_a_compaction(files, dead, options, full, expected):
    """`A`: a file of the target size, `a`: a small one."""
    made = [_file(str(number), 100 if size == "A" else 10) for number, size in enumerate(files)]
    rows = {str(number): count for number, count in dead.items()}
    picked = pick_appends(made, rows, Options.parse(options, keyed=False).appends, 100, full=full)
    assert "".join(file.name for file in picked) == expected


# --- differences of bags ---


@examples(60)
@given(*[st.lists(st.sampled_from([None, 0.0, -0.0, float("nan"), 1.0]), max_size=8)] * 2)
def test_a_difference_of_bags_leaves_out_as_many_equal_rows_as_both_have(before, after):
    column = pa.struct([("a", pa.float64())])
    tables = [pa.table({"s": pa.array([{"a": value} for value in values], column)}) for values in (before, after)]
    found = bag_difference(*tables)
    kinds = [0] * found.num_rows if "_row_kind" not in found.column_names else found["_row_kind"].to_pylist()
    gone, come = Counter(map(repr, before)), Counter(map(repr, after))
    rows = [repr(row["a"]) for row in found["s"].to_pylist()]
    assert Counter(row for row, kind in zip(rows, kinds, strict=True) if kind == DELETE) == gone - come
    assert Counter(row for row, kind in zip(rows, kinds, strict=True) if kind != DELETE) == come - gone


# --- clustering ---


@pytest.mark.parametrize("strategy", ["order", "zorder", "hilbert"])
def test_clustering_keeps_the_rows_and_lets_filters_prune(lake, strategy):
    options = {
        "clustering.columns": "x,y",
        "clustering.strategy": strategy,
        "target-file-size": "1 kb",
        "file.block-size": "1 kb",
    }
    table = lake.create_table("d.t", "x BIGINT, y DOUBLE, s STRING", options=options)
    rows = [(i * 7919 % 4001, (i * 104729 % 3989) / 7 if i % 50 else None, f"r{i}") for i in range(4000)]
    for part in range(4):
        table.append([dict(zip("xys", row, strict=True)) for row in rows[part::4]])
    files = table.files().num_rows
    assert table.scan(where="x < 400").plan().files == files, "before, every file has rows of every range"
    table.compact(full=True)
    assert rows_of_scan(table) == bag(rows)
    after, reached = table.files().num_rows, {name: table.scan(where=where).plan().files for name, where in FILTERS.items()}
    if strategy == "order":
        assert reached["x"] <= 2 and reached["y"] == after
        assert [row[0] for row in rows_of(table.scan().to_arrow())] == sorted(row[0] for row in rows)
    else:
        assert max(reached.values()) <= 0.7 * after, (reached, after)
    assert table.compact(full=True).snapshot_id is None
    assert table.verify() == []


def test_clustering_sorts_with_a_small_write_buffer(lake):
    options = {"clustering.columns": "x", "write-buffer-size": "1 kb", "compaction.min.file-num": 2}
    table = lake.create_table("d.t", "x BIGINT", options=options)
    table.append({"x": list(range(5000, 0, -1))})
    table.append({"x": [0]})
    table.compact()
    assert table.scan().to_arrow()["x"].to_pylist() == list(range(5001))


def test_an_error_of_the_rows_leaves_a_sort_as_it_is():
    def rows():
        yield pa.table({"x": [2, 1]})
        raise Corrupt("a page is damaged")

    with pytest.raises(Corrupt, match="a page is damaged"):
        list(sorted_rows(rows(), pa.schema([("x", pa.int64())]), ["x"], 1 << 20, "a sort"))


FILTERS = {"x": "x < 400", "y": "y < 57"}


# --- what is refused ---


REFUSED = {
    "an upsert": (lambda t: t.upsert([{"id": 1}]), InvalidQuery, "use append"),
    "a delete by key": (lambda t: t.delete_keys([{"id": 1}]), InvalidQuery, "use delete(where"),
    "a lookup": (lambda t: t.get({"id": 1}), InvalidQuery, "use scan(where"),
    "an order by key": (lambda t: t.scan(order_by_key="asc", limit=1).to_arrow(), InvalidQuery, "needs a primary key"),
    "a merge engine": (lambda t: t.alter(set_option("merge-engine", "first-row")), InvalidOption, "tables with a primary key"),
    "row kinds": (lambda t: t.overwrite([{"id": 1}], row_kind="op"), InvalidQuery, "leave row_kind out"),
    "rows that do not fit": (lambda t: t.append([{"id": "x"}]), InvalidData, "id"),
    "a filter that is none": (lambda t: t.delete("nothing = 1"), InvalidQuery, "nothing"),
    "an unknown isolation": (lambda t: t.delete("id = 1", isolation="none"), InvalidQuery, "serializable"),
    "two keys to cluster by": (
        lambda t: t.alter(set_option("clustering.columns", "id,id")),
        InvalidOption,
        "names a column twice",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_needs_a_key_is_refused_with_the_cure(lake, what):
    table = lake.create_table("d.t", "id BIGINT")
    table.append([{"id": 1}])
    run, error, words = REFUSED[what]
    with pytest.raises(error, match=words.replace("(", r"\(")):
        run(table)
    assert table.scan().to_arrow().to_pylist() == [{"id": 1}]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"bucket": 2}, "need a bucket-key"),
        ({"bucket-key": "p"}, "is a partition column"),
        ({"bucket-key": "nothing"}, "is not a column"),
        ({"clustering.columns": "nothing"}, "is not a column"),
        ({"clustering.strategy": "order"}, "clustering.columns"),
        ({"compaction.delete-ratio-threshold": 0}, "greater than 0"),
        ({"fields.id.aggregate-function": "sum"}, "tables with a primary key"),
        ({"sequence.field": "id"}, "tables with a primary key"),
    ],
)
def test_options_that_do_not_fit_are_refused(lake, options, words):
    with pytest.raises((InvalidOption, InvalidSchema), match=words):
        lake.create_table("d.t", "id BIGINT, p STRING", partition_by=["p"], options=options)


def test_appends_to_a_table_with_a_key_are_refused(lake):
    table = lake.create_table("d.t", "id BIGINT", primary_key=["id"])
    with pytest.raises(InvalidQuery, match="use upsert"):
        table.append([{"id": 1}])
    with pytest.raises(InvalidOption, match="append-only tables"):
        table.alter(set_option("compaction.min.file-num", 3))


def test_a_commit_of_a_writer_takes_place_once(lake):
    table = lake.create_table("d.t", "id BIGINT")
    for _ in range(2):
        snapshot = table.append([{"id": 1}], writer_id="w", commit_id=1)
    assert (snapshot.id, table.scan().count()) == (1, 1)


def test_slices_of_a_table_count_as_what_they_hold(lake):
    table = lake.create_table("d.t", "id BIGINT", options={"write-buffer-size": "8 kb"})
    rows = pa.table({"id": list(range(4096))})
    table.append(rows.slice(first, 64) for first in range(0, 4096, 64))
    assert (table.files().num_rows, table.scan().count()) == (4, 4096)


def test_partitions_of_floats(lake):
    """One partition for both zeros; NaN, which equals nothing, cannot be found again."""
    table = lake.create_table("d.t", "p DOUBLE, v INT", partition_by=["p"])
    table.append({"p": [0.0, -0.0, None], "v": [1, 2, 3]})
    assert table.partitions().num_rows == 2
    with pytest.raises(InvalidData, match="NaN in a partition column"):
        table.append({"p": [float("nan")], "v": [4]})
    with pytest.raises(InvalidData, match="NaN in a partition column"):
        table.update({"p": "CAST('NaN' AS DOUBLE)"}, "v = 1")
    assert [table.delete(where).deleted for where in ("p = 0", "p IS NULL")] == [2, 1]


def test_a_table_without_a_key_from_data(lake):
    table = lake.create_table_from("d.t", {"id": [1, 1]})
    assert (table.primary_key, table.scan().count()) == ((), 2)
    with pytest.raises(InvalidQuery, match="leave row_kind out"):
        lake.create_table_from("d.u", {"id": [1], "op": ["+I"]}, row_kind="op")
    assert lake.tables("d") == ["t"]


def test_rows_beyond_the_buffer_are_written_while_they_are_read(lake):
    table = lake.create_table("d.t", "id BIGINT", options={"write-buffer-size": "1 kb"})
    batches = (pa.table({"id": list(range(first, first + 200))}) for first in range(0, 1000, 200))
    assert table.append(batches).delta_rows == 1000
    assert (table.files().num_rows, table.scan().count(), table.verify()) == (5, 1000, [])
