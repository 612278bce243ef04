"""Builds and parses all paths of a table. Paths are relative to the storage root and separated by '/'.

The writer of a data file chooses its directory (`bucket_directory`) and stores it in the manifest entry. Readers use the stored
directory, so all files are found after a table is renamed or its options are altered.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from lsmlake.errors import InvalidQuery
from lsmlake.format.data_files import Bucket, DataFile
from lsmlake.schema.partitioning import PartitionColumn

_ESCAPED = re.compile(r"""^\.|[\x00-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")  # engines ignore names that begin with a dot
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_\-]*")
_NAME_BYTES = 240  # file systems allow names of 255 bytes
_CONSUMER = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]*")
_TAG = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]*(?: [A-Za-z0-9_.\-]+)*")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_TAG_BYTES = 200
_BRANCH_BYTES = 200
_BRANCH_MARK = "$branch_"
MAIN = "main"  # the name of the table itself among its branches


def database_dir(database: str) -> str:
    return f"{database}.db"


def database_mark(database: str) -> str:
    """The file that marks a database: the database exists as long as the file."""
    return f"{database_dir(database)}/database.json"


def views_dir(database: str) -> str:
    """The folder of the views of a database. No table can have its name."""
    return f"{database_dir(database)}/.views"


def view_file(database: str, view: str) -> str:
    """The file of a view: the view exists as long as the file."""
    return f"{views_dir(database)}/{view}.json"


def view_name(path: str, database: str) -> str | None:
    """The name of the view of this file; None for any other file."""
    name = path.removeprefix(f"{views_dir(database)}/").removesuffix(".json")
    return name if is_name(name) and path == view_file(database, name) else None


_OF_A_TABLE = re.compile(
    r"(schema|snapshot|changelog|consumer|copied|tag|branch|manifest|index|metadata)/.+"
    r"|(.+/)?bucket-\d+/((data|changelog|deletes)-[^/]+\.parquet|data-[^/]+\.parquet\.index)",
    re.DOTALL,
)

_UNIQUE = re.compile(
    r"(.+/)?((manifest/(manifest|manifest-list|index-manifest|statistics)|index/dv|bucket-\d+/(data|changelog|deletes))"
    r"-[0-9a-f]{32}[^/]*)",
    re.DOTALL,
)


def is_unique(path: str) -> bool:
    """Whether a file never changes and no other file ever gets its path, because its name contains a unique id."""
    return _UNIQUE.fullmatch(path) is not None


def is_of_a_table(path: str, root: str) -> bool:
    """Whether a file in the table directory `root` has a name of lsmlake's form."""
    return _OF_A_TABLE.fullmatch(path.removeprefix(f"{root}/")) is not None


def first_schema(root: str) -> str:
    """Returns the path of schema 0 of the table in directory `root`. It exists as long as the table and holds its uuid."""
    return f"{root}/schema/schema-0"


def is_name(text: str) -> bool:
    """Whether this is a valid name of a database or table. Directories with other names are ignored."""
    return _NAME.fullmatch(text) is not None


def is_branch(text: object) -> bool:
    """Whether this is a valid name of a branch. Directories with other names are ignored."""
    return isinstance(text, str) and text != MAIN and len(text) <= _BRANCH_BYTES and _NAME.fullmatch(text) is not None


def split_name(name: str) -> tuple[str, str]:
    """Splits 'sales.orders' into ('sales', 'orders'). Raises InvalidQuery unless both names are valid."""
    parts = name.split(".")
    if len(parts) != 2 or not all(_NAME.fullmatch(part) for part in parts):
        raise InvalidQuery(
            "not a table name",
            where=repr(name),
            expected="database.table of letters, digits, '_' and '-'",
            cure="e.g. 'sales.orders'",
        )
    return parts[0], parts[1]


def table_dir(name: str) -> str:
    """The folder of the table 'sales.orders': 'sales.db/orders'. Raises InvalidQuery unless the name is valid."""
    database, table = split_name(name)
    return f"{database_dir(database)}/{table}"


