"""What a scan without a runtime reads, and that text round-trips in every Parquet encoding."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from strategies import fake_env

from lsmlake import add_column, change_type, drop_column, rename_column, set_option
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.errors import InvalidQuery
from lsmlake.files.data_reader import DataReader, FileColumns
from lsmlake.read import point
from lsmlake.storage.local import LocalStorage
from lsmlake.storage.memory import MemoryStorage

ROWS = 20_000
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("city", pa.string()),
        ("code", pa.string()),
        ("number", pa.int64()),
    ]
)
QUESTIONS = [
    None,
    "number >= 900",
    "city = 'Lima'",
    "city LIKE 'L%' AND number < 100",
    "city IS NULL",
    "code = 'code 77'",
    "k = 4321",
    "k IN (1, 77, 4000, 99999) AND city <> 'Lima'",
    "k BETWEEN 100 AND 120",
]


def rows(keys: np.ndarray, version: int) -> pa.Table:
    chance = np.random.default_rng(version)
    cities = pa.array(["Lima", "Łódź", "", None, "Xi'an"]).take(pa.array(chance.integers(0, 5, len(keys))))
    codes = pa.array([f"code {key + version}" for key in keys.tolist()])
    return pa.table([pa.array(keys), cities, codes, pa.array(chance.integers(0, 1000, len(keys)))], schema=SCHEMA)


def filled(storage, workers: int):
    lake = Lake(replace(fake_env(storage), workers=workers), Runtime())
    lake.create_database("d", if_not_exists=True)
    options = {"bucket": 2, "file.block-size": "64 kb"}  # so that a file has several row groups, each with its own dictionary
    table = lake.create_table("d.t", SCHEMA, primary_key=["k"], options=options)
    table.upsert(rows(np.arange(ROWS), 0))
    table.upsert(rows(np.arange(0, ROWS, 7), 1))
    table.upsert(rows(np.arange(0, ROWS, 11), 2), compact=False)
    table.delete_keys(pa.table({"k": np.arange(0, ROWS, 13)}), compact=False)
    return table


def truth() -> pa.Table:
    found = {}
    for version, step in enumerate((1, 7, 11)):
        keys = np.arange(0, ROWS, step)
        for row in rows(keys, version).to_pylist():
            found[row["k"]] = row
    for key in range(0, ROWS, 13):
        del found[key]
    return pa.Table.from_pylist(sorted(found.values(), key=lambda row: row["k"]), schema=SCHEMA)


@pytest.fixture(scope="module", params=[1, 3], ids=["one worker", "three workers"])
def table(request: pytest.FixtureRequest):
    return filled(MemoryStorage(), request.param)


@pytest.mark.parametrize("columns", [None, ["city"], ["number", "code"]], ids=str)
@pytest.mark.parametrize("where", QUESTIONS)
def test_a_scan_answers_as_duckdb_does(table, where: str | None, columns: list[str] | None):
    names = columns or SCHEMA.names
    wanted = duckdb.from_arrow(truth()).filter(where or "TRUE").project(", ".join(names)).arrow().read_all()
    found = table.scan(where=where, columns=columns).to_arrow()
    assert found.schema == pa.schema([SCHEMA.field(name) for name in names])
    assert found.sort_by([(name, "ascending") for name in names]).to_pylist() == _sorted(wanted)
    assert table.scan(where=where).count() == wanted.num_rows


def _sorted(rows: pa.Table) -> list[dict]:
    return rows.sort_by([(name, "ascending") for name in rows.column_names]).to_pylist()


def test_text_of_few_values_is_read_by_dictionary_and_no_other(tmp_path):
    table = filled(LocalStorage(tmp_path), 1)
    table.compact(full=True)
    (split, _) = table.scan().plan().splits
    meta, (file,) = table.meta, split.files
    path = meta.paths.data(file)
    with DataReader(meta.env, path, file, table.version.schema, encoded=SCHEMA.names) as reader:
        assert reader.groups > 3
        read = reader.read(range(reader.groups), SCHEMA.names)
    assert [pa.types.is_dictionary(field.type) for field in read.schema] == [False, True, False, False]
    assert len({chunk.dictionary.to_pylist()[0] for chunk in read["city"].chunks}) > 1, "a dictionary for each row group"
    assert pq.read_table(tmp_path / path).cast(SCHEMA).equals(read.cast(SCHEMA))
    assert pc.any(pc.is_null(read["city"])).as_py()


@pytest.mark.parametrize("where", ["k = 4321", "k IN (4321, 4323)"])
def test_a_scan_by_key_reads_other_columns_only_in_the_row_groups_of_its_key(monkeypatch: pytest.MonkeyPatch, where: str):
    table = filled(MemoryStorage(), 1)
    table.compact()
    monkeypatch.setattr(point, "lookups_are_cheaper", lambda keys, files: False)
    read: list[tuple[str, int, set[str]]] = []
    whole = DataReader.read

    def watched(self, groups, columns):
        read.extend((self.file.name, group, set(columns)) for group in groups)
        return whole(self, groups, columns)

    monkeypatch.setattr(DataReader, "read", watched)
    found = table.scan(where=where).to_arrow()
    assert found.num_rows == where.count("43")
    more = {(file, group) for file, group, columns in read if columns != {"k"}}
    assert len(more) <= found.num_rows
    assert len({file for file, _, _ in read}) > len({file for file, _ in more}), "the key was looked for in other files, too"


def test_a_partition_value_may_be_longer_than_a_file_name(lake):
    """Two that are cut to one directory stay two partitions."""
    table = lake.create_table("d.long", "p STRING, k BIGINT, v BIGINT", primary_key=["p", "k"], partition_by=["p"])
    values = ["a" * 300, "a" * 300 + "b", "é" * 200, "%" * 100]
    table.upsert([{"p": value, "k": k, "v": 0} for value in values for k in range(3)])
    table.upsert([{"p": value, "k": 1, "v": len(value)} for value in values])
    for value in values:
        assert sorted(table.scan(where=f"p = '{value}'").to_arrow()["v"].to_pylist()) == [0, 0, len(value)]
    assert table.partitions().num_rows == len(values)
    table.compact(full=True)
    assert table.scan().count() == 3 * len(values)
    assert table.verify() == []


def test_a_raw_read_takes_the_last_level_of_the_whole_bucket(lake):
    """Under fewer levels than the tree has, the deepest file decides; a predicate that excludes it does not change that."""
    options = {"deletion-vectors.enabled": "false", "num-levels": 6, "num-sorted-run.compaction-trigger": 2}
    table = lake.create_table("d.deep", "p STRING, k BIGINT", primary_key=["p", "k"], partition_by=["p"], options=options)
    table.upsert(pa.table({"p": ["a", None] * ROWS, "k": np.random.default_rng(0).permutation(10 * ROWS)[: 2 * ROWS]}))
    table.compact(full=True)
    table.alter(set_option("num-levels", 3))
    for number in range(3):
        table.upsert([{"p": None, "k": 10 * ROWS + number}])
    assert sorted({(row["partition"], row["level"]) for row in table.files().to_pylist() if row["level"]}) == [
        ("p=__DEFAULT_PARTITION__", 4),
        ("p=__DEFAULT_PARTITION__", 5),
        ("p=a", 5),
    ]
    newer = f"k >= {10 * ROWS}"
    assert (table.scan(mode="raw").count(), table.scan(mode="raw", where=newer).count()) == (2 * ROWS, 0)
    assert table.scan(where=newer).count() == 3


def test_a_mode_that_only_readers_of_changes_have_is_refused(lake):
    table = lake.create_table("d.modes", "k INT", primary_key=["k"])
    for mode in ("compacted", "newest", None):
        with pytest.raises(InvalidQuery):
            table.scan(mode=mode)


@pytest.mark.parametrize("columns", [None, ["city"], ["total"]], ids=str)
def test_small_files_of_several_buckets_are_read_together(lake, columns):
    """Beside them a larger one with a text dictionary, and rows that are merged at read from more columns than are asked for."""
    chance = np.random.default_rng(1)
    options = {"bucket": 1, "merge-engine": "aggregation", "fields.total.aggregate-function": "sum", "sequence.field": "at"}
    table = lake.create_table(
        "d.t", "p INT, k INT, city STRING, total BIGINT, at INT", primary_key=["p", "k"], partition_by=["p"], options=options
    )
    keys = pa.table({"p": [10] * 12_000 + [k % 20 + k % 20 // 10 for k in range(400)], "k": range(12_400)})
    cities = pa.array(["Lima", "Łódź"]).take(pa.array(chance.integers(0, 2, len(keys))))
    batch = keys.append_column("city", cities).append_column("total", pa.array(chance.integers(0, 1 << 40, len(keys))))
    for at, compact in ((1, True), (2, False)):
        table.upsert(
            batch.slice((at - 1) * 12_003).append_column("at", pa.repeat(at, len(batch) - (at - 1) * 12_003)), compact=compact
        )
    assert max(table.files()["file_size_in_bytes"].to_pylist()) > 1 << 16
    known = {(row["p"], row["k"]): row for row in batch.to_pylist()}
    for key in list(known)[12_003:]:
        known[key] = known[key] | {"total": 2 * known[key]["total"]}
    names = columns or ["p", "k", "city", "total"]
    read = table.scan(columns=columns).to_arrow().select(names)
    wanted = pa.table({name: [row[name] for row in known.values()] for name in names}, schema=read.schema)
    order = [(name, "ascending") for name in names]
    assert read.sort_by(order).equals(wanted.sort_by(order))


def test_small_files_of_several_schemas_with_deleted_rows_are_read_together(lake):
    """A column was added, one widened and one renamed between files; each file is read by its own schema, and only its rows."""
    columns = pa.schema({"p": pa.int32(), "k": pa.int64(), "a": pa.int32(), "s": pa.struct({"x": pa.int32()})})
    options = {"compaction.tier-runs": 50, "compaction.reclaim-dead-percent": 100}
    table = lake.create_table("d.t", columns, primary_key=["p", "k"], partition_by=["p"], options=options)
    held: dict[tuple[int, int], tuple] = {}

    def upsert(keys: range, **values: object) -> None:
        made = [
            {"p": key % 30, "k": key, "s": {"x": key}, **{name: key * 10 + by for name, by in values.items()}} for key in keys
        ]
        table.upsert(pa.Table.from_pylist(made, table.schema))
        held.update(
            {(one["p"], one["k"]): (one.get("a", one.get("b")), one.get("n"), key) for one, key in zip(made, keys, strict=True)}
        )

    upsert(range(300), a=0)
    table.alter(change_type("a", "BIGINT"), add_column("n", "INT"))
    upsert(range(200, 260), a=1, n=2)
    table.alter(rename_column("a", "b"))
    upsert(range(280, 340), b=3, n=4)
    gone = pa.table({"p": pa.array([key % 30 for key in range(0, 300, 7)], pa.int32()), "k": range(0, 300, 7)})
    table.delete_keys(gone)
    for key in range(0, 300, 7):
        del held[key % 30, key]
    expected = sorted((p, k, b, n, x) for (p, k), (b, n, x) in held.items())

    def read(where: str | None = None) -> list[tuple]:
        found = table.scan(columns=["n", "p", "s", "k", "b"], where=where).to_arrow()
        return sorted(
            zip(
                *(found[name].to_pylist() for name in ("p", "k", "b", "n")), (s["x"] for s in found["s"].to_pylist()), strict=True
            ),
            key=lambda row: row[:2],
        )

    assert table.files().num_rows > 60
    assert sum(table.files()["deleted_record_count"].to_pylist()) > 20
    assert read() == expected
    assert read("b % 20 = 10 AND n IS NULL") == [row for row in expected if row[2] % 20 == 10 and row[3] is None]
    assert read("n > 2100 OR k < 9") == [row for row in expected if (row[3] or 0) > 2100 or row[1] < 9]
    assert sorted(table.scan(columns=["k"]).to_arrow()["k"].to_pylist()) == sorted(row[1] for row in expected)


def test_files_whose_nested_columns_differ_in_ids_only_are_told_apart(lake):
    """PyArrow takes two Parquet schemas for equal if only the id of a struct differs."""
    table = lake.create_table("d.t", "k INT, s STRUCT<x: INT>", primary_key=["k"])
    table.upsert([{"k": 1, "s": {"x": 1}}])
    table.alter(drop_column("s"), add_column("s", "STRUCT<x: INT>"))
    table.upsert([{"k": 2, "s": {"x": 2}}])
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"]) == [{"k": 1, "s": None}, {"k": 2, "s": {"x": 2}}]
    one, other = (FileColumns.of(_footer(struct_id), table.version.schema, 0, lambda stored: stored, "") for struct_id in (7, 8))
    assert (set(one.by_id), set(other.by_id)) == ({1, 7}, {1, 8})


def _footer(struct_id: int) -> pq.FileMetaData:
    """Of a file with an integer column of id 1 and a struct."""

    def numbered(name: str, type_: pa.DataType, number: int) -> pa.Field:
        return pa.field(name, type_, metadata={"PARQUET:field_id": str(number)})

    columns = pa.schema([numbered("k", pa.int32(), 1), numbered("s", pa.struct([numbered("x", pa.int32(), 9)]), struct_id)])
    sink = pa.BufferOutputStream()
    pq.write_table(columns.empty_table(), sink, store_schema=False)
    return pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata


def test_small_files_of_very_many_rows_are_not_read_together(tmp_path):
    """Parquet stores many equal rows in few bytes. A scan holds a few files of them, also if it returns none of their rows."""
    count = 1 << 18
    lake = Lake(fake_env(LocalStorage(tmp_path)), Runtime())
    lake.create_database("d")
    table = lake.create_table("d.t", "p INT, v BIGINT", partition_by=["p"], options={"write-only": "true"})
    table.append({"p": np.repeat(np.arange(40, dtype=np.int32), count), "v": np.full(40 * count, 8)})
    assert max(table.files()["file_size_in_bytes"].to_pylist()) < 4000
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        assert table.scan(where="v % 2 = 1", columns=["v"]).to_arrow().num_rows == 0
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 16 * 8 * count  # 4 files of 8 bytes per row, joined in a copy, and what is made of them
