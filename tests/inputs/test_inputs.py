"""Input data of every kind: pandas, Polars, DuckDB, files, streams and Python objects; and `cast=True`."""

from __future__ import annotations

import datetime as dt
import gzip
import math
import pickle
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import UTC, new_lake

from lsmlake.api.lake import table_at
from lsmlake.api.table import Table
from lsmlake.errors import InvalidData, InvalidQuery, InvalidSchema
from lsmlake.schema.lossless import convert
from lsmlake.warehouse import connect

DDL = "k BIGINT NOT NULL, c STRING, v DOUBLE, at TIMESTAMP_NTZ"
SCHEMA = pa.schema([("k", pa.int64()), ("c", pa.string()), ("v", pa.float64()), ("at", pa.timestamp("us"))])
DAY = dt.datetime(2026, 1, 2)
ROWS = [
    {"k": 1, "c": "a", "v": 1.5, "at": DAY},
    {"k": 2, "c": "b", "v": None, "at": None},
    {"k": 3, "c": "a", "v": 2.5, "at": DAY},
]


def table_of(ddl: str = DDL, **options: str) -> Table:
    return new_lake().create_table("d.t", ddl, primary_key=["k"], options={k.replace("_", "-"): v for k, v in options.items()})


def rows_of(table: Table) -> list[dict]:
    return table.scan().to_arrow().sort_by("k").to_pylist()


def refused(table: Table, data: object, *words: str, **how: object) -> None:
    before = table.meta.snapshots.latest_id()
    with pytest.raises(InvalidData) as caught:
        table.upsert(data, **how)
    for word in words:
        assert word in str(caught.value), caught.value
    assert table.meta.snapshots.latest_id() == before


def arrow() -> pa.Table:
    return pa.Table.from_pylist(
        ROWS, pa.schema([("k", pa.int64()), ("c", pa.string()), ("v", pa.float64()), ("at", pa.timestamp("us"))])
    )


def frame() -> pd.DataFrame:
    return arrow().to_pandas()


class Reader:
    """The Arrow stream interface and nothing else."""

    def __arrow_c_stream__(self, requested_schema=None):
        return arrow().__arrow_c_stream__(requested_schema)


def duck() -> duckdb.DuckDBPyRelation:
    data = arrow()  # noqa: F841 - DuckDB finds it by its name
    return duckdb.connect().sql("SELECT * FROM data")


LIKE_ROWS = {
    "a list of dicts": lambda: ROWS,
    "dicts that leave nulls out": lambda: [{k: v for k, v in row.items() if v is not None} for row in ROWS],
    "a dict of columns": lambda: {name: [row[name] for row in ROWS] for name in ROWS[0]},
    "a dict of arrays": lambda: {"k": np.arange(1, 4), "c": pl.Series(["a", "b", "a"]), "v": arrow()["v"], "at": frame()["at"]},
    "a record batch": lambda: arrow().to_batches()[0],
    "record batches": lambda: arrow().to_batches(max_chunksize=1),
    "a generator": lambda: (batch for batch in arrow().to_batches(max_chunksize=1)),
    "a reader": lambda: arrow().to_reader(max_chunksize=2),
    "a stream": Reader,
    "a dataset": lambda: ds.dataset(arrow()),
    "pandas": frame,
    "pandas, filtered": lambda: pd.concat([frame(), frame().assign(k=9)]).query("k < 9"),
    "pandas, indexed by a column": lambda: frame().set_index("k"),
    "pandas, categorical": lambda: frame().assign(c=pd.Categorical(["a", "b", "a"])),
    "pandas, extension types": lambda: frame().convert_dtypes(),
    "pandas, Arrow types": lambda: frame().convert_dtypes(dtype_backend="pyarrow"),
    "pandas, objects": lambda: frame().astype(object),
    "polars": lambda: pl.from_arrow(arrow()),
    "polars, categorical": lambda: pl.from_arrow(arrow()).with_columns(pl.col("c").cast(pl.Categorical)),
    "polars, enum": lambda: pl.from_arrow(arrow()).with_columns(pl.col("c").cast(pl.Enum(["a", "b"]))),
    "polars, lazy": lambda: pl.from_arrow(arrow()).lazy().filter(pl.col("k") < 9),
    "duckdb": duck,
}


@pytest.mark.parametrize("name", LIKE_ROWS)
def test_data_of_every_kind_is_the_same_data(name):
    table = table_of()
    assert table.upsert(LIKE_ROWS[name]()).delta_rows == 3
    assert rows_of(table) == ROWS


@pytest.mark.parametrize(
    "data", [[], {}, pd.DataFrame({"k": []}), pl.DataFrame(), pa.table({"zz": pa.array([], pa.date32())}), iter([])]
)
def test_data_without_rows_commits_nothing(data):
    assert table_of().upsert(data) is None


