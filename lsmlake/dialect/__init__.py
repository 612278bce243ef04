"""Spark SQL for DuckDB: parses SQL text, types it by Spark's rules and translates it."""
