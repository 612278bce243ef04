"""A user's program that uses the whole public API. `test_typing` runs mypy --strict and pyright on it; nothing executes it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DecimalType, LongType, StructField, StructType
from typing_extensions import assert_type

import lsmlake
from lsmlake.errors import CommitConflict, InvalidData, LakeError, StorageFailed, TableNotFound
from lsmlake.format.data_files import Bucket, BucketState
from lsmlake.format.snapshot import Snapshot
from lsmlake.format.tag import Tag
from lsmlake.imports.adopt import ImportReport
from lsmlake.maintain.copy import CopyReport
from lsmlake.maintain.repair import RepairReport
from lsmlake.refs.rollback import RollbackReport
from lsmlake.refs.tagging import TagReport
from lsmlake.retention.snapshot_expiry import ExpireReport
from lsmlake.schema.alterations.draft import Alteration
from lsmlake.schema.schema import Schema
from lsmlake.tables.finding import Finding
from lsmlake.tables.version import Version

assert_type(lsmlake.__version__, str)


def opened() -> lsmlake.Table:
    lake = assert_type(lsmlake.connect("warehouse"), lsmlake.Lake)
    lsmlake.connect(Path("warehouse"), time_zone="Europe/Berlin")
    lsmlake.connect("s3://bucket/prefix", storage_options={"region": "eu-central-1", "allow_http": True})
    lsmlake.connect("s3://bucket/prefix", cache=Path("/var/cache/lsmlake"), cache_bytes=50 << 30)
    lake.create_database("sales", if_not_exists=True)
    assert_type(lake.databases(), list[str])
    assert_type(lake.tables(), list[str])
    lake.tables("sales")
    options: dict[str, str | int | bool] = {"bucket": 4, "changelog-producer": "lookup", "write-only": False}
    orders = lake.create_table(
        "sales.orders",
        "order_id BIGINT NOT NULL, dt STRING, amount DOUBLE",
        primary_key=["order_id", "dt"],
        partition_by=["dt"],
        options=options,
        if_not_exists=True,
        comment="all orders",
    )
    lake.create_table("sales.items", pa.schema([("id", pa.int64())]), primary_key=("id",), options={"bucket-key": ["id"]})
    lake.create_table("sales.lines", StructType([StructField("id", LongType())]), primary_key=["id"])
    lake.create_table_from("sales.copy", Path("orders") / "*.csv", primary_key=["order_id"], cast=True, row_kind="op")
    imported = assert_type(lake.import_iceberg("s3://lake/sales/orders", "sales.imported"), ImportReport)
    assert_type((imported.adopted, imported.rewritten, imported.rows), tuple[int, Mapping[str, int], int])
    lake.import_iceberg(
        "v3.metadata.json",
        "sales.old",
        snapshot=7,
        partition_by=[],
        options=options,
        comment="",
        storage_options={"region": "eu"},
    )
    lake.import_iceberg(Path("iceberg") / "orders", "sales.keyed", ["order_id"])
    lake.import_delta("delta/orders", "sales.delta", ["order_id"], version=7, partition_by=[], options=options, comment="")
    assert_type(lake.import_delta(Path("delta"), "sales.flat", storage_options={"region": "eu"}), ImportReport)
    synced = lake.sync(iter([["{}"]]), format="canal-json", database="shop", primary_keys={"orders": ["id"]}, every=None)
    if isinstance(synced, lsmlake.SyncReport):
        assert_type(synced.to_arrow(), pa.Table)
        assert_type(
            (synced["orders"].rows, synced["shop.orders"].columns_added, synced.rejected), tuple[int, tuple[str, ...], int]
        )
    lake.sync(
        Path("events"), format="ogg-json", database="shop", checkpoint=Path("state"), evolve="add", on_error="raise", every="30 s"
    )
    report = lake.import_parquet("exports/dt=*", "sales.files", ["order_id"], partition_by=["days(ts)"], comment="", link=True)
    assert_type(report.deleted_rows + report.rows, int)
    lake.import_parquet(
        Path("exports"), "sales.more", primary_key=["order_id"], options=options, storage_options={"region": "eu"}
    )
    result = lake.sql("SELECT * FROM sales.orders WHERE order_id = :id", args={"id": 7}, tables={"batch": pa.table({})})
    assert isinstance(result, lsmlake.Result)
    assert_type(result.fetchall(), list[tuple[object, ...]])
    assert_type(result.to_arrow(), pa.Table)
    assert_type(len(result), int)
    assert_type(result.columns, list[str])
    assert_type(lake.rename_table("sales.copy", "sales.orders2"), lsmlake.Table)
    lake.drop_table("sales.orders2")
    assert_type(lake.maintain(plan=True, tables=["sales.orders"]), pa.Table)
    lake.maintain(every="30 s", bytes_per_second=1 << 20)
    by_day = lake.create_view_table("sales.by_day", "SELECT dt, count(*) AS n FROM sales.orders GROUP BY dt", partition_by=["dt"])
    assert_type(by_day, lsmlake.Table)
    assert_type(lake.refresh("sales.by_day", full=True), lsmlake.RefreshReport)
    assert_type(lake.health(level0_runs=5, unmerged_time="1 h", dead_share=0.3), pa.Table)
    assert_type(lake.maintenance(["sales.orders"]), pa.Table)
    history = lake.history_of(orders, "sales.history", track=["amount"], sequence_by="_commit_time", start="earliest-full")
    assert_type(history, lsmlake.Table)
    lake.drop_database("sales", cascade=True)
    try:
        return assert_type(lake.table("sales.orders"), lsmlake.Table)
    except TableNotFound as error:
        assert_type(error.cure, str)
        return assert_type(orders, lsmlake.Table)


def described(orders: lsmlake.Table) -> list[str]:
    assert_type(orders.schema, pa.Schema)
    assert_type(orders.primary_key, tuple[str, ...])
    assert_type(orders.partition_by, tuple[str, ...])
    assert_type(orders.options, Mapping[str, str])
    assert_type(orders.comment, str | None)
    assert_type(orders.version.schema, Schema)
    assert_type(orders.version, Version)
    assert_type(orders.states(), dict[Bucket, BucketState])
    return [orders.name, orders.path]


def written(orders: lsmlake.Table, frame: DataFrame) -> int:
    snapshot = assert_type(orders.upsert([{"order_id": 7, "dt": "2026-01-01", "amount": 2.5}]), Snapshot | None)
    orders.upsert({"order_id": [7], "dt": ["2026-01-01"], "amount": [2.5]})
    orders.upsert(pa.table({"order_id": [7]}), compact=False)
    orders.upsert([b"{}"], format="debezium-json", on_error="reject")
    orders.upsert("events.jsonl", format=lsmlake.cdc.ChangeFormat("debezium-json", decimals="text"), column=None)
    assert_type(lsmlake.cdc.decode(["{}"], "maxwell-json", "id INT"), pa.Table | DataFrame)
    orders.upsert(pa.RecordBatch.from_pylist([{"order_id": 7}]))
    orders.upsert(pa.RecordBatchReader.from_stream(pl.DataFrame({"order_id": [7]})))
    orders.upsert(iter([pa.RecordBatch.from_pylist([{"order_id": 7}])]))
    orders.upsert({"order_id": number} for number in range(3))
    orders.upsert("in/*.csv", null_values=["NA"], delimiter=";", encoding="latin-1")
    orders.upsert(pd.DataFrame({"order_id": [7]}), cast=True, evolve=True)
    orders.upsert(pl.DataFrame({"order_id": [7]}), row_kind="op")
    orders.upsert(pl.scan_parquet("*.parquet"), row_kind={"column": "op", "map": {"c": "+I", "d": "-D"}})
    orders.upsert(duckdb.table("orders"), commit_id=7, writer_id="job-1")
    orders.upsert(ds.dataset("incoming"))
    orders.upsert(["a.parquet", "b.parquet"])
    orders.upsert([Path("a.parquet")])
    orders.upsert("incoming/*.csv")
    orders.upsert(orders.scan(where="amount > 10"))
    orders.upsert(frame)
    assert_type(orders.delete_keys([{"order_id": 7}], ignore_sequence=True), Snapshot | None)
    assert_type(orders.overwrite(frame, where="dt = '2026-01-01'"), Snapshot | None)
    assert_type(orders.truncate(), Snapshot | None)
    events = lsmlake.connect("warehouse").create_table("sales.events", "at TIMESTAMP, page STRING")
    assert_type(events.append(frame, writer_id="job", commit_id=1, cast=True, evolve=True), Snapshot | None)
    deleted = assert_type(events.delete("page = '/'", isolation="snapshot"), lsmlake.DmlReport)
    assert_type((deleted.snapshot, deleted.inserted), tuple[Snapshot | None, int])
    assert_type(deleted.updated + deleted.deleted, int)
    assert_type(orders.update({"status": "'closed'"}, "order_id = 7", isolation="serializable"), lsmlake.DmlReport)
    merge = assert_type(orders.merge(frame, "t.order_id = s.order_id", isolation="snapshot", evolve=True), lsmlake.Merge)
    merge = merge.when_matched_update({"amount": "t.amount + s.amount"}, condition="s.op = 'U'").when_matched_update_all()
    merge = merge.when_matched_delete("s.op = 'D'").when_not_matched_insert({"order_id": "s.order_id"})
    merge = merge.when_not_matched_insert_all("s.op = 'I'").when_not_matched_by_source_update({"amount": "0"})
    assert_type(merge.when_not_matched_by_source_delete("t.amount = 0").execute(), lsmlake.DmlReport)
    orders.merge(orders, "t.order_id = s.order_id")
    return snapshot.id if snapshot else 0


def read(orders: lsmlake.Table) -> float:
    scan = assert_type(
        orders.scan(where="amount > 10", columns=["order_id", "amount"], mode="raw", snapshot=12, limit=100, order_by_key="desc"),
        lsmlake.Scan,
    )
    orders.scan(where=pc.field("amount") > 10, timestamp="2026-01-01 00:00:00")
    orders.scan(timestamp=datetime.datetime(2026, 1, 1))
    orders.scan(tag="eod")
    assert_type(scan.to_arrow(), pa.Table)
    assert_type(scan.to_batches(), pa.RecordBatchReader)
    assert_type(scan.to_pandas(), pd.DataFrame)
    assert_type(scan.to_pylist(), list[dict[str, object]])
    assert_type(scan.head(3), pa.Table)
    split = assert_type(scan.splits(), list[lsmlake.ScanSplit])[0]
    assert_type(split.num_rows, int | None)
    assert_type(split.to_arrow(), pa.Table)
    assert_type(split.schema, pa.Schema)
    assert_type(scan.schema, pa.Schema)
    scan.to_torch(batch_size=512)
    assert_type(scan.to_polars(), pl.LazyFrame)
    assert_type(scan.to_duckdb(), duckdb.DuckDBPyRelation)
    scan.to_duckdb(duckdb.connect())
    assert_type(scan.count(), int)
    least = scan.min("amount")
    assert least is None or scan.max("amount") is not None
    assert_type(len(scan), int)
    assert_type(scan.explain(), str)
    assert_type(scan.plan().files, int)
    pa.table(scan)
    assert_type(orders.get([{"order_id": 7}, {"order_id": 8}]), pa.Table)
    row = assert_type(orders.get({"order_id": 7}), dict[str, object] | None)
    amount = row["amount"] if row else None
    return amount if isinstance(amount, float) else 0.0


def followed(orders: lsmlake.Table) -> int:
    assert_type(orders.count(), int)
    assert_type(orders.to_pandas(), pd.DataFrame)
    changes = assert_type(orders.changes(12, 20, mode="changelog", where="amount > 1", columns=("order_id",)), lsmlake.Changes)
    assert_type(changes.to_arrow(), pa.Table)
    assert_type(changes.count(), int)
    batches = orders.follow(wait=0.5, start="from-snapshot", snapshot=3, mode="diff", consumer="copy")
    assert_type(batches, Iterator[lsmlake.ChangeBatch])
    for batch in batches:
        assert_type(batch, lsmlake.ChangeBatch)
        assert_type(batch.to_polars(), pl.DataFrame)
        assert_type(batch.head(), pa.Table)
        assert_type(batch.snapshot, int)
    events = lsmlake.cdc.ChangeFormat("debezium-json", schema=True, tombstones=False)
    assert_type(next(orders.follow(format=events)).to_pylist(), list[dict[str, object]])
    assert_type(orders.changes(1, format="canal-json").to_arrow(), pa.Table)
    assert_type(lsmlake.cdc.ChangeFormat("debezium-avro", registry="http://registry:8081", topic="eu.orders").topic, str | None)
    assert_type(orders.rescale(16), lsmlake.CompactionReport)
    orders.rescale("auto", where="dt = '2026-01-01'")
    orders.reset_consumer("copy", 3)
    orders.reset_consumer("copy")
    return int(assert_type(orders.consumers(), pa.Table).num_rows)


def maintained(orders: lsmlake.Table) -> None:
    report = assert_type(orders.compact(full=True, where="dt = '2026-01-01'", buckets=[0, 1]), lsmlake.CompactionReport)
    assert_type(report.snapshot_id, int | None)
    assert_type(report.rows, int)
    assert_type(orders.publish_iceberg(), str)
    assert_type(orders.publish_iceberg(catalog={"type": "sql"}, name="sales.orders"), str)
    alterations = [
        lsmlake.set_option("bucket-key", ["order_id"]),
        lsmlake.unset_option("write-only"),
        lsmlake.add_column("note", "STRING", after="status", default="none", comment="a note"),
        lsmlake.add_column(["payload", "day"], pa.date32(), first=True, default=datetime.date(2026, 1, 1)),
        lsmlake.add_column("total", DecimalType(10, 2), default=Decimal("1.50")),
        lsmlake.rename_column("note", "remark"),
        lsmlake.move_column("remark", first=True),
        lsmlake.move_column("remark", after="status"),
        lsmlake.change_type("total", "DECIMAL(12,2)"),
        lsmlake.set_comment("remark", None),
        lsmlake.set_not_null("total"),
        lsmlake.drop_not_null("total"),
        lsmlake.set_default("total", 5),
        lsmlake.add_partition_field("days(ts)", name="day"),
        lsmlake.drop_partition_field("day"),
        lsmlake.replace_partition_field("days(ts)", "hours(ts)"),
        lsmlake.drop_default("total"),
        lsmlake.drop_column("remark"),
    ]
    assert_type(alterations, list[Alteration])
    assert_type(orders.alter(*alterations), Snapshot | None)
    expired = assert_type(orders.expire_snapshots(retain_max=5, retain_min=1, older_than="2026-01-01", limit=3), ExpireReport)
    assert_type(orders.expire_partitions(dry_run=True).rows, int)
    orders.expire_snapshots(dry_run=True)
    assert_type(orders.repair_iceberg(), list[Finding])
    assert_type(orders.repair_snapshots(roll_back_to=5, drop=[6]).newest_sound, int | None)
    orders.remove_orphan_files(dry_run=True, limit=5).kinds["data"]
    assert_type(orders.copy("s3://backup/lake", tag="eod", storage_options={"region": "eu-west-1"}), CopyReport)
    assert_type(orders.copy(Path("backup"), snapshot=3, name="sales.orders_3").reused, int)
    assert_type(expired.held, Mapping[str, int])
    assert_type(orders.create_tag("eod", retain=datetime.timedelta(days=7)), Tag)
    assert_type(orders.create_tag("eod", 3, retain="7 d", replace=True), Tag)
    assert_type(orders.rename_tag("eod", "end-of-day"), Tag)
    assert_type(orders.tags(), pa.Table)
    assert_type(orders.expire_tags(older_than="2026-01-01", dry_run=True), TagReport)
    assert_type(orders.delete_tag("end-of-day").files, int)
    assert_type(orders.create_branch("b1", tag="eod"), lsmlake.Table)
    assert_type(orders.branch("b1").scan(branch=None), lsmlake.Scan)
    assert_type(orders.rename_branch("b1", "b2"), lsmlake.Table)
    assert_type(orders.branches(), pa.Table)
    assert_type(orders.fast_forward("b2"), Snapshot | None)
    assert_type(orders.delete_branch("b2", dry_run=True).tags, tuple[str, ...])
    assert_type(orders.rollback(3, cut=True), Snapshot)
    assert_type(orders.rollback(tag="eod", dry_run=True), RollbackReport)
    assert_type(orders.repair(action="drop", keys=[{"order_id": 7}]), RepairReport)
    findings = assert_type(orders.verify(), list[Finding])
    print([finding.what for finding in findings])
    for listing in (orders.snapshots(), orders.files(snapshot=3), orders.buckets(), orders.partitions(), orders.manifests()):
        assert_type(listing, pa.Table)
    assert_type(orders.schemas(), pa.Table)
    assert_type(orders.options_table(), pa.Table)
    assert_type(orders.system_table("table_indexes", tag="eod"), pa.Table)
    assert orders.analyze(["amount"]) is not None
    assert_type(orders.system_table("binlog", start=3).to_arrow(), pa.Table)


def on_spark(spark: SparkSession, connect: ConnectSession) -> StreamingQuery:
    lsmlake.ship(spark)
    lsmlake.register(connect)
    lsmlake.connect("warehouse", spark=connect)
    lake = lsmlake.connect("warehouse", spark=spark)
    assert_type(lake.register_tables(spark), list[str])
    assert_type(lake.register_views(connect, database="sales"), list[str])
    orders = lake["sales.orders"]
    assert_type(orders.system_table("audit_log").to_spark(), DataFrame)
    assert_type(orders.system_table("binlog", start=3).to_spark(), DataFrame)
    assert_type(orders.system_table("ro").to_spark(), DataFrame)
    frame = assert_type(orders.df(where="amount > 10", columns=["order_id"], snapshot=3), DataFrame)
    frame.filter("order_id = 7").show()
    assert_type(orders.scan().to_spark("native"), DataFrame)
    assert_type(orders.changes(0).to_spark(), DataFrame)
    stream = assert_type(orders.read_stream(start="latest-full", consumer="copy", max_rows=1000), DataFrame)
    sink = assert_type(orders.sink("orders", row_kind="op", checkpoint="c"), Callable[[DataFrame, int], None])
    stream.writeStream.foreachBatch(sink).start()
    return assert_type(orders.write_stream(stream, checkpoint="c", trigger={"availableNow": True}), StreamingQuery)


def handled(orders: lsmlake.Table) -> str:
    try:
        orders.upsert([{"order_id": "seven"}])
    except InvalidData as error:
        return f"{error.what} at {error.where}: {error}"
    except (CommitConflict, StorageFailed) as error:
        return error.cure
    except lsmlake.errors.LakeError as error:
        raise LakeError("not loaded", where=orders.name, cure="try again") from error
    return ""
