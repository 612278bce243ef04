"""Row limits: drops files from the plan that a limit does not need, and stops reading after enough rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from lsmlake.read.plan import Plan, Split


def limited(plan: Plan, limit: int) -> Plan:
    """Returns the plan with the first splits that certainly hold `limit` rows. With a predicate all splits are kept."""
    if plan.predicate is not None:
        return plan
    kept, rows = [], 0
    for split in plan.splits:
        if rows >= limit:
            break
        split = _first_files(split, limit - rows) if not split.level0 and not split.merged else split
        rows += _rows_at_least(split)
        kept.append(split)
    remaining = replace(plan, splits=tuple(kept))
    return replace(remaining, pruned=(*plan.pruned, (f"limit {limit}", remaining.files)))


def first_rows(tables: Iterator[pa.Table], limit: int) -> Iterator[pa.Table]:
    """Yields the first `limit` rows, then stops reading."""
    for table in tables:
        if limit <= 0:
            return
        yield table.slice(0, min(limit, table.num_rows))  # Arrow rejects lengths of more than 64 bits
        limit -= table.num_rows
        if limit <= 0:
            return


def _first_files(split: Split, rows: int) -> Split:
    kept = []
    for file in split.files:
        if rows <= 0:
            break
        kept.append(file)
        rows -= file.rows - _dead(split, file.name)
    names = {file.name for file in kept}
    return replace(split, files=tuple(kept), vectors={name: ref for name, ref in split.vectors.items() if name in names})


def _rows_at_least(split: Split) -> int:
    """A lower bound without reading: each level-0 row supersedes at most one row of the files."""
    live = sum(file.rows - _dead(split, file.name) for file in split.files)
    return max(0, live - sum(file.rows for file in split.level0))


def _dead(split: Split, name: str) -> int:
    return split.vectors[name].cardinality if name in split.vectors else 0
