"""Recorded events of real databases: `sync` makes tables that are equal to those of the database, see `pipelines.recording`."""

from __future__ import annotations

import pytest
from pipelines.bank import KEYS
from pipelines.compare import of_table, other_types
from pipelines.recording import recorded
from strategies import new_lake

AGAIN, BATCH = 40, 150


@pytest.mark.parametrize("database", ["mariadb", "postgres"])
def test_the_events_of_a_database_make_its_tables(database: str):
    """A connector that was killed sends its last events again."""
    given, lake = recorded(database), new_lake()
    batches = (given.events[max(0, begin - AGAIN) : begin + BATCH] for begin in range(0, len(given.events), BATCH))
    how = {"format": "debezium-json", "database": "bank", "tables": given.changes, "primary_keys": KEYS}
    rejected = [one.reasons for batch in batches for one in lake.sync(batch, **how).tables if one.rejected]
    assert rejected == []
    assert [line for name, columns in given.columns.items() for line in of_table(lake, name, columns, given.rows[name])] == []
    assert list(other_types(lake, given.types)) == []
