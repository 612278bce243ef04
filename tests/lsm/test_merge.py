"""Merging sorted runs, whole and a window at a time, against a dictionary."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import KEYS, KINDS, rank, rows_of

from lsmlake.kernels.groups import group
from lsmlake.lsm.merge import rule as merging
from lsmlake.lsm.merge.deduplicate import Deduplicate
from lsmlake.lsm.merge.merge_windows import RunReader, merge_windows, whole_keys
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.schema.rowkind import DELETE, INSERT, with_kinds, without_deletes
from lsmlake.schema.schema import ROW_KIND

QUICK = examples(60)
merge_runs = partial(merging.merge_runs, rule=Deduplicate(SequenceFields()))
SCHEMAS = {
    name: pa.schema([*((f"k{i}", kind) for i, kind in enumerate(kinds)), ("stamp", pa.int64()), ("text", pa.string())])
    for name, kinds in {
        "bigint": [pa.int64()],
        "int and string": [pa.int32(), pa.string()],
        "double": [pa.float64()],
        "long string": [pa.string()],
        "decimal(38,10)": [pa.decimal128(38, 10)],
        "binary": [pa.binary()],
    }.items()
}


@st.composite
def runs(draw, with_deletes: bool = False):
    """(name of the key, sorted runs oldest first, some with `_row_kind`); keys unique inside a run."""
    name = draw(st.sampled_from(list(SCHEMAS)))
    kinds = [KINDS[kind] for kind in KEYS[name]]
    stamp, made = 0, []
    for codes in draw(st.lists(st.binary(max_size=30), min_size=1, max_size=5)):
        by_key = {}
        for code in codes:
            stamp += 1
            key = tuple(kind.values[(code * 7 // 5 if i else code) % len(kind.values)] for i, kind in enumerate(kinds))
            key = tuple(value + 0.0 if isinstance(value, float) else value for value in key)  # keys hold no -0.0
            by_key[key] = (*key, stamp, "t" * (stamp % 9))
        rows = [by_key[key] for key in sorted(by_key, key=lambda key: tuple(map(rank, key)))]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMAS[name])
        table = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMAS[name], strict=True)], schema=SCHEMAS[name])
        if with_deletes and draw(st.booleans()):
            kind = [DELETE if row[-2] % 3 == 0 else INSERT for row in rows]
            table = table.append_column(pa.field(ROW_KIND, pa.int8()), pa.array(kind, pa.int8()))
        made.append(table)
    return name, made


def key_names(name: str) -> list[str]:
    return [f"k{i}" for i in range(len(KEYS[name]))]


def naively(tables: Iterable[pa.Table], name: str) -> list[tuple]:
    """The newest row of every key, in key order."""
    width, by_key = len(KEYS[name]), {}
    for table in tables:
        for raw, row in zip(zip(*(c.to_pylist() for c in table.columns), strict=True), rows_of(table), strict=True):
            by_key[tuple(map(rank, raw[:width]))] = row
    return [by_key[key] for key in sorted(by_key)]


@QUICK
@given(runs(with_deletes=True))
def test_merged_runs_hold_the_newest_row_of_every_key_in_key_order(case):
    name, tables = case
    tables = with_kinds(tables)
    if any(table.num_rows for table in tables):
        assert rows_of(merge_runs(tables, key_names(name))) == naively(tables, name)
        with ThreadPoolExecutor(2) as pool:
            assert merge_runs(tables, key_names(name), pool=pool).equals(merge_runs(tables, key_names(name)))


@QUICK
@given(runs(with_deletes=True), st.integers(1, 400), st.data())
def test_merging_by_windows_is_merging_at_once(case, window_bytes, data):
    name, tables = case
    sizes = st.lists(st.integers(1, 6), min_size=1, max_size=8)
    parts = [RunReader(iter(in_chunks(table, data.draw(sizes))), table.num_rows) for table in tables]
    merged = list(merge_windows(parts, key_names(name), partial(merge_runs, key=key_names(name)), window_bytes))
    assert [row for table in with_kinds(merged) for row in rows_of(table)] == naively(
        with_kinds(tables) if any(ROW_KIND in table.column_names for table in merged) else tables, name
    )


@QUICK
@given(runs(), st.integers(0, 3))
def test_windows_do_not_trust_the_number_of_rows_announced(case, announced):
    name, tables = case
    parts = [RunReader(iter(in_chunks(table, [3])), announced) for table in tables]
    merged = list(merge_windows(parts, key_names(name), partial(merge_runs, key=key_names(name)), 100))
    assert [row for table in merged for row in rows_of(table)] == naively(tables, name)


def in_chunks(table: pa.Table, sizes: list[int]) -> Iterable[pa.Table]:
    """The table cut after so many rows, again and again; now and then an empty piece."""
    start, turn = 0, 0
    while start < table.num_rows:
        yield table.slice(start, sizes[turn % len(sizes)])
        if turn % 3 == 0:
            yield table.slice(0, 0)
        start += sizes[turn % len(sizes)]
        turn += 1


def test_windows_hold_little_of_long_runs():
    """Memory is bounded: no merge sees more than a few windows' worth of rows, however the runs are spread over the key space."""
    rows, seen = 20_000, []

    def table(start: int, step: int) -> pa.Table:
        return pa.table({"k0": pa.array(range(start, start + step * rows, step), pa.int64())})

    def merge(pieces: list[pa.Table]) -> pa.Table:
        seen.append(sum(piece.num_rows for piece in pieces))
        return merge_runs(pieces, ["k0"])

    tables = [table(0, 7), table(50_000, 1), table(3, 2)]
    parts = [RunReader(iter(in_chunks(t, [100])), rows) for t in tables]
    merged = pa.concat_tables(merge_windows(parts, ["k0"], merge, window_bytes=8_000))
    assert merged["k0"].to_pylist() == sorted({k for t in tables for k in t["k0"].to_pylist()})
    assert max(seen) < 4_000


