"""What the merge engines must come to, said naively: one row after the other, dictionaries and `if`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP

Row = dict[str, object]
State = "Row | None"


def sequence(row: Row, names: tuple[str, ...]) -> tuple:
    """Compares as sequences do: a null is the oldest."""
    return tuple((row[name] is not None, row[name] if row[name] is not None else 0) for name in names)


def newest(state: Row | None, row: Row, kind: str, by: tuple[str, ...] = ()) -> Row | None:
    """deduplicate"""
    if state is not None and sequence(row, by) < sequence(state, by):
        return state
    return None if kind in ("-U", "-D") else row


def first(state: Row | None, row: Row, kind: str) -> Row | None:
    """first-row"""
    return row if state is None else state


AGGREGATES: dict[str, Callable[[object, object], object]] = {
    "sum": lambda old, new: new if old is None else old if new is None else old + new,
    "max": lambda old, new: new if old is None else old if new is None else max(old, new),
    "min": lambda old, new: new if old is None else old if new is None else min(old, new),
    "last_value": lambda old, new: new,
    "last_non_null_value": lambda old, new: old if new is None else new,
    "first_non_null_value": lambda old, new: new if old is None else old,
    "product": lambda old, new: new if old is None else old if new is None else (old * new).quantize(new, ROUND_HALF_UP),
    "collect": lambda old, new: new if old is None else old if new is None else old + new,
}
RETRACTS: dict[str, Callable[[object, object], object]] = {
    "sum": lambda old, new: old if new is None else -new if old is None else old - new,
    "last_value": lambda old, new: None,
    "last_non_null_value": lambda old, new: old if new is None else None,
    "collect": lambda old, new: _taken_out(old, new),
}


def _taken_out(old: list | None, new: list | None) -> list | None:
    if old is None or new is None:
        return old
    left = list(old)
    for value in new:
        if value in left:
            left.remove(value)
    return left


@dataclass(frozen=True)
class Aggregate:
    """aggregation: column -> function. `by`: a sequence; rows that come late are put where they belong among two."""

    functions: Mapping[str, str]
    remove_on_delete: bool = False
    ignore_retract: frozenset[str] = frozenset()
    by: tuple[str, ...] = ()

    def __call__(self, state: Row | None, row: Row, kind: str) -> Row | None:
        if kind == "-D" and self.remove_on_delete:
            return None
        old = state or dict.fromkeys(self.functions)
        late = state is not None and sequence(row, self.by) < sequence(state, self.by)
        made = {**row}
        for name, function in self.functions.items():
            if kind in ("-U", "-D"):
                made[name] = old[name] if name in self.ignore_retract else RETRACTS[function](old[name], row[name])
            else:
                pair = (row[name], old[name]) if late else (old[name], row[name])
                made[name] = AGGREGATES[function](*pair) if state or function != "last_value" else row[name]
        for name in self.by:
            made[name] = state[name] if late else row[name]
        return made


@dataclass(frozen=True)
class Partial:
    """partial-update. `groups`: sequence columns -> (column -> function, None = follows the newest row)."""

    columns: tuple[str, ...]
    groups: Mapping[tuple[str, ...], Mapping[str, str | None]] = field(default_factory=dict)
    remove_on_delete: bool = False
    removing: tuple[str, ...] = ()

    def __call__(self, state: Row | None, row: Row, kind: str) -> Row | None:
        retract = kind in ("-U", "-D")
        if self.remove_on_delete and retract:
            return None if kind == "-D" else state
        made = dict(state) if state else {**row, **dict.fromkeys(self.columns)}
        grouped = {name for fields, members in self.groups.items() for name in (*fields, *members)}
        for name in self.columns:
            if name not in grouped and not retract and row[name] is not None:
                made[name] = row[name]
        for fields, members in self.groups.items():
            if all(row[name] is None for name in fields):
                continue
            counts = sequence(row, fields) >= sequence(made, fields)
            if counts and kind == "-D" and fields == self.removing:
                return None
            for name, function in members.items():
                if function is not None:
                    made[name] = (RETRACTS if retract else AGGREGATES)[function](made[name], row[name])
                elif counts:
                    made[name] = None if retract else row[name]
            if counts:
                made |= {name: row[name] for name in fields}
        return made
