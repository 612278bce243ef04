"""Preparing and splitting the rows of a write, compared with loops over rows; and the statistics of written files."""

from __future__ import annotations

import datetime as dt
import logging
import math
import re
from decimal import Decimal
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import KEYS, PARTITIONS, ROW_KINDS, UTC, Shape, encoded_rows, new_lake, rank, rows_of, seen, tiny_units

from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_reader import DataReader
from lsmlake.files.data_writer import Origin
from lsmlake.format.data_files import APPEND, Bucket
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.lsm.cover import Cover, Covers
from lsmlake.schema.rowkind import DELETE, INSERT, Source
from lsmlake.schema.schema import ROW_KIND
from lsmlake.write.bucket_writer import split
from lsmlake.write.order import Arrival
from lsmlake.write.prepare import prepare
from lsmlake.write.write import Intake
from lsmlake.write.write_request import WriteRequest

QUICK = examples(60)
HERE = Bucket((), 0)


def rows_from(shape: Shape, codes) -> list[tuple]:
    return [shape.row(key, value, stamp) for stamp, (key, value) in enumerate(codes)]


@QUICK
@given(
    st.sampled_from(list(KEYS)),
    st.sampled_from(list(PARTITIONS)),
    st.sampled_from([1, 2, 5]),
    encoded_rows(),
    st.booleans(),
    st.data(),
)
def test_split_groups_sorts_and_folds(key, partition, buckets, codes, shuffled, data):
    """Each bucket once, ascending by key; the last row of a key stays, in the order of the input or in the one given."""
    shape = Shape.of(key, partition)
    table = shape.create(new_lake(), bucket=buckets)
    rows = rows_from(shape, codes)
    order = data.draw(st.permutations(range(len(rows)))) if shuffled else list(range(len(rows)))
    prepared, kept = prepare(shape.table(rows, table.schema), table.version.schema)
    assert kept is None

    newest: dict[tuple, tuple] = {}
    for _, row in sorted(zip(order, rows, strict=True), key=lambda pair: pair[0]):
        newest[shape.key_of(shape.stored(row))] = shape.stored(row)
    expected: dict[Bucket, list[tuple]] = {}
    for row in newest.values():
        columns = [pa.array([row[shape.names.index(name)]], table.schema.field(name).type) for name in shape.key]
        part = (row[shape.names.index("p")],) if shape.partition else ()
        expected.setdefault(Bucket(part, int(bucket_of(columns, buckets)[0])), []).append(row)
    for found in expected.values():
        found.sort(key=lambda row: tuple(map(rank, row[: len(shape.key)])))

    numbers = bucket_of([prepared[name] for name in table.version.schema.bucket_key], buckets) if shuffled else None
    parts = list(split(prepared, table.version.schema, Covers(buckets), numbers, Arrival(np.array(order)) if shuffled else None))
    assert len({bucket for bucket, _ in parts}) == len(parts)
    assert {bucket: rows_of(part) for bucket, part in parts} == {
        bucket: [tuple(map(seen, row)) for row in found] for bucket, found in expected.items()
    }


@QUICK
@given(encoded_rows(), st.sampled_from([{}, {"ignore_delete": True}, {"ignore_update_before": True}]), st.booleans())
def test_prepare_gives_every_row_its_kind(codes, options, option_names_the_column):
    shape = Shape.of("bigint")
    more = {"rowkind__field": "s"} if option_names_the_column else {}
    table = shape.create(new_lake(), **options, **more)
    rows, kinds = rows_from(shape, codes), [ROW_KINDS[value % 4] for _, value in codes]
    data = shape.table(rows, table.schema)
    if option_names_the_column:
        data = data.set_column(shape.names.index("s"), "s", pa.array(kinds))
        prepared, kept = prepare(data, table.version.schema)
    else:
        prepared, kept = prepare(
            data.append_column("op", pa.array(kinds)), table.version.schema, WriteRequest(row_kind=Source("op"))
        )
    ignored = {"-U", "-D"} if "ignore_delete" in options else {"-U"} if options else set()
    staying = [i for i, kind in enumerate(kinds) if kind not in ignored]
    assert (list(range(len(rows))) if kept is None else kept.tolist()) == staying
    stored = [DELETE if kinds[i] in ("-U", "-D") else INSERT for i in staying]
    assert prepared["stamp"].to_pylist() == staying
    assert (prepared[ROW_KIND].to_pylist() if ROW_KIND in prepared.column_names else [INSERT] * len(staying)) == stored
    assert (prepared["s"].to_pylist() == [kinds[i] for i in staying]) or not option_names_the_column


