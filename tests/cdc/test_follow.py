"""Following a table without Spark: from any snapshot and in any steps, each change is delivered once and in order."""

from __future__ import annotations

import datetime as dt
from itertools import islice

import pytest
from effort import examples
from history import fold, fold_upserts, histories, played, seen_row
from hypothesis import given
from hypothesis import strategies as st
from strategies import START_MS, new_lake, tiny_units

from lsmlake.api.following import ChangeBatch, Following
from lsmlake.api.table import Table
from lsmlake.cdc.change_reader import by_bucket, view_of
from lsmlake.cdc.follow import Limit, Offset
from lsmlake.errors import InvalidOption, InvalidQuery, SnapshotNotFound

ENGINES = ["deduplicate", "deduplicate by sequence", "partial-update, groups", "aggregation, taking back"]
MODES = [
    *(("none", mode) for mode in ("vectors", "merge on read", "copy on write")),
    *(("lookup", mode) for mode in ("vectors", "merge on read", "vectors, gentle")),
    ("full-compaction", "merge on read"),
]


def made(**options: str) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return new_lake().create_table("d.t", "k INT NOT NULL, v INT", primary_key=["k"], options=named)


def write(table: Table, keys: list[int], v: int) -> None:
    table.upsert({"k": keys, "v": [v] * len(keys)})


def emitted(batches) -> list[tuple[int, list[tuple]]]:
    return [(batch.snapshot, [tuple(row.values()) for row in batch.to_arrow().to_pylist()]) for batch in batches]


@pytest.mark.parametrize(("producer", "mode"), MODES)
@pytest.mark.parametrize("name", ENGINES)
@examples(4)
@given(data=st.data())
def test_steps_of_any_size_from_any_place_lead_to_the_end(name, producer, mode, data):
    player = played(data.draw(histories(name, alters=False, producer=producer, mode=mode)))
    table, last, key = player.table, max(player.history), player.key_of
    if not last:
        return
    with tiny_units(rows=2):
        start = data.draw(st.integers(1, last))
        full = data.draw(st.booleans())
        wanted = Following(
            "from-snapshot-full" if full else "from-snapshot", start, mode=data.draw(st.sampled_from([None, "delta"]))
        )
        follower = wanted.follower(table.meta, "UTC")
        limit = Limit(*(data.draw(st.none() | st.integers(1, most)) for most in (10, 3000, 3)))
        view = view_of(table.version.schema, follower.mode)
        if not (full or player.knows(start - 1, view)):
            return
        state = {} if full else player.view(start - 1, view)
        offset = follower.begin()
        assert offset == Offset(start, 0, full)
        steps, end = fold if wanted.mode != "delta" else fold_upserts, follower.end()
        while offset < end:
            following = follower.advance(offset, limit)
            assert offset < following <= end
            again = Offset(**following._asdict())
            changes = read(table, follower, offset, again)
            assert changes == read(table, follower, offset, again)
            if steps is fold and offset.snapshot + 1 < following.snapshot:
                for change in changes:  # a key changed in several snapshots: the -U of one is the +U of another
                    apply(state, change, key)
            else:
                state = steps(state, changes, key)
            offset = following
        if player.knows(last, view):
            player.same_rows(state, player.view(last, view))
        elif view == "raw":  # after a division only readers know which rows wait
            rows = table.scan(mode=view).to_arrow().select(player.shape.names).to_pylist()
            player.same_rows(state, {key(row): row for row in rows})
        assert follower.advance(end, limit) == end == follower.advance(end)


def apply(state: dict, change: dict, key_of) -> None:
    kind, key = change.pop("_row_kind"), key_of(change)
    if kind in ("-U", "-D"):
        assert seen_row(state.pop(key)) == seen_row(change)
    else:
        assert key not in state
        state[key] = change


def read(table: Table, follower, offset: Offset, end: Offset) -> list[dict]:
    pieces = by_bucket(piece for _, piece in follower.pieces(offset, end))
    return ChangeBatch(table.meta, follower.like, 0, tuple(pieces)).to_arrow().to_pylist()


