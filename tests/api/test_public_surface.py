"""The public API raises only LakeErrors for any arguments.

Every public callable is found by reflection, and every parameter gets every value of a table of nasty ones while the others are
valid. A new method is covered at once if its parameters have known names; else a test asks for a valid value in `VALID`.
`LSMLAKE_EXAMPLES=20 pytest tests/api/test_public_surface.py` tries twenty times as many calls.
"""

from __future__ import annotations

import datetime as dt
import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from effort import scaled
from strategies import copied, new_lake

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.errors import InternalError, LakeError
from lsmlake.storage.memory import MemoryStorage
from lsmlake.warehouse import EmbeddedRuntime

CALLS = scaled(800)
PROTOCOLS = "__len__", "__arrow_c_stream__", "__getitem__"


class Polled(LakeError):
    """Somebody waits for more: the end of a call that polls until it is stopped."""


def polled(seconds: float) -> None:
    raise Polled("waited")


def lake_of(storage: MemoryStorage) -> Lake:
    lake = new_lake(storage)
    return Lake(replace(lake.env, sleep=polled), EmbeddedRuntime(lambda spark: Runtime()))


def start() -> MemoryStorage:
    storage = MemoryStorage()
    lake = lake_of(storage)
    table = lake.create_table("d.t", "k INT, p STRING, v BIGINT", primary_key=["k", "p"], partition_by=["p"])
    table.upsert(rows())
    table.upsert([{"k": 1, "p": "a", "v": 9}], compact=False)
    table.delete_keys([{"k": 2, "p": "a"}])
    table.create_tag("d")
    table.create_branch("d")
    return storage


def rows() -> pa.Table:
    return pa.table({"k": pa.array([1, 2, 3], pa.int32()), "p": ["a", "a", None], "v": [1, None, 3]}).slice(0, 2)


OWNERS: dict[type, Callable[[Lake], object]] = {
    lsmlake.Lake: lambda lake: lake,
    lsmlake.Table: lambda lake: lake.table("d.t"),
    lsmlake.Merge: lambda lake: lake.table("d.t").merge(rows(), "t.k = s.k AND t.p = s.p"),
    lsmlake.Scan: lambda lake: lake.table("d.t").scan(where="v > 0"),
    lsmlake.ScanSplit: lambda lake: lake.table("d.t").scan(where="v > 0").splits()[0],
    lsmlake.Changes: lambda lake: lake.table("d.t").changes(0),
    lsmlake.ChangeBatch: lambda lake: next(lake.table("d.t").follow()),
    lsmlake.Result: lambda lake: lake.sql("SELECT 1 AS a"),
}

