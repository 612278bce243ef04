"""`spark_hash` against Spark: the same Parquet file, hashed by both."""

from decimal import Context

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lsmlake.kernels.bucket_hash import bucket_of, spark_hash

pytestmark = pytest.mark.spark

ROWS = 1000
DAYS = [0, -1, 20_000, -719_162, 2_932_896]  # from the first day of year 1 to the last of 9999
MICROSECONDS = [0, -1, 1_767_225_600_000_000, -62_135_596_800_000_000, 253_402_300_799_999_999]
LONGS = [0, 1, -1, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)]
TINY32, TINY64, NAN, INF = 1e-45, 5e-324, float("nan"), float("inf")
BYTES = [b"", b"\0", b"\xff", b"abc\x80", b"abcd\xff\xfe\x80", b"\0\0\0\0\0", bytes(range(256))]


def around_bytes(limit):
    """Where the two's complement of a number needs one byte more: the length of a wide decimal's bytes turns on these."""
    edges = {sign * (1 << 8 * n - 1) + step for n in range(1, 17) for sign in (1, -1) for step in (-1, 0, 1)}
    return [0, limit, -limit, *sorted(edge for edge in edges if abs(edge) <= limit)]


def decimals(precision, scale, random):
    limit = 10**precision - 1
    digits = [int("".join(map(str, random.integers(0, 10, random.integers(1, precision + 1))))) for _ in range(ROWS)]
    unscaled = around_bytes(limit) + [
        value * sign for value, sign in zip(digits, random.choice([-1, 1], ROWS).tolist(), strict=True)
    ]
    exact = Context(prec=60)
    return pa.array(
        [exact.create_decimal(int(value)).scaleb(-scale, exact) for value in unscaled], pa.decimal128(precision, scale)
    )


def of_ints(edges, type, random, low, high):
    integers = pa.int64() if type.bit_width == 64 else pa.int32()
    values = [*edges, *random.integers(low, high, ROWS, endpoint=True).tolist()]
    return pa.array(values, integers).cast(type)


def texts(random):
    letters = np.array(list("abcxyz019-_ \0éß漢字😀"))
    return [
        "",
        "a",
        "ab",
        "abc",
        "abcd",
        "é",
        "漢字",
        "😀",
        "a\0",
        *("".join(random.choice(letters, n % 23)) for n in range(ROWS)),
    ]


def key_columns():
    """A column of each type a key can have: edges, random values, nulls to fill up."""
    random = np.random.default_rng(7)
    doubles = [0.0, -0.0, 1.5, -1.5, NAN, -NAN, INF, -INF, TINY64, -TINY64, *random.normal(scale=1e9, size=ROWS)]
    floats = [0.0, -0.0, 1.5, -1.5, NAN, -NAN, INF, -INF, TINY32, -TINY32, *random.normal(scale=1e9, size=ROWS)]
    odd_nan = np.array([0xFFF8_0000_0000_0001], np.uint64).view(np.float64)
    columns = {
        "boolean": pa.array([True, False]),
        "byte": of_ints([], pa.int8(), random, -(2**7), 2**7 - 1),
        "short": of_ints([-(2**15), 2**15 - 1], pa.int16(), random, -(2**15), 2**15 - 1),
        "int": of_ints([0, -1, -(2**31), 2**31 - 1], pa.int32(), random, -(2**31), 2**31 - 1),
        "long": of_ints(LONGS, pa.int64(), random, -(2**63), 2**63 - 1),
        "float": pa.array(np.array(floats, np.float32)),
        "double": pa.array(np.concatenate([odd_nan, doubles])),
        "date": of_ints(DAYS, pa.date32(), random, min(DAYS), max(DAYS)),
        "timestamp": of_ints(MICROSECONDS, pa.timestamp("us", "UTC"), random, min(MICROSECONDS), max(MICROSECONDS)),
        "timestamp_ntz": of_ints(MICROSECONDS, pa.timestamp("us"), random, min(MICROSECONDS), max(MICROSECONDS)),
        "decimal_5_2": decimals(5, 2, random),
        "decimal_18_0": decimals(18, 0, random),
        "decimal_19_4": decimals(19, 4, random),
        "decimal_38_18": decimals(38, 18, random),
        "string": pa.array(texts(random)),
        "binary": pa.array([*BYTES, *(random.bytes(n % 23) for n in range(ROWS))]),
    }
    rows = max(map(len, columns.values())) + 1
    filled = {name: pa.concat_arrays([column, pa.nulls(rows - len(column), column.type)]) for name, column in columns.items()}
    return pa.table({"row": np.arange(rows), **filled})


@pytest.fixture(scope="module")
def keys():
    return key_columns()


@pytest.fixture(scope="module")
def frame(spark, keys, tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys.parquet"
    pq.write_table(keys, path, store_schema=False)
    return spark.read.parquet(str(path)).orderBy("row")


def test_every_key_type_hashes_as_in_spark(frame, keys):
    names = keys.column_names[1:]
    theirs = frame.selectExpr(*(f"hash(`{name}`) AS `{name}`" for name in names)).toArrow()
    for name in names:
        ours = spark_hash([keys[name]])
        wrong = np.flatnonzero(ours != theirs[name].to_numpy())
        assert not len(wrong), (name, keys[name].take(wrong[:5]).to_pylist())


@pytest.mark.parametrize("names", [["string", "int"], ["date", "decimal_38_18", "binary"], ["long", "long"], []], ids=str)
def test_composite_keys_go_to_the_bucket_spark_chooses(frame, keys, names):
    names = names or keys.column_names[1:]
    chained = ", ".join(f"`{name}`" for name in names)
    for buckets in (1, 4, 1000):
        theirs = frame.selectExpr(f"pmod(hash({chained}), {buckets}) AS bucket").toArrow()["bucket"].to_pylist()
        assert bucket_of([keys[name] for name in names], buckets).tolist() == theirs


def test_time_of_day_hashes_as_in_spark(spark):
    values = of_ints([0, 1, 86_399_999_999], pa.time64("us"), np.random.default_rng(7), 0, 86_399_999_999)
    frame = spark.createDataFrame(pa.table({"row": np.arange(len(values)), "time": values}))
    assert frame.orderBy("row").selectExpr("hash(time) AS h").toArrow()["h"].to_pylist() == spark_hash([values]).tolist()
