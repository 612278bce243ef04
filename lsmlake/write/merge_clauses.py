"""A MERGE statement as values: its clauses, checked against the columns of the target and the source. Reads no rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.evaluate import Columns, Condition, columns_of, condition_of
from lsmlake.dialect.reading import passed_on
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.text import Text
from lsmlake.errors import InvalidQuery
from lsmlake.predicate import Predicate
from lsmlake.schema import types
from lsmlake.schema.schema import Schema
from lsmlake.write.clause import BY_SOURCE, DELETE, INSERT, MATCHED, NOT_MATCHED, UPDATE, Clause
from lsmlake.write.fields import whole_texts

TARGET, SOURCE = "t.", "s."
"""How the columns of joined rows begin."""


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
class Statement:
    """A checked MERGE. `equal`: pairs of a target and a source column that the condition requires to be equal. `known`: what else
    it requires of a target row; None: nothing is known."""

    on: Condition
    equal: tuple[tuple[str, str], ...]
    clauses: tuple[Checked, ...]
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


def checked(schema: Schema, source: pa.Schema, on: str, clauses: Sequence[Clause], zone: str, now: str) -> Statement:
    """Checks a MERGE. `source`: the columns of the source.

    Raises:
        InvalidQuery: An expression is invalid, a clause can never apply, or the table cannot be updated that way.
    """
    check_clauses(clauses)
    target = schema.plain_columns
    joined = Scope.joined(target, source)
    sides = {MATCHED: joined, NOT_MATCHED: _side(source, SOURCE), BY_SOURCE: _side(target, TARGET)}
    condition = condition_of(on, joined, zone=zone, now=now)
    equal = equal_columns(on, target, source)
    common = equal_columns(on, target, source, nulls=True)
    made = []
    for clause in clauses:
        scope = sides[clause.when]
        texts = assignments(clause, schema, source, common)
        values = None if clause.action == DELETE else columns_of(texts, scope, target, zone=zone, now=now)
        given = None if clause.condition is None else condition_of(clause.condition, scope, zone=zone, now=now)
        made.append(Checked(clause.when, clause.action, values, given))
    return Statement(condition, equal, tuple(made))


def schema_of_source(found: pa.Schema, target: pa.Schema) -> pa.Schema:
    """The columns of a source with the types that tables have; one without a value has the type of the target column of its name.
    Raises InvalidSchema for a type that no column has."""
    of_target = {field.name.lower(): field.type for field in target}

    def type_of(field: pa.Field) -> pa.DataType:
        if pa.types.is_null(field.type):
            return of_target.get(field.name.lower(), pa.string())
        return types.plain(types.canonical(field.type, field.name))

    return pa.schema([pa.field(field.name, type_of(field)) for field in found])


def _side(schema: pa.Schema, prefix: str) -> Scope:
    """The columns of one side alone, with their names in joined rows."""
    both = Scope.joined(schema, schema).relations
    return Scope(both[:1] if prefix == TARGET else both[1:])


def repeats_allowed(clauses: Iterable[Clause | Checked]) -> bool:
    """Whether a target row may match several source rows: all of them delete it."""
    found = [clause for clause in clauses if clause.when == MATCHED]
    return not found or (len(found) == 1 and found[0].action == DELETE and found[0].condition is None)


def check_clauses(clauses: Sequence[Clause]) -> None:
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


def assignments(clause: Clause, schema: Schema, source: pa.Schema, equal: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Column -> expression. `*` means every column from the source column of its name; an update leaves out key columns that the
    rows have in common. `equal`: of `equal_columns`, with nulls."""
    if clause.action == DELETE:
        return {}
    if clause.values is not None:
        return whole_texts(clause.values, schema.plain_columns, TARGET) if clause.action == UPDATE else clause.values
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
    return {name: f"s.`{by_lower[name.lower()].replace('`', '``')}`" for name in wanted}


def equal_columns(on: str, target: pa.Schema, source: pa.Schema, *, nulls: bool = False) -> tuple[tuple[str, str], ...]:
    """The pairs of columns of the target and the source that the condition of a merge requires to be equal.
    `nulls`: also pairs that may both be null."""
    with Text(on).read() as node:
        passed_on(node)  # `condition_of` reads it
        return tuple(_equal(node, target, source, (exp.EQ, exp.NullSafeEQ) if nulls else (exp.EQ,)))


def _equal(
    node: exp.Expression, target: pa.Schema, source: pa.Schema, signs: tuple[type[exp.Expression], ...]
) -> Iterable[tuple[str, str]]:
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from _equal(node.left, target, source, signs)
        yield from _equal(node.right, target, source, signs)
    elif isinstance(node, signs):
        for left, right in ((node.left, node.right), (node.right, node.left)):
            ours, theirs = _column(left, "t", target), _column(right, "s", source)
            if ours and theirs:
                yield ours, theirs


def _column(node: exp.Expression, qualifier: str, schema: pa.Schema) -> str | None:
    if isinstance(node, exp.Column) and node.table.lower() == qualifier and not node.db:
        return next((name for name in schema.names if name.lower() == node.name.lower()), None)
    return None
