"""A SQL text: its tree, which must be read completely, and the errors that name a place in it.

The parser keeps almost every clause of a text in its tree; a clause is lost when a translator does not look at it. So the
nodes of a tree note which of their arguments are read, and `unread` finds the others:

    with text.reading(tree): ...         # within, `node.args` notes each `get`, also by `node.this`, `node.name` and their like
    unread(tree)                         # the first argument that is set and that nothing has read

Reading an argument declares that it is obeyed. To look at one for another purpose: `peek`. Copies, `nodes`, `walk`, `find`
and `sql` note nothing. Nodes must not be compared, since that reads all of them. Text that an argument holds, such as the
kind of a join, counts as read only through `word`, which compares it with the words that the caller knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import TokenType

from lsmlake.dialect.grammar import PLACE, SPAN, Entangled, PlainSpark
from lsmlake.dialect.strict import misplaced
from lsmlake.errors import InvalidQuery
from lsmlake.types.ddl import requoted
from lsmlake.types.spelling import spelled

_TEXT_SHOWN_MAX = 200
_EXPECTED_MAX = 300
_LEVELS_MAX = 400
"""More levels than the rest of this room can go down; it would take long to find out."""
_TOO_DEEP, _NEST_LESS = "the text is nested too deeply", "nest it less; give each join its ON, or write CROSS JOIN"
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
        """The one statement or expression of the text. Raises InvalidQuery, at the end for an argument that was not read."""
        tree = self.parsed()
        with self.reading(tree):
            yield tree

    @contextmanager
    def reading(self, tree: exp.Expression) -> Iterator[None]:
        """As `read`, of a tree that `parsed` gave."""
        watch(tree)
        yield
        self.end(tree)

    def end(self, tree: exp.Expression) -> None:
        """Refuses the first argument of a tree that was not read."""
        if (missed := unread(tree)) is None:
            return
        node, key = missed
        value = peek(node, key)
        parts = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, exp.Expression)]
        if key in _PARTS:
            self.refuse(node, "this is not supported here", cure="leave it out, or attach Spark")
        word = value.upper() if isinstance(value, str) else _CLAUSES.get(key) or key.strip("_").replace("_", " ").upper()
        self.refuse(parts[0] if parts else node, f"{word} is not supported here", cure=_CURES.get(key, "leave it out"))

    def expression(self) -> exp.Expression:
        """The one expression of the text, as `parsed`, for an engine that may read the text itself. Refuses a name behind it
        and a `;`."""
        node = self.parsed(alone=True)
        if isinstance(node, exp.Alias):
            self.wrong(node.args["alias"], "an expression has no name here", cure="leave the name out")
        return node

    def word(self, node: exp.Expression, key: str, *known: str) -> str:
        """The text of an argument, such as the kind of a join, in upper case; "" if it is not set. Refuses a word that is not one
        of `known`."""
        value = word(node, key)
        if value and value not in known:
            expected = ", ".join(known)
            self.refuse(node, f"{value} is not supported here", expected=expected, cure=_CURES.get(value.lower(), ""))
        return value

    def parsed(self, *, alone: bool = False) -> exp.Expression:
        """The one statement or expression of the text; its nodes do not note what is read. `alone`: no `;` ends it. Raises
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
            statements = [part for part in PlainSpark().parser().parse(tokens, self.text) if part is not None]
        except ParseError as error:
            first = error.errors[0] if error.errors else {}
            word = first.get("highlight") or ""
            place = self._at(_start_of(self.text, first, len(word)))
            why = first.get("description", "")
            ours = why[:1].islower() or why[:1] == "|"  # sqlglot's begin with a capital
            what = f"the text is not SQL: {why}" if ours else "the text is not SQL"
            raise InvalidQuery(what, where=place, found=repr(word or why), cure="correct the text") from error
        except (Entangled, RecursionError) as error:
            raise InvalidQuery(_TOO_DEEP, where=where, cure=_NEST_LESS) from error
        except SqlglotError as error:
            raise InvalidQuery("the text is not SQL", where=where, cure="correct the text") from error
        if not statements:
            raise InvalidQuery("the text is empty", where=where, cure="write SQL into it, or leave it out")
        if len(statements) != 1 or isinstance(statements[0], exp.Block):
            raise InvalidQuery("expected exactly one statement", where=where, found=len(statements), cure="pass them one by one")
        if _is_deep(statements[0]):
            expected = f"at most {_LEVELS_MAX} levels"
            raise InvalidQuery(_TOO_DEEP, where=where, expected=expected, cure=_NEST_LESS)
        return statements[0]

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
        """Raises InvalidQuery with the place of the node, for a text that Spark refuses, too."""
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


