"""The commit: one conditional create of `snapshot-<n+1>`. Optimistic; knows snapshots and edits, nothing of rows.

1. Read the latest snapshot. Is our own commit there already? Then it is done.
2. `rebase` the messages onto it: what was overtaken falls back to a plain append, or is dropped.
3. Write the manifest of the edits (once for each outcome of 2), its lists and, if vectors changed, the index manifest.
4. Check the invariants of the touched buckets.
5. Create the snapshot if absent. Taken: remove what this attempt wrote, wait a little, start again.
6. Look whether the snapshot before it, or its mark, is still there, and schema 0. A writer that was asleep for long may have
   created a snapshot whose number had been freed, or of a table that was dropped meanwhile: neither is a commit.

The outcome of one attempt is a value. Files are removed only when it is certain that nothing published names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lsmlake.commit.invariants import apply, violations
from lsmlake.commit.rebase import Rebased, rebase
from lsmlake.commit.snapshot_expiry import housekeep
from lsmlake.errors import (
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidData,
    LakeError,
    SnapshotNotFound,
    StorageFailed,
    TableNotFound,
    Wording,
)
from lsmlake.format import manifest
from lsmlake.format.files import Bucket, BucketEdit, BucketState, CommitMessage
from lsmlake.format.manifest import ADD, DELETE, ManifestEntry, ManifestMeta
from lsmlake.format.snapshot import APPEND, COMPACT, OVERWRITE, Named, Snapshot
from lsmlake.schema.schema import Schema
from lsmlake.store.metadata import Metadata

_CLOCKS_DIFFER_MS = 60_000
_HINT_EVERY = 10  # a reader probes that many snapshots past the hint at most; writing it costs a commit about a tenth

_Written = TypeVar("_Written", Named, ManifestMeta)


@dataclass(frozen=True)
class Committed:
    """Published. `edits`: what of the messages went in; `overtaken`: buckets whose compaction did not."""

    snapshot: Snapshot | None
    edits: tuple[BucketEdit, ...] = ()
    overtaken: tuple[Bucket, ...] = ()


@dataclass(frozen=True)
class Conflict:
    """Certainly not published: another commit took the number."""


@dataclass(frozen=True)
class Unknown:
    """The store failed while publishing."""

    cause: LakeError


@dataclass(frozen=True)
class Identity:
    """Who commits. Raises InvalidData.

    Args:
        commit_id: None: the commit is known only to itself and its retries.
        query: the id of the streaming query that commits under this name; "" if it cannot be known; None: not a query, or a query
            whose id is the name. Two queries never share a name: their batches have the same numbers and other rows.
        replaces: the id of the query whose name this query takes over.
    """

    writer_id: str
    commit_id: int | None = None
    query: str | None = None
    replaces: str | None = None

    def __post_init__(self) -> None:
        number = self.commit_id
        if not isinstance(self.writer_id, str) or not self.writer_id:
            raise InvalidData(
                "a writer_id is text", expected="a name", found=f"writer_id={self.writer_id!r}", cure="name the writer"
            )
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 63):
            expected = "an integer from 0 to 2^63 - 1"
            raise InvalidData("a commit_id is a number", expected=expected, found=f"commit_id={number!r}", cure="count batches")


@dataclass(frozen=True)
class Succession:
    """A commit that puts `schema` into effect, and may only follow snapshot number `after` (0 = be the first). `remade`: rows may
    be others than before."""

    schema: Schema
    after: int
    remade: bool


def commit(
    meta: Metadata,
    schema: Schema,
    messages: Sequence[CommitMessage],
    identity: Identity,
    properties: Mapping[str, str] = {},
    succession: Succession | None = None,
) -> Committed:
    """Publish `messages`, made for `schema`, as one snapshot and remove the files it did not use.

    Nothing to publish, or all of it overtaken: `snapshot` is None. Raises CommitConflict after `commit.max-retries`, or if the
    table has been altered so that the messages do not fit, and StorageFailed, the table being as before; CommitUnknown if the
    store fails in step 5 or 6 and cannot be asked, the table being as before or after; TableNotFound, nothing being published, if
    the table was dropped or renamed, even if another one has its name by now.
    """
    buckets = [message.bucket for message in messages]
    assert len(set(buckets)) == len(buckets), "I5: a commit adds at most one run to a bucket"
    attempt = _Attempt(meta, schema, messages, identity, properties, succession)
    options = schema.parsed_options
    wait_ms = options.commit.wait_min_ms
    try:
        for retries_left in reversed(range(1 + options.commit.retries)):
            outcome = attempt.run()
            if isinstance(outcome, Unknown):
                outcome = attempt.settle(outcome)
            if isinstance(outcome, Committed):
                attempt.clean(outcome.edits)
                break
            attempt.withdraw()
            if retries_left:
                meta.env.sleep(wait_ms * (0.5 + meta.env.random()) / 1000)
            wait_ms = min(2 * wait_ms, options.commit.wait_max_ms)
    except BaseException:  # an interruption by the user leaves no files behind either
        attempt.give_up()
        raise
    if isinstance(outcome, Committed):
        if outcome.snapshot is not None:
            housekeep(meta, outcome.snapshot, options)
        return outcome
    attempt.clean(())
    raise CommitConflict(
        "other commits won every time",
        where=meta.paths.root,
        found=f"{1 + options.commit.retries} attempts",
        cure="run it again; with many writers raise commit.max-retries",
    )


def replayed(meta: Metadata, identity: Identity, latest: Snapshot | None) -> Snapshot | None:
    """The snapshot that already holds this commit; `None` if it has not taken place.

    Raises InvalidData if another streaming query writes under this name, or if the writer has gone past this id and the snapshot
    is not kept, so nobody knows whether it took place.
    """
    if identity.commit_id is None or latest is None:
        return None
    last = latest.writers.get(identity.writer_id)
    if last is None or _takes_over(meta, identity, latest) or identity.commit_id > last:
        return None
    number = latest.id
    while number > 0:
        try:
            snapshot = meta.snapshot(number)
        except SnapshotNotFound:
            break
        if (snapshot.writer_id, snapshot.commit_id) == (identity.writer_id, identity.commit_id):
            return snapshot
        number -= 1
    if identity.commit_id == last:
        return latest  # its snapshot has expired, the note of it has not
    raise InvalidData(
        f"commit id {identity.commit_id} of writer {identity.writer_id!r} is behind its last one",
        where=meta.paths.root,
        expected=f"more than {last}",
        found=identity.commit_id,
        cure="commit ids of a writer must grow; use another writer_id for another job",
    )


def _takes_over(meta: Metadata, identity: Identity, latest: Snapshot) -> bool:
    """Whether a known name passes from one query to another, whose batches are then new whatever their numbers.

    Raises InvalidData if it may not: `identity.replaces` does not name the query that has it.
    """
    owner = latest.queries.get(identity.writer_id)
    if owner == identity.query or (identity.query is not None and owner is not None and "" in (owner, identity.query)):
        return False
    if owner is not None and owner == identity.replaces:
        return True
    raise InvalidData(
        f"the writer_id {identity.writer_id!r} belongs to another {'job' if owner is None else 'streaming query'}, "
        "whose batches have the same numbers",
        where=meta.paths.root,
        expected="commits with writer_id and commit_id, no stream" if owner is None else f"query {owner}".rstrip(),
        found=_seeker(identity.query),
        cure="give each job a writer_id of its own"
        if identity.query is None
        else "give each sink a writer_id of its own"
        + (
            ""
            if owner is None
            else f"; if this query replaces that one for good, give its sink the argument replaces = {owner!r}"
        ),
    )


def _seeker(query: str | None) -> str:
    if query is None:
        return "a commit with writer_id and commit_id, no stream"
    return f"query {query}" if query else "a streaming query"


class _Attempt:
    """Attempts to publish the same messages; keeps what can be used again."""

    def __init__(
        self,
        meta: Metadata,
        schema: Schema,
        messages: Sequence[CommitMessage],
        identity: Identity,
        properties: Mapping[str, str],
        succession: Succession | None,
    ) -> None:
        self.meta, self.schema, self.messages, self.identity, self.properties = meta, schema, messages, identity, properties
        self.succession = succession
        self.manifests: dict[tuple, ManifestMeta] = {}  # by the identity of the edits in it, and what it tells of them
        self.base: Snapshot | None = None  # the snapshot that `tried` follows
        self.tried: tuple[Snapshot, Rebased] | None = None
        self.written: list[str] = []  # metadata of the attempt under way
        self.publishing = False  # the store was asked to publish `tried`, and did not say that it refused

    def run(self) -> Committed | Conflict | Unknown:
        meta, self.publishing = self.meta, False
        latest = meta.latest()
        if done := replayed(meta, self.identity, latest):
            return Committed(done)
        try:
            with meta.unless_expired(latest):
                return self._onto(latest)
        except SnapshotNotFound:
            return Conflict()  # with one that came after `latest`

    def _onto(self, latest: Snapshot | None) -> Committed | Conflict | Unknown:
        meta, schema_id = self.meta, self._schema_id(latest)
        states = self._states(latest)
        rebased = rebase(self.messages, states)
        if not rebased.edits and self.succession is None:
            return Committed(None, (), rebased.overtaken)
        number = latest.id + 1 if latest else 1
        _check(rebased.edits, states, meta.paths.root)
        snapshot = self._snapshot(number, schema_id, latest, rebased, states)
        self.base, self.tried, self.publishing = latest, (snapshot, rebased), True
        try:
            if not meta.put_snapshot(snapshot):
                outcome = self._told(meta.snapshot(number)) if meta.is_kept(number) else Conflict()
                self.publishing = isinstance(outcome, Committed)
                return outcome
            outcome = self._confirmed()
        except (StorageFailed, Corrupt) as failed:
            return Unknown(failed)
        if isinstance(outcome, Committed):
            self._hint(number)
        return outcome

    def _confirmed(self) -> Committed | Conflict:
        """Step 6, the snapshot being there. Raises TableNotFound, StorageFailed, CommitUnknown."""
        meta, (snapshot, rebased) = self.meta, self.tried
        follows = self.base is None or meta.is_in_place(self.base)
        try:
            meta.first_schema()  # after the other look: a table renamed in between has taken all snapshots along
        except TableNotFound as gone:
            self._take_back(gone)
            raise
        if not follows:
            self.publishing = False
            meta.delete_quietly([meta.paths.snapshot(snapshot.id)])
            return Conflict()
        return Committed(snapshot, rebased.edits, rebased.overtaken)

    def _take_back(self, gone: TableNotFound) -> None:
        """Remove the snapshot, the table being gone. Raises CommitUnknown if the snapshot is gone, too: it may have been
        published, and renamed along with the table."""
        meta, path = self.meta, self.meta.paths.snapshot(self.tried[0].id)
        if meta.env.storage.size(path) is None:
            raise CommitUnknown(
                "the table was dropped or renamed while the commit was published",
                where=path,
                found=gone,
                cure="if it was renamed, look at the snapshots of the table that has its new name",
            ) from gone
        self.publishing = False
        meta.delete_quietly([path])

    def _schema_id(self, latest: Snapshot | None) -> int:
        """The schema of the new snapshot. Raises CommitConflict if it and the messages do not go together."""
        there, root = latest.schema_id if latest else 0, self.meta.paths.root
        if self.succession is not None:
            if (latest.id if latest else 0) != self.succession.after:
                raise CommitConflict("another commit came first", where=root, cure="alter the table again, or pause its writers")
            return self.succession.schema.id
        if there != self.schema.id and _contract(self.meta.schema(there)) != _contract(self.schema):
            raise CommitConflict(
                "the table was altered meanwhile",
                where=root,
                expected=f"schema {self.schema.id}",
                found=f"schema {there}, with options for which these rows were not written",
                cure="run it again",
            )
        return there

    def settle(self, unknown: Unknown) -> Committed | Conflict:
        """Look what became of the attempt. Not there: raises the store's own error, the table is as before. Raises CommitUnknown
        if the store does not say."""
        number = self.tried[0].id
        try:
            found = self._looked_up()
        except (SnapshotNotFound, TableNotFound, StorageFailed, Corrupt) as silent:
            raise CommitUnknown(
                "the store failed while publishing",
                where=self.meta.paths.snapshot(number),
                found=unknown.cause,
                cure=Wording(
                    "look at snapshots(); commit again with the same writer_id and commit_id, which is safe",
                    command="see `lsmlake snapshots TABLE` for a new snapshot before you run the command again",
                ),
            ) from silent
        if found is None:
            raise unknown.cause
        return found

    def _looked_up(self) -> Committed | Conflict | None:
        """What became of the attempt; None if it was certainly not published. Raises SnapshotNotFound if the snapshot that had
        the number has expired, whoever published it, StorageFailed, Corrupt, TableNotFound."""
        meta, number = self.meta, self.tried[0].id
        try:
            return self._told(meta.snapshot(number))
        except SnapshotNotFound:
            if meta.is_numbered(number) or (meta.latest_id() or 0) >= number:
                raise
            return None

    def _told(self, there: Snapshot) -> Committed | Conflict:
        """What the snapshot that has the number says. It may be ours even so: a store that repeats a request of its own accord
        answers "taken" to the one that took it."""
        return self._confirmed() if there == self.tried[0] else Conflict()

    def give_up(self) -> None:
        """After an error or an interruption: remove all that was written, as far as the store lets us. If the snapshot was
        published, or the store does not say, nothing is removed that it names."""
        if self.publishing:
            try:
                outcome = self._looked_up()
            except LakeError:
                return
            if isinstance(outcome, Committed):
                self.clean(outcome.edits)
                return
        self.meta.delete_quietly([*self.written, *self._unused(())])

    def clean(self, used: Sequence[BucketEdit]) -> None:
        """Remove what no snapshot can name: files of the messages beyond `used`, manifests beyond the one published."""
        self.meta.delete_quietly(self._unused(used))

    def withdraw(self) -> None:
        """After a conflict: remove the metadata of that attempt."""
        self.meta.delete_quietly(self.written)
        self.written = []

    def _unused(self, used: Sequence[BucketEdit]) -> list[str]:
        paths = self.meta.paths
        kept = {paths.data(file) for edit in used for file in (*edit.added, *edit.changelog)}
        kept |= {paths.puffin(ref.puffin) for edit in used for ref in edit.vectors.values()}
        unused = [path for message in self.messages for path in message.written if path not in kept]
        manifests = [paths.manifest(m.name) for which, m in self.manifests.items() if which[:-1] != _identities(used)]
        return [*unused, *manifests]

    def _hint(self, number: int) -> None:
        if number % _HINT_EVERY:
            return
        try:
            self.meta.hint_latest(number)
        except StorageFailed:  # a hint only: readers look further
            return

    def _states(self, latest: Snapshot | None) -> dict[Bucket, BucketState]:
        """Of the buckets where it matters: those with a compaction."""
        wanted = [message.bucket for message in self.messages if message.compact is not None]
        return self.meta.states(latest, self.schema, wanted, statistics=False) if latest and wanted else {}

    def _snapshot(
        self, number: int, schema_id: int, latest: Snapshot | None, rebased: Rebased, states: Mapping[Bucket, BucketState]
    ) -> Snapshot:
        """Write everything the new snapshot names, and describe it."""
        meta, edits = self.meta, rebased.edits
        delta = [self._manifest(edits)._replace(sequence=number)] if any(c.added or c.removed for c in edits) else []
        base = meta.manifest_metas(latest) if latest else ()
        base = self._fewer(base, number)
        base_list = self._noted(meta.put_manifest_list(base))
        delta_list = self._noted(meta.put_manifest_list(delta))
        told = [self._changelog(edits)._replace(sequence=number)] if any(c.changelog for c in edits) else []
        index = latest.index_manifest if latest else None
        if any(edit.vectors or edit.removed for edit in edits):
            vectors = _index(meta.vector_refs(latest) if latest else {}, edits)
            if vectors or index:
                index = self._noted(meta.put_index(vectors))
        rows = sum(message.rows for message in self.messages)
        writers, queries = (dict(latest.writers), dict(latest.queries)) if latest else ({}, {})
        if self.identity.commit_id is not None:
            writers[self.identity.writer_id] = self.identity.commit_id
            if self.identity.query or (self.identity.query == "" and self.identity.writer_id not in queries):
                queries[self.identity.writer_id] = self.identity.query
        return Snapshot(
            id=number,
            table_uuid=self.schema.table_uuid,
            schema_id=schema_id,
            base_manifest_list=base_list,
            delta_manifest_list=delta_list,
            index_manifest=index,
            writer_id=self.identity.writer_id,
            commit_id=self.identity.commit_id,
            kind=APPEND if rows else OVERWRITE if self.succession and self.succession.remade else COMPACT,
            time_ms=self._time_ms(latest),
            total_rows=(latest.total_rows if latest else 0) + sum(_growth(edit, states) for edit in edits),
            delta_rows=rows,
            changelog_manifest_list=self._noted(meta.put_manifest_list(told)) if told else None,
            changelog_rows=sum(file.rows for edit in edits for file in edit.changelog),
            writers=writers,
            queries=queries,
            properties=dict(self.properties),
        )

    def _time_ms(self, latest: Snapshot | None) -> int:
        """Now, but not before `latest`, since clocks differ a little. If they differ much, the storage's clock decides which one
        is wrong: a snapshot that a wrong clock has dated years ahead must not date all that follow."""
        now_ms = self.meta.env.clock()
        if latest is None or latest.time_ms <= now_ms + _CLOCKS_DIFFER_MS:
            return max(now_ms, latest.time_ms if latest else 0)
        stored_ms = self.meta.stored_ms(latest.id)
        latest_is_wrong = stored_ms is not None and abs(stored_ms - now_ms) < abs(stored_ms - latest.time_ms)
        return now_ms if latest_is_wrong else latest.time_ms

    def _manifest(self, edits: tuple[BucketEdit, ...]) -> ManifestMeta:
        return self._once((*_identities(edits), "data"), _entries(edits))

    def _changelog(self, edits: tuple[BucketEdit, ...]) -> ManifestMeta:
        told = [ManifestEntry(ADD, c.bucket, c.total_buckets, file) for c in edits for file in c.changelog]
        return self._once((*_identities(edits), "changelog"), told)

    def _once(self, which: tuple, entries: list[ManifestEntry]) -> ManifestMeta:
        if which not in self.manifests:
            self.manifests[which] = self.meta.put_manifest(manifest.to_table(entries, self.schema), self.schema.id, 0)
        return self.manifests[which]

    def _fewer(self, metas: Sequence[ManifestMeta], number: int) -> Sequence[ManifestMeta]:
        """Once there are many small manifests at the end of the list, make them one."""
        options, small = self.schema.parsed_options, 0
        while small < len(metas) and metas[-1 - small].bytes < options.commit.manifest_target_bytes:
            small += 1
        if small < options.commit.manifest_merge_count:
            return metas
        kept, merged = metas[: len(metas) - small], metas[len(metas) - small :]
        table = manifest.merge((self.meta.entries(one, self.schema) for one in merged), self.schema)
        return (*kept, self._noted(self.meta.put_manifest(table, self.schema.id, number))) if table.num_rows else kept

    def _noted(self, named: _Written) -> _Written:
        self.written.append(self.meta.paths.manifest(named.name))
        return named


def _contract(schema: Schema) -> tuple:
    """What writers must agree upon."""
    return schema.parsed_options.meaning, schema.parsed_options.changelog.producer


def _identities(edits: Sequence[BucketEdit]) -> tuple[int, ...]:
    return tuple(map(id, edits))


def _entries(edits: Sequence[BucketEdit]) -> list[ManifestEntry]:
    """Removals first: an upgrade removes and adds the same file."""
    return [
        ManifestEntry(kind, edit.bucket, edit.total_buckets, file)
        for edit in edits
        for kind, files in ((DELETE, edit.removed), (ADD, edit.added))
        for file in files
    ]


def _index(before: Mapping[str, object], edits: Sequence[BucketEdit]) -> dict:
    gone = {file.name for edit in edits for file in edit.removed} - {file.name for edit in edits for file in edit.added}
    after = {name: ref for name, ref in before.items() if name not in gone}
    for edit in edits:
        after.update(edit.vectors)
    return after


def _growth(edit: BucketEdit, states: Mapping[Bucket, BucketState]) -> int:
    """By how much the live rows grow."""
    before = states.get(edit.bucket) or BucketState(edit.bucket, edit.total_buckets)
    if edit.base is None:
        return sum(file.rows for file in edit.added)
    return _live(apply(before, edit)) - _live(before)


def _live(state: BucketState) -> int:
    return sum(file.rows for file in state.files) - sum(ref.cardinality for ref in state.vectors.values())


def _check(edits: Sequence[BucketEdit], states: Mapping[Bucket, BucketState], where: str) -> None:
    """The invariants of every bucket that a compaction touches, as it will be."""
    for edit in edits:
        if edit.base is None:
            continue
        before = states.get(edit.bucket) or BucketState(edit.bucket, edit.total_buckets)
        if found := violations(apply(before, edit)):
            raise Corrupt(
                "a commit would break the table and was not made",
                where=where,
                found="; ".join(found),
                cure="run `lsmlake verify`, and report this",
            )