def test_wrong_data_names_what_is_accepted():
    table = table_of("k BIGINT NOT NULL, m MAP<STRING,INT>, a DECIMAL(10,2)")
    refused(table, 5, "list of dicts", "Polars", "glob of Parquet, CSV or JSON", "int")
    refused(table, [{"k": 1, "m": {"x": 1}, "a": None}, {"k": 2, "zz": 1}], "extra columns ['zz']")
    refused(table, [{"k": 1, "m": {"x": 1}, "a": None}, {"k": "two"}], "column 'k', row 1", "'two'")
    refused(table, [{"k": 1, "m": {"x": "y"}, "a": None}], "column 'm', row 0", "map")
    refused(table, [{"k": 1, "m": None, "a": 1.5}], "column 'a'", "DECIMAL(10,2)", "cast=True")
    refused(table, [{"k": 1, "m": None, "a": Decimal("1.555")}], "column 'a', row 0", "1.555")
    refused(table, [{"k": 2**70, "m": None, "a": None}], "column 'k', row 0", str(2**70))
    refused(table, {"k": 1, "m": [None], "a": [None]}, "column 'k'", "single value 1", "list of one dict")
    refused(table, {"k": [1, 2], "m": [None], "a": [None]}, "different lengths", "'k': 2")
    refused(table, pd.DataFrame({"k": [1], "m": [None], "a": [None]}).set_index(pd.Index([7], name="zz")), "extra columns ['zz']")
    refused(table, pd.DataFrame({0: [1]}), "column name is not text")
    table.upsert([{"k": 1, "m": {"x": 1}, "a": Decimal("9.5")}, {"k": 2, "m": {"y": 2, "z": None}, "a": 7}])
    assert [row["m"] for row in rows_of(table)] == [[("x", 1)], [("y", 2), ("z", None)]]


def test_nanoseconds_come_out_even_or_are_named():
    table = table_of()
    odd = pd.to_datetime(["2026-01-02", "2026-01-02 03:04:05.000000001", None], format="ISO8601")
    refused(table, frame().assign(at=odd), "column 'at', row 1", "05.000000001")
    zoned = pd.to_datetime(["2026-01-02"] * 3).tz_localize("UTC")
    refused(table, frame().assign(at=zoned), "column 'at'", "TIMESTAMP_NTZ")
    table.upsert(frame().assign(at=pd.to_datetime(["2026-01-02 03:04:05.000001"] * 3)))
    assert rows_of(table)[0]["at"] == dt.datetime(2026, 1, 2, 3, 4, 5, 1)


def test_a_column_may_be_left_out_where_engines_combine_rows():
    """Several writers of some columns each."""
    options = {"merge-engine": "partial-update", "fields.g.sequence-group": "b"}
    table = new_lake().create_table("d.t", "k BIGINT NOT NULL, a INT, b INT, g INT", primary_key=["k"], options=options)
    table.upsert([{"k": 1, "a": 1}])
    table.upsert({"k": [1], "b": [2], "g": [5]})
    refused(table, {"k": [1], "b": [3]}, "lacks the sequence ['g'] of its columns ['b']")
    refused(table, {"a": [3]}, "lacks the columns ['k']")
    assert rows_of(table) == [{"k": 1, "a": 1, "b": 2, "g": 5}]
    by_time = new_lake().create_table(
        "d.t",
        "k BIGINT NOT NULL, a INT, b INT",
        primary_key=["k"],
        options={"merge-engine": "aggregation", "sequence.field": "b"},
    )
    refused(by_time, {"k": [1], "a": [3]}, "lacks the columns ['b']")
    refused(table_of(), {"k": [1]}, "lacks the columns ['c', 'v', 'at']", "add the missing ones")


def test_row_kinds_by_codes():
    table, codes = table_of("k BIGINT NOT NULL, v INT"), {"c": "+I", "u": "+U", "d": "-D"}
    kinds = {"column": "op", "map": codes}
    table.upsert({"k": [1, 2, 3], "v": [1, 2, 3], "op": ["c", "c", "u"]}, row_kind=kinds)
    table.upsert({"k": [1, 2], "v": [0, 5], "op": pd.Categorical(["d", "u"])}, row_kind=kinds)
    table.upsert({"k": [3], "v": [0], "op": [7]}, row_kind={"column": "op", "map": {7: "-D", 8: "+I"}})
    assert rows_of(table) == [{"k": 2, "v": 5}]
    refused(table, {"k": [1, 2], "v": [0, 0], "op": ["d", "x"]}, "column 'op', row 1", "'x'", "'c' or 'u' or 'd'", row_kind=kinds)
    refused(table, {"k": [1], "v": [0], "op": [1]}, "column 'op'", "int64", row_kind=kinds)
    wrong_maps = ({}, {"c": "insert"}, {"c": np.array(["+I", "-D"])}, {"c": ["+I"]}, {"c": None})
    for wrong in ({"col": "op"}, *({"column": "op", "map": codes} for codes in wrong_maps), 5):
        refused(table, {"k": [1], "v": [0], "op": ["c"]}, "row_kind", row_kind=wrong)


def test_row_kinds_in_every_layout():
    """Arrow cannot take views out of a dictionary, and finds no code in views, lists and run-end-encoded columns."""
    kinds, codes = ["+I", "-D"], {"column": "op", "map": {"i": "+I", "d": "-D"}}
    for column, row_kind in [
        (pa.chunked_array(pl.Series(kinds, dtype=pl.Categorical)), "op"),
        (pa.chunked_array(pl.Series(["i", "d"], dtype=pl.Enum(["d", "i"]))), codes),
        (pa.chunked_array(pl.Series(["i", "d"])), codes),
        (pa.array([b"i", b"d"], pa.binary_view()), {"column": "op", "map": {b"i": "+I", b"d": "-D"}}),
    ]:
        table = table_of("k BIGINT NOT NULL, v INT")
        table.upsert({"k": [2], "v": [2]})
        table.upsert(pa.table({"k": [1, 2], "v": [1, None], "op": column}), row_kind=row_kind)
        assert rows_of(table) == [{"k": 1, "v": 1}]
    for column in (pa.array([["+I"], ["-D"]]), pc.run_end_encode(pa.array(kinds)), pa.array([1, 2], pa.float16())):
        refused(table, pa.table({"k": [1, 2], "v": [1, 2], "op": column}), "column 'op'", "different types", row_kind="op")
    unseen = pa.array([2**62], pa.timestamp("s"))
    by_time = {"column": "op", "map": {DAY: "+I"}}
    refused(table, pa.table({"k": [1], "v": [1], "op": unseen}), "unknown row kind", "column 'op', row 0", row_kind=by_time)


