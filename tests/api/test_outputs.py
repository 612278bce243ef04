"""Results as Arrow, pandas, Polars and DuckDB; point lookups, limits, tables from data, display in notebooks."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from strategies import contents, new_lake

import lsmlake
from lsmlake.api.table import Table
from lsmlake.errors import InvalidData, InvalidQuery, InvalidSchema, MissingDependency, TableExists


@pytest.fixture(params=["vectors", "merge on read"])
def table(request) -> Table:
    """Keys 0 to 299 in three commits, the last one waiting at level 0; 0 to 9 are deleted."""
    options = {"bucket": 2, "deletion-vectors.enabled": request.param == "vectors"}
    table = new_lake().create_table("d.t", "k BIGINT NOT NULL, v DOUBLE, s STRUCT<x INT>", primary_key=["k"], options=options)
    for start in (0, 100, 200):
        rows = [{"k": k, "v": k / 2, "s": {"x": k % 7}} for k in range(start, start + 100)]
        table.upsert(rows, compact=start < 200)
    table.delete_keys({"k": list(range(10))}, compact=False)
    return table


def test_integers_inside_of_values_are_not_rounded_for_pandas(lake):
    table = lake.create_table("d.inside", "k INT, s STRUCT<n: BIGINT>, m MAP<STRING, BIGINT>")
    table.append([{"k": 1, "s": {"n": 2**53 + 1}, "m": {"a": 2**53 + 1, "b": None}}, {"k": 2, "s": {"n": None}, "m": None}])
    found = table.to_pandas().sort_values("k")
    assert found["s"].tolist() == [{"n": 2**53 + 1}, {"n": None}] and dict(found["m"][0]) == {"a": 2**53 + 1, "b": None}


def test_integers_beside_nulls_are_not_rounded_for_pandas(lake):
    table = lake.create_table("d.n", "k INT NOT NULL, big BIGINT, small BIGINT, l ARRAY<BIGINT>", primary_key=["k"])
    table.upsert([{"k": 1, "big": 2**53 + 1, "small": 5, "l": [None, 1]}, {"k": 2, "big": None, "small": None, "l": None}])
    found = table.scan().to_pandas()
    assert found["big"].tolist() == [2**53 + 1, None] and found["small"].tolist() == [5, None]
    assert table.scan(columns=["k", "small"]).to_pandas()["small"].dtype == "float64", "floats hold these"
    table.upsert([{"k": 1, "big": 1, "small": 5, "l": [None, -(2**53) - 1]}])
    assert list(table.to_pandas().sort_values("k")["l"][0]) == [None, -(2**53) - 1]


def test_a_scan_is_data_for_everybody(table):
    scan = table.scan(where="k < 20", columns=["k", "v"])
    expected = pa.table({"k": range(10, 20), "v": [k / 2 for k in range(10, 20)]})
    assert pa.table(scan).sort_by("k").to_pydict() == expected.to_pydict()
    assert pl.DataFrame(scan).sort("k").equals(scan.to_polars().sort("k").collect())
    assert duckdb.connect().sql("SELECT sum(k), count(*) FROM scan").fetchall() == [(145, 10)]
    relation = scan.to_duckdb(duckdb.connect())
    assert relation.aggregate("sum(k)").fetchall() == relation.aggregate("sum(k)").fetchall() == [(145,)]
    assert scan.to_pandas()["k"].sum() == 145
    assert len(scan) == 10 and len(table.scan()) == 290
    changes = table.changes(3)
    assert duckdb.connect().sql("SELECT DISTINCT _row_kind FROM changes").fetchall() == [("-D",)]
    assert pl.DataFrame(changes).height == changes.count() == 10
    (batch,) = table.follow(snapshot=4, mode="diff")
    assert batch.to_polars().height == pa.table(batch).num_rows == 10
    copy = new_lake().create_table("d.copy", table.schema, primary_key=["k"])
    assert copy.upsert(table.scan()).total_rows == 290


def test_limit(table):
    full = table.scan().to_arrow()
    for limit in (0, 1, 7, 289, 290, 1000):
        scan = table.scan(limit=limit)
        rows = scan.to_arrow()
        assert rows.num_rows == len(scan) == min(limit, 290)
        assert set(rows["k"].to_pylist()) <= set(full["k"].to_pylist())
        assert table.scan(where="k < 15", limit=limit).to_arrow().num_rows == table.scan(where="k < 15", limit=limit).count()
    assert table.scan(where="k < 15", limit=9).count() == 5
    assert "limit 3" in table.scan(limit=3).explain()
    for much in (2**31, 2**63, 2**70):
        assert table.scan(limit=much).to_arrow().num_rows == table.scan(limit=much).count() == 290
        assert table.scan(limit=much, where=pc.field("k") < 15).count() == 5
        with pytest.raises(InvalidQuery, match=r"at most 2,147,483,647, found \d+; omit the limit"):
            table.scan(limit=much).to_spark()
    table.compact(full=True)
    assert table.scan(limit=3).plan().files == 1 < table.scan().plan().files
    for wrong in (-1, "3", 1.5):
        with pytest.raises(InvalidQuery, match="limit"):
            table.scan(limit=wrong)


def test_a_pyarrow_expression_is_a_condition(table):
    low = pc.field("k") < 15
    assert sorted(table.scan(where=low, columns=["v"]).to_arrow()["v"].to_pylist()) == [5.0, 5.5, 6.0, 6.5, 7.0]
    nested = pc.field("s", "x") == 3
    assert table.scan(where=nested).count() == table.scan(where="s.x = 3").count() > 30
    assert table.scan(where=pc.field(0) < 15, columns=["v"]).count() == 5
    assert table.scan(where=low | (pc.field("v") > 148), columns=["k"], limit=6).count() == 6
    assert "no file is pruned" in table.scan(where=low).explain()
    for wrong in (pc.field("zz") == 1, pc.field("k") == "x", pc.field("k")):
        with pytest.raises(InvalidQuery, match="where cannot be evaluated"):
            table.scan(where=wrong).to_arrow()
    with pytest.raises(InvalidQuery) as caught:
        table.scan(where=pc.field("zz") > 1).to_arrow()
    assert str(caught.value) == (
        "where cannot be evaluated, expected a boolean expression over the columns k, v, s, "
        "found (zz > 1): No match for FieldRef.Name(zz); correct the expression, or write the condition as SQL text"
    )


def test_an_expression_that_cannot_be_evaluated_is_refused_in_few_words():
    columns = pa.schema([pa.field(f"column_{number}", pa.int64()) for number in range(500)])
    wide = new_lake().create_table("d.wide", columns, primary_key=["column_0"])
    for wrong in (pc.field("zz").isin(list(range(5_000))), pc.field("column_1") == "x", pc.field("column_1")):
        with pytest.raises(InvalidQuery, match="column_19 and 480 more") as caught:
            wide.scan(where=wrong).to_arrow()
        assert len(str(caught.value)) < 1_000 and "\n" not in str(caught.value)


def test_get(table):
    assert table.get({"k": 12}) == {"k": 12, "v": 6.0, "s": {"x": 5}}
    assert table.get({"k": 3}) is None and table.get({"k": 1000}) is None
    found = table.get([{"k": 250}, {"k": 1}, {"k": 12}, {"k": 250}])
    assert found["k"].to_pylist() == [250, 12]
    assert table.get(pd.DataFrame({"k": [299, 10]}))["k"].to_pylist() == [299, 10]
    assert table.get([]).num_rows == 0
    for wrong, word in (({"k": "x"}, "column 'k'"), ({"v": 1.0}, "lacks"), ({"k": 1, "v": 2.0}, "extra"), ({"k": None}, "null")):
        with pytest.raises(InvalidData, match=word):
            table.get(wrong)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ({}, "the key lacks the columns ['k'], expected the primary key columns ['k'], found {};"),
        ([{}], "the key lacks the columns ['k']"),
        ({"v": 1.0}, "the key lacks the columns ['k'] and has extra columns ['v'], expected the primary key columns ['k']"),
        ([{"k": 1}, {"k": 2, "v": 1.0}], "the key has extra columns ['v']"),
        ({"k": "1"}, "column 'k': type does not fit, expected BIGINT, found string;"),
        ({"k": 1.0}, "column 'k': type does not fit, expected BIGINT, found double;"),
        ({"k": 2**70}, "column 'k', row 0: a value does not fit, expected BIGINT, found 1180591620717411303424"),
        ([{"k": 1}, {"k": None}], "column 'k', row 1: a null in a NOT NULL column"),
        ("1", "a key is a dict, expected the primary key columns ['k'], found '1';"),
        (1, "a key is a dict, expected the primary key columns ['k'], found 1;"),
        ([1, 2], "a key is a dict, expected the primary key columns ['k'], found 1;"),
        (None, "a key is a dict, expected the primary key columns ['k'], found None;"),
        (Path("keys.csv"), "a key is a dict"),
    ],
)
def test_get_explains_how_to_write_a_key(table, key, words):
    with pytest.raises(InvalidData) as caught:
        table.get(key)
    assert str(caught.value).startswith(words), str(caught.value)
    assert str(caught.value).endswith("; write {'k': ...}, or a list of such dicts; the types are k BIGINT")


def test_get_by_a_key_of_several_columns():
    ddl = "p STRING, d DATE, k DECIMAL(5,1) NOT NULL, v INT"
    table = new_lake().create_table("d.t", ddl, primary_key=["p", "d", "k"], partition_by=["p"], options={"bucket": 3})
    day = dt.date(2026, 1, 2)
    keys = [(p, day + dt.timedelta(i), Decimal(k) / 2) for p in (None, "a", "b") for i in range(3) for k in range(4)]
    assert table.get({"p": None, "d": day, "k": 1}) is None, "nothing was written yet"
    table.upsert([{"p": p, "d": d, "k": k, "v": number} for number, (p, d, k) in enumerate(keys)])
    for number, (p, d, k) in enumerate(keys):
        assert table.get({"p": p, "d": d, "k": k})["v"] == number
    some = [keys[30], keys[2], ("zz", day, Decimal(1)), keys[17]]
    assert table.get([{"p": p, "d": d, "k": k} for p, d, k in some])["v"].to_pylist() == [30, 2, 17]


# --- tables from data ---


def test_a_table_from_data(tmp_path):
    lake = new_lake()
    frame = pl.DataFrame({"id": [1, 2], "c": ["x", "y"], "n": [1.5, None], "at": [dt.datetime(2026, 1, 2)] * 2}).with_columns(
        pl.col("c").cast(pl.Categorical), pl.col("id").cast(pl.UInt64).alias("u"), pl.col("at").dt.cast_time_unit("ns")
    )
    table = lake.create_table_from("d.t", frame, primary_key=["id"], options={"bucket": 2}, comment="made")
    assert [str(field.type) for field in table.schema] == ["int64", "string", "double", "timestamp[us]", "decimal128(20, 0)"]
    assert [field.name for field in table.schema if not field.nullable] == ["id"]
    assert (table.snapshots().num_rows, table.comment) == (1, "made")
    assert table.get({"id": 2}) == {"id": 2, "c": "y", "n": None, "at": dt.datetime(2026, 1, 2), "u": Decimal(2)}
    with pytest.raises(TableExists):
        lake.create_table_from("d.t", frame, primary_key=["id"])
    (tmp_path / "a.csv").write_text("id,zip,amount,day,note\n1,00501,9.5,2026-01-02,\n2,10001,1e2,2026-01-03,\n")
    table = lake.create_table_from("d.csv", tmp_path / "a.csv", primary_key=["id"])
    assert [str(field.type) for field in table.schema] == ["int64", "string", "double", "date32[day]", "string"]
    assert table.get({"id": 1}) == {"id": 1, "zip": "00501", "amount": 9.5, "day": dt.date(2026, 1, 2), "note": None}
    (tmp_path / "b.jsonl").write_text('{"id": 1, "tags": ["a"], "at": "2026-01-02 03:04:05"}\n{"id": 2}\n')
    table = lake.create_table_from("d.json", tmp_path / "b.jsonl", primary_key=["id"])
    assert table.get({"id": 1}) == {"id": 1, "tags": ["a"], "at": dt.datetime(2026, 1, 2, 3, 4, 5)}
    batches = (pa.record_batch({"k": range(i, i + 10)}) for i in range(0, 50, 10))
    assert lake.create_table_from("d.gen", batches, primary_key=["k"], partition_by=[]).scan().count() == 50
    assert lake.create_table_from("d.empty", pa.table({"k": pa.array([], pa.int64())}), primary_key=["k"]).scan().count() == 0


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ({"k": [1], "t": [dt.timedelta(1)]}, InvalidSchema, ["column 't'", "duration"]),
        ({"k": [1], "n": [None]}, InvalidSchema, ["column 'n'", "unknown"]),
        ({"k": [1, None]}, InvalidData, ["column 'k'", "row 1", "null"]),
        ({"v": [1]}, InvalidSchema, ["'k'"]),
        (pd.DataFrame({"k": pd.to_datetime(["2026-01-02 00:00:00.000000001"])}), InvalidData, ["column 'k', row 0", "000000001"]),
        ([], InvalidData, ["no columns"]),
    ],
)
def test_data_that_makes_no_table_leaves_none(data, error, words):
    lake = new_lake()
    before = contents(lake.env.storage)
    with pytest.raises(error) as caught:
        lake.create_table_from("d.t", data, primary_key=["k"])
    assert all(word in str(caught.value) for word in words), caught.value
    assert lake.tables("d") == [] and contents(lake.env.storage) == before


# --- what is shown ---


def test_reprs_are_short_and_html_is_escaped(table):
    snapshot = table.meta.snapshots.latest()
    lake = new_lake()
    evil = lake.create_table("d.evil", "`<b>` INT NOT NULL", primary_key=["<b>"], options={"bucket": 2}, comment="<i>")
    report = table.compact(full=True)
    for shown in (table, evil, lake, table.scan(where="k < 3 AND v > '<script>'"), table.changes(1), snapshot, report):
        assert len(repr(shown)) <= 120, repr(shown)
        html = shown._repr_html_()
        assert html.startswith("<div>") and "<script>" not in html and "<b>`" not in html and "<td" in html
    assert "&lt;b&gt;" in evil._repr_html_() and "k &lt; 3" in table.scan(where="k < 3")._repr_html_()
    assert "d.db/t" in repr(table.scan()) and "limit 3" in repr(table.scan(limit=3))
    assert repr(snapshot).startswith("<lsmlake snapshot 4, APPEND, 10 of 310 rows, writer ")
    merge = table.merge({"k": [1]}, "t.k = s.k").when_matched_delete()
    for shown, text in ((table.scan().plan(), "2 files"), (merge, "clauses: delete")):
        assert len(repr(shown)) <= 120 and text in repr(shown)


def test_showing_reads_no_data(table, monkeypatch):
    from lsmlake.files import data_reader

    monkeypatch.setattr(data_reader.DataReader, "__init__", lambda *args, **kwargs: pytest.fail("a data file was opened"))
    for shown in (table, table.changes(1)):
        repr(shown), shown._repr_html_()
    repr(table.scan())


def test_the_html_of_a_scan_shows_its_first_rows():
    columns = "k BIGINT, at TIMESTAMP"
    table = new_lake().create_table("d.t", columns, primary_key=["k"])
    table.upsert({"k": [7, 8], "at": [dt.datetime(2026, 1, 31, 12, tzinfo=dt.timezone.utc), None]})
    html = table.scan(limit=5)._repr_html_()
    assert "2026-01-31 12:00:00" in html and "NULL" in html and "limit" in html
    assert "unknown column nothing" in table.scan(where="nothing = 1")._repr_html_()


def test_completion_offers_what_users_use(table):
    inner = {"meta", "runtime", "env", "kept", "session", "states", "version", "moment", "run", "clauses", "encode", "decode"}
    snapshot = table.meta.snapshots.latest()
    for shown in (new_lake(), table, table.scan(), table.changes(1), table.merge({"k": [1]}, "t.k = s.k"), snapshot):
        assert not inner & {*dir(shown)} and len([name for name in dir(shown) if not name.startswith("_")]) > 5


def test_the_first_rows_the_columns_and_plain_values(table):
    scan = table.scan(where="k >= 290", columns=["v", "k"], limit=8)
    assert scan.schema == scan.to_arrow().schema and scan.schema.names == ["v", "k"]
    by_arrow = table.scan(where=pc.field("k") > 290, columns=["v"])
    assert by_arrow.schema == by_arrow.to_arrow().schema
    assert scan.head(3).num_rows == 3 and scan.head().num_rows == 8 and scan.head(0).schema == scan.schema
    assert table.scan(limit=9, order_by_key="desc").head(2)["k"].to_pylist() == [299, 298]
    assert sorted(row["k"] for row in table.scan(where="k < 12").to_pylist()) == [10, 11]
    assert table.changes(3).head(4).num_rows == 4 and table.changes(3).head(99).num_rows == 10
    assert (table.count(), table.to_arrow().num_rows, len(table.to_pandas()), table.head().num_rows) == (290, 290, 290, 10)
    with pytest.raises(InvalidQuery, match=r"head\(\): rows is negative"):
        table.head(-1)


def test_a_lake_gives_a_table_by_its_name():
    lake = new_lake()
    table = lake.create_table("d.t", "k BIGINT", primary_key=["k"])
    assert lake["d.t"].name == table.name
    with pytest.raises(TypeError, match="not iterable"):
        iter(lake)


def test_a_package_that_is_not_installed_is_named_with_the_command(table, monkeypatch):
    import sys

    for name, call in (("polars", "to_polars"), ("duckdb", "to_duckdb"), ("pandas", "to_pandas")):
        with monkeypatch.context() as patch, pytest.raises(MissingDependency, match=rf"pip install .lsmlake\[{name}\]"):
            patch.setitem(sys.modules, name, None)
            getattr(table.scan(), call)()
    assert lsmlake.__version__.count(".") == 2
