"""Tags: a named snapshot reads as it was, whatever expires, and the files on disk are those that snapshots and tags need."""

from __future__ import annotations

import datetime as dt
import os
import time

import pytest
from effort import examples, one_in
from faults import Crash, FaultStorage, every_fault, interleavings
from hypothesis import given
from hypothesis import strategies as st
from naive import naive
from strategies import START_MS, contents, copied, fake_env, lake_on, multiset, new_lake, rows_of

from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.errors import Corrupt, InvalidQuery, SnapshotNotFound, StorageFailed, TableNotFound
from lsmlake.retention.tag_expiry import expire_tags
from lsmlake.storage.memory import MemoryStorage
from lsmlake.tables.version import Metadata

DAY_MS = 86_400_000


def made(storage: MemoryStorage | None = None, **options: str) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    lake = new_lake(storage)
    options = {"bucket": "1", "snapshot.expire.on-commit": "false", **named}
    return lake.create_table("d.t", "k INT NOT NULL, v STRING", primary_key=["k"], options=options)


def write(table: Table, keys: range, value: object, **how: object) -> None:
    table.upsert({"k": list(keys), "v": [str(value)] * len(keys)}, **how)


def filled(table: Table, commits: int = 8) -> Table:
    for number in range(commits):
        write(table, range(number, 2 * number + 4), number, compact=number % 3 != 1)
    return table


def rows(table: Table, **moment: object) -> list[tuple]:
    return multiset(rows_of(table.scan(**moment).to_arrow()))


def expire(table: Table, left: int) -> None:
    table.expire_snapshots(retain_max=left, retain_min=left)


def is_exact(table: Table) -> bool:
    """The files below the table are those that its snapshots and tags need."""
    found = naive(table)
    folders = tuple(f"{found.root}/{folder}/" for folder in ("schema", "snapshot", "changelog", "consumer", "tag"))
    stored = {entry.path for entry in found.storage.list(found.root) if not entry.path.startswith(folders)}
    return stored == found.referenced()


def names(table: Table) -> list[str]:
    return sorted(table.tags()["tag_name"].to_pylist())


# -- one after the other ----------------------------------------------------------------------------------------------


class Model:
    """What a table with tags must hold: the rows of every snapshot, and name -> snapshot of every tag."""

    def __init__(self, table: Table) -> None:
        self.table, self.tags, self.rows = table, {}, {}

    def kept(self) -> list[int]:
        return self.table.snapshots()["snapshot_id"].to_pylist()

    def note(self) -> None:
        for number in self.kept()[-2:]:
            if number not in self.rows:
                self.rows[number] = rows(self.table, snapshot=number)

    def check(self) -> None:
        assert is_exact(self.table)
        listed = self.table.tags().select(["tag_name", "snapshot_id"]).to_pylist()
        assert {row["tag_name"]: row["snapshot_id"] for row in listed} == self.tags
        for name, number in self.tags.items():
            assert rows(self.table, tag=name) == self.rows[number]
            assert rows(self.table, snapshot=number) == self.rows[number]


STEPS = ["write", "write", "write", "delete", "compact", "full", "overwrite", "truncate", "rollback", "cut", "analyze"]
STEPS += ["expire", "expire", "expire", "tag", "tag", "tag", "replace", "rename", "untag", "untag"]


