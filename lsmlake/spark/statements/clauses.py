"""Evaluates the clauses of a statement in Catalyst: which clause acts on each row, and the new values of the row.

The rows have the columns of the target with the alias `t` and, in a merge, the columns of the source with the alias `s`. Three
projections evaluate each expression once, and only for the rows of its clause:

1. `ACTION`: the number of the first clause whose condition is true, from 1; 0 if there is none.
2. the value of each expression, with the type that Spark gives it;
3. the new values, converted to the types of the columns. A conversion that would lose something fails the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as st

from lsmlake.dialect.casts import assign
from lsmlake.errors import InvalidQuery, InvalidSchema
from lsmlake.kernels import nested
from lsmlake.options.merge_options import PARTIAL_UPDATE
from lsmlake.schema.defaults import WRITE, default_of
from lsmlake.schema.schema import Schema
from lsmlake.spark.frame_types import to_arrow, to_spark
from lsmlake.spark.statements.row_edit_tasks import column
from lsmlake.statements.clause import ACTION, BY_SOURCE, DELETE, INSERT, MATCHED, NOT_MATCHED, UPDATE, Clause
from lsmlake.types import column_types
from lsmlake.types.type_text import backticked, format_type
from lsmlake.write.changeable import OLDER

IS_TARGET, IS_SOURCE = "_lsmlake_is_target", "_lsmlake_is_source"
"""`IS_TARGET`, `IS_SOURCE`: true in the rows of the target and of the source, null where a joined row has none."""
LOST_VALUE = f"under merge-engine = {PARTIAL_UPDATE} a null does not replace a value"
_CHANGES = (MATCHED, NOT_MATCHED, BY_SOURCE)


@dataclass(frozen=True)
class Clauses:
    """The clauses of a statement on a table. `target`: the name of the table in the statement. `values`: per clause, column ->
    expression."""

    schema: Schema
    target: str
    clauses: tuple[Clause[str], ...]
    values: tuple[Mapping[str, str], ...]

    @staticmethod
    def of(schema: Schema, target: str, clauses: Sequence[Clause[str]], texts: Sequence[Mapping[str, str]]) -> Clauses:
        """`texts`: per clause, column -> expression. Raises InvalidQuery for an unknown column."""
        return Clauses(schema, target, tuple(clauses), tuple(_by_column(schema, given) for given in texts))

    def numbers(self, *actions: str) -> list[int]:
        """The numbers of the clauses with one of these actions."""
        return [number for number, clause in enumerate(self.clauses, 1) if clause.action in actions]

    def acting(self, rows, joined: bool):
        """Adds `ACTION` to the rows. `joined`: whether they come from a join; otherwise all are target rows without a match."""
        choices = {when: self._choice(when) for when in _CHANGES}
        chosen = choices[BY_SOURCE]
        if joined:
            both = f"{IS_TARGET} and {IS_SOURCE}"
            of_source = f"when {IS_SOURCE} then {choices[NOT_MATCHED]}"
            chosen = f"case when {both} then {choices[MATCHED]} {of_source} else {chosen} end"
        return rows.selectExpr("*", f"{chosen} as {ACTION}")

    def _choice(self, when: str) -> str:
        own = [(number, clause.condition) for number, clause in enumerate(self.clauses, 1) if clause.when == when]
        whens = [f"when {'true' if text is None else condition(text)} then {number}" for number, text in own]
        return f"case {' '.join(whens)} else 0 end" if whens else "0"

    def check_inserts(self, source) -> None:
        """Raises Spark's error if a NOT MATCHED clause names a column of the target. Reads no rows."""
        for clause, values in zip(self.clauses, self.values, strict=True):
            if clause.when == NOT_MATCHED and (clause.condition is not None or values):
                rows = source if clause.condition is None else source.where(condition(clause.condition))
                made = (f"{_alone(text)} as v{place}" for place, text in enumerate(values.values()))
                _ = rows.selectExpr("1 as v", *made).schema

    def new_rows(self, rows, kept: Sequence[str], *, deleted: bool):
        """Returns `ACTION`, the columns `kept` and the new values, by `column`, given the rows of `acting`. `deleted`: a row to
        delete has its old values, otherwise nulls.

        Raises:
            InvalidQuery: A value does not fit its column.
        """
        every = len(self.clauses) == 1 and self.clauses[0].when == BY_SOURCE
        raw = {
            (number, name): f"{_of_all(text) if every else _of_some(text, number)} as v{number}_{place}"
            for number, values in enumerate(self.values, 1)
            for place, (name, text) in enumerate(values.items())
        }
        names, kept_old = self.schema.columns.names, self._kept(deleted)
        used = kept_old | self._compared
        olds = [f"{backticked(self.target)}.{backticked(name)} as o{place}" for place, name in enumerate(names) if name in used]
        evaluated = rows.selectExpr(ACTION, *kept, *olds, *raw.values())
        made = st.StructType(list(evaluated.schema.fields)[1 + len(kept) + len(olds) :])
        fields = dict(zip(raw, made.fields, strict=True))
        columns = [self._new(place, name, fields, name in kept_old) for place, name in enumerate(names)]
        return evaluated.selectExpr(ACTION, *kept, *columns)

    def _kept(self, deleted: bool) -> set[str]:
        """The columns whose old values are kept. A scan reads only these and the columns that clauses read. `deleted`: as in
        `new_rows`."""
        names, updates = self.schema.columns.names, self.numbers(UPDATE)
        if deleted and self.numbers(DELETE):
            return {*names}
        return {name for name in names if any(name not in self.values[number - 1] for number in updates)}

    @property
    def _compared(self) -> set[str]:
        """The columns whose new values are compared with the old ones."""
        if self.schema.append_only or not self.numbers(UPDATE):
            return set()
        return {*self.schema.columns.names} if self._keeps_values else {*self.schema.parsed_options.merge.sequence_field}

    def _new(self, place: int, name: str, fields: Mapping[tuple[int, str], st.StructField], old: bool) -> str:
        field, whens, merge = self.schema.columns.field(name), [], self.schema.parsed_options.merge
        for number, (clause, values) in enumerate(zip(self.clauses, self.values, strict=True), 1):
            if name in values:
                made = fields[number, name]
                value = converted(made, self.schema.plain_columns.field(name), values[name])
                if clause.action == UPDATE and self._keeps_values:
                    lost = f"raise_error('{LOST_VALUE}: column {_escaped(name)}')"
                    value = f"if(o{place} is not null and {made.name} is null, {lost}, {value})"
                if clause.action == UPDATE and not self.schema.append_only and merge.sequence_field == (name,):
                    before = ">" if merge.sequence_sort_order == "descending" else "<"
                    older = f"coalesce({value} {before} o{place}, {value} is null and o{place} is not null)"
                    value = f"if({older}, raise_error('{OLDER}'), {value})"
                whens.append(f"when {number} then {value}")
            elif clause.action == INSERT:
                whens.append(f"when {number} then {self._omitted(field)}")
        value = f"o{place}" if old else "null"
        if whens:
            value = f"case {ACTION} {' '.join(whens)} else {value} end"
        return f"{value} as {column(place)}"

    @property
    def _keeps_values(self) -> bool:
        return not self.schema.append_only and self.schema.parsed_options.merge.engine == PARTIAL_UPDATE

    def _omitted(self, field: pa.Field) -> str:
        """The value of a column that an inserted row lacks."""
        value = None if self.schema.combines_rows else default_of(field, WRITE)
        if value is None or not value.is_valid:
            return "null"
        if pa.types.is_binary(value.type):
            return f"X'{value.as_py().hex()}'"
        text = f"string(X'{value.cast(pa.string()).as_py().encode().hex()}')"  # independent of the session's quoting settings
        return f"cast({text} as {_type(field)})"


