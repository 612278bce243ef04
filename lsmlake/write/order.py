"""The order of the rows of a batch: the argument `order_by`, its values in this process, and the order in which rows arrived.

`OrderBy` is the argument `order_by` of a write: the order in which the rows of a key in one batch apply. `Order` evaluates it,
and removes the columns that only the order needs. `Arrival` orders rows by these values, then by their places in the input; it
refuses rows of one key that differ and have no order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData, InvalidQuery, InvalidSchema, with_arguments
from lsmlake.kernels.groups import Groups
from lsmlake.lsm.merge.contested import contested
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.schema.rowkind import CHANGE_ORDINAL, COMMIT_COLUMNS, COMMIT_SNAPSHOT, NAMES, kinds_of
from lsmlake.schema.schema import RESERVED, ROW_KIND, Schema
from lsmlake.schema.values import row_text
from lsmlake.types import column_types
from lsmlake.types.type_table import is_text


@dataclass(frozen=True)
class Order:
    """The order of data with given columns.

    Attributes:
        own: the columns of the data that only the order reads.
        given: the columns of the data that the table lacks and the order reads, with their types.
        names: the columns of the values, if the expressions are names.
        keys: evaluates the expressions, if some are not names; a `dialect.row_evaluation.Columns`.
    """

    own: frozenset[str] = frozenset()
    given: tuple[pa.Field, ...] = ()
    names: tuple[str, ...] = ()
    keys: object | None = None

    @staticmethod
    def of(order_by: OrderBy | None, data: pa.Schema, schema: Schema, row_kind: str | None, *, untyped: bool = False) -> Order:
        """The order of the rows of `data` for a table.

        Args:
            order_by: the argument; without one, data with all commit columns is in their order.
            data: the columns of the data.
            schema: of the table.
            row_kind: the column with the row kinds, if there is one.
            untyped: texts in the data may stand for values of other types, see `check_typed`.

        Raises:
            InvalidQuery: an expression is not SQL, reads an unknown column, or has values without an order.
            InvalidData: see `check_typed`.
        """
        commit, order_by = commit_columns_in(data, schema), order_in(order_by, data, schema)
        if order_by is None or order_by.any:
            return Order(frozenset(commit))
        others = _others(data, schema)
        columns = pa.schema([*(field for field in schema.typed_columns if field.name in data.names), *others])
        if order_by.names:
            keys = None
            names = tuple(_column(text, columns) for text in order_by.expressions)
            read = list(dict.fromkeys(names))
        else:
            from lsmlake.dialect.sort_keys import sort_keys  # loads sqlglot

            keys, names = sort_keys(order_by.expressions, columns, order_by.zone), ()
            read = list(keys.needs)
        given = tuple(others.field(name) for name in read if name in others.names)
        if untyped and keys is None:
            check_typed(given)
        own = {name for name in (*(field.name for field in given), *commit) if name != row_kind}
        return Order(frozenset(own), given, names, keys)

    def without_own(self, data: pa.Table) -> pa.Table:
        """The data without the columns that only the order reads."""
        return data.drop_columns([name for name in data.column_names if name in self.own]) if self.own else data

    def values(self, data: pa.Table, rows: pa.Table, kept: np.ndarray | None) -> pa.Table | None:
        """The values that order the rows, one column for each expression; None if there is no `order_by`.

        Args:
            data: the data as it was given.
            rows: the rows of the table made from the data.
            kept: the numbers of the rows of `data` from which `rows` were made; None: all.
        """
        if not self.names and self.keys is None:
            return None
        for field in self.given:
            column = data[field.name] if kept is None else data[field.name].take(pa.array(kept))
            rows = rows.append_column(field, column.cast(field.type))
        if self.keys is not None:
            try:
                return self.keys.over(rows)
            except InvalidQuery as refused:
                cure = "correct the value, or the expression"
                raise InvalidData(with_arguments("{} cannot be evaluated", "order_by"), found=refused, cure=cure) from refused
        return pa.table([rows[name] for name in self.names], names=[str(i) for i in range(len(self.names))])


def order_in(order_by: OrderBy | None, columns: pa.Schema, schema: Schema) -> OrderBy | None:
    """The order that `order_by` asks for; without it, the order of the commit columns, if the data has them."""
    return order_by or (OrderBy((COMMIT_SNAPSHOT, CHANGE_ORDINAL)) if commit_columns_in(columns, schema) else None)


def commit_columns_in(columns: pa.Schema, schema: Schema) -> tuple[str, ...]:
    """The commit columns of a change feed, if the data has all of them and the table has none of them."""
    complete = all(columns.names.count(name) == 1 for name in COMMIT_COLUMNS)
    return COMMIT_COLUMNS if complete and not any(name in schema.columns.names for name in COMMIT_COLUMNS) else ()


def _others(columns: pa.Schema, schema: Schema) -> pa.Schema:
    """The columns of the data that the table lacks and whose types are known."""
    own, fields = {name.lower() for name in schema.columns.names}, []
    for field in columns:
        if field.name.lower() in own or columns.names.count(field.name) > 1:
            continue
        try:
            fields.append(pa.field(field.name, column_types.plain(column_types.canonical(field.type, field.name))))
        except InvalidSchema:  # unknown to expressions; the write refuses the column itself
            continue
    return pa.schema(fields)


def _column(text: str, columns: pa.Schema) -> str:
    """The column that a name means; case is ignored unless two names differ only in case."""
    if text in columns.names:
        return _orderable(text, columns)
    matching = [name for name in columns.names if name.lower() == text.lower()]
    if len(matching) != 1:
        raise InvalidQuery(
            with_arguments(f"{{}} names {'several columns' if matching else 'no column'} of the data", "order_by"),
            expected=f"one of {columns.names}",
            found=repr(text),
            cure="correct the name",
        )
    return _orderable(matching[0], columns)


def _orderable(name: str, columns: pa.Schema) -> str:
    type_ = columns.field(name).type
    if pa.types.is_nested(type_) or pa.types.is_null(type_):
        raise InvalidQuery(
            with_arguments("{} names a column whose values have no order", "order_by"),
            where=f"column {name!r}",
            found=type_,
            cure="order by a number, a time or a text, such as a field of a struct",
        )
    return name


def check_typed(given: Sequence[pa.Field]) -> None:
    """Refuses to order by texts of data whose texts are converted (files without types, `cast=True`), unless the table knows the
    type: the text 10 is before the text 9.

    Args:
        given: the columns that `order_by` names and the table lacks.

    Raises:
        InvalidData: one of them is text.
    """
    for field in given:
        if is_text(field.type):
            raise InvalidData(
                with_arguments("{} names a column of text, and the table has no such column that tells its type", "order_by"),
                where=f"column {field.name!r}",
                expected="a column of the table, or an expression that converts the text",
                found="text, of which 10 is before 9",
                cure=f"order by {field.name} :: BIGINT, or by the type that it has; if it is text, by {field.name} :: STRING",
            )


_NAME = re.compile(r"\s*[^\W\d]\w*\s*")
_EXPECTED = with_arguments("the name of a column, an expression of SQL, a list of them, or {}", "lsmlake.ANY")


class AnyOrder(Enum):
    """The class of the single value `ANY`: any order of rows will do."""

    ANY = "any"

    def __repr__(self) -> str:
        return "lsmlake.ANY"


ANY = AnyOrder.ANY
"""The value of `order_by` for data in which any of the rows of a key will do."""


@dataclass(frozen=True)
class OrderBy:
    """The parsed argument `order_by`.

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
            what = with_arguments("{} names no order", "order_by")
            raise InvalidQuery(what, expected=_EXPECTED, found=repr(given), cure="name a column")
        parts = [part for text in texts for part in _parts(text)]
        if not all(parts):
            what = with_arguments("an expression of {} is empty", "order_by")
            raise InvalidQuery(what, expected=_EXPECTED, found=repr(given), cure="name a column")
        return OrderBy(tuple(parts), zone=zone)

    @property
    def names(self) -> bool:
        """Whether all expressions are names, which need no SQL."""
        return all(_NAME.fullmatch(text) for text in self.expressions)

    @property
    def reads(self) -> set[str]:
        """The columns that the expressions may read, in lower case."""
        if self.names:
            return {text.lower() for text in self.expressions}
        from lsmlake.dialect.sort_keys import columns_in  # loads sqlglot

        return {name for text in self.expressions for name in columns_in(text)}


