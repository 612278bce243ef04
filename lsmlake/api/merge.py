"""The builder of a MERGE: what `Table.merge` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lsmlake.border import public
from lsmlake.errors import InvalidQuery
from lsmlake.notebook import offered
from lsmlake.statements.attempts import DmlReport
from lsmlake.statements.clause import BY_SOURCE, DELETE, INSERT, MATCHED, NOT_MATCHED, UPDATE, Clause


@public
@dataclass(frozen=True, repr=False)
class Merge:
    """A merge that is being described. Each method returns a new value; nothing is read until `execute`.

    In all expressions `t` is the target and `s` the source. Of the clauses for a row, the first one whose condition is true
    counts; without one, the row stays as it is.
    """

    run: Callable[[tuple[Clause[str], ...]], DmlReport]
    clauses: tuple[Clause[str], ...] = ()

    def __repr__(self) -> str:
        return f"<lsmlake merge, clauses: {', '.join(clause.action for clause in self.clauses) or 'none'}>"

    def __dir__(self) -> list[str]:
        return offered(super().__dir__())

    def __reduce__(self) -> tuple:
        what, cure = "a merge that is being described cannot be pickled", "pickle the table, and describe the merge there"
        raise InvalidQuery(what, where="merge()", cure=cure)

    def when_matched_update(self, values: Mapping[str, str], condition: str | None = None) -> Merge:
        """Update a target row that matches a source row. `values`: column -> expression; "st.a" is a field of a struct."""
        return self._with(Clause(MATCHED, UPDATE, values, condition))

    def when_matched_update_all(self, condition: str | None = None) -> Merge:
        """Update all columns of a target row from the source columns of the same names."""
        return self._with(Clause(MATCHED, UPDATE, None, condition))

    def when_matched_delete(self, condition: str | None = None) -> Merge:
        """Delete a target row that matches a source row."""
        return self._with(Clause(MATCHED, DELETE, None, condition))

    def when_not_matched_insert(self, values: Mapping[str, str], condition: str | None = None) -> Merge:
        """Insert a source row without a target row. Columns that `values` lacks get their default.

        Under a primary key this is an upsert: a row whose key is in the table, because `on` does not compare all of the key, goes
        through the merge engine, and so do several source rows of one key.
        """
        return self._with(Clause(NOT_MATCHED, INSERT, values, condition))

    def when_not_matched_insert_all(self, condition: str | None = None) -> Merge:
        """Insert a source row without a target row: all columns, by name."""
        return self._with(Clause(NOT_MATCHED, INSERT, None, condition))

    def when_not_matched_by_source_update(self, values: Mapping[str, str], condition: str | None = None) -> Merge:
        """Update a target row without a source row. `values`: column -> expression over `t`. Reads the whole target."""
        return self._with(Clause(BY_SOURCE, UPDATE, values, condition))

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> Merge:
        """Delete a target row without a source row. Reads the whole target."""
        return self._with(Clause(BY_SOURCE, DELETE, None, condition))

    def execute(self) -> DmlReport:
        """Carry out the merge, as one commit.

        Raises:
            InvalidQuery: an expression is invalid, a clause can never apply, or the merge engine cannot update rows.
            InvalidData: several source rows match one target row (unless a delete without a condition is the only clause for
                matched rows), or a new row does not fit the table. Nothing was committed.
            CommitConflict: other commits changed the rows of the statement on every attempt. Nothing was committed.
            MissingDependency: DuckDB is not installed.
        """
        return self.run(self.clauses)

    def _with(self, clause: Clause[str]) -> Merge:
        return replace(self, clauses=(*self.clauses, clause))
