"""Schemas of messages, by the numbers in front of them: from a registry over HTTP, or given.

Confluent's registry and those of its protocol have numbers of 4 bytes. Apicurio's own protocol has 8 bytes in version 2 and 4
in version 3. The schema of a number never changes, so the registry is asked once.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import unquote, urlsplit, urlunsplit

from lsmlake.errors import InvalidData, StorageFailed

Registry = str | Mapping[int, object]
"""The address of a registry, or the schemas by their numbers: JSON text, or its values."""
_TIMEOUT_S = 30
_APICURIO = "/apis/registry/v"


def number_bytes(registry: Registry) -> int:
    """The size of the numbers of schemas."""
    return 8 if isinstance(registry, str) and f"{_APICURIO}2" in registry else 4


def schema_of(registry: Registry, number: int) -> object:
    """The schema of a number, as JSON values.

    Raises:
        InvalidData: there is no such schema.
        StorageFailed: the registry does not answer.
    """
    if isinstance(registry, str):
        return _fetched(registry, number)
    if number not in registry:
        what, cure = f"there is no schema {number}", "add it to the schemas of the ChangeFormat"
        raise InvalidData(what, where="schemas of messages", expected=sorted(registry), found=number, cure=cure)
    given = registry[number]
    return json.loads(given) if isinstance(given, str) and given.lstrip()[:1] in "{[" else given


@lru_cache(maxsize=1024)
def _fetched(registry: str, number: int) -> object:
    parts = urlsplit(registry)
    host = parts.netloc.rpartition("@")[2]
    ids = {f"{_APICURIO}2": "ids/globalIds", f"{_APICURIO}3": "ids/contentIds"}
    path = next((path for mark, path in ids.items() if mark in registry), "schemas/ids")
    address = urlunsplit((parts.scheme, host, f"{parts.path.rstrip('/')}/{path}/{number}", "", ""))
    request = urllib.request.Request(address, headers=_credentials(parts.username, parts.password))
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as refused:
        if refused.code == 404:
            cure = "check the address of the registry"
            raise InvalidData(f"there is no schema {number}", where=address, found=refused, cure=cure) from refused
        raise StorageFailed("the schema registry refuses the call", where=address, found=refused, cure="check it") from refused
    except (OSError, ValueError) as failed:
        raise StorageFailed("the schema registry does not answer", where=address, found=failed, cure="check it") from failed
    wrapped = path == "schemas/ids" and isinstance(found, dict) and "schema" in found
    return json.loads(found["schema"]) if wrapped else found


def _credentials(user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    both = f"{unquote(user)}:{unquote(password or '')}"
    return {"Authorization": "Basic " + base64.b64encode(both.encode()).decode()}
