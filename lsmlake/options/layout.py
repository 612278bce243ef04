"""Options of the layout: which bucket and directory a row belongs to, and whether files have deletion vectors."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.changelog import FULL_COMPACTION
from lsmlake.options.option import Change, When, option
from lsmlake.options.types import AUTO, boolean, buckets, directory_name, integer, names, only_true, positive_size


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
        only=((When("deletion-vectors.enabled", (True,)),),),
    )
    default_partition: str = option(
        "partition.default-name", directory_name, "__DEFAULT_PARTITION__", "directory name of the null partition"
    )

    @property
    def first_buckets(self) -> int:
        """The number of buckets of a partition without files."""
        return 1 if self.buckets == AUTO else self.buckets
