"""The `aggregation` rule: each column outside the key has an aggregate function; rows of kind -U and -D are retracted.

A -U or -D that is the first row of its key also makes a row: it is retracted from "no value", so `sum` of a single -D with 5 is
-5. With `remove_on_delete`, a -D removes the row of its key instead.

Under `sequence.field` a row is late if its sequence is smaller than that of the current row; its values then count as older than
the current values. The sequence columns hold the greatest sequence, even if that row was a retraction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.beside import Threads
from lsmlake.errors import InvalidOption
from lsmlake.kernels import segments
from lsmlake.kernels.groups import Groups
from lsmlake.kernels.keys import joined
from lsmlake.kernels.segments import take
from lsmlake.lsm.aggregate import Function
from lsmlake.lsm.merge.combine import MakeColumn, Uncombined, check_retracts, combine, replayed, validate
from lsmlake.lsm.merge.contested import Contest
from lsmlake.lsm.merge.fold import LAST_NON_NULL, Fold, contests_of, function_for
from lsmlake.lsm.merge.rule import MergeRule, OldRow
from lsmlake.lsm.merge.sequence import SequenceFields, last_removals, late_rows, newest_places, on_time_rows
from lsmlake.options.column_options import FUNCTION
from lsmlake.schema.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, retractions
from lsmlake.schema.schema import Schema


@dataclass(frozen=True)
class Aggregation(MergeRule):
    """`functions`: by column, for columns outside the primary key and `sequence`. `remove_on_delete`: a -D removes its key."""

    primary_key: tuple[str, ...]
    sequence: SequenceFields
    functions: Mapping[str, Function]
    remove_on_delete: bool

    old_row = OldRow.MERGED
    repeats_keys = True

    @property
    def deletes_by_key(self) -> bool:
        return self.remove_on_delete

    @staticmethod
    def of(schema: Schema, sequence: SequenceFields, where: str) -> Aggregation:
        """Raises InvalidOption."""
        options = schema.parsed_options.columns
        if options.sequence_groups:
            raise InvalidOption(
                "merge-engine = aggregation does not support sequence groups",
                where=where,
                cure="set merge-engine = partial-update, where a column of a group may have an aggregate function",
            )
        named = options.functions
        for name in sequence.columns:
            if name in named:
                raise InvalidOption(
                    f"column {name!r} is in sequence.field and has an aggregate function",
                    where=where,
                    expected="one of the two: a sequence column takes the newest value",
                    cure=f"remove fields.{name}.{FUNCTION}",
                )
        default = options.default_function or LAST_NON_NULL
        others = [name for name in schema.columns.names if name not in (*schema.primary_key, *sequence.columns)]
        names = {name: named.get(name, default) for name in others}
        options.check_settings(names, where)
        names |= dict.fromkeys(schema.moving_columns, "primary_key")  # all rows of a key have the values of its partition
        functions = {column: function_for(column, name, schema, where) for column, name in names.items()}
        return Aggregation(schema.primary_key, sequence, functions, schema.parsed_options.merge.aggregation_remove_on_delete)

    def merge(self, rows: pa.Table, groups: Groups, pool: Threads | None, *, complete: bool) -> pa.Table:
        return combine(rows, groups, pool, self, complete=complete)

    def uncombined_adds(self) -> Uncombined:
        return Uncombined.of(self.functions.values(), sequenced=bool(self.sequence))

    def columns(self, rows: pa.Table, groups: Groups, retract: np.ndarray | None) -> MakeColumn:
        starts, late, newest = groups.starts, None, groups.last
        if self.sequence and not groups.unique:
            ranks = self._ranks(rows, groups)
            newest = groups.rows[newest_places(ranks, starts)]
            if not all(self.functions[name].commutative_adds for name in rows.column_names if name in self.functions):
                late = late_rows(ranks, starts)
        fold = Fold(starts, len(groups.rows), retract, late)

        def column(name: str) -> pa.Array:
            values = joined(rows[name])
            if name in self.functions:
                return fold.reduce(self.functions[name], take(values, groups.rows))
            return take(values, groups.first if name in self.primary_key else newest)

        return column

    def contributing(self, rows: pa.Table, groups: Groups, kinds: np.ndarray) -> np.ndarray:
        starts, count, deletes = groups.starts, len(groups.rows), kinds == DELETE
        if not self.remove_on_delete:
            return np.ones(count, bool)
        if self.sequence:
            ranks = self._ranks(rows, groups)

            def removes(places: np.ndarray, key_starts: np.ndarray) -> np.ndarray:
                return on_time_rows(late_rows(ranks[places], key_starts), len(places))

            last = last_removals(deletes, ~deletes, starts, removes)
        else:
            last = segments.last_where(deletes, starts, count)
        return (np.arange(count) > np.repeat(last, segments.lengths(starts, count))) & ~deletes  # a late -D has no effect

    def late(self, rows: pa.Table, groups: Groups, retract: np.ndarray | None) -> np.ndarray | None:
        return late_rows(self._ranks(rows, groups), groups.starts)

    def _ranks(self, rows: pa.Table, groups: Groups) -> np.ndarray:
        return self.sequence.ranks(rows, every=True)[groups.rows]

    def replay_order(self, rows: pa.Table, groups: Groups) -> np.ndarray:
        return replayed(self, rows, groups)

    def contests(self, columns: Sequence[str]) -> list[Contest]:
        functions = {name: self.functions[name] for name in columns if name in self.functions}
        contests = [contest for name, made in functions.items() for contest in contests_of(name, made, self.sequence)]
        return [*contests, Contest((), self.sequence)] if self.remove_on_delete else contests

    def needs(self, columns: Collection[str]) -> frozenset[str]:
        return frozenset(columns) | frozenset(self.sequence.columns)

    def validate(self, rows: pa.Table, kinds: np.ndarray | None) -> None:
        validate(self.functions, rows, None if kinds is None else ~retractions(kinds))
        if kinds is not None:
            retract = kinds == UPDATE_BEFORE if self.remove_on_delete else retractions(kinds)
            check_retracts(self.functions, rows, kinds, retract, self.primary_key, "")

    def stored(self, kinds: np.ndarray) -> np.ndarray:
        """Stores +U as +I, other kinds unchanged."""
        return np.where(kinds == UPDATE_AFTER, INSERT, kinds).astype(np.int8)
