"""Looking keys up in sorted files, against a linear search."""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import KEYS, Shape, new_lake, rank

from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_writer import Origin
from lsmlake.format.data_files import APPEND, Bucket, DataFile
from lsmlake.lsm import lookup
from lsmlake.storage.env import Limits
from lsmlake.tables.metadata import Metadata

QUICK = examples(60)
CODES = st.binary(max_size=40)
HERE = Bucket((), 0)


def file(low: tuple, high: tuple, name: str = "f") -> DataFile:
    return DataFile(name, "bucket-0", 1, 1, 0, low, high, 1, 0, APPEND, 0)


def sorted_keys(shape: Shape, codes: bytes) -> list[tuple]:
    """The distinct keys of these codes, ascending."""
    keys = {shape.key_of(shape.stored(shape.row(code, 0, 0))) for code in codes}
    return sorted(keys, key=lambda key: tuple(map(rank, key)))


def arrow(shape: Shape, keys: list[tuple], schema: pa.Schema) -> pa.Table:
    return shape.table(keys, schema, shape.key).cast(pa.schema([schema.field(name).with_nullable(True) for name in shape.key]))


@st.composite
def keyed(draw):
    shape = Shape.of(draw(st.sampled_from(list(KEYS))))
    return shape, shape.create(new_lake())


@QUICK
@given(keyed(), CODES, CODES)
def test_find_gives_the_rows_of_equal_keys(table, wanted, there):
    shape, made = table
    keys, stored = sorted_keys(shape, wanted), sorted_keys(shape, there)
    of_keys, of_stored = lookup.find(arrow(shape, keys, made.schema), arrow(shape, stored, made.schema))
    expected = [(i, stored.index(key)) for i, key in enumerate(keys) if key in stored]
    assert list(zip(of_keys.tolist(), of_stored.tolist(), strict=True)) == expected


@QUICK
@given(keyed(), CODES, st.lists(st.binary(min_size=1, max_size=3), max_size=4))
def test_slices_are_the_keys_in_the_range_of_each_file(table, wanted, ranges):
    shape, made = table
    keys = sorted_keys(shape, wanted)
    files = [file(*(sorted_keys(shape, codes)[i] for i in (0, -1))) for codes in ranges]
    slices = lookup.slices(arrow(shape, keys, made.schema), files)
    assert len(slices) == len(files)
    for (start, stop), one in zip(slices, files, strict=True):
        low, high = tuple(map(rank, one.min_key)), tuple(map(rank, one.max_key))
        assert keys[start:stop] == [key for key in keys if low <= tuple(map(rank, key)) <= high]


@QUICK
@given(keyed(), CODES, st.lists(st.tuples(st.binary(min_size=1, max_size=3), st.booleans()), max_size=5))
def test_groups_leave_out_only_what_cannot_hold_a_key(table, wanted, bounds):
    shape, made = table
    keys = sorted_keys(shape, wanted)
    kind = made.schema.field(shape.key[0]).type
    ranges = [sorted_keys(shape, codes) for codes, _ in bounds]
    low = pa.array([found[0][0] if known else None for found, (_, known) in zip(ranges, bounds, strict=True)], kind)
    high = pa.array([found[-1][0] if known else None for found, (_, known) in zip(ranges, bounds, strict=True)], kind)
    expected = [
        number
        for number, (found, (_, known)) in enumerate(zip(ranges, bounds, strict=True))
        if not known or any(rank(found[0][0]) <= rank(key[0]) <= rank(found[-1][0]) for key in keys)
    ]
    assert lookup.groups(arrow(shape, keys, made.schema), low, high).tolist() == expected


TINY = Limits(row_group_rows=5, small_file_rows=5, chunk_rows=14, stream_buffer_bytes=0)


@examples(80)
@given(keyed(), st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=3), CODES)
def test_find_finds_every_key_in_every_file(table, runs, wanted):
    shape, made = table
    schema, files, rows_of_file = made.version.schema, [], {}
    bucket = BucketFiles(Metadata.of(replace(made.meta.env, limits=TINY), made.meta.paths), schema, HERE)
    for codes in runs:
        keys = sorted_keys(shape, codes)
        rows = {shape.key_of(shape.stored(shape.row(code, code, 0))): shape.stored(shape.row(code, code, 0)) for code in codes}
        table = shape.table([rows[key] for key in keys], made.schema).cast(schema.row_columns)
        written = bucket.write([table], Origin(1, APPEND), ["d"])
        assert sum(one.rows for one in written) == len(keys)
        for one in written:
            rows_of_file[one.name], keys = keys[: one.rows], keys[one.rows :]
        files += written
    keys = sorted_keys(shape, wanted)
    wanted_keys = arrow(shape, keys, made.schema)
    found = bucket.find(wanted_keys, files)
    for one in files:
        hits = found.get(one.name)
        if hits is not None:
            fetched = pa.concat_tables(bucket.fetch(one, hits.positions, schema.key))
            assert fetched.equals(wanted_keys.take(pa.array(hits.keys)).cast(fetched.schema))
    expected = {name: [position for position, key in enumerate(stored) if key in keys] for name, stored in rows_of_file.items()}
    assert {name: hits.positions.tolist() for name, hits in found.items()} == {n: p for n, p in expected.items() if p}


def test_find_reads_no_file_whose_key_range_holds_no_key():
    lake = new_lake()
    table = lake.create_table("d.t", "k BIGINT, v STRING", primary_key=["k"])
    gone = [file((0,), (10,), "gone-1"), file((20,), (30,), "gone-2")]
    assert BucketFiles.of(table.version, HERE).find(pa.table({"k": [-1, 11, 19, 31]}), gone) == {}


@pytest.mark.parametrize(
    ("keys", "stored"), [([], [1.0]), ([1.0], []), ([0.0], [0.0]), ([-math.inf, math.inf], [-math.inf, 0.0, math.inf])]
)
def test_find_at_the_borders(keys, stored):
    left, right = (pa.table({"k": pa.array(side, pa.float64())}) for side in (keys, stored))
    of_keys, of_stored = lookup.find(left, right)
    assert [keys[i] for i in of_keys] == [stored[i] for i in of_stored] == [key for key in keys if key in stored]
