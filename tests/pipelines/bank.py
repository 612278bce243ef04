"""The bank: what it does in the tables of a database, at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from pipelines.databases import Database

KEYS = {"accounts": ["id"], "transfers": ["id"], "entries": ["transfer", "line"], "types": ["id"], "marks": ["id"]}
"""The tables, with their keys."""


@dataclass
class Bank:
    """What the bank does. `many`: rows of a large transaction; `accounts`: so many there are; `done`: how often it has done
    each thing."""

    database: Database
    chance: random.Random
    many: int = 4000
    accounts: int = 200
    transfers: int = 0
    columns: int = 0
    marks: int = 0
    done: dict[str, int] = field(default_factory=dict)

    def open(self) -> None:
        """Makes the tables, with some rows that are there before the engine is."""
        rows = ", ".join(
            f"({number}, 'owner {number}', 1000.00, 0, repeat('x', 9000), '2020-01-01')" for number in range(self.accounts)
        )
        self.database.script(
            f"{self.database.tables} INSERT INTO accounts (id, owner, balance, visits, note, opened) VALUES {rows};"
        )
        self._types()

    def work(self) -> None:
        """Does one thing."""
        (thing,) = self.chance.choices(list(self._things), list(self._things.values()))
        self._do(thing)

    def all(self) -> None:
        """Does each thing once."""
        for thing in self._things:
            self._do(thing)

    @property
    def _things(self) -> dict[Callable[[], None], int]:
        """What the bank does, and how often beside the other things."""
        return {
            self._transfer: 40,
            self._visit: 20,
            self._note: 6,
            self._close: 6,
            self._large: 2,
            self._types: 8,
            self._add_column: 2,
            self._widen: 1,
            self._rename_key: 3,
            self._undone: 3,
            self._truncate: 1,
        }

    def _do(self, thing: Callable[[], None]) -> None:
        thing()
        self.done[thing.__name__] = self.done.get(thing.__name__, 0) + 1

    def mark(self) -> int:
        """A row that comes after all others."""
        self.marks += 1
        self.database.script(f"INSERT INTO marks VALUES ({self.marks}, now());")
        return self.marks

    def _transfer(self) -> None:
        self.transfers += 1
        one, other = self.chance.sample(range(self.accounts), 2)
        amount = self.chance.randrange(1, 10_000) / 100
        self.database.script(
            f"BEGIN; UPDATE accounts SET balance = balance - {amount} WHERE id = {one};"
            f"UPDATE accounts SET balance = balance + {amount} WHERE id = {other};"
            f"INSERT INTO transfers (id, source, target, amount, at) VALUES ({self.transfers}, {one}, {other}, {amount}, now());"
            f"INSERT INTO entries SELECT {self.transfers}, n, concat('line ', n) FROM {self.database.series(1, 3)}; COMMIT;"
        )

    def _visit(self) -> None:
        """The note is stored apart and is not sent again."""
        self.database.script(
            f"UPDATE accounts SET visits = visits + 1, seen = now() WHERE id % 17 = {self.chance.randrange(17)};"
        )

    def _note(self) -> None:
        number = self.chance.randrange(self.accounts)
        self.database.script(f"UPDATE accounts SET note = repeat(md5('{self.chance.random()}'), 300) WHERE id = {number};")

    def _close(self) -> None:
        number = self.chance.randrange(self.accounts)
        self.database.script(
            f"BEGIN; DELETE FROM accounts WHERE id = {number};"
            f"INSERT INTO accounts (id, owner, balance, visits, note) VALUES ({number}, 'new', 5, 0, 'short'); COMMIT;"
        )

    def _large(self) -> None:
        first = 1_000_000 * (self.done.get("_large", 0) + 1)
        self.database.script(
            f"BEGIN; INSERT INTO entries SELECT {first} + n, 1, 'many' FROM {self.database.series(1, self.many)};"
            f"UPDATE entries SET word = 'more' WHERE transfer BETWEEN {first} AND {first + self.many // 2};"
            f"DELETE FROM entries WHERE transfer BETWEEN {first + self.many * 3 // 4} AND {first + self.many}; COMMIT;"
        )

    def _types(self) -> None:
        number, n = self.chance.randrange(20), self.chance.randrange(-1000, 1000)
        values, one, other = self.database.row_of_types(number, n), self.database.series(1, 1), number + 100
        self.database.script(
            f"BEGIN; DELETE FROM types WHERE id = {number}; INSERT INTO types VALUES ({values});"
            f"INSERT INTO types (id) SELECT {other} FROM {one} WHERE {other} NOT IN (SELECT id FROM types); COMMIT;"
        )

    def _add_column(self) -> None:
        self.columns += 1
        kind = self.chance.choice(["int", "text", "numeric(8,2)", "date"])
        self.database.script(
            f"ALTER TABLE transfers ADD COLUMN extra_{self.columns} {kind}{self.database.place};"
            f"UPDATE transfers SET amount = amount WHERE id % 7 = {self.columns % 7};"
        )

    def _widen(self) -> None:
        self.database.script(f"{self.database.widened('accounts', 'visits')} UPDATE accounts SET visits = visits + 40000;")

    def _truncate(self) -> None:
        self.database.script("TRUNCATE TABLE entries;")

    def _rename_key(self) -> None:
        self.database.script(
            f"UPDATE entries SET line = line + 100 WHERE transfer % 50 = {self.chance.randrange(50)} AND line < 100;"
        )

    def _undone(self) -> None:
        self.database.script("BEGIN; UPDATE accounts SET balance = 0; DELETE FROM entries; ROLLBACK;")
