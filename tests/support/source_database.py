"""A database at the source, and its change events in several formats: the naive model of `Lake.sync`. It shares no code with it.

A `SourceDatabase` holds rows in dictionaries. Each change returns its event as a value, which a writer of a format turns to text.
A row keeps the value of a dropped column until it is written again, as the table in the lake does.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

Row = dict[str, object]
WIDER = {"int": "bigint", "decimal(8,2)": "decimal(12,4)", "smallint": "int", "float": "double"}
"""MySQL's names of types, and what the model alters them to."""


@dataclass
class SourceTable:
    """A table. `columns`: name -> MySQL's type; the first one is the key. `held`: rows as the lake must have them."""

    database: str
    name: str
    columns: dict[str, str]
    rows: dict[object, Row] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)

    @property
    def key(self) -> str:
        return next(iter(self.columns))

    def seen(self, row: Row) -> Row:
        """The part of a row that the source has."""
        return {name: row.get(name) for name in self.columns}


@dataclass(frozen=True)
class Change:
    """A change of a row, or a truncation: `op` is c, u, d or t."""

    table: SourceTable
    columns: Mapping[str, str]
    op: str
    after: Row | None
    before: Row | None
    place: int


@dataclass
class SourceDatabase:
    """Tables that change at random."""

    chance: random.Random
    tables: list[SourceTable]
    truncates: bool = True
    alters: bool = True
    place: int = 0

    def step(self) -> Change | None:
        """Changes something; None for a change of columns."""
        table = self.chance.choice(self.tables)
        what = self.chance.random()
        if what < 0.04:
            return self._alter(table) if self.alters else None
        if what < 0.06 and self.truncates:
            table.rows.clear()
            return self._change(table, "t", None, None)
        key = self.chance.randrange(12)
        old = table.rows.get(key)
        if old is not None and what < 0.3:
            del table.rows[key]
            return self._change(table, "d", None, table.seen(old))
        new = {name: self._value(type_) for name, type_ in table.columns.items()} | {table.key: key}
        free = self.chance.randrange(12)
        if old is not None and what < 0.4 and free not in table.rows:
            del table.rows[key]
            new[table.key] = key = free
        table.rows[key] = new | dict.fromkeys(table.dropped)
        return self._change(table, "u" if old is not None else "c", new, None if old is None else table.seen(old))

    def _alter(self, table: SourceTable) -> None:
        free = [name for name in ("extra", "more", "last") if name not in table.columns and name not in table.dropped]
        others = [name for name in table.columns if name != table.key]
        what = self.chance.random()
        if what < 0.5 and free:
            table.columns[free[0]] = self.chance.choice(["int", "varchar(20)", "decimal(8,2)", "double"])
        elif what < 0.75 and (able := [name for name in others if table.columns[name] in WIDER]):
            name = self.chance.choice(able)
            table.columns[name] = WIDER[table.columns[name]]
        elif len(others) > 1:
            name = self.chance.choice(others)
            del table.columns[name]
            table.dropped.add(name)

    def _change(self, table: SourceTable, op: str, after: Row | None, before: Row | None) -> Change:
        self.place += 1
        return Change(table, dict(table.columns), op, after, before, self.place)

    def _value(self, type_: str) -> object:
        number = self.chance.randrange(100)
        if number < 15:
            return None
        name = type_.partition("(")[0]
        if name in ("smallint", "int"):
            return number
        if name == "bigint":
            return number * 10**9
        if name in ("float", "double"):
            return number + 0.5
        if name == "decimal":
            return Decimal(number * 100 + 25).scaleb(-4 if type_ == "decimal(12,4)" else -2)
        return f"text {number}"


# -- formats ----------------------------------------------------------------------------------------------------------


def _plain(row: Row | None) -> Row | None:
    """A row with the values of JSON."""
    return None if row is None else {name: float(one) if isinstance(one, Decimal) else one for name, one in row.items()}


def maxwell(change: Change) -> str | None:
    kinds = {"c": "insert", "u": "update", "d": "delete"}
    if change.op not in kinds:
        return None  # Maxwell does not tell of truncations
    data = change.before if change.op == "d" else change.after
    event = {
        "database": change.table.database,
        "table": change.table.name,
        "type": kinds[change.op],
        "ts": 1,
        "xid": change.place,
    }
    old = {"old": _plain(change.before)} if change.op == "u" else {}
    return json.dumps({**event, "data": _plain(data), **old, "primary_key_columns": [change.table.key]})


def canal(change: Change) -> str:
    kinds = {"c": "INSERT", "u": "UPDATE", "d": "DELETE", "t": "TRUNCATE"}
    data = change.before if change.op == "d" else change.after

    def texts(row: Row | None) -> list[Row] | None:
        return None if row is None else [{name: None if one is None else str(one) for name, one in row.items()}]

    event = {"database": change.table.database, "table": change.table.name, "type": kinds[change.op], "es": 1, "id": change.place}
    types = {"mysqlType": dict(change.columns), "pkNames": [change.table.key]}
    return json.dumps({**event, **types, "data": texts(data), "old": texts(change.before) if change.op == "u" else None})


_CONNECT = {"smallint": "int16", "int": "int32", "bigint": "int64", "float": "float", "double": "double", "varchar": "string"}


def _field(name: str, type_: str, key: bool) -> dict[str, object]:
    plain, _, size = type_.partition("(")
    if plain == "decimal":
        digits, scale = size.rstrip(")").split(",")
        parameters = {"scale": scale, "connect.decimal.precision": digits}
        named = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}
        return {"type": "bytes", "optional": True, "field": name, **named}
    return {"type": _CONNECT[plain], "optional": not key, "field": name}


def _encoded(row: Row | None, columns: Mapping[str, str]) -> Row | None:
    """A row with decimals as Debezium writes them: base64 of the unscaled integer."""

    def value(name: str, one: object) -> object:
        if not isinstance(one, Decimal):
            return one
        scale = int(columns[name].rstrip(")").partition(",")[2])
        unscaled = int(one.scaleb(scale))
        return base64.b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()

    return None if row is None else {name: value(name, one) for name, one in row.items()}


def debezium(change: Change, *, schema: bool = True) -> str:
    source = {"connector": "mysql", "db": change.table.database, "table": change.table.name}
    source |= {"file": "bin.000001", "pos": change.place, "row": 0}
    encode: Callable[[Row | None], Row | None] = (lambda row: _encoded(row, change.columns)) if schema else _plain
    payload = {"before": encode(change.before), "after": encode(change.after), "source": source, "op": change.op, "ts_ms": 1}
    if not schema:
        return json.dumps(payload)
    fields = [_field(name, type_, name == change.table.key) for name, type_ in change.columns.items()]
    sides = [{"type": "struct", "fields": fields, "optional": True, "field": side} for side in ("before", "after")]
    return json.dumps({"schema": {"type": "struct", "fields": sides, "optional": False}, "payload": payload})


def key_of(change: Change) -> str | None:
    """The key of the message in Kafka."""
    row = change.before if change.op == "d" else change.after
    return None if row is None else json.dumps({change.table.key: row[change.table.key]})


def changes(database: SourceDatabase, count: int) -> Iterator[Change]:
    """So many changes of rows."""
    while count:
        if (change := database.step()) is not None:
            count -= 1
            yield change
