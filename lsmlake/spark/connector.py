"""Finds out whether Catalyst itself can read the data files of a table.

It can read files in a directory. It can read files in an object store if the session has a Hadoop connector for the store, such
as s3a, and the connector's own settings (`spark.hadoop.fs.s3a.*`) lead to the same objects. No setting tells this. So Catalyst
reads the smallest file of the first plan, once for each session and connection to a lake.

The result does not contain Spark's error text: the errors of connectors can contain addresses with tokens.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from lsmlake.errors import InvalidQuery
from lsmlake.format.data_files import DataFile
from lsmlake.spark.frame_types import is_connect
from lsmlake.spark.settings import READER
from lsmlake.storage.storage import Storage
from lsmlake.tables.version import Metadata
from lsmlake.undo import pass_interruption

FILE = "file"
_CASES = (
    (
        re.compile(r"No FileSystem for scheme|ClassNotFoundException: Class org\.apache\.hadoop|UNSUPPORTED_FILE_SYSTEM"),
        "the session has no Hadoop connector for {scheme}://",
    ),
    (
        re.compile(r"AccessDenied|Forbidden|[Ss]tatus [Cc]ode:? 40[13]|NoAuth|NoAwsCredentials|[Uu]nable to load credentials"),
        "the session's connector for {scheme}:// has no valid credentials",
    ),
    (
        re.compile(r"PATH_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundException|NoSuchBucket|UnknownStoreException"),
        "the session's connector for {scheme}:// finds another store: its endpoint differs from that of lsmlake",
    ),
)
_OTHERWISE = "the session's connector for {scheme}:// fails ({found})"
_EXCEPTION = re.compile(r"([A-Za-z]\w*(?:Exception|Error))\b")

_IMPATIENT = {
    "s3a": {"fs.s3a.attempts.maximum": "1", "fs.s3a.retry.limit": "1", "fs.s3a.connection.establish.timeout": "5000"},
    "gs": {"fs.gs.http.max.retry": "1"},
    "abfss": {"fs.azure.io.retry.max.retries": "1"},
}
"""Settings of connectors for the trial read: by default connectors retry for minutes if no server answers."""

_reached: set[tuple[str, bytes]] = set()
"""Sessions, and pickles of storages that Catalyst reaches in them."""
_refused: WeakKeyDictionary[Storage, dict[str, str]] = WeakKeyDictionary()
"""Storage -> session -> why Catalyst does not reach the storage. A new connection tries again."""


def refuses(spark, meta: Metadata, files: Sequence[DataFile]) -> str | None:
    """Returns the reason why Catalyst cannot reach files of a table; None if it can, or if there is no file to try."""
    try:
        scheme = scheme_of(meta)
    except InvalidQuery as unreachable:
        return unreachable.what
    if scheme == FILE or not files:
        return None
    storage, session = meta.env.storage, session_name(spark)
    known = _refused.get(storage, {}).get(session)
    if known is None and (mark := (session, pickle.dumps(storage))) not in _reached:
        known = _tries(spark, meta, files, scheme)
        if known is None:
            _reached.add(mark)
        else:
            _refused.setdefault(storage, {})[session] = known
    return known


def scheme_of(meta: Metadata) -> str:
    """The scheme by which Catalyst names the files of a table. Raises InvalidQuery if it has no name for them."""
    return meta.env.storage.uri(meta.paths.root).partition("://")[0]


def session_name(spark) -> str:
    return spark.session_id if is_connect(spark) else spark.sparkContext.applicationId


def _tries(spark, meta: Metadata, files: Sequence[DataFile], scheme: str) -> str | None:
    """Reads the footer of a file in a task: both the driver and an executor need the connector. Returns why it failed."""
    own = {f"fs.{scheme}.impl.disable.cache": "true"}  # Hadoop keeps a file system with the settings that it was made with
    reader = spark.read.schema("_lsmlake_none INT").options(recursiveFileLookup="true", **READER, **own, **_IMPATIENT[scheme])
    uri = meta.env.storage.uri(meta.paths.data(min(files, key=lambda file: file.bytes)))
    try:
        reader.parquet(uri).limit(1).collect()
    except Exception as error:  # of PySpark or Py4J, by the kind of session
        pass_interruption(error)
        return _reason(error, scheme)
    return None


def _reason(error: Exception, scheme: str) -> str:
    text = str(error)
    match = _EXCEPTION.search(text)
    reason = next((reason for pattern, reason in _CASES if pattern.search(text)), _OTHERWISE)
    return reason.format(scheme=scheme, found=match[1] if match else type(error).__name__)
