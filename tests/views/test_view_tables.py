"""View tables as users see them: what a refresh reports, how they are read, what is refused, and which way a query is kept."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

import lsmlake
from lsmlake import Lake, Table
from lsmlake.cdc.change_reader import ChangeFiles
from lsmlake.errors import InvalidOption, InvalidQuery, InvalidSchema, LakeError, MissingDependency, TableExists, TableNotFound
from lsmlake.views import view_costs
from lsmlake.views.view_changes import WEIGHT, TableChanges

REVENUE = "SELECT dt, sum(amount) AS total FROM sales.orders GROUP BY dt"


@pytest.fixture
def lake(tmp_path) -> Lake:
    lake = lsmlake.connect(tmp_path / "warehouse")
    lake.create_database("sales")
    orders = lake.create_table(
        "sales.orders", "id BIGINT NOT NULL, dt STRING, amount DECIMAL(10,2), n INT", primary_key=["id"], options={"bucket": 1}
    )
    orders.upsert([{"id": 1, "dt": "a", "amount": Decimal("1.50"), "n": 1}, {"id": 2, "dt": None, "amount": None, "n": 2}])
    return lake


def order(id: int, dt: str | None = "a", amount: str = "1.00", n: int | None = 1) -> dict[str, object]:
    return {"id": id, "dt": dt, "amount": Decimal(amount), "n": n}


def rows(lake: Lake, name: str = "sales.revenue") -> set[tuple]:
    return {tuple(one.values()) for one in lake.table(name).to_arrow().to_pylist()}


def _planned(table: Table, after: int) -> TableChanges:
    return TableChanges.of(table.version, after, ["id", "dt"])


# -- what a refresh does --------------------------------------------------------------------------------------------------


def test_a_view_table_is_filled_when_it_is_created_and_kept_by_refreshes(lake: Lake):
    revenue = lake.create_view_table("sales.revenue", REVENUE, comment="by day")
    assert (revenue.schema.names, revenue.comment) == (["dt", "total"], "by day")
    assert rows(lake) == {("a", Decimal("1.50")), (None, None)}
    lake.table("sales.orders").upsert([order(1, "b", "2.00"), order(3, None, "4.00")])
    report = lake.refresh("sales.revenue")
    assert rows(lake) == {("b", Decimal("2.00")), (None, Decimal("4.00"))}
    assert (report.way, report.reason, report.changes, report.written, report.deleted) == ("changes", "", 3, 2, 1)
    assert report.covered == {"sales.orders": (1, 2)}
    assert report.snapshot.id == revenue.snapshots()["snapshot_id"].to_pylist()[-1]
    assert lake.refresh("sales.revenue").way == "nothing"
    assert lake.refresh("sales.revenue", full=True).reason == "it was asked for"


def test_groups_that_exchange_equal_rows_stay(lake: Lake):
    """The changes of each group cancel each other, so that its state is the same."""
    lake.create_view_table("sales.revenue", "SELECT dt, count(*) AS c, sum(n) AS s FROM sales.orders GROUP BY dt")
    orders = lake.table("sales.orders")
    orders.upsert([order(1, "a"), order(2, "b"), *(order(id, "c") for id in range(3, 10))])
    lake.refresh("sales.revenue")
    orders.upsert([order(1, "b"), order(2, "a")])
    report = lake.refresh("sales.revenue")
    assert (report.way, report.written, report.deleted) == ("changes", 0, 0)
    assert rows(lake) == {("a", 1, 1), ("b", 1, 1), ("c", 7, 7)}


def test_the_groups_are_those_of_a_model_in_python(lake: Lake):
    """Sums, counts and extremes of a thousand changes, by a model that is a dictionary."""
    figures = "sum(n) AS s, count(n) AS c, min(n) AS lo, max(n) AS hi, avg(n) AS mean, count(*) AS r"
    lake.create_view_table("sales.revenue", f"SELECT dt, {figures} FROM sales.orders GROUP BY dt")
    table, dice = lake.table("sales.orders"), random.Random(5)
    held = {1: order(1, "a", "1.50", 1), 2: order(2, None, "0.00", 2)}
    for _ in range(8):
        drawn = dice.sample(range(60), 25)
        batch = {id: order(id, dice.choice(("a", "b", None)), n=dice.choice((None, *range(-5, 6)))) for id in drawn}
        table.upsert(list(batch.values()))
        held |= batch
        gone = dice.sample(sorted(held), 6)
        table.delete_keys([{"id": id} for id in gone])
        held = {id: one for id, one in held.items() if id not in gone}
        assert lake.refresh("sales.revenue").way == "changes"
        expected = set()
        for dt in {one["dt"] for one in held.values()}:
            group = [one["n"] for one in held.values() if one["dt"] == dt]
            known = [one for one in group if one is not None]
            mean = sum(known) / len(known) if known else None
            extremes = min(known, default=None), max(known, default=None)
            expected.add((dt, sum(known) if known else None, len(known), *extremes, mean, len(group)))
        assert rows(lake) == expected


def test_changes_that_cancel_out_write_no_row(lake: Lake):
    lake.create_view_table("sales.revenue", REVENUE)
    orders = lake.table("sales.orders")
    orders.upsert([order(5, "z", "9.00")])
    orders.delete_keys([{"id": 5}])
    report = lake.refresh("sales.revenue")
    assert (report.changes, report.written, report.deleted) == (0, 0, 0)
    assert lake.refresh("sales.revenue").way == "nothing", "the position has moved"


def test_a_compaction_of_the_table_costs_no_reading(lake: Lake):
    lake.create_view_table("sales.revenue", REVENUE)
    orders = lake.table("sales.orders")
    orders.upsert([order(number) for number in range(10, 20)], compact=False)
    lake.refresh("sales.revenue")
    orders.compact(full=True)
    report = lake.refresh("sales.revenue")
    assert (report.way, report.changes) == ("changes", 0)


def test_a_removed_minimum_is_computed_anew_for_its_group_only(lake: Lake):
    lake.create_view_table("sales.revenue", "SELECT dt, min(n) AS lo FROM sales.orders GROUP BY dt")
    orders = lake.table("sales.orders")
    orders.upsert([order(3, "a", n=5), order(4, "b", n=7)])
    lake.refresh("sales.revenue")
    orders.delete("id = 1")
    report = lake.refresh("sales.revenue")
    assert rows(lake) == {("a", 5), ("b", 7), (None, 2)}
    assert (report.way, report.written) == ("changes", 1)


def test_a_snapshot_that_has_expired_makes_the_refresh_whole(lake: Lake):
    lake.create_view_table("sales.revenue", REVENUE)
    orders = lake.table("sales.orders")
    for number in (3, 4):
        orders.upsert([order(number)])
    orders.expire_snapshots(retain_max=1, retain_min=1)
    report = lake.refresh("sales.revenue")
    assert (report.way, report.deleted) == ("whole", None)
    assert "has expired" in report.reason
    assert rows(lake) == {("a", Decimal("3.50")), (None, None)}


def test_a_long_history_is_compared_at_once(lake: Lake):
    lake.create_view_table("sales.revenue", REVENUE)
    orders = lake.table("sales.orders")
    for number in range(40):
        orders.upsert([order(3, "b", f"{number}.00")])
    report = lake.refresh("sales.revenue")
    assert (report.way, report.changes, report.covered) == ("changes", 1, {"sales.orders": (1, 41)})
    assert ("b", Decimal("39.00")) in rows(lake)


def test_changelog_files_are_read_instead_of_old_rows_where_they_have_all_changes(lake: Lake):
    lake.table("sales.orders").alter(lsmlake.set_option("changelog-producer", "lookup"))
    lake.create_view_table("sales.revenue", REVENUE)
    orders = lake.table("sales.orders")
    first = orders.version.number
    orders.upsert([order(1, "b", "4.00")], compact=True)
    orders.delete("id = 2")
    orders.compact(full=True)
    planned = _planned(orders, first)
    assert planned.pieces and all(isinstance(step, ChangeFiles) for piece in planned.pieces for step in piece.steps)
    assert planned.rows().group_by("id").aggregate([(WEIGHT, "sum"), (WEIGHT, "count")]).sort_by("id").to_pylist() == [
        {"id": 1, f"{WEIGHT}_sum": 0, f"{WEIGHT}_count": 2},
        {"id": 2, f"{WEIGHT}_sum": -1, f"{WEIGHT}_count": 1},
    ]
    orders.upsert([order(3, "c", "5.00")], compact=False)  # no changelog has this row yet
    assert not any(isinstance(step, ChangeFiles) for piece in _planned(orders, first).pieces for step in piece.steps)
    assert lake.refresh("sales.revenue").way == "changes"
    assert rows(lake) == {("b", Decimal("4.00")), ("c", Decimal("5.00"))}


def test_updates_all_over_the_table_are_cheaper_by_the_query(lake: Lake, monkeypatch):
    for threshold in ("_FEW_VALUES", "_STEPS"):
        monkeypatch.setattr(view_costs, threshold, 0)
    orders = lake.table("sales.orders")
    orders.upsert([order(number, str(number % 3)) for number in range(1000)], compact=True)
    lake.create_view_table("sales.revenue", REVENUE)
    orders.upsert([order(number, "new") for number in range(1000, 1010)], compact=True)
    assert lake.refresh("sales.revenue").way == "changes"
    orders.upsert([order(number, "new") for number in range(0, 1000, 100)], compact=True)
    report = lake.refresh("sales.revenue")
    assert report.way == "whole" and "row groups" in report.reason
    assert {(one["dt"], one["total"]) for one in lake.sql(REVENUE).to_arrow().to_pylist()} == rows(lake)


def test_many_commits_that_update_rows_are_compared_at_once(lake: Lake):
    orders = lake.table("sales.orders")
    orders.upsert([order(number) for number in range(100)], compact=True)
    first = orders.version.number
    for step in range(3):
        orders.upsert([order(number, str(step)) for number in range(0, 100, 10)], compact=True)
    assert [len(piece.steps) for piece in _planned(orders, first).pieces] == [1]


def test_a_table_that_was_altered_or_made_anew_is_read_whole(lake: Lake):
    lake.create_view_table("sales.revenue", REVENUE)
    lake.table("sales.orders").alter(lsmlake.add_column("note", "STRING"))
    assert lake.refresh("sales.revenue").reason == "sales.orders was altered"
    lake.drop_table("sales.orders")
    with pytest.raises(TableNotFound, match="no longer fits its tables"):
        lake.refresh("sales.revenue")
    lake.create_table("sales.orders", "id BIGINT NOT NULL, dt STRING, amount DECIMAL(10,2)", primary_key=["id"])
    assert lake.refresh("sales.revenue").reason == "sales.orders was dropped and made anew"
    assert rows(lake) == set()


@pytest.mark.parametrize(
    "alteration",
    [lsmlake.drop_column("amount"), lsmlake.rename_column("amount", "sum"), lsmlake.change_type("amount", "DECIMAL(12,2)")],
    ids=["dropped", "renamed", "widened"],
)
def test_a_query_that_no_longer_fits_is_refused_by_name(lake: Lake, alteration):
    lake.create_view_table("sales.revenue", REVENUE)
    before = rows(lake)
    lake.table("sales.orders").alter(alteration)
    with pytest.raises(InvalidQuery, match=r"view table sales\.revenue.*CREATE OR REPLACE MATERIALIZED VIEW"):
        lake.refresh("sales.revenue")
    assert rows(lake) == before


# -- which way ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "way", "reason"),
    [
        (REVENUE, "changes", ""),
        ("SELECT upper(dt) AS u, sum(n) / count(*) AS r FROM sales.orders o WHERE n > 0 GROUP BY upper(o.dt)", "changes", ""),
        ("SELECT sum(n) AS s FROM sales.orders", "changes", ""),
        ("SELECT dt, sum(n) FILTER (WHERE n > 1) AS s FROM sales.orders GROUP BY 1", "changes", ""),
        ("SELECT dt, avg(CAST(n AS DOUBLE)) AS a FROM sales.orders GROUP BY dt", "keys", "depends on the order"),
        ("SELECT dt, count(DISTINCT n) AS c FROM sales.orders GROUP BY dt", "keys", "DISTINCT"),
        ("SELECT dt, count(*) AS c FROM sales.orders GROUP BY dt HAVING count(*) > 1", "keys", "HAVING"),
        ("SELECT id, n FROM sales.orders WHERE n > 0", "keys", "no GROUP BY"),
        ("SELECT DISTINCT dt FROM sales.orders", "whole", "DISTINCT"),
        ("SELECT count(DISTINCT n) AS c FROM sales.orders", "whole", "one group"),
        ("SELECT id, rank() OVER (ORDER BY n) AS r FROM sales.orders", "whole", "window"),
        ("SELECT id FROM sales.orders WHERE n > (SELECT avg(n) FROM sales.orders)", "whole", "query inside"),
        ("SELECT id, rand() AS r FROM sales.orders", "whole", "other rows each time"),
        ("SELECT id, current_date() AS d FROM sales.orders", "whole", "other rows each time"),
        ("SELECT dt, count(*) AS c FROM sales.orders GROUP BY CUBE (dt)", "whole", "grouping sets"),
        ("SELECT c, count(*) AS n FROM sales.padded GROUP BY c", "whole", "CHAR"),
        ("SELECT a.id FROM sales.orders a LEFT JOIN sales.orders b ON a.id = b.n", "whole", "inner join"),
    ],
)
@pytest.mark.every_case
def test_the_report_says_which_way_was_taken_and_why(lake: Lake, query: str, way: str, reason: str):
    lake.create_table("sales.padded", "id BIGINT NOT NULL, c CHAR(3)", primary_key=["id"])
    lake.create_view_table("sales.revenue", query)
    lake.table("sales.orders").upsert([order(7, "q", n=3)])
    lake.sql("INSERT INTO sales.padded VALUES (1, 'a')")
    report = lake.refresh("sales.revenue")
    assert report.way == way
    assert reason in report.reason


def test_a_primary_key_is_made_of_columns_that_have_no_null(lake: Lake):
    lake.create_table("sales.items", "id BIGINT NOT NULL, shop INT NOT NULL, n INT", primary_key=["id"], options={"bucket": 1})
    by_shop = lake.create_view_table("sales.by_shop", "SELECT shop, sum(n) AS s FROM sales.items GROUP BY shop")
    assert by_shop.primary_key == ("shop",)
    lake.table("sales.items").upsert([{"id": 1, "shop": 3, "n": 4}])
    lake.refresh("sales.by_shop")
    assert by_shop.get({"shop": 3}) == {"shop": 3, "s": 4}
    by_n = lake.create_view_table("sales.by_n", "SELECT n, count(*) AS c FROM sales.items GROUP BY n")
    assert by_n.primary_key == ("_lsmlake_key",)


def test_a_view_table_has_partitions_of_its_key(lake: Lake):
    query = "SELECT dt, n, count(*) AS c FROM sales.orders GROUP BY dt, n"
    lake.create_view_table("sales.revenue", query, partition_by=["dt"])
    lake.table("sales.orders").upsert([order(1, None, n=4), order(3, "b")])
    assert lake.refresh("sales.revenue").deleted == 1
    assert rows(lake) == {(None, 4, 1), (None, 2, 1), ("b", 1, 1)}
    with pytest.raises(InvalidSchema, match="partitions of a view table"):
        lake.create_view_table("sales.other", query, partition_by=["c"])


def test_a_view_table_over_a_view_table(lake: Lake):
    lake.create_view_table("sales.revenue", REVENUE)
    lake.create_view_table("sales.sum", "SELECT sum(total) AS t, count(*) AS c FROM sales.revenue")
    lake.table("sales.orders").upsert([order(3, "b", "2.00")])
    done = lake.maintain().to_pylist()
    assert [one["kind"] for one in done if one["table_name"] == "sales.revenue"].count("refresh") == 1
    assert rows(lake, "sales.sum") == {(Decimal("3.50"), 3)}


# -- reading --------------------------------------------------------------------------------------------------------------


def test_hidden_columns_are_read_only_by_name(lake: Lake):
    revenue = lake.create_view_table("sales.revenue", REVENUE)
    assert revenue.head().column_names == revenue.scan().schema.names == ["dt", "total"]
    assert lake.sql("SELECT * FROM sales.revenue").to_arrow().column_names == ["dt", "total"]
    assert [one["col_name"] for one in lake.sql("DESCRIBE sales.revenue").to_arrow().to_pylist()] == ["dt", "total"]
    assert revenue.changes(0).to_arrow().column_names == ["_row_kind", "dt", "total"]
    assert revenue.scan(columns=["dt", "_lsmlake_rows"]).to_arrow().num_rows == 2
    with pytest.raises(InvalidQuery, match="unknown column"):
        lake.sql("SELECT _lsmlake_rows FROM sales.revenue")
    assert revenue.to_pandas().columns.to_list() == ["dt", "total"]
    listed = lake.sql("SELECT column_name FROM information_schema.columns WHERE table_name = 'revenue'").fetchall()
    assert {name for (name,) in listed} == {"dt", "total"}


def test_travel_in_time_tags_branches_and_rollback(lake: Lake):
    revenue = lake.create_view_table("sales.revenue", REVENUE)
    revenue.create_tag("first")
    lake.table("sales.orders").upsert([order(3, "b", "2.00")])
    lake.refresh("sales.revenue")
    assert revenue.scan(tag="first").to_arrow().num_rows == 2
    revenue.create_branch("b1", tag="first")
    assert lake.table("sales.revenue$branch_b1").count() == 2
    with pytest.raises(InvalidQuery, match="branch"):
        lake.refresh("sales.revenue$branch_b1")
    revenue.rollback(tag="first")
    assert rows(lake) == {("a", Decimal("1.50")), (None, None)}
    assert lake.refresh("sales.revenue").way == "changes", "from the position of the rows that were restored"
    assert rows(lake) == {("a", Decimal("1.50")), (None, None), ("b", Decimal("2.00"))}


def test_iceberg_metadata_shows_the_columns_of_the_query(lake: Lake, tmp_path):
    revenue = lake.create_view_table("sales.revenue", REVENUE, options={"metadata.iceberg": True})
    lake.table("sales.orders").upsert([order(3, "b", "2.00")])
    lake.refresh("sales.revenue")
    folder = tmp_path / "warehouse" / revenue.path / "metadata"
    newest = max(folder.glob("v*.metadata.json"), key=lambda path: int(path.name[1:].partition(".")[0]))
    assert "_lsmlake_rows" not in newest.read_text()
    assert '"total"' in newest.read_text()


def test_maintenance_of_the_view_table_changes_no_row(lake: Lake):
    revenue = lake.create_view_table("sales.revenue", REVENUE)
    lake.table("sales.orders").upsert([order(3, "b", "2.00")])
    lake.refresh("sales.revenue")
    before = rows(lake)
    revenue.compact(full=True)
    revenue.rescale(buckets=2)
    revenue.expire_snapshots(retain_max=1, retain_min=1)
    revenue.alter(lsmlake.set_option("snapshot.num-retained.max", 5), lsmlake.set_comment("total", "in euros"))
    assert rows(lake) == before
    assert lake.refresh("sales.revenue").way == "nothing"
    lake.table("sales.orders").upsert([order(3, "b", "3.00")])
    assert lake.refresh("sales.revenue").way == "changes"
    assert ("b", Decimal("3.00")) in rows(lake)


def test_a_maintainer_refreshes_what_is_behind(lake: Lake):
    lake.create_view_table("sales.revenue", REVENUE)
    assert "refresh" not in lake.maintain(plan=True)["kind"].to_pylist()
    lake.table("sales.orders").upsert([order(3, "b", "2.00")])
    plan = [one for one in lake.maintain(plan=True).to_pylist() if one["kind"] == "refresh"]
    assert [(one["table_name"], one["reason"]) for one in plan] == [("sales.revenue", "newer snapshots: 1 of sales.orders")]
    done = [one for one in lake.maintain().to_pylist() if one["kind"] == "refresh"]
    assert [(one["table_name"], one["rows"], one["error"]) for one in done] == [("sales.revenue", 1, None)]
    assert ("b", Decimal("2.00")) in rows(lake)


# -- what is refused ------------------------------------------------------------------------------------------------------

WRITES = {
    "upsert": lambda table: table.upsert([{"dt": "a", "total": Decimal("1.00")}]),
    "delete_keys": lambda table: table.delete_keys([{"_lsmlake_key": "x"}]),
    "delete": lambda table: table.delete("dt = 'a'"),
    "update": lambda table: table.update({"total": "0"}),
    "merge": lambda table: table.merge(pa.table({"dt": ["a"]}), on="t.dt = s.dt").when_matched_delete().execute(),
    "overwrite": lambda table: table.overwrite([{"dt": "a", "total": None}]),
    "truncate": lambda table: table.truncate(),
    "branch": lambda table: table.branch("b1").truncate(),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.every_case
def test_only_a_refresh_writes(lake: Lake, write: str):
    revenue = lake.create_view_table("sales.revenue", REVENUE)
    revenue.create_branch("b1")
    before = revenue.snapshots().num_rows
    with pytest.raises(InvalidQuery, match=r"only a refresh writes.*refresh\(\) of the lake"):
        WRITES[write](revenue)
    assert revenue.snapshots().num_rows == before


STATEMENTS = (
    "INSERT INTO sales.revenue VALUES ('a', 1)",
    "INSERT OVERWRITE sales.revenue VALUES ('a', 1)",
    "UPDATE sales.revenue SET total = 1",
    "DELETE FROM sales.revenue",
    "TRUNCATE TABLE sales.revenue",
    "MERGE INTO sales.revenue t USING sales.orders s ON t.dt = s.dt WHEN MATCHED THEN DELETE",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_that_change_rows_are_refused(lake: Lake, statement: str):
    lake.create_view_table("sales.revenue", REVENUE)
    with pytest.raises(InvalidQuery, match=r"only a refresh writes.*run REFRESH MATERIALIZED VIEW"):
        lake.sql(statement)


def test_copy_into_is_refused(lake: Lake, tmp_path):
    lake.create_view_table("sales.revenue", REVENUE)
    parquet.write_table(pa.table({"dt": ["a"], "total": pa.array([None], pa.decimal128(20, 2))}), tmp_path / "rows.parquet")
    with pytest.raises(InvalidQuery, match="only a refresh writes"):
        lake.sql(f"COPY INTO sales.revenue FROM '{tmp_path}/rows.parquet' FILEFORMAT = PARQUET")


@pytest.mark.parametrize(
    ("query", "error", "what"),
    [
        ("SELECT 1 AS x ORDER BY x", InvalidQuery, "no order"),
        ("DELETE FROM sales.orders", InvalidQuery, "rows of a query"),
        ("SELECT nope FROM sales.orders", InvalidQuery, "unknown column"),
        ("SELECT id FROM sales.nope", TableNotFound, "sales.nope"),
        ("SELECT id FROM sales.revenue", TableNotFound, "sales.revenue"),
        ("SELECT snapshot_id FROM sales.orders$snapshots", InvalidQuery, "tables of its lake only"),
        ("SELECT id, id FROM sales.orders", InvalidSchema, "same name"),
        ("SELECT INTERVAL '1' DAY AS i", LakeError, "i"),
    ],
)
@pytest.mark.every_case
def test_a_query_that_cannot_be_kept_makes_no_table(lake: Lake, query: str, error: type[LakeError], what: str):
    with pytest.raises(error, match=what):
        lake.create_view_table("sales.revenue", query)
    assert lake.tables("sales") == ["orders"]


@pytest.mark.parametrize(
    "option",
    [
        {"merge-engine": "aggregation"},
        {"rowkind.field": "dt"},
        {"sequence.field": "total"},
        {"ignore-delete": True},
        {"changelog-producer": "input"},
        {"partition.expiration-time": "1 d", "partition.timestamp-formatter": "yyyy"},
        {"record-level.expire-time": "1 d", "record-level.time-field": "dt"},
    ],
    ids=lambda option: next(iter(option)),
)
@pytest.mark.every_case
def test_options_that_would_change_the_rows_are_refused(lake: Lake, option: dict[str, object]):
    with pytest.raises((InvalidOption, InvalidSchema)):
        lake.create_view_table("sales.revenue", REVENUE, options=option)
    revenue = lake.create_view_table("sales.revenue", REVENUE)
    with pytest.raises((InvalidOption, InvalidSchema)):
        revenue.alter(*(lsmlake.set_option(name, value) for name, value in option.items()))


def test_alterations_of_its_columns_are_refused(lake: Lake):
    revenue = lake.create_view_table("sales.revenue", REVENUE)
    for alteration in (lsmlake.add_column("x", "INT"), lsmlake.drop_column("total"), lsmlake.rename_column("total", "t")):
        with pytest.raises(InvalidSchema, match="columns of a view table"):
            revenue.alter(alteration)
    lake.rename_table("sales.revenue", "sales.income")
    lake.table("sales.orders").upsert([order(3, "b", "2.00")])
    assert lake.refresh("sales.income").way == "changes"


def test_a_view_table_does_not_replace_what_has_its_name(lake: Lake):
    lake.create_view_table("sales.revenue", REVENUE)
    with pytest.raises(TableExists):
        lake.create_view_table("sales.revenue", REVENUE)
    with pytest.raises(TableExists, match="without a query"):
        lake.create_view_table("sales.orders", "SELECT 1 AS x", replace=True)
    with pytest.raises(InvalidQuery, match="read itself"):
        lake.create_view_table("sales.revenue", "SELECT dt FROM sales.revenue", replace=True)
    with pytest.raises(InvalidQuery, match="exclude"):
        lake.create_view_table("sales.revenue", REVENUE, replace=True, if_not_exists=True)
    with pytest.raises(TableExists, match="without a query"):
        lake.create_view_table("sales.orders", "SELECT 1 AS x", if_not_exists=True)
    assert lake.create_view_table("sales.revenue", "SELECT 1 AS x", if_not_exists=True).schema.names == ["dt", "total"]
    with pytest.raises(InvalidQuery, match="no view table"):
        lake.refresh("sales.orders")
    with pytest.raises(TableNotFound):
        lake.refresh("sales.nope")


def test_without_duckdb_nothing_is_created(lake: Lake, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(MissingDependency, match="duckdb"):
        lake.create_view_table("sales.revenue", REVENUE)
    assert lake.tables("sales") == ["orders"]


# -- SQL ------------------------------------------------------------------------------------------------------------------


def test_materialized_views_in_sql(lake: Lake):
    lake.sql("USE sales")
    query = "SELECT dt, n, sum(amount) AS total FROM orders GROUP BY dt, n"
    clauses = "COMMENT 'by day' PARTITIONED BY (dt) TBLPROPERTIES ('bucket' = '1')"
    lake.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS revenue {clauses} AS {query}")
    lake.sql("INSERT INTO orders VALUES (3, 'b', 2, 1)")
    (report,) = lake.sql("REFRESH MATERIALIZED VIEW revenue").to_arrow().to_pylist()
    assert report == {"way": "changes", "reason": "", "changes": 1, "written": 1, "deleted": 0, "snapshot": 2}
    assert lake.sql("REFRESH MATERIALIZED VIEW revenue FULL").to_arrow()["way"].to_pylist() == ["whole"]
    ((made,),) = lake.sql("SHOW CREATE TABLE revenue").fetchall()
    own = "PARTITIONED BY (dt) COMMENT 'by day' TBLPROPERTIES ('bucket' = '1')"
    assert made == f"CREATE MATERIALIZED VIEW `sales`.`revenue` {own} AS {query}"
    facts = {name: value for name, value, _ in lake.sql("DESCRIBE EXTENDED revenue").fetchall()}
    assert (facts["Type"], facts["View Text"], facts["Refreshed To"]) == ("MATERIALIZED_VIEW", query, "sales.orders snapshot 2")
    kinds = "SELECT table_type, is_insertable_into FROM information_schema.tables WHERE table_name = 'revenue'"
    assert lake.sql(kinds).fetchall() == [("MATERIALIZED_VIEW", "NO")]
    lake.sql("DROP MATERIALIZED VIEW revenue")
    lake.sql("DROP MATERIALIZED VIEW IF EXISTS revenue")
    lake.sql(made)
    assert lake.table("sales.revenue").count() == 3


def test_a_procedure_refreshes_it(lake: Lake):
    lake.sql("CREATE MATERIALIZED VIEW sales.v AS SELECT dt, sum(n) AS total FROM sales.orders GROUP BY dt")
    lake.sql("USE sales")
    orders = lake.table("sales.orders")
    orders.upsert([order(3, n=5)])
    assert lake.sql("CALL refresh('v')").to_arrow()["way"].to_pylist() == ["changes"]
    assert rows(lake, "sales.v") == {("a", 6), (None, 2)}
    assert lake.sql("CALL refresh(name => 'v', full => true)").to_arrow()["way"].to_pylist() == ["whole"]
    orders.upsert([order(4, n=7)])
    assert lake.sql("CALL sys.refresh('sales.v', true)").to_arrow()["way"].to_pylist() == ["whole"]
    assert rows(lake, "sales.v") == {("a", 13), (None, 2)}
    for name in ("NULL", "7", "true"):
        with pytest.raises(InvalidQuery, match=r"is no name of a table.*expected 'database.table'"):
            lake.sql(f"CALL refresh({name})")
        with pytest.raises(InvalidQuery, match="is no name of a table"):
            lake.sql(f"CALL compact({name})")
    with pytest.raises(InvalidQuery, match="refresh lacks the argument name"):
        lake.sql("CALL refresh()")
    with pytest.raises(InvalidQuery, match="this is no view table"):
        lake.sql("CALL refresh('orders')")


def test_or_replace_gives_it_another_query(lake: Lake):
    lake.sql(f"CREATE MATERIALIZED VIEW sales.revenue AS {REVENUE}")
    lake.sql("CREATE OR REPLACE MATERIALIZED VIEW sales.revenue AS SELECT dt, max(n) AS most FROM sales.orders GROUP BY dt")
    assert rows(lake) == {("a", 1), (None, 2)}
    lake.sql("INSERT INTO sales.orders VALUES (3, 'a', 2, 9)")
    assert lake.refresh("sales.revenue").way == "changes"
    assert rows(lake) == {("a", 9), (None, 2)}
    lake.table("sales.revenue").rollback(snapshot=1)
    assert lake.refresh("sales.revenue").way == "changes", "the query of the snapshot is in effect again"
    assert rows(lake) == {("a", Decimal("3.50")), (None, None)}
    with pytest.raises(InvalidSchema, match="DROP MATERIALIZED VIEW"):
        lake.sql("CREATE OR REPLACE MATERIALIZED VIEW sales.revenue AS SELECT DISTINCT dt FROM sales.orders")


@pytest.mark.parametrize(
    ("statement", "cure"),
    [
        ("DROP TABLE sales.revenue", "write DROP MATERIALIZED VIEW sales.revenue"),
        ("DROP VIEW sales.revenue", "write DROP MATERIALIZED VIEW sales.revenue"),
        ("DROP MATERIALIZED VIEW sales.orders", "write DROP TABLE sales.orders"),
        ("REFRESH TABLE sales.orders", "leave it out"),
        ("REFRESH MATERIALIZED VIEW sales.revenue ASYNC", ""),
        ("CREATE MATERIALIZED VIEW sales.v (a, b) AS SELECT 1, 2", "name the columns by AS"),
        ("CREATE MATERIALIZED VIEW sales.v SCHEDULE EVERY 1 HOUR AS SELECT 1 AS a", "leave it out"),
        ("CREATE MATERIALIZED VIEW sales.v COMMENT 'a' COMMENT 'b' AS SELECT 1 AS a", "give it once"),
        ("CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS sales.v AS SELECT 1 AS a", "use one of them"),
        ("CREATE OR REPLACE TABLE sales.revenue AS SELECT 1 AS a", ""),
    ],
)
@pytest.mark.every_case
def test_statements_that_do_not_fit_a_materialized_view_are_refused(lake: Lake, statement: str, cure: str):
    lake.create_view_table("sales.revenue", REVENUE)
    before = rows(lake)
    with pytest.raises(LakeError) as refused:
        lake.sql(statement)
    assert cure in str(refused.value)
    assert (rows(lake), lake.tables("sales")) == (before, ["orders", "revenue"])


def test_the_query_keeps_its_database_and_its_time_zone(lake: Lake, tmp_path):
    lake.create_table("sales.events", "id BIGINT NOT NULL, at TIMESTAMP", primary_key=["id"])
    lake.sql("INSERT INTO sales.events VALUES (1, TIMESTAMP '2026-01-01 23:30:00Z')")
    berlin = lsmlake.connect(tmp_path / "warehouse", time_zone="Europe/Berlin")
    berlin.sql("USE sales")
    berlin.sql("CREATE MATERIALIZED VIEW by_day AS SELECT to_date(at) AS day, count(*) AS c FROM events GROUP BY to_date(at)")
    lake.sql("INSERT INTO sales.events VALUES (2, TIMESTAMP '2026-01-01 23:45:00Z')")
    lake.refresh("sales.by_day")
    assert [(str(day), c) for day, c in rows(lake, "sales.by_day")] == [("2026-01-02", 2)]
