"""The client that dlt's loader calls: it prepares the dataset, brings tables to dlt's schema, makes jobs and keeps records."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from dlt.common.destination.capabilities import DestinationCapabilitiesContext
from dlt.common.destination.client import FollowupJobRequest, JobClientBase, LoadJob, StateInfo, StorageSchemaInfo, WithStateSync
from dlt.common.destination.typing import PreparedTableSchema
from dlt.common.destination.utils import resolve_merge_strategy
from dlt.common.schema import Schema, TSchemaTables, TTableSchemaColumns
from dlt.common.schema.utils import get_nested_tables, get_root_table
from dlt.common.storages.load_package import LoadJobInfo, ParsedLoadJobFileName
from dlt.destinations.job_impl import FinalizedLoadJobWithFollowupJobs, ReferenceFollowupJobRequest
from dlt.destinations.sql_client import WithSqlClient
from dlt.destinations.utils import (
    verify_schema_merge_disposition,
    verify_schema_replace_disposition,
    verify_unsupported_merge_options,
)

from lsmlake.api.table import Table
from lsmlake.dlt.dlt_configuration import LsmlakeConfiguration
from lsmlake.dlt.dlt_errors import as_load_errors
from lsmlake.dlt.dlt_records import Records
from lsmlake.dlt.dlt_sql import SqlClient
from lsmlake.dlt.dlt_types import dlt_columns
from lsmlake.dlt.load_job import LoadChain
from lsmlake.dlt.table_design import Design, check_kind
from lsmlake.errors import TableNotFound
from lsmlake.schema.alterations.draft import Alteration
from lsmlake.warehouse import connect

_UNSUPPORTED = "source_filter", "destination_scope", "skip_unchanged_rows"


class LoadClient(WithSqlClient, JobClientBase, WithStateSync):
    """Loads into the dataset of a pipeline, a database of the warehouse."""

    def __init__(self, schema: Schema, config: LsmlakeConfiguration, capabilities: DestinationCapabilitiesContext) -> None:
        super().__init__(schema, config, capabilities)
        self.dataset_name = config.normalize_dataset_name(schema)
        with as_load_errors():
            self.lake = connect(config.warehouse, storage_options=config.storage_options)
            self._sql_client = SqlClient(self.lake, self.dataset_name, capabilities)
        self._with_jobs: frozenset[str] = frozenset()

    def __enter__(self) -> LoadClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Does nothing: there is no connection to close."""

    @property
    def records(self) -> Records:
        """The tables of the dataset, and what dlt records there."""
        return Records(self.lake, self.dataset_name, self.schema)

    @property
    def sql_client(self) -> SqlClient:
        """The client that datasets of dlt query."""
        return self._sql_client

    @property
    def sql_client_class(self) -> type[SqlClient]:
        """The class of `sql_client`."""
        return SqlClient

    # -- the dataset --

    def is_storage_initialized(self) -> bool:
        """Whether the dataset exists."""
        with as_load_errors():
            return self.dataset_name in self.lake.databases()

    def initialize_storage(self, truncate_tables: Iterable[str] | None = None) -> None:
        """Makes the dataset; truncates tables, except those that a job of this load replaces at once."""
        with as_load_errors():
            self.lake.create_database(self.dataset_name, if_not_exists=True)
            for name in truncate_tables or ():
                if not self._is_replaced(name):
                    with suppress(TableNotFound):
                        self.records.table(name).truncate()

    def _is_replaced(self, name: str) -> bool:
        """Whether a job of this load replaces the rows of a table."""
        if name not in self.schema.tables or self.prepare_load_table(name)["write_disposition"] != "replace":
            return False
        return get_root_table(self.schema.tables, name)["name"] in self._with_jobs

    def drop_storage(self) -> None:
        """Drops the dataset and its tables."""
        if self.is_storage_initialized():
            with as_load_errors():
                self.lake.drop_database(self.dataset_name, cascade=True)

    def drop_tables(self, *tables: str, delete_schema: bool = True) -> None:
        """Drops tables and, with `delete_schema`, the recorded versions of the schema."""
        with as_load_errors():
            for name in tables:
                with suppress(TableNotFound):
                    self.lake.drop_table(f"{self.dataset_name}.{name}")
            if delete_schema:
                with suppress(TableNotFound):
                    self.records.remove_schema()

    # -- the schema --

    def verify_schema(
        self, only_tables: Iterable[str] | None = None, new_jobs: Iterable[ParsedLoadJobFileName] | None = None
    ) -> list[PreparedTableSchema]:
        """Refuses, before anything is written, what the destination does not do."""
        jobs = list(new_jobs or ())
        self._with_jobs = frozenset(job.table_name for job in jobs)
        tables = super().verify_schema(only_tables, jobs)
        found = [
            *verify_schema_merge_disposition(self.schema, tables, self.capabilities),
            *verify_schema_replace_disposition(self.schema, tables, self.capabilities, self.config.replace_strategy),
            *verify_unsupported_merge_options(self.schema, tables, self.capabilities, "lsmlake", _UNSUPPORTED),
        ]
        if found:
            raise found[0]
        with as_load_errors():
            for table in tables:
                self._design(table)
        return tables

    def prepare_load_table(self, table_name: str) -> PreparedTableSchema:
        """The table with the hints that its parent gives it."""
        table = super().prepare_load_table(table_name)
        if table["write_disposition"] == "merge":
            table["x-merge-strategy"] = resolve_merge_strategy(self.schema.tables, table, self.capabilities)
        return table

    def _design(self, table: Mapping[str, Any]) -> Design:
        return Design.of(table, self.schema.tables, self.capabilities)

    def update_stored_schema(
        self, only_tables: Iterable[str] | None = None, expected_update: TSchemaTables | None = None, force: bool = False
    ) -> TSchemaTables | None:
        """Creates the tables that are missing, alters the others, and records the version of the schema if it is new. With
        a version that is recorded, tables get only their options and descriptions, which a later version can have changed."""
        super().update_stored_schema(only_tables, expected_update)
        recorded = self.get_stored_schema_by_hash(self.schema.stored_version_hash) is not None
        names = sorted(only_tables or self.schema.tables)
        applied: TSchemaTables = {}
        with as_load_errors():
            tables = {name: table for name in names if (table := self.prepare_load_table(name))["columns"]}
            designs = {name: self._design(table) for name, table in tables.items()}
            stored = {name: found for name in tables if (found := self._stored(name)) is not None}
            for name, found in stored.items():  # refuses a load before a table is written
                check_kind(found, tables[name], designs[name].key)
                designs[name].check_partitions(found)
            if recorded and not force:
                for name, found in stored.items():
                    _alter(found, designs[name].settings(found))
                return applied
            for name, table in tables.items():
                if added := self._bring(designs[name], stored.get(name)):
                    applied[name] = {**table, "columns": {column: table["columns"][column] for column in added}}
            if not recorded:
                self.records.add_schema(datetime.datetime.now(datetime.timezone.utc))
        return applied

    def _stored(self, name: str) -> Table | None:
        try:
            return self.records.table(name)
        except TableNotFound:
            return None

    def _bring(self, design: Design, stored: Table | None) -> Sequence[str]:
        """Makes or alters a table. Returns the names of the columns that are new."""
        if stored is None:
            self.lake.create_table(
                f"{self.dataset_name}.{design.name}",
                design.columns,
                primary_key=design.key,
                partition_by=design.partition_by,
                options=design.options,
                comment=design.comment,
                if_not_exists=True,
            )
            return design.columns.names
        have = {name.lower() for name in stored.schema.names}
        _alter(stored, design.alterations(stored))
        return [name for name in design.columns.names if name.lower() not in have]

    def get_storage_tables(self, table_names: Iterable[str]) -> Iterator[tuple[str, TTableSchemaColumns]]:
        """Yields the columns that tables have in the dataset; none for a table that does not exist."""
        for name in table_names:
            with as_load_errors():
                try:
                    yield name, dlt_columns(self.records.table(name).schema, self.capabilities)
                except TableNotFound:
                    yield name, {}

    def get_storage_table(self, table_name: str) -> tuple[bool, TTableSchemaColumns]:
        """Whether a table exists in the dataset, and its columns."""
        [(_, columns)] = self.get_storage_tables([table_name])
        return bool(columns), columns

    # -- jobs --

    def create_load_job(self, table: PreparedTableSchema, file_path: str, load_id: str, restore: bool = False) -> LoadJob:
        """A job that writes a table chain; for a file of data, one that waits for the others of its chain."""
        if ReferenceFollowupJobRequest.is_reference_job(file_path):
            return LoadChain(file_path)
        return FinalizedLoadJobWithFollowupJobs(file_path)

    def create_table_chain_completed_followup_jobs(
        self, table_chain: Sequence[PreparedTableSchema], completed_table_chain_jobs: Sequence[LoadJobInfo] | None = None
    ) -> list[FollowupJobRequest]:
        """The job that writes all files of a table chain."""
        names = {table["name"] for table in table_chain}
        jobs = [job for job in completed_table_chain_jobs or () if job.job_file_info.table_name in names]
        if not jobs:
            return []
        jobs.sort(key=lambda job: (job.job_file_info.table_name, job.job_file_info.file_id))  # the first names the new job
        return [ReferenceFollowupJobRequest(jobs[0].job_file_info.file_name(), [job.file_path for job in jobs])]

    def stored_chain(self, root: str) -> list[PreparedTableSchema]:
        """The prepared tables of a chain that exist in the dataset, the root first."""
        tables = get_nested_tables(self.schema.tables, root)
        names = [table["name"] for table in tables]
        existing = {name.lower() for name in self.lake.tables(self.dataset_name)}
        return [self.prepare_load_table(name) for name in names if name.lower() in existing]

    def complete_load(self, load_id: str) -> None:
        """Records that all tables hold the rows of a load, once."""
        with as_load_errors():
            self.records.add_load(load_id, datetime.datetime.now(datetime.timezone.utc))

    # -- records --

    def get_stored_schema(self, schema_name: str | None = None) -> StorageSchemaInfo | None:
        """The newest recorded version of a schema."""
        with as_load_errors():
            return self.records.newest_schema(schema_name)

    def get_stored_schema_by_hash(self, version_hash: str) -> StorageSchemaInfo | None:
        """The recorded version of a schema with this hash."""
        with as_load_errors():
            return self.records.schema_of_hash(version_hash)

    def get_stored_state(self, pipeline_name: str) -> StateInfo | None:
        """The state of a pipeline after its newest complete load."""
        with as_load_errors():
            return self.records.state(pipeline_name)


def _alter(table: Table, alterations: Iterable[Alteration]) -> None:
    if wanted := list(alterations):
        table.alter(*wanted)
