"""The SQL of the page on DuckDB, run by the reader DuckDB: on a table by its folder, and on one in a REST catalog."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from rest_catalog import rest_catalog

import lsmlake
from lsmlake.cli.docs import DOCUMENTS

PROGRAM = """
from sys import argv
from duckdb_reader import connected
connection = connected("httpfs")
for statement in argv[1].split(";"):
    print(len(connection.execute(statement).fetchall()) if statement.strip() else "")
"""
NUMBERS = [[0, 2, 1, 2], [0, 2]]
"""Of the rows that each statement gives: those now, those of snapshot 1, snapshots; then of the statements for a catalog."""


def run_page(folder: Path, command: Sequence[str]) -> list[str]:
    """What went wrong. `command`: runs the program of the reader."""
    lake = lsmlake.connect(folder / "lake")
    lake.create_database("sales")
    orders = lake.create_table("sales.orders", "order_id INT, status STRING", primary_key=["order_id"])
    orders.upsert([{"order_id": 1, "status": "open"}])
    orders.upsert([{"order_id": 1, "status": "done"}, {"order_id": 2, "status": "open"}], compact=False)
    blocks = re.findall(r"^```sql\n(.*?)^```", DOCUMENTS["duckdb"].read_text(), re.M | re.S)
    with rest_catalog(folder) as address:
        orders.publish_iceberg(catalog={"type": "rest", "uri": address}, name="shop.orders")
        return [
            fault
            for sql, numbers in zip(blocks, NUMBERS, strict=True)
            if (fault := _fault(sql.replace("http://127.0.0.1:8181", address), numbers, folder, command[0]))
        ]


def _fault(sql: str, numbers: list[int], folder: Path, python: str) -> str:
    command = [python, "-c", PROGRAM, sql]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    right = not done.returncode and [int(line) for line in done.stdout.split()] == numbers
    return "" if right else f"{sql}\n{done.stdout}{done.stderr}"
