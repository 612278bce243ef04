"""Events of Debezium for benches, and their unpacking by hand. Imports nothing of lsmlake: sides of other Sparks use it, too."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_FIELDS = "id BIGINT, status STRING, amount STRING, day INT, at BIGINT, note STRING"


def by_hand(df: DataFrame) -> DataFrame:
    """The row after each event, or before a delete, with `op` and `lsn`."""
    shape = f"op STRING, before STRUCT<{_FIELDS}>, after STRUCT<{_FIELDS}>, source STRUCT<lsn: BIGINT>"
    parsed = df.select(F.from_json("value", shape).alias("e"))
    row = F.when(F.col("e.op") == "d", F.col("e.before")).otherwise(F.col("e.after"))
    rows = parsed.select(row.alias("r"), F.col("e.op").alias("op"), F.col("e.source.lsn").alias("lsn"))
    typed = (
        "r.id",
        "r.status",
        "cast(r.amount as decimal(10,2)) as amount",
        "date_from_unix_date(r.day) as day",
        "timestamp_micros(r.at) as at",
        "r.note",
    )
    return rows.selectExpr(*typed, "op", "lsn")


def row_of(number: int) -> dict[str, object]:
    """Each third event changes the key of the one before it."""
    key = number - 1 if number % 3 == 2 else number
    micros = 1_700_000_000_000_000 + number
    return {
        "id": key,
        "status": "paid",
        "amount": f"{number}.25",
        "day": 19_000 + number % 500,
        "at": micros,
        "note": f"note {number}",
    }


def payload(number: int, key: int | None = None) -> dict[str, object]:
    """The event of a number: a third are updates, a tenth deletes. `key`: instead of the one of the number."""
    row = row_of(number) if key is None else {**row_of(number), "id": key}
    deleted = number % 10 == 9
    source = {
        "version": "3.1.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1_700_000_000_000,
        "snapshot": "false",
    }
    source |= {"db": "shop", "sequence": '["24023119","24023128"]', "schema": "public", "table": "orders", "txId": 555}
    return {
        "before": row if deleted else None,
        "after": None if deleted else row,
        "source": {**source, "lsn": 24_023_128 + number, "xmin": None},
        "transaction": None,
        "op": "d" if deleted else "u" if number % 3 == 2 else "c",
        "ts_ms": 1_700_000_000_100,
    }
