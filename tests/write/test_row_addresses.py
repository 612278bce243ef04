"""The option `file.row-addresses`: what data files hold, what readers show of it, and what `verify` finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from strategies import tiny_units

import lsmlake
from lsmlake import set_option
from lsmlake.files import data_writer
from lsmlake.format.data_files import number_of

COLUMN = "_lsmlake_row_address"


@pytest.fixture
def lake(tmp_path):
    with tiny_units():
        made = lsmlake.connect(tmp_path)
        made.create_database("d")
        yield made


def created(lake, *, addresses: str = "true", **more):
    options = {"file.row-addresses": addresses, "bucket": 2, "compaction.reclaim-dead-percent": 100}
    return lake.create_table("d.t", "k BIGINT NOT NULL, v STRING, n INT", primary_key=["k"], options=options, **more)


def rows(keys, text: str) -> pa.Table:
    keys = np.asarray(keys, np.int64)
    return pa.table({"k": keys, "v": [f"{text}{key}" for key in keys.tolist()], "n": pa.array(keys % 7, pa.int32())})


def stored(table, folder: Path) -> dict[str, pa.Table]:
    """Name of each live file -> what any Parquet reader finds in it."""
    paths = table.files()["file_path"].to_pylist()
    return {Path(path).name: pq.read_table(folder / path.split("://")[-1].lstrip("/")) for path in paths}


def by_key(found: pa.Table) -> list[dict]:
    return found.sort_by("k").to_pylist()


def test_each_row_has_the_number_of_its_file_and_its_position(lake, tmp_path):
    table = created(lake)
    table.upsert(rows(range(40), "a"), compact=False)
    table.upsert(rows(range(0, 60, 3), "b"), compact=True)
    table.delete_keys(rows([0, 1, 2, 45], "").select(["k"]), compact=False)
    files = stored(table, tmp_path)
    assert len(files) > 3
    for name, found in files.items():
        expected = (number_of(name) << 32) + np.arange(found.num_rows)
        assert found[COLUMN].to_numpy().tolist() == expected.tolist()
        assert found.schema.field(COLUMN).metadata[b"PARQUET:field_id"] == b"2147483102"
        assert not found.schema.field(COLUMN).nullable


def test_no_reader_shows_the_addresses(lake):
    table = created(lake)
    table.upsert(rows(range(40), "a"))
    table.upsert(rows(range(0, 60, 3), "b"), compact=True)
    expected = by_key(pa.concat_tables([rows([k for k in range(40) if k % 3], "a"), rows(range(0, 60, 3), "b")]))
    assert table.schema.names == ["k", "v", "n"]
    assert by_key(table.scan().to_arrow()) == expected
    assert by_key(table.scan().to_duckdb().to_arrow_table()) == expected
    assert by_key(table.scan().to_polars().collect().to_arrow().cast(table.schema)) == expected
    assert by_key(lake.sql("SELECT * FROM d.t").to_arrow()) == expected
    assert by_key(StaticTable.from_metadata(table.publish_iceberg()).scan().to_arrow().cast(table.schema)) == expected


def test_the_option_counts_for_new_files_only(lake, tmp_path):
    table = created(lake, addresses="false")
    table.upsert(rows(range(20), "a"))
    assert all(COLUMN not in found.column_names for found in stored(table, tmp_path).values())
    table.alter(set_option("file.row-addresses", "true"))
    table.upsert(rows(range(10, 30), "b"), compact=False)
    assert {COLUMN in found.column_names for found in stored(table, tmp_path).values()} == {False, True}
    table.compact(full=True)
    assert all(COLUMN in found.column_names for found in stored(table, tmp_path).values())
    assert by_key(table.scan().to_arrow()) == by_key(pa.concat_tables([rows(range(10), "a"), rows(range(10, 30), "b")]))
    assert table.verify() == []


@pytest.mark.parametrize("rows_of_file", [4_095, 4_096])
def test_by_default_files_of_many_rows_have_addresses(tmp_path, rows_of_file):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    for name, options in {"d.t": {}, "d.merged": {"deletion-vectors.enabled": False}}.items():
        table = lake.create_table(name, "k BIGINT NOT NULL, v STRING, n INT", primary_key=["k"], options=options)
        table.upsert(rows(range(rows_of_file), "a"))
        (found,) = stored(table, tmp_path).values()
        has = name == "d.t" and rows_of_file == 4_096
        assert found.column_names == ["k", "v", "n", *([COLUMN] if has else [])], "a table that has no masks needs no addresses"


def test_verify_finds_addresses_of_another_file(lake, monkeypatch):
    table = created(lake)
    table.upsert(rows(range(20), "a"))
    assert table.verify() == []
    monkeypatch.setattr(data_writer._FileWriter, "_addressed", shifted(data_writer._FileWriter._addressed))
    table.upsert(rows(range(20), "b"), compact=False)
    assert any("row addresses are not those of file number" in found.what for found in table.verify())


def shifted(addressed):
    """Writes the address of the row before for each row."""

    def wrong(writer, found: pa.Table) -> pa.Table:
        made = addressed(writer, found)
        place = made.column_names.index(COLUMN)
        return made.set_column(place, made.schema.field(place), pa.array(made[COLUMN].to_numpy() - 1))

    return wrong
