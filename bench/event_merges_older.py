"""The side of Hudi in the bench `event_merges`, in a process of its own: its newest bundle at hand is for an older Spark.

    python -m bench.event_merges_older FOLDER ROUNDS JAR ...

`FOLDER` has the events, as the bench has written them. Applies all batches in order, writes the rows that result to the folder
`rows`, and prints what each batch took, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.debezium_events import by_hand
from bench.peers.hudi import Hudi, write_options
from bench.peers.spark import session
from bench.timing import clock

NAMES = ("id", "status", "amount", "day", "at", "note")
ROWS = "rows"


class HudiTable:
    """A table in a folder."""

    def __init__(self, spark: SparkSession, folder: Path, ordering: str) -> None:
        """`ordering`: the option that names the columns by which the newest row of a key is found."""
        self.spark, self.folder = spark, str(folder)
        self.options = {**write_options("id", "BUCKET"), **Hudi.inline, ordering: "lsn"}

    def load(self, parsed: DataFrame) -> None:
        self._write(parsed.where("op <> 'd'"), "bulk_insert")

    def apply(self, events: DataFrame) -> None:
        self._write(by_hand(events), "upsert")

    def rows(self) -> DataFrame:
        return self.spark.read.format("hudi").load(self.folder).select(*NAMES)

    def _write(self, parsed: DataFrame, operation: str) -> None:
        marked = parsed.selectExpr(*NAMES, "lsn", "op = 'd' AS _hoodie_is_deleted")
        how = {**self.options, "hoodie.datasource.write.operation": operation}
        marked.write.format("hudi").options(**how).mode("append").save(self.folder)


def main(folder: Path, rounds: int, jars: Sequence[Path]) -> list[tuple[float, float]]:
    """What each batch took, by the clock and by CPU, the one before the first round included."""
    conf = {**Hudi.conf, "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"}
    spark = session(folder / "older", jars, conf)
    table = HudiTable(spark, folder / "hudi-older", "hoodie.datasource.write.precombine.field")
    table.load(by_hand(spark.read.parquet(str(folder / "first.parquet"))))
    spent = []
    for number in range(rounds + 1):
        events = spark.read.parquet(str(folder / f"events-{number}.parquet"))
        spent.append(tuple(clock(partial(table.apply, events))))
    table.rows().write.parquet(str(folder / ROWS))
    spark.stop()
    return spent


if __name__ == "__main__":
    given = sys.argv[1:]
    print(json.dumps(main(Path(given[0]), int(given[1]), [Path(jar) for jar in given[2:]])), flush=True)
