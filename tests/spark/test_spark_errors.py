"""Invalid data raises lsmlake's own errors, on the driver or in tasks, and leaves no files."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from spark_support import paths_below, same

import lsmlake
from lsmlake.errors import Corrupt, InvalidData, InvalidOption, InvalidQuery, InvalidSchema

pytestmark = [pytest.mark.spark, pytest.mark.connect]

SCHEMA = "id BIGINT NOT NULL, v SMALLINT, d DECIMAL(5,2), f FLOAT, s STRING NOT NULL, st STRUCT<a: INT>, x DOUBLE"
GOOD = ("id", "1S AS v", "1.5BD AS d", "1.5F AS f", "'s' AS s", "named_struct('a', 1) AS st", "0.5D AS x")


@pytest.fixture
def table(lake, spark_lake):
    made = lake.create_table("d.t", SCHEMA, primary_key=["id"], options={"bucket": 3})
    made.upsert([{"id": i, "v": 1, "d": Decimal("1.5"), "f": 1.5, "s": "s", "st": {"a": 1}, "x": 0.5} for i in range(10)])
    return spark_lake.table("d.t")


@pytest.fixture
def unchanged(table, tmp_path: Path):
    """Nothing is written while the test runs."""
    before = paths_below(tmp_path)
    yield
    assert paths_below(tmp_path) == before and table.scan().count() == 10


def row(**changed: str) -> list[str]:
    """The columns of a good row, some changed."""
    good = {text.rpartition(" ")[2]: text for text in GOOD}
    return [f"{changed[name]} AS {name}" if name in changed else text for name, text in good.items()]


NOTICED_BEFORE = [
    (row(v="'1'"), "column 'v': type does not fit, expected SMALLINT, found string"),
    (row(s="1"), "column 's': type does not fit"),
    (row(st="named_struct('b', 1)"), "column 'st': type does not fit"),
    (row(v="INTERVAL '1' DAY"), "column 'v': unsupported column type, found interval day"),
    (GOOD[:-1], r"lacks the columns \['x'\]"),
    ((*GOOD, "1 AS more"), r"extra columns \['more'\]"),
    ((*GOOD, "1S AS v"), r"a column twice, found \['v'\]"),
]
NOTICED_IN_TASKS = [
    (row(id="IF(id = 777, NULL, id)"), "column 'id': a null"),
    (row(s="IF(id = 777, NULL, 'x')"), "column 's': a null"),
    (row(v="32000 + id"), "column 'v': a value does not fit, expected SMALLINT"),
    (row(d="CAST(id AS DECIMAL(10,3)) + 0.001BD"), "column 'd': a value does not fit"),
    (row(d="CAST(1000 + id AS INT)"), "column 'd': a value does not fit"),
    (row(f="IF(id = 777, 0.1D, 0.5D)"), "column 'f': a value does not fit"),
]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("cases", [NOTICED_BEFORE, NOTICED_IN_TASKS], ids=["before", "in tasks"])
def test_rows_that_do_not_fit_are_refused(spark, table, cases):
    for columns, words in cases:
        with pytest.raises(InvalidData, match=words) as refused:
            table.upsert(spark.range(0, 1_000, 1, 4).selectExpr(*columns))
        assert "\n" not in str(refused.value) and "java" not in str(refused.value)


def test_a_null_in_a_nested_field_that_cannot_hold_one_is_refused(spark, spark_lake, tmp_path):
    schema = pa.schema([
        pa.field("id", pa.int64()),
        pa.field("st", pa.struct([pa.field("a", pa.int64(), False)])),
        pa.field("l", pa.list_(pa.field("element", pa.int64(), False))),
    ])  # fmt: skip
    table = spark_lake.create_table("d.n", schema, primary_key=["id"], options={"bucket": 3})
    frame = spark.range(100).selectExpr("id", "named_struct('a', nullif(id, 77)) AS st", "array(1L, nullif(id, 55)) AS l")
    before = paths_below(tmp_path)
    for changed, field in ((frame.where("id <> 55"), "column 'st'.* field 'a'"), (frame.where("id <> 77"), "column 'l'")):
        with pytest.raises(InvalidData, match=field):
            table.upsert(changed)
    assert paths_below(tmp_path) == before


def test_a_null_struct_needs_no_fields(spark, spark_lake):
    table = spark_lake.create_table("d.n", "id BIGINT NOT NULL, st STRUCT<a: INT NOT NULL>", primary_key=["id"])
    table.upsert(spark.range(2).selectExpr("id", "IF(id = 0, NULL, named_struct('a', 1)) AS st"))
    table.delete_keys(spark.range(1))
    same(table.df(), [(1, (("a", 1),))])


@pytest.mark.usefixtures("unchanged")
def test_row_kinds_that_are_none_are_refused(spark, table):
    frame = spark.range(100).selectExpr(*GOOD, "IF(id = 77, 'X', '+I') AS op", "1 AS number")
    with pytest.raises(InvalidData, match=r"column 'op': unknown row kind, .*found 'X'"):
        table.upsert(frame.drop("number"), row_kind="op")
    with pytest.raises(InvalidData, match=r"column .number.: the row-kind column and the codes have different types"):
        table.upsert(frame.drop("op"), row_kind="number")
    with pytest.raises(InvalidData, match="column 'nosuch': the row-kind column is not in the data"):
        table.upsert(frame.drop("op", "number"), row_kind="nosuch")


@pytest.mark.usefixtures("unchanged")
def test_keys_to_delete_are_keys_and_nothing_else(spark, table):
    with pytest.raises(InvalidData, match=r"extra columns \['v'\]"):
        table.delete_keys(spark.range(3).selectExpr("id", "1S AS v"))
    with pytest.raises(InvalidData, match=r"lacks the columns \['id'\]"):
        table.delete_keys(spark.range(3).selectExpr("id AS other"))
    with pytest.raises(InvalidData, match="column 'id': a null"):
        table.delete_keys(spark.range(300).selectExpr("nullif(id, 299) AS id"))


@pytest.mark.parametrize("ddl", ["FLOAT", "DOUBLE"])
def test_nan_is_refused_as_a_key(spark, spark_lake, tmp_path, ddl):
    table = spark_lake.create_table("d.n", f"k {ddl} NOT NULL", primary_key=["k"], options={"bucket": 4})
    before = paths_below(tmp_path)
    with pytest.raises(InvalidData, match="NaN in a key column"):
        table.upsert(spark.range(0, 100, 1, 4).selectExpr(f"IF(id = 99, {ddl}('NaN'), CAST(id AS {ddl})) AS k"))
    assert paths_below(tmp_path) == before


@pytest.mark.usefixtures("unchanged")
def test_a_number_of_a_commit_needs_a_writer(spark, table):
    with pytest.raises(InvalidData, match="a commit_id needs a writer_id"):
        table.upsert(spark.range(3).selectExpr(*GOOD), commit_id=3)


def test_a_dataframe_needs_spark_attached(spark, lake, table):
    alone = lake.table("d.t")
    for write in (alone.upsert, alone.delete_keys):
        with pytest.raises(InvalidData, match=r"needs Spark attached, .*connect\(.*spark=spark\)"):
            write(spark.range(3).selectExpr(*GOOD))
    for act in (alone.df, alone.sink, alone.scan().to_spark, lambda: alone.write_stream(spark.range(1), checkpoint="x")):
        with pytest.raises(InvalidQuery, match="needs Spark; attach a session"):
            act()


@pytest.mark.usefixtures("unchanged")
def test_streams_and_batches_are_not_accepted_for_each_other(spark, table, tmp_path):
    stream = spark.readStream.format("rate").load().selectExpr("value AS id")
    with pytest.raises(InvalidData, match=r"streaming DataFrame.*write_stream"):
        table.delete_keys(stream)
    with pytest.raises(InvalidData, match=r"not a streaming DataFrame.*use spark\.readStream"):
        table.write_stream(spark.range(3), checkpoint=str(tmp_path / "checkpoint"))
    with pytest.raises(InvalidOption, match="needs a checkpoint"):
        table.write_stream(stream, checkpoint="")


def test_only_a_session_is_a_session(spark_lake):
    with pytest.raises(InvalidOption, match=r"not a Spark session.*found str"):
        lsmlake.connect("somewhere", spark="local[2]")


def test_a_struct_type_no_table_can_have_is_refused(spark, spark_lake):
    for columns, words in (("INTERVAL '1' DAY AS v", "column 'v': unsupported column type"), ("NULL AS v", "column 'v'")):
        with pytest.raises(InvalidSchema, match=words):
            spark_lake.create_table("d.w", spark.range(1).selectExpr("id", columns).schema, primary_key=["id"])


def test_a_broken_source_is_not_our_error_and_commits_nothing(spark, table):
    broken = spark.range(100).selectExpr(*row(x="IF(id = 99, raise_error('broken source'), 0.5D)"))
    with pytest.raises(Exception, match="broken source"):
        table.upsert(broken)
    assert table.snapshots().num_rows == 1 and table.df().count() == 10


def test_every_reader_of_a_damaged_file_names_it(spark, table, tmp_path):
    table.upsert(spark.range(10).selectExpr(*GOOD), compact=False)
    victim = table.files()["file_path"][0].as_py()
    (tmp_path / "warehouse" / victim).write_bytes(b"PAR1 nothing PAR1")
    before = paths_below(tmp_path)
    with pytest.raises(Corrupt, match=victim):
        table.compact(full=True)
    assert paths_below(tmp_path) == before
    with pytest.raises(Corrupt, match=victim):
        table.scan().to_arrow()
    with pytest.raises(Exception, match=victim):  # a DataFrame is Spark's to evaluate; its error says our message
        table.scan().to_spark("arrow").collect()


def test_the_bucket_of_a_bad_row_may_be_any(spark, spark_lake, tmp_path):
    """A key that does not fit has no bucket of its own: the task that gets it refuses it."""
    table = spark_lake.create_table("d.tiny", "id TINYINT NOT NULL", primary_key=["id"], options={"bucket": 3})
    before = paths_below(tmp_path)
    with pytest.raises(InvalidData, match="column 'id': a value does not fit, expected TINYINT"):
        table.upsert(spark.range(100, 140))
    assert paths_below(tmp_path) == before
    table.upsert(spark.range(100, 120))
    same(table.df(), sorted(((i,) for i in range(100, 120)), key=repr))
