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
from strategies import new_lake

from lsmlake.api.table import Table
from lsmlake.store.memory import MemoryStorage

KINDS = {"read": "read", "write-publish": "write", "put_if_absent": "create", "list": "list", "size": "size", "delete": "delete"}
NEWEST = {"read snapshot": 2}
"""The newest snapshot that the handle knows, and that there is no next one."""
PUBLISH = {"create snapshot": 1, "read snapshot": 1, "read schema": 1}
"""The conditional create; the snapshot before it and schema 0 must still be there."""
LISTS = {"write manifest": 1, "write manifest-list": 2}


def plus(*parts: dict[str, int]) -> dict[str, int]:
    return dict(sum(map(Counter, parts), Counter()))


def kind_of(path: str) -> str:
    """'snapshot-12' -> 'snapshot'; a data file is 'data'."""
    name = path.rsplit("/", 1)[-1]
    return name.rsplit("-", 1)[0]


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
    "scan of three files": (lambda table: table.scan().to_arrow(), plus(NEWEST, {"read data": 3})),
    "scan of a key": (lambda table: table.scan(where="k = 50").to_arrow(), plus(NEWEST, {"read data": 1})),
    "get": (lambda table: table.get({"k": 50}), plus(NEWEST, {"read data": 1})),
    "count": (lambda table: table.scan().count(), NEWEST),
    "count of a snapshot read before": (lambda table: table.scan(snapshot=12).count(), {"read snapshot": 1}),
    "plan": (lambda table: table.scan().plan(), NEWEST),
    "files": (lambda table: table.files(), NEWEST),
    "compact with nothing to do": (lambda table: table.compact(), NEWEST),
    "changes of the last commit": (lambda table: table.changes(13).count(), plus(NEWEST, {"read snapshot": 1, "read data": 3})),
}


@pytest.mark.parametrize("verb", list(VERBS))
def test_the_storage_calls_of_a_verb(verb: str):
    run, expected = VERBS[verb]
    storage = FaultStorage(MemoryStorage())
    table = history(storage)
    warm(table)
    storage.calls = []
    run(table)
    found = Counter(f"{KINDS[name]} {kind_of(path)}" for name, path in storage.calls if name in KINDS)
    assert dict(found) == expected
    assert {name for name, _ in storage.calls} <= {*KINDS, "write-begin"}


def warm(table: Table) -> None:
    table.upsert(rows(1), writer_id="w", commit_id=1)
    table.upsert(rows(2))
    table.scan(snapshot=12).count()
    table.changes(13).count()
    table.scan().to_arrow()
