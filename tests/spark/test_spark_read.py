"""Both Spark strategies and the embedded reader return the rows of a dict of the newest rows."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as hs
from pyspark.sql import functions as F
from spark_support import SMALL_FILES, by_strategy, configured, plan_of, same, seen
from strategies import Shape, conditions, encoded_rows

import lsmlake
from lsmlake.errors import InvalidQuery, LakeError, SnapshotNotFound
from lsmlake.spark import small_files

pytestmark = pytest.mark.spark

STRATEGIES = ("native", "arrow", SMALL_FILES)
DAY = dt.date(2026, 1, 1)
KEEP_DEAD = {"compaction.tier-runs": 50, "compaction.reclaim-dead-percent": 100}


# --- random tables and conditions ---

SHAPES = [
    Shape.of("bigint"),
    Shape.of("int and string", "string"),
    Shape.of("decimal(38,10)", "date"),
    Shape.of("boolean and smallint", "timestamp"),
    Shape.of("double", "boolean"),
    Shape.of("binary"),
]


class Twin:
    """A table written embedded, and beside it the rows it should hold."""

    def __init__(self, lake: lsmlake.Lake, name: str, shape: Shape, buckets: int) -> None:
        self.shape, self.table = shape, shape.create(lake, name, bucket=buckets, file__block_size="1 kb")
        self.live: dict[tuple, tuple] = {}
        self.raw: dict[tuple, tuple] = {}
        self.stamp = 0

    def write(self, codes: list[tuple[int, int]], compact: bool | None) -> None:
        batch = []
        for key_code, value_code in codes:
            self.stamp += 1
            row, kind = self.shape.row(key_code, value_code, self.stamp), "-D" if value_code % 5 == 0 else "+U"
            batch.append((*row, kind))
            key = tuple(map(seen, self.shape.key_of(self.shape.stored(row))))
            self.live.pop(key, None) if kind == "-D" else self.live.update({key: self.shape.stored(row)})
        schema = self.table.schema.append(pa.field("kind", pa.string()))
        self.table.upsert(self.shape.table(batch, schema, schema.names), row_kind="kind", compact=compact)

    def expected(self, condition, names: list[str]) -> list[tuple]:
        """The rows of which `condition` is true."""
        live = [dict(zip(self.shape.names, row, strict=True)) for row in self.live.values()]
        found = [row for row in live if condition is None or condition.holds(row)]
        return sorted((tuple(seen(row[name]) for name in names) for row in found), key=repr)


@examples(5, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=hs.data())
def test_random_tables_read_the_same_by_every_strategy(lake, spark_lake, data):
    shape = data.draw(hs.sampled_from(SHAPES))
    name = f"d.t{len(lake.tables('d'))}"
    twin = Twin(lake, name, shape, data.draw(hs.sampled_from([1, 3])))
    for _ in range(data.draw(hs.integers(1, 5))):
        twin.write(data.draw(encoded_rows()), data.draw(hs.sampled_from([None, False, True])))
    if data.draw(hs.integers(0, 4)) == 0:
        twin.table.compact(full=True)
    for _ in range(2):
        condition = data.draw(hs.none() | conditions(shape))
        names = data.draw(hs.permutations(shape.names))[: data.draw(hs.integers(1, len(shape.names)))]
        how = {"where": condition and condition.sql, "columns": names}
        expected = twin.expected(condition, names)
        same(twin.table.scan(**how).to_arrow(), expected)
        for strategy in STRATEGIES:
            same(by_strategy(spark_lake.table(name).scan(**how), strategy), expected)


# --- dead rows ---


def of_numbers(ids: np.ndarray, stamp: int) -> pa.Table:
    return pa.table({"id": ids, "v": ids * 10 + stamp, "s": pa.array((ids % 97).astype(str))})


@pytest.fixture
def masked(lake) -> tuple[str, int, int]:
    """(name, rows, sum of v) of a table with 200,000 rows in one file of many row groups, every seventh of them dead."""
    options = {"file.block-size": "100 kb", **KEEP_DEAD}
    table = lake.create_table("d.masked", "id BIGINT NOT NULL, v BIGINT, s STRING", primary_key=["id"], options=options)
    ids = np.arange(200_000)
    table.upsert(of_numbers(ids, 0))
    table.upsert(of_numbers(ids[::14], 1))
    table.delete_keys(pa.table({"id": ids[7::14]}))
    assert table.files()["deleted_record_count"].to_pylist().count(0) < table.files().num_rows
    left = np.setdiff1d(ids, ids[7::14])
    return "d.masked", len(left), int((left * 10 + (left % 14 == 0)).sum())


@pytest.mark.connect(short="classic")
def test_dead_rows_are_masked_in_every_chunk_and_piece_of_a_file(spark, spark_lake, masked):
    name, count, total = masked
    table = spark_lake.table(name)
    for split_bytes in ("100kb", "128mb"):  # several tasks a file, or one
        with configured(spark, spark__sql__files__maxPartitionBytes=split_bytes):
            for strategy in STRATEGIES:
                found = by_strategy(table.scan(columns=["v"]), strategy)
                assert found.selectExpr("sum(v)", "count(*)").first() == (total, count)
                near = by_strategy(table.scan(where="id between 65500 and 65600 or id >= 199990"), strategy)
                same(near, table.scan(where="id between 65500 and 65600 or id >= 199990").to_arrow())
    assert table.scan().count() == count


def test_a_column_with_a_dot_is_distinct_from_a_struct_field(lake, spark_lake):
    columns = "a STRUCT<b: DOUBLE, `c.d`: STRING>, `a.b` INT NOT NULL, `x``y` STRING, `.z w` STRING NOT NULL, `a.c.d` STRING"
    table = lake.create_table("d.t", columns, primary_key=["a.b", ".z w"], options=KEEP_DEAD)
    nan = float("nan")

    def rows(keys: range, stamp: int) -> list[dict]:
        inner = {k: {"b": nan if k % 2 else -float(k), "c.d": f"i{k}"} for k in keys}
        return [{"a": inner[k], "a.b": k, "x`y": f"x{stamp}", ".z w": f"z{k}", "a.c.d": f"o{k}"} for k in keys]

    table.upsert(rows(range(3000), 1))
    spark_lake.table("d.t").upsert(spark_lake.runtime.spark.createDataFrame(pa.Table.from_pylist(rows(range(0, 3000, 9), 2))))
    table.upsert(rows(range(5), 3), compact=False)
    for where in (None, "`a.b` = 18", "a.b >= 0", "a.`c.d` = 'i27' OR `a.c.d` = 'o9'", "`x``y` <> 'x1' AND `.z w` > 'z5'"):
        expected = table.scan(where=where).to_arrow()
        assert expected.num_rows == {None: 3000, "`a.b` = 18": 1, "a.b >= 0": 1501}.get(where, expected.num_rows)
        for strategy in STRATEGIES:
            same(by_strategy(spark_lake.table("d.t").scan(where=where), strategy), expected)
    for names in (["a.b"], ["a"], [".z w", "x`y"]):
        for strategy in STRATEGIES:
            same(by_strategy(spark_lake.table("d.t").scan(columns=names), strategy), table.scan(columns=names).to_arrow())


def test_files_of_one_size_are_distinguished(lake, spark_lake):
    table = lake.create_table("d.t", "id BIGINT, v BIGINT", primary_key=["id"], options={"bucket": 8, **KEEP_DEAD})
    table.upsert({"id": range(800), "v": range(800)})
    table.upsert({"id": range(0, 800, 7), "v": [0] * len(range(0, 800, 7))})
    sizes = table.files()["file_size_in_bytes"].to_pylist()
    assert len(set(sizes)) < len(sizes)
    same(spark_lake.table("d.t").scan().to_spark("native"), table.scan().to_arrow())


def test_a_file_that_differs_from_its_manifest_entry_is_an_error_not_other_rows(lake, spark_lake, tmp_path):
    table = lake.create_table("d.t", "id BIGINT, v BIGINT", primary_key=["id"], options=KEEP_DEAD)
    table.upsert({"id": range(1000), "v": range(1000)})
    table.upsert({"id": [5], "v": [0]})
    (path,) = table.files().filter(pc.field("deleted_record_count") > 0)["file_path"].to_pylist()
    rows = pq.read_table(next(tmp_path.rglob(path.rpartition("/")[2])))
    pq.write_table(rows, next(tmp_path.rglob(path.rpartition("/")[2])), compression="none", use_dictionary=False)
    with pytest.raises(Exception, match=r"d.db/t: a data file differs from its manifest entry; verify\(\) names the file"):
        spark_lake.table("d.t").df().collect()
    assert path in str(table.verify())


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_flipped_bit_in_a_page_is_an_error_not_other_rows(lake, spark_lake, tmp_path, compression):
    """Without a check of the checksums of pages, uncompressed values would just be others."""
    options = {"bucket": 1, "file.compression": compression}
    table = lake.create_table("d.t", "id BIGINT, x DOUBLE", primary_key=["id"], options=options)
    table.upsert({"id": range(5000), "x": np.random.default_rng(1).random(5000)})
    path = next(tmp_path.rglob("data-*.parquet"))
    data = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(1)
    data[chunk.data_page_offset + chunk.total_compressed_size - 100] ^= 1
    path.write_bytes(data)
    with pytest.raises(Exception, match="CRC checksum verification failed"):
        spark_lake.table("d.t").scan().to_spark("native").collect()
    with pytest.raises(Exception, match="CRC checksum verification failed"):
        table.scan().to_arrow()
    (finding,) = table.verify()
    assert (finding.where.rpartition("/")[2], finding.snapshots) == (path.name, (1,))


@pytest.mark.connect
def test_bitmaps_past_the_broadcast_limit_are_applied_in_tasks(lake, spark_lake):
    options = {"read.vector-broadcast-limit": "1 kb", **KEEP_DEAD}
    table = lake.create_table("d.t", "id BIGINT NOT NULL, v BIGINT, s STRING", primary_key=["id"], options=options)
    table.upsert(of_numbers(np.arange(10_000), 0))
    table.upsert(of_numbers(np.arange(10), 1))
    attached = spark_lake.table("d.t")
    assert attached.scan().plan().dead_rows == 10
    assert "arrow" in attached.scan().explain()
    same(attached.df(), table.scan().to_arrow())
    same(attached.scan().to_spark("native"), table.scan().to_arrow())


# --- partitions ---

ODD = [
    "a/b=c%d e?*{}[]", "", None, "..", ".", "né", "__DEFAULT_PARTITION__", "%2F", "a\\b", "x:y", "#", "'\"", " lead", "trail ",
    "{a,b}", "[ab]", "*", "~", "a=b", "a\nb", "-", "null", "\u2028",
]  # fmt: skip


def test_partitions_of_any_text_are_written_and_read(spark, lake, spark_lake):
    schema = pa.schema([pa.field("p", pa.string()), pa.field("id", pa.int64(), False), pa.field("v", pa.int64())])
    table = spark_lake.create_table("d.t", schema, primary_key=["p", "id"], partition_by=["p"])
    data = pa.table({"p": ODD * 3, "id": [i // len(ODD) for i in range(3 * len(ODD))], "v": range(3 * len(ODD))}, schema=schema)
    table.upsert(spark.createDataFrame(data))
    table.upsert(spark.createDataFrame(data.slice(0, len(ODD))))
    table.upsert(spark.createDataFrame(data.slice(len(ODD))), compact=False)
    same(lake.table("d.t").scan().to_arrow(), data)
    assert {bucket.partition for bucket in table.states()} == {(p,) for p in ODD}
    for strategy in STRATEGIES:
        same(by_strategy(table.scan(), strategy), data)
        one = by_strategy(table.scan(where="p = 'a/b=c%d e?*{}[]' or p is null or p = ''"), strategy)
        same(one, data.filter(pa.array([p in (ODD[0], None, "") for p in data["p"].to_pylist()])))
    table.delete_keys(spark.createDataFrame(data.select(["p", "id"]).slice(0, 2 * len(ODD))))
    table.compact(full=True)
    for strategy in STRATEGIES:
        same(by_strategy(table.scan(), strategy), data.slice(2 * len(ODD)))
    assert table.verify() == []


def test_composite_partitions_of_times_are_written_and_read(spark, lake, spark_lake):
    schema = pa.schema([
        pa.field("day", pa.date32()), pa.field("ts", pa.timestamp("us", "UTC")), pa.field("n", pa.decimal128(10, 2)),
        pa.field("id", pa.int64(), False), pa.field("v", pa.string()),
    ])  # fmt: skip
    days = [dt.date(2026, 1, 1), None, dt.date(1960, 2, 29)]
    times = [dt.datetime(2026, 3, 29, 1, 30, 0, 1), dt.datetime(1950, 1, 1), None, dt.datetime(2026, 10, 25, 0, 30)]
    keys = [(day, time, i % 4) for i, day in enumerate(days) for time in times for _ in range(3)]
    data = pa.table(
        [
            pa.array([k[0] for k in keys], schema.field("day").type),
            pa.array([k[1] for k in keys], schema.field("ts").type),
            pa.array([k[2] for k in keys], pa.int64()).cast(pa.decimal128(21, 2)).cast(schema.field("n").type),
            pa.array(range(len(keys)), pa.int64()),
            pa.array([str(k) for k in keys]),
        ],
        schema=schema,
    )
    names = ["day", "ts", "n"]
    table = spark_lake.create_table("d.t", schema, primary_key=[*names, "id"], partition_by=names)
    with configured(spark, spark__sql__session__timeZone="America/New_York"):
        table.upsert(spark.createDataFrame(data))
        lake.table("d.t").upsert(data.slice(10))
        for strategy in STRATEGIES:
            same(by_strategy(table.scan(), strategy), data)
            same(by_strategy(table.scan(where="day is null"), strategy), data.filter(data["day"].is_null()))
    same(lake.table("d.t").scan().to_arrow(), data)
    assert table.partitions().num_rows == len({k[:3] for k in keys})


# --- what Catalyst is given ---


@pytest.fixture
def mixed(lake):
    """A table with clean files, masked files, and rows waiting at level 0, with and without deletes."""
    options = {"bucket": 4, "compaction.tier-runs": 50, "compaction.reclaim-dead-percent": 100}
    table = lake.create_table("d.mixed", "id BIGINT NOT NULL, v DOUBLE, s STRING, w INT", primary_key=["id"], options=options)
    for ids, stamp, compact in ((range(100), 0.0, None), (range(1), 0.5, None), (range(3, 4), 0.25, False)):
        data = {"id": ids, "v": [i + stamp for i in ids], "s": list(map(str, ids)), "w": pa.array(ids, pa.int32())}
        table.upsert(pa.table(data), compact=compact)
    table.delete_keys({"id": [5]}, compact=False)
    return table


@pytest.mark.connect
def test_filters_are_pushed_and_columns_pruned_in_every_scan(spark_lake, mixed, capsys):
    plan = plan_of(spark_lake.table("d.mixed").scan(where="v > 30.0", columns=["s"]).to_spark("native"), capsys)
    scans = [line for line in plan.splitlines() if "FileScan parquet" in line]
    of_values = [line for line in scans if "v#" in line]
    assert len(scans) > len(of_values) >= 2
    assert all("PushedFilters: [IsNotNull(v), GreaterThan(v,30.0)]" in line for line in of_values)
    assert all("w:int" not in line for line in scans)
    assert all("ReadSchema: struct<id:bigint>" in line for line in scans if line not in of_values)


@pytest.mark.connect
def test_a_compacted_table_is_a_plain_scan(spark_lake, mixed, capsys):
    mixed.compact(full=True)
    plan = plan_of(spark_lake.table("d.mixed").scan(where="v > 30.0", columns=["s"]).to_spark(), capsys)
    assert plan.count("FileScan parquet") == 1
    assert "ReadSchema: struct<v:double,s:string>" in plan
    assert not any(word in plan for word in ("Join", "Union", "Python", "Arrow"))


@pytest.mark.connect
def test_files_of_another_key_are_not_even_listed(spark_lake, mixed, capsys):
    mixed.compact(full=True)
    plan = plan_of(spark_lake.table("d.mixed").df(where="id = 17"), capsys)
    assert "InMemoryFileIndex(1 paths)" in plan


# --- names, modes, moments ---


NAMES = ["a.b", "c d", "e,f;g", "i`j", "(k)={l}", "ü", "_metadata", "select", "`", "c0", "bucket", "order"]


@pytest.mark.connect(short="classic")
def test_a_column_may_have_any_name(spark, spark_lake):
    """The names above as keys, the same with an accent as values."""
    values = [f"{name}'" for name in NAMES]
    keys, rest = ([pa.field(n, pa.int64(), False) for n in NAMES], [pa.field(n, pa.string()) for n in values])
    schema = pa.schema([*keys, *rest])
    table = spark_lake.create_table("d.t", schema, primary_key=NAMES, options={"bucket": 2})
    for ids, stamp, compact in ((range(5), "a", None), (range(2), "b", None), (range(1, 3), "c", False)):
        data = pa.table([*[list(ids)] * len(keys), *[[stamp] * len(ids)] * len(rest)], schema=schema)
        table.upsert(spark.createDataFrame(data), compact=compact)
    expected = [(*[i] * len(NAMES), *[stamp] * len(values)) for i, stamp in enumerate("bccaa")]
    for strategy in STRATEGIES:
        found = by_strategy(table.scan(), strategy)
        assert found.columns == schema.names
        same(found, expected)
        same(by_strategy(table.scan(where="`a.b` = 3 and `_metadata` = 3", columns=["`", "`'"]), strategy), [(3, "a")])


@pytest.mark.connect
def test_a_warehouse_may_lie_anywhere(spark, tmp_path):
    root = tmp_path / "ware house%20 {x}[y]*?#é"
    table = _small(lsmlake.connect(root, spark=spark), spark)
    table.upsert(spark.range(3).selectExpr("id", "id * 2 AS v"))
    for strategy in STRATEGIES:
        same(by_strategy(table.scan(), strategy), pa.table({"id": range(5), "v": [0, 2, 4, 3, 4]}))


def _small(lake, spark):
    lake.create_database("d", if_not_exists=True)
    table = lake.create_table("d.small", "id BIGINT NOT NULL, v BIGINT", primary_key=["id"])
    table.upsert(spark.range(5).selectExpr("id", "id AS v"))
    return table


@pytest.mark.connect(short="classic")
def test_a_tag_is_read_by_every_strategy_after_its_snapshot_has_expired(spark, spark_lake):
    table = _small(spark_lake, spark)
    table.create_tag("then")
    table.upsert(spark.range(2).selectExpr("id", "-1L AS v"))
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    then = pa.table({"id": range(5), "v": range(5)})
    for strategy in STRATEGIES:
        same(by_strategy(table.scan(tag="then"), strategy), then)
    same(table.df(tag="then"), then)
    assert table.changes("then").to_spark().count() == 4
    table.delete_tag("then")
    with pytest.raises(SnapshotNotFound, match="no tag 'then'"):
        table.df(tag="then")


@pytest.mark.connect(short="classic")
def test_raw_mode_and_older_snapshots_read_the_same_by_every_strategy(spark, spark_lake):
    table = _small(spark_lake, spark)
    before = table.snapshots()["snapshot_id"].to_pylist()[-1]
    table.upsert(spark.range(2).selectExpr("id", "-1L AS v"))
    table.upsert(spark.range(9, 12).selectExpr("id", "id AS v"), compact=False)
    for strategy in STRATEGIES:
        same(by_strategy(table.scan(snapshot=before), strategy), pa.table({"id": range(5), "v": range(5)}))
        same(by_strategy(table.scan(mode="raw"), strategy), pa.table({"id": range(5), "v": [-1, -1, 2, 3, 4]}))
        assert by_strategy(table.scan(), strategy).count() == 8
    table.compact(full=True)
    table.delete_keys({"id": range(2, 12)}, compact=False)  # the one run at level 0 holds deletes
    for strategy in STRATEGIES:
        same(by_strategy(table.scan(), strategy), pa.table({"id": range(2), "v": [-1, -1]}))


@pytest.mark.connect
def test_a_dataframe_reads_the_snapshot_it_was_made_from(spark, spark_lake):
    table = _small(spark_lake, spark)
    frames = [by_strategy(table.scan(), strategy) for strategy in STRATEGIES]
    table.upsert(spark.range(100).selectExpr("id", "-1L AS v"))
    table.compact(full=True)
    for frame in frames:
        same(frame, pa.table({"id": range(5), "v": range(5)}))


def test_an_empty_table_is_an_empty_dataframe_with_its_columns(spark_lake):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, a ARRAY<STRING>", primary_key=["id"])
    for strategy in ("auto", *STRATEGIES):
        found = by_strategy(table.scan(where="id > 3"), strategy)
        assert (found.schema.simpleString(), found.count()) == ("struct<id:bigint,a:array<string>>", 0)


def test_rows_join_and_aggregate_like_any_dataframe(spark, spark_lake):
    table = _small(spark_lake, spark)
    table.upsert(spark.range(1).selectExpr("id", "7L AS v"))
    table.upsert(spark.range(1, 2).selectExpr("id", "8L AS v"), compact=False)
    for strategy in STRATEGIES:
        frame = by_strategy(table.scan(), strategy)
        both = frame.alias("a").join(frame.alias("b"), "id").selectExpr("id", "a.v - b.v AS zero")
        assert both.where("zero = 0").count() == 5


def test_spark_lists_the_files_of_a_version_once_and_its_dataframes_still_join(spark, spark_lake, tmp_path):
    table = spark_lake.create_table("d.t", "p INT, k BIGINT, v INT", primary_key=["p", "k"], partition_by=["p"])
    metrics = spark._jvm.org.apache.spark.metrics.source.HiveCatalogMetrics

    def listed(read):
        before = metrics.METRIC_FILES_DISCOVERED().getCount()
        return read(), metrics.METRIC_FILES_DISCOVERED().getCount() - before

    def rows():
        return sorted(map(tuple, table.df().collect()))

    table.upsert({"p": [0, 1, 2], "k": [1, 2, 3], "v": [2, 3, 4]}, compact=True)
    assert listed(rows) == ([(0, 1, 2), (1, 2, 3), (2, 3, 4)], 3)
    assert listed(rows) == ([(0, 1, 2), (1, 2, 3), (2, 3, 4)], 0)
    one, other = table.df(), table.df()
    next_ = one.join(other, one.v == other.k).select(one.k, other.v)
    assert sorted(map(tuple, next_.collect())) == [(1, 3), (2, 4)]
    assert table.df(where="p = 1").collect() == [(1, 2, 3)]
    twin = lsmlake.connect(tmp_path / "warehouse", spark=spark.newSession()).table("d.t")
    assert listed(lambda: twin.df().count()) == (3, 3)
    table.upsert({"p": [1], "k": [2], "v": [9]}, compact=True)
    assert rows() == [(0, 1, 2), (1, 2, 9), (2, 3, 4)]
    table.alter(lsmlake.add_column("w", "STRING"))
    assert rows() == [(0, 1, 2, None), (1, 2, 9, None), (2, 3, 4, None)]
    old = [(0, 1, 2), (1, 2, 3), (2, 3, 4)]
    assert sorted(map(tuple, table.df(snapshot=1).select("p", "k", "v").collect())) == old


@pytest.mark.connect
def test_what_cannot_be_read_is_refused_before_spark_is_asked(spark, spark_lake):
    table = _small(spark_lake, spark)
    for how, strategy, words in (
        ({"where": "nosuch = 1"}, "auto", "nosuch"),
        ({"where": "v ="}, "native", "SQL"),
        ({"columns": ["nosuch"]}, "arrow", "nosuch"),
        ({"mode": "stale"}, "auto", "stale"),
        ({}, "fastest", "fastest"),
    ):
        with pytest.raises(InvalidQuery, match=words):
            table.scan(**how).to_spark(strategy)


def test_a_condition_that_spark_cannot_analyse_is_refused_with_its_text(spark, spark_lake, mixed):
    for condition in ("sum(id) = 1", "no_such_function(id)", "id > array(1)"):
        for strategy in STRATEGIES:
            with pytest.raises(InvalidQuery, match=f"cannot evaluate the condition, found {re.escape(repr(condition))}"):
                by_strategy(spark_lake.table("d.mixed").scan(where=condition), strategy)


def test_a_missing_file_is_not_taken_for_a_wrong_condition(spark, spark_lake):
    """Spark's error for a path that does not exist is of the same class as that for a condition that it cannot analyse."""
    table = _small(spark_lake, spark)
    for path in Path(spark_lake.env.storage.root).rglob("*.parquet"):
        path.unlink()
    with pytest.raises(LakeError) as caught:
        table.scan(where="abs(id) > 0").to_spark("native").collect()
    assert "condition" not in str(caught.value)


