"""The query that reads change events as columns of text, written for DuckDB and for Spark from one definition of a format.

    SELECT event, kind, p0_0, .., a0, a1, .., b0, ..  FROM (events, parsed to one struct)

`a0`, `a1`, .. are the values of the row that an event writes or deletes, by the numbers of its columns; `b0`, .. those of the row
before an update. The engines differ in the function that parses JSON, in quotes and in how they take apart a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lsmlake.cdc.event_digits import MARK, NUMBERS, OTHERS, PRINTED_ANEW_IN_JAVA, TOKEN, last_mark, marks
from lsmlake.cdc.event_formats import DELETE, ID, Absent, EventFormat

EVENT, KEY, OFFSET, ROW = "event", "key", "offset", "row"
WRONG = "wrong"
"""The column with the reason for which an event is rejected whatever its JSON says; null for the others."""
VALUE = "value"
"""The column of the events in data, as Kafka's sources name it; beside it they have the columns `KEY` and `OFFSET`."""
KIND, IMAGE, REMOVED, SHORTENED = "kind", "image", "removed", "shortened"
UNPAIRED = "unpaired"
"""The column with the reason to reject an event that has lists of rows of which nothing tells which belong together."""
NAMES, OLD_NAMES = "names", "old_names"
"""The columns with the names of the fields of the row that an event writes, and of the one before it, joined by `BETWEEN`."""
BETWEEN = "\x1f"
_PARSED, _ROW, _OLD, _NUMBER, _KINDS = "parsed", "row_after", "row_before", "element", "_kinds"
_DOCUMENTS = "after", "fullDocument"
_CHANGED, _REMOVED, _SHORTENED = (f"updateDescription.{name}" for name in ("updatedFields", "removedFields", "truncatedArrays"))
"""Where events of MongoDB have the document, or the fields that an update sets, removes and shortens."""
_JSON = "JSON"
_MARKS_IN_JAVA = rf'(?s)((?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|{OTHERS})*+)({TOKEN}|\z)'
"""The pattern of `cdc.event_digits.marked`, in which no match needs a stack."""
HALF_OF_A_PAIR = r"(?i)(?<!\\)(?:\\\\)*\\u(?:d[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2}\\u)d[c-f][0-9a-f]{2})"
"""Matches JSON with half of a surrogate pair."""
_ESCAPE = r"\u"
Shape = dict[str, object]
"""The fields to read of an object: name -> None for text, `_JSON` for JSON, or the fields of the object inside."""


def position(alternative: int, part: int) -> str:
    """The column of a part of a position."""
    return f"p{alternative}_{part}"


def after(column: int) -> str:
    """The column with the values of the row that an event writes or deletes."""
    return f"a{column}"


def before(column: int) -> str:
    """The column with the values of the row before an update."""
    return f"b{column}"


