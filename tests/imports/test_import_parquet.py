"""Folders of Parquet files become tables of lsmlake: every reader sees the rows of the files, as PyArrow or DuckDB reads them."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from iceberg_tables import hashable
from pyiceberg.table import StaticTable
from strategies import multiset
from test_import_iceberg import check_readers, rows_of
from typer.testing import CliRunner, Result

import lsmlake
from lsmlake import connect
from lsmlake.cli.app import app
from lsmlake.errors import Corrupt, InvalidData, InvalidQuery, InvalidSchema, LakeError
from lsmlake.storage import memory

SOME = dt.datetime(2026, 1, 2, 3, 4, 5, 6)
VALUES: dict[str, tuple[pa.DataType, list]] = {
    "int": (pa.int32(), [1, -5, None]),
    "long": (pa.int64(), [1 << 40, 0, None]),
    "byte": (pa.int8(), [1, -1]),
    "unsigned": (pa.uint32(), [1, 4_000_000_000]),
    "double": (pa.float64(), [0.5, -1.0, None]),
    "nan": (pa.float64(), [0.5, math.nan]),
    "float": (pa.float32(), [0.5, -0.0]),
    "text": (pa.string(), ["", "a", "é" * 50, None]),
    "large text": (pa.large_string(), ["a", "b"]),
    "words": (pa.dictionary(pa.int32(), pa.string()), ["a", "b"]),
    "bytes": (pa.binary(), [b"", b"\xff\0"]),
    "flag": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "day of 64 bits": (pa.date64(), [dt.date(2026, 1, 2), None]),
    "time": (pa.timestamp("us"), [SOME]),
    "ms": (pa.timestamp("ms"), [SOME.replace(microsecond=0)]),
    "ns": (pa.timestamp("ns"), [SOME]),
    "zoned": (pa.timestamp("us", "UTC"), [SOME.replace(tzinfo=dt.timezone.utc)]),
    "berlin": (pa.timestamp("us", "Europe/Berlin"), [SOME.replace(tzinfo=dt.timezone.utc)]),
    "decimal": (pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-9999999.99")]),
    "long decimal": (pa.decimal128(38, 10), [Decimal("1.5"), None]),
    "struct": (pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]), [{"x": 1, "y": ["a", None]}, None]),
    "list": (pa.list_(pa.int32()), [[1, None], [], None]),
    "pair": (pa.struct([("x", pa.list_(pa.int32(), 2))]), [{"x": [1, 2]}, None]),
    "large list": (pa.large_list(pa.large_string()), [["a"], None]),
    "map": (pa.map_(pa.string(), pa.float64()), [[("a", 1.0)], [], None]),
}
WRITERS = {
    "plain": {},
    "old": {"version": "1.0", "data_page_version": "2.0", "compression": "gzip"},
    "no statistics": {"write_statistics": False, "use_dictionary": False, "compression": "none"},
    "decimals as integers": {"store_decimal_as_integer": True, "compression": "zstd", "row_group_size": 2},
    "no Arrow schema": {"store_schema": False, "compression": "brotli"},
    "older lists": {"use_compliant_nested_type": False},
}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[lsmlake.Lake]:
    found = lsmlake.connect(tmp_path / "lake")
    found.create_database("d")
    return found


def written(path: Path, rows: dict | pa.Table, **settings: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.table(rows), path, **settings)
    return path


@examples(25)
@given(st.data())
def test_every_type_of_every_writer(tmp_path_factory, data):
    """Some columns in some files each, in any order, with and without field ids."""
    folder = tmp_path_factory.mktemp("files")
    names = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4, unique=True))
    expected = []
    for number in range(data.draw(st.integers(1, 3))):
        some = data.draw(st.permutations(names))[: data.draw(st.integers(1, len(names)))]
        rows = [{name: data.draw(st.sampled_from(VALUES[name][1])) for name in some} for _ in range(data.draw(st.integers(1, 5)))]
        schema = pa.schema([pa.field(name, VALUES[name][0]) for name in some])
        if data.draw(st.booleans()):
            schema = pa.schema([field.with_metadata({"PARQUET:field_id": str(names.index(field.name) + 1)}) for field in schema])
        table = pa.Table.from_pylist(rows, schema)
        written(folder / f"{number}.parquet", table, **WRITERS[data.draw(st.sampled_from(list(WRITERS)))])
        expected += [{name: None for name in names} | row for row in table.to_pylist()]
    lake = lsmlake.connect(folder / "lake")
    lake.create_database("d")
    report = lake.import_parquet(folder / "[0-9].parquet", "d.t")
    table = lake.table("d.t")
    there = [{name: row[name] for name in table.schema.names} for row in expected]
    assert rows_of(table) == multiset(map(hashable, map(in_utc, there)))
    assert (report.rows, report.adopted + sum(report.rewritten.values())) == (len(expected), number + 1)
    check_readers(table)


def in_utc(row: dict) -> dict:
    zoned = {name: value for name, value in row.items() if isinstance(value, dt.datetime) and value.tzinfo}
    return row | {name: value.astimezone(dt.timezone.utc) for name, value in zoned.items()}


def test_files_of_other_engines(lake, tmp_path):
    """Polars, DuckDB and pandas write them, and all are adopted."""
    rows = {"k": [1, 2], "s": ["a", None], "l": [[1], None], "p": [{"x": 1}, None]}
    pl.DataFrame(rows).write_parquet(tmp_path / "files" / "polars.parquet", mkdir=True)
    duckdb.from_arrow(pa.table(rows)).write_parquet(str(tmp_path / "files" / "duckdb.parquet"))
    pa.table(rows).to_pandas(types_mapper=None).iloc[:0].to_parquet(tmp_path / "files" / "empty.parquet")
    report = lake.import_parquet(tmp_path / "files", "d.t")
    assert (report.adopted, report.rewritten, report.rows) == (2, {}, 4)
    assert rows_of(lake.table("d.t")) == multiset(map(hashable, 2 * pa.table(rows).to_pylist()))
    check_readers(lake.table("d.t"))


def test_columns_with_a_wider_type_in_other_files(lake, tmp_path):
    """The statistics of a file are those of its own type."""
    narrow = {"d": pa.date32(), "i": pa.int8(), "n": pa.int32(), "x": pa.int32(), "f": pa.float32(), "c": pa.decimal128(4, 2)}
    wide = pa.timestamp("us"), pa.int64(), pa.decimal128(12, 2), pa.float64(), pa.float64(), pa.decimal128(12, 3)
    day = dt.date(2026, 1, 2)
    some = {"d": [day, None], "i": [1, None], "n": [2, None], "x": [3, None], "f": [0.5, None], "c": [Decimal("1.25"), None]}
    rows = pa.table([pa.array(some[name], type_) for name, type_ in narrow.items()], list(narrow))
    written(tmp_path / "files" / "a.parquet", rows)
    other = {"d": [SOME], "i": [1 << 40], "n": [Decimal("1.5")], "x": [1.5], "f": [0.1], "c": [Decimal("1.125")]}
    more = pa.table([pa.array(other[name], type_) for name, type_ in zip(narrow, wide, strict=True)], list(narrow))
    written(tmp_path / "files" / "b.parquet", more)
    table = lake.import_parquet(tmp_path / "files", "d.t") and lake.table("d.t")
    expected = [{**rows.to_pylist()[0], "d": dt.datetime(2026, 1, 2)}, rows.to_pylist()[1], *more.to_pylist()]
    assert rows_of(table) == multiset(map(hashable, expected))
    assert table.scan(where="d = TIMESTAMP_NTZ '2026-01-02 00:00:00' AND i = 1 AND n = 2 AND x = 3").count() == 1
    check_readers(table)
    assert table.scan().min("d") == dt.datetime(2026, 1, 2)
    table.append(more)  # reads the manifest
    assert table.compact() and table.scan().count() == 4


@pytest.mark.parametrize(
    ("narrow", "wide", "adopted"),
    [
        (pa.int32(), pa.int64(), 2),
        (pa.float32(), pa.float64(), 2),
        (pa.int32(), pa.float64(), 1),
        (pa.date32(), pa.timestamp("us"), 1),
    ],
    ids=str,
)
def test_what_iceberg_does_not_widen_is_written_anew_if_it_is_to_read_the_table(lake, tmp_path, narrow, wide, adopted):
    value = dt.date(2026, 1, 2) if pa.types.is_date(narrow) else 1
    for name, type_ in (("a", narrow), ("b", wide)):
        field = pa.field("v", type_, metadata={"PARQUET:field_id": "1"})
        rows = pa.table([pa.array([value, None], narrow).cast(type_)], schema=pa.schema([field]))
        written(tmp_path / "files" / f"{name}.parquet", rows)
    report = lake.import_parquet(tmp_path / "files", "d.t", options={"metadata.iceberg": "true"})
    assert report.adopted == adopted and sum(report.rewritten.values()) == 2 - adopted
    check_readers(lake.table("d.t"))
    there = StaticTable.from_metadata(lake.table("d.t").publish_iceberg()).scan().to_arrow()
    assert multiset(map(hashable, there.to_pylist())) == rows_of(lake.table("d.t"))


def test_files_without_field_ids_are_written_anew_for_iceberg(lake, tmp_path):
    """Only if the table is to be published: then all readers find the columns, also beside one that the table does not have."""
    rows = {"k": [1, 2], "s": [{"x": 1}, None], "nothing": pa.nulls(2)}
    written(tmp_path / "files" / "a.parquet", rows)
    fields = [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(id)}) for id, name in ((1, "k"), (9, "more"))]
    written(tmp_path / "b.parquet", pa.table([[3], [4]], schema=pa.schema(fields)))
    lake.import_parquet(tmp_path / "files", "d.plain")
    assert lake.import_parquet(tmp_path / "files", "d.again").adopted == 1
    on = {"metadata.iceberg": "true"}
    report = lake.import_parquet(tmp_path / "files", "d.t", options=on)
    assert report.rewritten == {"column 'k' has no field id, by which readers of Iceberg find it": 1}
    assert lake.import_parquet(tmp_path / "b.parquet", "d.ids", options=on).adopted == 1
    found = StaticTable.from_metadata(lake.table("d.t").publish_iceberg()).scan().to_arrow()
    assert found.to_pylist() == [{"k": 1, "s": {"x": 1}}, {"k": 2, "s": None}]
    check_readers(lake.table("d.t"))


def test_json_is_text(lake, tmp_path):
    """Without an Arrow schema, Polars reads it as bytes."""
    written(tmp_path / "a.parquet", {"j": pa.array(["{}", None], pa.json_())}, store_schema=False)
    report = lake.import_parquet(tmp_path / "a.parquet", "d.t")
    assert report.rewritten == {"column 'j' is stored as JSON": 1}
    check_readers(lake.table("d.t"))


def test_partitions_in_the_names_of_folders(lake, tmp_path):
    for day, number in (("2026-01-01", 1), ("2026-01-02", 2), ("__HIVE_DEFAULT_PARTITION__", 3)):
        written(tmp_path / "files" / f"dt={day}" / "kind=a%2Fb" / "x.parquet", {"k": [number]})
    written(tmp_path / "files" / "_temporary" / "x.parquet", {"k": [9]})
    report = lake.import_parquet(tmp_path / "files", "d.t")
    table = lake.table("d.t")
    assert (table.partition_by, report.rewritten) == (("dt", "kind"), {"the partition column 'dt' is not in the file": 3})
    assert table.scan(where="dt = '2026-01-02'").to_arrow().to_pylist() == [{"k": 2, "dt": dt.date(2026, 1, 2), "kind": "a/b"}]
    assert table.scan(where="dt IS NULL").to_arrow()["k"].to_pylist() == [3]
    assert len(table.partitions()) == 3
    check_readers(table)
    lake.import_parquet(tmp_path / "files" / "dt=2026*", "d.u", partition_by=[])
    assert (lake.table("d.u").partition_by, lake.table("d.u").scan().count()) == ((), 2)


def test_values_that_only_some_folders_name_are_not_lost(lake, tmp_path):
    files = tmp_path / "files"
    written(files / "a=1" / "b=2" / "x.parquet", {"k": [1]})
    written(files / "b=3" / "a=4" / "x.parquet", {"k": [2]})
    lake.import_parquet(files, "d.any_order")
    rows = sorted(lake.table("d.any_order").scan().to_arrow().to_pylist(), key=lambda row: row["k"])
    assert rows == [{"k": 1, "a": 1, "b": 2}, {"k": 2, "a": 4, "b": 3}]
    path = written(files / "a=5" / "x.parquet", {"k": [3]})
    refused(lake, InvalidData, r"only some folders name a value of the column 'b'.*b=\.\.\. above all files.*a=5", files)
    path.unlink()
    written(files / "a=5" / "x.parquet", {"k": [3], "b": [6]})
    refused(lake, InvalidData, "only some folders name a value of the column 'b'", files)
    written(files / "a=1" / "b=2" / "x.parquet", {"k": [1], "b": [2]})
    written(files / "b=3" / "a=4" / "x.parquet", {"k": [2], "b": [3]})
    lake.import_parquet(files, "d.common")
    assert lake.table("d.common").partition_by == ("a",)
    assert sorted(row["b"] for row in lake.table("d.common").scan().to_arrow().to_pylist()) == [2, 3, 6]
    written(files / "a=7" / "a=8" / "x.parquet", {"k": [4], "b": [1]})
    refused(lake, InvalidData, "folders name two values of one column", files)


def test_a_folder_that_does_not_tell_the_truth(lake, tmp_path):
    """Files that have the column are adopted only if all of its values are that of the folder."""
    written(tmp_path / "files" / "n=1" / "x.parquet", {"k": [1], "n": [1]})
    written(tmp_path / "files" / "n=2" / "x.parquet", {"k": [2], "n": [7]})
    report = lake.import_parquet(tmp_path / "files", "d.t")
    assert (report.adopted, report.rewritten) == (1, {"column 'n' may have other values than the folder names": 1})
    assert lake.table("d.t").scan(where="n = 7").to_arrow().to_pylist() == [{"k": 2, "n": 7}]
    check_readers(lake.table("d.t"))


def test_the_files_may_be_written_again(lake, tmp_path):
    """They are copies: pandas and others write a file anew in place. With `link` they are links."""
    path = written(tmp_path / "files" / "x.parquet", {"k": [1]})
    lake.import_parquet(path, "d.t")
    lake.import_parquet(path, "d.linked", link=True)
    assert path.stat().st_nlink == 2
    written(path, {"k": [2, 3]})
    assert lake.table("d.t").scan().to_arrow().to_pylist() == [{"k": 1}]
    with pytest.raises(Corrupt):
        lake.table("d.linked").scan().to_arrow()


def test_a_table_with_a_key(lake, tmp_path):
    written(tmp_path / "files" / "a.parquet", {"k": [3, 1], "v": ["c", "a"]})
    written(tmp_path / "files" / "b.parquet", {"k": [2], "v": ["b"], "w": [1.5]})
    report = lake.import_parquet(tmp_path / "files", "d.t", primary_key=["k"], options={"bucket": 2})
    table = lake.table("d.t")
    assert (report.snapshot, report.rows, table.primary_key) == (1, 3, ("k",))
    table.upsert([{"k": 2, "v": "new", "w": None}])
    assert table.scan().to_arrow().sort_by("k").to_pylist() == [
        {"k": 1, "v": "a", "w": None},
        {"k": 2, "v": "new", "w": None},
        {"k": 3, "v": "c", "w": None},
    ]
    check_readers(table)


def test_first_rows_by_text_that_is_stored_plain(lake, tmp_path):
    """DuckDB's filter of first rows gave nulls for such text, with small row groups and several files."""
    keys = [f"{number * 7919 % 1000:03}" for number in range(100)]
    for part in range(2):
        written(tmp_path / "files" / f"{part}.parquet", {"k": keys[part::2]}, row_group_size=7, use_dictionary=False)
    lake.import_parquet(tmp_path / "files", "d.t", primary_key=["k"])
    for order, expected in (("k", sorted(keys)), ("ALL", sorted(keys)), ("1 DESC NULLS FIRST", sorted(keys, reverse=True))):
        for _ in range(5):
            found = lake.sql(f"SELECT k FROM d.t ORDER BY {order} LIMIT 5").to_arrow()["k"].to_pylist()
            assert found == expected[:5]


