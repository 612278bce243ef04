"""Commits: published snapshots, the outcome of failed attempts, and the files they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from direct_writes import upsert_rows
from faults import FaultStorage
from naive import unreferenced
from strategies import Shape, contents, copied, fake_env, filled, lake_on, multiset, new_lake, rows_of

from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.commit.requirements import BucketAsRead, FilesAsRead, apply, check_edits, rebase, violations
from lsmlake.errors import CommitConflict, CommitUnknown, Corrupt, InvalidData, StorageFailed
from lsmlake.format.data_files import APPEND, Bucket, BucketEdit, BucketState, CommitMessage, DataFile, VectorRef
from lsmlake.format.snapshot import Snapshot
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage
from lsmlake.tables.version import Metadata
from lsmlake.write.prepare import prepare

SHAPE = Shape.of("bigint")


def rows(table: Table, start: int, stop: int, stamp: int = 0) -> pa.Table:
    return SHAPE.table([SHAPE.row(code, code + stamp, stamp) for code in range(start, stop)], table.schema)


def created(storage: Storage | None = None, **options: object) -> Table:
    return SHAPE.create(new_lake(storage), **options)


def on(storage: Storage, table: Table, **env: object) -> Table:
    """The same table, its calls made on another storage."""
    return Table("d.t", Metadata.of(replace(fake_env(storage, "on-"), **env), table.meta.paths), Runtime())


def state(storage: Storage) -> list[tuple]:
    return multiset(rows_of(lake_on(storage).table("d.t").scan().to_arrow()))


class Answering(MemoryStorage):
    """A storage whose `put_if_absent` of snapshots is another's business."""

    def __init__(self, answer: Callable[[MemoryStorage, str, bytes], bool]) -> None:
        super().__init__()
        self.answer = answer

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if "/snapshot/" not in path:
            return super().put_if_absent(path, data)
        return self.answer(super(), path, data)


# --- what a snapshot says ---


def test_a_snapshot_counts_rows_and_names_its_kind():
    table = created()
    first = table.upsert(rows(table, 0, 10))
    assert (first.id, first.kind, first.delta_rows, first.total_rows) == (1, "APPEND", 10, 10)
    second = table.upsert(rows(table, 5, 12), compact=False)
    assert (second.delta_rows, second.total_rows) == (7, 17), "level 0 counts though it supersedes"
    report = table.compact(full=True)
    third = table.meta.snapshots.get(report.snapshot_id)
    assert (third.kind, third.delta_rows, third.total_rows) == ("COMPACT", 0, 12)
    assert table.scan().count() == 12
    assert table.upsert(rows(table, 0, 0)) is None
    assert table.compact(full=True).snapshot_id is None


def test_repeats_of_a_key_count_once():
    table = created()
    twice = pa.concat_tables([rows(table, 0, 4), rows(table, 0, 4, 1)])
    assert table.upsert(twice).delta_rows == 4


@pytest.mark.parametrize("merge_count", [2, 3, 5])
def test_manifests_stay_few_and_say_the_same(merge_count):
    table = created(manifest__merge_min_count=merge_count)
    for number in range(12):
        table.upsert(rows(table, 3 * number, 3 * number + 8, number), compact=number % 2 == 0)
        assert len(table.meta.manifests.metas(table.meta.snapshots.latest())) <= merge_count + 1
        assert table.verify() == []
    for number in range(1, 13):
        assert table.scan(snapshot=number).count() == len({code for i in range(number) for code in range(3 * i, 3 * i + 8)})


def test_the_hint_is_written_now_and_then():
    table = created()
    for number in range(21):
        table.upsert(rows(table, 0, 1, number), compact=False)
    assert contents(table.meta.env.storage)[table.meta.paths.latest] == b"20"
    assert lake_on(table.meta.env.storage).table("d.t").meta.snapshots.latest_id() == 21


# --- replays ---


