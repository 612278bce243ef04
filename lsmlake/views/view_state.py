"""The state of the groups of a view table: hidden columns by which the aggregates of a group are kept without its rows.

- `_lsmlake_rows`: the rows of the group. A group without rows is deleted, except the only group of a query without GROUP BY.
- of each sum and average the number of its values and their exact sum, of each count the number, of each minimum and maximum the
  value.

Changes are added to numbers and sums. A minimum or maximum is compared with the values that came; if a value that went is not
beyond it, the state of this group is computed anew from the rows (`AGAIN`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.aggregates import quotient
from lsmlake.dialect.connection import translated_errors
from lsmlake.dialect.macros import spark_connected
from lsmlake.dialect.sql_types import duck_name, quoted
from lsmlake.views.view_changes import WEIGHT
from lsmlake.views.view_shape import KEY, ROWS, Measure, ViewShape, key, value

AGAIN = "_lsmlake_again"
_STATE, _CHANGES = "view_state", "view_changes"
_ALL = "'all'"
"""The key of the only group of a query without GROUP BY."""


def state_fields(shape: ViewShape) -> list[pa.Field]:
    """The hidden columns of the state."""
    fields = [pa.field(ROWS, pa.int64())]
    for number, measure in enumerate(shape.measures):
        if measure.is_extreme:
            fields.append(pa.field(_best(number), measure.type))
        elif measure.argument is not None:
            fields.append(pa.field(_count(number), pa.int64()))
            if measure.function != "count":
                fields.append(pa.field(_sum(number), _sum_type(measure)))
    return fields


def _sum_type(measure: Measure) -> pa.DataType:
    """The type of the stored sum: for a sum that of its result, for an average one that holds the sum of all integers."""
    if pa.types.is_decimal(measure.type):
        return pa.decimal128(min(38, measure.type.precision + 10), measure.type.scale)
    return pa.int64() if measure.function == "sum" else pa.decimal128(38, 0)


def _count(number: int) -> str:
    return f"_lsmlake_n{number}"


def _sum(number: int) -> str:
    return f"_lsmlake_s{number}"


def _best(number: int) -> str:
    return f"_lsmlake_m{number}"


def _argument(number: int) -> str:
    return f"_lsmlake_x{number}"


def state_aggregates(shape: ViewShape) -> dict[str, exp.Expression]:
    """The aggregates that compute the state from rows."""
    made = {ROWS: exp.Anonymous(this="count", expressions=[exp.Star()])}
    for number, measure in enumerate(shape.measures):
        if measure.is_extreme:
            made[_best(number)] = exp.Anonymous(this=measure.function, expressions=[measure.argument])
        elif measure.argument is not None:
            made[_count(number)] = exp.Anonymous(this="count", expressions=[measure.argument])
            if measure.function != "count":
                made[_sum(number)] = exp.Anonymous(this="sum", expressions=[_summand(measure)])
    return made


def _summand(measure: Measure) -> exp.Expression:
    if measure.function == "avg" and pa.types.is_integer(measure.type):  # the sum may leave the range of a BIGINT
        return exp.Cast(this=measure.argument, to=exp.DataType.build("DECIMAL(28, 0)"))
    return measure.argument


def arguments(shape: ViewShape) -> dict[str, exp.Expression]:
    """The arguments of the aggregates, by the names that `added` expects."""
    return {_argument(n): one.argument for n, one in enumerate(shape.measures) if one.argument is not None}


# -- keys ---------------------------------------------------------------------------------------------------------------


def with_key(rows: pa.Table, zone: str) -> pa.Table:
    """Rows with columns `key(i)`, and the column `KEY`: the key as text, equal for equal keys, null included."""
    return _run(f"SELECT *, {_key(rows.schema)} FROM {_CHANGES}", {_CHANGES: rows}, zone)


def _key(columns: pa.Schema) -> str:
    keys = [field for field in columns if field.name.startswith(key(0)[:-1])]
    return f"{' || '.join(_part(one.name, one.type) for one in keys) if keys else _ALL} AS {quoted(KEY)}"


def _part(name: str, kind: pa.DataType) -> str:
    column, types = quoted(name), pa.types
    if types.is_floating(kind):
        text = f"CASE WHEN {column} = 0 THEN '0' ELSE CAST({column} AS VARCHAR) END"
    elif types.is_timestamp(kind):
        text = f"CAST(epoch_us({column}) AS VARCHAR)"
    elif types.is_binary(kind) or types.is_large_binary(kind):
        text = f"hex({column})"
    else:
        text = f"CAST({column} AS VARCHAR)"
    return f"(CASE WHEN {column} IS NULL THEN 'n' ELSE 'v' || strlen({text}) || ':' || {text} END)"


def net(changes: pa.Table, zone: str) -> pa.Table:
    """Changes with the sum of the weights of equal rows: a row that came and went is left out."""
    listed, weight = ", ".join(quoted(name) for name in changes.column_names if name != WEIGHT), quoted(WEIGHT)
    sums = f"CAST(sum({weight}) AS BIGINT) AS {weight}"
    sql = f"SELECT {listed}, {sums} FROM {_CHANGES} GROUP BY {listed} HAVING sum({weight}) <> 0"
    return _run(sql, {_CHANGES: changes}, zone).cast(changes.schema)


# -- adding changes -------------------------------------------------------------------------------------------------------


def added(shape: ViewShape, changes: pa.Table, state: pa.Table, zone: str) -> pa.Table:
    """The new states of the groups that changed: `KEY`, `key(i)`, the state, `AGAIN`, whether it is to be computed anew, and the
    values as in `valued`.

    Args:
        shape: the query.
        changes: `KEY`, `key(i)`, the `arguments`, `WEIGHT`.
        state: `KEY` and the states of these groups as stored; groups without one are new.
        zone: the time zone of the query.
    """
    keys = [quoted(key(number)) for number in range(len(shape.keys))]
    values = [quoted(name) for name in arguments(shape)]
    parts = [_ROWS_ADDED, *chain.from_iterable(_added(number, one) for number, one in enumerate(shape.measures))]
    sums = [f"{sql} AS {name}" for part in parts for name, sql in part.sums.items()]
    listed = ", ".join([quoted(KEY), *keys, *values])
    own = "".join(f", any_value({one}) AS {one}" for one in keys)
    sql = f"""
        WITH net AS (
            SELECT {listed}, sum({quoted(WEIGHT)}) AS w FROM {_CHANGES} GROUP BY {listed} HAVING sum({quoted(WEIGHT)}) <> 0
        ), d AS (
            SELECT {quoted(KEY)}{own}, {", ".join(sums)} FROM net GROUP BY {quoted(KEY)}
        ), n AS (
            SELECT d.{quoted(KEY)}{"".join(f", d.{one}" for one in keys)},
                {", ".join(f"{part.value} AS {part.column}" for part in parts)},
                {" OR ".join(part.doubt for part in parts)} AS {AGAIN}
            FROM d LEFT JOIN {_STATE} s ON s.{quoted(KEY)} = d.{quoted(KEY)}
        )
        SELECT {", ".join(["*", *_values(shape)])} FROM n
    """
    return _run(sql, {_CHANGES: changes, _STATE: state}, zone)


class _Added(NamedTuple):
    """How a column of the state changes, in SQL. `sums`: aggregates over the net changes, of a weight `w`; `value`: the new value
    over those (`d`) and the stored state (`s`); `doubt`: whether it is to be computed anew."""

    column: str
    sums: Mapping[str, str]
    value: str
    doubt: str = "false"


def _number_added(column: str, sum_: str) -> _Added:
    """A number of rows or values, which cannot become negative unless the state is not that of the table."""
    made = f"CAST(coalesce(s.{column}, 0) + d.{column} AS BIGINT)"
    return _Added(column, {column: f"coalesce({sum_}, 0)"}, made, f"coalesce(s.{column}, 0) + d.{column} < 0")


_ROWS_ADDED = _number_added(quoted(ROWS), "sum(w)")


def _added(number: int, measure: Measure) -> Iterator[_Added]:
    x = quoted(_argument(number))
    if measure.is_extreme:
        yield _extreme_added(number, measure, x)
    elif measure.argument is not None:
        yield _number_added(quoted(_count(number)), f"sum(w) FILTER ({x} IS NOT NULL)")
        if measure.function != "count":
            column, wanted = quoted(_sum(number)), duck_name(_sum_type(measure))
            wide = f"DECIMAL(38,{measure.type.scale})" if pa.types.is_decimal(measure.type) else "HUGEINT"
            total = f"CAST(CAST(coalesce(s.{column}, 0) AS {wide}) + CAST(d.{column} AS {wide}) AS {wanted})"
            yield _Added(column, {column: f"coalesce(sum(CAST({x} AS {wide}) * CAST(w AS {wide})), 0)"}, total)


def _extreme_added(number: int, measure: Measure, x: str) -> _Added:
    """A minimum or maximum. It is in doubt if a value went that is not beyond it, and none came that is."""
    best, came, went = quoted(_best(number)), f"came{number}", f"went{number}"
    choose, beyond = ("least", "<=") if measure.function == "min" else ("greatest", ">=")
    sums = {came: f"{measure.function}({x}) FILTER (w > 0)", went: f"{measure.function}({x}) FILTER (w < 0)"}
    lost = f"d.{went} IS NOT NULL AND (s.{best} IS NULL OR d.{went} {beyond} s.{best})"
    doubt = f"({lost} AND NOT coalesce(d.{came} {beyond} s.{best}, false))"
    return _Added(best, sums, f"{choose}(s.{best}, d.{came})", doubt)


# -- the values of the aggregates -----------------------------------------------------------------------------------------


def valued(shape: ViewShape, groups: pa.Table, zone: str) -> pa.Table:
    """Groups with `KEY` and the columns `value(i)`: the aggregates that the states stand for."""
    columns = ["*", _key(groups.schema), *_values(shape)]
    return _run(f"SELECT {', '.join(columns)} FROM {_CHANGES}", {_CHANGES: groups}, zone)


def _values(shape: ViewShape) -> list[str]:
    return [f"{_value(number, one)} AS {quoted(value(number))}" for number, one in enumerate(shape.measures)]


def _value(number: int, measure: Measure) -> str:
    if measure.is_extreme:
        return quoted(_best(number))
    count = quoted(ROWS if measure.argument is None else _count(number))
    if measure.function == "count":
        return count
    total = quoted(_sum(number))
    if measure.function == "sum":
        return f"CASE WHEN {count} > 0 THEN {total} END"
    if pa.types.is_decimal(measure.type):
        made, _ = quotient(f"CAST({total} AS DECIMAL(38,{measure.type.scale}))", count, measure.type)
    else:
        made = f"CAST({total} AS DOUBLE) / {count}"
    return f"CASE WHEN {count} > 0 THEN {made} END"


def _run(sql: str, given: Mapping[str, pa.Table], zone: str) -> pa.Table:
    """The rows of a statement of DuckDB over tables in memory."""
    with spark_connected(zone, "a view table", sql) as connection, translated_errors():

        def evaluated() -> pa.Table:
            for name, rows in given.items():
                connection.register(name, rows)
            return connection.sql(sql).to_arrow_table()

        return connection.wait_for(evaluated)
