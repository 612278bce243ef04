"""Python beside Spark: the interpreter for tasks and data sources, and the threads of this process."""

from __future__ import annotations

import os
import shutil
import sys

from lsmlake.errors import MissingDependency
from lsmlake.spark.frame_types import is_connect

_DEFAULT = "python3"  # Spark's default: the first on PATH


def settle_python(spark) -> None:
    """With a local master, makes Spark run the interpreter of this process, unless PYSPARK_PYTHON is set. The first `python3` on
    PATH may be another interpreter, or may not exist."""
    if is_connect(spark):  # the server decides
        return
    context = spark.sparkContext
    if context.pythonExec == _DEFAULT and context.master.startswith("local") and sys.executable:
        context.pythonExec = sys.executable


def check_python(spark) -> None:
    """Raises MissingDependency if the interpreter of the tasks does not exist on this machine, where Spark plans Python data
    sources."""
    settle_python(spark)
    if is_connect(spark) or shutil.which(spark.sparkContext.pythonExec):
        return
    raise MissingDependency(
        "Spark cannot start its Python interpreter on this machine",
        where="PYSPARK_PYTHON",
        expected="a program, by its path or on PATH",
        found=repr(spark.sparkContext.pythonExec),
        cure=f"set PYSPARK_PYTHON={sys.executable}, if that path is right on every machine, before the session starts",
    )


def threads_are_pinned() -> bool:
    """Whether a thread of Python has a thread of the JVM to itself, so that what it sets for its jobs is for them only. True
    unless the user turned it off."""
    return os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "true"
