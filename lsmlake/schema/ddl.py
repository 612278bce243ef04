"""Parses column definitions in Spark's DDL into Arrow schemas. `type_text` formats them.

`id BIGINT NOT NULL, amount DECIMAL(10,2) COMMENT 'net', tags ARRAY<STRING>` is parsed as the content of a `STRUCT<...>`, so
columns and struct fields have one grammar (`name TYPE` or `name: TYPE`). The type names are those of Spark's "Data Types" page.
Everything besides name, type, nullability and comment (defaults, generated columns, constraints, collations) is refused, never
ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import TokenType

from lsmlake.errors import InvalidSchema
from lsmlake.schema import types
from lsmlake.schema.dialect import SparkTypes

DECIMAL_PRECISION_MAX = 38
_TEXT_SHOWN_MAX = 200
_Type = exp.DataType.Type
KEYWORDS = frozenset(sqlglot.Dialect.get_or_raise("spark").tokenizer_class.KEYWORDS)
"""Keywords: a column with such a name is written in backquotes."""
_PLAIN = {
    _Type.BOOLEAN: pa.bool_(),
    _Type.TINYINT: pa.int8(),
    _Type.SMALLINT: pa.int16(),
    _Type.INT: pa.int32(),
    _Type.BIGINT: pa.int64(),
    _Type.FLOAT: pa.float32(),
    _Type.DOUBLE: pa.float64(),
    _Type.TEXT: pa.string(),
    _Type.BINARY: pa.binary(),
    _Type.DATE: pa.date32(),
    _Type.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),  # how sqlglot reads Spark's TIMESTAMP
    _Type.TIMESTAMPLTZ: pa.timestamp("us", tz="UTC"),
    _Type.TIMESTAMPNTZ: pa.timestamp("us"),
}
_SIZED_TEXT = (_Type.VARCHAR, _Type.CHAR, _Type.NVARCHAR, _Type.NCHAR)
_UNDERSTOOD = ("this", "expressions", "nested")
"""What the parser sets of a type, and this module reads."""
TYPES = (
    "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, "
    "ARRAY<type>, MAP<type, type> or STRUCT<name: type, ...>"
)
_GRAMMAR = "name TYPE [NOT NULL] [COMMENT 'text'], ..."


def parse_columns(text: str) -> pa.Schema:
    """Parses a column list in Spark's DDL into an Arrow schema.

    TIMESTAMP and TIMESTAMP_LTZ are `timestamp('us', 'UTC')`, TIMESTAMP_NTZ is `timestamp('us')`; DECIMAL without parameters is
    (10,0). Comments become field metadata `b"comment"`.

    Raises:
        InvalidSchema: The text is not a list of names and types with NOT NULL and COMMENT.
    """
    try:
        parsed = sqlglot.parse_one(f"STRUCT<\n{requoted(text)}\n>", into=exp.DataType, dialect=SparkTypes)
    except ParseError as error:
        raise _unreadable(text, error) from error
    except (SqlglotError, RecursionError) as error:
        raise InvalidSchema("the columns cannot be read", where=_shown(text), expected=_GRAMMAR) from error
    if not parsed.expressions:
        raise InvalidSchema("the list of columns is empty", where=_shown(text), expected=_GRAMMAR)
    return columns_of(parsed.expressions)


def requoted(text: str) -> str:
    """Replaces doubled quotes, as in 'it''s', by escaped ones, without changing positions. sqlglot would read two adjacent
    literals, `its`, where Spark reads one. Raises sqlglot's TokenError."""
    if not ("''" in text or '""' in text):
        return text
    characters = list(text)
    for one, two in pairwise(sqlglot.tokenize(text, dialect=SparkTypes)):
        side_by_side = one.end + 1 == two.start and text[one.end] == text[two.start]
        if side_by_side and one.token_type is two.token_type is TokenType.STRING:
            characters[one.end] = "\\"
    return "".join(characters)


def columns_of(definitions: Iterable[exp.Expression]) -> pa.Schema:
    """Returns the Arrow schema of column definitions parsed by sqlglot (dialect `SparkTypes`), as in a CREATE TABLE."""
    return pa.schema([_field(definition, "") for definition in definitions])


