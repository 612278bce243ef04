"""Words that Spark needs in a statement, and that sqlglot treats as optional: a text without them is no SQL here, either.

Neighbours: this parser extends the one of `pipes`; the one of `grammar` extends this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Token, TokenType

from lsmlake.dialect.pipes import Pipes

_WORDS = TokenType.FROM, TokenType.INTO, TokenType.OVERWRITE, TokenType.TABLE, TokenType.UPDATE, TokenType.JOIN, TokenType.USING
_BETWEEN_TOKENS = re.compile(r"--[^\n]*|/\*(\+)?.*?\*/", re.DOTALL)
_HINT = "a hint stands behind SELECT only"
_TYPED_LITERALS = (
    exp.DType.DATE, exp.DType.TIME, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ,
)  # fmt: skip
_CLOSING = {TokenType.R_PAREN: TokenType.L_PAREN, TokenType.R_BRACKET: TokenType.L_BRACKET}
_ANY = TokenType.ANY, TokenType.ALL, TokenType.SOME
_ENDS_VALUE = (
    TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.NUMBER, TokenType.STRING,
)  # fmt: skip
_OPERATORS = {kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if not word[0].isalpha()}
NO_NAMES = frozenset({*Spark.Tokenizer.SINGLE_TOKENS.values(), *Pipes.TEXT_MATCH_EXCLUDED_TOKENS, *_OPERATORS, TokenType.NUMBER})
NO_NAMES -= {TokenType.IDENTIFIER}
"""Tokens that are no name, not even behind AS, where each word is a name."""


def misplaced(text: str, tokens: list[Token]) -> tuple[str, int] | None:
    """The first token that is an error to Spark's grammar, and its place: a dot without a name before it, or with a number behind
    it; an AS without a value; a `;` at the beginning; a hint that is not behind SELECT; a parenthesis without the other."""
    opened: list[Token] = []
    if tokens and tokens[0].token_type is TokenType.SEMICOLON:
        return "nothing stands before this ;", tokens[0].start
    if tokens and (first := _hint(text, 0, tokens[0].start)) is not None:
        return _HINT, first
    for place, token in enumerate(tokens):
        if token.token_type in _CLOSING.values():
            opened.append(token)
        elif token.token_type in _CLOSING and (not opened or opened.pop().token_type is not _CLOSING[token.token_type]):
            return f"nothing is open that this {token.text} closes", token.start
        if token.token_type is TokenType.DOT and _is_nameless([one.token_type for one in tokens[max(0, place - 2) : place]]):
            return "a name must stand before the dot", token.start
        if token.token_type is TokenType.NUMBER and _is_field([one.token_type for one in tokens[max(0, place - 2) : place]]):
            return "a number is no name; a name of digits stands in `backquotes`", token.start
        if token.token_type is TokenType.ALIAS and _is_first([one.token_type for one in tokens[max(0, place - 2) : place]]):
            return "a value must stand before AS", token.start
        stop = tokens[place + 1].start if place + 1 < len(tokens) else len(text)
        if token.token_type is not TokenType.SELECT and (first := _hint(text, token.end + 1, stop)) is not None:
            return _HINT, first
    return (f"this {opened[-1].text} is not closed", opened[-1].start) if opened else None


def _hint(text: str, start: int, stop: int) -> int | None:
    """The place of the first hint between two tokens."""
    return next((match.start() for match in _BETWEEN_TOKENS.finditer(text, start, stop) if match[1]), None)


def _is_nameless(before: list[TokenType]) -> bool:
    """Whether no name stands before a dot, given the two tokens there. `st.from` has one."""
    return not before or before[-1] is TokenType.DOT or (before[-1] in _WORDS and before[0] is not TokenType.DOT)


def _is_field(before: list[TokenType]) -> bool:
    """Whether a number stands where a field of a value has its name, given the two tokens before it."""
    return len(before) == 2 and before[-1] is TokenType.DOT and before[0] in _ENDS_VALUE


def _is_first(before: list[TokenType]) -> bool:
    """Whether AS is the first word of a query's columns, given the two tokens before it. ALL may be a column."""
    return before[-1:] == [TokenType.SELECT] or before == [TokenType.SELECT, TokenType.DISTINCT]