def test_files(tmp_path):
    pq.write_table(arrow(), tmp_path / "a.parquet")
    frame().to_parquet(tmp_path / "b.parquet")
    frame().query("k != 2").to_parquet(tmp_path / "index.parquet")
    frame().to_csv(tmp_path / "c.csv", index=False)
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(frame().to_csv(index=False).encode()))
    frame().to_csv(tmp_path / "e.tsv", index=False, sep="\t")
    frame().to_json(tmp_path / "f.jsonl", orient="records", lines=True, date_format="iso")
    for name in ("a.parquet", "b.parquet", "c.csv", "d.csv.gz", "e.tsv", "f.jsonl"):
        table = table_of()
        table.upsert(tmp_path / name)
        assert rows_of(table) == ROWS, name
    for name, count in {"index.parquet": 2, "*.parquet": 8, "[a-b].p*": 6, ".": 20}.items():
        assert table_of().upsert(str(tmp_path / name)).delta_rows == min(count, 3)
    table = table_of()
    refused(table, str(tmp_path / "nosuch*.csv"), "nosuch*.csv", ".parquet", ".jsonl")
    refused(table, str(tmp_path / "e.txt"), "e.txt")
    (tmp_path / "g.csv").write_text('k,c,v,at\n1,"a\nb",0.5,\n2,"",x,\n')
    refused(table, tmp_path / "g.csv", "column 'v', row 1", "'x'")
    (tmp_path / "h.parquet").write_bytes(b"PAR1 no")
    refused(table, tmp_path / "h.parquet", "h.parquet", "cannot be read")
    (tmp_path / "i.csv").write_text('k,c,v,at\n007,"",0.1,\n8,,1e3,2026-01-02\n')
    table.upsert(tmp_path / "i.csv")
    assert [tuple(row.values()) for row in rows_of(table)] == [(7, "", 0.1, None), (8, None, 1000.0, DAY)]


# --- JSON and CSV numbers ---


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_json_numbers_keep_every_digit(tmp_path):
    ddl = "k DECIMAL(20,0) NOT NULL, i BIGINT, a DECIMAL(38,18), s STRUCT<a: DECIMAL(30,20), c: STRING>, l ARRAY<BIGINT>"
    table = table_of(ddl)
    lines = [
        '{"k": 12345678901234567890, "i": 9007199254740993, "a": 0.123456789012345678, "l": [1.0, 9007199254740993]}',
        '{"k": 12345678901234567891, "i": 3.0, "a": 1e3, "s": {"a": 0.12345678901234567890, "c": "2026-01-02"}}',
        '{"k": 3, "i": null, "a": null, "s": null, "l": [null]}',
    ]
    table.upsert(written(tmp_path / "a.json", "\n".join(lines)))
    assert [tuple(row.values()) for row in rows_of(table)] == [
        (3, None, None, None, [None]),
        (12345678901234567890, 9007199254740993, Decimal("0.123456789012345678"), None, [1, 9007199254740993]),
        (12345678901234567891, 3, 1000, {"a": Decimal("0.12345678901234567890"), "c": "2026-01-02"}, None),
    ]
    ids = table_of("k BIGINT NOT NULL")
    ids.upsert(written(tmp_path / "b.json", '{"k": 9007199254740993}\n{"k": 9007199254740992}\n{"k": 3.0}\n'))
    assert [row["k"] for row in rows_of(ids)] == [3, 9007199254740992, 9007199254740993]
    for bad in ("9223372036854775808", "3.5"):
        refused(ids, written(tmp_path / "c.json", f'{{"k": 3.0}}\n{{"k": {bad}}}\n'), "column 'k', row 1", bad)
    for bad in ("1e50", "1.85e+44", "1.85e-273", f"0.{'1' * 39}"):
        refused(ids, written(tmp_path / "d.json", f'{{"k": {bad}}}\n'), "d.json", "column 'k'", bad)


def test_json_integers_are_not_rounded_to_doubles(tmp_path):
    """A double stands for the number it prints as: JavaScript writes the double 12345678901234567890 with zeros at the end."""
    table = table_of("k DOUBLE NOT NULL, l ARRAY<DOUBLE>")
    for bad in (12345678901234567890, 9007199254740993):
        refused(table, written(tmp_path / "a.json", f'{{"k": {bad}}}\n{{"k": 0.5}}\n'), "column 'k'", str(bad), "rounded")
        refused(table, written(tmp_path / "a.json", f'{{"k": 1, "l": [0.5, {bad}]}}\n'), "column 'l'", str(bad), "rounded")
    good = {
        "0.1234567890123456789": 0.12345678901234568,
        "12345678901234567000": 12345678901234567890.0,
        "1e22": 1e22,
        "1.85e44": 1.85e44,
    }
    table.upsert(written(tmp_path / "a.json", "".join(f'{{"k": {text}, "l": null}}\n' for text in good)))
    assert [row["k"] for row in rows_of(table)] == sorted(good.values())
    table.upsert(written(tmp_path / "a.json", '{"k": 1e300, "l": [1.5]}\n'))
    assert table.scan(where="k = 1e300").count() == 1


