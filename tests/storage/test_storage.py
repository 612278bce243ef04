"""Storages against the contract, guarantees of the local storage alone, and the fault harness on small programs."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import re
import resource
import shutil
import signal
import time
from functools import partial
from itertools import islice, product
from math import comb
from threading import Event, Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faults import Crash, FaultStorage, every_fault, interleavings
from storage_contract import NAMES, MovingContract, paths, put

from lsmlake.errors import InvalidQuery, LakeError, StorageFailed
from lsmlake.storage.local import LocalStorage
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import read_bytes, storage_errors


class TestMemory(MovingContract):
    @pytest.fixture
    def storage(self):
        return MemoryStorage()

    def test_spark_cannot_reach_it(self, storage):
        with pytest.raises(InvalidQuery, match="connect to a directory"):
            storage.uri("f")

    def test_its_clock_dates_the_files(self):
        storage = MemoryStorage(clock=iter([5, 9]).__next__)
        put(storage, "a", b"")
        storage.put_if_absent("b", b"")
        assert [entry.modified_ms for entry in storage.list("")] == [5, 9]


class TestFaultFree(MovingContract):
    """A wrapper that injects nothing is a storage like any other."""

    @pytest.fixture
    def storage(self):
        return FaultStorage(MemoryStorage(), full_after_bytes=100_000_000)


class TestLocal(MovingContract):
    @pytest.fixture
    def storage(self, tmp_path):
        return LocalStorage(tmp_path / "root")

    @pytest.fixture(autouse=True)
    def no_temporary_stays(self, tmp_path):
        yield
        assert [name for _, _, names in os.walk(tmp_path) for name in names if name.startswith(".tmp-")] == []

    @pytest.mark.parametrize("name", NAMES)
    def test_uri_is_the_absolute_path_with_pattern_characters_escaped(self, storage, name):
        put(storage, name, b"x")
        assert storage.uri(name).startswith("file:///")
        assert os.path.getsize(re.sub(r"\\(.)", r"\1", storage.uri(name).removeprefix("file://"))) == 1
        assert not re.search(r"(?<!\\)[{}\[\]*?]", storage.uri(name))

    def test_uri_of_a_common_name_has_nothing_escaped(self):
        assert LocalStorage("/w h").uri("db/t/dt=1/ä%20.parquet") == "file:///w h/db/t/dt=1/ä%20.parquet"

    def test_a_file_that_is_replaced_has_another_state(self, storage):
        put(storage, "d/f", b"x")
        before, missing = storage.states(["d/f", "d/g"])
        assert missing is None and before is not None
        assert storage.states(["d/f"]) == [before]
        put(storage, "d/f", b"y")
        assert storage.states(["d/f"]) != [before]

    def test_files_written_together_are_complete_and_durable(self, storage, monkeypatch):
        synced, sync = [], os.fsync

        def noted(descriptor: int) -> None:
            synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
            sync(descriptor)

        put(storage, "d/before", b"")  # creates the directory
        monkeypatch.setattr(os, "fsync", noted)
        storage.write_all({"d/f": b"1", "d/g": b"22"})
        assert storage.contents(["d/f", "d/g"]) == [b"1", b"22"]
        assert [name.startswith(".tmp-") for name in synced] == [True, True, False], "both files, then their directory"
        assert synced[-1] == "d"

    def test_pickles_and_does_not_depend_on_the_working_directory(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        storage = pickle.loads(pickle.dumps(LocalStorage("here")))
        monkeypatch.chdir("/")
        put(storage, "f", b"x")
        assert (tmp_path / "here" / "f").read_bytes() == b"x"

    def test_of_many_processes_exactly_one_puts(self, storage):
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            won = pool.starmap(storage.put_if_absent, [("s/1", bytes([number]) * 1_000) for number in range(16)], chunksize=1)
        assert sum(won) == 1
        assert read_bytes(storage, "s/1") == bytes([won.index(True)]) * 1_000

    def test_a_killed_writer_leaves_a_file_that_only_then_may_be_deleted(self, storage, tmp_path):
        put(storage, "d/first", b"")
        child = multiprocessing.get_context("spawn").Process(target=_write_until_killed, args=(storage, "d/f"))
        child.start()
        while child.is_alive() and not any(left.stat().st_size for left in (tmp_path / "root" / "d").glob(".tmp-*")):
            time.sleep(0.005)
        (left,) = (tmp_path / "root" / "d").glob(".tmp-*")
        assert list(storage.leftovers("d")) == []
        assert not storage.delete_leftover(f"d/{left.name}")
        child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        assert paths(storage) == ("d/first",)
        assert [(entry.path, entry.size) for entry in storage.leftovers("")] == [(f"d/{left.name}", left.stat().st_size)]
        assert storage.delete_leftover(f"d/{left.name}")
        assert list(storage.leftovers("")) == []
        assert not storage.delete_leftover("d/first")

    def test_content_and_names_are_synced_before_and_after_publishing(self, storage, tmp_path, monkeypatch):
        log, fsync, link, replace = [], os.fsync, os.link, os.replace
        named = lambda descriptor: os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: E731
        monkeypatch.setattr(os, "fsync", lambda descriptor: (log.append(("sync", named(descriptor)[:5])), fsync(descriptor)))
        monkeypatch.setattr(os, "link", lambda old, new: (log.append(("link", os.path.basename(new))), link(old, new)))
        monkeypatch.setattr(os, "replace", lambda old, new: (log.append(("replace", os.path.basename(new))), replace(old, new)))
        (tmp_path / "root").mkdir()
        put(storage, "d/f", b"x")
        assert log == [("sync", "root"), ("sync", ".tmp-"), ("replace", "f"), ("sync", "d")]
        log.clear()
        storage.put_if_absent("d/g", b"x")
        assert log == [("sync", ".tmp-"), ("link", "g"), ("sync", "d")]

    def test_a_link_that_succeeded_but_was_answered_with_exists_counts(self, storage, monkeypatch):
        link = os.link

        def answer_lost(old, new):
            link(old, new)
            raise FileExistsError(errno.EEXIST, "exists")

        monkeypatch.setattr(os, "link", answer_lost)
        assert storage.put_if_absent("f", b"mine")
        assert not storage.put_if_absent("f", b"other")
        assert read_bytes(storage, "f") == b"mine"

    def test_a_file_with_the_name_of_a_directory_is_reported(self, storage):
        put(storage, "d", b"file")
        for verb in (lambda: put(storage, "d/f", b""), lambda: storage.put_if_absent("d/f", b"")):
            with pytest.raises(StorageFailed, match=r"root/d/f.*move the file") as caught:
                verb()
            assert isinstance(caught.value.__cause__, OSError)

    def test_no_verb_follows_a_link_inside_the_root(self, storage, tmp_path):
        outside = tmp_path / "outside"
        (outside / "deep").mkdir(parents=True)
        for name in ("f", "deep/f"):
            (outside / name).write_bytes(b"precious")
        put(storage, "t/real", b"x")
        root = tmp_path / "root"
        for name, target in [("linked", outside), ("t/linked", outside), ("t/file", outside / "f"), ("t/circle", root / "t")]:
            (root / name).symlink_to(target)
        (root / "t/itself").symlink_to(root / "t/itself")
        assert paths(storage) == ("t/real",)
        assert paths(storage, "t") == ("t/real",)
        assert (tuple(storage.folders("")), tuple(storage.folders("t"))) == (("t",), ())
        assert (storage.size("t/file"), storage.size("t/itself")) == (None, None)
        for verb in (
            lambda: paths(storage, "linked"),
            lambda: tuple(storage.folders("linked/deep")),
            lambda: storage.size("t/linked/f"),
            lambda: storage.read("linked/f"),
            lambda: storage.read_from_end("linked/f", 8, 8),
            lambda: storage.endings([("linked/deep/f", 8)]),
            lambda: storage.endings([("t/real", 1), ("t/file", 8)]),
            lambda: put(storage, "t/linked/f", b"spoilt"),
            lambda: storage.put_if_absent("linked/deep/new", b""),
            lambda: storage.delete("linked/deep/f"),
            lambda: storage.delete("t/itself/f"),
            lambda: storage.move("linked", "u"),
            lambda: storage.move("t", "linked/t"),
            lambda: storage.prune("linked"),
        ):
            with pytest.raises(
                StorageFailed, match=r"a symbolic link inside a warehouse is not followed.*move or mount the directory itself"
            ):
                verb()
        for name in ("t/file", "t/itself"):
            with pytest.raises(FileNotFoundError):
                storage.read(name)
        storage.delete("t/file")
        storage.delete("t/real")
        storage.prune("t")
        assert not (root / "t").exists()
        assert sorted(path.name for path in outside.rglob("*")) == ["deep", "f", "f"]
        assert (outside / "f").read_bytes() == (outside / "deep/f").read_bytes() == b"precious"

    @pytest.mark.parametrize("part", ["a", "a/b", "a/b/c"])
    def test_a_directory_that_was_used_before_may_have_become_a_link(self, storage, tmp_path, part):
        put(storage, "a/b/c/f", b"x")
        assert read_bytes(storage, "a/b/c/f") == b"x"
        outside = tmp_path / "outside"
        shutil.copytree(tmp_path / "root" / part, outside)
        shutil.rmtree(tmp_path / "root" / part)
        (tmp_path / "root" / part).symlink_to(outside)
        for verb in (
            lambda: read_bytes(storage, "a/b/c/f"),
            lambda: put(storage, "a/b/c/f", b"spoilt"),
            lambda: storage.delete("a/b/c/f"),
        ):
            with pytest.raises(StorageFailed, match="a symbolic link inside a warehouse is not followed"):
                verb()
        (tmp_path / "root" / part).unlink()
        shutil.copytree(outside, tmp_path / "root" / part)
        assert read_bytes(storage, "a/b/c/f") == b"x"

    def test_the_root_may_be_a_link(self, tmp_path):
        (tmp_path / "real").mkdir()
        (tmp_path / "linked").symlink_to(tmp_path / "real")
        storage = LocalStorage(tmp_path / "linked")
        put(storage, "a/f", b"x")
        assert (tmp_path / "real/a/f").read_bytes() == b"x"
        assert paths(storage) == ("a/f",)

    def test_a_directory_removed_during_a_write_is_reported(self, storage, tmp_path):
        for publish in (lambda: put(storage, "d/f", b""), lambda: storage.put_if_absent("d/f", b"")):
            put(storage, "d/other", b"")

            def rename(*names, verb=None):
                os.rename(tmp_path / "root/d", tmp_path / "root" / f"away-{time.time_ns()}")
                return verb(*names)

            with pytest.MonkeyPatch.context() as patch, pytest.raises(StorageFailed, match="removed or renamed while a file"):
                patch.setattr(os, "replace", partial(rename, verb=os.replace))
                patch.setattr(os, "link", partial(rename, verb=os.link))
                publish()
        for left in (tmp_path / "root").glob("away-*/.tmp-*"):
            left.unlink()

    def test_a_directory_with_the_name_of_a_file_is_reported(self, storage):
        put(storage, "d/f", b"")
        with pytest.raises(StorageFailed, match=r"root/d: cannot write.*move the directory"):
            put(storage, "d", b"")
        with pytest.raises(StorageFailed, match=r"root/d: cannot create.*move the directory"):
            storage.put_if_absent("d", b"")
        with pytest.raises(StorageFailed, match=r"root/d: cannot delete"):
            storage.delete("d")

    def test_a_system_limit_during_a_write_is_reported_and_leaves_nothing(self, storage):
        def write_table():
            with storage.write("t/f.parquet") as sink:
                pq.write_table(pa.table({"x": [os.urandom(100_000)]}), sink)

        data = bytes(100_000)
        for verb in (lambda: put(storage, "t/f", data), lambda: storage.put_if_absent("t/f", data), write_table):
            failed = _with_file_size_limit(verb, 50_000)
            assert isinstance(failed, StorageFailed)
            assert failed.__cause__.errno == errno.EFBIG
            assert "raise the limit" in str(failed)
        assert paths(storage) == ()


def _write_until_killed(storage, path):
    with storage.write(path) as sink:
        while True:
            sink.write(b"x")
            time.sleep(0.001)


def _with_file_size_limit(verb, limit_bytes):
    """What the verb raises while no file of this process may grow past the limit (a stand-in for a full disk)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        verb()
    except LakeError as error:
        return error
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestErrorMapping:
    @pytest.mark.parametrize(
        ("number", "cure"),
        [
            (errno.ENOSPC, "free space"),
            (errno.EACCES, "grant this user"),
            (errno.EROFS, "for writing"),
            (errno.EIO, "see the cause"),
        ],
    )
    def test_the_error_has_operation_place_reason_and_cure(self, number, cure):
        with pytest.raises(StorageFailed) as caught, storage_errors("write", "a/b"):
            raise OSError(number, "the reason")
        assert str(caught.value).startswith("a/b: cannot write, found the reason; ") and cure in str(caught.value)
        assert caught.value.__cause__.errno == number

    def test_an_error_of_ours_is_not_wrapped_again(self):
        with pytest.raises(StorageFailed) as caught, storage_errors("write", "outer"), storage_errors("write", "inner"):
            raise PermissionError(errno.EACCES, "denied")
        assert caught.value.where == "inner"

    def test_other_exceptions_pass(self):
        for error in (FileNotFoundError("gone"), InvalidQuery("no"), ValueError("x"), KeyboardInterrupt()):
            with pytest.raises(type(error)) as caught, storage_errors("write", "a"):
                raise error
            assert caught.value is error


