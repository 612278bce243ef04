"""The command line of the measurements: see the package."""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import (
    auto_cdc,
    bloom_merge,
    change_feeds,
    changelog,
    commit_growth,
    compact,
    compact_memory,
    contention,
    dlt_loads,
    embedded_upsert,
    engines,
    event_merges,
    events_out,
    first_row,
    fresh_reads,
    growth,
    iceberg_readers,
    imports,
    interop_reads,
    maintain,
    memory,
    moving_keys,
    object_store,
    partitions,
    patched_columns,
    pipelines,
    planning,
    point_read,
    publish,
    raw_read,
    retained_deletes,
    row_order,
    scale,
    small_upsert,
    sql,
    sql_output,
    sql_tpch,
    tiers,
    upsert,
    view_tables,
)
from bench.peers import cli as peers
from bench.result import Report, markdown, text

WORKLOADS: dict[str, Callable[..., Report]] = {
    "auto_cdc": auto_cdc.run,
    "bloom_merge": bloom_merge.run,
    "change_feeds": change_feeds.run,
    "changelog": changelog.run,
    "commit_growth": commit_growth.run,
    "compact": compact.run,
    "compact_memory": compact_memory.run,
    "contention": contention.run,
    "dlt_loads": dlt_loads.run,
    "embedded_upsert": embedded_upsert.run,
    "engines": engines.run,
    "event_merges": event_merges.run,
    "events_out": events_out.run,
    "first_row": first_row.run,
    "fresh_reads": fresh_reads.run,
    "growth": growth.run,
    "iceberg_readers": iceberg_readers.run,
    "import": imports.run,
    "interop_reads": interop_reads.run,
    "maintain": maintain.run,
    "memory": memory.run,
    "moving_keys": moving_keys.run,
    "object_store": object_store.run,
    "partitions": partitions.run,
    "patched_columns": patched_columns.run,
    "pipelines": pipelines.run,
    "planning": planning.run,
    "point_read": point_read.run,
    "publish": publish.run,
    "raw_read": raw_read.run,
    "retained_deletes": retained_deletes.run,
    "row_order": row_order.run,
    "scale": scale.run,
    "small_upsert": small_upsert.run,
    "sql": sql.run,
    "sql_output": sql_output.run,
    "sql_tpch": sql_tpch.run,
    "upsert": upsert.run,
    "view_tables": view_tables.run,
}


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["peers"]:
        sys.exit(peers.main(arguments[1:]))
    given = _parser().parse_args(arguments)
    if given.workload == "tiers":
        tiers.main(given.scale)
        return
    run = WORKLOADS[given.workload]
    settings = {name: value for name in inspect.signature(run).parameters if (value := getattr(given, name, None)) is not None}
    with tempfile.TemporaryDirectory(prefix="lsmlake-bench-", dir=given.work) as folder:
        report = run(Path(folder), **settings)
    print(markdown(report) if given.markdown else text(report))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Two sides that did the same work, in one run.")
    names = parser.add_subparsers(dest="workload", required=True, metavar="NAME")
    for name, run in WORKLOADS.items():
        one = names.add_parser(name, help=sys.modules[run.__module__].__doc__.splitlines()[0])
        for parameter in list(inspect.signature(run).parameters.values())[1:]:
            kind = type(parameter.default)
            one.add_argument(f"--{parameter.name}", type=kind, metavar=kind.__name__, help=f"default {parameter.default}")
        one.add_argument("--markdown", action="store_true", help="print a section for RESULTS.md")
        one.add_argument("--work", type=Path, help="where the tables lie while it runs; default: where temporary files go")
    names.add_parser("peers", help="lsmlake and what a user would pick instead, on the same work")
    one = names.add_parser("tiers", help=tiers.__doc__.splitlines()[0])
    one.add_argument("--scale", type=float, default=0.1, help="default 0.1")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
