"""Decides whether all rows of a partition satisfy a predicate, only some rows, or none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lsmlake.format.data_files import Bucket
from lsmlake.kernels.keys import is_text
from lsmlake.predicate import ColumnBounds, Predicate, evaluate, may_match, must_match
from lsmlake.predicate.tree import And, Column, Compare, IsNull, Literal, Not, and_
from lsmlake.read.prune import narrow, sources_of
from lsmlake.schema.partitioning import PartitionColumn
from lsmlake.schema.schema import Schema


def partition_matches(predicate: Predicate, schema: Schema, bucket: Bucket) -> bool | None:
    """Returns whether `predicate` is true of all rows of a partition (True) or of none (False), as far as its values tell; None
    if it may be true of some of them."""
    return partitions_match(predicate, schema, [bucket])[0]


def partitions_match(predicate: Predicate, schema: Schema, buckets: Sequence[Bucket]) -> list[bool | None]:
    """As `partition_matches`, for many partitions: a predicate on columns that are partition fields is evaluated once."""
    matches: dict[int, bool | None] = {}
    for spec in {bucket.spec for bucket in buckets}:
        places = [place for place, bucket in enumerate(buckets) if bucket.spec == spec]
        fields = list(enumerate(schema.partition_columns_of(spec)))
        exact = {
            field.column: pa.array([buckets[place].partition[number] for place in places], field.type)
            for number, field in fields
            if field.transform.is_identity
        }
        if exact and predicate.columns <= exact.keys():
            matches |= zip(places, evaluate(predicate, pa.table(exact)).tolist(), strict=True)
        else:
            matches |= {place: _matches(predicate, schema, buckets[place]) for place in places}
    return [matches[place] for place in range(len(buckets))]


def _matches(predicate: Predicate, schema: Schema, bucket: Bucket) -> bool | None:
    """As `partition_matches`, decided by the bounds that the values of a partition give."""
    fields = zip(schema.partition_columns_of(bucket.spec), bucket.partition, strict=True)
    bounds: dict[str, ColumnBounds] = {}
    one = np.ones(1, np.int64)
    for field, value in fields:
        narrow(bounds, field, sources_of(pa.array([value], field.type), one, field))
    if not may_match(predicate, bounds, one)[0]:
        return False
    return True if must_match(predicate, bounds, one)[0] else None


def lies_in(bucket: Bucket, other: Bucket, schema: Schema) -> bool | None:
    """Returns whether all rows of a partition belong to a partition of another spec (True) or none (False), as far as their
    values tell; None if some may."""
    known = dict(zip(schema.partition_columns_of(bucket.spec), bucket.partition, strict=True))
    conditions, unknown = [], False
    for field, value in zip(schema.partition_columns_of(other.spec), other.partition, strict=True):
        if field in known:
            if known[field] != value:
                return False
        elif value is None or field.transform.keeps_order:
            conditions.append(_came_from(field, value))
        else:
            conditions.append(Not(IsNull(_column(field))))
            unknown = True
    matches = partition_matches(and_(*conditions), schema, bucket)
    return None if matches and unknown else matches


def _came_from(field: PartitionColumn, value: object) -> Predicate:
    """A predicate that is true of the column values that the transform of the field maps to `value`. The transform keeps the
    order."""
    if value is None:
        return IsNull(_column(field))
    low, high = (side[0].as_py() for side in field.transform.sources(pa.array([value], field.type), field.source_type))
    above, exclusive = Compare(">=", _column(field), Literal(low)), is_text(field.type) and high != low
    return above if high is None else And((above, Compare("<" if exclusive else "<=", _column(field), Literal(high))))


def _column(field: PartitionColumn) -> Column:
    return Column((field.column,), field.source_type)


def is_of_partitions(predicate: Predicate, schema: Schema) -> bool:
    """Whether all columns of a predicate are columns of partition fields, of any spec."""
    return predicate.columns <= {field.column for field in schema.all_partition_columns}
