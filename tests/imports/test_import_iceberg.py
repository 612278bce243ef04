"""Iceberg tables become tables of lsmlake: their rows are those that another reader, a naive model or Spark sees.

- Tables of lsmlake that were published as Iceberg, after random histories, come back as they were.
- Tables of version 2 by a small writer from the specification (`iceberg_writer`): deletes by position and by equality.
- Tables by PyIceberg: partitions, altered columns. Tables by Spark with Iceberg's Java library, in `golden/iceberg-tables.zip`.
"""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import math
import re
import shutil
import uuid
import zipfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import deltalake
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from faults import every_fault
from history import histories, played
from hypothesis import given
from hypothesis import strategies as st
from iceberg_reader import IcebergReader
from iceberg_tables import ROOT, VECTORS, addressed, hashable
from iceberg_writer import COLUMNS, IcebergWriter
from merge_setups import SETUPS
from naive import unreferenced
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType, StringType
from strategies import contents, copied, lake_on, multiset, new_lake

import lsmlake
from lsmlake.api.table import Table
from lsmlake.cli.docs import DOCUMENTS
from lsmlake.errors import (
    Corrupt,
    InvalidData,
    InvalidOption,
    InvalidQuery,
    InvalidSchema,
    LakeError,
    SnapshotNotFound,
    StorageFailed,
    TableExists,
    TableNotFound,
    UnsupportedFormat,
)
from lsmlake.iceberg import mirror
from lsmlake.iceberg.iceberg_view import shows_level0
from lsmlake.imports.iceberg_metadata import records
from lsmlake.storage import memory

GOLDEN = Path(__file__).parents[1] / "golden" / "iceberg-tables.zip"


def rows_of(table: Table) -> list:
    return multiset(map(hashable, table.scan().to_arrow().to_pylist()))


def check_readers(table: Table) -> None:
    """All readers of the table see the same rows, and nothing is wrong with it."""
    assert table.verify() == []
    expected = rows_of(table)
    assert multiset(map(hashable, table.scan().to_polars().collect().to_arrow().to_pylist())) == expected
    assert multiset(map(hashable, table.scan().to_duckdb().to_arrow_table().to_pylist())) == expected
    assert table.scan().count() == len(expected)


# -- lsmlake to Iceberg and back ----------------------------------------------------------------------------------------


@examples(25)
@given(st.data())
def test_a_published_table_comes_back(data):
    plan = data.draw(histories(data.draw(st.sampled_from(list(SETUPS))), mode=data.draw(st.sampled_from(VECTORS)), alters=False))
    with addressed:
        player = played(plan)
        table = player.table
        if table.version.snapshot is None or table.version.schema.merges_at_read:
            return
        found = mirror.publish(table.meta).metadata_file
        mode = "fresh" if shows_level0(table.version.schema) or table.version.schema.append_only else "raw"
        expected = table.scan(mode=mode).to_arrow().to_pylist()
        lake = new_lake()
        name = ROOT.removeprefix("memory://").rstrip("/")
        with patch.dict(memory._named, {name: table.meta.env.storage}):
            report = lake.import_iceberg(found, "d.t")
        made = lake.table("d.t")
        assert multiset(map(hashable, made.scan().to_arrow().to_pylist())) == multiset(map(hashable, expected))
        assert report.rows == len(expected)
        assert made.verify() == []


# -- deletes of version 2 -----------------------------------------------------------------------------------------------

NAMES = st.sampled_from([None, "", "a", "b", "é" * 40])
ROWS = st.lists(st.tuples(st.integers(0, 5) | st.none(), NAMES), min_size=1, max_size=8)
PARTITIONS = st.sampled_from([None, 1, 2])
KEYS = st.sampled_from([("id",), ("name",), ("id", "name"), ("name", "part")])


class Model:
    """The rows that are left, by loops over them."""

    def __init__(self, writer: IcebergWriter) -> None:
        self.writer, self.files = writer, {}

    def data(self, rows: list[dict], partition: int | None) -> None:
        uri = self.writer.data(rows, partition)
        self.files[uri] = self.writer.sequence + 1, partition, dict(enumerate(rows))

    def positions(self, deleted: list[tuple[str, int]], partition: int | None) -> None:
        self.writer.positions(deleted, partition)
        for uri, position in deleted:
            self.files[uri][2].pop(position, None)

    def equality(self, keys: list[dict], partition: int | None, spec: int) -> None:
        self.writer.equality(keys, partition, spec)
        for sequence, of, rows in self.files.values():
            if sequence <= self.writer.sequence and (spec == 1 or of == partition or not self.writer.partitioned):
                for position in [at for at, row in rows.items() if {name: row[name] for name in keys[0]} in keys]:
                    del rows[position]

    def rows(self) -> list[dict]:
        return [row for _, _, rows in self.files.values() for row in rows.values()]