def test_a_replay_returns_its_snapshot_however_old():
    table = created()
    first = [table.upsert(rows(table, 0, 4, number), writer_id="w", commit_id=10 * number) for number in range(5)]
    other = table.upsert(rows(table, 0, 4, 9), writer_id="v", commit_id=0)
    before = contents(table.meta.env.storage)
    for number, snapshot in enumerate(first):
        assert table.upsert(rows(table, 20, 30), writer_id="w", commit_id=10 * number) == snapshot
        assert table.delete_keys({"k0": [1]}, writer_id="w", commit_id=10 * number) == snapshot
    assert table.upsert(rows(table, 20, 30), writer_id="v", commit_id=0) == other
    assert contents(table.meta.env.storage) == before


def test_a_replay_that_is_found_only_by_the_commit_leaves_nothing():
    """As when the writer read the version before its commit was published by an earlier run."""
    table = created()
    late = table.version
    first = batch(table, 5, None, 0)
    before = contents(table.meta.env.storage)
    prepared = prepare(rows(table, 0, 4), late.schema)[0]
    for version in (late, table.version):
        assert upsert_rows(version, prepared, Identity("w", 5), None) == first
    assert contents(table.meta.env.storage) == before


def test_a_replay_is_recognised_after_its_snapshot_has_expired():
    table = created()
    for number in range(4):
        table.upsert(rows(table, 0, 4, number), writer_id="w", commit_id=number)
    table.upsert(rows(table, 0, 4, 7))
    for number in range(1, 5):
        table.meta.env.storage.delete(table.meta.paths.snapshot(number))
    assert table.upsert(rows(table, 0, 4, 8), writer_id="w", commit_id=3).id == 5, "the last one is on record"
    with pytest.raises(InvalidData, match=r"commit_id 2 of writer 'w' is less than its last one, expected more than 3"):
        table.upsert(rows(table, 0, 4, 8), writer_id="w", commit_id=2)


def test_two_writers_do_not_know_each_others_numbers():
    table = created()
    assert table.upsert(rows(table, 0, 4), writer_id="a", commit_id=5).id == 1
    assert table.upsert(rows(table, 0, 4), writer_id="b", commit_id=5).id == 2
    assert table.upsert(rows(table, 0, 4), writer_id="b", commit_id=6).writers == {"a": 5, "b": 6}


def test_a_version_out_of_date_costs_no_retry():
    """Another commit came while the rows were written: the writer goes on from that one, without having lost a race."""
    table = created(commit__max_retries="0")
    version = table.version
    table.upsert(rows(table, 0, 4))
    made = upsert_rows(version, prepare(rows(table, 4, 8), version.schema)[0], Identity("late"), None)
    assert (made.id, made.total_rows) == (2, 8)


def batch(table: Table, number: int, query: str | None, stamp: int, replaces: str | None = None) -> Snapshot:
    """A micro-batch of `query` under the name "w"."""
    version, identity = table.version, Identity("w", number, query, replaces)
    return upsert_rows(version, prepare(rows(table, 0, 4, stamp), version.schema)[0], identity, None)


def test_a_writers_name_belongs_to_one_query():
    table = created()
    first = [batch(table, number, "q1", number) for number in range(3)]
    before = contents(table.meta.env.storage)
    assert batch(table, 2, "q1", 2) == first[2], "a replay"
    for number in (0, 2, 3):
        with pytest.raises(InvalidData, match=r"'w' belongs to another .*query.* query q1, found query q2; .*'q1'"):
            batch(table, number, "q2", 8)
        with pytest.raises(InvalidData, match="belongs to another streaming query"):
            batch(table, number, "q2", 8, replaces="q0")
    for number in (0, 2, 3):
        with pytest.raises(InvalidData, match=r"expected query q1, found a commit with .* no stream; .*each job"):
            batch(table, number, None, 9)
    assert contents(table.meta.env.storage) == before


