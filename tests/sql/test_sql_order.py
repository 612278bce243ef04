"""INSERT and CREATE TABLE AS of a query in this process: which of several rows of a key is the last is never a guess."""

from __future__ import annotations

import pytest

import lsmlake
from lsmlake.errors import InvalidData

JOINED = "SELECT e.id, e.v FROM e JOIN k ON e.v = k.v"
KEYED = "TBLPROPERTIES ('primary-key' = 'id')"


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> lsmlake.Lake:
    """`e`: 20 rows of each of 50 ids, in the order of `v`."""
    lake = lsmlake.connect(tmp_path_factory.mktemp("order"))
    lake.create_database("d")
    lake.sql("USE d")
    lake.create_table("d.e", "id INT, v INT").append({"id": [n % 50 for n in range(1000)], "v": list(range(1000))}, cast=True)
    lake.sql("CREATE TABLE k AS SELECT v FROM e")
    lake.sql(f"CREATE VIEW inner_joined AS {JOINED}")
    lake.sql("CREATE TEMPORARY VIEW joined AS SELECT * FROM d.inner_joined WHERE v >= 0")
    lake.sql("CREATE VIEW plain AS SELECT id, v FROM e WHERE v >= 0")
    return lake


@pytest.fixture(params=["", "'sequence.field' = 'v'"], ids=["by order", "by sequence"])
def table(request, lake: lsmlake.Lake) -> str:
    lake.sql(f"CREATE OR REPLACE TABLE t (id INT NOT NULL, v INT, PRIMARY KEY (id)) TBLPROPERTIES ({request.param})")
    return request.param


def content(lake: lsmlake.Lake, name: str = "t") -> tuple[int, int, int]:
    return lake.sql(f"SELECT count(*), min(v), max(v) FROM {name}").fetchall()[0]


@pytest.mark.parametrize(
    ("query", "newest"),
    [
        ("SELECT id, v FROM e", (50, 950, 999)),
        ("SELECT id, v FROM (SELECT * FROM plain) AS x WHERE v IN (999, 949, 3)", (2, 3, 999)),
        ("SELECT * FROM joined ORDER BY v", (50, 950, 999)),
        ("SELECT id, v + 1 FROM e WHERE v < 500", (50, 451, 500)),
        (f"{JOINED} ORDER BY e.v", (50, 950, 999)),
        (f"(({JOINED} ORDER BY e.v))", (50, 950, 999)),
        ("SELECT e.id, max(e.v) FROM e JOIN k ON e.v = k.v GROUP BY 1", (50, 950, 999)),
        ("SELECT DISTINCT id, 7 FROM e", (50, 7, 7)),
        ("SELECT id, v FROM e UNION ALL SELECT id, 1000 + id FROM e", (50, 1000, 1049)),
        (f"VALUES {', '.join(f'({n % 50}, {n})' for n in range(200))}", (50, 150, 199)),
    ],
)
def test_rows_in_an_order_apply_in_it(lake, table, query, newest):
    lake.sql(f"INSERT INTO t {query}")
    assert content(lake) == newest


UNORDERED = [
    JOINED,
    "SELECT e.id, e.v FROM e, k WHERE e.v = k.v",
    "SELECT DISTINCT id, v FROM e",
    "SELECT id, v FROM e UNION SELECT id, v FROM e",
    "SELECT id, v FROM e INTERSECT SELECT id, v FROM e",
    "SELECT id, v FROM e GROUP BY ALL",
    "SELECT id, sum(v) OVER (PARTITION BY v) FROM e",
    f"SELECT id, v FROM ({JOINED} ORDER BY v) WHERE v > 3",
    f"WITH x AS ({JOINED}) SELECT * FROM x",
    "SELECT * FROM joined",
    "SELECT id, v FROM e WHERE v IN (SELECT v FROM k)",
    "SELECT id, v FROM e WHERE EXISTS (SELECT 1 FROM k WHERE k.v = e.v)",
    "SELECT id, coalesce((SELECT max(k.v) FROM k WHERE k.v = e.v), 0) FROM e",
]


@pytest.mark.parametrize("query", UNORDERED)
def test_rows_of_a_key_that_differ_and_have_no_order_are_refused(lake, table, query):
    for statement in (f"INSERT INTO t {query}", f"INSERT OVERWRITE t {query}"):
        if table:
            lake.sql(statement)
            assert content(lake) == (50, 950, 999)
            continue
        with pytest.raises(InvalidData, match=r"key \(id=\d+\): rows of one key differ.* any order.* GROUP BY.* ORDER BY"):
            lake.sql(statement)
        assert content(lake)[0] == 0


def test_a_table_without_a_key_takes_all_rows(lake):
    lake.sql(f"CREATE OR REPLACE TABLE a AS {JOINED}")
    lake.sql(f"INSERT INTO a {JOINED}")
    assert content(lake, "a") == (2000, 0, 999)


def test_a_table_that_a_query_makes(lake):
    with pytest.raises(InvalidData, match="rows of one key differ"):
        lake.sql(f"CREATE TABLE n {KEYED} AS {JOINED}")
    assert "d.n" not in lake.tables()
    lake.sql(f"CREATE TABLE n {KEYED} AS {JOINED} ORDER BY v DESC")
    assert content(lake, "n") == (50, 0, 49)
    with pytest.raises(InvalidData, match="rows of one key differ"):
        lake.sql(f"CREATE OR REPLACE TABLE n {KEYED} AS {JOINED}")
    assert content(lake, "n") == (50, 0, 49)
    lake.sql(f"CREATE OR REPLACE TABLE n TBLPROPERTIES ('primary-key' = 'id', 'sequence.field' = 'v') AS {JOINED}")
    assert content(lake, "n") == (50, 950, 999)


def test_rows_beyond_the_buffer_are_checked_too(lake):
    lake.sql("CREATE OR REPLACE TABLE b (id INT NOT NULL, v INT, PRIMARY KEY (id)) TBLPROPERTIES ('write-buffer-size' = '1 kb')")
    with pytest.raises(InvalidData, match="rows of one key differ"):
        lake.sql(f"INSERT INTO b {JOINED}")
    lake.sql(f"INSERT INTO b {JOINED} ORDER BY e.v")
    assert content(lake, "b") == (50, 950, 999)


MERGED = "ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
BY_CLAUSES = """ON t.id = s.id WHEN NOT MATCHED AND s.v < 500 THEN INSERT (id, v) VALUES (s.id, s.v)
    WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"""


@pytest.mark.parametrize(
    ("source", "clauses"),
    [(f"({JOINED})", MERGED), ("(SELECT DISTINCT id, v FROM e)", MERGED), ("joined", MERGED), ("e", BY_CLAUSES)],
)
def test_a_merge_adds_rows_of_a_key_only_in_an_order(lake, table, source, clauses):
    statement = f"MERGE INTO t USING {source} AS s {clauses}"
    if table:
        lake.sql(statement)
        assert content(lake) == (50, 950, 999)
        return
    with pytest.raises(InvalidData, match=r"rows of one key differ.*in any order"):
        lake.sql(statement)
    assert content(lake) == (0, None, None)
    lake.sql(f"MERGE INTO t USING e AS s {MERGED}")
    assert content(lake) == (50, 950, 999)
