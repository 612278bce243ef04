"""Named consumers, each with the snapshot it reads next. Snapshot expiry keeps what consumers have not read."""

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
    """The next snapshot to read, or to finish reading: its changes or, with `full`, all rows visible at it."""

    next_snapshot: int
    full: bool = False


class Consumer(NamedTuple):
    """`modified_ms`: the time of the last progress, by the storage's clock."""

    name: str
    progress: Progress
    modified_ms: int


def consumers(meta: Metadata) -> list[Consumer]:
    """All consumers, ordered by name. Ignores other files, and copies of a consumer's file under another name. Raises Corrupt,
    TableNotFound."""
    meta.files.first_schema()
    found = []
    for entry in meta.env.storage.list(meta.paths.consumers):
        name = meta.paths.consumer_name(entry.path)
        if name is not None and (progress := progress_of(meta, name)) is not None:
            found.append(Consumer(name, progress, entry.modified_ms))
    return found


def progress_of(meta: Metadata, name: str) -> Progress | None:
    """The progress of a consumer; None if there is no consumer of that name. Raises Corrupt."""
    path = meta.paths.consumer(name)
    try:
        content = envelope.unwrap_json("consumer", read_bytes(meta.env.storage, path), path)
    except FileNotFoundError:
        return None
    except Corrupt as damaged:  # no snapshot uses the file, so the cure is to replace it, not to restore it
        details = {"where": damaged.where, "expected": damaged.expected, "found": damaged.found}
        raise Corrupt(damaged.what, **details, cure=_RESET) from damaged
    check("consumer", content, _KINDS, path, cure=_RESET)
    return Progress(content["next_snapshot"], content["full"]) if content.get("name") == name else None


def put_consumer(meta: Metadata, name: str, progress: Progress) -> None:
    """Create a consumer or replace its progress. Raises TableNotFound."""
    path = meta.paths.consumer(name)
    meta.files.first_schema()
    with meta.env.storage.write(path) as sink:
        sink.write(envelope.wrap_json("consumer", {"name": name, **progress._asdict()}))


def is_consumer(meta: Metadata, name: str) -> bool:
    """Whether a consumer of that name exists; its file may be damaged. Raises InvalidQuery for an invalid name."""
    return meta.env.storage.size(meta.paths.consumer(name)) is not None


def remove_consumer(meta: Metadata, name: str) -> None:
    """Remove a consumer if it exists. Raises TableNotFound."""
    meta.files.first_schema()
    meta.env.storage.delete(meta.paths.consumer(name))
