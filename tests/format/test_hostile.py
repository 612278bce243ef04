"""Hostile tables: whoever forges metadata, with right checksums, or puts symbolic links into a table, reaches no file outside the
folder of the table, neither by reading nor by writing nor by deleting.

`LSMLAKE_EXAMPLES=20 pytest tests/format/test_hostile.py` tries every name in every place.
"""

from __future__ import annotations

import copy
import os
import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import msgpack
import pyarrow as pa
import pytest
from effort import scaled
from faults import HookedStorage
from strategies import contents, fake_env, holding, lake_on, new_lake
from test_forged import closed, opened, verbs

import lsmlake
from lsmlake.api.table import Table
from lsmlake.errors import Corrupt, InternalError, LakeError, StorageFailed, UnsupportedFormat
from lsmlake.format import branch, deletion_vector, file_index, manifest, manifest_codec, puffin, snapshot, statistics, tag
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.paths import TablePaths
from lsmlake.schema.envelope import wrap, wrap_json
from lsmlake.schema.schema import Schema
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage
from lsmlake.tables.consumers import Progress, progress_of
from lsmlake.tables.metadata import Metadata
from lsmlake.tables.table_files import TableFiles

NAMES = (
    *("../../e.db/u/data.parquet", "../x", "..", ".", "", "/etc/passwd", "//x", "a/../../x", "bucket-0/../..", "./x"),
    *("s3://other/x", "file:///etc/passwd", "file:/../x", "C:\\x", "..\\..\\x", "a\0b", "a\nb", "%2e%2e/x", "%2e%2e%2fx", "~/x"),
    *(".tmp-x", ".tmp-x/bucket-0", "schema", "snapshot/0000", "x" * 10_000, "\u202e", "\ud800", "ｅ..／x"),
)


def world() -> MemoryStorage:
    """A table with all kinds of files, beside another one."""
    storage = MemoryStorage()
    lake = new_lake(storage)
    lake.create_database("e")
    lake.create_table("e.u", "k BIGINT", primary_key=["k"]).upsert({"k": [1]})
    made = lake.create_table(
        "d.t",
        "k BIGINT, p STRING",
        primary_key=["k", "p"],
        partition_by=["p"],
        options={
            "bucket": 1,
            "changelog-producer": "input",
            "snapshot.num-retained.min": 1,
            "file-index.bloom-filter.columns": "k",
            "file-index.in-manifest-threshold": "1 b",
        },
    )
    made.upsert({"k": range(9), "p": ["a"] * 9})
    made.create_tag("tag", retain="1 d")
    made.upsert({"k": range(4), "p": ["a"] * 4})
    made.create_branch("side").delete_keys({"k": [5], "p": ["a"]})
    made.analyze()
    made.delete_keys({"k": [7], "p": ["a"]})
    next(made.follow(consumer="c"))
    return storage


WORLD = contents(world())


def kind_of_file(data: bytes) -> str | None:
    """The kind of a metadata file, by its envelope."""
    if data.startswith(b"LSMK"):
        return data[4:8].decode()
    text = data[:200].decode(errors="replace")
    return text.partition('"lsmlake-')[2].partition('"')[0] or None if data.startswith(b"{") else None


def places_of(content: object, kinds: type | tuple[type, ...], path: tuple = ()) -> Iterator[tuple]:
    """The places of all values of some kinds in an object."""
    if isinstance(content, kinds):
        yield path
    elif isinstance(content, dict):
        for name, value in content.items():
            yield from places_of(value, kinds, (*path, name))
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from places_of(value, kinds, (*path, number))


def replaced(content: object, place: tuple, value: object) -> object:
    made = copy.deepcopy(content)
    inside = made
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = value
    return made


