"""lsmlake's options, the same on Spark and without it."""

from __future__ import annotations

from bench.peers.base import BUCKETS, Wanted

OPTIONS = {"bucket": str(BUCKETS)}
LAYOUTS = {"key": OPTIONS, "append": {}, "rewrite": {"deletion-vectors.enabled": "false"}}
"""A primary key in buckets, or none: then rows are marked in deletion vectors or their files are written again."""
_ENGINES = {"upsert": "deduplicate", "partial": "partial-update"}


def definition(wanted: Wanted, layout: str) -> dict[str, object]:
    """The arguments of `create_table` beside name and schema."""
    if layout != "key":
        return {"options": LAYOUTS[layout]}
    return {"primary_key": [wanted.key], "options": _options(wanted)}


def _options(wanted: Wanted) -> dict[str, str]:
    options = {**OPTIONS, "merge-engine": _ENGINES.get(wanted.engine, wanted.engine)}
    if wanted.engine == "aggregation":
        options |= {f"fields.{name}.aggregate-function": "sum" for name in wanted.summed}
    if wanted.changes:
        options["changelog-producer"] = "lookup"
    return options