@examples(40)
@given(st.data())
def test_deletes_of_version_2(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("table")
    writer = IcebergWriter(folder / "iceberg", partitioned=data.draw(st.booleans()))
    model = Model(writer)
    for _ in range(data.draw(st.integers(1, 4))):
        deletes = []
        for verb in data.draw(st.lists(st.sampled_from(["data", "data", "positions", "equality", "global"]), max_size=4)):
            partition = data.draw(PARTITIONS) if writer.partitioned else None
            if verb == "data":
                model.data([{"id": i, "name": n, "part": partition} for i, n in data.draw(ROWS)], partition)
            elif verb == "positions":
                there = [(uri, at) for uri, (_, of, rows) in model.files.items() if of == partition for at in rows]
                if there:
                    deletes.append((model.positions, (data.draw(st.lists(st.sampled_from(there), min_size=1)), partition)))
            else:
                names = data.draw(KEYS)
                keys = [{"id": i, "name": n, "part": partition} for i, n in data.draw(ROWS)]
                deletes.append((model.equality, ([{n: key[n] for n in names} for key in keys], partition, int(verb == "global"))))
        for call, arguments in deletes:
            call(*arguments)
        metadata = writer.commit()
    lake = lsmlake.connect(folder / "lake")
    lake.create_database("d")
    report = lake.import_iceberg(str(metadata), "d.t")
    table = lake.table("d.t")
    assert rows_of(table) == multiset(map(hashable, model.rows()))
    assert (report.rows, not report.rewritten) == (len(model.rows()), True)
    check_readers(table)
    shutil.rmtree(folder)


# -- tables by other writers --------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[lsmlake.Lake]:
    found = lsmlake.connect(tmp_path / "lake")
    found.create_database("d")
    return found


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    with zipfile.ZipFile(GOLDEN) as packed:
        packed.extractall(tmp_path / "golden")
    return tmp_path / "golden"


def as_spark_shows(value: object) -> object:
    """A value as `toJSON` of Spark writes it, which leaves out nulls in structs."""
    if isinstance(value, dict):
        return {name: as_spark_shows(of) for name, of in value.items() if of is not None}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {name: as_spark_shows(of) for name, of in value}
    if isinstance(value, list):
        return [as_spark_shows(one) for one in value]
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.000") + ("Z" if value.tzinfo else "")
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return float(value) if isinstance(value, Decimal) else value.isoformat() if isinstance(value, dt.date) else value


@pytest.mark.parametrize("name", ["v2", "v3", "evolved"])
def test_tables_by_spark(lake, golden, name):
    """Of version 2 with position deletes and of version 3 with vectors, both partitioned; and altered in every way."""
    told = json.loads((golden / f"{name}.json").read_text())
    report = lake.import_iceberg(str(golden / name), "d.t")
    table = lake.table("d.t")
    found = [as_spark_shows(row) for row in table.scan().to_arrow().to_pylist()]
    assert multiset(map(hashable, found)) == multiset(map(hashable, told["rows"]))
    assert (report.rows, report.rows + report.deleted_rows) == (len(told["rows"]), told["raw"])
    assert report.rewritten == {"v2": {"statistics of column 'f' leave out a NaN": 1}}.get(name, {})
    terms = {"v2": ("bucket(2, id)", "days(ts)"), "v3": ("truncate(1, name)",), "evolved": ("years(d)",)}
    assert terms[name] == table.partition_by
    check_readers(table)


def test_row_ids_that_files_hold_are_given_to_no_other_row(lake, golden):
    """Iceberg writes the ids of rows into files when it moves rows to them, as the UPDATE did that is in this table."""
    lake.import_iceberg(str(golden / "v3"), "d.t")
    table = lake.table("d.t")
    for _ in range(2):
        file = Path(table.publish_iceberg().removeprefix("file://"))
        found = IcebergReader(json.loads(file.read_text()), lambda uri: Path(uri.removeprefix("file://")).read_bytes())
        ids = found.row_ids(1)
        assert len(set(ids)) == len(ids) and min(ids) < 31 <= max(ids) < found.metadata["next-row-id"]
        shutil.rmtree(file.parent)  # then it is made anew


def pyiceberg_table(folder: Path, schema: pa.Schema, partition: str | None = None):
    folder.mkdir()
    catalog = SqlCatalog("x", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("d")
    made = catalog.create_table("d.t", schema)
    if partition:
        with made.update_spec() as change:
            change.add_identity(partition)
    return made


def test_a_table_by_pyiceberg_that_was_altered(lake, tmp_path):
    """Columns renamed, added, dropped, widened and reordered, also inside of a struct; a dropped name used again."""
    inner = pa.struct([("x", pa.int32()), ("y", pa.string())])
    first = pa.schema([("k", pa.int32()), ("a", pa.float32()), ("s", inner), ("l", pa.list_(pa.int32())), ("p", pa.string())])
    table = pyiceberg_table(tmp_path / "iceberg", first, "p")
    rows = {"k": [1, 2], "a": [0.5, None], "s": [{"x": 1, "y": "a"}, None], "l": [[1, None], None], "p": ["u", None]}
    table.append(pa.table(rows, schema=first))
    with table.update_schema() as change:
        change.update_column("k", LongType())
        change.rename_column("k", "key")
        change.delete_column("a")
        change.rename_column(("s", "y"), "z")
        change.add_column(("s", "w"), LongType())
    with table.update_schema() as change:
        change.add_column("a", StringType())
        change.move_first("a")
    with table.update_schema() as change:
        change.update_column(("s", "x"), LongType())
    later = {"a": ["new"], "key": [1 << 40], "s": [{"x": 5, "z": "z", "w": 7}], "l": [[2]], "p": ["v"]}
    table.append(pa.Table.from_pylist([{name: value[0] for name, value in later.items()}], table.schema().as_arrow()))
    report = lake.import_iceberg(table.metadata_location, "d.t")
    made = lake.table("d.t")
    assert rows_of(made) == multiset(map(hashable, table.scan().to_arrow().select(made.schema.names).to_pylist()))
    assert (report.adopted, report.rewritten, made.partition_by) == (3, {}, ("p",))
    check_readers(made)
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in made.version.schema.columns]
    assert ids == [field.field_id for field in table.schema().fields]


def test_the_files_have_two_names_and_each_table_its_own(lake, tmp_path):
    table = pyiceberg_table(tmp_path / "iceberg", pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": [1, 2, 3]}))
    lake.import_iceberg(table.metadata_location, "d.t")
    made = lake.table("d.t")
    assert [path.stat().st_nlink for path in (tmp_path / "lake").rglob("data-*.parquet")] == [2]
    shutil.rmtree(tmp_path / "iceberg")
    made.append({"k": [4]})
    made.delete(where="k = 2")
    assert made.scan().to_arrow()["k"].to_pylist() == [1, 3, 4]
    made.compact(full=True)
    made.alter(lsmlake.rename_column("k", "key"))
    assert sorted(made.scan().to_arrow()["key"].to_pylist()) == [1, 3, 4]


def test_an_older_snapshot(lake, tmp_path):
    table = pyiceberg_table(tmp_path / "iceberg", pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": [1]}))
    with table.update_schema() as change:
        change.add_column("v", StringType())
    old = table.current_snapshot().snapshot_id
    lake.import_iceberg(table.metadata_location, "d.named", snapshot=old)
    lake.import_iceberg(table.metadata_location, "d.newest")
    assert lake.table("d.named").scan().to_arrow().to_pylist() == [{"k": 1}]
    assert lake.table("d.newest").scan().to_arrow().to_pylist() == [{"k": 1, "v": None}]
    table.append(pa.table({"k": [2], "v": ["x"]}))
    lake.import_iceberg(table.metadata_location, "d.t", snapshot=old)
    assert lake.table("d.t").scan().to_arrow().to_pylist() == [{"k": 1}]
    with pytest.raises(SnapshotNotFound, match=f"no snapshot 7, expected one of .*{old}"):
        lake.import_iceberg(table.metadata_location, "d.u", snapshot=7)


def test_a_table_without_rows(lake, tmp_path):
    table = pyiceberg_table(tmp_path / "iceberg", pa.schema([("k", pa.int64())]))
    assert lake.import_iceberg(table.metadata_location, "d.t").snapshot is None
    made = lake.table("d.t")
    assert (made.schema.names, made.scan().count()) == (["k"], 0)
    made.append({"k": [1]})
    assert made.scan().count() == 1


# -- files that are not adopted as they are -----------------------------------------------------------------------------


def added(table, path: Path, rows: pa.Table, **settings: object) -> None:
    """Give a table of PyIceberg a file of another writer."""
    pq.write_table(rows, path, **settings)
    table.add_files([str(path)])


def test_files_that_not_every_reader_reads_are_written_anew(lake, tmp_path):
    """One with a NaN that its statistics leave out. Columns without field ids are found by their names."""
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("f", pa.float64()), ("s", pa.struct([("x", pa.int64())]))])
    table = pyiceberg_table(tmp_path / "iceberg", schema)
    some = dt.datetime(1492, 1, 1, 12, 30, tzinfo=dt.timezone.utc)
    plain = pa.table({"ts": [some], "f": [1.0], "s": [{"x": 1}]}, schema=schema)
    added(table, tmp_path / "plain.parquet", plain)
    nan = pa.table({"ts": [some, None], "f": [1.0, math.nan], "s": [{"x": 1}, None]}, schema=schema)
    added(table, tmp_path / "nan.parquet", nan)
    expected = [*plain.to_pylist(), *nan.to_pylist()]
    report = lake.import_iceberg(table.metadata_location, "d.t")
    made = lake.table("d.t")
    assert report.adopted == 1
    assert report.rewritten == {"statistics of column 'f' leave out a NaN": 1}
    assert rows_of(made) == multiset(map(hashable, expected))
    assert made.scan(where="f > 2").count() == 1
    check_readers(made)


def test_times_in_int96_are_written_anew(lake, tmp_path, monkeypatch):
    monkeypatch.setitem(COLUMNS, "ts", (4, pa.timestamp("us"), "timestamptz"))
    writer, some = IcebergWriter(tmp_path / "iceberg", partitioned=True), dt.datetime(1492, 1, 1, 12, 30)
    writer.settings["use_deprecated_int96_timestamps"] = True
    of = writer.data([{"id": number, "name": "a", "part": 1, "ts": some} for number in range(4)], 1)
    writer.positions([(of, 2)], 1)
    report = lake.import_iceberg(str(writer.commit()), "d.t")
    assert (report.adopted, report.rewritten) == (0, {"column 'ts' is stored as INT96": 1})
    table = lake.table("d.t")
    assert table.scan(where="part = 1").to_arrow()["id"].to_pylist() == [0, 1, 3]
    assert set(table.scan().to_arrow()["ts"].to_pylist()) == {some.replace(tzinfo=dt.timezone.utc)}
    check_readers(table)


def test_a_partition_column_may_be_missing_in_the_file(lake, tmp_path):
    """As in files that Hive wrote: the value is in the metadata only."""
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=True)
    with patch.dict(COLUMNS):
        del COLUMNS["part"]
        writer.data([{"id": 1, "name": "a"}], 7)
        writer.data([{"id": 2, "name": "b"}], None)
    report = lake.import_iceberg(str(writer.commit()), "d.t")
    assert report.rewritten == {"the partition column 'part' is not in the file": 2}
    found = lake.table("d.t").scan().to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": 1, "name": "a", "part": 7}, {"id": 2, "name": "b", "part": None}]
    check_readers(lake.table("d.t"))


