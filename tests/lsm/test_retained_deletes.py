"""Deletes that keep their sequence for a time (`sequence.delete-retained`): a table of cases, each under every compaction, with
and without deletion vectors, as every reader sees it; random histories with a clock; and what becomes of the files.

The clock stands still but for the steps that move it.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from effort import scaled
from naive import naive
from strategies import fake_env, tiny_units

from lsmlake import set_option
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.compact.retain import SLACK_MS, _like_sized
from lsmlake.errors import InvalidOption
from lsmlake.format.data_files import DELETES, DataFile
from lsmlake.lsm.merge.retained_deletes import settle
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.schema.rowkind import DELETE, ERASE, ERASES, INSERT
from lsmlake.storage.local import LocalStorage
from lsmlake.storage.memory import MemoryStorage

LIMIT_MS = 1000
START_MS = 1_767_225_600_000


class Clock:
    now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


def new_table(storage=None, **options: object) -> Table:
    lake = Lake(replace(fake_env(MemoryStorage() if storage is None else storage), clock=Clock()), Runtime())
    lake.create_database("d", if_not_exists=True)
    given = {"bucket": 1, "sequence.field": "lsn", "sequence.delete-retained": f"{LIMIT_MS} ms"} | options
    return lake.create_table("d.t", "id BIGINT NOT NULL, lsn INT, v INT", primary_key=["id"], options=given)


def data_of(rows: list[tuple[str, int, int]]) -> dict[str, list]:
    """Rows of kind, key and sequence; their v is ten times their sequence."""
    kinds, keys, numbers = zip(*rows, strict=True)
    return {"id": keys, "lsn": numbers, "v": [10 * number for number in numbers], "op": kinds}


def commit(table: Table, *rows: tuple[str, int], key: int = 1, **how: object) -> object:
    return table.upsert(data_of([(kind, key, number) for kind, number in rows]), row_kind="op", **how)


def wait(table: Table, ms: int) -> None:
    table.meta.env.clock.now_ms += ms


def retained(table: Table) -> list[DataFile]:
    return [file for state in table.states().values() for file in state.retained]


Step = tuple[tuple[str, int], ...] | int | str
"""The rows of a commit, milliseconds to wait, "erase", or "delete" of a key by `delete_keys` with lsn 3."""
CASES: dict[str, tuple[list[Step], list[int]]] = {
    # what: the steps, the values of v that are left
    **{
        f"one batch, order {number}": ([rows], [])
        for number, rows in enumerate(itertools.permutations([("+I", 1), ("-D", 3), ("+U", 2)]))
    },
    "a smaller sequence within the time": ([(("+I", 1), ("-D", 3)), 500, (("+U", 2),)], []),
    "at the limit": ([(("+I", 1), ("-D", 3)), LIMIT_MS, (("+U", 2),)], []),
    "later than the limit": ([(("+I", 1), ("-D", 3)), LIMIT_MS + 1, (("+U", 2),)], [20]),
    "a greater sequence": ([(("+I", 1), ("-D", 3)), (("+I", 4),)], [40]),
    "an equal sequence": ([(("+I", 1), ("-D", 3)), (("+I", 3),)], [30]),
    "a smaller delete": ([(("+I", 1), ("-D", 3)), (("-D", 2),), (("+U", 2),)], []),
    "a smaller delete does not renew the time": ([(("-D", 3),), 600, (("-D", 2),), 600, (("+U", 2),)], [20]),
    "an equal delete renews the time": ([(("-D", 3),), 600, (("-D", 3),), 600, (("+U", 2),)], []),
    "a delete of a key without a row": ([(("-D", 3),), (("+I", 2),)], []),
    "a delete by key": ([(("+I", 1),), "delete", (("+I", 2),)], []),
    "an erasure": ([(("+I", 1), ("-D", 3)), "erase", (("+U", 2),)], [20]),
    "an erasure of a row": ([(("+I", 5),), "erase", (("+U", 2),)], [20]),
    "a row, then a smaller one": ([(("-D", 3),), (("+I", 4),), (("+I", 2),)], [40]),
    "a late delete is not retained": ([(("+I", 5),), (("-D", 3),), (("-D", 6),), (("+I", 5),)], []),
    "a row after the limit is the newest": ([(("-D", 5),), 2000, (("+I", 1),), (("+I", 3),), (("+I", 2),)], [30]),
    "a row after the limit, deleted": ([(("-D", 5),), 2000, (("+I", 1),), (("-D", 3),), (("+I", 2),)], []),
    "deletes after each other": ([(("-D", 5),), 2000, (("-D", 1),), 800, (("+I", 0),), 300, (("+I", 0),)], [0]),
    "in the order of commits": ([(("+I", 1),), (("-D", 3),), (("+U", 2),), (("+U", 3),), (("-D", 3),), (("-U", 2),)], []),
}
COMPACTIONS: dict[str, tuple[dict[str, str], bool]] = {
    "none": ({"write-only": "true"}, False),
    "inline": ({}, False),
    "full between": ({"write-only": "true"}, True),
}


IDS = {name: 10 + number for number, name in enumerate(CASES)}


def commits() -> list[tuple[int, list[tuple[int, Step]]]]:
    """The commits of all cases: (time, [(id of the case, what it does), ...]). What stands at one place of several cases, and at
    one time, is one commit."""
    found: dict[tuple[int, int], list[tuple[int, Step]]] = {}
    for name, (steps, _) in CASES.items():
        time_ms = 0
        for number, step in enumerate(steps):
            if isinstance(step, int):
                time_ms += step
            else:
                found.setdefault((time_ms, number), []).append((IDS[name], step))
    return [(time_ms, found[time_ms, number]) for time_ms, number in sorted(found)]


def played(table: Table, *, full: bool) -> None:
    for time_ms, steps in commits():
        table.meta.env.clock.now_ms = START_MS + time_ms
        rows = [(kind, id, lsn) for id, step in steps if not isinstance(step, str) for kind, lsn in step]
        if rows:
            table.upsert(data_of(rows), row_kind="op")
        if erased := [id for id, step in steps if step == "erase"]:
            table.delete_keys({"id": erased}, ignore_sequence=True)
        if deleted := [id for id, step in steps if step == "delete"]:
            table.delete_keys({"id": deleted, "lsn": [3] * len(deleted)})
        if full:
            table.compact(full=True)


def pairs(rows: pa.Table) -> dict[int, int]:
    assert len(set(rows["id"].to_pylist())) == rows.num_rows
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def by_scan(table: Table) -> dict[int, int]:
    return pairs(table.scan(columns=["v", "id"]).to_arrow())


def by_get(table: Table) -> dict[int, int]:
    found = [table.get({"id": id}) for id in (0, 2, 3, *IDS.values())]
    return {row["id"]: row["v"] for row in found if row is not None}


def by_get_of_several(table: Table) -> dict[int, int]:
    return pairs(table.get([{"id": id} for id in (0, 2, 3, *IDS.values())]))


def by_value(table: Table) -> dict[int, int]:
    """The rows of some values by a filter, the others by a scan."""
    others = table.scan(where="v NOT IN (1, 20, 30)").to_arrow()
    return pairs(pa.concat_tables([others, *(table.scan(where=f"v = {v}").to_arrow() for v in (1, 20, 30))]))


def by_duckdb(table: Table) -> dict[int, int]:
    with duckdb.connect() as connection:
        return dict(table.scan().to_duckdb(connection).project("id, v").fetchall())


def by_polars(table: Table) -> dict[int, int]:
    return dict(table.scan().to_polars().select("id", "v").collect().iter_rows())


def by_changes(table: Table) -> dict[int, int]:
    """The changes from the first to the last snapshot, applied one by one."""
    rows = {}
    for snapshot in table.snapshots()["snapshot_id"].to_pylist():
        for change in table.changes(snapshot - 1, snapshot, mode="diff").to_arrow().to_pylist():
            rows.pop(change["id"], None)
            if change["_row_kind"] in ("+I", "+U"):
                rows[change["id"]] = change["v"]
    return rows


READERS = by_scan, by_get, by_get_of_several, by_value, by_duckdb, by_polars, by_changes


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("compaction", COMPACTIONS)
def test_the_table_of_cases(compaction: str, vectors: str, tmp_path):
    options, full = COMPACTIONS[compaction]
    left = {0: 1, 2: 2, 3: 3} | {IDS[name]: value for name, (_, values) in CASES.items() for value in values}
    table = new_table(LocalStorage(str(tmp_path)), **{"deletion-vectors.enabled": vectors}, **options)
    table.upsert({"id": [0, 2, 3], "lsn": [0, 0, 0], "v": [1, 2, 3]})
    played(table, full=full)
    names = {id: name for name, id in IDS.items()}
    for when, readers in (("", READERS), ("compacted", (by_scan, by_get))):
        for reader in readers:
            found = reader(table)
            wrong = [names.get(id, id) for id in found.keys() | left if found.get(id) != left.get(id)]
            assert not wrong, (reader.__name__, when)
        assert table.scan().count() == len(left)
        assert table.verify() == []
        table.compact(full=True)
    assert table.scan(mode="raw").count() == len(left)


def by_key(table: Table) -> list[int]:
    row = table.get({"id": 1})
    return [] if row is None else [row["v"]]


# -- against a loop --


def naive_states(events: list[tuple[int, int, int]], limit_ms: int) -> tuple[int | None, int | None]:
    """(number of the row that is left, number of the delete that is retained) of one key. `events`: kind, sequence, time."""
    row = deleted = None
    for number, (kind, sequence, time_ms) in enumerate(events):
        if kind & ERASES:
            row = deleted = None
            if kind == ERASE:
                continue
        if deleted is not None and sequence < events[deleted][1] and time_ms - events[deleted][2] <= limit_ms:
            continue
        if row is not None and sequence < events[row][1]:
            continue
        row, deleted = (None, number) if kind & 3 == DELETE else (number, None)
    return row, deleted


def test_settling_is_that_of_a_loop():
    draws = random.Random(7)
    kinds = [INSERT, INSERT, DELETE, DELETE, ERASE, INSERT | ERASES, DELETE | ERASES]
    keys = [
        [
            (draws.choice(kinds[: draws.choice([4, 4, 7])]), draws.randrange(4), draws.randrange(12))
            for _ in range(draws.randrange(1, 8))
        ]
        for _ in range(800)
    ]
    rows = [(place, key, *event) for key, events in enumerate(keys) for place, event in enumerate(events)]
    rows.sort(key=lambda row: row[0])  # rows of a key stay in order
    table = pa.table({"k": [row[1] for row in rows], "s": [row[3] for row in rows]})
    of_key: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        of_key.setdefault(row[1], []).append(number)
    found = settle(
        table, np.array([row[2] for row in rows]), np.array([row[4] for row in rows]), ("k",), SequenceFields(("s",)), 5
    )
    assert [rows[first][1] for first in found.first] == list(range(len(keys)))
    for key, deleted in zip(range(len(keys)), found.deleted.tolist(), strict=True):
        row, retained = naive_states(keys[key], 5)
        assert (None if deleted < 0 else rows[deleted][0]) == retained, keys[key]
        kept = [number for number in of_key[key] if not found.ignored[number]]
        left, _ = naive_states([rows[number][2:] for number in kept], -1000)  # a delete forgets its sequence
        assert (None if left is None else rows[kept[left]][0]) == row, keys[key]


class Model:
    """The states of the keys, row by row."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.deletes: dict[int, tuple[int, int]] = {}

    def commit(self, rows: list[tuple[str, int, int]], now_ms: int) -> None:
        for kind, key, sequence in sorted(rows, key=lambda row: row[2]):
            deleted, deleted_ms = self.deletes.get(key, (-1, 0))
            if (sequence < deleted and now_ms - deleted_ms <= LIMIT_MS) or sequence < self.rows.get(key, -1):
                continue
            self.rows.pop(key, None)
            self.deletes.pop(key, None)
            if kind == "-D":
                self.deletes[key] = sequence, now_ms
            else:
                self.rows[key] = sequence

    def erase(self, key: int) -> None:
        self.rows.pop(key, None)
        self.deletes.pop(key, None)


