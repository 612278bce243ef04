"""Counts and extremes from metadata are those of the rows, and read nothing where the metadata suffices."""

from __future__ import annotations

import datetime as dt
import math

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from effort import examples
from faults import FaultStorage
from hypothesis import given
from hypothesis import strategies as st
from strategies import KEYS, PARTITIONS, Shape, conditions, encoded_rows, new_lake, seen

from lsmlake.api.table import Table
from lsmlake.errors import InvalidQuery
from lsmlake.storage.memory import MemoryStorage


def spark_order(value: object) -> tuple:
    """NaN equals itself and is greater than all numbers; -0.0 equals 0.0."""
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value + 0.0 if isinstance(value, float) else value)


@pytest.mark.parametrize("vectors", [True, False])
@examples(12)
@given(data=st.data())
def test_answers_are_those_of_the_rows(vectors: bool, data: st.DataObject):
    shape = Shape.of(data.draw(st.sampled_from(list(KEYS))), data.draw(st.sampled_from(list(PARTITIONS))))
    table = shape.create(new_lake(), bucket=2, deletion_vectors__enabled=str(vectors).lower())
    stamp = 0
    for drawn in data.draw(st.lists(encoded_rows(12), min_size=1, max_size=5)):
        rows = [shape.row(code, value, stamp + i) for i, (code, value) in enumerate(drawn)]
        stamp += len(rows)
        table.upsert(shape.table(rows, table.schema), compact=data.draw(st.booleans()))
    if data.draw(st.booleans()):
        table.compact(full=True)
    every = table.scan().to_arrow().to_pylist()
    for condition in (None, data.draw(conditions(shape)), data.draw(conditions(shape))):
        rows = every if condition is None else [row for row in every if condition.holds(row) is True]
        scan = table.scan(where=condition and condition.sql)
        assert scan.count() == len(rows), scan
        for name in shape.names:
            if shape.kind(name).ddl.startswith("ARRAY"):
                continue
            values = [row[name] for row in rows if row[name] is not None]
            least, most = (side(values, key=spark_order, default=None) for side in (min, max))
            found = scan.min(name), scan.max(name)
            assert list(map(zeroless, found)) == list(map(zeroless, (least, most))), (scan, name)


def zeroless(value: object) -> object:
    return seen(value + 0.0 if isinstance(value, float) else value)


def counted() -> tuple[FaultStorage, Table]:
    """Ten files of ten days, ids ascending, compacted, without dead rows."""
    storage = FaultStorage(MemoryStorage())
    columns = "day DATE NOT NULL, id BIGINT NOT NULL, price DOUBLE, note STRING"
    table = new_lake(storage).create_table(
        "d.t", columns, primary_key=["day", "id"], partition_by=["day"], options={"bucket": "1"}
    )
    for day in range(10):
        ids = range(100 * day, 100 * day + 100)
        rows = {"day": [dt.date(2026, 1, 1 + day)] * 100, "id": ids, "price": map(float, ids), "note": map(str, ids)}
        table.upsert({name: list(values) for name, values in rows.items()})
    table.scan().count()
    return storage, table


def files_read(storage: FaultStorage, run) -> tuple[object, int]:
    storage.calls = []
    answer = run()
    return answer, len([path for name, path in storage.calls if name == "read" and "/data-" in path])


@pytest.mark.parametrize(
    ("where", "rows", "files"),
    [
        (None, 1000, 0),
        ("id >= 0", 1000, 0),
        ("day = '2026-01-03'", 100, 0),
        ("day <> '2026-01-03' AND price IS NOT NULL", 900, 0),
        ("id >= 350", 650, 1),
        ("price BETWEEN 150 AND 749.5", 600, 2),
        ("note IS NULL", 0, 0),
    ],
)
def test_a_count_reads_only_files_that_the_predicate_divides(where, rows, files):
    storage, table = counted()
    assert files_read(storage, table.scan(where=where).count) == (rows, files)
    assert table.scan(where=where).count() == table.scan(where=where).to_arrow().num_rows


@pytest.mark.parametrize(
    ("column", "where", "least", "most", "files"),
    [
        ("id", None, 0, 999, 0),
        ("price", "day > '2026-01-05'", 500.0, 999.0, 0),
        ("day", None, dt.date(2026, 1, 1), dt.date(2026, 1, 10), 0),
        ("price", "id >= 350", 350.0, 999.0, 1),
        ("note", None, "0", "999", 2),
    ],
)
def test_an_extreme_reads_only_files_that_could_hold_it(column, where, least, most, files):
    storage, table = counted()
    scan = table.scan(where=where)
    assert (scan.min(column), scan.max(column)) == (least, most)
    assert files_read(storage, lambda: (scan.min(column), scan.max(column)))[1] <= files


def test_an_extreme_of_dead_rows_is_read():
    storage, table = counted()
    table.delete_keys({"day": [dt.date(2026, 1, 10)], "id": [999]})
    assert files_read(storage, lambda: table.scan().max("id")) == (998, 1)


def test_a_limit_stops_reading():
    storage, table = counted()
    assert files_read(storage, table.scan(limit=5).to_arrow)[1] == 1
    assert files_read(storage, table.scan(limit=150).to_arrow)[1] == 2
    assert files_read(storage, table.scan(limit=5, where="price >= 0").to_arrow)[1] <= 5, "files are read ahead by threads"


def test_extremes_of_an_empty_table_and_of_an_arrow_expression():
    table = new_lake().create_table("d.t", "k INT NOT NULL, v DOUBLE", primary_key=["k"])
    assert (table.scan().min("v"), table.scan(where="k = 1").max("v"), table.scan(where="k > 0").count()) == (None, None, 0)
    table.upsert(pa.table({"k": pa.array([1, 2, 3], pa.int32()), "v": [1.0, None, math.nan]}))
    assert table.scan().min("V") == 1.0 and math.isnan(table.scan().max("v"))
    assert table.scan(where=pc.field("k") < 3).max("v") == 1.0


def test_an_extreme_that_has_no_meaning_is_refused():
    table = new_lake().create_table("d.t", "k INT NOT NULL, v ARRAY<INT>", primary_key=["k"])
    with pytest.raises(InvalidQuery, match="limit 3"):
        table.scan(limit=3).min("k")
    with pytest.raises(InvalidQuery, match="nested type has no max"):
        table.scan().max("v")
    with pytest.raises(InvalidQuery, match="unknown columns"):
        table.scan().max("w")
