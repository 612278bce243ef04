"""The fields that the rows of events have, by the column of their names that `cdc.event_queries` reads. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.event_queries import BETWEEN


class EventFields(NamedTuple):
    """The fields that the rows of events have: the lists of them that occur, and the number of that of each event."""

    lists: list[list[str]]
    of_event: np.ndarray

    @staticmethod
    def of(texts: pa.ChunkedArray) -> EventFields:
        names = texts.combine_chunks().dictionary_encode()
        lists = [text.split(BETWEEN) if text else [] for text in names.dictionary.to_pylist()]
        return EventFields([*lists, []], np.asarray(pc.fill_null(names.indices, len(lists))).astype(np.int64))

    def having(self, matches: Callable[[list[str]], bool]) -> np.ndarray:
        """Flags the events whose list matches."""
        return np.array([matches(one) for one in self.lists], bool)[self.of_event]

    def have(self, name: str) -> np.ndarray:
        """Flags the events with a field."""
        return self.having(lambda names: name in names)
