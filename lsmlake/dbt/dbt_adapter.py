"""The adapter: what dbt asks of a lake, by the verbs of a lake where SQL would need a statement for each column or row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, ClassVar

import agate
import pyarrow as pa
from dbt.adapters.base import available
from dbt.adapters.base.impl import AdapterConfig, ConstraintSupport
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.sql import SQLAdapter
from dbt_common.contracts.constraints import ColumnLevelConstraint, ConstraintType, ModelLevelConstraint
from dbt_common.exceptions import CompilationError

from lsmlake.api.alterations import add_column, drop_column, set_comment, set_option
from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.dbt.catalog_rows import catalog_rows
from lsmlake.dbt.dbt_column import LsmlakeColumn
from lsmlake.dbt.dbt_connections import LsmlakeConnectionManager
from lsmlake.dbt.dbt_relation import LsmlakeRelation, check_no_database
from lsmlake.dbt.model_config import STRATEGIES, LsmlakeConfig, TableLayout, check_config, merged_columns, texts_of
from lsmlake.dbt.seed_rows import arrow_of, check_seed
from lsmlake.errors import TableNotFound
from lsmlake.schema.alterations.of_table import SetTableComment
from lsmlake.tables.views import Views
from lsmlake.types.type_text import backticked

_SEED, _ROW = "dbt_seed_rows", "dbt_seed_row"


class LsmlakeAdapter(SQLAdapter):
    """dbt in the process of lsmlake: each thread has a lake of its own, opened at the warehouse of the profile."""

    Relation = LsmlakeRelation
    Column = LsmlakeColumn
    ConnectionManager = LsmlakeConnectionManager
    connections: LsmlakeConnectionManager
    AdapterSpecificConfigs: type[AdapterConfig] = LsmlakeConfig  # type: ignore[assignment]

    CONSTRAINT_SUPPORT: ClassVar = {
        ConstraintType.not_null: ConstraintSupport.ENFORCED,
        ConstraintType.primary_key: ConstraintSupport.ENFORCED,
        ConstraintType.check: ConstraintSupport.NOT_SUPPORTED,
        ConstraintType.unique: ConstraintSupport.NOT_SUPPORTED,
        ConstraintType.foreign_key: ConstraintSupport.NOT_SUPPORTED,
    }
    _capabilities = CapabilityDict({Capability.TableLastModifiedMetadata: CapabilitySupport(Support.Full)})

    @property
    def lake(self) -> Lake:
        """The lake of this thread."""
        return self.connections.get_thread_connection().handle.lake

    def _table(self, relation: BaseRelation) -> Table:
        return self.lake.table(f"{relation.schema}.{relation.identifier}")

    # -- what dbt asks of every adapter -------------------------------------------------------------------------------

    @classmethod
    def date_function(cls) -> str:
        return "current_timestamp()"

    @classmethod
    def is_cancelable(cls) -> bool:
        return False

    @classmethod
    def quote(cls, identifier: str) -> str:
        return backticked(str(identifier))

    @classmethod
    def convert_text_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        return "STRING"

    @classmethod
    def convert_number_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        return "DOUBLE" if agate_table.aggregate(agate.MaxPrecision(col_idx)) else "BIGINT"

    @classmethod
    def convert_integer_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        return "BIGINT"

    @classmethod
    def convert_datetime_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        return "TIMESTAMP"

    @classmethod
    def convert_time_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        return "STRING"

    def valid_incremental_strategies(self) -> list[str]:
        return list(STRATEGIES)

    # -- schemas, tables and views ------------------------------------------------------------------------------------

    def list_schemas(self, database: str | None) -> list[str]:
        """The databases of the lake. `database`: a lake has none above them."""
        check_no_database(database)
        with self.connections.exception_handler("list_schemas"):
            return self.lake.databases()

    def check_schema_exists(self, database: str | None, schema: str) -> bool:
        """Whether the lake has a database of this name."""
        return schema in self.list_schemas(database)

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """The tables and views of a schema; none if it does not exist."""
        schema = schema_relation.schema
        with self.connections.exception_handler("list_relations"):
            try:
                kinds = {
                    RelationType.Table: self.lake.tables(schema),
                    RelationType.View: Views(self.lake.env.storage).names(schema),
                }
            except TableNotFound:
                return []
        return [
            self.Relation.create(schema=schema, identifier=name, type=kind) for kind, names in kinds.items() for name in names
        ]

    @available.parse_none
    def get_relation(self, database: str | None, schema: str, identifier: str) -> BaseRelation | None:
        """The table or view of a name. `database`: a model of dbt lacks it."""
        check_no_database(database)
        return super().get_relation(None, schema, identifier)  # type: ignore[arg-type]

    def get_columns_in_relation(self, relation: BaseRelation) -> list[LsmlakeColumn]:
        """The columns of a table, a view or a temporary view; none if it does not exist."""
        with self.connections.exception_handler("get_columns_in_relation"):
            try:
                rows = self.lake.sql(f"DESCRIBE QUERY SELECT * FROM {relation.render()}").fetchall()
            except TableNotFound:
                return []
        return [self.Column(name, kind) for name, kind, _ in rows]

    def expand_column_types(self, goal: BaseRelation, current: BaseRelation) -> None:
        """Nothing: see `LsmlakeColumn.can_expand_to`."""

    # -- models -------------------------------------------------------------------------------------------------------

    @available.parse_none
    def check_config(self, node: Any, materialization: str, strategy: str | None = None) -> None:
        """See `model_config.check_config`."""
        check_config(node, materialization, strategy)

    @available.parse(lambda *_, **__: {"primary_key": (), "partition_by": (), "options": {}})
    def table_layout(self, node: Any) -> dict[str, object]:
        """The primary key, the partitions and the options that a model gives its table."""
        made = TableLayout.of(node)
        return {"primary_key": made.primary_key, "partition_by": made.partition_by, "options": made.options}

    @available.parse(lambda *_, **__: True)
    def can_be_replaced(self, relation: BaseRelation, node: Any, columns: str | Mapping[str, str]) -> bool:
        """Whether CREATE OR REPLACE TABLE can give a table the layout of a model.

        Args:
            relation: the table.
            node: the model.
            columns: the query of the model, or the SQL types of its columns.
        """
        with self.connections.exception_handler("can_be_replaced"):
            if isinstance(columns, str):
                columns = {name: kind for name, kind, _ in self.lake.sql(f"DESCRIBE QUERY {columns}").fetchall()}
            return TableLayout.of(node).is_that_of(self._table(relation), columns)

    @available.parse_none
    def keep_layout(self, relation: BaseRelation, node: Any) -> None:
        """Gives a table that stays the options of a model, in one commit; in none if it has them.

        Raises:
            CompilationError: the model names another primary key or other partitions than the table has.
        """
        with self.connections.exception_handler("keep_layout"):
            table = self._table(relation)
            changes = TableLayout.of(node).options_to_set(table, node)
            if changes:
                table.alter(*(set_option(name, value) for name, value in changes.items()))

    @available.parse(lambda *_, **__: ())
    def config_texts(self, node: Any, name: str) -> list[str]:
        """See `model_config.texts_of`."""
        return list(texts_of(node, name))

    @available.parse(lambda *_, **__: ())
    def merged_columns(self, node: Any, columns: str | Iterable[str]) -> list[str]:
        """See `model_config.merged_columns`.

        Args:
            node: the model.
            columns: the columns of its table, or a query that has them.
        """
        if isinstance(columns, str):
            with self.connections.exception_handler("merged_columns"):
                columns = [name for name, _, _ in self.lake.sql(f"DESCRIBE QUERY {columns}").fetchall()]
        return merged_columns(node, list(columns))

    @available.parse(lambda *_, **__: ())
    def primary_key(self, relation: BaseRelation) -> list[str]:
        """The primary key of a table; empty if it has none."""
        with self.connections.exception_handler("primary_key"):
            return list(self._table(relation).primary_key)

    @available.parse_none
    def set_comments(self, relation: BaseRelation, comment: str | None, columns: Mapping[str, str]) -> None:
        """Describes a table and its columns, in one commit; in none if the table has these comments.

        Args:
            relation: the table.
            comment: that of the table; None: it stays.
            columns: comments by column; other columns keep theirs.
        """
        with self.connections.exception_handler("persist_docs"):
            table = self._table(relation)
            changes = [] if comment is None else [SetTableComment(comment)]
            table.alter(*changes, *(set_comment([name], text or None) for name, text in columns.items()))

    @available.parse_none
    def alter_columns(self, relation: BaseRelation, added: Iterable[LsmlakeColumn], removed: Iterable[LsmlakeColumn]) -> None:
        """Adds columns to a table behind its own, and removes others, in one commit."""
        changes = [drop_column(one.name) for one in removed] + [add_column(one.name, one.data_type) for one in added]
        if changes:
            with self.connections.exception_handler("alter_columns"):
                self._table(relation).alter(*changes)

    @available.parse_none
    def load_seed(self, create: str, rows: agate.Table, types: Mapping[str, str], quotes: bool | None, node: Any) -> None:
        """Gives a table the rows of a CSV file, in one commit.

        Args:
            create: CREATE OR REPLACE TABLE, as far as AS.
            rows: the file, as dbt has read it.
            types: SQL types by column, in the order of the file.
            quotes: the config quote_columns.
            node: the seed.

        Raises:
            CompilationError: a value does not fit the type of its column, or a key is repeated.
        """
        names = {name: self.quote_seed_column(name, quotes) for name in types}
        given = arrow_of(rows)
        casts, tried = (
            ", ".join(f"{cast}({names[name]} AS {kind}) AS {names[name]}" for name, kind in types.items())
            for cast in ("CAST", "TRY_CAST")
        )
        numbered = given.append_column(_ROW, pa.array(range(given.num_rows), pa.int64()))
        with self.connections.exception_handler("load_seed"):
            query = f"SELECT {tried} FROM {_SEED} ORDER BY {_ROW}"
            made = self.lake.sql(query, tables={_SEED: numbered}).to_arrow().rename_columns(given.column_names)
            check_seed(given, made, types, TableLayout.of(node))
            self.lake.sql(f"{create} AS SELECT {casts} FROM {_SEED}", tables={_SEED: given})

    @classmethod
    def render_column_constraint(cls, constraint: ColumnLevelConstraint) -> str | None:
        """NOT NULL; a primary key is an option of the table (`TableLayout`). An expression is refused."""
        _check_plain(constraint)
        return "NOT NULL" if constraint.type == ConstraintType.not_null else None

    @classmethod
    def render_model_constraint(cls, constraint: ModelLevelConstraint) -> str | None:
        """Nothing: a primary key is an option of the table (`TableLayout`). Another constraint with columns is refused."""
        _check_plain(constraint)
        if constraint.type == ConstraintType.not_null:
            raise CompilationError("not_null is a constraint of a column; write it under the columns")
        return None

    # -- documents and freshness --------------------------------------------------------------------------------------

    def get_catalog(
        self, relation_configs: Iterable[Any], used_schemas: frozenset[tuple[str, str]]
    ) -> tuple[agate.Table, list[Exception]]:
        """The columns and the statistics of all tables and views of the schemas."""
        with self.connection_named("catalog"), self.connections.exception_handler("get_catalog"):
            return catalog_rows(self.lake, sorted({schema for _, schema in used_schemas})), []

    def calculate_freshness_from_metadata_batch(
        self, sources: list[BaseRelation], macro_resolver: Any = None
    ) -> tuple[list[Any], dict[BaseRelation, Any]]:
        """When the newest snapshot of each table was committed."""
        found: dict[BaseRelation, Any] = {}
        with self.connection_named("freshness"), self.connections.exception_handler("freshness"):
            for source in sources:
                snapshot = self._table(source).version.snapshot
                made = None if snapshot is None else datetime.fromtimestamp(snapshot.time_ms / 1000, timezone.utc)
                found[source] = self._create_freshness_response(made, datetime.now(timezone.utc))
        return [], found


def _check_plain(constraint: ColumnLevelConstraint | ModelLevelConstraint) -> None:
    """Refuses words of a constraint that mean nothing to a lake."""
    if constraint.name:
        raise CompilationError(
            f"the constraint {constraint.type.value} has the name {constraint.name}; a lake keeps none: leave it out"
        )
    if constraint.type == ConstraintType.custom or constraint.expression:
        expression = f" with the expression {constraint.expression}" if constraint.expression else ""
        raise CompilationError(
            f"the constraint {constraint.type.value}{expression} is not supported; write not_null or primary_key"
        )
