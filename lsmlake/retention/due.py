"""Which commits are followed by expiry. The number of the snapshot decides, so only one of many concurrent writers expires."""

from __future__ import annotations

from lsmlake.format.snapshot import COMPACT, Snapshot
from lsmlake.options.table_options import Options

_EVERY = 10  # commits


def looks_after(options: Options, snapshot: Snapshot) -> bool:
    """Whether this commit is followed by work at all: in a `write-only` table only compactions are."""
    return not options.write.write_only or snapshot.kind == COMPACT


def expires(options: Options, snapshot: Snapshot) -> bool:
    """Whether tags and snapshots expire after this commit."""
    return looks_after(options, snapshot) and not snapshot.id % _EVERY and options.retention.expire_on_commit
