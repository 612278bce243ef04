"""A table that lives for years: histories (`history`) with tags, branches, rollbacks, expiry, orphans and analyses too.

A branch is a player of its own, with the rows and the history that its table has; it takes the same steps.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from history import RARE, REPLACING, VERBS, Plan, Player, Step, World, histories
from hypothesis import strategies as st
from merge_setups import INTS, SETUPS
from naive import naive

from lsmlake.errors import CommitConflict, SnapshotNotFound

LASTING = ("tag", "expire", "expire", "rollback", "rollback", "branch", "branch", "branch", "orphans", "analyze")
ON_BRANCH = ("upsert", "upsert", "full", "compact", "overwrite", "evolve", "alter", "tag", "expire", "rollback", "orphans")
BRANCHES_MAX, STEPS_MAX = 2, 14


class LastingPlayer(Player):
    """`worlds`: what the table was like at each snapshot; `schemas`: the numbers of their schemas. `branches`: by name."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.worlds: dict[int, World] = {0: world}
        self.schemas: dict[int, int] = {}
        self.branches: dict[str, LastingPlayer] = {}
        self.base = 0  # of a branch: the snapshot at which it begins

    def _noted(self, given: list = (), written: int | None = None) -> int:
        count = super()._noted(given, written)
        for number, snapshot in self.naive.snapshots().items():
            self.worlds.setdefault(number, self.world)
            self.schemas.setdefault(number, snapshot["schema_id"])
        return count

    def check(self) -> None:
        super().check()
        assert (self.naive.missing(), self.naive.unreferenced()) == (set(), [])

    def check_history(self, draw: Callable) -> None:
        super().check_history(draw)
        for branch in self.branches.values():
            branch.check_history(draw)

    def _chosen(self, number: int) -> tuple[dict, int]:
        """A tag or a retained snapshot, as arguments of a call, and its number."""
        known = [({"tag": name}, of) for name, of in self.tags.items()] + [({"snapshot": of}, of) for of in self.retained]
        return known[number % len(known)]

    def _tag(self, step: Step) -> None:
        if step.number % 3 == 0 and self.tags:
            name = sorted(self.tags)[step.number // 3 % len(self.tags)]
            self.table.delete_tag(name)
            del self.tags[name]
        elif self.retained:
            name, (how, number) = f"t{next(self.names):04}", self._chosen(step.number)
            self.table.create_tag(name, how.get("snapshot", number))
            self.tags[name] = number

    def _expire(self, step: Step) -> None:
        if kept := self.retained:
            left = 1 + step.number % len(kept)
            report = self.table.expire_snapshots(retain_max=left, retain_min=1)
            assert report.snapshots == len(kept) - left
            self.gone.update(kept[:-left])

    def _orphans(self, step: Step) -> None:
        if self.outer is not None:  # what is under way is named by nothing
            return
        root, strays = self.naive.root, ("bucket-0/data-stray.parquet", "manifest/manifest-stray", "index/dv-stray.puffin")
        for path in strays:
            with self.storage.write(f"{root}/{path}") as sink:
                sink.write(b"?")
        assert self.table.remove_orphan_files("2100-01-01").files == len(strays)

    def _analyze(self, step: Step) -> None:
        self.table.analyze()
        self._noted()

    def _rollback(self, step: Step) -> None:
        if not self.retained:
            return
        how, target = self._chosen(step.number // 2)
        cut = step.number % 2 > 0
        if self.outer is not None and self.schemas[target] != self.schemas[max(self.history)]:
            return  # the outer step would have to begin anew
        try:
            self.table.rollback(**how, cut=cut)
        except SnapshotNotFound:  # another step came first
            assert target in self.gone and target not in self.tags.values()
            return
        before = dict(self.rows)
        if max(self.naive.snapshots()) == max(self.history):
            assert target == max(self.history)
            return
        self.rows, self.deletes = dict(self.history[target]), dict(self.deletes_at[target])
        self.world = self.worlds[target]
        self.setup = self.world.setup
        last = max(self.history)
        assert self._noted() == 1
        now = max(self.history)
        self.overwritten.add(now)
        self.given[now] = list(self._difference(before, self.rows))
        if self.schemas[now] != self.schemas[last]:
            self.since = self.columns_since = now
        if cut:
            self.gone.update(range(target + 1, last + 1))
            self.tags = {name: number for name, number in self.tags.items() if not target < number < now}

    # -- branches --

    def _branch(self, step: Step) -> None:
        names = sorted(self.branches)
        if not names or (step.number % 8 == 0 and len(names) < BRANCHES_MAX):
            self._create_branch(step)
            return
        name = names[step.number % len(names)]
        branch = self.branches[name]
        if step.number % 8 == 1:
            self._forward(name, branch)
        elif step.number % 8 == 2:
            self.table.delete_branch(name)
            del self.branches[name]
        else:
            verb = ON_BRANCH[step.number // 8 % len(ON_BRANCH)]
            verb = "upsert" if verb == "alter" and self.setup.columns != INTS else verb
            self.storage.before_publish = None
            branch.do(step._replace(verb=verb))
            branch.check()

    def _create_branch(self, step: Step) -> None:
        name, (how, number) = f"b{next(self.names)}", self._chosen(step.number) if self.retained else ({}, 0)
        table = self.table.create_branch(name, **how)
        branch = copy.copy(self)
        branch.name, branch.table, branch.base = table.name, table, number
        branch.naive = naive(self.table, name)
        branch.world = self.worlds[number]
        branch.setup, branch.rows = branch.world.setup, dict(self.history[number])
        branch.deletes, branch.deletes_at = dict(self.deletes_at[number]), dict(self.deletes_at)
        branch.history = {n: rows for n, rows in self.history.items() if n <= number}
        branch.worlds, branch.schemas, branch.given = {n: self.worlds[n] for n in branch.history}, dict(self.schemas), {}
        branch.gone = set(range(1, number))
        branch.since = branch.columns_since = number
        branch.tags, branch.branches, branch.replays, branch.overwritten, branch.outer = {}, {}, [], set(), None
        self.branches[name] = branch

    def _forward(self, name: str, branch: LastingPlayer) -> None:
        self.storage.before_publish = None
        if max(self.history) != branch.base:
            with pytest.raises(CommitConflict):
                self.table.fast_forward(name)
            return
        self.table.fast_forward(name)
        if max(branch.history) == branch.base:
            return
        self.rows, self.world, self.setup = dict(branch.rows), branch.world, branch.setup
        self.deletes = dict(branch.deletes)
        new = [number for number in branch.history if number > branch.base]
        for number in new:
            self.history[number], self.worlds[number] = branch.history[number], branch.worlds[number]
            self.deletes_at[number] = branch.deletes_at[number]
            self.schemas[number] = branch.schemas[number]
        self.given |= {number: rows for number, rows in branch.given.items() if number in new}
        self.overwritten |= branch.overwritten.intersection(new)
        self.gone |= branch.gone.intersection(new)
        if branch.since > branch.base:
            self.since = branch.since
        if branch.columns_since > branch.base:
            self.columns_since = branch.columns_since
        self.tags |= branch.tags
        branch.tags, branch.base = {}, max(branch.history)
        branch.gone = set(range(1, branch.base))


def lasting_histories(rule: str, **fixed: object) -> st.SearchStrategy[Plan]:
    """Plans for a `LastingPlayer`."""
    writing = VERBS[::2] + REPLACING[1:]
    rare = RARE if SETUPS[rule].columns == INTS else RARE[:5]
    verbs, inner = writing + rare + LASTING, VERBS + REPLACING + ("tag", "expire", "rollback")
    return histories(rule, verbs=verbs, inner=inner, most_steps=STEPS_MAX, **fixed)
