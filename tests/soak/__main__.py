"""The command line of the soak: see the package."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import pytest

from soak.run import STORES, Settings, soak


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Processes that are killed and suspended.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--store", choices=STORES, default="local")
    parser.add_argument("--seed", type=int, default=0, help="decides what the processes do, and when they are killed")
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="lsmlake-soak-"))
    try:
        report = soak(Settings(**vars(given)), folder)
    except pytest.skip.Exception as missing:  # a server that is not installed
        parser.error(str(missing))
    print(report)
    if report.faults:
        print(f"logs and tables: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
