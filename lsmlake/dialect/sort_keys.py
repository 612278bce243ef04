"""Expressions that order rows, as `order_by` of a write gives them: their texts, the columns that they read, their values."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pyarrow as pa
import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from lsmlake.dialect.context import drawing_calls
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.grammar import PlainSpark
from lsmlake.dialect.row_evaluation import Columns, needs_of
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.sql_text import Text, shown
from lsmlake.errors import InvalidQuery, Wording, literally, naming, with_arguments
from lsmlake.types.ddl import requoted
from lsmlake.types.type_text import format_type

_OPEN, _CLOSE = (
    {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE},
    {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE},
)


def parts_of(text: str) -> list[str]:
    """The texts of expressions that commas separate. Raises InvalidQuery for text that is not SQL, and for ASC and DESC."""
    try:
        tokens = sqlglot.tokenize(text, dialect=PlainSpark)
    except SqlglotError as error:
        raise InvalidQuery("the text is not SQL", where=_place(text), cure="correct the text") from error
    depth, first, parts = 0, 0, []
    for token in tokens:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        if token.token_type in (TokenType.DESC, TokenType.ASC) and not depth:
            raise InvalidQuery(
                with_arguments("{} is ascending: of two rows the one with the greater value is newer", "order_by"),
                where=_place(text),
                found=token.text,
                cure="leave the word out; write -n, or another expression that grows, where the smaller value is newer",
            )
        if token.token_type is TokenType.COMMA and not depth:
            parts.append(text[first : token.start])
            first = token.end + 1
    return [part.strip() for part in (*parts, text[first:])]


def columns_in(text: str) -> set[str]:
    """The first parts of the names in an expression, in lower case: of columns, tables and structs. Raises InvalidQuery for
    an expression without names, or one that draws a value."""
    try:
        tree = sqlglot.parse_one(requoted(text), dialect=PlainSpark)
    except SqlglotError as error:
        raise InvalidQuery("the text is not SQL", where=_place(text), cure="correct the text") from error
    if drawn := next((name for _, name in drawing_calls(tree)), None):
        what, cure = f"{drawn} gives another value each time, which is no order", "order by a value of the rows"
        raise InvalidQuery(what, where=_place(text), cure=cure)
    names = {column.parts[0].name.lower() for column in tree.find_all(exp.Column)}
    if not names:
        cure = "name a column, without quotes"
        what = with_arguments("{} names no column, so it orders nothing", "order_by")
        raise InvalidQuery(what, where=_place(text), cure=cure)
    return names


def _place(text: str) -> Wording:
    return with_arguments("{} " + literally(shown(text)), "order_by")


def sort_keys(texts: Sequence[str], columns: pa.Schema, zone: str) -> Columns:
    """The values of expressions over rows, as columns 0, 1, ...

    Args:
        texts: the expressions.
        columns: the columns that the expressions can name.
        zone: the session's time zone.

    Raises:
        InvalidQuery: an expression is not SQL, has unknown columns or functions, or values that have no order.
    """
    scope, sqls, fields, needs = Scope.of(columns), {}, [], {}
    with ExitStack() as stack:
        for number, given in enumerate(texts):
            stack.enter_context(naming("order_by"))
            columns_in(given)
            text = Text(given)
            node = stack.enter_context(text.read())
            made = Translator.at(text, scope, None).typed(node)
            if pa.types.is_nested(made.type) or pa.types.is_null(made.type):
                cure = "order by a number, a time or a text"
                text.refuse(node, "values of this type have no order", found=format_type(made.type), cure=cure)
            sqls[str(number)] = made.sql
            fields.append(pa.field(str(number), made.type))
            needs |= dict.fromkeys(needs_of(node, scope))
    return Columns(sqls, pa.schema(fields), tuple(needs), zone)