def test_two_partition_columns_of_one_decimal_type(lake, tmp_path):
    """PyIceberg defines the Avro type of such columns once for each, which the specification of Avro forbids."""
    kind = pa.decimal128(9, 2)
    schema = pa.schema([("a", kind), ("b", kind), ("k", pa.int64())])
    table = pyiceberg_table(tmp_path / "there", schema)
    with table.update_spec() as spec:
        spec.add_identity("a")
        spec.add_identity("b")
    rows = pa.table({"a": [Decimal("1.50"), Decimal("-2.25")], "b": [Decimal("0.01"), None], "k": [1, 2]}, schema)
    table.append(rows)
    lake.import_iceberg(table.metadata_location, "d.t")
    found = lake.table("d.t").scan().to_arrow().sort_by("k").to_pylist()
    assert [{name: row[name] for name in schema.names} for row in found] == rows.to_pylist()
    assert lake.table("d.t").scan(where="b = 0.01").count() == 1


@pytest.mark.parametrize("partition", ["f", "t", None])
def test_times_uuids_and_bytes_of_a_fixed_length(lake, tmp_path, partition):
    ids = [uuid.UUID(int=5), uuid.UUID(int=2**128 - 1), None]
    columns = {
        "u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one and one.bytes for one in ids], pa.binary(16))),
        "t": pa.array([dt.time(1, 2, 3, 4), None, dt.time.max], pa.time64("us")),
        "f": pa.array([b"abcd", None, b"\0\0\0\0"], pa.binary(4)),
    }
    rows = pa.table(columns)
    table = pyiceberg_table(tmp_path / "there", rows.schema, partition)
    table.append(rows)
    lake.import_iceberg(table.metadata_location, "d.t")
    found = lake.table("d.t").scan().to_arrow()
    assert found.schema.types == [pa.binary(), pa.time64("us"), pa.binary()]
    expected = [{**row, "u": one and one.bytes} for row, one in zip(rows.to_pylist(), ids, strict=True)]
    assert multiset(found.to_pylist()) == multiset(expected)
    where = "u = X'00000000000000000000000000000005' AND t = TIME '01:02:03.000004' AND f = X'61626364'"
    assert lake.table("d.t").scan(where=where).to_arrow().num_rows == 1


