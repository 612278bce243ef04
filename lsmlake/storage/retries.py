"""The one loop of attempts: bounded, with random waits that grow where writers compete, and an error of its own at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lsmlake.errors import CommitConflict, LakeError, Wording
from lsmlake.storage.env import Env


class Waits(NamedTuple):
    """The wait before the second attempt, and the longest one. Each is twice the one before, times a random factor from 0.5 to
    1.5, so that writers that have met do not meet again."""

    env: Env
    first_ms: int
    longest_ms: int


def attempts(
    count: int,
    failed: str,
    where: str,
    cure: str | Wording,
    waits: Waits | None = None,
    kind: type[LakeError] = CommitConflict,
) -> Iterator[int]:
    """The numbers of `count` attempts, from 0. The caller leaves the loop when one succeeds; the iteration never ends otherwise.

    Raises:
        `kind`: after the last attempt. `failed`, `where` and `cure` are of its message.
    """
    wait_ms = 0 if waits is None else waits.first_ms
    for number in range(count):
        if number and wait_ms:
            waits.env.sleep(wait_ms * (0.5 + waits.env.random()) / 1000)
            wait_ms = min(2 * wait_ms, waits.longest_ms)
        yield number
    raise kind(failed, where=where, found=f"{count} attempts", cure=cure)
