"""The contract of a storage as tests. A backend's tests subclass `StorageContract` and provide the fixture `storage`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from lsmlake.errors import InvalidQuery, StorageFailed
from lsmlake.storage.local import LocalStorage
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage, read_bytes

NAMES = [
    "plain",
    "dt=2026-01-01/bucket-0/data-1.parquet",
    "city=Málaga/名前/файл",
    "with space/a b.txt",
    "odd/100%25/a#b?c&d+e'f\"g;h[1]{2}*",
    ".hidden",
    "deep/" + "x/" * 20 + "leaf",
]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "fail", "put", "delete"]), st.sampled_from(["a/1", "a/2", "a-/1", "b"]), st.binary(max_size=4)
    ),
    max_size=12,
)


def put(storage: Storage, path: str, data: bytes) -> None:
    with storage.write(path) as sink:
        sink.write(data)


def paths(storage: Storage, prefix: str = "") -> tuple[str, ...]:
    return tuple(entry.path for entry in storage.list(prefix))


class StorageContract:
    @pytest.fixture
    def storage(self) -> Iterator[Storage]:
        raise NotImplementedError("a backend's test class gives its storage")

    @pytest.mark.parametrize("name", NAMES)
    def test_what_was_written_is_read_listed_and_sized(self, storage, name):
        put(storage, name, b"content")
        assert read_bytes(storage, name) == b"content"
        assert storage.size(name) == 7
        (entry,) = storage.list("")
        assert (entry.path, entry.size) == (name, 7)
        assert entry.modified_ms > 1_600_000_000_000

    @pytest.mark.parametrize("name", NAMES)
    def test_what_was_put_is_read_listed_and_sized(self, storage, name):
        assert storage.put_if_absent(name, b"content")
        assert read_bytes(storage, name) == b"content"
        assert storage.size(name) == 7
        assert paths(storage) == (name,)

    @pytest.mark.parametrize("name", ["", "/etc/x", "../x", "a/../../x", "a//b", "a/", "./a", "a/.tmp-1", "a\0b"])
    def test_a_path_that_leaves_the_storage_is_refused(self, storage, name):
        for verb in (
            storage.read,
            storage.size,
            storage.delete,
            lambda path: put(storage, path, b""),
            lambda path: storage.put_if_absent(path, b""),
        ):
            with pytest.raises(InvalidQuery):
                verb(name)
        assert paths(storage) == ()

    def test_a_file_is_read_from_any_position(self, storage):
        put(storage, "f", bytes(range(200)))
        with storage.read("f") as file:
            assert file.size() == 200
            file.seek(100)
            assert file.read(3) == bytes([100, 101, 102])
            assert file.read_at(2, 5) == bytes([5, 6])

    def test_small_files_are_read_together(self, storage):
        for name in ("a/1", "a/2", "b"):
            put(storage, name, name.encode())
        assert storage.contents(["a/2", "a/1", "a/3", "b", "a", "c/1"]) == [b"a/2", b"a/1", None, b"b", None, None]
        assert storage.contents(["a/1", "a/3"]) == [b"a/1", None]
        assert storage.contents([]) == []
        with pytest.raises(InvalidQuery):
            storage.contents(["a/1", "a/.."])

    def test_readers_of_one_file_do_not_disturb_each_other(self, storage):
        put(storage, "f", b"abcdef")
        with storage.read("f") as one, storage.read("f") as other:
            assert (one.read(2), other.read(3), one.read(2)) == (b"ab", b"abc", b"cd")

    def test_empty_files_are_files(self, storage):
        put(storage, "written", b"")
        assert storage.put_if_absent("put", b"")
        assert [(entry.path, entry.size) for entry in storage.list("")] == [("put", 0), ("written", 0)]
        assert read_bytes(storage, "put") == read_bytes(storage, "written") == b""

    def test_parquet_is_written_through_sink_and_file(self, storage):
        table = pa.table({"k": np.arange(10_000), "v": np.arange(10_000) * 0.5})
        with storage.write("t/data.parquet") as sink, pq.ParquetWriter(sink, table.schema) as writer:
            writer.write_table(table, row_group_size=1_000)
        with storage.read("t/data.parquet") as file:
            assert pq.ParquetFile(file).read_row_group(3).equals(table.slice(3_000, 1_000))

    def test_a_sink_may_be_closed_inside_its_context(self, storage):
        with storage.write("f") as sink:
            sink.write(b"all")
            sink.close()
        assert read_bytes(storage, "f") == b"all"

    def test_nothing_is_visible_before_the_sink_is_left(self, storage):
        with storage.write("d/f") as sink:
            sink.write(b"x" * 100_000)
            sink.flush()
            assert storage.size("d/f") is None
            assert paths(storage) == ()
            with pytest.raises(FileNotFoundError):
                storage.read("d/f")
        assert storage.size("d/f") == 100_000

    @pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, FileNotFoundError, InvalidQuery("no")])
    def test_a_sink_left_by_an_exception_leaves_nothing(self, storage, failure):
        kind = failure if isinstance(failure, type) else type(failure)
        with pytest.raises(kind), storage.write("d/f") as sink:
            sink.write(b"half")
            raise failure
        assert storage.size("d/f") is None
        assert paths(storage) == ()

    def test_a_sink_left_by_an_exception_leaves_the_old_file(self, storage):
        put(storage, "f", b"old")
        with pytest.raises(ZeroDivisionError), storage.write("f") as sink:
            sink.write(b"new")
            raise ZeroDivisionError
        assert read_bytes(storage, "f") == b"old"

    def test_an_oserror_in_the_sinks_body_becomes_storage_failed(self, storage):
        with pytest.raises(StorageFailed) as caught, storage.write("f"):
            raise OSError(28, "no space left")
        assert isinstance(caught.value.__cause__, OSError)
        assert "free space" in str(caught.value)
        assert paths(storage) == ()

    def test_write_replaces_and_a_reader_keeps_what_it_opened(self, storage):
        put(storage, "f", b"old")
        with storage.read("f") as file:
            put(storage, "f", b"newer")
            assert file.read() == b"old"
        assert read_bytes(storage, "f") == b"newer"

    def test_put_if_absent_keeps_the_first_content(self, storage):
        assert storage.put_if_absent("s/1", b"first")
        assert not storage.put_if_absent("s/1", b"second")
        assert read_bytes(storage, "s/1") == b"first"
        put(storage, "s/2", b"written")
        assert not storage.put_if_absent("s/2", b"put")
        assert read_bytes(storage, "s/2") == b"written"
        assert paths(storage) == ("s/1", "s/2")

    def test_put_if_absent_after_delete_creates_again(self, storage):
        assert storage.put_if_absent("f", b"1")
        storage.delete("f")
        assert storage.put_if_absent("f", b"2")

    def test_of_many_threads_exactly_one_puts(self, storage):
        def race(round_and_number):
            path, number = round_and_number
            return storage.put_if_absent(path, number.to_bytes(2, "big") * 500)

        tries = [(f"race/{turn}", number) for turn in range(8) for number in range(16)]
        with ThreadPoolExecutor(16) as pool:
            won = list(pool.map(race, tries))
        for turn in range(8):
            (winner,) = [number for (path, number), first in zip(tries, won, strict=True) if first and path == f"race/{turn}"]
            assert read_bytes(storage, f"race/{turn}") == winner.to_bytes(2, "big") * 500
        assert len(paths(storage)) == 8

    def test_a_reader_never_sees_a_partial_file_of_racing_writers(self, storage):
        put(storage, "f", b"\0" * 50_000)

        def write(number):
            put(storage, "f", bytes([number]) * 50_000)

        with ThreadPoolExecutor(4) as pool:
            writes = [pool.submit(write, number) for number in range(1, 21)]
            while not all(done.done() for done in writes):
                seen = read_bytes(storage, "f")
                assert len(seen) == 50_000 and len(set(seen)) == 1
        assert paths(storage) == ("f",)

    def test_listing_is_sorted_by_path_and_recursive(self, storage):
        names = ["a", "a-b", "a.b/c", "a0", "b/a/x", "b/a-x", "b/a0/x", "b/z", "ä", "z"]
        for name in reversed(names):
            put(storage, name, b"")
        assert paths(storage) == tuple(sorted(names))
        assert paths(storage, "b") == ("b/a-x", "b/a/x", "b/a0/x", "b/z")
        assert paths(storage, "b/a") == ("b/a/x",)

    def test_listing_takes_a_directory_not_a_part_of_a_name(self, storage):
        put(storage, "snapshot/1", b"")
        put(storage, "snapshots/2", b"")
        assert paths(storage, "snapshot") == ("snapshot/1",)
        assert paths(storage, "snap") == paths(storage, "nothing/here") == paths(storage, "snapshot/1") == ()

    def test_folders_are_the_directories_right_below(self, storage):
        for name in ("file", "b/c/d/x", "b/x", "a-b/x", "a/x", "ä b=1/x"):
            put(storage, name, b"")
        assert tuple(storage.folders("")) == ("a", "a-b", "b", "ä b=1")
        assert tuple(storage.folders("b")) == ("c",)
        assert tuple(storage.folders("b/c/d")) == tuple(storage.folders("nothing")) == tuple(storage.folders("file")) == ()

    def test_many_files_are_deleted_and_those_that_do_not_exist_ignored(self, storage):
        for name in ("a/1", "a/2", "b"):
            put(storage, name, b"")
        storage.delete_all(["a/2", "nothing", "b"])
        storage.delete_all([])
        assert paths(storage) == ("a/1",)

    def test_a_file_is_copied_over_another(self, storage):
        put(storage, "a/1", b"content")
        put(storage, "b", b"old")
        storage.copy("a/1", "b")
        storage.copy("a/1", "c/d")
        assert {path: read_bytes(storage, path) for path in paths(storage)} == dict.fromkeys(("a/1", "b", "c/d"), b"content")
        with pytest.raises(FileNotFoundError):
            storage.copy("nothing", "b")

    @pytest.mark.parametrize("link", [True, False])
    def test_a_file_of_another_storage_is_brought(self, storage, tmp_path, link):
        others = [MemoryStorage(), LocalStorage(tmp_path / "other"), storage]
        for number, other in enumerate(others):
            put(other, "deep/there", b"content" * number)
            storage.bring(other, "deep/there", f"here/{number}", link=link)
            other.delete("deep/there")
            assert read_bytes(storage, f"here/{number}") == b"content" * number
            with pytest.raises(FileNotFoundError):
                storage.bring(other, "missing", "here/nothing", link=link)
        assert paths(storage) == ("here/0", "here/1", "here/2")

    @pytest.mark.parametrize("size", [1, 100, 100_000])
    def test_a_file_is_read_from_its_end(self, storage, size):
        data = np.random.default_rng(size).bytes(size)
        put(storage, "f", data)
        for length in (1, 50, 200_000):
            with storage.read_from_end("f", size, length) as file:
                assert file.size() == size
                file.seek(max(0, size - length))
                assert file.read() == data[-length:]
                assert file.read_at(size, 0) == data
        with pytest.raises(FileNotFoundError):
            storage.read_from_end("nothing", 5, 1)

    def test_the_ends_of_many_files_are_read(self, storage):
        data = np.random.default_rng(1).bytes(100_000)
        sizes = {"a/f": 100_000, "a/g": 70, "b/empty": 0}
        for path, size in sizes.items():
            put(storage, path, data[:size])
        for length in (1, 50, 200_000):
            asked = [(path, length) for path in [*sizes, "a/nothing", "nothing/f"]]
            expected = [(size, data[:size][-length:]) for size in sizes.values()]
            assert storage.endings(asked) == [*expected, None, None]

    @pytest.mark.parametrize("expected", [1, 5_000_000])
    def test_a_file_of_another_size_than_expected_has_its_own(self, storage, expected):
        for data in (b"", bytes(300)):
            put(storage, "f", data)
            with storage.read_from_end("f", expected, 100) as file:
                assert (file.size(), file.read()) == (len(data), data)

    def test_directories_without_files_are_pruned_and_others_are_not(self, storage):
        for name in ("t/a/x", "t/b/c/y", "u/z"):
            put(storage, name, b"")
        storage.delete("t/b/c/y")
        storage.prune("t")
        assert tuple(storage.folders("t")) == ("a",)
        storage.delete("t/a/x")
        storage.prune("t")
        storage.prune("nothing")
        assert tuple(storage.folders("")) == ("u",)
        assert paths(storage) == ("u/z",)

    def test_files_are_written_while_their_directory_is_pruned(self, storage):
        with ThreadPoolExecutor(4) as pool:
            writes = [pool.submit(put, storage, f"t/a/b/{number % 3}", b"x") for number in range(60)]
            while not all(done.done() for done in writes):
                storage.delete("t/a/b/0")
                storage.prune("t")
        assert [done.exception() for done in writes if done.exception()] == []

    def test_files_may_be_deleted_during_a_listing(self, storage):
        for number in range(5):
            put(storage, f"d{number}/f", b"")
        for entry in storage.list(""):
            storage.delete(entry.path)
        assert paths(storage) == ()

    def test_what_is_absent(self, storage):
        put(storage, "d/f", b"")
        for name in ("nothing", "d", "d/nothing", "d/f/below"):
            assert storage.size(name) is None
            with pytest.raises(FileNotFoundError, match=name):
                storage.read(name)
        for name in ("nothing", "d/nothing", "d/f/below"):
            storage.delete(name)
        assert paths(storage) == ("d/f",)

    def test_a_storage_is_a_dictionary(self, storage):
        roots = map(str, count())

        @examples(40)
        @given(STEPS)
        def behaves_like_one(steps):
            root, model = next(roots), {}
            for verb, name, data in steps:
                _apply(verb, f"{root}/{name}", data, storage, model)
            listed = {entry.path: entry.size for entry in storage.list(root)}
            assert listed == {path: len(data) for path, data in model.items()}
            assert list(listed) == sorted(model)
            assert {path: read_bytes(storage, path) for path in listed} == model

        behaves_like_one()


class MovingContract(StorageContract):
    """The contract of a storage that can rename directories."""

    def test_a_directory_moves_with_everything_in_it(self, storage):
        for name in ("a/t/schema/0", "a/t/b/c", "a/t-2/x", "b/x"):
            put(storage, name, name.encode())
        assert storage.move("a/t", "b/u")
        assert paths(storage) == ("a/t-2/x", "b/u/b/c", "b/u/schema/0", "b/x")
        assert read_bytes(storage, "b/u/b/c") == b"a/t/b/c"
        assert storage.move("b/u", "new/parent/u")
        assert paths(storage, "new") == ("new/parent/u/b/c", "new/parent/u/schema/0")
        put(storage, "b/u/again", b"")
        assert storage.move("b/u", "a/t"), "a directory whose files are gone is no obstacle"
        assert paths(storage, "a/t") == ("a/t/again",)

    def test_a_directory_does_not_move_onto_another_or_from_nowhere(self, storage):
        for name in ("a/t/x", "a/u/y"):
            put(storage, name, b"")
        for source, target in [("a/t", "a/u"), ("nothing", "a/v"), ("a/t/x", "a/v"), ("a/t", "a/t")]:
            assert not storage.move(source, target)
        assert paths(storage) == ("a/t/x", "a/u/y")
        with pytest.raises(InvalidQuery):
            storage.move("a/t", "../t")

    def test_of_many_threads_exactly_one_moves(self, storage):
        put(storage, "t/deep/x", b"")
        with ThreadPoolExecutor(8) as pool:
            moved = list(pool.map(lambda number: storage.move("t", f"u{number}"), range(8)))
        assert paths(storage) == (f"u{moved.index(True)}/deep/x",)
        assert moved.count(True) == 1


def _apply(verb: str, path: str, data: bytes, storage: Storage, model: dict[str, bytes]) -> None:
    if verb == "write":
        put(storage, path, data)
        model[path] = data
    elif verb == "fail":
        with pytest.raises(ZeroDivisionError), storage.write(path) as sink:
            sink.write(data)
            raise ZeroDivisionError
    elif verb == "put":
        assert storage.put_if_absent(path, data) == (path not in model)
        model.setdefault(path, data)
    else:
        storage.delete(path)
        model.pop(path, None)
