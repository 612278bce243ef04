"""Adapts PyIceberg 0.12 to each kind of catalog, and gives the cure if a catalog refuses.

- SQL, Glue and Hive: PyIceberg writes the metadata file of a commit, but cannot write version 3.
- Hive: PyIceberg waits 2, 4 and 8 seconds for a lock that commits hold for a tenth of a second. A metastore compares the columns
  of a commit with the columns before by position, and refuses the commit if their types do not fit. Hive 4 has another call for
  `get_table`.
- Glue: the comment of a column is one short line; the metadata of the table has the whole comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from lsmlake.extras import need
from lsmlake.iceberg.table_metadata import Metadata

DROP = "drop the table in the catalog, but not its files, and publish again"
_LOCK_SECONDS = 0.25
_LOCK_PROPERTIES = {"lock-check-min-wait-time", "lock-check-max-wait-time", "lock-check-retries"}
_GLUE_COMMENT_CHARS = 255
_COLUMNS = re.compile("types incompatible with the existing columns|expected at the position")
_LOCKED = "acquire lock"
_REMOVED = "Invalid method name"
_CURES = {
    "/[0-9]+-[^/]+[.]metadata[.]json": "if the file went with the folder `metadata`, or as the table was moved, "
    f"{DROP}; else correct the properties of the catalog",
    _LOCKED: "try again; the lock of a program that was killed expires after some minutes",
    "hierarchical namespaces are not supported": "give a name of two parts, such as sales.orders",
    "not a valid (database|object) name": "give another name: Hive takes letters without accents, digits and underscores",
    "INTO COLUMNS_V2": "shorten the comments of columns: most databases of metastores take 256 characters",
    "No FileSystem for scheme": "let the metastore reach the store: it needs a connector of Hadoop, and fs.<scheme>.impl",
}
"""Maps a pattern of an error of a catalog to the cure."""


def adapt(catalog: Any, seconds: float) -> None:
    """Changes how PyIceberg works with a catalog, by its kind. `seconds`: how long the catalog may take."""
    if hasattr(catalog, "glue"):
        catalog.glue.meta.events.register("provide-client-params.glue", _shorten_comments)
    if type(catalog).__name__ == "HiveCatalog":
        catalog._client._client = _with_get_table(catalog._client._client)
        if not _LOCK_PROPERTIES & catalog.properties.keys():
            catalog._lock_check_max_wait_time = _LOCK_SECONDS
            catalog._lock_check_retries = max(1, seconds * 0.8 // _LOCK_SECONDS)


def writer(content: Metadata, written: list[str]) -> Callable[..., None]:
    """Returns a function that writes the metadata file of a commit and appends its address to `written`."""

    def write(metadata: Any, io: Any, metadata_path: str) -> None:
        written.append(metadata_path)
        log = [one.model_dump(by_alias=True) for one in metadata.metadata_log]
        made = {**content, "properties": metadata.properties, "metadata-log": log}
        with io.new_output(metadata_path).create() as sink:
            sink.write(json.dumps(made).encode())

    return write


def _shorten_comments(params: dict[str, Any], **of_call: object) -> None:
    for column in params.get("TableInput", {}).get("StorageDescriptor", {}).get("Columns", ()):
        if "Comment" in column:
            column["Comment"] = " ".join(column["Comment"].split())[:_GLUE_COMMENT_CHARS]


def _with_get_table(connect: Callable[[], Any]) -> Callable[[], Any]:
    """Wraps `connect` so that `get_table` of the metastore works in Hive 4, too."""

    def connected() -> Any:
        client = connect()
        client.get_table = lambda dbname, tbl_name: _get_table(client, dbname, tbl_name)
        return client

    return connected


def _get_table(client: Any, namespace: str, name: str) -> Any:
    try:
        return type(client).get_table(client, namespace, name)
    except Exception as refused:
        if _REMOVED not in str(refused):
            raise
    request = need("hive_metastore.ttypes", "a metastore of Hive", extra="iceberg").GetTableRequest
    return client.get_table_req(request(dbName=namespace, tblName=name)).table


def is_locked(lost: Exception) -> bool:
    """Whether a commit failed because another program holds the lock of the table."""
    return _LOCKED in str(lost)


def only_registers(refused: Exception) -> bool:
    """Whether the catalog cannot commit the changes: PyIceberg supports no commits there, or Hive does not accept the columns."""
    return isinstance(refused, NotImplementedError) or bool(_COLUMNS.search(str(refused)))


def cure(said: str) -> str:
    """The cure for a refusal. `said`: the message of the catalog."""
    cures = (cure for pattern, cure in _CURES.items() if re.search(pattern, said))
    return next(cures, "correct the properties of the catalog, or try again")
