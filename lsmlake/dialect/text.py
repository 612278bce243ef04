"""SQL text: Spark's grammar as sqlglot reads it, and the errors that name a place in it.

Function calls keep the names of the text (`FUNCTIONS` is empty), because sqlglot would translate them to functions of its own,
whose meaning for a dialect may change with its version. `functions` knows what each name means to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokens import TokenType

from lsmlake.dialect import reading
from lsmlake.dialect.pipes import Pipes
from lsmlake.errors import InvalidQuery
from lsmlake.schema.ddl import requoted

_TEXT_SHOWN_MAX = 200
_EXPECTED_MAX = 300
_CALLS_WITH_WORDS = ("CAST", "TRY_CAST", "EXTRACT", "TRIM")
_CURES = {
    "cluster": "write ORDER BY",
    "distribute": "leave it out: this process sorts and groups all rows",
    "for_": "leave it out",
    "kind": "leave it out",
    "sample": "filter by a column, or attach Spark",
    "sort": "write ORDER BY",
}
"""What to write instead of a clause, by sqlglot's name of it."""
_CLAUSES = {"pivots": "PIVOT", "sample": "TABLESAMPLE", "sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY"}
"""How the text writes a clause, where sqlglot's name differs."""
_PARTS = ("this", "expression", "expressions")
"""Arguments that have no word of their own."""
_BEHIND_A_NAME = (TokenType.COMMA, TokenType.FROM, TokenType.ALIAS)
_PLACE, SPAN = "start", "span"


def _placed(read: Callable[[Any], exp.Expression | None]) -> Callable[[Any], exp.Expression | None]:
    """A reader of parameters that notes their places: the order of `?` is the order of the text."""

    def made(parser: Any) -> exp.Expression | None:
        start = parser._prev.start
        node = read(parser)
        if node is not None:
            node.meta[_PLACE], node.meta[SPAN] = start, (start, parser._prev.end + 1)
        return node

    return made


class PlainSpark(Spark):
    class Tokenizer(Spark.Tokenizer):
        VAR_SINGLE_TOKENS: ClassVar[Any] = {"$"}  # orders$snapshots is a name
        SINGLE_TOKENS: ClassVar[Any] = {text: kind for text, kind in Spark.Tokenizer.SINGLE_TOKENS.items() if text != "$"}

    class Parser(Pipes):
        PLACEHOLDER_PARSERS: ClassVar[Any] = {kind: _placed(read) for kind, read in Spark.Parser.PLACEHOLDER_PARSERS.items()}
        FUNCTIONS: ClassVar[Any] = {}
        UNARY_PARSERS: ClassVar[Any] = {
            **Spark.Parser.UNARY_PARSERS,
            TokenType.PLUS: lambda self: exp.Anonymous(this="positive", expressions=[self._parse_unary()]),
        }
        STATEMENT_PARSERS: ClassVar[Any] = {
            **Spark.Parser.STATEMENT_PARSERS,
            TokenType.TABLE: lambda self: exp.Select(expressions=[exp.Star()], from_=exp.From(this=self._parse_table())),
        }
        FUNCTION_PARSERS: ClassVar[Any] = {
            name: read for name, read in Spark.Parser.FUNCTION_PARSERS.items() if name in _CALLS_WITH_WORDS
        }

        def _parse_bracket(self, this: Any = None) -> Any:
            """`array(1, 2)[0]`: an element of the call; the parser would take `array[0]` for an array of 0."""
            if not isinstance(this, exp.Anonymous):
                return super()._parse_bracket(this)
            call = exp.Paren(this=this)
            found = super()._parse_bracket(call)
            return this if found is call else found

        def _parse_statement(self) -> exp.Expression | None:
            return self._noted(super()._parse_statement)

        def _parse_disjunction(self) -> exp.Expression | None:
            return self._noted(super()._parse_disjunction)

        def _parse_ddl_select(self) -> exp.Expression | None:
            return self._noted(super()._parse_ddl_select)

        def _parse_derived_table_values(self, *given: Any, **named: Any) -> exp.Expression | None:
            return self._noted(partial(super()._parse_derived_table_values, *given, **named))

        def _parse_with(self, *given: Any, **named: Any) -> exp.Expression | None:
            return self._noted(partial(super()._parse_with, *given, **named))

        def _parse_table(self, *given: Any, **named: Any) -> exp.Expression | None:
            return self._noted(partial(super()._parse_table, *given, **named))

        def _noted(self, read: Callable[[], exp.Expression | None]) -> exp.Expression | None:
            """Notes where in the text an expression, a query or a table stands, for an engine that reads a part of the text."""
            start = self._curr.start if self._curr else 0
            node = read()
            if node is not None:
                node.meta[SPAN] = (start, self._prev.end + 1)
            return node

        def _parse_merge(self) -> exp.Merge:
            evolves = self._match_text_seq("WITH", "SCHEMA", "EVOLUTION")
            node = super()._parse_merge()
            node.set("evolves", bool(evolves))
            return node

        def _parse_projections(self) -> Any:
            """As sqlglot's, but something must follow each comma: `SELECT a, FROM t` has lost a column."""
            found = super()._parse_projections()
            if self._prev is not None and self._prev.token_type is TokenType.COMMA:
                self.raise_error("no column follows the comma", self._prev)
            return found

        def _parse_partition_by(self) -> Any:
            found = super()._parse_partition_by()
            if found and self._prev.token_type is TokenType.COMMA:
                self.raise_error("nothing follows the comma", self._prev)
            return found

        def _match(self, token_type: Any, advance: bool = True, expression: Any = None) -> Any:
            """As sqlglot's, but ALL before a comma and the like is a name: `SELECT all, n` has two columns."""
            if token_type is TokenType.ALL and self._next is not None and self._next.token_type in _BEHIND_A_NAME:
                return None
            return super()._match(token_type, advance, expression)

        def _parse_as_command(self, start: Any) -> exp.Command:
            """A statement that sqlglot does not know. Notes the place where it gave up, and logs no warning: it is refused."""
            place = (self._curr or start).start
            while self._curr:
                self._advance()
            node = exp.Command(this=start.text, expression=self._find_sql(start, self._prev)[len(start.text) :])
            node.meta[_PLACE] = place
            return node


