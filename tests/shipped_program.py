"""Works on a table with workers that lack lsmlake, before and after it is shipped to them: see test_spark_shipped.py.

    shipped_program.py FOLDER PYTHON ZIP classic|connect

Prints a JSON object: what came of `nothing` done, and of the zip `shipped`; "" when all went well.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from spark_support import classic_session, connect_session

import lsmlake


def work(spark, folder: Path, name: str, streams: bool) -> str:
    """Every kind of task there is: write, stream, read, compact. The error, if any."""
    lake = lsmlake.connect(folder / name, spark=spark)
    lake.create_database("d")
    table = lake.create_table("d.t", "id BIGINT NOT NULL, v BIGINT", primary_key=["id"], options={"bucket": 2})
    rows = spark.range(100).selectExpr("id", "id AS v")
    try:
        table.upsert(rows)
        if streams:
            rows.write.parquet(str(folder / name / "in"))
            source = spark.readStream.schema("id BIGINT, v BIGINT").parquet(str(folder / name / "in"))
            query = table.write_stream(source, checkpoint=str(folder / name / "c"), trigger={"availableNow": True})
            query.awaitTermination()
        table.delete_keys(spark.range(10), compact=False)
        table.compact(full=True)
        return "" if table.scan().to_spark("arrow").count() == 90 else "wrong rows"
    except Exception as failure:
        return str(failure)


def main(folder: Path, python: str, zipped: str, kind: str) -> None:
    classic = kind == "classic"
    spark = (classic_session if classic else connect_session)(folder / "spark", python)
    found = {"nothing": work(spark, folder, "nothing", False)}
    if classic:
        spark.sparkContext.addPyFile(zipped)
    else:
        spark.addArtifact(zipped, pyfile=True)
    # the process in which a Connect server calls foreachBatch functions looks at no artifacts
    found["shipped"] = work(spark, folder, "shipped", streams=classic)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
