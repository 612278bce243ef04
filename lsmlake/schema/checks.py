"""The checks of a new schema: columns of keys, partitions and options exist and have types that fit."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

import pyarrow as pa

from lsmlake.errors import InvalidOption, InvalidSchema, LakeError, Wording
from lsmlake.kernels.value_hash import family
from lsmlake.options.column_options import STATS
from lsmlake.options.data_file_options import BITMAP_COLUMNS, BLOOM_COLUMNS, RANGE_BITMAP_COLUMNS
from lsmlake.options.history_options import SOURCE, VALID_FROM, VALID_TO
from lsmlake.options.option_types import COUNTS, NO_STATS
from lsmlake.options.partition_options import VALUES_TIME
from lsmlake.options.table_options import OPTIONS, Options
from lsmlake.schema.partitioning import PartitionColumn, check_fields
from lsmlake.schema.transform import BUCKET, TRUNCATE
from lsmlake.types import column_types


def _near(name: str, names: Sequence[str]) -> str:
    by_lower = {known.lower(): known for known in names}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    return f"did you mean {by_lower[near[0]]!r}?" if near else "correct the name"


def check_are_columns(role: str, names: Sequence[str], columns: pa.Schema, where: str) -> None:
    """Raises InvalidSchema unless `names` are columns whose values have an order. `role`: the role of the columns in the
    message."""
    for name in names:
        _check_known(name, columns, InvalidSchema, f"{role} column {name!r} is not in the schema", where)
        column_types.check_orderable(columns.field(name).type, name)


def check_keys(
    columns: pa.Schema,
    primary_key: Sequence[str],
    key: Sequence[str],
    partitions: Sequence[PartitionColumn],
    where: str,
) -> None:
    """Raises InvalidSchema unless the columns can have this primary key and these partitions. `key`: see `Schema.key`."""
    if len(set(primary_key)) != len(primary_key):
        raise InvalidSchema("a primary key column is named twice", where=where, found=list(primary_key), cure="name it once")
    check_are_columns("primary key", primary_key, columns, where)
    check_fields(partitions, columns.names, where)
    if not primary_key:
        return
    if not key:
        raise InvalidSchema(
            "the primary key is nothing but partition columns",
            where=where,
            found=list(primary_key),
            cure="a partition would hold one row: partition by fewer columns",
        )


def _check_indexed(columns: pa.Schema, options: Options, where: str) -> None:
    index = options.index
    for option, names in (
        (BLOOM_COLUMNS, index.bloom_columns),
        (BITMAP_COLUMNS, index.bitmap_columns),
        (RANGE_BITMAP_COLUMNS, index.range_bitmap_columns),
    ):
        for name in names:
            _check_is_column(option, name, columns, where)
            if family(columns.field(name).type) is None:
                raise InvalidOption(
                    f"{option} {name!r} has a type without equality that an index could use",
                    where=where,
                    found=columns.field(name).type,
                    cure="name a column that is no struct, list or map",
                )
    if twice := sorted({*index.bitmap_columns} & {*index.range_bitmap_columns}):
        raise InvalidOption(
            f"{BITMAP_COLUMNS} and {RANGE_BITMAP_COLUMNS} name the same columns, and are the same index",
            where=where,
            found=twice,
            cure="name a column in one of them",
        )


def check_options(
    columns: pa.Schema,
    primary_key: Sequence[str],
    key: Sequence[str],
    partitions: Sequence[PartitionColumn],
    options: Options,
    where: str,
) -> None:
    """Raises InvalidOption unless the options fit the columns that they name. The other arguments are those of `check_keys`."""
    if not primary_key:
        _check_append_options(columns, [field.column for field in partitions if field.transform.is_identity], options, where)
    bucket_key = options.layout.bucket_key
    for name in bucket_key:
        if primary_key and name not in key:
            raise InvalidOption(
                f"bucket-key column {name!r} is not in the primary key less the partition columns",
                where=where,
                expected=f"some of {list(key)}",
                cure="a key must always fall into one bucket: choose columns of the key",
            )
    if len(set(bucket_key)) != len(bucket_key):
        raise InvalidOption("bucket-key names a column twice", where=where, found=bucket_key, cure="name it once")
    _check_time_columns(columns, options, where)
    _check_partition_expiry(partitions, options, where)
    _check_indexed(columns, options, where)
    if options.history.source is not None and (primary_key[-1:] != (VALID_FROM,) or VALID_TO not in columns.names):
        raise InvalidOption(
            f"{SOURCE} is an option of histories, which history_of makes",
            where=where,
            expected=f"a primary key that ends with {VALID_FROM!r}, and a column {VALID_TO!r}",
            found=f"primary key {list(primary_key)}",
            cure=Wording("leave the option out, and call history_of", command="leave the option out, and use `lsmlake history`"),
        )
    for name in options.changelog.ignored_columns:
        _check_is_column("changelog-producer.row-deduplicate-ignore-fields", name, columns, where)
    watermark = options.tags.watermark_column
    if options.columns.stats_modes.get(watermark) in (NO_STATS, COUNTS):
        raise InvalidOption(
            f"watermark.column {watermark!r} has no bounds in manifests, from which a watermark comes",
            where=where,
            found=f"fields.{watermark}.{STATS} = {options.columns.stats_modes[watermark]}",
            cure=f"leave fields.{watermark}.{STATS} out",
        )
    options.columns.check_columns(columns.names, primary_key, where)
    for name in options.columns.stats_modes:
        if pa.types.is_nested(columns.field(name).type):
            raise InvalidOption(
                "manifests keep statistics of columns that are not nested",
                where=where,
                found=f"fields.{name}.{STATS}",
                cure="leave the option out",
            )
    if options.write.rowkind_field is not None:
        _check_is_column("rowkind.field", options.write.rowkind_field, columns, where)
        if not pa.types.is_string(columns.field(options.write.rowkind_field).type):
            raise InvalidOption(
                f"rowkind.field {options.write.rowkind_field!r} must be a string column",
                where=where,
                found=columns.field(options.write.rowkind_field).type,
                cure="store '+I', '-U', '+U' or '-D' as text",
            )
        if options.write.rowkind_field in primary_key:
            raise InvalidOption(
                f"rowkind.field {options.write.rowkind_field!r} is a key column", where=where, cure="use a column outside the key"
            )


def _check_append_options(columns: pa.Schema, partition_by: Sequence[str], options: Options, where: str) -> None:
    """The checks of options that name columns of an append-only table."""
    for name in options.layout.bucket_key:
        _check_is_column("bucket-key", name, columns, where)
        column_types.check_orderable(columns.field(name).type, name)
        if name in partition_by:
            raise InvalidOption(
                f"bucket-key column {name!r} is a partition column",
                where=where,
                cure="all rows of a partition have the same value: choose another column",
            )
    if options.layout.first_buckets > 1 and not options.layout.bucket_key:
        raise InvalidOption(
            "several buckets need a bucket-key: the table has no primary key whose hash could select the bucket",
            where=where,
            found=f"bucket = {options.layout.buckets}",
            cure="set bucket-key, or leave bucket out",
        )
    size = OPTIONS["bucket.target-size"]
    if options.layout.target_bytes != size.default and not options.layout.bucket_key:
        raise InvalidOption(
            f"option {size.name!r} has no effect: rows of a table without a key are in one bucket, which no hash could split",
            where=where,
            cure="set bucket-key, or leave the option out",
        )
    clustered = options.appends.clustering_columns
    for name in clustered:
        _check_is_column("clustering.columns", name, columns, where)
        column_types.check_orderable(columns.field(name).type, name)
    if len(set(clustered)) < len(clustered):
        raise InvalidOption(
            "clustering.columns names a column twice", where=where, found=list(clustered), cure="name each column once"
        )


def _check_is_column(option: str, name: str, columns: pa.Schema, where: str) -> None:
    _check_known(name, columns, InvalidOption, f"{option} {name!r} is not a column", where)


def _check_known(name: str, columns: pa.Schema, error: type[LakeError], what: str, where: str) -> None:
    """Raises `error` unless `columns` has a column `name`."""
    if name not in columns.names:
        raise error(what, where=where, expected=f"one of {columns.names}", cure=_near(name, columns.names))


def _check_partition_expiry(fields: Sequence[PartitionColumn], options: Options, where: str) -> None:
    """Raises InvalidOption unless the options of partition expiry fit the partition fields."""
    if options.partitions.expiration_ms is None:
        return
    if not fields:
        raise InvalidOption(
            "partition.expiration-time has no effect: the table has no partitions",
            where=where,
            cure="leave the option out; record-level.expire-time expires single rows",
        )
    pattern = options.partitions.pattern
    named = re.findall(r"\$(\w+)", pattern or "")
    names = [field.name for field in fields]
    if pattern is not None and not any(text.startswith(name) for text in named for name in names):
        raise InvalidOption(
            "partition.timestamp-pattern names no partition column",
            where=where,
            expected=" or ".join(f"${name}" for name in names),
            found=pattern,
            cure="correct the pattern",
        )
    first, tells_time = fields[0], any(field.transform.is_time for field in fields)
    by_values = options.partitions.strategy == VALUES_TIME and pattern is None
    if by_values and not tells_time and first.transform.name in (BUCKET, TRUNCATE) and first.type != pa.string():
        raise InvalidOption(
            "partition.expiration-time has no effect: no partition field tells a time",
            where=where,
            expected="years, months, days or hours of a column, or a first field that holds a time",
            found=first.term,
            cure="partition by such a field, or set partition.expiration-strategy to update-time",
        )


def _check_time_columns(columns: pa.Schema, options: Options, where: str) -> None:
    by_option = {"record-level.time-field": options.retention.row_time_field, "watermark.column": options.tags.watermark_column}
    for option, name in by_option.items():
        if name is None:
            continue
        _check_is_column(option, name, columns, where)
        type_ = columns.field(name).type
        if not (pa.types.is_int32(type_) or pa.types.is_int64(type_) or pa.types.is_timestamp(type_)):
            raise InvalidOption(
                f"{option} {name!r} does not tell a time",
                where=where,
                expected="INT (seconds), BIGINT (seconds or milliseconds) or a timestamp",
                found=type_,
                cure="use another column",
            )
