"""What Iceberg metadata costs a commit, with few and with many live files and kept snapshots, and its first publication.

The files exist in manifests only, in ten partitions of four buckets. Of each size there are two tables, which take the same
upserts into four buckets in turns; one of them publishes in each commit (`metadata.iceberg`). The difference is the cost.
Calls of the storage are counted: in an object store each of them is a request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pyarrow as pa

import lsmlake
from bench import commit_growth
from bench.result import Measure, Report
from bench.timing import Spent, clock
from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.iceberg.published import current
from lsmlake.storage.local import LocalStorage
from lsmlake.storage.storage import Entry

_BUCKETS = 4


class Counted(LocalStorage):
    """A local storage that counts its calls (a read calls `size`), and the files and bytes of Iceberg metadata written."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.counts: Counter[str] = Counter()

    @contextmanager
    def write(self, path: str) -> Iterator[pa.NativeFile]:
        with super().write(path) as sink:
            yield sink
        self._wrote(path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        made = super().put_if_absent(path, data)
        self._wrote(path)
        return made

    def list(self, prefix: str) -> Iterator[Entry]:
        self.counts["requests"] += 1
        return super().list(prefix)

    def size(self, path: str) -> int | None:
        self.counts["requests"] += 1
        return super().size(path)

    def delete(self, path: str) -> None:
        self.counts["requests"] += 1
        super().delete(path)

    def _wrote(self, path: str) -> None:
        self.counts["requests"] += 1
        if "/metadata/" in path:
            self.counts += Counter(files=1, bytes=(Path(self.root) / path).stat().st_size)


class Cost(NamedTuple):
    """Of one commit."""

    spent: Spent
    counts: Counter[str]


def run(folder: Path, sizes: str = "1000,10000,100000", turns: int = 60, snapshots: int = 600) -> Report:
    """`sizes`: numbers of live files, multiples of 40. `turns`: commits of each table. `snapshots`: that the tables of the first
    size keep at the end, where the cost is measured once more."""
    measures, notes = [], []
    numbers = [int(size) for size in sizes.split(",")]
    pairs = {files: [_table(folder / f"{files}-{side}", files) for side in ("with", "without")] for files in numbers}
    few: Cost | None = None
    for files, pair in pairs.items():
        spent, peak = _apart(_first_publication, folder / f"{files}-with")
        _, planned = _apart(_plan, folder / f"{files}-with")
        measures.append(Measure(f"first publication of {files:,} files", spent.seconds, None))
        measures.append(Measure(f"first publication of {files:,} files: CPU", spent.cpu, None))
        measures.append(Measure("peak memory of its process / of one that plans a scan", peak, planned, "MB"))
        pair[0].alter(lsmlake.set_option("metadata.iceberg", "true"))
        cost = _cost(pair, range(turns))
        few = few or cost
        measures += _compared(f"a commit's publication, {files:,} files / {numbers[0]:,}", cost, few)
        notes.append(f"{files:,} files: {_told(cost)}")
    cost = _cost(pairs[numbers[0]], range(turns, snapshots), last=turns)
    measures += _compared(f"a commit's publication, {snapshots:,} snapshots / {turns}", cost, few, None)
    notes.append(f"{numbers[0]:,} files, {snapshots:,} snapshots: {_told(cost)}")
    published = [current(pair[0].meta).content["current-snapshot-id"] for pair in pairs.values()]
    assert published == [pair[1].version.number + 1 for pair in pairs.values()], "every commit was published"
    return Report(
        "publish",
        "medians in turns; the cost is that of a commit that publishes less that of one that does not",
        {"tables": f"{sizes} files in 10 partitions x {_BUCKETS} buckets; upserts of 100 rows"},
        f"snapshots {', '.join(map(str, published))}",
        tuple(measures),
        tuple(notes),
    )


def _table(folder: Path, files: int) -> Table:
    table = commit_growth.created(folder, _BUCKETS)
    commit_growth.fill(table, files // 10 // _BUCKETS, _BUCKETS, vectors=False)
    return _opened(folder)


def _opened(folder: Path) -> Table:
    lake = lsmlake.connect(folder)
    return Lake(replace(lake.env, storage=Counted(folder)), lake.runtime).table(commit_growth.NAME)


def _apart(work: Callable[[Path], tuple[Spent, float]], folder: Path) -> tuple[Spent, float]:
    """What `work` takes in a process of its own, and the peak of its memory in MB."""
    with get_context("spawn").Pool(1) as alone:
        return alone.apply(work, (folder,))


def _first_publication(folder: Path) -> tuple[Spent, float]:
    table = _opened(folder)
    return clock(table.publish_iceberg), _peak_mb()


def _plan(folder: Path) -> tuple[Spent, float]:
    table = _opened(folder)
    return clock(table.scan().plan), _peak_mb()


def _peak_mb() -> float:
    """Of this process only; `getrusage` counts what its parent had when it started it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1.024 / 1e3


def _upsert(table: Table, number: int) -> Cost:
    storage = table.meta.env.storage
    storage.counts.clear()
    return Cost(commit_growth.upsert(table, number), Counter(storage.counts))


def _cost(pair: Sequence[Table], numbers: Sequence[int], last: int | None = None) -> Cost:
    """Of the publication in a commit, median. `last`: only so many commits count; default: all but the first tenth."""
    commits = [[_upsert(table, number) for table in pair] for number in numbers]
    counted = commits[len(commits) // 10 if last is None else -last :]
    publishing, other = zip(*counted, strict=True)

    def more(get: Callable[[Cost], float]) -> float:
        return median(map(get, publishing)) - median(map(get, other))

    spent = Spent(more(lambda one: one.spent.seconds), more(lambda one: one.spent.cpu))
    return Cost(spent, Counter({name: more(lambda one, name=name: one.counts[name]) for name in ("requests", "files", "bytes")}))


def _compared(what: str, ours: Cost, theirs: Cost, target: float | None = 1.5) -> list[Measure]:
    return [
        Measure(what, ours.spent.seconds * 1e3, theirs.spent.seconds * 1e3, "ms"),
        Measure(f"{what}: CPU", ours.spent.cpu * 1e3, theirs.spent.cpu * 1e3, "ms", target),
    ]


def _told(cost: Cost) -> str:
    counts = cost.counts
    return f"{counts['files']:g} files of {counts['bytes']:,.0f} bytes together and {counts['requests']:g} requests per commit"
