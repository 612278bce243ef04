"""Executes one statement: reads its first word, binds the parameters and calls what carries it out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.lake import Lake
from lsmlake.dialect.literals import bind
from lsmlake.dialect.text import Text
from lsmlake.sql.catalog import Catalog
from lsmlake.sql.select import explained, prepare, run

Args = Mapping[str, object] | Sequence[object] | None


def execute(lake: Lake, given: str, args: Args, tables: Mapping[str, object]) -> pa.Table:
    """The rows of a statement. Raises InvalidQuery before anything happens if the statement is not supported."""
    explain, rest = _explained(given)
    text = Text(rest)
    node = bind(text.statement(), args, text)
    catalog = Catalog(lake, text, {name.lower(): data for name, data in tables.items()})
    now = dt.datetime.fromtimestamp(lake.env.clock() / 1000, dt.timezone.utc).isoformat(sep=" ")
    if isinstance(node, exp.Query):
        prepared = prepare(node, text, catalog, f"'{now}'")
        return pa.table({"plan": pa.array(explained(prepared), pa.string())}) if explain else run(prepared)
    text.refuse(node, "this statement is not supported")


def _explained(text: str) -> tuple[bool, str]:
    """Whether the text begins with EXPLAIN, and the statement, whose positions are kept."""
    stripped = text.lstrip()
    if stripped[:7].upper() != "EXPLAIN" or stripped[7:8].strip():
        return False, text
    return True, " " * (len(text) - len(stripped) + 7) + stripped[7:]