@pytest.mark.parametrize("encoding", ["utf-16", "UTF32"])
@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.jsonl"])
def test_an_encoding_whose_byte_order_nothing_tells_is_refused(tmp_path, name: str, encoding: str):
    rows = "k,v\n1,x\n" if name == "a.csv" else '{"k": 1, "v": "x"}\n'
    text = rows if name != "a.jsonl" else f'{{"op": "c", "after": {rows.strip()}}}\n'
    how = {"format": "debezium-json"} if name == "a.jsonl" else {}
    order = encoding.lower().replace("utf32", "utf-32")
    table = table_of("k BIGINT NOT NULL, v STRING")
    (tmp_path / name).write_bytes(text.encode(f"{order}-le"))
    refused(table, str(tmp_path / name), name, "no byte order mark", f"encoding='{order}-le'", encoding=encoding, **how)
    table.upsert(str(tmp_path / name), encoding=f"{order}-le", **how)
    (tmp_path / name).write_bytes(text.encode(order))
    table.upsert(str(tmp_path / name), encoding=encoding, **how)
    assert rows_of(table) == [{"k": 1, "v": "x"}]


def test_json_numbers_that_are_too_small_for_a_double_are_refused_as_those_that_are_too_great(tmp_path):
    table = table_of("k BIGINT NOT NULL, v DOUBLE, s STRUCT<x: DOUBLE>, t STRING")
    for bad in ("1e-400", "-2.25E-0324", f"0.{'0' * 330}1", "0.0001e-321"):
        row = f'{{"k": 2, "v": {bad}, "s": null, "t": null}}\n'
        refused(
            table,
            written(tmp_path / "a.json", f'{{"k": 1, "v": 0.0, "s": null, "t": "1e-400"}}\n{row}'),
            "line 2",
            "too small",
            bad,
        )
        refused(
            table,
            written(tmp_path / "b.json", f'\n[{{"k": 1, "v": 1.5,\n"s": {{"x": {bad}}}, "t": "a"}}]'),
            "line 2",
            "too small",
        )
        with pytest.raises(InvalidData, match="too small"):
            new_lake().create_table_from("d.made", str(tmp_path / "a.json"), primary_key=["k"])
    refused(table, written(tmp_path / "a.json", '{"k": 2, "v": 1e400, "s": null, "t": null}\n'), "line 1", "too big")
    good = {"0e-400": 0.0, "0.000E-0999": 0.0, "5e-324": 5e-324, f"0.{'0' * 330}": 0.0, "-0.0": -0.0, "1e-307": 1e-307}
    rows = [f'{{"k": {number}, "v": {text}, "s": null, "t": "say \\"9e-400"}}\n' for number, text in enumerate(good)]
    table.upsert(written(tmp_path / "a.json", "".join(rows)))
    assert [repr(row["v"]) for row in rows_of(table)] == [repr(value) for value in good.values()]


@examples(30)
@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=9, max_value=10**28, min_value=-(10**28)), min_size=1))
@example([Decimal("0E-9"), Decimal("9007199254740993"), Decimal("0.5")])
def test_a_json_number_is_the_decimal_it_prints_as(tmp_path_factory, numbers):
    """Written with and without an exponent."""
    for form in ("f", "e"):
        path = tmp_path_factory.mktemp("json") / "a.json"
        written(path, "".join(f'{{"k": {row}, "a": {number:{form}}}}\n' for row, number in enumerate(numbers)))
        table = table_of("k BIGINT NOT NULL, a DECIMAL(38,9)")
        table.upsert(path)
        assert [row["a"] for row in rows_of(table)] == numbers


IDS = [12345678901234567890, 12345678901234567891]
GUESSED = {
    "a.csv": ("k,v\n12345678901234567890,1.5\n12345678901234567891,2\n", pa.decimal128(38, 0), IDS),
    "text.csv": (f"k,v\n{'1' * 39},1.5\n{'1' * 38}2,2\n", pa.string(), ["1" * 39, "1" * 38 + "2"]),
    "a.json": ('{"k": 12345678901234567890}\n{"k": 12345678901234567891}\n', pa.decimal128(38, 0), IDS),
    "whole.json": ('{"k": 9007199254740993}\n{"k": 3.0}\n', pa.int64(), [3, 9007199254740993]),
    "time.csv": ("k,v\n12:30:00,1\n12:30:01,2\n", pa.string(), ["12:30:00", "12:30:01"]),
}


@pytest.mark.parametrize("name", GUESSED)
def test_keys_of_a_table_from_files_are_never_rounded(tmp_path, name):
    text, type_, keys = GUESSED[name]
    table = new_lake().create_table_from("d.t", written(tmp_path / name, text), primary_key=["k"])
    assert (table.schema.field("k").type, [row["k"] for row in rows_of(table)]) == (type_, keys)


def test_a_key_that_looks_like_a_double_makes_no_table(tmp_path):
    lake = new_lake()
    for name, text in {"a.csv": "k\n1.5\n12345678901234567890\n", "a.json": '{"k": 1e300}\n{"k": 9007199254740993}\n'}.items():
        with pytest.raises(InvalidSchema, match=r"column 'k'.*create the table with a schema"):
            lake.create_table_from("d.t", written(tmp_path / name, text), primary_key=["k"])
    assert lake.tables("d") == []
    nested = written(tmp_path / "b.json", '{"k": 1, "l": [{"i": 12345678901234567890, "x": 0.5}]}\n')
    (row,) = rows_of(lake.create_table_from("d.n", nested, primary_key=["k"]))
    assert row["l"] == [{"i": 12345678901234567890, "x": 0.5}]


