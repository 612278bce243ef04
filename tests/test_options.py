"""Options: text and plain values are read alike, units understood, contradictions refused, and every option does something."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import new_lake

import lsmlake
from lsmlake.errors import InvalidOption
from lsmlake.options.table_options import DESCRIPTIONS, Options, reference

SOURCES = Path(lsmlake.__file__).parent


def test_nothing_given_is_the_defaults():
    assert Options.parse({}) == Options()
    assert all(option.default is not MISSING for option in fields(Options))


@pytest.mark.parametrize(
    ("name", "value", "attribute", "expected"),
    [
        ("bucket", 4, "bucket", 4),
        ("bucket", "4", "bucket", 4),
        ("bucket-key", "a, b", "bucket_key", ("a", "b")),
        ("bucket-key", ["a", "b"], "bucket_key", ("a", "b")),
        ("write-only", True, "write_only", True),
        ("write-only", "TRUE", "write_only", True),
        ("write-only", "false", "write_only", False),
        ("target-file-size", "64 mb", "target_file_bytes", 64 << 20),
        ("target-file-size", "1GB", "target_file_bytes", 1 << 30),
        ("target-file-size", 1 << 26, "target_file_bytes", 1 << 26),
        ("file.block-size", "512 kb", "row_group_bytes", 512 << 10),
        ("file.block-size", "7 B", "row_group_bytes", 7),
        ("commit.min-retry-wait", "2 s", "commit_wait_min_ms", 2_000),
        ("commit.max-retry-wait", "1 h", "commit_wait_max_ms", 3_600_000),
        ("commit.max-retry-wait", "1 Day", "commit_wait_max_ms", 86_400_000),
        ("merge-engine", "Deduplicate", "merge_engine", "deduplicate"),
        ("compaction.strategy", "UNIVERSAL", "strategy", "universal"),
        ("file.compression", "none", "compression", "none"),
        ("rowkind.field", " op ", "rowkind_field", "op"),
    ],
)
def test_a_value_is_read_as_text_or_as_it_is(name, value, attribute, expected):
    assert getattr(Options.parse({name: value}), attribute) == expected


@pytest.mark.parametrize("name", ["a/../../b", "x/y", "a\\b", "a\0b", "a\nb", "a\x7f", "\ud800", ""])
def test_a_name_that_is_no_name_of_a_directory_is_refused(name):
    with pytest.raises(InvalidOption, match=r"partition\.default-name"):
        Options.parse({"partition.default-name": name}, "d.t")


@examples(100)
@given(st.sampled_from(list(DESCRIPTIONS)), st.text(max_size=12) | st.integers() | st.floats() | st.none() | st.booleans())
def test_any_value_is_either_taken_or_refused_by_name(name, value):
    try:
        Options.parse({name: value}, "d.t")
    except InvalidOption as refused:
        assert name in str(refused) or refused.what, refused
        assert refused.where == "d.t"
        assert refused.cure


MET_ANYWAY = {"num-sorted-run.stop-trigger"}  # a writer that compacts does so before it commits: it is never behind


@pytest.mark.parametrize("name", sorted(DESCRIPTIONS.keys() - MET_ANYWAY))
def test_every_option_has_words_and_is_read_somewhere(name):
    assert DESCRIPTIONS[name].strip()
    (attribute,) = [option.name.removeprefix("given_") for option in fields(Options) if option.metadata.get("name") == name]
    others = [path for path in SOURCES.rglob("*.py") if path.name != "options.py" or path.parent != SOURCES]
    assert any(re.search(rf"\.{attribute}\b", path.read_text()) for path in others), f"nothing reads {attribute}"


def test_what_was_given_is_kept_as_text_and_read_back():
    given_options = {"bucket": 4, "write-only": True, "target-file-size": "64 mb", "bucket-key": ["k", "j"]}
    lake = new_lake()
    lake.create_table("d.t", "k INT, j INT, v INT", primary_key=["k", "j"], options=given_options)
    table = lake.table("d.t")
    assert dict(table.options) == {"bucket": "4", "write-only": "true", "target-file-size": "64 mb", "bucket-key": "k,j"}
    assert table.current.parsed_options == Options.parse(given_options)


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


def test_write_only_leaves_rows_at_level_0_unless_told():
    table = table_with(write_only=True)
    table.upsert(rows(0, 5))
    assert table.files()["level"].to_pylist() == [0]
    table.upsert(rows(2, 7), compact=True)
    assert 0 not in table.files()["level"].to_pylist()


def test_num_levels_is_the_depth_of_the_tree():
    table = table_with(num_levels=4)
    table.upsert(rows(0, 5))
    assert table.files()["level"].to_pylist() == [3]


@pytest.mark.parametrize(("codec", "name"), [("zstd", "ZSTD"), ("snappy", "SNAPPY"), ("lz4", "LZ4"), ("none", "UNCOMPRESSED")])
def test_file_compression_is_the_codec(codec, name):
    table = table_with(file__compression=codec)
    table.upsert(rows(0, 500))
    (path,) = table.files()["file_path"].to_pylist()
    with table.meta.env.storage.read(path) as source:
        group = pq.ParquetFile(source).metadata.row_group(0)
    assert {group.column(i).compression for i in range(2)} == {name}
    assert table.scan().count() == 500


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
        standing = []
        for number in range(9):
            table.upsert(rows(10 * number, 10 * number + 5))
            standing.append(len(set(table.files()["level"].to_pylist())))
        assert max(standing) < 2 * runs
        assert max(standing) >= runs - 1


def test_defaults_in_the_reference_mean_what_they_are():
    by_name = {option.metadata["name"]: option for option in fields(Options) if option.metadata}
    assert [facts.name for facts in reference()] == list(by_name)
    for facts in reference():
        option = by_name[facts.name]
        read = None if facts.default is None else option.metadata["parse"](facts.default)
        assert read == (option.default or None if option.default == () else option.default), facts
