"""The command line of the pipelines: see the package."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from pipelines import mariadb, postgres
from pipelines.databases import Missing
from pipelines.processes import way as files
from pipelines.recording import record
from pipelines.registries import prove
from pipelines.run import Settings, Way, run

SERVERS = {"postgres": postgres.server, "mariadb": mariadb.server}


def _way(name: str) -> Way:
    if name == "files":
        return files
    from pipelines.kafka import way

    return way


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pipelines", description="A database, killed processes, a lake.")
    parser.add_argument("--database", choices=SERVERS, default="postgres", help="the server")
    parser.add_argument("--through", choices=("files", "kafka"), default="files", help="the way of the events to the lake")
    parser.add_argument("--seconds", type=float, default=60, help="how long the bank works in all")
    parser.add_argument("--points", type=int, default=3, help="how many quiet points there are")
    parser.add_argument("--seed", type=int, default=0, help="decides what the bank does, and when processes are killed")
    parser.add_argument("--registry", action="store_true", help="instead, events in Avro beside a registry of schemas")
    parser.add_argument("--record", type=int, default=0, help="record the events of so many things that the bank does")
    folder = Path(tempfile.mkdtemp(prefix="lsmlake-pipelines-"))
    try:
        given = vars(parser.parse_args(arguments))
        name, through, works, registry = (given.pop(one) for one in ("database", "through", "record", "registry"))
        if registry:
            if len(arguments) > 1:
                parser.error("--registry has a run of its own: leave the other options out")
            print(prove(folder))
            shutil.rmtree(folder)
            return 0
        if works:
            if through != "files":
                parser.error("--record takes the events from files: leave --through out")
            print(record(SERVERS[name], name, works, given["seed"], folder))
            shutil.rmtree(folder)
            return 0
        report = run(SERVERS[name], _way(through), Settings(**given), folder)
    except Missing as missing:
        parser.error(str(missing))
    print(report)
    if report.faults:
        print(f"logs and tables: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
