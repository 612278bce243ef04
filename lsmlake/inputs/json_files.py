"""Reads JSON files, lines or an array of objects, without losing digits of numbers or zones of times.

PyArrow infers BIGINT for a column, or DOUBLE if a number has a fraction or exceeds 64 bits; a double rounds. So:

1. read the file with PyArrow's inference, but STRING columns as text;
2. read columns again as decimals if they were inferred as doubles, at any depth, but the table has an integer or decimal type;
   read times again as text, since PyArrow makes instants of UTC of texts with and without a zone, and of dates
   (`schema.lossless` reads them as it reads those of CSV files);
3. compare both results: PyArrow's decimals are wrong for some large exponents, its doubles are not;
4. in DOUBLE and FLOAT columns, refuse an integer that a double would round: it may be an id. Refuse a number that is too small
   for a double, which makes it zero; PyArrow refuses one that is too great.

`inputs.json_text` finds the objects; `schema.lossless` converts to the types of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidData, Wording
from lsmlake.inputs.json_text import JsonFile
from lsmlake.types.type_table import is_text

Is = Callable[[pa.DataType], bool]

_DIGITS = 38
_EXACT = pa.decimal256(2 * _DIGITS, _DIGITS)
"""Holds every value of every DECIMAL type."""
_WHOLE = pa.decimal128(_DIGITS, 0)
_DOUBLE_EXACT_MAX = 2.0**53
"""A double holds every integer up to this one."""
_INT64_MAX = 2**63 - 1
_DATE, _TIME = r"^\s*\d{4}-\d{2}-\d{2}", r"[ T]\d{2}(:\d{2}){0,2}(\.\d+)?"
_TIMES = (
    (rf"{_DATE}\s*$", pa.date32()),
    (rf"{_DATE}{_TIME}(Z|[+-]\d{{2}}(:?\d{{2}})?)\s*$", pa.timestamp("us", "UTC")),
    (rf"{_DATE}({_TIME})?\s*$", pa.timestamp("us")),
)
"""The texts of a column -> its type; the first pattern that all of them match decides."""
_RELATIVE_ERROR = 1e-9
"""Much greater than the rounding error of a double, much less than a shift by one digit."""


def read(file: JsonFile, schema: pa.Schema | None) -> pa.Table:
    """Reads all rows of a file. `schema`: the columns of the target table, if it exists. Raises InvalidData."""
    with _errors(file):
        return _exact(file, schema)


def inferred(file: JsonFile) -> pa.Schema:
    """The columns of a file with inferred types. Raises InvalidData.

    Integers that PyArrow infers as doubles, because some exceed 64 bits or end in ".0", are BIGINT or DECIMAL(38,0). Times are
    DATE, TIMESTAMP if all have a zone, TIMESTAMP_NTZ if none has; STRING if they differ in that.
    """
    with _errors(file):
        return _inferred(file)


@contextmanager
def _errors(file: JsonFile) -> Iterator[None]:
    try:
        yield
    except pa.ArrowException as refused:
        raise file.error(str(refused)) from refused


def _exact(file: JsonFile, schema: pa.Schema | None) -> pa.Table:
    wanted = {field.name: field.type for field in schema or ()}
    texts = {name: type_ for name, type_ in wanted.items() if is_text(type_)}
    rows = _without_absent(file.rows(texts), texts, file)
    _check_small(rows, file)
    _check_maps(rows, wanted, file.path)
    _check_integers(rows, wanted, file)
    again = _exact_types(rows, wanted, _is_integer_or_decimal)
    if not again:
        return rows
    try:
        exact = file.rows(texts | again).select(rows.column_names)
    except pa.ArrowInvalid as refused:
        raise _does_not_fit(file.path, list(again), str(refused)) from refused
    for name in again:
        _check_exponents(rows[name], exact[name], file.path, name)
    return exact


def _without_absent(rows: pa.Table, texts: dict[str, pa.DataType], file: JsonFile) -> pa.Table:
    """The rows without the columns of `texts` that no row of the file has: PyArrow adds each column with an explicit type."""
    empty = [name for name in texts if rows.num_rows and rows[name].null_count == rows.num_rows]
    if not empty:
        return rows
    present = file.rows({name: type_ for name, type_ in texts.items() if name not in empty}).column_names
    return rows.drop_columns([name for name in empty if name not in present])


def _check_maps(rows: pa.Table, wanted: dict[str, pa.DataType], path: str) -> None:
    """Raises InvalidData for an object in a MAP column: PyArrow reads it as a struct, in which a key without a value is null."""
    for field in rows.schema:
        if field.name in wanted and pa.types.is_map(wanted[field.name]) and not pa.types.is_null(field.type):
            raise InvalidData(
                "a MAP cannot be read from a JSON file",
                where=f"{path}, column {field.name!r}",
                expected="a dict in a list of dicts",
                found=field.type,
                cure=Wording(
                    "json.load the file, and pass the list of dicts: the dict of a row becomes the MAP",
                    command="load the file in a program: json.load the file, and pass the list of dicts to upsert",
                ),
            )


def _check_small(rows: pa.Table, file: JsonFile) -> None:
    """Raises InvalidData for a number that a double makes zero."""
    leaves = [leaf for column in rows.columns for leaf in _leaves(column) if pa.types.is_float64(leaf.type)]
    if any(pc.any(pc.equal(leaf, 0)).as_py() for leaf in leaves):
        file.check_small()


def _inferred(file: JsonFile) -> pa.Schema:
    rows = file.rows({})
    _check_small(rows, file)
    fields = []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        leaves = _leaves(column)
        if any(_may_be_rounded(leaf) for leaf in leaves):
            field = field.with_type(_type_of_integers(file, field, leaves))
        if any(pa.types.is_timestamp(leaf.type) for leaf in leaves):
            field = field.with_type(_type_of_times(file, field))
        fields.append(field)
    return pa.schema(fields)


def _is_integer_or_decimal(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_decimal(type_)


def _exact_types(rows: pa.Table, wanted: dict[str, pa.DataType], exactly: Is) -> dict[str, pa.DataType]:
    """The columns to read again, each with its type to read, so that values for types that satisfy `exactly` are not rounded."""
    common = [(field, wanted[field.name]) for field in rows.schema if field.name in wanted]
    types_ = {field.name: _exact_type(field.type, type_, exactly) for field, type_ in common}
    return {field.name: types_[field.name] for field, _ in common if types_[field.name] != field.type}


def _exact_type(type_: pa.DataType, wanted: pa.DataType, exactly: Is) -> pa.DataType:
    t = pa.types
    if t.is_struct(type_) and t.is_struct(wanted):
        names = {field.name: field.type for field in wanted}
        return pa.struct(
            [
                field.with_type(_exact_type(field.type, names[field.name], exactly) if field.name in names else field.type)
                for field in type_
            ]
        )
    if t.is_list(type_) and (t.is_list(wanted) or t.is_large_list(wanted)):
        return pa.list_(type_.value_field.with_type(_exact_type(type_.value_type, wanted.value_type, exactly)))
    if t.is_timestamp(type_) and (is_text(wanted) or t.is_temporal(wanted)):
        return pa.string()
    return _EXACT if t.is_float64(type_) and exactly(wanted) else type_


def _leaves(column: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    """The arrays of primitive values inside a column, in the order of its type, without values inside nulls."""
    return [pa.chunked_array(parts) for parts in zip(*map(_leaves_of_chunk, column.chunks), strict=True)]


def _leaves_of_chunk(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return [leaf for field in array.flatten() for leaf in _leaves_of_chunk(field)]
    return _leaves_of_chunk(array.flatten()) if pa.types.is_list(array.type) else [array]


def _with_leaf_types(type_: pa.DataType, made: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """`type_` with `made` applied to every primitive type in it, in the order of `_leaves`."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_with_leaf_types(field.type, made)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_with_leaf_types(type_.value_type, made)))
    return made(type_)


