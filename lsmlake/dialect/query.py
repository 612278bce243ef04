"""Translates queries of Spark SQL to DuckDB: SELECT with joins, CTEs, subqueries and windows, set operations and VALUES.

Output columns are named `#0`, `#1`, ... inside of DuckDB, relations `r1`, `r2`, ..., so no name of the text captures another. A
table of the catalog is a `TableUse`: the caller makes the view of that name before it runs the query, and may use the conditions
that were found for the table to read less; DuckDB applies them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.expression import Translator
from lsmlake.dialect.generators import Generated, generated, is_generator
from lsmlake.dialect.grouping import grouped, sets_of
from lsmlake.dialect.reading import peek
from lsmlake.dialect.scope import Column, Relation, Scope, Typed
from lsmlake.dialect.table_use import TableUse, push
from lsmlake.dialect.text import Text
from lsmlake.dialect.types import BOOLEAN, NULL, common, duck_name, of_column, quoted
from lsmlake.dialect.view_use import ViewUse
from lsmlake.dialect.windows import ordered
from lsmlake.schema.type_text import format_type


@dataclass(frozen=True)
class Query:
    """A translated query: `columns` are the names and types of its output, which `sql` names `#0`, `#1`, ..."""

    sql: str
    columns: tuple[tuple[str, pa.DataType], ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the output; a column of NULLs is INT."""
        return pa.schema([(name, pa.int32() if kind == NULL else kind) for name, kind in self.columns])


@dataclass(frozen=True)
class _From:
    """FROM and its joins. `uses`: relation -> the table that it is. `kept`: relations whose rows an outer join never invents."""

    sql: str
    scope: Scope
    uses: Mapping[int, TableUse]
    kept: frozenset[int]


Catalog = Callable[[exp.Table], pa.Schema | ViewUse]
_GENERATED = "#generated"
"""The qualifier of what a generator in SELECT gives: the text cannot name it."""


