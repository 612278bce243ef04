"""The arrays that mask dead rows, evaluated as Spark's expressions do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from spark_support import same

from lsmlake.api.lake import Lake
from lsmlake.files import data_writer
from lsmlake.format.data_files import DataFile
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.schema.schema import ROW_ADDRESS
from lsmlake.spark import mask, read, settings
from lsmlake.storage.env import Limits

pytestmark = pytest.mark.spark


def data_file(name: str, rows: int, size: int) -> DataFile:
    return DataFile(name, "bucket-0", size, rows, 0, (), (), 1, 0, "APPEND", 0)


@st.composite
def masked_files(draw) -> tuple[list[DataFile], dict[str, set[int]]]:
    rows = draw(st.lists(st.integers(1, 5_000), min_size=1, max_size=5))
    sizes = draw(st.lists(st.integers(1, 1 << 40) | st.just(4_096), min_size=len(rows), max_size=len(rows)))
    files = [data_file(f"f{i}", count, size) for i, (count, size) in enumerate(zip(rows, sizes, strict=True))]
    return files, {f.name: draw(st.sets(st.integers(0, f.rows - 1), max_size=50)) for f in files if draw(st.booleans())}


@examples(50)
@given(masked_files())
def test_words_tell_each_dead_row(found):
    files, dead = found
    numbers = mask.addresses(files).numbers
    words = mask._words(mask.Masked(files, vectors_of(dead), numbers))
    assume(words is not None)  # no hash is free of collisions; then there are chunks
    for file, number in zip(files, numbers.tolist(), strict=True):
        slot = (number * words.factor >> mask._HASH_SHIFT) & (words.slots - 1)
        index = [int(words.values[slot]) + ((number << 32) + row >> 6) for row in range(file.rows)]
        masked = [row for row in range(file.rows) if is_set(words.values[index[row]], row)]
        assert set(masked) == dead.get(file.name, set())


def is_set(word: int, row: int) -> bool:
    """Whether the bit of a row is set: that of row 0 is the highest."""
    return bool(int(word) >> (63 - (row & 63)) & 1)


@examples(50)
@given(masked_files(), st.sampled_from(Limits().mask_chunk_bits))
def test_bitmaps_tell_each_dead_row_and_every_chunk(found, bits):
    files, dead = found
    numbers = mask.addresses(files).numbers
    table = mask._bitmaps(mask.Masked(files, vectors_of(dead), numbers), bits)
    bitmaps = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
    for file, number in zip(files, numbers.tolist(), strict=True):
        masked = set()
        for row in range(file.rows):
            words = bitmaps[(number << 32) + row >> bits]
            if words is not None and is_set(words[(row & (1 << bits) - 1) >> 6], row):
                masked.add(row)
        assert masked == dead.get(file.name, set())


def test_an_unlisted_file_with_the_hash_slot_of_a_listed_one_is_unknown(spark):
    words = mask._words(mask.Masked([data_file("f", 3, 4_096)], vectors_of({"f": {1}}), np.array([4_096])))
    slots = mask._slots(np.arange(1 << 20), words.factor, words.slots.bit_length() - 1)
    others = [4_097 + int(np.argmax(slots[4_097:] == slots[4_096])), int(np.argmax(slots == slots[4_096]))]
    sent, failure = mask._sent(spark, words), "boolean(raise_error('unknown'))"
    rows = spark.createDataFrame([((4_096 << 32) + row,) for row in range(3)], "address BIGINT")
    assert [row.address & 0xFF for row in mask._by_words(rows, sent, "address", failure).collect()] == [0, 2]
    unused = int(np.setdiff1d(np.arange(words.slots), slots[4_096])[0])
    empty = int(np.argmax(slots == unused))
    for number in (*others, empty, (1 << 31) - 1):
        with pytest.raises(PySparkException, match="unknown"):
            mask._by_words(spark.createDataFrame([(number << 32,)], rows.schema), sent, "address", failure).collect()
    with pytest.raises(PySparkException, match="unknown"):
        mask._by_words(spark.createDataFrame([(None,)], rows.schema), sent, "address", failure).collect()


def vectors_of(dead: dict[str, set[int]]) -> dict[str, DeletionVector]:
    return {name: DeletionVector.of(np.array(sorted(rows), np.int64)) for name, rows in dead.items()}


def test_one_dead_row_in_each_of_many_chunks_fits_a_broadcast():
    bits, sizes = mask.chunk_bytes([8_193 << 16], [8_193], Limits())
    assert bits < 16
    assert sizes.sum() < 16 << 20
    dense, sizes = mask.chunk_bytes([8_193 << 16], [400_000_000], Limits())
    assert (dense, sizes.sum() > 64 << 20) == (16, True)


@pytest.mark.connect(short="classic")
def test_only_the_files_with_large_bitmaps_go_to_tasks(lake, spark_lake):
    options = {"bucket": 4, "compaction.tier-runs": 50, "compaction.reclaim-dead-percent": 100}
    table = lake.create_table("d.t", "id BIGINT NOT NULL, v BIGINT", primary_key=["id"], options=options)
    table.upsert({"id": range(4_000), "v": range(4_000)})
    table.upsert({"id": range(0, 4_000, 5), "v": [-1] * 800})
    plan = spark_lake.table("d.t").scan().plan()
    masked = [split for split in plan.splits if split.vectors]
    assert len(masked) == 4

    def with_limit(limit):
        options = {**table.version.schema.options, "read.vector-broadcast-limit": limit}
        plan = spark_lake.table("d.t").scan().plan()
        return replace(plan, schema=replace(plan.schema, options=options))

    for limit, native in (("64 mb", (4,)), ("600 b", (1, 2, 3)), ("1 b", (0,))):
        few = with_limit(limit)
        for_catalyst, for_tasks = read.shared(few, few.splits)
        names = {file.name for split in for_tasks for file in split.files}
        assert all(split.vectors.keys() & names for split in for_tasks)
        left = [file.name for split in for_catalyst for file in split.files if file.name in split.vectors]
        assert len(left) in native
        same(read.frame(spark_lake.runtime.spark, few, None, "auto"), table.scan().to_arrow())
    table.upsert({"id": range(8), "v": [-2] * 8}, compact=False)  # these rows are read once, with all files of their buckets
    same(read.frame(spark_lake.runtime.spark, with_limit("1 b"), None, "auto"), table.scan().to_arrow())


@pytest.fixture(params=["no addresses", "addresses", "one number for all files", "addresses in large files"])
def masked(request, lake, monkeypatch):
    """A table with three dead rows in its first file. Spark cannot use the addresses in files that have the same number. Files
    with and without addresses are scanned apart."""
    if request.param == "one number for all files":
        monkeypatch.setattr(data_writer, "number_of", lambda name: 7)
    monkeypatch.setattr(read, "_ADDRESSED_ROWS", 1)
    options = {
        "compaction.tier-runs": 50,
        "compaction.reclaim-dead-percent": 100,
        "file.row-addresses": {"no addresses": "false", "addresses in large files": "auto"}.get(request.param, "true"),
    }
    table = lake.create_table("d.t", "id BIGINT NOT NULL, v BIGINT", primary_key=["id"], options=options)
    table.upsert({"id": range(20_000), "v": range(20_000)})
    table.upsert({"id": [0, 1_024, 9_999], "v": [-1] * 3})
    return table


FORMS = {
    "words": Limits(),
    "small chunks": Limits(mask_bytes=0, mask_chunk_bits=(10,)),
    "large chunks": Limits(mask_bytes=0, mask_chunk_bits=(16,)),
}


@pytest.mark.connect
def test_each_form_of_a_mask_keeps_the_same_rows(masked, spark_lake):
    for limits in FORMS.values():
        table = Lake(replace(spark_lake.env, limits=limits), spark_lake.runtime).table("d.t")
        same(table.df(), masked.scan().to_arrow())


@pytest.mark.connect(short="classic")
def test_a_dead_row_fails_no_condition(masked, spark_lake):
    expected = masked.scan(where="v <> 0 AND v <> 1").to_arrow()  # only a dead row has v = 0
    for limits in FORMS.values():
        table = Lake(replace(spark_lake.env, limits=limits), spark_lake.runtime).table("d.t")
        same(table.df(where="1 / v < 1"), expected)


@pytest.mark.connect(short="classic")
def test_a_mask_is_sent_once_for_a_version(masked, spark_lake, monkeypatch):
    sent, words = [], mask._words
    monkeypatch.setattr(mask, "_words", lambda *found: sent.append(found) or words(*found))
    table = spark_lake.table("d.t")
    first, second = table.df(), table.df(where="id >= 0", columns=["v"])
    same(first, masked.scan().to_arrow())
    same(second, masked.scan(columns=["v"]).to_arrow())
    assert len(sent) == 1
    masked.upsert({"id": [1, 2], "v": [-2] * 2})
    same(table.df(), masked.scan().to_arrow())
    assert len(sent) == 2
    both = first.alias("a").join(table.df().alias("b"), "id").selectExpr("a.v as old", "b.v as new").where("old <> new")
    assert sorted(tuple(row) for row in both.collect()) == [(1, -2), (2, -2)]


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_is_not_the_one_of_the_snapshot_fails_the_query(masked, spark_lake, lake, form):
    table = Lake(replace(spark_lake.env, limits=FORMS[form]), spark_lake.runtime).table("d.t")
    other = lake.create_table("d.other", masked.schema, primary_key=["id"], options={"file.row-addresses": True})
    other.upsert({"id": range(20_000), "v": range(20_000)})
    given = pq.read_table(Path(lake.env.storage.place(other.files()["file_path"][0].as_py())))
    for rows in (given, given.drop_columns([ROW_ADDRESS])):
        for path in masked.files()["file_path"].to_pylist():
            pq.write_table(rows, Path(lake.env.storage.place(path)), compression="NONE")
        with pytest.raises(PySparkException, match="a data file differs from its manifest entry"):
            table.df().collect()


def test_a_column_with_the_name_of_the_positions_is_read_by_tasks(lake, spark_lake):
    names = f"id BIGINT NOT NULL, {settings.POSITION.upper()} BIGINT"
    table = lake.create_table("d.t", names, primary_key=["id"])
    table.upsert({"id": [1, 2], settings.POSITION.upper(): [10, 20]})
    rows = spark_lake.table("d.t").scan()
    same(rows.to_spark(), table.scan().to_arrow())
    assert "row positions" in rows.explain()


def test_a_file_with_more_positions_than_addresses_have_is_read_by_tasks(lake, spark_lake):
    lake.create_table("d.t", "id BIGINT NOT NULL", primary_key=["id"]).upsert({"id": [1, 2]})
    plan = spark_lake.table("d.t").scan().plan()
    (split,) = plan.splits
    for rows, reason in ((1 << 32, None), ((1 << 32) + 1, "a data file has more than 2^32 rows")):
        files = tuple(file._replace(rows=rows) for file in split.files)
        level0 = tuple(file._replace(rows=rows) for file in split.level0)
        wanted = replace(plan, splits=(replace(split, files=files, level0=level0),))
        assert read.refuses_native(spark_lake.runtime.spark, wanted) == reason
