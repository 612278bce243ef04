"""Values of every type round-trip from a DataFrame into a table and back, by every kind of read."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import types as st
from spark_support import SMALL_FILES, by_strategy, configured, rows, same

from lsmlake.errors import InvalidQuery, InvalidSchema
from lsmlake.spark.frame_types import to_arrow
from lsmlake.types.ddl import parse_columns

pytestmark = [pytest.mark.spark, pytest.mark.connect]

UTC = dt.timezone.utc
NAN, INF = math.nan, math.inf
INNER = st.StructType([
    st.StructField("x", st.IntegerType()),
    st.StructField("when", st.TimestampType()),
    st.StructField("words", st.ArrayType(st.StringType())),
])  # fmt: skip
SCHEMA = st.StructType([
    st.StructField("id", st.LongType(), False),
    st.StructField("b", st.BooleanType()),
    st.StructField("i8", st.ByteType()),
    st.StructField("i16", st.ShortType()),
    st.StructField("i32", st.IntegerType()),
    st.StructField("i64", st.LongType()),
    st.StructField("f32", st.FloatType()),
    st.StructField("f64", st.DoubleType()),
    st.StructField("d9", st.DecimalType(9, 2)),
    st.StructField("d18", st.DecimalType(18, 0)),
    st.StructField("d38", st.DecimalType(38, 18)),
    st.StructField("text", st.StringType()),
    st.StructField("bytes", st.BinaryType()),
    st.StructField("day", st.DateType()),
    st.StructField("ts", st.TimestampType()),
    st.StructField("ntz", st.TimestampNTZType()),
    st.StructField("clock", st.TimeType()),
    st.StructField("clocks", st.ArrayType(st.TimeType())),
    st.StructField("struct", INNER),
    st.StructField("list", st.ArrayType(st.DoubleType())),
    st.StructField("map", st.MapType(st.StringType(), st.TimestampType())),
    st.StructField("deep", st.ArrayType(st.MapType(st.IntegerType(), INNER))),
])  # fmt: skip


def moment(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=UTC)


_WHEN = moment(2026, 3, 29, 1, 30, 0, 1)
VALUES = {
    "b": [True, False, None],
    "i8": [-128, 127, None, 0],
    "i16": [-(2**15), 2**15 - 1, None, 0],
    "i32": [-(2**31), 2**31 - 1, None, 0],
    "i64": [-(2**63), 2**63 - 1, None, 2**53 + 1],
    "f32": [0.0, -0.0, NAN, INF, -INF, None, 1.5, 2.0**-149],
    "f64": [-0.0, 0.0, NAN, -INF, INF, None, 0.1, 5e-324],
    "d9": [Decimal("9999999.99"), Decimal("-9999999.99"), None, Decimal("0.00"), Decimal("-0.01")],
    "d18": [Decimal(10**18 - 1), Decimal(1 - 10**18), None, Decimal(0)],
    "d38": [Decimal("9" * 20 + "." + "9" * 18), Decimal("-" + "9" * 20 + "." + "9" * 18), None, Decimal("0." + "0" * 17 + "1")],
    "text": ["", "a", None, "größe", "漢字", "😀", "nul\0inside", "line\nbreak", "x" * 5000],
    "bytes": [b"", b"\0", None, b"\xff\xfe", bytes(range(256))],
    "day": [dt.date(1970, 1, 1), dt.date(1969, 12, 31), None, dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 14)],
    "ts": [
        moment(1970, 1, 1), moment(1969, 12, 31, 23, 59, 59, 999999), None, moment(1900, 1, 1), moment(2026, 10, 25), _WHEN,
    ],
    "ntz": [dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None, dt.datetime(2026, 3, 29, 2, 30)],
    "clock": [dt.time(), dt.time.max, None, dt.time(12, 30, 0, 1)],
    "clocks": [[dt.time(1, 2, 3, 4), None], [], None],
    "struct": [
        {"x": 1, "when": _WHEN, "words": ["a", "", None]},
        None,
        {"x": None, "when": None, "words": None},
        {"x": 2, "when": moment(1960, 2, 29), "words": []},
    ],
    "list": [[1.0, None, NAN, -0.0], [], None, [None]],
    "map": [[("a", _WHEN), ("", None)], [], None, [("ü", moment(1950, 1, 1))]],
    "deep": [
        [[(1, {"x": 1, "when": _WHEN, "words": ["w"]}), (2, None)], None, []],
        None,
        [],
        [[(3, {"x": None, "when": None, "words": None})]],
    ],
}  # fmt: skip
ARROW = pa.schema([
    ("id", pa.int64()), ("b", pa.bool_()), ("i8", pa.int8()), ("i16", pa.int16()), ("i32", pa.int32()), ("i64", pa.int64()),
    ("f32", pa.float32()), ("f64", pa.float64()), ("d9", pa.decimal128(9, 2)), ("d18", pa.decimal128(18, 0)),
    ("d38", pa.decimal128(38, 18)), ("text", pa.string()), ("bytes", pa.binary()), ("day", pa.date32()),
    ("ts", pa.timestamp("us", "UTC")), ("ntz", pa.timestamp("us")), ("clock", pa.time64("us")),
    ("clocks", pa.list_(pa.time64("us"))),
    ("struct", inner := pa.struct([("x", pa.int32()), ("when", pa.timestamp("us", "UTC")), ("words", pa.list_(pa.string()))])),
    ("list", pa.list_(pa.float64())), ("map", pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
    ("deep", pa.list_(pa.map_(pa.int32(), inner))),
])  # fmt: skip
COUNT = 60


def original() -> pa.Table:
    """Every value of every type, the columns out of step with each other."""
    columns = {"id": list(range(COUNT))}
    for name, values in VALUES.items():
        columns[name] = [values[(row + row // len(values)) % len(values)] for row in range(COUNT)]
    return pa.table(columns, schema=ARROW)


def frame_of(spark, table: pa.Table):
    """As a DataFrame of the declared types."""
    return spark.createDataFrame(table, SCHEMA)


def files_of(table, tmp_path: Path) -> list[str]:
    return [str(tmp_path / "warehouse" / path) for path in table.files()["file_path"].to_pylist()]


@pytest.fixture
def elsewhere(spark):
    """The session is in another time zone, one that changes to summer time and back."""
    with configured(spark, spark__sql__session__timeZone="America/New_York"):
        yield


@pytest.mark.usefixtures("elsewhere")
def test_every_value_of_every_type_comes_back_as_it_was(spark, spark_lake, lake, tmp_path):
    data = original()
    table = spark_lake.create_table("d.t", SCHEMA, primary_key=["id"], options={"bucket": 2})
    frame = frame_of(spark, data)
    assert table.schema.remove_metadata().types == ARROW.types
    table.upsert(frame.limit(40))
    table.upsert(frame.where("id >= 30"), compact=False)  # rows at level 0, old ones dead, in one read
    expected = rows(data)
    same(lake.table("d.t").scan().to_arrow(), expected)
    for strategy in ("native", "arrow", SMALL_FILES):
        found = by_strategy(table.scan(), strategy)
        assert found.schema == st.StructType([st.StructField(f.name, f.dataType, True) for f in SCHEMA])
        same(found, expected)
    table.compact(full=True)
    for strategy in ("native", "arrow", SMALL_FILES):
        same(by_strategy(table.scan(), strategy), expected)
    same(spark.read.schema(SCHEMA).parquet(*files_of(table, tmp_path)), expected)


@pytest.mark.usefixtures("elsewhere")
def test_embedded_rows_of_every_type_read_the_same_in_spark(spark_lake, lake):
    data = original()
    lake.create_table("d.t", ARROW, primary_key=["id"], options={"bucket": 2}).upsert(data)
    for strategy in ("native", "arrow", SMALL_FILES):
        same(by_strategy(spark_lake.table("d.t").scan(), strategy), data)


def test_a_compacted_table_is_plain_parquet_to_duckdb(spark, spark_lake, tmp_path):
    data = original()
    table = spark_lake.create_table("d.t", SCHEMA, primary_key=["id"], options={"bucket": 2})
    table.upsert(frame_of(spark, data))
    table.upsert(frame_of(spark, data).where("id < 10"))
    table.compact(full=True)
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        found = database.read_parquet(files_of(table, tmp_path)).to_arrow_table()
    same(found.cast(ARROW), data)


def test_columns_keep_their_comments_and_nullability(spark, spark_lake):
    schema = st.StructType([
        st.StructField("id", st.IntegerType(), False),
        st.StructField("v", st.StringType(), False, {"comment": "never null"}),
        st.StructField("list", st.ArrayType(st.IntegerType(), False)),
    ])  # fmt: skip
    table = spark_lake.create_table("d.t", schema, primary_key=["id"])
    assert [field.nullable for field in table.schema] == [False, False, True]
    assert not table.schema.field("list").type.value_field.nullable
    assert table.version.schema.columns.field("v").metadata[b"comment"] == b"never null"


def test_times_of_day_need_a_setting_of_the_session(spark, spark_lake):
    table = spark_lake.create_table("d.c", "id INT, t TIME", primary_key=["id"])
    frame = spark.sql("SELECT 1 AS id, TIME '01:02:03.000004' AS t")
    table.upsert(frame)
    assert table.scan(where="t > TIME '01:02:03'").to_spark().collect()[0].t == dt.time(1, 2, 3, 4)
    with configured(spark, spark__sql__timeType__enabled="false"):
        for refused in (lambda: table.upsert(frame), lambda: table.scan().to_spark()):
            with pytest.raises(InvalidQuery, match=r"Spark refuses TIME.*spark.conf.set\('spark.sql.timeType.enabled', 'true'\)"):
                refused()


def test_statements_changes_and_streams_have_times_of_day(spark, spark_lake):
    options = {"changelog-producer": "lookup"}
    table = spark_lake.create_table("d.clocks", "id INT, t TIME, a ARRAY<TIME>", primary_key=["id"], options=options)
    hours = "SELECT CAST(id AS INT) AS id, make_time(CAST(id AS INT), 0, 0.000001) AS t, array(TIME '01:00') AS a FROM range(20)"
    table.upsert(spark.sql(hours))
    spark_lake.sql("UPDATE d.clocks SET t = TIME '23:00' WHERE t = TIME '03:00:00.000001'")
    spark_lake.sql("DELETE FROM d.clocks WHERE t < TIME '02:00'")
    source = "(SELECT 5 AS id, TIME '22:00' AS t) s"
    spark_lake.sql(f"MERGE INTO d.clocks c USING {source} ON c.id = s.id WHEN MATCHED THEN UPDATE SET t = s.t")
    table.upsert(spark.sql("SELECT 99 AS id, '10:00:00.5' AS t, array('11:00') AS a"), cast=True)
    expected = {number: dt.time(number, 0, 0, 1) for number in range(2, 20)}
    expected |= {3: dt.time(23), 5: dt.time(22), 99: dt.time(10, 0, 0, 500_000)}
    for strategy in ("native", "arrow", SMALL_FILES):
        assert {row.id: row.t for row in by_strategy(table.scan(), strategy).collect()} == expected
    assert table.scan(where="hour(t) BETWEEN 7 AND 8").to_spark().count() == 2
    assert {row.t for row in table.changes(1).to_spark().collect()} > {dt.time(23), dt.time(22)}
    stream = table.read_stream().writeStream.format("memory").queryName("clocks")
    assert stream.trigger(availableNow=True).start().awaitTermination(120)
    assert {row.id: row.t for row in spark.table("clocks").collect()} == expected


# --- type names ---

TYPE_NAMES = """
    BOOLEAN BOOL TINYINT BYTE SMALLINT SHORT INT INTEGER BIGINT LONG FLOAT REAL DOUBLE DECIMAL DEC NUMERIC NUMBER
    STRING STR TEXT VARCHAR CHAR CHARACTER NCHAR NVARCHAR VARCHAR2 BPCHAR CLOB LONGVARCHAR BINARY BLOB VARBINARY BYTEA
    BYTES DATE TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ TIMESTAMPTZ TIMESTAMPLTZ TIMESTAMPNTZ TIMESTAMP_S TIMESTAMP_NS
    DATETIME TIME TIMETZ INTERVAL VARIANT OBJECT JSON UUID TIME(6) INT1 INT2 INT4 INT8 INT16 INT32 INT64 INT128 UINT MEDIUMINT
    HUGEINT FLOAT4 FLOAT8 FLOAT64 FIXED MONEY BIT LIST STRUCT ARRAY MAP ENUM NULL UNKNOWN ANY BIGDECIMAL BIGNUMERIC
    DECIMAL64 DECFLOAT INET XML DECIMAL(5) DECIMAL(5,2) DEC(5,2) NUMERIC(5,2) NUMBER(5,2) DECIMAL(38,38) DECIMAL(0)
    DECIMAL(5,-1) DECIMAL(5,6) VARCHAR(3) CHAR(3) STRING(3) INT(3) BINARY(3) TIMESTAMP(3) ARRAY<INT>
    ARRAY<> ARRAY[INT] LIST<INT> MAP<INT,INT> MAP<INT> STRUCT<a:INT> STRUCT<INT> ARRAY<NUMBER> MAP<TEXT,INT>
    STRUCT<a:INT8> NULLABLE(INT) NULLABLE<INT> ROW<INT> INT<3>
"""
TYPE_PHRASES = [
    "DOUBLE PRECISION",
    "TIMESTAMP WITHOUT TIME ZONE",
    "TIMESTAMP WITH LOCAL TIME ZONE",
    "CHARACTER VARYING(3)",
    "INT UNSIGNED",
    "STRUCT<a INT, b: STRING NOT NULL COMMENT 'b'>",
    "INT NOT NULL",
    "INT NOT NULL NOT NULL",
    "INT NOT NULL COMMENT 'a'",
    r"INT COMMENT r'a\n'",
    "INT COMMENT 'a' COMMENT 'b'",
    "INT DEFAULT 3",
]


def test_type_names_are_those_of_spark(spark):
    """Spark parses a name that we read, and to the same type; all others are refused."""
    for text in [*TYPE_NAMES.split(), *TYPE_PHRASES]:
        try:
            expected = to_arrow(st.StructType.fromDDL(f"c {text}"))
        except (PySparkException, Py4JError, InvalidSchema):  # unknown to Spark; or to us, as VARCHAR
            with pytest.raises(InvalidSchema):
                parse_columns(f"c {text}")
        else:
            assert parse_columns(f"c {text}").equals(expected, check_metadata=True), text
