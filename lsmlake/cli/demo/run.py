"""`lsmlake demo`: streams a year of flights into one table, compacts and queries it meanwhile, and checks the result.

1. Write the events, one Parquet file per micro-batch, and start the engine: Spark, or this process where there is no Java.
2. Stream them into the table, and compact and query it at the same time (`feed`).
3. Query the table, and compare it with a batch computation: all rows and columns, read by the engine and by a scan, and as of
   half of the stream.
4. Count snapshots and bytes, and compare the time of a raw read with plain Parquet.
"""

from __future__ import annotations

import datetime
import logging
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.cli.demo.demo_engine import DemoEngine, EngineName
from lsmlake.cli.demo.events import (
    PARTITION_BY,
    PRIMARY_KEY,
    SCHEMA,
    DemoSource,
    events,
    final_state,
    flights_archive,
    load_flights,
)
from lsmlake.cli.demo.feed import DELAYS, Middle, answers, draw, feed, fullest
from lsmlake.cli.demo.proof import last_events, prove, race, written
from lsmlake.cli.demo.screen import Screen
from lsmlake.cli.java import require_java
from lsmlake.errors import Corrupt, InvalidOption, MissingDependency
from lsmlake.extras import need, need_spark
from lsmlake.format.data_files import COMPACT
from lsmlake.report.text import counted, human_bytes, human_count

DATABASE, NAME = "flights", "flights.flights"
BATCHES = 72  # five days each


def run_demo(
    keep: Path | None = None,
    engine: EngineName | None = None,
    *,
    until: datetime.date | None = None,
    batches: int = BATCHES,
    screen: Screen | None = None,
) -> None:
    """Run the demo; on two cores it takes one to two minutes on Spark, and less than half a minute in this process.

    Args:
        keep: a new or empty directory, in which the warehouse is left. Default: nothing is left.
        engine: Default: Spark, if Java is there.
        until: the last day of the flights.
        batches: the number of micro-batches.

    Raises:
        InvalidOption: `keep` is in use.
        MissingDependency: a package is missing, or Java for Spark.
        Corrupt: the table differs from the expected one.
    """
    engine, why = _chosen(engine)
    kept = None if keep is None else _new_directory(keep)
    screen, phases = screen or Screen(), Phases()
    with quiet(), interruption() as take_over, ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory(prefix="lsmlake-demo-")))
        with phases("events"):
            flights = _until(load_flights(), until)
            source = DemoSource.write(events(flights), scratch / "events", batches)
        with phases("start"):
            run = _started(engine, scratch, stack)
            take_over()
        _introduce(screen, run, flights, source)
        if why is not None:
            screen.say(f"\n{why}")
        screen.title(run.title)
        table = _create(run.lake(kept or scratch / "warehouse"))
        with phases("stream"):
            middle = feed(run, table, source, screen)
        with phases("queries"):
            screen.title("The table after the last event")
            screen.show(draw(table, fullest(table), "the fullest tree"))
            screen.show(answers(partial(run.ask, table)))
        with phases("proof"):
            _prove(screen, run, table, flights, source, middle)
        with phases("reads"):
            _count_costs(screen, run, table, source, scratch / "plain")
        screen.labelled("time", f"{phases.total:.0f} s: {phases.text()}")
    _farewell(screen, kept)


def _chosen(engine: EngineName | None) -> tuple[EngineName, str | None]:
    """The engine to run on and, if it is not Spark because Java is missing, a line that says how to get Spark."""
    flights_archive()
    why = None
    if engine is not EngineName.PYTHON:
        need_spark("the demo", extra="demo")
        try:
            require_java()
            return EngineName.SPARK, None
        except MissingDependency as missing:
            if engine is EngineName.SPARK:
                raise
            why = f"It runs without Spark here, which needs Java: {missing.cure}, and run it again."
    need("duckdb", "the demo", extra="demo")
    return EngineName.PYTHON, why


def _started(engine: EngineName, scratch: Path, stack: ExitStack) -> DemoEngine:
    if engine is EngineName.PYTHON:
        from lsmlake.cli.demo.in_process import InProcess

        return InProcess()
    from lsmlake.cli.demo.on_spark import OnSpark

    return stack.enter_context(OnSpark.started(scratch))


def _new_directory(keep: Path) -> Path:
    directory = keep.expanduser().absolute()
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InvalidOption(
            "the directory is not empty", where=f"--keep {keep}", expected="a new or empty directory", cure="name one"
        )
    return directory


def _until(flights: pa.Table, day: datetime.date | None) -> pa.Table:
    if day is None:
        return flights
    days = pc.add(pc.multiply(flights["month"], 100), flights["day"])
    return flights.filter(pc.less_equal(days, day.month * 100 + day.day))


