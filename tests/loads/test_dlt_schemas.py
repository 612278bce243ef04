"""Schemas of dlt: as a load records them, and as the tables of a dataset say them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import dlt
import pyarrow as pa
import pytest
from dlt.common.json import json
from dlt.common.schema.utils import new_table
from dlt.pipeline.exceptions import PipelineStepFailed
from dlt_support import MERGE, commits, lake_of, pipeline, rows


def test_a_schema_is_recorded_in_the_form_of_dlt(tmp_path: Path):
    """With values of hints that the JSON of Python does not know."""
    data = dlt.resource([{"k": 1}], name="orders").apply_hints(additional_table_hints={"x-since": dt.date(2026, 1, 1)})
    made = pipeline(tmp_path)
    made.run(data)
    recorded = rows(tmp_path, "_dlt_version", "version_hash", "schema")
    assert (made.default_schema.version_hash, json.dumps(made.default_schema.to_dict())) in recorded


def test_columns_of_a_dataset_have_the_types_that_dlt_gave_them(tmp_path: Path):
    kinds = ["text", "double", "bool", "timestamp", "bigint", "binary", "decimal", "wei", "date", "time"]
    columns = {f"a_{kind}": {"data_type": kind} for kind in kinds}
    made = pipeline(tmp_path)
    made.run([{"k": 1}], columns={**columns, "a_json": {"data_type": "json"}}, **MERGE)
    with made.destination_client() as client:
        _, stored = client.get_storage_table("orders")
    assert {name: stored[name]["data_type"] for name in columns} == {
        name: column["data_type"] for name, column in columns.items()
    }
    assert stored["a_json"]["data_type"] == "text"


@pytest.mark.parametrize("written", [False, True])
def test_a_nested_table_without_row_ids_matters_once_it_has_rows(written: bool, tmp_path: Path):
    made = pipeline(tmp_path)
    made.run([{"k": 1, "v": 1}], **MERGE)
    schema = made.default_schema.clone()
    column = {"name": "n", "data_type": "bigint", "nullable": True}
    schema.update_table(new_table("orders__items", parent_table_name="orders", columns=[column]))
    items = lake_of(tmp_path).create_table("sales.orders__items", pa.schema([("n", pa.int64())]))
    if written:
        items.append([{"n": 1}])
        with pytest.raises(PipelineStepFailed, match="no root key"):
            made.run([{"k": 1, "v": 2}], schema=schema, **MERGE)
    else:
        made.run([{"k": 1, "v": 2}], schema=schema, **MERGE)
    assert rows(tmp_path, "orders", "k", "v") == [(1, 1 if written else 2)]
    assert len(commits(tmp_path, "orders__items")) == 0