def test_a_uuid_as_a_partition_value_is_its_bytes():
    """PyIceberg writes no partitions by UUIDs; Spark and Java do."""
    kind = {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
    partition = {"type": "record", "name": "r102", "fields": [{"name": "u", "type": ["null", kind], "field-id": 1000}]}
    file = {"type": "record", "name": "r2", "fields": [{"name": "partition", "type": partition, "field-id": 102}]}
    entry = {"type": "record", "name": "entry", "fields": [{"name": "data_file", "type": file, "field-id": 2}]}
    written, value = io.BytesIO(), uuid.UUID(int=5)
    fastavro.writer(written, entry, [{"data_file": {"partition": {"u": value.bytes}}}])
    assert list(records(written.getvalue(), "here")) == [{"data_file": {"partition": {1000: value.bytes}}}]


@pytest.mark.parametrize(("type_", "name"), [(pa.float64(), "double"), (pa.float32(), "float")])
def test_negative_zero_is_another_partition_there_and_the_same_one_here(lake, tmp_path, monkeypatch, type_, name):
    """As the specification orders them, -0 < +0. A delete of one partition does not touch the other."""
    monkeypatch.setitem(COLUMNS, "part", (3, type_, name))
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=True)
    for part in (0.0, -0.0, 1.5, -1.0, None):
        writer.data([{"id": number, "name": repr(part), "part": part} for number in range(3)], part)
    writer.commit()
    writer.equality([{"id": 1}], -0.0)
    report = lake.import_iceberg(str(writer.commit()), "d.t")
    assert (report.adopted, report.rewritten) == (3, {"the partition field 'part' may be a negative zero": 2})
    table = lake.table("d.t")
    found = table.scan(where="part = 0").to_arrow()
    assert multiset(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True)) == multiset(
        [(0, "0.0"), (1, "0.0"), (2, "0.0"), (0, "-0.0"), (2, "-0.0")]
    )
    assert {math.copysign(1, value) for value in found["part"].to_pylist()} == {1}
    assert table.partitions()["partition"].to_pylist() == [
        "part=-1.0",
        "part=0.0",
        "part=1.5",
        "part=__DEFAULT_PARTITION__",
    ]
    check_readers(table)
    (entries,) = {str(file.partition) for file in published_files(table) if file.partition[0] == 0}
    assert entries == "(0.0,)"
    lake.sql("INSERT OVERWRITE d.t PARTITION (part = 0) SELECT 7 AS id, 'new' AS name")
    assert table.scan(where="part = -0.0").to_arrow()["id"].to_pylist() == [7]


