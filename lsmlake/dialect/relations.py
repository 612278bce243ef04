"""FROM: tables, subqueries, joins, LATERAL and functions that give rows, as relations `r1`, `r2`, ... of DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.comparisons import padded
from lsmlake.dialect.context import ON
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.generators import Generated, generated
from lsmlake.dialect.pipes import NESTED
from lsmlake.dialect.pivots import pivoted
from lsmlake.dialect.queries import Queries, Query, aliased_columns, relation_of
from lsmlake.dialect.scope import ColumnOrigin, Known, Relation, Scope, ScopeColumn, Typed, declared
from lsmlake.dialect.sql_types import common, of_column, quoted
from lsmlake.dialect.table_use import StoredRows, TableUse, ViewUse, push
from lsmlake.types.type_text import format_type

_JOINED = {"this", "joins", "laterals"}
_JOINS = {"": "JOIN", "INNER": "JOIN", "CROSS": "CROSS JOIN", "SEMI": "SEMI JOIN", "ANTI": "ANTI JOIN"}


@dataclass(frozen=True)
class From:
    """FROM and its joins. `uses`: number of a relation -> its table. `kept`: the numbers of relations whose rows an outer join
    never replaces by nulls."""

    sql: str
    scope: Scope
    uses: Mapping[int, TableUse]
    kept: frozenset[int]


@dataclass(frozen=True)
class Relations:
    """Translates a FROM clause in one place of a text. `ctes`: the queries that WITH names there."""

    queries: Queries
    ctes: Mapping[str, Query]
    outer: Scope | None

    def of(self, node: exp.Select) -> From:
        """The relations of a SELECT."""
        source = node.args.get("from_")
        inner = None if source is None else source.this
        joined = From("", Scope((), outer=self.outer), {}, frozenset()) if inner is None else self._alone(inner)
        for join in (*_listed(inner, "joins"), *_listed(node, "joins")):
            joined = self._join(joined, join)
        for view in (*_listed(inner, "laterals"), *_listed(node, "laterals")):
            joined = self._lateral_view(joined, view)
        return joined

    def _joined(self, node: exp.Expression) -> From:
        """A relation and the relations joined to it."""
        joined = self._alone(node)
        for join in _listed(node, "joins"):
            joined = self._join(joined, join)
        return joined

    def _alone(self, node: exp.Expression) -> From:
        """A relation, with its pivots and the joins in its parentheses. Parentheses without an alias hide no name."""
        plain = isinstance(node, exp.Subquery) and not {key for key, value in node.args.items() if value} - _JOINED
        if plain and isinstance(node.this, (exp.Table, exp.Subquery)):
            return self._joined(node.this)
        named = isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)
        sql, relation, use = self._table(node) if named else self._other(node)
        for pivot in _listed(node, "pivots"):
            (sql, relation), use = pivoted(self.queries, self.ctes, pivot, sql, relation), None
        return From(sql, Scope((relation,), outer=self.outer), {0: use} if use else {}, frozenset([0]))

    def lateral(self, left: From, node: exp.Expression, made: Generated) -> tuple[From, Relation]:
        """Joins each row of the left side with the rows that a generator gives for it. Also returns the columns of the generator,
        which no expression can name yet."""
        name = self.queries.fresh()
        query = self.queries.renamed(node, Query(made.sql, made.columns))
        relation = relation_of(name, (node.alias,) if node.alias else (), query)
        join = (
            f"LEFT JOIN LATERAL ({query.sql}) AS {name} ON true" if made.outer else f"CROSS JOIN LATERAL ({query.sql}) AS {name}"
        )
        return replace(left, sql=f"{left.sql or '(SELECT 1) AS r0'} {join}"), relation

    def _lateral_view(self, left: From, view: exp.Expression) -> From:
        if not isinstance(view.this, exp.Anonymous) or not view.args.get("view"):
            cure = "write LATERAL VIEW with explode, posexplode, inline or stack"
            self.queries.text.refuse(view, "LATERAL VIEW takes a function that gives rows", cure=cure)
        made = generated(self.queries.translator(left.scope, self.ctes), view.this)
        return self._named(left, view, made._replace(outer=made.outer or bool(view.args.get("outer"))))

    def _named(self, left: From, node: exp.Expression, made: Generated) -> From:
        joined, relation = self.lateral(left, node, made)
        return replace(joined, scope=joined.scope.and_(Scope((relation,))))

    def _other(self, node: exp.Expression) -> tuple[str, Relation, None]:
        """A function that gives rows, a subquery or VALUES."""
        name = self.queries.fresh()
        qualifiers = (node.alias,) if node.alias else ()
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
            rows = generated(self.queries.translator(Scope(()), self.ctes), node.this)
            made = self.queries.renamed(node, Query(rows.sql, rows.columns))
            sql = (
                f"(SELECT {name}.* FROM (SELECT 1) AS r0 LEFT JOIN ({made.sql}) AS {name} ON true)"
                if rows.outer
                else f"({made.sql})"
            )
            return f"{sql} AS {name}", relation_of(name, qualifiers, made), None
        if isinstance(node, (exp.Subquery, exp.Values)):
            made = self.queries.renamed(node, self.queries.query(node, self.ctes, None))
            return f"({made.sql}) AS {name}", relation_of(name, qualifiers, made), None
        expected = "a table, a view, a subquery or VALUES"
        self.queries.text.refuse(node, "this is not supported in FROM", expected=expected, cure="name one of these")

    def _table(self, node: exp.Table) -> tuple[str, Relation, TableUse | None]:
        queries, name = self.queries, self.queries.fresh()
        plain = node.name.lower() if not node.args.get("db") else None
        if plain in self.ctes:
            if node.args.get("version"):
                queries.text.refuse(node, "only a table of the lake has versions", cure="leave the version out")
            made = queries.renamed(node, self.ctes[plain].referred())
            known = node.alias or node.name
            return f"{made.sql} AS {name}", relation_of(name, () if known.startswith(NESTED) else (known,), made), None
        parts, source = [part.name for part in node.parts], queries.catalog(node)
        qualifiers = (node.alias,) if node.alias else (parts[-1], ".".join(parts))
        if isinstance(source, ViewUse):
            made = queries.renamed(node, queries.view(source))
            return f"({made.sql}) AS {name}", relation_of(name, qualifiers, made), None
        schema, digits = source if isinstance(source, StoredRows) else (source, None)
        use = TableUse(node, schema, f"lsmlake_{len(queries.uses)}", within=queries.within)
        queries.uses.append(use)
        given = aliased_columns(node)
        use.renamed = bool(given)
        queries.check_alias(node, given, len(use.schema))
        columns = tuple(
            ScopeColumn(
                as_,
                of_column(field),
                f"{name}.{quoted(field.name)}",
                field.name,
                Known(declared(field), (ColumnOrigin(use, field.name),), digits and partial(digits, field.name)),
            )
            for as_, field in zip(given or use.schema.names, use.schema, strict=True)
        )
        return f"{use.view} AS {name}", Relation(qualifiers, columns), use

    # -- joins --------------------------------------------------------------------------------------------------------

    def _join(self, left: From, node: exp.Join) -> From:
        if isinstance(node.this, exp.Lateral):
            return self._lateral_query(left, node)
        text = self.queries.text
        right, kind = self._alone(node.this), self._kind(node)
        on, using = node.args.get("on"), node.args.get("using")
        if text.word(node, "method", "NATURAL"):
            if kind in ("SEMI", "ANTI", "CROSS"):
                text.refuse(node, f"NATURAL {kind} JOIN is not supported, nor in Spark", cure="write USING with the columns")
            names, theirs = {column.name.lower() for column in left.scope.columns()}, right.scope.columns()
            using = [exp.to_identifier(column.name, quoted=True) for column in theirs if column.name.lower() in names]
        if kind == "CROSS" and (on is not None or using):
            kind = ""
        every = on is None and not using  # each row with each
        word = "CROSS JOIN" if every and kind in ("", "INNER", "CROSS") else _JOINS.get(kind, f"{kind} JOIN")
        before = len(left.scope.relations)
        both, condition = left.scope.and_(right.scope), " ON true" if every and word != "CROSS JOIN" else ""
        if using:
            condition, both = self._using(node, using, left.scope, right.scope, kind)
        elif on is not None:
            condition = " ON " + self.queries.condition(self.queries.translator(both, self.ctes, place=ON), on)
        uses = {**left.uses, **{before + number: use for number, use in right.uses.items()}}
        theirs = frozenset(before + number for number in right.kept)
        kept = left.kept if kind not in ("RIGHT", "FULL") else frozenset()
        if kind in ("", "INNER", "CROSS", "RIGHT"):
            kept |= theirs
        if on is not None:
            reached = {"LEFT": theirs, "RIGHT": left.kept, "FULL": frozenset(), "ANTI": theirs}.get(kind, left.kept | theirs)
            push(on, both.only_kept(reached))
        scope = both.only_kept(kept)
        if kind in ("SEMI", "ANTI"):
            scope, uses = left.scope, left.uses
        joined = right.sql if len(right.scope.relations) == 1 else f"({right.sql})"
        return From(f"{left.sql} {word} {joined}{condition}", scope, uses, kept)

    def _kind(self, node: exp.Join) -> str:
        """INNER, LEFT, RIGHT, FULL, CROSS, SEMI, ANTI, or "" for a plain JOIN."""
        text = self.queries.text
        side, kind = (
            text.word(node, "side", "LEFT", "RIGHT", "FULL"),
            text.word(node, "kind", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"),
        )
        if kind in ("SEMI", "ANTI", "CROSS") and side not in (("",) if kind == "CROSS" else ("", "LEFT")):
            text.refuse(
                node,
                "this join is not supported",
                expected="INNER, LEFT, RIGHT, FULL, CROSS, LEFT SEMI, LEFT ANTI",
                cure="write one of these joins",
            )
        return (side or "INNER") if kind in ("OUTER", "INNER") or (side and not kind) else kind

    def _lateral_query(self, left: From, node: exp.Join) -> From:
        """A join with LATERAL (SELECT ...), which names columns of the relations before it."""
        text, lateral = self.queries.text, node.this
        side, kind = text.word(node, "side", "LEFT"), text.word(node, "kind", "INNER", "OUTER", "CROSS")
        on = node.args.get("on")
        always = isinstance(on, exp.Boolean) and on.this
        if (kind == "OUTER") > (side == "LEFT") or not (on is None or always):
            text.refuse(node, "this LATERAL is not supported", cure="write [LEFT JOIN] LATERAL (SELECT ...) AS name [ON true]")
        if isinstance(lateral.this, exp.Anonymous):
            made = generated(self.queries.translator(left.scope, self.ctes), lateral.this)
            return self._named(left, lateral, made._replace(outer=made.outer or side == "LEFT"))
        if not isinstance(lateral.this, exp.Subquery):
            text.refuse(node, "this LATERAL is not supported", cure="write [LEFT JOIN] LATERAL (SELECT ...) AS name [ON true]")
        query = self.queries.query(lateral.this, self.ctes, replace(left.scope, outer=None))
        return self._named(left, lateral, Generated(query.sql, query.columns, side == "LEFT"))

    def _using(self, node: exp.Join, names: Sequence[exp.Expression], left: Scope, right: Scope, kind: str) -> tuple[str, Scope]:
        """The condition of USING or NATURAL, and the scope in which it makes one column of two."""
        text, conditions, merged, hidden = self.queries.text, [], [], set()
        for name in names:
            ours = [column for column in left.columns() if column.name.lower() == name.name.lower()]
            theirs = [column for column in right.columns() if column.name.lower() == name.name.lower()]
            if len(ours) != 1 or len(theirs) != 1:
                text.refuse(
                    node,
                    f"the column {name.name} of USING must be once on both sides",
                    cure="write ON with the names of the tables",
                )
            wanted = common(ours[0].type, theirs[0].type)
            if wanted is None:
                types = f"{format_type(ours[0].type)} and {format_type(theirs[0].type)}"
                text.refuse(
                    node, f"the columns {name.name} do not fit together", found=types, cure="write ON, and cast one of them"
                )
            sides = (ours[0], theirs[0])
            a, b = (one.typed._replace(sql=Translator(text, left).converted(node, one.typed, wanted)) for one in sides)
            conditions.append(" = ".join(one.sql for one in padded((name, name), (a, b))))
            both = {"RIGHT": b, "FULL": Typed(f"coalesce({a.sql}, {b.sql})", wanted)}.get(kind, a)
            merged.append(ScopeColumn(ours[0].name, wanted, both.sql, known=_merged(both, sides, wanted, kind)))
            hidden |= set(sides)
        rest = (column for column in (*left.columns(), *right.columns()) if column not in hidden)
        scope = Scope((*left.relations, *right.relations), (*merged, *rest), left.outer)
        return " ON " + " AND ".join(conditions), scope


def _merged(made: Typed, sides: Sequence[ScopeColumn], wanted: pa.DataType, kind: str) -> Known:
    """The facts known of a column that USING makes of two. `made`: the column whose values it has."""
    if any(one.type != wanted for one in sides):
        return made.known.placeless
    both = kind in ("", "INNER", "CROSS")
    return Known(made.known.declared, tuple(origin for one in sides for origin in one.known.origins)) if both else made.known


def _listed(node: exp.Expression | None, key: str) -> list[exp.Expression]:
    return [] if node is None else node.args.get(key) or []
