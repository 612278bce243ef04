"""What a maintainer knows of a table, or of a branch of it, before it decides: one look, which reads metadata and no data.

The state of the buckets is read again only if there is a new snapshot, so a look at a quiet table costs a few small requests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lsmlake.compact.reshape import due_partitions
from lsmlake.errors import LakeError, SnapshotNotFound, TableNotFound
from lsmlake.format.data_files import Bucket, BucketState, DataFile
from lsmlake.format.manifest import ManifestMeta
from lsmlake.format.paths import on_branch
from lsmlake.format.statistics import TableStatistics
from lsmlake.format.tag import Tag
from lsmlake.iceberg import published
from lsmlake.lsm.cover import Cover
from lsmlake.lsm.levels import Levels
from lsmlake.maintain.analyze import statistics_of
from lsmlake.maintain.work_history import WorkHistory
from lsmlake.options.maintain_options import MaintainOptions
from lsmlake.retention.partition_expiry import time_of_partition
from lsmlake.retention.retention import snapshot_retention
from lsmlake.retention.snapshot_expiry import DueExpiry, due_expiry
from lsmlake.storage.env import Env
from lsmlake.tables.consumers import Consumer, consumers
from lsmlake.tables.databases import Databases, metadata_of
from lsmlake.tables.version import Metadata, Version

_LOOKS = 3


class UnmarkedPartition(NamedTuple):
    """A partition that is not marked as done. `directory`: its folder; `snapshot`: the snapshot that brought its newest rows;
    `since_ms`: since when it has no new rows and its time is over; None: its values are no time."""

    name: str
    directory: str
    snapshot: int
    since_ms: int | None


@dataclass(frozen=True)
class TableFacts:
    """A table at one moment.

    Attributes:
        name: "database.table", or "database.table$branch_NAME".
        trees: the LSM tree of each bucket.
        maintain: the options `maintain.*`, those of its database included.
        now_ms: the time of the look.
        expiry: what an expiry of snapshots would remove.
        tags: all tags that can be read.
        consumers: all consumers.
        published: the snapshot that Iceberg metadata shows; None: it is not published on every commit.
        statistics: the newest statistics.
        manifests: the manifests of the newest snapshot.
        covers: the buckets of the partitions in which a bucket may have to split or merge.
        unmarked: the partitions with rows that came after they were marked as done, if the options say when they are.
        stale: of a view table or a history: why it is to be refreshed; "": it has the newest snapshots of its tables.
    """

    name: str
    version: Version
    states: Mapping[Bucket, BucketState]
    trees: Mapping[Bucket, Levels]
    maintain: MaintainOptions
    now_ms: int
    expiry: DueExpiry
    tags: Sequence[Tag] = ()
    consumers: Sequence[Consumer] = ()
    published: int | None = None
    statistics: TableStatistics | None = None
    manifests: Sequence[ManifestMeta] = field(default=(), repr=False)
    covers: Mapping[tuple, Cover] = field(default_factory=dict, repr=False)
    unmarked: Sequence[UnmarkedPartition] = ()
    stale: str = ""

    @property
    def quiet_ms(self) -> int:
        """How long ago the newest snapshot was published."""
        snapshot = self.version.snapshot
        return 0 if snapshot is None else self.now_ms - snapshot.time_ms


@dataclass
class Looks:
    """Looks at the tables of a warehouse. Keeps the metadata of each table, which makes the next look cheap."""

    env: Env
    _kept: dict[str, Metadata] = field(default_factory=dict)
    _states: dict[str, tuple[str, TableFacts]] = field(default_factory=dict)
    _properties: dict[str, Mapping[str, str]] = field(default_factory=dict)  # of databases, read once per `names`

    def names(self, wanted: Collection[str] | None = None, broken: dict[str, LakeError] | None = None) -> list[str]:
        """The names of all tables, each followed by its branches.

        Args:
            wanted: only these tables.
            broken: gets those of them that cannot be opened; None: raises TableNotFound, and the like, for the first of them.
        """
        databases = Databases(self.env.storage)
        self._properties.clear()
        listed = [f"{home}.{table}" for home in databases.names() for table in databases.tables(home)]
        for name in wanted or ():
            try:
                metadata_of(self.env, name)
            except LakeError as error:
                if broken is None:
                    raise
                broken[name] = error
        found = []
        for name in listed:
            if wanted is None or name in wanted:
                found += [name, *self._branches(name)]
            else:
                found += [one for one in wanted if one.startswith(on_branch(name, ""))]
        return found

    def _branches(self, name: str) -> list[str]:
        try:
            return [on_branch(name, branch) for branch in self.metadata(name).branches.all()]
        except LakeError:  # the look at the table says what is wrong with it
            return []

    def metadata(self, name: str) -> Metadata:
        """The metadata of a table, opened once. Raises TableNotFound."""
        if name not in self._kept:
            self._kept[name] = metadata_of(self.env, name)
        return self._kept[name]

    def look(self, name: str) -> TableFacts:
        """Looks at a table. Raises LakeError."""
        for _ in range(_LOOKS - 1):
            try:
                return self._look(name, self.metadata(name))
            except SnapshotNotFound:  # it expired during the look
                continue
            except TableNotFound:
                if self._kept.pop(name, None) is None:
                    raise  # otherwise another table may have its name now
        return self._look(name, self.metadata(name))

    def forget(self, names: Collection[str]) -> None:
        """Drops what is kept of all other tables."""
        for kept in (self._kept, self._states):
            for name in [name for name in kept if name not in names]:
                del kept[name]

    def _look(self, name: str, meta: Metadata) -> TableFacts:
        version, now_ms = Version.latest(meta), self.env.clock()
        key = "" if version.snapshot is None else version.snapshot.delta_manifest_list.name
        known, before = self._states.get(name, (None, None))
        if before is None or known != key or before.version.schema.id != version.schema.id:
            with version.unless_expired():
                states = version.states(statistics=False)
                trees = {bucket: Levels.of(state.files, state.dead) for bucket, state in states.items()}
                manifests = meta.manifests.metas(version.snapshot) if version.snapshot else ()
                statistics = statistics_of(meta, version.snapshot)
                covers = {partition: version.covers().of(partition) for partition in due_partitions(version)}
        else:
            states, trees, covers = before.states, before.trees, before.covers
            manifests, statistics = before.manifests, before.statistics
        main = meta.paths.branch is None
        retention = snapshot_retention(version.options, now_ms, None, None, None, None)
        facts = TableFacts(
            name,
            version,
            states,
            trees,
            self._policy(name, version),
            now_ms,
            due_expiry(meta, retention),
            meta.tags.readable(),
            consumers(meta),
            _published(meta) if main and version.options.iceberg.enabled and version.snapshot else None,
            statistics,
            manifests,
            covers,
            _unmarked(version, states) if version.options.callbacks.idle_ms is not None else (),
            self._stale(version) if main else "",
        )
        self._states[name] = key, facts
        return facts

    def _stale(self, version: Version) -> str:
        """Why a view table or a history is to be refreshed. If a table that it reads does not exist, none is due."""
        history = version.options.history.source
        if version.schema.view is None and history is None:
            return ""
        if version.snapshot is None or version.snapshot.position is None:
            return "it was not filled yet" if history is None or self._newest(history) is not None else ""
        behind = []
        for name, source in version.snapshot.position.items():
            newest = self._newest(history or name)
            if newest is None:
                continue
            same = source.table_uuid in (newest.schema.table_uuid, newest.meta.paths.line)
            if count := newest.number - source.snapshot if same else newest.number:
                behind.append(f"{count:,} of {history or name}")
        return f"newer snapshots: {', '.join(behind)}" if behind else ""

    def _newest(self, name: str) -> Version | None:
        try:
            return Version.latest(self.metadata(name))
        except TableNotFound:
            return None

    def _policy(self, name: str, version: Version) -> MaintainOptions:
        database = name.partition(".")[0]
        if database not in self._properties:
            self._properties[database] = Databases(self.env.storage).facts(database).get("properties", {})
        return version.options.maintain.within(self._properties[database], version.schema.options, f"database {database}")


def _published(meta: Metadata) -> int:
    """The snapshot of the branch main in the newest Iceberg metadata; 0 if there is none."""
    newest = published.current(meta)
    if newest is None:
        return 0
    with published.decoding(meta.paths.iceberg(published.name_of(newest.number))):
        return int(newest.content["refs"].get("main", {}).get("snapshot-id", 0))


def _unmarked(version: Version, states: Mapping[Bucket, BucketState]) -> list[UnmarkedPartition]:
    """The partitions with newer rows than those that were marked as done."""
    meta, schema, options = version.meta, version.schema, version.options
    marked, files = WorkHistory(meta.env).marked(meta.paths.line), {}
    for bucket, state in states.items():
        if schema.has_spec(bucket.spec) and schema.partition_columns_of(bucket.spec):
            files.setdefault(bucket.partition_key, []).extend(state.files)
    found = []
    for (spec, values), own in files.items():
        name, snapshot = schema.partition_text(spec, values), max((file.sequence or 0 for file in own), default=0)
        if snapshot > marked.get(name, 0):
            over_ms = time_of_partition(schema.partition_columns_of(spec), values, options.partitions)
            ended_ms = None if over_ms is None else over_ms + options.callbacks.interval_ms
            since_ms = None if ended_ms is None else max(_written_ms(meta, snapshot, own), ended_ms)
            found.append(UnmarkedPartition(name, own[0].directory.rpartition("/")[0], snapshot, since_ms))
    return found


def _written_ms(meta: Metadata, snapshot: int, files: Sequence[DataFile]) -> int:
    """When the newest rows came; once their snapshot has expired, when the newest file was written, which may be later."""
    try:
        return meta.snapshots.get(snapshot).time_ms
    except SnapshotNotFound:
        return max(file.created_ms for file in files)
