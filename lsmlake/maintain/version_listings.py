"""Listings of the content of one version of a table, as Arrow tables: files, buckets, partitions, manifests and options.

`maintain.named_files` lists objects that are stored in one file each, such as snapshots and tags. `reference` lists all table
options, one row per option, generated from their declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.format.data_files import Bucket, BucketState, DataFile
from lsmlake.format.manifest import ManifestMeta, partition_bounds
from lsmlake.lsm.levels import recency
from lsmlake.options import column_options
from lsmlake.options.column_options import PREFIX
from lsmlake.options.option import Change, Only, Option
from lsmlake.options.table_options import OPTIONS, group_of
from lsmlake.schema.schema import Schema
from lsmlake.schema.values import value_text
from lsmlake.tables.version import Version

_TIME = pa.timestamp("ms", "UTC")
_Texts = list[tuple[str, str | None]]
_COUNTS, _BOUNDS = pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.string())


def files(version: Version) -> pa.Table:
    """One row per live file, ordered by partition, bucket and recency, newest first. `deleted_record_count` is the number of rows
    that the file's vector marks; partitions and keys are text."""
    meta, schema = version.meta, version.schema
    with version.unless_expired():
        states = version.states()
    rows = [(state, file) for state in sorted(states.values(), key=place) for file in sorted(state.files, key=_age)]
    names = {number: name for name, number in schema.field_ids().items()}
    dead = [state.vectors[f.name].cardinality if f.name in state.vectors else 0 for state, f in rows]
    return pa.table(
        {
            "partition": pa.array([partition_text(schema, state.bucket) for state, _ in rows], pa.string()),
            "bucket": pa.array([state.bucket.number for state, _ in rows], pa.int32()),
            "file_path": pa.array([meta.paths.data(f) for state, f in rows], pa.string()),
            "file_format": pa.array(["parquet"] * len(rows), pa.string()),
            "level": pa.array([f.level for _, f in rows], pa.int32()),
            "record_count": pa.array([f.rows for _, f in rows], pa.int64()),
            "deleted_record_count": pa.array(dead, pa.int64()),
            "delete_row_count": pa.array([f.delete_rows for _, f in rows], pa.int64()),
            "file_size_in_bytes": pa.array([f.bytes for _, f in rows], pa.int64()),
            "min_key": pa.array([key_text(f.min_key) for _, f in rows], pa.string()),
            "max_key": pa.array([key_text(f.max_key) for _, f in rows], pa.string()),
            "null_value_counts": pa.array([_by_name(f, names, 0) for _, f in rows], _COUNTS),
            "min_value_stats": pa.array([_by_name(f, names, 1) for _, f in rows], _BOUNDS),
            "max_value_stats": pa.array([_by_name(f, names, 2) for _, f in rows], _BOUNDS),
            "min_sequence_number": pa.array([f.min_sequence for _, f in rows], pa.int64()),
            "max_sequence_number": pa.array([f.sequence for _, f in rows], pa.int64()),
            "schema_id": pa.array([f.schema_id for _, f in rows], pa.int32()),
            "file_source": pa.array([f.source for _, f in rows], pa.string()),
            "creation_time": pa.array([f.created_ms for _, f in rows], _TIME),
            "total_buckets": pa.array([state.total_buckets for state, _ in rows], pa.int32()),
        }
    )


def partition_text(schema: Schema, bucket: Bucket) -> str | None:
    """See `Schema.partition_text`."""
    return schema.partition_text(bucket.spec, bucket.partition)


def key_text(key: tuple) -> str:
    return ", ".join(map(value_text, key))


def _age(file: DataFile) -> tuple:
    return recency(file), file.min_key


def place(state: BucketState) -> tuple:
    """The sort key of a bucket in a listing; nulls first."""
    spec, partition, number = state.bucket.spec, state.bucket.partition, state.bucket.number
    return spec, tuple((value is not None, value) for value in partition), number


def _by_name(file: DataFile, names: dict[int, str], part: int) -> list[tuple[str, object]]:
    """(column, statistic) of each column that has statistics; bounds as text."""
    known = ((names[number], stats[part]) for number, stats in file.stats.items() if number in names)
    return [(name, value if part == 0 or value is None else value_text(value)) for name, value in known]


def key_ranges(files_table: pa.Table) -> pa.Table:
    """The rows of `files`, with only the columns about levels and key ranges."""
    names = ("partition", "bucket", "file_path", "file_format", "schema_id", "level", "record_count", "file_size_in_bytes")
    return files_table.select([*names, "min_key", "max_key"])


def buckets(files_table: pa.Table) -> pa.Table:
    """One row per bucket. `record_count`: without rows that vectors mark. `total_buckets`: bucket n has the keys whose hash,
    modulo this number, is n."""
    summed = _summed(files_table, ["partition", "bucket", "total_buckets"])
    totals = summed["total_buckets"]
    return summed.drop_columns(["total_buckets"]).append_column("total_buckets", totals)


