"""The same predicate text selects the same rows here and in Spark, for values where the two could differ."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from lsmlake.predicate import evaluate
from lsmlake.predicate.where import predicate_of
from lsmlake.types.type_text import format_columns

pytestmark = pytest.mark.spark

UTC = dt.timezone.utc
NAN, INF = math.nan, math.inf
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("y", pa.int8()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("c", pa.decimal128(10, 2)),
        ("e", pa.decimal128(38, 10)),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("dt", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("n", pa.timestamp("us")),
        ("x", pa.binary()),
        ("st", pa.struct([("a", pa.int32()), ("Inner", pa.struct([("t", pa.string())]))])),
        ("tags", pa.list_(pa.string())),
    ]
)
DAY, TIME = dt.date(2026, 1, 1), dt.datetime(2026, 1, 1)
STRUCTS = [{"a": a, "Inner": {"t": t}} for a, t in ((1, "x"), (2, None), (None, "y"), (1, ""), (2, "z"), (None, None))]
COLUMNS = {
    "y": [-128, -1, 0, 1, 127, None, 10, 11],
    "i": [-(2**31), -1, 0, 1, 2**31 - 1, None, 10, 11],
    "l": [-(2**63), 2**53, 2**53 + 1, 10**18, 2**63 - 1, None, 10**18 + 64, 10**18 + 65],
    "c": [Decimal(text) for text in ("-99999999.99", "0.00", "0.10", "1.00", "99999999.99", "-0.10", "10.00", "11.00")],
    "e": [None, *(Decimal(text) for text in ("0.1", "9007199254740993", "0.3", "1e18", "-0.1", "1.0000000001", "0"))],
    "f": [0.0, -0.0, NAN, INF, 0.1, None, 1.5, 16777216.0],
    "d": [-0.0, 0.0, NAN, -INF, 0.1, None, 0.30000000000000004, 1e18],
    "s": ["", "a", "a%b", "a_b", "a\\b", None, "é😀", "A\n2026-01-01"],
    "b": [True, False, None, True, False, None, True, False],
    "dt": [DAY, dt.date(1969, 12, 31), dt.date(2026, 1, 2), dt.date(9999, 12, 31), dt.date(1900, 1, 1), None, DAY, DAY],
    "n": [TIME, TIME.replace(microsecond=1), dt.datetime(2026, 1, 2), dt.datetime(1969, 12, 31, 23), TIME, None, TIME, TIME],
    "x": [b"", b"a", b"\x00", b"\xff", b"a\x80", None, b"ab", b"A"],
    "st": [None, {"a": None, "Inner": None}, *STRUCTS],
    "tags": [None, [], ["a"], None, [None], ["a", "b"], [], None],
}
TEXTS = r"""
i = 10.5 | i > 10.5 | i <= 10.5 | i != 10.5 | NOT i > 10.5 | i = '10' | i = 1e1 | i = 2147483648 | i != 99999999999999999999
y = 300 | y < 300 | y >= -128.0 | y = '127' | y IN (10, 300, NULL) | y NOT IN (10, 300) | y NOT IN (10, NULL)
i <=> NULL | i <=> 10 | l = 1e18 | l > 1e18 | l <= 9007199254740992D | l = 9007199254740993 | l BETWEEN 10 AND 1e18
l IN (1000000000000000000, 1e18) | l > 9223372036854775807 | l <= 9223372036854775807
l = CAST('1000000000000000064' AS BIGINT) | l < DOUBLE('Infinity') | l > DOUBLE('NaN')
c = 0.1 | c = 0.1D | c > 0.099 | c IN (1, 0.1, 10.005) | c = '0.1' | c < 1e10 | c = -0.1BD | c BETWEEN -1 AND 1.5 | c = 1.5F
e = 0.1D | e = 9007199254740992D | e = 0.3 | e > 1e17 | e = 1.0000000001 | e <= c | e < i | e = d
c = i | c < d | f = 0.1 | f = 0.1F | f = CAST('NaN' AS FLOAT) | f > 1 | f >= 'Infinity' | f = 0 | f = 16777217
f IN (0.1F, 'NaN', 1.5) | f < d | d = 0 | d = 'NaN' | d > 1e300 | d < 'NaN' | d != 'NaN' | d IN ('NaN', 0)
d NOT IN ('NaN', 0) | d <=> DOUBLE('NaN') | d = 0.3 | d <= -0.0 | s = '' | s > 'a' | s < 'é' | s LIKE 'a%' | s LIKE 'a_b'
s LIKE 'a\%b' | s LIKE 'a\_b' | s LIKE 'a\\\\b' | s LIKE '%' | s LIKE '_😀' | s LIKE 'a!%b' ESCAPE '!' | s NOT LIKE 'a%'
s LIKE '%2026%' | s LIKE 'A_2026%' | s LIKE NULL | s IN ('a', 'a\\b', NULL) | s = "a%b"
b | NOT b | !b = true | b IS NOT TRUE | b IS FALSE | b = 'yes' | b < true | b IN (true, NULL) | b AND NULL | b OR NULL
(b AND NULL) IS NULL | dt = '2026-01-01' | dt >= '2026' | dt < DATE '1970-01-01' | dt = TIMESTAMP '2026-01-01 00:00:00'
dt < TIMESTAMP '2026-01-01 00:00:01' | dt > TIMESTAMP '2026-01-01 00:00:01' | dt BETWEEN '2026-01-01' AND '2026-01-02 23:00'
dt IN ('2026-01-01 10:00', DATE '1900-01-01') | dt IN (TIMESTAMP '2026-01-02 00:00:00', '2026-01-01 10:00') | dt = n | dt < ts
ts = n | n > DATE '2026-01-01' | ts = '2026-01-01' | ts > '2026-01-01T01:00:00+01:00'
ts <= TIMESTAMP '2026-01-01 00:00:00.000001' | ts = DATE '2026-01-01'
ts IN ('2026-01-01', TIMESTAMP_NTZ '2026-01-02 00:00:00') | ts < '2026-07-01 02:00:00 Europe/Berlin'
n = '2026-01-01 0:0' | n < TIMESTAMP_NTZ '2026-01-01 00:00:00' | n = TIMESTAMP '2026-01-01 00:00:00'
x = X'61' | x > 'a' | x < X'FF' | x = X'' | x IN ('a', X'FF') | st.a = 1 | ST.INNER.T = 'x' | st.inner IS NULL
st IS NOT NULL | st.inner.t <=> NULL | st.a IN (1, 2) AND st.inner.t LIKE '%'
tags IS NULL | i = y | i <=> y | i < l | y != i | i IS DISTINCT FROM y | (i = y) IS NULL | i = 10 OR y = 1 AND NOT b
NOT (i = 10 OR b) | 1 = 1 | 1 > 1.5 | s = 'a' OR s = 'it''s' OR s = 'é' '😀'
NOT (i > 1 AND (d > 0 OR b)) | 1 IN (1, NULL) | i BETWEEN NULL AND 3 | NOT (i BETWEEN 20 AND NULL)
"""


def rows() -> pa.Table:
    count = len(COLUMNS["y"])
    content = {**COLUMNS, "id": list(range(count)), "ts": [None if t is None else t.replace(tzinfo=UTC) for t in COLUMNS["n"]]}
    return pa.table({field.name: pa.array(content[field.name], field.type) for field in SCHEMA}, SCHEMA)


@pytest.fixture(scope="module")
def frame(spark):
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark.createDataFrame(rows(), format_columns(SCHEMA)).coalesce(1)
    spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.parametrize("line", TEXTS.strip().splitlines())
def test_the_same_rows_as_spark(frame, line):
    for text in (part.strip() for part in line.split(" | ")):
        expected = sorted(row.id for row in frame.filter(text).select("id").collect())
        mask = evaluate(predicate_of(text, SCHEMA, "UTC", None), rows())
        assert rows().filter(pa.array(mask)).column("id").to_pylist() == expected, text


def test_times_without_zone_are_read_in_the_session_time_zone(spark, frame):
    texts = ["ts = '2026-01-01 01:00'", "ts < DATE '2026-01-02'", "dt = TIMESTAMP '2025-12-31 23:00:00Z'", "n = '2026-01-01'"]
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        for text in texts:
            expected = sorted(row.id for row in frame.filter(text).select("id").collect())
            mask = evaluate(predicate_of(text, SCHEMA, "Europe/Berlin", None), rows())
            assert rows().filter(pa.array(mask)).column("id").to_pylist() == expected, text
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
