"""Options of `format("lsmlake")` and triggers of streams that cannot be obeyed are refused by name. Needs no session of Spark."""

from __future__ import annotations

import pytest

from lsmlake.errors import InvalidData, InvalidOption
from lsmlake.spark.datasource.options import Given
from lsmlake.spark.datasource.source import LakeSource
from lsmlake.spark.stream import Sink, check_trigger
from lsmlake.write.write_request import WriteRequest

IN_CATALOG = {"path": "p", "provider": "lsmlake"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("versionAsOf", "'scan.snapshot-id'"),
        ("timestampAsOf", "'scan.timestamp'"),
        ("startingVersion", "'scan.snapshot-id'"),
        ("startingOffsets", "'scan.mode'"),
        ("paths", "load one table"),
        ("mergeSchema", "did you mean 'write.merge-schema'"),
        ("overwriteSchema", "ALTER TABLE"),
        ("inferSchema", "the table has its columns"),
        ("maxFilesPerTrigger", "did you mean 'read.stream.maxFilesPerTrigger'"),
        ("zzz", "use one of path"),
    ],
)
def test_the_name_of_another_format_has_a_cure(name, words):
    with pytest.raises(InvalidOption, match=f"unknown option {name!r}; ") as caught:
        Given.of({"path": "p", name: "1"})
    assert words in caught.value.cure


def test_an_option_without_a_value_is_not_left_out():
    with pytest.raises(InvalidOption, match=r"option 'scan\.snapshot-id' has no value"):
        Given.of({"path": "p", "scan.snapshot-id": None})


@pytest.mark.parametrize("text", ["-1", "1.0", "true", "", "\u0663", "1_0"])
def test_a_number_is_of_plain_digits(text):
    with pytest.raises(InvalidOption, match=r"option 'scan\.snapshot-id' is a number.*; pass an integer of at least 0"):
        _ = Given.of({"path": "p", "scan.snapshot-id": text}).moment


def test_a_property_of_a_catalog_table_does_not_contradict_its_options():
    """Spark passes options and properties together, and repeats each option as `option.<name>`."""
    assert Given.of({**IN_CATALOG, "where": "id = 1", "option.where": "id = 1", "option.path": "q"}).where == "id = 1"
    with pytest.raises(InvalidOption, match=r"differ in 'where', found 'id = 2' and 'id = 1'; write it once"):
        Given.of({**IN_CATALOG, "where": "id = 1", "option.where": "id = 2"})
    with pytest.raises(InvalidOption, match=r"the property option\.where without the option"):
        Given.of({**IN_CATALOG, "option.where": "id = 2"})


def test_a_stream_of_an_unknown_schema_is_refused_with_those_that_there_are(lake, tmp_path):
    table = lake.create_table("d.t", "k INT", primary_key=["k"])
    given = {"path": str(tmp_path / "warehouse" / table.path)}
    assert LakeSource({**given, "read.schema-id": "0"}).schema().names == ["k"]
    with pytest.raises(InvalidOption, match=r"'read\.schema-id' names no schema of the table, expected one of \[0\], found 9"):
        LakeSource({**given, "read.schema-id": "9"}).schema()


@pytest.mark.parametrize(
    "trigger",
    [
        {},
        {"every": "1 s"},
        {"availableNow": False},
        {"availableNow": True, "once": True},
        {"processingTime": ""},
        {"processingTime": 5},
        {"continuous": "1 second"},
    ],
)
def test_what_is_no_trigger_is_refused(trigger):
    with pytest.raises(InvalidOption, match=r"trigger: not a trigger, expected one of \{'processingTime': '10 seconds'\}"):
        check_trigger(trigger)


@pytest.mark.parametrize("trigger", [None, {"availableNow": True}, {"once": True}, {"processingTime": "1 minute"}])
def test_a_trigger_of_spark_is_taken(trigger):
    check_trigger(trigger)


def test_a_sink_takes_dataframes_of_spark_only(lake):
    sink = Sink(lake.create_table("d.t", "k INT"), None, WriteRequest(), None, None, None)
    with pytest.raises(InvalidData, match="not a DataFrame of Spark, found list; pass the sink to foreachBatch"):
        sink([{"k": 1}], 1)
