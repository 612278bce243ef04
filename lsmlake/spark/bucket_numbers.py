"""The bucket of a row as a Spark expression: generated code, without Python workers. The result is the bucket that `lsm.cover`
computes.

A cover is one expression: the hash and, if the totals of its buckets differ, an array with the bucket number of each slot. If
partitions have different covers, a broadcast join adds the array of its partition to each row.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.lsm.cover import Cover, Covers
from lsmlake.schema.schema import Schema

_SLOTS, _NUMBERS, _PARTITION = "cover_slots", "cover_numbers", "cover_partition"


def with_buckets(rows, schema: Schema, covers: Covers, key: str, partition: Sequence, name: str):
    """Appends the column `name` with the bucket number of each row.

    Args:
        rows: a DataFrame.
        covers: the covers of the partitions. Unused in an append-only table, whose tasks find the buckets themselves.
        key: the bucket key as a list of SQL expressions; empty: the table has no bucket key.
        partition: the values of the partition fields as columns.
    """
    if not key:
        return rows.selectExpr("*", f"0 as {name}")
    if not covers.by_partition or schema.append_only or not partition:
        cover = covers.of((schema.spec_id, ())) if not schema.partition_columns else covers.of(())
        return rows.selectExpr("*", f"{_number(cover, key)} as {name}")
    columns = rows.columns
    places = [f"{_PARTITION}{i}" for i in range(len(partition))]
    placed = rows.select("*", *(value.alias(place) for value, place in zip(partition, places, strict=True)))
    table = _table(schema, covers)
    known, same = rows.sparkSession.createDataFrame(table), []
    for place in places:
        given, own = placed[place], known[f"known_{place}"]
        has_null = table[f"known_{place}"].null_count  # a test of equality of nulls takes a slower join
        same.append(given.eqNullSafe(own) if has_null else given == own)
    joined = placed.join(F.broadcast(known), same, "left")
    slot = f"pmod(hash({key}), coalesce({_SLOTS}, {covers.first}))"
    return joined.selectExpr(*columns, f"cast(coalesce(element_at({_NUMBERS}, {slot} + 1), {slot}) as int) as {name}")


def _number(cover: Cover, key: str) -> str:
    slot = f"pmod(hash({key}), {cover.slots})"
    if cover.numbers is None:
        return f"cast({slot} as int)"
    return f"element_at(array({', '.join(map(str, cover.numbers.tolist()))}), {slot} + 1)"


def _table(schema: Schema, covers: Covers) -> pa.Table:
    """The partitions that have their own covers, and these covers."""
    own = {partition: cover for (spec, partition), cover in covers.by_partition.items() if spec == schema.spec_id}
    values = {
        f"known_{_PARTITION}{i}": pa.array([partition[i] for partition in own], field.type)
        for i, field in enumerate(schema.partition_columns)
    }
    numbers = [None if cover.numbers is None else cover.numbers.tolist() for cover in own.values()]
    slots = pa.array([cover.slots for cover in own.values()], pa.int32())
    return pa.table(values | {_SLOTS: slots, _NUMBERS: pa.array(numbers, pa.list_(pa.int32()))})
