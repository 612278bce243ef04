"""CSV, JSON and Excel files as people have them: what is recognised, what the options say, and errors with the file and line."""

from __future__ import annotations

import datetime as dt
import json
from itertools import pairwise
from pathlib import Path

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import new_lake
from typer.testing import CliRunner
from workbooks import workbook

from lsmlake.api.table import Table
from lsmlake.cli.app import app
from lsmlake.errors import InvalidData, InvalidSchema, LakeError
from lsmlake.inputs import csv_files
from lsmlake.kernels.csv_quotes import QuoteCheck
from lsmlake.kernels.json_lines import one_line_each
from lsmlake.warehouse import connect

DDL = "k BIGINT NOT NULL, s STRING, v DOUBLE"


def table_of(ddl: str = DDL) -> Table:
    return new_lake().create_table("d.t", ddl, primary_key=["k"])


def rows(table: Table) -> list[tuple]:
    return [tuple(row.values()) for row in table.scan().to_arrow().sort_by("k").to_pylist()]


def said(table: Table) -> str:
    return dict(table.snapshots()["properties"].to_pylist()[-1]).get("input", "")


def refused(table: Table, data: object, *words: str, **how: object) -> InvalidData:
    before = table.meta.snapshots.latest_id()
    with pytest.raises(InvalidData) as caught:
        table.upsert(data, **how)
    for word in words:
        assert word in str(caught.value), caught.value
    assert caught.value.cure and table.meta.snapshots.latest_id() == before
    return caught.value


