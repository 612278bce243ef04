"""The order of the rows that a compaction of an append-only table writes: by columns in turn, or along a curve through them.

The coordinates of a row on a curve are the places of its values among sampled values of the column. So every column has the same
weight, whatever its type and the distribution of its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lsmlake.files.external_sort import sorted_rows
from lsmlake.kernels.chunks import joined
from lsmlake.kernels.codes import order
from lsmlake.kernels.curves import bits_of, hilbert, zorder
from lsmlake.options.appends import AUTO, HILBERT, ORDER, ZORDER, AppendOptions
from lsmlake.schema.schema import RESERVED

_PLACE = f"{RESERVED}place"
_ZORDER_COLUMNS = 4  # auto: the Hilbert curve from more columns on
_CURVES = {ZORDER: zorder, HILBERT: hilbert}


def strategy_of(options: AppendOptions) -> str:
    """The strategy in effect: `auto` depends on the number of columns."""
    if options.clustering_strategy != AUTO:
        return options.clustering_strategy
    count = len(options.clustering_columns)
    return ORDER if count == 1 else ZORDER if count <= _ZORDER_COLUMNS else HILBERT


def clustered(
    tables: Iterable[pa.Table], sample: pa.Table, schema: pa.Schema, options: AppendOptions, memory_bytes: int
) -> Iterator[pa.Table]:
    """Yields the rows in the order of the options. They may not fit into memory.

    Args:
        tables: The rows, with the columns of `schema`.
        sample: Some values of the clustering columns.
        schema: The columns of the rows.
        options: The options of the table.
        memory_bytes: The memory that the sort may use.
    """
    names, what = options.clustering_columns, "clustering.columns"
    if (strategy := strategy_of(options)) == ORDER:
        yield from sorted_rows(tables, schema, names, memory_bytes, what)
        return
    bits, curve = bits_of(len(names)), _CURVES[strategy]
    borders = [_borders(joined(sample[name]), bits) for name in names]

    def placed(table: pa.Table) -> pa.Table:
        points = [_places(joined(table[name]), of) for name, of in zip(names, borders, strict=True)]
        return table.append_column(_PLACE, pa.array(curve(points, bits)))

    found = sorted_rows(map(placed, tables), schema.append(pa.field(_PLACE, pa.int64())), [_PLACE], memory_bytes, what)
    for table in found:
        yield table.drop_columns([_PLACE])


def _borders(values: pa.Array, bits: int) -> pa.Array:
    """Returns values that cut the sample into at most 2^bits parts of similar size, ascending."""
    values = values.take(pa.array(np.argsort(order(values), kind="stable")))
    count = min(len(values), (1 << bits) - 1)
    return values.take(pa.array(np.linspace(0, len(values) - 1, count).astype(np.int64))) if count else values


def _places(values: pa.Array, borders: pa.Array) -> np.ndarray:
    """Returns the number of borders that are less than or equal to each value."""
    ranks = order(pa.concat_arrays([borders, values]))
    return np.searchsorted(ranks[: len(borders)], ranks[len(borders) :], side="right")


def sampled(tables: Sequence[pa.Table], rows: int) -> pa.Table:
    """Returns about `rows` rows, evenly spread."""
    table = pa.concat_tables(tables)
    step = max(1, table.num_rows // rows)
    return table.take(pa.array(np.arange(0, table.num_rows, step)))
