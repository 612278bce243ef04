"""Callbacks of commits, tags and partitions that are done: real entry points, a real service, and the files of partitions."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest
from storage_clock import DAY
from test_maintainer import World

from lsmlake import Lake, set_option
from lsmlake.api.table import Table
from lsmlake.errors import InvalidOption

MODULE = """
told = []

def remember(event):
    told.append(event)

def fail(event):
    raise ValueError("the callback is broken")
"""
ENTRY_POINTS = """
[lsmlake.callbacks]
remember = lsmlake_callbacks_of_a_test:remember
fail = lsmlake_callbacks_of_a_test:fail
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list]:
    """What the entry points of an installed package were told."""
    package = tmp_path / "site"
    (package / "lsmlake_callbacks-1.dist-info").mkdir(parents=True)
    (package / "lsmlake_callbacks_of_a_test.py").write_text(MODULE)
    (package / "lsmlake_callbacks-1.dist-info" / "METADATA").write_text("Name: lsmlake_callbacks\nVersion: 1\n")
    (package / "lsmlake_callbacks-1.dist-info" / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(package))
    import lsmlake_callbacks_of_a_test

    yield lsmlake_callbacks_of_a_test.told
    del sys.modules["lsmlake_callbacks_of_a_test"]


class Service:
    """A service on this machine. `answer`: its status; 302 leads to another path, which counts as well."""

    def __init__(self) -> None:
        self.answer, self.posted, self.paths = 200, [], []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                service.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.ended()

            def do_GET(self) -> None:
                self.ended()

            def ended(self) -> None:
                service.paths.append(self.path)
                self.send_response(service.answer)
                if service.answer == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    thread = Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def test_commits_and_tags_are_told(lake: Lake, told: list, service: Service):
    options = {"commit.callbacks": "remember", "tag.callbacks": "remember", "commit.callback-url": service.url}
    table = lake.create_table("d.t", "k INT NOT NULL", primary_key=["k"], options=options)
    table.upsert([{"k": 1}, {"k": 2}])
    table.create_tag("eod")
    table.create_branch("b", tag="eod")
    table.branch("b").upsert([{"k": 3}])
    events = [(event.event, event.table, event.snapshot, event.rows, event.tag) for event in told]
    assert events == [("commit", "d.t", 1, 2, None), ("tag", "d.t", 1, None, "eod"), ("commit", "d.t$branch_b", 2, 1, None)]
    first = {"event": "commit", "table": "d.t", "path": "d.db/t", "snapshot": 1, "kind": "APPEND", "rows": 2}
    assert service.posted[0] == first and len(service.posted) == 2


def test_a_callback_that_fails_fails_no_commit(lake: Lake, told: list, service: Service, caplog: pytest.LogCaptureFixture):
    table = lake.create_table("d.t", "k INT NOT NULL", primary_key=["k"], options={"commit.callbacks": "fail"})
    with caplog.at_level(logging.WARNING):
        table.upsert([{"k": 1}])
        table.alter(set_option("commit.callbacks", "missing"))
        table.upsert([{"k": 2}])
        table.alter(set_option("commit.callbacks", "remember"), set_option("commit.callback-url", service.url))
        service.answer = 500
        table.upsert([{"k": 3}])
        service.answer = 302
        table.upsert([{"k": 4}])
    assert table.count() == 4 and "/elsewhere" not in service.paths
    lines = [record.getMessage() for record in caplog.records]
    for text in ("the callback is broken", "no entry point 'missing'", "500", "302"):
        assert any("a callback failed after commit" in line and text in line for line in lines), (text, lines)


def parted(world: World, **options: object) -> Table:
    given = {"partition.idle-time-to-done": "1 h", "partition.time-interval": "1 d", **options}
    return world.lake.create_table("d.p", "dt STRING, k INT", primary_key=["dt", "k"], partition_by=["dt"], options=given)


def write(table: Table, day: str, key: int) -> None:
    table.upsert(pa.table({"dt": [day], "k": pa.array([key], pa.int32())}))


