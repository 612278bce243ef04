"""Plans the steps of a picked compaction: each input file is kept, moved by metadata, rewritten or dropped.

1. A file without live rows is dropped.
2. The other files are partitioned into sections. A section of several runs is merged.
3. A file that is alone in its section moves by metadata (or is kept, if it is at the output level), unless
   - its rows must change: too many are deleted, it is forced, its delete rows must be dropped, it is not sorted, or it is a
     level-0 file and the merge rule may merge its rows with older ones;
   - or it is small and next to a section that is rewritten or small as well: then they are merged into one file. Small files of
     one level-0 run move nevertheless, if they have no other neighbours: a writer has divided the run to encode it by several
     threads, and to merge them would encode it again.
4. Neighbouring sections to rewrite form one `Rewrite`. A big file that moves ends it, because the key range of an output file
   must not span that of the moved file.

A delete row is dropped where no older row of its key can exist: at the last level, or with deletion vectors at any level other
than 0, because the compaction marks the rows it deleted. With vectors, a file that moves by metadata gets its delete rows marked
as well, so delete rows never force a rewrite.

Source: Apache Paimon, `MergeTreeCompactTask`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from lsmlake.format.data_files import DataFile
from lsmlake.lsm.levels import Levels, Section, recency, sections
from lsmlake.lsm.pick.picked import Compaction

SMALL_PERCENT = 70  # of the target size: a smaller file is merged with its neighbours


@dataclass(frozen=True)
class Upgrade:
    """Moves `file` to another level by metadata only."""

    file: DataFile
    level: int


@dataclass(frozen=True)
class Rewrite:
    """Merges sections, in key order, into files of the target size. `levels.recency` decides which of two files is newer."""

    sections: tuple[Section, ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for section in self.sections for file in section.files)


@dataclass(frozen=True)
class Steps:
    """The inputs of a compaction by step; each file is in exactly one. `kept` files are at the output level and do not change.

    `drop_deletes`: the rewrites drop delete rows.
    """

    upgrades: tuple[Upgrade, ...]
    rewrites: tuple[Rewrite, ...]
    kept: tuple[DataFile, ...]
    dropped: tuple[DataFile, ...]
    drop_deletes: bool


def drops_deletes(output_level: int, highest_level: int, vectors: bool) -> bool:
    """Whether a delete row can be dropped at `output_level`, given the deepest level of the bucket that holds files."""
    return output_level > 0 and (vectors or output_level >= highest_level)


def plan_task(
    compaction: Compaction,
    levels: Levels,
    *,
    target_file_bytes: int,
    vectors: bool,
    rewrite_level0: bool = False,
    forced: Collection[str] = (),
) -> Steps:
    """Plans the steps of `compaction`, which was picked from `levels`. Pure.

    Args:
        compaction: The picked compaction.
        levels: The bucket.
        target_file_bytes: Target size of an output file.
        vectors: True if the table has deletion vectors.
        rewrite_level0: True if the merge rule may merge a level-0 row with the old row that the lookup finds.
        forced: Names of files to rewrite in any case, for example files with expired rows.
    """
    rewrite_deletes = not vectors and compaction.output_level == compaction.max_level

    def must_rewrite(file: DataFile) -> bool:
        dirty = levels.dead.get(file.name, 0) > compaction.dead_share * file.rows or not file.sorted
        return dirty or file.name in forced or (rewrite_deletes and file.delete_rows > 0) or (rewrite_level0 and file.level == 0)

    def may_move(section: Section) -> bool:
        return len(section.files) == 1 and not must_rewrite(section.files[0])

    def moves(section: Section) -> bool:
        return may_move(section) and section.files[0].bytes * 100 >= target_file_bytes * SMALL_PERCENT

    def is_empty(file: DataFile) -> bool:
        return file.rows <= levels.dead.get(file.name, 0)

    def is_one_run(group: tuple[Section, ...]) -> bool:
        files = [file for section in group for file in section.files]
        return all(map(may_move, group)) and files[0].level == 0 and len({recency(file) for file in files}) == 1

    groups = [
        group
        for part in compaction.parts
        for neighbours in _groups(sections(file for file in part if not is_empty(file)), moves)
        for group in (zip(neighbours) if is_one_run(neighbours) else [neighbours])
    ]
    moved = [group[0].files[0] for group in groups if len(group) == 1 and may_move(group[0])]
    return Steps(
        upgrades=tuple(Upgrade(file, compaction.output_level) for file in moved if file.level != compaction.output_level),
        rewrites=tuple(Rewrite(group) for group in groups if len(group) > 1 or not may_move(group[0])),
        kept=tuple(file for file in moved if file.level == compaction.output_level),
        dropped=tuple(file for file in compaction.inputs if is_empty(file)),
        drop_deletes=drops_deletes(compaction.output_level, levels.highest_level, vectors),
    )


def _groups(sections: Iterable[Section], moves: Callable[[Section], bool]) -> list[tuple[Section, ...]]:
    """Groups neighbouring sections; a section for which `moves` is true is a group of its own."""
    groups: list[list[Section]] = []
    joining = False
    for section in sections:
        alone = moves(section)
        if alone or not joining:
            groups.append([])
        groups[-1].append(section)
        joining = not alone
    return [tuple(group) for group in groups]
