"""Appends of other engines through the catalog: each row once, whatever fails and whoever else writes; and what is refused.

The manifests are written by PyIceberg, which cannot commit to tables of format version 3 itself.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import one_in
from faults import every_fault
from serving import client_of
from starlette.requests import Request

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.iceberg import avro
from lsmlake.serve.rest_catalog import fast_append
from lsmlake.serve.rest_catalog.catalog_errors import Refused
from lsmlake.serve.rest_catalog.catalog_request import CatalogRequest
from lsmlake.serve.rest_catalog.fast_append import commit_table
from lsmlake.serve.rest_catalog.publications import Publications
from lsmlake.serve.serve_settings import ServeSettings
from lsmlake.storage.env import Env
from lsmlake.storage.local import LocalStorage
from lsmlake.storage.storage import Storage

pytest.importorskip("pyiceberg.manifest")
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.typedef import Record

PATH = "/iceberg/v1/namespaces/sales/tables/events"
NAMES = count()
FIRST_ID = 7_000_000_000


class Engine:
    """A program that appends through the catalog. `metadata`: of the table, as it last saw it. `id`: of its snapshot."""

    def __init__(self, metadata: dict, id: int = FIRST_ID) -> None:
        self.metadata, self.id, self.io = metadata, id, PyArrowFileIO()
        self.folder = Path(metadata["location"].removeprefix("file://"))
        self.files: list[str] = []

    def write(self, rows: pa.Table, name: str | None = None) -> Engine:
        """Writes a data file."""
        path = self.folder / "data" / (name or f"00000-{next(NAMES)}.parquet")
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows, path)
        self.files.append(f"file:{path}")
        return self

    def body(self, *, rows: int | None = None, operation: str = "append", status=ManifestEntryStatus.ADDED, **changed) -> dict:
        """The commit, with new manifests. `rows`: how many each file claims to have. `changed`: other values of the snapshot."""
        parsed, parent = TableMetadataUtil.parse_obj(self.metadata), self.metadata.get("current-snapshot-id")
        place = self.folder / "metadata"
        manifest, listed = (f"file://{place}/{name}{next(NAMES)}.avro" for name in ("engine-m", "snap-engine-"))
        deflate, sequence = "deflate", None if status == ManifestEntryStatus.ADDED else 1
        with write_manifest(
            2, UNPARTITIONED_PARTITION_SPEC, parsed.schema(), self.io.new_output(manifest), self.id, deflate
        ) as sink:
            for uri in self.files:
                found = Path(uri.removeprefix("file:"))
                size = found.stat().st_size if found.is_file() else 1
                file = DataFile.from_args(
                    content=DataFileContent.DATA,
                    file_path=uri,
                    file_format=FileFormat.PARQUET,
                    partition=Record(),
                    record_count=rows if rows is not None else pq.read_metadata(found).num_rows,
                    file_size_in_bytes=size,
                )
                entry = ManifestEntry.from_args(status=status, snapshot_id=self.id, sequence_number=sequence, data_file=file)
                sink.add_entry(entry)
            written = sink.to_manifest_file()
        sequence = self.metadata["last-sequence-number"] + 1
        with write_manifest_list(2, self.io.new_output(listed), self.id, parent, sequence, deflate) as sink:
            sink.add_manifests([written])
        snapshot = {
            "snapshot-id": self.id,
            **({} if parent is None else {"parent-snapshot-id": parent}),
            "sequence-number": sequence,
            "timestamp-ms": 1,
            "manifest-list": listed,
            "summary": {"operation": operation},
            "schema-id": self.metadata["current-schema-id"],
            **changed,
        }
        ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": self.id}
        return {
            "requirements": [
                {"type": "assert-table-uuid", "uuid": self.metadata["table-uuid"]},
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent},
                {"type": "assert-current-schema-id", "current-schema-id": self.metadata["current-schema-id"]},
            ],
            "updates": [{"action": "add-snapshot", "snapshot": snapshot}, ref],
        }


def numbered(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": [f"v{id}" for id in ids]})


def events_in(folder: Path) -> lsmlake.Table:
    lake = lsmlake.connect(folder)
    lake.create_database("sales")
    return lake.create_table("sales.events", "id BIGINT, v STRING", options={"bucket": 1, "bucket-key": "id"})


@pytest.fixture
def events(tmp_path) -> lsmlake.Table:
    return events_in(tmp_path / "lake")


@pytest.fixture
def client(events, tmp_path):
    return client_of(lsmlake.connect(tmp_path / "lake"), writes=True)


def metadata(client) -> dict:
    return client.get(PATH).json()["metadata"]


def ids(table: lsmlake.Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def committed(client, body: dict) -> dict:
    answer = client.post(PATH, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_rows_are_appended_once_however_often_the_commit_is_sent(client, events):
    """The engine did not get the answer, and meanwhile others have committed."""
    first = Engine(metadata(client)).write(numbered(1, 2)).write(numbered(3))
    body = first.body()
    answer = committed(client, body)
    assert answer["metadata"]["current-snapshot-id"] == 1 and ids(events) == [1, 2, 3]
    assert committed(client, body) == answer
    events.append(numbered(4))
    assert committed(client, body)["metadata"]["current-snapshot-id"] == 2
    second = Engine(metadata(client), FIRST_ID + 1).write(numbered(3, 5))
    committed(client, second.body())
    assert ids(events) == [1, 2, 3, 3, 4, 5]
    assert not list((first.folder / "data").iterdir()), "rows are in files of the table now"
    assert not events.verify()
    assert not [path for path in (first.folder / "metadata").iterdir() if "engine" in path.name and path.suffix == ".avro"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("uuid", "00000000-0000-0000-0000-000000000000"), ("snapshot-id", 12), ("current-schema-id", 3)],
)
def test_a_commit_whose_requirements_are_not_met_is_refused(client, events, field: str, value: object):
    body = Engine(metadata(client)).write(numbered(1)).body()
    for one in body["requirements"]:
        if field in one:
            one[field] = value
    answer = client.post(PATH, json=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (409, "CommitFailedException")
    assert ids(events) == []


def test_files_that_were_written_under_other_columns_are_refused(client, events):
    """Rows are read by the names of columns, and the alteration has made no snapshot of other rows."""
    body = Engine(metadata(client)).write(numbered(1)).body()
    body["requirements"] = []
    events.alter(lsmlake.rename_column("v", "w"), lsmlake.add_column("v", "STRING"))
    body["updates"][0]["snapshot"]["parent-snapshot-id"] = metadata(client).get("current-snapshot-id")
    answer = client.post(PATH, json=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (409, "CommitFailedException")
    assert "the schema" in answer.text and ids(events) == []


def test_files_with_other_ids_of_columns_are_refused_whatever_schema_the_snapshot_names(client, events):
    """A client that commits again may name the newest schema, but has written its files under the old one."""
    number = next(field["id"] for field in metadata(client)["schemas"][-1]["fields"] if field["name"] == "v")
    rows = numbered(1)
    place = rows.schema.get_field_index("v")
    written = rows.schema.set(place, rows.schema.field(place).with_metadata({"PARQUET:field_id": str(number)}))
    events.alter(lsmlake.rename_column("v", "w"), lsmlake.add_column("v", "STRING"))
    answer = client.post(PATH, json=Engine(metadata(client)).write(rows.cast(written)).body())
    assert (answer.status_code, answer.json()["error"]["type"]) == (409, "CommitFailedException")
    assert "column v" in answer.text and ids(events) == []


@pytest.mark.parametrize(
    ("change", "code", "why"),
    [
        (lambda body: body.update(identifier={"namespace": ["sales"], "name": "others"}), 400, "others"),
        (lambda body: body.update(identifier={"name": "events"}), 400, "a namespace is a list of texts"),
        (lambda body: body["updates"][1].update({"min-snapshots-to-keep": 3}), 406, "min-snapshots-to-keep"),
        (lambda body: body["updates"].pop(), 406, "the snapshot is staged"),
        (lambda body: body["updates"][0]["snapshot"]["summary"].update({"cost": 3}), 400, "'cost'"),
        (lambda body: body["updates"][0]["snapshot"]["summary"].update({"lsmlake.commit": "x"}), 400, "'lsmlake.commit'"),
    ],
)
def test_what_a_commit_says_of_another_table_or_of_retention_is_refused(client, events, change, code: int, why: str):
    body = Engine(metadata(client)).write(numbered(1)).body()
    change(body)
    answer = client.post(PATH, json=body)
    assert answer.status_code == code and why in answer.json()["error"]["message"] and ids(events) == []


def test_the_summary_keeps_what_the_user_of_the_engine_has_said(client, events):
    engine = Engine(metadata(client)).write(numbered(1))
    body = engine.body(
        summary={"operation": "append", "job": "nightly", "added-by": "me", "added-records": "9", "engine-name": "spark"}
    )
    (snapshot,) = committed(client, body)["metadata"]["snapshots"]
    assert {"job": "nightly", "added-by": "me", "added-records": "1", "engine-name": "lsmlake"}.items() <= snapshot[
        "summary"
    ].items()
    assert not events.verify()


def test_a_commit_may_name_its_table(client, events):
    body = Engine(metadata(client)).write(numbered(1)).body()
    committed(client, {**body, "identifier": {"namespace": ["sales"], "name": "events"}})
    assert ids(events) == [1]


def test_a_commit_that_lost_a_race_can_be_made_again(client, events):
    engine = Engine(metadata(client)).write(numbered(1))
    events.append(numbered(2))
    assert client.post(PATH, json=engine.body()).status_code == 409
    engine.metadata = metadata(client)
    committed(client, engine.body())
    assert ids(events) == [1, 2]


def test_engines_side_by_side_append_all_their_rows_once(client, events):
    def append(number: int) -> None:
        engine = Engine(metadata(client), FIRST_ID + number).write(numbered(number, number + 100))
        while client.post(PATH, json=engine.body()).status_code == 409:
            engine.metadata = metadata(client)

    threads = [threading.Thread(target=append, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids(events) == sorted([*range(5), *range(100, 105)])
    assert not events.verify()


def test_a_commit_that_was_killed_at_any_call_and_sent_again_has_its_rows_once(tmp_path):
    """Killed before or after each effect on the storage; the next server answers the engine."""
    bodies: dict[str, tuple[Engine, dict]] = {}
    worlds = count()

    def world() -> Storage:
        folder = tmp_path / f"world{next(worlds)}" / "lake"
        table = events_in(folder)
        table.append(numbered(0))
        engine = Engine(metadata(client_of(lsmlake.connect(folder), writes=True))).write(numbered(1, 2))
        bodies[str(folder)] = engine, engine.body()
        return LocalStorage(folder)

    def run(storage: Storage) -> object:
        return sent(storage, bodies[root_of(storage)][1])

    tried = 0
    for done in every_fault(run, world, one_in=one_in(1)):
        folder = root_of(done.world)
        engine, body = bodies[folder]
        try:
            sent(LocalStorage(folder), body)
        except Refused as lost:
            assert lost.code == 409, lost
            engine.metadata = metadata(client_of(lsmlake.connect(folder), writes=True))
            sent(LocalStorage(folder), engine.body())
        table = lsmlake.connect(folder).table("sales.events")
        assert ids(table) == [0, 1, 2], f"{done.fault} {done.call}"
        assert not table.verify(), f"{done.fault} {done.call}"
        shutil.rmtree(folder)
        tried += 1
    assert tried > 1


def root_of(storage: Storage) -> str:
    return getattr(storage, "inner", storage).root


def sent(storage: Storage, body: dict) -> object:
    """What the server does with a commit, without HTTP."""
    lake = Lake(Env(storage), Runtime())
    scope = {"type": "http", "method": "POST", "headers": [], "query_string": b"",
             "path_params": {"namespace": "sales", "table": "events"}}  # fmt: skip
    return commit_table(
        CatalogRequest(lake, ServeSettings(writes=True), Publications(lake), Request(scope), json.dumps(body).encode())
    )


# -- what is refused --------------------------------------------------------------------------------------------------


def outside(engine: Engine) -> dict:
    engine.files = ["file:///etc/passwd"]
    return engine.body(rows=1)


def climbing(engine: Engine) -> dict:
    engine.files = [f"file:{engine.folder}/data/../../other/x.parquet"]
    return engine.body(rows=1)


def own_file(engine: Engine) -> dict:
    engine.files = [f"file:{next(engine.folder.glob('bucket-*/data-*.parquet'))}"]
    return engine.body()


def missing(engine: Engine) -> dict:
    engine.files = [f"file:{engine.folder}/data/none.parquet"]
    return engine.body(rows=1)


def no_parquet(engine: Engine) -> dict:
    engine.write(numbered(1))
    Path(engine.files[0].removeprefix("file:")).write_bytes(b"no parquet")
    return engine.body(rows=1)


def own_manifest(engine: Engine) -> dict:
    """A list that names a manifest of the table as the engine's own, which must not be deleted for that."""
    (manifest,) = engine.folder.glob("metadata/manifest-*.avro")
    body = engine.write(numbered(5)).body()
    listed = body["updates"][0]["snapshot"]["manifest-list"]
    path = Path(listed.removeprefix("file://"))
    records, header = avro.read(path.read_bytes(), listed)
    changed = [{**one, "manifest_path": f"file://{manifest}"} for one in records]
    schema = json.loads(header["avro.schema"])
    with path.open("wb") as sink:
        fastavro.writer(sink, schema, changed)
    return body