def _parts(text: str) -> list[str]:
    names = text.split(",")
    if all(_NAME.fullmatch(name) or not name.strip() for name in names):
        return [name.strip() for name in names]
    from lsmlake.dialect.sort_keys import parts_of  # loads sqlglot

    return parts_of(text)


# -- arrival ----------------------------------------------------------------------------------------------------------


PART_BITS = 33
"""The lower bits of a place number the rows of a part of the input, the others its parts: as `monotonically_increasing_id`."""


class Ordered(Enum):
    """Says which rows of a batch are in the order of their places."""

    ALL = "all rows"
    PARTS = "the rows of a part of the input"
    NONE = "none"
    QUERY = "none: a query gives them"


_PLACE, _BY = f"{RESERVED}place", f"{RESERVED}by"
_WHY = {
    Ordered.PARTS: "come from different input partitions",
    Ordered.NONE: "have passed a shuffle",
    Ordered.QUERY: "come from a query that gives its rows in any order",
}
_CURE = with_arguments(
    "pass {}=<a column or expression that grows from change to change>, such as {}='updated_at'; or set the table "
    "option sequence.field; or pass {}={} if any of the rows will do",
    *["order_by"] * 3,
    "lsmlake.ANY",
    command="order the rows: set the table option sequence.field",
    sql="let the query leave one row of each key, such as by max_by and GROUP BY; or set the table option sequence.field; or, "
    "without Spark, end the query with ORDER BY",
)


