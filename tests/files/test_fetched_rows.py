"""Rows that are fetched from a file by their positions, and what of it stays in memory."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lsmlake
from lsmlake.api.table import Table
from lsmlake.errors import Corrupt
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format.data_files import DataFile

ROWS = 20_000
COLUMNS = ["id", "city", "price"]
SPREAD = np.arange(3, ROWS, 7)
ENOUGH = 1 << 24


def filled(folder: Path, name: str = "default.cities", lake: lsmlake.Lake | None = None, **options: str) -> Table:
    """A table with one file of several row groups, which stores `city` as a dictionary."""
    lake = lake or lsmlake.connect(folder)
    lake.create_database("default", if_not_exists=True)
    ids = np.arange(ROWS)
    cities = pa.array([f"city {number}" for number in range(50)]).take(pa.array(ids % 50))
    rows = pa.table({"id": ids, "city": cities, "price": ids * 0.25 + 0.5})
    sizes = {"file.block-size": "32 kb", "file.compression": "zstd"}
    table = lake.create_table(name, rows.schema, primary_key=["id"], options=sizes | options)
    table.upsert(rows)
    return table


def place(table: Table, folder: Path) -> tuple[BucketFiles, DataFile, Path]:
    """The bucket of the table, its file, and where that is."""
    (state,) = table.version.states().values()
    (file,) = state.files
    (path,) = folder.rglob(file.name)
    return BucketFiles.of(table.version, state.bucket), file, path


def taken(path: Path, positions: np.ndarray) -> pa.Table:
    """What PyArrow reads."""
    return pq.read_table(path, columns=COLUMNS).take(pa.array(positions)).replace_schema_metadata(None)


def fetched(files: BucketFiles, file: DataFile, positions: np.ndarray, limit_bytes: int) -> pa.Table:
    return pa.concat_tables(files.fetch_again(file, positions, COLUMNS, limit_bytes))


def test_texts_of_a_dictionary_are_returned_as_texts(tmp_path: Path):
    files, file, path = place(filled(tmp_path), tmp_path)
    footer = pq.read_metadata(path)
    assert footer.num_row_groups > 1 and footer.row_group(0).column(1).has_dictionary_page
    for positions in (SPREAD, np.array([], np.int64), np.array([0]), np.array([5, ROWS - 1])):
        found = pa.concat_tables([files.schema.row_columns.empty_table(), *files.fetch(file, positions, COLUMNS)])
        assert found.schema.field("city").type == pa.string()
        assert found.to_pydict() == taken(path, positions).to_pydict()


def test_a_file_that_was_fetched_as_a_whole_is_not_read_again(tmp_path: Path):
    """Rows of every row group were wanted, so the file can be gone afterwards."""
    files, file, path = place(filled(tmp_path), tmp_path)
    other = SPREAD + 2
    first, second = taken(path, SPREAD), taken(path, other)
    assert fetched(files, file, SPREAD, ENOUGH).to_pydict() == first.to_pydict()
    path.unlink()
    assert fetched(files, file, other, ENOUGH).to_pydict() == second.to_pydict()
    assert fetched(files, file, np.array([ROWS - 1]), ENOUGH)["id"].to_pylist() == [ROWS - 1]
    with pytest.raises(Corrupt, match="missing"):
        list(files.fetch(file, SPREAD, COLUMNS))
    with pytest.raises(Corrupt, match="missing"):
        list(files.fetch_again(file, SPREAD, ["id", "price"], ENOUGH))  # other columns than those kept


@pytest.mark.parametrize("limit_bytes", [0, 1_000])
def test_a_file_beyond_the_limit_is_not_kept(tmp_path: Path, limit_bytes: int):
    files, file, path = place(filled(tmp_path), tmp_path)
    assert fetched(files, file, SPREAD, limit_bytes).to_pydict() == taken(path, SPREAD).to_pydict()
    assert files.meta.env.decoded.bytes == 0


def test_a_file_of_which_a_part_was_read_is_not_kept(tmp_path: Path):
    files, file, path = place(filled(tmp_path), tmp_path)
    late = np.array([ROWS - 2, ROWS - 1])
    assert fetched(files, file, late, ENOUGH).to_pydict() == taken(path, late).to_pydict()
    assert files.meta.env.decoded.bytes == 0


def test_the_limit_is_that_of_all_tables_of_a_lake(tmp_path: Path):
    """The file of a second table pushes that of the first one out, which is then read again."""
    lake = lsmlake.connect(tmp_path)
    table = filled(tmp_path, lake=lake)
    (files, file, path), decoded = place(table, tmp_path), table.version.meta.env.decoded
    fetched(files, file, SPREAD, ENOUGH)
    limit = decoded.bytes + 1_000
    others, other, _ = place(filled(tmp_path, "default.towns", lake=lake), tmp_path)
    assert others.meta.env.decoded is decoded
    fetched(others, other, SPREAD, limit)
    assert 0 < decoded.bytes <= limit
    path.unlink()
    with pytest.raises(Corrupt, match="missing"):
        fetched(files, file, SPREAD, ENOUGH)


@pytest.mark.parametrize("kept", ["256 mb", "0 b"])
def test_updates_of_spread_keys_have_an_exact_changelog(tmp_path: Path, kept: str):
    """Rounds of updates, whose old rows come from memory or from files; a column is added and one renamed between them."""
    options = {"changelog-producer": "lookup", "lookup.cache-max-memory-size": kept}
    table = filled(tmp_path, **options)
    price = dict(enumerate(np.arange(ROWS) * 0.25 + 0.5))
    for number in range(6):
        if number == 2:
            table.alter(lsmlake.rename_column("city", "town"))
        if number == 4:
            table.alter(lsmlake.add_column("note", "STRING"))
        names = table.schema.names
        ids = np.arange(number, ROWS, 5)
        new = pa.table({"id": ids, names[1]: pa.array([f"place {number}"] * len(ids)), "price": ids + number * 0.5})
        before = table.snapshots().num_rows
        table.upsert(new)
        changes = table.changes(before, mode="changelog").to_arrow().sort_by([("id", "ascending"), ("_row_kind", "descending")])
        old = changes.filter(pc.equal(changes["_row_kind"], "-U"))
        assert old["id"].to_pylist() == ids.tolist()
        assert old["price"].to_pylist() == [price[key] for key in ids.tolist()]
        assert "note" not in names or set(old["note"].to_pylist()) == {None}
        price.update(zip(ids.tolist(), new["price"].to_pylist(), strict=True))
        assert (table.version.meta.env.decoded.bytes > 0) == (kept != "0 b")


def test_columns_of_a_branch_do_not_get_the_rows_of_another_branch(tmp_path: Path):
    """Both add a column `note` by a schema of the same number, with different defaults, and share the file of the old rows."""
    table = filled(tmp_path, **{"changelog-producer": "lookup"})
    table.create_branch("apart")
    ids = np.arange(3, ROWS - 5, 5)
    for handle, note in ((table, "here"), (table.branch("apart"), "there"), (table, "here")):
        if "note" not in handle.schema.names:
            handle.alter(lsmlake.add_column("note", "STRING", default=note))
        before = handle.snapshots()["snapshot_id"].to_pylist()
        handle.upsert(pa.table({"id": ids, "city": ["a"] * len(ids), "price": ids * 1.0, "note": ["new"] * len(ids)}))
        changes = handle.changes(max(before), mode="changelog").to_arrow()
        old = changes.filter(pc.equal(changes["_row_kind"], "-U"))
        assert old.num_rows == len(ids)
        assert set(old["note"].to_pylist()) == {note}
        ids = ids + 1
    assert table.version.meta.env.decoded is table.branch("apart").version.meta.env.decoded


@pytest.mark.parametrize("seed", range(12))
def test_rows_are_those_that_pyarrow_takes(tmp_path: Path, seed: int):
    """Texts of few and of many values, empty ones and nulls, which differ between the row groups; rows in any number."""
    chance = np.random.default_rng(seed)
    count = int(chance.integers(1, 30_000))
    ids = np.arange(count)
    few = [None, "", "x", "\u00e9\n\0", *(f"text {number}" for number in range(chance.integers(0, 60)))]
    blocks = np.repeat(chance.integers(0, len(few), count // 500 + 1), 500)[:count]
    texts = [
        few[(block + step) % len(few)] for block, step in zip(blocks.tolist(), chance.integers(0, 4, count).tolist(), strict=True)
    ]
    rows = pa.table(
        {
            "id": ids,
            "city": pa.array(texts, pa.string()),
            "price": pa.array(ids * 0.5, mask=chance.random(count) < 0.3),
            "note": pa.array([None] * count if seed % 2 else list(map(str, ids.tolist())), pa.string()),
            "tags": pa.array([None if number % 7 == 0 else texts[number : number + number % 3] for number in range(count)]),
            "place": pa.array([None if number % 5 == 0 else {"town": texts[number]} for number in range(count)]),
        }
    )
    lake = lsmlake.connect(tmp_path)
    lake.create_database("default")
    table = lake.create_table("default.mixed", rows.schema, primary_key=["id"], options={"file.block-size": "32 kb"})
    table.upsert(rows)
    files, file, _ = place(table, tmp_path)
    for size in (1, count // 3, count, count // 2):
        positions = np.sort(chance.choice(count, max(1, size), replace=False))
        names = chance.permutation(rows.column_names).tolist()
        wanted = rows.select(names).take(pa.array(positions)).to_pydict()
        for found in (files.fetch(file, positions, names), files.fetch_again(file, positions, names, ENOUGH)):
            taken_rows = pa.concat_tables(found)
            assert taken_rows.schema.types == [files.schema.row_columns.field(name).type for name in names]
            assert taken_rows.to_pydict() == wanted


def test_decoded_rows_are_not_passed_on_to_tasks(tmp_path: Path):
    files, file, _ = place(filled(tmp_path), tmp_path)
    fetched(files, file, SPREAD, ENOUGH)
    assert files.meta.env.decoded.bytes > 0
    assert pickle.loads(pickle.dumps(files.meta.env)).decoded is None
