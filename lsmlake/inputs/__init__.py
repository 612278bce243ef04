"""Data of users as Arrow tables: files (CSV, JSON, Excel, Parquet), frames, dicts."""
