"""`Lake.history_of`: random tables beside a model that walks through their states one by one; late changes; a crash at every call
of the storage; two runs at once; expired snapshots; what is refused."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Callable, Mapping

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from effort import scaled
from faults import every_fault
from strategies import copied, lake_on, new_lake, view

import lsmlake
from lsmlake import Lake, Table
from lsmlake.api import history_runs
from lsmlake.api.history_runs import HistoryRun
from lsmlake.api.history_terms import HistoryTerms
from lsmlake.cdc import row_versions
from lsmlake.errors import InvalidData, InvalidQuery, InvalidSchema, LakeError, SnapshotNotFound

UTC = dt.timezone.utc
DAY = dt.datetime(2026, 1, 1, tzinfo=UTC)
MICRO = dt.timedelta(microseconds=1)
COLUMNS = "id BIGINT NOT NULL, name STRING, n INT, at TIMESTAMP"
VIEWS = {"none": "fresh", "lookup": "compacted", "full-compaction": "raw", "input": "fresh"}
Version = tuple[object, ...]


def made(lake: Lake, columns: str = COLUMNS, **options: object) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return lake.create_table("d.t", columns, primary_key=["id"], options={"bucket": 2, **named})


def row(number: int, name: str | None, n: int = 0, at: dt.datetime | None = None) -> dict[str, object]:
    return {"id": number, "name": name, "n": n, "at": at}


def upsert(table: Table, *rows: Mapping[str, object], compact: bool | None = None) -> None:
    table.upsert(list(rows), cast=True, compact=compact)


def versions(history: Table) -> list[Version]:
    return sorted((tuple(one.values()) for one in history.to_arrow().to_pylist()), key=repr)


def states(table: Table, mode: str) -> list[tuple[dt.datetime, dict[int, dict[str, object]]]]:
    """The rows that are visible at each snapshot, and its time."""
    listed = table.snapshots().to_pylist()
    return [
        (one["commit_time"], {each["id"]: each for each in view(table, mode, snapshot=one["snapshot_id"]).to_arrow().to_pylist()})
        for one in listed
    ]


class Model:
    """The versions of each key, by one change after the other."""

    def __init__(self, tracked: list[str] | None, by_column: bool) -> None:
        self.tracked, self.by_column = tracked, by_column
        self.kept: dict[int, list[list[object]]] = {}

    def walk(self, steps: list[tuple[dt.datetime, dict[int, dict[str, object]]]]) -> list[Version]:
        before: dict[int, dict[str, object]] = {}
        for time, after in steps:
            for key in {*before, *after}:
                if before.get(key) != after.get(key):
                    self.change(key, before.get(key), after.get(key), time)
            before = after
        return sorted(((*one.values(), start, end) for kept in self.kept.values() for one, start, end in kept), key=repr)

    def change(self, key: int, old: dict | None, new: dict | None, time: dt.datetime) -> None:
        kept = self.kept.setdefault(key, [])
        place = time
        if self.by_column:
            was = old["at"] if old else None
            if new is None:
                place = max(was or time, time)
            elif new["at"] is None:
                place = time
            else:
                place = new["at"] if was is None or new["at"] > was else max(new["at"], time)
        bounds = [bound for _, start, end in kept for bound in (start, end) if bound is not None]
        place = max([place, *(bound + MICRO for bound in bounds)])
        if old is not None:
            kept[-1][2] = place
        if new is None:
            return
        current = kept[-1] if kept and old is not None else None
        if current and self.tracked is not None and all(current[0][name] == new[name] for name in self.tracked):
            current[0], current[2] = new, None
        else:
            kept.append([new, place, None])


def play(chance: random.Random, table: Table, between: Callable[[], object], by_column: bool) -> None:
    for step in range(10):
        at = DAY + dt.timedelta(minutes=step * 10 + chance.randrange(5))
        compact = chance.choice([None, True, False])
        rows = {
            key: row(key, chance.choice("ab"), chance.randrange(3), chance.choice([at, at, None]) if by_column else None)
            for key in chance.choices(range(5), k=3)
        }
        if by_column:
            rows = {key: {**one, "at": one["at"] or at} for key, one in rows.items()}
        what = chance.random()
        if what < 0.2:
            table.delete(where=f"id < {chance.randrange(4)}")
        elif what < 0.3:
            table.update({"name": "'c'"}, where=f"id = {chance.randrange(5)}")
        elif what < 0.4:
            table.compact(full=True)
        else:
            upsert(table, *rows.values(), compact=compact)
        if chance.random() < 0.4:
            between()
    table.compact(full=True)
    between()


def in_buckets(history: Table, chance: random.Random) -> None:
    """Sometimes gives the history another number of buckets: the changes are divided among threads by its buckets."""
    if chance.random() < 0.5:
        history.rescale(buckets=chance.choice([2, 3]))


@pytest.mark.parametrize("producer", VIEWS)
@pytest.mark.parametrize("seed", range(scaled(8)))
def test_random_histories_equal_a_model_that_walks_through_the_states(producer, seed, monkeypatch):
    monkeypatch.setattr(history_runs, "_PART_ROWS", 1)
    chance = random.Random(f"{producer} {seed}")
    lake = new_lake()
    by_column = chance.random() < 0.5
    tracked = chance.choice([None, ["name"], ["n", "at"]])
    order = {"sequence__field": "at"} if by_column else {}
    table = made(lake, changelog_producer=producer, snapshot__num_retained__min=100, **order)
    first = chance.choice(["latest-full", "earliest-full"])
    how = {"track": tracked, "start": first}
    if producer == "input":  # whose rows would be ordered by the column, late ones between older ones
        how["sequence_by"] = "_commit_time"
    begun: list[int] = []
    if chance.random() < 0.5:
        begun.append(table.version.number)
        lake.history_of(table, "d.h", **how)

    def follow() -> None:
        begun.append(table.version.number)
        in_buckets(lake.history_of(table, "d.h", **how), chance)

    play(chance, table, follow, by_column)
    steps = states(table, VIEWS[producer])
    if first == "latest-full" and begun[0] > 1:
        steps = steps[begun[0] - 1 :]
    assert versions(lake.table("d.h")) == Model(tracked, by_column and producer != "input").walk(steps)
    current = {one["id"]: one for one in lake.table("d.h").scan(where="valid_to IS NULL").to_arrow().to_pylist()}
    assert {key: one["name"] for key, one in current.items()} == {one["id"]: one["name"] for one in table.to_arrow().to_pylist()}


@pytest.mark.parametrize("seed", range(scaled(10)))
def test_late_changes_lie_where_their_sequence_says(seed, monkeypatch):
    """The model knows all changes of a key by their sequence; of several with one sequence the last counts."""
    monkeypatch.setattr(history_runs, "_PART_ROWS", 1)
    chance = random.Random(f"late {seed}")
    lake = new_lake()
    table = made(lake, "id BIGINT NOT NULL, name STRING, lsn INT", changelog_producer="input", sequence__field="lsn")
    lake.history_of(table, "d.h")
    model: dict[int, dict[int, str | None]] = {}
    for _ in range(12):
        sequences = chance.sample(range(30), k=4)
        if chance.random() < 0.3:
            key = chance.randrange(3)
            table.delete_keys([{"id": key, "lsn": sequences[0]}], cast=True)
            model.setdefault(key, {})[sequences[0]] = None
        else:
            rows = [{"id": chance.randrange(3), "name": chance.choice("abc"), "lsn": lsn} for lsn in sequences]
            table.upsert(rows, cast=True, compact=chance.choice([None, True]))
            for one in rows:
                model.setdefault(one["id"], {})[one["lsn"]] = one["name"]
        if chance.random() < 0.5:
            in_buckets(lake.history_of(table, "d.h"), chance)
    history = lake.history_of(table, "d.h")
    expected = []
    for key, changes in model.items():
        order = sorted(changes)
        ends = [*order[1:], None]
        expected += [(key, changes[at], at, at, end) for at, end in zip(order, ends, strict=True) if changes[at] is not None]
    found = [one for one in versions(history) if one[-1] is None or one[-2] < one[-1]]
    assert found == sorted(expected, key=repr)


def test_every_history_of_five_changes_in_every_order_gives_the_versions_of_the_changes_in_their_order():
    """Each history is a key of its own, so one call takes a change of all. Of several changes at one place the last counts."""
    histories = list(itertools.product(itertools.product(range(4), repeat=5), itertools.product([False, True], repeat=5)))
    ids, axis = pa.array(range(len(histories))), [pa.field("valid_from", pa.int64()), pa.field("valid_to", pa.int64())]
    held, database = pa.schema([("id", pa.int64()), ("name", pa.int64()), *axis]).empty_table(), duckdb.connect()
    for step in range(5):
        rows = pa.table({"id": ids, "name": pa.repeat(step, len(ids))})
        places = pa.array([places[step] for places, _ in histories])
        changes = row_versions.RowChanges(rows, places, np.array([deletes[step] for _, deletes in histories]))
        database.register("held", held).register("changed", row_versions.versions_by_place(held, changes, ["id"]))
        held = database.sql(  # a version replaces the one of its key and start
            "SELECT * FROM changed UNION ALL SELECT * FROM held ANTI JOIN changed USING (id, valid_from)"
        ).to_arrow_table()
    expected = []
    for number, (places, deletes) in enumerate(histories):
        last = dict(zip(places, zip(range(5), deletes, strict=True), strict=True))
        order = sorted(last)
        spans = zip(order, [*order[1:], None], strict=True)
        expected += [(number, last[start][0], start, end) for start, end in spans if not last[start][1]]
    lasting = database.register("held", held).sql("SELECT * FROM held WHERE valid_from IS DISTINCT FROM valid_to ORDER BY ALL")
    assert lasting.fetchall() == sorted(expected)


# -- single cases -------------------------------------------------------------------------------------------------------


def spans(history: Table) -> list[tuple[object, ...]]:
    """(id, name, minute of the start, minute of the end) of each version."""

    def minute(time: dt.datetime | None) -> int | None:
        return None if time is None else int((time - DAY) / dt.timedelta(minutes=1))

    return [(one[0], one[1], minute(one[-2]), minute(one[-1])) for one in versions(history)]


def at(minute: int) -> dt.datetime:
    return DAY + dt.timedelta(minutes=minute)


def test_a_version_is_valid_from_the_sequence_of_the_source():
    lake = new_lake()
    table = made(lake, sequence__field="at")
    upsert(table, row(1, "a", at=at(10)))
    lake.history_of(table, "d.h")
    upsert(table, row(1, "c", at=at(30)))
    upsert(table, row(1, "b", at=at(20)))  # late: never visible in the source
    assert spans(lake.history_of(table, "d.h")) == [(1, "a", 10, 30), (1, "c", 30, None)]


def test_a_late_row_divides_a_version_if_the_source_writes_its_input():
    lake = new_lake()
    table = made(lake, sequence__field="at", changelog_producer="input")
    upsert(table, row(1, "a", at=at(10)))
    lake.history_of(table, "d.h")
    upsert(table, row(1, "c", at=at(30)))
    upsert(table, row(1, "b", at=at(20)))
    history = lake.history_of(table, "d.h")
    assert spans(history) == [(1, "a", 10, 20), (1, "b", 20, 30), (1, "c", 30, None)]
    assert spans(lake.history_of(table, "d.h")) == spans(history)


def test_a_late_delete_is_remembered_for_rows_before_it():
    lake = new_lake()
    table = made(lake, "id BIGINT NOT NULL, name STRING, lsn INT", sequence__field="lsn", changelog_producer="input")
    lake.history_of(table, "d.h")
    for step in (lambda: table.upsert([{"id": 1, "name": "c", "lsn": 40}], cast=True),
                 lambda: table.delete_keys([{"id": 1, "lsn": 20}], cast=True),
                 lambda: table.upsert([{"id": 1, "name": "a", "lsn": 10}], cast=True)):  # fmt: skip
        step()
        history = lake.history_of(table, "d.h")
    found = [(one[1], one[-2], one[-1]) for one in versions(history) if one[-2] != one[-1]]
    assert found == [("a", 10, 20), ("c", 40, None)]


def test_an_untracked_column_alters_the_version_in_place():
    lake = new_lake()
    table = made(lake)
    for n, name in enumerate("aab"):
        upsert(table, row(1, name, n))
        history = lake.history_of(table, "d.h", track_except=["n"])
    assert [one[:3] for one in versions(history)] == [(1, "a", 1), (1, "b", 2)]


def test_rows_of_one_batch_that_follow_each_other_are_all_kept():
    lake = new_lake()
    table = made(lake, changelog_producer="lookup")
    lake.history_of(table, "d.h")
    for name in "abcd":
        upsert(table, row(1, name), compact=True)
    table.delete_keys([{"id": 1}], compact=True)
    history = lake.history_of(table, "d.h")
    assert [one[1] for one in versions(history)] == list("abcd")
    assert history.scan(where="valid_to IS NULL").count() == 0


def test_a_rollback_of_the_source_is_a_new_version():
    lake = new_lake()
    table = made(lake, sequence__field="at")
    upsert(table, row(1, "a", at=at(10)))
    upsert(table, row(1, "b", at=at(20)))
    lake.history_of(table, "d.h", start="earliest-full")
    table.rollback(snapshot=1)
    history = lake.history_of(table, "d.h")
    assert [one[1] for one in versions(history)] == ["a", "a", "b"]
    assert history.scan(where="valid_to IS NULL").to_arrow()["name"].to_pylist() == ["a"]


def test_columns_that_the_source_gets_or_loses():
    lake = new_lake()
    table = made(lake)
    upsert(table, row(1, "a", 7))
    lake.history_of(table, "d.h")
    table.alter(lsmlake.add_column("note", "STRING"), lsmlake.drop_column("n"))
    table.upsert([{"id": 1, "name": "b", "at": None, "note": "x"}])
    rows = lake.history_of(table, "d.h").to_arrow().sort_by("valid_from").to_pylist()
    assert [(one["name"], one["n"], one["note"]) for one in rows] == [("a", 7, None), ("b", None, "x")]


def test_a_history_goes_on_without_a_tracked_column_that_the_source_has_lost():
    lake = new_lake()
    table = made(lake)
    upsert(table, row(1, "a", 7))
    lake.history_of(table, "d.h", track=["name", "n"])
    lake.history_of(table, "d.other", track_except=["n"])
    table.alter(lsmlake.drop_column("n"))
    table.upsert([{"id": 1, "name": "a", "at": None}])
    for track in (None, ["name", "n"], ["name"]):
        assert lake.history_of(table, "d.h", track=track).count() == 1
    with pytest.raises(InvalidQuery, match="made with another track, expected name, found at;"):
        lake.history_of(table, "d.h", track=["at"])
    table.upsert([{"id": 1, "name": "b", "at": None}])
    assert lake.history_of(table, "d.h").count() == lake.history_of(table, "d.other", track_except=["n"]).count() == 2
    table.alter(lsmlake.drop_column("name"))
    with pytest.raises(InvalidQuery, match=r"the table has lost all columns to track.*; add one of them to the table again"):
        lake.history_of(table, "d.h")
    table.alter(lsmlake.add_column("name", "STRING"))
    upsert(table, {"id": 1, "name": "c", "at": None})
    assert lake.history_of(table, "d.h").count() == 3


def test_partitions_and_keys_of_several_columns():
    lake = new_lake()
    columns = "dt STRING NOT NULL, id BIGINT NOT NULL, v BINARY"
    table = lake.create_table("d.t", columns, primary_key=["dt", "id"], partition_by=["dt"])
    rows = [{"dt": day, "id": number, "v": b"a"} for day in ("x", "y") for number in range(3)]
    table.upsert(rows)
    lake.history_of(table, "d.h")
    table.overwrite([{"dt": "x", "id": 1, "v": b"b"}], where="dt = 'x'")
    history = lake.history_of(table, "d.h")
    assert history.primary_key == ("dt", "id", "valid_from") and history.count() == 7
    assert history.scan(where="valid_to IS NULL").count() == 4


# -- exactly once -------------------------------------------------------------------------------------------------------


def _world(first_run: bool):
    lake = new_lake()
    table = made(lake)
    upsert(table, row(1, "a"), row(2, "b"))
    if not first_run:
        lake.history_of(table, "d.h")
        upsert(table, row(1, "c"))
        table.delete_keys([{"id": 2}])
        table.alter(lsmlake.add_column("note", "STRING"))
        table.upsert([{"id": 3, "name": "d", "n": 1, "at": None, "note": "x"}])
    return lake.env.storage


@pytest.mark.parametrize("first_run", [True, False])
def test_a_crash_at_any_call_of_the_storage_loses_and_doubles_nothing(first_run):
    base = _world(first_run)

    def run(storage) -> Table:
        lake = lake_on(storage, "r")
        return lake.history_of(lake.table("d.t"), "d.h")

    whole = versions(run(copied(base)))
    before = [] if first_run else versions(lake_on(copied(base)).table("d.h"))
    tried = 0
    for fault in every_fault(run, lambda: copied(base), one_in=max(1, round(2 / scaled(4)))):
        tried += 1
        lake = lake_on(fault.world, "again")
        if "h" in lake.tables("d"):
            held = [one[:6] for one in versions(lake.table("d.h"))]
            assert held in [[one[:6] for one in state] for state in ([], before, whole)], fault.call
        table = lake.table("d.t")
        assert versions(lake.history_of(table, "d.h")) == whole, fault.call
        assert versions(lake.history_of(table, "d.h")) == whole, fault.call
    assert tried > 2


def test_two_runs_at_once_write_each_change_once(monkeypatch):
    lake = new_lake()
    table = made(lake)
    upsert(table, row(1, "a"))
    lake.history_of(table, "d.h")
    upsert(table, row(1, "b"))
    plain, calls = HistoryRun._versions, []

    def overtaken(self, now, like, pieces):
        rows = list(plain(self, now, like, pieces))
        if not calls:
            calls.append("first")
            upsert(table, row(1, "c"))
            lake.history_of(table, "d.h")
        return iter(rows)

    monkeypatch.setattr(HistoryRun, "_versions", overtaken)
    history = lake.history_of(table, "d.h")
    assert calls and [one[1] for one in versions(history)] == ["a", "b", "c"]
    assert history.version.snapshot.position["d.t"].snapshot == 3


def test_a_run_that_another_one_overtakes_in_part_goes_on_from_there(monkeypatch):
    lake = new_lake()
    table = made(lake)
    upsert(table, row(1, "a"))
    lake.history_of(table, "d.h")
    for name in "bcd":
        upsert(table, row(1, name))
    plain, write, state = HistoryRun._versions, HistoryRun._written, []

    def one_commit(self, *given):
        write(self, *given)
        raise RuntimeError("the other run dies after its first commit")

    def overtaken(self, now, like, pieces):
        rows = list(plain(self, now, like, pieces))
        if not state:
            state.append("begun")
            with monkeypatch.context() as patch, pytest.raises(LakeError):
                patch.setattr(HistoryRun, "_written", one_commit)
                patch.setattr(history_runs, "_ROWS", 1)
                lake.history_of(table, "d.h")
            state.append(lake.table("d.h").count())
        return iter(rows)

    monkeypatch.setattr(HistoryRun, "_versions", overtaken)
    history = lake.history_of(table, "d.h")
    assert state == ["begun", 2] and [one[1] for one in versions(history)] == list("abcd")


def test_the_consumer_keeps_what_the_history_has_not_read():
    lake = new_lake()
    table = made(lake)
    upsert(table, row(1, "a"))
    lake.history_of(table, "d.h")
    for name in "bcd":
        upsert(table, row(1, name))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    assert [one[1] for one in versions(lake.history_of(table, "d.h"))] == list("abcd")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    assert lake.history_of(table, "d.h").count() == 4
    for name in "ef":
        upsert(table, row(1, name))
    table.reset_consumer("history-d-h")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    with pytest.raises(SnapshotNotFound, match="the consumer 'history-d-h' of the table protects"):
        lake.history_of(table, "d.h")
    lake.drop_table("d.h")
    assert [one[1] for one in versions(lake.history_of(table, "d.h"))] == ["f"]


def test_a_history_that_is_made_again_forgets_the_progress_of_the_older_one():
    lake = new_lake()
    table = made(lake)
    upsert(table, row(1, "a"))
    lake.history_of(table, "d.h")
    upsert(table, row(2, "b"))
    lake.history_of(table, "d.h")
    lake.drop_table("d.h")
    assert len(versions(lake.history_of(table, "d.h"))) == 2


# -- refused ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"track": ["name"], "track_except": ["n"]}, "give one of them"),
        ({"track": ["x"]}, "unknown columns to track"),
        ({"sequence_by": "x"}, "sequence_by is no column"),
        ({"sequence_by": "n"}, "do not tell at which value of sequence_by"),
        ({"start": "latest"}, "unknown start"),
        ({"track": []}, "track names no column"),
        ({"track_except": ["id", "name", "n", "at"]}, "no column is left to track"),
        (
            {"track_except": ["n", "id"]},
            r"track_except names columns of the primary key.*found \['id'\]; leave them out of track_except",
        ),
        ({"track": ["id"]}, r"track names columns of the primary key.*found \['id'\]; leave them out of track"),
        ({"track": ["n", "n"]}, r"track names a column twice, found \['n'\]"),
    ],
)
def test_arguments_that_contradict_are_refused_before_anything_is_made(how, words):
    lake = new_lake()
    table = made(lake)
    with pytest.raises(InvalidQuery, match=words):
        lake.history_of(table, "d.h", **how)
    assert lake.tables("d") == ["t"] and table.system_table("consumers").num_rows == 0


def test_a_history_that_was_made_with_a_column_of_the_key_goes_on(monkeypatch: pytest.MonkeyPatch):
    lake = new_lake()
    table = made(lake)
    with monkeypatch.context() as before:  # as before such names were refused
        before.setattr(HistoryTerms, "check_new", lambda *given: None)
        lake.history_of(table, "d.h", track_except=["id", "n"])
    table.upsert([{"id": 1, "name": "a", "n": 1, "at": None}])
    assert lake.history_of(table, "d.h").count() == lake.history_of(table, "d.h", track_except=["n", "id"]).count() == 1


@pytest.mark.parametrize("name", ["a,b", " a"])
def test_a_name_that_the_options_of_a_history_cannot_keep_is_refused_before_anything_is_made(name: str):
    lake = new_lake()
    columns = pa.schema([pa.field("id", pa.int64(), False), (name, pa.int64()), ("c", pa.int64())])
    table = lake.create_table("d.t", columns, primary_key=["id"])
    for argument in ("track", "track_except"):
        with pytest.raises(InvalidQuery, match="a history cannot keep these names"):
            lake.history_of(table, "d.h", **{argument: [name]})
    assert lake.tables("d") == ["t"]
    assert lake.history_of(table, "d.h", track=["c"]).count() == 0


@pytest.mark.parametrize(("value", "found"), [(float("nan"), "NaN"), (None, "null")])
def test_a_change_without_a_place_is_refused_and_another_history_takes_it(value: float | None, found: str):
    lake = new_lake()
    options = {"changelog_producer": "input", "sequence__field": "x"}
    table = made(lake, "id BIGINT NOT NULL, x DOUBLE", **options)
    table.upsert([{"id": 1, "x": 1.0}])
    lake.history_of(table, "d.h")
    table.upsert([{"id": 1, "x": value}])
    with pytest.raises(InvalidData, match=f"d.t, column 'x': .*found {found}; .*sequence_by='_commit_time'"):
        lake.history_of(table, "d.h")
    assert lake.table("d.h").count() == 1
    assert lake.history_of(table, "d.by_commit", sequence_by="_commit_time", start="earliest-full").count() >= 1


def test_sources_and_names_that_do_not_fit_are_refused():
    lake = new_lake()
    lake.create_table("d.log", "a INT")
    with pytest.raises(InvalidQuery, match="a history needs a primary key"):
        lake.history_of("d.log", "d.h")
    lake.create_table("d.taken", "id INT NOT NULL, valid_to INT", primary_key=["id"])
    with pytest.raises(InvalidSchema, match="which the history adds"):
        lake.history_of("d.taken", "d.h")
    made(lake)
    with pytest.raises(InvalidQuery, match="no history of this source"):
        lake.history_of("d.t", "d.log")
    with pytest.raises(InvalidQuery, match="not a table"):
        lake.history_of(7, "d.h")
    with pytest.raises(LakeError):
        lake.history_of("d.none", "d.h")


def test_other_arguments_on_a_later_run_are_refused():
    lake = new_lake()
    table = made(lake, changelog_producer="input", sequence__field="at")
    upsert(table, row(1, "a", at=at(1)))
    with pytest.raises(InvalidQuery, match="track needs changes in their order"):
        lake.history_of(table, "d.h", track=["name"])
    lake.history_of(table, "d.h", track=["name"], sequence_by="_commit_time")
    with pytest.raises(InvalidQuery, match="made with another sequence_by, expected _commit_time, found at;"):
        lake.history_of(table, "d.h", sequence_by="at")
    with pytest.raises(InvalidQuery, match="made with another track, expected name, found n, name;"):
        lake.history_of(table, "d.h", track=["n", "name"])
    with pytest.raises(InvalidQuery, match="made with another track_except"):
        lake.history_of(table, "d.h", track_except=["n"])
    with pytest.raises(InvalidQuery, match="made with another start, expected latest-full, found earliest-full;"):
        lake.history_of(table, "d.h", start="earliest-full")
    upsert(table, row(1, "a", n=5, at=at(2)))
    assert spans(lake.history_of(table, "d.h", track=["name"], start="latest-full")) == spans(lake.history_of(table, "d.h"))
    assert lake.table("d.h").count() == 1


def test_the_running_maximum_is_that_of_each_segment():
    values, begins = np.array([3, 1, 5, 2, 2, 9]), np.array([0, 3, 5])
    assert row_versions._running_maximum(values, begins).tolist() == [3, 3, 5, 2, 2, 9]


def test_a_history_whose_bucket_key_is_not_that_of_the_source_is_not_divided(monkeypatch):
    monkeypatch.setattr(history_runs, "_PART_ROWS", 1)
    lake = new_lake()
    table = made(lake)
    history = lake.history_of(table, "d.h")
    history.alter(lsmlake.unset_option("bucket-key"))
    history.rescale(buckets=4)
    for name in "ab":
        upsert(table, *(row(number, name) for number in range(20)))
        lake.history_of(table, "d.h")
    assert history.count() == 40 and history.scan(where="valid_to IS NULL").count() == 20


@pytest.mark.spark
def test_a_history_of_a_table_that_spark_writes(spark, spark_lake):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, name STRING", primary_key=["id"])
    table.upsert(spark.createDataFrame([(1, "a"), (2, "b")], "id long, name string"))
    spark_lake.history_of(table, "d.h")
    table.upsert(spark.createDataFrame([(1, "c")], "id long, name string"))
    history = spark_lake.history_of(table, "d.h")
    rows = history.df(where="valid_to IS NULL", columns=["id", "name"]).collect()
    assert sorted(map(tuple, rows)) == [(1, "c"), (2, "b")] and history.df().count() == 3


def test_columns_that_are_renamed_or_widened_are_altered_in_the_history():
    lake = new_lake()
    source = made(lake, "id BIGINT NOT NULL, name STRING, n INT, s STRUCT<x:INT>, note VARCHAR(3)")
    source.upsert({"id": [1, 2], "name": ["a", "b"], "n": [1, 2], "s": [{"x": 1}, None], "note": ["abc", None]}, cast=True)
    lake.history_of(source, "d.h")
    source.alter(
        lsmlake.rename_column("name", "Name"),
        lsmlake.rename_column("n", "m"),
        lsmlake.change_type("m", "BIGINT"),
        lsmlake.add_column("n", "STRING"),
        lsmlake.change_type("s.x", "BIGINT"),
        lsmlake.change_type("note", "STRING"),
    )
    source.upsert({"id": [1], "Name": ["c"], "m": [2**40], "s": [{"x": 2**40}], "note": ["abcd"], "n": ["new"]}, cast=True)
    history = lake.history_of(source, "d.h")
    valid = history.scan(where="valid_to IS NULL", columns=source.schema.names).to_arrow().sort_by("id").to_pylist()
    assert valid == source.to_arrow().sort_by("id").to_pylist()
    assert history.scan(where="valid_to IS NOT NULL", columns=["id", "Name", "m"]).to_pylist() == [{"id": 1, "Name": "a", "m": 1}]


def test_a_column_of_another_type_is_refused_until_that_of_the_history_has_another_name():
    lake = new_lake()
    source = made(lake, "id BIGINT NOT NULL, n INT, s STRUCT<x:INT>")
    source.upsert({"id": [1], "n": [1], "s": [{"x": 1}]}, cast=True)
    lake.history_of(source, "d.h")
    source.alter(lsmlake.drop_column("n"), lsmlake.add_column("n", "STRING"), lsmlake.rename_column("s.x", "y"))
    source.upsert({"id": [1], "n": ["one"], "s": [{"y": 2}]}, cast=True)
    for name in ("s", "n"):  # in the order of the table
        with pytest.raises(InvalidSchema, match=f"column '{name}'.*another type than in the history.*rename_column"):
            lake.history_of(source, "d.h")
        lake.table("d.h").alter(lsmlake.rename_column(name, f"{name}_before"))
    rows = lake.history_of(source, "d.h").to_arrow().sort_by("valid_from").to_pylist()
    assert [(one["n_before"], one["n"], one["s_before"], one["s"]) for one in rows] == [
        (1, None, {"x": 1}, None),
        (None, "one", None, {"y": 2}),
    ]


# -- kept by its options ------------------------------------------------------------------------------------------------


def test_a_maintainer_keeps_histories_by_what_their_first_calls_said(tmp_path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    source = made(lake)
    upsert(source, row(1, "a"))
    lake.sql("USE d")
    lake.sql("CALL history_of('t', 'h', array('name'))")
    assert [one["table_name"] for one in lake.maintain(plan=True).to_pylist()] == []
    upsert(source, row(1, "a", 7), row(2, "b"))
    planned = lake.maintain(plan=True).to_pylist()
    assert [(one["table_name"], one["kind"], one["reason"]) for one in planned] == [
        ("d.h", "refresh", "newer snapshots: 1 of d.t")
    ]
    done = lake.maintain().to_pylist()
    assert [(one["kind"], one["rows"], one["error"]) for one in done if one["table_name"] == "d.h"] == [("refresh", 2, None)]
    assert [(one[1], one[2]) for one in versions(lake.table("d.h"))] == [("a", 7), ("b", 0)]
    source.compact(full=True)
    lake.maintain()
    assert lake.maintain(plan=True).num_rows == 0


def test_a_maintainer_says_what_is_wrong_with_a_history():
    lake = new_lake()
    made(lake).upsert([row(1, "a")], cast=True)
    lake.history_of("d.t", "d.h")
    lake.drop_table("d.t")
    assert lake.maintain().num_rows == 0
    made(lake).upsert([row(1, "b")], cast=True)
    assert [one["error"] for one in lake.maintain().to_pylist()] == ["the table is no history of this source"]
    with pytest.raises(InvalidQuery, match=r"no history of this source.*there was another table of this name"):
        lake.history_of("d.t", "d.h")


def test_a_table_with_the_options_of_a_history_and_other_columns_stays_as_it_is():
    lake = new_lake()
    made(lake).upsert([row(1, "a")], cast=True)
    columns, key = "x BIGINT NOT NULL, valid_from TIMESTAMP NOT NULL, valid_to TIMESTAMP", ["x", "valid_from"]
    lake.create_table("d.h", columns, primary_key=key, options={"history.source": "d.t"})
    assert [one["error"] for one in lake.maintain().to_pylist()] == ["the table has not the columns of a history"]
    with pytest.raises(InvalidQuery, match=r"not the columns of a history.*remove the option history.source"):
        lake.history_of("d.t", "d.h")
    assert lake.table("d.h").schema.names == ["x", "valid_from", "valid_to"]


def test_a_source_with_another_name_is_named_once():
    lake = new_lake()
    source = made(lake)
    upsert(source, row(1, "a"))
    lake.history_of(source, "d.h", track=["name"])
    lake.rename_table("d.t", "d.u")
    upsert(lake.table("d.u"), row(1, "b"))
    assert "d.h" not in [one["table_name"] for one in lake.maintain().to_pylist()]
    lake.history_of("d.u", "d.h")
    upsert(lake.table("d.u"), row(1, "c"))
    assert "d.h" in [one["table_name"] for one in lake.maintain().to_pylist()]
    assert [one[1] for one in versions(lake.table("d.h"))] == list("abc")


def test_what_a_rollback_of_the_history_removed_comes_again():
    lake = new_lake()
    source = made(lake)
    upsert(source, row(1, "a"))
    history = lake.history_of(source, "d.h")
    for name in "bc":
        upsert(source, row(1, name))
        lake.history_of(source, "d.h")
    whole = versions(history)
    history.rollback(snapshot=1)
    assert [one[1] for one in versions(history)] == ["a"]
    assert versions(lake.history_of(source, "d.h")) == whole


def test_tracked_columns_keep_their_roles_under_other_names():
    lake = new_lake()
    source = made(lake, "id BIGINT NOT NULL, name STRING, title STRING, at TIMESTAMP", sequence__field="at")
    source.upsert({"id": [1], "name": ["n1"], "title": ["t1"], "at": [at(1)]})
    lake.history_of(source, "d.h", track_except=["title"])
    source.alter(
        lsmlake.rename_column("name", "x"),
        lsmlake.rename_column("title", "NAME"),
        lsmlake.rename_column("x", "Title"),
        lsmlake.rename_column("id", "key"),
        lsmlake.rename_column("at", "time"),
        lsmlake.add_column("note", "STRING"),
    )
    source.upsert({"key": [1], "Title": ["n1"], "NAME": ["t2"], "time": [at(2)], "note": [None]}, cast=True)
    with pytest.raises(InvalidQuery, match="made with another track_except, expected NAME, found Title;"):
        lake.history_of(source, "d.h", track_except=["Title"])
    assert lake.history_of(source, "d.h", track_except=["NAME"], sequence_by="time").count() == 2  # `time` is tracked
    rows = lake.table("d.h").to_arrow().sort_by("valid_from").to_pylist()
    assert [(one["key"], one["Title"], one["NAME"]) for one in rows] == [(1, "n1", "t1"), (1, "n1", "t2")]
    assert [one["valid_from"] for one in rows] == [at(1), at(2)] and lake.table("d.h").primary_key == ("key", "valid_from")


def test_a_column_gets_the_name_that_another_one_leaves():
    lake = new_lake()
    source = made(lake)
    upsert(source, row(1, "a", 7))
    lake.history_of(source, "d.h")
    source.alter(lsmlake.rename_column("n", "m"), lsmlake.rename_column("name", "n"), lsmlake.add_column("name", "STRING"))
    source.upsert([{"id": 1, "n": "a", "m": 8, "at": None, "name": "new"}], cast=True)
    rows = lake.history_of(source, "d.h").to_arrow().sort_by("valid_from").to_pylist()
    assert [(one["n"], one["m"], one["name"]) for one in rows] == [("a", 7, None), ("a", 8, "new")]


def test_a_name_that_the_history_keeps_for_an_older_column_is_refused():
    lake = new_lake()
    source = made(lake)
    upsert(source, row(1, "a", 7))
    lake.history_of(source, "d.h")
    source.alter(lsmlake.drop_column("n"))
    lake.history_of(source, "d.h")
    source.alter(lsmlake.rename_column("name", "n"))
    with pytest.raises(InvalidSchema, match=r"'name' of the source is now named 'n'.*rename_column\('n', 'n_before'\)"):
        lake.history_of(source, "d.h")
    lake.table("d.h").alter(lsmlake.rename_column("n", "n_before"))
    assert lake.history_of(source, "d.h").scan(columns=["n_before", "n"]).to_pylist() == [{"n_before": 7, "n": "a"}]