def split_branch(name: str) -> tuple[str, str | None]:
    """Splits 'sales.orders$branch_b1' into ('sales.orders', 'b1'); None: the name has no branch."""
    table, mark, branch = name.partition(_BRANCH_MARK)
    return (table, branch) if mark else (name, None)


def on_branch(table: str, branch: str) -> str:
    """The name of a branch: 'sales.orders$branch_b1'."""
    return f"{table}{_BRANCH_MARK}{branch}"


def check_database(name: str) -> str:
    """Returns `name`. Raises InvalidQuery unless it is a valid database name."""
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


class Branch(NamedTuple):
    """A branch of a table. `uuid`: unique; a later branch of the same name has another one. `folder`: the name under which the
    branch was created; its directories stay in this folder when it is renamed."""

    name: str
    uuid: str
    folder: str


@dataclass(frozen=True)
class TablePaths:
    """The paths of one table with directory `root` ('sales.db/orders'), or of a branch of it.

    Files with recurring names (`snapshot-1`) are in a directory named after the uuid of the table or branch. So a program with a
    handle to a dropped table cannot modify the files of a new table with the same name. Data, manifests and vectors of all
    branches are in the common directories of the table, because their names are unique.
    """

    root: str
    table_uuid: str
    branch: Branch | None = None

    @property
    def table_name(self) -> str:
        """The name of the table: 'sales.orders'."""
        database, _, table = self.root.rpartition("/")
        return f"{database.removesuffix(database_dir(''))}.{table}"

    @property
    def home(self) -> str:
        """The directory of the schemas, snapshots, tags, consumers and changelogs of the table, or of the branch."""
        return self.root if self.branch is None else f"{self.branches}/{self.branch.folder}"

    @property
    def line(self) -> str:
        """The uuid of the table, or of the branch."""
        return self.table_uuid if self.branch is None else self.branch.uuid

    def on(self, branch: Branch | None) -> TablePaths:
        """The paths of a branch; None: of the table itself."""
        return TablePaths(self.root, self.table_uuid, branch)

    @property
    def branches(self) -> str:
        return f"{self.root}/branch/{self.table_uuid}"

    def branch_folder(self, name: str) -> str:
        """The folder of the file of a branch. Raises InvalidQuery unless the name is valid."""
        if not is_branch(name):
            raise InvalidQuery(
                "not the name of a branch",
                where=repr(name),
                expected=f"letters, digits, '_' and '-', at most {_BRANCH_BYTES}, and not {MAIN!r}",
                cure="e.g. 'experiment-1'",
            )
        return f"{self.branches}/{name}"

    def branch_file(self, name: str) -> str:
        """The file of a branch: the branch exists as long as the file."""
        return f"{self.branch_folder(name)}/branch.json"

    @property
    def works(self) -> str:
        """The directory of the files that mark exclusive work on the branch (`format.branch`)."""
        return f"{self.home}/work/{self.line}"

    def begun(self, number: int) -> str:
        """The file that marks the beginning of the exclusive work with this number."""
        return f"{self.works}/begun-{number}"

    def ended(self, number: int) -> str:
        return f"{self.works}/ended-{number}"

    @property
    def schemas(self) -> str:
        """The directory of all schemas except the first."""
        return f"{self.home}/schema/{self.line}"

    def schema(self, number: int) -> str:
        return f"{self.schemas}/schema-{number}" if number else first_schema(self.root)

    @cached_property
    def snapshots(self) -> str:
        return f"{self.home}/snapshot/{self.line}"

    def snapshot(self, number: int) -> str:
        return f"{self.snapshots}/snapshot-{number}"

    @property
    def latest(self) -> str:
        return f"{self.snapshots}/LATEST"

    @property
    def changelogs(self) -> str:
        return f"{self.home}/changelog/{self.line}"

    def changelog(self, number: int) -> str:
        """The snapshot file of an expired snapshot whose changelog is retained."""
        return f"{self.changelogs}/changelog-{number}"

    @property
    def consumers(self) -> str:
        return f"{self.home}/consumer/{self.line}"

    def consumer(self, name: str) -> str:
        """Raises InvalidQuery unless the name is valid."""
        if not isinstance(name, str) or not _CONSUMER.fullmatch(name):
            raise InvalidQuery(
                "not the name of a consumer",
                where=repr(name),
                expected="letters, digits, '_', '-' and '.', not starting with '.'",
                cure="e.g. 'daily-export'",
            )
        return f"{self.consumers}/consumer-{name}"

    def consumer_name(self, path: str) -> str | None:
        """Returns the name of the consumer of this file; None for any other file."""
        name = path.removeprefix(f"{self.consumers}/consumer-")
        return name if name != path and _CONSUMER.fullmatch(name) else None

    @property
    def tags(self) -> str:
        return f"{self.home}/tag/{self.line}"

    def tag(self, name: str) -> str:
        """Raises InvalidQuery unless the name is valid."""
        if not isinstance(name, str) or not _TAG.fullmatch(name) or len(name) > _TAG_BYTES:
            raise InvalidQuery(
                "not the name of a tag",
                where=repr(name),
                expected=f"letters, digits, '_', '-', '.' and single blanks, at most {_TAG_BYTES}, not starting with '.'",
                cure="e.g. 'end-of-day' or '2026-01-31 12'",
            )
        return f"{self.tags}/tag-{name}"

    def tag_name(self, path: str) -> str | None:
        """Returns the name of the tag of this file; None for any other file."""
        name = path.removeprefix(f"{self.tags}/tag-")
        return name if name != path and _TAG.fullmatch(name) else None

    def pin(self, name: str) -> str:
        """The file that keeps the files of a snapshot while a tag of it is being written."""
        return f"{self.tags}/pin-{name}"

    def is_pin(self, path: str) -> bool:
        name = path.removeprefix(f"{self.tags}/pin-")
        return name != path and is_name(name)

    def copied(self, name: str) -> str:
        """The list of files that a COPY INTO has loaded."""
        return f"{self.root}/copied/{self.table_uuid}/{name}.json"

    def manifest(self, name: str) -> str:
        return f"{self.root}/manifest/{name}"

    def puffin(self, name: str) -> str:
        return f"{self.root}/index/{name}"

    def iceberg(self, name: str) -> str:
        """A file of the Iceberg metadata of the table."""
        return f"{self.root}/metadata/{name}"

    def data(self, file: DataFile) -> str:
        return self.new_data(file.directory, file.name)

    def new_data(self, directory: str, name: str) -> str:
        """Returns the path of a new data file; `directory` comes from `bucket_directory`."""
        return f"{self.root}/{directory}/{name}"

    def index(self, file: DataFile) -> str:
        """The index file beside a data file."""
        return index_of(self.data(file))

    def with_index(self, file: DataFile) -> tuple[str, ...]:
        """A data file, and its index file if it has one."""
        return (self.data(file),) if file.index_bytes is None else (self.data(file), self.index(file))


