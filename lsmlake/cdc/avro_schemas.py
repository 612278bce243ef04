"""Schemas of Avro for events out, made from those of Kafka Connect as its Avro converter makes them. Pure.

The annotations `connect.name`, `connect.version` and `connect.parameters` keep what Avro has no type for: a reader of Debezium's
events knows a date or a time by them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lsmlake.cdc.event_values import CONNECT

_NARROW = "int8", "int16"
_NAMES = {"int8": "int", "int16": "int", "int32": "int", "int64": "long"}
"""A type of Kafka Connect -> that of Avro; others have the same name."""
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_OTHER = re.compile("[^A-Za-z0-9_]")


def of_connect(described: Mapping[str, object]) -> dict[str, object]:
    """The schema of a record. `described`: the schema of Kafka Connect, with the names of its records."""
    return _record(described, _adjusted(str(described["name"])), set())


def type_of_field(described: Mapping[str, object]) -> object:
    """The type of a field of Kafka Connect."""
    return _type(described, "", set())


def _type(described: Mapping[str, object], place: str, known: set[str]) -> object:
    """A type. `place`: the name of a record that has none; `known`: the records that the schema has defined before."""
    made = _required(described, place, known)
    return ["null", made] if described.get("optional") else made


def _required(described: Mapping[str, object], place: str, known: set[str]) -> object:
    kind = str(described["type"])
    if kind == "struct":
        name = _adjusted(str(described.get("name") or place))
        return name if name in known else _record(described, name, known)
    if kind == "array":
        return {"type": "array", "items": _type(described["items"], place, known)}
    notes: dict[str, object] = {"connect.type": kind} if kind in _NARROW else {}
    notes |= {f"connect.{word}": described[word] for word in ("version", "parameters", "name") if word in described}
    if described.get("name") == f"{CONNECT}Decimal":
        said = described["parameters"]
        digits = {"precision": int(said["connect.decimal.precision"]), "scale": int(said["scale"])}
        notes |= {**digits, "logicalType": "decimal"}
    name = _NAMES.get(kind, kind)
    return {"type": name, **notes} if notes else name


def _record(described: Mapping[str, object], name: str, known: set[str]) -> dict[str, object]:
    known.add(name)
    space, _, last = name.rpartition(".")
    fields = []
    for one in described["fields"]:
        field = {"name": one["field"], "type": _type(one, f"{name}.{one['field']}", known)}
        fields.append({**field, "default": None} if one.get("optional") else field)
    made = {"type": "record", "name": last, "namespace": space, "fields": fields}
    return {**made, "connect.name": described["name"]} if "name" in described else made


def _adjusted(name: str) -> str:
    """A name of a record with _ for what the names of Avro cannot have, as Debezium adjusts it."""
    parts = (_OTHER.sub("_", part) for part in name.split("."))
    return ".".join(part if _NAME.fullmatch(part) else f"_{part}" for part in parts)
