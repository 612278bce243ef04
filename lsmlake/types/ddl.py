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
from lsmlake.types import column_types
from lsmlake.types.column_types import CHAR, LENGTH_MAX, VARCHAR, SizedText, with_sized_text
from lsmlake.types.intervals import KINDS, interval_in
from lsmlake.types.spelling import SparkTypes, spelled
from lsmlake.types.type_table import BY_NAME, DECIMAL_DIGITS_MAX, TABLE

_TEXT_SHOWN_MAX = 200
_Type = exp.DataType.Type
_PLAIN = {_Type[token]: row for row in TABLE for token in row.ddl}
_SIZED_TEXT = {_Type.VARCHAR: VARCHAR, _Type.CHAR: CHAR}
_UNDERSTOOD = ("this", "expressions", "nested")
"""The arguments of a parsed type that this module reads."""
_OF_COLUMN = ("this", "kind", "constraints")
"""The arguments of a parsed column that this module reads."""
TYPES = f"{', '.join(BY_NAME)}, DECIMAL(p,s), VARCHAR(n), CHAR(n), ARRAY<type>, MAP<type, type> or STRUCT<name: type, ...>"
_GRAMMAR = "name TYPE [NOT NULL] [COMMENT 'text'], ..."


def parse_columns(text: str, *, intervals: bool = False) -> pa.Schema:
    """Parses a column list in Spark's DDL into an Arrow schema.

    TIMESTAMP and TIMESTAMP_LTZ are `timestamp('us', 'UTC')`, TIMESTAMP_NTZ is `timestamp('us')`; DECIMAL without parameters is
    (10,0). Comments become field metadata `b"comment"`, VARCHAR(n) and CHAR(n) `b"text_type"`.

    Args:
        text: The columns.
        intervals: Whether columns can be INTERVALs, as those of views; those of tables cannot.

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
    return columns_of(parsed.expressions, intervals=intervals)


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


def columns_of(definitions: Iterable[exp.Expression], *, intervals: bool = False) -> pa.Schema:
    """Returns the Arrow schema of column definitions parsed by sqlglot (dialect `SparkTypes`), as in a CREATE TABLE."""
    fields = [_field(definition, "") for definition in definitions]
    for field in fields:
        _check_interval(field.type, f"column {field.name}", intervals)
    return pa.schema(fields)


def type_of(kind: exp.DataType, where: str = "", *, intervals: bool = False) -> pa.DataType:
    """Returns the Arrow type of a parsed Spark type, in which VARCHAR(n) and CHAR(n) are STRING.

    Args:
        kind: The type.
        where: Names the column in messages.
        intervals: Whether the type can be an INTERVAL, or have one inside.

    Raises:
        InvalidSchema: There is no such type.
    """
    type_ = _typed("", kind, where).type
    _check_interval(type_, where, intervals)
    return type_


def _check_interval(kind: pa.DataType, where: str, intervals: bool) -> None:
    if not intervals and (interval := interval_in(kind)) is not None:
        cure = "store intervals as STRING or as numbers"
        raise InvalidSchema("unknown column type", where=where, expected=TYPES, found=str(interval), cure=cure)


def _typed(name: str, kind: exp.DataType, where: str) -> pa.Field:
    """A field of a parsed type."""
    if kind.this is _Type.INTERVAL or isinstance(kind.this, exp.Interval):
        return pa.field(name, _interval(kind, where))
    if any(value and name not in _UNDERSTOOD for part in (kind, *_parameters(kind)) for name, value in part.args.items()):
        raise _unknown(kind, where)
    nested = {_Type.ARRAY: _array, _Type.MAP: _map, _Type.STRUCT: _struct}
    if kind.this in nested:
        return pa.field(name, nested[kind.this](kind, where))
    if kind.this is _Type.DECIMAL:
        return pa.field(name, _decimal(kind, where))
    if kind.this in _SIZED_TEXT:
        return with_sized_text(pa.field(name, pa.string()), _sized_text(kind, where))
    if kind.this in _PLAIN:
        return pa.field(name, _plain(kind, where))
    raise _unknown(kind, where)


def _unknown(kind: exp.DataType, where: str) -> InvalidSchema:
    return InvalidSchema(
        "unknown column type", where=where, expected=TYPES, found=_written(kind), cure="write one of these types"
    )


def _written(kind: exp.DataType) -> str:
    """The text of a type. sqlglot would write a type that is none of Spark's as one that is, such as DATETIME as TIMESTAMP."""
    if kind.args.get("nested") or not isinstance(kind.this, _Type):
        return spelled(kind)
    name = _SIZED_TEXT.get(kind.this) or (_PLAIN[kind.this].name if kind.this in _PLAIN else kind.this.value)
    parameters = ", ".join(spelled(part) for part in kind.expressions)
    return f"{name}({parameters})" if parameters else name


def _parameters(kind: exp.DataType) -> list[exp.Expression]:
    """The numbers of a type such as DECIMAL(10,2)."""
    return [part for part in kind.expressions if isinstance(part, exp.DataTypeParam)]


def _shown(text: str) -> str:
    return repr(text if len(text) <= _TEXT_SHOWN_MAX else text[:_TEXT_SHOWN_MAX] + "...")