def test_manifests_of_the_table_stay(client, events):
    events.append(numbered(0))
    body = own_manifest(Engine(metadata(client)))
    answer = client.post(PATH, json=body)
    assert answer.status_code == 400 and "one of the table already" in answer.json()["error"]["message"]
    assert ids(events) == [0] and not events.verify()


def other_list(uri: str) -> Callable[[Engine], dict]:
    return lambda engine: engine.write(numbered(1)).body(**{"manifest-list": uri})


def with_update(update: dict) -> Callable[[Engine], dict]:
    def made(engine: Engine) -> dict:
        body = engine.write(numbered(1)).body()
        return {**body, "updates": [*body["updates"], update]}

    return made


REFUSED = {
    "a file elsewhere": (outside, 400, "not in the folder of the table"),
    "a file above": (climbing, 400, "not in the folder of the table"),
    "a file of the table": (own_file, 400, "one of the table already"),
    "a missing file": (missing, 400, "there is no file"),
    "no Parquet": (no_parquet, 400, "no file of Parquet"),
    "a list elsewhere": (other_list("file:///etc/passwd"), 400, "not in the folder of the table"),
    "no list": (other_list("file:none"), 400, "not in the folder of the table"),
    "wrong count": (lambda engine: engine.write(numbered(1)).body(rows=5), 400, "another number of rows"),
    "other columns": (lambda engine: engine.write(pa.table({"other": [1]})).body(), 400, "other"),
    "a value that is lost": (lambda engine: engine.write(pa.table({"id": ["x"], "v": ["y"]})).body(), 400, "id"),
    "an overwrite": (lambda engine: engine.write(numbered(1)).body(operation="overwrite"), 406, "no append"),
    "a delete": (lambda engine: engine.write(numbered(1)).body(status=ManifestEntryStatus.DELETED), 406, "deletes nothing"),
    "another branch": (with_update({"action": "set-snapshot-ref", "ref-name": "b"}), 406, "set-snapshot-ref"),
    "a property": (with_update({"action": "set-properties", "updates": {"a": "b"}}), 406, "set-properties"),
    "two snapshots": (with_update({"action": "add-snapshot", "snapshot": {}}), 406, "add-snapshot"),
    "no snapshot": (lambda engine: {"updates": [], "requirements": []}, 406, "adds no snapshot"),
    "no object": (lambda engine: {"updates": [1], "requirements": []}, 400, "JSON object"),
    "an unknown requirement": (
        lambda engine: {**engine.write(numbered(1)).body(), "requirements": [{"type": "assert-else"}]},
        400,
        "assert-else",
    ),
    "an id that is none": (lambda engine: engine.write(numbered(1)).body(**{"snapshot-id": "x"}), 406, ""),
    "another parent": (lambda engine: engine.write(numbered(1)).body(**{"parent-snapshot-id": 99}), 409, "the parent"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_append_changes_nothing(client, events, name: str):
    make, code, why = REFUSED[name]
    events.append(numbered(0))
    answer = client.post(PATH, json=make(Engine(metadata(client))))
    assert (answer.status_code, answer.json()["error"]["code"]) == (code, code), answer.text
    assert why in answer.json()["error"]["message"]
    assert ids(events) == [0] and events.version.number == 1 and not events.verify()


def test_a_table_with_a_primary_key_takes_no_appends(client, events, tmp_path):
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_table("sales.orders", "id BIGINT NOT NULL, v STRING", primary_key=["id"])
    path = PATH.replace("events", "orders")
    engine = Engine(client.get(path).json()["metadata"]).write(numbered(1))
    answer = client.post(path, json=engine.body())
    assert answer.status_code == 406 and "only tables without a primary key" in answer.json()["error"]["message"]


def test_a_commit_between_the_check_and_the_append_wins(client, events, monkeypatch):
    """The append must directly follow the snapshot that the engine has seen."""
    write = fast_append.write

    def late(*args):
        events.append(numbered(9))
        return write(*args)

    monkeypatch.setattr(fast_append, "write", late)
    engine = Engine(metadata(client)).write(numbered(1))
    answer = client.post(PATH, json=engine.body())
    assert (answer.status_code, answer.json()["error"]["type"]) == (409, "CommitFailedException")
    assert ids(events) == [9] and Path(engine.files[0].removeprefix("file:")).is_file()