EVENT = '{"type": "insert", "database": "d", "table": "t", "data": {"k": 1}}'
VALID: dict[str, object] = {
    "text": "SELECT 1",
    "args": None,
    "excluding_tables": r"d\.x",
    "table_mapping": {r"d\.y": "z"},
    "table_prefix": "",
    "table_suffix": "_s",
    "merge_shards": True,
    "primary_keys": {"t": ["k"]},
    "computed_columns": {"t": {"twice": "k * 2"}},
    "infer_types": False,
    "tables": {"default": None, "maintain": ["d.t"], "health": ["d.t"], "maintenance": ["d.t"]},
    "truncate": False,
    "roll_back_to": None,
    "drop": (),
    "action": None,
    "after": None,
    "alterations": (lsmlake.set_option("write-only", True),),
    "branch": None,
    "buckets": [0],
    "cascade": True,
    "cast": True,
    "catalog": None,
    "checkpoint": {"default": "/nowhere", "sync": None},
    "column": {"default": "v", **dict.fromkeys(("upsert", "sink", "write_stream"))},
    "columns": {"default": ["k", "v"], **dict.fromkeys(("upsert", "sink", "write_stream"))},
    "connection": None,
    "time_zone": None,
    "consumer": "c",
    "comment": "text",
    "commit_id": 5,
    "compact": None,
    "cut": False,
    "data": rows(),
    "database": "d",
    "default": 7,
    "df": rows(),
    "dry_run": False,
    "end": None,
    "evolve": {"default": True, "sync": "add"},
    "field": "days(ts)",
    "files": "missing",
    "first": True,
    "full": True,
    "if_not_exists": True,
    "ignore_sequence": True,
    "condition": "t.v IS NULL OR s.v > 0",
    "isolation": "snapshot",
    "key": {"k": 1, "p": "a"},
    "keys": [{"k": 1, "p": "a"}],
    "limit": 5,
    "link": False,
    "newest": False,
    "verify": True,
    "location": "memory",
    "max_bytes": 5,
    "once": True,
    "every": None,
    "plan": True,
    "workers": 1,
    "memory": "1 gb",
    "bytes_per_second": None,
    "level0_runs": 5,
    "unmerged_time": "1 h",
    "dead_share": 0.5,
    "consumer_lag": 5,
    "publication_lag": 5,
    "commit_time": "1 d",
    "metadata": "missing",
    "max_files": 5,
    "max_rows": 5,
    "mode": None,
    "order_by_key": "asc",
    "name": {
        "table": "d.t",
        "__getitem__": "d.t",
        "default": "d",
        "create_table": "d.new",
        "create_tag": "new",
        "create_branch": "new",
        "create_table_from": "d.new",
        "create_view_table": "d.new",
        "refresh": "d.t",
        "rename_table": "d.t",
        "reset_consumer": "c",
        "drop_table": "d.t",
        "system_table": "files",
        "copy": None,
        "history_of": "d.history",
        "import_delta": "d.imported",
        "import_iceberg": "d.imported",
        "import_parquet": "d.imported",
    },
    "url": "memory://copies",
    "new_name": {"default": "d.t2", "rename_branch": "other"},
    "new": "hours(ts)",
    "next_snapshot": 1,
    "old": "days(ts)",
    "on": "t.k = s.k AND t.p = s.p",
    "older_than": "2026-01-01",
    "options": {"bucket": 2},
    "partition_by": [],
    "primary_key": ["k"],
    "replace": False,
    "replaces": "w",
    "retain": "7 d",
    "retain_max": 5,
    "retain_min": 1,
    "query": "SELECT k, count(*) AS n FROM d.t GROUP BY k",
    "rows": 5,
    "row_kind": None,
    "null_values": None,
    "delimiter": None,
    "encoding": None,
    "order_by": "v",
    "format": {"default": None, "changes": "debezium-json", "follow": "canal-json", "sync": "maxwell-json"},
    "track": ["v"],
    "track_except": None,
    "sequence_by": None,
    "on_error": "raise",
    "rejected": None,
    "apply_as_deletes": "v > 5",
    "apply_as_truncates": "v > 9",
    "ignore_null_updates": False,
    "except_columns": None,
    "commit_columns": False,
    "query_name": None,
    "schema": "k INT, v BIGINT",
    "snapshot": 1,
    "last": 1,
    "source": {"default": rows(), "history_of": "d.t", "sync": [EVENT]},
    "spark": None,
    "storage_options": None,
    "cache": None,
    "cache_bytes": None,
    "start": {"default": 0, "history_of": "latest-full"},
    "strategy": "auto",
    "table": "missing",
    "tag": None,
    "timestamp": None,
    "trigger": {"availableNow": True},
    "type": "INT",
    "value": "true",
    "values": {"default": {"v": "t.v + 1"}, "update": {"v": "v + 1"}, "when_not_matched_insert": {"k": "s.k", "p": "s.p"}},
    "version": 1,
    "wait": 1,
    "where": "p = 'a'",
    "batch_size": 2,
    "writer_id": "w",
}
"""Parameter -> a valid value, or by the name of the function where that differs."""

DEEP = pa.int32()
for _ in range(800):
    DEEP = pa.list_(DEEP)
