"""Iceberg tables become tables with a primary key: their files stay as they are, and rows can be upserted at once."""

from __future__ import annotations

import random
from unittest.mock import patch

import pyarrow as pa
import pytest
from effort import examples
from faults import every_fault
from history import histories, played
from hypothesis import given
from hypothesis import strategies as st
from iceberg_tables import ROOT, VECTORS, addressed, hashable
from iceberg_writer import COLUMNS, IcebergWriter
from merge_setups import SETUPS
from pyiceberg.types import StringType
from strategies import copied, lake_on, multiset, new_lake
from test_import_iceberg import check_readers, pyiceberg_table, refused, rows_of

import lsmlake
from lsmlake.errors import InvalidData, InvalidSchema, LakeError
from lsmlake.iceberg import mirror
from lsmlake.iceberg.iceberg_view import shows_level0
from lsmlake.storage import memory


@pytest.fixture
def lake(tmp_path) -> lsmlake.Lake:
    made = lsmlake.connect(tmp_path / "lake")
    made.create_database("d")
    return made


def sources(table: lsmlake.Table) -> set[str]:
    return set(table.files()["file_source"].to_pylist())


@examples(12)
@given(st.data())
def test_a_published_table_comes_back_and_goes_on(data):
    """Then it takes the same rows as the table that it came from."""
    rule = data.draw(st.sampled_from([rule for rule in SETUPS if rule.startswith("deduplicate")]))
    plan = data.draw(histories(rule, mode=data.draw(st.sampled_from(VECTORS)), alters=False))
    with addressed:
        player = played(plan)
        table, shape = player.table, player.shape
        if table.version.snapshot is None or table.version.schema.merges_at_read:
            return
        if not shows_level0(table.version.schema):
            table.compact()
            player._noted()
        found = mirror.publish(table.meta).metadata_file
        lake = new_lake()
        options = {name: value for name, value in player.setup.options.items()}
        with patch.dict(memory._named, {ROOT.removeprefix("memory://").rstrip("/"): table.meta.env.storage}):
            report = lake.import_iceberg(found, "d.t", list(shape.primary_key), options=options)
        made = lake.table("d.t")
        assert multiset(map(hashable, made.scan().to_arrow().to_pylist())) == multiset(
            map(hashable, table.scan().to_arrow().to_pylist())
        )
        assert report.rows == len(player.rows)
        assert made.verify() == []
        player.table, player.deletes = made, {}  # Iceberg knows live rows only: retained deletes stay behind
        for rows in data.draw(st.lists(st.binary(min_size=3, max_size=30), min_size=1, max_size=3)):
            batch = player.decoded(rows)
            given = player.batch(batch)
            for field in made.schema:  # columns that were added meanwhile
                if field.name not in given.column_names:
                    given = given.append_column(field.name, pa.nulls(given.num_rows, field.type))
            made.upsert(given, row_kind="op")
            player._apply(batch)
            player.same(made.scan().to_arrow(), player.rows)
        made.compact()
        assert "IMPORT" not in sources(made)
        player.same(made.scan().to_arrow(), player.rows)
        assert made.verify() == []


def row(id: int | None, name: str | None = "a", part: int | None = None) -> dict:
    return {"id": id, "name": name, "part": part}


def test_files_stay_as_they_are_until_a_compaction(lake, tmp_path):
    """Rows in any order; deletes of older rows with the same key; then upserts, a point read, a deletion."""
    writer, chance = IcebergWriter(tmp_path / "iceberg", partitioned=False), random.Random(5)
    ids = chance.sample(range(1000), 600)
    writer.data([row(id, "old") for id in ids[:400]], None)
    writer.commit()
    writer.equality([{"id": id} for id in ids[300:400]], None)
    writer.data([row(id, "new") for id in ids[300:]], None)
    report = lake.import_iceberg(str(writer.commit()), "d.t", ["id"])
    assert (report.adopted, report.rewritten, report.rows, report.deleted_rows) == (2, {}, 600, 100)
    table = lake.table("d.t")
    assert (table.primary_key, sources(table)) == (("id",), {"IMPORT"})
    assert [path.stat().st_nlink for path in (tmp_path / "lake").rglob("data-*.parquet")] == [2, 2]
    check_readers(table)
    assert table.get({"id": ids[350]}) == row(ids[350], "new")
    table.upsert(pa.Table.from_pylist([row(ids[0], "upserted"), row(5000, "added")], table.schema))
    table.delete_keys([{"id": ids[599]}])
    expected = {id: "new" if number >= 300 else "old" for number, id in enumerate(ids[:599])}
    expected |= {ids[0]: "upserted", 5000: "added"}
    for _ in range(2):
        assert dict(zip(*table.scan(columns=["id", "name"]).to_arrow().to_pydict().values(), strict=True)) == expected
        check_readers(table)
        table.compact()
    assert "IMPORT" not in sources(table)
    ids_in_files = [file["min_key"] for file in table.files().to_pylist()]
    assert ids_in_files == sorted(ids_in_files)


