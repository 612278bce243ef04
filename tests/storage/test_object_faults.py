"""Object stores over a bad network: each kind of request meets each kind of fault, and every answer is the truth."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator
from itertools import count, product
from typing import NamedTuple

import pytest
from effort import sampled
from fault_proxy import FAULTS, FaultProxy, fault_proxy
from object_servers import SECRET, Server
from storage_contract import paths, put
from strategies import rows_of

import lsmlake
from lsmlake.errors import CommitUnknown, InvalidQuery, StorageFailed
from lsmlake.storage.location import storage_at
from lsmlake.storage.storage import Storage, read_bytes

SMALL, LARGE = b"content " * 100, bytes(range(256)) * 50_000


@pytest.fixture(scope="module")
def proxy(s3: Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3.endpoint) as made:
        yield made


@pytest.fixture(scope="module")
def large(s3: Server) -> str:
    """The address of a large object."""
    url = s3.warehouse()
    put(storage_at(url, s3.options), "large", LARGE)
    return url


class Pair(NamedTuple):
    """Two storages of one place, through the proxy and beside it."""

    here: Storage
    there: Storage


def pair(s3: Server, proxy: FaultProxy, url: str | None = None, **options: object) -> Pair:
    url = url or s3.warehouse()
    there = storage_at(url, s3.options)
    put(there, "small", SMALL)
    through = {**s3.options, "endpoint": proxy.endpoint}
    storage_at(url, through).put_if_absent("tried", b"")
    return Pair(storage_at(url, {**through, "timeout": 0.3, **options}), there)


@pytest.fixture(autouse=True)
def no_fault_is_left(proxy: FaultProxy) -> Iterator[None]:
    yield
    proxy.calm()
    proxy.ignores_conditions = False


def read_middle(storage: Storage) -> bytes:
    with storage.read_from_end("large", len(LARGE), 8) as file:
        return file.read_at(100, 5_000_000)


def copied(storage: Storage) -> bytes:
    storage.copy("small", "copied")
    return read_bytes(storage, "copied")


class Verb(NamedTuple):
    """What a verb returns in a world without faults. `made`: the object that it makes, which must be whole or absent."""

    run: Callable[[Storage], object]
    expected: object
    method: str = "GET"
    made: tuple[str, bytes] | None = None
    query: str = ""


VERBS = {
    "read": Verb(lambda storage: read_bytes(storage, "small"), SMALL),
    "read a range": Verb(read_middle, LARGE[5_000_000:5_000_100]),
    "size": Verb(lambda storage: storage.size("small"), len(SMALL), "HEAD"),
    "size of nothing": Verb(lambda storage: storage.size("nothing"), None, "HEAD"),
    "list": Verb(lambda storage: paths(storage, ""), ("small", "tried")),
    "folders": Verb(lambda storage: list(storage.folders("")), []),
    "create": Verb(lambda storage: storage.put_if_absent("new", SMALL), True, "PUT", ("new", SMALL)),
    "create what exists": Verb(lambda storage: storage.put_if_absent("small", SMALL), False, "PUT"),
    "write": Verb(lambda storage: put(storage, "new", SMALL), None, "PUT", ("new", SMALL)),
    "write parts": Verb(lambda storage: put(storage, "new", LARGE), None, "PUT", ("new", LARGE)),
    "complete parts": Verb(lambda storage: put(storage, "new", LARGE), None, "POST", ("new", LARGE), "uploadId"),
    "delete": Verb(lambda storage: storage.delete("small"), None, "POST"),
    "delete all": Verb(lambda storage: storage.delete_all(["small", "nothing"]), None, "POST"),
    "copy": Verb(copied, SMALL, "PUT", ("copied", SMALL)),
}
PAIRS = [pair for number, pair in enumerate(product(VERBS, FAULTS)) if sampled(number, 3 if "parts" in pair[0] else 1)]


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_a_fault_that_passes(s3: Server, proxy: FaultProxy, large: str, name: str, kind: str):
    verb = VERBS[name]
    here, there = pair(s3, proxy, large if name == "read a range" else None)
    proxy.fail(kind, lambda request: request.method == verb.method and verb.query in request.query)
    assert verb.run(here) == verb.expected
    assert proxy.calm(), "the fault has not struck"
    if verb.made:
        path, data = verb.made
        assert read_bytes(there, path) == data
    assert (there.size("small") is None) == name.startswith("delete")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("403 before", "access denied.*check the credentials"),
        ("500 before", r"the store failed \(500, 1 retries\).*try again later"),
        ("503 before", r"the store refuses so many requests \(503, 1 retries\).*try again later"),
        ("429 before", r"the store refuses so many requests \(429, 1 retries\).*try again later"),
        ("silence before", "no answer in time.*timeout allows more seconds"),
        ("reset before", "(?:no connection|the connection broke).*(?:check the endpoint|try again)"),
    ],
)
def test_a_fault_that_stays(s3: Server, proxy: FaultProxy, large: str, kind: str, expected: str):
    for name, verb in VERBS.items():
        if "parts" in name:
            continue
        url = large if name == "read a range" else None
        here, there = pair(s3, proxy, url, max_retries=1, timeout=0.05 if kind == "silence before" else 1)
        proxy.fail(kind, times=1_000_000)
        with pytest.raises(StorageFailed, match=rf"{here.root}.*cannot \w+.*{expected}") as caught:
            verb.run(here)
        proxy.calm()
        assert SECRET not in "".join(traceback.format_exception(caught.value))
        assert verb.made is None or there.size(verb.made[0]) is None


def test_a_store_without_conditional_creates_is_refused_before_it_is_written(s3: Server, proxy: FaultProxy):
    proxy.ignores_conditions = True
    url = s3.warehouse()
    lake = lsmlake.connect(url, storage_options={**s3.options, "endpoint": proxy.endpoint, "timeout": 5})
    assert lake.databases() == [], "nothing is tried for a reader"
    for _ in range(2):
        with pytest.raises(InvalidQuery, match=r"does not support conditional creates.*use a store with conditional writes"):
            lake.create_database("d")
        with pytest.raises(InvalidQuery), lake.env.storage.write("f") as sink:
            sink.write(b"x")
    assert list(storage_at(url, s3.options).list("")) == []


def test_a_store_is_tried_once(s3: Server, proxy: FaultProxy):
    here, _ = pair(s3, proxy)
    again = pickle.loads(pickle.dumps(here))
    proxy.requests.clear()
    assert again.put_if_absent("a", b"") and here.put_if_absent("b", b"")
    assert [request.name for request in proxy.requests] == ["a", "b"]


@pytest.mark.parametrize("kind", ["503 after", "reset after", "repeated", "truncated"])
def test_a_commit_takes_place_once(s3: Server, proxy: FaultProxy, kind: str):
    """One fault at each request of an upsert in turn."""
    lake = lsmlake.connect(s3.warehouse(), storage_options={**s3.options, "endpoint": proxy.endpoint, "timeout": 5})
    lake.create_database("d")
    table = lake.create_table("d.t", "k BIGINT, v BIGINT", primary_key=["k"])
    table.upsert({"k": range(10), "v": [0] * 10})
    for number in range(1, 40):
        passed = count(1)
        proxy.fail(kind, lambda request, passed=passed, number=number: next(passed) == number)
        try:
            table.upsert({"k": [number], "v": [number]}, writer_id="w", commit_id=number)
            struck = proxy.calm()
        except (StorageFailed, CommitUnknown):
            struck = proxy.calm()
            table.upsert({"k": [number], "v": [number]}, writer_id="w", commit_id=number)
        if not struck:
            break
    assert 8 < number < 40
    assert table.snapshots().num_rows == number + 1
    expected = {k: k if 1 <= k <= number else 0 for k in range(max(10, number + 1))}
    assert dict(rows_of(table.scan().to_arrow())) == expected
    assert list(table.verify()) == []
