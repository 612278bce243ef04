"""Spark's grammar, as sqlglot reads it, with the differences that sqlglot leaves out.

Function calls keep the names of the text (`FUNCTIONS` is empty), because sqlglot would translate them to functions of its
own, whose meaning for a dialect may change with its version. `functions` knows what each name means to Spark.

INTERVAL is read by Spark's grammar, where the parser of sqlglot has one of its own:

    INTERVAL '1 day 2 hours'
    INTERVAL [+|-] number unit [[+|-] number unit ...]
    INTERVAL [+|-] 'text' field TO field

The node is an `exp.Interval`: a text without a unit for the first two, for the last one a text with an `exp.IntervalSpan`.
Before anything else INTERVAL is a name, as in `interval - 1`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from lsmlake.dialect.strict import Strict
from lsmlake.errors import MissingDependency
from lsmlake.types.intervals import MICROSECONDS, MONTHS
from lsmlake.types.spelling import SparkTypes

if not isinstance(Spark.Parser.__init__, FunctionType):  # a class of compiled code, which no class of Python can extend
    raise MissingDependency(
        "reading SQL needs sqlglot as Python code",
        found="the package sqlglotc, which the extra sqlglot[c] installs: classes of compiled code cannot be extended",
        cure="run: pip uninstall sqlglotc",
    )

PLACE, SPAN = "start", "span"
"""Keys of a node's `meta`: the place where it starts in the text; the places where it starts and ends."""
_CALLS_WITH_WORDS = ("CAST", "TRY_CAST", "TRIM")
_BEHIND_A_NAME = (TokenType.COMMA, TokenType.FROM, TokenType.ALIAS)
_BEGINS_QUERY = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.FROM, TokenType.TABLE)
_AFTER_IS = ("NULL", "TRUE", "FALSE", "UNKNOWN")
_CLAUSES = ("WHERE", "GROUP_BY", "HAVING", "QUALIFY", "ORDER_BY", "LIMIT", "OFFSET")
_PLACES = {TokenType[word]: place for place, word in enumerate(_CLAUSES)}
_BINDS = (TokenType.DCOLON, TokenType.DOT, TokenType.L_BRACKET)
_AGAIN_MAX, _AGAIN_PER_TOKEN = 200_000, 50
"""How many words of a text may be read again, after a reading that failed: a second or two of work."""


class Entangled(SqlglotError):
    """A text has so many readings that it is not tried which of them is right."""


def _is_written(node: exp.Expression | None) -> bool:
    """Whether a node stands in the text; sqlglot adds ON TRUE to a join without ON."""
    return node is not None and SPAN in node.meta


def _placed(read: Callable[[Any], exp.Expression | None]) -> Callable[[Any], exp.Expression | None]:
    """A reader of parameters that notes their places: the order of `?` is the order of the text."""

    def made(parser: Any) -> exp.Expression | None:
        start = parser._prev.start
        node = read(parser)
        if node is not None:
            node.meta[PLACE], node.meta[SPAN] = start, (start, parser._prev.end + 1)
        return node

    return made