@dataclass(frozen=True)
class EventQuery:
    """The columns to read of events.

    Attributes:
        format: their format.
        columns: the fields of the rows, in order.
        old: the numbers of the columns whose values before an update are read.
        key: the names of the key columns.
        within: the events stand in the field `payload`: all of them, none, or some (None).
        whole_before: `OLD_NAMES` is read, too.
        key_is_id: the key columns that documents do not have as fields are their field `_id`, or the fields of it.
        tells_numbers: a column tells numbers from texts.
        names_known: no names are read: `NAMES` only flags the events that are JSON.
        mark: DuckDB marks the numbers of documents by it, see `cdc.event_digits`; "": it does not.
    """

    format: EventFormat
    columns: Sequence[str]
    old: Sequence[int]
    key: Sequence[str] = ()
    within: bool | None = None
    whole_before: bool = False
    key_is_id: bool = False
    tells_numbers: bool = False
    names_known: bool = False
    mark: str = ""

    @property
    def row_path(self) -> list[str] | None:
        """Where events have the row that they write; None: in one of several places."""
        given = self.format
        if given.document or (given.enveloped and self.within is None):
            return None
        return [*(["payload"] if given.enveloped and self.within else []), *([given.after] if given.after else [])]

    def in_duckdb(self, events: str, *, tries: bool = False) -> str:
        """The query over the relation `events` with the columns `EVENT`, `KEY` and `ROW`. The result has `ROW`, and its rows are
        in the order of the events. `tries`: a text that is no JSON is null; otherwise, which is faster, it is an error."""
        query = events
        for chosen in self._steps(DuckWords(tries, self.mark), [ROW]):
            query = f"(SELECT {', '.join(chosen)} FROM {query})"
        return f"FROM {query}"

    def in_spark(self, others: Sequence[str]) -> list[list[str]]:
        """The same for Spark: projections to apply one after the other. `others`: columns that the result has as they are.
        Numbers may have marks, see `cdc.event_digits`."""
        return list(self._steps(SparkWords(self.tells_numbers), others))

    def _steps(self, engine: DuckWords | SparkWords, others: Sequence[str]) -> Iterator[list[str]]:
        given = self.format
        yield ["*", f"{engine.parsed(engine.with_marks(EVENT), self._shape())} AS {_PARSED}"]
        if given.many:
            rows = {name: engine.path(_PARSED, path) for name, path in ((_ROW, given.after), (_OLD, given.before))}
            yield ["*", f"{self._unpaired(engine, *rows.values())} AS {UNPAIRED}"]
            yield ["*", f"{engine.numbers(rows[_ROW], UNPAIRED)} AS {_NUMBER}"]
            yield ["*", *(f"{engine.element(one, _NUMBER)} AS {name}" for name, one in rows.items())]
        if given.document:
            row = dict.fromkeys(self.columns, _JSON) | ({ID: self._id_shape} if self.key_is_id else {})
            texts = {_ROW: self._value(engine, *_DOCUMENTS, _CHANGED), _OLD: self._document_key(engine)}
            yield ["*", *(column for name, text in texts.items() for column in engine.document(name, text, row))]
        others = [*others, UNPAIRED] if given.many else others
        yield [*others, *(f"{sql} AS {name}" for name, sql in self._columns(engine))]

    def _columns(self, engine: DuckWords | SparkWords) -> Iterator[tuple[str, str]]:
        """The columns of the result: name, expression."""
        given = self.format
        kind = self._value(engine, *given.operation)
        yield KIND, kind
        yield NAMES, f"{_PARSED} IS NOT NULL" if self.names_known else self._names(engine, given.after)
        if self.whole_before:
            yield OLD_NAMES, self._names(engine, given.before)
        for number, parts in enumerate(given.positions):
            for place, part in enumerate(parts):
                yield position(number, place), self._value(engine, part.path)
        if given.document:
            yield IMAGE, f"CASE WHEN {self._value(engine, *_DOCUMENTS)} IS NULL THEN {self._value(engine, _CHANGED)} END"
            yield REMOVED, self._value(engine, _REMOVED)
            yield SHORTENED, self._value(engine, _SHORTENED)
        elif given.absent is Absent.KEPT:
            yield IMAGE, engine.json_at(EVENT, given.after)
        deletes = ", ".join(map(_text, given.codes(DELETE)))
        for number, name in enumerate(self.columns):
            new, old = self._of_row(engine, name, _ROW, given.after), self._of_row(engine, name, _OLD, given.before)
            written = first_of([*new, *old] if given.document and name in self.key else new)
            both = f"CASE WHEN {kind} IN ({deletes}) THEN {first_of([*old, *new])} ELSE {written} END"
            yield after(number), both if old else written
            if number in self.old and old and not given.document:
                yield before(number), first_of(old)

    def _value(self, engine: DuckWords | SparkWords, *paths: str) -> str:
        return first_of([engine.path(root, path) for path in paths for root in self._roots(engine)])

    def _unpaired(self, engine: DuckWords | SparkWords, rows: str, old: str) -> str:
        """The reason to reject an event with another number of rows before an update than after it: the source may leave out
        those that it has not changed, and nothing tells which."""
        what, given = "nothing tells which rows before the update are which", self.format
        counts = [engine.count(old), f" in '{given.before}', ", engine.count(rows), f" in '{given.after}'"]
        texts = f"concat({_text(what + ': ')}, {counts[0]}, {_text(counts[1])}, {counts[2]}, {_text(counts[3])})"
        return f"CASE WHEN {counts[0]} > 0 AND {counts[0]} <> {counts[2]} THEN {texts} END"

    def _names(self, engine: DuckWords | SparkWords, row: str) -> str:
        """The names of the fields of a row, which stands at the path `row`."""
        given = self.format
        if given.document:
            return engine.names(self._value(engine, *_DOCUMENTS, _CHANGED), "$")
        places = ["$.payload", "$"] if self.within is None else ["$.payload" if self.within else "$"]
        paths = [f"{place}.{row}" if row else place for place in (places if given.enveloped else ["$"])]
        return first_of([engine.names(EVENT, path, _NUMBER if given.many else None) for path in paths])

    def _roots(self, engine: DuckWords | SparkWords) -> list[str]:
        inside = engine.path(_PARSED, "payload")
        if not self.format.enveloped or self.within is False:
            return [_PARSED]
        return [inside] if self.within else [inside, _PARSED]

    def _of_row(self, engine: DuckWords | SparkWords, name: str, own: str, path: str) -> list[str]:
        """The expressions for a field of a row, of which one has the value. `own`: the column of the row, if there is one."""
        if self.format.document:
            in_id = [[ID] if self._id_shape == _JSON else [ID, name]] if self.key_is_id and name in self.key else []
            return [engine.json_of(own, names) for names in ([name], *in_id)]
        if self.format.many:
            return [engine.field(own, name)]
        roots = self._roots(engine)
        if path:
            return [engine.field(engine.path(root, path), name) for root in roots]
        return [engine.field(root, name) for root in roots] if own == _ROW else []

    @property
    def _id_shape(self) -> Shape | str:
        return _JSON if len(self.key) == 1 else dict.fromkeys(self.key, _JSON)

    def _document_key(self, engine: DuckWords | SparkWords) -> str:
        """The text of a document with the key: that of the event, or of the key of its message."""
        inner = engine.parsed(KEY, {"id": None, "payload": {"id": None}})
        of_message = f"concat('{{\"_id\":', coalesce({inner}.payload.id, {inner}.id), '}}')"
        has_key = f"coalesce({inner}.payload.id, {inner}.id) IS NOT NULL"
        return first_of(
            [self._value(engine, "documentKey"), f"CASE WHEN {has_key} THEN {of_message} END", self._value(engine, "before")]
        )

    def _shape(self) -> Shape:
        given = self.format
        row: Shape = dict.fromkeys(self.columns)
        shape: Shape = {}
        paths = [*given.operation, *(part.path for parts in given.positions for part in parts)]
        if given.document:
            paths += [*_DOCUMENTS, "before", "documentKey", _CHANGED, _REMOVED, _SHORTENED]
        for path in paths:
            inner, *names = shape, *path.split(".")
            for name in names[:-1]:
                inner = inner.setdefault(name, {})
            inner.setdefault(names[-1])
        if not given.after:
            shape |= row
        for path in (given.after, given.before):
            if path and not given.document:
                shape[path] = [row] if given.many else row
        if not given.enveloped or self.within is False:
            return shape
        return {"payload": shape} if self.within else {**shape, "payload": shape}


