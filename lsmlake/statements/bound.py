"""A statement checked against the columns of one version, for this process. Reads no rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.context import ON
from lsmlake.dialect.evaluate import Columns, Condition, columns_from, condition_from
from lsmlake.dialect.scope import Scope, ScopeColumn
from lsmlake.errors import InvalidQuery
from lsmlake.predicate import Predicate
from lsmlake.schema.schema import Schema
from lsmlake.statements.assignments import assigned
from lsmlake.statements.clause import DELETE, MATCHED, Clause
from lsmlake.statements.part import ExpressionPart
from lsmlake.statements.statement import SOURCE, TARGET, ExpressionReader, Statement
from lsmlake.types import types
from lsmlake.types.types import char_length, sized_text, with_sized_text


@dataclass(frozen=True)
class Checked:
    """A clause that was checked. `values`: None for a delete."""

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
    """A checked statement. `equal`: pairs of a target and a source column that the condition requires to be equal. `known`: what
    else it requires of a target row; None: nothing is known."""

    on: Condition
    equal: tuple[tuple[str, str], ...]
    clauses: tuple[Checked, ...]
    reader: ExpressionReader
    known: Predicate | None = None

    def of(self, when: str) -> list[Checked]:
        return [clause for clause in self.clauses if clause.when == when]

    @property
    def repeats_allowed(self) -> bool:
        """Whether a target row may match several source rows: all of them delete it."""
        return repeats_allowed(self.clauses)

    def needs(self, side: str) -> list[str]:
        """The columns of one side, `TARGET` or `SOURCE`, that the statement reads, without the prefix."""
        found = frozenset(self.on.needs).union(*(clause.needs for clause in self.clauses))
        return sorted(name.removeprefix(side) for name in found if name.startswith(side))


def bound(statement: Statement, schema: Schema, source: pa.Schema, zone: str, reader: ExpressionReader) -> Bound:
    """Checks a MERGE. `source`: the columns of the source.

    Raises:
        InvalidQuery: An expression is invalid, a clause can never apply, or the table cannot be updated that way.
    """
    check_clauses(statement.clauses)
    statement.check_conditions()
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


def schema_of_source(found: pa.Schema, target: pa.Schema) -> pa.Schema:
    """The columns of a source with the types that tables have; one without a value has the type of the target column of its name.
    Raises InvalidSchema for a type that no column has."""
    of_target = {field.name.lower(): field.type for field in target}

    def type_of(field: pa.Field) -> pa.DataType:
        if pa.types.is_null(field.type):
            return of_target.get(field.name.lower(), pa.string())
        return types.plain(types.canonical(field.type, field.name))

    return pa.schema([with_sized_text(pa.field(field.name, type_of(field)), sized_text(field)) for field in found])


def repeats_allowed(clauses: Iterable[Clause[ExpressionPart] | Checked]) -> bool:
    """Whether a target row may match several source rows: all of them delete it."""
    found = [clause for clause in clauses if clause.when == MATCHED]
    return not found or (len(found) == 1 and found[0].action == DELETE and found[0].condition is None)


def check_clauses(clauses: Sequence[Clause[ExpressionPart]]) -> None:
    """Raises InvalidQuery if there is no clause, or for one behind a clause that always applies."""
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
    """The pairs of columns of the target and the source that the condition of a merge requires to be equal, as they are stored.
    `scope`: of joined rows. `nulls`: also pairs that may both be null."""
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
    """Whether no text is padded for the comparison."""
    lengths = {char_length(ours.known.declared), char_length(theirs.known.declared)}
    return len(lengths) == 1 or None in lengths


def _column(node: exp.Expression, side: str, scope: Scope) -> ScopeColumn | None:
    """The column of a side that a node is."""
    if not isinstance(node, exp.Column):
        return None
    path = [part.name for part in node.parts]
    found = scope.found(path)
    if len(found) != 1 or found[0][1] != len(path) or not found[0][0].sql.startswith(f'"{side}'):
        return None
    return found[0][0]
