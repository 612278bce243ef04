"""The command line: see the package."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from bench.peers.setup import NotReady
from spark_sql import beside
from spark_sql.again import asked_again
from spark_sql.golden import files
from spark_sql.run import golden
from spark_sql.session import session
from spark_sql.tpcds import HOME, tpcds
from spark_sql.verdict import FOREIGN, WRONG, Outcome, by_file, by_reason, share, told


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark_sql", description="SQL of this process, beside Spark's.")
    parser.add_argument("what", choices=("golden", "random", "tpcds"))
    parser.add_argument("--only", default="", help="only files or queries with this text in their names")
    parser.add_argument("--seed", type=int, default=0, help="decides the layouts of the tables, and is the first of random ones")
    parser.add_argument(
        "--ask", action="store_true", help="ask the installed PySpark where a golden file, of another one, differs"
    )
    parser.add_argument("--queries", type=int, default=300, help="so many random ones")
    parser.add_argument("--changes", type=int, default=60, help="so many random statements that change rows")
    parser.add_argument("--home", type=Path, default=HOME, help=f"of TPC-DS's rows and Spark's answers; default {HOME}")
    parser.add_argument("--to", type=Path, help="write the tables to files of this folder: table, refused, wrong")
    given = parser.parse_args(arguments)
    try:
        outcomes = list(_outcomes(given))
    except NotReady as reason:
        print(reason)
        return 1
    wrong = [one for one in outcomes if one.kind in (WRONG, FOREIGN)]
    found = {"table": [*by_file(outcomes), share(outcomes)], "refused": by_reason(outcomes), "wrong": list(map(told, wrong))}
    for name, lines in found.items():
        if given.to:
            given.to.mkdir(parents=True, exist_ok=True)
            (given.to / f"{name}.txt").write_text("\n".join(lines) + "\n")
        else:
            print(*lines, "", sep="\n")
    return int(bool(wrong))


def _outcomes(given: argparse.Namespace) -> Iterator[Outcome]:
    if given.what == "golden":
        return _golden(given)
    if given.what == "random":
        return _random(given)
    given.home.mkdir(parents=True, exist_ok=True)
    return tpcds(given.home, given.seed, given.only)


def _golden(given: argparse.Namespace) -> Iterator[Outcome]:
    found = list(golden([one for one in files() if given.only in one], given.seed))
    if not given.ask:
        return iter(found)
    with session() as spark:
        said = asked_again(spark, found)
    again = list(golden(dict.fromkeys(place.rpartition(" ")[0] for place in said), given.seed, said))
    return iter([*(one for one in found if one.file not in {two.file for two in again}), *again])


def _random(given: argparse.Namespace) -> Iterator[Outcome]:
    with session() as spark:
        yield from beside.queries(spark, range(given.seed, given.seed + given.queries))
        yield from beside.changes(spark, range(given.seed, given.seed + given.changes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
