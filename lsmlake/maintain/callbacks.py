"""Callbacks: tells installed code, or a service, of commits, of new tags and of partitions that are done."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import entry_points
from typing import NamedTuple

from lsmlake.errors import MissingDependency
from lsmlake.format.paths import on_branch
from lsmlake.maintain.table_facts import UnmarkedPartition
from lsmlake.options.callback_options import CUSTOM, HTTP_REPORT, SUCCESS_FILE
from lsmlake.storage.http_report import post
from lsmlake.storage.storage import read_bytes
from lsmlake.tables.version import Metadata, Version

GROUP = "lsmlake.callbacks"


class CallbackEvent(NamedTuple):
    """What a callback is told. It is called with this value, or it is posted as a JSON object without the parts that are None.

    Attributes:
        event: "commit", "tag" or "partition".
        table: the table, with its branch.
        path: its folder, or that of the partition, relative to the warehouse.
        snapshot: the snapshot that was published or tagged.
        kind: the kind of the commit.
        rows: the rows that the commit wrote.
        tag: the name of the tag.
        partition: the partition, such as "dt=2026-01-31".
        params: `partition.mark-done-action.params`.
    """

    event: str
    table: str
    path: str
    snapshot: int | None = None
    kind: str | None = None
    rows: int | None = None
    tag: str | None = None
    partition: str | None = None
    params: str | None = None


def tell(event: CallbackEvent, names: Iterable[str], url: str | None) -> None:
    """Calls entry points, then posts to the address.

    Raises:
        MissingDependency: there is no entry point of a name.
        StorageFailed: the service did not take the object.
    """
    for name in names:
        named = [one for one in entry_points(group=GROUP) if one.name == name]
        if not named:
            cure = "install the package that has it where commits are made and where the maintainer runs"
            raise MissingDependency(f"there is no entry point {name!r} in the group {GROUP}", where=event.table, cure=cure)
        named[0].load()(event)
    if url is not None:
        post(url, {name: value for name, value in event._asdict().items() if value is not None})


def name_of(meta: Metadata) -> str:
    """The name of the table, with its branch."""
    branch = meta.paths.branch
    return meta.paths.table_name if branch is None else on_branch(meta.paths.table_name, branch.name)


# -- partitions that are done -----------------------------------------------------------------------------------------

SUCCESS = "_SUCCESS"


def mark_done(version: Version, partition: UnmarkedPartition) -> None:
    """Marks a partition as done by the actions of the table. Raises MissingDependency, StorageFailed."""
    meta, options = version.meta, version.options.callbacks
    folder = f"{meta.paths.root}/{partition.directory}"
    numbers = {"snapshot": partition.snapshot, "partition": partition.name, "params": options.done_params}
    event = CallbackEvent("partition", name_of(meta), folder, **numbers)
    if SUCCESS_FILE in options.done_actions:
        _put_success(meta, f"{folder}/{SUCCESS}")
    if HTTP_REPORT in options.done_actions:
        tell(event, (), options.done_url)
    if CUSTOM in options.done_actions:
        tell(event, options.done_custom, None)


def _put_success(meta: Metadata, path: str) -> None:
    """Writes the file, with the time of its creation and of this change, as Apache Paimon does."""
    now_ms = meta.env.clock()
    try:
        created = json.loads(read_bytes(meta.env.storage, path))["creationTime"]
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        created = now_ms
    with meta.env.storage.write(path) as sink:
        sink.write(json.dumps({"creationTime": created, "modificationTime": now_ms}).encode())