@dataclass
class QueryTranslator:
    """Translates the queries of one text.

    Attributes:
        uses: the tables of the catalog that they read, in the order of the text.
        within: the query of a view that the text is.
    """

    text: Text
    catalog: Catalog
    now: str | None = None
    uses: list[TableUse] = field(default_factory=list)
    within: exp.Expression | None = None
    _numbers: count = field(default_factory=lambda: count(1))

    def query(self, node: exp.Expression, ctes: Mapping[str, Query] | None = None, outer: Scope | None = None) -> Query:
        """The translation of a SELECT, a set operation or VALUES."""
        ctes = dict(ctes or {})
        prefix = self._with(node, ctes, outer)
        if isinstance(node, exp.Subquery):
            made = self.query(node.this, ctes, outer)
            if node.args.get("order") or node.args.get("limit") or node.args.get("offset"):
                made = self._sorted(node, made, ctes, outer)
        elif isinstance(node, exp.Select):
            made = self._select(node, ctes, outer)
        elif isinstance(node, exp.SetOperation):
            made = self._set_operation(node, ctes, outer)
        elif isinstance(node, exp.Values):
            made = self._values(node)
        else:
            self.text.refuse(node, "this is not a query")
        return replace(made, sql=prefix + made.sql)

    def _with(self, node: exp.Expression, ctes: dict[str, Query], outer: Scope | None) -> str:
        found = node.args.get("with_")
        if found is None:
            return ""
        parts = []
        for cte in found.expressions:
            name = f"cte{next(self._numbers)}"
            made = self._renamed(cte, self.query(cte.this, ctes, outer))
            parts.append(f"{name} AS ({made.sql})")
            ctes[cte.alias.lower()] = Query(name, made.columns)
        return f"WITH {', '.join(parts)} "

    def _renamed(self, node: exp.Expression, query: Query) -> Query:
        """The names of the columns in an alias such as `t(a, b)`."""
        alias = node.args.get("alias")
        names = [column.name for column in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []
        if not names:
            return query
        if len(names) != len(query.columns):
            self.text.refuse(node, "the alias names another number of columns", expected=len(query.columns), found=len(names))
        return replace(query, columns=tuple((name, kind) for name, (_, kind) in zip(names, query.columns, strict=True)))

    def expressions(self, scope: Scope) -> Translator:
        """A translator for expressions outside of queries, which may hold queries."""
        return self._translator(scope, {})

    # -- FROM ---------------------------------------------------------------------------------------------------------

    def _from(self, node: exp.Select, ctes: Mapping[str, Query], outer: Scope | None) -> _From:
        source = node.args.get("from_")
        if source is None:
            return _From("", Scope((), outer=outer), {}, frozenset())
        sql, relation, use = self._relation(source.this, ctes, outer)
        found = _From(sql, Scope((relation,), outer=outer), {0: use} if use else {}, frozenset([0]))
        for join in [*(source.this.args.get("joins") or ()), *(node.args.get("joins") or ())]:
            found = self._join(found, join, ctes, outer)
        for view in [*(source.this.args.get("laterals") or ()), *(node.args.get("laterals") or ())]:
            if not isinstance(view.this, exp.Anonymous):
                self.text.refuse(
                    view,
                    "LATERAL VIEW takes a function that gives rows",
                    cure="write LATERAL VIEW with explode, posexplode, inline or stack",
                )
            made = generated(self._translator(found.scope, ctes), view.this)
            found = self._lateral(found, view, made._replace(outer=made.outer or bool(view.args.get("outer"))))
        return found

    def _lateral(self, left: _From, node: exp.Expression, made: Generated, qualifiers: Sequence[str] = ()) -> _From:
        """The rows of the left side, each with the rows that a generator gives for it."""
        name = f"r{next(self._numbers)}"
        query = self._renamed(node, Query(made.sql, made.columns))
        relation = _relation(name, tuple(qualifiers) or ((node.alias,) if node.alias else ()), query)
        join = (
            f"LEFT JOIN LATERAL ({query.sql}) AS {name} ON true" if made.outer else f"CROSS JOIN LATERAL ({query.sql}) AS {name}"
        )
        scope = replace(left.scope, relations=(*left.scope.relations, relation))
        return replace(left, sql=f"{left.sql or '(SELECT 1) AS r0'} {join}", scope=scope)

    def _relation(
        self, node: exp.Expression, ctes: Mapping[str, Query], outer: Scope | None
    ) -> tuple[str, Relation, TableUse | None]:
        name = f"r{next(self._numbers)}"
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            return self._table(node, name, ctes)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
            found = generated(self._translator(Scope(()), ctes), node.this)
            made = self._renamed(node, Query(found.sql, found.columns))
            return f"({made.sql}) AS {name}", _relation(name, (node.alias,) if node.alias else (), made), None
        if isinstance(node, (exp.Subquery, exp.Values)):
            made = self._renamed(node, self.query(node, ctes, None))
            qualifiers = (node.alias,) if node.alias else ()
            return f"({made.sql}) AS {name}", _relation(name, qualifiers, made), None
        self.text.refuse(node, "this is not supported in FROM", expected="a table, a view, a subquery or VALUES")

    def _table(self, node: exp.Table, name: str, ctes: Mapping[str, Query]) -> tuple[str, Relation, TableUse | None]:
        plain = node.name.lower() if not node.args.get("db") else None
        if plain in ctes:
            if node.args.get("version"):
                self.text.refuse(node, "only a table of the lake has versions")
            made = self._renamed(node, ctes[plain])
            return f"{made.sql} AS {name}", _relation(name, (node.alias or node.name,), made), None
        parts, found = [part.name for part in node.parts], self.catalog(node)
        qualifiers = (node.alias,) if node.alias else (parts[-1], ".".join(parts))
        if isinstance(found, ViewUse):
            made = self._renamed(node, self._view(found))
            return f"({made.sql}) AS {name}", _relation(name, qualifiers, made), None
        use = TableUse(node, found, f"lsmlake_{len(self.uses)}", within=self.within)
        self.uses.append(use)
        columns = tuple(Column(one.name, of_column(one), f"{name}.{quoted(one.name)}") for one in use.schema)
        return f"{use.view} AS {name}", Relation(qualifiers, columns), use

    def _view(self, view: ViewUse) -> Query:
        """The query of a view, with the columns of the view."""
        with view.text.read() as tree:
            inner = replace(self, text=view.text, catalog=view.catalog.schema, within=tree)
            made = inner.query(tree)
        sql = view.selected(made.sql, made.columns, f"r{next(self._numbers)}")
        return Query(sql, tuple((column.name, column.type) for column in view.columns))

    def _join(self, left: _From, node: exp.Join, ctes: Mapping[str, Query], outer: Scope | None) -> _From:
        if isinstance(node.this, exp.Lateral):
            return self._lateral_query(left, node, ctes)
        sql, relation, use = self._relation(node.this, ctes, outer)
        side = self.text.word(node, "side", "LEFT", "RIGHT", "FULL")
        kind = self.text.word(node, "kind", "INNER", "OUTER", "CROSS", "SEMI", "ANTI")
        if kind in ("OUTER", "INNER") or (side and not kind):
            kind = side or "INNER"
        on, using = node.args.get("on"), node.args.get("using")
        if self.text.word(node, "method", "NATURAL"):
            names = {column.name.lower() for column in left.scope.columns()}
            using = [exp.to_identifier(column.name, quoted=True) for column in relation.columns if column.name.lower() in names]
        words = {"": "JOIN", "INNER": "JOIN", "CROSS": "CROSS JOIN", "SEMI": "SEMI JOIN", "ANTI": "ANTI JOIN"}
        word = words.get(kind, f"{kind} JOIN")
        if kind in ("SEMI", "ANTI", "CROSS") and side not in ("", "LEFT" if kind != "CROSS" else ""):
            self.text.refuse(node, "this join is not supported", expected="INNER, LEFT, RIGHT, FULL, CROSS, LEFT SEMI, LEFT ANTI")
        if not on and not using and kind not in ("CROSS",):
            word = "CROSS JOIN" if kind in ("", "INNER") else self.text.refuse(node, "the join needs ON or USING")
        number = len(left.scope.relations)
        both = Scope((*left.scope.relations, relation), left.scope.merged, outer)
        condition, merged = "", left.scope.merged
        if using:
            condition, merged = self._using(node, using, left.scope, relation, kind)
        elif on is not None:
            condition = " ON " + self._condition(both, on, ctes)
        uses = {**left.uses, **({number: use} if use else {})}
        kept = left.kept if kind not in ("RIGHT", "FULL") else frozenset()
        if kind in ("", "INNER", "CROSS", "RIGHT"):
            kept |= {number}
        if on is not None:
            reached = {"LEFT": {number}, "RIGHT": left.kept, "FULL": set(), "ANTI": {number}}.get(kind, {*left.kept, number})
            push(on, both, {place: found for place, found in uses.items() if place in reached})
        scope = replace(left.scope, merged=merged) if kind in ("SEMI", "ANTI") else Scope(both.relations, merged, outer)
        if kind in ("SEMI", "ANTI"):
            uses.pop(number, None)
        return _From(f"{left.sql} {word} {sql}{condition}", scope, uses, kept)

    def _lateral_query(self, left: _From, node: exp.Join, ctes: Mapping[str, Query]) -> _From:
        """A join with LATERAL (SELECT ...), which names columns of the relations before it."""
        side, on = self.text.word(node, "side", "LEFT"), node.args.get("on")
        kind = self.text.word(node, "kind", "INNER", "OUTER", "CROSS")
        always = isinstance(on, exp.Boolean) and on.this
        if not isinstance(node.this.this, exp.Subquery) or (kind == "OUTER") > (side == "LEFT") or not (on is None or always):
            self.text.refuse(
                node, "this LATERAL is not supported", cure="write [LEFT JOIN] LATERAL (SELECT ...) AS name [ON true]"
            )
        made = self.query(node.this.this, ctes, left.scope)
        return self._lateral(left, node.this, Generated(made.sql, made.columns, side == "LEFT"))

    def _using(
        self, node: exp.Join, names: Sequence[exp.Expression], left: Scope, relation: Relation, kind: str
    ) -> tuple[str, tuple[Column, ...]]:
        conditions, merged = [], []
        for name in names:
            ours, theirs = left.found([name.name]), Scope((relation,)).found([name.name])
            if len(ours) != 1 or len(theirs) != 1:
                self.text.refuse(node, f"the column {name.name} of USING must be once on both sides")
            sides = [ours[0][0], theirs[0][0]]
            wanted = common(sides[0].type, sides[1].type)
            if wanted is None:
                found = f"{format_type(sides[0].type)} and {format_type(sides[1].type)}"
                self.text.refuse(node, f"the columns {name.name} do not fit together", found=found)
            a, b = (Translator(self.text, left).converted(node, Typed(one.sql, one.type), wanted) for one in sides)
            conditions.append(f"{a} = {b}")
            sql = {"RIGHT": b, "FULL": f"coalesce({a}, {b})"}.get(kind, a)
            merged.append(Column(sides[0].name, wanted, sql))
        names_merged = {column.name.lower() for column in merged}
        rest = [column for column in left.merged if column.name.lower() not in names_merged]
        return " ON " + " AND ".join(conditions), (*merged, *rest)

    # -- SELECT -------------------------------------------------------------------------------------------------------

    def _translator(self, scope: Scope, ctes: Mapping[str, Query], **allowed: object) -> Translator:
        def subquery(node: exp.Expression, around: Scope) -> tuple[str, list[pa.DataType]]:
            made = self.query(node, ctes, around)
            return made.sql, [kind for _, kind in made.columns]

        return replace(Translator.at(self.text, scope, self.now, subquery), **allowed)

    def _condition(self, scope: Scope, node: exp.Expression, ctes: Mapping[str, Query], **allowed: object) -> str:
        made = self._translator(scope, ctes, **allowed).typed(node)
        if made.type not in (BOOLEAN, NULL):
            self.text.refuse(node, "this is not a condition", expected="BOOLEAN", found=format_type(made.type))
        return f"CAST({made.sql} AS BOOLEAN)" if made.type == NULL else made.sql

    def _select(self, node: exp.Select, ctes: Mapping[str, Query], outer: Scope | None) -> Query:
        if not node.expressions:
            self.text.refuse(node, "SELECT without columns", cure="write SELECT * or name columns")
        source = self._with_generator(node, self._from(node, ctes, outer), ctes)
        where = node.args.get("where")
        here = {"aggregates": True, "windows": True, "named_windows": self._windows(node), "sets": sets_of(node)}
        outputs = self._outputs(node, source.scope, ctes, here)
        here["aliases"] = {name.lower(): made for name, made, aliased in outputs if aliased}
        after = self._translator(source.scope, ctes, **here)
        parts = [f"{made.sql} AS {quoted(f'#{number}')}" for number, (_, made, _) in enumerate(outputs)]
        distinct = node.args.get("distinct")
        sql = f"SELECT {'DISTINCT ' if distinct else ''}{', '.join(parts)}"
        sql += f" FROM {source.sql}" if source.sql else ""
        if where is not None:
            sql += f" WHERE {self._condition(source.scope, where.this, ctes)}"
            push(where.this, source.scope, {place: use for place, use in source.uses.items() if place in source.kept})
        if group := node.args.get("group"):
            plain = self._translator(source.scope, ctes, aliases=here["aliases"])
            sql += grouped(
                plain, group, lambda item: None if (at := self._ordinal(item, outputs)) is None else outputs[at][1].sql
            )
        if having := node.args.get("having"):
            sql += f" HAVING {self._condition(source.scope, having.this, ctes, **{**here, 'windows': False})}"
        sql += self._order(node, outputs, after) + self._limit(node)
        self._push_limit(node, source)
        return Query(sql, tuple((name, made.type) for name, made, _ in outputs))

    def _outputs(
        self, node: exp.Select, scope: Scope, ctes: Mapping[str, Query], here: Mapping[str, object]
    ) -> list[tuple[str, Typed, bool]]:
        """Name, translation and whether the text gives the name, of each column of the result. `here`: what the expressions can
        use."""
        outputs: list[tuple[str, Typed, bool]] = []
        for item in node.expressions:
            inner = item.unalias() if isinstance(item, exp.Alias) else item
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                outputs += self._star(item, scope)
            elif is_generator(_unaliased(item)):
                (made,) = (one for one in scope.relations if one.qualifiers == (_GENERATED,))
                outputs += [(one.name, Typed(one.sql, one.type), True) for one in made.columns]
            else:
                aliases = {name.lower(): made for name, made, aliased in outputs if aliased}
                made = self._translator(scope, ctes, **here, aliases=aliases).typed(item)
                name = item.alias or (
                    inner.name if isinstance(inner, (exp.Column, exp.Dot)) else inner.sql("spark", normalize_functions=False)
                )
                outputs.append((name, made, bool(item.alias)))
        return outputs

    def _with_generator(self, node: exp.Select, source: _From, ctes: Mapping[str, Query]) -> _From:
        """FROM with the rows of a generator among the expressions of SELECT."""
        found = [item for item in node.expressions if is_generator(_unaliased(item))]
        if not found:
            return source
        if len(found) > 1 or node.args.get("group"):
            cure = "write LATERAL VIEW after FROM"
            self.text.refuse(found[-1], "SELECT takes one function that gives rows, and then no GROUP BY", cure=cure)
        (item,) = found
        made = generated(self._translator(source.scope, ctes), _unaliased(item))
        names = [one.name for one in item.aliases] if isinstance(item, exp.Aliases) else [item.alias] if item.alias else []
        if names and len(names) != len(made.columns):
            self.text.refuse(item, "the alias names another number of columns", expected=len(made.columns), found=len(names))
        columns = tuple((name, kind) for name, (_, kind) in zip(names, made.columns, strict=True)) if names else made.columns
        return self._lateral(source, _unaliased(item), made._replace(columns=columns), (_GENERATED,))

    def _windows(self, node: exp.Select) -> dict[str, exp.Window]:
        """The windows of the clause WINDOW, by name."""
        found = {}
        for window in node.args.get("windows") or ():
            if window.args.get("alias"):
                self.text.refuse(window, "a window cannot be based on another one", cure="write the whole window")
            found[window.this.name.lower()] = window
        return found

    def _star(self, item: exp.Expression, scope: Scope) -> list[tuple[str, Typed, bool]]:
        star = item if isinstance(item, exp.Star) else item.this
        dropped = {column.name.lower() for column in star.args.get("except_") or ()}
        if isinstance(item, exp.Star):
            columns = replace(scope, relations=tuple(one for one in scope.relations if one.qualifiers != (_GENERATED,))).columns()
        else:
            qualifier = ".".join(part.name for part in item.parts[:-1]).lower()
            found = [one for one in scope.relations if qualifier in (name.lower() for name in one.qualifiers)]
            if len(found) != 1:
                self.text.refuse(item, f"there is no table {qualifier} in FROM")
            columns = found[0].columns
        if not columns or (unknown := dropped - {column.name.lower() for column in columns}):
            self.text.refuse(item, "there are no such columns", found=sorted(unknown) if columns else None)
        return [(one.name, Typed(one.sql, one.type), False) for one in columns if one.name.lower() not in dropped]

    def _ordinal(self, item: exp.Expression, outputs: Sequence[tuple[str, Typed, bool]]) -> int | None:
        if not (isinstance(item, exp.Literal) and not item.is_string and item.this.isdecimal()):
            return None
        if not 1 <= int(item.this) <= len(outputs):
            self.text.refuse(item, "there is no such column in SELECT", expected=f"1 to {len(outputs)}")
        return int(item.this) - 1

    def _order(self, node: exp.Expression, outputs: Sequence[tuple[str, Typed, bool]], translator: Translator) -> str:
        order = node.args.get("order")
        if order is None:
            return ""
        by_name = {name.lower(): number for number, (name, _, aliased) in enumerate(outputs) if aliased}
        by_sql = {made.sql: number for number, (_, made, _) in enumerate(outputs)}
        found: list[tuple[exp.Expression, Typed]] = []
        for item in order.expressions:
            what = item.this if isinstance(item, exp.Ordered) else item
            if isinstance(what, exp.Var) and what.name.upper() == "ALL":
                found += [(item, Typed(quoted(f"#{number}"), made.type)) for number, (_, made, _) in enumerate(outputs)]
                continue
            number = self._ordinal(what, outputs)
            if number is None and isinstance(what, exp.Column) and not what.table:
                number = by_name.get(what.name.lower())
            if number is None:
                number = by_sql.get(translator.typed(what).sql)
            named = None if number is None else Typed(quoted(f"#{number}"), outputs[number][1].type)
            found.append((item, named or translator.typed(what)))
        items = [ordered(translator, item, made.sql) for item, made in found]
        first, made = found[0]
        if node.args.get("limit") is not None and first.args.get("nulls_first") and pa.types.is_string(made.type):
            # the filter that DuckDB 2.0 makes of the rows found so far gives nulls for text that Parquet stores plain
            items.insert(0, f"{made.sql} IS NOT NULL")
        return f" ORDER BY {', '.join(items)}"

    def _limit(self, node: exp.Expression) -> str:
        made = ""
        for name, word in (("limit", "LIMIT"), ("offset", "OFFSET")):
            if (clause := node.args.get(name)) is not None and not _is_all(clause):
                made += f" {word} {self._number(clause, clause.expression)}"
        return made

    def _number(self, clause: exp.Expression, value: exp.Expression) -> int:
        if not (isinstance(value, exp.Literal) and not value.is_string and value.this.isdecimal()):
            self.text.refuse(clause, "LIMIT and OFFSET take a number")
        return int(value.this)

    def _set_operation(self, node: exp.SetOperation, ctes: Mapping[str, Query], outer: Scope | None) -> Query:
        left, right = (self.query(side, ctes, outer) for side in (node.this, node.expression))
        if len(left.columns) != len(right.columns):
            found = f"{len(left.columns)} and {len(right.columns)}"
            self.text.refuse(node, "both queries must have the same number of columns", found=found)
        columns = []
        for (name, a), (_, b) in zip(left.columns, right.columns, strict=True):
            kind = common(a, b)
            if kind is None:
                found = f"{format_type(a)} and {format_type(b)}"
                self.text.refuse(node, f"the types of column {name} do not fit together", found=found)
            columns.append((name, kind))
        word = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}[type(node)]
        sides = [self._typed_as(node, side, columns) for side in (left, right)]
        both = f"{sides[0]} {word}{'' if node.args.get('distinct') else ' ALL'} {sides[1]}"
        return self._sorted(node, Query(both, tuple(columns)), ctes, outer)

    def _sorted(self, node: exp.Expression, query: Query, ctes: Mapping[str, Query], outer: Scope | None) -> Query:
        """A whole query with the ORDER BY, LIMIT and OFFSET of a node."""
        name = f"r{next(self._numbers)}"
        whole = Query(f"SELECT * FROM ({query.sql}) AS {name}", query.columns)
        scope = Scope((_relation(name, (), whole),), outer=outer)
        outputs = [(one, Typed(f"{name}.{quoted(f'#{i}')}", kind), True) for i, (one, kind) in enumerate(query.columns)]
        return replace(whole, sql=whole.sql + self._order(node, outputs, self._translator(scope, ctes)) + self._limit(node))

    def _typed_as(self, node: exp.Expression, query: Query, columns: Sequence[tuple[str, pa.DataType]]) -> str:
        translator = Translator(self.text, Scope(()))
        parts = [
            f"{translator.converted(node, Typed(quoted(f'#{i}'), found), wanted)} AS {quoted(f'#{i}')}"
            for i, ((_, found), (_, wanted)) in enumerate(zip(query.columns, columns, strict=True))
        ]
        return f"SELECT {', '.join(parts)} FROM ({query.sql}) AS r{next(self._numbers)}"

    def _values(self, node: exp.Values) -> Query:
        translator = self.expressions(Scope(()))
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
        if len({len(row) for row in rows}) != 1:
            self.text.refuse(node, "the rows of VALUES have different lengths")
        columns = [translator.unified(cells, [translator.typed(cell) for cell in cells]) for cells in zip(*rows, strict=True)]
        lines = ", ".join(f"({', '.join(row)})" for row in zip(*(sqls for sqls, _ in columns), strict=True))
        names = ", ".join(quoted(f"#{i}") for i in range(len(columns)))
        made = tuple((f"col{i}", kind) for i, (_, kind) in enumerate(columns, 1))
        return Query(f"SELECT * FROM (VALUES {lines}) AS r{next(self._numbers)}({names})", made)

    def _push_limit(self, node: exp.Select, source: _From) -> None:
        """A LIMIT on the rows of one table reaches the table."""
        clauses = ("where", "group", "having", "order", "distinct", "joins", "laterals")
        plain = not any(peek(node, name) for name in clauses)
        simple = all(
            isinstance(item.unalias() if isinstance(item, exp.Alias) else item, (exp.Column, exp.Star))
            for item in node.expressions
        )
        limit, offset = peek(node, "limit"), peek(node, "offset")
        if plain and simple and limit is not None and not _is_all(limit) and len(source.uses) == 1:
            rows = self._number(limit, limit.expression)
            source.uses[0].limit = rows + (self._number(offset, offset.expression) if offset is not None else 0)


def _is_all(clause: exp.Expression) -> bool:
    """Whether the clause is LIMIT ALL."""
    value = clause.expression
    return isinstance(value, (exp.Column, exp.Var)) and value.name.upper() == "ALL"


def _unaliased(item: exp.Expression) -> exp.Expression:
    return item.this if isinstance(item, (exp.Alias, exp.Aliases)) else item


def _relation(name: str, qualifiers: tuple[str, ...], query: Query) -> Relation:
    columns = tuple(Column(one, kind, f"{name}.{quoted(f'#{i}')}") for i, (one, kind) in enumerate(query.columns))
    return Relation(qualifiers, columns)


def run_sql(query: Query) -> str:
    """The statement that gives the result of a query, with the types of its columns."""
    casts = ", ".join(
        f"CAST({quoted(f'#{i}')} AS {duck_name(kind)}) AS {quoted(f'#{i}')}" for i, (_, kind) in enumerate(query.columns)
    )
    return f"SELECT {casts} FROM ({query.sql})"
