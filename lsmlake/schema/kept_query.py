"""The query of a view table, as the schema of the table stores it.

A view table holds the rows of a query and is kept by the changes of the tables that the query reads (`views.view_refresh`). Only
a refresh writes it. Beside the columns of the query it has hidden columns, whose names begin with `_lsmlake_`: reads leave them
out unless they are named. How far the rows have come is not stored here but in each snapshot (`Snapshot.position`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NoReturn

from lsmlake.errors import InvalidOption, InvalidQuery, Wording
from lsmlake.options.changelog_options import INPUT
from lsmlake.options.merge_options import DEDUPLICATE
from lsmlake.options.table_options import Options
from lsmlake.types.json_shape import TEXT, check, optional

_KINDS = {"text": TEXT, "database": optional(TEXT), "zone": TEXT}


@dataclass(frozen=True)
class KeptQuery:
    """The query of a view table.

    Attributes:
        text: the query.
        database: the database of the tables that the query names without a database.
        zone: the time zone in which it is evaluated.
    """

    text: str
    database: str | None
    zone: str

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @staticmethod
    def from_json(content: dict[str, object], where: str) -> KeptQuery:
        """Raises Corrupt naming `where`."""
        check("schema", content, _KINDS, where)
        return KeptQuery(**content)


def check_kept_options(options: Options, where: str) -> None:
    """Raises InvalidOption for options by which a view table would have other rows than its query gives."""
    refused = {
        "merge-engine": options.merge.engine != DEDUPLICATE,
        "sequence.field": bool(options.merge.sequence_field),
        "rowkind.field": options.write.rowkind_field is not None,
        "ignore-delete": options.write.ignore_delete,
        "changelog-producer = input": options.changelog.producer == INPUT,
        "partition.expiration-time": options.partitions.expiration_ms is not None,
        "record-level.expire-time": options.retention.rows_ms is not None,
    }
    if wrong := [name for name, is_set in refused.items() if is_set]:
        raise InvalidOption(
            "a view table cannot have this option: its rows are those of its query",
            where=where,
            found=", ".join(wrong),
            cure="leave the option out, or write the condition in the query",
        )


def refuse_rows(view: KeptQuery, where: str) -> NoReturn:
    """Raises InvalidQuery for a write to a view table: only a refresh may change its rows. `view`: its query."""
    raise InvalidQuery(
        "this is a view table, which only a refresh writes",
        where=where,
        expected="a table without a query",
        found=view.text,
        cure=Wording(
            "write to the tables of its query, then call refresh() of the lake",
            command="write to the tables of its query, then run REFRESH MATERIALIZED VIEW by `lsmlake sql`",
            sql="write to the tables of its query, then run REFRESH MATERIALIZED VIEW",
        ),
    )