@dataclass(frozen=True)
class Arrival:
    """The order of the rows of one table.

    Attributes:
        places: the place of each row in the input, int64.
        by: the values of `order_by`, one column for each expression, a greater value is newer; None: there are none.
        ordered: the rows that are in the order of their places; only `by` orders the other rows.
    """

    places: np.ndarray
    by: pa.Table | None = None
    ordered: Ordered = Ordered.ALL

    @staticmethod
    def joined(parts: Sequence[Arrival]) -> Arrival:
        """The arrival of all rows of some tables."""
        by = None if parts[0].by is None else pa.concat_tables([part.by for part in parts])
        return Arrival(np.concatenate([part.places for part in parts]), by, parts[0].ordered)

    def take(self, rows: np.ndarray) -> Arrival:
        """The arrival of some of the rows."""
        return replace(self, places=self.places[rows], by=None if self.by is None else self.by.take(pa.array(rows)))

    def order(self) -> list[np.ndarray]:
        """Arrays that order the rows by arrival, the most significant first, for `kernels.groups.group`, which sorts only rows of
        one key by them. Empty: they arrived in the order of the rows."""
        if self.by is None:
            return [] if (self.places[1:] > self.places[:-1]).all() else [self.places]
        return [*SequenceFields(tuple(self.by.column_names)).order(self.by), self.places]

    def ranks(self) -> np.ndarray | None:
        """A number for each row; of two rows the greater one arrived later. None: they arrived in the order of the rows."""
        if self.by is None:
            return None if (self.places[1:] > self.places[:-1]).all() else self.places
        ranks = np.empty(len(self.places), np.int64)
        ranks[np.lexsort((self.places, self._by_ranks()))] = np.arange(len(self.places))
        return ranks

    def _by_ranks(self) -> np.ndarray | None:
        return None if self.by is None else SequenceFields(tuple(self.by.column_names)).ranks(self.by, every=True)

    def check(self, rows: pa.Table, groups: Groups, rule: MergeRule, key: Sequence[str]) -> None:
        """Raises InvalidData if the merged row of a key depends on the order of rows without an order. `rows`: the rows of this
        arrival; `groups`: the rows of each key."""
        if self.ordered is Ordered.ALL or groups.unique:
            return
        parts = self.places >> PART_BITS if self.ordered is Ordered.PARTS else self.places
        if parts.min() == parts.max():
            return
        columns = [name for name in rows.column_names if name not in key and name != ROW_KIND]
        pair = contested(rows, groups, rule.contests(columns), self._by_ranks(), parts)
        if pair is None:
            return
        kinds, plain = kinds_of(rows), rows.select([*key, *columns])
        shown = [f"{'' if kinds is None else NAMES[kinds[row]] + ' '}{row_text(plain.slice(row, 1))}" for row in pair]
        raise InvalidData(
            "rows of one key differ, and nothing tells which of them is newer: they " + _WHY[self.ordered],
            where=f"key {row_text(rows.select(list(key)).slice(pair[0], 1))}",
            expected="an order of the rows of a key",
            found=" and ".join(shown),
            cure=_CURE,
        )

    def columns(self) -> dict[str, pa.Array | pa.ChunkedArray]:
        """The arrival as columns of a spill."""
        by = {} if self.by is None else {f"{_BY}{i}": column for i, column in enumerate(self.by.columns)}
        return {_PLACE: pa.array(self.places), **by}

    @staticmethod
    def taken_from(rows: pa.Table, ordered: Ordered) -> tuple[pa.Table, Arrival]:
        """The rows of a spill without the columns of their arrival, and the arrival."""
        names = [name for name in rows.column_names if name.startswith(_BY)]
        arrival = Arrival(np.asarray(rows[_PLACE]), rows.select(names) if names else None, ordered)
        return rows.drop_columns([_PLACE, *names]), arrival
