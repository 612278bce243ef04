"""COPY INTO loads each file once, whatever happens between."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lsmlake.errors import InvalidData, InvalidQuery, LakeError
from lsmlake.sql import copy_into
from lsmlake.tables.copied import Copied, files_of, list_of, put_copied, read_copied


@pytest.fixture(params=["with a key", "append-only"])
def t(request, lake):
    key = ", PRIMARY KEY (id)" if request.param == "with a key" else ""
    lake.sql(f"CREATE TABLE d.t (id BIGINT, v STRING{key})")
    return lake


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "in"
    made.mkdir()
    (made / "a.csv").write_text('1,a\n2,""\n')
    (made / "b.csv").write_text("3,\n")
    return made


def rows(lake) -> list[tuple]:
    return lake.sql("SELECT id, v FROM d.t ORDER BY id, v").fetchall()


def test_files_are_loaded_once_also_when_their_snapshots_are_gone(t, folder):
    load = f"COPY INTO d.t FROM '{folder}' FILEFORMAT = CSV PATTERN = '*.csv'"
    assert t.sql(load).fetchall() == [(3, 2, 0, 1)]
    (folder / "c.csv").write_text("4,c\n")
    assert t.sql(load).fetchall() == [(1, 1, 2, 2)]
    t.sql("CALL expire_snapshots(table => 'd.t', retain_max => 1, retain_min => 1)")
    t.sql("CALL remove_orphan_files('d.t', '2100-01-01')")
    (folder / "c.csv").write_text("5,changed\n")
    assert t.sql(load).fetchall() == [(0, 0, 3, None)]
    assert rows(t) == [(1, "a"), (2, ""), (3, None), (4, "c")] and not t.table("d.t").verify()
    t.sql("DELETE FROM d.t")
    t.sql("ALTER TABLE d.t RENAME TO d.u")
    t.sql("ALTER TABLE d.u RENAME TO d.t")
    assert t.sql(load).fetchall() == [(0, 0, 3, None)]
    assert t.sql(f"COPY INTO d.t FROM '{folder}/c.csv' FILEFORMAT = CSV COPY_OPTIONS ('force' = 'true')").fetchall()[0][:2] == (
        1,
        1,
    )
    assert rows(t) == [(5, "changed")]
    t.sql("DROP TABLE d.t")
    assert not list(folder.parent.glob("warehouse/d.db/t/**/*"))


def test_formats_and_their_options(t, folder):
    (folder / "h.txt").write_text("v;id\nz;9\n")
    (folder / "y.json").write_text('{"id": 7, "v": "j"}\n')
    pq.write_table(pa.table({"id": pa.array([8], pa.int32()), "v": ["p"]}), folder / "z.parquet")
    options = "FORMAT_OPTIONS ('header' = 'true', 'sep' = ';', 'mergeSchema' = 'false')"
    t.sql(f"COPY INTO d.t FROM '{folder}' FILEFORMAT = CSV FILES = ('h.txt') {options}")
    t.sql(f"COPY INTO d.t FROM '{folder}/*.json' FILEFORMAT = JSON")
    t.sql(f"COPY INTO d.t FROM '{folder}/z.parquet' FILEFORMAT = PARQUET")
    assert rows(t) == [(7, "j"), (8, "p"), (9, "z")]


def test_a_file_that_does_not_fit_loads_none(t, folder):
    (folder / "c.csv").write_text("x,c\n")
    load = f"COPY INTO d.t FROM '{folder}' FILEFORMAT = CSV"
    with pytest.raises(InvalidData):
        t.sql(load)
    assert rows(t) == [] and not list(folder.parent.glob("warehouse/d.db/t/copied/*/*"))
    (folder / "c.csv").write_text("6,c\n")
    assert t.sql(load).fetchall() == [(4, 3, 0, 1)]


def test_of_two_at_the_same_time_each_file_is_loaded_by_one(t, folder, monkeypatch):
    """The other statement commits while this one reads its files."""
    load, written = f"COPY INTO d.t FROM '{folder}' FILEFORMAT = CSV", copy_into._written

    def late(*given):
        monkeypatch.undo()
        assert t.sql(f"{load} FILES = ('b.csv')").fetchall()[0][:2] == (1, 1)
        return written(*given)

    monkeypatch.setattr(copy_into, "_written", late)
    assert t.sql(load).fetchall()[0][:3] == (2, 1, 1)
    assert rows(t) == [(1, "a"), (2, ""), (3, None)]
    assert t.sql(load).fetchall()[0][:3] == (0, 0, 2)


def test_an_interrupted_statement_is_done_or_not_done(t, folder, monkeypatch):
    load, written = f"COPY INTO d.t FROM '{folder}' FILEFORMAT = CSV", copy_into._written
    for after in (False, True):

        def interrupted(*given):
            if after:  # noqa: B023
                written(*given)
            raise KeyboardInterrupt

        monkeypatch.setattr(copy_into, "_written", interrupted)
        with pytest.raises(KeyboardInterrupt):
            t.sql(load)
        monkeypatch.undo()
    assert t.sql(load).fetchall()[0][:3] == (0, 0, 2) and len(rows(t)) == 3


def test_lists_of_files_are_few(lake):
    lake.sql("CREATE TABLE d.t (id INT)")
    meta, newest = lake.table("d.t").meta, None
    for number in range(100):
        newest = put_copied(meta, newest, [f"/f{number}"])
        assert len(newest.before) < 8
    assert files_of(meta, newest) == {f"/f{number}" for number in range(100)}
    assert read_copied(meta, newest.name) == newest and isinstance(newest, Copied)
    assert list_of(None) is None


REFUSED = {
    "FROM '{}'": "FILEFORMAT is missing",
    "FROM '{}' FILEFORMAT = ORC": "files of orc are not read",
    "FROM '{}' FILEFORMAT = CSV FILEFORMAT = CSV": "given twice",
    "FROM '{}' FILEFORMAT = CSV FILES = ('a.csv') PATTERN = '*'": "exclude each other",
    "FROM '{}' FILEFORMAT = CSV FILES = ('nope.csv')": "no input file found",
    "FROM '{}' FILEFORMAT = CSV PATTERN = 'nope*'": "no file fits the pattern",
    "FROM '{}' FILEFORMAT = CSV FORMAT_OPTIONS ('inferSchema' = 'true')": "the table has the types",
    "FROM '{}' FILEFORMAT = CSV FORMAT_OPTIONS ('quote' = '|')": "option quote is not supported, expected header, sep",
    "FROM '{}' FILEFORMAT = CSV FORMAT_OPTIONS ('header' = 'maybe')": "true or false",
    "FROM '{}' FILEFORMAT = CSV COPY_OPTIONS ('mergeSchema' = 'true')": "ALTER TABLE ... ADD COLUMN",
    "FROM '{}' FILEFORMAT = JSON FORMAT_OPTIONS ('header' = 'true')": "no header and no separator",
    "FROM '{}' FILEFORMAT = CSV FORMAT_OPTIONS ('sep' = ',', 'delimiter' = ';')": "option sep is given twice",
    "FROM '{}' FILEFORMAT = CSV FORMAT_OPTIONS ('encoding' = 'utf-8', 'charset' = 'latin-1')": "option encoding is given twice",
    "FROM '{}' FILEFORMAT = CSV COPY_OPTIONS ('force' = 'true', 'FORCE' = 'false')": "option force is given twice",
    "FROM '{}' FILEFORMAT = CSV FORMAT_OPTIONS ('sep' = 'é')": "not a delimiter",
    "FROM '{}' FILEFORMAT = CSV FORMAT_OPTIONS ('sep' = '\"')": "not a delimiter",
    "FROM '{}' FILEFORMAT = CSV FILES = ('/etc/hosts')": "outside of the path",
    "FROM '{}' FILEFORMAT = CSV FILES = ('../a.csv')": "outside of the path",
    "FROM '{}' FILEFORMAT = CSV VALIDATE": "found VALIDATE",
    "FROM '{}' WITH (CREDENTIAL x) FILEFORMAT = CSV": "found WITH",
    "FROM (SELECT _c0 FROM '{}') FILEFORMAT = CSV": "INSERT INTO ... SELECT",
    "(id) FROM '{}' FILEFORMAT = CSV": "cannot be listed",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_obeyed_is_refused(text: str, lake, folder):
    lake.sql("CREATE TABLE d.t (id BIGINT, v STRING)")
    with pytest.raises(LakeError, match=REFUSED[text]):
        lake.sql(f"COPY INTO d.t {text.format(folder)}")
    assert rows(lake) == [] and len(lake.table("d.t").snapshots()) == 0


def test_the_line_that_tells_excel_the_delimiter_is_no_row(lake, tmp_path):
    (tmp_path / "e.csv").write_text("sep=;\na;b\n")
    lake.sql("CREATE TABLE d.t (a STRING, b STRING)")
    with pytest.raises(InvalidData, match="tells Excel the delimiter"):
        lake.sql(f"COPY INTO d.t FROM '{tmp_path}/e.csv' FILEFORMAT = CSV FORMAT_OPTIONS ('sep' = ';')")
    assert lake.table("d.t").snapshots().num_rows == 0


def test_a_copy_of_a_table_knows_no_files(t, folder):
    load = f"COPY INTO d.{{}} FROM '{folder}' FILEFORMAT = CSV"
    t.sql(load.format("t"))
    t.sql(f"CALL copy('d.t', '{folder.parent}/warehouse', name => 'd.u')")
    with pytest.raises(InvalidQuery, match="list of the files that were loaded is not there"):
        t.sql(load.format("u"))
    t.sql(load.format("u") + " COPY_OPTIONS ('force' = 'true')")
    assert t.sql(load.format("u")).fetchall()[0][:3] == (0, 0, 2)
