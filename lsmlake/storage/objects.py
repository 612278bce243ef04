"""A storage in an object store: S3 and stores that speak its protocol, Google Cloud Storage, Azure Blob Storage. By obstore.

`put_if_absent` is a conditional create, and `write` uploads large files in parts (`object_writes`). Reads of files that never
change go through a cache, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from lsmlake.errors import InvalidQuery
from lsmlake.format.paths import is_unique
from lsmlake.storage.address import AZURE, S3, Address, hadoop_url
from lsmlake.storage.concurrency import side_by_side
from lsmlake.storage.disk_cache import DiskCache, through
from lsmlake.storage.object_client import client_of, settings_of_s3
from lsmlake.storage.object_requests import ObjectRequests, Refusal, missing
from lsmlake.storage.object_writes import Upload, create, prove
from lsmlake.storage.ranges import ByteRange, Fetch, RangedFile, Ranges, cut, merged
from lsmlake.storage.storage import TEMPORARY, Entry, Storage, checked, escaped, storage_errors

_WHOLE_BYTES = 1 << 23  # an object up to this size is read in one request
_WHOLE = "whole"
_ENDING_BYTES = 1 << 20  # a data file up to this size is read in one request, too
_PAGE = 1_000


class ObjectStorage(Storage):
    """Objects below `address`. Pickles with `options`, as the user gave them, so that tasks reach the same store; credentials of
    the environment are not in the pickle. `cache`: for files that never change."""

    at_once = writes_at_once = 16

    def __init__(self, address: Address, options: Mapping[str, object], cache: DiskCache | None = None) -> None:
        self.address, self._options, self._cache = address, dict(options), cache
        self._requests = ObjectRequests(address, self._options)
        self._client, self._obstore = self._requests.client, self._requests.obstore

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
        """One request reads a whole small object, and finds the size of a large one."""
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

        return self._requests.call("read", path, get)

    def read_from_end(self, path: str, size: int, length: int) -> pa.NativeFile:
        """One request reads the end of an object, and all of a small one."""
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
            object_size, tag, (start, stop) = answer.meta["size"], answer.meta["e_tag"], answer.range
            data = memoryview(answer.bytes())
            if (object_size, len(data), stop) == (size, length, size):
                self._keep(path, part, data)
            if start == 0 and stop == object_size:
                return pa.BufferReader(pa.py_buffer(data))
            return RangedFile(Ranges(self._fetch(path, tag, object_size), object_size, data if stop == object_size else None))

        opened = self._requests.patiently(get)
        if isinstance(opened, Refusal):
            if opened.is_missing:
                raise missing(path)
            return self.read(path)  # an empty object, or one that is shorter than `size`
        return opened

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        located, part = checked(path), f"bytes {start} to {stop}"
        if (known := self._cached(path, part)) is not None:
            return bytes(known)
        get, options = self._obstore.get, {"range": (start, stop)}
        answer = self._requests.patiently(lambda: get(self._client, located, options=options).bytes().to_bytes())
        if isinstance(answer, Refusal):
            if answer.is_missing:
                raise missing(path)
            return super().read_range(path, start, stop)  # the range is empty, or not in the object
        if len(answer) == stop - start:
            self._keep(path, part, memoryview(answer))
        return answer

    def _fetch(self, path: str, tag: str | None, size: int) -> Fetch:
        """Returns a function that reads ranges of an object. `tag`, `size`: of the version of the object to read."""

        def one(wanted: ByteRange) -> memoryview:
            options = {"range": (wanted.start, wanted.stop), **({"if_match": tag} if tag else {})}
            return memoryview(self._obstore.get(self._client, path, options=options).bytes())

        def many(wanted: Sequence[ByteRange]) -> list[memoryview]:
            pieces = merged(wanted)
            return cut(wanted, pieces, side_by_side([partial(retried, piece) for piece in pieces], self.at_once))

        def retried(wanted: ByteRange) -> memoryview:
            return self._requests.call("read", path, lambda: one(wanted))

        return many if self._cache is None or not is_unique(path) else through(self._cache, self._file(path), size, many)

    def size(self, path: str) -> int | None:
        located = checked(path)
        answer = self._requests.patiently(lambda: self._obstore.head(self._client, located))
        if isinstance(answer, Refusal):
            if answer.is_missing:
                return None
            raise answer.failed("look up", self.place(path))
        return answer["size"]

    def list(self, prefix: str) -> Iterator[Entry]:
        located = checked(prefix) if prefix else None
        pages, last = None, None

        def page() -> Sequence[Mapping[str, object]] | None:
            nonlocal pages
            stream = self._obstore.list(self._client, located, offset=last, chunk_size=_PAGE) if pages is None else pages
            pages = None  # after an error begin again, after the last object
            objects = next(stream, None)
            pages = stream
            return objects

        while listed := self._requests.call("list", prefix, page):
            for entry in listed:
                last = entry["path"]
                if not last.rpartition("/")[2].startswith(TEMPORARY):
                    yield Entry(last, entry["size"], int(entry["last_modified"].timestamp() * 1000))

    def folders(self, prefix: str) -> Iterator[str]:
        located = checked(prefix) if prefix else None
        answer = self._requests.call("list", prefix, lambda: self._obstore.list_with_delimiter(self._client, located))
        yield from sorted(path.rpartition("/")[2] for path in answer["common_prefixes"])

    # -- writing ------------------------------------------------------------------------------------------------------

    @contextmanager
    def write(self, path: str) -> Iterator[pa.NativeFile]:
        located = checked(path)
        prove(self._requests)
        with storage_errors("write", self.place(path)), Upload(self._requests, located) as sink:
            yield pa.PythonFile(sink, mode="w")

    def put_if_absent(self, path: str, data: bytes) -> bool:
        located = checked(path)
        prove(self._requests)
        return create(self._requests, located, data)

    def delete(self, path: str) -> None:
        located = checked(path)
        refused = self._requests.patiently(lambda: self._obstore.delete(self._client, located))
        if isinstance(refused, Refusal) and not refused.is_missing:
            raise refused.failed("delete", self.place(path))

    def delete_all(self, paths: Sequence[str]) -> None:
        located = [checked(path) for path in paths]
        if len(located) > 1:
            refused = self._requests.patiently(lambda: self._obstore.delete(self._client, located))
            if not isinstance(refused, Refusal):
                return
        super().delete_all(located)  # some stores stop at the first missing object

    def copy(self, source: str, target: str) -> None:
        old, new = checked(source), checked(target)
        refused = self._requests.patiently(lambda: self._obstore.copy(self._client, old, new))
        if isinstance(refused, Refusal):
            if refused.is_missing:
                raise missing(source)
            raise refused.failed("copy", self.place(source))

    def bring(self, source: Storage, path: str, target: str, *, link: bool = True) -> None:
        """The store copies an object of the same bucket itself."""
        located, old = checked(target), checked(path)
        if isinstance(source, ObjectStorage) and source._bucket == self._bucket:
            bucket = self._of_bucket()
            refused = self._requests.patiently(
                lambda: self._obstore.copy(bucket, source.address.within(old), self.address.within(located))
            )
            if not isinstance(refused, Refusal):
                return
            if refused.is_missing:
                raise missing(path)
        super().bring(source, path, target)  # from another store, or an object that is too large for one request

    @property
    def _bucket(self) -> tuple[str, str, str, str]:
        """Identifies the bucket: equal for storages in the same bucket."""
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
        return self._requests.place(path)

    def url(self, path: str) -> str:
        """Readers of Iceberg know Azure only as Hadoop does, with the account: `abfss://`."""
        if self.address.kind != AZURE or (root := self._hadoop_root) is None:
            return self.place(path)
        return f"{root}/{path}" if path else root

    def reader_settings(self) -> Mapping[str, str]:
        return settings_of_s3(self._options) if self.address.kind == S3 else {}

    @property
    def _hadoop_root(self) -> str | None:
        return hadoop_url(self.address, self._client.config.get("account_name", ""))

    def uri(self, path: str) -> str:
        root = self._hadoop_root
        if root is None:
            raise InvalidQuery(
                "Hadoop's address of the store has the storage account, which is unknown",
                where=self.root,
                cure="name the account in the address: abfss://container@account.dfs.core.windows.net/prefix",
            )
        return escaped(f"{root}/{checked(path)}" if path else root)
