"""Statements on a table whose primary key lacks the partition column: they move rows, in process and through Spark alike."""

from __future__ import annotations

import datetime as dt

import pytest

from lsmlake.errors import InvalidQuery

ONE, TWO, THREE = (dt.date(2026, 1, day) for day in (1, 2, 3))
CREATE = """CREATE TABLE d.{name} (id BIGINT NOT NULL, dt DATE, v INT, PRIMARY KEY (id)) PARTITIONED BY (dt)
    TBLPROPERTIES ('merge-engine' = '{engine}', 'changelog-producer' = 'lookup')"""
INSERT = "INSERT INTO d.{} VALUES (1, DATE '2026-01-01', 1), (2, DATE '2026-01-01', 2), (3, DATE '2026-01-02', 3)"
FIRST = {1: (ONE, 1), 2: (ONE, 2), 3: (TWO, 3)}
STATEMENTS: dict[str, tuple[str, dict]] = {
    "UPDATE d.t SET dt = DATE '2026-01-03' WHERE v < 3": ("moves", {1: (THREE, 1), 2: (THREE, 2)}),
    "UPDATE d.t SET dt = date_add(dt, 1), v = v + 1": ("moves", {1: (TWO, 2), 2: (TWO, 3), 3: (THREE, 4)}),
    "UPDATE d.t SET dt = NULL WHERE id = 3": ("moves", {3: (None, 3)}),
    "DELETE FROM d.t WHERE dt = DATE '2026-01-01' AND v = 1": ("deletes", {1: None}),
    "DELETE FROM d.t WHERE id = 3": ("deletes", {3: None}),
    "INSERT INTO d.t VALUES (1, DATE '2026-01-03', 10), (4, DATE '2026-01-03', 4)": ("inserts", {1: (THREE, 10), 4: (THREE, 4)}),
    """MERGE INTO d.t USING (SELECT explode(array(1, 3, 5)) AS id) s ON t.id = s.id
       WHEN MATCHED AND t.v = 3 THEN DELETE
       WHEN MATCHED THEN UPDATE SET dt = DATE '2026-01-03'
       WHEN NOT MATCHED THEN INSERT (id, dt, v) VALUES (s.id, DATE '2026-01-02', 5)""": (
        "merges",
        {1: (THREE, 1), 3: None, 5: (TWO, 5)},
    ),
    "INSERT OVERWRITE d.t PARTITION (dt = DATE '2026-01-02') SELECT 1 AS id, 10 AS v": ("overwrites", {1: (TWO, 10), 3: None}),
    "INSERT OVERWRITE d.t SELECT 3 AS id, DATE '2026-01-01' AS dt, 30 AS v": ("overwrites", {1: None, 2: None, 3: (ONE, 30)}),
    "INSERT INTO d.t REPLACE WHERE dt = '2026-01-01' SELECT 3 AS id, DATE '2026-01-01' AS dt, 30 AS v": (
        "overwrites",
        {1: None, 2: None, 3: (ONE, 30)},
    ),
    "TRUNCATE TABLE d.t PARTITION (dt = '2026-01-01')": ("overwrites", {1: None, 2: None}),
}


@pytest.fixture(params=["in process", pytest.param("Spark", marks=pytest.mark.spark)])
def sql(request, lake):
    return request.getfixturevalue("spark_lake").sql if request.param == "Spark" else lake.sql


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_moves_rows(lake, sql, statement):
    lake.sql(CREATE.format(name="t", engine="deduplicate"))
    lake.sql(INSERT.format("t"))
    sql(statement)
    table = lake.table("d.t")
    expected = {key: row for key, row in (FIRST | STATEMENTS[statement][1]).items() if row is not None}
    assert {row["id"]: (row["dt"], row["v"]) for row in table.scan().to_pylist()} == expected
    assert table.count() == len(expected)
    folded = dict(FIRST)
    for change in table.changes(1, 2).to_pylist():
        kind, key, row = change["_row_kind"], change["id"], (change["dt"], change["v"])
        assert kind in ("+I", "+U") or folded.pop(key) == row
        if kind in ("+I", "+U"):
            assert folded.setdefault(key, row) == row
    assert folded == expected
    assert table.verify() == []


def test_explain_names_what_moves(lake):
    lake.sql(CREATE.format(name="t", engine="partial-update"))
    lake.sql(INSERT.format("t"))
    with pytest.raises(InvalidQuery, match="cannot move a row to another partition"):
        lake.sql("EXPLAIN UPDATE d.t SET dt = DATE '2026-01-03'")
    with pytest.raises(InvalidQuery, match="cannot move a row to another partition"):
        lake.sql("MERGE INTO d.t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET dt = NULL")
    with pytest.raises(InvalidQuery, match=r"cannot overwrite partitions.*DELETE FROM"):
        lake.sql("INSERT OVERWRITE d.t SELECT 3 AS id, DATE '2026-01-01' AS dt, 30 AS v")
    lake.sql("UPDATE d.t SET v = 7 WHERE id = 3")
    lake.sql("INSERT INTO d.t VALUES (1, DATE '2026-01-03', 10)")
    found = {row["id"]: (row["dt"], row["v"]) for row in lake.table("d.t").scan().to_pylist()}
    assert found == FIRST | {1: (ONE, 10), 3: (TWO, 7)}


def test_a_replaced_table_may_have_keys_that_move(lake):
    lake.sql(CREATE.format(name="t", engine="deduplicate"))
    lake.sql(INSERT.format("t"))
    lake.sql(CREATE.format(name="u", engine="first-row"))
    lake.sql("INSERT INTO d.u SELECT * FROM d.t")
    lake.sql("INSERT INTO d.u SELECT id, DATE '2026-01-03', v + 1 FROM d.t")
    assert {row["id"]: (row["dt"], row["v"]) for row in lake.table("d.u").scan().to_pylist()} == FIRST
