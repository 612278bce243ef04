"""Consumers: by name, the snapshot each reads next. What they have not read is not expired."""

from __future__ import annotations

from typing import NamedTuple

from lsmlake.errors import Corrupt
from lsmlake.format import envelope
from lsmlake.store.metadata import Metadata
from lsmlake.store.storage import read_bytes

_PREFIX = "consumer-"


class Consumer(NamedTuple):
    """`next_snapshot` has not been read, or not to its end. `modified_ms`: the last progress, by the storage's clock."""

    name: str
    next_snapshot: int
    modified_ms: int


def consumers(meta: Metadata) -> list[Consumer]:
    """All of them, by name. Raises Corrupt."""
    found = []
    for entry in meta.env.storage.list(meta.paths.consumers):
        name = entry.path.rpartition("/")[2].removeprefix(_PREFIX)
        if (number := next_snapshot(meta, name)) is not None:
            found.append(Consumer(name, number, entry.modified_ms))
    return found


def next_snapshot(meta: Metadata, name: str) -> int | None:
    """What a consumer reads next; None if there is none of that name."""
    path = meta.paths.consumer(name)
    try:
        content = envelope.unwrap_json("consumer", read_bytes(meta.env.storage, path), path)
    except FileNotFoundError:
        return None
    number = content.get("next_snapshot")
    if not isinstance(number, int):
        raise Corrupt("consumer names no snapshot", where=path, found=number, cure="reset_consumer() writes or removes it")
    return number


def put_consumer(meta: Metadata, name: str, number: int) -> None:
    """Make a consumer, or move it."""
    path = meta.paths.consumer(name)
    with meta.env.storage.write(path) as sink:
        sink.write(envelope.wrap_json("consumer", {"next_snapshot": number}))


def remove_consumer(meta: Metadata, name: str) -> None:
    """Does nothing if there is none."""
    meta.env.storage.delete(meta.paths.consumer(name))
