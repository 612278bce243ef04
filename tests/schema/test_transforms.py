"""Partition transforms against Iceberg's specification, and pruning by them against the rows of a table.

`naive_hash` is Murmur3 written from its definition; the numbers of `HASHES` are those of Appendix B of the specification.
"""

from __future__ import annotations

import datetime as dt
import random
import struct
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from effort import scaled
from strategies import KINDS, both, comparison, either, is_null, membership, negated, new_lake, prefixed, rows_of

import lsmlake
from lsmlake.errors import InvalidSchema
from lsmlake.kernels.transforms import bucket_numbers, iceberg_hash, unit_text
from lsmlake.predicate.tree import ordered
from lsmlake.schema.partitioning import Term, split_terms
from lsmlake.schema.transform import Transform
from lsmlake.types.ddl import parse_columns

UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1)
MOMENT = dt.datetime(2017, 11, 16, 22, 31, 8)
HASHES = [
    (pa.array([34], pa.int32()), 2017239379),
    (pa.array([34], pa.int64()), 2017239379),
    (pa.array([1], pa.int8()), 1392991556),
    (pa.array([Decimal("14.20")], pa.decimal128(9, 2)), -500754589),
    (pa.array([Decimal("14.20")], pa.decimal128(38, 2)), -500754589),
    (pa.array([dt.date(2017, 11, 16)]), -653330422),
    (pa.array([MOMENT], pa.timestamp("us")), -2047944441),
    (pa.array([MOMENT.replace(microsecond=1)], pa.timestamp("us")), -1207196810),
    (pa.array([MOMENT.replace(tzinfo=UTC)], pa.timestamp("us", "UTC")), -2047944441),
    (pa.array(["iceberg"]), 1210000089),
    (pa.array([uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes]), 1488055340),
    (pa.array([b"\0\1\2\3"]), -188683207),
]


@pytest.mark.parametrize(("values", "expected"), HASHES, ids=lambda value: str(getattr(value, "type", value)))
def test_the_hashes_of_the_specification(values, expected):
    assert iceberg_hash(values).tolist() == [expected]
    assert bucket_numbers(values, 16).to_pylist() == [(expected & 0x7FFFFFFF) % 16]


def unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    return int("".join(map(str, digits))) * (-1 if sign else 1)


