"""INTERVAL values in queries: the answers of Spark 4.3, and what their columns are in Arrow, pandas, Polars and texts."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_expressions import ERROR, answer, queries
from spark_sql.hive import type_name
from typer.testing import CliRunner

import lsmlake
from lsmlake.cli.app import app
from lsmlake.errors import InvalidQuery, InvalidSchema, LakeError
from lsmlake.kernels.interval_text import with_texts
from lsmlake.types.intervals import DAY_TIME, KINDS, YEAR_MONTH, interval_of, result_field


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> lsmlake.Lake:
    lake = lsmlake.connect(tmp_path_factory.mktemp("intervals"))
    lake.create_database("d")
    return lake


def shown(value: object, kind: pa.DataType, inside: bool = False) -> str | None:
    """A value as Spark casts it to STRING."""
    if value is None:
        return "null" if inside else None
    if pa.types.is_map(kind):
        pairs = (f"{shown(key, kind.key_type, True)} -> {shown(item, kind.item_type, True)}" for key, item in value)
        return f"{{{', '.join(pairs)}}}"
    if pa.types.is_list(kind):
        return f"[{', '.join(shown(one, kind.value_type, True) for one in value)}]"
    if pa.types.is_struct(kind):
        return f"{{{', '.join(shown(value[field.name], field.type, True) for field in kind)}}}"
    if isinstance(value, dt.datetime):
        moment, point, fraction = value.replace(tzinfo=None).isoformat(sep=" ").partition(".")
        return moment + point + fraction.rstrip("0")
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(value), str(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def by_lake(lake: lsmlake.Lake, query: str) -> str:
    try:
        rows = lake.sql(query).to_arrow()
    except LakeError:
        return ERROR
    texts = with_texts(rows)
    columns = [[shown(one, column.type) for one in column.to_pylist()] for column in texts.columns]
    return answer([type_name(field) for field in rows.schema], list(zip(*columns, strict=True)))


def test_queries_mean_what_they_mean_to_spark(lake):
    assert {query: by_lake(lake, query) for query in queries()} == queries()


# -- columns of results, and of rows that the caller gives ----------------------------------------------------------------

BOTH = "SELECT INTERVAL '1 2:3:4.5' DAY TO SECOND AS d, INTERVAL '-1-2' YEAR TO MONTH AS m UNION ALL SELECT NULL, NULL"
TEXTS = [("INTERVAL '1 02:03:04.5' DAY TO SECOND", "INTERVAL '-1-2' YEAR TO MONTH"), (None, None)]
SPAN = dt.timedelta(1, 2 * 3600 + 3 * 60 + 4, 500_000)
EVERY_TYPE = [kind for name, kind in KINDS.items() if name != "INTERVAL"]


def rows_of(found: lsmlake.Result) -> list[tuple]:
    return with_texts(found.to_arrow()).to_pylist()


def test_a_result_has_durations_and_months(lake):
    found = lake.sql(BOTH)
    assert [field.type for field in found.to_arrow().schema] == [pa.duration("us"), pa.month_day_nano_interval()]
    assert [interval_of(field) for field in found.to_arrow().schema] == [DAY_TIME, YEAR_MONTH]
    assert found.fetchall() == [(SPAN, pa.MonthDayNano([-14, 0, 0])), (None, None)]
    assert "INTERVAL '1 02:03:04.5' DAY TO SECOND  INTERVAL '-1-2' YEAR TO MONTH" in repr(found)
    assert found.to_pandas()["d"][0] == SPAN and found.to_pandas()["m"][0].months == -14
    assert lake.sql("SELECT INTERVAL '1' DAY AS d").to_polars()["d"].to_list() == [dt.timedelta(1)]
    with pytest.raises(InvalidQuery, match=r"Polars has no INTERVAL of months.*'m'"):
        found.to_polars()


def test_texts_are_those_of_casts_for_all_types(lake):
    months = "INTERVAL '1-3' YEAR TO MONTH, INTERVAL '-0-3' YEAR TO MONTH, INTERVAL '-178956970-8' YEAR TO MONTH, NULL"
    times = (
        "INTERVAL '-106751991 04:00:54.775808' DAY TO SECOND, INTERVAL '1 23:59:59.999' DAY TO SECOND,"
        " INTERVAL '9:00' HOUR TO MINUTE, INTERVAL '-0.000001' SECOND, INTERVAL '0' DAY, NULL"
    )
    for kind in EVERY_TYPE:
        values = f"SELECT CAST(x AS {kind}) AS x FROM (SELECT explode(array({months if kind.is_months else times})) AS x)"
        rows = lake.sql(f"SELECT x, CAST(x AS STRING) AS t FROM ({values})").to_arrow()
        assert with_texts(rows)["x"].to_pylist() == rows["t"].to_pylist(), kind
        assert with_texts(rows.slice(1))["x"].to_pylist() == rows["t"].to_pylist()[1:], kind


def test_texts_stand_inside_of_values(lake):
    query = (
        "SELECT array(x, NULL) AS a, if(z = 1, array(x), NULL) AS n, struct(x AS y, z) AS s, map('k', x) AS m FROM VALUES"
        " (INTERVAL '1' MONTH, 1), (NULL, 2), (INTERVAL '3' MONTH, 1) v(x, z)"
    )
    rows = lake.sql(query).to_arrow()
    one, two, three = with_texts(rows).to_pylist()
    assert one["a"] == ["INTERVAL '1' MONTH", None] and one["s"] == {"y": "INTERVAL '1' MONTH", "z": 1}
    assert two == {"a": [None, None], "n": None, "s": {"y": None, "z": 2}, "m": [("k", None)]}
    assert three["n"] == ["INTERVAL '3' MONTH"] and three["m"] == [("k", "INTERVAL '3' MONTH")]
    assert with_texts(rows.slice(1)).to_pylist() == [two, three] and with_texts(rows.slice(3)).to_pylist() == []


def test_rows_of_a_result_are_rows_of_a_query(lake):
    rows = lake.sql(f"SELECT *, make_interval(1, 2, 0, 3) AS c FROM ({BOTH})").to_arrow()
    found = lake.sql("SELECT d, m, c, d + INTERVAL '1' HOUR AS e FROM r WHERE m < INTERVAL '1' YEAR", tables={"r": rows})
    assert rows_of(found) == [
        {"d": TEXTS[0][0], "m": TEXTS[0][1], "c": "1 years 2 months 3 days", "e": "INTERVAL '1 03:03:04.5' DAY TO SECOND"}
    ]
    plain = {"d": pa.array([SPAN], pa.duration("ns")), "m": pa.array([pa.MonthDayNano([1, 2, 3000])])}
    assert rows_of(lake.sql("SELECT d, m FROM r", tables={"r": pa.table(plain)})) == [
        {"d": TEXTS[0][0], "m": "1 months 2 days 0.000003 seconds"}
    ]
    wrong = pa.table({"m": plain["m"]}, schema=pa.schema([result_field("m", YEAR_MONTH)]))
    with pytest.raises(InvalidQuery, match="a value is no INTERVAL YEAR TO MONTH"):
        lake.sql("SELECT m FROM r", tables={"r": wrong})
    with pytest.raises(InvalidQuery, match="a value is no INTERVAL"):
        lake.sql("SELECT m FROM r", tables={"r": pa.table({"m": pa.array([pa.MonthDayNano([1, 2, 3])])})})


def test_arguments_and_long_calendar_intervals(lake):
    arguments = {"x": -SPAN, "y": dt.timedelta(0, 0, 1)}
    assert rows_of(lake.sql("SELECT :x AS x, :y AS y", args=arguments)) == [
        {"x": "INTERVAL '-1 02:03:04.5' DAY TO SECOND", "y": "INTERVAL '0 00:00:00.000001' DAY TO SECOND"}
    ]
    with pytest.raises(InvalidQuery, match="292 years"):
        lake.sql("SELECT make_interval(0, 0, 0, 0, 2147483647)")
    assert lake.sql("SELECT CAST(make_interval(0, 0, 0, 0, 2147483647) AS STRING) AS x").fetchall() == [("2147483647 hours",)]


# -- tables, views and the command line -----------------------------------------------------------------------------------


def test_views_have_intervals_and_tables_have_none(lake):
    lake.sql("CREATE TABLE d.spans (id INT, a DATE, b DATE, n STRING) PRIMARY KEY (id)")
    lake.sql("INSERT INTO d.spans VALUES (1, DATE '2026-01-01', DATE '2026-03-02', NULL), (2, NULL, DATE '2026-01-01', NULL)")
    lake.sql("CREATE VIEW d.ages AS SELECT id, b - a AS age, array(b - a) AS ages, INTERVAL '1' MONTH AS term FROM d.spans")
    lake.sql("CREATE TEMPORARY VIEW old AS SELECT * FROM d.ages WHERE age > INTERVAL '30' DAY")
    assert rows_of(lake.sql("SELECT * FROM old")) == [
        {"id": 1, "age": "INTERVAL '60' DAY", "ages": ["INTERVAL '60' DAY"], "term": "INTERVAL '1' MONTH"}
    ]
    kinds = ["INT", "INTERVAL DAY", "ARRAY<INTERVAL DAY>", "INTERVAL MONTH"]
    assert lake.sql("DESCRIBE d.ages").to_arrow()["data_type"].to_pylist() == kinds
    assert lake.sql("DESCRIBE SELECT * FROM d.ages").to_arrow()["data_type"].to_pylist() == kinds
    for statement in (
        "CREATE TABLE d.x (a INTERVAL DAY)",
        "CREATE TABLE d.x AS SELECT id, age FROM d.ages",
        "CREATE TABLE d.x AS SELECT id, term FROM d.ages",
        "ALTER TABLE d.spans ADD COLUMN x INTERVAL DAY",
        "INSERT INTO d.spans SELECT 3, b - a, b, '' FROM d.spans",
        "UPDATE d.spans SET id = b - a",
    ):
        with pytest.raises((InvalidQuery, InvalidSchema)):
            lake.sql(statement)
    lake.sql("UPDATE d.spans SET n = b - a WHERE b - a > INTERVAL '1' DAY")
    assert lake.sql("SELECT id, n FROM d.spans ORDER BY id").fetchall() == [(1, "INTERVAL '60' DAY"), (2, None)]


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("csv", "d,m\n{0},{1}\n,\n"),
        ("json", '{{"d": "{0}", "m": "{1}"}}\n{{"d": null, "m": null}}\n'),
    ],
)
def test_the_command_line_writes_texts(tmp_path, format: str, expected: str):
    found = CliRunner().invoke(app, ["sql", BOTH, "--format", format, "-w", str(tmp_path)])
    assert found.stdout == expected.format(*TEXTS[0]), found.stderr


def test_the_command_line_writes_files(tmp_path):
    def call(query: str, *more: str):
        return CliRunner().invoke(app, ["sql", query, *more, "-w", str(tmp_path)])

    assert TEXTS[0][0] in call(BOTH).stdout and TEXTS[0][1] in call(BOTH, "--json").stdout
    assert "no INTERVAL of months" in call(BOTH, "--output", str(tmp_path / "x.parquet")).stderr
    assert call(f"SELECT d FROM ({BOTH})", "--output", str(tmp_path / "d.parquet")).exit_code == 0
    assert pq.read_table(tmp_path / "d.parquet")["d"].to_pylist() == [SPAN, None]
    assert call(BOTH, "--output", str(tmp_path / "x.arrow")).exit_code == 0
    with pa.ipc.open_file(tmp_path / "x.arrow") as file:
        assert [interval_of(field) for field in file.schema] == [DAY_TIME, YEAR_MONTH]