def test_parquet_beside_text_gives_a_new_table_its_types(tmp_path):
    typed = {"k": pa.array([9], pa.uint64()), "v": [1.5], "s": pa.array(["a"]).dictionary_encode()}
    pq.write_table(pa.table(typed), tmp_path / "a.parquet")
    written(tmp_path / "b.csv", "k,v,s\n1,5,007\n")
    written(tmp_path / "c.json", '{"k": 12345678901234567890, "v": 2, "s": "2026-01-02"}\n')
    table = new_lake().create_table_from("d.t", tmp_path, primary_key=["k"])
    assert [str(field.type) for field in table.schema] == ["decimal128(20, 0)", "double", "string"]
    assert [tuple(row.values()) for row in rows_of(table)] == [
        (1, 5.0, "007"),
        (9, 1.5, "a"),
        (12345678901234567890, 2.0, "2026-01-02"),
    ]


# --- names of files ---


def test_the_files_of_a_table_are_refused_as_input(tmp_path):
    lake = connect(tmp_path / "lake")
    lake.create_database("d")
    source = lake.create_table("d.source", "k BIGINT NOT NULL", primary_key=["k"], options={"bucket": 1})
    source.upsert({"k": [1, 2]})
    source.delete_keys({"k": [1]})
    (tmp_path / "link").symlink_to(source.path if Path(source.path).is_absolute() else tmp_path / "lake" / source.path)
    table = table_of("k BIGINT NOT NULL")
    for name in ("lake", "lake/d.db/source", "lake/d.db/source/bucket-0", "lake/*/*/*/*.parquet", "link"):
        refused(table, str(tmp_path / name), "the input files belong to a table", "d.db/source", ".scan()")
    table.upsert(source.scan())
    assert rows_of(table) == [{"k": 2}]


def test_a_glob_leaves_out_what_spark_writes_beside_data(tmp_path):
    out = tmp_path / "out"
    for folder in ("dt=1", "_temporary", "_kept"):
        (out / folder).mkdir(parents=True)
        written(out / folder / "b.csv", f"k\n{len(folder)}\n")
    written(out / "a.csv", "k\n1\n")
    written(out / "_SUCCESS", "")
    for name, keys in {"out": [1, 4], "out/*": [1, 4], "out/**": [1, 4], "out/_k*/*": [5], "out/_temporary/b.csv": [10]}.items():
        table = table_of("k BIGINT NOT NULL")
        table.upsert(str(tmp_path / name))
        assert [row["k"] for row in rows_of(table)] == keys, name


@pytest.mark.parametrize("name", ["", "  ", "file://", "a\0.csv"])
def test_an_invalid_path_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "a.csv", "k\n1\n")
    refused(table_of("k BIGINT NOT NULL"), name, "not a path")
    refused(table_of("k BIGINT NOT NULL"), ["a.csv", name], "not a path")
    for opened in (connect, table_at):
        with pytest.raises(InvalidQuery, match="not a path"):
            opened(name if opened is connect else name.replace("file://", ""))


@pytest.mark.parametrize("producer", ["none", "input"])
def test_a_stream_larger_than_the_write_buffer_is_sorted_on_disk(producer):
    table = table_of("k BIGINT NOT NULL, v BIGINT", write_buffer_size="64 kb", bucket="2", changelog_producer=producer)
    table.upsert({"k": [10_000_000], "v": [0]})
    starts = range(0, 40_000, 4_000)
    parts = (pa.record_batch({"k": np.arange(start, start + 5_000), "v": np.full(5_000, start)}) for start in starts)
    snapshot = table.upsert(parts, commit_id=1, writer_id="w")
    assert (snapshot.id, snapshot.total_rows) == (2, 41_001)
    assert table.scan(where="k = 4500").to_arrow()["v"].to_pylist() == [4_000], "the last of two rows with one key wins"
    assert table.verify() == []

    def never():
        raise AssertionError("a commit that has taken place is not read again")
        yield

    assert table.upsert(never(), commit_id=1, writer_id="w") == snapshot
    before = {entry.path for entry in table.meta.env.storage.list("")}
    broken = (pa.record_batch({"k": ["x"] if start == 36_000 else np.arange(start, start + 5_000).astype(object), "v": [0] * n})
              for start in starts for n in [1 if start == 36_000 else 5_000])  # fmt: skip
    refused(table, broken, "column 'k'")
    assert {entry.path for entry in table.meta.env.storage.list("")} == before


# --- cast=True ---

