"""A SQL text: its tree, which must be read completely, and the errors that name a place in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import TokenType

from lsmlake.dialect import reading
from lsmlake.dialect.grammar import PLACE, SPAN, PlainSpark
from lsmlake.dialect.strict import misplaced
from lsmlake.errors import InvalidQuery
from lsmlake.types.ddl import requoted
from lsmlake.types.spelling import spelled

_TEXT_SHOWN_MAX = 200
_EXPECTED_MAX = 300
_CURES = {
    "cluster": "write ORDER BY",
    "distribute": "leave it out: this process sorts and groups all rows",
    "except_": "name the columns one by one",
    "joins": "choose the rows by IN (SELECT ...), or use MERGE",
    "sample": "filter by a column, or attach Spark",
    "sort": "write ORDER BY",
    "version": "leave it out: a statement changes the newest version",
}
"""What to write instead of a clause, by sqlglot's name of it."""
_CLAUSES = {
    "all": "DISTINCT",
    "connect": "CONNECT BY",
    "locks": "FOR UPDATE",
    "joins": "JOIN",
    "pivots": "PIVOT",
    "version": "VERSION or TIMESTAMP AS OF",
    "sample": "TABLESAMPLE",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
}
"""How the text writes a clause, where sqlglot's name differs."""
_PARTS = ("this", "expression", "expressions")
"""Arguments that have no word of their own."""


class Unsupported(InvalidQuery):
    """A part of a text that this process does not evaluate. Spark may: an engine that reads the text itself can continue."""


class Text:
    """A SQL text, and the places of its parsed parts."""

    def __init__(self, text: str, written: str | None = None) -> None:
        """`written`: what errors show, if some of its words are blanks in `text`."""
        try:
            self.text = requoted(text)
            self._written = self.text if written is None else requoted(written)
        except SqlglotError as error:
            raise InvalidQuery("the text is not SQL", where=shown(text)) from error

    @contextmanager
    def read(self) -> Iterator[exp.Expression]:
        """The one statement or expression of the text, for reading it. Raises InvalidQuery, at the end for what was not read."""
        tree = self.parsed()
        with self.reading(tree):
            yield tree

    @contextmanager
    def reading(self, tree: exp.Expression) -> Iterator[None]:
        """As `read`, of a tree that `parsed` gave."""
        reading.watch(tree)
        yield
        self.end(tree)

    def end(self, tree: exp.Expression) -> None:
        """Refuses the first argument of a tree that was not read."""
        if (found := reading.unread(tree)) is None:
            return
        node, key = found
        value = reading.peek(node, key)
        parts = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, exp.Expression)]
        if key in _PARTS:
            self.refuse(node, "this is not supported here", cure="leave it out, or attach Spark")
        word = value.upper() if isinstance(value, str) else _CLAUSES.get(key) or key.strip("_").replace("_", " ").upper()
        self.refuse(parts[0] if parts else node, f"{word} is not supported here", cure=_CURES.get(key, "leave it out"))

    def expression(self) -> exp.Expression:
        """The one expression of the text, as `parsed`, for an engine that may read the text itself. It ends without a name and
        without a `;`."""
        node = self.parsed(alone=True)
        if isinstance(node, exp.Alias):
            self.wrong(node.args["alias"], "an expression has no name here", cure="leave the name out")
        return node

    def word(self, node: exp.Expression, key: str, *known: str) -> str:
        """The text of an argument, such as the kind of a join, in upper case; "" if it is not set. Refuses a word that is not one
        of `known`."""
        found = reading.word(node, key)
        if found and found not in known:
            expected = ", ".join(known)
            self.refuse(node, f"{found} is not supported here", expected=expected, cure=_CURES.get(found.lower(), ""))
        return found

    def parsed(self, *, alone: bool = False) -> exp.Expression:
        """The one statement or expression of the text; nothing notes what is read of it. `alone`: no `;` ends it. Raises
        InvalidQuery."""
        where = shown(self._written)
        try:
            tokens = sqlglot.tokenize(self.text, dialect=PlainSpark)
            if (wrong := misplaced(self.text, tokens)) is not None:
                what, start = wrong
                raise InvalidQuery(f"the text is not SQL: {what}", where=self._at(start), cure="correct the text")
            if alone and tokens and tokens[-1].token_type is TokenType.SEMICOLON:
                what, place = "an expression has no ; at its end", self._at(tokens[-1].start)
                raise InvalidQuery(what, where=place, found="';'", cure="leave the ; out")
            found = [part for part in PlainSpark().parser().parse(tokens, self.text) if part is not None]
        except ParseError as error:
            first = error.errors[0] if error.errors else {}
            word = first.get("highlight") or ""
            place = self._at(_start_of(self.text, first, len(word)))
            why = first.get("description", "")
            ours = why[:1].islower() or why[:1] == "|"  # sqlglot's begin with a capital
            what = f"the text is not SQL: {why}" if ours else "the text is not SQL"
            raise InvalidQuery(what, where=place, found=repr(word or why), cure="correct the text") from error
        except (SqlglotError, RecursionError) as error:
            raise InvalidQuery("the text is not SQL", where=where, cure="correct the text") from error
        if not found:
            raise InvalidQuery("the text is empty", where=where, cure="write SQL into it, or leave it out")
        if len(found) != 1 or isinstance(found[0], exp.Block):
            raise InvalidQuery("expected exactly one statement", where=where, found=len(found), cure="pass them one by one")
        return found[0]

    def span(self, node: exp.Expression) -> tuple[int, int] | None:
        """Where an expression, a query or a table begins and ends in `text`; None for a part of one, and for a node that was made
        later."""
        return node.meta.get(SPAN)

    def place(self, node: exp.Expression) -> str:
        """Where a node stands in the text."""
        while not (starts := [part.meta[PLACE] for part in node.walk() if PLACE in part.meta]) and node.parent is not None:
            node = node.parent
        return self._at(min(starts)) if starts else shown(self._written)

    def _at(self, start: int) -> str:
        """A place of the text, and the text around it."""
        line, first = self.text.count("\n", 0, start) + 1, self.text.rfind("\n", 0, start) + 1
        place = f"line {line}, character {start - first + 1}" if "\n" in self.text.strip() else f"character {start + 1}"
        return f"{place} of {shown(self._written, start)}"

    def refuse(self, node: exp.Expression, what: str, *, expected: object = "", found: object = None, cure: str = "") -> NoReturn:
        """Raises Unsupported with the place of the node."""
        raise Unsupported(what, **self._named(node, expected, found, cure))

    def wrong(self, node: exp.Expression, what: str, *, expected: object = "", found: object = None, cure: str = "") -> NoReturn:
        """Raises InvalidQuery, for what Spark refuses, too."""
        raise InvalidQuery(what, **self._named(node, expected, found, cure))

    def _named(self, node: exp.Expression, expected: object, found: object, cure: str) -> dict[str, Any]:
        shown = str(expected)
        wanted = shown if len(shown) <= _EXPECTED_MAX else f"{shown[:_EXPECTED_MAX].rpartition(', ')[0]}, ..."
        return {
            "where": self.place(node),
            "expected": wanted,
            "found": spelled(node) if found is None else found,
            "cure": cure,
        }


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