@pytest.mark.connect(short="classic")
def test_a_condition_only_spark_understands_is_left_to_it(spark, spark_lake, mixed):
    table = spark_lake.table("d.mixed")
    condition = "w % 2 = 1 AND length(concat(s, '!')) = 2 OR id IN (SELECT id + 40 FROM range(2))"
    expected = sorted([("1",), ("3",), ("7",), ("9",), ("40",), ("41",)], key=repr)
    for strategy in STRATEGIES:
        same(by_strategy(table.scan(where=condition, columns=["s"]), strategy), expected)
    with pytest.raises(InvalidQuery):
        table.scan(where=condition).to_arrow()


@pytest.mark.connect(short="classic")
def test_the_parts_of_a_condition_that_lsmlake_knows_prune_files(spark, spark_lake):
    table = _small(spark_lake, spark)
    table.upsert(spark.range(5, 9).selectExpr("id", "id AS v"), compact=False)
    for unknown, reason in (("v % 2 = 1", "time zone"), ("soundex(string(v)) IS NOT NULL AND v % 2 = 1", "soundex")):
        scan = table.scan(where=f"id = 7 AND {unknown}", columns=["id"])
        (pruning,) = (line for line in scan.explain().splitlines() if line.startswith("pruning"))
        assert pruning.startswith("pruning   by a part: only Spark applies this filter. ")
        assert reason in pruning
        assert scan._plan(runtime_filters=True)[0].files == 1
        last = table.scan(where=f"id < 8 AND {unknown}", columns=["v"], limit=4, order_by_key="desc")
        one = table.scan(where=f"id < 8 AND v = 3 AND {unknown}", columns=["id"], limit=1)
        for strategy in STRATEGIES:
            same(by_strategy(scan, strategy), [(7,)])
            same(by_strategy(last, strategy), [(1,), (3,), (5,), (7,)])
            same(by_strategy(one, strategy), [(3,)])


