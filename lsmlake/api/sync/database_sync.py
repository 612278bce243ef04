"""One batch of events of many tables: each table gets its events by one commit of its own, and none waits for another one.

A table that fails does not stop the others. If its events did not cause the failure, or if events are not to be rejected, the
batch fails after the other tables have it. It is then applied again, and the tables that already have it skip it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lsmlake.api.lake_verbs.administration import CatalogVerbs
from lsmlake.api.sync.sync_report import OPTIONS, PARTITIONS, SyncedTable, SyncReport, together
from lsmlake.api.sync.sync_rules import SyncRules
from lsmlake.api.sync.table_sync import Routed, TableSync, count_of
from lsmlake.cdc import rejected_events
from lsmlake.cdc.source_tables import SourceTable
from lsmlake.commit.request import Identity
from lsmlake.errors import InvalidData, InvalidQuery, LakeError, Wording
from lsmlake.schema.partitioning import Term
from lsmlake.schema.schema import Schema

_NAMELESS = "the event says no table"
_log = logging.getLogger("lsmlake.sync")


@dataclass(frozen=True)
class DatabaseSync:
    """Applies batches of events to the tables of a database."""

    lake: CatalogVerbs
    rules: SyncRules

    def apply(self, routed: Routed, writer: str, number: int) -> SyncReport:
        """Applies a batch. Applied again, with the same writer and number, it changes only what has not been done yet.

        Raises:
            LakeError: a table could not be written, or events could not be applied and are not to be rejected: all other tables
                have the batch. Or a table has the name of one for rejected events: no table has the batch.
        """
        targets = self._by_target(routed.tables)
        self._check_rejects([target for target, _ in targets])
        self.lake.create_database(self.rules.database, if_not_exists=True)
        done: list[SyncedTable] = []
        failed: list[tuple[str, LakeError]] = []
        for target, sources in targets:
            table = TableSync(self.lake, self.rules, routed, target, writer, number)
            try:
                done.append(table.apply(sources))
            except LakeError as error:
                failed.append((table.name, error))
        rejected = 0
        try:
            rejected = self._reject_nameless(routed, writer, number)
        except LakeError as error:
            failed.append((self.rules.common_rejects, error))
        if failed:
            for name, error in failed[1:]:
                _log.error("%s: batch %d failed: %s", name, number, error)
                failed[0][1].add_note(f"also {name} failed: {error}")
            raise failed[0][1]
        unmatched, left_out = self._unmatched(), self._left_out(routed.tables, number)
        report = SyncReport(1, (), rejected, unmatched, left_out, self._idle(routed.tables))
        for table in done:
            report = together(report, SyncReport(0, (table,)))
        return report

    def _check_rejects(self, targets: Sequence[str] = ()) -> None:
        """Raises InvalidData if a table that cannot hold rejected events has the name of one that would: the common one, or that
        of one of the tables."""
        if not self.rules.rejects:
            return
        own = {f"{self.rules.database}.{target}" for target in targets}
        for name in (self.rules.common_rejects, *map(self.rules.rejects_of, targets)):
            rejected_events.check(self.lake.env, name)
            if name in own:
                raise InvalidData(
                    "a table of the source has the name of a table for rejected events",
                    where=name,
                    cure=Wording(
                        "give it another name by table_mapping, or leave it out by excluding_tables",
                        command="give it another name by --table-mapping REGEX=NAME, or leave it out by --excluding-tables",
                    ),
                )

    def _unmatched(self) -> tuple[str, ...]:
        """The tables that arguments name and the database does not have."""
        named = self.rules.named
        missing = named - {*self.lake.tables(self.rules.database)} if named else named
        if missing:
            _log.info("the arguments name tables that are not there: %s", ", ".join(sorted(missing)))
        return tuple(sorted(missing))

    def _left_out(self, tables: Sequence[SourceTable], number: int) -> tuple[str, ...]:
        """The tables at the source that the rules leave out."""
        left_out = {one.name for one in tables if self.rules.target(one.name) is None}
        if left_out and len(left_out) == len({one.name for one in tables}):
            told = number, ", ".join(sorted(left_out))
            _log.warning("batch %d: tables and excluding_tables, which match whole names, leave out all its tables: %s", *told)
        return tuple(sorted(left_out))

    def check(self) -> None:
        """Raises LakeError, before an event is read, for what the tables that are there show to be wrong."""
        self._check_rejects()
        self._check_partitions()

    def _check_partitions(self) -> None:
        """Raises InvalidQuery for partitions of a table that is there and has no such columns."""
        if not isinstance(given := self.rules.partitions, Mapping) or self.rules.database not in self.lake.databases():
            return
        for name in set(given) & {*self.lake.tables(self.rules.database)}:
            schema = self.lake.table(f"{self.rules.database}.{name}").version.schema
            columns = schema.columns.names
            if unknown := [text for text in given[name] if Term.parse(text, columns, "partition_by").column not in columns]:
                raise InvalidQuery(
                    "partition_by names columns that a table lacks, and a table that is there keeps its own partitions",
                    where=f"{self.rules.database}.{name}",
                    expected=columns,
                    found=unknown,
                    cure=Wording(f"leave {name} out of partition_by", command=f"leave out --partition-by {name}=..."),
                )

    def _idle(self, tables: Sequence[SourceTable]) -> tuple[str, ...]:
        """The arguments that have decided nothing for these tables: patterns, parts of names, types that are not inferred; and
        partitions and options of tables that have others."""
        found = self.rules.idle_names(sources := list(dict.fromkeys(one.name for one in tables)))
        if not self.rules.infers and all(one.declared for one in tables if self.rules.target(one.name) is not None):
            found.append("infer_types=False, as the events declare their types")
        there = {*self.lake.tables(self.rules.database)}
        for target in dict.fromkeys(map(self.rules.target, sources)):
            given = self.rules.partitions_of(target) if target in there else ()
            schema = self.lake.table(f"{self.rules.database}.{target}").version.schema if target in there else None
            if given and not _has_partitions(schema, given):
                found.append(f"{PARTITIONS} {', '.join(given)} for {target}, which has other partitions")
            if schema is not None and (options := self.rules.idle_options(schema)):
                found.append(f"{OPTIONS} {', '.join(options)} for {target}, which has other values")
        if found:
            _log.info("these arguments have decided nothing: %s", "; ".join(found))
        return tuple(found)

    def _by_target(self, tables: Sequence[SourceTable]) -> list[tuple[str, list[SourceTable]]]:
        """The tables of the lake, each with the descriptions of its table at the source, or of all shards."""
        found: dict[tuple[str, str], list[SourceTable]] = {}
        for one in tables:
            if (target := self.rules.target(one.name)) is not None:
                found.setdefault((target, "" if self.rules.merges else one.name), []).append(one)
        return [(target, sources) for (target, _), sources in found.items()]

    def _reject_nameless(self, routed: Routed, writer: str, number: int) -> int:
        """Rejects the events that name no table. Returns how many there are."""
        if (data := routed.nameless) is None:
            return 0
        if not self.rules.rejects:
            raise InvalidData(
                "an event names no table",
                where=f"batch {number}",
                expected=f"an event of {self.rules.format.name}",
                cure=Wording(
                    "correct the source, or pass on_error='reject', which writes such events to a table of their own",
                    command="correct the source, or leave out --on-error raise",
                ),
            )
        identity = Identity(writer, number)
        routed.reject(self.lake.env, self.rules.common_rejects, data, _NAMELESS, identity)
        return count_of(self.lake.env, self.rules.common_rejects, identity)


def _has_partitions(schema: Schema, given: Sequence[str]) -> bool:
    terms = [Term.parse(text, schema.columns.names, "partition_by") for text in given]
    return terms == [Term(one.transform, one.column) for one in schema.partition_columns]
