"""Tables that lsmlake publishes as Iceberg metadata, read by the readers of others, each in an environment of its own.

    python -m tests.readers

`tables` builds tables of every kind and asks questions about them, with lsmlake's own answers; `environments` makes the
environments of the readers; `spark`, `duckdb`, `pyiceberg` and `polars` are the programs that run in them, which import nothing
of lsmlake; `judge` compares the answers; `busy` lets the readers read while a writer expires snapshots.
"""
