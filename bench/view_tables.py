"""Refreshing a view table after a small change, beside evaluating its query anew: into the table, and without writing.

The changes are new rows, whose files are few, or updates of rows anywhere, for which the old rows are read all over the table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import lsmlake
from bench import checksum
from bench.result import Measure, Report
from bench.rows import KEY, SCHEMA, orders
from bench.timing import Spent, clock
from lsmlake import Lake

QUERIES = {
    "sums of 18,250 groups": "SELECT city, day, sum(amount) AS total, count(*) AS orders, avg(quantity) AS mean "
    "FROM bench.orders GROUP BY city, day",
    "sums of 50 groups": "SELECT city, sum(amount) AS total, count(*) AS orders FROM bench.orders GROUP BY city",
    "maximum of 18,250 groups": "SELECT city, day, max(amount) AS most FROM bench.orders GROUP BY city, day",
    "distinct values": "SELECT day, count(DISTINCT customer) AS customers FROM bench.orders GROUP BY day",
    "rows": "SELECT id, upper(city) AS city, amount * 2 AS twice FROM bench.orders WHERE quantity > 25",
    "join": "SELECT c.region, sum(o.amount) AS total FROM bench.orders o JOIN bench.cities c ON o.city = c.city "
    "GROUP BY c.region",
}
_TARGET = {"sums of 18,250 groups": 1.0, "rows": 1.0}


def run(folder: Path, rows: int = 1_000_000, percent: float = 1.0, rounds: int = 3) -> Report:
    """`percent` of `rows` are new before a refresh, and as many are updated before another one."""
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    table = lake.create_table("bench.orders", SCHEMA, primary_key=[KEY], options={"bucket": 4})
    table.upsert(orders(np.arange(rows)))
    cities = [{"city": f"city-{number:02}", "region": f"region-{number % 7}"} for number in range(50)]
    lake.create_table("bench.cities", "city STRING NOT NULL, region STRING", primary_key=["city"]).upsert(cities)
    names = {what: (f"bench.kept{number}", f"bench.whole{number}") for number, what in enumerate(QUERIES)}
    for what, query in QUERIES.items():
        for name in names[what]:
            lake.create_view_table(name, query)
    count, spent = max(1, int(rows * percent / 100)), {}
    for number in range(1, 2 + rounds):
        for kind, changed in {"new": _new(rows, number, count), "updated": _updated(rows, number, count)}.items():
            table.upsert(changed)
            for what, query in QUERIES.items():
                spent.setdefault((what, kind), []).append(_timed(_sides(lake, names[what], query), number))
    answers = [
        checksum.same(
            view=checksum.of_table(lake.table(names[what][0]).to_arrow()), query=checksum.of_table(lake.sql(query).to_arrow())
        )
        for what, query in QUERIES.items()
    ]
    return Report(
        "view_tables",
        f"{count:,} rows are new or updated, then each view table is refreshed; minimum of {rounds} rounds, by CPU",
        {"rows": f"{rows:,}"},
        answers[0],
        tuple(measure for (what, kind), timed in spent.items() for measure in _measures(what, kind, timed[1:])),
    )


def _new(rows: int, number: int, count: int) -> pa.Table:
    return orders(np.arange(rows + (number - 1) * count, rows + number * count))


def _updated(rows: int, number: int, count: int) -> pa.Table:
    return orders(np.sort(np.random.default_rng(number).choice(rows, count, replace=False)), version=number)


def _sides(lake: Lake, names: tuple[str, str], query: str) -> list[Callable[[], object]]:
    """A refresh, a whole refresh, and the query. `names`: two view tables, so that either refresh can come first."""
    kept, whole = names
    return [partial(lake.refresh, kept), partial(lake.refresh, whole, full=True), lambda: lake.sql(query).to_arrow()]


def _timed(sides: list[Callable[[], object]], number: int) -> list[Spent]:
    """What each side takes. Each round begins with the next side: the first one after a commit takes up to a tenth more."""
    order = [(number + place) % len(sides) for place in range(len(sides))]
    spent = {place: clock(sides[place]) for place in order}
    return [spent[place] for place in range(len(sides))]


def _measures(what: str, kind: str, timed: list[list[Spent]]) -> list[Measure]:
    refresh, whole, query = (min(one.cpu for one in side) for side in zip(*timed, strict=True))
    return [
        Measure(f"{what}, {kind}: refresh / whole refresh: CPU", refresh, whole, target=_TARGET.get(what)),
        Measure(f"{what}, {kind}: refresh / query: CPU", refresh, query),
    ]
