"""Makes the content of `delta-tables.zip`: tables that Spark wrote with Delta Lake, and the rows that Spark shows.

    SPARK_JARS=delta-spark_4.1_2.13-4.4.0.jar,... python tests/golden/make_delta_tables.py FOLDER

SPARK_JARS: the jar of Delta Lake and those that it needs, separated by commas.

`mapped`: a column mapping, a partition value with a blank, a renamed, an added and a dropped column, deletion vectors.
`plain`: no column mapping, partitions by date, deletion vectors, a widened column.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

folder = Path(sys.argv[1]).absolute()
builder = SparkSession.builder.master("local[1]").config("spark.jars", os.environ["SPARK_JARS"])
for name, value in {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()


def run(text: str) -> None:
    spark.sql(text.replace("MAPPED", f"delta.`{folder}/mapped`").replace("PLAIN", f"delta.`{folder}/plain`"))


run("""CREATE TABLE MAPPED (k INT NOT NULL COMMENT 'the key', p STRING, d DATE, ts TIMESTAMP, x DECIMAL(10, 2),
    s STRUCT<a: INT, b: ARRAY<STRING>>, m MAP<STRING, INT>) USING delta PARTITIONED BY (p) COMMENT 'orders' TBLPROPERTIES (
    'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '3',
    'delta.minWriterVersion' = '7')""")
run("""INSERT INTO MAPPED SELECT CAST(id AS INT), CASE id % 3 WHEN 0 THEN NULL WHEN 1 THEN 'a' ELSE 'b c' END, DATE'2026-01-01',
    TIMESTAMP'2026-01-01 10:00:00', CAST(id AS DECIMAL(10, 2)),
    named_struct('a', CAST(id AS INT), 'b', array(CAST(id AS STRING))),
    map('x', CAST(id AS INT)) FROM range(0, 60, 1, 1)""")
run("DELETE FROM MAPPED WHERE k % 10 = 0")
run("ALTER TABLE MAPPED RENAME COLUMN x TO amount")
run("ALTER TABLE MAPPED ADD COLUMN note STRING")
run("ALTER TABLE MAPPED DROP COLUMN d")
run("UPDATE MAPPED SET note = 'u' WHERE k BETWEEN 11 AND 22")
run("""INSERT INTO MAPPED VALUES
    (1000, 'a', TIMESTAMP'2026-02-01 00:00:00', 1.25, named_struct('a', NULL, 'b', NULL), NULL, 'n')""")
run("""CREATE TABLE PLAIN (id INT, d DATE, v STRING, w DOUBLE) USING delta PARTITIONED BY (d)
    TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableTypeWidening' = 'true')""")
run("""INSERT INTO PLAIN SELECT CAST(id AS INT), date_add(DATE'2026-01-01', CAST(id % 2 AS INT)), CAST(id AS STRING), id / 4
    FROM range(0, 40, 1, 1)""")
run("DELETE FROM PLAIN WHERE id % 7 = 3")
run("ALTER TABLE PLAIN ALTER COLUMN id TYPE BIGINT")
run("INSERT INTO PLAIN VALUES (5000000000, NULL, NULL, double('NaN'))")
for name, key in (("mapped", "k"), ("plain", "id")):
    rows = [row.asDict(True) for row in spark.read.format("delta").load(str(folder / name)).orderBy(key).collect()]
    (folder / f"{name}.json").write_text(json.dumps(rows, default=str, indent=0))
for path in folder.rglob("*"):
    if path.is_file() and path.suffix == ".crc":  # checksums that no reader needs
        path.unlink()
