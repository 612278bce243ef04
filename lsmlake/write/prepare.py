"""From the rows of a user to rows as they are stored: `prepare`, as a `Request` says. Pure; bad data is refused here.

The embedded writer, the tasks of Spark and the spills of a large write all come through `prepare`, so a batch means the same
wherever it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData
from lsmlake.kernels import nested
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.row_kinds import with_kind
from lsmlake.options.changelog import INPUT
from lsmlake.options.merge import AGGREGATION, PARTIAL_UPDATE
from lsmlake.schema import rowkind
from lsmlake.schema.conform import Cast, check_names, conform
from lsmlake.schema.schema import RESERVED, Schema

GIVEN = f"{RESERVED}given"
"""A column of prepared rows where the table's changelog is its input: their kinds before the rule changed them."""


@dataclass(frozen=True)
class Request:
    """What a write asks for.

    `row_kind`: the column with row kinds. `deletes`: the rows are keys to delete; `ignore_sequence`: whatever their sequence.
    `cast`: values are converted.
    """

    row_kind: rowkind.Source | None = None
    deletes: bool = False
    ignore_sequence: bool = False
    cast: Cast | None = None


def delete_columns(schema: Schema, request: Request) -> tuple[str, ...]:
    """The columns of a delete by key: the primary key and, unless it ignores sequences, the columns of `sequence.field`."""
    sequence = () if request.ignore_sequence else schema.parsed_options.merge.sequence_field
    return (*schema.primary_key, *(name for name in sequence if name not in schema.primary_key))


def prepare(
    data: pa.Table, schema: Schema, request: Request = Request(), first_row: int | None = 0
) -> tuple[pa.Table, np.ndarray | None]:
    """Rows as they are stored: the schema's columns in its order, then `_row_kind` if any row is not +I; and which rows of `data`
    they are, ascending, if options dropped some (None: all). `first_row`: see `conform`. Raises InvalidData, also for a kind the
    merge engine cannot take."""
    if request.deletes:
        return _deletes(data, schema, request, first_row), None
    source, kinds = row_kind_source(schema, request), None
    if source is not None:
        kinds = rowkind.parse(data, source, first_row)
        if source.column not in schema.columns.names:
            data = data.drop_columns([source.column])
    optional = optional_columns(data.column_names, schema)
    rows = conform(data, schema, cast=request.cast, optional=optional, first_row=first_row).cast(schema.row_columns)
    if kinds is None:
        rule_of(schema).validate(rows, None)
        return rows, None
    return _with_kinds(rows, kinds, schema)


def row_kind_source(schema: Schema, request: Request) -> rowkind.Source | None:
    """The column that holds the row kinds of a write, if any does."""
    field = schema.parsed_options.write.rowkind_field
    return request.row_kind or (rowkind.Source(field) if field else None)


def optional_columns(found: Sequence[str], schema: Schema) -> frozenset[str]:
    """The columns that a write to the table may leave out, which are then null: under engines that combine rows, those that may
    be null and are no sequence. So several writers can bring some columns each. Raises InvalidData if the columns `found` include
    some of a sequence group but not its sequence: their values would count for nothing."""
    options = schema.parsed_options
    if options.merge.engine not in (PARTIAL_UPDATE, AGGREGATION):
        return frozenset()
    for sequence, members in options.columns.sequence_groups.items():
        given, missing = [name for name in members if name in found], [name for name in sequence if name not in found]
        if given and missing:
            raise InvalidData(
                f"the data lacks the sequence {missing} of its columns {given}",
                expected=f"{list(sequence)}: rows without the sequence of a group do not change the group",
                found=list(found),
                cure="add the sequence columns, or leave out the columns of the group",
            )
    needed = {*schema.primary_key, *options.merge.sequence_field}
    return frozenset(field.name for field in schema.columns if field.nullable and field.name not in needed)


