"""Runs a sync in this process: takes the batches of a source one after the other, and remembers what is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.api.sync.database_sync import DatabaseSync
from lsmlake.api.sync.sync_checkpoint import SyncCheckpoint, SyncProgress
from lsmlake.api.sync.sync_report import SyncReport, together
from lsmlake.api.sync.sync_source import Source
from lsmlake.api.sync.table_sync import REFUSALS
from lsmlake.cdc.routed_events import routed
from lsmlake.errors import CommitConflict


@dataclass(frozen=True)
class SyncRun:
    """A sync in this process. `checkpoint`: None: it remembers nothing, so that each call applies all batches."""

    database: DatabaseSync
    source: Source
    checkpoint: SyncCheckpoint | None

    def once(self) -> SyncReport:
        """Applies all batches that are there and not done. Raises a LakeError; what was done before stays."""
        env, done = self.database.lake.env, SyncReport()
        if self.checkpoint is None:
            writer, progress = f"sync-{env.ids()}", SyncProgress()
        else:
            rules = self.database.rules
            writer = self.checkpoint.writer(env, rules.database, rules.format.name)
            progress = self.checkpoint.progress()
        if progress.open is not None and (events := self.source.again(progress.open)) is not None:
            done = self._applied(done, events, writer, progress)
        for batch in self.source.batches(progress):
            number = progress.last + 1 if batch.number is None else batch.number
            if progress.open is None or batch.number is None:
                self._begin(number, batch.reads)
            progress.known.update(batch.reads)
            progress.last, progress.open = number, batch.reads
            done = self._applied(done, batch.events, writer, progress)
        return done

    def _begin(self, number: int, reads: Mapping[str, object]) -> None:
        if self.checkpoint is not None and not self.checkpoint.begin(number, reads):
            raise CommitConflict(
                "another process has begun this batch",
                where=f"batch {number} of the checkpoint",
                expected="one sync per checkpoint",
                cure="call it again: it goes on after the batches of the other one; or give each a checkpoint of its own",
            )

    def _applied(self, done: SyncReport, events: pa.Table, writer: str, progress: SyncProgress) -> SyncReport:
        """Applies the open batch."""
        try:
            report = self.database.apply(routed(events, self.database.rules.format), writer, progress.last)
        except REFUSALS as error:
            if not (place := self.source.place(progress.open or {})):
                raise
            placed = error.changed(where=", ".join(filter(None, (place, str(error.where)))))
            for note in getattr(error, "__notes__", ()):
                placed.add_note(note)
            raise placed from error.__cause__
        if self.checkpoint is not None:
            self.checkpoint.finish(progress.last, progress.known)
        progress.open = None
        return together(done, report)
