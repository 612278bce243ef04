"""Names in statements: of a table, of a database, and of what may be a table or a view."""

from __future__ import annotations

from sqlglot import exp

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.dialect.text import Text
from lsmlake.errors import TableNotFound
from lsmlake.format.view import View
from lsmlake.sql.token_reader import Words
from lsmlake.tables.views import Views


def full_name(lake: Lake, words: Words) -> str:
    """Takes the name of a table; returns it with its database. Refuses a name without one if there is no current database."""
    place = words.place
    name = lake.session.full_name(words.name())
    if "." not in name:
        words.place = place
        words.refuse("the table lacks its database", expected="database.table", cure=cure_of(lake, name))
    return name


def name_of(node: exp.Table, text: Text) -> str:
    """The name of a table in the text."""
    parts = [part.name for part in node.parts]
    if any("." in part for part in parts):
        text.refuse(
            node,
            "a name has a point in it",
            expected="database.table, each in its own quotes",
            cure="write the names apart, each in backticks",
        )
    return ".".join(parts)


def cure_of(lake: Lake, name: str) -> str:
    """What to write for a name without a database."""
    homes = [one for one in lake.tables() if one.partition(".")[2].lower() == name.lower()]
    return f"write {homes[0]}" if homes else "write the database before the table, or USE database"


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
