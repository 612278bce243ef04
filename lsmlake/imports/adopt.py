"""Makes a table of lsmlake from a table of another format. The files get new names in the folder of the table, and keep their
bytes.

A file with two owners is lost as soon as one of them expires it. So each adopted file is a hard link where the file system has
such links, a copy that the object store makes itself, or else a copy of the bytes; nothing is decoded.

1. Read the footer of each file, and decide whether it is adopted or its rows are written anew (`imports.adoptable`).
2. Find the rows that deletes of the other format apply to (`imports.dead_rows`). They become deletion vectors.
3. Bring the adopted files, write the other rows, the vectors and the metadata of one snapshot.
4. Store the later schemas, the snapshot and, last, schema 0: its creation makes the table.

A process that is killed before the end of step 4 has made no table, only files that no table names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake import undo
from lsmlake.commit.commit import after_commit
from lsmlake.commit.request import Identity, Request
from lsmlake.commit.requirements import check_edits
from lsmlake.commit.snapshot_builder import SnapshotBuilder
from lsmlake.errors import CommitUnknown, Corrupt, LakeError, StorageFailed, TableExists
from lsmlake.files.data_reader import Chunk, live_rows
from lsmlake.files.data_writer import DATA
from lsmlake.files.parquet_facts import RESTORE
from lsmlake.format.data_files import APPEND, IMPORT, Bucket, BucketEdit, BucketState, CommitMessage, DataFile
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.format.paths import TablePaths, bucket_directory
from lsmlake.format.snapshot import Snapshot
from lsmlake.imports.adopt_keys import KeyedFile, KeyRange, check_valid, key_ranges, repeated_keys
from lsmlake.imports.adoptable import is_whole, shape_key
from lsmlake.imports.dead_rows import dead_rows
from lsmlake.imports.examine import Adopted, RewrittenFile, examine
from lsmlake.imports.foreign import ForeignFile, ForeignTable, Sources
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.merge.rules import check_new
from lsmlake.lsm.pick import last_level_of
from lsmlake.options.iceberg_options import FIRST_ROW_ID
from lsmlake.schema.conform import clean_keys
from lsmlake.schema.partitioning import Partitioning
from lsmlake.schema.schema import Schema
from lsmlake.schema.years import check_years
from lsmlake.storage.concurrency import together
from lsmlake.storage.env import Env
from lsmlake.storage.location import Outside
from lsmlake.tables.version import Metadata, Version
from lsmlake.types import column_types
from lsmlake.write.append import LEVEL
from lsmlake.write.write import new_files

_OTHER_YEARS = "replace those values there, or import without that file"
_DEAD_KEY = "a deleted row has no key"
_ELSEWHERE = "rows of other files may have its keys"


@dataclass(frozen=True)
class ImportReport:
    """The result of an import.

    Attributes:
        table: the name of the table.
        snapshot: the number of its snapshot; None: it has no rows.
        adopted: how many files were adopted as they are.
        rewritten: why the rows of the other files were written anew, and of how many files.
        rows: how many rows the table has.
        deleted_rows: how many rows of the files were deleted.
    """

    table: str
    snapshot: int | None
    adopted: int
    rewritten: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    deleted_rows: int = 0


def adopt(
    env: Env,
    root: str,
    name: str,
    outside: Outside,
    table: ForeignTable,
    options: Mapping[str, object],
    comment: str | None,
    primary_key: Sequence[str] = (),
    *,
    link: bool = True,
) -> ImportReport:
    """Makes the table `name` in the folder `root`, which holds no table.

    Args:
        env: the environment of the warehouse.
        root: the folder of the table.
        name: the name of the table.
        outside: reaches the files.
        table: the foreign table.
        options: the options of the new table.
        comment: the comment of the new table; None: that of `table`.
        primary_key: the primary key of the new table; empty: it is append-only.
        link: whether the files never change in place, so that links of them are safe.

    Raises:
        TableExists: another process has created the table.
        InvalidSchema, InvalidOption: no table can have these columns or options.
        InvalidData: a file cannot be read as the columns of the table, or its rows cannot have the primary key.
        Corrupt, StorageFailed: a file is damaged or missing, or cannot be read or written.
        CommitUnknown: the store failed while the table was created, and does not answer.
    """
    schema = Schema.adopted(
        table.columns,
        primary_key,
        table.partitioning,
        ({FIRST_ROW_ID: str(table.next_row_id)} if table.next_row_id else {}) | dict(options),
        table.comment if comment is None else comment,
        env.clock(),
        env.ids(),
        name,
        table.highest_field_id,
    )
    check_new(schema, name)  # refuses functions that do not fit their columns
    meta = Metadata.of(env, TablePaths(root, schema.table_uuid))
    work = _Adoption(env, name, Sources(env, outside, table), schema, meta, link)
    undo.on_failure(work.give_up)
    try:
        report, schemas, snapshot = work.run()
    except BaseException:
        meta.files.delete_quietly(work.written)
        raise
    _create(work, schemas, snapshot)
    undo.done(work.give_up)
    if snapshot is not None:
        after_commit(Version(meta, snapshot, schemas[-1]), snapshot)
    return report


@dataclass
class _Adoption:
    """Does steps 1 to 3. `name`: the name of the table, for messages. `schema`: the schema of the new table. `written`: the paths
    of all files written so far, or about to be written."""

    env: Env
    name: str
    sources: Sources
    schema: Schema
    meta: Metadata
    link: bool
    written: list[str] = field(default_factory=list)

    def give_up(self) -> None:
        """Deletes the written files, unless the table exists."""
        stored = Metadata.opened(self.env, self.meta.paths.root)
        if stored is None or stored.paths.table_uuid != self.meta.paths.table_uuid:
            self.meta.files.delete_quietly(self.written)

    @property
    def workers(self) -> int:
        sources = {self.sources.outside.place(file.uri).storage.at_once for file in self.sources.table.files[:1]}
        return max(self.env.workers, self.env.storage.at_once, *sources)

    def run(self) -> tuple[ImportReport, list[Schema], Snapshot | None]:
        """The report, the schemas and the snapshot to be stored."""
        looked = together(partial(examine, self.sources, self.schema), self.sources.table.files, self.workers, lambda done: None)
        looked.sort(key=lambda one: one.of.name)
        rows = {one.of.name: one.rows for one in looked}
        dead = dead_rows(self.sources, rows)
        adopted = [one for one in looked if isinstance(one, Adopted) and len(dead.get(one.of.name, ())) < one.rows]
        rewritten = [one for one in looked if isinstance(one, RewrittenFile) and len(dead.get(one.of.name, ())) < one.rows]
        ranges: dict[str, KeyRange] = {}
        if adopted and not self.schema.append_only:
            placed = all(map(self._is_placed, [*adopted, *rewritten]))
            ranges = self._key_ranges([*adopted, *rewritten], dead) if placed else {}
            why = _DEAD_KEY if placed else _ELSEWHERE
            rewritten += [RewrittenFile(one.of, one.rows, why) for one in adopted if one.of.name not in ranges]
            adopted = [one for one in adopted if one.of.name in ranges]
        schemas = self._schemas(adopted)
        self.schema = schemas[-1]
        numbers = {shape_key(one.columns): one.id for one in schemas[:-1]}
        brought = together(partial(self._bring, numbers, ranges), adopted, self.workers, lambda done: None)
        brought.sort(key=lambda pair: pair[1].name)
        written = self._write(rewritten, dead)
        if not self.schema.append_only and not adopted:
            self._check_unique(rewritten, dead, written)
        messages = self._messages(brought, written, dead)
        counts: dict[str, int] = {}
        for one in rewritten:
            counts[one.why] = counts.get(one.why, 0) + 1
        total, gone = sum(rows.values()), sum(map(len, dead.values()))
        snapshot = self._snapshot(messages) if messages else None
        report = ImportReport(self.name, None if snapshot is None else snapshot.id, len(adopted), counts, total - gone, gone)
        return report, schemas, snapshot

    # -- the keys ---------------------------------------------------------------------------------------------------------

    def _is_placed(self, one: Adopted | RewrittenFile) -> bool:
        """Whether all rows of a file lie in the partition that it has."""
        trusted = not self.sources.table.by_folder or isinstance(one, Adopted) or not one.of.partition
        return self.schema.has_spec(one.of.spec) and trusted

    def _key_ranges(self, looked: Sequence[Adopted | RewrittenFile], dead: Mapping[str, DeletionVector]) -> dict[str, KeyRange]:
        """The key range of each file, without files with a dead row that has no key."""
        partitions: dict[tuple, list[KeyedFile]] = {}
        for one in looked:
            file = KeyedFile(one.of.name, partial(self._chunks, one, self.schema.key), dead.get(one.of.name, EMPTY))
            partitions.setdefault(self.schema.home(one.of.spec, one.of.partition), []).append(file)
        window = self.env.limits.window_bytes
        ranges = (key_ranges(files, self.schema, window, self.name) for files in partitions.values())
        return {file: keys for some in ranges for file, keys in some.items()}

    # -- the schemas ----------------------------------------------------------------------------------------------------

    def _schemas(self, files: Iterable[Adopted]) -> list[Schema]:
        """A schema for each shape of the files other than that of the table, then the schema of the table."""
        files = list(files)
        self.schema = replace(self.schema, by_name=any(one.by_name for one in files))
        shapes = {shape_key(one.shape): one.shape for one in files if not is_whole(self.schema, one.shape)}
        made = []
        ids_of_key = [self.schema.field_ids()[name] for name in self.schema.primary_key]
        for number, shape in enumerate(shapes.values()):
            ids = {column_types.field_id(one): one.name for one in shape}
            specs = tuple(s for s in self.schema.partitioning.specs if all(one.source in ids for one in s.fields))
            known = Partitioning.first(())
            if specs:
                known = replace(self.schema.partitioning, specs=specs, current=specs[-1].id)
            key = tuple(ids[id] for id in ids_of_key)
            made.append(replace(self.schema, id=number, columns=shape, primary_key=key, partitioning=known, options={}))
        made.append(replace(self.schema, id=len(made)))
        for schema in made:
            self.meta.schemas.keep(schema)
        return made

    # -- the files --------------------------------------------------------------------------------------------------------

    def _bring(self, numbers: Mapping[str, int], ranges: Mapping[str, KeyRange], one: Adopted) -> tuple[ForeignFile, DataFile]:
        """Brings a file into the table. `numbers`: the ids of schemas, by shape. `ranges`: the key ranges of files, by name."""
        keys = ranges.get(one.of.name)
        bucket = Bucket(one.of.partition, 0, one.of.spec)
        null_name = self.schema.parsed_options.layout.default_partition
        file = DataFile(
            f"{DATA}-{self.env.ids()}.parquet",
            bucket_directory(bucket, self.schema.partition_columns_of(bucket.spec), null_name),
            one.of.bytes,
            one.rows,
            0,
            () if keys is None else keys.low,
            () if keys is None else keys.high,
            LEVEL if keys is None else last_level_of(self.schema.parsed_options.compaction, Levels()),
            numbers.get(shape_key(one.shape), self.schema.id),
            APPEND if keys is None else IMPORT,
            self.env.clock(),
            stats=one.stats,
            footer_bytes=one.footer_bytes,
            footer_checksum=one.footer_checksum,
        )
        place, path = self.sources.outside.place(one.of.uri), self.meta.paths.data(file)
        self.written.append(path)
        try:
            self.env.storage.bring(place.storage, place.path, path, link=self.link)
        except FileNotFoundError as missing:
            raise Corrupt("a data file is missing", where=one.of.uri, cure=RESTORE) from missing
        return one.of, file

    def _write(self, files: Sequence[RewrittenFile], dead: Mapping[str, DeletionVector]) -> list[CommitMessage]:
        """Writes the live rows of files anew."""
        if not files:
            return []
        version, names = Version(self.meta, None, self.schema), self.schema.columns.names
        tables = (self._with_keys(rows, one) for one in files for rows in self._live(one, names, dead))
        made = new_files(version, tables)
        self.written += [path for message in made for path in message.written]
        return made

    def _live(self, one: RewrittenFile, names: Sequence[str], dead: Mapping[str, DeletionVector]) -> Iterator[pa.Table]:
        """Some columns of the live rows of a file."""
        return (live_rows(chunk, dead.get(one.of.name, EMPTY)) for chunk in self._chunks(one, names))

    def _with_keys(self, rows: pa.Table, one: RewrittenFile) -> pa.Table:
        """Returns `rows` of a file, without -0.0 in their keys and partitions. Raises InvalidData if a row has no key, a NaN
        in it, or a date or time that no table takes."""
        check_valid(rows.select(self.schema.key), self.name, one.of.name)
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            check_years(column, f"{one.of.uri}, column {name!r}", _OTHER_YEARS)
        return clean_keys(rows, self.schema)

    def _check_unique(
        self, files: Sequence[RewrittenFile], dead: Mapping[str, DeletionVector], written: Iterable[CommitMessage]
    ) -> None:
        """Raises InvalidData if fewer rows were written than read, since rows of one key become one."""
        rows = sum(one.rows - len(dead.get(one.of.name, ())) for one in files)
        lost = rows - sum(message.rows for message in written)
        if lost:
            key = list(self.schema.primary_key)
            live = pa.concat_tables(clean_keys(rows, self.schema) for one in files for rows in self._live(one, key, dead))
            counts = live.group_by(key).aggregate([([], "count_all")])
            raise repeated_keys(self.name, lost, counts.filter(pc.greater(counts["count_all"], 1)).select(key).slice(0, 1))

    def _chunks(self, one: Adopted | RewrittenFile, names: Sequence[str]) -> Iterator[Chunk]:
        """Some columns of a file, dead rows included."""
        ids = self.schema.field_ids()
        with self.sources.open(one.of.uri, one.of.bytes, one.rows, self.schema.columns) as reader:
            lacking = {name: ids[name] for name in names if ids[name] in one.of.constants and reader.stored(name) is None}
            for chunk in reader.stream(names):
                rows = chunk.table
                for name, id in lacking.items():
                    place = names.index(name)
                    value = pa.scalar(one.of.constants[id], rows.schema.field(place).type)
                    rows = rows.set_column(place, rows.schema.field(place), pa.repeat(value, rows.num_rows))
                yield Chunk(chunk.start, rows)

    def _messages(
        self,
        brought: Iterable[tuple[ForeignFile, DataFile]],
        written: Iterable[CommitMessage],
        dead: Mapping[str, DeletionVector],
    ) -> list[CommitMessage]:
        """One commit message per bucket, with the vectors of its files."""
        files: dict[Bucket, list[DataFile]] = {}
        vectors: dict[Bucket, dict[str, DeletionVector]] = {}
        for foreign, file in brought:
            bucket = Bucket(foreign.partition, 0, foreign.spec)
            files.setdefault(bucket, []).append(file)
            if foreign.name in dead:
                vectors.setdefault(bucket, {})[file.name] = dead[foreign.name]
        for message in written:
            added, known = (message.compact or message.append).added, files.setdefault(message.bucket, [])
            known += [file._replace(source=IMPORT) for file in added] if known and known[0].source == IMPORT else added
        made = []
        for bucket, added in files.items():
            masked = self.meta.vectors.put(vectors.get(bucket, {}))
            self.written += {self.meta.paths.puffin(ref.puffin) for ref in masked.values()}
            total = self.schema.parsed_options.layout.first_buckets
            edit = BucketEdit(bucket, total, tuple(added), vectors=masked, base=BucketState(bucket, total))
            live = sum(file.rows for file in added) - sum(ref.cardinality for ref in masked.values())
            made.append(CommitMessage(bucket, compact=edit, rows=live))
        return made

    # -- the snapshot -----------------------------------------------------------------------------------------------------

    def _snapshot(self, messages: Sequence[CommitMessage]) -> Snapshot:
        edits = tuple(message.compact for message in messages)
        check_edits([(edit, None) for edit in edits], self.meta.paths.root)
        builder = SnapshotBuilder(self.meta, self.schema, Request(Identity(self.env.ids()), messages))
        try:
            snapshot = builder.build(None, self.schema, edits, {})
            builder.write()
            return snapshot
        finally:
            self.written += builder.written
            self.written += [self.meta.paths.manifest(meta.name) for meta in builder.manifests.values()]


def _create(work: _Adoption, schemas: Sequence[Schema], snapshot: Snapshot | None) -> None:
    """Does step 4. After an error, the written files stay only if the table may exist."""
    meta, paths = work.meta, work.meta.paths
    first, *later = schemas
    work.written += [paths.schema(schema.id) for schema in later]
    if snapshot is not None:
        work.written.append(paths.snapshot(snapshot.id))
    try:
        for schema in later:
            meta.schemas.put(schema)
        if snapshot is not None:
            meta.snapshots.put(snapshot)
    except BaseException:
        meta.files.delete_quietly(work.written)
        raise
    try:
        created = _is_created(meta, first)
    except StorageFailed:
        meta.files.delete_quietly(work.written)
        raise
    if not created:
        meta.files.delete_quietly(work.written)
        raise TableExists(f"table {work.name!r} exists", cure="another process has created it meanwhile: choose another name")


def _is_created(meta: Metadata, first: Schema) -> bool:
    """Creates schema 0; returns whether this process has done so. Raises StorageFailed if it certainly has not, and CommitUnknown
    if the store does not tell."""
    try:
        return meta.schemas.put(first)
    except StorageFailed as failed:
        try:
            stored = Metadata.opened(meta.env, meta.paths.root)
        except LakeError as unknown:
            raise CommitUnknown(
                "the store failed while the table was created",
                where=meta.paths.schema(0),
                found=failed,
                cure="look whether the table is there; if not, import it again",
            ) from unknown
        if stored is None:
            raise
        return stored.paths.table_uuid == meta.paths.table_uuid
