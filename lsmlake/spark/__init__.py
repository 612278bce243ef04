"""Reads and writes tables with Spark. Only this package imports pyspark.

Columns are chosen by SQL text: a list of them is then one call of the JVM, while each Column object costs 1 ms.
"""
