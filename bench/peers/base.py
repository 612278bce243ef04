"""The interface of all peers. Workloads use nothing else of a peer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa

from bench.peers.read import Read

CORES, BUCKETS = 2, 4
"""The same for all who ask for them."""


class Unsupported(Exception):
    """The peer has no such thing. Reported as that, not as a failure."""


class Wanted(NamedTuple):
    """A table to make.

    `inline`: the peer's own maintenance runs while it writes. `engine`: how rows of a key become one: "upsert": the newest
    row; "partial": the same, and `update` will bring some of its columns; "partial-update" and "aggregation": Paimon's merge
    engines. `changes`: its changes will be read. `deletes`: keys will be deleted."""

    schema: pa.Schema
    key: str
    inline: bool = True
    engine: str = "upsert"
    changes: bool = False
    deletes: bool = False

    @property
    def summed(self) -> list[str]:
        """The columns that aggregation sums; of the others the newest value stays."""
        numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        return [field.name for field in self.schema if field.name != self.key and any(of(field.type) for of in numbers)]


class Peer(ABC):
    """One table, of which everything lies below `folder`. Paths of data are folders of Parquet files, keys distinct in each."""

    settings: Mapping[str, str] = MappingProxyType({})
    """Everything that is not the peer's default, as its own documents recommend."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def create(self, wanted: Wanted) -> None: ...

    def load(self, path: Path) -> None:
        """The first rows, by the fastest way the peer has to fill an empty table."""
        self.upsert(path)

    @abstractmethod
    def upsert(self, path: Path) -> None: ...

    @abstractmethod
    def delete(self, path: Path) -> None:
        """The keys in `path`, all of them there."""

    def update(self, path: Path) -> None:
        """The key and some columns; the others keep their values. All keys are there."""
        raise Unsupported("no update of some columns")

    def update_where(self, column: str, where: str) -> None:
        """Add one to a column of the rows of a condition."""
        raise Unsupported("no update by condition")

    def delete_where(self, where: str) -> None:
        raise Unsupported("no delete by condition")

    def merge(self, path: Path) -> None:
        """As a MERGE: rows whose keys are there replace those, the others are inserted."""
        self.upsert(path)

    @abstractmethod
    def query(self, read: Read) -> Sequence[Sequence[object]]:
        """The answer's rows, of the table as it is now."""

    @abstractmethod
    def export(self) -> int:
        """Every value of every row, read to the end but kept nowhere. Returns a number that the same rows give by `plain` too."""

    @abstractmethod
    def plain(self, path: Path) -> Plain:
        """Parquet files without any table, read by the same engine."""

    def maintain(self) -> None:
        """What the documents tell to run now and then, where nothing runs by itself."""
        return

    @abstractmethod
    def compact(self) -> None:
        """All of it, so that reads are as fast as they get."""

    def mark(self) -> object:
        """A point in the table's history, for `count_changes`."""
        raise Unsupported("no change feed")

    def count_changes(self, since: object) -> int:
        """How many changed rows, before and after an update counted as one, a reader is given since the mark."""
        raise Unsupported("no change feed")

    def close(self) -> None:
        """Let go of everything."""
        return


class Plain(ABC):
    """Parquet files as a peer's engine reads them."""

    @abstractmethod
    def query(self, read: Read) -> Sequence[Sequence[object]]: ...

    @abstractmethod
    def export(self) -> int: ...
