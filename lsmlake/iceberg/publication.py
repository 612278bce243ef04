"""Keeps the Iceberg metadata of a table in step with it: after commits, after changes of tags and branches, before deletions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lsmlake.format.snapshot import Snapshot
from lsmlake.iceberg import mirror
from lsmlake.iceberg.published import Kept, is_published
from lsmlake.storage.env import Follower
from lsmlake.tables.metadata import Metadata
from lsmlake.tables.version import Version


class Publication(Follower):
    """Publishes Iceberg metadata if the options of the table say so."""

    failed = "Iceberg metadata was not brought up to date"

    def after_commit(self, version: Version, snapshot: Snapshot) -> None:
        if version.options.iceberg.enabled:
            meta = version.meta
            mirror.publish(meta if meta.paths.branch is None else meta.on(None))

    def after_names(self, meta: Metadata) -> None:
        """One request if the table was never published."""
        main = meta.on(None)
        if is_published(main) and Version.latest(main).options.iceberg.enabled:
            mirror.publish(main)

    def before_deletion(self, meta: Metadata) -> None:
        mirror.bring_up_to_date(meta)

    def references(self, meta: Metadata) -> Callable[[], Iterable[str]]:
        return Kept(meta).new
