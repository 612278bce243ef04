"""Consumers: by name, the snapshot each reads next. What they have not read is not expired."""

from __future__ import annotations

from typing import NamedTuple

from lsmlake.errors import Corrupt, Wording
from lsmlake.schema import envelope
from lsmlake.schema.shape import FLAG, TEXT, check, integer
from lsmlake.store.metadata import Metadata
from lsmlake.store.storage import read_bytes

_KINDS = {"name": TEXT, "next_snapshot": integer(0), "full": FLAG}
_RESET = Wording("reset_consumer() writes or removes it", command="`lsmlake consumers TABLE --remove NAME` removes it")


class Progress(NamedTuple):
    """`next_snapshot` has not been read, or not to its end: its changes or, with `full`, all of its rows."""

    next_snapshot: int
    full: bool = False


class Consumer(NamedTuple):
    """`modified_ms`: the last progress, by the storage's clock."""

    name: str
    progress: Progress
    modified_ms: int


def consumers(meta: Metadata) -> list[Consumer]:
    """All consumers, by name. A stray file, or a copy of a consumer's file under another name, is no consumer. Raises Corrupt,
    TableNotFound."""
    meta.first_schema()
    found = []
    for entry in meta.env.storage.list(meta.paths.consumers):
        name = meta.paths.consumer_name(entry.path)
        if name is not None and (progress := progress_of(meta, name)) is not None:
            found.append(Consumer(name, progress, entry.modified_ms))
    return found


def progress_of(meta: Metadata, name: str) -> Progress | None:
    """Where a consumer stands; None if there is none of that name."""
    path = meta.paths.consumer(name)
    try:
        content = envelope.unwrap_json("consumer", read_bytes(meta.env.storage, path), path)
    except FileNotFoundError:
        return None
    except Corrupt as damaged:  # no snapshot uses the file: a new one takes its place
        told = {"where": damaged.where, "expected": damaged.expected, "found": damaged.found}
        raise Corrupt(damaged.what, **told, cure=_RESET) from damaged
    check("consumer", content, _KINDS, path, cure=_RESET)
    return Progress(content["next_snapshot"], content["full"]) if content.get("name") == name else None


def put_consumer(meta: Metadata, name: str, progress: Progress) -> None:
    """Make a consumer, or move it. Raises TableNotFound."""
    path = meta.paths.consumer(name)
    meta.first_schema()
    with meta.env.storage.write(path) as sink:
        sink.write(envelope.wrap_json("consumer", {"name": name, **progress._asdict()}))


def is_consumer(meta: Metadata, name: str) -> bool:
    """Whether there is a consumer of that name, even one whose file is damaged. Raises InvalidQuery for what is no name."""
    return meta.env.storage.size(meta.paths.consumer(name)) is not None


def remove_consumer(meta: Metadata, name: str) -> None:
    """Does nothing if there is none. Raises TableNotFound."""
    meta.first_schema()
    meta.env.storage.delete(meta.paths.consumer(name))
