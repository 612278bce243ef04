"""Chooses how Parquet stores the leaves of a data file: dictionary, delta encoding, statistics.

PyArrow takes these options by dotted path, and two leaves can share a path: `a.b` is a column of that name, or field b of the
struct a. An option is set for a path only if it suits every leaf with that path.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lsmlake.format.manifest import has_order
from lsmlake.kernels.nested import Leaf, leaves
from lsmlake.types.table import is_time

_SAMPLE_ROWS = 1 << 12
_DISTINCT_SHARE = 0.985  # in the sample; implies about 140,000 values in all, which exceed Parquet's dictionary limit


class Layout(NamedTuple):
    """The dotted paths for each option. `unbounded`: columns with an order that get no statistics in the file."""

    dictionary: list[str]
    delta: list[str]
    statistics: list[str]
    unbounded: frozenset[str]


def layout(schema: pa.Schema, key: Collection[str], first: pa.Table, nan_columns: Collection[str]) -> Layout:
    """Choose the layout of a file of `schema`. `first`: its first rows; `nan_columns`: float columns that may hold a NaN.

    Parquet writers omit NaN from the bounds, so a reader that orders NaN last, as Spark does, would skip row groups that match.
    Therefore a column with a NaN gets no statistics, and neither does a float inside a struct, list or map.
    """
    paths, stored = leaf_paths(schema), leaves(schema)
    names = [schema.names[leaf.column] for leaf in stored]
    delta = [not leaf.nested and name in key and _integer_kind(leaf.type) for leaf, name in zip(stored, names, strict=True)]
    unique = _unique(first, [name for d, leaf, name in zip(delta, stored, names, strict=True) if not (d or leaf.nested)])
    repeats = [not d and (leaf.nested or name not in unique) for d, leaf, name in zip(delta, stored, names, strict=True)]
    bounded = [_bounded(leaf, name, nan_columns) for leaf, name in zip(stored, names, strict=True)]
    statistics = _suiting(paths, bounded)
    known = {name for path, leaf, name in zip(paths, stored, names, strict=True) if path in statistics and not leaf.nested}
    ordered = {field.name for field in schema if has_order(field.type)}
    return Layout(_suiting(paths, repeats), _suiting(paths, delta), statistics, frozenset(ordered - known))


def _suiting(paths: Sequence[str], suits: Sequence[bool]) -> list[str]:
    """The distinct paths whose leaves all suit."""
    bad = {path for path, good in zip(paths, suits, strict=True) if not good}
    return [path for path in dict.fromkeys(paths) if path not in bad]


def _bounded(leaf: Leaf, name: str, nan_columns: Collection[str]) -> bool:
    return not pa.types.is_floating(leaf.type) if leaf.nested else name not in nan_columns


def _integer_kind(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or is_time(type_)


def _unique(first: pa.Table, names: Collection[str]) -> set[str]:
    """The columns that a dictionary would not shrink, estimated from the first rows. Otherwise the Parquet writer would build a
    useless dictionary, take twice the time, and keep it in the file."""
    sample = first.slice(0, _SAMPLE_ROWS)
    return {name for name in names if len(pc.unique(sample[name]).drop_null()) > _DISTINCT_SHARE * sample.num_rows}


@lru_cache(maxsize=64)
def _leaf_paths(serialized: bytes) -> tuple[str, ...]:
    schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink, store_schema=False)
    parquet = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return tuple(parquet.column(i).path for i in range(len(parquet.names)))


def leaf_paths(schema: pa.Schema) -> tuple[str, ...]:
    """The dotted paths of the leaves, in the order of `kernels.nested`; not always unique."""
    return _leaf_paths(schema.serialize().to_pybytes())
