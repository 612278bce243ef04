"""Random histories of a table, their naive model, and the checks after each step: the only harness of such tests.

`histories` draws a plan: what the table is like (merge rule, key, partitions, buckets, table mode, changelog producer) and the
steps. `play` takes the steps and checks after each that

- a fresh read gives the rows of the model: every row ever given, applied one at a time (`engine_model`);
- a raw read gives the rows of the model as of the last commit whose rows have left level 0, and so do the data files that the
  naive reader (`naive`) finds, less their dead rows;
- rows lie in the bucket that Spark's hash gives;

and at the end time travel, filters, changes of every mode, `verify`, and that no file is left over.

A step may hold other steps, which happen while it is under way: after it has read the table and before it publishes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, count
from math import gcd
from operator import itemgetter
from typing import NamedTuple
from unittest.mock import patch

import pyarrow as pa
import pytest
from engine_model import Newest, Partial, Row, apply_commit, first
from hypothesis import strategies as st
from merge_setups import INTS, SETUPS, MergeSetup
from naive import File, NaiveTable, buckets_of, naive
from strategies import (
    KEYS,
    PARTITIONS,
    UTC,
    Condition,
    Names,
    Shape,
    Ticks,
    conditions,
    lake_on,
    multiset,
    rows_of,
    seen,
    tiny_units,
    view,
)

from lsmlake import (
    add_column,
    change_type,
    drop_column,
    move_column,
    rename_column,
    set_comment,
    set_default,
    set_option,
    unset_option,
)
from lsmlake.api.changes import Changes
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.errors import InvalidData, SnapshotNotFound
from lsmlake.lsm.levels import SortedRun
from lsmlake.schema.alterations.draft import Alteration
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage

ROW_BYTES, STEPS_MAX, INNER_MAX = 3, 8, 2
DIGITS = (4, 6, 6, 6, 6)
"""Of the two bytes that are not the key of a row: its kind and its values."""

UNIVERSAL = {"compaction.strategy": "universal", "num-sorted-run.compaction-trigger": "2"}
MODES: dict[str, dict[str, str]] = {
    "vectors": {"compaction.tier-runs": "2"},
    "vectors, lazy": {"compaction.tier-runs": "9", "compaction.reclaim-dead-percent": "100"},
    "vectors, few levels": {"num-levels": "3", "compaction.tier-runs": "3"},
    "vectors, universal": UNIVERSAL,
    "vectors, gentle": {**UNIVERSAL, "lookup-compact": "gentle"},
    "write-only": {"write-only": "true"},
    "merge on read": {"deletion-vectors.enabled": "false", "num-sorted-run.compaction-trigger": "3"},
    "merge on read, few runs": {
        "deletion-vectors.enabled": "false",
        "num-sorted-run.compaction-trigger": "2",
        "num-levels": "4",
    },
    "copy on write": {"deletion-vectors.enabled": "false", "full-compaction.delta-commits": "1"},
}
PRODUCERS = ("none", "none", "input", "lookup", "full-compaction")
SIZES: tuple[dict[str, str], ...] = (
    {"target-file-size": "1 kb", "file.block-size": "200 b"},
    {"target-file-size": "4 kb", "file.block-size": "1 kb"},
    {},
)
VERBS = ("upsert", "upsert", "upsert", "upsert", "erase", "delete", "once", "replay", "nothing", "compact", "compact", "full")
RARE = ("bucket", "reopen", "rescale", "rescale", "evolve", "alter")
AUTO_SIZE = "1 kb"
"""As much as ten rows have in `sized_by_rows`."""
_SPLITS = 4
"""A split makes as many buckets as there should be if keys were spread evenly: of so few keys one bucket can get more than it
should hold, and is split again by the next compaction."""
REPLACING = ("overwrite", "overwrite", "truncate")
ADDED = ("added_", "nest")
"""How the names of columns that a step adds begin."""
COMBINING = ("partial-update", "aggregation")
TRANSPARENT = (Newest(), first)
"""Rules that leave a row that is alone as it is."""


# --- plans ---


class Step(NamedTuple):
    """`rows`: ROW_BYTES a row. `number`: what a verb makes of it. `during`: steps of others while this one is under way."""

    verb: str
    rows: bytes
    compact: bool | None
    number: int
    during: tuple[Step, ...] = ()


@dataclass(frozen=True)
class World:
    """What a table is like. `keys`: how many keys its rows have, about. `loaded`: it begins with a row for each, compacted.
    `identical`: an update must change something to be in the changelog."""

    rule: str
    mode: str = "vectors"
    producer: str = "none"
    key: str = "int"
    partition: str = "none"
    buckets: int | str = 2
    """A number; or auto, and buckets split when they have a few rows."""
    bucket_by_last: bool = False
    sizes: Mapping[str, str] = field(default_factory=dict)
    merge_count: int = 30
    keys: int = 5
    loaded: bool = False
    identical: bool = False
    moves: bool = False
    """The primary key lacks the partition column, whose values change from row to row."""

    @property
    def setup(self) -> MergeSetup:
        return SETUPS[self.rule]

    @property
    def vectors(self) -> bool:
        return "deletion-vectors.enabled" not in self.options()

    def options(self) -> dict[str, str]:
        """All options, those that contradict each other left out."""
        grows = {"bucket.target-size": AUTO_SIZE} if self.buckets == "auto" else {}
        made = {"bucket": str(self.buckets), **grows, **self.setup.options, **MODES[self.mode], **self.sizes}
        made["manifest.merge-min-count"] = str(self.merge_count)
        if self.producer != "none":
            made["changelog-producer"] = self.producer
        if self.producer == "full-compaction":
            made = {name: value for name, value in made.items() if name not in ("compaction.tier-runs", "lookup-compact")}
            made = {name: value for name, value in made.items() if name != "compaction.reclaim-dead-percent"}
            made["deletion-vectors.enabled"] = "false"
            made["full-compaction.delta-commits"] = "2"
        if self.producer in ("lookup", "full-compaction"):
            made["changelog-producer.row-deduplicate"] = str(self.identical).lower()
        return made


class Plan(NamedTuple):
    world: World
    steps: tuple[Step, ...]


def can_move(rule: str) -> bool:
    """Whether the rows of a key need not be in one partition."""
    return {"sequence.field", "partial-update.remove-record-on-sequence-group"}.isdisjoint(SETUPS[rule].options)


def producers(rule: str, *, moves: bool = False) -> list[str]:
    """Those that the merge rule knows, if keys move."""
    if moves:
        return ["none", "lookup"]
    return [name for name in PRODUCERS if rule != "first-row" or name in ("none", "lookup")]


def rows(most: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=ROW_BYTES, max_size=ROW_BYTES * most)


def _steps(most: int, verbs: tuple[str, ...], during: st.SearchStrategy[tuple[Step, ...]]) -> st.SearchStrategy[Step]:
    compact = st.sampled_from([None, True, False])
    return st.builds(Step, st.sampled_from(verbs), rows(most), compact, st.integers(0, 255), during)


@st.composite
def histories(
    draw: Callable,
    rule: str,
    *,
    alters: bool = True,
    replaces: bool = False,
    verbs: tuple[str, ...] = (),
    inner: tuple[str, ...] = (),
    most_steps: int = STEPS_MAX,
    **fixed: object,
) -> Plan:
    """A plan for a table of the merge rule. `alters`: it may get other options on the way. `replaces`: there are overwrites, also
    while other steps are under way. `verbs`: these only; `inner`: those of steps that happen while others are
    under way. `fixed`: fields of its world."""
    keys = draw(st.sampled_from([5, 60]))
    drawn = {
        "mode": draw(st.sampled_from(list(MODES))),
        "producer": draw(st.sampled_from(producers(rule, moves=bool(fixed.get("moves"))))),
        "key": draw(st.sampled_from(["int", *KEYS])),
        "partition": draw(st.sampled_from(list(PARTITIONS)[1:] if fixed.get("moves") else ["none", "none", *PARTITIONS])),
        "buckets": draw(st.sampled_from([1, 2, 5, "auto", "auto"])),
        "bucket_by_last": draw(st.booleans()),
        "sizes": draw(st.sampled_from(SIZES)),
        "merge_count": draw(st.sampled_from([2, 3, 30])),
        "loaded": draw(st.booleans()),
        "identical": draw(st.booleans()),
    }
    world = World(rule, keys=keys, **(drawn | fixed))
    most = 8 if keys == 5 else 40
    often = verbs or (VERBS + REPLACING if replaces else VERBS)
    meanwhile = st.lists(_steps(most, inner or often, st.just(())), min_size=1, max_size=INNER_MAX).map(tuple)
    others = st.just(()) | st.just(()) | meanwhile
    verbs = verbs or often + (RARE if alters and world.setup.columns == INTS else RARE[:5])
    return Plan(world, tuple(draw(st.lists(_steps(most, verbs, others), min_size=2, max_size=most_steps))))


# --- changes ---


def at(table: Table, snapshot: int, mode: str) -> dict[int, Row]:
    """The rows of a table with the key `k`, by key; none before the first snapshot."""
    rows = view(table, mode, snapshot=snapshot).to_arrow().to_pylist() if snapshot else []
    return {row["k"]: row for row in rows}


def fold(rows: Mapping, changes: Iterable[Row], key: Callable[[Row], object] = itemgetter("k")) -> dict:
    """The rows after the changes, each of which must be one."""
    state, before = dict(rows), {}
    for change in changes:
        row = {name: value for name, value in change.items() if name != "_row_kind"}
        kind, of = change["_row_kind"], key(row)
        if kind in ("-U", "-D"):
            assert seen_row(state.pop(of)) == seen_row(row), "takes back a row that is another"
            if kind == "-U":
                before[of] = row
        else:
            assert of not in state, "adds a row that is there"
            assert (before.pop(of, None) is not None) == (kind == "+U"), "an update has both halves, an insert one"
            state[of] = row
    assert not before
    return state


def fold_upserts(rows: Mapping, changes: Iterable[Row], key: Callable[[Row], object] = itemgetter("k")) -> dict:
    """The rows after changes of mode `delta`."""
    state = dict(rows)
    for change in changes:
        row = {name: value for name, value in change.items() if name != "_row_kind"}
        assert change["_row_kind"] in ("+I", "-D")
        state.pop(key(row), None)
        if change["_row_kind"] == "+I":
            state[key(row)] = row
    return state


def seen_row(row: Row) -> dict[str, object]:
    """The values of a row, without columns that an alteration added."""
    return {name: seen(value) for name, value in row.items() if not name.startswith(ADDED)}


# --- playing ---


class Publishing(Storage):
    """A storage that calls `before_publish` once, right before the next snapshot is published."""

    before_publish: Callable[[], None] | None = None

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if "/snapshot-" in path and self.before_publish:
            run, self.before_publish = self.before_publish, None
            run()
        return super().put_if_absent(path, data)


class Meanwhile(Publishing, MemoryStorage):
    """In memory."""


Rows = dict[tuple, Row]


class Player:
    """A table, and beside it the rows it must hold: `rows` now, `history` as of every snapshot."""

    def __init__(self, world: World) -> None:
        self.world, self.setup = world, world.setup
        self.shape = Shape.of(world.key, world.partition, self.setup.columns, moves=world.moves)
        self.storage, self.name = self.made_storage(), "d.t"
        self.names, self.stamps, self.commits = count(), count(1), count(1)
        self.lake = lake_on(self.storage)
        self.lake.create_database("d")
        options = world.options() | ({"bucket-key": self.shape.key[-1]} if world.bucket_by_last else {})
        partition_by = ["p"] if self.shape.partition else []
        how = {"primary_key": list(self.shape.primary_key), "partition_by": partition_by, "options": options}
        self.table: Table = self.lake.create_table("d.t", self.shape.ddl, **how)
        self.bucket_key = [self.shape.key[-1]] if world.bucket_by_last else list(self.shape.key)
        self.types = self.table.schema
        self.naive: NaiveTable = naive(self.table)
        self.rows: Rows = {}
        self.history: dict[int, Rows] = {0: {}}
        self.deletes: Rows = {}  # by key, the delete that is retained
        self.deletes_at: dict[int, Rows] = {0: {}}
        self.gone: set[int] = set()  # snapshots that have expired or were cut out
        self.tags: dict[str, int] = {}
        self.since = 0  # the snapshot of the last alteration
        self.columns_since = 0  # the snapshot of the last rollback to other columns
        self.given: dict[int, list[tuple[str, Row]]] = {}  # with producer input
        self.replays: list[tuple] = []
        self.overwritten: set[int] = set()  # the snapshots of overwrites
        self.reshaped = 0  # the last snapshot that merged buckets, perhaps
        self.outer: Table | None = None  # the handle of a step that is under way, while others take theirs

    def made_storage(self) -> Publishing:
        return Meanwhile(Ticks())

    # -- rows --

    def decoded(self, codes: bytes) -> list[tuple[str, Row]]:
        """(kind, row) of every row."""
        found = []
        for start in range(0, len(codes) - ROW_BYTES + 1, ROW_BYTES):
            key, *rest = codes[start : start + ROW_BYTES]
            number, digits = int.from_bytes(bytes(rest), "little"), []
            for base in DIGITS:
                number, digit = divmod(number, base)
                digits.append(digit)
            kind, *places = digits
            columns = {name: column.values for name, column in self.setup.columns.items() if name != "stamp"}
            values = [of[place % len(of)] for of, place in zip(columns.values(), places, strict=False)]
            values += [next(self.stamps)] if "stamp" in self.setup.columns else []
            of_key = self.shape.key_values(key % self.world.keys)
            if self.world.moves:
                of_key = (*of_key[:-1], self.shape.partition.values[number % len(self.shape.partition.values)])
            row = self.shape.stored((*of_key, *values))
            found.append((self.setup.kinds[kind % len(self.setup.kinds)], dict(zip(self.shape.names, row, strict=True))))
        return found

    def _arrow(self, rows: list[tuple[str, Row]], names: Iterable[str] | None = None) -> pa.Table:
        names = list(names or self.shape.names)
        return self.shape.table([tuple(row[name] for name in names) for _, row in rows], self.types, names)

    def batch(self, rows: list[tuple[str, Row]]) -> pa.Table:
        """The rows as data, with their kinds in the column `op`."""
        return self._arrow(rows).append_column("op", pa.array([kind for kind, _ in rows]))

    def key_of(self, row: Row) -> tuple:
        return tuple(row[name] for name in self.shape.primary_key)

    def _apply(self, rows: list[tuple[str, Row]]) -> None:
        """Applies the rows of one commit."""
        apply_commit(self._fold(), self.rows, self.deletes, rows, self.key_of)

    def _fold(self) -> Callable:
        """The rule; if keys can move and rows are merged, a row stays in the partition in which it lies."""
        fold = self.setup.fold
        if not self.world.moves or self.setup.options.get("merge-engine") not in COMBINING:
            return fold
        return lambda old, row, kind: fold(old, row if old is None else {**row, "p": old["p"]}, kind)

    # -- steps --

    def do(self, step: Step) -> None:
        """One step and those during it."""
        if step.during:
            self.storage.before_publish = lambda: self._others(step.during)
        getattr(self, f"_{step.verb}")(step)
        self.storage.before_publish = None
        assert self.table.scan().count() == len(self.rows)

    def _others(self, steps: tuple[Step, ...]) -> None:
        self.outer, self.table = self.table, self._opened().table(self.name)
        for step in steps:
            self.do(step)
        self.outer, self.table = None, self.outer

    def _opened(self) -> Lake:
        return Lake(replace(self.lake.env, ids=Names(f"o{next(self.names)}-")), Runtime())

    def _noted(self, given: list[tuple[str, Row]] = (), written: int | None = None) -> int:
        """After a call that may have published: how many snapshots are new. `written`: the one that has the rows, if not the
        last."""
        latest = max(self.naive.snapshots(), default=0)
        known = max(self.history)
        for number in range(known + 1, latest + 1):
            self.history[number], self.deletes_at[number] = dict(self.rows), dict(self.deletes)
        if given and latest > known:
            self.given[written or latest] = list(given)
        if self.world.buckets == "auto" and latest > known:
            self.reshaped = latest
        return latest - known

    def _write(self, step: Step, **how: object) -> tuple:
        rows = self.decoded(step.rows)
        data = self.batch(rows)
        snapshot = self.table.upsert(data, row_kind="op", compact=step.compact, **how)
        self._apply(rows)
        noted = self._noted(rows if snapshot is not None else (), snapshot and snapshot.id)
        if self.world.buckets == "auto":
            assert (noted > 0) == (snapshot is not None), "further commits may split buckets"
        else:
            apart = bool(noted) and snapshot is not None and snapshot.id < max(self.history)
            assert not apart or self._latest()["kind"] == "COMPACT", (
                "after a lost compaction a writer compacts in a further commit"
            )
            assert noted == (snapshot is not None) + apart, "one commit, unless there was nothing to write"
            assert snapshot is None or snapshot.id + apart == max(self.history)
        return data, snapshot

    def _upsert(self, step: Step) -> None:
        self._write(step)

    def _once(self, step: Step) -> None:
        identity = {"writer_id": f"{'others' if self.outer else 'mine'}-{step.number % 2}", "commit_id": next(self.commits)}
        data, snapshot = self._write(step, **identity)
        if snapshot is not None:
            self.replays.append((data, snapshot, identity))

    def _replay(self, step: Step) -> None:
        if self.replays:
            data, snapshot, identity = self.replays[step.number % len(self.replays)]
            if snapshot.id in self.gone and snapshot.commit_id != self._latest()["writers"][snapshot.writer_id]:
                with pytest.raises(InvalidData, match="less than its last one"):
                    self.table.upsert(data, row_kind="op", **identity)
            else:
                found = self.table.upsert(data, row_kind="op", **identity)
                assert found.id == (max(self.history) if snapshot.id in self.gone else snapshot.id)
            assert self._noted() == 0

    def _keys(self, step: Step, kind: str, more: tuple[str, ...] = (), **how: object) -> None:
        rows = [(kind, row) for _, row in self.decoded(step.rows) if all(row[name] is not None for name in more)]
        if not rows:
            return
        keys = self._arrow(rows, [*self.shape.primary_key, *more])
        snapshot = self.table.delete_keys(keys, compact=step.compact, **how)
        self._apply(rows)
        assert self._noted(rows, snapshot and snapshot.id) <= 1 or self.world.buckets == "auto"

    def _overwrite(self, step: Step) -> None:
        """The partitions of the rows, those with a value (or without), or all rows are replaced by rows."""
        rows, partition = self.decoded(step.rows), bool(self.shape.partition)
        scope = ("data", "null", "value", "all")[step.number % 4 if partition else 3 * (step.number % 2)]
        if scope in ("null", "value"):
            rows = [(kind, row) for kind, row in rows if (row["p"] is None) == (scope == "null")]
        how = {"null": {"where": "p IS NULL"}, "value": {"where": "p IS NOT NULL"}, "all": {"truncate": True}, "data": {}}[scope]
        dropped = ("-U",) if isinstance(self.setup.fold, Partial) and self.setup.fold.remove_on_delete else ()
        named = {seen(row["p"]) for kind, row in rows if kind not in dropped} if partition else set()
        self._replaced(
            lambda: self.table.overwrite(self.batch(rows), row_kind="op", **how),
            lambda row: {
                "data": not partition or seen(row["p"]) in named,
                "all": True,
                "null": partition and row["p"] is None,
                "value": partition and row["p"] is not None,
            }[scope],
            rows,
        )

    def _truncate(self, step: Step) -> None:
        self._replaced(self.table.truncate, lambda row: True, [])

    def _replaced(self, run: Callable, gone: Callable[[Row], bool], rows: list[tuple[str, Row]]) -> None:
        before = max(self.history)
        published = run()
        others = max(self.history) - before  # commits of others while it was under way: they are replaced, too
        old = dict(self.rows)
        self.rows = {key: row for key, row in self.rows.items() if not gone(row)}
        self.deletes = {key: row for key, row in self.deletes.items() if not gone(row)}
        self._apply(rows)
        assert self._noted() == (published is not None)
        if published is None:
            assert self.same_rows(old, self.rows) is None
            return
        assert published.id == before + others + 1
        self.overwritten.add(published.id)
        self.given[published.id] = list(self._difference(old, self.rows))

    def _difference(self, old: Rows, new: Rows) -> Iterator[tuple[str, Row]]:
        for key in {**old, **new}:
            if key in old and key in new:
                if self._seen(old[key]) != self._seen(new[key]):
                    yield from (("-U", old[key]), ("+U", new[key]))
            else:
                yield ("-D", old[key]) if key in old else ("+I", new[key])

    def _erase(self, step: Step) -> None:
        if self.world.producer != "input":
            self._keys(step, "erase", ignore_sequence=True)

    def _delete(self, step: Step) -> None:
        if isinstance(self.setup.fold, Newest) and self.world.producer != "input":
            self._keys(step, "-D", self.setup.fold.by)

    def _nothing(self, step: Step) -> None:
        assert self.table.upsert(self._arrow([])) is None

    def _compact(self, step: Step) -> None:
        self._compacted(step, full=False)

    def _full(self, step: Step) -> None:
        self._compacted(step, full=True)

    def _compacted(self, step: Step, full: bool) -> None:
        self.table.compact(full=full)
        self._noted()
        if step.during:
            return
        files = self._files()
        if full:
            assert len({(file.place, file.level) for file in files}) == len({file.place for file in files})
        if full or (self.world.vectors and self.world.mode != "vectors, gentle"):
            assert all(file.level > 0 for file in files)
        assert not (full and any(file.dead for file in files))
        again = [self.table.compact(full=full).snapshot_id for _ in range(1 if self.world.buckets != "auto" else _SPLITS)]
        assert again[-1] is None, "a compacted table is compacted again"
        self._noted()

    def _bucket(self, step: Step) -> None:
        self.table.compact(buckets=[0 if self.world.buckets == "auto" else step.number % self.world.buckets])
        self._noted()

    def _rescale(self, step: Step) -> None:
        self.table.rescale(("auto", 1, 2, 3, 4, 8, 12)[step.number % 7])
        self._noted()
        self.reshaped = max(self.history)

    def _reopen(self, step: Step) -> None:
        self.lake = self._opened()
        self.table = self.lake.table(self.name)

    def _evolve(self, step: Step) -> None:
        """Columns are added, renamed, moved, dropped or widened; those of the model keep their names and values."""
        added = [name for name in self.table.schema.names if name not in self.shape.names]
        ints = [name for name in self.setup.columns if self.setup.columns == INTS and name in "abcd"]
        column, default = f"{ADDED[0]}{next(self.names)}", [None, 7][step.number // 8 % 2]
        wanted: list[Alteration] = [add_column(column, "INT", first=step.number % 2 > 0, default=default)]
        if not ints:  # no merge rule has a function that refuses a struct
            wanted.append(add_column(["nest", "x"], "BIGINT") if "nest" in added else add_column("nest", "STRUCT<y: INT>"))
        wanted.append(change_type(ints[step.number % len(ints)], "BIGINT") if ints else set_comment(self.shape.names[0], column))
        wanted.append(rename_column(added[0], column) if added and added[0] != "nest" else wanted[0])
        wanted.append(drop_column(added[-1]) if added else wanted[0])
        wanted.append(move_column(self.shape.names[-1], first=True))
        wanted.append(set_default(self.shape.names[-1], None))
        alteration = wanted[step.number % len(wanted)]
        if alteration in wanted[1:2] and "nest" in added and "x" in _inner_names(self.table, "nest"):
            return
        settles = bool(default) and alteration is wanted[0] and self.setup.options.get("merge-engine", "") in COMBINING
        self.table.alter(alteration)
        self._noted()
        if settles:
            self.since = max(self.history)

    def _alter(self, step: Step) -> None:
        """Another merge rule, mode and producer."""
        rules = [name for name, setup in SETUPS.items() if setup.columns == INTS and (not self.world.moves or can_move(name))]
        rule = rules[step.number % len(rules)]
        modes, known = list(MODES), producers(rule, moves=self.world.moves)
        given = int.from_bytes(step.rows, "little")
        world = replace(self.world, rule=rule, mode=modes[given % len(modes)], producer=known[given // 8 % len(known)])
        wanted = {name: None for name in self.table.options if name != "bucket-key"} | world.options()
        alterations = [unset_option(name) if value is None else set_option(name, value) for name, value in wanted.items()]
        before = self.history[max(self.history)]
        altered = self.table.alter(*alterations)
        rule_changed, vectors_changed = world.rule != self.world.rule, world.vectors != self.world.vectors
        before_alter = self.world
        self.world, self.setup = world, world.setup
        if rule_changed:
            self.deletes = {}
        if rule_changed and self.setup.fold not in TRANSPARENT:
            self.rows = {key: self.setup.fold(None, row, "+I") for key, row in self.rows.items()}
        if altered is not None and not step.during:
            assert altered.id == max(self.history) + 1, "one commit"
        self._noted()
        self.since = max(self.history)
        if before and altered is not None and (rule_changed or vectors_changed) and before_alter != world:
            files = self._files()
            assert all(file.level > 0 and not file.dead for file in files), "rows of another rule wait, or vectors are left"
            assert len({(file.place, file.level) for file in files}) == len({file.place for file in files})

    # -- what must be --

    @property
    def retained(self) -> list[int]:
        return [number for number in self.history if number and number not in self.gone]

    def _latest(self) -> dict:
        return self.naive.snapshots()[max(self.history)]

    def _files(self, number: int | None = None) -> list[File]:
        published = self.naive.snapshots()
        return self.naive.files(published[number or max(published)]) if published else []

    def _shown(self, files: list[File], mode: str) -> tuple[list[File], list[File]]:
        """The files that a view shows and those that wait: `compacted`, all beyond level 0; `raw`, those of them that need no
        merge - all with vectors, else those at the last level."""
        merged = mode == "raw" and not self.world.vectors
        last = {place: self._last_level([f for f in files if f.place == place]) for place in {f.place for f in files}}
        shown = [f for f in files if f.level > 0 and (not merged or f.level == last[f.place])]
        names = {file.path for file in shown}
        return shown, [file for file in files if file.path not in names]

    def _last_level(self, files: list[File]) -> int:
        """Of a bucket of a table without vectors, as FORMAT.md says. A bucket that was divided may have no file there."""
        options = self.table.options
        levels = options.get("num-levels", int(options.get("num-sorted-run.compaction-trigger", 5)) + 1)
        return max(int(levels), 1 + max(file.level for file in files), 2) - 1

    def view(self, number: int, mode: str) -> Rows:
        """The rows that must be seen of a snapshot: `fresh`, `compacted` or `raw`. Rows leave level 0 in the order of commits, so
        the rows of a bucket are those there were before the oldest commit that waits."""
        if mode == "fresh" or not number:
            return self.history[number]
        _, waiting = self._shown(self._files(number), mode)
        oldest: dict[tuple, int] = {}
        for file in waiting:
            place = *file.place, file.total_buckets
            oldest[place] = min(file.min_sequence, oldest.get(place, file.min_sequence))
        found = dict(self.history[number])
        for place, sequence in oldest.items():
            for rows, add in ((self.history[number], False), (self.history[sequence - 1], True)):
                for key, row in rows.items():
                    if self._lies_in(row, place):  # a key that moves may be seen in two places, or in none
                        found.update({(place, key) if self.world.moves else key: row}) if add else found.pop(key, None)
        return found

    def knows(self, number: int, mode: str) -> bool:
        """Whether `view` knows the rows. Not if rows wait that buckets had when they were merged: then a part of the rows of a
        bucket waits."""
        waiting = self._shown(self._files(number), mode)[1] if number else ()
        return mode == "fresh" or self.reshaped == 0 or all(file.min_sequence > self.reshaped for file in waiting)

    def _lies_in(self, row: Row, place: tuple) -> bool:
        """Whether a row lies in the partition and bucket, as manifests name them."""
        known = self.naive._known
        key = self.key_of(row), row.get("p")
        partition, bucket, total = place
        if ("place", repr(key), total) not in known:
            table = self._arrow([("+I", row)])
            (number,) = buckets_of([table[name] for name in self.bucket_key], total)
            own = tuple(_stored(table[name]) for name in (["p"] if self.shape.partition else []))
            known["place", repr(key), total] = own, number
        return known["place", repr(key), total] == (partition, bucket)

    def same(self, found: pa.Table, rows: Rows) -> None:
        assert multiset(rows_of(found.select(self.shape.names))) == multiset([self._seen(row) for row in rows.values()])

    def _seen(self, row: Row) -> tuple:
        return tuple(seen(row[name]) for name in self.shape.names)

    def check(self) -> None:
        """After every step."""
        self.same(self.table.scan().to_arrow(), self.rows)
        if not (last := max(self.history)):
            return
        files = self._files()
        self.naive.check_buckets(files, self.bucket_key)
        assert_cover(files)
        (shown, _), scan = self._shown(files, "raw"), self.table.scan(mode="raw")
        living = [row for file in shown for row in rows_of(self.naive.living(file).select(self.shape.names))]
        assert multiset(living) == multiset(rows_of(scan.to_arrow().select(self.shape.names))), "data files less their dead rows"
        if self.knows(last, "raw"):
            raw = self.view(last, "raw")
            self.same(scan.to_arrow(), raw)
            assert scan.count() == len(raw)

    def check_history(self, draw: Callable) -> None:
        """At the end."""
        assert self.table.verify() == []
        assert self.naive.unreferenced() == []
        last = max(self.history)
        assert sorted(self.naive.snapshots()) == self.retained
        for number in self.history:
            if number in self.retained or number in self.tags.values():
                self.same(self.table.scan(snapshot=number).to_arrow(), self.history[number])
            elif number:
                with pytest.raises(SnapshotNotFound):
                    self.table.scan(snapshot=number).to_arrow()
        assert sorted(self.table.tags()["tag_name"].to_pylist()) == sorted(self.tags)
        for name, number in self.tags.items():
            self.same(self.table.scan(tag=name).to_arrow(), self.history[number])
        if not last:
            return
        published = self.naive.snapshots()
        number = draw(st.sampled_from(self.retained))
        at = dt.datetime.fromtimestamp(0, UTC) + dt.timedelta(milliseconds=published[number]["time_ms"])
        self.same(self.table.scan(timestamp=at).to_arrow(), self.history[number])
        for mode in ("fresh", "raw") if self.knows(last, "raw") else ("fresh",):
            self._check_filter(draw(conditions(self.shape)), draw(st.permutations(self.shape.names)), mode)
        start, end = self._between(draw, self.columns_since)
        for where in (None, draw(conditions(self.shape, depth=1))):
            found = self._listed(self.table.changes(start, end, mode="diff", where=where and where.sql))
            before, after = (self._matching(self.history[n], where) for n in (start, end))
            self.same_rows(fold(before, found, self.key_of), after)
            assert all(pair["-U"] != pair["+U"] for pair in self._updates(found).values()), "an update that changes nothing"
        found = self._listed(self.table.changes(start, end, mode="delta"))
        self.same_rows(fold_upserts(self.history[start], found, self.key_of), self.history[end])
        self._check_changelog(draw)

    def _between(self, draw: Callable, oldest: int) -> tuple[int, int]:
        """Two snapshots, not before `oldest`, between which nothing has gone."""
        oldest = max([oldest, *(number + 1 for number in self.gone)])
        start, end = sorted([draw(st.integers(oldest, max(self.history))) for _ in range(2)])
        return start, max(end, 1)

    def _listed(self, changes: Changes) -> list[Row]:
        """The changes, without columns that an alteration added."""
        return changes.to_arrow().select(["_row_kind", *self.shape.names]).to_pylist()

    def _check_filter(self, where: Condition, names: list[str], mode: str) -> None:
        rows = self._matching(self.view(max(self.history), mode), where).values()
        columns = names[: 1 + len(names) // 2]
        scan = view(self.table, mode, where=where.sql, columns=columns)
        assert multiset(rows_of(scan.to_arrow())) == multiset([tuple(seen(row[name]) for name in columns) for row in rows])
        assert scan.count() == len(rows)

    def _matching(self, rows: Rows, where: Condition | None) -> Rows:
        return {key: row for key, row in rows.items() if where is None or where.holds(row) is True}

    def _check_changelog(self, draw: Callable) -> None:
        """Folded onto the rows that its readers have at its start, a changelog gives those at its end."""
        producer, last = self.world.producer, max(self.history)
        if producer == "none" or self.since == last:
            return
        start, end = self._between(draw, self.since)
        found = self._listed(self.table.changes(start, end, mode="changelog"))
        emitted = {number: snapshot["changelog_rows"] for number, snapshot in self.naive.snapshots().items()}
        between = range(start + 1, end + 1)
        assert len(found) == sum(emitted[n] for n in between) or not self.overwritten.isdisjoint(between)
        assert all(emitted.get(number, 0) == 0 for number in self.overwritten)
        if producer == "input":
            dropped = ("-U",) if isinstance(self.setup.fold, Partial) and self.setup.fold.remove_on_delete else ()
            given = [
                (kind, row)
                for number in between
                for kind, row in self.given.get(number, ())
                if kind not in dropped or number in self.overwritten
            ]
            assert self._by_key((change["_row_kind"], change) for change in found) == self._by_key(given)
            return
        view = "fresh" if self.world.moves else "compacted" if producer == "lookup" else "raw"
        if not self.knows(start, view) or not self.knows(end, view):
            return
        self.same_rows(fold(self.view(start, view), found, self.key_of), self.view(end, view))

    def _by_key(self, rows: Iterable[tuple[str, Row]]) -> dict[tuple, list]:
        """The rows of each key in their order; with a sequence, which orders those of a batch, in any."""
        found: dict[tuple, list] = {}
        for kind, row in rows:
            found.setdefault(self.key_of(row), []).append((kind, self._seen(row)))
        return {key: sorted(some, key=repr) for key, some in found.items()} if getattr(self.setup.fold, "by", ()) else found

    def same_rows(self, found: Rows, expected: Rows) -> None:
        assert {key: self._seen(row) for key, row in found.items()} == {key: self._seen(row) for key, row in expected.items()}

    def _updates(self, changes: list[Row]) -> dict[tuple, dict[str, tuple]]:
        found: dict[tuple, dict[str, tuple]] = {}
        for change in changes:
            if change["_row_kind"] in ("-U", "+U"):
                found.setdefault(self.key_of(change), {})[change["_row_kind"]] = self._seen(change)
        return found


def assert_cover(files: Iterable[File]) -> None:
    """No key is in two buckets of a partition."""
    places = {(*file.place, file.total_buckets) for file in files}
    for (one, n, t), (other, m, u) in combinations(places, 2):
        assert one != other or (n - m) % gcd(t, u), f"buckets {n} of {t} and {m} of {u} have keys in common"


def _inner_names(table: Table, name: str) -> list[str]:
    return [field.name for field in table.schema.field(name).type]


def _stored(column: pa.ChunkedArray) -> object:
    """The one value of a partition column, as a manifest holds it."""
    longs = pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.time64("us")
    as_numbers = {pa.date32(): pa.int32(), **dict.fromkeys(longs, pa.int64())}
    return column.cast(as_numbers.get(column.type, column.type))[0].as_py()


@contextmanager
def sized_by_rows() -> Iterator[None]:
    """Compactions weigh runs by their rows. A file of few rows is not much smaller than one of many, since it has a footer, so by
    bytes nearly every compaction would take all runs."""
    made = SortedRun.of

    def weighed(*given: object) -> SortedRun:
        run = made(*given)
        return replace(run, bytes=100 * run.rows)

    with patch.object(SortedRun, "of", weighed):
        yield


def played(plan: Plan, check: Callable[[Player], None] = lambda player: None, made: Callable[[World], Player] = Player) -> Player:
    """The table and its model after all steps; `check` is called after each. `made`: makes the player."""
    with tiny_units(rows=2, ahead=True), sized_by_rows():
        player = made(plan.world)
        load = bytes(chain.from_iterable((key, 4 * key % 256, key) for key in range(plan.world.keys)))
        for step in (*((Step("upsert", load, True, 0),) if plan.world.loaded else ()), *plan.steps):
            player.do(step)
            check(player)
    return player


def play(plan: Plan, draw: Callable, made: Callable[[World], Player] = Player) -> None:
    """All steps and all checks."""
    player = played(plan, lambda player: player.check(), made)
    with tiny_units(rows=2, ahead=True):
        player.check_history(draw)