def _check_exponents(doubles: pa.ChunkedArray, exact: pa.ChunkedArray, path: str, name: str) -> None:
    """Raises InvalidData for a decimal of `exact` that differs from its double in `doubles`."""
    for double, decimal in zip(_leaves(doubles), _leaves(exact), strict=True):
        if decimal.type != _EXACT:
            continue
        off = pc.abs(pc.subtract(decimal.cast(pa.float64()), double))
        near = pc.less_equal(off, pc.multiply(pc.abs(double), _RELATIVE_ERROR))
        if pc.all(near).as_py() is False:
            row = pc.index(near, pa.scalar(False)).as_py()
            raise _does_not_fit(path, [name], repr(double[row].as_py()))


def _check_integers(rows: pa.Table, wanted: dict[str, pa.DataType], file: JsonFile) -> None:
    """Raises InvalidData for an integer beyond 2**53 in a DOUBLE or FLOAT column that would be rounded. Skips columns with
    numbers outside the decimal range: those are measurements, not ids."""
    for name, exact_type in _exact_types(rows, wanted, pa.types.is_floating).items():
        if not any(map(_may_be_rounded, _leaves(rows[name]))):
            continue
        try:
            exact = file.rows({name: exact_type})[name]
        except pa.ArrowInvalid:
            continue
        for double, decimal in zip(_leaves(rows[name]), _leaves(exact), strict=True):
            lost = _rounded_integers(double, decimal) if decimal.type == _EXACT and _may_be_rounded(double) else ()
            if len(lost):
                raise InvalidData(
                    "an integer would be rounded",
                    where=f"{file.path}, column {name!r}",
                    expected="integers that a DOUBLE holds",
                    found=lost[0].as_py(),
                    cure="correct the value, or use a BIGINT or DECIMAL(38,0) column",
                )


