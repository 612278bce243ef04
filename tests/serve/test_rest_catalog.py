"""The Iceberg REST catalog over a lake. PyIceberg's models read each answer; the rows of what it shows are those of the lake."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from effort import scaled
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import client_of

import lsmlake
from lsmlake.beside import begin
from lsmlake.errors import InvalidQuery, StorageFailed
from lsmlake.iceberg import mirror, published
from lsmlake.serve.rest_catalog import catalog_pages, publications
from lsmlake.serve.rest_catalog.catalog_routes import ENDPOINTS
from lsmlake.storage.local import LocalStorage
from lsmlake.storage.object_client import settings_of_s3

pytest.importorskip("pyiceberg.catalog.rest")
from pyiceberg.catalog.rest import (
    ConfigResponse,
    ListNamespaceResponse,
    ListTablesResponse,
    ListViewsResponse,
    NamespaceResponse,
    TableResponse,
    ViewResponse,
)
from pyiceberg.catalog.rest.response import ErrorResponse
from pyiceberg.table import StaticTable

ROOT = "/iceberg/v1"


@pytest.fixture
def lake(tmp_path) -> lsmlake.Lake:
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("sales")
    return lake


@pytest.fixture
def orders(lake) -> lsmlake.Table:
    table = lake.create_table("sales.orders", "id BIGINT NOT NULL, v STRING", primary_key=["id"], options={"bucket": 1})
    written(table, 1, 2)
    return table


def written(table: lsmlake.Table, *ids: int) -> None:
    """Rows in files that every reader reads."""
    table.upsert([{"id": id, "v": f"v{id}"} for id in ids])
    table.compact(full=True)


@pytest.fixture
def client(lake):
    return client_of(lake)


def loaded(client, name: str = "orders", **more) -> dict:
    answer = client.get(f"{ROOT}/namespaces/sales/tables/{name}", **more)
    assert answer.status_code == 200, answer.text
    TableResponse.model_validate_json(answer.text)
    return answer.json()


def rows_of(answer: dict) -> list[dict]:
    """What a reader of the metadata finds."""
    return StaticTable.from_metadata(answer["metadata-location"]).scan().to_arrow().sort_by("id").to_pylist()


def lists_of(table: lsmlake.Table) -> list[Path]:
    """The manifest lists in the folder of a table."""
    return list(Path(table.meta.env.storage.root, table.meta.paths.root, "metadata").glob("snap-*.avro"))


def refused(answer, code: int, kind: str) -> str:
    assert answer.status_code == code, answer.text
    error = ErrorResponse.model_validate_json(answer.text).error
    assert (error.code, error.type) == (code, kind)
    return error.message


# -- configuration ----------------------------------------------------------------------------------------------------


def test_the_configuration_names_what_the_server_does(lake, tmp_path):
    """Clients ask for nothing else."""
    reading = ConfigResponse.model_validate_json(client_of(lake).get(f"{ROOT}/config").text)
    writing = ConfigResponse.model_validate_json(client_of(lake, writes=True).get(f"{ROOT}/config").text)
    shown = {f"{one.http_method.value} {one.path}" for one in writing.endpoints}
    assert shown == {f"{one.method} {one.path}" for one in ENDPOINTS}
    assert {one.http_method.value for one in reading.endpoints} == {"GET", "HEAD"}


def test_a_client_may_name_the_warehouse(client, tmp_path):
    for name in ("lake", str(tmp_path / "lake"), f"file://{tmp_path}/lake", f"{tmp_path}/lake/", ""):
        assert client.get(f"{ROOT}/config", params={"warehouse": name}).status_code == 200, name
    found = refused(client.get(f"{ROOT}/config", params={"warehouse": "other"}), 404, "NoSuchWarehouseException")
    assert f"this one is lake, or file://{tmp_path}/lake" in found
    refused(client.get(f"{ROOT}/config?warehouse=lake&warehouse=lake"), 400, "BadRequestException")


# -- namespaces and lists ---------------------------------------------------------------------------------------------


def test_namespaces_are_databases(lake, client):
    lake.sql("CREATE DATABASE shop COMMENT 'all orders' WITH DBPROPERTIES ('owner' = 'ann')")
    assert ListNamespaceResponse.model_validate_json(client.get(f"{ROOT}/namespaces").text).namespaces == [("sales",), ("shop",)]
    assert client.get(f"{ROOT}/namespaces", params={"parent": "shop"}).json()["namespaces"] == []
    shop = NamespaceResponse.model_validate_json(client.get(f"{ROOT}/namespaces/shop").text)
    assert shop.properties == {"owner": "ann", "comment": "all orders", "location": f"file://{lake.env.storage.root}/shop.db"}
    assert client.head(f"{ROOT}/namespaces/shop").status_code == 204
    assert client.head(f"{ROOT}/namespaces/none").status_code == 404


@pytest.mark.parametrize("path", ["{}", "{}/tables", "{}/views"])
@pytest.mark.parametrize("namespace", ["none", "sales%1Fa", "..", "sa.les", "%20"])
def test_a_namespace_that_does_not_exist_is_named(client, path: str, namespace: str):
    if namespace != "..":  # which the client itself removes
        refused(client.get(f"{ROOT}/namespaces/{path.format(namespace)}"), 404, "NoSuchNamespaceException")
    refused(client.get(f"{ROOT}/namespaces", params={"parent": "none"}), 404, "NoSuchNamespaceException")


@settings(max_examples=scaled(60), deadline=None)
@given(st.sets(st.integers(0, 40), max_size=12), st.integers(1, 15), st.booleans())
def test_pages_have_every_table_once(numbers: set[int], size: int, gone: bool):
    """Whether or not there are folders without a table between the tables."""
    lake = lsmlake.connect(f"memory://{os.urandom(8).hex()}")
    lake.create_database("sales")
    names = sorted(f"t{number}" for number in numbers)
    for name in names:
        lake.create_table(f"sales.{name}", "id BIGINT NOT NULL", primary_key=["id"])
        if gone:
            lake.env.storage.put_if_absent(f"sales.db/{name}x/left.txt", b"left by a dropped table")
    client, token, found = client_of(lake), "", []
    while token is not None:
        page = client.get(f"{ROOT}/namespaces/sales/tables", params={"pageToken": token, "pageSize": str(size)}).json()
        ListTablesResponse.model_validate(page)
        found.append([one["name"] for one in page["identifiers"]])
        token = page["next-page-token"]
    assert [name for page in found for name in page] == names
    assert all(len(page) == size for page in found[:-1]) and (len(found[-1]) or not names)
    whole = client.get(f"{ROOT}/namespaces/sales/tables", params={"pageSize": str(size)}).json()
    assert [one["name"] for one in whole["identifiers"]] == names and whole["next-page-token"] is None


def test_a_page_asks_only_for_its_tables(lake, client, monkeypatch):
    """One request per table would be ten thousand requests to a store, for a page of ten."""
    for number in range(20):
        lake.create_table(f"sales.t{number:02}", "id BIGINT NOT NULL", primary_key=["id"])
    asked, size = [], LocalStorage.size
    monkeypatch.setattr(LocalStorage, "size", lambda self, path: asked.append(path) or size(self, path))
    page = client.get(f"{ROOT}/namespaces/sales/tables", params={"pageToken": "t04", "pageSize": "3"}).json()
    assert ([one["name"] for one in page["identifiers"]], page["next-page-token"]) == (["t05", "t06", "t07"], "t07")
    assert len([path for path in asked if path.endswith("schema-0")]) == 4


@pytest.mark.parametrize("size", ["0", "-1", "x", "1.5", "9" * 30])
def test_a_size_of_pages_is_a_number(client, size: str):
    refused(client.get(f"{ROOT}/namespaces", params={"pageToken": "", "pageSize": size}), 400, "BadRequestException")


def test_without_a_size_a_page_has_its_own(lake, client, monkeypatch):
    monkeypatch.setattr(catalog_pages, "PAGE", 2)
    for name in ("a", "b", "c"):
        lake.create_database(name)
    assert client.get(f"{ROOT}/namespaces", params={"pageToken": ""}).json()["next-page-token"] == "b"
    assert client.get(f"{ROOT}/namespaces", params={"pageToken": "b"}).json()["namespaces"] == [["c"], ["sales"]]


# -- tables -----------------------------------------------------------------------------------------------------------


def test_a_table_that_was_never_published_is_published_when_it_is_loaded(client, orders):
    assert not published.is_published(orders.meta)
    answer = loaded(client)
    assert answer["metadata"]["current-snapshot-id"] == orders.version.number
    assert rows_of(answer) == orders.to_arrow().sort_by("id").to_pylist()
    assert Path(answer["metadata-location"].removeprefix("file://")).is_file()


def test_each_load_shows_the_newest_snapshot_and_publishes_only_what_is_new(client, orders, monkeypatch):
    first = loaded(client)
    assert loaded(client)["metadata-location"] == first["metadata-location"]
    written(orders, 3)
    second = loaded(client)
    assert rows_of(second) == orders.to_arrow().sort_by("id").to_pylist() and len(rows_of(second)) == 3
    orders.create_tag("eod")
    assert loaded(client)["metadata"]["refs"]["eod"]["snapshot-id"] == orders.version.number
    orders.alter(lsmlake.add_column("note", "STRING"))
    schema = loaded(client)["metadata"]
    assert [one["name"] for one in schema["schemas"][-1]["fields"]] == ["id", "v", "note"]
    assert schema["current-schema-id"] == orders.version.schema.id
    assert not orders.verify()


def test_a_table_whose_commits_publish_it_is_not_published_again(client, lake, monkeypatch):
    table = lake.create_table(
        "sales.own", "id BIGINT NOT NULL, v STRING", primary_key=["id"], options={"metadata.iceberg": "true"}
    )
    written(table, 1)
    table.create_tag("first")
    branch = table.create_branch("dev")
    branch.create_tag("base")
    written(branch, 2)
    branch.create_tag("later")
    written(table, 3)
    monkeypatch.setattr(mirror, "publish", None)
    answer = loaded(client, "own")
    assert rows_of(answer) == table.to_arrow().to_pylist()
    assert {*answer["metadata"]["refs"]} == {"main", "first", "dev", "dev/base", "dev/later"}


def test_a_branch_that_iceberg_cannot_express_costs_one_publication(client, lake, monkeypatch):
    options = {"metadata.iceberg": "true", "bucket": 1}
    table = lake.create_table("sales.own", "id BIGINT NOT NULL, v STRING", primary_key=["id"], options=options)
    written(table, 1)
    branch = table.create_branch("dev")
    for one in (table, branch):
        one.alter(lsmlake.add_column("w", "INT"))
    assert {*loaded(client, "own")["metadata"]["refs"]} == {"main"}
    monkeypatch.setattr(mirror, "publish", None)
    assert {*loaded(client, "own")["metadata"]["refs"]} == {"main"}


def test_tags_and_branches_that_a_writer_failed_to_publish_are_shown(client, lake, monkeypatch):
    monkeypatch.setattr(publications, "_LOOK_EVERY_MS", 0)
    options = {"metadata.iceberg": "true", "bucket": 1}
    table = lake.create_table("sales.own", "id BIGINT NOT NULL, v STRING", primary_key=["id"], options=options)
    written(table, 1)
    table.create_tag("moved")
    branch = table.create_branch("dev")
    with monkeypatch.context() as broken:
        broken.setattr(published, "newest", lambda meta: 1 / 0)
        written(table, 2)
        written(branch, 3)
    written(table, 4)
    with monkeypatch.context() as broken:
        broken.setattr(published, "newest", lambda meta: 1 / 0)
        table.create_tag("moved", replace=True)
        written(branch, 5)
    refs = loaded(client, "own")["metadata"]["refs"]
    assert refs["moved"]["snapshot-id"] == table.version.number
    found = StaticTable.from_metadata(loaded(client, "own")["metadata-location"])
    there = found.scan(snapshot_id=refs["dev"]["snapshot-id"]).to_arrow()
    assert sorted(there["id"].to_pylist()) == [1, 3, 5]


def test_a_server_that_cannot_publish_shows_what_the_writers_published(client, lake, monkeypatch):
    columns = "id BIGINT NOT NULL, v STRING"
    table = lake.create_table("sales.own", columns, primary_key=["id"], options={"metadata.iceberg": "true"})
    written(table, 1)
    with monkeypatch.context() as broken:
        broken.setattr(published, "newest", lambda meta: 1 / 0)
        table.create_tag("late")

    def refused(meta):
        raise StorageFailed("no permission to write", where=meta.paths.root)

    monkeypatch.setattr(mirror, "publish", refused)
    assert {*loaded(client, "own")["metadata"]["refs"]} == {"main"}


def test_a_table_without_rows_can_be_loaded(client, lake):
    lake.create_table("sales.empty", "id BIGINT NOT NULL", primary_key=["id"])
    assert "current-snapshot-id" not in loaded(client, "empty")["metadata"]


def test_a_table_that_was_dropped_and_made_again_is_the_new_one(client, lake, orders):
    first = loaded(client)["metadata"]["table-uuid"]
    lake.drop_table("sales.orders")
    refused(client.get(f"{ROOT}/namespaces/sales/tables/orders"), 404, "NoSuchTableException")
    again = lake.create_table("sales.orders", "id BIGINT NOT NULL, w INT", primary_key=["id"])
    again.upsert([{"id": 9, "w": 1}])
    again.compact(full=True)
    second = loaded(client)
    assert second["metadata"]["table-uuid"] != first and rows_of(second) == [{"id": 9, "w": 1}]


def test_an_unchanged_table_is_not_sent_again(client, orders):
    path = f"{ROOT}/namespaces/sales/tables/orders"
    tag = client.get(path).headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        same = client.get(path, headers={"if-none-match": known})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200
    assert client.get(path, params={"snapshots": "refs"}, headers={"if-none-match": tag}).status_code == 200
    written(orders, 3)
    assert client.get(path, headers={"if-none-match": tag}).status_code == 200


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/config?prefix=x", "prefix"),
        ("/namespaces?pagesize=1", "pagesize"),
        ("/namespaces/sales?pageSize=1", "pageSize"),
        ("/namespaces/sales/tables?limit=1", "limit"),
        ("/namespaces/sales/tables/orders?snapshot=1", "snapshot"),
        ("/namespaces/sales/tables/orders?snapshots=all&snapshots=refs", "snapshots"),
        ("/namespaces/sales/views?parent=x", "parent"),
    ],
)
def test_a_parameter_that_is_not_obeyed_is_refused(client, orders, path: str, name: str):
    assert name in refused(client.get(ROOT + path), 400, "BadRequestException")


def test_metadata_that_was_made_anew_under_its_old_name_is_sent_again(client, orders):
    before = client.get(f"{ROOT}/namespaces/sales/tables/orders")
    folder = Path(before.json()["metadata"]["location"].removeprefix("file://")) / "metadata"
    for file in folder.iterdir():
        file.unlink()
    orders.create_tag("new")
    after = client.get(f"{ROOT}/namespaces/sales/tables/orders", headers={"if-none-match": before.headers["etag"]})
    assert after.status_code == 200 and after.json()["metadata-location"] == before.json()["metadata-location"]
    assert "new" in after.json()["metadata"]["refs"]


def test_new_keys_of_the_store_are_sent_although_the_table_is_unchanged(lake, orders, monkeypatch):
    keys = {"access_key_id": "a", "secret_access_key": "s", "session_token": "old"}
    monkeypatch.setattr(LocalStorage, "reader_settings", lambda self: keys, raising=False)
    client, path = client_of(lake, passes_credentials=True), f"{ROOT}/namespaces/sales/tables/orders"
    vended = {"x-iceberg-access-delegation": "vended-credentials"}
    tag = client.get(path, headers=vended).headers["etag"]
    assert client.get(path, headers={**vended, "if-none-match": tag}).status_code == 304
    keys["session_token"] = "new"
    answer = client.get(path, headers={**vended, "if-none-match": tag})
    assert answer.status_code == 200 and answer.json()["config"]["s3.session-token"] == "new"


def test_snapshots_that_no_reference_names_are_left_out_on_request(client, orders):
    written(orders, 3)
    orders.create_tag("first", snapshot=1)
    every, few = loaded(client), loaded(client, params={"snapshots": "refs"})
    assert loaded(client, params={"snapshots": "all"}) == every
    ids = [one["snapshot-id"] for one in few["metadata"]["snapshots"]]
    assert ids == [1, orders.version.number] and len(every["metadata"]["snapshots"]) > 2
    refused(client.get(f"{ROOT}/namespaces/sales/tables/orders", params={"snapshots": "some"}), 400, "BadRequestException")


@pytest.mark.parametrize(
    "path", ["sales/tables/none", "none/tables/orders", "sales%1Forders/tables/snapshots", "sales/tables/a%20b"]
)
def test_a_table_that_does_not_exist_is_named(client, orders, path: str):
    """Spark asks for the namespace `sales.orders` when a query reads `sales.orders.snapshots`."""
    refused(client.get(f"{ROOT}/namespaces/{path}"), 404, "NoSuchTableException")
    assert client.head(f"{ROOT}/namespaces/{path}").status_code == 404
    assert client.head(f"{ROOT}/namespaces/sales/tables/orders").status_code == 204


def test_a_table_that_iceberg_cannot_express_is_refused_with_the_reason(client, lake):
    lake.create_table("sales.old", "id BIGINT NOT NULL", primary_key=["id"], options={"deletion-vectors.enabled": "false"})
    about = refused(client.get(f"{ROOT}/namespaces/sales/tables/old"), 400, "BadRequestException")
    assert "deletion" in about
    assert client.head(f"{ROOT}/namespaces/sales/tables/old").status_code == 204


def test_a_store_without_permission_to_write_says_so(client, orders, monkeypatch):
    """A published table is still shown, as long as nothing is new."""
    before = loaded(client)

    def no_writes(*_):
        raise lsmlake.errors.StorageFailed(
            "the store refused a call", where="metadata", found="Permission denied", cure="allow it"
        )

    monkeypatch.setattr(LocalStorage, "put_if_absent", no_writes)
    assert loaded(client) == before
    monkeypatch.undo()
    written(orders, 7)
    monkeypatch.setattr(LocalStorage, "put_if_absent", no_writes)
    about = refused(client.get(f"{ROOT}/namespaces/sales/tables/orders"), 503, "ServiceUnavailableException")
    assert "Permission denied" in about and "set metadata.iceberg = true, so that writers publish" in about


def test_readers_beside_a_writer_and_expiry_find_every_table_whole(client, orders):
    """Each load shows rows that were the newest at some time during the load."""
    orders.alter(lsmlake.set_option("snapshot.num-retained.max", "2"), lsmlake.set_option("snapshot.num-retained.min", "1"))
    loaded(client)
    counts: list[int] = []

    def write() -> None:
        for number in range(3, 15):
            written(orders, number)
            orders.expire_snapshots(retain_max=2, retain_min=1)

    writer = begin(write)
    while not writer.ended.wait(0):
        low = orders.version.number
        answer = loaded(client)
        high = orders.version.number
        assert low <= answer["metadata"]["current-snapshot-id"] <= high
        counts.append(answer["metadata"]["current-snapshot-id"])
    writer.result()
    assert counts == sorted(counts)
    assert rows_of(loaded(client)) == orders.to_arrow().sort_by("id").to_pylist()
    assert len(lists_of(orders)) <= 4, "what expiry has removed leaves the metadata, too"
    assert not orders.verify()


def test_many_readers_wait_for_one_publication(client, orders, monkeypatch):
    begun, publish = [], mirror.publish
    together = threading.Barrier(8)

    def slowly(*args, **kwargs):
        begun.append(threading.get_ident())
        return publish(*args, **kwargs)

    monkeypatch.setattr(mirror, "publish", slowly)
    found = []

    def load() -> None:
        together.wait()
        found.append(loaded(client)["metadata-location"])

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1
    assert len(lists_of(orders)) == orders.version.number, "none was written twice"


# -- views ------------------------------------------------------------------------------------------------------------


def test_views_are_shown_with_their_query_and_columns(client, lake, orders):
    lake.sql("CREATE VIEW sales.big (n COMMENT 'number', w) COMMENT 'some' AS SELECT id, upper(v) FROM sales.orders WHERE id > 1")
    assert ListViewsResponse.model_validate_json(client.get(f"{ROOT}/namespaces/sales/views").text).identifiers[0].name == "big"
    answer = client.get(f"{ROOT}/namespaces/sales/views/big")
    view = ViewResponse.model_validate_json(answer.text).metadata
    (version,) = view.versions
    assert version.representations[0].root.sql == "SELECT id, upper(v) FROM sales.orders WHERE id > 1"
    assert (version.representations[0].root.dialect, list(version.default_namespace)) == ("spark", ["sales"])
    assert answer.json()["metadata"]["schemas"][0]["fields"] == [
        {"id": 1, "name": "n", "required": False, "type": "long", "doc": "number"},
        {"id": 2, "name": "w", "required": False, "type": "string"},
    ] or [one["name"] for one in answer.json()["metadata"]["schemas"][0]["fields"]] == ["n", "w"]
    assert view.properties == {"comment": "some"}
    assert client.head(f"{ROOT}/namespaces/sales/views/big").status_code == 204
    assert client.head(f"{ROOT}/namespaces/sales/views/orders").status_code == 404
    refused(client.get(f"{ROOT}/namespaces/sales/views/none"), 404, "NoSuchViewException")
    first = view.view_uuid
    lake.sql("CREATE OR REPLACE VIEW sales.big AS SELECT id FROM sales.orders")
    assert client.get(f"{ROOT}/namespaces/sales/views/big").json()["metadata"]["view-uuid"] != str(first)


def test_a_view_with_a_type_that_iceberg_lacks_is_refused(client, lake, orders):
    lake.sql("CREATE VIEW sales.span AS SELECT INTERVAL '1' DAY AS d")
    assert "interval" in refused(client.get(f"{ROOT}/namespaces/sales/views/span"), 406, "UnsupportedOperationException").lower()


# -- changes ----------------------------------------------------------------------------------------------------------

CHANGES = [
    ("POST", "/namespaces", {"namespace": ["neu"]}),
    ("DELETE", "/namespaces/sales", None),
    ("POST", "/namespaces/sales/properties", {"updates": {"a": "b"}}),
    ("POST", "/namespaces/sales/tables", {"name": "t", "schema": {"type": "struct", "fields": []}}),
    ("POST", "/namespaces/sales/tables/orders", {"requirements": [], "updates": []}),
    ("DELETE", "/namespaces/sales/tables/orders?purgeRequested=true", None),
    ("POST", "/tables/rename", {"source": {}, "destination": {}}),
    ("POST", "/transactions/commit", {"table-changes": []}),
    ("POST", "/namespaces/sales/register", {"name": "t", "metadata-location": "file:///etc/passwd"}),
    ("POST", "/namespaces/sales/views", {"name": "v"}),
    ("DELETE", "/namespaces/sales/views/v", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_a_read_only_server_changes_nothing(client, lake, orders, method: str, path: str, body: object):
    about = refused(client.request(method, ROOT + path, json=body), 403, "ForbiddenException")
    assert "start it with --write" in about
    assert (lake.databases(), lake.tables()) == (["sales"], ["sales.orders"])


@pytest.mark.parametrize("number", [2, 3, 7, 8, 9])
def test_what_only_lsmlake_writes_is_refused_by_every_server(lake, orders, number: int):
    method, path, body = CHANGES[number]
    client = client_of(lake, writes=True)
    about = refused(client.request(method, ROOT + path, json=body), 406, "UnsupportedOperationException")
    assert "lsmlake writes its tables itself" in about


def test_databases_are_created_and_dropped(lake, orders):
    client = client_of(lake, writes=True)
    body = {"namespace": ["neu"], "properties": {"comment": "new", "owner": "ann"}}
    made = NamespaceResponse.model_validate_json(client.post(f"{ROOT}/namespaces", json=body).text)
    assert made.properties["comment"] == "new" and made.properties["owner"] == "ann"
    refused(client.post(f"{ROOT}/namespaces", json=body), 409, "AlreadyExistsException")
    refused(client.delete(f"{ROOT}/namespaces/sales"), 409, "NamespaceNotEmptyException")
    assert client.delete(f"{ROOT}/namespaces/neu").status_code == 204
    refused(client.delete(f"{ROOT}/namespaces/neu"), 404, "NoSuchNamespaceException")
    assert lake.databases() == ["sales"]


@pytest.mark.parametrize(
    "body",
    [
        {"namespace": ["a", "b"]},
        {"namespace": []},
        {"namespace": ["a b"]},
        {"namespace": "a"},
        {"namespace": [1]},
        {"namespace": ["a"], "properties": {"location": "s3://elsewhere"}},
        {"namespace": ["a"], "properties": {"n": 1}},
        {"namespace": ["a"], "unknown": "x"},
        {"properties": {}},
        [],
    ],
)
def test_a_database_that_cannot_be_made_is_refused(lake, body):
    refused(client_of(lake, writes=True).post(f"{ROOT}/namespaces", json=body), 400, "BadRequestException")
    assert lake.databases() == ["sales"]


def test_a_table_is_dropped_only_with_its_files(lake, orders):
    client, path = client_of(lake, writes=True), f"{ROOT}/namespaces/sales/tables/orders"
    for query in ("", "?purgeRequested=false", "?purgeRequested=False"):
        assert "drop it with purge" in refused(client.delete(path + query), 406, "UnsupportedOperationException")
    refused(client.delete(f"{path}?purgeRequested=yes"), 400, "BadRequestException")
    assert client.delete(f"{path}?purgeRequested=True").status_code == 204, "as PyIceberg writes it"
    refused(client.delete(f"{path}?purgeRequested=true"), 404, "NoSuchTableException")
    assert lake.tables() == []


def test_a_table_is_renamed(lake, orders):
    client = client_of(lake, writes=True)

    def rename(source: list[str], destination: list[str]):
        places = [{"namespace": place[:-1], "name": place[-1]} for place in (source, destination)]
        return client.post(f"{ROOT}/tables/rename", json={"source": places[0], "destination": places[1]})

    assert rename(["sales", "orders"], ["sales", "moved"]).status_code == 204
    assert lake.tables() == ["sales.moved"]
    refused(rename(["sales", "orders"], ["sales", "x"]), 404, "NoSuchTableException")
    refused(rename(["sales", "moved"], ["none", "x"]), 404, "NoSuchNamespaceException")
    refused(rename(["sales", "moved"], ["sales", "a b"]), 400, "BadRequestException")
    body = {
        "source": {"namespace": ["sales"], "name": "moved", "ref": "dev"},
        "destination": {"namespace": ["sales"], "name": "x"},
    }
    assert "ref" in refused(client.post(f"{ROOT}/tables/rename", json=body), 400, "BadRequestException")
    lake.create_table("sales.other", "id BIGINT NOT NULL", primary_key=["id"])
    refused(rename(["sales", "moved"], ["sales", "other"]), 409, "AlreadyExistsException")
    assert rows_of(loaded(client, "moved")) == [{"id": 1, "v": "v1"}, {"id": 2, "v": "v2"}]


def test_a_view_is_dropped(lake, orders):
    lake.sql("CREATE VIEW sales.big AS SELECT id FROM sales.orders")
    client = client_of(lake, writes=True)
    assert client.delete(f"{ROOT}/namespaces/sales/views/big").status_code == 204
    refused(client.delete(f"{ROOT}/namespaces/sales/views/big"), 404, "NoSuchViewException")


# -- the files of an object store -------------------------------------------------------------------------------------


def test_credentials_that_do_not_exist_cannot_be_passed_on(lake):
    with pytest.raises(InvalidQuery, match="there are no credentials to pass on"):
        client_of(lake, passes_credentials=True)


def test_readers_of_an_object_store_get_its_address_and_on_request_its_keys(s3):
    lake = lsmlake.connect(s3.warehouse(), storage_options=s3.options)
    lake.create_database("sales")
    written(lake.create_table("sales.orders", "id BIGINT NOT NULL, v STRING", primary_key=["id"], options={"bucket": 1}), 1)
    place = {"s3.endpoint": s3.endpoint, "s3.region": "us-east-1", "client.region": "us-east-1", "s3.path-style-access": "true"}
    vended = {"x-iceberg-access-delegation": "vended-credentials,remote-signing"}
    assert loaded(client_of(lake), headers=vended)["config"] == place
    passing = client_of(lake, passes_credentials=True)
    assert loaded(passing)["config"] == place
    answer = loaded(passing, headers=vended)
    keys = {"s3.access-key-id": "key", "s3.secret-access-key": s3.options["secret_access_key"]}
    assert answer["config"] == {**place, **keys}
    assert answer["storage-credentials"] == [{"prefix": answer["metadata"]["location"], "config": keys}]
    found = StaticTable.from_metadata(answer["metadata-location"], properties=answer["config"]).scan().to_arrow()
    assert found.to_pylist() == [{"id": 1, "v": "v1"}]


def test_keys_come_from_one_place(monkeypatch):
    """A token of the environment does not belong to the keys of the options."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "env",
        "AWS_SECRET_ACCESS_KEY": "es",
        "AWS_SESSION_TOKEN": "et",
        "AWS_REGION": "r",
    }.items():
        monkeypatch.setenv(name, value)
    assert settings_of_s3({}) == {"access_key_id": "env", "secret_access_key": "es", "session_token": "et", "region": "r"}
    given_keys = {"aws_access_key_id": "own", "secret_access_key": "os", "timeout": "3 s"}
    assert settings_of_s3(given_keys) == {"access_key_id": "own", "secret_access_key": "os", "region": "r"}
