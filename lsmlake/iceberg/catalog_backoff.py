"""How long a program waits for a catalog, which may hang. A call by a user waits longer than a commit.

Once a commit has waited for a catalog in vain, commits of this process do not ask it again for `_TIMES` as long as that commit
has waited; only calls by users do. So commits lose a bounded part of their time. A catalog that refuses quickly is asked every
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from lsmlake.errors import StorageFailed, Wording

ASKED_SECONDS = 60
COMMIT_SECONDS = 10
_QUICK_MS = 1_000
_TIMES = 10


class _Rest(NamedTuple):
    """A pause in which commits do not ask a catalog. `why`: the reason."""

    since_ms: int
    until_ms: int
    why: str


_rests: dict[str, _Rest] = {}


@contextmanager
def waiting_for(catalog: str, clock: Callable[[], int], *, asked: bool = False) -> Iterator[float]:
    """A context that asks a catalog of this name; gives how many seconds it may take.

    Args:
        catalog: its name in the configuration of PyIceberg.
        clock: that of the environment.
        asked: whether a user made the call. Otherwise StorageFailed is raised during a pause.
    """
    begun, rest = clock(), _rests.get(catalog)
    if not asked and rest is not None and rest.since_ms <= begun < rest.until_ms:  # the clock may have been set back
        raise StorageFailed(
            "the catalog failed a short time ago, so it is not asked now",
            where=catalog,
            expected=f"the next attempt in {(rest.until_ms - begun) // 1000 + 1} seconds",
            found=rest.why,
            cure=Wording("publish_iceberg() asks it at once", command="`lsmlake iceberg TABLE` asks it at once"),
        )
    try:
        yield ASKED_SECONDS if asked else COMMIT_SECONDS
    except StorageFailed as failed:
        now = clock()
        if now - begun >= _QUICK_MS:
            _rests[catalog] = _Rest(now, now + _TIMES * (now - begun), failed.what)
        raise
    _rests.pop(catalog, None)
