"""A name that stands for a table or a view."""

from __future__ import annotations

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.errors import TableNotFound
from lsmlake.format.view import View
from lsmlake.sql.names import full_name
from lsmlake.sql.token_reader import Words
from lsmlake.tables.views import Views


def table_or_view_name(lake: Lake, words: Words) -> str:
    """Takes the name of a table or view; one without a database is that of a temporary view."""
    place = words.place
    name = words.name()
    if "." not in name and lake.session.view(name) is not None:
        return name
    words.place = place
    return full_name(lake, words)


def table_or_view(lake: Lake, name: str) -> Table | View:
    """Raises TableNotFound."""
    if "." not in name and (view := lake.session.view(name)) is not None:
        return view
    try:
        return lake.table(name)
    except TableNotFound:
        if "$" in name or (view := Views(lake.env.storage).get(name)) is None:
            raise
        return view
