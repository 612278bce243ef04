"""Runs one peer, workload and case in the peer's own environment, and always prints one line of JSON.

    python -m bench.peers.worker PEER WORKLOAD --data FOLDER --work FOLDER [--params JSON] [--jars PATH ...]

The line: {status, version, settings, measures, series} or {status, error, ...}. Statuses: ok; wrong: it ran but does not hold
what it must; unsupported: it has no such thing; error. What the peer itself prints goes to standard error.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import traceback
from pathlib import Path

from bench.peers.base import Peer, Unsupported
from bench.peers.data import Data
from bench.peers.roster import PEERS
from bench.peers.workloads import ALL
from bench.peers.workloads.steps import Measures, Wrong

_ERROR_CHARS = 2_000


def main(arguments: list[str]) -> None:
    line = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the JVM's standard output too
    print(json.dumps(result(arguments)), file=line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.worker")
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("workload", choices=ALL)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for the table and all that is temporary")
    parser.add_argument("--params", type=json.loads, default={})
    parser.add_argument("--jars", type=Path, nargs="*", default=[])
    return parser


def result(arguments: list[str]) -> dict[str, object]:
    """The line, as a value. Works in the process that calls it."""
    given = _parser().parse_args(arguments)
    peer, described = None, {}
    try:
        entry = PEERS[given.peer]
        kind = getattr(importlib.import_module(f"bench.peers.{entry.module}"), entry.cls)
        peer = kind(given.work / "table", given.jars, **entry.options)
        described = {"version": peer.version, "settings": dict(peer.settings)}
        found = ALL[given.workload].run(peer, Data(given.data), given.params)
        return {"status": "ok", **described, **split(found)}
    except Unsupported as reason:
        return {"status": "unsupported", **described, "error": str(reason)}
    except Wrong as found:
        return {"status": "wrong", **described, "error": str(found)}
    except Exception as error:
        traceback.print_exc()
        return {"status": "error", **described, "error": _first(error)}
    finally:
        _close(peer)


def split(found: Measures) -> dict[str, dict[str, object]]:
    """Single numbers, and numbers that came one after the other."""
    series = {name: value for name, value in found.items() if isinstance(value, list)}
    return {"measures": {name: value for name, value in found.items() if name not in series}, "series": series}


def _first(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_ERROR_CHARS]


def _close(peer: Peer | None) -> None:
    if peer is not None:
        peer.close()


if __name__ == "__main__":
    main(sys.argv[1:])