def test_a_negative_zero_in_a_key_is_zero(lake, tmp_path):
    path = written(tmp_path / "x.parquet", {"k": [1.5, -0.0], "v": [1, 2]})
    report = lake.import_parquet(path, "d.t", primary_key=["k"])
    assert (report.adopted, report.rewritten) == (0, {"the key column 'k' may have a negative zero": 1})
    assert lake.table("d.t").get([{"k": 1.5}, {"k": 0.0}])["v"].to_pylist() == [1, 2]
    assert lake.table("d.t").verify() == []


@pytest.mark.parametrize("key", [[], ["k"]])
def test_row_groups_without_rows(lake, tmp_path, key):
    """There may be more of them than rows."""
    rows = pa.table({"k": [3, 1], "v": ["c", "a"]})
    with pq.ParquetWriter(tmp_path / "x.parquet", rows.schema, write_page_index=True) as writer:
        for start, count in ((0, 0), (0, 1), (0, 0), (1, 1), (0, 0)):
            writer.write_table(rows.slice(start, count))
    report = lake.import_parquet(tmp_path / "x.parquet", "d.t", primary_key=key)
    assert (report.adopted, report.rows) == (1, 2)
    table = lake.table("d.t")
    assert rows_of(table) == multiset(map(hashable, rows.to_pylist()))
    assert table.scan(where="k = 1").to_arrow()["v"].to_pylist() == ["a"]
    check_readers(table)
    if key:
        table.upsert({"k": [1, 2], "v": ["x", "b"]})
        assert [table.get({"k": k})["v"] for k in (1, 2, 3)] == ["x", "b", "c"]


