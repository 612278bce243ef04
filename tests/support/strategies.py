"""Shared by the tests of the core: deterministic lakes in memory, columns of every kind, and conditions with their meaning.

A batch of rows is drawn as bytes, two a row: the first names a key of the kind's small domain, so keys repeat; the second the
values and the row kind. That draws fast and shrinks well. Every row carries a `stamp` that no other row ever had, so an old
version of a row is never taken for the new one.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from typing import NamedTuple, TypeVar

import pyarrow as pa
from hypothesis import strategies as st

from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.scan import Scan
from lsmlake.api.table import Table
from lsmlake.maintain.followers import FOLLOWERS
from lsmlake.storage.disk_cache import DiskCache
from lsmlake.storage.env import Env, Limits
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage

UTC = dt.timezone.utc
START_MS = 1_767_225_600_000  # 2026-01-01

# --- worlds ---

Stored = TypeVar("Stored", bound=MemoryStorage)


class Ticks:
    """A clock that advances a millisecond a look."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self.now_ms = start_ms

    def __call__(self) -> int:
        self.now_ms += 1
        return self.now_ms


class Names:
    """Fresh name parts: `<prefix>0`, `<prefix>1`, ..."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix, self.numbers = prefix, count()

    def __call__(self) -> str:
        return f"{self.prefix}{next(self.numbers):04d}"


def fake_env(storage: Storage, prefix: str = "", seed: int = 0) -> Env:
    """All but the storage is a function of `prefix` and `seed`. Environments that share a storage need prefixes of their own."""
    chance, limits, copies = random.Random(seed).random, _limits[-1], _copies[-1]
    limits = limits if copies is None else replace(limits, copied_after=1)
    return Env(storage, Ticks(), Names(prefix), chance, lambda seconds: None, 1, limits, FOLLOWERS, copies)


def lake_on(storage: Storage, prefix: str = "", seed: int = 0) -> Lake:
    return Lake(fake_env(storage, prefix, seed), Runtime())


def new_lake(storage: Storage | None = None) -> Lake:
    """A lake with the database `d`."""
    lake = lake_on(MemoryStorage() if storage is None else storage)
    lake.create_database("d", if_not_exists=True)
    return lake


def copied(storage: MemoryStorage) -> MemoryStorage:
    """A storage of the same class with the same files; what is done to one is not seen by the other."""
    return holding(contents(storage), type(storage))


def holding(files: Mapping[str, bytes], kind: type[MemoryStorage] = MemoryStorage) -> MemoryStorage:
    """A storage with these files: path -> content."""
    return filled(kind(), files)


def filled(storage: Stored, files: Mapping[str, bytes]) -> Stored:
    """Puts files into a storage, also into one that refuses writes."""
    for path, data in files.items():
        assert MemoryStorage.put_if_absent(storage, path, data)
    return storage


class WithStates(MemoryStorage):
    """A storage in memory that tells the states of files, as one on a disk does. The state of a file is its content."""

    def states(self, paths: Sequence[str]) -> list[bytes | None]:
        return self.contents(paths)


def contents(storage: Storage, prefix: str = "") -> dict[str, bytes]:
    """Path -> content of every file below `prefix`."""
    found = {}
    for entry in storage.list(prefix):
        with storage.read(entry.path) as source:
            found[entry.path] = source.read()
    return found


_limits = [Limits()]
"""The last one is that of environments that are made now."""


@contextmanager
def tiny_units(rows: int = 5, window_bytes: int = 600, lookup_rows: int = 7, *, ahead: bool = False) -> Iterator[None]:
    """Environments that are made here have row groups, merge windows and lookup batches so small that a few rows make several.
    Without `ahead` nothing is read ahead in another thread, so that calls of the storage come in one order."""
    tiny = Limits(
        row_group_rows=rows,
        addressed_rows=rows,
        stream_buffer_bytes=0,
        small_file_rows=rows,
        window_bytes=window_bytes,
        lookup_rows=lookup_rows,
        chunk_rows=2 * lookup_rows,
        merge_ahead=ahead,
    )
    _limits.append(tiny)
    try:
        yield
    finally:
        _limits.pop()


_copies: list[DiskCache | None] = [None]
"""The last one is that of environments that are made now."""


@contextmanager
def copying(folder: str) -> Iterator[None]:
    """Environments that are made here copy rows to a cache on disk with the first lookup."""
    _copies.append(DiskCache(folder, 1 << 30))
    try:
        yield
    finally:
        _copies.pop()


def view(table: Table, mode: str, **how: object) -> Scan:
    """A scan in a mode that only readers of changes have: "compacted" shows what a changelog of `lookup` describes."""
    return replace(table.scan(**how), mode=mode)


# --- rows as plain values ---


def seen(value: object) -> object:
    """A value that equals only itself: NaN equals NaN, -0.0 is not 0.0, lists hash."""
    if isinstance(value, float):
        return ("float", repr(value))
    return tuple(map(seen, value)) if isinstance(value, (list, tuple)) else value


def rows_of(table: pa.Table) -> list[tuple]:
    """The rows of a table, each `seen`, in the order they stand."""
    return [tuple(map(seen, row)) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def multiset(rows: Sequence[tuple]) -> list[tuple]:
    return sorted(rows, key=repr)


# --- columns ---


class ColumnKind(NamedTuple):
    """A column type in DDL words and values that are likely to be trouble, with a few dozen between them."""

    ddl: str
    values: tuple


_TEXTS = (
    *("", "a", "ab", "a\0", "a\0b", "ä", "ß", "z" * 15, "z" * 16, "z" * 17, "\U0010ffff", "\U0010ffff" * 5, "\ud7ff", "\ue000"),
    *(f"k{i:03d}" for i in range(40)),
    *("o'clock", 'qu"ote', "back\\slash", "line\nbreak", "per%cent", "_"),
)
_LONG_TEXTS = (
    *(f"{'prefix/' * 12}{i % 7}/{'é' * (i % 40)}{i}" for i in range(45)),
    *("y" * 5000, "y" * 5000 + "a", "y" * 4999),
)
_EPOCH = dt.datetime(1970, 1, 1)
_MOMENTS = (
    *(_EPOCH + dt.timedelta(days=i, microseconds=i) for i in range(-3, 40)),
    *(_EPOCH - dt.timedelta(microseconds=1), dt.datetime(1582, 10, 14), dt.datetime(2026, 3, 29, 2, 30)),
    *(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)),
)
_DAYS = (*(dt.date(1970, 1, 1) + dt.timedelta(i) for i in range(-25, 30)), dt.date(1, 1, 1), dt.date(9999, 12, 31))
_BYTES = (b"", b"\0", b"\0\0", b"\xff", b"\xff" * 20, *(bytes([i * 5, i, 255 - i]) for i in range(45)))
_WIDE = (*range(-25, 25), 10**38 - 1, 1 - 10**38, 2**64, -(2**64), 10**20)


def decimal(unscaled: int, scale: int) -> Decimal:
    """`unscaled * 10 ** -scale`, exactly."""
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


KINDS: dict[str, ColumnKind] = {
    "BIGINT": ColumnKind("BIGINT", (*range(-24, 36), 2**63 - 1, -(2**63), 2**53 + 1, 2**53)),
    "INT": ColumnKind("INT", (*range(-24, 36), 2**31 - 1, -(2**31))),
    "SMALLINT": ColumnKind("SMALLINT", (*range(-20, 40), 2**15 - 1, -(2**15))),
    "TINYINT": ColumnKind("TINYINT", (*range(-30, 30), 127, -128)),
    "BOOLEAN": ColumnKind("BOOLEAN", (False, True)),
    "DECIMAL(9,2)": ColumnKind("DECIMAL(9,2)", tuple(decimal(i, 2) for i in (*range(-30, 30), 10**9 - 1, 1 - 10**9))),
    "DECIMAL(38,10)": ColumnKind("DECIMAL(38,10)", tuple(decimal(i, 10) for i in _WIDE)),
    "FLOAT": ColumnKind("FLOAT", (*(i / 4 for i in range(-25, 25)), -0.0, 2.0**126, -(2.0**126), math.inf, -math.inf, 2.0**-149)),
    "DOUBLE": ColumnKind("DOUBLE", (*(i / 3 for i in range(-25, 25)), -0.0, 1e308, -1e308, math.inf, -math.inf, 5e-324)),
    "STRING": ColumnKind("STRING", _TEXTS),
    "LONG STRING": ColumnKind("STRING", _LONG_TEXTS),
    "BINARY": ColumnKind("BINARY", _BYTES),
    "DATE": ColumnKind("DATE", _DAYS),
    "TIMESTAMP": ColumnKind("TIMESTAMP", tuple(moment.replace(tzinfo=UTC) for moment in _MOMENTS)),
    "TIMESTAMP_NTZ": ColumnKind("TIMESTAMP_NTZ", _MOMENTS),
    "TIME": ColumnKind("TIME", (dt.time(), dt.time.max, *(dt.time(i % 24, i, 59 - i, i * 1001) for i in range(40)))),
}

KEYS: dict[str, tuple[str, ...]] = {
    **{name.lower(): (name,) for name in KINDS if name != "BOOLEAN"},
    "int and string": ("INT", "STRING"),
    "boolean and smallint": ("BOOLEAN", "SMALLINT"),
    "four columns": ("DATE", "BOOLEAN", "DOUBLE", "BINARY"),
}

PARTITIONS: dict[str, ColumnKind | None] = {
    "none": None,
    "string": ColumnKind("STRING", (None, "", "a", "a/b=c%", "..", "né \n*?", "__DEFAULT_PARTITION__")),
    "date": ColumnKind("DATE", (None, dt.date(2026, 1, 1), dt.date(1969, 12, 31))),
    "double": ColumnKind("DOUBLE", (None, 0.0, 0.5, -1.5, -0.0)),
    "boolean": ColumnKind("BOOLEAN", (None, False, True)),
    "timestamp": ColumnKind("TIMESTAMP", (None, dt.datetime(2026, 1, 1, 12, tzinfo=UTC))),
}

VALUES: dict[str, ColumnKind] = {
    "n": ColumnKind("INT", (None, 0, 1, -1, 7, 100, -100)),
    "s": ColumnKind("STRING", (None, "", "x", "xylophone that is longer than the bounds", "\U0010ffff" * 6, "é")),
    "d": ColumnKind("DOUBLE", (None, 0.0, -0.0, 1.5, math.nan, -math.inf, 1e300)),
    "tags": ColumnKind("ARRAY<STRING>", (None, (), ("a",), (None, "b"))),
}

ROW_KINDS = ("+I", "+U", "-U", "-D")


@dataclass(frozen=True)
class Shape:
    """What a test table looks like: its columns in order, key and partition columns."""

    key: tuple[str, ...]
    partition: ColumnKind | None
    columns: tuple[tuple[str, ColumnKind], ...]
    moves: bool = False
    """Whether the primary key lacks the partition column."""

    @classmethod
    def of(
        cls, key: str, partition: str = "none", values: Mapping[str, ColumnKind] | None = None, *, moves: bool = False
    ) -> Shape:
        """`values`: the columns beside the key; by default some of every sort and `stamp`."""
        keys = tuple((f"k{i}", KINDS[kind]) for i, kind in enumerate(KEYS[key]))
        part = PARTITIONS[partition]
        parts = () if part is None else (("p", part),)
        columns = VALUES | {"stamp": KINDS["BIGINT"]} if values is None else values
        return cls(tuple(name for name, _ in keys), part, (*keys, *parts, *columns.items()), moves)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    @property
    def primary_key(self) -> tuple[str, ...]:
        return (*(("p",) if self.partition and not self.moves else ()), *self.key)

    @property
    def ddl(self) -> str:
        return ", ".join(f"{name} {kind.ddl}" for name, kind in self.columns)

    def kind(self, name: str) -> ColumnKind:
        return dict(self.columns)[name]

    def key_of(self, row: tuple) -> tuple:
        return tuple(row[self.names.index(name)] for name in self.primary_key)

    def row(self, key_code: int, value_code: int, stamp: int) -> tuple:
        """One row as a user might bring it. Codes are bytes; they give about 60 different keys."""
        values = [kind.values[(value_code + 3 * i) % len(kind.values)] for i, kind in enumerate(VALUES.values())]
        return (*self.key_values(key_code), *values, stamp)

    def key_values(self, key_code: int) -> tuple:
        """The key columns, then the partition column if there is one."""
        kinds = [self.kind(name) for name in self.key]
        key = [kind.values[_spread(key_code, i) % len(kind.values)] for i, kind in enumerate(kinds)]
        part = () if self.partition is None else (self.partition.values[key_code // 3 % len(self.partition.values)],)
        return (*key, *part)

    def stored(self, row: tuple) -> tuple:
        """The row as the table holds it: -0.0 in the key and in the partition is 0.0."""
        keys = {*self.primary_key, "p"}
        return tuple(
            0.0 if name in keys and value == 0 and isinstance(value, float) else value
            for name, value in zip(self.names, row, strict=True)
        )

    def create(self, lake: Lake, name: str = "d.t", **options: object) -> Table:
        partition_by = ["p"] if self.partition else []
        named = {option.replace("__", ".").replace("_", "-"): value for option, value in options.items()}
        return lake.create_table(name, self.ddl, primary_key=list(self.primary_key), partition_by=partition_by, options=named)

    def table(self, rows: Sequence[tuple], schema: pa.Schema, names: Sequence[str] | None = None) -> pa.Table:
        """Rows as Arrow data of the table's types."""
        names = self.names if names is None else names
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        return pa.table(
            [pa.array(column, schema.field(name).type) for name, column in zip(names, columns, strict=True)], names=list(names)
        )


