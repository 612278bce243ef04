"""Tables of every kind, published, and the questions about them with lsmlake's own answers."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake import (
    add_column,
    add_partition_field,
    change_type,
    drop_column,
    drop_partition_field,
    move_column,
    rename_column,
    replace_partition_field,
    set_default,
    set_option,
)
from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.format import manifest
from lsmlake.iceberg import mirror
from lsmlake.iceberg.iceberg_view import IcebergView
from lsmlake.tables.version import Version
from readers.questions import COUNT, FILES, RANGES, REFS, ROW_IDS, ROWS, SNAPSHOTS, Filter, Question

DATABASE = "d"
LAZY = {"compaction.tier-runs": "9", "compaction.reclaim-dead-percent": "100"}
"""Compactions leave old files as they are, with vectors."""
LEVEL0 = {"write-only": "true"}
PUBLISHED = {"metadata.iceberg": "true"}
"""Every commit publishes, so later metadata inherits from earlier one. Otherwise all snapshots are published at once."""
UTC = dt.timezone.utc
ROW_COUNT = 40


class Asked(NamedTuple):
    """`answer`: the columns and rows that are right; of other questions than for rows their columns go by position."""

    question: Question
    answer: pa.Table


Build = Callable[[Lake, str], Table]
BUILDS: dict[str, Build] = {}


def build(name: str) -> Callable[[Build], Build]:
    def noted(made: Build) -> Build:
        BUILDS[name] = made
        return made

    return noted


# -- questions ----------------------------------------------------------------------------------------------------------


def asked_of(table: Table, title: str) -> Iterator[Asked]:
    """All questions about a table, once it is published."""
    of = (title, table.path, table.publish_iceberg())
    tags = {name: number for name, number in zip(*table.tags().select(["tag_name", "snapshot_id"]).columns, strict=True)}
    tags = {name.as_py(): number.as_py() for name, number in tags.items()}
    snapshots = sorted({*table.snapshots()["snapshot_id"].to_pylist(), *tags.values()})
    newest = snapshots[-1]
    for number in (None, *snapshots):
        rows = rows_at(table, newest if number is None else number)
        yield Asked(Question(*of, ROWS, number), rows)
        yield Asked(Question(*of, COUNT, number), count(rows.num_rows))
    for number in snapshots:
        yield _ranges(Question(*of, RANGES, number), rows_at(table, number))
    for name, number in tags.items():
        yield Asked(Question(*of, ROWS, tag=name), rows_at(table, number))
    for where in filters(rows_at(table, newest)):
        answer = rows_at(table, newest, " AND ".join(map(str, where)))
        if len(where) == 1:
            yield Asked(Question(*of, ROWS, where=where), answer)
        else:
            yield Asked(Question(*of, COUNT, where=where), count(answer.num_rows))
    branches = table.branches()["branch_name"].to_pylist()
    for name in branches:
        yield Asked(Question(*of, ROWS, tag=name), table.scan(branch=name).to_arrow())
        for tag in table.branch(name).tags()["tag_name"].to_pylist():
            tags[f"{name}/{tag}"] = None
            yield Asked(Question(*of, ROWS, tag=f"{name}/{tag}"), table.scan(branch=name, tag=tag).to_arrow())
    if not branches:  # their snapshots have other numbers there
        yield Asked(Question(*of, SNAPSHOTS), pa.table({"snapshot_id": snapshots}))
    refs = {"main": "BRANCH", **dict.fromkeys(tags, "TAG"), **dict.fromkeys(branches, "BRANCH")}
    yield Asked(Question(*of, REFS), pa.table({"name": [*refs], "type": [*refs.values()]}))
    number = rows_at(table, newest).num_rows
    yield Asked(Question(*of, ROW_IDS), pa.table({"rows": [number], "ids": [number], "different ids": [number]}))
    yield Asked(Question(*of, FILES), files_of(table))


def _ranges(question: Question, rows: pa.Table) -> Asked:
    columns = [field.name for field in rows.schema if not (pa.types.is_nested(field.type) or pa.types.is_floating(field.type))]
    found: dict[str, list] = {}
    for name in columns:
        values = [value for value in rows[name].to_pylist() if value is not None]
        found |= {f"{name}:min": [min(values, default=None)], f"{name}:max": [max(values, default=None)]}
        found[f"{name}:count"] = [len(values)]
    return Asked(question._replace(columns=tuple(columns)), pa.table(found))


def count(number: int) -> pa.Table:
    return pa.table({"count": [number]})


def rows_at(table: Table, number: int, where: str | None = None) -> pa.Table:
    """The rows that Iceberg shows of a snapshot: without those at level 0 where rows of a key are merged."""
    version = Version.at(table.meta, _snapshot(table, number))
    view = IcebergView.of(version)
    mode = "fresh" if view.level0 or version.schema.append_only else "raw"
    return table.scan(snapshot=number, mode=mode, where=where).to_arrow()


def _snapshot(table: Table, number: int):
    tagged = {tag.snapshot.id: tag.snapshot for tag in table.meta.tags.readable()}
    return tagged[number] if number in tagged else table.meta.snapshots.get(number)


def files_of(table: Table) -> pa.Table:
    """The data files that a reader of Iceberg sees."""
    view = IcebergView.of(table.version)
    version = table.version
    shown = [file for _, _, file in manifest.files_of(version.live(), version.schema) if view.shows(file)]
    return pa.table(
        {"content": [0] * len(shown), "path": [mirror.uri_of(table.meta, table.meta.paths.data(file)) for file in shown]}
    )


def filters(rows: pa.Table) -> Iterator[tuple[Filter, ...]]:
    """Conditions by the columns that have order, with values that are there and beside them."""
    found = []
    for field in rows.schema:
        column = pc.drop_null(rows[field.name])
        if column.null_count or pa.types.is_nested(field.type) or not len(column):
            continue
        if len(column) < len(rows):
            found += [Filter(field.name, "IS NULL"), Filter(field.name, "IS NOT NULL")]
        if pa.types.is_binary(field.type) or pa.types.is_boolean(field.type):
            continue
        values = sorted({value for value in column.to_pylist() if not isinstance(value, float) or isfinite(value)})
        if not values:
            continue
        middle, last = (literal(value, field.type) for value in (values[len(values) // 2], values[-1]))
        found += [Filter(field.name, "=", middle), Filter(field.name, "<", middle), Filter(field.name, ">=", last)]
        yield (Filter(field.name, ">=", middle), Filter(field.name, "<>", last))
    yield from ((one,) for one in found)


def literal(value: object, type_: pa.DataType) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        kind = "TIMESTAMP" if type_.tz else "TIMESTAMP_NTZ"
        return f"{kind} '{value.replace(tzinfo=None).isoformat(sep=' ', timespec='microseconds')}{'+00:00' if type_.tz else ''}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return repr(value) if not isinstance(value, Decimal) else f"{value:f}"


# -- tables -------------------------------------------------------------------------------------------------------------


def created(
    lake: Lake,
    name: str,
    columns: Sequence[tuple[str, pa.DataType]],
    options: Mapping[str, str] = LAZY,
    key: Sequence[str] = ("id",),
    partition_by: Sequence[str] = (),
) -> Table:
    buckets = {"bucket": "2"} if key else {}
    return lake.create_table(
        f"{DATABASE}.{name}",
        pa.schema(columns),
        primary_key=list(key),
        partition_by=list(partition_by),
        options=buckets | dict(options),
    )


DAYS = [dt.date(1969, 12, 30), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(2026, 11, 22)]
TIMES = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1), dt.datetime(2026, 3, 4, 5, 6, 7, 8)]
EVERY = {
    "b": (pa.bool_(), [True, False, None]),
    "i8": (pa.int8(), [-128, 127, 0, None]),
    "i16": (pa.int16(), [-32768, 32767, None, 5]),
    "i32": (pa.int32(), [-(1 << 31), (1 << 31) - 1, 7, None]),
    "i64": (pa.int64(), [-(1 << 63), (1 << 63) - 1, None, 9]),
    "f": (pa.float32(), [1.5, float("-inf"), -0.0, None, 0.0]),
    "d": (pa.float64(), [0.1, float("inf"), None, -2.5]),
    "nan": (pa.float64(), [float("nan"), 1.0, None]),
    "wide": (pa.decimal128(38, 4), [Decimal("-9999999999999999999999999999999999.9999"), Decimal("0.0001"), None]),
    "money": (pa.decimal128(5, 2), [Decimal("-1.28"), Decimal("1.27"), Decimal("0.00"), Decimal("999.99")]),
    "s": (pa.string(), ["ä€𝄞", "", "it's", "z" * 70, None]),
    "bin": (pa.binary(), [b"\0\xff", b"", b"\xff" * 40, None]),
    "day": (pa.date32(), [*DAYS, None]),
    "at": (pa.timestamp("us", "UTC"), [*(time.replace(tzinfo=UTC) for time in TIMES), None]),
    "local": (pa.timestamp("us"), [*TIMES, None]),
    "st": (
        pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]),
        [{"x": 1, "y": ["a", None]}, {"x": None, "y": []}, None],
    ),
    "m": (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", None)], [], None]),
    "deep": (pa.list_(pa.struct([("k", pa.map_(pa.int32(), pa.list_(pa.date32())))])), [[{"k": [(1, [DAYS[0]])]}], [], None]),
}


def every_type(ids: Sequence[int], turn: int, names: Sequence[str] = tuple(EVERY)) -> pa.Table:
    columns = {name: pa.array([EVERY[name][1][(i + turn) % len(EVERY[name][1])] for i in ids], EVERY[name][0]) for name in names}
    return pa.table({"id": pa.array(ids, pa.int64()), **columns})


@build("every type")
def _(lake: Lake, name: str) -> Table:
    table = created(lake, name, [("id", pa.int64()), *((column, type_) for column, (type_, _) in EVERY.items())])
    table.upsert(every_type(range(ROW_COUNT), 0))
    table.compact(full=True)
    table.upsert(every_type(range(0, ROW_COUNT, 9), 1))
    table.compact()
    return table


@build("every type at level 0")
def _(lake: Lake, name: str) -> Table:
    columns = [("id", pa.int64()), *((column, type_) for column, (type_, _) in EVERY.items())]
    table = created(lake, name, columns, LEVEL0 | PUBLISHED)
    table.upsert(every_type(range(ROW_COUNT), 0))
    table.upsert(every_type(range(0, ROW_COUNT, 9), 1))
    table.delete_keys(pa.table({"id": [1, 2]}))
    return table


def keyed(names: Sequence[str]) -> Build:
    return lambda lake, name: _keyed(lake, name, names)


def _keyed(lake: Lake, name: str, names: Sequence[str]) -> Table:
    columns = [*((column, EVERY[column][0]) for column in names), ("v", pa.int64())]
    table = created(lake, name, columns, LEVEL0 | PUBLISHED, key=names)

    def rows(turns: Sequence[int], v: int) -> pa.Table:
        values = {column: [value for value in EVERY[column][1] if value is not None] for column in names}
        made = {column: pa.array([of[turn % len(of)] for turn in turns], EVERY[column][0]) for column, of in values.items()}
        return pa.table({**made, "v": pa.array([v] * len(turns))})

    table.upsert(rows(range(ROW_COUNT), 0))
    table.upsert(rows(range(5, 12), 1))
    table.delete_keys(rows([3, 4], 0).drop_columns("v"))
    return table


build("a key of every type")(keyed(["b", "i32", "i64", "wide", "money", "s", "bin", "day", "at", "local"]))
build("a key of short integers")(keyed(["i8", "i16"]))


def plain(ids: Sequence[int], v: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([v * 1000 + i for i in ids], pa.int64())})


PLAIN = [("id", pa.int64()), ("v", pa.int64())]


@build("vectors")
def _(lake: Lake, name: str) -> Table:
    table = created(lake, name, PLAIN, LAZY | PUBLISHED)
    table.upsert(plain(range(ROW_COUNT * 10), 0))
    table.compact()
    for turn in range(1, 4):
        table.upsert(plain(range(turn, ROW_COUNT * 10, 37), turn))
        table.compact()
    table.delete("v < 20 OR id > 380")
    table.compact()
    return table


@build("level 0")
def _(lake: Lake, name: str) -> Table:
    table = created(lake, name, PLAIN, LEVEL0 | PUBLISHED)
    table.upsert(plain(range(ROW_COUNT), 0))
    table.compact()
    for turn in range(1, 4):
        table.upsert(plain(range(turn, ROW_COUNT, 7), turn))
        table.delete_keys(pa.table({"id": [turn * 3, 500]}))
    table.upsert(plain([3, 6], 9))
    return table


@build("level 0 is hidden")
def _(lake: Lake, name: str) -> Table:
    table = created(lake, name, PLAIN, LEVEL0 | PUBLISHED | {"metadata.iceberg.level0": "false"})
    table.upsert(plain(range(ROW_COUNT), 0))
    table.compact()
    table.upsert(plain(range(7), 1))
    return table


@build("level 0 is shown, hidden and shown")
def _(lake: Lake, name: str) -> Table:
    table = created(lake, name, PLAIN, LEVEL0 | PUBLISHED)
    table.upsert(plain(range(ROW_COUNT), 0))
    table.upsert(plain(range(7), 1))
    for turn, shown in enumerate(("false", "true")):
        table.alter(set_option("metadata.iceberg.level0", shown))
        table.delete_keys(pa.table({"id": [turn]}))
    return table


@build("no rows are left")
def _(lake: Lake, name: str) -> Table:
    table = created(lake, name, PLAIN, PUBLISHED)
    table.upsert(plain(range(5), 0))
    table.truncate()
    return table


PARTITIONS = {
    "identity": ["b", "i32", "s", "money", "day"],
    "years": ["years(day)"],
    "years at": ["years(at)"],
    "months": ["months(day)"],
    "months local": ["months(local)"],
    "days": ["days(day)"],
    "days at": ["days(at)"],
    "hours": ["hours(at)"],
    "hours local": ["hours(local)"],
    "truncate": ["truncate(3, s)", "truncate(10, i32)", "truncate(50, money)", "truncate(1, bin)"],
    "truncate long": ["truncate(10, i64)"],
    "bucket": ["bucket(3, s)", "bucket(2, i32)", "bucket(2, money)", "bucket(2, bin)"],
    "bucket times": ["bucket(2, day)", "bucket(2, at)", "bucket(2, local)", "bucket(2, i64)"],
}


def partitioned(partition_by: Sequence[str]) -> Build:
    """Without a key, so that partition values may be null."""

    def made(lake: Lake, name: str) -> Table:
        used = [column for column in EVERY if any(column in re.findall(r"\w+", one) for one in partition_by)]
        columns = [("id", pa.int64()), *((column, EVERY[column][0]) for column in used)]
        table = created(lake, name, columns, PUBLISHED, key=(), partition_by=partition_by)
        table.append(every_type(range(12), 0, used))
        table.append(every_type(range(12, 24), 1, used))
        table.delete("id % 5 = 1")
        return table

    return made


for _title, _partition_by in PARTITIONS.items():
    build(f"partitions: {_title}")(partitioned(_partition_by))


@build("partitions of a key, level 0")
def _(lake: Lake, name: str) -> Table:
    columns = [("id", pa.int64()), ("day", pa.date32()), ("s", pa.string()), ("v", pa.int64())]
    table = created(
        lake, name, columns, LEVEL0 | PUBLISHED, ["id", "day", "s"], ["months(day)", "truncate(1, s)", "bucket(2, id)"]
    )

    def rows(ids: Sequence[int], v: int) -> pa.Table:
        made = [{"id": i, "day": DAYS[i % 4], "s": f"{'%äb'[i % 3]}{i}", "v": v} for i in ids]
        return pa.Table.from_pylist(made, table.schema)

    table.upsert(rows(range(ROW_COUNT), 0))
    table.compact()
    table.upsert(rows(range(0, ROW_COUNT, 7), 1))
    table.delete_keys(rows([3, 4, 5], 0).drop_columns("v"))
    table.delete("v = 0 AND id < 9")
    return table


@build("several partition specs")
def _(lake: Lake, name: str) -> Table:
    columns = [("id", pa.int64()), ("at", pa.timestamp("us")), ("s", pa.string())]
    table = created(lake, name, columns, PUBLISHED, key=(), partition_by=["months(at)"])

    def add(ids: Sequence[int]) -> None:
        table.append(pa.table({"id": ids, "at": [TIMES[i % 3] for i in ids], "s": [[None, "a b", "c/d"][i % 3] for i in ids]}))

    add(range(6))
    table.alter(replace_partition_field("months(at)", "days(at)"))
    add(range(6, 12))
    table.alter(add_partition_field("s"))
    add(range(12, 18))
    table.delete("id % 4 = 0")
    table.alter(drop_partition_field("s"), add_partition_field("bucket(2, id)"))
    add(range(18, 24))
    return table


@build("evolved columns")
def _(lake: Lake, name: str) -> Table:
    columns = [("id", pa.int64()), ("gone", pa.string()), ("n", pa.int32()), ("f", pa.float32()), ("money", pa.decimal128(5, 2))]
    table = created(lake, name, columns, LAZY | PUBLISHED)

    def first(ids: Sequence[int]) -> pa.Table:
        values = {"gone": ["a"] * len(ids), "n": pa.array(ids, pa.int32()), "f": pa.array([i / 7 for i in ids], pa.float32())}
        return pa.table({"id": ids, **values, "money": pa.array([Decimal(i) for i in ids], pa.decimal128(5, 2))})

    table.upsert(first(range(ROW_COUNT)))
    table.compact(full=True)
    table.alter(drop_column("gone"), rename_column("n", "number"), change_type("number", "BIGINT"))
    table.alter(change_type("f", "DOUBLE"), change_type("money", "DECIMAL(20,2)"), move_column("f", first=True))
    table.alter(
        add_column("gone", "INT"),
        add_column("word", "STRING", default="x"),
        add_column("flag", "BOOLEAN", default=True),
        add_column("day", "DATE", default=dt.date(2020, 2, 29)),
        add_column("at", "TIMESTAMP", default=dt.datetime(2020, 1, 1, 1, tzinfo=UTC)),
        add_column("local", "TIMESTAMP_NTZ", default=dt.datetime(2020, 1, 1, 1, 2, 3, 4)),
        add_column("price", "DECIMAL(9,3)", default=Decimal("1.250")),
        add_column("ratio", "DOUBLE", default=0.5),
        add_column("raw", "BINARY", default=b"\0\xfe"),
        add_column("small", "SMALLINT", default=-3, after="id"),
    )

    def later(rows: Sequence[dict], *more: str) -> None:
        """Columns with a default are left out."""
        names = ["id", "number", "f", "money", "gone", *more]
        table.upsert(pa.Table.from_pylist(list(rows), pa.schema([table.schema.field(name) for name in names])))

    later([{"id": 2, "number": 1 << 40, "f": 0.1, "money": Decimal("123456.78"), "gone": 1}, {"id": 300}])
    table.alter(set_default("word", "y"), rename_column("word", "text"))
    later([{"id": 301, "day": DAYS[0]}, {"id": 302}], "day")
    table.compact()
    later([{"id": 5, "text": "own"}, {"id": 303}], "text")
    table.compact()
    return table


@build("evolved nested columns")
def _(lake: Lake, name: str) -> Table:
    inner = pa.struct([("x", pa.int32()), ("y", pa.string())])
    columns = [("id", pa.int64()), ("st", inner), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))]
    table = created(lake, name, columns, LAZY | PUBLISHED)
    one = {"x": 1, "y": "a"}
    table.upsert(
        pa.Table.from_pylist(
            [{"id": 1, "st": one, "l": [one, None], "m": [("k", one)]}, {"id": 2, "st": None, "l": [], "m": None}], table.schema
        )
    )
    table.compact()
    table.alter(
        add_column("st.z", "BIGINT"),
        rename_column("st.y", "text"),
        change_type("st.x", "BIGINT"),
        add_column("l.element.z", "STRING"),
        drop_column("l.element.x"),
        add_column("m.value.z", "DATE"),
        move_column("st.text", first=True),
    )
    more = {"id": 3, "st": {"text": "b", "x": 1 << 40, "z": 2}, "l": [{"y": "c", "z": "d"}], "m": [("n", {"x": 1, "z": DAYS[0]})]}
    table.upsert(pa.Table.from_pylist([more], table.schema))
    table.compact()
    table.alter(add_column("st.deep", "STRUCT<p: INT, q: ARRAY<INT>>"))
    table.upsert(pa.Table.from_pylist([{"id": 4, "st": {"deep": {"p": 1, "q": [2]}}}], table.schema))
    table.compact()
    return table


@build("append-only, vectors")
def _(lake: Lake, name: str) -> Table:
    table = created(lake, name, PLAIN, PUBLISHED, key=())
    for turn in range(12):
        table.append(plain(range(turn * 10, turn * 10 + 10), turn))
    table.delete("id % 7 = 3")
    table.update({"v": "v + 1"}, "id < 15")
    table.compact()
    table.append(plain(range(5), 99))
    return table


ENGINES = {
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row"},
    "sequence field": {"sequence.field": "v"},
}


def merged(options: Mapping[str, str]) -> Build:
    """Some rows wait at level 0."""

    def made(lake: Lake, name: str) -> Table:
        table = created(lake, name, [*PLAIN, ("w", pa.int64())], LEVEL0 | LAZY | PUBLISHED | dict(options))
        w = pa.array([None, 1, 2, None] * 10, pa.int64())
        table.upsert(plain(range(ROW_COUNT), 0).append_column("w", w))
        table.upsert(plain(range(0, ROW_COUNT, 3), 1).append_column("w", w[:14]))
        table.compact()
        table.upsert(plain(range(0, ROW_COUNT, 10), 2).append_column("w", w[:4]))
        table.compact()
        table.upsert(plain(range(ROW_COUNT), 3).append_column("w", w))
        return table

    return made


for _title, _options in ENGINES.items():
    build(f"merge rule: {_title}")(merged(_options))


@build("tags, expiry and rollback")
def _(lake: Lake, name: str) -> Table:
    table = created(lake, name, PLAIN, LAZY | PUBLISHED)
    for turn in range(9):
        table.upsert(plain(range(turn, ROW_COUNT, 5), turn))
        table.compact(full=turn % 4 == 3)
        if turn in (1, 4):
            table.create_tag(f"at-{turn}")
    table.expire_snapshots(retain_max=4, retain_min=1)
    table.rollback(tag="at-4")
    table.upsert(plain([1000], 1))
    return table


@build("rolled back with cut, published at once")
def _(lake: Lake, name: str) -> Table:
    table = created(lake, name, PLAIN, LAZY)
    for turn in range(5):
        table.upsert(plain(range(turn, ROW_COUNT, 5), turn))
        table.publish_iceberg()
    table.rollback(snapshot=3, cut=True)
    table.upsert(plain([1000], 1))
    table.compact()
    table.upsert(plain([1000, 1], 2))
    return table


@build("branches")
def _(lake: Lake, name: str) -> Table:
    table = created(lake, name, PLAIN, LAZY | PUBLISHED)
    table.upsert(plain(range(ROW_COUNT), 0))
    branch = table.create_branch("b")
    branch.upsert(plain(range(0, ROW_COUNT, 3), 1))
    table.upsert(plain(range(5), 2))
    branch.compact(full=True)
    branch.create_tag("1.0")
    branch.delete("id < 4")
    table.create_branch("c").upsert(plain([1000], 3))
    return table


def adopted(golden: str, key: Sequence[str]) -> Build:
    """A table whose files Spark wrote for Iceberg, with later changes."""

    def made(lake: Lake, name: str) -> Table:
        with TemporaryDirectory() as folder:
            with ZipFile(Path(__file__).parents[1] / "golden" / "iceberg-tables.zip") as content:
                content.extractall(folder)
            lake.import_iceberg(str(Path(folder) / golden), f"{DATABASE}.{name}", key, options=PUBLISHED)
        table = lake.table(f"{DATABASE}.{name}")
        table.delete("id = 14")
        rows = table.scan(where="id > 20").to_arrow()
        table.upsert(rows) if key else table.append(rows)
        return table

    return made


for _golden in ("v2", "v3", "evolved"):
    build(f"adopted from Iceberg: {_golden}")(adopted(_golden, ()))


def random_history(seed: int) -> Build:
    """Thirty steps of every sort."""

    def made(lake: Lake, name: str) -> Table:
        chance = random.Random(seed)
        keyed = chance.random() < 0.8
        options = chance.choice([LAZY, LEVEL0, {}] if keyed else [{}]) | chance.choice([PUBLISHED, {}])
        partition_by = chance.choice([[], ["p"], ["bucket(2, id)", "truncate(1, p)"]])
        columns = [("id", pa.int64()), ("p", pa.string()), ("v", pa.int64())]
        table = created(lake, name, columns, options, ["id", "p"] if keyed else (), partition_by)
        added = 0

        def rows(turn: int) -> pa.Table:
            ids = chance.sample(range(60), chance.randint(1, 30))
            words = [f"{'abc'[i % 3]}{i}" if keyed or i % 5 else None for i in ids]
            return pa.table({"id": pa.array(ids, pa.int64()), "p": words, "v": [turn * 100 + i for i in ids]})

        for turn in range(30):
            step = chance.choice(
                ["write"] * 6 + ["delete", "keys", "compact", "compact", "full", "column", "tag", "back", "expire"]
            )
            if step == "write":
                table.upsert(rows(turn)) if keyed else table.append(rows(turn))
            elif step == "delete":
                table.delete(f"id % 7 = {chance.randrange(7)}")
            elif step == "keys" and keyed:
                table.delete_keys(rows(turn).select(["id", "p"]))
            elif step in ("compact", "full"):
                table.compact(full=step == "full")
            elif step == "column":
                added += 1
                table.alter(add_column(f"c{added}", "INT", default=chance.choice([None, 7])))
            elif step == "tag" and turn > 3:
                table.create_tag(f"t{turn}")
            elif step == "back" and (numbers := table.snapshots()["snapshot_id"].to_pylist()):
                table.rollback(snapshot=chance.choice(numbers), cut=chance.random() < 0.3)
            elif step == "expire":
                table.expire_snapshots(retain_max=chance.randint(3, 8), retain_min=1)
        return table

    return made


def add_histories(seeds: range) -> None:
    for seed in seeds:
        build(f"random history {seed}")(random_history(seed))
