"""Finds interruptions, such as KeyboardInterrupt, that code other than Python's has lost.

Interruptions come in the main thread, between any two steps of Python, also in Python code that C code calls, such as the source
of an Arrow stream. There the C code turns them into an error of its own.

- `told` finds the interruption in the error of the C code, for consumers inside lsmlake.
- `exported` makes a stream for other consumers, which raises the interruption again as soon as the C code has returned.
"""

from __future__ import annotations

import builtins
import re
import signal
import sys
from _thread import allocate_lock, start_new_thread
from collections.abc import Iterator
from threading import get_ident, main_thread
from types import FrameType

import pyarrow as pa

from lsmlake import undo

_IN_PYTHON = re.compile(r"^(KeyboardInterrupt|SystemExit)(?:: (.*))?$", re.MULTILINE)
_IN_ARROW = re.compile(r"\breceived signal \d+")
"""Patterns in the text of an error whose cause is a Python exception, or a signal that an Arrow reader received."""
_FIRST_LOOK_S = 0.001
_STEPS = 10
"""More steps than Python takes until it handles a signal that has arrived."""


def told(error: Exception) -> BaseException | None:
    """The interruption named in the text of an Arrow error. If a signal ended an Arrow reader, this is a KeyboardInterrupt."""
    if not isinstance(error, (pa.ArrowException, OSError)):
        return None
    text = str(error)
    if _IN_ARROW.search(text) or getattr(error, "signum", None):
        return KeyboardInterrupt()
    match = _IN_PYTHON.search(text)
    return None if match is None else getattr(builtins, match[1])(*filter(None, [match[2]]))


def exported(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The same rows, for consumers of Arrow streams."""
    return pa.RecordBatchReader.from_batches(reader.schema, _exported(reader))


def as_stream(reader: pa.RecordBatchReader, requested_schema: object | None) -> object:
    """The rows as the capsule that `__arrow_c_stream__` returns.

    Args:
        reader: the rows.
        requested_schema: the capsule of a schema: returns these columns in this order, in other types if Arrow can cast them.
            By the protocol the consumer must check the result: if a name does not exist, it gets all columns.
    """
    given = exported(reader)
    if requested_schema is None:
        return given.__arrow_c_stream__()
    wanted, names = pa.Schema._import_from_c_capsule(requested_schema), reader.schema.names
    if len(set(names)) < len(names) or not set(wanted.names) <= set(names) or len(set(wanted.names)) < len(wanted.names):
        return given.__arrow_c_stream__()
    chosen = pa.schema([reader.schema.field(name) for name in wanted.names])
    some = pa.RecordBatchReader.from_batches(chosen, (batch.select(wanted.names) for batch in given))
    try:
        return some.__arrow_c_stream__(wanted.__arrow_c_schema__())
    except (pa.ArrowException, ValueError):
        return some.__arrow_c_stream__()


def _exported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except BaseException as error:
        if undo.current() is not None:
            undo.hear(error)
        elif undo.is_interruption(error):
            _raise_after(sys._getframe(1), error)
        raise


def _raise_after(caller: FrameType, error: BaseException) -> None:
    """Raises the exception in the main thread as soon as the C code that `caller` called there has returned. Only a signal can
    raise an exception in a thread from outside, so the handler of SIGINT is replaced until then."""
    before = signal.getsignal(signal.SIGINT)
    if get_ident() == main_thread().ident and before is not None and not isinstance(before, _Again):
        again = _Again(caller, error, before)
        signal.signal(signal.SIGINT, again)
        start_new_thread(again.interrupt, (main_thread().ident,))


class _Again:
    """A handler of SIGINT that replaces the previous handler until it has raised an exception."""

    def __init__(self, caller: FrameType, error: BaseException, before: signal._HANDLER) -> None:
        self._caller, self._step, self._error, self._before = caller, caller.f_lasti, error, before
        self._sending, self._raised = allocate_lock(), allocate_lock()
        self._raised.acquire()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._is_called_in(frame):
            return
        signal.signal(signal.SIGINT, _nothing)
        with self._sending:  # from here on `interrupt` sends no signal
            self._raised.release()
        for _ in range(_STEPS):  # a signal sent meanwhile is handled in between
            _nothing()
        signal.signal(signal.SIGINT, self._before)
        raise self._error

    def interrupt(self, thread: int) -> None:
        seconds = _FIRST_LOOK_S
        while not self._raised.acquire(timeout=seconds):
            if not self._is_called_in(sys._current_frames().get(thread)):
                with self._sending:
                    if self._raised.locked():
                        signal.pthread_kill(thread, signal.SIGINT)
                seconds *= 2

    def _is_called_in(self, frame: FrameType | None) -> bool:
        """Whether the call is in progress in a thread where `frame` runs."""
        while frame is not None and frame is not self._caller:
            frame = frame.f_back
        return frame is not None and frame.f_lasti == self._step


def _nothing(*_: object) -> None:
    """Handles a signal whose work is done."""
