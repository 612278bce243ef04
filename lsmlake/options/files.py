"""Options of data files: sizes, compression and statistics."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.option import When, option
from lsmlake.options.types import integer, one_of, positive_size

ZSTD = "zstd"


@dataclass(frozen=True)
class FileOptions:
    target_bytes: int = option(
        "target-file-size", positive_size, 128 << 20, "size at which a data file is closed and the next one begins"
    )
    row_group_bytes: int = option("file.block-size", positive_size, 32 << 20, "uncompressed size of a Parquet row group")
    format: str = option("file.format", one_of("parquet"), "parquet", "format of data files; there is no other")
    compression: str = option("file.compression", one_of(ZSTD, "lz4", "snappy", "none"), ZSTD, "Parquet codec")
    zstd_level: int = option(
        "file.compression.zstd-level", integer(1, 22), 1, "level of the zstd codec", only=((When("file.compression", (ZSTD,)),),)
    )
    stats_bytes: int = option(
        "metadata.stats-truncate", integer(1, 1 << 16), 16, "bytes of string bounds that manifests keep", own=True
    )
