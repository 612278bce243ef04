"""A day in the life of a table: 24 hours by a clock that only commits move, with every verb that writes, and killed processes.

A dictionary of rows goes beside the table. It is compared with scans after each step (of a full day, after each sixth), and with
every tag, branch and retained snapshot many times during the day. In the end nothing may be lost, doubled or leaked: `naive`, a
reader written from FORMAT.md, says which files are needed. The day has 72 commits of one writer, 20 minutes apart, besides those
of alterations, compactions and branches; a short run has half of them, and `LSMLAKE_EXAMPLES=40` makes it 2,880, one every 30
seconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

import pyarrow as pa
import pytest
from effort import scaled
from faults import Crash, Fault, FaultStorage
from naive import naive
from strategies import fake_env

from lsmlake import add_column, change_type, drop_column, rename_column
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.schema.alterations.draft import Alteration
from lsmlake.storage.memory import MemoryStorage

START = int(datetime(2026, 3, 1, tzinfo=timezone.utc).timestamp() * 1000)
HOUR = 3_600_000
DAY = 24 * HOUR
FULL_DAY = 2_880
TAGS_MAX = 4
MAIN = ""
OPTIONS = {
    "bucket": 1,
    "snapshot.time-retained": "1 h",
    "snapshot.num-retained.min": 5,
    "manifest.merge-min-count": 5,
    "tag.automatic-creation": "process-time",
    "tag.creation-period": "hourly",
    "tag.num-retained-max": TAGS_MAX,
}
ENGINES = {
    "deduplicate": {},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.default-aggregate-function": "last_value",
    },
}


@dataclass(frozen=True)
class State:
    """The rows of a snapshot: column -> type, and key -> row. Never changed in place."""

    types: Mapping[str, str]
    rows: Mapping[tuple[int, int], Mapping[str, object]]

    def listed(self) -> list[dict]:
        return [dict(self.rows[key]) for key in sorted(self.rows)]


def listed(table: Table, **at: object) -> list[dict]:
    """All rows, also those that a key has twice."""
    return sorted(table.scan(**at).to_arrow().to_pylist(), key=lambda row: (row["p"], row["k"]))


@dataclass
class Line:
    """The table or a branch: its state, that of each snapshot, and the snapshot of each tag that the test made."""

    state: State
    history: dict[int, State] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)

    @property
    def latest(self) -> int:
        return max(self.history)


class Day:
    """A table, its model, a writer and a compactor with handles of their own, and processes that die."""

    def __init__(self, engine: str, commits: int, seed: int) -> None:
        self.engine, self.commits, self.chance = engine, commits, random.Random(seed)
        self.now, self.step, self.processes, self.writes, self.kills, self.files_peak = START, 0, 0, 0, 0, 0
        self.storage = MemoryStorage(lambda: self.now)
        self.lines = {MAIN: Line(State({"p": "INT", "k": "INT", "n": "INT", "s": "STRING"}, {}))}
        lake = self.lake()
        lake.create_database("d")
        lake.create_table(
            "d.t",
            "p INT NOT NULL, k INT NOT NULL, n INT, s STRING",
            primary_key=["p", "k"],
            partition_by=["p"],
            options=OPTIONS | ENGINES[engine],
        )
        self.writer, self.compactor = self.opened(), self.opened()

    # --- processes ---

    def lake(self, storage=None) -> Lake:
        """A new process."""
        self.processes += 1
        env = fake_env(self.storage if storage is None else storage, f"p{self.processes}-", self.processes)
        return Lake(replace(env, clock=lambda: self.now), Runtime())

    def opened(self, storage=None) -> Table:
        return self.lake(storage).table("d.t")

    def on(self, table: Table, branch: str) -> Table:
        return table.branch(branch) if branch else table

    def killed(self, branch: str, run: Callable[[Table], object]) -> bool:
        """Whether a process that runs the verb dies at a storage call by chance. It may have finished before.

        In the last hour none dies: one that has just created an automatic tag would leave the surplus tag to the next hour."""
        storage = FaultStorage(self.storage)
        table = self.on(self.opened(storage), branch)
        call = len(storage.calls) + (self.chance.randint(1, 16) if self.chance.random() < 0.7 else self.chance.randint(12, 60))
        if self.step < 23 * self.commits // 24:
            storage.fault = Fault(call, after=self.chance.random() < 0.5)
        try:
            run(table)
        except Crash:
            self.kills += 1
            self.writer, self.compactor = self.opened(), self.opened()
            return True
        return False

    def commit(
        self, branch: str, after: State, run: Callable[[Table], object], done: Callable[[Table], bool] = lambda table: False
    ) -> None:
        """Runs a verb that leads to the state `after`. If the process dies, another runs the verb again unless it is `done`."""
        line = self.lines[branch]
        table = self.on(self.writer, branch)
        if self.chance.random() < 0.12:
            if self.killed(branch, run):
                table = self.on(self.writer, branch)
                assert listed(table) in (line.state.listed(), after.listed()), "a killed commit is there or not"
                if not done(table):
                    run(table)
        else:
            run(table)
        line.state = after
        self.note(branch)
        if self.step % max(1, self.commits // 480) == 0:
            self.check(branch)

    def note(self, branch: str) -> None:
        """The new snapshots have the state of the line."""
        line, latest = self.lines[branch], self.on(self.opened(), branch).meta.snapshots.latest_id()
        for number in range(max(line.history, default=0) + 1, latest + 1):
            line.history[number] = line.state

    # --- verbs ---

    def value(self, kind: str) -> object:
        if self.chance.random() < 0.1:
            return None
        number = self.chance.randrange(1 << 40 if kind == "BIGINT" else 1_000)
        return f"s{number}" if kind == "STRING" else number

    def batch(self, line: Line, partition: int | None = None) -> list[dict]:
        keys = {(partition or self.chance.randint(1, 3), self.chance.randrange(60)) for _ in range(self.chance.randint(1, 12))}
        others = [(name, kind) for name, kind in line.state.types.items() if name not in ("p", "k")]
        return [{"p": p, "k": k} | {name: self.value(kind) for name, kind in others} for p, k in sorted(keys)]

    def merged(self, old: Mapping[str, object] | None, row: dict) -> dict:
        if self.engine == "aggregation" and old is not None and old["n"] is not None:
            return row | {"n": old["n"] + (row["n"] or 0)}
        return row

    def identity(self) -> dict:
        self.writes += 1
        return {"writer_id": "day", "commit_id": self.writes}

    def upsert(self, branch: str) -> None:
        line = self.lines[branch]
        rows = self.batch(line)
        new = {(row["p"], row["k"]): self.merged(line.state.rows.get((row["p"], row["k"])), row) for row in rows}
        how = self.identity() | {"compact": self.chance.choice([None, None, False])}
        after = replace(line.state, rows={**line.state.rows, **new})
        self.commit(branch, after, lambda table: table.upsert(pa.Table.from_pylist(rows, table.schema), **how))

    def delete(self, branch: str) -> None:
        line = self.lines[branch]
        keys = self.chance.sample(sorted(line.state.rows), min(5, len(line.state.rows)))
        data = pa.table({name: pa.array([key[i] for key in keys], pa.int32()) for i, name in enumerate("pk")})
        after = replace(line.state, rows={key: row for key, row in line.state.rows.items() if key not in keys})
        how = self.identity()
        self.commit(branch, after, lambda table: table.delete_keys(data, **how))

    def write(self, branch: str) -> None:
        if self.engine == "deduplicate" and self.chance.random() < 0.2 and self.lines[branch].state.rows:
            self.delete(branch)
        else:
            self.upsert(branch)

    def overwrite(self, partition: int) -> None:
        state = self.lines[MAIN].state
        rows, how = self.batch(self.lines[MAIN], partition), self.identity()
        kept = {key: row for key, row in state.rows.items() if key[0] != partition}
        after = replace(state, rows=kept | {(row["p"], row["k"]): row for row in rows})
        self.commit(MAIN, after, lambda table: table.overwrite(pa.Table.from_pylist(rows, table.schema), **how))

    def alter(self, branch: str, alteration: Alteration, change: Callable[[dict], dict], types: Callable[[dict], dict]) -> None:
        """`change` gives a row after the alteration, `types` the types of the columns."""
        state = self.lines[branch].state
        after = State(types(dict(state.types)), {key: change(dict(row)) for key, row in state.rows.items()})
        before_alteration = self.on(self.writer, branch).schema
        self.commit(branch, after, lambda table: table.alter(alteration), lambda table: table.schema != before_alteration)

    def add(self, branch: str, name: str, kind: str, default: object) -> None:
        added = add_column(name, kind, default=default)
        self.alter(branch, added, lambda row: row | {name: default}, lambda types: types | {name: kind})

    def rename(self, branch: str, old: str, new: str) -> None:
        def renamed(values: dict) -> dict:
            return {new if name == old else name: value for name, value in values.items()}

        self.alter(branch, rename_column(old, new), renamed, renamed)

    def widen(self, branch: str, name: str, kind: str) -> None:
        self.alter(branch, change_type(name, kind), lambda row: row, lambda types: types | {name: kind})

    def drop(self, branch: str, gone: str) -> None:
        def without(values: dict) -> dict:
            return {name: value for name, value in values.items() if name != gone}

        self.alter(branch, drop_column(gone), without, without)

    def compact(self, branch: str) -> None:
        full = self.chance.random() < 0.3
        if self.chance.random() < 0.2:
            self.killed(branch, lambda table: table.compact(full=full))
        self.on(self.compactor, branch).compact(full=full)
        self.note(branch)
        self.check(branch)

    def analyze(self, branch: str) -> None:
        self.killed(branch, lambda table: table.analyze())
        self.on(self.compactor, branch).analyze()
        self.note(branch)
        self.check(branch)
        table = self.on(self.opened(), branch)
        assert table.system_table("statistics")["mergedRecordCount"].to_pylist() == [len(self.lines[branch].state.rows)]

    def rollback(self, number: int, **target: object) -> None:
        line = self.lines[MAIN]
        after = line.history[number]
        latest = line.latest
        self.commit(MAIN, after, lambda table: table.rollback(**target), lambda table: table.meta.snapshots.latest_id() > latest)

    def rollback_with_cut(self, back: int) -> None:
        """Removes the snapshots after the target."""
        line = self.lines[MAIN]
        target, latest = line.latest - back, line.latest
        self.writer.rollback(target, cut=True)
        line.state = line.history[target]
        self.note(MAIN)
        for number in range(target + 1, latest + 1):
            del line.history[number]
        self.check(MAIN)

    def tag(self, name: str, back: int = 0) -> None:
        line = self.lines[MAIN]
        line.tags[name] = line.latest - back
        if self.killed(MAIN, lambda table: table.create_tag(name, line.tags[name])) and name not in self.tags():
            self.writer.create_tag(name, line.tags[name])

    def untag(self, name: str) -> None:
        del self.lines[MAIN].tags[name]
        if self.killed(MAIN, lambda table: table.delete_tag(name)) and name in self.tags():
            self.writer.delete_tag(name)

    def begin_branch(self, name: str) -> None:
        main = self.lines[MAIN]
        self.lines[name] = Line(main.state, {main.latest: main.state})
        if self.killed(MAIN, lambda table: table.create_branch(name)) and name not in self.branches():
            self.writer.create_branch(name)
        self.check(name)

    def end_branch(self, name: str) -> None:
        del self.lines[name]
        if self.killed(MAIN, lambda table: table.delete_branch(name)) and name in self.branches():
            self.writer.delete_branch(name)

    def forward(self, name: str) -> None:
        line, main = self.lines[name], self.lines[MAIN]
        if self.killed(MAIN, lambda table: table.fast_forward(name)):
            self.writer.fast_forward(name)
        main.state = line.state
        main.history |= line.history
        self.check(MAIN)
        self.check(name)

    def tags(self) -> list[str]:
        return self.writer.tags()["tag_name"].to_pylist()

    def branches(self) -> list[str]:
        return self.writer.branches()["branch_name"].to_pylist()

    def clean(self) -> int:
        """Removes orphan files that are older than two hours."""
        limit = datetime.fromtimestamp((self.now - 2 * HOUR) / 1000, timezone.utc)
        self.killed(MAIN, lambda table: table.remove_orphan_files(limit))
        return self.opened().remove_orphan_files(limit).files

    # --- checks ---

    def check(self, branch: str) -> None:
        table, state = self.on(self.writer, branch), self.lines[branch].state
        assert table.schema.names == list(state.types), self.place
        assert listed(table) == state.listed(), self.place

    def check_all(self) -> None:
        """All that a new process can read: lines, tags and retained snapshots."""
        opened = self.opened()
        self.files_peak = max(self.files_peak, len(list(self.storage.list(""))))
        assert sorted(opened.branches()["branch_name"].to_pylist()) == sorted(filter(None, self.lines)), self.place
        for branch, line in self.lines.items():
            self.check(branch)
            table = self.on(opened, branch)
            tags = dict(zip(*(table.tags()[name].to_pylist() for name in ("tag_name", "snapshot_id")), strict=True))
            assert line.tags.items() <= tags.items(), self.place
            for name, number in tags.items():
                assert listed(table, tag=name) == line.history[number].listed(), f"tag {name} of {branch!r}, {self.place}"
            retained = table.snapshots()["snapshot_id"].to_pylist()
            assert retained[-1] == line.latest, self.place
            for number in {retained[0], *self.chance.sample(retained, min(5, len(retained)))}:
                found = listed(table, snapshot=number)
                assert found == line.history[number].listed(), f"snapshot {number} of {branch!r}, {self.place}"

    def check_verified(self) -> None:
        assert [finding for branch in self.lines for finding in self.on(self.opened(), branch).verify()] == [], self.place

    @property
    def place(self) -> str:
        return f"step {self.step} of {self.commits}, {datetime.fromtimestamp(self.now / 1000, timezone.utc)}"

    # --- the day ---

    def due(self, hour: float) -> bool:
        """Whether this is the first step at or after this hour."""
        return self.step == round(hour * self.commits / 24)

    def live(self) -> None:
        for step in range(self.commits):
            self.step = step
            self.now = START + (self.step + 1) * DAY // self.commits - 1
            self.events()
            forwarding = "next" in self.lines and not self.forwarded
            self.write("next" if forwarding else MAIN)
            if self.step % 5 == 2 and "trial" in self.lines:
                self.write("trial")
            if self.step % 6 == 4 and self.forwarded:
                self.write("next")
            if self.step % 7 == 3:
                self.compact(self.chance.choice(sorted(self.lines)) if not forwarding else "next")
            if self.step % max(20, self.commits // 24) == 11:
                self.check_all()
            if self.due(8) or self.due(16):
                self.check_verified()

    forwarded = False

    def events(self) -> None:
        plan: Sequence[tuple[float, Callable[[], object]]] = (
            (1.5, lambda: self.tag("early", back=1)),
            (2.2, lambda: self.add(MAIN, "note", "STRING", "none")),
            (3.3, lambda: self.begin_branch("trial")),
            (4.1, lambda: self.rename("trial", "s", "tried")),
            (5.2, lambda: self.rename(MAIN, "s", "text")),
            (6.3, lambda: self.tag("dawn")),
            (6.8, lambda: self.analyze(MAIN)),
            (7.1, lambda: self.widen(MAIN, "n", "BIGINT")),
            (7.6, lambda: self.analyze("trial")),
            (8.4, self.clean),
            (9.2, lambda: self.overwrite(2)),
            (10.3, lambda: self.begin_branch("next")),
            (10.5, lambda: self.add("next", "score", "INT", 7)),
            (11.0, self.go_forward),
            (12.4, lambda: self.tag("noon")),
            (12.9, lambda: self.analyze("next")),
            (13.2, lambda: self.drop(MAIN, "note")),
            (14.3, lambda: self.rollback(self.lines[MAIN].tags["noon"], tag="noon")),
            (15.2, lambda: self.end_branch("trial")),
            (16.3, lambda: self.rollback(self.lines[MAIN].latest - 3, snapshot=self.lines[MAIN].latest - 3)),
            (17.4, self.clean),
            (17.7, lambda: self.rollback_with_cut(2)),  # with their tags, which are not among those that are left in the end
            (18.2, lambda: self.drop(MAIN, "text")),
            (19.2, lambda: self.untag("dawn")),
            (20.1, lambda: self.analyze(MAIN)),
            (21.4, lambda: self.add(MAIN, "text", "STRING", None)),
            (22.4, lambda: self.overwrite(1)),
        )
        for hour, event in plan:
            if self.due(hour):
                event()

    def go_forward(self) -> None:
        self.forward("next")
        self.forwarded = True


@pytest.mark.parametrize(("engine", "commits"), [("deduplicate", 72), ("aggregation", 48)])
def test_after_a_day_nothing_is_lost_doubled_or_leaked(engine, commits):
    day = Day(engine, min(FULL_DAY, max(commits // 2, scaled(commits))), seed=14)
    day.live()
    day.check_all()
    day.check_verified()
    assert day.kills > day.commits // 20
    automatic = [name for name in day.tags() if name.startswith("2026")]
    assert automatic == [f"2026-03-01 {hour}" for hour in range(22 - TAGS_MAX + 1, 23)]
    day.now += 25 * HOUR
    last = day.opened()
    last.expire_tags()
    assert last.remove_orphan_files().files > 0, "no killed process left a file"
    assert not any(name.startswith(last.path) for name in naive(last).tags()), "a pin of a killed process stays"
    no_file_is_lost_or_leaked(last)
    day.check_all()
    day.check_verified()
    for name in day.lines.keys() - {MAIN}:
        last.delete_branch(name)
    for name in last.tags()["tag_name"].to_pylist():
        last.delete_tag(name)
    last.expire_snapshots(retain_max=1, retain_min=1, limit=FULL_DAY)
    assert last.snapshots().num_rows == 1
    day.now += 25 * HOUR
    assert day.opened().remove_orphan_files().files == 0, "all that the deletions had to take, they took"
    no_file_is_lost_or_leaked(last)
    assert naive(last).tags() == {}
    day.lines = {MAIN: day.lines[MAIN]}
    day.check(MAIN)
    day.check_verified()


def no_file_is_lost_or_leaked(table: Table) -> None:
    reader = naive(table)
    assert reader.unreferenced() == []
    assert reader.referenced() <= {entry.path for entry in reader.storage.list(reader.root)}
