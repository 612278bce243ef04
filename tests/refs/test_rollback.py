"""Rollback: the table is as it was, nothing is lost without `cut`, and a file that is live again is never deleted."""

from __future__ import annotations

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from naive import unreferenced
from strategies import START_MS, lake_on, multiset, new_lake, rows_of, view

from lsmlake import add_column, drop_column, set_option, unset_option
from lsmlake.api.table import Table
from lsmlake.errors import InvalidQuery, SnapshotNotFound
from lsmlake.storage.memory import MemoryStorage

TIERS = {"compaction.tier-runs": "2"}


def made(storage: MemoryStorage | None = None, **options: str) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return new_lake(storage).create_table("d.t", "k INT NOT NULL, v STRING", primary_key=["k"], options={"bucket": "2", **named})


def write(table: Table, keys: range, value: object, **how: object) -> None:
    table.upsert({"k": list(keys), "v": [str(value)] * len(keys)}, **how)


def rows(table: Table, mode: str = "fresh", **how: object) -> list[tuple]:
    return multiset(rows_of(view(table, mode, **how).to_arrow()))


def history(table: Table) -> dict[int, list[tuple]]:
    return {number: rows(table, snapshot=number) for number in numbers(table)}


def numbers(table: Table) -> list[int]:
    return table.snapshots()["snapshot_id"].to_pylist()


def is_in_order(table: Table) -> None:
    assert table.verify() == []
    assert unreferenced(table) == []


def some_history(table: Table) -> Table:
    """Four snapshots: rows moved by metadata, a row replaced, level 0, everything rewritten."""
    write(table, range(9), 1)
    write(table, range(4, 7), 2)
    write(table, range(3), 3, compact=False)
    table.delete_keys({"k": [8]}, compact=False)
    table.compact(full=True)
    return table


@pytest.mark.parametrize("options", [{}, {"deletion_vectors__enabled": "false"}])
def test_the_rows_of_a_snapshot_come_back_and_nothing_is_lost(options):
    table = some_history(made(**options))
    before = history(table)
    for number in (1, 4, 2, 5, 3):
        snapshot = table.rollback(snapshot=number)
        assert rows(table) == before[number]
        assert (snapshot.kind, snapshot.restores, snapshot.properties["rollback-to"]) == ("OVERWRITE", number, str(number))
        assert {n: rows(table, snapshot=n) for n in before} == before
    write(table, range(20, 22), 4)
    assert rows(table) == multiset([*before[3], (20, "4"), (21, "4")])
    table.compact(full=True)
    assert rows(table, mode="raw") == multiset([*before[3], (20, "4"), (21, "4")])
    is_in_order(table)


def test_the_target_is_a_snapshot_a_tag_or_a_time():
    table = made()
    for number in range(1, 5):
        table.meta.env.clock.now_ms = START_MS + 1000 * number
        write(table, range(number), number)
    table.create_tag("two", 2)
    table.expire_snapshots(retain_max=2)
    assert numbers(table) == [3, 4]
    assert table.rollback(tag="two").restores == 2
    assert rows(table) == [(0, "2"), (1, "2")]
    assert table.rollback(timestamp="2026-01-01 00:00:03.5").restores == 3
    assert rows(table) == [(0, "3"), (1, "3"), (2, "3")]
    is_in_order(table)
    with pytest.raises(SnapshotNotFound):
        table.rollback(1)
    with pytest.raises(SnapshotNotFound):
        table.rollback(tag="three")
    for how in ({}, {"snapshot": 3, "tag": "two"}):
        with pytest.raises(InvalidQuery):
            table.rollback(**how)
    latest = table.meta.snapshots.latest()
    assert table.rollback(latest.id) == latest
    assert table.meta.snapshots.latest() == latest


def test_an_empty_table_has_no_target():
    with pytest.raises(SnapshotNotFound):
        made().rollback(1)


