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
from lsmlake.schema.partitioning import Term, split_terms
from lsmlake.types.type_text import format_type_of

_LAYOUT = ("primary_key", "partition_by", "merge_engine", "options")
_MERGE = ("merge_update_columns", "merge_exclude_columns")
_PREDICATES = ("predicates", "incremental_predicates")
_OBEYED: Mapping[str, Sequence[str]] = {
    "table": _LAYOUT,
    "incremental": (*_LAYOUT, *_MERGE, *_PREDICATES),
    "seed": _LAYOUT,
    "snapshot": ("partition_by", "options", "hard_deletes", "invalidate_hard_deletes"),
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
_DOCS = ("relation", "columns")
_WITHOUT_CONTRACT = {
    "seed": "and write column_types and primary_key",
    "snapshot": "and enforce it for the model that the snapshot reads",
}
"""Materialization -> the cure of a contract, which dbt does not enforce there."""
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
    merge_update_columns: str | list[str] | None = None
    merge_exclude_columns: str | list[str] | None = None
    predicates: str | list[str] | None = None
    incremental_predicates: str | list[str] | None = None


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
        given = config.get("options") or {}
        if not isinstance(given, Mapping):
            raise CompilationError(
                f"options are values by name, such as {{'bucket': 4}}, found {given!r}; correct the config", node
            )
        options = {name: _text(value) for name, value in given.items()}
        if (engine := config.get("merge_engine")) is not None:
            if "merge-engine" in options:
                raise CompilationError("merge_engine and the option merge-engine are one; give it once", node)
            options["merge-engine"] = _text(engine)
        partitions = [term for one in texts_of(node, "partition_by") for term in split_terms(one)]
        return TableLayout(_key(node, options), tuple(partitions), options)

    def is_that_of(self, table: Table, types: Mapping[str, str]) -> bool:
        """Whether CREATE OR REPLACE TABLE can give the table this layout: it keeps the key, the partitions, and their columns.
        `types`: the new columns."""
        stored = {one.name.lower(): format_type_of(one) for one in table.version.schema.columns}
        new = {name.lower(): kind for name, kind in types.items()}
        kept = [*table.primary_key, *(one.column for one in table.version.schema.partition_columns)]
        return (
            self.primary_key == tuple(table.primary_key)
            and _terms(self.partition_by, table) == _terms(table.partition_by, table)
            and all(new.get(name.lower()) == stored[name.lower()] for name in kept)
        )

    def options_to_set(self, table: Table, node: Any) -> dict[str, str]:
        """The options that differ from those of a table which stays.

        Raises:
            CompilationError: the model names another primary key or other partitions than the table has.
        """
        partitions = _terms(self.partition_by, table), _terms(table.partition_by, table)
        keys = [*map(_bare, self.primary_key)], [*map(_bare, table.primary_key)]
        for name, given, stored, (wanted, found) in (
            ("primary_key", self.primary_key, table.primary_key, keys),
            ("partition_by", self.partition_by, table.partition_by, partitions),
        ):
            if given and wanted != found:
                raise CompilationError(
                    f"{name} of the table is ({', '.join(stored)}), and this run keeps it; the config says ({', '.join(given)}): "
                    "run dbt with --full-refresh, which builds a model anew, drop the table of a snapshot, or correct the config",
                    node,
                )
        return {name: value for name, value in self.options.items() if table.options.get(name) != value}


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
    if unknown := [name for name in config.get("persist_docs") or {} if name not in _DOCS]:
        raise CompilationError(f"persist_docs does not know {', '.join(unknown)}; write {' or '.join(_DOCS)}", node)
    contract = config.get("contract")
    if materialization in _WITHOUT_CONTRACT and contract is not None and contract.enforced:
        cure = _WITHOUT_CONTRACT[materialization]
        raise CompilationError(f"a contract is not enforced for a {materialization} of lsmlake; leave it out, {cure}", node)
    TableLayout.of(node)
    if strategy is not None:
        _check_strategy(node, strategy, given)
    for one, other in (_MERGE, _PREDICATES):
        if one in given and other in given:
            raise CompilationError(f"{one} and {other} are both given; give one of them", node)
    for name in (one for one in (*_MERGE, *_PREDICATES) if one in given):
        if not texts_of(node, name) and name in _MERGE:
            raise CompilationError(f"{name} is empty; name the columns, or leave it out", node)


def merged_columns(node: Any, columns: Sequence[str]) -> list[str]:
    """Those of `columns` that a row of a known key changes: all, without merge_update_columns and merge_exclude_columns.

    Raises:
        CompilationError: one of these configs names another column.
    """
    known = {name.lower() for name in columns}
    named = {name: {*map(_bare, texts_of(node, name))} for name in _MERGE}
    for name, chosen in named.items():
        if unknown := sorted(chosen - known):
            found = ", ".join(columns)
            raise CompilationError(f"{name} names {', '.join(unknown)}; the columns are {found}: correct the config", node)
    updated, excluded = named["merge_update_columns"] or known, named["merge_exclude_columns"]
    return [name for name in columns if name.lower() in updated and name.lower() not in excluded]


def texts_of(node: Any, name: str) -> tuple[str, ...]:
    """A config that is a text or a list of texts, as a list. Raises CompilationError."""
    given = node.config.get(name)
    texts = () if given is None else (given,) if isinstance(given, str) else given
    if not isinstance(texts, (list, tuple)) or not all(isinstance(one, str) and one.strip() for one in texts):
        raise CompilationError(f"{name} is a text or a list of texts, found {given!r}; correct the config", node)
    return tuple(texts)


def _check_strategy(node: Any, strategy: str, given: Sequence[str]) -> None:
    if strategy in (wrong := {name.replace("+", "_"): name for name in STRATEGIES if "+" in name}):
        raise CompilationError(f"unknown incremental_strategy {strategy}; write {wrong[strategy]}", node)
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
    if strategy in ("append", "insert_overwrite", "microbatch") and key:
        cure = "leave it out, or choose merge or delete+insert"
        raise CompilationError(f"the strategy {strategy} does not obey unique_key; {cure}", node)
    if strategy == "insert_overwrite" and not node.config.get("partition_by"):
        cure = "name the columns of the partitions, or build a table"
        raise CompilationError(f"the strategy insert_overwrite replaces partitions and needs partition_by; {cure}", node)


def _key(node: Any, options: Mapping[str, str]) -> tuple[str, ...]:
    """The primary key, by the config or by a constraint of a contract."""
    if "primary-key" in options:
        raise CompilationError("the option primary-key is the config primary_key; write that", node)
    named = tuple(term for one in texts_of(node, "primary_key") for term in split_terms(one))
    keys = [named] if named else []
    contract = getattr(node.config, "contract", None)
    if contract is not None and contract.enforced:
        constraints = [one for one in node.constraints if one.type == ConstraintType.primary_key]
        if not all(one.columns for one in constraints):
            raise CompilationError("a constraint primary_key of the model names no columns; write its columns", node)
        keys += [tuple(one.columns) for one in constraints]
        columns = (
            column for column in node.columns.values() if ConstraintType.primary_key in {c.type for c in column.constraints}
        )
        keys += [(column.name,) for column in columns]
    if len(keys) > 1:
        raise CompilationError(f"the primary key is given {len(keys)} times; give it once", node)
    return keys[0] if keys else ()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _terms(terms: Sequence[str], table: Table) -> list[tuple[object, str]]:
    """The fields of partitions that terms mean, however they are written: `day(TS)` is `days(ts)`."""
    columns = [one.name for one in table.version.schema.columns]
    parsed = [Term.parse(one, columns, table.name) for one in terms]
    return [(one.transform, one.column.lower()) for one in parsed]


def _bare(name: str) -> str:
    """A name as it is compared: without quotes and in lower case."""
    plain = name.strip()
    return (plain[1:-1].replace("``", "`") if plain[:1] == plain[-1:] == "`" else plain).lower()
