"""Which statements run in the driver, as they do without Spark: those whose files are small, and those that read no rows."""

from __future__ import annotations

from lsmlake.read.partitions import is_of_partitions, partition_matches
from lsmlake.read.plan import Plan


def is_small(planned: Plan) -> bool:
    """Whether the driver may read the files of a statement itself."""
    files = (file for split in planned.splits for file in (*split.files, *split.level0, *split.merged))
    return sum(file.bytes for file in files) <= planned.version.meta.env.limits.driver_statement_bytes


def decided_by_partitions(planned: Plan) -> bool:
    """Whether a DELETE of the rows of a plan reads no rows."""
    predicate = planned.predicate
    by_position = planned.schema.append_only and planned.version.options.layout.deletion_vectors
    if not by_position or predicate is None:
        return by_position
    buckets = {split.bucket for split in planned.splits}
    return is_of_partitions(predicate, planned.schema) and all(
        partition_matches(predicate, planned.schema, bucket) is not None for bucket in buckets
    )
