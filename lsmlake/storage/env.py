"""The environment: storage, clock, identifiers, random numbers, sleep and limits, injected wherever they are needed.

Only `storage/` and a few modules at the edge call `time`, `random`, `uuid`, `open` or `os`; a test enforces this. With fakes,
tests get byte-identical tables.
"""

from __future__ import annotations

import datetime
import random as _random
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lsmlake.storage.disk_cache import DiskCache
from lsmlake.storage.storage import Storage


def _new_id() -> str:
    return uuid.uuid4().hex


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Limits:
    """Bounds of memory and size. They are pickled with the environment, so Spark tasks obey them too; tests make them tiny.

    Args:
        cache_bytes: decoded metadata and keys that a table handle keeps, besides the live files of the newest snapshot.
        window_bytes: rows that a merge holds at a time.
        changelog_window_bytes: keys that the changelog of a compaction holds at a time; it holds their rows twice.
        lookup_rows: level-0 keys that a compaction looks up at once.
        small_file_rows: the key columns of files up to this size are read whole, searched together and cached.
        chunk_rows: rows of a data file in memory at a time, unless a row group is larger.
        row_group_rows: the fewest rows of a Parquet row group.
        addressed_rows: with `file.row-addresses` = auto, the fewest rows of a data file that holds their addresses. The column
            takes 0.2 KB of a file, and of reading small files it is not the mask that takes the time.
        stream_buffer_bytes: buffer per column for streaming a file; files up to this size are read without streaming.
        driver_merge_bytes: the largest compaction that the driver of a Spark session runs itself after it writes a small batch;
            tasks run larger ones.
        driver_plan_entries: the entries of manifests that the driver of a Spark session reads itself to plan a read; tasks read
            more.
        driver_source_bytes: the most bytes of data that the driver of a Spark session passes on as the source of a MERGE, and of
            files for which it does not, but merges such data itself.
        driver_statement_bytes: the most memory for columns that the driver of a Spark session reads itself for DELETE, UPDATE
            and MERGE, however much `write.driver-statement-size` allows.
        mask_bytes: the largest mask of a Spark read that is one array of bits, which each task unpacks; larger masks are chunks.
        mask_chunk_bits: the sizes of a mask's chunks to choose from, in rows, as powers of two.
        marks: the number of newest marks of expired snapshots to keep, regardless of age.
        compactions: compactions of one bucket in one commit. Each shrinks the tree, so the limit is never reached.
        copied_after: the lookups in a row group after which its rows are copied to the cache on disk.
        merge_ahead: whether a compaction merges the next rows in another thread while it writes.
    """

    cache_bytes: int = 64 << 20
    window_bytes: int = 32 << 20
    changelog_window_bytes: int = 4 << 20
    lookup_rows: int = 1 << 22
    small_file_rows: int = 1 << 12
    chunk_rows: int = 1 << 22
    row_group_rows: int = 1 << 10
    addressed_rows: int = 1 << 12
    stream_buffer_bytes: int = 1 << 20
    driver_merge_bytes: int = 64 << 20
    driver_plan_entries: int = 1 << 19
    driver_source_bytes: int = 32 << 20
    driver_statement_bytes: int = 1 << 30
    mask_bytes: int = 4 << 20
    mask_chunk_bits: tuple[int, ...] = (10, 11, 12, 13, 14, 15, 16)
    marks: int = 500
    compactions: int = 64
    copied_after: int = 4
    merge_ahead: bool = True


class CommitFollower:
    """Work that follows commits and precedes deletions; `commit.commit` calls it. A subclass overrides what it needs.

    `meta` is the `Metadata` of a table or of a branch, `version` a `Version` of it, `snapshot` a `Snapshot`: values of rooms that
    this one does not know.
    """

    failed = ""
    """The warning of the log if the work after a commit failed."""

    def after_commit(self, version: Any, snapshot: Any) -> None:
        """Called once for each published snapshot. An error does not undo the commit. `version`: the version of the verb, before
        the commit; its options decide."""

    def after_names(self, meta: Any) -> None:
        """Called after tags or branches changed, or after snapshots changed without a commit."""

    def after_tag(self, meta: Any, tag: Any, options: Any) -> None:
        """Called after a tag was created or replaced. An error does not undo it. `tag`: a `Tag`; `options`: the `Options` of the
        table."""

    def before_deletion(self, meta: Any) -> None:
        """Called after snapshots or tags were removed, before their files are deleted. If it fails, no file is deleted."""

    def references(self, meta: Any) -> Callable[[], Iterable[str]] | None:
        """Returns a function that lists the paths of files that only this work references, not a snapshot; None if there are no
        such files."""
        return None


@dataclass(frozen=True)
class Env:
    """`clock()`: milliseconds since the epoch; `ids()`: a new unique name part; `random()`: a number in [0, 1); `sleep(seconds)`;
    `workers`: how many buckets one process handles concurrently; `followers`: in the order in which they run; `copies`: the cache
    on disk to which lookups copy rows; `decoded`: a `Cache` for rows of files, of all tables (`BucketFiles.fetch_again`), None:
    they are not kept. Pickles without `decoded`, so Spark tasks get the driver's environment."""

    storage: Storage
    clock: Callable[[], int] = _now_ms
    ids: Callable[[], str] = _new_id
    random: Callable[[], float] = _random.random
    sleep: Callable[[float], None] = time.sleep
    workers: int = 1
    limits: Limits = Limits()
    followers: tuple[CommitFollower, ...] = ()
    copies: DiskCache | None = None
    decoded: Any = field(default=None, compare=False)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"decoded": None}


def moment_of(env: Env) -> str:
    """The time of a statement, as text with a time zone."""
    return datetime.datetime.fromtimestamp(env.clock() / 1000, datetime.timezone.utc).isoformat(sep=" ")


_TRACING = "opentelemetry.trace"


@contextmanager
def span(name: str, table: str) -> Iterator[Callable[..., object]]:
    """A span of OpenTelemetry around the body, `lsmlake.<name>` with the attribute `lsmlake.table`, if the program has loaded its
    package. Yields a function that sets further attributes. An error of the body is recorded."""
    api = sys.modules.get(_TRACING)
    if api is None:
        yield lambda **values: None
        return
    with api.get_tracer("lsmlake").start_as_current_span(f"lsmlake.{name}", attributes={"lsmlake.table": table}) as current:
        yield lambda **values: current.set_attributes({f"lsmlake.{key}": value for key, value in values.items()})
