"""Queries by `Lake.sql` in process: the same rows as DuckDB over plain copies, whatever lies in which files."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import lsmlake
from lsmlake import Lake
from lsmlake.dialect.macros import spark_connected
from lsmlake.errors import Corrupt, InvalidQuery, SnapshotNotFound, TableNotFound

SCHEMA = "id BIGINT NOT NULL, grp STRING, v INT, w DOUBLE, tags ARRAY<STRING>, st STRUCT<a: INT>"


def rows(ids, version: int = 0) -> pa.Table:
    ids = list(ids)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "grp": [f"g{i % 3}" for i in ids],
            "v": pa.array([None if i % 7 == 0 else i * 10 + version for i in ids], pa.int32()),
            "w": [i / 4 for i in ids],
            "tags": [[str(i)] * (i % 3) for i in ids],
            "st": pa.array([{"a": i} for i in ids], pa.struct([("a", pa.int32())])),
        }
    )


KINDS = {
    "vectors": {"bucket": 2, "deletion-vectors.enabled": True},
    "merging": {"bucket": 2, "deletion-vectors.enabled": False, "write-only": True},
    "partial": {"bucket": 1, "merge-engine": "partial-update"},
}


@pytest.fixture(scope="module", params=KINDS)
def made(request, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with the tables t (rows compacted, dead, at level 0 and, at last, of an older schema) and u, partitioned."""
    folder = tmp_path_factory.mktemp("made")
    lake = lsmlake.connect(folder)
    lake.create_database("d")
    t = lake.create_table("d.t", SCHEMA, primary_key=["id"], options=KINDS[request.param])
    t.upsert(rows(range(1000)), compact=request.param != "merging")
    t.upsert(rows(range(0, 1000, 3), 1), compact=request.param != "merging")
    t.delete_keys({"id": [5, 6, 7]}) if request.param != "partial" else None
    t.upsert(rows(range(900, 1100), 2), compact=False)
    u = lake.create_table(
        "d.u", "k BIGINT NOT NULL, p DATE NOT NULL, x DECIMAL(10,2)", primary_key=["k", "p"], partition_by=["p"]
    )
    u.upsert(
        {"k": [1, 2, 3, 4], "p": [dt.date(2026, 1, 1 + i % 2) for i in range(4)], "x": ["1.50", "2.25", None, "9.99"]}, cast=True
    )
    return folder


@pytest.fixture
def filled(planted, made) -> Lake:
    return planted(made)


QUERIES = [
    "SELECT * FROM d.t",
    "SELECT grp, count(*), sum(v), min(w), max(w) FROM d.t GROUP BY grp",
    "SELECT id, st.a FROM d.t WHERE v > 100 AND id BETWEEN 3 AND 950 AND grp = 'g1'",
    "SELECT count(*) FROM d.t WHERE v IS NULL OR w > 200",
    "SELECT t.id, u.x FROM d.t t JOIN d.u u ON t.id = u.k WHERE u.p = DATE '2026-01-02'",
    "SELECT t.id, u.x FROM d.t t LEFT JOIN d.u u ON t.id = u.k AND u.x > 2 WHERE t.id < 6",
    "SELECT t.id, u.x FROM d.t t RIGHT JOIN d.u u ON t.id = u.k AND t.v > 11",
    "SELECT count(*) FROM d.t FULL JOIN d.u ON t.id = u.k AND u.x IS NULL WHERE t.id IS NULL OR t.id > 990",
    "WITH q AS (SELECT grp, sum(v) s FROM d.t GROUP BY grp) SELECT a.grp, a.s, b.s FROM q a JOIN q b ON a.grp < b.grp",
    "SELECT id, row_number() OVER (PARTITION BY grp ORDER BY id DESC) r FROM d.t WHERE id > 1000",
    "SELECT id FROM d.t WHERE id IN (SELECT k FROM d.u WHERE x > 2) OR v = 40",
    "SELECT k, (SELECT max(v) FROM d.t WHERE t.id = u.k) m FROM d.u u",
    "SELECT grp FROM d.t WHERE id < 4 UNION ALL SELECT grp FROM d.t WHERE id > 1097",
    "SELECT DISTINCT grp FROM d.t EXCEPT SELECT 'g2'",
]


