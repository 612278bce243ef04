"""Works on a table in an object store with Spark: DataFrames, streams, SQL, the catalog: see test_spark_objects.py.

    object_program.py FOLDER ADDRESS classic|connect

Reads storage_options, as JSON, from its standard input. Prints a JSON object: the rows that it found, and texts that users see.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

from spark_support import classic_session, connect_session

import lsmlake

AVAILABLE = {"availableNow": True}
ROWS = 400


def work(spark, folder: Path, lake: lsmlake.Lake) -> dict[str, object]:
    """Level 0, deletion vectors, a changelog and a branch are in the table when it is read."""
    lake.create_database("d")
    options = {"bucket": 1, "write.collect-rows": 0, "changelog-producer": "lookup"}  # by tasks, always
    how = {"primary_key": ["k", "p"], "partition_by": ["p"], "options": options}
    table, copy = (lake.create_table(f"d.{name}", "k BIGINT NOT NULL, p INT, v BIGINT", **how) for name in ("t", "copy"))
    table.upsert(spark.range(ROWS).selectExpr("id AS k", "int(id % 2) AS p", "id AS v"))
    table.upsert(spark.range(20).selectExpr("id AS k", "int(id % 2) AS p", "-id AS v"))
    table.create_branch("b")
    lake.table("d.t$branch_b").upsert(spark.range(2).selectExpr("id AS k", "int(id) AS p", "7L AS v"))
    table.delete(where="k = 5")
    one = spark.sql("SELECT 6L AS k, 0 AS p, 600L AS v")
    table.merge(one, on="t.k = s.k AND t.p = s.p").when_matched_update({"v": "s.v"}).execute()
    table.compact(full=True)
    stream = table.read_stream()  # all rows, then changes
    copy.write_stream(stream, checkpoint=str(folder / "checkpoint"), trigger=AVAILABLE, row_kind="_row_kind").awaitTermination()
    table.upsert(spark.range(2).selectExpr("id AS k", "int(id) AS p", "1000 + id AS v"), compact=False)
    lake.sql("UPDATE d.t SET v = v + 1 WHERE k = 7")
    lake.register_tables(spark)
    changes, entry = table.changes(1, 2).to_spark(), spark.table("d.copy")
    frames = {strategy: table.scan().to_spark(strategy) for strategy in ("auto", "arrow")}
    shown = io.StringIO()
    with redirect_stdout(shown):
        for frame in (*frames.values(), stream, changes, entry):
            frame.explain(True)
    found = {
        "rows": {name: sorted(map(list, frame.collect())) for name, frame in frames.items()},
        "branch": lake.table("d.t$branch_b").df(where="v = 7").count(),
        "files": lake.sql("SELECT count(*) AS n FROM d.`t$files`").collect()[0].n > 0,
        "changes": changes.count(),
        "copied": entry.count(),
        "counted": lake.sql("SELECT count(*) AS n FROM d.t WHERE p = 1").collect()[0].n,
        "explained": str(table.scan().explain()),
        "verified": len(table.verify()),
    }
    try:
        frames["auto"].selectExpr("assert_true(k < 0)").limit(1).collect()
    except Exception as error:
        shown.write(str(error))
    shown.write("".join(map(repr, (lake, table, table.scan(), table.scan().plan(), lake.env, lake.env.storage))))
    return {**found, "shown": shown.getvalue()}


def main(folder: Path, address: str, kind: str) -> None:
    spark = (classic_session if kind == "classic" else connect_session)(folder / "spark")
    try:
        lake = lsmlake.connect(address, storage_options=json.load(sys.stdin), spark=spark)
        print(json.dumps(work(spark, folder, lake)))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
