"""The target of a dbt profile: which lake holds the models, and how it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from dbt.adapters.contracts.connection import Credentials
from dbt_common.dataclass_schema import ValidationError

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.extras import need

_OF_DBT = {"type", "threads"}
"""Words of a target that dbt reads itself; it takes them out before the adapter sees the others."""


@dataclass
class LsmlakeCredentials(Credentials):
    """A target of `profiles.yml`.

    Attributes:
        schema: the database of the lake in which models are built, unless they name another one.
        warehouse: as in `lsmlake.connect`.
        time_zone: as in `lsmlake.connect`.
        storage_options: as in `lsmlake.connect`.
        cache: as in `lsmlake.connect`.
    """

    database: str | None = None  # type: ignore[assignment]  # a lake has schemas, and no databases that hold schemas
    schema: str = ""
    warehouse: str = ""
    time_zone: str | None = None
    storage_options: dict[str, Any] = field(default_factory=dict)
    cache: str | None = None

    @classmethod
    def validate(cls, data: Mapping[str, object]) -> None:
        """Refuses a target with an unknown word, or without a warehouse or a schema."""
        known = {one.name for one in fields(cls)} - {"database"}
        if unknown := sorted(set(data) - known - _OF_DBT - ({"database"} if data.get("database") is None else set())):
            cure = "write schema for the database of the lake" if "database" in unknown else "correct or remove it"
            expected = ", ".join(sorted(known | _OF_DBT))
            raise ValidationError(f"unknown field of a target of lsmlake: {', '.join(unknown)}; expected {expected}; {cure}")
        for name in ("warehouse", "schema"):
            if not data.get(name):
                raise ValidationError(f"a target of lsmlake needs the field {name}")
        super().validate(data)

    @property
    def type(self) -> str:
        return "lsmlake"

    @property
    def unique_field(self) -> str:
        return self.warehouse

    def _connection_keys(self) -> tuple[str, ...]:
        return "warehouse", "schema", "time_zone", "cache"

    def connect(self) -> Lake:
        """Opens the lake. Raises LakeError."""
        need("duckdb", "dbt", extra="dbt")
        options = self.storage_options or None
        return lsmlake.connect(self.warehouse, storage_options=options, time_zone=self.time_zone, cache=self.cache)