def test_a_query_may_take_the_place_of_another():
    """Its batches are new even if their numbers repeat, and the query it replaced cannot come back."""
    table = created()
    for number in range(3):
        batch(table, number, "q1", number)
    taken = [batch(table, number, "q2", 10 + number, replaces="q1") for number in range(2)]
    assert [snapshot.id for snapshot in taken] == [4, 5]
    assert [batch(table, number, "q2", 10, replaces="q1") for number in range(2)] == taken
    with pytest.raises(InvalidData, match="expected query q2, found query q1"):
        batch(table, 3, "q1", 3)
    assert table.meta.snapshots.latest().queries == {"w": "q2"}


def test_a_query_does_not_continue_the_numbers_of_a_job():
    table = created()
    table.upsert(rows(table, 0, 4), writer_id="w", commit_id=5)
    with pytest.raises(InvalidData, match=r"'w' belongs to another job.*give each sink a writer_id of its own$"):
        batch(table, 6, "q1", 1)


def test_batches_of_an_unknown_query_are_recognised_by_number():
    """Spark Connect does not always say which query calls. The first that is known keeps the name."""
    table = created()
    assert [batch(table, number, query, 1).id for number, query in enumerate(("", "q1", ""))] == [1, 2, 3]
    assert (batch(table, 2, "q1", 1).id, batch(table, 2, "", 1).id) == (3, 3)
    assert table.meta.snapshots.latest().queries == {"w": "q1"}
    with pytest.raises(InvalidData, match="expected query q1, found query q2"):
        batch(table, 3, "q2", 1)


def test_a_writer_without_number_is_never_a_replay():
    table = created()
    assert [table.upsert(rows(table, 0, 4), writer_id="a").id for _ in range(3)] == [1, 2, 3]


# --- attempts that fail ---


def test_a_failure_while_publishing_is_looked_into():
    """Before its effect: the store's own error, nothing left. After it: the commit has taken place."""
    world = MemoryStorage()
    table = created(world)
    table.upsert(rows(table, 0, 9))
    second = table.meta.paths.snapshot(2)
    (number,) = [n for n, call in enumerate(calls_of(world, table), 1) if call == ("put_if_absent", second)]
    for after in (False, True):
        storage = FaultStorage(copied(world)).fail_at(number, after=after, mode="error")
        if after:
            assert on(storage, table).upsert(rows(table, 5, 12, 1)).id == 2
        else:
            with pytest.raises(StorageFailed, match="no space left"):
                on(storage, table).upsert(rows(table, 5, 12, 1))
            assert contents(storage.inner) == contents(world)
        assert unreferenced(lake_on(storage.inner).table("d.t")) == []


def calls_of(world: MemoryStorage, table: Table) -> list[tuple[str, str]]:
    storage = FaultStorage(copied(world))
    on(storage, table).upsert(rows(table, 5, 12, 1))
    return list(storage.calls)


