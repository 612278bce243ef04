"""What is known of an expression that is nothing but a column of a table, perhaps through queries, views and aliases.

A condition on such columns alone holds for rows of the table as well as for rows of the query: a row of the table for which it is
not true gives no row of the query for which it is. So the table need not be read where it is not true. A column loses its origins
where this does not hold: behind LIMIT, windows and grouping sets, on the side of an outer join that can be missing, and in the
anchor of a recursive query. A query of WITH is read for all its references, so it takes what they all leave out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp


@dataclass(eq=False, kw_only=True)
class Taker:
    """Takes conditions: a table in FROM, or a reference to a query of WITH that reads it. `own`: those that were given to it;
    `readers`: the queries of WITH in which it stands."""

    own: list[exp.Expression] = field(default_factory=list)
    readers: list[Shared] = field(default_factory=list)

    @property
    def conditions(self) -> list[exp.Expression]:
        """What all rows that are needed satisfy, once the whole text is translated."""
        return [*self.own, *(one for reader in self.readers for one in reader.conditions(self))]


class ColumnOrigin(NamedTuple):
    """A column of what takes conditions: its name in the table."""

    taker: Taker
    name: str


@dataclass(frozen=True)
class Known:
    """`declared`: the column, if it is declared with the length of a text. `origins`: the columns of tables whose values it has;
    of a set operation there are several."""

    declared: pa.Field | None = None
    origins: tuple[ColumnOrigin, ...] = ()

    def name_in(self, taker: Taker) -> str | None:
        """The name of the column in a table; None if it is none of it."""
        return next((origin.name for origin in self.origins if origin.taker is taker), None)

    @property
    def placeless(self) -> Known:
        """Without origins."""
        return replace(self, origins=()) if self.origins else self


UNKNOWN = Known()


@dataclass(eq=False)
class Shared:
    """A query of WITH, which is read once. `references`: for each, what takes its conditions instead of the tables."""

    references: list[Mapping[Taker, Taker]] = field(default_factory=list)

    def reference(self, known: Sequence[Known]) -> tuple[Known, ...]:
        """The columns of one more reference, given those of the query."""
        takers = {origin.taker: Taker() for one in known for origin in one.origins}
        self.references.append(takers)
        for taker in takers:
            if self not in taker.readers:
                taker.readers.append(self)
        return tuple(
            replace(one, origins=tuple(origin._replace(taker=takers[origin.taker]) for origin in one.origins)) for one in known
        )

    def conditions(self, taker: Taker) -> list[exp.Expression]:
        """What the rows satisfy that any reference needs."""
        found = [one[taker].conditions for one in self.references]
        if len(found) < 2 or not all(found):
            return found[0] if len(found) == 1 else []
        return [exp.or_(*(exp.and_(*one) for one in found))]
