"""Damaged files: after any bit flip or truncation of any file, a read gives the right answer or an error that names the file;
never a wrong answer or a foreign exception. `verify` reports the damage.

`LSMLAKE_EXAMPLES=20 pytest tests/format/test_damage.py` flips twenty times as many bits.
"""

from __future__ import annotations

import random
import tracemalloc
import zlib
from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa
import pytest
from effort import scaled
from strategies import Shape, contents, copied, filled, lake_on, multiset, new_lake, rows_of, tiny_units

from lsmlake.api.table import Table
from lsmlake.errors import Corrupt, LakeError, StorageFailed, UnsupportedFormat
from lsmlake.schema.envelope import unwrap, unwrap_json, wrap, wrap_json
from lsmlake.storage.memory import MemoryStorage

FLIPS, CUTS = scaled(16), scaled(4)
QUESTIONS = (
    {},
    {"mode": "raw"},
    {"where": "k0 = 3"},
    {"where": "s = 'x' OR d > 1", "columns": ["stamp"]},
    {"columns": ["n"]},
    {"tag": "t"},
)
KINDS = (
    "schema/",
    "snapshot/",
    "manifest/manifest-0",
    "manifest/manifest-list",
    "manifest/index-manifest",
    "index/",
    "bucket-",
    "tag/",
)
JSON = "schema/", "snapshot/", "tag/"


@lru_cache(maxsize=1)
def world() -> MemoryStorage:
    """A small table with everything in it: rows at level 0 and above, deletes, vectors, merged manifests, several row groups."""
    storage, shape = MemoryStorage(), Shape.of("bigint")
    table = shape.create(new_lake(storage), bucket=1, manifest__merge_min_count=2, compaction__tier_runs=3)

    def rows(start: int, stop: int) -> pa.Table:
        return shape.table([shape.row(code, 3 * code + start, 1000 * start + code) for code in range(start, stop)], table.schema)

    with tiny_units(rows=8):
        table.upsert(rows(0, 24), writer_id="w", commit_id=1)
        table.upsert(rows(20, 30))
        table.delete_keys(rows(3, 6).select(["k0"]))
        table.upsert(rows(10, 14))
        table.upsert(rows(22, 34), compact=False)
        table.delete_keys(rows(30, 32).select(["k0"]), compact=False)
    (state,) = table.states().values()
    assert {file.level > 0 for file in state.files} == {True, False}
    assert state.vectors
    table.create_tag("t", 3)
    assert table.verify() == []
    table.meta.snapshots.hint(table.meta.snapshots.latest_id())
    return storage


def table_on(storage: MemoryStorage) -> Table:
    return lake_on(storage, "again-").table("d.t")


@lru_cache(maxsize=1)
def right_answers() -> list:
    return [multiset(rows_of(table_on(world()).scan(**question).to_arrow())) for question in QUESTIONS]


def answers(storage: MemoryStorage) -> Iterator[object]:
    """The rows or the error, for each question; errors that are not ours leave."""
    for question in QUESTIONS:
        try:
            yield multiset(rows_of(table_on(storage).scan(**question).to_arrow()))
        except LakeError as error:
            yield error


def with_file(path: str, data: bytes) -> MemoryStorage:
    storage = copied(world())
    storage.delete(path)
    storage.put_if_absent(path, data)
    return storage


def files_of(kind: str) -> list[tuple[str, bytes]]:
    return [(path, data) for path, data in contents(world()).items() if f"/{kind}" in path and not path.endswith("LATEST")]


def check(path: str, data: bytes) -> list[str]:
    """Ask everything of the table with this file so; returns what `verify` finds."""
    storage = with_file(path, data)
    for found, right in zip(answers(storage), right_answers(), strict=True):
        if isinstance(found, LakeError):
            assert type(found) in (Corrupt, UnsupportedFormat), repr(found)
            assert path in str(found), f"{path} is damaged, the error says: {found}"
            assert found.cure
        else:
            assert found == right
    try:
        return [f"{one.where}: {one.what}" for one in table_on(storage).verify()]
    except LakeError as error:
        return [str(error)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_never_gives_wrong_rows(kind):
    chance, files = random.Random(kind), files_of(kind)
    for _ in range(FLIPS):
        path, data = chance.choice(files)
        damaged, place = bytearray(data), chance.randrange(len(data))
        damaged[place] ^= 1 << chance.randrange(8)
        found = check(path, bytes(damaged))
        assert any(path in finding for finding in found) or harmless(kind, path, bytes(damaged)), (path, place, found)


def harmless(kind: str, path: str, damaged: bytes) -> bool:
    """Blanks between the words of a JSON file, and what a Puffin footer says to others beside what and where its vectors are."""
    before = contents(world())[path]
    if kind in JSON:
        return unwrap_json(kind[:-1], damaged, path) == unwrap_json(kind[:-1], before, path)
    return kind == "index/" and damaged[: before.rindex(b"PFA1{")] == before[: before.rindex(b"PFA1{")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_file_never_gives_wrong_rows(kind):
    chance, files = random.Random(kind), files_of(kind)
    for _ in range(CUTS):
        path, data = chance.choice(files)
        for length in (0, len(data) - 1, chance.randrange(len(data))):
            found = check(path, data[:length])
            assert any(path in finding for finding in found), (path, length)


@pytest.mark.parametrize("kind", KINDS)
def test_extra_bytes_never_give_wrong_rows(kind):
    path, data = files_of(kind)[-1]
    assert any(path in finding for finding in check(path, data + b"\0"))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("schema/", "snapshot/", "tag/")])
