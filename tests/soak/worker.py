"""A process of the soak: operations on the tables until the file `stop` appears, or until it is killed.

Every operation is written to the log of the process before it begins, and again with its outcome; both lines are durable. A
process that finds an operation of its predecessor without an outcome repeats it with the same `commit_id`, if its verb takes one.

    python -m soak.worker CONFIG NAME ROLE INCARNATION
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from faults import HookedStorage

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.errors import CommitConflict, CommitUnknown, LakeError, SnapshotNotFound
from lsmlake.maintain.followers import FOLLOWERS
from lsmlake.storage.env import Env, Limits
from lsmlake.storage.location import storage_at
from lsmlake.storage.storage import Entry, Storage
from lsmlake.warehouse import EmbeddedRuntime, connect
from soak.tables import COLUMNS, DATABASE, KEEP, NUMBERED, TABLES, condition, digest, partition, seen

ROLES: dict[str, dict[str, int]] = {
    "writer": {"upsert": 6, "keys": 1, "append": 3, "overwrite": 1, "update": 2, "delete": 1, "merge": 2},
    "keeper": {"compact": 5, "full": 1, "expire": 3, "orphans": 1, "tag": 1},
    "reader": {"scan": 3, "sql": 1, "travel": 3, "get": 3, "changes": 1, "follow": 3, "tagged": 1},
    "upserter": {"upsert": 8, "keys": 2, "append": 4, "overwrite": 1},
    "changer": {"update": 3, "delete": 1, "merge": 3, "append": 1},
    "follower": {"follow": 1},
    "expirer": {"expire": 3, "orphans": 2, "tag": 1},
}
"""How often each role carries out each verb. The first three do everything."""
ORDER = ("writer", "keeper", "reader", "upserter", "changer", "writer", "follower", "expirer")
"""The roles of the processes."""
_REST_S = {"keeper": 0.1, "reader": 0.02, "follower": 0.1, "expirer": 0.1}
"""Between two operations, so that they leave the cores to the writers."""
SKEWS_MS = (0, 0, 50, -50, 5_000, -5_000, 3_600_000, -3_600_000, 172_800_000, -172_800_000)
"""How much the clock of a process is wrong, from its start to its end."""
SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.int32()), ("v", pa.int64()), ("w", pa.int64()), ("s", pa.string())])
_MARKS = 3
"""Marks of expired snapshots that stay. Few, so that a commit that sleeps finds its number freed."""
_LONG_SHARE = 0.01
"""Of the commits, that sleep for long right before they publish."""


class Config(NamedTuple):
    """What all processes of a soak share. `kill_share`, `pause_share`: of the calls to the storage, before or after which the
    process dies or sleeps. `orphan_age_s`: no write takes as long, pauses included. `keys`: how many a table may have."""

    folder: str
    url: str
    storage_options: dict[str, object]
    seed: int
    keys: int
    kill_share: float
    pause_share: float
    pause_max_s: float
    long_pause_s: float
    orphan_age_s: float


class Log:
    """Lines of JSON, each durable before the next step. The last line of a killed process may be torn; the next one ends it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        if path.stat().st_size:
            self._file.write(b"\n")

    def put(self, **values: object) -> None:
        self._file.write(json.dumps(values).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def read_log(path: Path) -> list[dict]:
    found = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return [line for line in found if isinstance(line, dict)]


class Unreliable(HookedStorage):
    """Kills the process, or lets it sleep, before or after some of its calls. Counts the snapshots that it could not create,
    because another process was faster."""

    def __init__(self, inner: Storage, config: Config, chance: random.Random) -> None:
        super().__init__(inner)
        self.at_once = inner.at_once
        self.config, self.chance, self.races = config, chance, 0

    @contextmanager
    def around(self, verb: str, path: str) -> Iterator[None]:
        before = self.chance.random() < 0.5
        if before:
            self._strike()
        yield
        if not before:
            self._strike()

    def _strike(self) -> None:
        drawn = self.chance.random()
        if drawn < self.config.kill_share:
            os.kill(os.getpid(), signal.SIGKILL)
        if drawn < self.config.kill_share + self.config.pause_share:
            time.sleep(self.chance.random() * self.config.pause_max_s)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if "/snapshot-" in path and self.chance.random() < _LONG_SHARE:
            time.sleep(self.chance.random() * self.config.long_pause_s)
        created = super().put_if_absent(path, data)
        self.races += not created and "/snapshot-" in path
        return created

    def read_from_end(self, path: str, size: int, length: int) -> pa.NativeFile:
        with self.around("read", path):
            return self.inner.read_from_end(path, size, length)

    def delete_all(self, paths: Sequence[str]) -> None:
        with self.around("delete", paths[0] if paths else ""):
            self.inner.delete_all(paths)

    def copy(self, source: str, target: str) -> None:
        with self.around("copy", target):
            self.inner.copy(source, target)

    def list(self, prefix: str) -> Iterator[Entry]:
        with self.around("list", prefix):
            yield from self.inner.list(prefix)


class Worker:
    def __init__(self, config: Config, name: str, role: str, incarnation: int) -> None:
        self.config, self.name = config, name
        path = Path(config.folder) / f"{name}.log"
        self.past, self.log = read_log(path), Log(path)
        chance = random.Random(f"{config.seed} {name} {incarnation}")
        self.skew_ms = chance.choice(SKEWS_MS)
        self.verbs, self.rest_s = ROLES[role], _REST_S.get(role, 0)
        self.storage = Unreliable(storage_at(config.url, config.storage_options), config, chance)
        self.incarnation, self.number, names = incarnation, 0, count()
        env = Env(
            self.storage,
            clock=lambda: time.time_ns() // 1_000_000 + self.skew_ms,
            ids=lambda: f"{name}i{incarnation}o{self.number}n{next(names)}",
            workers=2,
            followers=FOLLOWERS,
            limits=replace(Limits(), marks=_MARKS, small_file_rows=64, row_group_rows=32),
        )
        self.lake = Lake(env, EmbeddedRuntime(lambda spark: EmbeddedRuntime(connect)))
        self.tables: dict[str, Table] = {}

    def run(self) -> None:
        self.log.put(begun=self.incarnation, skew_ms=self.skew_ms)
        begun = {line["op"]: line for line in self.past if "verb" in line}
        ended = {line["op"] for line in self.past if "ended" in line}
        self.number = max(begun, default=0)
        open_ = begun.get(self.number)
        if open_ is not None and self.number not in ended and open_["verb"] in NUMBERED:
            self.storage.races = 0
            self._carry_out(open_, again=True)
        stop = Path(self.config.folder) / "stop"
        while not stop.exists():
            self.number += 1
            operation = self.drawn()
            self.log.put(op=self.number, **operation)
            self.storage.races = 0
            self._carry_out(operation)
            time.sleep(self.rest_s)

    def drawn(self) -> dict[str, object]:
        """The next operation: it depends on the seed, the process and the number only."""
        chance = random.Random(f"{self.config.seed} {self.name} {self.number} operation")
        verb = chance.choices(list(self.verbs), list(self.verbs.values()))[0]
        able = {name: kind.share for name, kind in TABLES.items() if _is_able(verb, name)}
        table = chance.choices(list(able), list(able.values()))[0]
        return {"verb": verb, "table": table, **self._arguments(verb, table, chance)}

    def _arguments(self, verb: str, table: str, chance: random.Random) -> dict[str, object]:
        keys, rows = self.config.keys, chance.choice((1, 5, 30))
        if verb in ("upsert", "append", "merge", "overwrite"):
            ks = [chance.randrange(keys) for _ in range(rows)]
            if verb == "merge":
                ks = list(dict.fromkeys(ks))
            if verb == "overwrite":
                ks = [k - partition(k) + partition(ks[0]) for k in ks]
            nulls = table == "parts" and verb != "merge"
            given = [self._row(k, chance, nulls) for k in ks]
            if verb != "upsert":
                return {"rows": given}
            kinds = ["-D" if table == "sums" and chance.random() < 0.2 else "+I" for _ in ks]
            return {"rows": given, "kinds": kinds, "compact": chance.choice((None, None, False))}
        if verb in ("keys", "get"):
            return {"keys": sorted({chance.randrange(keys) for _ in range(rows)})}
        modulus = chance.choice((7, 11, 23))
        where = [chance.choice("kv"), modulus, chance.randrange(modulus)]
        if verb == "delete":
            return {"where": where}
        if verb == "update":
            return {"where": where, "add": chance.randrange(1, 9)}
        return {"choice": chance.random()}

    def _row(self, k: int, chance: random.Random, nulls: bool) -> list:
        v, w = (None if nulls and chance.random() < 0.4 else chance.randrange(100) for _ in range(2))
        return [k, partition(k), v, w, f"{self.name} {self.number}"]

    def _carry_out(self, operation: dict, again: bool = False) -> None:
        """Carry out an operation and log its outcome: "committed", "nothing", "failed", "unknown", "read" or "fault"."""
        start = time.monotonic()
        try:
            outcome = getattr(self, f"_{operation['verb']}")(operation)
        except CommitUnknown as unknown:
            outcome = {"ended": "unknown", "why": str(unknown)}
        except CommitConflict as conflict:
            outcome = {"ended": "failed", "why": str(conflict)}
        except Exception as error:
            why = str(error) if isinstance(error, LakeError) else repr(error)
            outcome = {"ended": "fault", "why": why, "trace": traceback.format_exc()}
        took_s = round(time.monotonic() - start, 3)
        self.log.put(op=self.number, again=again, races=self.storage.races, took_s=took_s, **outcome)

    def table(self, name: str) -> Table:
        """A handle, at times a new one, which has nothing in its cache."""
        if name not in self.tables or self.number % 20 == 0:
            self.tables[name] = self.lake.table(f"{DATABASE}.{name}")
        return self.tables[name]

    # -- writing ------------------------------------------------------------------------------------------------------

    def _committed(self, operation: dict, write: Callable[..., object], data: object, **more: object) -> dict:
        snapshot = write(data, writer_id=self.name, commit_id=self.number, **more)
        return {"ended": "nothing"} if snapshot is None else {"ended": "committed", "snapshot": snapshot.id}

    def _upsert(self, op: dict) -> dict:
        data = _arrow(op["rows"]).append_column("op", pa.array(op["kinds"]))
        return self._committed(op, self.table(op["table"]).upsert, data, row_kind="op", compact=op["compact"])

    def _append(self, op: dict) -> dict:
        return self._committed(op, self.table(op["table"]).append, _arrow(op["rows"]))

    def _keys(self, op: dict) -> dict:
        return self._committed(op, self.table(op["table"]).delete_keys, self._keys_of(op), ignore_sequence=True)

    def _overwrite(self, op: dict) -> dict:
        return self._committed(op, self.table(op["table"]).overwrite, _arrow(op["rows"]))

    def _delete(self, op: dict) -> dict:
        return self._statement(op, lambda table: table.delete(condition(op["where"])))

    def _update(self, op: dict) -> dict:
        values = {"v": f"coalesce(v, 0) + {op['add']}"}
        return self._statement(op, lambda table: table.update(values, condition(op["where"])))

    def _merge(self, op: dict) -> dict:
        def run(table: Table) -> object:
            merge = table.merge(_arrow(op["rows"]), "t.k = s.k").when_matched_update({"v": "coalesce(t.v, 0) + s.v"})
            return merge.when_not_matched_insert_all().execute()

        return self._statement(op, run)

    def _statement(self, op: dict, run: Callable[[Table], object]) -> dict:
        table = self.table(op["table"])
        before = self._newest(table)
        report = run(table)
        counts = [report.inserted, report.updated, report.deleted]
        if report.snapshot is None:
            return {"ended": "nothing", "counts": counts, "between": [before, self._newest(table)]}
        return {"ended": "committed", "snapshot": report.snapshot.id, "counts": counts}

    def _keys_of(self, op: dict) -> list[dict]:
        names = self.table(op["table"]).primary_key
        return [{name: k if name == "k" else partition(k) for name in names} for k in op["keys"]]

    # -- keeping ------------------------------------------------------------------------------------------------------

    def _compact(self, op: dict) -> dict:
        return {"ended": "kept", "snapshot": self.table(op["table"]).compact().snapshot_id}

    def _full(self, op: dict) -> dict:
        return {"ended": "kept", "snapshot": self.table(op["table"]).compact(full=True).snapshot_id}

    def _expire(self, op: dict) -> dict:
        how = {} if op["choice"] < 0.5 else {"retain_min": KEEP, "retain_max": KEEP + 10}
        return {"ended": "kept", "expired": self.table(op["table"]).expire_snapshots(**how).snapshots}

    def _orphans(self, op: dict) -> dict:
        older_than = datetime.now(timezone.utc) - timedelta(seconds=self.config.orphan_age_s)
        return {"ended": "kept", "orphans": self.table(op["table"]).remove_orphan_files(older_than).files}

    def _tag(self, op: dict) -> dict:
        """Tag a snapshot, or delete a tag of this process."""
        table, prefix = self.table(op["table"]), f"{self.name}-"
        own = sorted(name for name in table.tags()["tag_name"].to_pylist() if name.startswith(prefix))
        try:
            if len(own) >= 3:
                table.delete_tag(own[0])
            elif newest := self._newest(table):
                table.create_tag(f"{prefix}{self.incarnation}-{self.number}", newest)
        except SnapshotNotFound as expired:  # while the process slept
            return self._expired(table, newest, expired)
        return {"ended": "kept"}

    # -- reading ------------------------------------------------------------------------------------------------------

    def _newest(self, table: Table) -> int:
        """The number of the newest snapshot file, by a listing: no cache, and no code of the library decides it."""
        folder = table.meta.paths.snapshots
        names = (entry.path.removeprefix(f"{folder}/snapshot-") for entry in self.storage.inner.list(folder))
        return max((int(name) for name in names if name.isdigit()), default=0)

    def _read(self, table: Table, number: int, rows: list[dict], **more: object) -> dict:
        found = seen(rows)
        return {"ended": "read", "snapshot": number, "count": len(found), "digest": digest(found), **more}

    def _scan(self, op: dict) -> dict:
        """The latest rows, which include every commit that was published before."""
        table = self.table(op["table"])
        before = self._newest(table)
        for _ in range(5):
            scan = table.scan()
            plan = scan.plan()
            number = plan.snapshot.id if plan.snapshot else 0
            if number < before:
                return {"ended": "fault", "why": f"a read sees snapshot {number}, though {before} was published before"}
            if not number:
                return self._read(table, 0, [])
            try:
                return self._read(table, number, table.scan(snapshot=number).to_arrow().to_pylist())
            except SnapshotNotFound as expired:
                outcome = self._expired(table, number, expired)
                if outcome["ended"] == "fault":
                    return outcome
        return outcome

    def _travel(self, op: dict, sql: bool = False) -> dict:
        table = self.table(op["table"])
        newest = self._newest(table)
        if not newest:
            return {"ended": "read", "snapshot": 0, "count": 0, "digest": 0}
        number = max(1, newest - int(op["choice"] ** 2 * KEEP))
        try:
            if sql:
                text = f"SELECT * FROM {DATABASE}.{op['table']} VERSION AS OF {number}"
                return self._read(table, number, self.lake.sql(text).to_arrow().to_pylist())
            return self._read(table, number, table.scan(snapshot=number).to_arrow().to_pylist())
        except SnapshotNotFound as expired:
            return self._expired(table, number, expired)

    def _sql(self, op: dict) -> dict:
        return self._travel(op, sql=True)

    def _expired(self, table: Table, number: int, error: SnapshotNotFound) -> dict:
        """A snapshot may be gone if so many newer ones are there."""
        if number <= self._newest(table) - KEEP:
            return {"ended": "expired"}
        return {"ended": "fault", "why": f"snapshot {number} is to be kept: {error}"}

    def _get(self, op: dict) -> dict:
        table = self.table(op["table"])
        before = self._newest(table)
        if not TABLES[op["table"]].keyed:
            rows = table.scan(where=f"k IN ({', '.join(map(str, op['keys']))})").to_arrow()
        else:
            rows = table.get(self._keys_of(op))
        return {"ended": "got", "between": [before, self._newest(table)], "rows": seen(rows.to_pylist())}

    def _tagged(self, op: dict) -> dict:
        table = self.table(op["table"])
        tags = [(tag["tag_name"], tag["snapshot_id"]) for tag in table.tags().to_pylist()]
        if not tags:
            return {"ended": "kept"}
        name, number = tags[int(op["choice"] * len(tags))]
        try:
            return self._read(table, number, table.scan(tag=name).to_arrow().to_pylist())
        except SnapshotNotFound:  # deleted meanwhile
            return {"ended": "expired"}

    def _changes(self, op: dict) -> dict:
        """The net changes between two snapshots."""
        table = self.table(op["table"])
        end = self._newest(table)
        start = max(1, end - int(op["choice"] * KEEP / 2))
        if not end:
            return {"ended": "kept"}
        try:
            rows = table.changes(start, end).to_arrow().to_pylist()
        except SnapshotNotFound as expired:
            return self._expired(table, start, expired)
        return {"ended": "changes", "start": start, "snapshot": end, "changes": _changes(rows)}

    def _follow(self, op: dict) -> dict:
        """Everything since the last call, as a consumer of this process. A batch is durable in the log before the next one is
        asked for, so a killed process gets at most this one again."""
        batches = 0
        table = self.table(op["table"])
        for batch in table.follow(consumer=self.name):
            rows = batch.to_arrow().to_pylist()
            self.log.put(followed=op["table"], snapshot=batch.snapshot, changes=_changes(rows))
            batches += 1
        return {"ended": "kept", "batches": batches}


def _is_able(verb: str, name: str) -> bool:
    kind = TABLES[name]
    if verb in ("upsert", "keys"):
        return kind.keyed
    if verb == "append":
        return not kind.keyed
    if verb == "overwrite":
        return kind.partitioned
    return kind.changes or verb not in ("update", "delete", "merge")


def _arrow(rows: Sequence[Sequence]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], SCHEMA)


def _changes(rows: list[dict]) -> list[list]:
    return [[row["_row_kind"], *values] for row, values in zip(rows, seen(rows), strict=True)]


if __name__ == "__main__":
    config, name, role, incarnation = sys.argv[1:]
    Worker(Config(**json.loads(config)), name, role, int(incarnation)).run()
