"""Append-only tables for tests: their naive model is a list of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from strategies import Shape, multiset, seen

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table

KINDS: Mapping[str, Mapping[str, object]] = {
    "vectors": {},
    "copy on write": {"deletion-vectors.enabled": "false"},
    "buckets": {"bucket": 3, "bucket-key": "k0"},
}
"""Kinds of append-only tables, as options."""
SMALL = {"target-file-size": "1 kb", "file.block-size": "200 b", "manifest.merge-min-count": 2, "compaction.min.file-num": 2}


def create(lake: Lake, shape: Shape, **options: object) -> Table:
    partition_by = ["p"] if shape.partition else []
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return lake.create_table("d.t", shape.ddl, partition_by=partition_by, options=named)


def batch(shape: Shape, table: Table, codes: Iterable[tuple[int, int]], stamp: int = 0) -> pa.Table:
    return shape.table([shape.row(key, value, stamp) for key, value in codes], table.schema)


def bag(rows: Iterable[tuple]) -> list[tuple]:
    """Rows in any order, each as often as it occurs."""
    return multiset([tuple(map(seen, row)) for row in rows])
