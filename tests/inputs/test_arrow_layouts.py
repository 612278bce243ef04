"""A batch means the same in every Arrow layout: empty chunks, slices, dictionaries, different chunks per column."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import multiset, new_lake, rows_of

from lsmlake.api.table import Table

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int32(), False),
        pa.field("t", pa.string(), False),
        pa.field("z", pa.float64(), False),
        pa.field("d", pa.decimal128(20, 2)),
        pa.field("x", pa.float32()),
        pa.field("b", pa.bool_()),
        pa.field("raw", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("s", pa.struct([("i", pa.int64()), ("t", pa.string())])),
        pa.field(
            "q", pa.struct([pa.field("i", pa.int64(), False), pa.field("q", pa.struct([pa.field("t", pa.string(), False)]))])
        ),
        pa.field("l", pa.list_(pa.string())),
        pa.field("m", pa.map_(pa.string(), pa.int32())),
        pa.field("p", pa.string()),
    ]
)
FLAT = ("k", "t", "x", "day", "raw", "p")
TEXTS = ["", "a", "ä\0", "long " * 20]


def row(n: int) -> dict:
    null = n % 5 == 4
    return {
        "k": n % 9,
        "t": TEXTS[n % 4],
        "z": [0.0, -0.0, 1.5, -2.0][n % 4],
        "d": None if null else Decimal(n) / 4 if n % 4 == 0 else Decimal(n),
        "x": [float("nan"), -0.0, n / 4][n % 3],
        "b": None if null else n % 2 == 0,
        "raw": bytes([n % 256, 0]),
        "day": dt.date(1969, 12, 30) + dt.timedelta(days=n),
        "s": None if null else {"i": n, "t": TEXTS[n % 3]},
        "q": None if n % 4 == 3 else {"i": n, "q": None if n % 2 else {"t": TEXTS[n % 3]}},
        "l": [None, [], ["a", None]][n % 3],
        "m": None if null else [("n", n)],
        "p": ["q", None, "r"][n % 3],
    }


@st.composite
def layouts(draw, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column cut into chunks, some of them empty, slices of longer arrays, or by dictionary."""
    whole = column.combine_chunks()
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    chunks = [whole.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    if draw(st.booleans()):
        padded = [pa.concat_arrays([whole[:1], chunk, whole[-1:]])[1 : 1 + len(chunk)] for chunk in chunks]
        chunks = padded if len(whole) else chunks
    if draw(st.booleans()) and not pa.types.is_nested(whole.type) and not pa.types.is_decimal(whole.type):
        chunks = [chunk.dictionary_encode() for chunk in chunks]
        return pa.chunked_array(chunks, pa.dictionary(pa.int32(), whole.type))
    return pa.chunked_array([] if not len(whole) and draw(st.booleans()) else chunks, whole.type)


@examples(12)
@given(st.data())
def test_a_batch_means_the_same_in_every_layout(data):
    engine = data.draw(st.sampled_from(["deduplicate", "partial-update"]))
    options = {"changelog-producer": data.draw(st.sampled_from(["none", "input"])), "merge-engine": engine}
    deletes = engine == "deduplicate"  # partial-update refuses them
    one, other = (
        new_lake().create_table("d.t", SCHEMA, primary_key=["p", "k", "t", "z"], partition_by=["p"], options=options)
        for _ in "12"
    )
    for numbers in data.draw(st.lists(st.lists(st.integers(0, 99), max_size=12), min_size=1, max_size=2)):
        plain = pa.Table.from_pylist(list(map(row, numbers)), SCHEMA)
        kinds = pa.chunked_array([pa.array([["+I", "-D"][deletes and n % 7 == 6] for n in numbers], pa.string())])
        plain = plain.append_column("kind", kinds)
        columns = [data.draw(layouts(column)) for column in plain.columns]
        odd = pa.table(columns, names=plain.column_names)
        for table, rows in ((one, plain), (other, odd)):
            table.upsert(rows, row_kind="kind")
    for table in (one, other):
        if deletes:
            table.delete_keys(pa.Table.from_pylist([row(5)], SCHEMA).select(["p", "k", "t", "z"]))
        table.compact(full=True)
        assert table.verify() == []
    assert found(one) == found(other)


def found(table: Table) -> list:
    last = table.snapshots().num_rows
    changes = table.changes(0, last, mode="delta").to_arrow() if last else pa.table({})
    return [multiset(rows_of(table.scan().to_arrow())), multiset(rows_of(changes))]


def test_an_empty_chunk_in_the_middle():
    table = new_lake().create_table("d.t", "k INT NOT NULL, s STRING, l ARRAY<INT>", primary_key=["k"])
    first, last = ({"k": [n], "s": [str(n)], "l": [[n]]} for n in (1, 2))
    parts = [pa.table(part, schema=table.schema) for part in (first, {"k": [], "s": [], "l": []}, last)]
    table.upsert(pa.table([pa.chunked_array([part[name].chunk(0) for part in parts]) for name in "ksl"], schema=table.schema))
    assert table.scan().to_arrow()["s"].to_pylist() == ["1", "2"]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
def test_null_structs_with_a_required_field(engine):
    fields = [pa.field("k", pa.int32(), False), SCHEMA.field("q")]
    table = new_lake().create_table("d.t", pa.schema(fields), primary_key=["k"], options={"merge-engine": engine})
    rows = pa.Table.from_pylist([{"k": n, "q": row(n)["q"]} for n in range(12)], table.schema)
    table.upsert(rows.slice(2, 8))
    table.upsert(rows, compact=False)
    assert table.scan().to_arrow().sort_by("k").to_pylist() == rows.to_pylist()
    table.compact(full=True)
    assert table.scan().to_arrow().sort_by("k").to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("columns", [2, 8, 30])
def test_long_lists_for_every_key_column(columns):
    names = [f"k{n}" for n in range(columns)]
    table = new_lake().create_table(
        "d.t", ", ".join(f"{n} INT NOT NULL" for n in names), primary_key=names, options={"bucket": 4}
    )
    table.upsert({name: [1, 2, 3] for name in names})
    where = " AND ".join(f"{name} IN ({', '.join(map(str, range(2, 258)))})" for name in names)
    assert table.scan(where=where).count() == 2
    assert table.scan(where=where.replace("IN (", "IN (1, ")).to_arrow().num_rows == 3
