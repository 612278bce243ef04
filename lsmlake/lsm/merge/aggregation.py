"""The `aggregation` engine: every column outside the key has an aggregate function; rows of kind -U and -D are taken back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData, InvalidOption
from lsmlake.field_options import AGGREGATE
from lsmlake.format.chunks import joined
from lsmlake.format.rowkind import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from lsmlake.format.schema import Schema
from lsmlake.lsm.aggregate import Function
from lsmlake.lsm.aggregate.segments import take
from lsmlake.lsm.merge import field_settings
from lsmlake.lsm.merge.combine import combine, is_retract, last_delete, validate
from lsmlake.lsm.merge.engine import Engine, Old
from lsmlake.lsm.merge.groups import Groups
from lsmlake.lsm.merge.sequence import SequenceFields


@dataclass(frozen=True)
class Aggregation(Engine):
    """`functions`: of every column outside the primary key. `remove_on_delete`: a -D row removes its key."""

    sequence: SequenceFields
    functions: Mapping[str, Function]
    remove_on_delete: bool

    old = Old.JOINS
    in_order = True
    settles_late = True

    @property
    def folds_adds(self) -> bool:
        return all(function.associative_adds for function in self.functions.values())

    @property
    def deletes_by_key(self) -> bool:
        return self.remove_on_delete

    @staticmethod
    def of(schema: Schema, sequence: SequenceFields, where: str) -> Aggregation:
        """Raises InvalidOption."""
        if field_settings.sequence_groups(schema, where):
            raise InvalidOption(
                "a sequence group means nothing under merge-engine = aggregation",
                where=where,
                cure="set merge-engine = partial-update, where a column of a group may have an aggregate function",
            )
        named = field_settings.aggregates(schema, where)
        for name in sequence.columns:
            if name in named:
                raise InvalidOption(
                    f"column {name!r} is in sequence.field and has an aggregate function",
                    where=where,
                    expected="one of the two: a sequence column takes the newest value",
                    cure=f"leave fields.{name}.{AGGREGATE} out",
                )
        default = field_settings.default_aggregate(schema) or field_settings.LAST_NON_NULL
        names = {name: named.get(name, default) for name in schema.columns.names if name not in schema.primary_key}
        # a sequence column is that of the newest row, be it one that is taken back
        names |= dict.fromkeys([name for name in sequence.columns if name in names], "primary_key")
        field_settings.check_settings(schema, set(names) - set(sequence.columns), where)
        functions = {column: field_settings.make(name, column, schema, where) for column, name in names.items()}
        return Aggregation(sequence, functions, schema.parsed_options.aggregation_remove_on_delete)

    def merge(self, rows: pa.Table, groups: Groups, pool: Executor | None, *, settle: bool) -> pa.Table:
        return combine(rows, groups, pool, self._column, self._removes, settle=settle, folds_adds=self.folds_adds)

    def _column(self, name: str, rows: pa.Table, groups: Groups, kinds: np.ndarray | None) -> pa.Array:
        values = joined(rows[name])
        if name not in self.functions:
            return take(values, groups.first)
        retract = None if kinds is None else is_retract(kinds)
        return self.functions[name].reduce(take(values, groups.rows), groups.starts, retract)

    def _removes(self, rows: pa.Table, groups: Groups, kinds: np.ndarray) -> np.ndarray | None:
        return last_delete(rows, groups, kinds) if self.remove_on_delete else None

    def needs(self, columns: Collection[str]) -> frozenset[str]:
        return frozenset(columns) | frozenset(self.sequence.columns)

    def validate(self, rows: pa.Table) -> None:
        validate(self.functions, rows)

    def stored(self, kinds: np.ndarray) -> np.ndarray:
        """As they are; +U counts as +I."""
        taken_back = kinds == UPDATE_BEFORE if self.remove_on_delete else is_retract(kinds)
        cannot = [name for name, function in self.functions.items() if not function.retracts]
        if cannot and taken_back.any():
            raise InvalidData(
                "rows of kind -U or -D cannot be taken back by every column",
                where=f"columns {cannot}",
                expected="functions that can, or fields.<column>.ignore-retract = true",
                found=f"{int(taken_back.sum())} such rows",
                cure="change the options of those columns, or drop the rows with ignore-delete = true",
            )
        return np.where(kinds == UPDATE_AFTER, INSERT, kinds).astype(np.int8)
