"""The formats of change events as data: where an event has its operation, its rows and its position in the source.

A path such as `source.lsn` leads into the JSON object of an event. All values are read as text; `cdc.event_values` says what the
text of a value means. `cdc.event_queries` turns a format into expressions, for DuckDB and for Spark alike, and `cdc.event_rows`
interprets their result, so a new format is a row of `FORMATS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import partial
from typing import NamedTuple

from lsmlake.errors import InvalidQuery, Wording, with_arguments
from lsmlake.storage.schema_registry import Registry

INSERT, UPDATE, DELETE, TRUNCATE, SKIP = "insert", "update", "delete", "truncate", "skip"
"""The meanings of operations."""


ID = "_id"
"""The key of documents of MongoDB."""
_HERE = with_arguments("{}", "ChangeFormat", command="--format")


class Counting(Enum):
    """How a part of a position counts."""

    NUMBER = "a number"
    FILE = "the name of a file that ends in its number, such as mysql-bin.000003"
    FILE_AND_NUMBER = "both, such as mysql-bin.000003:154"
    TEXT = "a text of a fixed length, or the last part"


class PositionPart(NamedTuple):
    """A part of a position. `last`: an event without it comes after those with it."""

    path: str
    counting: Counting = Counting.NUMBER
    last: bool = False


class Absent(Enum):
    """What it means if the row of an update lacks a field that other events have."""

    NULL = "the value is null"
    KEPT = "the value has not changed"


@dataclass(frozen=True)
class EventFormat:
    """A format of change events.

    Attributes:
        operation: the paths to the operation, of which an event has one; empty: every event is a row to insert or replace.
        operations: code -> meaning.
        after, before: the paths to the rows after and before the change. A delete may have its row in either.
        positions: alternatives; the first whose first part an event has orders this event among the others.
        control: a pattern; an event without an operation whose text it matches is no change, such as a heartbeat, if it names no
            operation and no row (`CHANGES`).
        enveloped: the event may stand in the field `payload`, beside the field `schema` that describes its values.
        many: `after` and `before` are lists: an event changes several rows.
        absent: see `Absent`.
        bytes_as: how values of BINARY columns are written, see `cdc.event_values`; None: the format does not say it.
        typed: values of other types may have the encodings of Debezium, see `cdc.event_values`.
        omits_nulls: rows lack the fields that are null.
        columns: the data has a column for each field of a row, beside the column of the operation, if it has that column.
        whole_before: updates have all values of the old row.
        document: rows are documents of MongoDB, in extended JSON.
        avro: events are Avro messages (`cdc.avro_events`), not JSON.
        strings: of events out: numbers and booleans are strings, too.
        names: of events out: a pattern of the names that fields may have; "": any.
        blank: of events out: a blank stands between the date and the time of a timestamp.
        table: for each part of the name of the table, such as database and table, the paths that may have it. An event has at
            least the last part.
        key: the path to the names of the key columns; "": the fields of the key of the message.
        types: the path to the types of the columns; "": events may have them in the field `schema`, or do not have them.
        defines: events that are no changes may say columns and key of their table.
    """

    operation: tuple[str, ...]
    operations: Mapping[str, str]
    after: str
    before: str = ""
    positions: tuple[tuple[PositionPart, ...], ...] = ()
    control: str = ""
    enveloped: bool = False
    many: bool = False
    absent: Absent = Absent.NULL
    bytes_as: str | None = "base64"
    typed: bool = False
    omits_nulls: bool = False
    columns: str = ""
    whole_before: bool = False
    document: bool = False
    avro: bool = False
    strings: bool = False
    blank: bool = False
    names: str = ""
    table: tuple[tuple[str, ...], ...] = ()
    key: str = ""
    types: str = ""
    defines: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of `ChangeFormat` that say something of these events: others describe their values themselves."""
        marked = ("unavailable",) if self.typed else ()
        if self.avro:
            return (*marked, "tombstones", "topic")
        if self.document:
            return ("tombstones",)
        marked = (*marked, "schema", "tombstones") if self.typed else marked
        return (*marked, *(("decimals",) if self.typed else ()), "times", "timestamps", "binary")

    def codes(self, meaning: str) -> list[str]:
        """The codes of operations with a meaning."""
        return [code for code, its in self.operations.items() if its == meaning]