MODES = (
    {},
    {"write-only": "true"},
    {"compaction.tier-runs": "2"},
    {"deletion-vectors.enabled": "false", "num-sorted-run.compaction-trigger": "2", "num-levels": "4"},
    {"changelog-producer": "lookup", "compaction.tier-runs": "2"},
)


@pytest.mark.parametrize("mode", range(len(MODES)))
def test_random_histories_with_a_clock(mode: int):
    for seed in range(scaled(2)):
        draws, model = random.Random(100 * mode + seed), Model()
        table = new_table(**MODES[mode])
        with tiny_units(rows=2), patch("lsmlake.compact.retain._TIER_FILES", 3):
            for _ in range(16):
                verb = draws.choice(["commit"] * 6 + ["wait", "wait", "erase", "compact", "full"])
                if verb == "commit":
                    rows = [
                        (draws.choice(["+I", "+U", "-D", "-D"]), draws.randrange(4), draws.randrange(8))
                        for _ in range(draws.randrange(1, 6))
                    ]
                    table.upsert(data_of(rows), row_kind="op", compact=draws.choice([None, None, False]))
                    model.commit(rows, table.meta.env.clock.now_ms)
                elif verb == "wait":
                    wait(table, draws.choice([1, 400, LIMIT_MS, LIMIT_MS + 1, LIMIT_MS + SLACK_MS]))
                elif verb == "erase":
                    table.delete_keys({"id": [key := draws.randrange(4)]}, ignore_sequence=True)
                    model.erase(key)
                else:
                    table.compact(full=verb == "full")
                found = {row["id"]: row["lsn"] for row in table.scan().to_arrow().to_pylist()}
                assert found == model.rows, (seed, verb)
                for key in range(4):
                    row = table.get({"id": key})
                    assert (None if row is None else row["lsn"]) == model.rows.get(key), (seed, verb)
        assert table.verify() == []
        assert naive(table).unreferenced() == []


