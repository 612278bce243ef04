"""A snapshot: one published state of a table, a small JSON file that names its manifest lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from lsmlake.notebook import Shown
from lsmlake.schema import envelope
from lsmlake.schema.shape import NAMED, TEXT, check, integer, mapping, one_of, optional

APPEND, COMPACT, OVERWRITE, ANALYZE = "APPEND", "COMPACT", "OVERWRITE", "ANALYZE"


_KINDS = {
    "id": integer(1),
    "table_uuid": TEXT,
    "schema_id": integer(0, 1 << 31),
    "base_manifest_list": NAMED,
    "delta_manifest_list": NAMED,
    "index_manifest": optional(NAMED),
    "writer_id": TEXT,
    "commit_id": optional(integer()),
    "kind": one_of(APPEND, COMPACT, OVERWRITE, ANALYZE),
    "time_ms": integer(0, 1 << 53),
    "total_rows": integer(),
    "delta_rows": integer(),
    "changelog_manifest_list": optional(NAMED),
    "changelog_rows": integer(),
    "watermark": optional(integer(-(1 << 63))),
    "statistics": optional(TEXT),
    "writers": mapping(integer()),
    "queries": mapping(TEXT),
    "properties": mapping(TEXT),
}


class Named(NamedTuple):
    """A metadata file: its name and exact size."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Snapshot(Shown):
    """State `id` of the table `table_uuid`. The live set is the fold of the manifests in `base_manifest_list`, then
    `delta_manifest_list`.

    `writer_id` and `commit_id` identify the commit, so that a replay is recognised. `writers`: the highest commit id of each
    writer that passes one, for replays of older commits. `queries`: by writer, the id of the streaming query that uses a named
    writer; "" if Spark does not report the query. `total_rows`: rows in live files less those marked as deleted; level-0 rows
    count even if they supersede others. `delta_rows`: rows written by this commit. Times are milliseconds since the epoch.
    """

    id: int
    table_uuid: str = field(repr=False)
    schema_id: int
    base_manifest_list: Named = field(repr=False)
    delta_manifest_list: Named = field(repr=False)
    index_manifest: Named | None = field(repr=False)
    writer_id: str
    commit_id: int | None
    kind: str
    time_ms: int
    total_rows: int
    delta_rows: int
    changelog_manifest_list: Named | None = field(default=None, repr=False)
    changelog_rows: int = 0
    watermark: int | None = field(default=None, repr=False)
    statistics: str | None = field(default=None, repr=False)
    writers: Mapping[str, int] = field(default_factory=dict, repr=False)
    queries: Mapping[str, str] = field(default_factory=dict, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def encode(self) -> bytes:
        return envelope.wrap_json("snapshot", asdict(self))

    @staticmethod
    def decode(data: bytes, where: str) -> Snapshot:
        """Decodes a snapshot file. Raises Corrupt or UnsupportedFormat naming `where`."""
        content = envelope.unwrap_json("snapshot", data, where)
        check("snapshot", content, _KINDS, where)
        for name in ("base_manifest_list", "delta_manifest_list", "index_manifest", "changelog_manifest_list"):
            content[name] = Named(*content[name]) if content[name] else None
        return Snapshot(**content)
