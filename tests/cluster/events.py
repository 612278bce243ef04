"""What Spark says about the tasks of a driver, by its event log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class End(NamedTuple):
    """The end of one attempt of a task. `reason`: "Success", "ExceptionFailure", "ExecutorLostFailure", "FetchFailed", ..."""

    stage: int
    stage_attempt: int
    partition: int
    attempt: int
    speculative: bool
    reason: str


def ends(folder: Path) -> Iterator[End]:
    """Every attempt of every task that has ended, of all drivers whose logs lie in the folder."""
    for path in sorted(folder.iterdir()):
        for line in path.read_text().splitlines():
            if '"SparkListenerTaskEnd"' in line[:60] and line.endswith("}"):
                event = json.loads(line)
                task, reason = event["Task Info"], event["Task End Reason"]["Reason"]
                where = event["Stage ID"], event["Stage Attempt ID"], task["Partition ID"], task["Attempt"]
                yield End(*where, task["Speculative"], reason)