def test_a_partition_is_done_once_it_is_over_and_idle(told: list):
    """And again after later rows, but not because a compaction has rewritten its files."""
    world = World()
    options = {"partition.mark-done-action": "success-file,custom", "partition.mark-done-action.custom.class": "remember"}
    table, storage = parted(world, **options), world.clock.storage
    today = world.clock.now - world.clock.now % DAY
    world.clock.now = today + 10 * 3_600_000
    write(table, "2023-11-14", 1)  # the day of this clock
    write(table, "2023-11-10", 1)
    write(table, "no day", 1)
    world.clock.now += 30 * 60_000
    write(table, "2023-11-10", 2)
    world.clock.now += 59 * 60_000
    world.lake.maintain()
    assert told == [], "not idle for long enough"
    world.clock.now += 2 * 60_000
    world.lake.maintain()
    world.lake.maintain()
    assert [event.partition for event in told] == ["dt=2023-11-10"]
    success = f"{table.path}/dt=2023-11-10/_SUCCESS"
    marked = json.loads(storage.read(success).read())
    assert marked == {"creationTime": world.clock.now, "modificationTime": world.clock.now}
    table.compact(full=True)
    world.clock.now = today + DAY + 3_600_001
    world.lake.maintain()
    assert [event.partition for event in told] == ["dt=2023-11-10", "dt=2023-11-14"], "its day is over"
    write(table, "2023-11-10", 3)
    world.clock.now += 3_700_000
    world.lake.maintain()
    assert [event.partition for event in told][2:] == ["dt=2023-11-10"]
    again = json.loads(storage.read(success).read())
    assert (again["creationTime"], again["modificationTime"]) == (marked["creationTime"], world.clock.now)
    assert table.count() == 5 and table.verify() == []
    world.clock.pass_days(3)
    assert table.remove_orphan_files().files == 0 and storage.size(success)


def test_a_report_that_is_not_taken_is_sent_again(service: Service):
    world = World()
    named = {"partition.mark-done-action": "http-report", "partition.mark-done-action.url": service.url}
    table = parted(world, **named, **{"partition.mark-done-action.params": "team a"})
    write(table, "2023-11-10", 1)
    world.clock.now += 2 * 3_600_000
    service.answer = 503
    (failed,) = [row for row in world.lake.maintain().to_pylist() if row["error"]]
    assert failed["kind"] == "mark_partitions_done"
    service.answer = 200
    world.lake.maintain()
    world.lake.maintain()
    assert len(service.posted) == 2 and service.posted[1] == {
        "event": "partition",
        "table": "d.p",
        "path": "d.db/p/dt=2023-11-10",
        "snapshot": 1,
        "partition": "dt=2023-11-10",
        "params": "team a",
    }


@pytest.mark.parametrize(
    "options",
    [
        {"partition.mark-done-action": "http-report"},
        {"partition.mark-done-action": "success-file,custom"},
        {"partition.mark-done-action": "done-partition"},
        {"partition.mark-done-action.url": "http://localhost/x"},
        {"commit.callback-url": "file:///etc/passwd"},
        {"commit.callback-url": "http://a b"},
    ],
    ids=lambda options: "-".join(options),
)
def test_options_that_would_do_nothing_are_refused(options: dict):
    with pytest.raises(InvalidOption):
        parted(World(), **options)


def test_a_batch_sets_the_tag_of_its_day(caplog):
    world = World()
    named = {"tag.automatic-creation": "batch", "tag.num-retained-max": 2}
    table = world.lake.create_table("d.t", "k INT NOT NULL", primary_key=["k"], options=named)
    for day in range(3):
        for key in range(2):
            table.upsert([{"k": 10 * day + key}])
        table.upsert([{"k": 100}], writer_id="stream", commit_id=day)  # numbered, as the batches of a stream
        table.compact(full=True)
        world.clock.pass_days(1)
    tags = {row["tag_name"]: row["record_count"] for row in table.tags().to_pylist()}
    assert list(tags) == ["batch-write-2023-11-15", "batch-write-2023-11-16"]
    assert [table.scan(tag=name).count() for name in tags] == [5, 7]
    mine = table.create_tag("batch-write-2023-11-17"), table.create_tag("batch-write-mine")
    table.upsert([{"k": 400}])
    assert all(table.meta.tags.get(tag.name) == tag for tag in mine), "tags of users are neither replaced nor deleted"
    assert "a tag that no commit created has the name of an automatic tag" in caplog.text
    table.alter(set_option("tag.batch.customized-name", "newest"))
    table.upsert([{"k": 500}])
    assert table.scan(tag="newest").count() == table.count()