def published_files(table: Table) -> list:
    file = Path(table.publish_iceberg().removeprefix("file://"))
    reader = IcebergReader(json.loads(file.read_text()), lambda uri: Path(uri.removeprefix("file://")).read_bytes())
    return reader.files(table.version.number)[0]


def test_nan_in_a_partition_column_is_refused(lake, tmp_path, monkeypatch):
    """Two such partitions are one in Iceberg, so its deletes apply to both files."""
    monkeypatch.setitem(COLUMNS, "part", (3, pa.float64(), "double"))
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=True)
    for number in range(2):
        writer.data([{"id": number, "name": "a", "part": math.nan}, {"id": 5, "name": "a", "part": math.nan}], math.nan)
    writer.commit()
    writer.equality([{"id": 5}], float("nan"))
    source = str(writer.commit())
    with pytest.raises(InvalidData, match="column 'part': NaN in a partition column"):
        lake.import_iceberg(source, "d.t")
    assert lake.tables("d") == []
    lake.import_iceberg(source, "d.t", partition_by=[])
    assert sorted(lake.table("d.t").scan().to_arrow()["id"].to_pylist()) == [0, 1]


def test_negative_zero_in_a_key(lake, tmp_path, monkeypatch):
    monkeypatch.setitem(COLUMNS, "part", (3, pa.float64(), "double"))
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=False)
    writer.data([{"id": 1, "name": "a", "part": -0.0}, {"id": 2, "name": "b", "part": 1.5}], None)
    lake.import_iceberg(str(writer.commit()), "d.t", ["part"])
    found = lake.table("d.t").scan(where="id = 1").to_arrow()["part"].to_pylist()
    assert list(map(repr, found)) == ["0.0"]
    writer.data([{"id": 3, "name": "c", "part": 0.0}], None)
    with pytest.raises(InvalidData, match=r"same primary key.*part.*0.0"):
        lake.import_iceberg(str(writer.commit()), "d.u", ["part"])


def test_a_table_with_a_key(lake, tmp_path):
    """Deleted rows are left out before keys are compared."""
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=True)
    writer.data([{"id": 1, "name": "old", "part": 1}, {"id": 2, "name": "b", "part": 1}], 1)
    writer.commit()
    writer.equality([{"id": 1}], 1)
    writer.data([{"id": 1, "name": "new", "part": 1}], 1)
    metadata = str(writer.commit())
    report = lake.import_iceberg(metadata, "d.t", ["id"], partition_by=[])
    table = lake.table("d.t")
    assert (report.rows, report.deleted_rows, table.primary_key) == (2, 1, ("id",))
    table.upsert([{"id": 2, "name": "c", "part": 1}])
    assert sorted(row["name"] for row in table.scan().to_arrow().to_pylist()) == ["c", "new"]
    check_readers(table)
    lake.import_iceberg(metadata, "d.parts", ["part", "id"])
    assert lake.table("d.parts").partition_by == ("part",)
    writer.data([{"id": 2, "name": "again", "part": 2}], 2)
    metadata = str(writer.commit())
    with pytest.raises(InvalidData, match=r"found 1 rows too many, such as for \(id=2\); name other"):
        lake.import_iceberg(metadata, "d.u", ["id"], partition_by=[])
    with pytest.raises(InvalidData, match=r"found 1 rows too many, such as for \(id=2\); name other"):
        lake.import_iceberg(metadata, "d.u", ["id"])
    with pytest.raises(InvalidData, match=r"found 1 rows too many, such as for \(id=2\); name other"):
        lake.import_iceberg(metadata, "d.u", ["id"], partition_by=["bucket(4, id)"])
    assert lake.tables("d") == ["parts", "t"]