def _is_deep(tree: exp.Expression) -> bool:
    """Whether a tree has more levels than are read. Conditions joined by AND, or by OR, are one level."""
    level, depth = [tree], 0
    while level and depth <= _LEVELS_MAX:
        below, alike = [], level
        while alike:  # the parts of an AND are of the level of the AND
            parts = [(node, child) for node in alike for child in node.iter_expressions()]
            below += [child for node, child in parts if not (isinstance(node, exp.Connector) and type(child) is type(node))]
            alike = [child for node, child in parts if isinstance(node, exp.Connector) and type(child) is type(node)]
        level, depth = below, depth + 1
    return bool(level)


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


# -- what is read of a tree -------------------------------------------------------------------------------------------

SAME = {
    exp.Identifier: ("quoted",),  # names of columns and tables are compared without case, quoted or not
    exp.Literal: ("is_string",),
    exp.DataType: ("nested",),
    exp.Window: ("over",),
    exp.Div: ("typed", "safe"),  # the same for all divisions of a dialect
    exp.DPipe: ("safe",),
    exp.Concat: ("safe", "coalesce"),  # only texts side by side, since a call keeps its name
    exp.Pivot: ("pivot_column_naming",),
    exp.Placeholder: ("jdbc",),
    exp.TryCast: ("requires_string",),  # how CAST of Spark is parsed; whether an error gives null is `safe`
    exp.Cast: ("requires_string",),
}
"""Arguments that say nothing beside the class and the other arguments of their node."""
OFF = {
    exp.Create: ("concurrently", "refresh", "unique"),
    exp.Delete: ("cluster", "using"),
    exp.Insert: ("default", "exists", "ignore", "is_function", "partition", "settings", "source", "stored"),
    exp.Lateral: ("ordinality", "outer", "view"),
    exp.Merge: ("using_cond",),
    exp.Ordered: ("nulls_first",),
    exp.Parameter: ("expression",),
    exp.Partition: ("subpartition",),
    exp.Pivot: ("default_on_null", "identify_pivot_strings", "prefixed_pivot_columns", "value_columns_first"),
    exp.TruncateTable: ("exists", "is_database"),
}
"""Arguments that are False where the text has no such word. Of others, False is a word of the text, as AS NOT MATERIALIZED."""


class _Args(dict[str, Any]):
    """The arguments of a node. `seen`: those that were read; `words`: those read as one of the words that the reader knows."""

    __slots__ = ("seen", "words")

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.seen: set[str] = set()
        self.words: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)


def nodes(tree: exp.Expression) -> list[exp.Expression]:
    """All nodes of a tree, each before the nodes in it, in the order of their arguments. Notes nothing."""
    listed: list[exp.Expression] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        listed.append(node)
        for value in reversed(node.args.values()):
            if isinstance(value, exp.Expr):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [one for one in reversed(value) if isinstance(one, exp.Expr)]
    return listed


def watch(tree: exp.Expression) -> None:
    """Makes the nodes of a tree note which of their arguments are read."""
    for node in nodes(tree):
        node.args = _Args(node.args)


def peek(node: exp.Expression, key: str) -> Any:
    """An argument, looked at for another purpose than obeying it."""
    return dict.get(node.args, key)


def word(node: exp.Expression, key: str) -> str:
    """The text of an argument in upper case, "" if it is not set. The caller must know what each text means: see `Text.word`."""
    if isinstance(node.args, _Args):
        node.args.words.add(key)
    return str(node.args.get(key) or "").upper()


def operands(node: exp.Expression, kind: type[exp.Binary]) -> list[exp.Expression]:
    """The operands of a chain of the same operator, such as `a AND b AND c`, in the order of the text."""
    parts: list[exp.Expression] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if type(one) is kind:
            waiting += (one.expression, one.this)
        else:
            parts.append(one)
    return parts


def passed_on(tree: exp.Expression) -> None:
    """Notes a whole part of a tree as read: another parser reads its text."""
    for node in nodes(tree):
        if isinstance(node.args, _Args):
            node.args.seen.update(node.args)
            node.args.words.update(node.args)


def unread(tree: exp.Expression) -> tuple[exp.Expression, str] | None:
    """The first node with an argument that is set and was not read, and the name of the argument; None if all was read.
    Nodes that were made after `watch` count as read, the nodes in them do not."""
    for node in nodes(tree):
        if isinstance(node.args, _Args):
            for key, value in said(node):
                known = node.args.words if isinstance(value, str) and key != "this" else node.args.seen
                if key not in known:
                    return node, key
    return None


def said(node: exp.Expression) -> Iterator[tuple[str, Any]]:
    """The arguments of a node that the text sets, and their values."""
    same, off = SAME.get(type(node), ()), OFF.get(type(node), ())
    for key, value in node.args.items():
        said = any(one is not None for one in value) if isinstance(value, list) else value or (value is False and key not in off)
        if key not in same and said:
            yield key, value
