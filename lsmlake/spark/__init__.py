"""The verbs on Spark: the only room that imports pyspark."""
