"""Makes the golden tables of Apache Iceberg, format version 3, which Iceberg's own Java code writes: metadata files, manifest
lists, manifests, deletion vectors. They are made once; tests/iceberg/test_iceberg_java.py decodes them.

    python -m bench peers --setup --only iceberg
    ~/.cache/lsmlake-bench/env/spark/bin/python tests/golden/iceberg/make.py ~/.cache/lsmlake-bench/jars/iceberg-*/*.jar
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

HERE = Path(__file__).parent
PLACE = Path("/tmp/lsmlake-iceberg-golden")
"""Where the tables lie when they are made: their metadata names files by their whole addresses."""
PROPERTIES = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.distribution-mode": "none",
    "write.parquet.compression-codec": "zstd",
}


def main(jar: str) -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    spark = session(jar)
    for make in (make_types, make_vectors, make_rows):
        make(spark)
    for table in sorted((PLACE / "golden").iterdir()):
        keep(table)
    spark.stop()
    shutil.rmtree(PLACE)


def session(jar: str) -> SparkSession:
    settings = {
        "spark.driver.extraClassPath": jar,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(PLACE),
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def create(spark: SparkSession, name: str, columns: str, *, partitions: str = "", **more: str) -> None:
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in {**PROPERTIES, **more}.items())
    parts = f"PARTITIONED BY ({partitions})" if partitions else ""
    spark.sql(f"CREATE TABLE lake.golden.{name} ({columns}) USING iceberg {parts} TBLPROPERTIES ({properties})")


def make_types(spark: SparkSession) -> None:
    """Columns and partitions of every type and transform."""
    create(
        spark,
        "types",
        """id BIGINT NOT NULL, b BOOLEAN, i INT, f FLOAT, x DOUBLE, small DECIMAL(5, 2), dec DECIMAL(38, 4), s STRING, bin BINARY,
        day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, y TIMESTAMP_NTZ, m TIMESTAMP, h TIMESTAMP_NTZ, d TIMESTAMP, code STRING,
        st STRUCT<x: INT, y: ARRAY<STRING>>, mp MAP<STRING, BIGINT>""",
        partitions="""b, i, small, dec, s, bin, day, at, local, years(y), months(m), hours(h), days(d), truncate(2, code),
        bucket(16, id)""",
    )
    columns = "b, i, f, x, small, dec, s, bin, day, at, local, y, m, h, d, code, st, mp"
    times = "TIMESTAMP '1969-12-31 23:59:59.000001Z', TIMESTAMP_NTZ '2026-01-02 03:04:05.000006'"
    times += ", TIMESTAMP_NTZ '1968-06-01 00:00:00', TIMESTAMP '2026-11-30 00:00:00Z', TIMESTAMP_NTZ '1970-01-01 05:00:00'"
    times += ", TIMESTAMP '1969-12-31 01:00:00Z'"
    spark.sql(
        f"""INSERT INTO lake.golden.types (id, {columns}) SELECT 1, true, 7, float(1.5), double(-2.5), -1.28,
        -123456789012345678901234567890.1234, 'ä€𝄞', X'00ff', DATE '1969-12-31', {times}, 'codes',
        named_struct('x', 1, 'y', array('a', NULL)), map('k', 1L)
        UNION ALL SELECT 2, {", ".join(["NULL"] * 18)}"""
    )


def make_vectors(spark: SparkSession) -> None:
    """One data file of 140,000 rows, the row at position p with id p, and its vector with containers of every form."""
    create(spark, "vectors", "id BIGINT")
    spark.range(0, 140_000, 1, 1).writeTo("lake.golden.vectors").append()
    some = "id >= 65536 AND id < 131072 AND id * id % 7 = 1"
    spark.sql(f"DELETE FROM lake.golden.vectors WHERE id < 30000 OR ({some}) OR id IN (131072, 131080, 139999)")


def make_rows(spark: SparkSession) -> None:
    """A table whose data files are kept, too: three files, vectors of two of them in one Puffin file, evolved columns, partitions
    of two specs, a null partition, a tag and a branch."""
    create(spark, "rows", "id BIGINT NOT NULL, p STRING, gone STRING, n INT", partitions="p")
    name = "lake.golden.rows"
    first = "(1, 'a', 'g', 1), (2, NULL, 'g', 2), (3, 'a', 'g', 3), (4, NULL, 'g', 4), (5, 'a', 'g', 5)"
    spark.sql(f"INSERT INTO {name} SELECT /*+ REPARTITION(1) */ * FROM VALUES {first}")
    spark.sql(f"ALTER TABLE {name} CREATE TAG first")
    spark.sql(f"DELETE FROM {name} WHERE id IN (1, 4)")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN gone")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN n TO number")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN number TYPE BIGINT")
    with_default(spark, name)
    spark.sql(f"ALTER TABLE {name} REPLACE PARTITION FIELD p WITH bucket(4, id)")
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH side")
    spark.sql(f"UPDATE {name} SET number = 6000000000 WHERE id = 3")


def with_default(spark: SparkSession, name: str) -> None:
    """Add a column with a default for the rows that are there, which Spark's SQL has no words for."""
    java = spark._jvm.org.apache.iceberg
    table = java.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    literal = java.expressions.Literal.of("x")
    table.updateSchema().addColumn("later", java.types.Types.StringType.get(), None, literal).commit()
    spark.sql(f"REFRESH TABLE {name}")


def keep(table: Path) -> None:
    """Copy what the tests read: the newest metadata file, and of the table `rows` the data files."""
    to = HERE / table.name
    shutil.rmtree(to, ignore_errors=True)
    (to / "metadata").mkdir(parents=True)
    newest = f"v{(table / 'metadata' / 'version-hint.text').read_text().strip()}.metadata.json"
    for path in table.rglob("*"):
        kept = path.suffix in (".avro", ".puffin") or path.name == newest or (path.suffix == ".parquet" and table.name == "rows")
        if path.is_file() and kept:
            copy = to / path.relative_to(table)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)


if __name__ == "__main__":
    main(sys.argv[1])
