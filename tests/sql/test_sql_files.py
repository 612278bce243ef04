"""Files in FROM, in process: the columns that they have to Spark without options."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lsmlake.errors import InvalidData, InvalidQuery, LakeError


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "in.files"
    folder.mkdir()
    (folder / "a.csv").write_text('id,v\n1,a\n2,""\n3,\n')
    (folder / "_hidden.csv").write_text("x\n")
    (folder / "b.json").write_text('{"b": 1, "a": "2026-01-01 00:00:00", "c": {"z": 1.5, "y": [1]}}\n{"b": null, "d": null}\n')
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.uint8()), "v": ["x", None]}), folder / "p.parquet")
    return folder


def test_csv_has_no_header_and_columns_of_text(lake, files):
    found = lake.sql(f"SELECT * FROM csv.`{files}/a.csv` AS t WHERE t._c0 <> 'id'").to_arrow()
    assert found.to_pydict() == {"_c0": ["1", "2", "3"], "_c1": ["a", "", None]}
    assert lake.sql(f"SELECT count(*) FROM csv.`{files}/*.csv`").fetchall() == [(4,)]


def test_json_has_sorted_columns_and_its_texts_stay_texts(lake, files):
    found = lake.sql(f"DESCRIBE QUERY SELECT * FROM json.`{files}/b.json`").fetchall()
    assert [row[:2] for row in found] == [
        ("a", "STRING"), ("b", "BIGINT"), ("c", "STRUCT<y: ARRAY<BIGINT>, z: DOUBLE>"), ("d", "STRING"),
    ]  # fmt: skip
    assert lake.sql(f"SELECT c.z, c.y, a FROM json.`{files}/b.json` WHERE b = 1").fetchall() == [
        (1.5, [1], "2026-01-01 00:00:00")
    ]


def test_parquet_is_read_joined_and_loaded(lake, files):
    name = f"parquet.`{files}/p.parquet`"
    assert lake.sql(f"SELECT a.id, b.v FROM {name} a JOIN {name} b ON a.id = b.id ORDER BY 1").fetchall() == [(1, "x"), (2, None)]
    lake.sql(f"CREATE TABLE d.t PRIMARY KEY (id) AS SELECT * FROM {name}")
    lake.sql(f"INSERT INTO d.t SELECT id + 10, v FROM {name}")
    lake.sql(f"DELETE FROM d.t WHERE id IN (SELECT id FROM {name})")
    assert lake.sql("SELECT id FROM d.t ORDER BY id").fetchall() == [(11,), (12,)]
    lake.sql(f"CREATE VIEW d.v AS SELECT id FROM {name}")
    assert lake.sql("SELECT sum(id) FROM d.v").fetchall() == [(3,)]


def test_what_cannot_be_read_is_reported_by_its_file(lake, files):
    pq.write_table(pa.table({"id": ["7"]}), files / "q.parquet")
    (files / "in" / "dt=1").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), files / "in" / "dt=1" / "r.parquet")
    lake.sql("CREATE TABLE d.t (id INT)")
    lake.sql("INSERT INTO d.t VALUES (1)")
    for text, message in {
        f"SELECT * FROM parquet.`{files}/[pq].parquet`": "q.parquet, column id: a value does not fit",
        f"SELECT * FROM parquet.`{files}/a.csv`": "a.csv: the file cannot be read",
        f"SELECT * FROM parquet.`{files}/in`": "names of folders are not read",
        f"SELECT * FROM csv.`{files}/nope.csv`": "no input file found",
        f"SELECT * FROM parquet.`{lake.env.storage.root}/d.db/t`": "belong to a table",
    }.items():
        with pytest.raises(InvalidData, match=message):
            lake.sql(text)
    for text, message in {
        f"SELECT * FROM orc.`{files}/a.orc`": "files of orc are not read.*attach Spark",
        f"SELECT * FROM csv.`{files}/a.csv` VERSION AS OF 1": "a file has no versions",
        f"DELETE FROM csv.`{files}/a.csv`": "files cannot be changed",
        "SELECT * FROM csv.`a.csv`.x": "",
    }.items():
        with pytest.raises(LakeError if not message else InvalidQuery, match=message or "csv"):
            lake.sql(text)
