"""Reads statements word by word: SHOW, DESCRIBE, CALL, USE, COPY INTO, CREATE (except CREATE TABLE), ALTER, DROP. Also reads
the names of tables and views in any statement.

A reader takes the words of its statement in order; words that are left over at the end are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn, TypeVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.dialect.grammar import PlainSpark
from lsmlake.dialect.sql_text import Text, shown
from lsmlake.dialect.strict import NO_NAMES
from lsmlake.errors import InvalidQuery, TableNotFound
from lsmlake.format.view import View
from lsmlake.tables.views import Views
from lsmlake.types.ddl import requoted

_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_BEFORE = re.compile(r"(\s|--[^\n]*(\n|$)|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"\w*")
_OPENING, _CLOSING = "([", ")]"

_Item = TypeVar("_Item")


def first_word(text: str) -> tuple[str, int]:
    """The first word of a statement in upper case, and the position after it."""
    start = _BEFORE.match(text).end()
    word = _WORD.match(text, start)
    return word[0].upper(), word.end()


class Words:
    """The words of a statement after the first word, with a position. The first word is left out because sqlglot reads all
    text after some first words as one token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.first, start = first_word(text)
        try:
            self.text = requoted(text)
            tokens = sqlglot.tokenize(" " * start + self.text[start:], dialect=PlainSpark)
        except SqlglotError as error:
            raise InvalidQuery("the text is not SQL", where=shown(text), found=error, cure="correct the text") from error
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        self._tokens = [word for token in tokens for word in _words(token)]
        self._next = 0

    @property
    def place(self) -> int:
        """The index of the next word. Setting it goes back."""
        return self._next

    @place.setter
    def place(self, number: int) -> None:
        self._next = number

    @property
    def _token(self) -> Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    # -- words --------------------------------------------------------------------------------------------------------

    def follows(self, *words: str) -> bool:
        """Whether these words come next."""
        tokens = self._tokens[self._next : self._next + len(words)]
        return len(tokens) == len(words) and all(
            token.token_type not in _QUOTED and token.text.upper() == word for token, word in zip(tokens, words, strict=True)
        )

    def take(self, *words: str) -> bool:
        """Takes these words if they come next."""
        taken = self.follows(*words)
        self._next += len(words) * taken
        return taken

    def take_one(self, *words: str) -> str:
        """Takes one of these words if it comes next, and returns it, or ""."""
        return next((word for word in words if self.take(word)), "")

    def clauses(self, readers: Mapping[str, Callable[[], object]], refuse: Callable[[], NoReturn]) -> dict[str, object]:
        """Reads clauses in any order, each at most once, up to AS. `readers`: first word -> reads what follows it. `refuse`:
        raises for another word."""
        given: dict[str, object] = {}
        while not self.take("AS"):
            clause = self.take_one(*readers) or refuse()
            if clause in given:
                self.refuse(f"{clause} is given twice", cure="give it once")
            given[clause] = readers[clause]()
        return given

    def need(self, *words: str, cure: str = "") -> None:
        """Takes these words, which must come next."""
        if not self.take(*words):
            self.refuse(f"expected {' '.join(words)}", cure=cure)

    def any_follow(self) -> bool:
        """Whether there is another word."""
        return self._token is not None

    def is_number(self) -> bool:
        """Whether a number comes next."""
        return self._token is not None and self._token.token_type is TokenType.NUMBER

    def is_text(self) -> bool:
        return self._token is not None and self._token.token_type is TokenType.STRING

    def one(self, what: str) -> str:
        """Takes the next word, without its quotes."""
        token = self._token
        if token is None:
            self.refuse(f"expected {what}")
        self._next += 1
        return token.text

    def literal(self, what: str) -> str:
        """Takes text in quotes."""
        if not self.is_text():
            self.refuse(f"expected {what} in quotes")
        return self.one(what)

    def number(self, what: str) -> int:
        """Takes an integer."""
        token = self._token
        if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdecimal():
            self.refuse(f"expected {what}")
        return int(self.one(what))

    # -- names, lists and types -----------------------------------------------------------------------------------------

    def identifier(self, what: str = "a name") -> str:
        """Takes one name, of a table or column for example, plain or in backquotes."""
        token = self._token
        plain = token is not None and token.token_type not in NO_NAMES and re.fullmatch(r"[\w$]+", token.text)
        if not plain and (token is None or token.token_type is not TokenType.IDENTIFIER):
            self.refuse(f"expected {what}")
        return self.one(what)

    def path(self, what: str = "a name") -> list[str]:
        """Takes names that are joined by dots."""
        parts = [self.identifier(what)]
        while self.take("."):
            parts.append(self.identifier(what))
        return parts

    def name(self) -> str:
        """Takes the name of a table, with or without its database."""
        start, parts = self._next, self.path()
        if any("." in part for part in parts):
            self._next = start
            self.refuse("a name has a point in it", expected="database.table, each in its own quotes")
        return ".".join(parts)

    def listed(self, read: Callable[[], _Item]) -> list[_Item]:
        """Takes `(item, ...)`."""
        self.need("(")
        items = [read()]
        while self.take(","):
            items.append(read())
        self.need(")")
        return items

    def pairs(self, what: str) -> dict[str, str]:
        """Takes `('name' = 'value', ...)`; `=` may be left out, as in Spark."""
        values: dict[str, str] = {}

        def pair() -> None:
            start = self._next
            name = self.literal(what) if self.is_text() else ".".join(self.path(what))
            if name in values:
                self._next = start
                self.refuse(f"{name} is given twice")
            self.take("=")
            values[name] = self._value(name)

        self.listed(pair)
        return values

    def _value(self, name: str) -> str:
        sign = "-" if self.take("-") else ""
        token = self._token
        plain = token is not None and (token.text.upper() in ("TRUE", "FALSE") or token.token_type is TokenType.NUMBER)
        if not plain and (sign or not self.is_text()):
            self.refuse(f"expected the value of {name}")
        word = self.one("a value")
        return sign + (word.lower() if word.upper() in ("TRUE", "FALSE") else word)

    def until(self, what: str, *stops: str) -> str:
        """Takes the text up to one of the words `stops`, a comma, an unmatched closing bracket, or the end."""
        first, depth = self._next, 0
        while (token := self._token) is not None:
            word = "" if token.token_type in _QUOTED else token.text.upper()
            if not depth and (word in (*stops, ",", *_CLOSING)) and word:
                break
            depth += (word in _OPENING and bool(word)) - (word in _CLOSING and bool(word))
            self._next += 1
        if first == self._next:
            self.refuse(f"expected {what}")
        return self.text[self._tokens[first].start : self._tokens[self._next - 1].end + 1]

    def type(self) -> str:
        """Takes a type, such as DECIMAL(10,2) or ARRAY<STRUCT<a: INT>>."""
        first = self._next
        self.identifier("a type")
        depth = 0
        while (token := self._token) is not None:
            depth += token.text.count("<") + token.text.count("(") if token.token_type not in _QUOTED else 0
            if not depth:
                break
            depth -= token.text.count(">") + token.text.count(")") if token.token_type not in _QUOTED else 0
            self._next += 1
            if not depth:
                break
        return self.text[self._tokens[first].start : self._tokens[self._next - 1].end + 1]

    def rest(self, what: str) -> str:
        """Takes the rest of the statement, as text."""
        token = self._token
        if token is None:
            self.refuse(f"expected {what}")
        self._next = len(self._tokens)
        return self.text[token.start : self._tokens[-1].end + 1]

    # -- errors -------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Refuses further words."""
        if self._token is not None:
            self.refuse("this is not supported here")

    def refuse(self, what: str, *, expected: str = "", cure: str = "correct the statement") -> NoReturn:
        """Raises InvalidQuery with the place of the next word."""
        token = self._token
        place = f"character {token.start + 1} of {shown(self.text)}" if token else f"the end of {shown(self.text)}"
        raise InvalidQuery(what, where=place, expected=expected, found=token.text if token else "", cure=cure)


