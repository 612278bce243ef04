"""Every argument `where` takes the same conditions, also those that only DuckDB evaluates, or refuses them by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import lsmlake
from lsmlake.errors import InvalidQuery, LakeError

ROWS = [
    {"p": "ab"[number % 2] + "bc"[number % 3 % 2], "k": number, "s": f"x{number % 4}" if number % 5 else None}
    for number in range(12)
]
NEWER = [{"p": row["p"], "k": row["k"], "s": "x1" if row["k"] % 2 else row["s"]} for row in ROWS[4:9]]

CONDITIONS = {
    "upper(s) = 'X1'": lambda row: row["s"] == "x1",
    "k % 3 = 1": lambda row: row["k"] % 3 == 1,
    "length(s) = 2 AND k < 7": lambda row: row["s"] is not None and row["k"] < 7,
    "coalesce(s, 'none') = 'none' OR k = 3": lambda row: row["s"] is None or row["k"] == 3,
    "s = concat('x', string(k % 4))": lambda row: row["s"] == f"x{row['k'] % 4}",
    "exists(array(1, 2), i -> i = k)": lambda row: row["k"] in (1, 2),
    "k IN (1, 1 + 1)": lambda row: row["k"] in (1, 2),
}
OF_PARTITIONS = {
    "upper(p) = 'AB'": lambda p: p == "ab",
    "substr(p, 1, 1) = 'b' AND p > 'bb'": lambda p: p[0] == "b" and p > "bb",
    "length(p) = 3": lambda p: False,
    "p || '!' IN ('ab!', 'bc!')": lambda p: p in ("ab", "bc"),
}
REFUSED = {
    "k IN (SELECT 1)": "a query is not supported here",
    "rand() < 0.5": "(give|gives) (another|the same) .*each time|must give the same each time",
    "upper(nope) = 'X'": "unknown column nope",
    "k + 1": "this is not a condition",
    "upper(s) = 'X' LIMIT 1": "(?i)not SQL|LIMIT",
    "soundex(s) = 'X'": "soundex",
    "sum(k) = 1": "(?i)aggregate",
    "(SELECT true)": "a query is not supported here",
    "SELECT 1": "(?i)a query is not supported here|not SQL|PARSE_SYNTAX",
    "k = 1;": "no ; at its end",
    "k = 1; -- once": "no ; at its end",
    "; k = 1": "nothing stands before this ;",
    "k = 1; k = 2": "exactly one statement",
    "k = 1 AS x": "has no name here",
    "k = 1 x": "has no name here",
    "'true'": "(?i)this is not a condition|boolean",
    "k = :x": "(?i)a parameter has no value|parameter",
    "": "the text is empty",
    "-- nothing": "the text is empty",
    "monotonically_increasing_id() = 1": "must give the same each time",
    "row_number() OVER (ORDER BY k) = 1": "(?i)window function",
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the table `d.t`."""
    folder = tmp_path_factory.mktemp("where")
    lake = lsmlake.connect(folder)
    lake.create_database("d")
    made = lake.create_table(
        "d.t",
        "p STRING, k INT, s STRING",
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true", "bucket": 2},
    )
    made.upsert(ROWS)
    made.upsert(NEWER)
    return folder


@pytest.fixture
def lake(planted, warehouse: Path):
    return planted(warehouse)


@pytest.fixture
def table(lake):
    return lake.table("d.t")


def state(rows) -> list[tuple]:
    return sorted((row["p"], row["k"], row["s"] or "") for row in rows)


def current() -> list[dict]:
    newer = {row["k"]: row for row in NEWER}
    return [newer.get(row["k"], row) for row in ROWS]


def net(holds) -> list[tuple]:
    """The changes from `ROWS` to `current()`, of the rows that satisfy a condition."""
    made = []
    for before, after in zip(ROWS, current(), strict=True):
        if before == after:
            continue
        made += [("-", *before.values())] if holds(before) else []
        made += [("+", *after.values())] if holds(after) else []
    return sorted(made, key=str)


def signed(table) -> list[tuple]:
    return sorted(((row.pop("_row_kind")[0], *row.values()) for row in table.to_pylist()), key=str)


@pytest.mark.parametrize("where", CONDITIONS)
def test_reads_and_changes_take_it(where: str, table):
    holds = CONDITIONS[where]
    assert state(table.scan(where=where).to_arrow().to_pylist()) == state(filter(holds, current()))
    assert table.scan(where=where).count() == sum(map(holds, current()))
    for mode in ("diff", "changelog"):
        assert signed(table.changes(1, 2, where=where, mode=mode).to_arrow()) == net(holds), mode
    batches = {batch.snapshot: signed(batch.to_arrow()) for batch in table.follow(snapshot=1, where=where)}
    full = sorted((("+", *row.values()) for row in ROWS if holds(row)), key=str)
    assert {number: rows for number, rows in batches.items() if rows} == {
        n: rows for n, rows in ((1, full), (2, net(holds))) if rows
    }


