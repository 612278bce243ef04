"""Removes files that a public call has created, and that nothing references yet, if the call fails or is interrupted.

An interruption, such as KeyboardInterrupt, can come between any two steps of Python, so handlers around single steps leave gaps.
Instead a file is noted before it is created, and `border` removes the files still noted when a public call fails anywhere:

    made(remove, paths)      # from now on a failure calls `remove(paths)`
    kept(remove, paths)      # a published file references the paths, or they are deleted
    held = hold()            # publishing: after a failure nobody knows whether the paths are referenced
    give_back(held)          # publishing certainly failed

`on_failure` and `done` do the same for any other action. An action and `remove` may be repeated. Outside public calls, such as in
the tasks of Spark, nothing is noted.

C code can turn an interruption into an error of its own, or lose it: `heard` and `hear` keep the interruption for the public
call, which raises it in the end.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar, Token
from typing import TypeVar

Result, Item = TypeVar("Result"), TypeVar("Item")
Remove = Callable[[list[str]], object]
Noted = dict[tuple[Remove, str], None]

_INTERRUPTIONS_MAX = 3
"""The number of further interruptions that do not stop the removal of files."""

_log = logging.getLogger("lsmlake")


class Call:
    """A public call in progress.

    Attributes:
        active: whether a step of the call is running.
        over: whether the call has failed; threads that it started and that still run must not leave files.
        interruption: an interruption that was raised where it may have been lost.
        handled: the exception that the caller of the public call was handling.
    """

    def __init__(self) -> None:
        self.active = self.over = False
        self.interruption: BaseException | None = None
        self.handled: BaseException | None = None
        self.noted: Noted = {}
        self.actions: dict[Callable[[], object], None] = {}

    def enter(self) -> Token[Call | None]:
        """Makes this the current call, for a step that begins once it is `active`; `leave` ends the step."""
        self.handled = sys.exc_info()[1]
        return _current.set(self)

    def succeeded(self, result: Result) -> Result:
        """Returns the result of a step, or raises an interruption that was kept."""
        if self.interruption is not None:
            raise self.interruption
        self.active = False
        return result

    def failed(self, error: BaseException) -> None:
        """After an error in a step: removes the files that the call has created. Raises the interruption that the error
        replaced, if any."""
        self._undo()
        interruption = self.interruption or behind(error, self.handled)
        if interruption is not None and interruption is not error:
            raise interruption from None

    def _undo(self) -> None:
        self.active, self.over = False, True
        interruptions = 0
        while (self.actions or self.noted) and interruptions <= _INTERRUPTIONS_MAX:
            try:
                self._undo_last()
            except BaseException as again:
                interruptions += is_interruption(again)

    def _undo_last(self) -> None:
        if self.actions:
            action = next(reversed(self.actions))
            _try(action)
            self.actions.pop(action, None)
            return
        remove = next(reversed(self.noted))[0]
        paths = [path for other, path in list(self.noted) if other == remove]
        _try(lambda: remove(paths))
        for path in paths:
            self.noted.pop((remove, path), None)


def _try(action: Callable[[], object]) -> None:
    try:
        action()
    except Exception as failed:  # the error of the call is more useful; a file that stays is a harmless orphan
        _log.warning("something stays that a failed call has made: %s", failed)


_current: ContextVar[Call | None] = ContextVar("lsmlake_call", default=None)
leave = _current.reset
"""Ends a step. Its argument: the token that `Call.enter` returned."""


def current() -> Call | None:
    """The public call in progress."""
    call = _current.get()
    return call if call is not None and call.active else None


def is_interruption(error: BaseException) -> bool:
    """Whether the exception is a request to end the program or the call, and not an error in them."""
    return not isinstance(error, (Exception, GeneratorExit))


def behind(error: BaseException, handled: BaseException | None = None) -> BaseException | None:
    """The interruption that an error replaced, for example in a `finally`. `handled`: an exception that was already being
    handled when the error was raised."""
    seen: list[BaseException | None] = [None, handled]
    current: BaseException | None = error
    while current not in seen:
        if is_interruption(current):
            return current
        seen.append(current)
        current = current.__cause__ or current.__context__
    return None


def pass_interruption(error: Exception) -> None:
    """Raises the interruption that an error replaced, if any. For handlers that would swallow the error."""
    call = _current.get()
    if (interruption := behind(error, None if call is None else call.handled)) is not None:
        raise interruption from None


def made(remove: Remove, paths: Iterable[str]) -> Call | None:
    """Notes paths: if the call in progress fails, `remove` is called with them. Returns the call."""
    if (call := current()) is not None:
        for path in paths:
            call.noted[remove, path] = None
    return call


def kept(remove: Remove, paths: Iterable[str]) -> None:
    """Takes back `made`."""
    if (call := current()) is not None:
        for path in paths:
            call.noted.pop((remove, path), None)


def hold() -> Noted:
    """Takes back all notes, so that a failure removes nothing that was noted before. Returns the notes."""
    held: Noted = {}
    if (call := current()) is not None:
        held, call.noted = call.noted, held
    return held


def give_back(held: Noted) -> None:
    """Restores the notes that `hold` took back."""
    if (call := current()) is not None:
        call.noted = held | call.noted


def on_failure(action: Callable[[], object]) -> None:
    """If the call in progress fails before `done(action)`, executes the action. Actions run in reverse order."""
    if (call := current()) is not None:
        call.actions[action] = None


def done(action: Callable[[], object]) -> None:
    """Takes back `on_failure`."""
    if (call := current()) is not None:
        call.actions.pop(action, None)


def heard(items: Iterable[Item]) -> Iterator[Item]:
    """Yields the items, and keeps an interruption for the call: the reader may turn it into another error, or lose it."""
    return _heard(items, current())


def _heard(items: Iterable[Item], call: Call | None) -> Iterator[Item]:
    try:
        yield from items
    except BaseException as error:
        _hear(error, call)
        raise


def hear(error: BaseException) -> None:
    """Keeps an interruption for the public call in progress."""
    _hear(error, current())


def _hear(error: BaseException, call: Call | None) -> None:
    if call is not None and is_interruption(error):
        call.interruption = call.interruption or error
