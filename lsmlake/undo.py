"""Files that a public call has created and nothing references yet. If the call fails or is interrupted, they are removed.

An interruption, such as KeyboardInterrupt, can come between any two steps of Python, so handlers beside each step have gaps. Here
a file is noted before it is created, and `border` removes the files still noted when a public call has failed, wherever that was:

    made(remove, paths)      # now `remove(paths)` follows a failure
    kept(remove, paths)      # it is named by something that was published, or it is gone
    held = hold()            # it is being published: whether it is named cannot be known after a failure
    give_back(held)          # it was certainly not published

`on_failure` and `done` do the same for any other action. An action and `remove` may be repeated. Outside public calls, such as in
the tasks of Spark, nothing is noted.

Code that is not Python's can turn an interruption into an error of its own, or lose it: `heard` and `hear` keep it for the public
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
"""So many further interruptions do not end the removal of what was made."""

_log = logging.getLogger("lsmlake")


class Call:
    """A public call in progress.

    Attributes:
        active: a step of it is running.
        over: it has failed; threads that it started and that still run must not leave anything.
        interruption: one that was raised where it may have been lost.
        handled: the exception that the caller handles meanwhile.
    """

    def __init__(self) -> None:
        self.active = self.over = False
        self.interruption: BaseException | None = None
        self.handled: BaseException | None = None
        self.noted: Noted = {}
        self.actions: dict[Callable[[], object], None] = {}

    def enter(self) -> Token[Call | None]:
        """A step of the call begins once it is `active`; `leave` ends it."""
        self.handled = sys.exc_info()[1]
        return _current.set(self)

    def succeeded(self, result: Result) -> Result:
        """The result of a step, unless there was an interruption, which is raised."""
        if self.interruption is not None:
            raise self.interruption
        self.active = False
        return result

    def failed(self, error: BaseException) -> None:
        """Removes the files that the call has created, after an error in a step. Raises the interruption that the error has
        replaced."""
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
    except Exception as failed:  # the error of the call is the one to tell; what stays is a harmless orphan
        _log.warning("something stays that a failed call has made: %s", failed)


_current: ContextVar[Call | None] = ContextVar("lsmlake_call", default=None)
leave = _current.reset
"""Ends a step: takes what `Call.enter` has returned."""


def current() -> Call | None:
    """The public call in progress."""
    call = _current.get()
    return call if call is not None and call.active else None


def is_interruption(error: BaseException) -> bool:
    """Whether the exception ends the program or the call, and says nothing about them."""
    return not isinstance(error, (Exception, GeneratorExit))


def behind(error: BaseException, handled: BaseException | None = None) -> BaseException | None:
    """The interruption that an error has replaced, as in a `finally` or in the code that makes a class. `handled`: an exception
    that was handled already when the error was raised."""
    seen: list[BaseException | None] = [None, handled]
    found: BaseException | None = error
    while found not in seen:
        if is_interruption(found):
            return found
        seen.append(found)
        found = found.__cause__ or found.__context__
    return None


def pass_interruption(error: Exception) -> None:
    """Raises the interruption that an error has replaced, for a handler that ends otherwise."""
    call = _current.get()
    if (interruption := behind(error, None if call is None else call.handled)) is not None:
        raise interruption from None


def made(remove: Remove, paths: Iterable[str]) -> Call | None:
    """If the call in progress fails, `remove` is called with these paths; returns the call."""
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
    """From now on, a failure leaves everything that was noted before; returns it."""
    held: Noted = {}
    if (call := current()) is not None:
        held, call.noted = call.noted, held
    return held


def give_back(held: Noted) -> None:
    """Takes back `hold`."""
    if (call := current()) is not None:
        call.noted = held | call.noted


def on_failure(action: Callable[[], object]) -> None:
    """If the call in progress fails before `done(action)`, the action is taken, the last one first."""
    if (call := current()) is not None:
        call.actions[action] = None


def done(action: Callable[[], object]) -> None:
    """Takes back `on_failure`."""
    if (call := current()) is not None:
        call.actions.pop(action, None)


def heard(items: Iterable[Item]) -> Iterator[Item]:
    """The items, for a reader that may turn an interruption into another error, or lose it."""
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
