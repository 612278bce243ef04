"""WITH RECURSIVE: a query that names itself, `anchor UNION ALL step`.

The rows of each level carry its number in a hidden column, so that a recursion without end fails after as many levels as in
Spark, rather than fill the memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from lsmlake.dialect.cast import cast
from lsmlake.dialect.failures import refused
from lsmlake.dialect.queries import Queries, Query
from lsmlake.dialect.types import INT, common, duck_name, quoted, text
from lsmlake.schema.type_text import format_type

_LEVEL, _COUNT = "#level", quoted("#count")
_LEVELS_MAX, _ROWS_MAX = 100, 1_000_000
"""As `spark.sql.cteRecursionLevelLimit` and `spark.sql.cteRecursionRowLimit` are by default; rows are counted level by level."""


def is_recursive(cte: exp.CTE) -> bool:
    """Whether a query of WITH names itself."""
    name = cte.alias.lower()
    return any(one.name.lower() == name and not dict.get(one.args, "db") for one in cte.this.find_all(exp.Table))


def recursive(queries: Queries, cte: exp.CTE, ctes: Mapping[str, Query]) -> tuple[str, Query]:
    """The relations of DuckDB that the query becomes, and how other queries read it."""
    body, say = cte.this, queries.text
    if not isinstance(body, exp.Union) or body.args.get("distinct") or not isinstance(body.expression, exp.Select):
        say.refuse(cte, f"the recursive query {cte.alias} is not supported", expected="query UNION ALL SELECT ...")
    anchor, name, visible = queries.renamed(cte, queries.query(body.this, ctes, None)), queries.fresh("cte"), queries.fresh("cte")
    if any(kind is None for _, kind in anchor.columns):
        say.refuse(cte, "a column of a recursive query needs a type", cure="cast it to a type")
    inside = {**ctes, cte.alias.lower(): Query(name, (*anchor.columns, (_LEVEL, INT)))}
    step = queries.query(_with_level(queries, body.expression), inside, None)
    if len(step.columns) != len(anchor.columns) + 1:
        what = "both parts of a recursive query must have the same number of columns, without *"
        say.refuse(cte, what, found=f"{len(anchor.columns)} and {len(step.columns) - 1}")
    parts = []
    for place, ((label, kind), (_, found)) in enumerate(zip(anchor.columns, step.columns, strict=False)):
        made = cast(quoted(f"#{place}"), found, kind) if common(kind, found) == kind else None
        if made is None:
            say.refuse(
                cte, f"column {label} of the recursion has another type", expected=format_type(kind), found=format_type(found)
            )
        parts.append(f"CAST({made} AS {duck_name(kind)}) AS {quoted(f'#{place}')}")
    level = quoted(f"#{len(parts)}")
    many = refused(text(f"the recursive query {cte.alias} has more than {_LEVELS_MAX} levels; add a condition that ends it"))
    wide = refused(text(f"a level of the recursive query {cte.alias} has more than {_ROWS_MAX:,} rows; add a condition"))
    # in WHERE, so that no reader of the result can leave the test out
    test = f"CASE WHEN {level} >= {_LEVELS_MAX} THEN {many} WHEN {_COUNT} > {_ROWS_MAX} THEN {wide} ELSE true END"
    names = [quoted(f"#{place}") for place in range(len(parts))]
    kinds = (duck_name(kind) for _, kind in anchor.columns)
    first = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in zip(names, kinds, strict=True))
    counted = f"SELECT *, count(*) OVER () AS {_COUNT} FROM ({step.sql})"
    union = f"SELECT {first}, 0 AS {level} FROM ({anchor.sql}) UNION ALL "
    union += f"SELECT {', '.join(parts)}, {level} + 1 AS {level} FROM ({counted}) WHERE {test}"
    return f"{name} AS ({union}), {visible} AS (SELECT {', '.join(names)} FROM {name})", Query(visible, anchor.columns)


def _with_level(queries: Queries, step: exp.Select) -> exp.Select:
    """The step with the level of its rows as a last column."""
    refused_here = next((key for key in ("group", "having", "distinct", "order", "limit", "offset") if step.args.get(key)), None)
    if refused_here is not None:
        queries.text.refuse(
            step, f"{refused_here.upper()} is not supported in the step of a recursive query", cure="put it outside"
        )
    made = exp.Select(**{key: step.args.get(key) for key in list(step.args)})
    made.set("expressions", [*step.expressions, exp.column(_LEVEL, quoted=True)])
    return made
