"""CALL: maintenance verbs as procedures. A procedure is a method in `VERBS`, with the method's name and arguments.

`CALL compact(table => 'sales.orders', full => true)`, or by position, the table first, then the method's arguments:
`CALL compact('sales.orders', true)`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.maintain.repair import RepairReport
from lsmlake.sql.token_reader import Words


def call(lake: Lake, words: Words) -> Callable[[], pa.Table]:
    """CALL [sys.]procedure(arguments)"""
    words.take("SYS", ".")
    name = words.one("a procedure").lower()
    if name not in VERBS:
        words.refuse(f"there is no procedure {name}", expected=f"one of {', '.join(sorted(VERBS))}")
    positional, named = _arguments(words)
    names_more = name != "publish_iceberg" or len(positional) + len(named) > 1
    if lake.session.served and name in _WITH_ADDRESSES and names_more:
        cure = "run it in a process that opens the warehouse itself"
        words.refuse("a server reads and writes nothing but its warehouse", cure=cure)
    if VERBS[name].owner is Lake:
        method = getattr(lake, name)
        arguments = _bound(name, method, [], positional, named, words)
        arguments |= {one: _full_name(lake, arguments[one], words) for one in VERBS[name].tables}
        return lambda: rows_of(method(**arguments))
    if "table" in named:
        positional.insert(0, named.pop("table"))
    if not positional:
        words.refuse("the table is missing", cure=f"write CALL {name}(table => 'database.table')")
    method = getattr(lake.table(_full_name(lake, positional[0], words)), name)
    arguments = _bound(name, method, ["table"], positional[1:], named, words)
    return lambda: rows_of(method(**arguments))


def _full_name(lake: Lake, given: object, words: Words) -> str:
    """The name of a table, with its database."""
    if not isinstance(given, str):
        words.refuse(f"{'NULL' if given is None else given} is no name of a table", expected="'database.table'")
    return lake.session.full_name(given)


def _bound(
    name: str,
    method: Callable[..., object],
    before: list[str],
    given: list[object],
    named: dict[str, object],
    words: Words,
) -> dict[str, object]:
    """The arguments of a method by name. `before`: those that precede the method's own, for error messages."""
    parameters = inspect.signature(method).parameters
    known = list(parameters)
    expected = ", ".join([*before, *known])
    for one in named:
        if one not in known:
            words.refuse(f"{name} has no argument {one}", expected=expected)
    if len(given) > len(known):
        words.refuse(f"too many arguments of {name}", expected=expected)
    if missing := [one for one in known[len(given) :] if parameters[one].default is inspect.Parameter.empty and one not in named]:
        words.refuse(f"{name} lacks the argument {missing[0]}", expected=expected)
    if repeated := {*known[: len(given)]} & {*named}:
        words.refuse(f"arguments of {name} are given twice: {', '.join(sorted(repeated))}", cure="give each by name or by place")
    return {**dict(zip(known, given, strict=False)), **named}


def _arguments(words: Words) -> tuple[list[object], dict[str, object]]:
    positional: list[object] = []
    named: dict[str, object] = {}

    def argument() -> None:
        place = words.place
        name = "" if words.is_text() else words.one("an argument").lower()
        if name and (words.take("=>") or words.take("=", ">")):
            if name in named:
                words.place = place
                words.refuse(f"the argument {name} is given twice", cure="give it once")
            named[name] = _value(words)
            return
        words.place = place
        if named:
            words.refuse("an argument by place stands behind one by name", cure="write name => value")
        positional.append(_value(words))

    _listed(words, argument)
    return positional, named


def _listed(words: Words, read: Callable[[], object]) -> list[object]:
    """Takes `(item, ...)`, which may be empty."""
    if words.take("(", ")"):
        return []
    return words.listed(read)


def _value(words: Words) -> object:
    if words.is_text():
        return words.one("a value")
    if words.take("ARRAY"):
        return _listed(words, partial(_value, words))
    if words.take("MAP"):
        return _map(words)
    return _literal(words)


def _map(words: Words) -> dict[str, object]:
    values = _listed(words, partial(_value, words))
    names = values[::2]
    if len(values) % 2 or not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        words.refuse("not a map", expected="map('name', value, ...), each name once")
    return dict(zip(names, values[1::2], strict=True))