@examples(15)
@given(data=st.data())
def test_the_files_on_disk_are_those_that_snapshots_and_tags_need(data):
    producer = data.draw(st.sampled_from([{}, {"changelog_producer": "lookup"}, {"deletion_vectors__enabled": "false"}]))
    merging = data.draw(st.sampled_from([{}, {"manifest__merge_min_count": "2"}]))
    table = made(**producer, **merging)
    model = Model(table)
    write(table, range(6), "first")
    for number, step in enumerate(data.draw(st.lists(st.sampled_from(STEPS), min_size=4, max_size=20))):
        model.note()
        reachable = sorted({*model.kept(), *model.tags.values()})
        free, taken = (
            data.draw(st.sampled_from([name for name in "abcde" if name not in model.tags] or ["f"])),
            sorted(model.tags),
        )
        if step == "write":
            start = data.draw(st.integers(0, 10))
            write(table, range(start, start + 4), number, compact=data.draw(st.booleans()))
        elif step == "delete":
            table.delete_keys({"k": [data.draw(st.integers(0, 10))]})
        elif step in ("compact", "full"):
            table.compact(full=step == "full")
        elif step == "analyze":
            table.analyze()
        elif step == "overwrite":
            table.overwrite({"k": [number], "v": ["over"]}, truncate=True)
        elif step in ("rollback", "cut"):
            target = data.draw(st.sampled_from(reachable))
            table.rollback(target, cut=step == "cut")
            if step == "cut":
                model.tags = {name: tagged for name, tagged in model.tags.items() if tagged <= target}
        elif step == "truncate":
            table.truncate()
        elif step == "expire":
            expire(table, data.draw(st.integers(1, 3)))
        elif step == "tag":
            model.tags[free] = data.draw(st.sampled_from(reachable))
            table.create_tag(free, model.tags[free])
        elif step == "replace" and taken:
            name = data.draw(st.sampled_from(taken))
            model.tags[name] = data.draw(st.sampled_from(reachable))
            table.create_tag(name, model.tags[name], replace=True)
        elif step == "rename" and taken:
            name = data.draw(st.sampled_from(taken))
            model.tags[free] = model.tags.pop(name)
            table.rename_tag(name, free)
        elif step == "untag" and taken:
            name = data.draw(st.sampled_from(taken))
            before = contents(table.meta.env.storage)
            expected = table.delete_tag(name, dry_run=True)
            assert contents(table.meta.env.storage) == before
            assert table.delete_tag(name) == expected
            number = model.tags.pop(name)
            if number in model.kept():
                assert expected.files == 0
        model.note()
        model.check()
    for name in list(model.tags):
        table.delete_tag(name)
    expire(table, 1)
    assert is_exact(table)
    assert table.verify() == []
    assert table.meta.tags.pins() == []


def test_a_tag_outlives_its_snapshot_and_takes_its_files_along():
    table = filled(made(), 5)
    before = rows(table, snapshot=2)
    tag = table.create_tag("old", 2)
    assert (tag.name, tag.snapshot.id, tag.time_retained_ms) == ("old", 2, None)
    assert table.meta.env.clock.now_ms - 10 < tag.create_time_ms < table.meta.env.clock.now_ms
    table.compact(full=True)
    expire(table, 1)
    assert rows(table, tag="old") == rows(table, snapshot=2) == before
    assert table.scan(tag="old").count() == len(before)
    with pytest.raises(SnapshotNotFound, match="snapshot 3 has expired"):
        table.scan(snapshot=3).count()
    report = table.delete_tag("old")
    assert (report.tags, report.left) == (("old",), {})
    assert report.files > 2
    assert is_exact(table)
    with pytest.raises(SnapshotNotFound, match="snapshot 2 has expired"):
        table.scan(snapshot=2).count()


def test_the_listing_of_tags():
    table = filled(made(), 3)
    table.create_tag("b", 2, retain="7 d")
    made_at = table.create_tag("a").create_time_ms
    table.create_tag("c", 2, retain=dt.timedelta(minutes=90))
    found = table.tags()
    assert found.column_names == [
        "tag_name",
        "snapshot_id",
        "schema_id",
        "commit_time",
        "record_count",
        "create_time",
        "time_retained",
        "branches",
        "error",
    ]
    assert found["tag_name"].to_pylist() == ["b", "c", "a"]
    assert found["time_retained"].to_pylist() == ["7 d", "90 min", None]
    assert found.to_pylist()[2] == {
        "tag_name": "a",
        "snapshot_id": 3,
        "schema_id": 0,
        "commit_time": table.snapshots()["commit_time"][2].as_py(),
        "record_count": table.snapshots()["total_record_count"][2].as_py(),
        "create_time": dt.datetime.fromtimestamp(made_at / 1000, dt.timezone.utc),
        "time_retained": None,
        "branches": [],
        "error": None,
    }


@pytest.mark.parametrize("name", ["", " ", "a/b", "..", ".x", "a\\b", "a  b", " a", "a ", "x" * 201, "é", None, 7])
def test_a_tag_has_a_plain_name(name):
    table = filled(made(), 1)
    for call in (table.create_tag, table.delete_tag, lambda name: table.rename_tag("a", name)):
        with pytest.raises(InvalidQuery):
            call(name)


def test_a_tag_is_not_named_as_the_table_among_its_branches():
    """Readers of Iceberg would take it for the newest snapshot."""
    table = filled(made(), 1)
    table.create_tag("a")
    for call in (table.create_tag, lambda name: table.rename_tag("a", name)):
        with pytest.raises(InvalidQuery, match="a name other than 'main'"):
            call("main")
    assert names(table) == ["a"]


