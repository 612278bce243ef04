"""Values of events become values of columns without a change, or are refused."""

from __future__ import annotations

import io
import itertools
import json
import random
import re
import sys
from decimal import Decimal

import event_values
import fastavro
import pyarrow as pa
import pytest
from strategies import new_lake

from lsmlake.cdc import ChangeFormat, decode
from lsmlake.cdc.decoding import decoded_tables
from lsmlake.cdc.event_digits import MARK, PRINTED_ANEW, PRINTED_ANEW_IN_JAVA, marked, unmarked
from lsmlake.cdc.event_queries import HALF_OF_A_PAIR
from lsmlake.errors import InvalidData


def test_values_of_events_are_kept_or_refused():
    (found,) = decoded_tables([event_values.events()], event_values.reader())
    event_values.check(found)


def test_numbers_of_documents_are_kept_or_refused():
    cases, reader = event_values.cases_in_documents(), event_values.reader_of_documents()
    (found,) = decoded_tables([event_values.events(cases)], reader)
    event_values.check(found, cases)
    for case in cases:
        (alone,) = decoded_tables([event_values.events([case])], reader)
        event_values.check(alone, [case])


def test_each_event_is_decoded_as_alone():
    """Those in doubt are parsed twice; the others of the batch are not changed by that."""
    given = event_values.events()
    (found,) = decoded_tables([pa.concat_tables([given, given])], event_values.reader())
    event_values.check(found.slice(given.num_rows))
    for row in range(0, given.num_rows, 7):
        (alone,) = decoded_tables([given.slice(row, 1)], event_values.reader())
        assert repr(alone.to_pylist()) == repr(found.slice(row, 1).to_pylist())


def test_the_rows_of_an_event_have_their_own_digits():
    rows = [(1, "9007199254740993.1", "1.0"), (2, "9007199254740993.2", "1.00"), (3, "5", '"1.0"')]
    data = ",".join(f'{{"id":{number},"n":{text},"s":{other}}}' for number, text, other in rows)
    event = f'{{"type":"UPDATE","old":[{{"n":9007199254740993.3}},{{}},{{}}],"data":[{data}]}}'
    found = decode([event, event], "canal-json", "id BIGINT, n DECIMAL(38,2), s STRING").to_pylist()
    assert [(row["n"], row["s"]) for row in found] == 2 * [(Decimal(n), s.strip('"')) for _, n, s in rows]


def test_number_of_a_binary_column_is_refused_with_its_column():
    table = new_lake().create_table("d.t", "id BIGINT NOT NULL, data BINARY", primary_key=["id"])
    words = {
        "debezium-json": ("op", "c", "after"),
        "ogg-json": ("op_type", "I", "after"),
        "maxwell-json": ("type", "insert", "data"),
    }
    for format, (name, op, row) in words.items():
        with pytest.raises(InvalidData, match=r"column 'data': expected BINARY, found '1234': a number.*give the table a column"):
            table.upsert([f'{{"{name}":"{op}","{row}":{{"id":1,"data":1234}}}}'], format=format)


def test_a_date_that_no_table_has_rejects_its_event_only():
    table = new_lake().create_table("d.t", "id BIGINT NOT NULL, day DATE", primary_key=["id"])
    events = [json.dumps({"op": "c", "after": {"id": number, "day": day}}) for number, day in ((1, 3_000_000), (2, 20_000))]
    table.upsert(events, format="debezium-json", on_error="reject")
    assert [row["id"] for row in table.to_arrow().to_pylist()] == [2]


@pytest.mark.parametrize(("path", "column"), [("a.zip", "STRUCT<zip: INT, city: STRING>"), ("a.zip", "STRUCT<zip: INT>")])
def test_a_record_of_avro_without_a_field_of_the_column_is_refused_by_its_path(path: str, column: str):
    inner = {"type": "record", "name": "A", "fields": [{"name": "city", "type": "string"}]}
    row = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, {"name": "a", "type": inner}]}
    schema = {"type": "record", "name": "E", "fields": [{"name": "after", "type": row}, {"name": "op", "type": "string"}]}
    stream = io.BytesIO()
    stream.write(b"\0\0\0\0\7")
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"after": {"id": 1, "a": {"city": "Rome"}}, "op": "c"})
    format = ChangeFormat("debezium-avro", registry={7: schema})
    with pytest.raises(InvalidData, match=rf"has no field '{path}': .*drop_column"):
        decode([stream.getvalue()], format, f"id BIGINT, a {column}")
    with pytest.raises(InvalidData, match="values of the type STRUCT<city: STRING> do not fit"):
        decode([stream.getvalue()], format, "id BIGINT, a INT")


