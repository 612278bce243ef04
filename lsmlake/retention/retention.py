"""Retention: which snapshots and changelogs are kept, decided by numbers and times. Pure; `retention.snapshot_expiry` removes.

The oldest expire first. A snapshot expires if there are too many, or once its successor is old, so time travel reaches every
moment within the retained time. The newest `least` snapshots, and those that a consumer has yet to read, never expire.

Source of the rules: Apache Paimon, `ExpireSnapshotsImpl` and `ExpireChangelogImpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from lsmlake.errors import InvalidQuery, Wording
from lsmlake.options.changelog_options import NONE
from lsmlake.options.table_options import Options

_LEAST = Wording("correct retain_min", command="correct --retain-min")
_MOST = Wording("correct retain_max", command="correct --retain-max")
_LIMIT = Wording("correct limit", command="correct --limit")
_CROSSED = Wording("retain_max is less than retain_min", command="--retain-max is less than --retain-min")


class Retention(NamedTuple):
    """Keep at least `least` and, if set, at most `most`; between these bounds, a snapshot expires once its successor is older
    than `older_than_ms`. `limit`: the most that expire in one run."""

    least: int
    most: int | None
    older_than_ms: int
    limit: int | None = None


def snapshot_retention(
    options: Options, now_ms: int, least: int | None, most: int | None, older_than_ms: int | None, limit: int | None
) -> Retention:
    """The given values, completed by the table's options; `snapshot.expire.limit` applies only if no value is given. Raises
    InvalidQuery."""
    for name, number in ((_LEAST, least), (_MOST, most), (_LIMIT, limit)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise InvalidQuery("not a number of snapshots", expected="1 or more", found=repr(number), cure=name)
    if (least, most, older_than_ms, limit) == (None, None, None, None):
        limit = options.retention.expire_limit
    most = options.retention.snapshots_max if most is None else most
    if least is None:
        least = options.retention.snapshots_min if most is None else min(options.retention.snapshots_min, most)
    if most is not None and most < least:
        raise InvalidQuery(_CROSSED, found=f"{most} < {least}", cure="correct one of them")
    return Retention(least, most, now_ms - options.retention.snapshots_ms if older_than_ms is None else older_than_ms, limit)


def changelog_retention(options: Options, now_ms: int) -> Retention | None:
    """The retention of changelogs; None: a changelog expires with its snapshot."""
    least, most, time_ms = options.retention.changelogs_min, options.retention.changelogs_max, options.retention.changelogs_ms
    if options.changelog.producer == NONE or (least, most, time_ms) == (None, None, None):
        return None
    return Retention(
        options.retention.snapshots_min if least is None else least,
        options.retention.snapshots_max if most is None else most,
        now_ms - (options.retention.snapshots_ms if time_ms is None else time_ms),
        options.retention.expire_limit,
    )


def first_kept(numbers: Sequence[int], time_of: Callable[[int], int], retention: Retention, protected: int | None = None) -> int:
    """The oldest of `numbers` (ascending, not empty) to keep; at most `protected`. Reads the times of the expiring snapshots and
    of two more. Numbers may be missing: a rollback has cut them out."""
    stop = _newest(numbers, retention.least)
    if protected is not None:
        stop = min(stop, protected)
    if retention.limit is not None:
        stop = min(stop, _limited(numbers, retention.limit))
    surplus = numbers[0] if retention.most is None else _newest(numbers, retention.most)
    for number, following in pairwise(numbers):
        if number >= stop or (number >= surplus and time_of(following) >= retention.older_than_ms):
            return number
    return numbers[-1]


def _newest(numbers: Sequence[int], count: int) -> int:
    """The oldest of the newest `count` numbers."""
    return numbers[-min(count, len(numbers))]


def _limited(numbers: Sequence[int], limit: int) -> int:
    """The oldest number to keep if at most `limit` snapshots expire."""
    return numbers[min(limit, len(numbers) - 1)]


def held(
    numbers: Sequence[int], time_of: Callable[[int], int], retention: Retention, protected: Mapping[str, int]
) -> dict[str, int]:
    """Reason -> the number of snapshots that it keeps although they are due to expire. `protected`: reason -> the oldest snapshot
    that it keeps."""
    due = first_kept(numbers, time_of, retention._replace(least=1, limit=None))
    stops = {f"at least {retention.least} snapshots are kept": _newest(numbers, retention.least), **protected}
    if retention.limit is not None:
        stops[f"at most {retention.limit} snapshots expire in one run"] = _limited(numbers, retention.limit)
    counts = {}
    by_stop = sorted(stops.items(), key=lambda item: item[1])
    for (reason, stop), (_, next_stop) in pairwise([*by_stop, ("", due)]):
        if (count := sum(stop <= number < min(next_stop, due) for number in numbers)) > 0:
            counts[reason] = count
    return counts


def plausible_times(numbers: Sequence[int], time_of: Callable[[int], int], now_ms: int) -> Callable[[int], int]:
    """`time_of`, with times in the future corrected: a snapshot dated after `now_ms` gets the time of the next snapshot that is
    not, or `now_ms`. Otherwise one wrong clock would keep all snapshots forever."""
    after = dict(pairwise(numbers))

    def time(number: int) -> int:
        while (time_ms := time_of(number)) > now_ms:
            if number not in after:
                return now_ms
            number = after[number]
        return time_ms

    return time
