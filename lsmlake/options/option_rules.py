"""Rules between options, as data: options that exclude each other, bound each other, or must be set together.

The conditions under which one option has an effect are part of its declaration (`Option.only`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from lsmlake.errors import InvalidOption
from lsmlake.options.callback_options import CUSTOM, HTTP_REPORT
from lsmlake.options.changelog_options import FULL_COMPACTION, INPUT
from lsmlake.options.compaction_options import TIERED
from lsmlake.options.iceberg_options import ICEBERG
from lsmlake.options.merge_options import FIRST_ROW
from lsmlake.options.option import Only, Option, Tables, Values, When, is_set
from lsmlake.options.retention_options import PERIODS_MS, WATERMARK


class Excludes(NamedTuple):
    """The options exclude each other. `tables`: the tables in which this holds."""

    one: When
    other: When
    why: str
    cure: str = "leave one of them out"
    tables: Tables = Tables.ALL


class AtMost(NamedTuple):
    """The value of option `low` is at most that of `high`, unless one of them is off. A default follows a given value."""

    low: str
    high: str


class Below(NamedTuple):
    """The value of option `low` is less than the limit that `limits` gives for the value of option `high`."""

    low: str
    high: str
    limits: Mapping[object, int]


class Together(NamedTuple):
    """Both options are set, or neither."""

    one: str
    other: str


class Needs(NamedTuple):
    """While `one` holds, option `other` is set."""

    one: When
    other: str


class ByMember(NamedTuple):
    """Option `other` is set if the value of option `one`, a list, has `member`, and only then."""

    one: str
    other: str
    member: str


_REMOVING = (
    When("partial-update.remove-record-on-delete"),
    When("partial-update.remove-record-on-sequence-group"),
    When("aggregation.remove-record-on-delete"),
)

RULES: tuple[Excludes | AtMost | Below | Together | Needs | ByMember, ...] = (
    Excludes(
        When("compaction.strategy", (TIERED,)),
        When("deletion-vectors.enabled", (False,)),
        "tiered keeps many sorted runs, and without deletion vectors every read merges them",
        "set compaction.strategy = universal, or leave it out",
    ),
    Excludes(
        When("changelog-producer", (FULL_COMPACTION,)),
        When("deletion-vectors.enabled", (True,)),
        "a full compaction reports what reaches the last level, and deletion vectors change the last level in between",
        "set changelog-producer = lookup, or leave deletion-vectors.enabled out",
    ),
    Excludes(
        When(ICEBERG, (True,)),
        When("deletion-vectors.enabled", (False,)),
        "readers of Iceberg do not merge files",
        f"set deletion-vectors.enabled = true, or leave {ICEBERG} out",
        Tables.KEYED,
    ),
    Excludes(
        When("merge-engine", (FIRST_ROW,)),
        When("changelog-producer", (INPUT, FULL_COMPACTION)),
        "they cannot tell the first row of a key from later ones",
        "set changelog-producer = lookup or none",
    ),
    *(Excludes(removing, When("ignore-delete", (True,)), "no -D row would be left") for removing in _REMOVING),
    Excludes(_REMOVING[0], _REMOVING[1], "one removes the row at every -D, the other at some"),
    Excludes(When("scan.fallback-branch"), When("scan.primary-branch"), "a partition is read from one of two branches"),
    Together("record-level.expire-time", "record-level.time-field"),
    Needs(When("tag.automatic-creation", (WATERMARK,)), "watermark.column"),
    Together("compaction.offpeak.start.hour", "compaction.offpeak.end.hour"),
    AtMost("num-sorted-run.compaction-trigger", "num-sorted-run.stop-trigger"),
    AtMost("file.block-size", "target-file-size"),
    AtMost("snapshot.num-retained.min", "snapshot.num-retained.max"),
    AtMost("changelog.num-retained.min", "changelog.num-retained.max"),
    AtMost("commit.min-retry-wait", "commit.max-retry-wait"),
    Below("tag.creation-delay", "tag.creation-period", PERIODS_MS),
    ByMember("partition.mark-done-action", "partition.mark-done-action.url", HTTP_REPORT),
    ByMember("partition.mark-done-action", "partition.mark-done-action.custom.class", CUSTOM),
)


def adjusted(values: Values, given: Collection[str]) -> dict[str, Any]:
    """The values, with each default adjusted to the given value of the option that it is compared with."""
    made = dict(values)
    for rule in RULES:
        if isinstance(rule, AtMost) and is_set(made[rule.low]) and is_set(made[rule.high]) and made[rule.low] > made[rule.high]:
            if rule.low not in given:
                made[rule.low] = made[rule.high]
            elif rule.high not in given:
                made[rule.high] = made[rule.low]
    return made


def check(
    given: Iterable[tuple[str, tuple[Only, ...]]], values: Values, options: Mapping[str, Option], where: str, *, keyed: bool
) -> None:
    """Checks the conditions of the given options, and all rules. Raises InvalidOption.

    Args:
        given: the names of the given options, each with the conditions under which it has an effect.
        values: the values in effect of all options.
        keyed: the table has a primary key.
    """

    def found(*names: str) -> str:
        return ", ".join(f"{name} = {options[name].type.text(values[name]) or 'nothing'}" for name in dict.fromkeys(names))

    for name, conditions in given:
        for alternatives in conditions:
            if not any(when.holds(values) for when in alternatives):
                needed = " or ".join(map(str, alternatives))
                raise InvalidOption(
                    f"option {name!r} has no effect unless {needed}",
                    where=where,
                    found=found(*(when.option for when in alternatives)),
                    cure=f"set {needed}, or leave the option out",
                )
    for what, names, cure in _broken(values, keyed):
        raise InvalidOption(what, where=where, found=found(*names), cure=cure)


def _broken(values: Values, keyed: bool) -> Iterator[tuple[str, tuple[str, str], str]]:
    """(description, the two options, cure) of each violated rule."""
    for rule in RULES:
        match rule:
            case Excludes(one, other, why, cure, tables) if tables.include(keyed) and one.holds(values) and other.holds(values):
                yield f"{one} and {other} exclude each other: {why}", (one.option, other.option), cure
            case AtMost(low, high) if is_set(values[low]) and is_set(values[high]) and values[low] > values[high]:
                yield f"{low} is greater than {high}", (low, high), f"decrease {low}, or increase {high}"
            case Below(low, high, limits) if values[low] >= limits[values[high]]:
                yield f"{low} is not less than the period {high}", (low, high), f"decrease {low}"
            case Together(one, other) if is_set(values[one]) != is_set(values[other]):
                yield f"only one of {one} and {other} is set", (one, other), "set both or neither"
            case Needs(one, other) if one.holds(values) and not is_set(values[other]):
                yield f"{one} needs {other}", (one.option, other), f"set {other}"
            case ByMember(one, other, member) if (member in values[one]) != is_set(values[other]):
                yield f"{other} is set if {one} has {member}, and only then", (one, other), "set both or neither"