@pytest.mark.parametrize("text", ['{"a":[1,-2.50e+3,true,null,"1, 2","\\"3"],"b c":{"d":false}}', "[]", '{"a":1}', "7"])
def test_marks_come_off_again(text: str):
    found, mark = marked(pa.array([text, None, f'["{MARK}1",5]', '["\\ufdd01"]']))
    assert mark == 2 * MARK and unmarked(found, mark).to_pylist() == [text, None, f'["{MARK}1",5]', '["\\ufdd01"]']
    values = json.loads(found[0].as_py())
    assert values == json.loads(text, parse_int=(mark).__add__, parse_float=mark.__add__) or "true" in text


def test_scaled_decimals_beside_a_number_that_is_read_by_its_text():
    fields = [
        {"field": "d", "type": "struct", "optional": True, "name": "io.debezium.data.VariableScaleDecimal", "fields": []},
        {"field": "f", "type": "double", "optional": True},
    ]
    row = {
        "type": "struct",
        "field": "after",
        "fields": [{"field": "id", "type": "int64"}, {"field": "s", "type": "struct", "fields": fields}],
    }
    schema = json.dumps({"type": "struct", "fields": [row]})
    event = '{"schema":%s,"payload":{"op":"c","after":{"id":1,"s":{"d":{"scale":2,"value":"AQ=="},"f":%s}}}}'
    for text in ("1.5", "0.30000000000000004", "1e2"):
        found = decode([event % (schema, text)], "debezium-json", "id BIGINT, s STRUCT<d: DECIMAL(9,2), f: DOUBLE>").to_pylist()
        assert found[0]["s"] == {"d": Decimal("0.01"), "f": float(text)}


def test_a_character_that_is_none_is_refused_wherever_an_event_has_it():
    for text in ('"\ufdd0x"', '"\\ufdd0x"', '{"n":"\\uFDD0x"}'):
        with pytest.raises(InvalidData, match="U\\+FDD0"):
            decode(['{"op":"c","after":{"id":1,"s":' + text + "}}"], "debezium-json", "id BIGINT, s STRING")
    found = decode(['{"op":"c","after":{"id":1,"s":"C:\\\\ufdd0"}}'], "debezium-json", "id BIGINT, s STRING").to_pylist()
    assert found[0]["s"] == "C:\\ufdd0"


def test_half_of_a_surrogate_pair_is_told_from_a_backslash_before_a_u():
    for text, is_half in (
        ('{"s":"a\\ud83d"}', True),
        ('{"s":"a\\ud83dx\\ude00"}', True),
        ('{"s":"\\ude00"}', True),
        ('{"s":"\\\\\\ud83d"}', True),
        ('{"s":"\\ud83d\\ude00"}', False),
        ('{"s":"C:\\\\udf01"}', False),
        ('{"s":"\\u00e9"}', False),
    ):
        assert bool(re.search(HALF_OF_A_PAIR, text)) == is_half, text
        if not is_half:
            json.loads(text)["s"].encode()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python's re has such quantifiers since 3.11, as Java has")
def test_the_pattern_for_java_finds_the_same_numbers():
    """All texts of up to five of these characters that can follow the name of a field, and longer ones drawn from them."""
    java, other = re.compile(PRINTED_ANEW_IN_JAVA), re.compile(PRINTED_ANEW)
    short = map("".join, itertools.chain.from_iterable(itertools.product('-01.eN, }"', repeat=size) for size in range(6)))
    chance = random.Random(1)
    long = ("".join(chance.choices("-0123456789.eE", [1, 6, *[2] * 9, 3, 1, 1], k=chance.randint(6, 24))) for _ in range(100_000))
    found = 0
    for text in itertools.chain(short, long):
        for written in (f":{text}", f"[ {text}}}", f', "{text}" ]'):
            expected = other.search(written) is not None
            assert (java.search(written) is not None) == expected, written
            found += expected
    assert found > 10_000
