"""WITH RECURSIVE: a query that names itself, `anchor UNION ALL step`.

The rows of each level carry its number in a hidden column, so that a recursion without end fails after as many levels as in
Spark, rather than fill the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from lsmlake.dialect.cast import cast
from lsmlake.dialect.failures import refused
from lsmlake.dialect.known import UNKNOWN
from lsmlake.dialect.queries import Queries, Query
from lsmlake.dialect.reading import peek
from lsmlake.dialect.select import Select
from lsmlake.dialect.types import INT, common, duck_name, quoted, text
from lsmlake.types.type_text import format_type

_LEVEL, _COUNT = "#level", quoted("#count")
_LEVELS_MAX, _ROWS_MAX = 100, 1_000_000
"""As `spark.sql.cteRecursionLevelLimit` and `spark.sql.cteRecursionRowLimit` are by default; rows are counted level by level."""
_LEFT_STAYS = ("LEFT", "SEMI", "ANTI")
_NOT_IN_A_STEP = ("with_", "group", "having", "distinct", "order", "limit", "offset")


def is_recursive(cte: exp.CTE) -> bool:
    """Whether a query of WITH names itself."""
    name = cte.alias.lower()
    return any(_names(one, name) for one in cte.this.find_all(exp.Table))


def recursive(queries: Queries, cte: exp.CTE, ctes: Mapping[str, Query]) -> tuple[str, Query]:
    """The relations of DuckDB that the query becomes, and how other queries read it."""
    body, say = cte.this, queries.text
    if not isinstance(body, exp.Union) or body.args.get("distinct") or not isinstance(body.expression, exp.Select):
        say.refuse(cte, f"the recursive query {cte.alias} is not supported", expected="query UNION ALL SELECT ...")
    anchor = queries.renamed(cte, queries.query(body.this, ctes, None)).placeless  # each row of it may lead to others
    name, visible = queries.fresh("cte"), queries.fresh("cte")
    inside = {
        **ctes,
        cte.alias.lower(): replace(
            anchor,
            sql=name,
            columns=(*anchor.columns, (_LEVEL, INT)),
            known=(*anchor.all_known, UNKNOWN),
        ),
    }
    _check(queries, body.expression, cte.alias.lower())
    step = Select(queries, body.expression, inside, None, (exp.column(_LEVEL, quoted=True),)).query()
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
    return f"{name} AS ({union}), {visible} AS (SELECT {', '.join(names)} FROM {name})", replace(anchor, sql=visible)


def _check(queries: Queries, step: exp.Select, name: str) -> None:
    """Refuses a step whose rows do not come from single rows of the level before."""
    clause = next((key for key in _NOT_IN_A_STEP if peek(step, key)), None)
    if clause is not None:
        what = f"{clause.strip('_').upper()} is not supported in the step of a recursive query"
        queries.text.refuse(step, what, cure="put it outside")
    sources = [peek(step, "from_"), *(peek(step, "joins") or ())]
    places = [place for place, one in enumerate(sources) if one is not None and _names(peek(one, "this"), name)]
    if len(places) != 1 or sum(_names(one, name) for one in step.find_all(exp.Table)) != 1:
        queries.text.refuse(step, f"the step of the recursive query {name} names it once, in FROM", cure="join the rest")
    for place, join in enumerate(sources[1:], 1):
        side = (peek(join, "side") or peek(join, "kind") or "").upper()
        optional = (*_LEFT_STAYS, "FULL") if place == places[0] else ("RIGHT", "FULL") if place > places[0] else ()
        if side in optional:
            what = f"the recursive query {name} cannot stand on this side of a {side} JOIN"
            queries.text.refuse(join, what, cure="exchange the sides, or use JOIN")


def _names(node: exp.Expression, name: str) -> bool:
    """Whether a node is the table or query of this name."""
    found = dict.get(node.args, "this") if isinstance(node, exp.Table) else None
    return isinstance(found, exp.Identifier) and found.name.lower() == name and not dict.get(node.args, "db")