@pytest.mark.parametrize("name", ["20260101", "2026-01-01 12", "v1.2_final", "-", "7"])
def test_numbers_and_dates_are_names(name):
    table = filled(made(), 1)
    table.create_tag(name)
    assert names(table) == [name]
    assert table.scan(tag=name).count() == 4


def test_what_cannot_be_tagged_is_refused_and_leaves_nothing():
    table = made()
    with pytest.raises(InvalidQuery, match="no snapshot"):
        table.create_tag("a")
    filled(table, 4)
    table.create_tag("a", 3)
    expire(table, 1)
    before = contents(table.meta.env.storage)
    with pytest.raises(InvalidQuery, match="name of the tag is taken"):
        table.create_tag("a")
    with pytest.raises(SnapshotNotFound, match="snapshot 2 has expired"):
        table.create_tag("b", 2)
    with pytest.raises(SnapshotNotFound, match="no snapshot 9"):
        table.create_tag("a", 9, replace=True)
    with pytest.raises(InvalidQuery, match="name of the tag is taken"):
        table.create_tag("c") and table.rename_tag("c", "a")
    table.delete_tag("c")
    with pytest.raises(SnapshotNotFound, match="did you mean 'a'"):
        table.scan(tag="aa").count()
    with pytest.raises(SnapshotNotFound, match="no tag 'zzz'"):
        table.delete_tag("zzz")
    with pytest.raises(InvalidQuery, match="snapshot and tag exclude each other"):
        table.scan(snapshot=1, tag="a").count()
    for retain in ("0 s", "soon", dt.timedelta(0), dt.timedelta(days=-1), dt.timedelta.max):
        with pytest.raises(InvalidQuery, match="not a duration"):
            table.create_tag("d", retain=retain)
    assert contents(table.meta.env.storage) == before


def test_the_snapshot_of_a_time_can_be_tagged():
    table = made()
    for number in range(4):
        table.meta.env.clock.now_ms = START_MS + 1000 * number
        write(table, range(3), number)
    moment = dt.datetime.fromtimestamp(START_MS / 1000 + 1.5, dt.timezone.utc)
    assert table.create_tag("then", timestamp=moment).snapshot.id == 2
    expire(table, 1)
    with pytest.raises(SnapshotNotFound, match="read the tag 'then'"):
        table.scan(timestamp=moment).count()


def test_a_tag_of_an_expired_snapshot_can_be_copied_and_kept_longer():
    table = filled(made(), 4)
    table.create_tag("a", 2, retain="1 h")
    expire(table, 1)
    assert table.create_tag("b", 2).snapshot.id == 2
    assert table.create_tag("a", 2, replace=True).time_retained_ms is None
    table.delete_tag("a")
    assert table.scan(tag="b").count() == rows(table, snapshot=2).__len__()
    assert is_exact(table)


# -- time travel ------------------------------------------------------------------------------------------------------


def test_every_listing_travels_to_a_tag():
    table = filled(made(), 5)
    listings = [table.files, table.buckets, table.partitions, table.manifests]
    before = [listing(2) for listing in listings]
    moment = table.snapshots()["commit_time"][1].as_py()
    assert [listing(timestamp=moment) for listing in listings] == before
    table.create_tag("then", 2)
    table.compact(full=True)
    expire(table, 1)
    assert [listing(tag="then") for listing in listings] == before
    assert [listing(2) for listing in listings] == before
    assert table.scan(tag="then").plan().snapshot.id == 2
    assert "tag then" in repr(table.scan(tag="then"))
    with pytest.raises(InvalidQuery, match="snapshot and tag exclude each other"):
        table.files(2, tag="then")
    with pytest.raises(InvalidQuery, match="tag and timestamp exclude each other"):
        table.manifests(tag="then", timestamp=moment)


