"""The options of a table, in groups, parsed once into frozen values.

Each option is declared as data in the module of its group; this module collects them. Unknown, malformed or contradictory options
are refused when the table is created or altered, never ignored.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_type_hints

from lsmlake.errors import InvalidOption, Wording
from lsmlake.options import column_options, option_rules
from lsmlake.options.callback_options import CallbackOptions
from lsmlake.options.changelog_options import ChangelogOptions
from lsmlake.options.column_options import PREFIX, ColumnOptions, parse_column_option
from lsmlake.options.compaction_options import UNIVERSAL, UNIVERSAL_ONLY, AppendOptions, CompactionOptions
from lsmlake.options.data_file_options import NOT_BUILT, DataFileOptions, IndexOptions, LayoutOptions
from lsmlake.options.history_options import HistoryOptions
from lsmlake.options.iceberg_options import IcebergOptions
from lsmlake.options.maintain_options import MaintainOptions
from lsmlake.options.merge_options import DEDUPLICATE, FIRST_ROW, PARTIAL_UPDATE, MergeOptions
from lsmlake.options.option import Change, Only, Option, Tables, Values, When, options_of
from lsmlake.options.option_types import CURE
from lsmlake.options.partition_options import PartitionOptions
from lsmlake.options.retention_options import RetentionOptions, TagOptions
from lsmlake.options.write_options import CommitOptions, IsolationOptions, ReadOptions, WriteOptions


@dataclass(frozen=True)
class Options:
    """The options of a table. Sizes are in bytes, durations in milliseconds; None: off."""

    layout: LayoutOptions
    merge: MergeOptions
    write: WriteOptions
    isolation: IsolationOptions
    read: ReadOptions
    files: DataFileOptions
    index: IndexOptions
    compaction: CompactionOptions
    appends: AppendOptions
    changelog: ChangelogOptions
    retention: RetentionOptions
    tags: TagOptions
    partitions: PartitionOptions
    commit: CommitOptions
    iceberg: IcebergOptions
    maintain: MaintainOptions
    history: HistoryOptions
    callbacks: CallbackOptions
    columns: ColumnOptions

    @cached_property
    def values(self) -> Values:
        """Option name -> value in effect, for all options except those of single columns."""
        return {
            name: getattr(getattr(self, group), attribute)
            for group, members in _MEMBERS.items()
            for attribute, name in members.items()
        }

    @cached_property
    def meaning(self) -> tuple[object, ...]:
        """The values that decide which rows the files of a table represent, and when readers of changes see them."""
        decisive = [(name, option.matters) for name, option in OPTIONS.items() if option.change is not Change.ANY_TIME]
        return (*(matters(self.values) if matters else self.values[name] for name, matters in decisive), self.columns.merging)

    @staticmethod
    def parse(given: Mapping[str, object], where: str = "table options", *, keyed: bool = True) -> Options:
        """Parses options by name; values are text as in SQL, or Python values. `keyed`: the table has a primary key. Raises
        InvalidOption."""
        if not keyed and (named := next(filter(column_options.is_about_merging, given), None)):
            raise _of_other_tables(named, Tables.KEYED, where)
        single = tuple(parse_column_option(name, value, where) for name, value in given.items() if name.startswith(PREFIX))
        parsed: dict[str, Any] = {}
        for name in (name for name in given if not name.startswith(PREFIX)):
            option = _named(name, where)
            if option.name in parsed:
                raise InvalidOption(
                    f"option {option.name!r} is given twice", where=where, found=sorted(given), cure="leave one of the names out"
                )
            if not option.tables.include(keyed):
                raise _of_other_tables(name, option.tables, where)
            parsed[option.name] = option.type.parse(name, given[name], where, _CURES.get(name, CURE))
        if any(UNIVERSAL_ONLY in OPTIONS[name].only for name in parsed):
            parsed.setdefault("compaction.strategy", UNIVERSAL)
        values = option_rules.adjusted({name: option.default for name, option in OPTIONS.items()} | parsed, parsed)
        for name, option in OPTIONS.items():
            if option.derived and name not in parsed:
                values[name] = option.derived(values)
        option_rules.check(((name, _conditions(name)) for name in given), values, OPTIONS, where, keyed=keyed)
        made = {
            group: of(**{attribute: values[name] for attribute, name in _MEMBERS[group].items()}) for group, of in _GROUPS.items()
        }
        return Options(**made, columns=ColumnOptions(single))


_GROUPS = {name: group for name, group in get_type_hints(Options).items() if group is not ColumnOptions}
_MEMBERS = {name: {each.attribute: each.option.name for each in options_of(group)} for name, group in _GROUPS.items()}
OPTIONS: Mapping[str, Option] = {each.option.name: each.option for group in _GROUPS.values() for each in options_of(group)}
"""Option name -> declaration, for all options except those of single columns."""

_ALIASES = {f"{engine}.ignore-delete": engine for engine in (DEDUPLICATE, FIRST_ROW, PARTIAL_UPDATE)}
"""Other names of ignore-delete -> the merge engine they are for."""


def group_of(name: str) -> str:
    """The name of the group in `Options` that contains an option."""
    return next(group for group, members in _MEMBERS.items() if name in members.values())


def check_name(name: object, where: str) -> None:
    """Raises InvalidOption if no option has that name."""
    if not (isinstance(name, str) and name.startswith(PREFIX)):
        _named(str(name), where)


def _named(name: str, where: str) -> Option:
    option = OPTIONS.get("ignore-delete" if name in _ALIASES else name)
    if option is None:
        raise InvalidOption(f"unknown option {name!r}", where=where, cure=_suggest(name))
    return option


def _of_other_tables(name: str, tables: Tables, where: str) -> InvalidOption:
    return InvalidOption(
        f"option {name!r} is for {tables.value}",
        where=where,
        found="a table without a primary key" if tables is Tables.KEYED else "a table with a primary key",
        cure="leave the option out",
    )


def _conditions(name: str) -> tuple[Only, ...]:
    """The conditions under which an option given by this name has an effect."""
    if name.startswith(PREFIX):
        return column_options.described(name).only
    return ((When("merge-engine", (_ALIASES[name],)),),) if name in _ALIASES else OPTIONS[name].only


_LIST = Wording(
    "options_table() of a table lists all options",
    command="`lsmlake options` lists all options",
    sql="SELECT name FROM table$options lists all options",
)
_CURES = {
    "bucket": "write auto, so that buckets split and merge by themselves, or the number of buckets of a new partition",
}


def _suggest(name: str) -> str:
    if (cure := next((cure for start, cure in NOT_BUILT.items() if name.startswith(start)), None)) is not None:
        return cure
    near = difflib.get_close_matches(name, OPTIONS, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else _LIST