class DuckWords:
    """The words of DuckDB. `tries`: a text that is no JSON is null, not an error. `mark`: of numbers in documents; "": none."""

    text = "VARCHAR"

    def __init__(self, tries: bool = True, mark: str = "") -> None:
        self.tries, self.mark = tries, mark

    def with_marks(self, text: str) -> str:
        """The text of an event as it is parsed: `cdc.decoding` makes the marks. DuckDB refuses half of a surrogate pair."""
        return text

    def matches(self, text: str, pattern: str) -> str:
        return f"coalesce(regexp_matches({text}, {_text(pattern)}), false)"

    def with_group(self, text: str, pattern: str) -> str:
        """A text with the group of a pattern instead of all that matches."""
        return f"regexp_replace({text}, {_text(pattern)}, '\\1', 'g')"

    def parsed(self, text: str, shape: Shape) -> str:
        made = f"json_transform({text}, {_text(json.dumps(_structure(shape)))})"
        return f"TRY({made})" if self.tries else made

    def document(self, name: str, text: str, shape: Shape) -> list[str]:
        """The columns with the fields of a document, of which `json_of` reads one."""
        if self.mark:
            marked = f"regexp_replace({text}, {_text(NUMBERS)}, {_text(marks(self.mark))}, 'g')"
            text = f"regexp_replace({marked}, {_text(last_mark(self.mark))}, '')"
        return [f"{self.parsed(text, shape)} AS {name}"]

    def json_of(self, document: str, names: Sequence[str]) -> str:
        """The JSON of a field."""
        return ".".join([document, *map(_quoted, names)])

    def json_at(self, text: str, path: str) -> str:
        return f"TRY(CAST(json_extract({text}, '$.{path}') AS VARCHAR))"

    def names(self, text: str, path: str, number: str | None = None) -> str:
        """The names of the fields of an object. `number`: it is this element of a list."""
        where = f"'{path}'" if number is None else f"concat('{path}[', {number} - 1, ']')"
        return f"TRY(array_to_string(json_keys({text}, {where}), {_text(BETWEEN)}))"

    def path(self, root: str, path: str) -> str:
        return ".".join([root, *map(_quoted, path.split("."))])

    def field(self, root: str, name: str) -> str:
        return f"{root}.{_quoted(name)}"

    def count(self, rows: str) -> str:
        return f"coalesce(len({rows}), 0)"

    def numbers(self, rows: str, unpaired: str) -> str:
        """The numbers of the elements of a list, one row each; one row if there are none, or if the event is rejected."""
        return f"unnest(CASE WHEN {unpaired} IS NULL AND len({rows}) > 0 THEN range(1, len({rows}) + 1) ELSE [1] END)"

    def element(self, rows: str, number: str) -> str:
        return f"{rows}[{number}]"


