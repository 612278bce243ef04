"""Which requests of a process follow one another, told without a clock.

Requests are held until the process waits for all of them: no thread of it runs, is ready to run, or has run between two looks.
Then they are answered together. What is asked after that may need one of the answers, so it belongs to the next round. A loaded
machine makes a round longer but never splits it.
"""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

THREADS = Path("/proc/self/task")
"""Linux lists the threads of a process here."""
_LOOKS = 5  # so many looks in a row find each thread asleep since the look before: a packet may be under way inside the kernel
_BETWEEN_LOOKS_S = 0.002
_GIVE_UP_S = 30  # some thread never sleeps


class Rounds:
    """`close` lets all requests through, and fails if some thread of the process was never asleep."""

    def __init__(self) -> None:
        self._changed, self._busy = threading.Condition(), False
        self._open, self._held, self._unanswered, self._over = 0, 0, 0, False
        threading.Thread(target=self._watch, daemon=True).start()

    def enter(self) -> int:
        """Waits for the round of this request to begin; returns its number, from 1."""
        with self._changed:
            mine = self._open + 1
            self._held += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._over or self._open >= mine)
            return mine

    def leave(self, mine: int) -> None:
        """Waits until each request of the round has its answer ready."""
        with self._changed:
            self._unanswered -= 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._over or self._open > mine or self._unanswered == 0)

    def close(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        assert not self._busy, f"some thread was busy for {_GIVE_UP_S} seconds while requests waited"

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or (self._held > 0 and self._unanswered == 0))
                if self._over:
                    return
            busy = not _others_sleep()
            with self._changed:
                self._busy |= busy
                self._open, self._unanswered, self._held = self._open + 1, self._held, 0
                self._changed.notify_all()


def _others_sleep() -> bool:
    """Waits until all other threads of this process have been asleep for several looks; returns whether they have."""
    end, before, same = time.monotonic() + _GIVE_UP_S, None, 0
    while same < _LOOKS and time.monotonic() < end:
        found = _others()
        asleep = all(state == "S" for state, *_ in found.values())
        same = same + 1 if asleep and found == before else 0
        before = found
        time.sleep(_BETWEEN_LOOKS_S)
    return same == _LOOKS


def _others() -> dict[str, tuple[str, ...]]:
    """Of each other thread: its state, and how many times it has left a processor."""
    mine, found = str(threading.get_native_id()), {}
    for thread in THREADS.iterdir():
        if thread.name != mine:
            try:
                text = (thread / "status").read_text()
            except (FileNotFoundError, ProcessLookupError):  # it has ended
                continue
            found[thread.name] = (_STATE.search(text)[1], *_SWITCHES.findall(text))
    return found


_STATE = re.compile(r"^State:\s+(\w)", re.MULTILINE)
_SWITCHES = re.compile(r"^\w*voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)
