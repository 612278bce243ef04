"""A second reader of tables, written from FORMAT.md with loops and dictionaries. It shares no code with the library.

Tests use it as their oracle: which files a snapshot names, at which level, which of their rows are dead, and which bucket a row
belongs to. Values of data files are read by pyarrow.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterable
from decimal import Context, Decimal
from functools import cached_property
from typing import NamedTuple

import msgpack
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

EXACT = Context(prec=60)
MASK = 0xFFFFFFFF
_OWN = ("_row_kind", "_lsmlake_row_address")
"""Columns of data files that are not those of the user."""

# --- Spark's hash: Murmur3, one value at a time, in unbounded integers ---


def rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & MASK


def stir(seed: int, word: int) -> int:
    word = rotate((word & MASK) * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    return (rotate(seed ^ word, 13) * 5 + 0xE6546B64) & MASK


def finish(seed: int, length: int) -> int:
    seed ^= length
    seed = (seed ^ seed >> 16) * 0x85EBCA6B & MASK
    seed = (seed ^ seed >> 13) * 0xC2B2AE35 & MASK
    return seed ^ seed >> 16


def hash_int(value: int, seed: int) -> int:
    return finish(stir(seed, value), 4)


def hash_long(value: int, seed: int) -> int:
    return finish(stir(stir(seed, value), value >> 32), 8)


def hash_bytes(value: bytes, seed: int) -> int:
    aligned = len(value) // 4 * 4
    for i in range(0, aligned, 4):
        seed = stir(seed, int.from_bytes(value[i : i + 4], "little"))
    for byte in value[aligned:]:
        seed = stir(seed, byte - 256 if byte > 127 else byte)
    return finish(seed, len(value))


def java_bytes(value: int) -> bytes:
    """The bytes of Java's BigInteger.toByteArray."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


def ieee_bits(value: float, letter: str) -> int:
    value = math.nan if math.isnan(value) else value + 0.0
    return int.from_bytes(struct.pack(f"<{letter}", value), "little")


def hash_value(value: object, type: pa.DataType, seed: int) -> int:
    """Dates and times are given as integers."""
    if value is None:
        return seed
    if pa.types.is_boolean(type) or type in (pa.int8(), pa.int16(), pa.int32(), pa.date32()):
        return hash_int(int(value), seed)
    if pa.types.is_float32(type):
        return hash_int(ieee_bits(value, "f"), seed)
    if pa.types.is_float64(type):
        return hash_long(ieee_bits(value, "d"), seed)
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(type.scale, EXACT))
        return hash_long(unscaled, seed) if type.precision <= 18 else hash_bytes(java_bytes(unscaled), seed)
    if isinstance(value, str | bytes):
        return hash_bytes(value.encode() if isinstance(value, str) else value, seed)
    return hash_long(value * 1000 if pa.types.is_time(type) else value, seed)


def hash_row(values: Iterable[object], types: Iterable[pa.DataType]) -> int:
    seed = 42
    for value, type in zip(values, types, strict=True):
        seed = hash_value(value, type, seed)
    return seed - (1 << 32) if seed >> 31 else seed


def buckets_of(columns: list[pa.ChunkedArray], count: int) -> list[int]:
    """The bucket of each row, from its bucket key."""
    longs = pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.time64("us")
    as_numbers = {pa.date32(): pa.int32(), **dict.fromkeys(longs, pa.int64())}
    types = [column.type for column in columns]
    values = [column.cast(as_numbers.get(column.type, column.type)).to_pylist() for column in columns]
    return [hash_row(row, types) % count for row in zip(*values, strict=True)]


# --- tables ---


class File(NamedTuple):
    """A live data file of a snapshot; `sequence` and `min_sequence` as inherited."""

    path: str
    partition: tuple
    bucket: int
    total_buckets: int
    level: int
    sequence: int
    min_sequence: int
    rows: int
    dead: BitMap64
    index: tuple[str, ...] = ()
    """The path of its index file, if it has one."""
    source: str = ""

    @property
    def place(self) -> tuple:
        return self.partition, self.bucket


