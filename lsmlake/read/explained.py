"""What EXPLAIN says of the files of a plan, as lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lsmlake.format.files import DataFile
from lsmlake.read.plan import Plan

PLAIN: Final = ""
FORMATTED: Final = "FORMATTED"
ANALYZE: Final = "ANALYZE"
_FILES_SHOWN_MAX = 20


def pruned(plan: Plan) -> str:
    """How many files each step leaves."""
    return f"  files     {' -> '.join(f'{files} ({step})' for step, files in plan.pruned)}"


def contents(plan: Plan, mode: str) -> Iterator[str]:
    """What is in the files that are left: nothing with `PLAIN`, with `FORMATTED` also their names."""
    if mode == PLAIN:
        return
    files = _files(plan)
    yield f"  reads     {sum(file.rows for file in files):,} rows, {sum(file.bytes for file in files):,} bytes in the files"
    if mode == FORMATTED:
        shown = files[:_FILES_SHOWN_MAX]
        yield from (f"  file      {file.name}: level {file.level}, {file.rows:,} rows, {file.bytes:,} bytes" for file in shown)
        if len(files) > len(shown):
            yield f"  file      and {len(files) - len(shown):,} more"


def _files(plan: Plan) -> list[DataFile]:
    return [file for split in plan.splits for files in (split.files, split.level0, split.merged) for file in files]
