"""The names of tables and views: dbt's schema is a database of the lake, and dbt's database does not exist."""

from __future__ import annotations

from dataclasses import dataclass, field

from dbt.adapters.base.relation import BaseRelation, EventTimeFilter
from dbt.adapters.contracts.relation import Policy
from dbt_common.exceptions import DbtRuntimeError


def _included() -> Policy:
    return Policy(database=False, schema=True, identifier=True)


@dataclass(frozen=True, eq=False, repr=False)
class LsmlakeRelation(BaseRelation):
    """A table or view of the lake, or a temporary view, which has no schema."""

    quote_character: str = "`"
    include_policy: Policy = field(default_factory=_included)
    quote_policy: Policy = field(default_factory=_included)
    require_alias: bool = False  # a subquery needs no name in Spark SQL, and a model may give it one

    def __post_init__(self) -> None:
        check_no_database(self.path.database)

    def _render_event_time_filtered(self, event_time_filter: EventTimeFilter) -> str:
        """The condition that `--sample` and microbatch put on an input. The moments are TIMESTAMPs with their offset."""
        bounds = ((">=", event_time_filter.start), ("<", event_time_filter.end))
        column = event_time_filter.field_name
        return " and ".join(f"{column} {sign} timestamp '{moment}'" for sign, moment in bounds if moment is not None)


def check_no_database(database: str | None) -> None:
    """Refuses a database above the schemas. That of a model is undefined, which is none. Raises DbtRuntimeError."""
    if database:
        raise DbtRuntimeError(
            f"a relation of lsmlake has no database, found {database!r}; write schema for the database of the lake"
        )
