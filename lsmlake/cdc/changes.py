"""What happened to the rows of a table, told in one of three ways.

- `diff`: two states are compared (`cdc.diff`). Exact and net, whoever wrote what; costs reading what differs.
- `changelog`: the files that the table's changelog producer wrote, commit after commit. Costs reading them and nothing else.
- `delta`: what the commits brought, commit after commit, as upserts: +I for a row written, whether or not it replaces one, and
  -D, of which only the key is certain. Where newest wins by arrival these are the writer's own files, if its commit still has
  them as they were; otherwise two states are compared and the rows before left out.

A `Piece` is what one reader reads, in order: the changes of one bucket, so all those of a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.diff import Pair, pairs, read_pair
from lsmlake.errors import InvalidQuery, SnapshotNotFound, Wording
from lsmlake.format import manifest
from lsmlake.format.files import APPEND, Bucket, DataFile
from lsmlake.format.manifest import ADD
from lsmlake.format.snapshot import COMPACT, Snapshot
from lsmlake.lsm.difference import KIND_FIELD, told
from lsmlake.lsm.merge.rule import Old
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.row_kinds import kinds_of, with_kind
from lsmlake.options.changelog import FULL_COMPACTION, INPUT, LOOKUP, NONE
from lsmlake.predicate import evaluate
from lsmlake.read.plan import COMPACTED, FRESH, RAW, Plan, Split, plan, prune_by_key
from lsmlake.read.scan import read_split
from lsmlake.schema.rowkind import DELETE, INSERT, UPDATE_BEFORE, plain
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.store.data_reader import DataReader
from lsmlake.store.metadata import Metadata

DIFF, CHANGELOG, DELTA = MODES = "diff", "changelog", "delta"
AUTO = "auto"
"""Of every snapshot its changelog or, if it was made without a changelog producer, what is different. Where one producer takes
the place of another, what both tell of is the same."""
_VIEWS = {NONE: FRESH, INPUT: FRESH, LOOKUP: COMPACTED, FULL_COMPACTION: RAW}


@dataclass(frozen=True)
class Logged:
    """Files whose rows say of what kind they are, each in order."""

    files: tuple[DataFile, ...]


@dataclass(frozen=True)
class Piece:
    """The changes of `bucket`, in order: states compared, files, or rows that are all new. `snapshots`: the numbers of those
    whose files are read. `upserts`: told as +I and -D."""

    bucket: Bucket
    steps: tuple[Pair | Logged | Split, ...]
    snapshots: frozenset[int]
    upserts: bool = False

    @property
    def rows(self) -> int:
        """How many rows this is about, going by metadata."""
        return sum(file.rows for file in self._files()) + sum(_marked(s) for s in self.steps if isinstance(s, Pair))

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self._files())

    @property
    def files(self) -> int:
        return len(self._files())

    def _files(self) -> list[DataFile]:
        return [file for step in self.steps for file in _new_files(step)]


def _new_files(step: Pair | Logged | Split) -> Iterable[DataFile]:
    if isinstance(step, Logged):
        return step.files
    if isinstance(step, Split):
        return (*step.files, *step.level0, *step.merged)
    there = {file.name for split in step.before for file in _new_files(split)}
    return [file for split in step.after for file in _new_files(split) if file.name not in there]


def _marked(pair: Pair) -> int:
    """Rows newly dead."""
    before, after = ({n: ref for s in side for n, ref in s.vectors.items()} for side in (pair.before, pair.after))
    return sum(ref.cardinality - (before[n].cardinality if n in before else 0) for n, ref in after.items())


def check_mode(mode: str, schema: Schema, where: str) -> str:
    """`mode` itself. Raises InvalidQuery."""
    if mode not in (*MODES, AUTO):
        raise InvalidQuery(
            "unknown mode of changes", where=where, expected=" or ".join(map(repr, MODES)), found=repr(mode), cure="correct it"
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
        cure=Wording(
            "use mode 'diff', or have it written from now on by alter(set_option('changelog-producer', 'lookup'))",
            command="use --mode diff, or have it written from now on: `lsmlake alter TABLE --set changelog-producer=lookup`",
        ),
    )


def view_of(schema: Schema, mode: str) -> str:
    """Which rows (mode of `read.plan`) these changes turn into each other: a changelog tells of what compaction brought up."""
    return _VIEWS[schema.parsed_options.changelog.producer] if mode in (CHANGELOG, AUTO) else FRESH


def frame(meta: Metadata, schema: Schema, predicate: object, columns: Sequence[str] | None) -> Plan:
    """What pieces are read with: a plan without files."""
    return plan(meta, schema, None, predicate, columns)


def net(meta: Metadata, like: Plan, first: Snapshot | None, last: Snapshot | None, near: pa.Table | None = None) -> list[Piece]:
    """What is different in `last` from `first`, a piece a bucket that differs; `near`: see `read.plan.plan`."""
    before, after = (_plan(meta, like, snapshot, FRESH, near) for snapshot in (first, last))
    numbers = frozenset(snapshot.id for snapshot in (first, last) if snapshot is not None)
    return [Piece(pair.bucket, (pair,), numbers) for pair in pairs(before, after)]


def everything(meta: Metadata, like: Plan, snapshot: Snapshot | None, mode: str) -> list[Piece]:
    """All rows that changes of `mode` before and of `snapshot` come to, as +I."""
    splits = _plan(meta, like, snapshot, view_of(meta.schema_of(snapshot), mode)).splits
    alone = (replace(s, files=(file,), met=()) for s in splits if not (s.level0 or s.merged) for file in s.files)
    together = (s for s in splits if s.level0 or s.merged)
    numbers = frozenset() if snapshot is None else frozenset({snapshot.id})
    return [Piece(split.bucket, (split,), numbers) for split in (*alone, *together)]


def of_snapshot(meta: Metadata, like: Plan, snapshot: Snapshot, mode: str) -> list[Piece]:
    """What the commit of `snapshot` did, in one order always. Raises SnapshotNotFound if the one before is needed and gone."""
    schema = meta.schema_of(snapshot)
    if mode in (CHANGELOG, AUTO):
        if snapshot.changelog_manifest_list or schema.parsed_options.changelog.producer != NONE:
            return _logged(meta.changelog(snapshot, like.schema), like, snapshot)
        if mode == CHANGELOG:
            raise _no_changelog(f"snapshot {snapshot.id} writes no changelog", meta.paths.root)
    meta.snapshot(snapshot.id)  # of which more than the changelog must be kept
    if snapshot.kind == COMPACT and schema.parsed_options.retention.rows_ms is None:
        return []  # no row is another
    written = _written(meta, schema, snapshot) if mode == DELTA and _asks_keys(like) else None
    found = _next(meta, like, snapshot) if written is None else _logged(written, like, snapshot)
    return [replace(piece, upserts=mode == DELTA) for piece in found]


def by_bucket(pieces: Iterable[Piece]) -> list[Piece]:
    """All pieces of a bucket as one."""
    found: dict[Bucket, Piece] = {}
    for piece in pieces:
        known = found.get(piece.bucket)
        if known is not None:
            piece = replace(piece, steps=known.steps + piece.steps, snapshots=known.snapshots | piece.snapshots)
        found[piece.bucket] = piece
    return list(found.values())


def _plan(meta: Metadata, like: Plan, snapshot: Snapshot | None, mode: str, near: pa.Table | None = None) -> Plan:
    return plan(meta, meta.schema_of(snapshot), snapshot, like.predicate, like.columns, mode, near)


def _next(meta: Metadata, like: Plan, snapshot: Snapshot) -> list[Piece]:
    """What is different from the snapshot before, looked for where the commit has been."""
    before, schema = _before(meta, snapshot), meta.schema_of(snapshot)
    known = meta.vector_refs(before) if before else {}
    marked = [name for name, ref in meta.vector_refs(snapshot).items() if known.get(name) != ref]
    live = meta.live(snapshot, schema)
    of_marked = live.filter(pc.is_in(live["name"], value_set=pa.array(marked, pa.string())))
    near = manifest.concat([meta.delta(snapshot, schema), of_marked], schema)
    return net(meta, like, before, snapshot, near)


def _before(meta: Metadata, snapshot: Snapshot) -> Snapshot | None:
    if snapshot.id == 1:
        return None
    try:
        return meta.snapshot(snapshot.id - 1)
    except SnapshotNotFound as gone:
        raise SnapshotNotFound(
            f"the changes of snapshot {snapshot.id} cannot be told without snapshot {snapshot.id - 1}, which has expired",
            where=meta.paths.root,
            cure="start later, keep snapshots longer or name a consumer, which protects what it has not read",
        ) from gone


def _asks_keys(like: Plan) -> bool:
    """Whether rows are chosen by their key, if at all: of a delete nothing else is known."""
    return like.predicate is None or like.predicate.columns <= set(like.schema.primary_key)


def _written(meta: Metadata, schema: Schema, snapshot: Snapshot) -> pa.Table | None:
    """The files of the rows the commit brought, if it has them all as they were written and nothing but arrival decides."""
    if rule_of(schema).old is not Old.DIES:
        return None
    entries = meta.delta(snapshot, schema)
    added = pc.and_(pc.equal(entries["kind"], ADD), pc.equal(entries["sequence"], snapshot.id))
    own = entries.filter(pc.and_(added, pc.equal(entries["source"], APPEND)))
    return own if pc.sum(own["rows"]).as_py() == snapshot.delta_rows else None


def _logged(entries: pa.Table, like: Plan, snapshot: Snapshot) -> list[Piece]:
    if like.predicate is not None and entries.num_rows:
        entries, _ = prune_by_key(entries, like.schema, like.predicate)
    found: dict[Bucket, list[DataFile]] = {}
    for bucket, _, file in manifest.files_of(entries, like.schema, statistics=False):
        found.setdefault(bucket, []).append(file)
    numbers = frozenset({snapshot.id})
    return [Piece(bucket, (Logged(tuple(files)),), numbers) for bucket, files in sorted(found.items(), key=_order)]


def _order(item: tuple[Bucket, object]) -> tuple:
    return repr(item[0].partition), item[0].number


# -- reading ----------------------------------------------------------------------------------------------------------


def read_piece(meta: Metadata, like: Plan, piece: Piece) -> Iterator[pa.Table]:
    """The changes of a piece in order: `_row_kind` as text, then the plan's columns. With a predicate, those of the rows it is
    true of. Raises SnapshotNotFound if a snapshot has expired meanwhile."""
    with meta.unless_expired(*piece.snapshots):
        for step in piece.steps:
            for rows in _rows(meta, like, step):
                rows = _as_upserts(rows) if piece.upserts else rows
                yield told(rows).select([KIND_FIELD.name, *like.columns]).cast(changes_schema(like))


def changes_schema(like: Plan) -> pa.Schema:
    """Changes as users see them; a delete may know only its key."""
    key = like.schema.primary_key
    fields = (like.schema.plain_columns.field(name) for name in like.columns)
    return pa.schema([KIND_FIELD, *(f if f.name in key else f.with_nullable(True) for f in fields)])


def _rows(meta: Metadata, like: Plan, step: Pair | Logged | Split) -> Iterator[pa.Table]:
    if isinstance(step, Pair):
        yield read_pair(meta, like, step)
    elif isinstance(step, Split):
        yield from read_split(meta, like, step)
    else:
        for file in step.files:
            yield from _file(meta, like, file)


def _file(meta: Metadata, like: Plan, file: DataFile) -> Iterator[pa.Table]:
    with DataReader(meta.env, meta.paths.data(file), file, like.schema) as reader:
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
