"""The page of one table as one file: `lsmlake show --html FILE`.

It has the newest commits, the trees of the largest partition at the newest snapshots, as many as fit, the files, the compactions
and the definition; no rows of the table except the least and greatest keys of files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from lsmlake import __version__
from lsmlake.api.table import Table
from lsmlake.errors import LakeError
from lsmlake.serve.page.bucket_trees import trees
from lsmlake.serve.page.commit_timeline import history, ranges
from lsmlake.serve.page.page_files import in_one_file, json_in_html
from lsmlake.serve.page.partition_map import partition_map
from lsmlake.serve.page.shown_files import KnownFiles
from lsmlake.serve.page.table_card import card
from lsmlake.serve.page.works_done import Compactions

_TREES_MAX, _TREES_BYTES_MAX = 100, 3 << 20


def saved_page(table: Table) -> str:
    """The HTML document. Reads metadata only. Raises LakeError."""
    known, name = KnownFiles(), table.name
    now = card(known, table)
    number = None if now["snapshot"] is None else now["snapshot"]["snapshot"]
    newest = trees(known, table, number)
    files = partition_map(known, table, number)
    answers: dict[str, Any] = {
        address("table", table=name): now,
        address("history", table=name): history(table),
        address("map", table=name): files,
        address("compactions", table=name): Compactions().of(table),
        address("tree", table=name): newest,
    }
    if number is not None and not files["partitioned"]:
        answers[address("map", table=name)] = partition_map(known, table, number, "")
    shown: list[int] = []
    room = _TREES_BYTES_MAX
    for snapshot in _newest(now["ranges"]):
        try:
            one = newest if snapshot == number else trees(known, table, snapshot, newest["partition"])
        except LakeError:
            break  # the partition did not exist yet, or the snapshot has just expired
        room -= len(json_in_html(one))
        if room < 0 and shown:
            break
        answers[address("tree", table=name, snapshot=snapshot)] = one
        shown.append(snapshot)
    data = {
        "table": name,
        "version": __version__,
        "made_ms": table.meta.env.clock(),
        "trees": ranges(sorted(shown)),
        "answers": answers,
    }
    return in_one_file(f"{name} – lsmlake", data)


def address(path: str, **asked: object) -> str:
    """The address of a request, by which the page finds its answer: the parameters by their names."""
    given: Mapping[str, object] = {key: asked[key] for key in sorted(asked)}
    return f"/api/{path}?{urlencode(given)}"


def _newest(pairs: list[list[int]]) -> list[int]:
    """The newest numbers of ranges, descending, at most `_TREES_MAX`."""
    numbers = (number for first, last in reversed(pairs) for number in range(last, first - 1, -1))
    return [number for number, _ in zip(numbers, range(_TREES_MAX), strict=False)]