ALL = (
    "k BIGINT NOT NULL, a DECIMAL(10,2), d DATE, t TIMESTAMP, n TIMESTAMP_NTZ, b BOOLEAN, s STRING, f DOUBLE, g FLOAT, "
    "l ARRAY<STRUCT<x INT>>"
)
GOOD: dict[str, list[tuple[object, object]]] = {
    "k": [("7", 7), (" +7 ", 7), ("7.0", 7), ("1e3", 1000), (7.0, 7), (Decimal("7.00"), 7), (True, 1)],
    "a": [("9.5", "9.50"), ("1e2", "100"), ("-0.10", "-0.10"), ("9.500", "9.50"), (0.1, "0.10"), (9.5, "9.50"), (7, "7.00")],
    "d": [("2026-01-02", DAY.date()), ("2026-01-02 00:00:00", DAY.date()), (DAY, DAY.date())],
    "t": [
        ("2026-01-02", DAY.replace(tzinfo=UTC)),
        ("2026-01-02T03:04:05.123456000", dt.datetime(2026, 1, 2, 3, 4, 5, 123456, UTC)),
        ("2026-01-02 03:04:05+02:00", dt.datetime(2026, 1, 2, 1, 4, 5, 0, UTC)),
        ("2026-01-02T03:04:05Z", dt.datetime(2026, 1, 2, 3, 4, 5, 0, UTC)),
        (DAY, DAY.replace(tzinfo=UTC)),
        (DAY.date(), DAY.replace(tzinfo=UTC)),
    ],
    "n": [("2026-01-02 00:00", DAY), (DAY.date(), DAY)],
    "b": [("true", True), ("N", False), ("1", True), (0, False)],
    "s": [(7, "7"), (True, "true"), (Decimal("1.50"), "1.50"), (DAY.date(), "2026-01-02")],
    "f": [("0.1", 0.1), ("1e300", 1e300), (" inf", math.inf), (Decimal("0.10"), 0.1), (7, 7.0)],
    "g": [("0.1", float(np.float32(0.1))), (0.1, float(np.float32(0.1))), (0.5, 0.5)],
    "l": [([{"x": "7"}, None, {"x": None}], [{"x": 7}, None, {"x": None}])],
}
BAD: dict[str, list[object]] = {
    "k": ["7.5", "0x1F", "", "9223372036854775808", 7.5, math.inf, Decimal("7.5")],
    "a": ["9.555", "100000000", "x", "1,5", 0.1 + 0.2, math.nan, 1e9, 100_000_000],
    "d": ["2026-13-01", "2026-01-02 00:00:01", "02.01.2026", dt.datetime(2026, 1, 2, 1)],
    "t": ["yesterday", "2026-01-02 25:00:00", "2026-01-02 03:04:05.1234567"],
    "n": ["2026-01-02 03:04:05Z", "2026-01-02 03:04:05+01", DAY.replace(tzinfo=UTC)],
    "b": ["maybe", "2", 2],
    "s": [7.0, DAY],
    "f": ["1e999", "", "x", Decimal("0.1234567890123456789"), 2**53 + 1],
    "g": [1 / 3, 1e300],
    "l": [[{"x": "y"}], [{"z": "7"}], "[]"],
}


def with_value(column: str, value: object) -> dict[str, list[object]]:
    names = [part.split()[0] for part in ALL.split(", ")]
    data = {name: [None, None] for name in names} | {"k": [100, 200], column: [None, value]}
    return data | ({"k": [100, value]} if column == "k" else {})


@pytest.fixture(scope="module")
def everything() -> Table:
    return new_lake().create_table("d.t", ALL, primary_key=["k"])


@pytest.mark.parametrize("column", GOOD)
def test_cast_converts_what_loses_nothing(everything, column):
    for value, expected in GOOD[column]:
        data = with_value(column, value)
        if isinstance(value, (str, float, bool, Decimal)) and column == "k":
            data["k"] = [type(value)("100" if isinstance(value, (str, Decimal)) else 100.0), value]
        if column == "k" and value is True:
            data["k"] = [False, True]
        everything.upsert(data, cast=True, compact=False)
        key = expected if column == "k" else 200
        (row,) = everything.scan(where=f"k = {key}").to_arrow().to_pylist()
        assert row[column] == (Decimal(expected) if column == "a" else expected), value


@pytest.mark.parametrize("column", BAD)
def test_cast_names_the_first_value_that_would_lose_something(everything, column):
    for value in BAD[column]:
        data = with_value(column, value)
        if column == "k":
            data["k"] = [type(value)("100"), value]
        refused(everything, data, f"column {column!r}", cast=True)
        if isinstance(value, str) and column not in "l":
            refused(everything, data, f"column {column!r}, row 1", repr(value), cast=True)


def test_without_cast_the_error_suggests_it(everything):
    refused(everything, with_value("a", "9.5"), "column 'a'", "DECIMAL(10,2)", "string", "cast=True")
    refused(everything, with_value("n", DAY.replace(tzinfo=UTC)), "column 'n'", "convert the column before writing")


def test_local_times_are_those_of_the_zone():
    """On Spark the zone is the session's; of an hour that the clocks repeat it is the first, an hour they skip is no time."""
    wanted = pa.timestamp("us", "UTC")
    (made,) = convert(pa.array(["2026-01-02 12:00:00"]), wanted, "America/New_York").to_pylist()
    assert made == dt.datetime(2026, 1, 2, 17, tzinfo=UTC)
    (twice,) = convert(pa.array(["2026-10-25 02:30:00"]), wanted, "Europe/Berlin").to_pylist()
    assert twice == dt.datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    with pytest.raises(pa.ArrowInvalid, match="doesn't exist"):
        convert(pa.array(["2026-03-29 02:30:00"]), wanted, "Europe/Berlin")
    (day,) = convert(pa.array([dt.datetime(2026, 1, 2, 5, tzinfo=UTC)]), pa.date32(), "America/New_York").to_pylist()
    assert day == dt.date(2026, 1, 2)


