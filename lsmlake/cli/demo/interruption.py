"""Turns Ctrl-C during Spark's work into a single KeyboardInterrupt.

PySpark's own handler calls Java, possibly in the middle of another call, which can raise any error. So this handler replaces it,
and an interrupted block raises only KeyboardInterrupt.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interruption() -> Iterator[Callable[[], None]]:
    """Yields a function that replaces PySpark's handler, to be called once Spark has started. In the main thread only.

    Only the first Ctrl-C counts; later ones would only disturb the cleanup.
    """
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        if not pressed:
            pressed = True
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: signal.signal(signal.SIGINT, press)
    except BaseException:
        if pressed:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
