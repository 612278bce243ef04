"""Temporary folders on local disk."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Iterable

from lsmlake import undo


class Scratch:
    """A folder that `close` removes with its content. The end of a failed call, or of the object, removes it, too."""

    def __init__(self) -> None:
        self.path = os.path.join(tempfile.gettempdir(), f"lsmlake-{os.getpid()}-{uuid.uuid4().hex}")
        undo.made(_remove, [self.path])
        self._forget = weakref.finalize(self, _remove, [self.path])
        os.mkdir(self.path, 0o700)

    def close(self) -> None:
        _remove([self.path])
        undo.kept(_remove, [self.path])
        self._forget.detach()


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