def index_of(data: str) -> str:
    """The path of the index file beside a data file."""
    return f"{data}.index"


def bucket_directory(bucket: Bucket, fields: Sequence[PartitionColumn], null_name: str) -> str:
    """Returns the directory for new files of a bucket, relative to the table's root: 'ts_day=2026-01-01/bucket-0'.

    Args:
        bucket: The bucket.
        fields: The fields of its partition spec.
        null_name: The text for a null.

    Hive style with escaped values. A name that is too long for file systems is cut and ends in
    '~'. The directory serves people and other engines: lsmlake reads values from manifests, never from a path.
    """
    parts = [
        _cut(f"{_escaped(field.name)}={_partition_text(field.transform.human(value), null_name)}")
        for field, value in zip(fields, bucket.partition, strict=True)
    ]
    return "/".join([*parts, f"bucket-{bucket.number}"])


def numbered(paths: Iterable[str], folder: str, prefix: str) -> list[int]:
    """Returns the numbers n of the paths of the form '<folder>/<prefix>-<n>', ascending.

    Other files are not part of the table: a number with leading zeros, an editor's backup, a file in a subdirectory.
    """
    begin = f"{folder}/{prefix}-"
    numbers = (path[len(begin) :] for path in paths if path.startswith(begin))
    return sorted(int(number) for number in numbers if _NUMBER.fullmatch(number))
