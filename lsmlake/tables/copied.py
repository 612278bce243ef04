"""The lists of the files that COPY INTO has loaded into a table. The newest snapshot names the newest list.

A snapshot names the list of the last COPY INTO as the query of the writer `WRITER`. So a list takes effect with the commit of its
rows, and outlives the expiry of snapshots, as the entries of writers do. A list holds the names of the files that it adds, and
names the older lists; it absorbs the shorter lists, so there are few of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake import undo
from lsmlake.errors import InvalidQuery
from lsmlake.format.snapshot import Snapshot
from lsmlake.schema import envelope
from lsmlake.storage.storage import read_bytes
from lsmlake.tables.version import Metadata
from lsmlake.types.json_shape import TEXT, check, integer, listing, pair

WRITER = "copy-into"
_KINDS = {"files": listing(TEXT), "before": listing(pair(TEXT, integer()))}


@dataclass(frozen=True)
class Copied:
    """A list of files. `before`: the names of older lists, each with the number of its files."""

    name: str
    files: tuple[str, ...]
    before: tuple[tuple[str, int], ...] = ()


def list_of(snapshot: Snapshot | None) -> str | None:
    """The name of the newest list; None: nothing was loaded."""
    return None if snapshot is None else snapshot.queries.get(WRITER)


def read_copied(meta: Metadata, name: str) -> Copied:
    """Reads a list. Raises InvalidQuery if the list does not exist, as in a copy of a table; Corrupt."""
    path = meta.paths.copied(name)
    try:
        content = envelope.unwrap_json("copied", read_bytes(meta.env.storage, path), path)
    except FileNotFoundError:
        raise InvalidQuery(
            "the list of the files that were loaded is not there",
            where=meta.paths.root,
            expected=f"{path}: a copy of a table has no such list",
            cure="name the files to load by FILES, with COPY_OPTIONS ('force' = 'true')",
        ) from None
    check("copied", content, _KINDS, path)
    return Copied(name, tuple(content["files"]), tuple((each, count) for each, count in content["before"]))


def files_of(meta: Metadata, newest: Copied | None) -> set[str]:
    """The files of a list and of those before it."""
    if newest is None:
        return set()
    return {*newest.files, *(file for name, _ in newest.before for file in read_copied(meta, name).files)}


def put_copied(meta: Metadata, newest: Copied | None, files: list[str]) -> Copied:
    """Stores a list of files after `newest`. The list takes effect once a snapshot names it; it is deleted if the public call
    fails before."""
    names, before = dict.fromkeys(files), [] if newest is None else [*newest.before, (newest.name, len(newest.files))]
    while before and before[-1][1] <= len(names):
        name, _ = before.pop()
        names |= dict.fromkeys(newest.files if name == newest.name else read_copied(meta, name).files)
    made = Copied(meta.env.ids(), tuple(names), tuple(before))
    content = {"files": list(made.files), "before": [list(one) for one in made.before]}
    path = meta.paths.copied(made.name)
    undo.made(meta.env.storage.delete_all, [path])
    meta.env.storage.put_if_absent(path, envelope.wrap_json("copied", content))
    return made
