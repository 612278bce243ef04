"""Names and times of automatic tags. Pure.

A period is a day, two hours or an hour in UTC, so that all writers of a table agree on it, whatever their time zone. The tag of a
period is named after its start. The first commit after the end of a period, and after the delay, creates the tag; it tags the
snapshot of that commit. Source of the rules: Apache Paimon, `TagAutoCreation` and `TagPeriodHandler`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from lsmlake.options.retention import DAILY, PERIODS_MS, WITH_DASHES, WITHOUT_DASHES, TagOptions

_EPOCH = datetime.datetime(1970, 1, 1)
_MILLISECOND = datetime.timedelta(milliseconds=1)


@dataclass(frozen=True)
class TagCalendar:
    """Times are milliseconds since the epoch.

    Attributes:
        period_ms: the length of a period.
        form: the format of names, for `strftime`.
        delay_ms: how long after the end of a period its tag is created.
        completes: whether the tags of periods without a commit are created later.
    """

    period_ms: int
    form: str
    delay_ms: int
    completes: bool

    @staticmethod
    def of(options: TagOptions) -> TagCalendar:
        day, hour = "%Y-%m-%d" if options.formatter == WITH_DASHES else "%Y%m%d", "%H"
        gap = " " if options.formatter in (WITH_DASHES, WITHOUT_DASHES) else ""
        form = day if options.period == DAILY else f"{day}{gap}{hour}"
        return TagCalendar(PERIODS_MS[options.period], form, options.delay_ms, options.completion)

    def name(self, start_ms: int) -> str:
        """The name of the tag of the period that starts then."""
        return (_EPOCH + start_ms * _MILLISECOND).strftime(self.form)

    def start(self, name: str) -> int | None:
        """The start of the period of this name; None if no automatic tag has such a name."""
        try:
            found = (datetime.datetime.strptime(name, self.form) - _EPOCH) // _MILLISECOND
        except ValueError:
            return None
        return found if self.name(found) == name else None

    def automatic(self, names: Iterable[str]) -> list[str]:
        """Returns the names of automatic tags among `names`, in order of time."""
        started = ((self.start(name), name) for name in names)
        return [name for _, name in sorted((start, name) for start, name in started if start is not None)]

    def due(self, names: Iterable[str], time_ms: int) -> str | None:
        """The name of the tag that a commit at `time_ms` creates.

        Args:
            names: the names of all tags.
            time_ms: the time of the commit.
        """
        last = self._last(names)
        if last is not None and time_ms < self._next_due(last):
            return None
        previous = time_ms // self.period_ms * self.period_ms - self.period_ms
        return self.name(last + self.period_ms if self.completes and last is not None else previous)

    def next_due_ms(self, names: Iterable[str]) -> int:
        """Commits before this time create no tag."""
        last = self._last(names)
        return 0 if last is None else self._next_due(last)

    def _next_due(self, last: int) -> int:
        """When the tag of the period after the one that starts at `last` is due."""
        return last + 2 * self.period_ms + self.delay_ms

    def _last(self, names: Iterable[str]) -> int | None:
        return max((start for name in names if (start := self.start(name)) is not None), default=None)