def _publish(storage):
    """A toy commit: a file, then the name that makes it count, then a hint. Looks at all verbs once."""
    with storage.write("data/1") as sink:
        sink.write(b"rows")
    assert storage.size("data/1") == 4
    won = storage.put_if_absent("snapshot/1", b"data/1")
    list(storage.list("snapshot"))
    storage.delete("data/old")
    return won


class TestFaultStorage:
    def test_logs_and_counts_every_call(self):
        storage = FaultStorage(MemoryStorage())
        _publish(storage)
        assert read_bytes(storage, "data/1") == b"rows"
        assert storage.calls == [
            ("write-begin", "data/1"),
            ("write-publish", "data/1"),
            ("size", "data/1"),
            ("put_if_absent", "snapshot/1"),
            ("list", "snapshot"),
            ("delete", "data/old"),
            ("read", "data/1"),
        ]

    @pytest.mark.parametrize("mode", ["crash", "error"])
    def test_each_call_fails_once_before_its_effect_and_once_after_it_if_it_has_one(self, mode):
        ends = list(every_fault(_publish, MemoryStorage, mode))
        assert all(isinstance(end.outcome, Crash if mode == "crash" else StorageFailed) for end in ends)
        data_then_snapshot = [(), ("data/1",), ("data/1", "snapshot/1")]
        seen = [data_then_snapshot.index(paths(end.world)) for end in ends]
        # a crash before a call leaves what a crash after the last call with an effect left
        #                                    begin publish size put list delete
        assert seen == [0, 1, 2, 2] if mode == "crash" else [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]

    def test_every_fault_finds_the_window_of_a_wrong_commit_order(self):
        def snapshot_first(storage):
            storage.put_if_absent("snapshot/1", b"data/1")
            put(storage, "data/1", b"rows")

        dangling = [
            end.call
            for end in every_fault(snapshot_first, MemoryStorage)
            if end.world.size("snapshot/1") is not None and end.world.size("data/1") is None
        ]
        assert dangling == [("put_if_absent", "snapshot/1")]
        dangling = [
            end.call
            for end in every_fault(snapshot_first, MemoryStorage, "error")
            if end.world.size("snapshot/1") is not None and end.world.size("data/1") is None
        ]
        assert dangling == [
            ("put_if_absent", "snapshot/1"),
            ("write-begin", "data/1"),
            ("write-begin", "data/1"),
            ("write-publish", "data/1"),
        ]

    def test_no_handler_of_library_code_swallows_a_crash_and_the_dead_call_nothing(self):
        storage = FaultStorage(MemoryStorage()).fail_at(1)
        with pytest.raises(Crash):
            try:
                storage.put_if_absent("a", b"")
            except Exception:
                pytest.fail("swallowed")
            finally:
                with pytest.raises(Crash):
                    storage.delete("b")
        assert storage.calls == [("put_if_absent", "a")]

    def test_an_error_strikes_once(self):
        storage = FaultStorage(MemoryStorage()).fail_at(1, after=True, mode="error")
        with pytest.raises(StorageFailed, match="free space"):
            storage.put_if_absent("a", b"")
        assert not storage.put_if_absent("a", b"")

    def test_a_disk_that_fills_up_in_mid_write_leaves_nothing(self):
        storage = FaultStorage(MemoryStorage(), full_after_bytes=3_000)
        put(storage, "small", bytes(1_000))
        with pytest.raises(StorageFailed, match="free space") as caught, storage.write("big") as sink:
            for _ in range(10):
                sink.write(bytes(400))
        assert caught.value.__cause__.errno == errno.ENOSPC
        with pytest.raises(StorageFailed), storage.write("t") as sink:
            pq.write_table(pa.table({"x": [os.urandom(10_000)]}), sink)
        with pytest.raises(StorageFailed):
            storage.put_if_absent("s", bytes(2_001))
        assert paths(storage) == ("small",)


