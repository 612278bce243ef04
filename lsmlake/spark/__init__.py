"""Reads and writes tables with Spark. Only this package imports pyspark."""
