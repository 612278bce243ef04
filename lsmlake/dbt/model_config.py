"""The configs of a model, read completely: each is obeyed by its materialization, or refused by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.events.types import AdapterEventWarning
from dbt.adapters.protocol import AdapterConfig
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.events.functions import warn_or_error
from dbt_common.exceptions import CompilationError

from lsmlake.api.table import Table
from lsmlake.types.type_text import format_type_of

_LAYOUT = ("primary_key", "partition_by", "merge_engine", "options")
_MERGE = ("merge_update_columns", "merge_exclude_columns")
_PREDICATES = ("predicates", "incremental_predicates")
_OBEYED: Mapping[str, Sequence[str]] = {
    "table": _LAYOUT,
    "incremental": (*_LAYOUT, *_MERGE, *_PREDICATES),
    "seed": _LAYOUT,
    "snapshot": ("partition_by", "options"),
    "view": (),
}
"""Materialization -> the configs of this adapter that it obeys; those of dbt itself come in addition."""
_OF_STRATEGY: Mapping[str, Sequence[str]] = {
    "append": (),
    "merge": (*_MERGE, *_PREDICATES),
    "delete+insert": _PREDICATES,
    "insert_overwrite": (),
    "microbatch": (),
}
STRATEGIES = tuple(_OF_STRATEGY)
_OF_DBT = "__dbt_internal"
"""How the configs begin that dbt itself adds to a model, such as the times of a batch."""
_OF_OTHERS = ("sort", "sort_type", "dist", "backup")
"""Configs of Redshift, which packages for several databases carry; dbt's own tests of adapters want that they are no errors."""
_CURES = {
    "grants": "a lake has no users: leave it out, and grant access to its files",
    "indexes": "set an option such as file-index.bloom-filter.columns in options",
    "sql_header": "a statement stands alone: write it as a pre-hook",
    "file_format": "leave it out: the files of a table are Parquet",
    "location_root": "leave it out: a table lies in the folder of its database",
    "clustered_by": "set bucket-key in options",
    "buckets": "set bucket in options",
    "tblproperties": "write options",
    "catalog_name": "leave it out: the warehouse of the profile is the catalog",
}


@dataclass
class LsmlakeConfig(AdapterConfig):
    """The configs of this adapter.

    Attributes:
        primary_key: the key columns of the table.
        partition_by: columns, or transforms of them such as days(ts).
        merge_engine: the option merge-engine.
        options: table options by name.
        merge_update_columns: strategy merge: the columns that a row of a known key changes.
        merge_exclude_columns: strategy merge: the columns that it does not change.
        predicates: as incremental_predicates.
        incremental_predicates: strategies merge and delete+insert: conditions on the rows of the table that may change.
    """

    primary_key: str | list[str] | None = None
    partition_by: str | list[str] | None = None
    merge_engine: str | None = None
    options: dict[str, Any] | None = None
    merge_update_columns: list[str] | None = None
    merge_exclude_columns: list[str] | None = None
    predicates: list[str] | None = None
    incremental_predicates: list[str] | None = None


@dataclass(frozen=True)
class TableLayout:
    """What a model says of its table, beside its columns."""

    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(node: Any) -> TableLayout:
        """The layout that the configs and the constraints of a model give. Raises CompilationError."""
        config = node.config
        options = {name: _text(value) for name, value in (config.get("options") or {}).items()}
        if (engine := config.get("merge_engine")) is not None:
            if "merge-engine" in options:
                raise CompilationError("merge_engine and the option merge-engine are one; give it once", node)
            options["merge-engine"] = engine
        return TableLayout(_key(node, options), _names(config.get("partition_by")), options)

    def is_that_of(self, table: Table, types: Mapping[str, str]) -> bool:
        """Whether CREATE OR REPLACE TABLE can give the table this layout: it keeps the key, the partitions, and their columns.
        `types`: the new columns."""
        stored = {one.name.lower(): format_type_of(one) for one in table.version.schema.columns}
        new = {name.lower(): kind for name, kind in types.items()}
        kept = [*table.primary_key, *(one.column for one in table.version.schema.partition_columns)]
        return (
            self.primary_key == tuple(table.primary_key)
            and [*map(_bare, self.partition_by)] == [*map(_bare, table.partition_by)]
            and all(new.get(name.lower()) == stored[name.lower()] for name in kept)
        )


def check_config(node: Any, materialization: str, strategy: str | None = None) -> None:
    """Refuses a config of a model that the materialization does not obey.

    Args:
        node: the model, seed or snapshot.
        materialization: what builds it.
        strategy: of an incremental model.

    Raises:
        CompilationError: a config is unknown, or this materialization or strategy does not obey it.
    """
    config, obeyed = node.config, _OBEYED[materialization]
    given = [name for name, value in config._extra.items() if value is not None and not name.startswith(_OF_DBT)]
    for name in [*given, *(one for one in ("grants", "catalog_name") if config.get(one))]:
        if name in _OF_OTHERS:
            warn_or_error(
                AdapterEventWarning(base_msg=f"lsmlake does not obey the config {name} of {node.unique_id}: leave it out")
            )
        elif name not in obeyed:
            expected = f"expected one of {', '.join(obeyed)}" if obeyed else "expected none of this adapter"
            cure = _CURES.get(name, "leave it out, or put what is for your own macros under meta")
            raise CompilationError(
                f"the config {name} has no meaning for a {materialization} of lsmlake, {expected}; {cure}", node
            )
    if strategy is not None:
        _check_strategy(node, strategy, given)


def _check_strategy(node: Any, strategy: str, given: Sequence[str]) -> None:
    ours = _OF_STRATEGY.get(strategy)
    if ours is None:  # a strategy of the project, whose macro reads what it wants
        return
    for name in (*_MERGE, *_PREDICATES):
        if name in given and name not in ours:
            takers = ", ".join(one for one, obeyed in _OF_STRATEGY.items() if name in obeyed)
            raise CompilationError(f"the strategy {strategy} does not obey {name}; choose one of {takers}, or leave it out", node)
    key = node.config.get("unique_key")
    if strategy in ("merge", "delete+insert") and not key:
        raise CompilationError(f"the strategy {strategy} needs unique_key; name the columns, or choose append", node)
    if strategy in ("append", "insert_overwrite") and key:
        cure = "leave it out, or choose merge or delete+insert"
        raise CompilationError(f"the strategy {strategy} does not obey unique_key; {cure}", node)
    if strategy == "insert_overwrite" and not node.config.get("partition_by"):
        cure = "name the columns of the partitions, or build a table"
        raise CompilationError(f"the strategy insert_overwrite replaces partitions and needs partition_by; {cure}", node)


def _key(node: Any, options: Mapping[str, str]) -> tuple[str, ...]:
    """The primary key, by the config or by a constraint of a contract."""
    if "primary-key" in options:
        raise CompilationError("the option primary-key is the config primary_key; write that", node)
    keys = [named] if (named := _names(node.config.get("primary_key"))) else []
    contract = getattr(node.config, "contract", None)
    if contract is not None and contract.enforced:
        keys += [tuple(one.columns) for one in node.constraints if one.type == ConstraintType.primary_key]
        columns = (
            column for column in node.columns.values() if ConstraintType.primary_key in {c.type for c in column.constraints}
        )
        keys += [(column.name,) for column in columns]
    if len(keys) > 1:
        raise CompilationError(f"the primary key is given {len(keys)} times; give it once", node)
    return keys[0] if keys else ()


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bare(term: str) -> str:
    return term.replace("`", "").replace(" ", "").lower()
