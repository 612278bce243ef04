"""Conversion of data in memory to an Arrow table: Arrow, pandas and Polars tables, a list of dicts, a dict of columns.

Python values are converted column by column with inferred types, so that `schema.conform` applies the same rules as to any other
data. The type of the table's column is used only if no type can be inferred (mixed numbers, dicts for a MAP).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, repeat
from numbers import Number
from operator import is_
from typing import Any

import pyarrow as pa

from lsmlake.errors import InvalidData, RowPlace, Wording
from lsmlake.kernels import nested
from lsmlake.types import column_types
from lsmlake.types.type_table import is_time

ACCEPTED = (
    "data with the Arrow stream interface (PyArrow, pandas, Polars, DuckDB), a list of dicts, a dict of columns, an iterator of "
    "record batches or of dicts, a pyarrow dataset, or the path or glob of Parquet, CSV or JSON files or Excel workbooks"
)
_REFUSED = pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError
_INDEX = re.compile(r"__index_level_\d+__")


def as_table(data: object, schema: pa.Schema | None = None) -> pa.Table:
    """`data` as a table, without a copy if the source is Arrow.

    Args:
        data: data in memory: Arrow, pandas or Polars tables, a list of dicts, a dict of columns.
        schema: the columns of the table that the data is for, if it exists.

    Raises:
        InvalidData: names the column and row of a Python value that has no Arrow type.
    """
    if isinstance(data, Mapping):
        return _from_columns(data, schema)
    if isinstance(data, (list, tuple)):
        return _from_rows(data, schema)
    if is_pandas(data):
        return _from_pandas(data, schema)
    if isinstance(data, pa.RecordBatch):
        return without_index(pa.Table.from_batches([data]), schema)
    if isinstance(data, pa.Table) or hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        for name, kind in data.schema.items() if _is_of_polars(data) and hasattr(data, "schema") else ():
            _refuse_objects(name, kind)
        refuse_lossy(data)
        try:
            return without_index(pa.table(data), schema)
        except _REFUSED as broken:
            raise InvalidData("the data cannot be read as an Arrow table", found=broken, cure="pass a pyarrow.Table") from broken
    raise unknown(data)


def unknown(data: object) -> InvalidData:
    """The error for an object that is not data."""
    if is_spark(data):
        return InvalidData(
            "a Spark DataFrame needs Spark attached",
            found=type(data).__name__,
            cure=Wording('use lsmlake.connect("...", spark=spark)', command="use a Python program with a Spark session"),
        )
    return InvalidData("not data", expected=ACCEPTED, found=type(data).__name__, cure="convert it to a pyarrow.Table")


def is_spark(data: object) -> bool:
    """Whether `data` belongs to Spark, tested without importing PySpark."""
    return type(data).__module__.startswith("pyspark.")


def is_pandas(data: object) -> bool:
    """Whether `data` is a pandas.DataFrame, tested without importing pandas."""
    return is_pandas_like(data) and hasattr(data, "columns")


def is_pandas_like(data: object) -> bool:
    """Whether `data` is any object of pandas, such as a DataFrame or a Series."""
    return type(data).__module__.partition(".")[0] == "pandas"


def _is_of_polars(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "polars"


def _refuse_objects(name: str, kind: object) -> None:
    """Refuses a column of Polars that holds Python objects: its Arrow form has their addresses in memory as bytes."""
    waiting = [kind]
    while waiting:
        one = waiting.pop()
        if str(one) == "Object":
            raise InvalidData(
                "a column of Python objects has no values to store",
                where=f"column {name!r}",
                found=f"the Polars type {kind}",
                cure="convert the objects to text, or to another type that Polars has",
            )
        fields = getattr(one, "fields", ())
        waiting += [field.dtype for field in fields] + ([one.inner] if hasattr(one, "inner") else [])


_LOSSY = {
    "time with time zone": ("its Arrow form lacks the zone", "cast the column to TIME, or to a TIMESTAMP WITH TIME ZONE"),
    "uhugeint": ("its Arrow form has other numbers from 2^127 on", "cast the column to DECIMAL(38,0)"),
    "union": ("a column has values of one type", "cast the column to one of its types"),
    "bit": ("its Arrow form has the bytes in which DuckDB keeps it", "cast the column to VARCHAR or BLOB"),
}
"""Types of DuckDB whose Arrow form has other values or no column type, why, and the cure."""
_NESTED_IN_DUCKDB = {"list", "array", "struct", "map"}


def refuse_lossy(relation: Any) -> None:
    """Raises InvalidData for a relation of DuckDB with a column of a type in `_LOSSY`; other data is not looked at."""
    if type(relation).__name__ != "DuckDBPyRelation":
        return
    for name, kind in zip(relation.columns, relation.types, strict=True):
        waiting = [kind]
        while waiting:
            one = waiting.pop()
            if one.id in _LOSSY:
                why, cure = _LOSSY[one.id]
                found = f"the DuckDB type {kind}"
                raise InvalidData(f"a type of DuckDB that tables lack: {why}", where=f"column {name!r}", found=found, cure=cure)
            waiting += [part for _, part in one.children if hasattr(part, "id")] if one.id in _NESTED_IN_DUCKDB else []


def without_index(table: pa.Table, schema: pa.Schema | None) -> pa.Table:
    """`table` without the columns that pandas adds for an unnamed index, except columns of `schema`."""
    added = [name for name in table.column_names if _INDEX.fullmatch(name) and b"pandas" in (table.schema.metadata or {})]
    return table.drop_columns([name for name in added if schema is None or name not in schema.names])


def _from_rows(rows: Sequence[object], schema: pa.Schema | None) -> pa.Table:
    """The columns are all keys that occur in any row; a row without a key has a null there."""
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidData(
                "a row is not a dict",
                where=RowPlace("", number),
                expected="a dict",
                found=type(row).__name__,
                cure="make every row a dict of column names and values",
            )
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    if rows and not names:  # Arrow has no rows without columns
        raise InvalidData("a row has no values", where="row 0", found="{}", cure="fill the dicts, or leave out the empty ones")
    _check_names(names)
    arrays = [_built([row.get(name) for row in rows], name, schema) for name in names]
    return pa.Table.from_arrays(arrays, names=names)


def _from_columns(columns: Mapping[object, object], schema: pa.Schema | None) -> pa.Table:
    _check_names(columns)
    arrays = [_column(values, name, schema) for name, values in columns.items()]
    lengths = {name: len(array) for name, array in zip(columns, arrays, strict=True)}
    if len(set(lengths.values())) > 1:
        raise InvalidData("the columns have different lengths", found=lengths, cure="give every column one value per row")
    return pa.table(arrays, names=list(columns))


def _column(values: object, name: str, schema: pa.Schema | None) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if hasattr(values, "__arrow_c_stream__") and not is_pandas_like(values):
        if _is_of_polars(values):
            _refuse_objects(name, values.dtype)
        return pa.chunked_array(values)
    if isinstance(values, (str, bytes, Mapping)) or not (hasattr(values, "__len__") and hasattr(values, "__getitem__")):
        raise InvalidData(
            "the values of a column are not a sequence",
            where=f"column {name!r}",
            expected="a list, an array or a series",
            found=f"the single value {values!r}" if not hasattr(values, "__iter__") or isinstance(values, str) else type(values),
            cure="pass a list of values for each column; pass a single row as a list of one dict",
        )
    return _built(values, name, schema)


def _from_pandas(frame: Any, schema: pa.Schema | None) -> pa.Table:
    """A named index becomes a column. An unnamed index is dropped, unless `schema` has a column for it."""
    labels = list(frame.columns)
    names, series = list(labels), [frame.iloc[:, number] for number in range(len(labels))]
    for number, name in enumerate(frame.index.names):
        name = f"__index_level_{number}__" if name is None else name
        if name not in labels and (not _INDEX.fullmatch(str(name)) or (schema is not None and name in schema.names)):
            names.append(name)
            series.append(frame.index.get_level_values(number))
    _check_names(names)
    arrays = [_built(values, name, schema) for name, values in zip(names, series, strict=True)]
    return pa.Table.from_arrays(arrays, names=names)


def _check_names(names: Iterable[object]) -> None:
    for name in names:
        if not isinstance(name, str):
            raise InvalidData("a column name is not text", found=repr(name), cure="rename the column")


def _built(values: Sequence[object], name: str, schema: pa.Schema | None) -> pa.Array | pa.ChunkedArray:
    """The values of one column, with the type inferred from the values or, if they have different types, the type of the table's
    column."""
    wanted = nested.nullable(schema.field(name).type) if schema is not None and schema.names.count(name) == 1 else None
    nan_is_null = is_pandas_like(values)

    def infer(part: Sequence[object]) -> pa.Array:
        return _checked(pa.array(part, from_pandas=nan_is_null), part)

    def typed(part: Sequence[object]) -> pa.Array:
        return _checked(pa.array(part, _with_given_types(wanted, part), from_pandas=nan_is_null), part)

    try:
        inferred = infer(values)
        if wanted is None or not (column_types.has_map(wanted) and column_types.has_struct(inferred.type)):
            return inferred
    except _REFUSED as mixed:
        if wanted is None or is_time(wanted):  # PyArrow takes other values for days or microseconds
            raise _bad_value(values, name, infer, mixed) from mixed
    try:
        made = typed(values)
    except _REFUSED as refused:
        raise _bad_value(values, name, typed, refused, wanted) from refused
    _check_numbers(values, made, name, wanted)
    return made


# -- dates and times --------------------------------------------------------------------------------------------------


class _BadTime(ValueError):
    """A date or time that PyArrow would change silently."""

    def __init__(self, what: str, expected: str, cure: str) -> None:
        super().__init__(what)
        self.what, self.expected, self.cure = what, expected, cure


_NOTHING = object()
_IN_MICROSECONDS = "us"


def _checked(made: pa.Array, values: Sequence[object]) -> pa.Array:
    """The array that PyArrow has made of `values`. Raises _BadTime if a date or time is another one there."""
    if str(getattr(values, "dtype", "object")) == "object":
        for type_, given in _times(made.type, values):
            _check_times(type_, given)
    return made


def _times(type_: pa.DataType, values: Sequence[object]) -> Iterator[tuple[pa.DataType, Sequence[object]]]:
    """The dates and times in values of a type: each primitive type inside of it, with its values."""
    if not column_types.has_times(type_):
        return
    if not pa.types.is_nested(type_):
        yield type_, values
        return
    containers = [one for one in values if isinstance(one, Iterable) and not isinstance(one, (str, bytes))]
    if pa.types.is_struct(type_):
        rows = [one for one in containers if isinstance(one, Mapping)]
        for field in type_:
            yield from _times(field.type, [row[field.name] for row in rows if field.name in row])
    elif pa.types.is_map(type_):
        keys, items = _entries(containers)
        yield from _times(type_.key_type, keys)
        yield from _times(type_.item_type, items)
    else:
        yield from _times(type_.value_type, list(chain.from_iterable(containers)))


def _check_times(type_: pa.DataType, values: Sequence[object]) -> None:
    kinds = set(map(type, values))
    if any(kind.__name__ == "NaTType" for kind in kinds):  # the null of pandas, a datetime to Python
        values = [value for value in values if type(value).__name__ != "NaTType"]
        kinds = set(map(type, values))
    if pa.types.is_date(type_):
        if any(issubclass(kind, datetime) for kind in kinds):
            cure = "make all of them dates, or all of them datetimes"
            raise _BadTime("a time among dates, whose time of day would be lost", "a datetime.date that is no datetime", cure)
        return
    zones = list(map(getattr, values, repeat("tzinfo"), repeat(_NOTHING)))  # loops in C
    naive, others = sum(map(is_, zones, repeat(None))), sum(map(is_, zones, repeat(_NOTHING)))
    zoned = len(zones) - naive - others
    if zoned and pa.types.is_time(type_):
        cure = "convert it to the zone that the column has, and remove tzinfo"
        raise _BadTime("a time of day with a time zone", "a datetime.time without tzinfo", cure)
    if zoned and naive:
        cure = "give all of them a time zone, or none"
        raise _BadTime("times with and without a time zone in one column", "one of both", cure)
    if getattr(type_, "unit", None) == _IN_MICROSECONDS and any(map(getattr, values, repeat("nanosecond"), repeat(0))):
        cure = "round it to microseconds, as by Timestamp.round('us')"
        raise _BadTime("nanoseconds of a time would be lost", "a time in microseconds", cure)


# -- types ------------------------------------------------------------------------------------------------------------


def _entries(containers: Iterable[object]) -> tuple[list[object], list[object]]:
    """The keys and the items of the maps among some values: dicts, or lists of pairs."""
    pairs = list(chain.from_iterable(one.items() if isinstance(one, Mapping) else one for one in containers))
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise TypeError("a map is a dict, or a list of pairs")
    return [key for key, _ in pairs], [item for _, item in pairs]


def _with_given_types(wanted: pa.DataType, values: Sequence[object]) -> pa.DataType:
    """Returns `wanted` with the fields in its structs that the dicts in `values` have, and with the types of the dates and times
    that are in `values`. PyArrow would make the other fields null, though they may have defaults, drop unknown fields silently,
    and cut off what a given type of dates or times does not hold."""
    if not (column_types.has_struct(wanted) or column_types.has_times(wanted)):
        return wanted
    if not pa.types.is_nested(wanted):
        return _checked(pa.array(values), values).type
    containers = [value for value in values if isinstance(value, (Mapping, list, tuple))]
    if pa.types.is_struct(wanted):
        rows = [row for row in containers if isinstance(row, Mapping)]
        names = list(dict.fromkeys(chain.from_iterable(rows)))
        if not names:
            return wanted
        if nameless := [name for name in names if not isinstance(name, str)]:
            raise TypeError(f"{nameless[0]!r} is not the name of a field")
        by_field = {name: [row[name] for row in rows if name in row] for name in names}
        known = {field.name: field.type for field in wanted}
        made = (_with_given_types(known[name], part) if name in known else pa.array(part).type for name, part in by_field.items())
        return pa.struct(list(zip(names, made, strict=True)))
    if pa.types.is_map(wanted):
        keys, items = _entries(containers)
        return pa.map_(_with_given_types(wanted.key_type, keys), _with_given_types(wanted.item_type, items))
    elements = list(chain.from_iterable(one for one in containers if not isinstance(one, Mapping)))
    return pa.list_(_with_given_types(wanted.value_type, elements))


def _check_numbers(values: Sequence[object], made: pa.Array, name: str, wanted: pa.DataType) -> None:
    """Raises InvalidData for a number that PyArrow has rounded: it truncates fractions when it makes integers of mixed values."""
    pairs = zip(values, made.to_pylist(), strict=True)
    row = next((row for row, (given, stored) in enumerate(pairs) if _is_rounded(given, stored)), None)
    if row is not None:
        value = values.iloc[row] if hasattr(values, "iloc") else values[row]
        raise InvalidData(
            "a number would be rounded",
            where=RowPlace(f"column {name!r}", row),
            expected=column_types.type_name(wanted),
            found=repr(value),
            cure="correct the value, or round it first",
        )


def _is_rounded(given: object, stored: object) -> bool:
    """Whether a number anywhere in a value is stored as another number."""
    if isinstance(given, Number):
        return isinstance(stored, Number) and given != stored and given == given  # NaN is not
    if isinstance(given, Mapping):
        fields = dict(stored) if isinstance(stored, list) else stored or {}
        return any(_is_rounded(value, fields.get(key)) for key, value in given.items() if key in fields)
    if isinstance(given, (list, tuple)) and isinstance(stored, list):
        return any(map(_is_rounded, given, stored))
    return False


def _bad_value(
    values: Sequence[object],
    name: str,
    make: Callable[[Sequence[object]], object],
    refused: Exception,
    wanted: pa.DataType | None = None,
) -> InvalidData:
    """The error for the first value that `make` refuses in one array with the values before it. Found by bisection."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            make(values[:middle])
            low = middle
        except _REFUSED as error:
            high, refused = middle, error
    value = values.iloc[low] if hasattr(values, "iloc") else values[low]
    if isinstance(refused, _BadTime):
        place = RowPlace(f"column {name!r}", low)
        return InvalidData(refused.what, where=place, expected=refused.expected, found=repr(value), cure=refused.cure)
    return InvalidData(
        "a value does not fit",
        where=RowPlace(f"column {name!r}", low),
        expected=column_types.type_name(wanted) if wanted is not None else "values of one type",
        found=f"{value!r}: {refused}",
        cure="correct the value",
    )