def _introduce(screen: Screen, run: DemoEngine, flights: pa.Table, source: DemoSource) -> None:
    screen.title("A year of flights through one table")
    screen.say(
        f"{flights.num_rows:,} flights left New York in 2013. Each is announced a day ahead, departs, and arrives or is "
        f"cancelled: {source.events.num_rows:,} events in {len(source.ends)} Parquet files of {human_bytes(source.bytes)}. An "
        "event carries the whole row as far as it is known by then.\n\n"
        f"{run.intake} into one table: the key is the flight, a partition is a month, and each month is one LSM tree of Parquet "
        "files. A micro-batch becomes a sorted run there, and the older rows it supersedes are marked as deleted in deletion "
        "vectors, so no query has to merge. At the same time a second job compacts the table, and queries read it.\n\n"
        "At the end the table must hold exactly one row per flight, the latest. This is proved below."
    )


def _create(lake: Lake) -> Table:
    lake.create_database(DATABASE)
    return lake.create_table(NAME, SCHEMA, primary_key=PRIMARY_KEY, partition_by=PARTITION_BY, options={"bucket": 1})


def _prove(screen: Screen, run: DemoEngine, table: Table, flights: pa.Table, source: DemoSource, middle: Middle) -> None:
    screen.title("The proof: each table beside a batch computation over the source")
    expected = final_state(flights)
    prove(f"the table, read by {run.reader}", run.rows(table), expected, screen)
    prove("the table, read by a scan", table.scan().to_arrow(), expected, screen)
    half_way = f"snapshot {middle.snapshot}, the table after {middle.batches} micro-batches"
    prove(half_way, table.scan(snapshot=middle.snapshot).to_arrow(), last_events(source.until(middle.batches)), screen)
    if findings := table.verify():
        raise Corrupt("a check failed", where=findings[0].where, found=findings[0].what, cure="please report this")
    screen.labelled("sound", f"every invariant and checksum of {table.snapshots().num_rows} snapshots", "bold green")


def _count_costs(screen: Screen, run: DemoEngine, table: Table, source: DemoSource, plain: Path) -> None:
    screen.title("What it cost")
    kinds = table.snapshots()["commit_kind"].to_pylist()
    compactions = kinds.count(COMPACT)
    screen.labelled("snapshots", f"{len(kinds)}: {len(kinds) - compactions} micro-batches, {counted(compactions, 'compaction')}")
    all_ = written(table)
    parts = f"data {human_bytes(all_.data)}, deletion vectors {human_bytes(all_.vectors)}, metadata {human_bytes(all_.metadata)}"
    ratio = f"{all_.total / source.bytes:.2f} x the {human_bytes(source.bytes)} of the events in Parquet"
    screen.labelled("bytes written", f"{human_bytes(all_.total)}, {ratio}: {parts}")
    screen.labelled("", "of the events of one flight in a micro-batch only the last is written")
    files = table.files()
    reads = race(lambda: run.ask(table, DELAYS), run.plain(table, DELAYS, plain, files.num_rows))
    masked = f"{human_count(sum(files['deleted_record_count'].to_pylist()))} dead rows masked"
    screen.labelled("raw read", f"{reads.table:.3f} s for the delay by carrier: {counted(files.num_rows, 'file')}, {masked}")
    same = f"the same rows in {counted(len(list(plain.glob('*.parquet'))), 'file')} written by {run.writer}"
    screen.labelled("plain Parquet", f"{reads.plain:.3f} s for {same}")
    screen.labelled("ratio", f"{reads.ratio:.2f}; both warm and in turns, the best of five")


def _farewell(screen: Screen, kept: Path | None) -> None:
    if kept is None:
        screen.say("\nAll files of the demo are removed; `lsmlake demo --keep DIR` leaves the table in DIR to explore.")
        return
    screen.title("Commands to explore the table")
    for command in ("show", "snapshots", "files", "compact --full", "verify"):
        name, *options = command.split()
        screen.command(" ".join(["lsmlake", name, NAME, *options, "--warehouse", shlex.quote(str(kept))]))


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress log lines, warnings, and errors in threads and finalizers, where py4j reports every interrupted call at length.

    Errors of the block itself are raised.
    """
    hooks = sys.unraisablehook, threading.excepthook
    logging.disable()
    sys.unraisablehook = threading.excepthook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook, threading.excepthook = hooks
        logging.disable(logging.NOTSET)


@contextmanager
def interruption() -> Iterator[Callable[[], None]]:
    """Turns Ctrl-C during Spark's work into a single KeyboardInterrupt: later ones would only disturb the cleanup.

    Yields a function that replaces PySpark's handler, to be called once Spark has started. PySpark's handler calls Java, possibly
    in the middle of another call, which can raise any error. In the main thread only.
    """
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        if not pressed:
            pressed = True
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: signal.signal(signal.SIGINT, press)
    except BaseException:
        if pressed:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


class Phases:
    """`seconds` per phase; a phase entered again adds to its time."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0) + time.monotonic() - began

    @property
    def total(self) -> float:
        return time.monotonic() - self.began

    def text(self) -> str:
        return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items())
