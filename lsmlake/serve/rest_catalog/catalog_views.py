"""Views of the catalog: a view of the lake is a query in Spark's dialect."""

from __future__ import annotations

from itertools import count

import pyarrow as pa
from starlette.responses import JSONResponse, Response

from lsmlake.errors import LakeError
from lsmlake.format.paths import split_name, view_file
from lsmlake.format.view import View
from lsmlake.iceberg.schemas import field_json
from lsmlake.iceberg.table_metadata import uuid_of
from lsmlake.serve.rest_catalog.catalog_errors import NO_VIEW, UNSUPPORTED, Refused
from lsmlake.serve.rest_catalog.catalog_pages import page_of
from lsmlake.serve.rest_catalog.catalog_request import CatalogRequest
from lsmlake.sql.view_statements import columns_of
from lsmlake.types.column_types import canonical_schema, number_fields

_DIALECT, _VERSION, _SCHEMA = "spark", 1, 0


def list_views(asked: CatalogRequest) -> Response:
    """The views of a database."""
    database = asked.namespace
    page = page_of(asked, asked.views.names(database), lambda name: True)
    named = [{"namespace": [database], "name": name} for name in page.names]
    return JSONResponse({"identifiers": named, "next-page-token": page.token})


def has_view(asked: CatalogRequest) -> Response:
    """Whether a view exists."""
    _view(asked)
    return Response(status_code=204)


def load_view(asked: CatalogRequest) -> Response:
    """The query of a view, and the columns that it had when the view was made."""
    view, (database, name), storage = _view(asked), split_name(asked.view), asked.lake.env.storage
    location = storage.url(view_file(database, name))
    version = {
        "version-id": _VERSION,
        "timestamp-ms": view.create_time_ms,
        "schema-id": _SCHEMA,
        "summary": {"engine-name": "lsmlake"},
        "representations": [{"type": "sql", "sql": view.text, "dialect": _DIALECT}],
        "default-namespace": [view.database or database],
    }
    comment = {} if view.comment is None else {"comment": view.comment}
    metadata = {
        "view-uuid": uuid_of(f"{asked.view} {view.create_time_ms} {view.text}"),
        "format-version": 1,
        "location": location,
        "current-version-id": _VERSION,
        "versions": [version],
        "version-log": [{"version-id": _VERSION, "timestamp-ms": view.create_time_ms}],
        "schemas": [{"type": "struct", "schema-id": _SCHEMA, "fields": _columns(view, asked.view)}],
        "properties": {**view.properties, **comment},
    }
    return JSONResponse({"metadata-location": location, "metadata": metadata, "config": {}})


def drop_view(asked: CatalogRequest) -> Response:
    """Drops a view."""
    if not asked.views.drop(asked.view):
        raise Refused(404, NO_VIEW, f"there is no view {asked.view}")
    return Response(status_code=204)


def _view(asked: CatalogRequest) -> View:
    view = asked.views.get(asked.view)
    if view is None:
        raise Refused(404, NO_VIEW, f"there is no view {asked.view}")
    return view


def _columns(view: View, name: str) -> list[dict[str, object]]:
    try:
        return [field_json(field) for field in number_fields(canonical_schema(pa.schema(columns_of(view))), count(1))]
    except LakeError as unknown:
        raise Refused(406, UNSUPPORTED, f"the view {name} has a column of a type that Iceberg lacks: {unknown}") from None