def _calls(count):
    """A program of so many calls that remembers nothing."""
    return lambda storage: [storage.size(f"p{number}") for number in range(count)]


class TestInterleavings:
    @pytest.mark.parametrize(("m", "n"), [(0, 0), (0, 3), (1, 1), (2, 3), (4, 4), (1, 7)])
    def test_interleavings_are_complete_and_distinct(self, m, n):
        orders = [tuple(step.program for step in run.steps) for run in interleavings(_calls(m), _calls(n), MemoryStorage)]
        assert len(orders) == len(set(orders)) == comb(m + n, n)
        assert all((order.count(0), order.count(1)) == (m, n) for order in orders)

    @pytest.mark.parametrize("switches_max", [0, 1, 2, 3])
    def test_bounded_switches_leave_out_exactly_the_orders_with_more(self, switches_max):
        def switches(order):
            return sum(order[i] != order[i - 1] and order[i - 1] in order[i:] for i in range(1, len(order)))

        expected = {order for order in product((0, 1), repeat=7) if order.count(0) == 3 and switches(order) <= switches_max}
        runs = interleavings(_calls(3), _calls(4), MemoryStorage, switches_max=switches_max)
        orders = [tuple(step.program for step in run.steps) for run in runs]
        assert len(orders) == len(set(orders)) and set(orders) == expected

    def test_exactly_one_of_two_puts_succeeds_in_every_order(self):
        def program(name):
            def run(storage):
                storage.size("s")
                won = storage.put_if_absent("s", name)
                return won, read_bytes(storage, "s")

            return run

        winners = set()
        for run in interleavings(program(b"a"), program(b"b"), MemoryStorage):
            (a, seen_a), (b, seen_b) = run.results
            assert a != b
            assert seen_a == seen_b == read_bytes(run.world, "s") == (b"a" if a else b"b")
            winners.add(a)
        assert winners == {True, False}

    def test_a_lost_update_is_found(self):
        """Read, add, write back: in some order one increment is lost, and only in such where the reads come first."""

        def increment(storage):
            put(storage, "n", bytes([read_bytes(storage, "n")[0] + 1]))

        def world():
            storage = MemoryStorage()
            put(storage, "n", b"\0")
            return storage

        ends = {read_bytes(run.world, "n")[0] for run in interleavings(increment, increment, world)}
        assert ends == {1, 2}
        assert {read_bytes(run.world, "n")[0] for run in interleavings(increment, increment, world, switches_max=0)} == {2}

    def test_a_sink_in_the_making_is_two_calls(self):
        def write(storage):
            put(storage, "f", b"a")

        def look(storage):
            return storage.size("f")

        assert [run.results[1] for run in interleavings(write, look, MemoryStorage)] == [1, None, None]

    def test_a_failing_program_reports_its_schedule(self):
        def check(storage):
            assert storage.size("f") is None

        with pytest.raises(AssertionError, match="program 1 failed under the schedule a: put_if_absent f, b: size f"):
            list(interleavings(lambda storage: storage.put_if_absent("f", b""), check, MemoryStorage))

    def test_more_than_the_limit_is_refused_but_a_sample_is_not(self):
        with pytest.raises(OverflowError, match="more than 19"):
            list(interleavings(_calls(3), _calls(3), MemoryStorage, limit=19))
        assert len(list(interleavings(_calls(3), _calls(3), MemoryStorage, limit=20))) == 20
        assert len(list(islice(interleavings(_calls(9), _calls(9), MemoryStorage), 5))) == 5

    def test_a_hanging_program_is_reported_and_releases_the_other(self):
        gone_on, over = [], Event()
        with pytest.raises(TimeoutError, match="no storage call"):
            one, other = lambda storage: gone_on.append(storage.size("f")), lambda storage: over.wait(5)
            list(interleavings(one, other, MemoryStorage, timeout_s=0.05))
        time.sleep(0.05)
        assert gone_on == [], "the waiting program ends where it stood"
        over.set()

    def test_a_program_of_chance_is_refused(self):
        names = iter("abcdefgh")
        with pytest.raises(AssertionError, match="not deterministic"):
            list(interleavings(lambda storage: (storage.size(next(names)), storage.size("x")), _calls(1), MemoryStorage))


