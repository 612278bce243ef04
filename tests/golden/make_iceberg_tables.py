"""Makes `iceberg-tables.zip`: tables that Spark wrote with Iceberg's Java library, and the rows that Spark shows.

    python tests/golden/make_iceberg_tables.py iceberg-spark-runtime-4.1_2.13-1.12.0.jar

Three tables: `v2` with files of position deletes, `v3` with deletion vectors, and `evolved`, whose columns and partitions were
altered. Only the files that the current snapshots need are kept.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

from lsmlake.imports.from_iceberg import read_iceberg
from lsmlake.storage.location import Outside

COLUMNS = (
    "id BIGINT NOT NULL, ts TIMESTAMP, name STRING, amount DECIMAL(9,2), small INT, ratio FLOAT, f DOUBLE, tags ARRAY<STRING>, "
    "attrs MAP<STRING,INT>, p STRUCT<a:INT,b:STRING>, d DATE, b BINARY, flag BOOLEAN, ntz TIMESTAMP_NTZ"
)
PROPERTIES = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read', "
    "'write.metadata.compression-codec'='gzip', 'write.distribution-mode'='none'"
)


def rows(start: int, stop: int) -> str:
    return f"""
        SELECT id, timestamp_seconds(id * 40000), CASE WHEN id % 7 = 0 THEN NULL ELSE concat('name-', id) END,
            CAST(id * 1.25 AS DECIMAL(9,2)), CAST(id AS INT), CAST(id / 4 AS FLOAT),
            CASE WHEN id = 5 THEN double('NaN') ELSE id * 0.5 END, array(concat('t', id), NULL), map('k', CAST(id AS INT)),
            named_struct('a', CAST(id AS INT), 'b', string(id)), date_add(date'2026-01-01', CAST(id AS INT)),
            CAST(string(id) AS BINARY), id % 2 = 0, CAST(timestamp_seconds(id) AS TIMESTAMP_NTZ)
        FROM range({start}, {stop})"""


TABLES = {
    "v2": [
        f"CREATE TABLE v2 ({COLUMNS}) USING iceberg PARTITIONED BY (bucket(2, id), days(ts)) "
        f"TBLPROPERTIES ('format-version'='2', {PROPERTIES})",
        f"INSERT INTO v2 {rows(0, 6)}",
        f"INSERT INTO v2 {rows(6, 8)}",
        "DELETE FROM v2 WHERE id IN (1, 3, 6)",
        "UPDATE v2 SET name = 'changed' WHERE id = 4",
    ],
    "v3": [
        f"CREATE TABLE v3 ({COLUMNS}) USING iceberg PARTITIONED BY (truncate(1, name)) "
        f"TBLPROPERTIES ('format-version'='3', {PROPERTIES})",
        f"INSERT INTO v3 {rows(6, 36)}",
        "DELETE FROM v3 WHERE id % 4 = 1",
        "DELETE FROM v3 WHERE id = 8",
        "UPDATE v3 SET amount = 0 WHERE id = 10",
    ],
    "evolved": [
        f"CREATE TABLE evolved ({COLUMNS}) USING iceberg PARTITIONED BY (flag, months(d)) "
        f"TBLPROPERTIES ('format-version'='2', {PROPERTIES})",
        f"INSERT INTO evolved {rows(0, 4)}",
        "ALTER TABLE evolved RENAME COLUMN name TO title",
        "ALTER TABLE evolved ALTER COLUMN small TYPE BIGINT",
        "ALTER TABLE evolved ALTER COLUMN ratio TYPE DOUBLE",
        "ALTER TABLE evolved ALTER COLUMN amount TYPE DECIMAL(12,2)",
        "ALTER TABLE evolved DROP COLUMN f",
        "ALTER TABLE evolved ADD COLUMN f STRING AFTER id",
        "ALTER TABLE evolved ADD COLUMN p.c BIGINT",
        "ALTER TABLE evolved RENAME COLUMN p.a TO z",
        "ALTER TABLE evolved REPLACE PARTITION FIELD months(d) WITH years(d)",
        "ALTER TABLE evolved DROP PARTITION FIELD flag",
        "INSERT INTO evolved (id, f, ts, title, small, p, flag, d) SELECT id, 'new', timestamp_seconds(id), 't', 5000000000, "
        "named_struct('z', 1, 'b', 'x', 'c', 7000000000), true, date'2027-01-01' FROM range(10, 13)",
        "DELETE FROM evolved WHERE id IN (2, 11)",
    ],
}


class Noting(Outside):
    """Notes which files were read."""

    def read(self, uri: str) -> bytes:
        used.add(uri)
        return super().read(uri)


used: set[str] = set()


def main(jar: str, folder: Path) -> None:
    catalog = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": f"{folder}/w"}
    builder = SparkSession.builder.master("local[1]").config("spark.jars", jar).config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions").config(
        "spark.sql.shuffle.partitions", "1"
    )
    for name, value in catalog.items():
        builder = builder.config(f"spark.sql.catalog.i{name}", value)
    spark = builder.getOrCreate()
    spark.sql("USE i")
    with zipfile.ZipFile(Path(__file__).parent / "iceberg-tables.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for name, statements in TABLES.items():
            for statement in statements:
                spark.sql(statement)
            shown = [json.loads(row) for row in spark.table(name).toJSON().collect()]
            stored = spark.sql(f"SELECT sum(record_count) FROM i.{name}.data_files").first()[0]
            packed.writestr(f"{name}.json", json.dumps({"rows": shown, "raw": stored}))
            used.clear()
            found = read_iceberg(Noting(), f"{folder}/w/{name}", None, partitioned=True, workers=1)
            files = {one.uri for one in (*found.files, *found.position_deletes)}
            files |= {one.vector.uri for one in found.files if one.vector is not None} | used
            for uri in sorted(files):
                path = Path(uri.removeprefix("file:"))
                packed.write(path, path.relative_to(folder / "w"))
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(sys.argv[1], Path(temporary))
