"""Writes change events, and rows to which the words of AUTO CDC apply, for `Table.upsert`; in this process or by the runtime."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lsmlake.api.runtime import Runtime
from lsmlake.cdc import rejected_events
from lsmlake.cdc.change_input import ChangeInput, check_order
from lsmlake.cdc.change_rows import Lost, write_changes
from lsmlake.cdc.decoding import decoded_tables
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cdc.event_rows import OWN_COLUMNS, PLACE, POSITION, REASON, ROW_KIND, refusal
from lsmlake.cdc.given_events import EventTables, has_event_column, texts_in
from lsmlake.commit.request import replayed
from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.format.snapshot import Snapshot
from lsmlake.inputs.data import Input, as_input, typed
from lsmlake.schema.conform import Cast
from lsmlake.schema.rowkind import Source
from lsmlake.tables.version import Version
from lsmlake.write.order import OrderBy
from lsmlake.write.write_request import WriteRequest

_log = logging.getLogger("lsmlake.changes")


def upsert_changes(
    version: Version, runtime: Runtime, name: str, data: object, request: WriteRequest, changes: ChangeInput
) -> Snapshot | None:
    """`Table.upsert` of changes. `name`: the name of the table."""
    if runtime.owns(data):
        request.files.check((), name, "a DataFrame")
        return runtime.on_spark("upsert of a distributed data set").upsert_changes(version, data, request, changes)
    if done := replayed(version, request.identity):
        return done
    home = check_rejects(version, changes)
    texts, data = (None, data) if changes.format is None else texts_in(data)
    if texts is None and not _has_events(data, changes):
        return _of_rows(version, runtime, data, request, changes)
    request.files.check(("encoding",), name, "events")
    reader, words = changes.reader(version.schema, runtime.zone, request.order_by), changes.words(runtime.zone)

    def read() -> Iterator[pa.Table]:
        rejected, of_bytes = [], changes.format.events.avro
        events = EventTables(data, changes.column, request.files, of_bytes=of_bytes, rejects=changes.rejects)
        with events.placed():
            for rows in decoded_tables(events, reader):
                good, bad = rejected_events.apart(rows)
                if bad.num_rows and not changes.rejects:
                    raise refusal(bad, name)
                rejected.append(bad)
                yield words.applied(good.drop_columns([REASON]))
        if reader.met:  # otherwise no event has a row
            warn_unmet(name, [one for one in changes.named_fields(version.schema) if one not in reader.met])
        if rejected:  # before the commit of the others, which marks the batch as done
            rejected_events.keep(version.meta.env, home, pa.concat_tables(rejected), request.identity)

    def record(rows: pa.Table, reasons: Sequence[str]) -> None:
        rejected_events.keep_lost(version.meta.env, home, rejected_events.lost(rows, reasons), request.identity)

    def recorded(rows: pa.Table) -> Sequence[int]:
        return rejected_events.recorded_lost(version.meta.env, home, rows, request.identity)

    request_of_rows, takes = with_positions(request), Lost(record, recorded) if changes.rejects else None
    once = _is_read_once(data)
    return write_changes(version, read, request_of_rows, ignore_nulls=changes.ignore_nulls, once=once, lost=takes)


def warn_unmet(table: str, names: Sequence[str]) -> None:
    """Logs the names in `except_columns` that no event of a batch has. They are no error: later events may have them."""
    if names:
        _log.warning("%s: except_columns names what no event of the batch and no column has: %s", table, ", ".join(names))


def check_rejects(version: Version, changes: ChangeInput | None) -> str:
    """The name of the table for rejected events; "" if they are not rejected. Raises InvalidData if that table cannot hold them,
    TableNotFound without its database."""
    return rejected_events.home(version, changes.rejected) if changes is not None and changes.rejects else ""


def _is_read_once(data: object) -> bool:
    return hasattr(data, "__next__") or isinstance(data, (Input, pa.RecordBatchReader))


def with_positions(request: WriteRequest) -> WriteRequest:
    """The request for decoded events: in the order of their source, after that of `order_by`."""
    order = request.order_by or OrderBy()
    if not order.any:
        order = replace(order, expressions=(*order.expressions, POSITION, PLACE))
    return replace(request, row_kind=Source(ROW_KIND), order_by=order, cast=None)


def _has_events(data: object, changes: ChangeInput) -> bool:
    """Whether data that is no text has events, not the columns of rows."""
    if changes.format is None:
        return False
    if changes.column is not None or not changes.format.events.columns:
        return True
    return bool(changes.format.events.operation) and has_event_column(data)


def _of_rows(version: Version, runtime: Runtime, data: object, request: WriteRequest, changes: ChangeInput) -> Snapshot | None:
    """Writes rows."""
    schema, words = version.schema, changes.words(runtime.zone)
    given = as_input(data, schema.plain_columns, options=request.files)
    operation = "" if changes.format is None else changes.format.events.columns
    request = replace(request, cast=Cast(runtime.zone)) if given.text else request
    request = row_request(request, changes)
    order = set() if request.order_by is None else request.order_by.reads

    def chosen(rows: pa.Table, first_row: int) -> pa.Table:
        if operation == (request.row_kind and request.row_kind.column) and operation not in rows.column_names:
            rows = rows.append_column(operation, pa.nulls(rows.num_rows, pa.string()))  # rows of a first load
        given_kinds = request.row_kind and request.row_kind.column
        if taken := [name for name in rows.column_names if name in OWN_COLUMNS and name != given_kinds]:
            cure = f"leave it out of the data or, if it says the kinds of the rows, pass row_kind={ROW_KIND!r}"
            raise InvalidData("the data has a column with a name of lsmlake's own", found=taken, cure=cure)
        rows = words.applied(rows, first_row)
        own = [name for name in rows.column_names if request.row_kind is not None and name == request.row_kind.column]
        others = [one for one in rows.column_names if one.lower() in order and one not in schema.columns.names]
        left = changes.kept_columns([one for one in rows.column_names if one != ROW_KIND], [*own, *others])
        check_order(order, left, schema)
        return rows.select([*left, *(one for one in own if one not in left)])

    def read() -> Iterator[pa.Table]:
        nonlocal given
        given = given if once else as_input(data, schema.plain_columns, options=request.files)
        fields = {field.name.lower(): field for field in schema.typed_columns}
        first_row = 0
        for rows in typed(given, fields, Cast(runtime.zone)):
            if rows.num_rows:
                yield chosen(rows, first_row)
                first_row += rows.num_rows

    once = _is_read_once(data)
    try:
        return write_changes(version, read, request, ignore_nulls=changes.ignore_nulls, once=once)
    except InvalidData as error:
        raise given.placed(error) from error.__cause__


def row_request(request: WriteRequest, changes: ChangeInput) -> WriteRequest:
    """The request for rows: with the column of their kinds, if the words or the format give them one.

    Raises:
        InvalidQuery: a word says something of events only.
    """
    told = changes.format is not None and changes.format != ChangeFormat(changes.format.name)
    if changes.rejects or told:
        word = "on_error='reject'" if changes.rejects else "an argument of ChangeFormat"
        raise InvalidQuery(
            f"{word} says something of events, and the data has rows",
            expected="data with a column of events",
            found="the columns of rows",
            cure="name the column of the events: column=...; for rows leave it out",
        )
    if changes.deletes is not None or changes.truncates is not None:
        return replace(request, row_kind=Source(ROW_KIND))
    operation = "" if changes.format is None or not changes.format.events.operation else changes.format.events.columns
    if operation and request.row_kind is None:
        return replace(request, row_kind=Source(operation, (("I", "+I"), ("U", "+U"), ("D", "-D"), (None, "+I"))))
    return request
