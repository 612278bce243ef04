"""Finds, in older files outside a compaction, rows with the keys of its level-0 inputs, and marks superseded rows as dead.

The keys are looked up in the files at level >= 1 that are no inputs. A living row that is found and its level-0 row cannot both
stand (invariant I2), and the merge rule says which one does (`Old`): the found row is marked dead, or the level-0 row is - each
in the vector of its own file -, or the found row is marked dead and joins the merge as the oldest row of its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, groupby

import numpy as np
import pyarrow as pa

from lsmlake.compact.work import Work, kinds, own_columns
from lsmlake.format.files import DataFile
from lsmlake.kernels.keys import comparable
from lsmlake.kernels.segments import lengths, of_sorted
from lsmlake.lsm.levels import recency
from lsmlake.lsm.merge.rule import Old
from lsmlake.lsm.merge.runs import distinct
from lsmlake.lsm.merge.windows import RunReader
from lsmlake.lsm.pick import Compaction
from lsmlake.lsm.sections import Section, sections
from lsmlake.schema.rowkind import ERASES
from lsmlake.store.lookup import Hits, fetch, find

_LOOKUP_ROWS = 1 << 22  # level-0 keys looked up at once


@dataclass(frozen=True)
class Joining:
    """Rows found above that are merged with level-0 rows: file name -> positions (ascending), for sets of level-0 files that
    share no key with each other."""

    parts: tuple[tuple[frozenset[str], Mapping[str, np.ndarray]], ...] = ()
    files: Mapping[str, DataFile] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(found for _, found in self.parts)

    def runs(self, work: Work, section: Section) -> list[RunReader]:
        """The rows that are merged with this section, as sorted runs: one a level."""
        names = {file.name for file in section.files}
        found: dict[str, list[np.ndarray]] = {}
        for level0, hits in self.parts:
            if level0 <= names:
                for name, positions in hits.items():
                    found.setdefault(name, []).append(positions)
        files = sorted((self.files[name] for name in found), key=lambda file: (file.level, file.min_key))
        return [_run(work, list(run), found) for _, run in groupby(files, key=lambda file: file.level)]


def _run(work: Work, files: list[DataFile], found: Mapping[str, list[np.ndarray]]) -> RunReader:
    places = {file.name: np.sort(np.concatenate(found[file.name])) for file in files}
    columns = work.schema.columns.names
    rows = (fetch(work.meta, work.schema, file, places[file.name], columns) for file in files)
    return RunReader(chain.from_iterable(rows), sum(map(len, places.values())))


def supersede(work: Work, picked: Compaction) -> Joining:
    """Mark what is dead from now on; returns what joins the merge."""
    inputs = {file.name for file in picked.inputs}
    targets = [file for file in work.files.values() if file.level > 0 and file.name not in inputs]
    waiting = sorted((file for file in picked.inputs if file.level == 0), key=recency, reverse=True)  # oldest first
    if not targets or not waiting:
        return Joining()
    if work.rule.old is Old.JOINS:
        parts = [_joining(work, section.files, targets) for section in sections(waiting)]
        return Joining(tuple(parts), {file.name: file for file in targets})
    if work.rule.old is Old.DIES:
        for keys in _key_batches(work, waiting):
            for name, hits in find(work.meta, work.schema, keys, targets).items():
                work.mark(name, hits.positions)
    else:
        for file in sorted(waiting, key=recency, reverse=True):  # oldest first: what one file erases no later one meets
            _contest(work, file, targets)
    return Joining()


def _alive(work: Work, keys: pa.Table, targets: Iterable[DataFile]) -> Iterator[tuple[str, Hits]]:
    repeats = work.rule.repeats_keys
    for name, hits in find(work.meta, work.schema, keys, list(targets), repeats=repeats).items():
        standing = hits.where(work.vector(name).alive(hits.positions))
        if len(standing.positions):
            yield name, standing


def _joining(
    work: Work, files: Iterable[DataFile], targets: Iterable[DataFile]
) -> tuple[frozenset[str], Mapping[str, np.ndarray]]:
    found: dict[str, np.ndarray] = {}
    for keys in _key_batches(work, files):
        for name, hits in _alive(work, keys, targets):
            found[name] = np.union1d(found[name], hits.positions) if name in found else hits.positions
    for name, positions in found.items():
        work.mark(name, positions)
    return frozenset(file.name for file in files), found


def _contest(work: Work, file: DataFile, targets: list[DataFile]) -> None:
    """Either the level-0 rows of a key stand or the older row: by sequence, or always the older row. Of several level-0 rows the
    first has the greatest sequence and decides for
    all; it always stands if it erases its key."""
    sequence = work.rule.sequence
    rows = work.rows(file, own_columns(work.schema))
    starts = of_sorted(comparable([rows.select(work.schema.key)])[0])
    erases = (kinds(work, file) & ERASES)[starts] if file.delete_rows else np.zeros(len(starts), np.int8)
    deciding = rows.take(pa.array(starts)) if len(starts) < rows.num_rows else rows
    above = {target.name: target for target in targets}
    for name, hits in _alive(work, deciding.select(work.schema.key), targets):
        if work.rule.old is Old.STAYS:
            stands = np.zeros(len(hits.keys), bool)
        else:
            found = fetch(work.meta, work.schema, above[name], hits.positions, sequence.columns)
            stands = sequence.stand(deciding.take(pa.array(hits.keys)), pa.concat_tables(found))
        stands |= erases[hits.keys] != 0
        work.mark(name, hits.positions[stands])
        lost = np.zeros(len(starts), bool)
        lost[hits.keys[~stands]] = True
        work.mark(file.name, np.flatnonzero(np.repeat(lost, lengths(starts, rows.num_rows))))


def _key_batches(work: Work, files: Iterable[DataFile]) -> Iterator[pa.Table]:
    """The keys of level-0 files, ascending and unique in each batch."""
    batch: list[pa.Table] = []
    for file in files:
        batch.append(work.rows(file, work.schema.key))
        if sum(keys.num_rows for keys in batch) >= _LOOKUP_ROWS:
            yield _distinct(work, batch)
            batch = []
    if batch:
        yield _distinct(work, batch)


def _distinct(work: Work, batch: list[pa.Table]) -> pa.Table:
    if len(batch) == 1 and not work.rule.repeats_keys:
        return batch[0]
    return distinct(batch)
