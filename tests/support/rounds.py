"""Which requests of a process follow one another, told without a clock.

Requests are held until the process waits for all of them: no thread of it runs, is ready to run, or has run between two looks
(`watch_threads`). Then they are answered together. What is asked after that may need one of the answers, so it belongs to the
next round. A loaded machine makes a round longer but never splits it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import watch_threads

THREADS = Path("/proc/self/task")
"""Linux lists the threads of a process here."""


class Rounds:
    """`close` lets all requests through, and fails if some thread of the process was never asleep."""

    def __init__(self) -> None:
        self._changed, self._busy = threading.Condition(), ""
        self._open, self._held, self._unanswered, self._over = 0, 0, 0, False
        command = [sys.executable, "-S", "-I", watch_threads.__file__, str(os.getpid())]
        self._watcher = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self._watcher.stdout.readline().strip() == watch_threads.READY
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

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
        self._thread.join()
        self._watcher.communicate()
        assert not self._busy, f"these threads were busy for long while requests waited: {self._busy}"

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or (self._held > 0 and self._unanswered == 0))
                if self._over:
                    return
            print(file=self._watcher.stdin, flush=True)
            found = self._watcher.stdout.readline().strip()  # this thread sleeps meanwhile, as all others
            with self._changed:
                if found != watch_threads.QUIET:
                    self._busy = found or "the watcher has ended"
                self._open, self._unanswered, self._held = self._open + 1, self._held, 0
                self._changed.notify_all()
