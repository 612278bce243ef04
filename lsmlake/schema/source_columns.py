"""Brings the columns of a table to those of a table of another system: the alterations that a rule allows. Pure.

- A column that the table lacks is added.
- A column gets a wider type, the narrowest that has all old and all new values, where a table can be altered so.
- Otherwise the type stays, and each value counts: numbers, and dates and times, are converted if nothing is lost. A type of
  another family, such as STRING for a column INT, is refused: a text is not the number that it looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import pyarrow as pa

from lsmlake.errors import InvalidSchema
from lsmlake.schema.alterations.draft import Alteration
from lsmlake.schema.alterations.of_columns import AddColumn, ChangeType
from lsmlake.schema.schema import Schema
from lsmlake.types.column_types import plain
from lsmlake.types.type_table import DECIMAL_DIGITS_MAX, is_dated, is_text
from lsmlake.types.type_text import format_type
from lsmlake.types.widening import widens

_SHORT_INTEGERS = (pa.int8(), pa.int16(), pa.int32())
_LONG_AND_FRACTION = pa.decimal128(DECIMAL_DIGITS_MAX, 18)
"""The type that holds every BIGINT, and numbers with a fraction."""


class EvolveRule(Enum):
    """What may change in the columns of a table."""

    WIDEN = "widen"
    ADD = "add"
    REFUSE = "refuse"


def growth(
    columns: Mapping[str, pa.DataType], schema: Schema, rule: EvolveRule, *, declared: bool, where: str
) -> list[Alteration]:
    """The alterations that a table needs for rows with these columns.

    Args:
        columns: the columns of the rows.
        schema: that of the table.
        rule: what is allowed.
        declared: the source declares the types; otherwise they are those of some values.
        where: names the table in messages.

    Raises:
        InvalidSchema: the rule, or the type of a column, does not allow it. The error names the column.
    """
    known = {field.name: field for field in schema.columns}
    lower = {name.lower(): name for name in known}
    fixed = {*schema.primary_key, *(one.column for one in schema.all_partition_columns)}
    made: list[Alteration] = []
    for name, given in columns.items():
        if (field := known.get(name)) is not None:
            wider = _wider(plain(field.type), given, declared=declared, where=f"{where}, column {name!r}")
            if wider is not None and rule is EvolveRule.WIDEN and name not in fixed:
                made.append(ChangeType((name,), wider))
            continue
        if twin := lower.get(name.lower()):
            cure = "rename one of them at the source, or create the table without this column"
            raise InvalidSchema("two columns differ only in case", where=where, expected=repr(twin), found=repr(name), cure=cure)
        if rule is EvolveRule.REFUSE:
            cure = f"add the column: {name} {format_type(given)}; or let sync add it: evolve 'add' or 'widen'"
            raise InvalidSchema(f"the table has no column {name!r}", where=where, found=f"evolve {rule.value!r}", cure=cure)
        made.append(AddColumn((name,), pa.field(name, given), None, False, None, None))
    return made


def _wider(own: pa.DataType, given: pa.DataType, *, declared: bool, where: str) -> pa.DataType | None:
    """The wider type that a column needs; None: it keeps its own, and values that do not fit are found when they are read."""
    if own == given or _family(own) is is_text:
        return None
    if not declared:
        return _for_fraction(own) if given == pa.float64() else None
    if pa.types.is_nested(own) or pa.types.is_nested(given) or _family(own) != _family(given):
        raise InvalidSchema(
            "the source has changed the type of a column to one that does not widen it",
            where=where,
            expected=format_type(own),
            found=format_type(given),
            cure="add a column of the new type at the source; or change the table, then send the rejected events again",
        )
    if widens(given, own):
        return None
    candidates = (given, _decimal_for(own, given))
    return next((one for one in candidates if one is not None and widens(own, one) and widens(given, one)), None)


def _for_fraction(own: pa.DataType) -> pa.DataType | None:
    """The wider type for numbers with a fraction in a column of whole ones."""
    return pa.float64() if own in _SHORT_INTEGERS else _LONG_AND_FRACTION if own == pa.int64() else None


def _decimal_for(own: pa.DataType, given: pa.DataType) -> pa.DataType | None:
    """The narrowest DECIMAL for the values of two numeric types."""
    sizes = [_digits(type_) for type_ in (own, given)]
    if None in sizes:
        return None
    before, after = (max(parts) for parts in zip(*sizes, strict=True))
    return pa.decimal128(before + after, after) if before + after <= DECIMAL_DIGITS_MAX else None


def _digits(type_: pa.DataType) -> tuple[int, int] | None:
    """The digits before and after the point of an exact number, as `types.widening` counts them."""
    if pa.types.is_decimal(type_):
        return type_.precision - type_.scale, type_.scale
    return (20 if type_ == pa.int64() else 10, 0) if pa.types.is_integer(type_) else None


def _is_number(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)


def _family(type_: pa.DataType) -> Callable[[pa.DataType], bool] | pa.DataType:
    """Types of one family have values in common: numbers, dates and timestamps, or texts."""
    return next((one for one in (_is_number, is_dated, is_text) if one(type_)), type_)
