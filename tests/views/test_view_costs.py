"""Which way a refresh takes: by the measured sizes, and before the changes are planned."""

from __future__ import annotations

from decimal import Decimal

import pytest

import lsmlake
from lsmlake import Lake
from lsmlake.views import view_costs
from lsmlake.views.view_changes import TableChanges, least_reading
from lsmlake.views.view_costs import ReadingCost, WholeCost, changes_cost_more

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("rows", "changed", "read", "stored", "columns", "extremes", "new", "updated"),
    [
        (1, 1_000, 4, 18_250, 9, False, True, True),
        (1, 10_000, 4, 18_250, 9, False, True, False),
        (1, 100_000, 4, 18_250, 9, False, False, False),
        (1, 500, 2, 50, 6, False, True, False),
        (1, 1_000, 2, 50, 6, False, False, False),
        (1, 10_000, 2, 50, 6, False, False, False),
        (1, 10_000, 3, 18_250, 5, True, True, False),
        (10, 1_000, 4, 18_250, 9, False, True, True),
        (10, 10_000, 4, 18_250, 9, False, True, True),
        (10, 100_000, 4, 18_250, 9, False, True, True),
        (10, 10_000, 2, 50, 6, False, True, False),
        (10, 100_000, 2, 50, 6, False, True, False),
        (10, 1_000, 3, 18_250, 5, True, True, False),
    ],
)
def test_the_way_is_the_one_that_was_measured_to_cost_less(rows, changed, read, stored, columns, extremes, new, updated):
    """`new`, `updated`: whether to refresh by so many new rows, or by updates of rows in all row groups."""
    whole = WholeCost(rows * MILLION, rows * MILLION * read, stored, columns, extremes)
    assert changes_cost_more([ReadingCost(changed, 0, read + 1)], whole) != new
    assert changes_cost_more([ReadingCost(2 * changed, rows * MILLION, read + 1)], whole) != updated


QUERY = "SELECT g, sum(n) AS total FROM s.t GROUP BY g"


@pytest.fixture
def lake() -> Lake:
    lake = lsmlake.connect("memory://costs")
    lake.create_database("s")
    table = lake.create_table("s.t", "id BIGINT NOT NULL, g STRING, n INT", primary_key=["id"], options={"bucket": 1})
    table.upsert(rows(range(1000)), compact=True)
    lake.create_view_table("s.v", QUERY, options={"bucket": 1})
    yield lake
    lake.drop_database("s", cascade=True)


def rows(ids, n: int = 1) -> list[dict[str, object]]:
    return [{"id": id, "g": str(id % 3), "n": n} for id in ids]


def totals(lake: Lake) -> set[tuple]:
    return {tuple(one.values()) for one in lake.table("s.v").to_arrow().to_pylist()}


@pytest.mark.parametrize("ids", [range(0, 1000, 100), range(5000, 5100)], ids=["updated", "new"])
def test_changes_that_cost_more_are_not_planned(lake: Lake, monkeypatch, ids):
    monkeypatch.setattr(view_costs, "_FEW_VALUES", 0)
    monkeypatch.setattr(TableChanges, "of", lambda *given: pytest.fail("the counts tell that the query costs less"))
    lake.table("s.t").upsert(rows(ids, 7), compact=True)
    report = lake.refresh("s.v")
    assert (report.way, "row groups" in report.reason) == ("whole", True)
    assert totals(lake) == {tuple(one.values()) for one in lake.sql(QUERY).to_arrow().to_pylist()}


def test_the_first_estimate_is_not_above_the_second_one(lake: Lake):
    table = lake.table("s.t")
    first = table.version.number
    histories = [
        lambda: table.upsert(rows(range(0, 1000, 50), 2), compact=True),
        lambda: table.upsert(rows(range(2000, 2100)), compact=False),
        lambda: table.delete("id < 20"),
        lambda: table.upsert(rows(range(1990, 2010), 3), compact=True),
        lambda: table.compact(full=True),
        lambda: table.overwrite(rows(range(10)), truncate=True),
    ]
    for step in histories:
        step()
        least, planned = (
            least_reading(table.version, first, ["id", "g"]),
            TableChanges.of(table.version, first, ["id", "g"]).reading,
        )
        assert least.values <= planned.values
        assert least.changes <= planned.changes


def test_all_groups_are_read_where_most_of_them_changed(tmp_path):
    """The stored states of many groups are read by a scan, those of few groups by lookups; both give the same sums."""
    lake = lsmlake.connect(tmp_path)
    lake.create_database("s")
    table = lake.create_table("s.t", "id BIGINT NOT NULL, g STRING, d DECIMAL(10,2)", primary_key=["id"], options={"bucket": 1})
    table.upsert([{"id": id, "g": f"g{id % 40}", "d": Decimal(id)} for id in range(400)])
    lake.create_view_table("s.v", "SELECT g, sum(d) AS total, avg(d) AS mean FROM s.t GROUP BY g", options={"bucket": 1})
    for ids in (range(2), range(30), range(400, 460)):
        table.upsert([{"id": id, "g": f"g{id % 40}", "d": Decimal(3)} for id in ids])
        assert lake.refresh("s.v").way == "changes"
        query = lake.sql("SELECT g, sum(d) AS total, avg(d) AS mean FROM s.t GROUP BY g").to_arrow()
        assert totals(lake) == {tuple(one.values()) for one in query.to_pylist()}
