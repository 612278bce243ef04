"""The page of the documents on Trino: its catalog and its SQL, run by the reader Trino, on a table in a REST catalog."""

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
import sys
from trino_server import served
jars, java, properties, sql = sys.argv[1:]
catalog = dict(line.split("=", 1) for line in properties.split())
del catalog["connector.name"]
with served(jars, java, catalog) as connection:
    for statement in filter(str.strip, sql.split(";")):
        try:
            print(len(connection.cursor().execute(statement).fetchall()))
        except Exception as refused:
            print(getattr(refused, "error_name", refused))
"""
NUMBERS = ["1", "1", "2", "2", "2", "3"]
"""Of the rows that each statement of the page gives."""
WRITES = (
    "ALTER TABLE lake.shop.orders EXECUTE remove_orphan_files(retention_threshold => '8d')",
    "ALTER TABLE lake.shop.orders EXECUTE expire_snapshots(retention_threshold => '8d')",
    "ALTER TABLE lake.shop.orders EXECUTE optimize",
    "DELETE FROM lake.shop.orders",
    "DROP TABLE lake.shop.orders",
)
REFUSED = "PERMISSION_DENIED"


def run_page(folder: Path, command: Sequence[str]) -> list[str]:
    """What went wrong. `command`: runs the program of the reader."""
    lake = lsmlake.connect(folder / "lake")
    lake.create_database("sales")
    orders = lake.create_table("sales.orders", "order_id INT, status STRING, amount DOUBLE", primary_key=["order_id"])
    orders.upsert([{"order_id": 1, "status": "open", "amount": 1.5}])
    orders.upsert([{"order_id": number, "status": "done", "amount": 2.0} for number in (1, 2)], compact=False)
    orders.create_tag("eod")
    page = DOCUMENTS["trino"].read_text()
    properties, sql = (re.findall(rf"^```{kind}\n(.*?)^```", page, re.M | re.S)[0] for kind in ("properties", "sql"))
    with rest_catalog(folder) as address:
        orders.publish_iceberg(catalog={"type": "rest", "uri": address}, name="shop.orders")
        python, _, *server = command
        arguments = [python, "-c", PROGRAM, *server, properties.replace("http://127.0.0.1:8181", address), sql + ";".join(WRITES)]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
        done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True)
    found, right = done.stdout.split(), [*NUMBERS, *[REFUSED] * len(WRITES)]
    faults = [] if found == right else [f"{found}, not {right}: {done.stderr[-3_000:]}"]
    return [*faults, *map(str, orders.verify())]
