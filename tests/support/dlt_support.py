"""Pipelines that load into a warehouse, and the rows that they should find there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dlt

import lsmlake
import lsmlake.dlt
from lsmlake.api.lake import Lake

MERGE = {"table_name": "orders", "primary_key": "k", "write_disposition": "merge"}
MERGED = {"data": [{"k": 1, "v": 3, "items": []}, {"k": 3, "v": 3, "items": [{"n": 7}]}], **MERGE}

DAYS = [(1, "a", 5), (2, "a", 5), (3, "b", 5), (4, None, 5)]
"""k, day and v of rows for `days` and `both`."""
DAYS_LATER = [(2, "a", 3), (5, "a", 1)]


def days(found: list[tuple], *, name: str = "days", items: bool = False, options: Mapping[str, object] | None = None) -> Any:
    """A resource that is merged by the key k and the merge key `day`. The column v orders the rows of a key, unless other
    `options` are given. `items`: each row has a nested row."""
    data = [{"k": k, "day": day, "v": v, **({"items": [{"n": v}]} if items else {})} for k, day, v in found]
    hints = {"day": {"merge_key": True}}
    merged = dlt.resource(data, name=name, primary_key="k", columns=hints, write_disposition="merge")
    return lsmlake.dlt.adapter(merged, options={"sequence.field": "v"} if options is None else options)


def both(found: list[tuple]) -> list:
    """Two tables for one load: `days`, whose rows have a sequence, and `orders`, whose rows have nested rows."""
    return [days(found), days(found, name="orders", items=True, options={})]


def pipeline(folder: Path, name: str = "shop", work: str = "work", **more: object) -> dlt.Pipeline:
    """A pipeline to the dataset `sales` in `folder`/lake. `work`: its working directory."""
    where = lsmlake.dlt.destination(str(folder / "lake"))
    return dlt.pipeline(name, destination=where, dataset_name="sales", pipelines_dir=str(folder / work), **more)


def lake_of(folder: Path) -> Lake:
    return lsmlake.connect(folder / "lake")


def rows(folder: Path, table: str, *columns: str) -> list[tuple]:
    """The rows of a table of the dataset, sorted."""
    found = lake_of(folder).table(f"sales.{table}").scan(columns=list(columns) or None).to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def commits(folder: Path, table: str) -> list[str]:
    """The writers of the commits of loads to a table, oldest first."""
    listed = lake_of(folder).table(f"sales.{table}").snapshots().to_pylist()
    writers = [row["writer_id"] for row in sorted(listed, key=lambda row: row["snapshot_id"]) if row["commit_kind"] != "COMPACT"]
    return [writer for writer in writers if writer.startswith("dlt-")]
