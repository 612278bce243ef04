"""Source x type x time zone: every value arrives as data.md says, whatever brought it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from intake_cases import CASES, DAY, LOCAL, UTC, Case, Cases
from workbooks import workbook

from lsmlake.warehouse import connect


def columns(cases: Cases) -> dict[str, list]:
    return {"k": [1, 2], **{name: [case.value, None] for name, case in cases.items()}}


def dicts(cases: Cases) -> list[dict]:
    made = columns(cases)
    return [{name: values[row] for name, values in made.items()} for row in (0, 1)]


def lines(cases: Cases) -> list[str]:
    values = [f'"{name}": {json.dumps(case.value) if case.json is None else case.json}' for name, case in cases.items()]
    return ['{"k": 1, ' + ", ".join(values) + "}", '{"k": 2}']


def csv(cases: Cases, delimiter: str) -> str:
    names = [f'"{name}"' for name in cases]
    records = ["k", *names], ["1", *(case.text for case in cases.values())], ["2", *("" for _ in cases)]
    return "".join(delimiter.join(record) + "\n" for record in records)


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def parquet(cases: Cases, path: Path) -> Path:
    pq.write_table(pa.table(columns(cases)), path / "a.parquet")
    return path / "a.parquet"


def pandas(cases: Cases, path: Path) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns(cases).items()})


def duck(cases: Cases, path: Path) -> duckdb.DuckDBPyRelation:
    data = pa.table(columns(cases))  # noqa: F841 - DuckDB finds it by its name
    return duckdb.connect().sql("SELECT * FROM data")


def excel(cases: Cases, path: Path) -> Path:
    return workbook(path / "a.xlsx", [["k", *cases], [1, *map(cell, cases.values())], [2]])


def cell(case: Case) -> object:
    """A number of 15 digits, a time without a zone after 1900, or a text."""
    value = case.value
    exact = isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 10**15)
    day = isinstance(value, dt.date) and value.year >= 1901 and getattr(value, "tzinfo", None) is None
    return value if (exact and value != float("inf")) or day or isinstance(value, str) else case.text


SOURCES: dict[str, Callable[[Cases, Path], object]] = {
    "CSV": lambda cases, path: written(path / "a.csv", csv(cases, ",")),
    "CSV with tabs in UTF-16": lambda cases, path: written(path / "a.csv", csv(cases, "\t"), "utf-16"),
    "JSON array": lambda cases, path: written(path / "a.json", "[" + ",\n".join(lines(cases)) + "]"),
    "JSON Lines": lambda cases, path: written(path / "a.jsonl", "\n".join(lines(cases))),
    "Excel": excel,
    "Parquet": parquet,
    "pandas": pandas,
    "Polars": lambda cases, path: pl.DataFrame(columns(cases)),
    "Polars, lazy": lambda cases, path: pl.DataFrame(columns(cases)).lazy(),
    "DuckDB": duck,
    "dicts": lambda cases, path: dicts(cases),
    "a generator of dicts": lambda cases, path: iter(dicts(cases)),
    "a dict of columns": lambda cases, path: columns(cases),
    "Arrow": lambda cases, path: pa.table(columns(cases)),
    "Arrow batches": lambda cases, path: iter(pa.table(columns(cases)).to_batches(max_chunksize=1)),
}
NOT_IN_EXCEL = {"two lines", "empty text", "date before 1970"}
"""Cells have no empty text, and no day before 1900; the workbooks of these tests have no line ends."""


def cases_of(source: str) -> Cases:
    texts = source.startswith("CSV") or source == "Excel"
    left_out = NOT_IN_EXCEL if source == "Excel" else set()
    return {name: case for name, case in CASES.items() if name not in left_out and not (texts and case.text is None)}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_every_source_brings_every_value(tmp_path, source, zone):
    lake, cases = connect(tmp_path / "lake", time_zone=zone), cases_of(source)
    lake.create_database("d")
    ddl = ", ".join(f"`{name}` {case.type}" for name, case in cases.items())
    table = lake.create_table("d.t", f"k BIGINT NOT NULL, {ddl}", primary_key=["k"])
    table.upsert(SOURCES[source](cases, tmp_path), cast=True)
    first, second = table.scan().to_arrow().sort_by("k").to_pylist()
    assert first == {"k": 1, **{name: case.expected(zone) for name, case in cases.items()}}
    assert second == {"k": 2, **dict.fromkeys(cases)}


INFERRED = {
    # the texts of a column -> the type that a new table gives it, and the values under America/New_York
    ("1", "-2", ""): ("int64", [1, -2, None]),
    ("9223372036854775807", "1"): ("int64", [2**63 - 1, 1]),
    ("9223372036854775808", "1"): ("decimal128(38, 0)", [2**63, 1]),
    ("1.0", "2"): ("double", [1.0, 2.0]),
    ("1e3", "-.5"): ("double", [1000.0, -0.5]),
    ("007", "8"): ("string", ["007", "8"]),
    ("0.5", "00.5"): ("string", ["0.5", "00.5"]),
    ("0x1F", "2"): ("string", ["0x1F", "2"]),
    ("true", "FALSE"): ("bool", [True, False]),
    ("true", "yes"): ("string", ["true", "yes"]),
    ("2026-07-01", ""): ("date32[day]", [DAY, None]),
    ("2026-07-01 22:30:00",): ("timestamp[us]", [LOCAL]),
    ("2026-07-01T22:30:00",): ("timestamp[us]", [LOCAL]),
    ("2026-07-01 22:30:00.123456",): ("timestamp[us]", [LOCAL.replace(microsecond=123456)]),
    ("2026-07-01T22:30:00Z",): ("timestamp[us, tz=UTC]", [LOCAL.replace(tzinfo=UTC)]),
    ("22:30:00",): ("string", ["22:30:00"]),
    ("1.7.2026",): ("string", ["1.7.2026"]),
    ("1,5", "2"): ("string", ["1,5", "2"]),
    ("NA", "n/a", "NULL"): ("string", ["NA", "n/a", "NULL"]),
    ("", ""): ("string", [None, None]),
    ('""', "a"): ("string", ["", "a"]),
}


@pytest.mark.parametrize("texts", INFERRED)
def test_a_new_table_takes_the_types_of_a_csv_file_that_data_md_tells(tmp_path, texts):
    type_, values = INFERRED[texts]
    lake = connect(tmp_path / "lake", time_zone="America/New_York")
    lake.create_database("d")
    body = "".join(f"{number};{text}\n" for number, text in enumerate(texts))
    table = lake.create_table_from("d.t", written(tmp_path / "a.csv", f"k;v\n{body}"), primary_key=["k"])
    assert str(table.schema.field("v").type) == type_
    assert table.scan().to_arrow().sort_by("k")["v"].to_pylist() == values
