"""Requests to an object store. A request returns its answer or a `Refusal`; requests without side effects are repeated.

Messages of servers and URLs of requests can hold tokens, so they never appear in errors: a StorageFailed names the status, the
error code of the server and the cure, and is not chained to the error of obstore.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from lsmlake.errors import StorageFailed
from lsmlake.extras import need
from lsmlake.storage.address import Address
from lsmlake.storage.object_client import client_of
from lsmlake.undo import pass_interruption

Result = TypeVar("Result")

_REPEATS = 3


class ObjectRequests:
    """The client of an object store, for functions of `obstore`. `options`: as the user gave them."""

    def __init__(self, address: Address, options: Mapping[str, object]) -> None:
        self.address = address
        self.client = client_of(address, options)
        self.obstore = need("obstore", f"the address {address.url}")

    def place(self, path: str) -> str:
        """The address of an object."""
        return f"{self.address.url}/{path}" if path else self.address.url

    def attempt(self, request: Callable[[], Result]) -> Result | Refusal:
        """Returns the answer to a request, or a `Refusal`. Drops the exception, which can hold secrets."""
        try:
            return request()
        except MemoryError:
            raise
        except Exception as error:
            pass_interruption(error)
            return refusal(error)

    def patiently(self, request: Callable[[], Result]) -> Result | Refusal:
        """As `attempt`, for a request that can be repeated. The client repeats most requests itself, but not after it has read
        the beginning of an answer."""
        for _ in range(_REPEATS):
            answer = self.attempt(request)
            if not isinstance(answer, Refusal) or not answer.transient:
                break
        return answer

    def call(self, verb: str, path: str, request: Callable[[], Result]) -> Result:
        """The answer to a request that can be repeated. Raises FileNotFoundError, StorageFailed."""
        answer = self.patiently(request)
        if isinstance(answer, Refusal):
            raise missing(path) if answer.is_missing else answer.failed(verb, self.place(path))
        return answer


def missing(path: str) -> FileNotFoundError:
    """The error for an object that does not exist."""
    return FileNotFoundError(f"no such file: {path}")


# -- refusals ---------------------------------------------------------------------------------------------------------


_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>")
_RETRIES = re.compile(r"after (\d+) retries")

_PERMISSION = "check the credentials, and that they may read, write, list and delete there"
_NO_BUCKET = "create the bucket, or correct the address"
_BUSY = "try again later; the storage options max_retries and retry_timeout allow more retries"


class _Case(NamedTuple):
    pattern: re.Pattern[str]
    found: str
    cure: str


_NO_CONNECTION = _Case(re.compile(r"kind: Connect"), "no connection", "check the endpoint and the network")
_NO_ANSWER = _Case(
    re.compile(r"kind: Timeout|TimedOut|timed out"),
    "no answer in time",
    "try again; the storage option timeout allows more seconds for each request",
)
_BROKEN = _Case(re.compile(r"kind: (?:Interrupted|Request|Decode|Body)|NotPartial"), "the connection broke", "try again")
_CONNECTION = (_NO_CONNECTION, _NO_ANSWER, _BROKEN)
_CASES = [
    _Case(re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist"), "the bucket does not exist", _NO_BUCKET),
    _Case(re.compile(r"status code: 40[13]|Unauthenticated|PermissionDenied"), "access denied", _PERMISSION),
    _Case(re.compile(r"dns error"), "the name of the server is unknown", "check the endpoint and the network"),
    _Case(re.compile(r"URL scheme is not allowed|BadScheme"), "http:// is not allowed", "use https://, or pass allow_http=True"),
    _NO_CONNECTION,
    _Case(re.compile(r"status code: (?:429|503)|SlowDown"), "the store refuses so many requests", _BUSY),
    _Case(re.compile(r"status code: 5\d\d"), "the store failed", _BUSY),
    _NO_ANSWER,
    _BROKEN,
    _Case(
        re.compile(r"credential|169\.254|metadata", re.I), "no credentials", "set the usual environment variables, or pass them"
    ),
]


class Refusal(NamedTuple):
    """A refusal by the store. `is_missing`: the object does not exist. `exists`: the object exists, although it must not.
    `certain`: the request had no effect. `transient`: the connection failed, and the client has not repeated the request."""

    found: str
    cure: str
    is_missing: bool = False
    exists: bool = False
    certain: bool = False
    transient: bool = False

    def failed(self, verb: str, where: str) -> StorageFailed:
        return StorageFailed(f"cannot {verb}", where=where, found=self.found, cure=self.cure)


def refusal(error: Exception) -> Refusal:
    """Classifies an exception of obstore."""
    name, text = type(error).__name__, str(error)
    case = next((case for case in _CASES if case.pattern.search(f"{name} {text}")), None)
    known = [match[1] for match in (_STATUS.search(text), _CODE.search(text)) if match]
    retries = _RETRIES.search(text)
    about = [*known, *([f"{retries[1]} retries"] if retries else [])]
    reason, cure = (case.found, case.cure) if case else (name, "try again")
    if isinstance(error, FileNotFoundError) and cure != _NO_BUCKET:
        return Refusal("no such object", "", is_missing=True, certain=True)
    exists = name in ("AlreadyExistsError", "PreconditionError")
    certain = not exists and cure in (_PERMISSION, _NO_BUCKET)
    transient = case in _CONNECTION and retries is None
    return Refusal(
        f"{reason} ({', '.join(about)})" if about else reason, cure, exists=exists, certain=certain, transient=transient
    )
