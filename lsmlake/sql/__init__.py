"""`Lake.sql`: statements of Spark SQL, executed in this process by DuckDB and the verbs of tables."""
