"""Rows that cannot be merged: the error names them and the cure, and repair changes these rows and no others."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap
from strategies import contents, new_lake
from typer.testing import CliRunner

import lsmlake
from lsmlake.cli.app import app
from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.lsm.aggregate import Function, functions_by_name, opaque, register

HALF = 2**62
COLUMNS = "k INT, p STRING, s BIGINT, d DECIMAL(3,0), f BIGINT, note STRING"
OPTIONS = {
    "merge-engine": "aggregation",
    "fields.s.aggregate-function": "sum",
    "fields.d.aggregate-function": "sum",
    "fields.f.aggregate-function": "product",
    "write-only": True,
}


def row(k, s=None, d=None, f=None, note=None):
    return {"k": k, "p": "a", "s": s, "d": None if d is None else Decimal(d), "f": f, "note": note}


def made(lake=None, **options):
    lake = lake or new_lake()
    table = lake.create_table("d.t", COLUMNS, primary_key=["k", "p"], partition_by=["p"], options=OPTIONS | options)
    table.upsert([row(k, HALF, 999, 2, "old") for k in range(6)])
    return table


def poisoned(lake=None, **options):
    """Keys 1 (sum), 2 (decimal) and 3 (product) have a row that does not fit; a later row of key 1 does."""
    table = made(lake, **options)
    table.compact()
    table.upsert([row(1, HALF, 0, None, "bad"), row(2, 1, 1, None, "bad"), row(4, 1)])
    table.upsert([row(1, 7, None, None, "new"), row(3, None, None, HALF, "bad")])
    return table


def sums(table):
    return {one["k"]: (one["s"], one["f"], one["note"]) for one in table.scan().to_arrow().to_pylist()}


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fails if the body takes longer: a repair that changes nothing must not try for ever."""

    def stop(*_: object) -> None:
        raise AssertionError(f"not done within {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def time_limit():
    with within(60):
        yield


VECTORS = pytest.mark.parametrize("vectors", [True, False])


@VECTORS
def test_the_error_names_table_bucket_column_key_rows_and_cure(vectors):
    table = poisoned(**{"deletion-vectors.enabled": vectors})
    for verb in (lambda: table.scan().to_arrow(), lambda: table.compact(full=True), lambda: table.scan(where="k = 1").to_arrow()):
        with pytest.raises(InvalidData) as caught:
            verb()
        message = str(caught.value)
        for words in (
            "d.t, bucket 0 of partition ('a'), column 's'",
            "does not fit",
            "int64",
            "first (k=1)",
            "(s=4611686018427387904), (s=4611686018427387904)",
        ):
            assert words in message, message
        assert "Table.repair() lists the rows" in message
        assert "`lsmlake repair d.t` lists the rows" in caught.value.for_command_line()
    assert table.scan(columns=["k", "note"]).count() == 6


@VECTORS
def test_repair_without_an_action_lists_rows_and_changes_nothing(vectors):
    table = poisoned(**{"deletion-vectors.enabled": vectors})
    before = contents(table.meta.env.storage)
    report = table.repair()
    assert contents(table.meta.env.storage) == before
    assert report.snapshot_id is None
    found = {one["key"]["k"]: one["columns"] for one in report.rows.to_pylist()}
    assert found == {1: ["s"], 2: ["d"], 3: ["f"]}
    assert all("note" not in one["row"] for one in report.rows.to_pylist())
    assert set(report.rows["bucket"].to_pylist()) == {0}


@VECTORS
@pytest.mark.parametrize("action", ["null", "drop"])
def test_repair_takes_out_the_row_that_does_not_fit_and_no_other(vectors, action):
    table = poisoned(**{"deletion-vectors.enabled": vectors})
    report = table.repair(action=action)
    assert report.rows.num_rows == 3
    assert report.snapshot_id == table.meta.snapshots.latest_id()
    kept = "bad" if action == "null" else "old"
    expected = {
        0: (HALF, 2, "old"),
        1: (HALF + 7, 2, "new"),
        2: (HALF + (action == "null"), 2, kept),
        3: (HALF, 2, kept),
        4: (HALF + 1, 2, "old"),
        5: (HALF, 2, "old"),
    }
    assert sums(table) == expected
    table.compact(full=True)
    assert sums(table) == expected
    assert table.verify() == []
    assert table.repair(action=action).snapshot_id is None


def test_repair_of_some_keys_leaves_the_others_as_they_are():
    table = poisoned()
    report = table.repair(action="drop", keys=[{"k": 1, "p": "a"}, {"k": 3, "p": "a"}])
    assert report.rows.num_rows == 2
    assert [one["key"]["k"] for one in table.repair().rows.to_pylist()] == [2]
    with pytest.raises(InvalidData, match=r"column 'd'.*first \(k=2\)"):
        table.scan().to_arrow()
    nonsense = [{"k": 1}], [{"k": 1, "q": 1}], [{"k": 1, "p": None}]
    for wrong, words in zip(nonsense, ("every key column", "not a key", "found null"), strict=True):
        with pytest.raises(InvalidQuery, match=words):
            table.repair(action="drop", keys=wrong)
    with pytest.raises(InvalidQuery, match="'null' or 'drop'"):
        table.repair(action="delete")


def test_a_zero_taken_out_of_a_product_can_be_repaired():
    table = made()
    table.upsert([row(1, f=0) | {"op": "-U"}], row_kind="op")
    with pytest.raises(InvalidData, match=r"column 'f': a factor of zero.*Table\.repair"):
        table.scan().to_arrow()
    table.repair(action="drop")
    assert sums(table)[1] == (HALF, 2, "old")


def test_a_batch_that_does_not_fit_is_refused_by_a_writer_that_compacts():
    table = made(**{"write-only": False})
    before = contents(table.meta.env.storage)
    with pytest.raises(InvalidData, match=r"first \(k=1\).*correct the rows of this key in the batch; nothing was written"):
        table.upsert([row(1, HALF)])
    with pytest.raises(InvalidData, match=r"column 's': the aggregate.*first \(k=9\)"):
        table.upsert([row(9, HALF), row(9, HALF)])
    assert contents(table.meta.env.storage) == before


def test_a_writer_never_fails_because_of_rows_that_were_there():
    table = poisoned()
    table.alter(lsmlake.set_option("write-only", False))
    assert table.upsert([row(5, 1)]).id == table.meta.snapshots.latest_id()
    table.repair(action="drop")
    assert sums(table)[5][0] == HALF + 1


def test_repair_is_done_again_when_a_compaction_overtakes_it(monkeypatch):
    table = poisoned()
    commit, calls = lsmlake.maintain.repair.commit, []

    def slow(*args, **named):
        calls.append(1)
        if len(calls) == 1:
            table.repair(action="null", keys=[{"k": 2, "p": "a"}])
        return commit(*args, **named)

    monkeypatch.setattr(lsmlake.maintain.repair, "commit", slow)
    table.repair(action="drop")
    assert len(calls) == 3
    assert sums(table)[2] == (HALF + 1, 2, "bad")
    assert table.verify() == []


class Strict(Function):
    """The last value. Once `refused` holds values, refuses these, as a new version of a function might."""

    refused: ClassVar[set[int | None]] = set()
    associative_adds = True

    def reduce(self, values, starts, retract):
        if self.refused & set(values.to_pylist()):
            raise ValueError("refused")
        return values.take(pa.array(np.append(starts[1:], len(values)) - 1))


@pytest.fixture
def strict(monkeypatch):
    monkeypatch.setattr(functions_by_name, "_registered", {})
    monkeypatch.setattr(Strict, "refused", set())
    register("strict", lambda field, settings: Strict())
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "strict"}
    return options


