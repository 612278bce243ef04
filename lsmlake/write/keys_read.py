"""The rows of a primary-key table that a statement read, by key, so that a commit can check that no other commit wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.commit.requirements import Overtaken
from lsmlake.format.files import Bucket
from lsmlake.format.snapshot import APPEND, COMPACT
from lsmlake.kernels.keys import comparable
from lsmlake.predicate import Predicate, evaluate
from lsmlake.read.plan import plan
from lsmlake.store.version import Version
from lsmlake.write.append import by_bucket


class KeysRead:
    """The keys of the rows that a statement read at `base`, and the predicate that chose them. Memory: the keys."""

    def __init__(self, base: Version, predicate: Predicate | None, serializable: bool) -> None:
        self.base, self.predicate, self.serializable = base, predicate, serializable
        self._keys: list[pa.Table] = []

    @property
    def rows(self) -> int:
        return sum(keys.num_rows for keys in self._keys)

    def noting(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Passes rows on and keeps their keys."""
        for table in tables:
            self.note(table)
            yield table

    def note(self, rows: pa.Table) -> None:
        """Keeps the keys of rows."""
        self._keys.append(rows.select(list(self.base.schema.primary_key)))

    def check(self, now: Version) -> None:
        """Raises Overtaken if a commit after `base` wrote one of the keys, removed rows otherwise than by key or, if the
        statement is serializable, wrote a row that satisfies the predicate."""
        base = self.base
        if not _appended(base, now):
            return
        if self.serializable:
            check_no_new_rows(base, now, self.predicate)
        keys = pa.concat_tables(self._keys) if self._keys else None
        if keys is None:
            return
        parts = dict(by_bucket(keys, base.schema))
        for bucket, state in now.states(parts, statistics=False).items():
            new = [file for file in state.files if file.sequence > base.number]
            if not new:
                continue
            own = parts[bucket].select(list(base.schema.key))
            own = own.take(pa.array(np.argsort(comparable([own])[0], kind="stable")))
            if now.files(bucket).find(own, new, repeats=True):
                raise Overtaken


@dataclass(frozen=True)
class BucketsRead:
    """The buckets that a statement read at `base`, for a statement whose keys are in other processes. Any row that another commit
    wrote to them overtakes the statement. `buckets`: None: all."""

    base: Version
    predicate: Predicate | None
    serializable: bool
    buckets: frozenset[Bucket] | None

    def check(self, now: Version) -> None:
        """As `KeysRead.check`."""
        if not _appended(self.base, now):
            return
        if self.buckets is None:
            raise Overtaken
        if self.serializable:
            check_no_new_rows(self.base, now, self.predicate)
        for state in now.states(self.buckets, statistics=False).values():
            if any(file.sequence > self.base.number for file in state.files):
                raise Overtaken


def _appended(base: Version, now: Version) -> bool:
    """Whether commits after `base` wrote rows. Raises Overtaken if they changed rows otherwise, or the schema."""
    if now.schema.id != base.schema.id:
        raise Overtaken
    kinds = {base.meta.snapshots.get(number).kind for number in range(base.number + 1, now.number + 1)}
    if kinds <= {COMPACT}:
        return False
    if kinds - {COMPACT, APPEND}:
        raise Overtaken
    return True


def check_no_new_rows(base: Version, now: Version, predicate: Predicate | None) -> None:
    """Raises Overtaken if commits after `base` wrote rows that satisfy the predicate, whether or not these are merged with
    others."""
    found = plan(now, predicate)
    names = sorted(predicate.columns) if predicate else []
    for split in found.splits:
        files = now.files(split.bucket)
        for file in (*split.files, *split.level0, *split.merged):
            if file.sequence <= base.number:
                continue
            if not names:
                raise Overtaken
            with files.open(file) as reader:
                if any(evaluate(predicate, chunk.table).any() for chunk in reader.chunks(names)):
                    raise Overtaken