class NaiveTable:
    """The table below `root` of a storage; `branch`: the snapshots are those of this branch. Immutable files are read once."""

    def __init__(self, storage, root: str, branch: str = "") -> None:
        self.storage, self.root, self.branch = storage, root, branch
        self._known: dict[object, object] = {}

    def _bytes(self, path: str) -> bytes:
        with self.storage.read(path) as source:
            return bytes(source.read())

    def _once(self, key: object, make) -> object:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _json(self, data: bytes, kind: str) -> dict:
        content = json.loads(data)
        checksum = content.pop("checksum")
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert checksum == f"{zlib.crc32(text.encode()):08x}"
        version = 1 if kind != "schema" else 4 if "view" in content else 3 if '"type":"TIME"' in text else 1
        assert (content["format"], content["version"]) == (f"lsmlake-{kind}", version)
        return content

    def _binary(self, path: str, kind: bytes) -> dict:
        def read() -> dict:
            data = self._bytes(path)
            assert data[:10] == b"LSMK" + kind + b"\0\1"
            assert int.from_bytes(data[-4:], "big") == zlib.crc32(data[:-4])
            size = int.from_bytes(data[10:18], "big")
            return msgpack.unpackb(pa.Codec("zstd").decompress(data[18:-4], size, asbytes=True))

        return self._once(path, read)

    @cached_property
    def schema(self) -> dict:
        """Schema 0: its uuid and what never changes, columns and key."""
        return self._json(self._bytes(f"{self.root}/schema/schema-0"), "schema")

    @property
    def line(self) -> tuple[str, str]:
        """The directory and the uuid of the table's own snapshots."""
        return self.root, self.schema["table_uuid"]

    def branches(self) -> dict[str, dict]:
        found = {}
        folder = f"{self.root}/branch/{self.schema['table_uuid']}"
        for entry in self.storage.list(folder):
            name, _, file = entry.path.removeprefix(f"{folder}/").partition("/")
            if file == "branch.json":
                found[name] = self._json(self._bytes(entry.path), "branch")
        return found

    def _published(self, folder: str, line: tuple[str, str] | None = None) -> dict[int, dict]:
        found, (home, uuid) = {}, line or self.line
        for entry in self.storage.list(f"{home}/{folder}/{uuid}"):
            number = entry.path.rsplit("/", 1)[1].removeprefix(f"{folder}-")
            if number.isdigit() and (data := self._bytes(entry.path)) not in (b"expired\n", b"rolled back\n"):
                found[int(number)] = self._once(data, lambda data=data: self._json(data, "snapshot"))
        return dict(sorted(found.items()))

    def snapshots(self) -> dict[int, dict]:
        return self._published("snapshot", self._line_of(self.branches()[self.branch]) if self.branch else None)

    def _line_of(self, branch: dict) -> tuple[str, str]:
        return f"{self.root}/branch/{self.schema['table_uuid']}/{branch['folder']}", branch["uuid"]

    def tags(self, line: tuple[str, str] | None = None) -> dict[str, dict]:
        """Name -> snapshot. Pins have the name of their file."""
        found, (home, uuid) = {}, line or self.line
        for entry in self.storage.list(f"{home}/tag/{uuid}"):
            content = self._json(self._bytes(entry.path), "tag")
            found[content["name"] or entry.path] = content["snapshot"]
        return found

    def _manifests(self, listed: list | None) -> list[tuple[str, int]]:
        """(path, sequence) of the manifests of a list."""
        if listed is None:
            return []
        content = self._binary(f"{self.root}/manifest/{listed[0]}", b"MLST")
        return [
            (f"{self.root}/manifest/{name}", sequence)
            for name, sequence in zip(content.get("name", []), content.get("sequence", []), strict=True)
        ]

    def _entries(self, path: str) -> list[dict]:
        def read() -> list[dict]:
            content = self._binary(path, b"MANF")
            names = [column["name"] for column in content["columns"]]
            values = zip(*(column["values"] for column in content["columns"]), strict=True)
            return [dict(zip(names, row, strict=True)) for row in values]

        return self._once(("entries", path), read)

    def _vectors(self, snapshot: dict) -> dict[str, tuple[str, int, int]]:
        """Data file -> (puffin, offset, length)."""
        if snapshot["index_manifest"] is None:
            return {}
        found = {}
        for path in self._index_paths(snapshot):
            content = self._binary(path, b"INDX")
            columns = [content.get(name, []) for name in ("puffin", "offset", "length")]
            found |= dict(zip(content["file"], zip(*columns, strict=True), strict=True))
        return {name: place for name, place in found.items() if place[0] is not None}

    def _index_paths(self, snapshot: dict) -> list[str]:
        """The index manifests of a snapshot, oldest first."""
        if snapshot["index_manifest"] is None:
            return []
        path = f"{self.root}/manifest/{snapshot['index_manifest'][0]}"
        parts = self._binary(path, b"INDX")["parts"]
        return [*(f"{self.root}/manifest/{name}" for name, _, _ in parts), path]

    def _vector(self, puffin: str, offset: int, length: int) -> BitMap64:
        def read() -> BitMap64:
            blob = self._bytes(path)[offset : offset + length]
            assert blob[:8] == (length - 8).to_bytes(4, "big") + b"\xd1\xd3\x39\x64"
            assert int.from_bytes(blob[-4:], "big") == zlib.crc32(blob[4:-4])
            return BitMap64.deserialize(blob[8:-4])

        path = f"{self.root}/index/{puffin}"
        return self._once((path, offset), read)

    def files(self, snapshot: dict) -> list[File]:
        """The live data files of a snapshot that have rows: not those of retained deletes."""
        return [file for file in self.all_files(snapshot) if file.source != "DELETES"]

    def all_files(self, snapshot: dict) -> list[File]:
        """The live data files of a snapshot."""
        live: dict[str, tuple[dict, int]] = {}
        for listed in (snapshot["base_manifest_list"], snapshot["delta_manifest_list"]):
            for path, sequence in self._manifests(listed):
                for entry in self._entries(path):
                    live.pop(entry["name"], None)
                    if entry["kind"] == 0:
                        live[entry["name"]] = (entry, sequence)
        vectors = self._vectors(snapshot)
        assert vectors.keys() <= live.keys(), "a vector of a file that is not live"
        found = []
        for name, (entry, inherited) in live.items():
            sequences = [inherited if entry[n] is None else entry[n] for n in ("sequence", "min_sequence")]
            dead = self._vector(*vectors[name]) if name in vectors else BitMap64()
            assert not dead or dead.max() < entry["rows"], "a dead position past the end of its file"
            partition = tuple(value for column, value in entry.items() if column.startswith("p:"))
            numbers = [entry[n] for n in ("bucket", "total_buckets", "level")]
            path = f"{self.root}/{entry['directory']}/{name}"
            index = () if entry.get("index_bytes") is None else (f"{path}.index",)
            found.append(File(path, partition, *numbers, *sequences, entry["rows"], dead, index, entry["source"]))
        return found

    def data(self, path: str) -> pa.Table:
        """Every row of a data file, dead or not; its buckets are checked by `check_buckets`."""
        return self._once(("data", path), lambda: pq.read_table(pa.BufferReader(self._bytes(path))))

    def living(self, file: File) -> pa.Table:
        """The rows of a file that are not dead, in order, with the columns of the user only."""
        rows = self.data(file.path)
        kept = [position for position in range(rows.num_rows) if position not in file.dead]
        return rows.select([name for name in rows.column_names if name not in _OWN]).take(pa.array(kept, pa.int64()))

    def rows(self, snapshot: dict, *, vectors: bool) -> list[dict]:
        """The rows of a fresh read under `deduplicate` without a sequence. Steps 8 to 16 of the section "Reading"."""
        key = [name for name in self.schema["primary_key"] if name not in self.schema["partition_by"]]
        buckets: dict[tuple, list[File]] = {}
        for file in self.files(snapshot):
            buckets.setdefault(file.place, []).append(file)
        found = []
        for files in buckets.values():
            files.sort(key=lambda file: (-file.level, file.sequence, -file.min_sequence))  # oldest first
            newest: dict[tuple, dict] = {}
            for row in (row for file in files if not (vectors and file.level) for row in self.data(file.path).to_pylist()):
                newest[tuple(row[name] for name in key)] = row
            deeper = (row for file in files if vectors and file.level for row in self.living(file).to_pylist())
            found += [row for row in deeper if tuple(row[name] for name in key) not in newest]
            kept = (row for row in newest.values() if not (row.get("_row_kind") or 0) & 1)
            found += [{name: row[name] for name in row if name not in _OWN} for row in kept]
        return found

    def check_buckets(self, files: Iterable[File], bucket_key: list[str]) -> None:
        """Every row, dead or not, lies in its bucket and partition, and files hold as many rows as their entries say."""
        parts = self.schema["partition_by"]
        for file in files:

            def check(file: File = file) -> bool:
                rows = self.data(file.path)
                assert rows.num_rows == file.rows > 0
                keys = [rows[name] for name in bucket_key]
                assert set(buckets_of(keys, file.total_buckets)) == {file.bucket}, f"{file.path} holds rows of other buckets"
                assert all(len(rows[name].unique()) == 1 for name in parts), f"{file.path} holds several partitions"
                return True

            self._once(("buckets", file.path), check)

    def referenced(self) -> set[str]:
        """Every manifest, vector and data file that a snapshot, a tag or a kept changelog needs, of the table or of a branch."""
        branches = self.branches()
        folder = f"{self.root}/branch/{self.schema['table_uuid']}"
        begun = {self._line_of(branch): self._begun(folder, branch) for branch in branches.values()}
        holding = [snapshot for found in begun.values() for snapshot in found if snapshot]
        found = [self._named(line, 0 if base is None else base["id"]) for line, (base, _) in begun.items()]
        return set().union(self._named(self.line, 0), *found, *map(self.files_of, holding), self._copied())

    def _copied(self) -> set[str]:
        """The lists of files that COPY INTO has loaded."""
        published = self._published("snapshot", self.line)
        name = published[max(published)]["queries"].get("copy-into") if published else None
        if name is None:
            return set()
        folder = f"{self.root}/copied/{self.schema['table_uuid']}"
        newest = self._json(self._bytes(f"{folder}/{name}.json"), "copied")
        return {f"{folder}/{one}.json" for one in (name, *(before for before, _ in newest["before"]))}

    def _begun(self, folder: str, branch: dict) -> tuple[dict | None, dict | None]:
        """The snapshot at which a branch begins, and that to which the table is being forwarded."""
        works, place = {}, f"{folder}/{branch['folder']}/work/{branch['uuid']}"
        for entry in self.storage.list(place):
            word, _, number = entry.path.removeprefix(f"{place}/").partition("-")
            works[word, int(number)] = self._json(self._bytes(entry.path), "branch-work")["snapshot"]
        ended = max((number for word, number in works if word == "ended"), default=0)
        return works["ended", ended] if ended else branch["base"], works.get(("begun", ended + 1))

    def _named(self, line: tuple[str, str], base: int) -> set[str]:
        """The files that snapshots and tags of the table or of a branch name. Changelogs up to `base` belong to the table."""
        published, kept = self._published("snapshot", line), self._published("changelog", line)
        used = set().union(*map(self.files_of, (*published.values(), *self.tags(line).values())))
        for snapshot in (*published.values(), *kept.values()):
            listed = snapshot["changelog_manifest_list"]
            if listed and snapshot["id"] > base:
                manifests = [path for path, _ in self._manifests(listed)]
                entries = [entry for path in manifests for entry in self._entries(path)]
                used |= {f"{self.root}/manifest/{listed[0]}", *manifests}
                used |= {f"{self.root}/{entry['directory']}/{entry['name']}" for entry in entries}
        return used

    def files_of(self, snapshot: dict) -> set[str]:
        """The files of a snapshot, without its changelog."""
        listed = [snapshot[name] for name in ("base_manifest_list", "delta_manifest_list", "index_manifest", "statistics")]
        used = {f"{self.root}/manifest/{one[0]}" for one in listed if one}
        used |= {path for one in listed[:2] for path, _ in self._manifests(one)}
        used |= set(self._index_paths(snapshot))
        used |= {f"{self.root}/index/{puffin}" for puffin, _, _ in self._vectors(snapshot).values()}
        return used | {path for file in self.all_files(snapshot) for path in (file.path, *file.index)}

    def missing(self) -> set[str]:
        """The files that a snapshot, a tag or a branch names, and that are not there. Files never change, so if there are none,
        all rows are as they were written. Much cheaper than reading them."""
        return self.referenced() - {entry.path for entry in self.storage.list(self.root)}

    def unreferenced(self) -> list[str]:
        """Data, vector and manifest files below the table that no snapshot needs; those of Iceberg metadata are none."""
        used = self.referenced()
        kept = tuple(
            f"{self.root}/{folder}/" for folder in ("schema", "snapshot", "changelog", "consumer", "tag", "branch", "metadata")
        )
        return [e.path for e in self.storage.list(self.root) if e.path not in used and not e.path.startswith(kept)]


def naive(table, branch: str = "") -> NaiveTable:
    return NaiveTable(table.meta.env.storage, table.meta.paths.root, branch)


def unreferenced(table) -> list[str]:
    """Paths of data, vector and manifest files below the table that no snapshot names."""
    return naive(table).unreferenced()
