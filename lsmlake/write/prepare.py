"""Prepares the rows of a user for storage: conforms them to the schema, sets row kinds, refuses invalid data. Pure.

The writer in this process, the tasks of Spark and the spills of a large write all call `prepare`, so they handle a batch equally.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData
from lsmlake.kernels import nested
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.options.changelog_options import INPUT
from lsmlake.schema import rowkind
from lsmlake.schema.conform import check_names, conform
from lsmlake.schema.omitted import may_be_omitted
from lsmlake.schema.rowkind import with_kind
from lsmlake.schema.schema import RESERVED, Schema
from lsmlake.write.order import Order, commit_columns_in
from lsmlake.write.write_request import WriteRequest

INPUT_KIND = f"{RESERVED}input_kind"
"""A column of prepared rows if the input is the table's changelog: the row kinds before `MergeRule.stored` changed them."""


def delete_columns(schema: Schema, request: WriteRequest) -> tuple[str, ...]:
    """Returns the columns of a delete by key: the primary key and, unless it ignores sequences, the columns of
    `sequence.field`."""
    sequence = () if request.ignore_sequence else schema.parsed_options.merge.sequence_field
    return (*schema.primary_key, *(name for name in sequence if name not in schema.primary_key))


def prepare(
    data: pa.Table, schema: Schema, request: WriteRequest = WriteRequest(), first_row: int | None = 0
) -> tuple[pa.Table, np.ndarray | None]:
    """Returns the rows to store, and the numbers of the rows of `data` they come from, ascending (None: all rows are stored).

    The rows have the schema's columns in its order, then `_row_kind` if any row is not +I. Options may drop rows.

    Args:
        data: The rows of the user.
        schema: The schema of the table.
        request: The parameters of the write.
        first_row: See `conform`.

    Raises:
        InvalidData: A value or row kind is invalid for the table.
    """
    if request.deletes:
        return _deletes(data, schema, request, first_row), None
    source, kinds, kept = row_kind_source(schema, request), None, None
    if source is not None:
        kinds = rowkind.parse(data, source, first_row)
        if source.column not in schema.columns.names:
            data = data.drop_columns([source.column])
    optional = optional_columns(data.column_names, schema)
    rows = conform(data, schema, cast=request.cast, optional=optional, first_row=first_row).cast(schema.row_columns)
    if kinds is None:
        rule_of(schema).validate(rows, None)
        rows = _with_input_kinds(rows, np.full(rows.num_rows, rowkind.INSERT, np.int8), schema)
    else:
        rows, kept = _with_kinds(rows, kinds, schema)
    if request.replaces is not None:
        request.replaces.check(rows, schema, kept, first_row)
    return rows, kept


def row_kind_source(schema: Schema, request: WriteRequest) -> rowkind.Source | None:
    """Returns the column with the row kinds of a write, None if there is none."""
    field = schema.parsed_options.write.rowkind_field
    return request.row_kind or (rowkind.Source(field) if field else None)


def order_of(columns: pa.Schema, schema: Schema, request: WriteRequest) -> Order:
    """The order of the rows of a write. `columns`: the columns of the data."""
    source = row_kind_source(schema, request)
    if request.deletes:
        return Order()
    return Order.of(request.order_by, columns, schema, source and source.column, untyped=request.cast is not None)


def unstored(columns: pa.Schema, schema: Schema, request: WriteRequest) -> tuple[str, ...]:
    """The columns of data that no write stores: the row kinds, and the commit columns of a change feed."""
    kinds = () if request.row_kind is None else (request.row_kind.column,)
    return (*kinds, *commit_columns_in(columns, schema))


def optional_columns(columns: Sequence[str], schema: Schema) -> frozenset[str]:
    """Returns the columns that the data lacks and may lack: those with a default. Under merge rules that combine rows these are
    the nullable columns outside `sequence.field`, so several writers can write different columns.

    Raises:
        InvalidData: `columns` has columns of a sequence group but lacks its sequence, so their values would be ignored.
    """
    options = schema.parsed_options
    if not schema.combines_rows:
        return frozenset(field.name for field in schema.columns if field.name not in columns and may_be_omitted(field))
    for sequence, members in options.columns.sequence_groups.items():
        given, missing = [name for name in members if name in columns], [name for name in sequence if name not in columns]
        if given and missing:
            raise InvalidData(
                f"the data lacks the sequence {missing} of its columns {given}",
                expected=f"{list(sequence)}: rows without the sequence of a group do not change the group",
                found=list(columns),
                cure="add the sequence columns, or omit the columns of the group",
            )
    others = {*columns, *schema.primary_key, *options.merge.sequence_field}
    return frozenset(field.name for field in schema.columns if field.nullable and field.name not in others)