def partitions(files_table: pa.Table) -> pa.Table:
    """One row per partition, as `buckets`. `total_buckets`: the greatest of its buckets."""
    totals = files_table.group_by("partition", use_threads=False).aggregate([("total_buckets", "max")])
    summed = _summed(files_table, ["partition"])
    return summed.append_column("total_buckets", totals.sort_by("partition")["total_buckets_max"])


def _summed(files_table: pa.Table, by: list[str]) -> pa.Table:
    grouped = files_table.group_by(by, use_threads=False).aggregate(
        [
            ("record_count", "sum"),
            ("deleted_record_count", "sum"),
            ("file_size_in_bytes", "sum"),
            ("file_path", "count"),
            ("creation_time", "max"),
        ]
    )
    live = pc.subtract(grouped["record_count_sum"], grouped["deleted_record_count_sum"])
    columns = {name: grouped[name] for name in by} | {
        "record_count": live,
        "deleted_record_count": grouped["deleted_record_count_sum"],
        "file_size_in_bytes": grouped["file_size_in_bytes_sum"],
        "file_count": grouped["file_path_count"],
        "last_update_time": grouped["creation_time_max"],
    }
    return pa.table(columns).sort_by([(name, "ascending") for name in by])


def manifests(version: Version) -> pa.Table:
    """One row per manifest, in commit order. The bounds of partitions are text, by column."""
    with version.unless_expired():
        metas = version.meta.manifests.metas(version.snapshot) if version.snapshot else ()
    lowest, highest = _partition_bounds(version, metas)
    return pa.table(
        {
            "file_name": pa.array([m.name for m in metas], pa.string()),
            "file_size": pa.array([m.bytes for m in metas], pa.int64()),
            "num_added_files": pa.array([m.added for m in metas], pa.int64()),
            "num_deleted_files": pa.array([m.deleted for m in metas], pa.int64()),
            "schema_id": pa.array([m.schema_id for m in metas], pa.int64()),
            "min_partition_stats": pa.array(lowest, _BOUNDS),
            "max_partition_stats": pa.array(highest, _BOUNDS),
            "snapshot_id": pa.array([m.sequence for m in metas], pa.int64()),
        }
    )


def _partition_bounds(version: Version, metas: Sequence[ManifestMeta]) -> tuple[list[_Texts], list[_Texts]]:
    """The least and the greatest value of each partition column in each manifest."""
    schema, sides = version.schema, ([[] for _ in metas], [[] for _ in metas])
    for field in schema.all_partition_columns:
        for side, values in zip(sides, partition_bounds(metas, schema, field, version.meta.paths.root), strict=True):
            for row, value in zip(side, values.to_pylist(), strict=True):
                row.append((field.name, None if value is None else value_text(field.transform.human(value))))
    return sides


def option_reference() -> pa.Table:
    """One row per supported option."""
    return _option_rows(reference())


def options(schema: Schema) -> pa.Table:
    """One row per option; `value` is null unless the table sets the option. Options of single columns are listed last, and only
    if the table sets them."""
    facts = [option for option in reference() if option.group != COLUMNS]
    facts += [column_facts(name) for name in schema.options if name.startswith(PREFIX)]
    rows = _option_rows(facts)
    values = pa.array([schema.options.get(name) for name in rows["name"].to_pylist()], pa.string())
    return rows.add_column(1, "value", values)


def _option_rows(facts: Iterable[OptionFacts]) -> pa.Table:
    rows = list(facts)
    return pa.table({name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in OptionFacts._fields})


PAIMON, OWN = "Paimon", "lsmlake"
COLUMNS = "columns"
"""The group of the options of single columns."""


class OptionFacts(NamedTuple):
    """`default`: text as in SQL; None if the option is off. `only_with`: the conditions under which the option has an effect."""

    name: str
    group: str
    type: str
    takes: str
    default: str | None
    description: str
    only_with: str | None
    origin: str
    change: str


def reference() -> Iterator[OptionFacts]:
    """All options, by group; options of single columns, with a placeholder for the column, come last."""
    for name, option in OPTIONS.items():
        yield _facts(name, group_of(name), option, option.only, option.change)
    for name in column_options.TEMPLATES:
        yield column_facts(name)


def column_facts(name: str) -> OptionFacts:
    """The row of an option of single columns; `name` contains the columns or a placeholder."""
    option = column_options.described(name)
    return _facts(name, COLUMNS, option, option.only, option.change)


def _facts(name: str, group: str, option: Option, only: tuple[Only, ...], change: Change) -> OptionFacts:
    needed = ", ".join(" or ".join(map(str, alternatives)) for alternatives in only) or None
    kind, default, origin = option.type, option.type.text(option.default), OWN if option.own else PAIMON
    return OptionFacts(name, group, kind.name, kind.takes, default, option.meaning, needed, origin, change.value)
