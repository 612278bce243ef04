"""`format("lsmlake")`: a table as a data source of Spark."""
