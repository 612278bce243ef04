"""The oracle of the soak: replays what the processes intended in the order of the commits, and compares all that was seen.

An operation took place if a snapshot has its identity. For one whose process was killed, only that decides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from soak.tables import CHANGING, TABLES, Model, Row, digest

_OWN = re.compile(r"(.+)i\d+o(\d+)n\d+")
"""An identity that a process drew: its name and the number of the operation."""


class Published(NamedTuple):
    """A snapshot, as the observer read it."""

    writer_id: str
    commit_id: int | None


class Operation(NamedTuple):
    """What a process intended, and the outcomes that it noted: none if it was killed, two if it was repeated."""

    worker: str
    number: int
    intent: Mapping[str, object]
    outcomes: Sequence[Mapping[str, object]]


class History:
    """What the processes of a soak did. `models`: the rows of each table after each snapshot. `faults`: what must not be."""

    def __init__(self, published: Mapping[str, Mapping[int, Published]], logs: Mapping[str, Sequence[Mapping]]) -> None:
        self.published, self.logs = published, logs
        self.operations = {one[:2]: one for one in _operations(logs)}
        self.models = {name: Model(TABLES[name]) for name in published}
        self.faults: list[str] = []
        self.checked: Counter[str] = Counter()
        self._snapshots: dict[tuple[str, int], int] = {}  # (worker, operation) -> the snapshot that holds it

    def judge(self) -> None:
        for name in self.published:
            self._replay(name)
        for operation in self.operations.values():
            for outcome in operation.outcomes:
                self._check(operation, outcome)
        for worker, lines in self.logs.items():
            for name in TABLES:
                self._check_followed(name, worker, [line for line in lines if line.get("followed") == name])

    def _fault(self, where: object, what: str) -> None:
        self.faults.append(f"{where}: {what}")

    # -- the replay ---------------------------------------------------------------------------------------------------

    def _replay(self, name: str) -> None:
        model, found = self.models[name], self.published[name]
        for number in range(1, max(found, default=0) + 1):
            if number not in found:
                return self._fault(name, f"snapshot {number} was never there, or the observer came too late")
            key = _identity(found[number])
            operation = self.operations.get(key)
            if operation is None or operation.intent["table"] != name:
                return self._fault(name, f"snapshot {number} holds an operation that nobody intended: {found[number]}")
            changing = operation.intent["verb"] in CHANGING
            if changing and key in self._snapshots:
                return self._fault(name, f"snapshots {self._snapshots[key]} and {number} both hold {operation.intent}")
            report = model.commit(number, operation.intent if changing else None)
            if changing:
                self._snapshots[key] = number
                self.checked["commits"] += 1
                self._check_counts(operation, number, report)
            else:
                self.checked["compactions"] += 1
        return None

    def _check_counts(self, operation: Operation, number: int, report: tuple) -> None:
        for outcome in operation.outcomes:
            if outcome["ended"] == "committed" and not outcome["again"] and outcome["snapshot"] != number:
                self._fault(operation[:3], f"noted snapshot {outcome['snapshot']}, but {number} holds it")
            if "counts" in outcome and tuple(outcome["counts"]) != report:
                self._fault(operation[:3], f"reported {outcome['counts']} rows, but in this order it is {report}")

    # -- outcomes -----------------------------------------------------------------------------------------------------

    def _check(self, operation: Operation, outcome: Mapping) -> None:
        ended, snapshot = outcome["ended"], self._snapshots.get(operation[:2])
        self.checked[ended] += 1
        self.checked["races"] += outcome["races"]
        self.checked["repeated"] += outcome["again"]
        if ended == "fault":
            self._fault(operation[:3], outcome["why"])
        elif ended == "committed" and snapshot is None:
            self._fault(operation[:3], f"is lost, though snapshot {outcome['snapshot']} was reported")
        elif ended in ("failed", "nothing") and snapshot is not None:
            self._fault(operation[:3], f"{ended} was reported, but snapshot {snapshot} holds it")
        elif ended == "nothing":
            self._check_nothing(operation, outcome)
        elif ended == "read":
            self._check_read(operation, outcome)
        elif ended == "got":
            self._check_got(operation, outcome)
        elif ended == "changes":
            self._check_changes(operation, outcome)

    def _check_nothing(self, operation: Operation, outcome: Mapping) -> None:
        """A statement that found no row: so it was at one of the snapshots from before it began to after it ended."""
        model = self.models[operation.intent["table"]]
        first, last = outcome.get("between", (0, 0))
        for number in range(first, last + 1):
            at = Model(model.kind)
            at.rows = {k: rows for k in model.history if (rows := model.at(number, k))}
            if at.outcome(operation.intent)[1] == (0, 0, 0):
                return
        self._fault(operation[:3], f"changed nothing, but there were rows from snapshot {first} to {last}")

    def _check_read(self, operation: Operation, outcome: Mapping) -> None:
        expected = self.models[operation.intent["table"]].digests.get(outcome["snapshot"])
        if expected != (outcome["count"], outcome["digest"]):
            found = f"{outcome['count']} rows at snapshot {outcome['snapshot']}"
            self._fault(operation[:3], f"read {found}, expected {expected and expected[0]} rows")

    def _check_got(self, operation: Operation, outcome: Mapping) -> None:
        """All rows are of one snapshot."""
        model, (first, last) = self.models[operation.intent["table"]], outcome["between"]
        found = digest(map(tuple, outcome["rows"]))
        for number in range(first, last + 1):
            rows = [row for k in operation.intent["keys"] for row in model.at(number, k)]
            if digest(rows) == found:
                return
        self._fault(operation[:3], f"got rows that are of none of the snapshots from {first} to {last}: {outcome['rows']}")

    def _check_changes(self, operation: Operation, outcome: Mapping) -> None:
        model = self.models[operation.intent["table"]]
        rows = Counter(model.all_at(outcome["start"]))
        if what := _apply(rows, outcome["changes"]):
            self._fault(operation[:3], f"changes from {outcome['start']} to {outcome['snapshot']}: {what}")
        elif +rows != Counter(model.all_at(outcome["snapshot"])):
            self._fault(operation[:3], f"changes from {outcome['start']} do not lead to {outcome['snapshot']}")

    # -- followers ----------------------------------------------------------------------------------------------------

    def _check_followed(self, name: str, worker: str, batches: Sequence[Mapping]) -> None:
        """The batches of a consumer, whose last one may come again if its process was killed, lead from each snapshot to the
        next. A changelog that compactions write is behind the rows; in the end, when all is compacted, it leads to them, too."""
        rows: Counter[Row] = Counter()
        model, last, stored = self.models[name], 0, "changelog-producer" in TABLES[name].options
        where, before = (name, worker, "follows"), None
        for batch in batches:
            number = batch["snapshot"]
            if number == last and _sorted(batch["changes"]) == _sorted(before["changes"]):
                self.checked["batches again"] += 1
                continue
            if number <= last:
                return self._fault(where, f"snapshot {number} after {last}, with other changes than before")
            if what := _apply(rows, batch["changes"]):
                return self._fault(where, f"snapshot {number}: {what}")
            if not stored and +rows != Counter(model.all_at(number)):
                return self._fault(where, f"the changes up to snapshot {number} do not lead to its rows")
            last, before = number, batch
            self.checked["batches"] += 1
        if batches and +rows != Counter(model.all_at(max(self.published[name]))):
            self._fault(where, "all changes together do not lead to the rows of the end")
        return None


def difference(expected: Iterable[Row], found: Iterable[Row]) -> tuple[int, int]:
    """How many rows are lost, and how many are there though they should not be."""
    expected, found = Counter(expected), Counter(found)
    return (expected - found).total(), (found - expected).total()


def _identity(snapshot: Published) -> tuple[str, int] | None:
    if snapshot.commit_id is not None:
        return snapshot.writer_id, snapshot.commit_id
    own = _OWN.fullmatch(snapshot.writer_id)
    return (own[1], int(own[2])) if own else None


def _operations(logs: Mapping[str, Sequence[Mapping]]) -> Iterator[Operation]:
    for worker, lines in logs.items():
        outcomes: dict[int, list[Mapping]] = {}
        for line in lines:
            if "ended" in line:
                outcomes.setdefault(line["op"], []).append(line)
        for line in lines:
            if "verb" in line:
                yield Operation(worker, line["op"], line, outcomes.get(line["op"], []))


def unsettled(operations: Iterable[Operation]) -> int:
    """How many operations that change rows were begun and have no outcome: they took place or not, and nobody repeated them."""
    return sum(one.intent["verb"] in CHANGING and not one.outcomes for one in operations)


def _apply(rows: Counter[Row], changes: Iterable[Sequence]) -> str | None:
    """Apply changes to rows; returns what is wrong with one of them."""
    for kind, *values in changes:
        row = tuple(values)
        if kind in ("-U", "-D"):
            if not rows[row]:
                return f"takes back {row}, which is not there"
            rows[row] -= 1
        else:
            rows[row] += 1
    return None


def _sorted(changes: Sequence[Sequence]) -> list[str]:
    return sorted(map(repr, changes))
