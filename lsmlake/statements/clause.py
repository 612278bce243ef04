"""A WHEN clause of a MERGE; DELETE and UPDATE have one clause, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lsmlake.schema.schema import RESERVED

MATCHED, NOT_MATCHED, BY_SOURCE = "matched", "not matched", "not matched by source"
UPDATE, DELETE, INSERT = "update", "delete", "insert"
ACTION = f"{RESERVED}action"
"""The column with the number of the clause that acts on a row, from 1; 0 if no clause does."""

Expression = TypeVar("Expression")
Other = TypeVar("Other")


@dataclass(frozen=True)
class Clause(Generic[Expression]):
    """One clause. `values`: column -> expression; None: all columns, by name. `condition`: None: the clause always applies.

    Expressions are texts in the arguments of a method, and `ExpressionPart` in a statement. A column is text such as "st.a", or
    the parts of a name."""

    when: str
    action: str
    values: Mapping[str | tuple[str, ...], Expression] | None = None
    condition: Expression | None = None

    @property
    def parts(self) -> Iterator[Expression]:
        """The expressions."""
        yield from (self.values or {}).values()
        if self.condition is not None:
            yield self.condition

    def map(self, made: Callable[[Expression], Other]) -> Clause[Other]:
        """The clause with `made` applied to each expression."""
        values = None if self.values is None else {name: made(value) for name, value in self.values.items()}
        return Clause(self.when, self.action, values, None if self.condition is None else made(self.condition))