# --- what a file says of itself ---

COLUMNS: dict[str, list] = {
    "BIGINT": [3, -5, None, 2**63 - 1, -(2**63)],
    "TINYINT": [-128, 127, None],
    "BOOLEAN": [True, False, None],
    "DECIMAL(9,2)": [Decimal("-1.25"), Decimal("0.00"), Decimal("-9999999.99"), None],
    "DECIMAL(18,0)": [Decimal(-(10**17)), Decimal(5)],
    "DECIMAL(38,10)": [Decimal("-9999999999999999999999999999.9999999999"), Decimal("1E-10"), Decimal("-1E-10")],
    "FLOAT": [1.5, -2.25, None, math.inf],
    "DOUBLE": [-0.0, 0.0, 1e-300, -1e300],
    "STRING": ["", "a" * 40, "é" * 9, "\U0010ffff" * 9, "b\0c", None],
    "BINARY": [b"", b"\xff" * 30, b"\0", None],
    "DATE": [dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(1969, 12, 31)],
    "TIMESTAMP": [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), None, dt.datetime(9999, 12, 31, tzinfo=UTC)],
    "TIMESTAMP_NTZ": [dt.datetime(1, 1, 1), dt.datetime(1970, 1, 1)],
}


@st.composite
def values(draw) -> tuple[str, list]:
    ddl = draw(st.sampled_from(list(COLUMNS)))
    drawn = draw(st.lists(st.sampled_from([*COLUMNS[ddl], None]), min_size=1, max_size=25))
    if ddl in ("FLOAT", "DOUBLE") and draw(st.booleans()):
        drawn[draw(st.integers(0, len(drawn) - 1))] = math.nan
    return ddl, drawn


@examples(150)
@given(values(), st.integers(1, 20))
def test_statistics_are_sound_and_tight_where_they_can_be(case, cut):
    ddl, column = case
    table = new_lake().create_table("d.t", f"k BIGINT, v {ddl}", primary_key=["k"], options={"metadata.stats-truncate": cut})
    with tiny_units():
        table.upsert(
            pa.table([pa.array(range(len(column))), pa.array(column, table.schema.field("v").type)], names=["k", "v"]),
            compact=False,
        )
    ((state,),) = [list(table.states().values())]
    (file,) = state.files
    nulls, low, high = file.stats[table.version.schema.field_ids()["v"]]
    present = [value for value in column if value is not None]
    assert nulls == len(column) - len(present)
    if not present or any(isinstance(value, float) and math.isnan(value) for value in present):
        assert (low, high) == (None, None)
        return
    least, most = min(present, key=rank), max(present, key=rank)
    if ddl in ("STRING", "BINARY"):
        encoded = least.encode() if isinstance(least, str) else least
        assert rank(low) <= rank(least)
        assert len(low.encode() if isinstance(low, str) else low) <= cut
        assert len(encoded) > cut or low == least
        assert high is None or rank(high) >= rank(most)
        assert high == most or len(most.encode() if isinstance(most, str) else most) > cut
    else:
        assert (low, high) == (least, most)
    assert file.stats[table.version.schema.field_ids()["k"]] == (0, 0, len(column) - 1)
    assert (file.min_key, file.max_key, file.rows) == ((0,), (len(column) - 1,), len(column))


