"""Ctrl-C while Spark works, as one KeyboardInterrupt and nothing else.

PySpark's own handler calls into Java from wherever the program happens to be, maybe in the middle of another such call, and what
comes out may be any error. So ours takes its place, and whatever an interrupted block raises leaves it as KeyboardInterrupt.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interruption() -> Iterator[Callable[[], None]]:
    """Yields what takes the place of PySpark's handler, to be called once Spark has started. In the main thread only.

    The first Ctrl-C counts; those after it would only disturb the clearing up.
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
