"""SQL text: Spark's grammar as sqlglot reads it, and the errors that name a place in it.

Function calls keep the names of the text (`FUNCTIONS` is empty), because sqlglot would translate them to functions of its own,
whose meaning for a dialect may change with its version. `functions` knows what each name means to Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError

from lsmlake.errors import InvalidQuery
from lsmlake.schema.ddl import requoted

_TEXT_SHOWN_MAX = 200
_CALLS_WITH_WORDS = ("CAST", "TRY_CAST", "EXTRACT", "TRIM")


def _placed(read: Callable[[Any], exp.Expression | None]) -> Callable[[Any], exp.Expression | None]:
    """A reader of parameters that notes their places: the order of `?` is the order of the text."""

    def made(parser: Any) -> exp.Expression | None:
        start = parser._prev.start
        node = read(parser)
        if node is not None:
            node.meta["start"] = start
        return node

    return made


class PlainSpark(Spark):
    class Tokenizer(Spark.Tokenizer):
        VAR_SINGLE_TOKENS: ClassVar[Any] = {"$"}  # orders$snapshots is a name
        SINGLE_TOKENS: ClassVar[Any] = {text: kind for text, kind in Spark.Tokenizer.SINGLE_TOKENS.items() if text != "$"}

    class Parser(Spark.Parser):
        PLACEHOLDER_PARSERS: ClassVar[Any] = {kind: _placed(read) for kind, read in Spark.Parser.PLACEHOLDER_PARSERS.items()}
        FUNCTIONS: ClassVar[Any] = {}
        FUNCTION_PARSERS: ClassVar[Any] = {
            name: read for name, read in Spark.Parser.FUNCTION_PARSERS.items() if name in _CALLS_WITH_WORDS
        }


class Text:
    """A SQL text, and the places of its parsed parts."""

    def __init__(self, text: str) -> None:
        try:
            self.text = requoted(text)
        except SqlglotError as error:
            raise InvalidQuery("the text is not SQL", where=shown(text)) from error

    def statement(self) -> exp.Expression:
        """The one statement or expression of the text. Raises InvalidQuery."""
        where = shown(self.text)
        try:
            found = [part for part in sqlglot.parse(self.text, dialect=PlainSpark) if part is not None]
        except ParseError as error:
            first = error.errors[0] if error.errors else {}
            place = f"line {first.get('line', 1)}, character {first.get('col', 0)} of {where}"
            found = first.get("highlight") or first.get("description", "")
            raise InvalidQuery("the text is not SQL", where=place, found=repr(found), cure="correct the text") from error
        except (SqlglotError, RecursionError) as error:
            raise InvalidQuery("the text is not SQL", where=where, cure="correct the text") from error
        if len(found) != 1 or isinstance(found[0], exp.Block):
            raise InvalidQuery("expected exactly one statement", where=where, found=len(found), cure="pass them one by one")
        return found[0]

    def place(self, node: exp.Expression) -> str:
        """Where a node stands in the text."""
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        return f"character {min(starts) + 1} of {shown(self.text)}" if starts else shown(self.text)

    def refuse(self, node: exp.Expression, what: str, *, expected: object = "", found: object = None, cure: str = "") -> NoReturn:
        """Raises InvalidQuery with the place of the node."""
        shown = node.sql("spark") if found is None else found
        raise InvalidQuery(what, where=self.place(node), expected=expected, found=shown, cure=cure)

    def only(self, node: exp.Expression, *known: str) -> None:
        """Refuses a node with an argument that the caller does not know, so that nothing is ignored."""
        for name, value in node.args.items():
            if value and name not in known and not (isinstance(value, list) and not any(value)):
                self.refuse(node, f"{name.replace('_', ' ')} is not supported here")


def shown(text: str) -> str:
    return repr(text if len(text) <= _TEXT_SHOWN_MAX else text[:_TEXT_SHOWN_MAX] + "...")
