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

NESTED = "__tmp"
"""How the names of nested queries begin."""
INPUT_COLUMN = "#input_column"
"""The call that stands for a column of the input of AGGREGATE by its number."""
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
}
"""The clauses of a query to which an operator may be added; None: it nests the query itself."""


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
            "OFFSET": lambda parser, query: parser._parse_pipe_syntax_limit(query),
        }.items()
    }

    def nested(self, query: exp.Query, beside: set[str]) -> exp.Query:
        """The query itself if it has no clauses but FROM, joins and `beside`; else a query of its rows."""
        found = {key for key, value in query.args.items() if value}
        star = isinstance(query, exp.Select) and len(query.expressions) == 1 and query.expressions[0] == exp.Star()
        return query if star and found <= _BASE | beside else self._build_pipe_cte(query, [exp.Star()])

    def named(self, query: exp.Query) -> exp.Query:
        """The rows of a query under the name that comes next."""
        alias = self._parse_table_alias()
        made = self._build_pipe_cte(query, [exp.Star()], alias)
        made.args["from_"].set("this", exp.Table(this=alias.this.copy()))
        return made

    def _parse_pipe_syntax_join(self, query: exp.Query) -> exp.Query | None:
        word = self._curr.text.upper() if self._curr else ""
        return super()._parse_pipe_syntax_join(self.nested(query, set() if word in ("RIGHT", "FULL") else {"where"}))

    def _parse_pipe_syntax_set_operator(self, query: exp.Query) -> exp.Query | None:
        try:
            return super()._parse_pipe_syntax_set_operator(query)
        except AssertionError:  # sqlglot expects a query in parentheses
            self.raise_error("the query behind UNION, INTERSECT or EXCEPT stands in parentheses")
            return query

    def _parse_pipe_syntax_select(self, query: exp.Select) -> exp.Query:
        select = self._parse_select(consume_pipe=False)
        found = {key for key, value in select.args.items() if value} if isinstance(select, exp.Select) else {"with_"}
        if found - {"expressions", "distinct"}:
            self.raise_error("|> SELECT takes expressions, and DISTINCT before them")
            return query
        made = query.select(*select.expressions, append=False)
        made.set("distinct", select.args.get("distinct"))
        return self._build_pipe_cte(query=made, expressions=[exp.Star()])

    def _parse_pipe_syntax_aggregate_fields(self) -> exp.Expression | None:
        found = super()._parse_pipe_syntax_aggregate_fields()
        inner = found.this if isinstance(found, exp.Alias) else found
        if isinstance(inner, exp.Literal) and not inner.is_string:  # in GROUP BY it is the number of a column of the input
            column = exp.Anonymous(this=INPUT_COLUMN, expressions=[inner.copy()])
            return exp.alias_(column, found.args["alias"]) if isinstance(found, exp.Alias) else column
        return found
