"""A snapshot: one published state of a table, a small JSON file that names its manifest lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from lsmlake.notebook import Shown
from lsmlake.schema import envelope
from lsmlake.types.json_shape import NAMED, TEXT, JsonKind, check, integer, mapping, one_of, optional

APPEND, COMPACT, OVERWRITE, ANALYZE = "APPEND", "COMPACT", "OVERWRITE", "ANALYZE"
_NAMED_OR_NONE = optional(NAMED)


class SourcePosition(NamedTuple):
    """The state of a source of a view table that the rows come from: `snapshot` of the table `table_uuid`, 0 before its first
    snapshot, with the schema `schema_id`."""

    table_uuid: str
    snapshot: int
    schema_id: int


def _is_source(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3 and TEXT.fits(value[0]) and all(map(integer(0).fits, value[1:]))


_KINDS = {
    "id": integer(1),
    "table_uuid": TEXT,
    "schema_id": integer(0, 1 << 31),
    "base_manifest_list": NAMED,
    "delta_manifest_list": NAMED,
    "index_manifest": _NAMED_OR_NONE,
    "writer_id": TEXT,
    "commit_id": optional(integer()),
    "kind": one_of(APPEND, COMPACT, OVERWRITE, ANALYZE),
    "time_ms": integer(0, 1 << 53),
    "total_rows": integer(),
    "delta_rows": integer(),
    "changelog_manifest_list": _NAMED_OR_NONE,
    "changelog_rows": integer(),
    "watermark": optional(integer(-(1 << 63))),
    "statistics": _NAMED_OR_NONE,
    "writers": mapping(integer()),
    "queries": mapping(TEXT),
    "properties": mapping(TEXT),
    "restores": optional(integer(1)),
    "last_rollback": optional(integer(1)),
    "position": optional(mapping(JsonKind("a source of a view table", _is_source))),
}
_WRITER_SHOWN = 36
_MAY_LACK = ("restores", "last_rollback", "position")


class NamedFile(NamedTuple):
    """A metadata file: its name and exact size."""

    name: str
    bytes: int


@dataclass(frozen=True, repr=False)
class Snapshot(Shown):
    """State `id` of the table `table_uuid`. The live set is the fold of the manifests in `base_manifest_list`, then
    `delta_manifest_list`.

    Attributes:
        id: the number of the snapshot, from 1 on.
        schema_id: the schema in effect.
        writer_id: the writer of the commit; with `commit_id` it identifies the commit, so that a replay is recognised.
        commit_id: the number that the writer gave the commit; None without one.
        kind: the kind of commit, such as an append or a compaction.
        time_ms: when the commit was made, in milliseconds since the epoch.
        total_rows: rows in live files less those marked as deleted; level-0 rows count even if they supersede others.
        delta_rows: rows written by this commit.
        writers: the highest commit id of each writer that gives commit ids, to recognise replays of older commits.
        queries: for each named writer, the id of the streaming query that uses it; "" if Spark does not report the query.
        restores: the older snapshot whose rows a rollback restored; None: this snapshot is not a rollback.
        last_rollback: the newest rollback before this snapshot; None if there was no rollback.
        position: of a view table that was refreshed: the sources of its query -> the state that the rows come from; of a history,
            its source.
    """

    id: int
    table_uuid: str = field(repr=False)
    schema_id: int
    base_manifest_list: NamedFile = field(repr=False)
    delta_manifest_list: NamedFile = field(repr=False)
    index_manifest: NamedFile | None = field(repr=False)
    writer_id: str
    commit_id: int | None
    kind: str
    time_ms: int
    total_rows: int
    delta_rows: int
    changelog_manifest_list: NamedFile | None = field(default=None, repr=False)
    changelog_rows: int = 0
    watermark: int | None = field(default=None, repr=False)
    statistics: NamedFile | None = field(default=None, repr=False)
    writers: Mapping[str, int] = field(default_factory=dict, repr=False)
    queries: Mapping[str, str] = field(default_factory=dict, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    restores: int | None = field(default=None, repr=False)
    last_rollback: int | None = field(default=None, repr=False)
    position: Mapping[str, SourcePosition] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        writer = self.writer_id if len(self.writer_id) <= _WRITER_SHOWN else f"{self.writer_id[:_WRITER_SHOWN]}..."
        return f"<lsmlake snapshot {self.id}, {self.kind}, {self.delta_rows:,} of {self.total_rows:,} rows, writer {writer}>"

    @property
    def newest_rollback(self) -> int | None:
        """The newest rollback up to this snapshot."""
        return self.last_rollback if self.restores is None else self.id

    def encode(self) -> bytes:
        content = asdict(self)
        return envelope.wrap_json("snapshot", {k: v for k, v in content.items() if v is not None or k not in _MAY_LACK})

    @staticmethod
    def decode(data: bytes, where: str) -> Snapshot:
        """Decodes a snapshot file. Raises Corrupt or UnsupportedFormat naming `where`."""
        return Snapshot.of(envelope.unwrap_json("snapshot", data, where), where)

    @staticmethod
    def of(content: object, where: str) -> Snapshot:
        """The snapshot with these fields. Raises Corrupt naming `where` if a field is missing or invalid."""
        check("snapshot", content, _KINDS, where, _MAY_LACK)
        content = dict(content)
        for name, kind in _KINDS.items():
            if kind in (NAMED, _NAMED_OR_NONE):
                content[name] = NamedFile(*content[name]) if content[name] else None
        if content.get("position") is not None:
            content["position"] = {name: SourcePosition(*source) for name, source in content["position"].items()}
        return Snapshot(**content)
