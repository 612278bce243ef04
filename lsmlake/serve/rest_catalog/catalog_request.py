"""One request to the catalog: what its path, its query and its body name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from lsmlake.api.lake import Lake
from lsmlake.errors import TableNotFound
from lsmlake.format.paths import is_name
from lsmlake.serve.rest_catalog.catalog_errors import NO_NAMESPACE, NO_TABLE, NO_VIEW, Refused
from lsmlake.serve.rest_catalog.publications import Publications
from lsmlake.serve.serve_settings import ServeSettings
from lsmlake.tables.databases import Databases
from lsmlake.tables.views import Views

SEPARATOR = "\x1f"
"""Between the levels of a namespace."""


@dataclass(frozen=True)
class CatalogRequest:
    """A request. `body`: empty unless the endpoint takes one."""

    lake: Lake
    settings: ServeSettings
    publications: Publications
    request: Request
    body: bytes = b""

    @property
    def databases(self) -> Databases:
        return Databases(self.lake.env.storage)

    @property
    def views(self) -> Views:
        return Views(self.lake.env.storage)

    def check_query(self, known: tuple[str, ...]) -> None:
        """Refuses parameters of the query other than these, and one that is given twice."""
        names = [name for name, _ in self.request.query_params.multi_items()]
        if unknown := [name for name in names if name not in known]:
            expected = f"{', '.join(known)}" if known else "none"
            about = f"the parameter {unknown[0]!r} is not obeyed, expected {expected}; leave it out"
            raise Refused(400, "BadRequestException", about)
        if twice := [name for name in known if names.count(name) > 1]:
            raise Refused(400, "BadRequestException", f"the parameter {twice[0]} is given twice")

    def query(self, name: str) -> str | None:
        """A parameter of the query."""
        return self.request.query_params.get(name)

    def flag(self, name: str) -> bool:
        """A parameter of the query that is true or false; by default false. Python clients write the words with a capital."""
        word = self.query(name) or "false"
        if word.lower() not in ("true", "false"):
            raise Refused(400, "BadRequestException", f"{name} is true or false, not {word!r}")
        return word.lower() == "true"

    # -- names --------------------------------------------------------------------------------------------------------

    @property
    def namespace(self) -> str:
        """The namespace in the path, which exists."""
        return self.known(self.request.path_params["namespace"].split(SEPARATOR))

    def known(self, levels: list[str]) -> str:
        """The name of a database by the levels of its namespace. Refuses one that does not exist."""
        shown = ".".join(levels)
        if len(levels) != 1 or not is_name(levels[0]):
            raise Refused(
                404, NO_NAMESPACE, f"there is no namespace {shown!r}; a namespace has one level, the name of a database"
            )
        try:
            self.databases.need(shown)
        except TableNotFound as missing:
            raise Refused(404, NO_NAMESPACE, str(missing)) from None
        return shown

    @property
    def table(self) -> str:
        """The table in the path as database.table, whose database exists."""
        return self._named("table", NO_TABLE)

    @property
    def view(self) -> str:
        """The view in the path as database.view, whose database exists."""
        return self._named("view", NO_VIEW)

    def _named(self, what: str, missing: str) -> str:
        """Clients look for a.b.snapshots, and if there is no such table, for a table that the table a.b has."""
        name = self.request.path_params[what]
        try:
            database = self.namespace
        except Refused as unknown:
            raise Refused(404, missing, str(unknown)) from None
        if not is_name(name):
            raise Refused(404, missing, f"there is no {what} {name!r} in {database}")
        return f"{database}.{name}"

    # -- the body -----------------------------------------------------------------------------------------------------

    def content(self, **kinds: type) -> dict[str, Any]:
        """The body, a JSON object. `kinds`: the fields that the endpoint obeys, and their types; others are refused. All but the
        first may be missing."""
        try:
            content = json.loads(self.body)
        except (ValueError, RecursionError) as broken:
            raise Refused(400, "BadRequestException", f"the body is no JSON: {type(broken).__name__}") from None
        if not isinstance(content, dict):
            raise Refused(400, "BadRequestException", "the body is no JSON object")
        if unknown := [name for name, value in content.items() if name not in kinds and value not in (None, [], {})]:
            raise Refused(400, "BadRequestException", f"these fields are not obeyed: {', '.join(unknown)}; leave them out")
        first = next(iter(kinds))
        for name, kind in kinds.items():
            value = content.get(name)
            if not isinstance(value, kind) and (name == first or value is not None):
                raise Refused(
                    400, "BadRequestException", f"the field {name} is missing, or has another type than {kind.__name__}"
                )
        return content


def levels_of(value: object) -> list[str]:
    """A namespace in a body: a list of texts."""
    if not isinstance(value, list) or not all(isinstance(level, str) for level in value):
        raise Refused(400, "BadRequestException", "a namespace is a list of texts")
    return value
