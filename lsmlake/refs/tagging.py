"""Creates, replaces, renames and deletes tags; computes the names and times of automatic tags.

1. Pin the snapshot (`refs.pinned`), which proves that it is retained or tagged.
2. Write the tag. Unpin the snapshot.
3. If a tag was replaced or deleted: delete the files that only it needed (`refs.file_references`).

A crash leaves a pin or files that nothing needs, never a tag whose files are missing.

The period of automatic tags is a day, two hours or an hour in UTC, so that all writers of a table agree on it, whatever their
time zone. The tag of a period is named after its start. The first commit after the end of a period, and after the delay, creates
the tag; it tags the snapshot of that commit. A tag that a user gave such a name is no automatic tag. Source of the rules: Apache
Paimon, `TagAutoCreation` and `TagPeriodHandler`.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from lsmlake.commit.commit import after_tag
from lsmlake.errors import Corrupt, InvalidOption, InvalidQuery, StorageFailed, Wording
from lsmlake.format.paths import MAIN
from lsmlake.format.snapshot import Snapshot
from lsmlake.format.tag import Tag
from lsmlake.notebook import Shown
from lsmlake.options.option_types import duration
from lsmlake.options.retention_options import DAILY, PERIODS_MS, WITH_DASHES, WITHOUT_DASHES, TagOptions
from lsmlake.options.table_options import Options
from lsmlake.read.travel import Moment, resolve
from lsmlake.refs.file_references import delete, files_of, unused
from lsmlake.refs.pinned import pinned, release
from lsmlake.tables.version import Metadata

_TAKEN = Wording(
    "create_tag(..., replace=True) replaces it, or choose another name",
    command="`lsmlake tag TABLE --create NAME --replace` replaces it, or choose another name",
    sql="write CALL create_tag with replace => true, or choose another name",
)
_RETAIN = Wording("correct retain", command="correct --retain")
_RETAIN_MAX_MS = 1 << 50


@dataclass(frozen=True)
class TagReport(Shown):
    """The tags that were deleted, and the number of files deleted with them.

    Attributes:
        tags: the names of the tags.
        files: how many files were deleted, of any kind; with `dry_run`, how many would be.
        left: tag -> why its files were not deleted.
    """

    tags: tuple[str, ...] = ()
    files: int = 0
    left: Mapping[str, str] = field(default_factory=dict)


def create_tag(
    meta: Metadata, name: str, moment: Moment, zone: str, retain: str | datetime.timedelta | None, *, replacing: bool
) -> Tag:
    """Gives the snapshot of a moment a name.

    Args:
        meta: the table.
        name: the name of the tag.
        moment: which snapshot; by default the latest.
        zone: the time zone of a timestamp without a zone.
        retain: how long the tag is kept; None: as the options of the table say.
        replacing: whether to replace a tag of that name.

    Raises:
        InvalidQuery: an argument is not valid, the name is taken, or the table has no snapshot.
        SnapshotNotFound: the snapshot has expired.
    """
    retain_ms = None if retain is None else _milliseconds(retain)
    snapshot = resolve(meta, moment, zone)
    if snapshot is None:
        raise InvalidQuery("the table has no snapshot that could be tagged", where=meta.paths.root, cure="write to it first")
    options = meta.schemas.of(meta.snapshots.latest()).parsed_options
    retain_ms = options.tags.retained_ms if retain_ms is None else retain_ms
    return tag_snapshot(meta, name, snapshot, retain_ms, options, replacing=replacing)


def tag_snapshot(
    meta: Metadata,
    name: str,
    snapshot: Snapshot,
    retain_ms: int | None,
    options: Options,
    *,
    replacing: bool = False,
    automatic: bool = False,
) -> Tag:
    """Gives a snapshot a name.

    Args:
        meta: the table.
        name: the name of the tag.
        snapshot: a retained or tagged snapshot.
        retain_ms: how long the tag is kept; None: until it is deleted.
        options: those of the table now, for the followers.
        replacing: whether to replace a tag of that name, if there is one.
        automatic: whether a commit creates the tag.

    Raises:
        InvalidQuery: the name is not valid, or it is taken.
        SnapshotNotFound: the snapshot has expired.
    """
    _check_new(meta, name)
    tag = Tag(name, snapshot, meta.env.clock(), retain_ms, automatic)
    before = _readable(meta, name) if replacing else None
    if automatic and before is not None and not before.automatic:
        what = "a tag that no commit created has the name of an automatic tag"
        raise InvalidQuery(what, where=meta.paths.root, found=repr(name), cure="rename it, or delete it")
    _put(meta, tag, replacing=replacing)
    if before is not None and before.snapshot != snapshot:
        release(meta, before.snapshot)
    after_tag(meta, tag, options)
    return tag


def rename_tag(meta: Metadata, name: str, to: str) -> Tag:
    """Gives a tag another name. An automatic tag then is one that stays.

    Raises:
        InvalidQuery: the new name is not valid, or it is taken.
        SnapshotNotFound: there is no tag of that name.
    """
    _check_new(meta, to)
    renamed = replace(meta.tags.get(name), name=to, automatic=False)
    if name != to:
        _put(meta, renamed)
        meta.tags.remove(name)
    return renamed


def delete_tag(meta: Metadata, name: str, *, dry_run: bool = False) -> TagReport:
    """Deletes a tag, and the files that only it needs. Raises SnapshotNotFound if there is no tag of that name."""
    if not meta.tags.exists(name):
        meta.files.first_schema()
        raise meta.tags.missing(name)
    return delete_tags(meta, [name], dry_run=dry_run)


def delete_tags(meta: Metadata, names: Collection[str], *, dry_run: bool = False) -> TagReport:
    """Deletes tags one after the other, and the files that only they need. A tag that does not exist is skipped."""
    deleted, files, left = [], 0, {}
    for name in names:
        try:
            tag = meta.tags.read(name)
            needed = None if tag is None else files_of(meta, tag.snapshot)
        except Corrupt as damaged:
            if not meta.tags.exists(name):  # another program has deleted it
                continue
            tag, needed, left[name] = None, None, str(damaged)
        if tag is None and name not in left:
            continue
        deleted.append(name)
        if not dry_run:
            meta.tags.remove(name)
        if tag is not None:
            try:
                paths = unused(meta, tag.snapshot, needed, deleted)
                files += len(paths) if dry_run else delete(meta, paths)
            except Corrupt as damaged:
                left[name] = str(damaged)
    return TagReport(tuple(deleted), files, left)


def _check_new(meta: Metadata, name: str) -> None:
    """Raises InvalidQuery if a tag cannot get this name. Readers of Iceberg take `main` for the table itself."""
    meta.paths.tag(name)
    if name == MAIN:
        expected = f"a name other than {MAIN!r}, which is the name of the table among its branches"
        raise InvalidQuery(
            "not the name of a tag", where=meta.paths.root, expected=expected, found=repr(name), cure="choose another name"
        )


def _put(meta: Metadata, tag: Tag, *, replacing: bool = False) -> None:
    """Does steps 1 and 2."""

    def undo() -> None:
        if meta.tags.read(tag.name) == tag:  # otherwise another program has replaced it
            meta.tags.remove(tag.name)

    with pinned(meta, tag.snapshot, (StorageFailed,), undo):
        if replacing:
            meta.tags.replace(tag)
        elif not meta.tags.put(tag):
            raise InvalidQuery("the name of the tag is taken", where=meta.paths.root, found=repr(tag.name), cure=_TAKEN)


def _readable(meta: Metadata, name: str) -> Tag | None:
    """A tag; None if there is none, or if its file is damaged."""
    try:
        return meta.tags.read(name)
    except Corrupt:
        return None


def _milliseconds(retain: str | datetime.timedelta) -> int:
    try:
        if isinstance(retain, datetime.timedelta):
            milliseconds = retain // datetime.timedelta(milliseconds=1)
        else:
            milliseconds = duration.parse("retain", retain, "retain")
    except (InvalidOption, OverflowError):
        milliseconds = 0
    if not 0 < milliseconds <= _RETAIN_MAX_MS:
        raise InvalidQuery(
            "not a duration for which a tag can be kept", expected="such as '7 d' or '12 h'", found=repr(retain), cure=_RETAIN
        )
    return milliseconds


# -- the calendar of automatic tags -----------------------------------------------------------------------------------


_EPOCH = datetime.datetime(1970, 1, 1)
_MILLISECOND = datetime.timedelta(milliseconds=1)


@dataclass(frozen=True)
class TagCalendar:
    """The names and times of automatic tags. Times are milliseconds since the epoch.

    Attributes:
        period_ms: the length of a period.
        form: the format of names, for `strftime`.
        delay_ms: how long after the end of a period its tag is created.
        completes: whether the tags of periods without a commit are created later.
    """

    period_ms: int
    form: str
    delay_ms: int
    completes: bool

    @staticmethod
    def of(options: TagOptions) -> TagCalendar:
        day, hour = "%Y-%m-%d" if options.formatter == WITH_DASHES else "%Y%m%d", "%H"
        gap = " " if options.formatter in (WITH_DASHES, WITHOUT_DASHES) else ""
        form = day if options.period == DAILY else f"{day}{gap}{hour}"
        return TagCalendar(PERIODS_MS[options.period], form, options.delay_ms, options.completion)

    def name(self, start_ms: int) -> str:
        """The name of the tag of the period that starts at this time."""
        return (_EPOCH + start_ms * _MILLISECOND).strftime(self.form)

    def start(self, name: str) -> int | None:
        """The start of the period of this name; None if no automatic tag has such a name."""
        try:
            start = (datetime.datetime.strptime(name, self.form) - _EPOCH) // _MILLISECOND
        except ValueError:
            return None
        return start if self.name(start) == name else None

    def of_form(self, names: Iterable[str]) -> list[str]:
        """Returns those of `names` that automatic tags can have, in order of time."""
        started = ((self.start(name), name) for name in names)
        return [name for _, name in sorted((start, name) for start, name in started if start is not None)]

    def due(self, last: str | None, names: Container[str], time_ms: int) -> str | None:
        """The name of the tag that is due at a commit; if it is one of `names`, there is none to create.

        Args:
            last: the newest automatic tag; None: there is none.
            names: the names of all tags.
            time_ms: the time of the commit.
        """
        if time_ms < self.next_due_ms(last):
            return None
        previous = time_ms // self.period_ms * self.period_ms - self.period_ms
        start = None if last is None else self.start(last)
        if not self.completes or start is None:
            return self.name(previous)
        missed = range(start + self.period_ms, previous, self.period_ms)
        return next((name for name in map(self.name, missed) if name not in names), self.name(previous))

    def next_due_ms(self, last: str | None) -> int:
        """The time before which commits create no tag; `last` as for `due`."""
        start = None if last is None else self.start(last)
        return 0 if start is None else start + 2 * self.period_ms + self.delay_ms
