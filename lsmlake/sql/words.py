"""Statements that sqlglot does not parse, read word by word: SHOW, DESCRIBE, CALL, and the rest of ALTER TABLE."""

from __future__ import annotations

from typing import NoReturn

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from lsmlake.dialect.text import PlainSpark, shown
from lsmlake.errors import InvalidQuery

_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)


class Words:
    """The words of a statement after the first one, and the next of them. sqlglot would read all after some first words as one
    token."""

    def __init__(self, text: str) -> None:
        self.text = text
        first = text.split(maxsplit=1)[0]
        start = text.index(first) + len(first)
        self.first = first.upper()
        try:
            tokens = sqlglot.tokenize(" " * start + text[start:], dialect=PlainSpark)
        except SqlglotError as error:
            raise InvalidQuery("the text is not SQL", where=shown(text), found=error, cure="correct the text") from error
        self._tokens = [token for token in tokens if token.token_type is not TokenType.SEMICOLON]
        self._next = 0

    @property
    def _token(self) -> Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def take(self, *words: str) -> bool:
        """Takes these words if they come next."""
        found = [token.text.upper() for token in self._tokens[self._next : self._next + len(words)]]
        taken = found == list(words)
        self._next += len(words) * taken
        return taken

    def is_text(self) -> bool:
        return self._token is not None and self._token.token_type is TokenType.STRING

    def one(self, what: str) -> str:
        """Takes the next word, without its quotes."""
        token = self._token
        if token is None:
            self.refuse(f"expected {what}")
        self._next += 1
        return token.text

    def name(self) -> str:
        """Takes a dotted name."""
        parts = [self.one("a name")]
        while self.take("."):
            parts.append(self.one("a name"))
        return ".".join(parts)

    def end(self) -> None:
        """Refuses further words."""
        if self._token is not None:
            self.refuse("this is not supported here")

    def refuse(self, what: str, *, expected: str = "", cure: str = "") -> NoReturn:
        """Raises InvalidQuery with the place of the next word."""
        token = self._token
        place = f"character {token.start + 1} of {shown(self.text)}" if token else f"the end of {shown(self.text)}"
        raise InvalidQuery(what, where=place, expected=expected, found=token.text if token else "", cure=cure)
