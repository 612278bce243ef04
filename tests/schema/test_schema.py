"""Schemas: what is written is read, ids are all or nothing, the file is JSON that people can read."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import contents, new_lake

from lsmlake.errors import Corrupt, InvalidSchema
from lsmlake.kernels import nested
from lsmlake.schema.envelope import wrap_json
from lsmlake.schema.schema import Schema
from lsmlake.types import column_types
from lsmlake.types.ddl import parse_columns
from lsmlake.types.type_text import format_columns

QUICK = examples(100)
PLAIN = st.sampled_from(
    [
        pa.bool_(),
        pa.int8(),
        pa.int64(),
        pa.float32(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.decimal128(38, 10),
    ]
)
NAMES = st.text(min_size=1, max_size=8).filter(lambda name: name.strip() and name.lower() != "_row_kind" and "\0" not in name)


def distinct(names: list[str]) -> bool:
    return len({name.lower() for name in names}) == len(names)


def structs(inner: st.SearchStrategy) -> st.SearchStrategy:
    fields = st.lists(st.tuples(NAMES, inner, st.booleans()), min_size=1, max_size=3)
    distinct_fields = fields.filter(lambda found: distinct([name for name, _, _ in found]))
    return distinct_fields.map(lambda found: pa.struct([pa.field(*field) for field in found]))


TYPES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        structs(inner),
        st.tuples(inner, st.booleans()).map(lambda pair: pa.list_(pa.field("item", *pair))),
        st.tuples(PLAIN, inner, st.booleans()).map(lambda found: pa.map_(found[0], pa.field("value", *found[1:]))),
    ),
    max_leaves=5,
)
COLUMNS = st.lists(st.tuples(NAMES, TYPES, st.booleans()), min_size=1, max_size=5).filter(
    lambda found: distinct([f[0] for f in found])
)


def with_key(columns: list[tuple], **options: object) -> Schema:
    arrow = pa.schema([pa.field("_k", pa.int64()), *(pa.field(*column) for column in columns)])
    return Schema.create(arrow, ["_k"], [], options, "words", 5, "0000", "d.t")


def ids_in(type_: pa.DataType) -> list[int]:
    fields = [type_.field(i) for i in range(type_.num_fields)] if pa.types.is_struct(type_) else []
    if pa.types.is_map(type_):
        fields = [type_.key_field, type_.item_field]
    elif pa.types.is_list(type_):
        fields = [type_.value_field]
    return [number for field in fields for number in (column_types.field_id(field), *ids_in(field.type))]


@QUICK
@given(COLUMNS.filter(lambda columns: all(name.lower() != "_k" for name, _, _ in columns)))
def test_a_schema_is_read_as_it_was_written(columns):
    schema = with_key(columns, bucket=3)
    again = Schema.decode(schema.encode(), "schema-0")
    assert again == schema
    assert again.columns.equals(schema.columns, check_metadata=True)
    assert again.parsed_options.layout.buckets == 3


@QUICK
@given(COLUMNS.filter(lambda columns: all(name.lower() != "_k" for name, _, _ in columns)))
def test_every_field_of_every_level_has_an_id_of_its_own(columns):
    schema = with_key(columns)
    ids = [number for field in schema.columns for number in (column_types.field_id(field), *ids_in(field.type))]
    assert sorted(ids) == list(range(1, len(ids) + 1))
    assert schema.highest_field_id == len(ids)


@QUICK
@given(TYPES)
def test_plain_and_nullable_change_only_what_they_say(type_):
    canonical = column_types.canonical(type_, "c")
    numbered = column_types.with_ids(canonical, iter(range(1, 100)))
    assert column_types.plain(numbered) == column_types.plain(canonical)
    assert column_types.canonical(canonical, "c") == canonical
    open_inside = nested.nullable(column_types.plain(canonical))
    assert not nested.has_required(open_inside)
    assert pa.nulls(2, column_types.plain(canonical)).cast(open_inside).null_count == 2
    nulls = nested.nulls(3, column_types.plain(canonical))
    assert nulls.type == column_types.plain(canonical)
    assert nulls.null_count == 3


@pytest.mark.parametrize(
    ("brought", "stored"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.binary(4), pa.binary()),
        (pa.large_binary(), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("s", "Asia/Tokyo"), pa.timestamp("us", "UTC")),
        (pa.decimal256(20, 2), pa.decimal128(20, 2)),
        (pa.large_list(pa.int32()), pa.list_(pa.field("element", pa.int32()))),
        (pa.list_(pa.int32(), 3), pa.list_(pa.field("element", pa.int32()))),
    ],
)
def test_types_have_one_form(brought, stored):
    lake = new_lake()
    table = lake.create_table("d.t", pa.schema([("k", pa.int64()), ("v", brought)]), primary_key=["k"])
    assert table.schema.field("v").type == stored


def test_a_schema_file_is_json_that_people_can_read():
    lake = new_lake()
    columns = "k BIGINT, p STRING, amount DECIMAL(10,2) COMMENT 'net', tags ARRAY<STRING>"
    lake.create_table("d.t", columns, primary_key=["p", "k"], partition_by=["p"], options={"bucket": 2}, comment="Bestellungen ü")
    content = json.loads(contents(lake.env.storage)["d.db/t/schema/schema-0"])
    assert [field["name"] for field in content["fields"]] == ["k", "p", "amount", "tags"]
    assert content["fields"][0] == {"id": 1, "name": "k", "type": "BIGINT", "nullable": False}
    assert content["fields"][2] == {"id": 3, "name": "amount", "type": "DECIMAL(10,2)", "nullable": True, "comment": "net"}
    assert (content["primary_key"], content["partition_by"], content["options"]) == (["p", "k"], ["p"], {"bucket": "2"})
    assert content["comment"] == "Bestellungen ü"


def test_keys_are_required_and_partitions_may_be_null():
    lake = new_lake()
    table = lake.create_table("d.t", "p STRING, q INT NOT NULL, k INT", primary_key=["p", "q", "k"], partition_by=["p", "q"])
    assert [field.nullable for field in table.schema] == [True, False, False]
    assert table.version.schema.key == ("k",)
    assert table.version.schema.bucket_key == ("k",)
    assert table.primary_key == ("p", "q", "k")


def test_listings_describe_the_table():
    lake = new_lake()
    table = lake.create_table("d.t", "k BIGINT, v STRING", primary_key=["k"], comment="things")
    again = lake.table("d.t")
    assert (again.name, again.path, again.comment, again.partition_by) == ("d.t", "d.db/t", "things", ())
    assert again.schema == table.schema == pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string())])
    assert repr(again) == "<lsmlake table d.t in d.db/t>"
    assert again.schemas().to_pylist()[0]["primary_keys"] == ["k"]
    assert parse_columns(format_columns(again.schema)) == again.schema


@pytest.mark.parametrize(
    "change", [{"fields": [{"id": 1, "name": "k", "type": "TEXT", "nullable": True}]}, {"options": None}, {"fields": [{}]}]
)
def test_a_schema_file_that_is_whole_but_not_right_is_refused_by_name(change):
    content = {"id": 0, "fields": [], "highest_field_id": 1, "primary_key": ["k"], "partition_by": [], "options": {}}
    content |= {"comment": None, "time_ms": 0} | change
    if change == {"options": None}:
        del content["options"]
    with pytest.raises(Corrupt, match=r"^d\.db/t/schema/schema-0: "):
        Schema.decode(wrap_json("schema", content), "d.db/t/schema/schema-0")


def test_a_refusal_names_the_place_in_a_nested_type():
    bad = pa.schema([("k", pa.int64()), ("s", pa.struct([("a", pa.list_(pa.struct([("b", pa.uint16())])))]))])
    with pytest.raises(InvalidSchema, match=r"column 's\.a\.element\.b'.*uint16.*use int32"):
        new_lake().create_table("d.t", bad, primary_key=["k"])
