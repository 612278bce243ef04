"""What dlt records in a dataset: the versions of schemas, the states of pipelines, the loads that are complete. They are rows of
append-only tables that dlt's schema describes."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from dlt.common.destination.client import StateInfo, StorageSchemaInfo
from dlt.common.destination.exceptions import DestinationUndefinedEntity
from dlt.common.json import json
from dlt.common.schema import Schema
from dlt.common.schema.typing import C_DLT_LOAD_ID, C_DLT_LOADS_TABLE_LOAD_ID

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.errors import TableNotFound

COMPLETE = 0
"""The status of a load whose tables all hold its rows."""


def identity_of(load_id: str, part: str) -> Mapping[str, Any]:
    """What makes a commit of a load package unique in a table: the package, and the job or what else is written once. Load ids
    alone are times, which two pipelines can share."""
    return {"writer_id": f"dlt-{load_id}-{part}", "commit_id": 1}


@dataclass(frozen=True)
class Records:
    """The records of the pipelines of one schema in a dataset."""

    lake: Lake
    dataset: str
    schema: Schema

    def table(self, name: str) -> Table:
        """A table of the dataset. Raises TableNotFound."""
        return self.lake.table(f"{self.dataset}.{name}")

    def newest_schema(self, schema_name: str | None) -> StorageSchemaInfo | None:
        """The newest version of a schema; of all schemas without a name."""
        wanted = None if schema_name is None else pc.field(self._named("schema_name")) == schema_name
        return self._schema_where(wanted)

    def schema_of_hash(self, version_hash: str) -> StorageSchemaInfo | None:
        """The version of a schema with this hash."""
        return self._schema_where(pc.field(self._named("version_hash")) == version_hash)

    def _schema_where(self, wanted: pc.Expression | None) -> StorageSchemaInfo | None:
        try:
            rows = self.table(self.schema.version_table_name).scan(where=wanted).to_arrow()
        except TableNotFound:
            return None
        newest = _newest(rows, self._named("inserted_at"))
        return None if newest is None else StorageSchemaInfo.from_normalized_mapping(newest, self.schema.naming)

    def state(self, pipeline_name: str) -> StateInfo | None:
        """The state of a pipeline after its newest complete load. Raises DestinationUndefinedEntity without the tables."""
        load_id = self._named(C_DLT_LOADS_TABLE_LOAD_ID)
        try:
            states = self.table(self.schema.state_table_name).scan(where=pc.field(self._named("pipeline_name")) == pipeline_name)
            loads = self.table(self.schema.loads_table_name).scan(where=pc.field(self._named("status")) == COMPLETE)
            rows, complete = states.to_arrow(), loads.to_arrow()[load_id]
        except TableNotFound as missing:
            raise DestinationUndefinedEntity(missing) from missing
        by = self._named(C_DLT_LOAD_ID)
        newest = _newest(rows.filter(pc.is_in(rows[by], value_set=complete.combine_chunks())), by)
        return None if newest is None else StateInfo.from_normalized_mapping(newest, self.schema.naming)

    def add_schema(self, now: datetime.datetime) -> None:
        """Records the present version of the schema."""
        row = {
            "version": self.schema.version,
            "engine_version": self.schema.ENGINE_VERSION,
            "inserted_at": now,
            "schema_name": self.schema.name,
            "version_hash": self.schema.stored_version_hash,
            "schema": json.dumps(self.schema.to_dict()),
        }
        self._add(self.schema.version_table_name, row)

    def add_load(self, load_id: str, now: datetime.datetime) -> None:
        """Records that a load is complete, once."""
        row = {
            C_DLT_LOADS_TABLE_LOAD_ID: load_id,
            "schema_name": self.schema.name,
            "status": COMPLETE,
            "inserted_at": now,
            "schema_version_hash": self.schema.version_hash,
        }
        self._add(self.schema.loads_table_name, row, identity_of(load_id, self.schema.name))

    def remove_schema(self) -> None:
        """Removes all versions of the schema."""
        name = self.schema.name.replace("'", "''")
        self.table(self.schema.version_table_name).delete(where=f"`{self._named('schema_name')}` = '{name}'")

    def _add(self, name: str, row: Mapping[str, object], identity: Mapping[str, Any] | None = None) -> None:
        table = self.table(name)
        given = {self._named(key): value for key, value in row.items()}
        columns = [pa.array([given.get(field.name)], field.type) for field in table.schema]
        table.append(pa.table(columns, schema=table.schema), **(identity or {}))

    def _named(self, name: str) -> str:
        return str(self.schema.naming.normalize_identifier(name))


def _newest(rows: pa.Table, by: str) -> Mapping[str, object] | None:
    """The row with the greatest value of a column."""
    return (
        None
        if not rows.num_rows
        else rows.slice(
            int(pc.sort_indices(rows[by].combine_chunks(), sort_keys=[("", "descending")])[0].as_py()), 1
        ).to_pylist()[0]
    )