def test_keys_beyond_memory_are_unique(lake, tmp_path):
    """Also where rows are sorted through spill files."""
    rows = pa.table({"k": range(5000), "v": ["x" * 100] * 5000})
    for number in range(3):
        written(tmp_path / "files" / f"{number}.parquet", rows.set_column(0, "k", pc.add(rows["k"], 5000 * number)))
    options = {"write-buffer-size": "1 mb"}
    assert lake.import_parquet(tmp_path / "files", "d.t", primary_key=["k"], options=options).rows == 15000
    written(tmp_path / "files" / "3.parquet", rows.slice(7, 1))
    refused(
        lake,
        InvalidData,
        r"found 1 rows too many, such as for \(k=7\)",
        tmp_path / "files",
        primary_key=["k"],
    )


def test_readers_of_iceberg_find_columns_by_name(lake, tmp_path):
    """In files without field ids, under the names of then."""
    rows = {"k": [1, 2], "p": [{"x": 1}, None], "l": [[{"y": 1}], None]}
    written(tmp_path / "files" / "a.parquet", rows)
    written(tmp_path / "files" / "b.parquet", {"k": [3], "v": ["x"]})
    lake.import_parquet(tmp_path / "files", "d.t")
    table = lake.table("d.t")
    table.alter(lsmlake.rename_column("k", "key"), lsmlake.rename_column("p.x", "z"), lsmlake.add_column("k", "STRING"))
    table.append([{"key": 4, "p": {"z": 5}, "l": [{"y": 6}], "v": "new", "k": "other"}])
    table.delete(where="key = 2")
    found = StaticTable.from_metadata(table.publish_iceberg()).scan().to_arrow().select(table.schema.names)
    assert multiset(map(hashable, found.to_pylist())) == rows_of(table)
    assert [row["k"] for row in found.sort_by("key").to_pylist()] == [None, None, "other"]
    check_readers(table)


