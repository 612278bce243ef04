"""Requests to an object store: their answers, or why there is none, repeated where a request can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from lsmlake.extras import need
from lsmlake.storage.address import Address
from lsmlake.storage.object_client import client_of
from lsmlake.storage.object_errors import Refusal, refusal
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
        """The answer to a request, or why there is none. Drops the exception, which can hold secrets."""
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
    """The error that there is no such object."""
    return FileNotFoundError(f"no such file: {path}")