@pytest.mark.connect
def test_timestamps_in_a_condition_are_in_the_zone_of_the_session(spark, spark_lake):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, ts TIMESTAMP", primary_key=["id"])
    table.upsert(spark.range(48).selectExpr("id", "timestamp_seconds(id * 3600) AS ts"))
    for zone, moment, count in (("America/New_York", "1969-12-31 20:00:00", 1), ("+05:30", "1970-01-02", 19)):
        with configured(spark, spark__sql__session__timeZone=zone):
            condition = f"ts < '{moment}'"
            assert table.df().where(condition).count() == count
            assert table.scan(where=condition).count() == count
            for strategy in STRATEGIES:
                assert by_strategy(table.scan(where=condition), strategy).count() == count


# --- the session ---


@pytest.mark.parametrize(("before", "after"), [("4194304b", "262144b"), ("2m", "2m")])
def test_what_the_user_has_set_of_the_session_stays(spark, tmp_path, before, after):
    with configured(spark, spark__sql__files__openCostInBytes=before):
        lsmlake.connect(tmp_path, spark=spark)
        assert spark.conf.get("spark.sql.files.openCostInBytes") == after


def test_small_files_do_not_crowd_the_large_ones_into_one_task(spark, spark_lake):
    """A few large files and many small ones, read in two tasks: neither has nearly all of the rows."""
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, v STRING", primary_key=["id"], options={"bucket": 2})
    wide = "concat(md5(string(id)), md5(string(-id)), md5(string(id * 3)), md5(string(id * 5)))"
    table.upsert(spark.range(60_000).selectExpr("id", f"{wide} as v"))
    for number in range(5):
        table.upsert(spark.range(number, 60_000, 997).selectExpr("id", f"'{number}' as v"))
    frame = table.df()
    rows = [row["n"] for row in frame.groupBy(F.spark_partition_id()).agg(F.count("*").alias("n")).collect()]
    assert len(rows) >= 2 and max(rows) < 0.7 * sum(rows), rows


