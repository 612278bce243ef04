"""The routes of the page: its files at `/` and `/page/`, which need no token because no data are in them, and the data at
`/api/`, which the guard of the server protects.

An answer has an ETag, so that a page that asks again and again gets new data only. Errors have the parts of a `LakeError` beside
its message.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lsmlake import __version__
from lsmlake.api.lake import Lake
from lsmlake.errors import CommitConflict, InvalidQuery, LakeError, SnapshotNotFound, TableNotFound, Wording, few
from lsmlake.serve.page.bucket_trees import trees
from lsmlake.serve.page.commit_timeline import PAGE, ROWS_MAX, commit_changes, history, outline
from lsmlake.serve.page.overview import Overview
from lsmlake.serve.page.page_files import page_files, tag_of
from lsmlake.serve.page.partition_map import partition_map
from lsmlake.serve.page.query_box import SECONDS, QueryBox
from lsmlake.serve.page.shown_files import KnownFiles
from lsmlake.serve.page.table_card import card
from lsmlake.serve.page.works_done import Compactions
from lsmlake.serve.serve_settings import ServeSettings

_ZIP_FROM = 2_000
_NUMBER_MAX = 18  # digits of a number in an address
_Asked = Mapping[str, Any]


class _View(NamedTuple):
    """Data that GET returns. `texts` and `numbers`: the parameters that may be given."""

    data: Callable[[_Asked], object]
    texts: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


def page_routes(lake: Lake, settings: ServeSettings) -> list[Route]:
    """The routes of the page of a lake. Reads nothing."""
    overview, known, compactions = Overview(lake), KnownFiles(), Compactions()
    box = QueryBox(lake, settings.writes, min(SECONDS, settings.statement_seconds), settings.statement_memory)
    facts = {
        "warehouse": str(lake.env.storage.root),
        "version": __version__,
        "writes": settings.writes,
        "rows": ROWS_MAX,
        "seconds": box.seconds,
    }

    def table(asked: _Asked):
        if not asked["table"]:
            raise InvalidQuery("the table is missing", expected="?table=database.table", cure="name a table")
        return lake.table(asked["table"])

    views = {
        "settings": _View(lambda asked: facts),
        "tables": _View(lambda asked: overview.value()),
        "table": _View(lambda asked: card(known, table(asked)), ("table",)),
        "history": _View(lambda asked: history(table(asked), asked["before"], PAGE), ("table",), ("before",)),
        "outline": _View(lambda asked: outline(table(asked)), ("table",)),
        "changes": _View(lambda asked: commit_changes(table(asked), _needed(asked, "snapshot")), ("table",), ("snapshot",)),
        "tree": _View(
            lambda asked: trees(known, table(asked), asked["snapshot"], asked["partition"], asked["first"] or 0),
            ("table", "partition"),
            ("snapshot", "first"),
        ),
        "map": _View(
            lambda asked: partition_map(known, table(asked), asked["snapshot"], asked["partition"], asked["search"] or ""),
            ("table", "partition", "search"),
            ("snapshot",),
        ),
        "compactions": _View(lambda asked: compactions.of(table(asked)), ("table",)),
    }
    return [
        Route("/", _file("index.html")),
        *(Route(f"/page/{name}", _file(name)) for name in page_files() if name != "index.html"),
        *(Route(f"/api/{name}", _viewed(view)) for name, view in views.items()),
        Route("/api/sql", _posted(("text", "id"), lambda text, id: box.run(text, id)), methods=["POST"]),
        Route("/api/cancel", _posted(("id",), lambda id: {"cancelled": box.cancel(id)}), methods=["POST"]),
    ]


# -- files ------------------------------------------------------------------------------------------------------------


def _file(name: str) -> Callable[[Request], Response]:
    file = page_files()[name]

    def answer(request: Request) -> Response:
        """A file of the page."""
        return _tagged(request, file.content, file.kind, file.tag)

    return answer


def _tagged(request: Request, content: bytes, kind: str, tag: str) -> Response:
    """The content, or only that it has not changed since it was sent."""
    headers = {"etag": tag, "cache-control": "no-cache", "vary": "accept-encoding, authorization"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if len(content) >= _ZIP_FROM and "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["content-encoding"] = gzip.compress(content, 1), "gzip"
    return Response(content, headers=headers, media_type=kind)


# -- data -------------------------------------------------------------------------------------------------------------


def _viewed(view: _View) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        """Data of a view, as JSON."""
        try:
            content = _encoded(view.data(_asked(request, view)))
        except LakeError as error:
            return _failed(error, lambda part: part.command if isinstance(part, Wording) else str(part))
        return _tagged(request, content, "application/json", tag_of(content))

    return answer


def _encoded(data: object) -> bytes:
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode()


def _asked(request: Request, view: _View) -> _Asked:
    """The parameters; None for those that are not given. Raises InvalidQuery for unknown ones."""
    given: dict[str, Any] = dict.fromkeys((*view.texts, *view.numbers))
    for name, value in request.query_params.multi_items():
        if name not in given:
            cure = "leave it out"
            raise InvalidQuery("unknown parameter", expected=f"some of {few(list(given))}", found=repr(name), cure=cure)
        if given[name] is not None:
            raise InvalidQuery("a parameter is given twice", found=repr(name), cure="give it once")
        if name in view.numbers:
            if not (value.isascii() and value.isdecimal() and len(value) <= _NUMBER_MAX):
                raise InvalidQuery(f"{name} is a number", found=repr(value[:40]), cure="correct it, or leave it out")
            given[name] = int(value)
        else:
            given[name] = value
    return given


def _needed(asked: _Asked, name: str) -> int:
    if asked[name] is None:
        raise InvalidQuery(f"the parameter {name} is missing", cure=f"add {name}=NUMBER")
    return asked[name]


def _posted(names: tuple[str, ...], call: Callable[..., object]) -> Callable[[Request], Awaitable[Response]]:
    """A route for a JSON object with these texts."""

    async def answer(request: Request) -> Response:
        """What a call returns, as JSON."""
        try:
            values = _values(await request.body(), request.headers.get("content-type", ""), names)
            content = _encoded(await run_in_threadpool(call, **values))
        except LakeError as error:
            return _failed(error.for_sql(), str)
        return Response(content, media_type="application/json")

    return answer


def _values(body: bytes, kind: str, names: tuple[str, ...]) -> dict[str, str]:
    expected = f"a JSON object with the texts {', '.join(names)}"
    if kind.partition(";")[0].strip() != "application/json":
        raise InvalidQuery(
            "the body is not JSON", where="content-type", expected="application/json", found=kind, cure="send JSON"
        )
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidQuery("the body is not JSON", expected=expected, cure="correct it") from None
    if not isinstance(given, dict) or set(given) != set(names) or not all(isinstance(one, str) for one in given.values()):
        raise InvalidQuery("the body lacks a field, or has an unknown one", expected=expected, cure="correct it")
    return given


def _failed(error: LakeError, worded: Callable[[object], str]) -> Response:
    """The answer for an error, with its parts in the terms of its reader."""
    code = 404 if isinstance(error, (TableNotFound, SnapshotNotFound)) else 400 if isinstance(error, ValueError) else 500
    code = 409 if isinstance(error, CommitConflict) else code
    named = {"what": error.what, "where": error.where, "expected": error.expected, "found": error.found, "cure": error.cure}
    parts = {name: worded(few(part) if isinstance(part, (list, tuple)) else part) for name, part in named.items()}
    return JSONResponse({"error": {"message": parts["what"], "type": type(error).__name__, "code": code, **parts}}, code)
