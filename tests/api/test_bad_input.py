"""Invalid input is refused by the right error, with what, where, expected, found and cure, and changes nothing."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from functools import partial

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from strategies import contents, multiset, new_lake, rows_of, seen

import lsmlake
from lsmlake.errors import (
    InvalidData,
    InvalidOption,
    InvalidQuery,
    InvalidSchema,
    LakeError,
    SnapshotNotFound,
    TableExists,
    TableNotFound,
)


def refused(error: type[LakeError], call: Callable[[], object], *words: str) -> LakeError:
    """The error of a call. Its message holds `words`, and the parts every message has."""
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    message = str(caught.value)
    for word in words:
        assert word in message, message
    assert caught.value.cure, f"no cure: {message}"
    return caught.value


# --- tables that cannot be ---

BAD_TABLES = {
    "unknown option": ("k INT", {"bucket-count": 4}, InvalidOption, ["bucket-count", "d.t", "bucket"]),
    "option of another case": ("k INT", {"Bucket": 4}, InvalidOption, ["'Bucket'", "did you mean 'bucket'"]),
    "option that is nothing like one": ("k INT", {"zzz": 4}, InvalidOption, ["'zzz'", "options_table"]),
    "no buckets": ("k INT", {"bucket": 0}, InvalidOption, ["'bucket'", "an integer from 1", "0"]),
    "buckets below none": ("k INT", {"bucket": -3}, InvalidOption, ["'bucket'", "-3", "auto, or an integer"]),
    "text for a number": ("k INT", {"bucket": "many"}, InvalidOption, ["'bucket'", "many", "an integer"]),
    "a fraction for a number": ("k INT", {"bucket": 1.5}, InvalidOption, ["'bucket'", "1.5", "an integer"]),
    "null for a number": ("k INT", {"bucket": None}, InvalidOption, ["'bucket'", "None"]),
    "a size without number": ("k INT", {"target-file-size": "mb"}, InvalidOption, ["'target-file-size'", "'128 mb'", "'mb'"]),
    "a size of no bytes": ("k INT", {"target-file-size": "0 mb"}, InvalidOption, ["target-file-size"]),
    "a negative size": ("k INT", {"file.block-size": "-1 kb"}, InvalidOption, ["'file.block-size'"]),
    "a duration in no unit": ("k INT", {"commit.min-retry-wait": "3 fortnights"}, InvalidOption, ["duration", "fortnights"]),
    "not a truth": ("k INT", {"write-only": "yes"}, InvalidOption, ["true or false", "'yes'"]),
    "no such merge engine": ("k INT", {"merge-engine": "replace"}, InvalidOption, ["'merge-engine'", "deduplicate"]),
    "codec": ("k INT", {"file.compression": "rar"}, InvalidOption, ["'file.compression'", "zstd", "rar"]),
    "many runs without deletion vectors": (
        "k INT",
        {"deletion-vectors.enabled": "false", "compaction.strategy": "tiered"},
        InvalidOption,
        ["tiered", "compaction.strategy = universal"],
    ),
    "blocks above files": (
        "k INT",
        {"file.block-size": "1 gb", "target-file-size": "128 mb"},
        InvalidOption,
        ["file.block-size", "target-file-size"],
    ),
    "stop below trigger": (
        "k INT",
        {"num-sorted-run.stop-trigger": 2, "num-sorted-run.compaction-trigger": 5},
        InvalidOption,
        ["num-sorted-run.stop-trigger = 2", "compaction-trigger = 5"],
    ),
    "option of the other strategy": (
        "k INT",
        {"compaction.size-ratio": 5, "compaction.strategy": "tiered"},
        InvalidOption,
        ["compaction.size-ratio", "tiered"],
    ),
    "half an off-peak time": (
        "k INT",
        {"compaction.offpeak.start.hour": 0, "compaction.strategy": "universal"},
        InvalidOption,
        ["only one of", "start.hour = 0", "end.hour = nothing"],
    ),
    "off-peak hours of the other strategy": (
        "k INT",
        {"compaction.offpeak.start.hour": 3, "compaction.strategy": "tiered"},
        InvalidOption,
        ["universal"],
    ),
    "level of another codec": (
        "k INT",
        {"file.compression": "lz4", "file.compression.zstd-level": 3},
        InvalidOption,
        ["unless file.compression = auto or zstd"],
    ),
    "one option by two names": (
        "k INT",
        {"ignore-delete": "true", "deduplicate.ignore-delete": "false"},
        InvalidOption,
        ["'ignore-delete' is given twice"],
    ),
    "waits turned round": (
        "k INT",
        {"commit.min-retry-wait": "1 h", "commit.max-retry-wait": "1 min"},
        InvalidOption,
        ["commit.min-retry-wait"],
    ),
    "bucket key outside the key": ("k INT, v INT", {"bucket-key": "v"}, InvalidOption, ["bucket-key", "'v'", "['k']"]),
    "bucket key twice": ("k INT", {"bucket-key": "k,k"}, InvalidOption, ["bucket-key", "twice"]),
    "a name with NUL": (pa.schema([("k", pa.int32()), ("a\0b", pa.int32())]), {}, InvalidSchema, ["NUL", r"a\x00b"]),
    "sequence twice": ("k INT, v INT", {"sequence.field": "v,v"}, InvalidOption, ["sequence.field", "twice"]),
    "unknown default function": (
        "k INT",
        {"merge-engine": "aggregation", "fields.default-aggregate-function": "bogus"},
        InvalidOption,
        ["'bogus'", "last_value"],
    ),
    "row kind in no column": ("k INT", {"rowkind.field": "op"}, InvalidOption, ["rowkind.field", "'op'"]),
    "row kind as a number": ("k INT, op INT", {"rowkind.field": "op"}, InvalidOption, ["rowkind.field", "string", "int32"]),
    "no column": (pa.schema([]), {}, InvalidSchema, ["at least one column"]),
    "two columns of one name": (
        pa.schema([("k", pa.int32()), ("k", pa.int64())]),
        {},
        InvalidSchema,
        ["same name", "'k' and 'k'"],
    ),
    "two columns but for case": ("k INT, K INT", {}, InvalidSchema, ["same name", "'k' and 'K'"]),
    "two fields of one name": ("k INT, s STRUCT<a: INT, a: INT>", {}, InvalidSchema, ["same name", "['a', 'a']", "column 's'"]),
    "a blank name": (pa.schema([("k", pa.int32()), (" ", pa.int64())]), {}, InvalidSchema, ["blank"]),
    "a reserved beginning": ("k INT, _lsmlake_row INT", {}, InvalidSchema, ["_lsmlake_row", "reserved"]),
    "a reserved name": ("k INT, _row_kind TINYINT", {}, InvalidSchema, ["_row_kind", "reserved"]),
    "unsigned": (pa.schema([("k", pa.uint32())]), {}, InvalidSchema, ["column 'k'", "uint32", "use int64"]),
    "untyped": (pa.schema([("k", pa.int32()), ("v", pa.null())]), {}, InvalidSchema, ["column 'v'", "null", "a type"]),
    "a duration": (pa.schema([("k", pa.int32()), ("v", pa.duration("s"))]), {}, InvalidSchema, ["column 'v'", "duration[s]"]),
    "half floats": (pa.schema([("k", pa.int32()), ("v", pa.float16())]), {}, InvalidSchema, ["column 'v'", "halffloat"]),
    "too wide a decimal": (pa.schema([("k", pa.int32()), ("v", pa.decimal256(50, 2))]), {}, InvalidSchema, ["column 'v'", "50"]),
    "a negative scale": (pa.schema([("k", pa.int32()), ("v", pa.decimal128(5, -2))]), {}, InvalidSchema, ["column 'v'"]),
    "a struct of nothing": (pa.schema([("k", pa.int32()), ("v", pa.struct([]))]), {}, InvalidSchema, ["column 'v'", "struct"]),
    "a deep bad type": (pa.schema([("k", pa.int32()), ("v", pa.list_(pa.uint8()))]), {}, InvalidSchema, ["v.element", "uint8"]),
    "a type nested as deep as no file can be": (
        "k INT, v " + "ARRAY<" * 31 + "INT" + ">" * 31,
        {},
        InvalidSchema,
        ["column 'v'", "30"],
    ),
    "not a schema": (42, {}, InvalidSchema, ["int", "DDL"]),
}


@pytest.mark.parametrize("case", list(BAD_TABLES))
def test_a_table_that_cannot_be_is_refused_and_leaves_no_file(case):
    schema, options, error, words = BAD_TABLES[case]
    lake = new_lake()
    before = contents(lake.env.storage)
    refused(error, lambda: lake.create_table("d.t", schema, primary_key=["k"], options=options), *words)
    assert contents(lake.env.storage) == before
    assert lake.tables("d") == []


BAD_KEYS = {
    "key that is no column": ({"primary_key": ["id"]}, ["'id'", "k", "is not in the schema"]),
    "key column of another case": ({"primary_key": ["K"]}, ["'K'", "did you mean 'k'"]),
    "key column twice": ({"primary_key": ["k", "k"]}, ["twice", "['k', 'k']"]),
    "key as text": ({"primary_key": "k"}, ["list of names", "'k'"]),
    "partition as text": ({"primary_key": ["k", "p"], "partition_by": "p"}, ["list of names", "'p'"]),
    "partition that is no column": ({"primary_key": ["k"], "partition_by": ["q"]}, ["'q'", "is not in the schema"]),
    "nothing but partitions": ({"primary_key": ["k", "p"], "partition_by": ["p", "k"]}, ["nothing but partition columns"]),
    "a list as key": ({"primary_key": ["k", "a"]}, ["column 'a'", "sortable", "list"]),
    "a struct as partition": ({"primary_key": ["k", "s"], "partition_by": ["s"]}, ["column 's'", "sortable", "struct"]),
    "a map as key": ({"primary_key": ["m"]}, ["column 'm'", "sortable", "map"]),
}


@pytest.mark.parametrize("case", list(BAD_KEYS))
def test_a_key_that_cannot_be_is_refused_and_leaves_no_file(case):
    how, words = BAD_KEYS[case]
    lake = new_lake()
    before = contents(lake.env.storage)
    columns = "k INT, p STRING, a ARRAY<INT>, s STRUCT<x: INT>, m MAP<INT, INT>"
    refused(InvalidSchema, lambda: lake.create_table("d.t", columns, **how), *words)
    assert contents(lake.env.storage) == before


# --- rows that do not fit ---

STRUCT = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
COLUMNS = {
    "i": ("INT", pa.array([1], pa.int32())),
    "f": ("FLOAT", pa.array([0.5], pa.float32())),
    "d": ("DOUBLE", pa.array([0.5])),
    "m": ("DECIMAL(5,2)", pa.array([Decimal("1.25")], pa.decimal128(5, 2))),
    "s": ("STRING", pa.array(["x"])),
    "b": ("BINARY", pa.array([b"x"])),
    "o": ("BOOLEAN", pa.array([True])),
    "a": ("DATE", pa.array([dt.date(2026, 1, 1)])),
    "t": ("TIMESTAMP", pa.array([0], pa.timestamp("us", "UTC"))),
    "n": ("TIMESTAMP_NTZ", pa.array([0], pa.timestamp("us"))),
    "r": ("STRING NOT NULL", pa.array(["x"])),
    "z": ("STRUCT<a: INT NOT NULL, b: ARRAY<STRING>>", pa.array([{"a": 1, "b": []}], STRUCT)),
}  # fmt: skip


def good_rows() -> pa.Table:
    return pa.table(
        {"k": pa.array([1], pa.int64()), "x": pa.array([0.5]), **{name: values for name, (_, values) in COLUMNS.items()}}
    )


@pytest.fixture
def table():
    lake = new_lake()
    columns = ", ".join(["k BIGINT", "x DOUBLE", *(f"{name} {ddl}" for name, (ddl, _) in COLUMNS.items())])
    made = lake.create_table("d.t", columns, primary_key=["k", "x"], options={"bucket": 2})
    made.upsert(good_rows())
    return made


def unchanged(table, call: Callable[[], object], *words: str, error: type[LakeError] = InvalidData) -> None:
    """The call is refused; no file has come or gone or changed."""
    storage = table.meta.env.storage
    before, rows = contents(storage), rows_of(table.scan().to_arrow())
    refused(error, call, *words)
    assert contents(storage) == before
    assert rows_of(table.scan().to_arrow()) == rows


NS = 1_767_225_600_000_000_001
BAD_VALUES = {
    "int64 above INT": ("i", pa.array([1, 2**31], pa.int64()), ["column 'i'", "INT", "2147483648"]),
    "int64 below INT": ("i", pa.array([-(2**31) - 1], pa.int64()), ["column 'i'", "INT", "-2147483649"]),
    "unsigned above INT": ("i", pa.array([2**32 - 1], pa.uint32()), ["column 'i'", "INT"]),
    "float for INT": ("i", pa.array([1.0]), ["column 'i'", "INT", "double"]),
    "text for INT": ("i", pa.array(["1"]), ["column 'i'", "INT", "string"]),
    "boolean for INT": ("i", pa.array([True]), ["column 'i'", "INT", "bool"]),
    "decimal for INT": ("i", pa.array([Decimal(1)]), ["column 'i'", "INT", "decimal"]),
    "rounded FLOAT": ("f", pa.array([0.5, 0.1]), ["column 'f'", "FLOAT", "0.1", "rounded"]),
    "FLOAT overflow": ("f", pa.array([1e300]), ["column 'f'", "FLOAT", "1e+300"]),
    "text for FLOAT": ("f", pa.array(["0.5"]), ["column 'f'", "FLOAT", "string"]),
    "integer that no DOUBLE is": ("d", pa.array([2**53 + 1]), ["column 'd'", "DOUBLE", "9007199254740993"]),
    "decimal for DOUBLE": ("d", pa.array([Decimal("0.5")]), ["column 'd'", "DOUBLE", "decimal"]),
    "decimal overflow": ("m", pa.array([Decimal("1000.00")], pa.decimal128(9, 2)), ["column 'm'", "DECIMAL(5,2)"]),
    "decimal of more digits": ("m", pa.array([Decimal("1.255")]), ["column 'm'", "DECIMAL(5,2)"]),
    "integer above DECIMAL": ("m", pa.array([1000]), ["column 'm'", "DECIMAL(5,2)"]),
    "float for DECIMAL": ("m", pa.array([0.5]), ["column 'm'", "DECIMAL(5,2)", "double"]),
    "integer for STRING": ("s", pa.array([5]), ["column 's'", "STRING", "int64"]),
    "bytes for STRING": ("s", pa.array([b"x"]), ["column 's'", "STRING", "binary"]),
    "text for BINARY": ("b", pa.array(["x"]), ["column 'b'", "BINARY", "string"]),
    "integer for BOOLEAN": ("o", pa.array([1]), ["column 'o'", "BOOLEAN", "int64"]),
    "timestamp for DATE": ("a", pa.array([0], pa.timestamp("us")), ["column 'a'", "DATE", "timestamp"]),
    "text for DATE": ("a", pa.array(["2026-01-01"]), ["column 'a'", "DATE", "string"]),
    "half a day for DATE": ("a", pa.array([1], pa.int64()).view(pa.date64()), ["column 'a'", "DATE"]),
    "date after year 9999": ("a", pa.array([2_932_897], pa.int32()).view(pa.date32()), ["column 'a'", "9999"]),
    "date before year 1": ("a", pa.array([-719_163], pa.int32()).view(pa.date32()), ["column 'a'", "0001"]),
    "time without zone for TIMESTAMP": ("t", pa.array([0], pa.timestamp("us")), ["column 't'", "TIMESTAMP", "timestamp[us]"]),
    "time with zone for TIMESTAMP_NTZ": ("n", pa.array([0], pa.timestamp("us", "UTC")), ["column 'n'", "TIMESTAMP_NTZ", "UTC"]),
    "nanoseconds": ("t", pa.array([NS], pa.timestamp("ns", "UTC")), ["column 't'", "TIMESTAMP", str(NS)]),
    "date for TIMESTAMP": ("t", pa.array([dt.date(2026, 1, 1)]), ["column 't'", "TIMESTAMP", "date32"]),
    "timestamp after year 9999": ("t", pa.array([2**62], pa.timestamp("us", "UTC")), ["column 't'", "9999"]),
    "seconds that overflow": ("n", pa.array([2**60], pa.timestamp("s")), ["column 'n'", "TIMESTAMP_NTZ"]),
    "null in NOT NULL": ("r", pa.array(["x", None]), ["column 'r'", "null", "1 null"]),
    "nothing but nulls in NOT NULL": ("r", pa.nulls(2), ["column 'r'", "null"]),
    "null in a NOT NULL field": ("z", pa.array([{"a": None, "b": []}], STRUCT), ["column 'z'", "'a'", "null"]),
    "missing field": ("z", pa.array([{"a": 1}]), ["column 'z'"]),
    "extra field": ("z", pa.array([{"a": 1, "b": ["x"], "c": 2}]), ["column 'z'"]),
    "wrong type of a field": ("z", pa.array([{"a": "1", "b": ["x"]}]), ["column 'z'"]),
    "lossy field": ("z", pa.array([{"a": 2**40, "b": ["x"]}]), ["column 'z'"]),
    "text that is no UTF-8": ("s", pa.array([b"\xff\xfe"]).view(pa.string()), ["column 's'", "UTF8"]),
    "null key": ("k", pa.array([1, None], pa.int64()), ["column 'k'", "null"]),
    "NaN key": ("x", pa.array([math.nan]), ["column 'x'", "NaN"]),
    "null in a float key": ("x", pa.array([None], pa.float64()), ["column 'x'", "null"]),
}  # fmt: skip


@pytest.mark.parametrize("case", list(BAD_VALUES))
def test_a_value_that_does_not_fit_is_refused_before_anything_is_written(table, case):
    column, values, words = BAD_VALUES[case]
    rows = pa.concat_tables([good_rows()] * len(values)).set_column(good_rows().column_names.index(column), column, values)
    unchanged(table, lambda: table.upsert(rows), *words)


def test_the_good_rows_are_good(table):
    assert table.upsert(good_rows()).id == 2
    assert table.upsert(good_rows().rename_columns(good_rows().column_names)).id == 3


def test_a_message_shows_a_part_of_many_columns_and_other_ways_to_write_some(lake):
    names = [f"c{number}" for number in range(200)]
    wide = lake.create_table("d.wide", f"k INT NOT NULL, {', '.join(f'{name} STRING' for name in names)}", primary_key=["k"])
    with pytest.raises(InvalidData) as refused:
        wide.upsert([{"k": 1, "c0": "a", "c1": "b"}])
    message = str(refused.value)
    assert message.startswith("the data lacks the columns ['c2', 'c3', ") and "'c11', and 188 more], expected" in message
    assert len(message) < 600 and "'c199'" not in message
    assert "or change only some columns of rows: by MERGE, or in a table with 'merge-engine' = 'partial-update'" in message
    assert refused.value.expected == ["k", *names], "programs get the whole list"
    with pytest.raises(InvalidData, match=r"is known\) and drop the extra ones$"):
        wide.delete_keys({"c0": ["a"]})


@pytest.mark.parametrize("given", [list, iter], ids=["a list", "a generator"])
@pytest.mark.parametrize("count", [1, 2])
def test_rows_without_values_are_not_no_rows(table, given, count):
    unchanged(table, lambda: table.upsert(given([{}] * count)), "row 0: a row has no values")


def test_no_rows_commit_nothing(table):
    assert table.upsert([]) is None and table.upsert(iter([])) is None


@pytest.mark.parametrize("row_kind", ["op", {"column": "op", "map": {"c": "+I", "d": "-D"}}], ids=["names", "codes"])
def test_a_null_row_kind_is_refused_with_its_row(lake, row_kind):
    table = lake.create_table("d.kinds", "k INT NOT NULL", primary_key=["k"])
    good = "c" if isinstance(row_kind, dict) else "+I"
    words = r"column 'op', row 1: a row has no row kind: its value is null, expected .*; fill it, with the code of '\+I'"
    with pytest.raises(InvalidData, match=words):
        table.upsert([{"k": 1, "op": good}, {"k": 2, "op": None}], row_kind=row_kind)
    assert table.scan().count() == 0


BAD_SHAPES = {
    "missing column": (lambda t: t.drop_columns(["s"]), ["lacks the columns ['s']", "add the missing"]),
    "extra column": (lambda t: t.append_column("more", pa.array([1])), ["extra columns ['more']", "drop the extra"]),
    "both": (lambda t: t.rename_columns(["other" if name == "s" else name for name in t.column_names]), ["['s']", "['other']"]),
    "other case": (lambda t: t.rename_columns(["S" if name == "s" else name for name in t.column_names]), ["rename 'S' to 's'"]),
    "missing key": (lambda t: t.drop_columns(["k"]), ["lacks the columns ['k']"]),
    "a column twice": (lambda t: t.append_column("s", pa.array(["y"])), ["twice", "['s']"]),
    "the row kind in the data unasked": (lambda t: t.append_column("_row_kind", pa.array([0])), ["_row_kind"]),
    "no columns": (lambda t: t.select([]), ["lacks the columns"]),
}


@pytest.mark.parametrize("case", list(BAD_SHAPES))
def test_data_of_other_columns_is_refused(table, case):
    change, words = BAD_SHAPES[case]
    unchanged(table, lambda: table.upsert(change(good_rows())), *words)


@pytest.mark.parametrize(
    "data", [None, 42, "rows", object(), [1, 2], {"k": 1}, {"k": [1], "x": [1, 2]}, np.zeros(3), [{"k": 1}, 5]]
)
def test_invalid_data_is_refused(table, data):
    unchanged(table, lambda: table.upsert(data))


BAD_KINDS = {
    "unknown kind": (pa.array(["+X"]), ["column 'op'", "'+X'", "'-D'"]),
    "null kind": (pa.array([None], pa.string()), ["column 'op'", "its value is null", "'-D'"]),
    "kind as number": (pa.array([0]), ["column 'op'", "int64", "'-D'"]),
    "kind in lower case": (pa.array(["+i"]), ["column 'op'", "'+i'"]),
}


@pytest.mark.parametrize("case", list(BAD_KINDS))
def test_an_unknown_row_kind_is_refused(table, case):
    kinds, words = BAD_KINDS[case]
    unchanged(table, lambda: table.upsert(good_rows().append_column("op", kinds), row_kind="op"), *words)


def test_a_code_that_the_column_cannot_hold_is_no_other_code(table):
    """PyArrow makes the integer 1 of 1.5."""
    given = good_rows().append_column("op", pa.array([1]))
    unchanged(table, lambda: table.upsert(given, row_kind={"column": "op", "map": {1.5: "-D"}}), "'op'", "1.5")
    assert table.upsert(given, row_kind={"column": "op", "map": {1.0: "+I"}}) is not None


@pytest.mark.parametrize(
    ("kinds", "code"), [(pa.array([b"c"]), "c"), (pa.array([0.1], pa.float32()), 0.1)], ids=["bytes", "float32"]
)
def test_codes_that_the_column_has_in_another_form_are_codes(table, kinds, code):
    given = good_rows().append_column("op", kinds)
    assert table.upsert(given, row_kind={"column": "op", "map": {code: "+I"}}) is not None


def test_a_row_kind_column_that_is_not_there_or_twice_is_refused(table):
    unchanged(table, lambda: table.upsert(good_rows(), row_kind="op"), "'op'")
    twice = good_rows().append_column("op", pa.array(["+I"])).append_column("op", pa.array(["-D"]))
    unchanged(table, lambda: table.upsert(twice, row_kind="op"), "'op'")


def test_keys_to_delete_are_the_key_columns_and_nothing_else(table):
    keys = good_rows().select(["k", "x"])
    unchanged(table, lambda: table.delete_keys(good_rows()), "extra columns")
    unchanged(table, lambda: table.delete_keys(keys.select(["k"])), "lacks the columns ['x']")
    unchanged(table, lambda: table.delete_keys({"k": [None], "x": [1.0]}), "column 'k'", "null")
    unchanged(table, lambda: table.delete_keys({"k": [1], "x": [math.nan]}), "NaN")
    unchanged(table, lambda: table.delete_keys({"k": ["1"], "x": [1.0]}), "column 'k'", "BIGINT", "string")
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([1.0]), pa.array([2.0])], ["k", "x", "x"])
    unchanged(table, lambda: table.delete_keys(twice), "has a column twice", "['x']")
    with_sequence = new_lake().create_table("d.s", "k INT NOT NULL, s INT", primary_key=["k"], options={"sequence.field": "s"})
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([1]), pa.array([2])], ["k", "s", "s"])
    unchanged(with_sequence, lambda: with_sequence.delete_keys(twice), "has a column twice", "['s']")
    assert table.delete_keys(keys).id == 2


def test_a_bad_row_among_many_buckets_and_partitions_leaves_no_file():
    lake = new_lake()
    table = lake.create_table(
        "d.t", "p STRING, k BIGINT, v INT", primary_key=["p", "k"], partition_by=["p"], options={"bucket": 3}
    )
    rows = pa.table({"p": ["a", None] * 20, "k": range(40), "v": pa.array([*range(39), 2**40], pa.int64())})
    unchanged(table, lambda: table.upsert(rows), "column 'v'", "INT")


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ({"commit_id": 1}, ["writer_id"]),
        ({"commit_id": -1, "writer_id": "w"}, ["-1", "from 0"]),
        ({"commit_id": True, "writer_id": "w"}, ["True"]),
        ({"commit_id": "1", "writer_id": "w"}, ["'1'"]),
        ({"commit_id": 1.0, "writer_id": "w"}, ["1.0"]),
        ({"commit_id": 1, "writer_id": ""}, ["writer_id"]),
        ({"commit_id": 2**70, "writer_id": "w"}, ["commit_id"]),
        ({"writer_id": 5}, ["writer_id", "5"]),
        ({"commit_id": 1, "writer_id": 5}, ["writer_id", "5"]),
    ],
)
def test_an_identity_that_is_none_is_refused(table, identity, words):
    unchanged(table, lambda: table.upsert(good_rows(), **identity), *words)


def test_a_commit_id_behind_the_last_one_is_refused_and_a_repeat_does_nothing(table):
    assert table.upsert(good_rows(), writer_id="w", commit_id=5).id == 2
    assert table.upsert(good_rows(), writer_id="w", commit_id=5).id == 2
    unchanged(table, lambda: table.upsert(good_rows(), writer_id="w", commit_id=4), "4", "'w'", "more than 5")
    assert table.upsert(good_rows(), writer_id="v", commit_id=4).id == 3


def test_a_clause_of_a_merge_without_values_is_refused(table):
    """It committed a change of nothing."""
    merge = table.merge(good_rows(), "t.k = s.k")
    for describe in (merge.when_matched_update, merge.when_not_matched_insert, merge.when_not_matched_by_source_update):
        refused(InvalidQuery, lambda describe=describe: describe({}), "has no values")


# --- questions without an answer ---

BAD_SCANS = {
    "a column that is not there": ({"columns": ["k", "nope"]}, ["'nope'", "unknown column"]),
    "a column twice": ({"columns": ["k", "K"]}, ["twice"]),
    "no columns": ({"columns": []}, ["list of columns is empty", "count()"]),
    "columns as a set": ({"columns": {"k", "s"}}, ["columns", "pass a list: a set has no order"]),
    "columns as text": ({"columns": "k"}, ["list", "'k'"]),
    "a mode that is none": ({"mode": "stale"}, ["'stale'", "'fresh'"]),
    "a predicate on no column": ({"where": "nope = 1"}, ["nope"]),
    "a predicate that is no SQL": ({"where": "k ="}, ["SQL"]),
    "a text that is no number": ({"where": "s > 5"}, ["is not an integer", "try_cast"]),
    "a literal that is no number": ({"where": "k > 'five'"}, ["character 5", "'five' cannot be cast to BIGINT"]),
    "a subquery": ({"where": "k IN (SELECT 1)"}, ["not supported"]),
}


@pytest.mark.parametrize("case", list(BAD_SCANS))
def test_a_question_without_an_answer_is_refused(table, case):
    how, words = BAD_SCANS[case]
    with pytest.raises(InvalidQuery) as caught:
        table.scan(**how).to_arrow()
    for word in words:
        assert word in str(caught.value)


def test_compaction_of_what_is_not_there_is_refused(table):
    unchanged(table, lambda: table.compact(buckets=[2]), "0 to 1", "[2]", error=InvalidQuery)
    unchanged(table, lambda: table.compact(where="k = 1"), "partition", "['k']", error=InvalidQuery)


def test_a_schema_of_spark_without_spark_names_the_cure(lake):
    spark_types = pytest.importorskip("pyspark.sql.types")
    struct = spark_types.StructType([spark_types.StructField("k", spark_types.IntegerType())])
    refused(InvalidSchema, lambda: lake.create_table("d.n", struct), "found StructType", 'lsmlake.connect("...", spark=spark)')
    refused(InvalidSchema, lambda: lsmlake.cdc.decode([], "plain", struct), "found StructType", "pass the events as a DataFrame")


def test_a_dataframe_has_the_time_zone_of_its_session():
    pytest.importorskip("pyspark")
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe", "sparkSession": None})()
    call = partial(lsmlake.cdc.decode, frame, "plain", "k INT", time_zone="Europe/Berlin")
    refused(InvalidQuery, call, "time_zone", "the session has the time zone", "Europe/Berlin", "spark.sql.session.timeZone")


def test_a_closed_connection_is_refused(table):
    connection = duckdb.connect()
    connection.close()
    refused(InvalidQuery, lambda: table.scan().to_duckdb(connection), "the connection is closed", "pass an open connection")


# --- names ---


def test_names_that_are_taken_or_not_there():
    lake = new_lake()
    orders = lake.create_table("d.orders", "k INT", primary_key=["k"])
    orders.upsert({"k": [1]})
    before = contents(lake.env.storage)
    refused(
        TableExists, lambda: lake.create_table("d.orders", "other STRING", primary_key=["other"]), "'d.orders'", "if_not_exists"
    )
    refused(TableExists, lambda: lake.create_database("d"), "'d'", "if_not_exists")
    refused(TableNotFound, lambda: lake.table("d.order"), "'d.order'", "did you mean d.orders?")
    refused(TableNotFound, lambda: lake.table("d.zzz"), "'d.zzz'", "schema file in d.db/zzz", "create_table")
    refused(TableNotFound, lambda: lake.table("dd.orders"), "'dd'", "did you mean 'd'?")
    refused(TableNotFound, lambda: lake.create_table("sales.orders", "k INT", primary_key=["k"]), "'sales'", "create_database")
    refused(TableNotFound, lambda: lake.tables("nope"), "'nope'")
    refused(TableNotFound, lambda: lake.drop_table("d.zzz"), "'d.zzz'")
    refused(TableNotFound, lambda: lake.drop_database("nope"), "'nope'")
    refused(InvalidQuery, lambda: lake.drop_database("d"), "not empty", "orders", "cascade=True")
    assert contents(lake.env.storage) == before
    assert rows_of(lake.create_table("d.orders", "k INT", primary_key=["k"], if_not_exists=True).scan().to_arrow()) == [(1,)]


def test_tables_of_one_database_and_of_all():
    lake = new_lake()
    assert lake.tables() == []
    lake.create_database("a")
    lake.create_database("empty")
    for name in ("d.orders", "a.items", "d.items"):
        lake.create_table(name, "k INT", primary_key=["k"])
    assert lake.tables("d") == ["items", "orders"]
    assert lake.tables() == ["a.items", "d.items", "d.orders"]


@pytest.mark.parametrize(
    "name", ["t", "d.t.x", "", ".", "d.", ".t", "d/../e.t", "d.t t", "d.ü", "d.-t", "d.t\n", "d.t$snapshots"]
)
def test_a_name_of_another_form_is_refused(name):
    lake = new_lake()
    before = contents(lake.env.storage)
    refused(InvalidQuery, lambda: lake.table(name), "not a table name")
    refused(InvalidQuery, lambda: lake.create_table(name, "k INT", primary_key=["k"]), "not a table name")
    assert contents(lake.env.storage) == before


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ü", "x.db"])
def test_a_database_name_of_another_form_is_refused(name):
    refused(InvalidQuery, lambda: new_lake().create_database(name), "not a database name")


def test_a_folder_without_a_schema_is_not_a_table():
    lake = new_lake()
    lake.env.storage.put_if_absent("d.db/stray/bucket-0/data-1.parquet", b"")
    assert lake.tables("d") == []
    refused(TableNotFound, lambda: lake.table("d.stray"), "schema file in d.db/stray/schema")


def test_a_table_dropped_under_our_feet_is_not_there():
    lake = new_lake()
    table = lake.create_table("d.t", "k INT", primary_key=["k"])
    table.upsert({"k": [1]})
    again = lake.table("d.t")
    lake.drop_table("d.t")
    with pytest.raises(LakeError):
        again.scan(snapshot=1).to_arrow()
    assert contents(lake.env.storage, "d.db/t") == {}


def test_snapshots_that_are_not_there(table):
    for number in (0, 2, -1, 10**9):
        with pytest.raises(SnapshotNotFound, match=f"no snapshot {number}"):
            table.scan(snapshot=number).count()


# --- what looks bad and is good ---


@pytest.mark.parametrize(
    ("ddl", "there", "hidden"),
    [
        (
            "STRUCT<a: INT NOT NULL, b: ARRAY<STRING>>",
            {"a": 1, "b": [None]},
            pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
        ),
        (
            "STRUCT<a: STRUCT<b: STRING NOT NULL> NOT NULL>",
            {"a": {"b": "x"}},
            pa.struct([("a", pa.struct([("b", pa.string())]))]),
        ),
        ("ARRAY<STRUCT<a: INT NOT NULL>>", [{"a": 1}, None], pa.list_(pa.struct([("a", pa.int32())]))),
        (
            "MAP<STRING, STRUCT<a: INT NOT NULL>>",
            [("x", {"a": 1}), ("y", None)],
            pa.map_(pa.string(), pa.struct([("a", pa.int32())])),
        ),
    ],
)
def test_a_null_struct_may_hide_nulls_in_required_fields(ddl, there, hidden):
    """Libraries leave nulls in the fields of null structs; nobody sees them, so they are no nulls."""
    table = new_lake().create_table("d.t", f"k INT, z {ddl}", primary_key=["k"])
    values = pa.concat_arrays([pa.nulls(2, hidden), pa.array([there, None], hidden), pa.nulls(1, hidden)]).slice(1)
    table.upsert(pa.table({"k": range(4), "z": values}))
    table.delete_keys({"k": [3]}, compact=False)
    table.delete_keys({"k": [0]})
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"]) == [{"k": 1, "z": there}, {"k": 2, "z": None}]
    typed = pa.concat_arrays([pa.nulls(1, table.schema.field("z").type), values.slice(1, 1).cast(table.schema.field("z").type)])
    table.upsert(pa.table({"k": [5, 6], "z": typed}))
    assert table.compact(full=True).snapshot_id
    assert sorted(row["k"] for row in table.scan(mode="raw").to_arrow().to_pylist()) == [1, 2, 5, 6]
    assert table.verify() == []


GOOD_VALUES = {
    "small integers": ("i", pa.array([7], pa.int8()), 7),
    "unsigned that fit": ("i", pa.array([7], pa.uint64()), 7),
    "dictionary of text": ("s", pa.array(["x"]).dictionary_encode(), "x"),
    "large text": ("s", pa.array(["x"], pa.large_string()), "x"),
    "text as views": ("s", pa.array(["x"], pa.string_view()), "x"),
    "bytes of one width": ("b", pa.array([b"ab"], pa.binary(2)), b"ab"),
    "an integer for DOUBLE": ("d", pa.array([2**53]), 2.0**53),
    "an integer for DECIMAL": ("m", pa.array([999]), Decimal("999.00")),
    "a wider DECIMAL that fits": ("m", pa.array([Decimal("1.50")], pa.decimal128(30, 10)), Decimal("1.50")),
    "a DOUBLE that is a FLOAT": ("f", pa.array([0.25]), 0.25),
    "NaN as FLOAT": ("f", pa.array([math.nan]), math.nan),
    "milliseconds": ("n", pa.array([5], pa.timestamp("ms")), dt.datetime(1970, 1, 1, 0, 0, 0, 5000)),
    "even nanoseconds": ("n", pa.array([5000], pa.timestamp("ns")), dt.datetime(1970, 1, 1, 0, 0, 0, 5)),
    "another zone": ("t", pa.array([0], pa.timestamp("us", "Asia/Tokyo")), dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)),
    "date64": ("a", pa.array([86_400_000]).view(pa.date64()), dt.date(1970, 1, 2)),
    "the first day": ("a", pa.array([dt.date(1, 1, 1)]), dt.date(1, 1, 1)),
    "the last moment": ("n", pa.array([dt.datetime.max]), dt.datetime.max),
    "untyped nulls": ("s", pa.nulls(1), None),
}


@pytest.mark.parametrize("case", list(GOOD_VALUES))
def test_a_value_that_keeps_its_meaning_is_taken(table, case):
    column, values, expected = GOOD_VALUES[case]
    table.upsert(good_rows().set_column(good_rows().column_names.index(column), column, values))
    assert rows_of(table.scan(columns=[column]).to_arrow()) == [(seen(expected),)]


def test_row_kinds_may_come_as_views_or_dictionaries(table):
    for kinds in (pa.array(["+U"], pa.string_view()), pa.array(["+U"]).dictionary_encode(), pa.array(["+U"], pa.large_string())):
        assert table.upsert(good_rows().append_column("op", kinds), row_kind="op") is not None


@pytest.mark.parametrize("name", ["a/b", "..", "a=b", "x y", "né", "a%2Fb", "dt:"])
def test_a_partition_column_may_have_any_name(name):
    lake = new_lake()
    columns = pa.schema([("k", pa.int64()), (name, pa.string())])
    table = lake.create_table("d.t", columns, primary_key=["k", name], partition_by=[name])
    table.upsert(pa.table([pa.array([1, 2]), pa.array(["..", None])], schema=columns))
    assert multiset(rows_of(table.scan().to_arrow())) == [(1, ".."), (2, None)]
    assert all(path.startswith("d.db/t/") and "/../" not in path for path in table.files()["file_path"].to_pylist())
    lake.drop_table("d.t")
    assert contents(lake.env.storage, "d.db/t") == {}


@pytest.mark.parametrize("form", ["DataFrame", "LazyFrame", "batches", "dict", "list"])
def test_objects_in_polars_are_no_values(form: str):
    """Their Arrow form holds addresses in memory."""
    frame = pl.DataFrame({"id": [1, 2], "u": pl.Series([uuid.uuid4(), {"a": 1}], dtype=pl.Object)})
    columns = {"id": frame["id"], "u": frame["u"]}
    forms = {"DataFrame": frame, "LazyFrame": frame.lazy(), "batches": iter([frame]), "dict": columns}
    lake = lsmlake.connect(f"memory://{uuid.uuid4()}")
    lake.create_database("d")
    table = lake.create_table("d.t", "id BIGINT NOT NULL, u BINARY", primary_key=["id"])
    data = [frame] if form == "list" else forms[form]
    with pytest.raises(InvalidData, match=r"'u': a column of Python objects|not a dict"):
        table.upsert(data)
    if form in ("DataFrame", "LazyFrame"):
        for call in (
            lambda: lake.create_table_from("d.x", data, primary_key=["id"]),
            lambda: table.upsert(data, evolve=True),
            lambda: table.merge(data, "t.id = s.id").when_matched_delete().execute(),
            lambda: table.get(frame.select("u")),
            lambda: lake.sql("SELECT * FROM given", tables={"given": data}),
        ):
            with pytest.raises(InvalidData, match="'u': a column of Python objects"):
                call()
    assert table.scan().count() == 0


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("TIMETZ '10:00:00+05'", "lacks the zone"),
        ("[340282366920938463463374607431768211455::UHUGEINT]", "other numbers"),
        ("{'x': MAP {'a': TIMETZ '10:00:00+05'}}", "lacks the zone"),
        ("'101'::BIT", "bytes in which DuckDB keeps it"),
        ("union_value(x := 1)", "one type"),
    ],
)
def test_types_of_duckdb_that_lose_their_values_in_arrow_are_refused(lake, value, words):
    """10:00:00+05 became the TIME 10:00:00, and the greatest UHUGEINT the DECIMAL -1."""
    relation = duckdb.sql(f"SELECT 1 AS k, {value} AS v")
    table = lake.create_table("d.t", "k INT NOT NULL, v TIME", primary_key=["k"])
    for call in (
        lambda: table.upsert(relation),
        lambda: table.upsert(iter([relation]), cast=True),
        lambda: lake.create_table_from("d.x", relation, primary_key=["k"]),
        lambda: table.merge(relation, "t.k = s.k").when_matched_delete().execute(),
    ):
        refused(InvalidData, call, "column 'v'", words)
    assert lake.tables("d") == ["t"] and table.snapshots().num_rows == 0
