"""What a compaction does with each of its files: nothing, a new level by metadata, a merge, or dropping it.

1. A file without a live row is dropped.
2. The rest is cut into sections. A section of several runs is merged.
3. A file alone in its section need not be. It moves by metadata (or stays, if it is at the output level), unless
   - its rows must change: too many are dead, it is forced, it holds deletes that end here, or what lies under them in older
     files may change level-0 rows;
   - or it is small and next to something that is rewritten or small as well: then they become one file.
4. Neighbouring sections that are rewritten form one `Rewrite`; a big file that moves ends it, since output files must not reach
   across it.

Deletes end where nothing older can hold their key: at the last level, or, with deletion vectors, anywhere above level 0: what
they deleted is masked, and so are the delete rows of a file that moves by metadata. Then they never force a rewrite.

Source: Apache Paimon, `MergeTreeCompactTask`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from lsmlake.format.files import DataFile
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick.compaction import Compaction
from lsmlake.lsm.sections import Section, sections

SMALL_PERCENT = 70  # of the target: a smaller file is worth joining with its neighbours


@dataclass(frozen=True)
class Upgrade:
    """`file` gets another level; its bytes stay."""

    file: DataFile
    level: int


@dataclass(frozen=True)
class Rewrite:
    """Sections in key order, to be merged one after the other into files of the target size.

    Which of two files is newer is told by `levels.recency`.
    """

    sections: tuple[Section, ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for section in self.sections for file in section.files)


@dataclass(frozen=True)
class Steps:
    """The parts of a compaction's inputs; each file is in exactly one. `kept` files are at the output level and stay as they are.

    `drop_deletes`: the rewrites leave delete rows out.
    """

    upgrades: tuple[Upgrade, ...]
    rewrites: tuple[Rewrite, ...]
    kept: tuple[DataFile, ...]
    dropped: tuple[DataFile, ...]
    drop_deletes: bool


def drops_deletes(output_level: int, highest_level: int, vectors: bool) -> bool:
    """Whether a delete row at `output_level` has nothing left to delete; `highest_level` is that of the whole bucket."""
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
    """Sort the inputs of `compaction`, picked from `levels`, into steps. Pure.

    `vectors`: the table has deletion vectors. `rewrite_level0`: the merge rule may change a level-0 row by what lookup finds
    in older files. `forced`: names of files to rewrite whatever their state, as for expired rows.
    """
    ends_deletes = not vectors and compaction.output_level == compaction.max_level

    def must_rewrite(file: DataFile) -> bool:
        dirty = levels.dead.get(file.name, 0) > compaction.dead_share * file.rows
        return dirty or file.name in forced or (ends_deletes and file.delete_rows > 0) or (rewrite_level0 and file.level == 0)

    def may_move(section: Section) -> bool:
        return len(section.files) == 1 and not must_rewrite(section.files[0])

    def moves(section: Section) -> bool:
        return may_move(section) and section.files[0].bytes * 100 >= target_file_bytes * SMALL_PERCENT

    def is_empty(file: DataFile) -> bool:
        return file.rows <= levels.dead.get(file.name, 0)

    groups = [
        group for part in compaction.parts for group in _groups(sections(file for file in part if not is_empty(file)), moves)
    ]
    moved = [group[0].files[0] for group in groups if len(group) == 1 and may_move(group[0])]
    return Steps(
        upgrades=tuple(Upgrade(file, compaction.output_level) for file in moved if file.level != compaction.output_level),
        rewrites=tuple(Rewrite(group) for group in groups if len(group) > 1 or not may_move(group[0])),
        kept=tuple(file for file in moved if file.level == compaction.output_level),
        dropped=tuple(file for file in compaction.inputs if is_empty(file)),
        drop_deletes=drops_deletes(compaction.output_level, levels.highest_level, vectors),
    )


def _groups(found: Iterable[Section], moves: Callable[[Section], bool]) -> list[tuple[Section, ...]]:
    """Neighbouring sections together, each that `moves` on its own."""
    groups: list[list[Section]] = []
    joining = False
    for section in found:
        alone = moves(section)
        if alone or not joining:
            groups.append([])
        groups[-1].append(section)
        joining = not alone
    return [tuple(group) for group in groups]