def test_partitions_and_files_that_are_written_anew(lake, tmp_path):
    """A file without its partition column beside others; then all files of the partition are of one run."""
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=True)
    writer.data([row(2, "x", 1), row(1, "y", 1)], 1)
    writer.data([row(1, "z", None), row(7, "w", None)], None)
    with patch.dict(COLUMNS):
        del COLUMNS["part"]
        writer.data([{"id": 9, "name": "u"}, {"id": 3, "name": "v"}], 1)
    metadata = str(writer.commit())
    report = lake.import_iceberg(metadata, "d.t", ["part", "id"])
    assert (report.adopted, report.rewritten) == (2, {"the partition column 'part' is not in the file": 1})
    table = lake.table("d.t")
    assert (table.partition_by, sources(table)) == (("part",), {"IMPORT"})
    expected = [row(1, "y", 1), row(1, "z"), row(2, "x", 1), row(3, "v", 1), row(7, "w"), row(9, "u", 1)]
    order = [("id", "ascending"), ("name", "ascending")]
    assert table.scan().to_arrow().sort_by(order).to_pylist() == expected
    check_readers(table)
    table.upsert(pa.Table.from_pylist([row(3, "later", 1)], table.schema))
    table.compact()
    assert table.get({"part": 1, "id": 3}) == row(3, "later", 1)
    assert (table.scan().count(), "IMPORT" in sources(table)) == (6, False)
    check_readers(table)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"bucket": 3}, "bucket = 3 assigns each row to a bucket by its hash"),
        ({"deletion-vectors.enabled": False}, "without deletion vectors a table with a primary key keeps its rows sorted"),
        ({"merge-engine": "partial-update"}, "merge-engine = partial-update combines rows"),
    ],
)
def test_tables_whose_rows_must_be_sorted(lake, tmp_path, options, why):
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=False)
    of = writer.data([row(id) for id in (5, 3, 8)], None)
    writer.data([row(id) for id in range(100, 0, -1) if id not in (3, 8)], None)
    writer.positions([(of, 0)], None)
    report = lake.import_iceberg(str(writer.commit()), "d.t", ["id"], options=options)
    assert (report.adopted, report.rewritten) == (0, {why: 2})
    table = lake.table("d.t")
    assert "IMPORT" not in sources(table)
    assert all(table.files()["level"].to_numpy() > 0)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(1, 101))
    assert table.compact(full=True).snapshot_id is None
    assert table.verify() == []


def test_a_key_that_was_renamed(lake, tmp_path):
    """A file has the old name, another the new one; every reader finds the key."""
    table = pyiceberg_table(tmp_path / "iceberg", pa.schema([("k", pa.int64()), ("v", pa.string())]))
    table.append(pa.table({"k": [3, 1], "v": ["a", "b"]}))
    with table.update_schema() as change:
        change.rename_column("k", "key")
    with table.update_schema() as change:
        change.add_column("k", StringType())
    table.append(pa.table({"key": [2, 0], "v": ["c", "d"], "k": ["x", "y"]}))
    report = lake.import_iceberg(table.metadata_location, "d.t", ["key"])
    made = lake.table("d.t")
    assert (report.adopted, report.rewritten, made.primary_key) == (2, {}, ("key",))
    assert rows_of(made) == multiset(map(hashable, table.scan().to_arrow().select(made.schema.names).to_pylist()))
    check_readers(made)
    made.upsert({"key": [1], "v": ["e"], "k": [None]})
    assert made.get({"key": 1}) == {"key": 1, "v": "e", "k": None}
    made.compact()
    assert sorted(made.scan().to_arrow()["key"].to_pylist()) == [0, 1, 2, 3]
    check_readers(made)


