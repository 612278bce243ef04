"""The verbs that maintain a table: alterations, compaction, statistics."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from lsmlake.api.table_verbs.handle import Handle
from lsmlake.border import verbs_of
from lsmlake.compact.job import CompactionReport, added, compact_buckets, compact_table
from lsmlake.compact.reshape import reshape, to_number
from lsmlake.errors import InvalidQuery
from lsmlake.format.data_files import Bucket
from lsmlake.format.snapshot import Snapshot
from lsmlake.maintain.alter import alter
from lsmlake.maintain.analyze import analyze
from lsmlake.options.option_types import buckets as bucket_numbers
from lsmlake.read.partition_match import partition_matches
from lsmlake.schema.alterations.draft import Alteration
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import moment_of
from lsmlake.tables.version import Version
from lsmlake.write.replace import partition_predicate


@verbs_of("Table")
class Upkeep(Handle):
    """The verbs that maintain a table: alterations, compaction, statistics."""

    def analyze(self, columns: Collection[str] | None = None) -> Snapshot | None:
        """Compute statistics of the visible rows and publish them as a snapshot of kind ANALYZE.

        `system_table("statistics")` shows them: the number of rows and about their bytes; per column about how many distinct
        values it has, the least and the greatest value, the nulls, and the lengths of texts and binary values. Later snapshots
        keep them until the next analysis. Reads the columns once, in bounded memory, or with Spark as one aggregation.

        Args:
            columns: the columns to analyze. Default: all. An empty list: none, only the rows are counted.

        Returns:
            The snapshot; None if nothing was ever written.

        Raises:
            InvalidQuery: there is no such column.
            CommitConflict: after `commit.max-retries`.

        Example:
            >>> orders.analyze(["status", "amount"])
            >>> orders.system_table("statistics")["colstat"].to_pylist(maps_as_pydicts="strict")
        """
        return analyze(self.version, columns, self.runtime.measure)

    def compact(
        self, *, full: bool = False, where: str | None = None, buckets: Collection[int] | None = None
    ) -> CompactionReport:
        """Compact the buckets that need it. With Spark attached, Spark compacts them in parallel.

        Args:
            full: compact every bucket into one sorted run without deleted rows. Default: what the compaction strategy picks.
            where: only the partitions that satisfy this condition on partition columns.
            buckets: only the buckets with these numbers.

        Raises:
            CommitConflict: other commits overtook the compaction every time.
        """
        version = self.version
        wanted = _wanted(version, where, buckets, self.runtime.zone, moment_of(self.meta.env))
        run = self.runtime.compactions(self.meta, version.schema)
        return compact_table(version, run, wanted, full=full, divide=self.runtime.divide)

    def rescale(self, buckets: int | str, *, where: str | None = None) -> CompactionReport:
        """Give the existing partitions another number of buckets, one commit for each partition, beside running writers.

        Rows move to new files; history, tags, consumers and writers go on. The option `bucket` says how many buckets new
        partitions have, and stays; under `bucket = auto` later compactions may split and merge the buckets again.

        Args:
            buckets: the number of buckets of a partition; "auto": as many as suit the size of each partition.
            where: only the partitions that satisfy this condition on partition columns.

        Raises:
            InvalidQuery: the number is invalid, or the table has no key whose hash could select the bucket.
            CommitConflict: other commits changed the buckets on every attempt.

        Example:
            >>> orders.rescale(16)
            >>> orders.rescale("auto", where="dt < '2026-01-01'")
        """
        version = self.version
        wanted = _wanted(version, where, None, self.runtime.zone, moment_of(self.meta.env))
        number = _number_of_buckets(version.schema, buckets)
        report, settle = CompactionReport(), partial(compact_buckets, self.runtime.compactions(self.meta, version.schema))
        for committed in reshape(version, to_number(version, number), wanted, self.runtime.divide, settle=settle):
            report = added(report, committed)
        return report

    def alter(self, *alterations: Alteration) -> Snapshot | None:
        """Change columns and options of the table, all or none, as one commit.

        Columns are identified by ids, so an alteration of columns rewrites no file: rows that there are have the default of a new
        column, and are converted to a wider type when they are read. Earlier snapshots keep their columns. A stream of changes
        goes on with the columns that it began with, under their names of then. It stops with InvalidQuery once a column of the
        table was dropped or widened; a new call of `follow` or `read_stream` continues there, with the new columns. A stream of
        upserts goes on while its rows fit, and otherwise stops with InvalidData.

        Some options give existing files another meaning: deletion vectors, the merge engine and its options, the changelog
        producer. Changing them compacts all buckets in full by the old options, in the same commit; so does a new column with a
        default under a merge engine that combines rows. Writers that began before an alteration commit if their rows fit, and
        fail with CommitConflict otherwise. Another number of buckets holds for new partitions; the property `rescale` of the
        snapshot says what `rescale` would do to the others.

        Args:
            alterations: results of `lsmlake.add_column`, `rename_column`, `drop_column`, `move_column`, `change_type`,
                `set_comment`, `set_not_null`, `drop_not_null`, `set_default`, `drop_default`, `set_option` and `unset_option`,
                applied in order.

        Returns:
            The snapshot, or None if the alterations change nothing.

        Raises:
            InvalidSchema: an alteration of columns is impossible, for example of the type of a key column.
            InvalidOption: an option or value is unknown, or the option cannot change once the table has rows.
            InvalidData: the new options do not accept a stored row.
            CommitConflict: other commits came first on every attempt.

        Example:
            >>> orders.alter(lsmlake.add_column("note", "STRING", after="status"), lsmlake.change_type("qty", "BIGINT"))
            >>> orders.alter(lsmlake.set_option("snapshot.num-retained.min", 5))
        """
        return alter(self.meta, self.name, alterations, partial(self.runtime.compactions, self.meta))


def _number_of_buckets(schema: Schema, given: int | str) -> int | str:
    try:
        number = bucket_numbers.read(given)
    except ValueError:
        raise InvalidQuery(
            "not a number of buckets", expected=bucket_numbers.takes, found=repr(given), cure="correct the number"
        ) from None
    if not schema.bucket_key:
        raise InvalidQuery(
            "the table has no primary key and no bucket-key, whose hash could select the bucket",
            expected="a table with a key",
            found=f"buckets = {given}",
            cure="do not rescale this table: rows without a key need no buckets",
        )
    return number


def _wanted(
    version: Version, where: str | None, buckets: Collection[int] | None, zone: str, now: str
) -> Callable[[Bucket], bool]:
    """A test for the buckets that a compaction may change. `zone`: the time zone of times without one in `where`; `now`: the
    time of the call."""
    schema = version.schema
    numbers = None if buckets is None else {int(number) for number in buckets}
    if numbers is not None and (wrong := sorted(n for n in numbers if not 0 <= n < version.covers().most)):
        raise InvalidQuery(
            "no such buckets",
            expected=f"0 to {version.covers().most - 1}",
            found=wrong,
            cure="correct the numbers",
        )
    predicate, known = None if where is None else partition_predicate(schema, where, zone, now), {}

    def wanted(bucket: Bucket) -> bool:
        if numbers is not None and bucket.number not in numbers:
            return False
        if predicate is None:
            return True
        if bucket.partition_key not in known:
            known[bucket.partition_key] = partition_matches(predicate, schema, bucket)
        return known[bucket.partition_key] is not False

    return wanted