def test_imports_on_the_command_line(tmp_path):
    def call(*arguments: object) -> Result:
        return CliRunner().invoke(app, ["adopt", *map(str, arguments), "-w", str(tmp_path / "lake")])

    written(tmp_path / "files" / "n=5" / "a.parquet", {"k": [1, 2]})
    written(tmp_path / "files" / "n=6" / "b.parquet", {"k": [3], "n": [6]})
    (tmp_path / "lake").mkdir()
    refused = call(tmp_path / "nothing", "d.t")
    assert (refused.exit_code > 0, refused.stdout) == (True, "")
    assert "no input file found" in refused.stderr
    assert lsmlake.connect(tmp_path / "lake").databases() == []
    assert call(tmp_path / "files", "d.t", "--format", "csv").stderr.count("expected iceberg, delta or parquet, found 'csv'")
    assert "leave --newest out" in call(tmp_path / "files", "d.t", "--newest").stderr
    for other in ("iceberg", "delta"):
        assert "leave --link out" in call(tmp_path / "files", "d.t", "--format", other, "--link").stderr
    assert call(tmp_path / "files", "d.t", "--unpartitioned").stdout.splitlines() == [
        "d.t: 3 rows, 1 file as it is",
        "1 file written anew: the partition column 'n' is not in the file",
    ]
    made = json.loads(call(tmp_path / "files", "d.k", "--primary-key", "k,n", "--option", "bucket=2", "--json").stdout)
    assert (made["rows"], made["adopted"]) == (3, 0)
    lake = lsmlake.connect(tmp_path / "lake")
    assert (lake.table("d.k").primary_key, lake.table("d.t").partition_by) == (("k", "n"), ())


