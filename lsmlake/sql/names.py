"""Names of tables in statements: with their database, or in the current one (USE)."""

from __future__ import annotations

from sqlglot import exp

from lsmlake.api.lake import Lake
from lsmlake.dialect.text import Text
from lsmlake.sql.token_reader import Words


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