def test_when_the_store_does_not_say_nothing_is_removed():
    """Neither publishing nor looking is answered: every file stays, for the snapshot may name it."""

    class Deaf(MemoryStorage):
        deaf = False

        def read(self, path: str) -> pa.NativeFile:
            if self.deaf and path.endswith("snapshot-2"):
                raise StorageFailed("cannot read", where=path)
            return super().read(path)

        def put_if_absent(self, path: str, data: bytes) -> bool:
            if path.endswith("snapshot-2"):
                self.deaf = super().put_if_absent(path, data)
                raise StorageFailed("cannot create", where=path, found="timed out")
            return super().put_if_absent(path, data)

    storage = Deaf()
    table = created(storage)
    table.upsert(rows(table, 0, 9))
    more = rows(table, 5, 12, 1)
    with pytest.raises(CommitUnknown, match=r"snapshot-2: .*timed out.*same writer_id and commit_id"):
        table.upsert(more, writer_id="w", commit_id=1)
    storage.deaf = False
    healed = filled(MemoryStorage(), contents(storage))
    assert lake_on(healed).table("d.t").verify() == []
    assert lake_on(healed, "x-").table("d.t").upsert(more, writer_id="w", commit_id=1).id == 2


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("failure", [StorageFailed("cannot make durable"), KeyboardInterrupt()])
def test_a_commit_that_expires_before_its_writer_looks_keeps_its_files(failure, numbered):
    """The store fails, or the user interrupts, after the snapshot was published; meanwhile others commit and expire it."""

    def answer(store: MemoryStorage, path: str, data: bytes) -> bool:
        there = store.put_if_absent(path, data)
        if path.endswith("snapshot-2"):
            other = lake_on(storage, "o-").table("d.t")
            for number in range(2):
                other.upsert(rows(other, 20, 22, number), compact=False)
            other.expire_snapshots(retain_max=1, retain_min=1)
            raise failure
        return there

    storage = Answering(answer)
    table = created(storage)
    table.upsert(rows(table, 0, 9))
    how = {"writer_id": "mine", **({"commit_id": 1} if numbered else {})}
    with pytest.raises(CommitUnknown if isinstance(failure, StorageFailed) else KeyboardInterrupt):
        table.upsert(rows(table, 5, 12, 1), compact=False, **how)
    later = lake_on(storage, "x-").table("d.t")
    assert later.snapshots()["snapshot_id"].to_pylist() == [4]
    assert later.scan().count() == 12 + 2
    assert later.verify() == []


def test_taken_by_oneself_is_published():
    """A store that repeats a request whose answer was lost finds the number taken - by the first of the two."""
    storage = Answering(lambda store, path, data: store.put_if_absent(path, data) and False)
    table = created(storage)
    for number, how in enumerate(({}, {"writer_id": "w", "commit_id": 3}), start=1):
        assert table.upsert(rows(table, 0, 9, number), **how).id == number
    assert table.meta.snapshots.latest_id() == 2
    assert table.verify() == []
    assert unreferenced(table) == []


def test_the_commit_of_another_with_my_name_is_not_mine():
    """A failed attempt looks at the number it wanted. There stands a snapshot of the same writer, but not the one it made."""

    def answer(store: MemoryStorage, path: str, data: bytes) -> bool:
        if path.endswith("snapshot-2"):
            theirs = Snapshot.decode(data, path)
            latest = lake_on(copied(plain), "their-").table("d.t")
            other = latest.upsert(rows(latest, 30, 40, 5), writer_id=theirs.writer_id)
            for name, content in contents(latest.meta.env.storage).items():
                store.put_if_absent(name, content)
            assert other.id == 2
            raise StorageFailed("cannot create", where=path, found="timed out")
        return store.put_if_absent(path, data)

    plain = MemoryStorage()
    storage = Answering(answer)
    table = created(storage)
    table.upsert(rows(table, 0, 9))
    filled(plain, contents(storage))
    mine = table.upsert(rows(table, 5, 12, 1), writer_id="job")
    assert mine.id == 3
    expected = {
        row[0]: row for data in (rows(table, 0, 9), rows(table, 30, 40, 5), rows(table, 5, 12, 1)) for row in rows_of(data)
    }
    assert state(storage) == multiset(list(expected.values()))
    assert unreferenced(table) == []
    assert table.verify() == []