def _deletes(data: pa.Table, schema: Schema, request: Request, first_row: int | None) -> pa.Table:
    """Delete rows: all columns but those of `delete_columns` are null."""
    names, options = delete_columns(schema, request), schema.parsed_options
    check_sequence(data.column_names, schema, request)
    check_names(data.column_names, names)
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
                f"merge-engine = {options.merge.engine} cannot delete by key as this table is set up",
                expected="rows of kind -D with all columns, or an rule that removes a row by its key",
                found=f"{keys.num_rows} keys",
                cure="use upsert with row_kind, set the engine's remove-record-on-delete, "
                "or pass ignore_sequence=True, which erases the keys under any rule",
            )
    columns = [keys[f.name] if f.name in names else nested.nulls(keys.num_rows, f.type) for f in schema.row_columns]
    return _stored(pa.table(columns, schema=schema.row_columns), np.full(keys.num_rows, kind, np.int8), schema)


def check_sequence(found: Sequence[str], schema: Schema, request: Request) -> None:
    """A delete without its sequence would lose against any row that has one, and so delete nothing. Raises InvalidData if the
    columns `found` lack it."""
    names = delete_columns(schema, request)
    missing = [name for name in names if name not in found and name not in schema.primary_key]
    if missing:
        raise InvalidData(
            "a delete by key lacks the sequence",
            where=f"columns {missing}",
            expected=f"{list(names)}: the table has sequence.field = {','.join(schema.parsed_options.merge.sequence_field)}",
            found=list(found),
            cure="add them, so that only older rows are deleted, or pass ignore_sequence=True to delete whatever the sequence",
        )


def _check_no_nulls(data: pa.Table, names: Sequence[str], schema: Schema) -> None:
    for name in names:
        if name not in schema.primary_key and data[name].null_count:
            raise InvalidData(
                "a delete by key has a null in a sequence column, which is older than any value",
                where=f"column {name!r}",
                expected="a value: such a row deletes nothing that has a sequence",
                found=f"{data[name].null_count} nulls",
                cure="fill them, or pass ignore_sequence=True to delete whatever the sequence",
            )


def _with_kinds(rows: pa.Table, kinds: pa.ChunkedArray, schema: Schema) -> tuple[pa.Table, np.ndarray | None]:
    options, number, kept = schema.parsed_options, np.asarray(kinds), None
    if options.write.ignore_delete:
        kept = np.flatnonzero(~np.asarray(rowkind.is_retract(kinds)))
    elif options.write.ignore_update_before or options.merge.remove_on_delete:  # which knows only whole rows, come or gone
        kept = np.flatnonzero(number != rowkind.UPDATE_BEFORE)
    if kept is not None:
        rows, number = rows.take(kept), number[kept]
    return _stored(rows, number, schema), kept


def _stored(rows: pa.Table, kinds: np.ndarray, schema: Schema) -> pa.Table:
    """The rows in the kinds the rule stores; where a changelog needs them, with the kinds given as well. Raises InvalidData for
    a row that the rule could never merge; an erasing row never reaches the rule."""
    stored = kinds
    if not (kinds & rowkind.ERASES).any():
        rule = rule_of(schema)
        rule.validate(rows, kinds)
        stored = rule.stored(kinds)
    if schema.parsed_options.changelog.producer == INPUT:
        rows = rows.append_column(GIVEN, pa.array(rowkind.plain(kinds).astype(np.int8)))
    return with_kind(rows, stored) if stored.any() else rows


def as_given(rows: pa.Table) -> pa.Table:
    """Prepared rows in the kinds they came in, for a changelog."""
    if GIVEN not in rows.column_names:
        return with_kind(rows, rowkind.INSERT)
    return with_kind(rows.drop_columns([GIVEN]), np.asarray(rows[GIVEN]))


def without_given(rows: pa.Table) -> pa.Table:
    """Prepared rows as they are stored."""
    return rows.drop_columns([GIVEN]) if GIVEN in rows.column_names else rows
