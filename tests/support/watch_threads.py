"""Tells when all threads of a process sleep.

    python -S -I watch_threads.py PID

Reads a line for each question, and answers with a line once no thread runs, is ready to run, or has run between two looks:
`quiet`, or the numbers of threads that were not asleep for too long. It is a process of its own: a thread that looks holds the
lock of Python's interpreter, so the threads that it looks at would wait for it, and longer the more work the machine has.
"""

from __future__ import annotations

import os
import re
import sys
import time

QUIET = "quiet"
_LOOKS = 5  # so many looks in a row find each thread asleep since the look before: a packet may be under way inside the kernel
_BETWEEN_LOOKS_S = 0.002
_GIVE_UP_S = 120  # some thread never sleeps
_STATE = re.compile(r"^State:\s+(\w)", re.MULTILINE)
_SWITCHES = re.compile(r"^\w*voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)


def answer(folder: str) -> str:
    """Waits until the threads of a folder in /proc sleep."""
    end, before, same, busy = time.monotonic() + _GIVE_UP_S, None, 0, set()
    while same < _LOOKS:
        found = look(folder)
        awake = {name for name, (state, *_) in found.items() if state != "S"}
        changed = {name for name in found if before is None or before.get(name) != found[name]}
        same = same + 1 if not awake and not changed and found == before else 0
        busy = awake | changed or busy
        if time.monotonic() > end:
            return " ".join(sorted(busy))
        before = found
        time.sleep(_BETWEEN_LOOKS_S)
    return QUIET


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
    for _ in sys.stdin:
        print(answer(f"/proc/{sys.argv[1]}/task"), flush=True)
