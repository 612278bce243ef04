"""Compares tables of the lake with those of the database: row by row, and the types of columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal

import pyarrow as pa

from lsmlake import Lake
from lsmlake.errors import TableNotFound
from pipelines.bank import KEYS
from pipelines.databases import Database

_SHOWN = 3


def differences(database: Database, lake: Lake) -> Iterator[str]:
    """What differs, in words."""
    for name in KEYS:
        columns = list(database.types) if name == "types" else database.columns(name)
        yield from of_table(lake, name, columns, database.texts(name, columns))
    yield from other_types(lake, database.types)


def of_table(lake: Lake, name: str, columns: list[str], wanted: list[dict[str, str | None]]) -> Iterator[str]:
    """What differs in one table, in words."""
    try:
        table = lake.table(f"bank.{name}")
    except TableNotFound:
        if wanted:
            yield f"{name}: there is no table"
        return
    types = {field.name: field.type for field in table.schema}
    if missing := [column for column in columns if column not in types and any(row[column] is not None for row in wanted)]:
        yield f"{name}: there are no columns {missing}"
        return
    found = table.scan(columns=[column for column in columns if column in types]).to_arrow().to_pylist()
    yield from _rows(name, KEYS[name], _typed(wanted, types), found)


def other_types(lake: Lake, wanted: Mapping[str, str]) -> Iterator[str]:
    """The columns of the table `types` that have another type than is wanted."""
    types = {field.name: str(field.type) for field in lake.table("bank.types").schema}
    if other := {name: types.get(name) for name in wanted if types.get(name) != wanted[name]}:
        yield f"types: the types are {other}"


def _typed(rows: list[dict], types: dict[str, pa.DataType]) -> list[dict[str, object]]:
    return [
        {name: None if value is None else _reader(types[name])(value) for name, value in row.items() if name in types}
        for row in rows
    ]


def _reader(type_: pa.DataType) -> Callable[[object], object]:
    t = pa.types
    if t.is_integer(type_):
        return int
    if t.is_decimal(type_):
        return Decimal
    if t.is_floating(type_):
        return float
    if t.is_boolean(type_):
        return "true".__eq__
    if t.is_binary(type_):
        return bytes.fromhex
    if t.is_date(type_):
        return dt.date.fromisoformat
    if t.is_time(type_):
        return lambda text: dt.time.fromisoformat(_micros(text))
    if t.is_timestamp(type_):
        return _moment
    return lambda value: value


def _micros(text: str) -> str:
    """A time whose fraction has six digits."""
    whole, point, fraction = text.partition(".")
    return f"{whole}.{fraction:0<6}" if point else whole


def _moment(text: str) -> dt.datetime:
    zoned = text.endswith("+00")
    made = dt.datetime.fromisoformat(_micros(text.removesuffix("+00")))
    return made.replace(tzinfo=dt.timezone.utc) if zoned else made


def _rows(name: str, key: list[str], wanted: list[dict], found: list[dict]) -> Iterator[str]:
    ours, theirs = ({tuple(row[one] for one in key): row for row in rows} for rows in (found, wanted))
    if len(ours) != len(found):
        yield f"{name}: {len(found) - len(ours)} keys are there twice"
    different = [one for one in ours.keys() | theirs.keys() if not _equal(ours.get(one), theirs.get(one))]
    if different:
        shown = [(one, _short(ours.get(one)), _short(theirs.get(one))) for one in sorted(different)[:_SHOWN]]
        yield f"{name}: {len(different)} of {len(theirs)} rows differ; key, lake, database: {shown}"


def _equal(ours: dict | None, theirs: dict | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return all(_same(ours.get(name), theirs.get(name)) for name in ours.keys() | theirs.keys())


def _same(one: object, other: object) -> bool:
    return one == other and type(one) is type(other)


def _short(row: dict | None) -> object:
    return None if row is None else {name: value if len(str(value)) < 60 else str(value)[:60] for name, value in row.items()}