def plain(lake) -> duckdb.DuckDBPyConnection:
    """The tables as copies, read by the library's own scans."""
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA d")
    for name in ("t", "u"):
        connection.register("copied", lake.table(f"d.{name}").scan().to_arrow())
        connection.execute(f"CREATE TABLE d.{name} AS SELECT * FROM copied")
    return connection


def bag(found: list[tuple]) -> list[str]:
    return sorted(map(repr, found))


def test_queries_see_what_scans_see(filled):
    copies = plain(filled)
    for query in QUERIES:
        assert bag(filled.sql(query).fetchall()) == bag(copies.sql(query).fetchall()), query
    table = filled.table("d.t")
    table.alter(
        lsmlake.add_column("note", "STRING", default="old"),
        lsmlake.rename_column("w", "weight"),
        lsmlake.change_type("v", "BIGINT"),
    )
    table.upsert(
        rows([1, 2]).rename_columns(["id", "grp", "v", "weight", "tags", "st"]).append_column("note", [["new", "newer"]]),
        cast=True,
    )
    found = filled.sql("SELECT note, sum(v), max(weight) FROM d.t GROUP BY note").fetchall()
    assert bag(found) == bag(plain(filled).sql("SELECT note, sum(v), max(weight) FROM d.t GROUP BY note").fetchall())


def test_a_self_join_reads_one_snapshot_and_versions_are_read_as_they_were(filled):
    table = filled.table("d.t")
    table.create_tag("eod", snapshot=1)
    first = table.scan(snapshot=1).count()
    assert filled.sql("SELECT count(*) FROM d.t VERSION AS OF 1").fetchall() == [(first,)]
    assert filled.sql("SELECT count(*) FROM d.t@v1").fetchall() == [(first,)]
    assert filled.sql("SELECT count(*) FROM d.t VERSION AS OF 'eod' a JOIN d.t b ON a.id = b.id").fetchall()[0][0] > 0
    assert filled.sql("SELECT count(*) FROM d.t TIMESTAMP AS OF '2999-01-01'").fetchall() == [(table.scan().count(),)]
    assert filled.sql("SELECT max(snapshot_id) FROM d.t$snapshots").fetchall() == [(table.snapshots().num_rows,)]
    with pytest.raises(SnapshotNotFound):
        filled.sql("SELECT 1 FROM d.t VERSION AS OF 99")
    with pytest.raises(TableNotFound, match=r"did you mean d\.t"):
        filled.sql("SELECT 1 FROM d.tt")


def test_conditions_reach_the_plans(filled):
    lines = "\n".join(
        filled.sql("EXPLAIN SELECT x FROM d.u JOIN d.t ON k = id WHERE p = '2026-01-01' AND id = 4")
        .to_arrow()["plan"]
        .to_pylist()
    )
    assert "`p` = '2026-01-01'" in lines and "2 (snapshot) -> 1" in lines and "`id` = 4" in lines
    lines = "\n".join(
        filled.sql("EXPLAIN SELECT count(*) FROM d.u LEFT JOIN d.t ON k = id WHERE v IS NULL AND id = 3")
        .to_arrow()["plan"]
        .to_pylist()
    )
    assert lines.count("all rows") == 2
    assert len(filled.sql("SELECT k FROM d.u LIMIT ALL")) == 4
    assert "  limit     3" in filled.sql("EXPLAIN SELECT id FROM d.t LIMIT 3").to_arrow()["plan"].to_pylist()