def test_a_cut_maximum_is_given_up_only_when_no_text_is_above():
    table = new_lake().create_table("d.t", "k BIGINT, v STRING", primary_key=["k"], options={"metadata.stats-truncate": 4})
    for number, text in enumerate(["\U0010ffff" * 2, "a\U0010ffff", "\ud7ff\ud7ff", "abcde"]):
        table.upsert({"k": [number], "v": [text]}, compact=False)
    files = {file.min_key[0]: file for state in table.states().values() for file in state.files}
    bounds = [files[number].stats[2][1:] for number in range(4)]
    assert bounds == [("\U0010ffff", None), ("a", "b"), ("\ud7ff", "\ue000"), ("abcd", "abce")]


# --- runs ---


@QUICK
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.sampled_from(["1 b", "300 b", "1 kb", "1 gb"]))
def test_a_run_is_cut_into_files_however_its_rows_arrive(sizes, target):
    """The files hold the rows in order; all but the last have reached the target, and did so with their last row group."""
    table = new_lake().create_table(
        "d.t", "k BIGINT, v STRING", primary_key=["k"], options={"target-file-size": target, "file.block-size": "1 b"}
    )
    meta, schema = table.meta, table.version.schema
    tables, start = [], 0
    for size in sizes:
        tables.append(
            pa.table(
                {"k": pa.array(range(start, start + size), pa.int64()), "v": [f"value {i}" for i in range(start, start + size)]}
            )
        )
        start += size
    with tiny_units(rows=3):
        files = BucketFiles(meta, schema, HERE).write(tables, Origin(0, APPEND))
    read = []
    for file in files:
        with DataReader(meta.env, meta.paths.data(file), file, schema) as reader:
            found = reader.read(range(reader.groups), ["k"])["k"].to_pylist()
            assert all(count == 3 for count in np.diff(reader.starts)[:-1])
        assert (file.min_key, file.max_key, file.rows) == ((found[0],), (found[-1],), len(found))
        assert file.bytes == meta.env.storage.size(meta.paths.data(file))
        read += found
    assert read == list(range(start))
    limit = schema.parsed_options.files.target_bytes
    assert all(file.bytes >= limit for file in files[:-1])
    for file in files:
        with DataReader(meta.env, meta.paths.data(file), file, schema) as reader:
            last = reader.footer.row_group(reader.groups - 1)
            first_page = min(last.column(i).dictionary_page_offset or last.column(i).data_page_offset for i in range(2))
            assert reader.groups == 1 or first_page < limit


def test_one_large_batch_is_cut_at_the_target_size():
    table = new_lake().create_table(
        "d.t", "k BIGINT, v STRING", primary_key=["k"], options={"target-file-size": "64 kb", "file.block-size": "16 kb"}
    )
    table.upsert(pa.table({"k": range(40_000), "v": [f"{i * 2654435761 % 2**32:x}" for i in range(40_000)]}), compact=False)
    sizes = table.files()["file_size_in_bytes"].to_pylist()
    assert len(sizes) > 2
    assert max(sizes) < 100_000


@pytest.mark.parametrize("key", ["BIGINT", "STRING", "DOUBLE"])
def test_any_parquet_reader_finds_the_users_columns_with_ids_and_no_others(key):
    lake = new_lake()
    table = lake.create_table("d.t", f"k {key}, s STRUCT<a: INT, b: ARRAY<STRING>>, m MAP<STRING, INT>", primary_key=["k"])
    columns = {"s": [{"a": 1, "b": ["x", None]}, None], "m": [[("a", 1)], []]}
    values = [1, 2] if key == "BIGINT" else ["a", "b"] if key == "STRING" else [0.5, 1.5]
    table.upsert(
        pa.table(
            {"k": pa.array(values, table.schema.field("k").type)}
            | {n: pa.array(c, table.schema.field(n).type) for n, c in columns.items()}
        )
    )
    (path,) = table.files()["file_path"].to_pylist()
    with lake.env.storage.read(path) as source:
        found = pq.ParquetFile(source)
        assert found.read().to_pylist() == table.scan().to_arrow().to_pylist()
        assert found.metadata.num_columns == 5
        without = re.findall(r"group field_id=-1 (\w+)|field_id=-1", str(found.schema))
        assert sorted(without) == ["key_value", "list", "schema"], "only what Parquet puts around columns has no id"
        ids = [int(field.metadata[b"PARQUET:field_id"]) for field in found.schema_arrow]
    assert ids == list(table.version.schema.field_ids().values())


