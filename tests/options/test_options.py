"""Options: text and Python values are equivalent, units are parsed, contradictions refused, and every option has an effect."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import new_lake

import lsmlake
from lsmlake.cli.docs import DOCUMENTS
from lsmlake.errors import InvalidOption
from lsmlake.maintain.version_listings import OWN, reference
from lsmlake.options import column_options, option_rules
from lsmlake.options.option import Change, Tables, When, options_of
from lsmlake.options.table_options import OPTIONS, Options, group_of

LIBRARY = Path(lsmlake.__file__).parent
PAGES = [LIBRARY.parent / "README.md", *DOCUMENTS.values()]


def test_nothing_given_is_the_defaults():
    options = Options.parse({})
    assert options.values == {name: option.default for name, option in OPTIONS.items()}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("bucket", 4, 4),
        ("bucket", "4", 4),
        ("bucket", "32768", 32_768),
        ("bucket-key", "a, b", ("a", "b")),
        ("bucket-key", ["a", "b"], ("a", "b")),
        ("write-only", True, True),
        ("write-only", "TRUE", True),
        ("write-only", "false", False),
        ("target-file-size", "64 mb", 64 << 20),
        ("target-file-size", "1GB", 1 << 30),
        ("target-file-size", 1 << 26, 1 << 26),
        ("file.block-size", "512 kb", 512 << 10),
        ("file.block-size", "512k", 512 << 10),
        ("file.block-size", "7 B", 7),
        ("commit.min-retry-wait", "2 s", 2_000),
        ("commit.max-retry-wait", "1 h", 3_600_000),
        ("commit.max-retry-wait", "1 Day", 86_400_000),
        ("merge-engine", "Deduplicate", "deduplicate"),
        ("compaction.strategy", "UNIVERSAL", "universal"),
        ("file.compression", "none", "none"),
        ("rowkind.field", " op ", "op"),
    ],
)
def test_a_value_is_read_as_text_or_as_it_is(name, value, expected):
    assert Options.parse({name: value}).values[name] == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bucket", "1_0"),
        ("bucket", "\u0663"),
        ("snapshot.num-retained.min", "1_0"),
        ("target-file-size", "\u0663 mb"),
        ("sequence.field", {"a", "b"}),
        ("sequence.field", {"a": 1}),
        ("bucket-key", [["a"]]),
        ("rowkind.field", b"op"),
    ],
)
def test_a_value_that_other_readers_see_otherwise_is_refused(name, value):
    """Also a set, which has no order, and objects whose text is that of Python."""
    with pytest.raises(InvalidOption, match=re.escape(f"option {name!r} has an invalid value")):
        Options.parse({name: value})


def test_an_option_without_a_value_is_not_reset():
    with pytest.raises(InvalidOption, match=r"option 'bucket' has no value; write unset_option\('bucket'\)"):
        lsmlake.set_option("bucket", None)


UNIVERSAL = {"compaction.strategy": "universal"}
FULL = {"changelog-producer": "full-compaction"}


@pytest.mark.parametrize(
    ("given_options", "name", "expected"),
    [
        (FULL, "deletion-vectors.enabled", False),
        ({"changelog-producer": "lookup"}, "deletion-vectors.enabled", True),
        (FULL, "compaction.strategy", "universal"),
        ({"deletion-vectors.enabled": "false"}, "compaction.strategy", "universal"),
        (FULL, "full-compaction.delta-commits", 1),
        (FULL | {"full-compaction.delta-commits": 7}, "full-compaction.delta-commits", 7),
        (UNIVERSAL, "num-levels", 6),
        (UNIVERSAL | {"num-sorted-run.compaction-trigger": 3}, "num-levels", 4),
        ({"deletion-vectors.enabled": "false"}, "lookup-compact", None),
        ({"deletion-vectors.enabled": "false", "changelog-producer": "lookup"}, "lookup-compact", "radical"),
        (UNIVERSAL | {"num-sorted-run.compaction-trigger": 4}, "lookup-compact.max-interval", 8),
        (UNIVERSAL | {"compaction.offpeak.start.hour": "-1"}, "compaction.offpeak.start.hour", None),
    ],
)
def test_a_default_follows_from_other_options(given_options, name, expected):
    assert Options.parse(given_options).values[name] == expected


@pytest.mark.parametrize("name", ["a/../../b", "x/y", "a\\b", "a\0b", "a\nb", "a\x7f", "\ud800", ""])
def test_a_name_that_cannot_be_a_directory_is_refused(name):
    with pytest.raises(InvalidOption, match=r"partition\.default-name"):
        Options.parse({"partition.default-name": name}, "d.t")


@examples(100)
@given(st.sampled_from(list(OPTIONS)), st.text(max_size=12) | st.integers() | st.floats() | st.none() | st.booleans())
def test_any_value_is_either_taken_or_refused_by_name(name, value):
    try:
        options = Options.parse({name: value}, "d.t")
    except InvalidOption as refused:
        assert name in refused.what, refused
        assert refused.where == "d.t"
        assert refused.found
        assert refused.cure
    else:
        text = OPTIONS[name].type.text(options.values[name])
        assert text is None or Options.parse({name: text}).values[name] == options.values[name]


# --- the rules between options ---

VALUES = {
    "integer": 3,
    "boolean": "true",
    "size": "1 kb",
    "duration": "1 h",
    "columns": "a",
    "column": "a",
    "text": "a",
    "fraction": "0.2",
}


def some_value(name: str) -> object:
    kind = OPTIONS[name].type
    return VALUES.get(kind.name) or kind.takes.split("'")[-2]


LOOKUP = {"changelog-producer": "lookup"}
INDEXED = {"file-index.bloom-filter.columns": "v"}
EXPIRING = {"partition.expiration-time": "7 d"}
EXPIRY = "partition.expiration-", "partition.timestamp-"
IDLE = {"partition.idle-time-to-done": "1 h"}
AUTOMATIC = {"tag.automatic-creation": "process-time"}
TIERED = {"compaction.strategy": "tiered"}
GENTLE = UNIVERSAL | {"lookup-compact": "gentle"}
EFFECTS = [
    (["bucket.target-size"], {"bucket": -2}, {"bucket": 4}),
    (["compaction.tier-runs", "compaction.reclaim-dead-percent"], {}, UNIVERSAL),
    (
        [
            "num-sorted-run.compaction-trigger",
            "compaction.max-size-amplification-percent",
            "compaction.size-ratio",
            "compaction.optimization-interval",
            "compaction.total-size-threshold",
            "compaction.incremental-size-threshold",
            "compaction.offpeak-ratio",
            "lookup-compact",
        ],
        UNIVERSAL,
        TIERED,
    ),
    (["compaction.offpeak.start.hour"], UNIVERSAL | {"compaction.offpeak.end.hour": 4}, TIERED),
    (["compaction.offpeak.end.hour"], UNIVERSAL | {"compaction.offpeak.start.hour": 4}, TIERED),
    (["lookup-compact"], LOOKUP | UNIVERSAL | {"deletion-vectors.enabled": "false"}, {"deletion-vectors.enabled": "false"}),
    (["lookup-compact.max-interval"], GENTLE, UNIVERSAL),
    (["deletion-vectors.merge-min-count", "file.row-addresses"], {}, {"deletion-vectors.enabled": "false"}),
    (["file.compression.zstd-level"], {}, {"file.compression": "lz4"}),
    (["metadata.stats-truncate"], {"metadata.stats-mode": "truncate"}, {"metadata.stats-mode": "full"}),
    (["sequence.field"], {"merge-engine": "partial-update"}, {"merge-engine": "first-row"}),
    (["sequence.field.sort-order"], {"sequence.field": "a"}, {}),
    (["sequence.delete-retained"], {"sequence.field": "a"}, {"merge-engine": "partial-update", "sequence.field": "a"}),
    (
        ["partial-update.remove-record-on-delete", "partial-update.remove-record-on-sequence-group"],
        {"merge-engine": "partial-update"},
        {"merge-engine": "aggregation"},
    ),
    (["aggregation.remove-record-on-delete"], {"merge-engine": "aggregation"}, {}),
    (["changelog-producer.row-deduplicate", "lookup.cache-max-memory-size"], LOOKUP, {"changelog-producer": "input"}),
    (
        ["changelog-producer.row-deduplicate-ignore-fields"],
        FULL | {"changelog-producer.row-deduplicate": "true"},
        FULL | {"changelog-producer.row-deduplicate": "false"},
    ),
    (
        ["changelog.num-retained.min", "changelog.num-retained.max", "changelog.time-retained"],
        {"changelog-producer": "input"},
        {},
    ),
    (["metadata.iceberg.catalog"], {"metadata.iceberg": "true"}, {}),
    (["metadata.iceberg.table"], {"metadata.iceberg": "true", "metadata.iceberg.catalog": "prod"}, {"metadata.iceberg": "true"}),
    (
        [name for name in OPTIONS if OPTIONS[name].only and name.startswith("tag.") and name != "tag.batch.customized-name"],
        AUTOMATIC,
        {},
    ),
    (["watermark.delay"], {"watermark.column": "at"}, {}),
    (["tag.batch.customized-name", "tag.num-retained-max"], {"tag.automatic-creation": "batch"}, {}),
    ([name for name in OPTIONS if OPTIONS[name].only and name.startswith(EXPIRY)], EXPIRING, {}),
    (["partition.timestamp-pattern", "partition.timestamp-formatter"], IDLE, {}),
    (["partition.time-interval", "partition.mark-done-action", "partition.mark-done-action.params"], IDLE, {}),
    (["partition.mark-done-action.url"], IDLE | {"partition.mark-done-action": "http-report"}, {}),
    (["partition.mark-done-action.custom.class"], IDLE | {"partition.mark-done-action": "custom"}, {}),
    ([name for name in OPTIONS if OPTIONS[name].only and name.startswith("file-index.")], INDEXED, {}),
    ([name for name in OPTIONS if OPTIONS[name].only and name.startswith("history.")], {"history.source": "sales.orders"}, {}),
]
"""Options, others under which they have an effect, and others under which they have none."""


@pytest.mark.parametrize(
    ("names", "others", "without_effect"), EFFECTS, ids=lambda part: part[0] if isinstance(part, list) else ""
)
def test_an_option_that_has_no_effect_is_refused(names, others, without_effect):
    for name in names:
        options = Options.parse(others | {name: some_value(name)})
        assert options.values[name] == OPTIONS[name].type.read(some_value(name))
        with pytest.raises(InvalidOption, match=f"option '{re.escape(name)}' has no effect unless"):
            Options.parse(without_effect | {name: some_value(name)})


def test_every_option_that_needs_another_is_tested():
    needing = {name for name, option in OPTIONS.items() if option.only and option.tables is not Tables.APPEND_ONLY}
    assert {name for names, _, _ in EFFECTS for name in names} == needing


PARTIAL = {"merge-engine": "partial-update"}
BROKEN = [
    ({"deletion-vectors.enabled": "false"}, {"compaction.strategy": "tiered"}),
    (FULL, {"deletion-vectors.enabled": "true"}),
    ({"metadata.iceberg": "true"}, {"deletion-vectors.enabled": "false"}),
    ({"merge-engine": "first-row"}, {"changelog-producer": "input"}),
    (PARTIAL | {"partial-update.remove-record-on-delete": "true"}, {"ignore-delete": "true"}),
    (PARTIAL | {"partial-update.remove-record-on-sequence-group": "a"}, {"ignore-delete": "true"}),
    ({"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"}, {"ignore-delete": "true"}),
    (
        PARTIAL | {"partial-update.remove-record-on-delete": "true"},
        {"partial-update.remove-record-on-sequence-group": "a"},
    ),
    ({"scan.fallback-branch": "b"}, {"scan.primary-branch": "c"}),
    ({}, {"record-level.expire-time": "1 h"}),
    ({}, {"tag.automatic-creation": "watermark"}),
    (UNIVERSAL, {"compaction.offpeak.start.hour": 0}),
    (UNIVERSAL | {"num-sorted-run.compaction-trigger": 5}, {"num-sorted-run.stop-trigger": 4}),
    ({"target-file-size": "128 mb"}, {"file.block-size": "1 gb"}),
    ({"snapshot.num-retained.min": 10}, {"snapshot.num-retained.max": 9}),
    (LOOKUP | {"changelog.num-retained.min": 5}, {"changelog.num-retained.max": 4}),
    ({"commit.max-retry-wait": "10 s"}, {"commit.min-retry-wait": "11 s"}),
    (AUTOMATIC | {"tag.creation-delay": "2 h"}, {"tag.creation-period": "two-hours"}),
    (IDLE, {"partition.mark-done-action": "success-file,http-report"}),
    (IDLE, {"partition.mark-done-action": "custom"}),
]
"""For each rule, in order: options that are accepted, and one more that is not."""


@pytest.mark.parametrize(("rule", "pair"), [*zip(option_rules.RULES, BROKEN, strict=True)], ids=lambda part: type(part).__name__)
def test_options_that_contradict_each_other_are_refused_with_both_names_and_a_cure(rule, pair):
    accepted, one_more = pair
    assert Options.parse(accepted)
    with pytest.raises(InvalidOption) as refused:
        Options.parse(accepted | one_more, "d.t")
    names = [part.option if isinstance(part, When) else part for part in rule[:2]]
    assert all(name in refused.value.what and f"{name} = " in refused.value.found for name in names)
    assert refused.value.where == "d.t" and refused.value.cure


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"target-file-size": "16 mb"}, "file.block-size", 16 << 20),
        ({"file.block-size": "1 gb"}, "target-file-size", 1 << 30),
        ({"snapshot.num-retained.max": 9}, "snapshot.num-retained.min", 9),
        ({"num-sorted-run.stop-trigger": 4}, "num-sorted-run.compaction-trigger", 4),
        ({"num-sorted-run.stop-trigger": 4, "deletion-vectors.enabled": "false"}, "num-levels", 5),
        ({"commit.min-retry-wait": "11 s"}, "commit.max-retry-wait", 11_000),
        ({"compaction.size-ratio": 1}, "compaction.strategy", "universal"),
        ({"compaction.size-ratio": 1}, "num-levels", 6),
        ({"file.format": "parquet"}, "file.format", "parquet"),
        ({"deletion-vectors.bitmap64": "true"}, "deletion-vectors.bitmap64", True),
        ({"dynamic-partition-overwrite": "true"}, "dynamic-partition-overwrite", True),
        ({"snapshot.time-retained": "PT1H"}, "snapshot.time-retained", 3_600_000),
        ({"snapshot.time-retained": "P1DT2H3M4S"}, "snapshot.time-retained", 93_784_000),
    ],
)
def test_a_default_follows_what_is_given_and_what_lsmlake_does_anyway_is_accepted(given: dict, name: str, value: object):
    assert Options.parse(given).values[name] == value


@pytest.mark.parametrize(
    "given",
    [
        {"file.format": "orc"},
        {"deletion-vectors.bitmap64": "false"},
        {"dynamic-partition-overwrite": "false"},
        {"snapshot.time-retained": "PT"},
        {"snapshot.time-retained": "P"},
        {"snapshot.time-retained": "P1M"},
        {"bucket": "0"},
        {"bucket": "32769"},
        {"bucket": "-3"},
        {"compaction.strategy": "tiered", "compaction.size-ratio": 1},
    ],
)
def test_what_lsmlake_does_not_do_is_refused(given: dict):
    with pytest.raises(InvalidOption):
        Options.parse(given)


def test_an_append_only_table_needs_no_number_of_buckets():
    assert Options.parse({"bucket": "-1"}, keyed=False) == Options.parse({}, keyed=False)


def test_a_rule_does_not_refuse_equal_values_or_what_is_off():
    assert Options.parse({"snapshot.num-retained.max": 10, "num-sorted-run.stop-trigger": 5, "commit.min-retry-wait": "10 s"})
    assert Options.parse(PARTIAL | {"partial-update.remove-record-on-delete": "false", "ignore-delete": "true"})
    assert Options.parse(UNIVERSAL | {"compaction.offpeak.start.hour": -1})
    assert Options.parse({"metadata.iceberg": "true", "deletion-vectors.enabled": "false"}, keyed=False)
    assert Options.parse({"merge-engine": "first-row", "first-row.ignore-delete": "true"}).write.ignore_delete


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("fields.a.agregate-function", "sum", "did you mean .aggregate-function"),
        ("fields.aggregate-function", "sum", "unknown option"),
        ("fields.a,b.aggregate-function", "sum", "names several columns"),
        ("fields.a.count-limit", "0", "an integer of at least 1"),
        ("fields.a.nested-key-null-strategy", "drop", "'merge' or 'ignore' or 'error'"),
        ("fields.a.distinct", "maybe", "true or false"),
    ],
)
def test_an_option_of_a_column_is_checked_like_any_other(name, value, words):
    with pytest.raises(InvalidOption, match=words):
        Options.parse({"merge-engine": "aggregation", name: value})


def test_an_option_of_a_column_needs_an_engine_that_reads_it():
    with pytest.raises(InvalidOption, match="unless merge-engine = partial-update or aggregation"):
        Options.parse({"fields.a.aggregate-function": "sum"})


# --- the reference ---

MET_ANYWAY = {
    "num-sorted-run.stop-trigger",  # a writer that compacts does so before it commits: it is never behind
    *("file.format", "deletion-vectors.bitmap64", "dynamic-partition-overwrite"),  # they have one value
}
READ_AS = {"reclaim_dead_percent": "dead_share"}
READERS = "\n".join(path.read_text() for path in LIBRARY.rglob("*.py") if path.parent.name != "options")


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() - MET_ANYWAY))
def test_every_option_is_read_somewhere(name):
    groups = Options.parse({})
    (attribute,) = [each.attribute for each in options_of(type(getattr(groups, group_of(name)))) if each.option.name == name]
    read = READ_AS.get(attribute, attribute)
    assert re.search(rf"(\.{group_of(name)}|\boptions)\.{read}\b", READERS), f"nothing reads {read}"


def test_the_reference_describes_every_option_in_full():
    rows = list(reference())
    assert [row.name for row in rows] == [*OPTIONS, *column_options.TEMPLATES]
    for row in rows:
        assert all((row.group, row.type, row.takes, row.origin, row.change)), row
        assert len(row.description) > 10 and row.description[-1] not in ".;", row
    assert len({row.name for row in rows}) == len(rows)


def test_a_default_in_the_reference_is_read_as_the_default():
    for row in reference():
        option = OPTIONS[row.name] if row.name in OPTIONS else column_options.described(row.name)
        read = () if row.default is None else option.type.read(row.default)
        assert read == (() if option.default is None else option.default), row


def test_options_that_paimon_does_not_have():
    assert {row.name for row in reference() if row.origin == OWN} == {
        "bucket.target-size",
        "compaction.strategy",
        "compaction.tier-runs",
        "metadata.iceberg",
        "metadata.iceberg.level0",
        "metadata.iceberg.catalog",
        "metadata.iceberg.first-row-id",
        "metadata.iceberg.table",
        "compaction.reclaim-dead-percent",
        "deletion-vectors.merge-min-count",
        "file-index.bloom-filter.fpp",
        "file.row-addresses",
        "metadata.stats-truncate",
        "read.vector-broadcast-limit",
        "sequence.delete-retained",
        "snapshot.expire.on-commit",
        "write.collect-rows",
        "write.driver-statement-size",
        "write.delete.isolation-level",
        "write.update.isolation-level",
        "write.merge.isolation-level",
        "fields.<column>.overflow",
        "watermark.column",
        "watermark.delay",
        "commit.callback-url",
        "tag.callback-url",
        *(name for name in OPTIONS if name.startswith(("maintain.", "history."))),
    }


def test_the_documents_name_only_options_that_there_are():
    quoted = set(re.findall(r"`([a-z-]+(?:\.[a-z-]+)+)(?: = [^`]+)?`", "\n".join(page.read_text() for page in PAGES)))
    meant = {name for name in quoted if name.partition(".")[0] in {each.partition(".")[0] for each in OPTIONS}}
    assert len(meant) > 12
    # options of Spark's data source, and an attribute
    meant -= {"scan.snapshot-id", "scan.timestamp", "scan.tag-name", "scan.schema"}
    assert meant <= OPTIONS.keys(), meant - OPTIONS.keys()


def test_what_can_change_only_while_a_table_is_empty():
    changes = {row.name: row.change for row in reference()}
    assert {name for name, change in changes.items() if change == Change.WHILE_EMPTY.value} == {
        "bucket-key",
        "history.track",
        "history.track-except",
        "history.sequence-by",
        "history.start",
    }
    assert {name for name, change in changes.items() if change == Change.REWRITES.value and "fields." not in name} == {
        "merge-engine",
        "sequence.field",
        "sequence.field.sort-order",
        "sequence.delete-retained",
        "partial-update.remove-record-on-delete",
        "partial-update.remove-record-on-sequence-group",
        "aggregation.remove-record-on-delete",
        "deletion-vectors.enabled",
        "changelog-producer",
        "num-levels",
    }


def test_what_was_given_is_kept_as_text_and_read_back():
    given_options = {"bucket": 4, "write-only": True, "target-file-size": "64 mb", "bucket-key": ["k", "j"]}
    lake = new_lake()
    lake.create_table("d.t", "k INT, j INT, v INT", primary_key=["k", "j"], options=given_options)
    table = lake.table("d.t")
    assert dict(table.options) == {"bucket": "4", "write-only": "true", "target-file-size": "64 mb", "bucket-key": "k,j"}
    assert table.version.schema.parsed_options == Options.parse(given_options)


# --- what they do ---


def rows(start: int, stop: int) -> dict:
    return {"k": list(range(start, stop)), "v": [f"v{i % 7}" for i in range(start, stop)]}


def table_with(**options: object):
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return new_lake().create_table("d.t", "k BIGINT, v STRING", primary_key=["k"], options=named)


def test_bucket_is_the_number_of_buckets():
    table = table_with(bucket=3)
    table.upsert(rows(0, 100))
    assert sorted(bucket.number for bucket in table.states()) == [0, 1, 2]


def test_write_only_leaves_rows_at_level_0_by_default():
    table = table_with(write_only=True)
    table.upsert(rows(0, 5))
    assert table.files()["level"].to_pylist() == [0]
    table.upsert(rows(2, 7), compact=True)
    assert 0 not in table.files()["level"].to_pylist()


def test_num_levels_is_the_depth_of_the_tree():
    table = table_with(num_levels=4)
    table.upsert(rows(0, 5))
    assert table.files()["level"].to_pylist() == [3]


CODECS = [("zstd", "ZSTD"), ("snappy", "SNAPPY"), ("lz4", "LZ4"), ("none", "UNCOMPRESSED"), ("auto", "ZSTD")]


@pytest.mark.parametrize(
    ("codec", "name", "count"), [*((*one, 500) for one in CODECS), ("auto", "SNAPPY", 50), ("zstd", "ZSTD", 50)]
)
def test_file_compression_is_the_codec(codec, name, count):
    table = table_with(file__compression=codec)
    table.upsert(rows(0, count))
    (path,) = table.files()["file_path"].to_pylist()
    with table.meta.env.storage.read(path) as source:
        group = pq.ParquetFile(source).metadata.row_group(0)
    assert {group.column(i).compression for i in range(2)} == {name}
    assert table.scan().count() == count


def test_the_names_of_directories_for_null_partitions():
    lake = new_lake()
    options = {"partition.default-name": "nobody"}
    table = lake.create_table("d.t", "p STRING, k INT", primary_key=["p", "k"], partition_by=["p"], options=options)
    table.upsert({"p": [None, "x"], "k": [1, 1]})
    assert sorted(path.split("/")[2] for path in table.files()["file_path"].to_pylist()) == ["p=nobody", "p=x"]


def test_the_null_partition_and_the_text_of_its_name_are_two_rows_of_a_listing():
    lake = new_lake()
    table = lake.create_table("d.t", "p STRING, k INT", primary_key=["p", "k"], partition_by=["p"])
    table.upsert({"p": [None, "__DEFAULT_PARTITION__", "x"], "k": [1, 1, 1]})
    assert table.partitions()["partition"].to_pylist() == ["p='__DEFAULT_PARTITION__'", "p=__DEFAULT_PARTITION__", "p=x"]


def test_tier_runs_is_how_many_runs_stand():
    for runs in (2, 4):
        table = table_with(compaction__tier_runs=runs)
        run_counts = []
        for number in range(9):
            table.upsert(rows(10 * number, 10 * number + 5))
            run_counts.append(len(set(table.files()["level"].to_pylist())))
        assert max(run_counts) < 2 * runs
        assert max(run_counts) >= runs - 1
