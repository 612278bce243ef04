"""Snapshots and the envelope of metadata files: what is written is read; the latest is found; time travel."""

from __future__ import annotations

import datetime as dt
import json
import re
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import START_MS, UTC, Ticks, contents, lake_on, new_lake

from lsmlake.api.runtime import Runtime
from lsmlake.errors import Corrupt, InvalidQuery, SnapshotNotFound, UnsupportedFormat
from lsmlake.format.snapshot import NamedFile, Snapshot
from lsmlake.schema import envelope
from lsmlake.storage.memory import MemoryStorage

QUICK = examples(60)
NAMED = st.builds(NamedFile, st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True), st.integers(1, 2**40))
NUMBERS = st.integers(0, 2**62)
SNAPSHOTS = st.builds(
    Snapshot,
    id=st.integers(1, 2**40),
    table_uuid=st.text(max_size=9),
    schema_id=st.integers(0, 2**31),
    base_manifest_list=NAMED,
    delta_manifest_list=NAMED,
    index_manifest=st.none() | NAMED,
    writer_id=st.text(max_size=9),
    commit_id=st.none() | NUMBERS,
    kind=st.sampled_from(["APPEND", "COMPACT"]),
    time_ms=st.integers(0, 2**53),
    total_rows=NUMBERS,
    delta_rows=NUMBERS,
    changelog_manifest_list=st.none() | NAMED,
    changelog_rows=NUMBERS,
    watermark=st.none() | NUMBERS,
    statistics=st.none() | NAMED,
    writers=st.dictionaries(st.text(max_size=9), NUMBERS, max_size=3),
    queries=st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
    properties=st.dictionaries(st.text(), st.text(), max_size=3),
)


@QUICK
@given(SNAPSHOTS)
def test_a_snapshot_is_read_as_it_was_written(snapshot):
    assert Snapshot.decode(snapshot.encode(), "snapshot-1") == snapshot


def test_a_snapshot_is_json_that_people_can_read():
    lake = new_lake()
    table = lake.create_table("d.t", "k BIGINT", primary_key=["k"])
    table.upsert({"k": [1]}, writer_id="Zoë", commit_id=7)
    content = json.loads(contents(lake.env.storage)[table.meta.paths.snapshot(1)])
    assert (content["format"], content["version"], content["writer_id"], content["commit_id"]) == (
        "lsmlake-snapshot",
        1,
        "Zoë",
        7,
    )


@QUICK
@given(st.binary(max_size=50), st.integers(0, 500), st.integers(1, 255))
def test_a_binary_envelope_notices_any_changed_byte(payload, place, change):
    data = bytearray(envelope.wrap("MANF", payload))
    assert envelope.unwrap("MANF", bytes(data), "f") == payload
    data[place % len(data)] ^= change
    with pytest.raises((Corrupt, UnsupportedFormat), match=r"^here: "):
        envelope.unwrap("MANF", bytes(data), "here")


@QUICK
@given(st.binary(max_size=50), st.integers(0, 500))
def test_a_binary_envelope_notices_what_is_missing_or_too_much(payload, place):
    data = envelope.wrap("MANF", payload)
    for damaged in (data[: place % len(data)], data + b"\0", data[1:]):
        with pytest.raises(Corrupt, match=r"^here: "):
            envelope.unwrap("MANF", damaged, "here")
    with pytest.raises(Corrupt, match="magic"):
        envelope.unwrap("MLST", data, "here")