NASTY: list[object] = [
    *(None, True, False, 0, 1, -1, 10**6, 2**31, 2**63, 2**64, 1.5, float("nan"), float("inf"), Decimal("NaN"), np.int64(1)),
    *("", " ", "x", "a/b", "..", "d.t", "d.missing", "d.t\0", "\0", "\ud800", "k\udfff = 1", "'", "`", "true", "5", "é" * 300),
    *("x" * 100_000, "(" * 10_000 + "k = 1" + ")" * 10_000, "NOT " * 3_000 + "v > 1", " OR ".join(["v = 1"] * 500)),
    *("k IN (" + ", ".join(map(str, range(3_000))) + ")", "v = '\0'", "v = '\ud800'", "k = 99999999999999999999999", "v = 1 = 2"),
    *("k " + "ARRAY<" * 2_000 + "INT" + ">" * 2_000, "k INT, " * 500 + "z INT", "k INT COMMENT '\ud800'", "k STRUCT<"),
    *("(" * 10**6, b"bytes", bytearray(b"x"), object(), len, int, ValueError("x"), ..., range(3), iter([1]), {1, 2}, frozenset()),
    *([], [None], [1], ["k"], ["k", "k"], ["missing"], ["\ud800"], ["k\0"], ["a/b"], [[]], [{}], [{"k": 1}], [{1: 2}], ()),
    *(("k",), {}, {"k": 1}, {"k": [1]}, {1: 2}, {"x": None}, {"\ud800": "x"}, {"bucket": "\ud800"}, {"bucket": -1}),
    *({"bucket": [1]}, {"comment\0": 1}, {"fields.v.aggregate-function": object()}, [{"k": "\ud800"}], {"k": 5}),
    *([{"k": 1, "p": "a", "v": 2**70}], [{"k": 1, "p": "\ud800", "v": 2}]),
    *(dt.datetime.min, dt.datetime.max, dt.date(2026, 1, 1), dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14)))),
    *("0001-01-01", "9999-12-31 23:59:59.999999", "2026-01-01T00:00:00+99:00", "2026-13-01"),
    *(pa.table({}), rows().slice(0, 0), rows().select(["v"]), pa.schema([]), pa.schema([("k", DEEP)])),
    *(pa.schema([("k", pa.null())]), pa.schema([("k", pa.dictionary(pa.int8(), pa.string()))])),
    *(pa.schema([("k", pa.union([], "sparse"))]), pa.int32()),
    *(pa.table({"k": [1], "p": ["a"], "v": [{"x": 1}]}), pa.chunked_array([[1]]), rows().to_batches()[0], lsmlake.set_option),
]  # fmt: skip


class Entry(NamedTuple):
    """One public callable. `owner` None: a function of the package."""

    owner: type | None
    name: str
    function: Callable
    is_property: bool = False

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        named = inspect.signature(self.function).parameters
        return {
            name: each for name, each in named.items() if name not in ("self", "requested_schema")
        }  # a capsule of the consumer


def entries() -> list[Entry]:
    found = []
    for name in lsmlake.__all__:
        thing = getattr(lsmlake, name)
        if inspect.isfunction(thing):
            found.append(Entry(None, name, thing))
    for owner in OWNERS:
        for name, member in inspect.getmembers(owner):
            if isinstance(member, property) and not name.startswith("_"):
                found.append(Entry(owner, name, member.fget, is_property=True))
            elif inspect.isfunction(member) and (not name.startswith("_") or name in PROTOCOLS):
                found.append(Entry(owner, name, member))
    return found


ENTRIES = entries()


def valid(name: str, entry: Entry) -> object:
    value = VALID[name]
    return value.get(entry.name, value["default"]) if isinstance(value, dict) and "default" in value else value


EXPECTED = Path(__file__).with_name("public_surface.txt")


def surface() -> list[str]:
    """Every public name with its signature, and every error with its bases: a line each."""
    lines = [f"lsmlake.{name}" for name in sorted(lsmlake.__all__)]
    lines += [f"lsmlake.{entry.name}{inspect.signature(entry.function)}" for entry in ENTRIES if entry.owner is None]
    classes = [thing for thing in (getattr(lsmlake, name) for name in lsmlake.__all__) if inspect.isclass(thing)]
    for owner in sorted(classes, key=lambda each: each.__name__):
        for name, member in inspect.getmembers(owner):
            if name.startswith("_") and not (name in PROTOCOLS and inspect.isfunction(member)):
                continue
            whole = inspect.signature(member) if inspect.isfunction(member) or inspect.ismethod(member) else ""
            result = f" -> {inspect.signature(member.fget).return_annotation}" if isinstance(member, property) else ""
            lines.append(f"{owner.__name__}.{name}{whole}{result}")
    for name, error in sorted(vars(lsmlake.errors).items()):
        if inspect.isclass(error) and issubclass(error, LakeError):
            lines.append(f"errors.{name}({', '.join(base.__name__ for base in error.__bases__)})")
    return lines