@pytest.mark.parametrize("keys", [[[]], [[5]], [[1, 1, 1]], [[3, 1, 2, 1]], [[1, 2], [2, 3], [1]]])
def test_newest_of_a_key_is_its_last_row(keys):
    joined = [k for ks in keys for k in ks]
    last = {key: row for row, key in enumerate(joined)}
    first = {key: row for row, key in reversed(list(enumerate(joined)))}
    groups = group(np.array(joined, np.uint64))
    assert groups.last.tolist() == [last[key] for key in sorted(last)]
    assert groups.first.tolist() == [first[key] for key in sorted(first)]


@QUICK
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 3), st.integers(0, 2)), max_size=40), st.data())
def test_groups_are_by_code_and_key_and_in_them_by_order_then_place(rows, data):
    codes, keys, major, minor = np.array(rows, np.int64).reshape(-1, 4).T
    groups = group(keys.astype(np.uint64), [major, minor], codes)
    expected = sorted(range(len(rows)), key=lambda row: (*rows[row], row))
    assert groups.rows.tolist() == expected
    starts = [i for i, row in enumerate(expected) if not i or rows[row][:2] != rows[expected[i - 1]][:2]]
    assert groups.starts.tolist() == starts
    if starts:
        first = data.draw(st.integers(0, len(starts) - 1))
        last = data.draw(st.integers(first + 1, len(starts)))
        part = groups.part(first, last)
        stop = starts[last] if last < len(starts) else len(rows)
        assert part.rows.tolist() == expected[starts[first] : stop]
        assert part.starts.tolist() == [start - starts[first] for start in starts[first:last]]


