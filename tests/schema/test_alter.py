"""Altering options of a table with data: the same commit rewrites the files where necessary, or an error names the cure."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import MappingProxyType

import pytest
from history import at, fold
from naive import unreferenced
from pyroaring import BitMap
from strategies import contents, copied, lake_on, new_lake

from lsmlake import set_option, unset_option
from lsmlake.api.table import Table
from lsmlake.cdc.change_reader import view_of
from lsmlake.errors import CommitConflict, InvalidData, InvalidOption, InvalidQuery
from lsmlake.maintain.alter import must_settle
from lsmlake.options.table_options import Options
from lsmlake.schema.alterations.altered import altered
from lsmlake.storage.memory import MemoryStorage

VECTORS = {"deletion-vectors.enabled": "true"}
MERGING = {"deletion-vectors.enabled": "false"}


def made(options: dict[str, str] = MappingProxyType({}), storage: MemoryStorage | None = None) -> Table:
    columns = "k INT NOT NULL, a INT, b INT, c INT, d INT"
    return new_lake(storage).create_table("d.t", columns, primary_key=["k"], options=options)


def write(table: Table, keys: list[int], a: int, *, compact: bool = False) -> None:
    none = [None] * len(keys)
    table.upsert({"k": keys, "a": [a] * len(keys), "b": none, "c": none, "d": none}, compact=compact)


PRODUCERS = ["none", "input", "lookup", "full-compaction"]


@pytest.mark.parametrize("to", PRODUCERS)
@pytest.mark.parametrize("was", PRODUCERS)
def test_a_changelog_continues_where_the_previous_one_ended(was, to):
    """From any snapshot under the new producer changes lead to any later one, and each row is emitted exactly once."""
    table = made({"changelog-producer": was, **MERGING})
    write(table, [1, 2, 3], 1, compact=True)
    write(table, [2, 3, 4], 2)
    table.alter(set_option("changelog-producer", to))
    start = table.snapshots().num_rows
    write(table, [3, 5], 3)
    table.compact(full=True)
    write(table, [5], 4, compact=True)
    table.compact(full=True)
    if to == "none":
        with pytest.raises(InvalidQuery):
            table.changes(start, mode="changelog").count()
        return
    end, view = table.snapshots().num_rows, view_of(table.version.schema, "changelog")
    changes = table.changes(start, mode="changelog").to_arrow().to_pylist()
    if to != "input":
        assert fold(at(table, start, view), changes) == at(table, end, view) == at(table, end, "fresh")
    if was in ("lookup", "full-compaction"):
        old = table.changes(0, start - 1, mode="changelog").to_arrow().to_pylist()
        assert fold({}, old) == at(table, start - 1, "raw" if was == "full-compaction" else "compacted")
        if was != to:
            both = table.changes(0, start, mode="changelog").to_arrow().to_pylist()
            assert fold({}, both) == at(table, start, "fresh"), "the last of the old changelog came with the switch"
    if was == "none":
        with pytest.raises(InvalidQuery, match="writes no changelog"):
            table.changes(0, mode="changelog").count()


FULL_CHANGELOG = {"changelog-producer": "full-compaction"}


@pytest.mark.parametrize(
    ("old", "new", "settles"),
    [
        ({}, {"compaction.tier-runs": "3"}, False),
        ({}, {"write-only": "true"}, False),
        ({}, MERGING, True),
        ({}, {"changelog-producer": "lookup"}, True),  # whose readers see rows when a compaction has
        ({}, {"changelog-producer": "input"}, False),
        ({}, {"changelog-producer": "full-compaction"}, True),  # which ends deletion vectors
        (MERGING, {**MERGING, "changelog-producer": "full-compaction"}, True),
        (FULL_CHANGELOG, {**FULL_CHANGELOG, "num-levels": 6}, False),  # the default
        (FULL_CHANGELOG, {**FULL_CHANGELOG, "num-levels": 5}, True),  # the changelog reports what reaches the last level
        (FULL_CHANGELOG, {**FULL_CHANGELOG, "num-sorted-run.compaction-trigger": 4}, True),
        (MERGING, {**MERGING, "num-levels": 5}, False),
        ({"changelog-producer": "lookup"}, {}, True),
        ({"changelog-producer": "input"}, {}, False),
        ({"changelog-producer": "lookup"}, {"changelog-producer": "input"}, True),
        ({}, {"merge-engine": "first-row"}, True),
        ({}, {"sequence.field": "a"}, True),
        ({}, {"ignore-delete": "true"}, False),
    ],
)
def test_what_needs_a_compaction(old, new, settles):
    assert must_settle(Options.parse(old), Options.parse(new)) == settles


@pytest.mark.parametrize("mode", ["diff", "delta"])
def test_a_follower_gets_the_rows_as_the_new_engine_gives_them(mode):
    table = made()
    table.upsert({"k": [1, 2], "a": [None, 5], "b": [1, 1], "c": [1, 1], "d": [None, None]})
    table.alter(set_option("merge-engine", "partial-update"), set_option("fields.a.sequence-group", "b"))
    (batch,) = table.follow(snapshot=2, mode=mode, columns=["k", "b"])
    expected = [("-U", 1, 1), ("+U", 1, None)] if mode == "diff" else [("+I", 1, None)]
    assert [tuple(row.values()) for row in batch.to_arrow().to_pylist()] == expected
    table.alter(set_option("merge-engine", "deduplicate"), unset_option("fields.a.sequence-group"))
    assert list(table.follow(snapshot=3, mode=mode)) == [], "nothing is another"
    assert table.snapshots()["commit_kind"].to_pylist() == ["APPEND", "OVERWRITE", "COMPACT"]


def test_an_option_that_concerns_writers_only_moves_no_file():
    table = made()
    write(table, [1, 2], 1)
    files = table.files()
    assert table.alter(set_option("write-only", True), set_option("target-file-size", "64 mb")).id == 2
    assert table.files() == files
    assert table.options["write-only"] == "true"
    assert table.alter(set_option("write-only", "true")) is None
    table.alter(unset_option("write-only"))
    assert "write-only" not in table.options
    assert table.schemas().num_rows == 3


def test_where_rows_lie_is_not_changed_under_them():
    table, option = made(), ("bucket-key", "k")
    table.alter(set_option(*option))
    table.alter(unset_option(option[0]))
    write(table, [1], 1)
    before = contents(table.meta.env.storage)
    with pytest.raises(InvalidOption, match="upsert the rows of this one into it"):
        table.alter(set_option(*option))
    assert contents(table.meta.env.storage) == before


def partitioned(storage: MemoryStorage, options: dict[str, str]) -> Table:
    columns = "p STRING, k INT NOT NULL, v INT"
    return new_lake(storage).create_table("d.t", columns, primary_key=["p", "k"], partition_by=["p"], options=options)


@pytest.mark.parametrize("options", [VECTORS | {"changelog-producer": "lookup"}, MERGING | {"changelog-producer": "input"}])
@pytest.mark.parametrize("filled", [False, True])
def test_every_handle_finds_every_file_when_the_name_of_the_null_partition_is_altered(options, filled):
    storage = MemoryStorage()
    held = partitioned(storage, options)
    expected: dict[tuple, int] = {}

    def upsert(table: Table, keys: list[int], v: int) -> None:
        for part in (None, "x"):
            expected.update({(part, k): v for k in keys})
        table.upsert({"p": [None, "x"] * len(keys), "k": [k for k in keys for _ in "12"], "v": [v] * 2 * len(keys)})

    def check(table: Table) -> None:
        assert {(row["p"], row["k"]): row["v"] for row in table.scan().to_arrow().to_pylist()} == expected
        assert table.scan(where="p IS NULL").count() == sum(part is None for part, _ in expected)
        assert table.verify() == []
        assert storage.size(table.files()["file_path"][0].as_py()) is not None

    if filled:
        upsert(held, [1, 2], 0)
    held.alter(set_option("partition.default-name", "none"))
    fresh = lake_on(storage, "fresh-").table("d.t")
    for v, (writer, reader) in enumerate([(held, fresh), (fresh, held), (held, held)], 1):
        upsert(writer, [1, v + 10], v)
        check(reader)
    changed = {(row["p"], row["k"]) for row in held.changes(1, fresh.snapshots().num_rows).to_arrow().to_pylist()}
    assert changed == {key for key, v in expected.items() if v}
    for table in (held, fresh):
        table.compact(full=True)
        check(fresh)
        upsert(table, [2], 9)
    fresh.alter(unset_option("partition.default-name"))
    held.expire_snapshots(retain_max=1)
    check(held)
    assert unreferenced(held) == []


@pytest.mark.parametrize(
    ("alteration", "words"),
    [
        (set_option("merge-engine", "dedup"), "deduplicate"),
        (set_option("no-such-option", 1), "unknown option"),
        (set_option("merge-engine", "first-row"), "sequence.field"),
        (set_option("fields.a.aggregate-function", "sum"), "aggregation"),
        ("write-only", "set_option"),
    ],
)
def test_nonsense_is_refused_and_the_table_is_as_before(alteration, words):
    table = made({"sequence.field": "a"})
    write(table, [1, 2], 1)
    before = contents(table.meta.env.storage)
    with pytest.raises(InvalidOption, match=words):
        table.alter(alteration)
    assert contents(table.meta.env.storage) == before


def test_a_writer_that_began_before_an_alteration_fails():
    storage = MemoryStorage()
    table = made(storage=storage)
    write(table, [1, 2], 1)
    late = lake_on(storage, "late-").table("d.t")
    put = late.meta.paths.snapshot(3)
    version = late.version
    from direct_writes import upsert_rows

    from lsmlake.commit.request import Identity
    from lsmlake.write.prepare import prepare
    from lsmlake.write.write import picker

    rows, choose = prepare(at_rows(table), version.schema)[0], picker(version, None)
    table.alter(set_option("deletion-vectors.enabled", False))
    with pytest.raises(CommitConflict, match=r"altered while the commit was prepared.*schema 0.*schema 1.*run it again"):
        upsert_rows(version, rows, Identity("late"), choose)
    assert storage.size(put) is None
    assert upsert_rows(late.version, rows, Identity("late"), choose).id == 3
    table.alter(set_option("target-file-size", "64 mb"))
    for_schema_1 = replace(late.version, schema=late.meta.schemas.get(1))
    assert upsert_rows(for_schema_1, rows, Identity("late"), choose).schema_id == 2, "which rows do not depend on"
    assert table.verify() == []


def at_rows(table: Table):
    return table.scan().to_arrow()


def test_concurrent_alterations_both_take_effect():
    storage = MemoryStorage()
    table = made(storage=storage)
    write(table, [1, 2], 1)
    other = lake_on(storage, "other-").table("d.t")
    compactions = table.runtime.compactions

    class Slow(type(table.runtime)):
        met = 0

        def compactions(self, meta, schema):
            if not self.met:
                self.met = 1
                other.alter(set_option("write-only", True))
            return compactions(meta, schema)

    Table("d.t", table.meta, Slow()).alter(set_option("deletion-vectors.enabled", False))
    assert dict(table.options) == {"write-only": "true", "deletion-vectors.enabled": "false"}
    assert table.schemas()["schema_id"].to_pylist() == [0, 1, 2]
    assert table.verify() == []


def test_a_schema_that_was_stored_but_not_published_is_not_in_effect():
    storage = MemoryStorage()
    table = made(storage=storage)
    write(table, [1], 1)
    world = copied(storage)
    left = lake_on(world, "x-").table("d.t")
    left.meta.schemas.put(altered(left.version.schema, [set_option("merge-engine", "first-row")], 1, 0, "d.t"))
    assert dict(left.options) == {}
    write(left, [1], 2)
    assert left.scan().to_arrow()["a"].to_pylist() == [2]
    assert left.alter(set_option("write-only", True)).schema_id == 2
    assert left.verify() == []


def emitted(table: Table, **how: object) -> list[tuple]:
    return [tuple(row.values())[:3] for batch in table.follow(**how) for row in batch.to_arrow().to_pylist()]


def test_a_follower_gets_every_row_once_across_changes_of_the_producer():
    table = made({"write-only": "true"})
    received = []

    def hear() -> None:
        received.append(emitted(table, consumer="c"))

    write(table, [1], 1)
    hear()
    write(table, [2], 1)
    hear()
    table.alter(set_option("changelog-producer", "lookup"))
    hear()
    write(table, [3], 1)
    hear()
    table.alter(unset_option("changelog-producer"))
    hear()
    write(table, [4], 1)
    table.alter(set_option("changelog-producer", "full-compaction"))
    write(table, [5], 1)
    hear()
    table.compact(full=True)
    hear()
    assert received == [
        [("+I", 1, 1)],
        [("+I", 2, 1)],
        [],
        [],  # waits for a compaction
        [("+I", 3, 1)],  # which came with the switch
        [("+I", 4, 1)],
        [("+I", 5, 1)],
    ]


def test_more_levels_do_not_hide_changes_reported_at_the_last_level():
    table = made({"changelog-producer": "full-compaction"})
    write(table, [1], 1, compact=True)
    assert emitted(table, consumer="c") == [("+I", 1, 1)]
    table.alter(set_option("num-levels", 9))
    assert sorted(emitted(table)) == [("+I", 1, 1)]
    assert table.scan(mode="raw").count() == 1
    write(table, [2], 1, compact=True)
    assert emitted(table, consumer="c") == [("+I", 2, 1)]


def test_more_levels_tell_what_was_waiting_as_what_it_is():
    table = made({"changelog-producer": "full-compaction"})
    write(table, [1, 2], 1, compact=True)
    write(table, [2, 3], 2)
    table.alter(set_option("num-levels", 9))
    assert sorted(emitted(table, snapshot=3)) == [("+I", 3, 2), ("+U", 2, 2), ("-U", 2, 1)]
    assert table.verify() == []


def test_rows_that_expire_during_an_alteration_are_reported():
    options = {"record-level.expire-time": "1 s", "record-level.time-field": "a"}
    table = made(options)
    now = table.meta.env.clock.now_ms // 1000
    write(table, [1], now)
    write(table, [2], now + 1000)
    table.meta.env.clock.now_ms += 5_000
    table.alter(*map(unset_option, options), set_option("deletion-vectors.enabled", False))
    assert emitted(table, snapshot=3) == [("-D", 1, now)]


def test_minor_compactions_tell_nothing_under_producer_full_compaction():
    options = {"full-compaction.delta-commits": "20", "num-sorted-run.compaction-trigger": "3"}
    table = made({"changelog-producer": "full-compaction", **options})
    chance = Random(0)
    values = {name: [chance.randrange(1 << 31) for _ in range(3_000)] for name in "abcd"}
    table.upsert({"k": list(range(3_000)), **values})
    table.compact(full=True)
    start = table.snapshots().num_rows
    for number in range(6):
        write(table, [5], number + 1, compact=True)
    assert table.changes(start, mode="changelog").count() == 0
    assert max(file["level"] for file in table.files().to_pylist() if file["record_count"] < 3_000) > 0, "there were some"
    table.compact(full=True)
    kinds = table.changes(start, mode="changelog", columns=["k", "a"]).to_arrow().to_pylist()
    assert [tuple(row.values()) for row in kinds] == [("-U", 5, values["a"][5]), ("+U", 5, 6)]


def test_the_changelog_of_a_former_producer_can_be_read():
    table = made({"changelog-producer": "lookup"})
    write(table, [1], 1, compact=True)
    write(table, [2], 1)
    table.alter(unset_option("changelog-producer"))
    assert table.changes(0, 3, mode="changelog").count() == 2
    write(table, [3], 1)
    with pytest.raises(InvalidQuery, match="snapshot 4 writes no changelog"):
        table.changes(0, mode="changelog").count()


@pytest.mark.parametrize("alteration", [unset_option("wirte-only"), unset_option("")])
def test_an_option_that_is_none_cannot_be_set_or_unset(alteration):
    with pytest.raises(InvalidOption, match="unknown option"):
        made().alter(alteration)


def test_a_wrong_name_is_reported_with_a_suggestion():
    for alteration in (set_option("changelog-producr", "lookup"), unset_option("changelog-producr")):
        with pytest.raises(InvalidOption, match="did you mean 'changelog-producer'"):
            made().alter(alteration)


BITMAP = {"fields.b.aggregate-function": "rbm32"}


def altered_to(table: Table, options: dict[str, object]) -> None:
    table.alter(*(set_option(name, value) for name, value in options.items()))


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "aggregation"} | BITMAP,
        {"merge-engine": "partial-update", "fields.s.sequence-group": "b"} | BITMAP,
    ],
)
def test_bytes_that_the_new_function_cannot_read_are_refused_with_the_key_and_a_cure(options, waiting):
    table = new_lake().create_table("d.t", "k INT NOT NULL, b BINARY, s INT", primary_key=["k"])
    good = BitMap([1]).serialize()
    table.upsert([{"k": k, "b": b"garbage" if k == 7 else good, "s": 1} for k in range(20)], compact=not waiting)
    before = contents(table.meta.env.storage)
    with pytest.raises(InvalidData, match=r"d\.t, bucket 0, column 'b': the new options.*first \(k=7\).*erase these") as caught:
        altered_to(table, options)
    assert "repair" not in str(caught.value)
    assert contents(table.meta.env.storage) == before
    table.upsert([{"k": 7, "b": good, "s": 2}])
    altered_to(table, options)
    table.upsert([{"k": 7, "b": BitMap([2]).serialize(), "s": 3}])
    assert table.get({"k": 7})["b"] == BitMap([1, 2]).serialize()


def test_a_stricter_setting_of_a_function_is_refused_with_a_cure_that_helps():
    columns = "k INT NOT NULL, m ARRAY<STRUCT<a INT, v INT>>"
    options = {
        "merge-engine": "aggregation",
        "fields.m.aggregate-function": "nested_update",
        "fields.m.nested-key": "a",
        "fields.m.nested-key-null-strategy": "merge",
    }
    table = new_lake().create_table("d.t", columns, primary_key=["k"], options=options)
    table.upsert([{"k": 1, "m": [{"a": 1, "v": 1}]}, {"k": 2, "m": [{"a": None, "v": 1}]}])
    stricter = set_option("fields.m.nested-key-null-strategy", "error")
    with pytest.raises(InvalidData, match=r"column 'm'.*1 key, first \(k=2\).*erase these keys") as caught:
        table.alter(stricter)
    assert "repair" not in str(caught.value)
    assert table.repair().rows.num_rows == 0
    table.delete_keys({"k": [2]}, ignore_sequence=True)
    table.alter(stricter)
    assert table.get({"k": 1})["m"] == [{"a": 1, "v": 1}]