def _in_order(kind: TokenType, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A reader of a clause of SELECT that refuses it behind a clause evaluated later: sqlglot takes clauses in any order."""
    place = _PLACES.get(kind)
    if place is None:
        return read

    def made(parser: Any) -> Any:
        if place <= parser._place:
            parser.raise_error("a clause stands behind one that comes later", parser._curr)
        parser._place = place
        return read(parser)

    return made


class PlainSpark(SparkTypes):
    class Tokenizer(SparkTypes.Tokenizer):
        KEYWORDS: ClassVar[Any] = {
            word: kind
            for word, kind in SparkTypes.Tokenizer.KEYWORDS.items()
            if kind not in (TokenType.ISNULL, TokenType.NOTNULL)  # functions of Spark, no operators
        }
        VAR_SINGLE_TOKENS: ClassVar[Any] = {"$"}  # orders$snapshots is a name
        SINGLE_TOKENS: ClassVar[Any] = {text: kind for text, kind in Spark.Tokenizer.SINGLE_TOKENS.items() if text != "$"}

    class Parser(Strict):
        PLACEHOLDER_PARSERS: ClassVar[Any] = {kind: _placed(read) for kind, read in Spark.Parser.PLACEHOLDER_PARSERS.items()}
        FUNCTIONS: ClassVar[Any] = {}
        QUERY_MODIFIER_PARSERS: ClassVar[Any] = {
            kind: _in_order(kind, read) for kind, read in Spark.Parser.QUERY_MODIFIER_PARSERS.items()
        }
        _place = -1
        UNARY_PARSERS: ClassVar[Any] = {
            **Spark.Parser.UNARY_PARSERS,
            TokenType.PLUS: lambda self: exp.Anonymous(this="positive", expressions=[self._parse_unary()]),
        }
        NO_PAREN_FUNCTIONS: ClassVar[Any] = {}  # `expression` looks for a column first
        ID_VAR_TOKENS: ClassVar[Any] = {*Spark.Parser.ID_VAR_TOKENS, *Spark.Parser.NO_PAREN_FUNCTIONS}
        SUPPORTS_TABLE_QUERY: ClassVar[bool] = True
        FUNCTION_PARSERS: ClassVar[Any] = {
            **{name: read for name, read in Spark.Parser.FUNCTION_PARSERS.items() if name in _CALLS_WITH_WORDS},
            "EXISTS": lambda self: self._exists(),
            "EXTRACT": lambda self: self._extract(),
            "SUBSTRING": lambda self: self._call_with_words("substring", "FROM", "FOR"),
            "SUBSTR": lambda self: self._call_with_words("substr", "FROM", "FOR"),
            "OVERLAY": lambda self: self._call_with_words("overlay", "PLACING", "FROM", "FOR"),
        }

        def _call_with_words(self, name: str, *words: str) -> exp.Anonymous:
            """The arguments of a call, with commas or these words between them."""
            arguments = self._parse_csv(self._parse_disjunction)
            if len(arguments) == 1:
                for _ in takewhile(self._match_text_seq, words):
                    arguments.append(self._parse_bitwise())
            return exp.Anonymous(this=name, expressions=arguments)

        def _exists(self) -> exp.Expression:
            """EXISTS of a query, which may be in parentheses of its own, with clauses behind them; or a call with an array."""
            name, start = self._tokens[self._index - 2].text, self._index
            words = (one.token_type for one in self._tokens[start:] if one.token_type is not TokenType.L_PAREN)
            if next(words, None) in _BEGINS_QUERY:
                query = self._parse_ddl_select()
                if query is not None and self._match(TokenType.R_PAREN, advance=False):
                    return self.expression(exp.Exists(this=query))
                self._retreat(start)
            return exp.Anonymous(this=name, expressions=self._parse_function_args(True))

        def _extract(self) -> exp.Expression:
            """`field FROM time`, or with a comma a call as any other, in which the field is a text."""
            if self._next is None or self._next.token_type is not TokenType.FROM:
                return exp.Anonymous(this="extract", expressions=self._parse_csv(self._parse_disjunction))
            field = self._parse_id_var()
            if not isinstance(field, exp.Identifier):
                self.raise_error("a field is a word, such as EXTRACT(YEAR FROM time)", self._curr)
            self._match(TokenType.FROM)
            return self.expression(exp.Extract(this=field, expression=self._parse_bitwise()))

        def _parse_bracket(self, this: Any = None) -> Any:
            """`array(1, 2)[0]`: an element of the call; the parser would take `array[0]` for an array of 0."""
            if not isinstance(this, exp.Anonymous):
                return super()._parse_bracket(this)
            call = exp.Paren(this=this)
            element = super()._parse_bracket(call)
            return this if element is call else element

        def _is_table_query(self) -> bool:
            """`TABLE name`. As sqlglot's, but the name may be quoted, and no `*` is overlooked behind it."""
            if self._curr.token_type is not TokenType.TABLE or self._next is None:
                return False
            if self._next.token_type not in (*self.ID_VAR_TOKENS, TokenType.IDENTIFIER):
                return False
            rest = self._tokens[self._index + 2 :]
            while len(rest) > 2 and rest[0].token_type is TokenType.DOT:
                rest = rest[2:]
            if rest and rest[0].token_type in (TokenType.STAR, TokenType.COMMA, TokenType.JOIN):
                self.raise_error("nothing stands behind the name of the table", rest[0])
            return True

        def _parse_interval(self, *given: Any, **named: Any) -> exp.Expression | None:
            return interval(self)

        def _parse_statement(self) -> exp.Expression | None:
            return self._noted(super()._parse_statement)

        def _parse_disjunction(self) -> exp.Expression | None:
            return self._noted(super()._parse_disjunction)

        def _parse_ddl_select(self) -> exp.Expression | None:
            return self._noted(super()._parse_ddl_select)

        def _parse_derived_table_values(self, *given: Any, **named: Any) -> exp.Expression | None:
            named.pop("allow_value_synonym", None)  # VALUE is MySQL's
            return self._noted(partial(super()._parse_derived_table_values, *given, **named))

        def _parse_with(self, *given: Any, **named: Any) -> exp.Expression | None:
            start = self._index
            clause = self._noted(partial(super()._parse_with, *given, **named))
            for one in self._outside_parentheses(start, TokenType.WITH)[0 if named.get("skip_with_token") else 1 :]:
                self.raise_error("WITH stands once, with commas between its queries", one)
            return clause

        def _parse_limit(self, *given: Any, **named: Any) -> exp.Expression | None:
            """As sqlglot's, without MySQL's `LIMIT offset, count`."""
            limit = super()._parse_limit(*given, **named)
            if isinstance(limit, exp.Limit) and limit.args.get("offset") is not None:
                self.raise_error("LIMIT has one number; write LIMIT n OFFSET m", self._prev)
            return limit

        def _parse_window(self, this: exp.Expression | None, *given: Any, **named: Any) -> exp.Expression | None:
            """As sqlglot's, but IGNORE NULLS or RESPECT NULLS is said once: in the call or behind it."""
            if isinstance(self._nulls_of(this), (exp.IgnoreNulls, exp.RespectNulls)) and self._nulls_follow():
                self.raise_error("what becomes of nulls is said twice", self._curr)
            return super()._parse_window(this, *given, **named)

        @staticmethod
        def _nulls_of(call: exp.Expression | None) -> exp.Expression | None:
            """The last argument of a call."""
            arguments = call.expressions if isinstance(call, exp.Anonymous) else []
            return arguments[-1] if arguments else None

        def _nulls_follow(self) -> bool:
            words = [one.text.upper() for one in (self._curr, self._next) if one is not None]
            return words in (["IGNORE", "NULLS"], ["RESPECT", "NULLS"])

        def _parse_table(self, *given: Any, **named: Any) -> exp.Expression | None:
            return self._noted(partial(super()._parse_table, *given, **named))

        def _noted(self, read: Callable[[], exp.Expression | None]) -> exp.Expression | None:
            """Notes where in the text an expression, a query or a table stands, for an engine that reads a part of the text."""
            start = self._curr.start if self._curr else 0
            node = read()
            if node is not None:
                node.meta[SPAN] = (start, self._prev.end + 1)
            return node

        def _parse_query_modifiers(self, this: Any) -> Any:
            before, self._place = self._place, -1
            try:
                return super()._parse_query_modifiers(this)
            finally:
                self._place = before

        def _parse_ordered(self, parse_method: Callable[[], Any] | None = None) -> exp.Ordered | None:
            ends: list[int] = []

            def read() -> Any:
                node = (parse_method or self._parse_disjunction)()
                ends.append(self._index)
                return node

            ordered = super()._parse_ordered(read)
            words = [one.text.upper() for one in self._tokens[ends[0] : self._index]]
            if {"ASC", "DESC"}.issubset(words) or words.count("NULLS") > 1:
                self.raise_error("one order is given twice", self._prev)
            return ordered

        def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
            """As sqlglot's, but something must stand on both sides of a comma: `SELECT a, FROM t` has lost a column."""

            def item() -> Any:
                start = self._prev
                node = parse_method()
                if node is None and self._prev is start:
                    self._refuse_comma(start, self._curr)
                return node

            return super()._parse_csv(item, sep)

        def reset(self) -> None:
            super().reset()
            self._again = 0
            self._lone: set[int] = set()

        def _retreat(self, index: int) -> None:
            """As sqlglot's, but with a limit: where each reading of a part tries two readings of the part inside, they double
            from level to level."""
            self._again += max(0, self._index - index)
            if self._again > _AGAIN_MAX + _AGAIN_PER_TOKEN * self._tokens_size:
                raise Entangled(f"{self._again} words were read again")
            super()._retreat(index)

        def _parse_join(self, *given: Any, **named: Any) -> exp.Join | None:
            start = self._curr
            join = super()._parse_join(*given, **named)
            if join is None:
                self._refuse_comma(start)
            elif not (_is_written(join.args.get("on")) or join.args.get("using") or join.this.args.get("joins")):
                self._lone.add(self._index)
            return join

        def _parse_joins(self, *given: Any, **named: Any) -> Iterator[exp.Join]:
            """As sqlglot's. Behind a join without ON it looks for joins that belong to the table of this join, and would look
            again for each join before."""
            return iter(()) if self._index in self._lone else super()._parse_joins(*given, **named)

        def _parse_types(self, check_func: bool = False, **named: Any) -> exp.Expression | None:
            """As sqlglot's, but where a type is only tried, an error means no type: `array(NULL, 1)` is a call."""
            read = partial(super()._parse_types, check_func, **named)
            return self._try_parse(read) if check_func else read()

        def _refuse_comma(self, *tokens: Any) -> None:
            for one in tokens:
                if one is not None and one.token_type is TokenType.COMMA:
                    self.raise_error("something must stand before and behind a comma", one)

        def _parse_star_op(self, *keywords: str) -> list[exp.Expression] | None:
            """Reads EXCEPT behind `*`, with columns in parentheses: Spark has no other operator of `*`."""
            if "EXCEPT" not in keywords:
                return None
            keywords = ("EXCEPT",)
            behind = self._next.token_type if self._next is not None else None
            if self._match_texts(keywords, advance=False) and behind is not TokenType.L_PAREN:
                self.raise_error(f"{self._curr.text} needs its columns in parentheses", self._next or self._curr)
            return super()._parse_star_op(*keywords)

        def _parse_is(self, this: exp.Expression | None) -> exp.Expression | None:
            """As sqlglot's, but nothing binds to the word after IS: `a IS NULL :: INT` is not SQL to Spark."""
            last = self._next if self._curr is not None and self._curr.token_type is TokenType.NOT else self._curr
            behind = self._tokens[self._tokens.index(last) + 1 :][:1] if last is not None else []
            if last is not None and last.text.upper() in _AFTER_IS and behind and behind[0].token_type in _BINDS:
                self.raise_error("nothing can follow here", behind[0])
            return super()._parse_is(this)

        def _match(self, token_type: Any, advance: bool = True, expression: Any = None) -> Any:
            """As sqlglot's, but ALL before a comma and the like is a name: `SELECT all, n` has two columns."""
            if token_type is TokenType.ALL and self._next is not None and self._next.token_type in _BEHIND_A_NAME:
                return None
            return super()._match(token_type, advance, expression)

        def _parse_as_command(self, start: Any) -> exp.Command:
            """Reads a statement that sqlglot does not know, and that is refused later. Notes the place; logs no warning."""
            place = (self._curr or start).start
            while self._curr:
                self._advance()
            node = exp.Command(this=start.text, expression=self._find_sql(start, self._prev)[len(start.text) :])
            node.meta[PLACE] = place
            return node


# -- INTERVAL ---------------------------------------------------------------------------------------------------------

_UNITS = frozenset(("NANOSECOND", "MICROSECOND", "MILLISECOND", *MICROSECONDS, "WEEK", *MONTHS))
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)
_SIGNS = (TokenType.DASH, TokenType.PLUS)


