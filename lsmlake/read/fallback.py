"""Reads a table together with one of its branches: the options `scan.fallback-branch` and `scan.primary-branch`.

A batch read takes each partition from one of two versions: from the first if that has a file of the partition, otherwise from the
second, its `Version.fallback`. With a fallback branch the table is the first, with a primary branch the branch. Data files,
manifests and vectors of all branches share their directories and have unique names, so one plan holds the files of both versions;
only their schemas are numbered apart. Writers, compactions and readers of changes use versions without a fallback.

The two versions must have the same columns, partitions and merge rules: then the files of both mean the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidOption, InvalidSchema, SnapshotNotFound, TableNotFound
from lsmlake.format.paths import MAIN
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.cover import partition_codes
from lsmlake.options.option import Change
from lsmlake.options.table_options import OPTIONS
from lsmlake.read.plan import Plan
from lsmlake.read.travel import Moment, newest_until, resolve, time_text
from lsmlake.schema.defaults import INITIAL, default_of
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Metadata, Version
from lsmlake.types.type_text import format_type_of

FALLBACK, PRIMARY = "scan.fallback-branch", "scan.primary-branch"
_META_BYTES = 1 << 12  # of the metadata of a branch, without its cache
_LATEST = Moment()
_OF_CHANGES = frozenset({"changelog-producer", "num-levels"})
"""Options that decide which changes the files of a table tell, not which rows."""


def version_to_read(meta: Metadata, moment: Moment, zone: str) -> Version:
    """The table at a moment, with its fallback. Raises as `resolve` and `with_fallback`."""
    return with_fallback(Version.at(meta, resolve(meta, moment, zone)), moment)


def with_fallback(version: Version, moment: Moment = _LATEST) -> Version:
    """A version as batch reads see it: with the branch that its options name, at the same moment.

    Args:
        version: the table, or a branch of it.
        moment: the moment of the version.

    Raises:
        TableNotFound: there is no such branch.
        InvalidSchema: the branch has other columns or partitions.
        InvalidOption: the branch merges rows by other rules.
        SnapshotNotFound: the snapshot of the branch at the moment has expired.
    """
    options = version.options.read
    option = FALLBACK if options.fallback_branch is not None else PRIMARY
    name = options.fallback_branch or options.primary_branch
    if name is None or name == branch_name(version):
        return version
    meta = _on_branch(version.meta, name, option)
    other = Version.at(meta, _at_the_moment(version, meta, name, moment))
    _check_alike(version, other, name, option)
    first, second = (version, other) if option == FALLBACK else (other, version)
    schemas = replace(first.meta.schemas, fallback=second.meta.schemas)
    return replace(
        first, meta=replace(first.meta, schemas=schemas), fallback=second, schema=_of_both(first.schema, second.schema)
    )


def branch_name(version: Version) -> str:
    """The name of the branch that a version is of; 'main' for the table."""
    branch = version.meta.paths.branch
    return MAIN if branch is None else branch.name


def refuse_without_table(schema: Schema, where: str) -> None:
    """Raises InvalidOption if the options of a new table name a branch."""
    read = schema.parsed_options.read
    for option, name in ((FALLBACK, read.fallback_branch), (PRIMARY, read.primary_branch)):
        if name is not None:
            raise InvalidOption(
                "a new table has no branch",
                where=where,
                found=f"{option} = {name}",
                cure="create the table without the option, then the branch, and then alter the option",
            )


def check_altered(version: Version, new: Schema, where: str) -> None:
    """Raises as `with_fallback` if the schema `new` of a table names another branch than before. Later alterations are not
    checked: only one after the other can the table and the branch get the same columns."""
    before, after = version.options.read, new.parsed_options.read
    if (before.fallback_branch, before.primary_branch) == (after.fallback_branch, after.primary_branch):
        return
    name = after.fallback_branch or after.primary_branch
    if name == branch_name(version):
        raise InvalidOption(
            "a table cannot be its own branch",
            where=where,
            expected="another branch",
            found=f"{FALLBACK if after.fallback_branch else PRIMARY} = {name}",
            cure="name another branch, or leave the option out",
        )
    if name is not None and new.moves_keys:
        raise InvalidOption(
            f"{FALLBACK} and {PRIMARY} need all rows of a key in one partition",
            where=where,
            found=f"partition columns {list(new.moving_columns)} outside of the primary key",
            cure="leave the option out, or add the partition columns to the primary key",
        )
    with_fallback(replace(version, schema=new))


def branches_read(plan: Plan) -> list[str]:
    """The lines of EXPLAIN about the branches that a plan reads; none without a fallback."""
    if plan.version.fallback is None:
        return []
    splits = [split for split in plan.splits if split.of_fallback]
    partitions = len({split.bucket.partition_key for split in splits})
    files = sum(len(split.files) + len(split.level0) + len(split.merged) for split in splits)
    other = plan.version.fallback
    found = f"{files:,} files of {partitions:,} partitions from branch {branch_name(other)!r}, snapshot {other.number or 'none'}"
    return [f"branch    {found}; branch {branch_name(plan.version)!r} lacks them"]


def homes(version: Version, keys: pa.Table) -> list[tuple[Version, pa.Table]]:
    """The keys by the version that has their partition; without versions that have none."""
    if version.fallback is None:
        return [(version, keys)] if version.snapshot is not None else []
    first = replace(version, fallback=None)
    codes, partitions = partition_codes(keys, version.schema)
    own = first.partitions()
    has = np.array([(version.schema.spec_id, partition) in own for partition in partitions])
    of_first = np.full(keys.num_rows, has[0]) if codes is None else has[codes]
    parts = (first, keys.filter(pa.array(of_first))), (version.fallback, keys.filter(pa.array(~of_first)))
    return [(one, some) for one, some in parts if some.num_rows and one.snapshot is not None]


def _on_branch(meta: Metadata, name: str, option: str) -> Metadata:
    """The metadata of a branch, kept with that of the table, so that its manifests stay in memory."""
    table = meta.on(None)
    try:
        place = None if name == MAIN else table.branches.place(name)
    except TableNotFound as missing:
        cure = f"set {option} to a branch of the table, or remove the option"
        raise missing.changed(cure=cure) from missing
    key = "branch", name, meta.paths.table_uuid if place is None else place.uuid
    return meta.files.cache.get(key, lambda: meta.on(place), lambda _: _META_BYTES)


def _at_the_moment(version: Version, meta: Metadata, name: str, moment: Moment) -> Snapshot | None:
    """The snapshot of the branch at the moment of the version: that of the same tag, if both have it, else the newest one that is
    not later. None: the branch began later."""
    if moment == _LATEST:
        return meta.snapshots.latest()
    if moment.tag is not None and (tag := next((one for one in meta.tags.all() if one.name == moment.tag), None)) is not None:
        return tag.snapshot
    time_ms = version.snapshot.time_ms
    if (found := newest_until(meta, time_ms)) is not None:
        return found
    ids = meta.snapshots.ids()
    info = None if meta.paths.branch is None else meta.branches.get(meta.paths.branch.name)
    first = 1 if info is None or info.base is None else info.base.id
    if not ids or ids[0] <= first:
        return None
    raise SnapshotNotFound(
        f"the snapshot of branch {name!r} at that time has expired",
        where=meta.paths.root,
        expected=f"a time from {time_text(meta.snapshots.get(ids[0]).time_ms, 'UTC')} on",
        found=time_text(time_ms, "UTC"),
        cure="read a later snapshot; or give the branch a tag of the same name as that of the table before it expires",
    )


def _of_both(first: Schema, second: Schema) -> Schema:
    """The first schema, with columns that are nullable if they are so in one of both."""
    columns = pa.schema(
        [mine.with_nullable(mine.nullable or other.nullable) for mine, other in zip(first.columns, second.columns, strict=True)]
    )
    return first if columns.equals(first.columns) else replace(first, columns=columns)


def _check_alike(version: Version, other: Version, name: str, option: str) -> None:
    """Raises InvalidSchema or InvalidOption unless the files of both versions mean the same."""
    ours, theirs, where = version.schema, other.schema, version.meta.paths.root
    apart = f"make the same alterations on both, or remove {option}"
    alike = ours.types_by_id == theirs.types_by_id and ours.columns.names == theirs.columns.names
    if not alike or list(map(_initial, ours.columns)) != list(map(_initial, theirs.columns)):
        raise InvalidSchema(
            f"the branch {name!r} has other columns than the table",
            where=where,
            expected=_columns(ours),
            found=_columns(theirs),
            cure=f"{apart}; columns that were added in another order, or with another default, are others",
        )
    if ours.partitioning != theirs.partitioning:
        raise InvalidSchema(
            f"the branch {name!r} has other partitions than the table",
            where=where,
            expected=f"partitions {list(ours.partition_by)}",
            found=f"partitions {list(theirs.partition_by)}",
            cure=apart,
        )
    if ours.parsed_options.meaning != theirs.parsed_options.meaning and (different := _rules_apart(ours, theirs)):
        raise InvalidOption(
            f"the branch {name!r} merges rows by other rules than the table",
            where=where,
            expected=_rules(ours, different),
            found=_rules(theirs, different),
            cure=apart,
        )


def _initial(field: pa.Field) -> object:
    """What rows have that were written before the column was added."""
    default = default_of(field, INITIAL)
    return None if default is None else default.as_py()


def _columns(schema: Schema) -> str:
    return ", ".join(f"{field.name} {format_type_of(field)}" for field in schema.columns)


def _rules_apart(ours: Schema, theirs: Schema) -> list[str]:
    """The options by which the files of two schemas mean other rows."""
    mine, other = ours.parsed_options, theirs.parsed_options
    rules = [name for name, one in OPTIONS.items() if one.change is not Change.ANY_TIME and name not in _OF_CHANGES]
    names = [name for name in rules if mine.values[name] != other.values[name]]
    single = {name for name, value in (*ours.options.items(), *theirs.options.items()) if name not in OPTIONS}
    columns = [name for name in sorted(single) if ours.options.get(name) != theirs.options.get(name)]
    return [*names, *(columns if mine.columns.merging != other.columns.merging else [])]


def _rules(schema: Schema, names: list[str]) -> str:
    values = {**{name: one.type.text(schema.parsed_options.values[name]) for name, one in OPTIONS.items()}, **schema.options}
    return ", ".join(f"{name} = {values.get(name) or 'nothing'}" for name in names)