class Text:
    """A SQL text, and the places of its parsed parts."""

    def __init__(self, text: str) -> None:
        try:
            self.text = requoted(text)
        except SqlglotError as error:
            raise InvalidQuery("the text is not SQL", where=shown(text)) from error

    @contextmanager
    def read(self) -> Iterator[exp.Expression]:
        """The one statement or expression of the text, for reading it. Raises InvalidQuery, at the end for what was not read."""
        tree = self._parsed()
        reading.watch(tree)
        yield tree
        self.end(tree)

    def end(self, tree: exp.Expression) -> None:
        """Refuses the first argument of a tree that was not read."""
        if (found := reading.unread(tree)) is None:
            return
        node, key = found
        value = reading.peek(node, key)
        parts = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, exp.Expression)]
        if key in _PARTS:
            self.refuse(node, "this is not supported here")
        word = value.upper() if isinstance(value, str) else _CLAUSES.get(key) or key.strip("_").replace("_", " ").upper()
        self.refuse(parts[0] if parts else node, f"{word} is not supported here", cure=_CURES.get(key, ""))

    def word(self, node: exp.Expression, key: str, *known: str) -> str:
        """The text of an argument, such as the kind of a join, in upper case; "" if it is not set. Refuses a word that is not one
        of `known`."""
        found = reading.word(node, key)
        if found and found not in known:
            expected = ", ".join(known)
            self.refuse(node, f"{found} is not supported here", expected=expected, cure=_CURES.get(found.lower(), ""))
        return found

    def _parsed(self) -> exp.Expression:
        where = shown(self.text)
        try:
            found = [part for part in sqlglot.parse(self.text, dialect=PlainSpark) if part is not None]
        except ParseError as error:
            first = error.errors[0] if error.errors else {}
            word = first.get("highlight") or ""
            place = self._at(_start_of(self.text, first, len(word)))
            found = repr(word or first.get("description", ""))
            raise InvalidQuery("the text is not SQL", where=place, found=found, cure="correct the text") from error
        except (SqlglotError, RecursionError) as error:
            raise InvalidQuery("the text is not SQL", where=where, cure="correct the text") from error
        if len(found) != 1 or isinstance(found[0], exp.Block):
            raise InvalidQuery("expected exactly one statement", where=where, found=len(found), cure="pass them one by one")
        return found[0]

    def span(self, node: exp.Expression) -> tuple[int, int] | None:
        """Where an expression, a query or a table begins and ends in `text`; None for a part of one, and for a node that was made
        later."""
        return node.meta.get(SPAN)

    def place(self, node: exp.Expression) -> str:
        """Where a node stands in the text."""
        starts = [part.meta[_PLACE] for part in node.walk() if _PLACE in part.meta]
        return self._at(min(starts)) if starts else shown(self.text)

    def _at(self, start: int) -> str:
        """A place of the text, and the text around it."""
        line, first = self.text.count("\n", 0, start) + 1, self.text.rfind("\n", 0, start) + 1
        place = f"line {line}, character {start - first + 1}" if "\n" in self.text.strip() else f"character {start + 1}"
        return f"{place} of {shown(self.text, start)}"

    def refuse(self, node: exp.Expression, what: str, *, expected: object = "", found: object = None, cure: str = "") -> NoReturn:
        """Raises InvalidQuery with the place of the node."""
        shown = node.sql("spark", unsupported_level=ErrorLevel.IGNORE, normalize_functions=False) if found is None else found
        wanted = (
            str(expected) if len(str(expected)) <= _EXPECTED_MAX else f"{str(expected)[:_EXPECTED_MAX].rpartition(', ')[0]}, ..."
        )
        raise InvalidQuery(what, where=self.place(node), expected=wanted, found=shown, cure=cure)


def _start_of(text: str, error: dict[str, Any], length: int) -> int:
    """The place of an error of sqlglot, which counts lines and the characters up to the end of a word from 1."""
    lines = text.splitlines(keepends=True)
    before = sum(map(len, lines[: error.get("line", 1) - 1]))
    return max(0, before + error.get("col", 0) - length)


def shown(text: str, start: int = 0) -> str:
    """The text, or if it is long the part of it around a place."""
    first = max(0, start - _TEXT_SHOWN_MAX // 2) if len(text) > _TEXT_SHOWN_MAX else 0
    part = text[first : first + _TEXT_SHOWN_MAX]
    return repr(f"{'...' if first else ''}{part}{'...' if first + len(part) < len(text) else ''}")
