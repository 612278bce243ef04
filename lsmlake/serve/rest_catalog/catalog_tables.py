"""Tables of the catalog: listed, and loaded with the metadata that `publications` publishes."""

from __future__ import annotations

import hashlib

from starlette.responses import JSONResponse, Response

from lsmlake.format.paths import database_dir, is_name, table_dir
from lsmlake.iceberg.table_metadata import Metadata
from lsmlake.serve.rest_catalog.catalog_errors import NO_TABLE, UNSUPPORTED, Refused
from lsmlake.serve.rest_catalog.catalog_pages import page_of
from lsmlake.serve.rest_catalog.catalog_request import CatalogRequest, levels_of
from lsmlake.serve.rest_catalog.store_properties import reader_properties, secrets_of

_VENDED = "vended-credentials"


def list_tables(asked: CatalogRequest) -> Response:
    """The tables of a database."""
    database, databases = asked.namespace, asked.databases
    folders = [name for name in asked.lake.env.storage.folders(database_dir(database)) if is_name(name)]
    page = page_of(asked, folders, lambda name: databases.is_table(table_dir(f"{database}.{name}")))
    named = [{"namespace": [database], "name": name} for name in page.names]
    return JSONResponse({"identifiers": named, "next-page-token": page.token})


def has_table(asked: CatalogRequest) -> Response:
    """Whether a table exists."""
    _need(asked)
    return Response(status_code=204)


def load_table(asked: CatalogRequest) -> Response:
    """The metadata of a table, or 304 if the client has it."""
    wanted = asked.query("snapshots")
    if wanted not in (None, "all", "refs"):
        raise Refused(400, "BadRequestException", f"snapshots is all or refs, not {wanted!r}")
    delegated = _VENDED in asked.request.headers.get("x-iceberg-access-delegation", "") and asked.settings.passes_credentials
    found = asked.publications.of(asked.table)
    storage = asked.lake.env.storage
    secrets = secrets_of(storage) if delegated else {}
    config = {**reader_properties(storage), **secrets}  # keys may be new although the table is not
    parts = (found.metadata_file, found.content["table-uuid"], found.content["last-updated-ms"], wanted, sorted(config.items()))
    tag = f'"{hashlib.sha256(repr(parts).encode()).hexdigest()}"'
    known = [one.strip().removeprefix("W/") for one in asked.request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers={"etag": tag})
    content: dict[str, object] = {
        "metadata-location": found.metadata_file,
        "metadata": with_refs_only(found.content) if wanted == "refs" else found.content,
        "config": config,
    }
    if secrets:
        content["storage-credentials"] = [{"prefix": found.content["location"], "config": secrets}]
    return JSONResponse(content, headers={"etag": tag})


def with_refs_only(metadata: Metadata) -> Metadata:
    """The metadata with those snapshots only that a branch or a tag names."""
    named = {ref["snapshot-id"] for ref in metadata["refs"].values()}
    return {**metadata, "snapshots": [one for one in metadata["snapshots"] if one["snapshot-id"] in named]}


def drop_table(asked: CatalogRequest) -> Response:
    """Drops a table with its files, if the client asks for that."""
    _need(asked)
    if not asked.flag("purgeRequested"):
        about = "the files of a table are removed with it, which the client did not ask for; drop it with purge"
        raise Refused(406, UNSUPPORTED, about)
    asked.lake.drop_table(asked.table)
    return Response(status_code=204)


def rename_table(asked: CatalogRequest) -> Response:
    """Renames a table."""
    content = asked.content(source=dict, destination=dict)
    names = []
    for place in (content["source"], content.get("destination") or {}):
        if unknown := sorted(place.keys() - {"namespace", "name"}):
            raise Refused(400, "BadRequestException", f"these fields are not obeyed: {', '.join(unknown)}; leave them out")
        database, name = asked.known(levels_of(place.get("namespace"))), place.get("name")
        if not isinstance(name, str) or not is_name(name):
            raise Refused(400, "BadRequestException", f"not the name of a table: {name!r}")
        names.append(f"{database}.{name}")
    asked.lake.rename_table(*names)
    return Response(status_code=204)


def _need(asked: CatalogRequest) -> None:
    if not asked.databases.is_table(table_dir(asked.table)):
        raise Refused(404, NO_TABLE, f"there is no table {asked.table}")
