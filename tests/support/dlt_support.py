"""Pipelines that load into a warehouse, and the rows that they should find there."""

from __future__ import annotations

from pathlib import Path

import dlt

import lsmlake
import lsmlake.dlt
from lsmlake.api.lake import Lake

MERGE = {"table_name": "orders", "primary_key": "k", "write_disposition": "merge"}
MERGED = {"data": [{"k": 1, "v": 3, "items": []}, {"k": 3, "v": 3, "items": [{"n": 7}]}], **MERGE}


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
