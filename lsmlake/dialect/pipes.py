"""The pipe syntax `FROM t |> WHERE a > 1 |> SELECT b`, as nested queries.

sqlglot adds each operator to the query before it. That changes its meaning if a clause is there already that SQL evaluates later:
WHERE behind LIMIT, a RIGHT JOIN behind WHERE, SELECT behind ORDER BY. Here such a query is nested first, so that each operator
reads the rows that the one before gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import TokenType

NESTED = "__tmp"
"""How the names of nested queries begin."""
INPUT_COLUMN = "#input_column"
"""The call that stands for a column of the input of AGGREGATE by its number."""
AGGREGATES_ROWS = "aggregates_rows"
"""Key of `meta` of an expression of AGGREGATE: it must have an aggregate function."""
_OF_SELECT = ("hint", "distinct", "group", "windows")
"""The clauses that |> SELECT can have."""
_BASE = {"expressions", "from_", "joins", "with_"}
_BESIDE = {
    "WHERE": {"where"},
    "ORDER BY": {"where"},
    "LIMIT": {"where", "order"},
    "OFFSET": {"where", "order"},
    "AGGREGATE": {"where"},
    "EXTEND": {"where"},
    "SELECT": {"where"},
    "DISTINCT": {"where"},
    "AS": None,
    "SET": None,
    "DROP": None,
}
"""The clauses that a query may have when an operator is added to it; None: the operator nests the query itself."""


def _nesting(name: str, read: Callable[[Any, exp.Query], exp.Query]) -> Callable[[Any, exp.Query], exp.Query]:
    beside = _BESIDE.get(name, set())
    return read if beside is None else lambda parser, query: read(parser, parser.nested(query, beside))


class Pipes(Spark.Parser):
    """The parser of Spark, with pipes that keep their order."""

    PIPE_SYNTAX_TRANSFORM_PARSERS: ClassVar[Any] = {
        name: _nesting(name, read)
        for name, read in {
            **Spark.Parser.PIPE_SYNTAX_TRANSFORM_PARSERS,
            "AS": lambda parser, query: parser.named(query),
            "SET": lambda parser, query: parser.replaced(query),
            "DROP": lambda parser, query: parser.dropped(query),
            "OFFSET": lambda parser, query: parser._parse_pipe_syntax_limit(query),
        }.items()
    }

    def nested(self, query: exp.Query, beside: set[str]) -> exp.Query:
        """The query itself if it has no clauses but FROM, joins and `beside`; else a query of its rows."""
        clauses = {key for key, value in query.args.items() if value}
        star = isinstance(query, exp.Select) and len(query.expressions) == 1 and query.expressions[0] == exp.Star()
        return query if star and clauses <= _BASE | beside else self._build_pipe_cte(query, [exp.Star()])

    def named(self, query: exp.Query) -> exp.Query:
        """The rows of a query under the name that comes next."""
        alias = self._parse_table_alias()
        if alias is None:
            self.raise_error("|> AS needs a name", self._curr or self._prev)
        made = self._build_pipe_cte(query, [exp.Star()], alias)
        made.args["from_"].set("this", exp.Table(this=alias.this.copy()))
        return made

    def _parse_pipe_syntax_join(self, query: exp.Query) -> exp.Query | None:
        word = self._curr.text.upper() if self._curr else ""
        return super()._parse_pipe_syntax_join(self.nested(query, set() if word in ("RIGHT", "FULL") else {"where"}))

    def replaced(self, query: exp.Query) -> exp.Query:
        """`SET a = x, b = y`: the expressions behind an assignment see its new value."""
        self._match(TokenType.SET)
        for assignment in self._parse_csv(self._parse_update_assignment):
            column = assignment.this if isinstance(assignment, exp.EQ) else None
            if not isinstance(column, exp.Column) or len(column.parts) != 1:
                self.raise_error("|> SET takes column = expression, ...")
                return query
            star = exp.Star(replace=[exp.alias_(assignment.expression, column.this)])
            query = self._of_rows(query, star)
        return query

    def dropped(self, query: exp.Query) -> exp.Query:
        """`DROP a, b`."""
        self._match(TokenType.DROP)
        return self._of_rows(query, exp.Star(except_=self._parse_csv(self._parse_column)))

    def _of_rows(self, query: exp.Query, star: exp.Star) -> exp.Query:
        """The rows of a query with the columns that `star` means."""
        return self._build_pipe_cte(self.nested(query, {"where"}).select(star, append=False), [exp.Star()])

    def _parse_select(self, *given: Any, consume_pipe: bool = True, **named: Any) -> exp.Expression | None:
        """As sqlglot's, but VALUES can stand before pipes, too."""
        select = super()._parse_select(*given, consume_pipe=consume_pipe, **named)
        if consume_pipe and isinstance(select, exp.Values) and self._match(TokenType.PIPE_GT, advance=False):
            return self._parse_pipe_syntax_query(exp.select("*").from_(select, copy=False))
        return select

    def _parse_pipe_syntax_set_operator(self, query: exp.Query) -> exp.Query | None:
        """UNION, INTERSECT and EXCEPT with the query that follows."""
        start = self._index
        kinds = {TokenType.UNION: exp.Union, TokenType.INTERSECT: exp.Intersect, TokenType.EXCEPT: exp.Except}
        kind = kinds.get(self._curr.token_type) if self._curr else None
        if kind is None:
            return None
        self._advance()
        distinct = not self._match(TokenType.ALL)
        if distinct:
            self._match(TokenType.DISTINCT)
        right = self._parse_select(nested=True, parse_set_operation=False, consume_pipe=False)
        if right is None:
            self.raise_error("a query stands behind UNION, INTERSECT and EXCEPT", self._tokens[start])
            return query
        left = self._build_pipe_cte(query, [exp.Star()])
        above = left.args["with_"].pop()
        made = kind(this=left, expression=right, distinct=distinct, with_=above)
        return self._build_pipe_cte(made, [exp.Star()])

    def _parse_pipe_syntax_select(self, query: exp.Select) -> exp.Query:
        select = self._parse_select(consume_pipe=False)
        clauses = {key for key, value in select.args.items() if value} if isinstance(select, exp.Select) else {"with_"}
        if clauses - {"expressions", *_OF_SELECT}:
            self.raise_error(f"|> SELECT takes no {min(clauses - {'expressions', *_OF_SELECT}).strip('_').upper()}", self._prev)
            return query
        made = query.select(*select.expressions, append=False)
        for name in _OF_SELECT:
            made.set(name, select.args.get(name))
        return self._build_pipe_cte(query=made, expressions=[exp.Star()])

    def _parse_pipe_syntax_aggregate_group_order_by(self, query: exp.Select, group_by_exists: bool = True) -> exp.Select:
        made = super()._parse_pipe_syntax_aggregate_group_order_by(query, group_by_exists)
        if not group_by_exists:
            for item in made.expressions:
                item.meta[AGGREGATES_ROWS] = True
        return made

    def _parse_pipe_syntax_extend(self, query: exp.Select) -> exp.Select:
        if self._next is not None and self._next.token_type is TokenType.STAR:
            self.raise_error("|> EXTEND takes expressions", self._next)
        return super()._parse_pipe_syntax_extend(query)

    def _parse_pipe_syntax_aggregate_fields(self) -> exp.Expression | None:
        field = super()._parse_pipe_syntax_aggregate_fields()
        inner = field.this if isinstance(field, exp.Alias) else field
        if isinstance(inner, exp.Literal) and not inner.is_string:  # in GROUP BY it is the number of a column of the input
            column = exp.Anonymous(this=INPUT_COLUMN, expressions=[inner.copy()])
            return exp.alias_(column, field.args["alias"]) if isinstance(field, exp.Alias) else column
        return field
