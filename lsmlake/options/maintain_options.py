"""Options of maintenance: when a maintainer may work on a table, how much, and which state of a table is a problem.

A database can hold them, too, as properties: they apply to its tables that do not set the option themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lsmlake.errors import InvalidOption
from lsmlake.options.option import option, options_of
from lsmlake.options.option_types import boolean, duration, fraction, hours, integer, positive_size

PREFIX = "maintain."


@dataclass(frozen=True)
class MaintainOptions:
    enabled: bool = option(
        "maintain.enabled", boolean, True, "maintainers look after the table; false: they leave it alone", own=True
    )
    window: tuple[int, int] | None = option(
        "maintain.window",
        hours,
        None,
        "the hours of the day, in UTC, in which maintainers compact, split, analyze and look for orphan files, such as 22-6;"
        " default: all",
        own=True,
    )
    day_bytes: int | None = option(
        "maintain.bytes-per-day",
        positive_size,
        None,
        "the most bytes that maintainers read and write in 24 hours to compact, split and analyze the table; default: no limit",
        own=True,
    )
    orphans_ms: int = option(
        "maintain.orphan-interval",
        duration,
        604_800_000,
        "how often a maintainer removes orphan files, which lists all files of the table; 0: never",
        own=True,
    )
    analyze_share: float | None = option(
        "maintain.analyze-share",
        fraction,
        0.2,
        "a maintainer analyzes a table again once so great a share of its rows is newer than its statistics; it never makes the"
        " first statistics of a table",
        own=True,
    )
    alert_runs: int | None = option(
        "maintain.alert.level0-runs",
        integer(1),
        20,
        "health: the most sorted runs that may wait at level 0 of a bucket",
        own=True,
    )
    alert_unmerged_ms: int | None = option(
        "maintain.alert.unmerged-time", duration, 86_400_000, "health: the longest time that a row may wait at level 0", own=True
    )
    alert_dead_share: float | None = option(
        "maintain.alert.dead-share", fraction, 0.5, "health: the greatest share of dead rows among all rows", own=True
    )
    alert_consumer_lag: int | None = option(
        "maintain.alert.consumer-lag",
        integer(0),
        None,
        "health: how many snapshots a consumer may be behind; default: any number",
        own=True,
    )
    alert_publication_lag: int | None = option(
        "maintain.alert.publication-lag", integer(0), 10, "health: how many snapshots Iceberg metadata may be behind", own=True
    )
    alert_commit_ms: int | None = option(
        "maintain.alert.commit-time", duration, None, "health: the longest time without a commit; default: any time", own=True
    )

    def within(self, properties: Mapping[str, str], given: Mapping[str, str], where: str) -> MaintainOptions:
        """These options of a table that sets `given`, completed by the properties of its database. Raises InvalidOption."""
        inherited = {name: value for name, value in properties.items() if name.startswith(PREFIX) and name not in given}
        if not inherited:
            return self
        known = {each.option.name: each for each in options_of(MaintainOptions)}
        for name in inherited:
            if name not in known:
                raise _unknown(name, where)
        return replace(
            self, **{known[name].attribute: known[name].option.type.parse(name, text, where) for name, text in inherited.items()}
        )


def _unknown(name: str, where: str) -> InvalidOption:
    return InvalidOption(f"unknown option {name!r}", where=where, cure="correct the property of the database, or remove it")
