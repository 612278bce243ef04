"""Copies of rows on a disk: lookups find by them what a scan finds, whatever happens to the folder, and read no data file."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from datetime import timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from effort import examples
from faults import FaultStorage
from hypothesis import given
from hypothesis import strategies as st
from strategies import copying, lake_on, new_lake

import lsmlake
from lsmlake import add_column
from lsmlake.api.table import Table
from lsmlake.format.row_blocks import DAMAGES, END_BYTES, RowForm, places_bytes, read_places
from lsmlake.kernels.bucket_hash import spark_hash
from lsmlake.storage.memory import MemoryStorage

ROWS, UTC = 3_000, timezone.utc
EXACT = {
    "id": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "flag": (pa.bool_(), st.booleans()),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "short": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), st.text(max_size=9)),
    "bytes": (pa.binary(), st.binary(max_size=9)),
    "day": (pa.date32(), st.dates()),
    "at": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    "local": (pa.timestamp("us"), st.datetimes()),
    "time": (pa.time64("us"), st.times()),
    "small": (pa.decimal128(9, 2), st.decimals(-9_999_999, 9_999_999, places=2)),
    "large": (pa.decimal128(38, 5), st.decimals(-(10**32), 10**32, places=5)),
}
"""A column of each type, and its values."""


@given(st.data())
@examples(30)
def test_every_value_is_found_as_it_was(data: st.DataObject):
    names = ["id", *data.draw(st.lists(st.sampled_from(list(EXACT)[1:]), unique=True))]
    schema = pa.schema([pa.field(name, EXACT[name][0]) for name in names])
    kinds = [EXACT[name][1] if name == "id" else st.none() | EXACT[name][1] for name in names]
    rows = data.draw(st.lists(st.tuples(*kinds), min_size=1, max_size=40, unique_by=lambda row: row[0]))
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    table = pa.table(columns, schema=schema)
    form = RowForm(schema)
    copy = form.encode(table, ["id"], 5)
    places = read_places(copy[-places_bytes(copy[-END_BYTES:]) :], 5)
    for position, row in enumerate(table.to_pylist()):
        hash_ = int(spark_hash([table["id"].slice(position, 1)]).view(np.uint32)[0])
        start, end = places.of(hash_)
        assert places.may_hold(hash_)
        found = {one.position: one.values for one in form.find(copy[start:end], hash_, 5)}
        assert found[position] == tuple(row.values())
        for broken in (copy[start : end - 1], copy[start:end] + b"x", bytes([copy[start] ^ 1]) + copy[start + 1 : end], b""):
            with pytest.raises(DAMAGES):
                form.find(broken, hash_, 5)
        with pytest.raises(DAMAGES):
            form.find(copy[start:end], hash_, 6)


@pytest.mark.parametrize(("rows", "most"), [(1 << 16, 0.15), ((1 << 16) + 1, 1)])
def test_a_filter_leaves_out_most_absent_keys_of_a_small_copy(rows: int, most: float):
    table = pa.table({"id": pa.array(range(0, 2 * rows, 2), pa.int64())})
    copy = RowForm(table.schema).encode(table, ["id"], 0)
    places = read_places(copy[-places_bytes(copy[-END_BYTES:]) :], 0)
    hashes = spark_hash([pa.array(range(20_000), pa.int64())]).view(np.uint32).tolist()
    assert all(map(places.may_hold, hashes[::2]))
    assert 0 < sum(map(places.may_hold, hashes[1::2])) / 10_000 <= most


def orders(storage: FaultStorage | MemoryStorage, version: int = 0) -> Table:
    """A table of several row groups, whose newest rows are in a level of their own and at level 0."""
    table = new_lake(storage).create_table(
        "d.t",
        "k BIGINT NOT NULL, t STRING, d DECIMAL(12, 2)",
        primary_key=["k"],
        options={"bucket": 2, "file.block-size": "10 kb"},
    )
    table.upsert(content(range(ROWS)), compact=False)
    table.compact(full=True)
    table.upsert(content(range(0, ROWS, 50), "newer"), compact=True)
    table.delete_keys({"k": [7, 50]})
    table.upsert(content([100], "newest"), compact=False)
    return table


def content(keys: range | list[int], text: str = "old") -> pa.Table:
    return pa.table({"k": list(keys), "t": [f"{text} {key}" for key in keys], "d": pa.array(list(keys), pa.decimal128(12, 2))})


ASKED = [0, 1, 7, 49, 50, 100, 150, *range(ROWS - 9, ROWS + 1), -1]


def answers(table: Table) -> list[dict | None]:
    return [table.get({"k": key}) for key in ASKED]


def test_a_second_process_finds_rows_by_the_copies_of_the_first(tmp_path: Path):
    storage = FaultStorage(MemoryStorage())
    expected = answers(orders(storage))
    assert [row and row["t"] for row in expected[:6]] == ["newer 0", "old 1", None, "old 49", None, "newest 100"]
    with copying(str(tmp_path)):
        assert answers(lake_on(storage, "first-").table("d.t")) == expected
        other = lake_on(storage, "second-").table("d.t")
        assert answers(other) == expected
        storage.calls = []
        assert [other.get({"k": key}) for key in range(1, ROWS, 100)] == content(range(1, ROWS, 100)).to_pylist()
        together = other.get([{"k": key} for key in (201, 200, 7, 202)])
        assert together.equals(pa.concat_tables([content([201]), content([200], "newer"), content([202])]).cast(together.schema))
        where = other.scan(where="k IN (201, 7, 150) AND t LIKE 'n%'", columns=["d"]).to_arrow().to_pylist()
        assert where == content([150], "newer").select(["d"]).to_pylist()
        assert not [path for name, path in storage.calls if name == "read" and "/data-" in path]


def _lose(folder: Path) -> None:
    shutil.rmtree(folder)


def _cut(folder: Path) -> None:
    for path in folder.rglob("*.part"):
        path.write_bytes(path.read_bytes()[: random.Random(str(path)).randrange(path.stat().st_size)])


def _flip(folder: Path) -> None:
    for path in folder.rglob("*.part"):
        path.write_bytes(bytes(byte ^ 16 for byte in path.read_bytes()))


def _swap(folder: Path) -> None:
    paths = sorted(folder.rglob("*.part"))
    contents = [path.read_bytes() for path in paths]
    for path, data in zip(paths, contents[1:] + contents[:1], strict=True):
        path.write_bytes(data)


@pytest.mark.parametrize("harm", [_lose, _cut, _flip, _swap])
def test_copies_that_are_lost_or_damaged_are_made_again(tmp_path: Path, harm: Callable[[Path], None]):
    storage = MemoryStorage()
    expected = answers(orders(storage))
    with copying(str(tmp_path)):
        opened = lake_on(storage, "first-").table("d.t")
        assert answers(opened) == expected
        whole = {path.name: path.read_bytes() for path in tmp_path.rglob("*.part")}
        assert len(whole) > 3
        harm(tmp_path)
        for table in (opened, lake_on(storage, "second-").table("d.t"), opened):
            for _ in range(2):
                assert answers(table) == expected
        assert {path.name: path.read_bytes() for path in tmp_path.rglob("*.part")} == whole


def test_copies_have_the_columns_of_the_reader(tmp_path: Path):
    storage = MemoryStorage()
    with copying(str(tmp_path)):
        table = orders(storage)
        old = table.version.number
        assert answers(table)[1] == content([1]).to_pylist()[0]
        table.alter(add_column("note", "STRING", default="none"))
        assert table.get({"k": 1}) == {**content([1]).to_pylist()[0], "note": "none"}
        assert table.scan(snapshot=old, where="k = 1").to_arrow().column_names == ["k", "t", "d"]
        table.alter(add_column("tags", "ARRAY<STRING>"))
        assert table.get({"k": 1})["tags"] is None


def test_connect_copies_rows_of_a_directory_within_the_limit(tmp_path: Path):
    lake = lsmlake.connect(tmp_path / "lake", cache=tmp_path / "cache", cache_bytes=64 << 20)
    lake.create_database("d")
    table = lake.create_table_from("d.t", content(range(ROWS)), primary_key=["k"])
    table.compact(full=True)
    for key in range(20):
        assert table.get({"k": key}) == content([key]).to_pylist()[0]
    assert sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*.part")) > 20 * ROWS
    wide = lake.create_table_from("d.wide", {"k": range(20), "t": ["x" * 100_000] * 20}, primary_key=["k"])
    wide.compact(full=True)
    before = list((tmp_path / "cache").rglob("*.part"))
    for key in range(20):
        assert len(wide.get({"k": key})["t"]) == 100_000
    assert list((tmp_path / "cache").rglob("*.part")) == before  # a row group does not fit
