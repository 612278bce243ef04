"""Indexes of data files: never a false negative, false positives at the rate asked for, files that live and die together.

The hash is held to its description by a second implementation, and the rows of indexed tables to those of a table without.
"""

from __future__ import annotations

import math
import struct
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from effort import examples, one_in, sampled
from faults import every_fault
from hypothesis import given
from hypothesis import strategies as st
from naive import naive, unreferenced
from strategies import (
    KINDS,
    Shape,
    Ticks,
    conditions,
    contents,
    copied,
    encoded_rows,
    lake_on,
    literal,
    membership,
    multiset,
    new_lake,
    rows_of,
    seen,
    tiny_units,
)

from lsmlake import change_type, rename_column, unset_option
from lsmlake.api.table import Table
from lsmlake.errors import Corrupt, InvalidOption, UnsupportedFormat
from lsmlake.format import file_index
from lsmlake.format.file_index import BloomFilter
from lsmlake.kernels.value_hash import family, mix, value_hash
from lsmlake.schema.envelope import wrap
from lsmlake.schema.types import type_of
from lsmlake.store.memory import MemoryStorage

COLUMNS, RATE, THRESHOLD = (
    f"file-index.{name}" for name in ("bloom-filter.columns", "bloom-filter.fpp", "in-manifest-threshold")
)
BESIDE = {THRESHOLD: "1 b"}
"""Every index is a file."""


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


def test_filters_survive_their_bytes_and_damage_is_noticed():
    filters = {
        3: BloomFilter.of("bytes", np.arange(9, dtype=np.uint64), 0.1),
        1: BloomFilter.of("date", np.empty(0, np.uint64), 1),
    }
    data = file_index.encode(filters)
    assert file_index.decode(data, "here") == filters
    for place in range(len(data)):
        with pytest.raises((Corrupt, UnsupportedFormat), match="here"):
            file_index.decode(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], "here")
    with pytest.raises(Corrupt, match="here"):
        file_index.decode(wrap("FIDX", b"nothing"), "here")


# --- no false negative ---


def _found(table: Table, where: str, **how: object) -> list[tuple]:
    return multiset(rows_of(table.scan(where=where, **how).to_arrow()))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("options", [{}, BESIDE], ids=["in the manifest", "beside"])
def test_every_value_is_found_and_files_are_left_out(name, options):
    kind = KINDS[name]
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


@pytest.mark.parametrize(
    "old, new",
    [
        *(("TINYINT", "BIGINT"), ("INT", "BIGINT"), ("INT", "DOUBLE"), ("SMALLINT", "DECIMAL(12,1)"), ("FLOAT", "DOUBLE")),
        *(("DECIMAL(9,2)", "DECIMAL(12,2)"), ("DECIMAL(9,2)", "DECIMAL(14,4)"), ("DATE", "TIMESTAMP_NTZ")),
    ],
)
def test_values_are_found_after_a_rename_and_a_widening(old, new):
    values = [value for value in KINDS[old].values if value != 0][:12]
    table = new_lake().create_table("d.t", f"v {old}, n INT", options={COLUMNS: "v", RATE: "0.001"})
    for number, value in enumerate(values):
        table.append(pa.table({"v": pa.array([value], type_of(old)), "n": pa.array([number], pa.int32())}))
    table.alter(rename_column("v", "w"), change_type("w", new))
    assert table.current.parsed_options.index.bloom_columns == ("w",)
    widened = pa.array(values, type_of(old)).cast(type_of(new)).to_pylist()
    for number, value in enumerate(widened):
        found = table.scan(where=f"w = {literal(value, new)}").to_arrow()
        assert found["n"].to_pylist() == [number], value
    table.append(pa.table({"w": pa.array([widened[0]], type_of(new)), "n": pa.array([99], pa.int32())}))
    assert sorted(table.scan(where=f"w = {literal(widened[0], new)}").to_arrow()["n"].to_pylist()) == [0, 99]
    assert table.verify() == []
    table.alter(unset_option(RATE), unset_option(COLUMNS))
    assert "indexes" not in table.scan(where=f"w = {literal(value, new)}").explain()


