"""The table as a table of Apache Iceberg: publishes, checks and repairs its metadata."""
