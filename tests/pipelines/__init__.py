"""Proves `Lake.sync` with real databases: PostgreSQL or MariaDB, read by Debezium's engine, whose events `lake.sync` applies.

    python -m tests.pipelines --database mariadb --seconds 60
    python -m tests.pipelines --through kafka       # needs pyspark 4.2
    python -m tests.pipelines --database mariadb --record 30
    python -m tests.pipelines --registry            # events in Avro, beside a registry of schemas

A program changes the tables of a bank in the database: transfers, large transactions, large values (which PostgreSQL stores
outside the row), deletes, TRUNCATE, ALTER TABLE, and a row of every type. The engine and the process of the sync are killed at
random and started again. Whenever the changes pause, the tables of the lake are compared with those of the database, row by row
and type by type, and no table may have a batch twice.

The events go over files to a process, or over a broker of Kafka to a stream of Spark, whose driver and executors are killed; the
executors run on a standalone cluster. `--record` writes the events and the rows of a run to `tests/golden/databases`, which
`tests/cdc/test_recorded_databases.py` applies without a server.

Needed: the programs of PostgreSQL 14 or newer, or of MariaDB 10.7 or newer; Java 17; and Maven with its repository, from which
Debezium and Kafka come.
"""
