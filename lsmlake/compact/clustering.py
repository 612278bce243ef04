"""The order in which a compaction of an append-only table writes rows: by one column after the other, or along a curve through
all columns.

The coordinates of a row on a curve are the places of its values among sampled values of the column. So every column has the same
weight, whatever its type and the distribution of its values.

Points that are near each other get near numbers along the Z-order or the Hilbert curve. DuckDB sorts the rows, which may not fit
into memory, and spills to local disk.

Sources: Morton order (interleaved bits); J. Skilling, "Programming the Hilbert curve", 2004.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lsmlake.dialect.connection import connected, memory_limit, registered
from lsmlake.dialect.sql_types import quoted
from lsmlake.kernels.codes import order
from lsmlake.kernels.keys import joined
from lsmlake.options.compaction_options import AUTO, HILBERT, ORDER, ZORDER, AppendOptions
from lsmlake.schema.schema import RESERVED

_CODE_BITS = 63


def bits_of(columns: int) -> int:
    """Bits per coordinate of a point with so many coordinates, so that a number fits into an int64."""
    return max(1, min(16, _CODE_BITS // columns))


def zorder(points: Sequence[np.ndarray], bits: int) -> np.ndarray:
    """Returns the number of each point on the Z-order curve: the bits of its coordinates, interleaved, as int64.

    `points`: one array per coordinate, integers from 0 to 2^bits - 1.
    """
    codes = np.zeros(len(points[0]), np.int64)
    for bit in range(bits - 1, -1, -1):
        for coordinate in points:
            codes = (codes << 1) | ((coordinate >> bit) & 1)
    return codes


def hilbert(points: Sequence[np.ndarray], bits: int) -> np.ndarray:
    """Returns the number of each point on the Hilbert curve, as int64. Neighbours on the curve are neighbours in space. `points`:
    as for `zorder`."""
    x = [np.asarray(coordinate, np.int64).copy() for coordinate in points]
    for bit in range(bits - 1, 0, -1):  # undo the rotations and reflections of the curve, from the coarsest cube inwards
        low = (1 << bit) - 1
        for i in range(len(x)):
            inverted = (x[i] >> bit) & 1 == 1
            exchanged = (x[0] ^ x[i]) & low
            x[0] = np.where(inverted, x[0] ^ low, x[0] ^ exchanged)
            x[i] = np.where(inverted, x[i], x[i] ^ exchanged)
    for i in range(1, len(x)):  # Gray code
        x[i] = x[i] ^ x[i - 1]
    turned = np.zeros(len(x[0]), np.int64)
    for bit in range(bits - 1, 0, -1):
        turned = np.where((x[-1] >> bit) & 1 == 1, turned ^ ((1 << bit) - 1), turned)
    return zorder([coordinate ^ turned for coordinate in x], bits)


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

    chunks = sorted_rows(map(placed, tables), schema.append(pa.field(_PLACE, pa.int64())), [_PLACE], memory_bytes, what)
    for table in chunks:
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


_BATCH_ROWS = 1 << 16


def sorted_rows(
    tables: Iterable[pa.Table], schema: pa.Schema, by: Sequence[str], memory_bytes: int, what: str
) -> Iterator[pa.Table]:
    """Yields all rows in ascending order of the columns `by`; nulls come first and NaN is the greatest float, as in Spark.

    Args:
        tables: The rows, all with the columns of `schema`.
        schema: The columns.
        by: The columns to sort by, the most significant first.
        memory_bytes: The memory that the sort may use; it spills beyond that.
        what: The feature that sorts, for the error if DuckDB is missing.

    Raises:
        MissingDependency: DuckDB is not installed.
        EngineFailed: The memory or the local disk does not suffice.
    """
    batches = (batch for table in tables for batch in table.to_batches())
    with connected("UTC", what) as connection, registered(connection, "rows", schema, batches):
        connection.execute(f"SET memory_limit = '{memory_limit(memory_bytes)}'; SET preserve_insertion_order = false")
        order = ", ".join(f"{quoted(name)} ASC NULLS FIRST" for name in by)
        held: list[pa.RecordBatch] = []
        for batch in connection.sql(f"SELECT * FROM rows ORDER BY {order}").to_arrow_reader():
            held.append(batch)
            if sum(each.num_rows for each in held) >= _BATCH_ROWS:
                yield pa.Table.from_batches(held).cast(schema)
                held = []
        if held:
            yield pa.Table.from_batches(held).cast(schema)
