"""Every table option: Apache Paimon's name, its meaning, default, unit and check; parsed once into a frozen `Options`.

An option that is unknown, malformed or contradicts another is refused where the table is made, never ignored.
Options that Paimon does not have are marked as lsmlake's own in `DESCRIPTIONS`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from lsmlake.errors import InvalidOption

_SIZES = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "kb": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
    "g": 1 << 30,
    "gb": 1 << 30,
    "t": 1 << 40,
    "tb": 1 << 40,
}
_TIMES = {
    "ms": 1,
    "milli": 1,
    "millis": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "seconds": 1_000,
    "min": 60_000,
    "m": 60_000,
    "minute": 60_000,
    "minutes": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "hours": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "days": 86_400_000,
}


def _integer(low: int, high: int = 2**31 - 1) -> Callable[[object], int]:
    def parse(value: object) -> int:
        number = int(str(value))
        if not low <= number <= high:
            raise ValueError(f"an integer from {low} to {high}")
        return number

    parse.expected = f"an integer from {low} to {high}"
    return parse


def _quantity(units: Mapping[str, int], expected: str) -> Callable[[object], int]:
    def parse(value: object) -> int:
        match = re.fullmatch(r"\s*(\d+)\s*([a-zA-Z]*)\s*", str(value))
        if not match or match[2].lower() not in units:
            raise ValueError(expected)
        return int(match[1]) * units[match[2].lower()]

    parse.expected = expected
    return parse


def _one_of(*names: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        name = str(value).strip().lower()
        if name not in names:
            raise ValueError
        return name

    parse.expected = " or ".join(repr(name) for name in names)
    return parse


def _boolean(value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


_boolean.expected = "true or false"


def _text(value: object) -> str:
    if not str(value).strip():
        raise ValueError
    return str(value).strip()


_text.expected = "a name"


def _names(value: object) -> tuple[str, ...]:
    names = (
        [str(name).strip() for name in value] if isinstance(value, (list, tuple)) else [n.strip() for n in str(value).split(",")]
    )
    if not names or not all(names):
        raise ValueError
    return tuple(names)


_names.expected = "column names separated by commas"
_size = _quantity(_SIZES, "a size such as '128 mb'")
_time = _quantity(_TIMES, "a duration such as '10 min'")


def _option(name: str, parse: Callable, default: object, description: str):
    return field(default=default, metadata={"name": name, "parse": parse, "description": description})


@dataclass(frozen=True)
class Options:
    """The parsed options of a table. Sizes are bytes, durations milliseconds; `None` = the rule is off."""

    bucket: int = _option("bucket", _integer(1, 32_767), 1, "number of buckets of a partition")
    bucket_key: tuple[str, ...] = _option(
        "bucket-key", _names, (), "columns hashed into a bucket; default: primary key less partition columns"
    )
    merge_engine: str = _option("merge-engine", _one_of("deduplicate"), "deduplicate", "how rows of one key are combined")
    deletion_vectors: bool = _option(
        "deletion-vectors.enabled", _boolean, True, "mark superseded rows at compaction (on by default here)"
    )
    rowkind_field: str | None = _option("rowkind.field", _text, None, "column holding '+I', '-U', '+U' or '-D'")
    ignore_delete: bool = _option("ignore-delete", _boolean, False, "drop -D and -U rows at write")
    ignore_update_before: bool = _option("ignore-update-before", _boolean, False, "drop -U rows at write")
    write_only: bool = _option("write-only", _boolean, False, "writers never compact; a separate job does")
    write_buffer_bytes: int = _option("write-buffer-size", _size, 256 << 20, "rows a writer sorts in memory before it spills")
    target_file_bytes: int = _option(
        "target-file-size", _size, 128 << 20, "size at which a data file is closed and the next begun"
    )
    row_group_bytes: int = _option("file.block-size", _size, 32 << 20, "uncompressed size of a Parquet row group")
    compression: str = _option("file.compression", _one_of("zstd", "lz4", "snappy", "none"), "zstd", "Parquet codec")
    zstd_level: int = _option("file.compression.zstd-level", _integer(1, 22), 1, "level of the zstd codec")
    stats_bytes: int = _option(
        "metadata.stats-truncate", _integer(1, 1 << 16), 16, "bytes kept of string bounds in manifests (own)"
    )
    strategy: str = _option(
        "compaction.strategy", _one_of("tiered", "universal"), "tiered", "which runs a compaction takes (own)"
    )
    tier_runs: int | None = _option(
        "compaction.tier-runs", _integer(2, 1_000), None, "tiered: runs of like size that are merged (own)"
    )
    reclaim_dead_percent: int | None = _option(
        "compaction.reclaim-dead-percent", _integer(1, 100), None, "tiered: share of dead rows at which a file is rewritten (own)"
    )
    num_levels: int | None = _option("num-levels", _integer(2, 1_000), None, "levels of a bucket, level 0 included")
    compaction_trigger: int = _option(
        "num-sorted-run.compaction-trigger", _integer(1), 5, "universal: sorted runs that start a compaction"
    )
    stop_trigger: int | None = _option(
        "num-sorted-run.stop-trigger", _integer(1), None, "sorted runs at which a write-only writer is told so"
    )
    size_amplification_percent: int = _option(
        "compaction.max-size-amplification-percent", _integer(0), 200, "universal: newer bytes / oldest run"
    )
    size_ratio_percent: int = _option("compaction.size-ratio", _integer(0), 1, "universal: slack when run sizes are compared")
    optimization_interval_ms: int | None = _option(
        "compaction.optimization-interval", _time, None, "universal: full compaction at least so often"
    )
    total_size_threshold: int | None = _option(
        "compaction.total-size-threshold", _size, None, "universal: full compaction of buckets below"
    )
    incremental_size_threshold: int | None = _option(
        "compaction.incremental-size-threshold",
        _size,
        None,
        "universal: full compaction once so much lies outside the oldest level",
    )
    offpeak_start_hour: int = _option(
        "compaction.offpeak.start.hour", _integer(-1, 23), -1, "first hour of the off-peak time, -1 = none"
    )
    offpeak_end_hour: int = _option(
        "compaction.offpeak.end.hour", _integer(-1, 23), -1, "first hour after the off-peak time, -1 = none"
    )
    offpeak_ratio_percent: int = _option(
        "compaction.offpeak-ratio", _integer(0, 100), 0, "added to compaction.size-ratio off peak"
    )
    partition_default_name: str = _option(
        "partition.default-name", _text, "__DEFAULT_PARTITION__", "directory name of the null partition"
    )
    manifest_target_bytes: int = _option("manifest.target-file-size", _size, 8 << 20, "manifests smaller than this are merged")
    manifest_merge_count: int = _option("manifest.merge-min-count", _integer(2), 30, "small manifests that start a merge")
    commit_retries: int = _option("commit.max-retries", _integer(0), 10, "attempts after the first that lost a race")
    commit_wait_min_ms: int = _option("commit.min-retry-wait", _time, 10, "first wait between attempts")
    commit_wait_max_ms: int = _option("commit.max-retry-wait", _time, 10_000, "longest wait between attempts")
    vector_broadcast_bytes: int = _option(
        "read.vector-broadcast-limit", _size, 64 << 20, "Spark: larger deletion vectors are applied in Arrow tasks instead (own)"
    )

    @staticmethod
    def parse(given: Mapping[str, object], where: str = "table options") -> Options:
        """The options given by name; values may be text as in SQL or plain Python values. Raises InvalidOption."""
        values = {}
        for name, value in given.items():
            option = _BY_NAME.get(name)
            if option is None:
                raise InvalidOption(f"unknown option {name!r}", where=where, cure=_suggest(name))
            parse = option.metadata["parse"]
            try:
                values[option.name] = parse(value)
            except ValueError:
                raise InvalidOption(
                    f"option {name!r} has a value it cannot take",
                    where=where,
                    expected=parse.expected,
                    found=repr(value),
                    cure=_CURES.get(name, "correct the value or leave the option out"),
                ) from None
        options = Options(**values)
        _check(options, given, where)
        return options


_BY_NAME = {option.metadata["name"]: option for option in fields(Options)}
DESCRIPTIONS: Mapping[str, str] = {name: option.metadata["description"] for name, option in _BY_NAME.items()}
"""What every option means, by name."""

_CURES = {
    "merge-engine": "this release merges by 'deduplicate' only",
    "bucket": "give a fixed number of buckets; dynamic (-1) and postponed (-2) buckets are not supported",
}


def _suggest(name: str) -> str:
    near = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else "lsmlake.options.DESCRIPTIONS lists the options there are"


def _check(options: Options, given: Mapping[str, object], where: str) -> None:
    def refuse(what: str, cure: str) -> None:
        raise InvalidOption(what, where=where, cure=cure)

    if not options.deletion_vectors:
        refuse(
            "deletion-vectors.enabled = false is not supported by this release", "leave the option out; vectors are on by default"
        )
    if options.stop_trigger is not None and options.stop_trigger < options.compaction_trigger:
        refuse(
            f"num-sorted-run.stop-trigger ({options.stop_trigger}) is below the trigger ({options.compaction_trigger})",
            "raise the stop trigger",
        )
    if options.row_group_bytes > options.target_file_bytes:
        refuse(
            f"file.block-size ({options.row_group_bytes} bytes) is above target-file-size ({options.target_file_bytes} bytes)",
            "give target-file-size at least the size of a row group",
        )
    if (options.offpeak_start_hour == -1) != (options.offpeak_end_hour == -1):
        refuse(
            "only one end of the off-peak time is given", "set both compaction.offpeak.start.hour and compaction.offpeak.end.hour"
        )
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