SEQUENCES = {  # oldest first; in descending order the values behind null are in the other direction
    "whole": [None, -(1 << 63), 0, 1],
    "real": [None, -np.inf, -0.5, np.inf, np.nan],
    "text": [None, "", "a", "b"],
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("columns", [("whole",), ("real",), ("text",), ("real", "whole"), ("text", "real", "whole")])
def test_sequences_compare_column_by_column(columns, descending):
    chance = np.random.default_rng(7)
    ages = {name: chance.integers(0, len(values), 40) for name, values in SEQUENCES.items()}
    rows = pa.table({name: [SEQUENCES[name][age] for age in ages[name]] for name in columns})
    model = list(
        zip(*(np.where(ages[name] * descending > 0, -ages[name] + 9, ages[name]).tolist() for name in columns), strict=True)
    )
    sequence, other = SequenceFields(columns, descending), chance.permutation(40)
    ranks = sequence.ranks(rows, every=True).tolist()
    assert [[one < two for two in ranks] for one in ranks] == [[one < two for two in model] for one in model]
    on_time = sequence.on_time(rows, rows.take(pa.array(other)))
    assert on_time.tolist() == [model[row] >= model[old] for row, old in enumerate(other)]


@pytest.mark.parametrize("values", [1, 7, 1_000, 10**6, 2**63])
def test_many_rows_in_no_order_are_grouped_as_a_stable_sort_does(values):
    chance = np.random.default_rng(values % 1_000)
    keys = chance.integers(0, values, 50_000).astype(np.uint64) << np.uint64(1)  # up to the last bit
    groups = group(keys)
    assert np.array_equal(groups.rows, np.argsort(keys, kind="stable"))
    assert np.array_equal(groups.starts, np.unique(keys[groups.rows], return_index=True)[1])


@QUICK
@given(st.lists(st.integers(0, 6), max_size=40).map(sorted), st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_chunks_of_whole_keys(keys, sizes):
    table = pa.table({"k": pa.array(keys, pa.int64()), "place": pa.array(range(len(keys)), pa.int64())})
    chunks = list(whole_keys(iter(in_chunks(table, sizes)), ["k"]))
    assert [place for chunk in chunks for place in chunk["place"].to_pylist()] == list(range(len(keys)))
    owners = [set(chunk["k"].to_pylist()) for chunk in chunks]
    assert all(owners) and sum(map(len, owners)) == len(set(keys))


@pytest.mark.parametrize("cut", [whole_keys, lambda chunks, key: chunks])
@pytest.mark.parametrize("deletes_first", [True, False])
def test_a_run_may_have_deletes_in_some_of_its_files_only(cut, deletes_first):
    deletes = pa.table({"k0": [1, 2], "v": pa.nulls(2, pa.string()), ROW_KIND: pa.array([DELETE, DELETE], pa.int8())})
    inserts = pa.table({"k0": [3, 4], "v": ["c", "d"]})
    if not deletes_first:
        inserts = inserts.set_column(0, "k0", pa.array([0, 1]))
        deletes = deletes.set_column(0, "k0", pa.array([2, 3]))
    chunks = [deletes, inserts] if deletes_first else [inserts, deletes]
    merged = list(merge_windows([RunReader(cut(iter(chunks), ["k0"]), 4)], ["k0"], partial(merge_runs, key=["k0"]), 1 << 20))
    rows = [row for table in with_kinds(merged) for row in table.to_pylist()]
    assert [row["v"] for row in rows] == ([None, None, "c", "d"] if deletes_first else ["c", "d", None, None])
    assert pa.concat_tables([without_deletes(table) for table in with_kinds(merged)])["v"].to_pylist() == ["c", "d"]


def test_a_newest_delete_survives_a_merge_unless_deletes_are_dropped():
    old = pa.table({"k0": [1, 2], "v": ["a", "b"]})
    new = pa.table({"k0": [2, 3], "v": pa.nulls(2, pa.string()), ROW_KIND: pa.array([DELETE, DELETE], pa.int8())})
    merged = merge_runs(with_kinds([old, new]), ["k0"])
    assert merged.to_pydict() == {"k0": [1, 2, 3], "v": ["a", None, None], ROW_KIND: [INSERT, DELETE, DELETE]}
    assert without_deletes(merged).to_pydict() == {"k0": [1], "v": ["a"]}
    assert without_deletes(old) is old
