"""The destination `lsmlake` as dlt registers it, and what it can do."""

from __future__ import annotations

from typing import Any

from dlt.common.destination import Destination, DestinationCapabilitiesContext
from dlt.common.destination.reference import DestinationReference

from lsmlake.dlt.dlt_configuration import LsmlakeConfiguration
from lsmlake.dlt.dlt_types import PRECISION_MAX, TableTypes
from lsmlake.errors import InvalidOption
from lsmlake.types.type_text import backticked


class lsmlake(Destination[LsmlakeConfiguration, Any]):
    """The destination `lsmlake`. `lsmlake.dlt.destination` makes one."""

    spec = LsmlakeConfiguration

    def __init__(
        self,
        warehouse: str | None = None,
        *,
        storage_options: dict[str, Any] | None = None,
        destination_name: str | None = None,
        environment: str | None = None,
        **more: Any,
    ) -> None:
        """Arguments as those of `lsmlake.dlt.destination`, and values of dlt's configuration or capabilities.

        Raises:
            InvalidOption: an argument is none of these.
        """
        known = {*self.spec.get_resolvable_fields(), *DestinationCapabilitiesContext.get_resolvable_fields()} - {"credentials"}
        if unknown := sorted(more.keys() - known):
            raise InvalidOption(
                "arguments that the destination lsmlake does not have",
                expected="warehouse, storage_options, destination_name, environment, or a capability of destinations of dlt",
                found=unknown,
                cure="correct the names, or leave the arguments out",
            )
        named = {"destination_name": destination_name, "environment": environment}
        place = None if warehouse is None else str(warehouse)
        super().__init__(warehouse=place, storage_options=storage_options, **named, **more)

    @property
    def client_class(self) -> type:
        """The class that loads."""
        from lsmlake.dlt.load_client import LoadClient  # loads all of dlt

        return LoadClient

    def _raw_capabilities(self) -> DestinationCapabilitiesContext:
        able = DestinationCapabilitiesContext.generic_capabilities(
            preferred_loader_file_format="parquet", supported_merge_strategies=["delete-insert", "upsert", "insert-only", "scd2"]
        )
        able.supported_loader_file_formats = ["parquet", "reference"]
        able.supported_replace_strategies = ["insert-from-staging"]
        able.type_mapper = TableTypes
        able.escape_identifier = backticked
        able.has_case_sensitive_identifiers = False
        able.decimal_precision = (PRECISION_MAX, 9)
        able.wei_precision = (PRECISION_MAX, 0)
        able.timestamp_precision = able.max_timestamp_precision = 6
        able.max_identifier_length = able.max_column_identifier_length = 255
        able.supports_transactions = able.supports_ddl_transactions = False
        able.supports_multiple_statements = False
        able.enforces_nulls_on_alter = False
        able.sqlglot_dialect = "spark"
        return able


DestinationReference.register(lsmlake, "lsmlake")
DestinationReference.register(lsmlake, "lsmlake.dlt.lsmlake")
lsmlake.register()