def test_partitions_can_be_left_out(lake, tmp_path):
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=True)
    writer.data([{"id": 1, "name": "a", "part": 1}], 1)
    writer.data([{"id": 2, "name": "b", "part": 2}], 2)
    writer.commit()
    writer.equality([{"id": 2}], 2)
    report = lake.import_iceberg(str(writer.commit()), "d.t", partition_by=[])
    table = lake.table("d.t")
    assert (report.adopted, table.partition_by, rows_of(table)) == (1, (), [(("id", 1), ("name", "a"), ("part", 1))])


def test_the_document(tmp_path, monkeypatch, capsys):
    """Its program runs as it stands."""
    monkeypatch.chdir(tmp_path)
    schema = pa.schema([("order_id", pa.int64()), ("amount", pa.float64()), ("status", pa.string())])
    table = pyiceberg_table(tmp_path / "iceberg", schema)
    table.append(pa.table({"order_id": [1, 2], "amount": [5.0, 20.0], "status": ["open", "closed"]}, schema=schema))
    Path(table.location().removeprefix("file://")).rename(tmp_path / "iceberg" / "orders")
    (tmp_path / "iceberg" / "orders" / "metadata" / "version-hint.text").write_text(Path(table.metadata_location).stem[:-9])
    deltalake.write_deltalake(tmp_path / "delta" / "orders", pa.table({"order_id": [1, 2, 3]}))
    (tmp_path / "exports").mkdir()
    pq.write_table(pa.table({"order_id": [7, 8]}), tmp_path / "exports" / "a.parquet")
    lsmlake.connect("lake").create_database("sales")
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENTS["import"].read_text(), re.DOTALL)
    exec(compile(program, "import.md", "exec"), {})
    assert "adopted=1" in capsys.readouterr().out
    lake = lsmlake.connect("lake")
    assert [lake.table(f"sales.{name}").scan().count() for name in ("from_iceberg", "from_delta", "exports", "latest")] == [
        1,
        3,
        2,
        2,
    ]


# -- crashes ------------------------------------------------------------------------------------------------------------


def test_a_crash_leaves_no_table_or_a_whole_one(tmp_path):
    """At every storage call the process dies, or the storage fails, before or after the effect."""
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=True)
    of = writer.data([{"id": 1, "name": "a", "part": 1}, {"id": 2, "name": "b", "part": 1}], 1)
    writer.data([{"id": 3, "name": "c", "part": None}], None)
    writer.positions([(of, 0)], 1)
    with patch.dict(COLUMNS):
        del COLUMNS["part"]
        writer.data([{"id": 4, "name": "d"}], 2)
    metadata = str(writer.commit())
    base = new_lake().env.storage
    seen = set()
    for mode in ("crash", "error"):
        run = lambda storage: lake_on(storage).import_iceberg(metadata, "d.t")  # noqa: E731
        for done in every_fault(run, lambda: copied(base), mode=mode):
            lake = lake_on(done.world, "again")
            there = lake.tables("d") == ["t"]
            seen.add((mode, there))
            if mode == "error":
                assert there == (not isinstance(done.outcome, LakeError)), (done.call, done.outcome)
                left = unreferenced(lake.table("d.t")) if there else contents(done.world, "d.db/t")
                assert not left, (done.call, done.fault.after)
            if not there:
                lake.import_iceberg(metadata, "d.t")
            table = lake.table("d.t")
            assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == [2, 3, 4]
            assert table.verify() == []
    assert seen == {("crash", False), ("crash", True), ("error", False), ("error", True)}


# -- what cannot be imported --------------------------------------------------------------------------------------------


def written(folder: Path) -> Path:
    """The metadata file of a table with one data file, 0.parquet, and deletes of a row of it, 1.parquet."""
    writer = IcebergWriter(folder, partitioned=True)
    of = writer.data([{"id": 1, "name": "a", "part": 1}, {"id": 2, "name": "b", "part": 1}], 1)
    writer.positions([(of, 0)], 1)
    return writer.commit()


def edited(metadata: Path, edit: Callable[[dict], object]) -> str:
    content = json.loads(metadata.read_text())
    edit(content)
    metadata.write_text(json.dumps(content))
    return str(metadata)


def refused(lake: lsmlake.Lake, kind: type[LakeError], message: str, table: str, **arguments: object) -> None:
    """The import raises this error, and there is nothing afterwards."""
    with pytest.raises(kind, match=message) as raised:
        lake.import_iceberg(table, **{"name": "d.t"} | arguments)
    assert type(raised.value) is kind
    assert (lake.tables("d"), list(lake.env.storage.list("d.db/t"))) == ([], [])


def test_columns_without_values_are_left_out(lake, tmp_path):
    """As in imports of Parquet files and of tables of Delta Lake."""

    def edit(content: dict) -> None:
        content["schemas"][0]["fields"].append({"id": 9, "name": "nothing", "required": False, "type": "unknown"})

    lake.import_iceberg(edited(written(tmp_path / "iceberg"), edit), "d.t")
    assert lake.table("d.t").scan().to_arrow().to_pylist() == [{"id": 2, "name": "b", "part": 1}]


