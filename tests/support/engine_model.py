"""The expected results of the merge engines: rows are applied one at a time, in the order of arrival, to the current row.

A model is a function (row of the key or None, arriving row, its kind) -> row of the key or None. Its only state between two rows
is the row. It shares no code with the library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from aggregate_model import (
    first_of,
    forgets,
    greater,
    keeps,
    lesser,
    list_add,
    list_take,
    product_add,
    product_take,
    replaces,
    sum_add,
    sum_take,
    twin_of,
)

Row = dict[str, object]
Fold = Callable[[list[tuple[object, bool]]], object]
"""[(value, whether it is taken back), ...], at least one -> what is left of them."""


def fold_of(add: Callable, take: Callable | None = None, nulls: bool = False) -> Fold:
    return lambda rows: twin_of(add, take, rows, nulls)


FOLDS: dict[str, Fold] = {
    "sum": fold_of(sum_add, sum_take),
    "max": fold_of(greater),
    "min": fold_of(lesser),
    "last_value": fold_of(replaces, forgets, nulls=True),
    "last_non_null_value": fold_of(replaces, forgets),
    "first_value": first_of,
    "first_non_null_value": fold_of(keeps),
    "product": fold_of(product_add, product_take),
    "collect": fold_of(list_add, list_take),
}


def ignoring_retracts(fold: Fold) -> Fold:
    def folded(rows: list[tuple[object, bool]]) -> object:
        added = [row for row in rows if not row[1]]
        return fold(added) if added else None

    return folded


class Backwards:
    """The smaller value is the greater."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backwards) and self.value == other.value

    def __lt__(self, other: Backwards) -> bool:
        return other.value < self.value


def sequence(row: Row, names: tuple[str, ...], descending: bool = False) -> list[tuple]:
    """Compares as sequences do: a null is the oldest, in either direction."""
    values = [row[name] for name in names]
    return [() if value is None else (Backwards(value) if descending else value,) for value in values]


@dataclass(frozen=True)
class Newest:
    """deduplicate. `retains`: a delete keeps its sequence, for longer than a test lasts; see `ignored` and `in_order`."""

    by: tuple[str, ...] = ()
    descending: bool = False
    retains: bool = False

    def __call__(self, state: Row | None, row: Row, kind: str) -> Row | None:
        if state is not None and sequence(row, self.by, self.descending) < sequence(state, self.by, self.descending):
            return state
        return None if kind in ("-U", "-D") else row

    def ignored(self, deleted: Row | None, row: Row) -> bool:
        """Whether the row does nothing to a key that `deleted` has deleted."""
        return deleted is not None and sequence(row, self.by, self.descending) < sequence(deleted, self.by, self.descending)

    def in_order(self, rows: list[tuple[str, Row]]) -> list[tuple[str, Row]]:
        """The rows of one commit in the order they are applied."""
        return sorted(rows, key=lambda item: sequence(item[1], self.by, self.descending)) if self.retains else rows


def apply_commit(
    fold: Callable[[Row | None, Row, str], Row | None],
    rows: dict[object, Row],
    deletes: dict[object, Row],
    arrivals: list[tuple[str, Row]],
    key_of: Callable[[Row], object],
) -> None:
    """Applies the rows of one commit to the rows of a table, by key, and to the deletes that it retains."""
    retains = getattr(fold, "retains", False)
    for kind, row in fold.in_order(arrivals) if retains else arrivals:
        key = key_of(row)
        if kind != "erase" and retains and fold.ignored(deletes.get(key), row):
            continue
        deletes.pop(key, None)
        old = rows.pop(key, None)
        state = None if kind == "erase" else fold(old, row, kind)
        if state is not None:
            rows[key_of(state)] = state
        elif retains and kind != "erase":
            deletes[key] = row


def first(state: Row | None, row: Row, kind: str) -> Row | None:
    """first-row"""
    return row if state is None else state


def applied(fold: Fold, old: list[object], new: object, *, back: bool, late: bool) -> object:
    """One more value for an aggregate: `old` holds the value there is, or nothing. A late one counts as the older of the two, but
    what is taken back is taken from what is there."""
    rows = [(value, False) for value in old]
    if back or not late:
        return fold([*rows, (new, back)])
    return fold([(new, False), *rows])


@dataclass(frozen=True)
class Aggregate:
    """aggregation: column -> function (a name in `FOLDS` or the fold itself)."""

    functions: Mapping[str, str | Fold]
    remove_on_delete: bool = False
    ignore_retract: frozenset[str] = frozenset()
    by: tuple[str, ...] = ()
    descending: bool = False

    def __call__(self, state: Row | None, row: Row, kind: str) -> Row | None:
        back = kind in ("-U", "-D")
        late = state is not None and sequence(row, self.by, self.descending) < sequence(state, self.by, self.descending)
        if kind == "-D" and self.remove_on_delete:
            return state if late else None
        made = {**row}
        for name, function in self.functions.items():
            fold = FOLDS[function] if isinstance(function, str) else function
            if name in self.ignore_retract:
                fold = ignoring_retracts(fold)
            made[name] = applied(fold, [] if state is None else [state[name]], row[name], back=back, late=late)
        for name in self.by:
            made[name] = state[name] if late else row[name]
        return made


@dataclass(frozen=True)
class Partial:
    """partial-update. `groups`: sequence columns -> (column -> function, None = follows the newest row). `removing`: the sequence
    columns of the groups whose -D removes the key."""

    columns: tuple[str, ...]
    groups: Mapping[tuple[str, ...], Mapping[str, str | Fold | None]] = field(default_factory=dict)
    remove_on_delete: bool = False
    removing: tuple[tuple[str, ...], ...] = ()
    ignore_retract: frozenset[str] = frozenset()
    by: tuple[str, ...] = ()
    descending: bool = False

    def __call__(self, state: Row | None, row: Row, kind: str) -> Row | None:
        back = kind in ("-U", "-D")
        if state is None and back:
            return None
        made = {**row, **dict.fromkeys(self.columns)} if state is None else {**state}
        order = partial(sequence, names=self.by, descending=self.descending)
        late = state is not None and order(row) < order(state)
        if self.remove_on_delete and back:
            return None if kind == "-D" and not late else state
        concerned = [fields for fields in self.groups if any(row[name] is not None for name in fields)]
        on_time = {
            fields
            for fields in concerned
            if sequence(row, fields) > sequence(made, fields) or (sequence(row, fields) == sequence(made, fields) and not late)
        }
        removing = [fields for fields in concerned if kind == "-D" and fields in self.removing]
        if removing and late:
            return state
        if any(fields in on_time for fields in removing):
            return None
        grouped = {name for fields, members in self.groups.items() for name in (*fields, *members)}
        for name in self.columns:
            if name in grouped or back:
                continue
            if name in self.by:
                made[name] = made[name] if late else row[name]
            elif made[name] is None or (row[name] is not None and not late):
                made[name] = row[name]
        for fields in concerned:
            begun = any(made[name] is not None for name in fields)
            for name, function in self.groups[fields].items():
                if function is not None:
                    fold = FOLDS[function] if isinstance(function, str) else function
                    fold = ignoring_retracts(fold) if name in self.ignore_retract else fold
                    old = [made[name]] if begun else []
                    made[name] = applied(fold, old, row[name], back=back, late=begun and fields not in on_time)
                elif fields in on_time:
                    made[name] = None if back else row[name]
            if fields in on_time:
                made |= {name: row[name] for name in fields}
        return made
