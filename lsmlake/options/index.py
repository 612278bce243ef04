"""Options of file indexes: the columns whose values each data file summarises, so that reads leave files out."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.option import When, option
from lsmlake.options.types import fraction, names, size

BLOOM_COLUMNS = "file-index.bloom-filter.columns"
_ONLY = ((When(BLOOM_COLUMNS),),)


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
        0.1,
        "the share of absent values that a filter takes for present; a read of n values needs less than 1/n to leave files out",
        own=True,
        only=_ONLY,
    )
    in_manifest_bytes: int = option(
        "file-index.in-manifest-threshold",
        size,
        500,
        "a larger index is a file beside its data file, a smaller one is in the manifest",
        only=_ONLY,
    )