def _words(token: Token) -> Iterator[Token]:
    """The words of a token. The tokenizer makes one token of some pairs, such as PRIMARY KEY."""
    if token.token_type in _QUOTED or not re.search(r"\s", token.text):
        yield token
        return
    for word in re.finditer(r"\S+", token.text):
        start = token.start + word.start()
        yield Token(TokenType.VAR, word[0], start=start, end=start + len(word[0]) - 1)


# -- names ------------------------------------------------------------------------------------------------------------


def full_name(lake: Lake, words: Words) -> str:
    """Takes the name of a table; returns it with the database. Refuses a name without a database if none is current."""
    place = words.place
    name = lake.session.full_name(words.name())
    if "." not in name:
        words.place = place
        words.refuse("the table lacks its database", expected="database.table", cure=cure_of(lake, name))
    return name


def name_of(node: exp.Table, text: Text) -> str:
    """The name of a table in the text."""
    parts = [part.name for part in node.parts]
    if any("." in part for part in parts):
        text.refuse(
            node,
            "a name has a point in it",
            expected="database.table, each in its own quotes",
            cure="write the names apart, each in backticks",
        )
    return ".".join(parts)


def cure_of(lake: Lake, name: str) -> str:
    """The cure for a name without a database."""
    homes = [one for one in lake.tables() if one.partition(".")[2].lower() == name.lower()]
    return f"write {homes[0]}" if homes else "write the database before the table, or USE database"


def table_or_view_name(lake: Lake, words: Words) -> str:
    """Takes the name of a table or view. A name without a database can mean a temporary view."""
    place = words.place
    name = words.name()
    if "." not in name and lake.session.view(name) is not None:
        return name
    words.place = place
    return full_name(lake, words)


def table_or_view(lake: Lake, name: str) -> Table | View:
    """Raises TableNotFound."""
    if "." not in name and (view := lake.session.view(name)) is not None:
        return view
    try:
        return lake.table(name)
    except TableNotFound:
        if "$" in name or (view := Views(lake.env.storage).get(name)) is None:
            raise
        return view