@pytest.mark.parametrize("spelled", ["./x", "x", "file:./x", "file:/nowhere/x", "hdfs://gone/x", "/elsewhere"])
@pytest.mark.parametrize("named", ["folder", "here", "in"])
def test_a_table_that_was_moved(lake, tmp_path, monkeypatch, spelled, named):
    """Also if its location is spelled otherwise than the addresses of its files, or the file is named from its own folder."""
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=False)
    writer.data([{"id": 1}, {"id": 2}], None)
    metadata = writer.commit()
    old = {"./x": "x", "/elsewhere": "file:///somewhere/x"}.get(spelled, spelled)
    for path in (metadata, *metadata.parent.glob("*.avro")):
        content = replaced_in_avro if path.suffix == ".avro" else replaced_in_text
        content(path, f"file:{tmp_path}/iceberg", old)
    edited(metadata, lambda content: content.update({"location": spelled}))
    monkeypatch.chdir({"folder": tmp_path, "here": metadata.parent.parent, "in": metadata.parent}[named])
    relative = {"folder": "iceberg/metadata", "here": "metadata", "in": "."}[named]
    lake.import_iceberg(f"{relative}/{metadata.name}".removeprefix("./"), "d.t")
    assert lake.table("d.t").scan().to_arrow()["id"].to_pylist() == [1, 2]


def replaced_in_text(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def replaced_in_avro(path: Path, old: str, new: str) -> None:
    def replaced(value: object) -> object:
        if isinstance(value, dict):
            return {name: replaced(inner) for name, inner in value.items()}
        return value.replace(old, new) if isinstance(value, str) else value

    with path.open("rb") as file:
        reader = fastavro.reader(file)
        records, schema = list(map(replaced, reader)), reader.writer_schema
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, metadata={"format-version": "2"})


@pytest.mark.parametrize("type_", ["timestamp_ns", "variant", "geometry"])
def test_a_column_of_a_type_that_there_is_not(lake, tmp_path, type_):
    def edit(content: dict) -> None:
        inner = {"type": "list", "element-id": 9, "element": type_, "element-required": False}
        content["schemas"][0]["fields"][1]["type"] = inner

    found = edited(written(tmp_path / "iceberg"), edit)
    refused(lake, InvalidSchema, r"column 'name\.element'.*found " + re.escape(type_), found)


def test_a_transform_that_there_is_not(lake, tmp_path):
    def edit(content: dict) -> None:
        content["partition-specs"][0]["fields"][0]["transform"] = "zorder"

    found = edited(written(tmp_path / "iceberg"), edit)
    refused(lake, InvalidSchema, r"'part'.*found zorder of field 3; pass partition_by=\[\]", found)
    assert lake.import_iceberg(found, "d.t", partition_by=[]).rows == 1


def test_wrong_arguments(lake, tmp_path):
    found = str(written(tmp_path / "iceberg"))
    refused(lake, InvalidQuery, "nothing: no Iceberg metadata found, expected the path", str(tmp_path / "nothing"))
    refused(lake, InvalidQuery, "no Iceberg metadata found", str(tmp_path / "x.metadata.json"))
    refused(lake, StorageFailed, "n.t: the catalog did not show the table, found URI missing.*CATALOG__CAT__URI", "cat.n.t")
    refused(lake, TableNotFound, "no database 'e'", found, name="e.t")
    refused(lake, InvalidQuery, "'t': not a table name", found, name="t")
    refused(lake, InvalidOption, "unknown option 'buckets'; did you mean 'bucket'", found, options={"buckets": 4})
    refused(lake, InvalidSchema, "partition column 'ids' is not in the schema", found, partition_by=["ids"])
    refused(lake, InvalidSchema, "primary key column 'key' is not in the schema", found, primary_key=["key"])
    lake.import_iceberg(found, "d.t")
    with pytest.raises(TableExists, match=r"table 'd.t' exists"):
        lake.import_iceberg(found, "d.t")


