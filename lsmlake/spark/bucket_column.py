"""The bucket of a row as an expression of Spark: generated code, without Python workers. It gives each row the bucket that
`lsm.route` gives it.

One cover is one expression: the hash, and where totals differ an array that has the bucket number of each slot. If partitions
have several covers, a broadcast join brings each row the array of its partition.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.lsm.cover import Cover, Covers
from lsmlake.schema.schema import Schema

_SLOTS, _NUMBERS, _PARTITION = "cover_slots", "cover_numbers", "cover_partition"


def with_buckets(rows, schema: Schema, covers: Covers, key: str, partition: Sequence, name: str):
    """The rows with the column `name`, their bucket numbers, as the last one.

    Args:
        rows: a DataFrame.
        covers: of the partitions of the table. An append-only table needs none: its tasks find the buckets themselves.
        key: the bucket key as a list of SQL expressions; empty: there is none.
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
    known = rows.sparkSession.createDataFrame(_table(schema, covers))
    same = [placed[place].eqNullSafe(known[f"known_{place}"]) for place in places]
    joined = placed.join(F.broadcast(known), same, "left")
    slot = f"pmod(hash({key}), {_SLOTS})"
    own = f"if({_NUMBERS} is null, {slot}, element_at({_NUMBERS}, {slot} + 1))"
    default = _number(covers.of(()), key)
    return joined.selectExpr(*columns, f"if({_SLOTS} is null, {default}, {own}) as {name}")


def _number(cover: Cover, key: str) -> str:
    slot = f"pmod(hash({key}), {cover.slots})"
    if cover.numbers is None:
        return f"cast({slot} as int)"
    return f"element_at(array({', '.join(map(str, cover.numbers.tolist()))}), {slot} + 1)"


def _table(schema: Schema, covers: Covers) -> pa.Table:
    """The partitions that have covers of their own, with these."""
    own = {partition: cover for (spec, partition), cover in covers.by_partition.items() if spec == schema.spec_id}
    values = {
        f"known_{_PARTITION}{i}": pa.array([partition[i] for partition in own], field.type)
        for i, field in enumerate(schema.partition_columns)
    }
    numbers = [None if cover.numbers is None else cover.numbers.tolist() for cover in own.values()]
    slots = pa.array([cover.slots for cover in own.values()], pa.int32())
    return pa.table(values | {_SLOTS: slots, _NUMBERS: pa.array(numbers, pa.list_(pa.int32()))})
