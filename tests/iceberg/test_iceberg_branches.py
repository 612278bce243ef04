"""Branches as references of Iceberg metadata: their rows, as PyIceberg and the reader written from the specification see them,
their ids, and which branches are left out because no reader could tell their columns from those of the table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from iceberg_reader import IcebergReader

import lsmlake
from lsmlake import add_column, add_partition_field, change_type, rename_column, set_option
from lsmlake.iceberg import mirror, published
from lsmlake.iceberg.lineage import id_on

ON = {"bucket": "1", "metadata.iceberg": "true"}


@pytest.fixture
def lake(tmp_path):
    found = lsmlake.connect(str(tmp_path))
    found.create_database("d")
    return found


@pytest.fixture
def table(lake):
    found = lake.create_table("d.t", "id BIGINT, v BIGINT", primary_key=["id"], options=ON)
    found.upsert(rows(1, 2, 3))
    return found


def rows(*ids: int, v: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)})


def reader(table) -> IcebergReader:
    """Of what is published, without publishing."""
    content = published.current(table.meta.on(None)).content
    return IcebergReader(content, lambda uri: Path(uri.removeprefix("file://")).read_bytes())


def refs(table) -> dict[str, tuple[str, int]]:
    return {name: (ref["type"], ref["snapshot-id"]) for name, ref in reader(table).metadata["refs"].items()}


def sorted_rows(found) -> list[dict]:
    return sorted(found.to_pylist() if isinstance(found, pa.Table) else found, key=repr)


def same(table, name: str) -> None:
    """The rows of a branch, and of the table, as two readers see them."""
    from pyiceberg.table import StaticTable

    found = reader(table)
    location = f"{found.metadata['location']}/metadata/v{published.current(table.meta).number}.metadata.json"
    other = StaticTable.from_metadata(location)
    for ref, of in ((name, table.branch(name)), ("main", table)):
        expected = sorted_rows(of.scan().to_arrow())
        id = found.metadata["refs"][ref]["snapshot-id"]
        assert sorted_rows(found.rows(id)) == expected
        if not any(deletes for deletes in found.files(id)[1]):
            assert other.snapshot_by_name(ref).snapshot_id == id
            assert sorted_rows(other.scan(snapshot_id=id).to_arrow()) == expected


def test_a_branch_is_a_reference_with_its_own_rows(table):
    """Both lines go on with the same numbers, vectors and levels."""
    branch = table.create_branch("b")
    for n in range(1, 4):
        branch.upsert(rows(n, 10 + n, v=n))
        table.upsert(rows(3, 20 + n, v=100 * n))
        same(table, "b")
    branch.compact(full=True)
    branch.delete("id = 2")
    same(table, "b")
    assert branch.version.number > 3 < table.version.number
    found = reader(table)
    numbers = [int(one["summary"]["lsmlake.snapshot"]) for one in found.snapshots.values()]
    assert len(numbers) > len(set(numbers)), "the lines share numbers"
    assert refs(table)["b"] == ("branch", id_on(branch.meta, branch.version.number))
    sequences = [one["sequence-number"] for one in found.metadata["snapshots"]]
    assert len(set(sequences)) == len(sequences)
    for one in found.snapshots.values():
        parent = one.get("parent-snapshot-id")
        assert parent is None or found.snapshots[parent]["sequence-number"] < one["sequence-number"]
    assert table.verify() == []


def test_references_follow_at_once(table):
    table.create_tag("t1")
    assert refs(table)["t1"] == ("tag", 1)
    table.rename_tag("t1", "t2")
    assert {"t1", "t2"} & refs(table).keys() == {"t2"}
    table.delete_tag("t2")
    table.create_branch("b")
    assert refs(table) == {"main": ("branch", 1), "b": ("branch", 1)}
    table.branch("b").upsert(rows(4))
    table.rename_branch("b", "c")
    assert refs(table)["c"] == ("branch", id_on(table.branch("c").meta, 2))
    table.fast_forward("c")
    assert refs(table) == {"main": ("branch", 2), "c": ("branch", 2)}
    assert sorted_rows(reader(table).rows()) == sorted_rows(table.scan().to_arrow())
    table.delete_branch("c")
    assert refs(table) == {"main": ("branch", 2)}
    assert sorted(reader(table).snapshots) == [1, 2]


def test_a_branch_keeps_the_snapshot_that_it_begins_at(table):
    table.create_branch("b").upsert(rows(7, v=7))
    for n in range(3):
        table.upsert(rows(1, v=n))
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert sorted(reader(table).snapshots)[:2] == [1, table.version.number]
    same(table, "b")
    assert table.verify() == []


def test_tags_of_branches(table, caplog):
    """Two branches and the table have a tag of one name; one branch has tagged the snapshot that it begins at."""
    caplog.set_level("INFO", "lsmlake")
    expected = {}
    for n, name in enumerate(("b", "c"), 4):
        branch = table.create_branch(name)
        branch.create_tag("begin")
        branch.upsert(rows(n, v=n))
        branch.compact()
        branch.create_tag("x.1 a")
        expected |= {f"{name}/begin": branch.scan(tag="begin"), f"{name}/x.1 a": branch.scan(tag="x.1 a")}
        branch.upsert(rows(1, v=100 * n))
    table.create_tag("x.1 a")
    expected["x.1 a"] = table.scan()
    assert {name for name, (kind, _) in refs(table).items() if kind == "tag"} == expected.keys()
    for name, scan in expected.items():
        assert sorted_rows(reader(table).rows(refs(table)[name][1])) == sorted_rows(scan.to_arrow())
    with_pyiceberg(table, "b/x.1 a", expected["b/x.1 a"])
    assert table.verify() == []
    table.branch("b").rename_tag("x.1 a", "y")
    table.branch("b").delete_tag("begin")
    table.rename_branch("c", "d")
    assert refs(table).keys() == {"main", "b", "d", "x.1 a", "b/y", "d/begin", "d/x.1 a"}
    table.fast_forward("b")
    assert refs(table).keys() == {"main", "b", "d", "x.1 a", "y", "d/begin", "d/x.1 a"}
    table.delete_branch("d")
    assert refs(table).keys() == {"main", "b", "x.1 a", "y"}
    assert table.verify() == []
    assert "lag behind" not in caplog.text


def test_a_tag_of_a_branch_keeps_a_snapshot_that_has_expired(table):
    branch = table.create_branch("b")
    branch.upsert(rows(7, v=7))
    branch.create_tag("t")
    for n in range(3):
        branch.upsert(rows(1, v=n))
    branch.expire_snapshots(retain_max=1, retain_min=1)
    assert sorted_rows(reader(table).rows(refs(table)["b/t"][1])) == sorted_rows(branch.scan(tag="t").to_arrow())
    branch.delete_tag("t")
    assert len(reader(table).snapshots) == 2
    assert table.verify() == []


def with_pyiceberg(table, name: str, scan) -> None:
    from pyiceberg.table import StaticTable

    current = published.current(table.meta)
    found = StaticTable.from_metadata(f"{current.content['location']}/metadata/v{current.number}.metadata.json")
    at = found.scan(snapshot_id=found.snapshot_by_name(name).snapshot_id)
    assert sorted_rows(at.to_arrow()) == sorted_rows(scan.to_arrow())


def test_without_the_option_references_wait_for_the_next_publication(table):
    table.alter(set_option("metadata.iceberg", "false"))
    table.create_tag("later")
    assert "later" not in refs(table)
    mirror.publish(table.meta)
    assert "later" in refs(table)


def test_of_a_tag_and_a_branch_of_one_name_the_tag_is_published(table):
    table.create_branch("x").upsert(rows(9))
    table.create_tag("x")
    assert refs(table)["x"] == ("tag", 1)
    assert id_on(table.branch("x").meta, 2) in reader(table).snapshots


def test_columns_of_a_branch(table):
    """Options, names and columns of its own do no harm while the table has no columns of its own: ids are clear."""
    branch = table.create_branch("b")
    branch.alter(set_option("snapshot.num-retained.max", "50"))
    branch.alter(add_column("w", "INT"), rename_column("v", "value"))
    branch.upsert(pa.table({"id": [4], "value": [4], "w": [4]}))
    table.alter(rename_column("v", "u"))
    table.upsert(pa.table({"id": [5], "u": [5]}))
    same(table, "b")
    schemas = reader(table).metadata["schemas"]
    assert len({one["schema-id"] for one in schemas}) == len(schemas)
    names = {tuple(field["name"] for field in one["fields"]) for one in schemas}
    assert {("id", "value", "w"), ("id", "u")} <= names
    assert table.verify() == []


@pytest.mark.parametrize(
    "own",
    [
        (add_column("w", "INT"), add_column("x", "STRING")),
        (None, change_type("v", "DECIMAL(20, 0)")),
    ],
    ids=["columns with one id", "a wider type"],
)
def test_a_branch_that_cannot_be_read_as_the_table_is_left_out(lake, own):
    table = lake.create_table("d.t", "id BIGINT, v INT", primary_key=["id"], options=ON)
    table.upsert(pa.table({"id": [1], "v": pa.array([1], pa.int32())}))
    branch = table.create_branch("b")
    branch.upsert(pa.table({"id": [2], "v": pa.array([2], pa.int32())}))
    assert "b" in refs(table)
    of_table, of_branch = own
    branch.alter(change_type("v", "BIGINT") if of_table is None else of_branch)
    branch.upsert(branch.scan().to_arrow())
    if of_table is not None:
        table.alter(of_table)
    table.upsert(table.scan().to_arrow())
    assert "b" not in refs(table) and max(reader(table).snapshots) < 1 << 62
    assert sorted_rows(reader(table).rows()) == sorted_rows(table.scan().to_arrow())
    assert table.verify() == []


def test_partitions_of_a_branch(lake):
    """A partition spec that only the branch has could not be read: its number may be that of another one of the table."""
    options = {"metadata.iceberg": "true"}
    table = lake.create_table("d.t", "id BIGINT, v BIGINT", partition_by=["truncate(10, id)"], options=options)
    table.append(rows(1, 2))
    branch = table.create_branch("b")
    branch.append(rows(30, 2, v=1))
    same(table, "b")
    branch.alter(add_partition_field("bucket(2, id)"))
    branch.append(rows(5))
    assert "b" not in refs(table)