def test_the_public_surface_is_the_one_that_is_written_down():
    """After a change that is meant: `python tests/api/test_public_surface.py` writes it anew."""
    assert surface() == EXPECTED.read_text().splitlines()


def test_every_public_class_and_parameter_is_known():
    classes = [thing for thing in (getattr(lsmlake, name) for name in lsmlake.__all__) if inspect.isclass(thing)]
    verbs = [owner for owner in classes if not issubclass(owner, tuple) and any(map(inspect.isfunction, vars(owner).values()))]
    values = {"CompactionReport", "DmlReport", "RefreshReport", "SyncReport"}
    assert {owner.__name__ for owner in verbs} - values <= {owner.__name__ for owner in OWNERS}, "add the class to OWNERS"
    for entry in ENTRIES:
        unknown = [name for name in entry.parameters if name not in VALID]
        assert not unknown, f"{entry.name}: add a valid value for {unknown} to VALID"


def test_every_public_callable_has_the_border():
    without = [entry.name for entry in ENTRIES if not hasattr(entry.function, "__wrapped__")]
    assert without == [], "put @public on it"


def used(result: object) -> None:
    """Use what a call has returned as far as a user would: lazy results are read."""
    if isinstance(result, Iterator) and not isinstance(result, pa.RecordBatchReader):
        result = list(islice(result, 3))
    for one in result if isinstance(result, list) else [result]:
        if isinstance(one, (lsmlake.Scan, lsmlake.Changes, lsmlake.ChangeBatch, lsmlake.Result)):
            one.to_arrow()
        if isinstance(one, pa.RecordBatchReader):
            one.read_all()
        if isinstance(one, lsmlake.Merge):
            one.execute()
        if isinstance(one, lsmlake.Table):
            assert one.scan().count() >= 0
        repr(one)


def call(entry: Entry, world: MemoryStorage, nasty: dict[str, object]) -> None:
    lake = lake_of(world)
    arguments = [OWNERS[entry.owner](lake)] if entry.owner else []
    named = {}
    for name, parameter in entry.parameters.items():
        if name in nasty:
            value = nasty[name]
        elif parameter.default is inspect.Parameter.empty:
            value = valid(name, entry)
        else:
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            arguments.extend(value if isinstance(value, tuple) else [value])
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            arguments.append(value)
        else:
            named[name] = value
    used(entry.function(*arguments, **named))


def cases() -> list[tuple[Entry, dict[str, object]]]:
    found = [(entry, {}) for entry in ENTRIES]
    every = [(entry, {name: value}) for entry in ENTRIES for name in entry.parameters for value in NASTY]
    rng = random.Random(11)
    rng.shuffle(every)
    found += every[:CALLS]
    for _ in range(CALLS - len(every)):
        entry = rng.choice([entry for entry in ENTRIES if len(entry.parameters) > 1])
        names = rng.sample(list(entry.parameters), 2)
        found.append((entry, {name: rng.choice(NASTY) for name in names}))
    return found


def test_nothing_but_errors_of_the_library_comes_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world, wrong, refused, done = start(), [], 0, 0
    for entry, nasty in cases():
        try:
            call(entry, copied(world), nasty)
            done += not nasty
        except InternalError as error:
            wrong.append((entry.name, shown(nasty), f"{error.found}"))
        except LakeError as error:
            refused += 1
            assert str(error).encode(), "a message that can be printed"
        except Exception as error:
            wrong.append((entry.name, shown(nasty), repr(error)[:300]))
    assert not wrong, "\n".join(sorted({f"{name} {given}: {found}" for name, given, found in wrong}))
    assert refused > 100
    assert done > 0.8 * len(ENTRIES), "most calls with valid arguments succeed"


def shown(nasty: dict[str, object]) -> str:
    return ", ".join(f"{name}={ascii(value)[:60]}" for name, value in nasty.items())


if __name__ == "__main__":
    EXPECTED.write_text("\n".join(surface()) + "\n")
