"""Calls of a storage by kind, and those that several verbs make."""

from __future__ import annotations

from collections import Counter

KINDS = {
    "read": "read",
    "write-publish": "write",
    "put_if_absent": "create",
    "list": "list",
    "folders": "list",
    "size": "size",
    "delete": "delete",
}


def plus(*parts: dict[str, int]) -> dict[str, int]:
    return dict(sum(map(Counter, parts), Counter()))


NEWEST = {"read snapshot": 2}
"""The newest snapshot that the handle knows, and that there is no next one."""
OPENED = plus(NEWEST, NEWEST)
"""A follower reads the schema when it is made, and the newest snapshot when it starts to read: it may start much later."""
PUBLISH = {"create snapshot": 1, "read snapshot": 1, "read schema": 1}
"""The conditional create; the snapshot before it and schema 0 must still be there."""
LISTS = {"write manifest": 1, "write manifest-list": 2}


def kind_of(path: str) -> str:
    """'snapshot-12' -> 'snapshot'; a data file is 'data'."""
    name = path.rsplit("/", 1)[-1]
    return name.rsplit("-", 1)[0]


def call_of(name: str, path: str) -> str:
    return "list" if KINDS[name] == "list" else f"{KINDS[name]} {kind_of(path)}"