def test_keys_that_are_none(lake, tmp_path):
    """Nothing is written before these errors; dead rows may have any key."""
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=True)
    of = writer.data([row(1, "a", 1), row(None, "b", 1), row(1, "c", 1)], 1)
    other = writer.data([row(1, "a", 2)], 2)
    metadata = str(writer.commit())
    key = ["part", "id"]
    refused(lake, InvalidData, "column 'id': a row has no primary key.*found 1 rows of", metadata, primary_key=key)
    writer.positions([(of, 1)], 1)
    metadata = str(writer.commit())
    message = r"several rows have the same primary key.*1 rows too many, such as for \(id=1\); name other key columns"
    refused(lake, InvalidData, message, metadata, primary_key=key)
    refused(lake, InvalidSchema, "column 'idd' is not in the schema", metadata, primary_key=["part", "idd"])
    refused(lake, InvalidData, "several rows have the same primary key", metadata, primary_key=["id"])
    writer.positions([(of, 2)], 1)
    metadata = str(writer.commit())
    report = lake.import_iceberg(metadata, "d.t", key)
    assert (report.rows, report.rewritten) == (2, {"a deleted row has no key": 1})
    assert lake.table("d.t").verify() == []
    refused_again = pytest.raises(InvalidData, match="several rows")
    with refused_again:
        lake.import_iceberg(metadata, "d.u", ["id"], partition_by=[])
    writer.positions([(other, 0)], 2)
    assert lake.import_iceberg(str(writer.commit()), "d.u", ["id"], partition_by=[]).rows == 1
    assert lake.table("d.u").partition_by == ()


@pytest.mark.parametrize("adopts", [True, False])
def test_keys_that_are_in_one_partition_each_can_move(lake, tmp_path, adopts):
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=True)
    writer.data([row(1, "a", 1), row(3, "c", 1)], 1)
    writer.data([row(2, "b", 2)], 2)
    options = {} if adopts else {"merge-engine": "partial-update"}
    report = lake.import_iceberg(str(writer.commit()), "d.t", ["id"], options=options)
    assert (report.adopted, report.rows) == (2 if adopts else 0, 3)
    table = lake.table("d.t")
    table.upsert(pa.Table.from_pylist([row(1, "z", 2), row(2, "y", 2)], table.schema))
    found = sorted((one["id"], one["name"], one["part"]) for one in table.scan().to_pylist())
    assert found == [(1, "z", 2 if adopts else 1), (2, "y", 2), (3, "c", 1)]
    assert table.verify() == []


def test_files_of_several_partition_specs(lake, tmp_path):
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=True)
    writer.data([row(1, "a", 1)], 1)
    writer.data([row(2, "a", 1)], None, spec=1)
    metadata = str(writer.commit())
    refused(
        lake,
        InvalidSchema,
        r"has one partition spec.*files of 2 specs; pass partition_by=\[\]",
        metadata,
        primary_key=["part", "id"],
    )
    assert lake.import_iceberg(metadata, "d.t", ["id"], partition_by=[]).adopted == 2


def test_a_crash_leaves_no_table_or_a_whole_one(tmp_path):
    writer = IcebergWriter(tmp_path / "iceberg", partitioned=False)
    of = writer.data([row(3), row(1), row(2)], None)
    writer.data([row(9), row(0)], None)
    writer.positions([(of, 1)], None)
    metadata = str(writer.commit())
    base = new_lake().env.storage
    for done in every_fault(
        lambda storage: lake_on(storage).import_iceberg(metadata, "d.t", ["id"]), lambda: copied(base), mode="error"
    ):
        lake = lake_on(done.world, "again")
        there = lake.tables("d") == ["t"]
        assert there == (not isinstance(done.outcome, LakeError))
        if not there:
            lake.import_iceberg(metadata, "d.t", ["id"])
        table = lake.table("d.t")
        table.upsert(pa.Table.from_pylist([row(1, "b"), row(2, "b")], table.schema))
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 9]
        assert table.verify() == []
