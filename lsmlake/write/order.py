"""The order of the rows of a batch in this process: evaluates `order_by`, and takes the columns out that only the order needs.

`OrderBy` is the argument `order_by` of a write: the order in which the rows of a key in one batch apply.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData, InvalidQuery, InvalidSchema
from lsmlake.schema.rowkind import CHANGE_ORDINAL, COMMIT_COLUMNS, COMMIT_SNAPSHOT
from lsmlake.schema.schema import Schema
from lsmlake.types import types
from lsmlake.types.table import is_text


@dataclass(frozen=True)
class Order:
    """The order of data with given columns.

    Attributes:
        own: the columns of the data that only the order reads.
        given: the columns of the data that the table lacks and the order reads, with their types.
        names: the columns of the values, if the expressions are names.
        keys: evaluates the expressions, if they are not; a `dialect.evaluate.Columns`.
    """

    own: frozenset[str] = frozenset()
    given: tuple[pa.Field, ...] = ()
    names: tuple[str, ...] = ()
    keys: object | None = None

    @staticmethod
    def of(order_by: OrderBy | None, found: pa.Schema, schema: Schema, row_kind: str | None, *, untyped: bool = False) -> Order:
        """The order of data with the columns `found` for a table.

        Args:
            order_by: the argument; without one, data with all commit columns is in their order.
            found: the columns of the data.
            schema: of the table.
            row_kind: the column with the row kinds, if there is one.
            untyped: texts in the data may stand for values of other types, see `check_typed`.

        Raises:
            InvalidQuery: an expression is not SQL, reads an unknown column, or has values without an order.
            InvalidData: see `check_typed`.
        """
        commit, order_by = commit_columns_in(found, schema), order_in(order_by, found, schema)
        if order_by is None or order_by.any:
            return Order(frozenset(commit))
        others = _others(found, schema)
        columns = pa.schema([*(field for field in schema.typed_columns if field.name in found.names), *others])
        if order_by.names:
            made = None
            names = tuple(_column(text, columns) for text in order_by.expressions)
            read = list(dict.fromkeys(names))
        else:
            from lsmlake.dialect.sort_keys import sort_keys  # loads sqlglot

            made, names = sort_keys(order_by.expressions, columns, order_by.zone), ()
            read = list(made.needs)
        given = tuple(others.field(name) for name in read if name in others.names)
        if untyped and made is None:
            check_typed(given)
        own = {name for name in (*(field.name for field in given), *commit) if name != row_kind}
        return Order(frozenset(own), given, names, made)

    def without_own(self, data: pa.Table) -> pa.Table:
        """The data without the columns that only the order reads."""
        return data.drop_columns([name for name in data.column_names if name in self.own]) if self.own else data

    def values(self, data: pa.Table, rows: pa.Table, kept: np.ndarray | None) -> pa.Table | None:
        """The values that order the rows, one column for each expression; None if nothing does.

        Args:
            data: the data as it was given.
            rows: the rows of the table made of it.
            kept: the numbers of the rows of `data` that these are; None: all.
        """
        if not self.names and self.keys is None:
            return None
        for field in self.given:
            column = data[field.name] if kept is None else data[field.name].take(pa.array(kept))
            rows = rows.append_column(field, column.cast(field.type))
        if self.keys is not None:
            return self.keys.over(rows)
        return pa.table([rows[name] for name in self.names], names=[str(i) for i in range(len(self.names))])


def order_in(order_by: OrderBy | None, found: pa.Schema, schema: Schema) -> OrderBy | None:
    """The order that was asked for; without one, that of the commit columns, if the data has them."""
    return order_by or (OrderBy((COMMIT_SNAPSHOT, CHANGE_ORDINAL)) if commit_columns_in(found, schema) else None)


def commit_columns_in(found: pa.Schema, schema: Schema) -> tuple[str, ...]:
    """The commit columns of a change feed, if the data has all of them and the table none."""
    there = all(found.names.count(name) == 1 for name in COMMIT_COLUMNS)
    return COMMIT_COLUMNS if there and not any(name in schema.columns.names for name in COMMIT_COLUMNS) else ()


def _others(found: pa.Schema, schema: Schema) -> pa.Schema:
    """The columns of the data that the table lacks, as far as their types are known."""
    own, fields = {name.lower() for name in schema.columns.names}, []
    for field in found:
        if field.name.lower() in own or found.names.count(field.name) > 1:
            continue
        try:
            fields.append(pa.field(field.name, types.plain(types.canonical(field.type, field.name))))
        except InvalidSchema:  # unknown to expressions; the write refuses the column itself
            continue
    return pa.schema(fields)


def _column(text: str, columns: pa.Schema) -> str:
    """The column that a name means; case counts only if names differ in nothing else."""
    if text in columns.names:
        return _orderable(text, columns)
    found = [name for name in columns.names if name.lower() == text.lower()]
    if len(found) != 1:
        raise InvalidQuery(
            "order_by names no column of the data" if not found else "order_by names several columns of the data",
            expected=f"one of {columns.names}",
            found=repr(text),
            cure="correct the name",
        )
    return _orderable(found[0], columns)


def _orderable(name: str, columns: pa.Schema) -> str:
    type_ = columns.field(name).type
    if pa.types.is_nested(type_) or pa.types.is_null(type_):
        raise InvalidQuery(
            "order_by names a column whose values have no order",
            where=f"column {name!r}",
            found=type_,
            cure="order by a number, a time or a text, such as a field of a struct",
        )
    return name


def check_typed(given: Sequence[pa.Field]) -> None:
    """Refuses to order by texts of data whose texts are converted (files without types, `cast=True`), if the table does not tell
    the type: the text 10 is before the text 9.

    Args:
        given: the columns that `order_by` names and the table lacks.

    Raises:
        InvalidData: one of them is text.
    """
    for field in given:
        if is_text(field.type):
            raise InvalidData(
                "order_by names a column of text, and the table has no such column that tells its type",
                where=f"column {field.name!r}",
                expected="a column of the table, or an expression that converts the text",
                found="text, of which 10 is before 9",
                cure=f"order by {field.name} :: BIGINT, or by the type that it has; if it is text, by {field.name} :: STRING",
            )


_NAME = re.compile(r"\s*[^\W\d]\w*\s*")
_EXPECTED = "the name of a column, an expression of SQL, a list of them, or lsmlake.ANY"


class AnyOrder(Enum):
    """The one value is `ANY`."""

    ANY = "any"

    def __repr__(self) -> str:
        return "lsmlake.ANY"


ANY = AnyOrder.ANY
"""The value of `order_by` for data in which any of the rows of a key will do."""


@dataclass(frozen=True)
class OrderBy:
    """What the argument asks for.

    Attributes:
        expressions: the texts, the most significant first; a greater value is newer, a null is older than any value.
        any: any order of the rows of a key will do.
        zone: the time zone of the session.
    """

    expressions: tuple[str, ...] = ()
    any: bool = False
    zone: str = "UTC"

    @staticmethod
    def of(given: str | Sequence[str] | Literal[AnyOrder.ANY] | None, zone: str) -> OrderBy | None:
        """Parses the argument. Raises InvalidQuery."""
        if given is None or given is ANY:
            return None if given is None else OrderBy(any=True, zone=zone)
        texts = [given] if isinstance(given, str) else list(given) if isinstance(given, (list, tuple)) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            raise InvalidQuery("order_by names no order", expected=_EXPECTED, found=repr(given), cure="name a column")
        parts = [part for text in texts for part in _parts(text)]
        if not all(parts):
            raise InvalidQuery("an expression of order_by is empty", expected=_EXPECTED, found=repr(given), cure="name a column")
        return OrderBy(tuple(parts), zone=zone)

    @property
    def names(self) -> bool:
        """Whether all expressions are names, which need no SQL."""
        return all(_NAME.fullmatch(text) for text in self.expressions)


def _parts(text: str) -> list[str]:
    names = text.split(",")
    if all(_NAME.fullmatch(name) or not name.strip() for name in names):
        return [name.strip() for name in names]
    from lsmlake.dialect.sort_keys import parts_of  # loads sqlglot

    return parts_of(text)