def _alone(text: str) -> str:
    """An expression that can stand inside another, even if it ends with a comment."""
    return f"({text}\n)"


def _of_some(text: str, number: int) -> str:
    """The values of one clause, over the rows of several clauses."""
    return f"case when {ACTION} = {number} then {_alone(text)} end"


def _of_all(text: str) -> str:
    """The values of the only clause. Not in CASE, where Spark draws an argument of `nullif` twice; not at the top level, where
    `explode` would produce rows."""
    return f"named_struct('v', {_alone(text)}).v"


def condition(text: str) -> str:
    """A boolean condition. Refuses text, even 'true', which `and` alone would cast; accepts NULL. Spark drops the `if`."""
    return f"({_alone(text)} and if({_alone(text)}, true, true))"


def _by_column(schema: Schema, texts: Mapping[str, str]) -> dict[str, str]:
    by_lower, by_name = {name.lower(): name for name in schema.columns.names}, {}
    for given, text in texts.items():
        name = by_lower.get(given.lower())
        if name is None:
            raise InvalidQuery(f"unknown column {given!r}", expected=f"one of {schema.columns.names}", cure="correct the name")
        if name in by_name:
            raise InvalidQuery(f"column {name!r} is assigned twice", cure="assign it once")
        by_name[name] = text
    return by_name