def put(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# --- what is recognised ---

PLAIN, OF_PLAIN = "k,s,v\n1,é,1.5\n2,,\n", [(1, "é", 1.5), (2, None, None)]
RECOGNISED = {
    "plain.csv": (PLAIN, OF_PLAIN, ""),
    "line-ends.csv": (PLAIN.replace("\n", "\r\n"), OF_PLAIN, ""),
    "old-line-ends.csv": (PLAIN.replace("\n", "\r"), OF_PLAIN, ""),
    "no-last-line-end.csv": ("k,s,v\n1,é,1.5\n2,x,2", [(1, "é", 1.5), (2, "x", 2.0)], ""),
    "semicolon.csv": ("k;s;v\n1;a,b;1.5\n2;c,d;2\n", [(1, "a,b", 1.5), (2, "c,d", 2.0)], "delimiter ';'"),
    "tab.csv": (PLAIN.replace(",", "\t"), OF_PLAIN, "delimiter 'tab'"),
    "pipe.csv": (PLAIN.replace(",", "|"), OF_PLAIN, "delimiter '|'"),
    "comma.tsv": (PLAIN, OF_PLAIN, "delimiter ','"),
    "tab.tsv": (PLAIN.replace(",", "\t"), OF_PLAIN, ""),
    "quoted-semicolons.csv": ('k,"s",v\n1,"a;b",1\n2,"c\n;""d",2\n', [(1, "a;b", 1.0), (2, 'c\n;"d', 2.0)], ""),
    "names-with-commas.csv": ('k;"s";v\n1;"a,b,c";1\n', [(1, "a,b,c", 1.0)], "delimiter ';'"),
    "inches.csv": ('k,s,v\n1,5" pipe,1\n2,a""b,2\n', [(1, '5" pipe', 1.0), (2, 'a""b', 2.0)], ""),
    "utf-8-mark.csv": (PLAIN.encode("utf-8-sig"), OF_PLAIN, "UTF-8 by its byte order mark"),
    "quote-after-mark.csv": ('﻿"k","s","v"\n1,"x",1\n', [(1, "x", 1.0)], "UTF-8 by its byte order mark"),
    "utf-16.csv": (PLAIN.encode("utf-16"), OF_PLAIN, "UTF-16 by its byte order mark"),
    "utf-16-be.csv": (b"\xfe\xff" + PLAIN.encode("utf-16-be"), OF_PLAIN, "UTF-16 by its byte order mark"),
    "utf-32.csv": (PLAIN.encode("utf-32"), OF_PLAIN, "UTF-32 by its byte order mark"),
    "both.csv": (PLAIN.replace(",", ";").encode("utf-16"), OF_PLAIN, "UTF-16 by its byte order mark, delimiter ';'"),
    "trailing-commas.csv": ("k,s,v,,\n1,a,1,,\n", [(1, "a", 1.0)], "columns without a name: _c3, _c4"),
    "lines.json": ('{"k":1,"s":"é","v":1.5}\n\n{"k":2}\n', OF_PLAIN, ""),
    "no-line-ends.json": ('{"k":1,"s":"é","v":1.5}{"k":2}', OF_PLAIN, ""),
    "array.json": ('[{"k":1,"s":"é","v":1.5},\n {"k":2,"s":null}]', OF_PLAIN, "an array of objects"),
    "pretty.json": (json.dumps([{"k": 1, "s": "é", "v": 1.5}, {"k": 2}], indent=2), OF_PLAIN, "an array of objects"),
    "pretty-lines.json": ('{\n "k": 1,\n "s": "é",\n "v": 1.5\n}\n{\n "k": 2\n}\n', OF_PLAIN, ""),
    "tricky.json": ('[{"k":1,"s":"],[{\\"\\\\","v":0}]', [(1, '],[{"\\', 0.0)], "an array of objects"),
    "utf-16.json": ('[{"k":1,"s":"é","v":1.5},{"k":2}]'.encode("utf-16"), OF_PLAIN, "UTF-16 by its byte order mark, an array of"),
    "utf-8-mark.json": ('{"k":1,"s":"é","v":1.5}\n{"k":2}'.encode("utf-8-sig"), OF_PLAIN, "UTF-8 by its byte order mark"),
}  # fmt: skip


@pytest.mark.parametrize("name", RECOGNISED)
def test_what_is_recognised_is_read_and_reported(tmp_path, name):
    content, expected, facts = RECOGNISED[name]
    table = table_of()
    assert table.upsert(put(tmp_path / name, content)).delta_rows == len(expected)
    assert rows(table) == expected
    assert said(table) == "" if not facts else f"{name}: read as {facts}" in said(table)
    append_only = new_lake().create_table("d.a", DDL)
    append_only.append(str(tmp_path / name))
    assert rows(append_only) == expected
    made = new_lake().create_table_from("d.c", str(tmp_path / name))
    assert [row[:3] for row in rows(made)] == expected
    assert facts in said(made)


NOT_RECOGNISED = {
    "two-delimiters.csv": ("k,s;v\n1,2;3\n", "several divide all lines evenly", "',' or ';'", "delimiter=';'"),
    "no-delimiter.csv": ("k;s;v\n1;2\n", "none divides all lines evenly", "delimiter=';'"),
    "latin-1.csv": (PLAIN.encode("latin-1"), "latin-1.csv, line 2", "not UTF-8", "encoding='cp1252' reads this as '1,é,1.5'"),
    "latin-1.json": ('{"k":1}\n{"k":2,"s":"é"}'.encode("latin-1"), "latin-1.json, line 2", "not UTF-8", "encoding='cp1252'"),
    "latin-1-name.csv": ("k,é\n1,2\n".encode("latin-1"), "latin-1-name.csv, line 1", "encoding='cp1252'"),
    "utf-16-le.csv": (PLAIN.encode("utf-16-le"), "no byte order mark", "encoding='utf-16-le'"),
    "utf-16-be.csv": (PLAIN.encode("utf-16-be"), "no byte order mark", "encoding='utf-16-be'"),
    "open-quote.csv": ('k,s,v\n1,a,1\n2,"b,2\n3,c,3\n', "open-quote.csv, line 3", "a quote is not closed"),
    "backslashes.csv": ('k,s,v\n1,"a \\"b\\" c",1\n', "backslashes.csv, line 2", "not doubled", "twice"),
    "behind-quote.csv": ('k,s,v\n1,"a"b,1\n', "behind-quote.csv, line 2", "not doubled"),
    "ragged.csv": ('k,s,v\n1,"a\nb",1\n2,b\n', "ragged.csv, line 4", "a line has 2 fields", "3, as in the first line", "2,b"),
    "twice.csv": ("k,s,s\n1,2,3\n", "twice.csv, line 1", "two columns of the file have the same name", "rename"),
    "nameless.csv": (",k,s,v\n7,1,a,1\n", "nameless.csv, line 1", "has no name", "values in column 1", "to_csv(index=False)"),
    "empty.csv": ("", "empty.csv", "no line with the names"),
    "scalars.json": ("[1, 2]", "scalars.json, line 1", "not an object", "pass a list of dicts"),
    "null.json": ('[{"k":1},\n null]', "null.json, line 2", "not an object"),
    "nulls.json": ("null\n", "nulls.json, line 1", "not an object"),
    "lists.json": ("[1]\n[2]\n", "not an object"),
    "cut.json": ('[{"k":1,"s":"a"},{"k":2', "cut.json", "ends inside of", "it may be cut"),
    "cut-between.json": ('[{"k":1,"s":"a"},', "cut-between.json", "ends inside of"),
    "mixed.json": ('[{"k":1,"v":1},\n{"k":2,"v":"x"}]', "mixed.json, line 2, column 'v'", "different types"),
    "excel-line.csv": ("sep=;\nk;s;v\n1;a;2\n", "excel-line.csv, line 1", "tells Excel the delimiter", "take the line out"),
    "mark-and-latin-1.csv": (b"\xef\xbb\xbf" + PLAIN.encode("latin-1"), "line 2", "not UTF-8", "take the mark out of the file"),
    "cut-utf-16.csv": (PLAIN.encode("utf-16")[:-1], "ends inside of a character", "it may be cut"),
    "parquet.csv": (b"PAR1\x15\x04,", "the file is no text", "a Parquet file", "the suffix of its format, which is .parquet"),
    "workbook.csv": (b"PK\x03\x04,", "the file is no text", "an Excel workbook", "such as .xlsx"),
    "gzip.json": (b"\x1f\x8b{", "the file is no text", "compressed by gzip", "ends in .gz"),
    "upper-case.csv": ("K,S,V\n1,a,2\n", "in case or blanks", "rename 'K' to 'k', 'S' to 's', 'V' to 'v'"),
    "blanks.csv": ("k, s,v\n1,a,2\n", "in case or blanks", "rename ' s' to 's'"),
    "text-column-absent.json": ('{"k":1,"v":2}\n', "lacks the columns ['s']", "add the missing ones"),
    "number-for-text.json": ('{"k":1,"s":7,"v":2}\n', "line 1, column 's'", "as in the table or in rows before"),
    "broken.json": ('{"k":1}\n{"k":}\n', "broken.json, line 2", "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_RECOGNISED)
def test_what_is_not_certain_is_refused_with_the_place_and_a_cure(tmp_path, name):
    content, *words = NOT_RECOGNISED[name]
    refused(table_of(), put(tmp_path / name, content), *words)


def test_a_quote_in_a_later_block_is_named_by_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES", 1 << 16)
    lines = 20_000
    text = "k,s,v\n" + "".join(f"{number},text of a row,{number}.5\n" for number in range(lines))
    put(tmp_path / "a.csv", text + '1,"open,2\n2,x,3\n')
    refused(table_of(), tmp_path / "a.csv", f"a.csv, line {lines + 2}:", "a quote is not closed")


def test_a_text_column_of_nulls_is_not_absent(tmp_path):
    table = table_of()
    table.upsert(put(tmp_path / "a.json", '{"k":1,"s":null,"v":2}\n{"k":2,"v":3}\n'))
    assert rows(table) == [(1, None, 2.0), (2, None, 3.0)]


def test_an_object_for_a_map_column_names_the_way_that_works(tmp_path):
    table, path = table_of("k BIGINT NOT NULL, m MAP<STRING, INT>"), put(tmp_path / "a.json", '[{"k":1,"m":{"a":1,"b":2}}]')
    refused(table, path, "a.json, column 'm'", "json.load the file, and pass the list of dicts")
    table.upsert(json.loads(path.read_text()))
    assert rows(table) == [(1, [("a", 1), ("b", 2)])]


def test_the_rows_of_a_generator_are_counted_through_all_its_batches():
    refused(table_of(), ({"k": k, "s": 7 if k == 40_000 else "a", "v": 1.0} for k in range(40_001)), "column 's', row 40000")


# --- options ---


def test_words_that_mean_null(tmp_path):
    path = put(tmp_path / "a.csv", 'k,s,v\n1,NA,NA\n2,"NA","NA"\n3,"",NULL\n4,b,1\n')
    refused(table_of(), path, "a.csv, line 2, column 'v', row 0", "'NA'", "null_values=['NA', 'NULL']")
    table = table_of()
    table.upsert(path, null_values=["NA", "NULL"])
    assert rows(table)[:3] == [(1, None, None), (2, "NA", None), (3, "", None)], "a word in quotes is text in a text column"
    (made,) = new_lake().create_table_from("d.t", path, null_values=["NA", "NULL"]).scan(where="k = 2").to_arrow().to_pylist()
    assert made == {"k": 2, "s": "NA", "v": None}
    quoted = put(tmp_path / "b.csv", '"k","s","v"\n"1","",""\n')
    refused(table_of(), quoted, "b.csv, line 2, column 'v'", "null_values=['']")
    table.upsert(quoted, null_values=[""])
    assert rows(table)[0] == (1, "", None)
    measured = put(tmp_path / "c.csv", "k,s,v\n5,-999,-999\n")
    table.upsert(measured, null_values="-999")
    assert rows(table)[-1] == (5, None, None)


def test_zeros_of_a_text_column_stay_and_those_of_a_number_column_go(tmp_path):
    path = put(tmp_path / "a.csv", "k,s,v\n007,007,007\n")
    table = table_of()
    table.upsert(path)
    assert rows(table) == [(7, "007", 7.0)]
    assert rows(new_lake().create_table_from("d.t", path)) == [("007", "007", "007")]


def test_options_are_obeyed(tmp_path):
    table = table_of()
    table.upsert(put(tmp_path / "a.csv", "k;s;v\n1;é;1.5\n".encode("latin-1")), delimiter=";", encoding="latin-1")
    table.upsert(put(tmp_path / "b.csv", "k s v\n2 b 2\n"), delimiter=" ")
    table.upsert(put(tmp_path / "c.json", '[{"k":3,"s":"é","v":null}]'.encode("cp1252")), encoding="cp1252")
    table.upsert(put(tmp_path / "d.csv", "k\ts\tv\n4\ta,b\t4\n"), delimiter="\\t")
    table.upsert(put(tmp_path / "e.csv", "k,s,v\n5,ж,5\n".encode("utf-16-le")), encoding="utf-16-le")
    assert rows(table) == [(1, "é", 1.5), (2, "b", 2.0), (3, "é", None), (4, "a,b", 4.0), (5, "ж", 5.0)]
    table.delete_keys(put(tmp_path / "f.csv", "k\n5\n4\n"), delimiter=";", null_values="NA")
    table.overwrite(tmp_path / "a.csv", truncate=True, delimiter=";", encoding="latin-1")
    assert rows(table) == [(1, "é", 1.5)]


def test_a_column_of_one_semicolon_is_read_as_told(tmp_path):
    """`delimiter=","` says that this file has one column."""
    path = put(tmp_path / "a.csv", "k;s\n1;2\n")
    made = new_lake().create_table_from("d.t", path, delimiter=",")
    assert made.scan().to_arrow().to_pylist() == [{"k;s": "1;2"}]


def test_an_option_that_does_not_apply_is_refused_by_name(tmp_path):
    pq.write_table(pa.table({"k": [1], "s": ["a"], "v": [1.0]}), tmp_path / "a.parquet")
    put(tmp_path / "a.json", '{"k":1,"s":"a","v":1}')
    put(tmp_path / "a.csv", PLAIN)
    every = {"null_values": ["NA"], "delimiter": ";", "encoding": "latin-1"}
    for name, takes in {"a.parquet": (), "a.json": ("encoding",)}.items():
        for option in every.keys() - set(takes):
            refused(table_of(), tmp_path / name, f"{option} does not apply to", name, **{option: every[option]})
    refused(table_of(), str(tmp_path / "a.*"), "delimiter does not apply to", "files", delimiter=",")
    for data in ([{"k": 1}], pa.table({"k": [1]}), iter([{"k": 1}])):
        refused(table_of(), data, "delimiter does not apply to data of type", delimiter=",")
    wrong = {"delimiter": [";;", "", "é", '"', "\n"], "encoding": ["klingon", "base64", "hex"], "null_values": [[1], 5]}
    for option, values in wrong.items():
        for value in values:
            refused(table_of(), tmp_path / "a.csv", **{option: value})
    put(tmp_path / "b.csv", PLAIN.encode("utf-16"))
    refused(table_of(), tmp_path / "b.csv", "byte order mark", "UTF-16", encoding="latin-1")
    refused(table_of(), put(tmp_path / "c.csv", b"k,s\n1,\x81\n"), "not CP1252", "line 2", encoding="cp1252")


# --- names of columns ---


def test_a_column_without_a_name_gets_one(tmp_path):
    path = put(tmp_path / "a.csv", ",k,s\n0,1,a\n1,2,b\n")
    table = new_lake().create_table_from("d.t", path, primary_key=["k"])
    assert table.scan().to_arrow().to_pylist() == [{"_c0": 0, "k": 1, "s": "a"}, {"_c0": 1, "k": 2, "s": "b"}]
    assert "columns without a name: _c0" in said(table)
    table.upsert(put(tmp_path / "b.csv", ",k,s\n5,3,c\n"))
    assert table.get({"k": 3}) == {"_c0": 5, "k": 3, "s": "c"}


@pytest.mark.parametrize(
    "text", ["5.1,3.5,setosa\n4.9,3.0,setosa\n", "1,a\n2,b\n", "2026-01-01,x\n2026-01-02,y\n", "1;2\n3;4\n", "sep=;\nid;v\n1;a\n"]
)
def test_a_first_row_is_not_taken_for_names(tmp_path, text):
    lake = new_lake()
    with pytest.raises(InvalidData, match=r"a.csv, line 1: the first line .*(looks like a row.*COPY INTO|tells Excel)"):
        lake.create_table_from("d.t", put(tmp_path / "a.csv", text))
    assert lake.tables("d") == []


@pytest.mark.parametrize("text", ["state,2021\nOhio,1.5\n", ",0,1\n0,5,6\n", "a,b\nx,y\n", "k\n1\n", "0,x\n5,1\n"])
def test_names_may_be_numbers(tmp_path, text):
    assert new_lake().create_table_from("d.t", put(tmp_path / "a.csv", text)).scan().count() == 1


# --- errors of a glob ---


def test_errors_of_a_glob_name_the_file_and_the_line(tmp_path):
    put(tmp_path / "1.csv", "k,s,v\n1,a,1\n2,b,2\n")
    put(tmp_path / "2.csv", 'k,s,v\n\n3,"x\ny",1\n4,b,x\n')
    error = refused(table_of(), str(tmp_path / "*.csv"), "2.csv, line 5, column 'v', row 1: a value does not fit", "found 'x'")
    assert "1.csv" not in str(error)
    put(tmp_path / "2.csv", "k,s\n3,c\n")
    refused(table_of(), str(tmp_path / "*.csv"), "2.csv: the data lacks the columns ['v']")
    put(tmp_path / "2.csv", "k,s,v\n3,c,1\n,d,1\n")
    refused(table_of(), str(tmp_path / "*.csv"), "2.csv, line 3, column 'k', row 1: a null in a NOT NULL column")
    put(tmp_path / "2.csv", "k,s,v\n3,c,1\n4\n")
    refused(table_of(), str(tmp_path / "*.csv"), "2.csv, line 3: a line has 1 field")
    (tmp_path / "2.csv").unlink()
    put(tmp_path / "3.json", '[\n  {"k": 5, "s": "a"},\n\n  {"k": 6, "s": "b", "v": "x"}\n]')
    refused(table_of(), str(tmp_path / "*.*"), "3.json, line 4, column 'v', row 1: a value does not fit", "'x'")
    pq.write_table(pa.table({"k": [5, None], "s": ["a", "b"], "v": [1.0, 2.0]}), tmp_path / "4.parquet")
    (tmp_path / "3.json").unlink()
    refused(table_of(), str(tmp_path / "*.*"), "4.parquet, column 'k', row 1: a null")
    kinds = put(tmp_path / "5.csv", "k,s,v,op\n1,a,1,+I\n2,a,1,?\n")
    refused(table_of(), kinds, "5.csv, line 3, column 'op', row 1: unknown row kind", row_kind="op")
    append_only = new_lake().create_table("d.a", DDL)
    with pytest.raises(InvalidData, match=r"5.csv, line 2, column 'k', row 0"):
        append_only.append(put(tmp_path / "5.csv", "k,s,v\nx,a,1\n"))


def test_a_column_that_turns_into_text_after_the_sample_names_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES", 1 << 16)
    lines = "".join(f"{number}\n" for number in range(30_000))
    lake = new_lake()
    with pytest.raises(InvalidData, match=r"a.csv, line 30002, column 'k', row 30000: a value does not fit"):
        lake.create_table_from("d.t", put(tmp_path / "a.csv", f"k\n{lines}x\n"))
    assert lake.tables("d") == []


def test_files_are_sources_of_merge_and_sql(tmp_path):
    lake = connect(tmp_path / "lake")
    lake.create_database("d")
    table = lake.create_table("d.t", DDL, primary_key=["k"])
    put(tmp_path / "1.csv", "k;s;v\n1;007;1\n")
    put(tmp_path / "2.csv", "k,s,v\n2,b,2\n3,c,x\n")
    merged = table.merge(str(tmp_path / "*.csv"), on="t.k = s.k").when_not_matched_insert_all()
    with pytest.raises(InvalidData, match=r"2.csv, line 3, column 'v', row 1: a value does not fit"):
        merged.execute()
    put(tmp_path / "2.csv", "k,s,v\n2,b,2\n3,c,3\n")
    assert table.merge(str(tmp_path / "*.csv"), on="t.k = s.k").when_not_matched_insert_all().execute().inserted == 3
    found = lake.sql("SELECT k + 1, s, v FROM x ORDER BY k", tables={"x": str(tmp_path / "2.csv")})
    assert found.fetchall() == [(3, "b", 2), (4, "c", 3)]


# --- generators ---


def test_a_generator_of_dicts_is_rows():
    table = table_of()
    table.upsert({"k": number, "s": f"r{number}"} | ({"v": 0.5} if number % 2 else {"v": None}) for number in range(40_000))
    assert table.scan().count() == 40_000 and table.get({"k": 39_999}) == {"k": 39_999, "s": "r39999", "v": 0.5}
    table.upsert(iter([{"k": [1, 2], "s": ["a", "b"], "v": [None, None]}]))  # a dict of columns
    assert rows(table)[:3] == [(0, "r0", None), (1, "a", None), (2, "b", None)]
    made = new_lake().create_table_from("d.g", ({"k": number, "tags": ["a"]} for number in range(3)), primary_key=["k"])
    assert made.get({"k": 2}) == {"k": 2, "tags": ["a"]}
    refused(table, iter([{"k": 1, "s": "a", "v": 1.0}, 5]), "row 1", "a row is not a dict")
    refused(table, ({"k": number, "s": "x", "v": "y"} for number in range(2)), "column 'v'")


# --- the command line ---


def test_load_takes_the_options_and_prints_what_it_recognised(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "a.csv", "k;s;v\n1;é;NA\n0;b;1.5\n".encode("utf-16"))
    put(tmp_path / "b.csv", "k|s|v\n2|é|NA\n".encode("latin-1"))
    call = lambda *words, code=0: _output(CliRunner().invoke(app, ["load", "d.t", *words, "-w", "lake"]), code)  # noqa: E731
    made = call("a.csv", "--create", "--primary-key", "k", "--null-value", "NA")
    assert made.splitlines()[0] == "a.csv: read as UTF-16 by its byte order mark, delimiter ';'"
    assert "--encoding cp1252 reads this as" in call("b.csv", code=1)
    assert "--null-value 'NA'" in call("b.csv", "--encoding", "latin-1", code=1)
    found = json.loads(call("b.csv", "--encoding", "latin-1", "--delimiter", "|", "--null-value", "NA", "--json"))
    assert found == {"rows": 1, "snapshot_id": 2}
    put(tmp_path / "c.json", '[{"k":3,"s":"a","v":1}]')
    found = json.loads(call("c.json", "--json"))
    assert found["recognised"] == [{"file": "c.json", "files": 1, "recognised": ["an array of objects"]}]
    assert "--delimiter out" in call("c.json", "--delimiter", ",", code=1)


def _output(result, code: int) -> str:
    assert result.exit_code == code, result.output
    return (
        result.output
        if not code
        else str(result.exception.for_command_line() if isinstance(result.exception, LakeError) else result.output)
    )


# --- COPY INTO ---


def test_copy_into_takes_the_options_of_spark(tmp_path):
    lake = connect(tmp_path / "lake")
    lake.create_database("d")
    lake.sql("CREATE TABLE d.t (k BIGINT, s STRING, v DOUBLE)")
    put(tmp_path / "a.csv", 'k;s;v\n1;é;NA\n2;"NA";2\n'.encode("latin-1"))
    copy = f"COPY INTO d.t FROM '{tmp_path}/{{}}' FILEFORMAT = {{}}"
    options = "FORMAT_OPTIONS ('header' = 'true', 'delimiter' = ';', 'nullValue' = 'NA', 'encoding' = 'latin-1')"
    with pytest.raises(InvalidData, match=r"a.csv, line 2.*FORMAT_OPTIONS \('encoding'"):
        lake.sql(f"{copy.format('a.csv', 'CSV')} FORMAT_OPTIONS ('header' = 'true', 'delimiter' = ';')")
    with pytest.raises(InvalidData, match=r"a.csv, line 2, column 'v', row 0.*'nullValue' = 'NA'"):
        lake.sql(f"{copy.format('a.csv', 'CSV')} {options.replace(chr(39) + 'NA' + chr(39), chr(39) + 'x' + chr(39))}")
    lake.sql(f"{copy.format('a.csv', 'CSV')} {options}")
    assert rows(lake.table("d.t")) == [(1, "é", None), (2, None, 2.0)], "as Spark, which also takes a word in quotes"
    put(tmp_path / "b.json", '[{"k": 3, "s": "é", "v": null}]'.encode("cp1252"))
    lake.sql(f"{copy.format('b.json', 'JSON')} FORMAT_OPTIONS ('charset' = 'cp1252')")
    assert rows(lake.table("d.t"))[-1] == (3, "é", None)
    put(tmp_path / "c.csv", "4,a,1\n5,b\n")
    with pytest.raises(InvalidData, match=r"c.csv, line 2: a line has 2 fields"):
        lake.sql(copy.format("c.csv", "CSV"))
    put(tmp_path / "c.csv", "4,a,1\n5,b,x\n")
    with pytest.raises(InvalidData, match=r"c.csv, line 2, column 'v', row 1"):
        lake.sql(copy.format("c.csv", "CSV"))
    for kind, option in {"JSON": "nullValue", "PARQUET": "encoding"}.items():
        with pytest.raises(LakeError, match="does not apply"):
            lake.sql(f"{copy.format('c.csv', kind)} FORMAT_OPTIONS ('{option}' = 'x')")


# --- Excel ---

DAY, NOON = dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 12)
SHEET = [
    ["k", "s", "v", "d", "at", "b", "mixed", None, "code"],
    [1, "é", 1.5, DAY, NOON, True, 1, "x", "007"],
    [],
    [2, None, "#DIV/0!", None, DAY, None, "a", None, None],
    [3, "NA", 2, DAY, NOON, False, 2.5, None, None],
]


def test_a_workbook_is_read_with_the_types_of_its_cells(tmp_path):
    path = workbook(tmp_path / "a.xlsx", SHEET, [])
    table = new_lake().create_table_from("d.t", path, primary_key=["k"], null_values=["NA"])
    midnight = dt.datetime(2026, 1, 2)
    assert rows(table) == [
        (1, "é", 1.5, DAY, NOON, True, "1", "x", "007"),
        (2, None, None, None, midnight, None, "a", None, None),
        (3, None, 2.0, DAY, NOON, False, "2.5", None, None),
    ]
    assert said(table) == f"{path}: read as sheet 'S1', columns without a name: _c7"
    types = [str(field.type) for field in table.schema]
    assert types == ["int64", "string", "double", "date32[day]", "timestamp[us]", "bool", "string", "string", "string"]


def test_a_workbook_is_converted_to_the_types_of_the_table(tmp_path):
    table = table_of("k BIGINT NOT NULL, s STRING, v DECIMAL(10,2), at TIMESTAMP")
    table.upsert(
        workbook(tmp_path / "a.xlsx", [["k", "s", "v", "at", None], ["7", 12, 0.1, NOON, None], [8, 1.5, 3, None, None]])
    )
    assert [(*row[:2], str(row[2]), row[3]) for row in rows(table)] == [
        (7, "12", "0.10", NOON.replace(tzinfo=dt.timezone.utc)),
        (8, "1.5", "3.00", None),
    ]
    bad = workbook(tmp_path / "b.xlsx", [["k", "s", "v", "at"], [], [1, "a", "x", None]])
    refused(table, bad, "b.xlsx, line 3, column 'v', row 0", "'x'", "null_values=")
    folder = tmp_path / "folder"
    folder.mkdir()
    put(folder / "~$g.xlsx", b"\x05user")  # Excel has the workbook open
    table.upsert(workbook(folder / "g.xlsx", [["k", "s", "v", "at"], [9, "a", 1, None]]).parent)
    two = workbook(tmp_path / "c.xlsx", [["k"], [1]], [["x"]])
    found = refused(table, two, "several sheets with rows", "['S1', 'S2']", "save the sheet")
    assert "sheet_name='S1', engine='calamine'" in str(found)  # the engine of the extra; pandas' own is another package
    table.upsert(pandas.read_excel(two, sheet_name="S1", engine="calamine").assign(s="", v=1, at=None), cast=True)
    refused(table, workbook(tmp_path / "d.xlsx", []), "no row")
    refused(table, put(tmp_path / "e.xlsx", "k\n1\n"), "e.xlsx", "cannot be read")
    refused(table, tmp_path / "a.xlsx", "delimiter does not apply to Excel files", delimiter=";")
    refused(table, workbook(tmp_path / "f.xlsx", [["k", "k"], [1, 2]]), "the same name")


# --- the kernels, against naive models ---

TEXTS = st.text(alphabet='",\na', max_size=30)


def naive_fault(text: str) -> int | None:
    """Reads one character after the other."""
    opened, at, start = None, 0, True
    while at < len(text):
        if opened is None:
            if text[at] == '"' and start:
                opened = at
            start = text[at] in ",\n"
        elif text[at] == '"':
            if text[at + 1 : at + 2] == '"':
                at += 1
            elif at + 1 == len(text) or text[at + 1] in ",\n":
                opened, start = None, False
            else:
                return at
        at += 1
    return opened


@examples(150)
@given(TEXTS, st.lists(st.integers(0, 30), max_size=4))
def test_faults_of_quotes_are_those_of_a_naive_reader(text, cuts):
    data, check = text.encode(), QuoteCheck(",")
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    found = None
    for first, last in pairwise(edges):
        found = check.fault(data[first:last]) if found is None else found
    found = check.fault(b"", last=True) if found is None else found
    assert found == naive_fault(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='a"\\[]{},\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='k"{', max_size=2), inner, max_size=3),
    max_leaves=8,
)


@examples(80)
@given(
    st.lists(st.dictionaries(st.sampled_from(["a", '"', "{,"]), VALUES, min_size=1), max_size=4),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_every_object_of_an_array_comes_to_a_line_of_its_own(objects, indent, array):
    text = json.dumps(objects, indent=indent) if array else "\n".join(json.dumps(one, indent=indent) for one in objects)
    made = one_line_each(text.encode())
    assert len(made) == len(text.encode())
    assert [json.loads(line) for line in made.decode().split("\n") if line.strip()] == objects
    if array:
        assert one_line_each(text[:-1].encode()) is None


def test_a_key_that_looks_like_a_double_is_refused_in_every_format(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [["k"], [1.5]])
    with pytest.raises(InvalidSchema, match="fractions or exponents"):
        new_lake().create_table_from("d.t", path, primary_key=["k"])
