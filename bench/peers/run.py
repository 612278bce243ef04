"""Run workers, one at a time, each with a time limit, and collect what they print."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.peers.data import prepare
from bench.peers.roster import Entry
from bench.peers.setup import ROOT, NotReady, jars_of, python_of
from bench.peers.workloads import ALL
from bench.peers.workloads.case import Case, Sizes

_OUR_OWN = ("SPARK_HOME", "SPARK_CONF_DIR", "PYTHONHOME", "PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS")


@dataclass(frozen=True)
class Result:
    """`status` as the worker's, or "timeout", or "skipped": there was no time left. `measures`: by name, the unit in it.
    `series`: the same of what was measured again and again, in the order of time."""

    peer: str
    engine: str
    workload: str
    case: str
    status: str
    seconds: float = 0.0
    version: str = ""
    error: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    measures: dict[str, float] = field(default_factory=dict)
    series: dict[str, list[float]] = field(default_factory=dict)
    stream: dict[str, object] = field(default_factory=dict)


def run(
    home: Path, peers: Sequence[Entry], workloads: Sequence[str], sizes: Sizes, limit: float, minutes: float
) -> Iterator[Result]:
    """Every peer on every case of every workload. `limit`: seconds of one worker; `minutes`: of all, then the rest is skipped."""
    end = time.monotonic() + minutes * 60
    for workload in workloads:
        for case in ALL[workload].cases(sizes):
            for peer in (one for one in peers if not one.workloads or workload in one.workloads):
                left = min(limit, end - time.monotonic())
                yield _one(home, peer, workload, case, left)


def _one(home: Path, peer: Entry, workload: str, case: Case, limit: float) -> Result:
    known = {"peer": peer.name, "engine": peer.engine, "workload": workload, "case": case.label, "stream": asdict(case.stream)}
    if limit <= 0:
        return Result(**known, status="skipped", error="no time left")
    try:
        python, jars, data = python_of(home, peer.environment), jars_of(home, peer.jars), prepare(home, case.stream)
    except NotReady as reason:
        return Result(**known, status="error", error=str(reason))
    (home / "work").mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{peer.name}-", dir=home / "work"))
    command = [python, "-m", "bench.peers.worker", peer.name, workload]
    command += ["--data", data.folder, "--work", work, "--params", json.dumps(dict(case.params)), "--jars", *jars]
    start = time.monotonic()
    try:
        answer = _answer([str(part) for part in command], work, limit, _log(home, peer, workload, case))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Result(**known, seconds=time.monotonic() - start, **answer)


def _log(home: Path, peer: Entry, workload: str, case: Case) -> Path:
    """What the worker says besides its answer."""
    label = "".join(letter if letter.isalnum() else "-" for letter in case.label)
    path = home / "logs" / f"{workload}.{label}.{peer.name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _answer(command: list[str], work: Path, limit: float, log: Path) -> dict[str, object]:
    with log.open("w") as said:
        worker = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, text=True, cwd=work, env=_environment(), start_new_session=True
        )
        try:
            printed, _ = worker.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return {"status": "timeout", "error": f"stopped after {limit:.0f} s, at {_reached(log)}"}
        finally:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)  # the worker and its JVM
                worker.wait()
    lines = printed.splitlines()
    if worker.returncode or not lines:
        return {"status": "error", "error": f"worker ended with {worker.returncode} at {_reached(log)}: {_last(log)}"}
    return json.loads(lines[-1])


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _OUR_OWN}
    return {**kept, "PYTHONPATH": str(ROOT)}


def _reached(log: Path) -> str:
    marks = [line[2:] for line in log.read_text(errors="replace").splitlines() if line.startswith("@ ")]
    return marks[-1] if marks else "its start"


def _last(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "nothing said"
