"""The options `metadata.iceberg.catalog` and `.table`: every commit brings the table up to date in a catalog that the
configuration of PyIceberg names. A catalog that fails holds up no commit, but the deletion of files that it may name."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from lsmlake import set_option, unset_option
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.errors import InvalidOption, StorageFailed
from lsmlake.iceberg import catalog, published
from lsmlake.iceberg import catalog_backoff as patience
from lsmlake.maintain.followers import FOLLOWERS
from lsmlake.storage.env import Env
from lsmlake.storage.local import LocalStorage

pytest.importorskip("pyiceberg.catalog")
from pyiceberg import catalog as catalogs
from pyiceberg.utils.config import Config

SECRET = "n0t-to-be-written"
PROD = {"metadata.iceberg": "true", "metadata.iceberg.catalog": "prod"}


def configure(monkeypatch, **properties: str) -> None:
    """The environment of the process; PyIceberg reads it when it is imported."""
    for name, value in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{name}", value)
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", Config())


class Clock:
    """Milliseconds that only a test lets pass."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture(autouse=True)
def configured(monkeypatch, tmp_path):
    uri = f"sqlite:///{tmp_path}/catalog.db"
    monkeypatch.setattr(patience, "_rests", {})
    configure(monkeypatch, TYPE="sql", URI=uri, PASSWORD=SECRET, S3__SECRET_ACCESS_KEY=SECRET)


@pytest.fixture
def lake(tmp_path):
    """Its clock stands still, so no catalog takes long."""
    found = Lake(Env(LocalStorage(tmp_path / "lake"), Clock(), followers=FOLLOWERS), Runtime())
    found.create_database("d")
    return found


def made(lake, name: str = "d.t", **options: str):
    given = {"bucket": "1", "snapshot.expire.on-commit": "false", **PROD, **options}
    return lake.create_table(name, "id BIGINT, v BIGINT", primary_key=["id"], options=given)


def write(table, n: int) -> None:
    table.upsert([{"id": n % 3, "v": n}, {"id": n, "v": n}])
    table.compact()


def shown(name: str = "d.t") -> tuple[int, dict, list]:
    """The current snapshot in the catalog, its references, and its rows."""
    with closing(catalogs.load_catalog("prod")) as found:
        table = found.load_table(name)
        rows = sorted(table.scan().to_arrow().to_pylist(), key=repr)
        return table.current_snapshot().snapshot_id, {ref: one.snapshot_id for ref, one in table.refs().items()}, rows


def of(table) -> tuple[int, list]:
    return table.version.number, sorted(table.scan().to_arrow().to_pylist(), key=repr)


def test_commits_tags_and_branches_appear_in_the_catalog(lake, tmp_path, monkeypatch):
    from pyiceberg.catalog.sql import SqlCatalog

    monkeypatch.setattr(SqlCatalog, "drop_table", lambda self, name: pytest.fail("readers would not find the table"))
    table = made(lake)
    for n in range(1, 4):
        write(table, n)
        number, _, rows = shown()
        assert (number, rows) == of(table)
    table.create_tag("old", snapshot=1)
    assert shown()[1] == {"main": table.version.number, "old": 1}
    branch = table.create_branch("b")
    write(branch, 7)
    write(table, 8)
    write(branch, 9)
    number, refs, rows = shown()
    assert (number, rows) == of(table) and refs.keys() == {"main", "old", "b"}
    with closing(catalogs.load_catalog("prod")) as found:
        loaded = found.load_table("d.t")
        assert sorted(loaded.scan(snapshot_id=refs["b"]).to_arrow().to_pylist(), key=repr) == of(branch)[1]
    table.delete_branch("b")
    assert shown()[1].keys() == {"main", "old"}
    assert not any(SECRET.encode() in path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file())


def test_the_table_has_another_name_in_the_catalog(lake):
    table = made(lake, **{"metadata.iceberg.table": "shop.eu.orders"})
    write(table, 1)
    assert shown("shop.eu.orders")[0] == table.version.number


