"""Tables partitioned by transforms, and tables that are partitioned anew: what verbs do with files of several partition specs."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from direct_writes import publish
from naive import unreferenced
from strategies import contents as files_in
from strategies import holding, lake_on, new_lake, rows_of
from typer.testing import CliRunner

import lsmlake
from lsmlake.api.table import Table
from lsmlake.cli.app import app
from lsmlake.commit.request import Identity
from lsmlake.errors import CommitConflict, Corrupt, InvalidQuery, InvalidSchema
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_writer import Origin
from lsmlake.format.data_files import APPEND, Bucket, BucketEdit, CommitMessage
from lsmlake.schema import envelope
from lsmlake.schema.schema import Schema
from lsmlake.write.append import LEVEL, append_files
from lsmlake.write.prepare import prepare
from lsmlake.write.replace import Replacement
from lsmlake.write.write_request import WriteRequest

UTC = dt.timezone.utc
COLUMNS = "id BIGINT, ts TIMESTAMP, v STRING"


def at(day: int, hour: int = 0, month: int = 1) -> dt.datetime:
    return dt.datetime(2026, month, day, hour, tzinfo=UTC)


def row(id: int, ts: dt.datetime | None, v: str = "a") -> dict:
    return {"id": id, "ts": ts, "v": v}


def table_by(*fields: str, **how: object) -> Table:
    return new_lake().create_table("d.t", COLUMNS, partition_by=list(fields), **how)


def partitions(table: Table) -> dict[str | None, int]:
    found = table.partitions()
    return dict(zip(found["partition"].to_pylist(), found["record_count"].to_pylist(), strict=True))


def specs(table: Table) -> set[int]:
    return {bucket.spec for bucket in table.version.states()}


def values(table: Table, where: str | None = None) -> list:
    return sorted((row["id"], row["v"]) for row in table.scan(where=where).to_arrow().to_pylist())


@pytest.mark.parametrize("vectors", [True, False])
def test_statements_and_compaction_keep_the_files_of_each_spec_apart(vectors):
    table = table_by("days(ts)", options={"deletion-vectors.enabled": vectors, "compaction.min.file-num": 2})
    for number in range(2):
        table.append([row(10 * number + i, at(1 + i % 2)) for i in range(4)])
    table.alter(lsmlake.replace_partition_field("days(ts)", "bucket(2, id)"))
    for number in range(2, 4):
        table.append([row(10 * number + i, at(1 + i % 2)) for i in range(4)])
    assert specs(table) == {0, 1}
    before = partitions(table)
    assert table.update({"v": "'b'"}, where="id IN (0, 20)").updated == 2
    assert table.merge([row(1, at(3), "c"), row(99, None, "new")], on="t.id = s.id").when_matched_update_all() \
        .when_not_matched_insert_all().execute().inserted == 1  # fmt: skip
    assert table.delete(where="ts >= '2026-01-02' AND ts < '2026-01-03' AND id < 20").deleted == 3
    assert table.compact(full=True).files_in > 0
    assert table.verify() == [] and unreferenced(table) == []
    assert specs(table) == {0, 1} and sum(before.values()) - 2 == sum(partitions(table).values())
    assert values(table, "id IN (0, 1, 20, 99)") == [(0, "b"), (1, "c"), (20, "b"), (99, "new")]


def test_a_delete_along_partitions_reads_nothing():
    table = table_by("days(ts)")
    table.append([row(i, at(1 + i // 4, 6 * (i % 4))) for i in range(12)])
    stored = files_in(table.meta.env.storage)
    stored |= {path: b"x" * len(data) for path, data in stored.items() if path.endswith(".parquet")}
    table = lake_on(holding(stored)).table("d.t")
    assert table.delete(where="ts >= '2026-01-02' AND ts < '2026-01-03'").deleted == 4
    with pytest.raises(Corrupt):
        table.delete(where="ts > '2026-01-03 00:00:00'")
    assert set(partitions(table)) == {"ts_day=2026-01-01", "ts_day=2026-01-03"}


def test_an_overwrite_by_condition_goes_along_partitions():
    table = table_by("days(ts)")
    table.append([row(i, at(1 + i // 4, 6 * (i % 4))) for i in range(12)])
    new = pa.Table.from_pylist([row(100, at(2, 5), "new")], schema=table.schema)
    table.overwrite(new, where="ts >= '2026-01-02' AND ts < '2026-01-03'")
    assert values(table) == [*((i, "a") for i in (0, 1, 2, 3, 8, 9, 10, 11)), (100, "new")]
    with pytest.raises(InvalidQuery, match=r"where divides a partition.*ts_day=2026-01-02"):
        table.overwrite(new, where="ts >= '2026-01-02' AND ts < '2026-01-02 12:00:00'")
    with pytest.raises(InvalidQuery, match="partition columns only"):
        table.overwrite(new, where="id = 1")
    assert (table.version.number == 2 and len(unreferenced(table)) == 0) or table.verify() == []


@pytest.mark.parametrize(("where", "left"), [("day IN (NULL)", 2), ("day IS NULL OR true", 0), ("day = NULL", 2)])
def test_an_overwrite_by_a_condition_that_is_the_same_for_all_rows(where, left):
    table = new_lake().create_table("d.t", "id BIGINT, day DATE", partition_by=["months(day)"])
    table.append({"id": [1, 2], "day": [dt.date(2026, 1, 2), None]})
    table.overwrite(table.scan().to_arrow().slice(0, 0), where=where)
    assert table.scan().count() == left


def test_an_overwrite_replaces_older_partitions_inside_of_its_own():
    table = table_by("days(ts)")
    table.append([row(1, at(1)), row(2, at(31)), row(3, at(1, month=2)), row(4, None)])
    table.alter(lsmlake.replace_partition_field("days(ts)", "months(ts)"))
    table.append([row(5, at(5)), row(6, at(5, month=3))])
    table.overwrite([row(7, at(9), "new"), row(8, None, "new")])
    assert values(table) == [(3, "a"), (6, "a"), (7, "new"), (8, "new")]
    table.alter(lsmlake.replace_partition_field("months(ts)", "days(ts)"))
    with pytest.raises(InvalidQuery, match=r"divides a partition.*ts_month=2026-03.*ts_day=2026-03-05"):
        table.overwrite([row(9, at(5, month=3))])
    table.overwrite([row(9, at(5, month=4))])
    assert values(table) == [(3, "a"), (6, "a"), (7, "new"), (8, "new"), (9, "a")]
    assert table.verify() == []


@pytest.mark.parametrize(
    ("old", "new", "given", "stays"),
    [
        ("code", "truncate(2, code)", "abx", ["ac", None]),  # 'ac' follows all texts with 'ab'
        ("truncate(1, code)", "truncate(2, code)", "zzz", ["ab", "abc", "ac", None]),
        ("bucket(4, code)", "code", None, ["ab", "abc", "ac"]),
        ("truncate(3, code)", "truncate(2, code)", "aby", ["ac", None]),
    ],
)
def test_which_older_partitions_an_overwrite_replaces(old, new, given, stays):
    table = new_lake().create_table("d.t", "code STRING", partition_by=[old])
    table.append([{"code": code} for code in ("ab", "abc", "ac", None)])
    table.alter(lsmlake.replace_partition_field(old, new))
    data = pa.table({"code": pa.array([given], pa.string())})
    table.overwrite(data)
    assert sorted(map(str, table.scan().to_arrow()["code"].to_pylist())) == sorted(map(str, [*stays, given]))


def test_writers_from_before_an_alteration():
    """An append keeps its old partitions. An overwrite, which would not know what to replace, fails and changes nothing."""
    table = table_by("days(ts)")
    table.append([row(1, at(1))])
    before = table.version
    rows = prepare(pa.Table.from_pylist([row(2, at(1))], schema=table.schema), before.schema, WriteRequest())[0]
    table.alter(lsmlake.replace_partition_field("days(ts)", "hours(ts)"))
    table.append([row(3, at(1))])
    publish(before, append_files(before, [rows]), Identity("w"), None)
    assert partitions(table) == {"ts_day=2026-01-01": 2, "ts_hour=2026-01-01-00": 1}
    with pytest.raises(CommitConflict, match="partitions of the table were altered"):
        publish(before, append_files(before, [rows]), Identity("v"), Replacement())
    assert values(table) == [(1, "a"), (2, "a"), (3, "a")] and unreferenced(table) == [] and table.verify() == []


def test_changes_across_an_alteration():
    table = table_by("days(ts)")
    table.append([row(1, at(1))])
    table.alter(lsmlake.drop_partition_field("days(ts)"))
    table.append([row(2, at(1)), row(3, None)])
    table.alter(lsmlake.add_partition_field("truncate(1, v)", name="letter"), lsmlake.rename_column("v", "w"))
    table.append([{"id": 4, "ts": at(2), "w": "xyz"}])
    assert table.partition_by == ("truncate(1, w)",)
    assert partitions(table) == {"ts_day=2026-01-01": 1, None: 2, "letter=x": 1}
    for mode in ("diff", "delta"):
        found = table.changes(0, mode=mode).to_arrow().select(["id", "_row_kind"])
        assert sorted(rows_of(found)) == [(i, "+I") for i in range(1, 5)]
        assert table.changes(0, mode=mode, where="w = 'xyz'").to_arrow()["id"].to_pylist() == [4]
    assert table.scan(snapshot=1).count() == 1 and table.scan(where="w LIKE 'x%'").count() == 1


def test_ids_are_not_used_again_after_a_rollback():
    table = table_by("days(ts)")
    table.append([row(1, at(1))])
    table.alter(lsmlake.add_partition_field("bucket(4, id)"))
    table.append([row(2, at(1))])
    table.rollback(snapshot=1)
    assert table.partition_by == ("days(ts)",)
    table.alter(lsmlake.add_partition_field("bucket(8, id)"))
    table.append([row(3, at(1))])
    found = {spec.id: [field.id for field in spec.fields] for spec in table.version.schema.partitioning.specs}
    assert found == {0: [1000], 2: [1000, 1002]}
    assert values(table) == [(1, "a"), (3, "a")] and table.verify() == []


KEY = ["id", "ts"]


def test_keys_stay_in_their_partitions():
    table = table_by("days(ts)", "bucket(3, id)", primary_key=KEY, options={"bucket": 2})
    assert table.version.schema.key == ("id", "ts"), "no column is the same in all rows of a partition"
    table.alter(lsmlake.replace_partition_field("bucket(3, id)", "truncate(10, id)"))  # while there are no rows
    for value in "abc":
        table.upsert([row(i, at(1 + i % 3, i), value) for i in range(20)])
    table.delete_keys([{"id": 3, "ts": at(1, 3)}])
    assert values(table) == [(i, "c") for i in range(20) if i != 3]
    assert table.get({"id": 4, "ts": at(2, 4)})["v"] == "c" and table.get({"id": 3, "ts": at(1, 3)}) is None
    first = table.scan(where="ts < '2026-01-02' AND id < 5", columns=["id"], order_by_key="asc", limit=1)
    assert first.to_arrow()["id"].to_pylist() == [0]
    table.compact(full=True)
    assert table.verify() == []
    changes = ("ts_day", "hours(ts)"), ("id_trunc_10", "id")
    for change in (lsmlake.drop_partition_field("ts_day"), *(lsmlake.replace_partition_field(*pair) for pair in changes)):
        with pytest.raises(InvalidSchema, match="only while the table has no rows"):
            table.alter(change)
    with pytest.raises(InvalidSchema, match="only while the table has no rows"):
        table.alter(lsmlake.add_partition_field("bucket(2, v)"))
    table.truncate()
    table.alter(lsmlake.drop_partition_field("ts_day"))
    table.upsert([row(1, at(1), "d")])
    assert partitions(table) == {"id_trunc_10=0": 1} and values(table) == [(1, "d")] and table.verify() == []


def test_a_key_needs_a_column_that_differs_in_a_partition():
    lake = new_lake()
    with pytest.raises(InvalidSchema, match="nothing but partition columns"):
        lake.create_table("d.t", COLUMNS, primary_key=["id"], partition_by=["id"])
    lake.create_table("d.t", COLUMNS, primary_key=["id"], partition_by=["bucket(4, id)"]).upsert([row(1, None), row(1, at(1))])
    assert lake.table("d.t").scan().count() == 1


REFUSED = [
    (lsmlake.add_partition_field("hours(ts)"), "one partition field makes the other redundant|redundant"),
    (lsmlake.add_partition_field("bucket(2, ts)", name="id"), "name of a column"),
    (lsmlake.add_partition_field("id", name="ts_day"), "name of its own"),
    (lsmlake.drop_partition_field("hours(ts)"), "there is no partition field"),
    (lsmlake.replace_partition_field("nothing", "id"), "there is no partition field"),
    (lsmlake.drop_column("ts"), "partition column cannot be dropped"),
    (lsmlake.add_column("ts_day", "INT"), "name of a column"),
    (lsmlake.add_partition_field("days(v)"), "does not take this type"),
    (lsmlake.add_partition_field("days(x)"), "column 'x'"),
]


@pytest.mark.parametrize(("alteration", "message"), REFUSED)
def test_alterations_that_are_refused(alteration, message):
    table = table_by("days(ts)")
    with pytest.raises(InvalidSchema, match=message):
        table.alter(alteration)
    assert table.partition_by == ("days(ts)",) and table.version.number == 0


def test_a_column_of_an_older_spec_cannot_be_dropped():
    table = table_by("days(ts)")
    table.alter(lsmlake.drop_partition_field("ts_day"))
    with pytest.raises(InvalidSchema, match="partition column cannot be dropped"):
        table.alter(lsmlake.drop_column("ts"))


def test_expiry_by_the_end_of_a_unit_of_time():
    """The commit itself looks for partitions that are due."""
    table = table_by("months(ts)", options={"partition.expiration-time": "10 d"})
    now = dt.datetime.fromtimestamp(table.meta.env.clock() / 1000, UTC)
    last = now.replace(day=1) - dt.timedelta(days=1)
    table.append([row(1, last - dt.timedelta(days=70)), row(2, now), row(3, None), row(4, last - dt.timedelta(days=40))])
    assert values(table) == [(2, "a"), (3, "a")] and table.version.number == 2
    table.alter(lsmlake.set_option("partition.expiration-time", "1 d"))
    assert table.expire_partitions(dry_run=True).partitions == ()


def test_the_command_line(tmp_path):
    def ran(*arguments: str) -> str:
        done = CliRunner().invoke(app, [*arguments, "--warehouse", str(tmp_path / "w")])
        assert done.exit_code == 0, done.output
        return done.stdout

    lsmlake.connect(tmp_path / "w").create_database("d")
    (tmp_path / "rows.csv").write_text("id,ts,v\n34,2026-01-02 03:04:05,abc\n")
    ran("load", "d.t", str(tmp_path / "rows.csv"), "--create", "--partition-by", "days(ts), bucket(16, id)")
    assert "days(ts), bucket(16, id)" in ran("show", "d.t")
    assert "ts_day=2026-01-02, id_bucket=3" in ran("partitions", "d.t")
    ran("alter", "d.t", "--drop-partition-field", "ts_day", "--add-partition-field", "truncate(2, v)")
    assert lsmlake.connect(tmp_path / "w").table("d.t").partition_by == ("bucket(16, id)", "truncate(2, v)")
    ran("show", "d.t", "--partition", "ts_day=2026-01-02")


def test_sql(tmp_path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    fields = "days(`my ts`), bucket(16, id), truncate(v, 4), id"
    lake.sql(f"CREATE TABLE d.t (id BIGINT, `my ts` TIMESTAMP, v STRING) PARTITIONED BY ({fields})")
    table = lake.table("d.t")
    fields = ("days(`my ts`)", "bucket(16, id)", "truncate(4, v)", "id")
    assert table.partition_by == fields
    shown = lake.sql("SHOW CREATE TABLE d.t").fetchall()[0][0]
    lake.sql("DROP TABLE d.t")
    lake.sql(shown)
    table = lake.table("d.t")
    assert table.partition_by == fields
    described = lake.sql("DESCRIBE d.t").fetchall()
    assert described[3:] == [("# Partitioning", "", ""), *((f"Part {i}", field, "") for i, field in enumerate(fields))]
    lake.sql("INSERT INTO d.t VALUES (34, TIMESTAMP '1969-12-31 12:00:00', 'äöüßx')")
    lake.sql("ALTER TABLE d.t DROP PARTITION FIELD bucket(16, id)")
    lake.sql("ALTER TABLE d.t REPLACE PARTITION FIELD `my ts_day` WITH hours(`my ts`) AS hour")
    lake.sql("ALTER TABLE d.t ADD PARTITION FIELD bucket(id, 8)")
    assert [field.name for field in table.version.schema.partition_columns] == ["hour", "v_trunc", "id", "id_bucket_8"]
    lake.sql("INSERT INTO d.t VALUES (34, TIMESTAMP '1969-12-31 12:00:00', 'äöüßx')")
    assert lake.sql("SHOW PARTITIONS d.t").to_arrow()["partition"].to_pylist() == [
        "hour=1969-12-31-12, v_trunc=äöüß, id=34, id_bucket_8=3", "my ts_day=1969-12-31, id_bucket=3, v_trunc=äöüß, id=34",
    ]  # fmt: skip
    assert lake.sql("SELECT count(*) FROM d.t WHERE `my ts` < '1970-01-01' AND id = 34").fetchall() == [(2,)]
    for wrong in ("REPLACE PARTITION FIELD hour hours(id)", "ADD PARTITION FIELD bucket(16, id", "DROP PARTITION FIELD hour, id"):
        with pytest.raises(InvalidQuery):
            lake.sql(f"ALTER TABLE d.t {wrong}")


def test_schemas_that_no_writer_stores():
    schema = table_by("days(ts)", "id").version.schema
    assert Schema.decode(schema.encode(), "x") == schema
    stored = envelope.unwrap_json("schema", schema.encode(), "x")
    specs, field = stored["partitioning"]["specs"], stored["partitioning"]["specs"][0]["fields"][0]
    bad = [
        *({name: value} for name, value in (("current", 4), ("highest_field", 1000), ("specs", specs * 2), ("specs", []))),
        *({"specs": [{"id": 0, "fields": [{**field, **wrong}]}]} for wrong in (
            {"source": 77}, {"source": 1}, {"transform": "second"}, {"transform": "bucket[0]"}, {"id": 5},
            {"name": None}, {"name": "v"},
        )),
    ]  # fmt: skip
    for wrong in bad:
        with pytest.raises(Corrupt):
            made = {**stored, "partitioning": {**stored["partitioning"], **wrong}}
            Schema.decode(envelope.wrap_json("schema", made), "x")
    older = {name: value for name, value in stored.items() if name != "partitioning"} | {"partition_by": ["id"]}
    assert Schema.decode(envelope.wrap_json("schema", older), "x").partition_columns[0].name == "id"


@pytest.mark.parametrize("day", [0, None])
def test_verify_names_a_file_in_another_partition(day):
    table = table_by("days(ts)")
    bucket = Bucket((day,), 0)
    files = BucketFiles.of(table.version, bucket)
    rows = prepare(pa.Table.from_pylist([row(1, at(1))], schema=table.schema), table.version.schema, WriteRequest())[0]
    added = files.write([rows], Origin(LEVEL, APPEND))
    message = CommitMessage(bucket, BucketEdit(bucket, 1, added=added), rows=1, written=files.paths(added))
    publish(table.version, [message], Identity("w"), None)
    assert [finding.what for finding in table.verify()] == ["data file holds rows of another partition by days(ts)"]
