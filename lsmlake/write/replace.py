"""The rows that an overwrite replaces.

A write that replaces a bucket reads nothing of the bucket: it makes one run at the last level, and the commit removes the files
that the bucket has when the snapshot is published. So it never conflicts with other writers: rows of commits before it are
replaced, rows of commits after it stay. The snapshot has no changelog; readers of changes compare it with the preceding snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from lsmlake.commit.requirements import Overtaken, replacing
from lsmlake.errors import CommitConflict, InvalidData, InvalidQuery, RowPlace, Wording, naming, with_arguments
from lsmlake.format.data_files import Bucket, BucketState, CommitMessage
from lsmlake.options.merge_options import DEDUPLICATE
from lsmlake.predicate import Predicate, evaluate
from lsmlake.predicate.where import predicate_of
from lsmlake.read.partition_match import is_of_partitions, lies_in, partitions_match
from lsmlake.schema.schema import Schema
from lsmlake.schema.values import row_text
from lsmlake.tables.version import Version

_DIVIDED = Wording(
    "use the bounds of partitions, or delete the rows by delete(where) and append the new ones",
    command="use the bounds of partitions, or delete the rows by `lsmlake sql` and load the new ones",
)

_MOVING = Wording(
    "pass truncate=True to replace all rows, or delete(where) the rows and upsert the new ones",
    command="replace all rows, or delete the rows by `lsmlake sql` and load the new ones",
    sql="DELETE FROM the table WHERE ..., then INSERT INTO it",
)

_OUTSIDE = with_arguments(
    "filter the data by {}, or overwrite without {}: the partitions of the data are then replaced", "where", "where"
)


@dataclass(frozen=True)
class Replacement:
    """The part of a table that an overwrite replaces. `everything`: the whole table. `where`: the partitions that satisfy this
    predicate; no new row may lie elsewhere. Neither: the partitions of the new rows."""

    everything: bool = False
    where: Predicate | None = None

    @staticmethod
    def of(
        schema: Schema, where: str | Predicate | None, truncate: bool, zone: str, name: str, now: str | None = None
    ) -> Replacement:
        """The arguments of `Table.overwrite` as a value. `now`: the time of the call. Raises InvalidQuery."""
        if schema.moves_keys and not truncate and (engine := schema.parsed_options.merge.engine) != DEDUPLICATE:
            raise InvalidQuery(
                f"merge-engine = {engine} cannot overwrite partitions of a table whose keys can move",
                where=name,
                expected=f"{DEDUPLICATE}, or a primary key with {list(schema.moving_columns)}",
                found=engine,
                cure=_MOVING,
            )
        if where is None:
            return Replacement(everything=truncate or not schema.partition_columns)
        if truncate:
            raise InvalidQuery(
                "where and truncate contradict each other",
                where=name,
                expected="where, or truncate=True",
                found="both",
                cure="leave out truncate to replace some partitions, or where to replace all rows",
            )
        if not schema.all_partition_columns:
            raise InvalidQuery(
                with_arguments("{} needs partitions, and the table has none", "where"),
                where=name,
                found=repr(where),
                cure=with_arguments("leave out {}: all rows are replaced; or delete some rows, and write the new ones", "where"),
            )
        return Replacement(where=partition_predicate(schema, where, zone, now))

    def chosen(self, schema: Schema, messages: Sequence[CommitMessage], buckets: Collection[Bucket]) -> list[Bucket]:
        """Returns the buckets that the overwrite replaces. `messages`: the messages of the new rows."""
        if self.everything:
            return list(buckets)
        partitions = {bucket.partition_key: bucket for bucket in buckets}
        if not all(schema.has_spec(spec) for spec, _ in partitions):
            cure = "run it again"
            raise CommitConflict(
                "the partitions of the table were altered meanwhile", found="rows of other partitions", cure=cure
            )
        written = {message.bucket.partition_key: message.bucket for message in messages}
        if self.where is None:
            chosen = {key for key, bucket in partitions.items() if _is_replaced(bucket, written, schema)}
        else:
            with naming("where", (InvalidQuery,)):
                matches = partitions_match(self.where, schema, list(partitions.values()))
            chosen = {
                key for (key, bucket), one in zip(partitions.items(), matches, strict=True) if _decided(one, bucket, schema)
            }
        return [bucket for bucket in buckets if bucket.partition_key in chosen]

    def check(self, rows: pa.Table, schema: Schema, kept: np.ndarray | None, first_row: int | None) -> None:
        """Raises InvalidData for a row outside the replaced partitions. `kept`: the numbers of the rows in the data, as `prepare`
        returns them; `first_row`: the number of the first row of the data, None: unknown."""
        if self.where is None or not rows.num_rows:
            return
        with naming("where", (InvalidQuery,)):
            inside = evaluate(self.where, rows)
        if inside.all():
            return
        row = int(np.flatnonzero(~inside)[0])
        number = row if kept is None else int(kept[row])
        raise InvalidData(
            "a row lies outside of the partitions to overwrite",
            where=RowPlace("", first_row + number) if first_row is not None else "data",
            expected=with_arguments("rows that satisfy {}", "where"),
            found=row_text(rows.select(sorted(self.where.columns)).slice(row, 1)),
            cure=_OUTSIDE,
        )


@dataclass
class Overwrite:
    """Restates the messages of an overwrite for each attempt to commit: they replace the content that the chosen buckets have at
    that version, so rows that other commits added before the publication are replaced, too.

    Args:
        messages: one per bucket with new rows; written as if the bucket was empty.
        choose: returns the buckets that are replaced, which include the buckets of `messages`.
        moved: appends of rows that remove keys of `messages` from other buckets (`write.key_places`), unless these are replaced.
    """

    messages: Sequence[CommitMessage]
    choose: Callable[[Mapping[Bucket, BucketState]], Collection[Bucket]]
    moved: Sequence[CommitMessage] = ()
    _planned: tuple[Mapping[Bucket, BucketState], Sequence[CommitMessage]] | None = field(default=None, init=False)

    @staticmethod
    def of(replaces: Replacement, schema: Schema, messages: Sequence[CommitMessage]) -> Overwrite:
        """The overwrite of a `Replacement`."""
        new = [message for message in messages if message.compact is not None or not schema.moves_keys]
        moved = [message for message in messages if message.compact is None and schema.moves_keys]
        return Overwrite(new, partial(replaces.chosen, schema, new), moved)

    def restate(self, now: Version) -> Sequence[CommitMessage]:
        live = now.states(statistics=False)
        states = {bucket: live[bucket] for bucket in self.choose(live) if bucket in live}
        if self.moved and not all(now.covers().has(one.bucket, one.append.total_buckets) for one in self.moved):
            raise Overtaken
        if self._planned is None or self._planned[0] != states:  # otherwise the manifest of the last attempt still fits
            kept = [message for message in self.moved if message.bucket not in states]
            self._planned = states, (*replacing(self.messages, states), *kept)
        return self._planned[1]


def _decided(matches: bool | None, bucket: Bucket, schema: Schema) -> bool:
    """Raises InvalidQuery if the condition is true of some rows of the partition only."""
    if matches is None:
        raise InvalidQuery(
            "where divides a partition",
            expected="a condition that is true of all rows of a partition or of none",
            found=f"partition {schema.partition_text(bucket.spec, bucket.partition)}",
            cure=_DIVIDED,
        )
    return matches


def _is_replaced(bucket: Bucket, written: Mapping[tuple, Bucket], schema: Schema) -> bool:
    """Whether new rows replace a partition. A partition of an older spec is replaced if it lies inside a partition that was
    written. Raises InvalidQuery if it lies partly inside."""
    if bucket.spec == schema.spec_id:
        return bucket.partition_key in written
    overlapping = [one for one in written.values() if lies_in(bucket, one, schema) is not False]
    if overlapping and not any(lies_in(bucket, one, schema) for one in overlapping):
        raise InvalidQuery(
            "the overwrite divides a partition from before the partitions were altered",
            expected="older partitions inside or outside of those that the data names",
            found=f"{schema.partition_text(bucket.spec, bucket.partition) or 'the unpartitioned rows'}, "
            f"partly in {schema.partition_text(overlapping[0].spec, overlapping[0].partition)}",
            cure=_DIVIDED,
        )
    return bool(overlapping)


def partition_predicate(schema: Schema, where: str | Predicate, zone: str, now: str | None) -> Predicate:
    """A predicate on partition columns. `zone`: the time zone of times in `where` without a zone; `now`: the time of the call.
    Raises InvalidQuery."""
    time = None if now is None else lambda: now
    predicate = predicate_of(where, schema.typed_columns, zone, time) if isinstance(where, str) else where
    if not is_of_partitions(predicate, schema):
        columns = dict.fromkeys(field.column for field in schema.all_partition_columns)
        other = sorted(predicate.columns - columns.keys())
        raise InvalidQuery(
            with_arguments("{} may use partition columns only", "where"),
            expected=f"partition columns {list(columns)}",
            found=other,
            cure="remove the other columns",
        )
    return predicate
