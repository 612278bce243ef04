"""The address of a warehouse: a directory of this machine, a name in memory, or a place in an object store."""

from __future__ import annotations

import re
from typing import NamedTuple

from lsmlake.errors import InvalidQuery
from lsmlake.storage.storage import TEMPORARY

FILE, MEMORY, S3, GCS, AZURE = "file", "memory", "s3", "gcs", "azure"
KINDS = {
    "memory": MEMORY,
    "s3": S3,
    "s3a": S3,
    "gs": GCS,
    "az": AZURE,
    "abfs": AZURE,
    "abfss": AZURE,
}
"""Scheme of a URL -> kind of store."""

_HADOOP = {S3: "s3a", GCS: "gs", AZURE: "abfss"}
"""Kind of store -> scheme of its file system in Hadoop."""

_LOCAL = re.compile(r"\Afile:(?://localhost(?=/)|//(?!/)|/*(?=/))", re.IGNORECASE)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # not the drive of a path of Windows
_CONTAINER = re.compile(r"[A-Za-z0-9_.$-]+")
_ACCOUNT = re.compile(r"([a-z0-9]+)\.(?:dfs|blob)\.[a-z0-9.]+")
_FORMS = "a directory, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, memory://name"


class Address(NamedTuple):
    """`container`: the bucket, the container of Azure or the name in memory. `prefix`: the folder in it, "" for its root; for a
    local directory the whole path. `account`: the storage account of Azure, if the URL names it. An address holds no secrets."""

    kind: str
    url: str
    container: str
    prefix: str
    account: str = ""

    def within(self, path: str) -> str:
        """The path of a file below this place, from the root of the container."""
        return f"{self.prefix}/{path}" if self.prefix else path


def without_scheme(location: str) -> str:
    """The path in a file URI: file:///a, file:/a as Hadoop writes it, file://localhost/a. Percent signs are not decoded. Other
    locations are returned unchanged."""
    return _LOCAL.sub("", location)


def scheme_of(location: str) -> str | None:
    """The scheme of an address that is not one of this machine; None for a path or a file URI."""
    scheme = _SCHEME.match(location)
    return None if scheme is None or without_scheme(location) != location else scheme[1].lower()


def address_of(location: str) -> Address:
    """Parses the address that a user gives: a path, or a URL. Raises InvalidQuery; the message omits the parts of a URL that may
    hold secrets."""
    path = without_scheme(location)
    match = _URL.fullmatch(location)
    if match is None or path != location:
        if (scheme := scheme_of(location)) is not None:
            cure = f"write {scheme}://" if scheme in KINDS else "correct the address"
            raise InvalidQuery("unknown kind of store", where=f"{scheme}:/", expected=_FORMS, cure=cure)
        return Address(FILE, path, "", path)
    scheme, rest = match[1].lower(), match[2]
    kind = KINDS.get(scheme)
    if kind is None:
        raise InvalidQuery("unknown kind of store", where=f"{scheme}://", expected=_FORMS, cure="correct the address")
    authority, _, path = rest.partition("/")
    if mark := re.search(r"[?#]", path):
        raise _refused(f"{scheme}://...", f"an address without {mark[0]!r}", "pass settings as storage_options")
    container, at, host = authority.partition("@")
    account = _ACCOUNT.fullmatch(host) if at else None
    if at and (account is None or not scheme.startswith("abfs")):
        raise _refused(f"{scheme}://...", _FORMS, "pass credentials as storage_options, or set the usual environment variables")
    if not _CONTAINER.fullmatch(container):
        raise _refused(f"{scheme}://...", _FORMS, "name the bucket after '://'")
    prefix = path.rstrip("/")
    if any(part in ("", ".", "..") or "\0" in part or part.startswith(TEMPORARY) for part in prefix.split("/") if prefix):
        raise _refused(f"{scheme}://{container}/...", "a prefix of plain names", "correct the prefix")
    if kind == MEMORY and prefix:
        raise _refused(f"memory://{container}/{prefix}", "memory://name", "leave the path out")
    url = f"{scheme}://{authority}" + (f"/{prefix}" if prefix else "")
    return Address(kind, url, container, prefix, account[1] if account else "")


def is_same_place(one: str, other: str) -> bool:
    """Whether two addresses name the same place, such as az://c/p and abfss://c@account.dfs.core.windows.net/p."""
    try:
        a, b = address_of(one.rstrip("/")), address_of(other.rstrip("/"))
    except InvalidQuery:
        return one.rstrip("/") == other.rstrip("/")
    accounts = {a.account, b.account} - {""}
    return (a.kind, a.container, a.prefix) == (b.kind, b.container, b.prefix) and len(accounts) < 2


def hadoop_url(address: Address, account: str) -> str | None:
    """The URL of a place in an object store as Hadoop's file systems read it; None if the storage account of Azure is unknown.
    `account`: the account in the settings, used if the URL does not name one."""
    host = address.url.partition("://")[2].partition("/")[0].partition("@")[2]
    if address.kind == AZURE and not host:
        if not account:
            return None
        host = f"{account}.dfs.core.windows.net"
    if address.kind == AZURE:
        host = host.replace(".blob.", ".dfs.", 1)
    authority = f"{address.container}@{host}" if host else address.container
    return f"{_HADOOP[address.kind]}://{authority}" + (f"/{address.prefix}" if address.prefix else "")


def _refused(where: str, expected: str, cure: str) -> InvalidQuery:
    return InvalidQuery("not the address of a warehouse", where=where, expected=expected, cure=cure)
