"""The command line: see the package."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from bench.peers.setup import NotReady
from readers import duckdb_page, serve_page, spark_page, trino_page
from readers.busy import watched
from readers.environments import HOME, READERS, prepare
from readers.judge import judged, told
from readers.tables import BUILDS, add_histories

_READS = 10
"""Of each table by each reader, at least, beside the writer."""
PAGES = (
    ("DuckDB", duckdb_page.run_page),
    ("DuckDB", serve_page.run_duckdb),
    ("Spark", spark_page.run_page),
    ("Spark", serve_page.run_spark),
    ("Trino", trino_page.run_page),
)
"""Reader -> what runs a page of the documents in its environment."""


def main(arguments: list[str]) -> int:
    possible = [name for name, reader in READERS.items() if reader.possible]
    parser = argparse.ArgumentParser(prog="python -m tests.readers", description="Published tables, read by other readers.")
    parser.add_argument("--readers", type=lambda text: text.split(","), default=possible, metavar="NAME,...")
    parser.add_argument("--tables", default="", help="only tables with this text in their names")
    parser.add_argument("--histories", type=int, default=6, help="so many random histories")
    parser.add_argument("--seconds", type=float, default=60, help="of reading beside a writer that expires snapshots, at least")
    parser.add_argument("--home", type=Path, default=HOME, help=f"of environments and jars; default {HOME}")
    parser.add_argument("--keep", action="store_true", help="keep the tables and the answers")
    given = parser.parse_args(arguments)
    try:
        readers = prepare(given.home, [READERS[name] for name in given.readers])
    except NotReady as reason:
        print(reason)
        return 1
    add_histories(range(given.histories))
    folder = Path(tempfile.mkdtemp(prefix="lsmlake-readers-"))
    verdicts = judged(folder, readers, [name for name in BUILDS if given.tables in name])
    print(told(verdicts))
    busy = {name: command for name, command in readers.items() if name != "Polars"}  # it plans with PyIceberg
    seen = watched(folder / "busy", busy, _READS, given.seconds)
    print(*seen, sep="\n")
    mine = [(place, name, page) for place, (name, page) in enumerate(PAGES) if name in readers]
    pages = [fault for place, name, page in mine for fault in page(folder / f"page-{place}", readers[name])]
    print(*pages, sep="\n")
    wrong = bool(pages) or any(one.wrong for one in (*verdicts, *seen))
    if wrong or given.keep:
        print(f"tables, questions and answers: {folder}")
    else:
        shutil.rmtree(folder)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
