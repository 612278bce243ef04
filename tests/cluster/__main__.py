"""The long form of test_cluster.py: see the package."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from spark_support import JVM_OPTIONS, python_without_lsmlake

from cluster.beside import Report, side_by_side
from cluster.driver import DEATHS, JOBS
from cluster.machines import Cluster
from cluster.run import drive


def every_loss(folder: Path, python: str) -> Report:
    """All jobs, then a driver killed at each step of a micro-batch, one after the other."""
    with Cluster(folder / "machines") as cluster:
        found = drive(cluster, folder, python, *JOBS)
        for death in DEATHS:
            found |= drive(cluster, folder, python, death)
        found |= drive(cluster, folder, python, "resumed")
    faults = [f"{job}: {error}" for job, error in found.items() if error]
    return Report([f"{len(JOBS)} jobs; drivers killed at {', '.join(DEATHS)}"], faults)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description="A cluster that loses things.")
    parser.add_argument("--minutes", type=float, default=5, help="of drivers side by side; before them each kind of loss, once")
    parser.add_argument("--seed", type=int, default=0, help="decides what is killed")
    given = parser.parse_args(arguments)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{JVM_OPTIONS} {os.environ.get('SPARK_SUBMIT_OPTS', '')}"
    folder = Path(tempfile.mkdtemp(prefix="lsmlake-cluster-"))
    python = python_without_lsmlake(folder / "python")
    reports = [every_loss(folder / "losses", python)]
    with Cluster(folder / "machines", cores=2) as cluster:
        reports.append(side_by_side(cluster, folder / "beside", python, 60 * given.minutes, given.seed))
    faults = [fault for report in reports for fault in report.faults]
    print(*(line for report in reports for line in report.told), *faults, sep="\n")
    if faults:
        print(f"logs and tables: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