def test_changes_between_tags():
    table = filled(made(changelog_producer="input", changelog__num_retained__min="100"), 6)
    expected = [table.changes(*between).to_arrow() for between in ((2, 4), (2, None), (4, 6))]
    told = table.changes(2, 4, mode="changelog").to_arrow()
    table.create_tag("a", 2)
    table.create_tag("4", 4)
    expire(table, 1)
    assert [table.changes(*between).to_arrow() for between in (("a", "4"), ("a", None), ("4", 6))] == expected
    assert table.changes(2, 4).to_arrow() == expected[0]
    assert table.changes("a", "4", mode="changelog").to_arrow() == told
    assert table.changes(0, "a").count() == table.scan(tag="a").count()
    with pytest.raises(InvalidQuery, match="before their start"):
        table.changes("4", "a").count()
    with pytest.raises(SnapshotNotFound, match="no tag 'b'"):
        table.changes("b").count()
    with pytest.raises(SnapshotNotFound, match="snapshot 3 has expired"):
        table.changes(3).count()


def test_a_tag_that_is_deleted_during_a_read_is_told_from_damage():
    table = filled(made(), 5)
    table.create_tag("then", 2)
    table.compact(full=True)
    expire(table, 1)
    batches = table.scan(tag="then").to_batches()
    plan = table.scan(tag="then").plan()
    table.delete_tag("then")
    with pytest.raises(SnapshotNotFound, match="snapshot 2 has expired while it was read"):
        list(batches)
    table = filled(made(), 5)
    table.create_tag("then", 2)
    table.compact(full=True)
    expire(table, 1)
    plan = table.scan(tag="then").plan()
    for split in plan.splits:
        for file in (*split.files, *split.level0, *split.merged):
            table.meta.env.storage.delete(table.meta.paths.data(file))
    with pytest.raises(Corrupt, match="missing"):
        table.scan(tag="then").to_arrow()
    assert any("missing" in finding.what for finding in table.verify())


# -- damage -----------------------------------------------------------------------------------------------------------


def test_a_damaged_tag_stops_expiry_until_it_is_deleted():
    table = filled(made(), 5)
    table.create_tag("bad", 2)
    path = table.meta.paths.tag("bad")
    with table.meta.env.storage.write(path) as sink:
        sink.write(b"{}")
    before = contents(table.meta.env.storage)
    with pytest.raises(SnapshotNotFound, match="newer than the timestamp"):
        table.scan(timestamp="2000-01-01").count()
    with pytest.raises(SnapshotNotFound, match="no snapshot 99"):
        table.scan(snapshot=99).count()
    with pytest.raises(Corrupt, match="delete_tag"):
        expire(table, 1)
    assert contents(table.meta.env.storage) == before
    report = table.delete_tag("bad")
    assert (report.tags, report.files) == (("bad",), 0)
    assert "bad" in report.left
    expire(table, 1)
    assert is_exact(table)


def test_a_tag_with_damaged_metadata_stops_expiry_and_can_be_deleted():
    table = filled(made(), 5)
    tag = table.create_tag("bad", 2)
    table.create_tag("good", 4)
    expire(table, 3)
    table.meta.env.storage.delete(table.meta.paths.manifest(tag.snapshot.delta_manifest_list.name))
    table = lake_on(table.meta.env.storage, "new-").table("d.t")
    before = contents(table.meta.env.storage)
    with pytest.raises(Corrupt, match="tag 'bad' needs it"):
        expire(table, 2)
    assert contents(table.meta.env.storage) == before
    report = table.delete_tag("bad")
    assert (report.tags, report.files) == (("bad",), 0)
    assert "metadata file is missing" in report.left["bad"]
    expire(table, 1)
    assert rows(table, tag="good")


def test_files_of_other_names_are_no_tags():
    table = filled(made(), 3)
    table.create_tag("a", 1)
    storage = table.meta.env.storage
    for name in ("tag-.x", "tag-a/b", "notes.txt", "tag-a~"):
        storage.put_if_absent(f"{table.meta.paths.tags}/{name}", b"?")
    assert names(table) == ["a"]
    expire(table, 1)
    assert table.scan(tag="a").count() == 4
    with storage.read(table.meta.paths.tag("a")) as source:
        storage.put_if_absent(table.meta.paths.tag("copy"), source.read())
    with pytest.raises(Corrupt, match="another name"):
        table.scan(tag="copy").count()


# -- crashes ----------------------------------------------------------------------------------------------------------


def tagged_world(**options: str) -> MemoryStorage:
    """Snapshots 5 and 6 are kept; tags: early = 2, eve = 4, late = 5."""
    world = MemoryStorage()
    table = filled(made(world, **options), 6)
    for name, number in {"early": 2, "eve": 4, "late": 5}.items():
        table.create_tag(name, number)
    expire(table, 2)
    return world


