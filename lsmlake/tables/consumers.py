"""Named consumers, each with the snapshot it reads next. Snapshot expiry keeps what consumers have not read."""

from __future__ import annotations

from typing import NamedTuple

from lsmlake.errors import Corrupt, InvalidQuery, Wording
from lsmlake.schema import envelope
from lsmlake.storage.storage import read_bytes
from lsmlake.tables.version import Metadata
from lsmlake.types.json_shape import FLAG, TEXT, check, integer

_KINDS = {"name": TEXT, "next_snapshot": integer(0), "full": FLAG}
_LIST = Wording("consumers() lists them", command="`lsmlake consumers TABLE` lists them")
_RESET = Wording("reset_consumer() writes or removes it", command="`lsmlake consumers TABLE --remove NAME` removes it")


class Progress(NamedTuple):
    """The next snapshot to read, or to finish reading: the consumer reads its changes or, with `full`, all rows visible at it."""

    next_snapshot: int
    full: bool = False


class Consumer(NamedTuple):
    """`modified_ms`: the time of the last progress, by the storage's clock."""

    name: str
    progress: Progress
    modified_ms: int


def consumers(meta: Metadata) -> list[Consumer]:
    """All consumers, ordered by name. Raises Corrupt, TableNotFound."""
    meta.files.first_schema()
    read = (read_consumer(meta, name, modified_ms) for name, modified_ms in consumer_names(meta).items())
    return [consumer for consumer in read if consumer is not None]


def consumer_names(meta: Metadata) -> dict[str, int]:
    """The names of consumers, ascending, with the times at which their files were written. One listing."""
    entries = meta.env.storage.list(meta.paths.consumers)
    return {name: entry.modified_ms for entry in entries if (name := meta.paths.consumer_name(entry.path)) is not None}


def read_consumer(meta: Metadata, name: str, modified_ms: int) -> Consumer | None:
    """A consumer that was listed; None if it was removed, or if its file is a copy of another consumer's file. Raises Corrupt."""
    progress = progress_of(meta, name)
    return None if progress is None else Consumer(name, progress, modified_ms)


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
    """Creates a consumer or replaces its progress. Raises TableNotFound."""
    path = meta.paths.consumer(name)
    meta.files.first_schema()
    with meta.env.storage.write(path) as sink:
        sink.write(envelope.wrap_json("consumer", {"name": name, **progress._asdict()}))


def remove_known_consumer(meta: Metadata, name: str) -> None:
    """Removes a consumer, whose file may be damaged. Raises InvalidQuery if there is none of that name; TableNotFound."""
    meta.files.first_schema()
    if meta.env.storage.size(meta.paths.consumer(name)) is None:
        raise InvalidQuery("no such consumer", where=meta.paths.root, found=repr(name), cure=_LIST)
    remove_consumer(meta, name)


def remove_consumer(meta: Metadata, name: str) -> None:
    """Removes a consumer if it exists. Raises TableNotFound."""
    meta.files.first_schema()
    meta.env.storage.delete(meta.paths.consumer(name))
