"""A block in which PySpark keeps its remarks to itself."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """No log lines, no warnings, nothing from threads and finalizers; what goes wrong is raised.

    py4j would tell there, at length, of every call that an interruption cuts short.
    """
    hooks = sys.unraisablehook, threading.excepthook
    logging.disable()
    sys.unraisablehook = threading.excepthook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook, threading.excepthook = hooks
        logging.disable(logging.NOTSET)
