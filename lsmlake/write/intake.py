"""Collects the rows of a large write: in memory up to `write-buffer-size`, then in sorted spill files.

Rows carry their `Arrival`, which gives the order of the rows of a key after any shuffle. A spill
keeps all rows of a key if they are needed for the changelog, or if the rule cannot combine rows while others, which arrived
between them, may be in another spill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.files.spill import Spill
from lsmlake.format.files import Bucket
from lsmlake.kernels.groups import Groups
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.cover import Covers
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.merge.runs import grouped
from lsmlake.lsm.merge.windows import RunReader, merge_windows, whole_keys
from lsmlake.lsm.pick.reshape import parts_of
from lsmlake.options.changelog import INPUT
from lsmlake.schema.rowkind import INSERT, with_kind, with_kinds
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.write.arrival import Arrival, Ordered
from lsmlake.write.bucket import fold, in_replay_order, split, split_input, split_unfolded
from lsmlake.write.prepare import prepare, with_input_kinds, without_input_kinds
from lsmlake.write.request import WriteRequest

_FINER, _FINER_PARTITIONS = 64, 8
"""Parts that the rows of a new partition are spilled in; of a table with partitions fewer, as there may be many partitions."""
_EXPANSION = 4  # of a Parquet file in memory
Numbers = "pa.ChunkedArray | np.ndarray"


class BucketRows(NamedTuple):
    """The combined `rows` of a bucket, ascending by key: a list if they are in memory, else an iterator. `total`: of the bucket.
    `changelog`: all rows with their input kinds, if the input is the changelog."""

    bucket: Bucket
    total: int
    rows: list[pa.Table] | Iterator[pa.Table]
    changelog: Iterable[pa.Table]


class Intake:
    """Collects tables with `add`, then yields the rows of each bucket, sorted and combined. A context manager: it removes its
    spills at the end.

    `covers`: the buckets of each partition. `request`: how to prepare the rows when they are sorted, unless they are `prepared`.
    `known`: finds the partitions that have files; under `bucket = auto`, others get as many buckets as their rows need, if rows
    are spilled.
    """

    def __init__(
        self,
        schema: Schema,
        covers: Covers,
        request: WriteRequest,
        *,
        prepared: bool = False,
        known: Callable[[], Collection[tuple]] | None = None,
    ) -> None:
        self.schema, self.covers, self.request, self.prepared = schema, covers, request, prepared
        self.tables: list[tuple[pa.Table, Arrival, Numbers | None]] = []
        self.bytes = 0
        self.ordered = Ordered.ALL
        self.spill: Spill | None = None
        self.known, self.sizes = known, Counter[Bucket]()
        self.kinds = False  # whether any spilled row is not +I
        self.writes_changelog = schema.parsed_options.changelog.producer == INPUT and request.replaces is None

    @property
    def in_memory(self) -> bool:
        """Whether no row was spilled."""
        return self.spill is None

    def __enter__(self) -> Intake:
        return self

    def __exit__(self, *_: object) -> None:
        if self.spill is not None:
            self.spill.close()

    def add(self, rows: pa.Table, arrival: Arrival, numbers: Numbers | None = None) -> None:
        """Adds rows. `numbers`: of their buckets, if known. Invalid rows raise InvalidData here or in `sorted`."""
        self.tables.append((rows, arrival, numbers))
        self.ordered = arrival.ordered
        self.bytes += rows.get_total_buffer_size()  # nbytes reads offsets that Spark 4.1 leaves out of empty nested columns
        several = len(self.tables) > 1 or self.spill is not None  # a single table is in memory already
        if several and self.bytes >= self.schema.parsed_options.write.buffer_bytes:
            self.spill = self.spill or self._begun_spill()
            self.spill.write(self._unmerged())

    def sorted(self) -> Iterator[BucketRows]:
        """Yields the rows bucket by bucket."""
        covers = self.covers
        if self.spill is None:
            if not self.tables:
                return
            rows, numbers, arrival = self._prepared()
            changelog = dict(split_input(rows, self.schema, covers, numbers, arrival)) if self.writes_changelog else {}
            for bucket, part in split(rows, self.schema, covers, numbers, arrival):
                given = [with_input_kinds(changelog.pop(bucket))] if self.writes_changelog else ()
                yield BucketRows(bucket, covers.total(bucket), [part], given)
            return
        if self.tables:
            self.spill.write(self._unmerged())
        parts: dict[tuple[Bucket, int], list[Bucket]] = {}
        for bucket in sorted(self.spill.keys(), key=str):
            parts.setdefault(self._grown(bucket), []).append(bucket)
        for (bucket, total), spilled in parts.items():
            yield BucketRows(bucket, total, self._merged(spilled), self._changelog(spilled) if self.writes_changelog else ())

    def _begun_spill(self) -> Spill:
        if self.known is not None:
            finer = _FINER if not self.schema.partition_columns else _FINER_PARTITIONS
            self.covers = replace(self.covers, finer=finer, known=self.known())
        return Spill()

    @cached_property
    def _first_sizes(self) -> Counter[Bucket]:
        """About the bytes of the first buckets of new partitions, stored."""
        found: Counter[Bucket] = Counter()
        for bucket, size in self.sizes.items():
            found[bucket._replace(number=bucket.number % self.covers.first)] += size // _EXPANSION
        return found

    def _grown(self, bucket: Bucket) -> tuple[Bucket, int]:
        """The bucket, and its total, that the rows of a spilled one come to."""
        covers = self.covers
        if covers.finer == 1 or not covers.is_new(bucket.partition_key):
            return bucket, covers.total(bucket)
        size = self._first_sizes[bucket._replace(number=bucket.number % covers.first)]
        total = covers.first * min(covers.finer, parts_of(size, self.schema.parsed_options.layout.target_bytes))
        return bucket._replace(number=bucket.number % total), total

    def _prepared(self) -> tuple[pa.Table, np.ndarray | None, Arrival]:
        """Returns the rows in memory, prepared, with their bucket numbers, if known, and arrival. Empties the buffer."""
        buffered, self.tables, self.bytes = self.tables, [], 0
        tables, arrivals, known = zip(*buffered, strict=True)
        del buffered
        data = pa.concat_tables(with_kinds(list(tables)) if self.prepared else tables)
        numbers = None if known[0] is None else np.concatenate([np.asarray(one) for one in known])
        arrival = Arrival.joined(arrivals)
        if self.prepared:
            return data, numbers, arrival
        rows, kept = prepare(data, self.schema, self.request, None)
        if kept is None:
            return rows, numbers, arrival
        return rows, None if numbers is None else numbers[kept], arrival.take(kept)

    def _unmerged(self) -> Iterator[tuple[Bucket, pa.Table]]:
        """Yields the rows in memory by bucket, for a spill."""
        rows, numbers, arrival = self._prepared()
        self.kinds |= ROW_KIND in rows.column_names
        rows = _uniform(rows)
        for name, column in arrival.columns().items():
            rows = rows.append_column(name, column)
        parts = split_unfolded if self.writes_changelog or rule_of(self.schema).repeats_keys else split
        for bucket, part in parts(rows, self.schema, self.covers, None if self.covers.finer > 1 else numbers, arrival):
            self.sizes[bucket] += part.nbytes
            yield bucket, part

    def _merged(self, buckets: Sequence[Bucket]) -> Iterator[pa.Table]:
        key = self.schema.key
        rule = rule_of(self.schema)
        kinds = self.kinds or rule.repeats_keys
        for table in merge_windows(self._runs(buckets), key, partial(_folded, key=key, rule=rule, ordered=self.ordered)):
            yield _uniform(table) if kinds else table.select(self.schema.columns.names)

    def _changelog(self, buckets: Sequence[Bucket]) -> Iterator[pa.Table]:
        merge = partial(_ordered, key=self.schema.key, rule=rule_of(self.schema))
        yield from map(with_input_kinds, merge_windows(self._runs(buckets), self.schema.key, merge))

    def _runs(self, buckets: Sequence[Bucket]) -> list[RunReader]:
        """Those of a bucket, oldest first."""
        runs = (run for bucket in buckets for run in self.spill.runs(bucket))
        return [RunReader(whole_keys(tables, self.schema.key), rows) for tables, rows in runs]


def _uniform(rows: pa.Table) -> pa.Table:
    """Adds `_row_kind` if it is missing: the spills of a bucket and the tables of a run need the same columns."""
    return rows if ROW_KIND in rows.column_names else with_kind(rows, INSERT)


def _folded(pieces: list[pa.Table], key: tuple[str, ...], rule: MergeRule, ordered: Ordered) -> pa.Table:
    joined, groups, arrival = _grouped(pieces, key, ordered)
    rows = without_input_kinds(joined)
    arrival.check(rows, groups, rule, key)
    return fold(rows, groups, rule, key, None)


def _ordered(pieces: list[pa.Table], key: tuple[str, ...], rule: MergeRule) -> pa.Table:
    joined, groups, _ = _grouped(pieces, key, Ordered.ALL)
    return in_replay_order(joined, groups, rule, None)


def _grouped(pieces: list[pa.Table], key: tuple[str, ...], ordered: Ordered) -> tuple[pa.Table, Groups, Arrival]:
    joined, arrival = Arrival.taken_from(pa.concat_tables(pieces), ordered)
    keys = np.concatenate(comparable([piece.select(key) for piece in pieces]))
    return joined, grouped(keys, arrival.ranks()), arrival
