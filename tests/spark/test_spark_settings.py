"""Under any session settings, a read by Catalyst gives the right rows or an error, never other rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from spark_support import SMALL_FILES, by_strategy, configured, rows, same

import lsmlake
from lsmlake.errors import InvalidQuery, SnapshotNotFound
from lsmlake.spark.datasource.source import LakeSource
from lsmlake.spark.settings import reads_otherwise

pytestmark = pytest.mark.spark

SETTINGS = {
    "damage hidden, old calendars, inference": [
        "spark.sql.files.ignoreMissingFiles=true", "spark.sql.files.ignoreCorruptFiles=true",
        "spark.sql.files.ignoreInvalidPartitionPaths=true", "spark.sql.parquet.datetimeRebaseModeInRead=LEGACY",
        "spark.sql.parquet.int96RebaseModeInRead=LEGACY", "spark.sql.parquet.mergeSchema=true",
        "spark.sql.parquet.fieldId.read.enabled=true", "spark.sql.parquet.inferTimestampNTZ.enabled=false",
        "spark.sql.parquet.binaryAsString=true", "spark.sql.parquet.int96AsTimestamp=false",
        "spark.sql.parquet.columnarReaderBatchSize=7", "spark.sql.parquet.aggregatePushdown=true",
        "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing=true", "spark.sql.files.maxPartitionBytes=4kb",
        "spark.sql.sources.partitionColumnTypeInference.enabled=false", "spark.sql.sources.validatePartitionColumns=false",
        "spark.sql.parquet.pushdown.inFilterThreshold=0",
        "spark.sql.execution.arrow.maxRecordsPerBatch=3",
    ],
    "another meaning of SQL": [
        "spark.sql.parquet.datetimeRebaseModeInRead=EXCEPTION", "spark.sql.caseSensitive=true", "spark.sql.ansi.enabled=false",
        "spark.sql.session.timeZone=America/New_York", "spark.sql.timestampType=TIMESTAMP_NTZ",
        "spark.sql.parser.quotedRegexColumnNames=true", "spark.sql.parser.escapedStringLiterals=true",
        "spark.sql.parquet.enableNestedColumnVectorizedReader=false", "spark.sql.ansi.doubleQuotedIdentifiers=true",
    ],
    "row by row": ["spark.sql.parquet.enableVectorizedReader=false"],
    "records filtered by Parquet": [
        "spark.sql.parquet.enableVectorizedReader=false", "spark.sql.parquet.recordLevelFilter.enabled=true",
    ],
    "no generated code, no adaptive plans, no hints": [
        "spark.sql.codegen.wholeStage=false", "spark.sql.codegen.factoryMode=NO_CODEGEN", "spark.sql.adaptive.enabled=false",
        "spark.sql.autoBroadcastJoinThreshold=-1", "spark.sql.optimizer.disableHints=true",
        "spark.sql.parquet.filterPushdown=false",
        "spark.sql.optimizer.dynamicPartitionPruning.enabled=false",
    ],
    "files hidden, or of another source": [
        "spark.sql.sources.useV1SourceList=csv,json", "spark.sql.parquet.aggregatePushdown=true",
        "spark.sql.files.ignoredPathSegmentRegex=bucket-.*",
    ],
}  # fmt: skip


def settings_of(*texts: str) -> dict[str, str]:
    pairs = (text.split("=", 1) for text in texts)
    return {name.replace(".", "__"): value for name, value in pairs}


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory) -> dict:
    """Tables with dead rows, without, with rows at level 0, and with partitions: (table, its rows)."""
    folder = tmp_path_factory.mktemp("settings")
    lake, attached = lsmlake.connect(folder), lsmlake.connect(folder, spark=spark)
    lake.create_database("d")
    columns = (
        "p STRING, id BIGINT NOT NULL, n DECIMAL(20,2), d DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, b BINARY, s STRING, "
        "st STRUCT<a: INT>"
    )
    made = {}
    for name in ("clean", "masked", "waiting", "partitioned"):
        partition = {"primary_key": ["p", "id"], "partition_by": ["p"]} if name == "partitioned" else {"primary_key": ["id"]}
        options = {"compaction.tier-runs": 50, "compaction.reclaim-dead-percent": 100}
        table = lake.create_table(f"d.{name}", columns, options=options, **partition)
        table.upsert(batch(range(500), table.schema))
        if name != "clean":
            table.upsert(batch(range(3, 500, 9), table.schema), compact=name != "waiting")
        made[name] = attached.table(f"d.{name}")
    return {name: (table, rows(lake.table(f"d.{name}").scan().to_arrow())) for name, table in made.items()}


def batch(ids: range, schema: pa.Schema) -> pa.Table:
    """Days and moments from before the Gregorian calendar on."""
    days = [dt.date(1500, 1, 1) + dt.timedelta(days=400 * i) for i in ids]
    local = [dt.datetime(1500, 1, 1, 12, 30) + dt.timedelta(days=370 * i) for i in ids]
    return pa.table(
        {
            "p": [None if i % 50 == 0 else f"p {i % 3}" for i in ids],
            "id": ids,
            "n": [Decimal(i) / 4 for i in ids],
            "d": days,
            "ts": [moment.replace(tzinfo=dt.timezone.utc) for moment in local],
            "ntz": local,
            "b": [bytes([i % 256, 255]) for i in ids],
            "s": [f"s{i}" for i in ids],
            "st": [{"a": i} for i in ids],
        },
        schema=schema,
    )


@pytest.mark.parametrize(
    "group", [pytest.param(g, marks=pytest.mark.connect) if g == "another meaning of SQL" else g for g in SETTINGS]
)
def test_a_setting_of_the_session_changes_no_row(spark, tables, group):
    with configured(spark, **settings_of(*SETTINGS[group])):
        for table, expected in tables.values():
            same(table.df(), expected)
            same(by_strategy(table.scan(), SMALL_FILES), expected)
        for name in ("masked", "waiting"):
            table, expected = tables[name]
            found = rows(table.df(where="id between 30 and 70 and d > '1520-01-01' and s like 's%'"))
            assert found == [row for row in expected if 30 <= row[1] <= 70 and row[3] > dt.date(1520, 1, 1)], name
        assert tables["masked"][0].df().count() == 500


@pytest.mark.connect
def test_no_setting_hides_missing_or_damaged_files(spark, lake, spark_lake, tmp_path):
    hide = ["spark.sql.files.ignoreMissingFiles=true", "spark.sql.files.ignoreCorruptFiles=true"]
    table = lake.create_table("d.t", "id BIGINT, v BIGINT", primary_key=["id"], options={"bucket": 2})
    table.upsert({"id": range(100), "v": range(100)})
    attached = spark_lake.table("d.t")
    paths = [tmp_path / "warehouse" / path for path in table.files()["file_path"].to_pylist()]
    with configured(spark, **settings_of(*hide)):
        frame = attached.df()
        whole = paths[0].read_bytes()
        paths[0].write_bytes(whole[:4] + b"\xff" * (len(whole) - 12) + whole[-8:])
        with pytest.raises(Exception, match="FAILED_READ_FILE"):
            frame.collect()
        paths[0].unlink()
        with pytest.raises(Exception, match=r"FAILED_READ_FILE|PATH_NOT_FOUND"):
            frame.collect()


@pytest.mark.connect
def test_a_frame_whose_files_have_expired_is_an_error(spark, lake, spark_lake):
    """Tasks of ours say what has happened. Catalyst says in its own words which file is gone."""
    table = lake.create_table("d.t", "id BIGINT, v BIGINT", primary_key=["id"])
    table.upsert({"id": range(100), "v": range(100)})
    frames = {strategy: by_strategy(spark_lake.table("d.t").scan(), strategy) for strategy in ("native", "arrow", SMALL_FILES)}
    frames["changes"] = spark_lake.table("d.t").changes(0, 1).to_spark()
    table.upsert({"id": range(100), "v": [0] * 100})
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    with configured(spark, spark__sql__files__ignoreMissingFiles="true"):
        with pytest.raises(Exception, match=r"(FAILED_READ_FILE|PATH_NOT_FOUND).*d\.db/t/.*parquet"):
            frames["native"].collect()
        for ours in ("arrow", SMALL_FILES, "changes"):
            with pytest.raises(Exception, match="snapshot 1 has expired while it was read"):
                frames[ours].collect()


@pytest.mark.parametrize(("zone", "hours"), [(None, 0), ("Asia/Tokyo", 9)])
def test_the_option_zone_of_the_data_source_is_that_of_times_too(lake, zone, hours):
    """Spark does not tell a data source the zone of the session."""
    table = lake.create_table("d.t", "id BIGINT, at TIMESTAMP", primary_key=["id"])
    made = dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc)
    table.upsert({"id": [1], "at": pa.array([made], pa.timestamp("us", "UTC"))})
    seconds = dt.timedelta(hours=hours, seconds=5)
    local = {
        "scan.timestamp": f"{dt.datetime.now(dt.timezone.utc) + seconds:%Y-%m-%d %H:%M:%S}",
        "where": f"at = '{made + dt.timedelta(hours=hours):%Y-%m-%d %H:%M:%S}'",
    }
    given = {"path": table.meta.env.storage.place(table.path), **local, **({"zone": zone} if zone else {})}
    source = LakeSource(given)
    assert len(source.reader(source.schema()).partitions()) == 1
    assert source.streamReader(source.schema()).initialOffset()["snapshot"] == 2
    with pytest.raises(SnapshotNotFound, match="all snapshots of the table are newer"):
        LakeSource({**given, "zone": "Pacific/Kiritimati"}).reader(source.schema())
    elsewhere = LakeSource({"path": given["path"], "where": given["where"], "zone": "Pacific/Kiritimati"})
    assert len(elsewhere.reader(source.schema()).partitions()) == 0


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_task_of_the_data_source_reports_an_expired_snapshot(lake, producer):
    """What Spark calls in its Python processes, between planning and reading."""
    table = lake.create_table("d.t", "id BIGINT, v BIGINT", primary_key=["id"], options={"changelog-producer": producer})
    table.upsert({"id": range(100), "v": range(100)})
    source = LakeSource({"path": table.meta.env.storage.place(table.path)})
    batch, stream = source.reader(source.schema()), source.streamReader(source.schema())
    batch_tasks, stream_tasks = batch.partitions(), stream.partitions(stream.initialOffset(), {"snapshot": 2})
    table.upsert({"id": range(100), "v": [0] * 100})
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    for reader, tasks in ((batch, batch_tasks), (stream, stream_tasks)):
        assert tasks
        for task in tasks:
            with pytest.raises(SnapshotNotFound, match="snapshot 1 has expired while it was read"):
                list(reader.read(task))


@pytest.mark.connect
@pytest.mark.parametrize("text", ["spark.sql.sources.useV1SourceList=", "spark.sql.files.ignoredPathSegmentRegex=bucket-.*"])
def test_where_catalyst_cannot_read_the_files_tasks_do(spark, tables, text):
    name = text.partition("=")[0]
    with configured(spark, **settings_of(text)):
        scan = tables["masked"][0].scan()
        assert f"spark arrow: Python tasks read and mask, since {name}" in scan.explain()
        with pytest.raises(InvalidQuery, match=name):
            scan.to_spark("native")


@pytest.mark.connect
@pytest.mark.parametrize(
    ("text", "where", "name"),
    [
        ("spark.sql.ansi.enabled=false", "id = '30.5'", "spark.sql.ansi.enabled"),
        ("spark.sql.parser.escapedStringLiterals=true", r"s = 's\u0033'", "escapedStringLiterals"),
        ("spark.sql.ansi.doubleQuotedIdentifiers=true", 's = "s"', "doubleQuotedIdentifiers"),
        ("test.of=s7", "s = '${test.of}'", "spark.sql.variable.substitute"),
        ("spark.sql.timestampType=TIMESTAMP_NTZ", "ntz >= TIMESTAMP '1900-01-01 00:00:00'", "spark.sql.timestampType"),
        ("spark.sql.session.timeZone=Asia/Kolkata", "ts = ntz", "Asia/Kolkata"),
    ],
)
def test_text_that_the_session_reads_otherwise_prunes_no_file(spark, tables, text, where, name):
    """Spark's rows count; and `explain` says why no file is pruned."""
    with configured(spark, **settings_of(text)):
        for kind in ("clean", "masked"):
            table, _ = tables[kind]
            same(table.df(where=where), rows(table.df().where(where)))
            assert name in next(
                line for line in table.scan(where=where).explain().splitlines() if line.startswith("pruning   off")
            )
        assert "pruning" not in table.scan(where="id = 30").explain()


