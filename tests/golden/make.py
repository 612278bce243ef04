"""Makes a golden table of the present format version: `python tests/golden/make.py tests/golden/v1`.

Run it once for a new format version, never to mend a failing test: files that users have cannot be made again.
"""

from __future__ import annotations

import datetime as d
import itertools
import json
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake import (
    add_column,
    add_partition_field,
    change_type,
    drop_column,
    drop_partition_field,
    rename_column,
    replace_partition_field,
    set_comment,
)
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.compact.reshape import reshape
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.lsm.cover import Share
from lsmlake.lsm.pick.pick_reshape import Reshaping
from lsmlake.maintain.followers import FOLLOWERS
from lsmlake.storage.env import Env
from lsmlake.storage.local import LocalStorage

SCHEMA = pa.schema(
    [
        pa.field("region", pa.string()),
        pa.field("id", pa.int64(), False),
        pa.field("code", pa.string(), False),
        pa.field("b", pa.bool_()),
        pa.field("i8", pa.int8()),
        pa.field("i16", pa.int16()),
        pa.field("i32", pa.int32()),
        pa.field("f", pa.float32()),
        pa.field("x", pa.float64()),
        pa.field("money", pa.decimal128(38, 4)),
        pa.field("raw", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("who", pa.struct([("name", pa.string()), ("age", pa.int32())])),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("attrs", pa.map_(pa.string(), pa.int64())),
    ]
)


def rows(ids: range, version: int) -> pa.Table:
    """Deterministic rows with every type, nulls and awkward values among them."""
    made = []
    for i in ids:
        null = i % 7 == 3
        made.append(
            {
                "region": [None, "eu", "us=1/x"][i % 3],
                "id": i,
                "code": f"k{i % 5}é",
                "b": None if null else i % 2 == 0,
                "i8": i % 128,
                "i16": -i,
                "i32": version,
                "f": i / 4,
                "x": float("nan") if i % 11 == 0 else i * 1.5,
                "money": Decimal(i * version) / 10000,
                "raw": bytes([i % 256, 0, 255]),
                "day": d.date(1969, 12, 30) + d.timedelta(days=i),
                "at": None if null else d.datetime(2026, 1, 1, 12, 0, 0, i, tzinfo=d.timezone.utc),
                "local": d.datetime(1950, 5, 5, 1, 2, 3, i),
                "who": None if null else {"name": "ü" * (i % 4), "age": i},
                "tags": [None, [], ["a", None]][i % 3],
                "attrs": [("n", i)] if i % 2 else None,
            }
        )
    return pa.Table.from_pylist(made, schema=SCHEMA)


def build(lake: Lake) -> None:
    lake.create_database("golden")
    table = lake.create_table(
        "golden.all",
        SCHEMA,
        primary_key=["region", "id", "code"],
        partition_by=["region"],
        options={"bucket": 2, "bucket-key": "id", "compaction.tier-runs": 3, "manifest.merge-min-count": 4},
        comment="every type",
    )
    table.upsert(rows(range(60), 1))
    table.upsert(rows(range(20, 40), 2))
    table.delete_keys(rows(range(50, 55), 1).select(["region", "id", "code"]))
    table.upsert(rows(range(30, 70), 3), writer_id="job", commit_id=7)
    table.compact(full=True)
    table.upsert(rows(range(10), 4))
    table.upsert(rows(range(5, 15), 5), compact=False)
    table.delete_keys(rows(range(8, 12), 1).select(["region", "id", "code"]), compact=False)
    table.create_tag("before")
    table.create_branch("side")
    table.alter(
        add_column("note", "STRING", default="none", after="code"),
        add_column("who.born", "DATE", default=d.date(2000, 2, 29)),
        rename_column("i32", "version"),
        rename_column("who.age", "years"),
        change_type("i8", "BIGINT"),
        drop_column("b"),
        set_comment("money", "in cents"),
    )
    table.upsert(altered_rows(range(60, 75), 6, table.schema))
    table.overwrite(altered_rows(range(0, 9, 3), 7, table.schema), where="region IS NULL")
    table.upsert(altered_rows(range(10, 20), 8, table.schema))
    table.rollback(table.meta.snapshots.latest_id() - 2)
    side = table.branch("side")
    side.upsert(rows(range(100, 104), 9))
    side.alter(add_column("side", "BOOLEAN NOT NULL", default=True))


def altered_rows(ids: range, version: int, schema: pa.Schema) -> pa.Table:
    """`rows` as they are after the alteration, without the columns that it added."""
    made = rows(ids, version).drop_columns(["b"]).rename_columns({"i32": "version"}).to_pylist()
    for row in made:
        row["who"] = row["who"] and {"name": row["who"]["name"], "years": row["who"]["age"]}
    who = pa.struct([("name", pa.string()), ("years", pa.int32())])
    fields = [schema.field(name) if name != "who" else pa.field("who", who) for name in made[0]]
    return pa.Table.from_pylist(made, schema=pa.schema(fields))


def answer(table: Table) -> dict[str, list]:
    """The rows at every snapshot, tag and branch as text, sorted: what any later release must read."""
    scans = {str(number): table.scan(snapshot=number) for number in table.snapshots()["snapshot_id"].to_pylist()}
    scans |= {f"tag {name}": table.scan(tag=name) for name in table.tags()["tag_name"].to_pylist()}
    scans |= {f"branch {name}": table.scan(branch=name) for name in table.branches()["branch_name"].to_pylist()}
    return {
        name: sorted(json.dumps(row, default=str, ensure_ascii=False) for row in scan.to_arrow().to_pylist())
        for name, scan in scans.items()
    }


def build_partitioned(lake: Lake) -> None:
    """A table with three partition specs, of all transforms."""
    lake.create_database("golden")
    columns = "id BIGINT, code STRING, at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, money DECIMAL(9,2), raw BINARY, n INT"
    table = lake.create_table("golden.parts", columns, partition_by=["days(at)", "bucket(3, id)"])
    table.append(moments(range(6), table.schema))
    table.alter(
        drop_partition_field("days(at)"),
        replace_partition_field("bucket(3, id)", "truncate(2, code)"),
        add_partition_field("years(local)", name="decade"),
        add_partition_field("bucket(2, money)"),
    )
    table.append(moments(range(4, 9), table.schema))
    table.alter(
        replace_partition_field("decade", "months(local)"),
        replace_partition_field("money_bucket_2", "truncate(50, money)"),
        replace_partition_field("truncate(2, code)", "truncate(1, raw)"),
        add_partition_field("hours(at)"),
        add_partition_field("day"),
        add_partition_field("bucket(4, code)"),
    )
    table.append(moments(range(7, 10), table.schema))
    table.delete("id = 2000")


def moments(ids: range, schema: pa.Schema) -> pa.Table:
    """Rows on both sides of 1970, one without values."""
    made: list[dict] = [{"id": None}] if 5 in ids else []
    for i in ids:
        at = d.datetime(1970, 1, 1) + d.timedelta(hours=17 * (i - 4), microseconds=-1)
        made.append(
            {
                "id": i * 1000 - 3000,
                "code": ["", "a", "äßx", "\U0010ffff" * 3][i % 4],
                "at": at.replace(tzinfo=d.timezone.utc),
                "local": at.replace(year=1965 + i),
                "day": at.date(),
                "money": Decimal(i * 37 - 150) / 100,
                "raw": bytes([255, i])[: i % 3],
                "n": i,
            }
        )
    return pa.Table.from_pylist(made, schema=schema)


def partitions_answer(table: Table) -> dict[str, list]:
    """The rows at every snapshot, and how many are in which partition: both are what any later release must find."""
    found = table.partitions()
    counts = zip(found["partition"].to_pylist(), found["record_count"].to_pylist(), strict=True)
    return answer(table) | {"partitions": sorted(f"{partition}: {rows}" for partition, rows in counts)}


def build_retained(lake: Lake) -> None:
    """A table whose files of retained deletes ignore rows that wait at level 0. Sequences are a number, then a text."""
    lake.create_database("golden")
    columns = "day DATE NOT NULL, id BIGINT NOT NULL, x DOUBLE, s STRING, v INT"
    options = {"bucket": 1, "sequence.field": "x,s", "sequence.delete-retained": "36500 d"}
    table = lake.create_table("golden.retained", columns, primary_key=["day", "id"], partition_by=["day"], options=options)
    table.upsert(sequenced("+I", range(12), 1.5, "a"), row_kind="op")
    table.upsert(sequenced("-D", range(0, 12, 2), 3.5, "b"), row_kind="op")
    table.upsert(sequenced("+U", range(0, 12, 4), 3.5, "c"), row_kind="op")  # deleted no more
    table.upsert(sequenced("-D", range(1, 12, 4), 4.5, None), row_kind="op", compact=False)
    table.upsert(sequenced("+U", range(12), 3.5, "a"), row_kind="op", compact=False)


def sequenced(kind: str, ids: Sequence[int], x: float, s: str | None) -> pa.Table:
    days = [d.date(1970, 1, 1 + i % 2) for i in ids]
    texts, kinds = pa.array([s] * len(ids), pa.string()), [kind] * len(ids)
    return pa.table({"day": days, "id": ids, "x": [x] * len(ids), "s": texts, "v": pa.array(ids, pa.int32()), "op": kinds})


def build_buckets(lake: Lake) -> None:
    """A table whose partitions have other covers: buckets of several totals, one of them without files, and a number that is no
    power of two. Rows wait at level 0, and retained deletes were divided."""
    lake.create_database("golden")
    columns = "day DATE NOT NULL, id BIGINT NOT NULL, x DOUBLE, s STRING, v INT"
    options = {"bucket": 2, "sequence.field": "x,s", "sequence.delete-retained": "36500 d"}
    table = lake.create_table("golden.buckets", columns, primary_key=["day", "id"], partition_by=["day"], options=options)
    table.upsert(sequenced("+I", range(60), 1.5, "a"), row_kind="op")
    table.upsert(sequenced("-D", range(0, 60, 3), 3.5, "b"), row_kind="op")
    table.rescale(3, where="day = '1970-01-02'")
    for share in (Share(1, 2), Share(3, 4)):
        split_bucket(table, share, d.date(1970, 1, 1))
    table.upsert(sequenced("+U", range(90), 2.5, "c"), row_kind="op", compact=False)
    in_one = pc.equal(pa.array(bucket_of([pa.array(range(0, 200, 2), pa.int64())], 8)), 7)
    gone = pa.array(range(0, 200, 2)).filter(in_one).to_pylist()
    table.delete_keys(sequenced("-D", gone, 9.5, "d").select(["day", "id"]), ignore_sequence=True)
    table.compact(full=True)
    table.upsert(sequenced("+I", range(61, 70, 2), 5.5, "e"), row_kind="op", compact=False)


def split_bucket(table: Table, share: Share, day: d.date) -> None:
    """Splits one bucket of a partition in two."""
    steps = [Reshaping((share,), share.parts(2))]
    reshape(table.version, lambda cover, states: steps if cover.has(share) else [], lambda bucket: bucket.partition == (day,))


def buckets_answer(table: Table) -> dict[str, list]:
    """The rows at every snapshot, and the buckets that have files."""
    buckets = sorted(f"{b.partition[0]}: {b.number} of {s.total_buckets}" for b, s in table.states().items())
    return answer(table) | {"buckets": buckets}


TABLES = {
    "v1": ("golden.all", build, answer),
    "transforms-v1": ("golden.parts", build_partitioned, partitions_answer),
    "retained-v1": ("golden.retained", build_retained, answer),
    "buckets-v1": ("golden.buckets", build_buckets, buckets_answer),
}


def main(target: Path) -> None:
    ids, ticks = itertools.count(1), itertools.count()
    env = Env(
        LocalStorage(target / "warehouse"),
        clock=lambda: 1_767_225_600_000 + next(ticks),
        ids=lambda: f"{next(ids):04d}",
        random=lambda: 0.5,
        sleep=lambda seconds: None,
        followers=FOLLOWERS,
    )
    lake = Lake(env, Runtime())
    name, make, describe = TABLES[target.name]
    make(lake)
    (target / "expected.json").write_text(json.dumps(describe(lake.table(name)), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
