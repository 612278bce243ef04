"""Works on a table with workers that lack lsmlake, before and after it is shipped to them: see test_spark_shipped.py.

    shipped_program.py FOLDER PYTHON classic|connect

Prints a JSON object with the errors of the two runs, `nothing` (not shipped) and `shipped`; "" is success.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from spark_support import classic_session, connect_session

import lsmlake

AVAILABLE = {"availableNow": True}


def work(spark, folder: Path, name: str, streams: bool) -> str:
    """Every kind of task there is: write, stream in, stream out, read, compact. The error, if any."""
    lake = lsmlake.connect(folder / name, spark=spark)
    lake.create_database("d")
    how = {"primary_key": ["id"], "options": {"bucket": 2, "write.collect-rows": 0}}  # by tasks, always
    table, copy = (lake.create_table(f"d.{n}", "id BIGINT NOT NULL, v BIGINT", **how) for n in ("t", "copy"))
    try:
        table.upsert(spark.range(100).selectExpr("id", "id AS v"))
        if not streams:
            return ""
        spark.range(100, 200).selectExpr("id", "id AS v").write.parquet(str(folder / name / "in"))
        source = spark.readStream.schema("id BIGINT, v BIGINT").parquet(str(folder / name / "in"))
        sink = table.sink(writer_id="s")

        def both(df, batch_id: int) -> None:
            sink(df, batch_id)

        writer = source.writeStream.foreachBatch(both).option("checkpointLocation", str(folder / name / "c1"))
        writer.trigger(**AVAILABLE).start().awaitTermination()
        table.delete_keys(spark.range(10), compact=False)
        table.compact(full=True)
        stream = table.read_stream()
        copy.write_stream(
            stream, checkpoint=str(folder / name / "c2"), trigger=AVAILABLE, row_kind="_row_kind"
        ).awaitTermination()
        by_format = spark.read.format("lsmlake").load(str(folder / name / "d.db" / "copy"))
        counts = [table.scan().to_spark("arrow").count(), copy.df().count(), by_format.where("id > 9").count()]
        return "" if counts == [190, 190, 190] else f"wrong rows: {counts}"
    except Exception as failure:
        return str(failure)


def main(folder: Path, python: str, kind: str) -> None:
    spark = (classic_session if kind == "classic" else connect_session)(folder / "spark", python)
    found = {"nothing": work(spark, folder, "nothing", False)}
    for _ in range(2):  # the second time does nothing
        lsmlake.ship(spark)
    found["shipped"] = work(spark, folder, "shipped", True)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
