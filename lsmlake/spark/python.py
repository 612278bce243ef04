"""The Python interpreter that Spark starts for tasks and data sources."""

from __future__ import annotations

import shutil
import sys

from lsmlake.errors import MissingDependency
from lsmlake.spark.types import is_connect

_DEFAULT = "python3"  # what Spark runs if nobody says otherwise: the first of that name on PATH


def settle_python(spark) -> None:
    """On this machine alone (a local master) Spark runs the interpreter of this process, unless PYSPARK_PYTHON names another.

    The first `python3` on PATH may be any, or none, if this process was started by the full path of its interpreter.
    """
    if is_connect(spark):  # the server decides
        return
    context = spark.sparkContext
    if context.pythonExec == _DEFAULT and context.master.startswith("local") and sys.executable:
        context.pythonExec = sys.executable


def check_python(spark) -> None:
    """Spark plans Python data sources on this machine, by the interpreter of the tasks. Raises MissingDependency if there is none
    of that name."""
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
