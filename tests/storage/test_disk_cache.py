"""The cache on a local disk: what it returns is what was stored, whatever happens to its folder, and it keeps its limit."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pytest
from effort import examples
from fault_proxy import FaultProxy, fault_proxy
from history import Publishing, histories, play
from hypothesis import given
from hypothesis import strategies as st
from merge_setups import SETUPS
from object_servers import Server
from test_object_tables import ObjectPlayer

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.errors import Corrupt, InvalidOption, InvalidQuery
from lsmlake.format.paths import is_unique
from lsmlake.storage.address import address_of
from lsmlake.storage.disk_cache import DiskCache, through
from lsmlake.storage.objects import ObjectStorage
from lsmlake.storage.ranges import ByteRange

LIMIT = 1 << 20


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(str(tmp_path / "cache"), LIMIT)


def content(number: int, size: int = 1_000) -> bytes:
    return random.Random(number).randbytes(size)


def files(cache: DiskCache) -> list[Path]:
    return sorted(path for path in Path(cache.folder).rglob("*") if path.is_file())


def stored(cache: DiskCache) -> int:
    """The bytes in the folder, without the lock files. While others write, a file may count beside one that replaces it."""
    total = 0
    for path in files(cache):
        with suppress(FileNotFoundError):
            total += path.stat().st_size if path.name != "lock" else 0
    return total


def entries(cache: DiskCache) -> list[Path]:
    return [path for path in files(cache) if path.suffix == ".part"]


def test_parts_are_found_by_file_and_part(cache: DiskCache):
    for file in ("a", "b"):
        for part in ("x", "y"):
            assert cache.get(file, part) is None
            cache.put(file, part, memoryview(f"{file}{part}".encode()))
    assert bytes(cache.get("b", "x")) == b"bx"
    cache.forget("b")
    assert [cache.get("b", part) for part in ("x", "y")] == [None, None]
    assert bytes(cache.get("a", "y")) == b"ay"
    assert all(path.parent.stat().st_mode & 0o077 == 0 for path in entries(cache))


def test_a_damaged_entry_is_missing_and_stored_again(cache: DiskCache):
    data = memoryview(content(0, 40))
    cache.put("f", "p", data)
    (path,) = entries(cache)
    whole = path.read_bytes()
    flipped = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for damaged in (*flipped, *(whole[:length] for length in range(len(whole))), whole + b"x"):
        path.write_bytes(damaged)
        assert cache.get("f", "p") is None
        cache.put("f", "p", data)
        assert cache.get("f", "p") == data
    cache.put("f", "q", memoryview(b"other"))
    (other,) = set(entries(cache)) - {path}
    path.write_bytes(other.read_bytes())
    assert cache.get("f", "p") is None


def test_an_entry_is_read_in_parts(cache: DiskCache):
    entry = cache.entry("f", "p")
    assert (entry.read(0, 5), entry.ending(5)) == (b"", b"")
    cache.put("f", "p", memoryview(b"0123456789"))
    assert (entry.read(0, 3), entry.read(8, 9), entry.read(10, 1)) == (b"012", b"89", b"")
    assert (entry.ending(2), entry.ending(10), entry.ending(99)) == (b"89", b"0123456789", b"0123456789")
    entry.delete()
    entry.use()
    assert entry.read(0, 3) == b""


def test_the_least_recently_used_entries_go_first(cache: DiskCache):
    for number in range(1_600):
        cache.put("f", str(number), memoryview(content(number)))
        assert number % 100 or stored(cache) <= LIMIT
        assert bytes(cache.get("f", "0")) == content(0)
    kept = [number for number in range(1_600) if cache.get("f", str(number)) is not None]
    assert 500 < len(kept) < 1_050
    assert sum(number >= 1_200 for number in kept) > sum(number < 800 for number in kept)
    cache.put("f", "large", memoryview(bytes(LIMIT // 32)))
    assert cache.get("f", "large") is None


def test_a_lost_or_garbled_count_is_made_again(cache: DiskCache):
    for number in range(1_800):
        cache.put("f", str(number), memoryview(content(number)))
        if number % 300 == 299:
            for lock in Path(cache.folder).rglob("lock"):
                lock.write_bytes(random.Random(number).choice([b"", b"x" * 20, b"%020d" % (LIMIT * 9)]))
    assert LIMIT / 2 < stored(cache) <= LIMIT


def _use(folder: str, seed: int) -> int:
    """Reads and writes random parts; returns how many reads found one."""
    cache, chance, found = DiskCache(folder, LIMIT), random.Random(seed), 0
    for _ in range(1_500):
        number = chance.randrange(1_500)
        data = cache.get("f", str(number))
        if data is None:
            cache.put("f", str(number), memoryview(content(number)))
        else:
            assert bytes(data) == content(number)
            found += 1
    return found


def test_many_processes_share_a_folder_and_keep_the_limit(cache: DiskCache):
    context = get_context("fork")
    with context.Pool(4) as pool:
        running = pool.starmap_async(_use, [(cache.folder, seed) for seed in range(8)])
        while not running.ready():
            assert stored(cache) <= 1.1 * LIMIT
            running.wait(0.02)
        assert all(found > 200 for found in running.get())
    victim = context.Process(target=_use, args=(cache.folder, 9))
    victim.start()
    time.sleep(0.05)
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    assert _use(cache.folder, 10) > 200
    assert stored(cache) <= LIMIT


def test_no_error_of_the_disk_reaches_the_reader(cache: DiskCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none")):
        wrong = DiskCache(str(folder), LIMIT)
        wrong.put("f", "p", memoryview(b"data"))
        wrong.put("f", "q", memoryview(b"data"))
        assert wrong.get("f", "p") is None
        wrong.forget("f")
    assert len(caplog.records) == 3  # one for each cache, not for each entry

    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        cache.put("f", "p", memoryview(b"data"))
    assert cache.get("f", "p") is None
    cache.put("f", "p", memoryview(b"data"))
    assert bytes(cache.get("f", "p")) == b"data"


@given(st.integers(1, 3 << 20), st.data())
@examples(10)
def test_ranges_through_blocks_are_those_of_the_file(tmp_path_factory: pytest.TempPathFactory, size: int, data: st.DataObject):
    cache, whole = DiskCache(str(tmp_path_factory.mktemp("cache")), 1 << 30), content(0, size)
    requested: list[ByteRange] = []

    def fetch(wanted: list[ByteRange]) -> list[memoryview]:
        requested.extend(wanted)
        return [memoryview(whole)[one.start : one.stop] for one in wanted]

    read = through(cache, "f", size, fetch)
    points = st.integers(0, size - 1)
    for _ in range(4):
        ranges = [
            ByteRange(min(pair), max(pair) + 1) for pair in data.draw(st.lists(st.tuples(points, points), min_size=1, max_size=3))
        ]
        assert list(map(bytes, read(ranges))) == [whole[one.start : one.stop] for one in ranges]
    assert len(set(requested)) == len(requested)  # nothing is requested twice


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(s3: Server) -> Iterator[tuple[Server, FaultProxy]]:
    with fault_proxy(s3.endpoint) as proxy:
        yield s3, proxy


def opened(world: tuple[Server, FaultProxy], url: str, cache: Path | None) -> Lake:
    return lsmlake.connect(url, storage_options={**world[0].options, "endpoint": world[1].endpoint}, cache=cache)


def requested(world: tuple[Server, FaultProxy]) -> set[str]:
    """The paths of the files that were read since the last call."""
    found = {request.path.removeprefix("/bucket/") for request in world[1].requests if request.method == "GET"}
    world[1].requests.clear()
    return found


def test_a_later_process_reads_immutable_files_from_the_disk(world: tuple[Server, FaultProxy], tmp_path: Path):
    url = world[0].warehouse()
    lake = opened(world, url, None)
    lake.create_database("d")
    columns = {f"c{number}": pa.array(range(300_000)) for number in range(4)}
    table = lake.create_table_from("d.t", pa.table({"k": range(300_000), **columns}), primary_key=["k"], options={"bucket": 1})
    table.upsert(pa.table({"k": range(10, 20), **{name: [1] * 10 for name in columns}}))
    expected = table.scan().to_arrow().sort_by("k")

    def read(folder: Path | None = tmp_path) -> set[str]:
        requested(world)
        other = opened(world, url, folder).table("d.t")
        assert other.scan(columns=["c1", "k"]).to_arrow().sort_by("k").equals(expected.select(["c1", "k"]))
        assert other.scan().to_arrow().sort_by("k").equals(expected)
        assert other.get({"k": 15})["c3"] == 1
        return requested(world)

    everything = read(None)
    assert read() == everything
    later = read()
    assert later and not any(map(is_unique, later))
    assert {path for path in everything - later if not is_unique(path)} == set()
    parts = sorted(tmp_path.rglob("*.part"))
    for path in parts:
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    assert read() == everything
    assert read() == later
    lake.drop_table("d.t")
    again = lake.create_table_from("d.t", {"k": [1], "c1": [5]}, primary_key=["k"])
    assert opened(world, url, tmp_path).table("d.t").scan().to_arrow().equals(again.scan().to_arrow())


def test_damage_in_the_store_is_found_behind_the_cache_and_does_not_stay_in_it(world: tuple[Server, FaultProxy], tmp_path: Path):
    url = world[0].warehouse()
    lake = opened(world, url, tmp_path)
    lake.create_database("d")
    lake.create_table_from("d.t", {"k": [1, 2], "v": ["a", "b"]}, primary_key=["k"])
    storage = lake.env.storage
    (path,) = [entry.path for entry in storage.list("") if entry.path.endswith(".parquet")]
    whole = storage.read(path).read()
    assert opened(world, url, tmp_path).table("d.t").scan().count() == 2
    with storage.write(path) as sink:
        sink.write(whole[:-30] + bytes(30))
    assert {finding.where for finding in lake.table("d.t").verify()} == {path}
    storage.distrust(path)
    with pytest.raises(Corrupt):
        opened(world, url, tmp_path).table("d.t").scan().to_arrow()
    with storage.write(path) as sink:
        sink.write(whole)
    assert opened(world, url, tmp_path).table("d.t").scan().to_arrow().num_rows == 2


class CachedObjects(Publishing, ObjectStorage):
    """In an object store, with a cache on disk."""


def test_a_table_read_through_a_cache_is_its_model_after_every_step(
    world: tuple[Server, FaultProxy], tmp_path_factory: pytest.TempPathFactory
):
    class Here(ObjectPlayer):
        def made_storage(self) -> Publishing:
            cache = DiskCache(str(tmp_path_factory.mktemp("cache")), LIMIT)
            return CachedObjects(address_of(world[0].warehouse()), world[0].options, cache)

    @examples(1)
    @given(st.data())
    def check(data):
        play(data.draw(histories(data.draw(st.sampled_from(list(SETUPS))))), data.draw, Here)

    check()


def test_a_cache_is_not_for_memory_and_has_a_least_size(tmp_path: Path):
    with pytest.raises(InvalidOption, match="in memory"):
        lsmlake.connect("memory://cached", cache=tmp_path / "cache")
    for limit in (-1, 0, 1 << 20):
        with pytest.raises(InvalidOption, match="limit of the cache"):
            lsmlake.connect("s3://bucket", cache=tmp_path, cache_bytes=limit)
    with pytest.raises(InvalidOption, match="cache_bytes"):
        lsmlake.connect(tmp_path, cache_bytes=1 << 30)
    (tmp_path / "file").touch()
    with pytest.raises(InvalidQuery, match=r"the cache is no directory.*file; name a directory"):
        lsmlake.connect(tmp_path, cache=tmp_path / "file")