def test_a_writer_that_loses_every_attempt_gets_an_error_and_leaves_nothing():
    """A commit tries `commit.max-retries` times more, waiting longer each time; then the table is as before."""
    waits: list[float] = []

    def answer(store: MemoryStorage, path: str, data: bytes) -> bool:
        if not lost:
            return store.put_if_absent(path, data)
        other = replace(Snapshot.decode(data, path), writer_id="another", commit_id=None)
        first = Snapshot.decode(contents(store)[table.meta.paths.snapshot(1)], "")
        same = replace(first, id=other.id, writer_id="another")
        return store.put_if_absent(path, same.encode()) and False

    lost = False
    storage = Answering(answer)
    table = created(storage, commit__max_retries=4, commit__min_retry_wait="10 ms", commit__max_retry_wait="50 ms")
    table.upsert(rows(table, 0, 9))
    before = contents(storage)
    lost = True
    with pytest.raises(CommitConflict, match=r"d\.db/t: .*5 attempts.*commit\.max-retries"):
        on(storage, table, sleep=waits.append).upsert(rows(table, 5, 12, 1))
    left = {path for path in contents(storage) if path not in before and "/snapshot/" not in path}
    assert left == set()
    assert len(waits) == 4
    for wait, base in zip(waits, (10, 20, 40, 50), strict=True):
        assert 0.5 * base <= wait * 1000 <= 1.5 * base


def test_cleaning_up_after_a_commit_never_fails_it():
    """What a commit did not use cannot be removed: the commit has taken place all the same."""

    class Clinging(MemoryStorage):
        def delete(self, path: str) -> None:
            raise StorageFailed("cannot delete", where=path)

    storage = Clinging()
    table = created(storage, compaction__tier_runs=2)
    for number in range(4):
        assert table.upsert(rows(table, 0, 9, number)).id == number + 1
    assert unreferenced(table) != [], "runs merged in the commit that wrote them"
    assert table.verify() == []


# --- invariants ---


def file(name: str, low: int, high: int, level: int = 1, rows: int = 10) -> DataFile:
    return DataFile(name, "bucket-0", 100, rows, 0, (low,), (high,), level, 0, APPEND, 0, 1, 1)


HERE = Bucket((), 0)


def test_a_commit_that_violates_an_invariant_is_not_published():
    table = created(bucket=1)
    table.upsert(rows(table, 0, 9))
    (base,) = table.states().values()
    before = contents(table.meta.env.storage)
    overlapping = base.files[0]._replace(name="data-x.parquet")
    message = CommitMessage(base.bucket, compact=BucketEdit(base.bucket, 1, added=(overlapping,), base=base))
    with pytest.raises(Corrupt, match=r"d\.db/t: the commit violates invariants of the table.*not published.*I1: .*overlap"):
        commit(table.version, Request(Identity("w"), [message]))
    assert contents(table.meta.env.storage) == before


def test_one_commit_edits_a_bucket_once():
    edits = [BucketEdit(Bucket((), number), 2, added=(file(name, 0, 4),)) for number, name in enumerate("ab")]
    check_edits([(edit, None) for edit in edits], "d.t")
    with pytest.raises(Corrupt, match=r"I5: two edits of Bucket\(partition=\(\), number=1, spec=0\);") as caught:
        check_edits([(edit, None) for edit in (*edits, replace(edits[1], added=(file("c", 5, 9),)))], "d.t")
    assert caught.value.found.count("I5") == 1


def test_an_edit_of_an_empty_bucket_is_checked_like_any_other():
    """As of a compaction that found nothing there: its state is None."""
    marked = BucketEdit(HERE, 1, added=(file("a", 0, 4),), vectors={"a": VectorRef("dv", 4, 9, 11)}, base=BucketState(HERE, 1))
    with pytest.raises(Corrupt, match=r"I3: .* marks 11 of 10 rows"):
        check_edits([(marked, None)], "d.t")


@pytest.mark.parametrize(
    ("files", "vectors", "found"),
    [
        ((file("a", 0, 4), file("b", 5, 9)), {}, []),
        ((file("a", 0, 5), file("b", 5, 9)), {}, ["I1"]),
        ((file("a", 0, 5), file("b", 5, 9, level=2)), {}, []),
        ((file("a", 0, 5), file("a", 6, 9)), {}, ["I6"]),
        ((file("a", 0, 5),), {"a": VectorRef("dv", 4, 9, 10)}, []),
        ((file("a", 0, 5),), {"a": VectorRef("dv", 4, 9, 11)}, ["I3"]),
        ((file("a", 0, 5),), {"b": VectorRef("dv", 4, 9, 1)}, ["I3"]),
    ],
)
def test_violations_are_named(files, vectors, found):
    assert [text[:2] for text in violations(BucketState(HERE, 1, files, vectors))] == found


