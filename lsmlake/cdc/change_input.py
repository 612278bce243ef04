"""What the rows of a write mean: the format of their events, and the words of Spark's AUTO CDC, as one value.

`ChangeInput.of` checks the arguments of a verb against each other and against the table. `cdc.change_words` evaluates the
conditions over rows in this process; `spark.change_frames` does so in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from lsmlake.cdc.change_rows import check_rows
from lsmlake.cdc.change_words import DELETES, TRUNCATES, ChangeWords
from lsmlake.cdc.computed_columns import ComputedColumn
from lsmlake.cdc.event_formats import ID, ChangeFormat
from lsmlake.cdc.event_rows import EventReader
from lsmlake.cdc.inner_names import split_paths
from lsmlake.errors import InvalidQuery, Wording, with_arguments
from lsmlake.format.paths import split_name
from lsmlake.options.merge_options import AGGREGATION, DEDUPLICATE, PARTIAL_UPDATE
from lsmlake.schema.schema import Schema
from lsmlake.write.order import OrderBy

RAISE, REJECT = "raise", "reject"
_WORDS, _NOT_ALL = "the words of AUTO CDC", "some columns of the data are not to be written"


class ChangeArguments(NamedTuple):
    """The arguments of a verb that say what rows mean, as `Table.upsert` describes them."""

    format: str | ChangeFormat | None = None
    column: str | None = None
    on_error: str = RAISE
    rejected: str | None = None
    apply_as_deletes: str | None = None
    apply_as_truncates: str | None = None
    ignore_null_updates: bool = False
    columns: Sequence[str] | None = None
    except_columns: Sequence[str] | None = None


@dataclass(frozen=True)
class ChangeInput:
    """What the rows of a write mean.

    Attributes:
        format: the format of the events; None: the data has the rows themselves.
        column: the column of the events; None: its default.
        rejects: events that cannot be read go to a table, and do not stop the write.
        rejected: the name of that table; None: the table's name with `_rejected`.
        deletes, truncates: conditions on the rows that are deletes, and that remove all rows before them.
        ignore_nulls: a null leaves the old value.
        chosen, left_out: the columns to write, or those not to write.
        left_inside: the paths of fields inside of nested values that the columns lack, and that are not written.
        computed: columns that events do not have, computed from those that they have.
        truncates_apply: an event may remove all rows.
        may_lack: events may lack the field of any nullable column, which is then null.
        chosen_by_user: the user has named the columns and paths that are left out; otherwise events have.
    """

    format: ChangeFormat | None = None
    column: str | None = None
    rejects: bool = False
    rejected: str | None = None
    deletes: str | None = None
    truncates: str | None = None
    ignore_nulls: bool = False
    chosen: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()
    left_inside: frozenset[str] = frozenset()
    computed: tuple[ComputedColumn, ...] = ()
    truncates_apply: bool = True
    may_lack: bool = False
    chosen_by_user: bool = False

    @staticmethod
    def of(schema: Schema, words: ChangeArguments, *, row_kind: bool, evolve: bool) -> ChangeInput | None:
        """What the arguments of a verb say; None if all have their defaults. `row_kind`, `evolve`: the verb has this one, too.

        Raises:
            InvalidQuery: arguments contradict each other or the table, or `rejected` is not the name of a table.
        """
        if words == ChangeArguments():
            return None
        format, column, on_error, rejected, apply_as_deletes, apply_as_truncates, ignore_null_updates, columns, left_out = words
        read_as = None if format is None else ChangeFormat.of(format)
        events = read_as is not None and bool(read_as.events.operation)
        engine = schema.parsed_options.merge.engine
        both = (
            (column is not None and read_as is None, "column", "format, which reads the events in it", "name the format"),
            (on_error == REJECT and read_as is None, "on_error='reject'", "format, which reads events", "name the format"),
            (rejected is not None and on_error != REJECT, "rejected", "on_error='reject'", "pass on_error='reject', too"),
        )
        for wrong, name, needed, cure in both:
            if wrong:
                raise InvalidQuery(f"{name} needs {needed}", found=f"{name} alone", cure=cure)
        if rejected is not None:
            split_name(rejected)
        for name, listed in (("columns", columns), ("except_columns", left_out)):
            if twice := sorted({one for one in listed or () if listed.count(one) > 1}):
                raise InvalidQuery(with_arguments("{} names a column twice", name), found=twice, cure="name it once")
        for name, text in ((DELETES, apply_as_deletes), (TRUNCATES, apply_as_truncates)):
            if text is not None and not text.strip():
                what, cure = with_arguments("{} is empty", name), with_arguments("leave {} out", name)
                raise InvalidQuery(what, expected="a condition", found=repr(text), cure=cure)
        if on_error not in (RAISE, REJECT):
            raise InvalidQuery("unknown on_error", expected=f"{RAISE!r} or {REJECT!r}", found=repr(on_error), cure="correct it")
        left_inside = frozenset()
        if read_as is not None and left_out:
            left_out, left_inside = split_paths(left_out, schema.columns, columns)
        contradictions = (
            (row_kind and events, "row_kind", f"format={read_as.name!r}" if read_as else "", "the events have their operations"),
            (row_kind and apply_as_deletes, "row_kind", "apply_as_deletes", "both say which rows are deletes"),
            (row_kind and apply_as_truncates, "row_kind", "apply_as_truncates", "both say what a row means"),
            (columns is not None and bool(left_out), "columns", "except_columns", "both choose columns"),
            (evolve and read_as is not None, "evolve", "format", "events are read as the columns that the table has"),
            (evolve and (apply_as_deletes or apply_as_truncates or columns or left_out), "evolve", _WORDS, _NOT_ALL),
            (evolve and ignore_null_updates, "evolve", "ignore_null_updates", "a new column has no old value to keep"),
        )
        for wrong, one, other, why in contradictions:
            if wrong:
                what = with_arguments(f"{{}} and {{}} contradict each other: {why}", one, other)
                raise InvalidQuery(what, found="both", cure=with_arguments("leave out {}", one))
        if ignore_null_updates and engine not in (DEDUPLICATE, PARTIAL_UPDATE):
            raise InvalidQuery(
                f"merge-engine = {engine} cannot ignore nulls of updates",
                expected=f"{DEDUPLICATE} or {PARTIAL_UPDATE}",
                found=engine,
                cure="leave out ignore_null_updates, or choose aggregate functions that ignore nulls",
            )
        if ignore_null_updates and engine == PARTIAL_UPDATE and (groups := schema.parsed_options.columns.sequence_groups):
            raise InvalidQuery(
                "the columns of a sequence group take nulls, too, so nulls of updates cannot be ignored",
                expected="a table without sequence groups",
                found=f"sequence groups of {[list(sequence) for sequence in groups]}",
                cure="leave out ignore_null_updates; fields.<column>.aggregate-function = last_non_null_value keeps old values",
            )
        if engine == AGGREGATION and events and not read_as.events.whole_before:
            raise InvalidQuery(
                f"an aggregation must take back the old row of an update, and events of {read_as.name} do not have it",
                expected="debezium-json or ogg-json",
                found=read_as.name,
                cure="choose another merge engine",
            )
        return ChangeInput(
            read_as,
            column,
            on_error == REJECT,
            rejected,
            apply_as_deletes,
            apply_as_truncates,
            ignore_null_updates and engine == DEDUPLICATE,
            None if columns is None else tuple(columns),
            tuple(left_out or ()),
            left_inside,
            chosen_by_user=True,
        )

    def reader(self, schema: Schema, zone: str, order_by: OrderBy | None = None) -> EventReader:
        """Reads the events as rows of a table, which has a column for each field that is not in `left_out`, unless `chosen` says
        which fields to read. `order_by`: of the write. Raises InvalidQuery for an unknown column."""
        if self.chosen is not None:
            self._check_known(schema.columns.names)
        words = self.words(zone, order_by)
        names = set(schema.columns.names) - set(self.left_out) if self.chosen is None else set(self.chosen)
        names -= {one.name for one in self.computed}
        missing = [name for name in schema.primary_key if name not in names]
        if missing:
            cure = "write the key columns, too"
            raise InvalidQuery("the columns lack a part of the key", expected=list(schema.primary_key), found=missing, cure=cure)
        columns = pa.schema([field for field in schema.columns if field.name in names])
        merge = schema.parsed_options.merge
        sequence, with_before = merge.sequence_field, merge.engine == AGGREGATION
        others = {*self.left_out, *self.left_inside}
        allowed = frozenset({*schema.columns.names, *others}) if self.chosen is None else None
        return EventReader(
            self.format,
            columns,
            schema.primary_key,
            zone,
            sequence,
            schema.combines_rows,
            with_before,
            allowed,
            self.left_inside,
            self.truncates_apply,
            self.may_lack,
            key_may_be_id=self.chosen is None and ID not in (*schema.columns.names, *self.left_out),
            computes=words.tried if words.refuses else None,
            fits=partial(check_rows, schema, tuple(one.name for one in self.computed)),
        )

    def words(self, zone: str, order_by: OrderBy | None = None) -> ChangeWords:
        """The expressions, for rows in this process. `order_by`: of the write, to try it on each event."""
        order = () if order_by is None or order_by.names else order_by.expressions
        return ChangeWords(self.computed, self.deletes, self.truncates, zone, order)

    def named_fields(self, schema: Schema) -> list[str]:
        """The names of fields to leave out that the user has said and that are no columns: only events tell if they are right."""
        if not self.chosen_by_user:
            return []
        return [one for one in (*self.left_out, *sorted(self.left_inside)) if one not in schema.columns.names]

    def kept_columns(self, names: Sequence[str], others: Sequence[str] = ()) -> list[str]:
        """The columns of data to write. `others`: columns that the write reads and does not store."""
        self._check_known(names)
        if self.chosen is not None:
            return [name for name in names if name in self.chosen or name in others]
        return [name for name in names if name not in self.left_out or name in others]

    def _check_known(self, names: Sequence[str]) -> None:
        argument = "except_columns" if self.chosen is None else "columns"
        if unknown := [name for name in (self.chosen or self.left_out) if name not in names]:
            what = with_arguments("{} names unknown columns", argument)
            raise InvalidQuery(what, expected=list(names), found=unknown, cure="correct the names")


def check_order(order: Sequence[str], left: Sequence[str], schema: Schema) -> None:
    """Raises InvalidQuery if `order_by` reads a column of the table that is not written. `order`: the columns it may read, in
    lower case; `left`: the columns that are written."""
    written = {name.lower() for name in left}
    hidden = [name for name in schema.columns.names if name.lower() in order and name.lower() not in written]
    if hidden:
        raise InvalidQuery(
            with_arguments("{} reads a column of the table that the write leaves out", "order_by"),
            found=hidden,
            cure=Wording("write the column, too, or order by another one", command="write the column, too"),
        )