@VECTORS
@pytest.mark.parametrize(("action", "left"), [("null", {1: 1, 2: 2, 3: 3, 4: None}), ("drop", {1: 1, 2: 2, 3: 3})])
def test_a_stored_row_that_a_new_function_refuses_is_repaired_and_its_file_keeps_its_other_rows(strict, vectors, action, left):
    options = strict | {"deletion-vectors.enabled": vectors, "num-levels": 4}
    table = new_lake().create_table("d.t", "k INT, v INT", primary_key=["k"], options=options)
    table.upsert([{"k": k, "v": v} for k, v in ((1, -5), (2, 7), (3, 3), (4, -5))])
    table.compact(full=True)
    table.upsert([{"k": 2, "v": 2}])  # with vectors: marks a row of the compacted file
    Strict.refused = {-5}
    table.upsert([{"k": 1, "v": 1}], compact=False)
    stored = {file.name for state in table.states().values() for file in state.files if file.level > 0}
    listed = table.repair().rows.to_pylist()
    assert [(one["key"]["k"], one["columns"], one["row"]) for one in listed][:1] == [(1, ["v"], "(k=1, v=-5)")]
    assert {one["file"] for one in listed} <= stored
    table.repair(action=action)
    assert table.repair().rows.num_rows == 0
    table.compact(full=True)
    assert {one["k"]: one["v"] for one in table.scan().to_arrow().to_pylist()} == left
    assert table.verify() == []


def test_a_function_that_is_not_reducible_in_parts_fails_the_repair(strict, monkeypatch):
    """It refuses three values at once, but takes them one by one."""
    table = new_lake().create_table("d.t", "k INT, v INT", primary_key=["k"], options=strict | {"write-only": True})
    for v in (1, 2, 3):
        table.upsert([{"k": 1, "v": v}])
    merged, at_once = lsmlake.maintain.repair.merge_runs, []

    def merge(runs, *args):
        at_once.append(len(runs))
        Strict.refused = {1} if len(at_once) == 1 else set()
        return merged(runs, *args)

    monkeypatch.setattr(lsmlake.maintain.repair, "merge_runs", merge)
    with within(10), pytest.raises(InvalidData, match=r"one by one, but not together.*correct the aggregate function"):
        table.repair(action="drop")


