"""Translates queries of Spark SQL to DuckDB: SELECT, set operations, VALUES and WITH.

Output columns are named `#0`, `#1`, ... inside of DuckDB, relations `r1`, `r2`, ..., so no name of the text captures another. A
table of the catalog is a `TableUse`: the caller makes the view of that name before it runs the query, and may use the conditions
that were found for the table to read less; DuckDB applies them again.

WITH RECURSIVE: a query that names itself, `anchor UNION ALL step`.

The rows of each level carry its number in a hidden column, so that a recursion without end fails after as many levels as in
Spark, rather than fill the memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.casts import cast
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.failures import refused
from lsmlake.dialect.queries import Queries, Query, relation_of
from lsmlake.dialect.scope import UNKNOWN, Known, Scope, Shared, Typed
from lsmlake.dialect.select import Select
from lsmlake.dialect.sorting import limits, of_outputs, sorting
from lsmlake.dialect.sql_text import peek
from lsmlake.dialect.sql_types import INT, common, duck_name, quoted, result_sql, text, without_null
from lsmlake.types.type_text import format_type


@dataclass
class QueryTranslator(Queries):
    """Translates the queries of one text."""

    def query(self, node: exp.Expression, ctes: Mapping[str, Query] | None = None, outer: Scope | None = None) -> Query:
        ctes = dict(ctes or {})
        prefix = self._with(node, ctes, outer)
        match node:
            case exp.Subquery():
                made = self.query(node.this, ctes, outer)
                if node.args.get("order") or node.args.get("limit") or node.args.get("offset"):
                    made = self._sorted(node, made, ctes, outer)
            case exp.Select():
                made = Select(self, node, ctes, outer).query()
            case exp.SetOperation():
                made = self._set_operation(node, ctes, outer)
            case exp.Values():
                made = self._values(node, ctes)
            case exp.Table():  # TABLE name
                made = self.query(exp.Select(expressions=[exp.Star()], from_=exp.From(this=node)), ctes, outer)
            case _:
                self.text.refuse(node, "this is not a query", cure="write SELECT ...")
        return replace(made, sql=prefix + made.sql)

    def expressions(self, scope: Scope, ctes: Mapping[str, Query] | None = None) -> Translator:
        """A translator for expressions outside of queries, which may hold queries. `ctes`: see `named`."""
        return self.translator(scope, ctes or {})

    def named(self, node: exp.With | None) -> dict[str, Query]:
        """The queries of a WITH before a statement that is no query. Their SQL stands where their names are used."""
        ctes: dict[str, Query] = {}
        for cte in () if node is None else node.expressions:
            if cte.alias.lower() in ctes:
                self.text.refuse(cte, f"WITH names {cte.alias} twice", cure="give each query a name of its own")
            made = self.renamed(cte, self.query(cte.this, ctes))
            ctes[cte.alias.lower()] = replace(made, sql=f"({made.sql})", shared=Shared())
        return ctes

    def _with(self, node: exp.Expression, ctes: dict[str, Query], outer: Scope | None) -> str:
        clause = node.args.get("with_")
        if clause is None:
            return ""
        parts, names = [], set()
        for cte in clause.expressions:
            if cte.alias.lower() in names:
                self.text.refuse(cte, f"WITH names {cte.alias} twice", cure="give each query a name of its own")
            names.add(cte.alias.lower())
            if clause.args.get("recursive") and is_recursive(cte):
                part, ctes[cte.alias.lower()] = recursive(self, cte, ctes)
                parts.append(part)
                continue
            name = self.fresh("cte")
            made = self.renamed(cte, self.query(cte.this, ctes, outer))
            parts.append(f"{name} AS ({made.sql})")
            ctes[cte.alias.lower()] = replace(made, sql=name, shared=Shared())
        return f"WITH {'RECURSIVE ' if clause.args.get('recursive') else ''}{', '.join(parts)} "

    def _set_operation(self, node: exp.SetOperation, ctes: Mapping[str, Query], outer: Scope | None) -> Query:
        left, right = (self.query(side, ctes, outer) for side in (node.this, node.expression))
        if len(left.columns) != len(right.columns):
            counts = f"{len(left.columns)} and {len(right.columns)}"
            self.text.refuse(
                node, "both queries must have the same number of columns", found=counts, cure="select as many columns in each"
            )
        columns = []
        for (name, a), (_, b) in zip(left.columns, right.columns, strict=True):
            kind = common(a, b)
            if kind is None:
                types = f"{format_type(a)} and {format_type(b)}"
                self.text.refuse(node, f"the types of column {name} do not fit together", found=types, cure="cast one of them")
            columns.append((name, kind))
        word = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}[type(node)]
        every = not node.args.get("distinct")
        equal = not (every and word == "UNION")  # rows are compared
        sides = [self._typed_as(node, side, columns, equal) for side in (left, right)]
        both = f"{sides[0]} {word}{' ALL' if every else ''} {sides[1]}"
        known = tuple(_united(*four) for four in zip(left.columns, left.all_known, right.columns, right.all_known, strict=True))
        return self._sorted(node, Query(both, tuple(columns), known=known), ctes, outer)

    def _sorted(self, node: exp.Expression, query: Query, ctes: Mapping[str, Query], outer: Scope | None) -> Query:
        """A whole query with the ORDER BY, LIMIT and OFFSET of a node."""
        name = self.fresh()
        scope = Scope((relation_of(name, (), query),), outer=outer)
        made = sorting(self.translator(scope, ctes), node, of_outputs(query.columns, name), name, scope)
        order, limit = f" ORDER BY {', '.join(made.items)}" if made.items else "", limits(self.text, node)
        whole = replace(query, sql=f"SELECT * FROM ({query.sql}) AS {name}{order}{limit}")
        return whole.placeless if limit else whole

    def _typed_as(self, node: exp.Expression, query: Query, columns: Sequence[tuple[str, pa.DataType]], equal: bool) -> str:
        """A side of a set operation, with columns of these types. `equal`: its rows are compared."""
        translator = Translator(self.text, Scope(()))
        parts = [
            Typed(translator.converted(node, Typed(quoted(f"#{i}"), kind), wanted), wanted)
            for i, ((_, kind), (_, wanted)) in enumerate(zip(query.columns, columns, strict=True))
        ]
        sqls = self.compared(node, parts) if equal else [one.sql for one in parts]
        listed = ", ".join(f"{sql} AS {quoted(f'#{i}')}" for i, sql in enumerate(sqls))
        return f"SELECT {listed} FROM ({query.sql}) AS {self.fresh()}"

    def _values(self, node: exp.Values, ctes: Mapping[str, Query]) -> Query:
        translator = self.translator(Scope(()), ctes)
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
        if len({len(row) for row in rows}) != 1:
            self.text.refuse(node, "the rows of VALUES have different lengths", cure="give each row as many values")
        if not rows[0]:
            self.text.wrong(node, "a row of VALUES has no values", cure="give it values")
        columns = [translator.unified(cells, [translator.typed(cell) for cell in cells]) for cells in zip(*rows, strict=True)]
        lines = ", ".join(f"({', '.join(row)})" for row in zip(*(sqls for sqls, _ in columns), strict=True))
        names = ", ".join(quoted(f"#{i}") for i in range(len(columns)))
        made = tuple((f"col{i}", kind) for i, (_, kind) in enumerate(columns, 1))
        query = Query(f"SELECT * FROM (VALUES {lines}) AS {self.fresh()}({names})", made)
        if node.args.get("order") or node.args.get("limit") or node.args.get("offset"):
            return self._sorted(node, query, ctes, None)
        return query


def _united(a: tuple[str, pa.DataType], left: Known, b: tuple[str, pa.DataType], right: Known) -> Known:
    """The facts known of a column of a set operation. A condition on it applies to the rows of both sides."""
    return Known(left.declared, (*left.origins, *right.origins)) if a[1] == b[1] else Known(left.declared)


def run_sql(query: Query) -> str:
    """The statement that gives the result of a query, with the types of its columns."""
    casts = ", ".join(
        f"{result_sql(quoted(f'#{i}'), without_null(kind))} AS {quoted(f'#{i}')}" for i, (_, kind) in enumerate(query.columns)
    )
    return f"SELECT {casts} FROM ({query.sql})"


_LEVEL, _COUNT = "#level", quoted("#count")
_LEVELS_MAX, _ROWS_MAX = 100, 1_000_000
"""The defaults of `spark.sql.cteRecursionLevelLimit` and `spark.sql.cteRecursionRowLimit`; rows are counted level by level."""
_LEFT_STAYS = ("LEFT", "SEMI", "ANTI")
_NOT_IN_A_STEP = ("with_", "group", "having", "distinct", "order", "limit", "offset")


def is_recursive(cte: exp.CTE) -> bool:
    """Whether a query of WITH names itself."""
    name = cte.alias.lower()
    return any(_names(one, name) for one in cte.this.find_all(exp.Table))


def recursive(queries: Queries, cte: exp.CTE, ctes: Mapping[str, Query]) -> tuple[str, Query]:
    """The SQL of the relations that a recursive query becomes, and the query as others read it."""
    body, say = cte.this, queries.text
    if not isinstance(body, exp.Union) or body.args.get("distinct") or not isinstance(body.expression, exp.Select):
        say.refuse(
            cte,
            f"the recursive query {cte.alias} is not supported",
            expected="query UNION ALL SELECT ...",
            cure="write it in the expected form",
        )
    anchor = queries.renamed(cte, queries.query(body.this, ctes, None)).placeless  # a row of the anchor may lead to other rows
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
    for place, ((label, kind), (_, step_kind)) in enumerate(zip(anchor.columns, step.columns, strict=False)):
        made = cast(quoted(f"#{place}"), step_kind, kind) if common(kind, step_kind) == kind else None
        if made is None:
            say.refuse(
                cte,
                f"column {label} of the recursion has another type",
                expected=format_type(kind),
                found=format_type(step_kind),
                cure="cast it to the expected type",
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
    identifier = dict.get(node.args, "this") if isinstance(node, exp.Table) else None
    return isinstance(identifier, exp.Identifier) and identifier.name.lower() == name and not dict.get(node.args, "db")