def test_options_come_back_as_a_new_schema():
    table = made()
    write(table, range(5), 1)
    table.alter(set_option("deletion-vectors.enabled", False))
    write(table, range(2), 2)
    altered = table.meta.snapshots.latest_id()
    snapshot = table.rollback(1)
    assert snapshot.schema_id == 2
    assert "deletion-vectors.enabled" not in table.options
    assert table.rollback(altered).schema_id == 3
    assert table.options["deletion-vectors.enabled"] == "false"
    assert table.rollback(altered).schema_id == 3  # the same options
    assert table.schemas().num_rows == 4
    is_in_order(table)


def test_a_dry_run_reports_and_changes_nothing():
    table = some_history(made())
    table.create_tag("late", 4)
    before = table.meta.snapshots.latest()
    report = table.rollback(2, dry_run=True)
    assert (report.target, report.undone, report.rows_then, report.files) == (2, (3, 4, 5), before_rows(table, 2), 0)
    cut = table.rollback(2, cut=True, dry_run=True)
    assert (cut.tags, cut.files > 0) == (("late",), True)
    assert table.meta.snapshots.latest() == before
    is_in_order(table)


def before_rows(table: Table, number: int) -> int:
    return table.meta.snapshots.get(number).total_rows


def test_commit_ids_go_on_from_the_newest():
    """A batch that was rolled back is not applied again by a replay; the next one is applied."""
    table = made()
    for number in range(4):
        write(table, range(number, number + 2), number, writer_id="job", commit_id=number)
    for cut in (False, True):
        latest = table.rollback(2, cut=cut)
        assert latest.writers == {"job": 3}
        before = rows(table)
        write(table, range(3, 5), 3, writer_id="job", commit_id=3)
        assert rows(table) == before
    write(table, range(40, 41), 4, writer_id="job", commit_id=4)
    assert rows(table) == multiset([*before, (40, "4")])
    is_in_order(table)


# -- cut --------------------------------------------------------------------------------------------------------------


def test_a_cut_removes_what_came_after_the_target_and_nothing_else():
    table = some_history(made(changelog_producer="input"))
    before = history(table)
    table.create_tag("early", 1)
    table.create_tag("late", 4)
    snapshot = table.rollback(2, cut=True)
    assert (snapshot.id, snapshot.restores) == (6, 2)
    assert numbers(table) == [1, 2, 6]
    assert table.tags()["tag_name"].to_pylist() == ["early"]
    assert history(table) == {1: before[1], 2: before[2], 6: before[2]}
    is_in_order(table)
    for number in (3, 4, 5):
        with pytest.raises(SnapshotNotFound, match="rollback"):
            table.scan(snapshot=number).count()
    assert lake_on(table.meta.env.storage, "x-").table("d.t").meta.snapshots.latest_id() == 6
    for number in range(7, 10):
        write(table, range(number, number + 3), number)
    assert numbers(table) == [1, 2, 6, 7, 8, 9]
    table.expire_snapshots(retain_max=4)
    assert numbers(table) == [6, 7, 8, 9]
    table.expire_snapshots(retain_max=1)
    assert numbers(table) == [9]
    assert rows(table, tag="early") == before[1]
    is_in_order(table)


def test_a_cut_can_go_back_to_a_tag_whose_snapshot_has_expired():
    table = some_history(made())
    before = history(table)
    table.create_tag("one", 1)
    table.expire_snapshots(retain_max=2)
    table.rollback(tag="one", cut=True)
    assert numbers(table) == [6]
    assert rows(table) == before[1]
    is_in_order(table)


def test_a_cut_after_rollbacks_keeps_files_that_came_back():
    table = some_history(made())
    before = history(table)
    table.rollback(1)  # 6
    table.rollback(4)  # 7
    write(table, range(3), 9)  # 8
    table.rollback(6, cut=True)  # 9
    assert history(table) == before | {6: before[1], 9: before[1]}
    table.rollback(3, cut=True)
    assert history(table) == {1: before[1], 2: before[2], 3: before[3], 10: before[3]}
    is_in_order(table)