def test_a_missing_file_is_named(kind):
    for path, _ in files_of(kind):
        storage = copied(world())
        storage.delete(path)
        for found, right in zip(answers(storage), right_answers(), strict=True):
            if isinstance(found, LakeError):
                assert type(found) is Corrupt
                assert path in str(found)
            else:
                assert found == right
        assert any(path in finding.where + finding.what for finding in table_on(storage).verify())


def test_a_missing_snapshot_in_between_is_a_finding():
    storage = copied(world())
    storage.delete(table_on(storage).meta.paths.snapshot(2))
    assert any("I4: snapshots are not contiguous" in finding.what for finding in table_on(storage).verify())


@pytest.mark.parametrize("kind", ["snapshot/", "bucket-"])
def test_swapped_files_never_give_wrong_rows(kind):
    """Whole and well-formed, but not what was written there."""
    files = files_of(kind)
    for (path, data), (_, other) in zip(files, [*files[1:], files[0]], strict=True):
        if data != other:
            assert any(path in finding for finding in check(path, other))


def future_json(kind: str, data: bytes, path: str) -> bytes:
    return wrap_json(kind, unwrap_json(kind, data, path)).replace(b'"version": 1', b'"version": 9')


def future_binary(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[8:10] = (9).to_bytes(2, "big")
    return bytes(changed[:-4]) + zlib.crc32(changed[:-4]).to_bytes(4, "big")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("index/", "bucket-")])
def test_a_file_of_a_future_version_is_refused_by_name(kind):
    path, data = files_of(kind)[-1]
    future = future_json(kind[:-1], data, path) if kind in JSON else future_binary(data)
    found = list(answers(with_file(path, future)))
    assert all(type(one) is UnsupportedFormat for one in found if isinstance(one, LakeError))
    for error in [one for one in found if isinstance(one, LakeError)]:
        assert path in str(error)
        assert "version 9" in str(error)
        assert "upgrade" in error.cure
    newest = kind != "manifest/manifest-0"  # an older manifest may have been merged into another
    assert not newest or any(isinstance(one, LakeError) for one in found)


def test_the_same_manifest_under_another_kind_is_refused():
    path, data = next(iter(files_of("manifest/manifest-list")))
    other = wrap("MANF", unwrap("MLST", data, path))
    assert any(path in finding for finding in check(path, other))


def test_a_storage_failure_is_not_reported_as_damage():
    """A read the store refuses is not taken for a damaged file."""

    class Refusing(MemoryStorage):
        def read(self, path: str) -> pa.NativeFile:
            if "bucket-" in path:
                raise StorageFailed("cannot read", where=path, found="timed out")
            return super().read(path)

    storage = filled(Refusing(), contents(world()))
    with pytest.raises(StorageFailed, match="timed out"):
        table_on(storage).scan().to_arrow()


def test_the_hint_of_the_latest_snapshot_may_be_anything():
    latest = table_on(world()).meta.snapshots.latest_id()
    path = table_on(world()).meta.paths.latest
    for content in (b"", b"0", b"1", b"99", b"\xff\xfe", b"x" * 100, b"9" * 19, b"1" + b"0" * (32 << 20)):
        table = table_on(with_file(path, content))
        tracemalloc.start()
        assert table.meta.snapshots.latest_id() == latest
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1 << 20


def test_a_data_file_of_another_table_of_the_same_shape_is_refused():
    other, shape = MemoryStorage(), Shape.of("bigint")
    table = shape.create(new_lake(other), bucket=1)
    with tiny_units(rows=8):
        table.upsert(shape.table([shape.row(code, 0, code) for code in range(24)], table.schema))
    (theirs,) = [data for path, data in contents(other).items() if "/bucket-" in path]
    path, _ = files_of("bucket-")[0]
    assert any(path in finding for finding in check(path, theirs))
