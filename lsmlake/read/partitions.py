"""Whether all rows of a partition satisfy a predicate, some of them, or none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lsmlake.format.files import Bucket
from lsmlake.kernels.keys import is_text
from lsmlake.predicate import ColumnBounds, Predicate, evaluate, may_match, must_match
from lsmlake.predicate.tree import And, Column, Compare, IsNull, Literal, Not, and_
from lsmlake.read.prune import narrow, sources_of
from lsmlake.schema.partitioning import PartitionColumn
from lsmlake.schema.schema import Schema


def partition_matches(predicate: Predicate, schema: Schema, bucket: Bucket) -> bool | None:
    """Returns whether `predicate` is true of all rows of a partition (True) or of none (False), as far as its values tell; None
    if it may be true of some of them."""
    fields = list(zip(schema.partition_columns_of(bucket.spec), bucket.partition, strict=True))
    exact = {field.column: pa.array([value], field.type) for field, value in fields if field.transform.is_identity}
    if exact and predicate.columns <= exact.keys():
        return bool(np.asarray(evaluate(predicate, pa.table(exact)))[0])
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
    found = partition_matches(and_(*conditions), schema, bucket)
    return None if found and unknown else found


def _came_from(field: PartitionColumn, value: object) -> Predicate:
    """True of the values of the column that a transform, which keeps the order, makes `value` of."""
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
