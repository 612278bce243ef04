"""What orders the versions of a history: the commits of the source, or a column of its rows. Pure.

A changelog of what the source was given (`changelog-producer` = input) has late changes, which lie between older ones by the
value of the column. All other changes are those that became visible, in the order of the commits: an insert or update is valid
from the value of the column if this is greater than that of the row before, and from its commit otherwise; a delete counts from
its commit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.change_reader import AUTO, DIFF
from lsmlake.cdc.commits import COMMIT_FIELDS
from lsmlake.cdc.row_versions import RowChanges
from lsmlake.errors import InvalidData, InvalidQuery, Wording
from lsmlake.kernels.keys import joined
from lsmlake.lsm.difference import KIND_FIELD, equal_rows
from lsmlake.options.changelog_options import INPUT
from lsmlake.options.merge_options import DEDUPLICATE
from lsmlake.schema.rowkind import COMMIT_TIME, DELETE, NAMES, UPDATE_AFTER, UPDATE_BEFORE
from lsmlake.schema.schema import Schema
from lsmlake.types.column_types import check_orderable
from lsmlake.types.type_text import format_type_of


class HistoryAxis(NamedTuple):
    """What orders versions. `column`: a column of the source; None: the commits. `late`: changes may be late. `mode`: the mode of
    changes to read. `type`: that of the places."""

    column: str | None
    late: bool
    mode: str
    type: pa.DataType

    @staticmethod
    def of(schema: Schema, given: str | None, where: str) -> HistoryAxis:
        """The axis for the argument `sequence_by`: a column, "_commit_time" for the commits, or None: the `sequence.field` of the
        source where its changes tell its value, otherwise the commits. Raises InvalidQuery."""
        options = schema.parsed_options
        by_input = options.changelog.producer == INPUT
        as_given = by_input and options.merge.engine == DEDUPLICATE and not options.write.ignore_delete
        late = as_given and options.merge.sequence_sort_order == "ascending"
        sequence = options.merge.sequence_field
        column = given
        if given is None and len(sequence) == 1:
            column = sequence[0] if late or _is_time(schema, sequence[0]) else None
        commits = HistoryAxis(
            None, False, AUTO if as_given and not sequence else DIFF if by_input else AUTO, COMMIT_FIELDS[1].type
        )
        if column is None or column == COMMIT_TIME:
            return commits
        if column not in schema.columns.names:
            expected = f"one of {schema.columns.names}, or {COMMIT_TIME}"
            raise InvalidQuery("sequence_by is no column", where=where, expected=expected, found=repr(column), cure="correct it")
        late = late and sequence in ((), (column,))
        check_orderable(schema.columns.field(column).type, column)
        if not late and not _is_time(schema, column):
            raise InvalidQuery(
                "the changes of the table do not tell at which value of sequence_by a row is deleted",
                where=where,
                expected="a TIMESTAMP column, or changelog-producer = input with the merge engine deduplicate",
                found=f"{column} {format_type_of(schema.columns.field(column))}",
                cure=f"leave it out, or name {COMMIT_TIME}: versions then are valid from their commits",
            )
        return HistoryAxis(column, late, AUTO if late else commits.mode, schema.plain_columns.field(column).type)

    def changes(self, table: pa.Table, key: tuple[str, ...], where: str) -> RowChanges:
        """Changes with their places. `table`: changes in order, with the commit columns. Raises InvalidData."""
        kinds = np.asarray(pc.index_in(joined(table[KIND_FIELD.name]), pa.array(NAMES))).astype(np.int8)
        pairs = np.flatnonzero((kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER))
        pairs = pairs[equal_rows(table.select(list(key)), pairs, pairs + 1)]
        deletes = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
        places = self._places(table, deletes, pairs, where)
        rows = table.drop_columns([KIND_FIELD.name, *(field.name for field in COMMIT_FIELDS)])
        if not len(pairs):
            return RowChanges(rows, places, deletes)
        left = np.delete(np.arange(len(kinds)), pairs)
        return RowChanges(rows.take(pa.array(left)), places.take(pa.array(left)), deletes[left])

    def _places(self, table: pa.Table, deletes: np.ndarray, pairs: np.ndarray, where: str) -> pa.Array:
        commits = joined(table[COMMIT_TIME]).cast(pa.int64())
        if self.column is None:
            return commits.cast(self.type)
        named = joined(table[self.column])
        if self.late:
            is_nan = pa.types.is_floating(named.type) and pc.any(pc.is_nan(named)).as_py()
            if named.null_count or is_nan:
                raise InvalidData(
                    "a change has no value for the column that orders the versions",
                    where=f"{where}, column {self.column!r}",
                    found="NaN" if is_nan else "null",
                    cure=Wording(
                        f"write it with every change; a history of another name, with sequence_by={COMMIT_TIME!r}, can have it",
                        command="write it with every change; a history of another name, with "
                        f"--sequence-by {COMMIT_TIME}, can have this one",
                    ),
                )
            return named
        numbers = np.asarray(pc.fill_null(named.cast(pa.int64()), np.iinfo(np.int64).min))
        old = np.full(len(numbers), np.iinfo(np.int64).min)
        old[pairs + 1] = numbers[pairs]
        by_commit = deletes | (numbers <= old)
        return pa.array(np.where(by_commit, np.maximum(numbers, np.asarray(commits)), numbers)).cast(self.type)


def _is_time(schema: Schema, column: str) -> bool:
    return column in schema.columns.names and pa.types.is_timestamp(schema.columns.field(column).type)
