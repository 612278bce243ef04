"""Alters a table: derives the next schema, rewrites files where necessary, and puts both into effect by one commit.

1. Make and check the next schema. Options that decide where rows are stored cannot change once the table has rows.
2. If the files mean other rows under the new options, compact every bucket in full by the current schema, into one merged run
   without vectors and without level-0 files, which any schema can read. The new merge rule is applied to each merged row, as if
   it were the first row of its key: for example, a column of a sequence group without a sequence becomes null. If the new rule
   cannot merge a row, such as bytes that are not a bitmap under rbm32, refuse the alteration; the table is unchanged.
3. Store the schema, and publish a snapshot that references it, directly after the snapshot of step 1. Until then the schema is
   not in effect. If another commit comes first, start again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from lsmlake.border import public
from lsmlake.commit.commit import Succession, commit
from lsmlake.commit.replay import Identity
from lsmlake.compact.bucket import changes_rows
from lsmlake.compact.job import CompactBuckets, Goal
from lsmlake.errors import CommitConflict, CommitUnknown, InvalidOption, LakeError, SnapshotNotFound
from lsmlake.format.files import CommitMessage
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.options.option import Change
from lsmlake.options.table_options import OPTIONS, Options, check_name
from lsmlake.schema.schema import Schema
from lsmlake.store.metadata import Metadata
from lsmlake.store.version import Version

_ROUNDS = 5


class Alteration(NamedTuple):
    """A new value of an option. None resets it to its default."""

    option: str
    value: object | None


@public
def set_option(name: str, value: str | int | float | bool | Sequence[str]) -> Alteration:
    """For `Table.alter`: set an option of the table.

    Args:
        name: the name of the option.
        value: the value, or its text, such as "128 mb".
    """
    return Alteration(name, value)


@public
def unset_option(name: str) -> Alteration:
    """For `Table.alter`: reset an option to its default."""
    return Alteration(name, None)


def alter(
    meta: Metadata, name: str, alterations: Sequence[Alteration], compactions: Callable[[Schema], CompactBuckets]
) -> Snapshot | None:
    """See `Table.alter`. `compactions` returns the function that compacts buckets by a schema."""
    for _ in range(_ROUNDS):
        version = Version.latest(meta)
        latest, old = version.snapshot, version.schema
        options = _altered(old.options, alterations, name)
        new = old.with_options(options, meta.schema_ids()[-1] + 1, meta.env.clock(), name)
        if new.options == old.options:
            return None
        rule_of(new, name)
        _check_fixed(version, name, new)
        settling = latest is not None and must_settle(old.parsed_options, new.parsed_options)
        remade = settling and (changes_rows(old, new) or old.parsed_options.retention.rows_ms is not None)
        try:
            with version.unless_expired():
                messages = compactions(old)(list(version.states().values()), Goal(True, new)) if settling else []
        except SnapshotNotFound:  # other commits have expired it
            continue
        succession = Succession(new, version.number, remade)
        if published := _publish(version, messages, succession):
            return published
    raise CommitConflict(
        "other commits came first on every attempt",
        where=name,
        found=f"{_ROUNDS} attempts",
        cure="pause the writers of the table and alter it again",
    )


def must_settle(old: Options, new: Options) -> bool:
    """Whether files written under `old` mean other rows under `new`, or report changes at another time."""
    return old.meaning != new.meaning


def _altered(options: Mapping[str, str], alterations: Sequence[Alteration], name: str) -> dict[str, object]:
    changed: dict[str, object] = dict(options)
    for alteration in alterations:
        if not isinstance(alteration, Alteration):
            raise InvalidOption(
                "not an alteration",
                where=name,
                expected="lsmlake.set_option(name, value) or lsmlake.unset_option(name)",
                found=repr(alteration),
                cure="pass alterations of options; this release supports no others",
            )
        check_name(alteration.option, name)
        if alteration.value is None:
            changed.pop(alteration.option, None)
        else:
            changed[alteration.option] = alteration.value
    return changed


def _check_fixed(version: Version, name: str, new: Schema) -> None:
    """Raises InvalidOption if an option changes that must not change once the table has rows."""
    old = version.schema
    fixed = {option: facts.type for option, facts in OPTIONS.items() if facts.change is Change.WHILE_EMPTY}
    before, after = old.parsed_options.values, new.parsed_options.values
    changed = [option for option in fixed if before[option] != after[option]]
    if not changed or version.snapshot is None or not version.live().num_rows:
        return
    raise InvalidOption(
        f"{' and '.join(changed)} can change only while the table has no rows",
        where=name,
        expected=", ".join(f"{option} = {fixed[option].text(before[option]) or 'nothing'}" for option in changed),
        found=", ".join(f"{option} = {fixed[option].text(after[option]) or 'nothing'}" for option in changed),
        cure="create a table with these options and upsert the rows of this one into it",
    )


def _publish(version: Version, messages: Sequence[CommitMessage], succession: Succession) -> Snapshot | None:
    """Store and publish the new schema; returns None if another commit or alteration came first."""
    stored, meta = False, version.meta
    try:
        stored = meta.put_schema(succession.schema)
    finally:
        if not stored:
            meta.discard(messages)
    if not stored:
        return None
    try:
        return commit(version, messages, Identity(meta.env.ids()), succession=succession).snapshot
    except CommitUnknown:
        raise
    except LakeError as failed:
        meta.delete_quietly([meta.paths.schema(succession.schema.id)])
        if isinstance(failed, CommitConflict):
            return None
        raise
