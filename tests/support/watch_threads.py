"""Tells when all threads of a process sleep.

    python -S -I watch_threads.py PID

Says `ready` once it knows which threads run now and then without reason; until then the process must do nothing. Then it reads a
line for each question, and answers with a line once no thread runs, is ready to run, or has run between two looks: `quiet`, or
the threads that were not asleep for too long. It is a process of its own: a thread that looks holds the lock of Python's
interpreter, so the threads that it looks at would wait for it, and longer the more work the machine has.
"""

from __future__ import annotations

import os
import re
import sys
import time

READY, QUIET = "ready", "quiet"
_LOOKS = 5  # so many looks in a row find each thread asleep since the look before: a packet may be under way inside the kernel
_BETWEEN_LOOKS_S = 0.002
_BASE_S, _LOOKS_OF_BASE = 0.15, 10
_GIVE_UP_S = 20  # some thread never sleeps; a client waits longer for an answer
_STATE = re.compile(r"^State:\s+(\w)", re.MULTILINE)
_SWITCHES = re.compile(r"^\w*voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)


def restless(folder: str) -> set[str]:
    """Threads in a folder of /proc that run now and then although there is nothing to do, such as one that looks for work every
    50 ms. They are left by what the process did before."""
    begin = time.monotonic()
    before = look(folder)
    time.sleep(max(_BASE_S, _LOOKS_OF_BASE * (time.monotonic() - begin)))
    found = look(folder)
    return {name for name in before.keys() & found.keys() if before[name] != found[name]}


def answer(folder: str, ignored: set[str]) -> str:
    """Waits until the threads of a folder in /proc sleep. Those that are ignored may have run between two looks."""
    end, before, same, busy = time.monotonic() + _GIVE_UP_S, None, 0, set()
    while same < _LOOKS:
        found = look(folder)
        awake = {name for name, (state, *_) in found.items() if state != "S"}
        changed = {name for name in found if before is None or before.get(name) != found[name]} - ignored
        same = same + 1 if before is not None and not awake and not changed and found.keys() == before.keys() else 0
        busy = awake | changed or busy
        if time.monotonic() > end:
            return ", ".join(f"{name} {_name(folder, name)}" for name in sorted(busy))
        before = found
        time.sleep(_BETWEEN_LOOKS_S)
    return QUIET


def _name(folder: str, thread: str) -> str:
    try:
        with open(f"{folder}/{thread}/comm") as file:
            return file.read().strip()
    except OSError:  # it has ended
        return ""


def look(folder: str) -> dict[str, tuple[str, ...]]:
    """Of each thread: its state, and how many times it has left a processor."""
    found = {}
    for thread in os.listdir(folder):
        try:
            with open(f"{folder}/{thread}/status") as file:
                text = file.read()
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
        found[thread] = (_STATE.search(text)[1], *_SWITCHES.findall(text))
    return found


if __name__ == "__main__":
    threads = f"/proc/{sys.argv[1]}/task"
    left = restless(threads)
    print(READY, flush=True)
    for _ in sys.stdin:
        print(answer(threads, left), flush=True)
