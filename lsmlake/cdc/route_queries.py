"""The query that says of each change event which table it is for, and what it tells of the columns and the key of that table.

    SELECT .., source, kind, types, keys, content  FROM (events, parsed to one struct)

It is written for DuckDB and for Spark from the definition of a format, as `cdc.event_queries` is. `cdc.source_tables` reads what
the columns say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lsmlake.cdc.event_formats import SKIP, EventFormat
from lsmlake.cdc.event_queries import EVENT, KEY, DuckWords, Shape, SparkWords, first_of
from lsmlake.cdc.event_rows import NO_EVENT

SOURCE, TYPES, KEYS, CONTENT = "event_source", "event_types", "event_keys", "event_content"
"""The columns of the result: the table, "" for an event that is no change, null for one that names no table; the declared types;
the names of the key columns; the JSON of the row."""
NO_CHANGE = ""
_PARSED, _KIND = "parsed", "event_kind"
_SCHEMA, _PAYLOAD = "schema", "payload"
_DOCUMENTS = "after", "fullDocument", "updateDescription.updatedFields"
_HAS_SCHEMA = r'^\s*\{\s*"schema"\s*:\s*\{'
_INTEGER = r'\{\s*"\$number(?:Int|Long)"\s*:\s*"(-?[0-9]+)"\s*\}'
"""A whole number of a document, beside which others may be plain ones."""


@dataclass(frozen=True)
class RouteQuery:
    """The columns to read of events in JSON. `format`: their format."""

    format: EventFormat

    def in_duckdb(self, events: str, others: Sequence[str]) -> str:
        """The query over the relation `events`. `others`: columns that the result has as they are."""
        query = events
        for chosen in self._steps(DuckWords(), others):
            query = f"(SELECT {', '.join(chosen)} FROM {query})"
        return f"FROM {query}"

    def in_spark(self, others: Sequence[str]) -> list[list[str]]:
        """The same for Spark: projections to apply one after the other."""
        return self._steps(SparkWords(), others)

    def _steps(self, engine: DuckWords | SparkWords, others: Sequence[str]) -> list[list[str]]:
        given = self.format
        kind = self._value(engine, *given.operation)
        types = engine.path(_PARSED, _SCHEMA) if given.typed else self._value(engine, given.types) if given.types else "NULL"
        return [
            ["*", f"{engine.parsed(EVENT, self._shape())} AS {_PARSED}"],
            ["*", f"{kind} AS {_KIND}", f"CAST({types} AS {engine.text}) AS {TYPES}"],
            [
                *others,
                f"CASE WHEN {self._is_no_change(engine)} THEN '{NO_CHANGE}' ELSE {self._source(engine)} END AS {SOURCE}",
                TYPES,
                f"{self._keys(engine)} AS {KEYS}",
                f"CASE WHEN {TYPES} IS NULL THEN {self._content(engine)} END AS {CONTENT}",
            ],
        ]

    def _is_no_change(self, engine: DuckWords | SparkWords) -> str:
        given = self.format
        codes = ", ".join(f"'{code}'" for code in given.codes(SKIP)) or "''"
        pattern = f"(?s){NO_EVENT}|{given.control}" if given.control else f"(?s){NO_EVENT}"
        skipped = f"coalesce({_KIND} IN ({codes}), false)"
        if given.defines:
            skipped = f"({skipped} AND {TYPES} IS NULL)"
        return f"{EVENT} IS NULL OR {skipped} OR ({_KIND} IS NULL AND {engine.matches(EVENT, pattern)})"

    def _source(self, engine: DuckWords | SparkWords) -> str:
        parts = [f"nullif({self._value(engine, *paths)}, '')" for paths in self.format.table]
        return f"CASE WHEN {parts[-1]} IS NOT NULL THEN concat_ws('.', {', '.join(parts)}) END"

    def _keys(self, engine: DuckWords | SparkWords) -> str:
        if self.format.key:
            return self._value(engine, self.format.key)
        inside, plain = engine.names(KEY, f"$.{_PAYLOAD}"), engine.names(KEY, "$")
        return f"CASE WHEN {engine.matches(KEY, _HAS_SCHEMA)} THEN {inside} ELSE {plain} END"

    def _content(self, engine: DuckWords | SparkWords) -> str:
        given = self.format
        if given.document:
            return engine.with_group(self._value(engine, *_DOCUMENTS), _INTEGER)
        return self._value(engine, *filter(None, (given.after, given.before)))

    def _value(self, engine: DuckWords | SparkWords, *paths: str) -> str:
        roots = [f"{_PARSED}.{_PAYLOAD}", _PARSED] if self.format.enveloped else [_PARSED]
        return first_of([engine.path(root, path) for path in paths for root in roots])

    def _shape(self) -> Shape:
        given, shape = self.format, {}
        content = _DOCUMENTS if given.document else filter(None, (given.after, given.before))
        paths = [*given.operation, *(path for part in given.table for path in part), *content]
        for path in filter(None, [*paths, given.key, given.types]):
            inner, *names = shape, *path.split(".")
            for name in names[:-1]:
                inner = inner.setdefault(name, {})
            inner.setdefault(names[-1])
        whole = {**shape, _PAYLOAD: shape} if given.enveloped else shape
        return {**whole, _SCHEMA: None} if given.typed else whole