def type_of(kind: exp.DataType, where: str = "") -> pa.DataType:
    """Returns the Arrow type of a parsed Spark type; `where` names the column in messages."""
    if any(value and name not in _UNDERSTOOD for part in (kind, *_parameters(kind)) for name, value in part.args.items()):
        raise InvalidSchema("unknown column type", where=where, expected=TYPES, found=kind.sql("spark"))
    nested = {_Type.ARRAY: _array, _Type.MAP: _map, _Type.STRUCT: _struct}
    if kind.this in nested:
        return nested[kind.this](kind, where)
    if kind.this is _Type.DECIMAL:
        return _decimal(kind, where)
    if kind.this in _PLAIN and not kind.expressions:
        return _PLAIN[kind.this]
    cure = "use STRING, it has no length" if kind.this in _SIZED_TEXT else ""
    raise InvalidSchema("unknown column type", where=where, expected=TYPES, found=kind.sql("spark"), cure=cure)


def _parameters(kind: exp.DataType) -> list[exp.Expression]:
    """The numbers of a type such as DECIMAL(10,2)."""
    return [part for part in kind.expressions if isinstance(part, exp.DataTypeParam)]


def _shown(text: str) -> str:
    return repr(text if len(text) <= _TEXT_SHOWN_MAX else text[:_TEXT_SHOWN_MAX] + "...")


def _unreadable(text: str, error: ParseError) -> InvalidSchema:
    first = error.errors[0] if error.errors else {}
    line = (first.get("line") or 2) - 1  # the text begins on the second line of what was parsed
    where = f"line {line}, character {first.get('col', 0)} of {_shown(text)}"
    found = first.get("highlight") or first.get("description", "")
    expected = f"{_GRAMMAR} with TYPE one of {TYPES}"
    return InvalidSchema("the columns cannot be read", where=where, expected=expected, found=repr(found))


def _field(definition: exp.Expression, parent: str) -> pa.Field:
    if not isinstance(definition, exp.ColumnDef) or not isinstance(definition.args.get("kind"), exp.DataType):
        found = definition.sql("spark")
        raise InvalidSchema(
            "not a column definition", where=parent, expected=_GRAMMAR, found=found, cure="pass the primary key separately"
        )
    name = definition.name
    where = f"{parent}.{name}" if parent else f"column {name}"
    nullable, metadata, seen = True, None, set()
    for constraint in definition.args.get("constraints") or ():
        kind = constraint.args.get("kind")
        if type(kind) in seen:
            raise InvalidSchema(
                "a column attribute is given twice", where=where, expected=_GRAMMAR, found=constraint.sql("spark")
            )
        seen.add(type(kind))
        if isinstance(kind, exp.NotNullColumnConstraint):
            nullable = bool(kind.args.get("allow_null"))
        elif isinstance(kind, exp.CommentColumnConstraint):
            metadata = {types.COMMENT: kind.this.this.encode()}  # `name` lacks the text of r'...'
        else:
            found = constraint.sql("spark")
            raise InvalidSchema("unsupported column attribute", where=where, expected=_GRAMMAR, found=found, cure="remove it")
    return pa.field(name, type_of(definition.args.get("kind"), where), nullable, metadata)


def _array(kind: exp.DataType, where: str) -> pa.DataType:
    (element,) = _inner(kind, where, 1, "ARRAY<type>")
    return pa.list_(pa.field("element", type_of(element, where)))


def _map(kind: exp.DataType, where: str) -> pa.DataType:
    key, value = _inner(kind, where, 2, "MAP<key type, value type>")
    return pa.map_(type_of(key, where), type_of(value, where))


def _struct(kind: exp.DataType, where: str) -> pa.DataType:
    if not kind.expressions:
        raise InvalidSchema("a struct needs fields", where=where, expected="STRUCT<name: type, ...>", found=kind.sql("spark"))
    return pa.struct([_field(definition, where) for definition in kind.expressions])


def _inner(kind: exp.DataType, where: str, count: int, expected: str) -> list[exp.DataType]:
    inner = kind.expressions
    if len(inner) != count or not all(isinstance(part, exp.DataType) for part in inner):
        raise InvalidSchema("the type is not complete", where=where, expected=expected, found=kind.sql("spark"))
    return inner


def _decimal(kind: exp.DataType, where: str) -> pa.DataType:
    numbers = [part.name for part in kind.expressions]
    if len(numbers) <= 2 and all(number.isdecimal() for number in numbers):
        precision, scale = [*map(int, numbers), *(10, 0)[len(numbers) :]]
        if 1 <= precision <= DECIMAL_PRECISION_MAX and scale <= precision:
            return pa.decimal128(precision, scale)
    expected = f"DECIMAL(precision, scale) with scale <= precision <= {DECIMAL_PRECISION_MAX}"
    raise InvalidSchema("invalid decimal type", where=where, expected=expected, found=kind.sql("spark"))
