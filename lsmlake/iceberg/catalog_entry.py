"""The table in the catalog of Iceberg that its options name, while it is renamed or dropped.

1. Before: check whether the catalog has this table, or another one of its name. This cannot be checked afterwards, since the
   metadata file that the catalog names no longer exists.
2. The table is renamed or dropped.
3. Remove it from the catalog. Publish a renamed table again, which registers it: all of its addresses have changed.

Errors are logged, never raised.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from lsmlake.iceberg import catalog, mirror, table_metadata
from lsmlake.iceberg.catalog_backoff import waiting_for
from lsmlake.iceberg.published import is_published, uri_of
from lsmlake.tables.version import Metadata, Version
from lsmlake.undo import pass_interruption

_log = logging.getLogger("lsmlake.iceberg")


@dataclass(frozen=True)
class CatalogEntry:
    """A table under its name in a catalog. `root`: the folder of the table, for messages. `clock`: of its environment."""

    root: str
    clock: Callable[[], int]
    catalog: str
    name: str

    @classmethod
    def of(cls, meta: Metadata) -> CatalogEntry | None:
        """Step 1. Returns None if the options name no catalog, or if the catalog lacks this table or has another one of its name.
        One request if the table was never published."""
        try:
            if not is_published(meta):
                return None
            options = Version.latest(meta).options.iceberg
            if options.catalog is None:
                return None
            entry = cls(meta.paths.root, meta.env.clock, options.catalog, mirror.name_in_catalog(meta, options))
            own = table_metadata.uuid_of(meta.paths.table_uuid), uri_of(meta, meta.paths.root)
            with waiting_for(entry.catalog, entry.clock) as seconds:
                return entry if catalog.has(entry.catalog, entry.name, *own, seconds) else None
        except Exception as failed:
            pass_interruption(failed)
            _warn(meta.paths.root, "the table may remain in a catalog of Iceberg; then drop it there, without its files", failed)
            return None

    def remove(self) -> None:
        """Removes the table from the catalog (step 3)."""
        try:
            with waiting_for(self.catalog, self.clock) as seconds:
                catalog.remove(self.catalog, self.name, seconds)
        except Exception as failed:
            pass_interruption(failed)
            _warn(
                self.root, f"the table remains in the catalog {self.catalog} of Iceberg; drop it there, without its files", failed
            )


def publish_moved(meta: Metadata) -> None:
    """Step 3: publish a renamed table, if it was published. Otherwise one request."""
    try:
        mirror.bring_up_to_date(meta)
    except Exception as failed:
        pass_interruption(failed)
        _warn(meta.paths.root, "Iceberg metadata was not brought up to date after the table was renamed", failed)


def _warn(root: str, what: str, failed: Exception) -> None:
    _log.warning("%s: %s: %s", root, what, failed)
