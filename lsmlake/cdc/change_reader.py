"""Plans and reads the row changes of a table, in one of three modes.

- `diff` compares two snapshots (`cdc.diff`). The changes are exact and net; the cost is reading the rows that differ.
- `changelog` reads the files of the table's changelog producer, commit by commit.
- `delta` returns what each commit wrote, as upserts: +I for a written row, whether or not it replaces one, and -D, whose columns
  outside the key may be null. If the newest row always wins, these are the level-0 files of the commit, as long as the commit
  still lists all of them unchanged; otherwise two snapshots are compared and -U rows are left out.

A `Piece` is the unit of reading: changes of one bucket, in order. So one reader reads all changes of a key. If keys can move
between partitions, it is that of all buckets that have keys in common, of whichever partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.commits import COMMIT_FIELDS, Commit, Feed
from lsmlake.cdc.diff import Pair, pairs, read_pair
from lsmlake.errors import InvalidQuery, SnapshotNotFound, with_arguments
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format import manifest
from lsmlake.format.data_files import APPEND, Bucket, DataFile
from lsmlake.format.manifest import ADD
from lsmlake.format.snapshot import COMPACT, OVERWRITE, Snapshot
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.cover import Placed, common_buckets, of_keys
from lsmlake.lsm.difference import KIND_FIELD, as_changes
from lsmlake.lsm.merge.merge_windows import RunReader, merge_windows, whole_keys
from lsmlake.lsm.merge.rule import OldRow
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.options.changelog_options import FULL_COMPACTION, INPUT, LOOKUP, NONE
from lsmlake.predicate import evaluate
from lsmlake.read.arrow_scan import rows_of_split
from lsmlake.read.plan import COMPACTED, FRESH, RAW, Plan, Projection, Split, plan, prune_by_key
from lsmlake.schema.adapt import with_constants
from lsmlake.schema.evolution import defaults_after_merge, lost_column, through, wider_column
from lsmlake.schema.rowkind import DELETE, INSERT, UPDATE_BEFORE, kinds_of, plain, with_kind, with_kinds
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.tables.version import Metadata, Version

DIFF, CHANGELOG, DELTA = MODES = "diff", "changelog", "delta"
AUTO = "auto"
"""For each snapshot: its changelog, or the difference to the previous snapshot if the table had no changelog producer then. If
one producer replaces another, both describe the same view."""
_VIEWS = {NONE: FRESH, INPUT: FRESH, LOOKUP: COMPACTED, FULL_COMPACTION: RAW}


@dataclass(frozen=True)
class ChangeFiles:
    """Files whose rows are changes in order."""

    files: tuple[DataFile, ...]


@dataclass(frozen=True)
class Inserts:
    """All rows of a split of a snapshot with schema `schema_id`."""

    split: Split
    schema_id: int


@dataclass(frozen=True)
class Piece:
    """The changes of `bucket`, in order. A step compares two states (`Pair`), reads change files, or reads all rows of a split as
    inserts (`Inserts`). `commits`: the commit of each step. `snapshots`: the ids of the snapshots whose files are read.
    `upserts`: report changes as +I and -D only. `total`: the total of the bucket."""

    bucket: Bucket
    total: int
    steps: tuple[Pair | ChangeFiles | Inserts, ...]
    commits: tuple[Commit, ...]
    snapshots: frozenset[int]
    upserts: bool = False

    @property
    def rows(self) -> int:
        """Estimated number of changes, from metadata."""
        return sum(file.rows for file in self._files()) + sum(_marked(s) for s in self.steps if isinstance(s, Pair))

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self._files())

    @property
    def files(self) -> int:
        return len(self._files())

    @property
    def described_files(self) -> int:
        """The number of file descriptions that the piece holds in memory; `files` counts only files with changes."""
        return sum(map(_described_files, self.steps))

    def _files(self) -> list[DataFile]:
        return [file for step in self.steps for file in _new_files(step)]


def _new_files(step: Pair | ChangeFiles | Inserts) -> Iterable[DataFile]:
    if isinstance(step, ChangeFiles):
        return step.files
    if isinstance(step, Inserts):
        return _files_of(step.split)
    old = {file.name for split in step.before for file in _files_of(split)}
    return [file for split in step.after for file in _files_of(split) if file.name not in old]


def _files_of(split: Split) -> tuple[DataFile, ...]:
    return (*split.files, *split.level0, *split.merged)


def _described_files(step: Pair | ChangeFiles | Inserts) -> int:
    if isinstance(step, ChangeFiles):
        return len(step.files)
    splits = (*step.before, *step.after) if isinstance(step, Pair) else (step.split,)
    return sum(len(_files_of(split)) + len(split.lookup_files) for split in splits)


def _marked(pair: Pair) -> int:
    """Returns the number of rows newly marked as deleted."""
    before, after = ({n: ref for s in side for n, ref in s.vectors.items()} for side in (pair.before, pair.after))
    return sum(abs(ref.cardinality - (before[n].cardinality if n in before else 0)) for n, ref in after.items())


def check_mode(mode: str, schema: Schema, where: str) -> str:
    """Returns `mode`. Raises InvalidQuery if it is unknown, or if the table has no changelog to read."""
    if mode not in (*MODES, AUTO):
        raise InvalidQuery(
            with_arguments("unknown {}", "mode"),
            where=where,
            expected=" or ".join(map(repr, MODES)),
            found=repr(mode),
            cure="pass one of these modes",
        )
    if mode == CHANGELOG and schema.parsed_options.changelog.producer == NONE:
        raise _no_changelog("the table writes no changelog", where)
    return mode


def _no_changelog(what: str, where: str) -> InvalidQuery:
    return InvalidQuery(
        what,
        where=where,
        expected="changelog-producer = input, lookup or full-compaction",
        found="none",
        cure=with_arguments(
            "use {} 'diff', or write a changelog from now on: set changelog-producer = lookup of the table",
            "mode",
            command="use --mode diff, or write a changelog from now on: `lsmlake alter TABLE --set changelog-producer=lookup`",
        ),
    )


def view_of(schema: Schema, mode: str) -> str:
    """Returns the view (mode of `read.plan`) whose changes are reported: the changelog of a compaction covers the levels that it
    writes. If keys can move, writers write the changelog (`write.key_places`)."""
    by_writers = mode not in (CHANGELOG, AUTO) or schema.moves_keys
    return FRESH if by_writers else _VIEWS[schema.parsed_options.changelog.producer]


def diff_pieces(meta: Metadata, like: Feed, first: Snapshot | None, last: Snapshot | None) -> list[Piece]:
    """Returns the changes from `first` to `last`, one piece per bucket that differs."""
    for snapshot in (first, last):
        _check_columns(meta.schemas.of(snapshot), like, meta.paths.root)
    return _pieces(*(_plan(meta, like, snapshot, FRESH) for snapshot in (first, last)))


def _pieces(before: Plan, after: Plan) -> list[Piece]:
    numbers = frozenset(plan.snapshot.id for plan in (before, after) if plan.snapshot is not None)
    if after.snapshot is None:
        return []
    return _alone((((pair.bucket, pair.total), pair) for pair in pairs(before, after)), after.snapshot, numbers)


def _alone(
    steps: Iterable[tuple[Placed, Pair | ChangeFiles | Inserts]], snapshot: Snapshot, numbers: frozenset[int]
) -> list[Piece]:
    """Returns pieces of one step each, which all belong to the commit of `snapshot`."""
    numbered = enumerate(steps)
    return [Piece(*placed, (step,), (Commit.of(snapshot, number),), numbers) for number, (placed, step) in numbered]


def insert_pieces(meta: Metadata, like: Feed, snapshot: Snapshot | None, mode: str) -> list[Piece]:
    """Returns all rows visible at `snapshot`, as inserts. The changes of `mode` after `snapshot` continue from these rows."""
    schema = meta.schemas.of(snapshot)
    _check_columns(schema, like, meta.paths.root)
    splits = _plan(meta, like, snapshot, view_of(schema, mode)).splits
    alone = (replace(s, files=(file,), lookup_files=()) for s in splits if not (s.level0 or s.merged) for file in s.files)
    together = (s for s in splits if s.level0 or s.merged)
    if snapshot is None:
        return []
    steps = (((of_keys(schema, split.bucket), split.total), Inserts(split, schema.id)) for split in (*alone, *together))
    return _alone(steps, snapshot, frozenset({snapshot.id}))


def snapshot_pieces(meta: Metadata, like: Feed, number: int, mode: str) -> list[Piece]:
    """Returns the changes of the commit of snapshot `number`; repeated calls return the same order. An OVERWRITE snapshot without
    a changelog is compared with the one before, with any producer. Raises SnapshotNotFound if the snapshot has expired and
    left no changelog, or if the changes depend on the snapshot before and that has expired."""
    try:
        snapshot, expired = meta.snapshots.get(number), None
    except SnapshotNotFound as gone:
        snapshot, expired = meta.snapshots.recorded(number), gone
    schema = meta.schemas.of(snapshot)
    _check_columns(schema, like, meta.paths.root)
    if mode in (CHANGELOG, AUTO):
        writes = schema.parsed_options.changelog.producer != NONE
        if snapshot.changelog_manifest_list or (writes and snapshot.kind != OVERWRITE):
            seen = through(schema, like.schema)
            return _file_pieces(meta.manifests.changelog(snapshot, seen), seen, like, snapshot)
        if mode == CHANGELOG and not writes:
            raise _no_changelog(f"snapshot {snapshot.id} writes no changelog", meta.paths.root)
    if expired is not None:  # only its changelog is retained
        if snapshot.kind == OVERWRITE and mode != DELTA:
            raise _not_compared(meta, snapshot, "both have expired, and an overwrite writes no changelog file") from expired
        raise expired
    if snapshot.kind == COMPACT and schema.parsed_options.retention.rows_ms is None:
        return []  # a compaction changes no row
    by_files = mode == DELTA and snapshot.kind != OVERWRITE and _filters_keys_only(like)
    seen = through(schema, like.schema)
    written = _written_files(meta, seen, snapshot) if by_files else None
    pieces = _diff_to_previous(meta, like, snapshot, mode) if written is None else _file_pieces(written, seen, like, snapshot)
    return [replace(piece, upserts=mode == DELTA) for piece in pieces]


def _check_columns(schema: Schema, like: Feed, where: str) -> None:
    """Raises InvalidQuery if rows of `schema` cannot have the columns of `like`, a later or an earlier state of the table."""
    if schema.id > like.schema.id and (lost := lost_column(like.schema, schema)):
        raise InvalidQuery(
            "the table was altered while its changes were followed",
            where=where,
            expected=f"the columns of schema {like.schema.id}",
            found=f"schema {schema.id}: {lost}",
            cure="make the stream again, by follow, read_stream or load, for the same consumer or checkpoint: it continues here, "
            "with the new columns",
        )
    if schema.id < like.schema.id and (wider := wider_column(schema, like.schema)):
        raise InvalidQuery(
            "the table was rolled back to columns that cannot hold these changes",
            where=where,
            expected=f"values of the columns of schema {like.schema.id}",
            found=f"schema {schema.id}: {wider}",
            cure="start after the rollback, or alter the columns again as they were",
        )


def by_bucket(pieces: Iterable[Piece]) -> list[Piece]:
    """Joins all pieces of a bucket into one; buckets with common keys, too, if they were split or merged meanwhile."""
    pieces = list(pieces)
    common, joined = common_buckets((piece.bucket, piece.total) for piece in pieces), {}
    for piece in pieces:
        placed = common[piece.bucket, piece.total]
        known = joined.get(placed)
        if known is not None:
            steps, commits = known.steps + piece.steps, known.commits + piece.commits
            piece = replace(piece, steps=steps, commits=commits, snapshots=known.snapshots | piece.snapshots)
        joined[placed] = replace(piece, bucket=placed[0], total=placed[1])
    return list(joined.values())


def _plan(meta: Metadata, like: Feed, snapshot: Snapshot | None, mode: str, near: pa.Table | None = None) -> Plan:
    return plan(Version.seen(meta, snapshot, like.schema), like.predicate, like.columns, mode, near)


def _diff_to_previous(meta: Metadata, like: Feed, snapshot: Snapshot, mode: str) -> list[Piece]:
    """Compares a snapshot with the previous one, in the buckets that the commit touched. Each side is read in the view of `mode`
    at its snapshot: the changelog producer may change between the two."""
    before, schema = _before(meta, snapshot), meta.schemas.of(snapshot)
    _check_columns(meta.schemas.of(before), like, meta.paths.root)
    known = meta.manifests.vector_refs(before) if before else {}
    marked = [name for name, ref in meta.manifests.vector_refs(snapshot).items() if known.get(name) != ref]
    live = meta.manifests.live(snapshot, schema)
    marked_files = live.filter(pc.is_in(live["name"], value_set=pa.array(marked, pa.string())))
    near = manifest.concat([meta.manifests.delta(snapshot, schema), marked_files], schema)
    if snapshot.restores is not None:  # a rollback has no delta
        near = None
    return _pieces(*(_plan(meta, like, one, view_of(meta.schemas.of(one), mode), near) for one in (before, snapshot)))


def _before(meta: Metadata, snapshot: Snapshot) -> Snapshot | None:
    if snapshot.id == 1:
        return None
    try:
        return meta.snapshots.get(snapshot.id - 1)
    except SnapshotNotFound as gone:
        raise _not_compared(meta, snapshot, "which has expired") from gone


def _not_compared(meta: Metadata, snapshot: Snapshot, why: str) -> SnapshotNotFound:
    return SnapshotNotFound(
        f"the changes of snapshot {snapshot.id} need snapshot {snapshot.id - 1}, {why}",
        where=meta.paths.root,
        cure="start later, retain snapshots longer, or name a consumer, which protects the snapshots it has not read",
    )


def _filters_keys_only(like: Feed) -> bool:
    """Whether the predicate has key columns only. Only then can files with delete rows be filtered, because the other columns of
    a delete row may be null."""
    return like.schema.append_only or like.predicate is None or like.predicate.columns <= set(like.schema.primary_key)


def _written_files(meta: Metadata, schema: Schema, snapshot: Snapshot) -> pa.Table | None:
    """Returns the files that the writer of a commit wrote. None if the commit no longer lists all of them unchanged, or if the
    newest row does not always win."""
    if rule_of(schema).old_row is not OldRow.REPLACED:
        return None
    entries = meta.manifests.delta(snapshot, schema)
    added = pc.and_(pc.equal(entries["kind"], ADD), pc.equal(entries["sequence"], snapshot.id))
    written = entries.filter(pc.and_(added, pc.equal(entries["source"], APPEND)))
    return written if pc.sum(written["rows"]).as_py() == snapshot.delta_rows else None


def _file_pieces(entries: pa.Table, seen: Schema, like: Feed, snapshot: Snapshot) -> list[Piece]:
    """Returns the pieces of change files. `entries`: the entries of these files. `seen`: the schema of the snapshot, with the
    columns of `like`."""
    if like.predicate is not None and entries.num_rows:
        entries = prune_by_key(entries, seen, like.predicate)
    by_bucket: dict[Placed, list[DataFile]] = {}
    listed = manifest.files_of(entries, seen, statistics=False)
    placed = [((of_keys(seen, bucket), total), file) for bucket, total, file in listed]
    common = common_buckets(place for place, _ in placed) if seen.moves_keys else {}
    for place, file in placed:
        by_bucket.setdefault(common.get(place, place), []).append(file)
    steps = ((placed, ChangeFiles(tuple(files))) for placed, files in sorted(by_bucket.items(), key=_order))
    return _alone(steps, snapshot, frozenset({snapshot.id}))


def _order(item: tuple[Placed, object]) -> tuple:
    bucket, _ = item[0]
    return repr(bucket.partition), bucket.number, bucket.spec


# -- reading ----------------------------------------------------------------------------------------------------------


def read_piece(meta: Metadata, like: Feed, piece: Piece) -> Iterator[pa.Table]:
    """Yields the changes of a piece in order: `_row_kind` as text, then the columns of `like`, filtered by its predicate, then
    the commit columns, if `like` has them. Raises SnapshotNotFound if a snapshot has expired meanwhile."""
    schema = changes_schema(like)
    with meta.snapshots.unless_expired(*piece.snapshots):
        for step, commit in zip(piece.steps, piece.commits, strict=True):
            begun = 0
            for rows in _rows(BucketFiles(meta, like.schema, piece.bucket), like, step):
                rows = as_changes(_as_upserts(rows) if piece.upserts else rows).select([KIND_FIELD.name, *like.columns])
                if like.commits:
                    columns = [*rows.columns, *commit.columns(begun, rows.num_rows)]
                    rows, begun = pa.table(columns, names=schema.names), begun + rows.num_rows
                yield rows.cast(schema)


def changes_schema(like: Feed) -> pa.Schema:
    """Returns the schema of changes in the public API. Columns outside the key are nullable: a delete may have its key only."""
    key = like.schema.primary_key
    fields = (like.schema.plain_columns.field(name) for name in like.columns)
    commits = COMMIT_FIELDS if like.commits else ()
    return pa.schema([KIND_FIELD, *(f if f.name in key else f.with_nullable(True) for f in fields), *commits])


def _rows(files: BucketFiles, like: Feed, step: Pair | ChangeFiles | Inserts) -> Iterator[pa.Table]:
    if isinstance(step, Pair):
        yield read_pair(files.meta, like, step)
    elif isinstance(step, Inserts):
        yield from _inserts(files, like, step)
    elif like.schema.moves_keys and len(step.files) > 1:
        yield from _read_by_key(files, like, step.files)
    else:
        for file in step.files:
            yield from _read_file(files, like, file)


def _read_by_key(files: BucketFiles, like: Feed, given: Sequence[DataFile]) -> Iterator[pa.Table]:
    """The rows of files of several partitions, ascending by key: -U of a key that has left a partition, and its +U in another
    one."""
    key = like.schema.key
    like = replace(like, columns=tuple(name for name in like.schema.columns.names if name in {*like.columns, *key}))

    def ordered(parts: Sequence[pa.Table]) -> pa.Table:
        rows = pa.concat_tables(parts)
        return rows.take(pa.array(np.lexsort((kinds_of(rows), comparable([rows.select(key)])[0]))))

    def rows_of(file: DataFile) -> Iterator[pa.Table]:
        for rows in _read_file(files, like, file):
            yield from with_kinds([rows], always=True)

    runs = [RunReader(whole_keys(rows_of(file), key), file.rows) for file in given]
    yield from merge_windows(runs, key, ordered, files.meta.env.limits.window_bytes)


def _inserts(files: BucketFiles, like: Feed, step: Inserts) -> Iterator[pa.Table]:
    schema = files.meta.schemas.get(step.schema_id)
    seen, defaults = through(schema, like.schema), defaults_after_merge(schema, like.schema)
    if not defaults:
        yield from rows_of_split(replace(files, schema=seen), replace(like, schema=seen), step.split)
        return
    unfiltered = Projection(seen, None, tuple(like.schema.columns.names))
    for rows in rows_of_split(replace(files, schema=seen), unfiltered, step.split):
        rows = with_constants(rows, defaults)
        yield rows if like.predicate is None else rows.filter(evaluate(like.predicate, rows))


def _read_file(files: BucketFiles, like: Feed, file: DataFile) -> Iterator[pa.Table]:
    with files.open(file) as reader:
        columns = [*like.needed, ROW_KIND] if reader.has_row_kind else list(like.needed)
        for chunk in reader.chunks(columns):
            yield chunk.table if like.predicate is None else chunk.table.filter(evaluate(like.predicate, chunk.table))


def _as_upserts(rows: pa.Table) -> pa.Table:
    kinds = kinds_of(rows)
    if kinds is None:
        return rows
    kinds = plain(kinds)
    kept = kinds != UPDATE_BEFORE
    return with_kind(rows.filter(pa.array(kept)), np.where(kinds[kept] == DELETE, DELETE, INSERT))
