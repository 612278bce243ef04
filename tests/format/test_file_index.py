"""Indexes of data files: never a false negative, false positives at the rate asked for, files that live and die together.

The hash is held to its description by a second implementation, and the rows of indexed tables to those of a table without.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from effort import examples, in_turn, one_in, sampled, scaled
from faults import every_fault
from hypothesis import given
from hypothesis import strategies as st
from naive import naive, unreferenced
from strategies import (
    KINDS,
    Shape,
    Ticks,
    both,
    comparison,
    conditions,
    contents,
    copied,
    encoded_rows,
    is_null,
    lake_on,
    literal,
    membership,
    multiset,
    negated,
    new_lake,
    prefixed,
    rows_of,
    seen,
    tiny_units,
)

from lsmlake import change_type, rename_column, set_option, unset_option
from lsmlake.api.table import Table
from lsmlake.errors import Corrupt, InvalidOption, UnsupportedFormat
from lsmlake.format import file_index
from lsmlake.format.file_index import BloomFilter, FileIndex, ValueIndex, encoded
from lsmlake.kernels.value_hash import family, mix, value_hash
from lsmlake.schema.envelope import pack, wrap
from lsmlake.storage.memory import MemoryStorage
from lsmlake.types.column_types import type_of

COLUMNS, RATE, THRESHOLD = (
    f"file-index.{name}" for name in ("bloom-filter.columns", "bloom-filter.fpp", "in-manifest-threshold")
)
BITMAP, RANGE_BITMAP = "file-index.bitmap.columns", "file-index.range-bitmap.columns"
BESIDE, INSIDE = {THRESHOLD: "1 b"}, {THRESHOLD: "1 mb"}
"""Every index is a file; every index is in the manifest."""


# --- the hash and the filter ---


def _mix(word: int) -> int:
    word = (word + 0x9E3779B97F4A7C15) % 2**64
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


def _bytes(value: object) -> bytes:
    """A value as its description in FORMAT.md says."""
    match value:
        case float():
            return struct.pack("<d", math.nan if math.isnan(value) else value + 0.0)
        case Decimal():
            sign, digits, _ = value.as_tuple()
            return (int("".join(map(str, digits))) * (-1 if sign else 1)).to_bytes(16, "little", signed=True)
        case str():
            return value.encode()
        case bytes():
            return value
        case datetime():
            since = value - datetime(1970, 1, 1, tzinfo=value.tzinfo)
            return ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds).to_bytes(8, "little", signed=True)
        case date():
            return (value - date(1970, 1, 1)).days.to_bytes(8, "little", signed=True)
        case time():
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return (seconds * 10**6 + value.microsecond).to_bytes(8, "little")
    return int(value).to_bytes(8, "little", signed=True)


def _naive_hash(value: object) -> int:
    data = _bytes(value)
    words = [int.from_bytes(data[start : start + 8], "little") for start in range(0, len(data), 8)]
    return _mix(sum(_mix(word ^ _mix(place)) for place, word in enumerate(words, 1)) % 2**64 ^ len(data))


def test_the_hash_is_splitmix():
    assert mix(np.zeros(1, np.uint64))[0] == 0xE220A8397B1DCDAF == _mix(0)  # the published first number of seed 0


@pytest.mark.parametrize("name", KINDS)
def test_the_hash_is_as_described(name):
    values = [*KINDS[name].values, *([math.nan] if name in ("FLOAT", "DOUBLE") else [])]
    column = pa.chunked_array([pa.array([None, *values, None], type_of(KINDS[name].ddl))])
    assert value_hash(column).tolist() == list(map(_naive_hash, values))
    assert value_hash(column.slice(5)).tolist() == list(map(_naive_hash, values[4:]))
    assert len(set(map(_naive_hash, values))) == len({0.0 if value == 0 else seen(value) for value in values})


@pytest.mark.parametrize(
    "narrow, wide", [("TINYINT", "BIGINT"), ("INT", "BIGINT"), ("FLOAT", "DOUBLE"), ("DECIMAL(9,2)", "DECIMAL(38,2)")]
)
def test_a_wider_type_has_the_same_hashes(narrow, wide):
    column = pa.chunked_array([pa.array(KINDS[narrow].values, type_of(narrow))])
    assert family(type_of(narrow)) == family(type_of(wide))
    assert value_hash(column).tolist() == value_hash(column.cast(type_of(wide))).tolist()


@pytest.mark.parametrize("rate", [0.3, 0.1, 0.01, 0.001])
def test_false_positives_are_as_many_as_asked_for(rate):
    hashes = value_hash(pa.chunked_array([pa.array(range(120_000))]))
    made = BloomFilter.of("integer", hashes[:20_000], rate)
    assert made.may_hold(hashes[:20_000]).all()
    assert 0.8 * rate < made.may_hold(hashes[20_000:]).mean() < 1.3 * rate
    assert len(made.bits) * 8 == pytest.approx(20_000 * math.log(1 / rate) / math.log(2) ** 2, rel=0.001)


def _values(name: str, *parts: Iterable) -> ValueIndex:
    kind = type_of(name)
    return ValueIndex.of("bitmap", family(kind), [encoded(pa.chunked_array([pa.array(part, kind)])) for part in parts])


def test_indexes_survive_their_bytes_and_damage_is_noticed():
    filters = {
        3: BloomFilter.of("bytes", np.arange(9, dtype=np.uint64), 0.1),
        1: BloomFilter.of("date", np.empty(0, np.uint64), 1),
    }
    index = FileIndex(filters, {3: _values("STRING", ["b", None, "a"], ["b", "c", ""]), 4: _values("INT", [None] * 6)})
    data = file_index.encode(index)
    assert file_index.decode(data, 6, "here") == index
    for place in range(len(data)):
        with pytest.raises((Corrupt, UnsupportedFormat), match="here"):
            file_index.decode(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], 6, "here")
    with pytest.raises(Corrupt, match="here"):
        file_index.decode(wrap("FIDX", b"nothing"), 6, "here")


def test_an_index_that_nearly_vanishes_is_read():
    """Its content is a thousand times larger than what is stored, and more."""
    index = _values("STRING", [f"{'x' * 100_000}{number:03d}" for number in range(300)])
    data = file_index.encode(FileIndex({}, {1: index}))
    assert len(data) < 20_000 and file_index.decode(data, 300, "here").values[1].values.equals(index.values)


FORGED = {
    "kind": "tree",
    "family": "decimal(99)",
    "values": b"12345",
    "lengths": b"\1\0\0",
    "nulls": 1,
    "numbers": None,
}


@pytest.mark.parametrize("field", FORGED)
def test_a_forged_value_index_is_refused(field):
    column = {"id": 3, **_values("STRING", ["b", None, "a"]).fields(), field: FORGED[field]}
    data = pack("FIDX", {"bloom_filters": [], "values": [column]})
    with pytest.raises(Corrupt, match="here"):
        file_index.decode(data, 3, "here")


def test_numbers_beyond_the_values_are_refused():
    index = _values("INT", list(range(300)))
    for wrong in (index._replace(rows=299), index._replace(compressed=b"no"), index._replace(values=index.values[:256])):
        with pytest.raises(Corrupt):
            wrong.rows_of(np.ones(len(wrong.values) + 1, bool))


# --- no false negative ---


def _found(table: Table, where: str, **how: object) -> list[tuple]:
    return multiset(rows_of(table.scan(where=where, **how).to_arrow()))


PLACES = {"in the manifest": {}, "beside": BESIDE}
EVERY_VALUE = [(name, place) for name in KINDS for number, place in enumerate(PLACES) if in_turn(name, number, len(PLACES))]


@pytest.mark.parametrize(("name", "place"), EVERY_VALUE)
def test_every_value_is_found_and_files_are_left_out(name, place):
    kind, options = KINDS[name], PLACES[place]
    table = new_lake().create_table("d.t", f"v {kind.ddl}, n INT", options={COLUMNS: "v", RATE: "0.001", **options})
    groups = [kind.values[start::4] for start in range(4)]
    for group in groups:
        table.append(
            pa.table({"v": pa.array([*group, None], type_of(kind.ddl)), "n": pa.array(range(len(group) + 1), pa.int32())})
        )
    files = 0
    for number, value in enumerate(kind.values):
        where = f"v = {literal(value, kind.ddl)}"
        files += table.scan(where=where).plan().files
        if sampled(number, 5):
            own = [(seen(v), n) for group in groups for n, v in enumerate(group) if v == value]
            assert _found(table, where) == multiset(own)
    least = len(kind.values)
    assert files <= (2 * least if name == "BOOLEAN" else 1.2 * least)
    some = kind.values[:: max(1, len(kind.values) // 3)]
    condition = membership("v", some, kind.ddl)
    assert len(_found(table, condition.sql)) == sum(value in some for group in groups for value in group)
    assert table.verify() == []


VALUE_INDEXES = {"bitmap": (BITMAP, INSIDE), "range-bitmap": (RANGE_BITMAP, BESIDE)}


@pytest.mark.parametrize(
    ("name", "option", "where"),
    [
        pytest.param(name, *VALUE_INDEXES[index], id=f"{index}-{name}")
        for name, (number, index) in product(KINDS, enumerate(VALUE_INDEXES))
        if in_turn(name, number, len(VALUE_INDEXES))
    ],
)
def test_a_value_index_leaves_exactly_the_files_of_matching_rows(name, option, where):
    ddl, values = KINDS[name].ddl, [*KINDS[name].values, *([math.nan] if name in ("FLOAT", "DOUBLE") else [])]
    groups = [[*values[::3], None], values[1::3], [None, None], [*values[2::3], values[0]]]
    groups = [group for group in groups if group]
    table = new_lake().create_table("d.t", f"v {ddl}, n INT", options={option: "v", **where})
    for number, group in enumerate(groups):
        table.append(pa.table({"v": pa.array(group, type_of(ddl)), "n": pa.array([number] * len(group), pa.int32())}))
    some = values[:: max(1, len(values) // 4)]
    asked = [comparison("v", op, value, ddl) for op in ("=", "<>", "<", "<=", ">", ">=") for value in some]
    asked += [membership("v", some[:2], ddl), both(comparison("v", ">", some[0], ddl), comparison("v", "<", some[-1], ddl))]
    asked += [is_null("v"), *([prefixed("v", value[:1]) for value in some] if ddl == "STRING" else [])]
    for number, condition in enumerate(one for each in asked for one in (each, negated(each))):
        rows = [{"v": v, "n": n} for n, group in enumerate(groups) for v in group]
        matching = [row for row in rows if condition.holds(row)]
        assert table.scan(where=condition.sql).plan().files == len({row["n"] for row in matching}), condition.sql
        if sampled(number, 7):
            expected = multiset([(seen(row["v"]), row["n"]) for row in matching])
            assert _found(table, condition.sql) == expected, condition.sql
    assert table.verify() == []


def test_value_indexes_of_two_columns_compare_rows():
    table = new_lake().create_table("d.t", "a INT, b STRING, c INT", options={BITMAP: "a", RANGE_BITMAP: "b", COLUMNS: "c"})
    for c in range(4):
        table.append({"a": [1, 2, None], "b": ["x" if c else "y", "y", "x"], "c": [c] * 3})
    for where, files in {
        "a = 1 AND b = 'y'": 1,
        "a = 1 AND b = 'x'": 3,
        "a IS NULL AND b = 'y'": 0,
        "(a = 1 AND b = 'y') OR (a = 2 AND b = 'x')": 1,
        "(a = 1 OR b = 'y') AND (a = 2 OR b = 'x')": 4,
        "(a = 1 OR c = 2) AND b > 'x'": 2,
        "a = 1 AND b = 'x' AND c = 3": 1,
        "a = 1 AND b = 'y' AND c = 3": 0,
        "a = c AND b = 'z'": 0,
    }.items():
        assert table.scan(where=where).plan().files == files, where


@pytest.mark.parametrize(
    "old, new",
    [
        *(("TINYINT", "BIGINT"), ("INT", "BIGINT"), ("INT", "DOUBLE"), ("SMALLINT", "DECIMAL(12,1)"), ("FLOAT", "DOUBLE")),
        *(("DECIMAL(9,2)", "DECIMAL(12,2)"), ("DECIMAL(9,2)", "DECIMAL(14,4)"), ("DATE", "TIMESTAMP_NTZ")),
    ],
)
@pytest.mark.parametrize("option", [COLUMNS, BITMAP])
def test_values_are_found_after_a_rename_and_a_widening(old, new, option):
    values = [value for value in KINDS[old].values if value != 0][: max(5, scaled(12))]
    table = new_lake().create_table("d.t", f"v {old}, n INT", options={option: "v"})
    for number, value in enumerate(values):
        table.append(pa.table({"v": pa.array([value], type_of(old)), "n": pa.array([number], pa.int32())}))
    table.alter(rename_column("v", "w"), change_type("w", new))
    index = table.version.schema.parsed_options.index
    assert {index.bloom_columns, index.bitmap_columns} == {("w",), ()}
    widened = pa.array(values, type_of(old)).cast(type_of(new)).to_pylist()
    for number, value in enumerate(widened):
        found = table.scan(where=f"w = {literal(value, new)}").to_arrow()
        assert found["n"].to_pylist() == [number], value
        at_most = table.scan(where=f"w <= {literal(value, new)}").to_arrow()
        assert set(at_most["n"].to_pylist()) == {n for n, other in enumerate(widened) if other <= value}
    table.append(pa.table({"w": pa.array([widened[0]], type_of(new)), "n": pa.array([99], pa.int32())}))
    assert sorted(table.scan(where=f"w = {literal(widened[0], new)}").to_arrow()["n"].to_pylist()) == [0, 99]
    assert table.verify() == []
    table.alter(unset_option(option))
    assert "indexes" not in table.scan(where=f"w = {literal(value, new)}").explain()


SMALL = {"target-file-size": "1 kb", "file.block-size": "200 b", "bucket": 2}
MODES = {
    "vectors": {},
    "level 0": {"write_only": "true"},
    "merge at read": {"deletion-vectors.enabled": "false"},
    "partial update": {"merge-engine": "partial-update"},
    "first row": {"merge-engine": "first-row"},
    "lookup": {"changelog-producer": "lookup"},
}


@pytest.mark.parametrize("mode", MODES)
def test_a_keyed_table_reads_the_same_with_indexes(mode):
    """Rows of any kind at any level: an index leaves out no file whose rows hide others."""
    shape = Shape.of("int")
    indexed_by = st.builds(
        lambda option, others, where: {option: "k0,s"} | ({} if others == option else {others: "n,d"}) | where,
        st.sampled_from([COLUMNS, BITMAP, RANGE_BITMAP]),
        st.sampled_from([COLUMNS, BITMAP, RANGE_BITMAP]),
        st.sampled_from([BESIDE, INSIDE]),
    )

    @examples(4)
    @given(st.data())
    def check(data):
        with tiny_units(rows=3):
            plain, indexed = new_lake(), new_lake()
            tables = [
                shape.create(lake, **MODES[mode], **more, **SMALL)
                for lake, more in ((plain, {}), (indexed, data.draw(indexed_by)))
            ]
            for stamp in range(data.draw(st.integers(2, 4))):
                codes = data.draw(encoded_rows(12))
                rows = [shape.row(key % 16, value, stamp) for key, value in codes]
                for table in tables:
                    table.upsert(shape.table(rows, table.schema))
                if data.draw(st.booleans()):
                    for table in tables:
                        table.compact(full=stamp == 1)
            for _ in range(4):
                condition = data.draw(conditions(shape, depth=1, keys=1))
                for how in ({}, {"mode": "raw"}):
                    assert _found(tables[1], condition.sql, **how) == _found(tables[0], condition.sql, **how), condition.sql
            assert tables[1].verify() == []

    check()


@pytest.mark.parametrize("option", [COLUMNS, BITMAP])
@pytest.mark.parametrize("mode", ["vectors", "merge at read", "partial update"])
def test_files_of_level_0_are_left_out_by_their_keys_only(mode, option):
    """Four runs whose keys have the same range. The newest holds a row that supersedes the one that matches `n = 1`."""
    given = {name.replace("_", "-"): value for name, value in MODES[mode].items()}
    options = {"bucket": 1, "write-only": "true", option: "k,n", RATE: "0.0001", **given}
    options = options if option == COLUMNS else {name: value for name, value in options.items() if name != RATE}
    table = new_lake().create_table("d.t", "k INT, n INT", primary_key=["k"], options=options)
    for number in range(3):
        table.upsert({"k": [-100, *range(number, 90, 3), 100], "n": [number] * 32})
    table.upsert({"k": [-100, 1, 100], "n": [5, 5, 5]})
    for where, files in {
        "k = 4": 1,
        "k = 1": 2,
        "k IN (3, 5)": 2,
        "k = 4 AND n = 9": 1,
        "n = 1": 4,
        "k = 500 OR n = 1": 4,
    }.items():
        assert table.scan(where=where).plan().files == files, where
    assert _found(table, "k = 1") == [(1, 5)]
    assert _found(table, "k = 1 AND n = 1") == [], "superseded"
    assert _found(table, "n = 1") == multiset([(k, 1) for k in range(4, 90, 3)])
    table.compact()
    assert _found(table, "k = 4") == [(4, 1)] and _found(table, "k = 1 AND n = 1") == []


# --- what it saves ---


def _many(**options: object) -> Table:
    """Twenty files of 500 keys, each file with keys of the whole range."""
    table = new_lake().create_table("d.t", "k BIGINT, v INT", options={COLUMNS: "k", RATE: "0.0001", **options})
    for start in range(20):
        table.append(pa.table({"k": pa.array(range(start, 10_000, 20)), "v": pa.array([start] * 500, pa.int32())}))
    return table


def _only_candidates(table: Table, where: str) -> None:
    """Deletes all data files but those that a read has to look at."""
    storage = table.meta.env.storage
    data = {path for path in contents(storage) if path.endswith(".parquet")}
    kept = {path for split in table.scan(where=where).plan().splits for path in map(table.meta.paths.data, split.files)}
    assert len(kept) == 2
    for path in data - kept:
        storage.delete(path)


def test_a_plan_and_a_merge_read_the_candidates_only():
    table = _many()
    plan = table.scan(where="k IN (3, 23, 8005)").plan()
    assert plan.pruned[-2:] == (("statistics", 20), ("indexes", 2))
    assert "-> 20 (statistics) -> 2 (indexes)" in table.scan(where="k IN (3, 23, 8005)").explain()
    assert table.scan(where="k = 3 OR v >= 0").plan().files == 20, "v has no index"
    assert table.scan(where="k = 3 OR k = 4").plan().files == 2
    assert table.scan(where="k = 3 OR k > 8").plan().files == 20, "an index knows nothing of ranges"
    assert table.scan(where="k = 3 AND v >= 0").plan().files == 1
    assert table.scan(where="NOT (k = 3)").plan().files == 20
    table.alter(set_option("file-index.read.enabled", "false"))
    assert table.scan(where="k IN (3, 23, 8005)").plan().files == 20
    table.alter(unset_option("file-index.read.enabled"))
    _only_candidates(table, "k IN (3, 8005)")
    report = table.merge({"k": [3, 8005], "v": [-1, -2]}, "t.k = s.k").when_matched_update({"v": "s.v"}).execute()
    assert (report.updated, report.inserted) == (2, 0)


def test_a_merge_of_very_many_keys_reads_the_candidates_only():
    table = _many(**{RATE: "0.000000001"})
    rows = {"k": [3, 8005, *range(-30_000, 0)], "v": [-1] * 30_002}
    _only_candidates(table, "k IN (3, 8005)")
    report = table.merge(rows, "t.k = s.k").when_matched_update({"v": "s.v"}).when_not_matched_insert_all().execute()
    assert (report.updated, report.inserted) == (2, 30_000)


def test_a_filter_is_asked_about_values_within_the_bounds_of_its_file():
    """Without, nearly every file would be taken to have one of the values."""
    table = new_lake().create_table("d.t", "k BIGINT", options={COLUMNS: "k", RATE: "0.001"})
    for start in range(10):
        table.append({"k": list(range(start * 100_000, start * 100_000 + 1000, 2))})
    absent = ", ".join(str(key) for start in range(10) for key in range(start * 100_000 + 901, start * 100_000 + 1001, 2))
    assert table.scan(where=f"k IN ({absent})").plan().files <= 2


def test_compactions_index_what_they_write():
    table = _many(**BESIDE)
    table.compact(full=True)
    assert table.files().num_rows == 1
    assert table.scan(where="k = 20").plan().files == 1
    assert table.scan(where="k = 5 AND v = 5").plan().files == 1
    assert table.scan(where="k = 4444444").plan().files == 0
    assert table.verify() == []


def test_indexes_come_and_go_with_the_options():
    table = new_lake().create_table("d.t", "k INT, c STRING", options={"compaction.min.file-num": 2})

    def append(number: int) -> None:
        table.append({"k": [number, 9], "c": ["a" if number else "b", "z"]})

    append(0)
    table.alter(set_option(BITMAP, "c"))
    append(1)
    table.alter(unset_option(BITMAP), set_option(RANGE_BITMAP, "k"), set_option(COLUMNS, "k,c"))
    append(2)
    listed = table.system_table("file_indexes").select(["column_name", "index_type"]).to_pylist()
    assert [tuple(row.values()) for row in listed] == [
        ("c", "bitmap"),
        ("k", "bloom-filter"),
        ("k", "range-bitmap"),
        ("c", "bloom-filter"),
    ]
    assert table.scan(where="c = 'b'").plan().files == 1, "that without an index"
    assert table.scan(where="k BETWEEN 3 AND 8").plan().files == 2, "those without an index of k"
    assert _found(table, "k < 9 AND c = 'a'") == multiset([(1, "a"), (2, "a")])
    table.compact(full=True)
    kinds = table.system_table("file_indexes")["index_type"].to_pylist()
    assert sorted(kinds) == ["bloom-filter", "bloom-filter", "range-bitmap"]
    assert table.scan(where="k BETWEEN 3 AND 8").plan().files == 0
    assert table.verify() == []


def test_a_full_compaction_gives_an_index_to_files_without_one():
    for where in (INSIDE, BESIDE):
        table = new_lake().create_table("d.t", "k INT", options={})
        table.append({"k": [1, 2]})
        assert table.compact(full=True).files_in == 0
        table.alter(set_option(BITMAP, "k"), *(set_option(*each) for each in where.items()))
        assert table.compact().files_in == 0
        assert table.compact(full=True).files_in == 1
        assert table.system_table("file_indexes")["index_type"].to_pylist() == ["bitmap"]
        assert table.compact(full=True).files_in == 0


def test_the_listing_of_indexes_shows_where_they_are():
    for options, kind in (({THRESHOLD: "1 mb"}, "MANIFEST"), (BESIDE, "FILE")):
        table = _many(**options)
        listed = table.system_table("file_indexes")
        assert set(listed["storage_type"].to_pylist()) == {kind} and set(listed["column_name"].to_pylist()) == {"k"}
        assert sorted(listed["file_path"].to_pylist()) == sorted(table.files()["file_path"].to_pylist())
        sizes = {path: len(data) for path, data in contents(table.meta.env.storage).items() if path.endswith(".index")}
        shown = zip(listed["index_file_path"].to_pylist(), listed["index_container_size_in_bytes"].to_pylist(), strict=True)
        assert {path: size for path, size in shown if path is not None} == sizes


# --- index files live and die with their data files ---


def _indexes(storage: MemoryStorage) -> set[str]:
    return {path for path in contents(storage) if path.endswith(".index")}


def _world() -> MemoryStorage:
    storage = MemoryStorage(Ticks())
    table = new_lake(storage).create_table(
        "d.t", "k BIGINT, v INT", partition_by=["v"], options={COLUMNS: "k", **BESIDE, "compaction.min.file-num": 2}
    )
    for start in (0, 10):
        table.append({"k": list(range(start, start + 6)), "v": [0, 1] * 3})
    table.delete("k = 1")
    return storage


VERBS = {
    "append": lambda table: table.append({"k": [30, 31], "v": [0, 2]}),
    "delete": lambda table: table.delete("k = 2 OR k = 10"),
    "compact": lambda table: table.compact(full=True),
    "overwrite": lambda table: table.overwrite({"k": [1], "v": [1]}),
    "expire": lambda table: table.expire_snapshots(retain_max=1, retain_min=1),
    "rollback": lambda table: table.rollback(1),
}


@pytest.mark.parametrize("mode", ["crash", "error"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_failure_loses_no_index_and_leaves_none(verb, mode):
    world = _world()
    verb_on = VERBS[verb]
    for faulted in every_fault(lambda s: verb_on(lake_on(s, "a-").table("d.t")), lambda: copied(world), mode, one_in=one_in(7)):
        table = lake_on(faulted.world, "b-").table("d.t")
        assert naive(table).missing() == set(), faulted.call
        assert table.verify() == []
        if mode == "error" and verb != "expire":
            assert unreferenced(table) == [], faulted.call


def test_index_files_end_with_their_data_files():
    storage = _world()
    table = lake_on(storage, "a-").table("d.t")
    assert len(_indexes(storage)) == 4
    table.create_tag("t", 1)
    branch = table.create_branch("b", tag="t")
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert len(_indexes(storage)) == 4, "two of the tag and the branch, two of the table"
    assert _found(table.branch("b") if branch is None else branch, "k = 2") == [(2, 0)]
    assert unreferenced(table) == []
    table.delete_branch("b")
    table.delete_tag("t")
    assert len(_indexes(storage)) == 2
    assert unreferenced(table) == []
    stray = next(iter(_indexes(storage))).replace("/data-", "/data-x")
    storage.put_if_absent(stray, b"left by a killed writer")
    assert table.remove_orphan_files("2100-01-01").paths == (stray,)
    assert table.verify() == []


# --- damage ---


@pytest.mark.parametrize("damage", ["missing", "short", "flipped"])
def test_a_read_goes_on_without_a_damaged_index_and_says_so(damage):
    table = _many(**BESIDE)
    storage = table.meta.env.storage
    path = sorted(_indexes(storage))[3]
    data = contents(storage)[path]
    storage.delete(path)
    if damage != "missing":
        storage.put_if_absent(path, data[:-1] if damage == "short" else data[:40] + bytes([data[40] ^ 8]) + data[41:])
    table = lake_on(storage, "b-").table("d.t")
    where = "k IN (5, 25)"
    assert _found(table, where) == multiset([(5, 5), (25, 5)])
    assert "-> 2 (indexes (1 unreadable))" in table.scan(where=where).explain(), "the file of the keys and that of the damage"
    assert [finding.where for finding in table.verify()] == [path]
    table.compact(full=True)  # the cure
    assert "unreadable" not in table.scan(where=where).explain()


@pytest.mark.parametrize("option", [COLUMNS, BITMAP])
def test_verify_finds_an_index_of_other_values(option):
    table = new_lake().create_table("d.t", "k BIGINT", options={option: "k", **BESIDE})
    for start in range(2):
        table.append({"k": list(range(start, 500, 2))})
    storage = table.meta.env.storage
    one, other = sorted(_indexes(storage))[:2]
    data = contents(storage)
    storage.delete(one)
    storage.put_if_absent(one, data[other])
    (finding,) = lake_on(storage, "b-").table("d.t").verify()
    assert finding.where == one.removesuffix(".index")
    assert "the index of the file has not the values of 'k'" in finding.what


# --- options ---


@pytest.mark.parametrize(
    "options, words",
    [
        ({COLUMNS: "nothing"}, "is not a column"),
        ({COLUMNS: "tags"}, "no struct, list or map"),
        ({BITMAP: "k, tags"}, "no struct, list or map"),
        ({BITMAP: "k", RANGE_BITMAP: "k"}, "in one of them"),
        ({"file-index.bsi.columns": "k"}, "set file-index.range-bitmap.columns"),
        ({COLUMNS: "k", "file-index.bloom-filter.k.fpp": "0.1"}, "set file-index.bloom-filter.fpp"),
        ({RATE: "0.01"}, COLUMNS),
        ({THRESHOLD: "1 kb"}, COLUMNS),
        ({COLUMNS: "k", RATE: "0"}, "greater than 0"),
    ],
)
def test_options_that_fit_no_column_are_refused(options, words):
    with pytest.raises(InvalidOption, match=words):
        new_lake().create_table("d.t", "k INT, tags ARRAY<STRING>", options=options)