VERBS = {
    "create": lambda table: table.create_tag("new"),
    "copy": lambda table: table.create_tag("new", 2),
    "replace": lambda table: table.create_tag("early", replace=True),
    "rename": lambda table: table.rename_tag("early", "a"),
    "delete": lambda table: table.delete_tag("early"),
    "delete retained": lambda table: table.delete_tag("late"),
    "expire": lambda table: expire(table, 1),
}


def whole(storage: MemoryStorage, of: dict[int, list[tuple]]) -> frozenset[tuple[str, int]]:
    """Every tag and every snapshot reads as it was."""
    table = lake_on(storage, "look-").table("d.t")
    found = {tag.name: tag.snapshot.id for tag in table.meta.tags.all()}
    for name, number in found.items():
        assert rows(table, tag=name) == of[number], name
    for number in table.snapshots()["snapshot_id"].to_pylist():
        assert rows(table, snapshot=number) == of[number]
    assert table.verify() == []
    assert naive(table).referenced() <= set(contents(storage))
    return frozenset(found.items())


def all_rows(world: MemoryStorage) -> dict[int, list[tuple]]:
    table = lake_on(world, "look-").table("d.t")
    return {number: rows(table, snapshot=number) for number in (2, 4, 5, 6)}


@pytest.mark.parametrize("mode", ["crash", "error"])
@pytest.mark.parametrize("verb", list(VERBS))
def test_a_failure_leaves_whole_tags(verb, mode):
    world = tagged_world()
    of, ends = all_rows(world), set()

    def run(storage):
        return VERBS[verb](lake_on(storage, "run-").table("d.t"))

    before, checked = frozenset({("early", 2), ("eve", 4), ("late", 5)}), {}
    tried = min(6, one_in(3)) if mode == "error" else 1  # fewer would not show both ends
    for done in every_fault(run, lambda: copied(world), mode=mode, one_in=tried):
        if done.fault.after and done.call[0] in ("read", "size", "list"):
            continue  # it only looked
        if mode == "crash":
            assert isinstance(done.outcome, Crash)
        files = frozenset(contents(done.world).items())  # many failures end in the same files
        known, end = files in checked, checked.get(files) or checked.setdefault(files, whole(done.world, of))
        ends.add(end)
        if mode == "error":
            assert not isinstance(done.outcome, BaseException) or isinstance(done.outcome, StorageFailed)
        if known and mode == "crash":
            continue
        left = lake_on(done.world, "later-").table("d.t")  # a day later, nothing reminds of the dead
        left.meta.env.clock.now_ms = max(e.modified_ms for e in done.world.list("")) + 2 * DAY_MS
        left.expire_tags()
        left.expire_snapshots(retain_max=100)
        assert left.meta.tags.pins() == []
        if mode == "error" and not isinstance(done.outcome, BaseException):
            assert is_exact(left) or done.call[0] == "delete"
    assert ends >= {before} or verb == "expire"
    assert len(ends) >= (1 if verb == "expire" else 2)


# -- races ------------------------------------------------------------------------------------------------------------


def opened(world: MemoryStorage, storage, prefix: str) -> Table:
    """A handle of somebody who has opened the table before the race."""
    paths = lake_on(world).table("d.t").meta.paths
    return Table("d.t", Metadata.of(fake_env(storage, prefix), paths), Runtime())


def refused(call):
    try:
        call()
    except (SnapshotNotFound, InvalidQuery) as error:
        return type(error).__name__
    return "done"


MORE = int(os.environ.get("LSMLAKE_SWITCHES", "1")) - 1
PAIRS = {
    "create, expire": (lambda t: t.create_tag("new", 5), lambda t: expire(t, 1)),
    "copy, delete": (lambda t: t.create_tag("new", 2), lambda t: t.delete_tag("early")),
    "rename, expire": (lambda t: t.rename_tag("late", "a"), lambda t: expire(t, 1)),
    "rename, delete": (lambda t: t.rename_tag("early", "a"), lambda t: t.delete_tag("eve")),
    "replace, expire": (lambda t: t.create_tag("early", 5, replace=True), lambda t: expire(t, 1)),
    "replace, delete": (lambda t: t.create_tag("eve", 2, replace=True), lambda t: t.delete_tag("early")),
    "delete, expire": (lambda t: t.delete_tag("late"), lambda t: expire(t, 1)),
    "delete, delete": (lambda t: t.delete_tag("early"), lambda t: t.delete_tag("eve")),
    "create, create": (lambda t: t.create_tag("new", 5), lambda t: t.create_tag("new", 6)),
}


