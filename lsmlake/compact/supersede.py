"""Finds, in older files outside a compaction, rows with the keys of its level-0 inputs, and marks the superseded ones as deleted.

The keys are looked up in the files at level >= 1 outside the inputs. Only one of a level-0 row and the live row found for it may
remain live (invariant I2). The merge rule (`OldRow`) decides: the found row is marked as deleted, or the level-0 row is, each in
the vector of its own file; or the found row is marked and merged as the oldest row of its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, groupby

import numpy as np
import pyarrow as pa

from lsmlake.compact.compaction_state import CompactionState, kinds, lookup_columns
from lsmlake.files.bucket_files import Hits
from lsmlake.format.data_files import DataFile
from lsmlake.kernels.keys import comparable
from lsmlake.kernels.segments import lengths, of_sorted
from lsmlake.lsm.levels import Section, recency, sections
from lsmlake.lsm.merge.merge_windows import RunReader
from lsmlake.lsm.merge.rule import OldRow, distinct
from lsmlake.lsm.pick import Compaction
from lsmlake.schema.rowkind import ERASES


@dataclass(frozen=True)
class OldRows:
    """Old rows that are merged with level-0 rows. Each part is a set of level-0 files and the positions of the old rows of their
    keys by file name, ascending; the parts share no key."""

    parts: tuple[tuple[frozenset[str], Mapping[str, np.ndarray]], ...] = ()
    files: Mapping[str, DataFile] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(positions for _, positions in self.parts)

    def runs(self, work: CompactionState, section: Section) -> list[RunReader]:
        """Returns the old rows that are merged with this section, one sorted run per level."""
        names = {file.name for file in section.files}
        positions_by_file: dict[str, list[np.ndarray]] = {}
        for level0, hits in self.parts:
            if level0 <= names:
                for name, positions in hits.items():
                    positions_by_file.setdefault(name, []).append(positions)
        files = sorted((self.files[name] for name in positions_by_file), key=lambda file: (file.level, file.min_key))
        return [_run(work, list(run), positions_by_file) for _, run in groupby(files, key=lambda file: file.level)]


def _run(work: CompactionState, files: list[DataFile], positions: Mapping[str, list[np.ndarray]]) -> RunReader:
    places = {file.name: np.sort(np.concatenate(positions[file.name])) for file in files}
    columns = work.schema.columns.names
    rows = (work.bucket_files.fetch(file, places[file.name], columns) for file in files)
    return RunReader(chain.from_iterable(rows), sum(map(len, places.values())))


def supersede(work: CompactionState, picked: Compaction) -> OldRows:
    """Marks superseded rows as deleted; returns the old rows that are merged with the inputs."""
    inputs = {file.name for file in picked.inputs}
    targets = [file for file in work.files.values() if file.level > 0 and file.name not in inputs]
    level0 = sorted((file for file in picked.inputs if file.level == 0), key=recency, reverse=True)  # oldest first
    if not targets or not level0:
        return OldRows()
    if work.rule.old_row is OldRow.MERGED:
        parts = [_old_rows(work, section.files, targets) for section in sections(level0)]
        return OldRows(tuple(parts), {file.name: file for file in targets})
    if work.rule.old_row is OldRow.REPLACED:
        for keys in _key_batches(work, level0):
            hits_by_file = work.bucket_files.find(keys, targets)
            work.load_vectors(hits_by_file)
            for name, hits in hits_by_file.items():
                work.mark(name, hits.positions)
    else:
        for file in level0:  # oldest first: a row that one file erases is not found for a newer file
            _keep_one(work, file, targets)
    return OldRows()


def _find_live(work: CompactionState, keys: pa.Table, targets: Iterable[DataFile]) -> Iterator[tuple[str, Hits]]:
    repeats = work.rule.repeats_keys
    hits_by_file = work.bucket_files.find(keys, list(targets), repeats=repeats)
    work.load_vectors(hits_by_file)
    for name, hits in hits_by_file.items():
        live = hits.where(work.vector(name).live_mask(hits.positions))
        if len(live.positions):
            yield name, live


def _old_rows(
    work: CompactionState, files: Iterable[DataFile], targets: Iterable[DataFile]
) -> tuple[frozenset[str], Mapping[str, np.ndarray]]:
    positions_by_file: dict[str, np.ndarray] = {}
    for keys in _key_batches(work, files):
        for name, hits in _find_live(work, keys, targets):
            positions_by_file[name] = (
                np.union1d(positions_by_file[name], hits.positions) if name in positions_by_file else hits.positions
            )
    for name, positions in positions_by_file.items():
        work.mark(name, positions)
    return frozenset(file.name for file in files), positions_by_file


def _keep_one(work: CompactionState, file: DataFile, targets: list[DataFile]) -> None:
    """Keeps either the level-0 rows of a key or the old row, by sequence (BY_SEQUENCE) or always the old row (KEPT). The first of
    several level-0 rows of a key has the greatest sequence and decides. An erasing row always wins."""
    sequence = work.rule.sequence
    rows = work.rows(file, lookup_columns(work.schema))
    starts = of_sorted(comparable([rows.select(work.schema.key)])[0])
    erases = (kinds(work, file) & ERASES)[starts] if file.delete_rows else np.zeros(len(starts), np.int8)
    first = rows.take(pa.array(starts)) if len(starts) < rows.num_rows else rows
    files = {target.name: target for target in targets}
    for name, hits in _find_live(work, first.select(work.schema.key), targets):
        if work.rule.old_row is OldRow.KEPT:
            wins = np.zeros(len(hits.keys), bool)
        else:
            old_rows = work.bucket_files.fetch(files[name], hits.positions, sequence.columns)
            wins = sequence.on_time(first.take(pa.array(hits.keys)), pa.concat_tables(old_rows))
        wins |= erases[hits.keys] != 0
        work.mark(name, hits.positions[wins])
        loses = np.zeros(len(starts), bool)
        loses[hits.keys[~wins]] = True
        work.mark(file.name, np.flatnonzero(np.repeat(loses, lengths(starts, rows.num_rows))))


def _key_batches(work: CompactionState, files: Iterable[DataFile]) -> Iterator[pa.Table]:
    """Yields the keys of level-0 files in batches, ascending and unique in each batch."""
    batch: list[pa.Table] = []
    for file in files:
        batch.append(work.rows(file, work.schema.key))
        if sum(keys.num_rows for keys in batch) >= work.meta.env.limits.lookup_rows:
            yield _distinct(work, batch)
            batch = []
    if batch:
        yield _distinct(work, batch)


def _distinct(work: CompactionState, batch: list[pa.Table]) -> pa.Table:
    if len(batch) == 1 and not work.rule.repeats_keys:
        return batch[0]
    return distinct(batch)
