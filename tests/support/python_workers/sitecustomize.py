"""Imports in the parent of Spark's Python workers what each of them needs: a worker is a fork, and would take 0.6 s of processor
time to import all of it again. Python itself imports a module of this name as it starts, where its folder is on PYTHONPATH.

Only the tests do so, and only for the workers of tasks: those that plan a data source are rarely made again. PySpark imports
after the fork because packages may have started threads, which a fork does not have: those imported here have none or start
them anew.
"""

import importlib
import importlib.util
import sys

_PACKAGES = {
    "pyarrow": ["pyarrow.compute", "pyarrow.parquet", "pyarrow.dataset"],
    "pandas": ["pandas"],
    "pyspark": ["pyspark.worker", "pyspark.sql.pandas.serializers"],
    "lsmlake": ["lsmlake.spark.tasks", "lsmlake.spark.task_reads"],
}

if sys.orig_argv[1:4] == ["-m", "pyspark.daemon", "pyspark.worker"]:
    for _package, _modules in _PACKAGES.items():
        if importlib.util.find_spec(_package) is not None:  # some tests have workers without lsmlake
            for _module in _modules:
                importlib.import_module(_module)
