"""A lookup of a few keys reads one page of each column, and finds what a scan finds."""

from __future__ import annotations

from contextlib import nullcontext
from decimal import Decimal
from functools import reduce
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from effort import examples
from faults import FaultStorage
from history import Player, histories, played
from hypothesis import given
from hypothesis import strategies as st
from merge_setups import SETUPS
from strategies import (
    KEYS,
    KINDS,
    PARTITIONS,
    VALUES,
    Shape,
    both,
    comparison,
    conditions,
    contents,
    copying,
    encoded_rows,
    holding,
    lake_on,
    new_lake,
    rows_of,
    tiny_units,
)

from lsmlake import change_type, move_column, set_option
from lsmlake.api.table import Table
from lsmlake.errors import Corrupt
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.page_reader import PageReader, _PageSource
from lsmlake.format.page import read_struct
from lsmlake.read import point
from lsmlake.read.point import KeyedFiles, lookups_are_cheaper
from lsmlake.storage.memory import MemoryStorage

ALTERATIONS = [set_option("write-only", True), change_type("n", "BIGINT"), move_column("stamp", first=True)]
"""Alterations after which some files have the columns of the table as they are, and others do not."""
FLAT = {name: kind for name, kind in VALUES.items() if name != "tags"} | {"stamp": KINDS["BIGINT"]}


@examples(25)
@given(data=st.data())
def test_a_lookup_finds_what_a_scan_finds(data: st.DataObject):
    shape = Shape.of(data.draw(st.sampled_from(list(KEYS))), data.draw(st.sampled_from(list(PARTITIONS))), FLAT)
    table = shape.create(new_lake(), bucket=2)
    stamp, data_rows = 0, data.draw(st.sampled_from([0, 10, 1000]))
    with tiny_units(rows=3), patch.object(BucketFiles, "_is_read_whole", lambda files, file: file.rows < data_rows):
        for drawn in data.draw(st.lists(encoded_rows(20), min_size=1, max_size=4)):
            rows = []
            for code, value in drawn:
                values = [kind.values[(value + 3 * i) % len(kind.values)] for i, kind in enumerate(FLAT.values())]
                rows.append((*shape.key_values(code), *values[:-1], stamp := stamp + 1))
            table.upsert(shape.table(rows, table.schema), compact=data.draw(st.booleans()))
            if data.draw(st.integers(0, 2)) == 0:
                table.delete_keys(shape.table([shape.key_of(rows[0])], table.schema, shape.primary_key))
            for alteration in data.draw(st.lists(st.sampled_from(ALTERATIONS), max_size=1)):
                table.alter(alteration)
        if data.draw(st.booleans()):
            table.compact(full=data.draw(st.booleans()))
        stored = table.scan(columns=shape.names).to_arrow()
        by_key = {shape.key_of(row): row for row in zip(*(column.to_pylist() for column in stored.columns), strict=True)}
        for _ in range(4):
            codes = data.draw(st.lists(st.integers(0, 255), min_size=1, max_size=5))
            keys = [key_of(shape, code) for code in codes]
            found = table.get(shape.table(keys, table.schema, shape.primary_key))
            expected = [by_key[key] for key in dict.fromkeys(keys) if key in by_key]
            assert rows_of(found.select(shape.names)) == rows_of(shape.table(expected, table.schema))
            assert found.schema == table.schema


@pytest.mark.parametrize("rule", SETUPS)
def test_lookups_find_the_rows_of_the_model(rule: str, tmp_path: Path):
    """Under every engine and table mode: present, deleted and absent keys, after every step of a history, one at a time and
    together, by pages, from files held whole, and by copies of rows on a disk."""

    @examples(4)
    @given(data=st.data())
    def check(data: st.DataObject):
        whole = data.draw(st.sampled_from([0, 4, 1000]))
        plan = data.draw(histories(rule))
        codes = st.lists(st.integers(0, 255), min_size=1, max_size=6)

        def look_up(player: Player) -> None:
            shape, table = player.shape, player.table
            keys = [key_of(shape, code % (plan.world.keys + 2)) for code in data.draw(codes)]
            expected = {key: {key: player.rows[key]} if key in player.rows else {} for key in keys}
            for key in keys[:2]:
                found = table.get(dict(zip(shape.primary_key, key, strict=True)))
                assert (found is not None) == bool(expected[key])
            found = table.get(shape.table(keys, table.schema, shape.primary_key))
            player.same(found, dict(item for rows in expected.values() for item in rows.items()))
            if None not in keys[0]:
                named = zip(shape.primary_key, keys[0], strict=True)
                equal = [comparison(name, "=", value, shape.kind(name).ddl) for name, value in named]
                where = reduce(both, equal, data.draw(conditions(shape, depth=1)))
                matching = {key: row for key, row in player.rows.items() if where.holds(row) is True}
                player.same(table.scan(where=where.sql).to_arrow(), matching)

        with (
            patch.object(BucketFiles, "_is_read_whole", lambda files, file: file.rows < whole),
            patch.object(point, "lookups_are_cheaper", lambda keys, files: True),
            copying(str(tmp_path)) if data.draw(st.booleans()) else nullcontext(),
        ):
            played(plan, look_up)

    check()


def key_of(shape: Shape, code: int) -> tuple:
    """A primary key as the table stores it."""
    names = [*shape.key, *(["p"] if shape.partition else [])]
    values = dict(zip(names, shape.key_values(code), strict=True))
    return tuple(0.0 if isinstance(v := values[name], float) and v == 0 else v for name in shape.primary_key)


ROWS = 60_000


