"""The table of column types: each row agrees with the systems that it names types of."""

from __future__ import annotations

import struct

import duckdb
import pyarrow as pa
import pytest

from lsmlake.kernels.value_hash import family, from_words, widest, words
from lsmlake.schema.envelope import loaded, stored
from lsmlake.types.column_types import canonical
from lsmlake.types.ddl import parse_columns
from lsmlake.types.type_table import (
    BY_DELTA,
    BY_ICEBERG,
    BY_NAME,
    DECIMAL,
    TABLE,
    as_integers,
    column_type,
    is_time,
    named,
    of_integers,
)

ROWS = pytest.mark.parametrize("row", (*TABLE, DECIMAL), ids=lambda row: row.name)


def some(row) -> pa.Array:
    """Two values of a type and a null."""
    if is_time(row.arrow):
        return of_integers(pa.array([1, None, 86_399], pa.int64()), row.arrow)
    values = [True, None, False] if row.arrow == pa.bool_() else ["1", None, "23"]
    return pa.array(values).cast(row.arrow)


@ROWS
def test_a_type_is_found_by_its_arrow_type_and_by_its_names(row):
    assert column_type(row.arrow) == row == named(row.name)
    assert canonical(row.arrow, "c") == row.arrow
    assert named(row.iceberg, BY_ICEBERG).iceberg == row.iceberg
    assert row.delta is None or named(row.delta, BY_DELTA) == row


@ROWS
def test_every_word_of_a_type_is_read_in_column_definitions(row):
    words_of = [word for words in row.ddl.values() for word in words]
    assert row.name in words_of or row is DECIMAL
    assert [parse_columns(f"c {word}").field(0).type for word in words_of] == [row.arrow] * len(words_of)


@ROWS
def test_duckdb_reads_and_returns_the_type_under_its_name(row):
    made = duckdb.sql(f"SELECT CAST(NULL AS {row.duckdb}) AS c").to_arrow_table().schema.field(0).type
    assert canonical(made, "c") == row.arrow


@ROWS
def test_spark_has_the_class(row):
    types = pytest.importorskip("pyspark.sql.types")
    assert issubclass(getattr(types, row.spark), types.DataType)


@ROWS
def test_values_are_stored_in_metadata_and_read_again(row):
    values = some(row)
    assert loaded(stored(pa.chunked_array([values])), row.name) == values
    assert of_integers(as_integers(values), row.arrow) == values


@ROWS
def test_a_family_has_words_of_all_its_types(row):
    values = pa.chunked_array([some(row).drop_null()])
    assert family(row.arrow) == row.family
    if row.family != "bytes":
        assert from_words(words(values), row.family) == values.cast(widest(row.family)).combine_chunks()


@ROWS
def test_a_date_or_time_has_limits_that_its_integers_hold(row):
    assert (row.limits is not None) == is_time(row.arrow)
    for limit in row.limits or ():
        assert of_integers(pa.array([limit], pa.int64()), row.arrow)[0].as_py() is not None
        assert len(struct.pack(row.bound, limit)) == row.arrow.bit_width // 8


@pytest.mark.parametrize("name", ["DECIMAL(0,0)", "DECIMAL(39,0)", "DECIMAL(3,4)", "DECIMAL", "date32", "LONG", "list"])
def test_there_is_no_other_type(name):
    assert named(name) is None
    assert name not in BY_NAME