class _IntervalPart(NamedTuple):
    """A number with its sign, in a text or as digits, and the unit behind it, in upper case and without an S."""

    number: str
    is_text: bool
    unit: str


def interval(parser: Any) -> exp.Interval | None:
    """The INTERVAL literal at the place of the parser; None if there is none."""
    index, start = parser._index, parser._curr
    if start is None or start.token_type is not TokenType.INTERVAL:
        return None
    parser._advance()
    if _word(parser) in _UNITS and parser._next is not None and parser._next.token_type in (*_TEXTS, TokenType.NUMBER):
        parser.raise_error("the unit of an INTERVAL stands behind its number", start)
    parts: list[_IntervalPart] = []
    while (part := _part(parser)) is not None:
        parts.append(part)
        if parser._match_text_seq("TO"):
            return _span(parser, start, parts)
    if parts:
        if any(part.is_text and any(map(str.isalpha, part.number)) for part in parts):
            parser.raise_error("a text before a unit of an INTERVAL is a number", start)
        return _literal(parser, start, " ".join(f"{part.number} {part.unit}" for part in parts))
    if parser._curr is not None and parser._curr.token_type in _TEXTS:
        text = parser._curr.text
        parser._advance()
        return _literal(parser, start, text)
    parser._retreat(index)
    return None