# --- a limit ---


@pytest.mark.parametrize("order", [pytest.param("asc", marks=pytest.mark.connect(short="connect")), "desc"])
def test_the_first_rows_by_key(lake, spark_lake, order):
    table = lake.create_table("d.first", "p INT, k INT NOT NULL, v STRING", primary_key=["p", "k"], partition_by=["p"])
    for start in (0, 10, 20):
        keys = list(range(start, start + 10)) * 2
        table.upsert({"p": [1] * 10 + [None] * 10, "k": keys, "v": [f"{key}" for key in keys]}, compact=start < 20)
    for where in (None, "k % 10 = 3", "length(v) = 1"):  # the last two only Spark can evaluate
        scan = spark_lake.table("d.first").scan(where=where, limit=4, order_by_key=order, columns=["v"])
        wanted = spark_lake.table("d.first").df(where=where).toPandas()
        wanted = wanted.sort_values(["p", "k"], ascending=order == "asc", na_position="first" if order == "asc" else "last")
        assert [row.v for row in scan.to_spark().collect()] == wanted["v"].tolist()[:4]


def test_a_limit_counts_the_rows_of_a_condition_that_only_spark_evaluates(lake, spark_lake):
    table = lake.create_table("d.lim", "k INT NOT NULL, v STRING", primary_key=["k"], options={"bucket": 1})
    for start in (0, 10, 20):
        table.upsert({"k": list(range(start, start + 10)), "v": [f"{key}" for key in range(start, start + 10)]})
    assert spark_lake.table("d.lim").df(where="length(v) = 2 AND k % 10 > 4", limit=8).count() == 8