@pytest.mark.parametrize("where", OF_PARTITIONS)
def test_what_is_about_partitions_takes_it(where: str, table, lake):
    holds = OF_PARTITIONS[where]
    inside = [row for row in current() if holds(row["p"])]
    left = [row for row in current() if not holds(row["p"])]
    assert (table.compact(full=True, where=where).buckets > 0) == bool(inside)
    new = [{**row, "s": "new"} for row in inside[:2]]
    table.overwrite(new or table.schema.empty_table(), where=where)
    assert state(table.scan().to_arrow().to_pylist()) == state([*left, *new])
    outside = next(row for row in ROWS if not holds(row["p"]))
    with pytest.raises(LakeError, match="a row lies outside of the partitions to overwrite"):
        table.overwrite([outside], where=where)
    lake.sql(f"INSERT INTO d.t REPLACE WHERE {where} SELECT * FROM d.t WHERE false")
    assert state(table.scan().to_arrow().to_pylist()) == state(left)


DOORS = {
    "scan": lambda table, where: table.scan(where=where).to_arrow(),
    "count": lambda table, where: table.scan(where=where).count(),
    "changes": lambda table, where: table.changes(1, where=where).to_arrow(),
    "follow": lambda table, where: list(table.follow(where=where)),
    "overwrite": lambda table, where: table.overwrite([], where=where),
    "compact": lambda table, where: table.compact(where=where),
    "delete": lambda table, where: table.delete(where),
    "update": lambda table, where: table.update({"s": "'y'"}, where),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("where", REFUSED)
def test_what_nobody_evaluates_is_refused_by_name(door: str, where: str, table):
    before = table.version.number
    with pytest.raises(InvalidQuery, match=REFUSED[where]):
        DOORS[door](table, where)
    assert table.version.number == before


def test_the_time_of_the_call_is_known_but_where_it_goes_on(table):
    where = "current_date() > DATE '2020-01-01' AND upper(p) = 'AB'"
    assert table.scan(where=where).count() == table.scan(where="p = 'ab'").count()
    assert table.changes(0, where=where).count() == table.scan(where="p = 'ab'").count()
    table.overwrite(table.schema.empty_table(), where=where)
    assert table.scan(where="p = 'ab'").count() == 0
    with pytest.raises(InvalidQuery, match="the current time is not supported here"):
        list(table.follow(where="date_add(current_date(), k) > DATE '2020-01-01'"))


def test_a_condition_that_divides_a_partition_is_refused(lake):
    table = lake.create_table("d.u", "at DATE, v INT", partition_by=["months(at)"])
    lake.sql("INSERT INTO d.u VALUES (DATE '2026-01-03', 1), (DATE '2026-02-03', 2)")
    with pytest.raises(InvalidQuery, match="where divides a partition"):
        table.overwrite(table.schema.empty_table(), where="day(at) = 3")
    with pytest.raises(InvalidQuery, match="where may use partition columns only"):
        table.overwrite(table.schema.empty_table(), where="v % 2 = 1")


@pytest.mark.spark
def test_spark_takes_the_same_conditions(spark, table, spark_lake):
    attached = spark_lake.table("d.t")
    for where in list(CONDITIONS)[:5]:
        holds = CONDITIONS[where]
        rows = [row.asDict() for row in attached.df(where=where).collect()]
        assert state(rows) == state(filter(holds, current()))
        changes = [row.asDict() for row in attached.changes(1, 2, where=where).to_spark().collect()]
        assert sorted(((row.pop("_row_kind")[0], *row.values()) for row in changes), key=str) == net(holds)
    for where in ("'true'", "k = 1;", "k = 1; -- once", "k = 1 AS x", "k = 1 x", ""):
        for door in ("delete", "update", "overwrite", "compact", "changes"):
            with pytest.raises(InvalidQuery, match=REFUSED[where]):
                DOORS[door](attached, where)
        with pytest.raises(InvalidQuery, match=REFUSED[where]):
            attached.df(where=where)
        with pytest.raises(InvalidQuery, match=REFUSED[where]):
            attached.read_stream(where=where)
    stream = attached.read_stream(snapshot=1, where="upper(s) = 'X1'").writeStream.format("memory").queryName("conditions")
    stream.outputMode("append").trigger(availableNow=True).start().awaitTermination()
    found = spark.sql("SELECT count(*) FROM conditions").collect()[0][0]
    assert found == sum(map(CONDITIONS["upper(s) = 'X1'"], ROWS)) + len(net(CONDITIONS["upper(s) = 'X1'"]))
    rows = spark.createDataFrame([("ab", 1, "new")], "p string, k int, s string")
    attached.overwrite(rows, where="upper(p) = 'AB'")
    assert state(table.scan(where="p = 'ab'").to_arrow().to_pylist()) == [("ab", 1, "new")]