def test_a_handle_that_knows_a_removed_snapshot_finds_the_newest():
    storage = MemoryStorage()
    table = some_history(made(storage))
    handles = []
    for number in range(1, 6):
        handle = lake_on(storage, f"h{number}-").table("d.t")
        handle.meta.snapshots.note_latest(table.meta.snapshots.get(number))
        handles.append(handle)
    table.rollback(2, cut=True)
    assert [handle.meta.snapshots.latest_id() for handle in handles] == [6] * 5
    for handle in handles:
        write(handle, range(1), "x", writer_id="w", commit_id=1)
    assert numbers(table) == [1, 2, 6, 7]
    is_in_order(table)


def test_a_rollback_to_options_that_name_a_deleted_branch_is_refused():
    """The table could not be read any more."""
    table = some_history(made())
    table.create_branch("gone")
    table.alter(set_option("scan.fallback-branch", "gone"))
    with_branch = table.version.number
    table.alter(unset_option("scan.fallback-branch"))
    table.delete_branch("gone")
    last = table.version.number
    for dry_run in (True, False):
        with pytest.raises(InvalidQuery, match=r"name a branch with which the table could not be read.*'gone'"):
            table.rollback(with_branch, dry_run=dry_run)
    assert table.version.number == last and table.count() > 0
    table.create_branch("gone")
    table.rollback(with_branch)
    assert table.options["scan.fallback-branch"] == "gone" and table.count() > 0


def test_a_cut_is_refused_while_a_consumer_has_read_what_goes():
    table = some_history(made())
    table.reset_consumer("daily", 4)
    with pytest.raises(InvalidQuery, match="daily"):
        table.rollback(2, cut=True)
    assert numbers(table) == [1, 2, 3, 4, 5]
    table.reset_consumer("daily", 3)
    table.rollback(2, cut=True)
    with pytest.raises(SnapshotNotFound):
        list(table.follow(consumer="daily"))
    table.reset_consumer("daily", 7)
    write(table, range(50, 51), "new")
    (batch,) = table.follow(consumer="daily")
    assert batch.to_arrow().to_pylist() == [{"_row_kind": "+I", "k": 50, "v": "new"}]


# -- streams ----------------------------------------------------------------------------------------------------------

PRODUCERS = {
    "none": {},
    "input": {"changelog_producer": "input"},
    "lookup": {"changelog_producer": "lookup"},
    "full-compaction": {"changelog_producer": "full-compaction", "deletion_vectors__enabled": "false"},
}


def fold(state: dict, changes: list[dict]) -> dict:
    for change in changes:
        kind, key, value = change["_row_kind"], change["k"], change["v"]
        if kind in ("-U", "-D"):
            assert state.pop(key) == value
        else:
            assert key not in state
            state[key] = value
    return state


@pytest.mark.parametrize("producer", list(PRODUCERS))
@pytest.mark.parametrize("mode", [None, "diff", "delta", "changelog"])
def test_streams_see_the_reverse_changes(producer, mode):
    """Folding the changes of all snapshots gives the rows of the view that the producer describes."""
    if mode == "changelog" and producer == "none":
        pytest.skip("there is no changelog")
    table = some_history(made(**PRODUCERS[producer]))
    table.rollback(1)
    write(table, range(6, 12), 4, compact=False)
    table.rollback(3)
    table.compact(full=True)
    table.rollback(5)
    seen_by = {"lookup": "compacted", "full-compaction": "raw"}.get(producer, "fresh") if mode in (None, "changelog") else "fresh"
    state: dict = {}
    for batch in table.follow(start="from-snapshot", snapshot=1, mode=mode):
        changes = batch.to_arrow().to_pylist()
        if mode == "delta":
            for change in changes:
                state.pop(change["k"], None)
                if change["_row_kind"] == "+I":
                    state[change["k"]] = change["v"]
        elif producer == "input" and mode != "diff" and table.meta.snapshots.get(batch.snapshot).restores is None:
            state = {row["k"]: row["v"] for row in table.scan(snapshot=batch.snapshot).to_arrow().to_pylist()}  # as given
        else:
            state = fold(state, changes)
        if mode != "delta" or table.meta.snapshots.get(batch.snapshot).restores is not None:
            assert multiset(list(state.items())) == rows(table, snapshot=batch.snapshot, mode=seen_by)
    is_in_order(table)


