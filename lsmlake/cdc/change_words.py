"""The expressions of a write over rows in this process: computed columns, the conditions that say the kinds of the rows, and
`order_by`.

An event of which one of them cannot be evaluated, such as `CAST(a AS INT) = 1` where `a` is 'x', is refused alone:
`ChangeWords.tried` finds these events while they are decoded, before `ChangeWords.applied` gives the others their kinds.
`spark.change_frames` does the latter in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc import computed_columns
from lsmlake.cdc.computed_columns import ComputedColumn
from lsmlake.cdc.event_rows import REASON, ROW_KIND, TRUNCATED, keeps
from lsmlake.cdc.refused_rows import first_refused, refused_rows
from lsmlake.errors import InvalidData, InvalidQuery, InvalidSchema, RowPlace, literally, naming, with_arguments
from lsmlake.types import column_types

DELETES, TRUNCATES = "apply_as_deletes", "apply_as_truncates"
ORDER = "order_by"


@dataclass(frozen=True)
class ChangeWords:
    """The expressions, for rows in this process.

    Attributes:
        computed: the columns that are computed.
        deletes, truncates: the conditions on the rows that are deletes, and that remove all rows before them; or None.
        zone: the session's time zone.
        order: the expressions of `order_by`; () if they are names, which need no evaluation. They are only tried here.
    """

    computed: tuple[ComputedColumn, ...]
    deletes: str | None
    truncates: str | None
    zone: str
    order: tuple[str, ...] = ()

    @property
    def conditions(self) -> dict[str, tuple[str, str]]:
        """The conditions that are given, by their arguments, each with the kind of the rows that satisfy it."""
        both = {DELETES: (self.deletes, "-D"), TRUNCATES: (self.truncates, TRUNCATED)}
        return {argument: (text, kind) for argument, (text, kind) in both.items() if text is not None}

    @property
    def refuses(self) -> bool:
        """Whether there is an expression: each may refuse a row."""
        return bool(self.computed or self.conditions or self.order)

    def understood(self, fields: pa.Schema) -> ChangeWords:
        """The words without the conditions and parts of the order that cannot be evaluated here, such as one with a function that
        only Spark has. `fields`: of decoded rows."""
        columns = pa.schema([*fields.remove(fields.get_field_index(REASON)), *((one.name, one.type) for one in self.computed)])

        def is_known(argument: str, text: str) -> bool:
            try:
                return self._checked(argument, text, columns) is not None
            except InvalidQuery:
                return False

        known = {argument: text for argument, (text, _) in self.conditions.items() if is_known(argument, text)}
        order = tuple(text for text in self.order if is_known(ORDER, text))
        return replace(self, deletes=known.get(DELETES), truncates=known.get(TRUNCATES), order=order)

    def tried(self, rows: pa.Table) -> tuple[pa.Table, dict[int, str]]:
        """Decoded rows with their computed columns, without those of which an expression cannot be evaluated; these, with the
        reasons. Raises InvalidQuery if one refuses too many different values."""
        good, wrong = computed_columns.tried(self.computed, self.zone, rows)
        left, seen = np.setdiff1d(np.arange(rows.num_rows), list(wrong)), good.drop_columns([REASON])
        texts = [*((argument, text) for argument, (text, _) in self.conditions.items()), *((ORDER, text) for text in self.order)]
        refused: dict[int, str] = {}
        for argument, text in texts:
            refused = self._unevaluated(argument, text, seen) | refused
        if refused:
            good = good.take(pa.array(np.setdiff1d(np.arange(good.num_rows), list(refused))))
        return good, wrong | {int(left[row]): reason for row, reason in refused.items()}

    def applied(self, rows: pa.Table, first_row: int | None = None) -> pa.Table:
        """The rows with their computed columns, and with the column `ROW_KIND` if there are conditions. `first_row`: the number
        of the first row, for errors; None: the rows are not counted."""
        if self.computed:
            rows = computed_columns.added(rows, self.computed, self.zone)
        if not self.conditions:
            return rows
        known = ROW_KIND in rows.column_names
        kinds = rows[ROW_KIND].combine_chunks() if known else pa.repeat("+I", rows.num_rows)
        for argument, (text, kind) in self.conditions.items():
            kinds = pc.if_else(self._flags(argument, text, rows, first_row), kind, kinds)
        return (rows.drop_columns([ROW_KIND]) if known else rows).append_column(ROW_KIND, kinds)

    def _flags(self, argument: str, text: str, rows: pa.Table, first_row: int | None) -> pa.Array:
        """Flags the rows that satisfy a condition. Raises InvalidData for a row of which it cannot be evaluated."""
        rows = _with_types(rows)
        checked = self._checked(argument, text, rows.schema)
        numbers = _numbers_with_values(rows)
        some = rows if len(numbers) == rows.num_rows else rows.take(pa.array(numbers))
        try:
            found = np.asarray(pc.fill_null(checked.over(some), False))
        except InvalidQuery as refused:
            row, reason = first_refused(checked, some, refused)
            where = "" if first_row is None else RowPlace("", first_row + row)
            raise _refused(argument, text, reason).changed(where=where) from reason
        made = np.zeros(rows.num_rows, bool)
        made[numbers] = found
        return pa.array(made)

    def _unevaluated(self, argument: str, text: str, rows: pa.Table) -> dict[int, str]:
        """The decoded rows of which an expression cannot be evaluated, each with the reason."""
        checked = self._checked(argument, text, rows.schema)
        numbers = np.arange(rows.num_rows) if argument == ORDER else _numbers_with_values(rows)
        some = rows.take(pa.array(numbers))
        wrong = refused_rows(checked, some, partial(_refused, argument, text), partial(_hopeless, argument, text))
        read = () if argument == ORDER else checked.needs  # null is older than any value
        lacking = {name: keeps(rows, rows.column_names.index(name))[numbers] for name in read}
        for row in np.flatnonzero(np.logical_or.reduce(list(lacking.values()))).tolist() if lacking else ():
            names = [name for name, flags in lacking.items() if flags[row]]
            wrong[row] = " ".join(str(lacks_unchanged(text, names)).split())
        return {int(numbers[row]): reason for row, reason in wrong.items()}

    def _checked(self, argument: str, text: str, columns: pa.Schema):
        from lsmlake.dialect.row_evaluation import condition_of  # loads sqlglot
        from lsmlake.dialect.scope import Scope  # loads sqlglot
        from lsmlake.dialect.sort_keys import sort_keys  # loads sqlglot

        columns = _known(columns)
        with naming(argument):
            if argument == ORDER:
                return sort_keys([text], columns, self.zone)
            return condition_of(text, Scope.of(columns), zone=self.zone)


def _refused(argument: str, text: str, refused: InvalidQuery) -> InvalidData:
    what, cure = "{} " + literally(repr(text)) + " cannot be evaluated", "correct the row, or the expression"
    return InvalidData(with_arguments(what, argument), found=refused, cure=cure)


def _hopeless(argument: str, text: str, refused: InvalidQuery) -> InvalidQuery:
    what, cure = "{} " + literally(repr(text)) + " cannot be evaluated for many values of a batch", "correct the expression"
    return InvalidQuery(with_arguments(what, argument), found=refused, cure=cure)


def columns_read(text: str, columns: pa.Schema) -> list[str]:
    """The columns that a condition reads; all of them, if it cannot be parsed here."""
    from lsmlake.dialect.row_evaluation import needs_of  # loads sqlglot
    from lsmlake.dialect.scope import Scope  # loads sqlglot
    from lsmlake.dialect.sql_text import Text  # loads sqlglot

    try:
        return list(needs_of(Text(text).parsed(), Scope.of(_known(columns))))
    except InvalidQuery:
        return columns.names


def lacks_unchanged(text: str, names: Sequence[str]) -> InvalidData:
    """The error for an update that lacks values which a condition reads."""
    return InvalidData(
        "an update lacks unchanged values that a condition reads",
        where=text,
        found=names,
        cure="let the source send whole rows, such as by REPLICA IDENTITY FULL, or read other columns",
    )


def _numbers_with_values(rows: pa.Table) -> np.ndarray:
    """The numbers of the rows that conditions are about: not of those that remove all rows, since they have no values."""
    if ROW_KIND not in rows.column_names:
        return np.arange(rows.num_rows)
    return np.flatnonzero(~np.asarray(pc.fill_null(pc.equal(rows[ROW_KIND], TRUNCATED), False)))


def _with_types(rows: pa.Table) -> pa.Table:
    """The rows, with columns of text for those that are null in all of them."""
    typeless = [field for field in rows.schema if pa.types.is_null(field.type)]
    for field in typeless:
        rows = rows.set_column(rows.column_names.index(field.name), field.name, rows[field.name].cast(pa.string()))
    return rows


def _known(columns: pa.Schema) -> pa.Schema:
    """The columns that a condition can read: those whose types are known."""
    fields = []
    for field in columns:
        try:
            fields.append(pa.field(field.name, column_types.plain(column_types.canonical(field.type, field.name))))
        except InvalidSchema:  # unknown to expressions; the write refuses the column itself
            continue
    return pa.schema(fields)
