"""How much of each table a query leaves out before it reads rows: snapshot, partitions, keys, statistics, indexes, rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from lsmlake.read.plan import Plan
from lsmlake.read.prune import by_partition
from lsmlake.sql.run_query import Prepared
from lsmlake.types.spelling import spelled


def funnels(prepared: Prepared) -> list[dict[str, Any]]:
    """For each table of a query: the files, and where they are known the rows, that each step leaves."""
    named = (".".join(part.name for part in use.node.parts) for use in prepared.uses)
    return [
        {
            "table": name,
            "where": " AND ".join(spelled(condition) for condition in use.conditions) or None,
            **(_of_plan(rows) if isinstance(rows, Plan) else _of_memory(rows)),
        }
        for name, use, rows in zip(named, prepared.uses, prepared.plans, strict=True)
    ]


def _of_memory(rows: object) -> dict[str, Any]:
    count = rows.num_rows if isinstance(rows, pa.Table) else None
    return {"snapshot": None, "columns": None, "steps": [_step("rows", None, count)]}


def _of_plan(plan: Plan) -> dict[str, Any]:
    return {
        "snapshot": plan.snapshot.id if plan.snapshot else None,
        "columns": list(plan.columns),
        "steps": list(_steps(plan)),
    }


def _steps(plan: Plan) -> Iterator[dict[str, Any]]:
    """The steps of a plan. `partitions` is found again here, since the plan prunes by partitions and keys in one step."""
    first, *later = plan.pruned
    live = plan.version.live() if plan.snapshot else None
    rows = np.zeros(0, np.int64) if live is None else live["rows"].to_numpy()
    yield _step(first[0], first[1], int(rows.sum()))
    if live is not None and plan.predicate is not None and plan.version.schema.all_partition_columns:
        kept = by_partition(live, plan.version.schema, plan.predicate)
        yield _step("partitions", int(np.count_nonzero(kept)), int(rows[kept].sum()))
    for name, files in later:
        yield _step(name, files, None)
    read = plan.data_files
    dead = plan.dead_rows
    yield {
        **_step("read", len(read), sum(file.rows for file in read)),
        "bytes": sum(file.bytes for file in read),
        "dead": dead,
        "level0": sum(file.rows for split in plan.splits for file in split.level0),
    }


def _step(name: str, files: int | None, rows: int | None) -> dict[str, Any]:
    return {"step": name, "files": files, "rows": rows}