def converted(made: st.StructField, field: pa.Field, text: str) -> str:
    """SQL that converts the column `made` to the table's column `field`. `text`: the expression of `made`, for errors."""
    try:
        type_ = column_types.plain(to_arrow(st.StructType([made])).field(0).type)
    except InvalidSchema as error:
        raise InvalidQuery(f"the value does not fit column {field.name!r}", where=text, found=error.found) from error
    value = _fitted(made.name, type_, field.type)
    if value is None:
        raise InvalidQuery(
            f"the value does not fit column {field.name!r}",
            where=text,
            expected=format_type(field.type),
            found=format_type(type_),
            cure=f"write CAST({text} AS {format_type(field.type)})",
        )
    return value


def _fitted(value: str, type_: pa.DataType, wanted: pa.DataType, depth: int = 0) -> str | None:
    """SQL that converts a value to the type `wanted` without loss; None if the types do not fit. Converts each field of
    a struct and each element of an array."""
    t = pa.types
    if nested.nullable(type_) == nested.nullable(wanted):
        return value
    if t.is_null(type_):
        return "null"
    if t.is_list(type_) and t.is_list(wanted):
        element = _fitted(f"e{depth}", type_.value_type, wanted.value_type, depth + 1)
        return element and f"transform({value}, e{depth} -> {element})"
    if t.is_struct(type_) and t.is_struct(wanted) and [one.name for one in type_] == [one.name for one in wanted]:
        fields = [_fitted(f"{value}.{backticked(one.name)}", one.type, wanted.field(one.name).type, depth) for one in type_]
        if any(one is None for one in fields):
            return None
        packed = ", ".join(f"{one} as {backticked(field.name)}" for one, field in zip(fields, type_, strict=True))
        return f"if({value} is null, null, struct({packed}))"
    if t.is_nested(type_) or t.is_nested(wanted) or assign("x", type_, wanted) is None:
        return None
    made = f"try_cast({value} as {_name(wanted)})"
    kept = f"cast({made} as {_name(type_)}) <=> {value}"
    message = f"concat(string({value}), ' does not fit {format_type(wanted)} without loss (out of range, or to be rounded)')"
    return f"if({kept}, {made}, raise_error({message}))"


def _type(field: pa.Field) -> str:
    return _name(column_types.plain(field.type))


def _name(kind: pa.DataType) -> str:
    return to_spark(pa.schema([pa.field("x", kind)]))[0].dataType.simpleString()


def _escaped(name: str) -> str:
    return name.replace("\\", "").replace("'", "")
