"""`format("lsmlake")` as a class that Spark can load in processes without the package: it brings the package along (`spark.ship`)
and then passes every call to the data source of `spark.source`.

The class is nested in a function, so cloudpickle pickles it by value.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from pyspark.sql.datasource import DataSource

from lsmlake.spark.python import check_python
from lsmlake.spark.ship import Package, arrival, shipped

_NAME = "lsmlake"


def register(spark) -> None:
    """Registers `format("lsmlake")` in a session."""
    check_python(spark)
    spark.dataSource.register(portable_source(shipped(spark)))


def portable_source(
    package: Package | None, named: str = _NAME, given: Mapping[str, str] = MappingProxyType({})
) -> type[DataSource]:
    """Returns the class of the data source.

    Args:
        package: The package for processes that may lack it; None: it is installed there.
        named: The name of the format.
        given: Options that each table of the format has.
    """
    arrive, given = arrival(), dict(given)

    class PortableSource(DataSource):
        """One table, identified by its directory."""

        @classmethod
        def name(cls):
            return named

        def _source(self):
            arrive(package)
            return import_module("lsmlake.spark.source").LakeSource({**given, **self.options}, package)

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
