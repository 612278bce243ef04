"""Tables of Iceberg, Delta Lake and Parquet files that become tables of lsmlake."""