SMALL = {"target-file-size": "1 kb", "file.block-size": "200 b", "bucket": 2}
MODES = {
    "vectors": {},
    "merge at read": {"deletion-vectors.enabled": "false"},
    "partial update": {"merge-engine": "partial-update"},
    "first row": {"merge-engine": "first-row"},
    "lookup": {"changelog-producer": "lookup"},
}


@pytest.mark.parametrize("mode", MODES)
def test_a_keyed_table_reads_the_same_with_indexes(mode):
    """Rows of any kind at any level: an index leaves out no file whose rows hide others."""
    shape = Shape.of("int")

    @examples(3)
    @given(st.data())
    def check(data):
        with tiny_units(rows=3):
            plain, indexed = new_lake(), new_lake()
            tables = [
                shape.create(lake, **MODES[mode], **more, **SMALL)
                for lake, more in ((plain, {}), (indexed, {COLUMNS: "k0,n,s", **data.draw(st.sampled_from([{}, BESIDE]))}))
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


# --- what it saves ---


def _many(**options: object) -> Table:
    """Twenty files of 500 keys, each file with keys of the whole range."""
    table = new_lake().create_table("d.t", "k BIGINT, v INT", options={COLUMNS: "k", RATE: "0.0001", **options})
    for start in range(20):
        table.append(pa.table({"k": pa.array(range(start, 10_000, 20)), "v": pa.array([start] * 500, pa.int32())}))
    return table


def test_a_plan_and_a_merge_read_the_candidates_only():
    table = _many()
    plan = table.scan(where="k IN (3, 23, 8005)").plan()
    assert plan.pruned[-2:] == (("statistics", 20), ("indexes", 2))
    assert "-> 20 (statistics) -> 2 (indexes)" in table.scan(where="k IN (3, 23, 8005)").explain()
    assert table.scan(where="k = 3 OR v >= 0").plan().files == 20, "v has no index"
    assert table.scan(where="k = 3 AND v >= 0").plan().files == 1
    assert table.scan(where="NOT (k = 3)").plan().files == 20
    storage = table.meta.env.storage
    data = {path for path in contents(storage) if path.endswith(".parquet")}
    kept = {storage_path for split in plan.splits for storage_path in map(table.meta.paths.data, split.files)}
    for path in data - kept:
        storage.delete(path)  # nobody reads the others
    report = table.merge({"k": [3, 8005], "v": [-1, -2]}, "t.k = s.k").when_matched_update({"v": "s.v"}).execute()
    assert (report.updated, report.inserted) == (2, 0)


def test_compactions_index_what_they_write():
    table = _many(**BESIDE)
    table.compact(full=True)
    assert table.files().num_rows == 1
    assert table.scan(where="k = 20").plan().files == 1
    assert table.scan(where="k = 5 AND v = 5").plan().files == 1
    assert table.scan(where="k = 4444444").plan().files == 0
    assert table.verify() == []


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


def test_verify_finds_an_index_of_other_values():
    table = _many(**BESIDE)
    storage = table.meta.env.storage
    one, other = sorted(_indexes(storage))[:2]
    data = contents(storage)
    storage.delete(one)
    storage.put_if_absent(one, data[other])
    (finding,) = lake_on(storage, "b-").table("d.t").verify()
    assert finding.where == one.removesuffix(".index")
    assert "the index of the file lacks values of 'k'" in finding.what


# --- options ---


@pytest.mark.parametrize(
    "options, words",
    [
        ({COLUMNS: "nothing"}, "is not a column"),
        ({COLUMNS: "tags"}, "no struct, list or map"),
        ({RATE: "0.01"}, COLUMNS),
        ({THRESHOLD: "1 kb"}, COLUMNS),
        ({COLUMNS: "k", RATE: "0"}, "greater than 0"),
    ],
)
def test_options_that_fit_no_column_are_refused(options, words):
    with pytest.raises(InvalidOption, match=words):
        new_lake().create_table("d.t", "k INT, tags ARRAY<STRING>", options=options)