@QUICK
@given(
    st.dictionaries(
        st.text(max_size=5), st.text() | st.integers() | st.none() | st.booleans() | st.lists(st.text(max_size=3)), max_size=4
    ),
    st.data(),
)
def test_a_json_envelope_notices_any_change_of_its_content(content, data):
    content = {key: value for key, value in content.items() if key not in ("format", "version", "checksum")}
    text = envelope.wrap_json("snapshot", content)
    assert envelope.unwrap_json("snapshot", text, "f") == content
    damaged = bytearray(text)
    damaged[data.draw(st.integers(0, len(text) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = envelope.unwrap_json("snapshot", bytes(damaged), "here")
    except (Corrupt, UnsupportedFormat) as refused:
        assert refused.where == "here"
    else:
        assert found == content, "only blanks may change"


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"null", b"{", b"\xff", b'"x"', b'{"format": "lsmlake-schema"}', b"NaN", b"[" * 10_000, b"{}"]
)
def test_what_is_not_a_snapshot_is_refused_by_name(text):
    with pytest.raises(Corrupt, match=r"^here: .*lsmlake-snapshot"):
        envelope.unwrap_json("snapshot", text, "here")


def test_a_lone_surrogate_is_damage_not_a_crash():
    text = envelope.wrap_json("snapshot", {"note": "\\ud800 or so"}).replace(b"\\\\ud800", b"\\ud800")
    with pytest.raises(Corrupt, match="checksum"):
        envelope.unwrap_json("snapshot", text, "here")


@pytest.mark.parametrize(
    ("version", "error"), [(2, UnsupportedFormat), (0, Corrupt), ("1", Corrupt), (None, Corrupt), (True, Corrupt)]
)
def test_only_known_versions_are_read(version, error):
    content = json.loads(envelope.wrap_json("snapshot", {"id": 1})) | {"version": version}
    with pytest.raises(error, match=r"^here: "):
        envelope.unwrap_json("snapshot", json.dumps(content).encode(), "here")


def test_a_snapshot_with_other_fields_is_refused():
    with pytest.raises(Corrupt, match=r"^here: snapshot has missing or unknown fields"):
        Snapshot.decode(envelope.wrap_json("snapshot", {"id": 1}), "here")


# --- finding the latest ---


@pytest.mark.parametrize(
    "hint", [None, b"", b"0", b"1", b"3", b"4", b"99", b"-1", b"x", b" 2", b"9" * 5000, "²".encode(), b"\xff"]
)
def test_the_latest_snapshot_is_found_with_any_hint(hint):
    lake = new_lake()
    table = lake.create_table("d.t", "k BIGINT", primary_key=["k"])
    for number in range(4):
        table.upsert({"k": [number]})
    if hint is None:
        lake.env.storage.delete(table.meta.paths.latest)
    else:
        with lake.env.storage.write(table.meta.paths.latest) as sink:
            sink.write(hint)
    assert lake.table("d.t").meta.snapshots.latest_id() == 4
    assert lake.table("d.t").scan().count() == 4


def test_files_that_are_not_snapshots_do_not_matter():
    lake = new_lake()
    table = lake.create_table("d.t", "k BIGINT", primary_key=["k"])
    table.upsert({"k": [1]})
    for name in ("snapshot-2.bak", "snapshot-x", "snapshot--3", "EARLIEST", "deeper/snapshot-9.old"):
        lake.env.storage.put_if_absent(f"{table.meta.paths.snapshots}/{name}", b"")
    assert table.meta.snapshots.ids() == [1]
    assert table.meta.snapshots.latest_id() == 1


def test_a_snapshot_under_the_number_of_another_is_refused():
    lake = new_lake()
    table = lake.create_table("d.t", "k BIGINT", primary_key=["k"])
    table.upsert({"k": [1]})
    lake.env.storage.put_if_absent(table.meta.paths.snapshot(2), contents(lake.env.storage)[table.meta.paths.snapshot(1)])
    with pytest.raises(Corrupt, match=r"snapshot-2: file holds another number than its name, expected 2, found 1"):
        table.scan().count()


# --- time travel ---


def table_with_history(commits: int = 5):
    lake = new_lake(MemoryStorage())
    table = lake.create_table("d.t", "k BIGINT", primary_key=["k"])
    for number in range(commits):
        lake.env.clock.now_ms += 1000 + number * 137
        table.upsert({"k": [number]})
    return lake, table


def test_every_snapshot_is_found_by_its_number_and_its_millisecond():
    _, table = table_with_history()
    for number in range(1, 6):
        time_ms = table.meta.snapshots.get(number).time_ms
        for moment, count in ((time_ms - 1, number - 1), (time_ms, number), (time_ms + 1, number)):
            aware = dt.datetime.fromtimestamp(0, UTC) + dt.timedelta(milliseconds=moment)
            naive, text = aware.replace(tzinfo=None), aware.isoformat(timespec="milliseconds")
            for timestamp in (aware, naive, text, text[:-6], text[:-6].replace("T", " ") + " UTC"):
                if count:
                    assert table.scan(timestamp=timestamp).count() == count
                else:
                    with pytest.raises(SnapshotNotFound, match="all snapshots of the table are newer"):
                        table.scan(timestamp=timestamp).count()
        assert table.scan(snapshot=number).count() == number


class OnBerlinTime(Runtime):
    zone = "Europe/Berlin"


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch):
    """The clock of the machine shows the time of Tokyo."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("runtime", "ahead"), [(Runtime(), 0), (OnBerlinTime(), 1)])
def test_a_time_without_a_zone_is_in_the_zone_of_the_runtime_in_any_zone_of_the_machine(tokyo, runtime, ahead):
    _, table = table_with_history()
    table = replace(table, runtime=runtime)
    made = dt.datetime.fromtimestamp(0, UTC) + dt.timedelta(milliseconds=table.meta.snapshots.get(2).time_ms)
    local = (made + dt.timedelta(hours=ahead)).replace(tzinfo=None)
    for timestamp in (local, local.isoformat(sep=" ", timespec="milliseconds")):
        assert table.scan(timestamp=timestamp).count() == 2
        assert [batch.snapshot for batch in table.follow(timestamp=timestamp)] == [2, 3, 4, 5]
    first = dt.datetime.fromtimestamp(0, UTC) + dt.timedelta(milliseconds=table.meta.snapshots.get(1).time_ms, hours=ahead)
    zone = " UTC" if not ahead else "+01:00"
    earliest = f"{first:%Y-%m-%d %H:%M:%S}.{first.microsecond // 1000:03}{zone}"
    with pytest.raises(
        SnapshotNotFound, match=re.escape(f"expected a time from {earliest} on, found 2020-01-31 12:00:00.000{zone}")
    ):
        table.scan(timestamp="2020-01-31 12:00:00").count()
    assert table.scan(timestamp=earliest).count() == 1, "the time that an error prints can be given back"
    assert table.expire_snapshots(older_than=local + dt.timedelta(milliseconds=1), retain_min=1).snapshots == 1
    assert table.snapshots()["snapshot_id"].to_pylist() == [2, 3, 4, 5]


def test_the_partitions_of_a_compaction_are_chosen_in_the_zone_of_the_engine():
    table = new_lake().create_table("d.t", "k BIGINT, at TIMESTAMP", primary_key=["k", "at"], partition_by=["at"])
    midnight = dt.datetime(2026, 1, 1, tzinfo=UTC)
    for _ in range(2):
        table.upsert({"k": [1], "at": pa.array([midnight], pa.timestamp("us", "UTC"))}, compact=False)
    in_berlin = replace(table, runtime=OnBerlinTime())
    assert in_berlin.compact(full=True, where="at = '2026-01-01 00:00:00'").buckets == 0
    assert in_berlin.compact(full=True, where="at = '2026-01-01 01:00:00'").buckets == 1


def test_a_zone_that_does_not_exist_is_refused():
    class OnMarsTime(Runtime):
        zone = "Mars/Base"

    _, table = table_with_history(1)
    with pytest.raises(InvalidQuery, match="unknown time zone"):
        replace(table, runtime=OnMarsTime()).scan(timestamp="2026-01-01").count()


def test_numbers_of_numpy_are_numbers():
    _, table = table_with_history(3)
    one, three = np.int64(1), np.int32(3)
    assert table.scan(snapshot=one, limit=three).count() == table.files(one)["record_count"][0].as_py() == 1
    assert table.changes(one, three).count() == 2
    assert [batch.snapshot for batch in table.follow(snapshot=three)] == [3]
    assert table.upsert({"k": [9]}, writer_id="w", commit_id=np.uint64(5)).commit_id == 5
    assert table.upsert({"k": [9]}, writer_id="w", commit_id=5).id == 4
    table.reset_consumer("c", three)
    assert table.compact(buckets=np.arange(1), full=np.True_).buckets == 1
    assert table.get({"k": np.int64(9)}) == {"k": 9}
    assert table.expire_snapshots(retain_max=one, limit=one).snapshots == 1


@QUICK
@given(st.integers(0, 2 * 10**12))
def test_a_moment_is_exact_to_the_millisecond(time_ms):
    lake = new_lake()
    lake.env.clock.now_ms = time_ms
    table = lake.create_table("d.t", "k BIGINT", primary_key=["k"])
    lake.env.clock.now_ms = time_ms
    table.upsert({"k": [1]})
    moment = dt.datetime.fromtimestamp(0, UTC) + dt.timedelta(milliseconds=table.meta.snapshots.get(1).time_ms)
    assert table.scan(timestamp=moment).count() == 1
    with pytest.raises(SnapshotNotFound):
        table.scan(timestamp=moment - dt.timedelta(milliseconds=1)).count()


def test_snapshots_do_not_go_back_in_time_though_clocks_do():
    lake = new_lake()
    table = lake.create_table("d.t", "k BIGINT", primary_key=["k"])
    for number, now_ms in enumerate([9000, 5000, 7000, 9500]):
        lake.env.clock.now_ms = START_MS + now_ms
        table.upsert({"k": [number]})
    times = [table.meta.snapshots.get(number).time_ms for number in range(1, 5)]
    assert times == sorted(times)
    moment = dt.datetime.fromtimestamp(0, UTC) + dt.timedelta(milliseconds=times[2])
    assert table.scan(timestamp=moment).count() == 3


def test_a_table_without_a_commit_is_empty_and_has_no_past():
    table = new_lake().create_table("d.t", "k BIGINT, v STRING", primary_key=["k"])
    assert table.scan().to_arrow().equals(pa.schema(table.schema).empty_table())
    assert table.scan().count() == 0
    assert table.verify() == []
    assert table.compact(full=True).snapshot_id is None
    for how in ({"snapshot": 1}, {"snapshot": 0}, {"snapshot": -1}, {"timestamp": "2026-01-01"}):
        with pytest.raises(SnapshotNotFound, match=r"^d\.db/t: "):
            table.scan(**how).count()


@pytest.mark.parametrize(
    "how",
    [{"snapshot": True}, {"snapshot": "1"}, {"snapshot": 1.0}, {"timestamp": "soon"}, {"snapshot": 1, "timestamp": "2026-01-01"}],
)
def test_a_moment_that_is_none_is_refused(how):
    _, table = table_with_history(1)
    with pytest.raises(InvalidQuery):
        table.scan(**how).count()


def test_a_clock_of_a_test_ticks():
    clock = Ticks(5)
    assert [clock(), clock()] == [6, 7]
    assert lake_on(MemoryStorage()).env.ids() == "0000"
