"""The peak resident set of a process that does one work: a function of a module of this package, by its name."""

from __future__ import annotations

import importlib
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

FORGETFUL = ("sh", "-c", '"$@"; exit $?', "sh")  # Linux counts into a peak what the process was before `exec`: without this, us


@dataclass(frozen=True)
class Peak:
    """`start_bytes`: the peak before the work begins, all imported. `answer`: what the work returned."""

    start_bytes: int
    peak_bytes: int
    seconds: float
    cpu: float
    answer: object


def peak_of(work: str, *given: object) -> Peak:
    """Runs `module:function` in a process of its own. `given`: its arguments, as JSON."""
    command = [*FORGETFUL, sys.executable, "-m", "bench.peak_memory", work, json.dumps(given, default=str)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parent.parent)
    return Peak(**json.loads(done.stdout.splitlines()[-1]))


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _main(work: str, given: str) -> None:
    """Runs in the separate process; prints time and memory."""
    module, name = work.split(":")
    function = getattr(importlib.import_module(module), name)
    start_bytes, start, cpu = _peak_bytes(), time.perf_counter(), time.process_time()
    answer = function(*json.loads(given))
    found = Peak(start_bytes, _peak_bytes(), time.perf_counter() - start, time.process_time() - cpu, answer)
    print(json.dumps(found.__dict__))


if __name__ == "__main__":
    _main(*sys.argv[1:])