# --- many small files ---


@pytest.mark.connect(short="classic")
def test_many_small_files_are_read_together_and_by_the_partitions_of_a_filter(spark, spark_lake, capsys, monkeypatch):
    """Of 40 partitions, two have deleted rows and one had only these; the filter leaves out what need not be read."""
    columns = "v BIGINT, day DATE, id BIGINT NOT NULL, name CHAR(3)"
    table = spark_lake.create_table("d.t", columns, primary_key=["day", "id"], partition_by=["day"], options=KEEP_DEAD)
    days = np.array([DAY + dt.timedelta(days=n % 40) for n in range(400)])
    table.upsert(pa.table({"v": range(400), "day": days, "id": range(400), "name": ["ab"] * 400}))
    table.delete_keys(pa.table({"day": days[7::40], "id": range(7, 400, 40)}))
    table.upsert(pa.table({"v": [-1, -1], "day": days[:2], "id": [0, 1], "name": ["ab"] * 2}))
    monkeypatch.setattr(small_files, "_MANY", 20)
    scan = table.scan()
    assert "Python tasks read and mask 41 files, several together, those of the partitions" in scan.explain()
    assert "partitions" not in table.scan(columns=["day"]).explain()  # these are read: a row needs a column of a file
    assert scan.to_spark().schema == scan.to_spark("native").schema
    same(scan.to_spark(), scan.to_spark("native"))
    assert scan.to_spark().count() == table.scan().count() == 390
    some = scan.to_spark().where("day = '2026-01-03' AND v > 100 AND name = 'ab'")
    same(some.select("v"), [(n,) for n in range(122, 400, 40)])
    for read in (some, table.df(columns=["day"]), table.df(columns=["v"])):
        assert "FileScan" not in plan_of(read, capsys)
    assert "FileScan" in plan_of(table.df(where="day > '2026-02-01'"), capsys)  # 8 files are few
    plan = plan_of(some, capsys)
    assert not re.search(r"Filter [^\n]*day", plan.partition("ArrowEvalPython")[0])  # it is below the function that reads
    same(table.df(columns=["day"]).groupBy("day").count().where("count <> 10"), [])
    same(table.df(where="v < 0"), [(-1, day, n, "ab ") for n, day in enumerate(days[:2])])
    table.upsert(pa.table({"v": [-2], "day": days[:1], "id": [0], "name": ["ab"]}), compact=False)
    assert "Catalyst" in table.scan().explain()
    same(table.df(), table.scan().to_spark("native"))


