"""Columns of every kind for an analysis, and what it found."""

from __future__ import annotations

from strategies import KINDS

from lsmlake.api.table import Table

VALUES = {name.lower().replace("(", "_").replace(",", "_").rstrip(")"): kind for name, kind in KINDS.items() if " " not in name}


def statistics(table: Table, **at: object) -> dict:
    (row,) = table.system_table("statistics", **at).to_pylist(maps_as_pydicts="strict")
    return row