def test_parameters_are_values(filled):
    nasty = "g1' OR '1'='1"
    assert filled.sql("SELECT count(*) FROM d.t WHERE grp = :g", {"g": nasty}).fetchall() == [(0,)]
    assert filled.sql("SELECT ? AS a, ? AS b", [nasty, dt.date(2026, 1, 2)]).fetchall() == [(nasty, dt.date(2026, 1, 2))]
    assert filled.sql("SELECT id FROM d.t WHERE id = ? AND w >= ? LIMIT ?", [8, 1.5, 5]).fetchall() == [(8,)]
    moment = dt.datetime(2026, 1, 2, 3, tzinfo=dt.timezone.utc)
    assert filled.sql("SELECT :a, :b, :c, :d", {"a": None, "b": True, "c": -5, "d": moment}).fetchall()[0][1:3] == (True, -5)
    for args in (None, {}, {"a": 1, "g": 2}, [1, 2], {"g": object()}):
        with pytest.raises(InvalidQuery, match=r"parameter|args"):
            filled.sql("SELECT :g", args)


def test_other_data_joins_tables(filled):
    batch = pl.DataFrame({"id": [1, 2, 5000], "n": ["a", "b", "c"]})
    assert filled.sql("SELECT n FROM d.t JOIN batch USING (id) ORDER BY n", tables={"batch": batch}).fetchall() == [
        ("a",),
        ("b",),
    ]
    result = filled.sql("SELECT * FROM batch ORDER BY id DESC LIMIT 1", tables={"batch": batch})
    assert result.to_pandas()["n"].tolist() == ["c"] and pl.DataFrame(result)["id"].to_list() == [5000] and len(result) == 1
    assert "5000  c" in repr(result) and "(1 row)" in repr(result) and "<td" in result._repr_html_()


def test_a_column_of_nulls_needs_no_type(filled):
    rows = pa.table({"id": pa.array([1, 5000]), "nothing": pa.nulls(2)})
    text = "SELECT s.id, coalesce(s.nothing, 'none'), t.id FROM s LEFT JOIN d.t AS t ON s.nothing = t.id ORDER BY 1"
    assert filled.sql(text, tables={"s": rows}).fetchall() == [(1, "none", None), (5000, "none", None)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT x FROM d.a PIVOT (sum(n) AS s FOR g IN ('p' AS x, 'q'))", [(10,), (30,), (None,)]),
        ("SELECT v FROM d.a UNPIVOT (v FOR name IN (id, n)) ORDER BY v", [(1,), (2,), (3,), (10,), (20,), (30,)]),
        ("SELECT DISTINCT (id) FROM d.a ORDER BY id", [(1,), (2,), (3,)]),
        ("SELECT id FROM (SELECT ((id)), (abs(n)) FROM d.a) WHERE id = 1 AND `abs(n)` = 10", [(1,)]),
        ("SELECT x.id FROM (d.a AS x) WHERE x.g = 'q'", [(2,)]),
        ("SELECT x.id FROM (d.a) x WHERE x.n > 10 ORDER BY 1", [(2,), (3,)]),
        ("SELECT j.n FROM (d.a JOIN d.b USING (id)) AS j", [(20,)]),
        (
            "SELECT a.id, b.id, c.n FROM d.a LEFT JOIN (d.b FULL JOIN d.a AS c ON b.id = c.id) ON a.id = c.id ORDER BY 1",
            [(1, None, 10), (2, 2, 20), (3, None, 30)],
        ),
        (
            "SELECT a.n, id FROM (d.a JOIN d.b USING (id)) RIGHT JOIN (VALUES (2), (9)) AS v(id) USING (id) ORDER BY 2",
            [(20, 2), (None, 9)],
        ),
        ("SELECT b.id FROM d.a LEFT SEMI JOIN (d.b JOIN d.a AS c ON b.id = c.id) ON a.id = c.id", "unknown column b.id"),
        ("SELECT x.id FROM (d.a AS x) AS y", "unknown column x.id"),
    ],
)
def test_parentheses_pivots_and_columns_that_nothing_else_names(lake, query: str, expected):
    lake.sql("CREATE TABLE d.a (id INT, n INT, g STRING, PRIMARY KEY (id))")
    lake.sql("INSERT INTO d.a VALUES (1, 10, 'p'), (2, 20, 'q'), (3, 30, 'p')")
    lake.sql("CREATE TABLE d.b (id INT, PRIMARY KEY (id))")
    lake.sql("INSERT INTO d.b VALUES (2), (4)")
    if isinstance(expected, str):
        with pytest.raises(InvalidQuery, match=expected):
            lake.sql(query)
        return
    found = lake.sql(query).fetchall()
    assert (found if "ORDER" in query else sorted(found, key=str)) == expected