@pytest.mark.parametrize("pair", list(PAIRS))
def test_tags_are_whole_or_absent_in_every_order(pair):
    world = tagged_world()
    if pair.endswith("expire") and not pair.startswith(("delete", "rename")):
        lake_on(world, "more-").table("d.t").delete_tag("late")  # so that the race decides about snapshot 5
    of, (one, other), seen, results = all_rows(world), PAIRS[pair], [], set()

    def program(call, prefix):
        return lambda storage: refused(lambda: call(opened(world, storage, prefix)))

    both, tried = (program(one, "a-"), program(other, "b-")), 1 if MORE else one_in(2)
    for done in interleavings(*both, lambda: copied(world), 200_000, switches_max=1 + MORE, one_in=tried):
        results.add(done.results)
        if (end := contents(done.world)) in seen:
            continue
        seen.append(end)
        tags = dict(whole(done.world, of))
        if pair == "create, expire":
            assert ("new" in tags) == (done.results[0] == "done")
        table = lake_on(done.world, "look-").table("d.t")
        assert table.meta.tags.pins() == []
        assert is_exact(table), done.steps
    assert ("done", "done") in results or pair == "create, create"
    if pair in ("create, expire", "replace, expire", "copy, delete", "create, create"):
        assert len(results) == 2, "one order is refused, another is not"


@pytest.mark.parametrize("end", ["drop", "rename"])
def test_a_table_that_goes_away_takes_its_tags_along(end):
    """Whatever the order, no file is left under the old name, and a renamed table has whole tags."""
    world = tagged_world()
    of, seen, results = all_rows(world), [], set()

    def create(storage):
        table = opened(world, storage, "a-")
        try:
            table.create_tag("new", 6)
        except TableNotFound:
            return "gone"
        return "done"

    def remove(storage):
        lake = lake_on(storage, "b-")
        return lake.drop_table("d.t") if end == "drop" else lake.rename_table("d.t", "d.u").name

    tried = 1 if MORE else one_in(3)
    for done in interleavings(create, remove, lambda: copied(world), 200_000, switches_max=1 + MORE, one_in=tried):
        results.add(done.results[0])
        if (files := contents(done.world)) in seen:
            continue
        seen.append(files)
        assert not [path for path in files if path.startswith("d.db/t/")]
        if end == "rename":
            table = lake_on(done.world, "look-").table("d.u")
            assert table.verify() == []
            assert {"early", "eve", "late"} <= set(names(table))
            assert all(rows(table, tag=tag.name) == of[tag.snapshot.id] for tag in table.meta.tags.all())
    assert results == {"done", "gone"}


def test_a_table_of_the_same_name_has_tags_of_its_own():
    world = tagged_world()
    lake = lake_on(world, "again-")
    lake.drop_table("d.t")
    table = filled(lake.create_table("d.t", "k INT NOT NULL, v STRING", primary_key=["k"]), 2)
    assert names(table) == []
    table.create_tag("early")
    assert table.scan(tag="early").count() == len(rows(table))


def test_tags_written_long_ago_are_read_once_by_a_handle():
    storage = FaultStorage(MemoryStorage())
    table = filled(made(storage), 3)
    for name in "abc":
        table.create_tag(name)
    table.meta.env.clock.now_ms = max(entry.modified_ms for entry in storage.list("")) + 3_600_000
    table.meta.tags.holders()
    storage.calls = []
    table.meta.tags.holders()
    assert {verb for verb, _ in storage.calls} == {"list"}
    storage.calls = []
    time.sleep(0.002)  # the replaced file has another time of modification
    table.create_tag("b", 1, replace=True)
    assert [(holder.reason, holder.snapshot.id) for holder in table.meta.tags.holders()] == [
        ("tag 'b'", 1),
        ("tag 'a'", 3),
        ("tag 'c'", 3),
    ]
    assert table.tags()["snapshot_id"].to_pylist() == [1, 3, 3]


def test_a_limit_bounds_how_many_tags_expire():
    table = filled(made(), 3)
    for name in "abc":
        table.create_tag(name, retain="1 s")
    table.meta.env.clock.now_ms += 2_000
    assert expire_tags(table.meta, limit=2).tags == ("a", "b")
    assert expire_tags(table.meta, limit=2).tags == ("c",)
