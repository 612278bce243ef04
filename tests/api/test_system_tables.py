"""System tables: their columns, and their rows against a second reader and models of a few lines."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pytest
from command_line import call, complaint
from naive import naive
from strategies import contents, lake_on, multiset, new_lake, rows_of

from lsmlake import set_option
from lsmlake.api.lake import Lake
from lsmlake.api.scan import Scan
from lsmlake.api.system_tables import SUMMARIES
from lsmlake.api.table import Table
from lsmlake.cdc.binlog import as_lists, list_schema
from lsmlake.errors import Corrupt, InvalidQuery, SnapshotNotFound, UnsupportedFormat
from lsmlake.warehouse import connect

COLUMNS = {
    "snapshots": "snapshot_id schema_id writer_id commit_id commit_kind commit_time total_record_count delta_record_count "
    "changelog_record_count watermark base_manifest_list delta_manifest_list changelog_manifest_list index_manifest statistics "
    "properties error",
    "history": "snapshot_id made_current_at parent_id is_current_ancestor error",
    "schemas": "schema_id fields partition_keys primary_keys options comment update_time error",
    "files": "partition bucket file_path file_format level record_count deleted_record_count delete_row_count "
    "file_size_in_bytes min_key max_key null_value_counts min_value_stats max_value_stats min_sequence_number "
    "max_sequence_number schema_id file_source creation_time total_buckets",
    "file_key_ranges": "partition bucket file_path file_format schema_id level record_count file_size_in_bytes min_key max_key",
    "manifests": "file_name file_size num_added_files num_deleted_files schema_id min_partition_stats max_partition_stats "
    "snapshot_id",
    "partitions": "partition record_count deleted_record_count file_size_in_bytes file_count last_update_time total_buckets",
    "buckets": "partition bucket record_count deleted_record_count file_size_in_bytes file_count last_update_time total_buckets",
    "table_indexes": "partition bucket index_type file_name row_count dv_ranges",
    "file_indexes": "partition bucket file_path file_size_in_bytes record_count schema_id column_name index_type storage_type "
    "index_file_path index_size_in_bytes index_container_size_in_bytes",
    "aggregation_fields": "field_name field_type function function_options comment",
    "statistics": "snapshot_id schema_id mergedRecordCount mergedRecordSize colstat",
    "tags": "tag_name snapshot_id schema_id commit_time record_count create_time time_retained branches error",
    "branches": "branch_name created_from_snapshot created_from_tag create_time error",
    "consumers": "consumer_id next_snapshot_id reads_in_full last_progress error",
    "maintenance": "table_name kind reason start_time end_time snapshot_id rows bytes_in bytes_level0 bytes_out files_in "
    "files_out write_amplification who error",
    "audit_log": "rowkind k p v",
    "binlog": "rowkind k p v",
    "ro": "k p v",
}
ALWAYS = {"schemas", "options", "aggregation_fields"}  # have rows even if the table has none
OF_ALL_SNAPSHOTS = ("snapshots", "history", "schemas", "tags", "branches", "consumers", "maintenance")


def made(lake: Lake | None = None, **options: str) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    options = {"bucket": "2", "snapshot.expire.on-commit": "false", **named}
    schema = "k BIGINT NOT NULL, p STRING, v BIGINT COMMENT 'net'"
    return (lake or new_lake()).create_table("d.t", schema, primary_key=["k", "p"], partition_by=["p"], options=options)


def write(table: Table, keys: range, value: int | None, compact: bool | None) -> None:
    rows = {"k": list(keys), "p": [[None, "a", "b"][key % 3] for key in keys], "v": [value] * len(keys)}
    table.upsert(pa.table(rows, table.schema), compact=compact)


def filled(table: Table) -> Table:
    write(table, range(60), 1, True)
    table.compact(full=True)
    write(table, range(30, 40), 2, True)
    table.compact()
    write(table, range(38, 42), None, False)
    table.analyze()
    table.delete_keys({"k": [0, 45], "p": [None, None]}, compact=False)
    return table


def latest(table: Table) -> dict:
    snapshots = naive(table).snapshots()
    return snapshots[max(snapshots)]


@pytest.mark.parametrize("name", SUMMARIES)
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_the_columns_are_the_same_with_and_without_rows(name: str, vectors: str):
    table = made(deletion_vectors__enabled=vectors)
    empty = pa.table(table.system_table(name))
    assert (empty.num_rows > 0) == (name in ALWAYS)
    found = pa.table(filled(table).system_table(name))
    assert found.schema == empty.schema
    if name in COLUMNS:
        assert found.column_names == COLUMNS[name].split()
    else:
        assert name == "options" and found.column_names[:2] == ["name", "value"]


def test_listings_have_system_tables_of_their_names():
    table = filled(made())
    table.create_tag("a", 2)
    table.create_branch("b", tag="a")
    table.create_branch("c", snapshot=2)
    table.reset_consumer("reader", 2)
    for name in ("snapshots", "schemas", "files", "manifests", "partitions", "buckets", "tags", "branches", "consumers"):
        assert table.system_table(name) == getattr(table, name)(), name
    assert table.system_table("options") == table.options_table()
    assert table.system_table("tags")["branches"].to_pylist() == [["b"]]
    assert table.branch("b").system_table("tags").num_rows == 0
    assert table.branch("b").system_table("branches") == table.branches()


def test_a_file_that_cannot_be_read_hides_no_other():
    """It is a row with its name and the reason. A call that needs it raises an error with the cure."""
    table = filled(made())
    for name in "abc":
        table.create_tag(name, 2)
        table.create_branch(name, tag=name)
        table.reset_consumer(name, 2)
    table.alter(set_option("write-only", True))
    paths, storage = table.meta.paths, table.meta.env.storage
    damaged = {
        "snapshots": (3, "snapshot_id", paths.snapshot(3), lambda opened: opened.scan(snapshot=3).count()),
        "schemas": (1, "schema_id", paths.schema(1), lambda opened: opened.scan().count()),
        "tags": ("b", "tag_name", paths.tag("b"), lambda opened: opened.scan(tag="b").count()),
        "branches": ("b", "branch_name", paths.branch_file("b"), lambda opened: opened.branch("b")),
        "consumers": ("b", "consumer_id", paths.consumer("b"), lambda opened: opened.follow(consumer="b").__next__()),
    }
    for name, (which, key, path, use) in damaged.items():
        opened = lake_on(storage, "before-").table("d.t")
        before = {row[key]: row for row in opened.system_table(name).to_pylist()}
        good = contents(storage)[path]
        for data, reason in ((b"{}", "another kind"), (good.replace(b'"version": 1', b'"version": 9'), "newer format version")):
            storage.delete(path)
            storage.put_if_absent(path, data)
            opened = lake_on(storage, "after-").table("d.t")
            found = {row[key]: row for row in opened.system_table(name).to_pylist()}
            broken, old = found.pop(which), dict(before)
            assert {column: value for column, value in broken.items() if value is not None} == {
                key: which,
                "error": broken["error"],
            }
            assert path in broken["error"] and reason in broken["error"]
            del old[which]
            if name != "consumers":
                assert found == old
            assert all(row["error"] is None for row in found.values())
            if name == "branches":
                assert opened.tags()["branches"].to_pylist() == [["a"], [], ["c"]]
            with pytest.raises((Corrupt, UnsupportedFormat)) as refused:
                use(opened)
            assert refused.value.where == path and refused.value.cure
        storage.delete(path)
        storage.put_if_absent(path, good)


def test_commands_list_the_sound_ones_and_the_reason(tmp_path):
    lake = connect(str(tmp_path))
    lake.create_database("d")
    table = filled(made(lake))
    for name in ("good", "worse"):
        table.create_tag(name, 2)
        table.create_branch(name)
        table.reset_consumer(name, 2)
    for path in (table.meta.paths.tag("worse"), table.meta.paths.branch_file("worse"), table.meta.paths.consumer("worse")):
        (tmp_path / path).write_text("{}")
    for command in ("tag", "branch", "consumers"):
        lines = call(command, "d.t", "-w", tmp_path).splitlines()
        assert len(lines) == 3 and lines[0].endswith("error")
        assert lines[1].endswith("-") and "file is of another kind" in lines[2], command
    for command, cure in ((("head", "d.t", "--tag", "worse"), "--delete NAME"), (("head", "d.t$branch_worse"), "--delete NAME")):
        assert cure in complaint(*command, "-w", tmp_path, code=1)
    assert "worse" in call("branch", "d.t", "--delete", "worse", "-w", tmp_path)
    assert not call("branch", "d.t", "-w", tmp_path).splitlines()[0].endswith("error")


def test_history_says_which_snapshots_count():
    table = made(snapshot__num_retained__min="50")
    for number in range(3):
        write(table, range(number, number + 3), number, None)
    table.rollback(1)
    write(table, range(5), 9, None)
    rows = table.system_table("history").to_pylist()
    assert [(row["snapshot_id"], row["parent_id"], row["is_current_ancestor"]) for row in rows] == [
        (1, None, True),
        (2, 1, False),
        (3, 2, False),
        (4, 1, True),
        (5, 4, True),
    ]
    assert [row["made_current_at"] for row in rows] == table.snapshots()["commit_time"].to_pylist()
    storage, path = table.meta.env.storage, table.meta.paths.snapshot(4)
    storage.delete(path)
    storage.put_if_absent(path, b"{}")
    found = lake_on(storage, "x-").table("d.t").system_table("history")["is_current_ancestor"].to_pylist()
    assert found == [None, None, None, None, True], "who knows what it restored"


def test_partitions_and_manifests():
    table = filled(made(bucket="3"))
    assert set(table.partitions()["total_buckets"].to_pylist()) == {3} == set(table.files()["total_buckets"].to_pylist())
    table.upsert({"k": [100, 101], "p": ["x", "y"], "v": [1, 1]}, compact=False)
    last = table.manifests().to_pylist(maps_as_pydicts="strict")[-1]
    assert (last["min_partition_stats"], last["max_partition_stats"]) == ({"p": "x"}, {"p": "y"})
    plain = new_lake().create_table("d.t", "k INT", primary_key=["k"])
    plain.upsert({"k": [1]})
    assert plain.manifests()["min_partition_stats"].to_pylist() == [[]]
    ranges, files = table.system_table("file_key_ranges"), table.files()
    assert ranges == files.select(ranges.column_names) and ranges.num_rows > 0


def test_files_and_buckets_against_a_second_reader():
    table = filled(made())
    files = naive(table).files(latest(table))
    found = table.system_table("files")
    assert {row["file_path"]: row["deleted_record_count"] for row in found.to_pylist()} == {f.path: len(f.dead) for f in files}
    assert set(found["file_format"].to_pylist()) == {"parquet"}
    live: Counter = Counter()
    for file in files:
        live[file.bucket, file.partition] += file.rows - len(file.dead)
    buckets = table.system_table("buckets")
    assert sorted(buckets["record_count"].to_pylist()) == sorted(live.values())
    assert sum(table.system_table("partitions")["file_count"].to_pylist()) == len(files)


def test_table_indexes_list_every_deletion_vector():
    table = filled(made())
    second, snapshot = naive(table), latest(table)
    dead = {file.path.rpartition("/")[2]: file for file in second.files(snapshot) if file.dead}
    found = [(row, each) for row in table.system_table("table_indexes").to_pylist() for each in row["dv_ranges"]]
    assert {each["data_file_name"]: (row["file_name"], each["offset"], each["length"]) for row, each in found} == (
        second._vectors(snapshot)
    )
    assert {each["data_file_name"]: each["cardinality"] for _, each in found} == {n: len(f.dead) for n, f in dead.items()}
    assert all(row["bucket"] == dead[each["data_file_name"]].bucket for row, each in found)
    assert all(row["row_count"] == len(row["dv_ranges"]) and row["index_type"] == "DELETION_VECTORS" for row, _ in found)
    assert dead and table.system_table("table_indexes", snapshot=1).num_rows == 0


def test_aggregation_fields_name_the_function_in_effect():
    lake = new_lake()
    options = {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.v.overflow": "null",
        "sequence.field": "s",
    }
    columns = "k INT, v BIGINT COMMENT 'net', w STRING, s INT"
    table = lake.create_table("d.sums", columns, primary_key=["k"], options=options)
    found = table.system_table("aggregation_fields").to_pylist(maps_as_pydicts="strict")
    assert [list(row.values()) for row in found] == [
        ["k", "INT", None, {}, None],
        ["v", "BIGINT", "sum", {"overflow": "null"}, "net"],
        ["w", "STRING", "last_non_null_value", {}, None],
        ["s", "INT", None, {}, None],
    ]
    table.alter(set_option("fields.default-aggregate-function", "last_value"))
    assert table.system_table("aggregation_fields")["function"].to_pylist() == [None, "sum", "last_value", None]
    options = {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "v,w",
        "fields.default-aggregate-function": "last_value",
        "fields.v.aggregate-function": "sum",
    }
    table = lake.create_table("d.parts", columns + ", x INT", primary_key=["k"], options=options)
    found = table.system_table("aggregation_fields")["function"].to_pylist()
    assert found == [None, "sum", "last_value", None, None]
    assert set(made(lake).system_table("aggregation_fields")["function"].to_pylist()) == {None}


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_audit_log_and_ro(vectors: str):
    table = filled(made(deletion_vectors__enabled=vectors))
    second = naive(table)
    rows = second.rows(latest(table), vectors=vectors == "true")
    log = table.system_table("audit_log").to_arrow()
    assert set(log["rowkind"].to_pylist()) == {"+I"}
    assert multiset(rows_of(log.drop_columns(["rowkind"]))) == multiset(tuple(row.values()) for row in rows)
    before = table.system_table("audit_log", snapshot=1).to_arrow()
    assert sorted(before["k"].to_pylist()) == list(range(60)) and set(before["v"].to_pylist()) == {1}
    ro = table.system_table("ro")
    assert isinstance(ro, Scan)
    compacted = [
        f for f in second.files(latest(table)) if f.level == (max_level(second, table) if vectors == "false" else f.level)
    ]
    expected = [row for file in compacted if file.level for row in second.living(file).to_pylist()]
    assert multiset(rows_of(ro.to_arrow())) == multiset(tuple(row.values()) for row in expected)
    assert len(expected) > 0 and 45 in ro.to_arrow()["k"].to_pylist()  # its delete waits at level 0


def max_level(second, table: Table) -> int:
    return max(file.level for file in second.files(latest(table)))


def unpacked(found: pa.Table) -> list[tuple]:
    """The changes that the lists of a binlog stand for, in order."""
    changes = []
    for row in found.to_pylist():
        kind, *lists = row.values()
        sizes = {len(values) for values in lists}
        assert sizes == ({2} if kind == "+U" else {1})
        kinds = ["-U", "+U"] if kind == "+U" else [kind]
        changes += [(kind, *values) for kind, values in zip(kinds, zip(*lists, strict=True), strict=True)]
    return changes


@pytest.mark.parametrize("producer", ["none", "lookup", "full-compaction"])
def test_binlog_holds_the_changes_with_updates_as_one_row(producer: str):
    table = filled(made(changelog_producer=producer))
    table.compact(full=True)
    found = table.system_table("binlog").to_arrow()
    assert found.schema.field("v").type == pa.list_(pa.int64())
    changes = unpacked(found)
    rows: dict[tuple, tuple] = {}
    for kind, k, p, v in changes:
        if kind in ("-U", "-D"):
            assert rows.pop((k, p)) == v
        else:
            assert (k, p) not in rows
            rows[k, p] = v
    expected = {(row["k"], row["p"]): row["v"] for row in naive(table).rows(latest(table), vectors=producer != "full-compaction")}
    assert rows == expected
    assert {kind for kind, *_ in changes} == {"+I", "-U", "+U", "-D"}


def test_binlog_between_snapshots_and_after_an_expiry():
    table = filled(made())
    last = max(naive(table).snapshots())
    for start, end in ((0, 1), (1, 3), (2, last)):
        found = table.system_table("binlog", start=start, snapshot=end).to_arrow()
        steps = [table.changes(n, n + 1).to_arrow() for n in range(start, end)]  # mode 'diff', one commit at a time
        assert multiset(unpacked(found)) == multiset(row for step in steps for row in rows_of(step))
    table.create_tag("then", last - 1)
    since = table.system_table("binlog", start="then").to_arrow()
    assert {(row["rowkind"], *row["k"]) for row in since.to_pylist()} == {("-D", 0), ("-D", 45)}
    table.expire_snapshots(retain_max=2, retain_min=2)
    assert table.system_table("binlog").to_arrow().equals(since)
    with pytest.raises(SnapshotNotFound):
        table.system_table("binlog", start=0).to_arrow()


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_updates_are_paired_across_batches_and_only_with_their_own_key(size: int):
    kinds = ["-U", "+U", "+I", "-U", "+U", "-U", "-U", "+U", "+U", "-D", "-U"]
    keys = [1, 1, 2, 3, 4, 5, 5, 5, 5, None, 6]
    changes = pa.table({"_row_kind": kinds, "k": pa.array(keys, pa.int64()), "v": list("abcdefghijk")})
    schema = list_schema(pa.field("rowkind", pa.string(), False), pa.schema(list(changes.schema)[1:]))
    found = pa.concat_tables(as_lists(changes.to_batches(max_chunksize=size), ["k"], schema))
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("+U", [1, 1], ["a", "b"]),
        ("+I", [2], ["c"]),
        ("-U", [3], ["d"]),
        ("+U", [4], ["e"]),
        ("-U", [5], ["f"]),
        ("+U", [5, 5], ["g", "h"]),
        ("+U", [5], ["i"]),
        ("-D", [None], ["j"]),
        ("-U", [6], ["k"]),
    ]


def test_moments():
    table = filled(made())
    moment = table.snapshots()["commit_time"][0].as_py()
    table.create_tag("first", 1)
    for name in SUMMARIES:
        if name in OF_ALL_SNAPSHOTS:
            with pytest.raises(InvalidQuery, match=rf"{name} is about all snapshots"):
                table.system_table(name, snapshot=1)
            continue
        expected = pa.table(table.system_table(name, snapshot=1))
        assert pa.table(table.system_table(name, tag="first")) == expected
        assert pa.table(table.system_table(name, timestamp=moment)) == expected
    with pytest.raises(InvalidQuery, match="snapshot and tag exclude each other"):
        table.system_table("files", snapshot=1, tag="first")


def test_wrong_arguments_name_what_is_right():
    table = made()
    with pytest.raises(InvalidQuery, match=r"expected one of snapshots, .*, ro, found 'snapshot'; did you mean 'snapshots'\?"):
        table.system_table("snapshot")
    with pytest.raises(InvalidQuery, match=r"unknown system table.*correct the name"):
        table.system_table("zzz")
    with pytest.raises(InvalidQuery, match="files has no start"):
        table.system_table("files", start=1)
    lake = new_lake()
    named = lake.create_table("d.t", "k INT, RowKind STRING", primary_key=["k"])
    for name in ("audit_log", "binlog"):
        with pytest.raises(InvalidQuery, match="the table has a column 'rowkind'"):
            named.system_table(name).to_arrow()


def test_the_command(tmp_path):
    lake = connect(str(tmp_path))
    lake.create_database("d")
    table = filled(made(lake))

    def rows(*arguments: str) -> list[dict]:
        return json.loads(call("system", "d.t", *arguments, "--json", "-w", tmp_path))

    assert [row["name"] for row in rows()] == list(SUMMARIES)
    assert multiset(tuple(row.values()) for row in rows("audit_log")) == multiset(
        ("+I", *row) for row in rows_of(table.scan().to_arrow())
    )
    assert len(rows("audit_log", "-n", "3")) == 3 and len(rows("buckets", "-n", "1")) == 1
    assert len(rows("audit_log", "--snapshot", "1")) == 60
    for name in SUMMARIES:
        assert call("system", "d.t", name, "-w", tmp_path).splitlines()[0].strip()
    assert rows("buckets", "--columns", "bucket,file_count")[0].keys() == {"bucket", "file_count"}
    assert "no snapshots" in complaint("system", "d.t", "--snapshot", "1", "-w", tmp_path)
    assert len(rows("-n", "2")) == 2
    assert "did you mean 'buckets'?" in complaint("system", "d.t", "bucket", "-w", tmp_path)
    assert "unknown columns" in complaint("system", "d.t", "buckets", "--columns", "x", "-w", tmp_path)
