"""Columns that are computed from the others when change events are written.

Their values come after the columns of the events and before the columns of decoded rows (`cdc.event_rows`), so the numbers in
`KEPT` stay right. An event that lacks unchanged values keeps a computed column if it lacks all that the expression reads; if it
lacks only some of them, nothing can be computed, and the event is refused. So is an event of whose values an expression makes
none, such as `CAST(a AS INT)` of 'x': `tried` finds these while events are decoded, before `added` computes for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.event_rows import KEPT, ROW_KIND, keeps
from lsmlake.cdc.refused_rows import refused_rows
from lsmlake.errors import InvalidData, InvalidQuery

_SAME = "an expression must give the same each time"


class ComputedColumn(NamedTuple):
    """A column, the SQL expression that gives its values, and its type."""

    name: str
    expression: str
    type: pa.DataType


def check_readable(expressions: Mapping[str, str], where: str) -> None:
    """Raises InvalidQuery for an expression that is wrong whatever columns there are. `where`: the table."""
    from sqlglot import exp

    from lsmlake.dialect.aggregates import AGGREGATES  # loads sqlglot
    from lsmlake.dialect.context import current_times, drawing_calls  # loads sqlglot
    from lsmlake.dialect.registry import is_known, near  # loads sqlglot
    from lsmlake.dialect.sql_text import Text  # loads sqlglot

    for name, given in expressions.items():
        try:
            text = Text(given)
            tree = text.parsed()
            calls = [(call, call.name.lower()) for call in tree.find_all(exp.Anonymous)]
            if other := next((call for call, known in calls if known in AGGREGATES), None) or tree.find(exp.Window, exp.Query):
                text.refuse(other, "a value is computed from one row", cure="leave out aggregates, windows and queries")
            if drawn := next(drawing_calls(tree), None):
                text.refuse(drawn[0], _SAME, cure="compute it at the source")
            if now := next(current_times(tree), None):
                cure = "compute it from a time that the events have"
                cure += "; write a column of this name in backquotes" if isinstance(now, exp.Column) else ""
                text.refuse(now, f"{_SAME}, also when the batch is applied again", cure=cure)
            if parameter := tree.find(exp.Placeholder, exp.Parameter):
                text.refuse(parameter, "a parameter has no value", cure="write the value")
            if unknown := next((one for one in calls if not is_known(one[1])), None):
                cure = f"{near(unknown[1])}call another function"
                text.refuse(unknown[0], f"the function {unknown[1]} is not supported for computed columns", cure=cure)
        except InvalidQuery as refused:
            raise _uncomputable(where, name, refused) from refused


def in_key(names: Sequence[str], where: str) -> InvalidQuery:
    """The error for computed columns in the primary key of a table."""
    cure = "leave it out: a table may be partitioned by a column outside of its key"
    return InvalidQuery("a computed column cannot be in the primary key", where=where, found=names, cure=cure)


def _uncomputable(where: str, name: str, refused: InvalidQuery) -> InvalidQuery:
    place, cure = (
        ", ".join(filter(None, (where, f"computed column {name!r}"))),
        "correct the expression; it reads the other columns of the table",
    )
    return InvalidQuery("a column cannot be computed", where=place, found=refused, cure=cure)


def typed(expressions: Mapping[str, str], columns: Mapping[str, pa.DataType], where: str) -> tuple[ComputedColumn, ...]:
    """The computed columns over columns of these types. Raises InvalidQuery, which names the table and the column."""
    from lsmlake.dialect.row_evaluation import type_of_expression  # loads sqlglot
    from lsmlake.dialect.scope import Scope  # loads sqlglot

    if both := [name for name in expressions if name in columns]:
        cure = "give the computed column another name"
        raise InvalidQuery("a computed column has the name of a field of the events", where=where, found=both, cure=cure)
    scope, made = Scope.of(pa.schema(list(columns.items()))), []
    for name, text in expressions.items():
        try:
            made.append(ComputedColumn(name, text, type_of_expression(text, scope)))
        except InvalidQuery as refused:
            raise _uncomputable(where, name, refused) from refused
    return tuple(made)


def added(rows: pa.Table, computed: Sequence[ComputedColumn], zone: str) -> pa.Table:
    """Decoded rows with their computed columns. Raises InvalidData, InvalidQuery."""
    place = rows.column_names.index(ROW_KIND)
    columns = pa.schema([field for field in rows.schema][:place])
    kept = rows[KEPT].combine_chunks()
    for number, one in enumerate(computed, start=place):
        checked = _checked(one, columns, zone)
        if kept.null_count < len(kept):
            lacks = [keeps(rows, columns.get_field_index(name)) for name in checked.needs]
            kept = _with_kept(kept, number, lacks, one.name)
        rows = rows.add_column(number, pa.field(one.name, one.type), checked.over(rows)[one.name])
    return rows.set_column(rows.column_names.index(KEPT), rows.schema.field(KEPT), kept)


def tried(computed: Sequence[ComputedColumn], zone: str, rows: pa.Table) -> tuple[pa.Table, dict[int, str]]:
    """Decoded rows with their computed columns, without those of which nothing can be computed; these, with the reasons. Raises
    InvalidQuery if an expression refuses too many different values."""
    wrong: dict[int, str] = {}
    columns = pa.schema([field for field in rows.schema][: rows.column_names.index(ROW_KIND)])
    for one in computed:
        checked = _checked(one, columns, zone)
        lacks = [keeps(rows, columns.get_field_index(name)) for name in checked.needs]
        if lacks and rows[KEPT].null_count < rows.num_rows:
            some = np.flatnonzero(np.logical_or.reduce(lacks) & ~np.logical_and.reduce(lacks))
            wrong = dict.fromkeys(some.tolist(), " ".join(str(lacks_some(one.name)).split())) | wrong
        wrong = _uncomputed(one, checked, rows) | wrong
    left = np.setdiff1d(np.arange(rows.num_rows), list(wrong))
    good = rows if not wrong else rows.take(pa.array(left))
    return added(good, computed, zone), wrong


def _uncomputed(one: ComputedColumn, checked, rows: pa.Table) -> dict[int, str]:
    """The rows whose values an expression refuses, each with the reason."""
    return refused_rows(checked, rows, partial(_refused, one), partial(_uncomputable, "", one.name))


def _refused(one: ComputedColumn, refused: InvalidQuery) -> InvalidData:
    cure = "correct the event, or the expression"
    return InvalidData(f"nothing can be computed for the column {one.name!r}", where=one.expression, found=refused, cure=cure)


def needs_of(one: ComputedColumn, columns: pa.Schema) -> tuple[str, ...]:
    """The columns that a computed column reads."""
    return _checked(one, columns, "UTC").needs


def _checked(one: ComputedColumn, columns: pa.Schema, zone: str):
    from lsmlake.dialect.row_evaluation import columns_of  # loads sqlglot
    from lsmlake.dialect.scope import Scope  # loads sqlglot

    return columns_of({one.name: one.expression}, Scope.of(columns), pa.schema([(one.name, one.type)]), zone=zone)


def _with_kept(kept: pa.Array, number: int, lacks: list[np.ndarray], name: str) -> pa.Array:
    """`KEPT` with the number of a computed column, where events lack all that it reads. `lacks`: flags for each column read."""
    if not lacks:
        return kept
    all_of, any_of = np.logical_and.reduce(lacks), np.logical_or.reduce(lacks)
    if (any_of & ~all_of).any():
        raise lacks_some(name)
    return pc.if_else(pa.array(all_of), pc.binary_join_element_wise(kept, f"{number},", ""), kept)


def lacks_some(name: str) -> InvalidData:
    """The error for an update that has only some of the values that a computed column reads."""
    return InvalidData(
        f"an update lacks unchanged values that the computed column {name!r} reads",
        expected="events with all of them, or with none",
        cure="let the source send whole rows, such as by REPLICA IDENTITY FULL",
    )