@pytest.mark.parametrize(
    ("type_", "values", "row"),
    [
        ("BIGINT", [2**53 + 1, 1.5], 1),
        ("BIGINT", [Decimal("1.5"), 2.5], 0),
        ("BIGINT", [2**60, -0.5], 1),
        ("DOUBLE", [0.5, 2**53 + 1], 1),
        ("ARRAY<BIGINT>", [[2**53 + 1], [1.0, 1.5]], 1),
        ("MAP<STRING, BIGINT>", [{"a": 1}, {"b": 1.5}], 1),
        ("STRUCT<x: BIGINT, y: MAP<STRING, INT>>", [{"x": 1, "y": {"a": 1}}, {"x": 1, "y": {"a": 0.25}}], 1),
    ],
)
@pytest.mark.parametrize("cast", [False, True])
def test_numbers_of_mixed_types_are_never_cut(lake, type_, values, row, cast):
    """PyArrow cuts fractions off where it is given a type and the values have several."""
    table = lake.create_table("d.mixed", f"k INT, v {type_}", primary_key=["k"])
    for data in ({"k": [1, 2], "v": values}, [{"k": k, "v": value} for k, value in enumerate(values)]):
        with pytest.raises(InvalidData, match=rf"column 'v'.*row {row}"):
            table.upsert(data, cast=cast)
    assert table.snapshots().num_rows == 0


NOON, NOON_UTC, NANOS = (
    dt.datetime(2026, 7, 1, 12),
    dt.datetime(2026, 7, 1, 12, tzinfo=UTC),
    pd.Timestamp("2026-07-01 12:00:00.000000001"),
)


@pytest.mark.parametrize(
    ("type_", "values", "words"),
    [
        ("TIMESTAMP", [None, NOON_UTC, NOON], "row 2.*with and without a time zone"),
        ("TIMESTAMP_NTZ", [NOON, None, NOON_UTC], "row 2.*with and without a time zone"),
        ("TIMESTAMP", pd.Series([NOON_UTC, None, NOON], dtype=object), "row 2.*with and without a time zone"),
        ("ARRAY<TIMESTAMP>", [[NOON_UTC], [NOON_UTC, NOON]], "row 1.*with and without a time zone"),
        ("STRUCT<x: TIMESTAMP>", [{"x": NOON_UTC}, {"x": NOON}], "row 1.*with and without a time zone"),
        ("MAP<STRING, TIMESTAMP>", [{"a": NOON_UTC}, {"a": NOON}], "row 1.*with and without a time zone"),
        ("MAP<STRING, TIMESTAMP_NTZ>", [{"a": NOON_UTC}], "column 'v': type does not fit"),
        ("DATE", [NOON.date(), NOON], "row 1.*time of day would be lost"),
        ("DATE", [NOON, NOON.date()], "row 1"),
        ("DATE", [1, NOON.date()], "row 1"),
        ("TIMESTAMP_NTZ", [NOON.date(), NOON], "row 1.*time of day would be lost"),
        ("STRUCT<x: DATE>", [{"x": NOON.date()}, {"x": NOON}], "row 1.*time of day would be lost"),
        ("MAP<STRING, DATE>", [{"a": NOON}], "column 'v'"),
        ("TIMESTAMP_NTZ", [NOON, NANOS], "row 1.*nanoseconds"),
        ("MAP<STRING, TIMESTAMP_NTZ>", [{"a": NANOS}], "row 0.*nanoseconds"),
    ],
)
@pytest.mark.parametrize("cast", [False, True])
def test_dates_and_times_of_mixed_kinds_are_never_changed(lake, type_, values, words, cast):
    """PyArrow takes the kind of the first value for all: it drops zones, times of day and nanoseconds of others."""
    table = lake.create_table("d.mixed", f"k INT, v {type_}", primary_key=["k"])
    for data in ({"k": list(range(len(values))), "v": values}, [{"k": k, "v": value} for k, value in enumerate(values)]):
        with pytest.raises(InvalidData, match=words):
            table.upsert(data, cast=cast)
    assert table.snapshots().num_rows == 0


def test_times_without_a_zone_in_a_map_are_of_the_zone_of_the_connection(tmp_path):
    lake = connect(tmp_path, time_zone="Europe/Berlin")
    lake.create_database("d")
    table = lake.create_table(
        "d.t", "k INT, v MAP<STRING, TIMESTAMP>, w STRUCT<x: TIMESTAMP, y: TIMESTAMP_NTZ>", primary_key=["k"]
    )
    row = {"k": 1, "v": {"a": NOON}, "w": {"x": NOON_UTC, "y": NOON}}
    with pytest.raises(InvalidData, match=r"column 'v': type does not fit.*cast=True"):
        table.upsert([row])
    table.upsert([row, {"k": 2, "v": [("a", NOON), ("b", None)], "w": None}], cast=True)
    ten = dt.datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert table.scan().to_arrow().sort_by("k").to_pylist() == [
        {"k": 1, "v": [("a", ten)], "w": {"x": NOON_UTC, "y": NOON}},
        {"k": 2, "v": [("a", ten), ("b", None)], "w": None},
    ]


def test_numbers_of_mixed_types_that_fit_are_written(lake):
    table = lake.create_table("d.mixed", "k INT, v BIGINT, m MAP<STRING, DOUBLE>", primary_key=["k"])
    rows = [{"k": 1, "v": 2**53 + 1, "m": {"a": 0.1}}, {"k": 2, "v": 2.0, "m": {"b": 3}}, {"k": 3, "v": Decimal("4"), "m": None}]
    table.upsert(rows)
    assert [row["v"] for row in table.scan().to_arrow().to_pylist()] == [2**53 + 1, 2, 4]
    assert [row["m"] for row in table.scan().to_arrow().to_pylist()] == [[("a", 0.1)], [("b", 3.0)], None]