def _span(parser: Any, start: Any, parts: list[_IntervalPart]) -> exp.Interval:
    """Reads the field behind `INTERVAL 'text' field TO`, and returns the literal."""
    first, last = parts[-1], _word(parser)
    if len(parts) > 1 or not first.is_text or first.unit not in (*MONTHS, *MICROSECONDS):
        parser.raise_error("INTERVAL takes one text before field TO field", start)
    parser._advance()
    if _part(parser) is not None:
        parser.raise_error("nothing stands behind field TO field of an INTERVAL", start)
    return _literal(parser, start, first.number, exp.IntervalSpan(this=exp.Var(this=first.unit), expression=exp.Var(this=last)))


def _part(parser: Any) -> _IntervalPart | None:
    """The number at the place of the parser and its unit; None if something else follows."""
    index, sign = parser._index, ""
    if parser._curr is not None and parser._curr.token_type in _SIGNS:
        sign = parser._curr.text
        parser._advance()
    point = "." if parser._match(TokenType.DOT) else ""
    token = parser._curr
    if token is not None and ((token.token_type in _TEXTS and not point) or _is_plain(token)):
        parser._advance()
        written = _word(parser)
        unit = written if written in _UNITS else written.removesuffix("S")
        if unit in _UNITS:
            parser._advance()
            return _IntervalPart(_signed(sign, point + token.text), token.token_type in _TEXTS, unit)
    parser._retreat(index)
    return None


def _word(parser: Any) -> str:
    """The next word in upper case; "" if a text, a quoted name or nothing follows."""
    token = parser._curr
    return "" if token is None or token.token_type in (*_TEXTS, TokenType.IDENTIFIER) else token.text.upper()


def _is_plain(token: Any) -> bool:
    """Whether a token is digits, perhaps with a point."""
    return token.token_type is TokenType.NUMBER and token.text.replace(".", "", 1).isdecimal()


def _signed(sign: str, number: str) -> str:
    if sign != "-":
        return number
    return number[1:] if number.startswith("-") else f"-{number}"


def _literal(parser: Any, start: Any, text: str, unit: exp.Expression | None = None) -> exp.Interval:
    made = exp.Literal.string(text)
    made.update_positions(start)
    return parser.expression(exp.Interval(this=made, unit=unit))
