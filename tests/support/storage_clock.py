"""A storage in memory whose files have the age that a test gives them."""

from __future__ import annotations

from strategies import contents

from lsmlake.retention.orphans import DAY_MS as DAY
from lsmlake.storage.memory import MemoryStorage

START = 1_700_000_000_000


class Clock:
    """A storage and its clock."""

    def __init__(self) -> None:
        self.now = START
        self.storage = MemoryStorage(lambda: self.now)

    def pass_days(self, days: float) -> None:
        self.now += int(days * DAY)


def aged(storage: MemoryStorage) -> MemoryStorage:
    """A copy whose files are older than all that is written from now on: of files of one moment, none is old."""
    clock = Clock()
    for path, data in contents(storage).items():
        clock.storage.put_if_absent(path, data)
    clock.pass_days(2)
    return clock.storage
