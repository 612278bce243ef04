"""Every path of a table is built and parsed here. Paths are relative to the storage root and separated by '/'."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lsmlake.errors import InvalidQuery
from lsmlake.format.files import Bucket

_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_\-]*")
_CONSUMER = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]*")


def database_dir(database: str) -> str:
    return f"{database}.db"


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
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", str(value))


@dataclass(frozen=True)
class TablePaths:
    """The places of one table below `root` ('sales.db/orders'). Data files are known by name and bucket, metadata by name."""

    root: str
    partition_by: tuple[str, ...] = ()
    null_name: str = "__DEFAULT_PARTITION__"

    @property
    def schemas(self) -> str:
        return f"{self.root}/schema"

    def schema(self, number: int) -> str:
        return f"{self.root}/schema/schema-{number}"

    @property
    def snapshots(self) -> str:
        return f"{self.root}/snapshot"

    def snapshot(self, number: int) -> str:
        return f"{self.root}/snapshot/snapshot-{number}"

    @property
    def latest(self) -> str:
        return f"{self.root}/snapshot/LATEST"

    @property
    def earliest(self) -> str:
        return f"{self.root}/snapshot/EARLIEST"

    @property
    def changelogs(self) -> str:
        return f"{self.root}/changelog"

    def changelog(self, number: int) -> str:
        """What is kept of an expired snapshot whose changelog is."""
        return f"{self.root}/changelog/changelog-{number}"

    @property
    def consumers(self) -> str:
        return f"{self.root}/consumer"

    def consumer(self, name: str) -> str:
        """Raises InvalidQuery unless it is a plain name."""
        if not isinstance(name, str) or not _CONSUMER.fullmatch(name):
            raise InvalidQuery(
                "not the name of a consumer",
                where=repr(name),
                expected="letters, digits, '_', '-' and '.', no '.' in front",
                cure="e.g. 'daily-export'",
            )
        return f"{self.root}/consumer/consumer-{name}"

    def manifest(self, name: str) -> str:
        return f"{self.root}/manifest/{name}"

    def puffin(self, name: str) -> str:
        return f"{self.root}/index/{name}"

    def bucket_dir(self, bucket: Bucket) -> str:
        """Hive style, values escaped; for people only: values are read from manifests, never from a path."""
        parts = [
            f"{name}={_partition_text(value, self.null_name)}"
            for name, value in zip(self.partition_by, bucket.partition, strict=True)
        ]
        return "/".join([self.root, *parts, f"bucket-{bucket.number}"])

    def data(self, bucket: Bucket, name: str) -> str:
        return f"{self.bucket_dir(bucket)}/{name}"


def numbered(paths: Sequence[str], prefix: str) -> list[int]:
    """The numbers n of the paths whose last part is '<prefix>-<n>', ascending; anything else is passed over."""
    pattern = re.compile(rf".*/{prefix}-(\d+)")
    return sorted(int(match[1]) for match in map(pattern.fullmatch, paths) if match)