_FILE, _BOTH, _TEXT = Counting.FILE, Counting.FILE_AND_NUMBER, Counting.TEXT
_CONTROL = (
    r'(^|"payload"\s*:)\s*\{(\s*"ts_(ms|us|ns)"\s*:\s*[0-9]+\s*,?)+\s*\}\s*\}?\s*$'
    r'|"status"\s*:\s*"(BEGIN|END)".*"data_collections"\s*:|"databaseName"\s*:.*"(ddl|tableChanges)"\s*:'
)
"""Events of Debezium that are no changes: heartbeats, the borders of transactions, changes of schemas."""
CHANGES = r'"(op|operationType|before|after|fullDocument|documentKey)"\s*:'
"""A pattern of texts that name an operation or a row: they are changes, even if they cannot be read."""
_DEBEZIUM = EventFormat(
    operation=("op",),
    operations={"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE, "t": TRUNCATE, "m": SKIP},
    after="after",
    before="before",
    positions=(
        (PositionPart("source.lsn"),),
        (PositionPart("source.file", _FILE), PositionPart("source.pos"), PositionPart("source.row")),
        (PositionPart("source.change_lsn", _TEXT), PositionPart("source.event_serial_no")),
        (PositionPart("source.scn"), PositionPart("source.rs_id", _TEXT), PositionPart("source.ssn")),
    ),
    control=_CONTROL,
    enveloped=True,
    typed=True,
    whole_before=True,
    table=(("source.db",), ("source.schema",), ("source.table",)),
)
_TOPIC = re.compile("[A-Za-z0-9._-]{1,249}")
_MYSQL_TABLE = ("database",), ("table",)

FORMATS: Mapping[str, EventFormat] = {
    "debezium-json": _DEBEZIUM,
    "debezium-avro": replace(_DEBEZIUM, enveloped=False, avro=True, names="[A-Za-z_][A-Za-z0-9_]*"),
    "canal-json": EventFormat(
        operation=("type",),
        operations={"INSERT": INSERT, "UPDATE": UPDATE, "DELETE": DELETE, "TRUNCATE": TRUNCATE}
        | dict.fromkeys(("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX", "QUERY", "INIT_DDL"), SKIP),
        after="data",
        before="old",
        positions=((PositionPart("es"), PositionPart("id")),),
        many=True,
        bytes_as="latin-1",
        strings=True,
        blank=True,
        table=_MYSQL_TABLE,
        key="pkNames",
        types="mysqlType",
    ),
    "maxwell-json": EventFormat(
        operation=("type",),
        operations={"insert": INSERT, "bootstrap-insert": INSERT, "update": UPDATE, "delete": DELETE}
        | dict.fromkeys(("bootstrap-start", "bootstrap-complete", "table-create", "table-alter", "table-drop"), SKIP)
        | dict.fromkeys(("database-create", "database-alter", "database-drop"), SKIP),
        after="data",
        before="old",
        positions=(
            (PositionPart("position", _BOTH),),
            (PositionPart("ts"), PositionPart("xid"), PositionPart("xoffset", last=True)),
        ),
        blank=True,
        table=_MYSQL_TABLE,
        key="primary_key_columns",
    ),
    "ogg-json": EventFormat(
        operation=("op_type",),
        operations={"I": INSERT, "U": UPDATE, "K": UPDATE, "D": DELETE, "T": TRUNCATE},
        after="after",
        before="before",
        positions=((PositionPart("pos", _TEXT),), (PositionPart("op_ts", _TEXT),)),
        absent=Absent.KEPT,
        whole_before=True,
        blank=True,
        table=(("table",),),
        key="primary_keys",
    ),
    "aws-dms": EventFormat(
        operation=("metadata.operation",),
        operations={"load": INSERT, "insert": INSERT, "update": UPDATE, "delete": DELETE, "truncate-table": TRUNCATE}
        | {"I": INSERT, "U": UPDATE, "D": DELETE}
        | dict.fromkeys(("create-table", "drop-table", "rename-table", "add-column", "drop-column", "rename-column"), SKIP)
        | dict.fromkeys(("change-columns", "column-type-change"), SKIP),
        after="data",
        before="before-image",
        positions=(
            (
                PositionPart("metadata.commit-timestamp", _TEXT),
                PositionPart("metadata.transaction-id"),
                PositionPart("metadata.transaction-record-id"),
            ),
            (PositionPart("metadata.timestamp", _TEXT),),
        ),
        bytes_as=None,
        omits_nulls=True,
        columns="Op",
        table=(("metadata.schema-name",), ("metadata.table-name",)),
        key="control.table-def.primaryKey",
        types="control.table-def.columns",
        defines=True,
    ),
    "mongodb": EventFormat(
        operation=("op", "operationType"),
        operations={"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE}
        | {"insert": INSERT, "replace": INSERT, "update": UPDATE, "delete": DELETE}
        | dict.fromkeys(
            ("drop", "rename", "dropDatabase", "invalidate", "create", "createIndexes", "dropIndexes", "modify"), SKIP
        ),
        after="after",
        before="before",
        positions=((PositionPart("_id._data", _TEXT),), (PositionPart("source.ts_ms"), PositionPart("source.ord"))),
        control=_CONTROL,
        enveloped=True,
        absent=Absent.KEPT,
        omits_nulls=True,
        document=True,
        names=r"[^.$\x00][^.\x00]*",
        table=(("ns.db", "source.db"), ("ns.coll", "source.collection")),
    ),
    "plain": EventFormat(operation=(), operations={}, after="", columns="*"),
}
"""Name -> format."""

_UNITS = "millis", "micros", "nanos"
_NAMED = 'a name such as debezium-json, or {"name": "debezium-json", "schema": true}'
_CHOICES = {"decimals": ("bytes", "text"), "times": _UNITS, "timestamps": _UNITS, "binary": ("base64", "hex", "latin-1", "text")}


@dataclass(frozen=True)
class ChangeFormat:
    """A format of change events, and how its source writes values whose events do not describe them.

    Without a schema in each event, nothing tells the unit of a number that is a time, or if a text is a decimal or its bytes.
    Values that could mean two things are refused until these arguments say which. Of events out (`Table.follow` and others with
    `format`), they say how values are written: an equal `ChangeFormat` reads what was written.

    Attributes:
        name: debezium-json, debezium-avro, canal-json, maxwell-json, ogg-json, aws-dms, mongodb or plain.
        decimals: the texts of DECIMAL columns: "bytes", base64 of the unscaled integer with the scale of the column, or "text".
        times: the unit of numbers in TIME columns: "millis", "micros" or "nanos".
        timestamps: the unit of numbers in TIMESTAMP columns, as for `times`.
        binary: the texts of BINARY columns: "base64", "hex", "latin-1" or "text".
        unavailable: the text of Debezium for a value that the source did not send because it has not changed.
        registry: of debezium-avro: the address of the registry of schemas, such as "http://registry:8081" (Confluent) or
            "http://registry:8080/apis/registry/v2" (Apicurio), also with user and password; or the schemas by their numbers.
        schema: of debezium-json, for events out: each event and each key describes its values in the field `schema`. Events that
            are read may have it or not.
        tombstones: of Debezium and mongodb, for events out: after a delete comes a message with its key and no value, so that a
            compacted topic forgets the key. Messages without a value are skipped when events are read.
        topic: of debezium-avro, for events out: the topic that gets the messages. Their schemas are registered as `<topic>-key`
            and `<topic>-value`. None: `<database>.<table>`, the topic that Debezium has for the table, with `_` for characters
            that no topic has.
    """

    name: str
    decimals: str | None = None
    times: str | None = None
    timestamps: str | None = None
    binary: str | None = None
    unavailable: str = "__debezium_unavailable_value"
    registry: Registry | None = field(default=None, repr=False)
    schema: bool = False
    tombstones: bool = True
    topic: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in FORMATS:
            raise InvalidQuery("unknown format of events", expected=list(FORMATS), found=repr(self.name), cure="correct the name")
        for name, choices in _CHOICES.items():
            given = getattr(self, name)
            if given is not None and given not in choices:
                expected, cure = list(choices), "correct it"
                raise InvalidQuery(f"unknown {name}", where=_HERE, expected=expected, found=repr(given), cure=cure)
        if self.events.avro != (self.registry is not None):
            found = f"{self.name} {'without' if self.registry is None else 'with'} a registry"
            written = """write both or neither: --format '{"name": "debezium-avro", "registry": "http://registry:8081"}'"""
            cure = Wording("pass both or neither", command=written)
            raise InvalidQuery("debezium-avro needs registry, and no other format does", where=_HERE, found=found, cure=cure)
        if not (self.registry is None or isinstance(self.registry, (str, Mapping))):
            expected, cure = "an address, or the schemas by their numbers", "correct it"
            raise InvalidQuery("not a registry", expected=expected, found=type(self.registry).__name__, cure=cure)
        known = "name", "registry", *self.events.arguments
        if unheard := [one.name for one in fields(self) if one.name not in known and getattr(self, one.name) != one.default]:
            raise InvalidQuery(
                f"{self.name} has no use for {', '.join(unheard)}: its events tell these themselves, or do not have them",
                where=_HERE,
                expected=f"only {list(self.events.arguments)}",
                found=unheard,
                cure=f"leave out {', '.join(unheard)}",
            )
        for name in ("schema", "tombstones"):
            if not isinstance(given := getattr(self, name), bool):
                expected, cure = "True or False", "correct it"
                raise InvalidQuery(f"{name} is a flag", where=_HERE, expected=expected, found=repr(given), cure=cure)
        if not isinstance(self.unavailable, str):
            found = repr(self.unavailable)
            raise InvalidQuery("unavailable is no text", where=_HERE, expected="text", found=found, cure="pass a text")
        if not (self.topic is None or (isinstance(self.topic, str) and _TOPIC.fullmatch(self.topic))):
            raise InvalidQuery(
                "no topic of Kafka can have this name",
                where=_HERE,
                expected="up to 249 of the characters a-z A-Z 0-9 . _ -",
                found=repr(self.topic),
                cure="pass the name of the topic, or leave topic out",
            )

    @staticmethod
    def of(given: str | ChangeFormat) -> ChangeFormat:
        """The argument `format` of a verb as a value. Raises InvalidQuery."""
        return given if isinstance(given, ChangeFormat) else ChangeFormat(given)

    @staticmethod
    def of_text(text: str, registry: str | None = None) -> ChangeFormat:
        """The format that a text names: "debezium-json", or a JSON object of the arguments. `registry`: this argument, if it is
        given beside the text. Raises InvalidQuery."""
        refused = partial(InvalidQuery, "no format of events", expected=_NAMED, cure="correct it")
        try:
            words = json.loads(text, object_pairs_hook=_once) if text.lstrip().startswith("{") else {"name": text}
            if registry is not None:
                words = _once([*words.items(), ("registry", registry)])
        except ValueError as error:
            raise refused(found=f"{text}: {error}") from error
        known = [one.name for one in fields(ChangeFormat)]
        if "name" not in words or (unknown := [name for name in words if name not in known]):
            raise refused(found=f"{text}, without a name" if "name" not in words else f"unknown {unknown}, not one of {known}")
        if isinstance(numbers := words.get("registry"), dict):
            if not all(number.isdecimal() for number in numbers):
                raise refused(found=f"registry {list(numbers)}, which are no numbers of schemas")
            words["registry"] = {int(number): schema for number, schema in numbers.items()}
        return ChangeFormat(**words)

    @property
    def words(self) -> dict[str, object]:
        """The arguments that make an equal value."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def described(self) -> bool:
        """Whether events out describe the types of their values."""
        return self.schema or self.events.avro

    @property
    def events(self) -> EventFormat:
        """The definition of the format."""
        return FORMATS[self.name]


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON. Raises ValueError if it has a name twice."""
    if len(found := dict(pairs)) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"given twice: {sorted({name for name in names if names.count(name) > 1})}")
    return found