def test_imports_in_sql(lake, tmp_path):
    written(tmp_path / "files" / "n=5" / "a.parquet", {"k": [1, 2]})
    made = lake.sql(f"CALL import_parquet('{tmp_path}/files', 'd.t', primary_key => array('k'), partition_by => array())")
    assert made.to_arrow().select(["table", "snapshot", "rows"]).to_pylist() == [{"table": "d.t", "snapshot": 1, "rows": 2}]
    assert lake.sql("SELECT sum(n) FROM d.t").fetchall() == [(10,)]
    lake.sql(f"CALL import_parquet('{tmp_path}/files', 'd.v', array('k', 'n'), options => map('bucket', 2, 'num-levels', '4'))")
    assert dict(lake.table("d.v").options) == {"bucket": "2", "num-levels": "4"}
    for text, message in {
        "CALL import_parquet('x', 'd.u', options => map('bucket'))": "not a map, expected map",
        "CALL import_parquet('x', 'd.u', options => map(array('k'), 1))": "not a map, expected map",
        "CALL import_parquet('x')": "import_parquet lacks the argument name, expected files, name, primary_key",
        "CALL import_parquet(table => 'x', name => 'd.u')": "import_parquet has no argument table",
        "CALL import_csv('x')": "no procedure import_csv, expected one of .*import_parquet",
        "CALL import_iceberg('x', 'd.u', array('k'), 1, 2, 3, 4, 5, 6, 7)": "too many arguments of import_iceberg",
        f"CALL import_iceberg('{tmp_path}/files', 'd.u')": "no Iceberg metadata found",
    }.items():
        with pytest.raises(InvalidQuery, match=message):
            lake.sql(text)
    with pytest.raises(InvalidSchema, match=r"primary_key has the wrong type.*; write array\('k'\)"):
        lake.sql("CALL import_parquet('x', 'd.u', 'k')")


