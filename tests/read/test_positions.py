"""Rows with their places are those of a scan, and the same rows are read again by their places."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from strategies import new_lake

import lsmlake
from lsmlake.api.table import Table
from lsmlake.predicate.where import predicate_of
from lsmlake.read.plan import plan
from lsmlake.read.positions import FILE, MERGED, PLACE, POSITION, PlacedRows, by_file, matched, rows_at

COLUMNS = ("v", "s")
KINDS = {"append": None, "vectors": {}, "merged": {"deletion-vectors.enabled": "false", "write-only": "true"}}


def filled(kind: str) -> Table:
    """Several files with deleted rows; under a key also rows at level 0."""
    options, key = KINDS[kind], [] if kind == "append" else ["id"]
    table = new_lake().create_table("d.t", "id BIGINT NOT NULL, v INT, s STRING", primary_key=key, options=options or {})
    for first in (0, 40, 80):
        rows = [{"id": n, "v": n % 7, "s": f"s{n}"} for n in range(first, first + 50 if key else first + 40)]
        table.upsert(rows) if key else table.append(rows)
    table.delete("id % 10 = 3")
    if key:
        table.upsert([{"id": n, "v": 3, "s": "new"} for n in (1, 45, 200)], compact=False)
    return table


def in_order(rows: pa.Table) -> list[dict[str, object]]:
    return rows.sort_by([(name, "ascending") for name in rows.column_names]).to_pylist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", [None, "v = 3", "id > 60 AND v < 5"])
def test_rows_with_places_are_those_of_a_scan(kind: str, where: str | None):
    table = filled(kind)
    version = table.version
    predicate = predicate_of(where, version.schema.typed_columns, "UTC", None)
    placed = PlacedRows(plan(version, predicate, COLUMNS))
    found = pa.concat_tables(placed.read())
    assert in_order(found.select(COLUMNS)) == in_order(table.scan(where=where, columns=list(COLUMNS)).to_arrow())
    assert len(found.group_by(list(PLACE)).aggregate([])) == len(found)
    files = 0
    for number, rows in by_file(found.sort_by([(FILE, "ascending"), (POSITION, "ascending")])):
        if number != MERGED:
            files += 1
            positions = rows[POSITION].to_numpy()
            assert placed.fetch(number, positions, COLUMNS).equals(rows.select(COLUMNS))
            assert placed.matched(number, positions).rows == len(rows)
    assert (files == 0) == (kind == "merged")


def test_the_matched_rows_of_an_append_only_table_are_those_of_a_scan():
    table = filled("append")
    version = table.version
    for where, rows in [(None, 108), ("v = 3", None), ("id < 0", 0)]:
        found = matched(plan(version, predicate_of(where, version.schema.typed_columns, "UTC", None)))
        tables = [rows for one in found for rows in rows_at(version, one, COLUMNS)]
        expected = table.scan(where=where, columns=list(COLUMNS)).to_arrow()
        assert in_order(pa.concat_tables([expected.slice(0, 0), *tables])) == in_order(expected)
        assert sum(one.rows for one in found) == len(expected)
        assert rows is None or len(expected) == rows


def test_only_readers_of_rows_know_how_dead_rows_are_masked():
    """Who needs rows with their places takes them from `read.positions`."""
    known = {"read/positions.py", "read/arrow_scan.py", "read/in_duckdb.py", "files/data_reader.py", "format/deletion_vector.py"}
    root = Path(lsmlake.__file__).parent
    found = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if re.search(r"\bdead_mask\(", path.read_text())}
    assert found == known
