"""`python -m bench peers`: see the package."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from bench.peers import report
from bench.peers.roster import PEERS
from bench.peers.run import Result, run
from bench.peers.setup import setup
from bench.peers.workloads import ALL
from bench.peers.workloads.case import Sizes
from bench.result import machine

_SIZES = Sizes()
_HOME = Path.home() / ".cache" / "lsmlake-bench"


def main(arguments: list[str]) -> int:
    """Returns the exit code: 1 if something could not be set up."""
    given = _parser().parse_args(arguments)
    peers = [peer for peer in PEERS.values() if peer.name in given.only]
    if given.setup:
        return 1 if setup(given.home, peers) else 0
    sizes = Sizes(given.rows, given.batch, given.batches, given.commits, given.rounds)
    results: list[Result] = []
    for result in run(given.home, peers, given.workload, sizes, given.limit, given.minutes):
        said = f"{result.status}, {result.seconds:.0f} s {result.error[:120]}"
        print(f"{result.workload}: {result.case}: {result.peer}: {said}", flush=True)
        results.append(result)
        if given.out:
            report.write(given.out, results, machine())
    report.show(results)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench peers", description="lsmlake and its peers on the same work.")
    parser.add_argument("--setup", action="store_true", help="make the environments and get the jars, then stop")
    parser.add_argument("--only", type=_names(PEERS), default=list(PEERS), metavar="PEER,...", help=", ".join(PEERS))
    parser.add_argument("--workload", type=_names(ALL), default=list(ALL), metavar="NAME,...", help=", ".join(ALL))
    parser.add_argument("--rows", type=_numbers, default=_SIZES.rows, metavar="N,...", help="in the table at first")
    parser.add_argument("--batch", type=_number, default=_SIZES.batch, metavar="N", help="rows of a batch")
    parser.add_argument("--batches", type=_number, default=_SIZES.batches, metavar="N")
    parser.add_argument("--commits", type=_number, default=_SIZES.commits, metavar="N", help="of commit_latency")
    parser.add_argument("--rounds", type=_number, default=_SIZES.rounds, metavar="N", help="of degradation")
    parser.add_argument("--limit", type=float, default=240, metavar="SECONDS", help="of one peer on one workload")
    parser.add_argument("--minutes", type=float, default=38, help="of the whole run; what is left then is skipped")
    parser.add_argument("--out", type=Path, help="folder for results.json")
    parser.add_argument("--home", type=Path, default=_HOME, help=f"of environments, jars and data; default {_HOME}")
    return parser


def _names(known: dict[str, object]) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        if unknown := [name for name in text.split(",") if name not in known]:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(known)}")
        return text.split(",")

    return names


def _number(text: str) -> int:
    return int(text.replace("_", ""))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(_number, text.split(",")))
