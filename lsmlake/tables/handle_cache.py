"""The metadata of the tables that a lake opened last, so that the next statement finds what this one has read.

A table is known by its uuid, so one that was dropped and created again starts anew. Pickles empty.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from lsmlake.format.paths import TablePaths
from lsmlake.tables.metadata import Metadata

_TABLES_MAX = 16


class HandleCache:
    """The metadata of the last tables, by table. Threads can share it."""

    def __init__(self) -> None:
        self._found: OrderedDict[TablePaths, Metadata] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return HandleCache, ()

    def of(self, meta: Metadata) -> Metadata:
        """Returns the kept metadata of the same table. If there is none, keeps `meta` and returns it."""
        with self._lock:
            kept = self._found.setdefault(meta.paths, meta)
            self._found.move_to_end(meta.paths)
            while len(self._found) > _TABLES_MAX:
                self._found.popitem(last=False)
        return kept