def test_decimals_are_integers_as_far_as_they_fit():
    columns = "k DECIMAL(18,3), a DECIMAL(9,2), b DECIMAL(18,0), c DECIMAL(38,10)"
    table = new_lake().create_table("d.t", columns, primary_key=["k"], options={"bucket": 1})
    kinds = table.version.schema.row_columns
    ends = {f.name: [Decimal(f"{sign}{'9' * f.type.precision}E-{f.type.scale}") for sign in "-+"] for f in kinds}
    rows = pa.table({f.name: pa.array([*ends[f.name], Decimal(0)], f.type) for f in kinds}, schema=kinds)
    table.upsert(rows)
    table.upsert(rows.slice(0, 1))  # found again by a key of this kind
    assert sorted(table.scan().to_arrow().to_pylist(), key=repr) == sorted(rows.to_pylist(), key=repr)
    assert table.scan(where=f"b = {ends['b'][1]}").to_arrow()["k"].to_pylist() == [ends["k"][1]]
    assert table.verify() == []
    for path in table.files()["file_path"].to_pylist():
        with table.meta.env.storage.read(path) as source:
            physical = pq.ParquetFile(source).schema
        assert [physical.column(i).physical_type for i in range(4)] == ["INT64", "INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"]


def test_a_write_tells_of_its_buckets_in_the_log(caplog):
    table = new_lake().create_table("d.t", "k BIGINT", primary_key=["k"], options={"num-sorted-run.compaction-trigger": 3})
    table.upsert({"k": [1]})
    caplog.set_level(logging.INFO, "lsmlake")
    for key in range(3):
        table.upsert({"k": [key]}, compact=None if key == 2 else False)
    told = [re.sub(r"in [\d.]+ s", "in T s", one.getMessage()) for one in caplog.records if one.name == "lsmlake.write"]
    assert told == [
        "d.db/t: snapshot 2, 1 rows, 1 buckets, 0 of them compacted in T s, at most 1 runs at level 0",
        "d.db/t: snapshot 3, 1 rows, 1 buckets, 0 of them compacted in T s, at most 2 runs at level 0",
        "d.db/t: snapshot 4, 1 rows, 1 buckets, 1 of them compacted in T s, at most 0 runs at level 0",
    ]


def test_a_spilled_partition_divides_the_buckets_that_it_begins_with():
    """One new partition begins with four buckets, the other with one; the known one keeps its two."""
    table = new_lake().create_table(
        "d.t",
        "p STRING, k BIGINT",
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"write-buffer-size": "64 kb", "bucket.target-size": "32 kb"},
    )
    schema, own = table.version.schema, {(0, ("a",)): Cover(4), (0, ("c",)): Cover(2)}
    seen: dict[str, dict[tuple[int, int], list[int]]] = {}
    with Intake(schema, Covers(1, own), WriteRequest(), known=lambda: {(0, ("c",))}) as intake:
        for start in range(0, 40_000, 5_000):
            keys = pa.array(range(start, start + 5_000))
            for name in "abc":
                intake.add(pa.table({"p": pa.repeat(name, 5_000), "k": keys}), Arrival(np.arange(5_000)))
        for bucket, total, tables, _ in intake.sorted():
            rows = pa.concat_tables(tables)
            assert set(bucket_of([rows["k"]], total).tolist()) == {bucket.number}
            seen.setdefault(bucket.partition[0], {})[bucket.number, total] = rows["k"].to_pylist()
    assert seen.keys() == set("abc")
    for parts in seen.values():
        assert sorted(chain.from_iterable(parts.values())) == list(range(40_000))
    totals = {name: {total for _, total in parts} for name, parts in seen.items()}
    assert totals["c"] == {2} and min(totals["a"]) > 4 and min(totals["b"]) > 1
    assert all(total % 4 == 0 for total in totals["a"])
