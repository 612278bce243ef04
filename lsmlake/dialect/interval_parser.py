"""Reads INTERVAL by Spark's grammar, where the parser of sqlglot has one of its own:

    INTERVAL '1 day 2 hours'
    INTERVAL [+|-] number unit [[+|-] number unit ...]
    INTERVAL [+|-] 'text' field TO field

The node is an `exp.Interval`: a text without a unit for the first two, for the last one a text with an `exp.IntervalSpan`. Before
anything else the word is a name: `interval - 1`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlglot import exp
from sqlglot.tokens import TokenType

from lsmlake.types.intervals import MICROSECONDS, MONTHS

_UNITS = frozenset(("NANOSECOND", "MICROSECOND", "MILLISECOND", *MICROSECONDS, "WEEK", *MONTHS))
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)
_SIGNS = (TokenType.DASH, TokenType.PLUS)


class _IntervalPart(NamedTuple):
    """A number with its sign, in a text or as digits, and the unit behind it, in upper case and without an S."""

    number: str
    is_text: bool
    unit: str


def interval(parser: Any) -> exp.Interval | None:
    """The literal at the place of the parser; None if there is none."""
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
    """What stands behind `INTERVAL 'text' field TO`."""
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