def _quantified(read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A reader of LIKE: behind ANY, ALL and SOME stands a list in parentheses."""

    def made(parser: Any, this: Any) -> Any:
        if parser._match_set(_ANY, advance=False) and parser._next.token_type is not TokenType.L_PAREN:
            parser.raise_error(f"the patterns of {parser._curr.text.upper()} stand in parentheses", parser._next or parser._curr)
        return read(parser, this)

    return made


class Strict(Pipes):
    """The parser of Spark, in which the words of statements must be there."""

    RANGE_PARSERS: ClassVar[Any] = {
        kind: _quantified(read) if kind in (TokenType.LIKE, TokenType.ILIKE) else read
        for kind, read in Pipes.RANGE_PARSERS.items()
    }
    RESERVED_TOKENS: ClassVar[Any] = {*Pipes.RESERVED_TOKENS, *NO_NAMES}

    def _need(self, kind: TokenType, word: str) -> None:
        """Takes a word that must come next."""
        if not self._match(kind):
            self.raise_error(f"expected {word}", self._curr or self._prev)

    def _warn_unsupported(self) -> None:
        """A statement that sqlglot does not know is refused, not logged."""

    # -- names --------------------------------------------------------------------------------------------------------

    def _parse_string_as_identifier(self) -> None:
        """Text in quotes is no name."""

    def _parse_alias(self, this: exp.Expression | None, explicit: bool = False) -> exp.Expression | None:
        """As sqlglot's, but a parameter is no name: neither one of `args`, such as `:x`, nor `@x`."""
        alias = super()._parse_alias(this, explicit)
        if type(alias) is exp.Alias and alias is not this and not isinstance(alias.args["alias"], exp.Identifier):
            self._refuse_name()
        return alias

    def _parse_table_alias(self, *given: Any, **named: Any) -> exp.TableAlias | None:
        """As `_parse_alias`, but the version of `orders@v12` is read as an alias."""
        begins = self._curr
        alias = super()._parse_table_alias(*given, **named)
        name = alias.this if alias is not None else None
        version = isinstance(name, exp.Parameter) and begins.token_type is not TokenType.ALIAS
        if name is not None and not isinstance(name, exp.Identifier) and not version:
            self._refuse_name()
        return alias

    def _parse_field_def(self) -> exp.Expression | None:
        begins = self._curr
        column = super()._parse_field_def()
        if isinstance(column, exp.ColumnDef) and not isinstance(column.this, exp.Identifier):
            self._refuse_name(begins)
        return column

    def _refuse_name(self, token: Token | None = None) -> None:
        self.raise_error("a name is a word, or anything in `backquotes`", token or self._prev)

    # -- statements ---------------------------------------------------------------------------------------------------

    def _parse_merge(self) -> exp.Merge:
        evolves, start = self._match_text_seq("WITH", "SCHEMA", "EVOLUTION"), self._index
        if not self._match(TokenType.INTO, advance=False):
            self.raise_error("expected INTO", self._curr or self._prev)
        node = super()._parse_merge()
        if not self._outside_parentheses(start, TokenType.USING):
            self.raise_error("a MERGE needs USING and a source")
        if not node.args.get("on"):
            self.raise_error("a MERGE needs ON and a condition")
        node.set("evolves", bool(evolves))
        return node

    def _parse_when_matched(self) -> exp.Whens:
        whens = []
        while self._match(TokenType.WHEN):
            matched, source = not self._match(TokenType.NOT), False
            if not self._match_text_seq("MATCHED"):
                self.raise_error("expected MATCHED", self._curr or self._prev)
            if not matched:
                source = not self._match_text_seq("BY", "TARGET") and bool(self._match_text_seq("BY", "SOURCE"))
            condition = self._parse_disjunction() if self._match(TokenType.AND) else None
            self._need(TokenType.THEN, "THEN")
            then = self._parse_then()
            whens.append(self.expression(exp.When(matched=matched, source=source, condition=condition, then=then)))
        return self.expression(exp.Whens(expressions=whens))

    def _parse_then(self) -> exp.Expression:
        """DELETE, UPDATE SET ..., INSERT * or INSERT (columns) VALUES (values)"""
        if self._match(TokenType.DELETE):
            return exp.var("DELETE")
        if self._match(TokenType.UPDATE):
            if not self._match(TokenType.SET):
                self.raise_error("expected UPDATE SET * or UPDATE SET column = value", self._curr or self._prev)
            star = self._parse_star()
            assignments = star or self._parse_csv(self._parse_update_assignment)
            if not assignments:
                self.raise_error("UPDATE SET needs * or column = value", self._curr or self._prev)
            return self.expression(exp.Update(expressions=assignments, where=self._parse_where()))
        if not self._match(TokenType.INSERT):
            self.raise_error("expected UPDATE, DELETE or INSERT", self._curr or self._prev)
        if star := self._parse_star():
            return self.expression(exp.Insert(this=star, where=self._parse_where()))
        columns = self._parse_in_parentheses("INSERT needs * or columns in parentheses")
        self._need(TokenType.VALUES, "VALUES")
        values = self._parse_in_parentheses("VALUES needs values in parentheses")
        return self.expression(exp.Insert(this=columns, expression=values, where=self._parse_where()))

    def _parse_in_parentheses(self, otherwise: str) -> exp.Expression | None:
        if not self._match(TokenType.L_PAREN, advance=False):
            self.raise_error(otherwise, self._curr or self._prev)
        return self._parse_value(values=False)

    def _parse_delete(self) -> exp.Delete:
        node = super()._parse_delete()
        if not node.this:
            self.raise_error("a DELETE needs FROM and a table")
        return node

    def _parse_insert(self) -> exp.Expression:
        words = [one.text.upper() for one in (self._curr, self._next) if one is not None]
        if words == ["OVERWRITE", "INTO"]:
            self.raise_error("an INSERT is INTO a table or OVERWRITE, not both", self._next)
        if words and words[0] not in ("INTO", "OVERWRITE", "IGNORE", "OR", "ALL", "FIRST", "WHEN", "WITH"):
            self.raise_error("expected INTO or OVERWRITE", self._curr)
        start = self._index
        node = super()._parse_insert()
        if isinstance(node, exp.Insert) and not (node.expression or node.args.get("source")):
            self.raise_error("an INSERT needs VALUES or a query")
        if sets := self._outside_parentheses(start, TokenType.SET):
            self.raise_error("an INSERT has VALUES or a query", sets[0])
        return node

    def _parse_update(self) -> exp.Update:
        start = self._index
        node = super()._parse_update()
        words = self._outside_parentheses(start, TokenType.SET, TokenType.WHERE)
        if [one.token_type for one in words] not in ([TokenType.SET], [TokenType.SET, TokenType.WHERE]):
            self.raise_error("an UPDATE has SET and then WHERE, each once", words[-1] if words else self._prev)
        return node

    def _parse_truncate_table(self) -> Any:
        if not self._match(TokenType.TABLE, advance=False):
            self.raise_error("expected TRUNCATE TABLE", self._curr or self._prev)
        return super()._parse_truncate_table()

    def _parse_clustered_by(self) -> exp.Expression:
        node = super()._parse_clustered_by()
        if self._prev.text.upper() != "BUCKETS":
            self.raise_error("CLUSTERED BY needs INTO and a number of BUCKETS", self._curr or self._prev)
        return node

    # -- queries and expressions --------------------------------------------------------------------------------------

    def _parse_select_query(self, *given: Any, **named: Any) -> exp.Expression | None:
        first, start = self._curr, self._index
        query = super()._parse_select_query(*given, **named)
        if first and first.token_type is TokenType.FROM and isinstance(query, exp.Select) and self._has_clauses(start, query):
            self.raise_error("behind FROM and its tables stands SELECT or |>", first)
        return query

    def _has_clauses(self, start: int, node: exp.Select) -> bool:
        """Whether a query that begins with FROM, at the token of that number, has clauses and no SELECT."""
        clauses = (key for key in ("where", "group", "having", "qualify", "order", "limit", "offset", "windows", "sort"))
        return any(node.args.get(key) for key in clauses) and not self._outside_parentheses(start, TokenType.SELECT)

    def _parse_case(self) -> exp.Expression | None:
        start = self._index
        case = super()._parse_case()
        if isinstance(case, exp.Case):
            words = [one.token_type for one in self._tokens[start : self._index]]
            if words.count(TokenType.WHEN) != words.count(TokenType.THEN):
                self.raise_error("each WHEN needs THEN", self._prev)
        return case

    def _parse_between(self, this: exp.Expression | None) -> exp.Expression:
        start = self._index
        between = super()._parse_between(this)
        if not self._outside_parentheses(start, TokenType.AND):
            self.raise_error("BETWEEN needs AND", self._prev)
        return between

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expression | None:
        """As sqlglot's, but only a type of times can stand before a literal: `BIGINT 1` is no SQL."""
        first = self._curr
        node = super()._parse_type(parse_interval, fallback_to_identifier)
        if type(node) is exp.Cast and isinstance(node.this, exp.Literal) and self._prev is not first:
            behind = self._tokens[self._tokens.index(first) + 1]
            typed = node.to.this in _TYPED_LITERALS and node.this.is_string
            if first.token_type in self.TYPE_TOKENS and behind.token_type is not TokenType.L_PAREN and not typed:
                self.raise_error("only DATE, TIME and TIMESTAMP stand before a literal", first)
        return node

    def _outside_parentheses(self, start: int, *kinds: TokenType) -> list[Any]:
        """The tokens of these kinds, from that number to the current one, that stand in no parentheses."""
        depth, tokens = 0, []
        for one in self._tokens[start : self._index]:
            depth += (one.token_type is TokenType.L_PAREN) - (one.token_type is TokenType.R_PAREN)
            if depth == 0 and one.token_type in kinds:
                tokens.append(one)
        return tokens
