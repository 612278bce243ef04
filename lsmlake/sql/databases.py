"""CREATE DATABASE and USE."""

from __future__ import annotations

from collections.abc import Callable

from lsmlake.api.lake import Lake
from lsmlake.errors import TableExists
from lsmlake.sql.information_schema import NAME as INFORMATION_SCHEMA
from lsmlake.sql.token_reader import Words
from lsmlake.tables.databases import Databases

KINDS = "DATABASE", "SCHEMA", "NAMESPACE"


def create_database(lake: Lake, words: Words) -> Callable[[], object]:
    """CREATE DATABASE [IF NOT EXISTS] name [COMMENT 'text'] [WITH DBPROPERTIES ('name' = 'value', ...)]; the words after
    DATABASE."""
    exists = words.take("IF", "NOT", "EXISTS")
    place = words.place
    name = words.identifier("a database")
    if name.lower() == INFORMATION_SCHEMA:
        words.place = place
        words.refuse(f"{name} describes the lake, and cannot be created", cure="choose another name")
    facts: dict[str, object] = {}
    while words.any_follow():
        if words.follows("LOCATION") or words.follows("MANAGED"):
            words.refuse("a database lies in the folder of the lake", cure="leave LOCATION out, or connect another lake there")
        key = "comment" if words.follows("COMMENT") else "properties"
        if key in facts:
            words.refuse("this is given twice", cure="give it once")
        if words.take("COMMENT"):
            facts[key] = words.literal("a comment")
        elif words.take("WITH", "DBPROPERTIES") or words.take("WITH", "PROPERTIES"):
            facts[key] = words.pairs("a property")
        else:
            words.end()

    def act() -> None:
        if not Databases(lake.env.storage).create(name, facts) and not exists:
            raise TableExists(f"database {name!r} exists", cure="choose another name, or write CREATE DATABASE IF NOT EXISTS")

    return act


def use(lake: Lake, words: Words) -> Callable[[], object]:
    """USE [DATABASE | SCHEMA | NAMESPACE] name: where tables are that are named without a database."""
    words.take_one(*KINDS)
    name = words.identifier("a database")

    def act() -> None:
        if name.lower() != INFORMATION_SCHEMA:
            Databases(lake.env.storage).need(name)
        lake.session.database = name

    return act