def test_where_to_start():
    table = made(changelog_producer="lookup")
    for number in range(1, 4):
        table.meta.env.clock.now_ms = START_MS + 1000 * number
        write(table, [1, number + 1], number)
    one, two, three = (
        (1, [("+I", 1, 1), ("+I", 2, 1)]),
        (2, [("-U", 1, 1), ("+U", 1, 2), ("+I", 3, 2)]),
        (3, [("-U", 1, 2), ("+U", 1, 3), ("+I", 4, 3)]),
    )
    (full,) = emitted(table.follow())
    assert full[0] == 3
    assert sorted(full[1]) == [("+I", 1, 3), ("+I", 2, 1), ("+I", 3, 2), ("+I", 4, 3)]
    assert emitted(table.follow(start="latest")) == []
    assert emitted(table.follow(snapshot=1)) == emitted(table.follow(start="from-snapshot", snapshot=1)) == [one, two, three]
    assert emitted(table.follow(snapshot=3)) == [three]
    assert emitted(table.follow(snapshot=4)) == []
    moment = dt.datetime.fromtimestamp(START_MS / 1000 + 1.9, dt.timezone.utc)
    assert emitted(table.follow(timestamp=moment)) == [two, three]
    assert emitted(table.follow(timestamp=moment + dt.timedelta(days=1))) == []
    assert [number for number, _ in emitted(table.follow(start="from-snapshot-full", snapshot=2))] == [2, 3]
    assert emitted(table.follow(snapshot=2, mode="delta", where="k = 1")) == [(2, [("+I", 1, 2)]), (3, [("+I", 1, 3)])]
    assert emitted(table.follow(snapshot=3, mode="diff", columns=["v"])) == [(3, [("-U", 2), ("+U", 3), ("+I", 3)])]


def test_an_empty_table_is_followed_from_its_first_row():
    table = made()
    assert emitted(table.follow(consumer="c")) == []
    assert table.consumers()["next_snapshot_id"].to_pylist() == [1]
    write(table, [1], 1)
    assert emitted(table.follow(consumer="c")) == [(1, [("+I", 1, 1)])]


def test_a_consumer_has_read_a_batch_when_the_next_is_asked_for():
    table = made()
    for number in range(4):
        write(table, [1], number)
    batches = table.follow(snapshot=1, consumer="job")
    assert [batch.snapshot for batch in islice(batches, 2)] == [1, 2]
    batches.close()  # the second was not finished
    assert table.consumers()["next_snapshot_id"].to_pylist() == [2]
    table.expire_snapshots(retain_max=1)
    again = table.follow(start="latest", consumer="job")  # the consumer knows better where to start
    assert [batch.snapshot for batch in again] == [2, 3, 4]
    assert table.consumers()["next_snapshot_id"].to_pylist() == [5]


def test_a_consumer_that_has_not_read_all_rows_to_their_end_begins_with_them_again():
    table = made()
    for number in range(3):
        write(table, [number], number)
    batches = table.follow(consumer="job")
    assert next(batches).to_arrow().num_rows == 3
    batches.close()
    write(table, [9], 9)
    again = table.follow(consumer="job")
    assert [(batch.snapshot, batch.to_arrow().num_rows) for batch in again] == [(3, 3), (4, 1)]
    assert emitted(table.follow(consumer="job")) == []


def test_waiting_polls_and_finds_new_snapshots():
    table = made()
    write(table, [1], 0)
    waits = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            write(table, [2], 1)

    object.__setattr__(table.meta.env, "sleep", sleep)
    assert [batch.snapshot for batch in islice(table.follow(wait=0.5), 2)] == [1, 2]
    assert waits == [0.05] * 3  # where a look at a file costs little, it does not wait for the next poll


def test_an_object_store_is_asked_once_per_poll(monkeypatch):
    table = made()
    write(table, [1], 0)
    waits = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        write(table, [2], 1)

    object.__setattr__(table.meta.env, "sleep", sleep)
    monkeypatch.setattr(type(table.meta.env.storage), "at_once", 16)
    assert [batch.snapshot for batch in islice(table.follow(wait=0.5), 2)] == [1, 2]
    assert waits == [0.5]