def _literal(words: Words) -> object:
    place, word = words.place, words.one("a value")
    constants = {"TRUE": True, "FALSE": False, "NULL": None}
    if word.upper() in constants:
        return constants[word.upper()]
    sign = -1 if word == "-" else 1
    digits = words.one("a number") if word == "-" else word
    if digits.isdecimal():
        return sign * int(digits)
    words.place = place
    words.refuse("not a value of a procedure", expected="an integer, 'text', TRUE, FALSE, NULL, array(...) or map(...)")


def rows_of(report: object) -> pa.Table:
    """The result of a verb as rows: one row for a report, one per item of a list, the name of a table. A repair gives
    the rows that it found."""
    if isinstance(report, RepairReport):
        return report.rows
    if isinstance(report, pa.Table):
        return report
    if isinstance(report, Table):
        return pa.table({"name": [report.name]})
    if isinstance(report, str):  # of `publish_iceberg`
        return pa.table({"metadata_file": [report]})
    items = report if isinstance(report, list) else [] if report is None else [report]
    rows = [dict(_fields(item)) for item in items]
    names = list(dict.fromkeys(name for row in rows for name in row)) or ["result"]
    columns = [[row.get(name) for row in rows] for name in names]
    return pa.table([pa.array(column, _kind(column)) for column in columns], names=names)


def _fields(item: object) -> Iterator[tuple[str, object]]:
    if dataclasses.is_dataclass(item):
        pairs = [(field.name, getattr(item, field.name)) for field in dataclasses.fields(item)]
    elif isinstance(item, tuple) and hasattr(item, "_asdict"):
        pairs = list(item._asdict().items())
    else:
        pairs = [(type(item).__name__.lower(), item)]
    for name, value in pairs:
        if hasattr(value, "id") and dataclasses.is_dataclass(value):
            yield f"{name}_id", value.id
        elif isinstance(value, (str, bool, int, float, type(None), dt.datetime)):
            yield name, value
        elif isinstance(value, (list, tuple, set, frozenset)):
            yield name, ", ".join(map(str, value)) if all(isinstance(one, (str, int)) for one in value) else len(value)
        else:
            yield name, str(value)


def _kind(column: list[object]) -> pa.DataType | None:
    kinds = {type(value) for value in column if value is not None}
    return pa.string() if not kinds or len(kinds) > 1 else None


class Verb(NamedTuple):
    """A verb. `owner`: the class with the method. `command`: the command of the command line, with the flag for this verb.
    `tables`: the arguments of a method of a lake that name tables."""

    owner: type[Table] | type[Lake]
    command: str
    tables: tuple[str, ...] = ()


VERBS: Mapping[str, Verb] = {
    "analyze": Verb(Table, "analyze"),
    "compact": Verb(Table, "compact"),
    "copy": Verb(Table, "copy"),
    "create_branch": Verb(Table, "branch --create"),
    "create_tag": Verb(Table, "tag --create"),
    "delete_branch": Verb(Table, "branch --delete"),
    "delete_tag": Verb(Table, "tag --delete"),
    "expire_partitions": Verb(Table, "expire --partitions"),
    "expire_snapshots": Verb(Table, "expire"),
    "expire_tags": Verb(Table, "tag --expire"),
    "fast_forward": Verb(Table, "branch --fast-forward"),
    "publish_iceberg": Verb(Table, "iceberg"),
    "remove_orphan_files": Verb(Table, "orphans"),
    "rename_branch": Verb(Table, "branch --rename"),
    "rename_tag": Verb(Table, "tag --rename"),
    "repair": Verb(Table, "repair"),
    "repair_iceberg": Verb(Table, "repair --iceberg"),
    "repair_snapshots": Verb(Table, "repair --snapshots"),
    "rescale": Verb(Table, "rescale"),
    "reset_consumer": Verb(Table, "consumers --remove"),
    "rollback": Verb(Table, "rollback"),
    "verify": Verb(Table, "verify"),
    "history_of": Verb(Lake, "history", ("source", "name")),
    "import_delta": Verb(Lake, "adopt", ("name",)),
    "import_iceberg": Verb(Lake, "adopt", ("name",)),
    "import_parquet": Verb(Lake, "adopt", ("name",)),
    "refresh": Verb(Lake, "refresh", ("name",)),
}
_WITH_ADDRESSES = {"copy", "publish_iceberg", "import_delta", "import_iceberg", "import_parquet"}
"""The procedures that take the address of another warehouse, of files or of a catalog."""
