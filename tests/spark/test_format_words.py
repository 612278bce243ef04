"""Errors of `format("lsmlake")` name the options that a user has written, not arguments or calls of Python. Needs no session of
Spark: it calls the source, the readers and the writers as Spark does."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from dataclasses import fields

import pyarrow as pa
import pytest

import lsmlake
from lsmlake.api.following import Following
from lsmlake.cdc.follow import Limit
from lsmlake.errors import InvalidQuery, LakeError, SnapshotNotFound, in_options, naming, with_arguments
from lsmlake.read.travel import Moment
from lsmlake.spark.datasource.options import ARGUMENTS_OF_READS, ARGUMENTS_OF_WRITES, OPTIONS
from lsmlake.spark.datasource.readers import ReadAllAvailable
from lsmlake.spark.datasource.source import LakeSource
from lsmlake.spark.frame_types import to_spark

ROWS = pa.table({"id": [1, 1], "v": ["x", "y"], "n": pa.array([1, 2], pa.int32())})
CHANGES = ROWS.append_column("op", pa.array(["d", "u"]))
OF_PYTHON = re.compile(
    r"order_by|apply_as_deletes|except_columns|commit_columns|max_(rows|bytes|files)|lsmlake\.|ChangeFormat|\blake\b|None|datetime"
    r"|\w\(\)|\w\(\w+=|\w=(True|False|\.\.\.)|merge\(|alter\("
)
"""Words of the methods of Python that no option has."""


@pytest.fixture
def paths(lake: lsmlake.Lake, tmp_path) -> Mapping[str, str]:
    """The directories of three tables: with a key, without one, and with partitions."""
    keyed = lake.create_table("d.keyed", "id BIGINT, v STRING, n INT", primary_key=["id"])
    keyed.upsert(ROWS.slice(0, 1))
    keyed.create_tag("then")
    lake.create_table("d.plain", "id BIGINT, v STRING, n INT").append(ROWS)
    parted = lake.create_table("d.parted", "id BIGINT, v STRING, n INT", primary_key=["id", "v"], partition_by=["v"])
    parted.upsert(ROWS.slice(0, 1))
    names = "keyed", "plain", "parted"
    return {name: str(tmp_path / "warehouse" / lake.table(f"d.{name}").path) for name in names}


def read(options: Mapping[str, str]) -> None:
    source = LakeSource(options)
    reader = source.reader(source.schema())
    for partition in reader.partitions():
        list(reader.read(partition))


def stream(options: Mapping[str, str]) -> None:
    source = LakeSource(options)
    reader = source.streamReader(source.schema())
    begin = reader.initialOffset()
    end = reader.latestOffset() if ReadAllAvailable is None else reader.latestOffset(begin, ReadAllAvailable())
    for partition in reader.partitions(begin, end):
        list(reader.read(partition))


def write(options: Mapping[str, str], rows: pa.Table, *, overwrite: bool = False, micro_batch: bool = False) -> None:
    source, columns = LakeSource(options), to_spark(rows.schema)
    if micro_batch:
        writer = source.streamWriter(columns, overwrite)
        writer.commit([writer.write(iter(rows.to_batches()))], 0)
    else:
        writer = source.writer(columns, overwrite)
        writer.commit([writer.write(iter(rows.to_batches()))])


def check(error: LakeError, *names: str) -> None:
    """Asserts that the message names the options, in quotes, and no argument or call of Python."""
    text = str(error)
    for name in names:
        assert f"'{name}'" in text, text
    assert not OF_PYTHON.search(text), text


BATCHES = [
    {"where": "v ="},
    {"where": "nope = 1"},
    {"where": "id + 1"},
    {"where": ""},
    {"where": "sum(id) = 1"},
    {"where": "id IN (SELECT 1)"},
    {"where": "id = :x"},
    {"where": "CAST(v AS INT) = 1"},
    {"columns": "nope"},
    {"columns": "id,id"},
    {"columns": ""},
    {"columns": "[1]"},
    {"zone": "Mars"},
    {"scan.snapshot-id": "99"},
    {"scan.snapshot-id": "0"},
    {"scan.snapshot-id": "x"},
    {"scan.timestamp": "yesterday"},
    {"scan.timestamp": "2000-01-01"},
    {"scan.tag-name": "nope"},
    {"scan.tag-name": ""},
    {"scan.tag-name": "then", "scan.snapshot-id": "1"},
    {"scan.tag-name": "then", "scan.timestamp": "2020-01-01"},
    {"scan.timestamp": "2090-01-01", "scan.snapshot-id": "1"},
    {"branch": "nope"},
    {"branch": "a/b"},
    {"path": "/nowhere/d.db/t"},
    {"path": ""},
    {"path": "s4://x"},
    {"path": "/nowhere"},
]


@pytest.mark.parametrize("options", BATCHES, ids=str)
def test_a_wrong_option_of_a_read_is_named(paths, options):
    with pytest.raises(LakeError) as caught:
        read({"path": paths["keyed"], **options})
    check(caught.value, *options)


STREAMS = [
    ({"scan.mode": "nope"}, []),
    ({"scan.mode": "from-snapshot"}, ["scan.snapshot-id"]),
    ({"scan.mode": "from-snapshot-full"}, ["scan.snapshot-id"]),
    ({"scan.mode": "from-timestamp"}, ["scan.timestamp"]),
    ({"scan.mode": "latest", "scan.snapshot-id": "1"}, []),
    ({"scan.mode": "latest", "scan.timestamp": "2020-01-01"}, []),
    ({"scan.snapshot-id": "1", "scan.timestamp": "2020-01-01"}, []),
    ({"scan.snapshot-id": "99"}, []),
    ({"scan.snapshot-id": "0"}, []),
    ({"scan.snapshot-id": "x"}, []),
    ({"scan.tag-name": "then"}, []),
    ({"scan.timestamp": "nope"}, []),
    ({"changes.mode": "nope"}, []),
    ({"changes.mode": "changelog"}, []),
    ({"consumer-id": ""}, []),
    ({"consumer-id": "a/b"}, []),
    ({"read.commit-columns": "2"}, []),
    ({"changes.format": "nope"}, []),
    ({"changes.format": "{}"}, []),
    ({"changes.format": "{"}, []),
    ({"changes.format": "debezium-avro"}, []),
    ({"changes.format": '{"name": "debezium-json", "x": 1}'}, []),
    ({"changes.format": '{"name": "debezium-json", "schema": "yes"}'}, []),
    ({"changes.format": '{"name": "maxwell-json", "topic": 1}'}, []),
    ({"changes.format": "debezium-json", "read.changelog": "false"}, []),
    ({"changes.format": "debezium-json", "read.commit-columns": "true"}, []),
    ({"changes.format": "maxwell-json", "columns": "v"}, []),
    ({"columns": "nope"}, []),
    ({"columns": "id,id"}, []),
    ({"where": "nope = 1"}, []),
    ({"where": "v ="}, []),
    ({"where": "CAST(v AS INT) = 1"}, []),
    ({"read.stream.maxRowsPerTrigger": "0"}, []),
    ({"read.stream.maxBytesPerTrigger": "0"}, []),
    ({"read.stream.maxFilesPerTrigger": "0"}, []),
    ({"read.stream.maxFilesPerTrigger": "1 mb"}, []),
    ({"read.schema-id": "9"}, []),
    ({"replaceWhere": "id = 1"}, []),
]


@pytest.mark.parametrize(("options", "also"), STREAMS, ids=str)
def test_a_wrong_option_of_a_stream_is_named(paths, options, also):
    with pytest.raises(LakeError) as caught:
        stream({"path": paths["keyed"], **({} if "changes.format" in options else {"read.changelog": "true"}), **options})
    named = ["columns"] if options.get("columns") == "v" else [*options, *also]  # the format is right
    check(caught.value, *named)


APPENDS = [
    ({"order-by": "nope"}, ROWS),
    ({"order-by": ""}, ROWS),
    ({"order-by": "v =="}, ROWS),
    ({"order-by": "sum(n)"}, ROWS),
    ({"order-by": "id desc"}, ROWS),
    ({"order-by": "1 + 1"}, ROWS),
    ({"order-by": "rand(1) + n"}, ROWS),
    ({"order-by": "CAST(v AS INT)"}, ROWS),
    ({"order-by": "n", "zone": "Mars"}, ROWS),
    ({"apply-as-deletes": "nope = 1"}, ROWS),
    ({"apply-as-deletes": ""}, ROWS),
    ({"apply-as-deletes": "op =", "except-columns": "op"}, CHANGES),
    ({"apply-as-deletes": "op", "except-columns": "op"}, CHANGES),
    ({"apply-as-deletes": "CAST(op AS INT) = 1", "except-columns": "op"}, CHANGES),
    ({"columns": "nope"}, ROWS),
    ({"columns": "id,id"}, ROWS),
    ({"columns": "id", "except-columns": "v"}, ROWS),
    ({"except-columns": "nope"}, ROWS),
    ({"except-columns": "op,op"}, CHANGES),
    ({"write.merge-schema": "maybe"}, ROWS),
    ({"write.merge-schema": "true", "except-columns": "op"}, CHANGES),
    ({"branch": "nope"}, ROWS),
    ({"where": "id = 1"}, ROWS),
    ({"replaceWhere": "id = 1"}, ROWS),
    ({"path": "/nowhere/d.db/t"}, ROWS),
]


def wrong(options: Mapping[str, str]) -> list[str]:
    """The options that are wrong; others stand beside them."""
    if "zone" in options:
        return ["zone"]
    chosen = [name for name in options if name in ("apply-as-deletes", "order-by")]
    return chosen or list(options)


@pytest.mark.parametrize("micro_batch", [False, True])
@pytest.mark.parametrize(("options", "rows"), APPENDS, ids=lambda value: str(value) if isinstance(value, dict) else "rows")
def test_a_wrong_option_of_a_write_is_named(paths, options, rows, micro_batch):
    with pytest.raises(LakeError) as caught:
        write({"path": paths["keyed"], **options}, rows, micro_batch=micro_batch)
    check(caught.value, *wrong(options))


@pytest.mark.parametrize("options", [{"order-by": "id"}, {"apply-as-deletes": "id = 1"}], ids=str)
def test_an_option_that_needs_a_key_is_named(paths, options):
    with pytest.raises(LakeError) as caught:
        write({"path": paths["plain"], **options}, ROWS)
    check(caught.value, *options)


OVERWRITES = [
    ("keyed", {"replaceWhere": "id = 1"}),
    ("keyed", {"partitionOverwriteMode": "x"}),
    ("keyed", {"partitionOverwriteMode": "dynamic", "replaceWhere": "id = 1"}),
    ("keyed", {"columns": "id"}),
    ("keyed", {"order-by": "nope"}),
    ("parted", {"replaceWhere": "v ="}),
    ("parted", {"replaceWhere": "n = 1"}),
    ("parted", {"replaceWhere": "v = 'z'"}),
    ("parted", {"replaceWhere": "CAST(v AS INT) = 1"}),
    ("parted", {"replaceWhere": "nope = 1"}),
]


@pytest.mark.parametrize("micro_batch", [False, True])
@pytest.mark.parametrize(("table", "options"), OVERWRITES, ids=str)
def test_a_wrong_option_of_an_overwrite_is_named(paths, table, options, micro_batch):
    with pytest.raises(LakeError) as caught:
        write({"path": paths[table], **options}, ROWS, overwrite=True, micro_batch=micro_batch)
    check(caught.value, *options)


@pytest.mark.parametrize(
    "rows",
    [CHANGES, ROWS.select(["v"]), ROWS.set_column(2, "n", pa.array(["x", "y"])), ROWS.set_column(2, "n", pa.array([0.5, 1.5]))],
)
def test_data_that_does_not_fit_has_a_cure_without_python(paths, rows):
    with pytest.raises(LakeError) as caught:
        write({"path": paths["keyed"]}, rows)
    check(caught.value)


def test_rows_without_an_order_are_told_of_the_option(paths):
    """Two tasks have rows of one key that differ."""
    source = LakeSource({"path": paths["keyed"]})
    writer = source.writer(to_spark(ROWS.schema), False)
    messages = [writer.write(iter(ROWS.slice(number, 1).to_batches())) for number in (0, 1)]
    with pytest.raises(LakeError) as caught:
        writer.commit(messages)
    check(caught.value, "order-by", "any")


def test_every_argument_of_a_read_or_a_stream_has_an_option():
    arguments = {one.name for kind in (Following, Moment) for one in fields(kind)} - {"limit"}
    arguments |= {f"max_{name}" for name in Limit._fields}
    assert arguments <= ARGUMENTS_OF_READS.keys()
    assert {*ARGUMENTS_OF_READS.values(), *ARGUMENTS_OF_WRITES.values()} - {"any"} <= OPTIONS.keys()


def test_an_error_keeps_its_class_its_cause_and_its_words():
    cause = ValueError("why")
    with pytest.raises(SnapshotNotFound) as caught, in_options({"snapshot": "scan.snapshot-id"}), naming("snapshot"):
        raise SnapshotNotFound("there is none", where="{table}", found=7) from cause
    assert str(caught.value) == "'scan.snapshot-id', {table}: there is none, found 7"
    assert caught.value.__cause__ is cause


def test_an_argument_is_named_once_in_the_words_of_each_user():
    error = InvalidQuery(with_arguments("{} and {} exclude each other", "order_by", "where"), where="d.t")
    with pytest.raises(InvalidQuery) as caught, naming("columns"):
        raise error
    passed = pickle.loads(pickle.dumps(caught.value))
    assert str(passed) == "d.t: order_by and where exclude each other"
    assert passed.for_command_line() == "d.t: --order-by and --where exclude each other"
    assert str(passed.for_options({"order_by": "order-by"})) == "d.t: 'order-by' and 'where' exclude each other"
