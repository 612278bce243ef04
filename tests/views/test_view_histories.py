"""After every refresh of a random history, each view table holds what its query gives when it is evaluated from scratch."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest
from effort import examples
from hypothesis import Phase, given
from hypothesis import strategies as st

import lsmlake
from lsmlake import Lake, Table
from lsmlake.errors import LakeError

COLUMNS = "id BIGINT NOT NULL, g STRING, n INT, d DECIMAL(10,2), v DOUBLE, day DATE, h SMALLINT"
OPTIONS = {
    "s.a": {},
    "s.p": {"merge-engine": "partial-update", "changelog-producer": "lookup"},
    "s.m": {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.d.aggregate-function": "max",
        "fields.default-aggregate-function": "last_value",
    },
    "s.e": None,
}
QUERIES = {
    "exact": "SELECT g, count(*) AS c, count(n) AS cn, sum(n) AS sn, sum(d) AS sd, avg(n) AS an, avg(d) AS ad, min(n) AS ln, "
    "max(d) AS hd, min(v) AS lv, max(v) AS hv, max(g) AS hg, min(day) AS ld FROM {a} GROUP BY g",
    "by_key": "SELECT h, sum(n) AS sn, max(n) - min(n) AS width, count(*) FILTER (WHERE n > 0) AS up, "
    "sum(CASE WHEN v > 0 THEN n END) AS part FROM {a} WHERE n IS NULL OR n <> 2 GROUP BY h",
    "expressions": "SELECT upper(g) AS u, year(day) AS y, sum(n) / count(*) AS r, round(sum(d) * 2, 1) AS t FROM {a} t "
    "GROUP BY upper(g), 2",
    "grand": "SELECT count(*) AS c, sum(n) AS s, min(day) AS f, avg(d) AS a FROM {a} WHERE h > 1",
    "floats": "SELECT v, n, count(*) AS c FROM {a} GROUP BY v, n",
    "float_keys": "SELECT v, count(DISTINCT n) AS c FROM {a} GROUP BY v",
    "typed_keys": "SELECT d, day, n > 1 AS b, CAST(day AS TIMESTAMP) AS t, max(n) AS m, count(DISTINCT h) AS c FROM {a} "
    "GROUP BY d, day, n > 1, CAST(day AS TIMESTAMP)",
    "typed_sums": "SELECT n > 1 AS b, CAST(day AS TIMESTAMP) AS t, encode(g, 'utf-8') AS e, sum(h) AS s FROM {a} "
    "GROUP BY 1, 2, 3",
    "drifting": "SELECT g, sum(v) AS s, avg(v) AS a FROM {a} GROUP BY g",
    "distinct": "SELECT g, day, count(DISTINCT n) AS c, sum(DISTINCT n) AS s FROM {a} GROUP BY g, day",
    "having": "SELECT h, sum(n) AS s FROM {a} GROUP BY h HAVING sum(n) > 1",
    "rows": "SELECT id, upper(g) AS u, n + 1 AS m FROM {a} WHERE n > 0",
    "all_rows": "SELECT * FROM {a} WHERE g IS NOT NULL",
    "hidden_key": "SELECT g, n FROM {a} WHERE n < 3",
    "window": "SELECT h, n, row_number() OVER (PARTITION BY h ORDER BY n, id) AS r FROM {a}",
    "join": "SELECT x.g, y.h, count(*) AS c, sum(x.n * y.n) AS s, max(y.d) AS m FROM {a} x JOIN {b} y ON x.h = y.h "
    "GROUP BY x.g, y.h",
    "join_rows": "SELECT x.id, y.id AS other, x.g, y.n FROM {a} x JOIN {b} y ON x.h = y.h AND x.n <= y.n",
    "lookup": "SELECT x.id, x.g, y.g AS found FROM {a} x JOIN {b} y ON x.n = y.h AND y.id = x.id",
    "self_join": "SELECT x.h, sum(y.n) AS s, count(*) AS c FROM {a} x, {a} y WHERE x.id = y.h GROUP BY x.h",
    "outer": "SELECT x.h, count(y.id) AS c FROM {a} x LEFT JOIN {b} y ON x.h = y.h GROUP BY x.h",
    "union": "SELECT g FROM {a} UNION SELECT g FROM {b}",
}
"""`{a}`: the table that changes most; `{b}`: another one."""


def row(id: int, draw: st.DrawFn) -> dict[str, object]:
    value = draw(st.sampled_from((None, 1, 2, 3, -4)))
    return {
        "id": id,
        "g": draw(st.sampled_from((None, "", "x", "X", "1:n"))),
        "n": value,
        "d": draw(st.sampled_from((None, Decimal("0.05"), Decimal("-7.30"), Decimal("12345.67")))),
        "v": draw(st.sampled_from((None, 0.5, -0.0, 0.0, 1.25, math.nan, math.inf))),
        "day": draw(st.sampled_from((None, "2026-01-31", "2025-12-01"))),
        "h": draw(st.sampled_from((0, 1, 2, 3))),
    }


@st.composite
def batches(draw: st.DrawFn) -> list[dict[str, object]]:
    ids = draw(st.lists(st.integers(0, 7), min_size=1, max_size=6, unique=True))
    return [row(id, draw) for id in ids]


STEPS = st.one_of(
    st.tuples(st.just("write"), st.booleans(), batches()),
    st.tuples(st.just("delete"), st.booleans(), st.sampled_from(("n > 1", "h = 0", "id < 3", "g IS NULL", "true"))),
    st.tuples(st.just("compact"), st.booleans(), st.booleans()),
    st.tuples(st.just("overwrite"), st.booleans(), batches()),
    st.tuples(st.sampled_from(("rollback", "expire", "alter", "nothing", "compact views")), st.booleans(), st.none()),
)


def typed(rows: list[dict[str, object]]) -> pa.Table:
    kinds = {"id": pa.int64(), "g": pa.string(), "n": pa.int32(), "d": pa.decimal128(10, 2), "v": pa.float64(), "h": pa.int16()}
    days = pa.array([one["day"] for one in rows], pa.string()).cast(pa.date32())
    columns = {name: pa.array([one[name] for one in rows], kind) for name, kind in kinds.items()}
    return pa.table({**columns, "day": days})


def write(table: Table, rows: list[dict[str, object]]) -> None:
    (table.append if not table.primary_key else table.upsert)(typed(rows))


def take(lake: Lake, table: Table, step: tuple, views: list[str]) -> None:
    """One step of a history. What a merge engine refuses, such as a delete, changes nothing."""
    match step:
        case "write", _, rows:
            write(table, rows)
        case "delete", _, where:
            try:
                table.delete(where)
            except LakeError:
                return
        case "compact", _, full:
            table.compact(full=full)
        case "overwrite", _, rows:
            table.overwrite(typed(rows), truncate=True)
        case "rollback", _, _:
            if len(ids := table.snapshots()["snapshot_id"].to_pylist()) > 1:
                table.rollback(snapshot=ids[-2])
        case "expire", _, _:
            table.expire_snapshots(retain_max=1, retain_min=1, older_than=None)
        case "alter", _, _:
            table.alter(lsmlake.set_option("file.block-size", "64 kb"))
        case "compact views", _, _:
            for name in views:
                lake.table(name).compact(full=True)


def bag(rows: pa.Table) -> Counter:
    """The rows as a multiset. Sums of floats depend on the order of the rows, so that their last digits do not count."""
    return Counter(tuple(map(plain, one.values())) for one in rows.to_pylist())


def plain(value: object) -> object:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value + 0.0, 9)
    return value


def lake_with(kinds: tuple[str, str]) -> Lake:
    lake = lsmlake.connect(f"memory://{id(object())}-{next(NUMBERS)}")
    lake.create_database("s")
    for name in dict.fromkeys(kinds):
        options = OPTIONS[name]
        key = () if options is None else ("id",)
        columns = COLUMNS if "merge-engine" in (options or {}) else f"{COLUMNS} NOT NULL"
        lake.create_table(name, columns, primary_key=key, options={"bucket": 1, **(options or {})})
    return lake


NUMBERS = iter(range(1 << 30))
CASES = [("s.a", "s.p"), ("s.p", "s.a"), ("s.m", "s.e"), ("s.e", "s.a")]


@pytest.mark.parametrize("kinds", CASES, ids=["-".join(one) for one in CASES])
@examples(12, phases=[Phase.generate])
@given(st.data())
def test_a_view_table_holds_what_its_query_gives(kinds: tuple[str, str], data: st.DataObject):
    lake = lake_with(kinds)
    first, second = (lake.table(name) for name in kinds)
    write(second, data.draw(batches()))
    chosen = data.draw(st.lists(st.sampled_from(sorted(QUERIES)), min_size=2, max_size=3, unique=True))
    queries = {f"s.view_{name}": QUERIES[name].format(a=kinds[0], b=kinds[1]) for name in chosen}
    if data.draw(st.booleans()):
        write(first, data.draw(batches()))
    for name, query in queries.items():
        lake.create_view_table(name, query, options={"bucket": 1})
    for round_ in data.draw(st.lists(st.lists(STEPS, min_size=1, max_size=3), min_size=1, max_size=3)):
        for step in round_:
            take(lake, second if step[1] and data.draw(st.booleans()) else first, step, list(queries))
        for name, query in queries.items():
            report = lake.refresh(name)
            assert bag(lake.table(name).to_arrow()) == bag(lake.sql(query).to_arrow()), (query, report)
            assert lake.refresh(name).way == "nothing"
