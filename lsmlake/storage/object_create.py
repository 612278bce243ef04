"""The conditional create of an object store: of all writers of one object, the first one wins.

Its outcome is certain although the network and the client repeat requests and lose answers: the object carries a token of its
writer, and a writer that was refused, or got no answer, compares tokens.

A store that ignores the condition would lose commits. So before its first write a process creates one object twice under a
reserved name; if both succeed, the store is refused.
"""

from __future__ import annotations

import uuid

from lsmlake.errors import InvalidQuery
from lsmlake.storage.address import Address
from lsmlake.storage.object_errors import Refusal
from lsmlake.storage.object_requests import ObjectRequests
from lsmlake.storage.storage import TEMPORARY

TOKEN = "lsmlakewriter"  # the name of an attribute of objects: letters only, which all stores accept
_CREATES = 3
_proven: set[tuple[Address, str]] = set()
"""The stores of which this process knows that they have a conditional create."""


def new_token() -> str:
    return uuid.uuid4().hex


def token_of(requests: ObjectRequests, path: str) -> str | Refusal | None:
    """The token of the writer of an object."""
    get = requests.obstore.get
    return requests.patiently(lambda: get(requests.client, path, options={"head": True}).attributes.get(TOKEN))


def create(requests: ObjectRequests, path: str, data: bytes) -> bool:
    """Creates an object unless it exists; returns whether this call created it. Raises StorageFailed."""
    token = new_token()
    for _ in range(_CREATES):
        refused = requests.attempt(
            lambda: requests.obstore.put(
                requests.client, path, data, mode="create", attributes={TOKEN: token}, use_multipart=False
            )
        )
        if not isinstance(refused, Refusal):
            return True
        failed = refused.failed("create", requests.place(path))
        if refused.certain:
            raise failed
        there = token_of(requests, path)
        if not isinstance(there, Refusal):
            return there == token
        if not there.is_missing:
            raise failed
    raise failed  # the store refuses, yet there is no such object


def prove(requests: ObjectRequests) -> None:
    """Raises InvalidQuery unless the store has a conditional create."""
    known = requests.address, str(requests.client.config.get("endpoint"))
    if known in _proven:
        return
    path = f"{TEMPORARY}{uuid.uuid4().hex}"
    try:
        created = create(requests, path, b"first"), create(requests, path, b"second")
    finally:
        requests.attempt(lambda: requests.obstore.delete(requests.client, path))
    if created != (True, False):
        raise InvalidQuery(
            "the store does not support conditional creates, so commits could be lost",
            where=requests.address.url,
            expected="of two creates of one object, the second is refused",
            found="both took place",
            cure="use a store with conditional writes (If-None-Match: *)",
        )
    _proven.add(known)
