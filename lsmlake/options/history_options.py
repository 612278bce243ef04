"""Options of a history, which `Lake.history_of` makes: the table whose versions it keeps, and how.

They let a maintainer bring the history up to date, and a later call name them again or leave them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lsmlake.options.option import Change, Tables, When, option
from lsmlake.options.option_types import column, names, one_of, qualified_name

LATEST_FULL, EARLIEST_FULL = HISTORY_STARTS = "latest-full", "earliest-full"
SOURCE = "history.source"
VALID_FROM, VALID_TO = "valid_from", "valid_to"
"""The columns that a history has beside those of its source."""
_OF_HISTORY = ((When(SOURCE),),)


@dataclass(frozen=True)
class HistoryOptions:
    TABLES: ClassVar = Tables.KEYED

    source: str | None = option(
        SOURCE,
        qualified_name,
        None,
        "of a history: the table whose versions it keeps; `history_of` sets it, and maintainers bring the history up to date",
        own=True,
    )
    track: tuple[str, ...] = option(
        "history.track",
        names,
        (),
        "of a history: only a change of these columns begins a version; default: of any column",
        own=True,
        change=Change.WHILE_EMPTY,
        only=_OF_HISTORY,
    )
    track_except: tuple[str, ...] = option(
        "history.track-except",
        names,
        (),
        "of a history: all columns but these are tracked",
        own=True,
        change=Change.WHILE_EMPTY,
        only=_OF_HISTORY,
    )
    sequence_by: str | None = option(
        "history.sequence-by",
        column,
        None,
        "of a history: the column that orders the versions, or _commit_time: the commits of the table",
        own=True,
        change=Change.WHILE_EMPTY,
        only=_OF_HISTORY,
    )
    start: str = option(
        "history.start",
        one_of(*HISTORY_STARTS),
        LATEST_FULL,
        "of a history: what it began with: the rows that the table had then, or its oldest snapshot",
        own=True,
        change=Change.WHILE_EMPTY,
        only=_OF_HISTORY,
    )