# -- what cannot be imported --------------------------------------------------------------------------------------------


def refused(lake: lsmlake.Lake, kind: type[LakeError], message: str, files: object, **arguments: object) -> None:
    with pytest.raises(kind, match=message) as raised:
        lake.import_parquet(files, **{"name": "d.refused"} | arguments)
    assert type(raised.value) is kind
    assert list(lake.env.storage.list("d.db/refused")) == []


def test_files_that_do_not_fit(lake, tmp_path):
    files = tmp_path / "files"
    refused(lake, InvalidData, "no input file found, expected Parquet files, whose names end in .parquet", files)
    written(files / "a.parquet", {"k": [1], "v": ["x"]})
    refused(lake, InvalidSchema, "key column 'id' is neither in the files nor the name of folders", files, primary_key=["id"])
    written(files / "b.parquet", {"k": [None], "v": pa.array([None], pa.string())})
    for options in ({}, {"bucket": 2}):  # files stay, or are written anew
        message = r"d.refused, column 'k': a row has no primary key: its value is null or NaN, found 1 rows of .*b.parquet"
        refused(lake, InvalidData, message, files, primary_key=["k"], options=options)
    written(files / "b.parquet", {"k": ["text"]})
    refused(
        lake,
        InvalidSchema,
        r"b.parquet: the files have different types of the column 'k', expected BIGINT, as in .*a.parq",
        files,
    )
    written(files / "b.parquet", {"K": [1]})
    refused(lake, InvalidSchema, "'k' and 'K'", files)
    written(files / "b.parquet", {"t": pa.array([1], pa.duration("us"))})
    refused(lake, InvalidSchema, "column 't': unsupported column type", files)
    written(files / "b.parquet", {"n": pa.array([1], pa.timestamp("ns"))})
    refused(lake, InvalidData, "b.parquet: a value does not fit the type of its column in the table.*lose data", files)
    written(files / "b.parquet", pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["k", "k"]))
    refused(lake, InvalidData, r"b.parquet: several columns of a data file have the same name.*found \['k', 'k'\]", files)
    (files / "b.parquet").write_bytes(b"junk")
    refused(lake, Corrupt, "b.parquet: a data file cannot be read", files)
    (files / "b.parquet").unlink()
    (files / "b.csv").write_text("k\n1\n")
    refused(lake, InvalidData, "b.csv: not a Parquet file", files)
    lake.import_parquet(files / "a.parquet", "d.t")
    refused(lake, InvalidData, "belong to a table", tmp_path / "lake")


