"""Runs drivers on a cluster, and kills those that stop for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cluster.driver import DEATHS, gate_of
from cluster.machines import Cluster, end, temporaries, wait

SECONDS = 600


def drive(cluster: Cluster, folder: Path, python: str, *jobs: str) -> dict[str, str]:
    """The error of each job, "" for none. A driver whose last job is a death is killed where it stops, and its JVM with it; then
    its executors end, even that of a task that has stopped."""
    log = folder / "driver.log"
    command = [sys.executable, str(Path(__file__).with_name("driver.py")), str(folder), cluster.url, python, *jobs]
    with log.open("a") as told:
        how = {"stdout": told, "stderr": told, "cwd": folder, "env": temporaries(folder), "start_new_session": True}
        process = subprocess.Popen(command, **how)
    try:
        if jobs[-1] in DEATHS:
            gate = gate_of(folder, jobs[-1])
            wait(lambda: gate.stopped() or process.poll() is not None, f"the driver stops: {jobs[-1]}", log, SECONDS)
            assert gate.stopped(), log.read_text()[-5000:]
            end(process)
            wait(lambda: not cluster.executors(), "the executors of a dead driver end", log)
            gate.open()
        elif process.wait(SECONDS):
            raise AssertionError(log.read_text()[-5000:])
    finally:
        end(process)
    return {job: outcome(folder, job) for job in jobs}


def outcome(folder: Path, job: str) -> str:
    path = folder / "outcomes" / job
    return path.read_text() if path.exists() else "" if job in DEATHS else "did not end"