def test_a_zone_that_is_utc_compares_moments_with_and_without_one_here(spark, tables):
    table, expected = tables["masked"]
    same(table.df(where="ts = ntz"), expected)
    assert "pruning" not in table.scan(where="ts = ntz").explain()


def test_only_text_that_a_setting_concerns_is_left_to_spark():
    ansi_off = {"spark.sql.ansi.enabled": "false"}
    int_, text, day = pa.int32(), pa.string(), pa.date32()
    for where, types, left in (
        ("i = 3", [int_], False), ("i = '3'", [int_], True), ("s = '3'", [text], False), ("d = '2026-01-01'", [day], False),
        ("d IN ('2026-01-01')", [day], True), ("i = CAST(300 AS TINYINT)", [int_], True),
        ("s = 'a' AND i = 3", [text, int_], True),
    ):  # fmt: skip
        assert (reads_otherwise(lambda name, default: ansi_off.get(name, default), where, types) is not None) is left, where
        default_session = reads_otherwise(lambda name, default: default, where, types)
        assert default_session is None


def test_names_that_the_session_would_read_as_patterns_are_refused(spark, spark_lake):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, `a.b` INT, axb INT", primary_key=["id"])
    table.upsert(spark.range(3).selectExpr("id", "1 as `a.b`", "2 as axb"))
    names = configured(spark, spark__sql__parser__quotedRegexColumnNames="true")
    with names, pytest.raises(InvalidQuery, match="quotedRegexColumnNames"):
        table.df()