def test_a_folder_does_not_tell_what_a_catalog_has(lake, tmp_path):
    """A writer that died before its commit to the catalog has left a newer metadata file."""
    table = pyiceberg_table(tmp_path / "iceberg", pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": [1]}))
    folder, url = table.location().removeprefix("file://"), f"sqlite:///{tmp_path}/other.db"
    shutil.copy(tmp_path / "iceberg" / "catalog.db", tmp_path / "other.db")
    SqlCatalog("x", uri=url, warehouse=f"file://{tmp_path}/iceberg/warehouse").load_table("d.t").append(pa.table({"k": [2]}))
    message = (
        "the folder does not tell .* metadata/version-hint.text.*3 metadata files, the newest of them 00002-.*name the table"
    )
    refused(lake, InvalidQuery, message, folder)
    lake.import_iceberg(table.metadata_location, "d.t")
    lake.import_iceberg(folder, "d.guessed", newest=True)
    assert lake.sql(f"CALL import_iceberg('{folder}', 'd.called', newest => true)").to_arrow()["rows"].to_pylist() == [2]
    assert [lake.table(name).scan().count() for name in ("d.t", "d.guessed")] == [1, 2]
    for one in (table.metadata_location, "x.d.t"):
        with pytest.raises(InvalidQuery, match="newest metadata file is chosen in the folder of a table only"):
            lake.import_iceberg(one, "d.u", newest=True)


HINTS = {
    "the file of the hint": ("2", ["v1", "v2"], "v2"),
    "the writer died before the hint": ("1", ["v1", "v2", "v3"], "v3"),
    "a file that follows no other": ("1", ["v1", "v3"], "v1"),
    "a file of a catalog beside them": ("1", ["v1", "00002-abc"], "v1"),
    "a hint with the name of a file": ("00001-abc", ["00001-abc", "00002-def"], "00001-abc"),
    "a hint without a file": ("7", ["v1", "v2"], None),
    "a hint that is empty": ("", ["v1"], None),
    "a number that is not that of commits": ("1", ["00001-abc"], None),
}


@pytest.mark.parametrize("case", HINTS)
def test_the_hint_of_a_folder(lake, tmp_path, case):
    hint, names, expected = HINTS[case]
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=False)
    for number, name in enumerate(names):
        writer.data([{"id": number}], None)
        writer.commit().rename(tmp_path / "iceberg" / "metadata" / f"{name}.metadata.json")
    (tmp_path / "iceberg" / "metadata" / "version-hint.text").write_text(f"{hint}\n")
    if expected is None:
        refused(lake, InvalidQuery, "version-hint.text names no metadata file of the folder", str(tmp_path / "iceberg"))
    else:
        assert lake.import_iceberg(tmp_path / "iceberg", "d.t").rows == 1 + names.index(expected)
    assert lake.import_iceberg(tmp_path / "iceberg", "d.newest", newest=True).rows == len(names)


@pytest.mark.parametrize("deletes", ["positions", "equality"])
@pytest.mark.parametrize("damage", ["cut", "overwritten", "gone"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_file_is_named_as_the_user_knows_it(lake, tmp_path, deletes, damage, number):
    """And the cure is about the table that is imported, not about the one that is not made."""
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=False)
    writer.settings = {"write_page_checksum": True}
    of = writer.data([{"id": number, "name": str(number) * 99} for number in range(300)], None)
    writer.commit()
    if deletes == "positions":
        writer.positions([(of, position) for position in range(100)], None)
    else:
        writer.equality([{"id": key} for key in range(100)], None)
    metadata, file = str(writer.commit()), tmp_path / "iceberg" / "data" / f"{number}.parquet"
    content = file.read_bytes()
    file.unlink()
    if damage != "gone":
        file.write_bytes(content[:-30] if damage == "cut" else b"PAR1" + bytes(400) + content[404:])
    message = rf"(?s)^file:{file}: .*; restore it( there)?, or (import without it|choose another snapshot)"
    refused(lake, Corrupt, message, metadata, primary_key=["id"])


def test_metadata_that_is_damaged(lake, tmp_path):
    newer = edited(written(tmp_path / "newer"), lambda content: content.update({"format-version": 4}))
    refused(lake, UnsupportedFormat, "expected 1 to 3, found 4", newer)
    lacking = edited(written(tmp_path / "lacking"), lambda content: content.pop("schemas"))
    refused(lake, Corrupt, "lacks what the specification demands", lacking)
    cut = written(tmp_path / "cut")
    cut.write_text("{")
    refused(lake, Corrupt, "Iceberg metadata cannot be read", str(cut))


@pytest.mark.parametrize(
    ("pattern", "missing", "junk"),
    [
        ("metadata/list-*", "a manifest of Iceberg is missing; restore it", "cannot be read, found"),
        ("metadata/m1-*", "a manifest of Iceberg is missing; restore it", "cannot be read, found"),
        ("data/0.parquet", "data/0.parquet: a data file is missing; restore it", "data/0.parquet: a data file cannot be read"),
        ("data/1.parquet", "data/1.parquet: a file of deletes is missing", "data/1.parquet: data file cannot be read"),
    ],
)
def test_files_that_are_missing_or_damaged(lake, tmp_path, pattern, missing, junk):
    metadata = written(tmp_path / "iceberg")
    (path,) = (tmp_path / "iceberg").glob(pattern)
    path.write_bytes(b"x" * path.stat().st_size)
    refused(lake, Corrupt, junk, str(metadata))
    path.unlink()
    refused(lake, Corrupt, missing, str(metadata))


def test_positions_beyond_the_end_of_a_file(lake, tmp_path):
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=False)
    writer.positions([(writer.data([{"id": 1, "name": "a", "part": 1}], None), 5)], None)
    refused(lake, Corrupt, "name a row that its file does not have, expected positions below 1", str(writer.commit()))