def test_null_repairs_every_row_that_no_longer_fits_once_a_column_of_another_is_null():
    """The row in the middle is refused for column a. With null there its column b counts, so the last row does not fit."""
    options = {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum", "write-only": True}
    table = new_lake().create_table("d.t", "k INT, a TINYINT, b TINYINT", primary_key=["k"], options=options)
    for a, b in ((100, 0), (100, 100), (0, 100)):
        table.upsert([{"k": 1, "a": a, "b": b}])
    assert table.repair().rows["columns"].to_pylist() == [["a"]]
    report = table.repair(action="null")
    assert report.rows["columns"].to_pylist() == [["a"], ["b"]]
    assert report.rows["row"].to_pylist() == ["(k=1, a=100)", "(k=1, b=100)"]
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "a": 100, "b": 100}]
    assert table.repair().rows.num_rows == 0


@VECTORS
def test_a_stored_row_whose_value_cannot_be_merged_alone_is_bad(vectors, monkeypatch):
    """A union does not read a value that is alone, so the newer row fails first, though its value is good."""
    options = {"merge-engine": "aggregation", "fields.b.aggregate-function": "rbm32", "deletion-vectors.enabled": vectors}
    table = new_lake().create_table("d.t", "k INT, b BINARY", primary_key=["k"], options=options)
    with monkeypatch.context() as unchecked:
        unchecked.setattr(opaque.Union, "validate", lambda self, values: None)
        table.upsert([{"k": 1, "b": b"garbage"}])
        table.compact(full=True)
    good = BitMap([1]).serialize()
    table.upsert([{"k": 1, "b": good}], compact=False)
    with pytest.raises(InvalidData, match=r"column 'b': the bytes cannot be read"):
        table.scan().to_arrow()
    (listed,) = table.repair(action="null").rows.to_pylist()
    assert (listed["columns"], listed["row"]) == (["b"], f"(k=1, b={b'garbage'.hex()})")
    assert table.get({"k": 1}) == {"k": 1, "b": good}


def test_null_that_would_not_repair_a_row_is_refused_with_another_cure(strict):
    table = new_lake().create_table("d.t", "k INT, v INT", primary_key=["k"], options=strict | {"write-only": True})
    table.upsert([{"k": 1, "v": 1}])
    table.upsert([{"k": 1, "v": -5}])
    Strict.refused = {-5, None}
    before = contents(table.meta.env.storage)
    with (
        within(10),
        pytest.raises(InvalidQuery, match=r"column 'v'.*found \(k=1\); repair this key with action='drop'") as caught,
    ):
        table.repair(action="null")
    assert "--action drop" in caught.value.for_command_line()
    assert contents(table.meta.env.storage) == before
    table.repair(action="drop")
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": 1}]


def test_errors_and_listings_show_iso_dates_short_values_and_no_other_columns():
    columns = "region STRING, day DATE, s BIGINT, note STRING"
    table = new_lake().create_table(
        "d.t",
        columns,
        primary_key=["region", "day"],
        partition_by=["day"],
        options={"merge-engine": "aggregation", "fields.s.aggregate-function": "sum", "write-only": True},
    )
    row = {"region": "north" * 100, "day": date(2026, 1, 1), "s": HALF, "note": "x" * 1000}
    table.upsert([row])
    table.upsert([row])
    with pytest.raises(InvalidData) as caught:
        table.scan().to_arrow()
    (listed,) = table.repair().rows["row"].to_pylist()
    for text in (str(caught.value), listed):
        assert "region='northnorth" in text and "…" in text and "2026-01-01" in text, text
        assert "datetime" not in text and "xxx" not in text and "north" * 20 not in text, text
        assert len(text) < 700
    assert "of partition (2026-01-01), column 's'" in str(caught.value)
    table.repair(action="drop")
    assert table.scan().to_arrow()["s"].to_pylist() == [HALF]


def test_the_command_lists_and_repairs(tmp_path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = poisoned(lake)

    def command(*arguments: str):
        return CliRunner().invoke(app, ["--warehouse", str(tmp_path), *arguments])

    failed = command("head", "d.t")
    assert failed.exit_code == 1
    assert "`lsmlake repair d.t` lists the rows that do not fit" in failed.stderr
    listed = command("repair", "d.t")
    assert listed.exit_code == 0
    assert "d.t: 3 rows to repair; add --action null or --action drop" in listed.stdout
    assert [one["key"]["k"] for one in json.loads(command("repair", "d.t", "--json").stdout)["rows"]] == [1, 2, 3]
    assert command("repair", "d.t", "--key", "7").exit_code == 2
    wrong = command("repair", "d.t", "--action", "foo")
    assert (wrong.exit_code, "None" in wrong.stderr) == (2, False)
    assert "expected --action null or --action drop, found 'foo'" in wrong.stderr
    assert command("repair", "d.t", "--key", '{"k": "x", "p": "a"}').exit_code == 2
    done = command("repair", "d.t", "--action", "drop", "--key", '{"k": 1, "p": "a"}')
    assert "d.t: 1 row dropped, snapshot" in done.stdout
    assert "2 rows repaired: their failing columns are null" in command("repair", "d.t", "--action", "null").stdout
    assert command("repair", "d.t").stdout == "d.t: no row to repair\n"
    assert sums(table)[1] == (HALF + 7, 2, "new")
