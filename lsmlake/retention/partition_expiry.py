"""Partition expiry: one OVERWRITE commit drops the partitions whose time is older than `partition.expiration-time`.

The time of a partition comes from its values or from its newest file. It is read from the version that the commit follows: a
partition that gets rows meanwhile does not expire by update-time. Values that are no time, such as null, never expire.

The options `partition.timestamp-*` say how the time is read from the values. All times are in UTC. Under years, months, days or
hours no pattern is needed, and the time is the last millisecond of the unit: no row is younger.

Source of the rules: Apache Paimon, `PartitionTimeExtractor`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.errors import InvalidQuery, Wording
from lsmlake.format.data_files import Bucket, BucketState
from lsmlake.format.snapshot import Snapshot
from lsmlake.notebook import Shown
from lsmlake.options.partition_options import VALUES_TIME, PartitionOptions, directives
from lsmlake.schema.partitioning import PartitionColumn, human_values
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Version
from lsmlake.write.replace import Overwrite

States = Mapping[Bucket, BucketState]
_SET = Wording(
    "set it: alter(set_option('partition.expiration-time', '30 d'))",
    command="set it: `lsmlake alter TABLE --set 'partition.expiration-time=30 d'`",
)


@dataclass(frozen=True)
class PartitionExpiryReport(Shown):
    """Partitions that expired or, in a dry run, that are due.

    Attributes:
        partitions: the values of each partition, in the order of the partition fields; years, months, days and hours are text as
            in '2026-01-31'.
        names: the same partitions as text with the names of the fields, such as 'dt=2026-01-31'.
        rows: the number of live rows in the partitions.
        files: the number of data files of the partitions; the files stay until the older snapshots expire.
        snapshot_id: the snapshot that dropped the partitions; None if no partition was due, and in a dry run.
    """

    partitions: tuple[tuple[object, ...], ...] = ()
    names: tuple[str, ...] = ()
    rows: int = 0
    files: int = 0
    snapshot_id: int | None = None


def expire_partitions(version: Version, *, dry_run: bool = False) -> PartitionExpiryReport:
    """See `Table.expire_partitions`."""
    schema, now_ms = version.schema, version.meta.env.clock()
    if schema.parsed_options.partitions.expiration_ms is None:
        raise InvalidQuery(
            "the table does not say when partitions expire",
            where=version.meta.paths.root,
            expected="option partition.expiration-time",
            found="it is not set",
            cure=_SET,
        )
    with version.unless_expired():
        states = version.states(statistics=False)
    chosen = due(schema, now_ms, states)
    if not chosen or dry_run:
        return _report(schema, states, chosen, None)
    dropped: list[tuple[States, Collection[Bucket]]] = []

    def choose(states: States) -> Collection[Bucket]:
        dropped.append((states, due(schema, now_ms, states)))
        return dropped[-1][1]

    request = Request(Identity(version.meta.env.ids()), restate=Overwrite((), choose).restate, remade=True)
    snapshot = commit(version, request).snapshot
    return _report(schema, *dropped[-1], snapshot) if snapshot else PartitionExpiryReport()


def due(schema: Schema, now_ms: int, states: States) -> set[Bucket]:
    """The buckets of the partitions that are due: the oldest ones, at most `partition.expiration-max-num` partitions. Partitions
    of a spec that `schema` does not know are as young as that spec."""
    options = schema.parsed_options.partitions
    files: dict[tuple[int, tuple], list[Bucket]] = {}
    for bucket in filter(lambda bucket: schema.has_spec(bucket.spec), states):
        files.setdefault(bucket.partition_key, []).append(bucket)
    if options.strategy == VALUES_TIME:
        times = {key: time_of_partition(schema.partition_columns_of(key[0]), key[1], options) for key in files}
    else:
        times = {
            partition: max(file.created_ms for bucket in buckets for file in states[bucket].all_files)
            for partition, buckets in files.items()
        }
    before_ms = now_ms - options.expiration_ms
    expired = [partition for partition, time in times.items() if time is not None and time < before_ms]
    expired.sort(key=lambda partition: (times[partition], repr(partition)))
    return {bucket for partition in expired[: options.expired_max] for bucket in files[partition]}


def is_check_due(snapshot: Snapshot, before_ms: int | None, interval_ms: int) -> bool:
    """Whether a commit checks partitions, because it is the first commit of an interval. `before_ms`: the time of the snapshot
    before."""
    return not interval_ms or before_ms is None or snapshot.time_ms // interval_ms != before_ms // interval_ms


def _report(schema: Schema, states: States, chosen: Collection[Bucket], snapshot: Snapshot | None) -> PartitionExpiryReport:
    files = [file for bucket in chosen for file in states[bucket].files]
    dead = sum(ref.cardinality for bucket in chosen for ref in states[bucket].vectors.values())
    keys = sorted({bucket.partition_key for bucket in chosen}, key=repr)
    partitions = tuple(human_values(schema.partition_columns_of(spec), values) for spec, values in keys)
    names = tuple(schema.partition_text(spec, values) or "" for spec, values in keys)
    return PartitionExpiryReport(partitions, names, sum(file.rows for file in files) - dead, len(files), snapshot and snapshot.id)


_DEFAULT = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?")


def time_of_partition(fields: Sequence[PartitionColumn], partition: tuple, options: PartitionOptions) -> int | None:
    """The time of a partition in milliseconds since 1970; None if its values are not a time."""
    if not fields:  # files from before the table was partitioned
        return None
    if options.pattern is None:
        for field, value in zip(fields, partition, strict=True):
            if field.transform.is_time:
                return None if value is None else field.transform.end_ms(value) - 1
    columns = [field.name for field in fields]
    texts = [_text(value) for value in human_values(fields, partition)]
    if options.pattern is None:
        text = texts[0]
    else:
        known = dict(zip(columns, texts, strict=True))
        names = "|".join(re.escape(name) for name in sorted(columns, key=len, reverse=True))
        used = re.findall(rf"\$({names})", options.pattern)
        missing = any(known[name] is None for name in used)
        text = None if missing else re.sub(rf"\$({names})", lambda match: known[match[1]] or "", options.pattern)
    if text is None:
        return None
    try:
        time = _parsed(text, options.formatter)
    except ValueError:
        return None
    return int(time.replace(tzinfo=dt.timezone.utc).timestamp() * 1000)


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, dt.datetime):
        aware = value.astimezone(dt.timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        return aware.isoformat(sep=" ")
    return str(value)


def _parsed(text: str, formatter: str | None) -> dt.datetime:
    if formatter is not None:
        return dt.datetime.strptime(text, directives(formatter))
    match = _DEFAULT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    *parts, fraction = match.groups(default="0")
    return dt.datetime(*map(int, parts), int(f"{fraction:0<6}"[:6]))