def test_times_are_in_the_zone_of_the_lake(lake, tmp_path):
    """SQL, predicates, defaults, converted data and time travel, where clocks are set back at 2026-10-25 03:00."""
    with pytest.raises(InvalidQuery, match="unknown time zone"):
        lsmlake.connect(tmp_path, time_zone="Europe/Bonn")
    for zone, hours in (("Europe/Berlin", 2), ("+02:00", 2), ("UTC", 0)):
        berlin = lsmlake.connect(tmp_path / zone.replace("/", ""), time_zone=zone)
        berlin.create_database("d")
        berlin.sql("CREATE TABLE d.t (id INT, ts TIMESTAMP DEFAULT '2026-07-01 12:00:00', PRIMARY KEY (id))")
        berlin.sql("INSERT INTO d.t VALUES (1, TIMESTAMP '2026-10-25 02:30:00'), (2, DEFAULT), (3, current_timestamp())")
        berlin.sql("ALTER TABLE d.t ALTER COLUMN ts SET DEFAULT '2026-07-01 13:00:00'")
        table = berlin.table("d.t")
        table.upsert({"id": [4], "ts": ["2026-10-25 02:30:00"]}, cast=True)
        berlin.sql("INSERT INTO d.t (id) VALUES (5)")
        first = dt.datetime(2026, 10, 25, 2, 30, tzinfo=dt.timezone.utc) - dt.timedelta(hours=hours)
        noon = dt.datetime(2026, 7, 1, 12, tzinfo=dt.timezone.utc) - dt.timedelta(hours=hours)
        found = dict(berlin.sql("SELECT id, ts FROM d.t WHERE id <> 3").fetchall())
        assert found == {1: first, 2: noon, 4: first, 5: noon + dt.timedelta(hours=1)}, zone
        for where in ("ts = '2026-10-25 02:30:00'", "ts + INTERVAL 0 DAYS = TIMESTAMP '2026-10-25 02:30:00'"):
            assert berlin.sql(f"SELECT id FROM d.t WHERE {where} ORDER BY 1").fetchall() == [(1,), (4,)], where
        assert table.scan(where="ts = '2026-07-01 12:00:00'").to_arrow()["id"].to_pylist() == [2]
        assert berlin.sql("SELECT hour(ts), CAST(ts AS STRING), to_date(ts) FROM d.t WHERE id = 2").fetchall() == [
            (12, "2026-07-01 12:00:00", dt.date(2026, 7, 1))
        ]
        made = table.snapshots()["commit_time"][0].as_py() + dt.timedelta(hours=hours if zone != "Europe/Berlin" else 0)
        if zone != "Europe/Berlin":  # its offset is that of today
            moment = made.replace(tzinfo=None).isoformat(sep=" ")
            assert berlin.sql(f"SELECT count(*) FROM d.t TIMESTAMP AS OF '{moment}'").fetchall() == [(3,)]
        assert berlin.sql("UPDATE d.t SET ts = date_trunc('day', ts) WHERE hour(ts) = 12 AND id <> 3").fetchall()[0][:1] == (1,)
        assert berlin.sql("SELECT ts FROM d.t WHERE id = 2").fetchall() == [(noon - dt.timedelta(hours=12),)]