# -- files --


def test_a_file_of_retained_deletes_is_in_no_listing_of_rows():
    table = new_table()
    commit(table, ("+I", 1), ("-D", 3))
    (file,) = retained(table)
    assert (file.source, file.rows) == (DELETES, 1)
    assert table.files().num_rows == 0 and table.meta.snapshots.latest().total_rows == 0
    assert table.scan().count() == table.scan(mode="raw").count() == 0
    assert table.partitions().num_rows == table.buckets().num_rows == 0
    assert naive(table).unreferenced() == []
    assert table.remove_orphan_files(dry_run=True, older_than="2100-01-01 00:00:00").files == 0


def test_overwrites_and_truncations_forget_deletes():
    for forget in (
        lambda table: table.truncate(),
        lambda table: table.overwrite({"id": [2], "lsn": [1], "v": [1]}, truncate=True),
    ):
        table = new_table()
        commit(table, ("-D", 3))
        forget(table)
        assert retained(table) == []
        commit(table, ("+I", 2))
        assert by_key(table) == [20]


def test_a_rollback_brings_the_deletes_of_its_snapshot_back():
    table = new_table()
    commit(table, ("-D", 3))
    table.delete_keys({"id": [1]}, ignore_sequence=True)
    table.rollback(snapshot=1)
    commit(table, ("+I", 2))
    assert by_key(table) == []


