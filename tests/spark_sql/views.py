"""The tables and views of a golden file, as tables of a lake: what its statements find under their names."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

import lsmlake
from lsmlake import Lake
from lsmlake.dialect.grammar import PlainSpark
from lsmlake.errors import LakeError
from spark_sql.golden import ZONE, Statement
from spark_sql.layouts import write
from spark_sql.shared import SHARED, shared

DATABASE = "d"
_NAME = r"(?P<name>`[^`]+`|\w+)"
_VIEW = re.compile(
    rf"CREATE\s+(OR\s+REPLACE\s+)?(GLOBAL\s+)?(?P<temporary>TEMP(ORARY)?\s+)?VIEW\s+(IF\s+NOT\s+EXISTS\s+)?{_NAME}\s*(?P<columns>\([^()]*\))?"
    r"\s*AS\s*(?P<body>.*)",
    re.IGNORECASE | re.DOTALL,
)
_TABLE = re.compile(rf"CREATE\s+TABLE\s+(IF\s+NOT\s+EXISTS\s+)?{_NAME}\s*(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_CTAS = re.compile(r"(?:USING\s+\w+\s*)?(?:PARTITIONED\s+BY\s*\([^()]*\)\s*)?AS\s*(?P<body>.*)", re.IGNORECASE | re.DOTALL)
_DROP = re.compile(rf"DROP\s+(TABLE|VIEW)\s+(IF\s+EXISTS\s+)?{_NAME}", re.IGNORECASE)


_SYSTEM = ("information_schema", "parquet", "csv", "json", "orc", "text")


class NotMade(Exception):
    """The statement names a table that could not be made; says why."""


@dataclass
class Views:
    """`seed` decides the layouts of the tables.

    Attributes:
        stored: the tables of the lake, by lower case name.
        given: rows that no table can hold, by lower case name.
        bodies: the queries of views, by lower case name; each is evaluated when it is first read, and again after a change.
        missing: tables and views that could not be made, and why.
        rows_of: the rows of stored tables as they were given.
        dropped: tables that the file made or dropped; they are none of those that all files share.
        zone: the time zone of the lake.
    """

    lake: Lake
    seed: int
    stored: set[str] = field(default_factory=set)
    given: dict[str, pa.Table] = field(default_factory=dict)
    bodies: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    rows_of: dict[str, pa.Table] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    zone: str = ZONE

    def in_zone(self, zone: str) -> Views:
        """The same tables and views, for statements of another time zone. Raises InvalidQuery: it is none of lsmlake's."""
        return replace(self, lake=lsmlake.connect(self.lake.env.storage.root, time_zone=zone), zone=zone)

    def query(self, text: str) -> pa.Table:
        """The rows of a query over the tables. Raises NotMade, LakeError."""
        return self.lake.sql(self._qualified(text), tables=self.given).to_arrow()

    def query_in_memory(self, text: str) -> pa.Table:
        """The rows of a query over rows in memory, in the order in which the file has them."""
        names = [name for name in self._named(text) if name in self.stored]
        rows = {name: self.rows_of.get(name) for name in names}
        if None in rows.values():
            raise NotMade("a table that was changed by statements")
        return self.lake.sql(text, tables={**self.given, **rows}).to_arrow()

    def carry_out(self, statement: Statement) -> None:
        """A statement that is no query. What cannot be carried out is refused where a query needs it."""
        text = statement.bare
        if found := _VIEW.fullmatch(text):
            name = _plain(found["name"])
            self._drop(name)
            parts = (found["columns"] or "()")[1:-1].split(",")
            self.bodies[name] = (found["body"], tuple(_plain(part.split()[0]) for part in parts if part.strip()))
            if not found["temporary"]:
                self._keep_view(name, f"{found['columns'] or ''} AS {found['body']}")
            return
        if found := _TABLE.fullmatch(text):
            self._create(_plain(found["name"]), found["rest"])
        elif found := _DROP.match(text):
            self._drop(_plain(found["name"]))
        elif statement.first == "ALTER":
            self._try(text)
        else:
            return
        self._forget_views()

    def _keep_view(self, name: str, definition: str) -> None:
        """Makes a view of the lake, if it takes the definition."""
        with suppress(LakeError, NotMade):
            self.lake.sql(self._qualified(f"CREATE VIEW {DATABASE}.`{name}` {definition}"))
            del self.bodies[name]
            self.stored.add(name)

    def change(self, text: str) -> None:
        """A statement that changes rows. Raises NotMade, LakeError."""
        try:
            self.lake.sql(self._qualified(text), tables=self.given)
        except (LakeError, NotMade) as error:
            for name in self._named(text) - set(self.bodies):
                self.missing[name] = f"a statement that changes it: {_what(error)}"
            raise
        for name in self._named(text):
            self.rows_of.pop(name, None)
        self._forget_views()

    def _try(self, text: str) -> None:
        with suppress(LakeError, NotMade):
            self.lake.sql(self._qualified(text))

    def _forget_views(self) -> None:
        """Views are evaluated again when they are next read."""
        for name in [one for one in self.fresh if one in self.bodies]:
            self._forget(name)

    def _create(self, name: str, rest: str) -> None:
        self._drop(name)
        try:
            if found := _CTAS.fullmatch(rest):
                self.store(name, self.query(_readable(found["body"])))
            else:
                columns = re.split(r"\bUSING\b|\bTBLPROPERTIES\b|\bSTORED\b", rest, flags=re.IGNORECASE)[0]
                self.lake.sql(f"CREATE TABLE {DATABASE}.`{name}` {columns}")
                self.stored.add(name)
        except (LakeError, NotMade) as error:
            self.missing[name] = f"its CREATE TABLE: {_what(error)}"

    def _made(self, name: str) -> None:
        """Makes the table of a view."""
        if name in self.fresh:
            return
        self.fresh.add(name)
        body, columns = self.bodies[name]
        try:
            rows = self.query(_readable(body))
            self.store(name, rows.rename_columns(list(columns)) if columns else rows)
        except (LakeError, NotMade, pa.ArrowInvalid) as error:
            self.missing[name] = f"its query: {_what(error)}"

    def store(self, name: str, rows: pa.Table) -> None:
        """Makes a table of rows."""
        try:
            write(self.lake, f"{DATABASE}.{name}", rows, self.seed)
        except LakeError:
            self._unstore(name)
            self.given[name] = rows
        else:
            self.stored.add(name)
            self.rows_of[name] = rows

    def _drop(self, name: str) -> None:
        self.dropped.add(name)
        self._forget(name)
        self.bodies.pop(name, None)

    def _forget(self, name: str) -> None:
        """The rows under a name."""
        self.fresh.discard(name)
        self.missing.pop(name, None)
        self.given.pop(name, None)
        self.rows_of.pop(name, None)
        self.stored.discard(name)
        self._unstore(name)

    def _unstore(self, name: str) -> None:
        for kind in ("TABLE", "VIEW"):
            with suppress(LakeError):
                self.lake.sql(f"DROP {kind} IF EXISTS {DATABASE}.`{name}`")

    def _named(self, text: str) -> set[str]:
        """The tables and views that a text may name."""
        words = {word.strip("`").lower() for word in re.findall(r"`[^`]+`|\w+", text)}
        known = self.stored | set(self.given) | set(self.bodies) | set(self.missing)
        for name in (words & set(SHARED)) - known - self.dropped:
            self.store(name, shared(name))
            known.add(name)
        return words & known

    def _qualified(self, text: str) -> str:
        """The text with the database before the names of stored tables."""
        for name in sorted(self._named(text)):
            if name in self.bodies:
                self._made(name)
            if name in self.missing:
                raise NotMade(self.missing[name])
        try:
            found = [node for node in sqlglot.parse(text, dialect=PlainSpark) if node is not None]
        except (SqlglotError, RecursionError, AssertionError):
            return text  # it will be refused, whatever its names are
        tables = [one for node in found for one in node.find_all(exp.Table) if isinstance(one.this, exp.Identifier)]
        for one in tables:
            if one.db and one.db.lower() not in self.lake.databases() and one.db.lower() not in _SYSTEM:
                raise NotMade(f"there is no database {one.db}")
        places = [one.this.meta for one in tables if not one.args.get("db") and self._is_stored(one)]
        for place in sorted(places, key=lambda one: one["start"], reverse=True):
            start, end = place["start"], place["end"] + 1
            text = f"{text[:start]}{DATABASE}.{text[start:end].lower()}{text[end:]}"
        return text

    def _is_stored(self, table: exp.Table) -> bool:
        """Whether the name stands for a table of the lake, not for a CTE around it."""
        name, node = table.name.lower(), table
        if name not in self.stored:
            return False
        inside = table.find_ancestor(exp.CTE)
        while node is not None:
            clause = node.args.get("with_")
            if clause is not None and any(one.alias.lower() == name and one is not inside for one in clause.expressions):
                return False
            node = node.parent
        return True


def _readable(body: str) -> str:
    """The query of a view."""
    return f"SELECT * FROM {body}" if body[:6].upper() == "VALUES" else body


def _plain(name: str) -> str:
    return name.strip("`").lower()


def _what(error: Exception) -> str:
    """The first cause."""
    return error.what if isinstance(error, LakeError) else str(error).partition(": ")[2] or str(error)
