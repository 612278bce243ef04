"""`format("lsmlake")` as a class that Spark can load in processes without the package: it brings the package along (`spark.ship`)
and then passes every call to `LakeSource`.

The class is nested in a function, so cloudpickle pickles it by value.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from weakref import WeakKeyDictionary

from pyspark.sql.datasource import DataSource

from lsmlake.spark.python import check_python
from lsmlake.spark.ship import Package, arrival, shipped
from lsmlake.storage.env import Env
from lsmlake.storage.storage import Storage

_NAME = "lsmlake"
_names: WeakKeyDictionary[Storage, str] = WeakKeyDictionary()
"""Storage -> the name of the format that carries it."""


def register(spark) -> None:
    """Registers `format("lsmlake")` in a session."""
    check_python(spark)
    spark.dataSource.register(portable_source(shipped(spark)))


def registered(spark, env: Env) -> str:
    """Registers a format for the tables of a warehouse; returns its name. A warehouse that needs more than its address gets
    its own format, whose class carries the settings of the storage: Spark displays options, but not the class."""
    storage = env.storage
    if storage.by_address:
        register(spark)
        return _NAME
    name = _names.setdefault(storage, f"{_NAME}.{env.ids()}")
    check_python(spark)
    spark.dataSource.register(portable_source(shipped(spark), name, env=env))
    return name


def portable_source(
    package: Package | None, named: str = _NAME, given: Mapping[str, str] = MappingProxyType({}), env: Env | None = None
) -> type[DataSource]:
    """Returns the class of the data source.

    Args:
        package: The package for processes that may lack it; None: all processes have it installed.
        named: The name of the format.
        given: Options that each table of the format has.
        env: The Env of the warehouse; None: an option gives the path of the table.
    """
    arrive, given, pickled = arrival(), dict(given), None if env is None else pickle.dumps(env)

    class PortableSource(DataSource):
        """One table, identified by its directory."""

        @classmethod
        def name(cls):
            return named

        def _source(self):
            arrive(package)
            return import_module("lsmlake.spark.datasource.source").LakeSource({**given, **self.options}, package, pickled)

        def schema(self):
            return self._source().schema()

        def reader(self, schema):
            return self._source().reader(schema)

        def writer(self, schema, overwrite):
            return self._source().writer(schema, overwrite)

        def streamReader(self, schema):
            return self._source().streamReader(schema)

        def streamWriter(self, schema, overwrite):
            return self._source().streamWriter(schema, overwrite)

    return PortableSource
