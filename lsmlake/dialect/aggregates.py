"""The aggregate and window functions of Spark SQL that have an equal in DuckDB, by name.

Also translates aggregates of pairs of numbers, such as regr_slope, and the skewness.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lsmlake.dialect import vectors
from lsmlake.dialect.casts import cast
from lsmlake.dialect.sql_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    array_of,
    duck_name,
    is_number,
    one_zero,
)
from lsmlake.types.intervals import Interval, is_calendar, is_interval

Over = Callable[[str], str]
"""Adds FILTER and OVER to a call of DuckDB."""


def aggregate(name: str, arguments: list[tuple[str, pa.DataType]], distinct: bool, over: Over) -> tuple[str, pa.DataType] | None:
    """An aggregate of these (SQL, type) arguments as (SQL, type); None if it is not known for these types."""
    prefix = "DISTINCT " if distinct else ""
    if distinct or name in _OF_EQUAL:
        arguments = [(one_zero(sql, kind), kind) for sql, kind in arguments]
    if name not in _OF_ANY and any(is_calendar(kind) for _, kind in arguments):
        return None
    if name in _OF_NUMBERS:
        arguments = [(cast(sql, kind, DOUBLE), DOUBLE) if kind == STRING else (sql, kind) for sql, kind in arguments]
    if name in _PAIRS:
        return None if distinct else aggregated(name, arguments, over)
    if name in vectors.AGGREGATES:
        return vectors.aggregated(name, arguments, over) if not distinct else None
    if name == "count":
        if len(arguments) > 1:
            row = ", ".join(sql for sql, _ in arguments)
            complete = " AND ".join(f"({sql}) IS NOT NULL" for sql, _ in arguments)
            return over(f"count({prefix}CASE WHEN {complete} THEN row({row}) END)"), BIGINT
        return over(f"count({prefix}{arguments[0][0]})"), BIGINT
    if len(arguments) == 2 and name in ("max_by", "min_by", "corr", "covar_pop", "covar_samp") and not distinct:
        (a, kind), (b, other) = arguments
        if name in ("max_by", "min_by"):
            return over(f"{'arg_max_null' if name == 'max_by' else 'arg_min_null'}({a}, {b})"), kind
        if is_number(kind) and is_number(other):
            both = f"(CAST({a} AS DOUBLE), CAST({b} AS DOUBLE))"
            call = over(f"{name}{both}")
            if name == "corr":  # null for values that are all the same; DuckDB gives NaN
                call = f"CASE WHEN {over(f'regr_sxx{both}')} = 0 OR {over(f'regr_syy{both}')} = 0 THEN NULL ELSE {call} END"
            return call, DOUBLE
        return None
    if len(arguments) == 2 and name in ("string_agg", "listagg") and arguments[0][1] == arguments[1][1] == STRING:
        return over(f"string_agg({prefix}{arguments[0][0]}, {arguments[1][0]})"), STRING
    if name in _PERCENTILES and len(arguments) in _PERCENTILES[name] and not distinct:
        return _percentile(name, *arguments[:2], over)
    if len(arguments) != 1:
        return None
    (sql, kind), t = arguments[0], pa.types
    if name in SUMS and "+" in sql:  # DuckDB would make sum(x) + count(x) of sum(x + 1), which does not fail where x + 1 does
        sql = f"coalesce({sql}, NULL)"
    if name in SUMS and is_interval(kind):
        return _of_intervals(name, prefix + sql, kind, over)
    if name in SUMS and (is_number(kind) or kind == NULL):
        word = "TRY_CAST" if name.startswith("try") else "CAST"
        return _sum(prefix + sql, kind, over, word) if name.endswith("sum") else _avg(prefix + sql, kind, over)
    if name in ("sum", "avg", "mean") and kind == TIMESTAMP:  # its seconds since 1970
        return over(f"{'sum' if name == 'sum' else 'avg'}({prefix}CAST(epoch_us({sql}) AS DOUBLE) / 1000000)"), DOUBLE
    if name in ("min", "max") and not t.is_nested(kind):
        return over(f"{name}({sql})"), kind
    if name in ("first", "first_value", "last", "last_value", "any_value") and not distinct:
        return over(f"{'last' if name.startswith('last') else 'first'}({sql})"), kind
    if name in ("bool_and", "every", "bool_or", "some", "any") and kind == BOOLEAN:
        return over(f"{'bool_and' if name in ('bool_and', 'every') else 'bool_or'}({sql})"), BOOLEAN
    if name == "count_if" and kind == BOOLEAN:
        return None if distinct else (over(f"count(CASE WHEN {sql} THEN 1 END)"), BIGINT)
    if name in _SPREADS and is_number(kind):
        return over(f"{_SPREADS[name]}({prefix}CAST({sql} AS DOUBLE))"), DOUBLE
    if name == "median" and (is_number(kind) or is_interval(kind)):
        return _interpolated(prefix + f"CAST({sql} AS DOUBLE)", kind, "0.5", over)
    if name in ("collect_list", "array_agg", "collect_set"):
        call = over(f"list({'DISTINCT ' if name == 'collect_set' else prefix}{sql})")
        return f"coalesce(list_filter({call}, lambda e: e IS NOT NULL), [])", array_of(kind)
    if name == "approx_count_distinct" and not distinct:
        return over(f"approx_count_distinct({sql})"), BIGINT
    if name in ("bit_and", "bit_or", "bit_xor") and t.is_integer(kind):
        return over(f"{name}({prefix}{sql})"), kind
    if name == "mode" and not distinct:
        return over(f"mode({sql})"), kind
    if name == "kurtosis" and is_number(kind):
        return over(f"kurtosis_pop({prefix}CAST({sql} AS DOUBLE))"), DOUBLE
    if name in ("string_agg", "listagg") and kind == STRING:
        return over(f"string_agg({prefix}{sql}, '')"), STRING
    return None


_OF_ANY = (
    "count", "first", "first_value", "last", "last_value", "any_value", "collect_list", "collect_set", "array_agg",
)  # fmt: skip
"""Aggregates that take values of every type, also of types without an order."""
_OF_EQUAL = ("collect_set", "mode")
"""Aggregates that compare their values."""
SUMS = ("sum", "avg", "mean", "try_sum", "try_avg")
"""Aggregates that add up their values."""


def _of_intervals(name: str, argument: str, kind: Interval, over: Over) -> tuple[str, pa.DataType]:
    """The sum of intervals, or their average rounded half up. A sum out of range is an error, or null if the name says `try`."""
    total = f"{'TRY_CAST' if name.startswith('try') else 'CAST'}({over(f'sum({argument})')} AS {duck_name(kind)})"
    if name.endswith("sum"):
        return total, kind
    made = f"spark_whole_quotient(CAST({total} AS HUGEINT), CAST({over(f'count({argument})')} AS HUGEINT))"
    return f"CAST({made} AS {duck_name(kind)})", kind.whole


_SPREADS = {
    "stddev": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "std": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
}


_PERCENTILES = {
    "percentile": (2,),
    "percentile_cont": (2,),
    "percentile_disc": (2,),
    "percentile_approx": (2, 3),
    "approx_percentile": (2, 3),
}
"""Name -> numbers of arguments. The approximate ones are exact here."""


def negated(sql: str, kind: pa.DataType) -> tuple[str, pa.DataType]:
    """A number or an interval with the other sign: the order of negated values is the descending order."""
    return (f"CAST(-({sql}) AS {duck_name(kind)})", kind) if is_interval(kind) else (f"(-CAST({sql} AS DOUBLE))", DOUBLE)


def _percentile(
    name: str, value: tuple[str, pa.DataType], part: tuple[str, pa.DataType], over: Over
) -> tuple[str, pa.DataType] | None:
    (sql, kind), (share, share_type) = value, part
    if not (is_number(kind) or is_interval(kind)) or not is_number(share_type):
        return None
    share = f"CAST({share} AS DOUBLE)"
    if name in ("percentile", "percentile_cont"):
        return _interpolated(f"CAST({sql} AS DOUBLE)", kind, share, over)
    if name == "percentile_disc" and not is_interval(kind):
        return over(f"quantile_disc(CAST({sql} AS DOUBLE), {share})"), DOUBLE
    return over(f"quantile_disc({sql}, {share})"), kind.whole if name == "percentile_disc" else kind


def _interpolated(argument: str, kind: pa.DataType, share: str, over: Over) -> tuple[str, pa.DataType]:
    """A percentile, interpolated between two values, as a DOUBLE; for intervals its fraction is cut off."""
    made = over(f"quantile_cont({argument}, {share})")
    return (f"CAST(trunc({made}) AS {duck_name(kind)})", kind.whole) if is_interval(kind) else (made, DOUBLE)


def _sum(argument: str, kind: pa.DataType, over: Over, word: str) -> tuple[str, pa.DataType]:
    """A sum of numbers. `word`: CAST, or TRY_CAST, which gives null where the sum is out of range."""
    t = pa.types
    if t.is_floating(kind) or kind == NULL:
        return over(f"sum({_as_double(argument, kind)})"), DOUBLE
    wanted = BIGINT if t.is_integer(kind) else pa.decimal128(min(38, kind.precision + 10), kind.scale)
    return f"{word}({over(f'sum({argument})')} AS {duck_name(wanted)})", wanted


def _avg(argument: str, kind: pa.DataType, over: Over) -> tuple[str, pa.DataType] | None:
    if not pa.types.is_decimal(kind):
        return over(f"avg({_as_double(argument, kind)})"), DOUBLE
    if kind.precision + 4 > 28:
        return None
    return quotient(over(f"sum({argument})"), over(f"count({argument})"), kind)


def quotient(total: str, count: str, kind: pa.DataType) -> tuple[str, pa.DataType]:
    """The average of decimals of a type, rounded half up, given their sum and their number."""
    scale, digits = kind.scale + 4, kind.precision + 4
    zeros = f"CAST(1{'0' * scale} AS HUGEINT)"
    unscaled = f"CAST({total} * CAST({zeros} AS DECIMAL({scale + 1},0)) AS HUGEINT)"
    made = f"CAST(spark_whole_quotient({unscaled}, CAST({count} AS HUGEINT)) AS DECIMAL(38,0))"
    wanted = pa.decimal128(digits, scale)
    return f"CAST({made} * {unit(scale)} AS {duck_name(wanted)})", wanted


def unit(scale: int) -> str:
    """The least positive decimal of a scale: multiplying unscaled digits by it makes them a decimal."""
    return f"CAST('{'0.' + '0' * (scale - 1) + '1' if scale else '1'}' AS DECIMAL({scale + 1},{scale}))"


def _as_double(argument: str, kind: pa.DataType) -> str:
    if argument.startswith("DISTINCT "):
        return argument if kind == DOUBLE else f"DISTINCT CAST({argument.removeprefix('DISTINCT ')} AS DOUBLE)"
    return argument if kind == DOUBLE else f"CAST({argument} AS DOUBLE)"


_DOUBLES = tuple(f"regr_{what}" for what in ("avgx", "avgy", "intercept", "r2", "slope", "sxx", "sxy", "syy"))
_PAIRS = ("regr_count", *_DOUBLES, "skewness")
_OF_NUMBERS = {
    "sum", "avg", "mean", "try_sum", "try_avg", "median", "kurtosis", "corr", "covar_pop", "covar_samp", *_SPREADS,
    *_PAIRS,
} - {"regr_count"}  # fmt: skip
"""Aggregates for which text becomes a DOUBLE."""
AGGREGATES = frozenset(
    (
        "count", "sum", "avg", "mean", "min", "max", "first", "first_value", "last", "last_value", "any_value", "bool_and",
        "every", "bool_or", "some", "any", "count_if", "median", "collect_list", "array_agg", "max_by", "min_by", "corr",
        "covar_pop", "covar_samp", "collect_set", "approx_count_distinct", "bit_and", "bit_or", "bit_xor", "mode", "kurtosis",
        "string_agg", "listagg", "try_sum", "try_avg", *_PERCENTILES, *_SPREADS, *_PAIRS, *vectors.AGGREGATES,
    )
)  # fmt: skip

GROUPING = ("grouping", "grouping_id")
"""Functions of the grouping set of a group."""

PERCENTILES_WITHIN = ("percentile_cont", "percentile_disc")
"""Aggregates whose values stand in WITHIN GROUP."""
UNORDERED = ("median", "percentile", "percentile_cont", "percentile_disc")
"""Aggregates that take a whole partition in OVER."""
RANKS = {"row_number": INT, "rank": INT, "dense_rank": INT, "percent_rank": DOUBLE, "cume_dist": DOUBLE}
"""Window functions without arguments -> the type of their result."""
SHIFTS = ("lag", "lead")


def aggregated(name: str, arguments: list[tuple[str, pa.DataType]], over: Callable[[str], str]) -> tuple[str, pa.DataType] | None:
    """An aggregate of these (SQL, type) arguments; None for other types."""
    if name == "regr_count" and len(arguments) == 2:
        return over(f"regr_count({_pairs(arguments)})"), BIGINT
    if not all(is_number(kind) or kind == NULL for _, kind in arguments):
        return None
    if name == "skewness" and len(arguments) == 1:
        return _skewness(over(f"list(CAST({arguments[0][0]} AS DOUBLE))")), DOUBLE
    return (over(f"{name}({_pairs(arguments)})"), DOUBLE) if name in _DOUBLES and len(arguments) == 2 else None


def _pairs(arguments: list[tuple[str, pa.DataType]]) -> str:
    """Both arguments as DOUBLE. A value of another type, which only `regr_count` takes, becomes 1; a null stays null."""
    return ", ".join(
        f"CASE WHEN ({sql}) IS NOT NULL THEN CAST({'1' if kind != NULL and not is_number(kind) else sql} AS DOUBLE) END"
        for sql, kind in arguments
    )


def _skewness(values: str) -> str:
    """The skewness of a list of all values; DuckDB's own function gives that of a sample."""
    apart = "list_transform(v, lambda e: e - list_avg(v))"
    squares, cubes = (f"list_sum(list_transform({apart}, lambda d: {power}))" for power in ("d * d", "d * d * d"))
    skewed = f"sqrt(len(v)) * {cubes} / nullif(pow({squares}, 1.5), 0)"
    return f"list_transform([list_filter({values}, lambda e: e IS NOT NULL)], lambda v: {skewed})[1]"
