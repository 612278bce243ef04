"""The section `[destination.lsmlake]` of dlt's configuration."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar, Final

from dlt.common.configuration import configspec
from dlt.common.configuration.specs import CredentialsConfiguration
from dlt.common.destination.client import DestinationClientDwhConfiguration
from dlt.common.utils import digest128

from lsmlake.errors import InvalidOption


@configspec
class NoCredentials(CredentialsConfiguration):
    """The credentials of the destination: there are none."""

    def parse_native_representation(self, native_value: Any) -> None:
        """Raises InvalidOption for credentials that are given."""
        raise _refused("credentials", "storage_options give access to an object store")


@configspec
class LsmlakeConfiguration(DestinationClientDwhConfiguration):
    """`[destination.lsmlake]` of dlt's configuration."""

    destination_type: Final[str] = dataclasses.field(default="lsmlake", init=False, repr=False, compare=False)
    warehouse: str = None
    """The location of the warehouse, as for `lsmlake.connect`."""
    storage_options: dict[str, Any] | None = None
    """The settings of an object store, as for `lsmlake.connect`."""

    credentials: NoCredentials | None = None
    """None can be given."""

    __config_gen_annotations__: ClassVar[list[str]] = ["warehouse"]

    def on_resolved(self) -> None:
        """Raises InvalidOption for a layout of the staging dataset, as there is none."""
        if self.staging_dataset_name_layout != DestinationClientDwhConfiguration.staging_dataset_name_layout:
            raise _refused("staging_dataset_name_layout", "there is no staging dataset")

    def data_location(self) -> str:
        """The address of the warehouse."""
        return self.warehouse if "://" in self.warehouse else str(Path(self.warehouse).absolute())

    def fingerprint(self) -> str:
        """A digest of the address of the warehouse."""
        return digest128(self.data_location()) if self.warehouse else ""

    def __str__(self) -> str:
        return str(self.warehouse)


def _refused(name: str, why: str) -> InvalidOption:
    what = "the destination lsmlake does not obey this value"
    return InvalidOption(what, where=f"destination.lsmlake.{name}", cure=f"leave it out: {why}")
