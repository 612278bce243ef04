"""The section `[destination.lsmlake]` of dlt's configuration."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar, Final

from dlt.common.configuration import configspec
from dlt.common.destination.client import DestinationClientDwhConfiguration
from dlt.common.utils import digest128


@configspec
class LsmlakeConfiguration(DestinationClientDwhConfiguration):
    """`[destination.lsmlake]` of dlt's configuration."""

    destination_type: Final[str] = dataclasses.field(default="lsmlake", init=False, repr=False, compare=False)
    warehouse: str = None
    """The location of the warehouse, as for `lsmlake.connect`."""
    storage_options: dict[str, Any] | None = None
    """The settings of an object store, as for `lsmlake.connect`."""

    __config_gen_annotations__: ClassVar[list[str]] = ["warehouse"]

    def data_location(self) -> str:
        """The address of the warehouse."""
        return self.warehouse if "://" in self.warehouse else str(Path(self.warehouse).absolute())

    def fingerprint(self) -> str:
        """A digest of the address of the warehouse."""
        return digest128(self.data_location()) if self.warehouse else ""

    def __str__(self) -> str:
        return str(self.warehouse)