class PlainKeys(encryption.KmsClient):
    """Keys of keys, which are no secret here."""

    def __init__(self, configuration: object) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, master: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, master: str) -> bytes:
        return base64.b64decode(wrapped)


@pytest.mark.parametrize("plain_footer", [True, False])
def test_encrypted_files(lake, tmp_path, plain_footer):
    """PyArrow ends the process when it is asked about a column with a key of its own."""
    how = encryption.EncryptionConfiguration(footer_key="f", column_keys={"c": ["v"]}, plaintext_footer=plain_footer)
    factory = encryption.CryptoFactory(PlainKeys)
    made = factory.file_encryption_properties(encryption.KmsConnectionConfig(), how)
    written(tmp_path / "files" / "a.parquet", {"k": [1], "v": ["x"]}, encryption_properties=made)
    refused(lake, InvalidData, "a.parquet: a data file is encrypted", tmp_path / "files")


def test_addresses_of_local_files(lake, tmp_path):
    path = written(tmp_path / "a folder" / "50%25 ü.parquet", {"k": [1]})
    for number, name in enumerate((path, path.parent, f"file:{path}", f"file://{path}", f"{path.parent}/*.parquet")):
        assert lake.import_parquet(name, f"d.t{number}").rows == 1
    refused(lake, InvalidData, "not a path.*found '~nobody-has-this-name/x'", "~nobody-has-this-name/x")
    with pytest.raises(InvalidQuery, match="not a path"):
        lsmlake.connect("~nobody-has-this-name/x")


def test_tables_of_other_formats_are_not_read_as_files(lake, tmp_path):
    """Some of their rows may be deleted."""
    source = lake.create_table_from("d.source", {"k": [1]})
    for marker, verb in (("_delta_log/0.json", "import_delta"), ("metadata/v1.metadata.json", "import_iceberg")):
        folder = tmp_path / verb
        path = written(folder / "data" / "a.parquet", {"k": [1]})
        store = memory.named(verb)
        for name, content in ((marker, b"{}"), ("data/a.parquet", path.read_bytes())):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
            store.put_if_absent(f"t/{name}", content)
        message = rf"belong to a table of .*: lake\.{verb}\("
        for files in (folder, folder / "data" / "*.parquet", f"memory://{verb}/t"):
            refused(lake, InvalidData, message, files)
        with pytest.raises(InvalidData, match=message):
            source.append(folder)
    source.publish_iceberg()
    refused(lake, InvalidData, r'belong to a table, .*"\)\.scan\(\)', tmp_path / "lake" / source.path)


