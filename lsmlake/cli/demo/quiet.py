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
    """No log lines, no warnings, nothing from threads and finalizers, where py4j tells at length of the calls that an interruption
    cuts short. What goes wrong is raised."""
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
