"""CREATE, REFRESH and DROP of materialized views: view tables, in the words of other engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.errors import InvalidQuery, TableNotFound
from lsmlake.format.paths import split_branch
from lsmlake.sql.token_reader import Words, full_name
from lsmlake.types.type_text import backticked


def create_materialized_view(lake: Lake, words: Words, *, replaces: bool) -> Callable[[], object]:
    """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [COMMENT 'text'] [PARTITIONED BY (column, ...)]
    [TBLPROPERTIES (...)] AS query; the words after OR REPLACE."""
    words.need("MATERIALIZED", "VIEW")
    exists = words.take("IF", "NOT", "EXISTS")
    if exists and replaces:
        words.refuse("OR REPLACE and IF NOT EXISTS exclude each other", cure="use one of them")
    name = full_name(lake, words)
    readers = {
        "COMMENT": lambda: words.literal("a comment"),
        "TBLPROPERTIES": lambda: words.pairs("a property"),
        "PARTITIONED": lambda: _partitions(words),
    }

    def refuse() -> NoReturn:
        words.refuse(
            "this is not supported in CREATE MATERIALIZED VIEW",
            expected="[COMMENT 'text'] [PARTITIONED BY (columns)] [TBLPROPERTIES (...)] AS query",
            cure="name the columns by AS in the query" if words.follows("(") else "leave it out",
        )

    given = words.clauses(readers, refuse)
    settings = {
        "comment": given.get("COMMENT"),
        "partition_by": given.get("PARTITIONED", ()),
        "options": given.get("TBLPROPERTIES"),
    }
    query = words.rest("a query")
    return lambda: lake.create_view_table(name, query, if_not_exists=exists, replace=replaces, **settings)


def _partitions(words: Words) -> list[str]:
    words.need("BY")
    return words.listed(lambda: _partition_field(words))


def _partition_field(words: Words) -> str:
    """A column, or a transform of one, such as days(ts) or bucket(16, id)."""
    name = words.identifier("a column")
    if not words.follows("("):
        return backticked(name) if not name.isidentifier() else name
    parts = words.listed(lambda: str(words.number("a number")) if words.is_number() else words.identifier("a column"))
    return f"{name}({', '.join(parts)})"


def refresh_materialized_view(lake: Lake, words: Words) -> Callable[[], pa.Table]:
    """REFRESH MATERIALIZED VIEW name [FULL]; the words after REFRESH."""
    if not words.take("MATERIALIZED", "VIEW"):
        words.refuse(
            "only a materialized view is refreshed",
            expected="REFRESH MATERIALIZED VIEW name [FULL]",
            cure="leave it out: a statement reads the newest snapshot of a table",
        )
    name = full_name(lake, words)
    full = words.take("FULL")

    def act() -> pa.Table:
        report = lake.refresh(name, full=full)
        facts = {
            "way": (report.way, pa.string()),
            "reason": (report.reason, pa.string()),
            "changes": (report.changes, pa.int64()),
            "written": (report.written, pa.int64()),
            "deleted": (report.deleted, pa.int64()),
            "snapshot": (report.snapshot and report.snapshot.id, pa.int64()),
        }
        return pa.table({key: pa.array([value], kind) for key, (value, kind) in facts.items()})

    return act


def drop_materialized_view(lake: Lake, words: Words) -> Callable[[], object]:
    """DROP MATERIALIZED VIEW [IF EXISTS] name; the words after VIEW."""
    optional, name = words.take("IF", "EXISTS"), full_name(lake, words)

    def act() -> None:
        try:
            view = lake.table(name).version.schema.view
        except TableNotFound:
            if not optional:
                raise
            return
        if view is None:
            cure = f"write DROP TABLE {name}"
            raise InvalidQuery(f"{name} is a table without a query", found=f"DROP MATERIALIZED VIEW {name}", cure=cure)
        lake.drop_table(name)

    return act


def refuse_view_table(lake: Lake, name: str, statement: str) -> None:
    """Raises InvalidQuery if the table is a view table, which `statement` does not drop."""
    whole, _ = split_branch(name)
    if lake.table(whole).version.schema.view is not None:
        cure = f"write DROP MATERIALIZED VIEW {name}"
        raise InvalidQuery(f"{name} is a materialized view", found=f"{statement} {name}", cure=cure)
