"""Compares compaction strategies for a table with deletion vectors: simulates years of commits on one bucket without data.

A file is an array of keys; a row is live if the array `owner` names its file. Each batch is one commit: some keys are
updated, some are new at the end of the key space; then compactions run until `pick` returns none. The strategies are those of
the library; only their execution is simulated.

    python bench/tiers.py [scale]

All sizes are multiplied by `scale` (default 0.1); the outcome hardly depends on it. Columns: bytes written (the batches
themselves included) over bytes of the batches; sorted runs after a batch, maximum and mean; dead rows over live rows,
maximum and mean; files, maximum.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from lsmlake.format.data_files import APPEND, COMPACT, DataFile
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick import Compaction, last_level_of, pick, plan_task
from lsmlake.options.compaction_options import TIERED, UNIVERSAL, CompactionOptions

ROW_BYTES = 50
TARGET_BYTES = 128 << 20


@dataclass(frozen=True)
class Outcome:
    """The costs of a strategy; see the columns in the module's docstring."""

    written: float
    runs_max: int
    runs_mean: float
    dead_max: float
    dead_mean: float
    files_max: int


@dataclass
class Bucket:
    """The simulated bucket. `keys[name]` are the sorted keys of a file, `owner[key]` the number of the file with its live row."""

    owner: np.ndarray
    target_rows: int
    files: dict[str, DataFile] = field(default_factory=dict)
    keys: dict[str, np.ndarray] = field(default_factory=dict)
    written: int = 0
    made: int = 0

    def add(self, keys: np.ndarray, level: int, source: str, sequence: int) -> None:
        """Write sorted `keys` as files of the target size; older rows of these keys die."""
        for start in range(0, len(keys), self.target_rows):
            own = keys[start : start + self.target_rows]
            name, self.made = str(self.made), self.made + 1
            first, last = (int(own[0]),), (int(own[-1]),)
            self.files[name] = DataFile(
                name, "bucket-0", len(own) * ROW_BYTES, len(own), 0, first, last, level, 0, source, 0, sequence, sequence
            )
            self.keys[name] = own
            self.owner[own] = int(name)
        self.written += len(keys)

    def remove(self, files: Iterable[DataFile]) -> None:
        for file in files:
            del self.files[file.name], self.keys[file.name]

    def live(self, file: DataFile) -> np.ndarray:
        own = self.keys[file.name]
        return own[self.owner[own] == int(file.name)]

    def levels(self) -> Levels:
        alive = np.bincount(self.owner[self.owner >= 0], minlength=self.made)
        return Levels.of(self.files.values(), {name: file.rows - int(alive[int(name)]) for name, file in self.files.items()})

    def obey(self, compaction: Compaction, levels: Levels) -> None:
        """What the executor would do with `compaction`."""
        sequence = max(file.sequence for file in compaction.inputs)
        steps = plan_task(compaction, levels, target_file_bytes=self.target_rows * ROW_BYTES, vectors=True)
        self.remove(steps.dropped)
        self.files.update((move.file.name, move.file.at_level(move.level)) for move in steps.upgrades)
        for rewrite in steps.rewrites:
            keys = np.sort(np.concatenate([self.live(file) for file in rewrite.files]), kind="stable")
            self.remove(rewrite.files)
            self.add(keys, compaction.output_level, COMPACT, sequence)


def simulate(
    strategy: CompactionOptions,
    live_rows: int,
    batch_rows: int,
    batches: int,
    update_share: float,
    skew: float,
    seed: int,
    target_rows: int = TARGET_BYTES // ROW_BYTES,
) -> Outcome:
    """Run `batches` commits of `batch_rows` rows on a bucket that starts as one run of `live_rows`.

    An update takes the key a fraction u**skew of all keys away from the newest, u uniform: skew 1 updates all keys alike, 4
    mostly recent ones.
    """
    random = np.random.default_rng(seed)
    updates = int(batch_rows * update_share)
    inserts = batch_rows - updates
    bucket = Bucket(np.full(live_rows + inserts * batches, -1, np.int64), target_rows)
    bucket.add(np.arange(live_rows), last_level_of(strategy, Levels()), COMPACT, 0)
    loaded = bucket.written
    given, seen = 0, []
    for sequence in range(1, batches + 1):
        known = live_rows + inserts * (sequence - 1)
        old = known - 1 - (known * random.random(updates) ** skew).astype(np.int64)
        batch = np.unique(np.concatenate([old, np.arange(known, known + inserts)]))
        given += len(batch)
        bucket.add(batch, 0, APPEND, sequence)
        levels = bucket.levels()
        while compaction := pick(levels, strategy, now_ms=0):
            bucket.obey(compaction, levels)
            levels = bucket.levels()
        assert not levels.check(), levels.check()
        seen.append((len(levels.runs), levels.dead_rows / levels.live_rows, len(levels.files)))
    runs, dead, files = map(np.array, zip(*seen, strict=True))
    written = (bucket.written - loaded) / given
    return Outcome(written, int(runs.max()), float(runs.mean()), float(dead.max()), float(dead.mean()), int(files.max()))


def contenders() -> Iterator[tuple[str, CompactionOptions]]:
    yield "universal(5)", CompactionOptions(strategy=UNIVERSAL, num_levels=6)
    for runs in (4, 6, 8, 12):
        for percent in (100, 70, 50, 30):
            name = f"tiered({runs}) reclaim {percent} %"
            yield name, CompactionOptions(TIERED, tier_runs=runs, reclaim_dead_percent=percent, reclaim_bucket_share=1.0)
        for share in (0.3, 0.2):
            name = f"tiered({runs}) reclaim 50 %, bucket {share:.0%}"
            yield name, CompactionOptions(TIERED, tier_runs=runs, reclaim_bucket_share=share)


def main(scale: float) -> None:
    for live_rows, batches, skew in ((1_000_000, 200, 1), (4_000_000, 1_000, 1), (1_000_000, 200, 4), (4_000_000, 1_000, 4)):
        kind = "all keys alike" if skew == 1 else "mostly recent keys"
        print(f"\n{live_rows / 1e6:g} M rows, {batches} batches of 25 k, 80 % updates of {kind}; scale {scale:g}")
        print(f"{'strategy':36} {'written':>7} {'runs':>5} {'mean':>5} {'dead':>5} {'mean':>5} {'files':>5}")
        for name, strategy in contenders():
            scaled = replace(strategy, small_run_bytes=int(strategy.small_run_bytes * scale))
            rows = [int(number * scale) for number in (live_rows, 25_000, TARGET_BYTES / ROW_BYTES)]
            found = simulate(scaled, rows[0], rows[1], batches, 0.8, skew, seed=1, target_rows=rows[2])
            print(
                f"{name:36} {found.written:7.2f} {found.runs_max:5} {found.runs_mean:5.1f}"
                f" {found.dead_max:5.2f} {found.dead_mean:5.2f} {found.files_max:5}",
                flush=True,
            )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.1)
