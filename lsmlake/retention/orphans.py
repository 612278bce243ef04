"""Removes orphan files: files that lsmlake wrote below a table, that nothing names, and that are older than a limit.

Such files come from killed writers, failed deletions and a dropped table of the same name. Steps:

1. Get the time of the storage's clock, which also dates the files. Remove the pins of dead processes (`refs.pinned`), with the
   files that only they keep.
2. Read every snapshot, changelog, tag and pin (`refs.reachability`). If any metadata is damaged, or of a kind that this version
   does not know, nothing is deleted.
3. List the table. An orphan has a name of lsmlake's form, is older than the limit, and is not referenced. The limit protects
   commits under way, whose files no snapshot references yet: a write must not take longer than the limit.
4. Before each batch of deletions bring Iceberg metadata up to date, so that it references none of the files, and read the
   references again: a file that is referenced meanwhile stays. If the table was dropped, no file is deleted: they may belong to a
   new table.
5. Temporary files of the storage are orphans if they are older than the limit and their writer is dead; the storage knows that.

Schemas, snapshots, marks, consumers and tags of the table are never orphans, nor are the newest metadata files of Iceberg and the
files in their folder that they reference.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.commit.commit import before_deletion
from lsmlake.errors import Corrupt, TableNotFound, UnsupportedFormat
from lsmlake.notebook import Shown
from lsmlake.refs.pinned import remove_old_pins
from lsmlake.refs.reachability import Reachable
from lsmlake.storage.storage import Entry
from lsmlake.tables.version import Metadata

DAY_MS = 86_400_000
_BATCH = 10_000  # listed files that are looked up together
_DELETED_AT_ONCE = 1_000  # between two looks

_FORMS = (
    ("data", re.compile(r"(.+/)?bucket-\d+/data-[^/]+\.parquet", re.DOTALL)),
    ("file index", re.compile(r"(.+/)?bucket-\d+/data-[^/]+\.parquet\.index", re.DOTALL)),
    ("changelog", re.compile(r"(.+/)?bucket-\d+/changelog-[^/]+\.parquet", re.DOTALL)),
    ("retained deletes", re.compile(r"(.+/)?bucket-\d+/deletes-[^/]+\.parquet", re.DOTALL)),
    ("manifest list", re.compile(r"manifest/manifest-list-[^/]+")),
    ("index manifest", re.compile(r"manifest/index-manifest-[^/]+")),
    ("manifest", re.compile(r"manifest/manifest-[^/]+")),
    ("statistics", re.compile(r"manifest/statistics-[^/]+")),
    ("staged rows", re.compile(r"manifest/staged-rows-[^/]+")),
    ("deletion vectors", re.compile(r"index/dv-[^/]+\.puffin")),
    # without another "-": files of other programs have more
    ("Iceberg metadata", re.compile(r"metadata/(snap-\d+-[^-/]+\.avro|manifest-[^-/]+\.avro|dv-\d+-[^-/]+\.puffin)")),
    ("Iceberg metadata", re.compile(r"metadata/v\d+\.metadata\.json")),
)
_BY_UUID = ("schema", "snapshot", "changelog", "consumer", "copied", "tag", "branch")
_DROPPED = "dropped table"
_TEMPORARY = "temporary"


@dataclass(frozen=True)
class OrphanReport(Shown):
    """Orphan files that were removed or, in a dry run, that would be.

    Attributes:
        files: the number of the files.
        bytes: the size of the files.
        kinds: the number of files by kind, such as "data" or "manifest".
        paths: the paths of the files, relative to the warehouse.
        dry_run: whether nothing was removed.
    """

    files: int = 0
    bytes: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)
    paths: tuple[str, ...] = field(default=(), repr=False)
    dry_run: bool = False


def remove_orphan_files(
    meta: Metadata,
    older_than_ms: int | None,
    *,
    dry_run: bool,
    limit: int | None,
    progress: Callable[[str], None] = lambda what: None,
) -> OrphanReport:
    """See `Table.remove_orphan_files`; `meta` may be a branch. Calls `progress` with each snapshot and file that is looked at or
    deleted."""
    meta = meta.on(None)
    now_ms = _now_ms(meta, dry_run=dry_run)
    before_ms = now_ms - DAY_MS if older_than_ms is None else min(older_than_ms, now_ms)
    if not dry_run:
        _remove_old_pins(meta)
    reachable = Reachable(meta, progress)
    _read_all(reachable)
    paths = chain(_orphans(meta, reachable, before_ms, progress), _leftovers(meta, before_ms))
    orphans = list(paths if limit is None else islice(paths, min(limit, sys.maxsize)))
    if dry_run:
        return _report(orphans, dry_run=True)
    removed: list[_Orphan] = []
    for start in range(0, len(orphans), _DELETED_AT_ONCE):
        meta.files.first_schema()
        before_deletion(meta)
        _read_all(reachable)
        batch = _unnamed(reachable, orphans[start : start + _DELETED_AT_ONCE])
        for orphan in batch:
            progress(orphan.entry.path)
        named = [orphan for orphan in batch if orphan.kind != _TEMPORARY]
        meta.env.storage.delete_all([orphan.entry.path for orphan in named])
        left = [orphan for orphan in batch if orphan.kind == _TEMPORARY]
        removed += [*named, *(orphan for orphan in left if meta.env.storage.delete_leftover(orphan.entry.path))]
    return _report(removed, dry_run=False)


@dataclass(frozen=True)
class _Orphan:
    entry: Entry
    kind: str


def _now_ms(meta: Metadata, *, dry_run: bool) -> int:
    """The time of the storage's clock, which dates the hint file when it is written again. A dry run writes nothing and uses the
    clock of this process."""
    latest = meta.snapshots.latest_id()
    if dry_run:
        return meta.env.clock()
    meta.snapshots.hint(latest or 0)
    listed = meta.env.storage.list(meta.paths.snapshots)
    return next((entry.modified_ms for entry in listed if entry.path == meta.paths.latest), meta.env.clock())


def _read_all(reachable: Reachable) -> None:
    """Reads all references. Raises Corrupt, which says that nothing was deleted."""
    try:
        reachable.look()
    except Corrupt as damaged:
        raise Corrupt(
            f"{damaged.what}, so no orphan file can be told from a file that is needed, and none is deleted",
            where=damaged.where,
            expected=damaged.expected,
            found=damaged.found,
            cure=damaged.cure,
        ) from damaged


def _orphans(meta: Metadata, reachable: Reachable, before_ms: int, progress: Callable[[str], None]) -> Iterator[_Orphan]:
    entries = iter(meta.env.storage.list(meta.paths.root))
    _check_folders(meta)
    while batch := list(islice(entries, _BATCH)):
        progress(batch[-1].path)
        old = [_Orphan(entry, kind) for entry in batch if entry.modified_ms < before_ms and (kind := _kind(meta, entry.path))]
        yield from _unnamed(reachable, old)


def _leftovers(meta: Metadata, before_ms: int) -> Iterator[_Orphan]:
    for entry in meta.env.storage.leftovers(meta.paths.root):
        if entry.modified_ms < before_ms:
            yield _Orphan(entry, _TEMPORARY)


def _remove_old_pins(meta: Metadata) -> None:
    remove_old_pins(meta)
    for name, info in meta.branches.all().items():
        with suppress(TableNotFound):  # deleted meanwhile
            remove_old_pins(meta.on(info.named(name)))


def _unnamed(reachable: Reachable, orphans: Sequence[_Orphan]) -> list[_Orphan]:
    named = reachable.names(pa.array([orphan.entry.path for orphan in orphans], pa.string()))
    kept = pc.indices_nonzero(pc.invert(named)).to_pylist()
    return [orphans[place] for place in kept]


def _kind(meta: Metadata, path: str) -> str | None:
    """The kind of a file that may be an orphan; None for all others."""
    inside = path.removeprefix(f"{meta.paths.root}/")
    folder, _, rest = inside.partition("/")
    if folder in _BY_UUID:
        uuid, _, name = rest.partition("/")
        return _DROPPED if name and uuid != meta.paths.table_uuid else None
    return next((kind for kind, form in _FORMS if form.fullmatch(inside)), None)


def _check_folders(meta: Metadata) -> None:
    """Raises UnsupportedFormat if the table has a folder of a kind that this version does not know: its files may name others."""
    storage, uuid = meta.env.storage, meta.paths.table_uuid
    for folder in storage.folders(meta.paths.root):
        inside = f"{meta.paths.root}/{folder}"
        known = folder in (*_BY_UUID, "manifest", "index") or "=" in folder or folder.startswith("bucket-")
        if not known and uuid in storage.folders(inside) and next(iter(storage.list(f"{inside}/{uuid}")), None):
            raise UnsupportedFormat(
                "the table has metadata of a kind that this version of lsmlake does not know, so no orphan file is deleted",
                where=f"{inside}/{uuid}",
                expected=f"one of {', '.join(sorted((*_BY_UUID, 'manifest', 'index')))}",
                found=folder,
                cure="use the version of lsmlake that wrote it",
            )


def _report(orphans: Sequence[_Orphan], *, dry_run: bool) -> OrphanReport:
    return OrphanReport(
        len(orphans),
        sum(orphan.entry.size for orphan in orphans),
        dict(sorted(Counter(orphan.kind for orphan in orphans).items())),
        tuple(orphan.entry.path for orphan in orphans),
        dry_run,
    )
