"""The verbs that find damage and repair it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from lsmlake.api.public_types import RepairAction
from lsmlake.api.table_verbs.handle import Handle
from lsmlake.border import verbs_of
from lsmlake.iceberg.mirror_repair import repair_iceberg
from lsmlake.maintain.repair import RepairReport, repair
from lsmlake.maintain.repair_snapshots import SnapshotRepairReport, repair_snapshots
from lsmlake.maintain.verify import verify
from lsmlake.tables.finding import Finding


@verbs_of("Table")
class Repairs(Handle):
    """The verbs that find damage and repair it."""

    def repair(self, *, action: RepairAction | None = None, keys: Sequence[Mapping[str, object]] | None = None) -> RepairReport:
        """Find rows that cannot be merged with the older rows of their key, and remove them.

        Some faults, such as a sum beyond the range of its type, show only when rows are merged. A table that its writers do not
        compact may have accepted such a row. Every scan and compaction of the bucket then fails until the row is removed. Like a
        full compaction, repair merges all rows of such a bucket.

        Args:
            action: 'drop' removes the rows at fault. 'null' sets their columns at fault to null; their other columns still count,
                so 'null' may have to change more rows than 'drop'. None lists the rows that 'drop' would remove and changes
                nothing. Other rows of the key stay as they are.
            keys: repair only these keys, each a dict of the primary key columns. Default: all keys.

        Returns:
            The rows at fault, and the snapshot that removed them. Column `row` of the listing holds the key and the columns at
            fault. Changelogs that were written with these rows still contain them.

        Raises:
            CommitConflict: compactions came first on every attempt.
            InvalidQuery: 'null' cannot repair a row.
        """
        return repair(self.version, action, keys, self.name)

    def repair_iceberg(self) -> list[Finding]:
        """Compare all Iceberg metadata with the table, and make it anew if something is wrong: a file of it is damaged or
        missing, or shows something else than the table.

        A publication notices only damage of files that it reads. This reads all of them, as `verify` does, but no data file. Rows
        get new row ids. A catalog that the option `metadata.iceberg.catalog` names registers the table anew.

        Returns:
            What was wrong; empty if nothing was, or the table was never published.

        Raises:
            As `publish_iceberg`.
        """
        return repair_iceberg(self.meta)

    def repair_snapshots(self, *, roll_back_to: int | None = None, drop: Collection[int] = ()) -> SnapshotRepairReport:
        """Find damaged snapshots; with consent, roll back to the newest sound one and drop unreadable ones.

        Without arguments the snapshots are examined, the newest first, until one is sound, and nothing is changed. A snapshot is
        'unreadable' if its own file is damaged: then no program can read or write the table. It is 'damaged' if a file that it
        names is. Use this if a damaged file cannot be restored from a copy.

        Args:
            roll_back_to: the newest sound snapshot, as a report without arguments names it. Its rows become the rows of the table
                again, as a new snapshot. Rows and commits after it are lost where their snapshots are unreadable.
            drop: unreadable snapshots to remove.

        Returns:
            The state of the examined snapshots, and what was done.

        Raises:
            InvalidQuery: the arguments name other snapshots than those found. Nothing was changed.
            CommitConflict: another commit came first.
        """
        return repair_snapshots(self.meta, roll_back_to, tuple(drop), self.name)

    def verify(self) -> list[Finding]:
        """Check all invariants and checksums of all snapshots, tags and branches, and Iceberg metadata, where it is published.
        Reads all files.

        Returns:
            One finding per violation, with the damaged or missing file, and the snapshots, tags and branches that need it; empty
            if nothing is wrong.

        Example:
            >>> orders.verify()
            [Finding(where='sales.db/orders/bucket-0/data-5f0c.parquet', what='data file is missing', snapshots=(3, 4), ...)]
        """
        return verify(self.meta)
