"""The routes of the catalog, and which of them its configuration names.

Source: the OpenAPI file of the Iceberg REST catalog. The operations of it that are not here, such as the creation of tables and
plans of scans, are refused in its words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lsmlake.api.lake import Lake
from lsmlake.errors import LakeError
from lsmlake.format.paths import database_dir
from lsmlake.serve.http_error import error_response
from lsmlake.serve.rest_catalog.catalog_errors import UNSUPPORTED, Refused, refusal_of
from lsmlake.serve.rest_catalog.catalog_namespaces import (
    create_namespace,
    drop_namespace,
    has_namespace,
    list_namespaces,
    load_namespace,
)
from lsmlake.serve.rest_catalog.catalog_request import CatalogRequest
from lsmlake.serve.rest_catalog.catalog_tables import drop_table, has_table, list_tables, load_table, rename_table
from lsmlake.serve.rest_catalog.catalog_views import drop_view, has_view, list_views, load_view
from lsmlake.serve.rest_catalog.fast_append import commit_table
from lsmlake.serve.rest_catalog.publications import Publications
from lsmlake.serve.rest_catalog.store_properties import secrets_of
from lsmlake.serve.serve_settings import ServeSettings

ROOT = "/iceberg"
TOKENS = f"{ROOT}/v1/oauth/tokens"
_NAMESPACES = "/v1/{prefix}/namespaces"
_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
_TABLES, _TABLE = f"{_NAMESPACE}/tables", f"{_NAMESPACE}/tables/{{table}}"
_VIEWS, _VIEW = f"{_NAMESPACE}/views", f"{_NAMESPACE}/views/{{view}}"


class CatalogEndpoint(NamedTuple):
    """An operation of the specification. `changes`: whether it changes the lake. `query`: the parameters that may be given."""

    method: str
    path: str
    answer: Callable[[CatalogRequest], Response]
    changes: bool = False
    query: tuple[str, ...] = ()


_PAGED = ("pageToken", "pageSize")
_THROUGH = "referenced-by"
"""The views through which a client reads. It decides nothing: every token has all rights."""


ENDPOINTS = (
    CatalogEndpoint("GET", _NAMESPACES, list_namespaces, query=("parent", *_PAGED)),
    CatalogEndpoint("POST", _NAMESPACES, create_namespace, True),
    CatalogEndpoint("HEAD", _NAMESPACE, has_namespace),
    CatalogEndpoint("GET", _NAMESPACE, load_namespace),
    CatalogEndpoint("DELETE", _NAMESPACE, drop_namespace, True),
    CatalogEndpoint("GET", _TABLES, list_tables, query=_PAGED),
    CatalogEndpoint("HEAD", _TABLE, has_table),
    CatalogEndpoint("GET", _TABLE, load_table, query=("snapshots", _THROUGH)),
    CatalogEndpoint("POST", _TABLE, commit_table, True),
    CatalogEndpoint("DELETE", _TABLE, drop_table, True, ("purgeRequested",)),
    CatalogEndpoint("POST", "/v1/{prefix}/tables/rename", rename_table, True),
    CatalogEndpoint("GET", _VIEWS, list_views, query=_PAGED),
    CatalogEndpoint("HEAD", _VIEW, has_view),
    CatalogEndpoint("GET", _VIEW, load_view, query=(_THROUGH,)),
    CatalogEndpoint("DELETE", _VIEW, drop_view, True),
)
"""A path with HEAD stands before the same path with GET, which Starlette would call for HEAD, too."""
REFUSED = (
    ("POST", f"{_NAMESPACE}/properties"),
    ("POST", _TABLES),
    ("POST", f"{_NAMESPACE}/register"),
    ("POST", f"{_TABLE}/metrics"),
    ("GET", f"{_TABLE}/credentials"),
    ("POST", f"{_TABLE}/plan"),
    ("POST", f"{_TABLE}/tasks"),
    ("POST", f"{_TABLE}/sign"),
    ("POST", "/v1/{prefix}/transactions/commit"),
    ("POST", _VIEWS),
    ("POST", _VIEW),
    ("POST", "/v1/{prefix}/views/rename"),
    ("POST", f"{_NAMESPACE}/register-view"),
)
"""Operations of the specification that no setting allows."""
_WORDS = "lsmlake writes its tables itself: write with its SQL, or from Python"


def catalog_routes(lake: Lake, settings: ServeSettings) -> list[Route]:
    """The routes of a catalog over a lake.

    Raises:
        InvalidQuery: credentials should be passed on, and there are none.
    """
    if settings.passes_credentials:
        secrets_of(lake.env.storage)
    publications = Publications(lake)

    def answered(endpoint: CatalogEndpoint) -> Route:
        async def answer(request: Request) -> Response:
            body = await request.body()
            asked = CatalogRequest(lake, settings, publications, request, body)
            try:
                asked.check_query(endpoint.query)
                return await run_in_threadpool(endpoint.answer, asked)
            except (Refused, LakeError) as error:
                why = error if isinstance(error, Refused) else refusal_of(error)
                return error_response(why.code, why.kind, str(why))

        path = ROOT + endpoint.path.replace("/{prefix}", "")
        return Route(path, answer, methods=[endpoint.method])

    config = CatalogEndpoint("GET", "/v1/config", _config, query=("warehouse",))
    tokens = CatalogEndpoint("POST", TOKENS.removeprefix(ROOT), _no_tokens)
    allowed = [one if settings.writes or not one.changes else one._replace(answer=_read_only) for one in ENDPOINTS]
    refused = [CatalogEndpoint(method, path, _unsupported, True) for method, path in REFUSED]
    if not settings.writes:
        refused = [one._replace(answer=_read_only) if one.method == "POST" else one for one in refused]
    return [answered(one) for one in (config, tokens, *allowed, *refused)]


def _config(asked: CatalogRequest) -> Response:
    """The configuration of clients. They send the name or the address of the warehouse, or none."""
    address = asked.lake.env.storage.url(database_dir("any")).rpartition("/")[0]
    names = {address, address.removeprefix("file://"), address.rpartition("/")[2]}
    if (wanted := asked.query("warehouse")) and wanted.rstrip("/") not in names:
        about = f"there is no warehouse {wanted!r} here; this one is {address.rpartition('/')[2]}, or {address}"
        raise Refused(404, "NoSuchWarehouseException", about)
    endpoints = [f"{one.method} {one.path}" for one in ENDPOINTS if asked.settings.writes or not one.changes]
    return JSONResponse({"defaults": {}, "overrides": {}, "endpoints": endpoints})


def _no_tokens(asked: CatalogRequest) -> Response:
    about = "this server issues no tokens; give clients the token itself, as the property token"
    return JSONResponse({"error": "unsupported_grant_type", "error_description": about}, 400)


def _read_only(asked: CatalogRequest) -> Response:
    raise Refused(403, "ForbiddenException", "this server is read-only; its owner can start it with --write")


def _unsupported(asked: CatalogRequest) -> Response:
    raise Refused(406, UNSUPPORTED, f"the server does not support this operation: {asked.request.method}; {_WORDS}")
