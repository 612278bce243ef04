"""Schemas of messages, by the numbers in front of them: from a registry over HTTP, or given; and registered there.

Confluent's registry and those of its protocol have numbers of 4 bytes. Apicurio's own protocol has 8 bytes in version 2 and 4
in version 3. The schema of a number never changes, so the registry is asked once, and a schema is registered once.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from lsmlake.errors import InvalidData, LakeError, StorageFailed

Registry = str | Mapping[int, object]
"""The address of a registry, or the schemas by their numbers: JSON text, or its values."""
_TIMEOUT_S = 30
_APICURIO = "/apis/registry/v"
_CONFLUENT = "application/vnd.schemaregistry.v1+json"
_UNSUITABLE = 409, 422
"""The answers to a schema that does not fit the versions before it, or the rules of the registry."""
_SHOWN = 300
_CURE = "check the address of the registry, which also has the user and the password: http://user:password@host:port"


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
    ids = {f"{_APICURIO}2": "ids/globalIds", f"{_APICURIO}3": "ids/contentIds"}
    path = next((path for mark, path in ids.items() if mark in registry), "schemas/ids")
    missing = partial(InvalidData, f"there is no schema {number}", cure="check the address of the registry")
    found = _answer(_request(registry, f"{path}/{number}"), {404: missing})
    wrapped = path == "schemas/ids" and isinstance(found, dict) and "schema" in found
    return json.loads(found["schema"]) if wrapped else found


@lru_cache(maxsize=1024)
def registered(registry: str, subject: str, schema: str) -> int:
    """The number of a schema in a registry, which has it as a version of the subject from now on.

    Raises:
        StorageFailed: the registry does not answer, or refuses the call, also because the schema breaks the rules of the subject.
    """
    request, place = _registration(registry, subject, schema)
    cure = "undo the change of the columns, relax the compatibility of the subject, or choose another topic"
    refused = partial(StorageFailed, f"the schema registry refuses the schema of {subject!r}", cure=cure)
    answer = number = _answer(request, dict.fromkeys(_UNSUITABLE, refused))
    for name in place:
        number = number.get(name) if isinstance(number, dict) else None
    if not isinstance(number, int):
        what, found = "the schema registry gives no number for the schema", str(answer)[:_SHOWN]
        raise StorageFailed(what, where=request.full_url, expected=".".join(place), found=found, cure=_CURE)
    return number


def _registration(registry: str, subject: str, schema: str) -> tuple[urllib.request.Request, tuple[str, ...]]:
    """The call that registers a schema, and the path to the number in its answer."""
    if f"{_APICURIO}2" in registry:
        request = _request(registry, "groups/default/artifacts?ifExists=RETURN_OR_UPDATE", json.loads(schema))
        request.add_header("X-Registry-ArtifactId", quote(subject, safe=""))
        request.add_header("X-Registry-ArtifactType", "AVRO")
        return request, ("globalId",)
    if f"{_APICURIO}3" in registry:
        content = {"content": {"content": schema, "contentType": "application/json"}}
        described = {"artifactId": subject, "artifactType": "AVRO", "firstVersion": content}
        path = "groups/default/artifacts?ifExists=FIND_OR_CREATE_VERSION"
        return _request(registry, path, described), ("version", "contentId")
    return _request(registry, f"subjects/{quote(subject, safe='')}/versions", {"schema": schema}, kind=_CONFLUENT), ("id",)


def _request(registry: str, path: str, body: object = None, *, kind: str = "application/json") -> urllib.request.Request:
    """A call of the registry: GET, or POST with a body."""
    parts = urlsplit(registry)
    host = parts.netloc.rpartition("@")[2]
    path, _, query = path.partition("?")
    address = urlunsplit((parts.scheme, host, f"{parts.path.rstrip('/')}/{path}", query, ""))
    headers = _credentials(parts.username, parts.password)
    if body is None:
        return urllib.request.Request(address, headers=headers)
    return urllib.request.Request(address, json.dumps(body).encode(), {**headers, "Content-Type": kind})


def _answer(request: urllib.request.Request, errors: Mapping[int, Callable[..., LakeError]]) -> object:
    """The answer as JSON values. `errors`: what codes of HTTP mean. Raises these errors, and StorageFailed."""
    where = request.full_url
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        kind = errors.get(refused.code) or partial(StorageFailed, "the schema registry refuses the call", cure=_CURE)
        said = refused.read(_SHOWN).decode(errors="replace").strip()
        raise kind(where=where, found=f"{refused}: {said}" if said else refused) from refused
    except (OSError, ValueError) as failed:
        raise StorageFailed("the schema registry does not answer", where=where, found=failed, cure=_CURE) from failed


def _credentials(user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    both = f"{unquote(user)}:{unquote(password or '')}"
    return {"Authorization": "Basic " + base64.b64encode(both.encode()).decode()}
