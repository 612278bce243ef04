"""Tables whose primary key lacks a partition column: Paimon's rules of cross-partition upsert as cases, and what follows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pyarrow as pa
import pytest
from faults import interleavings
from naive import unreferenced
from strategies import contents, copied, fake_env, lake_on, new_lake, tiny_units

from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.errors import CommitConflict, InvalidData, InvalidOption, InvalidQuery
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage

DDL = "id BIGINT, p STRING, v INT"
ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
REMOVING = {
    "partial-update": {"partial-update.remove-record-on-delete": "true"},
    "aggregation": {"aggregation.remove-record-on-delete": "true", "fields.v.aggregate-function": "sum"},
}


def made(engine: str = "deduplicate", storage: Storage | None = None, **options: object) -> Table:
    lake = new_lake(storage or MemoryStorage())
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    how = {"primary_key": ["id"], "partition_by": ["p"]}
    return lake.create_table("d.t", DDL, options={"merge-engine": engine, **named}, **how)


def batch(*rows: tuple) -> pa.Table:
    """(id, p, v) or (kind, id, p, v)."""
    kinds = [row[0] if len(row) == 4 else "+I" for row in rows]
    columns = list(zip(*(row[-3:] for row in rows), strict=True))
    types = pa.int64(), pa.string(), pa.int32()
    made = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return pa.table([*made, pa.array(kinds)], names=["id", "p", "v", "op"])


def plain(*rows: tuple) -> pa.Table:
    return batch(*rows).drop_columns(["op"]) if rows else batch((0, A, 0)).drop_columns(["op"]).slice(1)


def upsert(table: Table, *rows: tuple, **how: object):
    return table.upsert(batch(*rows), row_kind="op", **how)


def state(table: Table, **how: object) -> list[tuple]:
    return sorted(tuple(row.values()) for row in table.scan(**how).to_pylist())


def changes(table: Table, first: int, last: int | None = None, **how: object) -> list[tuple]:
    return [tuple(row.values()) for row in table.changes(first, last, **how).to_pylist()]


A, B, C = "a", "b", "c"
CASES: dict[str, tuple[str, list[list[tuple]], list[tuple], list[tuple]]] = {
    # engine, batches, the rows, the changes of the last batch
    "the row of another partition replaces it": (
        "deduplicate",
        [[(1, A, 1)], [(1, B, 2)]],
        [(1, B, 2)],
        [("-U", 1, A, 1), ("+U", 1, B, 2)],
    ),
    "so in one batch": ("deduplicate", [[(1, A, 1), (1, B, 2)]], [(1, B, 2)], [("+I", 1, B, 2)]),
    "there and back in one batch": (
        "deduplicate",
        [[(1, A, 1)], [(1, B, 2), (1, A, 3)]],
        [(1, A, 3)],
        [("-U", 1, A, 1), ("+U", 1, A, 3)],
    ),
    "to the null partition": (
        "deduplicate",
        [[(1, A, 1)], [(1, None, 2)]],
        [(1, None, 2)],
        [("-U", 1, A, 1), ("+U", 1, None, 2)],
    ),
    "a delete that names another partition": ("deduplicate", [[(1, A, 1)], [("-D", 1, B, 0)]], [], [("-D", 1, A, 1)]),
    "a delete of a key that has no row": (
        "deduplicate",
        [[(1, A, 1)], [("-D", 2, A, 0), (1, B, 2)]],
        [(1, B, 2)],
        [("-U", 1, A, 1), ("+U", 1, B, 2)],
    ),
    "a delete and a new row": (
        "deduplicate",
        [[(1, A, 1)], [("-D", 1, A, 1), ("+I", 1, B, 2)]],
        [(1, B, 2)],
        [("-U", 1, A, 1), ("+U", 1, B, 2)],
    ),
    "a row is updated where it lies": (
        "partial-update",
        [[(1, A, 1)], [(1, B, 2)]],
        [(1, A, 2)],
        [("-U", 1, A, 1), ("+U", 1, A, 2)],
    ),
    "the first row of a batch chooses the partition": (
        "partial-update",
        [[(1, B, 1), (1, A, None)]],
        [(1, B, 1)],
        [("+I", 1, B, 1)],
    ),
    "a removed key is a new one": (
        "partial-update",
        [[(1, A, 1)], [("-D", 1, C, 0), (1, B, 2)]],
        [(1, B, 2)],
        [("-U", 1, A, 1), ("+U", 1, B, 2)],
    ),
    "a removal wherever it lies": ("partial-update", [[(1, A, 1)], [("-D", 1, C, 0)]], [], [("-D", 1, A, 1)]),
    "a value is added where the row lies": (
        "aggregation",
        [[(1, A, 1)], [(1, B, 2), (1, C, 3)]],
        [(1, A, 6)],
        [("-U", 1, A, 1), ("+U", 1, A, 6)],
    ),
    "a removed sum begins anew": (
        "aggregation",
        [[(1, A, 1)], [(1, B, 5), ("-D", 1, C, 0), (1, B, 2), (1, A, 1)]],
        [(1, B, 3)],
        [("-U", 1, A, 1), ("+U", 1, B, 3)],
    ),
    "the first row stays": (
        "first-row",
        [[(1, A, 1)], [(1, B, 2), (2, B, 3), (2, A, 4)]],
        [(1, A, 1), (2, B, 3)],
        [("+I", 2, B, 3)],
    ),
}


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_rules_of_paimon(name, vectors, compact):
    engine, batches, rows, reported = CASES[name]
    table = made(engine, deletion_vectors__enabled=vectors, changelog_producer="lookup", **REMOVING.get(engine, {}))
    for one in batches:
        upsert(table, *one, compact=compact)
    last = len(batches)
    assert state(table) == rows
    assert table.count() == len(rows)
    assert changes(table, last - 1, last, mode="changelog") == reported
    assert changes(table, last - 1, last, mode="diff") == reported
    table.compact()
    assert state(table) == state(table, mode="raw") == rows
    assert changes(table, last - 1, mode="changelog") == reported, "a compaction changes no row"
    assert table.verify() == []
    assert unreferenced(table) == []


def test_keys_are_deleted_without_their_partition():
    table = made(changelog_producer="lookup")
    upsert(table, (1, A, 1), (2, B, 2))
    assert table.delete_keys({"id": [1, 3]}).delta_rows == 1
    assert state(table) == [(2, B, 2)]
    assert changes(table, 1, 2, mode="changelog") == [("-D", 1, A, 1)]
    assert table.delete_keys({"id": [1, 3]}) is None, "nothing to delete"


@pytest.mark.parametrize("engine", ENGINES)
def test_keys_are_erased_wherever_they_lie(engine):
    table = made(engine)
    upsert(table, (1, A, 1), (2, B, 2))
    table.delete_keys({"id": [2, 3]}, ignore_sequence=True)
    assert state(table) == [(1, A, 1)]


def test_a_row_is_found_by_its_key():
    table = made()
    upsert(table, *((key, "abc"[key % 3], key) for key in range(60)))
    upsert(table, (5, A, 100))
    assert table.get({"id": 5}) == {"id": 5, "p": A, "v": 100}
    assert table.get({"id": 99}) is None
    assert table.get([{"id": 7}, {"id": 5}, {"id": 99}])["v"].to_pylist() == [7, 100]
    assert table.scan(where="id IN (5, 6) AND p = 'a'").to_pylist() == [{"id": 5, "p": A, "v": 100}, {"id": 6, "p": A, "v": 6}]


def test_transforms_choose_the_partition_and_part_of_a_key_may():
    lake = new_lake(MemoryStorage())
    how = {"primary_key": ["region", "id"], "partition_by": ["region", "days(at)", "bucket(4, id)"]}
    table = lake.create_table(
        "d.t", "region STRING, id BIGINT, at TIMESTAMP, v INT", options={"merge-engine": "partial-update"}, **how
    )
    rows = {"region": ["x", "y", None], "id": [1, 1, 1], "at": ["2026-01-01 10:00:00"] * 3, "v": [1, 2, 3]}
    table.upsert(rows, cast=True)
    table.upsert({"region": ["y", None], "id": [1, 1], "at": ["2026-02-02 10:00:00"] * 2, "v": [20, 30]}, cast=True)
    found = sorted((row["region"] or "", row["id"], row["at"].month, row["v"]) for row in table.scan().to_pylist())
    assert found == [("", 1, 1, 30), ("x", 1, 1, 1), ("y", 1, 1, 20)], "one key in each region, on its first day"
    assert table.verify() == []
    assert table.get({"region": None, "id": 1})["v"] == 30


@pytest.mark.parametrize("engine", ENGINES)
def test_a_write_that_is_spilled_places_the_same_rows(engine):
    """Of 4,000 keys, each in one to three batches, with changes."""
    tables = [made(engine, changelog_producer="lookup", bucket="auto", **size) for size in ({}, {"write_buffer_size": "20 kb"})]
    batches = [[(7 * n * key % 4001, "abc"[key * n % 3], key) for key in range(2000)] for n in (1, 2, 3)]
    for table in tables:
        for first, second in pairwise(batches):
            table.upsert(pa.concat_tables([batch(*first), batch(*second)]), row_kind="op")
    assert state(tables[0]) == state(tables[1])
    assert tables[1].verify() == []
    for last in (1, 2):
        one, other = (sorted(changes(table, last - 1, last, mode="changelog"), key=repr) for table in tables)
        assert one == other


def test_a_move_is_one_row_of_the_binlog_and_its_halves_are_together():
    table = made(changelog_producer="lookup")
    upsert(table, (1, A, 1), (2, A, 1))
    upsert(table, (1, B, 2), (2, A, 2))
    (batch_of_2,) = (one for one in table.follow(snapshot=2) if one.snapshot == 2)
    found = [tuple(row.values()) for row in batch_of_2.to_arrow().to_pylist()]
    assert found == [("-U", 1, A, 1), ("+U", 1, B, 2), ("-U", 2, A, 1), ("+U", 2, A, 2)]
    lists = table.system_table("binlog").to_arrow().to_pylist()
    assert {"rowkind": "+U", "id": [1, 1], "p": [A, B], "v": [1, 2]} in lists
    ordered = table.changes(1, 2, commit_columns=True).to_pylist()
    assert [row["_change_ordinal"] for row in ordered] == [0, 1, 2, 3]
    assert changes(table, 1, 2, columns=["p"]) == [("-U", A), ("+U", B), ("-U", A), ("+U", A)]
    assert changes(table, 1, 2, where="p = 'b'", mode="changelog") == [("+U", 1, B, 2)]


def test_delta_has_no_delete_for_a_key_that_moves():
    table = made()
    upsert(table, (1, A, 1), (2, A, 1))
    upsert(table, (1, B, 2), ("-D", 2, C, 0), compact=False)
    assert sorted(changes(table, 1, 2, mode="delta"), key=repr) == [("+I", 1, B, 2), ("-D", 2, A, 0)]


OVERWRITES: dict[str, tuple[dict, list[tuple], list[tuple]]] = {
    # how, the new rows, the rows of a table with (1, a) (2, a) (3, b) (4, c)
    "the partitions of the data": ({}, [(3, A, 30)], [(3, A, 30), (4, C, 4)]),
    "where": ({"where": "p = 'a'"}, [(4, A, 40)], [(3, B, 3), (4, A, 40)]),
    "where, without rows": ({"where": "p = 'a'"}, [], [(3, B, 3), (4, C, 4)]),
    "partitions that exchange keys": ({}, [(3, A, 30), (1, B, 10)], [(1, B, 10), (3, A, 30), (4, C, 4)]),
    "a new partition": ({}, [(1, "d", 10), (3, "d", 30)], [(1, "d", 10), (2, A, 2), (3, "d", 30), (4, C, 4)]),
    "a key twice": ({}, [(1, B, 10), (1, C, 11)], [(1, C, 11), (2, A, 2), (3, B, 3)]),
    "all rows": ({"truncate": True}, [(1, B, 10), (1, C, 11)], [(1, C, 11)]),
}


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("name", OVERWRITES)
def test_the_keys_of_an_overwrite_leave_other_partitions(name, vectors, compact):
    how, rows, expected = OVERWRITES[name]
    table = made(deletion_vectors__enabled=vectors, changelog_producer="lookup", bucket=2)
    upsert(table, (1, A, 1), (2, A, 2), (3, B, 3), (4, C, 4), compact=compact)
    table.overwrite(plain(*rows), **how)
    assert state(table) == expected
    folded = {1: (1, A, 1), 2: (2, A, 2), 3: (3, B, 3), 4: (4, C, 4)}
    for kind, *row in changes(table, 1, 2):
        assert kind in ("+I", "+U") or folded.pop(row[0]) == tuple(row)
        if kind in ("+I", "+U"):
            folded[row[0]] = tuple(row)
    assert sorted(folded.values()) == expected
    table.compact()
    assert state(table) == state(table, mode="raw") == expected
    assert table.verify() == []
    assert unreferenced(table) == []


def test_an_overwrite_finds_the_buckets_of_partitions_that_stay():
    table = made()
    upsert(table, *((key, A, key) for key in range(50)))
    table.rescale(3)
    table.overwrite(plain((7, B, 70), (8, B, 80)))
    assert state(table) == [(key, B, 10 * key) if key in (7, 8) else (key, A, key) for key in range(50)]
    assert table.count() == 50 and table.verify() == []


def test_one_commit_of_a_writer_is_applied_once():
    table = made("aggregation", fields__v__aggregate_function="sum")
    for _ in range(2):
        upsert(table, (1, A, 1), writer_id="w", commit_id=1)
        upsert(table, (1, B, 2), writer_id="w", commit_id=2)
    assert state(table) == [(1, A, 3)]


# --- writers beside writers ---


def opened(storage: Storage, prefix: str) -> Table:
    return Lake(fake_env(storage, prefix), Runtime()).table("d.t")


def moves(*rows: tuple, **how: object) -> Callable[[Table], object]:
    return lambda table: upsert(table, *rows, **how)


PAIRS: dict[str, tuple[str, Callable[[Table], object], Callable[[Table], object]]] = {
    "both move a key": ("deduplicate", moves((1, B, 10)), moves((1, C, 20))),
    "both insert a key": ("deduplicate", moves((9, B, 10)), moves((9, C, 20))),
    "both insert the first row": ("first-row", moves((9, B, 10)), moves((9, C, 20))),
    "both add to a new key": ("aggregation", moves((9, B, 10)), moves((9, C, 20))),
    "one moves, one deletes": ("deduplicate", moves((1, B, 10)), lambda table: table.delete_keys({"id": [1]})),
    "one moves, one compacts": ("deduplicate", moves((1, B, 10)), lambda table: table.compact(full=True)),
    "one moves, one overwrites": (
        "deduplicate",
        moves((1, B, 10)),
        lambda table: table.overwrite(plain((1, C, 5)), truncate=True),
    ),
    "one moves, one overwrites partitions": ("deduplicate", moves((1, B, 10)), lambda table: table.overwrite(plain((1, C, 5)))),
    "one waits at level 0": ("deduplicate", moves((1, B, 10), compact=False), moves((1, C, 20), (2, B, 1))),
    "a key is removed and written": ("partial-update", moves(("-D", 1, C, 0)), moves((1, B, 20))),
}


@pytest.mark.parametrize("producer", ["none", "lookup"])
@pytest.mark.parametrize("name", PAIRS)
def test_two_writers_of_one_key_leave_one_row(name, producer):
    """In every order of their storage calls with one switch: the rows are those of one writer after the other, and the changes
    lead there."""
    engine, *pair = PAIRS[name]
    with tiny_units(rows=8, window_bytes=1 << 16, lookup_rows=100):
        world = MemoryStorage()
        upsert(made(engine, world, changelog_producer=producer, **REMOVING.get(engine, {})), (1, A, 1), (2, A, 2))
        serial = []
        for order in (pair, pair[::-1]):
            one = copied(world)
            for number, program in enumerate(order):
                program(opened(one, f"{number}-"))
            serial.append(state(opened(one, "look-")))

        def program(number: int) -> Callable[[Storage], object]:
            return lambda storage: pair[number](opened(storage, f"{'ab'[number]}-")) and None

        seen = set()
        for done in interleavings(program(0), program(1), lambda: copied(world), switches_max=1, one_in=3):
            end = frozenset(contents(done.world).items())
            if end in seen:
                continue
            seen.add(end)
            left = lake_on(done.world).table("d.t")
            assert state(left) in serial, done.steps
            assert unreferenced(left) == []
            assert left.verify() == []
            folded: dict[int, tuple] = {}
            for kind, *row in changes(left, 0, mode="auto"):
                if kind in ("-U", "-D"):
                    assert folded.pop(row[0]) == tuple(row)
                else:
                    assert folded.setdefault(row[0], tuple(row)) == tuple(row)
            assert sorted(folded.values()) == state(left)


def test_a_writer_that_is_overtaken_for_ever_gives_up(monkeypatch):
    table = made()
    upsert(table, (1, A, 1))
    monkeypatch.setattr("lsmlake.commit.commit._ROUNDS", 3)
    monkeypatch.setattr("lsmlake.write.read_set.KeysUnchanged.check", overtaken)
    with pytest.raises(CommitConflict, match=r"wrote the same keys on every attempt.*use fewer writers"):
        upsert(table, (1, B, 2))
    assert unreferenced(table) == []


def overtaken(*_: object) -> None:
    from lsmlake.commit.requirements import Overtaken

    raise Overtaken


# --- what is refused ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequence.field": "v"}, r"sequence.field needs all rows of a key in one partition.*\['p'\].*argument order_by"),
        ({"changelog-producer": "input"}, "changelog-producer = input needs.*use lookup"),
        ({"changelog-producer": "full-compaction"}, "changelog-producer = full-compaction needs.*use lookup"),
        (
            {"merge-engine": "aggregation", "fields.p.aggregate-function": "max"},
            "fields.p.* names a partition",
        ),
        (
            {"merge-engine": "partial-update", "fields.v.sequence-group": "p"},
            "fields.v.* names a partition",
        ),
        (
            {
                "merge-engine": "partial-update",
                "fields.v.sequence-group": "w",
                "partial-update.remove-record-on-sequence-group": "v",
            },
            "remove-record-on-sequence-group needs.*remove-record-on-delete",
        ),
    ],
)
def test_options_that_need_all_rows_of_a_key_in_one_partition_are_refused(options, message):
    lake = new_lake(MemoryStorage())
    with pytest.raises(InvalidOption, match=message):
        lake.create_table("d.t", f"{DDL}, w INT", primary_key=["id"], partition_by=["p"], options=options)


def test_an_update_of_a_partition_column_is_refused_where_rows_do_not_move():
    table = made("partial-update")
    upsert(table, (1, A, 1))
    with pytest.raises(InvalidQuery, match=r"cannot move a row to another partition.*\['p'\].*use deduplicate"):
        table.update({"p": "'b'"}, "id = 1")


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_an_overwrite_of_partitions_is_refused_where_rows_do_not_move(engine):
    table = made(engine)
    upsert(table, (1, A, 1))
    for how in ({}, {"where": "p = 'a'"}):
        with pytest.raises(InvalidQuery, match=rf"merge-engine = {engine} cannot overwrite partitions.*truncate=True"):
            table.overwrite(plain((1, B, 2)), **how)
    table.overwrite(plain((1, B, 2), (2, C, 3)), truncate=True)
    assert state(table) == [(1, B, 2), (2, C, 3)]


def test_rows_of_a_key_without_an_order_are_refused():
    table = made()
    with pytest.raises(InvalidData, match=r"NaN|null"):
        table.upsert(pa.table({"id": pa.array([None], pa.int64()), "p": ["a"], "v": pa.array([1], pa.int32())}))
