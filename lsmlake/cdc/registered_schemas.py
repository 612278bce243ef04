"""Registers the schemas of events out in Avro before the first event is given out. Messages begin with the numbers of schemas."""

from __future__ import annotations

import json
from dataclasses import replace

from lsmlake.cdc import avro_schemas
from lsmlake.cdc.envelopes import EventOrigin
from lsmlake.errors import InvalidQuery
from lsmlake.storage import schema_registry


def registered(origin: EventOrigin, where: str) -> EventOrigin:
    """The origin of messages in Avro, whose schemas their registry has from now on."""
    registry = origin.format.registry
    if not isinstance(registry, str):
        raise InvalidQuery(
            "the schemas of events out are registered, and the registry is a list of schemas",
            where=where,
            expected="the address of a registry",
            found=f"the schemas {sorted(registry)}",
            cure="pass its address as the registry, such as http://registry:8081",
        )
    schemas = {"key": origin.key_schema, "value": origin.schema} if origin.key else {"value": origin.schema}
    heads = {name: b"" for name in ("key", "value")}
    for name, described in schemas.items():
        schema = json.dumps(avro_schemas.of_connect(described), separators=(",", ":"))
        number = schema_registry.registered(registry, f"{origin.topic}-{name}", schema)
        heads[name] = b"\x00" + number.to_bytes(schema_registry.number_bytes(registry), "big")
    return replace(origin, heads=(heads["key"], heads["value"]))