class Watched(HookedStorage):
    """Refuses nothing, and notes every path outside the folder of the table and what is beside it in its database."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.outside: list[tuple[str, str]] = []

    @contextmanager
    def around(self, verb: str, path: str) -> Iterator[None]:
        parts = path.split("/")
        inside = path == "" or parts[:2] == ["d.db", "t"] or path in ("d.db", "d.db/database.json")
        if not inside or any(part in ("", ".", "..") or "\0" in part for part in parts if path):
            self.outside.append((verb, path))
        yield


def more_verbs(table: Callable[[], Table]) -> list[Callable[[], object]]:
    return [
        *verbs(table),
        lambda: table().upsert({"k": [1], "p": ["b"]}),
        lambda: table().branch("side").scan().to_arrow(),
        lambda: table().branch("side").compact(full=True),
        lambda: table().fast_forward("side"),
        lambda: table().delete_tag("tag"),
        lambda: table().delete_branch("side"),
        lambda: table().rollback(1, cut=True),
        lambda: [table().tags(), table().branches(), table().consumers(), table().system_table("statistics")],
        lambda: list(table().follow(consumer="c")),
        lambda: table().expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01"),
        lambda: table().remove_orphan_files("2100-01-01"),
        lambda: table().copy("memory://hostile"),
        lambda: lake_on(table().meta.env.storage, "drop-").drop_table("d.t"),
    ]


@pytest.mark.parametrize("kind", sorted({"schema", "snapshot", "tag", "branch", "MANF", "MLST", "INDX"}))
def test_no_name_in_metadata_leads_out_of_the_table(kind):
    chance = random.Random(kind)
    files = [(path, data) for path, data in WORLD.items() if path.startswith("d.db/t/") and kind_of_file(data) == kind]
    places = [(path, place) for path, data in files for place in places_of(opened(kind, data, path), str)]
    read = TableFiles.read
    with patch.object(TableFiles, "read", lambda files, path, length: read(files, path, None)):  # as if sizes were forged, too
        for _ in range(scaled(2)):
            path, place = chance.choice(places)
            name = chance.choice(NAMES)
            content = replaced(opened(kind, WORLD[path], path), place, name)
            try:
                forged = {**WORLD, path: closed(kind, content)}
            except UnicodeEncodeError:  # msgpack has no surrogates
                continue
            for number in range(len(more_verbs(lambda: None))):
                storage = Watched(holding(forged))
                handle = lambda: lake_on(storage, "again-").table("d.t")  # noqa: B023, E731
                try:
                    more_verbs(handle)[number]()
                except LakeError as error:
                    assert not isinstance(error, InternalError), (path, place, name, error)
                assert storage.outside == [], (path, place, name)
                beside = contents(storage.inner, "e.db")
                assert beside == {one: data for one, data in WORLD.items() if one.startswith("e.db/")}


PATHS = (
    "",
    "/",
    "..",
    "a/..",
    "../a",
    "a//b",
    "/etc",
    "./a",
    "s3://other",
    "file:///etc",
    "a\\..\\b",
    "C:\\x",
    "a\0b",
    "a\nb",
    ".tmp-x",
)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("name", (*PATHS, "a/b", "x" * 300, ".hidden", "ü")),
        (
            "directory",
            (*PATHS, *(f"{path}/bucket-0" for path in PATHS), "schema", "snapshot/0000", "bucket-", "bucket-0/", "bucket-x"),
        ),
    ],
)
def test_directories_and_names_of_data_files_stay_in_the_table(column, values):
    path, data = next((path, data) for path, data in WORLD.items() if kind_of_file(data) == "MANF")
    content = opened("MANF", data, path)
    (stored,) = [one["values"] for one in content["columns"] if one["name"] == column]
    for stored[0] in values:
        with pytest.raises(Corrupt, match=column):
            manifest_codec.decode(closed("MANF", content), path)


@pytest.fixture
def linked(tmp_path: Path) -> tuple[Path, Path]:
    """The folder of a table on disk, and another folder."""
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("d")
    made = lake.create_table("d.t", "k BIGINT, v STRING", primary_key=["k"], options={"bucket": 1})
    made.upsert({"k": range(9), "v": ["x"] * 9})
    made.delete_keys({"k": [1]})
    (tmp_path / "precious").mkdir()
    return tmp_path / "lake/d.db/t", tmp_path / "precious"


@pytest.mark.parametrize("what", ["bucket-0", "manifest", "index", "snapshot", "schema"])
def test_a_folder_that_is_a_link_is_refused_by_every_reader(linked, what, tmp_path):
    root, precious = linked
    os.rename(root / what, precious / what)
    (root / what).symlink_to(precious / what)
    before = {path: path.read_bytes() for path in precious.rglob("*") if path.is_file()}
    lake = lsmlake.connect(tmp_path / "lake")
    for verb in (
        lambda: lake.table("d.t").scan().to_arrow(),
        lambda: lake.sql("SELECT count(v), max(k) FROM d.t"),
        lambda: lake.table("d.t").compact(full=True),
        lambda: lake.table("d.t").expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01"),
        lambda: lake.table("d.t").remove_orphan_files("2100-01-01"),
        lambda: lake.table("d.t").copy(tmp_path / "copy"),
        lambda: lake.table("d.t").upsert({"k": [1], "v": ["z"]}),
    ):
        try:
            verb()
        except (StorageFailed, Corrupt) as refused:
            assert "symbolic link" in str(refused) or "missing" in str(refused)
    assert {path: path.read_bytes() for path in precious.rglob("*") if path.is_file()} == before


def test_files_that_are_links_are_not_read_and_their_targets_stay(linked, tmp_path):
    root, precious = linked
    for path in list(root.rglob("*.parquet")):
        os.rename(path, precious / path.name)
        path.symlink_to(precious / path.name)
    before = {path: path.read_bytes() for path in precious.iterdir()}
    lake = lsmlake.connect(tmp_path / "lake")
    for verb in (lake.table("d.t").scan().to_arrow, lambda: lake.sql("SELECT sum(k) FROM d.t WHERE v > 'a'")):
        with pytest.raises((Corrupt, StorageFailed)):
            verb()
    lake.drop_table("d.t")
    assert {path: path.read_bytes() for path in precious.iterdir()} == before


# -- decoders, under right checksums, in bounded memory ---------------------------------------------------------------

DECODERS: dict[str, Callable[[bytes], object]] = {
    "schema": lambda data: Schema.decode(data, "x"),
    "snapshot": lambda data: snapshot.Snapshot.decode(data, "x"),
    "tag": lambda data: tag.Tag.decode(data, "x"),
    "branch": lambda data: branch.BranchInfo.decode(data, "x"),
    "branch-work": lambda data: branch.BranchWork.decode(data, "x"),
    "consumer": lambda data: progress_in(data),
    "statistics": lambda data: statistics.TableStatistics.decode(data, "x"),
    "MANF": lambda data: manifest_codec.decode(data, "x"),
    "MLST": lambda data: manifest.decode_list(data, "x"),
    "INDX": lambda data: deletion_vector.decode_index(data, "x"),
    "FIDX": lambda data: file_index.decode(data, 9, "x"),
}
MEMORY_MAX = 160 << 20
WORK = branch.BranchWork(branch.RENAME, None, "old", "new")


def progress_in(data: bytes) -> object:
    storage = MemoryStorage()
    meta = Metadata.of(fake_env(storage), TablePaths("d.db/t", "u"))
    storage.put_if_absent(meta.paths.consumer("c"), data)
    return progress_of(meta, "c") or Progress(0)


def file_of(kind: str) -> tuple[str, bytes]:
    """The shortest file of a kind."""
    if kind == "branch-work":
        return "x", WORK.encode()
    return min(((path, data) for path, data in WORLD.items() if kind_of_file(data) == kind), key=lambda one: len(one[1]))


@pytest.mark.parametrize("kind", DECODERS)
def test_every_flipped_byte_and_every_cut_of_metadata_is_noticed(kind):
    """Or it is harmless: a blank of a JSON file that is another blank now."""
    _, data = file_of(kind)
    right = DECODERS[kind](data)
    for place in range(len(data)):
        damaged = data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]
        try:
            found = DECODERS[kind](damaged)
        except (Corrupt, UnsupportedFormat):
            continue
        assert (found, damaged.split()) == (right, data.split()) and kind.islower(), place
    for length in range(len(data)):
        with pytest.raises(Corrupt):
            DECODERS[kind](data[:length])


def test_every_flipped_byte_of_a_vector_is_noticed():
    path, data = next((path, data) for path, data in WORLD.items() if path.endswith(".puffin"))
    for name, blob in puffin.decode_footer(data, path).items():
        body = data[blob.offset : blob.offset + blob.length]
        for place in range(len(body)):
            for bit in range(8):
                with pytest.raises(Corrupt):
                    DeletionVector.decode(body[:place] + bytes([body[place] ^ 1 << bit]) + body[place + 1 :], name)


def bombs(kind: str) -> Iterator[bytes]:
    """Files of this kind that claim or unpack to far more than they are."""
    if kind.islower():
        yield wrap_json(kind, {"x": "y" * 1_000_000})
        yield b'{"format": "lsmlake-%s", "version": 1, "x": %s}' % (kind.encode(), b"[" * 100_000 + b"]" * 100_000)
        yield b'{"format": "lsmlake-%s", "version": 1, "x": %s}' % (kind.encode(), b"9" * 100_000)
        yield b'{"format": "lsmlake-%s", "version": 1, "x": 1e999999999}' % kind.encode()
        return
    for raw in (
        bytes(64 << 20),
        b"\x91" * (1 << 20),  # lists in lists
        b"\x81\xa1x" * (1 << 18),  # objects in objects
        b"\xdd\xff\xff\xff\xff",  # a list of 2^32 - 1 items, without them
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff" + b"x" * 100,
        b"\xc9\xff\xff\xff\xff\x01",
        msgpack.packb({"rows": 1 << 40, "columns": []}),
        msgpack.packb({"rows": 1, "columns": [{"name": "kind", "type": "DECIMAL(38,38)", "values": ["1e999999999"]}]}),
        msgpack.packb({"rows": 1, "columns": [{"name": "x", "type": "STRUCT<" * 5_000, "values": [1]}]}),
        msgpack.packb({"bloom_filters": [{"id": 1, "family": "x", "probes": 64, "bits": b""}], "values": []}),
    ):
        packed = pa.Codec("zstd").compress(raw, asbytes=True)
        for size in (len(raw), len(raw) + 1, 1 << 33, (1 << 64) - 1):
            yield wrap(kind, size.to_bytes(8, "big") + packed)
        yield wrap(kind, len(raw).to_bytes(8, "big") + packed[:-3])


@pytest.mark.parametrize("kind", DECODERS)
def test_a_decoder_answers_bombs_by_errors_within_bounds(kind):
    for data in bombs(kind):
        tracemalloc.start()
        before = pa.total_allocated_bytes()
        try:
            with pytest.raises((Corrupt, UnsupportedFormat)):
                DECODERS[kind](data)
            assert tracemalloc.get_traced_memory()[1] < MEMORY_MAX
            assert pa.total_allocated_bytes() - before < MEMORY_MAX
        finally:
            tracemalloc.stop()


NUMBERS = (-1, 0, 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 1e308, True)


@pytest.mark.parametrize("kind", [kind for kind in DECODERS if kind != "FIDX"])
def test_a_decoder_answers_forged_lengths_counts_and_offsets_by_errors_or_values(kind):
    """Each number of a file, and the length of each list, is replaced in turn; no foreign error, no memory."""
    chance = random.Random(kind)
    path, data = file_of(kind)
    content = opened(kind, data, path)
    DECODERS[kind](data)
    places = list(places_of(content, (int, float)))
    for place in chance.sample(places, min(len(places), scaled(40))):
        for value in chance.sample(NUMBERS, 4):
            try:
                forged = closed(kind, replaced(content, place, value))
            except OverflowError:
                continue
            with suppress(Corrupt, UnsupportedFormat):
                DECODERS[kind](forged)


def test_puffin_footers_are_answered_by_errors_or_values():
    path, data = next((path, data) for path, data in WORLD.items() if path.endswith(".puffin"))
    start = data.rindex(b"PFA1{")
    for place in range(start, len(data)):
        for byte in (0, 0x7F, 0xFF, ord("9"), ord("-"), ord("[")):
            damaged = data[:place] + bytes([byte]) + data[place + 1 :]
            with suppress(Corrupt, UnsupportedFormat):
                puffin.decode(damaged, path)