def test_a_branch_and_a_copy_have_the_deletes(tmp_path):
    table = new_table()
    commit(table, ("-D", 3))
    branch = table.create_branch("b")
    commit(branch, ("+I", 2))
    assert by_key(branch) == []
    table.copy(str(tmp_path / "copy"))
    copy = Lake(replace(fake_env(LocalStorage(str(tmp_path / "copy"))), clock=Clock()), Runtime()).table("d.t")
    commit(copy, ("+I", 2))
    assert by_key(copy) == []


def test_deletes_expire_by_compaction():
    table = new_table()
    commit(table, ("-D", 3))
    wait(table, LIMIT_MS + SLACK_MS)
    table.compact(full=True)
    assert len(retained(table)) == 1
    wait(table, 1)
    table.compact(full=True)
    assert retained(table) == []
    assert table.compact(full=True).snapshot_id is None


def test_files_of_retained_deletes_are_merged_by_size():
    table = new_table()
    for number in range(20):
        commit(table, ("-D", 3), key=number)
        assert len(retained(table)) <= 9
    assert sum(file.rows for file in retained(table)) == 20
    sizes = [file._replace(rows=rows) for file, rows in zip(retained(table)[:1] * 9, [4000, 8, *[1] * 7], strict=True)]
    assert [file.rows for file in _like_sized(sizes, 1)] == [1] * 7


