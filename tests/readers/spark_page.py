"""The page of the documents on Spark with Iceberg's jar: its code runs, in the environment of the reader."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

import lsmlake
from lsmlake.cli.docs import DOCUMENTS

_WRITES = """
spark.sql("INSERT INTO lake.`sales.db`.orders VALUES (9, 'theirs', 1.0)")
try:
    spark.sql("CALL lake.system.expire_snapshots(table => '`sales.db`.orders', retain_last => 1)").collect()
    raise SystemExit("expire_snapshots did not refuse")
except Exception as refused:
    assert "GC is disabled" in str(refused), refused
"""


def run_page(folder: Path, command: Sequence[str]) -> list[str]:
    """What went wrong. `command`: runs the program of the reader."""
    lake = lsmlake.connect(folder / "lake")
    lake.create_database("sales")
    columns = pa.schema([("order_id", pa.int64()), ("status", pa.string()), ("amount", pa.float64())])
    orders = lake.create_table("sales.orders", columns, primary_key=["order_id"], options={"metadata.iceberg": "true"})
    for status in ("new", "open"):
        orders.upsert(pa.table({"order_id": [1, 2], "status": [status, status], "amount": [5.0, 15.0]}))
    orders.create_tag("eod")
    code = "\n".join(re.findall(r"```python\n(.*?)```", DOCUMENTS["spark_iceberg"].read_text(), re.DOTALL))
    (folder / "page.py").write_text(code + _WRITES)
    quiet = "--conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false --conf spark.log.level=ERROR pyspark-shell"
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": quiet}
    done = subprocess.run([command[0], "page.py"], cwd=folder, capture_output=True, text=True, env=environment)
    if done.returncode:
        return [done.stdout[-500:] + done.stderr[-3_000:]]
    orders.upsert(pa.table({"order_id": [3], "status": ["new"], "amount": [1.0]}))
    return [str(finding) for finding in orders.verify()]
