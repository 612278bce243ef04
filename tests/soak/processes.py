"""The processes of a soak: started, killed, suspended and restarted; and the observer, who reads every snapshot before it
expires."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event, Thread

from lsmlake.api.table import Table
from soak.judge import Published
from soak.worker import ORDER, Config

_TESTS = Path(__file__).parent.parent
_POLL_S, _LOOK_S = 0.05, 0.2
_YOUNG_BYTES = 1_000
"""A process is not killed or suspended before it has logged so much: it would only have loaded its modules."""
_STOP_S = 120
_LONGER = 8


class Observer:
    """A thread that reads every snapshot of the tables, as JSON. `published`: table -> number -> snapshot."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables
        self.published: dict[str, dict[int, Published]] = {name: {} for name in tables}
        self._thread, self._end = Thread(target=self._run, daemon=True), Event()

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(_LOOK_S):
            self.look()

    def count(self) -> int:
        """The snapshots so far."""
        return sum(map(len, self.published.values()))

    def look(self) -> None:
        for name, table in self._tables.items():
            known, storage, prefix = self.published[name], table.meta.env.storage, f"{table.meta.paths.snapshots}/snapshot-"
            numbers = [entry.path.removeprefix(prefix) for entry in storage.list(table.meta.paths.snapshots)]
            for number in sorted(int(text) for text in numbers if text.isdigit()):
                if number <= max(known, default=0):
                    continue
                with storage.read(f"{prefix}{number}") as file:
                    data = file.read()
                if data.startswith(b"{"):
                    content = json.loads(data)
                    known[number] = Published(content["writer_id"], content["commit_id"])


class Processes:
    """`killed`, `suspended`: how often; a process that kills itself at a call counts, too. `faults`: how a process ended that
    nobody killed."""

    def __init__(self, config: Config, count: int, kill_every_s: float, pause_every_s: float) -> None:
        self.config, self.killed, self.suspended, self.faults = config, 0, 0, []
        self._kill_every_s, self._pause_every_s = kill_every_s, pause_every_s
        self._pauses_s = config.pause_max_s, config.long_pause_s
        self._chance = random.Random(config.seed)
        self.names = [f"{ORDER[number % len(ORDER)]}{number}" for number in range(count)]
        self._incarnations = dict.fromkeys(self.names, 0)
        self._running: dict[str, subprocess.Popen] = {}
        self._begun: dict[str, int] = {}  # the size of its log when it was started
        self._wakes: dict[str, float] = {}

    def run(self, seconds: float, enough: Callable[[], bool]) -> None:
        """At least so long, and until `enough` or, on a busy machine, several times as long."""
        try:
            self._disturb(seconds, enough)
            self._stop()
        finally:
            for process in self._running.values():
                process.kill()
                process.wait()

    def _disturb(self, seconds: float, enough: Callable[[], bool]) -> None:
        for name in self.names:
            self._start(name)
        begun, kill, pause = time.monotonic(), self._after(self._kill_every_s), self._after(self._pause_every_s)
        while (now := time.monotonic()) < begun + seconds or (not enough() and now < begun + _LONGER * seconds):
            self._tend(now)
            running = [
                name for name in self.names if name not in self._wakes and self._logged(name) > self._begun[name] + _YOUNG_BYTES
            ]
            if now > kill and running:
                self._running[self._chance.choice(running)].kill()
                kill = self._after(self._kill_every_s)
            elif now > pause and running:
                self._suspend(self._chance.choice(running), now)
                pause = self._after(self._pause_every_s)
            time.sleep(_POLL_S)

    def _after(self, mean_s: float) -> float:
        return time.monotonic() + self._chance.expovariate(1 / mean_s)

    def _start(self, name: str) -> None:
        self._incarnations[name] += 1
        role = name.rstrip("0123456789")
        command = [sys.executable, "-m", "soak.worker", json.dumps(self.config._asdict()), name, role]
        path = os.pathsep.join([str(_TESTS), str(_TESTS / "support"), str(_TESTS.parent), os.environ.get("PYTHONPATH", "")])
        with (Path(self.config.folder) / f"{name}.err").open("ab") as errors:
            self._running[name] = subprocess.Popen(
                [*command, str(self._incarnations[name])], env={**os.environ, "PYTHONPATH": path}, stdout=errors, stderr=errors
            )
        self._begun[name] = self._logged(name)

    def _logged(self, name: str) -> int:
        path = Path(self.config.folder) / f"{name}.log"
        return path.stat().st_size if path.exists() else 0

    def _suspend(self, name: str, now: float) -> None:
        longest = self._pauses_s[self._chance.random() < 0.1]
        self._running[name].send_signal(signal.SIGSTOP)
        self._wakes[name] = now + self._chance.random() * longest
        self.suspended += 1

    def _tend(self, now: float) -> None:
        """Wake processes that were suspended for long enough, and start those anew that have ended."""
        for name, wakes in list(self._wakes.items()):
            if now > wakes:
                self._running[name].send_signal(signal.SIGCONT)
                del self._wakes[name]
        for name, process in list(self._running.items()):
            if process.poll() is not None:
                self._note_end(name, process.returncode)
                self._wakes.pop(name, None)
                self._start(name)

    def _note_end(self, name: str, status: int) -> None:
        if status == -signal.SIGKILL:
            self.killed += 1
        elif status:
            said = (Path(self.config.folder) / f"{name}.err").read_text()[-2_000:]
            self.faults.append(f"{name} ended with status {status}: {said}")

    def _stop(self) -> None:
        """Every process ends its operation."""
        for name in self._wakes:
            self._running[name].send_signal(signal.SIGCONT)
        (Path(self.config.folder) / "stop").touch()
        end = time.monotonic() + _STOP_S
        for name, process in self._running.items():
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.faults.append(f"{name} does not end")
            else:
                self._note_end(name, process.returncode)
