"""Registers a published table in a catalog of Iceberg: any that PyIceberg connects to, such as REST, SQL, Glue and Hive.

1. Load the table of that name. If there is none, create its namespace and register the metadata file.
2. Refuse another table of that name, and a table to which other programs have written.
3. Commit the changes (`updates`), so that readers find the table at any moment. The catalog writes metadata files of its own for
   this, because the metadata files of the publication are deleted after newer ones are published.
4. If no commit can express the changes, as for a rollback, register the table anew: for a moment the catalog has no such table.
   Its files stay. Do the same if a metastore of Hive refuses the commit, for example because a column before others was dropped
   (Hive compares columns by position); and if the metadata file that the catalog names is missing from the folder of the
   published table.

A table that is renamed or dropped here leaves the catalog (`catalog_entry`).

PyIceberg waits for an answer without a time limit, so all of this runs in a thread that is abandoned after a while.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

from lsmlake.beside import begin
from lsmlake.errors import CommitConflict, InvalidQuery, LakeError, MissingDependency, StorageFailed, TableExists, Wording
from lsmlake.extras import need
from lsmlake.iceberg import catalog_kinds as kinds
from lsmlake.iceberg import updates
from lsmlake.iceberg.catalog_backoff import ASKED_SECONDS
from lsmlake.iceberg.table_metadata import Metadata
from lsmlake.storage.address import is_same_place

Result = TypeVar("Result")
_ATTEMPTS = 5
_FOUND_CHARS = 500
_LONG = 8  # shorter secrets may be parts of words
_WHAT = "a catalog of Iceberg"
_REGISTER = "the catalog did not register the table", "the table is published"
_LOOK = "the catalog did not show the table", "if it is there under its old name, drop it there, but not its files"
_FIND = "the catalog did not show the table", "or name the folder of the table"
_REMOVE = "the catalog did not remove the table", "drop it there, but not its files"
_PUBLISHED = re.compile(r"/v[0-9]+\.metadata\.json$")
_SECRET = re.compile(r"token|secret|credential|password|key|auth|header", re.IGNORECASE)
_PASSWORD = re.compile(r"://[^/@]*:([^/@]*)@")


def register(
    metadata_file: str, content: Metadata, catalog: Mapping[str, str] | str, name: str, seconds: float = ASKED_SECONDS
) -> None:
    """Registers the published table as table `name` of a catalog. Does nothing if the catalog has this publication, or a newer
    one.

    Args:
        metadata_file: the address of a metadata file.
        content: the content of the file.
        catalog: the properties of the catalog as PyIceberg takes them, its name as `name`; or only the name of a catalog in
            PyIceberg's configuration.
        name: namespace and name of the table in the catalog; `check_name` accepts it.
        seconds: how long the catalog may take.

    Raises:
        MissingDependency: PyIceberg, or what it needs for such a catalog, is not installed.
        TableExists: the catalog has another table of that name, or other programs have written to the table there.
        CommitConflict: other programs changed the table in the catalog on every attempt.
        StorageFailed: the catalog refused, or did not answer.
    """
    parsed = need("pyiceberg.table.metadata", _WHAT).TableMetadataUtil.parse_obj

    def run(client: Any) -> None:
        written: list[str] = []
        client._write_metadata = kinds.writer(content, written)
        _Registration(client, name, metadata_file, parsed(content), written).run()

    _ask(catalog, name, run, seconds, *_REGISTER)


def has(catalog: str, name: str, table_uuid: str, location: str, seconds: float) -> bool:
    """Whether the table `name` of a catalog is the published one with this uuid, at this address. Raises as `register`."""
    errors = need("pyiceberg.exceptions", _WHAT)

    def run(client: Any) -> bool:
        try:
            registered = client.load_table(name).metadata
        except (errors.NoSuchTableError, errors.NoSuchNamespaceError):
            return False
        return str(registered.table_uuid) == table_uuid and is_same_place(registered.location, location)

    return _ask(catalog, name, run, seconds, *_LOOK)


def metadata_file(catalog: str, name: str) -> str | None:
    """The address of the metadata file of table `name` in a catalog; None if it has no such table. Raises as `register`."""
    errors = need("pyiceberg.exceptions", _WHAT)

    def run(client: Any) -> str | None:
        try:
            return client.load_table(name).metadata_location
        except (errors.NoSuchTableError, errors.NoSuchNamespaceError):
            return None

    return _ask(catalog, name, run, ASKED_SECONDS, *_FIND)


def remove(catalog: str, name: str, seconds: float) -> None:
    """Removes the table `name` from a catalog; files stay. Raises as `register`."""
    errors = need("pyiceberg.exceptions", _WHAT)

    def run(client: Any) -> None:
        with suppress(errors.NoSuchTableError):
            client.drop_table(name)

    _ask(catalog, name, run, seconds, *_REMOVE)


def _ask(
    catalog: Mapping[str, str] | str, name: str, work: Callable[[Any], Result], seconds: float, failed: str, cure: str
) -> Result:
    """Calls `work` with the connected catalog of PyIceberg and returns its result. Raises as `register`.

    Args:
        name: the table, for errors.
        seconds: how long the catalog may take.
        failed: what the catalog refused, for errors.
        cure: the end of the cure, for errors.
    """
    load_catalog = need("pyiceberg.catalog", _WHAT).load_catalog
    given = {"name": catalog} if isinstance(catalog, str) else dict(catalog)
    secrets = _secrets(given)

    def run() -> Result:
        client = load_catalog(given.pop("name", "default"), **given)
        secrets.update(_secrets(client.properties))
        kinds.adapt(client, seconds)
        try:
            return work(client)
        finally:
            client.close()

    try:
        return _within(seconds, run)
    except LakeError:
        raise
    except TooLate:
        expected = f"an answer within {seconds:g} seconds"
        raise StorageFailed("the catalog did not answer", where=name, expected=expected, cure=f"try again; {cure}") from None
    except Exception as refused:  # of many kinds
        raise _error(refused, name, secrets, failed, cure) from None  # its traceback may show secrets


def check_name(name: str) -> None:
    """Raises InvalidQuery if `name` is not a namespace, of one or more levels, and a name."""
    if "." not in name or "" in name.split("."):
        raise InvalidQuery(
            "a table in a catalog has a namespace and a name",
            expected="namespace.table",
            found=repr(name),
            cure=Wording('correct it, such as name="sales.orders"', command="correct it, such as --name sales.orders"),
        )


class _Registration(NamedTuple):
    """One registration. `ours`: the content of the metadata file, as PyIceberg parses it. `written`: the metadata files of
    attempts to commit."""

    catalog: Any
    name: str
    metadata_file: str
    ours: Any
    written: list[str]

    def run(self) -> None:
        errors = need("pyiceberg.exceptions", _WHAT)
        of = need("pyiceberg.table.update", _WHAT)
        for _ in range(_ATTEMPTS):
            table = self._table(errors)
            if table is None:
                continue
            self._check(table.metadata)
            if table.metadata.location.rstrip("/") != self.ours.location:  # an earlier release spelled it otherwise
                self._register_anew(errors)
                continue
            if updates.shows(table.metadata, self.metadata_file, self.ours):
                self._delete_unnamed(table, table)
                return
            changes = updates.updates(of, table.metadata, self.ours, self.metadata_file)
            if changes is None:
                self._register_anew(errors)
                continue
            same = (
                of.AssertTableUUID(uuid=table.metadata.table_uuid),
                of.AssertRefSnapshotId(ref="main", snapshot_id=table.metadata.current_snapshot_id),
            )
            try:
                committed = self.catalog.commit_table(table, same, changes)
            except errors.CommitFailedException as lost:
                if kinds.is_locked(lost):
                    raise
                continue
            except Exception as refused:
                if not kinds.only_registers(refused):
                    raise
                if table.metadata_location != self.metadata_file:
                    self._register_anew(errors)
                    continue
                committed = table
            self._delete_unnamed(table, committed)
            return
        raise CommitConflict(
            "other programs changed the table in the catalog on every attempt",
            where=self.name,
            found=f"{_ATTEMPTS} attempts",
            cure="publish again",
        )

    def _table(self, errors: ModuleType) -> Any:
        """The table in the catalog; registers it if it was missing, or if its metadata file is. None: try again."""
        try:
            return self._found(errors)
        except LakeError:
            raise
        except Exception as failed:
            if not self._names_lost_file(str(failed)):
                raise
            self._register_anew(errors)
            return None

    def _found(self, errors: ModuleType) -> Any:
        """The table in the catalog; registers it if it was missing. None: another program is registering it."""
        try:
            return self.catalog.load_table(self.name)
        except (errors.NoSuchIcebergTableError, errors.NoSuchPropertyException) as other:
            cure = f"give another name, or {kinds.DROP}"
            raise TableExists("the catalog has a table of another format", where=self.name, found=str(other), cure=cure) from None
        except (errors.NoSuchTableError, errors.NoSuchNamespaceError):
            self._create_namespace(self.name.split(".")[:-1])
        try:
            return self.catalog.register_table(self.name, self.metadata_file)
        except errors.TableAlreadyExistsError:
            return None

    def _names_lost_file(self, told: str) -> bool:
        """Whether an error of the catalog names a missing metadata file in the folder of this table."""
        location = self.ours.location
        folder = re.escape(f"{location.partition('://')[2]}/metadata/")
        named = re.findall(rf"{folder}([^/\s'\"]+\.metadata\.json)", told)
        files = need("pyiceberg.io", _WHAT).load_file_io(self.catalog.properties, location)
        with suppress(OSError):
            return bool(named) and not any(files.new_input(f"{location}/metadata/{name}").exists() for name in named)
        return False

    def _create_namespace(self, levels: list[str]) -> None:
        """Creates a namespace and its parent namespaces, if they are missing."""
        if not self.catalog.namespace_exists(".".join(levels)):
            if levels[1:]:
                self._create_namespace(levels[:-1])
            self.catalog.create_namespace_if_not_exists(".".join(levels))

    def _check(self, theirs: Any) -> None:
        ours = self.ours
        if theirs.table_uuid != ours.table_uuid or not is_same_place(theirs.location, ours.location):
            raise TableExists(
                "the catalog has another table of this name",
                where=self.name,
                expected=f"table {ours.table_uuid} at {ours.location}",
                found=f"table {theirs.table_uuid} at {theirs.location}",
                cure=f"give another name, or {kinds.DROP}",
            )
        if foreign := updates.foreign(theirs):
            raise TableExists(
                "another program has written to the table through the catalog",
                where=self.name,
                found=f"snapshot {foreign[-1]}",
                cure=f"write with lsmlake only; to give up what the other program wrote, {kinds.DROP}",
            )

    def _register_anew(self, errors: ModuleType) -> None:
        """Registers the table anew. Does nothing if another program is registering the table."""
        with suppress(errors.NoSuchTableError, errors.TableAlreadyExistsError):
            self.catalog.drop_table(self.name)
            table = self.catalog.register_table(self.name, self.metadata_file)
            self._delete_unnamed(table, table)

    def _delete_unnamed(self, before: Any, after: Any) -> None:
        """Deletes metadata files that the catalog named before, or that attempts wrote, and that it no longer names. The catalog
        may have deleted them itself, and an attempt may have succeeded although it seemed to fail. Publications delete their own
        metadata files."""
        for file in {*_logged(before), *self.written} - {after.metadata_location, *_logged(after)}:
            if not _PUBLISHED.search(file):
                with suppress(OSError):
                    before.io.delete(file)


def _logged(table: Any) -> set[str]:
    return {one.metadata_file for one in table.metadata.metadata_log}


class TooLate(Exception):
    """The call did not end within its time limit."""


def _within(seconds: float, call: Callable[[], Result]) -> Result:
    """Waits for a call in another thread, which goes on after an interruption. Raises TooLate."""
    work = begin(call)
    if not work.ended.wait(seconds):
        raise TooLate
    return work.result()


def _secrets(properties: Mapping[str, object]) -> set[str]:
    """Values that no message may show."""
    secrets: set[str] = set()
    for name, value in properties.items():
        text = str(value)
        secrets.update(_PASSWORD.findall(text))
        if _SECRET.search(name):
            secrets.update((text, text.rpartition(":")[2]))
    return {form for text in secrets for form in (text, unquote(text)) if form}


def _error(refused: Exception, name: str, secrets: set[str], failed: str, cure: str) -> LakeError:
    text = " ".join(str(refused).split())
    for secret in sorted(secrets, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)" if len(secret) < _LONG else re.escape(secret), "***", text)
    cause = text[:_FOUND_CHARS] if " " in text else f"{type(refused).__name__} {text}".rstrip()  # such as KeyError 'uri'
    if isinstance(refused, need("pyiceberg.exceptions", _WHAT).NotInstalledError):
        what = "PyIceberg lacks packages for such a catalog"
        return MissingDependency(what, where=name, found=cause, cure="run such a command, and publish again")
    return StorageFailed(failed, where=name, found=cause, cure=f"{kinds.cure(text)}; {cure}")
