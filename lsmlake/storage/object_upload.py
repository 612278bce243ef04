"""The upload of one file to an object store: a small one in one request, a larger one in parts.

The store shows the object only when the last request has succeeded. The parts of a writer that was killed stay invisible in the
store; a lifecycle rule of the bucket removes them.
"""

from __future__ import annotations

from types import TracebackType

from lsmlake.storage.object_create import TOKEN, new_token, token_of
from lsmlake.storage.object_errors import Refusal
from lsmlake.storage.object_requests import ObjectRequests, Result

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
        else:  # remove the parts; those that stay are not visible
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
        """Nothing to do: what is written becomes visible at the end."""

    def close(self) -> None:
        self.closed = True
