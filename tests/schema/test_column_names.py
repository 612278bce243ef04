"""Column names that could be misread: dotted paths beside structs, backticks, blanks, brackets."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import new_lake, tiny_units

import lsmlake
from lsmlake.api.table import Table
from lsmlake.files.layout import StoredColumns, leaf_paths
from lsmlake.kernels.nested import leaf_positions, leaves
from lsmlake.types.column_types import number_fields

NAMES = ["a.b", "a.b.c", "a.c.d", "a.b.c.list.element", ".a", "[0]", "`", "a`b", "a b", "%3D", "ä.ö", "l.list.element"]
NAMES += ["_metadata", "m.key_value.key", "list", "'", '"', "a,b", "..", "x/y", "$", "{}", "\\"]
NAN = float("nan")
INNER = pa.struct([("d", pa.int32()), (" ", pa.int32())])
NESTED = [
    pa.field("a", pa.struct([("b", pa.float64()), ("b.c", pa.string()), ("c", INNER)])),
    pa.field("l", pa.list_(pa.float32())),
    pa.field("m", pa.map_(pa.string(), pa.int64())),
]


def nested(value: int) -> dict:
    struct = {"b": NAN if value % 3 else value / 2, "b.c": f"s{value}", "c": {"d": value, " ": -value}}
    return {"a": struct, "l": [NAN, float(value)], "m": [("n", value)]}


@examples(5)
@given(st.data())
def test_rows_are_found_with_any_column_names(data):
    number, text, value, part = data.draw(st.permutations(NAMES))[:4]
    fields = [pa.field(number, pa.int32(), False), pa.field(text, pa.string(), False), pa.field(value, pa.float64())]
    fields += [pa.field(part, pa.string()), *NESTED]
    schema = pa.schema(data.draw(st.permutations(fields)))
    key = [part, *data.draw(st.permutations([number, text]))]
    vectors = data.draw(st.booleans())
    table = new_lake().create_table(
        "d.t", schema, primary_key=key, partition_by=[part], options={"deletion-vectors.enabled": str(vectors).lower()}
    )
    model: dict[tuple, dict] = {}
    with tiny_units(rows=3):
        for batch in data.draw(st.lists(st.lists(st.integers(0, 30), min_size=1), min_size=1, max_size=3)):
            rows = [
                {number: n, text: f"t{n % 4}", value: n + stamp / 8 if stamp % 4 else NAN, part: "pq"[n % 2], **nested(n + stamp)}
                for stamp, n in enumerate(batch)
            ]
            model.update({tuple(row[name] for name in key): row for row in rows})
            table.upsert(pa.Table.from_pylist(rows, schema), compact=data.draw(st.booleans()))
            check(table, model, (number, text, value, part))
        table.compact(full=True)
        check(table, model, (number, text, value, part))
        gone = data.draw(st.sampled_from(sorted(model)))
        table.delete_keys(pa.table({name: [each] for name, each in zip(key, gone, strict=True)}))
        del model[gone]
        check(table, model, (number, text, value, part))


def check(table: Table, model: dict[tuple, dict], names: tuple[str, str, str, str]) -> None:
    number, text, value, part = names
    rows = list(model.values())
    assert same(table.scan().to_arrow().to_pylist(), rows)
    for name in table.schema.names:
        assert same(table.scan(columns=[name]).to_arrow().to_pylist(), [{name: row[name]} for row in rows])
    least = max((row[number] for row in rows), default=0)
    for where, keeps in (
        (f"{quoted(number)} = {least}", lambda row: row[number] == least),
        (f"{quoted(text)} = 't1' AND {quoted(number)} > 3", lambda row: row[text] == "t1" and row[number] > 3),
        (f"{quoted(value)} > 5", lambda row: not row[value] <= 5),
        (f"{quoted(part)} = 'p'", lambda row: row[part] == "p"),
        ("a.c.d > 9", lambda row: row["a"]["c"]["d"] > 9),
        ("a.c.` ` > -9", lambda row: row["a"]["c"][" "] > -9),
        ("a.`b.c` = 's7'", lambda row: row["a"]["b.c"] == "s7"),
        ("a.b >= 4", lambda row: not row["a"]["b"] < 4),
    ):
        assert same(table.scan(where=where).to_arrow().to_pylist(), [row for row in rows if keeps(row)]), where
    assert table.verify() == []


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def same(found: list[dict], expected: list[dict]) -> bool:
    texts = [sorted(repr(sorted(row.items())) for row in rows) for rows in (found, expected)]
    return texts[0] == texts[1]


def test_a_key_with_a_dot_beside_a_struct_is_updated_and_found():
    table = new_lake().create_table("d.t", "a STRUCT<b: STRING>, `a.b` INT NOT NULL", primary_key=["a.b"])
    for version in ("old", "new"):
        table.upsert([{"a.b": k, "a": {"b": f"{version} {k}"}} for k in range(3)])
    assert table.scan().count() == 3
    assert table.scan(where="`a.b` = 1").to_arrow().to_pylist() == [{"a": {"b": "new 1"}, "a.b": 1}]
    assert table.scan(where="a.b = 'new 2'").to_arrow().to_pylist() == [{"a": {"b": "new 2"}, "a.b": 2}]
    assert table.verify() == []


def test_leaves_and_their_paths_go_together():
    schema = pa.schema([*NESTED, pa.field("l.list.element", pa.int32()), pa.field("a.b", pa.int64())])
    assert [range(4), range(4, 5), range(5, 7), range(7, 8), range(8, 9)] == list(leaf_positions(schema))
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    stored = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    assert tuple(stored.column(i).path for i in range(len(stored))) == leaf_paths(schema)
    assert len(leaves(schema)) == len(stored)


def test_two_leaves_of_one_path_share_only_what_suits_both():
    schema = pa.schema([pa.field("a.b", pa.int64(), False), pa.field("c.d", pa.int64()), *NESTED])
    numbered = number_fields(schema, itertools.count(1))
    lengths = {field.name: 16 for field in numbered if not pa.types.is_nested(field.type)}
    chosen = StoredColumns(numbered, ["a.b"], lengths).layout(schema.empty_table(), [], "snappy")
    assert "a.b" not in (*chosen.delta, *chosen.dictionary, *chosen.statistics)
    assert chosen.unbounded == {"a.b"}
    assert "c.d" in chosen.statistics and "a.c.d" in chosen.statistics
    assert "l.list.element" not in chosen.statistics, "Spark pushes filters into nested columns, and orders NaN last"


@pytest.mark.parametrize("first", [NESTED[:1], []])
def test_sorting_columns_are_the_leaves_of_the_key(first, tmp_path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    schema = pa.schema([*first, pa.field("v", pa.int32()), pa.field("x.y", pa.int32()), pa.field("k", pa.int32())])
    table = lake.create_table("d.t", schema, primary_key=["k", "x.y"])
    table.upsert(pa.table([pa.nulls(1, f.type) if f.name in "av" else pa.array([1], f.type) for f in schema], schema=schema))
    footer = pq.read_metadata(tmp_path / table.files()["file_path"][0].as_py())
    found = [footer.schema.column(column.column_index).path for column in footer.row_group(0).sorting_columns]
    assert found == ["k", "x.y"]
