"""What `Lake.sync` does with the events of each table, as one value: which tables, their names, keys, partitions and columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lsmlake.cdc import rejected_events
from lsmlake.cdc.change_input import RAISE, REJECT
from lsmlake.cdc.computed_columns import check_readable, in_key
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.errors import InvalidOption, InvalidQuery, Wording
from lsmlake.format.paths import check_database, is_name
from lsmlake.options.table_options import Options
from lsmlake.schema.schema import Schema
from lsmlake.schema.source_columns import EvolveRule

PerTable = Mapping[str, Sequence[str]] | Sequence[str]
"""Names for all tables; or for some of them, by the names of the tables in the lake."""
_COMMON_REJECTS = "rejected_events"
_EVOLVE = [rule.value for rule in EvolveRule]


class SyncArguments(NamedTuple):
    """The arguments of `Lake.sync` that say what becomes of events, as it describes them."""

    format: str | ChangeFormat
    database: str
    tables: str | None = None
    excluding_tables: str | None = None
    table_mapping: Mapping[str, str] | None = None
    table_prefix: str = ""
    table_suffix: str = ""
    merge_shards: bool = False
    primary_keys: PerTable | None = None
    partition_by: PerTable | None = None
    computed_columns: Mapping[str, Mapping[str, str]] | None = None
    options: Mapping[str, object] | None = None
    evolve: str = EvolveRule.WIDEN.value
    infer_types: bool = True
    on_error: str = REJECT


@dataclass(frozen=True)
class SyncRules:
    """What becomes of the events of each table.

    Attributes:
        format: the format of the events.
        database: the database of the lake.
        included, excluded: patterns of the names of tables at the source.
        mapping: pattern of a name at the source -> name in the lake.
        prefix, suffix: what the names of other tables get.
        merges: several tables at the source may become one.
        primary_keys, partitions: of the tables that are made.
        computed: table -> column -> expression.
        options: of the tables that are made.
        evolve: what may change in the columns of a table.
        infers: fields without a declared type get one from their values; otherwise STRING.
        rejects: events that cannot be applied go to a table of their own.
    """

    format: ChangeFormat
    database: str
    included: re.Pattern[str] | None
    excluded: re.Pattern[str] | None
    mapping: tuple[tuple[re.Pattern[str], str], ...]
    prefix: str
    suffix: str
    merges: bool
    primary_keys: PerTable
    partitions: PerTable
    computed: Mapping[str, Mapping[str, str]]
    options: Mapping[str, object]
    evolve: EvolveRule
    infers: bool
    rejects: bool

    @staticmethod
    def of(given: SyncArguments) -> SyncRules:
        """Raises InvalidQuery, InvalidOption for arguments that are not valid."""
        format = ChangeFormat.of(given.format)
        if not format.events.table:
            raise InvalidQuery(
                f"events of {format.name} do not say which table they are for",
                where="format",
                expected="a format of change events",
                found=format.name,
                cure=Wording("load the events of one table by Table.upsert", command="load the rows of one table by `load`"),
            )
        if given.on_error not in (RAISE, REJECT):
            expected = f"{RAISE!r} or {REJECT!r}"
            raise InvalidQuery("unknown on_error", expected=expected, found=repr(given.on_error), cure="correct it")
        if given.evolve not in _EVOLVE:
            raise InvalidQuery("unknown evolve", expected=_EVOLVE, found=repr(given.evolve), cure="correct it")
        for name in (given.table_mapping or {}).values():
            if not is_name(name):
                raise InvalidQuery("not the name of a table", where="table_mapping", found=repr(name), cure="correct the name")
        rules = SyncRules(
            format,
            check_database(given.database),
            _pattern("tables", given.tables),
            _pattern("excluding_tables", given.excluding_tables),
            tuple((_pattern("table_mapping", text), name) for text, name in (given.table_mapping or {}).items()),
            given.table_prefix,
            given.table_suffix,
            given.merge_shards,
            _per_table("primary_keys", given.primary_keys),
            _per_table("partition_by", given.partition_by),
            dict(given.computed_columns or {}),
            dict(given.options or {}),
            EvolveRule(given.evolve),
            given.infer_types,
            given.on_error == REJECT,
        )
        rules._check()
        return rules

    def _check(self) -> None:
        """Raises InvalidQuery, InvalidOption for what is wrong whatever the events say, so that it does not reject events."""
        if not is_name(f"{self.prefix}t{self.suffix}"):
            found = repr(f"{self.prefix}orders{self.suffix}")
            cure = Wording("correct table_prefix and table_suffix", command="correct --table-prefix and --table-suffix")
            raise InvalidQuery("no table can have a name with this prefix and suffix", where="sync", found=found, cure=cure)
        if wrong := sorted(name for name in self.named if not is_name(name)):
            cure = "write the names that the tables have in the lake, without the database, such as orders"
            where = "primary_keys, partition_by or computed_columns"
            raise InvalidQuery("not names of tables", where=where, found=wrong, cure=cure)
        Options.parse(self.options, "options of sync")
        for table, expressions in self.computed.items():
            if blank := [name for name in expressions if not name.strip()]:
                raise InvalidQuery("a computed column has no name", where=table, found=repr(blank[0]), cure="name the column")
            lower = [name.lower() for name in expressions]
            if same := [name for name in expressions if lower.count(name.lower()) > 1]:
                what = "two computed columns have the same name, as case does not tell names apart"
                raise InvalidQuery(what, where=table, found=same, cure="give one of them another name")
            check_readable(expressions, table)
            if both := [name for name in self.key_of(table) if name in expressions]:
                raise in_key(both, table)

    def target(self, source: str) -> str | None:
        """The name in the lake, without the database, of a table at the source; None: the table is not to be kept."""
        if self.included is not None and not self.included.fullmatch(source):
            return None
        if self.excluded is not None and self.excluded.fullmatch(source):
            return None
        for pattern, name in self.mapping:
            if pattern.fullmatch(source):
                return name
        return f"{self.prefix}{source.rpartition('.')[2]}{self.suffix}"

    @property
    def named(self) -> set[str]:
        """The tables of the lake that arguments name one by one."""
        given = (self.primary_keys, self.partitions, self.computed)
        return {name for one in given if isinstance(one, Mapping) for name in one} | {name for _, name in self.mapping}

    def idle_names(self, sources: Collection[str]) -> list[str]:
        """The patterns, and the prefix and suffix of names, that decide nothing for these tables at the source, each with its
        argument."""
        kept = [name for name in sources if self.target(name) is not None]
        mapped = [next((pattern for pattern, _ in self.mapping if pattern.fullmatch(name)), None) for name in kept]
        idle = [("table_mapping", pattern.pattern) for pattern, _ in self.mapping if pattern not in mapped]
        for argument, pattern in (("tables", self.included), ("excluding_tables", self.excluded)):
            if pattern is not None and not any(map(pattern.fullmatch, sources)):
                idle.append((argument, pattern.pattern))
        if None not in mapped:
            idle += [(name, text) for name, text in (("table_prefix", self.prefix), ("table_suffix", self.suffix)) if text]
        return [f"{argument} {text!r}" for argument, text in idle]

    def idle_options(self, schema: Schema) -> list[str]:
        """The options that a table which is there does not have."""
        return [name for name, value in self.options.items() if not _has_option(schema, name, value)]

    @property
    def common_rejects(self) -> str:
        """The table for rejected events that name no table."""
        return f"{self.database}.{_COMMON_REJECTS}"

    def rejects_of(self, table: str) -> str:
        """The table for rejected events of a table of the lake."""
        return rejected_events.name_for(f"{self.database}.{table}") if is_name(table) else self.common_rejects

    def key_of(self, table: str) -> tuple[str, ...]:
        """The key that the user gives a table of the lake; empty: the events say it."""
        return _of(self.primary_keys, table)

    def partitions_of(self, table: str) -> tuple[str, ...]:
        """The partitions of a table that is made."""
        return _of(self.partitions, table)

    def computed_of(self, table: str) -> Mapping[str, str]:
        """The computed columns of a table, with their expressions."""
        return self.computed.get(table, {})


def _has_option(schema: Schema, name: str, value: object) -> bool:
    try:
        return Options.parse({**schema.options, name: value}) == schema.parsed_options
    except InvalidOption:  # it contradicts those of the table
        return False


def _of(given: PerTable, table: str) -> tuple[str, ...]:
    return tuple(given.get(table, ()) if isinstance(given, Mapping) else given)


def _per_table(name: str, given: PerTable | None) -> PerTable:
    found = {} if given is None else given
    lists = list(found.values()) if isinstance(found, Mapping) else [found]
    if any(isinstance(one, str) for one in lists):
        cure = "write a list, such as ['id'], or table -> list"
        raise InvalidQuery(f"{name} is a text", expected="a list of names", found=given, cure=cure)
    if name == "primary_keys" and given is not None and not all(map(list, lists)):
        cure = "name the columns of the key, or leave it out: then the events say the key"
        raise InvalidQuery(f"{name} names no column", found=given, cure=cure)
    for one in map(list, lists):
        if twice := [each for number, each in enumerate(one) if each in one[:number]]:
            raise InvalidQuery(f"{name} names a column twice", found=twice, cure="name it once")
        if not all(isinstance(each, str) and each for each in one):
            raise InvalidQuery(f"{name} has an empty name", expected="names of columns", found=one, cure="correct it")
    return found


def _pattern(argument: str, text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as broken:
        cure = r"correct it; it matches whole names, such as shop\..*"
        raise InvalidQuery("not a regular expression", where=argument, found=f"{text!r}: {broken}", cure=cure) from broken
