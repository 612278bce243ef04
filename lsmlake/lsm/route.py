"""Gives the rows of a table to its buckets: by partition, then by the cover of the partition (`lsm.cover`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.format.data_files import Bucket
from lsmlake.kernels.bucket_hash import spark_hash
from lsmlake.kernels.keys import joined
from lsmlake.lsm.cover import Covers
from lsmlake.schema.schema import Schema


class Route(NamedTuple):
    """`codes`: a number for each row, equal for rows of one bucket. Code c is bucket c % `width` of partition c // `width`."""

    codes: np.ndarray
    partitions: Sequence[tuple]
    width: int
    spec: int

    def bucket(self, code: int) -> Bucket:
        place, number = divmod(int(code), self.width)
        return Bucket(self.partitions[place], number, self.spec)


def route(rows: pa.Table, schema: Schema, covers: Covers, numbers: np.ndarray | None = None) -> Route:
    """Returns the bucket of each row. Args:
    rows: with the columns of the bucket key and those of the partitions.
    covers: the covers of the partitions of the table.
    numbers: the bucket number of each row, if known.
    """
    places, partitions = partition_codes(rows, schema)
    if numbers is None:
        keys = [(schema.spec_id, partition) for partition in partitions]
        numbers = bucket_numbers(rows, schema, covers, places, keys)
    width = covers.most
    codes = numbers.astype(np.int64)
    return Route(codes if places is None else places * width + codes, partitions, width, schema.spec_id)


def bucket_numbers(
    rows: pa.Table, schema: Schema, covers: Covers, codes: np.ndarray | None, partitions: Sequence[tuple]
) -> np.ndarray:
    """The bucket number of each row; see `Covers.number_of`."""
    if not schema.bucket_key:
        return np.zeros(rows.num_rows, np.int32)
    return covers.number_of(spark_hash([rows[name] for name in schema.bucket_key]), codes, partitions)


def partition_codes(rows: pa.Table, schema: Schema) -> tuple[np.ndarray | None, list[tuple]]:
    """Returns the number of the partition of each row (None if the table has no partitions), and the values of each partition."""
    if not schema.partition_columns:
        return None, [()]
    columns = [field.values(rows) for field in schema.partition_columns]
    code = np.zeros(rows.num_rows, np.int64)
    for column in columns:
        encoded = (joined(column) if isinstance(column, pa.ChunkedArray) else column).dictionary_encode(null_encoding="encode")
        _, code = np.unique(code * len(encoded.dictionary) + encoded.indices.to_numpy(), return_inverse=True)
    _, first = np.unique(code, return_index=True)
    return code, list(zip(*(column.take(pa.array(first)).to_pylist() for column in columns), strict=True))
