"""The buckets of a partition, as a cover of its keys: each key is in exactly one bucket; and the bucket of each row.

Bucket `n` of `total` buckets holds the keys with `pmod(hash, total) = n`. The totals of a cover may differ: bucket (n, T) splits
into (n, 2T) and (n + T, 2T), or further, and all totals divide the greatest one, which is the number of *slots*. A key has the
slot `pmod(hash, slots)`, and each slot lies in one bucket. No two buckets of a cover have the same number.

A bucket without files is not stored anywhere. So a slot outside of all stored buckets is a bucket of its own: (slot, slots).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.errors import Corrupt
from lsmlake.format.data_files import Bucket
from lsmlake.kernels.bucket_hash import spark_hash
from lsmlake.kernels.keys import joined
from lsmlake.schema.schema import Schema


class Share(NamedTuple):
    """One bucket of a cover: the keys with `pmod(hash, total) = number`."""

    number: int
    total: int

    def meets(self, other: Share) -> bool:
        """Whether a key can be in both buckets."""
        return (self.number - other.number) % math.gcd(self.total, other.total) == 0

    def parts(self, count: int) -> tuple[Share, ...]:
        """The `count` buckets that this bucket splits into."""
        return tuple(Share(self.number + i * self.total, self.total * count) for i in range(count))


@dataclass(frozen=True, eq=False)
class Cover:
    """`numbers`: the bucket number of each slot; None: each slot is a bucket."""

    slots: int
    numbers: np.ndarray | None = None

    @staticmethod
    def of(shares: Iterable[Share], where: str) -> Cover:
        """The cover with these buckets; each slot outside them is a bucket of its own. Raises Corrupt if a key is in two
        buckets."""
        distinct = set(shares)
        slots = max(share.total for share in distinct)
        if all(share.total == slots for share in distinct):
            return Cover(slots)
        numbers, taken = np.arange(slots, dtype=np.int32), np.zeros(slots, np.int32)
        for number, total in distinct:
            if slots % total == 0:
                numbers[number::total] = number
                taken[number::total] += 1
        if any(slots % share.total for share in distinct) or taken.max() > 1:
            raise Corrupt(
                "buckets of a partition overlap",
                where=where,
                expected="each key in one bucket",
                found=", ".join(f"{number} of {total}" for number, total in sorted(distinct)[:8]),
                cure="run `lsmlake verify`, and report this",
            )
        return Cover(slots, numbers)

    def number_of(self, hashes: np.ndarray) -> np.ndarray:
        """The bucket number of each row, given the hashes of the bucket key (`kernels.bucket_hash`)."""
        slots = np.mod(hashes, np.int32(self.slots))  # the sign of the divisor, as pmod
        return slots if self.numbers is None else self.numbers[slots]

    def number_of_one(self, hash_: int) -> int:
        """The bucket number of a row, given the hash of its bucket key as an unsigned number."""
        slot = (hash_ - (hash_ >> 31 << 32)) % self.slots
        return slot if self.numbers is None else int(self.numbers[slot])

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """All buckets, ascending."""
        if self.numbers is None:
            return tuple(Share(number, self.slots) for number in range(self.slots))
        numbers, counts = np.unique(self.numbers, return_counts=True)
        return tuple(map(Share, numbers.tolist(), (self.slots // counts).tolist()))

    @cached_property
    def _totals(self) -> Mapping[int, int]:
        return dict(self.shares)

    def total(self, number: int) -> int | None:
        """The total of the bucket with this number; None if there is no such bucket."""
        if self.numbers is None:
            return self.slots if number < self.slots else None
        return self._totals.get(number)

    def has(self, share: Share) -> bool:
        return self.total(share.number) == share.total

    def meeting(self, share: Share) -> tuple[Share, ...]:
        """The buckets that hold keys of `share`, a bucket that may belong to another cover."""
        step = math.gcd(share.total, self.slots)
        slots = np.arange(share.number % step, self.slots, step)
        numbers = slots if self.numbers is None else np.unique(self.numbers[slots])
        return tuple(Share(number, self.total(number)) for number in numbers.tolist())


@dataclass(frozen=True)
class Covers:
    """The covers of the partitions of a table. `first`: the number of buckets of a partition without files. `by_partition`: the
    covers of the partitions with another number of buckets, by `Bucket.partition_key`.

    `finer`: in partitions that are not `known`, a large write divides the rows of each bucket into this many parts. They form the
    buckets at the end.
    """

    first: int
    by_partition: Mapping[tuple, Cover] = field(default_factory=dict)
    finer: int = 1
    known: Collection[tuple] = ()

    @cached_property
    def _default(self) -> Cover:
        return Cover(self.first)

    def of(self, partition: tuple) -> Cover:
        """The cover of a partition, by its `Bucket.partition_key`."""
        if self.finer > 1 and self.is_new(partition):
            own = self.by_partition.get(partition)
            return self._fine if own is None else Cover(own.slots * self.finer)
        return self.by_partition.get(partition, self._default)

    @cached_property
    def _fine(self) -> Cover:
        return Cover(self.first * self.finer)

    def first_of(self, partition: tuple) -> int:
        """The number of buckets, not divided, of a partition that is not `known`."""
        own = self.by_partition.get(partition)
        return self.first if own is None else own.slots

    def is_new(self, partition: tuple) -> bool:
        """Whether a partition is not among the `known` ones."""
        return partition not in self.known

    def total(self, bucket: Bucket) -> int:
        """The total of a bucket of these covers."""
        total = self.of(bucket.partition_key).total(bucket.number)
        assert total is not None, bucket
        return total

    def has(self, bucket: Bucket, total: int) -> bool:
        """Whether a bucket of this total belongs to the cover of its partition."""
        return self.of(bucket.partition_key).total(bucket.number) == total

    @property
    def most(self) -> int:
        """The greatest number of slots of a partition."""
        return self.finer * max([self.first, *(cover.slots for cover in self.by_partition.values())])

    def number_of(self, hashes: np.ndarray, codes: np.ndarray | None, partitions: Sequence[tuple]) -> np.ndarray:
        """The bucket number of each row, given the hashes of the bucket key.

        Args:
            codes: for each row, the index of its partition in `partitions`; None: all rows are in the first partition.
            partitions: `Bucket.partition_key` of each partition.
        """
        if not self.by_partition and self.finer == 1:
            return self._default.number_of(hashes)
        if codes is None:
            return self.of(partitions[0]).number_of(hashes)
        places: dict[int, int] = {}
        covers: list[Cover] = []
        chosen = np.empty(len(partitions), np.int64)  # the place of the cover of each partition
        for place, partition in enumerate(partitions):
            cover = self.of(partition)
            if id(cover) not in places:
                places[id(cover)] = len(covers)
                covers.append(cover)
            chosen[place] = places[id(cover)]
        if len(covers) == 1:
            return covers[0].number_of(hashes)
        of_row, numbers = chosen[codes], np.empty(len(hashes), np.int32)
        for place, cover in enumerate(covers):
            rows = np.flatnonzero(of_row == place)
            numbers[rows] = cover.number_of(hashes[rows])
        return numbers


Placed = tuple[Bucket, int]
"""A bucket and its total."""


def common_buckets(buckets: Iterable[Placed]) -> dict[Placed, Placed]:
    """Maps the buckets of several snapshots to common buckets, so that all buckets that hold a key map to the same common bucket.
    In a partition whose cover does not change, each bucket is its own common bucket."""
    by_partition: dict[tuple, set[Share]] = {}
    for bucket, total in buckets:
        by_partition.setdefault(bucket.partition_key, set()).add(Share(bucket.number, total))
    common_by_bucket: dict[Placed, Placed] = {}
    for (spec, partition), shares in by_partition.items():
        common = math.gcd(*(share.total for share in shares)) if _overlap(shares) else None
        for number, total in shares:
            common_total = common or total
            common_bucket = Bucket(partition, number % common_total, spec)
            common_by_bucket[Bucket(partition, number, spec), total] = common_bucket, common_total
    return common_by_bucket


def of_keys(schema: Schema, bucket: Bucket) -> Bucket:
    """The bucket without the partition values that a key can leave (`Schema.of_keys`): equal for all buckets that a key can
    lie in, if they have one number. The bucket itself, unless keys can move between partitions."""
    return bucket._replace(partition=schema.home(bucket.spec, bucket.partition)) if schema.moves_keys else bucket


def _overlap(shares: Iterable[Share]) -> bool:
    """Whether a key can be in two of the buckets. False only for buckets of one cover."""
    distinct = set(shares)
    totals = {share.total for share in distinct}
    slots = max(totals)
    if totals == {slots}:
        return False
    if any(slots % total for total in totals):
        return True
    taken = np.zeros(slots, np.int32)
    for number, total in distinct:
        taken[number::total] += 1
    return bool(taken.max() > 1)


# -- the bucket of each row -------------------------------------------------------------------------------------------


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
        hashes = spark_hash([rows[name] for name in schema.bucket_key]) if schema.bucket_key else None
        numbers = np.zeros(rows.num_rows, np.int32) if hashes is None else covers.number_of(hashes, places, keys)
    width = covers.most
    codes = numbers.astype(np.int64)
    return Route(codes if places is None else places * width + codes, partitions, width, schema.spec_id)


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
