"""Leases, by which several maintainers of a warehouse share its tables.

    maintenance/leases/maintainer-<id>   the heartbeat of a maintainer, written again and again
    maintenance/leases/lease-<line>-<n>  created if absent; the id of the maintainer that works on the table or branch `line`

1. A lease holds as long as its maintainer's heartbeat is young. Both times compared are dates that the storage gave: that of the
   other heartbeat, and that of one's own, which was just written. So clocks of machines do not matter.
2. A maintainer that finds the lease n of a dead one creates lease n + 1, which only one can, and deletes lease n.
3. A maintainer that ends deletes its leases and its heartbeat. Those of dead ones are deleted by others.

A lease saves work, it does not protect rows: if a maintainer was suspended and two work on one table, the commits decide, and the
work of one is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lsmlake.storage.env import Env
from lsmlake.storage.storage import read_bytes

FOLDER = "maintenance/leases"
TIME_MS = 60_000
"""How long a maintainer without a heartbeat counts as alive."""
_BEATS = 3  # heartbeats in that time
_LEASE = re.compile(rf"{FOLDER}/lease-(.+)-(\d{{1,18}})")
_MAINTAINER = re.compile(rf"{FOLDER}/maintainer-(.+)")


class Lease(NamedTuple):
    """A lease held by this maintainer."""

    line: str
    path: str


class _Board(NamedTuple):
    """One listing. `beats`: maintainer -> the date of its heartbeat. `leases`: table or branch -> the number of its newest
    lease."""

    beats: Mapping[str, int]
    leases: Mapping[str, int]


@dataclass
class Leases:
    """The leases of one maintainer. `who`: what its heartbeat says of it; `time_ms`: see `TIME_MS`."""

    env: Env
    id: str
    who: str
    time_ms: int = TIME_MS
    held: dict[str, Lease] = field(default_factory=dict)
    _beat_ms: int | None = None

    def beat(self) -> None:
        """Writes the heartbeat if the last one is old. Call this often."""
        now_ms = self.env.clock()
        if self._beat_ms is None or not 0 <= now_ms - self._beat_ms < self.time_ms // _BEATS:
            with self.env.storage.write(self._own) as sink:
                sink.write(json.dumps({"id": self.id, "who": self.who, "tables": sorted(self.held)}).encode())
            self._beat_ms = now_ms

    def take(self, line: str) -> Lease | None:
        """Takes the lease of a table or branch; None if another maintainer holds it."""
        self.beat()
        board = self._board()
        number = board.leases.get(line, 0)
        if number and self._alive(self._holder(line, number), board):
            return None
        lease = Lease(line, _path(line, number + 1))
        if not self.env.storage.put_if_absent(lease.path, self.id.encode()):
            return None
        if number:
            self.env.storage.delete(_path(line, number))
        self.held[line] = lease
        return lease

    def release(self, lease: Lease) -> None:
        self.held.pop(lease.line, None)
        self.env.storage.delete(lease.path)

    def leave(self) -> None:
        """Gives up all leases and the heartbeat."""
        self.env.storage.delete_all([*(lease.path for lease in self.held.values()), self._own])
        self.held.clear()
        self._beat_ms = None

    def holders(self) -> dict[str, str]:
        """Table or branch -> the maintainer, alive, that works on it. Writes nothing; without an own heartbeat all count."""
        board = self._board()
        held = {line: self._holder(line, number) for line, number in board.leases.items()}
        return {line: holder for line, holder in held.items() if holder and self._alive(holder, board)}

    def sweep(self) -> None:
        """Deletes heartbeats of dead maintainers, and leases without a heartbeat."""
        self.beat()
        board = self._board()
        dead = [holder for holder in board.beats if not self._alive(holder, board)]
        left = [
            _path(line, number)
            for line, number in board.leases.items()
            if line not in self.held and not self._alive(self._holder(line, number), board)
        ]
        self.env.storage.delete_all([*left, *(f"{FOLDER}/maintainer-{holder}" for holder in dead)])

    @property
    def _own(self) -> str:
        return f"{FOLDER}/maintainer-{self.id}"

    def _board(self) -> _Board:
        beats, leases = {}, {}
        for entry in self.env.storage.list(FOLDER):
            if match := _MAINTAINER.fullmatch(entry.path):
                beats[match[1]] = entry.modified_ms
            elif match := _LEASE.fullmatch(entry.path):
                leases[match[1]] = max(leases.get(match[1], 0), int(match[2]))
        return _Board(beats, leases)

    def _alive(self, holder: str | None, board: _Board) -> bool:
        """Whether a maintainer's heartbeat is young, compared with one's own, or with the newest of all."""
        if holder is None or holder not in board.beats:
            return False
        now_ms = board.beats.get(self.id, max(board.beats.values()))
        return now_ms - board.beats[holder] < self.time_ms

    def _holder(self, line: str, number: int) -> str | None:
        try:
            return read_bytes(self.env.storage, _path(line, number)).decode(errors="replace")
        except FileNotFoundError:  # released meanwhile
            return None


def _path(line: str, number: int) -> str:
    return f"{FOLDER}/lease-{line}-{number}"
