"""A task whose input exceeds its memory limit writes the same rows as with enough memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from effort import examples
from history import ROW_BYTES, Player, World, rows
from hypothesis import given
from hypothesis import strategies as st
from merge_setups import SETUPS
from spark_support import same
from strategies import Shape, encoded_rows, new_lake, seen

from lsmlake.format.data_files import Bucket
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.schema.rowkind import Source
from lsmlake.write.order import Arrival
from lsmlake.write.write import Intake
from lsmlake.write.write_request import WriteRequest

TINY = {"write-buffer-size": "100 kb"}


# --- in one process ---


@pytest.mark.parametrize("name", SETUPS)
@examples(15)
@given(codes=st.lists(rows(8), min_size=1, max_size=5), seed=st.integers(0, 9), emitted=st.booleans())
def test_every_engine_folds_spilled_rows_as_those_kept_in_memory(name, codes, seed, emitted):
    producer = "input" if emitted and name != "first-row" else "none"
    order = np.random.default_rng(seed).permutation(sum(len(rows) // ROW_BYTES for rows in codes))
    found = []
    for spilled in (False, True):
        player = Player(World(name, producer=producer, sizes={"write-buffer-size": "1"} if spilled else {}))
        table, batches = player.table, [player.batch(player.decoded(rows)) for rows in codes]
        found.append(without_inserts(taken_in(table, batches, order, "op", spilled)))
    assert found[0] == found[1]
    emitted = sum(len(rows) for key, rows in found[0].items() if key[1] == "given")
    assert bool(emitted) <= (producer == "input")
    if name == "deduplicate" and producer == "input":
        assert emitted == len(order), "the changelog has every row"


def taken_in(table, batches: list[pa.Table], order: np.ndarray, row_kind: str | None, spilled: bool) -> dict[Bucket, list]:
    """What an intake makes of the batches, and whether it used the disk."""
    schema, start, result = table.version.schema, 0, {}
    with Intake(schema, table.version.covers(), WriteRequest(row_kind=Source.of(row_kind))) as intake:
        for batch in batches:
            numbers = bucket_of([batch[name] for name in schema.bucket_key], schema.parsed_options.layout.first_buckets)
            place = order[start : (start := start + batch.num_rows)]
            intake.add(batch, Arrival(np.asarray(place)), pa.chunked_array([pa.array(numbers)]))
        for bucket, _, tables, given_tables in intake.sorted():
            result[bucket] = [row for part in list(tables) for row in part.to_pylist()]
            result[bucket, "given"] = [row for part in list(given_tables) for row in part.to_pylist()]
        assert intake.in_memory is not (spilled and len(batches) > 1), "a single batch is in memory already"
    return result


def without_inserts(found: dict[Bucket, list]) -> dict:
    """Spilled rows always say their kind; an insert means the same as none."""
    return {b: [{k: seen(v) for k, v in row.items() if (k, v) != ("_row_kind", 0)} for row in rows] for b, rows in found.items()}


@examples(60)
@given(
    batches=st.lists(encoded_rows(), min_size=1, max_size=5),
    seed=st.integers(0, 9),
    key=st.sampled_from(["int and string", "decimal(38,10)"]),
)
def test_spilled_rows_are_those_kept_in_memory(batches, seed, key):
    shape = Shape.of(key, "string")
    kinds = ("+I", "-U", "+U", "-D")
    rows = [[(*shape.row(k, v, 100 * i + j), kinds[v % 4]) for j, (k, v) in enumerate(batch)] for i, batch in enumerate(batches)]
    order = np.random.default_rng(seed).permutation(sum(map(len, rows)))
    found = []
    for spilled in (False, True):
        table = shape.create(new_lake(), bucket=2, **({"write_buffer_size": "1"} if spilled else {}))
        schema = table.schema.append(pa.field("op", pa.string()))
        parts = [shape.table(part, schema, schema.names) for part in rows if part]
        found.append(without_inserts(taken_in(table, parts, order, "op", spilled)))
    assert repr(sorted(found[0].items(), key=repr)) == repr(sorted(found[1].items(), key=repr))


# --- in Spark tasks ---


@pytest.mark.spark
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_spilled_upsert_is_the_upsert(spark, spark_lake, lake, partitioned):
    """30,000 rows over 6,000 keys in the order of their places; every seventh a delete, sometimes not the last of its key."""
    frame = spark.range(0, 30_000, 1, 5).selectExpr(
        "IF(id % 2 = 0, 'even', NULL) AS p", "(id * 7919) % 6000 AS id", "id AS place", "repeat('x', 20) AS pad",
        "IF(id % 7 = 0, '-D', '+U') AS op",
    )  # fmt: skip
    place = np.arange(30_000)
    newest = dict(zip((place * 7919 % 6000).tolist(), place.tolist(), strict=True))
    expected = sorted(((key, at) for key, at in newest.items() if at % 7), key=repr)
    key = ["p", "id"] if partitioned else ["id"]
    for options in ({}, TINY):
        table = spark_lake.create_table(
            f"d.t{len(options)}",
            "p STRING, id BIGINT NOT NULL, place BIGINT, pad STRING",
            primary_key=key,
            partition_by=key[:-1],
            options={"bucket": 2, **options},
        )
        for compact in (None, False):
            table.upsert(frame, row_kind="op", compact=compact, order_by="place")
            same(table.scan(columns=["id", "place"]).to_arrow(), expected)
            same(table.df(columns=["id", "place"]), expected)
        table.compact(full=True)
        same(table.df(columns=["id", "place"]), expected)
        assert table.verify() == []


@pytest.mark.spark
@pytest.mark.connect
def test_spilled_keys_are_deleted(spark, spark_lake):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, v STRING", primary_key=["id"], options={"bucket": 2, **TINY})
    table.upsert(spark.range(30_000).selectExpr("id", "repeat('y', 20) AS v"))
    table.delete_keys(spark.range(0, 60_000, 2).selectExpr("id"))
    same(table.df(columns=["id"]), sorted(((i,) for i in range(1, 30_000, 2)), key=repr))
    assert table.verify() == []