def test_files_that_are_few_or_large_are_left_to_catalyst(spark_lake, monkeypatch):
    table = spark_lake.create_table("d.t", "p INT, id INT", primary_key=["p", "id"], partition_by=["p"])
    table.upsert({"p": [n % 9 for n in range(90)], "id": range(90)})
    for name, limit, chosen in (
        ("_MANY", 10, False),
        ("_MANY", 9, True),
        ("_SMALL_BYTES", 50, False),
        ("_ALL_BYTES", 900, False),
        ("_SMALL_ROWS", 10, True),
        ("_SMALL_ROWS", 9, False),
        ("_ALL_ROWS", 90, True),
        ("_ALL_ROWS", 89, False),
    ):
        monkeypatch.setattr(small_files, "_MANY", 9)
        with monkeypatch.context() as patch:
            patch.setattr(small_files, name, limit)
            assert ("several together" in table.scan().explain()) is chosen


def test_small_files_with_very_many_rows_are_left_to_catalyst(spark_lake, monkeypatch):
    """Parquet stores many equal rows in few bytes; a task would hold all of them in memory."""
    table = spark_lake.create_table("d.t", "p INT, v INT", partition_by=["p"])
    table.append({"p": [n % 4 for n in range(100_000)], "v": [7] * 100_000})
    assert max(table.files()["file_size_in_bytes"].to_pylist()) < 2000
    monkeypatch.setattr(small_files, "_MANY", 4)
    assert "several together" not in table.scan().explain()
    same(table.df().groupBy("v").count(), [(7, 100_000)])