class SparkWords:
    """The words of Spark. `marks_all`: all numbers get marks; otherwise those of events where Spark may print one anew."""

    text = "STRING"

    def __init__(self, marks_all: bool = False) -> None:
        self.marks_all = marks_all

    def with_marks(self, text: str) -> str:
        """The text of an event or document with the marks of `cdc.event_digits`; null if it has half of a surrogate pair."""
        marked = f"regexp_replace({text}, {_escaped(_MARKS_IN_JAVA)}, '$1\"{MARK}$2\"')"
        marked = f"regexp_replace({marked}, '\"{MARK}\"$', '')"
        marks = "true" if self.marks_all else self.matches(text, PRINTED_ANEW_IN_JAVA)
        chosen = f"WHEN {marks} AND NOT contains({text}, '{MARK}') THEN {marked} ELSE {text}"
        half = f"contains({text}, {_escaped(_ESCAPE)}) AND {self.matches(text, HALF_OF_A_PAIR)}"  # few texts have an escape
        return f"CASE WHEN {half} THEN NULL {chosen} END"

    def matches(self, text: str, pattern: str) -> str:
        return f"coalesce({text} RLIKE {_escaped(pattern)}, false)"

    def with_group(self, text: str, pattern: str) -> str:
        """As in DuckDB."""
        return f"regexp_replace({text}, {_escaped(pattern)}, '$1')"

    def parsed(self, text: str, shape: Shape) -> str:
        return f"from_json({text}, {_escaped(', '.join(_ddl(shape)))})"

    def document(self, name: str, text: str, shape: Shape) -> list[str]:
        """As in DuckDB. Texts of Spark are those of strings or JSON of other values; a variant knows which."""
        text = self.with_marks(text)
        return [f"{self.parsed(text, one)} AS {column}" for column, one in ((name, shape), (f"{name}{_KINDS}", _variants(shape)))]

    def json_of(self, document: str, names: Sequence[str]) -> str:
        text, kind = (".".join([column, *map(_backticked, names)]) for column in (document, f"{document}{_KINDS}"))
        in_list = f"to_json(array({text}))"
        return f"IF(schema_of_variant({kind}) = 'STRING', substring({in_list}, 2, length({in_list}) - 2), {text})"

    def json_at(self, text: str, path: str) -> str:
        return f"get_json_object({text}, '$.{path}')"

    def names(self, text: str, path: str, number: str | None = None) -> str:
        """As in DuckDB."""
        where = f"'{path}'" if number is None else f"concat('{path}[', {number}, ']')"
        inside = text if path == "$" and number is None else f"get_json_object({text}, {where})"
        return f"array_join(json_object_keys({inside}), '\\u001F')"

    def path(self, root: str, path: str) -> str:
        return ".".join([root, *map(_backticked, path.split("."))])

    def field(self, root: str, name: str) -> str:
        return f"{root}.{_backticked(name)}"

    def count(self, rows: str) -> str:
        return f"if({rows} IS NULL, 0, size({rows}))"

    def numbers(self, rows: str, unpaired: str) -> str:
        """As in DuckDB."""
        return f"explode(if({unpaired} IS NULL AND size({rows}) > 0, sequence(0, size({rows}) - 1), array(0)))"

    def element(self, rows: str, number: str) -> str:
        return f"get({rows}, {number})"


def first_of(expressions: Sequence[str]) -> str:
    if not expressions:
        return "CAST(NULL AS STRING)"
    return expressions[0] if len(expressions) == 1 else f"coalesce({', '.join(expressions)})"


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escaped(text: str) -> str:
    """A text of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _backticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _structure(shape: object) -> object:
    """A shape as `json_transform` takes it."""
    if isinstance(shape, Mapping):
        return {name: _structure(inner) for name, inner in shape.items()}
    if isinstance(shape, str):
        return shape
    return "VARCHAR" if shape is None else [_structure(inner) for inner in shape]


def _ddl(shape: Shape) -> Iterator[str]:
    """A shape as columns of Spark's DDL."""
    for name, inner in shape.items():
        yield f"{_backticked(name)} {_ddl_type(inner)}"


def _ddl_type(shape: object) -> str:
    if isinstance(shape, Mapping):
        return f"STRUCT<{', '.join(_ddl(shape))}>"
    if isinstance(shape, str):
        return "STRING" if shape == _JSON else shape
    return "STRING" if shape is None else f"ARRAY<{_ddl_type(shape[0])}>"


def _variants(shape: Shape) -> Shape:
    """A shape with a variant for each value."""
    return {name: _variants(inner) if isinstance(inner, Mapping) else "VARIANT" for name, inner in shape.items()}
