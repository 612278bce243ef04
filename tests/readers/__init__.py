"""Tables that lsmlake publishes as Iceberg metadata, read by the readers of others, each in an environment of its own.

    python -m tests.readers

`tables` builds tables of every kind and asks `questions` about them, with lsmlake's own answers; `environments` makes the
environments of the readers; `spark_reader`, `duckdb_reader`, `pyiceberg_reader`, `polars_reader` and `trino_reader` are the
programs that run in them, which import nothing of lsmlake, through `answering`; `judge` compares the answers; `busy` lets the
readers read while a writer expires snapshots; `duckdb_page`, `spark_page` and `trino_page` run the code of the pages on these
readers.

Trino runs only where the variable `TRINO_JAVA_HOME` names the home of a JDK 25 (`trino_server` starts it).
"""
