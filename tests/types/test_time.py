"""TIME, a time of day in microseconds, and UUIDs in imports: what the table of types says holds from end to end."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lsmlake
from lsmlake.cli.app import app
from lsmlake.errors import InvalidData, InvalidOption, InvalidQuery, InvalidSchema, UnsupportedFormat
from lsmlake.schema import envelope
from lsmlake.schema.schema import Schema

T = dt.time
EARLY, NOON, LAST = T(0), T(12, 0, 0, 5), T.max


@pytest.fixture
def lake(tmp_path):
    made = lsmlake.connect(tmp_path / "lake")
    made.create_database("d")
    return made


@pytest.fixture
def table(lake):
    made = lake.create_table("d.t", "k TIME NOT NULL, v TIME(6), n INT", primary_key=["k"], options={"bucket": "2"})
    made.upsert([{"k": EARLY, "v": LAST, "n": 1}, {"k": NOON, "v": None, "n": 2}, {"k": LAST, "v": EARLY, "n": 3}])
    return made


def keys(rows) -> list[T]:
    return sorted(rows.to_arrow()["k"].to_pylist())


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"k": pa.array([NOON], pa.time64("ns")), "v": pa.array([T(1)], pa.time32("s")), "n": [9]}),
        pd.DataFrame({"k": [NOON], "v": [T(1)], "n": [9]}),
        pl.DataFrame({"k": [NOON], "v": [T(1)], "n": [9]}),
        [{"k": NOON, "v": T(1), "n": 9}],
    ],
    ids=["arrow", "pandas", "polars", "dicts"],
)
def test_rows_of_every_kind_replace_the_row_of_their_key(table, rows):
    table.upsert(rows)
    assert table.get({"k": NOON}) == {"k": NOON, "v": T(1), "n": 9}


def test_duckdb_and_text_are_taken(table):
    table.upsert(duckdb.sql("SELECT TIME '12:00:00.000005' AS k, TIME '01:00:00' AS v, 9 AS n"))
    assert table.get({"k": NOON})["n"] == 9
    table.upsert([{"k": " 12:00:00.0000050", "v": "01:02", "n": 10}], cast=True)
    assert table.get({"k": NOON}) == {"k": NOON, "v": T(1, 2), "n": 10}


@pytest.mark.parametrize(
    "wrap", [list, pd.Series, lambda values: [[one] for one in values], lambda values: [{"a": one} for one in values]]
)
def test_a_time_with_a_zone_is_refused(lake, wrap):
    values = wrap([None, T(1), T(1, tzinfo=dt.timezone.utc)])
    with pytest.raises(InvalidData, match="column 't', row 2: a time of day with a time zone"):
        lake.create_table_from("d.z", {"t": values})
    with pytest.raises(InvalidQuery, match=r"parameter t has a type that SQL does not have.*without a zone"):
        lake.sql("SELECT :t", args={"t": T(1, tzinfo=dt.timezone.utc)})


@pytest.mark.parametrize(
    "text", ["24:00:00", "12", "1:00", "12:60:00", "12:00:00.0000001", "12:00:00Z", "2026-01-01 12:00:00", ""]
)
def test_other_text_is_refused(table, text):
    with pytest.raises(InvalidData, match="column 'k', row 0"):
        table.upsert([{"k": text, "v": None, "n": 1}], cast=True)


def test_nanoseconds_are_refused(table):
    with pytest.raises(InvalidData, match="lose data"):
        table.upsert(pa.table({"k": pa.array([1], pa.time64("ns")), "v": [None], "n": [1]}))


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("k = TIME '12:00:00.000005'", [NOON]),
        ("k > '12:00:00.000004'", [NOON, LAST]),
        ("k BETWEEN TIME '0:0' AND TIME '12:00'", [EARLY]),
        ("k IN (TIME '00:00:00', CAST('23:59:59.999999' AS TIME))", [EARLY, LAST]),
        ("v IS NULL", [NOON]),
        ("v < k", [LAST]),
        ("NOT k < TIME '12:00'", [NOON, LAST]),
        ("hour(k) = 23", [LAST]),
    ],
)
def test_a_condition_selects_the_same_rows_in_every_engine(table, where, found):
    assert keys(table.scan(where=where)) == found
    assert sorted(table.scan(where=where).to_polars().collect()["k"].to_list()) == found
    assert sorted(row[0] for row in table.scan(where=where).to_duckdb().fetchall()) == found
    table.compact(full=True)
    assert keys(table.scan(where=where)) == found


@pytest.mark.parametrize("value", ["5", "DATE '2026-01-01'", "TIMESTAMP '2026-01-01 12:00:00'", "TRUE"])
def test_a_comparison_with_another_type_is_refused(table, value):
    with pytest.raises(InvalidQuery, match="the types do not fit together, found TIME and"):
        table.scan(where=f"k = {value}").to_arrow()


def test_files_are_skipped_by_bounds_and_by_indexes(lake):
    options = {"file-index.bloom-filter.columns": "v"}
    table = lake.create_table("d.s", "k INT, v TIME", primary_key=["k"], options=options)
    table.upsert([{"k": 1, "v": T(1)}, {"k": 2, "v": T(3)}])
    table.upsert([{"k": 3, "v": T(5)}, {"k": 4, "v": T(7)}])
    assert table.scan(where="v > TIME '04:00'").to_arrow()["k"].to_pylist() == [3, 4]
    assert "-> 1 (statistics)" in str(table.scan(where="v > TIME '04:00'").explain())
    assert table.scan(where="v = TIME '02:00'").to_arrow().num_rows == 0


@pytest.mark.parametrize("by", ["k", "bucket(4, k)"])
def test_rows_are_partitioned_by_times(lake, tmp_path, by):
    table = lake.create_table("d.p", "k TIME, n INT", partition_by=[by])
    table.append([{"k": NOON, "n": 1}, {"k": EARLY, "n": 2}, {"k": None, "n": 3}])
    assert table.scan(where="k = TIME '00:00'").to_arrow()["n"].to_pylist() == [2]
    assert sorted(lsmlake.connect(tmp_path / "lake").table("d.p").scan().to_arrow()["n"].to_pylist()) == [1, 2, 3]
    with pytest.raises(InvalidSchema, match="does not take this type"):
        lake.create_table("d.h", "k TIME", partition_by=["hours(k)"])


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("min(k)", EARLY),
        ("max(v)", LAST),
        ("hour(max(k))", 23),
        ("CAST(max(k) AS STRING)", "23:59:59.999999"),
        ("CAST(TIME '01:02:03.120' AS STRING)", "01:02:03.12"),
        ("CAST(' 1:2:3.5' AS TIME)", T(1, 2, 3, 500_000)),
        ("CAST(TIMESTAMP '2026-01-01 10:11:12.5' AS TIME)", T(10, 11, 12, 500_000)),
        ("try_cast('25:00' AS TIME)", None),
        ("to_json(named_struct('a', TIME '10:00:00.1'))", '{"a":"10:00:00.1"}'),
        ("typeof(max(k))", "time(6)"),
        ("coalesce(max(CAST(NULL AS TIME)), TIME '01:00')", T(1)),
    ],
)
def test_expressions_of_sql(lake, table, expression, value):
    assert lake.sql(f"SELECT {expression} AS x FROM d.t").to_arrow()["x"].unique().to_pylist() == [value]


@pytest.mark.parametrize(
    "expression",
    ["TIME '10:00' + INTERVAL 1 HOUR", "TIME '10:00' - TIME '9:00'", "CAST(k AS INT)", "CAST(k AS TIME(3))", "sum(k)", "year(k)"],
)
def test_what_is_not_supported_in_process_is_refused_by_name(lake, table, expression):
    with pytest.raises(InvalidQuery, match="TIME"):
        lake.sql(f"SELECT {expression} FROM d.t")


@pytest.mark.parametrize("call", ["current_time", "current_time()", "localtime"])
def test_the_time_of_day_of_a_statement(lake, table, call):
    found = lake.sql(f"SELECT {call} AS x, CAST(current_timestamp() AS TIME) AS y FROM d.t").to_arrow()
    assert found["x"].type == pa.time64("us")
    assert found["x"].equals(found["y"])
    with pytest.raises(InvalidQuery, match="number of arguments"):
        lake.sql("SELECT current_time(3)")


def test_the_schema_says_that_it_needs_a_reader_that_knows_the_type(lake, monkeypatch):
    schema = lake.create_table("d.v", "k INT, t ARRAY<TIME>").version.schema
    assert json.loads(schema.encode())["version"] == 3
    assert Schema.decode(schema.encode(), "s") == schema
    monkeypatch.setitem(envelope._NEWEST, "schema", 2)
    with pytest.raises(UnsupportedFormat, match="expected version 2 or older, found version 3"):
        Schema.decode(schema.encode(), "s")


def test_statements_write_times(lake, table):
    lake.sql("INSERT INTO d.t VALUES (TIME '20:00:00', NULL, 4)")
    lake.sql("UPDATE d.t SET v = :v WHERE k = TIME '20:00'", args={"v": T(5)})
    assert table.get({"k": T(20)}) == {"k": T(20), "v": T(5), "n": 4}
    lake.sql("MERGE INTO d.t USING (SELECT TIME '20:00' AS k2) s ON t.k = s.k2 WHEN MATCHED THEN DELETE")
    lake.sql("DELETE FROM d.t WHERE k < TIME '12:00'")
    lake.sql("ALTER TABLE d.t ADD COLUMN z TIME DEFAULT TIME '10:00:00.5'")
    assert lake.table("d.t").scan().to_arrow()["z"].to_pylist() == [T(10, 0, 0, 500_000)] * 2
    assert "k TIME NOT NULL" in lake.sql("SHOW CREATE TABLE d.t").to_arrow()[0][0].as_py()


@pytest.mark.parametrize(("form", "shown"), [("json", '"12:00:00.000005"'), ("csv", "12:00:00.000005")])
def test_the_command_line_prints_times(tmp_path, table, form, shown):
    result = CliRunner().invoke(app, ["sql", "SELECT k FROM d.t WHERE n = 2", "-w", str(tmp_path / "lake"), "--format", form])
    assert result.exit_code == 0
    assert shown in result.stdout


def test_iceberg_is_published_and_imported(lake, tmp_path):
    table = lake.create_table(
        "d.i", "k TIME NOT NULL, v TIME", primary_key=["k"], options={"metadata.iceberg": "true", "bucket": "1"}
    )
    table.upsert([{"k": NOON, "v": None}, {"k": LAST, "v": EARLY}])
    lake.sql("ALTER TABLE d.i ADD COLUMN z TIME DEFAULT TIME '10:00:00.5'")
    table = lake.table("d.i")
    table.compact(full=True)
    (hint,) = (tmp_path / "lake" / "d.db" / "i" / "metadata").glob("version-hint.text")
    content = json.loads((hint.parent / f"v{hint.read_text()}.metadata.json").read_text())
    fields = content["schemas"][-1]["fields"]
    assert [field["type"] for field in fields] == ["time"] * 3
    assert fields[2]["initial-default"] == "10:00:00.500000"
    lake.import_iceberg(hint.parent.parent, "d.j")
    assert lake.table("d.j").scan().to_arrow().sort_by("k").to_pylist() == table.scan().to_arrow().sort_by("k").to_pylist()


def test_values_inside_of_others(lake):
    table = lake.create_table("d.n", "k INT, s STRUCT<a: TIME, b: ARRAY<TIME>>, m MAP<STRING, TIME>", primary_key=["k"])
    table.upsert([{"k": 1, "s": {"a": NOON, "b": [LAST, None]}, "m": {"x": EARLY}}])
    table.compact(full=True)
    assert table.scan(where="s.a = TIME '12:00:00.000005'").to_pylist() == [
        {"k": 1, "s": {"a": NOON, "b": [LAST, None]}, "m": [("x", EARLY)]}
    ]


def test_files_of_text_are_taken(table, tmp_path):
    (tmp_path / "a.csv").write_text("k,v,n\n12:00:00.000005,01:00,7\n13:00,,8\n")
    (tmp_path / "a.json").write_text('{"k": "00:00:00", "v": "23:59:59.999999", "n": 9}\n')
    table.upsert(tmp_path / "a.csv")
    table.upsert(tmp_path / "a.json")
    assert [row["n"] for row in table.scan().to_arrow().sort_by("k").to_pylist()] == [9, 7, 8, 3]
    (tmp_path / "a.csv").write_text("k,v,n\n12:00:00.0000005,01:00,7\n")
    with pytest.raises(InvalidData, match=r"column 'k'.*not a time of day"):
        table.upsert(tmp_path / "a.csv")


@pytest.mark.parametrize("micros", [-1, 86_400_000_000])
def test_what_is_no_time_of_a_day_is_refused(table, micros):
    with pytest.raises(InvalidData, match=r"column 'k'.* is not within the acceptable range"):
        table.upsert(pa.table({"k": pa.array([micros], pa.time64("us")), "v": pa.nulls(1, pa.time64("us")), "n": [1]}))


@pytest.mark.parametrize("values", [pa.array([1], pa.int64()), pa.array([dt.datetime(2026, 1, 1)]), pa.array([1.5])])
def test_values_of_other_types_are_refused(table, values):
    with pytest.raises(InvalidData, match=r"column 'k'.*expected TIME"):
        table.upsert(pa.table({"k": values, "v": pa.nulls(1, pa.time64("us")), "n": [1]}), cast=True)


def test_the_latest_time_wins(lake):
    table = lake.create_table("d.s", "k INT, t TIME, v INT", primary_key=["k"], options={"sequence.field": "t"})
    for t, v in ((T(5), 5), (T(4), 4), (T(5, 0, 0, 1), 6), (None, 7)):
        table.upsert([{"k": 1, "t": t, "v": v}])
    assert table.get({"k": 1})["v"] == 6
    table.compact(full=True)
    assert table.get({"k": 1})["v"] == 6


def test_aggregations(lake):
    functions = {"a": "max", "b": "min", "c": "last_value", "e": "collect"}
    options = {f"fields.{name}.aggregate-function": function for name, function in functions.items()}
    columns = "k INT, a TIME, b TIME, c TIME, e ARRAY<TIME>"
    table = lake.create_table("d.a", columns, primary_key=["k"], options={"merge-engine": "aggregation", **options})
    for hour in (5, 4, 6):
        table.upsert([{"k": 1, **dict.fromkeys("abc", T(hour)), "e": [T(hour)]}])
    expected = {"k": 1, "a": T(6), "b": T(4), "c": T(6), "e": [T(5), T(4), T(6)]}
    assert table.get({"k": 1}) == expected
    table.compact(full=True)
    assert table.get({"k": 1}) == expected
    with pytest.raises(InvalidOption, match="'sum' does not support this type"):
        options = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
        lake.create_table("d.b", "k INT, a TIME", primary_key=["k"], options=options)


def test_changes_have_times(lake):
    table = lake.create_table("d.l", "k INT, t TIME", primary_key=["k"], options={"changelog-producer": "lookup"})
    table.upsert([{"k": 1, "t": T(5)}])
    table.upsert([{"k": 1, "t": LAST}])
    found = table.changes(1, 2).to_arrow()
    assert [(row["_row_kind"], row["t"]) for row in found.to_pylist()] == [("-U", T(5)), ("+U", LAST)]


def test_new_columns_and_types_that_do_not_change(lake):
    table = lake.create_table("d.e", "k INT", primary_key=["k"])
    table.upsert(pa.table({"k": [2], "z": pa.array([T(7)], pa.time32("ms"))}), evolve=True)
    table = lake.table("d.e")
    assert table.scan().to_pylist() == [{"k": 2, "z": T(7)}]
    for other in ("STRING", "TIMESTAMP_NTZ", "BIGINT"):
        with pytest.raises(InvalidSchema, match="expected a type that holds every value of TIME"):
            lake.sql(f"ALTER TABLE d.e ALTER COLUMN z TYPE {other}")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT k FROM d.t WHERE k IN ('12:00:00.000005', TIME '23:59:59.999999') ORDER BY k DESC", [LAST, NOON]),
        ("SELECT count(DISTINCT k) FROM d.t", [3]),
        ("SELECT minute(k) + second(k) FROM d.t WHERE n = 3", [118]),
        ("SELECT extract(SECOND FROM k) FROM d.t WHERE n = 2", [Decimal("0.000005")]),
        ("SELECT date_part('HOUR', k) FROM d.t ORDER BY k", [0, 12, 23]),
        ("SELECT greatest(k, '13:00') FROM d.t WHERE n = 2", [T(13)]),
        ("SELECT array(k, v) FROM d.t WHERE n = 2", [[NOON, None]]),
        ("SELECT max(k) OVER (ORDER BY k) FROM d.t ORDER BY k", [EARLY, NOON, LAST]),
        ("SELECT a.n FROM d.t a JOIN d.t b ON a.k = b.v ORDER BY 1", [1, 3]),
    ],
)
def test_queries(lake, table, query, found):
    assert lake.sql(query).to_arrow()[0].to_pylist() == found


@pytest.mark.parametrize("expression", ["extract(DAY FROM k)", "median(k)", "time_trunc('HOUR', k)", "CAST(k AS TIMESTAMP)"])
def test_other_functions_are_refused_by_name(lake, table, expression):
    with pytest.raises(InvalidQuery, match=r"(?i)time"):
        lake.sql(f"SELECT {expression} FROM d.t")


@pytest.mark.parametrize("text", ["24:00", "1", "10:00 PM", "10:00Z", "1:2:3.1234567", "10:60", ""])
def test_text_that_is_no_time_is_refused_in_sql(lake, table, text):
    with pytest.raises(InvalidQuery, match="TIME"):
        lake.sql(f"SELECT TIME '{text}'").to_arrow()
    with pytest.raises(InvalidQuery, match="cannot be cast to TIME"):
        table.scan(where=f"k = '{text}'").to_arrow()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_parquet_files_with_times_are_imported(lake, tmp_path, unit):
    type_ = pa.time64(unit) if unit in ("us", "ns") else pa.time32(unit)
    pq.write_table(pa.table({"t": pa.array([T(1), None, T(23, 59, 59)], type_)}), tmp_path / "a.parquet")
    report = lake.import_parquet(tmp_path / "a.parquet", "d.u")
    assert report.adopted == (unit == "us")
    assert lake.table("d.u").scan().to_arrow()["t"].to_pylist() == [T(1), None, T(23, 59, 59)]


def test_times_that_readers_take_otherwise_are_written_anew(lake, tmp_path):
    """DuckDB reads a TIME in UTC as one with a time zone, and Spark by a declared schema only."""
    rows = pa.table({"t": pa.array([T(1), None], pa.time64("us"))})
    pq.write_table(rows, tmp_path / "a.parquet", write_time_adjusted_to_utc=True)
    report = lake.import_parquet(tmp_path / "a.parquet", "d.u")
    assert report.rewritten == {"column 't' is stored as TIME in UTC": 1}
    assert lake.table("d.u").scan(where="t = TIME '01:00'").to_duckdb().fetchall() == [(T(1),)]


def test_parquet_files_with_nanoseconds_are_not_rounded(lake, tmp_path):
    pq.write_table(pa.table({"t": pa.array([1001], pa.time64("ns"))}), tmp_path / "a.parquet")
    with pytest.raises(InvalidData, match="would lose data"):
        lake.import_parquet(tmp_path / "a.parquet", "d.u")
    pq.write_table(pa.table({"t": pa.array([86_400_000_000], pa.time64("us"))}), tmp_path / "a.parquet")
    with pytest.raises(InvalidData, match="no time of day"):
        lake.import_parquet(tmp_path / "a.parquet", "d.u")


def test_pyiceberg_reads_the_published_table(lake, tmp_path):
    tables = pytest.importorskip("pyiceberg.table")
    options = {"metadata.iceberg": "true", "bucket": "1"}
    table = lake.create_table("d.y", "k TIME, v TIME, n INT", primary_key=["k", "n"], partition_by=["k"], options=options)
    table.upsert([{"k": NOON, "v": None, "n": 1}, {"k": LAST, "v": EARLY, "n": 2}])
    table.compact(full=True)
    (hint,) = (tmp_path / "lake" / "d.db" / "y" / "metadata").glob("version-hint.text")
    read = tables.StaticTable.from_metadata(str(hint.parent / f"v{hint.read_text()}.metadata.json"))
    assert read.scan(row_filter="v = '00:00:00'").to_arrow().to_pylist() == [{"k": LAST, "v": EARLY, "n": 2}]
    assert sorted(read.scan().to_arrow()["k"].to_pylist()) == [NOON, LAST]


def test_a_release_of_spark_without_the_type_is_named(monkeypatch):
    types = pytest.importorskip("pyspark.sql.types")
    from lsmlake.spark.frame_types import to_spark

    monkeypatch.delattr(types, "TimeType")
    with pytest.raises(InvalidSchema, match="this release of Spark lacks a column type, found TIME"):
        to_spark(pa.schema([("t", pa.time64("us"))]))


def test_uuids_of_parquet_files_are_their_sixteen_bytes(lake, tmp_path):
    ids = [uuid.UUID(int=5), None, uuid.UUID(int=2**128 - 1)]
    stored = pa.array([one and one.bytes for one in ids], pa.binary(16))
    pq.write_table(pa.table({"u": pa.ExtensionArray.from_storage(pa.uuid(), stored), "t": [NOON] * 3}), tmp_path / "a.parquet")
    lake.import_parquet(tmp_path / "a.parquet", "d.u")
    found = lake.table("d.u").scan().to_arrow()
    assert found.schema.types == [pa.binary(), pa.time64("us")]
    assert found["u"].to_pylist() == [one and one.bytes for one in ids]
