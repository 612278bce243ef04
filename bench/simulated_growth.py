"""Simulates the growth of a table without data: a file has a number of rows, of which some are dead. Compactions and splits are
those that the library picks, with default options; only their execution is simulated.

Keys are spread evenly: an update marks a row in each file in proportion to its live rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from lsmlake.format.data_files import APPEND, COMPACT, DataFile
from lsmlake.lsm.cover import Cover, Share
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick import pick, plan_task
from lsmlake.lsm.pick.reshaping import pick_reshapings
from lsmlake.options.table_options import Options

ROW_BYTES = 61
_INLINE_BYTES = 8 << 20  # a write splits buckets up to this size


class Grown(NamedTuple):
    """`written`: bytes in all, splits included; `p50`: bytes that an upsert of the last fifth writes itself; `steps`: the number
    of buckets at each size, a size about tenfold the one before."""

    written: int
    p50: float
    files: int
    buckets: int
    steps: Mapping[str, int]


@dataclass
class _Bucket:
    """`dead`: the dead rows of each file."""

    files: dict[str, DataFile] = field(default_factory=dict)
    dead: dict[str, float] = field(default_factory=dict)

    def levels(self) -> Levels:
        return Levels.of(self.files.values(), {name: int(dead) for name, dead in self.dead.items()})

    def live(self, file: DataFile) -> float:
        return file.rows - self.dead[file.name]


@dataclass
class SimulatedTable:
    """A table with this number of buckets; None: `auto`."""

    buckets: int | None
    options: Options
    made: int = 0
    written: int = 0
    trees: dict[Share, _Bucket] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.trees = {Share(number, self.buckets or 1): _Bucket() for number in range(self.buckets or 1)}

    def upsert(self, new: float, updated: float, sequence: int) -> None:
        """One commit with inline compactions."""
        for share, tree in list(self.trees.items()):
            live = sum(map(tree.live, tree.files.values()))
            for name, file in tree.files.items():
                tree.dead[name] += updated / share.total * tree.live(file) / live
            self._add(tree, (new + updated) / share.total, 0, APPEND, sequence)
            levels = tree.levels()
            while compaction := pick(levels, self.options.compaction, now_ms=0):
                steps = plan_task(compaction, levels, target_file_bytes=self.options.files.target_bytes, vectors=True)
                self._remove(tree, steps.dropped)
                tree.files |= {move.file.name: move.file.at_level(move.level) for move in steps.upgrades}
                newest = max(file.sequence for file in compaction.inputs)
                for rewrite in steps.rewrites:
                    rows = sum(map(tree.live, rewrite.files))
                    self._remove(tree, rewrite.files)
                    self._add(tree, rows, compaction.output_level, COMPACT, newest)
                levels = tree.levels()
        if self.buckets is None:
            self.split(_INLINE_BYTES)

    def split(self, most_bytes: int | None = None) -> None:
        """Splits the buckets that are due, as `compact` does; with `most_bytes`, only smaller ones."""
        sizes = {share: sum(run.live_bytes for run in tree.levels().runs) for share, tree in self.trees.items()}
        for step in pick_reshapings(Cover.of(self.trees, "simulated"), sizes, self.options.layout.target_bytes):
            if most_bytes is None or sum(sizes.get(share, 0) for share in step.sources) <= most_bytes:
                for target in step.targets:
                    self.trees[target] = _Bucket()
                for source in step.sources:
                    tree = self.trees.pop(source) if source not in step.targets else self.trees[source]
                    levels, targets = tree.levels(), [self.trees[target] for target in step.targets]
                    older = [file for run in levels.older_runs for file in run.files]
                    for files in [*(run.files for run in levels.level0_runs), older]:
                        if files:
                            self._divide(tree, files, targets)

    def _divide(self, tree: _Bucket, files: Sequence[DataFile], targets: list[_Bucket]) -> None:
        rows, newest = sum(map(tree.live, files)), max(file.sequence for file in files)
        for target in targets:
            self._add(target, rows / len(targets), max(file.level for file in files), COMPACT, newest)

    def _add(self, tree: _Bucket, rows: float, level: int, source: str, sequence: int) -> None:
        count = max(1, round(rows * ROW_BYTES / self.options.files.target_bytes))
        for number in range(count):
            self.made += 1
            own, name = int(rows / count), str(self.made)
            low, high = (number / count,), ((number + 0.5) / count,)
            size = own * ROW_BYTES
            tree.files[name] = DataFile(name, "", size, own, 0, low, high, level, 0, source, 0, sequence, sequence)
            tree.dead[name] = 0.0
            self.written += size

    def _remove(self, tree: _Bucket, files: tuple[DataFile, ...]) -> None:
        for file in files:
            del tree.files[file.name], tree.dead[file.name]


def grown(buckets: int | None, total_bytes: int, commits: int, update_share: float, every: int) -> Grown:
    """Grows a table to `total_bytes` of input.

    Args:
        buckets: the number of buckets; None: auto.
        commits: upserts, each a bit larger than the one before, so that the table is small at first.
        update_share: of the rows of an upsert.
        every: upserts between two calls of `compact`.
    """
    table, own, steps, tenfold = SimulatedTable(buckets, Options.parse({})), [], {}, 1 << 20
    unit, given = total_bytes / ROW_BYTES * 2 / commits / (commits + 1), 0.0
    for number in range(1, commits + 1):
        rows, before = unit * number, table.written
        updated = rows * update_share if number > 1 else 0
        table.upsert(rows - updated, updated, number)
        own.append(table.written - before)
        if number % every == 0 and buckets is None:
            table.split()
        given += rows * ROW_BYTES
        if given >= tenfold or number == commits:
            steps[f"{given / 2**30:.3g} GB"] = len(table.trees)
            tenfold = 10 * given
    files = sum(len(tree.files) for tree in table.trees.values())
    return Grown(table.written, median(own[-commits // 5 :]), files, len(table.trees), steps)