@pytest.mark.connect(short="classic")
def test_small_files_of_one_bucket_are_read_a_few_at_a_time(spark_lake, monkeypatch):
    """The first DataFrame has several rows for a partition with many files. Two of the files have deleted rows."""
    table = spark_lake.create_table("d.t", "k INT, v STRING", options={"write-only": "true"})
    for start in range(0, 70, 10):
        table.append({"k": range(start, start + 10), "v": [f"v{n}" for n in range(start, start + 10)]})
    table.delete("k in (3, 44, 45)")
    kept = [n for n in range(70) if n not in (3, 44, 45)]
    expected = pa.table({"k": kept, "v": [f"v{n}" for n in kept]})
    assert sorted(table.files()["deleted_record_count"].to_pylist()) == [0, 0, 0, 0, 0, 1, 2]
    for at_once in (1, 2, 3, 100):
        monkeypatch.setattr(small_files, "_FILES_AT_ONCE", at_once)
        table = spark_lake.table("d.t")
        same(by_strategy(table.scan(), SMALL_FILES), expected)
        same(by_strategy(table.scan(where="k > 40"), SMALL_FILES), expected.slice(kept.index(41)))


@pytest.mark.connect(short="connect")
@pytest.mark.parametrize("type_", ["CHAR(3)", "VARCHAR(5)", "STRING"])
def test_a_partition_column_of_small_files_may_have_any_name(spark_lake, type_):
    table = spark_lake.create_table(
        "d.t", f"`a.``b` {type_}, k INT, `a` STRUCT<b: INT>", primary_key=["a.`b", "k"], partition_by=["`a.``b`"]
    )
    rows = pa.table({"a.`b": ["x", "y"] * 4, "k": range(8), "a": [{"b": n} for n in range(8)]}, table.schema)
    table.upsert(rows)
    found, native = by_strategy(table.scan(), SMALL_FILES), table.scan().to_spark("native")
    assert found.schema == native.schema
    same(found, native)
    same(found.where("`a.``b` = 'x'").select("k"), [(n,) for n in range(0, 8, 2)])


def test_many_small_files_are_left_to_catalyst_in_a_session_whose_batches_have_no_limit(spark, spark_lake, monkeypatch):
    table = spark_lake.create_table("d.t", "p INT, id INT", primary_key=["p", "id"], partition_by=["p"])
    table.upsert({"p": [n % 9 for n in range(90)], "id": range(90)})
    monkeypatch.setattr(small_files, "_MANY", 9)
    assert "several together" in table.scan().explain()
    with configured(spark, spark__sql__execution__arrow__maxRecordsPerBatch="0"):
        assert "several together" not in table.scan().explain()
        assert sorted(row.id for row in table.df().collect()) == list(range(90))
