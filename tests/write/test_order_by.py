"""The order of the rows of a key in one batch: `order_by`, rows without an order, and the commit columns of changes."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from effort import scaled
from strategies import new_lake

import lsmlake
from lsmlake import Table
from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.kernels.groups import group
from lsmlake.lsm.merge.contested import contested
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.schema.rowkind import COMMIT_COLUMNS, DELETE, INSERT, with_kind, without_deletes
from lsmlake.write.order import PART_BITS, Arrival, Ordered


def made(columns: str = "k INT, v STRING, n INT", **options: object) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return new_lake().create_table("d.t", columns, primary_key=["k"], options=named)


def rows_of(table: Table) -> list[tuple]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


# -- order_by ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer", ["64 mb", "1 kb"])
@pytest.mark.parametrize("expression", ["n", "lsn", "N % 3, -lsn", "s.x", "coalesce(lsn, 0)"])
def test_the_greatest_value_applies_last_whatever_the_order_of_the_data(buffer, expression):
    """Beside a model that sorts the rows: nulls first, equal values in the order of the data."""
    model = {
        "n": lambda row: (row["n"],),
        "lsn": lambda row: (row["lsn"] is not None, row["lsn"] or 0),
        "N % 3, -lsn": lambda row: (row["n"] % 3, row["lsn"] is not None, -(row["lsn"] or 0)),
        "s.x": lambda row: (row["s"]["x"],),
        "coalesce(lsn, 0)": lambda row: (row["lsn"] or 0,),
    }[expression]
    chance = random.Random(f"{buffer} {expression}")
    table = made(write_buffer_size=buffer)
    for _ in range(scaled(4)):
        rows = [
            {
                "k": chance.randrange(40),
                "v": str(number),
                "n": chance.randrange(9),
                "lsn": chance.choice([None, *range(5)]),
                "s": {"x": chance.randrange(4)},
            }
            for number in range(300)
        ]
        read = [name for name in ("lsn", "s.x") if name in expression]  # other columns are refused
        batches = (
            pa.Table.from_pylist(rows)
            .select(["k", "v", "n", *(name.partition(".")[0] for name in read)])
            .to_batches(max_chunksize=50)
        )
        table.overwrite(iter(batches), truncate=True, order_by=expression)
        expected = {row["k"]: row for row in sorted(rows, key=model)}
        assert rows_of(table) == sorted((row["k"], row["v"], row["n"]) for row in expected.values())


def test_a_sequence_comes_before_the_order():
    table = made(sequence__field="n")
    table.upsert({"k": [1, 1, 1], "v": ["a", "b", "c"], "n": [2, 2, 1], "at": [1, 0, 9]}, order_by="at")
    assert rows_of(table) == [(1, "a", 2)]


def test_the_changelog_has_the_rows_in_their_order():
    table = made(changelog_producer="input")
    table.upsert({"k": [1, 1, 1], "v": ["a", "b", "c"], "n": [3, 1, 2]}, order_by="n")
    assert table.changes(0, mode="changelog").to_arrow()["v"].to_pylist() == ["b", "c", "a"]


@pytest.mark.parametrize("engine", ["first-row", "partial-update"])
def test_other_engines_apply_the_rows_in_their_order(engine):
    table = made(merge_engine=engine)
    table.upsert({"k": [1, 1, 1], "v": ["a", "b", None], "n": [3, 1, 2]}, order_by="n")
    assert rows_of(table) == [(1, "b", 1) if engine == "first-row" else (1, "a", 3)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("nope", "names no column"),
        ("n desc", "ascending"),
        ("", "empty"),
        ("n,,v", "empty"),
        ([], "names no order"),
        (7, "names no order"),
        ("rand()", "another value each time"),
        ("current_timestamp()", "orders nothing"),
        ("n + hour(current_timestamp())", "current time"),
        ("n +", "not SQL"),
        ("s", "no order"),
        ("array(n)", "no order"),
        ("upper(s)", "do not fit"),
        ("sum(n)", "sum"),
        ("1", "orders nothing"),
        ("'n'", "orders nothing"),
        ("n + uuid()", "uuid"),
        ("(SELECT 1)", "SELECT"),
    ],
)
def test_an_order_that_is_none_is_refused(given, words):
    table = made()
    with pytest.raises(InvalidQuery, match=words):
        table.upsert([{"k": 1, "v": "a", "n": 1, "s": {"x": 1}}], order_by=given)
    assert rows_of(table) == []


@pytest.mark.parametrize("by_option", [False, True])
def test_a_write_that_adds_columns_adds_that_of_the_order_too(by_option):
    """As AUTO CDC stores the column of SEQUENCE BY."""
    table = made("k INT, v STRING", **({"write__merge_schema": "true"} if by_option else {}))
    rows = pa.table({"k": [1, 1], "v": ["a", "b"], "at": [2, 1], "w": [5, 6]})
    table.upsert(rows, order_by="at", evolve=not by_option)
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": "a", "at": 2, "w": 5}]


def test_a_column_that_only_the_order_reads_is_not_stored_and_no_other_is_taken():
    table = made()
    table.upsert([{"k": 1, "v": "a", "n": 1, "lsn": 3}], order_by="lsn")
    assert table.scan().to_arrow().column_names == ["k", "v", "n"]
    with pytest.raises(InvalidData, match=r"extra columns \['more'\]"):
        table.upsert([{"k": 1, "v": "a", "n": 1, "lsn": 3, "more": 1}], order_by="lsn")


def test_rows_that_are_dropped_take_their_order_along():
    table = made(ignore_delete="true")
    rows = {"k": [1, 1, 1], "v": ["a", "b", "c"], "n": [1, 2, 3], "op": ["-D", "+I", "+U"], "lsn": [1, 9, 2]}
    table.upsert(rows, row_kind="op", order_by="LSN, op")
    assert rows_of(table) == [(1, "b", 2)]


def test_text_of_a_file_without_types_orders_nothing(tmp_path):
    (tmp_path / "rows.csv").write_text("k,v,n,lsn\n1,a,1,10\n1,b,2,9\n")
    table = made()
    with pytest.raises(InvalidData, match="10 is before 9"):
        table.upsert(str(tmp_path / "rows.csv"), order_by="lsn")
    table.upsert(str(tmp_path / "rows.csv"), order_by="lsn :: BIGINT")
    assert rows_of(table) == [(1, "a", 1)]
    table.upsert(str(tmp_path / "rows.csv"), order_by="n, lsn :: BIGINT")
    assert rows_of(table) == [(1, "b", 2)]


@pytest.mark.parametrize("verb", [Table.upsert, partial(Table.overwrite, truncate=True)])
def test_text_that_is_converted_orders_nothing_if_no_column_tells_its_type(tmp_path, verb):
    (tmp_path / "rows.csv").write_text("k,v,n,lsn\n1,a,1,10\n1,b,2,9\n")
    texts = {"k": ["1", "1"], "v": ["a", "b"], "n": ["1", "2"], "lsn": ["10", "9"]}
    for data, how in ((str(tmp_path / "rows.csv"), {}), (texts, {"cast": True})):
        table = made()
        with pytest.raises(InvalidData, match=r"column 'lsn'.*10 is before 9; order by lsn :: BIGINT"):
            verb(table, data, order_by="lsn", **how)
        assert rows_of(table) == []
        for order, last in (("lsn :: BIGINT", "a"), ("lsn :: STRING", "b")):
            verb(table, data, order_by=order, **how)
            assert rows_of(table) == [(1, last, 1 if last == "a" else 2)]
    typed = {"k": [1, 1], "v": ["a", "b"], "n": [1, 2], "at": ["2026-02", "2026-01"]}
    table.upsert(typed, order_by="at")  # without a conversion text is text
    assert rows_of(table) == [(1, "a", 1)]


def test_of_the_files_of_a_folder_the_youngest_applies_last(tmp_path):
    for age, name in enumerate("cab"):  # b is the youngest
        (tmp_path / f"{name}.json").write_text(f'{{"k": 1, "v": "{name}", "n": {age}}}')
        os.utime(tmp_path / f"{name}.json", (1_000 + age, 1_000 + age))
    table = made()
    for named in (str(tmp_path), str(tmp_path / "*.json")):
        table.overwrite(named, truncate=True)
        assert rows_of(table) == [(1, "b", 2)]


def test_an_append_only_table_has_no_order():
    table = new_lake().create_table("d.t", "k INT")
    with pytest.raises(InvalidQuery, match="order_by needs a primary key"):
        table.overwrite({"k": [1]}, order_by="k")


# -- rows without an order --------------------------------------------------------------------------------------------

ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "s"},
    "deletes forgotten": {"sequence.field": "s", "sequence.delete-retained": "0"},
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update"},
    "late": {"merge-engine": "partial-update", "sequence.field": "s"},
    "groups": {"merge-engine": "partial-update", "fields.s.sequence-group": "a,b"},
    "removing": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "aggregated group": {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "a,b",
        "fields.a.aggregate-function": "last_value",
        "fields.b.aggregate-function": "sum",
    },
    "sums": {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"},
    "last values": {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_value"},
    "last values by sequence": {
        "merge-engine": "aggregation",
        "sequence.field": "s",
        "fields.default-aggregate-function": "last_non_null_value",
    },
}
DELETES = ("deduplicate", "sequence", "deletes forgotten", "removing")


def interleavings(parts: list[list[int]]) -> Iterator[list[int]]:
    """All orders of the rows that keep those of each part."""
    if not parts:
        yield []
        return
    for rest in interleavings(parts[1:]):
        count = len(rest) + len(parts[0])
        for places in combinations(range(count), len(parts[0])):
            own, others = iter(parts[0]), iter(rest)
            yield [next(own) if place in places else next(others) for place in range(count)]


def merged(rule: MergeRule, rows: pa.Table, order: list[int], ranks: np.ndarray) -> list[dict]:
    by_rank = sorted(order, key=lambda row: ranks[row])
    given = rows.take(pa.array(by_rank))
    made = rule.merge(given, group(given["k"].to_numpy().astype(np.uint64)), None, complete=True)
    return without_deletes(made).to_pylist()


@pytest.mark.parametrize("engine", list(ENGINES))
def test_no_result_depends_on_the_order_of_parts(engine):
    """Every order of the rows that keeps the order inside of the parts is merged. If results differ, rows are contested."""
    schema = (
        new_lake().create_table("d.t", "k INT, a INT, b INT, s INT", primary_key=["k"], options=ENGINES[engine]).version.schema
    )
    rule, chance, contests = rule_of(schema).of_one_commit(), random.Random(engine), {True: 0, False: 0}
    for _ in range(scaled(150)):
        count = chance.randrange(2, 5)
        values = [None, 1, 2] if engine not in ("deduplicate", "first-row") else [1, 2]
        columns = {name: [chance.choice(values) for _ in range(count)] for name in "abs"}
        rows = pa.table({"k": [1] * count, **columns}, schema=schema.row_columns)
        if engine in DELETES:
            rows = with_kind(rows, np.array([chance.choice([INSERT, DELETE]) for _ in range(count)], np.int8))
        parts = np.sort([chance.randrange(2) for _ in range(count)])
        ranks = np.array([chance.randrange(2) for _ in range(count)]) if chance.random() < 0.3 else np.zeros(count, np.int64)
        orders = interleavings([np.flatnonzero(parts == part).tolist() for part in set(parts.tolist())])
        results = {str(merged(rule, rows, order, ranks)) for order in orders}
        groups = group(np.ones(count, np.uint64), [ranks])
        found = contested(rows, groups, rule.contests(("a", "b", "s")), ranks, parts)
        contests[found is not None] += 1
        if len(results) > 1:
            assert found is not None, (rows.to_pylist(), parts, ranks, results)
        if found is not None:
            first, second = (rows.slice(row, 1).to_pylist()[0] for row in found)
            assert first != second
            assert len(set(parts.tolist())) > 1
    assert contests[False] > 0
    assert contests[True] > 0 or engine == "sums"


@pytest.mark.parametrize(
    ("rows", "loses"),  # (key, part, sequence, value)
    [
        ([(1, 0, 3, None), (1, 0, 1, 10), (1, 1, 2, 20)], True),  # the newest has no value: it is that of the last to arrive
        ([(1, 0, 3, 5), (1, 0, 1, 10), (1, 1, 2, 20)], False),
        ([(1, 0, 3, None), (1, 1, 2, 20), (2, 0, 3, 5), (2, 0, 1, 10), (2, 1, 2, 20)], False),  # each key for itself
        ([(1, 0, 3, None), (1, 1, 3, 5)], False),  # two newest ones, of which one has a value
        ([(1, 0, 3, 4), (1, 1, 3, 5)], True),
        ([(1, 0, 3, None), (1, 1, 3, 5), (2, 0, 3, 4), (2, 1, 3, 5)], True),
    ],
)
def test_a_null_of_the_newest_row_gives_way_to_the_last_value(rows, loses):
    options = {"merge-engine": "aggregation", "sequence.field": "s", "fields.a.aggregate-function": "last_non_null_value"}
    schema = new_lake().create_table("d.t", "k INT, s INT, a INT", primary_key=["k"], options=options).version.schema
    keys, parts, sequence, values = map(list, zip(*rows, strict=True))
    given = pa.table({"k": keys, "s": sequence, "a": values}, schema=schema.row_columns)
    groups = group(np.array(keys, np.uint64), [np.zeros(len(rows), np.int64)])
    contests = [one for one in rule_of(schema).of_one_commit().contests(("a", "s")) if one.columns == ("a",)]
    assert (contested(given, groups, contests, None, np.array(parts)) is not None) == loses


@pytest.mark.parametrize("parts", [(0, 1, 1), (0, 1, 0)])
def test_only_equal_rows_of_several_parts_are_no_contest(parts):
    rule, groups = rule_of(made().version.schema), group(np.ones(3, np.uint64))
    arrival = Arrival(np.array(parts) << PART_BITS, ordered=Ordered.PARTS)
    arrival.check(pa.table({"k": [1, 1, 1], "v": ["a", "a", "a"]}), groups, rule, ["k"])
    with pytest.raises(InvalidData, match="different input partitions"):
        arrival.check(pa.table({"k": [1, 1, 1], "v": ["a", "b", "a"]}), groups, rule, ["k"])
    ordered = replace(arrival, by=pa.table({"by": [1, 2, 1 + parts[2]]}))
    ordered.check(pa.table({"k": [1, 1, 1], "v": ["a", "b", "b" if parts[2] else "a"]}), groups, rule, ["k"])


# -- commit columns ---------------------------------------------------------------------------------------------------


def history(**options: object) -> Table:
    table = made(bucket=2, **options)
    chance = random.Random(3)
    for number in range(6):
        keys = [chance.randrange(8) for _ in range(5)]
        table.upsert({"k": keys, "v": [str(number)] * 5, "n": list(range(5))})
        table.delete_keys({"k": [chance.randrange(8)]})
    return table


@pytest.mark.parametrize("mode", ["diff", "changelog", "delta"])
def test_changes_in_any_order_give_the_table(mode):
    table = history(changelog_producer="lookup")
    changes = table.changes(0, mode=mode, commit_columns=True).to_arrow()
    assert changes.column_names[-3:] == list(COMMIT_COLUMNS)
    copy = made()
    for seed in range(5):
        shuffled = changes.take(np.random.default_rng(seed).permutation(changes.num_rows))
        copy.overwrite(shuffled, truncate=True, row_kind="_row_kind")
        assert rows_of(copy) == rows_of(table)


def test_an_update_is_together_in_the_order_of_the_commits():
    table = history(changelog_producer="lookup")
    changes = table.changes(0, mode="changelog", commit_columns=True).to_arrow()
    ordered = changes.sort_by([(COMMIT_COLUMNS[0], "ascending"), (COMMIT_COLUMNS[2], "ascending")]).to_pylist()
    assert len({(row[COMMIT_COLUMNS[0]], row[COMMIT_COLUMNS[2]]) for row in ordered}) == len(ordered)
    before = [place for place, row in enumerate(ordered) if row["_row_kind"] == "-U"]
    assert before
    assert all(ordered[place + 1]["_row_kind"] == "+U" and ordered[place + 1]["k"] == ordered[place]["k"] for place in before)
    times = {row["snapshot_id"]: row["commit_time"] for row in table.system_table("snapshots").to_pylist()}
    assert all(row["_commit_time"].replace(tzinfo=None) == times[row[COMMIT_COLUMNS[0]]].replace(tzinfo=None) for row in ordered)


def test_followed_changes_and_the_binlog_have_the_columns_of_the_changes():
    table = history(changelog_producer="lookup")
    changes = table.changes(0, mode="changelog", commit_columns=True).to_arrow().to_pylist()
    followed = [
        row
        for batch in table.follow(start="from-snapshot", snapshot=1, commit_columns=True)
        for row in batch.to_arrow().to_pylist()
    ]

    def place(row: dict) -> tuple[int, int]:
        return row[COMMIT_COLUMNS[0]], row[COMMIT_COLUMNS[2]]

    assert sorted(followed, key=place) == sorted(changes, key=place)
    binlog = table.system_table("binlog", commit_columns=True).to_arrow().to_pylist()
    assert sorted(map(place, binlog)) == sorted(place(row) for row in changes if row["_row_kind"] != "-U")


def test_a_table_with_a_column_of_these_names_has_no_commit_columns():
    table = made("k INT, _commit_time TIMESTAMP")
    with pytest.raises(InvalidQuery, match="like the commit columns"):
        table.changes(0, commit_columns=True).to_arrow()
    with pytest.raises(InvalidQuery, match="no commit columns"):
        table.system_table("files", commit_columns=True)


def test_any_is_one_value():
    assert repr(lsmlake.ANY) == "lsmlake.ANY"
    table = made()
    table.upsert({"k": [1, 1], "v": ["a", "b"], "n": [1, 2]}, order_by=lsmlake.ANY)
    assert len(rows_of(table)) == 1
