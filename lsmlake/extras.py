"""Optional packages: the extra that installs each, and the error if one is missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from lsmlake.errors import MissingDependency

EXTRA_OF = {
    "pyspark": "spark",
    "pandas": "pandas",
    "polars": "polars",
    "duckdb": "duckdb",
    "datasketches": "sketches",
    "obstore": "stores",
    "fastavro": "iceberg",
    "pyiceberg": "iceberg",
    "deltalake": "delta",
    "python_calamine": "excel",
    "prometheus_client": "metrics",
    "starlette": "serve",
    "uvicorn": "serve",
    "dlt": "dlt",
    "dbt": "dbt",
}
"""Importable package -> the extra of lsmlake that installs it."""


def need(package: str, what: str, *, extra: str | None = None) -> ModuleType:
    """Imports an optional package.

    Args:
        package: the package to import, or a module of it.
        what: the feature that needs it, for the error message.
        extra: the extra that the error message recommends. Default: the extra of the package.

    Raises:
        MissingDependency: the package is not installed. The cure is the command that installs the extra, or the package if no
            extra does.
    """
    try:
        return import_module(package)
    except ImportError as missing:
        top = package.partition(".")[0]
        raise MissingDependency(
            f"{what} needs the package {top}",
            found=missing,
            cure=f'run: pip install "lsmlake[{extra}]"' if (extra := extra or EXTRA_OF.get(top)) else f"run: pip install {top}",
        ) from missing


def need_spark(what: str, *, extra: str = "spark") -> None:
    """Imports PySpark, and pandas, which the Arrow functions of PySpark import. Arguments as for `need`.

    Raises:
        MissingDependency: one of them is not installed.
    """
    for package in ("pyspark", "pandas"):
        need(package, what, extra=extra)
