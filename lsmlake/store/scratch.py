"""Temporary folders on local disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A folder that is removed at the end, with its content."""
    with tempfile.TemporaryDirectory(prefix="lsmlake-") as folder:
        yield folder
