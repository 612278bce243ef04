"""Parsed SQL as text, as Spark writes it."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from lsmlake.types.spark_types import SparkTypes


def spelled(node: exp.Expression) -> str:
    """The text of a node. Names of functions keep their case; sqlglot logs nothing about what Spark lacks, since the text is for
    names and messages."""
    return node.sql(SparkTypes, unsupported_level=ErrorLevel.IGNORE, normalize_functions=False, comments=False)
