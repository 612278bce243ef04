"""A block in which PySpark prints nothing."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress log lines, warnings, and errors in threads and finalizers, where py4j reports every interrupted call at length.

    Errors of the block itself are raised.
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
