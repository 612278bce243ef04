"""Publishing by compare and set: try, look what became of it, wait a little, try again. Knows nothing of tables and files.

Whatever happens, an error or an interruption included, no attempt leaves files behind that nothing published names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from lsmlake.commit.outcome import Committed, Conflict, Unknown
from lsmlake.store.env import Env


class Attempts(ABC):
    """Attempts to publish the same thing, each on top of what is newest."""

    @abstractmethod
    def run(self) -> Committed | Conflict | Unknown:
        """One attempt."""

    @abstractmethod
    def settle(self, unknown: Unknown) -> Committed | Conflict:
        """Find out what became of an attempt that the store did not answer. Raises the store's error if it was not published, and
        CommitUnknown if that cannot be found out."""

    @abstractmethod
    def withdraw(self) -> None:
        """After a conflict: remove what that attempt wrote."""

    @abstractmethod
    def finish(self, committed: Committed) -> None:
        """Remove everything written that `committed` does not use."""

    @abstractmethod
    def give_up(self) -> None:
        """After an error or an interruption: remove everything written, unless something published names it."""


class Retries(NamedTuple):
    """`count`: attempts after the first. The wait before each is twice as long as the one before, up to `wait_max_ms`, times a
    random factor from 0.5 to 1.5."""

    count: int
    wait_min_ms: int
    wait_max_ms: int


def publish(attempts: Attempts, retries: Retries, env: Env) -> Committed | None:
    """Try until it is published; None if another writer was faster every time, and then nothing written is left."""
    wait_ms = retries.wait_min_ms
    try:
        for left in reversed(range(1 + retries.count)):
            outcome = attempts.run()
            if isinstance(outcome, Unknown):
                outcome = attempts.settle(outcome)
            if isinstance(outcome, Committed):
                attempts.finish(outcome)
                return outcome
            attempts.withdraw()
            if left:
                env.sleep(wait_ms * (0.5 + env.random()) / 1000)
            wait_ms = min(2 * wait_ms, retries.wait_max_ms)
    except BaseException:
        attempts.give_up()
        raise
    attempts.give_up()
    return None
