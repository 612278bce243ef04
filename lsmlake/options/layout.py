"""Options of the layout: which bucket and directory a row belongs to, and whether files have deletion vectors."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.changelog import FULL_COMPACTION
from lsmlake.options.option import Change, When, option
from lsmlake.options.types import boolean, directory_name, integer, names, only_true


@dataclass(frozen=True)
class LayoutOptions:
    buckets: int = option("bucket", integer(1, 32_767), 1, "number of buckets of a partition", change=Change.WHILE_EMPTY)
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
