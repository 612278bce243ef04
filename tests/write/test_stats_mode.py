"""What manifests keep of each column (`metadata.stats-mode` and its relatives), and that no answer depends on it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from strategies import contents, lake_on, new_lake

import lsmlake
from lsmlake.errors import InvalidOption
from lsmlake.schema.envelope import unpack
from lsmlake.storage.memory import MemoryStorage

COLUMNS = "k BIGINT, n INT, t STRING, b BINARY, tags ARRAY<STRING>"
ROWS = {
    "k": [1, 2, 3],
    "n": [5, None, 7],
    "t": ["a" * 40, "b" * 40, None],
    "b": [b"x" * 40, None, b"y" * 40],
    "tags": [["u"], [], None],
}
CUT = {
    "n": (1, 5, 7),
    "t": (1, "a" * 16, "b" * 15 + "c"),
    "b": (1, b"x" * 16, b"y" * 15 + b"z"),
}
WHOLE = {"n": (1, 5, 7), "t": (1, "a" * 40, "b" * 40), "b": (1, b"x" * 40, b"y" * 40)}
COUNTED = dict.fromkeys("ntb", (1, None, None))
KEY = {"k": (0, 1, 3)}
MODE, FIRST = "metadata.stats-mode", "metadata.stats-keep-first-n-columns"
CASES = [
    ({}, KEY | CUT),
    ({MODE: "truncate"}, KEY | CUT),
    ({MODE: "Truncate( 16 )"}, KEY | CUT),
    ({MODE: "full"}, KEY | WHOLE),
    ({MODE: "counts"}, {"k": (0, None, None)} | COUNTED),
    ({MODE: "none"}, {}),
    ({MODE: "none", "fields.t.stats-mode": "full"}, {"t": WHOLE["t"]}),
    ({MODE: "full", "fields.t.stats-mode": "counts", "fields.k.stats-mode": "none"}, {**WHOLE, "t": COUNTED["t"]}),
    ({"metadata.stats-truncate": 3}, KEY | {"n": CUT["n"], "t": (1, "aaa", "bbc"), "b": (1, b"xxx", b"yyz")}),
    ({MODE: "truncate(3)"}, KEY | {"n": CUT["n"], "t": (1, "aaa", "bbc"), "b": (1, b"xxx", b"yyz")}),
    ({FIRST: 0}, KEY),
    ({FIRST: 1}, KEY | {"n": CUT["n"]}),
    ({FIRST: 2}, KEY | {"n": CUT["n"], "t": CUT["t"]}),
    ({FIRST: -1}, KEY | CUT),
    ({FIRST: 1, "fields.n.stats-mode": "counts"}, KEY | {"n": COUNTED["n"], "t": CUT["t"]}),
]


def _created(lake, options, primary_key=("k",)):
    return lake.create_table("d.t", COLUMNS, primary_key=list(primary_key), options=options)


def _kept(table) -> dict[str, tuple]:
    names = {number: name for name, number in table.version.schema.field_ids().items()}
    (file,) = [file for state in table.states().values() for file in state.files]
    return {names[number]: tuple(stats) for number, stats in file.stats.items()}


@pytest.mark.parametrize(("options", "kept"), CASES)
def test_what_is_kept(options, kept):
    table = _created(new_lake(), options)
    table.upsert(ROWS, compact=False)
    assert _kept(table) == kept
    table.compact(full=True)
    assert _kept(table) == kept


@pytest.mark.parametrize(("options", "kept"), CASES[1:8:2])
def test_an_append_only_table_keeps_the_same(options, kept):
    table = _created(new_lake(), options, ())
    table.append(ROWS)
    given = _kept(table)
    assert {name: stats for name, stats in given.items() if name != "k"} == {n: s for n, s in kept.items() if n != "k"}


@pytest.mark.parametrize(("options", "kept"), CASES)
def test_no_answer_depends_on_it(options, kept, lake):
    table = _created(lake, options)
    table.upsert(ROWS, compact=False)
    table.upsert({"k": [3, 4], "n": [None, 9], "t": ["c", None], "b": [None, b""], "tags": [["v"], None]})
    asked = "SELECT min(n), max(n), min(t), max(t), max(b), min(k), max(k), count(n), count(*), sum(n) FROM d.t"
    answer = {"n": (5, 9), "t": ("a" * 40, "c"), "b": b"x" * 40, "k": (1, 4)}
    (row,) = lake.sql(asked).to_arrow().to_pylist()
    assert list(row.values()) == [*answer["n"], *answer["t"], answer["b"], *answer["k"], 2, 4, 14]
    for where, keys in {
        "n = 5": [1],
        "n IS NULL": [2, 3],
        "n IS NOT NULL": [1, 4],
        "t > 'b'": [2, 3],
        "t IS NULL": [4],
        "k > 2": [3, 4],
        "b = X''": [4],
        "n <> 5": [4],
    }.items():
        assert sorted(table.scan(where=where, columns=["k"]).to_arrow()["k"].to_pylist()) == keys, where
    assert lake.sql("SELECT count(*) AS c FROM d.t WHERE n > 5").to_arrow()["c"].to_pylist() == [1]
    assert list(table.verify()) == []
    lake.sql("DELETE FROM d.t WHERE n = 9")
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("mode", ["none", "counts", "truncate(2)", "full"])
def test_manifests_hold_no_columns_of_what_is_not_kept(mode):
    storage = MemoryStorage()
    table = _created(new_lake(storage), {MODE: mode})
    table.upsert(ROWS, compact=False)
    stored = contents(storage)
    (path,) = [path for path in stored if "/manifest/manifest-" in path and "list" not in path]
    names = {column["name"] for column in unpack("MANF", stored[path], path)["columns"]}
    assert {name.partition(":")[0] for name in names if ":" in name} == {"kmin", "kmax"} | (
        set() if mode == "none" else {"n", "lo", "hi"}
    )
    again = lake_on(storage).table("d.t")
    assert again.scan(where="n = 7").to_arrow()["k"].to_pylist() == [3]


def test_changing_it_rewrites_nothing_and_concerns_new_files():
    table = _created(new_lake(), {})
    table.upsert(ROWS, compact=False)
    before = [file.name for state in table.states().values() for file in state.files]
    for option in ({MODE: "none"}, {"fields.t.stats-mode": "counts"}):
        table.alter(*[lsmlake.set_option(name, value) for name, value in option.items()])
    assert [file.name for state in table.states().values() for file in state.files] == before
    table.upsert(ROWS, compact=False)
    table.compact(full=True)
    assert _kept(table) == {"t": COUNTED["t"]}
    table.alter(lsmlake.rename_column("t", "text"))
    table.upsert({"k": [9], "n": [1], "text": ["z"], "b": [b""], "tags": [None]}, compact=False)
    table.compact(full=True)
    assert _kept(table) == {"text": COUNTED["t"]}


def test_iceberg_metadata_has_no_bounds_that_are_not_kept(tmp_path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = _created(lake, {MODE: "none", "metadata.iceberg": "true"})
    table.upsert(ROWS)
    table.compact(full=True)
    metadata = max((tmp_path / "d.db" / "t" / "metadata").glob("*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
    from pyiceberg.table import StaticTable

    read = StaticTable.from_metadata(str(metadata)).scan(row_filter="n = 7").to_arrow()
    assert json.loads(metadata.read_text())["format-version"] >= 2 and read["k"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({MODE: "most"}, "truncate"),
        ({MODE: "truncate(0)"}, "truncate"),
        ({MODE: "truncate(70000)"}, "65536"),
        ({FIRST: "-2"}, "at least -1"),
        ({MODE: "full", "metadata.stats-truncate": "4"}, "metadata.stats-mode = truncate"),
        ({MODE: "truncate(4)", "metadata.stats-truncate": "4"}, "metadata.stats-mode = truncate"),
        ({"fields.x.stats-mode": "full"}, "names no column"),
        ({"fields.n,t.stats-mode": "full"}, "several columns"),
        ({"fields.tags.stats-mode": "full"}, "nested"),
        ({"fields.n.stats-modes": "full"}, "stats-mode"),
    ],
)
def test_what_cannot_be_kept_is_refused(options, says):
    with pytest.raises(InvalidOption, match=says.replace("(", r"\(")):
        _created(new_lake(), options)


def test_imported_files_are_kept_by_the_same_rules(tmp_path):
    import pyarrow.parquet as pq

    types = [("k", pa.int64()), ("n", pa.int32()), ("t", pa.string()), ("b", pa.binary()), ("tags", pa.list_(pa.string()))]
    pq.write_table(pa.table(ROWS, schema=pa.schema(types)), tmp_path / "rows.parquet")
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("d")
    options = {MODE: "none", "fields.t.stats-mode": "truncate(3)"}
    lake.import_parquet(str(tmp_path / "rows.parquet"), "d.t", options=options)
    table = lake.table("d.t")
    assert _kept(table) == {"t": (1, "aaa", "bbc")}
    assert table.scan(where="n = 7").to_arrow()["k"].to_pylist() == [3]
