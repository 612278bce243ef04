"""The row sources of the benchmark: a row depends only on key and version, totals are exact, engines give the same answers."""

from __future__ import annotations

import datetime
from decimal import Decimal
from itertools import combinations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lsmlake
from bench.peers.data import Data, Stream, prepare
from bench.peers.read import Read, normal, totals
from bench.peers.roster import PEERS
from bench.peers.run import run
from bench.peers.setup import NotReady
from bench.peers.sources import SOURCES
from bench.peers.workloads.case import Sizes
from bench.rows import KEY

POOL_ROWS = 997
DAY = datetime.date(1995, 6, 17)
KINDS = {
    pa.int64(): lambda n: n * 37 % 1_009,
    pa.int32(): lambda n: None if n % 5 == 0 else n % 300 - 20,
    pa.decimal128(15, 2): lambda n: Decimal(n * 7_919 % 9_000_000) / 100,
    pa.string(): lambda n: f"text {n % 13}",
    pa.date32(): lambda n: DAY + datetime.timedelta(n % 400),
    pa.timestamp("us", "UTC"): lambda n: datetime.datetime(2013, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(0, n),
}


@pytest.fixture
def home(tmp_path):
    """A home folder with pools of rows made up."""
    (tmp_path / "pools").mkdir()
    for source in SOURCES.values():
        if source.make is None:
            fields = list(source.schema)[1:]
            columns = [[KINDS[field.type](row + at) for row in range(POOL_ROWS)] for at, field in enumerate(fields)]
            rows = pa.table(
                [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)], pa.schema(fields)
            )
            pq.write_table(rows, tmp_path / "pools" / f"{source.name}.parquet")
    (tmp_path / "pools" / "ready").touch()
    return tmp_path


def plainly(asked: object, read: Read) -> list[list[object]]:
    with duckdb.connect() as connection:
        connection.register("asked", asked)
        return normal(connection.sql(read.sql("asked")).fetchall())


@pytest.mark.parametrize("name", SOURCES)
def test_a_row_depends_on_its_key_and_version_alone(home, name):
    source, ids = SOURCES[name], np.arange(2_500)
    make = source.maker(home)
    versions = ids % 4
    whole = make(ids, versions)
    assert whole.schema == source.schema
    assert whole[KEY].to_pylist() == ids.tolist()
    some = np.random.default_rng(1).permutation(ids)[:200]
    assert make(some, versions[some]).equals(whole.take(pa.array(some)))
    for version in range(4):
        of = ids[versions == version]
        assert make(of, version).equals(whole.take(pa.array(of)))


@pytest.mark.parametrize("name", SOURCES)
def test_another_version_is_another_row(home, name):
    make, ids = SOURCES[name].maker(home), np.arange(20)
    made = [make(ids, version).drop_columns(KEY).to_pylist() for version in range(3)]
    assert all(one != other for before, after in combinations(made, 2) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("name", SOURCES)
def test_the_expected_content_is_exact(home, name):
    source = SOURCES[name]
    data = prepare(home, Stream(400, 80, 3, source=name, deletes=2))
    final = pq.read_table(data.final)
    assert final.schema == source.schema == data.schema
    sums = [sum(value for value in final[column].to_pylist() if value is not None) for column in source.totals]
    exact = [value * 100 if isinstance(value, Decimal) else value for value in sums]
    assert data.facts["expected"] == [final.num_rows, *exact]
    assert all(exact)
    assert plainly(ds.dataset(data.final), totals(source.schema, source.totals)) == [data.facts["expected"]]


def _table(data: Data, folder) -> lsmlake.Table:
    lake = lsmlake.connect(folder / "warehouse")
    lake.create_database("bench")
    table = lake.create_table("bench.t", data.schema, primary_key=[KEY], options={"bucket": "2"})
    for path in (data.load, *data.batches):
        table.upsert(pq.read_table(path))
    return table


@pytest.mark.parametrize("name", SOURCES)
def test_reads_answer_alike_over_the_table_and_plain_parquet(home, name):
    data = prepare(home, Stream(600, 100, 2, source=name))
    table = _table(data, home)
    for read in (totals(data.schema, data.source.totals), *data.reads):
        assert set(read.columns) <= set(data.schema.names)
        scanned = table.scan(where=read.condition or None, columns=list(read.columns)).to_arrow()
        assert plainly(scanned, read) == plainly(ds.dataset(data.final), read), read.name
    keyed = {read.name: plainly(ds.dataset(data.final), read) for read in data.reads if read.name in ("range", "point")}
    assert all(keyed.values())


def test_the_filter_of_the_made_rows_keeps_about_a_hundredth():
    source = SOURCES["generated"]
    rows = source.make(np.arange(20_000), 0)
    (condition,) = (read.where for read in source.reads(20_000) if read.name == "filter")
    ((column, _, least),) = condition
    assert 0.005 < pc.mean(pc.greater_equal(rows[column], least)).as_py() < 0.02


def test_without_its_pool_a_source_explains_how_to_get_it(tmp_path):
    with pytest.raises(NotReady, match="--setup"):
        prepare(tmp_path, Stream(10, 2, 1, source="lineitem"))


def test_a_run_without_pools_lists_its_peers_with_the_reason(tmp_path):
    ready = tmp_path / "env" / "duckdb" / "ready"
    ready.parent.mkdir(parents=True)
    ready.touch()
    results = list(run(tmp_path, [PEERS["duckdb"]], ["maintain"], Sizes((50,), 10, 1), 10, 1))
    assert [(one.status, "--setup" in one.error) for one in results] == [("error", True)]


def test_what_is_asked_for_replaces_what_a_workload_chooses():
    assert Sizes().of("lineitem") == "lineitem"
    assert Sizes(source="generated").of("lineitem") == "generated"
