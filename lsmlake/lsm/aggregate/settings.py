"""What a user can say about the aggregate function of a column: the options `fields.<column>.*`, Paimon's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass, fields

MERGE, IGNORE, ERROR = NULL_STRATEGIES = ("merge", "ignore", "error")
NULL = "null"


@dataclass(frozen=True)
class FieldSettings:
    """A field is the option of the same name with hyphens. `count_limit` None = no limit; `ts_field` None = the last field.
    `overflow`: what a result beyond the column's type does: ERROR refuses it, NULL makes it null, row by row."""

    ignore_retract: bool = False
    list_agg_delimiter: str = ","
    distinct: bool = False
    nested_key: tuple[str, ...] = ()
    nested_key_null_strategy: str = MERGE
    nested_sequence_field: tuple[str, ...] = ()
    count_limit: int | None = None
    ts_field: str | None = None
    overflow: str = ERROR

    def given(self) -> tuple[str, ...]:
        """The names of the settings that are not at their default."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) != field.default)


def option(name: str) -> str:
    """The last part of the option's name: count_limit -> count-limit."""
    return name.replace("_", "-")
