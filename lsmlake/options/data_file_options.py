"""Options of data files: the bucket and directory of a row, whether deletion vectors mark rows, how files are written, and which
columns have an index, by which reads skip files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from lsmlake.options.changelog_options import FULL_COMPACTION
from lsmlake.options.option import Change, When, option
from lsmlake.options.option_types import (
    AUTO,
    TRUNCATE,
    boolean,
    buckets,
    directory_name,
    fraction,
    integer,
    names,
    one_of,
    only_true,
    positive_size,
    size,
    stats_mode,
)

_WITH_VECTORS = (When("deletion-vectors.enabled", (True,)),)


@dataclass(frozen=True)
class LayoutOptions:
    buckets: int | str = option(
        "bucket",
        buckets,
        AUTO,
        "number of buckets of a new partition. auto (also -1, -2): it begins as one, and compaction splits buckets that grow and"
        " merges those that shrink",
    )
    target_bytes: int = option(
        "bucket.target-size",
        positive_size,
        1 << 30,
        "with bucket = auto: compaction splits a bucket whose live rows have more bytes, and merges two that together have less"
        " than a quarter of it",
        own=True,
        only=((When("bucket", (AUTO,)),),),
    )
    bucket_key: tuple[str, ...] = option(
        "bucket-key",
        names,
        (),
        "columns whose hash selects the bucket; default: the primary key without the partition columns",
        change=Change.WHILE_EMPTY,
    )
    deletion_vectors: bool = option(
        "deletion-vectors.enabled",
        boolean,
        True,
        "compaction marks superseded rows in deletion vectors; without them reads merge. Default under changelog-producer ="
        " full-compaction, and always in Paimon: false",
        change=Change.REWRITES,
        derived=lambda values: values["changelog-producer"] != FULL_COMPACTION,
    )
    wide_vectors: bool = option(
        "deletion-vectors.bitmap64", only_true, True, "vectors have 64-bit positions, as Iceberg's; there are no others"
    )
    vector_files: int = option(
        "deletion-vectors.merge-min-count",
        integer(2),
        16,
        "a compaction that writes vectors merges the vectors of its bucket into one file, if they would lie in so many files",
        own=True,
        only=(_WITH_VECTORS,),
    )

    @cached_property
    def first_buckets(self) -> int:
        """The number of buckets of a partition without files."""
        return 1 if self.buckets == AUTO else self.buckets

    default_partition: str = option(
        "partition.default-name", directory_name, "__DEFAULT_PARTITION__", "directory name of the null partition"
    )


SNAPPY, ZSTD = "snappy", "zstd"
TRUE, FALSE = "true", "false"


@dataclass(frozen=True)
class DataFileOptions:
    target_bytes: int = option(
        "target-file-size", positive_size, 128 << 20, "size at which a data file is closed and the next one begins"
    )
    row_group_bytes: int = option("file.block-size", positive_size, 32 << 20, "uncompressed size of a Parquet row group")
    format: str = option("file.format", one_of("parquet"), "parquet", "format of data files; there is no other")
    compression: str = option(
        "file.compression",
        one_of(AUTO, ZSTD, "lz4", SNAPPY, "none"),
        AUTO,
        "Parquet codec. auto: zstd, but snappy for files of few rows, where zstd takes longest; Paimon: zstd",
    )
    zstd_level: int = option(
        "file.compression.zstd-level",
        integer(1, 22),
        1,
        "level of the zstd codec",
        only=((When("file.compression", (AUTO, ZSTD)),),),
    )
    row_addresses: str = option(
        "file.row-addresses",
        one_of(AUTO, TRUE, FALSE),
        AUTO,
        "whether new data files also hold the address of each row, in a column _lsmlake_row_address, by which Spark masks deleted"
        " rows in half the time. auto: files of many rows do. Programs that read the files themselves see the column. Default"
        " without deletion vectors: false",
        own=True,
        derived=lambda values: AUTO if values["deletion-vectors.enabled"] else FALSE,
        only=(_WITH_VECTORS,),
    )
    stats_mode: str = option(
        "metadata.stats-mode",
        stats_mode,
        TRUNCATE,
        "what manifests keep of each column of a file, so that reads leave files out: nothing (none), the number of nulls"
        " (counts), or also bounds, those of texts and bytes cut to N bytes (truncate(N), truncate) or whole (full)",
    )
    stats_bytes: int = option(
        "metadata.stats-truncate",
        integer(1, 1 << 16),
        16,
        "the N of metadata.stats-mode = truncate",
        own=True,
        only=((When("metadata.stats-mode", (TRUNCATE,)),),),
    )
    stats_columns: int = option(
        "metadata.stats-keep-first-n-columns",
        integer(-1),
        -1,
        "manifests keep statistics of the first n columns only; -1: of all. Key columns, and columns with a stats-mode of their"
        " own, do not count",
    )


BLOOM_COLUMNS = "file-index.bloom-filter.columns"
BITMAP_COLUMNS = "file-index.bitmap.columns"
RANGE_BITMAP_COLUMNS = "file-index.range-bitmap.columns"
_ANY = ((When(BLOOM_COLUMNS), When(BITMAP_COLUMNS), When(RANGE_BITMAP_COLUMNS)),)

NOT_BUILT: Mapping[str, str] = {
    "file-index.bsi.columns": f"set {RANGE_BITMAP_COLUMNS}, which decides the same comparisons",
    "file-index.bloom-filter.": "set file-index.bloom-filter.fpp, which holds for all columns; the number of values is counted",
    "file-index.bitmap.": f"leave it out: an index of {BITMAP_COLUMNS} has no settings",
    "file-index.range-bitmap.": f"leave it out: an index of {RANGE_BITMAP_COLUMNS} has no settings",
}
"""Maps prefixes of the names of Apache Paimon's options that lsmlake does not have to the cure."""


@dataclass(frozen=True)
class IndexOptions:
    bloom_columns: tuple[str, ...] = option(
        BLOOM_COLUMNS,
        names,
        (),
        "new data files get a Bloom filter of these columns: reads with = or IN leave out files that hold none of the values",
    )
    bloom_rate: float = option(
        "file-index.bloom-filter.fpp",
        fraction,
        0.00001,
        "the share of absent values that a filter takes for present; a read of n values needs less than 1/n to leave files out:"
        " the default is meant for a MERGE of 10,000 keys, to which the default of Apache Paimon, 0.1, would be of no use",
        own=True,
        only=((When(BLOOM_COLUMNS),),),
    )
    bitmap_columns: tuple[str, ...] = option(
        BITMAP_COLUMNS,
        names,
        (),
        "new data files get an index of the rows of each value of these columns: any condition on them leaves out files without a"
        " matching row; for columns with few different values in a file",
    )
    range_bitmap_columns: tuple[str, ...] = option(
        RANGE_BITMAP_COLUMNS,
        names,
        (),
        f"the same index as {BITMAP_COLUMNS}, which has few values or many; a column is in one of both",
    )
    enabled: bool = option(
        "file-index.read.enabled", boolean, True, "reads use the indexes that there are; false: they do not look at them"
    )
    in_manifest_bytes: int = option(
        "file-index.in-manifest-threshold",
        size,
        500,
        "a larger index is a file beside its data file, a smaller one is in the manifest",
        only=_ANY,
    )

    @property
    def columns(self) -> frozenset[str]:
        """The columns that have an index."""
        return frozenset({*self.bloom_columns, *self.bitmap_columns, *self.range_bitmap_columns})