# -- an oracle --------------------------------------------------------------------------------------------------------


STEPS = ("write", "write", "level 0", "compact", "full", "analyze", "rollback", "rollback", "expire", "tag", "untag", "cut")


@examples(20)
@given(data=st.data())
def test_what_is_retained_can_be_read_and_no_file_is_left(data):
    """Any steps: every retained snapshot and tag has its rows, and no file is there that none of them names."""
    vectors = data.draw(st.sampled_from([{}, {"deletion_vectors__enabled": "false"}]))
    merging = data.draw(st.sampled_from([{}, {"manifest__merge_min_count": "2"}]))
    table = made(snapshot__expire__on_commit="false", **vectors, **merging)
    write(table, range(5), 0)
    known, tags, latest = {1: rows(table)}, {}, 1
    for step in range(data.draw(st.integers(3, 25))):
        verb = data.draw(st.sampled_from(STEPS))
        kept = numbers(table)
        if verb in ("write", "level 0"):
            first = data.draw(st.integers(0, 8))
            write(table, range(first, first + 3), step, compact=False if verb == "level 0" else None)
        elif verb in ("compact", "full"):
            table.compact(full=verb == "full")
        elif verb == "analyze":
            table.analyze()
        elif verb in ("rollback", "cut"):
            targets = [*({"snapshot": number} for number in kept), *({"tag": tag} for tag in tags)]
            how = data.draw(st.sampled_from(targets))
            expected = known[how["snapshot"]] if "snapshot" in how else known[tags[how["tag"]]]
            number = how.get("snapshot") or tags[how["tag"]]
            table.rollback(**how, cut=verb == "cut")
            assert rows(table) == expected
            if verb == "cut" and number != latest:
                tags = {tag: of for tag, of in tags.items() if of <= number}
                assert numbers(table)[:-1] == [one for one in kept if one <= number]
        elif verb == "expire":
            table.expire_snapshots(retain_max=data.draw(st.integers(1, len(kept))))
        elif verb == "tag":
            number = data.draw(st.sampled_from(kept))
            table.create_tag(f"t{step}", number)
            tags[f"t{step}"] = number
        elif tags:
            name = data.draw(st.sampled_from(sorted(tags)))
            table.delete_tag(name)
            del tags[name]
        for number in numbers(table):
            if number > latest:
                known[number] = rows(table)
                latest = number
        assert history(table) == {number: known[number] for number in numbers(table)}
        assert {tag: rows(table, tag=tag) for tag in tags} == {tag: known[of] for tag, of in tags.items()}
        assert unreferenced(table) == []
    assert table.verify() == []


# -- columns ----------------------------------------------------------------------------------------------------------


def test_columns_come_back_with_their_values():
    """A column that was dropped has its values again; one that was added is gone, and its id is never used again."""
    table = made()
    write(table, range(3), 1)
    table.alter(add_column("n", "INT"), drop_column("v"))
    table.upsert({"k": [0, 5], "n": [7, 8]})
    table.compact(full=True)
    table.rollback(1)
    assert table.schema.names == ["k", "v"]
    assert rows(table) == [(0, "1"), (1, "1"), (2, "1")]
    table.alter(add_column("n", "INT"))
    write(table, range(1, 2), 2)
    table.compact(full=True)
    assert rows(table) == multiset([(0, "1", None), (1, "2", None), (2, "1", None)])
    ids = list(table.version.schema.field_ids().values())
    assert ids == [1, 2, 4]
    is_in_order(table)


def test_a_stream_in_the_columns_of_now_sees_the_rows_come_back():
    table = made()
    write(table, range(3), 1)
    write(table, range(2), 2)
    table.rollback(1)
    (batch,) = table.follow(start="from-snapshot", snapshot=3)
    assert multiset([(change["_row_kind"], change["k"], change["v"]) for change in batch.to_arrow().to_pylist()]) == multiset(
        [("-U", 0, "2"), ("+U", 0, "1"), ("-U", 1, "2"), ("+U", 1, "1")]
    )
