"""Checks a statement against the columns of one version, for evaluation in this process: the values that each clause assigns to
columns, their types, and the conditions. Reads no rows.

Assignments to fields of structs: `SET st.a = 1` assigns the column `st`, whose other fields keep their values. As in Spark, a
struct that is NULL becomes one in which only the assigned fields have values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.context import ON
from lsmlake.dialect.literals import literal
from lsmlake.dialect.row_evaluation import Columns, Condition, columns_from, condition_from
from lsmlake.dialect.scope import Scope, ScopeColumn
from lsmlake.errors import InvalidQuery
from lsmlake.predicate import Predicate
from lsmlake.schema.defaults import WRITE, default_of
from lsmlake.schema.schema import Schema
from lsmlake.statements.clause import DELETE, INSERT, MATCHED, NOT_MATCHED, UPDATE, Clause
from lsmlake.statements.statement import (
    SOURCE,
    SOURCE_SIDE,
    TARGET,
    TARGET_SIDE,
    ExpressionPart,
    ExpressionReader,
    Statement,
    side_column,
    struct_of,
)
from lsmlake.tables.version import Version
from lsmlake.types import column_types
from lsmlake.types.column_types import char_length, sized_text, with_sized_text

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def assigned(
    statement: Statement,
    clause: Clause[ExpressionPart],
    schema: Schema,
    source: pa.Schema | None,
    common: Iterable[tuple[str, str]] = (),
) -> dict[str, ExpressionPart]:
    """Column -> assigned value. `*` assigns every column the source column of its name; an update leaves out key columns that
    the condition makes equal. An assignment to a field of a struct assigns the whole struct.

    Args:
        statement: the statement.
        clause: one of its clauses.
        schema: the columns of the target.
        source: the columns of the source.
        common: the columns that the condition requires to be equal, or both null.

    Raises:
        InvalidQuery: a column is assigned twice, or does not exist.
    """
    if clause.action == DELETE:
        return {}
    columns = schema.plain_columns
    if clause.values is None:
        return _all(clause, schema, source, common, statement)
    by_lower = {field.name.lower(): field for field in schema.columns}
    paths = [(_path(key, by_lower, statement.target), value) for key, value in clause.values.items()]
    values = [(path, _or_default(path, value, by_lower)) for path, value in paths]
    if clause.action == INSERT:
        for path, _ in values:
            if len(path) > 1:
                raise InvalidQuery(
                    f"unknown column {'.'.join(path)!r}", expected=f"one of {columns.names}", cure="correct the name"
                )
        return _once((path[0], value) for path, value in values)

    def old(path: Path) -> ExpressionPart:
        return ExpressionPart(side_column(TARGET_SIDE, path), values[0][1].text)

    def struct(fields: list[tuple[str, ExpressionPart]]) -> ExpressionPart:
        return ExpressionPart(
            struct_of((name, part.node) for name, part in fields), fields[0][1].text, tuple(part for _, part in fields)
        )

    return whole_columns(values, columns, old, struct)


def _once(values: Iterable[tuple[str, ExpressionPart]]) -> dict[str, ExpressionPart]:
    by_name: dict[str, ExpressionPart] = {}
    for name, value in values:
        if name.lower() in map(str.lower, by_name):
            raise InvalidQuery(f"column {name!r} is assigned twice", cure="assign it once")
        by_name[name] = value
    return by_name


def _all(
    clause: Clause[ExpressionPart], schema: Schema, source: pa.Schema, equal: Iterable[tuple[str, str]], statement: Statement
) -> dict[str, ExpressionPart]:
    common = {target for target, own in equal if target.lower() == own.lower()}
    by_lower = {name.lower(): name for name in source.names}
    wanted = [name for name in schema.columns.names if clause.action == INSERT or name not in {*common} & {*schema.primary_key}]
    if missing := [name for name in wanted if name.lower() not in by_lower]:
        raise InvalidQuery(
            "the source lacks columns of the table",
            expected=wanted,
            found=source.names,
            cure=f"add {missing} to the source, or name the columns to {clause.action}",
        )
    return {name: ExpressionPart(side_column(SOURCE_SIDE, (by_lower[name.lower()],)), statement.on.text) for name in wanted}


def _path(key: str | Path, columns: Mapping[str, pa.Field], target: tuple[str, ...]) -> Path:
    """The column, and the fields in it, that a key names: text such as "st.a" or "st.`my field`", or the parts of a name."""
    if isinstance(key, str):
        if key.lower() in columns:
            return (key,)
        parts = [quoted.replace("``", "`") or plain for quoted, plain in _PART.findall(key)]
        return tuple(parts) or (key,)
    for length in range(len(key) - 1, 0, -1):
        named = ".".join(key[:length]).lower() in map(str.lower, target)
        if named and (length > 1 or key[1].lower() in columns or key[0].lower() not in columns):
            return key[length:]
    return key


def _or_default(path: Path, value: ExpressionPart, columns: Mapping[str, pa.Field]) -> ExpressionPart:
    """The value; if it is the keyword DEFAULT, the default of the column."""
    field = columns.get(path[0].lower()) if len(path) == 1 else None
    return ExpressionPart(default_of_column(field), value.text) if field is not None and is_default(value.node) else value


def default_of_column(field: pa.Field) -> exp.Expression:
    """The default of a column as a literal; NULL if it has none."""
    value = default_of(field, WRITE)
    if value is not None and value.is_valid and field.type == pa.timestamp("us"):  # a literal without a zone is a TIMESTAMP
        return exp.cast(exp.Literal.string(str(value.as_py())), exp.DType.TIMESTAMPNTZ)
    return exp.Null() if value is None else literal(value.as_py(), field.name)


def is_default(node: exp.Expression) -> bool:
    """Whether a value is the keyword DEFAULT."""
    if isinstance(node, exp.Column):
        return (
            not node.table and isinstance(node.this, exp.Identifier) and not node.this.quoted and node.name.upper() == "DEFAULT"
        )
    return isinstance(node, exp.Var) and node.name.upper() == "DEFAULT"


Value = TypeVar("Value")
Path = tuple[str, ...]


def whole_columns(
    assigned: Iterable[tuple[Path, Value]],
    columns: pa.Schema,
    old: Callable[[Path], Value],
    struct: Callable[[list[tuple[str, Value]]], Value],
) -> dict[str, Value]:
    """Column -> value, given the values of columns and of fields of structs. A name that is not a column is returned unchanged.

    Args:
        assigned: the path of a column or field, and its value. Names are compared without case.
        columns: the columns of the table.
        old: the value of a field before the assignment.
        struct: a struct of named values.

    Raises:
        InvalidQuery: A path leads to no field, or a value is assigned twice.
    """
    by_lower = {field.name.lower(): field for field in columns}
    grouped: dict[str, list[tuple[Path, Value]]] = {}
    for path, value in assigned:
        field = by_lower.get(path[0].lower())
        grouped.setdefault(path[0] if field is None else field.name, []).append((path[1:], value))

    def value_of(path: Path, kind: pa.DataType | None, given: list[tuple[Path, Value]]) -> Value:
        if any(not rest for rest, _ in given):
            if len(given) > 1:
                raise InvalidQuery(f"column {'.'.join(path)!r} is assigned twice", cure="assign it once")
            return given[0][1]
        fields = list(kind) if kind is not None and pa.types.is_struct(kind) else []
        known = {field.name.lower() for field in fields}
        for rest, _ in given:
            if rest[0].lower() not in known:
                expected = f"one of {[field.name for field in fields]}" if fields else "a column or a field of a STRUCT"
                name = ".".join((*path, rest[0]))
                raise InvalidQuery(f"there is no field {name!r}", expected=expected, cure="correct the name")
        made = []
        for field in fields:
            own = [(rest[1:], value) for rest, value in given if rest[0].lower() == field.name.lower()]
            inner = (*path, field.name)
            made.append((field.name, value_of(inner, field.type, own) if own else old(inner)))
        return struct(made)

    kinds = {field.name: field.type for field in columns}
    return {name: value_of((name,), kinds.get(name), given) for name, given in grouped.items()}


@dataclass(frozen=True)
class Checked:
    """A checked clause. `values`: None for a delete."""

    when: str
    action: str
    values: Columns | None
    condition: Condition | None

    @property
    def needs(self) -> frozenset[str]:
        """The columns of joined rows that the clause reads."""
        return frozenset((*(self.values.needs if self.values else ()), *(self.condition.needs if self.condition else ())))


@dataclass(frozen=True)
class Bound:
    """A checked statement. `equal`: pairs of a target and a source column that the condition requires to be equal. `known`: a
    predicate that every matching target row satisfies; None: no predicate could be derived."""

    on: Condition
    equal: tuple[tuple[str, str], ...]
    clauses: tuple[Checked, ...]
    reader: ExpressionReader
    known: Predicate | None = None

    def of(self, when: str) -> list[Checked]:
        return [clause for clause in self.clauses if clause.when == when]

    @property
    def repeats_allowed(self) -> bool:
        """Whether a target row may match several source rows: True if matched rows are only deleted, unconditionally."""
        return repeats_allowed(self.clauses)

    def needs(self, side: str) -> list[str]:
        """The columns of one side, `TARGET` or `SOURCE`, that the statement reads, without the prefix."""
        names = frozenset(self.on.needs).union(*(clause.needs for clause in self.clauses))
        return sorted(name.removeprefix(side) for name in names if name.startswith(side))


def bound(statement: Statement, version: Version, source: pa.Schema, zone: str) -> Bound:
    """Checks a MERGE against a version of its target. `source`: the columns of the source.

    Raises:
        InvalidQuery: An expression is invalid, a clause can never apply, or the table cannot be updated that way.
    """
    check_clauses(statement.clauses)
    statement.check_conditions()
    schema, reader = version.schema, statement.reader(version)
    target = schema.typed_columns
    scopes = statement.joined(target, source)
    common = equal_columns(statement.on.node, scopes[MATCHED], nulls=True)

    def condition(part: ExpressionPart, scope: Scope) -> Condition:
        return condition_from(reader.translator(part.text, scope), part.node, zone)

    made = []
    for clause in statement.clauses:
        scope = scopes[clause.when]
        values = assigned(statement, clause, schema, source, common)
        parts = {name: (reader.translator(part.text, scope), part.node) for name, part in values.items()}
        columns = None if clause.action == DELETE else columns_from(parts, target, zone)
        made.append(
            Checked(clause.when, clause.action, columns, None if clause.condition is None else condition(clause.condition, scope))
        )
    joined = replace(reader.translator(statement.on.text, scopes[MATCHED]), place=ON)
    on = condition_from(joined, statement.on.node, zone)
    return Bound(on, equal_columns(statement.on.node, scopes[MATCHED]), tuple(made), reader)


def schema_of_source(source: pa.Schema, target: pa.Schema) -> pa.Schema:
    """The columns of a source with types of tables; a column of type null takes the type of the target column of its name.
    Raises InvalidSchema for a type that tables do not have."""
    of_target = {field.name.lower(): field.type for field in target}

    def type_of(field: pa.Field) -> pa.DataType:
        if pa.types.is_null(field.type):
            return of_target.get(field.name.lower(), pa.string())
        return column_types.plain(column_types.canonical(field.type, field.name))

    return pa.schema([with_sized_text(pa.field(field.name, type_of(field)), sized_text(field)) for field in source])


def repeats_allowed(clauses: Iterable[Clause[ExpressionPart] | Checked]) -> bool:
    """Whether a target row may match several source rows: True if matched rows are only deleted, unconditionally."""
    matched = [clause for clause in clauses if clause.when == MATCHED]
    return not matched or (len(matched) == 1 and matched[0].action == DELETE and matched[0].condition is None)


def is_upsert(statement: Statement, assigned: Sequence[Mapping[str, ExpressionPart]], schema: Schema, scope: Scope) -> bool:
    """Whether a merge makes each source row the row of its key, in the table or not: the condition compares the primary key with
    columns of the source, and nothing else; an update and an insert without conditions assign all columns the same values.

    Args:
        statement: the merge.
        assigned: for each clause, column -> value.
        schema: the columns of the target.
        scope: the scope of joined rows.
    """
    by_action = {clause.action: values for clause, values in zip(statement.clauses, assigned, strict=True)}
    whens = [(clause.when, clause.action) for clause in statement.clauses]
    if sorted(whens) != [(MATCHED, UPDATE), (NOT_MATCHED, INSERT)] or any(clause.condition for clause in statement.clauses):
        return False
    pairs = [list(_equal(part, scope, (exp.EQ,))) for part in _conjuncts(statement.on.node)]
    keys = {own: other for pair in pairs for own, other in pair}
    if not all(pairs) or len(pairs) != len(keys) or {*keys} != {*schema.primary_key}:
        return False
    inserted, updated = by_action[INSERT], by_action[UPDATE]
    if {*inserted} != {*schema.columns.names} or {*inserted} - {*updated} != {*keys}:
        return False
    given = {name: _column(inserted[name].node, SOURCE, scope) for name in keys}
    return all(column is not None and column.name == keys[name] for name, column in given.items()) and all(
        value.node == inserted[name].node and _reads_source(value.node, scope) for name, value in updated.items()
    )


def _conjuncts(node: exp.Expression) -> Iterable[exp.Expression]:
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node


def _reads_source(node: exp.Expression, scope: Scope) -> bool:
    """Whether an expression reads nothing but columns of the source."""
    if node.find(exp.Query, exp.Lambda) is not None:
        return False
    found = [scope.found([part.name for part in column.parts]) for column in node.find_all(exp.Column)]
    return all(one and all(column.sql.startswith(f'"{SOURCE}') for column, _ in one) for one in found)


def check_clauses(clauses: Sequence[Clause[ExpressionPart]]) -> None:
    """Raises InvalidQuery if there is no clause, or if a clause follows one that always applies."""
    if not clauses:
        raise InvalidQuery("a merge needs a clause", expected="when_matched_update and the like", cure="add a clause")
    final: set[str] = set()
    for clause in clauses:
        if clause.when in final:
            raise InvalidQuery(
                f"a clause for rows that are {clause.when} can never apply",
                expected="a condition in every clause of a kind but the last",
                found=f"{clause.action} behind a clause without a condition",
                cure="add a condition to the clause before, or move it to the end",
            )
        if clause.condition is None:
            final.add(clause.when)


def equal_columns(on: exp.Expression, scope: Scope, *, nulls: bool = False) -> tuple[tuple[str, str], ...]:
    """The pairs of target and source columns whose stored values the condition of a merge requires to be equal. `scope`: the
    scope of joined rows. `nulls`: also pairs that may both be null."""
    return tuple(_equal(on, scope, (exp.EQ, exp.NullSafeEQ) if nulls else (exp.EQ,)))


def _equal(node: exp.Expression, scope: Scope, signs: tuple[type[exp.Expression], ...]) -> Iterable[tuple[str, str]]:
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from _equal(node.left, scope, signs)
        yield from _equal(node.right, scope, signs)
    elif isinstance(node, signs):
        for left, right in ((node.left, node.right), (node.right, node.left)):
            ours, theirs = _column(left, TARGET, scope), _column(right, SOURCE, scope)
            if ours and theirs and _is_compared_as_stored(ours, theirs):
                yield ours.name, theirs.name


def _is_compared_as_stored(ours: ScopeColumn, theirs: ScopeColumn) -> bool:
    """Whether the values are compared as they are stored, that is, no text is padded."""
    lengths = {char_length(ours.known.declared), char_length(theirs.known.declared)}
    return len(lengths) == 1 or None in lengths


def _column(node: exp.Expression, side: str, scope: Scope) -> ScopeColumn | None:
    """The column of this side that a node names; None if the node names no such column."""
    if not isinstance(node, exp.Column):
        return None
    path = [part.name for part in node.parts]
    matches = scope.found(path)
    if len(matches) != 1 or matches[0][1] != len(path) or not matches[0][0].sql.startswith(f'"{side}'):
        return None
    return matches[0][0]