def _deletes(data: pa.Table, schema: Schema, request: WriteRequest, first_row: int | None) -> pa.Table:
    """Returns delete rows; all columns except `delete_columns` are null."""
    names, options = delete_columns(schema, request), schema.parsed_options
    check_sequence(data.column_names, schema, request)
    check_names(data.column_names, names, schema)
    if not request.of_rows:
        _check_no_nulls(data, names, schema)
    keys = conform(data, schema, names, cast=request.cast, first_row=first_row)
    if request.ignore_sequence:
        kind = rowkind.ERASE
    else:
        kind = rowkind.DELETE
        if options.write.ignore_delete:
            keys = keys.slice(0, 0)
        if not rule_of(schema).deletes_by_key and keys.num_rows:
            raise InvalidData(
                f"merge-engine = {options.merge.engine} cannot delete by key with the options of this table",
                expected="rows of kind -D with all columns, or a merge engine that removes a row by its key",
                found=f"{keys.num_rows} keys",
                cure="use upsert with row_kind, set the merge engine's remove-record-on-delete, "
                "or pass ignore_sequence=True, which erases the keys under any merge engine",
            )
    columns = [keys[f.name] if f.name in names else nested.nulls(keys.num_rows, f.type) for f in schema.row_columns]
    return _stored(pa.table(columns, schema=schema.row_columns), np.full(keys.num_rows, kind, np.int8), schema)


def check_sequence(columns: Sequence[str], schema: Schema, request: WriteRequest) -> None:
    """Raises InvalidData if `columns` lack the sequence of a delete. Without it the delete would be older than any row
    with a sequence and delete nothing."""
    names = delete_columns(schema, request)
    missing = [name for name in names if name not in columns and name not in schema.primary_key]
    if missing:
        raise InvalidData(
            "a delete by key lacks the sequence",
            where=f"columns {missing}",
            expected=f"{list(names)}: the table has sequence.field = {','.join(schema.parsed_options.merge.sequence_field)}",
            found=list(columns),
            cure="add them to delete only older rows, or pass ignore_sequence=True to delete rows of any sequence",
        )


def _check_no_nulls(data: pa.Table, names: Sequence[str], schema: Schema) -> None:
    for name in names:
        if name not in schema.primary_key and data[name].null_count:
            raise InvalidData(
                "a delete by key has a null in a sequence column, which is older than any value",
                where=f"column {name!r}",
                expected="a value: a null deletes no row that has a sequence",
                found=f"{data[name].null_count} nulls",
                cure="fill them, or pass ignore_sequence=True to delete rows of any sequence",
            )


def _with_kinds(rows: pa.Table, kinds: pa.ChunkedArray, schema: Schema) -> tuple[pa.Table, np.ndarray | None]:
    options, number, kept = schema.parsed_options, np.asarray(kinds), None
    if options.write.ignore_delete:
        kept = np.flatnonzero(~np.asarray(rowkind.is_retract(kinds)))
    elif options.write.ignore_update_before or options.merge.remove_on_delete:  # under remove_on_delete -U means nothing
        kept = np.flatnonzero(number != rowkind.UPDATE_BEFORE)
    if kept is not None:
        rows, number = rows.take(kept), number[kept]
    return _stored(rows, number, schema), kept


def _stored(rows: pa.Table, kinds: np.ndarray, schema: Schema) -> pa.Table:
    """Converts the kinds to those that the rule stores; if the input is the changelog, adds the original kinds. Raises
    InvalidData for a row that the rule does not accept; erasing rows are never passed to the rule."""
    stored = kinds
    if not (kinds & rowkind.ERASES).any():
        rule = rule_of(schema)
        rule.validate(rows, kinds)
        stored = rule.stored(kinds)
    rows = _with_input_kinds(rows, kinds, schema)
    return with_kind(rows, stored) if stored.any() else rows


def _with_input_kinds(rows: pa.Table, kinds: np.ndarray, schema: Schema) -> pa.Table:
    """Adds the original kinds if the input is the changelog: also to rows of kind +I, since a MERGE writes rows of all kinds."""
    if schema.parsed_options.changelog.producer != INPUT:
        return rows
    return rows.append_column(INPUT_KIND, pa.array(rowkind.plain(kinds).astype(np.int8)))


def with_input_kinds(rows: pa.Table) -> pa.Table:
    """Returns prepared rows with their original kinds, for the changelog."""
    if INPUT_KIND not in rows.column_names:
        return with_kind(rows, rowkind.INSERT)
    return with_kind(rows.drop_columns([INPUT_KIND]), np.asarray(rows[INPUT_KIND]))


def without_input_kinds(rows: pa.Table) -> pa.Table:
    """Returns prepared rows as they are stored."""
    return rows.drop_columns([INPUT_KIND]) if INPUT_KIND in rows.column_names else rows
