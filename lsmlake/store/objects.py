"""A storage in an object store: S3 and stores that speak its protocol, Google Cloud Storage, Azure Blob Storage. By obstore.

`put_if_absent` is a conditional create. Its outcome is certain although the network and the client repeat requests and lose
answers: the object carries a token of its writer, and a writer that was refused, or got no answer, compares tokens. `write`
uploads large files in parts; the store shows the object only when the last request has succeeded. The parts of a writer that was
killed stay invisible in the store; a lifecycle rule of the bucket removes them.

A store that ignores the condition would lose commits. So before its first write a process creates one object twice under a
reserved name; if both succeed, the store is refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

from lsmlake.errors import InvalidQuery
from lsmlake.extras import need
from lsmlake.format.paths import is_unique
from lsmlake.store.address import AZURE, Address, hadoop_url
from lsmlake.store.blocks import through
from lsmlake.store.disk_cache import DiskCache
from lsmlake.store.object_client import client_of
from lsmlake.store.object_errors import Refusal, refusal
from lsmlake.store.ranges import Fetch, Range, RangedFile, Ranges, cut, merged
from lsmlake.store.storage import TEMPORARY, Entry, Storage, checked, escaped, storage_errors
from lsmlake.store.together import side_by_side

Result = TypeVar("Result")

_WHOLE_BYTES = 1 << 23  # an object up to this size is read in one request
_WHOLE = "whole"
_ENDING_BYTES = 1 << 20  # a data file up to this size, too
_PART_BYTES = 1 << 23
_PARTS_AT_ONCE = 4
_PAGE = 1_000
_TOKEN = "lsmlakewriter"  # the name of an attribute of objects: letters only, which all stores accept
_CREATES = _REPEATS = 3
_proven: set[tuple[Address, str]] = set()
"""The stores of which this process knows that they have a conditional create."""


class ObjectStorage(Storage):
    """Objects below `address`. Pickles with `options`, as the user gave them, so that tasks reach the same store; credentials of
    the environment are not in the pickle. `cache`: for files that never change."""

    at_once = 16

    def __init__(self, address: Address, options: Mapping[str, object], cache: DiskCache | None = None) -> None:
        self.address, self._options, self._cache = address, dict(options), cache
        self._client = client_of(address, self._options)
        self._obstore = need("obstore", f"the address {address.url}")

    def __repr__(self) -> str:
        return f"ObjectStorage({self.root!r})"

    def __reduce__(self):
        return ObjectStorage, (self.address, self._options, self._cache)

    @property
    def uncached(self) -> ObjectStorage:
        return self if self._cache is None else ObjectStorage(self.address, self._options)

    def distrust(self, path: str) -> bool:
        if self._cache is not None:
            self._cache.forget(self._file(path))
        return self._cache is not None

    def _file(self, path: str) -> str:
        """The name of a file in the cache."""
        return f"{self.place(path)}\n{self._options.get('endpoint', '')}"

    def _cached(self, path: str, part: str) -> memoryview | None:
        return self._cache.get(self._file(path), part) if self._cache is not None and is_unique(path) else None

    def _keep(self, path: str, part: str, data: memoryview) -> None:
        if self._cache is not None and is_unique(path):
            self._cache.put(self._file(path), part, data)

    @property
    def by_address(self) -> bool:
        return not self._options

    @property
    def root(self) -> str:
        return self.address.url

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, path: str) -> pa.NativeFile:
        """One request reads a small object as a whole, and finds the size of a large one."""
        located = checked(path)
        if (known := self._cached(path, _WHOLE)) is not None:
            return pa.BufferReader(pa.py_buffer(known))

        def get() -> pa.NativeFile:
            answer = self._obstore.get(self._client, located)
            size, tag = answer.meta["size"], answer.meta["e_tag"]
            if size <= _WHOLE_BYTES:
                data = memoryview(answer.bytes())
                self._keep(path, _WHOLE, data)
                return pa.BufferReader(pa.py_buffer(data))
            return RangedFile(Ranges(self._fetch(path, tag, size), size))

        return self._call("read", path, get)

    def read_from_end(self, path: str, size: int, length: int) -> pa.NativeFile:
        """One request reads the end, and all of a small object."""
        located = checked(path)
        if not length:
            return RangedFile(Ranges(self._fetch(path, None, size), size))
        length = max(1, size if size <= _ENDING_BYTES else min(size, length))
        part = _WHOLE if length == size else f"last {length} of {size}"
        if (known := self._cached(path, part)) is not None and len(known) == length:
            if length == size:
                return pa.BufferReader(pa.py_buffer(known))
            return RangedFile(Ranges(self._fetch(path, None, size), size, known))
        # Azure has no requests for the last bytes of an object
        ending = (max(0, size - length), max(1, size)) if self.address.kind == AZURE else {"suffix": length}

        def get() -> pa.NativeFile:
            answer = self._obstore.get(self._client, located, options={"range": ending})
            found, tag, (start, stop) = answer.meta["size"], answer.meta["e_tag"], answer.range
            data = memoryview(answer.bytes())
            if (found, len(data), stop) == (size, length, size):
                self._keep(path, part, data)
            if start == 0 and stop == found:
                return pa.BufferReader(pa.py_buffer(data))
            return RangedFile(Ranges(self._fetch(path, tag, found), found, data if stop == found else None))

        opened = self._patiently(get)
        if isinstance(opened, Refusal):
            if opened.is_missing:
                raise _missing(path)
            return self.read(path)  # an empty object, or one that is shorter than `size`
        return opened

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        located, part = checked(path), f"bytes {start} to {stop}"
        if (known := self._cached(path, part)) is not None:
            return bytes(known)
        get, options = self._obstore.get, {"range": (start, stop)}
        found = self._patiently(lambda: get(self._client, located, options=options).bytes().to_bytes())
        if isinstance(found, Refusal):
            if found.is_missing:
                raise _missing(path)
            return super().read_range(path, start, stop)  # the range is empty, or not in the object
        if len(found) == stop - start:
            self._keep(path, part, memoryview(found))
        return found

    def _fetch(self, path: str, tag: str | None, size: int) -> Fetch:
        """Reads ranges of the object of this size that has this tag."""

        def one(wanted: Range) -> memoryview:
            options = {"range": (wanted.start, wanted.stop), **({"if_match": tag} if tag else {})}
            return memoryview(self._obstore.get(self._client, path, options=options).bytes())

        def many(wanted: Sequence[Range]) -> list[memoryview]:
            pieces = merged(wanted)
            return cut(wanted, pieces, side_by_side([partial(retried, piece) for piece in pieces], self.at_once))

        def retried(wanted: Range) -> memoryview:
            return self._call("read", path, lambda: one(wanted))

        return many if self._cache is None or not is_unique(path) else through(self._cache, self._file(path), size, many)

    def size(self, path: str) -> int | None:
        located = checked(path)
        found = self._patiently(lambda: self._obstore.head(self._client, located))
        if isinstance(found, Refusal):
            if found.is_missing:
                return None
            raise found.failed("look up", self.place(path))
        return found["size"]

    def list(self, prefix: str) -> Iterator[Entry]:
        located = checked(prefix) if prefix else None
        pages, last = None, None

        def page() -> Sequence[Mapping[str, object]] | None:
            nonlocal pages
            stream = self._obstore.list(self._client, located, offset=last, chunk_size=_PAGE) if pages is None else pages
            pages = None  # after an error begin again, behind the last object
            found = next(stream, None)
            pages = stream
            return found

        while listed := self._call("list", prefix, page):
            for found in listed:
                last = found["path"]
                if not last.rpartition("/")[2].startswith(TEMPORARY):
                    yield Entry(last, found["size"], int(found["last_modified"].timestamp() * 1000))

    def folders(self, prefix: str) -> Iterator[str]:
        located = checked(prefix) if prefix else None
        found = self._call("list", prefix, lambda: self._obstore.list_with_delimiter(self._client, located))
        yield from sorted(path.rpartition("/")[2] for path in found["common_prefixes"])

    # -- writing ------------------------------------------------------------------------------------------------------

    @contextmanager
    def write(self, path: str) -> Iterator[pa.NativeFile]:
        located = checked(path)
        self._prove()
        with storage_errors("write", self.place(path)), _Sink(self, located) as sink:
            yield pa.PythonFile(sink, mode="w")

    def put_if_absent(self, path: str, data: bytes) -> bool:
        located = checked(path)
        self._prove()
        return self._create(located, data)

    def _create(self, path: str, data: bytes) -> bool:
        token = uuid.uuid4().hex
        for _ in range(_CREATES):
            refused = self._attempt(
                lambda: self._obstore.put(
                    self._client, path, data, mode="create", attributes={_TOKEN: token}, use_multipart=False
                )
            )
            if not isinstance(refused, Refusal):
                return True
            failed = refused.failed("create", self.place(path))
            if refused.certain:
                raise failed
            there = self._token(path)
            if not isinstance(there, Refusal):
                return there == token
            if not there.is_missing:
                raise failed
        raise failed  # the store refuses, yet there is no such object

    def _token(self, path: str) -> str | Refusal | None:
        """The token of the writer of an object."""
        get = self._obstore.get
        return self._patiently(lambda: get(self._client, path, options={"head": True}).attributes.get(_TOKEN))

    def _prove(self) -> None:
        """Raises InvalidQuery unless the store has a conditional create."""
        known = self.address, str(self._client.config.get("endpoint"))
        if known in _proven:
            return
        path = f"{TEMPORARY}{uuid.uuid4().hex}"
        try:
            created = self._create(path, b"first"), self._create(path, b"second")
        finally:
            self._attempt(lambda: self._obstore.delete(self._client, path))
        if created != (True, False):
            raise InvalidQuery(
                "the store does not support conditional creates, so commits could be lost",
                where=self.root,
                expected="of two creates of one object, the second is refused",
                found="both took place",
                cure="use a store with conditional writes (If-None-Match: *)",
            )
        _proven.add(known)

    def delete(self, path: str) -> None:
        located = checked(path)
        refused = self._patiently(lambda: self._obstore.delete(self._client, located))
        if isinstance(refused, Refusal) and not refused.is_missing:
            raise refused.failed("delete", self.place(path))

    def delete_all(self, paths: Sequence[str]) -> None:
        located = [checked(path) for path in paths]
        if len(located) > 1:
            refused = self._patiently(lambda: self._obstore.delete(self._client, located))
            if not isinstance(refused, Refusal):
                return
        super().delete_all(located)  # some stores stop at the first missing object

    def copy(self, source: str, target: str) -> None:
        old, new = checked(source), checked(target)
        refused = self._patiently(lambda: self._obstore.copy(self._client, old, new))
        if isinstance(refused, Refusal):
            if refused.is_missing:
                raise _missing(source)
            raise refused.failed("copy", self.place(source))

    def bring(self, source: Storage, path: str, target: str, *, link: bool = True) -> None:
        """The store copies an object of the same bucket itself."""
        located, old = checked(target), checked(path)
        if isinstance(source, ObjectStorage) and source._bucket == self._bucket:
            bucket = self._of_bucket()
            refused = self._patiently(
                lambda: self._obstore.copy(bucket, source.address.within(old), self.address.within(located))
            )
            if not isinstance(refused, Refusal):
                return
            if refused.is_missing:
                raise _missing(path)
        super().bring(source, path, target)  # from another store, or an object that is too large for one request

    @property
    def _bucket(self) -> tuple[str, str, str, str]:
        """Tells buckets apart."""
        config = self._client.config
        return self.address.kind, self.address.container, str(config.get("endpoint")), str(config.get("account_name"))

    def _of_bucket(self) -> object:
        """A client whose paths begin at the root of the bucket."""
        return client_of(self.address._replace(prefix=""), self._options)

    def move(self, source: str, target: str) -> bool:
        checked(source), checked(target)
        raise InvalidQuery(
            "an object store cannot rename a table",
            where=self.place(source),
            cure="create a table with the new name, write the rows of the old one into it, then drop the old one",
        )

    def prune(self, prefix: str) -> None:
        checked(prefix)

    def place(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def uri(self, path: str) -> str:
        root = hadoop_url(self.address, self._client.config.get("account_name", ""))
        if root is None:
            raise InvalidQuery(
                "Hadoop's address of the store has the storage account, which is unknown",
                where=self.root,
                cure="name the account in the address: abfss://container@account.dfs.core.windows.net/prefix",
            )
        return escaped(f"{root}/{checked(path)}" if path else root)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _attempt(self, request: Callable[[], Result]) -> Result | Refusal:
        """The answer to a request, or why there is none. Drops the exception, which can hold secrets."""
        try:
            return request()
        except MemoryError:
            raise
        except Exception as error:
            return refusal(error)

    def _patiently(self, request: Callable[[], Result]) -> Result | Refusal:
        """As `_attempt`, for a request that can be repeated. The client repeats most requests itself, but not after it has read
        the beginning of an answer."""
        for _ in range(_REPEATS):
            answer = self._attempt(request)
            if not isinstance(answer, Refusal) or not answer.transient:
                break
        return answer

    def _call(self, verb: str, path: str, request: Callable[[], Result]) -> Result:
        """The answer to a request that can be repeated. Raises FileNotFoundError, StorageFailed."""
        answer = self._patiently(request)
        if isinstance(answer, Refusal):
            raise _missing(path) if answer.is_missing else answer.failed(verb, self.place(path))
        return answer


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(f"no such file: {path}")


class _Sink:
    """A file for `pa.PythonFile`. Keeps a small file in memory for one request, and uploads a larger one in parts. The object
    appears when the context is left without an exception."""

    closed = False

    def __init__(self, storage: ObjectStorage, path: str) -> None:
        self._storage, self._path, self._kept, self._size = storage, path, [], 0
        self._upload, self._token = None, uuid.uuid4().hex

    def __enter__(self) -> _Sink:
        return self

    def write(self, data: bytes) -> int:
        data = bytes(data)  # the caller may use its buffer again
        self._size += len(data)
        self._kept.append(data)
        if self._upload is None and self._size > _PART_BYTES:
            self._upload = self._done(self._storage._attempt(self._begin))
        if self._upload is not None:
            for kept in self._kept:
                self._done(self._storage._attempt(lambda kept=kept: self._upload.write(kept)))
            self._kept = []
        return len(data)

    def _begin(self) -> object:
        return self._storage._obstore.open_writer(
            self._storage._client,
            self._path,
            buffer_size=_PART_BYTES,
            max_concurrency=_PARTS_AT_ONCE,
            attributes={_TOKEN: self._token},
        )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._upload is None:
            if kind is None:
                self._done(self._storage._patiently(self._put))
        elif kind is None:
            refused = self._storage._attempt(self._upload.close)
            if not isinstance(refused, Refusal) or self._storage._token(self._path) != self._token:
                self._done(refused)
        else:  # remove the parts; those that stay are not visible
            self._storage._attempt(lambda: self._upload.__exit__(kind, error, trace))

    def _put(self) -> None:
        self._storage._obstore.put(self._storage._client, self._path, b"".join(self._kept), use_multipart=False)

    def _done(self, answer: Result | Refusal) -> Result:
        if isinstance(answer, Refusal):
            raise answer.failed("write", self._storage.place(self._path))
        return answer

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Nothing to do: what is written becomes visible at the end."""

    def close(self) -> None:
        self.closed = True
