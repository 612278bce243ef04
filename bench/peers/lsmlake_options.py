"""lsmlake's options, the same on Spark and without it."""

from __future__ import annotations

from bench.peers.base import BUCKETS, Wanted

OPTIONS = {"bucket": str(BUCKETS)}
_ENGINES = {"upsert": "deduplicate", "partial": "partial-update"}


def options_for(wanted: Wanted) -> dict[str, str]:
    options = {**OPTIONS, "merge-engine": _ENGINES.get(wanted.engine, wanted.engine)}
    if wanted.engine == "aggregation":
        options |= {f"fields.{name}.aggregate-function": "sum" for name in wanted.summed}
    if wanted.changes:
        options["changelog-producer"] = "lookup"
    return options