def test_a_consumer_of_the_stream_can_ask_for_columns_in_another_order_or_type():
    """Best effort, as the protocol has it: what is not there is not given."""
    table = new_lake().create_table("d.t", "id BIGINT NOT NULL, v INT, s STRING", primary_key=["id"])
    table.upsert({"id": [1], "v": [2], "s": ["a"]})

    def asked(*fields: tuple[str, pa.DataType]) -> list[tuple]:
        found = pa.RecordBatchReader.from_stream(table.scan(), schema=pa.schema(fields)).read_all()
        return list(zip(found.schema.names, found.schema.types, found.to_pylist()[0].values(), strict=True))

    every = [("id", pa.int64(), 1), ("v", pa.int32(), 2), ("s", pa.string(), "a")]
    assert asked(("s", pa.string()), ("id", pa.int64())) == [every[2], every[0]]
    assert asked(("v", pa.int64())) == [("v", pa.int64(), 2)]
    assert asked(("other", pa.int64())) == every


def test_what_cannot_be_pickled_says_so():
    table = new_lake().create_table("d.t", "id BIGINT NOT NULL", primary_key=["id"])
    for value in (table, table.scan(), table.merge({"id": [1]}, "t.id = s.id")):
        with pytest.raises(InvalidQuery, match="cannot be pickled"):
            pickle.dumps(value)


INSTANT, LOCAL = dt.datetime(2026, 1, 1, 10, tzinfo=dt.timezone.utc), dt.datetime(2026, 1, 1, 10)
IN_NEW_YORK = INSTANT + dt.timedelta(hours=5)
TIMES = [
    # the text, the type of the column, the value under UTC, under America/New_York; None: refused
    ("2026-01-01T10:00:00Z", "TIMESTAMP", INSTANT, INSTANT),
    ("2026-01-01T12:00:00+02:00", "TIMESTAMP", INSTANT, INSTANT),
    ("2026-01-01T10:00:00", "TIMESTAMP", INSTANT, IN_NEW_YORK),
    ("2026-01-01 10:00:00.000", "TIMESTAMP", INSTANT, IN_NEW_YORK),
    ("2026-01-01T10:00:00", "TIMESTAMP_NTZ", LOCAL, LOCAL),
    ("2026-01-01T10:00:00Z", "TIMESTAMP_NTZ", None, None),
    ("2026-01-01", "DATE", LOCAL.date(), LOCAL.date()),
    ("2026-01-01T10:00:00Z", "STRING", "2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z"),
]


@pytest.mark.parametrize(("text", "type_", "utc", "new_york"), TIMES)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_times_in_text_files_mean_what_they_say(tmp_path, text, type_, utc, new_york, zone):
    lake, expected = connect(tmp_path, time_zone=zone), utc if zone == "UTC" else new_york
    lake.create_database("d")
    line = f'{{"id": 1, "v": "{text}", "a": ["{text}"], "s": {{"t": "{text}"}}}}\n'
    files = {"x.json": line, "y.csv": f"id,v\n1,{text}\n"}
    for name, content in files.items():
        columns = f"id BIGINT NOT NULL, v {type_}" + f", a ARRAY<{type_}>, s STRUCT<t: {type_}>" * name.endswith("json")
        table = lake.create_table(f"d.{name[0]}", columns, primary_key=["id"])
        (tmp_path / name).write_text(content)
        if expected is None:
            with pytest.raises(InvalidData, match="names a time zone"):
                table.upsert(str(tmp_path / name))
            continue
        table.upsert(str(tmp_path / name))
        (row,) = table.scan().to_arrow().to_pylist()
        assert row["v"] == expected
        if name.endswith("json"):
            assert row["a"] == [expected] and row["s"] == {"t": expected}


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        (["2026-01-01T10:00:00Z", "2026-01-01T12:00:00Z"], pa.timestamp("us", "UTC")),
        (["2026-01-01T10:00:00"], pa.timestamp("us")),
        (["2026-01-01", "2026-01-02"], pa.date32()),
        (["2026-01-01", "2026-01-02T10:00:00"], pa.timestamp("us")),
        (["2026-01-01T10:00:00", "2026-01-01T10:00:00Z"], pa.string()),
    ],
)
def test_times_in_json_keep_their_zones_and_dates_their_type(tmp_path, texts, type_):
    lines = (f'{{"id": {number}, "v": "{text}", "s": {{"t": ["{text}"]}}}}\n' for number, text in enumerate(texts))
    (tmp_path / "x.json").write_text("".join(lines))
    lake = connect(tmp_path / "lake", time_zone="America/New_York")
    lake.create_database("d")
    rows = lake.create_table_from("d.t", str(tmp_path / "x.json"), primary_key=["id"]).scan().to_arrow()
    assert rows.schema.field("v").type == type_
    assert rows.schema.field("s").type.field("t").type.value_type == type_
    found = rows["v"].cast(pa.string()).to_pylist()
    assert [one[:10] for one in found] == [one[:10] for one in texts]


@pytest.mark.parametrize("arguments", [{"writer_id": ""}, {"writer_id": "", "commit_id": 1}])
def test_an_empty_writer_is_no_writer(arguments):
    with pytest.raises(InvalidData, match="writer_id is empty, expected a name, or None, found ''; name it, or leave it out"):
        table_of().upsert({"k": [1], "v": [1]}, **arguments)


@pytest.mark.parametrize("arguments", [{"writer_id": ""}, {"checkpoint": ""}, {"writer_id": "a", "replaces": ""}])
def test_a_sink_takes_no_empty_names(arguments):
    with pytest.raises(InvalidData, match="is empty"):
        table_of().sink(**arguments)


@pytest.mark.parametrize("arguments", [{"writer_id": ""}, {"query_name": ""}])
def test_a_stream_takes_no_empty_names(arguments):
    with pytest.raises(InvalidData, match="is empty"):
        table_of().write_stream(None, checkpoint="c", **arguments)