def _spread(code: int, column: int) -> int:
    """In keys of several columns the first repeat."""
    return code if column == 0 else code * 7 // 5 + column


def encoded_rows(max_rows: int = 40) -> st.SearchStrategy[list[tuple[int, int]]]:
    """(key code, value code) of each row."""
    return st.binary(min_size=2, max_size=2 * max_rows).map(lambda data: list(zip(data[::2], data[1::2], strict=False)))


# --- conditions ---


class Condition(NamedTuple):
    """SQL text and what it means: True, False or None (unknown) of a row, given as a mapping."""

    sql: str
    holds: Callable[[dict], bool | None]


def literal(value: object, ddl: str) -> str:
    """`value` as Spark SQL text."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, (int, Decimal)):
        return f"{value:f}" if isinstance(value, Decimal) else str(value)
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return f"{ddl} '{value.isoformat(sep=' ')}'"
    return f"{'TIME' if isinstance(value, dt.time) else 'DATE'} '{value.isoformat()}'"


def rank(value: object) -> object:
    """Orders as Spark orders: NaN last and equal to itself, text by its UTF-8 bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


_COMPARE: dict[str, Callable[[object, object], bool]] = {
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def comparison(name: str, op: str, value: object, ddl: str) -> Condition:
    compare, right = _COMPARE[op], rank(value)
    text = f"{name} {op} {literal(value, ddl)}"
    return Condition(text, lambda row: None if row[name] is None else compare(rank(row[name]), right))


def membership(name: str, values: Sequence[object], ddl: str) -> Condition:
    wanted = {rank(value) for value in values}
    listed = ", ".join(literal(value, ddl) for value in values)
    return Condition(f"{name} IN ({listed})", lambda row: None if row[name] is None else rank(row[name]) in wanted)


def prefixed(name: str, prefix: str) -> Condition:
    pattern = "".join(f"\\{sign}" if sign in "%_\\" else sign for sign in prefix) + "%"
    return Condition(
        f"{name} LIKE {literal(pattern, 'STRING')}", lambda row: None if row[name] is None else row[name].startswith(prefix)
    )


def pair(name: str, op: str, other: str) -> Condition:
    """Compares two columns of one type."""
    compare = _COMPARE[op]
    return Condition(
        f"{name} {op} {other}",
        lambda row: None if row[name] is None or row[other] is None else compare(rank(row[name]), rank(row[other])),
    )


def is_null(name: str) -> Condition:
    return Condition(f"{name} IS NULL", lambda row: row[name] is None)


def both(a: Condition, b: Condition) -> Condition:
    def holds(row: dict) -> bool | None:
        found = (a.holds(row), b.holds(row))
        return False if False in found else None if None in found else True

    return Condition(f"({a.sql}) AND ({b.sql})", holds)


def either(a: Condition, b: Condition) -> Condition:
    def holds(row: dict) -> bool | None:
        found = (a.holds(row), b.holds(row))
        return True if True in found else None if None in found else False

    return Condition(f"({a.sql}) OR ({b.sql})", holds)


def negated(a: Condition) -> Condition:
    return Condition(f"NOT ({a.sql})", lambda row: None if (found := a.holds(row)) is None else not found)


@st.composite
def conditions(draw: Callable, shape: Shape, depth: int = 2, keys: int = 3) -> Condition:
    """A condition over any column of the shape, each of the key `keys` times as often again."""
    if depth and draw(st.booleans()):
        combine = draw(st.sampled_from([both, either, negated]))
        return combine(*(draw(conditions(shape, depth - 1, keys)) for _ in range(1 if combine is negated else 2)))
    name = draw(st.sampled_from([*shape.primary_key * keys, *shape.names]))
    kind = shape.kind(name)
    values = [value for value in kind.values if value is not None]
    if kind.ddl.startswith("ARRAY") or draw(st.integers(0, 9)) == 0:
        return is_null(name)
    likes = [other for other, its in shape.columns if its.ddl == kind.ddl and other != name]
    form = draw(st.integers(0, 7))
    if form == 0 and kind.ddl == "STRING":
        return prefixed(name, draw(st.sampled_from(values))[: draw(st.integers(0, 40))])
    if form == 1 and likes:
        return pair(name, draw(st.sampled_from(list(_COMPARE))), draw(st.sampled_from(likes)))
    if form in (2, 3):
        return membership(name, draw(st.lists(st.sampled_from(values), min_size=1, max_size=4)), kind.ddl)
    return comparison(name, draw(st.sampled_from(list(_COMPARE))), draw(st.sampled_from(values)), kind.ddl)