class _Marked(LocalStorage):
    """A storage derived from that of local files, with a field of its own."""

    def __init__(self, root: os.PathLike, mark: str) -> None:
        super().__init__(root)
        self.mark = mark


def test_a_derived_storage_keeps_its_fields_when_it_is_pickled(tmp_path):
    storage = _Marked(tmp_path, "here")
    with storage.write("a/b") as sink:
        sink.write(b"x")
    assert storage.read("a/b").read() == b"x"
    again = pickle.loads(pickle.dumps(storage))
    assert again.mark == "here" and again.read("a/b").read() == b"x"


# --- turns ---


def test_writers_go_one_after_another_through_a_directory_of_the_local_storage(tmp_path):
    storage, inside, seen = LocalStorage(tmp_path), [], []
    put(storage, "t/f", b"")

    def work(number: int) -> None:
        for _ in range(5):
            with storage.turn("t", lambda _: time.sleep(0.01)):
                inside.append(number)
                time.sleep(0.002)
                seen.append(tuple(inside))
                inside.remove(number)

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 20 and all(len(one) == 1 for one in seen)


def test_a_writer_goes_on_without_its_turn_if_another_one_keeps_it(tmp_path):
    storage, slept = LocalStorage(tmp_path), []
    put(storage, "t/f", b"")
    with storage.turn("t", slept.append):
        assert not slept
        with LocalStorage(tmp_path).turn("t", slept.append):
            assert 0.1 < sum(slept) < 1
        with storage.turn("other", slept.append), MemoryStorage().turn("t", slept.append):
            assert sum(slept) < 1, "there is no such directory, and nothing to wait for"


def test_the_turn_of_a_killed_writer_ends(tmp_path):
    storage, context = LocalStorage(tmp_path), multiprocessing.get_context("spawn")
    put(storage, "t/f", b"")
    ours, theirs = context.Pipe()
    holder = context.Process(target=_keep_turn, args=(tmp_path, theirs))
    holder.start()
    assert ours.recv() == "inside"
    holder.kill()
    holder.join()
    slept = []
    with storage.turn("t", slept.append):
        assert not slept


def _keep_turn(folder: os.PathLike, pipe) -> None:
    with LocalStorage(folder).turn("t", time.sleep):
        pipe.send("inside")
        time.sleep(600)
