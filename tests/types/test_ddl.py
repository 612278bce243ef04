from __future__ import annotations

import pyarrow as pa
import pytest
import sqlglot
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from lsmlake.errors import InvalidSchema
from lsmlake.types.ddl import columns_of, parse_columns, requoted
from lsmlake.types.keywords import KEYWORDS
from lsmlake.types.type_text import PLAIN_NAME, format_columns, format_type

WORDS = [
    ("BOOLEAN", pa.bool_()),
    ("TINYINT", pa.int8()),
    ("BYTE", pa.int8()),
    ("SMALLINT", pa.int16()),
    ("SHORT", pa.int16()),
    ("INT", pa.int32()),
    ("INTEGER", pa.int32()),
    ("BIGINT", pa.int64()),
    ("LONG", pa.int64()),
    ("FLOAT", pa.float32()),
    ("REAL", pa.float32()),
    ("DOUBLE", pa.float64()),
    ("DECIMAL", pa.decimal128(10, 0)),
    ("DEC", pa.decimal128(10, 0)),
    ("NUMERIC(7)", pa.decimal128(7, 0)),
    ("decimal(38,38)", pa.decimal128(38, 38)),
    ("STRING", pa.string()),
    ("BINARY", pa.binary()),
    ("DATE", pa.date32()),
    ("TIMESTAMP", pa.timestamp("us", tz="UTC")),
    ("TIMESTAMP_LTZ", pa.timestamp("us", tz="UTC")),
    ("TIMESTAMP_NTZ", pa.timestamp("us")),
    ("TIME", pa.time64("us")),
    ("TIME(6)", pa.time64("us")),
    ("TIME WITHOUT TIME ZONE", pa.time64("us")),
    ("TIMESTAMP WITHOUT  TIME ZONE", pa.timestamp("us")),
    ("ARRAY<STRING>", pa.list_(pa.string())),
    ("MAP<STRING, ARRAY<INT>>", pa.map_(pa.string(), pa.list_(pa.int32()))),
    ("STRUCT<a: INT, b STRING NOT NULL>", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string(), False)])),
]


@pytest.mark.parametrize(("word", "kind"), WORDS)
def test_every_type_word_has_its_arrow_type(word, kind):
    assert parse_columns(f"c {word}") == pa.schema([pa.field("c", kind)])


@pytest.mark.parametrize("kind", sorted({kind for _, kind in WORDS}, key=str))
def test_a_type_is_written_as_it_is_read(kind):
    assert parse_columns(f"c {format_type(kind)}").field("c").type == kind


def test_names_nullability_and_comments():
    schema = parse_columns("id BIGINT NOT NULL, `a b` INT COMMENT 'it\\'s' NOT NULL, `c``d`: STRING, n INT NULL -- the end")
    assert schema.names == ["id", "a b", "c`d", "n"]
    assert [field.nullable for field in schema] == [False, False, True, True]
    assert [field.metadata for field in schema] == [None, {b"comment": b"it's"}, None, None]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("'it''s'", "'it\\'s'"),
        ("''''", "'\\''"),
        ('"a""b" \'a\'', '"a\\"b" \'a\''),
        ("'é😀''' = '''x'", "'é😀\\'' = '\\'x'"),
        ("'a' 'b'", "'a' 'b'"),
        ("'a'\"b\"", "'a'\"b\""),
        ("`a``b` = '' -- it''s", "`a``b` = '' -- it''s"),
    ],
)
def test_doubled_quotes_are_escaped_and_nothing_else(text, same):
    assert requoted(text) == same


def test_a_comment_may_double_its_quotes_or_be_raw():
    assert parse_columns("a INT COMMENT r'x\\n'").field("a").metadata == {b"comment": b"x\\n"}
    assert parse_columns("a INT COMMENT 'it''s'").field("a").metadata == {b"comment": b"it's"}


def test_comments_inside_a_struct_stay_with_their_field():
    schema = parse_columns("s STRUCT<a: INT NOT NULL COMMENT 'x', b: STRING>")
    assert schema.field("s").type.field("a").metadata == {b"comment": b"x"}