def test_a_missing_or_damaged_file_is_damage(lake, tmp_path):
    table = lake.create_table("d.t", SCHEMA, primary_key=["id"], options={"bucket": 1})
    table.upsert(rows(range(100)), compact=True)
    (name,) = table.files()["file_path"].to_pylist()
    path = tmp_path / "warehouse" / name
    content = path.read_bytes()
    for damage in (lambda: path.write_bytes(content[:-20]), path.unlink):
        damage()
        with pytest.raises(Corrupt, match="data file"):
            lake.sql("SELECT sum(v) FROM d.t")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT nope FROM d.t", "unknown column nope"),
        ("SELECT b.idd FROM d.t AS a JOIN d.t AS b ON a.id = b.id", r"expected one of a\.id, .*b\.id, .*did you mean b\.id"),
        ("SELECT FROM d.t", "character 13 of .*SELECT without columns"),
        ("SELECT * FROM t", "write d.t"),
        ("SELECT id FROM d.t a JOIN d.t b ON a.id = b.id", "several columns"),
        ("SELECT id\nFROM d.t\n  SORT BY id", "line 3, character 11 .* write ORDER BY"),
        ("SELECT sum(v) OVER w FROM d.t", "there is no window w"),
        ("SELECT grouping(grp) FROM d.t GROUP BY grp", "GROUPING SETS"),
        ("SELECT explode(tags), explode(tags) FROM d.t", "LATERAL VIEW"),
        ("SELECT explode(v) FROM d.t", "ARRAY or a MAP"),
        ("SELECT struct(id).id, struct(id).nope FROM d.t", "no field nope"),
        ("GRANT x TO y", "this statement is not supported"),
        ("SELECT id, count(*) FROM d.t", "GROUP BY"),
        ("SELECT * FROM d.t TABLESAMPLE (10 PERCENT)", "not supported"),
        ("SELECT id FROM d.t UNION SELECT st FROM d.t", "do not fit"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELEC 1", "not SQL"),
        ("SELECT 1 / 0 FROM d.t", "division by zero"),
    ],
)
def test_what_is_not_supported_is_refused(filled, query: str, words: str):
    with pytest.raises(InvalidQuery, match=words):
        filled.sql(query)


def test_files_of_older_schemas_are_read_by_duckdb_too(lake):
    """Renamed, widened, moved, dropped and added columns, with defaults of every kind."""
    columns, ids = "id INT NOT NULL, a INT, b FLOAT, s STRING, gone INT", range(1, 101)
    table = lake.create_table("d.t", columns, primary_key=["id"], options={"bucket": 1})
    first = {"id": [*ids], "a": [None, *ids[1:]], "b": [n / 2 for n in ids], "s": ["y"] * 100, "gone": [7] * 100}
    table.upsert(pa.table(first).cast(table.schema), compact=True)
    table.upsert(pa.table({name: values[4:6] for name, values in first.items()}).cast(table.schema), compact=True)
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.timezone.utc)
    defaults = {
        "n": ("BIGINT", 5), "t": ("STRING", "it's"), "m": ("TIMESTAMP", moment), "y": ("DATE", dt.date(2026, 1, 2)),
        "f": ("DOUBLE", float("inf")), "k": ("BOOLEAN", True), "x": ("BINARY", b"\x00a"), "c": ("DECIMAL(5,2)", "1.25"),
    }  # fmt: skip
    table.alter(
        lsmlake.drop_column("gone"),
        lsmlake.rename_column("s", "gone"),
        lsmlake.change_type("a", "DECIMAL(20,2)"),
        lsmlake.change_type("b", "DOUBLE"),
        lsmlake.move_column("b", first=True),
        *(lsmlake.add_column(name, kind, default=value) for name, (kind, value) in defaults.items()),
        lsmlake.add_column("none", "INT"),
    )
    lines = "\n".join(lake.sql("EXPLAIN SELECT * FROM d.t").to_arrow()["plan"].to_pylist())
    assert "  arrow " not in lines and "duckdb    2 files, 2 dead rows left out in 1 of them" in lines
    found = lake.sql("SELECT * FROM d.t").to_arrow()
    assert bag(found.to_pylist()) == bag(table.scan().to_arrow().to_pylist()) and found.schema.names == table.schema.names
    condition = "gone = 'y' AND a IS NULL AND none IS NULL AND t = 'it''s'"
    assert lake.sql(f"SELECT id FROM d.t WHERE {condition}").fetchall() == [(1,)]


