"""Rows that cannot be merged: the error names them and the way to take them out, and repair takes out those and no others."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from strategies import contents, new_lake
from typer.testing import CliRunner

import lsmlake
from lsmlake.cli.main import app
from lsmlake.errors import InvalidData, InvalidQuery

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


VECTORS = pytest.mark.parametrize("vectors", [True, False])


@VECTORS
def test_the_error_names_table_bucket_column_key_rows_and_cure(vectors):
    table = poisoned(**{"deletion-vectors.enabled": vectors})
    for verb in (lambda: table.scan().to_arrow(), lambda: table.compact(full=True), lambda: table.scan(where="k = 1").to_arrow()):
        with pytest.raises(InvalidData) as caught:
            verb()
        message = str(caught.value)
        for words in ("d.t, bucket 0 of partition ('a',), column 's'", "does not fit", "int64", "first (k=1)", "note='bad'"):
            assert words in message, message
        assert "Table.repair() lists the rows" in message
        assert "`lsmlake repair d.t` lists the rows" in caught.value.for_command_line()
    assert table.scan(columns=["k", "note"]).count() == 6


@VECTORS
def test_repair_lists_and_changes_nothing_unless_it_is_told_how(vectors):
    table = poisoned(**{"deletion-vectors.enabled": vectors})
    before = contents(table.meta.env.storage)
    report = table.repair()
    assert contents(table.meta.env.storage) == before
    assert report.snapshot_id is None
    found = {one["key"]["k"]: one["columns"] for one in report.rows.to_pylist()}
    assert found == {1: ["s"], 2: ["d"], 3: ["f"]}
    assert all("'note': 'bad'" in one["row"] for one in report.rows.to_pylist())
    assert set(report.rows["bucket"].to_pylist()) == {0}


@VECTORS
@pytest.mark.parametrize("action", ["null", "drop"])
def test_repair_takes_out_the_row_that_does_not_fit_and_no_other(vectors, action):
    table = poisoned(**{"deletion-vectors.enabled": vectors})
    report = table.repair(action=action)
    assert report.rows.num_rows == 3
    assert report.snapshot_id == table.meta.latest_id()
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
    for wrong, words in ([{"k": 1}], "every key column"), ([{"k": 1, "q": 1}], "not a key"):
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
    assert table.upsert([row(5, 1)]).id == table.meta.latest_id()
    table.repair(action="drop")
    assert sums(table)[5][0] == HALF + 1


def test_repair_is_done_again_when_a_compaction_overtakes_it(monkeypatch):
    table = poisoned()
    commit, calls = lsmlake.ops.repair.commit, []

    def slow(*args, **named):
        calls.append(1)
        if len(calls) == 1:
            table.repair(action="null", keys=[{"k": 2, "p": "a"}])
        return commit(*args, **named)

    monkeypatch.setattr(lsmlake.ops.repair, "commit", slow)
    table.repair(action="drop")
    assert len(calls) == 3
    assert sums(table)[2] == (HALF + 1, 2, "bad")
    assert table.verify() == []


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
    assert command("repair", "d.t", "--key", '{"k": "x", "p": "a"}').exit_code == 2
    done = command("repair", "d.t", "--action", "drop", "--key", '{"k": 1, "p": "a"}')
    assert "d.t: 1 row dropped, snapshot" in done.stdout
    assert "2 rows repaired: their columns at fault are null" in command("repair", "d.t", "--action", "null").stdout
    assert command("repair", "d.t").stdout == "d.t: no row to repair\n"
    assert sums(table)[1] == (HALF + 7, 2, "new")