def test_the_definitions_of_a_parsed_create_table_are_read():
    create = sqlglot.parse_one("CREATE TABLE t (id BIGINT NOT NULL, s STRING COMMENT 'x')", dialect="spark")
    expected = parse_columns("id BIGINT NOT NULL, s STRING COMMENT 'x'")
    assert columns_of(create.this.expressions).equals(expected, check_metadata=True)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "list of columns is empty"),
        ("a", "name TYPE"),
        ("a INT b INT", "found 'b'"),
        ("a INT\n, b FOO", "line 2"),
        ("a INT) USING parquet", "found ')'"),
        ("a INT>, b ARRAY<INT", "cannot be read"),
        ("a 'INT", "cannot be read"),
        ("a VARCHAR", "its length, or STRING"),
        ("a CHAR(3, 2)", "expected CHAR(n)"),
        ("a VARCHAR(2147483648)", "expected VARCHAR(n)"),
        ("a NVARCHAR(3)", "unknown column type"),
        ("s STRUCT<x: STRUCT<y: CHAR>>", "column s.x.y"),
        ("a INTERVAL", "found INTERVAL"),
        ("a INTERVAL DAY", "INTERVAL"),
        ("a VARIANT", "VARIANT"),
        ("a TIME(3)", "TIME has one precision, expected TIME or TIME(6), found TIME(3)"),
        ("a UINT", "expected BOOLEAN"),
        ("a INT8", "cannot be read"),
        ("a ARRAY<NULLABLE<INT>>", "cannot be read"),
        ("a INT COMMENT 'x' COMMENT 'y'", "given twice"),
        ("a INT(11)", "unknown column type"),
        ("a TIMESTAMP(3)", "unknown column type"),
        ("a BINARY(3)", "unknown column type"),
        ("a INT DEFAULT 3", "DEFAULT 3"),
        ("a INT GENERATED ALWAYS AS (b)", "unsupported column attribute"),
        ("a INT FIRST", "found FIRST; remove it"),
        ("b STRUCT<a: INT AFTER c>", "found AFTER c; remove it"),
        ("a INT PRIMARY KEY", "PRIMARY KEY"),
        ("a INT, PRIMARY KEY (a)", "cannot be read"),
        ("a INT CHECK (a > 1)", "CHECK"),
        ("a INT UNIQUE", "UNIQUE"),
        ("a STRING COLLATE UTF8_LCASE", "COLLATE"),
        ("a DECIMAL(39,2)", "<= 38"),
        ("a DECIMAL(5,6)", "DECIMAL(5, 6)"),
        ("a DECIMAL(0)", "invalid decimal type"),
        ("a DECIMAL(x)", "invalid decimal type"),
        ("a DECIMAL(1,2,3)", ""),
        ("a ARRAY", "ARRAY<type>"),
        ("a MAP<INT>", "MAP<key type, value type>"),
        ("a STRUCT", "needs fields"),
        ("a ARRAY<INT NOT NULL>", "found 'NOT'"),
    ],
)
def test_what_a_table_cannot_keep_is_refused(text, part):
    with pytest.raises(InvalidSchema) as caught:
        parse_columns(text)
    assert part in str(caught.value)


def test_a_key_among_the_columns_of_a_create_table_is_refused():
    create = sqlglot.parse_one("CREATE TABLE t (id BIGINT, PRIMARY KEY (id))", dialect="spark")
    with pytest.raises(InvalidSchema, match="pass the primary key separately"):
        columns_of(create.this.expressions)


def test_a_type_that_spark_lacks_keeps_its_arrow_name():
    assert format_type(pa.uint8()) == "uint8"
    assert format_type(pa.list_(pa.time32("s"))) == "ARRAY<time32[s]>"


names = st.one_of(
    st.sampled_from(["id", "select", "date", "interval", "not", "a b", "é", "x`y", "1a", "a.b", "a\\b", "struct", "null"]),
    st.text("ab_1 ", min_size=1, max_size=4),
)
plain = st.sampled_from([kind for _, kind in WORDS[:23]])


def fields(kinds):
    comment = st.none() | st.text("a'\\\"\nbé%_", max_size=5)
    metadata = comment.map(lambda text: None if text is None else {b"comment": text.encode()})
    return st.builds(pa.field, names, kinds, st.booleans(), metadata)


kinds = st.recursive(
    plain,
    lambda inner: st.one_of(
        inner.map(lambda kind: pa.list_(pa.field("element", kind))),
        st.builds(pa.map_, plain, inner),
        st.lists(fields(inner), min_size=1, max_size=3).map(pa.struct),
    ),
    max_leaves=6,
)


@examples(100)
@given(st.lists(fields(kinds), min_size=1, max_size=4, unique_by=lambda field: field.name))
def test_any_schema_is_read_back_as_it_was_written(columns):
    schema = pa.schema(columns)
    assert parse_columns(format_columns(schema)).equals(schema, check_metadata=True)


def test_the_words_that_sqlglot_reads_as_its_own_are_keywords():
    words = {word for word in sqlglot.Dialect.get_or_raise("spark").tokenizer_class.KEYWORDS if PLAIN_NAME.fullmatch(word)}
    assert words <= KEYWORDS
    assert format_columns(pa.schema([("table", pa.int32()), ("tables", pa.int32())])) == "`table` INT, tables INT"
