"""DELETE, UPDATE and MERGE on each kind of table, compared with DuckDB running the same text on a plain copy of the rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from naive import unreferenced
from strategies import new_lake, rows_of, tiny_units

import lsmlake
from lsmlake import add_column, set_option
from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.errors import CommitConflict, InvalidData, InvalidQuery
from lsmlake.files.data_reader import DataReader
from lsmlake.statements import merge_join
from lsmlake.statements.merge_join import Join
from lsmlake.storage.memory import MemoryStorage

DDL = "id INT NOT NULL, k INT, v BIGINT, s STRING"
SMALL = {"target-file-size": "1 kb", "file.block-size": "200 b"}
PARTIAL = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
KINDS: dict[str, dict] = {
    "vectors": {"options": SMALL},
    "copy on write": {"options": SMALL | {"deletion-vectors.enabled": "false"}},
    "key": {"primary_key": ["id"], "options": {"bucket": 2}},
    "key, merged at read": {"primary_key": ["id"], "options": {"bucket": 2, "deletion-vectors.enabled": "false"}},
    "key, level 0": {"primary_key": ["id"], "options": {"bucket": 1, "write-only": "true"}},
    "key, partial update": {
        "primary_key": ["id"],
        "options": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    },
}

COLUMNS = pa.schema([("id", pa.int32()), ("k", pa.int32()), ("v", pa.int64()), ("s", pa.string())])

# --- random statements ---

small = st.integers(0, 9)
conditions = st.one_of(
    st.builds("k = {}".format, small),
    st.builds("v > {} AND k <> {}".format, small, small),
    st.builds("s IN ('a', 'b') OR id = {}".format, small),
    st.just("k IS NULL"),
    st.builds("NOT (v < {})".format, small),
)
values = st.sampled_from(["v + 1", "k * 2", "coalesce(v, 0) - id", "NULL", "CASE WHEN k > 4 THEN v ELSE k END", "7"])
texts = st.sampled_from(["'z'", "s || 'x'", "upper(s)", "NULL"])
rows = st.lists(
    st.tuples(st.integers(0, 14), st.none() | small, st.none() | small, st.sampled_from([None, "a", "b", "c"])), max_size=12
)


def qualified(text: str, side: str) -> str:
    """A condition on columns of one side of a join."""
    for name in ("id", "k", "v", "s"):
        text = " ".join(
            f"{side}.{word}" if word == name else word for word in text.replace("(", "( ").replace(",", " ,").split(" ")
        )
    return text


def batch(given_: list[tuple]) -> pa.Table:
    columns = list(zip(*given_, strict=True)) or [()] * len(COLUMNS)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, COLUMNS, strict=True)], schema=COLUMNS)


class Both:
    """A table, and a table of DuckDB with the same rows."""

    def __init__(self, kind: str) -> None:
        self.keyed = kind.startswith("key")
        self.table = new_lake(MemoryStorage()).create_table("d.t", DDL, **KINDS[kind])
        self.duck = duckdb.connect()
        self.duck.execute("CREATE TABLE t (id INT, k INT, v BIGINT, s VARCHAR)")

    def add(self, given_: list[tuple]) -> None:
        if self.table.options.get("merge-engine"):  # rows are merged with those of their key, which DuckDB does not do
            known = {key for (key,) in self.duck.execute("SELECT id FROM t").fetchall()}
            given_ = [row for row in given_ if row[0] not in known]
        found = {row[0]: row for row in given_} if self.keyed else dict(enumerate(given_))
        data = batch(list(found.values()))
        (self.table.upsert if self.keyed else self.table.append)(data)
        if self.keyed:
            self.duck.executemany("DELETE FROM t WHERE id = ?", [[key] for key in found] or [[-1]])
        self.duck.from_arrow(data).insert_into("t")

    def ran(self, text: str, report: lsmlake.DmlReport) -> None:
        """The text changed as many rows, and the rows are the same."""
        ((count,),) = self.duck.execute(text).fetchall()
        assert report.inserted + report.updated + report.deleted == count, text
        expected = sorted(self.duck.execute("SELECT * FROM t").fetchall(), key=repr)
        assert sorted(rows_of(self.table.scan().to_arrow()), key=repr) == expected, text
        assert (report.snapshot is None) == (count == 0)


@pytest.mark.parametrize("kind", KINDS)
def test_random_statements_give_the_rows_of_another_engine(kind):
    @examples(8)
    @given(st.data())
    def check(data):
        with tiny_units(rows=3):
            both = Both(kind)
            both.add(data.draw(rows))
            for verb in data.draw(
                st.lists(st.sampled_from(["delete", "update", "merge", "add", "compact"]), min_size=1, max_size=5)
            ):
                STEPS[verb](data, both)
            assert both.table.verify() == []
            assert unreferenced(both.table) == []

    check()


def _delete(data: st.DataObject, both: Both) -> None:
    where = data.draw(conditions)
    both.ran(f"DELETE FROM t WHERE {where}", both.table.delete(where))


def _update(data: st.DataObject, both: Both) -> None:
    where, value, text = data.draw(conditions), data.draw(values), data.draw(texts)
    try:
        report = both.table.update({"v": value, "s": text}, where)
    except InvalidData as refused:
        assert both.table.options["merge-engine"] == "partial-update" and "a null does not replace a value" in str(refused)
        return
    both.ran(f"UPDATE t SET v = {value}, s = {text} WHERE {where}", report)


def _merge(data: st.DataObject, both: Both) -> None:
    """Source rows with one key each, or the same for all; at most one of them matches a row."""
    source = {row[0]: row for row in data.draw(rows)}
    if not source:
        return
    given_ = batch(list(source.values()))
    both.duck.register("source", given_)
    merge, text = both.table.merge(given_, "t.id = s.id"), "MERGE INTO t USING source AS s ON t.id = s.id"
    partial = both.table.options.get("merge-engine")
    if data.draw(st.booleans()):
        where = qualified(data.draw(conditions), "s")
        merge, text = merge.when_matched_delete(where), f"{text} WHEN MATCHED AND {where} THEN DELETE"
    if data.draw(st.booleans()):
        where = qualified(data.draw(conditions), "t")
        value = data.draw(st.sampled_from(["t.id + s.id", "5"] if partial else ["t.v + s.v", "s.v", "s.id - t.k", "NULL"]))
        merge = merge.when_matched_update({"v": value}, where)
        text = f"{text} WHEN MATCHED AND {where} THEN UPDATE SET v = {value}"
    if data.draw(st.booleans()):
        merge = merge.when_not_matched_insert({"id": "s.id", "v": "s.k * 10"}, "s.k > 3")
        text = f"{text} WHEN NOT MATCHED AND s.k > 3 THEN INSERT (id, v) VALUES (s.id, s.k * 10)"
    if data.draw(st.booleans()):
        merge = merge.when_not_matched_insert_all()
        text = f"{text} WHEN NOT MATCHED THEN INSERT (id, k, v, s) VALUES (s.id, s.k, s.v, s.s)"
    if data.draw(st.booleans()) and not partial:  # there a null does not replace a value
        where = qualified(data.draw(conditions), "s")
        merge = merge.when_matched_update_all(where)
        text = f"{text} WHEN MATCHED AND {where} THEN UPDATE SET k = s.k, v = s.v, s = s.s"
    if data.draw(st.booleans()):
        where = qualified(data.draw(conditions), "t")
        merge = merge.when_not_matched_by_source_update({"v": "t.id * 3"}, where)
        text = f"{text} WHEN NOT MATCHED BY SOURCE AND {where} THEN UPDATE SET v = t.id * 3"
    if data.draw(st.booleans()):
        where = qualified(data.draw(conditions), "t")
        merge = merge.when_not_matched_by_source_delete(where)
        text = f"{text} WHEN NOT MATCHED BY SOURCE AND {where} THEN DELETE"
    if merge.clauses:
        both.ran(text, merge.execute())


STEPS: dict[str, Callable[[st.DataObject, Both], object]] = {
    "delete": _delete,
    "update": _update,
    "merge": _merge,
    "add": lambda data, both: both.add(data.draw(rows)),
    "compact": lambda data, both: both.table.compact(),
}


# --- the rules of MERGE ---


@pytest.fixture
def orders(lake) -> Table:
    table = lake.create_table("d.t", DDL)
    table.append([{"id": number, "k": number, "v": 10 * number, "s": "a"} for number in range(4)])
    return table


def test_a_merge_may_add_columns_and_fills_defaults(orders):
    orders.alter(add_column("d", "INT", default=5))
    source = {"id": [3, 7], "new": ["x", "y"]}
    merge = orders.merge(source, "t.id = s.id", evolve=True)
    merge.when_matched_update({"new": "s.new"}).when_not_matched_insert({"id": "s.id", "new": "s.new"}).execute()
    found = {row["id"]: (row["d"], row["new"]) for row in orders.scan(where="id > 2").to_arrow().to_pylist()}
    assert found == {3: (5, "x"), 7: (5, "y")}


def test_only_files_that_can_match_are_read(lake):
    table = lake.create_table("d.t", "id INT, v INT", options={"target-file-size": "1 kb", "file.block-size": "1 kb"})
    for first in range(0, 1000, 100):
        table.append({"id": list(range(first, first + 100)), "v": [0] * 100})
    read: list[str] = []
    storage = table.meta.env.storage
    seen = type(storage).read_from_end
    type(storage).read_from_end = lambda self, path, *sizes: (read.append(path), seen(self, path, *sizes))[1]
    try:
        lake.table("d.t").merge({"id": [250, 251]}, "t.id = s.id").when_matched_update({"v": "1"}).execute()
    finally:
        type(storage).read_from_end = seen
    assert len({path for path in read if path.endswith(".parquet")}) == 1
    assert table.scan(where="v = 1").count() == 2


@pytest.mark.parametrize("key", [[], ["id"]])
def test_columns_that_a_statement_keeps_are_read_once_and_others_not_at_all(lake, key, monkeypatch):
    options = {"bucket": 1, "file.block-size": "10 kb"} if key else {"file.block-size": "10 kb"}
    table = lake.create_table("d.t", DDL, primary_key=key, options=options)
    monkeypatch.setattr(merge_join, "_BATCH_ROWS", 100)
    count = 20_000
    (table.upsert if key else table.append)(
        {"id": list(range(count)), "k": [0] * count, "v": [0] * count, "s": [str(number) for number in range(count)]}
    )
    read, real = dict.fromkeys("skv", 0), DataReader.read

    def counted(self, groups, columns, *more):
        found = real(self, groups, columns, *more)
        for name in read.keys() & {*columns}:
            read[name] += found.num_rows
        return found

    monkeypatch.setattr(DataReader, "read", counted)
    assert table.update({"v": "v + 1"}, "id % 10 = 1").updated == count // 10  # too few for a compaction
    assert count <= read["s"] < 1.5 * count
    read["s"] = read["k"] = 0
    source = pa.table({"id": pa.array(range(count), pa.int32()), "k": [1] * count, "v": [2] * count, "s": ["x"] * count})
    few = source.slice(0, count // 20)
    assert table.merge(few, "t.id = s.id").when_matched_update_all().execute().updated == few.num_rows
    assert (read["s"], read["k"]) == (0, 0)
    assert table.scan(where="k = 1 AND v = 2 AND s = 'x'").count() == few.num_rows


def test_a_merge_that_names_no_column_of_the_table(orders):
    assert orders.merge({"x": [7]}, "false").when_not_matched_insert({"id": "9", "v": "s.x"}).execute().inserted == 1
    assert orders.merge({"x": [7]}, "true").when_matched_update({"v": "s.x"}).execute().updated == 5
    assert orders.scan().to_arrow()["v"].to_pylist() == [7] * 5


def test_a_source_column_without_values_has_the_type_of_the_table(orders):
    source = {"id": [1, 9], "k": [None, None], "v": [None, 5], "s": [None, None]}
    report = orders.merge(source, "t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert (report.updated, report.inserted) == (1, 1)
    assert sorted(rows_of(orders.scan(where="k IS NULL").to_arrow())) == [(1, None, None, None), (9, None, 5, None)]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_a_merge_under_a_key_with_a_time_and_a_null(zone, tmp_path):
    lake = lsmlake.connect(tmp_path, time_zone=zone)
    lake.create_database("d")
    ddl = "at TIMESTAMP NOT NULL, p STRING, v INT"
    table = lake.create_table("d.t", ddl, primary_key=["at", "p"], partition_by=["days(at)", "p"])
    moments = [dt.datetime(2026, 1, day, 23, tzinfo=dt.timezone.utc) for day in (1, 2, 3)]
    table.upsert({"at": moments, "p": [None, "a", None], "v": [1, 2, 3]})
    source = {"at": [*moments, moments[0]], "p": [None, "a", None, "a"], "v": [10, 20, None, 40]}
    merge = table.merge(source, "t.at = s.at AND t.p <=> s.p").when_matched_delete("s.v IS NULL")
    report = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert (report.updated, report.deleted, report.inserted) == (2, 1, 1)
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == [10, 20, 40]


def test_rows_without_a_sequence_are_deleted(lake):
    table = lake.create_table("d.t", "id INT NOT NULL, q INT, v INT", primary_key=["id"], options={"sequence.field": "q"})
    table.upsert({"id": [1, 2, 3], "q": [None, None, 7], "v": [1, 1, 1]})
    assert table.delete("id = 1").deleted == 1
    assert table.merge({"id": [2]}, "t.id = s.id").when_matched_delete().execute().deleted == 1
    assert table.scan().to_arrow()["id"].to_pylist() == [3]


PARTS = {
    "lacks a column": ({"id": [2]}, "lacks a column of the first part"),
    "has another type": ({"id": [2], "v": ["x"]}, "another type than the first part"),
}


@pytest.mark.parametrize("what", PARTS)
def test_parts_of_a_source_that_differ_are_refused(orders, what):
    second, words = PARTS[what]
    parts = iter([pa.table({"id": [1], "v": [1]}), pa.table(second)])
    with pytest.raises(InvalidData, match=words):
        orders.merge(parts, "t.id = s.id").when_matched_update({"v": "s.v"}).execute()
    assert orders.snapshots().num_rows == 1 and unreferenced(orders) == []


def test_a_small_write_buffer_is_enough_for_a_merge(orders):
    orders.alter(set_option("write-buffer-size", "1 b"))
    source = pa.table({"id": list(range(5000))})
    merge = orders.merge(source, "t.id = s.id").when_matched_delete().when_not_matched_insert({"id": "s.id"})
    report = merge.execute()
    assert (report.deleted, report.inserted) == (4, 4996)


@pytest.mark.parametrize("buffer", ["1 b", "1 mb"])
def test_a_merge_deletes_and_updates_rows_whose_changelog_is_the_input(lake, buffer):
    options = {"changelog-producer": "input", "write-buffer-size": buffer}
    table = lake.create_table("d.input", "id INT, v BIGINT", primary_key=["id"], options=options)
    table.upsert({"id": [1, 2], "v": [1, 2]})
    merge = table.merge({"id": [1, 2, 3]}, "t.id = s.id").when_matched_delete("t.v = 1").when_matched_update({"v": "7"})
    merge.when_not_matched_insert({"id": "s.id"}).execute()
    assert sorted(rows_of(table.scan().to_arrow())) == [(2, 7), (3, None)]
    emitted = table.changes(1, mode="changelog").to_arrow().select(["_row_kind", "id"])
    assert sorted(rows_of(emitted)) == [("+I", 2), ("+I", 3), ("-D", 1)]


REFUSED = {
    "no clause": (lambda t: t.merge({"id": [1]}, "t.id = s.id").execute(), "needs a clause"),
    "an unknown column": (lambda t: t.merge({"id": [1]}, "t.id = s.nothing").when_matched_delete().execute(), "s.nothing"),
    "a source column in a clause for the target alone": (
        lambda t: t.merge({"id": [1]}, "t.id = s.id").when_not_matched_by_source_update({"v": "s.id"}).execute(),
        "s.id",
    ),
    "a clause that cannot apply": (
        lambda t: t.merge({"id": [1]}, "t.id = s.id").when_matched_delete().when_matched_update({"v": "1"}).execute(),
        "can never apply",
    ),
    "a source without the columns of *": (
        lambda t: t.merge({"id": [1]}, "t.id = s.id").when_not_matched_insert_all().execute(),
        "the source lacks columns",
    ),
    "a condition that is none": (
        lambda t: t.merge({"id": [1]}, "t.id + s.id").when_matched_delete().execute(),
        "not a condition",
    ),
    "an unknown column to update": (lambda t: t.update({"nothing": "1"}), "unknown column"),
    "a value of another type": (lambda t: t.update({"k": "'x'"}), "does not fit column"),
    "a value that is lost": (lambda t: t.update({"k": "3000000000"}), "out of (the )?range"),
    "a division by zero": (lambda t: t.update({"k": "1 / (v - v)"}), "(?i)zero"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused_and_changes_nothing(orders, what):
    run, words = REFUSED[what]
    with pytest.raises(InvalidQuery, match=words):
        run(orders)
    assert orders.snapshots().num_rows == 1 and unreferenced(orders) == []


def test_a_null_in_a_column_that_has_none_is_refused(orders):
    with pytest.raises(InvalidData, match="NOT NULL"):
        orders.update({"id": "NULL"})
    assert orders.snapshots().num_rows == 1 and unreferenced(orders) == []


def test_tables_whose_rows_cannot_be_updated(lake):
    keyed = lake.create_table("d.k", DDL, primary_key=["id"])
    with pytest.raises(InvalidQuery, match="a key column cannot be updated"):
        keyed.update({"id": "2"})
    summed = lake.create_table("d.s", DDL, primary_key=["id"], options={"merge-engine": "first-row"})
    with pytest.raises(InvalidQuery, match="merge-engine = first-row cannot update"):
        summed.update({"v": "2"})


def test_a_statement_that_the_merge_engine_would_undo_is_refused(lake):
    row = [{"id": 1, "k": 5, "v": 1, "s": "a"}]
    kept = lake.create_table("d.k", DDL, primary_key=["id"], options={"ignore-delete": "true"})
    ordered = lake.create_table("d.o", DDL, primary_key=["id"], options={"sequence.field": "k"})
    for table in (kept, ordered):
        table.upsert(row)
    for run in (lambda: kept.delete("id = 1"), lambda: kept.merge(row, "t.id = s.id").when_matched_delete().execute()):
        with pytest.raises(InvalidQuery, match="the table ignores deletes"):
            run()
    older = ordered.merge({"id": [1], "k": [4]}, "t.id = s.id").when_matched_update({"k": "s.k", "v": "9"})
    for run in (lambda: ordered.update({"k": "k - 1", "v": "9"}), lambda: ordered.update({"k": "NULL"}), older.execute):
        with pytest.raises(InvalidData, match="cannot make a row older"):
            run()
    assert ordered.snapshots().num_rows == 1 and unreferenced(ordered) == []
    assert ordered.update({"k": "k + 1", "v": "9"}).updated == ordered.update({"v": "10"}).updated == 1
    assert rows_of(ordered.scan().to_arrow()) == [(1, 6, 10, "a")]


def test_a_merge_of_all_columns_notices_that_they_changed(orders, monkeypatch):
    """The source is read once, before the table has the column."""
    load = Join.__enter__

    def altered(join: Join) -> Join:
        entered = load(join)
        orders.alter(add_column("w", "INT"))
        return entered

    monkeypatch.setattr(Join, "__enter__", altered)
    source = {"id": [1], "k": [1], "v": [1], "s": ["x"], "w": [5]}
    with pytest.raises(CommitConflict, match=r"needs the source columns \['w'\]"):
        orders.merge(source, "t.id = s.id").when_matched_update_all().execute()
    monkeypatch.undo()
    assert orders.merge(source, "t.id = s.id").when_matched_update_all().execute().updated == 1
    assert orders.scan(where="w = 5").count() == 1


def test_a_source_that_gives_its_rows_once_is_read_once(orders):
    for source in (iter([pa.table({"id": [1]})]), pa.table({"id": [1]}).to_reader()):
        merge = orders.merge(source, "t.id = s.id").when_matched_update({"v": "0"}).when_not_matched_by_source_delete("t.id < 0")
        assert merge.execute().updated == 1
        with pytest.raises(InvalidQuery, match="gives its rows once"):
            merge.execute()
    twice = orders.merge({"id": [1]}, "t.id = s.id").when_matched_update({"v": "t.v + 1"})
    assert twice.execute().updated == twice.execute().updated == 1
    assert orders.scan(where="id = 1").to_arrow()["v"].to_pylist() == [2]


def test_columns_of_a_text_file_have_the_types_of_the_table(lake, tmp_path):
    table = lake.create_table("d.t", "id INT NOT NULL, day DATE, price DECIMAL(10,2), code STRING")
    table.append([{"id": 1, "day": None, "price": None, "code": None}])
    (tmp_path / "a.csv").write_text("ID,day,price,code,more\n1,2026-01-02,1.5,007,x\n9,,2.25,,y\n")
    merge = table.merge(str(tmp_path / "a.csv"), "t.id = s.id AND s.more < 'z'").when_matched_update_all()
    report = merge.when_not_matched_insert({"id": "s.id", "price": "s.price * 2"}).execute()
    assert (report.updated, report.inserted) == (1, 1)
    found = [(1, dt.date(2026, 1, 2), Decimal("1.50"), "007"), (9, None, Decimal("4.50"), None)]
    assert sorted(rows_of(table.scan().to_arrow())) == found
    (tmp_path / "b.csv").write_text("id\n1\nx\n")
    with pytest.raises(InvalidData, match="a value does not fit"):
        table.merge(str(tmp_path / "b.csv"), "t.id = s.id").when_matched_delete().execute()


# --- fields of structs ---

NESTED = "id INT NOT NULL, st STRUCT<a: BIGINT, `in b`: STRUCT<x: DECIMAL(9,2), y: STRING>>"
FIELDS: dict[str, tuple[Callable[[Lake, Table], object], list]] = {
    "a field": (lambda lake, table: table.update({"st.A": "st.a + 1 -- more"}), [(2, (1, "p")), (None, None)]),
    "a field of a field": (
        lambda lake, table: table.update({"st.`in b`.y": "upper(st.`in b`.y)", "st.a": "length(st.`in b`.y)"}),
        [(1, (1, "P")), (None, (None, None))],
    ),
    "in SQL": (lambda lake, table: lake.sql("UPDATE d.n AS o SET o.st.`in b`.x = o.id"), [(1, (1, "p")), (None, (2, None))]),
    "in SQL, by a query": (
        lambda lake, table: lake.sql("UPDATE d.n SET n.st.a = 5 WHERE id = (SELECT max(id) FROM d.n)"),
        [(1, (1, "p")), (5, None)],
    ),
    "of rows that match": (
        lambda lake, table: table.merge({"id": [2], "a": [9]}, "t.id = s.id").when_matched_update({"st.a": "s.a"}).execute(),
        [(1, (1, "p")), (9, None)],
    ),
    "of rows that match none": (
        lambda lake, table: (
            table.merge({"id": [2]}, "t.id = s.id").when_not_matched_by_source_update({"st.`in b`.y": "'n'"}).execute()
        ),
        [(1, (1, "n")), None],
    ),
    "in a MERGE in SQL": (
        lambda lake, table: lake.sql(
            "MERGE INTO d.n AS n USING (SELECT 1 AS id, 8 AS st) AS s ON n.id = s.id WHEN MATCHED THEN UPDATE SET n.st.a = s.st"
        ),
        [(8, (1, "p")), None],
    ),
}


@pytest.mark.parametrize("case", FIELDS)
def test_fields_of_structs_are_assigned(lake, case):
    """The other fields keep their values; of a struct that is NULL they are NULL, as in Spark."""
    run, expected = FIELDS[case]
    for key in ({}, {"primary_key": ["id"]}):
        table = lake.create_table("d.n", NESTED, **key)
        lake.sql("INSERT INTO d.n VALUES (1, named_struct('a', 1, 'in b', named_struct('x', 1.0, 'y', 'p'))), (2, NULL)")
        run(lake, table)
        found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
        flat = [st and (st["a"], st["in b"] and (*st["in b"].values(),)) for st in (row["st"] for row in found)]
        assert flat == expected, key
        lake.drop_table("d.n")


def test_a_statement_that_inserts_no_rows_leaves_dead_rows_to_the_next_write():
    """Up to a third of a bucket; an upsert reclaims what is above a fifth."""

    def dead(table: Table) -> int:
        return sum(ref.cardinality for state in table.version.states().values() for ref in state.vectors.values())

    table = new_lake(MemoryStorage()).create_table("d.t", DDL, primary_key=["id"], options={"bucket": 1})
    rows = {n: {"id": n, "k": n % 10, "v": n, "s": "x" * (n % 7)} for n in range(4000)}
    table.upsert(list(rows.values()))
    assert table.delete("k < 2").deleted == 800 and dead(table) == 800
    assert table.update({"v": "v + 1"}, "k % 10 = 2").updated == 400 and dead(table) == 1200, "by DuckDB"
    table.upsert([rows[3]])
    assert dead(table) < 1200
    table.compact(full=True)
    assert table.delete("k < 6").deleted == 1600 and dead(table) == 0, "half of the rows: they are not left"
    expected = [row | {"v": row["v"] + (row["k"] == 2)} for row in rows.values() if row["k"] >= 6]
    assert table.scan().to_arrow().sort_by("id").to_pylist() == expected
    assert table.verify() == []