def test_a_change_replaces_files_and_vectors():
    a, b, c = file("a", 0, 4), file("b", 5, 9), file("c", 0, 4)
    one, two = VectorRef("dv-1", 4, 9, 1), VectorRef("dv-2", 4, 9, 2)
    state = BucketState(HERE, 1, (a, b), {"a": one, "b": one})
    after = apply(state, BucketEdit(HERE, 1, added=(c,), removed=(a,), vectors={"b": two}))
    assert after == BucketState(HERE, 1, (b, c), {"b": two})
    upgraded = apply(state, BucketEdit(HERE, 1, added=(a.at_level(3),), removed=(a,)))
    assert upgraded.vectors == state.vectors


# --- rebase ---

A, B, NEW = file("a", 0, 4), file("b", 5, 9), file("new", 0, 9, level=0)
BASE = BucketState(HERE, 1, (A, B), {"a": VectorRef("dv-1", 4, 9, 1)})


@pytest.mark.parametrize(
    ("now", "alone", "with_own_rows"),
    [
        (BASE, True, True),
        (replace(BASE, files=(B, A)), True, True),
        (replace(BASE, files=(A, B, NEW)), True, False),
        (replace(BASE, files=(A, B, file("new", 10, 12))), False, False),
        (replace(BASE, files=(A,)), False, False),
        (replace(BASE, files=(A.at_level(2), B)), False, False),
        (replace(BASE, vectors={}), False, False),
        (replace(BASE, vectors={"a": VectorRef("dv-2", 4, 9, 2)}), False, False),
        (replace(BASE, vectors={**BASE.vectors, "b": VectorRef("dv-2", 4, 9, 2)}), False, False),
        (replace(BASE, retained=(file("deletes", 0, 4),)), False, False),
        (BucketState(HERE, 1), False, False),
    ],
)
def test_a_compaction_is_valid_unless_another_compacted_the_bucket(now, alone, with_own_rows):
    assert BucketAsRead(BASE, alone=False).met(now) == alone
    assert BucketAsRead(BASE, alone=True).met(now) == with_own_rows
    append, moved = BucketEdit(HERE, 1, added=(NEW,)), BucketEdit(HERE, 1, added=(NEW.at_level(1),), base=BASE)
    written = rebase([CommitMessage(HERE, append=append, compact=moved, rows=3)], {HERE: now})
    assert written.edits == ((moved,) if with_own_rows else (append,))
    assert written.overtaken == ()
    compacted = rebase([CommitMessage(HERE, compact=moved)], {HERE: now})
    assert (compacted.edits, compacted.overtaken) == (((moved,), ()) if alone else ((), (HERE,)))


@pytest.mark.parametrize(
    ("now", "valid"),
    [
        (replace(BASE, files=(A, B, NEW)), True),
        (replace(BASE, files=(A,)), False),
        (replace(BASE, vectors={}), False),
        (replace(BASE, vectors={**BASE.vectors, "b": VectorRef("dv-2", 4, 9, 2)}), False),
    ],
)
def test_an_edit_of_some_files_is_valid_while_they_and_their_vectors_are_as_read(now, valid):
    assert FilesAsRead(BASE).met(now) == valid


def test_an_append_never_conflicts_and_an_empty_edit_is_dropped():
    append = BucketEdit(HERE, 1, added=(NEW,))
    assert rebase([CommitMessage(HERE, append=append)], {}).edits == (append,)
    assert rebase([CommitMessage(HERE, append=BucketEdit(HERE, 1))], {}) == rebase([], {})