def long(storage: MemoryStorage, codec: str = "zstd") -> Table:
    """One file of several pages in most columns: plain, dictionary and delta, with nulls here and there, and in long runs."""
    k = np.arange(ROWS) * 2
    some, runs = k % 5 == 0, (k // 9000) % 2 == 0
    texts = pa.array([f"{number:x}" * (number % 7) for number in k])
    columns = {
        "k": pa.array(k),
        "a": pa.array(k / 7, mask=some),
        "s": pa.array([f"text {number % 900}" for number in k]),
        "d": pa.array(k.astype(str)).cast(pa.decimal128(20, 3)),
        "t": pc.if_else(pa.array(runs), None, texts),
        "b": pa.array(k % 3 == 0, mask=some),
        "i": pa.array((k % 100).astype(np.int16), mask=runs),
        "f": pa.array((k / 3).astype(np.float32)),
        "m": pa.array(k * 1_000_003, pa.timestamp("us", "UTC")),
        "y": pa.array((k % 20_000).astype(np.int32)).cast(pa.date32()),
        "p": pa.array(k - 50_000, mask=some).cast(pa.decimal128(19)).cast(pa.decimal128(10)),
        "x": texts.cast(pa.binary()),
    }
    rows = pa.table(columns)
    schema = pa.schema([field.with_nullable(field.name != "k") for field in rows.schema])
    table = new_lake(storage).create_table("d.t", schema, primary_key=["k"], options={"file.compression": codec})
    table.upsert(rows.cast(schema))
    return table


@pytest.fixture
def by_pages(monkeypatch):
    """No file is small."""
    monkeypatch.setattr(BucketFiles, "_is_read_whole", lambda files, file: False)


@pytest.mark.parametrize("codec", ["zstd", "lz4", "snappy", "none"])
def test_rows_at_the_ends_of_pages_are_found_in_one_read(by_pages, codec: str):
    storage = FaultStorage(MemoryStorage())
    table = long(storage, codec)
    with BucketFiles.of(table.version, next(iter(table.states()))).open(next(iter(table.states().values())).files[0]) as reader:
        pages, size = PageReader(reader), reader.source.size()
        file = _PageSource(reader.path, reader.source, size, table.meta.files.cache)
        first = {row for leaf in range(1, 12) for row in pages._pages(file, 0, leaf).first}
    assert len(first) > 8
    every = table.scan().to_arrow().sort_by("k")
    for row in sorted({*first, *(row - 1 for row in first if row), ROWS - 1, 12_345}):
        assert table.get({"k": 2 * row}) == every.slice(row, 1).to_pylist()[0]
        assert table.get({"k": 2 * row + 1}) is None
    for found in (["read"], []):  # a row that was looked up is kept
        storage.calls = []
        assert table.get({"k": 24_696})["s"] == "text 396"
        assert [name for name, call in storage.calls if "/data-" in call] == found
    storage.calls = []
    (row,) = table.scan(where="k = 24698 AND s = 'text 398'", columns=["d", "s"]).to_arrow().to_pylist()
    assert row == {"d": Decimal(24698), "s": "text 398"}
    assert [name for name, call in storage.calls if "/data-" in call] == ["read"]


def test_a_damaged_page_index_gives_an_error_or_the_right_row(by_pages):
    storage = MemoryStorage()
    long(storage)
    files = contents(storage)
    (path,) = [path for path in files if "/data-" in path]
    data = files[path]
    footer, _ = read_struct(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    (group,) = footer[4][1][1]
    chunks = group[1][1][1]
    start, end = chunks[0][4][1], chunks[-1][4][1] + chunks[-1][5][1]
    good = lake_on(storage, "good-").table("d.t").get({"k": 50_000})
    refused = 0
    for at in range(start, end, 11):
        broken = data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]
        table = lake_on(holding({**files, path: broken}), "again-").table("d.t")
        try:
            assert table.get({"k": 50_000}) == good, at
        except Corrupt:
            refused += 1
    assert refused > 5


def test_a_small_file_is_read_once_and_then_answers_from_memory():
    storage = FaultStorage(MemoryStorage())
    table = new_lake(storage).create_table("d.t", "k INT NOT NULL, v STRING", primary_key=["k"])
    table.upsert({"k": list(range(100)), "v": [f"{k}" for k in range(100)]})
    reads = []
    for key in (5, 7, 200, 99):
        storage.calls = []
        assert table.get({"k": key}) == ({"k": key, "v": f"{key}"} if key < 100 else None)
        reads.append(len([path for name, path in storage.calls if name == "read" and "/data-" in path]))
    assert reads == [1, 0, 0, 0]


@pytest.mark.parametrize("rows", [10, 1_000_000, 100_000_000])
@pytest.mark.parametrize("nested", [False, True])
def test_a_few_keys_are_looked_up_and_many_are_scanned(rows: int, nested: bool):
    for files in (KeyedFiles(rows, 0, 12, nested), KeyedFiles(rows, rows // 2, 12, nested), KeyedFiles(rows, rows, 12, nested)):
        chosen = [lookups_are_cheaper(keys, files) for keys in (1, 10, 1_000, 100_000, 10_000_000, 1_000_000_000)]
        assert chosen == sorted(chosen, reverse=True)
        assert chosen[0]
        assert not chosen[-1]


@pytest.mark.parametrize("columns", [1, 20])
def test_a_footer_that_is_cut_is_refused(columns: int):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({f"c{i}": range(100) for i in range(columns)}), sink, row_group_size=7, write_page_index=True)
    data = sink.getvalue().to_pybytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    struct, end = read_struct(footer)
    assert end == len(footer)
    assert struct[3][1] == 100
    for cut in range(0, len(footer) - 1, max(11, len(footer) // 50)):
        with pytest.raises(ValueError, match="Thrift"):
            read_struct(footer[:cut])
