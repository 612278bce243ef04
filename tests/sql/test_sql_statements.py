"""Statements by `Lake.sql` in process that make, describe and change tables, one commit each."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import duckdb
import pytest

import lsmlake
from lsmlake.api.table import Table
from lsmlake.errors import InvalidData, InvalidQuery, LakeError, TableExists, TableNotFound
from lsmlake.sql import call

ORDERS = """CREATE TABLE d.orders (id BIGINT NOT NULL, dt DATE NOT NULL, amount DECIMAL(10,2) COMMENT 'net', note STRING,
    PRIMARY KEY (id, dt)) PARTITIONED BY (dt) COMMENT 'all orders' TBLPROPERTIES ('bucket' = '2')"""
DAY, NEXT = dt.date(2026, 1, 1), dt.date(2026, 1, 2)


@pytest.fixture
def orders(lake):
    lake.sql(ORDERS)
    lake.sql("INSERT INTO d.orders VALUES (1, DATE '2026-01-01', 1.50, 'a'), (2, DATE '2026-01-02', 2.5, NULL)")
    return lake.table("d.orders")


def rows(lake, columns: str = "*", table: str = "d.orders") -> list[tuple]:
    return lake.sql(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()


def test_a_table_is_made_described_and_dropped(lake, orders):
    assert orders.primary_key == ("id", "dt") and orders.partition_by == ("dt",) and orders.options == {"bucket": "2"}
    assert orders.comment == "all orders"
    described = lake.sql("DESCRIBE TABLE EXTENDED d.orders").fetchall()
    assert ("amount", "DECIMAL(10,2)", "net") in described and ("Primary Key", "id, dt", "") in described
    assert lake.sql("SHOW DATABASES").fetchall() == [("d",)]
    assert lake.sql("SHOW TABLES IN d").fetchall() == [("d", "orders", False)]
    assert lake.sql("SHOW COLUMNS IN d.orders").fetchall()[0] == ("id",) and len(lake.sql("SHOW PARTITIONS d.orders")) == 2
    assert lake.sql("SHOW TBLPROPERTIES d.orders").fetchall() == [("bucket", "2")]
    assert lake.sql("SHOW TABLES LIKE 'ORD*|x'").fetchall() == [("d", "orders", False)]
    assert len(lake.sql("SHOW DATABASES LIKE 'e'")) == 0
    assert lake.sql("DESCRIBE DATABASE d").fetchall()[0] == ("Namespace Name", "d")
    (statement,) = lake.sql("SHOW CREATE TABLE d.orders").fetchall()[0]
    with pytest.raises(TableExists):
        lake.sql(ORDERS)
    lake.sql(ORDERS.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
    lake.sql("ALTER TABLE d.orders RENAME TO d.old")
    lake.sql(statement)
    made, old = lake.table("d.orders").version.schema, lake.table("d.old").version.schema
    assert (made.plain_columns, made.primary_key, made.partition_by, made.options, made.comment) == (
        old.plain_columns, old.primary_key, old.partition_by, old.options, old.comment,
    )  # fmt: skip
    lake.sql("DROP TABLE d.old")
    lake.sql("DROP TABLE IF EXISTS d.old")
    with pytest.raises(TableNotFound):
        lake.sql("DROP TABLE d.old")
    lake.sql("CREATE DATABASE IF NOT EXISTS e")
    lake.sql("DROP DATABASE e")
    assert lake.databases() == ["d"]


def test_a_table_is_made_from_a_query(lake, orders):
    key = "USING lsmlake TBLPROPERTIES ('primary-key' = 'dt')"
    lake.sql(f"CREATE TABLE d.sums {key} AS SELECT dt, sum(amount) s FROM d.orders GROUP BY dt")
    assert rows(lake, table="d.sums") == [(DAY, Decimal("1.50")), (NEXT, Decimal("2.50"))]
    assert len(lake.table("d.sums").snapshots()) == 1
    with pytest.raises(InvalidQuery):
        lake.sql("CREATE TABLE d.bad TBLPROPERTIES ('primary-key' = 'x') AS SELECT 1 / 0 AS x")
    assert lake.tables("d") == ["orders", "sums"]


def test_a_table_is_altered(lake, orders):
    lake.sql("ALTER TABLE d.orders ADD COLUMNS (city STRING COMMENT 'where' AFTER dt, n INT)")
    lake.sql("ALTER TABLE d.orders ADD COLUMN k INT DEFAULT 5")
    lake.sql("ALTER TABLE d.orders RENAME COLUMN note TO remark")
    lake.sql("ALTER TABLE d.orders ALTER COLUMN n TYPE BIGINT")
    lake.sql("ALTER TABLE d.orders ALTER COLUMN n COMMENT 'count'")
    lake.sql("ALTER TABLE d.orders ALTER COLUMN k AFTER id")
    lake.sql("ALTER TABLE d.orders ALTER COLUMN n SET DEFAULT 7")
    lake.sql("ALTER TABLE d.orders SET TBLPROPERTIES ('write-only' = 'true', 'snapshot.num-retained.max' = 50)")
    lake.sql("ALTER TABLE d.orders UNSET TBLPROPERTIES ('write-only')")
    lake.sql("ALTER TABLE d.orders DROP COLUMN city")
    assert orders.schema.names == ["id", "k", "dt", "amount", "remark", "n"]
    assert orders.options == {"bucket": "2", "snapshot.num-retained.max": "50"}
    lake.sql("INSERT INTO d.orders (id, dt) VALUES (3, DATE '2026-01-02')")
    assert rows(lake, "id, k, n, remark") == [(1, 5, None, "a"), (2, 5, None, None), (3, 5, 7, None)]


def test_rows_are_inserted_by_position_list_and_name(lake, orders):
    assert lake.sql("INSERT INTO d.orders (note, dt, id) SELECT upper(note), dt, id + 10 FROM d.orders").fetchall() == [(2, 2)]
    lake.sql("INSERT INTO d.orders BY NAME SELECT 1 AS id, DATE '2026-01-01' AS dt, 'new' AS note")
    lake.sql("INSERT INTO d.orders SELECT ?, ?, ?, ?", [7, NEXT, Decimal("1.1"), "it's"])
    assert rows(lake) == [
        (1, DAY, None, "new"), (2, NEXT, Decimal("2.50"), None), (7, NEXT, Decimal("1.10"), "it's"),
        (11, DAY, None, "A"), (12, NEXT, None, None),
    ]  # fmt: skip
    assert len(orders.snapshots()) == 4


def test_defaults_stand_for_values_that_are_not_given(lake, orders):
    columns = """a INT DEFAULT 5 + 1, b STRING DEFAULT 'it''s' NOT NULL COMMENT 'c', c DECIMAL(5,2) DEFAULT 1.5, n INT,
        e DATE DEFAULT DATE '2026-01-01', t TIMESTAMP DEFAULT '2026-01-01 12:00:00'"""
    lake.sql(f"CREATE TABLE d.x (id INT, {columns}, PRIMARY KEY (id))")
    (statement,) = lake.sql("SHOW CREATE TABLE d.x").fetchall()[0]
    lake.sql("INSERT INTO d.x (id) VALUES (1)")
    lake.sql("INSERT INTO d.x VALUES (2, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT), (3, 0, 'z', 2, 4, NULL, NULL)")
    lake.sql("WITH q AS (SELECT 4 AS id) INSERT INTO d.x BY NAME SELECT * FROM q")
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
    usual = (6, "it's", Decimal("1.50"), None, DAY, noon)
    assert rows(lake, table="d.x") == [(1, *usual), (2, *usual), (3, 0, "z", 2, 4, None, None), (4, *usual)]
    lake.sql("UPDATE d.x SET b = DEFAULT, n = DEFAULT WHERE id = 3")
    lake.sql("""MERGE INTO d.x t USING (VALUES (3), (9)) s(id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = DEFAULT
        WHEN NOT MATCHED THEN INSERT (id, b, a) VALUES (s.id, 'm', DEFAULT)""")
    assert rows(lake, "id, a, b, n", "d.x")[2:] == [(3, 6, "it's", None), (4, 6, "it's", None), (9, 6, "m", None)]
    assert ("a", "INT", "6") in lake.sql("DESCRIBE EXTENDED d.x").fetchall()
    lake.sql("DROP TABLE d.x")
    lake.sql(statement)
    lake.sql("ALTER TABLE d.x ALTER COLUMN a SET DEFAULT 7 * 6")
    lake.sql("ALTER TABLE d.x ALTER COLUMN e DROP DEFAULT")
    assert "DECIMAL(5,2) DEFAULT 1.50" in lake.sql("SHOW CREATE TABLE d.x").fetchall()[0][0]
    lake.sql("INSERT INTO d.x (id) VALUES (1)")
    assert rows(lake, table="d.x") == [(1, 42, *usual[1:4], None, noon)]
    assert lake.sql("DESCRIBE d.x").fetchall()[2] == ("b", "STRING NOT NULL", "c")


def test_partitions_are_replaced(lake, orders):
    lake.sql("INSERT OVERWRITE d.orders SELECT 5, DATE '2026-01-02', 5, 'dynamic'")
    assert rows(lake, "id, note") == [(1, "a"), (5, "dynamic")]
    lake.sql("INSERT OVERWRITE d.orders PARTITION (dt) SELECT 5, DATE '2026-01-02', 5, 'named'")
    assert rows(lake, "id, note") == [(1, "a"), (5, "named")]
    lake.sql("INSERT OVERWRITE d.orders PARTITION (dt = DATE '2026-01-01') SELECT 6, 6, 'static'")
    assert rows(lake, "id, note") == [(5, "named"), (6, "static")]
    lake.sql("INSERT INTO d.orders REPLACE WHERE dt = DATE '2026-01-02' SELECT 8, DATE '2026-01-02', 8, 'where'")
    assert rows(lake, "id, note") == [(6, "static"), (8, "where")]
    with pytest.raises(InvalidData):
        lake.sql("INSERT INTO d.orders REPLACE WHERE dt = DATE '2026-01-02' SELECT 8, DATE '2026-01-03', 8, 'elsewhere'")
    lake.sql("TRUNCATE TABLE d.orders PARTITION (dt = DATE '2026-01-01')")
    assert rows(lake, "id") == [(8,)]
    lake.sql("TRUNCATE TABLE d.orders")
    assert rows(lake) == []


def test_procedures_are_the_verbs_of_tables(lake, orders):
    lake.sql("INSERT INTO d.orders VALUES (1, DATE '2026-01-01', 3, 'b')")
    lake.sql("CALL create_tag(table => 'd.orders', name => 'eod', snapshot => 1)")
    assert rows(lake, "id, note", "d.orders VERSION AS OF 'eod'") == [(1, "a"), (2, None)]
    assert len(lake.sql("CALL sys.compact('d.orders', full => true)")) == 1
    assert lake.sql("CALL verify(table => 'd.orders')").fetchall() == []
    lake.sql("CALL create_branch('d.orders', name => 'b1', tag => 'eod')")
    assert rows(lake, "id, note", "d.orders$branch_b1") == [(1, "a"), (2, None)]
    assert lake.sql("CALL rollback(table => 'd.orders', tag => 'eod')").columns
    assert rows(lake, "id, note") == [(1, "a"), (2, None)]
    lake.sql("CALL expire_snapshots(table => 'd.orders', retain_max => 1, retain_min => 1)")
    assert lake.sql("SELECT count(*) FROM d.orders$tags").fetchall() == [(1,)]


VERBS = {
    # procedure: arguments after the table by place, the same by name, and the columns that a result has
    "analyze": ("array('id')", "columns => array('id')", {"id"}),
    "compact": ("true", "full => true", {"snapshot_id"}),
    "copy": ("'memory://by-place'", "url => 'memory://by-name'", {"files", "reused"}),
    "create_branch": ("'b1', 'eod'", "name => 'b1', tag => 'eod'", {"name"}),
    "create_tag": ("'t1', 1", "name => 't1', snapshot => 1", {"name"}),
    "delete_branch": ("'b0', true", "name => 'b0', dry_run => true", set()),
    "delete_tag": ("'eod', true", "name => 'eod', dry_run => true", set()),
    "expire_partitions": ("true", "dry_run => true", set()),
    "expire_snapshots": ("1, 1, NULL, 5", "retain_max => 1, retain_min => 1, limit => 5", set()),
    "expire_tags": ("'2026-01-01', true", "older_than => '2026-01-01', dry_run => true", set()),
    "fast_forward": ("'b0'", "name => 'b0'", set()),
    "publish_iceberg": ("", "catalog => NULL", {"metadata_file"}),
    "remove_orphan_files": ("'2026-01-01', true", "older_than => '2026-01-01', dry_run => true", set()),
    "rename_branch": ("'b0', 'b2'", "name => 'b0', new_name => 'b2'", set()),
    "rename_tag": ("'eod', 't2'", "name => 'eod', new_name => 't2'", {"name"}),
    "repair": ("", "", {"key", "reason"}),
    "repair_iceberg": ("", "", set()),
    "repair_snapshots": ("", "", set()),
    "rescale": ("2", "buckets => 2", {"snapshot_id"}),
    "reset_consumer": ("'c', 1", "name => 'c', next_snapshot => 1", set()),
    "rollback": ("1", "snapshot => 1", {"id"}),
    "verify": ("", "", set()),
}


def test_every_verb_that_looks_after_a_table_is_a_procedure(lake, orders):
    """By place and by name, each on a table of its own, with the same result."""
    assert {*VERBS} == {name for name, verb in call.VERBS.items() if verb.owner is Table}
    expiring = "CREATE TABLE d.p (id INT NOT NULL, dt DATE NOT NULL, PRIMARY KEY (id, dt)) PARTITIONED BY (dt)"
    expiring += " TBLPROPERTIES ('partition.expiration-time' = '9000 d')"
    for verb, (places, names, columns) in VERBS.items():
        found = []
        for given in (places, names):
            lake.sql(expiring)
            lake.sql("INSERT INTO d.p VALUES (1, DATE '2026-01-01')")
            lake.sql("CALL create_tag('d.p', 'eod')")
            lake.sql("CALL create_branch('d.p', 'b0')")
            separator = ", " if given else ""
            table = "'d.p'" if given == places else "table => 'd.p'"
            result = lake.sql(f"CALL {verb}({table}{separator}{given})")
            assert columns <= {*result.columns} and "meta" not in result.columns, (verb, result.columns)
            found.append((result.columns, len(result)))
            lake.sql("DROP TABLE d.p")
        assert found[0] == found[1], verb


REFUSED = {
    "INSERT INTO d.orders PARTITION (note = 'x') SELECT 6, DATE '2026-01-01', 6": r"no column .*, expected one of \['dt'\]",
    "INSERT INTO d.orders PARTITION (dt = DATE '2026-01-01', DT = DATE '2026-01-02') SELECT 6, 6, 'x'": "dt is named twice",
    "INSERT OVERWRITE d.orders PARTITION (id = 6) SELECT DATE '2026-01-01', 6, 'x'": "id is no column of partitions",
    "INSERT OVERWRITE d.orders PARTITION (note) SELECT 6, DATE '2026-01-01', 6, 'x'": "note is no column of partitions",
    "INSERT OVERWRITE d.orders PARTITION (dt, dt) SELECT 6, DATE '2026-01-01', 6, 'x'": "dt is named twice",
    "INSERT OVERWRITE d.orders PARTITION (dt > 1) SELECT 6, DATE '2026-01-01', 6, 'x'": "PARTITION takes column = value",
    "TRUNCATE TABLE d.orders PARTITION (note = 'x')": "note is no column of partitions",
    "TRUNCATE TABLE d.orders PARTITION (dt)": "PARTITION takes column = value",
    "INSERT INTO d.orders VALUES (1, DATE '2026-01-01', 1.555, 'x')": "without loss",
    "INSERT INTO d.orders VALUES (1, DATE '2026-01-01', 'abc', 'x')": "does not fit column amount",
    "INSERT INTO d.orders VALUES ('1', DATE '2026-01-01', 1, 'x')": "does not fit column id",
    "INSERT INTO d.orders VALUES (1, DATE '2026-01-01')": "number of values",
    "INSERT INTO d.orders (id, nope) VALUES (1, 2)": "no column nope",
    "INSERT INTO d.orders (id, id) VALUES (1, 2)": "named twice",
    "INSERT INTO d.orders VALUES (NULL, DATE '2026-01-01', 1, 'x')": "NOT NULL",
    "INSERT INTO d.orders SELECT * FROM d.orders WHERE 1 / 0 = 1": "division by zero",
    "INSERT INTO nowhere VALUES (1)": "there is no table nowhere",
    "CREATE VIEW d.orders AS SELECT 1": "a table has the name .d.orders.",
    "CREATE TABLE d.x (a INT) USING csv": "only tables of lsmlake",
    "CREATE TABLE d.x (a INT DEFAULT 5, PRIMARY KEY (a))": "key or partition column",
    "CREATE TABLE d.x (a TINYINT DEFAULT 300)": "character 37 .* does not fit column a, expected TINYINT",
    "CREATE TABLE d.x (a INT, b INT DEFAULT a)": "unknown column a",
    "CREATE TABLE d.x (a DATE DEFAULT current_date())": "write the time as a literal",
    "CREATE TABLE d.x (a ARRAY<INT> DEFAULT array(1))": "without fields or elements",
    "WITH q AS (SELECT 9 AS id) INSERT INTO d.orders (id) WITH q AS (SELECT 8 AS id) TABLE q": "all queries into one WITH",
    "WITH q AS (SELECT 9 AS id) INSERT INTO d.orders (id) (WITH r AS (SELECT 8 AS id) SELECT id FROM r)": "into one WITH",
    "INSERT OVERWRITE d.orders REPLACE WHERE dt = DATE '2026-01-01' TABLE d.orders": "OVERWRITE and REPLACE WHERE exclude",
    "SELECT id FROM d.orders VERSION AS OF 1.0": "a version is a number, .* write VERSION AS OF 12",
    "INSERT INTO d.orders () VALUES ()": "a row of VALUES has no values",
    "CREATE TABLE d.x AS d.orders": "AS needs a query",
    "MERGE INTO d.orders t USING d.orders s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, dt) VALUES (1)": "number of values",
    "CREATE OR REPLACE TABLE d.orders (a INT)": "keeps its primary key, expected PRIMARY KEY .id, dt",
    "CALL nope('d.orders')": "no procedure nope",
    "CALL compact()": "table is missing",
    "CALL compact('d.orders', true, NULL, NULL, 1)": "too many arguments of compact",
    "CALL rollback('d.orders', 1.5)": "not a value of a procedure, expected an integer, .*, found 1.5",
    "CALL compact('d.orders', true, full => true)": "given twice: full",
    "CALL compact('d.orders', fully => true)": "no argument fully",
    "CALL compact(full => true, full => false, table => 'd.orders')": "full is given twice",
    "CALL compact(full => true, 'd.orders')": "stands behind one by name",
    "CALL analyze('d.orders', array('id' 'dt'))": "expected .*found dt",
    "SHOW GRANTS": "this SHOW is not supported",
    "DESCRIBE d.orders nope": "no column 'nope'",
    "DESCRIBE d.orders id nope": "character 22 .* not supported here",
    "EXPLAIN DROP TABLE d.orders": "EXPLAIN takes a query",
    "USE nowhere": "no database 'nowhere'",
    "ANALYZE TABLE d.orders COMPUTE STATISTICS": "write CALL analyze",
    "ALTER TABLE d.orders DROP COLUMN id": "key",
    "": "the text is empty",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_a_refused_statement_changes_nothing(lake, orders, statement: str):
    before = rows(lake), len(orders.snapshots()), lake.tables(), orders.schema
    with pytest.raises(LakeError, match=REFUSED[statement]):
        lake.sql(statement)
    assert (rows(lake), len(orders.snapshots()), lake.tables(), orders.schema) == before


LOST, UNFIT = "without loss", "does not fit column"
INSIDE = {  # type -> value -> what is stored, or what the refusal says
    "ARRAY<INT>": {
        "array(2.0, 3L, NULL)": [2, 3, None], "array()": [], "NULL": None, "array(1, 2.5)": LOST, "array(1, 3000000000)": "range",
        "array('1')": UNFIT, "array(true)": UNFIT,
    },
    "ARRAY<BOOLEAN>": {"array(1)": UNFIT},
    "ARRAY<DATE>": {
        "array(TIMESTAMP '2026-01-01 00:00:00')": [DAY], "array(TIMESTAMP '2026-01-01 10:00:00')": LOST,
        "array('2026-01-01')": UNFIT,
    },
    "ARRAY<STRING>": {"array(1.50, 2)": ["1.50", "2.00"]},
    "ARRAY<ARRAY<INT>>": {"array(array(1.0), NULL, array(2L))": [[1], None, [2]], "array(array(1.5))": LOST},
    "STRUCT<a: ARRAY<INT>>": {"named_struct('a', array(1.0))": {"a": [1]}, "named_struct('a', array(1.5))": LOST},
    "ARRAY<STRUCT<a: INT, b: ARRAY<STRUCT<z: INT>>>>": {
        "array(named_struct('a', 1.0, 'b', array(named_struct('z', 2L))))": [{"a": 1, "b": [{"z": 2}]}],
        "array(named_struct('a', 1.0, 'b', array(named_struct('z', 2.5))))": LOST,
    },
    "MAP<STRING, DOUBLE>": {"map('a', 1)": [("a", 1.0)]},
    "MAP<STRING, ARRAY<INT>>": {"map('a', array(1.5))": UNFIT},
}  # fmt: skip
FORMS = (
    "INSERT INTO d.x VALUES (1, {value})",
    "UPDATE d.x SET v = {value}",
    "MERGE INTO d.x USING (SELECT 1 AS k) s ON id = k WHEN MATCHED THEN UPDATE SET v = {value}",
    "CREATE OR REPLACE TABLE d.x (id INT, v {kind}, PRIMARY KEY (id)) AS SELECT 1, {value}",
)


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in INSIDE.items() for value in values])
def test_an_assignment_loses_nothing_inside_of_arrays_structs_and_maps(lake, kind: str, value: str):
    expected = INSIDE[kind][value]
    lake.sql(f"CREATE TABLE d.x (id INT, v {kind}, PRIMARY KEY (id))")
    for form in FORMS:
        lake.sql("INSERT INTO d.x VALUES (1, NULL)")
        before = len(lake.table("d.x").snapshots())
        if isinstance(expected, str):
            with pytest.raises(InvalidQuery, match=expected):
                lake.sql(form.format(value=value, kind=kind))
            assert len(lake.table("d.x").snapshots()) == before
        else:
            lake.sql(form.format(value=value, kind=kind))
            assert lake.table("d.x").to_arrow()["v"].to_pylist() == [expected]


def test_a_cast_of_arrays_in_arrays_is_that_of_their_elements(lake):
    """Spark cuts a fraction off, and writes null in small letters; a cast of the whole by DuckDB does neither."""
    found = lake.sql("SELECT CAST(array(array(1.5)) AS ARRAY<ARRAY<INT>>), CAST(array(array(1, NULL)) AS ARRAY<STRING>)")
    assert found.fetchall() == [([[1]], ["[1, null]"])]
    with pytest.raises(InvalidQuery, match="cannot become"):
        lake.sql("SELECT CAST(named_struct('a', array(1.5)) AS STRUCT<a: ARRAY<INT>>)")


AS_INSERTED = [
    ("INT", "TRUE"), ("INT", "'5'"), ("INT", "5.0"), ("INT", "5.5"), ("BOOLEAN", "1"), ("BOOLEAN", "'true'"),
    ("BOOLEAN", "TRUE"),
    ("DOUBLE", "TRUE"), ("DECIMAL(5,2)", "TRUE"), ("DECIMAL(5,2)", "1.555"), ("DECIMAL(5,2)", "1.5"), ("STRING", "TRUE"),
    ("STRING", "1"), ("STRING", "1.5D"), ("STRING", "DATE '2026-01-01'"), ("BINARY", "'ab'"), ("BINARY", "X'00'"),
    ("STRING", "X'61'"),
    ("TIMESTAMP", "DATE '2026-01-01'"), ("DATE", "TIMESTAMP '2026-01-01 00:00:00'"), ("DATE", "TIMESTAMP '2026-01-01 00:00:01'"),
    ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ '2026-03-29 02:30:00'"), ("TIMESTAMP", "TIMESTAMP_NTZ '2026-01-01 00:00:01'"),
    ("VARCHAR(2)", "'abc'"), ("CHAR(3)", "'a'"), ("INT", "X'05'"), ("INT", "CAST('5' AS INT)"), ("INT", "DATE '2026-01-01'"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), AS_INSERTED)
def test_a_default_is_the_value_that_an_insert_would_store(tmp_path, kind: str, value: str):
    """CREATE TABLE and both forms of ALTER TABLE take and refuse what INSERT does, also the word DEFAULT, in a zone with gaps."""
    berlin = lsmlake.connect(tmp_path, time_zone="Europe/Berlin")
    berlin.sql("CREATE DATABASE d")
    berlin.sql(f"CREATE TABLE d.x (id INT, v {kind})")

    def stored(*texts: str) -> object:
        try:
            for text in texts:
                berlin.sql(text)
        except LakeError:
            return "refused"
        return [[*row.values()][-1] for row in berlin.table("d.y").to_arrow().to_pylist()]

    berlin.sql(f"CREATE TABLE d.y (id INT, v {kind})")
    given = stored(f"INSERT INTO d.y VALUES (1, {value})")
    berlin.sql("DROP TABLE d.y")
    twice = "refused" if given == "refused" else given * 2
    fill = "INSERT INTO d.y (id) VALUES (1)", "INSERT INTO d.y VALUES (1, DEFAULT)"
    assert stored(f"CREATE TABLE d.y (id INT, v {kind} DEFAULT {value})", *fill) == twice
    for alter in (f"ALTER TABLE d.y ALTER COLUMN v SET DEFAULT {value}", f"ALTER TABLE d.y ADD COLUMN w {kind} DEFAULT {value}"):
        berlin.sql(f"CREATE OR REPLACE TABLE d.y (id INT{', v ' + kind if ' v ' in alter else ''})")
        assert stored(alter, *fill) == twice
    if twice != "refused":
        (made,) = berlin.sql("SHOW CREATE TABLE d.y").fetchall()[0]
        berlin.sql("DROP TABLE d.y")
        assert stored(made, *fill) == twice


@pytest.mark.parametrize(
    "statement", ["INSERT OVERWRITE d.x PARTITION (p = {}) VALUES (9)", "TRUNCATE TABLE d.x PARTITION (p = {})"]
)
@pytest.mark.parametrize(("value", "meant"), [("1", "1"), ("'1'", "1"), ("'01'", "01"), ("1.0", "1.0"), ("NULL", None)])
def test_a_value_of_a_partition_is_the_text_that_it_would_become(lake, statement: str, value: str, meant: str | None):
    """1 is the partition '1': not '01', which is equal to 1 where a text is compared with a number."""
    texts = ["1", "01", "1.0", "x", None]
    lake.sql("CREATE TABLE d.x (id INT, p STRING) PARTITIONED BY (p)")
    lake.sql("INSERT INTO d.x VALUES (1, '1'), (1, '01'), (1, '1.0'), (1, 'x'), (1, NULL)")
    lake.sql(statement.format(value))
    expected = {(1, text) for text in texts if text != meant} | ({(9, meant)} if "INSERT" in statement else set())
    assert {*lake.sql("SELECT * FROM d.x").fetchall()} == expected


@pytest.fixture(params=["with a key", "append-only"])
def people(request, lake):
    key = ", PRIMARY KEY (id)" if request.param == "with a key" else ""
    lake.sql(f"CREATE TABLE d.people (id BIGINT NOT NULL, name STRING, age INT{key})")
    lake.sql("INSERT INTO d.people VALUES (1, 'ann', 30), (2, 'bob', 40), (3, 'cy', NULL)")
    return lake


BY_ROWS = [
    "DELETE FROM d.p WHERE upper(name) = 'ANN' AND id < 9",
    "UPDATE d.p AS t SET v = (SELECT max(w) FROM d.o WHERE o.k < t.id) WHERE v % 20 = 0 OR name LIKE 'b%'",
    "UPDATE d.p SET v = v + 1, name = name || '!' WHERE EXISTS (SELECT 1 FROM d.p q WHERE q.id = p.id + 1) AND id > 2",
    "DELETE FROM d.p WHERE id IN (SELECT k FROM d.o WHERE w > 300)",
    "UPDATE d.p SET v = (SELECT count(*) FROM d.p)",
    "DELETE FROM d.p WHERE id NOT IN (SELECT k FROM d.o WHERE k IS NOT NULL) AND id = (SELECT min(id) FROM d.p)",
    "DELETE FROM d.p WHERE (SELECT count(*) FROM d.o) > 1 AND length(name) = 3",
]
NOT_BY_ROWS = {
    "DELETE FROM d.p WHERE id IN (SELECT k, w FROM d.o)": "character 23 .* as many columns",
    "DELETE FROM d.p WHERE id = (SELECT k FROM d.o)": "more than one row",
    "DELETE FROM d.p WHERE 1 = 1 AND\n nope(id) = 1": "line 2, character 2 .* function nope",
    "UPDATE d.p SET name = 'x' || nope WHERE id = 1": "character 30 .* unknown column nope",
    "UPDATE d.p SET v = v / 0 WHERE length(name) > 0": "division by zero",
    "UPDATE d.p SET v = 1, v = 2": "assigned twice",
    "DELETE FROM d.p WHERE NOT EXISTS (SELECT 1 FROM d.none)": "there is no table",
}


@pytest.mark.parametrize("kind", ["PRIMARY KEY (id)", "vectors", "copies"])
def test_rows_are_changed_by_any_expression_and_by_queries(lake, kind: str):
    """DuckDB, running the same text, is the model."""
    model = duckdb.connect()
    model.execute("CREATE SCHEMA d; CREATE TABLE d.p (id BIGINT, name VARCHAR, v INT); CREATE TABLE d.o (k BIGINT, w INT)")
    key = f", {kind}" if " " in kind else ""
    lake.sql(f"CREATE TABLE d.p (id BIGINT NOT NULL, name STRING, v INT{key})")
    if kind == "copies":
        lake.sql("ALTER TABLE d.p SET TBLPROPERTIES ('deletion-vectors.enabled' = 'false')")
    lake.sql("CREATE TABLE d.o (k BIGINT, w INT)")
    for filling in (
        "INSERT INTO d.p VALUES (1, 'ann', 10), (2, 'bob', 20), (3, 'cyd', NULL), (4, NULL, 40), (5, 'ed', 50), (6, 'flo', 60)",
        "INSERT INTO d.o VALUES (1, 100), (3, 300), (3, 301), (9, 900), (NULL, 5)",
    ):
        model.execute(filling), lake.sql(filling)
    before = rows(lake, table="d.p"), len(lake.table("d.p").snapshots())
    for statement, words in NOT_BY_ROWS.items():
        with pytest.raises(LakeError, match=words):
            lake.sql(statement)
    assert (rows(lake, table="d.p"), len(lake.table("d.p").snapshots())) == before
    for statement in BY_ROWS:
        (changed,) = model.execute(statement).fetchone()
        assert affected(lake.sql(statement))[0] == changed, statement
        assert rows(lake, table="d.p") == model.execute("SELECT * FROM d.p ORDER BY 1").fetchall(), statement
    report = lake.table("d.p").update({"v": "length(name)"}, "coalesce(v, 0) >= 0 AND id > 4")
    assert report.updated == model.execute("UPDATE d.p SET v = length(name) WHERE coalesce(v, 0) >= 0 AND id > 4").fetchone()[0]
    assert rows(lake, table="d.p") == model.execute("SELECT * FROM d.p ORDER BY 1").fetchall()
    assert lake.table("d.p").delete("v + 0 IS NULL OR id % 2 = 0").deleted > 0 and lake.table("d.p").verify() == []


def affected(result) -> tuple[int, int, int, int]:
    return result.fetchall()[0][:4]


def test_rows_are_updated_and_deleted_by_condition(people):
    assert affected(
        people.sql("UPDATE d.people AS p SET age = p.age + :by, name = upper(p.name) WHERE p.age >= 40", {"by": 1})
    ) == (1, 0, 1, 0)
    assert affected(people.sql("DELETE FROM d.people p WHERE p.age IS NULL OR name = ?", ["it's"])) == (1, 0, 0, 1)
    assert rows(people, table="d.people") == [(1, "ann", 30), (2, "BOB", 41)]
    before = len(people.table("d.people").snapshots())
    assert people.sql("DELETE FROM d.people WHERE id = 99").fetchall() == [(0, 0, 0, 0, None)]
    for refused in ("UPDATE d.people SET nope = 1", "DELETE FROM d.people WHERE nope = 1", "UPDATE d.people SET age = 1.5"):
        with pytest.raises(LakeError):
            people.sql(refused)
    assert len(people.table("d.people").snapshots()) == before


def test_a_source_is_merged(people):
    people.sql("CREATE TABLE d.news (id BIGINT, age INT, op STRING, PRIMARY KEY (id))")
    people.sql("INSERT INTO d.news VALUES (1, 31, 'U'), (2, 0, 'D'), (9, 9, 'U')")
    merge = """MERGE INTO d.people AS p USING (SELECT * FROM d.news WHERE id < 100) AS n ON p.id = n.id
        WHEN MATCHED AND n.op = 'D' THEN DELETE
        WHEN MATCHED THEN UPDATE SET p.age = n.age + :more
        WHEN NOT MATCHED THEN INSERT (id, name, age) VALUES (n.id, concat('new', n.op), n.age)
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET age = 0"""
    assert affected(people.sql(merge, {"more": 1})) == (4, 1, 2, 1)
    assert rows(people, table="d.people") == [(1, "ann", 32), (3, "cy", 0), (9, "newU", 9)]
    batch = {"id": [1, 50], "name": ["x", "y"], "age": [1, 2]}
    every = "MERGE INTO d.people t USING batch s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    people.sql(every, tables={"batch": batch})
    assert rows(people, table="d.people") == [(1, "x", 1), (3, "cy", 0), (9, "newU", 9), (50, "y", 2)]
    with pytest.raises(InvalidQuery, match="several columns"):
        people.sql("MERGE INTO d.people t USING d.news s ON id = id WHEN MATCHED THEN DELETE")
