"""How many calls each verb makes to the storage, exactly: on an object store every call takes 20 to 100 ms.

In the steady state: the handle has read the table before, and nobody else has written since. A call is one of the storage's
verbs; a file written counts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest
from faults import FaultStorage
from storage_calls import KINDS, LISTS, NEWEST, OPENED, PUBLISH, call_of, plus
from strategies import new_lake

from lsmlake import set_option
from lsmlake.api.table import Table
from lsmlake.storage.memory import MemoryStorage


def history(storage: MemoryStorage, **options: str) -> Table:
    """A table of 12 snapshots, its rows compacted."""
    lake = new_lake(storage)
    table = lake.create_table("d.t", "k BIGINT, v BIGINT", primary_key=["k"], options={"bucket": "1", **options})
    for number in range(11):
        table.upsert(rows(number), compact=False)
    table.compact(full=True)
    return table


def rows(number: int) -> pa.Table:
    return pa.table({"k": range(number, 100), "v": [number] * (100 - number)})


VERBS: dict[str, tuple[Callable[[Table], object], dict[str, int]]] = {
    "the schema": (lambda table: table.schema, NEWEST),
    "upsert without compaction": (
        lambda table: table.upsert(rows(1), compact=False),
        plus(NEWEST, {"write data": 1}, LISTS, PUBLISH),
    ),
    "upsert with compaction": (
        lambda table: table.upsert(rows(1)),
        plus(NEWEST, {"write data": 1, "read data": 1}, LISTS, PUBLISH),
    ),
    "upsert that has committed before": (
        lambda table: table.upsert(rows(1), writer_id="w", commit_id=1),
        plus(NEWEST, {"read snapshot": 2}),
    ),
    "delete by key": (
        lambda table: table.delete_keys({"k": [3]}),
        plus(
            NEWEST,
            {"write data": 1, "write dv": 1, "write index-manifest": 1, "write manifest-list": 2, "delete data": 1},
            PUBLISH,
        ),
    ),
    "overwrite": (
        lambda table: table.overwrite(rows(1)),
        plus(NEWEST, {"write data": 1}, LISTS, PUBLISH),
    ),
    "truncate": (lambda table: table.truncate(), plus(NEWEST, LISTS, PUBLISH)),
    "scan of three files": (lambda table: table.scan().to_arrow(), plus(NEWEST, {"read data": 3})),
    "scan of a key": (lambda table: table.scan(where="k = 50").to_arrow(), plus(NEWEST, {"read data": 1})),
    "get": (lambda table: table.get({"k": 50}), plus(NEWEST, {"read data": 1})),
    "count": (lambda table: table.scan().count(), NEWEST),
    "count of a snapshot read before": (lambda table: table.scan(snapshot=12).count(), {"read snapshot": 1}),
    "count of a tag": (lambda table: table.scan(tag="old").count(), {"read tag": 1}),
    "create tag": (
        lambda table: table.create_tag("new"),
        {
            "read snapshot": 8,
            "size snapshot": 1,
            "write pin": 1,
            "create tag": 1,
            "size pin": 1,
            "delete pin": 1,
            "list": 1,  # the folder of Iceberg metadata
        },
    ),
    "plan": (lambda table: table.scan().plan(), NEWEST),
    "files": (lambda table: table.files(), NEWEST),
    "compact with nothing to do": (lambda table: table.compact(), NEWEST),
    "compact a bucket to one run": (
        lambda table: table.compact(full=True),
        plus(NEWEST, {"read data": 3, "write data": 1}, LISTS, PUBLISH),
    ),
    "changes of the last commit": (lambda table: table.changes(13).count(), plus(NEWEST, {"read snapshot": 1, "read data": 3})),
    "changes of two commits, one by one": (
        lambda table: table.changes(12, mode="auto").count(),
        plus(NEWEST, {"read snapshot": 2 * 2, "read data": 2 * 3}),
    ),
    "follow two commits": (
        lambda table: list(map(pa.table, table.follow(snapshot=13))),
        plus(OPENED, {"read snapshot": 1 + 2 * 2, "read data": 2 * 3}),
    ),
    "follow, first all rows": (
        lambda table: list(map(pa.table, table.follow())),
        plus(OPENED, NEWEST, {"read snapshot": 1, "read data": 3}),
    ),
    "follow from now on": (lambda table: list(table.follow(start="latest")), plus(OPENED, NEWEST)),
    "follow as a consumer": (
        lambda table: list(table.follow(start="latest", consumer="c")),
        plus(OPENED, NEWEST, {"read consumer": 1, "read schema": 1, "write consumer": 1}),
    ),
    "get of a missing key": (lambda table: table.get({"k": 500}), NEWEST),
    "options": (lambda table: table.options, NEWEST),
    "partitions": (lambda table: table.partitions(), NEWEST),
    "buckets": (lambda table: table.buckets(), NEWEST),
    "manifests": (lambda table: table.manifests(), NEWEST),
    "snapshots": (lambda table: table.snapshots(), {"list": 1, "read snapshot": 14}),
    "consumers": (lambda table: table.consumers(), {"read schema": 1, "list": 1}),
    "alter an option that leaves files as they are": (
        lambda table: table.alter(set_option("snapshot.num-retained.max", 100)),
        plus(NEWEST, {"list": 1, "create schema": 1, "write manifest-list": 2}, PUBLISH),
    ),
    "expire nothing": (lambda table: table.expire_snapshots(), plus({"list": 4, "read snapshot": 4, "read schema": 1})),
    "expire 13 snapshots": (  # each mark after the first is a copy: a read and a write on this storage
        lambda table: table.expire_snapshots(retain_min=1, older_than="2100-01-01"),
        {
            "list": 16,  # one: whether there is Iceberg metadata, which must be brought up to date first
            "read snapshot": 31,
            "write snapshot": 13,
            "read schema": 1,
            "read tag": 2,
            "delete manifest-list": 24,
            "delete data": 12,
        },
    ),
    "repair with nothing to do": (lambda table: table.repair(), NEWEST),
    "verify": (
        lambda table: table.verify(),
        {
            "read schema": 2,
            "read snapshot": 14,
            "read manifest-list": 2 * 14,
            "read manifest": 14,
            "size data": 16,
            "read data": 2 * 16 + 3,
            "read tag": 1,
            "list": 5,
        },
    ),
}


@pytest.mark.parametrize("verb", list(VERBS))
def test_the_storage_calls_of_a_verb(verb: str):
    run, expected = VERBS[verb]
    storage = FaultStorage(MemoryStorage())
    table = history(storage)
    warm(table)
    storage.calls = []
    run(table)
    found = Counter(call_of(name, path) for name, path in storage.calls if name in KINDS)
    assert dict(found) == expected
    assert {name for name, _ in storage.calls} <= {*KINDS, "write-begin"}


def warm(table: Table) -> None:
    table.upsert(rows(1), writer_id="w", commit_id=1)
    table.upsert(rows(2))
    table.scan(snapshot=12).count()
    table.create_tag("old", 12)
    table.scan(tag="old").count()
    table.changes(13).count()
    table.scan().to_arrow()
