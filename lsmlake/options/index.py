"""Options of file indexes: the columns whose values each data file summarises, so that reads leave files out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lsmlake.options.option import When, option
from lsmlake.options.types import boolean, fraction, names, size

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
"""Beginnings of the names of options of Apache Paimon that lsmlake does not have -> what to do instead."""


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
