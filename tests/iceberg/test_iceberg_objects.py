"""Iceberg metadata in an object store: published by commits to an S3 server, read by PyIceberg and by the reader written from the
specification through their own clients; by publishers side by side; and without any credentials in it."""

from __future__ import annotations

import json
import urllib.parse
from threading import Barrier, Thread

import pyarrow as pa
import pytest
from iceberg_reader import IcebergReader
from object_servers import SECRET, Server, azure_server
from pyarrow import fs

import lsmlake
from lsmlake.iceberg import published

ON = {"bucket": "1", "metadata.iceberg": "true", "snapshot.expire.on-commit": "false"}


@pytest.fixture(scope="module")
def server(s3: Server) -> Server:
    return s3


@pytest.fixture(scope="module")
def files(server: Server) -> fs.S3FileSystem:
    """A client that shares nothing with the library."""
    address, options = urllib.parse.urlparse(server.endpoint), server.options
    keys = {"access_key": options["access_key_id"], "secret_key": options["secret_access_key"], "region": options["region"]}
    return fs.S3FileSystem(endpoint_override=address.netloc, scheme=address.scheme, **keys)


def connected(server: Server, warehouse: str):
    return lsmlake.connect(warehouse, storage_options=server.options)


@pytest.fixture
def warehouse(server) -> str:
    address = server.warehouse()
    connected(server, address).create_database("d")
    return address


def made(server: Server, warehouse: str, **options: str):
    columns = "id BIGINT, v BIGINT"
    return connected(server, warehouse).create_table("d.t", columns, primary_key=["id"], options=ON | options)


def rows(*ids: int, v: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)})


def sorted_rows(found) -> list[dict]:
    return sorted(found.to_pylist() if isinstance(found, pa.Table) else found, key=repr)


def reader(files: fs.S3FileSystem, metadata_file: str) -> IcebergReader:
    def read(uri: str) -> bytes:
        assert uri.startswith("s3://")
        with files.open_input_file(uri.removeprefix("s3://")) as source:
            return source.read()

    return IcebergReader(json.loads(read(metadata_file)), read)


def newest(table) -> str:
    meta = table.meta.on(None)
    return published.uri_of(meta, meta.paths.iceberg(published.name_of(published.current(meta).number)))


def folder(files: fs.S3FileSystem, warehouse: str) -> dict[str, bytes]:
    """The files of the metadata, by URI."""
    found = files.get_file_info(fs.FileSelector(f"{warehouse.removeprefix('s3://')}/d.db/t/metadata"))
    return {f"s3://{one.path}": files.open_input_file(one.path).read() for one in found}


def test_a_table_in_a_store_is_one_of_iceberg(server, files, warehouse):
    from pyiceberg.table import StaticTable

    table = made(server, warehouse)
    for n in range(1, 5):
        table.upsert(rows(n, n + 1, 9, v=n))
    table.create_tag("old", snapshot=2)
    branch = table.create_branch("b")
    branch.upsert(rows(30, v=3))
    table.delete_keys({"id": [1]}, compact=False)
    found = reader(files, newest(table))
    for of, name in ((table, "main"), (branch, "b")):
        assert sorted_rows(found.rows(found.metadata["refs"][name]["snapshot-id"])) == sorted_rows(of.scan().to_arrow())
    table.compact(full=True)
    branch.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    options = server.options
    properties = {
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        "s3.endpoint": server.endpoint,
        "s3.access-key-id": options["access_key_id"],
        "s3.secret-access-key": options["secret_access_key"],
        "s3.region": options["region"],
    }
    other = StaticTable.from_metadata(newest(table), properties)
    for name, scan in (("main", table.scan()), ("b", branch.scan()), ("old", table.scan(tag="old"))):
        id = other.snapshot_by_name(name).snapshot_id
        assert sorted_rows(other.scan(snapshot_id=id).to_arrow()) == sorted_rows(scan.to_arrow())
    found = reader(files, newest(table))
    assert all(found.read(uri) for uri in found.named())
    assert table.verify() == []
    written = folder(files, warehouse)
    assert not any(SECRET.encode() in data for data in written.values())
    assert not any(server.endpoint.encode() in data for data in written.values()), "an address of the moment"
    assert {uri for uri in written if not uri.endswith(("json", "text"))} == {uri for uri in found.named() if "/metadata/" in uri}


def test_publishers_side_by_side(server, files, warehouse):
    table = made(server, warehouse)
    together, failed = Barrier(3), []

    def run(number: int) -> None:
        own = connected(server, warehouse).table("d.t")
        together.wait()
        try:
            for n in range(3):
                own.upsert(rows(10 * number + n, 99, v=n))
                own.publish_iceberg()
        except Exception as error:
            failed.append(error)

    threads = [Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    found = reader(files, newest(table))
    assert set(found.snapshots) == set(table.snapshots()["snapshot_id"].to_pylist())
    assert sorted_rows(found.rows()) == sorted_rows(table.scan().to_arrow())
    written = {uri for uri in folder(files, warehouse) if not uri.endswith(("json", "text"))}
    assert written == {uri for uri in found.named() if "/metadata/" in uri}, "those who lost a race leave nothing"
    assert table.verify() == []


def test_files_in_a_store_are_deleted_after_the_metadata_that_names_them(server, files, warehouse, monkeypatch):
    table = made(server, warehouse)
    for n in range(4):
        table.upsert(rows(1, 2, v=n))
    table.compact(full=True)
    storage, deleted = type(table.meta.env.storage), []
    delete_all = storage.delete_all

    def watched(self, paths) -> None:
        named = {uri.removeprefix(f"{warehouse}/") for uri in reader(files, newest(table)).named()}
        assert not named.intersection(paths)
        deleted.extend(path for path in paths if path.endswith(".parquet"))
        delete_all(self, paths)

    monkeypatch.setattr(storage, "delete_all", watched)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert deleted


def test_pyiceberg_reads_a_table_of_azure():
    """The addresses of `az://` are known to this library only; its metadata has those that Hadoop and PyIceberg know."""
    pytest.importorskip("adlfs")
    from pyiceberg.table import StaticTable

    with azure_server() as server:
        lake = lsmlake.connect(server.warehouse(), storage_options=server.options)
        lake.create_database("d")
        table = lake.create_table("d.t", "id BIGINT, v BIGINT", primary_key=["id"], options=ON)
        table.upsert(rows(1, 2, 3, v=1))
        table.upsert(rows(2, v=5))
        name, key = server.options["account_name"], server.options["account_key"]
        account = f"DefaultEndpointsProtocol=http;AccountName={name};AccountKey={key};BlobEndpoint={server.endpoint};"
        metadata_file = newest(table)
        assert metadata_file.startswith(f"abfss://bucket@{name}.dfs.core.windows.net/")
        properties = {"adls.connection-string": account, "adls.account-name": name, "adls.account-key": key}
        found = StaticTable.from_metadata(metadata_file, properties | {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"})
        assert sorted_rows(found.scan().to_arrow()) == sorted_rows(table.scan().to_arrow())
