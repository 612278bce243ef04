"""Writes of prepared rows to a version that a test has chosen, below the verbs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lsmlake.commit.request import Identity
from lsmlake.compact.bucket_compaction import Picker
from lsmlake.format.data_files import CommitMessage
from lsmlake.format.snapshot import Snapshot
from lsmlake.tables.version import Version
from lsmlake.write import write
from lsmlake.write.replace import Replacement
from lsmlake.write.write_request import WriteRequest


def upsert_rows(
    version: Version, rows: pa.Table, identity: Identity, pick: Picker | None, replaces: Replacement | None = None
) -> Snapshot | None:
    return write.write_parts(version, [write.Part.of(rows)], WriteRequest(identity, replaces=replaces), pick)


def publish(
    version: Version, messages: Sequence[CommitMessage], identity: Identity, replaces: Replacement | None = None
) -> Snapshot | None:
    return write.publish(version, messages, WriteRequest(identity, replaces=replaces))
