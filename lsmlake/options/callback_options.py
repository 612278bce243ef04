"""Options of callbacks: what is told of commits and new tags, and by which action a partition is marked as done.

A callback is the name of an entry point of an installed package, in the group `lsmlake.callbacks`; so an option of a table runs
only code that was installed for that. Or it is an address, to which a JSON object is posted.
"""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.option import When, option
from lsmlake.options.option_types import address, any_text, duration, entry_points, several_of

CUSTOM, HTTP_REPORT, SUCCESS_FILE = ACTIONS = "custom", "http-report", "success-file"
_DONE = ((When("partition.idle-time-to-done"),),)


@dataclass(frozen=True)
class CallbackOptions:
    commit: tuple[str, ...] = option(
        "commit.callbacks", entry_points, (), "entry points of the group `lsmlake.callbacks` that are called after each commit"
    )
    commit_url: str | None = option(
        "commit.callback-url", address, None, "a JSON object is posted to this address after each commit", own=True
    )
    tag: tuple[str, ...] = option(
        "tag.callbacks", entry_points, (), "entry points of the group `lsmlake.callbacks` that are called for each new tag"
    )
    tag_url: str | None = option(
        "tag.callback-url", address, None, "a JSON object is posted to this address for each new tag", own=True
    )
    idle_ms: int | None = option(
        "partition.idle-time-to-done",
        duration,
        None,
        "a maintainer marks a partition as done once it had no new rows, and its time has been over, for so long; again after"
        " later rows",
    )
    interval_ms: int = option(
        "partition.time-interval", duration, 0, "how long the time of a partition lasts, such as 1 d for days as text", only=_DONE
    )
    done_actions: tuple[str, ...] = option(
        "partition.mark-done-action",
        several_of(*ACTIONS),
        (SUCCESS_FILE,),
        "how a partition is marked: a file _SUCCESS in its folder, a JSON object posted to partition.mark-done-action.url, or"
        " the entry points of partition.mark-done-action.custom.class; several are separated by commas",
        only=_DONE,
    )
    done_url: str | None = option("partition.mark-done-action.url", address, None, "the address of http-report", only=_DONE)
    done_params: str | None = option(
        "partition.mark-done-action.params", any_text, None, "text that http-report sends along", only=_DONE
    )
    done_custom: tuple[str, ...] = option(
        "partition.mark-done-action.custom.class",
        entry_points,
        (),
        "entry points of the group `lsmlake.callbacks` that the action custom calls",
        only=_DONE,
    )
