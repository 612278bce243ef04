"""A registry of schemas over HTTP, with the calls of Confluent's protocol and of versions 2 and 3 of Apicurio's."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from urllib.parse import unquote

from lsmlake.storage.schema_registry import _fetched, registered

_CREDENTIALS = "Basic " + base64.b64encode(b"me:a b").decode()
_V2, _V3 = "/apis/registry/v2", "/apis/registry/v3"


@dataclass
class SchemaRegistry:
    """What a registry holds and was asked.

    Attributes:
        address: its address, with the user and the password that it wants.
        schemas: the schemas; the number of the first is `first`.
        subjects: the numbers of the versions of each subject.
        calls: the calls that registered something: method and path.
        answer: the code of HTTP for each call; None: calls are obeyed.
        prefix: the beginning of all paths.
    """

    address: str = ""
    first: int = 1
    schemas: list[str] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    answer: int | None = None
    prefix: str = ""

    def schema(self, number: int) -> dict:
        return json.loads(self.schemas[number - self.first])

    def register(self, subject: str, schema: str) -> int:
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema) + self.first
        versions = self.subjects.setdefault(subject, [])
        versions += [] if number in versions else [number]
        return number

    def posted(self, path: str, headers: Mapping[str, str], text: str) -> object:
        """The answer to a call that registers a schema."""
        self.calls.append(f"POST {path}")
        if path.startswith("/subjects/"):
            return {"id": self.register(unquote(path.split("/")[2]), json.loads(text)["schema"])}
        if path == f"{_V2}/groups/default/artifacts?ifExists=RETURN_OR_UPDATE" and headers["X-Registry-ArtifactType"] == "AVRO":
            return {"globalId": self.register(headers["X-Registry-ArtifactId"], text), "contentId": -1}
        assert path == f"{_V3}/groups/default/artifacts?ifExists=FIND_OR_CREATE_VERSION"
        given = json.loads(text)
        number = self.register(given["artifactId"], given["firstVersion"]["content"]["content"])
        return {"artifact": {}, "version": {"globalId": -1, "contentId": number}}

    def got(self, path: str) -> object:
        """The answer to a call that asks for a schema."""
        place, _, number = path.rpartition("/")
        schema = self.schema(int(number))
        return schema if place in (f"{_V2}/ids/globalIds", f"{_V3}/ids/contentIds") else {"schema": json.dumps(schema)}


def _server(held: SchemaRegistry) -> HTTPServer:
    _fetched.cache_clear()  # another server may have had the address
    registered.cache_clear()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(lambda: held.got(self.path.removeprefix(held.prefix)))

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(lambda: held.posted(self.path.removeprefix(held.prefix), self.headers, text))

        def _answer(self, made) -> None:
            known = self.headers.get("Authorization") == _CREDENTIALS
            code = held.answer or (200 if known else 401)
            body = made() if code == 200 else {"message": f"code {code}"}
            self.send_response(code)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *given: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    held.address = f"http://me:a%20b@127.0.0.1:{server.server_port}"
    return server


@contextmanager
def schema_registry(first: int = 1) -> Iterator[SchemaRegistry]:
    """A registry that ends with the block."""
    held = SchemaRegistry(first=first)
    with _server(held) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield held
        finally:
            server.shutdown()
            thread.join()


@lru_cache
def shared_registry() -> SchemaRegistry:
    """A registry for all tests of this process."""
    held = SchemaRegistry()
    Thread(target=_server(held).serve_forever, daemon=True).start()
    return held
