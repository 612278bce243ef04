"""`python -m bench peers`: see the package."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from bench.peers import plots, report
from bench.peers.roster import PEERS, Entry
from bench.peers.run import Result, run
from bench.peers.setup import HOME, setup
from bench.peers.sources import SOURCES
from bench.peers.workloads import ALL
from bench.peers.workloads.case import Sizes
from bench.result import machine

_SIZES = Sizes()
_INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    """Returns the exit code: 1 if something could not be set up, 2 if earlier results cannot be read, 130 if interrupted."""
    given = _parser().parse_args(arguments)
    if given.setup:
        return 1 if setup(given.home, _peers(given)) else 0
    if not given.earlier:
        results, whole = _measured(given)
        _tell(given, results, machine(), given.out)
        return 0 if whole else _INTERRUPTED
    try:
        results, machines = _earlier(given)
    except (OSError, ValueError, report.Unlike) as reason:
        print(f"--from: {reason}", file=sys.stderr)
        return 2
    if given.out:
        report.write(given.out, results, machines)
    _tell(given, results, machines, given.out or (given.earlier[0] if len(given.earlier) == 1 else None))
    return 0


def _peers(given: argparse.Namespace) -> list[Entry]:
    """Those named; by default all but stand-ins."""
    return [peer for peer in PEERS.values() if (peer.name in given.only if given.only else not peer.stand_in)]


def _measured(given: argparse.Namespace) -> tuple[list[Result], bool]:
    """The results, written as they come, and whether these are all: Ctrl-C leaves those that there are."""
    sizes = Sizes(given.rows, given.batch, given.batches, given.commits, given.rounds, given.data)
    results: list[Result] = []
    try:
        for result in run(given.home, _peers(given), given.workload or list(ALL), sizes, given.limit, given.minutes):
            said = f"{result.status}, {result.seconds:.0f} s {result.error[:120]}"
            line = f"{result.workload}: {result.case}: {result.peer}: {said}"
            print(line, file=sys.stderr if given.markdown else sys.stdout, flush=True)
            results.append(result)
            if given.out:
                report.write(given.out, results, machine())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return results, False
    return results, True


def _earlier(given: argparse.Namespace) -> tuple[list[Result], str]:
    """What is asked for of the results of earlier runs, and the machines they are of."""
    runs, machines = zip(*map(report.read, given.earlier), strict=True)
    wanted = [
        [one for one in results if one.peer in (given.only or [one.peer]) and one.workload in (given.workload or [one.workload])]
        for results in runs
    ]
    return report.merged(wanted), " and ".join(dict.fromkeys(machines))


def _tell(given: argparse.Namespace, results: list[Result], machines: str, out: Path | None) -> None:
    """Tables, and plots in the folder."""
    if given.markdown:
        print(report.markdown(results, machines), end="")
    else:
        report.show(results)
    if out and results:
        try:
            plots.draw(out, results)
        except plots.NoMatplotlib as reason:
            print(reason, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench peers", description="lsmlake and its peers on the same work.")
    parser.add_argument("--setup", action="store_true", help="make the environments and get the jars, then stop")
    parser.add_argument("--only", type=_names(PEERS), metavar="PEER,...", help=", ".join(PEERS))
    parser.add_argument("--workload", type=_names(ALL), metavar="NAME,...", help=", ".join(ALL))
    parser.add_argument("--rows", type=_numbers, default=_SIZES.rows, metavar="N,...", help="in the table at first")
    parser.add_argument("--batch", type=_number, default=_SIZES.batch, metavar="N", help="rows of a batch")
    parser.add_argument("--batches", type=_number, default=_SIZES.batches, metavar="N")
    parser.add_argument("--commits", type=_number, default=_SIZES.commits, metavar="N", help="of commit_latency")
    parser.add_argument("--rounds", type=_number, default=_SIZES.rounds, metavar="N", help="of degradation")
    sources = [name for name in SOURCES if name != "wide"]
    parser.add_argument("--data", choices=sources, help="rows of all workloads but `wide`; default: as each chooses")
    parser.add_argument("--limit", type=float, default=240, metavar="SECONDS", help="of one peer on one workload")
    parser.add_argument("--minutes", type=float, default=38, help="of the whole run; what is left then is skipped")
    parser.add_argument("--out", type=Path, help="folder for results.json and plots")
    parser.add_argument(
        "--from",
        dest="earlier",
        type=_folders,
        metavar="FOLDER,...",
        help="measure nothing: show and draw what --out wrote there; of several folders the later results count",
    )
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown, for RESULTS.md")
    parser.add_argument("--home", type=Path, default=HOME, help=f"of environments, jars and data; default {HOME}")
    return parser


def _names(known: dict[str, object]) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        if unknown := [name for name in text.split(",") if name not in known]:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(known)}")
        return text.split(",")

    return names


def _folders(text: str) -> list[Path]:
    return [Path(name) for name in text.split(",")]


def _number(text: str) -> int:
    return int(text.replace("_", ""))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(_number, text.split(",")))