def _rounded_integers(doubles: pa.ChunkedArray, decimals: pa.ChunkedArray) -> pa.ChunkedArray:
    """The integers of `decimals` beyond 2**53 that differ from the printed form of their doubles."""
    integers = pc.and_(pc.greater_equal(pc.abs(doubles), _DOUBLE_EXACT_MAX), pc.equal(pc.floor(decimals), decimals))
    printed = doubles.filter(integers).cast(pa.string()).cast(_EXACT)
    exact = decimals.filter(integers)
    return exact.filter(pc.not_equal(exact, printed)).cast(_WHOLE)


def _does_not_fit(path: str, columns: list[str], found: str) -> InvalidData:
    return InvalidData(
        "a number does not fit an integer or decimal column",
        where=f"{path}, " + " or ".join(f"column {name!r}" for name in columns),
        expected=f"at most {_DIGITS} digits before the point and {_DIGITS} after it",
        found=found,
        cure="correct the value",
    )


def _may_be_rounded(leaf: pa.ChunkedArray) -> bool:
    """Whether doubles are so large that one can represent several integers, yet small enough for an integer or decimal type."""
    return pa.types.is_float64(leaf.type) and _DOUBLE_EXACT_MAX <= (pc.max(pc.abs(leaf)).as_py() or 0.0) < 10.0**_DIGITS


def _type_of_integers(file: JsonFile, field: pa.Field, leaves: list[pa.ChunkedArray]) -> pa.DataType:
    """The type of a column, with doubles that may be rounded integers replaced by a type that holds the integers."""
    every_exact = _with_leaf_types(field.type, lambda type_: _EXACT if pa.types.is_float64(type_) else type_)
    try:
        exact = _leaves(file.rows({field.name: every_exact})[field.name])
    except pa.ArrowInvalid:  # a number too large for any integer or decimal column
        return field.type
    pairs: Iterator[tuple[pa.ChunkedArray, pa.ChunkedArray]] = iter(zip(leaves, exact, strict=True))

    def decided(type_: pa.DataType) -> pa.DataType:
        leaf, decimal = next(pairs)
        return _integer_type(decimal) or type_ if _may_be_rounded(leaf) else type_

    return _with_leaf_types(field.type, decided)


def _type_of_times(file: JsonFile, field: pa.Field) -> pa.DataType:
    """The type of a column in which PyArrow has found times, by their texts."""
    as_text = _with_leaf_types(field.type, lambda type_: pa.string() if pa.types.is_timestamp(type_) else type_)
    texts = iter(_leaves(file.rows({field.name: as_text})[field.name]))

    def decided(type_: pa.DataType) -> pa.DataType:
        leaf = next(texts)
        return _time_type(leaf) if pa.types.is_timestamp(type_) else type_

    return _with_leaf_types(field.type, decided)


def _time_type(texts: pa.ChunkedArray) -> pa.DataType:
    for pattern, type_ in _TIMES:
        if pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False:
            return type_
    return pa.string()


def _integer_type(decimals: pa.ChunkedArray) -> pa.DataType | None:
    """The column type for decimals that are all integers; None if one is not."""
    try:
        span = pc.min_max(decimals.cast(_WHOLE))
    except pa.ArrowInvalid:
        return None
    return pa.int64() if span["min"].as_py() >= -_INT64_MAX and span["max"].as_py() <= _INT64_MAX else _WHOLE
