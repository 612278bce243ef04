"""The generic publish loop: try a compare-and-set, settle the outcome, back off, retry. Independent of tables and files.

After success, failure or interruption, no attempt leaves files behind that no published snapshot references.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from lsmlake import undo
from lsmlake.commit.outcome import Committed, Conflict, Unknown
from lsmlake.storage.env import Env


class Attempts(ABC):
    """Attempts to publish the same content, each based on the newest state."""

    @abstractmethod
    def run(self) -> Committed | Conflict | Unknown:
        """One attempt."""

    @abstractmethod
    def settle(self, unknown: Unknown) -> Committed | Conflict:
        """Determine the outcome of an attempt whose request failed. Raises the store's error if nothing was published, and
        CommitUnknown if that cannot be determined."""

    @abstractmethod
    def withdraw(self) -> None:
        """After a conflict: give up the files that only this attempt can use. `finish` and `give_up` delete them."""

    @abstractmethod
    def finish(self, committed: Committed) -> None:
        """Delete every written file that `committed` does not use."""

    @abstractmethod
    def give_up(self) -> None:
        """After an error, an interruption or the last attempt: delete every written file that nothing published references."""


class Retries(NamedTuple):
    """`count`: attempts after the first. The wait before a retry doubles up to `wait_max_ms`, times a random factor from 0.5 to
    1.5."""

    count: int
    wait_min_ms: int
    wait_max_ms: int


def publish(attempts: Attempts, retries: Retries, env: Env) -> Committed | None:
    """Publish, with retries. Returns None if every attempt met a conflict; then all written files are deleted."""
    wait_ms = retries.wait_min_ms
    undo.on_failure(attempts.give_up)  # lest the one below is interrupted
    try:
        for left in reversed(range(1 + retries.count)):
            outcome = attempts.run()
            if isinstance(outcome, Unknown):
                outcome = attempts.settle(outcome)
            if isinstance(outcome, Committed):
                attempts.finish(outcome)
                undo.done(attempts.give_up)
                return outcome
            attempts.withdraw()
            if left:
                env.sleep(wait_ms * (0.5 + env.random()) / 1000)
            wait_ms = min(2 * wait_ms, retries.wait_max_ms)
    except BaseException:
        attempts.give_up()
        undo.done(attempts.give_up)
        raise
    attempts.give_up()
    undo.done(attempts.give_up)
    return None