def test_a_lake_keeps_what_statements_read_of_a_table_but_not_of_a_dropped_one(tmp_path):
    lake, other = lsmlake.connect(tmp_path), lsmlake.connect(tmp_path)
    lake.create_database("d")
    lake.create_table("d.t", "id BIGINT NOT NULL, v INT", primary_key=["id"]).upsert({"id": [1, 2], "v": [1, 2]})
    query = "SELECT sum(v) FROM d.t"
    assert lake.sql(query).fetchall() == [(3,)]
    first = lake.kept.of(lake.table("d.t").meta)
    other.table("d.t").upsert({"id": [2], "v": [5]})
    assert lake.sql(query).fetchall() == [(6,)]
    assert lake.kept.of(lake.table("d.t").meta) is first
    other.drop_table("d.t")
    with pytest.raises(TableNotFound):
        lake.sql(query)
    other.create_table("d.t", "id BIGINT NOT NULL, v STRING", primary_key=["id"]).upsert({"id": [1], "v": ["7"]})
    assert lake.sql("SELECT v FROM d.t").fetchall() == [("7",)]
    assert lake.kept.of(lake.table("d.t").meta) is not first
    assert pickle.loads(pickle.dumps(lake.kept)).of(first) is first


FORKS = """
import os, sys, tempfile
import lsmlake
lake = lsmlake.connect(tempfile.mkdtemp())
assert lake.sql("SELECT CAST('3' AS INT)").fetchall() == [(3,)]
child = os.fork()
assert lake.sql("SELECT CAST('4' AS INT)").fetchall() == [(4,)]
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_queries_and_ends():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_statement_finds_nothing_of_the_one_before(lake):
    lake.create_table("d.t", "id BIGINT NOT NULL, v BIGINT", primary_key=["id"])
    lake.sql("INSERT INTO d.t VALUES (1, 1)")
    for number in range(3):
        table = pa.table({"id": [number]})
        assert lake.sql("SELECT id FROM given", tables={"given": table}).fetchall() == [(number,)]
        lake.sql(
            "MERGE INTO d.t USING given ON t.id = given.id WHEN NOT MATCHED THEN INSERT (id) VALUES (given.id)",
            tables={"given": table},
        )
    with spark_connected("UTC") as connection:
        assert connection.sql("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
        assert connection.sql("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]
        assert connection.sql("SELECT current_setting('disabled_optimizers')").fetchall() == [("",)]


def test_explain_names_files_and_measures(lake):
    lake.sql("CREATE TABLE d.e (id INT, v INT, PRIMARY KEY (id))")
    lake.sql("INSERT INTO d.e VALUES (1, 1), (2, 2)")
    lines = lake.sql("EXPLAIN FORMATTED SELECT v FROM d.e WHERE id = 2").to_arrow()["plan"].to_pylist()
    assert sum(line.startswith("  file ") for line in lines) == 1
    assert any("2 rows" in line and "bytes in the files" in line for line in lines)
    lines = lake.sql("EXPLAIN ANALYZE SELECT v FROM d.e WHERE id = 2").to_arrow()["plan"].to_pylist()
    assert lines[-2] == "result: 1 rows" and "executed in" in lines[-1]
    for word, message in (("CODEGEN", "FORMATTED or ANALYZE"), ("", "takes a query")):
        with pytest.raises(InvalidQuery, match=message):
            lake.sql(f"EXPLAIN {word}" + (" SELECT 1" if word else ""))
