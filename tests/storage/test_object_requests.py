"""How many requests each verb sends to an object store, exactly, by kind; and in how many rounds, one after another: each takes
20 to 100 ms there.

In the steady state, as in `test_storage_calls`, and of a reader that has to catch up.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from fault_proxy import FaultProxy, Request, fault_proxy
from object_servers import Server
from rounds import THREADS, Rounds
from storage_calls import kind_of, plus

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.api.table import Table

pytestmark = pytest.mark.skipif(
    not THREADS.exists(), reason="rounds are told by the states of threads, which this system does not list"
)


@pytest.fixture(scope="module")
def world(s3: Server) -> Iterator[tuple[Server, FaultProxy]]:
    with fault_proxy(s3.endpoint) as proxy:
        yield s3, proxy


def opened(server: Server, proxy: FaultProxy, url: str) -> Lake:
    return lsmlake.connect(url, storage_options={**server.options, "endpoint": proxy.endpoint})


def rows(number: int, count: int = 100) -> pa.Table:
    return pa.table({"k": range(number, count), "v": [number] * (count - number)})


def kind(request: Request) -> str:
    if request.method == "GET" and "list-type" in request.query:
        return "list"
    name = "many" if request.method == "POST" else kind_of(request.path)
    return f"{request.method} {name}"


NEWEST = {"GET snapshot": 2}
PUBLISH = {"PUT manifest": 1, "PUT manifest-list": 2, "PUT snapshot": 1, "GET snapshot": 1, "GET schema": 1}
VECTORS = {"PUT dv": 1, "PUT index-manifest": 1}
"""The vectors that this handle wrote last are in memory."""
STEADY: dict[str, tuple[Callable[[Table], object], dict[str, int], int]] = {
    "schema": (lambda table: table.schema, NEWEST, 1),
    "plan": (lambda table: table.scan().plan(), NEWEST, 1),
    "get of a key read before": (lambda table: table.get({"k": 50}), NEWEST, 1),
    "scan": (lambda table: table.scan().to_arrow(), plus(NEWEST, {"GET data": 1}), 2),
    "count": (lambda table: table.scan().count(), NEWEST, 1),
    "scan of a key": (lambda table: table.scan(where="k = 50").to_arrow(), NEWEST, 1),  # a small file was read as a whole
    "get of a missing key": (lambda table: table.get({"k": 500}), NEWEST, 1),
    "snapshots": (lambda table: table.snapshots(), {"list": 1, "GET snapshot": 5}, 2),
    "upsert without compaction": (
        lambda table: table.upsert(rows(1), compact=False),
        plus(NEWEST, {"PUT data": 1}, PUBLISH),
        5,
    ),
    "upsert that compacts all rows": (  # looks keys up, then reads the old rows and writes them again
        lambda table: table.upsert(rows(1)),
        plus(NEWEST, {"PUT data": 2, "GET data": 2}, PUBLISH),
        8,
    ),
    "delete of a key": (
        lambda table: table.delete_keys({"k": [3]}),
        plus(NEWEST, {"GET data": 1, "PUT data": 1, "POST many": 1}, VECTORS, PUBLISH, {"PUT manifest": -1}),
        8,
    ),
    "delete without a matching row": (lambda table: table.delete(where="v = 500"), NEWEST, 1),
    "update of a row": (
        lambda table: table.update({"v": "v + 1"}, "k = 50"),
        plus(NEWEST, {"GET data": 2, "PUT data": 1}, VECTORS, PUBLISH),  # the old row, and where its key is
        8,
    ),
    "update without a matching row": (lambda table: table.update({"v": "v + 1"}, "v = 500"), NEWEST, 1),
    "merge of a row": (
        lambda table: table.merge({"k": [50], "v": [7]}, "t.k = s.k").when_matched_update_all().execute(),
        plus(NEWEST, {"GET data": 2, "PUT data": 1}, VECTORS, PUBLISH),  # the old row, and where its key is
        8,
    ),
    "alter an option": (
        lambda table: table.alter(lsmlake.set_option("snapshot.num-retained.max", 100)),
        plus(NEWEST, {"list": 1, "PUT schema": 1}, PUBLISH, {"PUT manifest": -1}),
        6,
    ),
    "create a tag": (
        lambda table: table.create_tag("new"),
        {"GET snapshot": 8, "PUT pin": 1, "HEAD snapshot": 1, "PUT tag": 1, "HEAD pin": 1, "POST many": 1}
        | {"list": 1},  # whether there is Iceberg metadata, which shows tags at once
        11,
    ),
}
"""Verb -> requests and their rounds, of a handle that has just read and written."""


@pytest.mark.parametrize("verb", STEADY)
def test_the_requests_of_a_verb(world: tuple[Server, FaultProxy], verb: str):
    run, expected, deep = STEADY[verb]
    table = made(*world)
    table.get({"k": 50})
    found = measured(world[1], lambda: run(table))
    assert Counter(map(kind, found)) == Counter(expected)
    assert rounds(found) == deep


def made(server: Server, proxy: FaultProxy) -> Table:
    lake = opened(server, proxy, server.warehouse())
    lake.create_database("d")
    table = lake.create_table("d.t", "k BIGINT, v BIGINT", primary_key=["k"], options={"bucket": 1})
    for number in range(4):
        table.upsert(rows(number))
    table.compact(full=True)
    return table


def measured(proxy: FaultProxy, run: Callable[[], object]) -> list[Request]:
    """The requests of a call."""
    proxy.requests.clear()
    with proxy.in_rounds():
        run()
    return list(proxy.requests)


def rounds(requests: list[Request]) -> int:
    """How many steps the requests make, if those that do not wait for one another are one step."""
    return len({request.round for request in requests})


def test_an_upsert_with_compaction_looks_up_old_rows_in_few_steps(world: tuple[Server, FaultProxy]):
    table = made(*world)
    for number in range(2):
        table.upsert(rows(number, number + 2))
    found = measured(world[1], lambda: table.upsert(rows(2, 4)))
    assert Counter(map(kind, found)) == plus(NEWEST, {"PUT data": 1}, VECTORS, PUBLISH)
    assert rounds(found) == 6


def test_a_reader_catches_up_in_few_steps(world: tuple[Server, FaultProxy]):
    table = made(*world)
    other = opened(*world, table.meta.env.storage.root).table("d.t")
    other.scan().plan()
    table.upsert(rows(1))
    found = measured(world[1], lambda: other.scan().plan())
    assert rounds(found) == 3
    assert Counter(map(kind, found)) == {"GET snapshot": 3, "GET manifest-list": 2, "GET manifest": 1}


def test_a_new_handle_plans_in_three_steps(world: tuple[Server, FaultProxy]):
    """Each file names the next, so less is impossible: the snapshots around the hint at once, then the manifest lists and the
    schema, then the manifests and the vectors. The hint comes with the table."""
    table = made(*world)
    table.alter(lsmlake.add_column("w", "BIGINT"))
    for number in range(9):
        table.upsert(rows(number, number + 2))
    other: list[Table] = []
    found = measured(world[1], lambda: other.append(opened(*world, table.meta.env.storage.root).table("d.t")))
    assert Counter(map(kind, found)) == {"HEAD database.json": 1, "GET schema": 1, "GET LATEST": 1}
    assert rounds(found) == 2
    plans: list[object] = []
    found = measured(world[1], lambda: plans.append(other[0].scan().plan()))
    assert plans[0].files == table.scan().plan().files
    assert Counter(map(kind, found)) == {
        "HEAD snapshot": 1,
        "GET snapshot": 11,
        "GET schema": 1,
        "GET manifest-list": 2,
        "GET manifest": 14,
        "GET index-manifest": 9,
    }
    assert rounds(found) == 3


def test_columns_of_a_large_file_come_in_one_step(world: tuple[Server, FaultProxy]):
    """The footer, then all column chunks at once."""
    lake = opened(*world, world[0].warehouse())
    lake.create_database("d")
    columns = {f"c{number}": pa.array(range(300_000)) for number in range(4)}
    table = lake.create_table_from("d.t", pa.table({"k": range(300_000), **columns}), primary_key=["k"])
    found = measured(world[1], lambda: table.scan(columns=["c0", "c2"]).to_arrow())
    assert rounds(found) == 3
    assert all(request.range for request in found if "data" in request.name)


def test_many_small_files_are_read_at_once(world: tuple[Server, FaultProxy]):
    lake = opened(*world, world[0].warehouse())
    lake.create_database("d")
    data = pa.table({"k": range(1_000)})
    table = lake.create_table_from("d.t", data, primary_key=["k"], options={"bucket": 12})
    read: list[pa.Table] = []
    found = measured(world[1], lambda: read.append(table.scan().to_arrow()))
    assert read[0].sort_by("k").equals(data.cast(read[0].schema))
    assert Counter(map(kind, found)) == plus(NEWEST, {"GET data": 12})
    assert rounds(found) == 2


def test_a_lookup_in_a_large_file_reads_its_footer_once_and_page_indexes_with_keys(world: tuple[Server, FaultProxy]):
    lake = opened(*world, world[0].warehouse())
    lake.create_database("d")
    columns = {f"c{number}": pa.array(range(300_000)) for number in range(4)}
    lake.create_table_from("d.t", pa.table({"k": range(300_000), **columns}), primary_key=["k"])
    table = opened(*world, lake.env.storage.root).table("d.t")
    table.scan().plan()
    found = measured(world[1], lambda: table.get({"k": 250_000}))
    assert Counter(map(kind, found)) == plus(NEWEST, {"GET data": 4})  # footer; keys and page indexes; pages
    assert rounds(found) == 4
    found = measured(world[1], lambda: table.get({"k": 7}))
    assert Counter(map(kind, found)) == plus(NEWEST, {"GET data": 1})
    assert rounds(found) == 2


def test_an_expiry_by_a_new_handle_reads_all_metadata_at_once(world: tuple[Server, FaultProxy]):
    table = made(*world)
    for number in range(6):
        table.upsert(rows(number), compact=False)
    other = opened(*world, table.meta.env.storage.root).table("d.t")
    found = measured(world[1], lambda: other.expire_snapshots(retain_min=1, older_than="2100-01-01"))
    assert Counter(map(kind, found)) == {
        "list": 16,  # one: is there Iceberg metadata to bring up to date?
        "HEAD snapshot": 1,
        "GET snapshot": 26,
        "GET schema": 1,
        "GET manifest-list": 22,
        "GET manifest": 11,
        "PUT snapshot": 10,
        "POST many": 1,
    }
    assert rounds(found) == 35


def test_an_expiry_deletes_all_files_by_one_request(world: tuple[Server, FaultProxy]):
    table = made(*world)
    for number in range(6):
        table.upsert(rows(number), compact=False)
    table.compact(full=True)
    storage, reports = table.meta.env.storage, []
    before = {entry.path for entry in storage.list(table.path)}
    found = measured(world[1], lambda: reports.append(table.expire_snapshots(retain_min=1, older_than="2100-01-01")))
    gone = before - {entry.path for entry in storage.list(table.path)}
    (report,) = reports
    assert (report.snapshots, report.files) == (11, 11 + len(gone))  # marks stay under the names of the snapshots
    assert Counter(map(kind, found)) == {
        "list": 16,  # one: is there Iceberg metadata to bring up to date?
        "GET snapshot": 18,
        "GET schema": 1,
        "PUT snapshot": 11,
        "POST many": 1,
    }
    assert rounds(found) == 34  # marks are put in order, and what holds files is looked for before and after


def test_a_condition_on_a_view_fetches_the_files_that_it_fetches_inside_of_the_view(world: tuple[Server, FaultProxy]):
    lake = opened(*world, world[0].warehouse())
    lake.create_database("d")
    table = lake.create_table("d.t", "k BIGINT, v BIGINT")
    for number in range(6):
        table.append(rows(100 * number, 100 * number + 100))
    lake.sql("CREATE VIEW d.w (a, b) AS SELECT k, v FROM d.t")
    lake.sql("CREATE VIEW d.inside AS SELECT k, v FROM d.t WHERE k = 250")
    counted = {}
    for query in (
        "SELECT v FROM d.inside",
        "SELECT b FROM d.w WHERE a = 250",
        "WITH x AS (SELECT k AS y, v FROM d.t) SELECT v FROM x WHERE y = 250",
        "SELECT v FROM (SELECT * FROM d.t) WHERE k = 250",
        "SELECT v FROM d.t",
    ):
        fresh = opened(world[0], world[1], lake.env.storage.place(""))
        found = measured(world[1], lambda query=query, fresh=fresh: fresh.sql(query))
        counted[query] = sum(kind(request) == "GET data" for request in found)
    *chosen, whole = counted.values()
    assert chosen == [1, 1, 1, 1] and whole == 6


def test_a_thread_that_runs_now_and_then_holds_no_round():
    ended = threading.Event()
    threading.Thread(target=lambda: any(iter(lambda: ended.wait(0.0005), True))).start()
    try:
        rounds = Rounds()
        for number in (1, 2):
            assert rounds.enter() == number
            rounds.leave(number)
        rounds.close()
    finally:
        ended.set()
