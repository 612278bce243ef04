"""Functions of vectors, which are ARRAYs of FLOAT. Sums are made as DOUBLE, element after element, as in Spark."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted
from lsmlake.dialect.context import Context
from lsmlake.dialect.failures import refused
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import FLOAT, array_of
from lsmlake.types.type_text import format_type

VECTOR = array_of(FLOAT)
AGGREGATES = ("vector_sum", "vector_avg")
_SUM = "coalesce(list_sum({0}), CAST(0 AS DOUBLE))"
_COMPLETE = "({0} IS NOT NULL AND list_position({0}, NULL) IS NULL)"
_OTHER_LENGTH = refused("'the vectors have different lengths; compare vectors of one length'")
_OTHER_DEGREE = refused("'there is no norm of this degree; write 1, 2 or infinity as a FLOAT'")

MACROS = {
    "spark_sum_of(a)": _SUM.format("a"),
    "spark_products(a, b)": "list_transform(list_zip(a, b), lambda e: CAST(e[1] AS DOUBLE) * CAST(e[2] AS DOUBLE))",
    "spark_differences(a, b)": "list_transform(list_zip(a, b), lambda e: CAST(e[1] AS DOUBLE) - CAST(e[2] AS DOUBLE))",
    "spark_norm(a, n)": "CASE n WHEN 1 THEN spark_sum_of(list_transform(a, lambda e: abs(CAST(e AS DOUBLE)))) "
    "WHEN 2 THEN sqrt(spark_sum_of(spark_products(a, a))) WHEN CAST('inf' AS FLOAT) "
    "THEN coalesce(list_max(list_transform(a, lambda e: abs(CAST(e AS DOUBLE)))), CAST(0 AS DOUBLE)) "
    f"ELSE {_OTHER_DEGREE} END",
    "spark_vector_norm(a, n)": f"CASE WHEN {_COMPLETE.format('a')} AND n IS NOT NULL THEN spark_norm(a, n) END",
    "spark_vector_normalize(a, n)": "CASE WHEN len(a) = 0 AND n IS NOT NULL THEN a WHEN spark_vector_norm(a, n) <> 0 "
    "THEN list_transform(a, lambda e: CAST(CAST(e AS DOUBLE) / spark_vector_norm(a, n) AS FLOAT)) END",
    **{
        f"spark_vector_{name}(a, b)": f"CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN len(a) <> len(b) THEN {_OTHER_LENGTH} "
        f"WHEN {_COMPLETE.format('a')} AND {_COMPLETE.format('b')} THEN {body} END"
        for name, body in {
            "inner_product": "spark_sum_of(spark_products(a, b))",
            "l2_distance": "sqrt(spark_sum_of(list_transform(spark_differences(a, b), lambda d: d * d)))",
            "cosine_similarity": "spark_sum_of(spark_products(a, b)) "
            "/ nullif(sqrt(spark_sum_of(spark_products(a, a)) * spark_sum_of(spark_products(b, b))), 0)",
        }.items()
    },
}
"""Head -> body."""


def _vector(context: Context, node: exp.Expression, made: Typed) -> str:
    if made.type != VECTOR:
        context.text.refuse(node, "expected an ARRAY<FLOAT>", found=format_type(made.type), cure="cast it to ARRAY<FLOAT>")
    return made.sql


def _of_two(name: str) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        sides = zip(arguments, counted(context, node, arguments, 2), strict=True)
        left, right = (_vector(context, one, given) for one, given in sides)
        return Typed(f"CAST(spark_vector_{name}({left}, {right}) AS FLOAT)", FLOAT)

    return made


def _of_norm(template: str, gives: pa.DataType) -> Function:
    """A function of a vector and the degree of a norm."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        given, *degree = counted(context, node, arguments, 1, 2)
        if degree and degree[0].type != FLOAT:
            context.text.refuse(
                arguments[1], "the degree of a norm is a FLOAT", found=format_type(degree[0].type), cure="write 2F"
            )
        by = degree[0].sql if degree else "CAST(2 AS FLOAT)"
        return Typed(template.format(_vector(context, arguments[0], given), by), gives)

    return made


def aggregated(name: str, arguments: list[tuple[str, pa.DataType]], over: Callable[[str], str]) -> tuple[str, pa.DataType] | None:
    """An aggregate of a column; None for other types. Vectors with a null are left out."""
    (sql, kind), *more = arguments
    if kind != VECTOR or more:
        return None
    element = "list_reduce(list_transform(v, lambda r: r[i]), lambda x, y: CAST(x + y AS FLOAT))"
    if name == "vector_avg":
        element = f"CAST({_SUM.format('list_transform(v, lambda r: CAST(r[i] AS DOUBLE))')} / len(v) AS FLOAT)"
    each = f"list_transform(range(1, len(v[1]) + 1), lambda i: {element})"
    lengths = "len(list_distinct(list_transform(v, lambda r: len(r)))) > 1"
    body = f"CASE WHEN len(v) = 0 THEN NULL WHEN {lengths} THEN {_OTHER_LENGTH} ELSE {each} END"
    complete = f"list_filter({over(f'list({sql})')}, lambda r: {_COMPLETE.format('r')})"
    return f"list_transform([{complete}], lambda v: {body})[1]", VECTOR


FUNCTIONS: dict[str, Function] = {
    "vector_cosine_similarity": _of_two("cosine_similarity"),
    "vector_inner_product": _of_two("inner_product"),
    "vector_l2_distance": _of_two("l2_distance"),
    "vector_norm": _of_norm("CAST(spark_vector_norm({0}, {1}) AS FLOAT)", FLOAT),
    "vector_normalize": _of_norm("spark_vector_normalize({0}, {1})", VECTOR),
}