def naive_hash(value: object) -> int:
    if isinstance(value, Decimal):
        whole = unscaled(value)
        value = whole.to_bytes(((whole if whole >= 0 else ~whole).bit_length() + 8) // 8, "big", signed=True)
    data = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else struct.pack("<q", number(value))
    h, size = 0, len(data)
    mask = 0xFFFFFFFF

    def rotated(word: int, bits: int) -> int:
        return (word << bits | word >> (32 - bits)) & mask

    for start in range(0, size, 4):
        part = data[start : start + 4]
        k = rotated(int.from_bytes(part, "little") * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
        h ^= k
        if len(part) == 4:
            h = (rotated(h, 13) * 5 + 0xE6546B64) & mask
    h ^= size
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    return h ^ h >> 16


def number(value: object) -> int:
    """What is stored for a value: days of a date, microseconds of a timestamp."""
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
    return (value - EPOCH.date()).days if isinstance(value, dt.date) else value


def naive(transform: Transform, value: object, ddl: str) -> object:
    """The definition of the specification, for one value. A number is at least the least one of its type."""
    name, width = transform.name, transform.width
    if value is None or name == "identity":
        return value
    if name == "bucket":
        return (naive_hash(value) & 0x7FFFFFFF) % width
    if name == "truncate":
        if isinstance(value, (str, bytes)):
            return value[:width]
        if isinstance(value, Decimal):
            digits = int(ddl.removeprefix("DECIMAL(").split(",")[0])
            whole = max(unscaled(value) - unscaled(value) % width, 1 - 10**digits)
            return Decimal((whole < 0, tuple(map(int, str(abs(whole)))), value.as_tuple().exponent))
        return max(value - value % width, -(2**63) if ddl == "BIGINT" else -(2**31))
    moment = value.replace(tzinfo=None) if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    passed = moment - EPOCH
    months = 12 * (moment.year - 1970) + moment.month - 1
    by_unit = {"year": moment.year - 1970, "month": months, "day": passed.days, "hour": passed // dt.timedelta(hours=1)}
    return by_unit[name]


TIMES = ("years", "months", "days")
TERMS = {
    **dict.fromkeys(("BIGINT", "INT", "SMALLINT", "TINYINT"), ("truncate(7, c)", "truncate(1, c)", "bucket(5, c)")),
    **dict.fromkeys(("DECIMAL(9,2)", "DECIMAL(38,10)"), ("truncate(7, c)", "truncate(2147483647, c)", "bucket(5, c)")),
    **dict.fromkeys(("STRING", "LONG STRING", "BINARY"), ("truncate(2, c)", "truncate(100, c)", "bucket(5, c)")),
    "DATE": (*(f"{unit}(c)" for unit in TIMES), "bucket(5, c)"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ"), (*(f"{unit}(c)" for unit in (*TIMES, "hours")), "bucket(5, c)")),
}
CASES = [(kind, term) for kind, terms in TERMS.items() for term in (*terms, "c")]


def column(kind: str) -> pa.Array:
    type_ = parse_columns(f"c {KINDS[kind].ddl}").field(0).type
    return pa.array([*KINDS[kind].values, None], type_)


@pytest.mark.parametrize(("kind", "term"), CASES)
def test_results_and_their_source_values(kind, term):
    transform, values = Term.parse(term, ["c"], "t").transform, column(kind)
    found = transform.apply(pa.chunked_array([values.slice(0, 3), values.slice(3)]))
    found = found if isinstance(found, pa.Array) else found.combine_chunks()
    assert found.type == transform.result(values.type)
    assert found.to_pylist() == [naive(transform, value, KINDS[kind].ddl) for value in values.to_pylist()]
    assert Transform.parse(str(transform)) == transform
    low, high = transform.sources(found, values.type)
    assert low.type == high.type == values.type
    if transform.keeps_order:  # each value is in the range of its result, and no range overlaps another
        number = ordered(values, values.type)
        good = pa.compute.and_(
            pa.compute.less_equal(low, number), pa.compute.or_(pa.compute.greater_equal(high, number), high.is_null())
        )
        assert pa.compute.all(good).as_py()
        keyed = [value for value in zip(low.to_pylist(), found.to_pylist(), strict=True) if None not in value]
        ranks = sorted(keyed, key=lambda pair: pair[0].encode("utf-8", "surrogatepass") if isinstance(pair[0], str) else pair[0])
        assert [result for _, result in ranks] == [result for _, result in sorted(ranks, key=lambda pair: rank(pair[1]))]
    else:
        assert low.null_count == high.null_count == len(values)


def rank(value: object) -> object:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def test_times_as_text():
    assert [unit_text(-1, unit) for unit in ("year", "month", "day", "hour")] == [
        "1969",
        "1969-12",
        "1969-12-31",
        "1969-12-31-23",
    ]
    assert unit_text(20455, "day") == "2026-01-02"


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "days(ts)": ("day", "ts"),
        "DAY( ts )": ("day", "ts"),
        "date_hour(ts)": ("hour", "ts"),
        "bucket(16, id)": ("bucket[16]", "id"),
        "bucket(id, 16)": ("bucket[16]", "id"),
        "truncate(4,`a, b``)`)": ("truncate[4]", "a, b`)"),
        "identity(id)": ("identity", "id"),
        "`id`": ("identity", "id"),
        "f(x)": ("identity", "f(x)"),  # the name of a column
    }.items(),
)
def test_terms(text, expected):
    term = Term.parse(text, ["id", "f(x)"], "t")
    assert (str(term.transform), term.column) == expected


def test_a_list_of_terms():
    assert split_terms("dt, truncate(4, code),bucket(16, id)") == ["dt", "truncate(4, code)", "bucket(16, id)"]


BAD = ["foo(a)", "bucket(a)", "bucket(0, a)", "bucket(-1, a)", "truncate(1, 2)", "days(a, b)", "days()", "hours(d)", "days(a)",
       "b", "truncate(2, d)", "bucket(2, f)", "months(s)", "truncate(3, f)"]  # fmt: skip


@pytest.mark.parametrize("term", BAD)
def test_no_transforms(term):
    with pytest.raises(InvalidSchema):
        new_lake().create_table("d.t", "a INT, d DATE, f DOUBLE, s STRING", partition_by=[term])


@pytest.mark.parametrize("kind", TERMS)
def test_pruning_never_loses_a_row(kind):
    """A table of three partition specs, each transform in some of them, against conditions of its column."""
    terms, ddl = TERMS[kind], KINDS[kind].ddl
    table = new_lake().create_table("d.t", f"c {ddl}, i INT", partition_by=[terms[0]])
    values = random.Random(7).sample(KINDS[kind].values, min(20, len(KINDS[kind].values)))
    extremes = [value for value in KINDS[kind].values[-4:] if value not in values]
    values = [*values, *extremes, None]
    rows = pa.table({"c": pa.array(values, table.schema.field("c").type), "i": pa.array(range(len(values)), pa.int32())})
    table.append(rows)
    for old, new in zip(terms, (*terms[1:], "c"), strict=True):
        table.alter(lsmlake.replace_partition_field(old, new))
        table.append(rows)
    assert table.verify() == []
    everything = [row for row in rows.to_pylist() for _ in range(1 + len(terms))]
    draw, pruned = random.Random(kind), 0
    for _ in range(scaled(12)):
        condition = made(draw, ddl, KINDS[kind].values, 2)
        scan = table.scan(where=condition.sql)
        expected = sorted(row["i"] for row in everything if condition.holds(row))
        assert sorted(scan.to_arrow()["i"].to_pylist()) == expected, condition.sql
        assert scan.count() == len(expected)
        steps = dict(scan.plan().pruned)
        pruned += next(value for name, value in steps.items() if "keys" in name) < steps["snapshot"]
    assert pruned


def made(draw: random.Random, ddl: str, values: tuple, depth: int):
    if depth and draw.random() < 0.5:
        combine = draw.choice([both, either, negated])
        return combine(*(made(draw, ddl, values, depth - 1) for _ in range(1 if combine is negated else 2)))
    if draw.random() < 0.1:
        return is_null("c")
    if ddl == "STRING" and draw.random() < 0.3:
        return prefixed("c", draw.choice(values)[: draw.randrange(4)])
    if draw.random() < 0.3:
        return membership("c", draw.sample(values, draw.randrange(1, 4)), ddl)
    return comparison("c", draw.choice(["=", "<>", "<", "<=", ">", ">="]), draw.choice(values), ddl)


@pytest.mark.parametrize(
    ("terms", "where", "most"),
    [
        (["days(ts)"], "ts >= '2026-01-02' AND ts < '2026-01-03'", 1),
        (["months(ts)"], "ts BETWEEN '2026-01-05' AND '2026-01-06'", 1),
        (["years(ts)"], "ts = '1969-12-31 23:59:59'", 1),
        (["hours(ts)"], "ts < '1970-01-01'", 5),
        (["bucket(16, id)"], "id IN (3, 4)", 2),
        (["bucket(16, id)"], "(id = 3 AND ts IS NOT NULL) OR id = 4", 2),
        (["truncate(2, code)"], "code LIKE 'ab%'", 1),
        (["truncate(2, code)"], "code = 'abc'", 1),
        (["truncate(10, id)"], "id < 10", 1),
        (["days(ts)"], "ts IS NULL", 1),
        (["days(ts)"], "NOT (ts >= '1971-01-01' OR ts IS NULL)", 5),
    ],
)
def test_partitions_that_are_read(terms, where, most):
    """By partitions alone: one file each, so statistics are not looked at."""
    table = new_lake().create_table("d.t", "id BIGINT, ts TIMESTAMP, code STRING", partition_by=terms)
    moments = [dt.datetime(2026, 1, 1, tzinfo=UTC) + dt.timedelta(days=i) for i in range(40)]
    moments += [dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC) - dt.timedelta(hours=i) for i in range(5)]
    table.append([{"id": i, "ts": moments[i % 45], "code": f"{'abcdefgh'[i % 7]}{'bcd'[i % 3]}c"} for i in range(120)])
    table.append([{"id": None, "ts": None, "code": None}])
    steps = table.scan(where=where).plan().pruned
    assert steps[1][0] == "keys"
    assert 1 <= steps[1][1] <= most < steps[0][1]


def test_files_of_rows_and_manifests_have_the_values_of_icebergs_specification():
    """Field ids, spec ids, names and directories, and the values in manifests."""
    table = new_lake().create_table("d.t", "id BIGINT, ts TIMESTAMP", partition_by=["days(ts)", "bucket(16, id)"])
    table.append([{"id": 34, "ts": dt.datetime(2026, 1, 2, 3, tzinfo=UTC)}])
    table.alter(lsmlake.replace_partition_field("ts_day", "hours(ts)"))
    table.append([{"id": 34, "ts": dt.datetime(1969, 12, 31, 23, tzinfo=UTC)}])
    bucket = (2017239379 & 0x7FFFFFFF) % 16
    assert [(f.id, f.source, f.name, str(f.transform)) for f in table.version.schema.partitioning.fields] == [
        (1000, 2, "ts_day", "day"), (1001, 1, "id_bucket", "bucket[16]"), (1002, 2, "ts_hour", "hour"),
    ]  # fmt: skip
    entries = table.version.live()
    assert [entries[name].to_pylist() for name in ("spec", "p:0", "p:1", "p:2")] == [
        [0, 1],
        [20455, None],
        [bucket] * 2,
        [None, -1],
    ]
    assert entries["directory"].to_pylist() == [
        f"ts_day=2026-01-02/id_bucket={bucket}/bucket-0", f"ts_hour=1969-12-31-23/id_bucket={bucket}/bucket-0",
    ]  # fmt: skip
    assert table.partition_by == ("hours(ts)", "bucket(16, id)")
    table.alter(lsmlake.replace_partition_field("hours(ts)", "days(ts)"))
    assert (table.version.schema.spec_id, table.version.schema.partitioning.highest_spec) == (
        0,
        1,
    )  # the fields of before have their spec
    assert rows_of(table.scan().to_arrow())


def test_the_arrays_of_a_slice_are_its_own():
    values = pa.array(["a", "bcd", None, "iceberg"]).slice(1)
    assert bucket_numbers(values, 1 << 30).to_pylist()[-1] == 1210000089 % (1 << 30)
    assert np.array_equal(iceberg_hash(pa.array([], pa.string())), [])
