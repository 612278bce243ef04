"""The verbs that look after tables and import them, which SQL's CALL and the command line have, too.

`CALL` takes the name and the arguments of the method. A command takes an argument as an option of its name; tests compare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table


class Verb(NamedTuple):
    """A verb. `owner`: the class that has it as a method. `command`: of the command line, with the flag that chooses the verb."""

    owner: type[Table] | type[Lake]
    command: str


VERBS: Mapping[str, Verb] = {
    "analyze": Verb(Table, "analyze"),
    "compact": Verb(Table, "compact"),
    "copy": Verb(Table, "copy"),
    "create_branch": Verb(Table, "branch --create"),
    "create_tag": Verb(Table, "tag --create"),
    "delete_branch": Verb(Table, "branch --delete"),
    "delete_tag": Verb(Table, "tag --delete"),
    "expire_partitions": Verb(Table, "expire --partitions"),
    "expire_snapshots": Verb(Table, "expire"),
    "expire_tags": Verb(Table, "tag --expire"),
    "fast_forward": Verb(Table, "branch --fast-forward"),
    "publish_iceberg": Verb(Table, "iceberg"),
    "remove_orphan_files": Verb(Table, "orphans"),
    "rename_branch": Verb(Table, "branch --rename"),
    "rename_tag": Verb(Table, "tag --rename"),
    "repair": Verb(Table, "repair"),
    "repair_iceberg": Verb(Table, "repair --iceberg"),
    "repair_snapshots": Verb(Table, "repair --snapshots"),
    "rescale": Verb(Table, "rescale"),
    "reset_consumer": Verb(Table, "consumers --remove"),
    "rollback": Verb(Table, "rollback"),
    "verify": Verb(Table, "verify"),
    "import_delta": Verb(Lake, "adopt"),
    "import_iceberg": Verb(Lake, "adopt"),
    "import_parquet": Verb(Lake, "adopt"),
}
