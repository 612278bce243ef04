"""`lsmlake.ship(spark)` is sufficient where Spark runs Python without lsmlake installed, streams included."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from spark_support import python_without_lsmlake

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]

PROGRAM = Path(__file__).parents[1] / "support" / "shipped_program.py"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return python_without_lsmlake(tmp_path_factory.mktemp("python") / "environment")


def run(folder: Path, *command: str, **environment: str) -> str:
    """The last line that a program writes."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    with (folder / "log").open("w") as log:
        how = {"stdout": subprocess.PIPE, "stderr": log, "cwd": folder, "env": inherited | environment, "text": True}
        done = subprocess.run(command, timeout=600, check=False, **how)
    assert done.returncode == 0, (folder / "log").read_text()[-3000:]
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_a_package_that_is_shipped_reaches_every_process(python, tmp_path, kind):
    (tmp_path / "spark").mkdir()
    found = json.loads(run(tmp_path, sys.executable, str(PROGRAM), str(tmp_path), python, kind))
    assert "call lsmlake.ship(spark)" in found["nothing"], "the workers had it already: the test proves nothing"
    assert found["shipped"] == ""


UNNAMED = """
import sys
from pathlib import Path
from spark_support import settings
from pyspark.sql import SparkSession
import lsmlake

folder = Path(sys.argv[1])
builder = SparkSession.builder.master("local[2]")
for name, value in settings(folder / "spark").items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
lake = lsmlake.connect(folder / "warehouse", spark=spark)
lake.create_database("d")
table = lake.create_table("d.t", "id BIGINT NOT NULL", primary_key=["id"], options={"write.collect-rows": 0})
table.upsert(spark.range(10))
spark.sparkContext.pythonExec = "python-that-is-not-there"
try:
    table.read_stream()
except lsmlake.errors.LakeError as error:
    assert "set PYSPARK_PYTHON=" in str(error), error
spark.sparkContext.pythonExec = "python3"
writer = table.read_stream().writeStream.format("memory").queryName("q").option("checkpointLocation", str(folder / "c"))
writer.trigger(availableNow=True).start().awaitTermination()
print(spark.table("q").count())
"""


def test_workers_run_the_interpreter_of_the_program(tmp_path):
    """Started by its full path, with another `python3` on PATH, or none."""
    (tmp_path / "spark").mkdir()
    java = Path(shutil.which("java") or Path(os.environ["JAVA_HOME"], "bin", "java")).parent
    path = os.pathsep.join(["/usr/bin", "/bin", str(java)])
    assert shutil.which("python3", path=path) != sys.executable
    done = run(tmp_path, sys.executable, "-c", UNNAMED, str(tmp_path), PATH=path, PYTHONPATH=str(PROGRAM.parent))
    assert done == "10"