def test_verify_finds_damage():
    table = new_table()
    commit(table, ("-D", 3))
    (file,) = retained(table)
    path = table.meta.paths.data(file)
    table.meta.env.storage.delete(path)
    assert [(finding.where, "missing" in finding.what) for finding in table.verify()] == [(path, True)]


# -- the option --


def test_the_default_is_two_days_with_deduplicate_and_a_sequence():
    lake = Lake(fake_env(MemoryStorage()), Runtime())
    lake.create_database("d")
    for number, (options, expected) in enumerate(
        (
            ({"sequence.field": "s"}, 172_800_000),
            ({}, 0),
            ({"sequence.field": "s", "merge-engine": "partial-update"}, 0),
            ({"sequence.field": "s", "sequence.delete-retained": "0 s"}, 0),
            ({"sequence.field": "s", "sequence.delete-retained": 0}, 0),
        )
    ):
        table = lake.create_table(f"d.t{number}", "k INT NOT NULL, s INT", primary_key=["k"], options=options)
        assert table.meta.schemas.get(0).parsed_options.merge.delete_retained_ms == expected


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"merge-engine": "first-row"},
        {"merge-engine": "aggregation", "sequence.field": "s"},
        {"merge-engine": "partial-update", "sequence.field": "s"},
        {"merge-engine": "partial-update", "fields.s.sequence-group": "v", "partial-update.remove-record-on-sequence-group": "s"},
    ],
)
def test_the_option_is_refused_where_it_has_no_effect(options: dict[str, str]):
    lake = Lake(fake_env(MemoryStorage()), Runtime())
    lake.create_database("d")
    with pytest.raises(InvalidOption, match=r"sequence\.delete-retained"):
        lake.create_table(
            "d.t", "k INT NOT NULL, s INT, v INT", primary_key=["k"], options=options | {"sequence.delete-retained": "1 d"}
        )


def test_without_the_option_a_delete_forgets_its_sequence():
    table = new_table(**{"sequence.delete-retained": "0 s"})
    commit(table, ("+I", 1), ("-D", 3), ("+U", 2))
    assert by_key(table) == [20] and retained(table) == []


@pytest.mark.parametrize("write_only", ["true", "false"])
def test_altering_the_option_changes_no_row(write_only: str):
    table = new_table(**{"write-only": write_only})
    commit(table, ("-D", 3))
    commit(table, ("+I", 2))
    table.alter(set_option("sequence.delete-retained", "0 s"))
    assert by_key(table) == [] and retained(table) == []
    commit(table, ("+I", 2))
    table.alter(set_option("sequence.delete-retained", "1 d"))
    assert by_key(table) == [20]


# -- changelogs --


def changes_of(table: Table, start: int = 0) -> list[tuple[str, int]]:
    found = table.changes(start, table.snapshots()["snapshot_id"].to_pylist()[-1], mode="changelog").to_arrow().to_pylist()
    return [(change["_row_kind"], change["lsn"]) for change in found]


def test_the_input_changelog_has_rows_as_given_in_the_order_they_apply():
    table = new_table(**{"changelog-producer": "input"})
    commit(table, ("+I", 1), ("-D", 3), ("+U", 2))
    commit(table, ("+U", 2))
    assert changes_of(table) == [("+I", 1), ("+U", 2), ("-D", 3), ("+U", 2)]


@pytest.mark.parametrize("compact", [None, False])
def test_the_lookup_changelog_reports_no_ignored_row(compact: bool | None):
    table = new_table(**{"changelog-producer": "lookup"})
    commit(table, ("+I", 1), compact=compact)
    commit(table, ("-D", 3), compact=compact)
    commit(table, ("+U", 2), compact=compact)
    commit(table, ("+I", 4), compact=compact)
    table.compact(full=True)
    assert changes_of(table) == ([("+I", 1), ("-D", 1), ("+I", 4)] if compact is None else [("+I", 4)])
