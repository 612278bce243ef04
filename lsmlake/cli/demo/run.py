"""`lsmlake demo`: streams a year of flights into one table, compacts and queries it meanwhile, and checks the result.

1. Write the events, one Parquet file per micro-batch, and start Spark.
2. Stream them into the table, and compact and query it at the same time (`feed`).
3. Query the table, and compare it with a batch computation: all rows and columns, read with and without Spark, and as of half of
   the stream.
4. Count snapshots and bytes, and compare the time of a raw read with plain Parquet.
"""

from __future__ import annotations

import datetime
import shlex
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.cli.demo.cost import race, write_plain, written
from lsmlake.cli.demo.events import PARTITION_BY, PRIMARY_KEY, SCHEMA, events, final_state, load_flights
from lsmlake.cli.demo.feed import Middle, feed
from lsmlake.cli.demo.interruption import interruption
from lsmlake.cli.demo.phases import Phases
from lsmlake.cli.demo.picture import draw, fullest
from lsmlake.cli.demo.proof import last_events, prove
from lsmlake.cli.demo.queries import answers
from lsmlake.cli.demo.quiet import quiet
from lsmlake.cli.demo.screen import Screen
from lsmlake.cli.demo.source import Source
from lsmlake.cli.java import require_java
from lsmlake.cli.session import local_session
from lsmlake.errors import Corrupt, InvalidOption
from lsmlake.format.files import COMPACT
from lsmlake.report.text import counted
from lsmlake.report.units import human_bytes, human_count
from lsmlake.warehouse import connect

DATABASE, NAME = "flights", "flights.flights"
BATCHES = 72  # five days each
_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # a minute is too short for the second compiler to pay, and two cores are too few for a parallel collector
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def run_demo(
    keep: Path | None = None, *, until: datetime.date | None = None, batches: int = BATCHES, screen: Screen | None = None
) -> None:
    """Run the demo; takes one to two minutes on two cores. Leaves only the warehouse in `keep`, a new or empty directory.

    `until`: the last day of the flights. Raises InvalidOption, MissingDependency, and Corrupt if the table differs from the
    expected one.
    """
    require_java()
    kept = None if keep is None else _new_directory(keep)
    screen, phases = screen or Screen(), Phases()
    with quiet(), interruption() as take_over, ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory(prefix="lsmlake-demo-")))
        with phases("events"):
            flights = _until(load_flights(), until)
            source = Source.write(events(flights), scratch / "events", batches)
        _introduce(screen, flights, source)
        with phases("Spark's start"):
            spark = stack.enter_context(local_session("lsmlake demo", _SETTINGS))
            take_over()
        screen.title(f"The stream, on Spark {spark.version}")
        table = _create(connect(kept or scratch / "warehouse", spark=spark))
        with phases("stream"):
            middle = feed(spark, table, source, scratch / "checkpoint", screen)
        with phases("queries"):
            screen.title("The table after the last event")
            screen.show(draw(table, fullest(table), "the fullest tree"))
            screen.show(answers(table.df()))
        with phases("proof"):
            _prove(screen, table, flights, source, middle)
        with phases("reads"):
            _count_costs(screen, table, source, scratch / "plain")
        screen.labelled("time", f"{phases.total:.0f} s: {phases.text()}")
    _farewell(screen, kept)


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


def _introduce(screen: Screen, flights: pa.Table, source: Source) -> None:
    screen.title("A year of flights through one table")
    screen.say(
        f"{flights.num_rows:,} flights left New York in 2013. Each is announced a day ahead, departs, and arrives or is "
        f"cancelled: {source.events.num_rows:,} events in {len(source.ends)} Parquet files of {human_bytes(source.bytes)}. An "
        "event carries the whole row as far as it is known by then.\n\n"
        "Spark streams them, one file per micro-batch, into one table: the key is the flight, a partition is a month, and each "
        "month is one LSM tree of Parquet files. A micro-batch becomes a sorted run there, and the older rows it supersedes are "
        "marked as deleted in deletion vectors, so no query has to merge. At the same time a second job compacts the table, and "
        "queries read it.\n\n"
        "At the end the table must hold exactly one row per flight, the latest. This is proved below."
    )


def _create(lake: Lake) -> Table:
    lake.create_database(DATABASE)
    return lake.create_table(NAME, SCHEMA, primary_key=PRIMARY_KEY, partition_by=PARTITION_BY, options={"bucket": 1})


def _prove(screen: Screen, table: Table, flights: pa.Table, source: Source, middle: Middle) -> None:
    screen.title("The proof: each table beside a batch computation over the source")
    expected = final_state(flights)
    prove("the table, read by Spark", table.df().toArrow(), expected, screen)
    prove("the table, read without Spark", table.scan().to_arrow(), expected, screen)
    half_way = f"snapshot {middle.snapshot}, the table after {middle.batches} micro-batches"
    prove(half_way, table.scan(snapshot=middle.snapshot).to_arrow(), last_events(source.until(middle.batches)), screen)
    if findings := table.verify():
        raise Corrupt("a check failed", where=findings[0].where, found=findings[0].what, cure="please report this")
    screen.labelled("sound", f"every invariant and checksum of {table.snapshots().num_rows} snapshots", "bold green")


def _count_costs(screen: Screen, table: Table, source: Source, plain: Path) -> None:
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
    reads = race(table.df(), write_plain(table.df(), plain, files.num_rows))
    masked = f"{human_count(sum(files['deleted_record_count'].to_pylist()))} dead rows masked"
    screen.labelled("raw read", f"{reads.table:.3f} s for the delay by carrier: {counted(files.num_rows, 'file')}, {masked}")
    same = f"the same rows in {counted(len(list(plain.glob('*.parquet'))), 'file')} written by Spark"
    screen.labelled("plain Parquet", f"{reads.plain:.3f} s for {same}")
    screen.labelled("ratio", f"{reads.ratio:.2f}; both warm and in turns, the best of five")


def _farewell(screen: Screen, kept: Path | None) -> None:
    if kept is None:
        screen.say("\nAll files of the demo are removed; `lsmlake demo --keep DIR` leaves the table in DIR to explore.")
        return
    screen.title("Commands to explore the table")
    for command in ("show", "snapshots", "files", "compact --full", "verify"):
        name, *options = command.split()
        screen.say(" ".join(["lsmlake", name, NAME, *options, "--warehouse", shlex.quote(str(kept))]))