def _unreadable(text: str, error: ParseError) -> InvalidSchema:
    first = error.errors[0] if error.errors else {}
    line = (first.get("line") or 2) - 1  # the text begins on the second line of what was parsed
    where = f"line {line}, character {first.get('col', 0)} of {_shown(text)}"
    word = first.get("highlight") or first.get("description", "")
    expected = f"{_GRAMMAR} with TYPE one of {TYPES}"
    return InvalidSchema("the columns cannot be read", where=where, expected=expected, found=repr(word))


def _field(definition: exp.Expression, parent: str) -> pa.Field:
    if not isinstance(definition, exp.ColumnDef) or not isinstance(definition.args.get("kind"), exp.DataType):
        text = spelled(definition)
        raise InvalidSchema(
            "not a column definition", where=parent, expected=_GRAMMAR, found=text, cure="pass the primary key separately"
        )
    name = definition.name
    where = f"{parent}.{name}" if parent else f"column {name}"
    if others := [one for key, one in definition.args.items() if one and key not in _OF_COLUMN]:
        text = ", ".join(spelled(one) if isinstance(one, exp.Expression) else str(one) for one in others)
        raise InvalidSchema("unsupported column attribute", where=where, expected=_GRAMMAR, found=text, cure="remove it")
    made, seen = _typed(name, definition.args.get("kind"), where), set()
    for constraint in definition.args.get("constraints") or ():
        kind = constraint.args.get("kind")
        if type(kind) in seen:
            raise InvalidSchema("a column attribute is given twice", where=where, expected=_GRAMMAR, found=spelled(constraint))
        seen.add(type(kind))
        if isinstance(kind, exp.NotNullColumnConstraint):
            made = made.with_nullable(bool(kind.args.get("allow_null")))
        elif isinstance(kind, exp.CommentColumnConstraint):
            comment = kind.this.this.encode()  # `name` lacks the text of r'...'
            made = made.with_metadata({**(made.metadata or {}), column_types.COMMENT: comment})
        else:
            text = spelled(constraint)
            raise InvalidSchema("unsupported column attribute", where=where, expected=_GRAMMAR, found=text, cure="remove it")
    return made


def _array(kind: exp.DataType, where: str) -> pa.DataType:
    (element,) = _inner(kind, where, 1, "ARRAY<type>")
    return pa.list_(_typed("element", element, where))


def _map(kind: exp.DataType, where: str) -> pa.DataType:
    key, value = _inner(kind, where, 2, "MAP<key type, value type>")
    return pa.map_(_typed("key", key, where).with_nullable(False), _typed("value", value, where))


def _struct(kind: exp.DataType, where: str) -> pa.DataType:
    if not kind.expressions:
        raise InvalidSchema("a struct needs fields", where=where, expected="STRUCT<name: type, ...>", found=spelled(kind))
    return pa.struct([_field(definition, where) for definition in kind.expressions])


def _inner(kind: exp.DataType, where: str, count: int, expected: str) -> list[exp.DataType]:
    inner = kind.expressions
    if len(inner) != count or not all(isinstance(part, exp.DataType) for part in inner):
        raise InvalidSchema("the type is not complete", where=where, expected=expected, found=spelled(kind))
    return inner


def _decimal(kind: exp.DataType, where: str) -> pa.DataType:
    numbers = [part.name for part in kind.expressions]
    if len(numbers) <= 2 and all(number.isdecimal() for number in numbers):
        precision, scale = [*map(int, numbers), *(10, 0)[len(numbers) :]]
        if 1 <= precision <= DECIMAL_DIGITS_MAX and scale <= precision:
            return pa.decimal128(precision, scale)
    expected = f"DECIMAL(precision, scale) with scale <= precision <= {DECIMAL_DIGITS_MAX}"
    cure = f"write at most DECIMAL({DECIMAL_DIGITS_MAX}, scale)"
    raise InvalidSchema("invalid decimal type", where=where, expected=expected, found=spelled(kind), cure=cure)


def _interval(kind: exp.DataType, where: str) -> pa.DataType:
    unit = None if kind.this is _Type.INTERVAL else kind.this.args.get("unit")
    ends = [] if unit is None else [unit.this, unit.expression] if isinstance(unit, exp.IntervalSpan) else [unit]
    name = f"INTERVAL {' TO '.join(one.name for one in ends)}".rstrip()
    if name not in KINDS:
        raise InvalidSchema("unknown column type", where=where, expected=f"one of {', '.join(KINDS)}", found=name)
    return KINDS[name]


def _plain(kind: exp.DataType, where: str) -> pa.DataType:
    row, digits = _PLAIN[kind.this], [part.name for part in kind.expressions]
    if digits in ([], [str(row.digits)]):
        return row.arrow
    if row.digits is None:
        raise _unknown(kind, where)
    cure = f"write {row.name}, and round the values before they are written"
    expected, written = f"{row.name} or {row.name}({row.digits})", f"{row.name}({', '.join(digits)})"
    raise InvalidSchema(f"{row.name} has one precision", where=where, expected=expected, found=written, cure=cure)


def _sized_text(kind: exp.DataType, where: str) -> SizedText:
    numbers = [part.name for part in kind.expressions]
    if len(numbers) == 1 and numbers[0].isdecimal() and int(numbers[0]) <= LENGTH_MAX:
        return SizedText(_SIZED_TEXT[kind.this], int(numbers[0]))
    name = _SIZED_TEXT[kind.this]
    cure = "write its length, or STRING, which has none"
    raise InvalidSchema(f"{name} has one length", where=where, expected=f"{name}(n)", found=_written(kind), cure=cure)
