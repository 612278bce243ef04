"""The writes of an object store: the conditional create, and the upload of a file.

Of all writers that create the same object, the first one wins. The outcome is certain even if the network or the client repeats
a request or loses an answer: the object carries a token of its writer, and a writer that was refused, or got no answer, compares
tokens. A store that ignores the condition would lose commits. So before its first write a process creates one object twice under
a reserved name; if both succeed, lsmlake refuses the store.

A small file is uploaded in one request, a larger one in parts. The store shows the object only when the last request has
succeeded. The parts of a writer that was killed stay invisible in the store; a lifecycle rule of the bucket removes them.
"""

from __future__ import annotations

import uuid
from types import TracebackType

from lsmlake.errors import InvalidQuery
from lsmlake.storage.address import Address
from lsmlake.storage.object_requests import ObjectRequests, Refusal, Result
from lsmlake.storage.storage import TEMPORARY

# -- the conditional create -------------------------------------------------------------------------------------------


TOKEN = "lsmlakewriter"  # the name of an attribute of objects: letters only, which all stores accept
_CREATES = 3
_proven: set[tuple[Address, str]] = set()
"""The stores that have passed `prove` in this process."""


def new_token() -> str:
    return uuid.uuid4().hex


def token_of(requests: ObjectRequests, path: str) -> str | Refusal | None:
    """The token of the writer of an object; None if the object has no token."""
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
        stored_token = token_of(requests, path)
        if not isinstance(stored_token, Refusal):
            return stored_token == token
        if not stored_token.is_missing:
            raise failed
    raise failed  # the store refused the object, but the object does not exist


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


# -- the upload -------------------------------------------------------------------------------------------------------


_PART_BYTES = 1 << 23
_PARTS_AT_ONCE = 4


class Upload:
    """A file for `pa.PythonFile`. Keeps a small file in memory for one request, and uploads a larger one in parts. The object
    appears when the context is left without an exception."""

    closed = False

    def __init__(self, requests: ObjectRequests, path: str) -> None:
        self._requests, self._path, self._kept, self._size = requests, path, [], 0
        self._upload, self._token = None, new_token()

    def __enter__(self) -> Upload:
        return self

    def write(self, data: bytes) -> int:
        data = bytes(data)  # the caller may use its buffer again
        self._size += len(data)
        self._kept.append(data)
        if self._upload is None and self._size > _PART_BYTES:
            self._upload = self._done(self._requests.attempt(self._begin))
        if self._upload is not None:
            for kept in self._kept:
                self._done(self._requests.attempt(lambda kept=kept: self._upload.write(kept)))
            self._kept = []
        return len(data)

    def _begin(self) -> object:
        return self._requests.obstore.open_writer(
            self._requests.client,
            self._path,
            buffer_size=_PART_BYTES,
            max_concurrency=_PARTS_AT_ONCE,
            attributes={TOKEN: self._token},
        )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._upload is None:
            if kind is None:
                self._done(self._requests.patiently(self._put))
        elif kind is None:
            refused = self._requests.attempt(self._upload.close)
            if not isinstance(refused, Refusal) or token_of(self._requests, self._path) != self._token:
                self._done(refused)
        else:  # remove the parts; parts that stay are not visible
            self._requests.attempt(lambda: self._upload.__exit__(kind, error, trace))

    def _put(self) -> None:
        self._requests.obstore.put(self._requests.client, self._path, b"".join(self._kept), use_multipart=False)

    def _done(self, answer: Result | Refusal) -> Result:
        if isinstance(answer, Refusal):
            raise answer.failed("write", self._requests.place(self._path))
        return answer

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Does nothing: written bytes become visible when the upload ends."""

    def close(self) -> None:
        self.closed = True
