"""Spark decides what a statement means: statements run in this process, compared with what Spark makes of them.

    python -m tests.spark_sql golden     the golden files of Spark's own suite, over tables of many layouts; no JVM
    python -m tests.spark_sql random     statements from a grammar, beside PySpark
    python -m tests.spark_sql tpcds      the queries of TPC-DS, beside PySpark

`jar` gets the tests of Spark from Maven, `golden` reads the files, `views` makes tables of their views, which `layouts` writes
with a past, `hive` prints values as the files do, `judge` compares, `verdict` has the kinds of outcomes and the reasons of
refusals; `grammar` writes random statements over three tables, `beside` asks this process and a `session` of PySpark.

A statement is **equal**, **refused** by name, an **error in both**, **wrong** (other rows or types, an error that is no refusal,
rows where Spark raises an error), or **foreign**: an error of another module, or with a word that the user did not write. There
is no list of what may be wrong.
"""
