"""Interrupts calls of the library at random instants, and checks what they leave behind.

    python -m tests.interrupts --count 2000            # a report: how often something was wrong
    python -m tests.interrupts --only "sql merge" --seed 7

Each trial runs one call on a fresh copy of a small lake on disk and interrupts it once: by a signal after a random time
(`signal`; `ctrl-c`: the one that readers of Arrow handle themselves), or at a random line of Python (`line`), which also finds
instants that take no time. The exception is a
KeyboardInterrupt or a SystemExit of the trial's own class, so that one that was made anew is noticed.

A trial is in order if the call returned or raised that very exception; the table is at its old or at its new state, `verify`
finds nothing, and no file is there that nothing names; no temporary file or folder remains; and the next call works.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

import lsmlake
from lsmlake import Lake, Table, undo
from lsmlake.sql import streamed_rows as stream_sql
from lsmlake.storage.storage import TEMPORARY

sys.path.insert(0, str(Path(__file__).parent / "support"))
from naive import unreferenced

_THREAD_S = 5
_HANGS_S = 120
HOWS = "signal", "ctrl-c", "line"
LIBRARY = str(Path(lsmlake.__file__).parent)


class Pressed(KeyboardInterrupt):
    """The user pressed Ctrl-C."""


class Exit(SystemExit):
    """A handler of another signal ended the program."""


def rows(start: int, stop: int, value: int) -> pa.Table:
    codes = range(start, stop)
    return pa.table(
        {
            "id": pa.array(codes, pa.int64()),
            "part": pa.array([f"p{code % 2}" for code in codes]),
            "v": pa.array([value] * len(codes), pa.int64()),
            "text": pa.array([f"row {code} of {value}" for code in codes]),
        }
    )


def stream(*tables: pa.Table) -> Iterator[pa.RecordBatch]:
    for table in tables:
        yield from table.to_batches()


SCHEMA = "id BIGINT, part STRING, v BIGINT, text STRING"


def make(root: Path) -> None:
    """The lake that every trial starts from."""
    lake = lsmlake.connect(root / "lake")
    lake.create_database("d")
    keyed = lake.create_table("d.t", SCHEMA, primary_key=["id"], options={"bucket": 2})
    keyed.upsert(rows(0, 400, 1))
    lake.create_view_table("d.v", "SELECT part, sum(v) AS total FROM d.t GROUP BY part")
    keyed.upsert(rows(100, 150, 2), compact=False)
    keyed.delete_keys(rows(390, 400, 0).select(["id"]), compact=False)
    spilling = lake.create_table("d.s", SCHEMA, primary_key=["id"], options={"bucket": 1, "write-buffer-size": "1 kb"})
    spilling.upsert(rows(0, 50, 1))
    parts = lake.create_table("d.p", SCHEMA, primary_key=["id", "part"], partition_by=["part"], options={"bucket": 1})
    parts.upsert(rows(0, 60, 1))
    log = lake.create_table("d.a", SCHEMA)
    log.append(rows(0, 60, 1))
    log.append(rows(60, 90, 1))
    sorted_ = lake.create_table("d.c", SCHEMA, options={"clustering.columns": "v,id"})
    sorted_.append(rows(0, 60, 1))
    sorted_.append(rows(30, 90, 2))
    os.makedirs(root / "files" / "parquet")
    for number in range(3):
        pq.write_table(rows(10 * number, 10 * number + 10, number), root / "files" / "parquet" / f"{number}.parquet")
    csv.write_csv(rows(0, 3000, 6), root / "files" / "0.csv")
    rows(0, 100, 7).to_pandas().to_json(root / "files" / "1.json", orient="records", lines=True)


class Call(NamedTuple):
    """`run`: the call, on the lake. `table`: the one that it may change."""

    run: Callable[[Lake], object]
    table: str = "d.t"


def _file(lake: Lake, name: str) -> str:
    return str(Path(lake.table("d.t").meta.env.storage.root).parent / "files" / name)


def _read_csv(lake: Lake) -> Iterator[pa.RecordBatch]:
    for _ in range(3):
        yield from csv.read_csv(_file(lake, "0.csv")).to_batches()


def _changes(lake: Lake) -> object:
    return lake.table("d.t").changes(1).to_arrow()


CALLS: Mapping[str, Call] = MappingProxyType(
    {
        "upsert": Call(lambda lake: lake.table("d.t").upsert(rows(50, 120, 5))),
        "upsert in level 0": Call(lambda lake: lake.table("d.t").upsert(rows(50, 120, 5), compact=False)),
        "upsert that spills": Call(
            lambda lake: lake.table("d.s").upsert(stream(*(rows(n, n + 40, 5) for n in range(0, 200, 20)))), "d.s"
        ),
        "upsert into partitions": Call(lambda lake: lake.table("d.p").upsert(rows(10, 30, 5)), "d.p"),
        "delete_keys": Call(lambda lake: lake.table("d.t").delete_keys(rows(10, 20, 0).select(["id"]))),
        "delete": Call(lambda lake: lake.table("d.t").delete("v = 1 AND id < 50")),
        "refresh": Call(lambda lake: lake.refresh("d.v"), "d.v"),
        "delete of rows of a log": Call(lambda lake: lake.table("d.a").delete("id < 50"), "d.a"),
        "update": Call(lambda lake: lake.table("d.t").update({"v": "v + 10"}, "id < 120")),
        "merge": Call(
            lambda lake: (
                lake.table("d.t")
                .merge(stream(rows(380, 395, 7), rows(395, 410, 7)), "t.id = s.id")
                .when_matched_update({"v": "s.v + t.v"})
                .when_not_matched_insert_all()
                .execute()
            )
        ),
        "overwrite": Call(lambda lake: lake.table("d.t").overwrite(rows(0, 50, 9))),
        "overwrite of partitions": Call(lambda lake: lake.table("d.p").overwrite(rows(0, 20, 9)), "d.p"),
        "append": Call(lambda lake: lake.table("d.a").append(rows(90, 120, 3)), "d.a"),
        "compact": Call(lambda lake: lake.table("d.t").compact()),
        "rescale": Call(lambda lake: lake.table("d.t").rescale(3)),
        "compact in full": Call(lambda lake: lake.table("d.t").compact(full=True)),
        "compact a log": Call(lambda lake: lake.table("d.a").compact(full=True), "d.a"),
        "compact and sort": Call(lambda lake: lake.table("d.c").compact(full=True), "d.c"),
        "truncate": Call(lambda lake: lake.table("d.t").truncate()),
        "analyze": Call(lambda lake: lake.table("d.t").analyze()),
        "alter": Call(lambda lake: lake.table("d.t").alter(lsmlake.add_column("more", "INT"))),
        "rollback": Call(lambda lake: lake.table("d.t").rollback(1)),
        "expire snapshots": Call(
            lambda lake: lake.table("d.t").expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
        ),
        "tag": Call(lambda lake: lake.table("d.t").create_tag("now")),
        "branch": Call(lambda lake: lake.table("d.t").create_branch("side")),
        "publish_iceberg": Call(lambda lake: lake.table("d.t").publish_iceberg()),
        "create a table": Call(lambda lake: lake.create_table("d.new", SCHEMA, primary_key=["id"]), "d.new"),
        "create a table from": Call(lambda lake: lake.create_table_from("d.new", rows(0, 20, 1), primary_key=["id"]), "d.new"),
        "upsert of files": Call(lambda lake: lake.table("d.t").upsert([_file(lake, "0.csv"), _file(lake, "1.json")])),
        "upsert of what Arrow reads": Call(lambda lake: lake.table("d.t").upsert(_read_csv(lake))),
        "create a table from files": Call(
            lambda lake: lake.create_table_from("d.new", _file(lake, "0.csv"), primary_key=["id"]), "d.new"
        ),
        "import_parquet": Call(
            lambda lake: lake.import_parquet(_file(lake, "parquet"), "d.new"),
            "d.new",
        ),
        "sql select": Call(
            lambda lake: lake.sql("SELECT t.part, sum(t.v) FROM d.t JOIN d.p USING (id) GROUP BY t.part").to_arrow()
        ),
        "sql select of data": Call(
            lambda lake: lake.sql("SELECT count(*) FROM n JOIN d.t USING (id)", tables={"n": stream(rows(0, 9, 1))}).to_arrow()
        ),
        "sql insert": Call(lambda lake: lake.sql("INSERT INTO d.t SELECT id + 500, part, v, text FROM d.p WHERE id < 20")),
        "sql update": Call(lambda lake: lake.sql("UPDATE d.t SET v = -1 WHERE id IN (SELECT id FROM d.p WHERE v = 1)")),
        "sql delete": Call(lambda lake: lake.sql("DELETE FROM d.t WHERE id % 7 = 3")),
        "sql merge": Call(
            lambda lake: lake.sql(
                "MERGE INTO d.t USING d.p s ON d.t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v + 1 "
                "WHEN NOT MATCHED THEN INSERT *"
            )
        ),
        "sql select of files": Call(
            lambda lake: lake.sql(
                f"SELECT count(*) FROM csv.`{_file(lake, '0.csv')}` JOIN json.`{_file(lake, '1.json')}` ON true"
            ).to_arrow()
        ),
        "sql copy into": Call(
            lambda lake: lake.sql(
                f"COPY INTO d.t FROM '{_file(lake, '0.csv')}' FILEFORMAT = CSV FORMAT_OPTIONS ('header' = 'true')"
            )
        ),
        "sql create as": Call(lambda lake: lake.sql("CREATE TABLE d.new PRIMARY KEY (id) AS SELECT * FROM d.p"), "d.new"),
        "sql view": Call(lambda lake: lake.sql("CREATE VIEW d.w AS SELECT id FROM d.t")),
        "sql stream": Call(lambda lake: list(stream_sql.sql(lake, "SELECT id, v FROM d.t ORDER BY v").batches)),
        "scan": Call(lambda lake: lake.table("d.t").scan(where="v > 1").to_arrow()),
        "batches": Call(lambda lake: list(lake.table("d.t").scan().to_batches())),
        "in order": Call(lambda lake: lake.table("d.t").scan(order_by_key="asc", limit=9).to_arrow()),
        "polars": Call(lambda lake: lake.table("d.t").scan().to_polars().collect()),
        "duckdb": Call(lambda lake: lake.table("d.t").scan().to_duckdb()),
        "count": Call(lambda lake: len(lake.table("d.t").scan(where="v = 1"))),
        "get": Call(lambda lake: lake.table("d.t").get({"id": 101})),
        "changes": Call(_changes),
        "verify": Call(lambda lake: lake.table("d.t").verify()),
        "remove orphans": Call(lambda lake: lake.table("d.t").remove_orphan_files()),
        "drop": Call(lambda lake: lake.drop_table("d.p"), "d.p"),
        "rename": Call(lambda lake: lake.rename_table("d.p", "d.q"), "d.q"),
    }
)


# -- interrupting -----------------------------------------------------------------------------------------------------


class Interrupter:
    """Raises `error` once in the main thread, where `at` says: after so many seconds, or at the line of this number."""

    def __init__(self, error: BaseException, how: str, at: float) -> None:
        self.error, self.how, self.at, self.lines, self.where = error, how, at, 0, ""
        self.ignored = self.ended = False
        self._lock = threading.Lock()

    def run(self, call: Callable[[], object]) -> BaseException | None:
        """Returns what the call raised."""
        before = {number: signal.signal(number, self._signalled) for number in (signal.SIGALRM, signal.SIGINT)}
        timer = threading.Timer(self.at, self._press)
        hook, sys.unraisablehook = sys.unraisablehook, self._lost
        try:
            if self.how == "signal":
                signal.setitimer(signal.ITIMER_REAL, self.at)
            elif self.how == "ctrl-c":
                timer.start()
            else:
                sys.settrace(self._entered)
            try:
                call()
            finally:
                sys.settrace(None)
                signal.setitimer(signal.ITIMER_REAL, 0)
                self._end()
        except BaseException as error:
            return error
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            sys.unraisablehook = hook
        return None

    def _press(self) -> None:
        with self._lock:
            if not self.ended:
                os.kill(os.getpid(), signal.SIGINT)

    def _end(self) -> None:
        with self._lock:
            self.ended = True

    def _lost(self, unraisable: object) -> None:
        """Python has ignored the exception, as it does in finalizers."""
        self.ignored |= unraisable.exc_value is self.error

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code not in (Interrupter.run.__code__, Interrupter._end.__code__):  # the call goes on
            self.where = "".join(traceback.format_stack(frame)[-4:])
            raise self.error

    def _entered(self, frame: FrameType, event: str, _: object) -> Callable | None:
        name = frame.f_code.co_filename
        return (
            self._line if name.startswith(LIBRARY) or "contextlib" in name or "tempfile" in name or "concurrent" in name else None
        )

    def _line(self, frame: FrameType, event: str, _: object) -> Callable:
        self.lines += 1
        if self.lines == self.at:
            self.where = "".join(traceback.format_stack(frame)[-4:])
            raise self.error
        return self._line


# -- one trial --------------------------------------------------------------------------------------------------------


@contextmanager
def temporary_folder_at(path: Path) -> Iterator[Path]:
    """Temporary files are made there meanwhile."""
    path.mkdir(exist_ok=True)
    before, tempfile.tempdir = tempfile.tempdir, str(path)
    try:
        yield path
    finally:
        tempfile.tempdir = before


def state(table: Table) -> tuple:
    found = table.scan().to_arrow()
    return tuple(found.schema.names), tuple(sorted(map(str, found.to_pylist())))


def states(lake: Lake) -> dict[str, tuple]:
    return {name: state(lake.table(name)) for name in lake.tables()}


class Bench:
    """The lake before and after each call, and the measure of the call: seconds and lines."""

    def __init__(self, root: Path) -> None:
        self.root = root
        make(root / "base")
        self.before = states(lsmlake.connect(root / "base" / "lake"))
        self.known: dict[str, tuple[dict[str, tuple], float, int]] = {}

    def lake(self, name: str) -> Lake:
        shutil.rmtree(self.root / name, ignore_errors=True)
        shutil.copytree(self.root / "base", self.root / name)
        return lsmlake.connect(self.root / name / "lake")

    def measured(self, name: str) -> tuple[dict[str, tuple], float, int]:
        """The states after the call, its time and its lines."""
        if name not in self.known:
            for _ in range(2):  # the first one imports modules
                lake = self.lake("measure")
                began = time.perf_counter()
                if failed := Interrupter(Pressed(), "signal", 1e6).run(lambda lake=lake: CALLS[name].run(lake)):
                    raise failed
                seconds = time.perf_counter() - began
            after = states(lsmlake.connect(self.root / "measure" / "lake"))
            counting = Interrupter(Pressed(), "line", -1)
            lake = self.lake("measure")
            counting.run(lambda: CALLS[name].run(lake))
            self.known[name] = after, seconds, counting.lines
        return self.known[name]

    def trial(self, name: str, how: str, kind: type[BaseException], share: float) -> tuple[list[str], Interrupter, bool]:
        """Returns what was wrong, and whether the call was interrupted. `share`: the instant, of the length of the call."""
        after, seconds, lines = self.measured(name)
        lake = self.lake("trial")
        at = 1 + int(share * lines) if how == "line" else max(1e-6, 1.1 * share * seconds)
        interrupter = Interrupter(kind("in the trial"), how, at)
        with temporary_folder_at(self.root / "tmp") as folder:
            running = set(threading.enumerate())
            error = interrupter.run(lambda: CALLS[name].run(lake))
            interrupted = bool(interrupter.where) and not interrupter.ignored
            wrong = []
            if undo.current() is not None:
                wrong.append("a call that goes on")
            if error is not interrupter.error and (error is not None or interrupted):
                wrong.append(f"exception: {type(error).__name__}: {str(error)[:300]}")
            if error is not None:
                error = error.with_traceback(None)
                interrupter.error.__context__ = None
            gc.collect()
            wrong += [f"temporary: {kept.name}" for kept in folder.iterdir()]
            shutil.rmtree(folder)
            folder.mkdir()
            wrong += self.left(name, after)
            wrong += [f"thread: {thread.name}" for thread in set(threading.enumerate()) - running if _works(thread)]
        return wrong, interrupter, interrupted

    def left(self, name: str, after: Mapping[str, tuple]) -> list[str]:
        """What is wrong in the lake of the trial."""
        root = self.root / "trial" / "lake"
        wrong = [f"temporary file: {path.relative_to(root)}" for path in root.rglob(f"{TEMPORARY}*")]
        try:
            lake = lsmlake.connect(root)
            found = states(lake)
            if found not in (self.before, after):
                differs = [
                    one for one in {*found, *after, *self.before} if found.get(one) not in (self.before.get(one), after.get(one))
                ]
                wrong.append(f"state: {differs or 'a mixture'}")
            for one in found:
                table = lake.table(one)
                wrong += [f"verify: {finding}" for finding in table.verify()]
                wrong += [f"orphan: {path}" for path in unreferenced(table)]
                snapshots = table.snapshots()["schema_id"].to_pylist() if "schema_id" in table.snapshots().column_names else []
                stored = sorted(int(path.name.removeprefix("schema-")) for path in Path(table.path).glob("schema/schema-*"))
                wrong += [f"orphan: schema {number} of {one}" for number in stored if snapshots and number > max(snapshots)]
            folders = [path for path in (root / "d.db").iterdir() if path.is_dir() and path.name != ".views"]
            there = {path.name for path in folders if any(file.is_file() for file in path.rglob("*"))}
            wrong += [f"orphan: folder {name}" for name in there - {one.partition(".")[2] for one in found}]
            if "d.t" in found:
                lake.sql("SELECT count(*) AS n FROM d.t").to_arrow()
                lake.table("d.t").upsert(rows(0, 5, 8))
        except Exception as failed:
            wrong.append(f"next call: {type(failed).__name__}: {failed}")
        return wrong


def _works(thread: threading.Thread) -> bool:
    """Whether a thread of the library goes on."""
    if thread.name.startswith(("ThreadPoolExecutor", "lsmlake")):
        thread.join(_THREAD_S)
    return thread.name.startswith(("ThreadPoolExecutor", "lsmlake")) and thread.is_alive()


# -- the long form ----------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--how", choices=HOWS)
    parser.add_argument("--only")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    chance = random.Random(given.seed)
    names = [name for name in CALLS if given.only is None or given.only in name]
    kinds: Counter[str] = Counter()
    interruptions = faulty = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        bench = Bench(Path(folder))
        for number in range(given.count):
            name = names[number % len(names)]
            how = given.how or chance.choice(HOWS)
            kind = chance.choice([Pressed, Exit])
            faulthandler.dump_traceback_later(_HANGS_S, exit=True)
            wrong, interrupter, interrupted = bench.trial(name, how, kind, chance.random())
            interruptions += interrupted
            if interrupted and wrong:
                faulty += 1
                kinds.update({one.partition(":")[0] for one in wrong})
                print(f"#{number} {name} ({how}, {kind.__name__}): {wrong}", flush=True)
                if given.show:
                    print(interrupter.where)
            elif wrong:
                print(f"#{number} {name}: not interrupted, yet {wrong}", flush=True)
    print(f"{interruptions} interrupted calls, {faulty} with faults: {dict(kinds)}")


if __name__ == "__main__":
    main()
