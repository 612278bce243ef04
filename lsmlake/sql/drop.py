"""DROP of tables, views, materialized views and databases."""

from __future__ import annotations

from collections.abc import Callable

from lsmlake.api.lake import Lake
from lsmlake.errors import InvalidQuery, TableNotFound
from lsmlake.sql.materialized_views import drop_materialized_view, refuse_view_table
from lsmlake.sql.token_reader import Words, full_name
from lsmlake.tables.views import Views

_KINDS = "TABLE", "VIEW", "DATABASE", "SCHEMA", "NAMESPACE"


def drop(lake: Lake, words: Words) -> Callable[[], object]:
    """DROP TABLE | VIEW | MATERIALIZED VIEW | DATABASE [IF EXISTS] name"""
    if words.take("MATERIALIZED", "VIEW"):
        return drop_materialized_view(lake, words)
    kind = words.take_one(*_KINDS)
    if not kind:
        words.refuse(
            "this cannot be dropped",
            expected=f"DROP {', '.join(_KINDS)}",
            cure="a temporary view, too, is dropped by DROP VIEW" if words.follows("TEMPORARY") else "",
        )
    optional = words.take("IF", "EXISTS")
    if kind == "VIEW":
        return _drop_view(lake, words, optional)
    if kind != "TABLE":
        return _drop_database(lake, words, optional)
    names = [full_name(lake, words)]
    while words.take(","):
        names.append(full_name(lake, words))
    words.take("PURGE")  # DROP always deletes the files
    if words.follows("CASCADE") or words.follows("RESTRICT"):
        words.refuse("DROP TABLE drops nothing but tables", cure="leave the word out")
    return lambda: _drop_tables(lake, names, optional)


def _drop_tables(lake: Lake, names: list[str], optional: bool) -> None:
    """Drops tables. If one does not exist, drops none, or with `optional` the others."""
    existing = []
    for name in names:
        try:
            lake.table(name)
        except TableNotFound:
            if "$" not in name and Views(lake.env.storage).is_there(name):
                raise InvalidQuery(f"{name} is a view", found=f"DROP TABLE {name}", cure=f"write DROP VIEW {name}") from None
            if not optional:
                raise
        else:
            refuse_view_table(lake, name, "DROP TABLE")
            existing.append(name)
    for name in dict.fromkeys(existing):
        lake.drop_table(name)


def _drop_view(lake: Lake, words: Words, optional: bool) -> Callable[[], object]:
    place = words.place
    name = words.name()
    temporary = "." not in name and lake.session.view(name) is not None
    if not temporary:
        if "." not in name and lake.session.database is None and optional:
            return lambda: None
        words.place = place
        name = full_name(lake, words)

    def act() -> None:
        if temporary:
            lake.session.drop_view(name)
        elif not Views(lake.env.storage).drop(name):
            _refuse_table(lake, name)
            if not optional:
                raise TableNotFound(f"there is no view {name!r}", cure="SHOW VIEWS lists the views")

    return act


def _refuse_table(lake: Lake, name: str) -> None:
    try:
        lake.table(name)
    except TableNotFound:
        return
    refuse_view_table(lake, name, "DROP VIEW")
    raise InvalidQuery(f"{name} is a table", found=f"DROP VIEW {name}", cure=f"write DROP TABLE {name}")


def _drop_database(lake: Lake, words: Words, optional: bool) -> Callable[[], object]:
    name = words.identifier("a database")
    cascade = words.take("CASCADE")
    if not cascade:
        words.take("RESTRICT")

    def act() -> None:
        try:
            lake.drop_database(name, cascade=cascade)
        except TableNotFound:
            if not optional:
                raise
            return
        if lake.session.database == name:
            lake.session.database = None

    return act
