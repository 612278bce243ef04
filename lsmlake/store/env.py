"""The one door to the outside: storage, clock, identifiers, chance and sleep, injected everywhere.

Nothing else in lsmlake calls `time`, `random`, `uuid`, `open` or `os`; a test holds that. Tests pass fakes and get byte-equal
tables.
"""

from __future__ import annotations

import random as _random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from lsmlake.store.storage import Storage


def _new_id() -> str:
    return uuid.uuid4().hex


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Env:
    """`clock()` is milliseconds since the epoch; `ids()` a fresh unique name part; `random()` in [0, 1); `sleep(seconds)`;
    `workers`: how many buckets one process works on at once. Pickles, so Spark tasks get the driver's environment."""

    storage: Storage
    clock: Callable[[], int] = _now_ms
    ids: Callable[[], str] = _new_id
    random: Callable[[], float] = _random.random
    sleep: Callable[[float], None] = time.sleep
    workers: int = 1
