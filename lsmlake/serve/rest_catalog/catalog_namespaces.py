"""Namespaces of the catalog: the databases of the lake, all of one level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from lsmlake.errors import TableExists
from lsmlake.format.paths import database_dir, is_name
from lsmlake.serve.rest_catalog.catalog_errors import Refused
from lsmlake.serve.rest_catalog.catalog_pages import page_of
from lsmlake.serve.rest_catalog.catalog_request import SEPARATOR, CatalogRequest, levels_of

_COMMENT, _LOCATION = "comment", "location"


def list_namespaces(asked: CatalogRequest) -> Response:
    """The databases; below a database there are none."""
    parent = asked.query("parent")
    if parent:
        asked.known(parent.split(SEPARATOR))
    page = page_of(asked, [] if parent else asked.databases.names(), lambda name: True)
    return JSONResponse({"namespaces": [[name] for name in page.names], "next-page-token": page.token})


def load_namespace(asked: CatalogRequest) -> Response:
    """A database with its comment and its properties."""
    return JSONResponse({"namespace": [asked.namespace], "properties": _properties(asked, asked.namespace)})


def has_namespace(asked: CatalogRequest) -> Response:
    """Whether a database exists."""
    asked.known([asked.namespace])
    return Response(status_code=204)


def create_namespace(asked: CatalogRequest) -> Response:
    """Creates a database."""
    content = asked.content(namespace=list, properties=dict)
    levels, properties = levels_of(content["namespace"]), dict(content.get("properties") or {})
    if len(levels) != 1 or not is_name(levels[0]):
        expected = "a namespace has one level, of letters, digits, '_' and '-'"
        raise Refused(400, "BadRequestException", f"{'.'.join(levels)!r} cannot be created: {expected}")
    if not all(isinstance(value, str) for value in properties.values()):
        raise Refused(400, "BadRequestException", "the value of a property is a text")
    if _LOCATION in properties:
        raise Refused(400, "BadRequestException", "a database lies in the folder of the lake; leave the property location out")
    comment = {_COMMENT: properties.pop(_COMMENT)} if _COMMENT in properties else {}
    facts = {**comment, **({"properties": properties} if properties else {})}
    if not asked.databases.create(levels[0], facts):
        raise TableExists(f"database {levels[0]!r} exists", cure="choose another name")
    return JSONResponse({"namespace": levels, "properties": _properties(asked, levels[0])})


def drop_namespace(asked: CatalogRequest) -> Response:
    """Drops a database without tables and views."""
    name = asked.namespace
    if asked.lake.tables(name) or asked.views.names(name):
        raise Refused(409, "NamespaceNotEmptyException", f"the database {name} has tables or views; drop them first")
    asked.lake.drop_database(name)
    return Response(status_code=204)


def _properties(asked: CatalogRequest, name: str) -> dict[str, str]:
    facts: Mapping[str, Any] = asked.databases.facts(name)
    comment = {_COMMENT: facts[_COMMENT]} if _COMMENT in facts else {}
    return {**facts.get("properties", {}), **comment, _LOCATION: asked.lake.env.storage.url(database_dir(name))}
