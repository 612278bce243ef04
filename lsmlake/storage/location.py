"""Opens the address that a user gives: the storage of a warehouse, or files outside it, such as the tables of other systems.

A file outside is addressed by a storage and a path: the storage is the folder of a local file, or the bucket of an object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple
from urllib.parse import quote

import pyarrow as pa

from lsmlake.errors import InvalidOption, InvalidQuery
from lsmlake.storage.address import FILE, MEMORY, Address, address_of
from lsmlake.storage.disk_cache import LEAST_BYTES, DiskCache
from lsmlake.storage.local import LocalStorage, directory_at
from lsmlake.storage.memory import named
from lsmlake.storage.object_client import texts_of
from lsmlake.storage.objects import ObjectStorage
from lsmlake.storage.storage import Entry, Storage, read_bytes


def storage_at(location: str, options: Mapping[str, object] | None = None, cache: DiskCache | None = None) -> Storage:
    """The storage of a warehouse. Makes no request. Raises InvalidQuery, InvalidOption, MissingDependency."""
    address, options = address_of(location), options or {}
    if cache is not None and address.kind == MEMORY:
        raise InvalidOption("a warehouse in memory has no cache", where=address.url, cure="leave it out, or correct the address")
    if options and address.kind in (FILE, MEMORY):
        raise _no_store(address.url)
    if address.kind == FILE:
        return LocalStorage(directory_at(address.prefix))
    return named(address.container) if address.kind == MEMORY else ObjectStorage(address, options, cache)


def _no_store(where: str) -> InvalidOption:
    return InvalidOption(
        "storage_options are settings of object stores", where=where, cure="leave them out, or correct the address"
    )


def cache_at(folder: str, limit_bytes: int) -> DiskCache:
    """A cache in a folder of this machine. Raises InvalidQuery, InvalidOption."""
    if limit_bytes < LEAST_BYTES:
        raise InvalidOption(
            "the limit of the cache is not valid",
            where="cache_bytes",
            expected=f"a number of bytes, at least {LEAST_BYTES:,}",
            found=repr(limit_bytes),
            cure="raise it, or leave the cache out",
        )
    address = address_of(folder)
    if address.kind != FILE:
        what, found = "the cache is not in this machine", address.url
        raise InvalidQuery(what, where="cache", expected="a directory", found=found, cure="name a directory of this machine")
    directory = directory_at(address.prefix).absolute()
    if directory.exists() and not directory.is_dir():
        raise InvalidQuery("the cache is no directory", where="cache", found=str(directory), cure="name a directory")
    return DiskCache(str(directory), limit_bytes)


# -- files outside of a warehouse -------------------------------------------------------------------------------------


_MEMORY = re.compile(r"^memory://([^/]+)/(.+)$")


class OutsideFile(NamedTuple):
    """A file: its path in a storage."""

    storage: Storage
    path: str

    def read(self) -> bytes:
        """The whole content. Raises FileNotFoundError."""
        return read_bytes(self.storage, self.path)

    def size(self) -> int | None:
        return self.storage.size(self.path)


@dataclass(frozen=True)
class Outside:
    """Reaches files by their paths and URIs. Keeps one storage per bucket. `options`: settings of the object stores, as for a
    warehouse."""

    options: Mapping[str, object] = field(default_factory=dict, repr=False)
    _stores: dict[tuple[str, str, str], Storage] = field(default_factory=dict, repr=False)
    _opening: Lock = field(default_factory=Lock, repr=False)

    def place(self, uri: str) -> OutsideFile:
        """Where a file is, or would be. Makes no request. Raises InvalidQuery, InvalidOption, MissingDependency."""
        if match := _MEMORY.match(uri):
            return OutsideFile(named(match[1]), match[2])
        address = address_of(uri)
        if address.kind == FILE:
            at = directory_at(address.prefix)
            if at.name in ("", ".."):
                raise InvalidQuery("not the name of a file", where=repr(uri), cure="correct the path")
            return OutsideFile(LocalStorage(at.parent), at.name)
        if address.kind == MEMORY or not address.prefix:
            raise InvalidQuery("not the address of a file", where=repr(uri), cure="name the file after the bucket")
        return OutsideFile(self._bucket(address), address.prefix)

    def _bucket(self, address: Address) -> Storage:
        key = address.kind, address.container, address.account
        with self._opening:
            if key not in self._stores:
                url = address.url.removesuffix(f"/{address.prefix}")
                self._stores[key] = ObjectStorage(address._replace(url=url, prefix=""), self.options)
            return self._stores[key]

    def check_options(self, where: str) -> None:
        """Raises InvalidOption if there are settings of stores, and no file that was placed is in a store. `where`: the table."""
        if self.options and not self._stores:
            raise _no_store(where)

    def foreign(self, uri: str) -> tuple[str, dict[str, str]]:
        """A folder for programs that use the Rust package object_store: its percent-encoded URL, and the settings of its store.

        Raises InvalidQuery, InvalidOption."""
        address = address_of(uri)
        if address.kind == FILE:
            return directory_at(address.prefix).absolute().as_uri(), {}
        root = address.url.removesuffix(f"/{address.prefix}")
        return f"{root}/{quote(address.prefix)}", texts_of(address, self.options)

    def read(self, uri: str) -> bytes:
        """The whole content of a file. Raises FileNotFoundError."""
        return self.place(uri).read()

    def open(self, uri: str) -> pa.NativeFile:
        """Raises FileNotFoundError."""
        place = self.place(uri)
        return place.storage.read(place.path)

    def exists(self, uri: str) -> bool:
        return self.place(uri).size() is not None

    def list(self, uri: str) -> list[Entry]:
        """The files in a folder at any depth, with their paths in it, ascending."""
        place = self.place(uri)
        return [entry._replace(path=entry.path[len(place.path) + 1 :]) for entry in place.storage.list(place.path)]


def joined(folder: str, path: str) -> str:
    """The name of a file in a folder."""
    return f"{folder.rstrip('/')}/{path}"
