"""Alters a table, or replaces it: makes the next schema, writes files where necessary, and puts both into effect by one commit.

An alteration:

1. Make and check the next schema (`schema.alterations`). Options that decide where rows are stored cannot change once the table
   has rows, and a column becomes NOT NULL only if it has no null.
2. If the files would have other rows under the new options, a default would count for each row of a key, or superseded rows have
   nulls in a column that becomes NOT NULL, compact every bucket in full by the current schema, into one merged run without
   vectors and without level-0 files, which any schema can read. The new merge rule is applied to each merged row, as if it were
   the first row of its key: for example, a column of a sequence group without a sequence becomes null. If the new rule cannot
   merge a row, such as bytes that are not a bitmap under rbm32, refuse the alteration; the table is unchanged.
3. Store the schema, and publish a snapshot that references it, directly after the snapshot of step 1. Until then the schema is
   not in effect. If another commit comes first, start again.

A replacement gives the table other columns, options and rows. Older snapshots stay, each with its own columns. Its next schema is
that of `schema.alterations.altered`; its rows are written to new files under this schema, which only the snapshot of step 3
references. A failure before step 3 leaves the table unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.commit.requirements import Follows, Overtaken
from lsmlake.compact.bucket_compaction import changes_rows
from lsmlake.compact.job import CompactBuckets, Goal
from lsmlake.errors import CommitConflict, InvalidOption, InvalidSchema, SnapshotNotFound
from lsmlake.format import manifest
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.merge.rules import check_new
from lsmlake.options.column_options import PREFIX, SEQUENCE_GROUP
from lsmlake.options.option import Change
from lsmlake.options.option_types import AUTO
from lsmlake.options.renaming import columns_in
from lsmlake.options.table_options import OPTIONS, Options
from lsmlake.predicate.tree import Column, IsNull
from lsmlake.read.aggregate_pushdown import count
from lsmlake.read.fallback import check_altered
from lsmlake.read.plan import RAW, plan
from lsmlake.schema.alterations.altered import additions, altered, replaced
from lsmlake.schema.alterations.draft import Alteration
from lsmlake.schema.defaults import INITIAL, default_of
from lsmlake.schema.evolution import through
from lsmlake.schema.schema import Schema
from lsmlake.storage.concurrency import attempts
from lsmlake.tables.version import Metadata, Version
from lsmlake.types import column_types
from lsmlake.write.order import Ordered
from lsmlake.write.replace import Overwrite
from lsmlake.write.write import new_files

RESCALE = "rescale"
"""The property of a snapshot that says what a rescale would do, after `bucket` was altered."""


def alter(
    meta: Metadata,
    name: str,
    alterations: Sequence[Alteration],
    compactions: Callable[[Schema], CompactBuckets],
    only_if: Callable[[Schema], Sequence[Alteration]] | None = None,
) -> Snapshot | None:
    """See `Table.alter`.

    Args:
        meta: the table.
        name: its name, for messages.
        alterations: the alterations, in order.
        compactions: returns the function that compacts buckets by a schema.
        only_if: returns further alterations, given the schema in effect; called again after a conflict.
    """
    for version in versions(meta, name, "alter"):
        old = version.schema
        wanted = [*alterations, *(only_if(old) if only_if else ())]
        new = altered(old, wanted, meta.schemas.ids()[-1] + 1, meta.env.clock(), name)
        if replace(new, id=old.id, time_ms=old.time_ms, highest_field_id=old.highest_field_id) == old and _fields_equal(new, old):
            return None
        check_new(new, name)
        _check_view(old, new, name)
        _check_fixed(version, name, new)
        check_altered(version, new, name)
        _check_partitions(version, name, new)
        settling = _settling(version, new, name, _check_no_nulls(version, name, new))
        try:
            with version.unless_expired():
                messages = compactions(old)(list(version.states().values()), Goal(True, settling.becoming)) if settling else []
        except SnapshotNotFound:  # other commits have expired the snapshot
            continue
        remade = settling is not None and settling.remade
        left = _left_to_rescale(version, new)
        request = Request(
            Identity(meta.env.ids()), messages, (Follows(version.number),), remade=remade, schema=new, properties=left
        )
        if published := succeed(version, request):
            return published


def evolve(
    version: Version, name: str, data: pa.Schema, ignored: Collection[str], compactions: Callable[[Schema], CompactBuckets]
) -> Version:
    """Adds the columns of written data that the table lacks; returns the version to write to.

    Args:
        version: the table.
        name: its name, for messages.
        data: the columns of the data.
        ignored: columns that are not stored, such as the column with the row kinds.
        compactions: see `alter`.
    """
    if not additions(data, version.schema, ignored):
        return version
    alter(version.meta, name, (), compactions, lambda schema: additions(data, schema, ignored))
    return Version.latest(version.meta)


def becoming(version: Version, name: str, data: pa.Schema) -> Version:
    """The version that `evolve` would return, without a commit, for checks before a statement runs."""
    added = additions(data, version.schema)
    if not added:
        return version
    return replace(version, schema=altered(version.schema, added, version.schema.id, version.meta.env.clock(), name))


def _fields_equal(new: Schema, old: Schema) -> bool:
    return new.columns.equals(old.columns, check_metadata=True)


class _Settling(NamedTuple):
    """A full compaction under the old schema before the new one comes into effect. `becoming`: the new options, with the old
    columns. `remade`: visible rows may change."""

    becoming: Schema
    remade: bool


def _settling(version: Version, new: Schema, name: str, superseded_nulls: bool) -> _Settling | None:
    """The rewrite of files that would have other rows under the schema `new`, or whose superseded rows have nulls in its NOT NULL
    columns; None if there are no such files."""
    old = version.schema
    if version.snapshot is None:
        return None
    becoming = _without_new_columns(new, old, name)
    changed = not old.append_only and must_settle(old.parsed_options, becoming.parsed_options)
    if not changed and not superseded_nulls and not _multiplies_default(old, new):
        return None
    return _Settling(becoming, changes_rows(old, becoming) or old.parsed_options.retention.rows_ms is not None)


def must_settle(old: Options, new: Options) -> bool:
    """Whether files written under `old` have other rows under `new`, or report changes at another time."""
    return old.meaning != new.meaning


def _multiplies_default(old: Schema, new: Schema) -> bool:
    """Whether `new` adds a column with a default that would count once for each stored row of a key, not once for the key."""
    if not new.combines_rows:
        return False
    defaults = (default_of(field, INITIAL) for field in new.columns if column_types.field_id(field) > old.highest_field_id)
    return any(value is not None and value.is_valid for value in defaults)


def _without_new_columns(new: Schema, old: Schema, name: str) -> Schema:
    """The schema `new` with the columns of `old`, and without the aggregate functions of columns that `old` lacks, for rows that
    do not have them yet. Raises InvalidOption for other options that name such columns."""
    becoming, old_ids = through(new, old), {column_types.field_id(field) for field in old.columns}
    added = {field.name for field in becoming.columns} - {field.name for field in old.columns}
    if not added:
        return becoming
    lacking = {field.name for field in new.columns if column_types.field_id(field) not in old_ids}
    naming_lacking = [option for option, value in new.options.items() if columns_in(option, value) & lacking]
    if other := sorted(each for each in naming_lacking if not each.startswith(PREFIX) or each.endswith(SEQUENCE_GROUP)):
        raise InvalidOption(
            "an option orders or groups the rows that there are by a column that is added with it",
            where=name,
            found=", ".join(other),
            cure="add the column by one alteration, and set the option by the next",
        )
    return replace(
        becoming,
        columns=old.columns,
        options={option: value for option, value in becoming.options.items() if not columns_in(option, value) & added},
    )


def _check_view(old: Schema, new: Schema, name: str) -> None:
    """Raises InvalidSchema if a view table would get other columns, keys or partitions: those follow from its query."""
    same = old.primary_key == new.primary_key and old.partitioning == new.partitioning
    if old.view is not None and not (same and _typed_equal(new, old)):
        raise InvalidSchema(
            "the columns of a view table are those of its query",
            where=name,
            expected=", ".join(old.shown),
            found=", ".join(new.shown),
            cure="write CREATE OR REPLACE MATERIALIZED VIEW with another query",
        )


def _typed_equal(new: Schema, old: Schema) -> bool:
    return new.columns.equals(old.columns)


def _check_fixed(version: Version, name: str, new: Schema) -> None:
    """Raises InvalidOption if an option changes although it must not change once the table has rows."""
    fixed = {option: facts.type for option, facts in OPTIONS.items() if facts.change is Change.WHILE_EMPTY}
    before, after = through(version.schema, new).parsed_options.values, new.parsed_options.values
    changed = [option for option in fixed if before[option] != after[option]]
    if not changed or version.snapshot is None or not version.entries().num_rows:
        return
    raise InvalidOption(
        f"{' and '.join(changed)} can change only while the table has no rows",
        where=name,
        expected=", ".join(f"{option} = {fixed[option].text(before[option]) or 'nothing'}" for option in changed),
        found=", ".join(f"{option} = {fixed[option].text(after[option]) or 'nothing'}" for option in changed),
        cure="create a table with these options and upsert the rows of this one into it",
    )


def _left_to_rescale(version: Version, new: Schema) -> dict[str, str]:
    """The note of the snapshot if another number of buckets is set: existing partitions keep their buckets."""
    buckets = new.parsed_options.layout.buckets
    if version.options.layout.buckets == buckets or buckets == AUTO or version.snapshot is None:
        return {}
    other = version.meta.manifests.covers(version.snapshot, new).by_partition
    if not other:
        return {}
    entries = version.entries()
    codes = manifest.partition_codes(entries, version.schema)
    _, first = np.unique(codes, return_index=True)
    partitions = manifest.partitions_of(entries.take(pa.array(first)), version.schema)
    kept = np.array([partition in other for partition in partitions])[codes]
    rows = int(entries["rows"].to_numpy()[kept].sum())
    kept_by = f"{len(other):,} {'partition keeps its' if len(other) == 1 else 'partitions keep their'} buckets"
    return {RESCALE: f"{kept_by}; a rescale to {buckets} would write {rows:,} rows again"}


def _check_partitions(version: Version, name: str, new: Schema) -> None:
    """Raises InvalidSchema if existing keys would be in other partitions. Append-only tables keep their files under the partition
    spec that they were written under."""
    old = version.schema
    if new.append_only or new.spec_id == old.spec_id or version.snapshot is None:
        return
    if new.key == old.key and not version.entries().num_rows:
        return
    raise InvalidSchema(
        "the partitions of a table with a primary key can change only while the table has no rows",
        where=name,
        expected=f"partitions {list(old.partition_by)}",
        found=f"{list(new.partition_by)}: the rows of a key would be in two partitions",
        cure="create a table with these partitions and upsert the rows of this one into it",
    )


def _check_no_nulls(version: Version, name: str, new: Schema) -> bool:
    """Returns whether a column that becomes NOT NULL has a null that only readers of mode 'raw' see: in a row that level 0
    supersedes. Raises InvalidSchema if it has a null that all readers see. Reads the column only if statistics do not prove that
    it has no null."""
    superseded = False
    nullable = {column_types.field_id(field): field for field in version.schema.columns if field.nullable}
    for field in new.columns:
        old = None if field.nullable else nullable.get(column_types.field_id(field))
        if old is None or version.snapshot is None:
            continue
        counted = version.live()[f"n:{column_types.field_id(field)}"]
        if not counted.null_count and not pc.sum(counted).as_py():
            continue
        is_null = IsNull(Column((old.name,), column_types.plain(old.type)))
        superseded = superseded or count(plan(version, is_null, mode=RAW)) > 0
        if nulls := count(plan(version, is_null)):
            raise InvalidSchema(
                f"column {field.name!r} cannot become NOT NULL",
                where=name,
                expected="no null in any row",
                found=f"{nulls} nulls",
                cure=f"upsert values for the rows where {old.name} IS NULL",
            )
    return superseded


# -- replacing a table ------------------------------------------------------------------------------------------------


def replace_table(
    meta: Metadata, name: str, wanted: Callable[[int, str], Schema], tables: Sequence[pa.Table], ordered: Ordered = Ordered.ALL
) -> Snapshot:
    """Replaces a table.

    Args:
        meta: the table.
        name: its name, for messages.
        wanted: makes the schema, as if for a new table, given the time in milliseconds and the uuid of the table.
        tables: the rows.
        ordered: whether the rows of a key have an order.

    Raises:
        InvalidSchema: no table can have this schema, or this table cannot get it.
        InvalidData: a row does not fit. Nothing has changed.
        CommitConflict: other commits came first on every attempt.
    """
    for version in versions(meta, name, "replace"):
        time_ms = meta.env.clock()
        first = wanted(time_ms, version.schema.table_uuid)
        schema = replaced(version.schema, first, meta.schemas.ids()[-1] + 1, time_ms, name)
        check_new(schema, name)
        check_altered(version, schema, name)
        after = replace(version, schema=schema)
        messages = new_files(after, tables, ordered)
        overwrite, requires = Overwrite(messages, choose=list), (Follows(version.number),)
        request = Request(Identity(meta.env.ids()), messages, requires, overwrite.restate, remade=True, schema=schema)
        if published := succeed(after, request):
            return published


# -- publishing the next schema ---------------------------------------------------------------------------------------


_ROUNDS = 5


def versions(meta: Metadata, name: str, doing: str) -> Iterator[Version]:
    """Yields the newest version of the table, once for each attempt to publish after it.

    Raises:
        CommitConflict: other commits were published first on every attempt. `doing`: the verb to repeat, for the cure, such as
            "alter".
    """
    cure = f"pause the writers of the table and {doing} it again"
    for _ in attempts(_ROUNDS, "other commits came first on every attempt", name, cure):
        yield Version.latest(meta)


def succeed(version: Version, request: Request) -> Snapshot | None:
    """Stores the schema of a request and publishes the request. Returns None if another commit or alteration came first; the
    files of its messages are then deleted."""
    meta, stored = version.meta, False
    try:
        stored = meta.schemas.put(request.schema)
    finally:
        if not stored:
            meta.files.discard(request.messages)
    if not stored:
        return None
    try:
        return commit(version, request).snapshot
    except (CommitConflict, Overtaken):
        meta.files.delete_quietly([meta.paths.schema(request.schema.id)])
        return None
