"""Reads and writes tables with Spark. Only this package imports pyspark.

Columns are selected by SQL text: a list of texts is one call of the JVM, while each Column object costs 1 ms.
"""