def test_addresses_in_a_store(monkeypatch):
    """Folders, files and globs, without the names that begin with an underscore."""
    store = memory.named("imports")
    for path in ("t/dt=1/a.parquet", "t/dt=2/b.parquet", "t/_old/c.parquet", "t/note.txt"):
        with store.write(path) as sink:
            pq.write_table(pa.table({"k": [len(path)]}), sink)
    lake = lsmlake.connect("memory://importing")
    lake.create_database("d")
    counts = {"t": 2, "t/dt=1": 1, "t/dt=*/b.parquet": 1, "t/*": 2, "t/dt=1/a.parquet": 1}
    for number, (path, count) in enumerate(counts.items()):
        assert lake.import_parquet(f"memory://imports/{path}", f"d.t{number}").rows == count
    assert lake.table("d.t0").partition_by == lake.table("d.t2").partition_by == ("dt",)
    refused(lake, InvalidData, "no Parquet file found", "memory://imports/nothing")
    store.put_if_absent("t/dt=2/more.csv", b"k\n1\n")
    refused(lake, InvalidData, r"t/dt=2/more\.csv: not a Parquet file", "memory://imports/t")
    refused(lake, InvalidQuery, "dbfs:/: unknown kind of store", "dbfs:/exports")
    with pytest.raises(InvalidData, match=r"s3:/\.\.\.: the address is not one of this machine"):
        lake.table("d.t4").append("s3://bucket/more.csv")


@pytest.mark.parametrize("suffix", ["parquet", "pq", "parq", "PARQUET"])
def test_a_file_of_a_folder_is_found_by_each_suffix(lake, tmp_path, suffix):
    """A table is not made of a part of the files."""
    for name in ("a.parquet", f"b.{suffix}"):
        written(tmp_path / "files" / name, {"k": [len(name)]})
    assert lake.import_parquet(tmp_path / "files", "d.t").rows == 2
    assert lake.create_table_from("d.u", tmp_path / "files").count() == 2


@pytest.mark.parametrize("uri", ["file://{}", "file:{}", "file:///{}", "FILE://{}", "file://localhost{}"])
def test_file_uris(lake, tmp_path, monkeypatch, uri):
    folder = tmp_path / "a b%20c" / "p=7"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"k": [1, 2]}), folder / "x.parquet")
    address = uri.format(folder.parent)
    monkeypatch.chdir(tmp_path)
    lake.import_parquet(address, "d.t")
    lake.create_table_from("d.u", f"{address}/*/*.parquet")
    assert lake.table("d.t").scan().to_arrow().to_pylist() == [{"k": 1, "p": 7}, {"k": 2, "p": 7}]
    assert lake.table("d.u").scan(columns=["k"]).to_arrow()["k"].to_pylist() == [1, 2]
    assert connect(uri.format(tmp_path / "lake")).tables() == lake.tables()
    assert sorted(os.listdir(tmp_path)) == ["a b%20c", "lake"]


def test_folders_of_zero_and_of_negative_zero_are_one_partition(lake, tmp_path):
    for text in ("0.0", "-0.0", "2.5"):
        folder = tmp_path / "source" / f"p={text}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [1], "p": [float(text)]}), folder / "part.parquet")
    report = lake.import_parquet(str(tmp_path / "source"), "d.t")
    assert report.rewritten == {"the partition field 'p' may be a negative zero": 2}
    table = lake.table("d.t")
    assert table.partitions()["partition"].to_pylist() == ["p=0.0", "p=2.5"]
    assert sorted(map(repr, table.scan().to_arrow()["p"].to_pylist())) == ["0.0", "0.0", "2.5"]


def test_a_footer_whose_total_is_not_that_of_its_row_groups_is_refused(lake, tmp_path):
    """Its rows would be lost without a word: readers that count on the total see none."""
    folder = tmp_path / "files"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3]}), folder / "a.parquet")
    data = (folder / "a.parquet").read_bytes()
    total = b"\x16\x06\x19"  # field 3, a number of 64 bits: 3 in zigzag; field 4, a list
    assert data.count(total) == 1
    (folder / "a.parquet").write_bytes(data.replace(total, b"\x16\x00\x19"))
    assert pq.read_metadata(folder / "a.parquet").num_rows == 0
    with pytest.raises(Corrupt, match="the footer of a data file contradicts itself, expected a total of 3 rows"):
        lake.import_parquet(str(folder), "d.t")
    assert "t" not in lake.tables("d")