def test_expired_snapshots_are_reported_with_the_cure():
    table = made()
    for number in range(5):
        write(table, [1], number)
    batches = table.follow(snapshot=1)
    next(batches)
    table.expire_snapshots(retain_max=2)
    with pytest.raises(SnapshotNotFound):
        next(batches)
    with pytest.raises(SnapshotNotFound, match=r"need snapshot 3, which has expired.*name a consumer"):
        next(table.follow(snapshot=4))
    assert [batch.snapshot for batch in table.follow(snapshot=5)] == [5]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"start": "earliest"}, "latest-full or latest"),
        ({"start": "from-snapshot"}, "pass snapshot"),
        ({"start": "latest", "snapshot": 1}, "'latest' takes no snapshot"),
        ({"snapshot": "1"}, "an integer"),
        ({"snapshot": 0}, "1 or more"),
        ({"start": "from-timestamp"}, "pass timestamp"),
        ({"timestamp": "yesterday"}, "not a timestamp"),
        ({"mode": "changelog"}, "changelog-producer"),
        ({"mode": "full"}, "'diff'"),
        ({"columns": "v"}, r"write \['v'\]"),
        ({"columns": ["w"]}, "unknown columns"),
        ({"where": "v >"}, "v >"),
        ({"consumer": "../x"}, "consumer"),
        ({"wait": 0}, "more than 0"),
    ],
)
def test_nonsense_is_refused_at_once(how, words):
    table = made()
    write(table, [1], 1)
    with pytest.raises((InvalidQuery, InvalidOption), match=words):
        table.follow(**how)
    assert table.consumers().num_rows == 0


def test_a_missing_snapshot_cannot_be_a_start():
    table = made()
    write(table, [1], 1)
    with pytest.raises(SnapshotNotFound, match=r"snapshot 9 to start from does not exist.*1 to 2"):
        next(table.follow(snapshot=9))


def test_compactions_tell_nothing_and_cost_nothing():
    table = made()
    for number in range(4):
        table.upsert({"k": [number, 1], "v": [number] * 2}, compact=False)
    assert table.compact(full=True).snapshot_id == 5
    follower = Following(snapshot=1).follower(table.meta, "UTC")
    assert [number for number, _ in follower.pieces(Offset(5), Offset(6))] == []
    assert [batch.snapshot for batch in table.follow(snapshot=1)] == [1, 2, 3, 4]


def test_from_now_on_means_from_the_call_on():
    table = made()
    write(table, [1], 1)
    batches = table.follow(start="latest", consumer="c")
    write(table, [2], 2)
    assert table.consumers()["next_snapshot_id"].to_pylist() == [2]
    assert emitted(batches) == [(2, [("+I", 2, 2)])]
    with pytest.raises(SnapshotNotFound):
        table.follow(snapshot=99)
    with pytest.raises(InvalidQuery, match="after the next snapshot"):
        table.reset_consumer("c", 9)


@pytest.mark.parametrize("inline", [True, False])
def test_a_delete_is_reported_with_the_selected_columns(inline):
    table = made()
    table.upsert({"k": [1, 2], "v": [9, 1]})
    table.delete_keys({"k": [1, 2]}, compact=inline)
    assert emitted(table.follow(snapshot=2, mode="delta", where="v > 4")) == [(2, [("-D", 1, 9)])]


def test_the_null_partition_is_one_of_them():
    options = {"bucket": 2}
    table = new_lake().create_table(
        "d.p", "p STRING, k INT NOT NULL, v INT", primary_key=["p", "k"], partition_by=["p"], options=options
    )
    for number in range(3):
        table.upsert({"p": [None, "a", "b"][: 3 - number], "k": [1] * (3 - number), "v": [number] * (3 - number)})
    table.delete_keys({"p": [None], "k": [1]})
    found = [sorted(rows, key=repr) for _, rows in emitted(table.follow(snapshot=2))]
    update = lambda p, v: [("+U", p, 1, v), ("-U", p, 1, v - 1)]  # noqa: E731
    assert found == [sorted(update(None, 1) + update("a", 1), key=repr), update(None, 2), [("-D", None, 1, 2)]]
