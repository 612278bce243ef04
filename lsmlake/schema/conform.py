"""Converts a batch to the columns of a table without loss, or refuses it before anything is written.

Columns are matched by name and returned in the table's order. `schema.lossless` converts the values. Without `Cast` only these
pairs of types are accepted, and only values that fit exactly: an integer to an integer, float or decimal; a float to a float; a
decimal to a decimal; dates to dates and, at midnight, to timestamps without a zone; timestamps to timestamps, both with or both
without a zone; text to text and bytes to bytes; all of these in large, view and dictionary layouts, and inside nested columns.
Every other conversion, such as text to a number, needs `Cast`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidData, RowPlace, Wording, few
from lsmlake.kernels import nested
from lsmlake.kernels.fitting import TooLong, fitted
from lsmlake.kernels.keys import filled
from lsmlake.schema import lossless, omitted
from lsmlake.schema.schema import Schema
from lsmlake.schema.years import check_years
from lsmlake.types.column_types import has_sized_text, has_times
from lsmlake.types.type_text import format_type_of

_CAST_CURE = Wording(
    "pass cast=True, which converts every value that loses nothing, or convert the column before writing",
    command="convert the column first",
    sql="convert the column first, by CAST",
)
_ROUNDED_CURE = Wording(
    "round the column, use a DOUBLE column, or pass cast=True for the FLOAT that prints the same",
    command="round the column, or use a DOUBLE column",
    sql="round the column, use a DOUBLE column, or convert the column first, by CAST",
)
_TEXT_MAX = 200  # characters of a value in an error


class Cast(NamedTuple):
    """Allows all conversions of `schema.lossless`. `zone`: the time zone of times without a zone."""

    zone: str


def conform(
    data: pa.Table,
    schema: Schema,
    columns: Sequence[str] | None = None,
    *,
    cast: Cast | None = None,
    optional: Collection[str] = (),
    first_row: int | None = 0,
) -> pa.Table:
    """Converts `data` to exactly `columns` in canonical types. Does not copy columns that have the right type.

    The key and partition columns of the result have no NaN, and 0.0 instead of -0.0; the key columns have no nulls. Texts have
    the form of their VARCHAR(n) or CHAR(n).

    Args:
        data: The rows of the user.
        schema: The schema of the table.
        columns: The columns of the result. Default: all columns of the schema.
        cast: Allows further conversions.
        optional: Columns that the data lacks and may lack; they have their default or, under a rule that combines rows, are null.
        first_row: The number that messages give the first row of `data`. None: messages name no row.

    Raises:
        InvalidData: A column is missing or unknown, or a type or value does not fit.
    """
    wanted = [schema.columns.field(name) for name in (columns or schema.columns.names)]
    needed = [field.name for field in wanted if field.name not in optional]
    check_names(data.schema.names, needed, schema)
    place, missing = _Place(first_row), omitted.as_null if schema.combines_rows else omitted.with_default
    arrays = [
        _convert(_completed(data[field.name], field, missing), schema.typed_columns.field(field.name), cast, place)
        if field.name in needed
        else missing(field, data.num_rows).cast(schema.plain_columns.field(field.name).type)
        for field in wanted
    ]
    columns_of = pa.schema([schema.plain_columns.field(field.name) for field in wanted])
    return clean_keys(pa.table(arrays, schema=columns_of), schema)


def _completed(column: pa.ChunkedArray, field: pa.Field, missing: omitted.Omitted) -> pa.ChunkedArray:
    if not pa.types.is_nested(field.type):
        return column
    chunks = [omitted.completed(chunk, field.type, missing) for chunk in column.chunks]
    return pa.chunked_array(chunks, chunks[0].type if chunks else column.type)


class _Place(NamedTuple):
    first_row: int | None

    def of(self, field: pa.Field, row: int) -> str:
        column = f"column {field.name!r}"
        return column if self.first_row is None else RowPlace(column, self.first_row + row)


def check_names(names: Sequence[str], wanted: Sequence[str], schema: Schema) -> None:
    """Raises InvalidData unless the `names` of the data are exactly the names `wanted`, in any order."""
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        raise InvalidData("the data has a column twice", found=twice, cure="rename or drop one")
    missing = [name for name in wanted if name not in names]
    extra = [name for name in names if name not in wanted]
    if missing or extra:
        if respelled := _respelled(missing, extra):
            raise InvalidData(
                "the data has columns whose names differ from those of the table in case or blanks",
                expected=list(wanted),
                found=list(names),
                cure="rename " + ", ".join(f"{name!r} to {wanted!r}" for name, wanted in respelled.items()),
            )
        faults = [missing and f"lacks the columns {few(missing)}", extra and f"has extra columns {few(extra)}"]
        cures = [missing and _cure_of_missing(wanted, schema), extra and "drop the extra ones"]
        what, cure = (" and ".join(filter(None, parts)) for parts in (faults, cures))
        raise InvalidData(f"the data {what}", expected=list(wanted), found=list(names), cure=cure)


def _respelled(missing: Sequence[str], extra: Sequence[str]) -> dict[str, str]:
    """Maps each name of `extra` to the name of `missing` from which it differs only in case or in blanks around it."""
    known = {name.strip().casefold(): name for name in missing}
    return {name: known[name.strip().casefold()] for name in extra if name.strip().casefold() in known}


def _cure_of_missing(wanted: Sequence[str], schema: Schema) -> str:
    cure = "add the missing ones (null where nothing is known)"
    ordering = {*schema.primary_key, *schema.parsed_options.merge.sequence_field}
    if schema.append_only or schema.combines_rows or set(wanted) <= ordering:
        return cure
    return f"{cure}, or change only some columns of rows: by MERGE, or in a table with 'merge-engine' = 'partial-update'"


def check_types(data: pa.Schema, schema: Schema, columns: Sequence[str], cast: Cast | None) -> None:
    """Does the checks of `conform` that need no rows. Raises InvalidData."""
    check_names(data.names, columns, schema)
    for name in columns:
        _check_type(data.field(name).type, schema.columns.field(name), cast)


def _check_type(given: pa.DataType, field: pa.Field, cast: Cast | None) -> None:
    if _fits(given, field.type):
        return
    castable = _castable(given, field.type)
    if castable and cast is not None:
        return
    raise InvalidData(
        "type does not fit",
        where=f"column {field.name!r}",
        expected=format_type_of(field),
        found=given,
        cure=_CAST_CURE if castable else "convert the column before writing",
    )


def _castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    try:
        lossless.convert(pa.array([], given), wanted, "UTC")
        return True
    except (lossless.Unfit, pa.ArrowNotImplementedError):
        return False


def _fits(given: pa.DataType, wanted: pa.DataType, inside: bool = False) -> bool:
    t = pa.types
    if given == wanted or t.is_null(given):
        return True
    if t.is_dictionary(given):
        return _fits(given.value_type, wanted, inside)
    if t.is_struct(wanted):
        return t.is_struct(given) and _has_fields(given, wanted)
    if t.is_map(wanted):
        return t.is_map(given) and _fits(given.key_type, wanted.key_type, True) and _fits(given.item_type, wanted.item_type, True)
    if t.is_list(wanted):
        lists = t.is_list(given) or t.is_large_list(given) or t.is_fixed_size_list(given)
        return lists and _fits(given.value_type, wanted.value_type, True)
    narrower = t.is_floating(wanted) and t.is_floating(given) and given.bit_width > wanted.bit_width
    return lossless.is_free(given, wanted) and not (inside and narrower)


def _has_fields(given: pa.StructType, wanted: pa.StructType) -> bool:
    """Whether the struct `given` has each field of `wanted` once and no other; it may lack fields that may be omitted."""
    names = [field.name for field in given]
    known = {field.name: field for field in wanted}
    if len(set(names)) != len(names) or not set(names) <= known.keys():
        return False
    return all(
        _fits(given.field(name).type, field.type, True) if name in names else omitted.may_be_omitted(field)
        for name, field in known.items()
    )


def _convert(column: pa.ChunkedArray, field: pa.Field, cast: Cast | None, place: _Place) -> pa.ChunkedArray:
    where = f"column {field.name!r}"
    _check_type(column.type, field, cast)
    column = filled(column)
    if not field.nullable and column.null_count:
        raise InvalidData(
            "a null in a NOT NULL column",
            where=place.of(field, pc.index(column.is_null(), pa.scalar(True)).as_py()),
            found=f"{column.null_count} nulls",
            cure="fill or drop those rows",
        )
    converted_column = _all_chunks(column, field, cast, place)
    if has_times(field.type):
        check_years(converted_column, where)
    required = pa.types.is_nested(field.type) and nested.has_required(field.type)
    return nested.required(converted_column, field.type, where) if required else converted_column


def converted(column: pa.ChunkedArray, field: pa.Field, cast: Cast, first_row: int | None = None) -> pa.ChunkedArray:
    """Converts `column` to the type of `field`, inner fields nullable, with the lengths of its texts. Raises InvalidData naming
    the first value that does not fit. `first_row`: see `conform`."""
    _check_type(column.type, field, cast)
    return _all_chunks(column, field, cast, _Place(first_row))


def _all_chunks(column: pa.ChunkedArray, field: pa.Field, cast: Cast | None, place: _Place) -> pa.ChunkedArray:
    wanted = nested.nullable(field.type) if pa.types.is_nested(field.type) else field.type
    make = partial(_strict, wanted=wanted) if cast is None else partial(lossless.convert, wanted=wanted, zone=cast.zone)
    sized = has_sized_text(field)

    def checked(chunk: pa.Array) -> pa.Array:
        chunk.validate(full=True)
        made = chunk if chunk.type == wanted else make(chunk)
        return fitted(made, field) if sized else made

    made, start = [], 0
    for chunk in column.chunks:
        try:
            made.append(checked(chunk))
        except pa.ArrowException as refused:
            row = lossless.first_bad(chunk, checked)
            raise InvalidData(
                "a value does not fit",
                where=place.of(field, start + row),
                expected=format_type_of(field),
                found=f"{shown(chunk, row)} ({column.type}): {refused}",
                cure=_CURES.get(type(refused), "correct the value"),
            ) from refused
        start += len(chunk)
    return pa.chunked_array(made, wanted)


def shown(array: pa.Array | pa.ChunkedArray, row: int) -> str:
    """Returns the value of a row as text for messages, cut if it is long. Never raises."""
    try:
        text = repr(array[row].as_py()) if not pa.types.is_timestamp(array.type) else str(array[row].cast(pa.string()))
    except (pa.ArrowException, ValueError, OverflowError):  # such as text that is not UTF-8, or a date after the year 9999
        text = "a value that Python cannot show"
    return text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + "..."


class _Rounded(pa.ArrowInvalid):
    """A DOUBLE has no exactly equal FLOAT."""


_CURES = {
    _Rounded: _ROUNDED_CURE,
    TooLong: Wording(
        "shorten the value, or give the column a longer VARCHAR(n) or STRING: alter(change_type(...))",
        command="shorten the value, or give the column a longer VARCHAR(n) or STRING: lsmlake alter --type",
        sql="shorten the value, or write ALTER TABLE ... ALTER COLUMN ... TYPE with a longer VARCHAR(n) or STRING",
    ),
}


def _strict(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """As `lossless.convert`, but a DOUBLE must be exactly equal to a FLOAT: the rule of the shortest text needs `Cast`."""
    if pa.types.is_dictionary(array.type):
        array = lossless.decoded(array)
    if pa.types.is_floating(array.type) and pa.types.is_floating(wanted) and wanted.bit_width < array.type.bit_width:
        back = array.cast(wanted).cast(array.type)
        if pc.all(pc.or_(pc.equal(back, array), pc.is_nan(array))).as_py() is False:
            raise _Rounded("the value would be rounded")
    return lossless.convert(array, wanted, "UTC")  # no conversion that is allowed here needs a zone


def clean_keys(table: pa.Table, schema: Schema) -> pa.Table:
    """Replaces -0.0 by 0.0 in key and partition columns. Raises InvalidData if such a column has a NaN."""
    for name in dict.fromkeys((*schema.primary_key, *schema.identity_columns)):
        column = table[name] if name in table.column_names else None
        if column is None or not pa.types.is_floating(column.type):
            continue
        if pc.any(pc.is_nan(column)).as_py():
            roles = ("key", "row") if name in schema.primary_key else ("partition", "partition")
            raise InvalidData(
                f"NaN in a {roles[0]} column",
                where=f"column {name!r}",
                expected=f"a number: NaN cannot identify a {roles[1]}",
                found="NaN",
                cure="drop these rows or replace NaN by a number",
            )
        zero = pa.scalar(0.0, column.type)
        table = table.set_column(
            table.schema.get_field_index(name), table.schema.field(name), pc.if_else(pc.equal(column, zero), zero, column)
        )
    return table
