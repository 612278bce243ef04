"""The storage at an address that a user names."""

from __future__ import annotations

from collections.abc import Mapping

from lsmlake.errors import InvalidOption
from lsmlake.storage.address import FILE, MEMORY, address_of
from lsmlake.storage.disk_cache import LEAST_BYTES, DiskCache
from lsmlake.storage.local import LocalStorage, directory_at
from lsmlake.storage.memory import named
from lsmlake.storage.objects import ObjectStorage
from lsmlake.storage.storage import Storage


def storage_at(location: str, options: Mapping[str, object] | None = None, cache: DiskCache | None = None) -> Storage:
    """The storage of a warehouse. Makes no request. Raises InvalidQuery, InvalidOption, MissingDependency."""
    address, options = address_of(location), options or {}
    if cache is not None and address.kind in (FILE, MEMORY):
        raise InvalidOption("a cache is for object stores", where=address.url, cure="leave it out, or correct the address")
    if options and address.kind in (FILE, MEMORY):
        raise InvalidOption(
            "storage_options are settings of object stores", where=address.url, cure="leave them out, or correct the address"
        )
    if address.kind == FILE:
        return LocalStorage(directory_at(address.prefix))
    return named(address.container) if address.kind == MEMORY else ObjectStorage(address, options, cache)


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
    return DiskCache(str(directory_at(folder).absolute()), limit_bytes)