def test_a_catalog_that_fails_fails_no_commit_and_is_brought_up_to_date_later(lake, tmp_path, monkeypatch, caplog):
    table = made(lake)
    for n in range(1, 4):
        write(table, n)
    before, files = shown(), set(Path(tmp_path).rglob("data-*.parquet"))
    with monkeypatch.context() as broken:
        configure(broken, URI=f"sqlite:///{tmp_path}/no/catalog.db")
        write(table, 4)
        assert "the catalog did not register the table" in caplog.text and SECRET not in caplog.text
        with pytest.raises(StorageFailed, match="the table is published"):
            table.expire_snapshots(retain_max=1, retain_min=1)
        assert files <= set(Path(tmp_path).rglob("data-*.parquet")), "the catalog names them"
    configure(monkeypatch)
    assert shown() == before
    write(table, 5)
    number, _, rows = shown()
    assert (number, rows) == of(table)
    table.remove_orphan_files("2100-01-01")
    assert not files <= set(Path(tmp_path).rglob("data-*.parquet"))
    assert shown()[2] == of(table)[1]


def test_commits_do_not_wait_for_a_catalog_that_hangs_again_and_again(tmp_path, monkeypatch, caplog):
    clock, asked, hangs = Clock(), [], [False]

    def within(seconds, call, within=catalog._within):
        asked.append(seconds)
        if hangs[0]:
            clock.ms += 1_000 * seconds
            raise catalog.TooLate
        return within(seconds, call)

    monkeypatch.setattr(catalog, "_within", within)
    lake = Lake(Env(LocalStorage(tmp_path / "lake"), clock, followers=FOLLOWERS), Runtime())
    lake.create_database("d")
    table, other = made(lake), made(lake, "d.other")
    table.upsert([{"id": 1, "v": 1}], compact=False)
    assert asked == [10]
    hangs[0] = True
    for n in range(5):
        table.upsert([{"id": n, "v": n}], compact=False)
        other.upsert([{"id": n, "v": n}], compact=False)
    assert asked == [10, 10], "the first of these commits asked it, for both tables"
    assert caplog.text.count("the catalog did not answer, expected an answer within 10 seconds") == 1
    assert "failed a short time ago, so it is not asked now, expected the next attempt in 101 seconds" in caplog.text
    assert published.current(table.meta).content["current-snapshot-id"] == table.version.number, "published by path"
    with pytest.raises(StorageFailed, match="did not answer, expected an answer within 60 seconds"):
        table.publish_iceberg()
    assert asked == [10, 10, 60], "a user is not refused"
    files = set(tmp_path.rglob("data-*.parquet"))
    table.compact(full=True)
    with pytest.raises(StorageFailed, match=r"not asked now.*publish_iceberg\(\) asks it at once"):
        table.expire_snapshots(retain_max=1, retain_min=1)
    assert files <= set(tmp_path.rglob("data-*.parquet")), "the catalog names them"
    clock.ms += 599_999
    lake.drop_table("d.other")
    table.upsert([{"id": 8, "v": 8}], compact=False)
    assert asked == [10, 10, 60]
    hangs[0] = False
    clock.ms += 1
    table.compact(full=True)
    table.upsert([{"id": 9, "v": 9}])
    assert asked == [10, 10, 60, 10, 10]
    assert shown()[0] == table.version.number


def test_a_catalog_that_refuses_quickly_is_asked_by_each_commit(lake, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(catalog, "_within", lambda seconds, call: asked.append(seconds) or call())
    configure(monkeypatch, URI=f"sqlite:///{tmp_path}/no/catalog.db")
    table = made(lake)
    for n in range(3):
        table.upsert([{"id": n, "v": n}], compact=False)
    assert asked == [10, 10, 10]


def test_publish_iceberg_brings_the_catalog_up_to_date_too(lake):
    table = made(lake)
    table.alter(unset_option("metadata.iceberg.catalog"))
    write(table, 1)
    table.alter(set_option("metadata.iceberg.catalog", "prod"))
    table.publish_iceberg()
    assert shown()[0] == table.version.number


@pytest.mark.parametrize(
    "options",
    [
        {"metadata.iceberg.table": "orders"},
        {"metadata.iceberg.catalog": " "},
        {"metadata.iceberg": "false"},
    ],
)
def test_options_without_sense_are_refused(lake, options):
    with pytest.raises(InvalidOption):
        made(lake, **options)
