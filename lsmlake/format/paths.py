"""Every path of a table is built and parsed here. Paths are relative to the storage root and separated by '/'.

A data file's directory is chosen once, by its writer (`bucket_directory`), and stored in its manifest entry. Readers take it from
there: a table can be renamed and its options altered, and every file is still found.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lsmlake.errors import InvalidQuery
from lsmlake.format.files import Bucket, DataFile

_ESCAPED = re.compile(r"""^\.|[\x00-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")  # engines do not see what begins with a dot
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_\-]*")
_NAME_BYTES = 240  # file systems take names of 255 bytes
_CONSUMER = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]*")


def database_dir(database: str) -> str:
    return f"{database}.db"


_OF_A_TABLE = re.compile(
    r"(schema|snapshot|changelog|consumer|manifest|index)/.+|(.+/)?bucket-\d+/(data|changelog)-[^/]+\.parquet", re.DOTALL
)


def is_of_a_table(path: str, root: str) -> bool:
    """Whether a file below `root` has a name that files of a table have."""
    return _OF_A_TABLE.fullmatch(path.removeprefix(f"{root}/")) is not None


def first_schema(root: str) -> str:
    """Schema 0 of the table in folder `root`. It exists as long as the table does, and holds the table's uuid."""
    return f"{root}/schema/schema-0"


def is_name(text: str) -> bool:
    """Whether a database or a table can have this name; a folder of another name is neither."""
    return _NAME.fullmatch(text) is not None


def split_name(name: str) -> tuple[str, str]:
    """'sales.orders' -> ('sales', 'orders'). Raises InvalidQuery unless it is two plain names."""
    parts = name.split(".")
    if len(parts) != 2 or not all(_NAME.fullmatch(part) for part in parts):
        raise InvalidQuery(
            "not a table name",
            where=repr(name),
            expected="database.table of letters, digits, '_' and '-'",
            cure="e.g. 'sales.orders'",
        )
    return parts[0], parts[1]


def check_database(name: str) -> str:
    """`name` again. Raises InvalidQuery unless it is a plain name."""
    if not _NAME.fullmatch(name):
        raise InvalidQuery("not a database name", where=repr(name), expected="letters, digits, '_' and '-'", cure="e.g. 'sales'")
    return name


def _partition_text(value: object, null_name: str) -> str:
    if value is None or value == "":
        return null_name
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime):
        value = value.isoformat(sep=" ")
    return _escaped(str(value))


def _cut(name: str) -> str:
    data = name.encode()
    return name if len(data) <= _NAME_BYTES else data[: _NAME_BYTES - 1].decode(errors="ignore") + "~"


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


@dataclass(frozen=True)
class TablePaths:
    """The places of one table below `root` ('sales.db/orders').

    A file whose name can occur again (`snapshot-1`) lies in a folder named after the table's uuid. So a program that still works
    for a dropped table cannot touch the files of another table that was created under the same name.
    """

    root: str
    table_uuid: str

    @property
    def schemas(self) -> str:
        """Of all schemas but the first."""
        return f"{self.root}/schema/{self.table_uuid}"

    def schema(self, number: int) -> str:
        return f"{self.schemas}/schema-{number}" if number else first_schema(self.root)

    @property
    def snapshots(self) -> str:
        return f"{self.root}/snapshot/{self.table_uuid}"

    def snapshot(self, number: int) -> str:
        return f"{self.snapshots}/snapshot-{number}"

    @property
    def latest(self) -> str:
        return f"{self.snapshots}/LATEST"

    @property
    def changelogs(self) -> str:
        return f"{self.root}/changelog/{self.table_uuid}"

    def changelog(self, number: int) -> str:
        """What is kept of an expired snapshot whose changelog is."""
        return f"{self.changelogs}/changelog-{number}"

    @property
    def consumers(self) -> str:
        return f"{self.root}/consumer/{self.table_uuid}"

    def consumer(self, name: str) -> str:
        """Raises InvalidQuery unless it is a plain name."""
        if not isinstance(name, str) or not _CONSUMER.fullmatch(name):
            raise InvalidQuery(
                "not the name of a consumer",
                where=repr(name),
                expected="letters, digits, '_', '-' and '.', no '.' in front",
                cure="e.g. 'daily-export'",
            )
        return f"{self.consumers}/consumer-{name}"

    def consumer_name(self, path: str) -> str | None:
        """The name of the consumer whose file this is; None for a stray file."""
        name = path.removeprefix(f"{self.consumers}/consumer-")
        return name if name != path and _CONSUMER.fullmatch(name) else None

    def manifest(self, name: str) -> str:
        return f"{self.root}/manifest/{name}"

    def puffin(self, name: str) -> str:
        return f"{self.root}/index/{name}"

    def data(self, file: DataFile) -> str:
        return self.new_data(file.directory, file.name)

    def new_data(self, directory: str, name: str) -> str:
        """Where a writer puts a data file of this name; `directory` as `bucket_directory` chooses it."""
        return f"{self.root}/{directory}/{name}"


def bucket_directory(bucket: Bucket, partition_by: Sequence[str], null_name: str) -> str:
    """The directory, relative to the table's root, that a writer chooses for new files of a bucket: 'dt=2026-01-01/bucket-0'.

    Hive style with escaped values; `null_name` stands for a null. What file systems take for no name, because it is too long, is
    cut, and ends in '~'. The directory is for people and other engines: values are read from manifests, never from a path.
    """
    parts = [
        _cut(f"{_escaped(name)}={_partition_text(value, null_name)}")
        for name, value in zip(partition_by, bucket.partition, strict=True)
    ]
    return "/".join([*parts, f"bucket-{bucket.number}"])


def numbered(paths: Iterable[str], folder: str, prefix: str) -> list[int]:
    """The numbers n of the paths that are '<folder>/<prefix>-<n>', ascending.

    Any other file is a stray and no part of the table: a number with leading zeros, an editor's backup, a file in a subfolder.
    """
    pattern = re.compile(rf"{re.escape(folder)}/{prefix}-(0|[1-9][0-9]{{0,17}})")
    return sorted(int(match[1]) for match in map(pattern.fullmatch, paths) if match)
