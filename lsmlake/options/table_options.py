"""Every table option: Apache Paimon's name, its meaning, default, unit and check; parsed once into a frozen `Options`.

An option that is unknown, malformed or contradicts another is refused where the table is made, never ignored.
Options that Paimon does not have are marked as lsmlake's own in `DESCRIPTIONS`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from lsmlake.errors import InvalidOption, Wording
from lsmlake.options.fields import PREFIX, FieldOption, parse_field_option
from lsmlake.options.types import CURE, as_text, boolean, directory_name, duration, integer, names, one_of, parsed, size, text

DEDUPLICATE, FIRST_ROW, PARTIAL_UPDATE, AGGREGATION = _ENGINES = "deduplicate", "first-row", "partial-update", "aggregation"
NONE, INPUT, LOOKUP, FULL_COMPACTION = _PRODUCERS = "none", "input", "lookup", "full-compaction"


def _option(name: str, parse: Callable, default: object, description: str):
    return field(default=default, metadata={"name": name, "parse": parse, "description": description})


@dataclass(frozen=True)
class Options:
    """The parsed options of a table. Sizes are bytes, durations milliseconds; `None` = the rule is off."""

    bucket: int = _option("bucket", integer(1, 32_767), 1, "number of buckets of a partition")
    bucket_key: tuple[str, ...] = _option(
        "bucket-key", names, (), "columns hashed into a bucket; default: primary key less partition columns"
    )
    merge_engine: str = _option(
        "merge-engine",
        one_of(*_ENGINES),
        DEDUPLICATE,
        "how rows of one key are combined",
    )
    sequence_field: tuple[str, ...] = _option(
        "sequence.field", names, (), "columns that order the rows of a key; ties, and a table without, go by arrival"
    )
    sequence_sort_order: str = _option(
        "sequence.field.sort-order",
        one_of("ascending", "descending"),
        "ascending",
        "whether a greater sequence is newer, or a smaller",
    )
    remove_on_delete: bool = _option(
        "partial-update.remove-record-on-delete", boolean, False, "partial-update: a -D row removes the whole row"
    )
    remove_on_sequence_group: tuple[str, ...] = _option(
        "partial-update.remove-record-on-sequence-group",
        names,
        (),
        "partial-update: a -D row that counts for the group of these sequence columns removes the whole row",
    )
    aggregation_remove_on_delete: bool = _option(
        "aggregation.remove-record-on-delete", boolean, False, "aggregation: a -D row removes the whole row"
    )
    given_deletion_vectors: bool | None = _option(
        "deletion-vectors.enabled",
        boolean,
        None,
        "mark superseded rows at compaction (on by default here, but for changelog-producer = full-compaction); else reads merge",
    )
    changelog_producer: str = _option(
        "changelog-producer",
        one_of(*_PRODUCERS),
        NONE,
        "who writes a changelog: nobody, writers (the rows as given), any compaction (lookup) or only full ones",
    )
    changelog_deduplicate: bool = _option(
        "changelog-producer.row-deduplicate", boolean, False, "leave updates out of the changelog that change nothing"
    )
    changelog_ignored: tuple[str, ...] = _option(
        "changelog-producer.row-deduplicate-ignore-fields", names, (), "columns that do not count as a change"
    )
    rowkind_field: str | None = _option("rowkind.field", text, None, "column holding '+I', '-U', '+U' or '-D'")
    ignore_delete: bool = _option("ignore-delete", boolean, False, "drop -D and -U rows at write")
    ignore_update_before: bool = _option("ignore-update-before", boolean, False, "drop -U rows at write")
    write_only: bool = _option("write-only", boolean, False, "writers never compact; a separate job does")
    write_buffer_bytes: int = _option("write-buffer-size", size, 256 << 20, "rows a writer sorts in memory before it spills")
    target_file_bytes: int = _option(
        "target-file-size", size, 128 << 20, "size at which a data file is closed and the next begun"
    )
    row_group_bytes: int = _option("file.block-size", size, 32 << 20, "uncompressed size of a Parquet row group")
    compression: str = _option("file.compression", one_of("zstd", "lz4", "snappy", "none"), "zstd", "Parquet codec")
    zstd_level: int = _option("file.compression.zstd-level", integer(1, 22), 1, "level of the zstd codec")
    stats_bytes: int = _option(
        "metadata.stats-truncate", integer(1, 1 << 16), 16, "bytes kept of string bounds in manifests (own)"
    )
    given_strategy: str | None = _option(
        "compaction.strategy",
        one_of("tiered", "universal"),
        None,
        "which runs a compaction takes (own); default: tiered, or universal without deletion vectors",
    )
    given_full_delta_commits: int | None = _option(
        "full-compaction.delta-commits",
        integer(1),
        None,
        "a writer compacts a bucket in full once so many commits came since; default: never, or 1 for changelog-producer ="
        " full-compaction",
    )
    tier_runs: int | None = _option(
        "compaction.tier-runs", integer(2, 1_000), None, "tiered: runs of like size that are merged (own)"
    )
    reclaim_dead_percent: int | None = _option(
        "compaction.reclaim-dead-percent", integer(1, 100), None, "tiered: share of dead rows at which a file is rewritten (own)"
    )
    num_levels: int | None = _option("num-levels", integer(2, 1_000), None, "levels of a bucket, level 0 included")
    compaction_trigger: int = _option(
        "num-sorted-run.compaction-trigger", integer(1), 5, "universal: sorted runs that start a compaction"
    )
    stop_trigger: int | None = _option(
        "num-sorted-run.stop-trigger",
        integer(1),
        None,
        "sorted runs a writer must not exceed; it never does, it compacts before it commits",
    )
    size_amplification_percent: int = _option(
        "compaction.max-size-amplification-percent", integer(0), 200, "universal: newer bytes / oldest run"
    )
    size_ratio_percent: int = _option("compaction.size-ratio", integer(0), 1, "universal: slack when run sizes are compared")
    optimization_interval_ms: int | None = _option(
        "compaction.optimization-interval", duration, None, "universal: full compaction at least so often"
    )
    total_size_threshold: int | None = _option(
        "compaction.total-size-threshold", size, None, "universal: full compaction of buckets below"
    )
    incremental_size_threshold: int | None = _option(
        "compaction.incremental-size-threshold",
        size,
        None,
        "universal: full compaction once so much lies outside the oldest level",
    )
    lookup_compact: str = _option(
        "lookup-compact",
        one_of("radical", "gentle"),
        "radical",
        "universal: whether every compaction takes level 0, or the size rules decide and only every so many commits do",
    )
    lookup_compact_interval: int | None = _option(
        "lookup-compact.max-interval", integer(1), None, "gentle: so many runs at level 0 at most; default: twice the trigger"
    )
    record_expire_ms: int | None = _option(
        "record-level.expire-time", duration, None, "rows older than this go when a compaction rewrites them"
    )
    record_time_field: str | None = _option(
        "record-level.time-field", text, None, "column that says from when a row is: seconds, milliseconds or a timestamp"
    )
    offpeak_start_hour: int = _option(
        "compaction.offpeak.start.hour", integer(-1, 23), -1, "first hour of the off-peak time, in UTC; -1 = none"
    )
    offpeak_end_hour: int = _option(
        "compaction.offpeak.end.hour", integer(-1, 23), -1, "first hour after the off-peak time, in UTC; -1 = none"
    )
    offpeak_ratio_percent: int = _option(
        "compaction.offpeak-ratio", integer(0, 100), 0, "added to compaction.size-ratio off peak"
    )
    retain_min: int = _option("snapshot.num-retained.min", integer(1), 10, "snapshots that are kept at least")
    retain_max: int | None = _option(
        "snapshot.num-retained.max", integer(1), None, "snapshots that are kept at most; default: all"
    )
    retain_ms: int = _option("snapshot.time-retained", duration, 3_600_000, "how long a snapshot is kept after it was replaced")
    expire_limit: int = _option("snapshot.expire.limit", integer(1), 50, "snapshots that expire at a time")
    expire_on_commit: bool = _option(
        "snapshot.expire.on-commit",
        boolean,
        True,
        "every tenth commit expires snapshots by these options; false, or write-only = true for commits that are no compaction:"
        " only expire_snapshots does (own)",
    )
    changelog_retain_min: int | None = _option(
        "changelog.num-retained.min", integer(1), None, "commits whose changelog is kept at least; default: as snapshots"
    )
    changelog_retain_max: int | None = _option(
        "changelog.num-retained.max", integer(1), None, "commits whose changelog is kept at most; default: as snapshots"
    )
    changelog_retain_ms: int | None = _option(
        "changelog.time-retained", duration, None, "how long a changelog is kept; default: as snapshots"
    )
    consumer_expire_ms: int | None = _option(
        "consumer.expiration-time", duration, None, "a consumer that made no progress for so long protects nothing any more"
    )
    partition_default_name: str = _option(
        "partition.default-name", directory_name, "__DEFAULT_PARTITION__", "directory name of the null partition"
    )
    manifest_target_bytes: int = _option("manifest.target-file-size", size, 8 << 20, "manifests smaller than this are merged")
    manifest_merge_count: int = _option("manifest.merge-min-count", integer(2), 30, "small manifests that start a merge")
    commit_retries: int = _option("commit.max-retries", integer(0), 10, "attempts after the first that lost a race")
    commit_wait_min_ms: int = _option("commit.min-retry-wait", duration, 10, "first wait between attempts")
    commit_wait_max_ms: int = _option("commit.max-retry-wait", duration, 10_000, "longest wait between attempts")
    vector_broadcast_bytes: int = _option(
        "read.vector-broadcast-limit", size, 64 << 20, "Spark: larger deletion vectors are applied in Arrow tasks instead (own)"
    )
    collect_rows: int = _option(
        "write.collect-rows",
        integer(0),
        250_000,
        "Spark, classic: after a batch of at most so many rows the driver fetches the next one and writes it itself, which spares"
        " small batches most of their time; 0 = executors write every batch (own)",
    )
    fields: tuple[FieldOption, ...] = ()
    """The options of single columns, `fields.*`, in the order given."""

    @property
    def deletion_vectors(self) -> bool:
        return self.changelog_producer != FULL_COMPACTION if self.given_deletion_vectors is None else self.given_deletion_vectors

    @property
    def meaning(self) -> tuple:
        """What decides what the files of a table mean: which rows they come to."""
        last_level = self.num_levels or self.compaction_trigger if self.changelog_producer == FULL_COMPACTION else None
        merging = self.merge_engine, self.sequence_field, self.sequence_sort_order, self.fields
        removing = self.remove_on_delete, self.remove_on_sequence_group, self.aggregation_remove_on_delete
        return (*merging, *removing, self.deletion_vectors, last_level, *self.placing)

    @property
    def placing(self) -> tuple:
        """Which bucket a row belongs to."""
        return self.bucket, self.bucket_key

    @property
    def full_delta_commits(self) -> int | None:
        return (
            1
            if self.given_full_delta_commits is None and self.changelog_producer == FULL_COMPACTION
            else self.given_full_delta_commits
        )

    @property
    def looks_up(self) -> bool:
        """Whether a compaction looks level-0 keys up in older files, so that level 0 had better be empty."""
        return self.deletion_vectors or self.changelog_producer == LOOKUP

    @property
    def strategy(self) -> str:
        return self.given_strategy or ("tiered" if self.deletion_vectors else "universal")

    @staticmethod
    def parse(given: Mapping[str, object], where: str = "table options") -> Options:
        """The options given by name; values may be text as in SQL or plain Python values. Raises InvalidOption."""
        values = {"fields": tuple(parse_field_option(n, value, where) for n, value in given.items() if n.startswith(PREFIX))}
        for name, value in given.items():
            if name.startswith(PREFIX):
                continue
            option = _named(name, where)
            values[option.name] = parsed(name, option.metadata["parse"], value, where, _CURES.get(name, CURE))
        options = Options(**values)
        _check(options, given, where)
        return options


_BY_NAME = {option.metadata["name"]: option for option in fields(Options) if option.metadata}
_ALIASES = {f"{engine}.ignore-delete": "ignore-delete" for engine in (DEDUPLICATE, FIRST_ROW, PARTIAL_UPDATE)}
DESCRIPTIONS: Mapping[str, str] = {name: option.metadata["description"] for name, option in _BY_NAME.items()}
"""What every option means, by name."""


class OptionFacts(NamedTuple):
    """An option for a reference page. `takes`: what its value may be; `default` is text as in SQL, None if the option is off."""

    name: str
    takes: str
    default: str | None
    description: str


def reference() -> tuple[OptionFacts, ...]:
    """Every option but those of single columns (`fields.<column>.<what>`), in the order of their subjects."""
    return tuple(
        OptionFacts(name, parse.expected, as_text(parse, option.default), option.metadata["description"])
        for name, option in _BY_NAME.items()
        for parse in [option.metadata["parse"]]
    )


def check_name(name: object, where: str) -> None:
    """Raises InvalidOption if there can be no option of that name."""
    if not (isinstance(name, str) and name.startswith(PREFIX)):
        _named(str(name), where)


def _named(name: str, where: str):
    option = _BY_NAME.get(_ALIASES.get(name, name))
    if option is None:
        raise InvalidOption(f"unknown option {name!r}", where=where, cure=_suggest(name))
    return option


_LIST = Wording("options_table() of a table lists the options there are", command="`lsmlake options` lists the options there are")
_CURES = {
    "bucket": "give a fixed number of buckets; dynamic (-1) and postponed (-2) buckets are not supported",
}


def _suggest(name: str) -> str:
    near = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else _LIST


def _check(options: Options, given: Mapping[str, object], where: str) -> None:
    def refuse(what: str, cure: str) -> None:
        raise InvalidOption(what, where=where, cure=cure)

    if not options.deletion_vectors and options.strategy == "tiered":
        refuse(
            "compaction.strategy = tiered lets many runs stand, which without deletion vectors every read would merge",
            "leave it out or set compaction.strategy = universal",
        )
    if options.stop_trigger is not None and options.stop_trigger < options.compaction_trigger:
        refuse(
            f"num-sorted-run.stop-trigger ({options.stop_trigger}) is below the trigger ({options.compaction_trigger})",
            "raise the stop trigger",
        )
    if "lookup-compact" in given and not options.looks_up:
        refuse("lookup-compact means nothing without deletion vectors: nothing is looked up", "leave it out")
    _check_changelog(options, given, refuse)
    if "lookup-compact.max-interval" in given and options.lookup_compact != "gentle":
        refuse("lookup-compact.max-interval means nothing unless lookup-compact = gentle", "set it, or leave the interval out")
    if (options.record_expire_ms is None) != (options.record_time_field is None):
        refuse("only one of record-level.expire-time and record-level.time-field is given", "set both")
    if options.row_group_bytes > options.target_file_bytes:
        refuse(
            f"file.block-size ({options.row_group_bytes} bytes) is above target-file-size ({options.target_file_bytes} bytes)",
            "give target-file-size at least the size of a row group",
        )
    if (options.offpeak_start_hour == -1) != (options.offpeak_end_hour == -1):
        refuse(
            "only one end of the off-peak time is given", "set both compaction.offpeak.start.hour and compaction.offpeak.end.hour"
        )
    if options.retain_max is not None and options.retain_max < options.retain_min:
        refuse("snapshot.num-retained.max is below snapshot.num-retained.min", "raise one or lower the other")
    _check_engine(options, given, refuse)
    own, universal = (
        {"compaction.tier-runs", "compaction.reclaim-dead-percent"},
        {
            "num-sorted-run.compaction-trigger",
            "compaction.max-size-amplification-percent",
            "compaction.size-ratio",
            "compaction.optimization-interval",
            "compaction.total-size-threshold",
            "compaction.incremental-size-threshold",
            "compaction.offpeak-ratio",
            "lookup-compact",
            "lookup-compact.max-interval",
        },
    )
    for name in sorted((own if options.strategy == "universal" else universal) & given.keys()):
        other = "tiered" if options.strategy == "universal" else "universal"
        refuse(
            f"option {name!r} means nothing under compaction.strategy = {options.strategy}",
            f"set compaction.strategy = {other} or leave it out",
        )
    if options.commit_wait_min_ms > options.commit_wait_max_ms:
        refuse("commit.min-retry-wait is above commit.max-retry-wait", "lower it")


def _check_engine(options: Options, given: Mapping[str, object], refuse: Callable[[str, str], None]) -> None:
    """What an engine has no use for, and what contradicts. Whether columns and functions fit is for the engine itself to say."""
    engine = options.merge_engine
    for name in given:
        owners = _owners(name)
        if engine not in owners:
            cure = f"set merge-engine = {' or '.join(owners)} or leave it out"
            refuse(f"option {name!r} means nothing under merge-engine = {engine}", cure)
    if options.sequence_field and engine == FIRST_ROW:
        refuse("sequence.field means nothing under merge-engine = first-row: the row that arrives first stays", "leave it out")
    if "sequence.field.sort-order" in given and not options.sequence_field:
        refuse("sequence.field.sort-order is given without sequence.field", "name the columns too, or leave it out")
    removing = [name for name in given if ".remove-record-on-" in name and str(given[name]).lower() != "false"]
    if options.ignore_delete and removing:
        refuse(f"option {removing[0]!r} contradicts ignore-delete = true: no -D row would be left", "leave one of them out")
    if len(removing) > 1:
        refuse(f"options {removing[0]!r} and {removing[1]!r} contradict each other", "leave one of them out")


def _check_changelog(options: Options, given: Mapping[str, object], refuse: Callable[[str, str], None]) -> None:
    producer = options.changelog_producer
    if producer == FULL_COMPACTION and options.deletion_vectors:
        refuse(
            "changelog-producer = full-compaction tells what reaches the last level, deletion-vectors.enabled = true changes it"
            " in between",
            "set changelog-producer = lookup, or leave deletion-vectors.enabled out",
        )
    if options.merge_engine == FIRST_ROW and producer in (INPUT, FULL_COMPACTION):
        refuse(f"merge-engine = first-row knows no changelog-producer = {producer}", "set changelog-producer = lookup or none")
    for name in ("changelog-producer.row-deduplicate", "changelog-producer.row-deduplicate-ignore-fields"):
        if name in given and producer in (NONE, INPUT):
            refuse(f"option {name!r} means nothing under changelog-producer = {producer}: no rows are compared", "leave it out")
    keeping = [name for name in given if name.startswith("changelog.")]
    if producer == NONE and keeping:
        refuse(f"option {keeping[0]!r} means nothing under changelog-producer = none", "set a producer, or leave it out")
    least, most = options.changelog_retain_min, options.changelog_retain_max
    if least is not None and most is not None and most < least:
        refuse("changelog.num-retained.max is below changelog.num-retained.min", "raise one or lower the other")
    if options.changelog_ignored and not options.changelog_deduplicate:
        refuse(
            "changelog-producer.row-deduplicate-ignore-fields means nothing without changelog-producer.row-deduplicate = true",
            "set both, or leave it out",
        )


def _owners(name: str) -> tuple[str, ...]:
    """The engines an option means something to."""
    if name.startswith(PREFIX):
        return PARTIAL_UPDATE, AGGREGATION
    prefix = name.partition(".")[0]
    return (prefix,) if prefix in _ENGINES else _ENGINES
